//! Random programs over a few hot keys, drawn from a seed.

use std::sync::Arc;

use concurrency::{Load, Work};
use kit::random::Random;

use super::{FOLLOWERS, OPERATIONS, Operation, QUERIES};
use crate::recipe::{Call, Recipe, Rows};

/// `count` calls among some operations on `keys` keys, which lean towards the first, so that blocks
/// have a hot record.
pub fn random_calls(random: &mut Random, among: &[Operation], keys: u64, count: u64) -> Vec<Call> {
    let call = |_| Call {
        operation: among[random.below(among.len() as u64) as usize],
        key: random.below(keys).min(random.below(keys)) as i64,
        number: random.below(20) as i64 - 6,
    };
    (0..count).map(call).collect()
}

/// COPY of a few rows. Twice as many keys as programs use, so that some loads find all of theirs
/// free; the others are rejected as a whole.
pub fn random_rows(random: &mut Random, keys: u64) -> Rows {
    let into_log = random.chance(4);
    let count = 1 + random.below(4);
    let row = |_| (random.below(keys * 2) as i64, random.below(20) as i64 - 6);
    Rows { into_log, rows: (0..count).map(row).collect() }
}

/// A random program over `keys` keys.
pub fn random_program(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    let count = 1 + random.below(operations_max);
    work_of(random_calls(random, &OPERATIONS, keys, count))
}

/// A program many of whose keys depend on what it reads.
pub fn random_follower(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    let among = [&OPERATIONS[..], &FOLLOWERS].concat();
    let count = 1 + random.below(operations_max);
    work_of(random_calls(random, &among, keys, count))
}

/// A program that only reads.
pub fn random_query(random: &mut Random, keys: u64, operations: u64) -> Arc<Work> {
    work_of(random_calls(random, &QUERIES, keys, operations))
}

/// A program of many operations, none of which gives up.
pub fn random_large(random: &mut Random, keys: u64, operations: u64) -> Arc<Work> {
    work_of(random_calls(random, &LASTING, keys, operations))
}

/// A program, or now and then a load.
pub fn random_work(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    match random.below(8) {
        0 => Arc::new(Work::Load(random_load(random, keys))),
        _ => random_program(random, keys, operations_max),
    }
}

pub fn random_load(random: &mut Random, keys: u64) -> Load {
    random_rows(random, keys).load()
}

/// Operations that do not reject their transaction.
pub const LASTING: [Operation; 24] = [
    Operation::Read,
    Operation::Exists,
    Operation::Add,
    Operation::Set,
    Operation::BlindSet,
    Operation::Touch,
    Operation::InsertIfAbsent,
    Operation::Delete,
    Operation::SumRange,
    Operation::CountIndexRange,
    Operation::FirstInRange,
    Operation::FirstTwo,
    Operation::Replace,
    Operation::InsertDeleteInsert,
    Operation::Log,
    Operation::LogLast,
    Operation::CountLog,
    Operation::ListLog,
    Operation::Follow,
    Operation::FollowAdd,
    Operation::FollowInsert,
    Operation::FollowDelete,
    Operation::AddOrSet,
    Operation::AddToRange,
];

fn work_of(calls: Vec<Call>) -> Arc<Work> {
    Recipe::Program(calls).work().expect("a program needs no session")
}
