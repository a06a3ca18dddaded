//! A block that is open: calls run in it as they arrive.
//!
//! ```text
//!   open ─► worker ─► run, run, try_again, run … ─► leave ─┐
//!      └──► worker ─► run ─► leave     worker ─► run … ─► leave ─► close ─► BlockOutcome
//! ```
//!
//! Workers come and go while the epoch is open; each stays on its thread. A call has run when its
//! outcome is decided and its writes are in the store, though no client is told before the block is
//! durable. Places in the serial order are known when the epoch is closed, and only then.
//!
//! *Invariants.* Arrivals are numbers from 0 on without a gap, each run once. The epoch is closed
//! when no worker is in it. The caller keeps the works of its calls until then.

use std::sync::Arc;

use storage::{BlockWrites, UndoArena};
use types::Position;

use crate::protocol::BlockOutcome;
use crate::work::Work;

/// One that has come to run.
#[derive(Clone, Debug)]
pub struct Call {
    /// How many have come before it.
    pub arrival: Position,
    /// What `now()` is to it.
    pub now_us: i64,
    pub work: Arc<Work>,
}

/// See the module.
pub trait Epoch: Send + Sync {
    /// Begins to run calls on this thread. The arena is of this block.
    fn worker(&self, undo: UndoArena) -> Box<dyn EpochWorker + '_>;

    /// Runs what was left to be run alone, and tells the serial order: `outcomes` are in the order
    /// of arrivals, and so `serial_order` counts them. The arenas are back in `writes`, where
    /// stamps get their positions. An `Err` means that this replica is sick and must stop.
    fn close(self: Box<Self>, writes: &mut BlockWrites) -> Result<BlockOutcome, String>;
}

/// Who runs calls in an epoch.
pub trait EpochWorker {
    /// Runs a call, to its end unless a conflict is in the way; then one that had met some before.
    fn run(&mut self, call: Call);

    /// There is nothing new: what has met conflicts is tried again, after a short rest.
    fn try_again(&mut self);

    /// Calls that have begun here, have not ended and were not left to the close.
    fn under_way(&self) -> usize;

    /// Nothing is under way.
    fn leave(self: Box<Self>) -> UndoArena;
}
