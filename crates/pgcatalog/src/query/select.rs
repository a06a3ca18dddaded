//! SELECT: its FROM, its conditions, what it computes.

use std::sync::LazyLock;

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, SystemType};

use super::bind::{Binder, direction, output_named, rename, settled};
use super::plan::*;
use super::scope::{Scope, ScopeColumn, ScopeTable, parts};
use super::sets;
use crate::relation;
use sql::catalog::View;
use sql::names::fold;

impl Binder<'_> {
    pub fn select(&mut self, select: &ast::Select, order: &[ast::OrderByExpr]) -> Result<Query> {
        self.scopes.push(Scope::default());
        let bound = self.select_in_scope(select, order);
        self.scopes.pop();
        bound
    }

    pub fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn select_in_scope(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Query> {
        let (mut items, mut conditions) = (Vec::new(), Vec::new());
        for from in &select.from {
            match self.joined(from)? {
                Source::Product { items: joined, on } => {
                    items.extend(joined);
                    conditions.extend(on);
                }
                source => items.push(source),
            }
        }
        if let Some(selection) = &select.selection {
            split(self.bind_as(selection, &DataType::Bool)?, &mut conditions);
        }
        let (mut columns, mut outputs) = (Vec::new(), Vec::new());
        for item in &select.projection {
            self.select_item(item, &mut columns, &mut outputs)?;
        }
        let keys = self.group_by(&select.group_by, &columns, &outputs)?;
        let having = select.having.as_ref();
        let having = having.map(|having| self.bind_as(having, &DataType::Bool)).transpose()?;
        let width =
            self.scope().tables.last().map_or(0, |table| table.offset + table.columns.len());
        let order = self.order_by(order, &columns, &mut outputs)?;
        let distinct = self.distinct(select.distinct.as_ref(), &columns, &mut outputs)?;
        let scope = std::mem::take(self.scope());
        let grouped = !keys.is_empty() || having.is_some() || !scope.aggregates.is_empty();
        if grouped && !self.tables.is_empty() {
            let shown = outputs.iter().chain(&having);
            shown.into_iter().try_for_each(|expr| check_grouped(expr, &keys, &scope, width))?;
        }
        let grouping = grouped.then_some(Grouping { keys, aggregates: scope.aggregates, having });
        let select = Select {
            width: scope.width,
            source: Source::Product { items, on: conditions },
            grouping,
            windows: scope.windows,
            sets: scope.sets,
            outputs,
            distinct,
        };
        let body = Body::Select(Box::new(select));
        Ok(Query { columns, ctes: Vec::new(), body, order, limit: None, offset: None })
    }

    fn select_item(
        &mut self,
        item: &ast::SelectItem,
        columns: &mut Vec<Column>,
        outputs: &mut Vec<Expr>,
    ) -> Result<()> {
        use ast::SelectItemQualifiedWildcardKind::{Expr as OfExpr, ObjectName};
        let stars = match item {
            ast::SelectItem::Wildcard(_) => self.scope().star(None),
            ast::SelectItem::QualifiedWildcard(ObjectName(name), _) => {
                let qualifier = parts(name);
                if self.scope().table(&qualifier).is_none() {
                    return Err(missing_table(&qualifier.join(".")));
                }
                self.scope().star(Some(&qualifier))
            }
            ast::SelectItem::QualifiedWildcard(OfExpr(expr), _) => {
                let input = self.expr(expr)?;
                for (place, (name, data_type)) in input.fields.iter().enumerate() {
                    columns.push(Column::new(*name, data_type.clone()));
                    outputs.push(Expr::Field { input: Box::new(input.expr.clone()), place });
                }
                return Ok(());
            }
            ast::SelectItem::UnnamedExpr(expr) => {
                return self.output(expr, None, columns, outputs);
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                return self.output(expr, Some(fold(alias)), columns, outputs);
            }
            ast::SelectItem::ExprWithAliases { .. } => return Err(Error::unsupported(item)),
        };
        for (place, column) in stars {
            outputs.push(Expr::Column { level: 0, place });
            columns.push(column);
        }
        Ok(())
    }

    fn output(
        &mut self,
        expr: &ast::Expr,
        name: Option<String>,
        columns: &mut Vec<Column>,
        outputs: &mut Vec<Expr>,
    ) -> Result<()> {
        let typed = self.expr(expr)?;
        let name = name.unwrap_or_else(|| super::expression::output_name(expr));
        let (fields, to) = (typed.fields, settled(&typed.data_type));
        outputs.push(self.coerce(typed, &to)?);
        columns.push(Column { name, data_type: to, fields });
        Ok(())
    }

    fn group_by(
        &mut self,
        group_by: &ast::GroupByExpr,
        columns: &[Column],
        outputs: &[Expr],
    ) -> Result<Vec<Expr>> {
        let ast::GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(Error::unsupported(group_by));
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported(group_by));
        }
        let mut keys = Vec::new();
        for expr in exprs {
            // An input column comes before an output of that name.
            let input = match expr {
                ast::Expr::Identifier(name) => self.column_in_scope(&fold(name))?,
                _ => false,
            };
            match output_named(expr, columns).filter(|_| !input) {
                Some(output) => keys.push(outputs[output].clone()),
                None => keys.push(self.expr(expr)?.expr),
            }
        }
        Ok(keys)
    }

    fn column_in_scope(&mut self, name: &str) -> Result<bool> {
        Ok(self.scope().find(&[], name)?.is_some())
    }

    fn order_by(
        &mut self,
        order: &[ast::OrderByExpr],
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<Vec<Order>> {
        let mut bound = Vec::new();
        for by in order {
            let output = self.sorted_output(&by.expr, columns, outputs)?;
            bound.push(Order { output, direction: direction(by) });
        }
        Ok(bound)
    }

    /// The output that has what is sorted by; a hidden one if need be.
    fn sorted_output(
        &mut self,
        expr: &ast::Expr,
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<usize> {
        if let Some(output) = output_named(expr, columns) {
            return Ok(output);
        }
        let typed = self.expr(expr)?;
        // Names of objects are sorted as numbers, as PostgreSQL does.
        outputs.push(typed.expr);
        Ok(outputs.len() - 1)
    }

    fn distinct(
        &mut self,
        distinct: Option<&ast::Distinct>,
        columns: &[Column],
        outputs: &mut Vec<Expr>,
    ) -> Result<Distinct> {
        Ok(match distinct {
            None | Some(ast::Distinct::All) => Distinct::All,
            Some(ast::Distinct::Distinct) => Distinct::Rows,
            Some(ast::Distinct::On(exprs)) => {
                let bind = |expr| self.sorted_output(expr, columns, outputs);
                Distinct::On(exprs.iter().map(bind).collect::<Result<_>>()?)
            }
        })
    }

    /// A table and what is joined to it.
    fn joined(&mut self, from: &ast::TableWithJoins) -> Result<Source> {
        let first = self.scope().tables.len();
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
            let second = self.scope().tables.len();
            let right = self.factor(&join.relation)?;
            let mut on = Vec::new();
            self.constraint(constraint, first, second, &mut on)?;
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

    fn constraint(
        &mut self,
        constraint: &ast::JoinConstraint,
        first: usize,
        second: usize,
        on: &mut Vec<Expr>,
    ) -> Result<()> {
        let names: Vec<String> = match constraint {
            ast::JoinConstraint::None => return Ok(()),
            ast::JoinConstraint::On(expr) => {
                split(self.bind_as(expr, &DataType::Bool)?, on);
                return Ok(());
            }
            ast::JoinConstraint::Using(names) => {
                names.iter().filter_map(|name| parts(name).pop()).collect()
            }
            ast::JoinConstraint::Natural => {
                let tables = &self.scope().tables;
                let visible = |tables: &[ScopeTable]| -> Vec<String> {
                    let columns = tables.iter().flat_map(|table| &table.columns);
                    let columns = columns.filter(|column| !column.hidden && !column.merged);
                    columns.map(|column| column.column.name.clone()).collect()
                };
                let left = visible(&tables[first..second]);
                let right = visible(&tables[second..]);
                left.into_iter().filter(|name| right.contains(name)).collect()
            }
        };
        for name in names {
            let mut found = [None, None];
            for (place, table) in self.scope().tables[first..].iter_mut().enumerate() {
                let side = usize::from(first + place >= second);
                let column = table.columns.iter_mut().enumerate();
                let mut column = column.filter(|(_, c)| c.column.name == name && !c.merged);
                if let Some((at, column)) = column.next() {
                    column.merged |= side == 1;
                    found[side] = found[side].or(Some(table.offset + at));
                }
            }
            let [Some(left), Some(right)] = found else {
                return Err(missing_column(&name));
            };
            let column = |place| Expr::Column { level: 0, place };
            let sides = Box::new([column(left), column(right)]);
            on.push(Expr::Compare { op: CompareOp::Equal, sides });
        }
        Ok(())
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
                    rename(&mut query.columns, alias);
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
        let (mut columns, kind, mut schema) = match self.ctes.iter().rev().find(cte) {
            Some((_, number, columns)) => (columns.clone(), LeafKind::Cte(*number), None),
            None if system_relation(&parts).is_none() => {
                return self.users_relation(&parts, alias);
            }
            None => {
                let place = system_relation(&parts);
                let place = place.ok_or_else(|| missing_table(&parts.join(".")))?;
                let relation = &relation::all()[place];
                let columns = relation.columns.iter();
                let columns = columns.map(|c| Column::new(c.name, c.data_type.clone())).collect();
                (columns, LeafKind::Relation(place), Some(relation.schema.to_owned()))
            }
        };
        let mut called = parts.last().cloned().unwrap_or_default();
        if let Some(alias) = alias {
            rename(&mut columns, alias);
            called = fold(&alias.name);
            schema = None;
        }
        let hidden: &[Column] = match kind {
            LeafKind::Relation(_) => &*SYSTEM_COLUMNS,
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
        let name = users_name(parts).ok_or_else(|| missing_table(&parts.join(".")))?;
        let called = alias.map_or_else(|| name.to_owned(), |alias| fold(&alias.name));
        let schema = alias.is_none().then(|| "public".to_owned());
        let renamed = |mut columns: Vec<Column>| {
            alias.into_iter().for_each(|alias| rename(&mut columns, alias));
            columns
        };
        if let Some(view) = world.catalog.view(name) {
            let query = self.view(view)?;
            let columns = renamed(query.columns.clone());
            return Ok(self.leaf(schema, called, columns, LeafKind::Query(Box::new(query)), 0));
        }
        let table = world.catalog.find_table(name).ok_or_else(|| missing_table(name))?;
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
        let leaf = self.leaf(schema, called, renamed(columns), kind, 0);
        self.has_key(key.unwrap_or_default());
        Ok(leaf)
    }

    /// A view is its query, which sees no name of the query around it.
    fn view(&mut self, view: &View) -> Result<Query> {
        self.view_uses.add_one()?;
        let scopes = std::mem::take(&mut self.scopes);
        let ctes = std::mem::take(&mut self.ctes);
        let reach = std::mem::replace(&mut self.reach, usize::MAX);
        let bound = self.query(&view.query);
        (self.scopes, self.ctes, self.reach) = (scopes, ctes, reach);
        let mut bound = bound?;
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
        arguments: Vec<super::Typed>,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Source> {
        let typed = self.call(name, arguments)?;
        let array = super::Typed {
            data_type: DataType::Array(Box::new(typed.data_type)),
            expr: Expr::Array(vec![typed.expr]),
            fields: &[],
        };
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
            rename(&mut columns, alias);
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
        let scope = self.scope();
        let (offset, width) = (scope.width, columns.len());
        let visible = width - hidden;
        let columns = columns.into_iter().enumerate();
        let columns = columns.map(|(place, column)| ScopeColumn {
            column,
            merged: false,
            hidden: place >= visible,
        });
        let columns = columns.collect();
        scope.tables.push(ScopeTable { schema, name, offset, columns, key: Vec::new() });
        scope.width += width;
        Source::Leaf(Leaf { offset, width, kind })
    }
}

/// # Errors
/// 42803 for a column that is neither grouped by nor of a table whose key is.
fn check_grouped(expr: &Expr, keys: &[Expr], scope: &Scope, width: usize) -> Result<()> {
    let is_key = |place: usize| {
        let is_it =
            |key: &Expr| matches!(key, Expr::Column { level: 0, place: of } if *of == place);
        keys.iter().any(is_it)
    };
    let ungrouped = |place: usize| {
        let of = |table: &&ScopeTable| {
            (table.offset..table.offset + table.columns.len()).contains(&place)
        };
        let table = scope.tables.iter().find(of).filter(|_| place < width && !is_key(place))?;
        let is_known = !table.key.is_empty() && table.key.iter().all(|place| is_key(*place));
        (!is_known).then(|| {
            let column = &table.columns[place - table.offset].column.name;
            Error::new(
                SqlState(*b"42803"),
                format!(
                    "column \"{}.{column}\" must appear in the GROUP BY clause or be used in an \
                     aggregate function",
                    table.name
                ),
            )
        })
    };
    // Expressions of one text are the same.
    let text = format!("{expr:?}");
    if keys.iter().any(|key| format!("{key:?}") == text) {
        return Ok(());
    }
    match expr {
        Expr::Column { level: 0, place } => ungrouped(*place).map_or(Ok(()), Err),
        Expr::Subquery { query, .. } => {
            let mut first = None;
            query.columns(1, &mut |place| first = first.take().or_else(|| ungrouped(place)));
            first.map_or(Ok(()), Err)
        }
        expr => {
            let mut children = expr.children().into_iter();
            children.try_for_each(|child| check_grouped(child, keys, scope, width))
        }
    }
}

/// What every table has, and `*` leaves out.
pub static SYSTEM_COLUMNS: LazyLock<[Column; 2]> = LazyLock::new(|| {
    let column = |name, system| Column::new(name, DataType::System(system));
    [column("tableoid", SystemType::Oid), column("xmin", SystemType::Xid)]
});

/// The system table or view that a name in FROM means.
pub fn system_relation(parts: &[String]) -> Option<usize> {
    match parts {
        [name] => relation::place("pg_catalog", name),
        [schema, name] | [_, schema, name] => relation::place(schema, name),
        _ => None,
    }
}

/// The name of a user's table or view, without what may stand before it.
pub fn users_name(parts: &[String]) -> Option<&str> {
    match parts {
        [name] => Some(name),
        [schema, name] | [_, schema, name] if schema == "public" => Some(name),
        _ => None,
    }
}

/// The conditions whose conjunction it is.
pub fn split(condition: Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::And(list) => list.into_iter().for_each(|part| split(part, into)),
        other => into.push(other),
    }
}

fn missing_table(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

pub fn missing_column(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}
