//! Ranges: three layers merged in index order, and read again for validation.
//!
//! ```text
//!   stored rows       k1   k3   k5        k9      as they were before the block
//!   rows of the block      k3'       k7           of transactions before this one; they hide k3
//!   own rows                    k5"               hide what has their key
//! ```
//!
//! A range rests on the rows below the own ones that it went over: their keys, their stamps or, for
//! rows of the block, the versions that they were put together from. Validation goes over the range
//! again, as far as the first time, and compares digests; where the block has changed nothing in
//! the range, neither then nor now, it does not even do that.
//!
//! *Cost.* A scan looks at every record that the block has written so far, for those of its table
//! and range. That is cheap beside the scan of a long range and dear beside that of a short one in
//! a block of many writes; an ordered index of the block's records would cost every write.

use std::ops::{Bound, ControlFlow};

use concurrency::overlay::{byte_bounds, covers, index_columns, index_key};
use concurrency::own_rows::SCANNED_MAX;
use concurrency::{RangeDigest, WriteSet, WriteState};
use procedure::access::Range;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use storage::{LATEST, Table};
use types::{ColumnId, IndexId, Key, Position, Stamp, Stop, Value};

use super::memory::{ColumnMask, Found, Memory, Place, Record, Seen};
use super::view::{RangeRead, View};

/// Why a scan below the own writes could not go on.
pub enum Trouble {
    Estimate(Position),
    Stop(Stop),
}

type Flow = ControlFlow<()>;

/// A row below the own writes.
struct BelowRow<'r> {
    entry: &'r Key,
    key: &'r Key,
    stamp: Stamp,
    /// Stands for all that the row was put together from.
    rests_on: Stamp,
    /// Of the columns asked for.
    values: &'r [Value],
}

/// A row that the block has written.
struct BlockRow {
    entry: Key,
    key: Key,
    stamp: Stamp,
    rests_on: Stamp,
    values: Vec<Value>,
}

/// What a scan asks for.
struct Asked<'r> {
    range: &'r Range,
    table: &'r Table,
    /// How many columns the reader wants; those of the index entry follow in `wanted`.
    shown: usize,
    wanted: SmallVec<[ColumnId; 8]>,
    mask: ColumnMask,
}

impl<'r> Asked<'r> {
    fn new(range: &'r Range, table: &'r Table, columns: &[ColumnId]) -> Asked<'r> {
        let key_columns = index_columns(table, range.index);
        let wanted: SmallVec<[ColumnId; 8]> = columns.iter().chain(&key_columns).copied().collect();
        let mask = match columns.is_empty() {
            true => ColumnMask::ALL,
            false => ColumnMask::of_read(&wanted),
        };
        Asked { range, table, shown: columns.len(), wanted, mask }
    }

    fn entry(&self, key: &Key, values: &[Value]) -> Result<Key, Stop> {
        let key_columns = &self.wanted[self.shown..];
        index_key(self.table, self.range.index, key, |column| {
            let at = key_columns.iter().position(|&c| c == column);
            &values[self.shown + at.expect("key columns are read with the row")]
        })
    }
}

/// The block's rows in a range as a reader sees them, in scan order, and the keys whose stored rows
/// they replace.
struct BlockRows {
    rows: Vec<BlockRow>,
    hidden: FxHashSet<Key>,
}

impl BlockRows {
    fn of(memory: &Memory, reader: Position, asked: &Asked<'_>) -> Result<BlockRows, Trouble> {
        let mut block = BlockRows { rows: Vec::new(), hidden: FxHashSet::default() };
        let in_range = |r: &&Record| {
            r.table == asked.range.table
                && (asked.range.index != 0 || covers(asked.range, r.key.as_bytes()))
                && r.is_written_below(reader)
        };
        for record in memory.records().filter(in_range) {
            block.add(memory, reader, asked, record)?;
        }
        block.rows.sort_unstable_by(|a, b| a.entry.cmp(&b.entry));
        if asked.range.reverse {
            block.rows.reverse();
        }
        Ok(block)
    }

    fn add(
        &mut self,
        memory: &Memory,
        reader: Position,
        asked: &Asked<'_>,
        record: &Record,
    ) -> Result<(), Trouble> {
        let place = match record.slot {
            Some(slot) => Place::Slot(record.table, slot),
            None => Place::Key(record.table, record.key.clone()),
        };
        let (mut values, mut seen) = (vec![Value::Null; asked.wanted.len()], Seen::new());
        let columns = (&*asked.wanted, asked.mask);
        let found = memory.read(&place, reader, columns, &mut values, &mut seen);
        if seen.is_empty() && !matches!(found, Found::Estimate(_)) {
            // Patches of other columns: the stored row will do.
            return Ok(());
        }
        self.hidden.insert(record.key.clone());
        match found {
            Found::Estimate(transaction) => return Err(Trouble::Estimate(transaction)),
            Found::Nothing => {}
            Found::Row(stamp) => {
                let entry = asked.entry(&record.key, &values).map_err(Trouble::Stop)?;
                if covers(asked.range, entry.as_bytes()) {
                    let (key, rests_on) = (record.key.clone(), digest_of(&seen));
                    self.rows.push(BlockRow { entry, key, stamp, rests_on, values });
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.hidden.is_empty()
    }
}

fn digest_of(seen: &Seen) -> Stamp {
    let mixed = seen.iter().fold(0u64, |sum, version| {
        let word = u64::from(version.transaction) << 32 | u64::from(version.incarnation);
        let product = u128::from(sum ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (product as u64) ^ (product >> 64) as u64
    });
    Stamp(mixed)
}

/// Visit the rows below the own writes in scan order.
fn each_below(
    block: &BlockRows,
    asked: &Asked<'_>,
    mut visit: impl FnMut(BelowRow<'_>) -> Result<Flow, Stop>,
) -> Result<Flow, Stop> {
    let Some((low, high)) = byte_bounds(asked.range) else {
        return Ok(Flow::Continue(()));
    };
    let mut left = block.rows.iter().peekable();
    let of_block = |row: &'_ BlockRow,
                    visit: &mut dyn FnMut(BelowRow<'_>) -> Result<Flow, Stop>| {
        let BlockRow { entry, key, stamp, rests_on, values } = row;
        let values = &values[..asked.shown];
        visit(BelowRow { entry, key, stamp: *stamp, rests_on: *rests_on, values })
    };
    let mut outcome = Ok(Flow::Continue(()));
    let mut stored = |key: &[u8], stamp: Stamp, values: &[Value]| -> Result<Flow, Stop> {
        let key = &Key::from(key);
        if block.hidden.contains(key) {
            return Ok(Flow::Continue(()));
        }
        let entry = &asked.entry(key, values)?;
        let is_before = |row: &&BlockRow| match asked.range.reverse {
            true => row.entry > *entry,
            false => row.entry < *entry,
        };
        while let Some(row) = left.next_if(is_before) {
            if of_block(row, &mut visit)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        visit(BelowRow { entry, key, stamp, rests_on: stamp, values: &values[..asked.shown] })
    };
    let mut step = |key: &[u8], stamp: Stamp, values: &[Value]| {
        outcome = stored(key, stamp, values);
        match outcome {
            Ok(Flow::Continue(())) => Flow::Continue(()),
            _ => Flow::Break(()),
        }
    };
    let bounds = (low.as_ref().map(Key::as_bytes), high.as_ref().map(Key::as_bytes));
    let Range { index, reverse, .. } = *asked.range;
    asked.table.scan(index, bounds.0, bounds.1, reverse, LATEST, &asked.wanted, &mut step);
    if !matches!(outcome, Ok(Flow::Continue(()))) {
        return outcome;
    }
    for row in left {
        if of_block(row, &mut visit)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// Whether a range that was read would be read the same again.
pub fn holds(memory: &Memory, reader: Position, read: &RangeRead) -> bool {
    let Some(table) = memory.catalog().table(read.range.table) else {
        return false;
    };
    let asked = Asked::new(&read.range, table, &read.columns);
    let Ok(block) = BlockRows::of(memory, reader, &asked) else {
        return false;
    };
    if !read.changed && block.is_empty() {
        return true;
    }
    let mut digest = RangeDigest::default();
    digest.stopped = read.digest.stopped;
    let is_enough = |digest: &RangeDigest| digest.stopped && digest.rows == read.digest.rows;
    if !is_enough(&digest) {
        let scanned = each_below(&block, &asked, |row| {
            digest.add(row.key.as_bytes(), row.rests_on);
            Ok(if is_enough(&digest) { Flow::Break(()) } else { Flow::Continue(()) })
        });
        if scanned.is_err() {
            return false;
        }
    }
    digest == read.digest
}

/// The part of a range that a scan has passed when it comes to the entry `key`.
fn before(range: &Range, key: Key) -> Range {
    let mut passed = range.clone();
    match range.reverse {
        true => passed.low = Bound::Excluded(key),
        false => passed.high = Bound::Excluded(key),
    }
    passed
}

/// Rows below the own writes and own rows on their way to `visit`.
struct Merge<'a, V> {
    range: &'a Range,
    columns: &'a [ColumnId],
    writes: &'a WriteSet,
    own: std::iter::Peekable<std::vec::IntoIter<(Key, usize)>>,
    own_keys: FxHashSet<Key>,
    own_stamp: Stamp,
    digest: RangeDigest,
    /// Rows that own writes hide.
    passed_over: u64,
    /// Entry of the own row that ended the scan.
    stopped_at: Option<Key>,
    visit: V,
}

impl<V> Merge<'_, V>
where
    V: FnMut(&Key, Stamp, &[Value]) -> Result<Flow, Stop>,
{
    fn below(&mut self, row: BelowRow<'_>) -> Result<Flow, Stop> {
        if self.own_rows_before(Some(row.entry))?.is_break() {
            return Ok(Flow::Break(()));
        }
        self.digest.add(row.key.as_bytes(), row.rests_on);
        if self.own_keys.contains(row.key) {
            self.passed_over += 1;
            return Ok(Flow::Continue(()));
        }
        (self.visit)(row.key, row.stamp, row.values)
    }

    /// Visit the own rows up to an entry (all that are left when there is none). An own row hides
    /// the row with its key, so it may come first.
    fn own_rows_before(&mut self, entry: Option<&Key>) -> Result<Flow, Stop> {
        let reverse = self.range.reverse;
        let is_behind =
            |own: &Key| entry.is_some_and(|entry| if reverse { own < entry } else { own > entry });
        while let Some((entry, at)) = self.own.next_if(|(own, _)| !is_behind(own)) {
            let write = &self.writes.writes()[at];
            let WriteState::Put(row) = &write.state else {
                continue;
            };
            let values: SmallVec<[Value; 8]> =
                self.columns.iter().map(|&c| row[usize::from(c)].clone()).collect();
            let flow = (self.visit)(&write.key, self.own_stamp, &values);
            if !matches!(flow, Ok(Flow::Continue(()))) {
                self.stopped_at = Some(entry);
                return flow;
            }
        }
        Ok(Flow::Continue(()))
    }
}

impl<'m> View<'m> {
    pub(super) fn scan_range<V>(
        &mut self,
        range: &Range,
        columns: &[ColumnId],
        visit: V,
    ) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<Flow, Stop>,
    {
        let table = self.table(range.table)?;
        let touched = self.writes.touches(range.table);
        let own = if touched { self.own_rows(table, range)? } else { Vec::new() };
        let asked = Asked::new(range, table, columns);
        let block = BlockRows::of(self.memory, self.reader(), &asked);
        let block = block.map_err(|trouble| self.trouble(trouble))?;
        let own_writes = self.writes.writes().iter().filter(|w| w.table == range.table);
        let mut merge = Merge {
            range,
            columns,
            own: own.into_iter().peekable(),
            own_keys: own_writes.map(|write| write.key.clone()).collect(),
            writes: &self.writes,
            own_stamp: self.own_stamp(),
            digest: RangeDigest::default(),
            passed_over: 0,
            stopped_at: None,
            visit,
        };
        let mut outcome = each_below(&block, &asked, |row| merge.below(row));
        if matches!(outcome, Ok(Flow::Continue(()))) {
            outcome = merge.own_rows_before(None);
        }
        let Merge { mut digest, passed_over, stopped_at, .. } = merge;
        self.passed_over += passed_over;
        let passed = match stopped_at {
            // All rows before this own row, and none behind it.
            Some(own) => before(range, own),
            None => {
                digest.stopped = !matches!(outcome, Ok(Flow::Continue(())));
                range.clone()
            }
        };
        self.log_range(RangeRead::new(passed, columns, digest, !block.is_empty()));
        outcome.map(drop)
    }

    /// Own rows of a range: (index entry, write), in scan order.
    fn own_rows(&mut self, table: &Table, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        let mut rows = match self.writes.writes().len() <= SCANNED_MAX {
            true => self.own_rows_sorted(table, range)?,
            false => self.own_rows_mapped(table, range)?,
        };
        if range.reverse {
            rows.reverse();
        }
        Ok(rows)
    }

    fn own_rows_sorted(&mut self, table: &Table, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        let mut rows = Vec::new();
        for at in 0..self.writes.writes().len() {
            let write = &self.writes.writes()[at];
            let concerns = range.index != 0 || covers(range, write.key.as_bytes());
            if write.table != range.table || !concerns {
                continue;
            }
            self.evaluate(at)?;
            if let Some(entry) = self.own_entry(table, range.index, at)?
                && covers(range, entry.as_bytes())
            {
                rows.push((entry, at));
            }
        }
        rows.sort();
        Ok(rows)
    }

    fn own_rows_mapped(&mut self, table: &Table, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        let count = self.writes.writes().len();
        let (map, stale) = self.writes.own_rows.stale(range.table, range.index, count);
        for at in stale {
            let place = at as usize;
            if self.writes.writes()[place].table != range.table {
                continue;
            }
            match self.own_entry(table, range.index, place) {
                Ok(key) => self.writes.own_rows.set(map, at, key),
                Err(stop) => {
                    // The map has missed the rest.
                    self.writes.own_rows.clear();
                    return Err(stop);
                }
            }
        }
        let Some((low, high)) = byte_bounds(range) else {
            return Ok(Vec::new());
        };
        let rows = self.writes.own_rows.range(map, low, high);
        for (_, at) in &rows {
            self.evaluate(*at)?;
        }
        Ok(rows)
    }

    /// What a write's row is in an index; `None`: there is no row. An entry in the primary index
    /// needs no value, so there commands stay what they are.
    fn own_entry(&mut self, table: &Table, index: IndexId, at: usize) -> Result<Option<Key>, Stop> {
        if index != 0 {
            self.evaluate(at)?;
        }
        let write = &self.writes.writes()[at];
        match &write.state {
            WriteState::Delete => Ok(None),
            WriteState::Commands(_) => Ok(Some(write.key.clone())),
            WriteState::Put(row) => {
                index_key(table, index, &write.key, |column| &row[usize::from(column)]).map(Some)
            }
        }
    }
}
