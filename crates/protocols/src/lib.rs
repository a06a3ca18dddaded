//! The strategies: one folder each, one line in [`ALL`].
//!
//! Absence: no SQL, no ledger, and no protocol uses another; what they share lives in
//! `concurrency`, and serial execution of the few that a parallel protocol could not place is
//! [`serial::run_one`].

use std::sync::Arc;

use concurrency::{Protocol, ProtocolInfo};

pub mod harmony;
pub mod serial;

/// A protocol's card and how to make one.
pub struct Entry {
    pub info: &'static ProtocolInfo,
    pub make: fn() -> Arc<dyn Protocol>,
}

/// Every protocol that a ledger can be run under.
pub static ALL: &[Entry] = &[serial::ENTRY, harmony::ENTRY];

pub fn by_name(name: &str) -> Option<Arc<dyn Protocol>> {
    ALL.iter().find(|entry| entry.info.name == name).map(|entry| (entry.make)())
}
