//! Small std-like tools: a seeded generator and the synchronisation façade.
//!
//! Absence: no domain noun, no clock, no I/O.

pub mod random;
pub mod sync;
