//! Small std-like tools: a seeded generator, hostile bytes and the synchronisation façade.
//!
//! Absence: no domain noun, no clock, no I/O.

pub mod mutation;
pub mod random;
pub mod sync;
