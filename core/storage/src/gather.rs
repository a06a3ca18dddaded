//! Columns of many records at once, as words: what columnar copies are made from.
//!
//! Records come in row groups of [`GROUP_ROWS`] slots. A group's slots are looked at in their
//! order, each once for all columns wanted, so that the processor fetches ahead by itself.

use types::{ColumnId, Height};

use crate::layout::Cell;
use crate::record::GROUP_ROWS_LOG2;
use crate::slot::Slot;
use crate::table::{Table, load_cell};

/// Slots of a row group.
pub const GROUP_ROWS: usize = 1 << GROUP_ROWS_LOG2;

/// A column of one row, in the words that the module `layout` draws.
#[derive(Clone, Copy)]
pub struct Gathered<'a> {
    cell: Cell,
    table: &'a Table,
}

impl Gathered<'_> {
    pub fn is_null(&self) -> bool {
        self.cell.null
    }

    /// Of columns of one word: integers, booleans, float8 (its bits), dates, timestamps.
    pub fn word(&self) -> u64 {
        self.cell.words[0]
    }

    /// Of columns of two words: uuid, interval, timetz, and the view of a string.
    pub fn pair(&self) -> u128 {
        u128::from(self.cell.words[0]) | u128::from(self.cell.words[1]) << 64
    }

    /// The bytes of a text, bytea or numeric column (`numeric::from_bytes`).
    pub fn with_bytes<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R {
        self.table.records.heap.with_bytes(self.cell.words, with)
    }
}

impl Table {
    /// Row groups that hold a slot in use now.
    pub fn groups(&self) -> usize {
        self.slots().div_ceil(GROUP_ROWS as u64) as usize
    }

    /// Slots that have ever held a row: a scan looks at them all.
    pub fn slots(&self) -> u64 {
        self.records.slots_end()
    }

    /// Columns of a slot's row as of `at`, into the first places of `out`; whether there is a row.
    /// A slot never used has none.
    #[inline]
    pub fn gather<'a>(
        &'a self,
        slot: Slot,
        at: Height,
        columns: &[ColumnId],
        out: &mut [Gathered<'a>],
    ) -> bool {
        let layout = &self.records.layout;
        let read = self.records.read(slot, at, |payload| {
            for (gathered, id) in out.iter_mut().zip(columns) {
                gathered.cell = load_cell(layout.column(*id), payload);
            }
        });
        read.is_some()
    }

    /// A place for a column's value.
    pub fn gathered(&self) -> Gathered<'_> {
        Gathered { cell: Cell::default(), table: self }
    }
}
