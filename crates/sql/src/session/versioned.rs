//! A catalog at its place among the schema changes of a ledger.

use std::sync::Arc;

use super::last_changes::LastChanges;
use crate::schema::catalog::Catalog;

/// A catalog and how many schema changes came before it.
#[derive(Debug)]
pub struct Versioned {
    pub catalog: Arc<Catalog>,
    pub version: u64,
    /// The changes that the catalog is the sum of, in order: all but TRUNCATE, which concerns it
    /// only where sequences begin again.
    pub(super) statements: Vec<Arc<str>>,
    pub(super) last_changes: LastChanges,
}
