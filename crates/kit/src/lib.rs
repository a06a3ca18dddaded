//! Small std-like tools: a seeded generator, hostile bytes, the synchronisation façade, and threads
//! that take turns.
//!
//! Absence: no domain noun, no clock, no I/O.

pub mod flaw;
pub mod mutation;
pub mod random;
pub mod sync;
pub mod turns;
