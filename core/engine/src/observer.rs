//! [`Observer`]: how an engine reports finished blocks, answers and checkpoints to the metrics,
//! without knowing them.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Hash, Parameters};
use types::{Error, Height};

use crate::checkpoint::Taken;
use crate::retention::Memory;

/// Told of every durable block, for the metrics. Called on the sequencer's thread, so it must be
/// quick.
pub trait Observer: Send + Sync + 'static {
    fn block(&self, event: &BlockEvent);
    /// One transaction is answered, so long after it was submitted.
    fn answered(&self, latency: Duration);
    /// What no reader can reach any more was freed. Called on the sequencer's thread.
    fn collected(&self, _left: &Memory) {}
    /// A checkpoint is durable, so long after it was begun. Called on a thread of its own.
    fn checkpoint(&self, _taken: &Taken, _took: Duration) {}
    /// A checkpoint was begun, and is none. Called on the same thread.
    fn checkpoint_failed(&self, _error: &Error) {}
    /// From now on the engine serves reads only.
    fn halted(&self, _cause: &Error) {}
}

/// A durable block in numbers.
#[derive(Clone, Debug)]
pub struct BlockEvent {
    pub height: Height,
    pub result_hash: Hash,
    /// Of the order header.
    pub time_us: i64,
    /// Of those in force for the block, as its order header names them.
    pub parameters_hash: Hash,
    /// Those in force for the next one.
    pub next_parameters: Arc<Parameters>,
    pub committed: u64,
    pub rejected: u64,
    /// Told to try again.
    pub retried: u64,
    /// Deferred to a later block.
    pub deferred: u64,
    /// Transactions that the protocol turned away at first.
    pub rerun: u64,
    pub effects: u64,
    pub ledger_bytes: u64,
    /// Of a block whose calls ran as they arrived: how long it was open.
    pub execute: Duration,
    pub sync: Duration,
}

/// Observes nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn block(&self, _: &BlockEvent) {}
    fn answered(&self, _: Duration) {}
}
