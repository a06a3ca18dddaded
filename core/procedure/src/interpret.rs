//! The interpreter: runs a [`Procedure`] against an [`Access`], whole or one step at a time.
//!
//! A walk over the tree of steps. It is generic over `Access` and over nothing else, so that each
//! protocol gets one copy with its data path compiled in; everything that does not touch data is
//! kept out of the generic functions and compiled once.
//!
//! ```text
//! Frame   registers  [ arguments │ single-assignment registers ]   r0 r1 r2 …
//!         staged     values on their way into the carried registers of a loop
//!         rows,count what the client gets
//! ```
//!
//! A frame is used again and again: after its first runs it has the size that the procedures need
//! and a run allocates nothing but what its values need (a new row, a long text).
//!
//! **Bounds.** Every step that runs is paid for, as is every row of a query (see
//! [`meter`](crate::meter)); running out is a deterministic rejection. Nesting is bounded by the
//! parsers, hence the recursion here too.
//!
//! **Single steps.** [`run_step`] runs one step of a frame that was [entered](Frame::enter).
//! Protocols that interleave transactions step by step (queues, healing) call it for the steps of a
//! straight-line body in any order that respects [`analysis`](crate::analysis); running a step
//! again overwrites its registers with what it would have computed in the first place.

use std::ops::ControlFlow;
use std::sync::Arc;

use smallvec::SmallVec;
use types::{ColumnId, Error, Key, SqlState, Stop, TableId, Value};

use crate::access::{Access, Command, CommandCode, Inputs, Row};
use crate::bound::Metering;
use crate::expr::{Expr, Reg};
use crate::frame::{Counter, Frame, ProgramResult, Turn, null_bound, row_key};
use crate::meter::{Budget, DELETE_UNITS, Meter};
use crate::query::Query;
use crate::run_query::run_query;
use crate::step::{Block, Carried, Procedure, Step};

/// Where control goes after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Next,
    /// Out of the loop this many levels out.
    Exit(u16),
    /// To the next turn of the loop this many levels out.
    Continue(u16),
    Return,
}

/// Run `procedure` from start to end, as a transaction of its own.
pub fn run<A: Access>(
    procedure: &Procedure,
    arguments: &[Value],
    frame: &mut Frame,
    access: &mut A,
) -> Result<ProgramResult, Stop> {
    frame.meter.refill();
    run_within(procedure, arguments, frame, access)
}

/// Run `procedure` from start to end, with what the transaction has left to spend.
pub fn run_within<A: Access>(
    procedure: &Procedure,
    arguments: &[Value],
    frame: &mut Frame,
    access: &mut A,
) -> Result<ProgramResult, Stop> {
    frame.enter(procedure, arguments, access.now_us())?;
    run_block(&procedure.body, frame, access)?;
    Ok(frame.leave())
}

/// Run the steps of `block` until its end, or until one of them leads elsewhere.
pub fn run_block<A: Access>(
    block: &Block,
    frame: &mut Frame,
    access: &mut A,
) -> Result<Flow, Stop> {
    for step in block {
        let flow = run_step(step, frame, access)?;
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

/// Run one step, the blocks inside it included.
pub fn run_step<A: Access>(step: &Step, frame: &mut Frame, access: &mut A) -> Result<Flow, Stop> {
    frame.meter.spend(1)?;
    match step {
        Step::Let { out, value } => {
            let value = frame.eval(value)?;
            frame.set(*out, value);
        }
        Step::Require { condition, error } => {
            if !frame.holds(condition)? {
                return Err(frame.rejected(error));
            }
        }
        Step::Raise { error } => return Err(frame.rejected(error)),
        Step::Notice { level, notice } => frame.notice(*level, notice)?,
        Step::Emit { values } => {
            let row = frame.row(values, None)?;
            frame.result.rows.push(row);
        }
        Step::CountRows { by } => frame.count_rows(by)?,
        Step::Return => return Ok(Flow::Return),
        Step::Exit { depth, values } => {
            frame.stage(values.iter())?;
            return Ok(Flow::Exit(*depth));
        }
        Step::Continue { depth, values } => {
            frame.stage(values.iter())?;
            return Ok(Flow::Continue(*depth));
        }
        Step::Read { .. }
        | Step::Exists { .. }
        | Step::Update { .. }
        | Step::Insert { .. }
        | Step::Delete { .. } => run_row_step(step, frame, access)?,
        Step::Fetch { .. } | Step::EmitQuery { .. } => run_query_step(step, frame, access)?,
        Step::If { condition, then, otherwise, phis } => {
            let taken = frame.holds(condition)?;
            let flow = run_block(if taken { then } else { otherwise }, frame, access)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
            frame.merge(phis, taken)?;
        }
        Step::ForRows { .. }
        | Step::ForRange { .. }
        | Step::ForEach { .. }
        | Step::While { .. } => return run_loop(step, frame, access),
    }
    Ok(Flow::Next)
}

/// Steps that touch one row by its primary key.
#[inline]
pub(crate) fn run_row_step<A: Access>(
    step: &Step,
    frame: &mut Frame,
    access: &mut A,
) -> Result<(), Stop> {
    match step {
        Step::Read { table, key, columns, out, found } => {
            let first = usize::from(out.0);
            let present = match frame.key(key)? {
                Some(key) => {
                    frame.meter.note_row(&key)?;
                    let out = &mut frame.registers[first..first + columns.len()];
                    access.read(*table, &key, columns, out)?.is_some()
                }
                None => false,
            };
            if !present {
                frame.registers[first..first + columns.len()].fill(Value::Null);
            }
            frame.set(*found, Value::Bool(present));
        }
        Step::Exists { table, key, found } => {
            let present = match frame.key(key)? {
                Some(key) => {
                    frame.meter.note_row(&key)?;
                    access.exists(*table, &key)?
                }
                None => false,
            };
            frame.set(*found, Value::Bool(present));
        }
        Step::Update { .. } => run_update(step, frame, access)?,
        Step::Insert { table, key, hidden_row_id, values, inserted } => {
            let hidden = hidden_row_id.then(|| Value::Uuid(access.next_row_id()));
            let room = access.room(values.len() + usize::from(*hidden_row_id));
            let row = frame.unpaid_row(room, values, hidden)?;
            frame.meter.pay_insert(&row)?;
            let key = row_key(*table, key, &row)?;
            let added = access.insert(*table, key, row)?;
            if *hidden_row_id && !added {
                return Err(row_id_taken(*table));
            }
            frame.set(*inserted, Value::Bool(added));
        }
        Step::Delete { table, key, long, found } => {
            let present = match frame.key(key)? {
                Some(key) => {
                    frame.meter.spend(DELETE_UNITS)?;
                    if !long.is_empty() && frame.meter.weighs() {
                        weigh(*table, &key, (long, &[]), &frame.meter, access)?;
                    }
                    access.delete(*table, &key)?
                }
                None => false,
            };
            frame.set(*found, Value::Bool(present));
        }
        _ => return Err(Stop::Halt("not a step on one row".to_string())),
    }
    Ok(())
}

/// No two rows are given one hidden id, so a store that holds a row under a new one is in no state
/// that its ledger leads to.
pub fn row_id_taken(table: TableId) -> Stop {
    Stop::Halt(format!("a new row's hidden id is another row's in table {}", table.0))
}

fn run_update<A: Access>(step: &Step, frame: &mut Frame, access: &mut A) -> Result<(), Stop> {
    let Step::Update { table, key, code, inputs, found } = step else {
        return Err(Stop::Halt("not an update".to_string()));
    };
    let present = match frame.key(key)? {
        Some(key) => {
            // Where they are many, their room is made once.
            let mut values = Inputs::with_capacity(inputs.len());
            for input in inputs {
                values.push(frame.eval(input)?);
            }
            frame.meter.pay_update(code.units, code.text_bytes, &values)?;
            issue(*table, &key, code, values, &frame.meter, access)?
        }
        None => false,
    };
    frame.set(*found, Value::Bool(present));
    Ok(())
}

/// Pays for a command and issues it.
fn issue<A: Access>(
    table: TableId,
    key: &Key,
    code: &Arc<CommandCode>,
    inputs: Inputs,
    meter: &Meter,
    access: &mut A,
) -> Result<bool, Stop> {
    if !code.long.is_empty() && meter.weighs() {
        weigh(table, key, (&code.long, &code.assignments), meter, access)?;
    }
    let mut share = Budget::default();
    match &code.metering {
        Metering::Brief => {}
        Metering::Bounded(bound) => meter.spend(bound.units(&inputs))?,
        Metering::Metered(set) => match meter.set_aside() {
            Some(aside) => share = aside,
            None => return read_and_set(table, key, (code, &inputs), set, meter, access),
        },
    }
    let allowance = code.allowance(&inputs, share);
    access.update(table, key, Command { code: Arc::clone(code), inputs, allowance })
}

/// Pays for the long values of a row that is about to change, as it is and, but for those that are
/// assigned, as it will be: both are hashed, and the row is copied.
fn weigh<A: Access>(
    table: TableId,
    key: &Key,
    (long, assignments): (&[ColumnId], &[(ColumnId, Expr)]),
    meter: &Meter,
    access: &mut A,
) -> Result<(), Stop> {
    let mut values: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, long.len());
    meter.spend(1)?;
    if access.read(table, key, long, &mut values)?.is_none() {
        return Ok(());
    }
    meter.spend_write(0, &values)?;
    for (column, value) in long.iter().zip(&values) {
        if !assignments.is_empty() && !assignments.iter().any(|(assigned, _)| assigned == column) {
            meter.spend_write(0, std::slice::from_ref(value))?;
        }
    }
    Ok(())
}

/// What a command does, by a read and a command that only sets.
fn read_and_set<A: Access>(
    table: TableId,
    key: &Key,
    (code, inputs): (&CommandCode, &[Value]),
    set: &Arc<CommandCode>,
    meter: &Meter,
    access: &mut A,
) -> Result<bool, Stop> {
    let mut old: SmallVec<[Value; 4]> = SmallVec::from_elem(Value::Null, code.columns.len());
    meter.spend(1)?;
    if access.read(table, key, &code.columns, &mut old)?.is_none() {
        return Ok(false);
    }
    let assigned = || code.assignments.iter().map(|(column, _)| *column);
    let width = code.columns.iter().copied().chain(assigned()).max().unwrap_or(0);
    let mut row = vec![Value::Null; usize::from(width) + 1];
    for (column, value) in code.columns.iter().zip(old) {
        row[usize::from(*column)] = value;
    }
    code.apply_metered(inputs, &mut row, access.now_us(), meter)?;
    let inputs: Inputs =
        assigned().map(|column| std::mem::take(&mut row[usize::from(column)])).collect();
    meter.spend_write(0, &inputs)?;
    let allowance = set.allowance(&[], Budget::default());
    access.update(table, key, Command { code: Arc::clone(set), inputs, allowance })
}

/// Steps that run a query and need no loop.
pub(crate) fn run_query_step<A: Access>(
    step: &Step,
    frame: &mut Frame,
    access: &mut A,
) -> Result<(), Stop> {
    match step {
        Step::Fetch { query, outputs, found, strict } => {
            let wanted = if *strict { 2 } else { 1 };
            let Gathered { mut rows, weight } = rows_of(query, wanted, frame, access)?;
            frame.meter.release(weight);
            if *strict {
                exactly_one(rows.len())?;
            }
            frame.set(*found, Value::Bool(!rows.is_empty()));
            match rows.first_mut() {
                Some(row) => fill_registers(frame, outputs, row),
                None => outputs.iter().for_each(|out| frame.set(*out, Value::Null)),
            }
        }
        Step::EmitQuery { query } => {
            // What is answered counts until the transaction ends.
            let mut gathered = rows_of(query, usize::MAX, frame, access)?;
            frame.result.rows.append(&mut gathered.rows);
        }
        _ => return Err(Stop::Halt("not a step that runs a query".to_string())),
    }
    Ok(())
}

/// Rows, and what they weigh, which is to be released.
pub(crate) struct Gathered {
    pub(crate) rows: Vec<Row>,
    pub(crate) weight: usize,
}

/// The first rows of a query, at most `wanted`.
pub(crate) fn rows_of<A: Access>(
    query: &Query,
    wanted: usize,
    frame: &mut Frame,
    access: &mut A,
) -> Result<Gathered, Stop> {
    let (mut rows, mut weight) = (Vec::new(), 0);
    run_query(access, query, &frame.registers, &frame.meter, &mut |row| {
        weight += frame.meter.hold_row(row)?;
        rows.push(Row::from(row));
        Ok(match rows.len() < wanted {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(Gathered { rows, weight })
}

fn run_loop<A: Access>(step: &Step, frame: &mut Frame, access: &mut A) -> Result<Flow, Stop> {
    match step {
        Step::While { condition, body, carried } => {
            frame.enter_loop(carried)?;
            while frame.holds(condition)? {
                if let Turn::End(flow) = run_turn(body, carried, frame, access)? {
                    return Ok(flow);
                }
            }
        }
        Step::ForRange { register, first, last, step, reverse, body, carried } => {
            let count = Counter::new(frame, first, last, step, *reverse)?;
            frame.enter_loop(carried)?;
            for i in count {
                frame.set(*register, Value::Int(i));
                if let Turn::End(flow) = run_turn(body, carried, frame, access)? {
                    return Ok(flow);
                }
            }
        }
        Step::ForEach { register, array, body, carried } => {
            let Value::Array(elements) = frame.eval(array)? else {
                return Err(null_bound("FOREACH expression must not be null").into());
            };
            frame.enter_loop(carried)?;
            for element in elements.iter() {
                frame.set(*register, element.copied());
                if let Turn::End(flow) = run_turn(body, carried, frame, access)? {
                    return Ok(flow);
                }
            }
        }
        Step::ForRows { query, row, body, carried } => {
            let Gathered { rows, weight } = rows_of(query, usize::MAX, frame, access)?;
            frame.enter_loop(carried)?;
            for mut values in rows {
                fill_registers(frame, row, &mut values);
                if let Turn::End(flow) = run_turn(body, carried, frame, access)? {
                    frame.meter.release(weight);
                    return Ok(flow);
                }
            }
            frame.meter.release(weight);
        }
        _ => return Err(Stop::Halt("not a loop".to_string())),
    }
    Ok(Flow::Next)
}

fn run_turn<A: Access>(
    body: &Block,
    carried: &[Carried],
    frame: &mut Frame,
    access: &mut A,
) -> Result<Turn, Stop> {
    // An empty body must not loop for free.
    frame.meter.spend(1)?;
    let flow = run_block(body, frame, access)?;
    Ok(frame.end_turn(flow, carried)?)
}

fn fill_registers(frame: &mut Frame, registers: &[Reg], row: &mut Row) {
    for (register, value) in registers.iter().zip(row.iter_mut()) {
        frame.set(*register, std::mem::take(value));
    }
}

fn exactly_one(rows: usize) -> Result<(), Error> {
    match rows {
        0 => Err(Error::new(SqlState::NO_DATA_FOUND, "query returned no rows")),
        1 => Ok(()),
        _ => Err(Error::new(SqlState::TOO_MANY_ROWS, "query returned more than one row")
            .with_hint("Make sure the query returns a single row, or use LIMIT 1.")),
    }
}
