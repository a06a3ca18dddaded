//! EXISTS where DataFusion knows none: in a select list, in ON of an outer join, in an argument of
//! an aggregate.
//!
//! There it becomes a column of the rows below, as DataFusion has it in WHERE: a join that adds to
//! each row whether the subquery has one for it.
//!
//! ```text
//!     Projection: a, EXISTS(subquery)             Projection: a, mark
//!       └ rows                            ►         └ Mark join
//!                                                       ├ rows
//!                                                       └ subquery
//! ```
//!
//! What the subquery asks of the outer row becomes the join's condition, pulled up from its WHERE.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Join, JoinType, Subquery};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use types::Error;

use crate::correlated::unsupported;
use crate::faults::raise;

/// The plan with marks for EXISTS outside of WHERE. `count`: of a query's marks so far.
pub(crate) fn marked(plan: LogicalPlan, count: &Cell<usize>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| node(plan, count)).data()
}

fn node(plan: LogicalPlan, count: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let mut has_one = false;
    plan.apply_expressions(|expr| {
        has_one |= has_exists(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    match plan {
        LogicalPlan::Join(join) if has_one => of_join(join, count),
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
            if has_one =>
        {
            of_rows(plan, count)
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn has_exists(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Exists(_)))).unwrap_or(true)
}

/// Rows that marks are added to.
struct Rows<'a> {
    plan: LogicalPlan,
    count: &'a Cell<usize>,
}

impl Rows<'_> {
    /// The expression with marks for its EXISTS.
    fn mark(&mut self, expr: Expr) -> Result<Expr> {
        let mark = |expr: Expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                let mark = self.join(&subquery.subquery)?;
                Ok(Transformed::yes(if negated { Expr::Not(Box::new(mark)) } else { mark }))
            }
            expr => Ok(Transformed::no(expr)),
        };
        expr.transform_up(mark).data()
    }

    fn join(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
        let within = subquery.clone().rewrite(&mut pull_up).data()?;
        if !pull_up.can_pull_up {
            return Err(raise(unsupported()));
        }
        self.count.set(self.count.get() + 1);
        let alias = format!("__mark_{}", self.count.get());
        let within = LogicalPlanBuilder::from(within).alias(alias.as_str())?.build()?;
        let inner = pull_up.correlated_subquery_cols_map.into_values().flatten();
        let inner: BTreeSet<Column> = inner.collect();
        let renamed = |expr: Expr| match expr {
            Expr::Column(column) if inner.contains(&column) => {
                let column = Column::new(Some(alias.as_str()), column.name);
                Ok(Transformed::yes(Expr::Column(column)))
            }
            expr => Ok(Transformed::no(expr)),
        };
        let condition = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
        let condition = condition.transform_up(renamed).data()?;
        let is_known = |column: &&Column| {
            self.plan.schema().has_column(column) || within.schema().has_column(column)
        };
        // One of a query further out.
        if !condition.column_refs().iter().all(is_known) {
            return Err(raise(unsupported()));
        }
        let rows = std::mem::take(&mut self.plan);
        self.plan = LogicalPlanBuilder::from(rows)
            .join_on(within, JoinType::LeftMark, Some(condition))?
            .build()?;
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }
}

fn of_rows(plan: LogicalPlan, count: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let input = LogicalPlan::clone(plan.inputs()[0]);
    let columns = plan.schema().columns();
    let shows_all = matches!(plan, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
    let mut rows = Rows { plan: input, count };
    let names = NamePreserver::new(&plan);
    let marked = plan.clone().map_expressions(|expr| {
        let name = names.save(&expr);
        rows.mark(expr).map(|expr| Transformed::yes(name.restore(expr)))
    })?;
    let exprs = marked.data.expressions();
    let marked = marked.data.with_new_exprs(exprs, vec![rows.plan])?;
    let marked = match shows_all {
        true => LogicalPlanBuilder::from(marked)
            .project(columns.into_iter().map(Expr::Column))?
            .build()?,
        false => marked,
    };
    Ok(Transformed::yes(marked))
}

/// ON of an outer join: each EXISTS asks one of its sides.
fn of_join(mut join: Join, count: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let columns = join.schema.columns();
    let mut left = Rows { plan: LogicalPlan::clone(&join.left), count };
    let mut right = Rows { plan: LogicalPlan::clone(&join.right), count };
    let condition = join.filter.take().unwrap_or_else(|| lit(true));
    let mark = |expr: Expr| match &expr {
        Expr::Exists(Exists { subquery, .. }) => {
            let asked: Vec<Column> = asked(subquery);
            let is_of = |plan: &LogicalPlan| asked.iter().all(|c| plan.schema().has_column(c));
            // Each row's mark is the same on either side if nothing of it is asked.
            if is_of(&right.plan) {
                right.mark(expr).map(Transformed::yes)
            } else if is_of(&left.plan) {
                left.mark(expr).map(Transformed::yes)
            } else {
                let error = Error::unsupported("a subquery over both sides of an outer join");
                Err(raise(error))
            }
        }
        _ => Ok(Transformed::no(expr)),
    };
    join.filter = Some(condition.transform_up(mark).data()?);
    (join.left, join.right) = (Arc::new(left.plan), Arc::new(right.plan));
    let plan = LogicalPlan::Join(join).recompute_schema()?;
    let columns = columns.into_iter().map(Expr::Column);
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(Transformed::yes(plan))
}

/// The columns of outer rows that a subquery names.
fn asked(subquery: &Subquery) -> Vec<Column> {
    let outer = subquery.subquery.all_out_ref_exprs().into_iter();
    let outer = outer.filter_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    outer.collect()
}
