//! AnKer's own way, as a contained study: columns in place, snapshots by column.
//!
//! **This crate is not part of the product.** Tallystick's transactions read and write rows, its
//! snapshots are heights and its analytics reads columnar copies (crates `storage` and `snapshot`).
//! Here is the layout that it was chosen over, with its baselines, so that the choice is a
//! measurement:
//! Sharma's thesis *Snapshot: Friend or Foe of Data Management?*, chapter 2 (AnKerDB, SIGMOD'18).
//!
//! # Idea
//!
//! Long queries over versioned columns walk chains. So freeze the columns instead: a query asks for
//! a snapshot, transactions go on in place, and only memory that they change is copied. The chains
//! that have grown go with the frozen column and die with it, so there is no collector of versions.
//!
//! ```text
//!   transactions ─► values, stamps, chains       OLTP engine, written in place
//!                       │ freeze, when a query waits and a commit comes by
//!                       ▼
//!   queries ──────► frozen values, stamps, chains     OLAP engine, read in tight loops
//! ```
//!
//! # Timeline of a commit
//!
//! ```text
//!   begin at b ─ read (stamp ≤ b, or give up) ─ write locally ─ commit:
//!     freeze the columns for which a snapshot waits
//!     shared lock on each written column, in the order of columns
//!     ┌ order: does a snapshot wait? conflicts? timestamp t   (one critical section)
//!     └ FreezeFirst: give the locks back, begin again
//!     for each write: push the old version, stamp t, value      (readers at b < t see neither)
//!     unlock; t is visible when all before it are
//! ```
//!
//! Why every snapshot is a prefix of the commit order, and the commit order a serial order, is
//! argued in module `sequencer`; why a scan may run in tight loops, in `chains`; what each
//! technique promises, in [`area`], and what it costs, in [`areas`].
//!
//! # Departures
//!
//! - The thesis freezes with `vm_snapshot`, a system call of a patched kernel. Substitutes:
//!   [`areas`].
//! - The thesis logs a start and an end timestamp of each commit; here one timestamp and a
//!   watermark say the same, so readers compare one number.
//! - Read-only transactions and queries are serial at their beginning and not validated; the thesis
//!   does not say. Validated, a long query would meet some commit for sure.
//! - Rows are neither inserted nor deleted: a table has its rows from the beginning, and a workload
//!   that inserts takes slots in turn. The thesis describes updates only.
//! - A column in which nothing was installed since it was frozen is not frozen again.
//!
//! # Which layout is better for users
//!
//! `tally bench figure anker-layouts` measures both on the same transactions and scans. With
//! 200,000 rows of 8 columns, on a busy machine with two cores (thousands of ten-operation
//! transactions per second of the processor; scans of one column after 10 blocks of changes):
//!
//! | | alone | a snapshot a block | beside scans | quiet scan | changed scan |
//! |---|---|---|---|---|---|
//! | rows and images | 399 | 393 | 375 | 0.19 ms | 7.6 ms |
//! | columns and slabs | 228 | 240 | 237 | 0.10 ms | 0.18 ms |
//! | columns, copied whole | 469 | 714 | 451 | 0.05 ms | 0.67 ms |
//!
//! So rows are worth 1.6 to 1.75 times the transactions of slabs, and slabs show a heavily changed
//! column 40 times sooner; a column that is copied whole is ahead of both while it fits the caches.
//! What slabs lose they lose to the pin of each access (`crossbeam_epoch`), not to copies: one pin
//! for a transaction would be the first thing to try.
//!
//! # What became of it
//!
//! `CREATE TABLE … WITH (layout = column)` takes what users notice of this: columns that are
//! current when a scan comes, slabs that are copied when they are written under a holder, and a
//! snapshot that costs nothing until then (crate `snapshot`). What it does not take is columns as
//! the *only* copy. The seam would be `storage::record`: stamps, the protocols' private words and
//! undo versions belong to a record as a whole, and every protocol, index and checkpoint reaches
//! columns through a record's slot. That would be a second implementation of most of that crate, to
//! lose transactions by the figure above. So the rows stay, and the columns are a second copy that
//! follows the blocks.

#[cfg(not(target_os = "linux"))]
compile_error!("the study's techniques are those of Linux");

pub mod area;
pub mod areas;
mod chains;
mod column;
mod engine;
mod lock;
mod mutant;
mod predicate;
mod query;
mod sequencer;
mod snapshot;
mod transaction;

#[cfg(test)]
mod tests;

pub use column::{Column, FrozenColumn};
pub use engine::{Answered, Configuration, Engine, PASS_COLUMNS_MAX};
pub use query::{Query, SumAndCount};
pub use snapshot::Snapshot;
pub use transaction::Transaction;

/// A column, by its number among those that the engine was made with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ColumnId(pub u16);

pub type Row = u32;

/// A place in the order of commits; 0 is before the first.
pub type Timestamp = i64;
