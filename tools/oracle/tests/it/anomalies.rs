//! Golden scripts: each anomaly by Adya's name (*Weak consistency*, MIT 1999), run many times side
//! by side, and what each isolation level says of it.
//!
//! What is looked for is told by the rows and the answers alone; no order is claimed or replayed.

use std::sync::Arc;

use concurrency::test_mode::{self, TestMode};
use concurrency::{Block, Isolation, Outcome, Work, WorkerPool};
use oracle::programs::{Builder, Operation, TABLE, fill, schemas};
use oracle::subjects::{Subject, defaults, variants};
use oracle::{rows, run_block};
use storage::Store;
use types::{Key, Value};

use Operation::{Add, BlindSet, CountIndexRange, InsertUnique, Read, Require, Set};

type Program = &'static [(Operation, i64, i64)];

/// Two transactions on the rows 0 and 1 of a world, which hold 3 and 4 in `a`.
struct Anomaly {
    name: &'static str,
    /// The strongest level that has it.
    seen_under: Option<Isolation>,
    programs: [Program; 2],
    /// Whether answers and rows show it.
    happened: fn(&Seen) -> bool,
}

/// What one world came to.
struct Seen {
    /// What each transaction read, in order; `None`: it did not commit.
    answers: [Option<Vec<i64>>; 2],
    /// `a` of each row that is there.
    rows: Vec<i64>,
}

impl Seen {
    fn read(&self, transaction: usize) -> &[i64] {
        self.answers[transaction].as_deref().unwrap_or_default()
    }

    /// What it read of `a`, where all that it did was to read rows: each answers `a` and `b`.
    fn values(&self, transaction: usize) -> Vec<i64> {
        self.read(transaction).iter().step_by(2).copied().collect()
    }
}

/// Keys of one world.
const WORLD: i64 = 8;

const ANOMALIES: &[Anomaly] = &[
    Anomaly {
        name: "G0, dirty writes",
        seen_under: None,
        programs: [
            &[(BlindSet, 0, 11), (BlindSet, 1, 11)],
            &[(BlindSet, 0, 12), (BlindSet, 1, 12)],
        ],
        happened: |seen| seen.rows[0] != seen.rows[1],
    },
    Anomaly {
        name: "G1a, aborted reads",
        seen_under: None,
        programs: [&[(BlindSet, 0, 101), (Read, 0, 0), (Require, 0, 0)], &[(Read, 0, 0)]],
        happened: |seen| seen.read(1).contains(&101),
    },
    Anomaly {
        name: "G1b, intermediate reads",
        seen_under: None,
        programs: [&[(BlindSet, 0, 101), (BlindSet, 0, 11)], &[(Read, 0, 0)]],
        happened: |seen| seen.read(1).contains(&101),
    },
    Anomaly {
        name: "G1c, circular information flow",
        seen_under: None,
        programs: [&[(BlindSet, 0, 11), (Read, 1, 0)], &[(BlindSet, 1, 22), (Read, 0, 0)]],
        happened: |seen| seen.values(0) == [22] && seen.values(1) == [11],
    },
    Anomaly {
        name: "P4, lost updates",
        seen_under: None,
        programs: [&[(Read, 0, 0), (Set, 0, 0)], &[(Add, 0, 10)]],
        happened: |seen| seen.answers.iter().all(Option::is_some) && seen.rows[0] != 13,
    },
    Anomaly {
        name: "G-single, read skew",
        seen_under: None,
        programs: [&[(Read, 0, 0), (Read, 1, 0)], &[(BlindSet, 0, 11), (BlindSet, 1, 12)]],
        happened: |seen| !matches!(seen.values(0)[..], [] | [3, 4] | [11, 12]),
    },
    Anomaly {
        name: "G2-item, write skew",
        seen_under: Some(Isolation::Snapshot),
        programs: [&[(Read, 0, 0), (Set, 1, 0)], &[(Read, 1, 0), (Set, 0, 0)]],
        happened: |seen| seen.rows[0] != seen.rows[1],
    },
    Anomaly {
        name: "PMP, a predicate that changes underway",
        seen_under: None,
        programs: [
            &[(CountIndexRange, 0, 900), (CountIndexRange, 0, 900)],
            &[(InsertUnique, 2, 901)],
        ],
        happened: |seen| matches!(seen.read(0), [first, second] if first != second),
    },
    Anomaly {
        name: "G2, write skew by a predicate",
        seen_under: Some(Isolation::Snapshot),
        programs: [&[(InsertUnique, 2, 900)], &[(InsertUnique, 3, 900)]],
        happened: |seen| seen.rows.iter().filter(|&&a| a == 900).count() > 1,
    },
];

/// A program in its world; numbers from 900 on are the world's own.
fn work(program: Program, world: i64) -> Arc<Work> {
    let mut builder = Builder::default();
    for &(operation, key, number) in program {
        let number = if number >= 900 { number + world * 10 } else { number };
        builder.push(operation, world * WORLD + key, number);
    }
    builder.finish()
}

fn numbers(outcome: &Outcome) -> Option<Vec<i64>> {
    match outcome {
        Outcome::Committed(result) => {
            Some(result.rows.first()?.iter().filter_map(Value::as_int).collect())
        }
        _ => None,
    }
}

/// How often an anomaly shows among many worlds; the pairs start at once.
fn count(subject: &Subject, pool: &WorkerPool, anomaly: &Anomaly, test_mode: TestMode) -> usize {
    const WORLDS: i64 = 40;
    let store = Arc::new(Store::new());
    for schema in schemas() {
        store.create_table(schema);
    }
    let filled = Block::new(1, 1, fill((WORLDS * WORLD) as u64));
    run_block(&Subject::named("serial").protocol, pool, &store, &filled).unwrap();
    // Every world begins with its rows 0 and 1 alone, at 3 and 4.
    let reset = |world: i64| {
        let mut builder = Builder::default();
        builder.push(BlindSet, world * WORLD, 3);
        builder.push(BlindSet, world * WORLD + 1, 4);
        (2..WORLD).for_each(|key| builder.push(Operation::Delete, world * WORLD + key, 0));
        builder.finish()
    };
    let reset = Block::new(2, 2, (0..WORLDS).map(reset).collect());
    run_block(&Subject::named("serial").protocol, pool, &store, &reset).unwrap();
    let pairs = (0..WORLDS).flat_map(|world| anomaly.programs.map(|program| work(program, world)));
    let block = Block::new(3, 3, pairs.collect());
    let (outcome, _) = {
        let _on = test_mode::enter(test_mode);
        run_block(&subject.protocol, pool, &store, &block).unwrap()
    };
    let stored = rows(&store, TABLE);
    let seen = |world: i64| {
        let of_world = world * WORLD..(world + 1) * WORLD;
        let keys: Vec<Vec<u8>> =
            of_world.map(|key| Key::from_int(key).as_bytes().to_vec()).collect();
        let rows = stored.iter().filter(|(key, _, _)| keys.contains(key));
        let answers = [0, 1].map(|t| numbers(&outcome.outcomes[world as usize * 2 + t]));
        Seen { answers, rows: rows.filter_map(|(_, _, row)| row[1].as_int()).collect() }
    };
    (0..WORLDS).filter(|&world| (anomaly.happened)(&seen(world))).count()
}

#[test]
fn no_anomaly_that_the_card_rules_out_happens() {
    let pool = WorkerPool::new(4);
    for subject in defaults().into_iter().chain(variants()) {
        let isolation = subject.protocol.info().isolation;
        for anomaly in ANOMALIES {
            for seed in 0..3 {
                let count = count(&subject, &pool, anomaly, TestMode::of_seed(seed));
                let may = anomaly.seen_under == Some(isolation);
                assert!(count == 0 || may, "{}: {}, {count} times", subject.name, anomaly.name);
            }
        }
    }
}

/// Without validation they happen: the scripts can see what they look for.
#[test]
fn without_validation_the_anomalies_of_stale_reads_happen() {
    let pool = WorkerPool::new(4);
    let mutant = |mutant| {
        let protocol = protocols::mutant("silo", mutant).unwrap();
        Subject { name: format!("silo: {mutant}"), protocol }
    };
    let stale = mutant("reads_unvalidated");
    for name in ["G2-item", "G2,", "P4", "G-single"] {
        let anomaly = ANOMALIES.iter().find(|anomaly| anomaly.name.starts_with(name)).unwrap();
        let seen = |seed| count(&stale, &pool, anomaly, TestMode::chosen(seed)) > 0;
        let happened = (0..200).any(seen);
        assert!(happened, "{name} was never seen");
    }
}
