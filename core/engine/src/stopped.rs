//! A node that has stopped before a block which fails to execute: why, whether the block can be
//! [skipped](replica::skip), and the order that skips it.

use ledger::{Batch, OrderHeader, OrderSeal};
use pipeline::Rules;
use replica::skip::{BLOCKS_MAX, REASON_BYTES_MAX};
use replica::{Body, Numbering};
use types::{Error, Result, SqlState};

use crate::client::Request;
use crate::watchdog::Failing;

/// Where a start has stopped, since the block after fails.
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

    /// The order that skips the block and those after it.
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
        let request: Request = numbering.request(owner, time_us, &body)?;
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
        Batch::seal(seal, vec![request.envelope.into_bytes()])
    }
}
