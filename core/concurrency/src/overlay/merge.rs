//! Scans that merge a transaction's own rows with those of the state below, in index order.

use std::ops::{Bound, ControlFlow};

use procedure::access::Range;
use smallvec::SmallVec;
use storage::Table;
use types::{ColumnId, Key, Stamp, Stop, Value};

use super::ranges::index_key;
use crate::footprint::RangeDigest;
use crate::pending::{RecordId, WriteSet, WriteState};
use crate::test_mode::{Mutant, mutated};

/// The part of a range that a scan has passed when it comes to the entry `key`.
pub(super) fn before(range: &Range, key: Key) -> Range {
    let mut passed = range.clone();
    if range.reverse {
        passed.low = Bound::Excluded(key);
    } else {
        passed.high = Bound::Excluded(key);
    }
    passed
}

/// Base rows and own rows of one range on their way to `visit`, in index order.
pub(super) struct Merge<'a, V> {
    pub(super) table: &'a Table,
    pub(super) range: &'a Range,
    /// What `visit` gets; base rows come with the values of `key_columns` after them.
    pub(super) columns: &'a [ColumnId],
    pub(super) key_columns: Vec<ColumnId>,
    pub(super) writes: &'a WriteSet,
    pub(super) own: Vec<(Key, usize)>,
    pub(super) next_own: usize,
    pub(super) own_stamp: Stamp,
    pub(super) digest: RangeDigest,
    /// Base rows that own writes hide.
    pub(super) passed_over: u64,
    /// Entry of the own row that ended the scan.
    pub(super) stopped_at: Option<Key>,
    pub(super) visit: V,
}

impl<V> Merge<'_, V>
where
    V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
{
    pub(super) fn base_row(
        &mut self,
        key: &Key,
        stamp: Stamp,
        values: &[Value],
    ) -> Result<ControlFlow<()>, Stop> {
        let (shown, key_values) = values.split_at(self.columns.len());
        let index_key = index_key(self.table, self.range.index, key, |column| {
            let at = self.key_columns.iter().position(|&c| c == column);
            &key_values[at.expect("key columns are read with the row")]
        })?;
        if self.own_rows_before(Some(&index_key))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.digest.add(key.as_bytes(), stamp);
        let record = RecordId::of(self.table.find(key.as_bytes()), key);
        let own = self.writes.find(self.range.table, record, key).is_some();
        if own && !mutated(Mutant::OwnRowsTwice) {
            self.passed_over += 1;
            return Ok(ControlFlow::Continue(()));
        }
        (self.visit)(key, stamp, shown)
    }

    /// Visit the own rows up to `base` (all that are left when there is none). An own row hides the
    /// base row with its entry, so it may come first.
    pub(super) fn own_rows_before(&mut self, base: Option<&Key>) -> Result<ControlFlow<()>, Stop> {
        while let Some((key, at)) = self.own.get(self.next_own) {
            let behind = |base: &Key| match self.range.reverse {
                true => key < base,
                false => key > base,
            };
            if base.is_some_and(behind) {
                break;
            }
            self.next_own += 1;
            let write = &self.writes.writes()[*at];
            let WriteState::Put(row) = &write.state else {
                continue;
            };
            let values: SmallVec<[Value; 8]> =
                self.columns.iter().map(|&c| row[usize::from(c)].clone()).collect();
            let flow = (self.visit)(&write.key, self.own_stamp, &values);
            if !matches!(flow, Ok(ControlFlow::Continue(()))) {
                self.stopped_at = Some(key.clone());
                return flow;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
