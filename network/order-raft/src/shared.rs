//! The state of a Raft node that its pump, its message handlers, elections and recalls share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub(crate) use kit::sync::lock;
use openraft::{EmptyNode, LogId, Raft, StoredMembership};
use order::Network;
use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock};
use tokio::time::{Instant, sleep};

use crate::asking::Asking;
use crate::clocks::Clocks;
use crate::commits::Asked;
use crate::config::Config;
use crate::incarnations::Lead;
use crate::mailbox::Mailbox;
use crate::raft_types::Types;
use crate::store::Store;

/// What is committed at a follower is executed so much later at most, where no session there waits.
const EXECUTED_WITHIN: Duration = Duration::from_millis(3);
/// How long the pump sleeps at most.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What is said of a node that lacks what the others have pruned.
pub(crate) const TOO_FAR: &str =
    "the others have pruned blocks that this node lacks: restart it, and it takes the ledger anew";

/// See [`crate::recall`].
pub(crate) const LACKS_LEAST: &str = "a leader needs what this node may have helped to commit";
/// The same, for people.
pub(crate) const LACKS: &str = "this node has lost orders that it may have helped to acknowledge, and elects \
                     none that lacks them: start the members that are down; if those have lost \
                     them too, tally cluster recover";

/// A handle; clones are the same node.
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub config: Config,
    pub began: Instant,
    pub store: Store,
    /// Another one, where a full disk has ended the one before.
    pub raft: Mutex<Option<Raft<Types>>>,
    pub settings: Arc<openraft::Config>,
    /// It stops: it drafts nothing any more, and does not stand for election.
    pub leaving: AtomicBool,
    /// The ledger has named this node, and does not any more.
    pub removed: AtomicBool,
    /// Entries that are committed, as this node knows.
    pub committed: Arc<Committed>,
    pub state: Mutex<State>,
    /// For the pump.
    pub pump: Arc<Notify>,
    /// That this node was started in.
    pub runtime: Handle,
    pub network: Arc<dyn Network>,
    pub asking: Asking,
    pub clocks: Arc<Clocks>,
    /// The others have pruned what this node lacks.
    pub too_far: AtomicBool,
    /// Why it takes no part yet.
    pub waits: Mutex<Option<String>>,
    /// The incarnations that this node's lead counts for.
    pub lead: Arc<Lead>,
    /// By another member, of this one as its leader.
    pub asked: Arc<Asked>,
    /// Held for reading while a leader or candidate is answered, so that what is told to a member
    /// in doubt holds all that was said to those before.
    pub answering: RwLock<()>,
}

impl Shared {
    pub fn wake_pump(&self) {
        self.pump.notify_one();
    }

    pub fn committed_count(&self) -> u64 {
        self.committed.count.load(Ordering::Acquire)
    }
}

/// An entry, and the members as of it.
type Last = (Option<LogId<u64>>, StoredMembership<u64, EmptyNode>);

#[derive(Default)]
pub(crate) struct Committed {
    /// One more than the index of the last.
    pub count: AtomicU64,
    pub last: Mutex<Last>,
    pub wake: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// The pump's.
    pub pump: Arc<Notify>,
    /// By this node's sessions, for something to be ordered, or for what is.
    pub awaited: Asked,
    /// A task is about that wakes for what is committed.
    is_deferred: AtomicBool,
}

impl Committed {
    pub fn up_to(count: u64, last: Last) -> Committed {
        let (count, last) = (AtomicU64::new(count), Mutex::new(last));
        Committed { count, last, ..Committed::default() }
    }

    /// Has what is committed executed: at once where this node leads or its sessions have asked for
    /// something lately, else several entries at a time, as each wake-up costs as much as some
    /// transactions.
    pub fn wake_soon(self: &Arc<Self>, leads: bool) {
        if leads || self.awaited.lately() {
            return self.wake();
        }
        if self.is_deferred.swap(true, Ordering::AcqRel) {
            return;
        }
        let committed = Arc::clone(self);
        tokio::spawn(async move {
            sleep(EXECUTED_WITHIN).await;
            committed.wake();
        });
    }

    /// A session of this node waits for what is committed.
    pub fn note_awaited(&self) {
        self.awaited.note();
        if self.is_deferred.load(Ordering::Acquire) {
            self.wake();
        }
    }

    pub fn wake(&self) {
        self.is_deferred.swap(false, Ordering::AcqRel);
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

pub(crate) struct State {
    pub mailbox: Mailbox,
    /// When a leader was heard of last, and when one was known that could order.
    pub heard: Instant,
    pub fine: Instant,
    /// The newest entries that a leader has sent were committed without this member.
    pub is_behind: bool,
    /// When a draft was refused last for its time, and why.
    pub refused: Option<(Instant, String)>,
}

/// How a node stands, for people.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    pub id: u64,
    pub term: u64,
    pub leader: Option<u64>,
    /// Entries of its log, and those of them that it knows to be committed.
    pub entries: u64,
    pub committed: u64,
    /// Why it takes no part any more.
    pub stopped: Option<String>,
    /// Why it takes no part yet.
    pub waits: Option<String>,
    /// Why nothing can be ordered, as far as it knows, for some time now.
    pub hindered: Option<String>,
}

impl Node {
    pub(crate) fn raft(&self) -> io::Result<Raft<Types>> {
        lock(&self.0.raft).clone().ok_or_else(|| io::Error::other("the node is starting"))
    }

    /// Whether this node lacks blocks that the others have pruned.
    pub fn is_too_far(&self) -> bool {
        self.0.too_far.load(Ordering::Acquire)
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}
