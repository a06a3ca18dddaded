//! The rows of an endorsed transaction as statements, one for each.
//!
//! Rows are written by statements, so that all that a table asks of its rows is asked of them too.
//! Texts are written and compiled once for each [`Shape`] of a change under one catalog; rows then
//! give the values. There are few shapes: a program assigns the same columns each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use concurrency::{Expectation, Interactive, Statement, Work};
use engine::transaction::{Endorsed, RowChange, RowWrite, StatementText};
use engine::{Body, ParameterTypes, Party};
use parking_lot::Mutex;
use procedure::Procedure;
use types::{ColumnId, DataType, Error, Result, SqlState, TableId, Value};

use super::compiled::{Compiled, KeptReach};
use super::endorsed::table_of;
use super::schema::{NO_PARTY, Schema, check_arguments, procedure_of};
use super::versioned::Versioned;
use crate::bind::scope::ROW_ID_NAME;
use crate::schema::catalog::{ReferenceAction, Table};
use crate::syntax::names::{as_sql, quoted};

/// Different statements that the rows of one transaction may come to, each of which is compiled.
const STATEMENTS_MAX: usize = 256;

/// How a row is changed, but for its values: changes of one shape are one statement.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Shape {
    table: TableId,
    kind: Kind,
    /// Of an update.
    columns: Vec<ColumnId>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Shape {
    fn of(RowWrite { table, change }: &RowWrite) -> Shape {
        let (kind, columns) = match change {
            RowChange::Insert(_) => (Kind::Insert, Vec::new()),
            RowChange::Update { columns, .. } => {
                (Kind::Update, columns.iter().map(|(column, _)| *column).collect())
            }
            RowChange::Delete { .. } => (Kind::Delete, Vec::new()),
        };
        Shape { table: *table, kind, columns }
    }

    #[cfg(test)]
    pub(super) fn any() -> Shape {
        Shape { table: TableId(1), kind: Kind::Delete, columns: Vec::new() }
    }
}

impl Schema {
    /// The rows of a simulation, to be written one by one.
    pub(super) fn rewritten(&self, versioned: &Versioned, endorsed: Endorsed) -> Result<Work> {
        self.lowered(&self.compiled_aside, versioned, endorsed)
    }

    /// What is run in place of the proposal.
    pub(super) fn lowered(
        &self,
        cache: &Mutex<Compiled>,
        versioned: &Versioned,
        endorsed: Endorsed,
    ) -> Result<Work> {
        let Endorsed { now_us, rows, ranges, writes, .. } = endorsed;
        let mut compiled = BTreeMap::<Shape, Arc<Procedure>>::new();
        let writes = writes.into_iter().map(|write| {
            let (table, shape) = (table_of(&versioned.catalog, write.table)?, Shape::of(&write));
            let Given { values, expected } = Given::of(table, write.change)?;
            let procedure = match compiled.get(&shape) {
                Some(procedure) => Arc::clone(procedure),
                None if compiled.len() == STATEMENTS_MAX => return Err(too_different()),
                None => {
                    let procedure = self.of_shape(cache, versioned, (table, &shape))?;
                    compiled.insert(shape, Arc::clone(&procedure));
                    procedure
                }
            };
            check_arguments(&procedure, &values)?;
            Ok((Work::Statement(Statement { procedure, arguments: values.into() }), expected))
        });
        let writes = writes.collect::<Result<_>>()?;
        Ok(Work::Interactive(Interactive { now_us, rows, ranges, writes }))
    }

    /// Where it stands what the program of a body can change, or will: where the program is kept,
    /// and no longer than that. What is not kept is looked at each time.
    pub(super) fn reach_of(
        &self,
        cache: &Mutex<Compiled>,
        versioned: &Versioned,
        (party, body, work): (Party<'_>, &Body, &Work),
    ) -> KeptReach {
        let Work::Statement(Statement { procedure, .. }) = work else {
            return KeptReach::default();
        };
        let mut compiled = cache.lock();
        if !compiled.is_of(versioned) {
            return KeptReach::default();
        }
        match body {
            Body::Statement(Statement { procedure: StatementText { text, types }, .. }) => {
                compiled.reach(party, (text, types)).unwrap_or_default()
            }
            Body::Call(Statement { procedure: name, .. }) => {
                compiled.reach_of_routine(name, procedure)
            }
            _ => KeptReach::default(),
        }
    }

    fn of_shape(
        &self,
        cache: &Mutex<Compiled>,
        versioned: &Versioned,
        (table, shape): (&Table, &Shape),
    ) -> Result<Arc<Procedure>> {
        {
            let compiled = cache.lock();
            if let Some(known) = compiled.of_shape(shape).filter(|_| compiled.is_of(versioned)) {
                return Ok(known);
            }
        }
        let (text, types) = worded(table, shape);
        let types = ParameterTypes::new(&types);
        // No privilege is asked for: what the principal may do is its proposal's matter.
        let bound = self.compile_text(cache, versioned, NO_PARTY, (&text, &types))?;
        let procedure = procedure_of(&bound)?;
        let mut compiled = cache.lock();
        if compiled.is_of(versioned) {
            compiled.keep_shape(shape, &text, &procedure);
        }
        Ok(procedure)
    }
}

fn too_different() -> Error {
    let what = "the rows of an endorsed transaction are changed in too many ways";
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, what)
        .with_detail(format!("There may be {STATEMENTS_MAX} sets of columns, over all tables."))
        .with_hint("Split it into several transactions.")
}

/// What a row's change gives to its shape's statement.
struct Given {
    values: Vec<Value>,
    expected: Expectation,
}

impl Given {
    fn of(table: &Table, change: RowChange) -> Result<Given> {
        let once = Expectation { count: 1, rows: Vec::new() };
        match change {
            RowChange::Insert(values) => Given::insert(table, values),
            RowChange::Update { key, columns } => Given::update(table, key, columns),
            RowChange::Delete { key } => {
                let values = key_of(table, key)?;
                // It may have gone with its parent.
                let gone = Expectation { count: 0, rows: vec![[Value::Int(1)].into()] };
                let expected = if goes_with_parent(table) { gone } else { once };
                Ok(Given { values, expected })
            }
        }
    }

    fn insert(table: &Table, values: Vec<Value>) -> Result<Given> {
        if table.schema.visible_columns().count() != values.len() {
            return Err(not_of(table));
        }
        let given = table.schema.visible_columns().zip(values);
        let stored = given.filter(|((column, _), _)| table.generated(*column).is_none());
        let values = stored.map(|(_, value)| value).collect();
        Ok(Given { values, expected: Expectation { count: 1, rows: Vec::new() } })
    }

    fn update(table: &Table, key: Vec<Value>, columns: Vec<(ColumnId, Value)>) -> Result<Given> {
        let is_stored = |column: ColumnId| {
            table.schema.visible_columns().any(|(id, _)| id == column)
                && table.generated(column).is_none()
        };
        let ascend = columns.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if columns.is_empty() || !ascend || !columns.iter().all(|(column, _)| is_stored(*column)) {
            return Err(not_of(table));
        }
        let key = key_of(table, key)?;
        let values = columns.into_iter().map(|(_, value)| value).chain(key).collect();
        Ok(Given { values, expected: Expectation { count: 1, rows: Vec::new() } })
    }
}

fn key_of(table: &Table, key: Vec<Value>) -> Result<Vec<Value>> {
    match table.schema.primary_key.len() == key.len() {
        true => Ok(key),
        false => Err(not_of(table)),
    }
}

fn goes_with_parent(table: &Table) -> bool {
    table.foreign_keys.iter().any(|key| key.on_delete == ReferenceAction::Cascade)
}

/// The statement of a shape that rows of the table can have, and its parameters' types.
fn worded(table: &Table, shape: &Shape) -> (String, Vec<Option<DataType>>) {
    let mut worded = Worded::default();
    match shape.kind {
        Kind::Insert => worded.insert(table),
        Kind::Update => worded.update(table, &shape.columns),
        Kind::Delete => worded.delete(table),
    }
    (worded.text, worded.types)
}

#[derive(Default)]
struct Worded {
    text: String,
    types: Vec<Option<DataType>>,
}

impl Worded {
    /// A value of that column, as a parameter.
    fn parameter(&mut self, table: &Table, column: ColumnId) -> String {
        // Its length and its digits are asked for when it is stored.
        self.types.push(Some(table.column_type(column).without_modifier()));
        format!("${}", self.types.len())
    }

    fn insert(&mut self, table: &Table) {
        let stored = table.schema.visible_columns().map(|(id, _)| id);
        let stored = stored.filter(|column| table.generated(*column).is_none());
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for column in stored {
            names.push(quoted(table.column_name(column)));
            places.push(self.parameter(table, column));
        }
        let name = as_sql(&table.schema.name);
        self.text = match names.is_empty() {
            true => format!("INSERT INTO {name} DEFAULT VALUES"),
            false => format!(
                "INSERT INTO {name} ({}) OVERRIDING SYSTEM VALUE VALUES ({})",
                names.join(", "),
                places.join(", ")
            ),
        };
    }

    fn update(&mut self, table: &Table, columns: &[ColumnId]) {
        let mut set = Vec::with_capacity(columns.len());
        for column in columns {
            let place = self.parameter(table, *column);
            set.push(format!("{} = {place}", quoted(table.column_name(*column))));
        }
        let of_key = self.of_key(table);
        let name = as_sql(&table.schema.name);
        self.text = format!("UPDATE {name} AS t SET {} WHERE {of_key}", set.join(", "));
    }

    fn delete(&mut self, table: &Table) {
        let of_key = self.of_key(table);
        let delete = format!("DELETE FROM {} AS t WHERE {of_key}", as_sql(&table.schema.name));
        self.text = match goes_with_parent(table) {
            true => format!("WITH gone AS ({delete} RETURNING 1) SELECT 1"),
            false => delete,
        };
    }

    fn of_key(&mut self, table: &Table) -> String {
        let part = |column: &ColumnId| {
            let name = match table.schema.hidden_row_id {
                true => ROW_ID_NAME,
                false => table.column_name(*column),
            };
            format!("t.{} = {}", quoted(name), self.parameter(table, *column))
        };
        let parts: Vec<String> = table.schema.primary_key.iter().map(part).collect();
        parts.join(" AND ")
    }
}

fn not_of(table: &Table) -> Error {
    let what = format!("an endorsed change is none of a row of table \"{}\"", table.name());
    Error::new(SqlState::DATA_CORRUPTED, what).with_table(table.name())
}
