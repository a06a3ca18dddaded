//! The sequencer: does what the pipeline says on a thread of its own, one block after the other,
//! or, where blocks overlap, with two [pipeline stages](super::stages) beside it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use concurrency::{Outcome, Snapshots};
use kit::sync::lock;
use ledger::{Hash, Parameters};
use order::View;
use pipeline::{Action, Actions, Cadence, Decided, Decision, Event, Pipeline, Rules};
use replica::{Body, Completion, Halt};
use types::{Error, Height, SqlState};

use crate::client::{Cut, Executed, Member, RanBlock, ReadyBlock, Replica, Request, Waiting};
use crate::journal::{Journal, OrderLog, cannot_write};
use crate::observer::{BlockEvent, Observer};
use crate::queue::Next;
use crate::tamper;
use crate::watchdog::{Running, panic_text};

use super::arriving::{Arriving, Then};
use super::options::Checkpoints;
use super::shared::{Errand, Shared, expiry_us};
use super::stages::{Done, Stages};

/// A sync and an execution that are both longer than this are done at the same time.
pub(super) const OVERLAP_MIN: Duration = Duration::from_micros(100);

/// A block that was executed, until it is released.
struct Flight {
    executed: Executed,
    execute: Duration,
    ledger_bytes: u64,
}

/// A block that says what the digest of a checkpoint is, and nothing else.
fn only_vouches(executed: &Executed) -> bool {
    let envelopes = executed.batch.envelopes();
    let vouches = |envelope| View::read(envelope).is_ok_and(|v| Body::is_checkpoint(v.request));
    envelopes.len() == 1 && vouches(&envelopes[0])
}

impl Flight {
    fn event(&self, sync: Duration, next_parameters: &Arc<Parameters>) -> BlockEvent {
        let (mut committed, mut rejected, mut retried, mut deferred) = (0, 0, 0, 0);
        for decided in &self.executed.decided {
            match (&decided.outcome, &decided.decision) {
                (_, Decision::Later) => deferred += 1,
                (Outcome::Committed(_), _) => committed += 1,
                (Outcome::Rejected(_), _) => rejected += 1,
                (Outcome::Retry(_), _) => retried += 1,
            }
        }
        BlockEvent {
            height: self.executed.result.height(),
            result_hash: self.executed.result.hash(),
            time_us: self.executed.batch.header().time_us,
            parameters_hash: self.executed.batch.header().parameters_hash,
            next_parameters: Arc::clone(next_parameters),
            committed,
            rejected,
            retried,
            deferred,
            rerun: u64::from(self.executed.report.rerun),
            effects: self.executed.effects.len() as u64,
            ledger_bytes: self.ledger_bytes,
            execute: self.execute,
            sync,
        }
    }
}

pub(super) fn rules_of(replica: &Replica, journal: &Journal) -> Rules {
    let rules = replica.rules();
    Rules { runs_first: rules.runs_first || journal.logs_rows(), ..rules }
}

pub(super) fn cadence_of(checkpoints: Option<&Checkpoints>) -> Cadence {
    let Some(Checkpoints { settings, .. }) = checkpoints else {
        return Cadence::default();
    };
    Cadence {
        checkpoint_blocks: settings.interval_blocks,
        checkpoint_bytes: settings.interval_bytes,
        ..Cadence::default()
    }
}

pub(super) struct Sequencer {
    pub shared: Arc<Shared>,
    pub(super) replica: Replica,
    journal: Journal,
    pub(super) pipeline: Pipeline,
    /// Of blocks whose calls run as they arrive.
    pub(super) arriving: Arriving,
    /// Writes orders while blocks are executed.
    log: OrderLog,
    /// Where blocks overlap.
    stages: Option<Stages>,
    overlap_min: Duration,
    /// Blocks that are not published.
    running: BTreeMap<Height, Running>,
    /// Hashes of orders that stand in the ledger's log, until their blocks are told durable.
    recorded: BTreeMap<Height, Hash>,
    /// Prepared, and not yet being finished.
    ready: BTreeMap<Height, ReadyBlock>,
    flight: Option<Flight>,
    /// The last block was one of a checkpoint, which is no reason for the next.
    only_vouches: bool,
    /// The last ones.
    pub(super) sync: Duration,
    prepare: Duration,
    pub(super) execute: Duration,
    pub(super) released: usize,
    /// Clients that are about: those that the last block released, and those that waited then.
    expected: usize,
    /// What overlapping can hide of a transaction: the shorter of preparing and finishing it.
    hidden: Duration,
    /// Requests of blocks that are not released.
    pub(super) under_way: usize,
    /// They, and those that waited, when the last batch was cut.
    asked: usize,
}

impl Sequencer {
    pub fn new(
        shared: Arc<Shared>,
        replica: Replica,
        journal: Journal,
        pipeline: Pipeline,
        overlap_min: Duration,
    ) -> std::io::Result<Sequencer> {
        let waking = Arc::clone(&shared);
        let wake = move || waking.queue.errand();
        let log = OrderLog::start(Arc::clone(journal.ledger()), wake)?;
        let mut sequencer = Sequencer {
            shared,
            replica,
            journal,
            pipeline,
            arriving: Arriving::default(),
            log,
            stages: None,
            overlap_min,
            running: BTreeMap::new(),
            recorded: BTreeMap::new(),
            ready: BTreeMap::new(),
            flight: None,
            only_vouches: false,
            sync: Duration::ZERO,
            prepare: Duration::ZERO,
            execute: Duration::ZERO,
            released: 0,
            expected: 0,
            hidden: Duration::ZERO,
            under_way: 0,
            asked: 0,
        };
        sequencer.start_stages();
        Ok(sequencer)
    }

    /// Threads for blocks that overlap, where they do.
    pub(super) fn start_stages(&mut self) {
        let workers = self.replica.pool().workers();
        let overlap = self.pipeline.rules().overlap() && workers > 1;
        if overlap != self.stages.is_some() {
            self.stages = overlap.then(|| Stages::start(workers, &self.shared));
        }
    }

    pub fn run(mut self) {
        loop {
            let turn = match self.replica.has_epochs() && self.pipeline.is_idle() {
                true => Sequencer::run_epochs,
                false => Sequencer::turn,
            };
            match self.guarded(turn) {
                Ok(Then::GoOn) => {}
                Ok(Then::End) => break,
                Err(error) => return self.halt(error),
            }
        }
        if let Err(error) = self.shared.ledger.finish() {
            self.halt(cannot_write(error));
        }
    }

    /// A panic in a block is a bug; the block is not released, so stopping loses nothing that was
    /// acknowledged.
    fn guarded<T>(
        &mut self,
        run: impl FnOnce(&mut Sequencer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let run = std::panic::AssertUnwindSafe(|| run(self));
        let panicked = |panic: Box<dyn Any + Send>| stopped(panic_text(&*panic));
        std::panic::catch_unwind(run).map_err(panicked)?
    }

    /// Does all there is to do, then waits for something to happen. The end: the queue is closed
    /// and drained, and no block is under way.
    fn turn(&mut self) -> Result<Then, Error> {
        if let Some(cause) = self.shared.told_to_halt.get() {
            return Err(cause.clone());
        }
        while let Some(event) = self.happened()? {
            self.follow(event)?;
        }
        self.start_stages();
        self.run_errands();
        let clock = Arc::clone(&self.shared.clock);
        let carried = self.replica.deferred_to_next();
        let next = match (&self.shared.queue.remote, self.pipeline.is_idle()) {
            (Some(remote), idle) => {
                let may = idle || self.pipeline.may_order() && !self.rests();
                self.shared.queue.delivered(remote, &*clock, carried, may, idle)
            }
            (None, true) => {
                let halves = self.stages.is_some() && self.is_worth_overlapping();
                self.shared.queue.next(&*clock, carried, self.expected, self.sync, halves)
            }
            (None, false) => self.shared.queue.next_while_running(
                &*clock,
                carried,
                self.enough(),
                self.under_way,
            ),
        };
        match next {
            Next::Batch(cut) => self.block(cut)?,
            Next::Errand => {}
            Next::End => return Ok(Then::End),
        }
        Ok(Then::GoOn)
    }

    /// How many requests are a batch while a block is under way; `None`: it is not to be cut yet.
    /// A batch that could not be prepared at once can as well wait for more of them.
    fn enough(&self) -> Option<usize> {
        let may = self.pipeline.may_order() && !self.pipeline.is_preparing() && !self.rests();
        may.then_some(self.released.min(self.under_way).max(1))
    }

    /// Whether so much of what is asked at a time can be hidden behind the rest that it is worth
    /// handing over: the shorter half of a block at most.
    fn is_worth_overlapping(&self) -> bool {
        self.hidden.saturating_mul(self.asked as u32) >= self.overlap_min
    }

    /// Whether all that is under way is to come to its end first: for a reader that waits for a
    /// state, or for a checkpoint, which begins between two blocks.
    fn rests(&self) -> bool {
        let service = self.shared.checkpoints.as_ref();
        service.is_some_and(|service| service.is_wanted()) || self.shared.retention.is_rest_wanted()
    }

    /// What other threads have done meanwhile.
    fn happened(&mut self) -> Result<Option<Event>, Error> {
        if let Some(done) = self.stages.as_mut().and_then(Stages::poll) {
            return match done {
                Done::Prepared(ready, took) => {
                    Ok(Some(self.prepared(ready.map_err(stopped)?, took)))
                }
                Done::Finished(ran, took) => self.finished(ran.map_err(stopped)?, took).map(Some),
            };
        }
        let Some(appended) = self.log.poll() else { return Ok(None) };
        let (height, took) = appended.map_err(cannot_write)?;
        self.sync = took;
        Ok(Some(Event::Durable(height)))
    }

    /// One batch: to its answers, or, where blocks overlap, as far as it goes without waiting.
    fn block(&mut self, cut: Cut) -> Result<(), Error> {
        let Cut { time_us, proposer, seen_height, requests, left } = cut;
        self.under_way += requests.len();
        self.asked = self.under_way + left;
        let bytes = requests.iter().map(|request| request.envelope.len() as u64).sum();
        let remote = self.shared.queue.remote.as_ref();
        let recorded = remote.and_then(|remote| remote.recorded(self.replica.next_height()));
        let sealed = recorded.as_ref().and_then(|recorded| recorded.sealed.as_ref());
        let ordered = self.replica.order_sealed(time_us, proposer, seen_height, requests, sealed);
        let height = ordered.map_err(halted)?;
        self.recorded.extend(recorded.map(|recorded| (height, recorded.hash)));
        if let (Some(dog), Some(batch)) = (&self.shared.watchdog, self.replica.batch(height)) {
            self.running.insert(height, dog.begin(height, batch.hash()));
        }
        let (barrier, seen) = (self.replica.barrier(height), self.replica.seen(height));
        self.follow(Event::Ordered { height, barrier, seen, bytes })?;
        let waits = self.stages.is_some() || self.pipeline.is_idle();
        assert!(waits, "a block is released before the next is cut");
        Ok(())
    }

    /// Does what the pipeline says until it waits: for the next batch, or, where blocks overlap,
    /// for anything.
    pub(super) fn follow(&mut self, event: Event) -> Result<(), Error> {
        let mut events = vec![event];
        loop {
            let actions: Vec<Action> =
                events.drain(..).flat_map(|event| self.pipeline.step(event)).collect();
            if actions.is_empty() {
                if self.stages.is_some() {
                    return Ok(());
                }
                match self.log.wait() {
                    Some(appended) => {
                        let (height, took) = appended.map_err(cannot_write)?;
                        self.sync = took;
                        events.push(Event::Durable(height));
                        continue;
                    }
                    None => return Ok(()),
                }
            }
            for action in actions {
                events.extend(self.act(action)?);
            }
        }
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>, Error> {
        match action {
            Action::Append(height) => return self.append(height),
            // It has run.
            Action::Prepare { height, .. } if self.arriving.closed.is_some() => {
                return Ok(Some(Event::Prepared(height)));
            }
            Action::Prepare { height, snapshots } => return self.begin(height, snapshots),
            Action::Finish(height) => return self.finish(height),
            Action::Publish(_) => self.publish(),
            Action::Answer(_) => self.answer(),
            Action::Record(_) => self.record()?,
            Action::Collect if self.shared.queue.is_open() => self.arriving.collects = true,
            Action::Collect => self.shared.observer.collected(&self.shared.retention.collect()),
            Action::Checkpoint(_) => self.checkpoint(),
            Action::Halt => {}
        }
        Ok(None)
    }

    /// Plans a block, and prepares it here or beside the one before it.
    fn begin(&mut self, height: Height, snapshots: Snapshots) -> Result<Option<Event>, Error> {
        let planned = self.replica.plan(height).map_err(halted)?;
        if planned.snapshots().newest != snapshots.newest {
            return Err(stopped(format!("block {height} has two snapshots")));
        }
        match &mut self.stages {
            Some(stages) if !stages.is_idle() => stages.prepare(planned),
            _ => {
                let began = Instant::now();
                let ready = planned.prepare(self.replica.pool()).map_err(stopped)?;
                return Ok(Some(self.prepared(ready, began.elapsed())));
            }
        }
        Ok(None)
    }

    fn prepared(&mut self, ready: ReadyBlock, took: Duration) -> Event {
        let height = ready.height();
        self.prepare = took;
        let other = self.ready.insert(height, ready);
        assert!(other.is_none(), "a block is prepared once");
        Event::Prepared(height)
    }

    /// Writes a block's order: at once, or, where that is worth it, while the block is executed.
    fn append(&mut self, height: Height) -> Result<Option<Event>, Error> {
        let began = Instant::now();
        if let Some(recorded) = self.recorded.remove(&height) {
            return self.is_appended(height, &recorded).map(Some);
        }
        let flight = self.flight.as_ref().filter(|f| f.executed.result.height() == height);
        match (self.replica.batch(height), flight) {
            (Some(batch), None) => {
                let record = batch.encode()?;
                let is_busy = self.stages.as_ref().is_some_and(|stages| !stages.is_idle());
                if is_busy || self.sync.min(self.execute) > OVERLAP_MIN {
                    self.log.append(height, record);
                    return Ok(None);
                }
                self.journal.append_order(record)?;
            }
            // The block has run.
            (_, Some(Flight { executed, .. })) => self.journal.append_run(executed)?,
            (None, None) => {
                let what = format!("block {height} has no order to be written");
                return Err(Error::new(SqlState::INTERNAL_ERROR, what));
            }
        }
        self.sync = began.elapsed();
        Ok(Some(Event::Durable(height)))
    }

    /// The orderer's log holds the order, which must be the one that this replica would make.
    fn is_appended(&mut self, height: Height, recorded: &Hash) -> Result<Event, Error> {
        if self.replica.batch(height).is_none_or(|batch| batch.hash() != *recorded) {
            let what = format!(
                "the cluster has ordered block {height} under other parameters than are in force \
                 here: the state of this node is not the others'"
            );
            return Err(stopped(what));
        }
        self.journal.ledger().is_durable(height);
        Ok(Event::Durable(height))
    }

    /// Finishes a block, here or where the next one can be cut and prepared meanwhile.
    fn finish(&mut self, height: Height) -> Result<Option<Event>, Error> {
        if let Some(closed) = self.arriving.closed.take() {
            let executed = self.replica.seal_closed(closed).map_err(halted)?;
            return Ok(Some(self.has_run(height, executed)));
        }
        let ready = self.ready.remove(&height);
        let ready = ready.ok_or_else(|| stopped(format!("block {height} is not prepared")))?;
        let finishing = self.replica.begin_finish(ready).map_err(halted)?;
        let is_worth_it = self.is_worth_overlapping();
        match &mut self.stages {
            Some(stages) if is_worth_it => {
                stages.finish(finishing);
                Ok(None)
            }
            _ => {
                let began = Instant::now();
                let ran = finishing.run(self.replica.pool()).map_err(stopped)?;
                self.finished(ran, began.elapsed()).map(Some)
            }
        }
    }

    /// Seals a block that has run.
    fn finished(&mut self, ran: RanBlock, took: Duration) -> Result<Event, Error> {
        let began = Instant::now();
        let (height, reorders_previous) = (ran.height(), ran.reorders_previous());
        let executed = self.replica.end_finish(ran).map_err(halted)?;
        if self.pipeline.rules().lag > 1 {
            self.shared.retention.finished(reorders_previous);
        }
        self.execute = took + began.elapsed();
        let transactions = executed.decided.len().max(1) as u32;
        self.hidden = self.prepare.min(self.execute) / transactions;
        Ok(self.has_run(height, executed))
    }

    fn has_run(&mut self, height: Height, executed: Executed) -> Event {
        assert!(self.flight.is_none(), "the block before has been recorded");
        assert_eq!(executed.result.height(), height, "the block that was to be finished");
        let ledger_bytes = executed.ledger_bytes();
        self.only_vouches = only_vouches(&executed);
        self.flight = Some(Flight { executed, execute: self.execute, ledger_bytes });
        Event::Finished { height, rules: rules_of(&self.replica, &self.journal) }
    }

    /// Publish the block to readers, before its clients are answered: a session that has its answer
    /// reads a snapshot that holds it.
    fn publish(&mut self) {
        if let (Some(dog), Some(flight)) = (&self.shared.watchdog, &self.flight) {
            dog.fault(&flight.executed.batch);
            if dog.tampers(&flight.executed.batch) {
                tamper::with_a_row(self.replica.store(), flight.executed.batch.height());
            }
        }
        let shared = Arc::clone(&self.shared);
        let (head, rules) = (self.replica.head(), self.pipeline.rules());
        if rules.lag > 1 {
            shared.retention.set_overlaps(true);
        }
        shared.retention.block(head, self.pipeline.newest_is_safe(), || self.replica.publish());
        if rules.lag == 1 {
            shared.retention.set_overlaps(false);
        }
        match &shared.queue.remote {
            Some(remote) => {
                let parameters = self.replica.parameters();
                let known = lock(&shared.parameters);
                let is_other = !Arc::ptr_eq(&known, parameters);
                drop(known);
                if is_other {
                    remote.governed(head.height, parameters);
                }
                remote.released(self.replica.released());
            }
            None => shared.queue.released(head.height),
        }
        let before = shared.released.load(Ordering::Relaxed);
        assert_eq!(head.height, before + 1, "blocks are published in their order");
        self.running.remove(&head.height);
        *lock(&shared.head) = head;
        shared.released.store(head.height, Ordering::Release);
        shared.published.send_replace(head.height);
        shared.released_us.store(head.time_us, Ordering::Release);
        let mut parameters = lock(&shared.parameters);
        if !Arc::ptr_eq(&parameters, self.replica.parameters()) {
            *parameters = Arc::clone(self.replica.parameters());
            shared.locks.set_protocol(&parameters.protocol);
            let limits = self.replica.limits();
            shared.expiry_us.store(expiry_us(limits), Ordering::Release);
            shared.envelope_bytes_max.store(limits.envelope_bytes_max, Ordering::Release);
            shared.store_budget(limits.budget);
        }
    }

    fn answer(&mut self) {
        let Some(flight) = &mut self.flight else { return };
        let event = flight.event(self.sync, self.replica.parameters());
        let published = self.shared.released.load(Ordering::Relaxed);
        assert_eq!(event.height, published, "a client that is answered finds its block");
        self.released = flight.executed.decided.len();
        // Those that wait are counted only where they will be waited for.
        let waits = self.shared.queue.patience(self.sync).is_some();
        self.expected = self.released + if waits { self.shared.queue.waiting() } else { 0 };
        self.under_way -= flight.executed.decided.len() - flight.executed.carried_in;
        let now = Instant::now();
        for decided in &mut flight.executed.decided {
            answer_one(decided, event.height, now, &*self.shared.observer);
        }
        self.shared.observer.block(&event);
    }

    /// Writes the result, for which nothing waits.
    fn record(&mut self) -> Result<(), Error> {
        let Some(flight) = self.flight.take() else { return Ok(()) };
        self.journal.append_result(&flight.executed.result)?;
        let rows = flight.executed.effects.len() as u64;
        // Row images that its effects hold could not be collected below.
        drop(flight);
        self.replica.store().bring_copies();
        self.shared.memory.block(self.replica.store(), rows);
        if let Some(service) = &self.shared.checkpoints {
            self.journal.checkpoint_at(service.standing().height);
        }
        Ok(())
    }

    /// A checkpoint is due.
    fn checkpoint(&mut self) {
        if let Some(service) = &self.shared.checkpoints
            && !self.only_vouches
        {
            service.due();
        }
        self.leave_boundary();
    }

    /// Where the next checkpoint can begin, if one is wanted.
    pub fn leave_boundary(&mut self) {
        let Some(service) = &self.shared.checkpoints else { return };
        if self.shared.queue.is_open() {
            return;
        }
        let durable_below = self.journal.ledger().durable_below();
        if service.is_wanted() && self.replica.can_resume_here() {
            service.leave(self.replica.boundary(), durable_below);
        }
    }

    pub(super) fn run_errands(&mut self) {
        for errand in self.shared.take_errands() {
            match errand {
                Errand::Key { principal, key, reply } => {
                    let _ = reply.send(self.replica.key_standing(&principal, &key));
                }
                Errand::Boundary => {}
                Errand::State { reply } => {
                    let _ = reply.send(self.replica.provable_state());
                }
            }
        }
        self.leave_boundary();
    }

    fn halt(mut self, error: Error) {
        tracing::error!(%error, "reads only from now on; restart the node to recover");
        // A disk that fails is not the block's fault.
        if error.code() == SqlState::INTERNAL_ERROR {
            let why = error.fields().detail.as_deref().unwrap_or(error.message());
            self.running.values().for_each(|running| running.died(why));
        }
        let _: Actions = self.pipeline.step(Event::Failed);
        let done = self.stages.as_mut().map(Stages::stop).unwrap_or_default();
        let beside = done.into_iter().flat_map(Done::into_requests);
        let ready = std::mem::take(&mut self.ready).into_values();
        let ready = ready.flat_map(|ready| ready.into_tasks().map(|member| member.request));
        // Clients that are answered find the engine halted.
        self.shared.halt(&error);
        self.abandon_epoch(&error);
        let waiting = self.flight.take().into_iter().flat_map(|flight| flight.executed.decided);
        let members = waiting.filter_map(|decided| match decided.decision {
            Decision::Now(member) => Some(member.request),
            Decision::Later => None,
        });
        let requests: Vec<Request> =
            members.chain(beside).chain(ready).chain(self.replica.abandon()).collect();
        for waiting in requests.into_iter().filter_map(|request| request.waiting) {
            let _ = waiting.reply.send(Err(error.clone()));
        }
        self.shared.keep_held();
    }
}

fn answer_one(
    decided: &mut Decided<Member>,
    height: Height,
    now: Instant,
    observer: &dyn Observer,
) {
    let Decision::Now(member) = &mut decided.decision else { return };
    let Some(Waiting { arrived, reply }) = member.request.waiting.take() else { return };
    let outcome = std::mem::replace(&mut decided.outcome, Outcome::Committed(Default::default()));
    // A client that went away does not need its answer.
    let _ = reply.send(Ok(Completion { height, origin: decided.origin, outcome }));
    observer.answered(now - arrived);
}

pub(super) fn halted(halt: Halt) -> Error {
    stopped(halt.0)
}

pub(super) fn stopped(why: impl Into<String>) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "the replica halted").with_detail(why.into())
}
