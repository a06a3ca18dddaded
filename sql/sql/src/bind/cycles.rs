//! What a foreign key's action does where it comes back to a table that it began at, or to one by
//! two ways.
//!
//! Actions are nested steps as long as each table occurs once, up to sixteen levels: a row goes,
//! then those that point at it, then those that point at them. A cycle of tables has no such end,
//! so its rows go level by level, as many levels as the data have:
//!
//! ```text
//!   a row ─► those of each table that point at it ─► those that point at them ─► … none
//! ```
//!
//! *CASCADE of a deletion.* What has gone is not found again, so that cycles of rows end, too.
//!
//! *Actions of an update* come when the statement has changed all its rows, as PostgreSQL's do. A
//! level is what keys were and what they are now; the rows that point at the former get the latter,
//! and their own keys, as far as they change by it, are the next level. Parents are looked for when
//! the last level is done: rows of two tables that are given one new value may come in any order.

use std::collections::BTreeSet;
use std::sync::Arc;

use procedure::query::Repeats;
use procedure::step::Carried;
use procedure::{BinaryOp, Expr, Function, Query, Reg, Step};
use types::{ColumnId, DataType, Result, TableId, Value};

use super::binder::Binder;
use super::constraints::{Moment, children_of, going_with};
use super::dml::delete_step;
use super::items::{Item, Source};
use super::plan::{Wishes, plan};
use super::row_calls::rows_of_arrays;
use super::state::{Following, Waits};
use crate::schema::catalog::{Catalog, ForeignKey, ReferenceAction, Table};

/// Cascades are steps within steps so many tables deep; what is beyond goes level by level.
const NESTED_DEPTH_MAX: u16 = 16;

/// Foreign keys that lead to a table: the child, and which of its keys.
fn keys_to<'c>(
    catalog: &'c Catalog,
    table: &'c Table,
) -> impl Iterator<Item = (&'c Arc<Table>, &'c ForeignKey)> {
    table.referenced_by.iter().filter_map(|reference| {
        let child = catalog.table_by_id(reference.child)?;
        Some((child, child.foreign_keys.get(reference.key)?))
    })
}

/// The tables that CASCADE of a deletion leads to, the given one only where it comes back to it.
fn reached(catalog: &Catalog, table: &Table) -> BTreeSet<TableId> {
    let (mut reached, mut ahead) = (BTreeSet::new(), vec![table.id()]);
    while let Some(at) = ahead.pop() {
        let Some(table) = catalog.table_by_id(at) else { continue };
        for (child, key) in keys_to(catalog, table) {
            if key.on_delete == ReferenceAction::Cascade && reached.insert(child.id()) {
                ahead.push(child.id());
            }
        }
    }
    reached
}

/// Where a column is in a list of columns.
fn place(columns: &[ColumnId], column: ColumnId) -> Option<u16> {
    columns.iter().position(|c| *c == column).map(|place| place as u16)
}

fn sorted(columns: impl Iterator<Item = ColumnId>) -> Vec<ColumnId> {
    columns.collect::<BTreeSet<_>>().into_iter().collect()
}

fn no_rows(columns: usize) -> Vec<Expr> {
    vec![Expr::Const(Value::Null); columns]
}

/// While there is a row of which the first column is in one of the arrays.
fn any_left<'r>(arrays: impl Iterator<Item = &'r Vec<Reg>>) -> Expr {
    let first = arrays.filter_map(|arrays| arrays.first());
    Expr::Or(first.map(|array| Expr::is_null(Expr::Reg(*array), true)).collect())
}

fn carried(registers: &[Reg], initial: Vec<Expr>, next: Vec<Expr>) -> Vec<Carried> {
    let all = registers.iter().zip(initial).zip(next);
    all.map(|((register, initial), next)| Carried { register: *register, initial, next }).collect()
}

fn in_registers(registers: &[Reg]) -> Vec<Expr> {
    registers.iter().map(|register| Expr::Reg(*register)).collect()
}

fn joined(before: &[Reg], new: &[Reg]) -> Vec<Expr> {
    let pairs = before.iter().zip(new);
    let join = |(before, new): (&Reg, &Reg)| Expr::Call {
        function: Function::ArrayCat,
        arguments: [Expr::Reg(*before), Expr::Reg(*new)].into(),
        result: DataType::Array(Box::new(DataType::Unknown)),
    };
    pairs.map(join).collect()
}

/// A table whose rows go level by level, and what has to be known of them.
struct Going {
    table: Arc<Table>,
    columns: Vec<ColumnId>,
}

impl Binder<'_> {
    /// The tables whose rows go level by level when one of `table` does: ascending, it among them.
    /// None where its cascades end within few tables.
    pub(super) fn goes_in_cycles(&self, table: &Table, depth: u16) -> Vec<Arc<Table>> {
        let mut together = reached(self.catalog, table);
        let of = |id: &TableId| self.catalog.table_by_id(*id).cloned();
        if depth < NESTED_DEPTH_MAX {
            let comes_back = |id: &TableId| {
                of(id).is_some_and(|other| reached(self.catalog, &other).contains(&table.id()))
            };
            together.retain(comes_back);
        } else if !together.is_empty() {
            together.insert(table.id());
        }
        together.iter().filter_map(of).collect()
    }

    fn going(&self, together: &[Arc<Table>]) -> Vec<Going> {
        let going = |table: &Arc<Table>| Going {
            table: table.clone(),
            columns: self.columns_of_going(table),
        };
        together.iter().map(going).collect()
    }

    /// The rows of a table that point at those of a level, each once.
    fn next_to_go(
        &self,
        all: &[Going],
        level: &[Vec<Reg>],
        child: &Going,
    ) -> Result<Option<Query>> {
        let mut found = Vec::new();
        for (parent, gone) in all.iter().zip(level) {
            let cascades = |(table, key): &(&Arc<Table>, &ForeignKey)| {
                table.id() == child.table.id() && key.on_delete == ReferenceAction::Cascade
            };
            for (table, key) in keys_to(self.catalog, &parent.table).filter(cascades) {
                let values = key.parent_columns.iter().filter_map(|c| place(&parent.columns, *c));
                let values: Vec<Expr> = values.map(Expr::Column).collect();
                let gone = rows_of_arrays(gone);
                let wanted = &child.columns;
                found.push(going_with(&gone, parent.columns.len(), (table, key), &values, wanted)?);
            }
        }
        let by = child.table.schema.primary_key.iter();
        let by = by.filter_map(|c| place(&child.columns, *c)).collect();
        let input = Box::new(Query::Append(found.into()));
        let is_none = matches!(&*input, Query::Append(found) if found.is_empty());
        let once = Query::Distinct { input, by, repeats: Repeats::Dropped };
        Ok((!is_none).then_some(once))
    }

    /// Arrays of the rows of a query; of nothing where there is none.
    fn arrays_or_none(&mut self, query: Option<Query>, columns: usize) -> Result<Vec<Reg>> {
        match query {
            Some(query) => self.arrays_of(query),
            None => no_rows(columns).into_iter().map(|none| self.let_register(none)).collect(),
        }
    }

    fn let_register(&mut self, value: Expr) -> Result<Reg> {
        let out = self.register()?;
        self.steps.push(Step::Let { out, value });
        Ok(out)
    }

    /// After the deletion of a row of `table`: what goes with it through `together`.
    pub(super) fn descendants_follow(
        &mut self,
        table: &Arc<Table>,
        old: &dyn Fn(ColumnId) -> Expr,
        depth: u16,
        together: &[Arc<Table>],
    ) -> Result<()> {
        if together.is_empty() {
            return Ok(());
        }
        let all = self.going(together);
        let mut level = Vec::with_capacity(all.len());
        for going in &all {
            level.push(self.registers(going.columns.len())?);
        }
        let mut next = Vec::new();
        let body = self.block(|binder| {
            for going in &all {
                let found = binder.next_to_go(&all, &level, going)?;
                next.push(binder.arrays_or_none(found, going.columns.len())?);
            }
            all.iter()
                .zip(&next)
                .try_for_each(|(going, arrays)| binder.delete_level(going, arrays, depth, together))
        })?;
        let initial = |going: &Going| match going.table.id() == table.id() {
            true => going.columns.iter().map(|c| Expr::Array([old(*c)].into())).collect(),
            false => no_rows(going.columns.len()),
        };
        let of_table = all.iter().zip(&level).zip(&next);
        let carried = of_table
            .flat_map(|((going, now), next)| carried(now, initial(going), in_registers(next)));
        let (carried, condition) = (carried.collect(), any_left(level.iter()));
        self.steps.push(Step::While { condition, body, carried });
        Ok(())
    }

    fn delete_level(
        &mut self,
        going: &Going,
        arrays: &[Reg],
        depth: u16,
        together: &[Arc<Table>],
    ) -> Result<()> {
        let Going { table, columns } = going;
        let row = self.registers(columns.len())?;
        let body = self.block(|binder| {
            let old = |c: ColumnId| {
                let place = place(columns, c);
                place.map_or(Expr::Const(Value::Null), |at| Expr::Reg(row[usize::from(at)]))
            };
            binder.release_children(table, &old, None, depth, together)?;
            let key = table.schema.primary_key.iter().map(|c| old(*c)).collect();
            let found = binder.register()?;
            binder.steps.push(delete_step(table, key, found));
            Ok(())
        })?;
        let (query, row) = (rows_of_arrays(arrays), row.into());
        self.steps.push(Step::ForRows { query, row, body, carried: Box::default() });
        Ok(())
    }

    /// All rows of `together` that will go because `rows` of `table` do, those among them: for each
    /// of the tables, its rows and their columns.
    pub(super) fn all_that_go(
        &mut self,
        table: &Table,
        (rows, columns): (&Query, &[ColumnId]),
        together: &[Arc<Table>],
    ) -> Result<Vec<(Arc<Table>, Query, Vec<ColumnId>)>> {
        let all = self.going(together);
        let (mut level, mut gone, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for going in &all {
            level.push(self.registers(going.columns.len())?);
            gone.push(self.registers(going.columns.len())?);
            let begun = (going.table.id() == table.id()).then(|| {
                let expressions = going.columns.iter().filter_map(|c| place(columns, *c));
                let expressions = expressions.map(Expr::Column).collect();
                Query::Project { input: Box::new(rows.clone()), expressions }
            });
            first.push(self.arrays_or_none(begun, going.columns.len())?);
        }
        let mut next = Vec::new();
        let body = self.block(|binder| {
            for (going, gone) in all.iter().zip(&gone) {
                let found = binder.next_to_go(&all, &level, going)?;
                let new = found.map(|found| not_among(going, gone, found));
                next.push(binder.arrays_or_none(new, going.columns.len())?);
            }
            Ok(())
        })?;
        let mut turns = Vec::new();
        for (((level, gone), next), first) in level.iter().zip(&gone).zip(&next).zip(&first) {
            turns.extend(carried(level, in_registers(first), in_registers(next)));
            turns.extend(carried(gone, in_registers(first), joined(gone, next)));
        }
        let (carried, condition) = (turns.into(), any_left(level.iter()));
        self.steps.push(Step::While { condition, body, carried });
        let of_table =
            |(going, gone): (Going, Vec<Reg>)| (going.table, rows_of_arrays(&gone), going.columns);
        Ok(all.into_iter().zip(gone).map(of_table).collect())
    }
}

/// Of the rows `found`, those that `gone` does not have.
fn not_among(going: &Going, gone: &[Reg], found: Query) -> Query {
    let width = going.columns.len() as u16;
    let marked = |input: Query, is_found: bool| {
        let mut expressions: Vec<Expr> = (0..width).map(Expr::Column).collect();
        expressions.push(Expr::Const(Value::Bool(is_found)));
        Query::Project { input: Box::new(input), expressions: expressions.into() }
    };
    let both = [marked(rows_of_arrays(gone), false), marked(found, true)];
    let by = going.table.schema.primary_key.iter();
    let by = by.filter_map(|c| place(&going.columns, *c)).collect();
    let (input, repeats) = (Box::new(Query::Append(both.into())), Repeats::Marked(None));
    let input = Box::new(Query::Distinct { input, by, repeats });
    let is_new = Expr::negated(Expr::Column(width + 1));
    let condition = Expr::And([Expr::Column(width), is_new].into());
    let input = Box::new(Query::Filter { input, condition });
    Query::Project { input, expressions: (0..width).map(Expr::Column).collect() }
}

/// A key by which rows get what their parents have now.
struct Followed {
    child: Arc<Table>,
    key: ForeignKey,
}

/// The actions of an update that have to wait until all its rows are changed.
pub(super) struct Followers {
    keys: Vec<Followed>,
    /// Tables whose keys change, ascending, and the columns of theirs that are pointed at.
    parents: Vec<(Arc<Table>, Vec<ColumnId>)>,
}

impl Followers {
    fn place_of(&self, table: TableId) -> Option<usize> {
        self.parents.iter().position(|(parent, _)| parent.id() == table)
    }

    /// Whether rows of the table come to be changed by the actions.
    pub fn come_to(&self, table: TableId) -> bool {
        self.keys.iter().any(|followed| followed.child.id() == table)
    }

    fn children(&self) -> BTreeSet<TableId> {
        self.keys.iter().map(|followed| followed.child.id()).collect()
    }
}

impl Binder<'_> {
    /// What an update of these columns sets in motion, where that comes back to the table, or to
    /// another one twice.
    pub(super) fn followers(
        &self,
        table: &Arc<Table>,
        changed: &dyn Fn(ColumnId) -> bool,
    ) -> Option<Followers> {
        let mut keys: Vec<Followed> = Vec::new();
        let mut ahead: Vec<(Arc<Table>, Vec<ColumnId>)> = vec![(
            table.clone(),
            (0..table.schema.columns.len() as ColumnId).filter(|c| changed(*c)).collect(),
        )];
        while let Some((parent, changed)) = ahead.pop() {
            for (child, key) in keys_to(self.catalog, &parent) {
                let is_known =
                    |known: &Followed| known.child.id() == child.id() && known.key.name == key.name;
                if key.on_update.rejects()
                    || !key.parent_columns.iter().any(|c| changed.contains(c))
                    || keys.iter().any(is_known)
                {
                    continue;
                }
                keys.push(Followed { child: child.clone(), key: key.clone() });
                ahead.push((child.clone(), key.columns.clone()));
            }
        }
        keys.sort_by(|a, b| (a.child.id(), &a.key.name).cmp(&(b.child.id(), &b.key.name)));
        let ids: BTreeSet<TableId> = keys.iter().map(|followed| followed.key.parent).collect();
        let parents = ids.iter().filter_map(|id| {
            let parent = self.catalog.table_by_id(*id)?.clone();
            let to_it = keys.iter().filter(|followed| followed.key.parent == *id);
            let columns = sorted(to_it.flat_map(|f| f.key.parent_columns.iter().copied()));
            Some((parent, columns))
        });
        let parents = parents.collect();
        let followers = Followers { keys, parents };
        let children = followers.children();
        let is_met_twice = children.len() < followers.keys.len();
        (is_met_twice || children.contains(&table.id())).then_some(followers)
    }

    /// The rows that point at `rows` of `table` get their new keys, and so on. `old` and `new` say
    /// where a column's value is in the rows, before and after.
    pub(super) fn followers_follow(
        &mut self,
        table: &Table,
        rows: &Query,
        old: &dyn Fn(ColumnId) -> Expr,
        new: &dyn Fn(ColumnId) -> Expr,
        followers: &Followers,
    ) -> Result<()> {
        let (mut level, mut first) = (Vec::new(), Vec::new());
        for (parent, columns) in &followers.parents {
            level.push(self.registers(2 * columns.len())?);
            let begun = (parent.id() == table.id()).then(|| {
                let before = columns.iter().map(|c| old(*c));
                let expressions = before.chain(columns.iter().map(|c| new(*c))).collect();
                let input = Query::Project { input: Box::new(rows.clone()), expressions };
                distinct_pairs(input, columns.len())
            });
            first.push(self.arrays_or_none(begun, 2 * columns.len())?);
        }
        let children: Vec<Arc<Table>> = {
            let ids = followers.children();
            ids.iter().filter_map(|id| self.catalog.table_by_id(*id).cloned()).collect()
        };
        let mut seen = Vec::new();
        for child in &children {
            seen.push(self.registers(self.keys_to_look_at(child, followers).len())?);
        }
        let (mut next, mut written) = (Vec::new(), Vec::new());
        let body = self.block(|binder| {
            let mut found = Vec::new();
            for child in &children {
                let query = binder.rows_that_follow(child, followers, &level)?;
                found.push(binder.arrays_of(query)?);
            }
            for (parent, columns) in &followers.parents {
                let at = children.iter().position(|child| child.id() == parent.id());
                let query = at.map(|at| pairs_of(&children[at], followers, &found[at], columns));
                next.push(binder.arrays_or_none(query, 2 * columns.len())?);
            }
            for (child, found) in children.iter().zip(&found) {
                binder.change_level(child, followers, found)?;
                let looked_at = binder.keys_to_look_at(child, followers);
                let query = values_of(child, followers, found, &looked_at);
                written.push(binder.arrays_of(query)?);
            }
            Ok(())
        })?;
        let mut turns = Vec::new();
        for ((level, first), next) in level.iter().zip(&first).zip(&next) {
            turns.extend(carried(level, in_registers(first), in_registers(next)));
        }
        for (seen, written) in seen.iter().zip(&written) {
            turns.extend(carried(seen, no_rows(seen.len()), joined(seen, written)));
        }
        let condition = any_left(level.iter());
        self.steps.push(Step::While { condition, body, carried: turns.into() });
        for (child, seen) in children.iter().zip(&seen) {
            let looked_at = self.keys_to_look_at(child, followers);
            self.look_for_parents(child, followers, &looked_at, seen)?;
        }
        Ok(())
    }

    /// Columns of a child that are followed, ascending.
    fn keys_to_look_at(&self, child: &Table, followers: &Followers) -> Vec<ColumnId> {
        let changed = columns_that_follow(child, followers);
        let keys = child.foreign_keys.iter();
        let keys = keys.filter(|key| key.columns.iter().any(|c| changed.contains(c)));
        sorted(keys.flat_map(|key| key.columns.iter().copied()))
    }

    /// Whole rows of a child that point at what a level's keys were; after them, what their
    /// [columns](columns_that_follow) become.
    fn rows_that_follow(
        &mut self,
        child: &Arc<Table>,
        followers: &Followers,
        level: &[Vec<Reg>],
    ) -> Result<Query> {
        let width = child.schema.columns.len() as u16;
        let keys: Vec<&Followed> =
            followers.keys.iter().filter(|followed| followed.child.id() == child.id()).collect();
        let mut found = Vec::new();
        for followed in &keys {
            let Some(at) = followers.place_of(followed.key.parent) else { continue };
            let columns = &followers.parents[at].1;
            found.push(changed_children(followed, columns, &level[at])?);
        }
        let by = child.schema.primary_key.clone().into();
        let input = Box::new(Query::Append(found.into()));
        let touched = Query::Distinct { input, by, repeats: Repeats::Dropped };
        let mut items = vec![Item::new(Source::Query(touched), 0, width)];
        // Where each key's columns are in the join, before and after.
        let mut places = Vec::new();
        let mut offset = width;
        for followed in &keys {
            let Some(at) = followers.place_of(followed.key.parent) else { continue };
            let columns = &followers.parents[at].1;
            let on = matches_of(followed, columns, offset, &Expr::Column);
            let source = Source::Query(rows_of_arrays(&level[at]));
            let both = 2 * columns.len() as u16;
            items.push(Item { left: Some(on), ..Item::new(source, offset, both) });
            places.push((offset, columns));
            offset += both;
        }
        let columns: Vec<u16> = (0..offset).collect();
        let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
        let all = plan(items, Vec::new(), &wishes)?.project(&columns);
        let mut expressions: Vec<Expr> = (0..width).map(Expr::Column).collect();
        for column in columns_that_follow(child, followers) {
            let mut whens = Vec::new();
            for (followed, (offset, columns)) in keys.iter().zip(&places).rev() {
                let at = followed.key.columns.iter().position(|c| *c == column);
                let Some(parent) = at.map(|at| followed.key.parent_columns[at]) else { continue };
                let is_matched = Expr::is_null(Expr::Column(*offset), true);
                let value = match followed.key.on_update {
                    ReferenceAction::Cascade => {
                        let at = place(columns, parent).unwrap_or_default();
                        Expr::Column(offset + columns.len() as u16 + at)
                    }
                    ReferenceAction::SetDefault => self.default_of(child, column),
                    _ => Expr::Const(Value::Null),
                };
                whens.push((is_matched, value));
            }
            let otherwise = Box::new(Expr::Column(column));
            expressions.push(Expr::Case { whens: whens.into(), otherwise });
        }
        Ok(Query::Project { input: Box::new(all), expressions: expressions.into() })
    }

    /// Writes what the rows of a child in `found` become.
    fn change_level(
        &mut self,
        child: &Arc<Table>,
        followers: &Followers,
        found: &[Reg],
    ) -> Result<()> {
        let width = child.schema.columns.len();
        let row = self.registers(found.len())?;
        let before = std::mem::replace(&mut self.following, Following::LevelByLevel);
        let change = |binder: &mut Self| {
            let old = |c: ColumnId| Expr::Reg(row[usize::from(c)]);
            let columns = columns_that_follow(child, followers);
            let values = row[width..].iter().map(|register| Expr::Reg(*register));
            let assigned = columns.into_iter().zip(values).collect();
            let mut assigned = binder.with_generated(child, assigned)?;
            assigned.iter_mut().for_each(|(_, value)| value.map_columns(&mut |c| old(c)));
            binder.update_row(child, &old, &assigned).map(drop)
        };
        let body = self.waiting(Waits::NO, |binder| binder.block(change));
        self.following = before;
        let (query, row) = (rows_of_arrays(found), row.clone().into());
        self.steps.push(Step::ForRows { query, row, body: body?, carried: Box::default() });
        Ok(())
    }

    /// After the last level: where a row still has what it was given, a parent has it.
    fn look_for_parents(
        &mut self,
        child: &Arc<Table>,
        followers: &Followers,
        columns: &[ColumnId],
        seen: &[Reg],
    ) -> Result<()> {
        let changed = columns_that_follow(child, followers);
        let row = self.registers(columns.len())?;
        let body = self.block(|binder| {
            let mut values = vec![Expr::Const(Value::Null); child.schema.columns.len()];
            for (column, register) in columns.iter().zip(&row) {
                values[usize::from(*column)] = Expr::Reg(*register);
            }
            binder.check_parents_of_what_is_left(child, &values, &|c| changed.contains(&c))
        })?;
        let (query, row) = (rows_of_arrays(seen), row.into());
        self.steps.push(Step::ForRows { query, row, body, carried: Box::default() });
        Ok(())
    }

    /// Of keys with a changed column: where a row of the table has these values, a parent has them.
    pub(super) fn check_parents_of_what_is_left(
        &mut self,
        table: &Arc<Table>,
        values: &[Expr],
        changed: &dyn Fn(ColumnId) -> bool,
    ) -> Result<()> {
        for key in &table.foreign_keys {
            if key.unchecked || !key.columns.iter().any(|c| changed(*c)) {
                continue;
            }
            let own: Vec<Expr> =
                key.columns.iter().map(|c| values[usize::from(*c)].clone()).collect();
            let found = self.has_child(table, children_of(key, &own))?;
            let then = self.block(|binder| binder.check_parent(table, key, values))?;
            let (condition, otherwise, phis) = (Expr::Reg(found), Box::default(), Box::default());
            self.steps.push(Step::If { condition, then, otherwise, phis });
        }
        Ok(())
    }

    /// Whether a row's parents are looked for when it is written.
    pub(super) fn looks_for_parent(&self, key: &ForeignKey, moment: Moment) -> bool {
        let end_checks = self.end_checks.as_ref();
        match moment {
            Moment::Written if self.following == Following::LevelByLevel => false,
            Moment::Written => !end_checks.is_some_and(|s| s.awaits_parent(key.parent)),
            Moment::End => end_checks.is_some_and(|s| s.may_grow(key.parent)),
        }
    }
}

/// What a child's columns become by the keys that are followed, ascending.
fn columns_that_follow(child: &Table, followers: &Followers) -> Vec<ColumnId> {
    let keys = followers.keys.iter().filter(|followed| followed.child.id() == child.id());
    sorted(keys.flat_map(|followed| followed.key.columns.iter().copied()))
}

/// Pairs of which the two sides differ.
fn distinct_pairs(input: Query, columns: usize) -> Query {
    let columns = columns as u16;
    let differ = |c: u16| differs(Expr::Column(c), Expr::Column(columns + c));
    let condition = Expr::Or((0..columns).map(differ).collect());
    Query::Filter { input: Box::new(input), condition }
}

fn differs(left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op: BinaryOp::IsDistinctFrom,
        left: Box::new(left),
        right: Box::new(right),
        result: DataType::Bool,
    }
}

/// That a child's row had the key of a level's pair at `offset`, and that it is another now.
fn matches_of(
    Followed { key, .. }: &Followed,
    columns: &[ColumnId],
    offset: u16,
    of_child: &dyn Fn(ColumnId) -> Expr,
) -> Vec<Expr> {
    let before = |column: ColumnId| offset + place(columns, column).unwrap_or_default();
    let pairs = key.columns.iter().zip(&key.parent_columns);
    let mut on: Vec<Expr> =
        pairs.map(|(c, p)| Expr::equal(of_child(*c), Expr::Column(before(*p)))).collect();
    let differ = key.parent_columns.iter().map(|p| {
        let before = before(*p);
        differs(Expr::Column(before), Expr::Column(before + columns.len() as u16))
    });
    on.push(Expr::Or(differ.collect()));
    on
}

/// Whole rows of the child that point at what a level's keys were.
fn changed_children(followed: &Followed, columns: &[ColumnId], level: &[Reg]) -> Result<Query> {
    let offset = level.len() as u16;
    let width = followed.child.schema.columns.len() as u16;
    let source = Source::Query(rows_of_arrays(level));
    let pairs = Item::new(source, 0, offset);
    let source = Source::Table(followed.child.clone());
    let children = Item::new(source, offset, width);
    let on = matches_of(followed, columns, 0, &|column| Expr::Column(offset + column));
    let columns: Vec<u16> = (offset..offset + width).collect();
    let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
    Ok(plan(vec![pairs, children], on, &wishes)?.project(&columns))
}

/// Where a column's new value is in the rows of [`Binder::rows_that_follow`].
fn place_after(child: &Table, followers: &Followers, column: ColumnId) -> u16 {
    let width = child.schema.columns.len() as u16;
    place(&columns_that_follow(child, followers), column).map_or(column, |at| width + at)
}

/// What `columns` of those rows were, and what they are now, where that differs.
fn pairs_of(child: &Table, followers: &Followers, found: &[Reg], columns: &[ColumnId]) -> Query {
    let before = columns.iter().map(|c| Expr::Column(*c));
    let after = columns.iter().map(|c| Expr::Column(place_after(child, followers, *c)));
    let (input, expressions) = (Box::new(rows_of_arrays(found)), before.chain(after).collect());
    distinct_pairs(Query::Project { input, expressions }, columns.len())
}

/// What `columns` of those rows are now.
fn values_of(child: &Table, followers: &Followers, found: &[Reg], columns: &[ColumnId]) -> Query {
    let after = columns.iter().map(|c| Expr::Column(place_after(child, followers, *c)));
    Query::Project { input: Box::new(rows_of_arrays(found)), expressions: after.collect() }
}
