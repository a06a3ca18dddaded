//! The only way a procedure touches data.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use smallvec::SmallVec;
use types::{ColumnId, ColumnSchema, Error, IndexId, Key, Stamp, Stop, TableId, Value};

use crate::bound::{Metering, long_columns, metering};
use crate::expr::{Expr, Reg};
use crate::meter::{Budget, WRITTEN_BYTES_PER_UNIT};

/// A whole row in the order of its table's columns, the hidden ones included.
pub type Row = Box<[Value]>;

/// Reads and writes of one transaction. Implemented by every protocol; generic, never `dyn`.
///
/// Two kinds of read are distinguished, because update commands commute with the second only:
/// *value reads* (`read`, `scan`) see what a row holds; *existence reads* (`exists`, and what
/// `update`, `insert` and `delete` return) see only whether it is there.
///
/// A transaction always sees its own earlier writes.
pub trait Access {
    /// Value read of `columns` into `out` (same length). The stamp is that of the row's last
    /// change by an earlier transaction; `None`: no such row.
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop>;

    /// Existence read.
    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop>;

    /// Apply `command` to the row at `key`. `false`: no such row, nothing done.
    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop>;

    /// Add a row. `false`: the key is taken, nothing done.
    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop>;

    /// Remove the row at `key`. `false`: no such row.
    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop>;

    /// Value read of a range in index-key order, own writes included. `visit` gets the primary
    /// key, the stamp and `columns` of each row, and may stop the scan.
    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>;

    /// Rows that scans since the last call met and did not show, since the transaction itself has
    /// changed or deleted them.
    fn take_passed_over(&mut self) -> u64 {
        0
    }

    /// The next hidden row id of this transaction: (height, position, ordinal), big endian.
    fn next_row_id(&mut self) -> [u8; 16];

    /// Time that `now()` answers: microseconds since 2000-01-01 UTC, the block's.
    fn now_us(&self) -> i64;

    /// Nothing yet, with room for a row of so many values that is to be inserted.
    #[inline]
    fn room(&mut self, columns: usize) -> Vec<Value> {
        Vec::with_capacity(columns)
    }

    /// A key that will be read soon.
    fn prefetch(&mut self, _table: TableId, _key: &Key) {}
}

/// Part of an index: bounds are encoded key prefixes, so `Included(k)` as a low bound starts at
/// the first entry ≥ k. As a high bound, `Included(k)` takes every entry that *starts with* k or is
/// smaller, `Excluded(k)` ends before the first entry ≥ k; as a low bound, `Excluded(k)` skips
/// every entry that starts with k.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    pub table: TableId,
    pub index: IndexId,
    pub low: Bound<Key>,
    pub high: Bound<Key>,
    pub reverse: bool,
}

/// What a command is given. Most have one or two of them, and a command is moved some times, so
/// that room for more would cost all of them.
pub type Inputs = SmallVec<[Value; 3]>;

/// An update as a function of the row it meets, kept unevaluated as long as its value need not be
/// seen (`balance = balance + 10`): the input of Harmony's reordering and coalescence.
#[derive(Clone, Debug)]
pub struct Command {
    pub code: Arc<CommandCode>,
    /// What the code's `Expr::Reg(i)` stand for.
    pub inputs: Inputs,
    /// What it may spend each time it is applied: see [`bound`](crate::bound).
    pub allowance: Budget,
}

impl Command {
    /// [`CommandCode::only_sets`].
    #[inline]
    pub fn only_sets(&self) -> bool {
        self.code.only_sets(&self.inputs)
    }

    /// What is assigned by a command that [only sets](Command::only_sets).
    #[inline]
    pub fn settings(&self) -> impl Iterator<Item = (ColumnId, &Value)> + Clone {
        self.code.settings(&self.inputs)
    }
}

/// The part of a command that all its calls share. In its expressions, `Column(c)` is the row's
/// value before the command and `Reg(i)` is `inputs[i]`; in `checks`, `Column(c)` is the value
/// after.
#[derive(PartialEq, Debug)]
pub struct CommandCode {
    /// Evaluated on the old row, then assigned together. Assignment casts are part of them.
    pub assignments: Box<[(ColumnId, Expr)]>,
    pub checks: Box<[Check]>,
    /// Nothing is computed: what is assigned are inputs as they are and constants, and all that is
    /// checked is that these inputs are not NULL.
    pub sets: Option<Box<[Reg]>>,
    /// Columns that must hold their values before the command is applied, ascending.
    pub columns: Box<[ColumnId]>,
    /// What issuing it costs: its expressions' nodes, and the writing of its constants.
    pub units: u64,
    /// Of its constants, which are written with each row.
    pub text_bytes: usize,
    /// What is to be paid beside that.
    pub metering: Metering,
    /// Columns of the table that may hold long values, which are copied and hashed with the row
    /// whatever the command changes.
    pub long: Box<[ColumnId]>,
}

impl CommandCode {
    /// On a table of which nothing is known.
    pub fn new(assignments: Box<[(ColumnId, Expr)]>, checks: Box<[Check]>) -> Self {
        CommandCode::on(&[], assignments, checks)
    }

    /// Sets columns to its inputs.
    pub(crate) fn setting(columns: impl Iterator<Item = ColumnId>) -> Self {
        let inputs = (0..).map(|input| Expr::Reg(Reg(input)));
        CommandCode::new(columns.zip(inputs).collect(), Box::default())
    }

    /// On a table of these columns, whose lengths may bound its work.
    pub fn on(
        table: &[ColumnSchema],
        assignments: Box<[(ColumnId, Expr)]>,
        checks: Box<[Check]>,
    ) -> Self {
        // A check sees what was assigned, so that a blind update needs no look at the row.
        let is_assigned = |column: &ColumnId| assignments.iter().any(|(c, _)| c == column);
        let checked = checks.iter().flat_map(|check| check.condition.columns());
        let mut columns: Vec<ColumnId> = checked.filter(|column| !is_assigned(column)).collect();
        columns.extend(assignments.iter().flat_map(|(_, expression)| expression.columns()));
        columns.sort_unstable();
        columns.dedup();
        let values = assignments.iter().map(|(_, expression)| expression);
        let text_bytes: usize = values.clone().map(constant_bytes).sum();
        let expressions = values.chain(checks.iter().map(|check| &check.condition));
        let mut units = (text_bytes / WRITTEN_BYTES_PER_UNIT) as u64;
        for expression in expressions.clone() {
            expression.walk(&mut |_| units += 1);
        }
        let assigned = assignments.iter().map(|(column, _)| *column);
        let metering = metering(expressions, table, assigned);
        let (columns, long) = (columns.into(), long_columns(table));
        let sets = sets(&assignments, &checks);
        CommandCode { assignments, checks, sets, columns, units, text_bytes, metering, long }
    }

    /// Whether it does nothing with these inputs but set columns to some of them, or to constants:
    /// no row can make it fail.
    #[inline]
    pub fn only_sets(&self, inputs: &[Value]) -> bool {
        let is_there =
            |input: &Reg| inputs.get(usize::from(input.0)).is_some_and(|value| !value.is_null());
        let Some(never_null) = &self.sets else { return false };
        never_null.iter().all(is_there) && self.settings(inputs).count() == self.assignments.len()
    }

    /// What it assigns, if it [only sets](CommandCode::only_sets).
    #[inline]
    pub fn settings<'v>(
        &'v self,
        inputs: &'v [Value],
    ) -> impl Iterator<Item = (ColumnId, &'v Value)> + Clone {
        let value = |expression: &'v Expr| match expression {
            Expr::Reg(register) => inputs.get(usize::from(register.0)),
            Expr::Const(value) => Some(value),
            _ => None,
        };
        self.assignments.iter().filter_map(move |(column, set)| Some((*column, value(set)?)))
    }
}

/// The inputs that may not be NULL, where nothing else decides whether the assignments are made.
fn sets(assignments: &[(ColumnId, Expr)], checks: &[Check]) -> Option<Box<[Reg]>> {
    if !assignments.iter().all(|(_, value)| matches!(value, Expr::Reg(_) | Expr::Const(_))) {
        return None;
    }
    let mut never_null = Vec::new();
    for check in checks {
        let Expr::IsNull { input, negated: true } = &check.condition else { return None };
        let Expr::Column(column) = **input else { return None };
        match assignments.iter().rfind(|(assigned, _)| *assigned == column)? {
            (_, Expr::Reg(register)) => never_null.push(*register),
            (_, Expr::Const(value)) if !value.is_null() => {}
            _ => return None,
        }
    }
    Some(never_null.into())
}

/// Of the texts that stand in an expression.
pub fn constant_bytes(expression: &Expr) -> usize {
    let mut bytes = 0;
    expression.walk(&mut |part| {
        if let Expr::Const(value) = part {
            bytes += value.weight_beside();
        }
    });
    bytes
}

/// A condition on a row that must not be false (`NOT NULL`, `CHECK`): SQL lets unknown pass.
#[derive(PartialEq, Debug)]
pub struct Check {
    pub condition: Expr,
    pub error: Error,
}
