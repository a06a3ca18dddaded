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
    let is_short = match query {
        Query::Call { .. } | Query::Scan { .. } => false,
        Query::Around { .. } | Query::Recursive { .. } | Query::CameLast { .. } => false,
        _ => true,
    };
    is_short && query.inputs().all(query_is_short)
}
