//! The committed state that a transaction reads through its overlay where it has not written
//! itself: a block snapshot, or the newest state.

use std::ops::ControlFlow;

use procedure::access::Range;
use storage::{Slot, Table};
use types::{ColumnId, Height, Key, Stamp, Stop, Value};

use crate::overlay::byte_bounds;

/// A state to read from. `slot` is where the store has a record of the key, whether or not a row is
/// visible in it.
pub trait Below {
    /// Whether there is a row, and when it last changed.
    fn stamp(&self, table: &Table, slot: Option<Slot>, key: &Key) -> Option<Stamp>;

    fn read(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp>;

    /// The whole row, in place of what `out` held.
    fn read_row(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        out: &mut Vec<Value>,
    ) -> Option<Stamp>;

    /// The rows of a range in the order of its index. `Break` when `visit` stopped it.
    fn scan<V>(
        &self,
        table: &Table,
        range: &Range,
        columns: &[ColumnId],
        visit: V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>;
}

/// What the store holds at one height: a block snapshot, or `storage::LATEST`.
#[derive(Clone, Copy, Debug)]
pub struct Stored(pub Height);

impl Below for Stored {
    #[inline]
    fn stamp(&self, table: &Table, slot: Option<Slot>, _: &Key) -> Option<Stamp> {
        table.stamp(slot?, self.0)
    }

    #[inline]
    fn read(
        &self,
        table: &Table,
        slot: Option<Slot>,
        _: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        table.read(slot?, self.0, columns, out)
    }

    fn read_row(
        &self,
        table: &Table,
        slot: Option<Slot>,
        _: &Key,
        out: &mut Vec<Value>,
    ) -> Option<Stamp> {
        table.read_row(slot?, self.0, out)
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
        let mut outcome = Ok(ControlFlow::Continue(()));
        let mut step = |key: &[u8], stamp: Stamp, values: &[Value]| {
            outcome = visit(&Key::from(key), stamp, values);
            match outcome {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        };
        let (low, high) = (low.as_ref().map(Key::as_bytes), high.as_ref().map(Key::as_bytes));
        table.scan(range.index, low, high, range.reverse, self.0, columns, &mut step);
        outcome
    }
}
