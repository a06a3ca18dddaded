//! How the relations of a FROM clause are joined.
//!
//! Inner joins add conditions, and the planner is free in their order. What stands before RIGHT and
//! FULL becomes one relation. The condition of a LEFT JOIN with a subquery in it that refers to the
//! row at hand is looked at row by row, as that of a lateral subquery.

use std::fmt;

use procedure::Expr;
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::items::{Item, Source};
use super::placeholders::has_applied;
use super::plan::{Wishes, conjuncts, plan};
use super::relations::{From, add_derived, check_alias};
use super::scope::{Relation, Scope, ScopeColumn, find_in};
use super::shape::projected;
use super::state::Place;
use crate::syntax::names::{fold, not_in_side, simple_name, twice_in_side};

/// Relations in which a name is looked for while an expression is bound.
const RELATIONS_PER_EXPRESSION: usize = 8;

/// Where the relations of one item of the list in FROM begin.
#[derive(Clone, Copy)]
pub(super) struct First {
    pub item: usize,
    pub relation: usize,
    pub condition: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Inner => "INNER",
            Kind::Left => "LEFT",
            Kind::Right => "RIGHT",
            Kind::Full => "FULL",
        })
    }
}

/// The relations from `first` on as one, whose columns keep their numbers.
fn joined_so_far(from: &mut From, first: First) -> Result<()> {
    let items = from.items.split_off(first.item);
    let conditions = from.conditions.split_off(first.condition);
    let begin = items.iter().map(|item| item.offset).min().unwrap_or_default();
    let end = items.iter().map(|item| item.offset + item.width).max().unwrap_or_default();
    let is_within = |column: u16| (begin..end).contains(&column);
    let needed = items.iter().flat_map(Item::needs);
    let mut needed = needed.chain(conditions.iter().flat_map(Expr::columns));
    if !needed.all(is_within) {
        let what = "a join that reads relations outside of it, on the left of RIGHT or FULL JOIN";
        return Err(Error::unsupported(what));
    }
    if items.len() == 1 && conditions.is_empty() {
        from.items.extend(items);
        return Ok(());
    }
    let columns: Vec<u16> = (begin..end).collect();
    let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
    let query = plan(items, conditions, &wishes)?.project(&columns);
    from.items.push(Item::new(Source::Query(query), begin, end - begin));
    Ok(())
}

/// Puts the relation that was added last, numbered `right` among the items, into its join.
fn joined(
    from: &mut From,
    (kind, on): (Kind, Vec<Expr>),
    (first, left_width, right): (First, usize, usize),
) -> Result<()> {
    if kind != Kind::Inner && on.iter().any(has_applied) {
        let what = "a subquery that refers to the outer query, in the condition of an outer join";
        return Err(Error::unsupported(what));
    }
    let relations = &mut from.scope.relations;
    let (lefts, rights) = relations.split_at_mut(left_width);
    if matches!(kind, Kind::Left | Kind::Full) {
        rights.iter_mut().for_each(|relation| relation.may_be_absent = true);
    }
    if matches!(kind, Kind::Right | Kind::Full) {
        lefts[first.relation..].iter_mut().for_each(|relation| relation.may_be_absent = true);
    }
    match kind {
        Kind::Inner => from.conditions.extend(on),
        Kind::Left => from.items[right].left = Some(on),
        Kind::Right => {
            // The other way round: numbers of columns stay, so nothing else notices.
            from.items.swap(first.item, right);
            from.items[right].left = Some(on);
        }
        Kind::Full => {
            from.items[right].left = Some(on);
            from.items[right].full = true;
            joined_so_far(from, first)?;
        }
    }
    Ok(())
}

fn subquery_in_parentheses() -> Error {
    Error::unsupported("a subquery that refers to the outer query, in a join in parentheses")
}

/// The column of that name that one side of a join shows.
fn merged_away(scope: &Scope, side: Side, name: &str) -> Result<Typed> {
    let (relations, word) = side;
    let found =
        find_in(&scope.relations[relations], name).map_err(|_| twice_in_side(name, word))?;
    let (expr, data_type) = found.ok_or_else(|| not_in_side(name, word))?;
    let collated = scope.collated(&expr);
    Ok(Typed { collated, ..Typed::new(expr, data_type) })
}

/// Relations of a scope that stand on one side of a join, and what that is called.
type Side = (std::ops::Range<usize>, &'static str);

/// The column of that name that is shown.
fn visible<'r>(relations: &'r mut [Relation], name: &str) -> Option<(u16, &'r mut ScopeColumn)> {
    relations.iter_mut().find_map(|relation| {
        let offset = relation.offset;
        let mut columns = relation.columns.iter_mut().enumerate();
        let (i, column) = columns.find(|(_, column)| !column.hidden && column.name == name)?;
        Some((offset + i as u16, column))
    })
}

/// Whether one of these joins may leave out what stands before it.
pub(super) fn may_leave_out_before(joins: &[ast::Join]) -> bool {
    use ast::JoinOperator as J;
    let may = |join: &ast::Join| {
        matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_))
    };
    joins.iter().any(may)
}

/// What a relation of FROM is called, if it is one alone.
fn name_of(factor: &ast::TableFactor) -> Option<ast::Ident> {
    use ast::TableFactor as F;
    match factor {
        F::Table { alias: Some(alias), .. } | F::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        F::Table { name, alias: None, .. } => match name.0.last() {
            Some(ast::ObjectNamePart::Identifier(name)) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    pub(super) fn join(
        &mut self,
        from: &mut From,
        (join, behind): (&ast::Join, &[ast::Join]),
        first: First,
    ) -> Result<()> {
        use ast::JoinOperator as J;
        let (constraint, kind) = match &join.join_operator {
            J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (c, Kind::Inner),
            J::Left(c) | J::LeftOuter(c) => (c, Kind::Left),
            J::Right(c) | J::RightOuter(c) => (c, Kind::Right),
            J::FullOuter(c) => (c, Kind::Full),
            other => return Err(Error::unsupported(format_args!("{other:?}"))),
        };
        if matches!(kind, Kind::Right | Kind::Full) {
            joined_so_far(from, first)?;
        }
        let left_width = from.scope.relations.len();
        let before = (from.items.len(), self.count_applied(), self.steps.len());
        match (&join.relation, kind) {
            (ast::TableFactor::NestedJoin { table_with_joins, alias: None }, kind)
                if kind != Kind::Inner =>
            {
                self.joined_apart(from, table_with_joins)?;
            }
            _ => self.relation(from, &join.relation)?,
        }
        let right = from.items.len() - 1;
        let may_be_absent = matches!(kind, Kind::Left | Kind::Full);
        if (may_be_absent || may_leave_out_before(behind)) && !self.reads_itself {
            from.mark_presence(left_width);
        }
        if matches!(kind, Kind::Right | Kind::Full) && !from.items[right].needs().is_empty() {
            let what = format!("invalid reference to a FROM-clause entry before {kind} JOIN");
            return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, what).with_detail(
                "The combining JOIN type must be INNER or LEFT for a LATERAL reference.",
            ));
        }
        let on = self.join_conditions(from, constraint, kind, (first.relation, left_width))?;
        if let (Kind::Left, true, ast::JoinConstraint::On(condition)) =
            (kind, on.iter().any(has_applied), constraint)
            && let Some(alias) = name_of(&join.relation)
        {
            let (items, applied, steps) = before;
            from.items.truncate(items);
            from.scope.relations.truncate(left_width);
            self.forget_applied(applied);
            self.steps.truncate(steps);
            return self.joined_row_by_row(from, (&join.relation, alias), condition);
        }
        joined(from, (kind, on), (first, left_width, right))
    }

    fn join_conditions(
        &mut self,
        from: &mut From,
        constraint: &ast::JoinConstraint,
        kind: Kind,
        (first, left_relations): (usize, usize),
    ) -> Result<Vec<Expr>> {
        let natural;
        let (names, on) = match constraint {
            ast::JoinConstraint::Using(columns) => {
                natural = columns.iter().map(simple_name).collect::<Result<Vec<_>>>()?;
                (natural, Vec::new())
            }
            ast::JoinConstraint::Natural => {
                natural = from.scope.common_columns(first, left_relations);
                (natural, Vec::new())
            }
            other => (Vec::new(), self.join_condition(from, other, first)?),
        };
        match names.is_empty() {
            true => Ok(on),
            false => self.using(from, &names, kind, (first, left_relations)),
        }
    }

    /// A relation of which each row around it has those that the condition is true for, or none:
    /// `LEFT JOIN LATERAL (SELECT b.* FROM b WHERE condition) AS b ON true`.
    fn joined_row_by_row(
        &mut self,
        from: &mut From,
        (relation, alias): (&ast::TableFactor, ast::Ident),
        condition: &ast::Expr,
    ) -> Result<()> {
        let of_others = "SELECT alias.* FROM relation AS alias WHERE condition";
        let Some(mut query) = crate::syntax::parse::parse_query(of_others)? else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "not a query"));
        };
        if let ast::SetExpr::Select(select) = &mut *query.body {
            use ast::SelectItemQualifiedWildcardKind::ObjectName;
            let name = ast::ObjectName::from(vec![alias.clone()]);
            if let [ast::SelectItem::QualifiedWildcard(of, _)] = &mut *select.projection {
                *of = ObjectName(name);
            }
            if let [only] = &mut *select.from {
                only.relation = relation.clone();
            }
            select.selection = Some(condition.clone());
        }
        let relations = from.scope.relations.len();
        let alias = ast::TableAlias { explicit: true, name: alias, columns: Vec::new(), at: None };
        self.lateral(from, &query, Some(&alias))?;
        from.mark_presence(relations);
        if let Some(relation) = from.scope.relations.last_mut() {
            relation.may_be_absent = true;
        }
        if let Some(item) = from.items.last_mut() {
            item.left = Some(vec![Expr::Const(types::Value::Bool(true))]);
        }
        Ok(())
    }

    /// A join in parentheses as one relation, for an outer join with it.
    fn joined_apart(&mut self, from: &mut From, joined: &ast::TableWithJoins) -> Result<()> {
        let inner = self.nested(|binder| binder.bind_from(std::slice::from_ref(joined)))?;
        let (offset, width) = (from.scope.width(), inner.scope.width());
        if inner.conditions.iter().any(has_applied) {
            return Err(subquery_in_parentheses());
        }
        if !inner.scope.order.is_empty() {
            from.scope.order = from.scope.shown();
            from.scope.order.extend(inner.scope.shown().iter().map(|column| column + offset));
        }
        for mut relation in inner.scope.relations {
            check_alias(from, &relation.name)?;
            relation.offset += offset;
            for (merged, _) in relation.columns.iter_mut().flat_map(|column| &mut column.merged) {
                merged.map_columns(&mut |column| Expr::Column(column + offset));
            }
            from.scope.relations.push(relation);
        }
        let columns: Vec<u16> = (0..width).collect();
        let wishes = Wishes { columns: columns.clone(), ..Wishes::default() };
        let query = plan(inner.items, inner.conditions, &wishes)?.project(&columns);
        from.items.push(Item::new(Source::Query(query), offset, width));
        Ok(())
    }

    /// A join in parentheses that has a name of its own, which hides those within.
    pub(super) fn named_join(
        &mut self,
        from: &mut From,
        joined: &ast::TableWithJoins,
        alias: &ast::TableAlias,
    ) -> Result<()> {
        let inner = self.nested(|binder| binder.bind_from(std::slice::from_ref(joined)))?;
        if inner.conditions.iter().any(has_applied) {
            return Err(subquery_in_parentheses());
        }
        let (mut columns, mut values, mut collated) = (Vec::new(), Vec::new(), Vec::new());
        for place in inner.scope.shown() {
            if let Some((_, column)) = inner.scope.column(place) {
                let (value, data_type) = column.unqualified(place);
                columns.push((column.name.clone(), data_type));
                collated.push(inner.scope.collated(&value));
                values.push(value);
            }
        }
        let needed = values.iter().flat_map(Expr::columns).collect();
        let wishes = Wishes { columns: needed, ..Wishes::default() };
        let planned = plan(inner.items, inner.conditions, &wishes)?;
        values.iter_mut().for_each(|value| planned.place(value));
        let query = projected(planned.query, values);
        add_derived(from, &fold(&alias.name), columns, Some(alias), query)?;
        from.collate(collated);
        Ok(())
    }

    fn join_condition(
        &mut self,
        from: &mut From,
        constraint: &ast::JoinConstraint,
        first: usize,
    ) -> Result<Vec<Expr>> {
        let mut on = Vec::new();
        if let ast::JoinConstraint::On(condition) = constraint {
            let scope = from.in_sight_from(first);
            let bound = self.condition(&scope, condition, Place::JoinCondition, "JOIN/ON")?;
            conjuncts(bound, &mut on);
        }
        Ok(on)
    }

    /// `left.name = right.name` for each, of which one is shown from then on, before all others.
    fn using(
        &mut self,
        from: &mut From,
        names: &[String],
        kind: Kind,
        (first, left_relations): (usize, usize),
    ) -> Result<Vec<Expr>> {
        let (mut on, mut merged) = (Vec::new(), Vec::new());
        for name in names {
            on.push(self.merge_columns(from, name, kind, (first, left_relations), &mut merged)?);
        }
        let begin = from.scope.relations.get(first).map_or(0, |relation| relation.offset);
        let shown = from.scope.shown();
        let mut of_join = shown.iter().skip_while(|column| **column < begin);
        if merged.iter().any(|column| of_join.next() != Some(column)) {
            from.scope.show_first(first, &merged);
        }
        Ok(on)
    }

    fn merge_columns(
        &mut self,
        from: &mut From,
        name: &str,
        kind: Kind,
        (first, left_relations): (usize, usize),
        merged: &mut Vec<u16>,
    ) -> Result<Expr> {
        // It is looked for among all columns of both sides.
        self.count(1 + from.scope.relations.len() / RELATIONS_PER_EXPRESSION)?;
        let right = (left_relations..from.scope.relations.len(), "right");
        let left = merged_away(&from.scope, (first..left_relations, "left"), name)?;
        let right = merged_away(&from.scope, right, name)?;
        self.reads(&from.scope, &left.expr);
        self.reads(&from.scope, &right.expr);
        let shown = self.shown_for_both(left.clone(), right.clone(), kind)?;
        let equal = self.comparison(procedure::BinaryOp::Equal, left, right)?;
        let (lefts, rights) = from.scope.relations.split_at_mut(left_relations);
        if let Some((_, column)) = visible(rights, name) {
            column.hidden = true;
        }
        if let Some((place, column)) = visible(&mut lefts[first..], name) {
            merged.push(place);
            if let Some(shown) = shown {
                column.merged = Some(shown);
            }
        }
        Ok(equal.expr)
    }

    /// What stands for two columns that USING merges, in their common type; `None`: the left one,
    /// as it is.
    fn shown_for_both(
        &mut self,
        left: Typed,
        right: Typed,
        kind: Kind,
    ) -> Result<Option<(Expr, DataType)>> {
        let types = [&left, &right].map(|side| side.data_type.without_modifier());
        let same = (left.data_type == right.data_type).then(|| left.data_type.clone());
        let (sides, common) = self.unify(vec![left, right], "JOIN/USING")?;
        let Ok([left, right]) = <[Expr; 2]>::try_from(sides) else { return Ok(None) };
        let [is_left, is_right] = types.map(|side| side == common.without_modifier());
        let shown = match kind {
            Kind::Inner | Kind::Left if is_left => return Ok(None),
            Kind::Inner if is_right => right,
            Kind::Inner | Kind::Left => left,
            Kind::Right => right,
            Kind::Full => Expr::Coalesce([left, right].into()),
        };
        Ok(Some((shown, same.unwrap_or(common))))
    }
}
