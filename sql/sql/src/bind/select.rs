//! Queries: SELECT, VALUES, UNION, and what stands around them.

use procedure::query::SortKey;
use procedure::{Column, Expr, Query};
use sqlparser::ast::{self, Spanned};
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::grouping::not_of_groups;
use super::operators::ordered;
use super::output_names::output_name;
use super::plan::conjuncts;
use super::recursive::in_step;
use super::relations::From;
use super::row_functions::check_calls;
use super::scope::{ROW_ID_NAME, Scope, ScopeColumn};
use super::select_body::SelectBody;
use super::shape::{Tail, limited, sort_key, sorted};
use super::sort_keys::distinct_by;
use super::state::{Aggregates, BoundQuery, Place, Windows};
use crate::syntax::locks::{check_rows, check_select};
use crate::syntax::names::fold;

/// What is known of a SELECT from around it, and from its FROM.
#[derive(Clone, Copy)]
struct Known {
    keep_unknown: bool,
    reads_itself: bool,
}

/// An item of the select list.
pub(super) struct Output {
    pub name: String,
    pub value: Typed,
}

impl Binder<'_> {
    /// Binds a query; columns without a type are text.
    pub fn query(&mut self, query: &ast::Query) -> Result<BoundQuery> {
        self.query_into(query, &[])
    }

    /// Binds a query whose values go into columns of the types `targets`, which decide about
    /// literals and parameters that have no type of their own.
    pub(super) fn query_into(
        &mut self,
        query: &ast::Query,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        self.nested(|binder| {
            let (outer_ctes, outer_calls) = (binder.ctes.len(), binder.row_calls.take());
            let (outer_applied, outer_windows) = (binder.applied.take(), binder.windows.take());
            let within_window = std::mem::take(&mut binder.within_window);
            let bound = binder.query_inner(query, targets);
            binder.ctes.truncate(outer_ctes);
            binder.row_calls = outer_calls;
            binder.applied = outer_applied;
            binder.windows = outer_windows;
            binder.within_window = within_window;
            bound
        })
    }

    fn query_inner(&mut self, query: &ast::Query, targets: &[DataType]) -> Result<BoundQuery> {
        self.common_tables(query)?;
        for lock in &query.locks {
            match lock.nonblock {
                None => {}
                // The session sees to it, who sees the whole statement only.
                Some(ast::NonBlock::Nowait) if self.depth == 1 => {}
                Some(ast::NonBlock::Nowait) => {
                    return Err(Error::unsupported("NOWAIT in a query within another"));
                }
                // Nothing is locked that others could not read: a queue is served in turn.
                Some(ast::NonBlock::SkipLocked) => {}
            }
        }
        let order = match query.order_by.as_ref().map(|o| &o.kind) {
            None => &[][..],
            Some(ast::OrderByKind::Expressions(order)) => order,
            Some(ast::OrderByKind::All(_)) => return Err(Error::unsupported("ORDER BY ALL")),
        };
        let (limit, offset) = self.limits(query)?;
        let tail = Tail { order, limit, offset, locks: &query.locks };
        match &*query.body {
            ast::SetExpr::Select(select) => self.select(select, tail, targets),
            body => {
                let bound = self.set_expression(body, targets)?;
                if let Some(lock) = query.locks.first() {
                    check_rows(query, lock)?;
                }
                let keys = self.order_of_columns(body, &bound, tail.order)?;
                let BoundQuery { query, columns, collated } = bound;
                let query = limited(sorted(query, keys), tail);
                Ok(BoundQuery { query, columns, collated })
            }
        }
    }

    fn order_of_columns(
        &mut self,
        body: &ast::SetExpr,
        bound: &BoundQuery,
        order: &[ast::OrderByExpr],
    ) -> Result<Vec<SortKey>> {
        let columns = bound.columns.as_slice();
        let mut keys = Vec::with_capacity(order.len());
        for item in order {
            let named = match &item.expr {
                ast::Expr::Identifier(ident) => {
                    let name = fold(ident);
                    let place = columns.iter().position(|c| c.name == name);
                    Some(place.ok_or_else(|| {
                        let what = format!("column \"{name}\" does not exist");
                        Error::new(SqlState::UNDEFINED_COLUMN, what)
                    })?)
                }
                expr => ordinal(expr, columns.len(), "ORDER BY")?,
            };
            let expr = match (named, body) {
                (Some(place), _) => {
                    ordered(&columns[place].data_type)?;
                    let column = Expr::Column(place as u16);
                    let typed = Typed::new(column, columns[place].data_type.clone());
                    self.sorted_by(Typed { collated: bound.collation(place), ..typed })?
                }
                (None, ast::SetExpr::SetOperation { .. }) => return Err(not_of_columns()),
                (None, _) => {
                    let of = |c: &Column| ScopeColumn::new(c.name.clone(), c.data_type.clone());
                    let mut scope = Scope::default();
                    scope.add("*VALUES*", columns.iter().map(of).collect(), None);
                    let typed = self.expression(&scope, &item.expr)?;
                    let typed = self.resolved(typed)?;
                    ordered(&typed.data_type)?;
                    self.sorted_by(typed)?
                }
            };
            keys.push(sort_key(expr, &item.options));
        }
        Ok(keys)
    }

    fn limits(&mut self, query: &ast::Query) -> Result<(Option<Expr>, Option<Expr>)> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|o| &o.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(Error::unsupported("LIMIT #,#").with_hint("Use LIMIT # OFFSET #."));
            }
        };
        let one = ast::Expr::value(ast::Value::Number("1".into(), false));
        let limit = match &query.fetch {
            None => limit,
            Some(fetch) if fetch.percent || fetch.with_ties => {
                return Err(Error::unsupported("FETCH … PERCENT and WITH TIES"));
            }
            Some(fetch) => Some(fetch.quantity.as_ref().unwrap_or(&one)),
        };
        let mut count = |expr: Option<&ast::Expr>, clause| match expr {
            None => Ok(None),
            Some(expr) => {
                let typed = self.within(clause, |binder| binder.bare_expression(expr))?;
                self.coerce(typed, &DataType::Int8, CastContext::Assignment).map(Some)
            }
        };
        Ok((count(limit, "in LIMIT")?, count(offset, "in OFFSET")?))
    }

    pub(super) fn set_expression(
        &mut self,
        body: &ast::SetExpr,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, Tail::default(), targets),
            ast::SetExpr::Query(query) => self.query_into(query, targets),
            ast::SetExpr::Values(values) => self.values(values, targets),
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.set_operation((left, right), *op, *set_quantifier, targets)
            }
            ast::SetExpr::Table(table) => {
                let name = table.table_name.clone().unwrap_or_default();
                let text =
                    format!("SELECT * FROM \"{}\"", name.to_ascii_lowercase().replace('"', "\"\""));
                self.query_text(&text)
            }
            _ => Err(Error::unsupported("a data-modifying statement inside a query")),
        }
    }

    fn query_text(&mut self, text: &str) -> Result<BoundQuery> {
        match crate::syntax::parse::parse_query(text)? {
            Some(query) => self.query(&query),
            None => Err(Error::new(SqlState::SYNTAX_ERROR, "not a query")),
        }
    }

    fn values(&mut self, values: &ast::Values, targets: &[DataType]) -> Result<BoundQuery> {
        let empty = Scope::default();
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        for row in &values.rows {
            if row.content.len() != width {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            for (column, value) in columns.iter_mut().zip(&row.content) {
                let bind = |binder: &mut Self| binder.expression(&empty, value);
                column.push(self.within("in VALUES", bind)?);
            }
        }
        let mut rows: Vec<Vec<Expr>> = vec![Vec::with_capacity(width); values.rows.len()];
        let mut described = Vec::with_capacity(width);
        for (i, column) in columns.into_iter().enumerate() {
            let (exprs, data_type) = match targets.get(i) {
                // Each value goes into the column by itself: '1' and 2 need no common type.
                Some(target) => {
                    let name = format!("column{}", i + 1);
                    let mut exprs = Vec::with_capacity(column.len());
                    for (value, row) in column.into_iter().zip(&values.rows) {
                        let assigned = self.assign(value, &name, target);
                        exprs
                            .push(assigned.map_err(|error| self.at(row.content[i].span(), error))?);
                    }
                    (exprs, target.clone())
                }
                None => self.unify(column, "VALUES")?,
            };
            rows.iter_mut().zip(exprs).for_each(|(row, e)| row.push(e));
            described.push(Column { name: format!("column{}", i + 1), data_type });
        }
        let rows = rows.into_iter().map(Vec::into_boxed_slice);
        Ok(BoundQuery::new(Query::Values(rows.collect()), described))
    }

    fn select(
        &mut self,
        select: &ast::Select,
        tail: Tail<'_>,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        refuse_unsupported(select)?;
        let around = self.applied.take();
        self.begin_applied();
        let bound = self.select_over_rows(select, tail, targets);
        self.applied = around;
        bound
    }

    fn select_over_rows(
        &mut self,
        select: &ast::Select,
        tail: Tail<'_>,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        let keep_unknown = std::mem::take(&mut self.keep_unknown);
        let around = std::mem::take(&mut self.reads_itself);
        let mut from = self.bind_from(&select.from)?;
        let reads_itself = std::mem::replace(&mut self.reads_itself, around);
        if let Some(condition) = &select.selection {
            let scope = from.scope.clone();
            let condition = self.condition(&scope, condition, Place::Where, "WHERE")?;
            conjuncts(condition, &mut from.conditions);
        }
        from.items.extend(self.applied_so_far());
        let outside = std::mem::replace(
            &mut self.aggregates,
            Aggregates { place: Place::Allowed, ..Aggregates::default() },
        );
        let known = Known { keep_unknown, reads_itself };
        let bound = self.select_list(select, from, tail, targets, known);
        self.aggregates = outside;
        bound
    }

    fn select_list(
        &mut self,
        select: &ast::Select,
        from: From,
        tail: Tail<'_>,
        targets: &[DataType],
        known: Known,
    ) -> Result<BoundQuery> {
        let scope = from.scope.clone();
        self.row_calls = Some(Vec::new());
        let around = self.windows.replace(Windows::named(select)?);
        let mut outputs = self.outputs(&scope, &select.projection, targets, known)?;
        let row_calls = self.row_calls.take().unwrap_or_default();
        let windows = self.windows.take();
        let groups = self.groups(&scope, &select.group_by, &mut outputs)?;
        let having = match &select.having {
            None => None,
            Some(having) => Some(self.condition(&scope, having, Place::Allowed, "HAVING")?),
        };
        self.windows = windows;
        let distinct = matches!(&select.distinct, Some(ast::Distinct::Distinct));
        if distinct {
            outputs.iter().try_for_each(|output| distinct_by(&output.value))?;
        }
        let mut keys = self.sort_keys(&scope, tail.order, &outputs, distinct)?;
        let first_of = match &select.distinct {
            Some(ast::Distinct::On(exprs)) => self.first_of(&scope, exprs, &outputs, &mut keys)?,
            _ => Vec::new(),
        };
        let columns = columns_of(&outputs);
        let collated = outputs.iter().map(|output| output.value.collated.of_output()).collect();
        let expressions: Vec<Expr> = outputs.into_iter().map(|o| o.value.expr).collect();
        let calls = std::mem::take(&mut self.aggregates.calls);
        let groupings = std::mem::take(&mut self.aggregates.groupings);
        let grouped = groups.is_said || !calls.is_empty() || having.is_some();
        check_calls(&expressions, &row_calls, (grouped, self.windows.as_ref()))?;
        let applied = self.end_applied();
        let windows = std::mem::replace(&mut self.windows, around).unwrap_or_default().calls;
        let made = [!calls.is_empty(), !windows.is_empty(), !row_calls.is_empty()];
        check_select(select, tail.locks, made)?;
        if known.reads_itself && !calls.is_empty() {
            return Err(in_step());
        }
        let body = SelectBody {
            expressions,
            keys,
            having,
            distinct,
            first_of,
            row_calls,
            applied,
            windows,
        };
        let query = match grouped {
            true => body.grouped(from, &scope, groups, (calls, groupings), tail)?,
            false if groupings.is_empty() => body.plain(from, tail)?,
            false => return Err(not_of_groups()),
        };
        Ok(BoundQuery { query, columns, collated })
    }

    fn outputs(
        &mut self,
        scope: &Scope,
        items: &[ast::SelectItem],
        targets: &[DataType],
        known: Known,
    ) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        for item in items {
            self.output(scope, item, &mut outputs)?;
        }
        for (i, output) in outputs.iter_mut().enumerate() {
            let value = output.value.clone();
            output.value = match targets.get(i) {
                Some(target) if value.data_type == DataType::Unknown => {
                    let expr = self.assign(value, &output.name, target)?;
                    Typed::new(expr, target.clone())
                }
                _ if known.keep_unknown && value.data_type == DataType::Unknown => value,
                _ => self.resolved(value)?,
            };
        }
        Ok(outputs)
    }

    /// Binds one item of a select list or of RETURNING; `*` gives several.
    fn output(
        &mut self,
        scope: &Scope,
        item: &ast::SelectItem,
        outputs: &mut Vec<Output>,
    ) -> Result<()> {
        use ast::SelectItem as S;
        match item {
            S::UnnamedExpr(expr) => {
                let name = output_name(expr);
                let value = self.expression(scope, expr)?;
                outputs.push(Output { name, value });
            }
            S::ExprWithAlias { expr, alias } => {
                let value = self.expression(scope, expr)?;
                let name = fold(alias);
                outputs.push(Output { name, value });
            }
            S::Wildcard(_) => {
                if scope.relations.is_empty() {
                    return Err(Error::new(
                        SqlState::SYNTAX_ERROR,
                        "SELECT * with no tables specified is not valid",
                    ));
                }
                let first = outputs.len();
                expand(scope, None, outputs)?;
                self.count(outputs.len() - first)?;
                outputs[first..].iter().for_each(|output| self.reads(scope, &output.value.expr));
            }
            S::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = scope.named(name)?;
                if scope.relation(&name).is_none() {
                    return Err(Error::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("missing FROM-clause entry for table \"{name}\""),
                    ));
                }
                let first = outputs.len();
                expand(scope, Some(&name), outputs)?;
                self.count(outputs.len() - first)?;
                outputs[first..].iter().for_each(|output| self.reads(scope, &output.value.expr));
            }
            other => return Err(Error::unsupported(format_args!("{other} in a select list"))),
        }
        Ok(())
    }

    /// Binds a RETURNING list over the columns of one table.
    pub(super) fn returning(
        &mut self,
        scope: &Scope,
        items: &[ast::SelectItem],
    ) -> Result<(Vec<Expr>, Vec<Column>)> {
        let mut outputs = Vec::new();
        for item in items {
            let bind = |binder: &mut Self| binder.output(scope, item, &mut outputs);
            self.within("in RETURNING", bind)?;
        }
        let mut exprs = Vec::with_capacity(outputs.len());
        let mut columns = Vec::with_capacity(outputs.len());
        for output in outputs {
            let value = self.resolved(output.value)?;
            exprs.push(value.expr);
            columns.push(Column { name: output.name, data_type: value.data_type });
        }
        Ok((exprs, columns))
    }

    /// DISTINCT ON: what the rows of which the first is shown agree in.
    fn first_of(
        &mut self,
        scope: &Scope,
        exprs: &[ast::Expr],
        outputs: &[Output],
        keys: &mut Vec<SortKey>,
    ) -> Result<Vec<Expr>> {
        let item = |expr: &ast::Expr| ast::OrderByExpr {
            expr: expr.clone(),
            options: ast::OrderByOptions::default(),
            with_fill: None,
        };
        let items: Vec<ast::OrderByExpr> = exprs.iter().map(item).collect();
        let on = self.sort_keys(scope, &items, outputs, false)?;
        let of: Vec<Expr> = on.iter().map(|key| key.expr.clone()).collect();
        // The keys in front are of these alone, until all of them have been there.
        let mut missing = on;
        for key in keys.iter() {
            if missing.is_empty() {
                break;
            }
            if !of.contains(&key.expr) {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                ));
            }
            missing.retain(|on| on.expr != key.expr);
        }
        // What is not ordered by is, as it is in PostgreSQL, which finds repeats by sorting.
        keys.extend(missing);
        Ok(of)
    }

    fn sort_keys(
        &mut self,
        scope: &Scope,
        order: &[ast::OrderByExpr],
        outputs: &[Output],
        distinct: bool,
    ) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        for item in order {
            let by_name = match &item.expr {
                ast::Expr::Identifier(ident) => {
                    let name = fold(ident);
                    let named = || outputs.iter().filter(|o| o.name == name);
                    let first = named().next();
                    if named().any(|other| Some(&other.value) != first.map(|o| &o.value)) {
                        let what = format!("ORDER BY \"{name}\" is ambiguous");
                        return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, what));
                    }
                    first
                }
                _ => None,
            };
            let output = match ordinal(&item.expr, outputs.len(), "ORDER BY")? {
                Some(place) => Some(&outputs[place]),
                None => by_name,
            };
            let typed = match output {
                Some(Output { value, .. }) => {
                    Typed { expr: self.again(&value.expr)?, ..value.clone() }
                }
                None => {
                    let typed = self.expression(scope, &item.expr)?;
                    self.resolved(typed)?
                }
            };
            ordered(&typed.data_type)?;
            let is_shown = outputs.iter().any(|o| o.value.expr == typed.expr);
            if distinct && !is_shown {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                ));
            }
            keys.push(sort_key(self.sorted_by(typed)?, &item.options));
        }
        Ok(keys)
    }
}

fn refuse_unsupported(select: &ast::Select) -> Result<()> {
    let refused = [
        (select.into.is_some(), "SELECT INTO"),
        (select.top.is_some(), "TOP"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(Error::unsupported(what)),
        None => Ok(()),
    }
}

fn expand(scope: &Scope, only: Option<&str>, outputs: &mut Vec<Output>) -> Result<()> {
    if only.is_none() && !scope.order.is_empty() {
        outputs.extend(scope.shown().into_iter().filter_map(|place| {
            let (_, column) = scope.column(place)?;
            Some(shown(scope, column, place))
        }));
        return Ok(());
    }
    for relation in &scope.relations {
        if only.is_some_and(|only| relation.name != only) {
            continue;
        }
        for (i, column) in relation.columns.iter().enumerate() {
            // What USING has merged away is a column of its table still.
            let can_be_named = !column.name.is_empty() && column.name != ROW_ID_NAME;
            let is_shown = column.is_shown() || (only.is_some() && column.hidden && can_be_named);
            let place = relation.offset + i as u16;
            match only {
                _ if !is_shown => {}
                None => outputs.push(shown(scope, column, place)),
                // Its own, whatever it was merged with.
                Some(_) => {
                    let column = ScopeColumn { merged: None, ..column.clone() };
                    outputs.push(shown(scope, &column, place));
                }
            }
        }
    }
    Ok(())
}

fn shown(scope: &Scope, column: &ScopeColumn, place: u16) -> Output {
    let (value, data_type) = column.unqualified(place);
    let collated = scope.collated(&value);
    let value = Typed { collated, ..Typed::new(value, data_type) };
    Output { name: column.name.clone(), value }
}

fn columns_of(outputs: &[Output]) -> Vec<Column> {
    let column = |output: &Output| Column {
        name: output.name.clone(),
        data_type: output.value.data_type.clone(),
    };
    outputs.iter().map(column).collect()
}

/// `ORDER BY 2`: the place of an output.
///
/// # Errors
/// 42P10 for a place where there is none, 42601 for any other constant.
pub(super) fn ordinal(expr: &ast::Expr, outputs: usize, clause: &str) -> Result<Option<usize>> {
    let (value, sign) = match expr {
        ast::Expr::Nested(inner) => return ordinal(inner, outputs, clause),
        ast::Expr::Value(value) => (&value.value, ""),
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match within(expr) {
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => {
                (&value.value, "-")
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let digits = match value {
        ast::Value::Placeholder(_) => return Ok(None),
        ast::Value::Number(digits, _) if digits.parse::<i32>().is_ok() => digits,
        _ => {
            let what = format!("non-integer constant in {clause}");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
    };
    let place = digits.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match place.filter(|place| *place < outputs && sign.is_empty()) {
        Some(place) => Ok(Some(place)),
        None => Err(Error::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("{clause} position {sign}{digits} is not in select list"),
        )),
    }
}

/// What stands in parentheses.
fn within(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => within(inner),
        other => other,
    }
}

fn not_of_columns() -> Error {
    let what = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        .with_detail("Only result column names can be used, not expressions or functions.")
        .with_hint(
            "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
        )
}
