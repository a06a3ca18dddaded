//! Every strategy ends in the state that serial replay ends in; what is no log is refused.

use std::sync::Arc;

use concurrency::WorkerPool;
use concurrency::schedule::Preference;
use oracle::course::{Course, Overlap, Ran};
use oracle::programs::{Builder, Operation, fill, schemas};
use recovery::analysis::{Model, Options};
use recovery::log::LoggedBlock;
use recovery::replay::{self, Task};
use storage::Store;
use types::SqlState;

use crate::bed::Bed;

fn every_strategy(name: &str, settings: &[(&str, u64)]) {
    let bed = Bed::new(name, settings);
    let protocol = protocols::by_name("serial").unwrap();
    let log: Arc<[_]> = bed.run(&protocol, &WorkerPool::new(1), 12, 100).into();
    for strategy in replay::ALL {
        for (workers, preference) in
            [(1, Preference::Earliest), (2, Preference::Earliest), (8, Preference::Latest)]
        {
            for model in [Model::Thesis, Model::Refined] {
                let pool = WorkerPool::new(workers);
                let again = Bed::new(name, settings);
                let options = Options { model, mutant: None };
                let log = Arc::clone(&log);
                let task =
                    Task { log, batch_transactions: 300, options, preference, changes: None };
                let done = (strategy.replay)(&task, again.store(), &pool);
                let about = format!("{name}, {}, {workers} workers, {model:?}", strategy.name);
                let done = done.unwrap_or_else(|why| panic!("{about}: {why}"));
                assert!(done.transactions > 0);
                if let Err(what) = crate::bed::same_rows(again.store(), bed.store()) {
                    panic!("{about}: {what}");
                }
            }
        }
    }
}

#[test]
fn smallbank() {
    every_strategy("smallbank", &[("rows", 50)]);
}

#[test]
fn tpcc() {
    every_strategy("tpcc", &[("customers", 30), ("items", 100)]);
}

/// A block may be missing because it changed the schema; what follows was made under another one.
#[test]
fn a_log_is_refused_where_a_block_is_missing() {
    let settings = [("rows", 50)];
    let bed = Bed::new("smallbank", &settings);
    let protocol = protocols::by_name("serial").unwrap();
    let mut log = bed.run(&protocol, &WorkerPool::new(1), 6, 10);
    log.remove(3);
    let begins_late = &log[1..];
    for (strategy, log) in
        replay::ALL.iter().flat_map(|strategy| [(strategy, &log[..]), (strategy, begins_late)])
    {
        let again = Bed::new("smallbank", &settings);
        let before = again.store().newest();
        let why =
            (strategy.replay)(&Task::new(log), again.store(), &WorkerPool::new(1)).unwrap_err();
        assert!(why.contains("a log is cut where the schema changes"), "{}: {why}", strategy.name);
        assert_eq!(again.store().newest(), before);
    }
}

/// Its commit order is no order of blocks.
#[test]
fn a_block_with_transactions_that_overtake_is_no_part_of_a_log() {
    let store = Arc::new(Store::new());
    schemas().iter().for_each(|schema| drop(store.create_table(Arc::clone(schema))));
    let (protocol, pool) =
        (protocols::by_name("harmony:inter_block=on").unwrap(), WorkerPool::new(1));
    let program = |operations: &[(Operation, i64)]| {
        let mut builder = Builder::default();
        operations.iter().for_each(|(operation, key)| builder.push(*operation, *key, 4));
        builder.finish()
    };
    let mut course = Course::behind(0, &store, &protocol, 0);
    course.run(&pool, fill(2)).unwrap();
    let early = vec![program(&[(Operation::BlindSet, 0)])];
    let late = vec![program(&[(Operation::Read, 0), (Operation::Set, 1)])];
    let ran = course.run_overlapping(&pool, vec![early, late], Overlap::Before).unwrap();
    let logged = |at: usize| {
        let Ran { block, sealed, .. } = &ran[at];
        LoggedBlock::new(Arc::clone(block), sealed, &*protocol)
    };
    assert_eq!(
        (logged(0).unwrap().commits.len(), &ran[0].sealed.inter_block_reorderings),
        (1, &vec![])
    );
    assert_eq!(logged(1).err().unwrap().code(), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(ran[1].sealed.inter_block_reorderings, [(0, 0)]);
}
