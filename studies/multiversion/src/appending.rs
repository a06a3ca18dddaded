//! Inserts under hidden row ids, serialized so that id order equals the writers' serial order.
//!
//! Rows without a primary key lie in the order of hidden ids, and an id contains its writer's
//! position in the block. That position is unknown while the block runs, but scans show the order.
//! So a transaction that inserts such rows draws an ascending *number* and holds an exclusive turn
//! until it ends. Numbers are then ordered like their writers' positions, and a transaction's own
//! rows come after all others, as they will when the block is replayed. At the end of the block the
//! numbers are replaced by positions ([`renumber`](crate::renumber)).
//!
//! Where blocks are not sealed, transactions take no turn, and ids are derived from what the
//! transaction was given.
//!
//! *Cost.* One writer at a time in the whole database, from its first such insert to its commit.

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

    /// Whether one that stands there may commit after those before.
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
