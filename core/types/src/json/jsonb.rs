//! The value of a `jsonb`: a text in the canonical form that [`json`](super) defines.
//!
//! Storage, the codec and hashes of rows take that text as it is. Equality, order and [`Hash`] look
//! inside, as `1.0` and `1.00` are equal and show different digits. Whatever makes a value has read
//! it by the grammar, or has put it together of parts that were.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use compact_str::CompactString;
use smallvec::SmallVec;

use super::raw::Raw;
use super::{order, parse};
use crate::error::Result;

/// A `jsonb`: text in the canonical form.
#[derive(Clone, Debug)]
pub struct Jsonb(CompactString);

impl Jsonb {
    /// Reads any JSON text.
    ///
    /// # Errors
    /// 22P02 and its sisters for what is none, as PostgreSQL words them.
    pub fn read(text: &str) -> Result<Jsonb> {
        parse::canonical(text).map(Jsonb)
    }

    /// Text that is known to have the canonical form: it was a value's before, or is made of parts
    /// of such.
    pub fn of_canonical(text: CompactString) -> Jsonb {
        debug_assert!(parse::canonical(&text).is_ok_and(|read| read == text), "{text}");
        Jsonb(text)
    }

    /// A value's text as storage had it, which checks its own bytes.
    pub fn stored(text: CompactString) -> Jsonb {
        Jsonb(text)
    }

    /// `None` unless the text has the canonical form.
    pub fn read_canonical(text: &str) -> Option<Jsonb> {
        let read = parse::canonical(text).ok()?;
        (read == text).then_some(Jsonb(read))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn raw(&self) -> Raw<'_> {
        Raw::of_valid(&self.0)
    }

    pub(crate) fn is_heap_allocated(&self) -> bool {
        self.0.is_heap_allocated()
    }

    fn key(&self) -> SmallVec<[u8; 32]> {
        let mut key = SmallVec::new();
        order::push_key(&self.0, &mut key);
        key
    }
}

impl PartialEq for Jsonb {
    fn eq(&self, other: &Jsonb) -> bool {
        self.0 == other.0 || self.cmp(other).is_eq()
    }
}

impl Eq for Jsonb {}

impl PartialOrd for Jsonb {
    fn partial_cmp(&self, other: &Jsonb) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Jsonb {
    fn cmp(&self, other: &Jsonb) -> Ordering {
        if self.0 == other.0 {
            return Ordering::Equal;
        }
        self.key().cmp(&other.key())
    }
}

impl Hash for Jsonb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
