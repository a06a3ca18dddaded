//! FROM: which relations there are, and how they are joined.

use std::sync::Arc;

use identity::Privileges;
use procedure::{Expr, Query};
use sqlparser::ast::{self, Spanned};
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::plan::{Item, Source, Wishes, conjuncts, plan};
use super::row_functions::{each_input, gives_rows, needs, positional, side_by_side};
use super::scope::{ReadView, Scope, ScopeColumn};
use super::state::Place;
use super::with::returns_nothing;
use crate::schema::catalog::{Commented, Table, View};
use crate::syntax::names::{bare, fold, function_name, not_in_side, object_name, simple_name};

/// A bound FROM clause: names, relations, and the conditions of its inner joins.
#[derive(Default)]
pub(super) struct From {
    pub scope: Scope,
    pub items: Vec<Item>,
    pub conditions: Vec<Expr>,
    /// Relations in front that the clause itself does not see: the target of UPDATE or DELETE.
    pub hidden: usize,
}

impl From {
    pub fn add_table(&mut self, table: &Arc<Table>, name: &str) {
        let offset = self.scope.width();
        let width = table.schema.columns.len() as u16;
        self.scope.add_table(table, name);
        self.items.push(Item { source: Source::Table(table.clone()), offset, width, left: None });
    }

    /// What a condition or a function in the clause may refer to.
    pub fn in_sight(&self) -> Scope {
        let relations = self.scope.relations.iter().skip(self.hidden).cloned().collect();
        Scope { relations, merges_late: self.scope.merges_late }
    }
}

impl Binder<'_> {
    pub(super) fn bind_from(&mut self, from: &[ast::TableWithJoins]) -> Result<From> {
        let mut bound = From::default();
        self.bind_more(&mut bound, from)?;
        Ok(bound)
    }

    /// More relations behind those that are there.
    pub(super) fn bind_more(
        &mut self,
        bound: &mut From,
        from: &[ast::TableWithJoins],
    ) -> Result<()> {
        for table in from {
            let first = bound.items.len();
            self.relation(bound, &table.relation)?;
            for join in &table.joins {
                self.join(bound, join, first)?;
            }
        }
        Ok(())
    }

    fn join(&mut self, from: &mut From, join: &ast::Join, first: usize) -> Result<()> {
        use ast::JoinOperator as J;
        let left_width = from.scope.relations.len();
        match (&join.relation, &join.join_operator) {
            (_, J::Join(_) | J::Inner(_) | J::CrossJoin(_)) => {
                self.relation(from, &join.relation)?;
            }
            (ast::TableFactor::NestedJoin { table_with_joins, alias: None }, _) => {
                self.joined_apart(from, table_with_joins)?;
            }
            _ => self.relation(from, &join.relation)?,
        }
        let right = from.items.len() - 1;
        let (constraint, outer) = match &join.join_operator {
            J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (c, false),
            J::Left(c) | J::LeftOuter(c) => (c, true),
            J::Right(_) | J::RightOuter(_)
                if matches!(from.items[right].source, Source::Calls(_)) =>
            {
                let what = "invalid reference to a FROM-clause entry before RIGHT JOIN";
                return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, what).with_detail(
                    "The combining JOIN type must be INNER or LEFT for a LATERAL reference.",
                ));
            }
            J::Right(c) | J::RightOuter(c) if right == first + 1 => {
                // The other way round: numbers of columns stay, so nothing else notices.
                from.items.swap(first, right);
                (c, true)
            }
            J::Right(_) | J::RightOuter(_) => {
                return Err(Error::unsupported("RIGHT JOIN after another join")
                    .with_hint("Begin with that table and use LEFT JOIN."));
            }
            J::FullOuter(_) => return Err(Error::unsupported("FULL JOIN")),
            other => return Err(Error::unsupported(format_args!("{other:?}"))),
        };
        let on = self.join_condition(from, constraint, left_width)?;
        if let ast::JoinConstraint::Using(columns) = constraint {
            if matches!(join.join_operator, J::Right(_) | J::RightOuter(_)) {
                // The merged column would have to be the right one.
                return Err(Error::unsupported("RIGHT JOIN with USING")
                    .with_hint("Begin with that table and use LEFT JOIN."));
            }
            let shown = from.scope.relations.iter().skip(first).flat_map(|r| &r.columns);
            let mut shown = shown.filter(|column| !column.hidden).map(|column| &column.name);
            for column in columns {
                from.scope.merges_late |= shown.next() != Some(&simple_name(column)?);
            }
        }
        match outer {
            true => from.items[right].left = Some(on),
            false => from.conditions.extend(on),
        }
        Ok(())
    }

    /// A join in parentheses as one relation, for an outer join with it.
    fn joined_apart(&mut self, from: &mut From, joined: &ast::TableWithJoins) -> Result<()> {
        let inner = self.nested(|binder| binder.bind_from(std::slice::from_ref(joined)))?;
        let (offset, width) = (from.scope.width(), inner.scope.width());
        from.scope.merges_late |= inner.scope.merges_late;
        for mut relation in inner.scope.relations {
            check_alias(from, &relation.name)?;
            relation.offset += offset;
            from.scope.relations.push(relation);
        }
        let columns: Vec<u16> = (0..width).collect();
        let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
        let query = plan(inner.items, inner.conditions, &wishes)?.project(&columns);
        from.items.push(Item { source: Source::Query(query), offset, width, left: None });
        Ok(())
    }

    fn join_condition(
        &mut self,
        from: &mut From,
        constraint: &ast::JoinConstraint,
        left_relations: usize,
    ) -> Result<Vec<Expr>> {
        let mut on = Vec::new();
        match constraint {
            ast::JoinConstraint::None => {}
            ast::JoinConstraint::On(condition) => {
                let scope = from.in_sight();
                let bound = self.condition(&scope, condition, Place::JoinCondition, "JOIN/ON")?;
                conjuncts(bound, &mut on);
            }
            ast::JoinConstraint::Using(columns) => {
                for column in columns {
                    let name = simple_name(column)?;
                    on.push(self.using(from, &name, left_relations)?);
                }
            }
            ast::JoinConstraint::Natural => {
                return Err(Error::unsupported("NATURAL JOIN").with_hint("Use JOIN … USING (…)."));
            }
        }
        Ok(on)
    }

    /// `left.name = right.name`; the right one is hidden from then on.
    fn using(&mut self, from: &mut From, name: &str, left_relations: usize) -> Result<Expr> {
        let (left, right) = from.scope.relations.split_at(left_relations);
        let left = &left[from.hidden..];
        let [left, right] =
            [left, right].map(|side| Scope { relations: side.to_vec(), ..Scope::default() });
        let (left, left_type) = left.find(name)?.ok_or_else(|| not_in_side(name, "left"))?;
        let (right, right_type) = right.find(name)?.ok_or_else(|| not_in_side(name, "right"))?;
        self.reads(&from.scope, &left);
        self.reads(&from.scope, &right);
        for relation in &mut from.scope.relations[left_relations..] {
            let mut columns = relation.columns.iter_mut();
            if let Some(column) = columns.find(|c| c.name == name) {
                column.hidden = true;
            }
        }
        let equal = self.comparison(
            procedure::BinaryOp::Equal,
            Typed::new(left, left_type),
            Typed::new(right, right_type),
        )?;
        Ok(equal.expr)
    }

    fn relation(&mut self, from: &mut From, factor: &ast::TableFactor) -> Result<()> {
        use ast::TableFactor as F;
        match factor {
            F::Table { name, alias, args: None, with_hints, .. } if with_hints.is_empty() => {
                self.named_relation(from, name, alias.as_ref())
            }
            F::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let exprs = args.args.iter().map(positional).collect::<Result<Vec<_>>>()?;
                let name = function_name(name)?;
                self.table_function(from, (&name, *with_ordinality), &exprs, alias.as_ref())
            }
            F::Function { name, args, with_ordinality, alias, .. } => {
                let exprs = args.iter().map(positional).collect::<Result<Vec<_>>>()?;
                let name = function_name(name)?;
                self.table_function(from, (&name, *with_ordinality), &exprs, alias.as_ref())
            }
            F::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
                let exprs: Vec<&ast::Expr> = array_exprs.iter().collect();
                self.table_function(from, ("unnest", *with_ordinality), &exprs, alias.as_ref())
            }
            F::Derived { lateral: false, subquery, alias, .. } => {
                let bound = self.nested(|binder| binder.query(subquery))?;
                let columns = bound.columns.into_iter().map(|c| (c.name, c.data_type));
                let name = alias.as_ref().map_or("subquery".into(), |a| fold(&a.name));
                add_derived(from, &name, columns.collect(), alias.as_ref(), bound.query)
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
            F::NestedJoin { .. } => Err(Error::unsupported("a join in parentheses with an alias")),
            F::Derived { lateral: true, .. } => Err(Error::unsupported("LATERAL")),
            other => Err(Error::unsupported(format_args!("{other} in FROM"))),
        }
    }

    fn named_relation(
        &mut self,
        from: &mut From,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> Result<()> {
        let path = name;
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
            return add_derived(from, &shown, columns.collect(), alias, bound.query);
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
        let in_view = std::mem::replace(&mut self.in_view, true);
        let bound =
            self.within_view(view, |binder| binder.nested(|binder| binder.query(&view.query)));
        (self.ctes, self.source) = outside;
        self.in_view = in_view;
        let bound = bound?;
        let given = view.columns.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let columns = bound.columns.into_iter().zip(given);
        let columns = columns.map(|(c, given)| (given.unwrap_or(c.name), c.data_type));
        let columns: Vec<(String, DataType)> = columns.collect();
        let names = columns.iter().map(|(name, _)| name.clone()).collect();
        let read = ReadView { name: view.name.clone(), columns: names };
        add_derived(from, shown, columns, alias, bound.query)?;
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
        if !gives_rows(name) {
            return Err(self.no_table_function(name));
        }
        let scope = from.in_sight();
        let calls: Vec<Box<[&ast::Expr]>> = match name {
            // Several arrays are as many calls.
            "unnest" => arguments.iter().map(|array| [*array].into()).collect(),
            _ => vec![arguments.into()],
        };
        let (mut queries, mut types) = (Vec::new(), Vec::new());
        for call in &calls {
            let (query, data_type) = self.row_function(&scope, name, call)?;
            queries.push(query);
            types.push(data_type);
        }
        let shown = alias.map_or_else(|| name.to_owned(), |a| fold(&a.name));
        // The column of a single call is named as the relation is.
        let column = if types.len() == 1 { &shown } else { name };
        let mut columns: Vec<_> = types.into_iter().map(|t| (column.to_owned(), t)).collect();
        columns.extend(numbered.then(|| ("ordinality".to_owned(), DataType::Int8)));
        let calls = side_by_side(queries, numbered);
        let needed = needs(&calls);
        let mut draws = false;
        each_input(&mut calls.clone(), &mut |input| draws |= input.draws());
        if draws && !needed.is_empty() {
            return Err(Error::unsupported("drawing a value for each row in FROM"));
        }
        add_derived(from, &shown, columns, alias, calls)?;
        if let (false, Some(Item { source, .. })) = (needed.is_empty(), from.items.last_mut())
            && let Source::Query(calls) = source
        {
            *source = Source::Calls(std::mem::replace(calls, Query::Values(Box::default())));
        }
        Ok(())
    }

    fn no_table_function(&self, name: &str) -> Error {
        if self.catalog.routine(name).is_some() {
            return Error::unsupported(format_args!(
                "the stored function {name}() in a larger FROM clause"
            ))
            .with_hint(format!("Use it alone: SELECT * FROM {name}(…)."));
        }
        Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} in FROM does not exist"))
    }
}

fn check_alias(from: &From, name: &str) -> Result<()> {
    match from.scope.relation(name) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            SqlState(*b"42712"),
            format!("table name \"{name}\" specified more than once"),
        )),
    }
}

fn add_derived(
    from: &mut From,
    name: &str,
    columns: Vec<(String, DataType)>,
    alias: Option<&ast::TableAlias>,
    query: Query,
) -> Result<()> {
    check_alias(from, name)?;
    let offset = from.scope.width();
    let mut columns: Vec<ScopeColumn> = columns
        .into_iter()
        .map(|(name, data_type)| ScopeColumn { name, data_type, hidden: false })
        .collect();
    if let Some(alias) = alias {
        rename(&mut columns, alias)?;
    }
    let width = columns.len() as u16;
    from.scope.add(name, columns, None);
    from.items.push(Item { source: Source::Query(query), offset, width, left: None });
    Ok(())
}

/// `AS t(a, b)`.
fn rename(columns: &mut [ScopeColumn], alias: &ast::TableAlias) -> Result<()> {
    let mut visible = columns.iter_mut().filter(|c| !c.hidden);
    for column in &alias.columns {
        match visible.next() {
            Some(renamed) => renamed.name = fold(&column.name),
            None => {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("table \"{}\" has fewer columns than its alias names", alias.name),
                ));
            }
        }
    }
    Ok(())
}
