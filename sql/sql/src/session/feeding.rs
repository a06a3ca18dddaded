//! Statements that write to the ledger what they read from temporary tables.
//!
//! ```text
//!   INSERT INTO accounts SELECT id, n FROM staged          what a client sends
//!   INSERT INTO accounts SELECT id, n                      what the ledger is asked for, with
//!     FROM unnest($1, $2) AS staged (id, n)                the columns of `staged` as arguments
//! ```
//!
//! So the rows are in the envelope, as values that a client has sent, and every replica runs the
//! same. Where the table is large and few of its rows matter, narrow it down first.

use std::ops::ControlFlow;
use std::sync::Arc;

use concurrency::{Statement as Call, Work};
use sqlparser::ast::{self, VisitorMut};
use types::{DataType, Error, Result, SqlState, TableId, Value};

use super::answer::Answer;
use super::lock_clauses::Locking;
use super::prepared::{Action, Prepared};
use super::programs::check_kinds;
use super::{Session, View};
use crate::bind::statement::Program;
use crate::schema::catalog::{Catalog, Table};
use crate::syntax::merge;
use crate::syntax::names::{as_sql, fold, object_name, quoted};
use crate::syntax::parse::parse;
use crate::syntax::parsed::Body;
use crate::syntax::walk;

impl Session {
    pub(super) async fn answer_fed(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: &View,
    ) -> Result<Answer> {
        check_kinds(&prepared.bound.parameters, parameters)?;
        let catalog = Arc::clone(&view.versioned.catalog);
        let mut parsed = prepared.parsed.clone();
        let Body::Statement(statement) = &mut parsed.body else { return Err(not_fed()) };
        let first = prepared.bound.parameters.len();
        let mut feeder = Feeder { catalog: &catalog, first, fed: Vec::new() };
        if let ControlFlow::Break(error) = walk::change(&mut **statement, &mut feeder) {
            return Err(error);
        }
        let (mut types, mut given) = (prepared.bound.parameters.clone(), parameters.to_vec());
        // Covers the rows until the statement is answered.
        let mut leases = Vec::with_capacity(feeder.fed.len());
        let (mut bytes, bytes_max) = (0, self.database.engine.envelope_bytes_max());
        for table in feeder.fed {
            let columns: Vec<_> = table.schema.visible_columns().collect();
            let mut arrays = vec![Vec::new(); columns.len()];
            let rows = self.rows_of(&table, view).await?;
            leases.extend(self.running.answered.take());
            bytes += rows.iter().flatten().map(least_bytes).sum::<usize>();
            check_envelope(bytes, bytes_max)?;
            for row in rows {
                arrays.iter_mut().zip(row).for_each(|(array, value)| array.push(value));
            }
            for ((_, column), array) in columns.iter().zip(arrays) {
                let element = column.data_type.without_modifier();
                types.push(DataType::Array(Box::new(element)));
                given.push(Value::Array(array.into()));
            }
        }
        let text = merge::shown(&statement.to_string());
        let [fed] = <[_; 1]>::try_from(self.parse(&text)?).map_err(|_| not_fed())?;
        let declared: Vec<_> = types.into_iter().map(Some).collect();
        let prepared = Arc::new(self.bind(&view.versioned, fed, &declared, false)?);
        if prepared.temporary {
            return Err(not_fed());
        }
        let answered = Box::pin(self.execute_within(&prepared, &given)).await;
        drop(leases);
        answered
    }

    /// All rows of a temporary table, in the order of their keys.
    async fn rows_of(&mut self, table: &Table, view: &View) -> Result<Vec<Box<[Value]>>> {
        let columns = table.schema.visible_columns().map(|(_, column)| quoted(&column.name));
        let columns: Vec<String> = columns.collect();
        let text = format!("SELECT {} FROM {}", columns.join(", "), as_sql(table.key()));
        let parsed = parse(&text)?.remove(0);
        let prepared = self.bind(&view.versioned, parsed, &[], false)?;
        let Action::Program(Program::Procedure(procedure)) = &prepared.bound.statement else {
            return Err(not_fed());
        };
        let call = Call { procedure: Arc::clone(procedure), arguments: Box::default() };
        let work = Work::Statement(call);
        self.query(&work, view.clone(), Locking::default()).await.map(|result| result.rows)
    }
}

/// Puts arguments in the place of temporary tables.
struct Feeder<'a> {
    catalog: &'a Catalog,
    /// Arguments of the statement itself.
    first: usize,
    fed: Vec<Arc<Table>>,
}

impl Feeder<'_> {
    fn temporary(&self, name: &ast::ObjectName) -> Result<Option<Arc<Table>>> {
        let key = object_name(name)?;
        if let Some(view) = self.catalog.view(&key)
            && self.catalog.ledger().view(&key).is_none()
        {
            return Err(Error::unsupported(format_args!(
                "the temporary view \"{}\" in a statement that writes to the ledger",
                crate::syntax::names::bare(&view.name)
            ))
            .with_hint("Put its query in its place."));
        }
        let table = self.catalog.find_table(&key);
        Ok(table.filter(|table| table.id().is_temporary()).cloned())
    }

    /// The place of the first argument that a table's columns are.
    fn place(&mut self, table: &Arc<Table>) -> usize {
        let width = |table: &Arc<Table>| table.schema.visible_columns().count();
        let id: TableId = table.id();
        let at = self.fed.iter().position(|fed| fed.id() == id).unwrap_or(self.fed.len());
        if at == self.fed.len() {
            self.fed.push(Arc::clone(table));
        }
        self.first + 1 + self.fed[..at].iter().map(width).sum::<usize>()
    }

    fn factor(
        &mut self,
        table: &Arc<Table>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<ast::TableFactor> {
        let place = self.place(table);
        let shown = alias.map_or_else(|| table.name().to_owned(), |alias| fold(&alias.name));
        let renamed = alias.map_or(&[][..], |alias| &alias.columns);
        let renamed = renamed.iter().map(|column| Some(fold(&column.name)));
        let renamed = renamed.chain(std::iter::repeat(None));
        let columns = table.schema.visible_columns().zip(renamed);
        let columns = columns
            .map(|((_, column), renamed)| quoted(renamed.as_deref().unwrap_or(&column.name)));
        let columns: Vec<String> = columns.collect();
        let arguments = (place..place + columns.len()).map(|place| format!("${place}"));
        let arguments: Vec<String> = arguments.collect();
        let text = format!(
            "SELECT * FROM unnest({}) AS {} ({})",
            arguments.join(", "),
            quoted(&shown),
            columns.join(", ")
        );
        let Body::Statement(statement) = parse(&text)?.remove(0).take_body() else {
            return Err(not_fed());
        };
        let ast::Statement::Query(query) = *statement else { return Err(not_fed()) };
        let ast::SetExpr::Select(mut select) = *query.body else { return Err(not_fed()) };
        select.from.pop().map(|from| from.relation).ok_or_else(not_fed)
    }
}

impl VisitorMut for Feeder<'_> {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Error> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let fed = match self.temporary(name) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(table)) => self.factor(&table, alias.as_ref()),
            Err(error) => Err(error),
        };
        match fed {
            Ok(fed) => {
                *factor = fed;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// What a value takes in an envelope at least.
fn least_bytes(value: &Value) -> usize {
    1 + match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Jsonb(json) => json.as_str().len(),
        _ => 0,
    }
}

fn check_envelope(bytes: usize, bytes_max: usize) -> Result<()> {
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "too many rows of temporary tables for one statement",
        )
        .with_detail(format!(
            "By the ledger's parameter envelope_bytes_max a transaction has at most {bytes_max} \
             bytes."
        ))
        .with_hint("Narrow them down in a temporary table of their own, or write them in parts.")),
    }
}

fn not_fed() -> Error {
    Error::unsupported("a temporary table in this place of a statement that writes to the ledger")
        .with_hint("Read it by SELECT … FROM it, or a subquery, within the statement.")
}
