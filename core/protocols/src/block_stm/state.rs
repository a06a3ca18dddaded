//! What one transaction finds: the writes of those before it over the state before the block.
//!
//! Every read is logged with what it rests on, so that it can be validated: a value by the versions
//! that it was put together from, existence by its answer, a range by a digest of the rows that it
//! went over.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use concurrency::below::Below;
use concurrency::{NoRecord, Overlay, RangeDigest, WriteState};
use procedure::access::{Command, Range};
use smallvec::SmallVec;
use storage::{Slot, Table};
use types::{ColumnId, Key, Position, Stamp, Stop, Value};

use super::memory::{Change, ColumnMask, Found, Memory, Place, Seen, Written};
use super::mutant::Mutant;
use super::scan::{self, BlockRows, RangeRead};

/// What an execution read.
#[derive(Debug, Default)]
pub struct ReadLog {
    values: Vec<(Place, ColumnMask, Seen)>,
    existence: Vec<(Place, bool)>,
    ranges: Vec<RangeRead>,
}

impl ReadLog {
    /// Whether `reader` would read the same again.
    pub fn holds(&self, memory: &Memory, reader: Position, mutant: Option<Mutant>) -> bool {
        let mut values = self.values.iter();
        let values =
            || values.all(|(place, mask, seen)| memory.is_unchanged(place, reader, *mask, seen));
        let mut existence = self.existence.iter();
        let existence =
            || existence.all(|(place, was)| memory.stamp(place, reader).is_some() == *was);
        let mut ranges = self.ranges.iter();
        let ranges = || ranges.all(|read| scan::holds(memory, reader, read));
        holds_but_for(mutant, Mutant::NoValueValidation, values)
            && holds_but_for(mutant, Mutant::NoExistenceValidation, existence)
            && holds_but_for(mutant, Mutant::NoRangeValidation, ranges)
    }
}

fn holds_but_for(mutant: Option<Mutant>, forgotten: Mutant, holds: impl FnOnce() -> bool) -> bool {
    mutant == Some(forgotten) || holds()
}

/// The state below the own writes of one transaction after another.
pub struct Speculation<'m> {
    memory: &'m Memory,
    reader: Position,
    log: RefCell<ReadLog>,
    blocked_on: Cell<Option<Position>>,
    /// A row's values while commands are applied.
    scratch: Vec<Value>,
}

impl<'m> Speculation<'m> {
    pub fn new(memory: &'m Memory) -> Speculation<'m> {
        Speculation {
            memory,
            reader: 0,
            log: RefCell::default(),
            blocked_on: Cell::new(None),
            scratch: Vec::new(),
        }
    }

    pub fn restart(&mut self, reader: Position) {
        self.reader = reader;
        self.log.take();
        self.blocked_on.set(None);
    }

    /// The execution met an estimate: it cannot go on before this transaction was executed again.
    pub fn blocked_on(&self) -> Option<Position> {
        self.blocked_on.get()
    }

    pub fn take_log(&mut self) -> ReadLog {
        self.log.take()
    }

    fn place(&self, table: &Table, slot: Option<Slot>, key: &Key) -> Place {
        match slot {
            Some(slot) => Place::Slot(table.id(), slot),
            None => Place::of(table, key),
        }
    }

    fn value_read(&self, place: Place, columns: &[ColumnId], out: &mut [Value]) -> Option<Stamp> {
        let (mask, mut seen) = (ColumnMask::of_read(columns), Seen::new());
        let found = self.memory.read(&place, self.reader, (columns, mask), out, &mut seen);
        let stamp = match found {
            Found::Row(stamp) => Some(stamp),
            Found::Nothing => None,
            Found::Estimate(transaction) => {
                self.blocked_on.set(Some(transaction));
                return None;
            }
        };
        self.log.borrow_mut().values.push((place, mask, seen));
        stamp
    }
}

impl Below for Speculation<'_> {
    fn stamp(&self, table: &Table, slot: Option<Slot>, key: &Key) -> Option<Stamp> {
        let place = self.place(table, slot, key);
        let stamp = self.memory.stamp(&place, self.reader);
        self.log.borrow_mut().existence.push((place, stamp.is_some()));
        stamp
    }

    fn read(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        self.value_read(self.place(table, slot, key), columns, out)
    }

    fn read_row(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        out: &mut Vec<Value>,
    ) -> Option<Stamp> {
        let width = table.schema().columns.len();
        let columns: SmallVec<[ColumnId; 16]> = (0..width as ColumnId).collect();
        out.clear();
        out.resize(width, Value::Null);
        self.value_read(self.place(table, slot, key), &columns, out)
    }

    fn scan<V>(
        &self,
        table: &Table,
        range: &Range,
        columns: &[ColumnId],
        mut visit: V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let asked = scan::Asked::new(range, table, columns);
        let block = match BlockRows::of(self.memory, self.reader, &asked) {
            Ok(block) => block,
            Err(scan::Trouble::Stop(stop)) => return Err(stop),
            Err(scan::Trouble::Estimate(transaction)) => {
                self.blocked_on.set(Some(transaction));
                return Ok(ControlFlow::Break(()));
            }
        };
        let mut digest = RangeDigest::default();
        let outcome = scan::each(&block, &asked, |row| {
            digest.add(row.key.as_bytes(), row.rests_on);
            visit(row.key, row.stamp, row.values)
        });
        digest.stopped = !matches!(outcome, Ok(ControlFlow::Continue(())));
        let (range, columns, changed) = (range.clone(), columns.into(), !block.is_empty());
        self.log.borrow_mut().ranges.push(RangeRead { range, columns, digest, changed });
        outcome
    }
}

/// The writes of an execution that came to its end, commands evaluated; the first command that
/// fails makes the transaction's error, as when it is installed under other protocols.
pub fn take_changes(
    overlay: &mut Overlay<NoRecord, Speculation<'_>>,
    now_us: i64,
) -> Result<Vec<Written>, Stop> {
    let writes = overlay.take_writes();
    let state = overlay.below_mut();
    let mut changes = Vec::with_capacity(writes.len());
    for write in writes.into_iter().filter(|write| !write.is_void()) {
        let table = state.memory.catalog().table(write.table);
        let table = table.ok_or_else(|| Stop::Halt("a table vanished within a block".into()))?;
        let place = state.place(table, write.slot, &write.key);
        let change = match write.state {
            WriteState::Put(row) => Change::Whole(row),
            WriteState::Delete => Change::Delete,
            WriteState::Commands(commands) => state.patch(table, &place, &commands, now_us)?,
        };
        changes.push(Written { place, key: write.key, change });
    }
    Ok(changes)
}

impl Speculation<'_> {
    /// What commands make of the columns that they assign. Only those that they look at are read.
    fn patch(
        &mut self,
        table: &Table,
        place: &Place,
        commands: &[Command],
        now_us: i64,
    ) -> Result<Change, Stop> {
        let mut row = std::mem::take(&mut self.scratch);
        row.resize(table.schema().columns.len(), Value::Null);
        let looked_at = commands.iter().flat_map(|c| c.code.columns.iter().copied());
        let mut columns: SmallVec<[ColumnId; 8]> = looked_at.collect();
        columns.sort_unstable();
        columns.dedup();
        if !columns.is_empty() {
            let mut values: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, columns.len());
            self.value_read(place.clone(), &columns, &mut values).ok_or_else(vanished)?;
            for (column, value) in columns.into_iter().zip(values) {
                row[usize::from(column)] = value;
            }
        }
        for command in commands {
            command.apply(&mut row, now_us)?;
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
}

/// Two reads of one execution fell on either side of another transaction's abort, so it will not
/// be valid.
fn vanished() -> Stop {
    Stop::Halt("a row vanished between two looks at it".into())
}
