//! [`Entry`]: one line of the registry of protocols: its info, its constructor, and the names of
//! its mutants.

use std::sync::Arc;

use concurrency::{Options, Protocol, ProtocolInfo};

/// A protocol's info and how to make one.
pub struct Entry {
    pub info: &'static ProtocolInfo,
    pub make: fn(&Options) -> Arc<dyn Protocol>,
    /// Bugs that it can have on purpose, for tests of the tests.
    pub mutants: &'static [&'static str],
}
