//! Constraints as steps: what a row must satisfy before it is stored, updated or deleted.
//!
//! All checks come before the write, so that a transaction that is going to be rejected has written
//! as little as possible. Their order is fixed (domains, NOT NULL, CHECKs in the order of their
//! names, FOREIGN KEY, UNIQUE, primary key), so that every replica rejects for the same reason. A
//! foreign key is an existence read of the parent where it points at a primary key, and the first
//! row of an index range otherwise.
//!
//! A foreign key that the statement itself may still satisfy waits for its end
//! ([`end_checks`](super::end_checks)).

use std::ops::Bound;
use std::sync::Arc;

use procedure::{BinaryOp, Expr, Function, OnError, Query, Reg, Step};
use types::{ColumnId, DataType, Error, IndexSchema, Result, SqlState, Value};

use super::binder::{Binder, as_shown, fold};
use super::items::{Item, Source};
use super::paths::index_nullability;
use super::plan::{Wishes, plan};
use super::state::Waits;
use crate::schema::catalog::{ForeignKey, ReferenceAction, Table};
use crate::schema::domains::Rule;

/// What an update makes of a row that others may point at.
#[derive(Clone, Copy)]
pub(super) struct NewKey<'a> {
    pub value: &'a dyn Fn(ColumnId) -> Expr,
    pub changed: &'a dyn Fn(ColumnId) -> bool,
}

/// When a row is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Written,
    /// Of the statement.
    End,
}

impl Binder<'_> {
    pub(super) fn require(&mut self, condition: Expr, error: Error, detail: Option<Expr>) {
        let condition = fold(condition);
        if condition == Expr::Const(Value::Bool(true)) {
            return;
        }
        let mut error = OnError::from(error);
        error.detail = detail;
        self.steps.push(Step::Require { condition, error });
    }

    /// Domains, NOT NULL and CHECK of the columns that `changed` names.
    pub(super) fn check_row(
        &mut self,
        table: &Table,
        values: &[Expr],
        changed: &dyn Fn(ColumnId) -> bool,
    ) {
        for Rule { mut broken, fault } in self.catalog.rules_of_row(table, changed) {
            broken.map_columns(&mut |c| values[usize::from(c)].clone());
            self.require(not_true(broken), fault.error(), None);
        }
        let detail = failing_row(table, values);
        for (column, schema) in table.schema.visible_columns() {
            if !schema.nullable && changed(column) {
                let condition = Expr::is_null(values[usize::from(column)].clone(), true);
                self.require(condition, null_violation(table, column), Some(detail.clone()));
            }
        }
        for check in relevant_checks(table, changed) {
            let mut condition = check.condition.clone();
            condition.map_columns(&mut |c| values[usize::from(c)].clone());
            let error = check_violation(table, &check.name);
            self.require(not_false(condition), error, Some(detail.clone()));
        }
    }

    /// Parents of the foreign keys that have a changed column: those that cannot wait when the row
    /// is written, the others at the statement's end.
    pub(super) fn check_parents(
        &mut self,
        table: &Table,
        values: &[Expr],
        changed: &dyn Fn(ColumnId) -> bool,
        moment: Moment,
    ) -> Result<()> {
        for key in &table.foreign_keys {
            if !key.unchecked
                && self.looks_for_parent(key, moment)
                && key.columns.iter().any(|c| changed(*c))
            {
                self.check_parent(table, key, values)?;
            }
        }
        Ok(())
    }

    /// Whether a parent has the key.
    pub(super) fn has_parent(
        &mut self,
        parent: &Table,
        key: &ForeignKey,
        values: &[Expr],
    ) -> Result<Reg> {
        let found = self.register()?;
        self.steps.push(match key.parent_index {
            0 => Step::Exists { table: parent.id(), key: values.into(), found },
            index => Step::Fetch {
                query: first_in_index(parent, index, values, &[]),
                outputs: Box::default(),
                found,
                strict: false,
            },
        });
        Ok(found)
    }

    pub(super) fn check_parent(
        &mut self,
        table: &Table,
        key: &ForeignKey,
        values: &[Expr],
    ) -> Result<()> {
        let Some(parent) = self.catalog.table_by_id(key.parent).cloned() else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a foreign key without parent"));
        };
        let own: Vec<Expr> = key.columns.iter().map(|c| values[usize::from(*c)].clone()).collect();
        let found = self.has_parent(&parent, key, &own)?;
        let mut accepted = vec![Expr::Reg(found)];
        for (column, value) in key.columns.iter().zip(&own) {
            if table.schema.columns[usize::from(*column)].nullable {
                accepted.push(Expr::is_null(value.clone(), false));
            }
        }
        if parent.id() == table.id() {
            // A row may be its own parent, which it is not yet.
            let pairs = key.parent_columns.iter().zip(&own);
            let itself =
                pairs.map(|(c, v)| Expr::equal(values[usize::from(*c)].clone(), v.clone()));
            accepted.extend(Expr::all(itself.collect()));
        }
        let (error, detail) = self.missing_parent(table, &parent, key, &own);
        self.require(any_of(accepted), error, Some(detail));
        Ok(())
    }

    /// Unique indexes that have a changed column. `own_key` is the primary key of the row that is
    /// being updated, which does not stand in its own way.
    pub(super) fn check_unique(
        &mut self,
        table: &Table,
        values: &[Expr],
        own_key: Option<&[Expr]>,
        changed: &dyn Fn(ColumnId) -> bool,
    ) -> Result<()> {
        let unique = table.live_indexes().filter(|(_, index)| index.unique);
        for (index, schema) in unique {
            if !schema.columns.iter().any(|c| changed(*c)) {
                continue;
            }
            let own: Vec<Expr> =
                schema.columns.iter().map(|c| values[usize::from(*c)].clone()).collect();
            let key_columns = match own_key {
                Some(_) => table.schema.primary_key.as_slice(),
                None => &[],
            };
            let outputs = self.registers(key_columns.len())?;
            let found = self.register()?;
            self.steps.push(Step::Fetch {
                query: first_in_index(table, index, &own, key_columns),
                outputs: outputs.clone().into(),
                found,
                strict: false,
            });
            let mut accepted = vec![Expr::negated(Expr::Reg(found))];
            if let Some(own_key) = own_key {
                let pairs = outputs.iter().zip(own_key);
                let itself = pairs.map(|(r, v)| Expr::equal(Expr::Reg(*r), v.clone()));
                accepted.extend(Expr::all(itself.collect()));
            }
            let end = " already exists.";
            let detail = match table.nulls_alike.contains(&index) {
                true => self.may_read(table.id(), &schema.columns).then(|| {
                    let shown = schema.columns.iter().zip(&own).map(null_or_shown(table));
                    key_of(table, &schema.columns, shown, end)
                }),
                false => self.key_detail(table, &schema.columns, &own, end),
            };
            self.require(any_of(accepted), unique_violation(table, &schema.name), detail);
        }
        Ok(())
    }

    /// The row's insertion, and the primary key's uniqueness.
    pub(super) fn insert_step(&mut self, table: &Table, values: &[Expr]) -> Result<Reg> {
        let inserted = self.register()?;
        let stored = values.len() - usize::from(table.schema.hidden_row_id);
        self.steps.push(Step::Insert {
            table: table.id(),
            key: table.schema.primary_key.clone().into(),
            hidden_row_id: table.schema.hidden_row_id,
            values: values[..stored].into(),
            inserted,
        });
        Ok(inserted)
    }

    pub(super) fn require_inserted(&mut self, table: &Table, values: &[Expr], inserted: Reg) {
        if table.schema.hidden_row_id {
            return;
        }
        let columns = &table.schema.primary_key;
        let own: Vec<Expr> = columns.iter().map(|c| values[usize::from(*c)].clone()).collect();
        let detail = self.key_detail(table, columns, &own, " already exists.");
        let error = unique_violation(table, &table.primary_key_name);
        self.require(Expr::Reg(inserted), error, detail);
    }

    /// What happens to the rows that point at one which is deleted, or whose key changes from `old`
    /// to `new`. Both give values of columns of `table`. Rows of `together` go
    /// [level by level](super::cycles).
    pub(super) fn release_children(
        &mut self,
        table: &Arc<Table>,
        old: &dyn Fn(ColumnId) -> Expr,
        new: Option<NewKey<'_>>,
        depth: u16,
        together: &[Arc<Table>],
    ) -> Result<()> {
        for reference in &table.referenced_by {
            let Some(child) = self.catalog.table_by_id(reference.child).cloned() else {
                continue;
            };
            let Some(key) = child.foreign_keys.get(reference.key).cloned() else {
                continue;
            };
            let values: Vec<Expr> = key.parent_columns.iter().map(|c| old(*c)).collect();
            let kept = match new {
                None => None,
                Some(new) if !key.parent_columns.iter().any(|c| (new.changed)(*c)) => continue,
                Some(new) => {
                    let pairs = key.parent_columns.iter().zip(&values);
                    let same = pairs.map(|(c, v)| Expr::equal((new.value)(*c), v.clone()));
                    Expr::all(same.collect())
                }
            };
            match (new.is_some(), key.on_update, key.on_delete) {
                (is_update, on_update, on_delete)
                    if (if is_update { on_update } else { on_delete }).rejects() =>
                {
                    let end_checks = self.end_checks.as_ref();
                    if !end_checks.is_some_and(|s| s.awaits_children(child.id(), &key, is_update)) {
                        self.reject_children(table, &child, &key, &values, kept)?;
                    }
                }
                // They follow when the row has its new key.
                (true, ..) => {}
                // They go when the row has gone.
                (false, _, ReferenceAction::Cascade)
                    if together.iter().any(|other| other.id() == child.id()) => {}
                (false, _, action) => {
                    self.cascade(&child, &key, &values, action, depth + 1)?;
                    // The default may be the key of the row that goes.
                    if action == ReferenceAction::SetDefault {
                        self.reject_children(table, &child, &key, &values, None)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// ON UPDATE CASCADE and the like, for the children of a row that has been given a new key.
    pub(super) fn children_follow(
        &mut self,
        table: &Arc<Table>,
        old: &dyn Fn(ColumnId) -> Expr,
        new: NewKey<'_>,
    ) -> Result<()> {
        for reference in &table.referenced_by {
            let child = self.catalog.table_by_id(reference.child).cloned();
            let key =
                child.as_ref().and_then(|child| child.foreign_keys.get(reference.key)).cloned();
            let (Some(child), Some(key)) = (child, key) else { continue };
            let is_changed = key.parent_columns.iter().any(|column| (new.changed)(*column));
            if key.on_update.rejects() || !is_changed {
                continue;
            }
            let values: Vec<Expr> = key.parent_columns.iter().map(|c| old(*c)).collect();
            let pairs = key.parent_columns.iter().zip(&values);
            let differs = pairs.map(|(c, was)| Expr::Binary {
                op: BinaryOp::IsDistinctFrom,
                left: Box::new((new.value)(*c)),
                right: Box::new(was.clone()),
                result: DataType::Bool,
            });
            let mut conditions = children_of(&key, &values);
            conditions.push(Expr::Or(differs.collect()));
            let followed = |binder: &mut Self, place: usize, column: ColumnId| match key.on_update {
                ReferenceAction::Cascade => (new.value)(key.parent_columns[place]),
                ReferenceAction::SetDefault => binder.default_of(&child, column),
                _ => Expr::Const(Value::Null),
            };
            let mut assigned = Vec::with_capacity(key.columns.len());
            for (place, column) in key.columns.iter().enumerate() {
                assigned.push((*column, followed(self, place, *column)));
            }
            self.change_children(&child, conditions, assigned)?;
        }
        Ok(())
    }

    /// Assigns to the rows of a child that satisfy `conditions`.
    fn change_children(
        &mut self,
        child: &Arc<Table>,
        conditions: Vec<Expr>,
        assigned: Vec<(ColumnId, Expr)>,
    ) -> Result<()> {
        let columns: Vec<ColumnId> = (0..child.schema.columns.len() as ColumnId).collect();
        let query = rows_of(child, conditions, &columns)?;
        let row = self.registers(columns.len())?;
        let change = |binder: &mut Self| {
            let old = |c: ColumnId| Expr::Reg(row[usize::from(c)]);
            let mut assigned = binder.with_generated(child, assigned)?;
            assigned.iter_mut().for_each(|(_, value)| value.map_columns(&mut |c| old(c)));
            binder.update_row(child, &old, &assigned).map(drop)
        };
        let body = self.waiting(Waits::NO, |binder| binder.block(change))?;
        self.steps.push(Step::ForRows { query, row: row.into(), body, carried: Box::default() });
        Ok(())
    }

    fn reject_children(
        &mut self,
        table: &Table,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Expr],
        kept: Option<Expr>,
    ) -> Result<()> {
        let mut conditions = children_of(key, values);
        if child.id() == table.id() && kept.is_none() {
            // A row that points at itself may go.
            let itself = table.schema.primary_key.iter().filter_map(|c| {
                let place = key.parent_columns.iter().position(|p| p == c)?;
                Some(Expr::equal(Expr::Column(*c), values[place].clone()))
            });
            let own_key: Vec<Expr> = itself.collect();
            if own_key.len() == table.schema.primary_key.len() {
                conditions.extend(Expr::all(own_key).map(Expr::negated));
            }
        }
        let found = self.has_child(child, conditions)?;
        let accepted = std::iter::once(Expr::negated(Expr::Reg(found))).chain(kept);
        self.require_no_child(table, child, key, values, accepted.collect());
        Ok(())
    }

    /// Whether a child satisfies the conditions.
    pub(super) fn has_child(&mut self, child: &Arc<Table>, conditions: Vec<Expr>) -> Result<Reg> {
        let found = self.register()?;
        self.steps.push(Step::Fetch {
            query: rows_of(child, conditions, &[])?,
            outputs: Box::default(),
            found,
            strict: false,
        });
        Ok(found)
    }

    pub(super) fn require_no_child(
        &mut self,
        table: &Table,
        child: &Table,
        key: &ForeignKey,
        values: &[Expr],
        accepted: Vec<Expr>,
    ) {
        let error = Error::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                table.name(),
                key.name,
                child.name()
            ),
        )
        .with_schema(child.namespace())
        .with_table(child.name())
        .with_constraint(&key.name);
        let end = format!(" is still referenced from table \"{}\".", child.name());
        let detail = self.key_detail(table, &key.parent_columns, values, &end);
        let detail = detail.unwrap_or_else(|| Expr::Const(Value::from(format!("Key{end}"))));
        self.require(any_of(accepted), error, Some(detail));
    }

    fn cascade(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignKey,
        values: &[Expr],
        action: ReferenceAction,
        depth: u16,
    ) -> Result<()> {
        if action != ReferenceAction::Cascade {
            let mut assigned = Vec::with_capacity(key.columns.len());
            for column in &key.columns {
                assigned.push((
                    *column,
                    match action {
                        ReferenceAction::SetDefault => self.default_of(child, *column),
                        _ => Expr::Const(Value::Null),
                    },
                ));
            }
            return self.change_children(child, children_of(key, values), assigned);
        }
        let columns: Vec<ColumnId> = (0..child.schema.columns.len() as ColumnId).collect();
        let query = rows_of(child, children_of(key, values), &columns)?;
        let row = self.registers(columns.len())?;
        let body = self.block(|binder| {
            let old = |c: ColumnId| Expr::Reg(row[usize::from(c)]);
            binder.delete_row(child, &old, depth).map(drop)
        })?;
        self.steps.push(Step::ForRows { query, row: row.into(), body, carried: Box::default() });
        Ok(())
    }
}

/// Checks that mention a changed column, by name; the others hold already.
pub(super) fn relevant_checks<'t>(
    table: &'t Table,
    changed: &dyn Fn(ColumnId) -> bool,
) -> Vec<&'t crate::schema::domains::CheckConstraint> {
    let mut checks: Vec<_> = table
        .checks
        .iter()
        .filter(|check| {
            let columns = check.condition.columns();
            columns.is_empty() || columns.iter().any(|c| changed(*c))
        })
        .collect();
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    checks
}

/// What says that a value breaks a rule does not.
pub(super) fn not_true(broken: Expr) -> Expr {
    Expr::Binary {
        op: BinaryOp::IsDistinctFrom,
        left: Box::new(broken),
        right: Box::new(Expr::Const(Value::Bool(true))),
        result: DataType::Bool,
    }
}

/// SQL lets unknown pass.
pub(super) fn not_false(condition: Expr) -> Expr {
    Expr::Binary {
        op: BinaryOp::IsDistinctFrom,
        left: Box::new(condition),
        right: Box::new(Expr::Const(Value::Bool(false))),
        result: DataType::Bool,
    }
}

fn any_of(mut conditions: Vec<Expr>) -> Expr {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => Expr::Or(conditions.into()),
    }
}

pub(super) fn null_violation(table: &Table, column: ColumnId) -> Error {
    let name = table.column_name(column);
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
            table.name()
        ),
    )
    .with_schema(table.namespace())
    .with_table(table.name())
    .with_column(name)
}

pub(super) fn check_violation(table: &Table, name: &str) -> Error {
    Error::new(
        SqlState::CHECK_VIOLATION,
        format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name()),
    )
    .with_schema(table.namespace())
    .with_table(table.name())
    .with_constraint(name)
}

fn unique_violation(table: &Table, name: &str) -> Error {
    Error::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{name}\""),
    )
    .with_schema(table.namespace())
    .with_table(table.name())
    .with_constraint(name)
}

fn failing_row(table: &Table, values: &[Expr]) -> Expr {
    let shown = table
        .schema
        .visible_columns()
        .map(|(c, column)| as_shown(values[usize::from(c)].clone(), &column.data_type));
    Expr::Call {
        function: Function::FailingRow,
        arguments: shown.collect(),
        result: DataType::Text,
    }
}

impl Binder<'_> {
    /// A child has no parent.
    pub(super) fn missing_parent(
        &self,
        table: &Table,
        parent: &Table,
        key: &ForeignKey,
        values: &[Expr],
    ) -> (Error, Expr) {
        let error = Error::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                table.name(),
                key.name
            ),
        )
        .with_schema(table.namespace())
        .with_table(table.name())
        .with_constraint(&key.name);
        let end = format!(" is not present in table \"{}\".", parent.name());
        let detail = self.key_detail(table, &key.columns, values, &end);
        (error, detail.unwrap_or_else(|| Expr::Const(Value::from(format!("Key{end}")))))
    }

    /// Several rows have a key that one may have.
    pub(super) fn repeated_key(
        &self,
        table: &Table,
        index: &IndexSchema,
        values: &[Expr],
    ) -> (Error, Option<Expr>) {
        let detail = self.key_detail(table, &index.columns, values, " already exists.");
        (unique_violation(table, &index.name), detail)
    }

    /// What is said of a key's values; nothing to a role that may not read them.
    fn key_detail(
        &self,
        table: &Table,
        columns: &[ColumnId],
        values: &[Expr],
        end: &str,
    ) -> Option<Expr> {
        self.may_read(table.id(), columns).then(|| key_shown(table, columns, values, end))
    }
}

/// A value of a column with a word for NULL, which is otherwise left out.
fn null_or_shown(table: &Table) -> impl Fn((&ColumnId, &Expr)) -> Expr + '_ {
    |(column, value)| {
        let is_null = Expr::is_null(value.clone(), false);
        let whens = [(is_null, Expr::Const(Value::text("null")))].into();
        let shown = as_shown(value.clone(), table.column_type(*column));
        Expr::Case { whens, otherwise: Box::new(shown) }
    }
}

/// `Key (a, b)=(1, 2)` and an ending.
fn key_shown(table: &Table, columns: &[ColumnId], values: &[Expr], end: &str) -> Expr {
    let shown = values.iter().enumerate().map(|(place, value)| match columns.get(place) {
        Some(column) => as_shown(value.clone(), table.column_type(*column)),
        None => value.clone(),
    });
    key_of(table, columns, shown, end)
}

fn key_of(
    table: &Table,
    columns: &[ColumnId],
    shown: impl Iterator<Item = Expr>,
    end: &str,
) -> Expr {
    let text = |s: String| Expr::Const(Value::from(s));
    let names: Vec<&str> = columns.iter().map(|c| table.column_name(*c)).collect();
    let mut parts = vec![text(format!("Key ({})=(", names.join(", ")))];
    for (i, value) in shown.enumerate() {
        if i > 0 {
            parts.push(text(", ".into()));
        }
        parts.push(value);
    }
    parts.push(text(format!("){end}")));
    Expr::Call { function: Function::Concat, arguments: parts.into(), result: DataType::Text }
}

/// The row that has a key of the primary key (index 0), or the first that has one of another.
pub(super) fn first_by_key(table: &Table, index: u16, key: &[Expr], columns: &[ColumnId]) -> Query {
    match index {
        0 => {
            Query::Get { table: table.id(), key: key.into(), columns: columns.into(), filter: None }
        }
        _ => first_in_index(table, index, key, columns),
    }
}

/// The first row of an index whose columns have the given values.
pub(super) fn first_in_index(
    table: &Table,
    index: u16,
    values: &[Expr],
    columns: &[ColumnId],
) -> Query {
    let alike = |(value, column): (&Expr, &ColumnId)| Expr::Call {
        function: Function::NullsAlike,
        arguments: [value.clone()].into(),
        result: table.column_type(*column).clone(),
    };
    let values: Box<[Expr]> = match table.nulls_alike.contains(&index) {
        true => values.iter().zip(table.index_columns(index)).map(alike).collect(),
        false => values.into(),
    };
    let scan = Query::Scan {
        table: table.id(),
        index,
        nullable: index_nullability(table, index),
        low: Bound::Included(values.clone()),
        high: Bound::Included(values),
        reverse: false,
        columns: columns.into(),
        filter: None,
    };
    Query::Limit { input: Box::new(scan), limit: Some(Expr::Const(Value::Int(1))), offset: None }
}

pub(super) fn children_of(key: &ForeignKey, values: &[Expr]) -> Vec<Expr> {
    let pairs = key.columns.iter().zip(values);
    pairs.map(|(c, v)| Expr::equal(Expr::Column(*c), v.clone())).collect()
}

/// The rows of `child` that point at `rows`: its columns `wanted`.
pub(super) fn going_with(
    rows: &Query,
    width: usize,
    (child, key): (&Arc<Table>, &ForeignKey),
    values: &[Expr],
    wanted: &[ColumnId],
) -> Result<Query> {
    let width = width as u16;
    let parents = Item::new(Source::Query(rows.clone()), 0, width);
    let children =
        Item::new(Source::Table(child.clone()), width, child.schema.columns.len() as u16);
    let pairs = key.columns.iter().zip(values);
    let on = pairs.map(|(c, v)| Expr::equal(Expr::Column(width + c), v.clone())).collect();
    let columns: Vec<u16> = wanted.iter().map(|column| width + column).collect();
    let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
    Ok(plan(vec![parents, children], on, &wishes)?.project(&columns))
}

/// The rows of a table that satisfy `conditions`, by the best path; the output is `columns`.
pub(super) fn rows_of(
    table: &Arc<Table>,
    conditions: Vec<Expr>,
    columns: &[ColumnId],
) -> Result<Query> {
    let item = Item::new(Source::Table(table.clone()), 0, table.schema.columns.len() as u16);
    let wishes = Wishes { columns: columns.to_vec(), ..Wishes::default() };
    let planned = plan(vec![item], conditions, &wishes)?;
    Ok(planned.project(columns))
}
