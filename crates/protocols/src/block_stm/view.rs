//! One execution of a transaction: its own writes over those of the transactions before it over
//! the state before the block.
//!
//! Every read below the own writes is logged with what it rests on, so that it can be validated:
//! a value by the versions that it was put together from, existence by its answer, a range by a
//! digest of the rows that it went over.

use std::ops::ControlFlow;

use concurrency::overlay::{check_index, table_of};
use concurrency::{Moment, PendingWrite, RangeDigest, RecordId, WriteSet, WriteState};
use procedure::access::{Access, Command, Range, Row};
use smallvec::{SmallVec, smallvec};
use storage::Table;
use types::{ColumnId, Key, Position, Stamp, Stop, TableId, Value};

use super::flaw::Flaw;
use super::memory::{Change, ColumnMask, Found, Memory, Place, Seen};
use super::scan::{self, Trouble};

/// What an execution read.
#[derive(Debug, Default)]
pub struct ReadLog {
    values: Vec<(Place, ColumnMask, Seen)>,
    existence: Vec<(Place, bool)>,
    ranges: Vec<RangeRead>,
}

#[derive(Debug)]
pub struct RangeRead {
    pub range: Range,
    pub columns: SmallVec<[ColumnId; 4]>,
    pub digest: RangeDigest,
    /// The block had changed something there.
    pub changed: bool,
}

impl ReadLog {
    /// Whether `reader` would read the same again.
    pub fn holds(&self, memory: &Memory, reader: Position, flaw: Option<Flaw>) -> bool {
        let values = || {
            self.values
                .iter()
                .all(|(place, mask, seen)| memory.is_unchanged(place, reader, *mask, seen))
        };
        let existence =
            || self.existence.iter().all(|(place, was)| memory.exists(place, reader) == *was);
        let ranges = || self.ranges.iter().all(|read| scan::holds(memory, reader, read));
        (flaw == Some(Flaw::NoValueValidation) || values())
            && (flaw == Some(Flaw::NoExistenceValidation) || existence())
            && (flaw == Some(Flaw::NoRangeValidation) || ranges())
    }
}

/// A write as the memory takes it.
pub type Written = (Place, Key, Change);

pub struct View<'m> {
    pub(super) memory: &'m Memory,
    pub(super) moment: Moment,
    row_ids: u32,
    pub(super) writes: WriteSet,
    pub(super) log: ReadLog,
    /// The transaction whose estimate ended the execution.
    blocked_on: Option<Position>,
    pub(super) passed_over: u64,
    scratch: Vec<Value>,
}

impl<'m> View<'m> {
    pub fn new(memory: &'m Memory) -> View<'m> {
        View {
            memory,
            moment: Moment { height: 0, position: 0, now_us: 0 },
            row_ids: 0,
            writes: WriteSet::default(),
            log: ReadLog::default(),
            blocked_on: None,
            passed_over: 0,
            scratch: Vec::new(),
        }
    }

    pub fn restart(&mut self, moment: Moment) {
        self.moment = moment;
        self.row_ids = 0;
        self.writes.clear();
        self.log = ReadLog::default();
        self.blocked_on = None;
        self.passed_over = 0;
    }

    pub fn take_log(&mut self) -> ReadLog {
        std::mem::take(&mut self.log)
    }

    /// The execution cannot go on before this transaction has been executed again.
    pub fn blocked_on(&self) -> Option<Position> {
        self.blocked_on
    }

    pub(super) fn reader(&self) -> Position {
        self.moment.position
    }

    pub(super) fn own_stamp(&self) -> Stamp {
        Stamp::new(self.moment.height, self.moment.position)
    }

    /// Ends the execution, whose result nobody will see.
    pub(super) fn block_on(&mut self, transaction: Position) -> Stop {
        self.blocked_on = Some(transaction);
        Stop::Halt(String::new())
    }

    pub(super) fn table(&self, id: TableId) -> Result<&'m Table, Stop> {
        table_of(self.memory.catalog(), id)
    }

    fn place(&self, table: TableId, key: &Key) -> Result<Place, Stop> {
        Ok(Place::of(self.table(table)?, key))
    }

    fn own(&self, place: &Place, key: &Key) -> Option<usize> {
        if self.writes.is_empty() {
            return None;
        }
        self.writes.find(place.table(), RecordId::of(place.slot(), key), key)
    }

    fn value_read(
        &mut self,
        place: Place,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let (mask, mut seen) = (ColumnMask::of_read(columns), Seen::new());
        let found = self.memory.read(&place, self.reader(), (columns, mask), out, &mut seen);
        let stamp = match found {
            Found::Row(stamp) => Some(stamp),
            Found::Nothing => None,
            Found::Estimate(transaction) => return Err(self.block_on(transaction)),
        };
        self.log.values.push((place, mask, seen));
        Ok(stamp)
    }

    fn existence_read(&mut self, place: &Place) -> bool {
        let exists = self.memory.exists(place, self.reader());
        self.log.existence.push((place.clone(), exists));
        exists
    }

    fn begin_write(&mut self, place: Place, key: Key, existed: bool, state: WriteState) {
        let (table, slot) = (place.table(), place.slot());
        let record = RecordId::of(slot, &key);
        self.writes.push(PendingWrite { table, record, slot, key, existed, state });
    }

    /// Turn the commands of an own write into the row that they make.
    pub(super) fn evaluate(&mut self, at: usize) -> Result<Option<Stamp>, Stop> {
        let write = &self.writes.writes()[at];
        let WriteState::Commands(commands) = &write.state else {
            return Ok(None);
        };
        let (commands, place) = (commands.clone(), place_of(write));
        let width = self.table(place.table())?.schema().columns.len();
        let columns: SmallVec<[ColumnId; 16]> = (0..width as ColumnId).collect();
        let mut row = vec![Value::Null; width];
        let stamp = self.value_read(place, &columns, &mut row)?.ok_or_else(vanished)?;
        for command in &commands {
            command.apply(&mut row, self.moment.now_us)?;
        }
        self.writes.get_mut(at).state = WriteState::Put(row.into());
        Ok(Some(stamp))
    }

    /// Read a row that this transaction has written itself.
    fn read_own(
        &mut self,
        at: usize,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let stamp = self.evaluate(at)?.unwrap_or(self.own_stamp());
        let WriteState::Put(row) = &self.writes.writes()[at].state else {
            return Ok(None);
        };
        for (value, &column) in out.iter_mut().zip(columns) {
            *value = row[usize::from(column)].clone();
        }
        Ok(Some(stamp))
    }

    /// The writes of an execution that came to its end, commands evaluated; the first command that
    /// fails makes the transaction's error, as when it is installed under other protocols.
    pub fn take_changes(&mut self) -> Result<Vec<Written>, Stop> {
        let writes = self.writes.take();
        let mut changes = Vec::with_capacity(writes.len());
        for write in writes.into_iter().filter(|write| !write.is_void()) {
            let place = place_of(&write);
            let change = match write.state {
                WriteState::Put(row) => Change::Whole(row),
                WriteState::Delete => Change::Delete,
                WriteState::Commands(commands) => self.patch(&place, &commands)?,
            };
            changes.push((place, write.key, change));
        }
        Ok(changes)
    }

    /// What commands make of the columns that they assign. Only those that they look at are read.
    fn patch(&mut self, place: &Place, commands: &[Command]) -> Result<Change, Stop> {
        let width = self.table(place.table())?.schema().columns.len();
        let mut row = std::mem::take(&mut self.scratch);
        row.resize(width, Value::Null);
        let mut columns: SmallVec<[ColumnId; 8]> =
            commands.iter().flat_map(|c| c.code.columns.iter().copied()).collect();
        columns.sort_unstable();
        columns.dedup();
        if !columns.is_empty() {
            let mut values: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, columns.len());
            self.value_read(place.clone(), &columns, &mut values)?.ok_or_else(vanished)?;
            for (column, value) in columns.into_iter().zip(values) {
                row[usize::from(column)] = value;
            }
        }
        for command in commands {
            command.apply(&mut row, self.moment.now_us)?;
        }
        let mut patch: SmallVec<[(ColumnId, Value); 1]> = SmallVec::new();
        for (column, _) in commands.iter().flat_map(|c| c.code.assignments.iter()) {
            if !patch.iter().any(|(assigned, _)| assigned == column) {
                patch.push((*column, row[usize::from(*column)].clone()));
            }
        }
        self.scratch = row;
        Ok(Change::patch(patch))
    }

    pub(super) fn trouble(&mut self, trouble: Trouble) -> Stop {
        match trouble {
            Trouble::Estimate(transaction) => self.block_on(transaction),
            Trouble::Stop(stop) => stop,
        }
    }
}

fn place_of(write: &PendingWrite) -> Place {
    match write.slot {
        Some(slot) => Place::Slot(write.table, slot),
        None => Place::Key(write.table, write.key.clone()),
    }
}

/// Two reads of one execution fell on either side of another transaction's abort, so it will not
/// be valid.
fn vanished() -> Stop {
    Stop::Halt("a row vanished between two looks at it".into())
}

impl Access for View<'_> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let place = self.place(table, key)?;
        match self.own(&place, key) {
            Some(at) => self.read_own(at, columns, out),
            None => self.value_read(place, columns, out),
        }
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let place = self.place(table, key)?;
        Ok(match self.own(&place, key) {
            Some(at) => self.writes.writes()[at].exists(),
            None => self.existence_read(&place),
        })
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let place = self.place(table, key)?;
        let Some(at) = self.own(&place, key) else {
            let existed = self.existence_read(&place);
            if existed {
                let state = WriteState::Commands(smallvec![command]);
                self.begin_write(place, key.clone(), existed, state);
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
        let place = self.place(table, &key)?;
        if let Some(at) = self.own(&place, &key) {
            let write = self.writes.get_mut(at);
            let free = !write.exists();
            if free {
                write.state = WriteState::Put(row);
            }
            return Ok(free);
        }
        let taken = self.existence_read(&place);
        if !taken {
            self.begin_write(place, key, false, WriteState::Put(row));
        }
        Ok(!taken)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let place = self.place(table, key)?;
        if let Some(at) = self.own(&place, key) {
            // A command that fails must not vanish with the row.
            self.evaluate(at)?;
            let write = self.writes.get_mut(at);
            let existed = write.exists();
            write.state = WriteState::Delete;
            return Ok(existed);
        }
        let existed = self.existence_read(&place);
        if existed {
            self.begin_write(place, key.clone(), existed, WriteState::Delete);
        }
        Ok(existed)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        check_index(self.table(range.table)?, range.index)?;
        self.scan_range(range, columns, visit)
    }

    fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.moment.height.to_be_bytes());
        id[8..12].copy_from_slice(&self.moment.position.to_be_bytes());
        id[12..].copy_from_slice(&self.row_ids.to_be_bytes());
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.moment.now_us
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        if let Ok(table) = self.table(table) {
            table.prefetch(table.place(key.as_bytes()));
        }
    }
}

impl RangeRead {
    pub fn new(range: Range, columns: &[ColumnId], digest: RangeDigest, changed: bool) -> Self {
        RangeRead { range, columns: columns.into(), digest, changed }
    }
}

impl View<'_> {
    pub(super) fn log_range(&mut self, read: RangeRead) {
        self.log.ranges.push(read);
    }
}
