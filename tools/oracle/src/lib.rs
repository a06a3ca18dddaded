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
//! What a protocol defers (`Outcome::Retry`, where its info says that it may) must have had no
//! effect: it is left out of the replay. It joins a later block, ahead of that block's own, and in
//! every block some transaction must get on.
//!
//! | What is run | Where | Compared with |
//! |---|---|---|
//! | random blocks, a [family](families) for each kind of conflict | [`world`] | both twins |
//! | [texts] by commands whose work only the row decides | [`texts`] | both twins |
//! | every [small] world | three transactions on two records | a specification of its own |
//! | [histories](history) of lists | any number of blocks | none: its graph has no cycle |
//! | all of them on 1, 2 and 8 workers, [chosen or shaken](concurrency::test_mode) | | each other |
//! | [every option](subjects) of every protocol | | as the default |
//! | every seeded bug, of protocols and of what they share | | must be found |
//!
//! A world that fails is made [as small as it goes](shrink) and printed. More seeds:
//! `TALLY_ORACLE_SEEDS=20`. All small worlds of the full alphabet: `TALLY_ORACLE_SMALL=all`. Builds
//! with overflow checks and without: `make overflow`.
//!
//! A difference is a bug of the protocol, of what it shares with others, or of the specification;
//! which of them does not matter to the alarm.
//!
//! Absence: no concrete protocol.

pub mod course;
mod endorsed;
pub mod families;
pub mod history;
pub mod model;
mod overlapping;
pub mod programs;
pub mod recipe;
pub mod session;
pub mod shrink;
pub mod small;
pub mod subjects;
pub mod texts;
mod twin;
mod watchdog;
pub mod world;

pub use course::run_block;
pub use twin::{Divergence, Item, NetChange, StoredRow, Twin, rows};
