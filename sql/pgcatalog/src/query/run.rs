//! One execution of a query: what it reads, what it may take, how often it may be asked to stop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use kit::pool::Lease;
use sql::analyst::row_bytes;
use storage::Snapshot;
use types::{Error, Result, SqlState, TableId, Value};

use super::around::Around;
use crate::world::{Contents, Row};

/// One execution of a statement.
pub struct Run<'a> {
    pub around: &'a Around,
    pub parameters: &'a [Value],
    /// Rows of common table expressions, by number.
    pub ctes: RefCell<HashMap<usize, Rc<Vec<Row>>>>,
    /// Values of subqueries that do not depend on the rows around them.
    pub(super) cached: RefCell<Vec<Option<Value>>>,
    /// Operands that are at hand, by number.
    pub(super) given: RefCell<Vec<Value>>,
    /// What users' tables are read from, and what was read of them.
    pub users: Users<'a>,
    pub(super) steps: Cell<u32>,
    /// Covers the rows of the largest step, of which the next is made, and those of users' tables.
    pub lease: RefCell<Option<Lease>>,
    pub(super) largest_bytes: Cell<usize>,
}

/// A row at hand, and the rows that the queries around it are at.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub row: &'a [Value],
    pub outer: Option<&'a Env<'a>>,
}

/// Rows of one step of an evaluation, and what they take.
#[derive(Default)]
pub struct Kept {
    pub rows: Vec<Row>,
    bytes: usize,
}

/// What a value may take that a query over catalogs makes. Nested calls that double what they are
/// given reach it soon.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// # Errors
/// 54000 for a value that is too long to be made.
pub fn check_text_bytes(bytes: usize) -> Result<()> {
    match bytes <= TEXT_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
            .with_detail(format!(
                "A value of {bytes} bytes; a query over catalogs makes {TEXT_BYTES_MAX}."
            ))),
    }
}

/// What the rows of one step may take, long strings included.
pub const ROWS_BYTES_MAX: usize = 128 << 20;

pub fn too_many_rows() -> Error {
    let what = "the query joins too many rows of catalogs";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_detail(format!("They would take more than {ROWS_BYTES_MAX} bytes."))
}

/// Steps whose rows are there at a time: one is made of another's.
const STEPS_AT_A_TIME: usize = 2;

/// How often a long evaluation asks whether it should go on.
const STEPS_BETWEEN_CHECKS: u32 = 1024;

impl<'a> Run<'a> {
    pub fn new(around: &'a Around, parameters: &'a [Value], cached: usize) -> Run<'a> {
        Run {
            around,
            parameters,
            ctes: RefCell::default(),
            cached: RefCell::new(vec![None; cached]),
            given: RefCell::default(),
            users: Users::default(),
            steps: Cell::new(0),
            lease: RefCell::default(),
            largest_bytes: Cell::new(0),
        }
    }

    fn cover(&self, bytes: usize) -> Result<()> {
        if bytes > self.largest_bytes.get() {
            self.largest_bytes.set(bytes);
            self.cover_all()?;
        }
        Ok(())
    }

    pub fn cover_all(&self) -> Result<()> {
        let bytes = STEPS_AT_A_TIME * self.largest_bytes.get() + self.users.bytes();
        match self.lease.borrow_mut().as_mut() {
            Some(lease) => lease.cover(bytes as u64).map_err(Error::from),
            None => Ok(()),
        }
    }

    pub fn step(&self) -> Result<()> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        match steps.is_multiple_of(STEPS_BETWEEN_CHECKS) {
            true => self.check(),
            false => Ok(()),
        }
    }

    /// Adds a row to some, of which there may not be any number at once.
    pub fn keep(&self, kept: &mut Kept, row: Row) -> Result<()> {
        self.step()?;
        kept.bytes += row_bytes(&row);
        if kept.bytes > ROWS_BYTES_MAX {
            return Err(too_many_rows());
        }
        self.cover(kept.bytes)?;
        kept.rows.push(row);
        Ok(())
    }
}

impl Deref for Run<'_> {
    type Target = Around;

    fn deref(&self) -> &Around {
        self.around
    }
}

/// A text that is made piece by piece, and may not become too long.
#[derive(Default)]
pub struct Made(String);

impl Made {
    pub fn push(&mut self, piece: &str) -> Result<()> {
        check_text_bytes(self.0.len() + piece.len())?;
        self.0.push_str(piece);
        Ok(())
    }

    pub fn into_value(self) -> Value {
        Value::text(self.0)
    }
}

/// Rows of users' tables that one run may read.
pub const ROWS_MAX: usize = 200_000;

/// The tables that a run has read so far.
#[derive(Default)]
pub struct Users<'a> {
    pub snapshot: Option<&'a Snapshot>,
    pub(super) read: RefCell<HashMap<TableId, Rc<Contents>>>,
    rows: Cell<usize>,
    bytes: Cell<usize>,
}

fn too_large(detail: String) -> Error {
    let what = "the query reads too much of users' tables beside system catalogs";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what).with_detail(detail).with_hint(
        "Aggregate or filter in a query over users' tables alone, or leave out functions that only \
         system catalogs know.",
    )
}

impl Users<'_> {
    /// What the rows that were read take.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    pub(super) fn count(&self, row: &[Value]) -> Result<()> {
        self.rows.set(self.rows.get() + 1);
        self.bytes.set(self.bytes.get() + row_bytes(row));
        if self.rows.get() > ROWS_MAX {
            return Err(too_large(format!("It may read {ROWS_MAX} of their rows.")));
        }
        if self.bytes.get() > ROWS_BYTES_MAX {
            return Err(too_large(format!("Their rows may take {ROWS_BYTES_MAX} bytes.")));
        }
        Ok(())
    }
}

pub fn internal(what: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, what)
}
