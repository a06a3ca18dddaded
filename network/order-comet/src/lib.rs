//! CometBFT as an orderer: blocks that more than two thirds of the validators have signed.
//!
//! ```text
//!                    ┌───────────── a node ─────────────┐
//!  submit ─► outbox ─┼─ bundle ─ RPC ─► CometBFT ◄──────┼── votes, blocks ──► those of the others
//!                    │                     │ ABCI       │
//!  poll ◄────────────┼─ deliveries ◄── finalize(block)  │
//!  released ─────────┼─ result hash ─► app hash         │
//!                    └──────────────────────────────────┘
//! ```
//!
//! This is the Byzantine fault-tolerant orderer: fewer than a third of the validators may stop, lie
//! or sign twice, so one of 4. Each node runs a CometBFT of its own as a child process, which keeps
//! its blocks and votes in a folder of the node's. A block that more than two thirds have signed is
//! delivered here and becomes a block of the ledger, which the node executes and writes to its own
//! order log. So the order is stored twice: as CometBFT signed it, and as the ledger is read.
//!
//! The application is [a state machine without I/O](App); [`Comet`] gives it threads, sockets and
//! the child process. [`home`] manages the child's folder.
//!
//! **Faults tolerated**: nodes that stop at any moment and nodes that lie, together fewer than a
//! third; messages that are lost, late or duplicated; CometBFT ending and being restarted. Not
//! tolerated: a CometBFT folder that is set back to an earlier state, since it may sign twice then.
//!
//! **Cost.** A lone transaction takes one message to the proposer and three rounds of messages.
//! When the app hash changes, CometBFT makes one more block, without transactions, to prove it;
//! under load the next block does that anyway.
//!
//! *Absent here*: what an envelope means, execution, which nodes may be members.

mod abci;
mod app;
mod bundle;
mod child;
pub mod home;
mod misbehaviour;
mod node;
mod rpc;
mod validators;

pub use app::{Address, Answer, App, Block, Config, Outcome, Start, height_of};
pub use bundle::BUNDLE_BYTES_MAX;
pub use child::find;
pub use misbehaviour::{Kind as MisbehaviourKind, Misbehaviour};
pub use node::{Comet, Members, Settings, Standing, keys_of};
pub use validators::{Keys, Update, Validators};

/// What the ledger's first block names this order by.
pub const NAME: &str = "cometbft";

/// Blocks that the app hash is behind, in a new ledger: a block is executed while the next one is
/// agreed on. With 0 the one would wait for the other; with 2 a node that came to another result
/// would be found out a block later, and nothing more would overlap.
pub const LAG: u64 = 1;
