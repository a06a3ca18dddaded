//! Worlds, histories and small worlds of the product's oracle, under every rule and every way to
//! keep tables.

use std::sync::Arc;

use concurrency::test_mode::TestMode;
use concurrency::{Block, Outcome, WorkerPool};
use kit::random::Random;
use multiversion::block;
use oracle::families::{FAMILIES, Family, WIDE};
use oracle::history::History;
use oracle::programs::{Operation, TABLE, schemas};
use oracle::recipe::{Call, Recipe};
use oracle::shrink::Failure;
use oracle::small::{self, CORE, Initial, SmallWorlds};
use oracle::subjects::Subject;
use oracle::{rows, run_block};
use storage::Store;

use crate::study::{SERIALIZABLE, seeds};

pub fn subject(name: &str) -> Subject {
    let protocol = block::by_name(name).expect("a rule of the study, and options that go");
    Subject { name: name.to_owned(), protocol }
}

fn run_family(subject: &Subject, family: &Family, seed: u64, pool: &WorkerPool) {
    let test_mode = if pool.workers() > 1 { TestMode::of_seed(seed) } else { TestMode::default() };
    let world = family.world(seed);
    if let Err(divergence) = world.run(&subject.protocol, pool, test_mode) {
        let found = (world, divergence);
        panic!("{}", Failure::smallest(subject, (family.name, seed), pool, test_mode, found));
    }
}

fn run_families(subject: &Subject, seeds: std::ops::Range<u64>, pool: &WorkerPool) {
    for seed in seeds {
        FAMILIES.iter().chain([&WIDE]).for_each(|family| run_family(subject, family, seed, pool));
    }
}

#[test]
fn every_rule_runs_every_family_of_worlds_alone() {
    for rule in SERIALIZABLE {
        run_families(&subject(rule), 0..seeds(3), &WorkerPool::new(1));
    }
}

#[test]
fn every_rule_runs_every_family_of_worlds_on_several_workers() {
    for (first, workers) in [(0, 2), (100, 4)] {
        let pool = WorkerPool::new(workers);
        for rule in SERIALIZABLE {
            run_families(&subject(rule), first..first + seeds(2), &pool);
        }
    }
}

/// Two families each, all of them over all the combinations.
#[test]
fn every_rule_goes_with_every_storage_collector_and_pointer_scheme() {
    let pool = WorkerPool::new(3);
    for (number, name) in block::all_names().iter().enumerate() {
        let subject = subject(name);
        for seed in 0..seeds(1) {
            for turn in 0..2 {
                let family = &FAMILIES[(2 * number + turn) % FAMILIES.len()];
                run_family(&subject, family, 7 * number as u64 + seed, &pool);
            }
        }
    }
}

#[test]
fn histories_of_lists_have_no_cycle() {
    for rule in SERIALIZABLE {
        let subject = subject(rule);
        let pool = WorkerPool::new(4);
        let mut dependencies = 0;
        for seed in 0..seeds(12) {
            let test_mode = TestMode::of_seed(seed);
            let history = History::random(&mut Random::new(seed));
            match history.check(&subject.protocol, &pool, test_mode) {
                Ok(count) => dependencies += count,
                Err(anomaly) => panic!("{rule}, seed {seed}: {anomaly}\n{history}"),
            }
        }
        assert!(dependencies > 100, "{rule}: only {dependencies} dependencies");
    }
}

#[test]
fn three_transactions_on_two_records() {
    let all = SmallWorlds::over(&CORE, &Initial::ALL);
    // Alone, for these look at blocks as they were cut; threads are for the families.
    let pool = WorkerPool::new(1);
    for rule in SERIALIZABLE {
        let every = 40;
        let worlds: Vec<_> =
            (0..all.count()).step_by(every).filter_map(|number| all.world(number)).collect();
        if let Err(failure) = small::check(&subject(rule).protocol, &pool, &worlds) {
            panic!("{rule}: {failure}");
        }
    }
}

#[test]
fn a_block_that_holds_rows_has_room_for_so_many() {
    let insert = |key: i64| Call { operation: Operation::Insert, key, number: 1 };
    let work = |keys: std::ops::Range<i64>| {
        Recipe::Program(keys.map(insert).collect()).work().expect("a program")
    };
    let run = |name: &str, image_room_bytes: usize| {
        let store = Arc::new(Store::new());
        schemas().into_iter().for_each(|schema| drop(store.create_table(schema)));
        // The large one is first, and must not take what it cannot use.
        let transactions = vec![work(0..100), work(100..101), work(101..102), work(102..103)];
        let block = Block { image_room_bytes, ..Block::new(1, 1, transactions) };
        let (outcome, _) =
            run_block(&subject(name).protocol, &WorkerPool::new(1), &store, &block).unwrap();
        let rows = rows(&store, TABLE).len();
        let ended = outcome.outcomes.iter().map(|outcome| match outcome {
            Outcome::Committed(_) => "committed".to_owned(),
            Outcome::Rejected(error) => error.code().as_str().to_owned(),
            Outcome::Retry(_) => "again".to_owned(),
        });
        (ended.collect::<Vec<_>>().join(" "), rows)
    };
    let all = "committed committed committed committed";
    assert_eq!(run("si", usize::MAX), (all.into(), 103));
    assert_eq!(run("si", 1_000), ("54000 committed committed committed".into(), 3));
    assert_eq!(run("si", 250), ("54000 committed committed 54000".into(), 2));
    assert_eq!(run("ssi", 0), (all.into(), 103), "its blocks hold no rows");
}
