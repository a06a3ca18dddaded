//! Functions about the past, which are statements of their own: `tally_pin`, `tally_unpin`,
//! `tally_pins`, `tally_snapshot`, `tally_history`, `tally_outcome` and `tally_skips`;
//! and `tally_submit_signed`, `tally_approve` and `tally_propose`.
//!
//! They stand alone, as `SELECT f(…)` or `SELECT * FROM f(…)`, since what they answer is no value
//! that a block could compute again.

use std::sync::Arc;

use identity::Privileges;
use procedure::{Column, Expr, Output};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::Binder;
use super::routine::{function_call, plain_select};
use crate::bind::statement::{PastQuery, Program, Statement};
use crate::schema::catalog::{Commented, Table};
use crate::syntax::names::{fold, function_name};

impl Binder<'_> {
    /// `None` for a function that is none of these.
    pub(super) fn past_call(
        &mut self,
        name: &str,
        call: &ast::Function,
    ) -> Result<Option<(Statement, Output)>> {
        if !name.starts_with("tally_") {
            return Ok(None);
        }
        let (query, columns) = match name {
            "tally_pin" => {
                let [name, block] = self.past_arguments(call, &[DataType::Text, DataType::Int8])?;
                let name = name.ok_or_else(|| wanted("tally_pin(name text [, block bigint])"))?;
                (PastQuery::Pin { name, block }, vec![column("tally_pin", DataType::Int8)])
            }
            "tally_unpin" => {
                let [name] = self.past_arguments(call, &[DataType::Text])?;
                let name = name.ok_or_else(|| wanted("tally_unpin(name text)"))?;
                (PastQuery::Unpin { name }, vec![column("tally_unpin", DataType::Bool)])
            }
            "tally_pins" => {
                let [] = self.past_arguments(call, &[])?;
                (PastQuery::Pins, pins_columns())
            }
            "tally_snapshot" => {
                let [] = self.past_arguments(call, &[])?;
                (PastQuery::Snapshot, snapshot_columns())
            }
            "tally_skips" => {
                let [] = self.past_arguments(call, &[])?;
                (PastQuery::Skips, skips_columns())
            }
            "tally_outcome" => {
                let [key] = self.past_arguments(call, &[DataType::Text])?;
                let key = key.ok_or_else(|| wanted("tally_outcome(key text)"))?;
                (PastQuery::Outcome { key }, outcome_columns())
            }
            "tally_submit_signed" => {
                let [envelope] = self.past_arguments(call, &[DataType::Bytea])?;
                let envelope = envelope.ok_or_else(|| wanted("tally_submit_signed(bytea)"))?;
                (PastQuery::SubmitSigned { envelope }, submitted_columns())
            }
            "tally_approve" => {
                let [envelope] = self.past_arguments(call, &[DataType::Bytea])?;
                let envelope = envelope.ok_or_else(|| wanted("tally_approve(bytea)"))?;
                let columns = vec![column("tally_approve", DataType::Bytea)];
                (PastQuery::Approve { envelope }, columns)
            }
            "tally_propose" => {
                let [envelope] = self.past_arguments(call, &[DataType::Bytea])?;
                let envelope = envelope.ok_or_else(|| wanted("tally_propose(bytea)"))?;
                let columns = vec![column("tally_propose", DataType::Bytea)];
                (PastQuery::Propose { envelope }, columns)
            }
            "tally_history" => self.history_call(call)?,
            _ => return self.proof_call(name, call),
        };
        Ok(Some((Statement::Program(Program::Past(query)), Output::Rows(columns))))
    }

    /// `SELECT column, … FROM f(…)`; `None` for every other query.
    pub(super) fn past_columns(
        &mut self,
        query: &ast::Query,
    ) -> Result<Option<(Statement, Output)>> {
        let Some((call, shown, items)) = columns_of_call(query) else { return Ok(None) };
        let Ok(name) = function_name(&call.name) else { return Ok(None) };
        let answered = self.past_call(&name, &call)?;
        let Some((Statement::Program(Program::Past(of)), Output::Rows(all))) = answered else {
            return Ok(None);
        };
        let shown = shown.unwrap_or(name);
        let (mut places, mut columns) = (Vec::new(), Vec::new());
        for (parts, alias) in items {
            let place = match parts.as_slice() {
                [column] => all.iter().position(|known| known.name == *column),
                [relation, column] if *relation == shown => {
                    all.iter().position(|known| known.name == *column)
                }
                _ => None,
            };
            let place = place.ok_or_else(|| {
                let what = format!("column \"{}\" does not exist", parts.join("."));
                Error::new(SqlState::UNDEFINED_COLUMN, what)
            })?;
            let named = alias.unwrap_or_else(|| all[place].name.clone());
            columns.push(column(&named, all[place].data_type.clone()));
            places.push(place);
        }
        let query = PastQuery::Columns { of: Box::new(of), places };
        Ok(Some((Statement::Program(Program::Past(query)), Output::Rows(columns))))
    }

    /// So many arguments at most, as these types.
    pub(super) fn past_arguments<const N: usize>(
        &mut self,
        call: &ast::Function,
        types: &[DataType; N],
    ) -> Result<[Option<Expr>; N]> {
        let given = self.call_arguments(&super::Scope::default(), call)?;
        if given.len() > N {
            return Err(wanted(&format!("{} with at most {N} arguments", call.name)));
        }
        let mut arguments = [const { None }; N];
        for ((argument, given), data_type) in arguments.iter_mut().zip(given).zip(types) {
            *argument = Some(self.coerce(given, data_type, CastContext::Assignment)?);
        }
        Ok(arguments)
    }

    fn history_call(&mut self, call: &ast::Function) -> Result<(PastQuery, Vec<Column>)> {
        const USAGE: &str = "tally_history('table', key, …)";
        let ast::FunctionArguments::List(list) = &call.args else { return Err(wanted(USAGE)) };
        let table = list.args.first().and_then(literal).ok_or_else(|| wanted(USAGE))?;
        let table: Arc<Table> = self.catalog.table(&table.to_ascii_lowercase())?.clone();
        self.check_usage(table.key())?;
        self.needs(&Commented::Table(table.id()), Privileges::SELECT);
        let mut rest = call.clone();
        if let ast::FunctionArguments::List(list) = &mut rest.args {
            list.args.remove(0);
        }
        let given = self.call_arguments(&super::Scope::default(), &rest)?;
        let schema = &table.schema;
        if schema.hidden_row_id {
            let what = format!("the history of a row of \"{}\"", table.name());
            return Err(Error::unsupported(what)
                .with_detail("The table has no primary key to name a row by."));
        }
        if given.len() != schema.primary_key.len() {
            let names: Vec<&str> =
                schema.primary_key.iter().map(|&id| table.column_name(id)).collect();
            let what = format!("tally_history('{}', {})", table.name(), names.join(", "));
            return Err(wanted(&what));
        }
        let mut key = Vec::with_capacity(given.len());
        for (argument, &id) in given.into_iter().zip(&schema.primary_key) {
            key.push(self.coerce(argument, table.column_type(id), CastContext::Assignment)?);
        }
        let mut columns = history_columns();
        let visible = schema.columns.iter().filter(|c| !c.dropped && !c.is_hidden());
        columns.extend(visible.map(|c| column(&c.name, c.data_type.clone())));
        Ok((PastQuery::History { table: table.id(), key }, columns))
    }
}

/// A column's name, and the one that it is shown by.
type Item = (Vec<String>, Option<String>);

/// The call in `SELECT a, t.b AS c FROM f(…) AS t`, its alias, and the columns.
fn columns_of_call(query: &ast::Query) -> Option<(ast::Function, Option<String>, Vec<Item>)> {
    let select = plain_select(query)?;
    let [ast::TableWithJoins { relation, joins }] = select.from.as_slice() else { return None };
    let (name, args, alias) = match relation {
        ast::TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
        ast::TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return None,
    };
    if !joins.is_empty() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return None;
    }
    let named = |expr: &ast::Expr| match expr {
        ast::Expr::Identifier(name) => Some(vec![fold(name)]),
        ast::Expr::CompoundIdentifier(parts) => Some(parts.iter().map(fold).collect()),
        _ => None,
    };
    let item = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(expr) => Some((named(expr)?, None)),
        ast::SelectItem::ExprWithAlias { expr, alias } => Some((named(expr)?, Some(fold(alias)))),
        _ => None,
    };
    let items = select.projection.iter().map(item).collect::<Option<Vec<Item>>>()?;
    Some((function_call(name, args), alias.as_ref().map(|alias| fold(&alias.name)), items))
}

pub(super) fn literal(argument: &ast::FunctionArg) -> Option<String> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value))) = argument
    else {
        return None;
    };
    match &value.value {
        ast::Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn wanted(usage: &str) -> Error {
    Error::new(SqlState::UNDEFINED_FUNCTION, "no such call").with_hint(format!("Use {usage}."))
}

fn submitted_columns() -> Vec<Column> {
    vec![
        column("block", DataType::Int8),
        column("index", DataType::Int8),
        column("count", DataType::Int8),
        column("rows", DataType::Text),
    ]
}

fn outcome_columns() -> Vec<Column> {
    vec![
        column("outcome", DataType::Text),
        column("sqlstate", DataType::Text),
        column("block", DataType::Int8),
        column("index", DataType::Int8),
    ]
}

pub(super) fn column(name: &str, data_type: DataType) -> Column {
    Column { name: name.to_owned(), data_type }
}

fn snapshot_columns() -> Vec<Column> {
    vec![
        column("block", DataType::Int8),
        column("hash", DataType::Text),
        column("time", DataType::Timestamptz(None)),
    ]
}

fn skips_columns() -> Vec<Column> {
    vec![
        column("first", DataType::Int8),
        column("last", DataType::Int8),
        column("owner", DataType::Text),
        column("reason", DataType::Text),
    ]
}

fn pins_columns() -> Vec<Column> {
    let mut columns = vec![column("name", DataType::Text)];
    columns.extend(snapshot_columns());
    columns.extend(["state", "owner"].map(|name| column(name, DataType::Text)));
    columns
}

fn history_columns() -> Vec<Column> {
    vec![
        column("block", DataType::Int8),
        column("position", DataType::Int8),
        column("valid_from", DataType::Timestamptz(None)),
        column("deleted", DataType::Bool),
    ]
}
