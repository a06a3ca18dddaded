//! A node without threads: recovery, pipeline, journal, checkpoints, and who waits for what.
//!
//! What the pipeline wants done that takes time (append, prepare, finish) waits in `tasks` until
//! the world draws it; the rest is done at once. A node that stops keeps its disk alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Outcome, Snapshots};
use engine::checkpoint::{Checkpointer, State};
use engine::{
    Executed, Fault, Journal, KeyStanding, Language, Member, Replayed, Replica, Request, recover,
    resume_writing,
};
use ledger::{Batch, BlockResult, BlockWriter, Files, Genesis, LogOptions, MemoryFiles};
use order::Proposal;
use pipeline::{Action, Cadence, Decided, Decision, Event, Pipeline, Ready, Rules, SafeSnapshot};
use storage::{Snapshot, Store};
use types::{Error, Height, Origin, Result, SqlState};

use crate::language::Calls;

/// Small, so that some blocks fill several segments.
pub const LOG: LogOptions =
    LogOptions { segment_bytes: 8 << 10, zero_fill_bytes: 4 << 10, sync: true };
const CHECKPOINTS_KEPT: usize = 2;

/// What takes time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    Append(Height),
    Prepare(Height, Snapshots),
    Finish(Height),
}

/// What a node tells the world.
pub enum Output {
    Published(Arc<Batch>, BlockResult),
    Answer(Answer),
}

/// To the sender of an envelope.
#[derive(Clone, Debug)]
pub struct Answer {
    pub client: usize,
    pub envelope: Bytes,
    pub height: Height,
    pub origin: Origin,
    pub outcome: Outcome,
}

pub struct Node {
    pub replica: Replica,
    journal: Journal,
    pub pipeline: Pipeline,
    pub tasks: Vec<Task>,
    /// That are to be appended and are known.
    orders: BTreeMap<Height, Arc<Batch>>,
    ready: BTreeMap<Height, Ready<Member>>,
    flight: Option<Executed>,
    /// No other node orders batches.
    alone: bool,
    /// What readers between blocks may see.
    safe: SafeSnapshot,
    /// A reader waits for a state, so that no batch is to be cut before all is published.
    rests: bool,
    waiting: BTreeMap<Bytes, VecDeque<usize>>,
    checkpointer: Checkpointer,
    /// A checkpoint is wanted at the next boundary that allows one.
    pub wanted: bool,
    /// One that is begun.
    pub checkpoint: Option<State>,
    /// Deliveries whose blocks the ledger has.
    pub passed_over: Height,
    pub halted: Option<Error>,
}

/// Writes the genesis block.
pub fn begin(files: &MemoryFiles, genesis: &Genesis) -> std::io::Result<()> {
    BlockWriter::begin(Arc::new(files.clone()), genesis, LOG).map(drop)
}

pub fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Calls::default())
}

fn rules_of(replica: &Replica) -> Rules {
    replica.rules()
}

impl Node {
    /// As a node starts: recovery, the log's end, the pipeline. `blocks`: checkpoints are due after
    /// so many. `alone`: no other node orders batches.
    pub fn start(files: &MemoryFiles, blocks: u64, alone: bool) -> Result<Node, Fault> {
        let files: Arc<dyn Files> = Arc::new(files.clone());
        let read = recover(Arc::clone(&files), &language, 1, &mut |_| ())?;
        let Replayed { replica, reader, unrecorded, checkpoint, passed_over, .. } = read;
        let log = resume_writing(reader, &unrecorded, LOG).map_err(Fault::Io)?;
        let base = checkpoint.map(|checkpoint| checkpoint.base);
        let checkpointer = Checkpointer::new(files, CHECKPOINTS_KEPT, base, &passed_over);
        let head = replica.head().height;
        let cadence = Cadence { checkpoint_blocks: blocks, ..Cadence::default() };
        let pipeline = replica.pipeline(cadence);
        let safe = match alone || pipeline.rules().lag == 1 {
            true => SafeSnapshot::new(replica.store()),
            false => SafeSnapshot::in_doubt(replica.store()),
        };
        Ok(Node {
            replica,
            journal: Journal::from(log),
            pipeline,
            tasks: Vec::new(),
            orders: BTreeMap::new(),
            ready: BTreeMap::new(),
            flight: None,
            alone,
            safe,
            rests: false,
            waiting: BTreeMap::new(),
            checkpointer,
            wanted: false,
            checkpoint: None,
            passed_over: head,
            halted: None,
        })
    }

    pub fn is_idle(&self) -> bool {
        self.pipeline.is_idle()
    }

    /// Whether the next batch may be taken.
    pub fn may_order(&self) -> bool {
        self.pipeline.may_order() && (self.is_idle() || !self.rests)
    }

    /// The newest state that a reader may see who has seen a block; `None`: the reader waits.
    pub fn read(&mut self, seen: Height) -> Option<&Snapshot> {
        self.rests |= self.safe.height() < Some(self.replica.head().height) && !self.is_idle();
        self.safe.snapshot().filter(|snapshot| snapshot.height() >= seen)
    }

    /// An answer to this envelope goes to a client.
    pub fn wait(&mut self, envelope: Bytes, client: usize) {
        self.waiting.entry(envelope).or_default().push_back(client);
    }

    pub fn key_standing(&self, principal: &str, key: &str) -> Option<KeyStanding> {
        self.replica.key_standing(principal, key)
    }

    /// The next batch.
    pub fn order(&mut self, proposal: Proposal, out: &mut Vec<Output>) -> Result<()> {
        let Proposal { time_us, proposer, seen_height, envelopes } = proposal;
        let bytes = envelopes.iter().map(|envelope| envelope.len() as u64).sum();
        let requests = envelopes.into_iter().map(Request::of_bytes).collect();
        let ordered = self.replica.order(time_us, proposer, seen_height, requests);
        let height = ordered.map_err(stopped)?;
        let (barrier, seen) = (self.replica.barrier(height), self.replica.seen(height));
        self.follow(Event::Ordered { height, barrier, seen, bytes }, out)?;
        if self.pipeline.published() + 1 == height && self.pipeline.newest_is_safe() {
            self.safe.finished(false);
        }
        Ok(())
    }

    /// Does one of the tasks.
    pub fn perform(&mut self, task: usize, out: &mut Vec<Output>) -> Result<()> {
        let event = match self.tasks.remove(task) {
            Task::Append(height) => {
                self.append(height)?;
                Event::Durable(height)
            }
            Task::Prepare(height, snapshots) => {
                let planned = self.replica.plan(height).map_err(stopped)?;
                if planned.snapshots().newest != snapshots.newest {
                    return Err(stopped("pipeline and replica name other snapshots"));
                }
                let ready = planned.prepare(self.replica.pool()).map_err(stopped)?;
                self.ready.insert(height, ready);
                Event::Prepared(height)
            }
            Task::Finish(height) => {
                let ready = self.ready.remove(&height);
                let ready = ready.ok_or_else(|| stopped("a block that is not prepared"))?;
                let finishing = self.replica.begin_finish(ready).map_err(stopped)?;
                let ran = finishing.run(self.replica.pool()).map_err(stopped)?;
                self.safe.finished(ran.reorders_previous());
                self.flight = Some(self.replica.end_finish(ran).map_err(stopped)?);
                Event::Finished { height, rules: rules_of(&self.replica) }
            }
        };
        self.follow(event, out)
    }

    fn append(&mut self, height: Height) -> Result<()> {
        let flight = self.flight.as_ref().filter(|flight| flight.result.height() == height);
        match (self.orders.remove(&height), flight) {
            (Some(batch), None) => self.journal.append_order(batch.encode()?),
            // The block has run.
            (_, Some(executed)) => self.journal.append_run(executed),
            (None, None) => Err(stopped("a block without an order")),
        }
    }

    fn begin_append(&mut self, height: Height) {
        self.tasks.push(Task::Append(height));
        if let Some(batch) = self.replica.batch(height) {
            self.orders.insert(height, Arc::clone(batch));
        }
    }

    fn follow(&mut self, event: Event, out: &mut Vec<Output>) -> Result<()> {
        for action in self.pipeline.step(event) {
            match action {
                Action::Append(height) => self.begin_append(height),
                Action::Prepare { height, snapshots } => {
                    self.tasks.push(Task::Prepare(height, snapshots));
                }
                Action::Finish(height) => self.tasks.push(Task::Finish(height)),
                Action::Publish(_) => self.publish(),
                Action::Answer(height) => self.answer(height, out),
                Action::Record(_) => {
                    if let Some(executed) = self.flight.take() {
                        self.journal.append_result(&executed.result)?;
                    }
                }
                Action::Collect => drop(self.replica.store().collect()),
                Action::Checkpoint(_) => self.wanted = true,
                Action::Halt => {}
            }
        }
        self.leave_boundary()
    }

    fn publish(&mut self) {
        self.replica.publish();
        let known = self.alone || !self.is_idle();
        let safe = self.pipeline.rules().lag == 1 || (known && self.pipeline.newest_is_safe());
        self.safe.published(self.replica.store(), safe);
        self.rests &= !safe;
    }

    fn answer(&mut self, height: Height, out: &mut Vec<Output>) {
        let Some(executed) = &self.flight else { return };
        out.push(Output::Published(Arc::clone(&executed.batch), executed.result.clone()));
        for Decided { origin, outcome, decision } in &executed.decided {
            let Decision::Now(member) = decision else { continue };
            let envelope = member.request.envelope.bytes();
            let Some(clients) = self.waiting.get_mut(envelope) else { continue };
            let client = clients.pop_front();
            if clients.is_empty() {
                self.waiting.remove(envelope);
            }
            let Some(client) = client else { continue };
            let (envelope, origin, outcome) = (envelope.clone(), *origin, outcome.clone());
            out.push(Output::Answer(Answer { client, envelope, height, origin, outcome }));
        }
    }

    /// Pins the state for a checkpoint that is wanted.
    pub fn leave_boundary(&mut self) -> Result<()> {
        if !self.wanted || !self.is_idle() {
            return Ok(());
        }
        self.wanted = false;
        let mut state = State::of(&self.replica)?;
        state.durable_below = self.journal.ledger().durable_below();
        self.checkpoint = Some(state);
        Ok(())
    }

    /// Writes the checkpoint that is begun; whether it is there now.
    pub fn write_checkpoint(&mut self) -> Result<bool> {
        let Some(mut state) = self.checkpoint.take() else {
            return Ok(false);
        };
        let written = self.journal.ledger().write_held();
        let durable_below = written.map_err(|error| stopped(error.to_string()))?;
        let behind = state.boundary.order.height + 1;
        state.durable_below = state.durable_below.max(durable_below.min(behind));
        Ok(self.checkpointer.take(&state, &mut |_| Ok(())).is_ok())
    }

    /// Reads only from now on.
    pub fn halt(&mut self, error: Error) {
        drop(self.pipeline.step(Event::Failed));
        self.tasks.clear();
        self.waiting.clear();
        self.checkpoint = None;
        self.halted = Some(error);
    }
}

fn stopped(why: impl ToString) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "the node stopped").with_detail(why.to_string())
}

/// A block of the ledger on a disk.
pub fn block_of(files: &MemoryFiles, height: Height) -> Result<Option<(Batch, BlockResult)>> {
    let recorded = ledger::read_block(files, height)?;
    let Some(recorded) = recorded else { return Ok(None) };
    let Some(result) = &recorded.result else { return Ok(None) };
    Ok(Some((Batch::of(&recorded.batch)?, BlockResult::of(result)?)))
}
