//! The replica: a value that ordered batches go into and results come out of.
//!
//! No clock, no file, no socket and no thread but the worker pool's: what a block becomes is a
//! function of the batches before it. A live node, recovery, `verify`, a simulation and a test all
//! run this same code.
//!
//! ```text
//!   requests ─► order ─► plan ─────────► prepare ─► finish ─────────────────► publish
//!               header   admit, compile  protocol   protocol, effects,        what keys
//!               (hash)   split at DDL    part one   outcomes, result header   came to
//! ```
//!
//! *Steps of a block.* A batch may hold schema and parameter changes anywhere. What stands before
//! the first is run by the protocol; then the change by itself, what follows one by one on the
//! newest state up to the next change, and so on: one height, one result.
//!
//! *Where transactions run as they arrive*, the order is known only when they have run, so the
//! order header is made together with the result, with the envelopes in the serial order that they
//! took, those that may not run behind the others; executing such a block again means one by one. A
//! live node opens it before it has any ([`arriving`]). Where there is no such order, the result
//! holds the rows that the block left ([`images`](crate::images)).
//!
//! *Blocks that overlap.* A block may be planned and prepared while the one before it is finished,
//! on the snapshot that its order names: the lag of the protocol, the last barrier, and what the
//! proposer and the clients of the batch had seen, which its envelopes and its order header say. So
//! a replica that executes the ledger again, one block after the other, prepares each on the same
//! one.
//!
//! *At most once.* What a block decides about a key counts from the first block on that is certain
//! to be planned afterwards, `carry_lag` later, so that all replicas admit alike.

mod again;
mod arriving;
mod carry;
mod keeper;
mod run;
mod skipped;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use concurrency::{BlockReport, Crew, Past, Protocol, Snapshots};
use ledger::{
    Batch, BlockResult, Genesis, Hash, LedgerId, OrderHeader, OrderSeal, Parameters, ResultHeader,
};
use order::{Released, View};
use parking_lot::Mutex;
use pipeline::{
    Barrier, Cadence, Finishing, Line, LineStart, Pipeline, Planned, Ran, Ready, Rules, Settled,
};
use storage::{HEIGHT_MAX, Store};
use types::row::ROW_ENCODING;
use types::{Error, Height, Origin, Position, Stamp};

use crate::effects::Effects;
use crate::language::Language;
use crate::limits::{EXECUTOR, Limits, unknown_executor};
use crate::request::{Member, Request};
use crate::skip::Skipped;
use crate::state_rows::{ProvableState, Roots};

pub use again::Again;
pub use arriving::{Closed, Entered, Opened};
pub use keeper::{Keeper, Spread, too_large};
pub use run::{check_first_order, check_protocol};
pub use run::{compile_request, shown_parameter, unknown_parameter};

/// A block that has been executed.
pub struct Executed<T> {
    pub batch: Arc<Batch>,
    pub result: BlockResult,
    /// Those carried over from earlier blocks, then the block's own.
    pub settled: Vec<Settled<Member<T>>>,
    /// How many were carried over.
    pub carried_in: usize,
    pub serial_order: Vec<Position>,
    /// (t, u): t comes, in the serial order, right before u of the block before.
    pub overtakings: Vec<(Position, Position)>,
    /// Which of the requests each of its own was, where the block is not in their order: it is in
    /// the serial order that they took.
    pub arrivals: Option<Vec<Position>>,
    pub report: BlockReport,
    /// The result holds rows, so that it cannot be computed again.
    pub holds_images: bool,
    /// Keeps the images of the changed rows readable as long as it lives.
    pub effects: Effects,
}

/// A block of a chain, the last one where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub height: Height,
    /// Of the result header.
    pub hash: Hash,
    pub time_us: i64,
}

/// What a replica is between two blocks, but for its store and its language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Boundary {
    /// Of the last block.
    pub order: OrderHeader,
    pub result: ResultHeader,
    /// In force for the next one.
    pub parameters: Arc<Parameters>,
    /// What keys came to, deferred transactions, what the protocol carries: see [`carry`].
    pub carried: Bytes,
    /// The snapshots before the block's that later ones may read, none before the last barrier.
    pub past: Past,
}

/// What a key that a client named has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStanding {
    /// Where the transaction was ordered.
    pub place: Origin,
    pub status: order::Status,
}

/// A batch that is not finished.
struct Ordered<T> {
    time_us: i64,
    proposer: order::Proposer,
    requests: Vec<Request<T>>,
    barrier: Barrier,
    /// The newest block that its proposer had seen, or one of its clients.
    seen: Height,
    /// `None`: sealed when it has run.
    batch: Option<Arc<Batch>>,
    /// Those that may not run, where they stand behind the others.
    refused: Vec<Request<T>>,
    /// From its first schema or parameter change on.
    tail: Vec<Member<T>>,
    /// Where that is so: which of the requests each was, of those that run, of those that may not,
    /// of the tail.
    came: Vec<Position>,
}

pub struct Replica<T> {
    ledger_id: LedgerId,
    store: Arc<Store>,
    language: Arc<dyn Language>,
    crew: Arc<Crew>,
    line: Line<Member<T>>,
    parameters: Arc<Parameters>,
    parameters_hash: Hash,
    limits: Limits,
    /// In force for the next block: a block that changes it runs under the one before.
    executor: u32,
    roots: Roots,
    /// Shared with the gate while a block is open.
    keeper: Arc<Mutex<Keeper>>,
    ordered: BTreeMap<Height, Ordered<T>>,
    /// The newest block that was planned.
    planned: Height,
    /// The last block that asked for a change of schema or parameters, or the oldest that was to be
    /// read where this replica began: no older snapshot is read.
    floor: Height,
    /// The newest order: its height, hash and time.
    newest: Head,
    order: OrderHeader,
    result: ResultHeader,
    head: Head,
    /// Since genesis.
    skips: Vec<Skipped>,
    /// The first and the last of the newest blocks that were not run.
    skipping: Option<(Height, Height)>,
}

/// Why a replica must stop: it may have diverged, or its ledger names something it does not know.
#[derive(Clone, PartialEq, Debug)]
pub struct Halt(pub String);

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Halt {}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Halt(why)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt(error.to_string())
    }
}

impl<T> Replica<T> {
    /// The state after the genesis block: empty.
    pub fn new(
        genesis: &Genesis,
        store: Arc<Store>,
        language: Arc<dyn Language>,
        workers: usize,
    ) -> Result<Replica<T>, Halt> {
        let parameters = Arc::new(genesis.parameters.clone());
        let block = genesis.to_block()?;
        let (order, result) = (block.batch.header().clone(), block.result.header().clone());
        let (carried, past) = Default::default();
        let boundary = Boundary { order, result, parameters, carried, past };
        Replica::at(boundary, store, language, workers)
    }

    /// A replica that goes on behind a block whose state is in the store and in the language, with
    /// the states before it that it names.
    pub fn at(
        boundary: Boundary,
        store: Arc<Store>,
        language: Arc<dyn Language>,
        workers: usize,
    ) -> Result<Replica<T>, Halt> {
        let Boundary { order, result, parameters, carried, past } = boundary;
        let encoding = &parameters.row_encoding;
        if encoding != ROW_ENCODING {
            return Err(Halt(format!("the ledger names an unknown row encoding: {encoding}")));
        }
        if !(1..=EXECUTOR).contains(&result.executor) {
            return Err(unknown_executor(&result.executor.to_string()).into());
        }
        let limits = Limits::of(&parameters)?;
        let protocol = protocol_of(&parameters)?;
        let carry::State { submissions, unsettled, deferred, carried, skips } =
            carry::State::decode(&carried, order.ledger_id, &*protocol, &limits)?;
        let ledger_id = order.ledger_id;
        let keeper = Keeper::new(ledger_id, limits, submissions, unsettled);
        let named = (order.height, result.state_root);
        let roots = Roots::at(&store, named, limits.state_root, workers)?;
        let floor = past.from().unwrap_or(order.height);
        let start = LineStart { protocol, carried, deferred, past };
        let mut line = Line::new(Arc::clone(&store), start, limits.attempts_max);
        line.set_budget(limits.budget);
        let mut replica = Replica {
            ledger_id: order.ledger_id,
            store,
            language,
            crew: Arc::new(Crew::new(workers)),
            line,
            parameters_hash: parameters.hash()?,
            parameters,
            executor: limits.executor,
            limits,
            roots,
            keeper: Arc::new(Mutex::new(keeper)),
            ordered: BTreeMap::new(),
            planned: order.height,
            floor,
            newest: Head { height: order.height, hash: order.hash(), time_us: order.time_us },
            head: head_of(&order, &result),
            order,
            result,
            skips,
            skipping: None,
        };
        replica.compile_deferred();
        Ok(replica)
    }

    /// What a checkpoint holds beside rows and schema.
    pub fn boundary(&self) -> Boundary {
        let snapshots = Snapshots { newest: self.head.height, floor: self.floor };
        Boundary {
            order: self.order.clone(),
            result: self.result.clone(),
            parameters: Arc::clone(&self.parameters),
            carried: self.carried_bytes(),
            past: self.line.past(snapshots),
        }
    }

    /// The schedule of the blocks to come.
    pub fn pipeline(&self, cadence: Cadence) -> Pipeline {
        self.pipeline_of(self.line.rules(), cadence)
    }

    /// The same where others than the protocol have a say.
    pub fn pipeline_of(&self, rules: Rules, cadence: Cadence) -> Pipeline {
        Pipeline::new(self.head.height, self.floor, rules, cadence)
    }

    pub fn protocol(&self) -> &Arc<dyn Protocol> {
        self.line.protocol()
    }

    pub fn rules(&self) -> Rules {
        self.line.rules()
    }

    /// Whether transactions wait for a later block.
    pub fn has_deferred(&self) -> bool {
        self.line.has_deferred()
    }

    pub fn ledger_id(&self) -> LedgerId {
        self.ledger_id
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What a key that a client named has come to, newest blocks included.
    pub fn key_standing(&self, principal: &str, key: &str) -> Option<KeyStanding> {
        self.keeper.lock().standing(principal, key)
    }

    pub fn crew(&self) -> &Arc<Crew> {
        &self.crew
    }

    pub fn language(&self) -> &Arc<dyn Language> {
        &self.language
    }

    /// The state behind the newest block, where its header names the root.
    pub fn provable_state(&self) -> Option<ProvableState> {
        let tree = self.roots.tree_of(&self.result.state_root)?;
        Some(ProvableState { header: self.result.clone(), tree })
    }

    pub fn head(&self) -> Head {
        self.head
    }

    /// Of the newest block that was executed.
    pub fn order_header(&self) -> &OrderHeader {
        &self.order
    }

    pub fn result_header(&self) -> &ResultHeader {
        &self.result
    }

    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Readers and sessions may see everything up to the head.
    pub fn publish(&mut self) {
        self.store.publish(self.head.height);
    }

    /// Gives the next height to a batch. Times never run back. Under a deterministic protocol its
    /// header is made here, and may be written before the block is executed. `seen_height`: what
    /// the proposer had released.
    pub fn order(
        &mut self,
        time_us: i64,
        proposer: order::Proposer,
        seen_height: Height,
        requests: Vec<Request<T>>,
    ) -> Result<Height, Halt> {
        let height = next_height(self.newest.height)?;
        let members = requests.len().saturating_add(self.deferred_to_next());
        if members > Stamp::POSITIONS_MAX as usize {
            return Err(Halt(format!("block {height} has {members} transactions, too many")));
        }
        let time_us = time_us.max(self.newest.time_us);
        let (seen_height, seen) = self.seen_by(height, seen_height, &requests);
        let barriers = requests.iter().map(|request| request.barrier);
        let barrier = barriers.max_by_key(|barrier| *barrier as u8).unwrap_or(Barrier::None);
        let envelopes = || requests.iter().map(|request| request.envelope.clone()).collect();
        let batch = match self.rules().runs_first {
            true => None,
            false => {
                Some(Arc::new(self.seal_batch(time_us, proposer, seen_height, envelopes())?))
            }
        };
        let (refused, tail, came) = Default::default();
        let ordered =
            Ordered { time_us, proposer, requests, barrier, seen, batch, refused, tail, came };
        self.ordered.insert(height, ordered);
        Ok(height)
    }

    /// What the order header says, and what the clients have seen beside the proposer. An envelope
    /// that has seen a block which is not before it is refused, and says nothing.
    fn seen_by(
        &self,
        height: Height,
        seen_height: Height,
        requests: &[Request<T>],
    ) -> (Height, Height) {
        if self.rules().lag == 1 {
            return (0, 0);
        }
        let seen_height = seen_height.min(height - 1);
        let views = requests.iter().filter_map(|request| View::read(&request.envelope).ok());
        let seen = views
            .filter(|view| view.ledger_id == self.ledger_id && view.seen_height < height)
            .map(|view| view.seen_height);
        (seen_height, seen.fold(seen_height, Height::max))
    }

    fn seal_batch(
        &mut self,
        time_us: i64,
        proposer: order::Proposer,
        seen_height: Height,
        envelopes: Vec<Bytes>,
    ) -> Result<Batch, Halt> {
        let seal = OrderSeal {
            ledger_id: self.ledger_id,
            height: self.newest.height + 1,
            previous_order_hash: self.newest.hash,
            time_us,
            proposer,
            parameters_hash: self.parameters_hash,
            seen_height,
        };
        let batch = Batch::seal(seal, envelopes)?;
        self.newest = Head { height: batch.height(), hash: batch.hash(), time_us };
        Ok(batch)
    }

    /// What the orderer has to know when the head is released.
    pub fn released(&self) -> Released {
        Released {
            height: self.head.height,
            result_hash: self.head.hash,
            parameters_hash: self.parameters_hash,
            names_seen: self.rules().lag > 1,
            carried: self.deferred_to_next(),
        }
    }

    /// The order of a block that was not executed yet, if it is known.
    pub fn batch(&self, height: Height) -> Option<&Arc<Batch>> {
        self.ordered.get(&height)?.batch.as_ref()
    }

    /// The requests of blocks that were not executed: those that will not be.
    pub fn abandon(&mut self) -> impl Iterator<Item = Request<T>> {
        let ordered = std::mem::take(&mut self.ordered).into_values();
        ordered.flat_map(|Ordered { requests, refused, tail, .. }| {
            let tail = tail.into_iter().map(|member| member.request);
            requests.into_iter().chain(refused).chain(tail)
        })
    }

    /// How many transactions of earlier blocks the next one holds, or a later one.
    pub fn deferred_to_next(&self) -> usize {
        self.line.deferred().values().map(Vec::len).sum()
    }

    /// Why later blocks must wait for one that was ordered.
    pub fn barrier(&self, height: Height) -> Barrier {
        self.ordered.get(&height).map_or(Barrier::None, |ordered| ordered.barrier)
    }

    /// The oldest snapshot that a block which was ordered may be prepared on, whatever its lag.
    pub fn seen(&self, height: Height) -> Height {
        let seen = self.ordered.get(&height).map_or(0, |ordered| ordered.seen);
        seen.max(self.floor)
    }

    /// Orders and executes the next block. Its writes are in the store but not published.
    pub fn execute(
        &mut self,
        time_us: i64,
        requests: Vec<Request<T>>,
    ) -> Result<Executed<T>, Halt> {
        let height = self.order(time_us, [0; 32], self.head.height, requests)?;
        self.run(height)
    }

    /// Plans, prepares and finishes a block.
    pub fn run(&mut self, height: Height) -> Result<Executed<T>, Halt> {
        let ready = self.plan(height)?.prepare(&self.crew)?;
        self.finish(ready)
    }

    /// What a block that was ordered is prepared on.
    fn snapshots(&self, height: Height) -> Snapshots {
        let (barrier, seen) = (self.barrier(height), self.seen(height));
        self.rules().snapshots(height, barrier, self.floor, seen)
    }

    /// Whether a replica that is made from the state at the head goes on as this one does: no later
    /// block has been planned.
    pub fn can_resume_here(&self) -> bool {
        self.planned <= self.head.height
    }
}

impl<T> Executed<T> {
    /// What the block takes in the ledger, but for frames.
    pub fn ledger_bytes(&self) -> u64 {
        let outcomes = self.result.outcomes().iter();
        let carried = self.result.carried().iter().map(|carried| &carried.outcome);
        let parts = self.batch.envelopes().iter().chain(outcomes).chain(carried);
        parts.map(|part| part.len() as u64 + 4).sum()
    }
}

pub type PlannedBlock<T> = Planned<Member<T>>;
pub type ReadyBlock<T> = Ready<Member<T>>;
pub type FinishingBlock<T> = Finishing<Member<T>>;
pub type RanBlock<T> = Ran<Member<T>>;

/// Heights are counted in what a row's stamp has room for. That they wrap is not an option.
fn next_height(height: Height) -> Result<Height, Halt> {
    if height < HEIGHT_MAX {
        return Ok(height + 1);
    }
    Err(Halt(format!("heights have run out: no block can follow block {height}")))
}

fn head_of(order: &OrderHeader, result: &ResultHeader) -> Head {
    Head { height: result.height, hash: result.hash(), time_us: order.time_us }
}

pub fn protocol_of(parameters: &Parameters) -> Result<Arc<dyn Protocol>, Halt> {
    protocols::by_name(&parameters.protocol)
        .map_err(|error| Halt(format!("the ledger's parameters are unknown: {}", error.message())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_end_by_name() {
        assert_eq!(next_height(HEIGHT_MAX - 1), Ok(HEIGHT_MAX));
        let halt = next_height(HEIGHT_MAX).unwrap_err();
        assert!(halt.0.contains("heights have run out"), "{halt}");
        assert!(HEIGHT_MAX <= Stamp::HEIGHT_MAX);
    }
}
