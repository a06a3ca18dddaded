//! Who the members are now: as the ledger says it, behind the last block that this node has run.
//!
//! A member is known by its key: the certificate that it shows is signed by that key itself, and
//! says nothing else. So a member that is new needs no file on the others' machines, and one that
//! was removed is refused from the next message on.

use std::sync::{PoisonError, RwLock};

pub use order::{Key, Known, Membership};

/// The membership that a node's listener and its calls go by; it changes with the ledger.
#[derive(Default)]
pub struct Members(RwLock<Membership>);

impl Members {
    pub fn new(membership: Membership) -> Members {
        Members(RwLock::new(membership))
    }

    pub fn set(&self, membership: Membership) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = membership;
    }

    pub fn now(&self) -> Membership {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn known(&self, id: u64) -> Option<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).0.get(&id).cloned()
    }

    pub fn id_of(&self, key: &Key) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).id_of(key)
    }
}
