//! Protocols that run a block on the snapshot before it: what their papers claim, one by one.

use std::sync::Arc;

use concurrency::{BlockOutcome, Outcome, Work, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::programs::Operation::{Add, BlindSet, Delete, Exists, Read, SumRange};
use oracle::programs::{Builder, Operation, fill, random_work, schemas};
use types::Position;

type Program<'a> = &'a [(Operation, i64)];

fn program(operations: Program<'_>) -> Arc<Work> {
    let mut builder = Builder::default();
    for &(operation, key) in operations {
        builder.push(operation, key, 1);
    }
    builder.finish()
}

/// One block on rows 0 to 9.
fn run(protocol: &str, block: &[Program<'_>]) -> BlockOutcome {
    let (protocol, pool) = (protocols::by_name(protocol).unwrap(), WorkerPool::new(2));
    let mut twin = Twin::new(&schemas());
    twin.run(&protocol, &pool, fill(10)).unwrap();
    let block = block.iter().map(|operations| program(operations)).collect();
    twin.run(&protocol, &pool, block).unwrap()
}

fn turned_away(outcome: &BlockOutcome) -> Vec<Position> {
    let retried = |at: &Position| matches!(outcome.outcomes[*at as usize], Outcome::Retry(_));
    (0..outcome.outcomes.len() as Position).filter(retried).collect()
}

/// Each reads what the one before it writes.
const CHAIN: &[Program<'static>] =
    &[&[(BlindSet, 0)], &[(Read, 0), (BlindSet, 1)], &[(Read, 1), (BlindSet, 2)]];

/// Lu 2020, 4.2: without reordering, who read what a smaller TID writes does not commit.
#[test]
fn aria_in_block_order_puts_off_stale_readers() {
    assert_eq!(run("aria:reordering=off", CHAIN).deferred, [1, 2]);
}

/// Lu 2020, 5.2: RAW conflicts alone are made harmless by another order.
#[test]
fn aria_commits_a_chain_of_stale_readers_in_the_other_order() {
    let outcome = run("aria", CHAIN);
    assert_eq!((outcome.deferred, outcome.serial_order), (vec![], vec![2, 1, 0]));
}

/// Lu 2020, 5.2: RAW and WAR together, or WAW alone, put a transaction off, blind or not.
#[test]
fn aria_puts_off_what_no_order_saves() {
    let skew: &[Program<'_>] = &[&[(Read, 1), (BlindSet, 0)], &[(Read, 0), (BlindSet, 1)]];
    assert_eq!(run("aria", skew).deferred, [1]);
    for write in [Add, BlindSet, Delete] {
        let writers: &[Program<'_>] = &[&[(write, 3)], &[(write, 3)], &[(write, 4)]];
        assert_eq!(run("aria", writers).deferred, [1], "{write:?}");
    }
}

/// Lu 2020, 5.2: with reordering, read-only transactions always commit.
#[test]
fn aria_never_puts_off_who_only_reads() {
    let mut block: Vec<Program<'_>> = (0..20).map(|_| &[(Add, 5), (BlindSet, 6)][..]).collect();
    block.extend((0..20).map(|_| &[(Read, 5), (Read, 6)][..]));
    assert_eq!(run("aria", &block).deferred, (1..20).collect::<Vec<_>>());
}

/// Lu 2020, 4.3: what is deferred stands first in the next block, whose first always commits.
#[test]
fn aria_starves_nobody() {
    for name in ["aria", "aria:reordering=off"] {
        let (protocol, pool) = (protocols::by_name(name).unwrap(), WorkerPool::new(2));
        let mut random = Random::new(7);
        let mut twin = Twin::new(&schemas());
        twin.run(&protocol, &pool, fill(3)).unwrap();
        let mut waiting: Vec<_> = (0..40).map(|_| random_work(&mut random, 4, 4)).collect();
        while !waiting.is_empty() {
            let outcome = twin.run(&protocol, &pool, waiting.clone()).unwrap();
            assert_ne!(outcome.deferred.first(), Some(&0), "the first of a block is through");
            assert_eq!(turned_away(&outcome), outcome.deferred);
            let left = outcome.deferred.iter().map(|&at| Arc::clone(&waiting[at as usize]));
            waiting = left.collect();
        }
    }
}

/// Lu 2020, 5.3: the fallback runs conflicting transactions in the same block.
#[test]
fn arias_fallback_puts_nobody_off() {
    let hot: Vec<Program<'_>> = (0..300).map(|_| &[(Add, 5)][..]).collect();
    let outcome = run("aria:fallback=on", &hot);
    assert!(outcome.outcomes.iter().all(Outcome::is_committed));
    assert_eq!((outcome.deferred.len(), outcome.report.rerun), (0, 299));
}

/// Ours: a row count is no read of the row's value.
#[test]
fn who_asks_whether_a_row_is_there_conflicts_with_those_that_make_it_come_or_go() {
    for (write, put_off) in [(BlindSet, &[][..]), (Delete, &[1])] {
        let block: &[Program<'_>] = &[&[(Read, 1), (write, 0)], &[(Exists, 0), (BlindSet, 1)]];
        assert_eq!(run("aria", block).deferred, put_off, "{write:?}");
        assert_eq!(turned_away(&run("rbc", block)), put_off, "{write:?}");
    }
}

/// Ours: ranges are compared with rows that come and go in them.
#[test]
fn phantoms_are_conflicts() {
    let block: &[Program<'_>] = &[&[(Read, 8), (Delete, 2)], &[(SumRange, 1), (BlindSet, 8)]];
    assert_eq!(run("aria", block).deferred, [1]);
    assert_eq!(turned_away(&run("rbc", block)), [1]);
}

/// Lai 2023, 5.2: RBC turns a transaction away on seeing a ww dependency.
#[test]
fn rbc_lets_the_first_committer_win() {
    let hot: Vec<Program<'_>> = (0..5).map(|_| &[(Add, 5)][..]).collect();
    let outcome = run("rbc", &hot);
    assert_eq!((turned_away(&outcome), outcome.deferred), (vec![1, 2, 3, 4], vec![]));
}

/// Lai 2023, 2.2.2: a stale read is not enough; the transactions commit in the other order.
#[test]
fn rbc_commits_a_stale_reader() {
    let outcome = run("rbc", &[&[(BlindSet, 0)], &[(Read, 0), (BlindSet, 1)]]);
    assert_eq!((turned_away(&outcome), outcome.serial_order), (vec![], vec![1, 0]));
}

/// Nathan 2019: the pivot of `T2 -rw-> T1 -rw-> T0` is turned away, the other two commit.
#[test]
fn rbc_turns_the_pivot_away() {
    assert_eq!(turned_away(&run("rbc", CHAIN)), [1]);
}

/// Ports 2012, 4.1: a structure whose last transaction does not commit first is harmless. Aria
/// sees a RAW and a WAR conflict here.
#[test]
fn rbc_spares_a_pivot_that_is_read_by_who_committed_before() {
    let block: &[Program<'_>] = &[&[(Read, 1)], &[(BlindSet, 0)], &[(Read, 0), (BlindSet, 1)]];
    let outcome = run("rbc", block);
    assert_eq!((turned_away(&outcome), outcome.serial_order), (vec![], vec![0, 2, 1]));
    assert_eq!(run("aria", block).deferred, [2]);
}

/// Decided one after another, a loser makes no loser: T1 would be a pivot if T2 stayed, but T2
/// writes what T0 writes.
#[test]
fn rbc_forgets_losers() {
    let block: &[Program<'_>] =
        &[&[(BlindSet, 0)], &[(Read, 0), (BlindSet, 1)], &[(Read, 1), (BlindSet, 0)]];
    assert_eq!(turned_away(&run("rbc", block)), [2]);
}
