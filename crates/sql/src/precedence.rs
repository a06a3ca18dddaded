//! `IS DISTINCT FROM` among AND, OR and NOT.
//!
//! To sqlparser the right side of `IS [NOT] DISTINCT FROM` is all that follows, where PostgreSQL
//! ends it at AND and OR:
//!
//! ```text
//!   x AND a IS DISTINCT FROM b OR c
//!   sqlparser      x AND (a IS DISTINCT FROM (b OR c))
//!   PostgreSQL    (x AND (a IS DISTINCT FROM b)) OR c
//! ```
//!
//! Parentheses are nodes of their own, so an AND or OR without them on the right side is such a
//! mistake and nothing else. It goes around what it is in, from the inside to the outside: first
//! around the IS, then around a NOT or an AND to the left, which bind more tightly than it.

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator as Op, Expr, VisitMut, VisitorMut};

/// Makes what was parsed mean what it means in PostgreSQL.
pub(crate) fn mend(parsed: &mut impl VisitMut) {
    let _ = parsed.visit(&mut Mend);
}

struct Mend;

impl VisitorMut for Mend {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let right = match expr {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => right,
            Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: right } => right,
            Expr::BinaryOp { op: Op::And, right, .. } if is_or(right) => right,
            _ => return ControlFlow::Continue(()),
        };
        if !is_loose(right) {
            return ControlFlow::Continue(());
        }
        // The whole of the right side takes this one's place, and this one that of its first part.
        let mut whole = std::mem::replace(&mut **right, placeholder());
        let mut first = &mut whole;
        while let Expr::BinaryOp { op: Op::And | Op::Or, left, .. } = first {
            first = left;
        }
        std::mem::swap(&mut **right, first);
        std::mem::swap(expr, first);
        *expr = whole;
        ControlFlow::Continue(())
    }
}

fn is_or(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: Op::Or, .. })
}

fn is_loose(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: Op::And | Op::Or, .. })
}

fn placeholder() -> Expr {
    Expr::Value(ast::Value::Null.with_empty_span())
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_expression;

    #[test]
    fn is_distinct_from_ends_at_and_and_or() {
        for (text, meant) in [
            ("a IS DISTINCT FROM b OR c", "(a IS DISTINCT FROM b) OR c"),
            ("a IS NOT DISTINCT FROM b AND c", "(a IS NOT DISTINCT FROM b) AND c"),
            ("x AND a IS DISTINCT FROM b OR c", "(x AND (a IS DISTINCT FROM b)) OR c"),
            ("x OR a IS DISTINCT FROM b AND c", "x OR ((a IS DISTINCT FROM b) AND c)"),
            ("NOT a IS DISTINCT FROM b OR c", "(NOT (a IS DISTINCT FROM b)) OR c"),
            (
                "x AND NOT a IS DISTINCT FROM b AND d OR c",
                "((x AND (NOT (a IS DISTINCT FROM b))) AND d) OR c",
            ),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) OR e",
            ),
            (
                "a IS DISTINCT FROM b OR c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) OR (c IS DISTINCT FROM d)) OR e",
            ),
            // These were right, and stay.
            ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
            ("a IS DISTINCT FROM (b OR c)", "a IS DISTINCT FROM (b OR c)"),
            ("NOT (a OR b) AND c", "(NOT (a OR b)) AND c"),
            ("a AND (b OR c)", "a AND (b OR c)"),
        ] {
            assert_eq!(shape(text), shape(meant), "{text}");
        }
    }

    /// The tree, with or without parentheses in the text.
    fn shape(text: &str) -> String {
        fn written(expr: &super::Expr) -> String {
            use super::Expr as E;
            match expr {
                E::Nested(inner) => written(inner),
                E::BinaryOp { left, op, right } => {
                    format!("({} {op} {})", written(left), written(right))
                }
                E::IsDistinctFrom(left, right) => {
                    format!("({} <> {})", written(left), written(right))
                }
                E::IsNotDistinctFrom(left, right) => {
                    format!("({} == {})", written(left), written(right))
                }
                E::UnaryOp { op, expr } => format!("({op} {})", written(expr)),
                other => other.to_string(),
            }
        }
        written(&parse_expression(text).unwrap())
    }
}
