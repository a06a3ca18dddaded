//! Rows that are spelled out in a comparison: `(a, b) = (c, d)` and its kin, by the fields.
//!
//! Equality is AND over the fields, and the order is that of the first field that differs, which is
//! PostgreSQL's answer for NULL fields as well: `(a, b) < (c, d)` is `a < c OR (a = c AND b < d)`.
//! Rows as values are compared as a whole ([`records`](super::records)).

use procedure::{BinaryOp, Expr, Query};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use super::applied::Subquery;
use super::binder::{Binder, Typed, fold};
use super::operators::negated_if;
use super::records::record_of;
use super::scope::Scope;
use super::state::Gives;
use crate::syntax::exprs::is_row;

impl Binder<'_> {
    /// `None` where the sides are no rows that are spelled out.
    pub(super) fn rows_compared(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: BinaryOp,
        right: &ast::Expr,
    ) -> Result<Option<Typed>> {
        if !is_row(left) || !(is_row(right) || matches!(right, ast::Expr::Subquery(_))) {
            return Ok(None);
        }
        let Some(left) = self.row_items(scope, left)? else { return Ok(None) };
        let right = match right {
            ast::Expr::Subquery(query) => {
                self.row_of_subquery(scope, query, left.len(), not_as_wide)?
            }
            right => self.row_items(scope, right)?.unwrap_or_default(),
        };
        self.fields_compared(left, op, right).map(Some)
    }

    pub(super) fn fields_compared(
        &mut self,
        left: Vec<Typed>,
        op: BinaryOp,
        right: Vec<Typed>,
    ) -> Result<Typed> {
        use BinaryOp as B;
        if left.len() != right.len() {
            let what = "unequal number of entries in row expressions";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        if left.is_empty() {
            let what = "cannot compare rows of zero length";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let expr = match op {
            B::Equal | B::IsNotDistinctFrom => Expr::And(self.each_compared(left, op, right)?),
            B::NotEqual | B::IsDistinctFrom => Expr::Or(self.each_compared(left, op, right)?),
            B::Less | B::LessOrEqual => self.rows_ordered(&left, (B::Less, op), &right)?,
            B::Greater | B::GreaterOrEqual => self.rows_ordered(&left, (B::Greater, op), &right)?,
            _ => return Err(Error::unsupported("this operator between rows")),
        };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }

    fn each_compared(
        &mut self,
        left: Vec<Typed>,
        op: BinaryOp,
        right: Vec<Typed>,
    ) -> Result<Box<[Expr]>> {
        let mut parts = Vec::with_capacity(left.len());
        for (left, right) in left.into_iter().zip(right) {
            parts.push(self.comparison(op, left, right)?.expr);
        }
        Ok(parts.into())
    }

    /// The first operator decides between fields that differ, the second between the last ones.
    fn rows_ordered(
        &mut self,
        left: &[Typed],
        (differ, last): (BinaryOp, BinaryOp),
        right: &[Typed],
    ) -> Result<Expr> {
        let mut compare = |op, place: usize| -> Result<Expr> {
            let copy = |binder: &mut Self, side: &Typed| -> Result<Typed> {
                Ok(Typed::new(binder.again(&side.expr)?, side.data_type.clone()))
            };
            let (left, right) = (copy(self, &left[place])?, copy(self, &right[place])?);
            Ok(self.comparison(op, left, right)?.expr)
        };
        let mut ordered = compare(last, left.len() - 1)?;
        for place in (0..left.len() - 1).rev() {
            let (first, equal) = (compare(differ, place)?, compare(BinaryOp::Equal, place)?);
            ordered = Expr::Or([first, Expr::And([equal, ordered].into())].into());
        }
        Ok(ordered)
    }

    /// `(a, b) IN ((1, 2), (3, 4))`; `None` where the left side is no row.
    pub(super) fn row_in_list(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Option<Typed>> {
        if !is_row(expr) {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(list.len());
        for item in list {
            parts.push(self.compared(scope, expr, BinaryOp::Equal, item)?.expr);
        }
        let any = Typed::new(fold(Expr::Or(parts.into())), DataType::Bool);
        Ok(Some(negated_if(negated, any)))
    }

    /// The columns of the one row that a subquery gives; of none they are NULL.
    pub(super) fn row_of_subquery(
        &mut self,
        scope: &Scope,
        query: &ast::Query,
        width: usize,
        not_as_wide: fn(bool) -> Error,
    ) -> Result<Vec<Typed>> {
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        if bound.columns.len() != width {
            return Err(not_as_wide(bound.columns.len() < width));
        }
        let data_type = record_of(&bound.columns);
        let columns = (0..width as u16).map(Expr::Column).collect();
        let rows = Query::Project {
            input: Box::new(bound.query),
            expressions: [Expr::Array(columns)].into(),
        };
        let row = match given {
            Some(given) => self.apply(rows, given, Gives::Value, data_type)?,
            None => self.value_of(rows, data_type)?,
        };
        self.fields_of(row)
    }

    /// Two rows as values: NULL fields are equal, and above all others.
    pub(super) fn records_compared(
        &mut self,
        op: BinaryOp,
        left: Typed,
        right: Typed,
    ) -> Result<Typed> {
        let (left, right) = (self.resolved(left)?, self.resolved(right)?);
        if let (DataType::Record(l), DataType::Record(r)) = (&left.data_type, &right.data_type) {
            check_comparable(l, r)?;
        }
        let expr = Expr::Binary {
            op,
            left: Box::new(left.expr),
            right: Box::new(right.expr),
            result: DataType::Bool,
        };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }
}

fn not_as_wide(has_few: bool) -> Error {
    let what = format!("subquery has too {} columns", if has_few { "few" } else { "many" });
    Error::new(SqlState::SYNTAX_ERROR, what)
}

fn check_comparable(left: &[types::Field], right: &[types::Field]) -> Result<()> {
    if left.len() != right.len() {
        let what = "cannot compare record types with different numbers of columns";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, what));
    }
    for (place, (left, right)) in left.iter().zip(right).enumerate() {
        let types = [left, right].map(|field| field.data_type.without_modifier());
        let is_same = match &types {
            [DataType::Record(left), DataType::Record(right)] => {
                check_comparable(left, right)?;
                true
            }
            [left, right] => left == right,
        };
        if !is_same {
            let [left, right] = types;
            let place = place + 1;
            let what = format!(
                "cannot compare dissimilar column types {left} and {right} at record column {place}"
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, what));
        }
    }
    Ok(())
}
