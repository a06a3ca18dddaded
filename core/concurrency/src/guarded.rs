//! An `Access` that runs a check after each operation, and ends the transaction early where the
//! check fails: for cancellation, and for validity that another transaction may have broken
//! meanwhile.

use std::ops::ControlFlow;

use procedure::access::{Access, Command, Range, Row};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

/// Passes everything on, and asks `watch` afterwards: its `Err` ends the step.
pub struct Guarded<'a, A, W> {
    access: &'a mut A,
    watch: W,
}

impl<'a, A: Access, W: FnMut(&mut A) -> Result<(), Stop>> Guarded<'a, A, W> {
    pub fn new(access: &'a mut A, watch: W) -> Self {
        Guarded { access, watch }
    }

    fn looked_at<T>(&mut self, result: Result<T, Stop>) -> Result<T, Stop> {
        (self.watch)(self.access)?;
        result
    }
}

impl<A: Access, W: FnMut(&mut A) -> Result<(), Stop>> Access for Guarded<'_, A, W> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let read = self.access.read(table, key, columns, out);
        self.looked_at(read)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let exists = self.access.exists(table, key);
        self.looked_at(exists)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let updated = self.access.update(table, key, command);
        self.looked_at(updated)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let inserted = self.access.insert(table, key, row);
        self.looked_at(inserted)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let deleted = self.access.delete(table, key);
        self.looked_at(deleted)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let scanned = self.access.scan(range, columns, visit);
        self.looked_at(scanned)
    }

    fn take_passed_over(&mut self) -> u64 {
        self.access.take_passed_over()
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.access.next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.access.now_us()
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        self.access.prefetch(table, key);
    }
}
