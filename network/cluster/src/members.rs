//! The current members: those that the ledger names after the last block that this node executed.
//!
//! A member is identified by its public key. Its certificate is signed by that key itself, and
//! nothing else in it counts. So a new member needs no file on the other members' machines, and a
//! removed one is refused from its next message on.

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
