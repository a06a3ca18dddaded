//! FROM: tables, views, functions, and what joins them.
//!
//! USING and NATURAL make one column of two. It stands before the others in `*`, a name without a
//! table's means it alone, and its value is that of the side whose rows the join keeps: the left
//! one's, the right one's for RIGHT, whichever is there for FULL.

use std::sync::LazyLock;

use sqlparser::ast;
use types::{DataType, Error, Result, SystemType};

use super::bind::{Binder, rename};
use super::plan::*;
use super::refused::{missing_table, no_calls};
use super::scope::{ScopeColumn, ScopeTable, Visible, parts};
use super::{Typed, matched, sets};
use crate::relation;
use sql::catalog::View;
use sql::names::{fold, not_in_side, twice_in_side};

impl Binder<'_> {
    /// A table and what is joined to it.
    pub fn joined(&mut self, from: &ast::TableWithJoins) -> Result<Source> {
        let first = self.scope().columns.len();
        let mut left = self.factor(&from.relation)?;
        for join in &from.joins {
            use ast::JoinOperator as J;
            let (constraint, keep_left, keep_right) = match &join.join_operator {
                J::Join(on) | J::Inner(on) | J::CrossJoin(on) => (on, false, false),
                J::Left(on) | J::LeftOuter(on) => (on, true, false),
                J::Right(on) | J::RightOuter(on) => (on, false, true),
                J::FullOuter(on) => (on, true, true),
                other => return Err(Error::unsupported(format_args!("{other:?}"))),
            };
            let second = self.scope().columns.len();
            let right = self.factor(&join.relation)?;
            let mut on = Vec::new();
            self.constraint(constraint, [first, second], [keep_left, keep_right], &mut on)?;
            left = match (keep_left || keep_right, left) {
                (false, Source::Product { mut items, on: mut before }) => {
                    items.push(right);
                    before.extend(on);
                    Source::Product { items, on: before }
                }
                (false, left) => Source::Product { items: vec![left, right], on },
                (true, left) => {
                    let (left, right) = (Box::new(left), Box::new(right));
                    Source::Outer { left, right, on, keep_left, keep_right }
                }
            };
        }
        Ok(left)
    }

    /// ON, USING and NATURAL; the tables' columns are visible from `first` and from `second` on.
    fn constraint(
        &mut self,
        constraint: &ast::JoinConstraint,
        [first, second]: [usize; 2],
        kept: [bool; 2],
        on: &mut Vec<Expr>,
    ) -> Result<()> {
        let names: Vec<String> = match constraint {
            ast::JoinConstraint::None => return Ok(()),
            ast::JoinConstraint::On(expr) => {
                split(self.condition(expr, "JOIN/ON")?, on);
                return no_calls(self.scope(), "JOIN conditions");
            }
            ast::JoinConstraint::Using(names) => {
                names.iter().filter_map(|name| parts(name).pop()).collect()
            }
            ast::JoinConstraint::Natural => {
                let columns = &self.scope().columns;
                let shown = |column: &&Visible| !column.hidden;
                let right = &columns[second..];
                let shared = columns[first..second].iter().filter(shown).filter(|left| {
                    right.iter().filter(shown).any(|column| column.name == left.name)
                });
                shared.map(|column| column.name.clone()).collect()
            }
        };
        let mut right = self.scope().columns.split_off(second);
        let mut left = self.scope().columns.split_off(first);
        let mut merged = Vec::new();
        for name in names {
            let sides = [taken(&mut left, &name, "left")?, taken(&mut right, &name, "right")?];
            let [of_left, of_right] = sides.clone();
            let typed = self.merged(sides, kept)?;
            on.push(self.compare(CompareOp::Equal, of_left, of_right)?);
            merged.push(Visible { name, typed, hidden: false });
        }
        self.scope().columns.extend(merged.into_iter().chain(left).chain(right));
        Ok(())
    }

    /// What USING makes of two columns: the value of the side that is always there.
    fn merged(&mut self, [left, right]: [Typed; 2], kept: [bool; 2]) -> Result<Typed> {
        let common = matched(&left.data_type, &right.data_type)?;
        let side = match kept {
            [true, true] => {
                let sides = vec![self.coerce(left, &common)?, self.coerce(right, &common)?];
                return Ok(Typed::new(Expr::Coalesce(sides), common));
            }
            [false, true] => right,
            [true, false] => left,
            [false, false] if left.data_type != common && right.data_type == common => right,
            [false, false] => left,
        };
        self.cast(side, &common)
    }

    fn factor(&mut self, factor: &ast::TableFactor) -> Result<Source> {
        match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                self.table(name, alias.as_ref())
            }
            ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.function(name, &args.args, *with_ordinality, alias.as_ref())
            }
            ast::TableFactor::Function { name, args, with_ordinality, alias, .. } => {
                self.function(name, args, *with_ordinality, alias.as_ref())
            }
            ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                self.unnest(array_exprs, *with_ordinality, alias.as_ref())
            }
            ast::TableFactor::Derived { subquery, alias, .. } => {
                let mut query = self.query(subquery)?;
                if let Some(alias) = alias {
                    rename(&mut query.columns, alias)?;
                }
                let name = alias.as_ref().map(|alias| fold(&alias.name)).unwrap_or_default();
                let columns = query.columns.clone();
                Ok(self.leaf(None, name, columns, LeafKind::Query(Box::new(query)), 0))
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joined(table_with_joins)
            }
            other => Err(Error::unsupported(format_args!("FROM {other}"))),
        }
    }

    fn table(&mut self, name: &ast::ObjectName, alias: Option<&ast::TableAlias>) -> Result<Source> {
        let parts = parts(name);
        let cte = |(known, ..): &&(String, usize, Vec<Column>)| parts == [known.as_str()];
        let cte = self.ctes.iter().rev().find(cte);
        let (mut columns, kind, mut schema) = match (cte, system_relation(&parts)) {
            (Some((_, number, columns)), _) => (columns.clone(), LeafKind::Cte(*number), None),
            (None, None) => return self.users_relation(&parts, alias),
            (None, Some(place)) => {
                let relation = &relation::all()[place];
                let columns = relation.columns.iter();
                let columns = columns.map(|c| Column::new(c.name, c.data_type.clone())).collect();
                (columns, LeafKind::Relation(place), Some(relation.schema.to_owned()))
            }
        };
        let mut called = parts.last().cloned().unwrap_or_default();
        if let Some(alias) = alias {
            rename(&mut columns, alias)?;
            called = fold(&alias.name);
            schema = None;
        }
        let hidden: &[Column] = match kind {
            LeafKind::Relation(_) => &*HIDDEN_COLUMNS,
            _ => &[],
        };
        columns.extend_from_slice(hidden);
        let key = columns.iter().position(|column| column.name == "oid" && !hidden.is_empty());
        let leaf = self.leaf(schema, called, columns, kind, hidden.len());
        self.has_key(key.into_iter().collect());
        Ok(leaf)
    }

    /// The table that was named last has a key, in these of its columns.
    fn has_key(&mut self, columns: Vec<usize>) {
        if let Some(table) = self.scope().tables.last_mut() {
            table.key = columns.into_iter().map(|column| table.offset + column).collect();
        }
    }

    /// A user's table or view.
    fn users_relation(
        &mut self,
        parts: &[String],
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let world = self.world;
        let missing = || missing_table(&parts.join("."));
        let name = users_name(parts).ok_or_else(missing)?;
        let (schema, bare) = sql::names::split(&name);
        let called = alias.map_or_else(|| bare.to_owned(), |alias| fold(&alias.name));
        let schema = alias.is_none().then(|| schema.to_owned());
        let renamed = |mut columns: Vec<Column>| {
            alias.map_or(Ok(()), |alias| rename(&mut columns, alias)).map(|()| columns)
        };
        if let Some(view) = world.catalog.view(&name) {
            let query = self.view(view)?;
            let columns = renamed(query.columns.clone())?;
            return Ok(self.leaf(schema, called, columns, LeafKind::Query(Box::new(query)), 0));
        }
        let table = world.catalog.find_table(&name).ok_or_else(missing)?;
        let visible = || table.schema.visible_columns();
        let columns = visible().map(|(_, c)| Column::new(&*c.name, c.data_type.clone())).collect();
        let kind = LeafKind::Table {
            id: table.id(),
            columns: visible().map(|(id, _)| id).collect(),
            types: visible().map(|(_, column)| column.data_type.clone()).collect(),
        };
        self.tables.insert(table.id());
        let key = &table.schema.primary_key;
        let place = |id: &types::ColumnId| visible().position(|(visible, _)| visible == *id);
        let key: Option<Vec<usize>> = key.iter().map(place).collect();
        let leaf = self.leaf(schema, called, renamed(columns)?, kind, 0);
        self.has_key(key.unwrap_or_default());
        Ok(leaf)
    }

    /// A view is its query, which sees no name of the query around it.
    pub fn view(&mut self, view: &View) -> Result<Query> {
        self.view_uses.add_one()?;
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        let reach = std::mem::replace(&mut self.reach, usize::MAX);
        let bound = self.query(&view.query);
        (self.scopes, self.ctes, self.reach) = (scopes, ctes, reach);
        let mut bound = bound?;
        self.count(bound.columns.len())?;
        for (column, name) in bound.columns.iter_mut().zip(&view.columns) {
            column.name.clone_from(name);
        }
        Ok(bound)
    }

    fn unnest(
        &mut self,
        arrays: &[ast::Expr],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let calls = arrays.iter().map(|array| {
            let argument = self.expr(array)?;
            self.set_call("unnest", vec![argument])
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        self.function_leaf(calls, "unnest", ordinality, alias)
    }

    fn function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let name = parts(name).pop().unwrap_or_default();
        let arguments = self.arguments(arguments)?;
        if sets::find(&name).is_none() {
            // A function of one value is a table of one row.
            return self.scalar_function(&name, arguments, alias);
        }
        let call = self.set_call(&name, arguments)?;
        self.function_leaf(vec![call], &name, ordinality, alias)
    }

    fn scalar_function(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let typed = self.call(name, arguments)?;
        let of = DataType::Array(Box::new(typed.data_type));
        let array = Typed::new(Expr::Array(vec![typed.expr]), of);
        let call = self.set_call("unnest", vec![array])?;
        self.function_leaf(vec![call], name, false, alias)
    }

    fn function_leaf(
        &mut self,
        calls: Vec<(SetCall, Vec<Column>)>,
        name: &str,
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let (calls, columns): (Vec<SetCall>, Vec<Vec<Column>>) = calls.into_iter().unzip();
        let mut columns = columns.concat();
        let called = alias.map_or(name.to_owned(), |alias| fold(&alias.name));
        // The one column of a function that returns no rows is called like the table.
        if let [column] = columns.as_mut_slice() {
            column.name = called.clone();
        }
        if ordinality {
            columns.push(Column::new("ordinality", DataType::Int8));
        }
        if let Some(alias) = alias {
            rename(&mut columns, alias)?;
        }
        Ok(self.leaf(None, called, columns, LeafKind::Function { calls, ordinality }, 0))
    }

    fn leaf(
        &mut self,
        schema: Option<String>,
        name: String,
        columns: Vec<Column>,
        kind: LeafKind,
        hidden: usize,
    ) -> Source {
        let is_function = matches!(kind, LeafKind::Function { .. });
        let scope = self.scope();
        let (offset, width) = (scope.width, columns.len());
        let visible = width - hidden;
        let columns = columns.into_iter().enumerate();
        let columns: Vec<ScopeColumn> = columns
            .map(|(place, column)| ScopeColumn { column, hidden: place >= visible })
            .collect();
        scope.columns.extend((offset..).zip(&columns).map(|(place, column)| Visible {
            name: column.column.name.clone(),
            typed: column.column.typed(Expr::Column { level: 0, place }),
            hidden: column.hidden,
        }));
        let key = Vec::new();
        scope.tables.push(ScopeTable { schema, name, offset, columns, key, is_function });
        scope.width += width;
        Source::Leaf(Leaf { offset, width, presence: None, kind })
    }
}

/// The column of that name, taken from those of one side of a join.
fn taken(columns: &mut Vec<Visible>, name: &str, side: &str) -> Result<Typed> {
    let mut places = (0..columns.len()).filter(|place| columns[*place].name == name);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(columns.remove(place).typed),
        (None, _) => Err(not_in_side(name, side)),
        (Some(_), Some(_)) => Err(twice_in_side(name, side)),
    }
}

/// What every table has, and `*` leaves out.
pub const SYSTEM_COLUMNS: [(&str, SystemType); 2] =
    [("tableoid", SystemType::Oid), ("xmin", SystemType::Xid)];

static HIDDEN_COLUMNS: LazyLock<[Column; 2]> = LazyLock::new(|| {
    SYSTEM_COLUMNS.map(|(name, system)| Column::new(name, DataType::System(system)))
});

/// The system table or view that a name in FROM means.
pub fn system_relation(parts: &[String]) -> Option<usize> {
    match parts {
        [name] => relation::place("pg_catalog", name),
        [schema, name] | [_, schema, name] => relation::place(schema, name),
        _ => None,
    }
}

/// What the catalog knows a user's table or view by.
pub fn users_name(parts: &[String]) -> Option<String> {
    match parts {
        [name] => Some(sql::names::key(sql::names::PUBLIC, name)),
        [schema, name] | [_, schema, name] => Some(sql::names::key(schema, name)),
        _ => None,
    }
}
