//! Subqueries that name columns of the query around them.
//!
//! DataFusion pulls what such a subquery asks of the outer row up from its WHERE, and makes it the
//! condition of a join. Two things go wrong on the way, and are seen to here, before:
//!
//! - It pulls through operators whose answer depends on which rows they see, and then they see
//!   others. Such subqueries are refused.
//! - The columns that a condition compares come up with it and lose the names of their tables, so
//!   that those of two tables may become one. Where that could be, they get names of their own
//!   first, below the WHERE that names them.
//!
//! What is still a subquery when everything was tried is refused when the query is planned, not
//! when it runs ([`check_decorrelated`]).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder, lit};
use types::Error;

use crate::faults::raise;

pub(crate) fn unsupported() -> Error {
    Error::unsupported("this subquery of each row")
        .with_hint("A join with the subquery may say the same.")
}

fn subquery_mut(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// The plan with subqueries whose conditions may be pulled up. `count`: of names so far.
///
/// # Errors
/// 0A000 for a subquery that none can be pulled out of.
pub(crate) fn pullable(plan: LogicalPlan, count: &Cell<usize>) -> Result<LogicalPlan> {
    let node = |plan: LogicalPlan| {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|mut expr| {
                let is_value = matches!(expr, Expr::ScalarSubquery(_));
                let Some(subquery) = subquery_mut(&mut expr) else {
                    return Ok(Transformed::no(expr));
                };
                check_within(&subquery.subquery, is_value, true)?;
                if !have_names(&subquery.subquery)? {
                    let plan = LogicalPlan::clone(&subquery.subquery);
                    subquery.subquery = Arc::new(named(plan, count)?);
                }
                Ok(Transformed::yes(expr))
            });
            Ok(expr?.update_data(|expr| name.restore(expr)))
        })
    };
    plan.transform_up_with_subqueries(node).data()
}

/// Whether the columns that conditions on outer rows compare have names that nothing else has.
fn have_names(plan: &LogicalPlan) -> Result<bool> {
    let (mut all, mut compared) = (BTreeSet::new(), BTreeSet::new());
    plan.apply(|plan| {
        all.extend(plan.schema().columns());
        if let LogicalPlan::Filter(filter) = plan {
            let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter();
            for condition in conditions.filter(Expr::contains_outer) {
                compared.extend(condition.column_refs().into_iter().cloned());
                condition.apply(|expr| {
                    if let Expr::OuterReferenceColumn(_, column) = expr {
                        compared.insert(column.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let is_alone = |column: &Column| {
        let mut same = all.iter().filter(|other| other.name == column.name);
        same.all(|other| other == column)
    };
    Ok(compared.iter().all(is_alone))
}

fn named(plan: LogicalPlan, count: &Cell<usize>) -> Result<LogicalPlan> {
    let node = |plan: LogicalPlan| match plan {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            Ok(Transformed::yes(named_in(filter, count)?))
        }
        plan => plan.recompute_schema().map(Transformed::yes),
    };
    plan.transform_up(node).data()
}

/// WHERE over the same rows, with more columns: what its conditions on outer rows compare.
fn named_in(filter: Filter, count: &Cell<usize>) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> =
        filter.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut rename = |expr: Expr| match expr {
        Expr::Column(column) => {
            count.set(count.get() + 1);
            let name = format!("compared:{}", count.get());
            columns.push(Expr::Column(column).alias(name.as_str()));
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
        }
        expr => Ok(Transformed::no(expr)),
    };
    let conditions = split_conjunction_owned(filter.predicate).into_iter();
    let conditions = conditions.map(|condition| match condition.contains_outer() {
        true => condition.transform_up(&mut rename).data(),
        false => Ok(condition),
    });
    let conditions = conditions.collect::<Result<Vec<Expr>>>()?;
    let input = LogicalPlanBuilder::from(LogicalPlan::clone(&filter.input));
    let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
    input.project(columns)?.filter(predicate)?.build()
}

/// `is_value`: DataFusion knows what aggregates of no rows are. `at_top`: below nothing that looks
/// at rows.
fn check_within(plan: &LogicalPlan, is_value: bool, at_top: bool) -> Result<()> {
    if plan.all_out_ref_exprs().is_empty() {
        return Ok(());
    }
    let is_below = !plan.inputs().iter().all(|input| input.all_out_ref_exprs().is_empty());
    let depends = match plan {
        LogicalPlan::Window(_)
        | LogicalPlan::RecursiveQuery(_)
        | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Limit(limit) => !at_top || limit.skip.is_some(),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty() && !aggregate.aggr_expr.is_empty() && !is_value
        }
        _ => false,
    };
    if depends && is_below {
        return Err(raise(unsupported()));
    }
    let at_top = at_top
        && matches!(
            plan,
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_)
        );
    plan.inputs().into_iter().try_for_each(|input| check_within(input, is_value, at_top))
}

/// # Errors
/// 0A000 for a subquery that is left when everything was tried.
pub(crate) fn check_decorrelated(plan: &LogicalPlan) -> Result<()> {
    let is_left = |expr: &Expr| {
        Ok(match expr {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            Expr::OuterReferenceColumn(..) => true,
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    };
    let check = |plan: &LogicalPlan| {
        plan.apply_expressions(|expr| match expr.exists(is_left)? {
            true => Err(raise(unsupported())),
            false => Ok(TreeNodeRecursion::Continue),
        })
    };
    plan.apply_with_subqueries(check).map(|_| ())
}
