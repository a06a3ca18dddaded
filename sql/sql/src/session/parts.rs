//! The parts of a session's state: kept statements, the running statement, the blocks it has seen,
//! and its share of what all sessions of the node share.

use std::sync::Arc;

use engine::{Head, ParameterTypes};
use kit::pool::Lease;
use procedure::{Frame, Notice};
use rustc_hash::FxHashMap;
use types::{DataType, Height, Origin};

use super::guard::{Guard, query_frame};
use super::prepared::{Lifted, Prepared};
use super::shared_state::activity::{Shown, State, now_us};
use super::shared_state::advisory::AdvisoryOwner;
use super::shared_state::channels::Listener;
use super::shared_state::{Present, SharedState};
use crate::settings::session_info::SessionInfo;

/// Statements that it keeps.
pub(super) struct Statements {
    pub bound: FxHashMap<String, Arc<Prepared>>,
    pub lifted: FxHashMap<(String, ParameterTypes), Lifted>,
    /// SQL-level PREPARE.
    pub named: FxHashMap<String, (Vec<Option<DataType>>, String)>,
    /// Covers those that were prepared by name.
    pub named_lease: Lease,
    /// Covers those that are kept bound.
    pub lease: Lease,
    /// What these take.
    pub bytes: u64,
}

impl Statements {
    pub fn new(guard: &Guard) -> Statements {
        let (bound, lifted, named) = Default::default();
        let (named_lease, lease) = (guard.lease(), guard.lease());
        Statements { bound, lifted, named, named_lease, lease, bytes: 0 }
    }
}

/// The statement at hand.
pub(super) struct Running {
    pub frame: Frame,
    /// Schema version of the program that runs, or of the COPY that is in progress.
    pub version: u64,
    /// The analytical engine's runs that have not ended hold it, too.
    pub runs: Arc<()>,
    /// Covers the rows that it answers.
    pub answered: Option<Lease>,
    /// Told to the client with the next answer.
    pub notices: Vec<Notice>,
}

impl Running {
    pub fn new(guard: &Arc<Guard>) -> Running {
        let frame = query_frame(guard);
        Running { frame, version: 0, runs: Arc::default(), answered: None, notices: Vec::new() }
    }
}

/// Blocks that it knows of.
#[derive(Default)]
pub(super) struct Seen {
    /// The one that the last query read.
    pub last_read: Option<Head>,
    /// The newest that it has read or that holds what it wrote, here or where it was before.
    pub height: Height,
    /// The one that decided its last transaction which committed, and where that was ordered.
    pub last_commit: Option<(Height, Origin)>,
}

/// Its share of what all sessions have in common.
pub(super) struct Shared {
    pub advisory: AdvisoryOwner,
    /// Some of its advisory locks end with the transaction, or with the statement.
    pub has_transaction_locks: bool,
    pub listener: Listener,
    pub present: Present,
}

impl Shared {
    pub fn new(shared_state: &Arc<SharedState>, info: &SessionInfo) -> Shared {
        let (process, now_us) = (info.backend_pid, now_us());
        let shown = Shown {
            process,
            user: info.user.clone(),
            database: info.database.clone(),
            application: String::new(),
            client: None,
            state: State::Idle,
            text: String::new(),
            began_us: now_us,
            transaction_us: None,
            statement_us: None,
            changed_us: now_us,
        };
        Shared {
            advisory: shared_state.advisory.owner(process),
            has_transaction_locks: false,
            listener: shared_state.channels.listener(process),
            present: shared_state.enter(shown),
        }
    }
}
