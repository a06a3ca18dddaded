//! Blocks that are recorded as rejected because no executor could run them.
//!
//! The order of a block is durable before it runs. One that makes the executor panic or hang (the
//! engine's watchdog finds out which) cannot be taken back, since that would be another chain. It
//! is *skipped* instead, by a block behind it whose only envelope says so:
//!
//! ```text
//!   orders    … 16 │ 17 fails │ 18, ordered beside it │ 19: "skip from 17, order hash h" │ 20 …
//!   results   … 16 │ 17: all XXT01 │ 18: all XXT01    │ 19: committed                  │ 20 …
//! ```
//!
//! *Every reader of the orders finds it before it runs the block*: it reads [`BLOCKS_MAX`] orders
//! ahead. So the decision is in the chain of orders, which is what is durable; results stay a
//! function of the orders, and can be lost and computed again.
//!
//! *What is skipped* are the named block and all between it and the one that says so: at most the
//! one that was ordered beside it, of which nothing was released either. Each of their
//! transactions, and each that earlier blocks had deferred to them, is rejected with XXT01, has no
//! effect, and has used its key or number. What the protocol carried begins anew, as behind a
//! schema change. The skip itself is an effect on table 0, and a part of the state.
//!
//! *What may be skipped* is a block of which no client can have had an answer. That holds for one
//! at the end of the orders that has no recorded result, under a protocol that orders first. The
//! last condition that a program can check is that nothing was ordered behind it that came after
//! its release; that its own clients had no answer is what the deaths of the node that ordered it
//! say, and what the owner confirms.
//!
//! *Who decides*: a user who can write the folder, under a name that they give, whose key signs
//! nothing. A session cannot: the engine takes no such request from a client.

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

/// The first of the blocks that a block skips, with the hash of its order; all behind it are.
pub fn skipped_by(batch: &Batch) -> Option<(Height, Hash)> {
    Skip::in_batch(batch).map(|Skip { first, order }| (first, order))
}

/// How each transaction of a skipped block ends.
pub(crate) fn rejection() -> Error {
    Error::new(SqlState::BLOCK_SKIPPED, "the block of the transaction was skipped")
}
