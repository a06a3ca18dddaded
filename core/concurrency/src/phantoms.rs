//! Phantoms: the writes of a block that touch a range which another transaction read.
//!
//! A write touches a range when its row lies in the range before the write or after it. What the
//! row will be is not always known (update commands are kept unevaluated): false positives are
//! possible, false negatives are not.
//!
//! *Cost.* For each index that a range is of, the writes of its table are sorted once by the
//! entries that they leave and take; a range finds its own by binary search. Only commands that
//! assign an indexed column are looked at by every range of that index.

use std::cell::RefCell;
use std::ops::Bound;
use std::rc::Rc;

use procedure::access::Range;
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, IndexId, Key, Stop, TableId, Value};

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
        for (writer, _) in writes.touching(range, reader) {
            edge(writer, reader);
        }
    }
}

/// A transaction's number, with one of its writes.
type Written<'s> = (usize, &'s PendingWrite);

/// The writes of some transactions, none of which is installed yet.
pub struct WritesInOrder<'s> {
    catalog: &'s Catalog,
    by_table: FxHashMap<TableId, Vec<Written<'s>>>,
    /// Made when first asked for.
    by_entry: RefCell<FxHashMap<(TableId, IndexId), Rc<Entries<'s>>>>,
}

/// The writes of a table as one of its indexes sees them.
#[derive(Default)]
struct Entries<'s> {
    /// What rows leave and what they take, in the order of the index.
    in_order: Vec<(Key, Written<'s>)>,
    /// What a row will take is not known before its commands are folded.
    anywhere: Vec<Written<'s>>,
}

impl<'s> WritesInOrder<'s> {
    pub fn new(catalog: &'s Catalog, writes: impl Iterator<Item = Written<'s>>) -> Self {
        let mut by_table: FxHashMap<TableId, Vec<Written<'s>>> = FxHashMap::default();
        for (writer, write) in writes {
            by_table.entry(write.table).or_default().push((writer, write));
        }
        WritesInOrder { catalog, by_table, by_entry: RefCell::default() }
    }

    /// Writes of others than `reader` that may touch `range`, some of them twice.
    pub fn touching(&self, range: &Range, reader: usize) -> Vec<Written<'s>> {
        let entries = self.entries(range.table, range.index);
        let first = match &range.low {
            Bound::Included(low) | Bound::Excluded(low) => {
                entries.in_order.partition_point(|(key, _)| key < low)
            }
            Bound::Unbounded => 0,
        };
        let ahead = entries.in_order[first..].iter();
        let within = ahead.take_while(|(key, _)| !is_behind(range, key.as_bytes()));
        let touching = within.filter(|(key, _)| covers(range, key.as_bytes()));
        let all = touching.map(|(_, written)| written).chain(&entries.anywhere);
        all.filter(|(writer, _)| *writer != reader).copied().collect()
    }

    fn entries(&self, table: TableId, index: IndexId) -> Rc<Entries<'s>> {
        let mut known = self.by_entry.borrow_mut();
        let entries = known.entry((table, index)).or_insert_with(|| {
            let writes = self.by_table.get(&table).map_or(&[][..], Vec::as_slice);
            let of_table = self.catalog.table(table);
            Rc::new(of_table.map_or_else(Entries::default, |t| Entries::of(t, index, writes)))
        });
        Rc::clone(entries)
    }
}

impl<'s> Entries<'s> {
    fn of(table: &Table, index: IndexId, writes: &[Written<'s>]) -> Self {
        let columns = index_columns(table, index);
        let mut entries = Entries::default();
        for &written in writes {
            let write = written.1;
            let before = entry_before(table, index, write, &columns);
            match before
                .transpose()
                .and_then(|before| Ok((before, entry_after(table, index, write, &columns)?)))
            {
                Ok((before, After::Entry(after))) => {
                    entries
                        .in_order
                        .extend(before.into_iter().chain([after]).map(|key| (key, written)));
                }
                Ok((before, After::Same)) => {
                    entries.in_order.extend(before.map(|key| (key, written)));
                }
                // An entry that cannot be encoded is no entry that can be looked for.
                Ok((_, After::Unknown)) | Err(_) => entries.anywhere.push(written),
            }
        }
        entries.in_order.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        entries
    }
}

/// Where a row will be in an index.
enum After {
    Entry(Key),
    /// Where it was, or nowhere.
    Same,
    Unknown,
}

fn entry_after(
    table: &Table,
    index: IndexId,
    write: &PendingWrite,
    columns: &[ColumnId],
) -> Result<After, Stop> {
    Ok(match &write.state {
        WriteState::Delete => After::Same,
        WriteState::Put(row) => {
            After::Entry(index_key(table, index, &write.key, |c| &row[usize::from(c)])?)
        }
        WriteState::Commands(commands) => {
            let mut assigned = commands.iter().flat_map(|c| &c.code.assignments);
            match assigned.any(|(column, _)| columns.contains(column)) {
                true => After::Unknown,
                false => After::Same,
            }
        }
    })
}

/// `None`: there was no row.
fn entry_before(
    table: &Table,
    index: IndexId,
    write: &PendingWrite,
    columns: &[ColumnId],
) -> Option<Result<Key, Stop>> {
    if index == 0 {
        return Some(Ok(write.key.clone()));
    }
    if !write.existed {
        return None;
    }
    let mut values = vec![Value::Null; columns.len()];
    // None of the writes is installed yet, so the newest state is the one before them.
    write.slot.and_then(|slot| table.read(slot, LATEST, columns, &mut values))?;
    Some(index_key(table, index, &write.key, |column| {
        let at = columns.iter().position(|&c| c == column);
        &values[at.expect("an index column")]
    }))
}

/// Whether an entry, and with it every larger one, lies beyond the end of a range.
fn is_behind(range: &Range, key: &[u8]) -> bool {
    match &range.high {
        Bound::Unbounded => false,
        Bound::Included(high) => key > high.as_bytes() && !key.starts_with(high.as_bytes()),
        Bound::Excluded(high) => key >= high.as_bytes(),
    }
}
