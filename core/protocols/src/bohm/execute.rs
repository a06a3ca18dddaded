//! Executes a segment: each transaction reads the versions that precede its own, and fills the
//! placeholders that were laid out for its writes.

use std::sync::Arc;

use concurrency::accesses::KeyAccess;
use concurrency::{Block, Moment, NoRecord, Outcome, Overlay, PendingWrite, WriteState};
use procedure::access::{Command, Row};
use procedure::{Frame, Meter, ProgramResult};
use storage::{Catalog, LATEST, Slot, Table};
use types::{ColumnId, Stop, TableId, Value};

use super::mutant::Mutant;
use super::sight::Sight;
use concurrency::install::Patch;

use super::versions::{State, Version, Versions};

/// One worker's.
pub struct Executor {
    catalog: Arc<Catalog>,
    overlay: Overlay<NoRecord, Sight>,
    frame: Frame,
    scratch: Vec<Value>,
    mutant: Option<Mutant>,
}

impl Executor {
    pub fn new(
        catalog: Arc<Catalog>,
        versions: Arc<Versions>,
        block: &Block,
        mutant: Option<Mutant>,
    ) -> Executor {
        let scans_see_versions = mutant != Some(Mutant::NoVersionsInScans);
        let sight = Sight::new(versions, block.height, scans_see_versions);
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        Executor {
            overlay: Overlay::over(Arc::clone(&catalog), sight, nowhere, NoRecord),
            catalog,
            frame: Frame::metered(Meter::of(block.budget)),
            scratch: Vec::new(),
            mutant,
        }
    }

    /// Run the transaction at `at` and fill every placeholder of its. `Err`: halt.
    pub fn run(&mut self, block: &Block, at: u32) -> Result<Outcome, String> {
        let run = self.attempt(block, at);
        for version in self.overlay.below_mut().versions.all_own(at) {
            // Written already, or never.
            let _ = version.state.set(match self.mutant {
                Some(Mutant::EmptyPlaceholderDeletes) => State::Deleted,
                _ => State::Unchanged,
            });
        }
        Outcome::from_run(run)
    }

    fn attempt(&mut self, block: &Block, at: u32) -> Result<ProgramResult, Stop> {
        let work = &block.transactions[at as usize];
        let now_us = work.now_us(block.time_us);
        self.overlay.below_mut().turn_to(at);
        self.overlay.restart(Moment { height: block.height, position: at, now_us });
        let result = work.run(&mut self.frame, &mut self.overlay)?;
        let mut writes = self.overlay.take_writes();
        // All or nothing: a command may fail on the value that it meets.
        let states = writes
            .iter_mut()
            .map(|write| self.state(write, now_us))
            .collect::<Result<Vec<State>, Stop>>()?;
        let sight = self.overlay.below_mut();
        let mut added: Vec<(TableId, Vec<(types::Key, Row)>)> = Vec::new();
        for (write, state) in writes.iter().zip(states) {
            let access = KeyAccess::new(write.table, write.key.clone(), true);
            match (sight.versions.own(at, &access), state) {
                (Some(version), state) => fill(version, state)?,
                (None, State::Row(row)) => {
                    let row = (write.key.clone(), row);
                    match added.iter_mut().find(|(table, _)| *table == write.table) {
                        Some((_, rows)) => rows.push(row),
                        None => added.push((write.table, vec![row])),
                    }
                }
                // Added and taken away again.
                (None, State::Deleted) => {}
                (None, _) => return Err(no_placeholder()),
            }
        }
        for (table, rows) in added {
            let version = sight.versions.own_added(at, table).ok_or_else(no_placeholder)?;
            fill(version, State::Added(table, rows))?;
        }
        self.overlay.recycle(writes);
        Ok(result)
    }

    /// What a write makes of its record.
    fn state(&mut self, write: &mut PendingWrite, now_us: i64) -> Result<State, Stop> {
        let commands = match &mut write.state {
            WriteState::Put(row) => return Ok(State::Row(std::mem::take(row))),
            WriteState::Delete => return Ok(State::Deleted),
            WriteState::Commands(commands) => commands,
        };
        let gone = || Stop::Halt("a table vanished within a block".to_owned());
        let table = self.catalog.table(write.table).ok_or_else(gone)?;
        let before = self.overlay.below_mut().version(table, &write.key).map(Version::made);
        let patch = match before {
            None => Patch::new(),
            Some(State::Patch(patch)) => patch.clone(),
            Some(State::Row(row)) => {
                let mut row = row.clone();
                apply(commands, &mut row, now_us)?;
                return Ok(State::Row(row));
            }
            Some(_) => {
                return Err(Stop::Halt("an update command met a deleted row".to_owned()));
            }
        };
        let scratch = &mut self.scratch;
        patched(table, write.slot, commands, patch, scratch, now_us).map(State::Patch)
    }
}

/// The stored row's patch after some commands. Only columns that they ask for are read.
fn patched(
    table: &Table,
    slot: Option<Slot>,
    commands: &[Command],
    mut patch: Patch,
    scratch: &mut Vec<Value>,
    now_us: i64,
) -> Result<Patch, Stop> {
    // A column that was not loaded is not looked at, so what is left of other rows may stay.
    scratch.resize(table.schema().columns.len(), Value::Null);
    let mut columns: Vec<ColumnId> =
        commands.iter().flat_map(|command| command.code.columns.iter().copied()).collect();
    columns.sort_unstable();
    columns.dedup();
    if !columns.is_empty() {
        let mut values = vec![Value::Null; columns.len()];
        if slot.and_then(|slot| table.read(slot, LATEST, &columns, &mut values)).is_none() {
            return Err(Stop::Halt("an update command met no row".to_owned()));
        }
        for (&column, value) in columns.iter().zip(values) {
            scratch[usize::from(column)] = value;
        }
        for (column, value) in &patch {
            scratch[usize::from(*column)] = value.clone();
        }
    }
    apply(commands, scratch, now_us)?;
    for command in commands {
        for &(column, _) in &command.code.assignments {
            let value = scratch[usize::from(column)].clone();
            match patch.iter_mut().find(|(patched, _)| *patched == column) {
                Some((_, old)) => *old = value,
                None => patch.push((column, value)),
            }
        }
    }
    Ok(patch)
}

fn apply(commands: &[Command], row: &mut [Value], now_us: i64) -> Result<(), Stop> {
    commands.iter().try_for_each(|command| Ok(command.apply(row, now_us)?))
}

fn fill(version: &Version, state: State) -> Result<(), Stop> {
    let twice = || Stop::Halt("a placeholder was filled twice".to_owned());
    version.state.set(state).map_err(|_| twice())
}

fn no_placeholder() -> Stop {
    Stop::Halt("a write without a placeholder".to_owned())
}
