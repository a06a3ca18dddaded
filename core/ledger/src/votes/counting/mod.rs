//! Voting on results: what each member signs, and how the votes of the others are counted.
//!
//! ```text
//! a block is executed ─► Signer: is it due? ─► last vote, durable ─► sign ─┬► to each member
//!                  └───► Tally: results of this node                       │
//! members' votes ──────► Tally: checked, counted ◄─────────────────────────┘
//!                          ├─► a certificate: enough votes for one result
//!                          └─► a divergence: this node's result is not theirs
//! ```
//!
//! **Which blocks are voted on** follows from the ledger, so that all members vote on the same ones
//! without coordination: the first block in each 50 ms of block time, and the newest block when no
//! other has come for a moment. A vote covers all blocks below it. There are thus about twenty
//! votes a second at most, whatever the number of blocks. Each needs a sync of its own, on a thread
//! that no block waits for.
//!
//! **Which votes count.** A vote counts if it is signed by the member over whose connection it
//! came. A vote with another signature, or that contradicts an earlier vote, is counted as a fault
//! of that member. A member's votes ascend in height, so only the newest few are kept of each,
//! however many it sends.
//!
//! **Divergence.** A node has diverged if its result differs from a certified one, or from one on
//! which more than half of the members agree. As long as fewer than half lie, no honest node stops.
//! If the votes are split without a majority, no node stops and there is no certificate.
//!
//! **Membership changes.** The voters are derived from the ledger's members, as certified by the
//! previous voters ([`crate::votes::succession`]); the tally then continues with the new ones.
//!
//! *Not here*: sockets, threads, clocks; what stops when this node has diverged.

mod signer;
mod tally;
pub mod wire;

#[cfg(test)]
mod worlds;

pub use signer::Signer;
pub use tally::{Counts, Divergence, Found, Tally};
