//! The databases that a ledger has made: ledgers of their own, which this one knows by name.
//!
//! What is in them this ledger does not know. It says which there are, under which name, and whose,
//! and a node that has their folders opens them.

use std::collections::BTreeMap;

use identity::RoleId;
use types::Height;

use crate::schema::catalog::Catalog;
pub use crate::syntax::databases::MadeLedger;

/// The first number of a database that a transaction has made.
const FIRST_NUMBER: u32 = 16_384;

#[derive(Clone, Debug, PartialEq)]
pub struct Databases {
    pub(crate) next_number: u32,
    pub(crate) by_name: BTreeMap<String, DatabaseEntry>,
}

impl Default for Databases {
    fn default() -> Databases {
        Databases { next_number: FIRST_NUMBER, by_name: BTreeMap::new() }
    }
}

/// A database, as the ledger knows it that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseEntry {
    /// Of no other database before it.
    pub number: u32,
    pub ledger: MadeLedger,
    pub owner: RoleId,
    /// The block that made it.
    pub since: Height,
}

impl Catalog {
    /// Databases beside the ledger itself, by name.
    pub fn databases(&self) -> impl Iterator<Item = (&str, &DatabaseEntry)> {
        self.databases.by_name.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub fn database(&self, name: &str) -> Option<&DatabaseEntry> {
        self.databases.by_name.get(name)
    }
}
