//! What a node's own clients wait for, beside the envelopes that are theirs.

use bytes::Bytes;
use order::Proposer;
use pipeline::Barrier;
use types::Height;

use crate::request::{Compiled, Request, Waiting};

/// What travels beside an envelope on its own node.
pub(crate) struct Ticket {
    /// By which it can be withdrawn.
    pub number: u64,
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

pub(crate) fn request_of(envelope: Bytes, ticket: Ticket) -> Request {
    let Ticket { compiled, barrier, waiting, .. } = ticket;
    Request { envelope, compiled, barrier, waiting: Some(waiting) }
}
