//! The live engine: runs the block pipeline with threads, a clock, a disk and clients.
//!
//! ```text
//!   sessions ─ submit ─► queue ─► cut ─► order ─► append, fdatasync ─────────┐
//!                                          │      (log thread, or in turn)   ├─► publish ─► answer
//!                                          └────► prepare ─► finish ─────────┘               │
//!                                                 the sequencer thread                  record
//! ```
//!
//! The [`Pipeline`] decides which step may happen when: the sequencer reports events to it and
//! performs the actions that it returns. A block's order is on disk before any of its results is
//! released and before any reader can see it: sessions read the snapshot of the last published
//! block. Its result is written later, without waiting for a sync, since it can be recomputed.
//!
//! *Sync and execution, serial or parallel.* Handing work to another thread and back takes about 60
//! microseconds here, more than the overlap with a fast sync saves. The log thread therefore syncs
//! the order during execution only if the last sync and the last execution both took longer than
//! [`sequencer::OVERLAP_MIN`]; otherwise the sequencer does one after the other. Where blocks must
//! run before their order is known, or rows are logged as well, the order is written after the
//! execution.
//!
//! *Overlapping blocks.* If the protocol's snapshots lag two blocks behind, or it plans ahead, the
//! next batch is cut while a block is in progress, and prepared in parallel ([`stages`]). A batch
//! takes half of the current requests, and the next one waits for as many, so clients form two
//! halves: one in the block being finished, one in the block being prepared. A block without a
//! successor is finished alone, and the next one is cut when a request comes. Short blocks are
//! still executed by the sequencer itself, in whole batches. Readers see states of the serial order
//! only ([`Engine::newest`]).
//!
//! *As they arrive.* Under an online protocol no batch is cut: calls run in an open block while the
//! previous one is synced, see [`arriving`].
//!
//! *Ordered by a cluster.* Where other nodes take part in ordering, requests go to
//! [`remote_orders`](crate::remote_orders) and return in batches that hold requests of any node.
//! The first step above is theirs, and so is the second if their log is the ledger's. A client is
//! answered when its block has been released on this node.
//!
//! *Deferred transactions.* A protocol may defer a transaction to a later block. Its block records
//! that, and the transaction joins a later one without being ordered again; its client receives the
//! outcome of the last attempt. While any are deferred, blocks are cut for them even without new
//! requests. A node that stops finishes them; a node that was killed finds them in its ledger.
//!
//! *When the disk is full*, and the node [waits for room](EngineOptions::waits_for_room), the
//! current block waits, new submissions are refused (53100), and readers continue. Once there is
//! room the engine continues too, from what a new start would find in the log.
//!
//! *When the disk fails*, the state in memory is ahead of the durable one, and it is unknown what
//! reached the disk. Nothing is retried: the engine accepts no more writes until it is restarted.
//! Clients with a transaction in the current block get 53100 (disk full) or 58030, and learn that
//! the next start determines whether it is in the ledger; those with later ones get 25006: their
//! transactions are in no block. Readers continue on the last durable block, and everything that
//! was acknowledged is in the ledger. After a halt for another reason, blocks that were
//! [held back](crate::journal) are written first.

mod arriving;
mod caught_up;
mod memory;
mod numbers;
mod options;
mod sequencer;
mod shared;
mod stages;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use concurrency::SimulationRules;
use kit::sync::lock;
use ledger::{Hash, LedgerId, Parameters};
use procedure::Budget;
use replica::transaction::Asked;
use replica::{
    Compiled, Completion, Head, KeyStanding, Language, ProvableState, Skipped, Transaction,
    shown_parameter, unknown_parameter,
};
use storage::{Snapshot, Store};
use tokio::sync::oneshot;
use types::{Error, Height, SqlState};

use crate::checkpoint::{Service, Standing, Taken};
use crate::client::Replica;
use crate::clock::Clock;
use crate::journal::{Journal, cannot_write};
use crate::locks::SessionLocks;
use crate::observer::Observer;
use crate::queue::BlockLimits;
use crate::rest::Resting;
use crate::retention::Retention;

pub use options::{Checkpoints, EngineOptions};
use sequencer::{Sequencer, cadence_of, rules_of};
pub use shared::{Draft, Submitted, Submitter};
use shared::{Errand, Given, Shared, shutting_down};

/// What became of a transaction that was to be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Withdrawal {
    /// It is in no block, and will be in none.
    Done,
    /// It is in a block, and will be answered.
    Ordered,
    /// Others may have ordered it, or may yet: it is not answered any more.
    Unknown,
}

pub struct Engine {
    shared: Arc<Shared>,
    sequencer: Mutex<Option<JoinHandle<()>>>,
    resting: Mutex<Option<Resting>>,
}

impl Engine {
    /// Go on from where `replica` and `log` stand, without checkpoints, retaining nothing.
    pub fn start(
        replica: Replica,
        journal: impl Into<Journal>,
        language: Arc<dyn Language>,
        limits: BlockLimits,
        clock: Clock,
        observer: Arc<dyn Observer>,
    ) -> std::io::Result<Engine> {
        let options = EngineOptions::default();
        Engine::start_with(replica, journal, language, limits, clock, observer, options)
    }

    /// The same, with what an engine does beside its blocks.
    pub fn start_with(
        replica: Replica,
        journal: impl Into<Journal>,
        language: Arc<dyn Language>,
        limits: BlockLimits,
        clock: Clock,
        observer: Arc<dyn Observer>,
        mut options: EngineOptions,
    ) -> std::io::Result<Engine> {
        let (journal, overlap_min) = (journal.into(), limits.overlap_min);
        journal.ledger().set_patient(options.waits_for_room);
        let EngineOptions { vouch, rest, .. } = options;
        let stopped = options.stopped.take();
        let cadence = cadence_of(options.checkpoints.as_ref());
        let mut pipeline = replica.pipeline_of(rules_of(&replica, &journal), cadence);
        if let Some(Checkpoints { since, .. }) = &options.checkpoints {
            pipeline.count_since_checkpoint(since.blocks, since.bytes);
        }
        let given = Given { language, limits, clock, observer, options };
        let shared = Arc::new(Shared::new(&replica, &journal, given)?);
        shared.retention.set_overlaps(pipeline.rules().lag > 1);
        shared.wire(vouch);
        if let Some(cause) = stopped {
            let _end = AtTheEnd(Arc::clone(&shared));
            shared.halt(&cause);
            return Ok(Engine { shared, sequencer: Mutex::default(), resting: Mutex::default() });
        }
        let (arrivals, ledger) = (Arc::clone(shared.ledger.arrivals()), Arc::clone(&shared.ledger));
        let start = |moment| Resting::start(moment, arrivals, move || ledger.rest());
        let resting = rest.map(start).transpose()?;
        let mut sequencer =
            Sequencer::new(Arc::clone(&shared), replica, journal, pipeline, overlap_min)?;
        sequencer.leave_boundary();
        let thread = std::thread::Builder::new().name("sequencer".into()).spawn(move || {
            let _stop = AtTheEnd(Arc::clone(&sequencer.shared));
            sequencer.run();
        })?;
        let (sequencer, resting) = (Mutex::new(Some(thread)), Mutex::new(resting));
        Ok(Engine { shared, sequencer, resting })
    }

    /// Hand a transaction in. The receiver is answered when its block is durable; an error of the
    /// submission itself means that the transaction is in no block.
    pub fn submit(
        &self,
        submitter: Submitter<'_>,
        asked: &Asked,
        compiled: Option<Compiled>,
    ) -> Result<oneshot::Receiver<Result<Completion, Error>>, Error> {
        self.shared.submit(submitter, asked, compiled).map(|submitted| submitted.answer)
    }

    /// The same for a client that may give up before its transaction is in a block.
    pub fn submit_revocably(
        &self,
        submitter: Submitter<'_>,
        asked: &Asked,
        compiled: Option<Compiled>,
    ) -> Result<Submitted, Error> {
        self.shared.submit(submitter, asked, compiled)
    }

    /// The same of an envelope that its user has signed; `own`: of whom it need not be signed yet.
    pub fn submit_signed(&self, envelope: &[u8], own: &str) -> Result<Submitted, Error> {
        self.shared.submit_signed(envelope, own)
    }

    /// What an envelope of this node's would ask for, before there is one.
    ///
    /// # Errors
    /// 28000: its user has to sign it. It can be none.
    pub fn proposal(&self, submitter: Submitter<'_>, request: &[u8]) -> Result<Transaction, Error> {
        self.shared.proposal(submitter, request)
    }

    /// An envelope of this node's that is not handed in: what has seen that block, for others to
    /// agree to. However long they take, its number is not too old before it is dropped. `former`:
    /// an earlier attempt, which others may hold; the ledger admits one of all.
    ///
    /// # Errors
    /// It can be none. 53300: too many wait for others.
    pub fn draft(
        &self,
        submitter: Submitter<'_>,
        (request, seen_height): (&[u8], Height),
        former: Option<Draft>,
    ) -> Result<Draft, Error> {
        self.shared.draft(submitter, (request, seen_height), former)
    }

    /// Hands a draft in with approvals, each of which the caller has found right: this node does
    /// not look at their signatures again. `compiled`: what it runs, if they are all that policies
    /// ask for under that schema.
    ///
    /// # Errors
    /// 42T01: they are not all.
    pub fn submit_draft(
        &self,
        draft: Draft,
        approvals: &[order::Signature],
        compiled: Option<Compiled>,
    ) -> Result<Submitted, Error> {
        self.shared.submit_draft(draft, approvals, compiled)
    }

    /// The key that this node signs by.
    pub fn node_key(&self) -> Option<ledger::signatures::PublicKey> {
        self.shared.node_key()
    }

    /// The same envelope with this node's approval, for which a caller has reason.
    ///
    /// # Errors
    /// 55000: the node has no key. 22023: it is no envelope.
    pub fn approve(&self, envelope: &[u8]) -> Result<bytes::Bytes, Error> {
        self.shared.approve(envelope)
    }

    /// Whether this node may approve an envelope now, if its caller has reason: the envelope's id.
    ///
    /// # Errors
    /// As of [`approve`](Self::approve).
    pub fn may_approve(&self, envelope: &order::EnvelopeBytes) -> Result<Hash, Error> {
        self.shared.may_approve(envelope)
    }

    /// This node's approvals of envelopes of these ids, each of which it [may
    /// approve](Self::may_approve): one signature for many.
    ///
    /// # Errors
    /// 55000: the node has no key.
    pub fn approve_all(&self, ids: &[Hash]) -> Result<Vec<order::Signature>, Error> {
        self.shared.approve_all(ids)
    }

    /// Takes a transaction back, if that can be done.
    pub fn withdraw(&self, submitted: &Submitted) -> Withdrawal {
        let queue = &self.shared.queue;
        match queue.remote.as_ref().map(|remote| remote.withdraw(submitted.number)) {
            Some(Some(true)) => Withdrawal::Done,
            Some(Some(false)) => Withdrawal::Unknown,
            None if queue.revoke(submitted.number) => Withdrawal::Done,
            Some(None) | None => Withdrawal::Ordered,
        }
    }

    /// Why nothing that is written can be decided at present; `None`: as far as is known, it can.
    pub fn hindrance(&self) -> Option<String> {
        let full = self.shared.ledger.fullness().map(|why| format!("the disk is full: {why}"));
        full.or_else(|| self.shared.queue.remote.as_ref()?.hindrance())
    }

    /// What a key has come to that this principal named, as far as it is known still.
    pub async fn key_standing(
        &self,
        principal: &str,
        key: &str,
    ) -> Result<Option<KeyStanding>, Error> {
        let (reply, answer) = oneshot::channel();
        let (principal, key) = (principal.to_owned(), key.to_owned());
        self.shared.ask(Errand::Key { principal, key, reply });
        answer.await.map_err(|_| shutting_down())
    }

    /// The newest state whose header names its root; `None` if the newest block's does not.
    pub(crate) async fn provable_state(&self) -> Result<Option<ProvableState>, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.ask(Errand::State { reply });
        answer.await.map_err(|_| shutting_down())
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    pub fn language(&self) -> &Arc<dyn Language> {
        &self.shared.language
    }

    /// What open transactions hold locked, under a protocol where they do.
    pub fn locks(&self) -> &Arc<SessionLocks> {
        &self.shared.locks
    }

    pub fn ledger_id(&self) -> LedgerId {
        self.shared.ledger_id
    }

    /// The newest durable block.
    pub fn head(&self) -> Head {
        *lock(&self.shared.head)
    }

    /// The newest block in the ledger's files, for a program that copies them. Results that are
    /// gathered in memory are written first. Where blocks are held back it is behind the head.
    pub fn written(&self) -> Result<Option<(Height, Hash)>, Error> {
        self.shared.ledger.written().map_err(cannot_write)
    }

    /// What the clock says; blocks have times of their own.
    pub fn now_us(&self) -> i64 {
        (self.shared.clock)()
    }

    pub fn protocol(&self) -> String {
        self.shared.parameters().protocol.clone()
    }

    /// How a transaction is to be simulated before it is ordered.
    pub fn simulation_rules(&self) -> Result<SimulationRules, Error> {
        replica::simulation_rules(&self.shared.parameters())
    }

    /// What a transaction of the next block may spend and hold.
    pub fn budget(&self) -> Budget {
        let Shared { units_max, bytes_max, .. } = &*self.shared;
        let (units_max, bytes_max) =
            (units_max.load(Ordering::Acquire), bytes_max.load(Ordering::Acquire));
        Budget { units_max, bytes_max }
    }

    /// Of an envelope of the next block.
    pub fn envelope_bytes_max(&self) -> usize {
        self.shared.envelope_bytes_max.load(Ordering::Acquire)
    }

    /// What is in force of a parameter of the ledger.
    pub fn parameter(&self, name: &str) -> Result<String, Error> {
        if name == "id" {
            return Ok(ledger::hash::to_hex(&self.shared.ledger_id));
        }
        let parameters = self.shared.parameters();
        shown_parameter(&parameters, name).ok_or_else(|| unknown_parameter(name))
    }

    /// All of them, after the newest block.
    pub fn parameters(&self) -> Arc<Parameters> {
        self.shared.parameters()
    }

    /// What is on disk when a result is released: see [`crate::journal`].
    pub fn log_scheme(&self) -> &'static str {
        self.shared.log_scheme
    }

    /// Ask for a checkpoint that holds everything acknowledged so far.
    pub fn checkpoint(&self) -> Result<oneshot::Receiver<Result<Taken, Error>>, Error> {
        match &self.shared.checkpoints {
            Some(service) => {
                let answer = service.request();
                self.shared.ask(Errand::Boundary);
                answer
            }
            None => Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "there are no checkpoints")),
        }
    }

    /// How the newest checkpoint stands.
    pub fn checkpoint_standing(&self) -> Standing {
        self.shared.checkpoints.as_ref().map(Service::standing).unwrap_or_default()
    }

    /// The newest state, for a session that must see all that was answered before. Where blocks
    /// overlap this may wait for one that is under way, or two.
    pub fn newest(&self) -> Result<Snapshot, Error> {
        self.shared.retention.newest()
    }

    /// The same, if there is nothing to wait for.
    pub fn newest_at_once(&self) -> Option<Snapshot> {
        self.shared.retention.newest_at_once()
    }

    /// Which blocks of the past can be read.
    pub fn retention(&self) -> &Retention {
        &self.shared.retention
    }

    /// Why this engine serves reads only, if it does.
    pub fn halt_cause(&self) -> Option<&Error> {
        self.shared.halted.get()
    }

    pub fn is_halted(&self) -> bool {
        self.halt_cause().is_some()
    }

    /// Has the engine stop before the next block, and serve reads only.
    pub fn halt(&self, cause: Error) {
        let _ = self.shared.told_to_halt.set(cause);
        self.shared.queue.errand();
    }

    /// The blocks that were skipped, up to where this engine started.
    pub fn skips(&self) -> &[Skipped] {
        &self.shared.skips
    }

    /// Finish what waits, then stop.
    pub fn stop(&self) {
        self.shared.ledger.set_patient(false);
        self.shared.queue.close(shutting_down().with_detail("The transaction is in no block."));
        let thread = lock(&self.sequencer).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        drop(lock(&self.resting).take());
        if let Some(service) = &self.shared.checkpoints {
            service.stop();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// When the sequencer ends, be it by a panic, no client is left waiting for it.
struct AtTheEnd(Arc<Shared>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.published.send_modify(|_| ());
        self.0.retention.end();
        self.0.forget_pending();
        drop(self.0.take_errands());
        if std::thread::panicking() {
            self.0.halt(&Error::new(SqlState::INTERNAL_ERROR, "the sequencer panicked"));
            self.0.keep_held();
        }
    }
}
