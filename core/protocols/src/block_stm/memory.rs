//! The multi-version memory of one block: what its transactions wrote, by record and transaction.
//!
//! ```text
//!   record 7 (a row)      T2.0 patch {b}   T5.1 whole row   T9.0 patch {a}?   ? estimate
//!                                          ▲                ▲
//!   T7 reads b ────────────────────────────┘                │
//!   T12 reads a ────────────────────────────────────────────┘ waits for T9
//!   T12 reads b ─── passes over the patch of a, like T7
//! ```
//!
//! A write is a *patch* (values of some columns of a row that is there), a *whole* row, or a
//! *deletion*. A reader goes from the highest version below it downwards until it has all the
//! columns that it wants: at a whole row, a deletion, or the state before the block. A patch of
//! other columns is no conflict.
//!
//! *Finding a record.* A stored record carries its number in the word that storage keeps for the
//! protocol, so that a read of a row which the block does not write costs one look at a word beside
//! the row:
//!
//! ```text
//!   63                        26 25                         0
//!   [   height of the block: 38 |  number of the record: 26 ]
//! ```
//!
//! That is the layout of all protocols that use the word, so one with another height is an older
//! block's. Keys without a stored record are found in hash
//! maps. Numbers are dealt out as records are first written, so they depend on timing; nothing
//! that leaves the block does.
//!
//! *Locks.* A record's versions are behind a lock of their own, held for a look at a few words. The
//! creation of records is behind shard locks, so no record has two numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use procedure::access::{Range, Row};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use storage::{Catalog, LATEST, Slot, Table};
use types::{ColumnId, Height, Key, Stamp, TableId, Value};

use super::in_order::{InOrder, Looks};
use super::mutant::Mutant;
use super::scheduler::Version;

/// Where a row is or would be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// A stored record, whether or not a row is visible in it.
    Slot(TableId, Slot),
    Key(TableId, Key),
}

impl Place {
    pub fn of(table: &Table, key: &Key) -> Place {
        match table.find(key.as_bytes()) {
            Some(slot) => Place::Slot(table.id(), slot),
            None => Place::Key(table.id(), key.clone()),
        }
    }

    pub fn table(&self) -> TableId {
        match self {
            Place::Slot(table, _) | Place::Key(table, _) => *table,
        }
    }

    pub fn slot(&self) -> Option<Slot> {
        match self {
            Place::Slot(_, slot) => Some(*slot),
            Place::Key(..) => None,
        }
    }
}

/// Some columns of a table; those from the 64th on share a bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnMask(u64);

const SHARED: u64 = 1 << 63;

impl ColumnMask {
    /// Any change of the row, and when it was.
    pub const ALL: ColumnMask = ColumnMask(u64::MAX);

    /// A read of no column asks for the row's stamp, which every change moves.
    pub fn of_read(columns: &[ColumnId]) -> ColumnMask {
        if columns.is_empty() { ColumnMask::ALL } else { ColumnMask::of(columns.iter()) }
    }

    fn of<'c>(columns: impl Iterator<Item = &'c ColumnId>) -> ColumnMask {
        ColumnMask(columns.fold(0, |mask, &column| mask | 1 << column.min(63)))
    }

    fn meets(self, other: ColumnMask) -> bool {
        self.0 & other.0 != 0
    }

    /// What is still wanted after a patch.
    fn without(self, patch: ColumnMask) -> ColumnMask {
        ColumnMask(self.0 & (!patch.0 | SHARED))
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    Patch(ColumnMask, SmallVec<[(ColumnId, Value); 1]>),
    Whole(Row),
    Delete,
}

impl Change {
    pub fn patch(columns: SmallVec<[(ColumnId, Value); 1]>) -> Change {
        Change::Patch(ColumnMask::of(columns.iter().map(|(column, _)| column)), columns)
    }

    /// What a reader can tell without a look at the values.
    fn is_like(&self, other: &Change) -> bool {
        match (self, other) {
            (Change::Patch(a, _), Change::Patch(b, _)) => a == b,
            (Change::Whole(_), Change::Whole(_)) | (Change::Delete, Change::Delete) => true,
            _ => false,
        }
    }

    fn makes_row(&self) -> bool {
        !matches!(self, Change::Delete)
    }
}

/// A write of an execution that came to its end.
pub struct Written {
    pub place: Place,
    pub key: Key,
    pub change: Change,
}

struct Entry {
    version: Version,
    /// Its transaction was aborted; it will probably write here again.
    estimate: bool,
    change: Change,
}

pub struct Record {
    pub table: TableId,
    pub slot: Option<Slot>,
    pub key: Key,
    /// By transaction, ascending.
    versions: Mutex<SmallVec<[Entry; 1]>>,
}

/// Versions that a read rests on, newest first.
pub type Seen = SmallVec<[Version; 1]>;

/// What a read found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    Row(Stamp),
    Nothing,
    /// It has to wait for this transaction.
    Estimate(u32),
}

const SHARDS: usize = 32;

/// Records of the first segment; each further one has twice as many.
const SEGMENT_RECORDS: u32 = 1024;
const SEGMENTS: usize = 16;

const NUMBER_BITS: u32 = 26;
const _: () = assert!(storage::HEIGHT_MAX.leading_zeros() == NUMBER_BITS);
const _: () = assert!((SEGMENT_RECORDS as u64) << SEGMENTS <= 1 << NUMBER_BITS);

type Segment = Box<[OnceLock<Record>]>;

pub struct Memory {
    catalog: Arc<Catalog>,
    height: Height,
    segments: [OnceLock<Segment>; SEGMENTS],
    count: AtomicU32,
    shards: [Mutex<FxHashMap<(TableId, Key), u32>>; SHARDS],
    in_order: InOrder,
    pub looks: Looks,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The segment of a record, and its place there.
fn segment_of(number: u32) -> (usize, usize) {
    let round = number / SEGMENT_RECORDS + 1;
    let segment = round.ilog2();
    let first = SEGMENT_RECORDS * ((1 << segment) - 1);
    (segment as usize, (number - first) as usize)
}

/// Room for records that a block has left behind: getting pages from the system and clearing them
/// would take a tenth of a short block's time.
#[derive(Default)]
pub struct Room(Vec<Segment>);

/// Segments that are kept between blocks.
const SEGMENTS_KEPT: usize = 4;

impl Memory {
    /// For a block of so many transactions.
    pub fn new(catalog: Arc<Catalog>, height: Height, transactions: usize, room: Room) -> Memory {
        let mut room = room.0.into_iter();
        Memory {
            catalog,
            height,
            segments: std::array::from_fn(|_| room.next().map_or_else(OnceLock::new, Into::into)),
            count: AtomicU32::new(0),
            shards: std::array::from_fn(|_| Mutex::default()),
            in_order: InOrder::default(),
            looks: Looks::of(transactions),
        }
    }

    pub fn into_room(self) -> Room {
        let segments = self.segments.into_iter().map_while(OnceLock::into_inner);
        let mut kept: Vec<Segment> = segments.take(SEGMENTS_KEPT).collect();
        let mut left = self.count.into_inner() as usize;
        for segment in &mut kept {
            let used = left.min(segment.len());
            segment[..used].iter_mut().for_each(|record| drop(record.take()));
            left -= used;
        }
        Room(kept)
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub fn record(&self, number: u32) -> Option<&Record> {
        let (segment, place) = segment_of(number);
        self.segments.get(segment)?.get()?.get(place)?.get()
    }

    /// Those of the records written so far that may lie in a range. `None`: the block's scans have
    /// looked at too many.
    pub fn records_of(&self, range: &Range) -> Option<Vec<&Record>> {
        let record = |number| self.record(number).map(|record| (record.table, &record.key));
        let numbers = self.in_order.numbers_of(record, || self.count(), range, &self.looks)?;
        Some(numbers.into_iter().filter_map(|number| self.record(number)).collect())
    }

    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Records with these numbers.
    pub fn records_in(&self, numbers: std::ops::Range<u32>) -> impl Iterator<Item = &Record> {
        numbers.filter_map(|number| self.record(number))
    }

    fn by_word(&self, table: TableId, slot: Slot) -> Option<&Record> {
        let word = self.catalog.table(table)?.protocol_word(slot, 0)?.load(Ordering::Acquire);
        if word >> NUMBER_BITS != self.height {
            return None;
        }
        self.record((word & ((1 << NUMBER_BITS) - 1)) as u32)
    }

    /// The record at a place, if the block has written it.
    pub fn find(&self, place: &Place) -> Option<&Record> {
        match place {
            Place::Slot(table, slot) => self.by_word(*table, *slot),
            Place::Key(table, key) => {
                let number = lock(self.shard(key)).get(&(*table, key.clone())).copied()?;
                self.record(number)
            }
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<FxHashMap<(TableId, Key), u32>> {
        // Keys differ at their ends.
        let end = key.as_bytes().iter().rev().take(8);
        let mixed = end
            .fold(0u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        &self.shards[(mixed >> 32) as usize % SHARDS]
    }

    fn find_or_create(&self, place: &Place, key: &Key) -> Option<&Record> {
        if let Place::Slot(table, slot) = place {
            if let Some(record) = self.by_word(*table, *slot) {
                return Some(record);
            }
            let word = self.catalog.table(*table)?.protocol_word(*slot, 0)?;
            let _creating = lock(self.shard(key));
            if self.by_word(*table, *slot).is_none() {
                let number = self.create(*table, Some(*slot), key)?;
                word.store(self.height << NUMBER_BITS | u64::from(number), Ordering::Release);
            }
            return self.by_word(*table, *slot);
        }
        let mut numbers = lock(self.shard(key));
        let number = match numbers.get(&(place.table(), key.clone())) {
            Some(&number) => number,
            None => {
                let number = self.create(place.table(), None, key)?;
                numbers.insert((place.table(), key.clone()), number);
                number
            }
        };
        self.record(number)
    }

    fn create(&self, table: TableId, slot: Option<Slot>, key: &Key) -> Option<u32> {
        let number = self.count.fetch_add(1, Ordering::AcqRel);
        let (segment, place) = segment_of(number);
        let length = (SEGMENT_RECORDS << segment) as usize;
        let segment = self.segments.get(segment)?;
        let segment =
            segment.get_or_init(|| std::iter::repeat_with(OnceLock::new).take(length).collect());
        let record = Record { table, slot, key: key.clone(), versions: Mutex::default() };
        segment[place].set(record).is_ok().then_some(number)
    }

    /// Put the writes of an incarnation in the place of those of the last one, `before`. Returns
    /// whether there is a place that changed in more than its values. `Err`: halt.
    pub fn write(
        &self,
        version: Version,
        before: &[Place],
        writes: Vec<Written>,
        mutant: Option<Mutant>,
    ) -> Result<bool, String> {
        let mut moved = false;
        if !before.is_empty() {
            let kept: FxHashSet<&Place> = writes.iter().map(|write| &write.place).collect();
            for place in before.iter().filter(|place| !kept.contains(place)) {
                moved = true;
                if let Some(record) = self.find(place) {
                    record.take_back(version.transaction, mutant == Some(Mutant::OldWritesStay));
                }
            }
        }
        for Written { place, key, change } in writes {
            let record = self.find_or_create(&place, &key);
            moved |=
                record.ok_or("a block wrote more records than have numbers")?.put(version, change);
        }
        Ok(moved)
    }

    /// The writes of an aborted transaction become estimates.
    pub fn expect_again(&self, transaction: u32, written: &[Place]) {
        for record in written.iter().filter_map(|place| self.find(place)) {
            let mut versions = lock(&record.versions);
            if let Ok(at) = versions.binary_search_by_key(&transaction, |w| w.version.transaction) {
                versions[at].estimate = true;
            }
        }
    }

    /// Read columns as `reader` sees them, and remember on what that rests.
    pub fn read(
        &self,
        place: &Place,
        reader: u32,
        (columns, mask): (&[ColumnId], ColumnMask),
        out: &mut [Value],
        seen: &mut Seen,
    ) -> Found {
        let base = |columns: &[ColumnId], out: &mut [Value]| {
            let table = self.catalog.table(place.table())?;
            table.read(place.slot()?, LATEST, columns, out)
        };
        let below = match self.find(place) {
            Some(record) => record.read(reader, (columns, mask), out, seen, self.height),
            None => Below::Rest { top: None, missing: None },
        };
        match below {
            Below::End(found) => found,
            Below::Rest { top, missing: None } => match base(columns, out) {
                Some(stamp) => Found::Row(top.unwrap_or(stamp)),
                None => Found::Nothing,
            },
            Below::Rest { top, missing: Some(missing) } => {
                let ids: SmallVec<[ColumnId; 16]> = missing.iter().map(|&at| columns[at]).collect();
                let mut values: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, ids.len());
                let Some(stamp) = base(&ids, &mut values) else {
                    return Found::Nothing;
                };
                for (at, value) in missing.into_iter().zip(values) {
                    out[at] = value;
                }
                Found::Row(top.unwrap_or(stamp))
            }
        }
    }

    /// Whether what was `seen` would be seen again.
    pub fn is_unchanged(&self, place: &Place, reader: u32, mask: ColumnMask, seen: &Seen) -> bool {
        match self.find(place) {
            Some(record) => record.is_unchanged(reader, mask, seen),
            None => seen.is_empty(),
        }
    }

    /// When the row that `reader` finds was last changed. That there is one counts even if it is an
    /// estimate: a write that makes something else of it makes later readers be validated again.
    pub fn stamp(&self, place: &Place, reader: u32) -> Option<Stamp> {
        if let Some(top) = self.find(place).and_then(|record| record.top(reader)) {
            return top.map(|transaction| Stamp::new(self.height, transaction));
        }
        self.catalog.table(place.table())?.stamp(place.slot()?, LATEST)
    }
}

/// What the versions of a record say about a read.
enum Below {
    End(Found),
    /// The state before the block says the rest: of all columns, or of those at these places.
    Rest {
        top: Option<Stamp>,
        missing: Option<SmallVec<[usize; 16]>>,
    },
}

impl Record {
    /// Versions below a reader, newest first.
    fn below(versions: &[Entry], reader: u32) -> impl Iterator<Item = &Entry> {
        let end = versions.partition_point(|w| w.version.transaction < reader);
        versions[..end].iter().rev()
    }

    /// Whether there is a version that `reader` may see.
    pub fn is_written_below(&self, reader: u32) -> bool {
        Record::below(&lock(&self.versions), reader).next().is_some()
    }

    /// The transaction that wrote what `reader` finds, if it left a row.
    fn top(&self, reader: u32) -> Option<Option<u32>> {
        let versions = lock(&self.versions);
        let written = Record::below(&versions, reader).next()?;
        Some(written.change.makes_row().then_some(written.version.transaction))
    }

    fn read(
        &self,
        reader: u32,
        (columns, mut wanted): (&[ColumnId], ColumnMask),
        out: &mut [Value],
        seen: &mut Seen,
        height: Height,
    ) -> Below {
        let versions = lock(&self.versions);
        let mut top = None;
        let mut missing: Option<SmallVec<[usize; 16]>> = None;
        for written in Record::below(&versions, reader) {
            let Entry { version, estimate, change } = written;
            let stamp = *top.get_or_insert(Stamp::new(height, version.transaction));
            if matches!(change, Change::Patch(mask, _) if !mask.meets(wanted)) {
                continue;
            }
            if *estimate {
                return Below::End(Found::Estimate(version.transaction));
            }
            seen.push(*version);
            let missing = missing.get_or_insert_with(|| (0..columns.len()).collect());
            match change {
                Change::Delete => return Below::End(Found::Nothing),
                Change::Whole(row) => {
                    for &at in missing.iter() {
                        out[at] = row[usize::from(columns[at])].clone();
                    }
                    return Below::End(Found::Row(stamp));
                }
                Change::Patch(mask, values) => {
                    missing.retain(|at| {
                        let value = values.iter().find(|(column, _)| *column == columns[*at]);
                        value.map(|(_, value)| out[*at] = value.clone()).is_none()
                    });
                    wanted = wanted.without(*mask);
                    if wanted == ColumnMask(0) {
                        return Below::End(Found::Row(stamp));
                    }
                }
            }
        }
        Below::Rest { top, missing }
    }

    /// Goes the way of [`Record::read`] and compares the versions.
    fn is_unchanged(&self, reader: u32, mut wanted: ColumnMask, seen: &Seen) -> bool {
        let versions = lock(&self.versions);
        let mut seen = seen.iter();
        for written in Record::below(&versions, reader) {
            if matches!(written.change, Change::Patch(mask, _) if !mask.meets(wanted)) {
                continue;
            }
            if written.estimate || seen.next() != Some(&written.version) {
                return false;
            }
            match written.change {
                Change::Patch(mask, _) => wanted = wanted.without(mask),
                Change::Whole(_) | Change::Delete => break,
            }
            if wanted == ColumnMask(0) {
                break;
            }
        }
        seen.next().is_none()
    }

    /// Returns whether there is more than other values.
    fn put(&self, version: Version, change: Change) -> bool {
        let mut versions = lock(&self.versions);
        let written = Entry { version, estimate: false, change };
        match versions.binary_search_by_key(&version.transaction, |w| w.version.transaction) {
            Ok(at) => {
                let moved = !versions[at].change.is_like(&written.change);
                versions[at] = written;
                moved
            }
            Err(at) => {
                versions.insert(at, written);
                true
            }
        }
    }

    /// The last incarnation wrote here, and this one does not.
    fn take_back(&self, transaction: u32, stays: bool) {
        let mut versions = lock(&self.versions);
        versions.retain(|w| stays || w.version.transaction != transaction);
        let own = versions.iter_mut().filter(|w| w.version.transaction == transaction);
        own.for_each(|written| written.estimate = false);
    }

    /// The record's changes in the order of the block, each with its transaction; they are gone
    /// afterwards.
    pub fn take_changes(&self) -> impl Iterator<Item = (u32, Change)> {
        let versions = std::mem::take(&mut *lock(&self.versions));
        versions.into_iter().map(|written| (written.version.transaction, written.change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_one_another_without_a_gap() {
        let mut expected = (0, 0);
        for number in 0..SEGMENT_RECORDS * 15 {
            assert_eq!(segment_of(number), expected);
            expected.1 += 1;
            if expected.1 == (SEGMENT_RECORDS as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }
}
