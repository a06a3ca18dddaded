//! The data path of a worker that owns the records that it touches: straight into the store.
//!
//! No workspace, no validation, no lock: what a fragment writes is there at once, under the stamp
//! of its transaction. Two notes are kept, and only while they may be needed:
//!
//! * the *undo log*: the image of a record before each write of a transaction that may still be
//!   rolled back;
//! * the *edges* of speculation: whose tentative write a transaction has read **or overwritten**.
//!   The stamp of a record names its last writer, so nothing else need be stored for that. A scan
//!   does not meet the rows that are gone, so of one its table is noted: it depends on all that
//!   wrote there before it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use procedure::Budget;
use procedure::access::{Access, Command, CommandCode, Range, Row};
use storage::{Catalog, Slot, Table, UndoArena};
use types::{ColumnId, Key, Position, Stamp, Stop, TableId, Value};

use concurrency::Moment;
use concurrency::install::{Patch, brief_values};

use super::mutant::Mutant;

/// What there was before a write.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// The record is this write's own.
    Nothing,
    /// Where its image starts, and its length in words.
    Image { start: usize, words: usize },
}

#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub position: Position,
    /// Orders the writes of one transaction.
    pub ordinal: u64,
    pub table: TableId,
    slot: Slot,
    before: Before,
}

/// Images of records before they were written.
#[derive(Default)]
pub struct UndoLog {
    pub entries: Vec<Written>,
    words: Vec<u64>,
}

impl UndoLog {
    /// Undo one of the entries. Later writes of the record must be undone already.
    pub fn undo(&self, entry: &Written, height: u64, catalog: &Catalog, undo: &mut UndoArena) {
        let Some(table) = catalog.table(entry.table) else { return };
        match entry.before {
            Before::Nothing => {
                table.delete(entry.slot, Stamp::new(height, entry.position), undo);
            }
            Before::Image { start, words } => {
                table.revert(entry.slot, &self.words[start..start + words], undo);
            }
        }
    }

    fn truncate(&mut self, entries: usize, words: usize) {
        self.entries.truncate(entries);
        self.words.truncate(words);
    }
}

/// One transaction or fragment after another.
pub struct InPlace<'a> {
    catalog: &'a Catalog,
    undo: &'a mut UndoArena,
    /// By position: may still be rolled back.
    tentative: &'a [AtomicBool],
    /// Some transaction of the block may be, but for those that run in one piece.
    speculates: bool,
    mutant: Option<Mutant>,
    moment: Moment,
    row_ids: u32,
    keeps_images: bool,
    ordinal: u64,
    pub log: UndoLog,
    /// (who, on whose write).
    pub edges: Vec<(Position, Position)>,
    /// (what, who) has scanned where others may be rolled back.
    pub scans: Vec<(TableId, Position)>,
    scratch: Vec<Value>,
    assigned: Patch,
}

impl<'a> InPlace<'a> {
    pub fn new(
        catalog: &'a Catalog,
        undo: &'a mut UndoArena,
        tentative: &'a [AtomicBool],
        speculates: bool,
        mutant: Option<Mutant>,
    ) -> Self {
        InPlace {
            catalog,
            undo,
            tentative,
            speculates,
            mutant,
            moment: Moment { height: 0, position: 0, now_us: 0 },
            row_ids: 0,
            keeps_images: false,
            ordinal: 0,
            log: UndoLog::default(),
            edges: Vec::new(),
            scans: Vec::new(),
            scratch: Vec::new(),
            assigned: Patch::new(),
        }
    }

    /// A fragment begins. `ordinal` is above those of the transaction's fragments before it.
    #[inline]
    pub fn enter(&mut self, moment: Moment, ordinal: u64, keeps_images: bool) {
        self.moment = moment;
        self.ordinal = ordinal;
        self.keeps_images = keeps_images;
    }

    /// Run a whole transaction by `run`. On an error nothing of it is left. `Ok`: its answer, and
    /// whether it depends on others that may be rolled back; if not, nothing will roll it back.
    pub fn whole<T>(
        &mut self,
        moment: Moment,
        run: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<(T, bool), Stop> {
        self.enter(moment, 0, true);
        self.row_ids = 0;
        let (entries, words) = (self.log.entries.len(), self.log.words.len());
        let (edges, scans) = (self.edges.len(), self.scans.len());
        match run(self) {
            Ok(answer) => {
                let depends = self.edges.len() > edges || self.scans.len() > scans;
                if !depends {
                    self.log.truncate(entries, words);
                }
                Ok((answer, depends))
            }
            Err(stop) => {
                for entry in self.log.entries[entries..].iter().rev() {
                    self.log.undo(entry, moment.height, self.catalog, self.undo);
                }
                self.log.truncate(entries, words);
                self.edges.truncate(edges);
                self.scans.truncate(scans);
                Err(stop)
            }
        }
    }

    #[inline]
    pub fn stamp(&self) -> Stamp {
        Stamp::new(self.moment.height, self.moment.position)
    }

    /// Take note of the last writer of a record that is about to be read or written.
    #[inline]
    fn depend(&mut self, table: &Table, slot: Slot) {
        if self.speculates {
            let (last, _) = table.last_change(slot);
            let writer = last.position();
            if last.height() == self.moment.height
                && writer != self.moment.position
                && self.tentative[writer as usize].load(Ordering::Relaxed)
            {
                self.edges.push((self.moment.position, writer));
            }
        }
    }

    fn depend_by_overwriting(&mut self, table: &Table, slot: Slot) {
        if self.mutant != Some(Mutant::NoOverwriteDependents) {
            self.depend(table, slot);
        }
    }

    fn keep_image(&mut self, table: &Table, slot: Slot) {
        let start = self.log.words.len();
        table.image(slot, &mut self.log.words);
        let words = self.log.words.len() - start;
        self.note(table, slot, Before::Image { start, words });
    }

    fn note(&mut self, table: &Table, slot: Slot, before: Before) {
        let (position, ordinal) = (self.moment.position, self.ordinal);
        self.log.entries.push(Written { position, ordinal, table: table.id(), slot, before });
        self.ordinal += 1;
    }

    #[inline]
    pub fn read_at(
        &mut self,
        table: &Table,
        slot: Option<Slot>,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        let slot = slot?;
        self.depend(table, slot);
        table.read_exclusive(slot, columns, out)
    }

    #[inline]
    pub fn exists_at(&mut self, table: &Table, slot: Option<Slot>) -> bool {
        let Some(slot) = slot else { return false };
        self.depend(table, slot);
        table.last_change(slot).1
    }

    /// Writes columns of a row whatever they hold; the planner has checked the values.
    #[inline]
    pub fn assign_at<'v>(
        &mut self,
        table: &Table,
        slot: Option<Slot>,
        columns: impl Iterator<Item = (ColumnId, &'v Value)> + Clone,
    ) -> bool {
        let Some(slot) = slot else { return false };
        let is_there = table.last_change(slot).1;
        match is_there {
            true => self.depend_by_overwriting(table, slot),
            false => self.depend(table, slot),
        }
        if !is_there {
            return false;
        }
        if self.keeps_images {
            self.keep_image(table, slot);
        }
        table.update_each(slot, columns, self.stamp(), self.undo);
        true
    }

    pub fn update_at(
        &mut self,
        table: &Table,
        slot: Option<Slot>,
        code: &CommandCode,
        inputs: &[Value],
        allowance: Budget,
    ) -> Result<bool, Stop> {
        let Some(slot) = slot else { return Ok(false) };
        let CommandCode { assignments, columns, .. } = code;
        let is_there = table.last_change(slot).1;
        match is_there && columns.is_empty() {
            true => self.depend_by_overwriting(table, slot),
            false => self.depend(table, slot),
        }
        if !is_there {
            return Ok(false);
        }
        if code.only_sets(inputs) {
            if self.keeps_images {
                self.keep_image(table, slot);
            }
            table.update_each(slot, code.settings(inputs), self.stamp(), self.undo);
            return Ok(true);
        }
        let width = table.schema().columns.len();
        if self.scratch.len() < width {
            self.scratch.resize_with(width, Value::default);
        }
        table.read_exclusive_places(slot, columns, &mut self.scratch);
        let (row, now_us) = (&mut self.scratch, self.moment.now_us);
        self.assigned.clear();
        if code.is_brief() {
            brief_values(code, inputs, now_us, row, &mut self.assigned)?;
        } else {
            code.apply(inputs, row, now_us, allowance)?;
            let value = |row: &mut [Value], column| std::mem::take(&mut row[usize::from(column)]);
            self.assigned
                .extend(assignments.iter().map(|(column, _)| (*column, value(row, *column))));
        }
        if self.keeps_images {
            self.keep_image(table, slot);
        }
        table.update(slot, &self.assigned, self.stamp(), self.undo);
        Ok(true)
    }

    pub fn insert_at(
        &mut self,
        table: &Table,
        slot: Option<Slot>,
        key: &[u8],
        row: &[Value],
    ) -> bool {
        let Some(slot) = slot else {
            let new = table.add(key, row, self.stamp(), self.undo);
            if self.keeps_images {
                self.note(table, new, Before::Nothing);
            }
            return true;
        };
        self.depend(table, slot);
        if table.last_change(slot).1 {
            return false;
        }
        if self.keeps_images {
            self.keep_image(table, slot);
        }
        table.update_row(slot, row, self.stamp(), self.undo);
        true
    }

    pub fn delete_at(&mut self, table: &Table, slot: Option<Slot>) -> bool {
        let Some(slot) = slot else { return false };
        self.depend(table, slot);
        if !table.last_change(slot).1 {
            return false;
        }
        if self.keeps_images {
            self.keep_image(table, slot);
        }
        table.delete(slot, self.stamp(), self.undo);
        true
    }

    fn table(&self, id: TableId) -> Result<&'a Table, Stop> {
        // Whatever goes wrong here, the transaction runs again where all is as it should be.
        self.catalog.table(id).map(|table| &**table).ok_or_else(unforeseen)
    }
}

/// Not to be told to clients: a transaction that meets it runs again.
pub fn unforeseen() -> Stop {
    let why = "a fragment met what its plan did not foresee";
    Stop::Rejected(types::Error::new(types::SqlState::INTERNAL_ERROR, why))
}

impl Access for InPlace<'_> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let table = self.table(table)?;
        Ok(self.read_at(table, table.find(key.as_bytes()), columns, out))
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let table = self.table(table)?;
        Ok(self.exists_at(table, table.find(key.as_bytes())))
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let table = self.table(table)?;
        let Command { code, inputs, allowance } = command;
        self.update_at(table, table.find(key.as_bytes()), &code, &inputs, allowance)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let table = self.table(table)?;
        Ok(self.insert_at(table, table.find(key.as_bytes()), key.as_bytes(), &row))
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let table = self.table(table)?;
        Ok(self.delete_at(table, table.find(key.as_bytes())))
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], mut visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let table = self.table(range.table)?;
        if self.speculates && self.mutant != Some(Mutant::NoScanDependents) {
            self.scans.push((range.table, self.moment.position));
        }
        let Some((low, high)) = concurrency::overlay::byte_bounds(range) else { return Ok(()) };
        let (low, high) = (low.as_ref().map(Key::as_bytes), high.as_ref().map(Key::as_bytes));
        let mut outcome = Ok(());
        let mut step = |key: &[u8], stamp: Stamp, values: &[Value]| match visit(
            &Key::from(key),
            stamp,
            values,
        ) {
            Ok(flow) => flow,
            Err(stop) => {
                outcome = Err(stop);
                ControlFlow::Break(())
            }
        };
        let at = storage::LATEST;
        table.scan(range.index, low, high, range.reverse, at, columns, &mut step);
        outcome
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let id = self.stamp().row_id(self.row_ids);
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.moment.now_us
    }
}
