//! A transaction's workspace: its own writes over the state at one height.
//!
//! Serial execution lays it over the newest state and installs it at once; Harmony simulates over a
//! block snapshot and keeps the commands apart; an interactive session holds one from BEGIN to
//! COMMIT. All three run the same code, so a program means the same under each.
//!
//! Update commands stay unevaluated until the transaction looks at the row itself: then the row is
//! read, which the recorder is told, and the commands become the row's new image.

mod merge;
mod ranges;
mod schema;

use merge::{Merge, before};
use ranges::check_index;
pub use ranges::{byte_bounds, covers, index_columns, index_key, place_in};
pub use schema::Convert;
use schema::table_of;

use std::ops::ControlFlow;
use std::sync::Arc;

use procedure::access::{Access, Command, Range, Row};
use smallvec::smallvec;
use storage::{Catalog, Slot, Table};
use types::{ColumnId, Error, Height, Key, Position, Stamp, Stop, TableId, Value};

use crate::below::{Below, Stored};
use crate::footprint::{RangeDigest, Recorder, RowRead};
use crate::own_rows::SCANNED_MAX;
use crate::pending::{PendingWrite, RecordId, WriteSet, WriteState};
use crate::test_mode::{Mutant, mutated};

/// Where in the ledger a transaction runs: what its hidden row ids and `now()` are made of.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub height: Height,
    pub position: Position,
    pub now_us: i64,
}

pub struct Overlay<R, B = Stored> {
    catalog: Arc<Catalog>,
    below: B,
    moment: Moment,
    row_ids: u32,
    writes: WriteSet,
    pub recorder: R,
    /// A row's values while its commands are applied.
    scratch: Vec<Value>,
    passed_over: u64,
}

/// Where a key's row lies below the own writes, and when it last changed.
#[derive(Clone, Copy)]
struct Located {
    slot: Option<Slot>,
    stamp: Option<Stamp>,
    record: RecordId,
}

/// A saved state of an overlay, for SAVEPOINT and for statements that fail.
#[derive(Clone)]
pub struct Mark {
    catalog: Arc<Catalog>,
    writes: WriteSet,
    row_ids: u32,
}

/// Where a statement began.
#[derive(Clone, Copy, Debug)]
pub struct StatementMark {
    row_ids: u32,
}

/// Where a written row stands in its table's indexes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenEntries {
    pub table: TableId,
    pub key: Key,
    pub entries: Vec<(types::IndexId, Key)>,
}

/// Secondary indexes that are not dropped.
pub fn live_indexes(table: &Table) -> impl Iterator<Item = types::IndexId> {
    let indexes = table.schema().indexes.iter().zip(1..);
    indexes.filter(|(index, _)| !index.dropped).map(|(_, number)| number)
}

impl<R: Recorder> Overlay<R> {
    /// Over what the store holds at one height.
    pub fn new(catalog: Arc<Catalog>, at: Height, moment: Moment, recorder: R) -> Self {
        Overlay::over(catalog, Stored(at), moment, recorder)
    }

    pub fn at(&self) -> Height {
        self.below.0
    }

    /// Lay the same writes over a later height of the same schema. They stand where they stood,
    /// unless another transaction made a row come or go there: then this one cannot commit.
    pub fn advance(&mut self, at: Height) -> Result<(), Stop> {
        self.below = Stored(at);
        self.moment.height = at + 1;
        for write in self.writes.writes() {
            let place = self.locate(write.table, &write.key)?;
            if (place.record, place.stamp.is_some()) != (write.record, write.existed) {
                let what = "A row that the transaction wrote was changed by another.";
                return Err(Stop::Retry(Error::serialization(what)));
            }
        }
        Ok(())
    }
}

impl<R: Recorder, B: Below> Overlay<R, B> {
    pub fn over(catalog: Arc<Catalog>, below: B, moment: Moment, recorder: R) -> Self {
        Overlay {
            catalog,
            below,
            moment,
            row_ids: 0,
            writes: WriteSet::default(),
            recorder,
            scratch: Vec::new(),
            passed_over: 0,
        }
    }

    /// Forget the writes and go on with another transaction over the same state.
    pub fn restart(&mut self, moment: Moment) {
        self.writes.clear();
        self.passed_over = 0;
        self.moment = moment;
        self.row_ids = 0;
    }

    /// The state below, to lay it under one transaction after another.
    pub fn below_mut(&mut self) -> &mut B {
        &mut self.below
    }

    pub fn moment(&self) -> Moment {
        self.moment
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub fn writes(&self) -> &WriteSet {
        &self.writes
    }

    /// Who was told of the reads, and the writes.
    pub fn recorded(&mut self) -> (&mut R, &[PendingWrite]) {
        (&mut self.recorder, self.writes.writes())
    }

    /// The writes, for a protocol that has to change them before they are installed.
    pub fn writes_mut(&mut self) -> &mut [PendingWrite] {
        self.writes.writes_mut()
    }

    /// Put back one of the writes that were taken. False: there is another one of the same record.
    pub fn put_back(&mut self, write: PendingWrite) -> bool {
        let fresh = self.writes.find(write.table, write.record, &write.key).is_none();
        self.writes.push(write);
        fresh
    }

    pub fn take_writes(&mut self) -> Vec<PendingWrite> {
        self.writes.take()
    }

    /// Takes out the writes to tables of the session, in their order.
    pub fn take_temporary_writes(&mut self) -> Vec<PendingWrite> {
        self.writes.take_where(|write| write.table.is_temporary())
    }

    /// How many hidden row ids it has given out.
    pub fn row_ids(&self) -> u32 {
        self.row_ids
    }

    /// Goes on after the hidden row ids that were given out before, at the same place.
    pub fn count_row_ids_from(&mut self, given: u32) {
        self.row_ids = given;
    }

    /// Hand back what `take_writes` gave: its room serves the next transaction.
    pub fn recycle(&mut self, writes: Vec<PendingWrite>) {
        self.writes.recycle(writes);
    }

    pub fn mark(&self) -> Mark {
        let (catalog, writes) = (Arc::clone(&self.catalog), self.writes.clone());
        Mark { catalog, writes, row_ids: self.row_ids }
    }

    pub fn return_to(&mut self, mark: Mark) {
        self.catalog = mark.catalog;
        self.writes = mark.writes;
        self.row_ids = mark.row_ids;
    }

    /// A statement begins that may be undone alone.
    pub fn begin_statement(&mut self) -> StatementMark {
        self.writes.begin_statement();
        StatementMark { row_ids: self.row_ids }
    }

    pub fn undo_statement(&mut self, mark: StatementMark) {
        self.writes.undo_statement();
        self.row_ids = mark.row_ids;
        self.passed_over = 0;
    }

    /// What the statement wrote: its table, its key, and the row's entries in the live secondary
    /// indexes of the table, those of before and those of now. Tables of the session left out.
    pub fn statement_entries(&mut self) -> Result<Vec<WrittenEntries>, Stop> {
        let mut written = self.writes.of_statement();
        written.retain(|at| !self.writes.writes()[*at].table.is_temporary());
        written.into_iter().map(|at| self.entries_of(at)).collect()
    }

    fn entries_of(&mut self, at: usize) -> Result<WrittenEntries, Stop> {
        let write = &self.writes.writes()[at];
        let table = table_of(&self.catalog, write.table)?;
        let mut entries = Vec::new();
        for index in live_indexes(table) {
            if self.below.read_row(table, write.slot, &write.key, &mut self.scratch).is_some() {
                let row = &self.scratch;
                let key = index_key(table, index, &write.key, |column| &row[usize::from(column)]);
                entries.push((index, key?));
            }
            if let WriteState::Put(row) = &write.state {
                let key = index_key(table, index, &write.key, |column| &row[usize::from(column)]);
                entries.push((index, key?));
            }
        }
        self.scratch.clear();
        entries.dedup();
        Ok(WrittenEntries { table: write.table, key: write.key.clone(), entries })
    }

    /// The row below the own writes. Whether the record of a deleted row is still there depends on
    /// what this replica has collected, so a record without a visible row counts as none.
    fn locate(&self, table: TableId, key: &Key) -> Result<Located, Stop> {
        let table = table_of(&self.catalog, table)?;
        let slot = table.find(key.as_bytes());
        let stamp = self.below.stamp(table, slot, key);
        let slot = slot.filter(|_| stamp.is_some());
        Ok(Located { slot, stamp, record: RecordId::of(slot, key) })
    }

    /// The first write to a key.
    fn begin_write(
        &mut self,
        table: TableId,
        key: Key,
        place: Located,
        existed: bool,
        state: WriteState,
    ) {
        let Located { record, slot, .. } = place;
        self.writes.push(PendingWrite { table, record, slot, key, existed, state });
    }

    /// Whether the row is there below the own writes.
    fn base_exists(&mut self, table: TableId, key: &Key, place: Located) -> bool {
        let Located { record, stamp, .. } = place;
        if !mutated(Mutant::ExistenceUnrecorded) {
            self.recorder.existence_read(RowRead { table, key, record, stamp });
        }
        stamp.is_some()
    }

    /// Turn the commands of a write into the row they make of the base row.
    fn evaluate(&mut self, at: usize) -> Result<Option<Stamp>, Stop> {
        let write = &self.writes.writes()[at];
        let WriteState::Commands(commands) = &write.state else {
            return Ok(None);
        };
        let table = table_of(&self.catalog, write.table)?;
        let stamp = self.below.read_row(table, write.slot, &write.key, &mut self.scratch);
        let PendingWrite { table, ref key, record, .. } = *write;
        if !mutated(Mutant::EvaluationUnrecorded) {
            self.recorder.value_read(RowRead { table, key, record, stamp });
        }
        if stamp.is_none() {
            return Err(Stop::Halt("a row vanished from the snapshot that it was found in".into()));
        }
        for command in commands {
            command.apply(&mut self.scratch, self.moment.now_us)?;
        }
        let row: Row = self.scratch.drain(..).collect();
        self.writes.get_mut(at).state = WriteState::Put(row);
        self.recorder.own_row_met();
        Ok(stamp)
    }

    /// Evaluate the commands that no step has looked at. An answer to a statement before the
    /// transaction ends rests on that they do not fail.
    pub fn evaluate_all(&mut self) -> Result<(), Stop> {
        (0..self.writes.writes().len()).try_for_each(|at| self.evaluate(at).map(drop))
    }

    /// Read a row that this transaction has written itself.
    fn read_own(
        &mut self,
        at: usize,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.recorder.own_read();
        let own = Stamp::new(self.moment.height, self.moment.position);
        let stamp = self.evaluate(at)?.unwrap_or(own);
        let WriteState::Put(row) = &self.writes.writes()[at].state else {
            return Ok(None);
        };
        for (value, &column) in out.iter_mut().zip(columns) {
            *value = row[usize::from(column)].clone();
        }
        Ok(Some(stamp))
    }

    /// Own rows of a range: (index key, write), in scan order.
    fn own_rows(&mut self, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        let mut rows = match self.writes.writes().len() <= SCANNED_MAX {
            true => self.own_rows_sorted(range)?,
            false => self.own_rows_mapped(range)?,
        };
        if range.reverse {
            rows.reverse();
        }
        Ok(rows)
    }

    fn own_rows_mapped(&mut self, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        let count = self.writes.writes().len();
        let (map, stale) = self.writes.own_rows.stale(range.table, range.index, count);
        let catalog = Arc::clone(&self.catalog);
        let table = table_of(&catalog, range.table)?;
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
    fn own_entry(
        &mut self,
        table: &Table,
        index: types::IndexId,
        at: usize,
    ) -> Result<Option<Key>, Stop> {
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

    fn own_rows_sorted(&mut self, range: &Range) -> Result<Vec<(Key, usize)>, Stop> {
        for at in 0..self.writes.writes().len() {
            let write = &self.writes.writes()[at];
            if write.table == range.table
                && (range.index != 0 || covers(range, write.key.as_bytes()))
            {
                self.evaluate(at)?;
            }
        }
        let table = table_of(&self.catalog, range.table)?;
        let mut rows = Vec::new();
        for (at, write) in self.writes.writes().iter().enumerate() {
            if write.table != range.table {
                continue;
            }
            if let WriteState::Put(row) = &write.state {
                let key =
                    index_key(table, range.index, &write.key, |column| &row[column as usize])?;
                if covers(range, key.as_bytes()) {
                    rows.push((key, at));
                }
            }
        }
        rows.sort();
        Ok(rows)
    }

    /// A scan of a table without own writes: straight from storage.
    fn scan_base<V>(
        &mut self,
        range: &Range,
        columns: &[ColumnId],
        mut visit: V,
    ) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let mut digest = RangeDigest::default();
        let step = |key: &Key, stamp: Stamp, values: &[Value]| {
            if R::DIGESTS {
                digest.add(key.as_bytes(), stamp);
            }
            visit(key, stamp, values)
        };
        let outcome = self.below.scan(table_of(&self.catalog, range.table)?, range, columns, step);
        // An error that a row caused is an answer too, and it rests on what was read.
        digest.stopped = !matches!(outcome, Ok(ControlFlow::Continue(())));
        if !mutated(Mutant::RangeUnrecorded) {
            self.recorder.range_read(range, digest);
        }
        outcome.map(drop)
    }

    /// A scan of a table that has own writes: both are merged in index order.
    fn scan_merged<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.recorder.own_scan();
        let own = self.own_rows(range)?;
        let shows_own = !own.is_empty();
        let catalog = Arc::clone(&self.catalog);
        let table = table_of(&catalog, range.table)?;
        let key_columns = index_columns(table, range.index);
        let wanted: Vec<ColumnId> = columns.iter().chain(&key_columns).copied().collect();
        let mut merge = Merge {
            table,
            range,
            columns,
            key_columns,
            writes: &self.writes,
            own,
            next_own: 0,
            own_stamp: Stamp::new(self.moment.height, self.moment.position),
            digest: RangeDigest::default(),
            passed_over: 0,
            stopped_at: None,
            visit,
        };
        let mut outcome = self
            .below
            .scan(table, range, &wanted, |key, stamp, values| merge.base_row(key, stamp, values));
        if matches!(outcome, Ok(ControlFlow::Continue(()))) {
            outcome = merge.own_rows_before(None);
        }
        let Merge { mut digest, passed_over, stopped_at, .. } = merge;
        self.passed_over += passed_over;
        if shows_own || passed_over > 0 {
            self.recorder.own_row_met();
        }
        match stopped_at {
            // All base rows before this own row, and none after it.
            Some(own) => self.recorder.range_read(&before(range, own), digest),
            None => {
                digest.stopped = !matches!(outcome, Ok(ControlFlow::Continue(())));
                self.recorder.range_read(range, digest);
            }
        }
        outcome.map(drop)
    }
}

impl<R: Recorder, B: Below> Access for Overlay<R, B> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let base = table_of(&self.catalog, table)?;
        let slot = base.find(key.as_bytes());
        if !self.writes.is_empty() && !mutated(Mutant::OwnWritesUnseen) {
            let visible = slot.filter(|_| self.below.stamp(base, slot, key).is_some());
            let record = RecordId::of(visible, key);
            if let Some(at) = self.writes.find(table, record, key) {
                return self.read_own(at, columns, out);
            }
        }
        let stamp = self.below.read(base, slot, key, columns, out);
        let record = RecordId::of(slot.filter(|_| stamp.is_some()), key);
        if !mutated(Mutant::ReadUnrecorded) {
            self.recorder.value_read(RowRead { table, key, record, stamp });
        }
        Ok(stamp)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let place = self.locate(table, key)?;
        match self.writes.find(table, place.record, key) {
            Some(at) => {
                self.recorder.own_read();
                Ok(self.writes.writes()[at].exists())
            }
            None => Ok(self.base_exists(table, key, place)),
        }
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let place = self.locate(table, key)?;
        let Some(at) = self.writes.find(table, place.record, key) else {
            let existed = self.base_exists(table, key, place);
            if existed {
                let state = WriteState::Commands(smallvec![command]);
                self.begin_write(table, key.clone(), place, existed, state);
            }
            return Ok(existed);
        };
        match &mut self.writes.get_mut(at).state {
            WriteState::Commands(commands) => commands.push(command),
            WriteState::Put(row) => command.apply(row, self.moment.now_us)?,
            WriteState::Delete => return Ok(false),
        }
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let place = self.locate(table, &key)?;
        if let Some(at) = self.writes.find(table, place.record, &key) {
            let write = self.writes.get_mut(at);
            let free = !write.exists();
            if free {
                write.state = WriteState::Put(row);
            }
            return Ok(free);
        }
        let taken = self.base_exists(table, &key, place);
        if !taken {
            self.begin_write(table, key, place, false, WriteState::Put(row));
        }
        Ok(!taken)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let place = self.locate(table, key)?;
        if let Some(at) = self.writes.find(table, place.record, key) {
            // A command that fails must not vanish with the row.
            if !mutated(Mutant::FailedCommandVanishes) {
                self.evaluate(at)?;
            }
            let write = self.writes.get_mut(at);
            let existed = write.exists();
            write.state = WriteState::Delete;
            return Ok(existed);
        }
        let existed = self.base_exists(table, key, place);
        if existed {
            self.begin_write(table, key.clone(), place, existed, WriteState::Delete);
        }
        Ok(existed)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        // Before anything is recorded: users of a recorded range may count on its index.
        check_index(table_of(&self.catalog, range.table)?, range.index)?;
        if self.writes.touches(range.table) {
            self.scan_merged(range, columns, visit)
        } else {
            self.scan_base(range, columns, visit)
        }
    }

    fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let Moment { height, position, .. } = self.moment;
        let id = Stamp::new(height, position).row_id(self.row_ids);
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.moment.now_us
    }

    #[inline]
    fn room(&mut self, columns: usize) -> Vec<Value> {
        self.writes.room(columns)
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        if let Some(table) = self.catalog.table(table) {
            table.prefetch(table.place(key.as_bytes()));
        }
    }
}
