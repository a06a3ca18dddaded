//! Live engines whose calls run as they arrive: many clients at once, slow calls, slow disks, keys,
//! kills. What they leave is executed again one by one, from the ledger alone.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use concurrency::{Outcome, Work};
use engine::transaction::Asked;
use engine::{
    AskedChange, BlockLimits, Body, Clock, Completion, EXECUTOR, Engine, Language, NoObserver,
    Replayed, SchemaChange, Submitter, Transaction, recover, replay, resume_writing,
};
use kit::random::Random;
use ledger::memory_files::Failure;
use ledger::{
    BlockWriter, Files, Genesis, Intercepted, Interceptor, LogOptions, MemoryFiles, Parameters,
    StorageFile,
};
use sim::language::Calls;
use sim::operation::{Call, KEYS, Kind};
use storage::{LATEST, Snapshot, Store};
use tokio::sync::oneshot::Receiver;
use types::{Error, Height, Key, Result, SqlState, TableId};

const ONLINE: [&str; 8] =
    ["2pl", "2pl:conflicts=wait_die", "occ", "silo", "tictoc", "hybrid", "healing", "partitioned"];

const LOG: LogOptions =
    LogOptions { segment_bytes: 64 << 10, zero_fill_bytes: 4 << 10, sync: true };

/// Reads of this key take until the test says so.
const SLOW: i64 = -1;

/// A language in which some calls are slow.
#[derive(Default)]
struct Slow {
    calls: Calls,
    /// How many slow calls are running.
    running: Mutex<usize>,
    changed: Condvar,
    released: AtomicBool,
}

impl Slow {
    fn wait(&self) {
        let mut running = self.running.lock().unwrap();
        *running += 1;
        self.changed.notify_all();
        while !self.released.load(Ordering::Acquire) {
            running = self.changed.wait(running).unwrap();
        }
    }

    fn await_running(&self, count: usize) {
        let mut running = self.running.lock().unwrap();
        while *running < count {
            running = self.changed.wait(running).unwrap();
        }
    }

    fn release(&self) {
        let _running = self.running.lock().unwrap();
        self.released.store(true, Ordering::Release);
        self.changed.notify_all();
    }
}

impl Language for Slow {
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        if Call::of(&transaction.body).is_some_and(|call| call.x == SLOW) {
            self.wait();
        }
        self.calls.compile(transaction)
    }
    fn schema_version(&self) -> u64 {
        self.calls.schema_version()
    }
    fn apply(
        &self,
        asked: AskedChange<'_>,
        store: &Arc<Store>,
        at: Height,
        us: i64,
    ) -> Result<SchemaChange> {
        self.calls.apply(asked, store, at, us)
    }
    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        self.calls.schema_image(snapshot)
    }
    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        self.calls.restore(schema_image, store)
    }
}

/// Syncs wait as long as the gate is locked.
#[derive(Default)]
struct Gate {
    gate: Mutex<()>,
    /// Syncs that wait or have been done.
    syncs: AtomicUsize,
}

impl Interceptor for Gate {
    fn sync(&self, file: &dyn StorageFile, _: &str) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let _open = self.gate.lock().unwrap();
        file.sync()
    }
}

struct Node {
    engine: Engine,
    language: Arc<Slow>,
}

/// A node on files that hold a ledger.
fn start(files: Arc<dyn Files>, workers: usize, limits: BlockLimits) -> Node {
    let language = Arc::new(Slow::default());
    let made = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::<Slow>::clone(&language) };
    let Replayed { replica, reader, unrecorded, .. } =
        recover(files, &made, workers, &mut |_| ()).unwrap();
    let log = resume_writing(reader, &unrecorded, LOG).unwrap();
    let count = AtomicUsize::new(0);
    let clock: Clock = Arc::new(move || count.fetch_add(1, Ordering::SeqCst) as i64 / 16);
    let observer = Arc::new(NoObserver);
    let spoken: Arc<dyn Language> = language.clone();
    let engine = Engine::start(replica, log, spoken, limits, clock, observer).unwrap();
    Node { engine, language }
}

fn begin(files: &MemoryFiles, protocol: &str, workers: usize, limits: BlockLimits) -> Node {
    let files = Arc::new(files.clone());
    let parameters = Parameters::new(protocol);
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
    let own: Arc<dyn Files> = files.clone();
    drop(BlockWriter::begin(own, &genesis, LOG).unwrap());
    start(files, workers, limits)
}

type Answer = Receiver<Result<Completion>>;

impl Node {
    fn submit(&self, key: Option<&str>, body: &Body) -> Result<Answer> {
        self.engine.submit(
            Submitter { principal: "tally", role: None, key, seed: [0; 16] },
            &Asked::from(body),
            None,
        )
    }

    fn call(&self, kind: Kind, x: i64, y: i64) -> Answer {
        self.submit(None, &Call { kind, table: "main", x, y }.body()).unwrap()
    }

    fn schema(&self, text: &str) {
        let done = self.submit(None, &Body::Schema { text: text.into() }).unwrap();
        assert!(ended(done).outcome.is_committed(), "{text}");
    }

    /// What the newest rows say, released or not.
    fn has_row(&self, key: i64) -> bool {
        let table = self.engine.store().table(TableId(1)).unwrap();
        let slot = table.find(Key::from_int(key).as_bytes());
        slot.is_some_and(|slot| table.stamp(slot, LATEST).is_some())
    }

    fn await_row(&self, key: i64) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.has_row(key) {
            assert!(Instant::now() < deadline, "row {key} does not come");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What readers see.
    fn shows_row(&self, key: i64) -> bool {
        let snapshot = self.engine.store().snapshot();
        let table = snapshot.table(TableId(1)).unwrap();
        let slot = table.find(Key::from_int(key).as_bytes());
        slot.is_some_and(|slot| table.stamp(slot, snapshot.height()).is_some())
    }
}

fn ended(answer: Answer) -> Completion {
    answer.blocking_recv().expect("an engine answers").expect("the engine goes on")
}

fn plain(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Calls::default())
}

/// The whole ledger executed one by one gives the same headers.
fn verified(files: &MemoryFiles) -> Replayed {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    replay(files, &plain, 1, &mut |_| ()).unwrap_or_else(|fault| panic!("{fault}"))
}

const KINDS: [Kind; 9] = [
    Kind::Read,
    Kind::Set,
    Kind::Add,
    Kind::Capped,
    Kind::Insert,
    Kind::Delete,
    Kind::Range,
    Kind::ByIndex,
    Kind::Chain,
];

/// A client that waits for each answer: hot rows, rows that come and go, ranges, rejections, blind
/// writes; some under keys that another client uses as well. How many were acknowledged.
fn client(node: &Node, seed: u64, calls: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut highest = 0;
    for number in 0..calls {
        let kind = KINDS[random.below(KINDS.len() as u64) as usize];
        let (x, y) = (random.below(KEYS) as i64, random.below(KEYS) as i64);
        let body = Call { kind, table: "main", x, y }.body();
        // Shared by two clients: of one number, and often of other bytes.
        let key = (number % 4 == 0).then(|| format!("{}-{number}", seed / 2));
        let Ok(answer) = node.submit(key.as_deref(), &body) else { break };
        match answer.blocking_recv() {
            Ok(Ok(completion)) => highest = completion.height,
            _ => break,
        }
    }
    highest
}

#[test]
fn what_eight_clients_did_at_once_is_what_its_ledger_does_one_by_one() {
    for protocol in ONLINE {
        let files = MemoryFiles::new();
        let node = begin(&files, protocol, 2, BlockLimits::default());
        node.schema("create table main");
        node.schema("create index main");
        std::thread::scope(|threads| {
            for seed in 0..8 {
                let node = &node;
                threads.spawn(move || client(node, seed, 250));
            }
            // The schema changes beneath them.
            for text in ["drop index main", "create index main", "create table side"] {
                std::thread::sleep(Duration::from_millis(5));
                node.schema(text);
            }
        });
        node.engine.stop();
        let head = node.engine.head();
        let again = verified(&files);
        assert_eq!(again.replica.head(), head, "{protocol}");
        assert!(!node.engine.is_halted(), "{protocol}");
        let own: Arc<dyn Files> = Arc::new(files.clone());
        let recovered = recover(own, &plain, 2, &mut |_| ()).unwrap();
        assert_eq!(recovered.replica.head(), head, "{protocol}");
        eprintln!("{protocol}: {} blocks", head.height);
    }
}

#[test]
fn a_call_has_run_while_another_one_of_its_epoch_is_running() {
    for (protocol, workers) in [("silo", 1), ("2pl", 2), ("tictoc", 2), ("partitioned", 2)] {
        let files = MemoryFiles::new();
        let node = begin(&files, protocol, workers, BlockLimits::default());
        node.schema("create table main");
        let slow = node.call(Kind::Read, SLOW, 0);
        node.language.await_running(1);
        let quick: Vec<Answer> = (0..20)
            .map(|key| {
                let answer = node.call(Kind::Insert, key, 1);
                node.await_row(key);
                answer
            })
            .collect();
        assert!(!node.shows_row(0), "nothing is released before its block is closed");
        node.language.release();
        let slow = ended(slow);
        let heights: Vec<Height> = quick.into_iter().map(|one| ended(one).height).collect();
        assert!(heights.iter().all(|height| *height == slow.height), "{protocol}: {heights:?}");
        assert!(node.shows_row(0));
        node.engine.stop();
        assert_eq!(verified(&files).replica.head(), node.engine.head());
    }
}

#[test]
fn calls_run_while_the_block_before_them_is_synced() {
    let memory = MemoryFiles::new();
    let gate = Arc::new(Gate::default());
    let files = Intercepted::new(Arc::new(memory.clone()), Arc::clone(&gate));
    drop(begin(&memory, "silo", 2, BlockLimits::default()));
    let node = start(Arc::new(files), 2, BlockLimits::default());
    node.schema("create table main");
    let closed = gate.gate.lock().unwrap();
    let before = gate.syncs.load(Ordering::SeqCst);
    let first = node.call(Kind::Insert, 1, 1);
    while gate.syncs.load(Ordering::SeqCst) == before {
        std::thread::yield_now();
    }
    let second = node.call(Kind::Add, 1, 1);
    let third = node.call(Kind::Insert, 2, 1);
    node.await_row(2);
    assert!(!node.shows_row(1) && !node.shows_row(2), "neither is released");
    drop(closed);
    let heights = [first, second, third].map(|one| ended(one).height);
    assert!(heights[0] < heights[1] && heights[1] == heights[2], "{heights:?}");
    node.engine.stop();
    assert_eq!(verified(&memory).replica.head(), node.engine.head());
}

#[test]
fn of_one_key_one_transaction_runs_whoever_is_first() {
    let files = MemoryFiles::new();
    let node = begin(&files, "silo", 2, BlockLimits::default());
    node.schema("create table main");
    ended(node.call(Kind::Insert, 0, 0));
    let body = Call { kind: Kind::Add, table: "main", x: 0, y: 1 }.body();
    for round in 0..20 {
        let slow = node.call(Kind::Read, SLOW, 0);
        let key = format!("k{round}");
        let answers: Vec<Answer> =
            (0..6).map(|_| node.submit(Some(&key), &body).unwrap()).collect();
        node.language.release();
        ended(slow);
        let outcomes: Vec<Completion> = answers.into_iter().map(ended).collect();
        let ran: Vec<_> = outcomes.iter().filter(|one| one.outcome.is_committed()).collect();
        assert_eq!(ran.len(), 1);
        let standing = futures(node.engine.key_standing("tally", &key)).unwrap().unwrap();
        assert_eq!(standing.place, ran[0].origin);
        for one in outcomes.iter().filter(|one| !one.outcome.is_committed()) {
            let Outcome::Rejected(error) = &one.outcome else { panic!("{:?}", one.outcome) };
            // The same bytes but for when they expire: a copy, or another transaction.
            let codes = [SqlState::DUPLICATE_OBJECT, SqlState::INVALID_PARAMETER_VALUE];
            assert!(codes.contains(&error.code()), "{error}");
        }
    }
    node.engine.stop();
    assert_eq!(verified(&files).replica.head(), node.engine.head());
}

fn futures<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(done) => return done,
            std::task::Poll::Pending => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

#[test]
fn a_block_is_full_at_its_limits_and_what_waits_is_bounded() {
    let files = MemoryFiles::new();
    let limits = BlockLimits { transactions_max: 2, queued_max: 3, ..BlockLimits::default() };
    let node = begin(&files, "silo", 2, limits);
    node.schema("create table main");
    let slow = node.call(Kind::Read, SLOW, 0);
    node.language.await_running(1);
    let second = node.call(Kind::Insert, 1, 1);
    node.await_row(1);
    let waiting: Vec<Answer> = (2..5).map(|key| node.call(Kind::Insert, key, 1)).collect();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!node.has_row(2), "the block is full");
    let body = Call { kind: Kind::Insert, table: "main", x: 5, y: 1 }.body();
    let refused = node.submit(None, &body).err().map(|error| error.code());
    assert_eq!(refused, Some(SqlState::TOO_MANY_CONNECTIONS));
    node.language.release();
    let height = ended(slow).height;
    assert_eq!(ended(second).height, height);
    let heights: Vec<Height> = waiting.into_iter().map(|one| ended(one).height).collect();
    assert_eq!(heights, [height + 1, height + 1, height + 2]);
    node.engine.stop();
    assert_eq!(verified(&files).replica.head(), node.engine.head());
}

/// The power goes at any operation of the disk. What is left has all that was acknowledged.
#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    for seed in 0..16 {
        let protocol = ONLINE[seed as usize % ONLINE.len()];
        let files = MemoryFiles::new();
        let node = begin(&files, protocol, 2, BlockLimits::default());
        node.schema("create table main");
        let mut random = Random::new(seed);
        let cut = files.operations() + 20 + random.below(200);
        files.fail_at(Some(Failure::PowerOff(cut)));
        let acknowledged = std::thread::scope(|threads| {
            let run = |seed| {
                threads.spawn({
                    let node = &node;
                    move || client(node, seed, 400)
                })
            };
            let clients: Vec<_> = (0..8).map(run).collect();
            clients.into_iter().map(|one| one.join().unwrap()).max()
        });
        assert!(node.engine.is_halted(), "seed {seed}: the power did not go");
        let refused =
            node.submit(None, &Call { kind: Kind::Read, table: "main", x: 0, y: 0 }.body());
        assert_eq!(
            refused.err().map(|e: Error| e.code()),
            Some(SqlState::READ_ONLY_SQL_TRANSACTION)
        );
        for image in 0..4 {
            let left: Arc<dyn Files> = Arc::new(files.crash(&mut Random::new(image)));
            let again = recover(left, &plain, 2, &mut |_| ());
            let again = again.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
            assert!(Some(again.replica.head().height) >= acknowledged, "seed {seed}");
        }
    }
}
