//! The operations of a fragment on its record (read, update, insert, delete), and an estimate of
//! their cost for balancing queues.

use std::sync::Arc;

use procedure::access::constant_bytes;
use procedure::step::Procedure;
use procedure::{CommandCode, Expr, WRITTEN_BYTES_PER_UNIT};
use types::ColumnId;

/// What writing a row costs, with some steps around it.
const FRAGMENT_UNITS: u64 = 48;

/// What a fragment may spend on an expression that its text does not bound. A call whose
/// expressions need more runs again, by its own meter.
pub const EXPRESSION_UNITS: u64 = 512;

pub enum Action {
    Read {
        columns: Box<[ColumnId]>,
    },
    Exists,
    Update {
        code: Arc<CommandCode>,
        inputs: Box<[Expr]>,
        /// Whether it fails follows from the arguments, so the planner has tried.
        decided: bool,
    },
    Insert {
        values: Box<[Expr]>,
        hidden_row_id: bool,
    },
    /// `is_long`: of a table whose rows may be long.
    Delete {
        is_long: bool,
    },
    /// The first row of a query, by a procedure that answers with it. Planners alone do this.
    Query(Arc<Procedure>),
    /// The call is turned down unless this holds. Planners alone do this.
    Require(Expr),
}

impl Action {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let exprs: &[Expr] = match self {
            Action::Update { inputs, .. } => inputs,
            Action::Insert { values, .. } => values,
            Action::Require(condition) => std::slice::from_ref(condition),
            Action::Read { .. } | Action::Exists | Action::Delete { .. } | Action::Query(_) => &[],
        };
        exprs.iter()
    }

    /// Expressions that are paid for as they are computed.
    pub fn long_exprs(&self) -> usize {
        self.exprs().filter(|expr| !expr.is_brief()).count()
    }

    /// It inserts a row under a hidden key.
    pub fn is_hidden(&self) -> bool {
        matches!(self, Action::Insert { hidden_row_id: true, .. })
    }

    pub fn is_metered(&self) -> bool {
        matches!(self, Action::Update { code, .. } if !code.is_brief())
    }

    /// It changes a row that may be long, without a look at it.
    pub fn is_unweighed(&self) -> bool {
        match self {
            Action::Update { code, .. } => !code.long.is_empty(),
            Action::Delete { is_long } => *is_long,
            Action::Read { .. } | Action::Exists | Action::Insert { .. } => false,
            Action::Query(_) | Action::Require(_) => false,
        }
    }

    pub fn units(&self) -> u64 {
        let text: usize = self.exprs().map(constant_bytes).sum();
        let units = FRAGMENT_UNITS + (text / WRITTEN_BYTES_PER_UNIT) as u64;
        let units = units + self.long_exprs() as u64 * EXPRESSION_UNITS;
        match self {
            Action::Update { code, .. } => units + code.units,
            _ => units,
        }
    }
}
