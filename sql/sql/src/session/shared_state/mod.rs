//! What sessions of one node share beside the ledger: advisory locks, channels, and the power to
//! end one another's statements.
//!
//! Nothing of it is ordered or recorded, no other node knows of it, and a restart begins without
//! it. A session's share ends with the session, however it ends.

pub mod activity;
pub mod advisory;
pub mod channels;
pub mod databases;

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::stream::BoxStream;
use ledger::Hash;
use order::Signature;
use parking_lot::Mutex;
use tokio::sync::watch;
use types::{Height, Result};

use activity::{Activities, Activity, Shown};
use advisory::AdvisoryLocks;
use channels::Channels;
use databases::{Databases, ShownDatabase};

use crate::schema::catalog::{Catalog, Routine};
use crate::session::ledger_proofs::LedgerProofs;

#[derive(Default)]
pub struct SharedState {
    pub advisory: Arc<AdvisoryLocks>,
    pub channels: Arc<Channels>,
    /// Set by the front end that has the connections; without one there is no session to signal.
    pub signals: OnceLock<Arc<dyn Signals>>,
    /// Set by the node, which has the ledger's files.
    pub proofs: OnceLock<Arc<dyn LedgerProofs>>,
    /// The height of the newest certificate, of a ledger whose members vote. Set by the node.
    pub certified: OnceLock<watch::Receiver<Height>>,
    /// Set by the front end that checks passwords.
    pub passwords: OnceLock<Arc<dyn Passwords>>,
    /// What its sessions do.
    pub activities: Arc<Activities>,
    /// The function by which the node judges what it is to approve, by its key. Set by the node.
    pub approval_check: OnceLock<String>,
    /// The same as it was found last, under that catalog.
    pub(super) judge: Mutex<Option<(Arc<Catalog>, Result<Arc<Routine>>)>>,
    /// Set by a node whose ledger makes databases.
    pub databases: OnceLock<Arc<dyn Databases>>,
    /// The databases of the node beside its own ledger. Set by the node.
    pub neighbours: OnceLock<Box<dyn Fn() -> Vec<ShownDatabase> + Send + Sync>>,
    /// Set by a node that is a member of a cluster.
    pub endorsers: OnceLock<Arc<dyn Endorsers>>,
}

/// Makes what passwords are checked by.
pub trait Passwords: Send + Sync {
    /// A verifier, with a salt of its own. It takes a while.
    ///
    /// # Errors
    /// It can be no password, or there is no salt to be had.
    fn verifier(&self, password: &str) -> Result<String>;
}

/// The nodes of the other members.
pub trait Endorsers: Send + Sync {
    /// What each of them says to an envelope of that id, by its name: its approval, or why not. All
    /// are asked at once, within the runtime; the answers come as they are given. `approves`: this
    /// node has come to the same itself, and what it signs is among them, with what others have it
    /// sign.
    fn ask(
        &self,
        asked: (Bytes, Hash),
        approves: bool,
    ) -> BoxStream<'static, (String, Result<Signature>)>;
}

/// How answers of this node itself are called.
pub const THIS_NODE: &str = "this node";

/// Reaches the sessions of the node by their number.
pub trait Signals: Send + Sync {
    /// Ends the session's running statement; false: there is no such session.
    fn cancel(&self, process: i32) -> bool;

    /// Ends the session; false: there is no such session.
    fn terminate(&self, process: i32) -> bool;
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedState").finish_non_exhaustive()
    }
}

impl SharedState {
    pub(super) fn enter(self: &Arc<Self>, shown: Shown) -> Present {
        let process = shown.process;
        let activity = self.activities.enter(shown);
        Present { activity, shared_state: Arc::clone(self), process }
    }

    /// The numbers of the sessions that are open.
    pub fn processes(&self) -> Vec<i32> {
        self.activities.processes()
    }

    pub(super) fn user(&self, process: i32) -> Option<String> {
        self.activities.user(process)
    }
}

/// A session that others see, and can signal.
pub(super) struct Present {
    pub activity: Arc<Activity>,
    shared_state: Arc<SharedState>,
    process: i32,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.shared_state.activities.leave(self.process);
    }
}
