//! Builds the operators around a query's body: projection, ORDER BY, DISTINCT ON, LIMIT and OFFSET.

use procedure::query::{Repeats, SortKey};
use procedure::{Expr, Query};
use sqlparser::ast;

/// What surrounds the body of a query.
#[derive(Default)]
pub(super) struct Tail<'q> {
    pub order: &'q [ast::OrderByExpr],
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// FOR UPDATE and FOR SHARE.
    pub locks: &'q [ast::LockClause],
}

pub(super) fn sort_key(expr: Expr, options: &ast::OrderByOptions) -> SortKey {
    let descending = options.asc == Some(false);
    SortKey { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending) }
}

pub(super) fn sorted(input: Query, keys: Vec<SortKey>) -> Query {
    match keys.is_empty() {
        true => input,
        false => Query::Sort { input: Box::new(input), keys: keys.into() },
    }
}

/// A projection, unless it would change nothing.
pub(super) fn projected(input: Query, expressions: Vec<Expr>) -> Query {
    let width = match &input {
        Query::Get { columns, .. } | Query::Scan { columns, .. } => Some(columns.len()),
        Query::Project { expressions, .. } => Some(expressions.len()),
        _ => None,
    };
    let mut places = expressions.iter().enumerate();
    let identity = places.all(|(i, e)| *e == Expr::Column(i as u16));
    if identity && width == Some(expressions.len()) {
        return input;
    }
    // Values of one empty row under a projection are the projection's values.
    if let Query::Values(rows) = &input
        && matches!(&**rows, [row] if row.is_empty())
    {
        return Query::Values([expressions.into_boxed_slice()].into());
    }
    Query::Project { input: Box::new(input), expressions: expressions.into() }
}

pub(super) fn limited(input: Query, tail: Tail<'_>) -> Query {
    if tail.limit.is_none() && tail.offset.is_none() {
        return input;
    }
    Query::Limit { input: Box::new(input), limit: tail.limit, offset: tail.offset }
}

/// Of the rows that agree in `of` the first.
pub(super) fn first_of_each(input: Query, mut shown: Vec<Expr>, of: Vec<Expr>) -> Query {
    let width = shown.len() as u16;
    let by = (width..width + of.len() as u16).collect();
    shown.extend(of);
    let input = Box::new(Query::Project { input: Box::new(input), expressions: shown.into() });
    let first = Query::Distinct { input, by, repeats: Repeats::Dropped };
    projected(first, (0..width).map(Expr::Column).collect())
}
