//! Whether a program is over soon, whatever the data: it follows keys, and neither scans nor loops.
//!
//! Sessions ask, to run what may take long where it holds up no other session.

use crate::analysis::visit;
use crate::query::Query;
use crate::step::{Procedure, Step};

impl Procedure {
    pub fn is_short(&self) -> bool {
        self.body.iter().all(step_is_short) && self.is_brief()
    }

    /// Its expressions take no longer than its text says.
    pub fn is_brief(&self) -> bool {
        visit::numbered(&self.body).into_iter().all(|step| {
            let mut is_brief = true;
            visit::each_step_expr(step, &mut |_, expr| is_brief &= expr.is_brief());
            is_brief
        })
    }
}

fn step_is_short(step: &Step) -> bool {
    match step {
        Step::Fetch { query, .. } | Step::EmitQuery { query } => query_is_short(query),
        // As many turns as rows, and a short query has few.
        Step::ForRows { query, body, .. } => {
            query_is_short(query) && body.iter().all(step_is_short)
        }
        Step::If { then, otherwise, .. } => then.iter().chain(otherwise).all(step_is_short),
        Step::ForRange { .. } | Step::ForEach { .. } | Step::While { .. } => false,
        _ => true,
    }
}

fn query_is_short(query: &Query) -> bool {
    match query {
        Query::Values(_) | Query::Get { .. } => true,
        Query::Call { .. } | Query::Scan { .. } => false,
        Query::Recursive { .. } | Query::CameLast { .. } => false,
        Query::Filter { input, .. }
        | Query::Project { input, .. }
        | Query::Aggregate { input, .. }
        | Query::Sort { input, .. }
        | Query::Limit { input, .. }
        | Query::Numbered { input, .. }
        | Query::Window { input, .. }
        | Query::Distinct { input, .. } => query_is_short(input),
        Query::NestedLoop { outer, inner, .. } | Query::HashJoin { outer, inner, .. } => {
            query_is_short(outer) && query_is_short(inner)
        }
        Query::Apply { outer, inner, .. } => query_is_short(outer) && query_is_short(inner),
        Query::Sets { inputs, .. } => inputs.iter().all(query_is_short),
        Query::Append(inputs) | Query::Beside { inputs, .. } => inputs.iter().all(query_is_short),
    }
}
