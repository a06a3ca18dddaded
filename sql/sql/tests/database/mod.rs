//! A whole database for tests: a catalog, and rows in memory.

use std::sync::Arc;

use procedure::testing::Memory;
use procedure::{Access, Frame, Output, Procedure, run};
use sql::{Bound, Catalog, ColumnSource, Command, Program, Statement, StoreChange};
use types::{Error, SqlState, Stop, TableId, TableSchema, Value};

/// What a statement gives back.
#[derive(Debug)]
pub struct Answer {
    pub tag: String,
    pub columns: Vec<procedure::Column>,
    pub rows: Vec<Vec<Value>>,
}

pub struct Database {
    pub catalog: Catalog,
    pub memory: Memory,
    schemas: Vec<Arc<TableSchema>>,
}

impl Default for Database {
    fn default() -> Self {
        let mut memory = Memory::default();
        // 2026-03-01 12:00:00 UTC.
        memory.now_us = 825_681_600_000_000;
        Database { catalog: Catalog::genesis(), memory, schemas: Vec::new() }
    }
}

impl Database {
    pub fn bind(&self, text: &str) -> Result<Vec<Bound>, Error> {
        let parsed = sql::parse(text)?;
        parsed.iter().map(|p| sql::bind(&self.catalog, p, &[])).collect()
    }

    /// Runs a text; parameters go to each of its statements that has any. Each statement is a
    /// transaction.
    pub fn run(&mut self, text: &str, parameters: &[Value]) -> Result<Answer, Error> {
        let mut answer = Answer { tag: String::new(), columns: Vec::new(), rows: Vec::new() };
        for parsed in sql::parse(text)? {
            let bound = sql::bind(&self.catalog, &parsed, &[])?;
            let before = (self.memory.clone(), self.schemas.clone());
            let result = self.execute(&bound, parameters);
            if result.is_err() {
                (self.memory, self.schemas) = before;
            }
            answer = result?;
        }
        Ok(answer)
    }

    pub fn execute(&mut self, bound: &Bound, parameters: &[Value]) -> Result<Answer, Error> {
        let columns = match &bound.output {
            Output::Rows(columns) => columns.clone(),
            Output::Tag => Vec::new(),
        };
        let wanted = bound.parameters.len().min(parameters.len());
        let (rows, tag) = match &bound.statement {
            Statement::Program(Program::Procedure(procedure)) => {
                self.program(procedure, &parameters[..wanted])?
            }
            Statement::Program(Program::Call { procedure, arguments, tag }) => {
                let now_us = self.memory.now_us();
                let arguments: Result<Vec<Value>, Error> =
                    arguments.iter().map(|a| a.eval(parameters, &[], now_us)).collect();
                let (rows, _) = self.program(procedure, &arguments?)?;
                (rows, tag.to_string())
            }
            Statement::Ddl(ddl) => {
                let (catalog, changes, validations) = self.catalog.apply(ddl)?;
                for made in 0..=changes.len() {
                    for validation in validations.iter().filter(|next| next.after == made) {
                        if !self.program(&validation.query, &[])?.0.is_empty() {
                            return Err(validation.error.clone());
                        }
                    }
                    if let Some(change) = changes.get(made) {
                        self.store(change.clone())?;
                    }
                }
                self.catalog = catalog;
                (Vec::new(), ddl.tag().to_string())
            }
            Statement::Command(Command::CreateTableAs(made)) => {
                return self.create_table_as(made, parameters);
            }
            Statement::Program(Program::Explain(lines)) => {
                let rows = lines.iter().map(|line| vec![Value::text(line)]).collect();
                (rows, "EXPLAIN".to_string())
            }
            Statement::Command(Command::Nothing(tag)) => (Vec::new(), tag.to_string()),
            other => (Vec::new(), format!("{other:?}")),
        };
        Ok(Answer { tag, columns, rows })
    }

    fn create_table_as(
        &mut self,
        made: &sql::TableAs,
        parameters: &[Value],
    ) -> Result<Answer, Error> {
        let done = |tag: String| Answer { tag, columns: Vec::new(), rows: Vec::new() };
        if made.if_not_exists && self.catalog.find_table(&made.name).is_some() {
            return Ok(done("CREATE TABLE AS".into()));
        }
        let catalog = self.catalog.clone();
        self.run(&made.create, &[])?;
        let Some(fill) = &made.fill else { return Ok(done("CREATE TABLE AS".into())) };
        let filled = self.run(fill, parameters);
        let filled = filled.inspect_err(|_| self.catalog = catalog)?;
        Ok(done(filled.tag.replace("INSERT 0", "SELECT")))
    }

    pub fn program(
        &mut self,
        procedure: &Procedure,
        arguments: &[Value],
    ) -> Result<(Vec<Vec<Value>>, String), Error> {
        let result = run(procedure, arguments, &mut Frame::new(), &mut self.memory);
        let result = result.map_err(|stop| match stop {
            Stop::Rejected(error) | Stop::Retry(error) => error,
            Stop::Halt(text) => Error::new(SqlState::INTERNAL_ERROR, text),
        })?;
        let rows: Vec<Vec<Value>> = result.rows.into_iter().map(Vec::from).collect();
        let count = match procedure.tag.as_str() {
            "SELECT" => rows.len() as u64,
            _ => result.count,
        };
        let tag = match procedure.tag.as_str() {
            tag @ ("SELECT" | "INSERT 0" | "UPDATE" | "DELETE" | "MERGE") => {
                format!("{tag} {count}")
            }
            tag => tag.to_string(),
        };
        Ok((rows, tag))
    }

    fn schema(&self, id: TableId) -> TableSchema {
        let schema = self.schemas.iter().rfind(|s| s.id == id);
        (**schema.expect("a table that was created")).clone()
    }

    fn store(&mut self, change: StoreChange) -> Result<(), Error> {
        match change {
            StoreChange::CreateTable(schema) => self.replace(schema, Vec::new()),
            StoreChange::DropTable(id) => {
                self.schemas.retain(|s| s.id != id);
                Ok(())
            }
            StoreChange::Rebuild { table, schema, columns } => {
                let rows = self.memory.rows(table).into_iter().zip(0..).map(|(row, place)| {
                    let new = columns.iter().map(|source| match source {
                        ColumnSource::Old(c) => row[usize::from(*c)].clone(),
                        ColumnSource::Constant(value) => value.clone(),
                        ColumnSource::Computed(value) => value.eval(&[], &row, 0).unwrap(),
                        ColumnSource::Counted(sequence) => {
                            Value::Int(sequence.all_values().value(place).unwrap())
                        }
                        ColumnSource::RowId => {
                            Value::Uuid(types::Stamp::new(1, 0).row_id(place as u32))
                        }
                    });
                    new.collect()
                });
                let rows = rows.collect();
                self.replace(schema, rows)
            }
            StoreChange::CreateIndex { table, index, schema } => {
                let mut changed = self.schema(table);
                assert_eq!(changed.indexes.len() + 1, usize::from(index));
                changed.indexes.push(schema);
                let rows = self.memory.rows(table);
                self.replace(changed, rows)
            }
            StoreChange::DropIndex { table, index } => {
                let mut changed = self.schema(table);
                changed.indexes[usize::from(index) - 1].dropped = true;
                let rows = self.memory.rows(table);
                self.replace(changed, rows)
            }
            StoreChange::Truncate(table) => {
                let schema = self.schema(table);
                self.replace(schema, Vec::new())
            }
            StoreChange::SetLayout { .. } => Ok(()),
            StoreChange::Describe(schema) => {
                let rows = self.memory.rows(schema.id);
                self.replace(schema, rows)
            }
        }
    }

    fn replace(&mut self, schema: TableSchema, rows: Vec<Vec<Value>>) -> Result<(), Error> {
        let schema = Arc::new(schema);
        self.schemas.retain(|s| s.id != schema.id);
        self.schemas.push(schema.clone());
        let id = schema.id;
        self.memory.create_table(schema);
        rows.into_iter().try_for_each(|row| self.memory.put(id, row))
    }

    /// The answer as lines of text.
    pub fn describe(&mut self, text: &str) -> Vec<String> {
        let answer = match self.run(text, &[]) {
            Ok(answer) => answer,
            Err(error) => return describe_error(&error),
        };
        let mut lines = Vec::new();
        if !answer.columns.is_empty() {
            let names: Vec<String> =
                answer.columns.iter().map(|c| format!("{} {}", c.name, c.data_type)).collect();
            lines.push(names.join(" | "));
        }
        for row in &answer.rows {
            let shown = row.iter().zip(&answer.columns).map(|(value, column)| match value {
                Value::Null => "NULL".to_string(),
                value => value.to_text(&column.data_type),
            });
            lines.push(shown.collect::<Vec<_>>().join(" | "));
        }
        lines.push(answer.tag);
        lines
    }
}

fn describe_error(error: &Error) -> Vec<String> {
    let fields = error.fields();
    let mut lines = vec![format!("ERROR {}: {}", fields.code, fields.message)];
    lines.extend(fields.detail.iter().map(|d| format!("DETAIL: {d}")));
    lines.extend(fields.hint.iter().map(|h| format!("HINT: {h}")));
    lines
}
