//! Every protocol against the serial replay of the order it claims.

mod ahead;
mod anomalies;
mod block_stm;
mod carried;
mod fabric;
mod families;
mod harmony;
mod healing;
mod histories;
mod inter_block;
mod mutants;
mod online;
mod ordered;
mod quecc;
mod quecc_steady;
mod row_ids;
mod small_worlds;
mod snapshot;
mod study;
mod texts;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;

use concurrency::{Outcome, RecordId, Work, WorkerPool};
use kit::random::Random;
use oracle::programs::{Builder, Operation, fill, random_query, random_work, schemas};
use oracle::session::{Action, Session};
use oracle::{Twin, rows};
use procedure::step::Step;
use procedure::{Expr, Reg};
use types::{Key, TableSchema, Value};

/// More seeds on demand: `TALLY_ORACLE_SEEDS=20` runs twenty times as many.
pub fn seeds(count: u64) -> u64 {
    let factor = std::env::var("TALLY_ORACLE_SEEDS").ok();
    count * factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

/// Calvin's ordered locks for what Rule 1 rejects: hundreds of transactions on hot keys, some of
/// which cannot say in advance what they touch, give one serial order's bytes on any number of
/// workers.
#[test]
fn reruns_in_parallel_equal_reruns_one_by_one() {
    const KEYED: [Operation; 10] = [
        Operation::Read,
        Operation::Read,
        Operation::Exists,
        Operation::Add,
        Operation::CheckedAdd,
        Operation::Set,
        Operation::BlindSet,
        Operation::InsertIfAbsent,
        Operation::Delete,
        Operation::Replace,
    ];
    let keyed = |random: &mut Random, keys| {
        let mut builder = Builder::default();
        for _ in 0..3 {
            let operation = KEYED[random.below(KEYED.len() as u64) as usize];
            builder.push(operation, random.below(keys) as i64, random.below(9) as i64);
        }
        builder.finish()
    };
    let protocol = protocols::by_name("harmony").unwrap();
    for seed in 0..seeds(4) {
        let mut seen = Vec::new();
        for workers in [1, 2, 8] {
            let pool = WorkerPool::new(workers);
            let mut random = Random::new(seed);
            let keys = 60 + random.below(100);
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(keys)).unwrap();
            let mut outcomes = Vec::new();
            for _ in 0..3 {
                let mut block: Vec<_> = (0..800).map(|_| keyed(&mut random, keys)).collect();
                for _ in 0..seed % 3 {
                    let at = random.below(800) as usize;
                    block[at] = random_work(&mut random, keys, 4);
                }
                let outcome = twin.run(&protocol, &pool, block).unwrap();
                assert!(outcome.report.rerun > 300, "{:?}", outcome.report);
                outcomes.push((outcome.outcomes, outcome.serial_order));
            }
            seen.push((outcomes, rows(&twin.subject, oracle::programs::TABLE)));
        }
        assert!(seen.windows(2).all(|w| w[0] == w[1]), "seed {seed}");
    }
}

/// Lai 2023, 3.3: no write-write conflict rejects a transaction.
#[test]
fn commands_on_a_hot_record_all_survive() {
    let pool = WorkerPool::new(2);
    let protocol = protocols::by_name("harmony").unwrap();
    let mut twin = Twin::new(&schemas());
    twin.run(&protocol, &pool, fill(1)).unwrap();
    let add = || {
        let mut builder = Builder::default();
        builder.push(Operation::Add, 0, 1);
        builder.finish()
    };
    let outcome = twin.run(&protocol, &pool, (0..500).map(|_| add()).collect()).unwrap();
    assert_eq!(outcome.report.rerun, 0);
    assert!(outcome.outcomes.iter().all(Outcome::is_committed));
}

/// A row that a block wrote is among its net changes even if it holds what it held: alone, by two
/// transactions that undo each other, by one that deletes and inserts it again. A row that came and
/// went is not, nor one that was only read or that a rejected transaction would have written. Every
/// protocol says so on any number of workers.
#[test]
fn rows_written_with_the_values_they_had_are_effects() {
    let one = |operations: &[(Operation, i64, i64)]| {
        let mut builder = Builder::default();
        for &(operation, key, number) in operations {
            builder.push(operation, key, number);
        }
        builder.finish()
    };
    // Key k holds a = k + 3 and b = (k + 3) % 7.
    let block = || {
        let touched = [
            one(&[(Operation::BlindSet, 0, 3)]),
            one(&[(Operation::BlindSet, 1, 9)]),
            one(&[(Operation::BlindSet, 1, 4)]),
            one(&[(Operation::Add, 2, 6)]),
            one(&[(Operation::Add, 2, -6)]),
            one(&[(Operation::Replace, 3, 6)]),
            one(&[(Operation::Touch, 4, 0)]),
        ];
        let untouched = [
            one(&[(Operation::Insert, 61, 1), (Operation::Delete, 61, 0)]),
            one(&[(Operation::Read, 6, 0), (Operation::Exists, 7, 0)]),
            one(&[(Operation::BlindSet, 8, 5), (Operation::Insert, 9, 1)]),
            one(&[(Operation::Delete, 62, 0), (Operation::Touch, 63, 0)]),
        ];
        let filler = (10..50).map(|key| one(&[(Operation::Touch, key, 0)]));
        touched.into_iter().chain(untouched).chain(filler).collect::<Vec<_>>()
    };
    let written = (0..5).chain(10..50).map(|key| Key::from_int(key).as_bytes().to_vec());
    let written: Vec<_> = written.collect();
    for entry in protocols::ALL {
        let protocol = protocols::by_name(entry.info.name).unwrap();
        for workers in [1, 2, 8] {
            let pool = WorkerPool::new(workers);
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(50)).unwrap();
            twin.run(&protocol, &pool, block()).unwrap();
            let keys: Vec<_> = twin.changes.iter().map(|change| change.key.clone()).collect();
            assert_eq!(keys, written, "{}, {workers} workers", entry.info.name);
            // Of two writers of a row, one may have been turned away.
            let alone = |key: &[u8]| !entry.info.may_retry || key > Key::from_int(2).as_bytes();
            for change in twin.changes.iter().filter(|change| alone(&change.key)) {
                let before = change.before.as_ref().map(|(height, row)| (*height, Some(row)));
                assert_eq!(before, Some((1, change.after.as_ref())));
            }
        }
    }
}

/// What a transaction costs is a function of what it asks and finds: not of the protocol that made
/// the state, of what was collected, of where its rows lie.
#[test]
fn the_cost_of_a_transaction_does_not_depend_on_the_data_path() {
    let mut scans = 0;
    for entry in protocols::ALL {
        let protocol = protocols::by_name(entry.info.name).unwrap();
        let pool = WorkerPool::new(2);
        for seed in 0..seeds(30) {
            let mut random = Random::new(seed);
            let mut twin = Twin::new(&schemas());
            twin.collects = seed % 2 == 0;
            twin.run(&protocol, &pool, fill(8)).unwrap();
            for _ in 0..4 {
                let block = (0..20).map(|_| random_work(&mut random, 12, 6)).collect();
                twin.run(&protocol, &pool, block).unwrap();
                for probe in 0..20 {
                    let work = match probe % 2 {
                        0 => random_work(&mut random, 12, 12),
                        _ => random_query(&mut random, 12, 6),
                    };
                    let (subject, serial, plain) = twin.left_to_spend(&work);
                    assert_eq!(subject, serial, "{work:?}");
                    if let Some(plain) = plain {
                        assert_eq!(subject, plain, "{work:?}");
                        scans += u64::from(subject < procedure::UNITS_MAX - 15);
                    }
                }
            }
        }
    }
    assert!(scans > 100, "{scans}");
}

/// A session's writes, then a query or none; `change` comes in between; whether COMMIT succeeds,
/// under every protocol.
fn commits(
    write: &[(Operation, i64, i64)],
    look: Option<(Operation, i64, i64)>,
    change: (Operation, i64, i64),
) -> bool {
    let program = |operations: &[(Operation, i64, i64)]| {
        let mut builder = Builder::default();
        for &(operation, key, number) in operations {
            builder.push(operation, key, number);
        }
        builder
    };
    let pool = WorkerPool::new(1);
    let mut reported = Vec::new();
    for entry in protocols::ALL {
        let protocol = protocols::by_name(entry.info.name).unwrap();
        let mut twin = Twin::new(&schemas());
        twin.run(&protocol, &pool, fill(2)).unwrap();
        let mut script = vec![Action::Write(program(write).silent().procedure())];
        script.extend(look.map(|look| Action::Query(program(&[look]).procedure())));
        let (session, commit) = Session::hold(&twin.subject, script);
        twin.run(&protocol, &pool, vec![program(&[change]).finish()]).unwrap();
        let sessions = BTreeMap::from([(0, session)]);
        let outcome = twin.run_with_sessions(&protocol, &pool, vec![commit], sessions).unwrap();
        reported.push(outcome.outcomes[0].is_committed());
    }
    assert!(reported.iter().all(|committed| *committed == reported[0]), "{reported:?}");
    reported[0]
}

/// A query shows what a statement wrote, and that statement had copied it from a row which changes
/// before COMMIT: the statement would answer the same, the query would not.
#[test]
fn what_a_query_saw_through_own_writes_must_still_hold() {
    let copy = [(Operation::Read, 0, 0), (Operation::Set, 1, 0)];
    let change = (Operation::BlindSet, 0, 9);
    assert!(commits(&copy, None, change));
    assert!(!commits(&copy, Some((Operation::Read, 1, 0)), change));
}

/// A statement finds no row and says nothing about it; at COMMIT it would find one, which a query
/// had shown as it was. Where the query has looked elsewhere, the statement may have its way.
#[test]
fn a_silent_statement_without_effect_has_none_at_commit_where_a_query_looked() {
    // Row 0 names row 3, which is not there, and then row 1.
    let follow = [(Operation::Read, 0, 0), (Operation::FollowAdd, 0, 5)];
    let change = (Operation::BlindSet, 0, 9);
    assert!(commits(&follow, None, change));
    assert!(!commits(&follow, Some((Operation::Read, 1, 0)), change));
    assert!(!commits(&follow, Some((Operation::CountIndexRange, 0, 2)), change));
    assert!(commits(&follow, Some((Operation::CountLog, 0, 0)), change));
    // Of a key that is known only what happens to its row matters.
    let add = [(Operation::Add, 0, 5)];
    assert!(commits(&add, Some((Operation::Read, 1, 0)), change));
    assert!(!commits(&add, Some((Operation::Read, 0, 0)), change));
    let insert = [(Operation::InsertIfAbsent, 1, 5)];
    let delete = (Operation::Delete, 1, 0);
    assert!(commits(&insert, Some((Operation::Read, 0, 0)), delete));
    assert!(!commits(&insert, Some((Operation::FirstInRange, 0, 5)), delete));
}

/// Two keys whose hashes collide make a conflict that is none. That costs a rerun, but it must
/// cost every replica the same, whether or not it has collected the deleted row under one of them.
#[test]
fn what_a_replica_has_collected_is_invisible() {
    let protocol = protocols::by_name("harmony").unwrap();
    let pool = WorkerPool::new(1);
    let orders = [false, true].map(|collects| {
        let mut twin = Twin::new(&[pair_schema()]);
        twin.collects = collects;
        let (one, other) = colliding_pairs();
        let insert = |pair| pair_program(pair, false);
        twin.run(&protocol, &pool, vec![insert(one)]).unwrap();
        let delete = pair_program(one, true);
        twin.run(&protocol, &pool, vec![delete]).unwrap();
        let block = [one, other, (7, 7)].map(insert).into();
        twin.run(&protocol, &pool, block).unwrap().serial_order
    });
    assert_eq!(orders[0], orders[1]);
}

/// The pairs' keys have one `RecordId` while both are absent.
fn colliding_pairs() -> ((i64, i64), (i64, i64)) {
    let key = |(x, y): (i64, i64)| {
        let mut key = Key::from_int(x);
        key.0.extend_from_slice(Key::from_int(y).as_bytes());
        key
    };
    // The second word is mixed into the state that the first left behind, so a difference of
    // states is undone by the same difference of second words.
    let state = |x: i64| {
        let word = Key::from_int(x).as_bytes().try_into().map(u64::from_be_bytes);
        let word = word.expect("an integer's key has eight bytes");
        let product = u128::from(16 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (product as u64) ^ (product >> 64) as u64
    };
    let (one, other) = ((1, 5), (2, 5 ^ (state(1) ^ state(2)) as i64));
    let id = |pair| RecordId::of(None, &key(pair));
    assert_eq!(id(one), id(other));
    (one, other)
}

/// `pair (x bigint, y bigint, primary key (x, y))`.
fn pair_schema() -> Arc<TableSchema> {
    let mut schema = TableSchema::clone(&schemas()[0]);
    schema.columns.truncate(2);
    for column in &mut schema.columns {
        column.nullable = false;
    }
    schema.primary_key = vec![0, 1];
    schema.indexes.clear();
    Arc::new(schema)
}

fn pair_program((x, y): (i64, i64), delete: bool) -> Arc<Work> {
    let pair = || Box::new([x, y].map(|n| Expr::Const(Value::Int(n))));
    let step = match delete {
        true => Step::Delete {
            table: oracle::programs::TABLE,
            key: pair(),
            long: Box::default(),
            found: Reg(0),
        },
        false => Step::Insert {
            table: oracle::programs::TABLE,
            key: Box::new([0, 1]),
            hidden_row_id: false,
            values: pair(),
            inserted: Reg(0),
        },
    };
    Builder::default().step(step).finish()
}
