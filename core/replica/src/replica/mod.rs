//! The replica: a deterministic state machine from ordered batches to results.
//!
//! It uses no clock, file or socket, and no threads but the worker pool's: the outcome of a block
//! is a function of the batches before it. A live node, recovery, `verify`, the simulation and the
//! tests all run this code.
//!
//! ```text
//!   requests ─► order ─► plan ─────────► prepare ─► finish ─────────────────► publish
//!               header   admit, compile  protocol   protocol, effects,        what keys
//!               (hash)   split at DDL    part one   outcomes, result header   came to
//! ```
//!
//! *Steps of a block.* A batch may hold schema and parameter changes anywhere. The transactions
//! before the first change are run by the protocol. Then the change runs alone, the following
//! transactions one by one on the newest state up to the next change, and so on, all under one
//! height and with one result.
//!
//! *Where transactions run as they arrive*, the order is known only after they have run. The order
//! header is then made together with the result. It lists the envelopes in the serial order that
//! they took, followed by those that were not allowed to run; executing such a block again runs
//! them one by one. A live node opens the block before it has any envelopes ([`arriving`]). Where
//! no serial order exists, the result holds the rows that the block left
//! ([`images`](crate::images)).
//!
//! *Blocks that overlap.* A block may be planned and prepared while the previous one is being
//! finished. Its snapshot follows from its envelopes and order header: from the protocol's snapshot
//! lag, the last barrier, and what the proposer and the batch's clients had seen. So a replica that
//! executes the ledger again, one block after another, prepares each on the same snapshot.
//!
//! *At most once.* A block's decision about an idempotency key takes effect from the first block
//! that is certain to be planned after it, `carry_lag` blocks later, so all replicas admit alike.

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

pub use admission::{AdmissionControl, Spread, is_of_another, too_large};
pub use arriving::{Closed, Entered, Opened};
pub use block::{Boundary, Executed, FinishingBlock, Head, PlannedBlock, RanBlock, ReadyBlock};
pub use halt::Halt;
pub use keys::KeyStanding;
pub use parameters::{
    check_first_order, check_protocol, protocol_of, shown_parameter, simulation_rules,
    unknown_parameter,
};
pub use repeat::Repeat;
pub use run::compile_request;
pub use value::Replica;
