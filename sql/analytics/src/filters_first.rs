//! Filters before the joins that subqueries have become.
//!
//! DataFusion makes a join of `EXISTS`, `IN` and of a subquery that is one value, and puts it below
//! what else WHERE says. The rule that finds an order for FROM, in which each table has something
//! to be joined by, looks for that only directly above FROM: it finds nothing, and leaves a cross
//! join of tables that have nothing to do with one another.
//!
//! ```text
//!     Filter: a.x = c.x AND b.y = c.y             Anti join
//!       └ Anti join                                 ├ Filter: a.x = c.x AND b.y = c.y
//!           ├ Cross join: a, b, c          ►        │   └ Cross join: a, b, c
//!           └ subquery                              └ subquery
//! ```
//!
//! All these joins keep or leave out rows of their left side, or add columns to them: what is said
//! of that side's columns alone can be asked before.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::three_valued::has_subquery;

#[derive(Debug)]
pub(crate) struct FiltersFirst;

fn keeps_left(of: JoinType) -> bool {
    use JoinType as J;
    matches!(of, J::Left | J::LeftSemi | J::LeftAnti | J::LeftMark)
}

/// Whether a condition asks for nothing but what a plan gives.
fn is_of(condition: &Expr, plan: &LogicalPlan) -> bool {
    let columns = condition.column_refs();
    let is_known = columns.iter().all(|column| plan.schema().has_column(column));
    is_known && !columns.is_empty() && !condition.is_volatile() && !has_subquery(condition)
}

fn filtered(conditions: Vec<Expr>, plan: LogicalPlan) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(all) => Filter::try_new(all, Arc::new(plan)).map(LogicalPlan::Filter),
        None => Ok(plan),
    }
}

impl OptimizerRule for FiltersFirst {
    fn name(&self) -> &str {
        "filters_first"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Join(join) = &*filter.input else { return Ok(Transformed::no(plan)) };
        if !keeps_left(join.join_type) {
            return Ok(Transformed::no(plan));
        }
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (before, after): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| is_of(condition, &join.left));
        if before.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let left = filtered(before, LogicalPlan::clone(&join.left))?;
        let join = Join { left: Arc::new(left), ..join.clone() };
        filtered(after, LogicalPlan::Join(join)).map(Transformed::yes)
    }
}
