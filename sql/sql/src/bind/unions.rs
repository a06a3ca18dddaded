//! UNION, INTERSECT and EXCEPT: of two queries one, their columns of one type.

use procedure::query::{Repeats, SetOp};
use procedure::{Column, Expr, Query};
use sqlparser::ast;
use types::cast::{CastContext, common_type};
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::collated::Collated;
use super::operators::comparable;
use super::shape::projected;
use super::state::BoundQuery;
use crate::syntax::changes::is_plain;

impl Binder<'_> {
    pub(super) fn set_operation(
        &mut self,
        (left, right): (&ast::SetExpr, &ast::SetExpr),
        op: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        let all = match quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
            other => return Err(Error::unsupported(format_args!("{op} {other}"))),
        };
        let left = self.union_side(left, targets)?;
        let right = self.union_side(right, targets)?;
        if left.columns.len() != right.columns.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!("each {op} query must have the same number of columns"),
            ));
        }
        let mut columns = Vec::with_capacity(left.columns.len());
        for (l, r) in left.columns.iter().zip(&right.columns) {
            let data_type = of_both(&l.data_type, &r.data_type).ok_or_else(|| {
                Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("{op} types {} and {} cannot be matched", l.data_type, r.data_type),
                )
            })?;
            columns.push(Column {
                name: l.name.clone(),
                data_type: match data_type {
                    DataType::Unknown => DataType::Text,
                    known => known,
                },
            });
        }
        let collated = (0..columns.len()).map(|n| left.collation(n).with(&right.collation(n)));
        let collated = collated.collect::<Result<Vec<Collated>>>()?;
        if !all {
            collated.iter().try_for_each(Collated::check_equality)?;
            columns.iter().try_for_each(|column| comparable(&column.data_type))?;
        }
        let left = self.converted_columns(left, &columns)?;
        let right = self.converted_columns(right, &columns)?;
        let query = match op {
            ast::SetOperator::Union => Query::Append([left, right].into()),
            ast::SetOperator::Intersect => sets(SetOp::Intersect, all, left, right),
            ast::SetOperator::Except => sets(SetOp::Except, all, left, right),
            other => return Err(Error::unsupported(other)),
        };
        let query = match all || op != ast::SetOperator::Union {
            true => query,
            false => Query::Distinct {
                input: Box::new(query),
                by: Box::default(),
                repeats: Repeats::Dropped,
            },
        };
        Ok(BoundQuery { query, columns, collated })
    }

    /// A literal in one branch takes its type from the other.
    pub(super) fn union_side(
        &mut self,
        body: &ast::SetExpr,
        targets: &[DataType],
    ) -> Result<BoundQuery> {
        let body = without_parentheses(body);
        // DISTINCT and groups compare, and so need types of their own.
        self.keep_unknown = match body {
            ast::SetExpr::Select(select) => {
                matches!(select.distinct, None | Some(ast::Distinct::All)) && !groups(select)
            }
            _ => false,
        };
        let bound = self.nested(|binder| binder.set_expression(body, targets));
        self.keep_unknown = false;
        bound
    }

    /// The parameter without a type that a column of a select list is.
    fn parameter_in(&self, query: &Query, column: usize) -> Option<usize> {
        let value = match query {
            Query::Values(rows) => match &**rows {
                [row] => row.get(column)?,
                _ => return None,
            },
            Query::Project { expressions, .. } => expressions.get(column)?,
            _ => return None,
        };
        self.untyped_parameter(&Typed::new(value.clone(), DataType::Unknown))
    }

    pub(super) fn converted_columns(
        &mut self,
        bound: BoundQuery,
        columns: &[Column],
    ) -> Result<Query> {
        let mut expressions = Vec::with_capacity(columns.len());
        for (i, (from, to)) in bound.columns.iter().zip(columns).enumerate() {
            let from = match self.parameter_in(&bound.query, i) {
                Some(number) if from.data_type == DataType::Unknown => {
                    let bare = to.data_type.without_modifier();
                    self.parameters[number].get_or_insert(bare).clone()
                }
                _ => from.data_type.clone(),
            };
            let typed = Typed::new(Expr::Column(i as u16), from);
            expressions.push(self.coerce(typed, &to.data_type, CastContext::Implicit)?);
        }
        Ok(projected(bound.query, expressions))
    }
}

/// The type of what stands in both sides. A literal is not cut to the length of what it stands
/// beside.
fn of_both(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType as T;
    match (left, right) {
        (T::Unknown, T::Char(_)) | (T::Char(_), T::Unknown) => Some(T::Text),
        (T::Unknown, other) | (other, T::Unknown) => Some(other.without_modifier()),
        (left, right) => common_type(left, right),
    }
}

fn groups(select: &ast::Select) -> bool {
    match &select.group_by {
        ast::GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        ast::GroupByExpr::All(_) => true,
    }
}

fn sets(op: SetOp, all: bool, left: Query, right: Query) -> Query {
    Query::Sets { op, all, inputs: Box::new([left, right]) }
}

/// `(SELECT 1)` is `SELECT 1`, if nothing else is within the parentheses.
fn without_parentheses(body: &ast::SetExpr) -> &ast::SetExpr {
    match body {
        ast::SetExpr::Query(query) if is_plain(query) && query.locks.is_empty() => {
            without_parentheses(&query.body)
        }
        body => body,
    }
}
