//! Blocks that make the executor panic or hang: nodes that die in them, starts that stop before
//! them, skips, and what another program makes of such a ledger. On real files; processes that hang
//! are killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use concurrency::Work;
use engine::skip::{self, BLOCKS_MAX};
use engine::transaction::Asked;
use engine::{
    AskedChange, BlockLimits, Body, Clock, EXECUTOR, Engine, EngineOptions, Fault, KeyStatus,
    Language, NoObserver, Recovery, Replayed, SchemaChange, Stopped, Submitter, Transaction,
    Watchdog, WatchdogSettings, recover_by, replay, resume_writing,
};
use ledger::{
    Batch, BlockReader, BlockWriter, Files, Genesis, LogOptions, LogReader, Parameters, RealFiles,
    Stream,
};
use order::View;
use sim::language::Calls;
use sim::operation::{Call, Kind};
use storage::{LATEST, Snapshot, Store};
use tempfile::TempDir;
use types::{Error, Height, Key, Result, SqlState, TableId};

/// Protocols that order first: those that keep the order of the block, that prepare on an older
/// snapshot, that overlap, that defer.
const ORDERED: [&str; 6] =
    ["serial", "calvin", "harmony", "harmony:inter_block=on", "aria", "quecc:planning=pipelined"];

const LOG: LogOptions =
    LogOptions { segment_bytes: 64 << 10, zero_fill_bytes: 4 << 10, sync: true };

/// A call with this argument is one that the executor cannot compile.
const POISON: i64 = -1;
const POISON_SCHEMA: &str = "poison";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Executor {
    Sound,
    Panics,
    Hangs,
    /// Compiling takes five milliseconds.
    Slow,
}

struct Broken {
    calls: Calls,
    executor: Executor,
}

impl Broken {
    fn meets(&self, is_poison: bool) {
        match self.executor {
            Executor::Panics if is_poison => panic!("an executor's fault"),
            Executor::Hangs if is_poison => loop {
                std::thread::park();
            },
            Executor::Slow => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
    }
}

impl Language for Broken {
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        self.meets(Call::of(&transaction.body).is_some_and(|call| call.x == POISON));
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
        self.meets(asked.text == POISON_SCHEMA);
        self.calls.apply(asked, store, at, us)
    }
    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        self.calls.schema_image(snapshot)
    }
    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        self.calls.restore(schema_image, store)
    }
}

fn language(executor: Executor) -> impl Fn(&Arc<Store>) -> Arc<dyn Language> {
    move |_| Arc::new(Broken { calls: Calls::default(), executor })
}

fn begin(folder: &Path, protocol: &str) {
    let parameters = Parameters::new(protocol);
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters, executor: EXECUTOR };
    drop(BlockWriter::begin(files(folder), &genesis, LOG).unwrap());
}

fn files(folder: &Path) -> Arc<dyn Files> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match RealFiles::open(folder) {
            Ok(files) => return Arc::new(files),
            // A process that another test starts has our locks until it runs its own program.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

const NEVER: Duration = Duration::from_secs(3600);

/// What a start reads, and the watchdog that saw it.
fn read(
    files: &Arc<dyn Files>,
    executor: Executor,
    stuck_after: Duration,
) -> (Arc<Watchdog>, std::result::Result<Replayed, Fault>) {
    let settings = WatchdogSettings { stuck_after, ..WatchdogSettings::default() };
    let watchdog = Watchdog::open(files.clone(), settings).unwrap();
    let watchdog = Arc::new(watchdog);
    let own = Some(Arc::clone(&watchdog));
    let recovery = Recovery { workers: 2, watchdog: own, ..Recovery::default() };
    let replayed =
        recover_by(files.clone(), &language(executor), &recovery, &mut |_: engine::Progress| ());
    (watchdog, replayed)
}

struct Node {
    engine: Engine,
    stopped: Option<Stopped>,
}

fn start_within(
    folder: &Path,
    executor: Executor,
    stuck_after: Duration,
) -> std::result::Result<Node, Fault> {
    let files = files(folder);
    let (watchdog, replayed) = read(&files, executor, stuck_after);
    let Replayed { replica, reader, unrecorded, stopped, .. } = replayed?;
    let log = resume_writing(reader, &unrecorded, LOG).unwrap();
    let count = AtomicUsize::new(0);
    let clock: Clock = Arc::new(move || count.fetch_add(1, Ordering::SeqCst) as i64);
    let spoken = Arc::clone(replica.language());
    let cause = stopped.as_ref().map(Stopped::cause);
    let options =
        EngineOptions { watchdog: Some(watchdog), stopped: cause, ..EngineOptions::default() };
    let (limits, observer) = (BlockLimits::default(), Arc::new(NoObserver));
    let engine =
        Engine::start_with(replica, log, spoken, limits, clock, observer, options).unwrap();
    Ok(Node { engine, stopped })
}

fn start(folder: &Path, executor: Executor) -> std::result::Result<Node, Fault> {
    start_within(folder, executor, NEVER)
}

impl Node {
    fn ask(&self, key: Option<&str>, body: &Body) -> Result<engine::Completion> {
        let submitter = Submitter { principal: "ada", role: None, key, seed: [0; 16] };
        let answer = self.engine.submit(submitter, &Asked::from(body), None)?.blocking_recv();
        // What was being compiled when the sequencer panicked is gone, and its client is told so.
        answer.unwrap_or_else(|_| Err(Error::new(SqlState::INTERNAL_ERROR, "no answer")))
    }

    fn insert(&self, key: i64) -> Result<engine::Completion> {
        self.ask(None, &Call { kind: Kind::Insert, table: "main", x: key, y: 0 }.body())
    }

    /// What readers see.
    fn has(&self, key: i64) -> bool {
        let snapshot = self.engine.store().snapshot();
        let table = snapshot.table(TableId(1)).unwrap();
        let slot = table.find(Key::from_int(key).as_bytes());
        slot.is_some_and(|slot| table.stamp(slot, LATEST).is_some())
    }
}

fn poison() -> Body {
    Call { kind: Kind::Insert, table: "main", x: POISON, y: 0 }.body()
}

/// A ledger whose fifth block, of `body` under the key "k", a live node has died in.
fn died_in(folder: &Path, protocol: &str, body: &Body) {
    begin(folder, protocol);
    let node = start(folder, Executor::Panics).unwrap();
    node.ask(None, &Body::Schema { text: "create table main".into() }).unwrap();
    for key in 1..4 {
        assert!(node.insert(key).unwrap().outcome.is_committed());
    }
    let error = node.ask(Some("k"), body).unwrap_err();
    assert_eq!(error.code(), SqlState::INTERNAL_ERROR, "{protocol}");
    let refused = node.insert(9).unwrap_err();
    assert_eq!(refused.code(), SqlState::READ_ONLY_SQL_TRANSACTION);
    assert!(node.has(3), "reads go on");
}

const FAILING: Height = 5;

/// What `tally skip` does.
fn skip(folder: &Path, executor: Executor) -> Result<Batch> {
    let files = files(folder);
    let (watchdog, replayed) = read(&files, executor, NEVER);
    let Replayed { replica, reader, unrecorded, stopped, .. } = replayed.unwrap();
    let stopped = stopped.expect("a block fails");
    stopped.check(replica.rules())?;
    let batch = stopped.skip("ada", "it panics", 77)?;
    let mut log = resume_writing(reader, &unrecorded, LOG).unwrap();
    log.append_order(&[batch.encode().unwrap()]).unwrap();
    watchdog.forget().unwrap();
    Ok(batch)
}

/// The head that executing everything anew gives.
fn verified(folder: &Path, executor: Executor) -> ledger::Hash {
    let replayed = replay(files(folder), &language(executor), 2, &mut |_| ());
    replayed.unwrap_or_else(|fault| panic!("{fault}")).replica.head().hash
}

#[test]
fn a_ledger_lives_on_behind_a_block_that_panics() {
    let schema = Body::Schema { text: POISON_SCHEMA.into() };
    for (protocol, body) in ORDERED.iter().map(|it| (*it, poison())).chain([("harmony", schema)]) {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        died_in(folder, protocol, &body);
        // The second death; what was read up to there is shown at once.
        let node = start(folder, Executor::Panics).unwrap();
        let stopped = node.stopped.as_ref().expect(protocol);
        assert_eq!((stopped.failing.height, stopped.failing.deaths), (FAILING, 2), "{protocol}");
        assert!(stopped.failing.why.contains("an executor's fault"), "{}", stopped.failing.why);
        assert!(stopped.transaction.is_some());
        assert_eq!(node.engine.head().height, FAILING - 1);
        assert!(node.has(3) && !node.has(POISON));
        let refused = node.insert(9).unwrap_err();
        assert_eq!(refused.code(), SqlState::READ_ONLY_SQL_TRANSACTION);
        assert!(refused.fields().detail.as_deref().unwrap().contains("block 5"), "{refused}");
        assert!(refused.fields().hint.as_deref().unwrap().contains("tally skip 5"), "{refused}");
        node.engine.stop();
        drop(node);
        let again = start(folder, Executor::Panics).unwrap();
        assert!(again.stopped.is_some(), "it does not try a third time");
        drop(again);
        skip(folder, Executor::Panics).unwrap();
        let node = start(folder, Executor::Panics).unwrap();
        assert_eq!((node.stopped.as_ref(), node.engine.head().height), (None, FAILING + 1));
        let skips = node.engine.skips();
        assert_eq!((skips[0].first, skips[0].last, &*skips[0].owner), (FAILING, FAILING, "ada"));
        assert!(node.insert(4).unwrap().outcome.is_committed(), "{protocol}");
        let copy = node.ask(Some("k"), &poison()).unwrap().outcome;
        assert!(!copy.is_committed(), "its key is used, so that it does not run again");
        node.engine.stop();
        drop(node);
        let head = verified(folder, Executor::Panics);
        assert_eq!(head, verified(folder, Executor::Sound), "{protocol}: by every executor");
        // The decision is not in the results.
        std::fs::remove_dir_all(folder.join("results")).unwrap();
        assert_eq!(head, verified(folder, Executor::Sound), "{protocol}");
    }
}

#[test]
fn what_a_skipped_block_says_of_its_transactions() {
    let folder = TempDir::new().unwrap();
    died_in(folder.path(), "serial", &poison());
    drop(start(folder.path(), Executor::Panics).unwrap());
    skip(folder.path(), Executor::Panics).unwrap();
    let (_, replayed) = read(&files(folder.path()), Executor::Panics, NEVER);
    let replayed = replayed.unwrap();
    let standing = replayed.replica.key_standing("ada", "k").unwrap();
    assert_eq!(standing.status, KeyStatus::Rejected(*b"XXT01"));
    let recorded = replayed.unrecorded.iter().map(|it| ledger::BlockResult::of(it).unwrap());
    let recorded: Vec<_> = recorded.filter(|it| it.height() >= FAILING).collect();
    let [skipped, skip] = &recorded[..] else { panic!("{} results", recorded.len()) };
    let shown = engine::describe::describe_outcome(&skipped.outcomes()[0]);
    assert_eq!(shown, "rejected, XXT01");
    assert_eq!((skipped.header().effect_count, skip.header().effect_count), (0, 1));
    assert!(engine::transaction::is_committed(&skip.outcomes()[0]));
}

/// The orders of a folder, and what makes another ledger of them.
fn orders(folder: &Path) -> Vec<Batch> {
    let mut reader = LogReader::open(files(folder), Stream::Orders).unwrap();
    let next = std::iter::from_fn(|| reader.next_record().unwrap());
    next.map(|record| Batch::of(&record).unwrap()).collect()
}

/// A folder with these orders, and the results of another one.
fn with_orders(orders: &[Batch], results_of: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut results = LogReader::open(files(results_of), Stream::Results).unwrap();
    let results: Vec<_> = std::iter::from_fn(|| results.next_record().unwrap()).collect();
    let mut reader = BlockReader::open(files(folder.path())).unwrap();
    assert!(reader.next().unwrap().is_none());
    let mut log = BlockWriter::resume(reader, LOG).unwrap();
    for order in orders {
        log.append_order(&[order.encode().unwrap()]).unwrap();
    }
    // Of orders that are these, as others have none that a reader would take.
    let same = results.iter().zip(orders).take_while(|(it, of)| it.order_hash() == of.hash());
    let same = same.count();
    log.append_results(&results[..same]).unwrap();
    log.orders.rest().unwrap();
    log.results.rest().unwrap();
    folder
}

fn mismatch(folder: &Path) -> Height {
    match replay(files(folder), &language(Executor::Sound), 1, &mut |_| ()) {
        Err(Fault::Mismatch(mismatch)) => mismatch.height,
        Err(fault) => panic!("{fault}"),
        Ok(_) => panic!("nothing is found"),
    }
}

#[test]
fn a_skip_that_was_added_taken_away_or_changed_is_found() {
    let skipped = TempDir::new().unwrap();
    died_in(skipped.path(), "serial", &poison());
    drop(start(skipped.path(), Executor::Panics).unwrap());
    skip(skipped.path(), Executor::Panics).unwrap();
    let node = start(skipped.path(), Executor::Panics).unwrap();
    node.engine.stop();
    drop(node);
    let all = orders(skipped.path());
    assert_eq!(all.len() as Height, FAILING + 2);
    // Taken away: the results say that the block was skipped.
    let cut = with_orders(&all[..all.len() - 1], skipped.path());
    assert_eq!(mismatch(cut.path()), FAILING);
    // Of another block: no skip at all.
    let envelope = &all[FAILING as usize + 1].envelopes()[0];
    let view = View::read(envelope).unwrap();
    let Ok(Body::Skip { first, reason, .. }) = Body::from_request(view.request) else { panic!() };
    let other = Body::Skip { first, order: [1; 32], reason };
    let other = View { request: &other.to_request(), ..View::read(envelope).unwrap() };
    let resealed = |envelope: bytes::Bytes| {
        let header = all[FAILING as usize + 1].header();
        let seal = ledger::OrderSeal {
            ledger_id: header.ledger_id,
            height: header.height,
            previous_order_hash: header.previous_order_hash,
            time_us: header.time_us,
            proposer: header.proposer,
            parameters_hash: header.parameters_hash,
            seen_height: header.seen_height,
        };
        Batch::seal(seal, vec![envelope]).unwrap()
    };
    let mut changed = all.clone();
    changed[FAILING as usize + 1] = resealed(other.encode().unwrap());
    let folder = with_orders(&changed, skipped.path());
    assert_eq!(mismatch(folder.path()), FAILING);
    // Added after a block that was executed: the results say that it was.
    let sound = TempDir::new().unwrap();
    begin(sound.path(), "serial");
    let node = start(sound.path(), Executor::Sound).unwrap();
    node.ask(None, &Body::Schema { text: "create table main".into() }).unwrap();
    assert!(node.insert(1).unwrap().outcome.is_committed());
    node.engine.stop();
    drop(node);
    let mut forged = orders(sound.path());
    let last = forged.last().unwrap().header().clone();
    let failing =
        engine::Failing { height: last.height, order: last.hash(), deaths: 2, why: "none".into() };
    let stopped = Stopped {
        failing,
        order: last.clone(),
        last: last.clone(),
        is_recorded: false,
        transaction: None,
    };
    forged.push(stopped.skip("eve", "it never was", 0).unwrap());
    let folder = with_orders(&forged, sound.path());
    assert_eq!(mismatch(folder.path()), last.height);
}

#[test]
fn a_block_that_was_executed_is_not_skipped() {
    let rules = |protocol: &str| pipeline::Rules::of(&*protocols::by_name(protocol).unwrap());
    let folder = TempDir::new().unwrap();
    died_in(folder.path(), "harmony:inter_block=on", &poison());
    let node = start(folder.path(), Executor::Panics).unwrap();
    let stopped = node.stopped.clone().unwrap();
    drop(node);
    let refusal = |stopped: &Stopped, protocol: &str| -> Error {
        let refused = stopped.check(rules(protocol)).unwrap_err();
        assert_eq!(refused.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        refused
    };
    stopped.check(rules("serial")).unwrap();
    stopped.check(rules("harmony:inter_block=on")).unwrap();
    refusal(&stopped, "silo");
    refusal(&Stopped { is_recorded: true, ..stopped.clone() }, "serial");
    let behind = |blocks: Height, seen_height: Height| {
        let height = FAILING + blocks;
        let last = ledger::OrderHeader { height, seen_height, ..stopped.last.clone() };
        Stopped { last, ..stopped.clone() }
    };
    refusal(&behind(1, 0), "serial");
    behind(1, FAILING - 1).check(rules("harmony:inter_block=on")).unwrap();
    refusal(&behind(1, FAILING), "harmony:inter_block=on");
    refusal(&behind(BLOCKS_MAX, FAILING - 1), "harmony:inter_block=on");
    for reason in ["", " ", &"x".repeat(skip::REASON_BYTES_MAX + 1)] {
        let refused = stopped.skip("ada", reason, 0).unwrap_err();
        assert_eq!(refused.code(), SqlState::INVALID_PARAMETER_VALUE);
    }
}

#[test]
fn no_session_skips_a_block() {
    let folder = TempDir::new().unwrap();
    begin(folder.path(), "serial");
    let node = start(folder.path(), Executor::Sound).unwrap();
    let body = Body::Skip { first: 0, order: [0; 32], reason: "mine".into() };
    assert_eq!(node.ask(None, &body).unwrap_err().code(), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// A block that was ordered beside the one that fails goes with it: its parameters, its snapshot
/// and its deferred transactions came from there.
#[test]
fn what_was_ordered_beside_the_block_is_skipped_with_it() {
    for protocol in ["harmony:inter_block=on", "quecc:planning=pipelined"] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        died_in(folder, protocol, &poison());
        let other = {
            let all = orders(folder);
            let header = all.last().unwrap().header();
            let seal = ledger::OrderSeal {
                ledger_id: header.ledger_id,
                height: header.height + 1,
                previous_order_hash: header.hash(),
                time_us: header.time_us,
                proposer: header.proposer,
                parameters_hash: header.parameters_hash,
                seen_height: if protocol.starts_with("quecc") { 0 } else { FAILING - 1 },
            };
            let body = Call { kind: Kind::Insert, table: "main", x: 8, y: 0 }.body();
            let mut numbering = engine::Numbering::behind([7; 16], &header.hash());
            Batch::seal(
                seal,
                vec![numbering.request::<()>("ada", 0, &body).unwrap().envelope.into_bytes()],
            )
            .unwrap()
        };
        {
            let mut reader = BlockReader::open(files(folder)).unwrap();
            while reader.next().unwrap().is_some() {}
            let mut log = BlockWriter::resume(reader, LOG).unwrap();
            log.append_order(&[other.encode().unwrap()]).unwrap();
        }
        let node = start(folder, Executor::Panics).unwrap();
        assert_eq!(node.stopped.as_ref().unwrap().last.height, FAILING + 1);
        drop(node);
        skip(folder, Executor::Panics).unwrap();
        let node = start(folder, Executor::Panics).unwrap();
        assert_eq!(node.engine.head().height, FAILING + 2);
        assert_eq!((node.engine.skips()[0].first, node.engine.skips()[0].last), (5, 6));
        assert!(!node.has(8), "{protocol}");
        assert!(node.insert(8).unwrap().outcome.is_committed(), "{protocol}");
        node.engine.stop();
        drop(node);
        assert_eq!(verified(folder, Executor::Panics), verified(folder, Executor::Sound));
    }
}

/// Transactions that earlier blocks deferred to a block that is skipped end there, too.
#[test]
fn what_was_put_off_to_the_block_is_rejected_with_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    begin(folder, "aria");
    let node = start(folder, Executor::Sound).unwrap();
    node.ask(None, &Body::Schema { text: "create table main".into() }).unwrap();
    node.insert(1).unwrap();
    node.engine.stop();
    drop(node);
    let put_off = {
        let files = files(folder);
        let Replayed { mut replica, reader, unrecorded, .. } =
            read(&files, Executor::Sound, NEVER).1.unwrap();
        let mut log = resume_writing(reader, &unrecorded, LOG).unwrap();
        let mut numbering = engine::Numbering::behind([7; 16], &replica.head().hash);
        let add = Call { kind: Kind::Add, table: "main", x: 1, y: 1 }.body();
        let mut adds = |count| -> Vec<_> {
            (0..count).map(|_| numbering.request("ada", 0, &add).unwrap()).collect()
        };
        let executed = replica.execute(90, adds(4)).unwrap();
        replica.publish();
        log.append_order(&[executed.batch.encode().unwrap()]).unwrap();
        let put_off = replica.deferred_to_next();
        let height = replica.order(91, [0; 32], 0, {
            let mut requests = adds(1);
            requests.push(numbering.request("ada", 0, &poison()).unwrap());
            requests
        });
        let batch = replica.batch(height.unwrap()).unwrap();
        log.append_order(&[batch.encode().unwrap()]).unwrap();
        put_off
    };
    assert!(put_off > 0, "nothing is deferred");
    assert!(start(folder, Executor::Panics).is_err());
    drop(start(folder, Executor::Panics).unwrap());
    skip(folder, Executor::Panics).unwrap();
    let replayed = read(&files(folder), Executor::Panics, NEVER).1.unwrap();
    assert!(!replayed.replica.has_deferred());
    let recorded = replayed.unrecorded.iter().map(|it| ledger::BlockResult::of(it).unwrap());
    let skipped = recorded.into_iter().find(|it| it.outcomes().len() == 2).unwrap();
    assert_eq!(skipped.carried().len(), put_off);
    let carried = skipped.carried().iter().map(|carried| &carried.outcome);
    for outcome in skipped.outcomes().iter().chain(carried) {
        assert_eq!(engine::describe::describe_outcome(outcome), "rejected, XXT01");
    }
    drop(replayed);
    assert_eq!(verified(folder, Executor::Panics), verified(folder, Executor::Sound));
}

const CHILD: &str = "TALLY_TEST_SKIP_CHILD";

/// Not a test of its own: the process that others kill.
#[test]
fn a_process_that_is_killed() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (executor, folder) = asked.split_once(' ').unwrap();
    let (executor, stuck_after) = match executor {
        "hangs" => (Executor::Hangs, Duration::from_millis(300)),
        _ => (Executor::Slow, Duration::from_secs(2)),
    };
    let node = start_within(Path::new(folder), executor, stuck_after).unwrap();
    for key in 10.. {
        match executor {
            Executor::Hangs if node.stopped.is_none() => drop(node.ask(None, &poison())),
            Executor::Slow => drop(node.insert(key)),
            _ => return,
        }
    }
}

fn process(executor: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_is_killed", "--nocapture"])
        .env(CHILD, format!("{executor} {}", folder.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Those that are kept, without what a start marks.
fn deaths(folder: &Path) -> usize {
    let Ok(names) = std::fs::read_dir(folder.join("deaths")) else { return 0 };
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.parse::<u64>().is_ok()).count()
}

#[test]
fn a_block_that_hangs_is_found_by_two_kills() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    begin(folder, "harmony");
    let node = start(folder, Executor::Sound).unwrap();
    node.ask(None, &Body::Schema { text: "create table main".into() }).unwrap();
    node.engine.stop();
    drop(node);
    for death in 1..=2 {
        let mut hanging = process("hangs", folder);
        let deadline = Instant::now() + Duration::from_secs(60);
        while deaths(folder) < death {
            assert!(Instant::now() < deadline, "death {death}");
            std::thread::sleep(Duration::from_millis(10));
        }
        hanging.kill().unwrap();
        hanging.wait().unwrap();
    }
    assert!(process("hangs", folder).wait().unwrap().success(), "the third start serves reads");
    let node = start(folder, Executor::Hangs).unwrap();
    assert_eq!(node.stopped.as_ref().unwrap().failing.height, 2);
    assert!(node.stopped.as_ref().unwrap().failing.why.contains("running"));
    drop(node);
    skip(folder, Executor::Hangs).unwrap();
    let node = start(folder, Executor::Hangs).unwrap();
    assert!(node.insert(1).unwrap().outcome.is_committed());
    node.engine.stop();
    drop(node);
    assert_eq!(deaths(folder), 0);
    assert_eq!(verified(folder, Executor::Hangs), verified(folder, Executor::Sound));
}

/// In a block, in the middle of a start: nothing of it is taken for a fault.
#[test]
fn kills_of_a_healthy_node_stop_nothing() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    begin(folder, "serial");
    let node = start(folder, Executor::Sound).unwrap();
    node.ask(None, &Body::Schema { text: "create table main".into() }).unwrap();
    for key in 10..60 {
        node.insert(key).unwrap();
    }
    node.engine.stop();
    drop(node);
    // Each start has some 300 milliseconds of blocks to execute, then new ones.
    for pause_ms in [20, 60, 60, 100, 150, 200, 250, 400, 600] {
        let mut healthy = process("slow", folder);
        std::thread::sleep(Duration::from_millis(pause_ms));
        healthy.kill().unwrap();
        healthy.wait().unwrap();
        assert_eq!(deaths(folder), 0);
        let node = start(folder, Executor::Slow).unwrap();
        assert!(node.stopped.is_none() && node.engine.head().height >= 51);
        node.engine.stop();
        drop(node);
        assert_eq!(deaths(folder), 0);
    }
}
