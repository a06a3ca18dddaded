//! Binds a FROM clause: its relations (tables, views, subqueries, functions, VALUES).

use std::sync::Arc;

use identity::Privileges;
use procedure::query::RowFunction;
use procedure::step::OnError;
use procedure::{Column, Expr, JsonRows, Query, Step};
use sqlparser::ast::{self, Spanned};
use types::{DataType, Error, Result, SqlState};

use super::applied::Subquery;
use super::binder::Binder;
use super::items::{Item, Source};
use super::joins::{First, may_leave_out_before};
use super::relations::{From, add_derived, check_alias, rename};
use super::row_calls::{each_input, needs, side_by_side};
use super::row_functions::{IN_FROM, gives_rows, json_rows};
use super::scope::{ReadView, Scope};
use super::state::{Applied, Gives};
use crate::schema::catalog::{Commented, View};
use crate::syntax::exprs::positional;
use crate::syntax::names::{bare, fold, object_name};

impl Binder<'_> {
    pub(super) fn bind_from(&mut self, from: &[ast::TableWithJoins]) -> Result<From> {
        let mut bound = From::default();
        self.bind_more(&mut bound, from)?;
        Ok(bound)
    }

    /// More relations after those that are there.
    pub(super) fn bind_more(
        &mut self,
        bound: &mut From,
        from: &[ast::TableWithJoins],
    ) -> Result<()> {
        for table in from {
            let first = First {
                item: bound.items.len(),
                relation: bound.scope.relations.len(),
                condition: bound.conditions.len(),
            };
            self.relation(bound, &table.relation)?;
            if may_leave_out_before(&table.joins) && !self.reads_itself {
                bound.mark_presence(first.relation);
            }
            for (place, join) in table.joins.iter().enumerate() {
                self.join(bound, (join, &table.joins[place + 1..]), first)?;
            }
        }
        Ok(())
    }

    pub(super) fn relation(&mut self, from: &mut From, factor: &ast::TableFactor) -> Result<()> {
        use ast::TableFactor as F;
        match factor {
            F::Table { name, alias, args: None, with_hints, .. } if with_hints.is_empty() => {
                self.named_relation(from, name, alias.as_ref())
            }
            F::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let exprs = args.args.iter().map(positional).collect::<Result<Vec<_>>>()?;
                let name = self.called_name(name)?;
                self.table_function(from, (&name, *with_ordinality), &exprs, alias.as_ref())
            }
            F::Function { name, args, with_ordinality, alias, .. } => {
                let exprs = args.iter().map(positional).collect::<Result<Vec<_>>>()?;
                let name = self.called_name(name)?;
                self.table_function(from, (&name, *with_ordinality), &exprs, alias.as_ref())
            }
            F::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                let exprs: Vec<&ast::Expr> = array_exprs.iter().collect();
                self.table_function(from, ("unnest", *with_ordinality), &exprs, alias.as_ref())
            }
            F::Derived { lateral: true, subquery, alias, .. } => {
                self.lateral(from, subquery, alias.as_ref())
            }
            F::Derived { lateral: false, subquery, alias, .. } => {
                let bound = self.nested(|binder| binder.query(subquery))?;
                let columns = bound.columns.into_iter().map(|c| (c.name, c.data_type));
                let name = alias.as_ref().map_or("subquery".into(), |a| fold(&a.name));
                add_derived(from, &name, columns.collect(), alias.as_ref(), bound.query)?;
                from.collate(bound.collated);
                Ok(())
            }
            // Inner joins around it leave its rows what they are, so it may stand among them.
            F::NestedJoin { table_with_joins, alias: None } => {
                let hidden = std::mem::replace(&mut from.hidden, from.scope.relations.len());
                let joined = self.nested(|binder| {
                    binder.bind_more(from, std::slice::from_ref(&**table_with_joins))
                });
                from.hidden = hidden;
                joined
            }
            F::NestedJoin { table_with_joins, alias: Some(alias) } => {
                self.named_join(from, table_with_joins, alias)
            }
            other => Err(Error::unsupported(format_args!("{other} in FROM"))),
        }
    }

    /// A subquery that sees the relations before it.
    pub(super) fn lateral(
        &mut self,
        from: &mut From,
        query: &ast::Query,
        alias: Option<&ast::TableAlias>,
    ) -> Result<()> {
        let scope = from.in_sight();
        let Subquery { bound, given } =
            self.nested(|binder| binder.subquery(&scope, query, true))?;
        let columns = bound.columns.into_iter().map(|c| (c.name, c.data_type));
        let name = alias.map_or("subquery".into(), |a| fold(&a.name));
        add_derived(from, &name, columns.collect(), alias, bound.query)?;
        from.collate(bound.collated);
        if let (Some(given), Some(Item { source, .. })) = (given, from.items.last_mut())
            && !given.is_empty()
            && let Source::Query(query) = source
        {
            let query = std::mem::replace(query, Query::Values(Box::default()));
            let applied = Applied { query, given, guard: None, gives: Gives::Rows };
            *source = Source::Applied(Box::new(applied));
        }
        Ok(())
    }

    fn named_relation(
        &mut self,
        from: &mut From,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> Result<()> {
        let path = name;
        if let Some(relation) = self.system_relation(path) {
            let shown = alias.map_or_else(|| last_name(path), |alias| fold(&alias.name));
            check_alias(from, &shown)?;
            from.add_system(relation, &shown, alias.is_some());
            return match (alias, from.scope.relations.last_mut()) {
                (Some(alias), Some(relation)) => rename(&mut relation.columns, alias),
                _ => Ok(()),
            };
        }
        let name = object_name(path).map_err(|error| self.at(path.span(), error))?;
        let shown = alias.map_or_else(|| bare(&name).to_owned(), |a| fold(&a.name));
        let common = match path.0.len() {
            1 => self.common_table(bare(&name))?,
            _ => None,
        };
        if let Some(bound) = common {
            if bound.columns.is_empty() {
                return Err(returns_nothing(&name));
            }
            let columns = bound.columns.into_iter().map(|c| (c.name, c.data_type));
            add_derived(from, &shown, columns.collect(), alias, bound.query)?;
            from.collate(bound.collated);
            return Ok(());
        }
        if let Some(view) = self.catalog.view(&name).cloned() {
            self.check_usage(&name)?;
            return self.view(from, &view, &shown, alias);
        }
        if let Some(sequence) = self.catalog.find_sequence(&name).cloned() {
            self.check_usage(&name)?;
            self.needs(&Commented::Sequence(sequence.id), Privileges::SELECT);
            let (columns, query) = sequence.shown();
            return add_derived(from, &shown, columns, alias, query);
        }
        let table = self.table(path)?;
        // What reads it can be defined, and fails when it is run.
        if let Err(error) = table.check_populated() {
            self.steps.push(Step::Raise { error: OnError::from(error) });
        }
        check_alias(from, &shown)?;
        self.needs_some(&table, Privileges::SELECT);
        from.add_table(&table, &shown);
        if let (Some(alias), Some(relation)) = (alias, from.scope.relations.last_mut()) {
            rename(&mut relation.columns, alias)?;
        }
        Ok(())
    }

    /// Names that WITH gives outside of a view mean nothing in it.
    fn view(
        &mut self,
        from: &mut From,
        view: &View,
        shown: &str,
        alias: Option<&ast::TableAlias>,
    ) -> Result<()> {
        self.view_uses.add_one()?;
        self.add_text(view.text.len());
        let outside = (std::mem::take(&mut self.ctes), self.source.take());
        let enclosing = std::mem::take(&mut self.enclosing);
        let in_view = std::mem::replace(&mut self.in_view, true);
        let query = view.query_over(self.catalog);
        let bound = self.within_view(view, |binder| binder.nested(|binder| binder.query(&query)));
        (self.ctes, self.source) = outside;
        self.enclosing = enclosing;
        self.in_view = in_view;
        let bound = bound?;
        let given = view.columns.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let columns = bound.columns.into_iter().zip(given);
        let columns = columns.map(|(c, given)| (given.unwrap_or(c.name), c.data_type));
        let columns: Vec<(String, DataType)> = columns.collect();
        let names = columns.iter().map(|(name, _)| name.clone()).collect();
        let read = ReadView { name: view.name.clone(), columns: names };
        add_derived(from, shown, columns, alias, bound.query)?;
        from.collate(bound.collated);
        if let Some(relation) = from.scope.relations.last_mut() {
            relation.view = Some(Arc::new(read));
        }
        Ok(())
    }

    fn table_function(
        &mut self,
        from: &mut From,
        (name, numbered): (&str, bool),
        arguments: &[&ast::Expr],
        alias: Option<&ast::TableAlias>,
    ) -> Result<()> {
        let scope = from.in_sight();
        if let Some((calls, columns)) = self.rows_of_system(&scope, name, arguments)? {
            let shown = alias.map_or_else(|| name.to_owned(), |a| fold(&a.name));
            let mut columns: Vec<_> = columns.into_iter().map(|c| (c.name, c.data_type)).collect();
            if let [(name, _)] = columns.as_mut_slice() {
                name.clone_from(&shown);
            }
            columns.extend(numbered.then(|| ("ordinality".to_owned(), DataType::Int8)));
            return add_calls(from, (&shown, alias), columns, side_by_side(vec![calls], numbered));
        }
        if !gives_rows(name) {
            return Err(self.no_table_function(name));
        }
        let shown = alias.map_or_else(|| name.to_owned(), |a| fold(&a.name));
        if let Some(of) = json_rows(name) {
            return self.json_table(from, (name, of, numbered), arguments, (&shown, alias));
        }
        let calls: Vec<Box<[&ast::Expr]>> = match name {
            // Several arrays are as many calls.
            "unnest" => arguments.iter().map(|array| [*array].into()).collect(),
            _ => vec![arguments.into()],
        };
        let (mut queries, mut types) = (Vec::new(), Vec::new());
        for call in &calls {
            let bind = |binder: &mut Self| binder.row_function(&scope, name, call);
            let (query, data_type) = self.within(IN_FROM, bind)?;
            queries.push(query);
            types.push(data_type);
        }
        // The column of a single call is named as the relation is.
        let column = if types.len() == 1 { &shown } else { name };
        let mut columns: Vec<_> = types.into_iter().map(|t| (column.to_owned(), t)).collect();
        columns.extend(numbered.then(|| ("ordinality".to_owned(), DataType::Int8)));
        add_calls(from, (&shown, alias), columns, side_by_side(queries, numbered))
    }

    /// Parts of JSON, whose columns have names of their own.
    fn json_table(
        &mut self,
        from: &mut From,
        (name, of, numbered): (&str, JsonRows, bool),
        arguments: &[&ast::Expr],
        (shown, alias): (&str, Option<&ast::TableAlias>),
    ) -> Result<()> {
        let scope = from.in_sight();
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(self.expression(&scope, argument)?);
        }
        let (calls, columns) = self.rows_of_json(name, of, bound)?;
        let (calls, columns) = match of {
            JsonRows::Record | JsonRows::Records => self.json_records(calls, &columns, alias)?,
            _ => (calls, columns),
        };
        let mut columns: Vec<_> = columns.into_iter().map(|c| (c.name, c.data_type)).collect();
        if let (JsonRows::Keys, [(column, _)]) = (of, columns.as_mut_slice()) {
            shown.clone_into(column);
        }
        columns.extend(numbered.then(|| ("ordinality".to_owned(), DataType::Int8)));
        add_calls(from, (shown, alias), columns, side_by_side(vec![calls], numbered))
    }

    /// A function of system catalogs, be it of one row.
    fn rows_of_system(
        &mut self,
        scope: &Scope,
        name: &str,
        arguments: &[&ast::Expr],
    ) -> Result<Option<(Query, Vec<Column>)>> {
        let Some(system) = self.system else { return Ok(None) };
        let gives_rows_elsewhere = gives_rows(name);
        if gives_rows_elsewhere && !system.gives_rows(name) {
            return Ok(None);
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(self.within(IN_FROM, |binder| binder.expression(scope, argument))?);
        }
        let types: Vec<DataType> = bound.iter().map(|b| b.data_type.clone()).collect();
        if gives_rows_elsewhere && !system.is_own(name, &types) {
            return Ok(None);
        }
        if let Some(rows) = self.system_rows(name, &bound, false)? {
            return Ok(Some(rows));
        }
        // A function of one value is a table of one row.
        let typed = self.call_by_name(name, bound)?;
        let typed = self.resolved(typed)?;
        let inputs = [Expr::Array([typed.expr].into())].into();
        let call = Query::Call { function: RowFunction::Elements, inputs };
        Ok(Some((call, vec![Column { name: name.to_owned(), data_type: typed.data_type }])))
    }

    fn no_table_function(&self, name: &str) -> Error {
        if self.catalog.routine(name).is_some() {
            return Error::unsupported(format_args!(
                "the stored function {name}() in a larger FROM clause"
            ))
            .with_hint(format!("Use it alone: SELECT * FROM {name}(…)."));
        }
        let unknown = || {
            let what = format!("function {name} in FROM does not exist");
            Error::new(SqlState::UNDEFINED_FUNCTION, what)
        };
        super::refused::within_others(name).unwrap_or_else(unknown)
    }
}

fn returns_nothing(name: &str) -> Error {
    let what = format!("WITH query \"{name}\" does not have a RETURNING clause");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}

fn last_name(name: &ast::ObjectName) -> String {
    match name.0.last() {
        Some(ast::ObjectNamePart::Identifier(ident)) => fold(ident),
        _ => name.to_string(),
    }
}

/// A call that is made once, or for each row of those before it.
fn add_calls(
    from: &mut From,
    (shown, alias): (&str, Option<&ast::TableAlias>),
    columns: Vec<(String, DataType)>,
    calls: Query,
) -> Result<()> {
    let (is_alone, is_scalar) = (needs(&calls).is_empty(), columns.len() == 1);
    let mut draws = false;
    each_input(&mut calls.clone(), &mut |input| draws |= input.draws());
    if draws && !is_alone {
        return Err(Error::unsupported("drawing a value for each row in FROM"));
    }
    add_derived(from, shown, columns, alias, calls)?;
    if let Some(relation) = from.scope.relations.last_mut() {
        relation.is_scalar = is_scalar;
    }
    if let (false, Some(Item { source, .. })) = (is_alone, from.items.last_mut())
        && let Source::Query(calls) = source
    {
        *source = Source::Calls(std::mem::replace(calls, Query::Values(Box::default())));
    }
    Ok(())
}
