//! Row values: `(a, b) = (c, d)` and its kin, by the fields.
//!
//! Rows exist within comparisons alone. Equality is AND over the fields, and the order is that of
//! the first field that differs, which is PostgreSQL's answer for NULL fields as well:
//! `(a, b) < (c, d)` is `a < c OR (a = c AND b < d)`.

use procedure::{BinaryOp, Expr};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed, fold};
use super::operators::negated_if;
use super::scope::Scope;

/// The fields of a row value; `None` for every other expression.
pub(super) fn fields(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match expr {
        ast::Expr::Tuple(fields) => Some(fields.iter().collect()),
        ast::Expr::Nested(inner) => fields(inner),
        ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &call.args else {
                return None;
            };
            let field = |arg| match arg {
                &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Some(expr),
                _ => None,
            };
            list.args.iter().map(field).collect()
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// `None` where neither side is a row.
    pub(super) fn rows_compared(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Option<Typed>> {
        use ast::BinaryOperator as B;
        let (left, right) = match (fields(left), fields(right)) {
            (Some(left), Some(right)) => (left, right),
            _ => return Ok(None),
        };
        if left.len() != right.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "unequal number of entries in row expressions",
            ));
        }
        let expr = match op {
            B::Eq => self.rows_equal(scope, &left, &right)?,
            B::NotEq => {
                let equal = self.rows_equal(scope, &left, &right)?;
                return Ok(Some(negated_if(true, Typed::new(equal, DataType::Bool))));
            }
            B::Lt => self.rows_ordered(scope, &left, (BinaryOp::Less, BinaryOp::Less), &right)?,
            B::LtEq => {
                self.rows_ordered(scope, &left, (BinaryOp::Less, BinaryOp::LessOrEqual), &right)?
            }
            B::Gt => {
                self.rows_ordered(scope, &left, (BinaryOp::Greater, BinaryOp::Greater), &right)?
            }
            B::GtEq => {
                let ops = (BinaryOp::Greater, BinaryOp::GreaterOrEqual);
                self.rows_ordered(scope, &left, ops, &right)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Typed::new(fold(expr), DataType::Bool)))
    }

    fn rows_equal(
        &mut self,
        scope: &Scope,
        left: &[&ast::Expr],
        right: &[&ast::Expr],
    ) -> Result<Expr> {
        let mut parts = Vec::with_capacity(left.len());
        for (left, right) in left.iter().zip(right) {
            parts.push(self.compared(scope, left, BinaryOp::Equal, right)?.expr);
        }
        Ok(Expr::And(parts.into()))
    }

    /// The first operator decides between fields that differ, the second between the last ones.
    fn rows_ordered(
        &mut self,
        scope: &Scope,
        left: &[&ast::Expr],
        (differ, last): (BinaryOp, BinaryOp),
        right: &[&ast::Expr],
    ) -> Result<Expr> {
        match (left, right) {
            ([left], [right]) => Ok(self.compared(scope, left, last, right)?.expr),
            ([left, left_rest @ ..], [right, right_rest @ ..]) => {
                let first = self.compared(scope, left, differ, right)?.expr;
                let equal = self.compared(scope, left, BinaryOp::Equal, right)?.expr;
                let rest = self.rows_ordered(scope, left_rest, (differ, last), right_rest)?;
                Ok(Expr::Or([first, Expr::And([equal, rest].into())].into()))
            }
            _ => Err(Error::new(SqlState::SYNTAX_ERROR, "a row without fields")),
        }
    }

    /// `(a, b) IN ((1, 2), (3, 4))`; `None` where the left side is no row.
    pub(super) fn row_in_list(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Option<Typed>> {
        if fields(expr).is_none() {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(list.len());
        for item in list {
            match self.rows_compared(scope, expr, &ast::BinaryOperator::Eq, item)? {
                Some(equal) => parts.push(equal.expr),
                None => return Err(Error::unsupported("a row compared with what is no row")),
            }
        }
        let any = Typed::new(fold(Expr::Or(parts.into())), DataType::Bool);
        Ok(Some(negated_if(negated, any)))
    }
}
