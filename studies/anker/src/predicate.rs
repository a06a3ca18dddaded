//! What a transaction has read, said as predicates (precision locking).
//!
//! It is not remembered which rows a scan looked at, but which values it looked *for*. A commit
//! since then conflicts if one of its writes, **before or after**, satisfies the predicate: a row
//! that leaves the range changes the result as much as one that enters it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::mutant::{Mutant, Mutants};
use crate::{ColumnId, Row};

/// One write of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    pub column: ColumnId,
    pub row: Row,
    pub before: i64,
    pub after: i64,
}

#[derive(Default, Debug)]
pub(crate) struct Predicates {
    /// Rows that were read by their number.
    points: BTreeSet<(ColumnId, Row)>,
    /// Values that rows were chosen by.
    ranges: Vec<(ColumnId, RangeInclusive<i64>)>,
}

impl Predicates {
    pub fn point(&mut self, column: ColumnId, row: Row) {
        self.points.insert((column, row));
    }

    pub fn range(&mut self, column: ColumnId, values: RangeInclusive<i64>) {
        self.ranges.push((column, values));
    }

    pub fn are_touched_by(&self, write: &Write, mutants: Mutants) -> bool {
        let point = self.points.contains(&(write.column, write.row));
        (point && !mutants.has(Mutant::IgnoresPointReads))
            || self.ranges.iter().any(|(column, values)| {
                let before = values.contains(&write.before);
                let after = values.contains(&write.after);
                *column == write.column
                    && ((before && !mutants.has(Mutant::IgnoresBeforeImages))
                        || (after && !mutants.has(Mutant::IgnoresAfterImages)))
            })
    }
}
