//! A disk that is full for a while, under an engine that waits for room.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::transaction::Asked;
use engine::{
    BlockLimits, Clock, Completion, EXECUTOR, Engine, EngineOptions, Language, NoObserver,
    Replayed, Submitter, recover, replay, resume_writing,
};
use ledger::memory_files::Failure;
use ledger::{BlockWriter, Files, Genesis, LogOptions, MemoryFiles, Parameters};
use sim::language::Calls;
use sim::operation::{Call, Kind};
use storage::Store;
use tokio::sync::oneshot;
use types::{Error, SqlState};

/// So small that most blocks make it grow.
const LOG: LogOptions = LogOptions { segment_bytes: 4 << 10, zero_fill_bytes: 256, sync: true };

fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Calls::default())
}

fn start(files: &MemoryFiles) -> Engine {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let Replayed { replica, reader, unrecorded, .. } =
        recover(files, &language, 2, &mut |_| ()).unwrap();
    let writer = resume_writing(reader, &unrecorded, LOG).unwrap();
    let options = EngineOptions { waits_for_room: true, ..EngineOptions::default() };
    let clock: Clock = Arc::new(|| 0);
    let (spoken, limits) = (Arc::clone(replica.language()), BlockLimits::default());
    Engine::start_with(replica, writer, spoken, limits, clock, Arc::new(NoObserver), options)
        .unwrap()
}

type Answer = oneshot::Receiver<Result<Completion, Error>>;

fn ask(engine: &Engine, x: i64) -> Result<Answer, Error> {
    let submitter = Submitter { principal: "ada", role: None, key: None, seed: [0; 16] };
    let body = Call { kind: Kind::Insert, table: "main", x, y: 1 }.body();
    engine.submit(submitter, &Asked::from(&body), None)
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn folder() -> MemoryFiles {
    let parameters = Parameters::new("serial");
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
    let files = MemoryFiles::new();
    drop(BlockWriter::begin(Arc::new(files.clone()), &genesis, LOG).unwrap());
    files
}

/// Asks until one finds no room; how many were answered, and the one that waits.
fn fill(engine: &Engine, files: &MemoryFiles, from: i64) -> (i64, Answer) {
    files.fail_at(Some(Failure::Full(files.operations())));
    for x in from.. {
        let mut answer = ask(engine, x).unwrap();
        let mut answered = false;
        until("answered or hindered", || {
            answered = answered || answer.try_recv().is_ok();
            answered || engine.hindrance().is_some()
        });
        if !answered {
            return (x, answer);
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost_or_doubled() {
    let files = folder();
    let engine = start(&files);
    let mut next = 0;
    for _ in 0..8 {
        let (waits, answer) = fill(&engine, &files, next);
        let refused = ask(&engine, 1_000_000).unwrap_err();
        assert_eq!(refused.code(), SqlState::DISK_FULL);
        assert!(refused.fields().detail.as_ref().unwrap().contains("in no block"));
        assert!(engine.hindrance().unwrap().contains("the disk is full"));
        assert!(!engine.is_halted());
        files.fail_at(None);
        answer.blocking_recv().unwrap().unwrap();
        assert_eq!(engine.hindrance(), None);
        next = waits + 1;
    }
    engine.stop();
    assert!(!engine.is_halted());
    let again = replay(Arc::new(files), &language, 1, &mut |_| ()).unwrap();
    assert_eq!(again.replica.head().height, next as u64);
}

#[test]
fn an_engine_that_waits_for_room_can_be_stopped() {
    let files = folder();
    let engine = start(&files);
    let (waits, answer) = fill(&engine, &files, 0);
    engine.stop();
    let said = answer.blocking_recv().unwrap().unwrap_err();
    assert_eq!(said.code(), SqlState::DISK_FULL);
    files.fail_at(None);
    let again = start(&files);
    assert!([waits as u64, waits as u64 + 1].contains(&again.head().height));
    ask(&again, waits + 10).unwrap().blocking_recv().unwrap().unwrap();
}
