//! [`Replica`]: the state between two blocks (store, parameters, head, admission, what is carried
//! over), and the blocks that were ordered and have not run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use concurrency::{Protocol, Snapshots, WorkerPool};
use ledger::{Batch, Genesis, Hash, LedgerId, OrderHeader, OrderSeal, Parameters, ResultHeader};
use order::Released;
use parking_lot::Mutex;
use pipeline::{Barrier, Cadence, Line, LineStart, Pipeline, Rules};
use storage::Store;
use types::row::ROW_ENCODING;
use types::{Height, Stamp};

use crate::language::Language;
use crate::limits::{EXECUTOR, Limits, unknown_executor};
use crate::request::{Member, Request};
use crate::skip::Skipped;
use crate::state_rows::{ProvableState, Roots};

use super::admission::AdmissionControl;
use super::block::{Boundary, Executed, Head, Ordered, head_of, next_height};
use super::carry;
use super::halt::Halt;
use super::keys::KeyStanding;
use super::parameters::protocol_of;

pub struct Replica<T> {
    pub(super) ledger_id: LedgerId,
    pub(super) store: Arc<Store>,
    pub(super) language: Arc<dyn Language>,
    pub(super) pool: Arc<WorkerPool>,
    pub(super) line: Line<Member<T>>,
    pub(super) parameters: Arc<Parameters>,
    pub(super) parameters_hash: Hash,
    pub(super) limits: Limits,
    /// In force for the next block: a block that changes it runs under the one before.
    pub(super) executor: u32,
    pub(super) roots: Roots,
    /// Shared with the entry while a block is open.
    pub(super) admission: Arc<Mutex<AdmissionControl>>,
    pub(super) ordered: BTreeMap<Height, Ordered<T>>,
    /// The newest block that was planned.
    pub(super) planned: Height,
    /// The last block that asked for a change of schema or parameters, or the oldest that was to be
    /// read where this replica began: no older snapshot is read.
    pub(super) floor: Height,
    /// The newest order: its height, hash and time.
    pub(super) newest: Head,
    pub(super) order: OrderHeader,
    pub(super) result: ResultHeader,
    pub(super) head: Head,
    /// Since genesis.
    pub(super) skips: Vec<Skipped>,
    /// The first and the last of the newest blocks that were not run.
    pub(super) skipping: Option<(Height, Height)>,
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
        language.begin(&parameters);
        let boundary = Boundary { order, result, parameters, carried, past };
        Replica::at(boundary, store, language, workers)
    }

    /// A replica that goes on after a block whose state is in the store and in the language, with
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
        let carry::State { submissions, undecided, deferred, carried, skips } =
            carry::State::decode(&carried, order.ledger_id, &*protocol, &limits)?;
        let ledger_id = order.ledger_id;
        let admission =
            AdmissionControl::new(ledger_id, limits, submissions, undecided, Arc::clone(&language));
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
            pool: Arc::new(WorkerPool::new(workers)),
            line,
            parameters_hash: parameters.hash()?,
            parameters,
            executor: limits.executor,
            limits,
            roots,
            admission: Arc::new(Mutex::new(admission)),
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
        assert!(self.floor <= self.head.height, "the last barrier is not behind the head");
        let snapshots = Snapshots { newest: self.head.height, floor: self.floor };
        Boundary {
            order: self.order.clone(),
            result: self.result.clone(),
            parameters: Arc::clone(&self.parameters),
            carried: carry::encode(&self.admission.lock(), &self.line, &self.skips),
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
        self.admission.lock().standing(principal, key)
    }

    pub fn pool(&self) -> &Arc<WorkerPool> {
        &self.pool
    }

    pub fn language(&self) -> &Arc<dyn Language> {
        &self.language
    }

    /// The state after the newest block, where its header names the root.
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
        assert!(self.head.height <= self.newest.height, "what has run was ordered");
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
        self.order_sealed(time_us, proposer, seen_height, requests, None)
    }

    /// The same of a batch whose header was made elsewhere in this process. It is not made again,
    /// unless this replica would make another one.
    pub fn order_sealed(
        &mut self,
        time_us: i64,
        proposer: order::Proposer,
        seen_height: Height,
        requests: Vec<Request<T>>,
        sealed: Option<&OrderHeader>,
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
        let batch = match self.rules().runs_first {
            true => None,
            false => {
                let envelopes = requests.iter().map(|it| it.envelope.bytes().clone()).collect();
                let seal = self.next_seal(time_us, proposer, seen_height);
                Some(Arc::new(self.seal_batch(seal, envelopes, sealed)?))
            }
        };
        let (refused, tail, came) = Default::default();
        let ordered =
            Ordered { time_us, proposer, requests, barrier, seen, batch, refused, tail, came };
        let other = self.ordered.insert(height, ordered);
        assert!(other.is_none(), "one batch has a height, and its requests are answered");
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
        let views = requests.iter().filter_map(|request| request.envelope.view().ok());
        let seen = views
            .filter(|view| view.ledger_id == self.ledger_id && view.seen_height < height)
            .map(|view| view.seen_height);
        (seen_height, seen.fold(seen_height, Height::max))
    }

    /// The height of the next batch that is ordered.
    pub fn next_height(&self) -> Height {
        self.newest.height + 1
    }

    pub(super) fn next_seal(
        &self,
        time_us: i64,
        proposer: order::Proposer,
        seen_height: Height,
    ) -> OrderSeal {
        OrderSeal {
            ledger_id: self.ledger_id,
            height: self.next_height(),
            previous_order_hash: self.newest.hash,
            time_us,
            proposer,
            parameters_hash: self.parameters_hash,
            seen_height,
        }
    }

    pub(super) fn seal_batch(
        &mut self,
        seal: OrderSeal,
        envelopes: Vec<Bytes>,
        sealed: Option<&OrderHeader>,
    ) -> Result<Batch, Halt> {
        let taken = match sealed {
            Some(header) => Batch::sealed_as(header, seal.clone(), envelopes),
            None => Err(envelopes),
        };
        let batch = match taken {
            Ok(batch) => batch,
            Err(envelopes) => Batch::seal(seal, envelopes)?,
        };
        let time_us = batch.header().time_us;
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
        let ready = self.plan(height)?.prepare(&self.pool)?;
        self.finish(ready)
    }

    /// What a block that was ordered is prepared on.
    pub(super) fn snapshots(&self, height: Height) -> Snapshots {
        let (barrier, seen) = (self.barrier(height), self.seen(height));
        self.rules().snapshots(height, barrier, self.floor, seen)
    }

    /// Whether a replica that is made from the state at the head goes on as this one does: no later
    /// block has been planned.
    pub fn can_resume_here(&self) -> bool {
        self.planned <= self.head.height
    }
}
