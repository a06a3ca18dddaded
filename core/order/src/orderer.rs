//! The seam to whatever puts envelopes in an order.
//!
//! ```text
//! submit(envelope) ─► [ the orderer: a queue, or a cluster of its own ] ─► poll() ─► Delivery
//!                                                                          1, 2, 3, …
//! ```
//!
//! An orderer is a value: threads, sockets and clocks are given to it by an adapter. `submit` and
//! `poll` return at once; where the order is made elsewhere, an adapter fills queues on both sides.
//!
//! **What a consumer may rely on.** [`crate::conformance`] tries it.
//!
//! 1. Deliveries count 1, 2, 3, … without a gap, and every node is given the same under the same
//!    sequence.
//! 2. The times of batches never run back, whatever the clocks of proposers do.
//! 3. An envelope that was accepted is delivered unless its node stops. It stands in the order
//!    *at least once*: a message sent again after a lost answer may put a copy into the same or a
//!    later batch. [`crate::Submissions`] tells copies apart; an orderer need not.
//! 4. Without faults, envelopes of one node are delivered once, in the order in which they came.
//! 5. After a restart, `resume` names the last delivery that was made durable, and the one after
//!    it comes next. What was accepted and not ordered may be lost: its clients hear nothing and
//!    ask again.
//! 6. What waits is bounded in count and bytes.
//! 7. Deliveries hold envelopes of any node, known here or not, and may hold anything: an envelope
//!    in a batch is checked by the replica, not by the orderer.
//!
//! **What an adapter of an asynchronous orderer does.** `submit` puts the envelope into a bounded
//! [outbox](crate::Outbox); it stays there until a delivery holds it, and is sent again after a
//! while. `poll` gives what was received, in order, and holds back what came early. Entries that a
//! protocol makes for itself are delivered without content, so that sequences have no gaps.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{Hash, OrderHeader, Parameters};
use types::error::TEXT_BYTES_MAX;
use types::{Error, Height, Result, SqlState};

use crate::proposal::Delivery;

/// Is told a height.
pub type Tell = Box<dyn FnOnce(Height) + Send>;

/// See the module.
pub trait Orderer {
    /// Hands over an envelope to be ordered, or refuses it at once.
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused>;

    /// Asks for a batch even if nothing waits, for the sake of what earlier blocks deferred. Where
    /// messages can be lost, so can this: ask again. One empty batch too many does no harm.
    fn nudge(&mut self);

    /// The next delivery, if there is one. `now_us` is the node's clock: what this node cuts
    /// bears that time, or a later one where time has come further already.
    fn poll(&mut self, now_us: i64) -> Option<Delivery>;

    /// Goes on after the delivery `after`, which had the block time `time_us` (the last one that
    /// was made durable; 0 and `i64::MIN` before the first). Fails where that delivery is no
    /// longer kept.
    fn resume(&mut self, after: u64, time_us: i64) -> Result<()>;

    /// Waits no longer for an envelope that was accepted, and sends it no more. Whether it was sent
    /// nowhere, and so will never be delivered; false where that is not known.
    fn withdraw(&mut self, _envelope: &Bytes) -> bool {
        false
    }

    /// Why nothing can be ordered at present, for people; `None`: as far as is known, it can.
    fn hindrance(&self) -> Option<String> {
        None
    }

    /// Envelopes that are waited for no more, as what orders them cannot be reached, and what their
    /// clients are told.
    fn given_up(&mut self) -> Vec<(Bytes, Error)> {
        Vec::new()
    }

    /// Refuses envelopes from now on, with this cause. What was accepted is still delivered.
    fn close(&mut self, why: Error);

    /// From after a block on other parameters are in force. Before that block is told released.
    fn governed(&mut self, _height: Height, _parameters: &Parameters) {}

    /// Its node has released a block, and this is what it knows then. An orderer whose leader fills
    /// in what a batch is executed under cuts none after a change before that was released.
    fn released(&mut self, _released: Released) {}

    /// The order of a block, where the orderer's log is the ledger's log of orders, and the block
    /// was delivered.
    fn recorded(&self, _height: Height) -> Option<Recorded> {
        None
    }

    /// Asks the others for the last block that more than half of them had when this was called, of
    /// which `tell` is told. What is dropped untold was not confirmed: ask again. False: there are
    /// no others.
    fn confirm(&mut self, _tell: Tell) -> bool {
        false
    }

    /// A session of its node waits for a block that others have: what is ordered is delivered at
    /// once for some time.
    fn awaited(&mut self) {}

    /// Its node executes nothing any more, so it is no node to lead others.
    fn leave(&mut self) {}

    /// `wake` is called when something may be there to poll.
    fn wake_by(&mut self, _wake: Arc<dyn Fn() + Send + Sync>) {}
}

/// An order that stands in the ledger's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub hash: Hash,
    /// Where this process has made it, of the envelopes that were delivered: they need not be
    /// hashed again.
    pub sealed: Option<OrderHeader>,
}

/// What a node knows when it has released a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released {
    pub height: Height,
    /// The head's.
    pub result_hash: [u8; 32],
    /// Of the parameters that the next block is executed under.
    pub parameters_hash: [u8; 32],
    /// Whether blocks name what their proposer had seen: they do where snapshots may lie further
    /// back than one block.
    pub names_seen: bool,
    /// Transactions that earlier blocks deferred to the next one.
    pub carried: usize,
}

/// Why an envelope was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As much waits as may: later it may be taken.
    Full,
    /// It would fit no batch.
    TooLarge { bytes: usize, bytes_max: usize },
    /// No envelope is taken any more.
    Closed(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        match refused {
            Refused::Full => {
                Error::new(SqlState::TOO_MANY_CONNECTIONS, "too many transactions are waiting")
                    .with_hint("Try again, or lower the number of concurrent clients.")
            }
            Refused::TooLarge { bytes, bytes_max } => {
                Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the transaction is too large")
                    .with_detail(format!("It has {bytes} bytes; a block has room for {bytes_max}."))
                    .with_hint("Split it into several transactions.")
            }
            Refused::Closed(why) => why,
        }
    }
}

/// What a batch may hold and what may wait for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Envelopes of a batch.
    pub transactions_max: usize,
    /// Bytes of a batch, but one envelope of any size that [`Limits::room_bytes`] allows.
    pub bytes_max: usize,
    /// What a block may come to, with the longest outcomes that its transactions can have.
    pub block_bytes_max: usize,
    /// What each transaction adds to its block beside its own bytes, at most.
    pub outcome_bytes_max: usize,
    /// Envelopes that may wait.
    pub queued_max: usize,
    /// Bytes that may wait, but one envelope where nothing waits.
    pub queued_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            transactions_max: 10_000,
            bytes_max: 16 << 20,
            block_bytes_max: (1 << 30) - (1 << 20),
            outcome_bytes_max: TEXT_BYTES_MAX + 64 + 8,
            queued_max: 100_000,
            queued_bytes_max: 1 << 30,
        }
    }
}

impl Limits {
    /// The largest envelope.
    pub fn room_bytes(&self) -> usize {
        self.block_bytes_max.saturating_sub(self.outcome_bytes_max)
    }

    /// May an envelope of `bytes` join `queued` ones that have `queued_bytes`?
    pub fn admit(&self, bytes: usize, queued: usize, queued_bytes: usize) -> Result<(), Refused> {
        if bytes > self.room_bytes() {
            return Err(Refused::TooLarge { bytes, bytes_max: self.room_bytes() });
        }
        let too_many = queued >= self.queued_max;
        let too_much = queued > 0 && queued_bytes.saturating_add(bytes) > self.queued_bytes_max;
        if too_many || too_much { Err(Refused::Full) } else { Ok(()) }
    }

    /// How many of these envelopes a batch takes, in order, beside transactions carried over from
    /// earlier blocks.
    pub(crate) fn fit(&self, carried: usize, waiting: impl Iterator<Item = usize>) -> usize {
        let mut filling = Filling::beside(carried, self);
        waiting.take_while(|bytes| filling.takes(*bytes, self)).count()
    }
}

/// A batch that is being filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Transactions that earlier blocks deferred, and envelopes.
    count: usize,
    envelopes: usize,
    bytes: usize,
    weight: usize,
}

impl Filling {
    /// Nothing but what was carried over from earlier blocks.
    pub fn beside(carried: usize, limits: &Limits) -> Filling {
        let weight = carried.saturating_mul(limits.outcome_bytes_max);
        Filling { count: carried, weight, ..Filling::default() }
    }

    /// Whether there is room for an envelope of so many bytes, which is then in.
    pub fn takes(&mut self, envelope_bytes: usize, limits: &Limits) -> bool {
        let bytes = self.bytes.saturating_add(envelope_bytes);
        let more = envelope_bytes.saturating_add(limits.outcome_bytes_max);
        let weight = self.weight.saturating_add(more);
        let is_full = self.count >= limits.transactions_max.max(1);
        let is_too_much = self.envelopes > 0 && bytes > limits.bytes_max;
        if is_full || is_too_much || weight > limits.block_bytes_max {
            return false;
        }
        *self = Filling { count: self.count + 1, envelopes: self.envelopes + 1, bytes, weight };
        true
    }
}
