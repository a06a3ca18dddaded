//! Cancellation inside operators that could otherwise run for hours without yielding.
//!
//! A DataFusion task yields when it waits, or in a scan after a number of batches. A join makes any
//! number of batches of one that it reads, and a nested loop whose condition is never true makes
//! none: aborting its task would have no effect for hours. So joins are wrapped in an operator that
//! yields after a number of output batches, and the condition of a nested loop looks at a flag each
//! time it is evaluated, for some thousand pairs of rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use types::{Error, SqlState};

use crate::faults::raise;

/// Set when a run's rows are not wanted any more.
pub(crate) type Ended = Arc<AtomicBool>;

pub(crate) fn check(ended: &Ended) -> Result<()> {
    match ended.load(Ordering::Relaxed) {
        true => Err(raise(Error::new(SqlState::QUERY_CANCELED, "the query was ended"))),
        false => Ok(()),
    }
}

/// The same operators, but they end soon after the flag is set and their task was aborted.
pub(crate) fn interruptible(
    plan: Arc<dyn ExecutionPlan>,
    ended: &Ended,
) -> Result<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_up(|node| {
        let guarded: Arc<dyn ExecutionPlan> = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => Arc::new(with_guard(join, ended)?),
            None => node.clone(),
        };
        let is_join = guarded.downcast_ref::<NestedLoopJoinExec>().is_some()
            || guarded.downcast_ref::<CrossJoinExec>().is_some()
            || guarded.downcast_ref::<HashJoinExec>().is_some()
            || guarded.downcast_ref::<SortMergeJoinExec>().is_some();
        Ok(match is_join {
            true => Transformed::yes(Arc::new(CooperativeExec::new(guarded)) as _),
            false => Transformed::no(node),
        })
    });
    watched.data()
}

fn with_guard(join: &NestedLoopJoinExec, ended: &Ended) -> Result<NestedLoopJoinExec> {
    let guarded = join.filter().map(|filter| {
        let condition = filter.expression().clone();
        let guard = Guard { condition, ended: ended.clone() };
        JoinFilter::new(Arc::new(guard), filter.column_indices().to_vec(), filter.schema().clone())
    });
    NestedLoopJoinExecBuilder::from(join).with_filter(guarded).build()
}

/// A condition that is an error once its run has ended.
struct Guard {
    condition: Arc<dyn PhysicalExpr>,
    ended: Ended,
}

impl PartialEq for Guard {
    fn eq(&self, other: &Guard) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Guard {}

impl Hash for Guard {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.condition, f)
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.condition, f)
    }
}

impl PhysicalExpr for Guard {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check(&self.ended)?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(Guard { condition, ended: self.ended.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
