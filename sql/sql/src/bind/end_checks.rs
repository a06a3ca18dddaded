//! Foreign-key checks that are deferred to the end of a statement.
//!
//! One statement may add a child before its parent, or delete a parent before its child. Most
//! statements cannot: they change no table at the other end of their foreign keys, and so each row
//! is checked when it is written. The other statements keep the rows that they write, and check
//! them after all changes:
//!
//! ```text
//!   rows kept ─► change, row by row ─► the same rows again: a parent there? no child left behind?
//! ```
//!
//! Rows that CASCADE will delete are found before the first row is deleted, by following the
//! foreign keys as CASCADE will.
//!
//! *Not deferred.* Child rows whose keys are changed by ON UPDATE or set to NULL: their new values
//! are known when they are written, and are checked then.
//!
//! RESTRICT is deferred to the end too, as in PostgreSQL, but unlike NO ACTION it fails even where
//! another row has the key by then. *Departure from PostgreSQL.* There RESTRICT looks for children
//! between one CASCADE and the next, and so rejects some statements after which no child is left;
//! here only the state at the end counts.

use std::sync::Arc;

use procedure::{Expr, Query, Reg, Step};
use sqlparser::ast;
use types::{ColumnId, Result, TableId, Value};

use super::binder::Binder;
use super::constraints::{Moment, children_of, going_with};
use super::state::{EndChecks, Waits};
use crate::schema::catalog::{Catalog, ForeignKey, ReferenceAction, Table};
use crate::syntax::changes::{modifying, single_row};
use crate::syntax::names::{object_name, simple_name};

impl EndChecks {
    pub fn of(catalog: &Catalog, statement: &ast::Statement) -> EndChecks {
        let mut end_checks = EndChecks::default();
        let ast::Statement::Query(query) = statement else {
            end_checks.add(catalog, statement, false);
            return end_checks;
        };
        end_checks.add_query(catalog, query);
        end_checks
    }

    pub fn of_query(catalog: &Catalog, query: &ast::Query) -> EndChecks {
        let mut end_checks = EndChecks::default();
        end_checks.add_query(catalog, query);
        end_checks
    }

    fn add_query(&mut self, catalog: &Catalog, query: &ast::Query) {
        let parts = query.with.iter().flat_map(|with| &with.cte_tables);
        let parts: Vec<_> = parts.filter_map(|part| modifying(&part.query)).collect();
        let is_one_of_several = !parts.is_empty();
        for statement in parts.into_iter().chain(modifying(query)) {
            self.add(catalog, statement, is_one_of_several);
        }
    }

    fn add(&mut self, catalog: &Catalog, statement: &ast::Statement, is_one_of_several: bool) {
        use ast::Statement as S;
        let named = |name: &ast::ObjectName| {
            let name = object_name(name).ok()?;
            catalog.find_table(&name).cloned()
        };
        let of_factor = |factor: &ast::TableFactor| match factor {
            ast::TableFactor::Table { name, .. } => named(name),
            _ => None,
        };
        match statement {
            S::Insert(insert) => {
                let ast::TableObject::TableName(name) = &insert.table else { return };
                let Some(table) = named(name) else { return };
                let one = insert.source.as_ref().is_none_or(|source| single_row(source).is_some());
                if !one || is_one_of_several {
                    self.grows.push(table.id());
                }
            }
            S::Update(update) => {
                if let Some(table) = of_factor(&update.table.relation) {
                    self.add_update(catalog, &table, &assigned(&table, &update.assignments));
                }
            }
            S::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
                    &delete.from;
                if let Some(table) = from.first().and_then(|from| of_factor(&from.relation)) {
                    self.add_delete(catalog, &table);
                }
            }
            S::Merge(merge) => {
                if let Some(table) = of_factor(&merge.table) {
                    self.add_merge(catalog, &table, &merge.clauses);
                }
            }
            _ => {}
        }
    }

    fn add_merge(&mut self, catalog: &Catalog, table: &Table, clauses: &[ast::MergeClause]) {
        for clause in clauses {
            match &clause.action {
                ast::MergeAction::Insert(_) => self.grows.push(table.id()),
                ast::MergeAction::Update(update) => {
                    self.add_update(catalog, table, &assigned(table, &update.assignments));
                }
                ast::MergeAction::Delete { .. } => self.add_delete(catalog, table),
            }
        }
    }

    fn add_update(&mut self, catalog: &Catalog, table: &Table, assigned: &[ColumnId]) {
        self.shrinks.push(table.id());
        let is_key = |column: &ColumnId| {
            let is_in = |reference: &crate::schema::catalog::Reference| {
                let key = key_of(catalog, reference);
                key.is_some_and(|(_, key)| key.parent_columns.contains(column))
            };
            table.referenced_by.iter().any(is_in)
        };
        if !assigned.iter().any(is_key) {
            return;
        }
        self.grows.push(table.id());
        for (child, key) in table.referenced_by.iter().filter_map(|r| key_of(catalog, r)) {
            if !key.on_update.rejects() {
                self.shrinks.push(child.id());
            }
        }
    }

    fn add_delete(&mut self, catalog: &Catalog, table: &Table) {
        if self.shrinks.contains(&table.id()) {
            return;
        }
        self.shrinks.push(table.id());
        for (child, key) in table.referenced_by.iter().filter_map(|r| key_of(catalog, r)) {
            match key.on_delete {
                ReferenceAction::Cascade => self.add_delete(catalog, child),
                ReferenceAction::SetNull | ReferenceAction::SetDefault => {
                    self.shrinks.push(child.id());
                }
                ReferenceAction::NoAction | ReferenceAction::Restrict => {}
            }
        }
    }

    /// Whether a parent may come that is not there yet.
    pub fn may_grow(&self, parent: TableId) -> bool {
        self.grows.contains(&parent)
    }

    /// Whether a row's parent may come later.
    pub fn awaits_parent(&self, parent: TableId) -> bool {
        self.waits.parents && self.grows.contains(&parent)
    }

    /// Whether a row's children may go later.
    pub fn awaits_children(&self, child: TableId, key: &ForeignKey, is_update: bool) -> bool {
        let action = if is_update { key.on_update } else { key.on_delete };
        let may_go = is_update || self.shrinks.contains(&child);
        self.waits.children && may_go && action.rejects()
    }
}

fn key_of<'c>(
    catalog: &'c Catalog,
    reference: &crate::schema::catalog::Reference,
) -> Option<(&'c Arc<Table>, &'c ForeignKey)> {
    let child = catalog.table_by_id(reference.child)?;
    Some((child, child.foreign_keys.get(reference.key)?))
}

/// The columns that SET names, as far as they exist.
fn assigned(table: &Table, assignments: &[ast::Assignment]) -> Vec<ColumnId> {
    let names = assignments.iter().flat_map(|assignment| match &assignment.target {
        ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        ast::AssignmentTarget::Tuple(names) => names,
    });
    names.filter_map(|name| table.column_named(&simple_name(name).ok()?).ok()).collect()
}

impl Binder<'_> {
    /// The steps of one statement, and after them what waits for its end.
    pub(super) fn with_end_checks<T>(
        &mut self,
        of: impl FnOnce(&Catalog) -> EndChecks,
        build: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.end_checks.is_some() {
            return build(self);
        }
        self.end_checks = Some(of(self.catalog));
        let built = build(self);
        let end_checks = self.end_checks.take().unwrap_or_default();
        self.steps.extend(end_checks.checks);
        built
    }

    /// `build`, with what it writes checked at once, or at the end.
    pub(super) fn waiting<T>(
        &mut self,
        waits: Waits,
        build: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let set = |binder: &mut Self, waits| match &mut binder.end_checks {
            Some(end_checks) => std::mem::replace(&mut end_checks.waits, waits),
            None => Waits::NO,
        };
        let before = set(self, waits);
        let built = build(self);
        set(self, before);
        built
    }

    /// `build`, for a row of a COPY into `table`: keys that lead to it wait if `waits` says so.
    pub(super) fn loaded<T>(
        &mut self,
        table: &Table,
        waits: bool,
        build: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let grows = if waits { vec![table.id()] } else { Vec::new() };
        let waits = Waits { parents: waits, children: false };
        self.end_checks = Some(EndChecks { grows, waits, ..EndChecks::default() });
        let built = build(self);
        self.end_checks = None;
        built
    }

    fn checks_at_end(&self, judge: impl Fn(&EndChecks) -> bool) -> bool {
        self.end_checks.as_ref().is_some_and(judge)
    }

    /// Whether rows that are added to a table have to be looked at again.
    pub(super) fn rows_await_parents(&self, table: &Table) -> bool {
        table.foreign_keys.iter().any(|key| self.checks_at_end(|s| s.grows.contains(&key.parent)))
    }

    /// Whether rows whose columns are `assigned` have to be looked at again. Of one row alone only
    /// those of its own table can be in question.
    pub(super) fn updated_await(
        &self,
        table: &Table,
        assigned: &dyn Fn(ColumnId) -> bool,
        is_one: bool,
    ) -> bool {
        let keys = table.foreign_keys.iter();
        let mut changed = keys.filter(|key| key.columns.iter().any(|c| assigned(*c)));
        changed.any(|key| self.checks_at_end(|s| s.grows.contains(&key.parent)))
            || table.referenced_by.iter().filter_map(|r| key_of(self.catalog, r)).any(
                |(child, key)| {
                    key.on_update.rejects()
                        && key.parent_columns.iter().any(|c| assigned(*c))
                        && (!is_one || child.id() == table.id())
                },
            )
    }

    /// Whether rows that go from a table have to be looked at again, or others that go with them.
    pub(super) fn deleted_await(&self, table: &Table) -> bool {
        self.deleted_within_await(table, &mut Vec::new())
    }

    fn deleted_within_await(&self, table: &Table, seen: &mut Vec<TableId>) -> bool {
        if seen.contains(&table.id()) {
            return false;
        }
        seen.push(table.id());
        table.referenced_by.iter().filter_map(|r| key_of(self.catalog, r)).any(|(child, key)| {
            match key.on_delete {
                action if action.rejects() => {
                    self.checks_at_end(|s| s.shrinks.contains(&child.id()))
                }
                ReferenceAction::Cascade => self.deleted_within_await(child, seen),
                _ => false,
            }
        })
    }

    /// Whether one row of a table can go without a look back: only its own children, none of which
    /// go with it, are in its way, and it does not stand in its own.
    pub(super) fn goes_alone(&self, table: &Table) -> bool {
        table.referenced_by.iter().filter_map(|r| key_of(self.catalog, r)).all(|(child, key)| {
            key.on_delete.rejects() && (child.id() != table.id() || key.parent_index == 0)
        })
    }

    /// Adds to the statement's end: the steps of `body` for each of `rows`.
    fn check_rows_at_end(
        &mut self,
        rows: &Query,
        width: usize,
        body: impl FnOnce(&mut Self, &[Reg]) -> Result<()>,
    ) -> Result<()> {
        let row = self.registers(width)?;
        let body = self.waiting(Waits::NO, |binder| binder.block(|binder| body(binder, &row)))?;
        if body.is_empty() {
            return Ok(());
        }
        let (query, row) = (rows.clone(), row.into());
        let check = Step::ForRows { query, row, body, carried: Box::default() };
        if let Some(end_checks) = &mut self.end_checks {
            end_checks.checks.push(check);
        }
        Ok(())
    }

    /// Rows that were added, whole. Those that may have been left out, or come to another row, are
    /// looked for by the key of `index`.
    pub(super) fn check_inserted_at_end(
        &mut self,
        table: &Arc<Table>,
        rows: &Query,
        by_index: Option<u16>,
    ) -> Result<()> {
        self.check_rows_at_end(rows, table.schema.columns.len(), |binder, row| {
            let given: Vec<Expr> = row.iter().map(|register| Expr::Reg(*register)).collect();
            let Some(index) = by_index else {
                return binder.check_parents(table, &given, &|_| true, Moment::End);
            };
            let columns: Vec<ColumnId> = (0..table.schema.columns.len() as ColumnId).collect();
            let key = table.index_columns(index).iter();
            let key: Vec<Expr> = key.map(|c| given[usize::from(*c)].clone()).collect();
            let (outputs, found) = (binder.registers(columns.len())?, binder.register()?);
            let query = super::constraints::first_by_key(table, index, &key, &columns);
            let fetched = outputs.clone().into();
            binder.steps.push(Step::Fetch { query, outputs: fetched, found, strict: false });
            let values: Vec<Expr> = outputs.into_iter().map(Expr::Reg).collect();
            let then = binder
                .block(|binder| binder.check_parents(table, &values, &|_| true, Moment::End))?;
            let (condition, otherwise, phis) = (Expr::Reg(found), Box::default(), Box::default());
            binder.steps.push(Step::If { condition, then, otherwise, phis });
            Ok(())
        })
    }

    /// Rows that were given new values: `old` says where a column is in `rows`, `new` where its
    /// new value is.
    pub(super) fn check_updated_at_end(
        &mut self,
        table: &Arc<Table>,
        (rows, width): (&Query, usize),
        old: &dyn Fn(ColumnId) -> Option<usize>,
        new: &dyn Fn(ColumnId) -> Option<usize>,
        may_have_changed_since: bool,
    ) -> Result<()> {
        let changed = |column: ColumnId| new(column).is_some();
        self.check_rows_at_end(rows, width, |binder, row| {
            let at = |place: Option<usize>| match place {
                Some(place) => Expr::Reg(row[place]),
                None => Expr::Const(Value::Null),
            };
            let columns = 0..table.schema.columns.len() as ColumnId;
            let before: Vec<Expr> = columns.clone().map(|column| at(old(column))).collect();
            let after: Vec<Expr> = columns.map(|c| at(new(c).or(old(c)))).collect();
            for reference in &table.referenced_by {
                let Some((child, key)) = key_of(binder.catalog, reference) else { continue };
                let is_changed = key.parent_columns.iter().any(|c| changed(*c));
                if is_changed && key.on_update.rejects() {
                    let values = of_columns(&key.parent_columns, &before);
                    binder.check_no_child_is_left((table, child), key, key.on_update, &values)?;
                }
            }
            if may_have_changed_since {
                return binder.check_parents_of_what_is_left(table, &after, &changed);
            }
            binder.check_parents(table, &after, &changed, Moment::End)
        })
    }

    /// Rows of a table that go: `columns` of it, in `rows`.
    pub(super) fn check_deleted_at_end(
        &mut self,
        table: &Arc<Table>,
        (rows, columns): (&Query, &[ColumnId]),
        depth: u16,
    ) -> Result<()> {
        let together = self.goes_in_cycles(table, depth);
        if together.is_empty() {
            return self.check_going_at_end(table, (rows, columns), depth, &[]);
        }
        for (table, rows, columns) in self.all_that_go(table, (rows, columns), &together)? {
            self.check_going_at_end(&table, (&rows, &columns), depth, &together)?;
        }
        Ok(())
    }

    fn check_going_at_end(
        &mut self,
        table: &Arc<Table>,
        (rows, columns): (&Query, &[ColumnId]),
        depth: u16,
        together: &[Arc<Table>],
    ) -> Result<()> {
        for reference in &table.referenced_by {
            let Some((child, key)) = key_of(self.catalog, reference) else { continue };
            if key.on_delete == ReferenceAction::Cascade
                && together.iter().any(|other| other.id() == child.id())
            {
                continue;
            }
            let place = |column: &ColumnId| columns.iter().position(|c| c == column);
            match key.on_delete {
                action if action.rejects() => {
                    if !self.checks_at_end(|s| s.shrinks.contains(&child.id())) {
                        continue;
                    }
                    self.check_rows_at_end(rows, columns.len(), |binder, row| {
                        let value = |column| place(column).map(|place| Expr::Reg(row[place]));
                        let values: Vec<Expr> =
                            key.parent_columns.iter().filter_map(value).collect();
                        binder.check_no_child_is_left((table, child), key, action, &values)
                    })?;
                }
                ReferenceAction::Cascade if self.deleted_await(child) => {
                    let values = key.parent_columns.iter().filter_map(place);
                    let values: Vec<Expr> = values.map(|at| Expr::Column(at as u16)).collect();
                    let wanted = self.columns_of_going(child);
                    let going = going_with(rows, columns.len(), (child, key), &values, &wanted)?;
                    let going = self.rows_kept(going)?;
                    self.check_deleted_at_end(child, (&going, &wanted), depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What has to be known of a row that goes: its key, and whatever others point at.
    pub(super) fn columns_of_going(&self, table: &Table) -> Vec<ColumnId> {
        let mut columns = table.schema.primary_key.clone();
        for (_, key) in table.referenced_by.iter().filter_map(|r| key_of(self.catalog, r)) {
            columns.extend(&key.parent_columns);
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// A key has gone: no child may point at it, unless another row has it now and `action` is
    /// content with that.
    fn check_no_child_is_left(
        &mut self,
        (table, child): (&Arc<Table>, &Arc<Table>),
        key: &ForeignKey,
        action: ReferenceAction,
        values: &[Expr],
    ) -> Result<()> {
        let found = self.has_child(child, children_of(key, values))?;
        let then = self.block(|binder| {
            let again = match action {
                ReferenceAction::Restrict => Expr::Const(Value::Bool(false)),
                _ => Expr::Reg(binder.has_parent(table, key, values)?),
            };
            binder.require_no_child(table, child, key, values, vec![again]);
            Ok(())
        })?;
        let (condition, otherwise, phis) = (Expr::Reg(found), Box::default(), Box::default());
        self.steps.push(Step::If { condition, then, otherwise, phis });
        Ok(())
    }
}

fn of_columns(columns: &[ColumnId], row: &[Expr]) -> Vec<Expr> {
    columns.iter().map(|column| row[usize::from(*column)].clone()).collect()
}
