//! What a concurrency-control protocol is to the rest of the system.

use std::any::Any;
use std::sync::Arc;

use procedure::ProgramResult;
use storage::{BlockWrites, Store};
use types::{Error, Height, Position, Stop};

use crate::crew::Crew;
use crate::work::Work;

/// A protocol's card: the one list that CLI, docs, bench and tests read.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
    pub name: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    pub isolation: Isolation,
    /// The same block gives the same bytes on every replica, whatever the number of workers.
    pub deterministic: bool,
    /// Procedures whose keys depend on reads need a detour.
    pub needs_keys_up_front: bool,
    /// Runs transactions as they arrive.
    pub interactive: bool,
    /// Procedure calls and single statements may end in 40001.
    pub may_retry: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    Serializable,
    Snapshot,
}

/// An ordered batch of transactions, compiled and ready to run.
#[derive(Debug)]
pub struct Block {
    pub height: Height,
    /// `now()` of its transactions: microseconds since 2000-01-01 UTC.
    pub time_us: i64,
    pub transactions: Vec<Arc<Work>>,
}

/// How a transaction ended. Deterministic, and recorded in the block.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    Committed(ProgramResult),
    Rejected(Error),
    /// An interactive transaction met a newer version than it had read: 40001.
    Retry(Error),
}

impl Outcome {
    /// `Halt` is nobody's outcome: it stops the replica. Texts are [cut](Error::cut) here, where
    /// every replica and the client get the same ones.
    pub fn from_run(run: Result<ProgramResult, Stop>) -> Result<Outcome, String> {
        match run {
            Ok(result) => Ok(Outcome::Committed(result)),
            Err(Stop::Rejected(error)) => Ok(Outcome::Rejected(error.cut())),
            Err(Stop::Retry(error)) => Ok(Outcome::Retry(error.cut())),
            Err(Stop::Halt(why)) => Err(why),
        }
    }

    pub fn is_committed(&self) -> bool {
        matches!(self, Outcome::Committed(_))
    }
}

/// What running a block gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BlockOutcome {
    /// One for each transaction, in block order.
    pub outcomes: Vec<Outcome>,
    /// The serial order that the protocol claims to be equivalent to: a permutation of the block's
    /// positions, rejected and retried transactions included.
    pub serial_order: Vec<Position>,
    pub report: BlockReport,
}

/// Counts that the metrics and the bench show; they never reach the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockReport {
    /// Transactions that the protocol's rule turned away at first and that ran again in the block.
    pub rerun: u32,
}

/// What `prepare` hands to `finish` of the same protocol.
pub type Prepared = Box<dyn Any + Send>;

/// One strategy. Virtual per block; below these two calls everything is generic and monomorphised.
///
/// `prepare` may overlap the block before: it must read at `snapshot_height` only. `finish` is
/// called in block order, installs the block's writes through `writes` and names the serial order
/// it took. An `Err` means that this replica is sick and must stop.
pub trait Protocol: Send + Sync {
    fn info(&self) -> &'static ProtocolInfo;

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshot_height: Height,
        crew: &Crew,
    ) -> Result<Prepared, String>;

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        crew: &Crew,
    ) -> Result<BlockOutcome, String>;
}
