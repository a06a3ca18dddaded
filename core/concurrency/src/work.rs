//! What one transaction of a block runs.
//!
//! There is one kind of program, the procedure; the other kinds are made of it:
//! * a **call** or one-shot **statement** runs one procedure;
//! * a **load** runs an insert procedure for each row of a COPY, and one that looks at each row
//!   again where rows may need later ones;
//! * the COMMIT of an **interactive** transaction is lowered to: *require that what the client was
//!   shown is still so, then run its writing statements again and require that they say what they
//!   said*.
//!
//! The last is why an interactive `UPDATE … SET balance = balance + 10` does not conflict on a hot
//! row: the client saw a row count, not the balance, so the statement travels as a command.
//!
//! The parts are generic in what their programs are: procedures here, text and names where they
//! stand in an envelope. So there is one tree, and a compiler that moves the arguments along.

use std::sync::Arc;

use procedure::access::{Access, Range};
use procedure::run_within;
use procedure::step::{Output, Procedure};
use procedure::{Frame, Meter, ProgramResult};
use types::{Error, Key, SqlState, Stamp, Stop, TableId, Value};

use crate::footprint::{RangeDigest, RangeSeal, seal_range};
use crate::test_mode::{self, Mutant};

#[derive(Debug)]
pub enum Work {
    Statement(Statement),
    Load(Load),
    Interactive(Interactive),
    /// Decided before it ran (its text did not compile): the block records why.
    Void(Error),
}

/// One procedure with its arguments: a call, or a single SQL statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement<P = Arc<Procedure>> {
    pub procedure: P,
    pub arguments: Box<[Value]>,
}

/// One insert procedure over many rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Load<P = Arc<Procedure>> {
    pub procedure: P,
    /// Runs for each row when all are there, with as many of its values as it takes; or with what
    /// the procedure has answered to it, where it answers with rows.
    pub at_end: Option<P>,
    pub rows: Vec<Box<[Value]>>,
}

impl<P> Load<P> {
    pub fn new(procedure: P, rows: Vec<Box<[Value]>>) -> Load<P> {
        Load { procedure, at_end: None, rows }
    }

    pub fn procedures(&self) -> impl Iterator<Item = &P> {
        std::iter::once(&self.procedure).chain(&self.at_end)
    }
}

impl Load {
    /// Whether the looks at the end are at what the rows before came to, so that nothing is known
    /// of them before it runs.
    pub fn looks_at_answers(&self) -> bool {
        self.at_end.is_some() && matches!(self.procedure.output, Output::Rows(_))
    }

    /// What it runs, in order, as far as that is known before.
    pub fn calls(&self) -> impl Iterator<Item = (&Arc<Procedure>, &[Value])> {
        let at_end = self.at_end.iter().filter(|_| !self.looks_at_answers());
        let looks = at_end.flat_map(|procedure| {
            let takes = procedure.parameters.len();
            self.rows.iter().map(move |row| (procedure, row.get(..takes).unwrap_or(row)))
        });
        self.rows.iter().map(|row| (&self.procedure, &**row)).chain(looks)
    }
}

/// The COMMIT of a transaction whose statements a client sent one by one.
#[derive(Clone, PartialEq, Debug)]
pub struct Interactive<W = Work> {
    /// `now()` of the whole transaction: its snapshot block's time.
    pub now_us: i64,
    pub rows: Vec<RowRequirement>,
    pub ranges: Vec<RangeRequirement>,
    /// Statements and loads, in the client's order.
    pub writes: Vec<(W, Expectation)>,
}

impl<W> Interactive<W> {
    /// The same with other writes: compiled ones in place of text.
    pub fn try_map<V, E>(
        self,
        mut map: impl FnMut(W) -> Result<V, E>,
    ) -> Result<Interactive<V>, E> {
        let Interactive { now_us, rows, ranges, writes } = self;
        let writes = writes.into_iter().map(|(write, expected)| Ok((map(write)?, expected)));
        Ok(Interactive { now_us, rows, ranges, writes: writes.collect::<Result<_, E>>()? })
    }
}

/// The row at `key` was last changed at `stamp`, or is absent.
#[derive(Clone, PartialEq, Debug)]
pub struct RowRequirement {
    pub table: TableId,
    pub key: Key,
    pub stamp: Option<Stamp>,
}

/// A range holds just these rows, at these stamps.
#[derive(Clone, PartialEq, Debug)]
pub struct RangeRequirement {
    pub range: Range,
    pub digest: RangeDigest,
    /// Where others rest on it: then of the digest only the number of rows counts.
    pub seal: Option<Box<RangeSeal>>,
}

/// What a statement answered when the client ran it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expectation {
    pub count: u64,
    pub rows: Vec<Box<[Value]>>,
}

impl Work {
    /// Run against `access`. Generic, so each protocol's data path is compiled into it.
    pub fn run<A: Access>(&self, frame: &mut Frame, access: &mut A) -> Result<ProgramResult, Stop> {
        frame.meter().refill();
        #[cfg(feature = "mutants")]
        let access = &mut test_mode::Pausing(access);
        self.run_within(frame, access)
    }

    /// Run as a part of a transaction: with what it has left to spend.
    pub fn run_within<A: Access>(
        &self,
        frame: &mut Frame,
        access: &mut A,
    ) -> Result<ProgramResult, Stop> {
        match self {
            Work::Statement(s) => run_within(&s.procedure, &s.arguments, frame, access),
            Work::Load(load) => {
                let mut result = ProgramResult::default();
                let mut answers = Vec::new();
                for (procedure, row) in load.calls() {
                    let mut ran = run_within(procedure, row, frame, access)?;
                    result.count += ran.count;
                    answers.append(&mut ran.rows);
                }
                let looks = load.at_end.iter().filter(|_| load.looks_at_answers());
                for procedure in looks {
                    for row in &answers {
                        run_within(procedure, row, frame, access)?;
                    }
                }
                Ok(result)
            }
            Work::Interactive(transaction) => transaction.run(frame, access),
            Work::Void(error) => Err(Stop::from(error.clone())),
        }
    }

    /// Over soon, whatever the data.
    pub fn is_short(&self) -> bool {
        match self {
            Work::Statement(statement) => statement.procedure.is_short(),
            Work::Load(_) | Work::Interactive(_) => false,
            Work::Void(_) => true,
        }
    }

    /// Time that `now()` answers in a block of `block_time_us`.
    pub fn now_us(&self, block_time_us: i64) -> i64 {
        match self {
            Work::Interactive(transaction) => transaction.now_us,
            _ => block_time_us,
        }
    }
}

impl Interactive {
    fn run<A: Access>(&self, frame: &mut Frame, access: &mut A) -> Result<ProgramResult, Stop> {
        self.require(frame, access)?;
        self.run_writes(frame, access)
    }

    /// Its statements again, whatever it requires.
    pub fn run_writes<A: Access>(
        &self,
        frame: &mut Frame,
        access: &mut A,
    ) -> Result<ProgramResult, Stop> {
        let mut count = 0;
        for (write, expected) in &self.writes {
            count += write.run_again(expected, frame, access)?;
        }
        Ok(ProgramResult { count, ..ProgramResult::default() })
    }
}

impl RowRequirement {
    /// The row is looked at again.
    pub fn holds<A: Access>(&self, access: &mut A, meter: &Meter) -> Result<bool, Stop> {
        meter.spend(1)?;
        meter.note_row(&self.key)?;
        let stamp = access.read(self.table, &self.key, &[], &mut []);
        Ok(stamp.map_err(schema_changed)? == self.stamp)
    }
}

impl RangeRequirement {
    /// The range is read again, for a transaction: where it cannot be, the schema has changed.
    pub fn still_holds<A: Access>(&self, access: &mut A, meter: &Meter) -> Result<bool, Stop> {
        self.holds(access, meter).map_err(schema_changed)
    }

    /// The range is read again.
    pub fn holds<A: Access>(&self, access: &mut A, meter: &Meter) -> Result<bool, Stop> {
        let RangeRequirement { range, digest, seal } = self;
        // A range without rows is a look-up too.
        meter.spend(1)?;
        meter.note_range(range)?;
        Ok(match seal {
            None => RangeDigest::again(access, range, digest, meter)? == *digest,
            Some(seal) => seal_range(access, range, digest, meter)? == (digest.rows, **seal),
        })
    }
}

impl<W> Interactive<W> {
    /// What the client was shown is still so.
    pub fn require<A: Access>(&self, frame: &mut Frame, access: &mut A) -> Result<(), Stop> {
        for row in &self.rows {
            if !row.holds(access, frame.meter())? {
                return Err(row_changed());
            }
        }
        for range in &self.ranges {
            if !range.still_holds(access, frame.meter())? {
                return Err(range_changed());
            }
        }
        Ok(())
    }
}

/// A row is not as it is required.
pub fn row_changed() -> Stop {
    stale("A row that the transaction read was changed since.")
}

/// A range is not as it is required.
pub fn range_changed() -> Stop {
    stale("Rows of a range that the transaction read were changed since.")
}

impl Work {
    /// Run what the client had an answer to: it is the same one, or the transaction cannot commit.
    pub fn run_again<A: Access>(
        &self,
        expected: &Expectation,
        frame: &mut Frame,
        access: &mut A,
    ) -> Result<u64, Stop> {
        let result = self.run_within(frame, access).map_err(failed_since)?;
        let same = result.count == expected.count && result.rows == expected.rows;
        match same || test_mode::mutated(Mutant::AnswersNotCompared) {
            true => Ok(result.count),
            false => Err(stale("A statement of the transaction would now answer differently.")),
        }
    }
}

/// A statement that succeeded for the client and fails now has met a newer state.
pub fn failed_since(stop: Stop) -> Stop {
    match stop {
        Stop::Rejected(error) if !is_too_much(&error) => {
            stale(&format!("A statement that had succeeded now fails: {}.", error.message()))
        }
        other => other,
    }
}

/// What a requirement names is no more.
fn schema_changed(stop: Stop) -> Stop {
    match stop {
        Stop::Rejected(error) if !is_too_much(&error) => {
            stale(&format!("The schema was changed since: {}.", error.message()))
        }
        other => other,
    }
}

/// To try again would be in vain.
fn is_too_much(error: &Error) -> bool {
    matches!(error.code(), SqlState::STATEMENT_TOO_COMPLEX | SqlState::PROGRAM_LIMIT_EXCEEDED)
}

fn stale(detail: &str) -> Stop {
    Stop::Retry(Error::serialization(detail))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use procedure::Budget;

    use super::*;
    use crate::footprint::NoRecord;
    use crate::overlay::{Moment, Overlay};
    use crate::phantoms::tests::store;

    /// Nothing is in any of them, and each has to be looked up.
    #[test]
    fn a_range_without_rows_is_paid_for() {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let range = Range { table: TableId(1), index: 0, low, high, reverse: false };
        let require = |count: usize| {
            let (digest, range) = (RangeDigest::default(), range.clone());
            let ranges = vec![RangeRequirement { range, digest, seal: None }; count];
            let transaction: Interactive =
                Interactive { now_us: 0, rows: Vec::new(), ranges, writes: Vec::new() };
            let moment = Moment { height: 1, position: 0, now_us: 0 };
            let mut overlay = Overlay::new(store().catalog(), 0, moment, NoRecord);
            let budget = Budget { units_max: 1000, ..Budget::default() };
            let mut frame = Frame::metered(Meter::of(budget));
            transaction.require(&mut frame, &mut overlay)
        };
        require(1000).unwrap();
        let Err(Stop::Rejected(error)) = require(1001) else { panic!("not rejected") };
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
    }
}
