//! The state of voting, which the sequencer, the voting thread and the senders share.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kit::sync::lock;
use ledger::Hash;
use ledger::votes::counting::wire;
use ledger::votes::{KeptCertificates, Vote};
use tokio::sync::watch;
use types::{Error, Height};

use super::heard::Standing;
use super::inbox::{Block, Inbox};
use crate::Answer;

/// Blocks whose results wait for the thread.
const BLOCKS_MAX: usize = 1 << 16;

/// How long a member may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

type Halt = Box<dyn Fn(Error) + Send + Sync>;

/// Shared by the sequencer, the thread and the tasks.
pub struct Votes {
    pub(super) me: u64,
    pub(super) inbox: Mutex<Inbox>,
    pub(super) arrived: Condvar,
    /// This node's own, the newest few.
    pub(super) sent: watch::Sender<Arc<VecDeque<Vote>>>,
    pub(super) kept: Mutex<KeptCertificates>,
    pub(super) standing: Mutex<Standing>,
    /// Height of the newest certificate.
    pub(super) certified_height: watch::Sender<Height>,
    halts: OnceLock<Halt>,
    /// Why this node stops, if its result was not the others'.
    pub(super) cause: OnceLock<Error>,
}

impl Votes {
    /// `signed`: what this node signed before it was started.
    pub(super) fn new(me: u64, kept: KeptCertificates, signed: VecDeque<Vote>) -> Votes {
        Votes {
            me,
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            sent: watch::Sender::new(Arc::new(signed)),
            kept: Mutex::new(kept),
            standing: Mutex::default(),
            certified_height: watch::Sender::new(0),
            halts: OnceLock::new(),
            cause: OnceLock::new(),
        }
    }

    /// A block was released. Called on the sequencer's thread.
    pub fn executed(&self, block: Block) {
        let mut inbox = lock(&self.inbox);
        inbox.blocks.push_back(block);
        if inbox.blocks.len() > BLOCKS_MAX {
            inbox.blocks.pop_front();
        }
        debug_assert!(inbox.blocks.len() <= BLOCKS_MAX, "what waits for the thread is bounded");
        inbox.block_at = Some(Instant::now());
        let wakes = inbox.awaits_block;
        drop(inbox);
        if wakes {
            self.arrived.notify_one();
        }
    }

    /// Votes of these members count no more.
    pub fn distrust(&self, members: BTreeSet<u64>) {
        lock(&self.inbox).convicted = members;
    }

    /// What stops this node if it has diverged, perhaps before now.
    pub fn halt_by(&self, halt: impl Fn(Error) + Send + Sync + 'static) {
        let _ = self.halts.set(Box::new(halt));
        self.stop();
    }

    /// Stops the node, when it can be and there is a reason.
    pub(super) fn stop(&self) {
        if let (Some(halt), Some(cause)) = (self.halts.get(), self.cause.get()) {
            halt(cause.clone());
        }
    }

    /// Tells the height of the newest certificate.
    pub fn certified_height(&self) -> watch::Receiver<Height> {
        self.certified_height.subscribe()
    }

    /// This node's number.
    pub fn member(&self) -> u64 {
        self.me
    }

    pub fn standing(&self) -> Standing {
        lock(&self.standing).clone()
    }

    /// Whether a request is about votes.
    pub fn is_for(request: &[u8]) -> bool {
        matches!(request.first(), Some(&(wire::VOTES | wire::CERTIFICATES | wire::SUCCESSIONS)))
    }

    /// The answer to a member's request.
    pub fn answer(&self, from: u64, request: Bytes) -> Answer {
        match request[0] {
            wire::VOTES => {
                let (certified, votes) = wire::read_votes(from, request.slice(1..))?;
                self.take(from, certified, votes);
                Ok(wire::certified(self.certified()))
            }
            wire::SUCCESSIONS => {
                let known = wire::read_certified(&request[1..])?;
                let kept = lock(&self.kept);
                Ok(wire::successions(&kept.all().path(kept.all().followed()), known))
            }
            _ => {
                let above = wire::read_certified(&request[1..])?;
                let found = lock(&self.kept).all().after(above, wire::CERTIFICATES_MAX)?;
                Ok(wire::certificates(&found))
            }
        }
    }

    pub(super) fn certified(&self) -> Height {
        lock(&self.kept).all().last().map_or(0, |said| said.height)
    }

    /// Whether a member votes by this key, and those before have said so.
    pub fn is_elector(&self, member: u64, key: &Hash) -> bool {
        lock(&self.kept).all().electors().keys.get(&member) == Some(key)
    }

    pub(super) fn take(&self, from: u64, certified: Height, votes: Vec<Vote>) {
        let mut inbox = lock(&self.inbox);
        let waiting = inbox.votes.entry(from).or_default();
        waiting.extend(votes);
        // The newest count.
        let superfluous = waiting.len().saturating_sub(wire::VOTES_MAX);
        waiting.drain(..superfluous);
        debug_assert!(waiting.len() <= wire::VOTES_MAX, "what a member sends is bounded");
        inbox.elsewhere.insert(from, certified);
        drop(inbox);
        self.arrived.notify_one();
    }

    pub fn end(&self) {
        lock(&self.inbox).ends = true;
        self.arrived.notify_one();
    }
}
