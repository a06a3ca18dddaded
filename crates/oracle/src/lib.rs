//! Who checks the protocols: serial replay of the order that they claim.
//!
//! A protocol says which serial order its block is equivalent to. The [`Twin`] runs the same block
//! again, one transaction after another in that order, and compares everything that can be seen:
//! every outcome with its rows, the net changes that the ledger would hash, and after the block
//! every row of every table with its stamp. It does so twice:
//!
//! * under the serial protocol, on a store of its own that never collects;
//! * on plain maps ([`procedure::testing::Memory`]), which share no code with the overlays, the
//!   folds and the store that all protocols are made of.
//!
//! An interactive transaction is checked for more than its COMMIT: its whole conversation is held
//! again where it stands in the serial order, and every answer must be the one that the client got
//! ([`session`]).
//!
//! What a protocol puts off (an [`Outcome::Retry`], where its card says that it may) must have had
//! no effect: it is left out of the replay.
//!
//! A difference is a bug of the protocol, of what it shares with others, or of the specification;
//! which of them does not matter to the alarm.
//!
//! Absence: no concrete protocol.

pub mod families;
pub mod history;
pub mod model;
pub mod programs;
pub mod recipe;
pub mod session;
pub mod shrink;
pub mod small;
pub mod subjects;
mod twin;
pub mod world;

pub use twin::{Divergence, NetChange, StoredRow, Twin, rows, run_block};
