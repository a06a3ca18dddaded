//! Phantoms: the writes of a block that touch a range which another transaction read.
//!
//! A write touches a range when its row lies in the range before it or after it. What the row will
//! be is not always known (update commands are kept unevaluated), so the answer may be a "yes" too
//! many, never one too few.
//!
//! *Cost.* Writes are sorted by primary key once; a range of primary keys finds its own by binary
//! search, a range of another index looks at all writes of its table.

use std::ops::Bound;

use procedure::access::Range;
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, TableId, Value};

use crate::overlay::{covers, index_columns, index_key};
use crate::pending::{PendingWrite, WriteState};
use crate::simulation::Simulated;

/// Call `edge(writer, reader)` for every two transactions of which one writes into a range that the
/// other read. Of `shards` workers, worker `shard` sees to its share of the readers.
pub fn for_each(
    simulated: &[Simulated],
    catalog: &Catalog,
    (shard, shards): (usize, usize),
    mut edge: impl FnMut(usize, usize),
) {
    let all = || simulated.iter().enumerate();
    let mut ranges = all()
        .filter(|(reader, _)| reader % shards == shard)
        .flat_map(|(reader, s)| s.reads.ranges.iter().map(move |range| (reader, range)))
        .peekable();
    if ranges.peek().is_none() {
        return;
    }
    let writes = all().flat_map(|(writer, s)| s.writes.iter().map(move |write| (writer, write)));
    let writes = WritesInOrder::new(catalog, writes);
    for (reader, range) in ranges {
        for (writer, _) in writes.touching(range) {
            if writer != reader {
                edge(writer, reader);
            }
        }
    }
}

/// A transaction's number, with one of its writes.
type Written<'s> = (usize, &'s PendingWrite);

/// The writes of some transactions, none of which is installed yet.
pub struct WritesInOrder<'s> {
    catalog: &'s Catalog,
    by_table: FxHashMap<TableId, Vec<Written<'s>>>,
}

impl<'s> WritesInOrder<'s> {
    pub fn new(catalog: &'s Catalog, writes: impl Iterator<Item = Written<'s>>) -> Self {
        let mut by_table: FxHashMap<TableId, Vec<Written<'s>>> = FxHashMap::default();
        for (writer, write) in writes {
            by_table.entry(write.table).or_default().push((writer, write));
        }
        for writes in by_table.values_mut() {
            writes.sort_unstable_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        }
        WritesInOrder { catalog, by_table }
    }

    /// Writes that may touch `range`, its reader's own included.
    pub fn touching<'r>(&'r self, range: &'r Range) -> impl Iterator<Item = Written<'s>> + 'r {
        let table = self.catalog.table(range.table);
        let writes = self.by_table.get(&range.table).map_or(&[][..], Vec::as_slice);
        let first = match &range.low {
            Bound::Included(low) | Bound::Excluded(low) if range.index == 0 => {
                writes.partition_point(|(_, write)| write.key < *low)
            }
            _ => 0,
        };
        let within = |write: &PendingWrite| range.index != 0 || !is_behind(range, &write.key.0);
        let ahead = writes[first..].iter().take_while(move |(_, write)| within(write));
        ahead.copied().filter(move |(_, write)| table.is_some_and(|t| may_touch(t, range, write)))
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
    // None of the writes is installed yet, so the newest state is the one before them.
    let stored = write.slot.and_then(|slot| table.read(slot, LATEST, columns, &mut values));
    stored.is_some()
        && index_key(table, range.index, &write.key, |column| {
            let at = columns.iter().position(|&c| c == column);
            &values[at.expect("an index column")]
        })
        .map_or(true, |key| covers(range, key.as_bytes()))
}
