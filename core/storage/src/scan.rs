//! Range scans: in index-key order, over the rows visible at one height, each once.
//!
//! Entries are taken from the index in batches, so that no lock and no index node is held while
//! the caller's code runs; the next batch starts after the last entry seen. Batches grow from 16
//! to 256 entries: a scan that stops at its first row reads little, a long one amortises the
//! descent.
//!
//! A record whose row moved in a secondary index has several entries there. The row counts at the
//! one that its visible version's columns encode to, so that it is met once, in its right place.

use std::ops::{Bound, ControlFlow};

use types::{ColumnId, Height, IndexId, Key, Stamp, Value};

use crate::entry;
use crate::ordered::OrderedIndex;
use crate::slot::Slot;
use crate::table::{SecondaryIndex, Table};

/// What a scan calls per row: primary key, stamp, the columns asked for.
pub type Visit<'a> = dyn FnMut(&[u8], Stamp, &[Value]) -> ControlFlow<()> + 'a;

/// The same for callers that must know where the row lies: primary key, record, stamp, columns.
pub type VisitRecord<'a> = dyn FnMut(&[u8], Slot, Stamp, &[Value]) -> ControlFlow<()> + 'a;

const FIRST_BATCH: usize = 16;
const LAST_BATCH: usize = 256;

impl Table {
    /// Calls `visit` with the primary key, the stamp and the given columns of every row that is
    /// visible at `at` and whose key in the index lies in the range, until it breaks. An index
    /// that does not exist has no rows.
    ///
    /// Bounds are encoded keys or prefixes of them, compared as bytes.
    #[expect(clippy::too_many_arguments, reason = "a range has this many parts")]
    pub fn scan(
        &self,
        index: IndexId,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        at: Height,
        columns: &[ColumnId],
        visit: &mut Visit<'_>,
    ) {
        self.scan_records(index, low, high, reverse, at, columns, &mut |key, _, stamp, values| {
            visit(key, stamp, values)
        });
    }

    /// As [`Table::scan`], and each row comes with its record.
    #[expect(clippy::too_many_arguments, reason = "a range has this many parts")]
    pub fn scan_records(
        &self,
        index: IndexId,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        at: Height,
        columns: &[ColumnId],
        visit: &mut VisitRecord<'_>,
    ) {
        if index == 0 {
            let mut values = vec![Value::Null; columns.len()];
            each_entry(self.primary(), low, high, reverse, &mut |key, slot| match self.read(
                slot,
                at,
                columns,
                &mut values,
            ) {
                Some(stamp) => visit(key, slot, stamp, &values),
                None => ControlFlow::Continue(()),
            });
        } else if let Some(secondary) = self.secondary(index) {
            let wanted: Vec<ColumnId> =
                columns.iter().copied().chain(secondary.columns.iter().map(|c| c.id)).collect();
            let mut values = vec![Value::Null; wanted.len()];
            each_entry(&secondary.entries, low, high, reverse, &mut |entry, slot| {
                let Some(stamp) = self.read(slot, at, &wanted, &mut values) else {
                    return ControlFlow::Continue(());
                };
                let (shown, indexed) = values.split_at(columns.len());
                match primary_key_of(secondary, entry, indexed) {
                    Some(key) => visit(key, slot, stamp, shown),
                    None => ControlFlow::Continue(()),
                }
            });
        }
    }
}

/// The primary key in an entry, if the entry belongs to these values of its columns.
fn primary_key_of<'a>(
    index: &SecondaryIndex,
    entry: &'a [u8],
    indexed: &[Value],
) -> Option<&'a [u8]> {
    entry.strip_prefix(entry::encode(&index.columns, indexed).as_bytes())
}

pub(crate) fn each_entry(
    index: &OrderedIndex,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    reverse: bool,
    visit: &mut dyn FnMut(&[u8], Slot) -> ControlFlow<()>,
) {
    let mut batch: Vec<(Key, Slot)> = Vec::with_capacity(FIRST_BATCH);
    let mut size = FIRST_BATCH;
    let mut last: Option<Key> = None;
    loop {
        batch.clear();
        let resume = last.as_ref().map(|key| Bound::Excluded(key.as_bytes()));
        let (from, to) =
            if reverse { (low, resume.unwrap_or(high)) } else { (resume.unwrap_or(low), high) };
        if is_empty(from, to) {
            return;
        }
        index.collect(from, to, reverse, size, &mut batch);
        for (key, slot) in &batch {
            if visit(key.as_bytes(), *slot).is_break() {
                return;
            }
        }
        if batch.len() < size {
            return;
        }
        last = batch.pop().map(|(key, _)| key);
        size = (size * 4).min(LAST_BATCH);
    }
}

fn is_empty(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low >= high,
    }
}
