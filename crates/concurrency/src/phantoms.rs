//! Phantoms: writes whose row is in a range that another transaction of the block read.
//!
//! A write touches a range when its row lies in it before the write or after it. Ranges of primary
//! keys find their writes by binary search among the block's writes; others pass all writes of the
//! table, since a row's entry in another index depends on values which commands may still change.
//! So "touches" may be a false alarm, but never differs between replicas.
//!
//! *Cost.* Nothing where nobody reads a range. Otherwise each worker sorts the block's writes.

use std::ops::Bound;

use procedure::access::Range;
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, Position, TableId, Value};

use crate::overlay::{covers, index_columns, index_key};
use crate::pending::{PendingWrite, WriteState};
use crate::simulation::Simulated;

/// Call `edge(writer, reader)` for every two transactions of which one writes into a range that the
/// other read. Of `shards` workers, worker `shard` sees to its share of the readers. Nothing of the
/// block may be installed yet.
pub fn for_each(
    simulated: &[Simulated],
    catalog: &Catalog,
    (shard, shards): (usize, usize),
    mut edge: impl FnMut(Position, Position),
) {
    let all = || (0..).zip(simulated);
    let mut ranges = all()
        .filter(|(reader, _): &(Position, _)| *reader as usize % shards == shard)
        .flat_map(|(reader, s)| s.reads.ranges.iter().map(move |range| (reader, range)))
        .peekable();
    if ranges.peek().is_none() {
        return;
    }
    let mut writes: FxHashMap<TableId, Vec<(&PendingWrite, Position)>> = FxHashMap::default();
    for (writer, simulated) in all() {
        for write in &simulated.writes {
            writes.entry(write.table).or_default().push((write, writer));
        }
    }
    for of_table in writes.values_mut() {
        of_table.sort_unstable_by(|(a, _), (b, _)| a.key.cmp(&b.key));
    }
    for (reader, range) in ranges {
        let (Some(table), Some(writes)) = (catalog.table(range.table), writes.get(&range.table))
        else {
            continue;
        };
        let first = match &range.low {
            Bound::Included(low) | Bound::Excluded(low) if range.index == 0 => {
                writes.partition_point(|(write, _)| write.key < *low)
            }
            _ => 0,
        };
        for (write, writer) in &writes[first..] {
            if range.index == 0 && is_behind(range, write.key.as_bytes()) {
                break;
            }
            if *writer != reader && may_touch(table, range, write) {
                edge(*writer, reader);
            }
        }
    }
}

/// Whether a primary key, and with it every larger one, lies beyond the end of a range.
fn is_behind(range: &Range, key: &[u8]) -> bool {
    match &range.high {
        Bound::Unbounded => false,
        Bound::Included(high) => key > high.as_bytes() && !key.starts_with(high.as_bytes()),
        Bound::Excluded(high) => key >= high.as_bytes(),
    }
}

/// Whether the row of `write` lies in `range` before or after it; "yes" where that cannot be known
/// before the commands are folded.
fn may_touch(table: &Table, range: &Range, write: &PendingWrite) -> bool {
    if range.index == 0 {
        return covers(range, write.key.as_bytes());
    }
    let columns = index_columns(table, range.index);
    let after = match &write.state {
        WriteState::Delete => false,
        WriteState::Put(row) => index_key(table, range.index, &write.key, |c| &row[usize::from(c)])
            .map_or(true, |key| covers(range, key.as_bytes())),
        WriteState::Commands(commands) => commands
            .iter()
            .any(|c| c.code.assignments.iter().any(|(column, _)| columns.contains(column))),
    };
    after || write.existed && before_image_in(table, range, write, &columns)
}

fn before_image_in(
    table: &Table,
    range: &Range,
    write: &PendingWrite,
    columns: &[ColumnId],
) -> bool {
    let mut values = vec![Value::Null; columns.len()];
    // Nothing of the block is installed yet, so the newest state is the one before it.
    let stored = write.slot.and_then(|slot| table.read(slot, LATEST, columns, &mut values));
    stored.is_some()
        && index_key(table, range.index, &write.key, |column| {
            let at = columns.iter().position(|&c| c == column);
            &values[at.expect("an index column")]
        })
        .map_or(true, |key| covers(range, key.as_bytes()))
}
