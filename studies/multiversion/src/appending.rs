//! Rows under hidden ids, in the order in which their writers will stand.
//!
//! Such rows lie in the order of their ids, and an id names its writer's position in the block.
//! While the block runs the position is not known, but scans show the order. So a transaction that
//! adds such rows draws a *number*, which grows, and keeps the turn until it ends: numbers are
//! ordered as their writers' places are, and a transaction's own rows lie behind all others, as
//! they will when the block is replayed. The numbers become positions at the end
//! ([`renumber`](crate::renumber)).
//!
//! Where no block is sealed, no transaction asks for a turn, and ids are made of what the
//! transaction was told.
//!
//! *Cost.* One writer at a time, database-wide, from its first such row to its commit.

use kit::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::clock::Timestamp;

#[derive(Default)]
pub(crate) struct Appending {
    /// The worker whose turn it is, and one; 0: none has it.
    turn: AtomicU64,
    number: AtomicU32,
    /// Where the last who committed stands.
    last: AtomicU64,
}

impl Appending {
    /// A number, and the turn with it; `None`: another worker has it.
    pub(crate) fn begin(&self, worker: usize) -> Option<u32> {
        let own = worker as u64 + 1;
        self.turn.compare_exchange(0, own, SeqCst, SeqCst).ok()?;
        Some(self.number.fetch_add(1, SeqCst))
    }

    /// Whether one that stands there may commit behind those before.
    pub(crate) fn allows(&self, order: Timestamp) -> bool {
        order.0 > self.last.load(SeqCst)
    }

    pub(crate) fn commit(&self, order: Timestamp) {
        self.last.store(order.0, SeqCst);
    }

    /// Numbers of a block that is over are positions by now, so they may be used again.
    pub(crate) fn start_over(&self) {
        self.number.store(0, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.turn.store(0, SeqCst);
    }
}
