//! Executing: workers drain queues, each fragment straight into the store.
//!
//! ```text
//!   take a queue from the board
//!     fragment whose inputs are not there yet     park the queue, take another
//!     whole transaction, other queues missing     park the queue, take another
//!     … the last of its queues comes to it        run it, and publish that it is done
//!     otherwise                                   run it, publish what others need
//!   give the queue back as drained
//! ```
//!
//! Records are fetched some fragments ahead: the planner has found them.
//!
//! An operation that fails (an overflow, a CHECK, an input that failed) writes nothing, marks its
//! transaction and poisons what it and those after it in its fragment would have published. All
//! other fragments of the transaction run nevertheless: what the block does must not depend on who
//! was faster.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use concurrency::{Block, Moment, Outcome};
use procedure::bound::Metering;
use procedure::interpret::row_id_taken;
use procedure::{Budget, CommandCode, Expr, Frame, Meter, WRITTEN_BYTES_PER_UNIT, eval_key};
use storage::{Slot, Table, UndoArena};
use types::{ColumnId, Stop, Value};

use super::action::{Action, EXPRESSION_UNITS};
use super::batch::Batch;
use super::board::Wait;
use super::commit::Findings;
use super::guard::{GUARD_UNITS, Guard, Sight};
use super::in_place::{InPlace, unforeseen};
use super::mutant::Mutant;
use super::plan::{Cut, Kind, Output, Share, fill};
use super::program::{Counter, Operation, Program, Publish, Template, Turns};
use super::queues::{ABSENT, Entry, WHOLE};

/// Fragments ahead of which a record is fetched.
const AHEAD: usize = 12;

/// Whole transactions ahead of which index entries are fetched, and then the records.
const WHOLES_AHEAD: [usize; 2] = [4, 2];

/// What became of the head of a queue.
enum Step {
    /// So many entries are done.
    Done(usize),
    /// So many are done, and the next waits.
    Wait(usize, Wait),
}

pub struct Worker<'a> {
    batch: &'a Batch,
    pub place: InPlace<'a>,
    /// By share: turns that found their row, by reduction.
    pub counts: Vec<Vec<u32>>,
    registers: Vec<Value>,
    inputs: Vec<Value>,
    assigned: Vec<(ColumnId, Value)>,
    frame: Frame,
    guard_meter: Meter,
    expression_meter: Meter,
}

/// A fragment that is being run.
struct At<'t> {
    program: &'t Program,
    template: &'t Template,
    entry: &'t Entry,
    arguments: &'t [Value],
    slot: Option<Slot>,
    /// Arguments and the turn's value are in their registers.
    is_filled: bool,
}

impl<'a> Worker<'a> {
    pub fn new(batch: &'a Batch, undo: &'a mut UndoArena) -> Self {
        let Batch { catalog, tentative, speculates, mutant, .. } = batch;
        Worker {
            place: InPlace::new(catalog, undo, tentative, *speculates, *mutant),
            counts: batch.shares.iter().map(|share| vec![0; share.counts as usize]).collect(),
            batch,
            registers: Vec::new(),
            inputs: Vec::new(),
            assigned: Vec::new(),
            frame: Frame::metered(Meter::of(batch.block.budget)),
            guard_meter: Meter::new(GUARD_UNITS, None),
            expression_meter: Meter::new(EXPRESSION_UNITS, None),
        }
    }

    pub fn findings(self) -> Findings {
        let InPlace { log, edges, scans, .. } = self.place;
        Findings { counts: self.counts, log, edges, scans }
    }

    /// Drain queues until none is left. `Err`: halt.
    pub fn work(&mut self) -> Result<(), String> {
        while let Some((id, position)) = self.batch.board.take(|wait| self.batch.is_there(wait)) {
            self.drain(id, position)?;
        }
        Ok(())
    }

    fn drain(&mut self, id: usize, mut position: usize) -> Result<(), String> {
        let batch = self.batch;
        let (share_id, queue) = batch.queues[id];
        let share = &batch.shares[share_id as usize];
        let entries = &*share.queues[queue as usize].entries;
        for entry in entries[position..].iter().take(AHEAD) {
            self.fetch(share, entry);
        }
        while let Some(rest) = entries.get(position..).filter(|rest| !rest.is_empty()) {
            if let Some(entry) = rest.get(AHEAD) {
                self.fetch(share, entry);
            }
            if !share.places.is_empty() {
                self.foresee(share, rest);
            }
            let step = match &share.transactions[rest[0].transaction as usize].kind {
                Kind::Cut(cut) => self.fragment(share_id, cut, &rest[0])?,
                Kind::Whole(whole) => self.whole(share_id, *whole, rest)?,
                Kind::Reader | Kind::Tail => Step::Done(1),
            };
            match step {
                Step::Done(count) => position += count,
                Step::Wait(count, wait) => {
                    batch.board.park(id, position + count, wait);
                    return Ok(());
                }
            }
        }
        batch.board.finish(id);
        Ok(())
    }

    #[inline]
    fn fetch(&self, share: &Share, entry: &Entry) {
        if entry.slot == ABSENT || entry.template == WHOLE {
            return;
        }
        if let Kind::Cut(cut) = &share.transactions[entry.transaction as usize].kind {
            let template = &self.batch.program(cut).templates[usize::from(entry.template)];
            if let Some(table) = self.batch.catalog.table(template.table) {
                table.prefetch_row(Slot(entry.slot));
            }
        }
    }

    /// Fetch what the whole transactions to come will look up: index entries first, and when they
    /// have come, the records that they lead to. One that waits for other queues too is left to the
    /// last of them.
    fn foresee(&self, share: &Share, rest: &[Entry]) {
        let places = |ahead: usize| {
            let transaction = rest.get(ahead).map(|entry| entry.transaction);
            let before = rest.get(ahead - 1).map(|entry| entry.transaction);
            let Some(transaction) = transaction.filter(|_| before != transaction) else {
                return [].iter();
            };
            let kind = &share.transactions[transaction as usize].kind;
            let Kind::Whole(whole) = kind else { return [].iter() };
            let whole = &share.wholes[*whole as usize];
            let here = rest[ahead..].iter().take_while(|entry| entry.transaction == transaction);
            if whole.missing.load(Ordering::Relaxed) as usize > here.count() {
                return [].iter();
            }
            let Range { start, end } = whole.places;
            share.places[start as usize..end as usize].iter()
        };
        let [entries_ahead, records_ahead] = WHOLES_AHEAD;
        for (table, hash) in places(entries_ahead) {
            if let Some(table) = self.batch.catalog.table(*table) {
                table.prefetch_hashed(*hash);
            }
        }
        for (table, hash) in places(records_ahead) {
            if let Some(table) = self.batch.catalog.table(*table) {
                table.prefetch_guess(*hash);
            }
        }
    }

    fn fragment(&mut self, share_id: u32, cut: &Cut, entry: &Entry) -> Result<Step, String> {
        let batch = self.batch;
        let share = &batch.shares[share_id as usize];
        let position = share.transactions[entry.transaction as usize].position;
        let program = batch.program(cut);
        let template = &program.templates[usize::from(entry.template)];
        let registers = usize::from(program.registers);
        if self.registers.len() < registers {
            self.registers.resize_with(registers, Value::default);
        }
        let mut is_poisoned = false;
        if !template.inputs.is_empty() {
            match self.take_inputs(share_id, cut, program, template, entry.turn) {
                Ok(poisoned) => is_poisoned = poisoned,
                Err(wait) => return Ok(Step::Wait(0, wait)),
            }
        }
        let Block { height, time_us: now_us, .. } = *batch.block;
        let [part, turn, id] = [template.part, entry.turn, entry.template].map(u64::from);
        let ordinal = part << 48 | turn << 32 | id << 16;
        let mut at = At {
            program,
            template,
            entry,
            arguments: batch.arguments(position),
            slot: Some(Slot(entry.slot)).filter(|slot| slot.0 != ABSENT),
            is_filled: false,
        };
        for (place, operation) in (0..).zip(&template.operations) {
            if !cut.may_happen(entry.template, place as usize) {
                self.fill_nothing(operation);
                continue;
            }
            let moment = Moment { height, position, now_us };
            self.place.enter(moment, ordinal | place, batch.speculates);
            let found = match is_poisoned {
                true => Err(unforeseen()),
                false => self.perform_if(&mut at, operation),
            };
            let found = match found {
                Ok(found) => found,
                Err(Stop::Halt(why)) => return Err(why),
                Err(_) => {
                    batch.failed[position as usize].store(true, Ordering::Relaxed);
                    is_poisoned = true;
                    None
                }
            };
            if template.operations.len() > 1 && found != Some(true) {
                self.fill_nothing(operation);
            } else if template.operations.len() > 1 {
                self.registers[usize::from(operation.found.0)].set(Value::Bool(true));
            }
            self.publish(share_id, cut, &at, operation, found, is_poisoned);
        }
        Ok(Step::Done(1))
    }

    /// `found`: whether there was a row; `None` where it did not happen.
    fn publish(
        &mut self,
        share_id: u32,
        cut: &Cut,
        at: &At<'_>,
        operation: &Operation,
        found: Option<bool>,
        poisoned: bool,
    ) {
        match &operation.publish {
            Publish::Nothing => {}
            Publish::Count(reduction) => {
                if found == Some(true) {
                    let place = cut.first_count + u32::from(*reduction);
                    self.counts[share_id as usize][place as usize] += 1;
                }
            }
            Publish::Cell { cell, columns, is_awaited } => {
                let (skipped, found) = (found.is_none(), found == Some(true));
                let first = usize::from(operation.out.0);
                let column = |place: &u16| self.registers[first + usize::from(*place)].copied();
                let columns = if found { &**columns } else { &[] };
                let columns = columns.iter().map(column).collect();
                let output = Output { poisoned, skipped, found, columns };
                let cell = cut.cell(at.program, at.template.part, at.entry.turn, *cell);
                publish(&self.batch.shares[share_id as usize].cells, cell, output);
                if *is_awaited {
                    self.batch.board.published();
                }
            }
        }
    }

    /// What an operation that found no row, or did not happen, leaves behind.
    fn fill_nothing(&mut self, operation: &Operation) {
        if let Action::Read { columns } = &operation.action {
            let first = usize::from(operation.out.0);
            let registers = &mut self.registers[first..first + columns.len()];
            registers.iter_mut().for_each(|register| register.set(Value::Null));
        }
        self.registers[usize::from(operation.found.0)].set(Value::Bool(false));
    }

    /// An update whose failing the planner has decided.
    fn assign<'v>(
        &mut self,
        (table, slot): (&Table, Option<Slot>),
        code: &'v CommandCode,
        inputs: &'v [Expr],
        arguments: &'v [Value],
    ) -> Result<bool, Stop> {
        // Arguments that are set as they are, as most are, go from the call to the record.
        let set = |value: &'v Expr| match value {
            Expr::Reg(input) => inputs.get(usize::from(input.0))?.in_place(arguments, &[]),
            value => value.in_place(&[], &[]),
        };
        let values = code.assignments.iter().map(|(column, value)| Some((*column, set(value)?)));
        if values.clone().all(|value| value.is_some()) {
            return Ok(self.place.assign_at(table, slot, values.flatten()));
        }
        let now_us = self.batch.block.time_us;
        eval_all(inputs, arguments, now_us, &mut self.inputs)?;
        self.assigned.clear();
        for (column, value) in &code.assignments {
            self.assigned.push((*column, value.eval(&self.inputs, &[], now_us)?));
        }
        let values = self.assigned.iter().map(|(column, value)| (*column, value));
        Ok(self.place.assign_at(table, slot, values))
    }

    /// Put what other fragments published into the registers. `Ok(true)`: one of them failed.
    fn take_inputs(
        &mut self,
        share: u32,
        cut: &Cut,
        program: &Program,
        template: &Template,
        turn: u16,
    ) -> Result<bool, Wait> {
        let cells = &self.batch.shares[share as usize].cells;
        let nothing = Output::default();
        for input in &template.inputs {
            if !cut.may_happen(input.template, usize::from(input.place)) {
                self.registers[usize::from(input.register.0)].set(match input.column {
                    None => Value::Bool(false),
                    Some(_) => Value::Null,
                });
                continue;
            }
            // Within a loop the same turn's, else the only one's.
            let turn = if input.part == template.part { turn } else { 0 };
            let cell = cut.cell(program, input.part, turn, input.cell);
            let output = match cells[cell as usize].get() {
                Some(output) => output,
                None if self.batch.mutant == Some(Mutant::NoDataDependencies) => &nothing,
                None => return Err(Wait::Cell { share, cell }),
            };
            if output.poisoned {
                return Ok(true);
            }
            self.registers[usize::from(input.register.0)].set(match input.column {
                None => Value::Bool(output.found),
                // A row that is not there reads as NULLs.
                Some(column) => {
                    output.columns.get(usize::from(column)).map(Value::copied).unwrap_or_default()
                }
            });
        }
        Ok(false)
    }

    /// Do what an operation does, if it happens at all. Returns whether the row was there (or, for
    /// an insert, was not).
    fn perform_if(&mut self, at: &mut At<'_>, operation: &Operation) -> Result<Option<bool>, Stop> {
        if !operation.guards.is_empty() || operation.foreseen_by_turn {
            self.fill(at)?;
            let now_us = self.batch.block.time_us;
            let sight = Sight { registers: &self.registers, now_us, meter: &self.guard_meter };
            // The planner has looked at what arguments decide for all turns, and where a fragment
            // is one operation for each.
            let is_foreseen = at.template.operations.len() == 1
                || !operation.foreseen_by_turn
                || Guard::all_hold(&operation.foreseen, sight)?;
            if !is_foreseen || !Guard::all_hold(&operation.guards, sight)? {
                return Ok(None);
            }
        }
        self.perform(at, operation).map(Some)
    }

    fn perform(&mut self, at: &mut At<'_>, operation: &Operation) -> Result<bool, Stop> {
        let batch = self.batch;
        let table = batch.catalog.table(at.template.table).ok_or_else(unforeseen)?;
        let now_us = batch.block.time_us;
        match &operation.action {
            Action::Read { columns } => {
                let slot = self.slot(table, at)?;
                let first = usize::from(operation.out.0);
                let out = &mut self.registers[first..first + columns.len()];
                Ok(self.place.read_at(table, slot, columns, out).is_some())
            }
            Action::Exists => {
                let slot = self.slot(table, at)?;
                Ok(self.place.exists_at(table, slot))
            }
            Action::Delete { .. } => {
                let slot = self.slot(table, at)?;
                Ok(self.place.delete_at(table, slot))
            }
            Action::Update { code, inputs, decided: true } => {
                let slot = self.slot(table, at)?;
                self.assign((table, slot), code, inputs, at.arguments)
            }
            Action::Update { code, decided: false, .. } => {
                let slot = self.slot(table, at)?;
                self.fill(at)?;
                // As in a run from start to end: inputs are evaluated though there be no row.
                self.eval_paid(at, operation)?;
                // So many shares a transaction has for certain; one that needs more runs with a
                // meter.
                let share = batch.block.budget.of_any_command();
                let allowance = code.allowance(&self.inputs, share);
                if let Metering::Bounded(bound) = &code.metering
                    && bound.units(&self.inputs) > share.units_max
                {
                    return Err(unforeseen());
                }
                self.place.update_at(table, slot, code, &self.inputs, allowance)
            }
            Action::Insert { hidden_row_id, .. } => {
                self.fill(at)?;
                self.eval_paid(at, operation)?;
                let key = match hidden_row_id {
                    true => {
                        let id = Value::Uuid(self.place.stamp().row_id(at.entry.slot));
                        self.inputs.push(id.clone());
                        eval_key(&[Expr::Const(id)], &[], &[], now_us)?
                    }
                    false => eval_key(&at.template.key, &self.registers, &[], now_us)?,
                };
                let key = key.ok_or_else(unforeseen)?;
                let slot = table.find(key.as_bytes());
                let added = self.place.insert_at(table, slot, key.as_bytes(), &self.inputs);
                match added || !hidden_row_id {
                    true => Ok(added),
                    false => Err(row_id_taken(table.id())),
                }
            }
            // Done while planning.
            Action::Query(_) | Action::Require(_) => Err(unforeseen()),
        }
    }

    /// The inputs of an update, or the values of a row.
    fn eval_paid(&mut self, at: &At<'_>, operation: &Operation) -> Result<(), Stop> {
        let now_us = self.batch.block.time_us;
        self.inputs.clear();
        if operation.is_brief {
            for expr in operation.action.exprs() {
                self.inputs.push(expr.eval(&self.registers, &[], now_us)?);
            }
            return Ok(());
        }
        let meter = &self.expression_meter;
        let long = operation.action.long_exprs().max(1) as u64;
        meter.set_budget(Budget { units_max: long * EXPRESSION_UNITS, ..Budget::default() });
        meter.refill();
        for expr in operation.action.exprs() {
            let value = expr.eval_metered(&self.registers, &[], now_us, meter)?;
            // The planner has paid for what arguments weigh.
            if !matches!(expr, Expr::Reg(r) if usize::from(r.0) < at.arguments.len()) {
                meter.spend((value.weight_beside() / WRITTEN_BYTES_PER_UNIT) as u64)?;
            }
            self.inputs.push(value);
        }
        Ok(())
    }

    /// The record of a fragment: as planned, or looked up now.
    #[inline]
    fn slot(&mut self, table: &Table, at: &mut At<'_>) -> Result<Option<Slot>, Stop> {
        if at.slot.is_none() {
            self.fill(at)?;
            let now_us = self.batch.block.time_us;
            let key = eval_key(&at.template.key, &self.registers, &[], now_us)?;
            at.slot = key.and_then(|key| table.find(key.as_bytes()));
        }
        Ok(at.slot)
    }

    /// Arguments and the turn's value to their registers.
    fn fill(&mut self, at: &mut At<'_>) -> Result<(), Stop> {
        if std::mem::replace(&mut at.is_filled, true) {
            return Ok(());
        }
        let (template, arguments) = (at.template, at.arguments);
        fill(&mut self.registers, usize::from(at.program.registers), template, arguments);
        let now_us = self.batch.block.time_us;
        let turn = usize::from(at.entry.turn);
        let value = match &at.program.parts[usize::from(template.part)].turns {
            Turns::Once => return Ok(()),
            Turns::Each { array, .. } => {
                let array = array.eval_ref(arguments, &[], now_us)?;
                array.as_array().and_then(|elements| elements.get(turn)).map(Value::copied)
            }
            Turns::Count { known: Some((first, step)), .. } => {
                Some(Value::Int(first + step * turn as i64))
            }
            Turns::Count { bounds, reverse, .. } => {
                let counter = Counter::of(bounds, *reverse, arguments, now_us);
                counter.map(|counter| Value::Int(counter.at(turn)))
            }
        };
        if let Some(register) = template.turn {
            self.registers[usize::from(register.0)].set(value.ok_or_else(unforeseen)?);
        }
        Ok(())
    }

    /// A transaction that runs in one piece, at the head of one of its queues.
    fn whole(&mut self, share_id: u32, id: u32, rest: &[Entry]) -> Result<Step, String> {
        let batch = self.batch;
        let share = &batch.shares[share_id as usize];
        let whole = &share.wholes[id as usize];
        let transaction = rest[0].transaction;
        let here = rest.iter().take_while(|entry| entry.transaction == transaction).count();
        let missing = whole.missing.fetch_sub(here as u32, Ordering::AcqRel);
        if batch.mutant == Some(Mutant::NoTokens) {
            if whole.done.load(Ordering::Acquire) {
                return Ok(Step::Done(here));
            }
        } else if missing != here as u32 {
            return Ok(Step::Wait(here, Wait::Whole { share: share_id, whole: id }));
        }
        let position = share.transactions[transaction as usize].position;
        let work = &batch.block.transactions[position as usize];
        let Block { height, time_us, .. } = *batch.block;
        let moment = Moment { height, position, now_us: work.now_us(time_us) };
        let frame = &mut self.frame;
        let run = self.place.whole(moment, |access| {
            let result = work.run(frame, access)?;
            // What a scan passes over is paid for by the specification's workspace only.
            match frame.meter().left() < batch.block.budget.units_max / 2 {
                true => Err(unforeseen()),
                false => Ok(result),
            }
        });
        match run {
            Ok((result, depends)) => {
                let _ = whole.outcome.set(Outcome::Committed(result));
                batch.tentative[position as usize].store(depends, Ordering::Relaxed);
            }
            Err(Stop::Halt(why)) => return Err(why),
            Err(_) => batch.failed[position as usize].store(true, Ordering::Relaxed),
        }
        whole.done.store(true, Ordering::Release);
        batch.board.published();
        Ok(Step::Done(here))
    }
}

fn publish(cells: &[OnceLock<Output>], cell: u32, output: Output) {
    let fresh = cells[cell as usize].set(output).is_ok();
    debug_assert!(fresh, "a fragment runs once");
}

fn eval_all(
    exprs: &[Expr],
    registers: &[Value],
    now_us: i64,
    out: &mut Vec<Value>,
) -> Result<(), Stop> {
    out.clear();
    for expr in exprs {
        out.push(expr.eval(registers, &[], now_us)?);
    }
    Ok(())
}
