//! Small std-like tools: a seeded generator, hostile bytes, the synchronisation façade, threads
//! that take turns, work on all cores, and a pool of bytes.
//!
//! Absence: no domain noun, no clock, no I/O.

pub mod flaw;
pub mod mutation;
pub mod parallel;
pub mod pool;
pub mod random;
pub mod sync;
pub mod turns;
