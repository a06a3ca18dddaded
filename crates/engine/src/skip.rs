//! Blocks that are recorded as rejected because no executor could run them.
//!
//! The order of a block is durable before it runs. One that makes the executor panic or hang (see
//! [`watchdog`](crate::watchdog)) cannot be taken back, since that would be another chain. It is
//! *skipped* instead, by a block behind it whose only envelope says so:
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
//! transactions, and each that earlier blocks had put off to them, is rejected with XXT01, has no
//! effect, and has used its key or number. What the protocol carried begins anew, as behind a
//! schema change. The skip itself is an effect on table 0, and a part of the state.
//!
//! *What may be skipped* is a block of which no client can have had an answer. That holds for one
//! at the end of the orders that has no recorded result, under a protocol that orders first. The
//! last condition that a program can check is that nothing was ordered behind it that came after
//! its release; that its own clients had no answer is what the deaths of the node that ordered it
//! say, and what the owner confirms.
//!
//! *Who decides*: a user who can write the folder, under a name that they give: principals have no
//! keys yet. A session cannot: the engine takes no such request from a client.

use ledger::{Batch, Hash, OrderHeader, OrderSeal};
use order::View;
use pipeline::Rules;
use types::{Error, Height, Result, SqlState};

use crate::request::Numbering;
use crate::transaction::Body;
use crate::watchdog::Failing;

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
pub(crate) struct Skip {
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

/// Where a start has stopped, since the block behind fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    pub failing: Failing,
    /// Of the block that fails, and of the last one.
    pub order: OrderHeader,
    pub last: OrderHeader,
    /// It has a result, so that it ran once.
    pub is_recorded: bool,
    /// Its transaction, if it is a single one.
    pub transaction: Option<String>,
}

impl Stopped {
    /// Why a node serves reads only.
    pub fn cause(&self) -> Error {
        let cause = self.failing.cause();
        let Some(transaction) = &self.transaction else { return cause };
        let detail = cause.fields().detail.clone().unwrap_or_default();
        cause.with_detail(format!("{detail} Its only transaction, 0, is `{transaction}`."))
    }

    /// Whether the block can be skipped: no client can have had an answer.
    pub fn check(&self, rules: Rules) -> Result<()> {
        let height = self.order.height;
        let beside = self.last.height - height;
        let overlaps = rules.overlap() && self.last.seen_height < height;
        let why = if self.is_recorded {
            "Its result is in the ledger.".to_owned()
        } else if rules.runs_first {
            "Under the ledger's protocol, blocks run before they are ordered.".to_owned()
        } else if beside >= BLOCKS_MAX || beside > 0 && !overlaps {
            format!("Block {}, which is in the ledger, was ordered after it.", self.last.height)
        } else {
            return Ok(());
        };
        let what = format!("block {height} was executed, and cannot be skipped");
        Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
            .with_detail(format!("{why} Its clients may have had their answers."))
            .with_hint("Start the version of the program that executed it."))
    }

    /// The order that skips the block and those behind it.
    pub fn skip(&self, owner: &str, reason: &str, time_us: i64) -> Result<Batch> {
        if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX {
            let what = format!("a reason has 1 to {REASON_BYTES_MAX} bytes");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        let (order, last) = (&self.order, &self.last);
        let (first, hash) = (order.height, order.hash());
        let body = Body::Skip { first, order: hash, reason: reason.to_owned() };
        let time_us = time_us.max(last.time_us);
        let mut numbering = Numbering::behind(order.ledger_id, &last.hash());
        let request = numbering.request(owner, time_us, &body)?;
        let seal = OrderSeal {
            ledger_id: order.ledger_id,
            height: last.height + 1,
            previous_order_hash: last.hash(),
            time_us,
            proposer: last.proposer,
            // Nothing that is skipped changes them.
            parameters_hash: order.parameters_hash,
            seen_height: 0,
        };
        Batch::seal(seal, vec![request.envelope])
    }
}
