//! Operations: the steps of a procedure that touch data, and what each of them touches.
//!
//! The thesis knows two: `v ← read(table, key)` and `write(table, key, v)`. Here an update by
//! command is one operation that reads and writes, and a query is one that may read several tables.
//! What only shapes the answer (`Emit`, `EmitQuery`, `CountRows`) and what only rejects (`Require`,
//! `Raise`) is left out: a transaction that is replayed has committed, and its client has had the
//! answer.

use std::collections::{BTreeMap, BTreeSet};

use procedure::analysis::{StepId, visit};
use procedure::step::{Procedure, Step};
use procedure::{CommandCode, Expr, Query};
use types::{ColumnId, IndexId, TableId};

/// A step that touches data.
#[derive(Clone, Debug)]
pub struct Operation {
    pub step: StepId,
    pub touches: Vec<Touch>,
    /// Takes the next of the transaction's hidden row ids.
    pub takes_row_id: bool,
}

/// One way of an operation to one table.
#[derive(Clone, Debug)]
pub struct Touch {
    pub table: TableId,
    pub access: TouchKind,
}

#[derive(Clone, Debug)]
pub enum TouchKind {
    /// Sees whether rows are there, and these columns of them.
    Read(BTreeSet<ColumnId>),
    /// Reads a range of a secondary index.
    ReadIndex(IndexId, BTreeSet<ColumnId>),
    /// Changes these columns of a row.
    Update(BTreeSet<ColumnId>),
    /// Makes a row come or go.
    InsertOrDelete,
}

impl Touch {
    pub fn writes(&self) -> bool {
        matches!(self.access, TouchKind::Update(_) | TouchKind::InsertOrDelete)
    }
}

impl Operation {
    pub fn writes(&self) -> bool {
        self.touches.iter().any(Touch::writes)
    }

    /// Both may touch one table, and one of them modifies it; or the order in which they take row
    /// ids shows in the ids.
    pub fn is_data_dependent(&self, other: &Operation) -> bool {
        let conflict = |a: &Touch, b: &Touch| a.table == b.table && (a.writes() || b.writes());
        let mut pairs = self.touches.iter().flat_map(|a| other.touches.iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| conflict(a, b)) || (self.takes_row_id && other.takes_row_id)
    }
}

/// The operations of a procedure, in program order.
pub fn operations(procedure: &Procedure) -> Vec<Operation> {
    let steps = visit::numbered(&procedure.body);
    let numbered = steps.into_iter().enumerate();
    numbered.filter_map(|(id, step)| operation(id as StepId, step)).collect()
}

fn operation(id: StepId, step: &Step) -> Option<Operation> {
    let touches = touches(step);
    let takes_row_id = matches!(step, Step::Insert { hidden_row_id: true, .. });
    (!touches.is_empty()).then_some(Operation { step: id, touches, takes_row_id })
}

/// What a step touches; nothing, where it is no operation.
pub fn touches(step: &Step) -> Vec<Touch> {
    let one = |table: &TableId, access| vec![Touch { table: *table, access }];
    match step {
        Step::Read { table, columns, .. } => one(table, TouchKind::Read(set(columns))),
        Step::Exists { table, .. } => one(table, TouchKind::Read(BTreeSet::new())),
        Step::Update { table, code, .. } => one(table, TouchKind::Update(assigned(code))),
        Step::Insert { table, .. } | Step::Delete { table, .. } => {
            one(table, TouchKind::InsertOrDelete)
        }
        Step::Fetch { query, .. } | Step::ForRows { query, .. } => query_touches(query),
        _ => Vec::new(),
    }
}

fn query_touches(query: &Query) -> Vec<Touch> {
    let mut touches = Vec::new();
    visit::each_query(query, &mut |query| match query {
        Query::Get { table, columns, .. } => {
            touches.push(Touch { table: *table, access: TouchKind::Read(set(columns)) });
        }
        Query::Scan { table, index: 0, columns, .. } => {
            touches.push(Touch { table: *table, access: TouchKind::Read(set(columns)) });
        }
        Query::Scan { table, index, columns, .. } => {
            let access = TouchKind::ReadIndex(*index, set(columns));
            touches.push(Touch { table: *table, access });
        }
        _ => {}
    });
    touches
}

fn set(columns: &[ColumnId]) -> BTreeSet<ColumnId> {
    columns.iter().copied().collect()
}

fn assigned(code: &CommandCode) -> BTreeSet<ColumnId> {
    code.assignments.iter().map(|(column, _): &(ColumnId, Expr)| *column).collect()
}

/// What all the procedures and rows of a log write.
#[derive(Clone, Debug, Default)]
pub struct Written(BTreeMap<TableId, WrittenTable>);

#[derive(Clone, Debug, Default)]
struct WrittenTable {
    columns: BTreeSet<ColumnId>,
    /// Rows come or go.
    rows: bool,
}

impl Written {
    pub fn add(&mut self, operation: &Operation) {
        for touch in operation.touches.iter().filter(|touch| touch.writes()) {
            let table = self.0.entry(touch.table).or_default();
            match &touch.access {
                TouchKind::Update(columns) => table.columns.extend(columns),
                _ => table.rows = true,
            }
        }
    }

    /// Whole rows of a table are written by a transaction that is no procedure.
    pub fn add_rows(&mut self, table: TableId) {
        self.0.entry(table).or_default().rows = true;
    }

    pub fn has(&self, table: TableId) -> bool {
        self.0.contains_key(&table)
    }

    /// Whether nothing that this touch looks at changes in the whole log. `indexed` tells the
    /// columns of a secondary index.
    pub fn leaves_alone(
        &self,
        touch: &Touch,
        indexed: &dyn Fn(TableId, IndexId) -> Vec<ColumnId>,
    ) -> bool {
        let Some(table) = self.0.get(&touch.table) else {
            return !touch.writes();
        };
        let untouched = |columns: &BTreeSet<ColumnId>| columns.is_disjoint(&table.columns);
        match &touch.access {
            _ if table.rows => false,
            TouchKind::Read(columns) => untouched(columns),
            TouchKind::ReadIndex(index, columns) => {
                let entry = indexed(touch.table, *index);
                untouched(columns) && entry.iter().all(|column| !table.columns.contains(column))
            }
            TouchKind::Update(_) | TouchKind::InsertOrDelete => false,
        }
    }

    /// Whether the touch reads a table that gets and loses no rows.
    pub fn only_updated(&self, touch: &Touch) -> bool {
        !touch.writes() && self.0.get(&touch.table).is_none_or(|table| !table.rows)
    }
}
