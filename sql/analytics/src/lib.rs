//! Analytical queries: DataFusion over the columnar images of a snapshot.
//!
//! ```text
//!   SQL ─► DataFusion: plan, optimise ─► operators ◄── batches ── ImageScan ◄── images (snapshot)
//!            │                                                        ▲
//!            └ which columns, which filters ──────────────────────────┘ zones leave groups out
//! ```
//!
//! A query runs on one pinned height from its first row to its last, beside the writers, on threads
//! of its own. It reads images without copying them, and leaves out rows of which a join above
//! knows by then that it has no use for them (module `runtime_filter`). What its operators hold is
//! counted against a limit that all queries share, and spilled or refused when it is reached.
//!
//! Nothing here can write, and nothing that is computed here reaches the ledger, so platform and
//! order of evaluation may show in the last digits of a `float8`, as in PostgreSQL.

mod arithmetic;
mod cache;
mod call;
mod chance;
mod coerce;
mod comparable;
mod correlated;
mod engine;
mod exact;
mod faults;
mod filters_first;
mod interrupt;
mod json;
mod literals;
mod lookup;
mod marks;
mod names;
mod own;
mod plan;
mod prepare;
mod rewrite;
mod rows;
mod running;
mod runtime_filter;
mod scan;
mod shared;
mod sql_types;
mod statistics;
mod system;
mod table;
mod three_valued;
mod time_zone;
mod totals;
mod using;
mod variable_scale;
mod variable_scale_sums;
mod zones;

pub use datafusion;
pub use engine::{Analytics, AnalyticsOptions, AnalyticsUsage, Answer, Query};
pub use table::SnapshotTable;
