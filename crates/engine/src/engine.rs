//! The live engine: one sequencer thread that turns requests into durable blocks.
//!
//! ```text
//!   sessions ── submit ──► queue ──► cut ─► execute ─► append + fdatasync ─► publish ─► reply
//!                                     ▲        the sequencer thread                      │
//!                                     └──────────────── requests gather meanwhile ◄──────┘
//! ```
//!
//! A block is on disk before any of its results is released and before any reader can see it: the
//! snapshot that sessions read is the last durable block. One thread does it all, since a block's
//! sync leaves the cores to the sessions that prepare the next block, and a hand-over to a second
//! thread costs more than it hides at the sync times measured here (80 to 120 microseconds).
//!
//! A protocol may put transactions off. Their block records a retry for each, which is what became
//! of them there; their clients hear nothing of it, and they stand first in the next block. What a
//! client is told, and has a receipt for, is how the last attempt ended. Nobody starves, since the
//! first of a block commits; but each attempt costs the transaction's bytes in the ledger once
//! more, so there is an end to it ([`DEFERRALS_MAX`]). Whoever waits for an answer when the node is
//! stopped is put off until done; when it is killed, the transaction was not acknowledged, and has
//! happened whole or not at all.
//!
//! When the disk fails, the state in memory is ahead of what is durable and nobody knows what
//! reached the disk, so nothing is tried again: the engine takes no more writes, for good. Clients
//! whose transactions are in the block at hand are told 53100 (the disk is full) or 58030, and that
//! the next start finds out whether it is in the ledger; those of later ones are told 25006, and
//! that they are in no block. Readers go on: what they see is the last block that was durable, and
//! what was acknowledged is in the ledger. At a halt for another reason, blocks that were
//! [held back](crate::journal) are written first.

use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use concurrency::Outcome;
use concurrency::sealed::in_order;
use ledger::{Hash, LedgerId};
use storage::Store;
use tokio::sync::oneshot;
use types::{Error, Height, SqlState};

use crate::checkpoint::{Checkpointer, Service, ServiceSettings, Standing, Taken};
use crate::journal::{Journal, LedgerEnd, cannot_write};
use crate::language::Language;
use crate::queue::{BlockLimits, Completion, Queue, Request};
use crate::recovery::Progress;
use crate::replica::{Compiled, Executed, Head, Input, Replica};
use crate::retention::{Memory, Retention, RetentionSettings};
use crate::transaction::Transaction;

/// Blocks that a transaction may be put off by before its client is told to try again.
pub const DEFERRALS_MAX: u32 = 100;

/// Blocks after which what nobody can read any more is freed.
pub(crate) const BLOCKS_PER_COLLECTION: Height = 8;

/// Tells the time: microseconds since 2000-01-01 UTC. The only clock of the engine, handed in by
/// the node.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Told of every durable block, for the metrics. Called on the sequencer's thread, so it must be
/// quick.
pub trait Observer: Send + Sync + 'static {
    fn block(&self, event: &BlockEvent);
    /// One transaction is answered, so long after it was submitted.
    fn answered(&self, latency: Duration);
    /// What nobody can read any more was freed. Called on the sequencer's thread.
    fn collected(&self, _left: &Memory) {}
    /// A checkpoint is durable, so long after it was begun. Called on a thread of its own.
    fn checkpoint(&self, _taken: &Taken, _took: Duration) {}
    /// A checkpoint was begun, and is none. Called on the same thread.
    fn checkpoint_failed(&self, _error: &Error) {}
    /// From now on the engine serves reads only.
    fn halted(&self, _cause: &Error) {}
}

/// A durable block in numbers.
#[derive(Clone, Copy, Debug)]
pub struct BlockEvent {
    pub height: Height,
    pub committed: u64,
    pub rejected: u64,
    /// Told to try again.
    pub retried: u64,
    /// Put off to the next block.
    pub deferred: u64,
    /// Transactions that the protocol turned away at first.
    pub rerun: u64,
    pub effects: u64,
    pub ledger_bytes: u64,
    pub execute: Duration,
    pub sync: Duration,
}

/// Observes nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn block(&self, _: &BlockEvent) {}
    fn answered(&self, _: Duration) {}
}

/// What an engine needs to take checkpoints.
pub struct Checkpoints {
    pub checkpointer: Checkpointer,
    pub settings: ServiceSettings,
    /// What has come since the last checkpoint.
    pub since: Progress,
}

/// What an engine does beside its blocks.
#[derive(Default)]
pub struct Beside {
    pub checkpoints: Option<Checkpoints>,
    pub retention: RetentionSettings,
}

pub struct Engine {
    shared: Arc<Shared>,
    sequencer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    ledger_id: LedgerId,
    queue: Queue,
    store: Arc<Store>,
    language: Arc<dyn Language>,
    observer: Arc<dyn Observer>,
    head: Mutex<Head>,
    /// The protocol that the next block will run under.
    protocol: Mutex<String>,
    halted: OnceLock<Error>,
    checkpoints: Option<Service>,
    retention: Retention,
    log_scheme: &'static str,
    ledger: Arc<LedgerEnd>,
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
        let beside = Beside::default();
        Engine::start_with(replica, journal, language, limits, clock, observer, beside)
    }

    /// The same, with what an engine does beside its blocks.
    pub fn start_with(
        replica: Replica,
        journal: impl Into<Journal>,
        language: Arc<dyn Language>,
        limits: BlockLimits,
        clock: Clock,
        observer: Arc<dyn Observer>,
        beside: Beside,
    ) -> std::io::Result<Engine> {
        let Beside { checkpoints, retention } = beside;
        let journal = journal.into();
        let mut since = Progress::default();
        let service = |checkpoints: Checkpoints| {
            since = checkpoints.since;
            let Checkpoints { checkpointer, settings, .. } = checkpoints;
            let (store, language) = (Arc::clone(replica.store()), Arc::clone(&language));
            let observer = Arc::clone(&observer);
            let ledger = Some(Arc::clone(journal.ledger()));
            Service::start(checkpointer, settings, store, language, observer, ledger)
        };
        let checkpoints = checkpoints.map(service).transpose()?;
        let retention = Retention::new(Arc::clone(replica.store()), retention, replica.head());
        let shared = Arc::new(Shared {
            ledger_id: replica.boundary().header.ledger_id,
            queue: Queue::new(limits),
            store: Arc::clone(replica.store()),
            language,
            observer,
            head: Mutex::new(replica.head()),
            protocol: Mutex::new(replica.parameters().protocol.clone()),
            halted: OnceLock::new(),
            checkpoints,
            retention,
            log_scheme: journal.scheme(),
            ledger: Arc::clone(journal.ledger()),
        });
        let halting = Arc::downgrade(&shared);
        shared.ledger.on_failure(Box::new(move |error| {
            if let Some(shared) = halting.upgrade() {
                shared.halt(&error);
            }
        }));
        let mut sequencer =
            Sequencer { shared: Arc::clone(&shared), replica, journal, clock, since };
        sequencer.leave_boundary();
        let thread = std::thread::Builder::new().name("sequencer".into()).spawn(move || {
            let _stop = StopOnPanic(Arc::clone(&sequencer.shared));
            sequencer.run();
        })?;
        Ok(Engine { shared, sequencer: Mutex::new(Some(thread)) })
    }

    /// Hand a transaction in. The receiver is answered when its block is durable; an error of the
    /// submission itself means that the transaction is in no block.
    pub fn submit(
        &self,
        transaction: &Transaction,
        compiled: Option<Compiled>,
    ) -> Result<oneshot::Receiver<Result<Completion, Error>>, Error> {
        let (reply, answer) = oneshot::channel();
        let alone = transaction.is_alone();
        // Replay tells such a block by its bytes, so it must never run as a program here.
        let compiled = compiled.filter(|_| !alone);
        let payload = transaction.encode();
        let arrived = Instant::now();
        let request = Request { payload, compiled, alone, arrived, deferrals: 0, reply };
        self.shared.queue.push(request)?;
        Ok(answer)
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    pub fn language(&self) -> &Arc<dyn Language> {
        &self.shared.language
    }

    pub fn ledger_id(&self) -> LedgerId {
        self.shared.ledger_id
    }

    /// The newest durable block.
    pub fn head(&self) -> Head {
        *self.shared.head.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The newest block in the ledger's files: what whoever copies these can ask for. Where blocks
    /// are held back it is behind the head.
    pub fn written(&self) -> Option<(Height, Hash)> {
        self.shared.ledger.written()
    }

    pub fn protocol(&self) -> String {
        self.shared.protocol.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// What is on disk when a result is released: see [`crate::journal`].
    pub fn log_scheme(&self) -> &'static str {
        self.shared.log_scheme
    }

    /// Ask for a checkpoint that holds everything acknowledged so far. An error if the protocol
    /// cannot be resumed after the newest block; one is taken after the next where it can.
    pub fn checkpoint(&self) -> Result<oneshot::Receiver<Result<Taken, Error>>, Error> {
        match &self.shared.checkpoints {
            Some(service) => service.request(self.head().height),
            None => Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "there are no checkpoints")),
        }
    }

    /// How the newest checkpoint stands.
    pub fn checkpoint_standing(&self) -> Standing {
        self.shared.checkpoints.as_ref().map(Service::standing).unwrap_or_default()
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

    /// Finish what waits, then stop.
    pub fn stop(&self) {
        self.shared.queue.close(
            Error::new(SqlState::ADMIN_SHUTDOWN, "the node is shutting down")
                .with_detail("The transaction is in no block."),
        );
        let thread = self.sequencer.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
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

/// Should the sequencer end by a panic, nobody may be left waiting for it.
struct StopOnPanic(Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.halt(&Error::new(SqlState::INTERNAL_ERROR, "the sequencer panicked"));
            self.0.keep_held();
        }
    }
}

impl Shared {
    /// Refuse whatever waits, and whatever may come.
    fn halt(&self, cause: &Error) {
        if self.halted.set(cause.clone()).is_ok() {
            self.observer.halted(cause);
        }
        let refusal = reads_only(cause);
        self.queue.close(refusal.clone());
        while let Some(requests) = self.queue.cut(0, Duration::ZERO) {
            for request in requests {
                let _ = request.reply.send(Err(refusal.clone()));
            }
        }
    }

    /// Blocks that were acknowledged and held back are in order, whatever came after them.
    fn keep_held(&self) {
        if let Err(error) = self.ledger.write_held() {
            tracing::error!(%error, "blocks that were held back cannot be written");
        }
    }
}

/// What whoever writes is told after a halt.
fn reads_only(cause: &Error) -> Error {
    let hint = match cause.code() {
        SqlState::DISK_FULL => "Make room on the disk, then restart the node.",
        SqlState::IO_ERROR => "See to the disk, then restart the node, which recovers.",
        _ => "Restart the node, which recovers from its ledger.",
    };
    let what = "the node serves reads only, since it had to stop writing";
    Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, what)
        .with_detail(format!("The transaction is in no block. The cause is {cause}."))
        .with_hint(hint)
}

/// An executed block that is on disk.
struct Durable {
    executed: Executed,
    ledger_bytes: u64,
    execute: Duration,
    sync: Duration,
}

impl Durable {
    fn event(&self) -> BlockEvent {
        let (mut committed, mut rejected, mut retried) = (0, 0, 0);
        for outcome in &self.executed.outcomes {
            match outcome {
                Outcome::Committed(_) => committed += 1,
                Outcome::Rejected(_) => rejected += 1,
                Outcome::Retry(_) => retried += 1,
            }
        }
        BlockEvent {
            height: self.executed.block.header.height,
            committed,
            rejected,
            retried,
            deferred: 0,
            rerun: u64::from(self.executed.report.rerun),
            effects: self.executed.effects.len() as u64,
            ledger_bytes: self.ledger_bytes,
            execute: self.execute,
            sync: self.sync,
        }
    }
}

/// Who waits for an answer, and since when.
struct Reply {
    arrived: Instant,
    deferrals: u32,
    reply: oneshot::Sender<Result<Completion, Error>>,
}

struct Sequencer {
    shared: Arc<Shared>,
    replica: Replica,
    journal: Journal,
    clock: Clock,
    /// The last time that a checkpoint was due.
    since: Progress,
}

impl Sequencer {
    fn run(mut self) {
        let (mut released, mut sync) = (0, Duration::ZERO);
        while let Some(requests) = self.shared.queue.cut(released, sync) {
            released = requests.len();
            let (inputs, replies): (Vec<_>, Vec<_>) = requests
                .into_iter()
                .map(|request| {
                    let Request { payload, compiled, arrived, deferrals, reply, .. } = request;
                    (Input { payload, compiled }, Reply { arrived, deferrals, reply })
                })
                .unzip();
            // A panic in a block is a bug; the block is not in the ledger, so stopping loses
            // nothing that was acknowledged.
            let block = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.make_durable(inputs)
            }));
            match block {
                Ok(Ok(durable)) => {
                    sync = durable.sync;
                    self.release(durable, replies);
                }
                Ok(Err(error)) => return self.halt(error, replies),
                Err(_) => {
                    let error = Error::new(SqlState::INTERNAL_ERROR, "the sequencer panicked");
                    return self.halt(error, replies);
                }
            }
        }
        if let Err(error) = self.shared.ledger.write_held() {
            self.halt(cannot_write(error), Vec::new());
        }
    }

    fn make_durable(&mut self, inputs: Vec<Input>) -> Result<Durable, Error> {
        let started = Instant::now();
        let executed = self.replica.execute((self.clock)(), inputs).map_err(|halt| {
            Error::new(SqlState::INTERNAL_ERROR, "the replica halted").with_detail(halt.0)
        })?;
        let encoded = executed.block.encode()?;
        let ledger_bytes = encoded.payload().len() as u64;
        let executed_at = Instant::now();
        self.journal.append(encoded, &executed.effects)?;
        Ok(Durable {
            ledger_bytes,
            execute: executed_at - started,
            sync: executed_at.elapsed(),
            executed,
        })
    }

    /// Publish the block to readers, leave its boundary for a checkpoint, then answer its clients:
    /// a session that has its answer reads a snapshot that holds it, and can ask for a checkpoint
    /// that does.
    fn release(&mut self, mut durable: Durable, replies: Vec<Reply>) {
        let shared = Arc::clone(&self.shared);
        let mut event = durable.event();
        shared.retention.block(self.replica.head(), || self.replica.publish());
        self.since.blocks += 1;
        self.since.bytes += event.ledger_bytes;
        self.leave_boundary();
        *shared.head.lock().unwrap_or_else(|e| e.into_inner()) = self.replica.head();
        {
            let mut protocol = shared.protocol.lock().unwrap_or_else(|e| e.into_inner());
            if *protocol != self.replica.parameters().protocol {
                protocol.clone_from(&self.replica.parameters().protocol);
            }
        }
        let deferred = self.answer(&mut durable.executed, replies);
        event.deferred = deferred.len() as u64;
        event.retried -= event.deferred;
        shared.queue.put_back(deferred);
        // Row images that its effects hold could not be collected below.
        drop(durable);
        shared.observer.block(&event);
        self.replica.store().bring_copies();
        if event.height.is_multiple_of(BLOCKS_PER_COLLECTION) {
            shared.observer.collected(&shared.retention.collect());
        }
    }

    /// Where the next checkpoint can begin.
    fn leave_boundary(&mut self) {
        if let Some(service) = &self.shared.checkpoints {
            let boundary = self.replica.can_resume_here().then(|| self.replica.boundary());
            if service.block(boundary, self.journal.ledger().durable_below(), &self.since) {
                self.since = Progress::default();
            }
            self.journal.checkpoint_at(service.standing().height);
        }
    }

    /// Answer all clients but those whose transactions are to be tried again, which are returned.
    fn answer(&self, executed: &mut Executed, replies: Vec<Reply>) -> Vec<Request> {
        let height = executed.block.header.height;
        let now = Instant::now();
        let mut again = Vec::with_capacity(executed.deferred.len());
        let put_off = std::mem::take(&mut executed.put_off);
        let replies = match &executed.arrivals {
            Some(arrivals) => in_order(replies, arrivals),
            None => replies,
        };
        let mut put_off = executed.deferred.iter().zip(put_off).peekable();
        let answers = (0..).zip(executed.outcomes.drain(..).zip(replies));
        for (index, (outcome, Reply { arrived, deferrals, reply })) in answers {
            match put_off.next_if(|(position, _)| **position == index) {
                Some((_, Input { payload, compiled })) if deferrals < DEFERRALS_MAX => {
                    let (alone, deferrals) = (false, deferrals + 1);
                    again.push(Request { payload, compiled, alone, arrived, deferrals, reply });
                }
                _ => {
                    // A client that went away does not need its answer.
                    let _ = reply.send(Ok(Completion { height, index, outcome }));
                    self.shared.observer.answered(now - arrived);
                }
            }
        }
        again
    }

    fn halt(self, error: Error, replies: Vec<Reply>) {
        tracing::error!(%error, "reads only from now on; restart the node to recover");
        // Whoever is answered finds the engine halted.
        self.shared.halt(&error);
        for waiting in replies {
            let _ = waiting.reply.send(Err(error.clone()));
        }
        self.shared.keep_held();
    }
}
