//! Every workload under every protocol, on small worlds: `measure` checks the workload's own
//! conditions after each run, TPC-C's consistency conditions 1 to 4 among them.

use bench::{Figure, Plan, Programs, Settings, measure};

fn plan(workload: &str, settings: Settings) -> Plan {
    Plan {
        workload: workload.parse().unwrap(),
        protocols: protocols::ALL.iter().map(|entry| entry.info.name.to_owned()).collect(),
        thetas: vec![0.0],
        threads: vec![1, 2],
        sealing: vec![false],
        block_transactions: 50,
        transactions: 250,
        settings,
        programs: Programs::Sql,
        durability: None,
        repetitions: 1,
        seed: 1,
        allocations: None,
    }
}

fn figures(plan: &Plan) -> Vec<Figure> {
    measure(plan, &mut |_, _, _| {}).unwrap()
}

fn small_tpcc(warehouses: u64) -> Settings {
    let settings = Settings::default().with("warehouses", warehouses);
    settings.with("customers", 30).with("items", 100)
}

#[test]
fn tpcc_keeps_conditions_1_to_4_under_every_protocol() {
    for warehouses in [1, 3] {
        let settings = small_tpcc(warehouses).with("mix", "even").with("remote_lines", 20);
        let plan = Plan { transactions: 1000, ..plan("tpcc", settings) };
        for figure in figures(&plan) {
            // Of 200 NewOrders one in a hundred rolls back.
            assert!((0.0..0.01).contains(&figure.rejected_share), "{figure:?}");
        }
    }
}

#[test]
fn an_order_with_an_unused_item_leaves_nothing() {
    let settings = small_tpcc(1).with("mix", "neworder-payment").with("payment", 0);
    let all_abort = plan("tpcc", settings.with("user_aborts", 100));
    let runs = [20, 40].map(|transactions| Plan { transactions, ..all_abort.clone() });
    let figures: Vec<Figure> = runs.iter().flat_map(figures).collect();
    for figure in &figures {
        assert_eq!(figure.rejected_share, 1.0, "{figure:?}");
        assert_eq!(figure.digest, figures[0].digest, "{figure:?}");
    }
}

#[test]
fn programs_from_sql_and_from_the_builder_lead_serial_to_the_same_state() {
    let mixed = Settings::default()
        .with("rows", 300)
        .with("reads", 20)
        .with("writes", 20)
        .with("rmws", 20)
        .with("commands", 20)
        .with("scans", 10)
        .with("inserts", 10);
    let rows = Settings::default().with("rows", 300);
    for (workload, settings) in [
        ("tpcc", small_tpcc(1)),
        ("ycsb", mixed),
        ("custom", rows.clone()),
        ("smallbank", rows.clone()),
        ("tpcb", rows),
    ] {
        let sql = Plan { protocols: vec!["serial".into()], ..plan(workload, settings) };
        let built = Plan { programs: Programs::Ir, sealing: vec![true, false], ..sql.clone() };
        let all: Vec<Figure> = [sql, built].iter().flat_map(figures).collect();
        assert!(all.iter().all(|figure| figure.digest == all[0].digest), "{workload}");
        assert!(all.iter().all(|figure| figure.committed_per_second > 0.0), "{workload}");
    }
}
