//! A catalog at its place among the schema changes of a ledger.

use std::sync::Arc;

use engine::Party;
use types::Result;
use types::codec::{decode_str, encode_str};

use super::last_changes::LastChanges;
use crate::schema::catalog::Catalog;

/// A catalog and how many schema changes came before it.
#[derive(Debug)]
pub struct Versioned {
    pub catalog: Arc<Catalog>,
    pub version: u64,
    /// The changes that the catalog is the sum of, in order: all but TRUNCATE, which concerns it
    /// only where sequences begin again.
    pub(super) statements: Vec<Stated>,
    pub(super) last_changes: LastChanges,
}

/// A schema change, and whose it was.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    pub principal: Arc<str>,
    pub role: Option<Arc<str>>,
    pub text: Arc<str>,
}

impl Stated {
    pub fn new(party: Party<'_>, text: &str) -> Stated {
        let Party { principal, role } = party;
        Stated { principal: principal.into(), role: role.map(Arc::from), text: text.into() }
    }

    pub fn party(&self) -> Party<'_> {
        Party { principal: &self.principal, role: self.role.as_deref() }
    }

    /// No role's name is empty.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_str(&self.principal, out);
        encode_str(self.role.as_deref().unwrap_or_default(), out);
        encode_str(&self.text, out);
    }

    pub fn decode(input: &mut &[u8]) -> Result<Stated> {
        let mut text = || decode_str(input).map(Arc::from);
        let (principal, role, text) = (text()?, text()?, text()?);
        Ok(Stated { principal, role: Some(role).filter(|role: &Arc<str>| !role.is_empty()), text })
    }
}
