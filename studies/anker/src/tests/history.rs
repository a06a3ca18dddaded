//! What transactions and queries saw, and the serial replay that it is held against.

use std::ops::RangeInclusive;

use types::Result;

use crate::area::Area;
use crate::query::Query;
use crate::{ColumnId, Configuration, Engine, Row, Timestamp, Transaction};

/// Columns of one small database.
pub type State = Vec<Vec<i64>>;

#[derive(Clone, Debug)]
pub enum Step {
    Read(u16, Row),
    Find(u16, RangeInclusive<i64>),
    /// The sum of all that was seen so far, times 10, plus this: what was read shows in what is
    /// written.
    Write(u16, Row, i64),
    /// A constant, whatever was read.
    Put(u16, Row, i64),
}

/// What a transaction saw, step by step.
pub type Seen = Vec<Vec<i64>>;

/// A program at work, step by step.
pub struct Running<'e, A: Area> {
    pub transaction: Transaction<'e, A>,
    pub seen: Seen,
}

/// A program that committed.
#[derive(Debug)]
pub struct Record {
    pub steps: Vec<Step>,
    pub seen: Seen,
    pub begin: Timestamp,
    pub commit: Timestamp,
}

impl Record {
    fn writes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Write(..) | Step::Put(..)))
    }
}

fn derived(seen: &Seen, constant: i64) -> i64 {
    let sum = seen.iter().flatten().fold(0i64, |sum, value| sum.wrapping_add(*value));
    sum.wrapping_mul(10).wrapping_add(constant) % 1_000_003
}

impl<'e, A: Area> Running<'e, A> {
    pub fn begin(engine: &'e Engine<A>) -> Self {
        Running { transaction: engine.begin(), seen: Vec::new() }
    }

    pub fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Read(column, row) => {
                let value = self.transaction.read(ColumnId(*column), *row)?;
                self.seen.push(vec![value]);
            }
            Step::Find(column, values) => {
                let rows = self.transaction.find(ColumnId(*column), values.clone())?;
                self.seen.push(rows.into_iter().map(i64::from).collect());
            }
            Step::Write(column, row, constant) => {
                let value = derived(&self.seen, *constant);
                self.transaction.write(ColumnId(*column), *row, value);
            }
            Step::Put(column, row, value) => {
                self.transaction.write(ColumnId(*column), *row, *value);
            }
        }
        Ok(())
    }

    pub fn commit(self, steps: &[Step]) -> Result<Record> {
        let begin = self.transaction.begin_timestamp();
        let commit = self.transaction.commit()?;
        Ok(Record { steps: steps.to_vec(), seen: self.seen, begin, commit })
    }
}

/// `None`: another transaction was first.
pub fn run<A: Area>(engine: &Engine<A>, steps: &[Step]) -> Option<Record> {
    let mut running = Running::begin(engine);
    for step in steps {
        running.step(step).ok()?;
    }
    running.commit(steps).ok()
}

/// The program on a state, alone.
fn replay(state: &mut State, steps: &[Step]) -> Seen {
    let mut seen: Seen = Vec::new();
    for step in steps {
        match step {
            Step::Read(column, row) => {
                seen.push(vec![state[*column as usize][*row as usize]]);
            }
            Step::Find(column, values) => {
                let rows = state[*column as usize].iter().enumerate();
                let found = rows.filter(|(_, value)| values.contains(value));
                seen.push(found.map(|(row, _)| row as i64).collect());
            }
            Step::Write(column, row, constant) => {
                state[*column as usize][*row as usize] = derived(&seen, *constant);
            }
            Step::Put(column, row, value) => {
                state[*column as usize][*row as usize] = *value;
            }
        }
    }
    seen
}

#[derive(Default)]
pub struct History {
    pub records: Vec<Record>,
    /// Whole states that queries saw, and when.
    pub states: Vec<(Timestamp, State)>,
}

impl History {
    /// The states after each commit, by timestamp, if all that was seen fits them.
    pub fn check(mut self, mut state: State, configuration: Configuration) -> Result<(), String> {
        let (writers, readers): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.records).into_iter().partition(Record::writes);
        let mut writers = writers;
        writers.sort_by_key(|record| record.commit);
        let mut states = vec![(0, state.clone())];
        for record in &writers {
            let before = match configuration.is_serializable() {
                true => state.clone(),
                false => at(&states, record.begin).clone(),
            };
            let (mut after, mut run) = (state.clone(), before);
            let seen = replay(&mut run, &record.steps);
            if seen != record.seen {
                return Err(format!("{record:?} would have seen {seen:?}"));
            }
            // Under snapshot isolation what is written follows from what was seen at the beginning.
            for step in &record.steps {
                if let Step::Write(column, row, _) | Step::Put(column, row, _) = step {
                    let (column, row) = (*column as usize, *row as usize);
                    after[column][row] = run[column][row];
                }
            }
            state = after;
            states.push((record.commit, state.clone()));
        }
        first_committers_win(&writers)?;
        for record in &readers {
            let seen = replay(&mut at(&states, record.begin).clone(), &record.steps);
            if seen != record.seen {
                return Err(format!("{record:?} would have seen {seen:?}"));
            }
        }
        for (timestamp, seen) in &self.states {
            let expected = at(&states, *timestamp);
            if seen != expected {
                let differs = |(at, (seen, expected)): (usize, (&Vec<i64>, &Vec<i64>))| {
                    let row = seen.iter().zip(expected).position(|(a, b)| a != b)?;
                    Some((at, row, seen[row], expected[row]))
                };
                let place = seen.iter().zip(expected).enumerate().find_map(differs);
                return Err(format!("at {timestamp} (column, row, seen, replayed): {place:?}"));
            }
        }
        Ok(())
    }
}

fn at(states: &[(Timestamp, State)], timestamp: Timestamp) -> &State {
    let after = states.partition_point(|(commit, _)| *commit <= timestamp);
    &states[after - 1].1
}

fn first_committers_win(writers: &[Record]) -> Result<(), String> {
    let rows = |record: &Record| -> Vec<(u16, Row)> {
        let row = |step: &Step| match step {
            Step::Write(column, row, _) | Step::Put(column, row, _) => Some((*column, *row)),
            _ => None,
        };
        record.steps.iter().filter_map(row).collect()
    };
    for (later, record) in writers.iter().enumerate() {
        let own = rows(record);
        let since = writers[..later].iter().rev().take_while(|other| other.commit > record.begin);
        for other in since {
            if rows(other).iter().any(|row| own.contains(row)) {
                return Err(format!("{record:?} wrote over {other:?}"));
            }
        }
    }
    Ok(())
}

/// All columns, row by row: a query whose answer is the state.
pub struct Everything {
    passes: Vec<Vec<ColumnId>>,
    rows: usize,
}

impl Everything {
    pub fn of(rows: &[usize]) -> Self {
        let passes = (0..rows.len() as u16).map(|column| vec![ColumnId(column)]).collect();
        Everything { passes, rows: rows.iter().sum() }
    }

    pub fn state(words: &[i64], rows: &[usize]) -> State {
        let mut left = &words[1..];
        let take = |&rows: &usize| {
            let (column, rest) = left.split_at(rows);
            left = rest;
            column.to_vec()
        };
        rows.iter().map(take).collect()
    }
}

impl Query for Everything {
    fn passes(&self) -> &[Vec<ColumnId>] {
        &self.passes
    }

    /// The rows filled so far, and the rows.
    fn start(&self) -> Vec<i64> {
        vec![0; self.rows + 1]
    }

    fn fold(&self, _pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
        let first = answer[0] as usize + 1;
        answer[first..first + zone[0].len()].copy_from_slice(zone[0]);
        answer[0] += zone[0].len() as i64;
    }
}
