//! Hidden row ids that are another row's already.

use std::sync::Arc;

use concurrency::{Block, WorkerPool};
use oracle::course::run_block;
use oracle::programs::{Builder, LOG, Operation, schemas};
use oracle::subjects::{Subject, variants};
use storage::Store;
use types::{Height, Position, Stamp, Value};

/// Runs that take a position each.
const COUNT: Position = 3;

/// A store whose first block has put rows under the ids that block `named` will give.
fn store_with_rows_of(named: Height) -> Arc<Store> {
    let store = Arc::new(Store::new());
    for schema in schemas() {
        store.create_table(schema);
    }
    let mut writes = store.begin_block(1, 1);
    let log = store.table(LOG).expect("a table with hidden row ids");
    for position in 0..COUNT {
        let id = Stamp::new(named, position).row_id(0);
        let row = [Value::Int(-1), Value::Uuid(id)];
        log.insert(&id, &row, Stamp::new(1, position), writes.arena(0));
    }
    store.finish_unread(writes);
    store.publish(1);
    store
}

fn adding_rows(height: Height) -> Block {
    let adds = |number| {
        let mut builder = Builder::default();
        builder.push(Operation::Log, 0, number);
        builder.finish()
    };
    Block::new(height, 0, (0..i64::from(COUNT)).map(adds).collect())
}

fn halt_of(name: &str, workers: usize) {
    let pool = WorkerPool::new(workers);
    let run = |store| run_block(&Subject::named(name).protocol, &pool, &store, &adding_rows(2));
    let free = run(store_with_rows_of(7));
    assert!(free.is_ok_and(|(outcome, _)| outcome.outcomes.len() == COUNT as usize), "{name}");
    match run(store_with_rows_of(2)) {
        Ok((outcome, _)) => panic!("{name}, {workers} workers: {:?}", outcome.outcomes),
        Err(why) => assert!(why.contains("hidden id"), "{name}: {why}"),
    }
}

/// Such a store is in no state that blocks lead to: whichever protocol meets it stops, and none
/// leaves one of the two rows out.
#[test]
fn a_hidden_id_that_is_taken_halts_every_protocol() {
    multiversion::register();
    let infos = protocols::infos().map(|info| info.name.to_owned());
    for name in infos.chain(variants().into_iter().map(|subject| subject.name)) {
        [1, 2].into_iter().for_each(|workers| halt_of(&name, workers));
    }
}
