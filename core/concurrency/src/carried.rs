//! What a block leaves to the next one beside the store: a value, so that a replica can hash it,
//! put it into a checkpoint and begin after any block.
//!
//! ```text
//!   finish(block 6, carried 5) ─► carried 6 ─► finish(block 7, carried 6) ─► …
//!                                    │
//!                                    └─ encode ─► checkpoint ─► decode ─► finish(block 7, …)
//! ```
//!
//! *Invariants.* A protocol value may cache, and must not remember: a new one that is handed the
//! carried value goes on with the same bytes as the one that made it. The encoding is canonical:
//! it depends on the blocks alone, not on workers or on the order of a hash table. No bytes stand
//! for what carries nothing, and for nothing else.
//!
//! *Cost.* Sharing one is a reference count; most protocols carry nothing.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A protocol's own kind of it.
pub trait CarriedState: Any + Send + Sync {
    /// Appends at least one byte.
    fn encode(&self, out: &mut Vec<u8>);
}

/// What the protocol of a block hands to the protocol of the next one.
#[derive(Clone, Default)]
pub struct Carried(Option<Arc<dyn CarriedState>>);

impl Carried {
    pub fn new(state: impl CarriedState) -> Carried {
        Carried(Some(Arc::new(state)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(state) = &self.0 {
            state.encode(&mut out);
        }
        out
    }

    /// `None`: it is empty, or another protocol's.
    pub fn get<T: CarriedState>(&self) -> Option<&T> {
        let state: &dyn Any = self.0.as_deref()?;
        state.downcast_ref()
    }
}

impl PartialEq for Carried {
    fn eq(&self, other: &Carried) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(ours), Some(theirs)) if Arc::ptr_eq(ours, theirs) => true,
            _ => self.encode() == other.encode(),
        }
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Carried({} bytes)", self.encode().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(u8);

    impl CarriedState for Number {
        fn encode(&self, out: &mut Vec<u8>) {
            out.push(self.0);
        }
    }

    struct Other;

    impl CarriedState for Other {
        fn encode(&self, out: &mut Vec<u8>) {
            out.push(9);
        }
    }

    #[test]
    fn a_value_is_equal_to_its_like_and_found_by_its_kind() {
        let seven = Carried::new(Number(7));
        assert_eq!(seven, Carried::new(Number(7)));
        assert_ne!(seven, Carried::new(Number(8)));
        assert_ne!(seven, Carried::default());
        assert_eq!(seven.get::<Number>().map(|number| number.0), Some(7));
        assert!(seven.get::<Other>().is_none() && Carried::default().get::<Number>().is_none());
        assert!(Carried::default().encode().is_empty() && Carried::default().is_empty());
    }
}
