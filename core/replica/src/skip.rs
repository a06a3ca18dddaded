//! Skipped blocks: recorded as rejected because no executor could run them.
//!
//! A block's order is durable before the block runs. If running it makes the executor panic or hang
//! (the engine's watchdog detects that), it cannot be removed, as that would be another chain. It
//! is *skipped* instead, by a later block whose only envelope says so:
//!
//! ```text
//!   orders    … 16 │ 17 fails │ 18, ordered beside it │ 19: "skip from 17, order hash h" │ 20 …
//!   results   … 16 │ 17: all XXT01 │ 18: all XXT01    │ 19: committed                  │ 20 …
//! ```
//!
//! *Every reader of the orders sees the skip before it runs the block*: it reads [`BLOCKS_MAX`]
//! orders ahead. The decision is part of the chain of orders, which is the durable one; results
//! remain a function of the orders and can be recomputed when lost.
//!
//! *What is skipped*: the named block and all blocks between it and the skip, that is, at most the
//! one that was ordered beside it; no result of that was released either. Each of their
//! transactions, and each that earlier blocks had deferred to them, is rejected with XXT01, has no
//! effect, and has used its key or sequence number. State that the protocol carries between blocks
//! is reset, as after a schema change. The skip itself is an effect on table 0, and so part of the
//! state.
//!
//! *What may be skipped*: a block for which no client can have received an answer. That holds for a
//! block at the end of the orders without a recorded result, under a protocol that orders before it
//! executes. The last condition that a program can check is that no later block was ordered after
//! its release. That the block's own clients had no answer is shown by the deaths that the node
//! which ordered it has recorded, and confirmed by the owner.
//!
//! *Who decides*: a user with write access to the folder, under a name that the user states; no key
//! signs for it. A session cannot skip a block: the engine accepts no such request from a client.

use ledger::{Batch, Hash};
use order::View;
use types::{Error, Height, SqlState};

use crate::transaction::Body;

/// Blocks that one skip can name: one, and one that was ordered beside it.
pub const BLOCKS_MAX: Height = 2;

/// Bytes of a reason.
pub const REASON_BYTES_MAX: usize = 1024;

/// Blocks that the ledger records as skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub first: Height,
    pub last: Height,
    /// Who said so, and why.
    pub owner: String,
    pub reason: String,
}

/// What a block that skips others says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skip {
    pub first: Height,
    pub order: Hash,
}

impl Skip {
    /// Whether a block skips others: its only envelope says so.
    pub fn in_batch(batch: &Batch) -> Option<Skip> {
        let [envelope] = batch.envelopes() else { return None };
        let view = View::read(envelope).ok()?;
        if !Body::is_skip(view.request) {
            return None;
        }
        let Ok(Body::Skip { first, order, .. }) = Body::from_request(view.request) else {
            return None;
        };
        let distance = batch.height().checked_sub(first)?;
        (1..=BLOCKS_MAX).contains(&distance).then_some(Skip { first, order })
    }
}

/// The first of the blocks that a block skips, with the hash of its order; all after it are.
pub fn skipped_by(batch: &Batch) -> Option<(Height, Hash)> {
    Skip::in_batch(batch).map(|Skip { first, order }| (first, order))
}

/// How each transaction of a skipped block ends.
pub(crate) fn rejection() -> Error {
    Error::new(SqlState::BLOCK_SKIPPED, "the block of the transaction was skipped")
}
