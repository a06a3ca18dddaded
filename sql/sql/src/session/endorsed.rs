//! Endorsed transactions, as every replica validates them.
//!
//! *Idea.* What was simulated before it was ordered is not run again. The replica asks whether
//! those have endorsed it whose word counts, and makes a program of what it reads and writes:
//! *require these versions, then write these rows*. That is what the COMMIT of an interactive
//! transaction is too, so every protocol runs it beside anything else, and a serial replay comes
//! to the same.
//!
//! ```text
//!   proposal ──► compiled, not run ──► may the principal do this?   whose policies does it touch?
//!                                  └─► what it can change: tables, columns    ≥ the write set
//!   endorsements ──────────────────► nodes of whom the tables' policies name
//!   reads ─────────────────────────► required as they were, by version; ranges by their seal
//!   writes ────────────────────────► INSERT, UPDATE, DELETE of one row each, by its key
//! ```
//!
//! *What a wrong write set cannot do.* It is within what the program of the proposal could
//! change, which its principal may run; beyond that it is believed for the sake of its endorsers,
//! so a table that neither has a policy nor is in a ledger that has one takes none. Its rows are
//! written by statements, so that types, NOT NULL, CHECK, unique keys, foreign keys and their
//! actions are asked again, and indexes, effects, state tree and history follow as from any
//! other.
//!
//! *How it ends.* 42T01: too few have endorsed it. 42501: it writes what the proposal cannot.
//! 40001: a version, a range or the schema is another by now, or a row cannot be written any more.
//! Values that no row of the table may have end in the table's own error.
//!
//! *Departures from Fabric.* A row that is changed without being looked at has to be there,
//! whatever its version. Rows are written one by one in the order of their first change: a
//! transaction whose rows are only allowed together (two unique values that are swapped, a key that
//! others refer to and that changes) cannot be endorsed. A schema change since the simulation ends
//! it, whatever it touches.
//!
//! *Bounds.* The envelope's size; [`STATEMENTS_MAX`] statements to compile; the run is metered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concurrency::{Expectation, Interactive, Load, Statement, Work};
use engine::ParameterTypes;
use engine::transaction::{Endorsed, RowChange, RowWrite};
use procedure::analysis::visit::numbered;
use procedure::{Procedure, Step};
use types::{ColumnId, DataType, Error, Result, SqlState, TableId, Value};

use super::schema::{check_arguments, procedure_of, schema_changed};
use crate::bind::scope::ROW_ID_NAME;
use crate::bind::statement::Bound;
use crate::schema::catalog::{Catalog, ReferenceAction, Table};
use crate::syntax::names::{as_sql, quoted};

/// What a program can change, whatever it meets.
#[derive(Default, Debug)]
pub(super) struct Reach(BTreeMap<TableId, Changes>);

#[derive(Default, Debug)]
struct Changes {
    inserts: bool,
    deletes: bool,
    columns: BTreeSet<ColumnId>,
}

impl Reach {
    pub fn of(work: &Work) -> Reach {
        let mut reach = Reach::default();
        reach.add_work(work);
        reach
    }

    fn add_work(&mut self, work: &Work) {
        match work {
            Work::Statement(Statement { procedure, .. }) => self.add(procedure),
            Work::Load(load) => Load::procedures(load).for_each(|one| self.add(one)),
            Work::Interactive(Interactive { writes, .. }) => {
                writes.iter().for_each(|(write, _)| self.add_work(write));
            }
            Work::Void(_) => {}
        }
    }

    fn add(&mut self, procedure: &Procedure) {
        for step in numbered(&procedure.body) {
            match step {
                Step::Insert { table, .. } => self.0.entry(*table).or_default().inserts = true,
                Step::Delete { table, .. } => self.0.entry(*table).or_default().deletes = true,
                Step::Update { table, code, .. } => {
                    let columns = code.assignments.iter().map(|(column, _)| *column);
                    self.0.entry(*table).or_default().columns.extend(columns);
                }
                _ => {}
            }
        }
    }

    fn has(&self, write: &RowWrite) -> bool {
        let Some(changes) = self.0.get(&write.table) else { return false };
        match &write.change {
            RowChange::Insert(_) => changes.inserts,
            RowChange::Delete { .. } => changes.deletes,
            RowChange::Update { columns, .. } => {
                // A row that was deleted and inserted again.
                changes.inserts && changes.deletes
                    || columns.iter().all(|(column, _)| changes.columns.contains(column))
            }
        }
    }

    /// # Errors
    /// 42501: a row is changed in a way in which the program changes none.
    pub fn check(&self, catalog: &Catalog, writes: &[RowWrite]) -> Result<()> {
        let Some(write) = writes.iter().find(|write| !self.has(write)) else { return Ok(()) };
        let name = table_of(catalog, write.table)?.name().to_owned();
        let what = format!("an endorsed transaction changes table \"{name}\" beyond its proposal");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
            .with_detail("No way through the program that was proposed makes such a change.")
            .with_table(name))
    }
}

fn table_of(catalog: &Catalog, table: TableId) -> Result<&Arc<Table>> {
    catalog.table_by_id(table).ok_or_else(schema_changed)
}

/// Different statements that the rows of one transaction may come to, each of which is compiled.
const STATEMENTS_MAX: usize = 256;

/// How a text is compiled with no privilege asked for.
pub(super) type CompileText<'a> = &'a dyn Fn(&str, &ParameterTypes) -> Result<Arc<Bound>>;

/// What is run in place of the proposal.
pub(super) fn lowered(
    catalog: &Catalog,
    compile_text: CompileText<'_>,
    endorsed: Endorsed,
) -> Result<Interactive> {
    let Endorsed { now_us, rows, ranges, writes, .. } = endorsed;
    let mut compiled = BTreeMap::<String, Arc<Procedure>>::new();
    let writes = writes.into_iter().map(|write| {
        let table = table_of(catalog, write.table)?;
        let worded = Worded::of(table, write.change)?;
        let procedure = match compiled.get(&worded.text) {
            Some(procedure) => Arc::clone(procedure),
            None if compiled.len() == STATEMENTS_MAX => return Err(too_different()),
            None => {
                let bound = compile_text(&worded.text, &ParameterTypes::new(&worded.types))?;
                let procedure = procedure_of(&bound)?;
                compiled.insert(worded.text.clone(), Arc::clone(&procedure));
                procedure
            }
        };
        check_arguments(&procedure, &worded.values)?;
        let statement = Statement { procedure, arguments: worded.values.into() };
        Ok((Work::Statement(statement), worded.expected))
    });
    let writes = writes.collect::<Result<_>>()?;
    Ok(Interactive { now_us, rows, ranges, writes })
}

fn too_different() -> Error {
    let what = "the rows of an endorsed transaction are changed in too many ways";
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, what)
        .with_detail(format!("There may be {STATEMENTS_MAX} sets of columns, over all tables."))
        .with_hint("Split it into several transactions.")
}

/// One row's change as a statement.
struct Worded {
    text: String,
    types: Vec<Option<DataType>>,
    values: Vec<Value>,
    expected: Expectation,
}

impl Worded {
    fn of(table: &Table, change: RowChange) -> Result<Worded> {
        let mut worded = Worded {
            text: String::new(),
            types: Vec::new(),
            values: Vec::new(),
            expected: Expectation { count: 1, rows: Vec::new() },
        };
        match change {
            RowChange::Insert(values) => worded.insert(table, values)?,
            RowChange::Update { key, columns } => worded.update(table, key, columns)?,
            RowChange::Delete { key } => worded.delete(table, key)?,
        }
        Ok(worded)
    }

    /// A value of that column, as a parameter.
    fn parameter(&mut self, table: &Table, column: ColumnId, value: Value) -> String {
        // Its length and its digits are asked for when it is stored.
        self.types.push(Some(table.column_type(column).without_modifier()));
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn insert(&mut self, table: &Table, values: Vec<Value>) -> Result<()> {
        let given: Vec<ColumnId> = table.schema.visible_columns().map(|(id, _)| id).collect();
        if given.len() != values.len() {
            return Err(not_of(table));
        }
        let stored = given.into_iter().zip(values);
        let stored = stored.filter(|(column, _)| table.generated(*column).is_none());
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (column, value) in stored {
            names.push(quoted(table.column_name(column)));
            places.push(self.parameter(table, column, value));
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
        Ok(())
    }

    fn update(
        &mut self,
        table: &Table,
        key: Vec<Value>,
        columns: Vec<(ColumnId, Value)>,
    ) -> Result<()> {
        let is_stored = |column: ColumnId| {
            table.schema.visible_columns().any(|(id, _)| id == column)
                && table.generated(column).is_none()
        };
        let ascend = columns.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if columns.is_empty() || !ascend || !columns.iter().all(|(column, _)| is_stored(*column)) {
            return Err(not_of(table));
        }
        let mut set = Vec::with_capacity(columns.len());
        for (column, value) in columns {
            let place = self.parameter(table, column, value);
            set.push(format!("{} = {place}", quoted(table.column_name(column))));
        }
        let of_key = self.of_key(table, key)?;
        let name = as_sql(&table.schema.name);
        self.text = format!("UPDATE {name} AS t SET {} WHERE {of_key}", set.join(", "));
        Ok(())
    }

    fn delete(&mut self, table: &Table, key: Vec<Value>) -> Result<()> {
        let of_key = self.of_key(table, key)?;
        let delete = format!("DELETE FROM {} AS t WHERE {of_key}", as_sql(&table.schema.name));
        let follows = table.foreign_keys.iter();
        self.text = match follows.clone().any(|key| key.on_delete == ReferenceAction::Cascade) {
            // It may have gone with its parent.
            true => {
                self.expected = Expectation { count: 0, rows: vec![[Value::Int(1)].into()] };
                format!("WITH gone AS ({delete} RETURNING 1) SELECT 1")
            }
            false => delete,
        };
        Ok(())
    }

    fn of_key(&mut self, table: &Table, key: Vec<Value>) -> Result<String> {
        let columns = table.schema.primary_key.clone();
        if columns.len() != key.len() {
            return Err(not_of(table));
        }
        let mut parts = Vec::with_capacity(key.len());
        for (column, value) in columns.into_iter().zip(key) {
            let name = match table.schema.hidden_row_id {
                true => ROW_ID_NAME,
                false => table.column_name(column),
            };
            let name = format!("t.{}", quoted(name));
            parts.push(format!("{name} = {}", self.parameter(table, column, value)));
        }
        Ok(parts.join(" AND "))
    }
}

fn not_of(table: &Table) -> Error {
    let what = format!("an endorsed change is none of a row of table \"{}\"", table.name());
    Error::new(SqlState::DATA_CORRUPTED, what).with_table(table.name())
}
