//! Every protocol against the serial replay of the order it claims.

use std::sync::Arc;

use concurrency::{Crew, Outcome, Work};
use kit::random::Random;
use oracle::programs::{Builder, OPERATIONS, Operation, fill, random_program, schema};
use oracle::{Twin, rows};

/// Random blocks: from two transactions to hundreds, on few keys and on many.
#[test]
fn random_blocks_equal_the_serial_replay_of_the_claimed_order() {
    for entry in protocols::ALL {
        let protocol = (entry.make)();
        let crew = Crew::new(3);
        for seed in 0..150 {
            let mut random = Random::new(seed);
            let keys = [2, 5, 12, 40][random.below(4) as usize];
            let size = [2, 4, 12, 100][random.below(4) as usize];
            let mut twin = Twin::new(&[schema()]);
            twin.run(&*protocol, &crew, fill(keys / 2 + 1)).unwrap();
            for _ in 0..6 {
                let count = 1 + random.below(size);
                let block = (0..count)
                    .map(|_| random_program(&mut random, keys, 6))
                    .collect();
                if let Err(divergence) = twin.run(&*protocol, &crew, block) {
                    panic!("{}, seed {seed}: {divergence}", entry.info.name);
                }
            }
        }
    }
}

/// The same blocks give the same bytes whatever the number of workers.
#[test]
fn the_number_of_workers_is_invisible() {
    for entry in protocols::ALL {
        let protocol = (entry.make)();
        for seed in 0..20 {
            let mut seen = Vec::new();
            for workers in [1, 2, 8] {
                let crew = Crew::new(workers);
                let mut random = Random::new(seed);
                let mut twin = Twin::new(&[schema()]);
                let mut outcomes = Vec::new();
                twin.run(&*protocol, &crew, fill(10)).unwrap();
                for _ in 0..3 {
                    let block = (0..150)
                        .map(|_| random_program(&mut random, 20, 5))
                        .collect();
                    let outcome = twin.run(&*protocol, &crew, block).unwrap();
                    outcomes.push((outcome.outcomes, outcome.serial_order));
                }
                seen.push((outcomes, rows(&twin.subject, oracle::programs::TABLE)));
            }
            assert!(
                seen.windows(2).all(|w| w[0] == w[1]),
                "{} seed {seed}",
                entry.info.name
            );
        }
    }
}

/// Every block of two transactions of two operations each on two records, one of which may be absent.
#[test]
fn every_small_world() {
    let choices: Vec<(Operation, i64)> = OPERATIONS
        .iter()
        .flat_map(|&op| [(op, 0), (op, 1)])
        .collect();
    let program = |first: (Operation, i64), second: (Operation, i64)| {
        let mut builder = Builder::default();
        builder.push(first.0, first.1, 4);
        builder.push(second.0, second.1, 6);
        builder.finish()
    };
    let programs: Vec<Arc<Work>> = choices
        .iter()
        .flat_map(|&first| choices.iter().map(move |&second| program(first, second)))
        .collect();
    let crew = Crew::new(1);
    for entry in protocols::ALL {
        let protocol = (entry.make)();
        // A stride keeps the run short; it is coprime to the count, so all are met over the offsets.
        let pairs = programs.len() * programs.len();
        for pair in (0..pairs).step_by(17) {
            let (one, two) = (
                &programs[pair / programs.len()],
                &programs[pair % programs.len()],
            );
            let mut twin = Twin::new(&[schema()]);
            twin.run(&*protocol, &crew, fill(1)).unwrap();
            let block = vec![Arc::clone(one), Arc::clone(two)];
            if let Err(divergence) = twin.run(&*protocol, &crew, block) {
                panic!("{}: {divergence}\n{one:?}\n{two:?}", entry.info.name);
            }
        }
    }
}

/// Lai 2023, 3.3: no write-write conflict rejects anybody.
#[test]
fn commands_on_a_hot_record_all_survive() {
    let crew = Crew::new(2);
    let protocol = protocols::by_name("harmony").unwrap();
    let mut twin = Twin::new(&[schema()]);
    twin.run(&*protocol, &crew, fill(1)).unwrap();
    let add = || {
        let mut builder = Builder::default();
        builder.push(Operation::Add, 0, 1);
        builder.finish()
    };
    let outcome = twin
        .run(&*protocol, &crew, (0..500).map(|_| add()).collect())
        .unwrap();
    assert_eq!(outcome.report.rerun, 0);
    assert!(outcome.outcomes.iter().all(Outcome::is_committed));
}
