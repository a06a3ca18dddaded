//! Logging and recovery runs on tiny worlds: figures of them mean what they say.

use std::path::Path;
use std::time::Duration;

use bench::Workload;
use bench::logging::{Bench, Load, Scheme, Setting};
use bench::recovering::{Checkpointed, Logged, Wanted, bounds};
use concurrency::WorkerPool;
use recovery::replay::{self, Task};
use recovery::schemes::recover;

const TRANSACTIONS: usize = 400;

fn workload() -> Workload {
    "tpcc:customers=30:items=100".parse().unwrap()
}

fn setting(folder: &Path, scheme: Scheme) -> Setting {
    Setting {
        workload: workload(),
        protocol: "harmony".to_owned(),
        threads: 2,
        block_transactions_max: 50,
        transactions: TRANSACTIONS,
        seed: 1,
        scheme,
        loggers: 2,
        sync: true,
        ad_hoc_percent: 0,
        load: Load::Saturated,
        checkpoint_cpu_percent_max: None,
        folder: folder.to_owned(),
    }
}

#[test]
fn every_scheme_runs_the_same_and_writes_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::load(&workload()).unwrap();
    let run = |setting: &Setting| bench.run(setting).unwrap();
    let of = |scheme| run(&setting(folder.path(), scheme));
    let [off, physical, logical, command] = Scheme::ALL.map(of);
    for trace in [&physical, &logical, &command] {
        assert_eq!(trace.committed(), off.committed());
    }
    assert_eq!(off.log_bytes, 0);
    assert!(command.log_bytes > 0);
    assert!(logical.log_bytes > 5 * command.log_bytes);
    assert!(physical.log_bytes > logical.log_bytes);
    let mixed =
        run(&Setting { ad_hoc_percent: 50, ..setting(folder.path(), Scheme::Command) }).log_bytes;
    assert!(command.log_bytes < mixed && mixed < command.log_bytes + logical.log_bytes);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn in_the_open_loop_transactions_come_at_their_rate() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::load(&workload()).unwrap();
    let load = Load::Open(TRANSACTIONS as f64);
    let trace = bench.run(&Setting { load, ..setting(folder.path(), Scheme::Off) }).unwrap();
    assert!(trace.wall() >= Duration::from_millis(900), "{:?}", trace.wall());
    assert!(trace.without.blocks > 10, "blocks hold what has arrived");
    let released: u64 = trace.slices.iter().map(|slice| slice.released).sum();
    assert_eq!(released, TRANSACTIONS as u64);
}

#[test]
fn a_checkpoint_beside_a_run_is_taken_and_its_blocks_are_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::load(&workload()).unwrap();
    let load = Load::Open(TRANSACTIONS as f64);
    let checkpoint_cpu_percent_max = Some(100);
    let setting =
        Setting { load, checkpoint_cpu_percent_max, ..setting(folder.path(), Scheme::Command) };
    let trace = bench.run(&setting).unwrap();
    let checkpoint = trace.checkpoint.as_ref().expect("one second is enough");
    assert!(checkpoint.taken.extent.rows > 100);
    assert_eq!(trace.within.committed + trace.without.committed, trace.committed());
}

fn logged(folder: &Path, ad_hoc_percent: u32, block_transactions: usize) -> Logged {
    Logged::make(&Wanted {
        workload: workload(),
        transactions: TRANSACTIONS,
        block_transactions,
        ad_hoc_percent,
        seed: 1,
        folder: folder.to_owned(),
    })
    .unwrap()
}

#[test]
fn every_way_back_leads_to_the_state_that_was_logged_and_another_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (ad_hoc_percent, block) in [(0, 50), (40, 1)] {
        let logged = logged(folder.path(), ad_hoc_percent, block);
        let task = Task::new(logged.read_commands().unwrap().log);
        for strategy in replay::ALL {
            let replayed = logged.replay(strategy, &task, 2).unwrap();
            assert_eq!(replayed.transactions, logged.transactions);
        }
        let before = logged.store().unwrap();
        assert!(logged.check(&before, "nothing").is_err());
    }
}

#[test]
fn the_plain_loops_do_all_of_the_work_that_they_bound() {
    let folder = tempfile::tempdir().unwrap();
    let logged = logged(folder.path(), 0, 50);
    let log = logged.read_rows(recovery::schemes::Scheme::Logical).unwrap().log;
    let store = logged.store().unwrap();
    bounds::insert_rows(&log, &store, 2).unwrap();
    store.publish(log.height.unwrap());
    logged.check(&store, "the plain loop").unwrap();
    let (again, way) = (logged.store().unwrap(), recover::by_name("llr-p").unwrap());
    way.recover(&log, &again, &WorkerPool::new(2)).unwrap();
    logged.check(&again, "llr-p").unwrap();

    let checkpointed = Checkpointed::make(&workload(), folder.path()).unwrap();
    assert!(checkpointed.load(2).unwrap() > Duration::ZERO);
    assert!(bounds::insert_checkpoint(&checkpointed, 2).unwrap() > Duration::ZERO);
    assert!(bounds::disk_bytes_per_second(checkpointed.path()).unwrap() > 0.0);
}
