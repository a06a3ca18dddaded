//! Small std-like tools: a seeded generator, hostile bytes, the synchronisation façade, threads
//! that take turns, work on all cores, a pool of bytes, and an allocator that counts.
//!
//! Absence: no domain noun, no clock, no I/O.

pub mod allocations;
pub mod mutant;
pub mod mutation;
pub mod parallel;
pub mod pool;
pub mod random;
pub mod sync;
pub mod turns;
