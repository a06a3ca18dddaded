//! Tiny runs: they must work, agree with each other and say so in the agreed keys.

use bench::{Plan, agreement, measure};
use concurrency::ExecutionPath;

const YCSB: &str = "ycsb:rows=200";

fn tiny(workload: &str) -> Plan {
    Plan {
        workloads: vec![workload.parse().unwrap()],
        protocols: vec!["serial".into(), "harmony".into()],
        thetas: vec![0.0, 0.9],
        threads: vec![1, 2],
        sealing: vec![true, false],
        block_transactions: vec![100],
        transactions: 250,
        repetitions: 1,
        ..Plan::default()
    }
}

/// Neither sealing nor the number of threads may show in the state.
#[test]
fn a_cell_leads_to_one_state_however_it_runs() {
    for workload in ["smallbank:rows=200", "tpcb:rows=200", YCSB] {
        let plan = tiny(workload);
        let measurements = measure(&plan, &mut |_, _, _| {}).unwrap();
        assert_eq!(measurements.len(), plan.cells().len());
        assert!(agreement::mismatches(&measurements).is_empty());
        for protocol in ["serial", "harmony"] {
            for theta in [0.0, 0.9] {
                let mut digests: Vec<_> = measurements
                    .iter()
                    .filter(|m| m.protocol == protocol && m.theta == Some(theta))
                    .map(|m| &m.digest)
                    .collect();
                assert_eq!(digests.len(), 4);
                digests.dedup();
                assert_eq!(digests.len(), 1, "{workload} {protocol} {theta}");
            }
        }
        assert!(measurements.iter().all(|m| m.rejected_share == 0.0 && m.undecided == 0));
        assert!(measurements.iter().all(|m| m.block_order || m.protocol != "serial"));
    }
}

/// Whatever the size of its blocks, serial execution takes the same order.
#[test]
fn block_order_leads_to_one_state_in_blocks_of_any_size() {
    let plan = Plan {
        protocols: vec!["serial".into()],
        block_transactions: vec![1, 7, 250],
        ..tiny(YCSB)
    };
    let measurements = measure(&plan, &mut |_, _, _| {}).unwrap();
    for pair in measurements.windows(2) {
        assert!(pair[0].theta != pair[1].theta || pair[0].digest == pair[1].digest);
    }
}

#[test]
fn a_state_that_should_be_another_one_is_shouted_about() {
    let mut measurements = measure(&tiny(YCSB), &mut |_, _, _| {}).unwrap();
    measurements[0].digest_agrees = false;
    let mismatches = agreement::mismatches(&measurements);
    assert_eq!(mismatches.len(), 1);
    assert!(mismatches[0].message.contains("serial"));
    assert!(bench::table::measurements(&measurements).render().contains("!! "));
}

#[test]
fn a_ledger_is_written_on_request_and_a_figure_has_the_agreed_keys() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        durability: vec![Some(folder.path().to_owned())],
        thetas: vec![0.5],
        threads: vec![1],
        sealing: vec![true],
        ..tiny("smallbank:rows=200")
    };
    let measurements = measure(&plan, &mut |_, _, _| {}).unwrap();
    assert!(measurements.iter().all(|m| m.sync_us_p50 > Some(0.0)));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let json: serde_json::Value =
        serde_json::from_str(&measurements[0].to_json().unwrap()).unwrap();
    let agreed = "workload protocol theta warehouses threads block_transactions sealing \
        committed_per_second committed_per_cpu_second abort_share deferred_share \
        latency_us_p50 latency_us_p99 executions ways digest";
    for key in agreed.split_whitespace() {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert!(json["warehouses"].is_null());
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_hint() {
    let mut unknown = tiny(YCSB);
    unknown.protocols = vec!["nonesuch".into()];
    let error = unknown.check().unwrap_err();
    assert!(error.message.contains("nonesuch") && error.hint.contains("serial"));
    let mut unsealed = tiny(YCSB);
    unsealed.durability = vec![Some(".".into())];
    assert!(unsealed.check().is_err());
    for nothing in [
        Plan { repetitions: 0, ..tiny(YCSB) },
        Plan { threads: vec![1, 0], ..tiny(YCSB) },
        Plan { thetas: vec![7.0], ..tiny(YCSB) },
    ] {
        assert!(measure(&nothing, &mut |_, _, _| {}).is_err());
    }
}

/// A protocol that prepares a block while the one before is finished does so on one thread too.
#[test]
fn overlapping_blocks_lead_to_one_state_on_any_number_of_threads() {
    let names = ["harmony:inter_block=on", "harmony:inter_block=on:fallback=defer"];
    let plan = Plan {
        protocols: names.map(str::to_owned).to_vec(),
        threads: vec![1, 2, 3],
        sealing: vec![false],
        block_transactions: vec![20],
        ..tiny(YCSB)
    };
    let measurements = measure(&plan, &mut |_, _, _| {}).unwrap();
    assert!(agreement::mismatches(&measurements).is_empty());
    assert!(measurements.iter().all(|m| m.share_of(ExecutionPath::Overlapped) > 0.5));
    assert!(measurements.iter().all(|m| m.undecided == 0 || m.protocol.contains("defer")));
    assert!(measurements.iter().any(|m| m.deferred_share > 0.0));
    for pair in measurements.iter().filter(|m| m.theta == Some(0.9)).collect::<Vec<_>>().windows(2)
    {
        assert!(pair[0].protocol != pair[1].protocol || pair[0].digest == pair[1].digest);
    }
}
