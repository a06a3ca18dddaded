//! Analytical queries, expressed as folds over zones of columns.
//!
//! All configurations run the same query interface: it takes whole zones of some columns and
//! returns a few words. `fold` does not allocate, so a forked child process can run it; a snapshot
//! passes its memory in place; the single engine passes a zone that it has assembled from current
//! values and versions.

use crate::ColumnId;

pub trait Query: Sync {
    /// Columns that are read side by side, pass by pass: the columns of a pass are of one table.
    fn passes(&self) -> &[Vec<ColumnId>];

    /// The answer before the first row.
    fn start(&self) -> Vec<i64>;

    /// Folds one zone of a pass's columns into the answer. Allocates nothing, takes no lock.
    fn fold(&self, pass: usize, zone: &[&[i64]], answer: &mut [i64]);
}

/// Sum and number of rows of one column.
pub struct SumAndCount {
    passes: Vec<Vec<ColumnId>>,
}

impl SumAndCount {
    pub fn new(column: ColumnId) -> Self {
        SumAndCount { passes: vec![vec![column]] }
    }
}

impl Query for SumAndCount {
    fn passes(&self) -> &[Vec<ColumnId>] {
        &self.passes
    }

    fn start(&self) -> Vec<i64> {
        vec![0, 0]
    }

    fn fold(&self, _pass: usize, zone: &[&[i64]], answer: &mut [i64]) {
        answer[0] = zone[0].iter().fold(answer[0], |sum, value| sum.wrapping_add(*value));
        answer[1] += zone[0].len() as i64;
    }
}

/// The columns of all passes, each once.
pub(crate) fn columns_of(query: &dyn Query) -> Vec<ColumnId> {
    let mut columns: Vec<ColumnId> = query.passes().iter().flatten().copied().collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
