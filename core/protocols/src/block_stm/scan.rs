//! Ranges: rows of the block and stored ones merged in index order, and read again for validation.
//!
//! ```text
//!   stored rows        k1   k3   k5        k9     as they were before the block
//!   rows of the block       k3'       k7          of transactions before this one; they hide k3
//! ```
//!
//! A range rests on the rows that it went over: their keys, their stamps or, for
//! rows of the block, the versions that they were put together from. Validation goes over the range
//! again, as far as the first time, and compares digests; where the block has changed nothing in
//! the range, neither then nor now, it does not even do that.
//!
//! *Cost.* A scan looks at the records that the block has written so far [in its range]
//! (super::in_order), or for another index than the primary key in its table, be it that its first
//! row is enough. How many a block's scans look at is bounded.

use std::ops::ControlFlow;

use concurrency::RangeDigest;
use concurrency::overlay::{byte_bounds, covers, index_columns, index_key};
use procedure::access::Range;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use storage::{LATEST, Table};
use types::{ColumnId, Key, Position, Stamp, Stop, Value};

use super::memory::{ColumnMask, Found, Memory, Place, Record, Seen};

/// What a scan has found.
#[derive(Debug)]
pub struct RangeRead {
    pub range: Range,
    pub columns: SmallVec<[ColumnId; 4]>,
    pub digest: RangeDigest,
    /// The block had changed something there.
    pub changed: bool,
}

/// Why a scan could not go on.
pub enum Trouble {
    Estimate(Position),
    Stop(Stop),
}

type Flow = ControlFlow<()>;

/// A row as a scan shows it.
pub struct Shown<'r> {
    pub key: &'r Key,
    pub stamp: Stamp,
    /// Stands for all that the row was put together from.
    pub rests_on: Stamp,
    /// Of the columns asked for.
    pub values: &'r [Value],
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
pub struct Asked<'r> {
    range: &'r Range,
    table: &'r Table,
    /// How many columns the reader wants; those of the index entry follow in `wanted`.
    shown: usize,
    wanted: SmallVec<[ColumnId; 8]>,
    mask: ColumnMask,
}

impl<'r> Asked<'r> {
    pub fn new(range: &'r Range, table: &'r Table, columns: &[ColumnId]) -> Asked<'r> {
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
pub struct BlockRows {
    rows: Vec<BlockRow>,
    hidden: FxHashSet<Key>,
}

impl BlockRows {
    pub fn of(memory: &Memory, reader: Position, asked: &Asked<'_>) -> Result<BlockRows, Trouble> {
        let mut block = BlockRows { rows: Vec::new(), hidden: FxHashSet::default() };
        let in_range = |r: &&Record| {
            (asked.range.index != 0 || covers(asked.range, r.key.as_bytes()))
                && r.is_written_below(reader)
        };
        let records = memory.records_of(asked.range).ok_or_else(|| {
            Trouble::Stop(Stop::Halt("scans have looked at too many records".to_owned()))
        })?;
        for record in records.into_iter().filter(in_range) {
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

    pub fn is_empty(&self) -> bool {
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

/// Visit the rows of a range in scan order.
pub fn each(
    block: &BlockRows,
    asked: &Asked<'_>,
    mut visit: impl FnMut(Shown<'_>) -> Result<Flow, Stop>,
) -> Result<Flow, Stop> {
    let Some((low, high)) = byte_bounds(asked.range) else {
        return Ok(Flow::Continue(()));
    };
    let mut left = block.rows.iter().peekable();
    let of_block = |row: &'_ BlockRow, visit: &mut dyn FnMut(Shown<'_>) -> Result<Flow, Stop>| {
        let BlockRow { key, stamp, rests_on, values, .. } = row;
        let values = &values[..asked.shown];
        visit(Shown { key, stamp: *stamp, rests_on: *rests_on, values })
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
        visit(Shown { key, stamp, rests_on: stamp, values: &values[..asked.shown] })
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
        let scanned = each(&block, &asked, |row| {
            digest.add(row.key.as_bytes(), row.rests_on);
            Ok(if is_enough(&digest) { Flow::Break(()) } else { Flow::Continue(()) })
        });
        if scanned.is_err() {
            return false;
        }
    }
    digest == read.digest
}
