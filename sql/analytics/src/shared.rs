//! What all plans of a node share: DataFusion's functions, rules and limits, the images that scans
//! read, and the threads that run them.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::ExprPlanner;
use snapshot::Images;

use crate::running::Threads;

/// What plans keep when they run.
pub(crate) struct Shared {
    pub(crate) images: Arc<Images>,
    /// Functions, rules, limits: all but a query's own.
    pub(crate) state: SessionState,
    /// The same without filters that move between operators: they find their columns again by
    /// name, the first of it, and would drop other rows where rows have two of one name.
    pub(crate) still_state: SessionState,
    /// What operators mean, ours before DataFusion's.
    pub(crate) operators: Vec<Arc<dyn ExprPlanner>>,
    /// The same, where the row executor's answer is asked for.
    pub(crate) agreeing_operators: Vec<Arc<dyn ExprPlanner>>,
    pub(crate) threads: Threads,
}
