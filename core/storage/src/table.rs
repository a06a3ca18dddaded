//! A table: its records and the indexes that lead to them.
//!
//! Point access is `find` (hash index) and then `read`, `update` or `delete` by slot; none of them
//! takes a lock, allocates (but for strings that are not inline in [`Value`]) or calls through a
//! pointer. Index upkeep happens inside the writers:
//!
//! - the hash index and the primary ordered index gain an entry when a key gets a record, and lose
//!   it when the deleted record is collected;
//! - a secondary index gains an entry whenever a row takes on a new value; the entry it leaves
//!   stays, since older snapshots still need it, and is collected like an undo version. A reader
//!   that comes through a secondary entry checks that the version visible to it has the entry's
//!   key.
//!
//! *Invariant.* The current row, unless deleted, and every version that a pin can see have their
//! entries in every index. So an entry that a row left is removed once no such image holds it any
//! more ([`Table::collect`]), a deleted row's last image may be without its entry, and inserting
//! over a deleted row adds the new entries even where they equal the old.
//!
//! # Cost
//!
//! CPU nanoseconds on one core of an EPYC (32 MiB L3), `examples/throughput.rs`, a table of four
//! columns (three `bigint`, one `text`) and 1,000,000 rows; *cached* means 4,000 of them:
//!
//! ```text
//!                                             cached   1,000,000 rows
//! find                                            12              130
//! read an integer by slot                          6
//! find and read an integer                        22              210
//! find and read four columns                      51              400
//! find and update an integer, in blocks           83              430
//!   of 1,000, with net changes and collection
//! update the column of a secondary index                        2,250
//! insert, keys in order / at random                         330 / 800
//! insert, keys in order, one secondary index                      610
//! scan: per row / of ten rows                              25 / 1,150
//! ```
//!
//! A row of these takes 76 bytes, its hash entry 33, its entry in the primary index 16 to 32.
//!
//! A `Table` is immutable but for its contents: DDL makes a new one, which shares records and
//! indexes where they stay the same, and readers of older snapshots keep theirs.

use std::sync::Arc;

use kit::sync::atomic::{AtomicU64, Ordering};
use smallvec::SmallVec;
use types::{ColumnId, Height, IndexId, Key, Result, Stamp, TableId, TableSchema, Value};

use crate::change::Toll;
use crate::entry::{self, EntryColumn};
use crate::hash::{HashIndex, KeyHash};
use crate::header::State;
use crate::heap::View;
use crate::layout::{Cell, Column, IMAGE_WORDS};
use crate::ordered::{Finger, OrderedIndex};
use crate::pins::Readable;
use crate::record::Records;
use crate::slot::{LATEST, Slot, load_words, store_words};
use crate::undo::{Garbage, GarbageKind, Overwritten, UndoArena, UndoSpace};

/// Up to so many columns are picked out of a record one by one; of more, the whole record is taken.
const FEW_COLUMNS: usize = 4;

/// The place of a key in a table's hash index, found.
#[derive(Clone, Copy)]
pub struct Place(KeyHash);

pub struct Table {
    schema: Arc<TableSchema>,
    pub(crate) records: Arc<Records>,
    hash: Arc<HashIndex>,
    primary: Arc<OrderedIndex>,
    /// By `IndexId` minus one; `None` where the index was dropped.
    secondary: Box<[Option<Arc<SecondaryIndex>>]>,
    has_secondary: bool,
}

pub(crate) struct SecondaryIndex {
    pub(crate) columns: Box<[EntryColumn]>,
    pub(crate) entries: OrderedIndex,
}

impl SecondaryIndex {
    fn new(schema: &TableSchema, columns: &[ColumnId]) -> Self {
        let columns = columns.iter().map(|&id| {
            let column = &schema.columns[usize::from(id)];
            let data_type = column.data_type.clone();
            EntryColumn { id, data_type, nullable: column.nullable }
        });
        SecondaryIndex { columns: columns.collect(), entries: OrderedIndex::new() }
    }

    /// Nullability is part of a key's encoding.
    fn encodes_as(&self, schema: &TableSchema, columns: &[ColumnId]) -> bool {
        let wanted = columns.iter().map(|&id| (id, schema.columns[usize::from(id)].nullable));
        wanted.eq(self.columns.iter().map(|c| (c.id, c.nullable)))
    }
}

/// What a table holds, for metrics and planning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableUsage {
    /// Records, deleted ones that are not collected yet included.
    pub records: u64,
    /// Address space of rows plus bytes of long strings.
    pub row_bytes: u64,
    /// Of these, what strings have left for others of their length.
    pub string_free_bytes: u64,
    pub hash_bytes: u64,
    /// Nodes of the ordered indexes.
    pub ordered_bytes: u64,
}

impl Table {
    pub(crate) fn new(
        schema: Arc<TableSchema>,
        protocol_words: usize,
        undo: Arc<UndoSpace>,
        incarnation: u64,
    ) -> Self {
        let records = Records::register(&schema, protocol_words, undo, incarnation);
        Table::over(records, schema)
    }

    /// One that only its maker reads: no block will write to it.
    pub(crate) fn unwritten(
        schema: Arc<TableSchema>,
        protocol_words: usize,
        undo: Arc<UndoSpace>,
    ) -> Self {
        let records = Records::new(&schema, protocol_words, undo, u64::MAX);
        Table::over(Arc::new(records), schema)
    }

    fn over(records: Arc<Records>, schema: Arc<TableSchema>) -> Self {
        let secondary = schema.indexes.iter().map(|index| {
            (!index.dropped).then(|| Arc::new(SecondaryIndex::new(&schema, &index.columns)))
        });
        Table {
            secondary: secondary.collect(),
            has_secondary: schema.indexes.iter().any(|index| !index.dropped),
            records,
            hash: Arc::new(HashIndex::new()),
            primary: Arc::new(OrderedIndex::new()),
            schema,
        }
    }

    /// The same records under a schema with the same columns. Indexes that are new in it, or whose
    /// entries it encodes differently, are built from the rows as they are at a height.
    pub(crate) fn with_schema(
        &self,
        schema: Arc<TableSchema>,
        at: Height,
        toll: Toll<'_>,
    ) -> Result<Self> {
        let mut secondary = Vec::with_capacity(schema.indexes.len());
        for (place, index) in schema.indexes.iter().enumerate() {
            let existing = self.secondary.get(place).cloned().flatten();
            let kept = existing.filter(|old| old.encodes_as(&schema, &index.columns));
            secondary.push(match (index.dropped, kept) {
                (true, _) => None,
                (false, Some(kept)) => Some(kept),
                (false, None) => Some(Arc::new(self.build(&schema, &index.columns, at, toll)?)),
            });
        }
        Ok(Table {
            secondary: secondary.into(),
            has_secondary: schema.indexes.iter().any(|index| !index.dropped),
            records: self.records.clone(),
            hash: self.hash.clone(),
            primary: self.primary.clone(),
            schema,
        })
    }

    /// Whether rows of another schema would be the same words.
    pub(crate) fn stores_as(&self, schema: &TableSchema) -> bool {
        self.records.layout.holds(schema)
    }

    fn build(
        &self,
        schema: &TableSchema,
        columns: &[ColumnId],
        at: Height,
        toll: Toll<'_>,
    ) -> Result<SecondaryIndex> {
        let index = SecondaryIndex::new(schema, columns);
        let mut payload = Vec::new();
        for slot in self.records.slots() {
            if self.records.read(slot, at, |p| load_words(p, &mut payload)).is_some() {
                let entry = self.entry(&index, &payload, &self.records.key(slot));
                toll(entry.as_bytes().len())?;
                index.entries.insert(entry.as_bytes(), slot);
            }
        }
        Ok(index)
    }

    pub fn id(&self) -> TableId {
        self.schema.id
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub fn usage(&self) -> TableUsage {
        let secondary = self.secondary_indexes().map(|(_, index)| &index.entries);
        let ordered = std::iter::once(&*self.primary).chain(secondary);
        TableUsage {
            records: self.records.used_slots(),
            row_bytes: self.records.reserved_bytes(),
            string_free_bytes: self.records.heap.free_bytes(),
            hash_bytes: self.hash.bytes() as u64,
            ordered_bytes: ordered.map(|index| index.bytes() as u64).sum(),
        }
    }

    /// Bytes of records, strings and indexes, without places that wait to be taken again.
    pub(crate) fn used_bytes(&self) -> u64 {
        let usage = self.usage();
        self.records.used_bytes() + usage.hash_bytes + usage.ordered_bytes
    }

    /// Where a look-up of a key will begin.
    #[inline]
    pub fn place(&self, key: &[u8]) -> Place {
        Place(self.hash.hash(key))
    }

    /// The record of a primary key, whether or not a row is visible in it at any height.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<Slot> {
        self.find_at(self.place(key), key)
    }

    /// The same, by a place that `key` has in this table.
    #[inline]
    pub fn find_at(&self, place: Place, key: &[u8]) -> Option<Slot> {
        self.hash.find(place.0, |slot| self.records.has_key(slot, key))
    }

    /// Fetches the place where a look-up will begin.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        self.hash.prefetch(place.0);
    }

    /// Fetches the record where a look-up will probably end; of use some hundred nanoseconds after
    /// [`Table::prefetch`].
    #[inline]
    pub fn prefetch_record(&self, place: Place) {
        if let Some(slot) = self.hash.guess(place.0) {
            self.records.prefetch(slot);
        }
    }

    /// Fetches a record that is known already.
    #[inline]
    pub fn prefetch_slot(&self, slot: Slot) {
        self.records.prefetch(slot);
    }

    /// A record's encoded primary key.
    pub fn key(&self, slot: Slot) -> Key {
        self.records.key(slot)
    }

    /// One of the record's words that belong to the concurrency-control protocol; zero in a new
    /// record, and kept over the deletes and inserts of its key.
    #[inline]
    pub fn protocol_word(&self, slot: Slot, word: usize) -> Option<&AtomicU64> {
        self.records.protocol_word(slot, word)
    }

    /// When the row visible at `at` was last changed; `None` if no row is.
    #[inline]
    pub fn stamp(&self, slot: Slot, at: Height) -> Option<Stamp> {
        match at {
            LATEST => self.records.latest_stamp(slot),
            _ => self.records.read(slot, at, |_| ()),
        }
    }

    /// The given columns of the row visible at `at`, into the first places of `out`.
    #[inline]
    pub fn read(
        &self,
        slot: Slot,
        at: Height,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        debug_assert!(columns.len() <= out.len());
        let layout = &self.records.layout;
        if let [id] = columns {
            let column = layout.column(*id);
            let mut cell = Cell::default();
            let stamp = self.records.read(slot, at, |p| cell = load_cell(column, p))?;
            out[0].set(column.decode(cell, &self.records.heap));
            return Some(stamp);
        }
        if columns.len() <= FEW_COLUMNS {
            let mut cells = [Cell::default(); FEW_COLUMNS];
            let stamp = self.records.read(slot, at, |payload| {
                for (cell, id) in cells.iter_mut().zip(columns) {
                    *cell = load_cell(layout.column(*id), payload);
                }
            })?;
            for ((value, cell), id) in out.iter_mut().zip(cells).zip(columns) {
                value.set(layout.column(*id).decode(cell, &self.records.heap));
            }
            return Some(stamp);
        }
        if layout.payload_words <= IMAGE_WORDS {
            let mut words = [0; IMAGE_WORDS];
            let stamp = self.records.read(slot, at, |payload| {
                for (to, from) in words.iter_mut().zip(payload) {
                    *to = from.load(Ordering::Relaxed);
                }
            })?;
            for (value, id) in out.iter_mut().zip(columns) {
                // The mask spares a look at the array's bounds.
                let load = |place: usize| words[place % IMAGE_WORDS];
                layout.column(*id).decode_into(load, &self.records.heap, value);
            }
            return Some(stamp);
        }
        let mut words = Vec::new();
        let stamp = self.records.read(slot, at, |payload| load_words(payload, &mut words))?;
        for (value, id) in out.iter_mut().zip(columns) {
            let column = layout.column(*id);
            *value = column.decode(column.cell(|i| words[i]), &self.records.heap);
        }
        Some(stamp)
    }

    /// The given columns of the row visible at `at`, each into the place that it has in a row.
    pub fn read_places(
        &self,
        slot: Slot,
        at: Height,
        columns: &[ColumnId],
        row: &mut [Value],
    ) -> Option<Stamp> {
        let Records { layout, heap, .. } = &*self.records;
        let mut cells: SmallVec<[Cell; 8]> = SmallVec::new();
        let stamp = self.records.read(slot, at, |payload| {
            cells.clear();
            cells.extend(columns.iter().map(|id| load_cell(layout.column(*id), payload)));
        })?;
        for (id, cell) in columns.iter().zip(&cells) {
            row[usize::from(*id)].set(layout.column(*id).decode_cell(*cell, heap));
        }
        Some(stamp)
    }

    /// The whole row visible at `at`, in place of what `out` held.
    pub fn read_row(&self, slot: Slot, at: Height, out: &mut Vec<Value>) -> Option<Stamp> {
        let mut words: SmallVec<[u64; IMAGE_WORDS]> = SmallVec::new();
        let stamp = self.records.read(slot, at, |payload| {
            words.clear();
            words.extend(payload.iter().map(|word| word.load(Ordering::Relaxed)));
        })?;
        self.decode_row(&words, out);
        Some(stamp)
    }

    /// The versions of a row that are still there, from the one visible at `at` back: when each
    /// came to be, and the row, `None` where it was deleted then. Versions that lie between
    /// heights which are read may be missing.
    pub fn history(&self, slot: Slot, at: Height) -> Vec<(Stamp, Option<Vec<Value>>)> {
        let decoded = |payload: Vec<u64>| {
            let mut row = Vec::new();
            self.decode_row(&payload, &mut row);
            row
        };
        let images = self.records.history(slot, at, 0).into_iter();
        images.map(|(stamp, payload)| (stamp, payload.map(decoded))).collect()
    }

    pub(crate) fn decode_row(&self, payload: &[u64], out: &mut Vec<Value>) {
        out.clear();
        let columns = self.records.layout.columns.iter();
        out.extend(columns.map(|c| c.decode(c.cell(|i| payload[i]), &self.records.heap)));
    }

    pub(crate) fn encode(&self, row: &[Value], payload: &mut Vec<u64>) {
        debug_assert_eq!(row.len(), self.schema.columns.len());
        payload.clear();
        payload.resize(self.records.layout.payload_words, 0);
        self.records.layout.encode_row(row, &self.records.heap, payload);
    }

    /// Puts a row under a key that has none at present. Checking that is the caller's step, as it
    /// is a read of the transaction; a row that is there nevertheless is overwritten.
    pub fn insert(&self, key: &[u8], row: &[Value], stamp: Stamp, undo: &mut UndoArena) -> Slot {
        let Some(slot) = self.find(key) else { return self.add(key, row, stamp, undo) };
        self.update_row(slot, row, stamp, undo);
        slot
    }

    /// The same for a key that has no record at all: [`Table::find`] has told the caller so.
    pub fn add(&self, key: &[u8], row: &[Value], stamp: Stamp, undo: &mut UndoArena) -> Slot {
        debug_assert!(self.find(key).is_none(), "the key has a record");
        let mut payload = std::mem::take(&mut undo.payload);
        self.encode(row, &mut payload);
        let slot = self.records.create(key, stamp, &payload, undo);
        self.link_near(slot, key, &payload, &mut undo.finger);
        undo.payload = payload;
        slot
    }

    /// Puts a row with the stamp that it already had under a new key of a table that no reader can
    /// see yet.
    pub(crate) fn restore(&self, key: &[u8], row: &[Value], stamp: Stamp) {
        let mut payload = Vec::new();
        self.encode(row, &mut payload);
        let slot = self.records.allocate();
        self.records.fill_new(slot, key, stamp, &payload);
        self.link(slot, key, &payload);
    }

    /// Changes columns of the current row. Columns of the primary key change by `delete` and
    /// `insert`.
    pub fn update(
        &self,
        slot: Slot,
        columns: &[(ColumnId, Value)],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) {
        self.update_each(slot, columns.iter().map(|(id, value)| (*id, value)), stamp, undo);
    }

    /// The same of values that lie elsewhere.
    #[inline]
    pub fn update_each<'v>(
        &self,
        slot: Slot,
        columns: impl Iterator<Item = (ColumnId, &'v Value)> + Clone,
        stamp: Stamp,
        undo: &mut UndoArena,
    ) {
        debug_assert!(columns.clone().all(|(id, _)| !self.schema.primary_key.contains(&id)));
        let Records { layout, heap, .. } = &*self.records;
        if self.has_secondary && self.touches_an_index(columns.clone()) {
            self.note_strings(slot, columns.clone().map(|(id, _)| layout.column(id)), undo);
            let mut payload = std::mem::take(&mut undo.payload);
            self.load_payload(slot, &mut payload);
            for (id, value) in columns {
                let column = layout.column(id);
                column.set(column.encode(value, heap), &mut payload);
            }
            self.overwrite(slot, &payload, stamp, undo);
            undo.payload = payload;
            return;
        }
        self.records.write(slot, stamp, State::Live, undo, |payload, undo| {
            for (id, value) in columns {
                let column = layout.column(id);
                if let Some(view) = column.long_string(payload) {
                    self.note_string(slot, view, undo);
                }
                column.store(column.encode(value, heap), payload);
            }
        });
    }

    /// Replaces the current row by one with the same primary key.
    pub fn update_row(&self, slot: Slot, row: &[Value], stamp: Stamp, undo: &mut UndoArena) {
        let mut payload = std::mem::take(&mut undo.payload);
        self.encode(row, &mut payload);
        self.note_strings(slot, &self.records.layout.strings, undo);
        self.overwrite(slot, &payload, stamp, undo);
        undo.payload = payload;
    }

    /// Notes the long strings of a record's columns, which are about to be overwritten.
    pub(crate) fn note_strings<'a>(
        &self,
        slot: Slot,
        columns: impl IntoIterator<Item = &'a Column>,
        undo: &mut UndoArena,
    ) {
        let Some(payload) = self.records.payload(slot) else { return };
        for view in columns.into_iter().filter_map(|column| column.long_string(payload)) {
            self.note_string(slot, view, undo);
        }
    }

    /// Notes a long string.
    pub(crate) fn note_string(&self, slot: Slot, view: View, undo: &mut UndoArena) {
        let (table, incarnation) = (self.schema.id, self.records.incarnation);
        undo.overwritten.push(Overwritten { table, incarnation, slot, view });
    }

    /// Deletes the current row. Its words stay for the readers of older heights.
    pub fn delete(&self, slot: Slot, stamp: Stamp, undo: &mut UndoArena) {
        self.records.write(slot, stamp, State::Tombstone, undo, |_, _| ());
        undo.garbage.push(self.garbage(slot, GarbageKind::Record));
    }

    /// Whether it has an index beside the primary key's.
    #[inline]
    pub fn has_secondary_indexes(&self) -> bool {
        self.has_secondary
    }

    fn touches_an_index<'v>(
        &self,
        columns: impl Iterator<Item = (ColumnId, &'v Value)> + Clone,
    ) -> bool {
        self.secondary_indexes()
            .flat_map(|(_, index)| &*index.columns)
            .any(|indexed| columns.clone().any(|(id, _)| id == indexed.id))
    }

    /// Writes a whole payload over a record, live or deleted.
    fn overwrite(&self, slot: Slot, payload: &[u64], stamp: Stamp, undo: &mut UndoArena) {
        if self.has_secondary {
            let mut old = Vec::new();
            self.load_payload(slot, &mut old);
            self.move_entries(slot, &old, payload, undo);
        }
        let fill = |words: &[AtomicU64], _: &mut UndoArena| store_words(words, payload);
        self.records.write(slot, stamp, State::Live, undo, fill);
    }

    pub(crate) fn load_payload(&self, slot: Slot, payload: &mut Vec<u64>) {
        if let Some(record) = self.records.record(slot) {
            load_words(&record[self.records.layout.payload..], payload);
        }
    }

    fn move_entries(&self, slot: Slot, old: &[u64], new: &[u64], undo: &mut UndoArena) {
        let key = self.records.key(slot);
        let was_live = self.records.stamp_word(slot).state() == State::Live;
        for (id, index) in self.secondary_indexes() {
            let left = self.entry(index, old, &key);
            let taken = self.entry(index, new, &key);
            // The entry of a deleted row may be gone, or never have been in an index that was
            // built since: the last image is in no version if its own block deleted the row.
            if left != taken || !was_live {
                index.entries.insert(taken.as_bytes(), slot);
            }
            if left != taken {
                let what = GarbageKind::Entry(id, left);
                undo.garbage.push(self.garbage(slot, what));
            }
        }
    }

    /// Leads every index to a new record.
    pub(crate) fn link(&self, slot: Slot, key: &[u8], payload: &[u64]) {
        self.hash.insert(self.hash.hash(key), slot);
        self.primary.insert(key, slot);
        self.link_secondary(slot, key, payload);
    }

    /// The same, of which the keys that one worker adds often come in order.
    fn link_near(&self, slot: Slot, key: &[u8], payload: &[u64], finger: &mut Option<Finger>) {
        self.hash.insert(self.hash.hash(key), slot);
        self.primary.insert_near(finger, key, slot);
        self.link_secondary(slot, key, payload);
    }

    fn link_secondary(&self, slot: Slot, key: &[u8], payload: &[u64]) {
        if !self.has_secondary {
            return;
        }
        let key = Key::from(key);
        for (_, index) in self.secondary_indexes() {
            let entry = self.entry(index, payload, &key);
            index.entries.insert(entry.as_bytes(), slot);
        }
    }

    /// Takes a record out of every index.
    pub(crate) fn unlink(&self, slot: Slot) {
        let key = self.records.key(slot);
        self.hash.remove(self.hash.hash(key.as_bytes()), slot);
        self.primary.remove_of(key.as_bytes(), slot);
        let mut payload = Vec::new();
        self.load_payload(slot, &mut payload);
        for (_, index) in self.secondary_indexes() {
            let entry = self.entry(index, &payload, &key);
            index.entries.remove_of(entry.as_bytes(), slot);
        }
    }

    /// Leads every index to a record by the key that it now has.
    pub(crate) fn link_again(&self, slot: Slot, key: &[u8]) {
        let mut payload = Vec::new();
        self.load_payload(slot, &mut payload);
        self.link(slot, key, &payload);
    }

    pub(crate) fn garbage(&self, slot: Slot, what: GarbageKind) -> Garbage {
        let incarnation = self.records.incarnation;
        Garbage { table: self.schema.id, incarnation, slot, what }
    }

    /// Removes what a block made superfluous, unless a reader sees an image of the record that
    /// needs it; returns the highest such reader. No block is being written.
    pub(crate) fn collect(&self, garbage: &Garbage, readable: &Readable) -> Option<Height> {
        match &garbage.what {
            GarbageKind::Record => self.collect_record(garbage.slot, readable),
            GarbageKind::Entry(id, entry) => {
                let index = self.secondary(*id)?;
                let key = self.records.key(garbage.slot);
                let (mut is_current, mut reader) = (false, None);
                self.records.seen_images(garbage.slot, readable, |seen_by, payload| {
                    let load = |i: usize| payload[i].load(Ordering::Relaxed);
                    let Records { layout, heap, .. } = &*self.records;
                    let columns = &index.columns;
                    if entry::of_payload(columns, layout, heap, load, &key.0) == *entry {
                        is_current |= seen_by.is_none();
                        reader = reader.max(seen_by);
                    }
                });
                // What leaves a current entry behind makes it superfluous once more.
                if reader.is_none() && !is_current {
                    index.entries.remove_of(entry.as_bytes(), garbage.slot);
                }
                reader.filter(|_| !is_current)
            }
            GarbageKind::String(view) => self.collect_string(garbage.slot, *view, readable),
        }
    }

    fn collect_string(&self, slot: Slot, view: View, readable: &Readable) -> Option<Height> {
        let records = &self.records;
        debug_assert!(!records.holds_string(slot, view), "a string that its record has left");
        let mut reader = None;
        records.seen_images(slot, readable, |seen_by, payload| {
            if records.long_strings(payload).any(|own| own == view) {
                reader = reader.max(seen_by);
            }
        });
        if reader.is_none() {
            records.heap.free(view);
        }
        reader
    }

    fn collect_record(&self, slot: Slot, readable: &Readable) -> Option<Height> {
        // Inserted again, or collected already.
        if self.records.stamp_word(slot).state() != State::Tombstone {
            return None;
        }
        let mut reader = None;
        self.records.seen_images(slot, readable, |seen_by, _| reader = reader.max(seen_by));
        if reader.is_some() {
            return reader;
        }
        self.unlink(slot);
        self.records.free(slot);
        None
    }

    pub(crate) fn entry(&self, index: &SecondaryIndex, payload: &[u64], key: &Key) -> Key {
        let Records { layout, heap, .. } = &*self.records;
        entry::of_payload(&index.columns, layout, heap, |i| payload[i], key.as_bytes())
    }

    pub(crate) fn secondary_indexes(&self) -> impl Iterator<Item = (IndexId, &SecondaryIndex)> {
        let numbered = self.secondary.iter().zip(1 as IndexId..);
        numbered.filter_map(|(index, id)| Some((id, index.as_deref()?)))
    }

    pub(crate) fn secondary(&self, id: IndexId) -> Option<&SecondaryIndex> {
        self.secondary.get(usize::from(id).checked_sub(1)?)?.as_deref()
    }

    pub(crate) fn index(&self) -> &HashIndex {
        &self.hash
    }

    /// Leads the secondary indexes to an older image of a record again.
    pub(crate) fn restore_entries(&self, slot: Slot, image: &[u64], undo: &mut UndoArena) {
        if self.has_secondary {
            let mut current = Vec::new();
            self.load_payload(slot, &mut current);
            self.move_entries(slot, &current, image, undo);
        }
    }

    pub(crate) fn primary(&self) -> &OrderedIndex {
        &self.primary
    }
}

#[inline]
pub(crate) fn load_cell(column: &Column, payload: &[AtomicU64]) -> Cell {
    column.cell(|i| payload[i].load(Ordering::Relaxed))
}
