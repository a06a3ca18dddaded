//! What a block changed, as one hash and a number: the Merkle root over its *net* row changes.
//!
//! Two replicas that executed a block alike have the same effects root, whatever protocol, thread
//! count or database did the work. It is never an XOR or a sum of hashes, which could be forged by
//! choosing rows.
//!
//! The leaves are sorted by (table, key bytes), each (table, key) at most once. Where a schema or
//! parameter change stands in a block, the transactions before it, the change by itself, and those
//! after it up to the next one are steps of the block, whose leaves follow each other, each step's
//! in this order:
//!
//! ```text
//! bytes  field             (numbers big-endian)
//!     4  table id
//!     4  key length k
//!     k  key               order-preserving encoding
//!    32  before            image hash of the row before the block, zeros if there was none
//!    32  after             image hash of the row after the block, zeros if there is none
//!     8  previous_height   the block that changed the row last, 0 if there was none
//! ```
//!
//! Image hash = SHA-256(`"tally row v1" 00 00 00 00` ‖ row image). How a row becomes bytes is named
//! by `row_encoding` in the parameters; this module does not look inside.
//!
//! A row that was inserted and deleted within the block left no trace and is not listed. A row that
//! was written with the values it had *is* listed: its height of last change moved.

use types::{Error, Height, Result, SqlState, TableId};

use crate::hash::{Hash, TAG_ROW_IMAGE, ZERO_HASH, tagged_hash};
use crate::merkle::MerkleBuilder;
use crate::wire::{Cursor, put_prefixed};

pub fn row_image_hash(image: &[u8]) -> Hash {
    tagged_hash(TAG_ROW_IMAGE, image)
}

/// One net row change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    /// Image hashes; `None` where there is no row.
    pub before: Option<Hash>,
    pub after: Option<Hash>,
    pub previous_height: Height,
}

impl<'a> Effect<'a> {
    /// Reads canonical leaf bytes.
    pub fn decode(leaf: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new("effect", leaf);
        let table = TableId(cursor.u32()?);
        let key = cursor.prefixed()?;
        let mut image = || -> Result<Option<Hash>> {
            Ok(Some(cursor.array()?).filter(|hash| *hash != ZERO_HASH))
        };
        let (before, after) = (image()?, image()?);
        let previous_height = cursor.u64()?;
        if before.is_none() && after.is_none() {
            return Err(cursor.invalid("there is neither a before- nor an after-image"));
        }
        cursor.finish()?;
        Ok(Effect { table, key, before, after, previous_height })
    }

    /// The canonical leaf bytes, into a buffer that the caller may use again.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.table.0.to_be_bytes());
        put_prefixed(out, self.key)?;
        out.extend_from_slice(&self.before.unwrap_or(ZERO_HASH));
        out.extend_from_slice(&self.after.unwrap_or(ZERO_HASH));
        out.extend_from_slice(&self.previous_height.to_be_bytes());
        Ok(())
    }
}

/// What a header says of a block's effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffectsDigest {
    pub count: u64,
    pub root: Hash,
}

/// Computes an effects root from effects that come in order.
#[derive(Default)]
pub struct EffectsBuilder {
    tree: MerkleBuilder,
    /// Table and key of the last effect; meaningful once the tree has a leaf.
    last: (u32, Vec<u8>),
    /// The next effect begins a step, so that it follows from none.
    begins: bool,
    leaf: Vec<u8>,
}

impl EffectsBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// What follows is another step of the block: its effects are in an order of their own.
    pub fn begin_step(&mut self) {
        self.begins = true;
    }

    /// Refuses effects out of order, listed twice, or without any image: an engine that produced
    /// such a list is sick, and a root over it would hide that.
    pub fn push(&mut self, effect: &Effect<'_>) -> Result<()> {
        let (table, key) = &self.last;
        let follows = (*table, key.as_slice()) < (effect.table.0, effect.key);
        let begins = std::mem::take(&mut self.begins);
        if self.tree.leaves() > 0 && !begins && !follows {
            return Err(unusable(effect, "does not follow the effect before it"));
        }
        if effect.before.is_none() && effect.after.is_none() {
            return Err(unusable(effect, "has neither a before- nor an after-image"));
        }
        self.leaf.clear();
        effect.encode_into(&mut self.leaf)?;
        self.tree.push(&self.leaf);
        let (table, key) = &mut self.last;
        *table = effect.table.0;
        key.clear();
        key.extend_from_slice(effect.key);
        Ok(())
    }

    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    pub fn count(&self) -> u64 {
        self.tree.leaves()
    }

    pub fn digest(&self) -> EffectsDigest {
        EffectsDigest { count: self.count(), root: self.root() }
    }
}

/// The effects of a whole, sorted list.
pub fn effects_digest<'a>(effects: impl IntoIterator<Item = Effect<'a>>) -> Result<EffectsDigest> {
    let mut builder = EffectsBuilder::new();
    for effect in effects {
        builder.push(&effect)?;
    }
    Ok(builder.digest())
}

fn unusable(effect: &Effect<'_>, why: &str) -> Error {
    let key = crate::hash::to_hex(effect.key);
    Error::new(SqlState::INTERNAL_ERROR, "the effects of the block are not a sorted set of rows")
        .with_detail(format!("The effect on table {}, key {key}, {why}.", effect.table.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_of<'a>(effects: impl IntoIterator<Item = Effect<'a>>) -> Result<Hash> {
        let digest = effects_digest(effects)?;
        Ok(digest.root)
    }

    fn effect(table: u32, key: &[u8]) -> Effect<'_> {
        Effect {
            table: TableId(table),
            key,
            before: None,
            after: Some(row_image_hash(b"image")),
            previous_height: 7,
        }
    }

    #[test]
    fn leaf_layout() {
        let mut leaf = Vec::new();
        effect(2, b"key").encode_into(&mut leaf).unwrap();
        let mut expected = vec![0, 0, 0, 2, 0, 0, 0, 3, b'k', b'e', b'y'];
        expected.extend([0; 32]);
        expected.extend(row_image_hash(b"image"));
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(leaf, expected);
        assert_eq!(Effect::decode(&leaf).unwrap(), effect(2, b"key"));
        for cut in 0..leaf.len() {
            assert!(Effect::decode(&leaf[..cut]).is_err());
        }
        assert_eq!(root_of([effect(2, b"key")]).unwrap(), crate::merkle::root([leaf]));
    }

    #[test]
    fn order_and_uniqueness_are_required() {
        let sorted = [effect(1, b"b"), effect(1, b"ba"), effect(2, b""), effect(2, b"a")];
        assert!(root_of(sorted).is_ok());
        assert!(root_of([effect(1, b"a"), effect(1, b"a")]).is_err());
        assert!(root_of([effect(1, b"b"), effect(1, b"a")]).is_err());
        assert!(root_of([effect(2, b"a"), effect(1, b"b")]).is_err());
        let mut steps = EffectsBuilder::new();
        steps.begin_step();
        steps.push(&effect(1, b"b")).unwrap();
        assert!(steps.push(&effect(1, b"a")).is_err(), "within a step");
        steps.begin_step();
        steps.push(&effect(1, b"a")).unwrap();
        assert!(steps.push(&effect(1, b"a")).is_err(), "within the next one");
        let nothing = Effect { after: None, ..effect(1, b"a") };
        assert!(root_of([nothing]).is_err());
        assert_eq!(root_of([]).unwrap(), crate::merkle::root::<&[u8]>([]));
        assert_eq!(effects_digest(sorted).unwrap().count, 4);
    }

    #[test]
    fn every_field_reaches_the_root() {
        let base = effect(1, b"k");
        let root = root_of([base]).unwrap();
        for other in [
            effect(2, b"k"),
            effect(1, b"l"),
            Effect { before: base.after, ..base },
            Effect { after: Some([1; 32]), ..base },
            Effect { previous_height: 8, ..base },
        ] {
            assert_ne!(root_of([other]).unwrap(), root);
        }
    }
}
