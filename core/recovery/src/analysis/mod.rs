//! Static analysis (PACMAN, Wu 2017, §4.4.1): what of a log may be replayed beside what.
//!
//! Everything is told from the procedures alone, before a single argument is known.
//!
//! ```text
//!   procedure ─► operations ─► flow and data dependencies ─► slices, local graph
//!                                                              │  all procedures of the log
//!                                                              ▼
//!   pieces' programs, key spaces ◄─ blocks, global dependency graph
//! ```
//!
//! A **block** of the graph (not of the ledger) is a set of slices, of all procedures, that touch
//! the same written tables; so each written table lies in one block, and tables that are only read
//! constrain nothing. Slices of one procedure in one block are merged. Edges are flow between
//! blocks, and have no cycle: what reaches each other is merged.
//!
//! | The paper leaves open | Here |
//! |---|---|
//! | loops | distributed over slices, each turns them for itself ([`projection`]) |
//! | inserts, deletes, ranges | a range and the rows it may meet share a key space ([`spaces`]) |
//! | secondary indexes | a range of one is a barrier, or constant |
//! | keys made inside a piece-set | as many columns as are known, else a barrier |
//! | hidden row ids | one counter for a transaction, so one slice |
//! | rows written ad hoc | pseudo-writers: their tables count as written; a default block |
//! | transactions of several statements | one slice, over all their procedures |
//!
//! **[`Model`].** The thesis asks whether a table is written. [`Model::Refined`] asks more: a read
//! of columns that nothing in the log writes, in a table that gets and loses no rows, is constant
//! and has no place in any order; and an operation that leads to no write need not be replayed.
//!
//! Cost: for each procedure, one projection for each operation; so some milliseconds for TPC-C, and
//! a procedure of [`slices::OPERATIONS_MAX`] operations stays whole.

mod display;
pub mod graph;
pub mod operations;
pub mod partition;
pub mod projection;
pub mod slices;
pub mod spaces;
mod sweep;
pub mod virtual_table;

pub use graph::{Analysis, GraphBlock, Piece, Program, Recall, Subject};
pub use operations::{Operation, Touch, TouchKind};
pub use slices::LocalGraph;

use crate::mutant::Mutant;

/// What counts as a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// As published: by tables.
    Thesis,
    /// By columns, and without what leads to no write.
    #[default]
    Refined,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub model: Model,
    /// A bug on purpose, for tests of the tests.
    pub mutant: Option<Mutant>,
}
