//! Engines that are given their order by others: a log in this process that all of them read, which
//! orders everything twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use concurrency::Outcome;
use engine::limits::ORDERER;
use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Clock, EXECUTOR, Engine, EngineOptions, Journal, Language, NoObserver,
    Replayed, Submitter, Withdrawal, recover, replay, resume_writing,
};
use ledger::memory_files::Failure;
use ledger::{
    BlockReader, BlockResult, BlockWriter, Files, Genesis, LogOptions, LogReader, MemoryFiles,
    Parameters, Record, Stream,
};
use order::{Certificate, Delivery, Orderer, Proposal, Refused};
use sim::language::Calls;
use sim::operation::{Call, Kind};
use storage::Store;
use types::{Error, Result, SqlState};

const LOG: LogOptions =
    LogOptions { segment_bytes: 64 << 10, zero_fill_bytes: 4 << 10, sync: true };

type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Log {
    proposals: Mutex<Vec<Proposal>>,
    wakes: Mutex<Vec<Wake>>,
    /// From here on nothing is delivered.
    held: Mutex<Option<usize>>,
    /// What was submitted since, if it is to be given up.
    gives_up: Mutex<Option<Vec<Bytes>>>,
    /// How often a session's wait was told of.
    awaited: AtomicUsize,
}

struct Place {
    log: Arc<Log>,
    number: u8,
    next: usize,
    closed: Option<Error>,
}

impl Orderer for Place {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        if let Some(why) = &self.closed {
            return Err(Refused::Closed(why.clone()));
        }
        if let Some(given_up) = &mut *self.log.gives_up.lock().unwrap() {
            given_up.push(envelope);
            return Ok(());
        }
        let mut proposals = self.log.proposals.lock().unwrap();
        for _ in 0..2 {
            let (time_us, envelopes) = (proposals.len() as i64, vec![envelope.clone()]);
            let proposer = [self.number; 32];
            proposals.push(Proposal { time_us, proposer, seen_height: 0, envelopes });
        }
        drop(proposals);
        // By another thread, as the submitter holds what the woken ask for.
        let log = Arc::clone(&self.log);
        std::thread::spawn(move || log.wakes.lock().unwrap().iter().for_each(|wake| wake()));
        Ok(())
    }

    fn nudge(&mut self) {
        let mut proposals = self.log.proposals.lock().unwrap();
        let (time_us, envelopes) = (proposals.len() as i64, Vec::new());
        proposals.push(Proposal { time_us, proposer: [0; 32], seen_height: 0, envelopes });
    }

    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        if self.log.held.lock().unwrap().is_some_and(|held| self.next >= held) {
            return None;
        }
        let content = Some(self.log.proposals.lock().unwrap().get(self.next)?.clone());
        self.next += 1;
        Some(Delivery { sequence: self.next as u64, content, certificate: Certificate::solo() })
    }

    fn given_up(&mut self) -> Vec<(Bytes, Error)> {
        let mut gives_up = self.log.gives_up.lock().unwrap();
        let all = gives_up.as_mut().map(std::mem::take).unwrap_or_default();
        let away = || Error::new(SqlState::CANNOT_CONNECT_NOW, "the brokers are away");
        all.into_iter().map(|envelope| (envelope, away())).collect()
    }

    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        self.next = after as usize;
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }

    fn awaited(&mut self) {
        self.log.awaited.fetch_add(1, Ordering::SeqCst);
    }

    fn wake_by(&mut self, wake: Wake) {
        self.log.wakes.lock().unwrap().push(wake);
    }
}

fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Calls::default())
}

fn folder(protocol: &str, orderer: Option<&str>) -> MemoryFiles {
    let mut parameters = Parameters::new(protocol);
    parameters.others.extend(orderer.map(|name| (ORDERER.to_owned(), name.to_owned())));
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
    let files = MemoryFiles::new();
    drop(BlockWriter::begin(Arc::new(files.clone()), &genesis, LOG).unwrap());
    files
}

fn start(files: &MemoryFiles, log: &Arc<Log>, number: u8) -> std::io::Result<Engine> {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let Replayed { replica, reader, unrecorded, .. } =
        recover(files, &language, 2, &mut |_| ()).unwrap();
    let writer = resume_writing(reader, &unrecorded, LOG).unwrap();
    let next = replica.head().height as usize;
    let place = Place { log: Arc::clone(log), number, next, closed: None };
    let options = EngineOptions {
        remote_orderer: Some(Box::new(place)),
        submitter: Some([number; 16]),
        ..EngineOptions::default()
    };
    let clock: Clock = Arc::new(|| 0);
    let (spoken, limits) = (Arc::clone(replica.language()), BlockLimits::default());
    Engine::start_with(replica, writer, spoken, limits, clock, Arc::new(NoObserver), options)
}

fn ask(engine: &Engine, kind: Kind, x: i64) -> Result<engine::Completion> {
    hand_in(engine, &Call { kind, table: "main", x, y: 1 }.body())
}

fn hand_in(engine: &Engine, body: &Body) -> Result<engine::Completion> {
    let submitter = Submitter { principal: "ada", role: None, key: None, seed: [0; 16] };
    engine.submit(submitter, &Asked::from(body), None)?.blocking_recv().unwrap()
}

fn until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn engines_that_are_given_one_order_come_to_one_head() {
    for protocol in ["serial", "harmony:inter_block=on", "aria", "quecc:planning=pipelined"] {
        let log = Arc::default();
        let folders = [folder(protocol, None), folder(protocol, None)];
        let engines = [1, 2].map(|number| start(&folders[number - 1], &log, number as u8).unwrap());
        hand_in(&engines[0], &Body::Schema { text: "create table main".into() }).unwrap();
        std::thread::scope(|scope| {
            for (engine, from) in engines.iter().zip([0, 1_000]) {
                scope.spawn(move || {
                    for key in from..from + 20 {
                        let done = ask(engine, Kind::Insert, key).unwrap();
                        assert!(matches!(done.outcome, Outcome::Committed(_)), "{done:?}");
                        assert!(engine.head().height >= done.height, "answered before it is read");
                    }
                });
            }
        });
        let height = log.proposals.lock().unwrap().len() as u64;
        until("both execute all", || engines.iter().all(|it| it.head().height >= height));
        assert_eq!(engines[0].head(), engines[1].head(), "{protocol}");
        engines.iter().for_each(Engine::stop);
        for files in &folders {
            let again = replay(Arc::new(files.clone()), &language, 1, &mut |_| ()).unwrap();
            assert_eq!(again.replica.head(), engines[0].head(), "{protocol}");
        }
    }
}

/// A node that stops does not wait for ever for others, and says what it does not know.
#[test]
fn what_is_not_ordered_when_a_node_stops_is_not_known() {
    let log: Arc<Log> = Arc::default();
    let engine = start(&folder("serial", None), &log, 1).unwrap();
    ask(&engine, Kind::Insert, 1).unwrap();
    *log.held.lock().unwrap() = Some(log.proposals.lock().unwrap().len());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&engine, Kind::Insert, 2));
        until("it is submitted", || log.proposals.lock().unwrap().len() == 4);
        engine.stop();
        let error = asked.join().unwrap().unwrap_err();
        assert_eq!(error.code(), SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
    });
}

/// What a session has seen elsewhere is delivered at once.
#[test]
fn an_orderer_is_told_of_those_who_wait_for_a_block() {
    let log: Arc<Log> = Arc::default();
    let engine = start(&folder("serial", None), &log, 1).unwrap();
    ask(&engine, Kind::Insert, 1).unwrap();
    let told = || log.awaited.load(Ordering::SeqCst);
    let there = log.proposals.lock().unwrap().len() as u64;
    until("it has executed all", || engine.head().height == there);
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime().block_on(engine.reach(there)).unwrap();
    assert_eq!(told(), 0, "it is there");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| runtime().block_on(engine.reach(there + 2)));
        until("the orderer is told", || told() == 1);
        ask(&engine, Kind::Insert, 2).unwrap();
        waits.join().unwrap().unwrap();
    });
}

/// Clients of an orderer that cannot be reached are answered, and later ones as well.
#[test]
fn what_the_orderer_gives_up_is_answered_with_its_cause() {
    let log: Arc<Log> = Arc::default();
    let engine = start(&folder("serial", None), &log, 1).unwrap();
    ask(&engine, Kind::Insert, 1).unwrap();
    for key in 2..4 {
        *log.gives_up.lock().unwrap() = Some(Vec::new());
        std::thread::scope(|scope| {
            let engine = &engine;
            let asked =
                [key, key + 10].map(|key| scope.spawn(move || ask(engine, Kind::Insert, key)));
            for asked in asked {
                let error = asked.join().unwrap().unwrap_err();
                assert_eq!(error.code(), SqlState::CANNOT_CONNECT_NOW);
            }
        });
        *log.gives_up.lock().unwrap() = None;
        ask(&engine, Kind::Insert, key).unwrap();
    }
}

/// Orders without a result wait for the others, where others can take them back.
#[test]
fn unconfirmed_orders_are_counted_and_not_executed() {
    let expected = [(None, 6, 0), (Some("raft"), 0, 6), (Some("kafka"), 6, 0)];
    for (orderer, height, unconfirmed) in expected {
        let log = Arc::default();
        let source = folder("serial", orderer);
        let engine = start(&source, &log, 1).unwrap();
        (0..3).for_each(|key| drop(ask(&engine, Kind::Insert, key).unwrap()));
        until("the copies are executed", || engine.head().height == 6);
        engine.stop();
        // As a power cut leaves it that takes all results.
        for path in source.paths().iter().filter(|path| path.starts_with("results/")) {
            source.remove(path).unwrap();
        }
        let found = replay(Arc::new(source.clone()), &language, 1, &mut |_| ()).unwrap();
        assert_eq!((found.replica.head().height, found.unconfirmed), (height, unconfirmed));
    }
}

#[test]
fn protocols_that_order_by_running_are_refused() {
    let refused = start(&folder("silo", Some("raft")), &Arc::default(), 1).err().unwrap();
    assert!(refused.to_string().contains("cannot run a ledger of several nodes"), "{refused}");
}

/// What was handed to others is answered by them, or given up once.
#[test]
fn what_others_may_order_is_given_up_once_and_not_known() {
    let log: Arc<Log> = Arc::default();
    let engine = start(&folder("serial", None), &log, 1).unwrap();
    ask(&engine, Kind::Insert, 1).unwrap();
    let before = log.proposals.lock().unwrap().len();
    *log.held.lock().unwrap() = Some(before);
    let submitter = Submitter { principal: "ada", role: None, key: None, seed: [0; 16] };
    let call = Call { kind: Kind::Insert, table: "main", x: 2, y: 1 }.body();
    let mut submitted = engine.submit_revocably(submitter, &Asked::from(&call), None).unwrap();
    assert_eq!(engine.withdraw(&submitted), Withdrawal::Unknown);
    assert!(submitted.answer.try_recv().is_err());
    assert_eq!(engine.withdraw(&submitted), Withdrawal::Ordered, "it waits no more");
    *log.held.lock().unwrap() = None;
    ask(&engine, Kind::Insert, 3).unwrap();
    assert!(engine.head().height >= before as u64 + 2, "it was ordered, and nothing waited");
}

/// In a cluster results wait for room on the disk, since they can be computed again.
#[test]
fn results_outlive_a_full_disk_where_others_order() {
    let source = folder("serial", None);
    let engine = start(&source, &Arc::default(), 1).unwrap();
    (0..60).for_each(|key| drop(ask(&engine, Kind::Insert, key).unwrap()));
    engine.stop();
    let mut reader = LogReader::open(Arc::new(source), Stream::Results).unwrap();
    let all: Vec<Record> = std::iter::from_fn(|| reader.next_record().unwrap()).collect();
    let target = folder("serial", None);
    let mut blocks = BlockReader::open(Arc::new(target.clone())).unwrap();
    while blocks.next().unwrap().is_some() {}
    let BlockWriter { results, .. } = BlockWriter::resume(blocks, LOG).unwrap();
    let mut journal = Journal::of_results(results, 1);
    target.fail_at(Some(Failure::Full(target.operations())));
    let (some, rest) = all[1..].split_at(40);
    let append = |journal: &mut Journal, records: &[Record]| {
        for record in records {
            journal.append_result(&BlockResult::of(record).unwrap()).unwrap();
        }
    };
    append(&mut journal, some);
    let full = journal.ledger().write_held().unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert!(journal.ledger().written().is_err(), "no backup takes what is not there");
    append(&mut journal, rest);
    target.fail_at(None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while journal.ledger().write_held().is_err() {
        assert!(Instant::now() < deadline, "there is room, and nothing is written");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut reader = LogReader::open(Arc::new(target), Stream::Results).unwrap();
    let found: Vec<Record> = std::iter::from_fn(|| reader.next_record().unwrap()).collect();
    assert_eq!(found, all);
}
