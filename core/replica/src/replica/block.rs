//! A block on its way through a replica: what it is when it was ordered, when it has run, when it
//! is sealed.

use std::sync::Arc;

use bytes::Bytes;
use concurrency::{BlockReport, Outcome, Past, Work};
use ledger::{
    Batch, BlockResult, CarriedOutcome, Hash, OrderHeader, Parameters, ResultHeader, ResultSeal,
};
use pipeline::{Barrier, Decided, Decision, Finishing, Planned, Ready};
use storage::HEIGHT_MAX;
use types::{Height, Origin, Position, Stamp, Stop};

use crate::effects::{Effects, Step};
use crate::request::{Member, Request};

use super::halt::Halt;
use super::keys::KeyDecision;

/// A block that has been executed.
pub struct Executed<T> {
    pub batch: Arc<Batch>,
    pub result: BlockResult,
    /// Those carried over from earlier blocks, then the block's own.
    pub decided: Vec<Decided<Member<T>>>,
    /// How many were carried over.
    pub carried_in: usize,
    pub serial_order: Vec<Position>,
    /// (t, u): t comes, in the serial order, right before u of the block before.
    pub inter_block_reorderings: Vec<(Position, Position)>,
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
    /// What keys came to, deferred transactions, what the protocol carries: see
    /// [`carry`](super::carry).
    pub carried: Bytes,
    /// The snapshots before the block's that later ones may read, none before the last barrier.
    pub past: Past,
}

/// A batch that is not finished.
pub(super) struct Ordered<T> {
    pub time_us: i64,
    pub proposer: order::Proposer,
    pub requests: Vec<Request<T>>,
    pub barrier: Barrier,
    /// The newest block that its proposer had seen, or one of its clients.
    pub seen: Height,
    /// `None`: sealed when it has run.
    pub batch: Option<Arc<Batch>>,
    /// Those that may not run, where they stand after the others.
    pub refused: Vec<Request<T>>,
    /// From its first schema or parameter change on.
    pub tail: Vec<Member<T>>,
    /// Where that is so: which of the requests each was, of those that run, of those that may not,
    /// of the tail.
    pub came: Vec<Position>,
}

/// What has run of a block.
pub(super) struct Ran<T> {
    pub decided: Vec<Decided<Member<T>>>,
    /// Transactions of the block's own among them.
    pub own: u32,
    pub effects: Effects,
    /// Of keys, where nothing was run that would settle them.
    pub key_decisions: Vec<KeyDecision>,
}

/// A block that has run, before its effects are hashed.
pub(super) struct Unsealed<T> {
    pub batch: Arc<Batch>,
    /// But for the effects and the state root.
    pub seal: ResultSeal,
    pub outcomes: (Vec<Bytes>, Vec<CarriedOutcome>),
    pub decided: Vec<Decided<Member<T>>>,
    pub carried_in: usize,
    pub serial_order: Vec<Position>,
    pub inter_block_reorderings: Vec<(Position, Position)>,
    pub arrivals: Option<Vec<Position>>,
    pub report: BlockReport,
    pub effects: Effects,
}

/// What the protocol said of a block, beside outcomes and effects.
#[derive(Default)]
pub(super) struct Account {
    pub carried_in: usize,
    pub serial_order: Vec<Position>,
    pub inter_block_reorderings: Vec<(Position, Position)>,
    pub arrivals: Option<Vec<Position>>,
    pub report: BlockReport,
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
pub type RanBlock<T> = pipeline::Ran<Member<T>>;

impl<T> Ordered<T> {
    /// Which of the requests each of the block's own was, of which those that ran stand in this
    /// order of their arrivals.
    pub fn came_to(&self, arrivals: Vec<Position>) -> Vec<Position> {
        let behind = self.came.get(arrivals.len()..).unwrap_or_default();
        let ran = arrivals.iter().map(|&at| self.came.get(at as usize).copied().unwrap_or(at));
        ran.chain(behind.iter().copied()).collect()
    }
}

impl<T> Ran<T> {
    /// All of the block's own.
    pub(super) fn of(decided: Vec<Decided<Member<T>>>, effects: Effects) -> Ran<T> {
        Ran { own: decided.len() as u32, decided, effects, key_decisions: Vec::new() }
    }

    /// A change that is refused is a step as well: what ran by the protocol is not all there is.
    pub(super) fn push_refused(&mut self) {
        self.effects.push(Step::Objects(Vec::new()));
    }

    /// After all that ran in the block: what may not run.
    pub(super) fn push_void(&mut self, height: Height, member: Member<T>) -> Result<(), Halt> {
        let outcome = match &*member.work {
            Work::Void(error) => Outcome::from_run(Err(Stop::from(error.clone())))?,
            _ => return Err(Halt("a transaction that may not run has a program".to_owned())),
        };
        self.push(height, member, outcome);
        Ok(())
    }

    /// After all that ran in the block.
    pub(super) fn push(&mut self, height: Height, member: Member<T>, outcome: Outcome) {
        let index = self.own;
        self.own += 1;
        let decision = Decision::Now(member);
        self.decided.push(Decided { origin: Origin { height, index }, outcome, decision });
        debug_assert!(self.own as usize <= self.decided.len(), "its own are among all");
    }
}

/// Whether a transaction runs by itself: it changes the schema or the parameters.
pub(super) fn stops<T>(member: &Member<T>) -> bool {
    member.verdict.runs() && member.request.barrier != Barrier::None
}

const _: () = assert!(HEIGHT_MAX <= Stamp::HEIGHT_MAX, "each height has a stamp");

/// Heights are counted in what a row's stamp has room for. That they wrap is not an option.
pub(super) fn next_height(height: Height) -> Result<Height, Halt> {
    if height < HEIGHT_MAX {
        return Ok(height + 1);
    }
    Err(Halt(format!("heights have run out: no block can follow block {height}")))
}

pub(super) fn head_of(order: &OrderHeader, result: &ResultHeader) -> Head {
    Head { height: result.height, hash: result.hash(), time_us: order.time_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_end_by_name() {
        assert_eq!(next_height(HEIGHT_MAX - 1), Ok(HEIGHT_MAX));
        let halt = next_height(HEIGHT_MAX).unwrap_err();
        assert!(halt.0.contains("heights have run out"), "{halt}");
    }
}
