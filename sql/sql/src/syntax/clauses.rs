//! Clauses in the form that all planners read, and those that some of them would pass over.
//!
//! `FETCH FIRST n ROWS ONLY` is a LIMIT, of one row where it has no number; `~~` is LIKE. What
//! would change the rows of a result if it were heeded (a sample of a table, FETCH … WITH TIES),
//! and a query that makes a table, is refused where it is read.

use std::ops::ControlFlow;

use sqlparser::ast::{self, LimitClause, VisitorMut};
use types::{Error, Result, SqlState};

use crate::syntax::walk::{self, Tree};

/// # Errors
/// 0A000 for a clause that is not heeded, 42601 for two limits.
pub(crate) fn normalize(parsed: &mut dyn Tree) -> Result<()> {
    match walk::change(parsed, &mut Normalize) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Normalize;

fn flow_of(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Normalize {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        flow_of(limit(query))
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Error> {
        like(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Error> {
        flow_of(match select.into {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("SELECT INTO")
                .with_hint("Use CREATE TABLE, and INSERT … SELECT.")),
        })
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Error> {
        flow_of(match factor {
            ast::TableFactor::Table { sample: Some(_), .. }
            | ast::TableFactor::Derived { sample: Some(_), .. } => {
                Err(Error::unsupported("TABLESAMPLE"))
            }
            _ => Ok(()),
        })
    }
}

/// The operators after LIKE become LIKE.
fn like(expr: &mut ast::Expr) {
    use ast::BinaryOperator as O;
    let ast::Expr::BinaryOp { op, .. } = expr else { return };
    let (negated, any_case) = match op {
        O::PGLikeMatch => (false, false),
        O::PGNotLikeMatch => (true, false),
        O::PGILikeMatch => (false, true),
        O::PGNotILikeMatch => (true, true),
        _ => return,
    };
    let null = || ast::Expr::Value(ast::Value::Null.with_empty_span());
    let ast::Expr::BinaryOp { left, right: pattern, .. } = std::mem::replace(expr, null()) else {
        return;
    };
    let (any, escape_char) = (false, None);
    *expr = match any_case {
        false => ast::Expr::Like { negated, any, expr: left, pattern, escape_char },
        true => ast::Expr::ILike { negated, any, expr: left, pattern, escape_char },
    };
}

/// FETCH becomes LIMIT.
fn limit(query: &mut ast::Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else {
        return Ok(());
    };
    if fetch.with_ties || fetch.percent {
        let what = if fetch.percent { "FETCH … PERCENT" } else { "FETCH … WITH TIES" };
        return Err(Error::unsupported(what));
    }
    let one = || ast::Expr::Value(ast::Value::Number("1".to_owned(), false).with_empty_span());
    let count = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        none @ None => {
            *none = Some(LimitClause::LimitOffset {
                limit: Some(count),
                offset: None,
                limit_by: Vec::new(),
            });
            Ok(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(count);
            Ok(())
        }
        Some(_) => Err(Error::new(SqlState::SYNTAX_ERROR, "multiple LIMIT clauses not allowed")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fetch_is_a_limit() {
        for (text, meant) in [
            ("SELECT 1 FETCH FIRST ROW ONLY", "SELECT 1 LIMIT 1"),
            ("SELECT 1 FETCH NEXT 3 ROWS ONLY", "SELECT 1 LIMIT 3"),
            ("SELECT 1 FETCH FIRST (3) ROWS ONLY", "SELECT 1 LIMIT 3"),
            ("SELECT 1 OFFSET 1 fetch next ($1) row only", "SELECT 1 LIMIT $1 OFFSET 1"),
            ("SELECT 1 OFFSET 2 FETCH FIRST ROW ONLY", "SELECT 1 LIMIT 1 OFFSET 2"),
            ("SELECT (SELECT 1 FETCH FIRST ROW ONLY)", "SELECT (SELECT 1 LIMIT 1)"),
        ] {
            let [fetch, limit] = [text, meant]
                .map(|text| crate::parse(text).unwrap()[0].query().map(ToString::to_string));
            assert_eq!(fetch, limit);
        }
    }

    #[test]
    fn what_nobody_heeds_is_refused() {
        for (text, code) in [
            ("SELECT 1 FETCH FIRST 2 ROWS WITH TIES", "0A000"),
            ("SELECT 1 FETCH FIRST 2 PERCENT ROWS ONLY", "0A000"),
            ("SELECT 1 LIMIT 1 FETCH FIRST ROW ONLY", "42601"),
            ("SELECT a FROM t TABLESAMPLE BERNOULLI (0)", "0A000"),
            ("SELECT (SELECT count(*) FROM t TABLESAMPLE SYSTEM (1))", "0A000"),
        ] {
            let error = crate::parse(text).unwrap_err();
            assert_eq!(error.code().to_string(), code, "{text}");
        }
    }
}
