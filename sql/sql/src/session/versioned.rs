//! A catalog with its version: how many schema changes of the ledger led to it. Plans are cached by
//! version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{AskedChange, KeyId, Party};
use types::codec::{decode_str, decode_u64, encode_str, encode_u64};
use types::{Error, Height, Result, SqlState};

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
    /// The ledger's, where a session has laid objects of its own over it.
    pub(super) below: Option<Arc<Versioned>>,
}

impl Versioned {
    /// What all replicas know of it.
    pub(super) fn ledger(&self) -> &Versioned {
        self.below.as_deref().unwrap_or(self)
    }

    /// With a session's own objects, which another catalog has. It is of a version that no other
    /// has.
    pub(super) fn with_temporary_of(self: &Arc<Self>, objects: &Catalog) -> Versioned {
        Versioned {
            catalog: Arc::new(self.catalog.with_temporary_of(objects)),
            version: own_version(),
            statements: Vec::new(),
            last_changes: self.last_changes.clone(),
            below: Some(Arc::clone(self)),
        }
    }
}

impl Versioned {
    /// As a statement sees it that does not look at some keys.
    pub(super) fn without_keys(&self, keys: &[String]) -> Result<Versioned> {
        let below = self.below.as_ref().map(|below| below.without_keys(keys)).transpose()?;
        Ok(Versioned {
            catalog: Arc::new(self.catalog.without_keys(keys)?),
            version: self.version,
            statements: Vec::new(),
            last_changes: self.last_changes.clone(),
            below: below.map(Arc::new),
        })
    }
}

/// Versions of schemas that sessions have made for themselves: what is kept for one of them fits no
/// other. The ledger's count from zero, and come to none of these.
pub(super) fn own_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A schema change, whose it was, and how it came to its block.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    pub principal: Arc<str>,
    pub role: Option<Arc<str>>,
    pub text: Arc<str>,
    pub signers: Arc<[KeyId]>,
    pub approvers: Arc<[KeyId]>,
    pub height: Height,
}

impl Stated {
    pub fn new(asked: AskedChange<'_>, height: Height) -> Stated {
        let AskedChange { party, signers, approvers, text } = asked;
        let Party { principal, role } = party;
        Stated {
            principal: principal.into(),
            role: role.map(Arc::from),
            text: text.into(),
            signers: signers.into(),
            approvers: approvers.into(),
            height,
        }
    }

    pub fn asked(&self) -> AskedChange<'_> {
        let party = Party { principal: &self.principal, role: self.role.as_deref() };
        AskedChange { party, signers: &self.signers, approvers: &self.approvers, text: &self.text }
    }

    /// No role's name is empty.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_str(&self.principal, out);
        encode_str(self.role.as_deref().unwrap_or_default(), out);
        encode_str(&self.text, out);
        encode_u64(self.height, out);
        // Most changes need no approval, and pay no byte for it.
        let approved = !self.approvers.is_empty();
        encode_u64((self.signers.len() as u64) << 1 | u64::from(approved), out);
        self.signers.iter().for_each(|key| out.extend_from_slice(key));
        if approved {
            encode_u64(self.approvers.len() as u64, out);
            self.approvers.iter().for_each(|key| out.extend_from_slice(key));
        }
    }

    pub fn decode(input: &mut &[u8]) -> Result<Stated> {
        let mut text = || decode_str(input).map(Arc::from);
        let (principal, role, text) = (text()?, text()?, text()?);
        let role = Some(role).filter(|role: &Arc<str>| !role.is_empty());
        let (height, signers) = (decode_u64(input)?, decode_u64(input)?);
        let approved = signers & 1 == 1;
        let signers = decode_keys(signers >> 1, input)?;
        let approvers = if approved { decode_u64(input)? } else { 0 };
        let approvers = decode_keys(approvers, input)?;
        Ok(Stated { principal, role, text, signers, approvers, height })
    }
}

fn decode_keys(count: u64, input: &mut &[u8]) -> Result<Arc<[KeyId]>> {
    let mut keys = Vec::new();
    for _ in 0..count {
        let Some((key, rest)) = input.split_first_chunk::<32>() else {
            let what = "a key of a schema change is cut short";
            return Err(Error::new(SqlState::DATA_CORRUPTED, what));
        };
        keys.push(*key);
        *input = rest;
    }
    Ok(keys.into())
}
