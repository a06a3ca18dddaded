//! INSERT, with ON CONFLICT.

use std::sync::Arc;

use identity::Privileges;
use procedure::query::Repeats;
use procedure::{Expr, Query, Reg, Step};
use sqlparser::ast::{self, Spanned};
use types::{ColumnId, DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed};
use super::constraints::{Moment, first_in_index};
use super::dml::{Dml, Returning, RowResult};
use super::insert_plan::{Conflict, InsertPlan, arbiter, no_arbiter};
use super::items::{Item, Source};
use super::plan::{Wishes, plan as plan_of};
use super::scope::Scope;
use super::state::Waits;
use crate::schema::catalog::Table;
use crate::syntax::changes::{given_columns, is_default, is_plain, single_row};
use crate::syntax::names::{fold, simple_name};
use crate::syntax::sequence::overriding;

impl Binder<'_> {
    pub(super) fn insert(&mut self, insert: &ast::Insert, emit: bool) -> Result<Dml> {
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("INSERT into anything but a table"));
        };
        let table = self.changed_table(name)?;
        let shown = match &insert.table_alias {
            Some(alias) => fold(&alias.alias),
            None => table.name().to_owned(),
        };
        let columns = self.target_columns(&table, &insert.columns)?;
        let is_listed = !insert.columns.is_empty();
        let width = if is_listed { columns.len() } else { given_columns(insert.source.as_deref()) };
        self.needs_inserted(&table, &columns[..columns.len().min(width)]);
        let mut scope = Scope::default();
        scope.add_table(&table, &shown);
        let returning = self.returning_clause(&scope, insert.returning.as_deref(), emit)?;
        let conflict = self.conflict(&table, &shown, insert.on.as_ref())?;
        let identities = self.catalog.identities(table.id());
        let overriding = overriding(insert);
        let beside = Vec::new();
        let plan = InsertPlan {
            table,
            columns,
            is_listed,
            conflict,
            returning,
            beside,
            identities,
            overriding,
        };
        match &insert.source {
            None if self.is_late() => {
                let nothing = Query::Values([Box::default()].into());
                self.insert_late(&plan, nothing, &[])
            }
            None => {
                let row = self.insert_values(&plan, Vec::new())?;
                Ok(plan.returning.finish(row))
            }
            Some(query) => match single_row(query) {
                Some(row) if !self.is_late() => {
                    let values = self.row_of_values(&plan, &Scope::default(), row)?;
                    let row = self.insert_values(&plan, values)?;
                    Ok(plan.returning.finish(row))
                }
                _ => self.insert_query(&plan, query),
            },
        }
    }

    /// A row of nothing but defaults needs the privilege for some column.
    fn needs_inserted(&mut self, table: &Table, columns: &[ColumnId]) {
        match columns.is_empty() {
            true => self.needs_some(table, Privileges::INSERT),
            false => self.needs_columns(table.id(), Privileges::INSERT, columns.iter().copied()),
        }
    }

    fn target_columns(
        &mut self,
        table: &Table,
        names: &[ast::ObjectName],
    ) -> Result<Vec<ColumnId>> {
        if names.is_empty() {
            return Ok(table.schema.visible_columns().map(|(c, _)| c).collect());
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = table.column_named(&simple_name(name)?);
            let column = column.map_err(|error| self.at(name.span(), error))?;
            if columns.contains(&column) {
                return Err(Error::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{name}\" specified more than once"),
                ));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// The values of `VALUES (…)`, each as its column's type.
    fn row_of_values(
        &mut self,
        plan: &InsertPlan,
        scope: &Scope,
        row: &[ast::Expr],
    ) -> Result<Vec<Expr>> {
        plan.check_width(row.len())?;
        let mut values = Vec::with_capacity(row.len());
        for (column, expr) in plan.columns.iter().zip(row) {
            if !is_default(expr) {
                plan.check_may_give(*column)?;
            }
            values.push(self.column_value(&plan.table, *column, scope, expr)?);
        }
        Ok(values)
    }

    /// A value for a column; DEFAULT stands for the column's own.
    fn column_value(
        &mut self,
        table: &Table,
        column: ColumnId,
        scope: &Scope,
        expr: &ast::Expr,
    ) -> Result<Expr> {
        if is_default(expr) {
            return Ok(self.default_of(table, column));
        }
        let typed = self.expression(scope, expr)?;
        let assigned = self.assign(typed, table.column_name(column), table.column_type(column));
        assigned.map_err(|error| self.at(expr.span(), error))
    }

    pub(super) fn default_of(&mut self, table: &Table, column: ColumnId) -> Expr {
        let default = self.catalog.default_of_column(table, column).cloned();
        self.drawn_anew(default.unwrap_or(Expr::Const(Value::Null)))
    }

    fn insert_query(&mut self, plan: &InsertPlan, query: &ast::Query) -> Result<Dml> {
        let targets: Vec<DataType> =
            plan.columns.iter().map(|c| plan.table.column_type(*c).clone()).collect();
        let (query, types) = match &*query.body {
            ast::SetExpr::Values(values) if is_plain(query) => {
                let mut widths = values.rows.iter().map(|row| row.content.len());
                let first = widths.next().unwrap_or_default();
                if widths.any(|width| width != first) {
                    let what = "VALUES lists must all be the same length";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, what));
                }
                let mut rows = Vec::with_capacity(values.rows.len());
                for row in &values.rows {
                    let values = self.row_of_values(plan, &Scope::default(), &row.content)?;
                    rows.push(values.into_boxed_slice());
                }
                let width = rows.first().map_or(0, |row| row.len());
                (Query::Values(rows.into()), targets[..width].to_vec())
            }
            _ => {
                let bound = self.query_into(query, &targets)?;
                plan.check_width(bound.columns.len())?;
                let given = plan.columns.iter().take(bound.columns.len());
                given.copied().try_for_each(|column| plan.check_may_give(column))?;
                let types = bound.columns.into_iter().map(|c| c.data_type);
                (bound.query, types.collect())
            }
        };
        let is_checked_at_end =
            self.rows_await_parents(&plan.table) && plan.index_to_check_by().is_some();
        if self.is_late() || is_checked_at_end || matches!(plan.conflict, Conflict::Update { .. }) {
            return self.insert_late(plan, query, &types);
        }
        let returned = plan.returning.width();
        self.for_rows(query, types.len(), returned, |binder, row| {
            let mut values = Vec::with_capacity(row.len());
            for ((register, data_type), column) in row.iter().zip(types).zip(&plan.columns) {
                let typed = Typed::new(Expr::Reg(*register), data_type);
                let name = plan.table.column_name(*column);
                let to = plan.table.column_type(*column);
                let value = match typed.data_type == *to {
                    true => typed.expr,
                    false => binder.assign(typed, name, to)?,
                };
                values.push(value);
            }
            binder.insert_values(plan, values)
        })
        .map(|row| plan.returning.finish(row))
    }

    /// Rows that are computed whole, defaults and all, before anything is changed, and looked at
    /// again when all is.
    fn insert_late(&mut self, plan: &InsertPlan, query: Query, types: &[DataType]) -> Result<Dml> {
        let table = &plan.table;
        let may_leave = !matches!(plan.conflict, Conflict::Reject);
        if may_leave && self.keeps_rows() && !plan.returning.is_none() {
            return Err(Error::unsupported("RETURNING of INSERT … ON CONFLICT within WITH"));
        }
        let mut values = Vec::with_capacity(types.len());
        for (place, (data_type, column)) in types.iter().zip(&plan.columns).enumerate() {
            let typed = Typed::new(Expr::Column(place as u16), data_type.clone());
            values.push(self.assign(
                typed,
                table.column_name(*column),
                table.column_type(*column),
            )?);
        }
        let row = self.whole_row(plan, &values);
        let rows = Query::Project { input: Box::new(query), expressions: row.into() };
        // What is drawn is drawn once, and generated columns follow from that.
        let mut rows = self.rows_kept(rows)?;
        rows = with_generated_columns(table, rows);
        self.keep_returning(&plan.returning, &rows, &|column| Some(usize::from(column)));
        let (width, returned) = (table.schema.columns.len(), plan.returning.width());
        let looked_for = plan.index_to_check_by();
        let waits = Waits { parents: looked_for.is_some(), children: false };
        let row = self.waiting(waits, |binder| {
            let Some(marked) = marked_repeats(plan, &rows)? else {
                return binder.for_rows(rows.clone(), width, returned, |binder, row| {
                    binder.insert_row(plan, &in_registers(row))
                });
            };
            binder.for_rows(marked, width + 1, returned, |binder, row| {
                let (row, repeated) = row.split_at(width);
                let row = in_registers(row);
                binder.check_row(&plan.table, &row, &|_| true);
                let is_new = repeated.iter().map(|register| Expr::negated(Expr::Reg(*register)));
                is_new.for_each(|is_new| binder.require(is_new, changed_twice(), None));
                binder.insert_checked_row(plan, &row)
            })
        })?;
        if let Some(by_index) = looked_for {
            self.check_inserted_at_end(table, &rows, by_index)?;
        }
        Ok(plan.returning.finish(row))
    }

    /// Every column's value, from those of the listed ones.
    pub(super) fn whole_row(&mut self, plan: &InsertPlan, values: &[Expr]) -> Vec<Expr> {
        let table = &plan.table;
        let mut row = Vec::with_capacity(table.schema.columns.len());
        for column in 0..table.schema.columns.len() as ColumnId {
            let listed = plan.columns.iter().position(|c| *c == column);
            let listed = listed.filter(|_| !plan.ignores(column));
            row.push(match listed.and_then(|place| values.get(place)) {
                _ if table.generated(column).is_some() => Expr::Const(Value::Null),
                Some(value) => value.clone(),
                None => self.default_of(table, column),
            });
        }
        row
    }

    /// Inserts one row whose listed columns have these values.
    pub(super) fn insert_values(
        &mut self,
        plan: &InsertPlan,
        values: Vec<Expr>,
    ) -> Result<RowResult> {
        let table = &plan.table;
        let mut row = self.whole_row(plan, &values);
        for value in &mut row {
            *value = self.let_value(value.clone())?;
        }
        for (column, generated) in &table.generated {
            let mut value = generated.value.clone();
            value.map_columns(&mut |c| row[usize::from(c)].clone());
            row[usize::from(*column)] = self.let_value(value)?;
        }
        self.insert_row(plan, &row)
    }

    /// Inserts a row of which every column has its value.
    fn insert_row(&mut self, plan: &InsertPlan, row: &[Expr]) -> Result<RowResult> {
        self.check_row(&plan.table, row, &|_| true);
        self.insert_checked_row(plan, row)
    }

    fn insert_checked_row(&mut self, plan: &InsertPlan, row: &[Expr]) -> Result<RowResult> {
        match &plan.conflict {
            Conflict::Reject => self.insert_checked(plan, row),
            Conflict::Nothing(index) => self.insert_or_leave(plan, row, *index),
            Conflict::Update { .. } => self.insert_or_update(plan, row),
        }
    }

    fn insert_checked(&mut self, plan: &InsertPlan, row: &[Expr]) -> Result<RowResult> {
        self.check_parents(&plan.table, row, &|_| true, Moment::Written)?;
        self.check_unique(&plan.table, row, None, &|_| true)?;
        let inserted = self.insert_step(&plan.table, row)?;
        self.require_inserted(&plan.table, row, inserted);
        let shown: Vec<Expr> = row.iter().chain(&plan.beside).cloned().collect();
        self.row_done(&plan.returning, &shown)
    }

    fn insert_or_leave(
        &mut self,
        plan: &InsertPlan,
        row: &[Expr],
        index: Option<u16>,
    ) -> Result<RowResult> {
        let table = &plan.table;
        let unique = table.live_indexes().filter(|(_, i)| i.unique).map(|(id, _)| id);
        let own_key = (!table.schema.hidden_row_id).then_some(0);
        let arbiters: Vec<u16> = match index {
            Some(index) => vec![index],
            None => own_key.into_iter().chain(unique).collect(),
        };
        let mut taken = Vec::new();
        for index in arbiters {
            let columns = table.index_columns(index);
            let values: Vec<Expr> = columns.iter().map(|c| row[usize::from(*c)].clone()).collect();
            let found = self.register()?;
            self.steps.push(match index {
                0 => Step::Exists { table: table.id(), key: values.into(), found },
                _ => Step::Fetch {
                    query: first_in_index(table, index, &values, &[]),
                    outputs: Box::default(),
                    found,
                    strict: false,
                },
            });
            taken.push(Expr::Reg(found));
        }
        let free = Expr::negated(Expr::Or(taken.into()));
        self.either(
            free,
            plan.returning.width(),
            |binder| binder.insert_checked(plan, row),
            |_| Ok(RowResult::none()),
        )
    }

    fn insert_or_update(&mut self, plan: &InsertPlan, row: &[Expr]) -> Result<RowResult> {
        let Conflict::Update { index, assignments, condition } = &plan.conflict else {
            return self.insert_checked(plan, row);
        };
        let table = &plan.table;
        let columns: Vec<ColumnId> = (0..table.schema.columns.len() as ColumnId).collect();
        let key = table.index_columns(*index).iter();
        let key: Vec<Expr> = key.map(|c| row[usize::from(*c)].clone()).collect();
        let query = match index {
            0 => Query::Get {
                table: table.id(),
                key: key.into(),
                columns: columns.clone().into(),
                filter: None,
            },
            _ => first_in_index(table, *index, &key, &columns),
        };
        let existing = self.registers(columns.len())?;
        let found = self.register()?;
        self.steps.push(Step::Fetch {
            query,
            outputs: existing.clone().into(),
            found,
            strict: false,
        });
        // In the clause, the table's columns come first and EXCLUDED's behind them.
        let in_place = |expr: &Expr| {
            let mut expr = expr.clone();
            expr.map_columns(&mut |c| match existing.get(usize::from(c)) {
                Some(register) => Expr::Reg(*register),
                None => row[usize::from(c) - existing.len()].clone(),
            });
            expr
        };
        let old = |c: ColumnId| Expr::Reg(existing[usize::from(c)]);
        let update = |binder: &mut Self| {
            let assigned: Vec<(ColumnId, Expr)> =
                assignments.iter().map(|(c, e)| (*c, in_place(e))).collect();
            let new = binder.update_row(table, &old, &assigned)?;
            binder.row_done(&plan.returning, &new)
        };
        let width = plan.returning.width();
        self.either(
            Expr::Reg(found),
            width,
            |binder| match condition {
                None => update(binder),
                Some(condition) => {
                    binder.either(in_place(condition), width, update, |_| Ok(RowResult::none()))
                }
            },
            |binder| binder.insert_checked(plan, row),
        )
    }

    fn conflict(
        &mut self,
        table: &Arc<Table>,
        shown: &str,
        on: Option<&ast::OnInsert>,
    ) -> Result<Conflict> {
        let on = match on {
            None => return Ok(Conflict::Reject),
            Some(ast::OnInsert::OnConflict(on)) => on,
            Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY UPDATE")),
        };
        let index = match &on.conflict_target {
            None if !table.deferrable.is_empty() => return Err(no_arbiter()),
            None => None,
            Some(target) => Some(arbiter(table, target)?),
        };
        let update = match &on.action {
            ast::OnConflictAction::DoNothing => return Ok(Conflict::Nothing(index)),
            ast::OnConflictAction::DoUpdate(update) => update,
        };
        let index = index.ok_or_else(|| {
            Error::new(
                SqlState::SYNTAX_ERROR,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            )
            .with_hint("For example, ON CONFLICT (column_name).")
        })?;
        let mut scope = Scope::default();
        scope.add_table(table, shown);
        scope.add_table(table, "excluded");
        // Unqualified names mean the existing row.
        if let Some(excluded) = scope.relations.last_mut() {
            excluded.columns.iter_mut().for_each(|c| c.hidden = true);
        }
        let assignments = self.assignments(&scope, table, &update.assignments)?;
        let condition = match &update.selection {
            None => None,
            Some(condition) => {
                let typed = self.expression(&scope, condition)?;
                Some(self.boolean(typed, "WHERE")?)
            }
        };
        Ok(Conflict::Update { index, assignments, condition })
    }

    /// The columns and values that MERGE inserts, over the columns of its source.
    pub(super) fn merged_values(
        &mut self,
        scope: &Scope,
        table: &Arc<Table>,
        names: &[ast::ObjectName],
        values: &[ast::Expr],
    ) -> Result<(Vec<ColumnId>, Vec<Expr>)> {
        let columns = self.target_columns(table, names)?;
        let width = if names.is_empty() { values.len() } else { columns.len() };
        self.needs_inserted(table, &columns[..columns.len().min(width)]);
        let mut plan = self.merged(table, columns, (Returning::default(), Vec::new()));
        plan.is_listed = !names.is_empty();
        let values = self.row_of_values(&plan, scope, values)?;
        Ok((plan.columns, values))
    }

    /// Inserts a row of MERGE; RETURNING shows it with what is `beside` it.
    pub(super) fn insert_merged(
        &mut self,
        table: &Arc<Table>,
        columns: &[ColumnId],
        values: Vec<Expr>,
        shown: (Returning, Vec<Expr>),
    ) -> Result<RowResult> {
        let plan = self.merged(table, columns.to_vec(), shown);
        self.insert_values(&plan, values)
    }

    /// All columns of such a row, but for those that are generated.
    pub(super) fn whole_merged(
        &mut self,
        table: &Arc<Table>,
        columns: &[ColumnId],
        values: &[Expr],
    ) -> Vec<Expr> {
        let plan = self.merged(table, columns.to_vec(), (Returning::default(), Vec::new()));
        self.whole_row(&plan, values)
    }

    /// Inserts a row of which every column has its value.
    pub(super) fn insert_whole_merged(
        &mut self,
        table: &Arc<Table>,
        row: &[Expr],
        shown: (Returning, Vec<Expr>),
    ) -> Result<RowResult> {
        let plan = self.merged(table, Vec::new(), shown);
        self.insert_row(&plan, row)
    }

    fn merged(
        &self,
        table: &Arc<Table>,
        columns: Vec<ColumnId>,
        (returning, beside): (Returning, Vec<Expr>),
    ) -> InsertPlan {
        InsertPlan {
            table: table.clone(),
            columns,
            is_listed: false,
            conflict: Conflict::Reject,
            returning,
            beside,
            identities: self.catalog.identities(table.id()),
            overriding: None,
        }
    }
}

/// A row of COPY's, whose values are the first parameters.
pub(super) fn parameters(table: &Arc<Table>, columns: &[ColumnId]) -> (InsertPlan, Vec<Expr>) {
    let plan = InsertPlan {
        table: table.clone(),
        columns: columns.to_vec(),
        is_listed: true,
        conflict: Conflict::Reject,
        returning: Returning::default(),
        beside: Vec::new(),
        // COPY gives every value that it lists, whatever the column says.
        identities: Vec::new(),
        overriding: None,
    };
    (plan, (0..columns.len() as u16).map(|i| Expr::Reg(Reg(i))).collect())
}

/// Rows of a table, with the values of its generated columns.
pub(super) fn with_generated_columns(table: &Table, rows: Query) -> Query {
    if table.generated.is_empty() {
        return rows;
    }
    let columns = 0..table.schema.columns.len() as ColumnId;
    let value = |column| match table.generated(column) {
        Some(generated) => generated.value.clone(),
        None => Expr::Column(column),
    };
    Query::Project { input: Box::new(rows), expressions: columns.map(value).collect() }
}

fn in_registers(row: &[Reg]) -> Vec<Expr> {
    row.iter().map(|register| Expr::Reg(*register)).collect()
}

fn changed_twice() -> Error {
    let what = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
                constrained values.";
    Error::new(SqlState::CARDINALITY_VIOLATION, what).with_hint(hint)
}

/// The rows of ON CONFLICT DO UPDATE, and whether one before has come to the same row: it was
/// inserted or changed it, which leaves out those that the condition keeps from it.
fn marked_repeats(plan: &InsertPlan, rows: &Query) -> Result<Option<Query>> {
    let Conflict::Update { index, condition, .. } = &plan.conflict else { return Ok(None) };
    let table = &plan.table;
    let width = table.schema.columns.len() as u16;
    let key = table.index_columns(*index);
    let marked = |input: Query, counts: Option<u16>| {
        let (input, by) = (Box::new(input), key.into());
        Query::Distinct { input, by, repeats: Repeats::Marked(counts) }
    };
    let Some(condition) = condition else { return Ok(Some(marked(rows.clone(), None))) };
    let given = Item::new(Source::Query(rows.clone()), 0, width);
    let pairs = key.iter().map(|c| Expr::equal(Expr::Column(width + c), Expr::Column(*c)));
    let source = Source::Table(table.clone());
    let there = Item { left: Some(pairs.collect()), ..Item::new(source, width, width) };
    // In the clause, the table's columns come first and EXCLUDED's behind them.
    let mut condition = condition.clone();
    condition.map_columns(&mut |c| Expr::Column(if c < width { width + c } else { c - width }));
    let own = table.schema.primary_key.first().copied().unwrap_or_default();
    let is_free = Expr::is_null(Expr::Column(width + own), false);
    let columns: Vec<u16> = (0..2 * width).collect();
    let planned =
        plan_of(vec![given, there], Vec::new(), &Wishes { columns, ..Wishes::default() })?;
    let mut expressions: Vec<Expr> = (0..width).map(Expr::Column).collect();
    expressions.push(Expr::Or([is_free, condition].into()));
    expressions.iter_mut().for_each(|expr| planned.place(expr));
    let input = Box::new(planned.into_query());
    let flagged = Query::Project { input, expressions: expressions.into() };
    // Without the flag again.
    let mut columns: Vec<Expr> = (0..=width).map(Expr::Column).collect();
    columns[usize::from(width)] = Expr::Column(width + 1);
    let input = Box::new(marked(flagged, Some(width)));
    Ok(Some(Query::Project { input, expressions: columns.into() }))
}
