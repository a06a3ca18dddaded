//! Row access for a piece of a transaction during replay: reads and updates the newest state.
//!
//! There is neither a private workspace nor undo by transaction: it is known to have committed, so
//! the piece cannot fail, and the replay schedule ensures that no other piece uses the same rows at
//! the same time. Accesses to [virtual tables](crate::analysis::virtual_table) fetch results of
//! other pieces, export results to them, or note key spaces.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use concurrency::below::{Below, Stored};
use concurrency::install::Patch;
use procedure::access::{Access, Command, Range, Row};
use procedure::analysis::StepId;
use smallvec::SmallVec;
use storage::{Catalog, LATEST, Slot, Table, UndoArena};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

use crate::analysis::Recall;
use crate::analysis::virtual_table::{Meaning, is_real, meaning};
use crate::log::RowWrite;
use crate::replay::Spaces;

/// What a piece hands on: for each of its exports, run by run.
#[derive(Debug, Default)]
pub struct Trace(pub Vec<StepTrace>);

#[derive(Debug, Default)]
pub struct StepTrace {
    values: Vec<Value>,
    /// Of a loop over rows: where each of its runs begins.
    starts: Vec<usize>,
}

/// How far a piece has recalled one step.
#[derive(Clone, Copy, Default)]
struct Cursor {
    value: usize,
    run: usize,
}

pub struct PieceAccess<'a> {
    pub catalog: &'a Catalog,
    /// `None` while key spaces are noted.
    pub undo: Option<&'a mut UndoArena>,
    pub stamp: Stamp,
    pub now_us: i64,
    pub recalls: &'a [Recall],
    /// Of the pieces of the same transaction.
    pub traces: &'a [OnceLock<Trace>],
    pub exports: &'a [StepId],
    pub exported: Trace,
    pub spaces: &'a mut Spaces,
    cursors: SmallVec<[Cursor; 4]>,
    row_ids: u32,
    /// A row's values while a command is applied.
    scratch: &'a mut Vec<Value>,
}

fn lost(what: &str) -> Stop {
    Stop::Halt(format!("replay has gone wrong: {what}"))
}

impl<'a> PieceAccess<'a> {
    pub fn new(
        catalog: &'a Catalog,
        undo: Option<&'a mut UndoArena>,
        (stamp, now_us): (Stamp, i64),
        spaces: &'a mut Spaces,
        scratch: &'a mut Vec<Value>,
    ) -> PieceAccess<'a> {
        PieceAccess {
            catalog,
            undo,
            stamp,
            now_us,
            recalls: &[],
            traces: &[],
            exports: &[],
            exported: Trace::default(),
            spaces,
            cursors: SmallVec::new(),
            row_ids: 0,
            scratch,
        }
    }

    /// The piece at hand: what it is told, and what it tells.
    pub fn enter(
        &mut self,
        recalls: &'a [Recall],
        traces: &'a [OnceLock<Trace>],
        exports: &'a [StepId],
    ) {
        (self.recalls, self.traces, self.exports) = (recalls, traces, exports);
        self.cursors.clear();
        self.cursors.resize(recalls.len(), Cursor::default());
        self.exported.0.clear();
        self.exported.0.resize_with(exports.len(), StepTrace::default);
    }

    fn table(&self, table: TableId) -> Result<&'a Table, Stop> {
        let found = self.catalog.table(table).map(|table| &**table);
        found.ok_or_else(|| lost("a table is missing"))
    }

    /// Which of the recalls an access is.
    fn recall(&self, table: TableId) -> Result<usize, Stop> {
        let Meaning::Recall(step) = meaning(table) else {
            return Err(lost("a table that is none"));
        };
        let place = self.recalls.binary_search_by_key(&step, |recall| recall.step);
        place.map_err(|_| lost("a result that nobody gives"))
    }

    fn trace(&self, place: usize) -> Result<&'a StepTrace, Stop> {
        let Recall { piece, export, .. } = self.recalls[place];
        let trace = self.traces.get(piece).and_then(OnceLock::get);
        let trace = trace.and_then(|trace| trace.0.get(export));
        trace.ok_or_else(|| lost("a result is recalled before it is there"))
    }

    /// The next values of a recalled step.
    fn next_recalled(&mut self, place: usize, count: usize) -> Result<&'a [Value], Stop> {
        let trace = self.trace(place)?;
        let next = &mut self.cursors[place].value;
        let values = trace.values.get(*next..*next + count);
        *next += count;
        values.ok_or_else(|| lost("a step ran less often than it is recalled"))
    }

    fn recall_row(&mut self, table: TableId, out: &mut [Value]) -> Result<Option<Stamp>, Stop> {
        let place = self.recall(table)?;
        let is_read = self.recalls[place].is_read;
        let values = self.next_recalled(place, out.len() + usize::from(is_read))?;
        out.clone_from_slice(&values[..out.len()]);
        let found = !is_read || values.last() == Some(&Value::Bool(true));
        Ok(found.then_some(self.stamp))
    }

    /// The rows of the next run of a recalled loop.
    fn recall_rows<V>(&mut self, table: TableId, width: usize, mut visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let place = self.recall(table)?;
        let trace = self.trace(place)?;
        let run = self.cursors[place].run;
        self.cursors[place].run += 1;
        let start = *trace.starts.get(run).ok_or_else(|| lost("a loop ran less often"))?;
        let end = trace.starts.get(run + 1).copied().unwrap_or(trace.values.len());
        for row in trace.values[start..end].chunks(width.max(1)) {
            if visit(&Key::default(), self.stamp, row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn export(&mut self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        let (step, opens) = match meaning(table) {
            Meaning::Export(step) => (step, false),
            Meaning::Open(step) => (step, true),
            _ => return Err(lost("a table that is none")),
        };
        let place = self.exports.binary_search(&step).map_err(|_| lost("an export too many"))?;
        let trace = &mut self.exported.0[place];
        match opens {
            true => trace.starts.push(trace.values.len()),
            false => trace.values.extend_from_slice(values),
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<&mut UndoArena, Stop> {
        self.undo.as_deref_mut().ok_or_else(|| lost("a write while keys are noted"))
    }

    /// Puts a row back that was logged as such.
    pub fn put(&mut self, write: &RowWrite) -> Result<(), Stop> {
        let table = self.table(write.table)?;
        let (key, stamp) = (write.key.as_bytes(), self.stamp);
        let slot = self.find(table, &write.key);
        let undo = self.undo()?;
        match (&write.row, slot) {
            (Some(row), Some(slot)) => table.update_row(slot, row, stamp, undo),
            (Some(row), None) => {
                table.insert(key, row, stamp, undo);
            }
            (None, Some(slot)) => table.delete(slot, stamp, undo),
            (None, None) => {}
        }
        Ok(())
    }
}

impl PieceAccess<'_> {
    /// The record of a row that is there.
    fn find(&self, table: &Table, key: &Key) -> Option<Slot> {
        table.find(key.as_bytes()).filter(|slot| table.stamp(*slot, LATEST).is_some())
    }

    fn apply(&mut self, table: &Table, slot: Slot, command: &Command) -> Result<(), Stop> {
        let code = &command.code;
        self.scratch.resize(table.schema().columns.len(), Value::Null);
        if !code.columns.is_empty() {
            let mut old: SmallVec<[Value; 8]> =
                SmallVec::from_elem(Value::Null, code.columns.len());
            table.read(slot, LATEST, &code.columns, &mut old);
            for (column, value) in code.columns.iter().zip(old) {
                self.scratch[usize::from(*column)] = value;
            }
        }
        command.apply(self.scratch, self.now_us)?;
        let assigned = code.assignments.iter().map(|(column, _)| *column);
        let patch: Patch = assigned
            .map(|column| (column, std::mem::take(&mut self.scratch[usize::from(column)])))
            .collect();
        let stamp = self.stamp;
        table.update(slot, &patch, stamp, self.undo()?);
        Ok(())
    }
}

impl Access for PieceAccess<'_> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        if !is_real(table) {
            return self.recall_row(table, out);
        }
        let table = self.table(table)?;
        Ok(table.find(key.as_bytes()).and_then(|slot| table.read(slot, LATEST, columns, out)))
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        if is_real(table) {
            return Ok(self.find(self.table(table)?, key).is_some());
        }
        match meaning(table) {
            Meaning::Note(table) => self.spaces.note(table, key),
            Meaning::Any => self.spaces.note_any(),
            _ => {
                let place = self.recall(table)?;
                return Ok(self.next_recalled(place, 1)? == [Value::Bool(true)]);
            }
        }
        Ok(false)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        if !is_real(table) {
            self.export(table, &command.inputs)?;
            return Ok(true);
        }
        let table = self.table(table)?;
        let Some(slot) = self.find(table, key) else {
            return Ok(false);
        };
        self.apply(table, slot, &command)?;
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let table = self.table(table)?;
        let free = self.find(table, &key).is_none();
        if free {
            let stamp = self.stamp;
            table.insert(key.as_bytes(), &row, stamp, self.undo()?);
        }
        Ok(free)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        let table = self.table(table)?;
        let Some(slot) = self.find(table, key) else {
            return Ok(false);
        };
        let stamp = self.stamp;
        table.delete(slot, stamp, self.undo()?);
        Ok(true)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        if !is_real(range.table) {
            return self.recall_rows(range.table, columns.len(), visit);
        }
        Stored(LATEST).scan(self.table(range.table)?, range, columns, visit).map(drop)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let id = self.stamp.row_id(self.row_ids);
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.now_us
    }
}
