//! Tree keys, their bits, and ranges of them.
//!
//! The **full key** of a row is its table's id (`u32`, big-endian) and its primary key in the
//! order-preserving encoding. The **tree key** is the full key, or, where that has more than 127
//! bytes, its first 96 bytes and its SHA-256: always 128 bytes, which no short key has. So a path
//! has a bounded length whatever keys a client chooses, and only the order of long keys that agree
//! in 96 bytes is lost.
//!
//! The **bits** of a tree key are, for each byte, a one and the byte's eight bits, highest first;
//! at the end a zero, and zeros for ever. So no key's bits begin another's, and their order is that
//! of the keys as bytes, a prefix first. Position `p` is the number of bits before.

use core::cmp::Ordering;
use core::fmt;

use sha2::{Digest, Sha256};

/// The length of tree keys of long keys; all others are shorter.
pub const TREE_KEY_BYTES_MAX: usize = 128;

const LONG_HEAD_BYTES: usize = 96;
/// Of a tree key's bits, those of one of its bytes.
pub const BITS_PER_BYTE: usize = 9;

/// A tree key by value.
#[derive(Clone, Copy)]
pub struct TreeKey {
    length: u8,
    bytes: [u8; TREE_KEY_BYTES_MAX],
}

impl TreeKey {
    /// Of a row of `table`, with its encoded primary key.
    pub fn new(table: u32, key: &[u8]) -> TreeKey {
        let mut bytes = [0; TREE_KEY_BYTES_MAX];
        bytes[..4].copy_from_slice(&table.to_be_bytes());
        let length = 4 + key.len();
        if length < TREE_KEY_BYTES_MAX {
            bytes[4..length].copy_from_slice(key);
            return TreeKey { length: length as u8, bytes };
        }
        let hash = Sha256::new().chain_update(&bytes[..4]).chain_update(key).finalize();
        bytes[4..LONG_HEAD_BYTES].copy_from_slice(&key[..LONG_HEAD_BYTES - 4]);
        bytes[LONG_HEAD_BYTES..].copy_from_slice(&hash);
        TreeKey { length: TREE_KEY_BYTES_MAX as u8, bytes }
    }

    /// Of bytes that are one. `None` if they are more than one has.
    pub fn of_bytes(key: &[u8]) -> Option<TreeKey> {
        let mut bytes = [0; TREE_KEY_BYTES_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(TreeKey { length: key.len() as u8, bytes })
    }

    /// Where a range begins or ends: what tree keys of keys that begin with these begin with.
    pub fn bound(table: u32, key: &[u8]) -> TreeKey {
        TreeKey::new(table, &key[..key.len().min(LONG_HEAD_BYTES - 4)])
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl PartialEq for TreeKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for TreeKey {}

impl PartialOrd for TreeKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TreeKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for TreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bit of a tree key at a position.
pub fn bit(key: &[u8], position: u16) -> bool {
    let (byte, bit) =
        (usize::from(position) / BITS_PER_BYTE, usize::from(position) % BITS_PER_BYTE);
    key.get(byte).is_some_and(|byte| bit == 0 || byte >> (BITS_PER_BYTE - 1 - bit) & 1 == 1)
}

/// The first position at which two tree keys differ. `None` if they do not.
pub fn first_difference(a: &[u8], b: &[u8]) -> Option<u16> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let within = match (a.get(same), b.get(same)) {
        (None, None) => return None,
        (Some(a), Some(b)) => 1 + (a ^ b).leading_zeros() as usize,
        _ => 0,
    };
    Some((same * BITS_PER_BYTE + within) as u16)
}

/// The tree keys from `first` to `last`, both included; with `extends`, and those that begin with
/// `last`.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    pub first: &'a [u8],
    pub last: &'a [u8],
    pub extends: bool,
}

impl<'a> Range<'a> {
    /// One key.
    pub fn of(key: &'a [u8]) -> Self {
        Range { first: key, last: key, extends: false }
    }

    /// All keys that begin so: with the four bytes of an id, a table; with no bytes, everything.
    pub fn beginning(with: &'a [u8]) -> Self {
        Range { first: with, last: with, extends: true }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.first <= key && (key <= self.last || self.extends && key.starts_with(self.last))
    }

    /// Whether a key with the bits of `key` before `position` and there `side` may be in it.
    pub fn meets(&self, key: &[u8], position: u16, side: bool) -> bool {
        let first = against(self.first, key, position, side);
        if first == Ordering::Greater {
            return false;
        }
        let end = self.last.len() * BITS_PER_BYTE;
        let covers = self.extends
            && usize::from(position) >= end
            && first_difference(self.last, key).is_none_or(|at| usize::from(at) >= end);
        covers || against(self.last, key, position, side) != Ordering::Less
    }
}

/// How a key lies to all those with the bits of `key` before `position` and there `side`; equal:
/// among them.
fn against(bound: &[u8], key: &[u8], position: u16, side: bool) -> Ordering {
    match first_difference(bound, key) {
        Some(at) if at < position => bit(bound, at).cmp(&bit(key, at)),
        _ => bit(bound, position).cmp(&side),
    }
}
