//! Tiny runs: they must work, agree with each other and say so in the agreed keys.

use bench::{Figure, Plan, Programs, Settings, measure};

fn tiny(workload: &str) -> Plan {
    Plan {
        workload: workload.parse().unwrap(),
        protocols: vec!["serial".into(), "harmony".into()],
        thetas: vec![0.0, 0.9],
        threads: vec![1, 2],
        sealing: vec![true, false],
        block_transactions: 100,
        transactions: 250,
        settings: Settings::default().with("rows", 200),
        programs: Programs::Sql,
        durability: None,
        repetitions: 1,
        seed: 1,
        allocations: None,
    }
}

/// Neither sealing nor the number of threads may show in the state.
#[test]
fn a_cell_leads_to_one_state_however_it_runs() {
    for workload in ["smallbank", "tpcb", "ycsb"] {
        let plan = tiny(workload);
        let figures = measure(&plan, &mut |_, _, _| {}).unwrap();
        assert_eq!(figures.len(), plan.cells().len());
        for protocol in ["serial", "harmony"] {
            for theta in [0.0, 0.9] {
                let mut digests: Vec<_> = figures
                    .iter()
                    .filter(|f| f.protocol == protocol && f.theta == theta)
                    .map(|f| &f.digest)
                    .collect();
                assert_eq!(digests.len(), 4);
                digests.dedup();
                assert_eq!(digests.len(), 1, "{workload} {protocol} {theta}");
            }
        }
        assert!(figures.iter().all(|f| f.rejected_share == 0.0));
    }
}

#[test]
fn a_ledger_is_written_on_request_and_a_figure_has_the_agreed_keys() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        durability: Some(folder.path().to_owned()),
        thetas: vec![0.5],
        threads: vec![1],
        sealing: vec![true],
        ..tiny("smallbank")
    };
    let figures = measure(&plan, &mut |_, _, _| {}).unwrap();
    assert!(figures.iter().all(|f| f.sync_us_p50 > Some(0.0)));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let json: serde_json::Value =
        serde_json::from_str(&Figure::to_json(&figures[0]).unwrap()).unwrap();
    let agreed = "workload protocol theta warehouses threads block_transactions sealing \
        committed_per_second committed_per_cpu_second abort_share deferred_share \
        latency_us_p50 latency_us_p99 digest";
    for key in agreed.split_whitespace() {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert!(json["warehouses"].is_null());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let mut unknown = tiny("ycsb");
    unknown.protocols = vec!["nonesuch".into()];
    assert!(measure(&unknown, &mut |_, _, _| {}).is_err());
    let mut unsealed = tiny("ycsb");
    unsealed.durability = Some(".".into());
    assert!(measure(&unsealed, &mut |_, _, _| {}).is_err());
}
