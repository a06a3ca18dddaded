//! What INSERT, UPDATE and DELETE have in common: rows one by one, their count, RETURNING.

use std::sync::Arc;

use identity::Privileges;
use procedure::bound::long_columns;
use procedure::step::{Carried, Phi};
use procedure::{BinaryOp, Column, CommandCode, Expr, Query, Reg, Step};
use sqlparser::ast::{self, Spanned};
use types::{ColumnId, DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed};
use super::constraints::{Moment, NewKey};
use super::scope::Scope;
use super::state::{EndChecks, Following};
use crate::schema::catalog::{Catalog, Table};
use crate::schema::sequence::Identity;
use crate::syntax::changes::is_default;
use crate::syntax::exprs::{is_row, positional};
use crate::syntax::names::{fold, simple_name};

/// A data-modifying statement that has become steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Dml {
    /// How many rows it touched.
    pub count: Expr,
    /// Columns of RETURNING.
    pub columns: Option<Vec<Column>>,
    /// Values of the last row returned, where they were kept instead of emitted.
    pub returned: Vec<Expr>,
}

/// What SET gives a column.
enum Assigned<'s> {
    Spelled(&'s ast::Expr),
    /// A column of a subquery's row.
    Selected(Typed),
}

fn not_as_many() -> Error {
    let what = "number of columns does not match number of values";
    Error::new(SqlState::SYNTAX_ERROR, what)
}

/// RETURNING, over the columns of the table.
#[derive(Clone, Default)]
pub(super) struct Returning {
    clause: Option<(Vec<Expr>, Vec<Column>)>,
    emit: bool,
}

/// One row's (or all rows') count and kept RETURNING values.
pub(super) struct RowResult {
    pub count: Expr,
    pub returned: Vec<Expr>,
}

impl RowResult {
    pub fn none() -> RowResult {
        RowResult { count: Expr::Const(Value::Int(0)), returned: Vec::new() }
    }
}

impl Returning {
    /// Rows of these values for the client.
    pub fn emitted(exprs: Vec<Expr>, columns: Vec<Column>) -> Returning {
        Returning { clause: Some((exprs, columns)), emit: true }
    }

    /// How many values are kept of each row.
    pub fn width(&self) -> usize {
        match &self.clause {
            Some((exprs, _)) if !self.emit => exprs.len(),
            _ => 0,
        }
    }

    /// What it shows, over the table's columns, and their names.
    pub fn shown(&self) -> Option<(&[Expr], &[Column])> {
        self.clause.as_ref().map(|(exprs, columns)| (&exprs[..], &columns[..]))
    }

    pub fn is_none(&self) -> bool {
        self.clause.is_none()
    }

    /// Columns of the table that it shows.
    pub fn columns_used(&self) -> Vec<ColumnId> {
        let exprs = self.clause.iter().flat_map(|(exprs, _)| exprs);
        exprs.flat_map(Expr::columns).collect()
    }

    pub fn finish(&self, row: RowResult) -> Dml {
        Dml {
            count: row.count,
            columns: self.clause.as_ref().map(|(_, columns)| columns.clone()),
            returned: row.returned,
        }
    }
}

impl Binder<'_> {
    /// Binds INSERT, UPDATE or DELETE and adds its steps. `emit`: RETURNING rows go to the client;
    /// otherwise the values of the last one are kept for the caller.
    pub fn dml(&mut self, statement: &ast::Statement, emit: bool) -> Result<Dml> {
        let end_checks = |catalog: &Catalog| EndChecks::of(catalog, statement);
        self.with_end_checks(end_checks, |binder| binder.dml_part(statement, emit))
    }

    fn dml_part(&mut self, statement: &ast::Statement, emit: bool) -> Result<Dml> {
        match statement {
            ast::Statement::Insert(insert) => self.insert(insert, emit),
            ast::Statement::Update(update) => self.update(update, emit),
            ast::Statement::Delete(delete) => self.delete(delete, emit),
            ast::Statement::Merge(merge) => self.merge(merge, emit),
            ast::Statement::Query(query) => self.dml_with(query, emit),
            _ => Err(Error::new(SqlState::INTERNAL_ERROR, "not a data-modifying statement")),
        }
    }

    pub(super) fn returning_clause(
        &mut self,
        scope: &Scope,
        items: Option<&[ast::SelectItem]>,
        emit: bool,
    ) -> Result<Returning> {
        let clause = match items {
            None => None,
            Some(items) => Some(self.returning(scope, items)?),
        };
        Ok(Returning { clause, emit })
    }

    /// A row has been written whose columns are `row` now: RETURNING shows it.
    pub(super) fn row_done(&mut self, returning: &Returning, row: &[Expr]) -> Result<RowResult> {
        let mut values = Vec::new();
        for expr in returning.clause.iter().flat_map(|(exprs, _)| exprs) {
            let mut value = expr.clone();
            value.map_columns(&mut |c| row[usize::from(c)].clone());
            values.push(value);
        }
        let mut returned = Vec::new();
        if returning.emit && !returning.is_none() {
            self.steps.push(Step::Emit { values: values.into() });
        } else {
            for value in values {
                returned.push(self.let_value(value)?);
            }
        }
        Ok(RowResult { count: Expr::Const(Value::Int(1)), returned })
    }

    /// The steps of `body` for each row of a query; counts add up, the last row's values are kept.
    /// A query for one row by its key is a read and a branch, so that the key stays in sight.
    pub(super) fn for_rows(
        &mut self,
        query: Query,
        width: usize,
        returned: usize,
        body: impl FnOnce(&mut Self, &[Reg]) -> Result<RowResult>,
    ) -> Result<RowResult> {
        let query = match query {
            Query::Get { table, key, columns, filter: None }
                if columns.len() == width && !self.is_late() =>
            {
                let row = self.registers(width)?;
                let found = self.register()?;
                self.steps.push(Step::Read {
                    table,
                    key,
                    columns,
                    out: row.first().copied().unwrap_or(found),
                    found,
                });
                let none = |_: &mut Self| Ok(RowResult::none());
                return self.either(Expr::Reg(found), returned, |b| body(b, &row), none);
            }
            // What is made of registers has been read.
            Query::RowsFrom { .. } | Query::Call { .. } => query,
            query if self.is_late() => self.rows_kept(query)?,
            query => query,
        };
        let row = self.registers(width)?;
        let count = self.register()?;
        let kept = self.registers(returned)?;
        let mut result = RowResult::none();
        let body = self.block(|binder| {
            result = body(binder, &row)?;
            Ok(())
        })?;
        let mut carried = vec![Carried {
            register: count,
            initial: Expr::Const(Value::Int(0)),
            next: Expr::Binary {
                op: BinaryOp::Add,
                left: Box::new(Expr::Reg(count)),
                right: Box::new(result.count),
                result: DataType::Int8,
            },
        }];
        for (i, register) in kept.iter().enumerate() {
            let next = result.returned.get(i).cloned();
            carried.push(Carried {
                register: *register,
                initial: Expr::Const(Value::Null),
                next: next.unwrap_or(Expr::Reg(*register)),
            });
        }
        let row = row.into();
        self.change_step(Step::ForRows { query, row, body, carried: carried.into() });
        Ok(RowResult {
            count: Expr::Reg(count),
            returned: kept.into_iter().map(Expr::Reg).collect(),
        })
    }

    /// One of two ways to deal with a row.
    pub(super) fn either(
        &mut self,
        condition: Expr,
        returned: usize,
        then: impl FnOnce(&mut Self) -> Result<RowResult>,
        otherwise: impl FnOnce(&mut Self) -> Result<RowResult>,
    ) -> Result<RowResult> {
        let (mut yes, mut no) = (RowResult::none(), RowResult::none());
        let then = self.block(|binder| {
            yes = then(binder)?;
            Ok(())
        })?;
        let otherwise = self.block(|binder| {
            no = otherwise(binder)?;
            Ok(())
        })?;
        let outs = self.registers(1 + returned)?;
        let value = |result: &RowResult, i: usize| match i {
            0 => result.count.clone(),
            i => result.returned.get(i - 1).cloned().unwrap_or(Expr::Const(Value::Null)),
        };
        let phis = outs.iter().enumerate().map(|(i, out)| Phi {
            out: *out,
            then: value(&yes, i),
            otherwise: value(&no, i),
        });
        self.steps.push(Step::If { condition, then, otherwise, phis: phis.collect() });
        let mut outs = outs.into_iter().map(Expr::Reg);
        Ok(RowResult {
            count: outs.next().unwrap_or(Expr::Const(Value::Int(0))),
            returned: outs.collect(),
        })
    }

    /// `SET a = …, (b, c) = (…, …)` over the columns in `scope`.
    pub(super) fn assignments(
        &mut self,
        scope: &Scope,
        table: &Table,
        assignments: &[ast::Assignment],
    ) -> Result<Vec<(ColumnId, Expr)>> {
        let mut bound: Vec<(ColumnId, Expr)> = Vec::new();
        let pairs = self.assigned(scope, assignments)?;
        let identities = self.catalog.identities(table.id());
        for (name, value) in pairs {
            let column = set_column(table, name).map_err(|error| self.at(name.span(), error))?;
            // What follows from it by GENERATED needs no privilege of its own.
            self.needs_columns(table.id(), Privileges::UPDATE, [column]);
            let is_default = matches!(value, Assigned::Spelled(value) if is_default(value));
            if identities.contains(&(column, Identity::Always)) && !is_default {
                return Err(Error::new(
                    SqlState::GENERATED_ALWAYS,
                    format!("column \"{name}\" can only be updated to DEFAULT"),
                )
                .with_detail(format!(
                    "Column \"{name}\" is an identity column defined as GENERATED ALWAYS."
                )));
            }
            if bound.iter().any(|(c, _)| *c == column) {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple assignments to same column \"{name}\""),
                ));
            }
            if table.generated(column).is_some() {
                if is_default {
                    continue;
                }
                return Err(Error::new(
                    SqlState::GENERATED_ALWAYS,
                    format!("column \"{name}\" can only be updated to DEFAULT"),
                )
                .with_detail(format!("Column \"{name}\" is a generated column.")));
            }
            let to = table.column_type(column);
            let value = match value {
                _ if is_default => self.default_of(table, column),
                Assigned::Spelled(value) => {
                    let typed = self.expression(scope, value)?;
                    let assigned = self.assign(typed, table.column_name(column), to);
                    assigned.map_err(|error| self.at(value.span(), error))?
                }
                Assigned::Selected(typed) => self.assign(typed, table.column_name(column), to)?,
            };
            bound.push((column, value));
        }
        self.with_generated(table, bound)
    }

    /// Each column that SET names, with what it is given.
    fn assigned<'s>(
        &mut self,
        scope: &Scope,
        assignments: &'s [ast::Assignment],
    ) -> Result<Vec<(&'s ast::ObjectName, Assigned<'s>)>> {
        let mut pairs = Vec::new();
        for assignment in assignments {
            let names = match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => {
                    pairs.push((name, Assigned::Spelled(&assignment.value)));
                    continue;
                }
                ast::AssignmentTarget::Tuple(names) => names,
            };
            let values: Vec<Assigned<'s>> = match &assignment.value {
                ast::Expr::Subquery(query) => {
                    let row = self.row_of_subquery(scope, query, names.len(), |_| not_as_many());
                    row?.into_iter().map(Assigned::Selected).collect()
                }
                ast::Expr::Tuple(values) => values.iter().map(Assigned::Spelled).collect(),
                ast::Expr::Nested(value) => vec![Assigned::Spelled(value)],
                ast::Expr::Function(call) if is_row(&assignment.value) => match &call.args {
                    ast::FunctionArguments::List(list) => {
                        let values = list.args.iter().map(positional);
                        values.map(|value| value.map(Assigned::Spelled)).collect::<Result<_>>()?
                    }
                    _ => Vec::new(),
                },
                _ => {
                    let what = "source for a multiple-column UPDATE item must be a sub-SELECT or \
                                ROW() expression";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
                }
            };
            if names.len() != values.len() {
                return Err(not_as_many());
            }
            pairs.extend(names.iter().zip(values));
        }
        Ok(pairs)
    }

    /// Assignments, and those of the generated columns that follow from them. Columns are of the
    /// row as it was.
    pub(super) fn with_generated(
        &mut self,
        table: &Table,
        mut assigned: Vec<(ColumnId, Expr)>,
    ) -> Result<Vec<(ColumnId, Expr)>> {
        let given = assigned.len();
        for (column, generated) in &table.generated {
            let inputs = generated.value.columns();
            let of = |c: &ColumnId| assigned[..given].iter().find(|(a, _)| a == c);
            let mut size = 0;
            for (_, value) in inputs.iter().filter_map(of) {
                if value.draws() {
                    return Err(Error::unsupported(
                        "a value that is drawn, in a column that a generated one follows from",
                    )
                    .with_hint("Draw it first, and give it as a parameter."));
                }
                value.walk(&mut |_| size += 1);
            }
            if size > 0 {
                // Each use is a copy.
                self.count_of_schema(size)?;
                let mut value = generated.value.clone();
                value.map_columns(&mut |c| of(&c).map_or(Expr::Column(c), |(_, v)| v.clone()));
                assigned.push((*column, value));
            }
        }
        Ok(assigned)
    }

    /// Writes new values into the row whose columns are `old`, all checks included; gives the new
    /// row. `assigned` is over registers.
    pub(super) fn update_row(
        &mut self,
        table: &Arc<Table>,
        old: &dyn Fn(ColumnId) -> Expr,
        assigned: &[(ColumnId, Expr)],
    ) -> Result<Vec<Expr>> {
        let width = table.schema.columns.len() as ColumnId;
        let mut new: Vec<Expr> = (0..width).map(old).collect();
        for (column, value) in assigned {
            new[usize::from(*column)] = self.let_value(value.clone())?;
        }
        let changed = |c: ColumnId| assigned.iter().any(|(a, _)| *a == c);
        let key: Vec<Expr> = table.schema.primary_key.iter().map(|c| old(*c)).collect();
        self.check_row(table, &new, &changed);
        self.check_parents(table, &new, &changed, Moment::Written)?;
        self.check_unique(table, &new, Some(&key), &changed)?;
        let new_value = |c: ColumnId| new[usize::from(c)].clone();
        let new_key = NewKey { value: &new_value, changed: &changed };
        self.release_children(table, old, Some(new_key), 0, &[])?;
        self.write_row(table, key, assigned, &new)?;
        if self.following != Following::AtOnce {
            return Ok(new);
        }
        match self.followers(table, &changed) {
            Some(followers) => {
                let itself = Query::Values([Box::default()].into());
                self.followers_follow(table, &itself, old, &new_value, &followers)?;
            }
            None => self.children_follow(table, old, new_key)?,
        }
        Ok(new)
    }

    fn write_row(
        &mut self,
        table: &Arc<Table>,
        key: Vec<Expr>,
        assigned: &[(ColumnId, Expr)],
        new: &[Expr],
    ) -> Result<()> {
        let found = self.register()?;
        let moves = |c: &ColumnId| assigned.iter().any(|(a, _)| a == c);
        if table.schema.primary_key.iter().any(moves) {
            self.steps.push(delete_step(table, key.into(), found));
            if self.is_late() {
                self.require(Expr::Reg(found), changed_already(table), None);
            }
            let inserted = self.insert_step(table, new)?;
            self.require_inserted(table, new, inserted);
            return Ok(());
        }
        let assignments = assigned.iter().enumerate();
        let code = CommandCode::on(
            &table.schema.columns,
            assignments.map(|(i, (column, _))| (*column, Expr::Reg(Reg(i as u16)))).collect(),
            Box::default(),
        );
        let inputs = assigned.iter().map(|(c, _)| new[usize::from(*c)].clone());
        self.steps.push(Step::Update {
            table: table.id(),
            key: key.into(),
            code: Arc::new(code),
            inputs: inputs.collect(),
            found,
        });
        Ok(())
    }

    /// Deletes the row whose columns are `old`, and deals with those that point at it.
    pub(super) fn delete_row(
        &mut self,
        table: &Arc<Table>,
        old: &dyn Fn(ColumnId) -> Expr,
        depth: u16,
    ) -> Result<Reg> {
        let together = self.goes_in_cycles(table, depth);
        self.release_children(table, old, None, depth, &together)?;
        let found = self.register()?;
        let key = table.schema.primary_key.iter().map(|c| old(*c)).collect();
        self.steps.push(delete_step(table, key, found));
        self.descendants_follow(table, old, depth, &together)?;
        Ok(found)
    }
}

pub(super) fn delete_step(table: &Table, key: Box<[Expr]>, found: Reg) -> Step {
    Step::Delete { table: table.id(), key, long: long_columns(&table.schema.columns), found }
}

/// A row that has gone since it was read, by another part of the statement.
fn changed_already(table: &Table) -> Error {
    let what = "a row to be moved was already changed by another part of the statement";
    Error::new(SqlState(*b"27000"), what).with_table(table.name())
}

/// What SET names: a column without a relation's name in front.
fn set_column(table: &Table, name: &ast::ObjectName) -> Result<ColumnId> {
    match name.0.as_slice() {
        [_] => table.column_named(&simple_name(name)?),
        parts => {
            let first =
                parts.first().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            let what =
                format!("column \"{first}\" of relation \"{}\" does not exist", table.name());
            let error = Error::new(SqlState::UNDEFINED_COLUMN, what);
            Err(error.with_hint("SET names a column of the table alone: no relation before it."))
        }
    }
}

/// 1 where `found`, else 0.
pub(super) fn one_if(found: Reg) -> Expr {
    let int = |i| Expr::Const(Value::Int(i));
    Expr::Case { whens: [(Expr::Reg(found), int(1))].into(), otherwise: Box::new(int(0)) }
}
