//! The claims of Lai 2023, one test each; those on overlapping blocks are in `inter_block.rs`.

use std::sync::Arc;

use concurrency::{Outcome, Work, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::course::{Course, Overlap};
use oracle::programs::{Builder, Operation, fill, random_program, schemas};
use storage::Store;

fn program(operations: &[(Operation, i64)]) -> Arc<Work> {
    let mut builder = Builder::default();
    for &(operation, key) in operations {
        builder.push(operation, key, 4);
    }
    builder.finish()
}

/// How many of a block's transactions are rejected, after a fill of some rows.
fn rejections(name: &str, mutant: Option<&'static str>, block: Vec<Arc<Work>>) -> u32 {
    let protocol = match mutant {
        Some(mutant) => protocols::mutant(name, mutant).unwrap(),
        None => protocols::by_name(name).unwrap(),
    };
    let pool = WorkerPool::new(1);
    let mut twin = Twin::new(&schemas());
    twin.run(&protocol, &pool, fill(8)).unwrap();
    let outcome = twin.run(&protocol, &pool, block).unwrap();
    outcome.report.rerun + outcome.deferred.len() as u32
}

/// Zipf's distribution by its cumulated weights.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u64, theta: f64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-theta);
            sum
        });
        Zipf(weights.collect())
    }

    fn key(&self, random: &mut Random) -> i64 {
        let drawn = random.unit() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|sum| *sum < drawn) as i64
    }
}

/// Section 5: YCSB's ten operations on distinct keys, each a read or a blind update.
fn ycsb(skew: &Zipf, random: &mut Random) -> Arc<Work> {
    let mut builder = Builder::default();
    let mut keys = Vec::new();
    while keys.len() < 10 {
        let key = skew.key(random);
        if keys.contains(&key) {
            continue;
        }
        keys.push(key);
        let operation = if random.chance(2) { Operation::Read } else { Operation::BlindSet };
        builder.push(operation, key, 1);
    }
    builder.silent().finish()
}

/// Share of YCSB transactions that are rejected, in percent.
fn hit_rate(name: &str, theta: f64) -> f64 {
    const KEYS: u64 = 10_000;
    const BLOCK: usize = 25;
    const BLOCKS: usize = 100;
    let protocol = protocols::by_name(name).unwrap();
    let pool = WorkerPool::new(1);
    let store = Arc::new(Store::new());
    for schema in schemas() {
        store.create_table(schema);
    }
    let (mut random, skew) = (Random::new(1), Zipf::new(KEYS, theta));
    let mut course = Course::behind(0, &store, &protocol, 0);
    // The rows must be there before anything overlaps.
    course.run(&pool, fill(KEYS)).unwrap();
    let mut block = |_| (0..BLOCK).map(|_| ycsb(&skew, &mut random)).collect();
    let blocks = (0..BLOCKS).map(&mut block).collect();
    let ran = course.run_overlapping(&pool, blocks, Overlap::Before).unwrap();
    let rejected: u32 = ran.iter().map(|ran| ran.sealed.report.rerun).sum();
    100.0 * f64::from(rejected) / (BLOCK * BLOCKS) as f64
}

/// Table 3: hit rates of the backward dangerous structure, blocks of 25 on 10,000 keys. The paper's
/// blocks overlap, which the structures over two blocks show.
#[test]
fn the_dangerous_structure_is_as_rare_as_in_table_3() {
    let paper = [(0.0, 1.1), (0.2, 1.2), (0.4, 2.4), (0.6, 9.9), (0.8, 38.3), (1.0, 74.3)];
    let ours = paper.map(|(theta, rate)| {
        let rates = ["harmony", "harmony:inter_block=on"].map(|name| hit_rate(name, theta));
        (theta, rate, rates)
    });
    println!("skew   paper  overlapping  apart");
    for (theta, rate, [apart, overlapping]) in ours {
        println!("{theta:4} {rate:6.1}% {overlapping:11.1}% {apart:5.1}%");
    }
    for (theta, rate, [apart, overlapping]) in ours {
        assert!(apart <= overlapping, "theta {theta}");
        assert!((overlapping - rate).abs() < 10.0, "theta {theta}: {overlapping} %");
    }
}

/// 3.3.1: reordering saves who read something that an earlier transaction writes.
#[test]
fn reordering_saves_a_backward_edge() {
    let block = || vec![program(&[(Operation::BlindSet, 0)]), program(&[(Operation::Read, 0)])];
    assert_eq!(rejections("harmony", None, block()), 0);
    assert_eq!(rejections("harmony:reordering=off", None, block()), 1);
}

/// 3.2: a transaction that reads what it writes itself has no edge to itself.
#[test]
fn who_reads_what_it_writes_is_not_its_own_partner() {
    let block = || {
        vec![
            program(&[(Operation::BlindSet, 0)]),
            program(&[(Operation::Read, 0), (Operation::Read, 1), (Operation::Set, 1)]),
        ]
    };
    assert_eq!(rejections("harmony", None, block()), 0);
    assert_eq!(rejections("harmony", Some("self_edges"), block()), 1);
}

/// 3.3.2: coalescence changes how often a record is written, and nothing that can be seen.
#[test]
fn coalescence_is_invisible() {
    let pool = WorkerPool::new(2);
    for seed in 0..60 {
        let seen = ["harmony", "harmony:coalescence=off"].map(|name| {
            let protocol = protocols::by_name(name).unwrap();
            let mut random = Random::new(seed);
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(6)).unwrap();
            let blocks =
                (0..3).map(|_| (0..20).map(|_| random_program(&mut random, 9, 4)).collect());
            let blocks: Vec<Vec<_>> = blocks.collect();
            let outcomes = blocks.into_iter().map(|b| twin.run(&protocol, &pool, b).unwrap());
            outcomes.collect::<Vec<_>>()
        });
        assert_eq!(seen[0], seen[1], "seed {seed}");
    }
}

/// The ablations are serializable, too.
#[test]
fn without_reordering_and_with_deferral_blocks_equal_the_serial_replay() {
    for name in ["harmony:reordering=off", "harmony:fallback=defer"] {
        let protocol = protocols::by_name(name).unwrap();
        let pool = WorkerPool::new(2);
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(4)).unwrap();
            for _ in 0..4 {
                let block = (0..8).map(|_| random_program(&mut random, 7, 4)).collect();
                if let Err(divergence) = twin.run(&protocol, &pool, block) {
                    panic!("{name}, seed {seed}: {divergence}");
                }
            }
        }
    }
}

/// Deferral is an outcome of its own: who is deferred says so, and who is not does not.
#[test]
fn whoever_is_deferred_ends_in_a_retry() {
    let protocol = protocols::by_name("harmony:fallback=defer").unwrap();
    let pool = WorkerPool::new(1);
    let mut twin = Twin::new(&schemas());
    twin.run(&protocol, &pool, fill(2)).unwrap();
    let swap = |a, b| program(&[(Operation::Read, a), (Operation::Set, b)]);
    let outcome = twin.run(&protocol, &pool, vec![swap(0, 1), swap(1, 0)]).unwrap();
    assert_eq!(outcome.deferred, [1]);
    assert!(matches!(outcome.outcomes[..], [Outcome::Committed(_), Outcome::Retry(_)]));
}
