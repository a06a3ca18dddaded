//! A table of the study: heads, indexes, and a version storage after one `match` per access.
//!
//! Below that `match` everything is generic over the storage, so no chain is walked through a
//! virtual call; above it a table is a table.
//!
//! **Finding.** A hash index leads from the primary key to the tuple's number, an ordered one does
//! so for ranges; both stand as long as the tuple. Entries of secondary indexes lead to the tuple,
//! to its primary key or to one version ([`Pointers`]); they may be false positives, never false
//! negatives: an entry stays as long as some version has its columns.
//!
//! **Going**: see `reclaim`.
//!
//! Locking out each other: those who create tuples of one key, by one of a few mutexes; those who
//! change a chain, by its latch; a collector and a writer who published entries, by the lock word.

use std::collections::VecDeque;
use std::sync::Arc;

use kit::sync::atomic::Ordering;
use kit::sync::{self, Mutex as Gate, MutexGuard};
use parking_lot::Mutex;
use storage::parts::{HashIndex, OrderedIndex, Words};
use storage::{KeyHash, Slot};
use types::key::{decode_column, encode_column};
use types::{ColumnId, DataType, Error, IndexId, Key, Stamp, Stop, TableSchema, Value};

use crate::chains::append::{Append, NewestFirst, OldestFirst};
use crate::chains::delta::Delta;
use crate::chains::time_travel::TimeTravel;
use crate::chains::{Chains, Head, KEY, Latched, Mark, NewVersion, RowAt, Seen};
use crate::clock::Timestamp;
use crate::gaps::Gaps;
use crate::layout::{ColumnSet, Layout, Strings};
use crate::pool::{Full, Unit};
use crate::spec::{Pointers, Storage, TableSpec};

enum Store {
    NewestFirst(Append<NewestFirst>),
    OldestFirst(Append<OldestFirst>),
    TimeTravel(TimeTravel),
    Delta(Delta),
}

/// The one place where a table's storage is chosen: what follows is compiled for each.
macro_rules! with_chains {
    ($store:expr, $chains:ident => $body:expr) => {
        match $store {
            Store::NewestFirst($chains) => $body,
            Store::OldestFirst($chains) => $body,
            Store::TimeTravel($chains) => $body,
            Store::Delta($chains) => $body,
        }
    };
}

// After the macro, which it uses.
mod reclaim;

/// A lock word that no transaction has: the tuple is about to be dead, or is.
pub const DEAD_LOCK: u64 = u64::MAX;

const STRIPES: usize = 64;
const FIRST_HEADS_LOG2: u32 = if cfg!(shuttle) { 2 } else { 10 };

pub struct Table {
    pub schema: Arc<TableSchema>,
    pub layout: Layout,
    pub spec: TableSpec,
    pub gaps: Gaps,
    store: Store,
    heads: Words,
    numbers: Mutex<Numbers>,
    /// Words of a key, if every key has as many; otherwise keys are strings.
    key_words: Option<usize>,
    primary: HashIndex,
    ordered: Box<[OrderedIndex]>,
    creating: Box<[Gate<()>]>,
    /// A bit for each block of 64 heads that a collector should visit.
    dirty: Words,
}

#[derive(Default)]
struct Numbers {
    next: u32,
    /// Dead tuples; what was active when one died reads at or below its timestamp.
    buried: VecDeque<(Timestamp, u32)>,
}

/// What [`Table::create`] found.
pub enum Created {
    New(u32),
    Exists(u32),
}

pub use reclaim::Pruned;

type Entries = Vec<(IndexId, Key, Option<Unit>)>;

impl Table {
    pub fn new(schema: Arc<TableSchema>, spec: TableSpec) -> Table {
        let strings = Strings::new(spec.spaces, spec.shared_strings);
        let layout = Layout::new(&schema, strings);
        let store = match spec.storage {
            Storage::NewestFirst => Store::NewestFirst(Append::new(&layout, spec.spaces)),
            Storage::OldestFirst => Store::OldestFirst(Append::new(&layout, spec.spaces)),
            Storage::TimeTravel => Store::TimeTravel(TimeTravel::new(&layout, spec.spaces)),
            Storage::Delta => Store::Delta(Delta::new(spec.spaces)),
        };
        let key_words = key_words(&schema);
        let row_words = with_chains!(&store, chains => row_words(chains, &layout));
        let stride = KEY + key_words.unwrap_or(2) + row_words;
        let indexes = 1 + schema.indexes.len();
        Table {
            gaps: Gaps::new(indexes),
            heads: Words::new(stride, FIRST_HEADS_LOG2),
            numbers: Mutex::default(),
            primary: HashIndex::new(),
            ordered: (0..indexes).map(|_| OrderedIndex::new()).collect(),
            creating: (0..STRIPES).map(|_| Gate::new(())).collect(),
            dirty: Words::new(1, 8),
            schema,
            layout,
            spec,
            store,
            key_words,
        }
    }

    #[inline]
    pub fn head(&self, tuple: u32) -> Head<'_> {
        Head(self.heads.unit(u64::from(tuple)).expect("a tuple's number is of a head"))
    }

    #[inline]
    pub fn find(&self, key: &Key) -> Option<u32> {
        let bytes = key.as_bytes();
        let hash = self.primary.hash(bytes);
        self.primary.find(hash, |slot| self.is_key(slot.0, bytes)).map(|slot| slot.0)
    }

    // Fetching in three steps, each of which waits for the one before: see module `prefetching`.

    pub fn place(&self, key: &Key) -> KeyHash {
        let place = self.primary.hash(key.as_bytes());
        self.primary.prefetch(place);
        place
    }

    pub fn fetch_head(&self, place: KeyHash) {
        if let Some(slot) = self.primary.guess(place) {
            self.heads.prefetch(u64::from(slot.0));
        }
    }

    pub fn fetch_version(&self, place: KeyHash) {
        if let Some(slot) = self.primary.guess(place)
            && let Some(words) = self.heads.unit(u64::from(slot.0))
        {
            with_chains!(&self.store, chains => chains.prefetch(Head(words)));
        }
    }

    #[inline]
    fn is_key(&self, tuple: u32, key: &[u8]) -> bool {
        let Some(words) = self.heads.unit(u64::from(tuple)) else { return false };
        let load = |at: usize| words[KEY + at].load(Ordering::Relaxed);
        match self.key_words {
            Some(count) => {
                let (chunks, rest) = key.as_chunks::<8>();
                let all = chunks.len() == count && rest.is_empty();
                all && chunks.iter().enumerate().all(|(i, c)| load(i) == u64::from_be_bytes(*c))
            }
            None => self.layout.strings.with_bytes([load(0), load(1)], |bytes| bytes == key),
        }
    }

    pub fn key(&self, tuple: u32) -> Key {
        let words = self.head(tuple).0;
        let load = |at: usize| words[KEY + at].load(Ordering::Relaxed);
        match self.key_words {
            Some(count) => {
                let mut key = Key::default();
                (0..count).for_each(|i| key.0.extend_from_slice(&load(i).to_be_bytes()));
                key
            }
            None => self.layout.strings.with_bytes([load(0), load(1)], |bytes| Key::from(bytes)),
        }
    }

    /// A tuple for a key, locked by `lock` and without a row if it is new.
    pub fn create(
        &self,
        key: &Key,
        lock: u64,
        worker: usize,
        horizon: Timestamp,
    ) -> Result<Created, Full> {
        let hash = self.primary.hash(key.as_bytes());
        let _alone = self.creating(hash);
        if let Some(tuple) = self.find(key) {
            return Ok(Created::Exists(tuple));
        }
        let tuple = self.number(horizon);
        let head = self.head(tuple);
        let store = |at: usize, word: u64| head.0[KEY + at].store(word, Ordering::Relaxed);
        match self.key_words {
            Some(_) => {
                let (chunks, _) = key.as_bytes().as_chunks::<8>();
                chunks.iter().enumerate().for_each(|(i, c)| store(i, u64::from_be_bytes(*c)));
            }
            None => {
                let view = self.layout.strings.store(key.as_bytes(), worker)?;
                view.into_iter().enumerate().for_each(|(i, word)| store(i, word));
            }
        }
        head.reset(lock);
        self.primary.insert(hash, Slot(tuple));
        self.ordered[0].insert(key.as_bytes(), Slot(tuple));
        Ok(Created::New(tuple))
    }

    /// A row that is there from the beginning.
    pub fn load(&self, key: &Key, row: &[Value], stamp: Stamp) -> Result<(), Stop> {
        let Created::New(tuple) = self.create(key, 0, 0, Timestamp::ZERO)? else { return Ok(()) };
        let (mut image, mut changed) = (vec![0; self.layout.words], ColumnSet::default());
        for (column, value) in row.iter().enumerate() {
            let column = column as ColumnId;
            self.layout.set(column, self.layout.encode(column, value, 0)?, &mut image);
            changed.insert(column);
        }
        let new = NewVersion {
            tuple,
            image: Some(&image),
            changed: &changed,
            base: None,
            at: Timestamp::ZERO,
            order: Timestamp::ZERO,
            stamp,
        };
        let prepared = self.prepare(&new, 0)?;
        self.publish(&new, None, prepared, &mut Vec::new())?;
        Ok(self.install(&new, prepared, 0)?)
    }

    /// Excludes others who create or bury tuples of a key.
    fn creating(&self, hash: KeyHash) -> MutexGuard<'_, ()> {
        sync::lock(&self.creating[hash.number() as usize % STRIPES])
    }

    fn number(&self, horizon: Timestamp) -> u32 {
        let mut numbers = self.numbers.lock();
        if let Some(&(since, tuple)) = numbers.buried.front()
            && since < horizon
        {
            numbers.buried.pop_front();
            self.release_key(tuple);
            return tuple;
        }
        let tuple = numbers.next;
        numbers.next += 1;
        self.heads.ensure(u64::from(tuple));
        self.dirty.ensure(u64::from(tuple >> 12));
        tuple
    }

    fn release_key(&self, tuple: u32) {
        if self.key_words.is_none() {
            let words = self.head(tuple).0;
            let load = |at: usize| words[KEY + at].load(Ordering::Relaxed);
            self.layout.strings.release([load(0), load(1)]);
        }
    }

    /// The version at a time; `hint` is one that an index led to.
    #[inline]
    pub fn visible<'a>(
        &'a self,
        tuple: u32,
        hint: Option<Unit>,
        at: Timestamp,
        copy: &mut Vec<u64>,
    ) -> Seen<'a> {
        if let Some(unit) = hint
            && let Some(seen) = self.visible_at(unit, tuple, at)
        {
            return seen;
        }
        let head = self.head(tuple);
        with_chains!(&self.store, chains => chains.visible(&self.layout, head, tuple, at, copy))
    }

    fn visible_at(&self, unit: Unit, tuple: u32, at: Timestamp) -> Option<Seen<'_>> {
        match &self.store {
            Store::NewestFirst(chains) => chains.visible_at(unit, tuple, at),
            Store::OldestFirst(chains) => chains.visible_at(unit, tuple, at),
            _ => None,
        }
    }

    /// The newest committed version.
    pub fn newest(&self, tuple: u32, copy: &mut Vec<u64>) -> Seen<'_> {
        self.visible(tuple, None, Timestamp(Timestamp::INFINITY.0 - 1), copy)
    }

    /// The tuple that an entry of an index leads to, and the version if it names one.
    pub fn follow(&self, index: IndexId, entry: &Key, slot: Slot) -> Option<(u32, Option<Unit>)> {
        match self.spec.pointers {
            _ if index == 0 => Some((slot.0, None)),
            Pointers::TupleId => Some((slot.0, None)),
            Pointers::PrimaryKey => {
                let primary = self.primary_key_of(index, entry)?;
                Some((self.find(&primary)?, None))
            }
            Pointers::Physical => {
                let unit = Unit(slot.0);
                let tuple = match &self.store {
                    Store::NewestFirst(chains) => chains.tuple_of(unit),
                    Store::OldestFirst(chains) => chains.tuple_of(unit),
                    _ => return None,
                };
                self.heads.unit(u64::from(tuple))?;
                Some((tuple, Some(unit)))
            }
        }
    }

    /// The primary key at the end of an entry.
    fn primary_key_of(&self, index: IndexId, entry: &Key) -> Option<Key> {
        let mut rest = entry.as_bytes();
        for &column in &self.schema.indexes[usize::from(index) - 1].columns {
            let column = &self.schema.columns[usize::from(column)];
            decode_column(&column.data_type, column.nullable, &mut rest).ok()?;
        }
        Some(Key::from(rest))
    }

    /// The entry of a row in a secondary index, without a physical pointer's number.
    pub fn entry(
        &self,
        index: IndexId,
        primary: &Key,
        value: impl Fn(ColumnId) -> Value,
    ) -> Result<Key, Error> {
        let mut key = Key::default();
        for &column in &self.schema.indexes[usize::from(index) - 1].columns {
            let schema = &self.schema.columns[usize::from(column)];
            let value = value(column);
            let nullable = schema.nullable || value.is_null();
            encode_column(&schema.data_type, nullable, &value, &mut key)?;
        }
        key.0.extend_from_slice(primary.as_bytes());
        Ok(key)
    }

    /// Secondary indexes that are not dropped.
    pub fn secondaries(&self) -> impl Iterator<Item = IndexId> + '_ {
        let indexes = self.schema.indexes.iter().enumerate();
        indexes.filter(|(_, index)| !index.dropped).map(|(at, _)| at as IndexId + 1)
    }

    /// Whether a secondary index has one row at most for each of its values.
    pub fn is_unique(&self, index: IndexId) -> bool {
        let place = usize::from(index).checked_sub(1);
        place.and_then(|place| self.schema.indexes.get(place)).is_some_and(|index| index.unique)
    }

    pub fn has_secondaries(&self) -> bool {
        self.secondaries().next().is_some()
    }

    pub fn ordered(&self, index: IndexId) -> &OrderedIndex {
        &self.ordered[usize::from(index)]
    }

    fn add_entry(&self, index: IndexId, entry: &Key, tuple: u32, unit: Option<Unit>) {
        match (self.spec.pointers, unit) {
            (Pointers::Physical, Some(unit)) => {
                let entry = with_unit(entry, unit);
                self.ordered[usize::from(index)].insert(entry.as_bytes(), Slot(unit.0));
            }
            _ => self.ordered[usize::from(index)].insert(entry.as_bytes(), Slot(tuple)),
        }
    }

    /// Makes the entries of a version that is about to be installed, and says which ones are new.
    pub fn publish(
        &self,
        new: &NewVersion<'_>,
        before: Option<&[u64]>,
        prepared: Option<Unit>,
        published: &mut Vec<(IndexId, Key)>,
    ) -> Result<(), Error> {
        let Some(image) = new.image else { return Ok(()) };
        if !self.has_secondaries() {
            return Ok(());
        }
        let primary = self.key(new.tuple);
        let _alone = self.head(new.tuple).latch();
        for index in self.secondaries() {
            let of = |row: &[u64]| {
                self.entry(index, &primary, |column| self.layout.decode(column, |i| row[i]))
            };
            let entry = of(image)?;
            let same = match before {
                Some(before) => of(before)? == entry,
                None => false,
            };
            if !same || self.spec.pointers == Pointers::Physical {
                self.add_entry(index, &entry, new.tuple, prepared);
            }
            if !same {
                published.push((index, entry));
            }
        }
        Ok(())
    }

    /// Takes back the entries of a version that will not be installed.
    pub fn unpublish(&self, new: &NewVersion<'_>, prepared: Option<Unit>) {
        let Some(image) = new.image.filter(|_| self.has_secondaries()) else { return };
        let head = self.head(new.tuple);
        let latched = head.latch();
        let mut ours = Entries::new();
        self.entries_of(new.tuple, prepared, image, &mut ours);
        let kept = self.entries(&latched, new.tuple);
        self.remove_entries(&ours, &kept);
    }

    pub fn prepare(&self, new: &NewVersion<'_>, worker: usize) -> Result<Option<Unit>, Full> {
        with_chains!(&self.store, chains => chains.prepare(&self.layout, new, worker))
    }

    pub fn unprepare(&self, unit: Unit) {
        with_chains!(&self.store, chains => chains.unprepare(&self.layout, unit));
    }

    pub fn install(
        &self,
        new: &NewVersion<'_>,
        prepared: Option<Unit>,
        worker: usize,
    ) -> Result<(), Full> {
        let latched = self.head(new.tuple).latch();
        with_chains!(&self.store, chains => {
            chains.install(&self.layout, &latched, new, prepared, worker)
        })
    }

    /// Gives the newest version another stamp. Not while transactions run.
    pub fn restamp(&self, tuple: u32, stamp: Stamp) {
        let latched = self.head(tuple).latch();
        with_chains!(&self.store, chains => chains.restamp(&latched, tuple, stamp));
    }

    /// Entries of all versions of a tuple.
    fn entries(&self, latched: &Latched<'_>, tuple: u32) -> Entries {
        let mut entries = Entries::new();
        let mut show = |unit: Option<Unit>, mark: Mark, row: &[u64]| {
            if !mark.deleted() {
                self.entries_of(tuple, unit, row, &mut entries);
            }
        };
        with_chains!(&self.store, chains => {
            chains.each(&self.layout, latched, tuple, &mut show);
        });
        entries
    }

    fn entries_of(&self, tuple: u32, unit: Option<Unit>, row: &[u64], out: &mut Entries) {
        let primary = self.key(tuple);
        let physical = self.spec.pointers == Pointers::Physical;
        for index in self.secondaries() {
            let value = |column| self.layout.decode(column, |i| row[i]);
            if let Ok(entry) = self.entry(index, &primary, value) {
                out.push((index, entry, unit.filter(|_| physical)));
            }
        }
    }

    fn remove_entries(&self, old: &Entries, kept: &Entries) {
        for (index, entry, unit) in old.iter().filter(|old| !kept.contains(old)) {
            let ordered = &self.ordered[usize::from(*index)];
            match unit {
                Some(unit) => ordered.remove(with_unit(entry, *unit).as_bytes()),
                None => ordered.remove(entry.as_bytes()),
            }
        }
    }

    /// Whether there is little room left for versions or strings.
    pub fn is_crowded(&self) -> bool {
        self.layout.strings.is_crowded() || with_chains!(&self.store, chains => chains.is_crowded())
    }

    /// Versions that take memory beside the heads.
    pub fn versions(&self) -> usize {
        with_chains!(&self.store, chains => chains.versions())
    }

    /// Bytes of versions and long strings.
    pub fn version_bytes(&self) -> usize {
        self.layout.strings.bytes() + with_chains!(&self.store, chains => chains.bytes())
    }

    /// Tuples with a head that are not dead.
    pub fn tuples(&self) -> Vec<u32> {
        let next = self.numbers.lock().next;
        (0..next).filter(|tuple| !self.head(*tuple).newest().is_dead()).collect()
    }

    /// Values of a row.
    #[inline]
    pub fn decode(&self, column: ColumnId, row: RowAt<'_>, copy: &[u64]) -> Value {
        match row {
            RowAt::Version(words) => {
                self.layout.decode(column, |i| words[i].load(Ordering::Relaxed))
            }
            RowAt::Copied => self.layout.decode(column, |i| copy[i]),
            RowAt::Nowhere => Value::Null,
        }
    }
}

fn row_words<C: Chains>(_: &C, layout: &Layout) -> usize {
    C::row_words_in_head(layout)
}

/// An entry that leads to a version ends with its number, so that each version has its own.
fn with_unit(entry: &Key, unit: Unit) -> Key {
    let mut entry = entry.clone();
    entry.0.extend_from_slice(&unit.0.to_be_bytes());
    entry
}

/// Words of a primary key, if they are always as many.
fn key_words(schema: &TableSchema) -> Option<usize> {
    let mut words = 0;
    for &column in &schema.primary_key {
        let column = &schema.columns[usize::from(column)];
        words += match column.data_type {
            _ if column.nullable => return None,
            DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Date => 1,
            DataType::Timestamp(_) | DataType::Timestamptz(_) | DataType::Float8 => 1,
            DataType::Uuid => 2,
            _ => return None,
        };
    }
    Some(words)
}
