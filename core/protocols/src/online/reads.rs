//! What an optimistic transaction has read, to be looked at again when it commits.
//!
//! A row is noted with its stamp, which is its version: every commit writes a record once, and no
//! two have one stamp. What is absent is noted by its [gap](super::gaps). The gap is looked at
//! *before* the store is, so that what comes in between shows in the gap.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use concurrency::overlay::byte_bounds;
use concurrency::{Below, RangeDigest, Recorder, RowRead, Stored};
use procedure::access::Range;
use storage::{Catalog, LATEST, Slot, Table};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

use super::gaps::{Gap, Gaps, Seen};
use super::mutant::Mutant;

/// A row that was there.
#[derive(Clone, Copy, Debug)]
pub struct RowSeen {
    pub table: TableId,
    pub slot: Slot,
    pub stamp: Stamp,
    /// What it holds was seen, and not only that it is there.
    pub value: bool,
}

/// The reads of one transaction.
#[derive(Default)]
pub struct Reads {
    pub rows: Vec<RowSeen>,
    pub gaps: Vec<(Gap, Seen)>,
    /// A row came while the transaction looked for it: what it saw is no state at all.
    pub torn: bool,
    /// Something was answered by own writes.
    pub own: bool,
}

impl Reads {
    pub fn clear(&mut self) {
        self.rows.clear();
        self.gaps.clear();
        self.torn = false;
        self.own = false;
    }
}

/// Shared by the two ways in which an overlay reads.
pub type SharedReads = Rc<RefCell<Reads>>;

/// Notes the rows that are read by their keys.
pub struct Noting {
    pub reads: SharedReads,
    pub gaps: Arc<Gaps>,
    pub catalog: Arc<Catalog>,
    pub mutant: Option<Mutant>,
}

impl Noting {
    #[inline]
    fn note(&self, read: RowRead<'_>, value: bool) {
        let RowRead { table, key, record, stamp } = read;
        match (record.slot(), stamp) {
            (Some(slot), Some(stamp)) => {
                self.reads.borrow_mut().rows.push(RowSeen { table, slot, stamp, value });
            }
            _ => self.note_absence(table, key),
        }
    }

    fn note_absence(&self, table: TableId, key: &Key) {
        let gap = Gaps::of_key(table, key.as_bytes());
        let seen = self.gaps.look(gap);
        let of_table = self.catalog.table(table);
        let now = of_table.and_then(|table| table.stamp(table.find(key.as_bytes())?, LATEST));
        let mut reads = self.reads.borrow_mut();
        reads.torn |= now.is_some();
        if self.mutant != Some(Mutant::AbsenceForgotten) {
            reads.gaps.push((gap, seen));
        }
    }
}

impl Recorder for Noting {
    const DIGESTS: bool = false;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.note(read, true);
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.note(read, false);
    }

    fn own_read(&mut self) {
        self.reads.borrow_mut().own = true;
    }

    fn own_scan(&mut self) {}

    fn own_row_met(&mut self) {
        self.reads.borrow_mut().own = true;
    }

    /// The rows of a range are noted as they come.
    fn range_read(&mut self, _: &Range, _: RangeDigest) {}
}

/// The newest rows, those of ranges noted.
pub struct Newest {
    pub reads: SharedReads,
    pub gaps: Arc<Gaps>,
    pub mutant: Option<Mutant>,
}

const NOW: Stored = Stored(LATEST);

impl Below for Newest {
    #[inline]
    fn stamp(&self, table: &Table, slot: Option<Slot>, key: &Key) -> Option<Stamp> {
        NOW.stamp(table, slot, key)
    }

    #[inline]
    fn read(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        NOW.read(table, slot, key, columns, out)
    }

    fn read_row(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        out: &mut Vec<Value>,
    ) -> Option<Stamp> {
        NOW.read_row(table, slot, key, out)
    }

    fn scan<V>(
        &self,
        table: &Table,
        range: &Range,
        columns: &[ColumnId],
        mut visit: V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let Some((low, high)) = byte_bounds(range) else {
            return Ok(ControlFlow::Continue(()));
        };
        let gap = Gaps::of_range(range);
        let seen = self.gaps.look(gap);
        if self.mutant != Some(Mutant::RangesForgotten) {
            self.reads.borrow_mut().gaps.push((gap, seen));
        }
        let mut outcome = Ok(ControlFlow::Continue(()));
        let mut step = |key: &[u8], slot: Slot, stamp: Stamp, values: &[Value]| {
            let row = RowSeen { table: range.table, slot, stamp, value: true };
            self.reads.borrow_mut().rows.push(row);
            outcome = visit(&Key::from(key), stamp, values);
            match outcome {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let (low, high) = (low.as_ref().map(Key::as_bytes), high.as_ref().map(Key::as_bytes));
        table.scan_records(range.index, low, high, range.reverse, LATEST, columns, &mut step);
        outcome
    }
}
