//! What the engine attaches to a request while it passes through the replica: the client that waits
//! for the answer, and since when. The replica carries it as a type parameter and never looks
//! inside.

use std::time::Instant;

use order::{EnvelopeBytes, Proposer};
use pipeline::Barrier;
use replica::{Compiled, Completion};
use tokio::sync::oneshot;
use types::{Height, Result};

/// A client that waits for its answer, and since when.
pub struct Waiting {
    pub arrived: Instant,
    pub reply: oneshot::Sender<Result<Completion>>,
}

/// A replica whose requests may have clients of this node.
pub type Replica = replica::Replica<Waiting>;
pub type Executed = replica::Executed<Waiting>;
pub type Request = replica::Request<Waiting>;
pub type Member = replica::Member<Waiting>;

pub(crate) type PlannedBlock = replica::PlannedBlock<Waiting>;
pub(crate) type ReadyBlock = replica::ReadyBlock<Waiting>;
pub(crate) type FinishingBlock = replica::FinishingBlock<Waiting>;
pub(crate) type RanBlock = replica::RanBlock<Waiting>;
pub(crate) type Entered = replica::Entered<Waiting>;
pub(crate) type Closed = replica::Closed<Waiting>;

/// What travels beside an envelope on its own node.
pub(crate) struct Ticket {
    /// By which it can be withdrawn.
    pub number: u64,
    pub envelope: EnvelopeBytes,
    pub compiled: Option<Compiled>,
    pub barrier: Barrier,
    pub waiting: Waiting,
}

/// A batch with what its clients wait for.
pub(crate) struct Cut {
    pub time_us: i64,
    pub proposer: Proposer,
    pub seen_height: Height,
    pub requests: Vec<Request>,
    /// How many wait behind it.
    pub left: usize,
}

pub(crate) fn request_of(ticket: Ticket) -> Request {
    let Ticket { envelope, compiled, barrier, waiting, .. } = ticket;
    Request { envelope, compiled, barrier, waiting: Some(waiting) }
}
