//! Blocks that overlap (Lai 2023, 3.4): small worlds exhaustively, larger ones at random.

use std::sync::Arc;

use concurrency::{BlockOutcome, Protocol, Work, WorkerPool};
use kit::random::Random;
use oracle::course::Overlap;
use oracle::programs::{Builder, Operation, fill, random_program, schemas};
use oracle::{Twin, rows};

use crate::seeds;

const OVERLAPPING: &str = "harmony:inter_block=on";

fn program(operations: &[(Operation, i64)]) -> Arc<Work> {
    let mut builder = Builder::default();
    for &(operation, key) in operations {
        builder.push(operation, key, 4 + key);
    }
    builder.finish()
}

/// Two operations each on two records: a value read feeds the write after it.
const PAIRS: [(Operation, Operation); 7] = [
    (Operation::Read, Operation::Set),
    (Operation::Read, Operation::Add),
    (Operation::Add, Operation::BlindSet),
    (Operation::Read, Operation::Read),
    (Operation::Read, Operation::Delete),
    (Operation::Exists, Operation::InsertIfAbsent),
    (Operation::SumRange, Operation::Replace),
];

/// All pairs on the two records, in both directions and on one of them; up to the symmetry that
/// swaps the records the first program of a world always begins at record 0.
fn programs() -> Vec<Arc<Work>> {
    let directed = [(0, 1), (0, 0), (1, 0), (1, 1)];
    let of = |(a, b)| PAIRS.map(|(first, second)| program(&[(first, a), (second, b)]));
    directed.into_iter().flat_map(of).collect()
}

/// One of the worlds of three transactions cut into blocks: 1 + 2, 2 + 1 or 1 + 1 + 1.
fn world(programs: &[Arc<Work>], number: usize) -> Vec<Vec<Arc<Work>>> {
    let count = programs.len();
    let pick = |n: usize| Arc::clone(&programs[n]);
    let three = [number % (count / 2), number / (count / 2) % count, number / (count / 2) / count];
    let [one, two, three] = three.map(|n| pick(n % count));
    match number / (count / 2) / count / count {
        0 => vec![vec![one], vec![two, three]],
        1 => vec![vec![one, two], vec![three]],
        _ => vec![vec![one], vec![two], vec![three]],
    }
}

fn worlds(programs: &[Arc<Work>]) -> usize {
    3 * programs.len() * programs.len() * programs.len() / 2
}

fn run(
    protocol: &Arc<dyn Protocol>,
    blocks: Vec<Vec<Arc<Work>>>,
) -> Result<Vec<BlockOutcome>, String> {
    let pool = WorkerPool::new(1);
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, &pool, fill(2)).map_err(|d| d.to_string())?;
    // The first block of a row is never behind, so an idle one comes before.
    let blocks = std::iter::once(vec![program(&[])]).chain(blocks).collect();
    twin.run_all(protocol, &pool, blocks).map_err(|d| d.to_string())
}

/// Every world of three transactions with two operations each, over two records and two or three
/// blocks. CI takes every eleventh; `TALLY_ORACLE_SEEDS=11` takes them all.
#[test]
fn rule_3_leaves_no_cycle_in_any_small_world() {
    let stride = (11 / seeds(1) as usize).max(1);
    let programs = programs();
    let protocol = protocols::by_name(OVERLAPPING).unwrap();
    for number in (0..worlds(&programs)).step_by(stride) {
        let blocks = world(&programs, number);
        if let Err(divergence) = run(&protocol, blocks.clone()) {
            panic!("world {number}: {divergence}\n{blocks:#?}");
        }
    }
}

fn random_blocks(seed: u64) -> (u64, Vec<Vec<Arc<Work>>>) {
    let mut random = Random::new(seed);
    let keys = [3, 8, 20, 60][random.below(4) as usize];
    let size = [2, 4, 12][random.below(3) as usize];
    let block = |random: &mut Random| {
        let count = 1 + random.below(size);
        (0..count).map(|_| random_program(random, keys, 4)).collect()
    };
    (keys, (0..6).map(|_| block(&mut random)).collect())
}

fn run_random(protocol: &Arc<dyn Protocol>, seed: u64, overlap: Overlap) -> Result<Twin, String> {
    let pool = WorkerPool::new(2);
    let (keys, blocks) = random_blocks(seed);
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, &pool, fill(keys / 2 + 1)).map_err(|d| d.to_string())?;
    twin.run_overlapping(protocol, &pool, blocks, overlap).map_err(|d| d.to_string())?;
    Ok(twin)
}

/// With every other choice, too.
#[test]
fn random_overlapping_blocks_equal_the_serial_replay() {
    for choice in ["", ":reordering=off", ":coalescence=off", ":fallback=defer"] {
        let name = format!("{OVERLAPPING}{choice}");
        let protocol = protocols::by_name(&name).unwrap();
        for seed in 0..seeds(100) {
            if let Err(divergence) = run_random(&protocol, seed, Overlap::Before) {
                panic!("{name}, seed {seed}: {divergence}");
            }
        }
    }
}

/// Lai 2023, 3.4: a replica that sees the later block early and one that sees it late decide alike.
#[test]
fn when_the_next_block_arrives_is_invisible() {
    for seed in 0..40 {
        let seen = [Overlap::Before, Overlap::During, Overlap::After].map(|overlap| {
            let protocol = protocols::by_name(OVERLAPPING).unwrap();
            let twin = run_random(&protocol, seed, overlap).unwrap();
            rows(&twin.subject, oracle::programs::TABLE)
        });
        assert!(seen.windows(2).all(|w| w[0] == w[1]), "seed {seed}");
    }
}

/// Who read what the block before wrote needs no rejection for that alone: it comes earlier.
#[test]
fn a_stale_read_overtakes_and_stays() {
    let protocol = protocols::by_name(OVERLAPPING).unwrap();
    let blocks = vec![
        vec![program(&[(Operation::BlindSet, 0)])],
        vec![program(&[(Operation::Read, 0), (Operation::Set, 1)])],
    ];
    let outcomes = run(&protocol, blocks).unwrap();
    assert_eq!(outcomes[2].report.rerun, 0);
    assert_eq!(outcomes[2].inter_block_reorderings, [(0, 0)]);
}

/// Case (i) with two blocks: T read what U wrote and writes what U read.
#[test]
fn the_later_of_two_that_read_what_the_other_writes_is_rejected() {
    let protocol = protocols::by_name(OVERLAPPING).unwrap();
    let blocks = vec![
        vec![program(&[(Operation::Read, 1), (Operation::Set, 0)])],
        vec![program(&[(Operation::Read, 0), (Operation::Set, 1)])],
    ];
    let outcomes = run(&protocol, blocks).unwrap();
    assert_eq!([outcomes[1].report.rerun, outcomes[2].report.rerun], [0, 1]);
}

/// Case (ii), figure 6: T3 precedes T2, which precedes T1 and was decided before T3 was seen.
#[test]
fn who_precedes_a_decided_overtaker_is_rejected() {
    let protocol = protocols::by_name(OVERLAPPING).unwrap();
    let blocks = vec![
        vec![program(&[(Operation::BlindSet, 0)])],
        vec![program(&[(Operation::Read, 0), (Operation::Set, 1)])],
        vec![program(&[(Operation::Read, 1)])],
    ];
    let outcomes = run(&protocol, blocks).unwrap();
    assert_eq!([outcomes[2].report.rerun, outcomes[3].report.rerun], [0, 1]);
}

/// The seeded bugs of Rule 3 are found by the small worlds.
#[test]
fn seeded_bugs_of_rule_3_are_found_in_small_worlds() {
    let programs = programs();
    for mutant in ["no_rule_3", "rule_3_spares_the_later", "rule_3_direction"] {
        let protocol = protocols::mutant(OVERLAPPING, mutant).unwrap();
        let numbers = (0..worlds(&programs)).step_by(7);
        let found = numbers.rev().any(|n| run(&protocol, world(&programs, n)).is_err());
        assert!(found, "{mutant} was not found");
    }
}
