//! Reads that omit rows locked by others: what SKIP LOCKED sees.
//!
//! The set of omitted rows is not in the ledger, so blocks never run in this mode; only a session
//! does, in its own workspace. At COMMIT, what it read of the tables concerned is not validated
//! ([`Overlay::require_only`]), except for the rows that it returned: by SKIP LOCKED the client
//! accepts that other rows appear, disappear or are omitted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use procedure::access::{Access, Command, Range, Row};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

use crate::claims::FootprintMark;
use crate::footprint::Footprint;
use crate::overlay::Overlay;

/// Rows that are passed over, by table; a table without any is one that is looked at so.
pub type SkippedRows = BTreeMap<TableId, BTreeSet<Key>>;

/// An access that does not see some rows.
pub struct SkippingLocked<'a, A> {
    pub inner: &'a mut A,
    pub skipped: &'a SkippedRows,
}

impl<A> SkippingLocked<'_, A> {
    fn skips(&self, table: TableId, key: &Key) -> bool {
        self.skipped.get(&table).is_some_and(|keys| keys.contains(key))
    }
}

impl<A: Access> Access for SkippingLocked<'_, A> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        match self.skips(table, key) {
            true => Ok(None),
            false => self.inner.read(table, key, columns, out),
        }
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        Ok(!self.skips(table, key) && self.inner.exists(table, key)?)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        debug_assert!(!self.skips(table, key), "what is passed over is not written");
        self.inner.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        self.inner.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        debug_assert!(!self.skips(table, key), "what is passed over is not written");
        self.inner.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], mut visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let skipped = self.skipped.get(&range.table).filter(|keys| !keys.is_empty());
        self.inner.scan(range, columns, |key, stamp, values| {
            match skipped.is_some_and(|keys| keys.contains(key)) {
                true => Ok(ControlFlow::Continue(())),
                false => visit(key, stamp, values),
            }
        })
    }

    fn take_passed_over(&mut self) -> u64 {
        self.inner.take_passed_over()
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.inner.next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.inner.now_us()
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        self.inner.prefetch(table, key);
    }
}

impl Overlay<Footprint> {
    /// Of what was read since `mark` in the tables of `skipped`, only `rows` are required.
    pub fn require_only<'k>(
        &mut self,
        mark: FootprintMark,
        skipped: &SkippedRows,
        rows: impl Iterator<Item = (TableId, &'k Key)>,
    ) -> Result<(), Stop> {
        self.recorder.forget_tables(mark, &|table| skipped.contains_key(&table));
        for (table, key) in rows {
            self.read(table, key, &[], &mut [])?;
        }
        Ok(())
    }
}
