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
//! This is the order that bears liars: of 4 validators one may stop, lie or sign twice, as fewer
//! than a third may. Each node has a CometBFT of its own as its child, which keeps blocks and votes
//! in a folder of the node's; a block that more than two thirds have signed is handed over here,
//! and becomes a block of the ledger, which the node executes and writes into its own log of
//! orders. So the order is kept twice: as CometBFT signed it, and as the ledger is read.
//!
//! The application is [a value](App), which says what follows from what; [`Comet`] gives it
//! threads, sockets and the child. Where the child is kept is [`home`].
//!
//! **Faults borne**: nodes that stop, at any moment, and nodes that lie, fewer than a third
//! together; messages that are lost, late, doubled; CometBFT that ends and is started again. Not:
//! a folder of CometBFT's that is put back to an earlier state, since it may sign twice then.
//!
//! **Cost.** A lone transaction takes a way to the proposer and three rounds of messages. Where the
//! app hash changes CometBFT makes a block more, without transactions, that proves it; under load
//! that is the next block anyway.
//!
//! *Absence*: what an envelope means, execution, who may be a member.

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
