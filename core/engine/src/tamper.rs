//! A fault for tests: a row in memory that is not what the blocks have made of it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use storage::{Store, Table};
use types::schema::ColumnId;
use types::{Height, Stamp, Value};

/// Changes a number in the first row of the newest table that has one, with no effect that a block
/// would tell. The block is finished, and not yet published.
pub fn with_a_row(store: &Arc<Store>, height: Height) {
    let stamp = Stamp::new(height, Stamp::POSITIONS_MAX);
    let mut writes = store.begin_step(stamp, 1);
    for table in store.tables().iter().rev() {
        let mut first = None;
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan_records(0, low, high, false, height, &[], &mut |_, slot, _, _| {
            first = Some(slot);
            ControlFlow::Break(())
        });
        let mut row = Vec::new();
        let Some(slot) = first.filter(|slot| table.read_row(*slot, height, &mut row).is_some())
        else {
            continue;
        };
        if let Some((column, number)) = number(table, &row) {
            table.update(slot, &[(column, Value::Int(number ^ 1))], stamp, writes.arena(0));
            break;
        }
    }
    store.finish_unread(writes);
}

/// One that is no part of the key.
fn number(table: &Table, row: &[Value]) -> Option<(ColumnId, i64)> {
    let key = &table.schema().primary_key;
    row.iter().enumerate().find_map(|(place, value)| {
        let column = ColumnId::try_from(place).ok()?;
        match value {
            Value::Int(number) if !key.contains(&column) => Some((column, *number)),
            _ => None,
        }
    })
}
