//! What goes from block to block is a value: a protocol that has it and the store goes on as the
//! others do.

use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Carried, Protocol, Snapshots, Work, WorkerPool};
use kit::mutation::mutate;
use kit::random::Random;
use oracle::course::Course;
use oracle::programs::{LOG, TABLE, fill, random_work, schemas};
use oracle::subjects::{Subject, defaults, variants};
use oracle::{StoredRow, rows};
use pipeline::{Line, LineStart};
use storage::Store;
use types::Height;

const OVERLAPPING: &str = "harmony:inter_block=on";

/// Rows are there before the first barrier.
const FILLED: Height = 1;

fn names() -> Vec<String> {
    multiversion::register();
    let lagging = ["fabric:lag=3:spread=2", "fabric_pp:lag=3:spread=2", "fabric_pp:spread=1"];
    let overlapping = [":reordering=off", ":coalescence=off", ":fallback=defer"];
    let listed = defaults().into_iter().chain(variants()).map(|subject| subject.name);
    let lagging = lagging.map(str::to_owned).into_iter();
    let overlapping = overlapping.map(|choice| format!("{OVERLAPPING}{choice}"));
    listed.chain(lagging).chain(overlapping).chain(multiversion::block::all_names()).collect()
}

/// Blocks after the fill, from a seed.
fn blocks(seed: u64, count: usize) -> Vec<Vec<Arc<Work>>> {
    let mut random = Random::new(seed);
    let keys = [4, 9, 25][random.below(3) as usize];
    let block = |random: &mut Random| {
        let count = 2 + random.below(9);
        (0..count).map(|_| random_work(random, keys, 5)).collect()
    };
    (0..count).map(|_| block(&mut random)).collect()
}

/// All that a block leaves.
#[derive(PartialEq, Debug)]
struct Left {
    outcome: BlockOutcome,
    carried: Vec<u8>,
    rows: [Vec<StoredRow>; 2],
}

/// A store with its protocol, between two blocks.
struct Run {
    name: String,
    protocol: Arc<dyn Protocol>,
    store: Arc<Store>,
    course: Course,
    pool: WorkerPool,
}

impl Run {
    fn new(name: &str, workers: usize) -> Run {
        let store = Arc::new(Store::new());
        schemas().into_iter().for_each(|schema| drop(store.create_table(schema)));
        let filled = Block::new(FILLED, 0, fill(5));
        let serial = protocols::by_name("serial").unwrap();
        oracle::run_block(&serial, &WorkerPool::new(1), &store, &filled).unwrap();
        let protocol = Subject::named(name).protocol;
        let course = Course::behind(FILLED, &store, &protocol, 0);
        Run { name: name.to_owned(), protocol, store, course, pool: WorkerPool::new(workers) }
    }

    /// As far behind as the protocol allows.
    fn block(&mut self, transactions: Vec<Arc<Work>>) -> Left {
        let ran = self.course.run_late(&self.pool, transactions);
        let ran = ran.unwrap_or_else(|why| panic!("{}: {why}", self.name));
        self.store.collect();
        let outcome = ran.outcome();
        let carried = outcome.carried.encode();
        Left { outcome, carried, rows: [TABLE, LOG].map(|table| rows(&self.store, table)) }
    }

    /// Another protocol value, and of the block before only the bytes.
    fn restart(&mut self) {
        let carried = self.course.line().carried().encode();
        self.protocol = Subject::named(&*self.name).protocol;
        let decoded = self.protocol.decode_carried(&carried);
        let decoded = decoded.unwrap_or_else(|why| panic!("{}: {why}", self.name));
        assert_eq!(decoded.encode(), carried, "{}", self.name);
        self.course.go_on_by(&self.protocol, decoded);
    }
}

/// After any block, and after every one.
#[test]
fn who_begins_behind_a_block_goes_on_as_all_others_do() {
    const BLOCKS: usize = 7;
    let (mut carrying, mut reordered) = (0, 0);
    for name in names() {
        let deterministic = Subject::named(&*name).protocol.info().deterministic;
        let workers = if deterministic { 2 } else { 1 };
        for seed in 0..3 {
            let blocks = blocks(seed, BLOCKS);
            let mut whole = Run::new(&name, workers);
            let expected: Vec<Left> = blocks.iter().map(|b| whole.block(b.clone())).collect();
            carrying += expected.iter().filter(|left| !left.carried.is_empty()).count();
            reordered += expected
                .iter()
                .map(|left| left.outcome.inter_block_reorderings.len())
                .sum::<usize>();
            for restarted in (0..=BLOCKS).map(|at| (at < BLOCKS).then_some(at)) {
                let mut run = Run::new(&name, workers);
                for (at, block) in blocks.iter().enumerate() {
                    if restarted.is_none_or(|restarted| restarted == at) {
                        run.restart();
                    }
                    let left = run.block(block.clone());
                    assert_eq!(
                        left, expected[at],
                        "{name}, seed {seed}, {restarted:?}, block {at}"
                    );
                }
            }
        }
    }
    assert!(carrying > 50, "{carrying} blocks carried anything over");
    assert!(reordered > 20, "{reordered} transactions overtook");
}

/// What is carried over is hashed, so workers must not show in it.
#[test]
fn what_is_carried_is_the_same_on_any_number_of_workers() {
    for seed in 0..20 {
        let seen = [1, 2, 8].map(|workers| {
            let mut run = Run::new(OVERLAPPING, workers);
            let large = |block: Vec<Arc<Work>>| -> Vec<Arc<Work>> {
                block.iter().cycle().take(300).cloned().collect()
            };
            let left = blocks(seed, 3).into_iter().map(|block| run.block(large(block)).carried);
            left.collect::<Vec<_>>()
        });
        assert!(seen[0].iter().all(|carried| !carried.is_empty()));
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
}

/// Only where the next block may look back.
#[test]
fn blocks_that_do_not_overlap_carry_nothing() {
    for name in names().iter().filter(|name| !name.starts_with(OVERLAPPING)) {
        let mut run = Run::new(name, 1);
        let left = run.block(blocks(1, 1).remove(0));
        assert!(left.outcome.carried.is_empty() && left.carried.is_empty(), "{name}");
        assert!(run.protocol.decode_carried(&[0]).is_err(), "{name}");
    }
}

/// Whatever comes instead of the block before's, it is refused, not taken for no edges.
#[test]
fn a_block_two_behind_needs_what_the_one_before_it_carried() {
    for keeps_older in [false, true] {
        let mut run = Run::new(OVERLAPPING, 1);
        let mut blocks = blocks(1, 2).into_iter();
        let first = run.block(blocks.next().unwrap());
        run.block(blocks.next().unwrap());
        let carried = if keeps_older { first.outcome.carried } else { Carried::default() };
        run.course.go_on_by(&run.protocol, carried);
        assert!(run.course.run_late(&run.pool, Vec::new()).is_err());
    }
}

/// Endorsements on a snapshot that may have been collected would differ between replicas.
#[test]
fn endorsements_on_snapshots_that_are_not_held_are_refused() {
    for name in ["fabric:lag=2", "fabric_pp:spread=1"] {
        let mut run = Run::new(name, 1);
        blocks(1, 4).into_iter().for_each(|block| drop(run.block(block)));
        let start = LineStart::new(Arc::clone(&run.protocol));
        let Run { store, course, pool, .. } = run;
        drop(course);
        store.collect();
        let newest = store.newest();
        let mut line: Line<Arc<Work>> = Line::new(store, start, 0);
        let mut prepare =
            |snapshots| line.plan(newest + 1, 0, Vec::new(), snapshots).prepare(&pool).map(drop);
        assert!(prepare(Snapshots { newest, floor: FILLED }).is_err());
        assert!(prepare(Snapshots { newest: newest - 1, floor: newest - 1 }).is_err());
        assert!(prepare(Snapshots { newest, floor: newest }).is_ok());
    }
}

/// One encoding for each state: what is not refused is encoded as it was.
#[test]
fn hostile_bytes_are_refused_or_mean_what_they_say() {
    let protocol = protocols::by_name(OVERLAPPING).unwrap();
    let carried = |seed| {
        let mut run = Run::new(OVERLAPPING, 1);
        blocks(seed, 3).into_iter().map(|block| run.block(block).carried).collect::<Vec<_>>()
    };
    let samples: Vec<Vec<u8>> = (0..6).flat_map(carried).collect();
    let mut random = Random::new(7);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..40_000 {
        let mut bytes = samples[round % samples.len()].clone();
        mutate(&mut bytes, &samples, &mut random);
        match protocol.decode_carried(&bytes) {
            Ok(carried) => {
                assert_eq!(carried.encode(), bytes);
                taken += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(taken > 500 && refused > 5_000, "{taken} taken, {refused} refused");
}

/// A decoded state is used as it is, whatever it says.
#[test]
fn a_block_runs_behind_whatever_could_be_decoded() {
    let mut random = Random::new(3);
    let mut ran = 0;
    for seed in 0..300 {
        let mut run = Run::new(OVERLAPPING, 1);
        let mut blocks = blocks(seed % 10, 3).into_iter();
        let samples = [run.block(blocks.next().unwrap()), run.block(blocks.next().unwrap())];
        let samples = samples.map(|left| left.carried);
        let mut bytes = samples[1].clone();
        mutate(&mut bytes, &samples, &mut random);
        let Ok(carried) = run.protocol.decode_carried(&bytes) else { continue };
        run.course.go_on_by(&run.protocol, carried);
        // It may be refused, and must not panic.
        drop(run.course.run_late(&run.pool, blocks.next().unwrap()));
        ran += 1;
    }
    assert!(ran > 5, "{ran} blocks ran");
}
