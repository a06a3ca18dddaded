//! Who runs a bound query, and how it is explained: the seam to an analytical engine, the router
//! between it and the row executor, EXPLAIN.

pub mod analytical_engine;
pub mod explain;
pub mod router;
