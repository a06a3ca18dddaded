//! Every workload under every protocol, on small worlds: `measure` checks the workload's own
//! conditions after each run, TPC-C's consistency conditions 1 to 4 among them.

use bench::{Measurement, Plan, Programs, Workload, measure};

fn plan(workload: Workload) -> Plan {
    Plan {
        workloads: vec![workload],
        protocols: protocols::ALL.iter().map(|entry| entry.info.name.to_owned()).collect(),
        threads: vec![2],
        block_transactions: vec![50],
        transactions: 250,
        repetitions: 1,
        ..Plan::default()
    }
}

fn measured(plan: &Plan) -> Vec<Measurement> {
    measure(plan, &mut |_, _, _| {}).unwrap()
}

fn workload(text: &str) -> Workload {
    text.parse().unwrap()
}

fn small_tpcc(warehouses: u64) -> Workload {
    workload("tpcc:customers=30:items=100").with("warehouses", warehouses)
}

#[test]
fn tpcc_keeps_conditions_1_to_4_under_every_protocol() {
    for warehouses in [1, 3] {
        let tpcc = small_tpcc(warehouses).with("mix", "even").with("remote_lines", 20);
        let plan = Plan { transactions: 750, ..plan(tpcc) };
        for measurement in measured(&plan) {
            // Of 150 NewOrders one in a hundred rolls back.
            assert!((0.0..0.01).contains(&measurement.rejected_share), "{measurement:?}");
        }
    }
}

/// TPC-C's history has no key. In blocks of one, a run's transactions take the positions that rows
/// of the load were given, block by block.
#[test]
fn rows_without_a_key_are_added_beside_those_that_were_loaded() {
    let tpcc = workload("tpcc:customers=10:items=10:mix=neworder-payment:payment=100");
    let plan = Plan { threads: vec![1], block_transactions: vec![1], ..plan(tpcc) };
    let all = measured(&Plan { transactions: 60, ..plan });
    for measurement in &all {
        assert_eq!(measurement.committed, 60, "{measurement:?}");
        assert_eq!(measurement.digest, all[0].digest, "{measurement:?}");
    }
}

#[test]
fn an_order_with_an_unused_item_leaves_nothing() {
    let tpcc = small_tpcc(1).with("mix", "neworder-payment").with("payment", 0);
    let all_abort = plan(tpcc.with("user_aborts", 100));
    let runs = [20, 40].map(|transactions| Plan { transactions, ..all_abort.clone() });
    let measurements: Vec<Measurement> = runs.iter().flat_map(measured).collect();
    for measurement in &measurements {
        assert_eq!(measurement.rejected_share, 1.0, "{measurement:?}");
        assert_eq!(measurement.digest, measurements[0].digest, "{measurement:?}");
    }
}

/// Of all workloads that are transactions, a small and hot one each.
#[test]
fn programs_from_sql_and_from_the_builder_run_again_alike_under_harmony() {
    let mixed = "ycsb:rows=200:reads=20:writes=20:rmws=20:commands=20:scans=10:inserts=10";
    let hot = "ycsb:rows=1000:reads=0:writes=0:commands=100:hot_keys=1:hot_accesses=80";
    let rest = [hot, mixed, "custom:rows=300", "smallbank:rows=100", "tpcb:rows=300"];
    let all = rest.map(workload).into_iter().chain([small_tpcc(1)]);
    for (number, workload) in all.enumerate() {
        let harmony = Plan { protocols: vec!["harmony".into()], ..plan(workload.clone()) };
        let [sql, ir] = [Programs::Sql, Programs::Ir].map(|programs| {
            let [one] = measured(&Plan { programs, ..harmony.clone() }).try_into().unwrap();
            one
        });
        let [sql_ends, ir_ends] = [&sql, &ir].map(|m: &Measurement| {
            (m.rerun_share, m.deferred_share, m.rejected_share, m.committed, m.digest.clone())
        });
        assert_eq!(sql_ends, ir_ends, "{workload}");
        // Lai 2023: commands on a hot spot turn no transaction away.
        assert!(number > 0 || sql.rerun_share == 0.0, "{sql:?}");
    }
}

#[test]
fn programs_from_sql_and_from_the_builder_lead_serial_to_the_same_state() {
    let mixed = "ycsb:rows=300:reads=20:writes=20:rmws=20:commands=20:scans=10:inserts=10";
    let rest = [mixed, "custom:rows=300", "smallbank:rows=300", "tpcb:rows=300"].map(workload);
    for workload in rest.into_iter().chain([small_tpcc(1)]) {
        let serial = Plan { protocols: vec!["serial".into()], ..plan(workload.clone()) };
        let plans = [Programs::Sql, Programs::Ir].map(|programs| Plan {
            programs,
            sealing: vec![true, false],
            ..serial.clone()
        });
        let all: Vec<Measurement> = plans.iter().flat_map(measured).collect();
        assert!(all.iter().all(|m| m.digest == all[0].digest), "{workload}");
        assert!(all.iter().all(|m| m.committed_per_second > 0.0), "{workload}");
    }
}
