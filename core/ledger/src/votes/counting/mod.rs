//! Members vote on results: what each signs, what becomes of the others' votes.
//!
//! ```text
//! a block is executed ─► Signer: is it due? ─► last vote, durable ─► sign ─┬► to each member
//!                  └───► Tally: results of this node                       │
//! members' votes ──────► Tally: checked, counted ◄─────────────────────────┘
//!                          ├─► a certificate: enough votes for one result
//!                          └─► a divergence: this node's result is not theirs
//! ```
//!
//! **Which blocks are voted on** follows from the ledger, so that members vote on the same ones
//! without asking: the first block of each 50 ms of block time, and the newest when none has come
//! for a moment. A vote stands for all blocks below. So there are at most some twenty votes a
//! second, each with a sync of its own, whatever number of blocks, on a thread that no block waits
//! for.
//!
//! **What is believed.** A vote counts if its signature is that of the member whose connection it
//! came by. One that is not, or that contradicts an earlier one, is counted against that member.
//! Votes of a member ascend, so that the newest few are all that is kept of it, however many it
//! sends.
//!
//! **Who is wrong.** A node that comes to another result than a certificate says has diverged, and
//! so has one that differs from more than half of the members, who agree: as long as fewer than
//! half lie, no honest node is stopped. Where votes are split without a majority no node is, and
//! there is no certificate.
//!
//! **Members come and go.** Who votes follows from the ledger's members, by the word of those who
//! voted before ([`crate::votes::succession`]): the tally goes on with the others.
//!
//! *Absence*: sockets, threads, clocks; what stops when this node has diverged.

mod signer;
mod tally;
pub mod wire;

#[cfg(test)]
mod worlds;

pub use signer::Signer;
pub use tally::{Counts, Divergence, Found, Tally};
