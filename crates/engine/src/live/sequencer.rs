//! The sequencer: does what the pipeline says, one block after the other, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use concurrency::Outcome;
use pipeline::{Action, Actions, Cadence, Decided, Event, Pipeline, Rules, Settled};
use types::{Error, Height, SqlState};

use crate::journal::{Journal, OrderLog, cannot_write};
use crate::observer::{BlockEvent, Observer};
use crate::queue::{Cut, Next};
use crate::replica::{Executed, Halt, ReadyBlock, Replica};
use crate::request::{Completion, Member, Request, Waiting};

use super::arriving::{Arriving, Then};
use super::{Checkpoints, Errand, Shared, expiry_us};

/// A sync and an execution that are both longer than this are done at the same time.
pub(super) const OVERLAP_MIN: Duration = Duration::from_micros(100);

/// A block that was executed, until it is released.
struct Flight {
    executed: Executed,
    execute: Duration,
    ledger_bytes: u64,
}

impl Flight {
    fn event(&self, sync: Duration) -> BlockEvent {
        let (mut committed, mut rejected, mut retried, mut deferred) = (0, 0, 0, 0);
        for settled in &self.executed.settled {
            match (&settled.outcome, &settled.decided) {
                (_, Decided::Later) => deferred += 1,
                (Outcome::Committed(_), _) => committed += 1,
                (Outcome::Rejected(_), _) => rejected += 1,
                (Outcome::Retry(_), _) => retried += 1,
            }
        }
        BlockEvent {
            height: self.executed.result.height(),
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
    ready: Option<ReadyBlock>,
    flight: Option<Flight>,
    /// The last ones.
    pub(super) sync: Duration,
    pub(super) execute: Duration,
    pub(super) released: usize,
}

impl Sequencer {
    pub fn new(
        shared: Arc<Shared>,
        replica: Replica,
        journal: Journal,
        pipeline: Pipeline,
    ) -> std::io::Result<Sequencer> {
        let log = OrderLog::start(Arc::clone(journal.ledger()))?;
        let (ready, flight) = (None, None);
        let (sync, execute, released) = (Duration::ZERO, Duration::ZERO, 0);
        Ok(Sequencer {
            shared,
            replica,
            journal,
            pipeline,
            arriving: Arriving::default(),
            log,
            ready,
            flight,
            sync,
            execute,
            released,
        })
    }

    pub fn run(mut self) {
        loop {
            self.run_errands();
            if self.replica.has_epochs() {
                match self.guarded(Sequencer::run_epochs) {
                    Ok(Then::GoOn) => continue,
                    Ok(Then::End) => break,
                    Err(error) => return self.halt(error),
                }
            }
            let clock = Arc::clone(&self.shared.clock);
            let carried = self.replica.deferred_to_next();
            let next = self.shared.queue.next(&*clock, carried, self.released, self.sync);
            let cut = match next {
                Next::Batch(cut) => cut,
                Next::Errand => continue,
                Next::End => break,
            };
            if let Err(error) = self.guarded(|sequencer| sequencer.block(cut)) {
                return self.halt(error);
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
        let panicked = |_| Error::new(SqlState::INTERNAL_ERROR, "the sequencer panicked");
        std::panic::catch_unwind(run).map_err(panicked)?
    }

    /// One batch, from its order to its answers.
    fn block(&mut self, cut: Cut) -> Result<(), Error> {
        let Cut { time_us, proposer, requests } = cut;
        let bytes = requests.iter().map(|request| request.envelope.len() as u64).sum();
        self.released = requests.len();
        let height = self.replica.order(time_us, proposer, requests).map_err(halted)?;
        let barrier = self.replica.barrier(height);
        self.follow(Event::Ordered { height, barrier, bytes })?;
        assert!(self.pipeline.is_idle(), "a block is released before the next is cut");
        Ok(())
    }

    /// Does what the pipeline says until it waits for the next batch.
    pub(super) fn follow(&mut self, event: Event) -> Result<(), Error> {
        let mut events = vec![event];
        loop {
            let actions: Vec<Action> =
                events.drain(..).flat_map(|event| self.pipeline.step(event)).collect();
            if actions.is_empty() {
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
            Action::Prepare { height, .. } => {
                let planned = self.replica.plan(height).map_err(halted)?;
                self.ready = Some(planned.prepare(self.replica.crew()).map_err(stopped)?);
                return Ok(Some(Event::Prepared(height)));
            }
            Action::Finish(height) => return self.finish(height).map(Some),
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

    /// Writes a block's order: at once, or, where that is worth it, while the block is executed.
    fn append(&mut self, height: Height) -> Result<Option<Event>, Error> {
        let began = Instant::now();
        match (self.replica.batch(height), &self.flight) {
            (Some(batch), None) => {
                let record = batch.encode()?;
                if self.sync.min(self.execute) > OVERLAP_MIN {
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

    fn finish(&mut self, height: Height) -> Result<Event, Error> {
        let began = Instant::now();
        let executed = match self.arriving.closed.take() {
            Some(closed) => self.replica.seal_closed(closed).map_err(halted)?,
            None => {
                let ready = self.ready.take();
                let none = || stopped(format!("block {height} is not prepared"));
                let executed = self.replica.finish(ready.ok_or_else(none)?).map_err(halted)?;
                self.execute = began.elapsed();
                executed
            }
        };
        let ledger_bytes = executed.ledger_bytes();
        self.flight = Some(Flight { executed, execute: self.execute, ledger_bytes });
        Ok(Event::Finished { height, rules: rules_of(&self.replica, &self.journal) })
    }

    /// Publish the block to readers, before its clients are answered: a session that has its answer
    /// reads a snapshot that holds it.
    fn publish(&mut self) {
        let shared = Arc::clone(&self.shared);
        let head = self.replica.head();
        shared.retention.block(head, || self.replica.publish());
        *shared.head.lock().unwrap_or_else(|e| e.into_inner()) = head;
        shared.released.store(head.height, Ordering::Release);
        shared.resumable.store(self.replica.can_resume_here(), Ordering::Release);
        shared.released_us.store(head.time_us, Ordering::Release);
        let mut parameters = shared.parameters.lock().unwrap_or_else(|e| e.into_inner());
        if !Arc::ptr_eq(&parameters, self.replica.parameters()) {
            *parameters = Arc::clone(self.replica.parameters());
            shared.expiry_us.store(expiry_us(self.replica.limits()), Ordering::Release);
        }
    }

    fn answer(&mut self) {
        let Some(flight) = &mut self.flight else { return };
        let event = flight.event(self.sync);
        let now = Instant::now();
        for settled in &mut flight.executed.settled {
            answer_one(settled, event.height, now, &*self.shared.observer);
        }
        self.shared.observer.block(&event);
    }

    /// Writes the result, for which nothing waits.
    fn record(&mut self) -> Result<(), Error> {
        let Some(flight) = self.flight.take() else { return Ok(()) };
        self.journal.append_result(&flight.executed.result)?;
        // Row images that its effects hold could not be collected below.
        drop(flight);
        self.replica.store().bring_copies();
        if let Some(service) = &self.shared.checkpoints {
            self.journal.checkpoint_at(service.standing().height);
        }
        Ok(())
    }

    /// A checkpoint is due.
    fn checkpoint(&mut self) {
        if let Some(service) = &self.shared.checkpoints {
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

    fn run_errands(&mut self) {
        for errand in self.shared.take_errands() {
            match errand {
                Errand::Key { principal, key, reply } => {
                    let _ = reply.send(self.replica.key_standing(&principal, &key));
                }
                Errand::Boundary => {}
            }
        }
        self.leave_boundary();
    }

    fn halt(mut self, error: Error) {
        tracing::error!(%error, "reads only from now on; restart the node to recover");
        let _: Actions = self.pipeline.step(Event::Failed);
        // Clients that are answered find the engine halted.
        self.shared.halt(&error);
        self.abandon_epoch(&error);
        let waiting = self.flight.take().into_iter().flat_map(|flight| flight.executed.settled);
        let members = waiting.filter_map(|settled| match settled.decided {
            Decided::Now(member) => Some(member.request),
            Decided::Later => None,
        });
        let requests: Vec<Request> = members.chain(self.replica.abandon()).collect();
        for waiting in requests.into_iter().filter_map(|request| request.waiting) {
            let _ = waiting.reply.send(Err(error.clone()));
        }
        self.shared.keep_held();
    }
}

fn answer_one(
    settled: &mut Settled<Member>,
    height: Height,
    now: Instant,
    observer: &dyn Observer,
) {
    let Decided::Now(member) = &mut settled.decided else { return };
    let Some(Waiting { arrived, reply }) = member.request.waiting.take() else { return };
    let outcome = std::mem::replace(&mut settled.outcome, Outcome::Committed(Default::default()));
    // A client that went away does not need its answer.
    let _ = reply.send(Ok(Completion { height, origin: settled.origin, outcome }));
    observer.answered(now - arrived);
}

pub(super) fn halted(halt: Halt) -> Error {
    stopped(halt.0)
}

pub(super) fn stopped(why: String) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "the replica halted").with_detail(why)
}
