//! Replay: a command log run again (PACMAN, Wu 2017, §4.4.2 to 4.4.5).
//!
//! A **batch** is some blocks of the ledger. Each of its transactions has a **piece** for every
//! block of the [graph](crate::analysis) that it has operations in; the pieces of a batch in one
//! block, in commit order, are a **piece-set**. A set may begin when the sets that its pieces get
//! values from are done, and the same block's set of the batch before.
//!
//! ```text
//!   batch 1   α ─► β ─► γ          rows of a written table are touched in one block alone, so
//!             │    └─► δ           order within a column is all the order there is
//!   batch 2   α ─► β ─► γ
//!                  └─► δ
//! ```
//!
//! | [Strategy] | Pieces of a set | Batches |
//! |---|---|---|
//! | [`serial`] | whole transactions, one after the other | one |
//! | [`static_only`] | by one worker | one at a time |
//! | [`synchronous`] | by key spaces ([dynamic analysis](dynamic)) | one at a time |
//! | [`pipelined`] | by key spaces | overlap, block by block |
//!
//! *Why it is right.* Two operations that conflict touch a written table, so they are in one block;
//! there the commit order holds within a batch, where they share a key space, and from batch to
//! batch. What an operation is given by others comes over an edge of the graph, which has no cycle.
//! So every operation reads what it read in the order that was logged, and writes what it wrote.
//!
//! *The store.* All blocks of a log part are written together ([`storage::Store::begin_blocks`]):
//! there is no snapshot between them, so one old version of each record is kept for readers that
//! are there already. Stamps are those of the original run.
//!
//! # Cost
//!
//! Transactions a second on two shared cores, once each (`examples/recovery_cost.rs`), in batches
//! of 2,000, before sets were planned while they wait and records fetched before they are used;
//! `tally bench figure durability-replay` measures it again, beside what a machine gives two
//! threads:
//!
//! ```text
//!                           TPC-C, 20,000     SmallBank, 100,000
//! workers                      1        2            1          2
//! serial                  29,000                1,130,000
//! static-only             42,000   47,000         800,000    830,000
//! synchronous             42,000   44,000         910,000    930,000
//! pipelined               40,000   69,000         910,000    715,000
//! ```
//!
//! Pieces of TPC-C are cheaper than its transactions, as what only looks is left out. A SmallBank
//! transaction takes less than a microsecond: there is little to gain from cutting it up, and on
//! two workers handing pieces over costs more than that.
//!
//! Adding a strategy: a file, and a line in [`ALL`].

mod access;
mod batch;
mod dynamic;
mod pieces;
pub mod pipelined;
mod pool;
pub mod serial;
pub mod static_only;
pub mod synchronous;
mod task;

pub(crate) use dynamic::Spaces;
pub use task::{BlockChanges, Breakdown, Replayed, Strategy, Task};

/// Every strategy; the first is what the others are compared with.
pub static ALL: &[Strategy] =
    &[serial::STRATEGY, static_only::STRATEGY, synchronous::STRATEGY, pipelined::STRATEGY];

pub fn by_name(name: &str) -> Option<&'static Strategy> {
    ALL.iter().find(|strategy| strategy.name == name)
}
