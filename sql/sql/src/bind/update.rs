//! UPDATE and DELETE.
//!
//! An UPDATE of one row by its primary key becomes an update *command*: the new values are a
//! function of the row as it will be found, so nothing is read, and two such updates of one row
//! commute with all others' existence. That holds as long as nothing but the row decides: no
//! RETURNING, no random value, and no column of a key, a unique index or a foreign key is assigned.
//! What may take long, such as a function of texts without a declared length, is a metered command
//! (`procedure::bound`).
//! Every other UPDATE reads its rows first and writes them one by one.
//!
//! With FROM or USING the rows are those of a join, in which a row of the target may stand several
//! times. The first counts, and how the join is planned follows from the text and the schema, so
//! that is the same one everywhere: relations without a key to look them up by are read in the
//! order of the text, the target last, and each from its first row to its last.

use std::sync::Arc;

use identity::Privileges;
use procedure::query::Repeats;
use procedure::{Check, CommandCode, Expr, Query, Reg, Step};
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState, Value};

use super::binder::Binder;
use super::constraints::{check_violation, not_true, null_violation, relevant_checks, rows_of};
use super::cycles::Followers;
use super::dml::{Dml, Returning, RowResult, one_if};
use super::placeholders::is_applied;
use super::plan::{Wishes, conjuncts, plan};
use super::relations::From;
use super::state::{Following, Place, Waits};
use crate::schema::catalog::{Commented, Table};
use crate::schema::domains::Rule;
use crate::syntax::names::fold;

impl Binder<'_> {
    pub(super) fn update(&mut self, update: &ast::Update, emit: bool) -> Result<Dml> {
        let sources = match &update.from {
            None => &[][..],
            Some(ast::UpdateTableFromKind::AfterSet(sources)) => sources,
            Some(ast::UpdateTableFromKind::BeforeSet(_)) => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "FROM stands behind SET"));
            }
        };
        if update.limit.is_some() || !update.order_by.is_empty() {
            return Err(Error::unsupported("UPDATE … ORDER BY … LIMIT"));
        }
        let (table, mut from) = self.target(std::slice::from_ref(&update.table), sources)?;
        let returning = self.returning_clause(&from.scope, update.returning.as_deref(), emit)?;
        self.begin_applied();
        let assignments = self.assignments(&from.scope, &table, &update.assignments)?;
        self.where_clause(&mut from, update.selection.as_ref())?;
        let draws = assignments.iter().any(|(_, value)| value.draws());
        let is_alone = from.items.len() == 1 && !self.is_late();
        if is_alone && returning.is_none() && !draws && is_free(&table, &assignments) {
            let query = rows_of(&table, from.conditions.clone(), &[])?;
            if let Query::Get { key, filter: None, .. } = query {
                let row = self.update_by_command(&table, key, assignments)?;
                return Ok(returning.finish(row));
            }
        }
        self.update_by_rows(&table, assignments, from, &returning)
    }

    fn update_by_command(
        &mut self,
        table: &Table,
        key: Box<[Expr]>,
        assignments: Vec<(ColumnId, Expr)>,
    ) -> Result<RowResult> {
        let changed = |c: ColumnId| assignments.iter().any(|(a, _)| *a == c);
        let mut checks = Vec::new();
        for Rule { broken, fault } in self.catalog.rules_of_row(table, &changed) {
            checks.push(Check { condition: not_true(broken), error: fault.error() });
        }
        for (column, schema) in table.schema.visible_columns() {
            if !schema.nullable && changed(column) {
                checks.push(Check {
                    condition: Expr::is_null(Expr::Column(column), true),
                    error: null_violation(table, column),
                });
            }
        }
        for check in relevant_checks(table, &changed) {
            checks.push(Check {
                condition: check.condition.clone(),
                error: check_violation(table, &check.name),
            });
        }
        let mut inputs = Vec::new();
        let as_command = |(column, mut value): (ColumnId, Expr)| {
            take_inputs(&mut value, &mut inputs);
            (column, value)
        };
        let assignments = assignments.into_iter().map(as_command).collect();
        let code = CommandCode::on(&table.schema.columns, assignments, checks.into());
        let found = self.register()?;
        self.steps.push(Step::Update {
            table: table.id(),
            key,
            code: Arc::new(code),
            inputs: inputs.into(),
            found,
        });
        Ok(RowResult { count: one_if(found), returned: Vec::new() })
    }

    /// What has to be known of a row to write and to check its new values.
    fn columns_to_update(
        &self,
        table: &Table,
        assignments: &[(ColumnId, Expr)],
        returning: &Returning,
    ) -> Vec<ColumnId> {
        let changed = |c: ColumnId| assignments.iter().any(|(a, _)| *a == c);
        let mut needed = table.schema.primary_key.clone();
        needed.extend(returning.columns_used());
        needed.extend(assignments.iter().flat_map(|(_, value)| value.columns()));
        let keys = table.foreign_keys.iter().map(|f| &f.columns);
        let unique = table.schema.indexes.iter().filter(|i| i.unique).map(|i| &i.columns);
        for columns in keys.chain(unique).filter(|cs| cs.iter().any(|c| changed(*c))) {
            needed.extend(columns);
        }
        let moves = table.schema.primary_key.iter().any(|c| changed(*c));
        let can_fail = !relevant_checks(table, &changed).is_empty()
            || !self.catalog.rules_of_row(table, &changed).is_empty()
            || assignments.iter().any(|(c, _)| !table.schema.columns[usize::from(*c)].nullable);
        // A failing row is shown whole, and a row that moves is written whole.
        if moves || can_fail {
            needed.extend(0..table.schema.columns.len() as ColumnId);
        }
        for reference in &table.referenced_by {
            let child = self.catalog.table_by_id(reference.child);
            let key = child.and_then(|child| child.foreign_keys.get(reference.key));
            needed.extend(key.iter().flat_map(|key| &key.parent_columns));
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    fn update_by_rows(
        &mut self,
        table: &Arc<Table>,
        assignments: Vec<(ColumnId, Expr)>,
        from: From,
        returning: &Returning,
    ) -> Result<Dml> {
        let changed = |c: ColumnId| assignments.iter().any(|(a, _)| *a == c);
        let needed = self.columns_to_update(table, &assignments, returning);
        let width = from.scope.width();
        let mut query = rows_of_join(table, from, &needed)?;
        let is_one = !self.is_late() && matches!(query, Query::Get { .. });
        let waits = self.updated_await(table, &changed, is_one);
        let followers = self.followers(table, &changed);
        let kept = waits || self.is_late() || followers.is_some();
        let known = if kept { Vec::new() } else { known_key(table, &query) };
        let mut registers = needed.len();
        let mut assignments = assignments;
        if kept {
            // The new values are part of what is read.
            registers += assignments.len();
            query = self.rows_kept(with_assigned(query, &needed, &assignments))?;
            let place = |column: ColumnId| {
                let assigned = assignments.iter().position(|(c, _)| *c == column);
                let assigned = assigned.map(|place| needed.len() + place);
                assigned.or_else(|| needed.binary_search(&column).ok())
            };
            self.keep_returning(returning, &query, &place);
            if waits {
                let (old, new) = places_of_updated(&needed, &assignments);
                let rows = (&query, registers);
                self.check_updated_at_end(table, rows, &old, &new, followers.is_some())?;
            }
            for (place, (_, value)) in assignments.iter_mut().enumerate() {
                *value = Expr::Column(width + place as ColumnId);
            }
        }
        let rows = followers.as_ref().map(|_| query.clone());
        if followers.is_some() {
            self.following = Following::Later;
        }
        let row = self.for_rows(query, registers, returning.width(), |binder, row| {
            let (row, assigned_row) = row.split_at(needed.len());
            let old = |column: ColumnId| {
                let assigned = column.checked_sub(width).filter(|_| !is_applied(column));
                match assigned {
                    Some(place) => Expr::Reg(assigned_row[usize::from(place)]),
                    None => old_values(&needed, row, &known)(column),
                }
            };
            let in_place = |(column, value): &(ColumnId, Expr)| {
                let mut value = value.clone();
                value.map_columns(&mut |c| old(c));
                (*column, value)
            };
            let assigned: Vec<(ColumnId, Expr)> = assignments.iter().map(in_place).collect();
            let write = |binder: &mut Self| binder.update_row(table, &old, &assigned);
            let mut new = binder.waiting(Waits::all_if(waits), write)?;
            new.extend((new.len() as ColumnId..width).map(old));
            binder.row_done(returning, &new)
        });
        self.following = Following::AtOnce;
        let row = row?;
        if let (Some(followers), Some(rows)) = (followers, rows) {
            let places = places_of_updated(&needed, &assignments);
            self.follow_updated(table, &rows, places, &followers)?;
        }
        Ok(returning.finish(row))
    }

    /// When all `rows` are changed, those that point at them follow.
    pub(super) fn follow_updated(
        &mut self,
        table: &Table,
        rows: &Query,
        (before, after): (impl Fn(ColumnId) -> Option<usize>, impl Fn(ColumnId) -> Option<usize>),
        followers: &Followers,
    ) -> Result<()> {
        let of = |place: Option<usize>| {
            place.map_or(Expr::Const(Value::Null), |place| Expr::Column(place as u16))
        };
        let old = |column| of(before(column));
        let new = |column| of(after(column).or_else(|| before(column)));
        let follow =
            |binder: &mut Self| binder.followers_follow(table, rows, &old, &new, followers);
        let steps = self.block(follow)?;
        steps.into_iter().for_each(|step| self.change_step(step));
        Ok(())
    }

    pub(super) fn delete(&mut self, delete: &ast::Delete, emit: bool) -> Result<Dml> {
        if delete.limit.is_some() || !delete.order_by.is_empty() {
            return Err(Error::unsupported("DELETE … ORDER BY … LIMIT"));
        }
        let target = match &delete.from {
            ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => from,
        };
        let (table, mut from) = self.target(target, delete.using.as_deref().unwrap_or_default())?;
        self.needs(&Commented::Table(table.id()), Privileges::DELETE);
        let returning = self.returning_clause(&from.scope, delete.returning.as_deref(), emit)?;
        self.begin_applied();
        self.where_clause(&mut from, delete.selection.as_ref())?;
        let mut needed = self.columns_of_going(&table);
        needed.extend(returning.columns_used());
        needed.sort_unstable();
        needed.dedup();
        let width = from.scope.width();
        let query = rows_of_join(&table, from, &needed)?;
        let is_one = !self.is_late() && matches!(query, Query::Get { .. });
        let waits = self.deleted_await(&table) && !(is_one && self.goes_alone(&table));
        let kept = waits || self.is_late();
        let only_key = !kept && needed.iter().all(|c| table.schema.primary_key.contains(c));
        if returning.is_none()
            && only_key
            && let Query::Get { key, filter: None, .. } = &query
        {
            // All that the steps need to know is in the statement.
            let place = |c: ColumnId| table.schema.primary_key.iter().position(|k| *k == c);
            let old = |c: ColumnId| place(c).map_or(Expr::Const(Value::Null), |i| key[i].clone());
            let found = self.delete_row(&table, &old, 0)?;
            let row = RowResult { count: one_if(found), returned: Vec::new() };
            return Ok(returning.finish(row));
        }
        let mut query = query;
        let known = if kept { Vec::new() } else { known_key(&table, &query) };
        if kept {
            query = self.rows_kept(query)?;
            let place = |column: ColumnId| needed.binary_search(&column).ok();
            self.keep_returning(&returning, &query, &place);
        }
        if waits {
            self.check_deleted_at_end(&table, (&query, &needed), 0)?;
        }
        let row = self.for_rows(query, needed.len(), returning.width(), |binder, row| {
            let old = old_values(&needed, row, &known);
            let write = |binder: &mut Self| binder.delete_row(&table, &old, 0);
            binder.waiting(Waits::all_if(waits), write)?;
            let values: Vec<Expr> = (0..width).map(old).collect();
            binder.row_done(&returning, &values)
        })?;
        Ok(returning.finish(row))
    }

    /// The table that UPDATE and DELETE name, and after it what they read beside it.
    pub(super) fn target(
        &mut self,
        tables: &[ast::TableWithJoins],
        sources: &[ast::TableWithJoins],
    ) -> Result<(Arc<Table>, From)> {
        let [ast::TableWithJoins { relation, joins }] = tables else {
            return Err(Error::unsupported("changing several tables in one statement"));
        };
        let (name, alias) = match relation {
            ast::TableFactor::Table { name, alias, args: None, .. } if joins.is_empty() => {
                (name, alias)
            }
            _ => return Err(Error::unsupported("changing anything but one table")),
        };
        let table = self.changed_table(name)?;
        let shown = match alias {
            Some(alias) => fold(&alias.name),
            None => table.name().to_owned(),
        };
        let mut from = From::default();
        from.add_table(&table, &shown);
        from.hidden = 1;
        self.bind_more(&mut from, sources)?;
        Ok((table, from))
    }

    fn where_clause(&mut self, from: &mut From, condition: Option<&ast::Expr>) -> Result<()> {
        if let Some(condition) = condition {
            let condition = self.condition(&from.scope, condition, Place::Where, "WHERE")?;
            conjuncts(condition, &mut from.conditions);
        }
        from.items.extend(self.end_applied().into_items());
        Ok(())
    }
}

/// Where a column's values are in rows that [`with_assigned`] gives, before and after.
fn places_of_updated<'n>(
    needed: &'n [ColumnId],
    assignments: &[(ColumnId, Expr)],
) -> (impl Fn(ColumnId) -> Option<usize> + 'n, impl Fn(ColumnId) -> Option<usize> + use<'n>) {
    let assigned: Vec<ColumnId> = assignments.iter().map(|(column, _)| *column).collect();
    let old = move |column: ColumnId| needed.binary_search(&column).ok();
    let new = move |column: ColumnId| {
        let place = assigned.iter().position(|c| *c == column)?;
        Some(needed.len() + place)
    };
    (old, new)
}

/// The rows with the new values after the columns `needed`.
fn with_assigned(query: Query, needed: &[ColumnId], assigned: &[(ColumnId, Expr)]) -> Query {
    let mut expressions: Vec<Expr> = (0..needed.len() as u16).map(Expr::Column).collect();
    for (_, value) in assigned {
        let mut value = value.clone();
        value.map_columns(&mut |column| {
            let place = needed.binary_search(&column);
            Expr::Column(place.map_or(u16::MAX, |place| place as u16))
        });
        expressions.push(value);
    }
    Query::Project { input: Box::new(query), expressions: expressions.into() }
}

/// The rows of `table`, which is the first in `from`, that FROM and its conditions choose: each
/// once. The output is `columns`, the primary key among them.
fn rows_of_join(table: &Arc<Table>, from: From, columns: &[ColumnId]) -> Result<Query> {
    let From { mut items, conditions, .. } = from;
    if items.len() == 1 {
        return rows_of(table, conditions, columns);
    }
    // Where nothing speaks for another order, the others say which of its rows are read at all.
    items.rotate_left(1);
    let wishes = Wishes { columns: columns.to_vec(), ..Wishes::default() };
    let planned = plan(items, conditions, &wishes)?;
    let key = table.schema.primary_key.iter();
    let by = key.filter_map(|key| columns.iter().position(|column| column == key));
    Ok(Query::Distinct {
        input: Box::new(planned.project(columns)),
        by: by.map(|place| place as u16).collect(),
        repeats: Repeats::Dropped,
    })
}

/// The values of a row whose columns `needed` are in registers; the others are not looked at. What
/// is `known` needs no register.
fn old_values<'r>(
    needed: &'r [ColumnId],
    row: &'r [Reg],
    known: &'r [(ColumnId, Expr)],
) -> impl Fn(ColumnId) -> Expr + 'r {
    move |column| {
        let place = needed.iter().position(|c| *c == column);
        match (known.iter().find(|(c, _)| *c == column), place) {
            (Some((_, value)), _) => value.clone(),
            (None, Some(place)) => Expr::Reg(row[place]),
            (None, None) => Expr::Const(Value::Null),
        }
    }
}

/// The key of the one row that a query finds, as the statement gives it: so the steps that write
/// the row say which it is before it has been read. Left out are types in which equal values can
/// look different.
fn known_key(table: &Table, query: &Query) -> Vec<(ColumnId, Expr)> {
    let Query::Get { key, filter: None, .. } = query else {
        return Vec::new();
    };
    let columns = table.schema.primary_key.iter().copied();
    let looks_its_value = |column: ColumnId| {
        !matches!(
            table.column_type(column),
            DataType::Numeric(_) | DataType::Float4 | DataType::Float8 | DataType::Char(_)
        )
    };
    let pairs = columns.zip(key.iter().cloned());
    pairs.filter(|(column, _)| looks_its_value(*column)).collect()
}

/// Nothing outside the row depends on the assigned columns.
fn is_free(table: &Table, assignments: &[(ColumnId, Expr)]) -> bool {
    let assigned =
        |columns: &[ColumnId]| columns.iter().any(|c| assignments.iter().any(|(a, _)| a == c));
    let unique = table.live_indexes().filter(|(_, index)| index.unique);
    !assigned(&table.schema.primary_key)
        && !unique.into_iter().any(|(_, index)| assigned(&index.columns))
        && !table.foreign_keys.iter().any(|f| assigned(&f.columns))
    // What may be pointed at is the primary key or a unique index.
}

/// Moves what does not depend on the row out of a command's expression: `inputs[i]` is computed
/// before, and `Reg(i)` stands for it. After a condition only bare registers move, since computing
/// more than SQL would might fail where SQL would not.
fn take_inputs(expr: &mut Expr, inputs: &mut Vec<Expr>) {
    let conditional =
        |e: &Expr| matches!(e, Expr::Case { .. } | Expr::Coalesce(_) | Expr::And(_) | Expr::Or(_));
    expr.rewrite(&mut |e| {
        if conditional(e) {
            e.rewrite(&mut |e| {
                let moves = matches!(e, Expr::Reg(_));
                if moves {
                    move_input(e, inputs);
                }
                moves
            });
            return true;
        }
        let varies = e.any(&mut |e| matches!(e, Expr::Column(_)) || conditional(e));
        let constant = !e.any(&mut |e| matches!(e, Expr::Reg(_) | Expr::Now));
        if !varies && !constant {
            move_input(e, inputs);
        }
        !varies
    });
}

fn move_input(expr: &mut Expr, inputs: &mut Vec<Expr>) {
    let known = inputs.iter().position(|input| input == expr);
    let place = known.unwrap_or(inputs.len());
    let input = std::mem::replace(expr, Expr::Reg(Reg(place as u16)));
    if known.is_none() {
        inputs.push(input);
    }
}
