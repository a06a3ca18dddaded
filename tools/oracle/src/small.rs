//! Small worlds, all of them: three transactions of two operations each on two records, in every
//! order of arrival and from every initial state, up to symmetry.
//!
//! *Idea.* What goes wrong among many goes wrong among few: an anomaly is a short cycle. So all the
//! short ones are tried, rather than some of the long ones.
//!
//! *Symmetry.* The two records may change names. Operations of one transaction on different records
//! may change places where the second does not use what the first read. The order of arrival is
//! the order in the block, so all ordered triples of programs are all arrivals.
//!
//! *Speed.* Worlds on disjoint records share a block, a hundred at a time, and so do their ranges.
//! What each must come to is computed by a third specification, the few lines of [`Program::run`],
//! in the order that the protocol claims for the three.

use std::fmt;
use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Outcome, Protocol, Runner, Work, WorkerPool};
use storage::Store;
use types::{Key, Value};

use crate::programs::Operation::{self, *};
use crate::programs::{LIMIT, TABLE, schemas};
use crate::recipe::{Call, Recipe};
use crate::twin::{check_order, check_progress};
use crate::{rows, run_block};

/// Every operation that worlds are made of.
pub const FULL: [Operation; 11] = [
    Read,
    Exists,
    Add,
    CheckedAdd,
    BlindSet,
    Set,
    Insert,
    InsertIfAbsent,
    Delete,
    SumRange,
    Require,
];

/// One of each kind: value read, command, copy, coming and going, range.
pub const CORE: [Operation; 6] = [Read, Add, Set, InsertIfAbsent, Delete, SumRange];

/// Worlds that share a block.
pub const BATCH: usize = 100;

/// Distance of one world's keys from the next one's.
const KEYS_PER_WORLD: i64 = 4;

/// A row's two values, the first of which may be NULL; `None`: no row.
type Record = Option<(Option<i64>, i64)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    operation: Operation,
    /// 0 or 1; 0 for an operation on both.
    record: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program([Step; 2]);

/// What is there at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Initial {
    Both,
    First,
    Neither,
}

impl Initial {
    pub const ALL: [Initial; 3] = [Initial::Both, Initial::First, Initial::Neither];
}

/// All small worlds over an alphabet, by number.
pub struct SmallWorlds {
    programs: Vec<Program>,
    initial: Vec<Initial>,
    /// The number of each program with the records' names changed.
    mirrored: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallWorld {
    pub initial: Initial,
    pub programs: [Program; 3],
}

impl SmallWorlds {
    pub fn over(alphabet: &[Operation], initial: &[Initial]) -> SmallWorlds {
        let both = |operation| matches!(operation, SumRange | Require);
        let steps = alphabet.iter().flat_map(|&operation| {
            let records = if both(operation) { 0..1 } else { 0..2 };
            records.map(move |record| Step { operation, record })
        });
        let steps: Vec<Step> = steps.collect();
        let pairs = steps.iter().flat_map(|&a| steps.iter().map(move |&b| Program([a, b])));
        let programs: Vec<Program> = pairs.filter(Program::is_canonical).collect();
        let number = |program| programs.iter().position(|&p| p == program).expect("all are there");
        let mirrored = programs.iter().map(|program| number(program.mirrored())).collect();
        SmallWorlds { programs, initial: initial.to_vec(), mirrored }
    }

    /// Worlds, those left out for symmetry included.
    pub fn count(&self) -> usize {
        self.initial.len() * self.programs.len().pow(3)
    }

    /// A world by number; `None`: its mirror image has a smaller one.
    pub fn world(&self, number: usize) -> Option<SmallWorld> {
        let initial = self.initial[number % self.initial.len()];
        let number = number / self.initial.len();
        let count = self.programs.len();
        let triple = [number / count / count % count, number / count % count, number % count];
        let mirrored = triple.map(|program| self.mirrored[program]);
        if initial != Initial::First && mirrored < triple {
            return None;
        }
        Some(SmallWorld { initial, programs: triple.map(|program| self.programs[program]) })
    }
}

impl Program {
    fn is_canonical(&self) -> bool {
        let [a, b] = self.0;
        let has_read = matches!(a.operation, Read | SumRange);
        let uses = |step: Step| matches!(step.operation, Set | Require);
        let only_looks = matches!(a.operation, Read | Exists | SumRange);
        if uses(a) || a == b && only_looks {
            return false;
        }
        if uses(b) {
            return has_read;
        }
        let on_one_each = ![a.operation, b.operation].contains(&SumRange) && a.record != b.record;
        !on_one_each || a.record < b.record
    }

    /// The canonical program that does the same with the records' names changed.
    fn mirrored(&self) -> Program {
        let mirror = |step: Step| match step.operation {
            SumRange | Require => step,
            operation => Step { operation, record: 1 - step.record },
        };
        let [a, b] = self.0.map(mirror);
        let here = Program([a, b]);
        if here.is_canonical() { here } else { Program([b, a]) }
    }

    fn calls(&self, transaction: usize, base: i64) -> Vec<Call> {
        let calls = self.0.iter().enumerate().map(|(at, step)| Call {
            operation: step.operation,
            key: base + step.record as i64,
            number: number(transaction, at),
        });
        calls.collect()
    }

    /// What the program emits and makes of the records; `None`: it is rejected.
    fn run(&self, transaction: usize, records: [Record; 2]) -> Option<(Vec<Value>, [Record; 2])> {
        let mut now = records;
        let mut emitted = Vec::new();
        let mut last = None;
        for (at, step) in self.0.iter().enumerate() {
            let n = number(transaction, at);
            let record = &mut now[step.record];
            let there = record.is_some();
            match step.operation {
                Read => {
                    last = record.and_then(|(a, _)| a);
                    emitted.extend([integer(last), integer(record.map(|(_, b)| b))]);
                }
                Add => *record = record.map(|(a, b)| (a.map(|a| a + n), b)),
                CheckedAdd => *record = record.map(|(a, b)| (a, b + n)),
                BlindSet => *record = record.map(|(_, b)| (Some(n), b)),
                Set => *record = record.map(|(_, b)| (last, b)),
                Insert if there => return None,
                Insert | InsertIfAbsent => *record = record.or(Some((Some(n), n % 7))),
                Delete => *record = None,
                SumRange => {
                    let present = now.iter().flatten().filter_map(|(a, _)| *a);
                    last = present.reduce(|a, b| a + b);
                    emitted.extend([integer(last), Value::Bool(true)]);
                    continue;
                }
                Require if last.is_some_and(|last| last >= LIMIT) => return None,
                Require => continue,
                _ => {}
            }
            let inserts = matches!(step.operation, Insert | InsertIfAbsent);
            emitted.push(Value::Bool(there != inserts));
            if now[step.record].is_some_and(|(_, b)| step.operation == CheckedAdd && b > LIMIT) {
                return None;
            }
        }
        Some((emitted, now))
    }
}

fn integer(number: Option<i64>) -> Value {
    number.map_or(Value::Null, Value::Int)
}

/// What an operation writes or adds: different everywhere, and such that two checked additions to
/// one record pass and a third does not.
fn number(transaction: usize, at: usize) -> i64 {
    12 + 2 * transaction as i64 + at as i64
}

/// `a` at first: an addition makes it too large for `Require`.
const FIRST_NUMBER: i64 = 30;

impl Initial {
    fn records(self) -> [Record; 2] {
        let row = Some((Some(FIRST_NUMBER), FIRST_NUMBER % 7));
        match self {
            Initial::Both => [row, row],
            Initial::First => [row, None],
            Initial::Neither => [None, None],
        }
    }
}

/// A world that did not end as some serial order of its transactions does.
#[derive(Debug)]
pub struct SmallFailure {
    pub world: SmallWorld,
    pub what: String,
}

/// Run worlds side by side in one block and look at each.
pub fn check(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    worlds: &[SmallWorld],
) -> Result<(), Box<SmallFailure>> {
    let fault = match check_batch(protocol, pool, worlds) {
        Ok(()) => return Ok(()),
        Err(fault) => fault,
    };
    // Alone it is easier to understand, if it still fails.
    let alone = worlds.iter().find_map(|world| check_batch(protocol, pool, &[*world]).err());
    Err(alone.unwrap_or_else(|| {
        let SmallFailure { world, what } = *fault;
        Box::new(SmallFailure { world, what: format!("{what} (only beside other worlds)") })
    }))
}

fn check_batch(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    worlds: &[SmallWorld],
) -> Result<(), Box<SmallFailure>> {
    let at_all = |what| SmallFailure { world: worlds[0], what };
    let (store, outcome) = run(protocol, pool, worlds).map_err(at_all)?;
    let mut rank = vec![0; outcome.serial_order.len()];
    for (at, &position) in outcome.serial_order.iter().enumerate() {
        rank[position as usize] = at;
    }
    let mut stored = rows(&store, TABLE).into_iter().peekable();
    for (at, &world) in worlds.iter().enumerate() {
        let csns = [0, 1, 2].map(|t| t * worlds.len() + at);
        let mut order = [0, 1, 2];
        order.sort_by_key(|&t| rank[csns[t]]);
        let wrong = |what| SmallFailure { world, what };
        let outcomes = csns.map(|csn| &outcome.outcomes[csn]);
        let expected = replay(&world, order, outcomes).map_err(wrong)?;
        for (record, expected) in expected.into_iter().enumerate() {
            let key = Key::from_int(at as i64 * KEYS_PER_WORLD + record as i64);
            let row = stored.next_if(|(stored, _, _)| stored == key.as_bytes());
            let found = row.map(|(_, _, row)| row[1..].to_vec());
            let expected = expected.map(|(a, b)| vec![integer(a), Value::Int(b)]);
            if found != expected {
                let what = format!("record {record} holds {found:?}, not {expected:?}");
                return Err(Box::new(wrong(format!("{what}, in the claimed order {order:?}"))));
            }
        }
    }
    Ok(())
}

/// The records after the three in their claimed order; what was deferred had no effect.
fn replay(
    world: &SmallWorld,
    order: [usize; 3],
    outcomes: [&Outcome; 3],
) -> Result<[Record; 2], String> {
    let mut records = world.initial.records();
    for transaction in order {
        let outcome = outcomes[transaction];
        let expected = world.programs[transaction].run(transaction, records);
        match (outcome, expected) {
            (Outcome::Retry(_), _) | (Outcome::Rejected(_), None) => {}
            (Outcome::Committed(result), Some((emitted, after)))
                if result.rows.len() == 1 && *result.rows[0] == *emitted =>
            {
                records = after;
            }
            (_, expected) => {
                let expected = expected.map(|(emitted, _)| emitted);
                return Err(format!(
                    "T{transaction} ended as {outcome:?}, not as {expected:?}, \
                     in the claimed order {order:?}"
                ));
            }
        }
    }
    Ok(records)
}

fn run(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    worlds: &[SmallWorld],
) -> Result<(Arc<Store>, BlockOutcome), String> {
    let store = Arc::new(Store::new());
    for schema in schemas() {
        store.create_table(schema);
    }
    fill(&store, worlds)?;
    let transactions = (0..3).flat_map(|t| {
        worlds
            .iter()
            .enumerate()
            .map(move |(at, world)| work(world.programs[t].calls(t, at as i64 * KEYS_PER_WORLD)))
    });
    let transactions = transactions.collect();
    let block = Block::new(2, 2, transactions);
    let (outcome, _) = run_block(protocol, pool, &store, &block)?;
    check_order(&**protocol, &outcome, worlds.len() * 3)?;
    check_progress(&**protocol, &block, &outcome)?;
    Ok((store, outcome))
}

/// The rows that are there at first, by one transaction.
fn fill(store: &Store, worlds: &[SmallWorld]) -> Result<(), String> {
    let inserts = worlds.iter().enumerate().flat_map(|(at, world)| {
        let present = world.initial.records().into_iter().enumerate();
        let present = present.filter(|(_, record)| record.is_some());
        present.map(move |(record, _)| Call {
            operation: InsertIfAbsent,
            key: at as i64 * KEYS_PER_WORLD + record as i64,
            number: FIRST_NUMBER,
        })
    });
    let block = Block::new(1, 1, vec![work(inserts.collect())]);
    let mut writes = store.begin_block(1, 1);
    let filled = Runner::new(store.catalog()).run_one(&block, 0, writes.arena(0))?;
    assert!(filled.is_committed(), "{filled:?}");
    store.finish_unread(writes);
    store.publish(1);
    Ok(())
}

fn work(calls: Vec<Call>) -> Arc<Work> {
    Recipe::Program(calls).work().expect("a program needs no session")
}

impl fmt::Display for SmallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "from {:?}:", self.world.initial)?;
        for (at, program) in self.world.programs.iter().enumerate() {
            writeln!(f, "  T{at}  {}", Recipe::Program(program.calls(at, 0)))?;
        }
        write!(f, "{}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_symmetric_worlds_are_left_out() {
        let all = SmallWorlds::over(&CORE, &Initial::ALL);
        let kept = (0..all.count()).step_by(7).filter(|&n| all.world(n).is_some()).count();
        let share = kept as f64 * 7.0 / all.count() as f64;
        // All of those that begin with one record, half of the others.
        assert!((0.66..0.68).contains(&share), "{share}");
    }

    #[test]
    fn a_mirror_image_of_a_mirror_image_is_the_thing_itself() {
        let all = SmallWorlds::over(&FULL, &Initial::ALL);
        assert!(all.mirrored.iter().enumerate().all(|(at, &other)| all.mirrored[other] == at));
    }
}
