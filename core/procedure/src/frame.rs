//! [`Frame`]: the working memory of a run (registers, loops, notices), and the part of the
//! interpreter that touches no data.

use smallvec::SmallVec;
use types::key::{encode_column, encode_int_key};
use types::{ColumnId, Error, Key, SqlState, Stop, TableId, Value};

use crate::access::Row;
use crate::condition::sqlstate_of_condition;
use crate::expr::{Expr, Reg};
use crate::interpret::Flow;
use crate::key::{eval_key_metered, key_of_integers};
use crate::meter::{Meter, ROW_WEIGHT};
use crate::step::{Carried, Notice, NoticeLevel, OnError, Phi, Procedure};

/// What a procedure gives back.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProgramResult {
    pub rows: Vec<Row>,
    /// What the command tag reports: rows inserted, updated, deleted.
    pub count: u64,
    /// For the client alone: no outcome in a ledger has them.
    pub notices: Vec<Notice>,
}

/// Of one run; further ones are not kept.
const NOTICES_MAX: usize = 1000;

/// The working memory of one run, made for use by many runs one after the other.
#[derive(Default, Debug)]
pub struct Frame {
    pub(crate) registers: Vec<Value>,
    staged: SmallVec<[Value; 4]>,
    pub(crate) result: ProgramResult,
    pub(crate) meter: Meter,
    pub(crate) now_us: i64,
}

impl Frame {
    pub fn new() -> Self {
        Frame::default()
    }

    /// One whose runs spend from `meter`.
    pub fn metered(meter: Meter) -> Self {
        Frame { meter, ..Frame::default() }
    }

    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Get ready to run `procedure` from its start. `now_us`: what `now()` answers. The meter goes
    /// on: a transaction may be several runs.
    pub fn enter(
        &mut self,
        procedure: &Procedure,
        arguments: &[Value],
        now_us: i64,
    ) -> Result<(), Error> {
        if arguments.len() != procedure.parameters.len() {
            return Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "\"{}\" takes {} arguments, but {} were given",
                    procedure.name,
                    procedure.visible_parameters().len(),
                    (arguments.len() + procedure.visible_parameters().len())
                        .saturating_sub(procedure.parameters.len())
                ),
            ));
        }
        let registers = usize::from(procedure.registers).max(arguments.len());
        self.registers.resize_with(registers, Value::default);
        let (given, others) = self.registers.split_at_mut(arguments.len());
        given.clone_from_slice(arguments);
        for other in others {
            other.set(Value::Null);
        }
        self.staged.clear();
        self.result.rows.clear();
        self.result.count = 0;
        self.result.notices.clear();
        self.now_us = now_us;
        Ok(())
    }

    /// Get ready to run what is left of a procedure, of whose arguments it uses some.
    pub(crate) fn enter_partly(
        &mut self,
        registers: usize,
        used: &[Reg],
        arguments: &[Value],
        now_us: i64,
    ) {
        self.registers.resize_with(registers, Value::default);
        self.registers.iter_mut().for_each(|register| register.set(Value::Null));
        for register in used {
            let place = usize::from(register.0);
            self.registers[place].set(arguments[place].copied());
        }
        self.staged.clear();
        self.result.rows.clear();
        self.result.count = 0;
        self.result.notices.clear();
        self.now_us = now_us;
    }

    /// Take what the run gave back.
    pub fn leave(&mut self) -> ProgramResult {
        std::mem::take(&mut self.result)
    }

    pub fn registers(&self) -> &[Value] {
        &self.registers
    }

    #[inline]
    pub fn get(&self, register: Reg) -> &Value {
        &self.registers[usize::from(register.0)]
    }

    #[inline]
    pub fn set(&mut self, register: Reg, value: Value) {
        self.registers[usize::from(register.0)].set(value);
    }

    #[inline]
    pub(crate) fn eval(&self, expr: &Expr) -> Result<Value, Error> {
        expr.eval_metered(&self.registers, &[], self.now_us, &self.meter)
    }

    /// Only true is true: SQL's unknown is not.
    #[inline]
    pub(crate) fn holds(&self, condition: &Expr) -> Result<bool, Error> {
        let truth = condition.eval_truth_metered(&self.registers, &[], self.now_us, &self.meter)?;
        Ok(truth == Some(true))
    }

    /// `None`: the key has a NULL in it, so that no row has it.
    pub(crate) fn key(&self, columns: &[Expr]) -> Result<Option<Key>, Error> {
        eval_key_metered(columns, &self.registers, self.now_us, &self.meter)
    }

    /// Evaluate all of `values` before any register changes: they may be read crosswise.
    pub(crate) fn stage<'e>(
        &mut self,
        values: impl Iterator<Item = &'e Expr>,
    ) -> Result<(), Error> {
        self.staged.clear();
        for value in values {
            let value = self.eval(value)?;
            self.staged.push(value);
        }
        Ok(())
    }

    /// What a turn that ended early has brought along.
    pub(crate) fn take_staged(&mut self) -> SmallVec<[Value; 4]> {
        std::mem::take(&mut self.staged)
    }

    pub(crate) fn carry(&mut self, carried: &[Carried]) {
        for (carried, value) in carried.iter().zip(self.staged.drain(..)) {
            self.registers[usize::from(carried.register.0)].set(value);
        }
    }

    pub(crate) fn enter_loop(&mut self, carried: &[Carried]) -> Result<(), Error> {
        if let [one] = carried {
            let value = self.eval(&one.initial)?;
            self.set(one.register, value);
            return Ok(());
        }
        self.stage(carried.iter().map(|c| &c.initial))?;
        self.carry(carried);
        Ok(())
    }

    /// What follows a turn that ended with `flow`: the next one, or the loop ends with a flow.
    pub(crate) fn end_turn(&mut self, flow: Flow, carried: &[Carried]) -> Result<Turn, Error> {
        Ok(match flow {
            Flow::Next if carried.len() <= 1 => {
                for one in carried {
                    let value = self.eval(&one.next)?;
                    self.set(one.register, value);
                }
                Turn::Repeat
            }
            Flow::Next => {
                self.stage(carried.iter().map(|c| &c.next))?;
                self.carry(carried);
                Turn::Repeat
            }
            Flow::Continue(0) => {
                self.carry(carried);
                Turn::Repeat
            }
            Flow::Exit(0) => {
                self.carry(carried);
                Turn::End(Flow::Next)
            }
            Flow::Continue(depth) => Turn::End(Flow::Continue(depth - 1)),
            Flow::Exit(depth) => Turn::End(Flow::Exit(depth - 1)),
            Flow::Return => Turn::End(Flow::Return),
        })
    }

    pub(crate) fn merge(&mut self, phis: &[Phi], taken: bool) -> Result<(), Error> {
        for phi in phis {
            let from = if taken { &phi.then } else { &phi.otherwise };
            let value = match from {
                Expr::Reg(register) => match self.registers.get(usize::from(register.0)) {
                    Some(value) => value.copied(),
                    None => self.eval(from)?,
                },
                _ => self.eval(from)?,
            };
            self.set(phi.out, value);
        }
        Ok(())
    }

    /// A whole row from its visible values.
    pub(crate) fn row(&self, values: &[Expr], hidden: Option<Value>) -> Result<Row, Error> {
        let room = Vec::with_capacity(values.len() + usize::from(hidden.is_some()));
        let row = self.unpaid_row(room, values, hidden)?;
        self.meter.hold_row(&row)?;
        Ok(row)
    }

    /// The same for one that pays when it knows what becomes of it, in the room that there is for
    /// it.
    pub(crate) fn unpaid_row(
        &self,
        mut row: Vec<Value>,
        values: &[Expr],
        hidden: Option<Value>,
    ) -> Result<Row, Error> {
        for value in values {
            row.push(self.eval(value)?);
        }
        row.extend(hidden);
        Ok(row.into_boxed_slice())
    }

    pub(crate) fn count_rows(&mut self, by: &Expr) -> Result<(), Error> {
        if let Value::Int(by) = self.eval(by)? {
            let by = u64::try_from(by).unwrap_or(0);
            self.result.count = self.result.count.saturating_add(by);
        }
        Ok(())
    }

    /// The error that `on_error` describes, with its texts filled in.
    pub(crate) fn error(&self, on_error: &OnError) -> Result<Error, Error> {
        let plain = on_error.arguments.is_empty()
            && on_error.code.is_none()
            && on_error.detail.is_none()
            && on_error.hint.is_none();
        if plain {
            return Ok(on_error.error.clone());
        }
        let mut fields = on_error.error.fields().clone();
        if !on_error.arguments.is_empty() {
            let arguments = on_error.arguments.iter().map(|a| self.eval(a));
            fields.message = fill_in(&fields.message, &arguments.collect::<Result<Vec<_>, _>>()?);
        }
        if let Some(code) = &on_error.code {
            fields.code = self.sqlstate(code)?;
        }
        if let Some(detail) = &on_error.detail {
            fields.detail = Some(shown(&self.eval(detail)?));
        }
        if let Some(hint) = &on_error.hint {
            fields.hint = Some(shown(&self.eval(hint)?));
        }
        Ok(fields.into())
    }

    /// Its texts are computed, and may fail, whether or not it is kept.
    pub(crate) fn notice(&mut self, level: NoticeLevel, notice: &OnError) -> Result<(), Error> {
        let content = self.error(notice)?.cut();
        if self.result.notices.len() < NOTICES_MAX {
            let fields = content.fields();
            let texts = [&fields.detail, &fields.hint].into_iter().flatten();
            let bytes = fields.message.len() + texts.map(String::len).sum::<usize>();
            self.meter.hold(ROW_WEIGHT + bytes)?;
            self.result.notices.push(Notice { level, content });
        }
        Ok(())
    }

    pub(crate) fn sqlstate(&self, code: &Expr) -> Result<SqlState, Error> {
        let code = shown(&self.eval(code)?);
        SqlState::parse(&code).or_else(|| sqlstate_of_condition(&code)).ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("unrecognized exception condition \"{code}\""),
            )
        })
    }

    pub(crate) fn rejected(&self, on_error: &OnError) -> Stop {
        match self.error(on_error) {
            // A RAISE with 40001 is the program's own decision, the same on every replica.
            Ok(error) | Err(error) => Stop::Rejected(error),
        }
    }
}

/// What follows a turn of a loop.
pub(crate) enum Turn {
    Repeat,
    End(Flow),
}

/// The turns of a `ForRange`: `first`, `first ± step`, … up to `last`.
pub(crate) struct Counter {
    next: Option<i64>,
    last: i64,
    step: i64,
    reverse: bool,
}

impl Counter {
    pub(crate) fn new(
        frame: &Frame,
        first: &Expr,
        last: &Expr,
        step: &Expr,
        reverse: bool,
    ) -> Result<Self, Error> {
        Counter::from_values(&frame.eval(first)?, &frame.eval(last)?, &frame.eval(step)?, reverse)
    }

    pub(crate) fn from_values(
        first: &Value,
        last: &Value,
        step: &Value,
        reverse: bool,
    ) -> Result<Self, Error> {
        let Value::Int(first) = *first else {
            return Err(null_bound("lower bound of FOR loop cannot be null"));
        };
        let Value::Int(last) = *last else {
            return Err(null_bound("upper bound of FOR loop cannot be null"));
        };
        let Value::Int(step) = *step else {
            return Err(null_bound("BY value of FOR loop cannot be null"));
        };
        if step <= 0 {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "BY value of FOR loop must be greater than zero",
            ));
        }
        Ok(Counter { next: Some(first), last, step, reverse })
    }

    /// How many are to come, at most `usize::MAX`.
    pub(crate) fn turns(&self) -> usize {
        let Some(next) = self.next.map(i128::from) else { return 0 };
        let (last, step) = (i128::from(self.last), i128::from(self.step));
        let way = if self.reverse { next - last } else { last - next };
        if way < 0 { 0 } else { usize::try_from(way / step + 1).unwrap_or(usize::MAX) }
    }
}

impl Iterator for Counter {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let current = self.next?;
        let over = if self.reverse { current < self.last } else { current > self.last };
        if over {
            self.next = None;
            return None;
        }
        self.next = if self.reverse {
            current.checked_sub(self.step)
        } else {
            current.checked_add(self.step)
        };
        Some(current)
    }
}

pub(crate) fn row_key(table: TableId, columns: &[ColumnId], row: &Row) -> Result<Key, Stop> {
    let number = |column: &ColumnId| row.get(usize::from(*column))?.as_int();
    if let Some(key) = key_of_integers(columns.iter().map(number)) {
        return Ok(key);
    }
    let mut key = Key::default();
    for column in columns {
        match row.get(usize::from(*column)) {
            Some(Value::Int(number)) => key.0.extend_from_slice(&encode_int_key(*number)),
            Some(value) if !matches!(value, Value::Null) => {
                encode_column(&value.data_type_hint(), false, value, &mut key)?;
            }
            // Programs check NOT NULL before they insert: this one was compiled wrongly.
            _ => {
                return Err(Stop::Rejected(Error::new(
                    SqlState::NOT_NULL_VIOLATION,
                    format!("null value in the primary key of table {}", table.0),
                )));
            }
        }
    }
    Ok(key)
}

#[cold]
pub(crate) fn null_bound(message: &str) -> Error {
    Error::new(SqlState(*b"22004"), message)
}

/// How RAISE shows a value.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<NULL>".to_string(),
        value => value.to_text(&value.data_type_hint()),
    }
}

/// Replace each `%` by the next argument and `%%` by `%`.
fn fill_in(message: &str, arguments: &[Value]) -> String {
    let mut text = String::with_capacity(message.len() + 16 * arguments.len());
    let mut arguments = arguments.iter();
    let mut chars = message.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
        } else if chars.next_if_eq(&'%').is_some() {
            text.push('%');
        } else {
            text.push_str(&arguments.next().map(shown).unwrap_or_default());
        }
    }
    text
}
