//! A transaction's own writes, not yet installed.
//!
//! One entry for each record, found by its [`RecordId`]. Small transactions are searched linearly
//! (their ids lie side by side, eight in a cache line); larger ones get a hash table.

use procedure::access::{Command, Row};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::Slot;
use types::{Key, TableId, Value};

use crate::own_rows::OwnRows;

/// A record's identity within one block: its slot, or a hash of its key where no row is visible.
/// Two absent keys may share an id; a comparison of ids alone must take that as "may be the same".
/// All replicas must then see the same two keys as absent, so the slot of a deleted row does not
/// count: one replica may have collected it and another not, and colliding keys are easily made on
/// purpose.
///
/// ```text
/// 63                                      1   0
/// [      slot, or hash of the key: 63     | absent ]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RecordId(pub u64);

impl RecordId {
    pub fn of(slot: Option<Slot>, key: &Key) -> RecordId {
        match slot {
            Some(slot) => RecordId(u64::from(slot.0) << 1),
            None => RecordId(hash(key.as_bytes()) << 1 | 1),
        }
    }

    /// Of the row that was visible.
    pub fn slot(self) -> Option<Slot> {
        (self.0 & 1 == 0).then_some(Slot((self.0 >> 1) as _))
    }
}

/// One of 64 bits, by the highest of a product, to which all of a number's contribute.
#[inline]
fn filter_bit(record: RecordId) -> u64 {
    1 << (record.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut mix = |word| {
        let product = u128::from(state ^ u64::from_be_bytes(word) ^ 0x9e37_79b9_7f4a_7c15)
            * 0xd6e8_feb8_6659_fd93;
        state = (product as u64) ^ (product >> 64) as u64;
    };
    let (whole, rest) = bytes.as_chunks();
    whole.iter().for_each(|word| mix(*word));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        mix(word);
    }
    state
}

/// What will become of a record.
#[derive(Clone, Debug)]
pub enum WriteState {
    /// The row is there and these will be applied to it, in order.
    Commands(SmallVec<[Command; 1]>),
    /// The whole row is known.
    Put(Row),
    Delete,
}

#[derive(Clone, Debug)]
pub struct PendingWrite {
    pub table: TableId,
    pub record: RecordId,
    pub slot: Option<Slot>,
    pub key: Key,
    /// The row was there before this transaction.
    pub existed: bool,
    pub state: WriteState,
}

impl PendingWrite {
    /// The row is there for this transaction's later steps.
    pub fn exists(&self) -> bool {
        !matches!(self.state, WriteState::Delete)
    }

    /// Whether the write makes a row come or go; `update` commands and overwrites do not.
    pub fn changes_existence(&self) -> bool {
        self.existed != self.exists()
    }

    /// Inserted and deleted again by the same transaction: nothing to install.
    pub fn is_void(&self) -> bool {
        !self.existed && !self.exists()
    }
}

/// Positions of writes by record; ids of absent records may collide.
type Places = FxHashMap<(TableId, RecordId), SmallVec<[u32; 1]>>;

/// The writes of one transaction, in the order of their first touch.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    writes: Vec<PendingWrite>,
    /// Of the writes, in their order.
    records: Vec<RecordId>,
    /// The [bits](filter_bit) of the records: most look-ups are of a record that was not written.
    filter: u64,
    index: Option<Places>,
    /// Tables with a write.
    tables: SmallVec<[TableId; 4]>,
    pub(crate) own_rows: OwnRows,
    /// Kept where a statement may be undone alone.
    journal: Option<Box<Journal>>,
    rooms: Rooms,
}

/// Empty, with the room of rows that earlier transactions inserted. A copy has none.
#[derive(Debug, Default)]
struct Rooms {
    kept: Vec<Vec<Value>>,
    /// Which gives way when all are kept, so that none stays that no row fits.
    oldest: usize,
}

impl Clone for Rooms {
    fn clone(&self) -> Rooms {
        Rooms::default()
    }
}

impl Rooms {
    fn keep(&mut self, row: Row) {
        if !(1..=ROOM_COLUMNS_MAX).contains(&row.len()) {
            return;
        }
        let mut room = row.into_vec();
        room.clear();
        if self.kept.len() < ROOMS_MAX {
            self.kept.push(room);
        } else {
            self.kept[self.oldest] = room;
            self.oldest = (self.oldest + 1) % ROOMS_MAX;
        }
    }

    fn take(&mut self, columns: usize) -> Vec<Value> {
        match self.kept.iter().rposition(|room| room.capacity() == columns) {
            Some(place) => self.kept.swap_remove(place),
            None => Vec::with_capacity(columns),
        }
    }
}

/// What a statement makes of the writes before it.
#[derive(Clone, Debug)]
struct Journal {
    /// Writes before it.
    from: usize,
    /// Which of them it changed, and what they were; one may come more than once.
    changed: Vec<(usize, WriteState)>,
}

const LINEAR_MAX: usize = 64;
/// Rooms that are kept, and of how many columns: 64 KiB.
const ROOMS_MAX: usize = 32;
const ROOM_COLUMNS_MAX: usize = 64;

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Another transaction begins; what this one has inserted leaves its room.
    pub fn clear(&mut self) {
        for write in &mut self.writes {
            if let WriteState::Put(row) = &mut write.state {
                self.rooms.keep(std::mem::take(row));
            }
        }
        self.writes.clear();
        self.forget();
    }

    /// Room for a row, of exactly so many values if it was another one's.
    pub fn room(&mut self, columns: usize) -> Vec<Value> {
        self.rooms.take(columns)
    }

    fn forget(&mut self) {
        self.records.clear();
        self.filter = 0;
        self.index = None;
        self.tables.clear();
        self.own_rows.clear();
        self.journal = None;
    }

    /// From now on [`undo_statement`](Self::undo_statement) leads back to here.
    pub fn begin_statement(&mut self) {
        let from = self.writes.len();
        self.journal = Some(Box::new(Journal { from, changed: Vec::new() }));
    }

    pub fn undo_statement(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        for (at, state) in journal.changed.into_iter().rev() {
            self.writes[at].state = state;
        }
        let kept: Vec<_> = self.writes.drain(..).take(journal.from).collect();
        self.forget();
        kept.into_iter().for_each(|write| self.push(write));
        debug_assert_eq!(self.writes.len(), journal.from, "what was before the statement stays");
    }

    /// Positions of the writes that the statement has made or changed.
    pub fn of_statement(&self) -> Vec<usize> {
        let Some(journal) = &self.journal else { return Vec::new() };
        let changed = journal.changed.iter().map(|(at, _)| *at);
        let mut all: Vec<_> = changed.chain(journal.from..self.writes.len()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether there is a write to this table.
    pub fn touches(&self, table: TableId) -> bool {
        self.tables.contains(&table)
    }

    pub fn writes(&self) -> &[PendingWrite] {
        &self.writes
    }

    /// Their keys may be changed only by who looks for none of them any more.
    pub fn writes_mut(&mut self) -> &mut [PendingWrite] {
        &mut self.writes
    }

    pub fn get_mut(&mut self, at: usize) -> &mut PendingWrite {
        self.own_rows.note(at);
        if let Some(journal) = &mut self.journal
            && at < journal.from
        {
            journal.changed.push((at, self.writes[at].state.clone()));
        }
        &mut self.writes[at]
    }

    pub fn take(&mut self) -> Vec<PendingWrite> {
        self.forget();
        // The next transaction will probably write as much.
        let room = Vec::with_capacity(self.writes.len());
        std::mem::replace(&mut self.writes, room)
    }

    /// Takes out the writes to one table, in their order.
    pub fn take_of(&mut self, table: TableId) -> Vec<PendingWrite> {
        match self.touches(table) {
            true => self.take_where(|write| write.table == table),
            false => Vec::new(),
        }
    }

    /// Takes out some of the writes, in their order.
    pub fn take_where(&mut self, is_taken: impl Fn(&PendingWrite) -> bool) -> Vec<PendingWrite> {
        if !self.writes.iter().any(&is_taken) {
            return Vec::new();
        }
        let (taken, kept): (Vec<_>, Vec<_>) = self.take().into_iter().partition(is_taken);
        kept.into_iter().for_each(|write| self.push(write));
        taken
    }

    /// Use the room of an installed write set again.
    pub fn recycle(&mut self, mut writes: Vec<PendingWrite>) {
        writes.clear();
        if self.writes.is_empty() {
            self.writes = writes;
        }
    }

    /// Position of the write to this record.
    #[inline]
    pub fn find(&self, table: TableId, record: RecordId, key: &Key) -> Option<usize> {
        match self.filter & filter_bit(record) {
            0 => None,
            _ => self.find_written(table, record, key),
        }
    }

    fn find_written(&self, table: TableId, record: RecordId, key: &Key) -> Option<usize> {
        let is_it = |w: &PendingWrite| w.record == record && w.table == table && w.key == *key;
        match &self.index {
            None => self
                .records
                .iter()
                .enumerate()
                .filter(|(_, id)| **id == record)
                .map(|(at, _)| at)
                .find(|&at| is_it(&self.writes[at])),
            Some(index) => index
                .get(&(table, record))?
                .iter()
                .map(|&at| at as usize)
                .find(|&at| is_it(&self.writes[at])),
        }
    }

    pub fn push(&mut self, write: PendingWrite) {
        let at = self.writes.len() as u32;
        if let Some(index) = &mut self.index {
            index.entry((write.table, write.record)).or_default().push(at);
        }
        self.own_rows.note(self.writes.len());
        if !self.tables.contains(&write.table) {
            self.tables.push(write.table);
        }
        self.filter |= filter_bit(write.record);
        self.records.push(write.record);
        self.writes.push(write);
        if self.index.is_none() && self.writes.len() > LINEAR_MAX {
            let mut index = Places::default();
            for (at, write) in self.writes.iter().enumerate() {
                index.entry((write.table, write.record)).or_default().push(at as u32);
            }
            self.index = Some(index);
        }
        debug_assert_eq!(self.records.len(), self.writes.len(), "an id of each write");
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    fn write(number: u64, state: WriteState) -> PendingWrite {
        let key = Key::from_int(number as i64);
        let (table, existed) = (TableId(number as u32 % 3), number % 2 == 0);
        let slot = existed.then_some(Slot(number as u32));
        PendingWrite { table, record: RecordId::of(slot, &key), slot, key, existed, state }
    }

    /// Writes one of a hundred keys, or changes what was written there.
    fn work(set: &mut WriteSet, random: &mut Random, steps: u64) {
        for _ in 0..steps {
            let number = random.below(100);
            let state = match random.below(3) {
                0 => WriteState::Delete,
                _ => WriteState::Put([Value::Int(random.below(1000) as i64)].into_iter().collect()),
            };
            let new = write(number, state);
            match set.find(new.table, new.record, &new.key) {
                Some(at) => set.get_mut(at).state = new.state,
                None => set.push(new),
            }
        }
    }

    fn found(set: &WriteSet) -> Vec<String> {
        let shown = |number| {
            let sought = write(number, WriteState::Delete);
            let at = set.find(sought.table, sought.record, &sought.key);
            format!("{at:?} {:?}", at.map(|at| &set.writes()[at]))
        };
        let tables = (0..3).map(|table| set.touches(TableId(table)).to_string());
        (0..100).map(shown).chain(tables).collect()
    }

    #[test]
    fn the_room_of_rows_serves_the_next_transaction() {
        let mut set = WriteSet::default();
        let row = |set: &mut WriteSet, columns: usize| {
            let mut row = set.room(columns);
            assert!(row.is_empty() && row.capacity() >= columns);
            row.resize(columns, Value::text("a text that does not fit into a value"));
            let place = row.as_ptr();
            (place, WriteState::Put(row.into_boxed_slice()))
        };
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for places in [&mut first, &mut second] {
            for (number, columns) in (0..).zip([3, 5, 3, 0, ROOM_COLUMNS_MAX + 1]) {
                let (place, state) = row(&mut set, columns);
                places.push(place);
                set.push(write(number, state));
            }
            set.clear();
        }
        second[..3].sort_unstable();
        first[..3].sort_unstable();
        assert_eq!(first[..3], second[..3]);
        (0..1000).for_each(|number| {
            let (_, state) = row(&mut set, 2);
            set.push(write(number, state));
        });
        set.clear();
        assert_eq!(set.rooms.kept.len(), ROOMS_MAX);
        // Rows of another width drive those out that no row fits.
        for _ in 0..ROOMS_MAX {
            let (_, state) = row(&mut set, 7);
            set.push(write(0, state));
        }
        set.clear();
        assert!(set.rooms.kept.iter().all(|room| room.capacity() == 7));
    }

    #[test]
    fn a_statement_that_is_undone_has_never_been() {
        for seed in 0..200 {
            let random = &mut Random::new(seed);
            let mut set = WriteSet::default();
            let steps = random.below(100);
            work(&mut set, random, steps);
            let before = found(&set);
            set.begin_statement();
            let steps = random.below(100);
            work(&mut set, random, steps);
            let after = found(&set);
            for (number, (before, after)) in before.iter().zip(&after).take(100).enumerate() {
                let sought = write(number as u64, WriteState::Delete);
                let at = set.find(sought.table, sought.record, &sought.key);
                let is_reported = at.is_some_and(|at| set.of_statement().contains(&at));
                assert!(before == after || is_reported, "seed {seed}: {before} {after}");
            }
            set.undo_statement();
            assert_eq!(found(&set), before, "seed {seed}");
            assert!(set.of_statement().is_empty());
        }
    }
}
