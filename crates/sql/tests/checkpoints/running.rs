//! Checkpoints of an engine that goes on working.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::checkpoint::{Checkpointer, ServiceSettings, digest};
use engine::{BlockLimits, Checkpoints, Engine, Language, NoObserver, Progress, replay_watched};
use ledger::checkpoint::{heights, read_manifest};
use ledger::{Genesis, LogOptions, LogReader, LogWriter, MemoryFiles, Parameters};
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Database, Session};
use storage::Store;

use super::world::{full_replay, recovered};
use crate::sessions::{Client, block_on};

fn start(files: &MemoryFiles, settings: ServiceSettings) -> Arc<Database> {
    let options = LogOptions { zero_fill_bytes: 4096, ..LogOptions::default() };
    if files.paths().is_empty() {
        let parameters = Parameters::new("harmony");
        let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters };
        let mut reader = LogReader::open(Arc::new(files.clone())).unwrap();
        reader.next_block().unwrap();
        let mut log = LogWriter::resume(reader, options).unwrap();
        log.append(&[genesis.to_block().unwrap().encode().unwrap()]).unwrap();
    }
    let schema = Arc::new(Schema::new());
    let language: Arc<dyn Language> = schema.clone();
    let make = |_: &Arc<Store>| Arc::clone(&language);
    let read = engine::recover(Arc::new(files.clone()), &make, 2, &mut |_| ()).unwrap();
    let base = read.checkpoint.map(|checkpoint| checkpoint.base);
    let checkpointer = Checkpointer::new(Arc::new(files.clone()), 1000, base);
    let checkpoints = Checkpoints { checkpointer, settings, since: Progress::default() };
    let log = LogWriter::resume(read.reader, options).unwrap();
    let (limits, clock) = (BlockLimits::default(), Arc::new(|| 0));
    let observer = Arc::new(NoObserver);
    let engine =
        Engine::start_with(read.replica, log, language, limits, clock, observer, Some(checkpoints));
    Arc::new(Database { engine: Arc::new(engine.unwrap()), schema })
}

fn session(database: &Arc<Database>) -> Client {
    let info = SessionInfo { user: "tally".into(), ..SessionInfo::default() };
    let interrupt = Arc::new(AtomicBool::new(false));
    let session = Session::new(Arc::clone(database), info, Arc::clone(&interrupt));
    Client { session, interrupt }
}

async fn fill(client: &mut Client) {
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    for first in (0..3000).step_by(100) {
        let row = |id: i32| format!("({id}, 0)");
        let rows: Vec<String> = (first..first + 100).map(row).collect();
        client.run(&format!("INSERT INTO t VALUES {}", rows.join(","))).await.unwrap();
    }
}

/// While clients write, each checkpoint is the state of one block: that of a re-execution at its
/// height.
#[test]
fn a_checkpoint_under_load_is_the_state_of_its_block() {
    let files = MemoryFiles::new();
    let settings = ServiceSettings { interval_blocks: 40, interval_bytes: 0, cpu_percent_max: 60 };
    let asked_for = block_on(async {
        let mut asked_for = Vec::new();
        let database = start(&files, settings);
        fill(&mut session(&database)).await;
        let enough = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (database, enough) = (database.clone(), enough.clone());
                tokio::spawn(async move {
                    let mut own = session(&database);
                    let mut id = client * 37;
                    while !enough.load(Ordering::Relaxed) {
                        id = (id + 7) % 3000;
                        let update = format!("UPDATE t SET v = v + 1 WHERE id = {id}");
                        own.run(&update).await.unwrap();
                        let delete = format!("DELETE FROM t WHERE id = {id} AND v > 3");
                        own.run(&delete).await.unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let asked_at = database.engine.head().height;
            let taken = database.engine.checkpoint().unwrap().await.unwrap().unwrap();
            assert!(taken.height >= asked_at);
            assert!(database.engine.checkpoint_standing().height >= Some(taken.height));
            asked_for.push(taken.height);
        }
        enough.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        database.engine.stop();
        asked_for
    });
    let taken = heights(&files).unwrap();
    assert!(asked_for.iter().all(|height| taken.contains(height)));
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let mut compared = 0;
    replay_watched(Arc::new(files.clone()), &make, 2, &mut |replica, _| {
        let height = replica.head().height;
        if taken.contains(&height) {
            let snapshot = replica.store().snapshot();
            let schema = replica.language().schema_image(&snapshot).unwrap();
            let found = digest(&snapshot, replica.parameters(), &schema).unwrap();
            let written = read_manifest(&files, height).unwrap().digest().unwrap();
            assert_eq!(found, written, "block {height}");
            compared += 1;
        }
    })
    .unwrap();
    assert_eq!(compared, taken.len());
}

/// A node that starts from a checkpoint goes on as if it had never stopped.
#[test]
fn a_node_goes_on_from_its_checkpoint() {
    let files = MemoryFiles::new();
    let settings = ServiceSettings { interval_blocks: 0, interval_bytes: 0, cpu_percent_max: 100 };
    block_on(async {
        for round in 1..=4 {
            let database = start(&files, settings);
            let mut client = session(&database);
            if round == 1 {
                fill(&mut client).await;
                client.run("CREATE INDEX by_v ON t (v)").await.unwrap();
            }
            client.run("BEGIN; UPDATE t SET v = v + 1 WHERE id < 50; COMMIT").await.unwrap();
            database.engine.checkpoint().unwrap().await.unwrap().unwrap();
            client.run("UPDATE t SET v = v + 1 WHERE id >= 50").await.unwrap();
            let touched = client.number("SELECT count(*) FROM t WHERE v = 1").await;
            assert_eq!(touched, if round == 1 { 3000 } else { 0 });
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 3000 * round);
            database.engine.stop();
            let head = database.engine.head().hash;
            assert_eq!(recovered(&files).replica.head().hash, head);
            assert_eq!(full_replay(&files).replica.head().hash, head);
        }
    });
}
