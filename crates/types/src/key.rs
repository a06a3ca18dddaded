//! Keys: rows' addresses as bytes whose order is the order of the values.

use smallvec::SmallVec;

/// A primary or secondary key in its order-preserving encoding. Up to 24 bytes stay inline.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key(pub SmallVec<[u8; 24]>);

impl Key {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Key(SmallVec::from_slice(bytes))
    }
}
