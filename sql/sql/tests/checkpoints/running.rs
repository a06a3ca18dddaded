//! Checkpoints of an engine that goes on working.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::checkpoint::{Checkpointer, ServiceSettings};
use engine::{
    BlockEvent, BlockLimits, Checkpoints, Engine, EngineOptions, Language, NoObserver, Observer,
    Progress, replay_watched,
};
use ledger::checkpoint::{heights, read_manifest};
use ledger::{
    BlockWriter, Files, Genesis, Intercepted, Interceptor, LogOptions, MemoryFiles, Parameters,
    StorageFile,
};
use sql::SessionInfo;
use sql::session::schema::Schema;
use sql::session::{Database, Session, SessionMemory};
use storage::Store;
use types::SqlState;

use super::world::{digest_of, full_replay, recovered};
use crate::sessions::{Client, block_on};

/// Only those that are asked for, at any price.
const ASKED_FOR: ServiceSettings = ServiceSettings {
    interval_blocks: 0,
    interval_bytes: 0,
    cpu_percent_max: 100,
    undo_bytes_max: 0,
};

fn start(files: &MemoryFiles, settings: ServiceSettings) -> Arc<Database> {
    start_with(files, settings, "harmony", Arc::new(files.clone()), Arc::new(NoObserver))
}

fn start_with(
    files: &MemoryFiles,
    settings: ServiceSettings,
    protocol: &str,
    checkpoint_files: Arc<dyn Files>,
    observer: Arc<dyn Observer>,
) -> Arc<Database> {
    let options = LogOptions { zero_fill_bytes: 4096, ..LogOptions::default() };
    if files.paths().is_empty() {
        let parameters = Parameters::new(protocol);
        let executor = engine::EXECUTOR;
        let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor };
        BlockWriter::begin(Arc::new(files.clone()), &genesis, options).unwrap();
    }
    let schema = Arc::new(Schema::new());
    let language: Arc<dyn Language> = schema.clone();
    let make = |_: &Arc<Store>| Arc::clone(&language);
    let read = engine::recover(Arc::new(files.clone()), &make, 2, &mut |_| ()).unwrap();
    let base = read.checkpoint.map(|checkpoint| checkpoint.base);
    let checkpointer = Checkpointer::new(checkpoint_files, 1000, base, &read.passed_over);
    let checkpoints = Checkpoints { checkpointer, settings, since: Progress::default() };
    let log = engine::resume_writing(read.reader, &read.unrecorded, options).unwrap();
    let (limits, clock) = (BlockLimits::default(), Arc::new(|| 0));
    let options = EngineOptions { checkpoints: Some(checkpoints), ..EngineOptions::default() };
    let engine = Engine::start_with(read.replica, log, language, limits, clock, observer, options);
    let (engine, memory) = (Arc::new(engine.unwrap()), SessionMemory::default());
    Arc::new(Database {
        engine,
        schema,
        analytical_engine: None,
        memory,
        shared_state: Arc::default(),
    })
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
    PROTOCOLS.into_iter().for_each(checkpoints_under_load);
}

/// Blocks of the newest state, of older ones, that overlap, and that run calls as they arrive.
const PROTOCOLS: [&str; 5] = ["harmony", "fabric:lag=6", "harmony:inter_block=on", "silo", "2pl"];

fn checkpoints_under_load(protocol: &str) {
    let files = MemoryFiles::new();
    let settings = ServiceSettings { interval_blocks: 40, cpu_percent_max: 60, ..ASKED_FOR };
    block_on(async {
        let (observer, own) = (Arc::new(NoObserver), Arc::new(files.clone()));
        let database = start_with(&files, settings, protocol, own, observer);
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
                        let delete = format!("DELETE FROM t WHERE id = {id} AND v > 3");
                        for text in [update, delete] {
                            let refused = own.run(&text).await.err();
                            let code = refused
                                .map_or(SqlState::SERIALIZATION_FAILURE, |error| error.code());
                            assert_eq!(code, SqlState::SERIALIZATION_FAILURE);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let asked_at = database.engine.head().height;
            let taken = database.engine.checkpoint().unwrap().await.unwrap().unwrap();
            assert!(taken.height >= asked_at);
            assert!(database.engine.checkpoint_standing().height >= Some(taken.height));
            while database.engine.head().height <= taken.height {
                tokio::task::yield_now().await;
            }
        }
        enough.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        database.engine.stop();
    });
    let taken = heights(&files).unwrap();
    assert!(taken.len() >= 5);
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let mut compared = 0;
    replay_watched(Arc::new(files.clone()), &make, 2, &mut |replica, _| {
        let height = replica.head().height;
        if taken.contains(&height) {
            let found = digest_of(replica);
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
    block_on(async {
        for round in 1..=4 {
            let database = start(&files, ASKED_FOR);
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

/// Slow between the answers of a block and what comes then.
struct SlowObserver;

impl Observer for SlowObserver {
    fn block(&self, _: &BlockEvent) {
        std::thread::sleep(Duration::from_millis(20));
    }
    fn answered(&self, _: Duration) {}
}

#[test]
fn a_checkpoint_holds_what_was_acknowledged_before_it_was_asked_for() {
    let files = MemoryFiles::new();
    block_on(async {
        let observer = Arc::new(SlowObserver);
        let database = start_with(&files, ASKED_FOR, "harmony", Arc::new(files.clone()), observer);
        let mut client = session(&database);
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        for id in 0..5 {
            client.run(&format!("INSERT INTO t VALUES ({id})")).await.unwrap();
            let acknowledged = database.engine.head().height;
            let taken = database.engine.checkpoint().unwrap().await.unwrap().unwrap();
            assert!(taken.height >= acknowledged, "{} < {acknowledged}", taken.height);
        }
        database.engine.stop();
    });
}

/// Also where the next blocks read snapshots before the newest.
#[test]
fn a_client_that_asks_is_answered_at_any_block_until_the_node_stops() {
    PROTOCOLS.into_iter().for_each(checkpoints_of_each_block);
}

fn checkpoints_of_each_block(protocol: &str) {
    let files = MemoryFiles::new();
    block_on(async {
        let (observer, own) = (Arc::new(NoObserver), Arc::new(files.clone()));
        let database = start_with(&files, ASKED_FOR, protocol, own, observer);
        let mut client = session(&database);
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        for id in 0..20 {
            client.run(&format!("INSERT INTO t VALUES ({id}, 0)")).await.unwrap();
            client.run(&format!("SET tally.transaction_key = 'k{id}'")).await.unwrap();
            let _ = client.run("UPDATE t SET v = v + 1").await;
            let taken = database.engine.checkpoint().unwrap().await.unwrap().unwrap();
            assert_eq!(taken.height, database.engine.head().height);
            let from = recovered(&files);
            assert_eq!(from.progress.blocks, 0, "{:?}", from.passed_over);
            assert_eq!(digest_of(&from.replica), taken.digest);
            assert_eq!(digest_of(&full_replay(&files).replica), taken.digest, "{protocol}");
        }
        database.engine.stop();
        let late = database.engine.checkpoint().err().unwrap();
        assert_eq!(late.code(), SqlState::ADMIN_SHUTDOWN);
    });
}

/// A checkpoint is worth some memory, but not all that there is.
#[test]
fn a_checkpoint_that_keeps_too_much_memory_is_given_up() {
    let files = MemoryFiles::new();
    let settings = ServiceSettings { undo_bytes_max: 1, ..ASKED_FOR };
    block_on(async {
        let database = start(&files, settings);
        fill(&mut session(&database)).await;
        let enough = Arc::new(AtomicBool::new(false));
        let writing = tokio::spawn({
            let (database, enough) = (database.clone(), enough.clone());
            async move {
                let mut own = session(&database);
                while !enough.load(Ordering::Relaxed) {
                    own.run("UPDATE t SET v = v + 1").await.unwrap();
                }
            }
        });
        let given_up = loop {
            let taken = database.engine.checkpoint().unwrap().await.unwrap();
            if let Err(error) = taken {
                break error;
            }
        };
        assert_eq!(given_up.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        enough.store(true, Ordering::Relaxed);
        writing.await.unwrap();
        let height = database.engine.head().height;
        let taken = database.engine.checkpoint().unwrap().await.unwrap().unwrap();
        assert_eq!(taken.height, height, "nobody writes any more");
        database.engine.stop();
        assert!(recovered(&files).passed_over.is_empty());
    });
}

/// A disk that takes its time for a new pack.
struct SlowPacks;

impl SlowPacks {
    const CREATE: Duration = Duration::from_millis(200);
}

impl Interceptor for SlowPacks {
    fn create(&self, files: &dyn Files, path: &str) -> std::io::Result<Box<dyn StorageFile>> {
        if path.ends_with("pack") {
            std::thread::sleep(Self::CREATE);
        }
        files.create(path)
    }
}

/// At one percent, the first group is followed by a rest of 99 times what its pack took to create.
#[test]
fn a_rest_ends_when_the_node_stops_and_when_memory_runs_short() {
    let files = MemoryFiles::new();
    let rest = SlowPacks::CREATE * 99;
    let settings = ServiceSettings { cpu_percent_max: 1, undo_bytes_max: 8 << 20, ..ASKED_FOR };
    block_on(async {
        let slow = Arc::new(Intercepted::new(Arc::new(files.clone()), Arc::new(SlowPacks)));
        let observer = Arc::new(NoObserver);
        let database = start_with(&files, settings, "harmony", slow, observer);
        let mut client = session(&database);
        fill(&mut client).await;
        let began = Instant::now();
        let mut asked = database.engine.checkpoint().unwrap();
        // Readers of every block, so that no version between two of them is dropped.
        let mut readers = Vec::new();
        let taken = loop {
            match asked.try_recv() {
                Ok(taken) => break taken.unwrap(),
                Err(_) => drop(client.run("UPDATE t SET v = v + 1").await.unwrap()),
            }
            readers.push(database.engine.store().snapshot());
        };
        drop(readers);
        assert!(began.elapsed() < rest / 2, "it does not rest while memory is short");
        assert!(taken.height < database.engine.head().height);
        client.run("UPDATE t SET v = 0").await.unwrap();
        let asked = database.engine.checkpoint().unwrap();
        while !(1..3000).contains(&database.engine.checkpoint_standing().rows_done) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let began = Instant::now();
        database.engine.stop();
        assert!(began.elapsed() < rest / 2, "the node stops while the thread rests");
        assert_eq!(asked.await.unwrap().unwrap_err().code(), SqlState::ADMIN_SHUTDOWN);
    });
}
