//! The replica: a value that ordered batches go into and results come out of.
//!
//! No clock, no file, no socket and no thread but the worker pool's: what a block becomes is a
//! function of the batches before it. A live node, recovery, `verify`, a simulation and a test all
//! run this same code.
//!
//! ```text
//!   requests ─► order ─► plan ─────────► prepare ─► finish ─────────────────► publish
//!               header   admit, compile  protocol   protocol, effects,        what keys
//!               (hash)   split at DDL    part one   outcomes, result header   came to
//! ```
//!
//! *Steps of a block.* A batch may hold schema and parameter changes anywhere. What stands before
//! the first is run by the protocol; then the change by itself, what follows one by one on the
//! newest state up to the next change, and so on: one height, one result.
//!
//! *Where transactions run as they arrive*, the order is known only when they have run, so the
//! order header is made together with the result, with the envelopes in the serial order that they
//! took, those that may not run behind the others; executing such a block again means one by one. A
//! live node opens it before it has any ([`arriving`]). Where there is no such order, the result
//! holds the rows that the block left ([`images`](crate::images)).
//!
//! *Blocks that overlap.* A block may be planned and prepared while the one before it is finished,
//! on the snapshot that its order names: the lag of the protocol, the last barrier, and what the
//! proposer and the clients of the batch had seen, which its envelopes and its order header say. So
//! a replica that executes the ledger again, one block after the other, prepares each on the same
//! one.
//!
//! *At most once.* What a block decides about a key counts from the first block on that is certain
//! to be planned afterwards, `carry_lag` later, so that all replicas admit alike.

mod admission;
mod arriving;
mod block;
mod carry;
mod halt;
mod keys;
mod parameters;
mod repeat;
mod run;
mod skipped;
mod value;

pub use admission::{AdmissionControl, Spread, too_large};
pub use arriving::{Closed, Entered, Opened};
pub use block::{Boundary, Executed, FinishingBlock, Head, PlannedBlock, RanBlock, ReadyBlock};
pub use halt::Halt;
pub use keys::KeyStanding;
pub use parameters::{
    check_first_order, check_protocol, protocol_of, shown_parameter, unknown_parameter,
};
pub use repeat::Repeat;
pub use run::compile_request;
pub use value::Replica;
