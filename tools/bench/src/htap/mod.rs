//! TPC-C's column updates and scans beside them, on the study of AnKer (crate `anker`).
//!
//! ```text
//!   OLTP streams   NewOrder, Payment, OrderStat, one after the other, as fast as they can
//!   OLAP streams   after a warm-up, one of eight queries every so often, on a fresh snapshot
//!   collector      a pass every second, in the configurations that have one
//! ```
//!
//! All in one process, on rows that are numbered instead of indexed. Orders take the slots of their
//! district in turn, so that an insert is an update of a row that has been there; the database does
//! not grow, and a run can be as long as one likes.
//!
//! A transaction that is refused is counted and not tried again; throughput is of what committed.

mod queries;
mod run;
mod tables;
mod transactions;

pub use queries::{QUERIES, TpccQuery};
pub use run::{QueryCost, Setting, System, Trace, run};
pub use tables::Tables;
