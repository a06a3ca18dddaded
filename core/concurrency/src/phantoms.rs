//! Phantoms: the writes of a block that touch a range which another transaction read.
//!
//! A write touches a range when its row lies in the range before the write or after it. What the
//! row will be is not always known (update commands are kept unevaluated): false positives are
//! possible, false negatives are not.
//!
//! *Cost.* A transaction may read a thousand ranges, each of them as wide as its table, and the
//! block may write a million rows there; no transaction has paid for the product. So no pair of a
//! range and a write is looked at: for each index that a range is of, the writes of its table are
//! sorted once by the entries that they leave and take, and ranges ask the [lines](lines) that come
//! of it. Ranges × log writes for [the outermost edges](for_outermost), and for [all of them]
//! (for_all) that many steps more for each; for [all writes that one transaction's ranges touch]
//! (WritesInOrder::touching) those writes, each once for an index.

pub mod lines;

use std::cell::RefCell;
use std::rc::Rc;

use procedure::access::Range;
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, IndexId, Key, Stop, TableId, Value};

use crate::overlay::{index_columns, index_key};
use crate::pending::{PendingWrite, WriteState};
use crate::simulation::Simulated;
use lines::{Join, Line, Marks, Sums, Writers};

/// The [outermost](for_outermost) edges of a block. Of `shards` workers, worker `shard` sees to its
/// share of the readers.
pub fn for_each(
    simulated: &[Simulated],
    catalog: &Catalog,
    (shard, shards): (usize, usize),
    edge: impl FnMut(usize, usize),
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
    for_outermost(&WritesInOrder::new(catalog, writes), ranges, edge);
}

/// Of all two transactions of which one writes into a range that the other read, call
/// `edge(writer, reader)` for those with the first writer of each reader and with the first and the
/// last reader of each writer, and perhaps for some others.
pub fn for_outermost<'r>(
    writes: &WritesInOrder<'_>,
    ranges: impl Iterator<Item = (usize, &'r Range)>,
    mut edge: impl FnMut(usize, usize),
) {
    let mut lines: FxHashMap<(TableId, IndexId), Asked<'_>> = FxHashMap::default();
    for (reader, range) in ranges {
        let index = (range.table, range.index);
        let Asked { line, writers, readers } =
            lines.entry(index).or_insert_with(|| Asked::of(writes.line(index)));
        let First(writer) = writers.touched(line, range);
        if writer != First::NONE.0 && writer != reader {
            edge(writer, reader);
        }
        readers.add(line, range, Readers::one(reader));
    }
    for Asked { line, readers, .. } in lines.into_values() {
        readers.settle(&line, |(writer, _), readers| {
            readers.other_than(*writer).for_each(|reader| edge(*writer, reader));
        });
    }
}

/// Call `edge(writer, reader)` for all two transactions of which one writes into a range that the
/// other read, a few times at most.
pub fn for_all<'r>(
    writes: &WritesInOrder<'_>,
    readers: impl Iterator<Item = (usize, &'r [Range])>,
    mut edge: impl FnMut(usize, usize),
) {
    let mut lines: FxHashMap<(TableId, IndexId), _> = FxHashMap::default();
    for (reader, ranges) in readers {
        for (index, ranges) in by_index(ranges.iter()) {
            let (line, writers) = lines.entry(index).or_insert_with(|| {
                let line = writes.line(index);
                let writers = Writers::of(&line, |(writer, _)| *writer);
                (line, writers)
            });
            writers.touched(line, ranges.into_iter(), |writer| {
                if writer != reader {
                    edge(writer, reader);
                }
            });
        }
    }
}

fn by_index<'r>(
    ranges: impl Iterator<Item = &'r Range>,
) -> FxHashMap<(TableId, IndexId), Vec<&'r Range>> {
    let mut indexes: FxHashMap<(TableId, IndexId), Vec<&Range>> = FxHashMap::default();
    for range in ranges {
        indexes.entry((range.table, range.index)).or_default().push(range);
    }
    indexes
}

/// A line of writes while ranges ask it.
struct Asked<'s> {
    line: Rc<Line<Written<'s>>>,
    writers: Sums<First>,
    readers: Marks<Readers>,
}

impl<'s> Asked<'s> {
    fn of(line: Rc<Line<Written<'s>>>) -> Self {
        let writers = Sums::of(&line, |(writer, _)| First(*writer));
        Asked { writers, readers: Marks::on(&line), line }
    }
}

/// The first of some transactions.
#[derive(Clone, Copy)]
struct First(usize);

impl Join for First {
    const NONE: First = First(usize::MAX);

    fn join(self, other: First) -> First {
        First(self.0.min(other.0))
    }
}

/// The first two of some transactions and the last two, since one of them may be the writer itself.
#[derive(Clone, Copy)]
struct Readers {
    first: [Option<u32>; 2],
    last: [Option<u32>; 2],
}

impl Readers {
    fn one(reader: usize) -> Readers {
        let one = [Some(reader as u32), None];
        Readers { first: one, last: one }
    }

    fn other_than(self, writer: usize) -> impl Iterator<Item = usize> {
        [self.first, self.last].into_iter().filter_map(move |readers| {
            let mut readers = readers.into_iter().flatten().map(|reader| reader as usize);
            readers.find(|reader| *reader != writer)
        })
    }
}

/// The two of `a` and `b` that come before all others, by `is_before`.
fn foremost(
    a: [Option<u32>; 2],
    b: [Option<u32>; 2],
    is_before: impl Fn(u32, u32) -> bool,
) -> [Option<u32>; 2] {
    let mut best = a;
    for one in b.into_iter().flatten().filter(|one| !a.contains(&Some(*one))) {
        if best[0].is_none_or(|than| is_before(one, than)) {
            best = [Some(one), best[0]];
        } else if best[1].is_none_or(|than| is_before(one, than)) {
            best[1] = Some(one);
        }
    }
    best
}

impl Join for Readers {
    const NONE: Readers = Readers { first: [None; 2], last: [None; 2] };

    fn join(self, other: Readers) -> Readers {
        Readers {
            first: foremost(self.first, other.first, |one, than| one < than),
            last: foremost(self.last, other.last, |one, than| one > than),
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
    lines: RefCell<FxHashMap<(TableId, IndexId), Rc<Line<Written<'s>>>>>,
}

impl<'s> WritesInOrder<'s> {
    pub fn new(catalog: &'s Catalog, writes: impl Iterator<Item = Written<'s>>) -> Self {
        let mut by_table: FxHashMap<TableId, Vec<Written<'s>>> = FxHashMap::default();
        for (writer, write) in writes {
            by_table.entry(write.table).or_default().push((writer, write));
        }
        WritesInOrder { catalog, by_table, lines: RefCell::default() }
    }

    /// Writes of others than `reader` that may touch one of its ranges, each a few times at most.
    pub fn touching<'r>(
        &self,
        ranges: impl Iterator<Item = &'r Range>,
        reader: usize,
    ) -> Vec<Written<'s>> {
        let mut touching = Vec::new();
        for (index, ranges) in by_index(ranges) {
            let line = self.line(index);
            let touched = line.touched(ranges.into_iter()).copied();
            touching.extend(touched.filter(|(writer, _)| *writer != reader));
        }
        touching
    }

    fn line(&self, (table, index): (TableId, IndexId)) -> Rc<Line<Written<'s>>> {
        let mut known = self.lines.borrow_mut();
        let line = known.entry((table, index)).or_insert_with(|| {
            let writes = self.by_table.get(&table).map_or(&[][..], Vec::as_slice);
            let of_table = self.catalog.table(table);
            Rc::new(of_table.map_or_else(Line::default, |t| line_of(t, index, writes)))
        });
        Rc::clone(line)
    }
}

fn line_of<'s>(table: &Table, index: IndexId, writes: &[Written<'s>]) -> Line<Written<'s>> {
    let columns = index_columns(table, index);
    let mut line = Line::default();
    for &written in writes {
        let write = written.1;
        let before = entry_before(table, index, write, &columns);
        match before
            .transpose()
            .and_then(|before| Ok((before, entry_after(table, index, write, &columns)?)))
        {
            Ok((before, After::Entry(after))) => {
                let is_same = before.as_ref() == Some(&after);
                before.into_iter().for_each(|before| line.add(before, written));
                if !is_same {
                    line.add(after, written);
                }
            }
            Ok((before, After::Same)) => {
                before.into_iter().for_each(|before| line.add(before, written));
            }
            // An entry that cannot be encoded is no entry that can be looked for.
            Ok((_, After::Unknown)) | Err(_) => line.add_anywhere(written),
        }
    }
    line.sort();
    line
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

#[cfg(test)]
pub(crate) mod tests;
