//! Every protocol against the serial replay of the order it claims.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use concurrency::{Crew, Outcome, Work};
use kit::random::Random;
use oracle::programs::{Builder, OPERATIONS, Operation, fill, random_program, schemas};
use oracle::session::{Session, random_script};
use oracle::{Twin, rows};

/// More seeds on demand: `TALLY_ORACLE_SEEDS=20` runs twenty times as many.
fn seeds(count: u64) -> u64 {
    let factor = std::env::var("TALLY_ORACLE_SEEDS").ok();
    count * factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

/// Random blocks: from two transactions to hundreds, on few keys and on many.
#[test]
fn random_blocks_equal_the_serial_replay_of_the_claimed_order() {
    for entry in protocols::ALL {
        let protocol = (entry.make)();
        let crew = Crew::new(3);
        for seed in 0..seeds(60) {
            let mut random = Random::new(seed);
            let keys = [2, 5, 12, 40][random.below(4) as usize];
            let size = [2, 4, 12, 100][random.below(4) as usize];
            let mut twin = Twin::new(&schemas());
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
                let mut twin = Twin::new(&schemas());
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
        for pair in (0..pairs).step_by(601) {
            let (one, two) = (
                &programs[pair / programs.len()],
                &programs[pair % programs.len()],
            );
            let mut twin = Twin::new(&schemas());
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
    let mut twin = Twin::new(&schemas());
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

/// Interactive transactions that began some blocks ago commit beside programs; whoever commits was told
/// what it would have been told at its place in the serial order.
#[test]
fn committed_sessions_were_told_the_truth() {
    for entry in protocols::ALL {
        let protocol = (entry.make)();
        let crew = Crew::new(2);
        let mut committed = 0;
        for seed in 0..seeds(100) {
            let mut random = Random::new(seed);
            let keys = [4, 8, 16][random.below(3) as usize];
            let mut twin = Twin::new(&schemas());
            twin.run(&*protocol, &crew, fill(keys / 2 + 1)).unwrap();
            let mut open = VecDeque::new();
            for _ in 0..6 {
                for _ in 0..random.below(4) {
                    let script = random_script(&mut random, keys);
                    open.push_back(Session::hold(&twin.subject, script));
                }
                let (mut block, mut sessions) = (Vec::new(), BTreeMap::new());
                for _ in 0..=random.below(5) {
                    if random.chance(2)
                        && let Some((session, commit)) = open.pop_front()
                    {
                        sessions.insert(block.len() as u32, session);
                        block.push(commit);
                    }
                    block.push(random_program(&mut random, keys, 2));
                }
                match twin.run_with_sessions(&*protocol, &crew, block, &sessions) {
                    Ok(outcome) => {
                        let is_committed = |at: &u32| outcome.outcomes[*at as usize].is_committed();
                        committed += sessions.keys().filter(|at| is_committed(at)).count();
                    }
                    Err(divergence) => panic!("{}, seed {seed}: {divergence}", entry.info.name),
                }
            }
        }
        assert!(committed > 100, "only {committed} sessions committed");
    }
}
