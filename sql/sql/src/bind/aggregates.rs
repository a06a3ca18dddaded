//! Aggregate calls, and the rule that everything else must be grouped.
//!
//! While a select list is bound, an aggregate call becomes the placeholder `Column(FIRST + n)`,
//! where n is its place in the list of calls. Afterwards each expression is rewritten over the
//! aggregated row: a subexpression equal to a grouping expression becomes that group's column, a
//! placeholder becomes the aggregate's, and any column left over is an error.

use super::state::{Aggregates, Place};
use procedure::Expr;
use procedure::query::{Aggregate, AggregateFunction};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed};
use super::placeholders::{FIRST_AGGREGATE, is_applied, is_grouping, is_window};
use super::scope::Scope;

pub(super) fn aggregate_function(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Avg,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "bool_and" | "every" => AggregateFunction::BoolAnd,
        "bool_or" => AggregateFunction::BoolOr,
        "array_agg" => AggregateFunction::ArrayAgg,
        _ => return None,
    })
}

impl Aggregates {
    /// Whether an argument of an aggregate is being bound.
    pub fn is_inside(&self) -> bool {
        self.place == Place::Inside
    }
}

impl Binder<'_> {
    /// Binds a call of an aggregate and gives its placeholder.
    pub(super) fn aggregate_call(
        &mut self,
        scope: &Scope,
        name: &str,
        function: AggregateFunction,
        call: &ast::Function,
    ) -> Result<Typed> {
        self.check_place()?;
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}() does not exist"),
            ));
        };
        if !list.clauses.is_empty() || !call.within_group.is_empty() {
            return Err(Error::unsupported("ORDER BY within an aggregate"));
        }
        let place = std::mem::replace(&mut self.aggregates.place, Place::Inside);
        let bound = self.aggregate_parts(scope, name, function, call, list);
        self.aggregates.place = place;
        let aggregate = bound?;
        let data_type = aggregate.result.clone();
        let known = self.aggregates.calls.iter().position(|c| *c == aggregate);
        let n = known.unwrap_or(self.aggregates.calls.len());
        if known.is_none() {
            self.aggregates.calls.push(aggregate);
        }
        Ok(Typed::new(Expr::Column(FIRST_AGGREGATE + n as u16), data_type))
    }

    fn check_place(&self) -> Result<()> {
        let message = match self.aggregates.place {
            Place::Allowed => return Ok(()),
            Place::Inside => "aggregate function calls cannot be nested",
            Place::Where => "aggregate functions are not allowed in WHERE",
            Place::GroupBy => "aggregate functions are not allowed in GROUP BY",
            Place::JoinCondition => "aggregate functions are not allowed in JOIN conditions",
            Place::Elsewhere => "aggregate functions are not allowed here",
        };
        Err(Error::new(SqlState::GROUPING_ERROR, message))
    }

    pub(super) fn aggregate_parts(
        &mut self,
        scope: &Scope,
        name: &str,
        function: AggregateFunction,
        call: &ast::Function,
        list: &ast::FunctionArgumentList,
    ) -> Result<Aggregate> {
        use ast::{FunctionArg, FunctionArgExpr};
        let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        let input = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
                if function == AggregateFunction::Count =>
            {
                if distinct {
                    let what = "syntax error at or near \"*\"";
                    let hint = "Name the columns that are to be distinct.";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, what).with_hint(hint));
                }
                None
            }
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => {
                Some(self.expression(scope, argument)?)
            }
            _ => {
                return Err(Error::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {name} with these arguments does not exist"),
                ));
            }
        };
        let filter = match &call.filter {
            None => None,
            Some(filter) => {
                let filter = self.expression(scope, filter)?;
                Some(self.boolean(filter, "FILTER")?)
            }
        };
        let of_rows = input.iter().map(|input| &input.expr).chain(&filter);
        let is_of_outer = of_rows.clone().all(|expr| expr.columns().is_empty())
            && of_rows.into_iter().any(|expr| self.reads_outside(expr));
        if is_of_outer {
            // SQL has it aggregate the rows of the outer query.
            return Err(Error::unsupported(
                "an aggregate of the outer query's columns alone, in a subquery",
            ));
        }
        let (input, result) = self.aggregate_types(name, function, input)?;
        Ok(Aggregate { function, input, distinct, filter, result })
    }

    /// PostgreSQL's result types: sums and averages are wider than what they add up.
    fn aggregate_types(
        &mut self,
        name: &str,
        function: AggregateFunction,
        input: Option<Typed>,
    ) -> Result<(Option<Expr>, DataType)> {
        use AggregateFunction::*;
        use DataType as T;
        let Some(input) = input else {
            return Ok((None, T::Int8));
        };
        let input = self.resolved(input)?;
        let not_for_type = |t: &DataType| {
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}({t}) does not exist"),
            )
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
        };
        let result = match (function, &input.data_type) {
            (Count, _) => T::Int8,
            (Sum, T::Int2 | T::Int4) => T::Int8,
            (Sum | Avg, T::Int2 | T::Int4 | T::Int8 | T::Numeric(_)) => T::Numeric(None),
            (Sum | Avg, T::Float8) => T::Float8,
            (Min | Max, T::Bool | T::Uuid | T::Void) => return Err(not_for_type(&input.data_type)),
            (Min | Max, T::Varchar(_)) => T::Text,
            (Min | Max, t) => t.without_modifier(),
            (BoolAnd | BoolOr, T::Bool) => T::Bool,
            (ArrayAgg, t) if t.array_oid() != 0 => T::Array(Box::new(t.without_modifier())),
            (_, t) => return Err(not_for_type(t)),
        };
        let kept = input.data_type.clone();
        let expr = self.coerce(input, &kept, CastContext::Implicit)?;
        Ok((Some(expr), result))
    }
}

/// Rewrites `expr` from the row before grouping to the one after: groups, then aggregates.
pub(super) fn over_groups(expr: &mut Expr, groups: &[Expr], scope: &Scope) -> Result<()> {
    let mut ungrouped = None;
    expr.rewrite(&mut |e| {
        if let Some(group) = groups.iter().position(|g| g == e) {
            *e = Expr::Column(group as u16);
            return true;
        }
        match e {
            Expr::Column(c) if *c >= FIRST_AGGREGATE => {
                *c = *c - FIRST_AGGREGATE + groups.len() as u16;
                true
            }
            Expr::Column(c) if is_applied(*c) || is_window(*c) || is_grouping(*c) => true,
            Expr::Column(c) => {
                ungrouped.get_or_insert(*c);
                true
            }
            _ => false,
        }
    });
    match ungrouped {
        None => Ok(()),
        Some(column) => Err(Error::new(
            SqlState::GROUPING_ERROR,
            format!(
                "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                scope.describe(column)
            ),
        )),
    }
}
