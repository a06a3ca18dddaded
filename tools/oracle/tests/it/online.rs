//! The online family: transactions that run as they arrive, on threads whose schedule is
//! chosen, or shaken.

use std::ops::Range;
use std::sync::Arc;

use concurrency::test_mode::{self, TestMode};
use concurrency::{Outcome, Protocol, Work, WorkerPool};
use kit::random::Random;
use oracle::Twin;
use oracle::families::{FAMILIES, Stage, WIDE, check};
use oracle::history::History;
use oracle::programs::{Builder, Operation, TABLE, fill, random_work, schemas};
use oracle::rows;
use oracle::small::{self, FULL, Initial, SmallWorlds};
use oracle::subjects::{Subject, defaults, variants};

use crate::seeds;

/// Every protocol that runs transactions as they arrive, with each of its options.
fn online() -> impl Iterator<Item = Subject> {
    let all = defaults().into_iter().chain(variants());
    all.filter(|subject| !subject.protocol.info().deterministic)
}

fn one(operations: &[(Operation, i64, i64)]) -> Arc<Work> {
    let mut builder = Builder::default();
    for &(operation, key, number) in operations {
        builder.push(operation, key, number);
    }
    builder.finish()
}

/// Each seed with a schedule that is chosen, and with one that is shaken.
fn both(seeds: Range<u64>) -> impl Iterator<Item = (u64, fn(u64) -> TestMode)> {
    let ways: [fn(u64) -> TestMode; 2] = [TestMode::chosen, TestMode::shaken];
    seeds.flat_map(move |seed| ways.map(|way| (seed, way)))
}

/// Each run is equal to the replay of the order that it claims, whatever the schedule.
#[test]
fn any_schedule_is_equal_to_the_order_that_it_claims() {
    for subject in online() {
        for (workers, every) in [(2, 2), (4, 3)] {
            let pool = WorkerPool::new(workers);
            for (seed, interleave) in both(0..seeds(6)) {
                let families = FAMILIES.iter().filter(|f| f.name != "large transactions");
                let some = families.chain([&WIDE]).enumerate();
                for (_, family) in some.filter(|(at, _)| (*at as u64 + seed).is_multiple_of(every))
                {
                    let stage = Stage { pool: &pool, test_mode: interleave(seed) };
                    if let Err(failure) = check(&subject, family, seed..seed + 1, &stage) {
                        panic!("{workers} workers: {failure}");
                    }
                }
            }
        }
    }
}

/// Dependencies have no cycle, told from what was read alone.
#[test]
fn histories_have_no_cycle_on_any_schedule() {
    let pool = WorkerPool::new(4);
    for subject in online() {
        for seed in 0..seeds(40) {
            let history = History::random(&mut Random::new(seed));
            let test_mode = TestMode::of_seed(seed);
            let checked = history.check(&subject.protocol, &pool, test_mode);
            assert!(checked.is_ok(), "{}, seed {seed}: {:?}", subject.name, checked.err());
        }
    }
}

fn run(twin: &mut Twin, protocol: &Arc<dyn Protocol>, pool: &WorkerPool, block: Vec<Arc<Work>>) {
    if let Err(divergence) = twin.run(protocol, pool, block) {
        panic!("{}: {divergence}", protocol.info().name);
    }
}

/// A counter that all increment by a command loses nothing, and none is told to try
/// again.
#[test]
fn a_hot_counter_counts_everybody() {
    let pool = WorkerPool::new(4);
    for subject in online() {
        let mut twin = Twin::new(&schemas());
        twin.test_mode = TestMode::shaken(1);
        run(&mut twin, &subject.protocol, &pool, fill(1));
        let block = (0..300).map(|_| one(&[(Operation::Add, 0, 1)])).collect();
        run(&mut twin, &subject.protocol, &pool, block);
        let stored = rows(&twin.subject, TABLE);
        assert_eq!(stored[0].2[1].to_string(), "303", "{}", subject.name);
    }
}

/// Who finds a key taken is rejected at a place where the key *is* taken, also if the row there has
/// gone since and another has come.
#[test]
fn a_rejection_stands_where_its_row_was_there() {
    let pool = WorkerPool::new(4);
    for subject in online() {
        for seed in 0..seeds(30) {
            let mut twin = Twin::new(&schemas());
            twin.test_mode = TestMode::of_seed(seed);
            run(&mut twin, &subject.protocol, &pool, fill(1));
            let operations = [Operation::Delete, Operation::Insert, Operation::Insert];
            let block = (0..48).map(|n| one(&[(operations[n % 3], 0, n as i64)])).collect();
            run(&mut twin, &subject.protocol, &pool, block);
        }
    }
}

/// Copies to and fro between two rows: transactions do conflict, and those that do begin again
/// or are healed, and all of them end. Where one executor has both rows, none conflict.
#[test]
fn who_meets_a_conflict_begins_again_and_ends() {
    let pool = WorkerPool::new(4);
    for subject in online() {
        let mut again = 0;
        for seed in 0..8 {
            let mut twin = Twin::new(&schemas());
            twin.test_mode = TestMode::chosen(seed);
            run(&mut twin, &subject.protocol, &pool, fill(2));
            let copies = (0..100i64).map(|n| {
                let (from, to) = (n % 2, (n + 1) % 2);
                one(&[(Operation::Read, from, 0), (Operation::Set, to, 0)])
            });
            let outcome = twin.run(&subject.protocol, &pool, copies.collect()).unwrap();
            assert!(outcome.outcomes.iter().all(Outcome::is_committed), "{}", subject.name);
            again += outcome.report.executed_again.0 + outcome.report.healed.0;
        }
        let alone = subject.name.starts_with("partitioned");
        assert_eq!(again == 0, alone, "{}: {again}", subject.name);
    }
}

/// A seed that has shown a fault shows it again.
#[test]
fn a_chosen_schedule_comes_back() {
    let pool = WorkerPool::new(4);
    let runs = |subject: &Subject, seed| {
        let mut random = Random::new(seed);
        let mut twin = Twin::new(&schemas());
        twin.test_mode = TestMode::chosen(seed);
        run(&mut twin, &subject.protocol, &pool, fill(6));
        let mut block = || (0..30).map(|_| random_work(&mut random, 8, 4)).collect();
        let blocks = [block(), block(), block()];
        let ran = blocks.map(|block| twin.run(&subject.protocol, &pool, block).expect("no fault"));
        ran.map(|outcome| (outcome.serial_order, outcome.report.executed_again.0))
    };
    for subject in online() {
        let fresh = || Subject::named(subject.name.clone());
        let seen: Vec<_> = (0..seeds(4)).map(|seed| runs(&fresh(), seed)).collect();
        for (seed, first) in (0..).zip(&seen) {
            assert_eq!(*first, runs(&fresh(), seed), "{}, seed {seed}", subject.name);
        }
    }
}

/// Blocks follow each other on one store, some protocol after another: what one leaves in the
/// records' words is nothing to the next.
#[test]
fn protocols_may_take_turns_on_one_store() {
    let pool = WorkerPool::new(3);
    let mut subjects: Vec<Subject> = online().collect();
    subjects.extend(["aria", "harmony", "serial"].map(Subject::named));
    for seed in 0..seeds(4) {
        let mut random = Random::new(seed);
        let mut twin = Twin::new(&schemas());
        twin.test_mode = TestMode::of_seed(seed);
        run(&mut twin, &subjects[0].protocol, &pool, fill(8));
        for turn in 0..3 * subjects.len() {
            let subject = &subjects[(turn * 5 + seed as usize) % subjects.len()];
            let block = (0..24).map(|_| random_work(&mut random, 12, 4)).collect();
            run(&mut twin, &subject.protocol, &pool, block);
        }
    }
}

/// Worlds of three transactions on two records, side by side on several workers.
#[test]
fn small_worlds_on_several_workers() {
    let worlds = SmallWorlds::over(&FULL, &Initial::ALL);
    let pool = WorkerPool::new(4);
    for subject in online() {
        for seed in 0..seeds(5) {
            let mut random = Random::new(seed);
            let numbers = (0..60).map(|_| random.below(worlds.count() as u64) as usize);
            let some: Vec<_> = numbers.filter_map(|number| worlds.world(number)).collect();
            let _on = test_mode::enter(TestMode::of_seed(seed));
            if let Err(failure) = small::check(&subject.protocol, &pool, &some) {
                panic!("{}, seed {seed}: {failure}", subject.name);
            }
        }
    }
}
