//! Orders whose results a crash took: they are executed, and their results are put back.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::transaction::Asked;
use engine::{
    BlockLimits, Body, Engine, Fault, Journal, NoObserver, Recovery, ReplayBy, Replayed, Submitter,
    replay, replay_watched, resume_writing,
};
use kit::random::Random;
use ledger::{BlockResult, Files, Hash, MemoryFiles, Record, Recorded};
use recovery::schemes::Scheme;
use types::{Height, Value};

use crate::ledgered::{
    Ledgered, begin, blocks_of, calls, digest_of, executing, folders, language, options, recovered,
    workload,
};

/// A ledger of some blocks, of which results are there below a height.
fn cut_behind(blocks: &[Recorded], protocol: &str, results_below: Height) -> MemoryFiles {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let mut log = begin(&shared, protocol);
    for block in &blocks[1..] {
        log.append_order(std::slice::from_ref(&block.batch)).unwrap();
        if block.batch.height() < results_below {
            log.append_results(std::slice::from_ref(block.result.as_ref().unwrap())).unwrap();
        }
    }
    files
}

fn parameter(name: &str, value: &str) -> Body {
    Body::Parameter { name: name.into(), value: value.into() }
}

fn table(name: &str) -> Body {
    Body::Schema { text: format!("CREATE TABLE {name} (k int)") }
}

/// Calls, with changes of the schema and of parameters between blocks and among their calls.
fn changing(ledger: &mut Ledgered) {
    let workload = workload("smallbank", &[("rows", 50)]);
    ledger.load(&*workload);
    ledger.run(&*workload, 4, 40);
    ledger.block(vec![table("alone")]);
    ledger.run(&*workload, 2, 40);
    let mut mixed: Vec<Body> = calls(&*workload).take(60).collect();
    mixed.insert(20, parameter("attempts_max", "3"));
    mixed.insert(30, table("among"));
    // It is there already.
    mixed.insert(40, table("among"));
    ledger.block(mixed);
    ledger.run(&*workload, 4, 40);
}

/// The state, the results and the ledger are what they were before.
fn check_put_back(files: &Arc<dyn Files>, replayed: Replayed, blocks: &[Recorded], about: &str) {
    let Replayed { replica, reader, unrecorded, .. } = replayed;
    let missing = blocks.len() - unrecorded.len();
    let expected: Vec<_> = blocks[missing..].iter().flat_map(|block| &block.result).collect();
    assert_eq!(unrecorded.iter().collect::<Vec<_>>(), expected, "{about}");
    assert_eq!(replica.head().hash, blocks[blocks.len() - 1].result.as_ref().unwrap().hash());
    drop(resume_writing(reader, &unrecorded, options()).unwrap());
    assert!(blocks_of(files) == blocks, "{about}");
    let whole = replay(Arc::clone(files), &language, 1, &mut |_| ()).unwrap();
    assert!(whole.unrecorded.is_empty(), "{about}");
    assert_eq!(digest_of(&whole.replica), digest_of(&replica), "{about}");
}

/// With memory of blocks before and without, with deferred transactions, run first.
const PROTOCOLS: [&str; 9] = [
    "serial",
    "calvin",
    "harmony",
    "harmony:inter_block=on",
    "aria:fallback=off",
    "quecc",
    "quecc:planning=pipelined",
    "silo",
    "fabric:lag=2",
];

#[test]
fn results_that_are_missing_are_told_again_and_put_back() {
    let mut carried = 0;
    for protocol in PROTOCOLS {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let (rows, _) = folders(Scheme::Logical, 2);
        let rows = std::slice::from_ref(&rows);
        let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 2, rows);
        changing(&mut ledger);
        ledger.end_row_logs();
        let (digest, blocks) = (digest_of(&ledger.replica), blocks_of(&files));
        for block in &blocks {
            carried += BlockResult::of(block.result.as_ref().unwrap()).unwrap().carried().len();
        }
        let ways = [
            executing(1),
            executing(3),
            Recovery { workers: 2, replay: ReplayBy::Pacman, ..Recovery::default() },
            Recovery { workers: 2, rows: Some(rows[0].clone()), ..Recovery::default() },
        ];
        for missing in [1, 2, 5, blocks.len() - 1] {
            for way in &ways {
                let about = format!("{protocol}, {missing} results missing, {:?}", way.replay);
                let below = (blocks.len() - missing) as Height;
                let cut: Arc<dyn Files> = Arc::new(cut_behind(&blocks, protocol, below));
                let again = recovered(&cut, way).unwrap_or_else(|fault| panic!("{about}: {fault}"));
                assert_eq!(digest_of(&again.replica), digest, "{about}");
                assert_eq!(again.unrecorded.len(), missing, "{about}");
                assert!(again.counts.executed >= missing as u64, "{about}");
                check_put_back(&cut, again, &blocks, &about);
            }
        }
    }
    assert!(carried > 100, "{carried} transactions were decided in later blocks");
}

/// After a checkpoint as without it; one whose own block has lost its result is passed over.
#[test]
fn a_checkpoint_spares_the_blocks_below_if_its_own_result_is_there() {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let mut ledger = Ledgered::new(Arc::clone(&shared), "harmony", 2, &[]);
    let workload = workload("smallbank", &[("rows", 50)]);
    ledger.load(&*workload);
    ledger.run(&*workload, 3, 40);
    ledger.checkpoint();
    let height = ledger.replica.head().height;
    ledger.run(&*workload, 3, 40);
    let (digest, blocks) = (digest_of(&ledger.replica), blocks_of(&shared));
    for (below, holds) in [(height + 2, true), (height + 1, true), (height, false), (1, false)] {
        let cut = cut_behind(&blocks, "harmony", below);
        for path in files.paths().iter().filter(|path| path.starts_with("checkpoints/")) {
            cut.plant(path, files.contents(path).unwrap());
        }
        let cut: Arc<dyn Files> = Arc::new(cut);
        let again = recovered(&cut, &executing(2)).unwrap();
        let from = again.checkpoint.as_ref().map(|from| from.base.manifest.order.height);
        assert_eq!((from, again.passed_over.is_empty()), (holds.then_some(height), holds));
        assert_eq!(digest_of(&again.replica), digest, "results below {below}");
        check_put_back(&cut, again, &blocks, &format!("results below {below}"));
    }
}

/// A limit that was changed holds from the next block on, for a start after a checkpoint too.
#[test]
fn a_limit_that_was_changed_is_the_same_for_whoever_comes_later() {
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
    let mut ledger = Ledgered::new(Arc::clone(&files), "aria:fallback=off", 2, &[]);
    let workload = workload("smallbank", &[("rows", 20)]);
    ledger.load(&*workload);
    ledger.run(&*workload, 2, 40);
    assert!(ledger.replica.has_deferred());
    ledger.block(vec![parameter("attempts_max", "0")]);
    ledger.checkpoint();
    ledger.run(&*workload, 3, 40);
    assert!(!ledger.replica.has_deferred());
    let again = recovered(&files, &executing(1)).unwrap();
    assert!(again.checkpoint.is_some());
    assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
    let whole = replay(files, &language, 2, &mut |_| ()).unwrap();
    assert_eq!(digest_of(&whole.replica), digest_of(&ledger.replica));
}

/// What a node had told its clients when so many file operations were done.
struct Reported {
    operations: u64,
    height: Height,
}

fn start(files: &Arc<dyn Files>) -> Engine {
    let Replayed { replica, reader, unrecorded, .. } = recovered(files, &executing(2)).unwrap();
    let log = resume_writing(reader, &unrecorded, options()).unwrap();
    let (language, limits) = (replica.language().clone(), BlockLimits::default());
    let (clock, observer) = (Arc::new(|| 0), Arc::new(NoObserver));
    Engine::start(replica, Journal::from(log), language, limits, clock, observer).unwrap()
}

/// A node's ledger, one transaction a block, and what was acknowledged when.
fn lived(files: &MemoryFiles, protocol: &str) -> Vec<Reported> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    drop(begin(&shared, protocol));
    let mut reported = vec![Reported { operations: files.operations(), height: 0 }];
    let engine = start(&shared);
    let table = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)";
    let load = |id: i64| {
        let rows = vec![[Value::Int(id), Value::Int(id % 7)].into()];
        Body::load("COPY t (id, v) FROM STDIN", rows)
    };
    let mut bodies = vec![Body::Schema { text: table.into() }];
    bodies.extend((0..6).map(load));
    bodies.push(Body::Schema { text: "CREATE TABLE later (k int)".into() });
    bodies.extend((6..12).map(load));
    for body in bodies {
        let submitter = Submitter { principal: "tally", role: None, key: None, seed: [0; 16] };
        let answer = engine.submit(submitter, &Asked::from(&body), None).unwrap();
        let answer = answer.blocking_recv().unwrap();
        let height = answer.unwrap().height;
        reported.push(Reported { operations: files.operations(), height });
    }
    engine.stop();
    reported
}

/// Head and state after each block.
fn states(files: &Arc<dyn Files>) -> Vec<(Hash, Hash)> {
    let mut states = Vec::new();
    let watch = &mut |replica: &engine::Replica, _| {
        states.push((replica.head().hash, digest_of(replica)));
    };
    replay_watched(Arc::clone(files), &language, 1, watch).unwrap();
    states
}

/// The head that a disk comes to, and the blocks that it had no results of.
struct Found {
    height: Height,
    unrecorded: Vec<Height>,
}

/// Recovers, and puts the results back; `None`: there was no ledger yet.
fn put_back(files: &MemoryFiles, states: &[(Hash, Hash)], about: &str) -> Option<Found> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let again = match recovered(&shared, &executing(1)) {
        Ok(again) => again,
        Err(Fault::Empty) => return None,
        Err(Fault::TornTail(tail)) if tail.height == 0 => return None,
        Err(fault) => panic!("{about}: {fault}"),
    };
    let Replayed { replica, reader, unrecorded, .. } = again;
    let head = replica.head();
    assert_eq!((head.hash, digest_of(&replica)), states[head.height as usize], "{about}");
    drop(resume_writing(reader, &unrecorded, options()).unwrap());
    let blocks = blocks_of(&shared);
    assert!(blocks.iter().all(|block| block.result.is_some()), "{about}");
    let last = blocks.last().unwrap().result.as_ref().unwrap();
    assert_eq!((last.height(), last.hash()), (head.height, head.hash), "{about}");
    let unrecorded = unrecorded.iter().map(Record::height).collect();
    Some(Found { height: head.height, unrecorded })
}

/// The power goes before each file operation, genesis' own included, and again before each
/// operation of the start that follows.
#[test]
fn whatever_a_power_cut_leaves_of_orders_and_results_comes_to_the_state_of_its_orders() {
    for protocol in ["harmony", "silo", "si"] {
        let files = MemoryFiles::new();
        files.remember();
        let reported = lived(&files, protocol);
        let moments = files.moments();
        let states = states(&(Arc::new(files.clone()) as Arc<dyn Files>));
        let (mut random, mut unrecorded) = (Random::new(7), BTreeSet::new());
        for (moment, disk) in moments.iter().enumerate() {
            let is_reported = |reported: &&Reported| reported.operations <= moment as u64;
            let acknowledged = reported.iter().rfind(is_reported).map(|reported| reported.height);
            for image in 0..6 {
                let about = format!("{protocol}, operation {moment}, image {image}");
                let left = disk.crash(&mut random);
                left.remember();
                let found = put_back(&left, &states, &about);
                assert!(found.as_ref().map(|found| found.height) >= acknowledged, "{about}");
                let Some(found) = found else { continue };
                for disk in left.moments().iter().skip(image).step_by(3) {
                    let again = put_back(&disk.crash(&mut random), &states, &about);
                    assert_eq!(again.map(|again| again.height), Some(found.height), "{about}");
                }
                unrecorded.extend(found.unrecorded);
            }
        }
        // The rows of `si` stand in its results, so only that of genesis may be missing.
        let expected = if protocol == "si" { 1 } else { states.len() };
        assert_eq!(unrecorded.len(), expected, "{protocol}: {unrecorded:?}");
        assert!(unrecorded.contains(&0), "{protocol}");
    }
}
