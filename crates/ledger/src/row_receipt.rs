//! Row receipts: proof that a block changed a row, from one image to another, for someone who has
//! nothing but the hash of that block.
//!
//! ```text
//! bytes      field                   (numbers big-endian)
//!     1      version, 1
//!   238      header
//! 4 + n      effect                  length, the leaf of [`crate::effects`]
//!     1      number n of steps
//!  33 n      steps from the leaf up: side of the sibling (0 left, 1 right), its hash
//! ```
//!
//! The header does not hold the number of effects, so this proof names the side of each sibling
//! instead of an index among so many leaves: what the checker hashes is then all that is claimed,
//! and no byte of the receipt can change.
//!
//! It says that the row was so *after this block*. That it is still so needs every later block:
//! `previous_height` in a newer effect of the same row leads back to this one.

use serde_json::{Value, json};
use types::{Error, Result, SqlState};

use crate::effects::{Effect, row_image_hash};
use crate::hash::{Hash, expect_hash, from_hex, refused, to_hex};
use crate::header::{BlockHeader, HEADER_BYTES};
use crate::merkle::{inclusion_proof, leaf_hash, node_hash};
use crate::wire::{Cursor, put_prefixed};

pub const ROW_RECEIPT_VERSION: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Left = 0,
    Right = 1,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowReceipt {
    pub header: BlockHeader,
    /// Canonical bytes of the effect; see [`RowReceipt::effect`].
    leaf: Vec<u8>,
    proof: Vec<(Side, Hash)>,
}

impl RowReceipt {
    /// The receipt of one effect of a block, given all of them in order, as an execution of the
    /// block returns them. `None` if there is no such effect.
    pub fn of(header: &BlockHeader, effects: &[Effect<'_>], index: usize) -> Result<Option<Self>> {
        let mut leaves = Vec::with_capacity(effects.len());
        for effect in effects {
            let mut leaf = Vec::new();
            effect.encode_into(&mut leaf)?;
            leaves.push(leaf);
        }
        let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        let Some(siblings) = inclusion_proof(&hashes, index) else {
            return Ok(None);
        };
        let proof = sides(index, hashes.len()).into_iter().zip(siblings).collect();
        Ok(Some(RowReceipt { header: header.clone(), leaf: leaves.swap_remove(index), proof }))
    }

    /// What the block did to the row.
    pub fn effect(&self) -> Result<Effect<'_>> {
        Effect::decode(&self.leaf)
    }

    /// Checks everything against a block hash that the caller trusts.
    pub fn verify(&self, trusted_block_hash: &Hash) -> Result<Effect<'_>> {
        expect_hash("block hash", trusted_block_hash, &self.header.hash())?;
        let climb = |node: Hash, (side, sibling): &(Side, Hash)| match side {
            Side::Left => node_hash(sibling, &node),
            Side::Right => node_hash(&node, sibling),
        };
        let root = self.proof.iter().fold(leaf_hash(&self.leaf), climb);
        expect_hash("effects root", &self.header.effects_root, &root)?;
        self.effect()
    }

    /// [`RowReceipt::verify`], and that this was the row after the block.
    pub fn verify_row(&self, trusted_block_hash: &Hash, row_image: &[u8]) -> Result<()> {
        let effect = self.verify(trusted_block_hash)?;
        if effect.after != Some(row_image_hash(row_image)) {
            return Err(refused("this is not the row that the block left".to_owned()));
        }
        Ok(())
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![ROW_RECEIPT_VERSION];
        bytes.extend_from_slice(&self.header.encode());
        put_prefixed(&mut bytes, &self.leaf)?;
        let steps = u8::try_from(self.proof.len())
            .map_err(|_| refused("a proof has more than 255 hashes".to_owned()))?;
        bytes.push(steps);
        for (side, sibling) in &self.proof {
            bytes.push(*side as u8);
            bytes.extend_from_slice(sibling);
        }
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<RowReceipt> {
        let mut cursor = Cursor::new("row receipt", bytes);
        let version = cursor.u8()?;
        if version != ROW_RECEIPT_VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let header = BlockHeader::decode(cursor.take(HEADER_BYTES)?)?;
        let leaf = cursor.prefixed()?.to_vec();
        Effect::decode(&leaf)?;
        let mut proof = Vec::new();
        for _ in 0..cursor.u8()? {
            let side = match cursor.u8()? {
                0 => Side::Left,
                1 => Side::Right,
                other => return Err(cursor.invalid(format!("{other} is no side"))),
            };
            proof.push((side, cursor.array()?));
        }
        cursor.finish()?;
        Ok(RowReceipt { header, leaf, proof })
    }

    /// For people and other programs: the binary form in hexadecimal, and what it says.
    pub fn to_json(&self) -> Result<Value> {
        let effect = self.effect()?;
        Ok(json!({
            "row_receipt": to_hex(&self.encode()?),
            "height": self.header.height,
            "block_hash": to_hex(&self.header.hash()),
            "table": effect.table.0,
            "key": to_hex(effect.key),
            "before": effect.before.map(|hash| to_hex(&hash)),
            "after": effect.after.map(|hash| to_hex(&hash)),
            "previous_height": effect.previous_height,
        }))
    }

    pub fn from_json(value: &Value) -> Result<RowReceipt> {
        let malformed =
            || Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed row receipt");
        let text = value.get("row_receipt").and_then(Value::as_str).ok_or_else(malformed)?;
        let receipt = RowReceipt::decode(&from_hex(text)?)?;
        match receipt.to_json()? == *value {
            true => Ok(receipt),
            false => Err(malformed().with_detail("Its members contradict one another.")),
        }
    }
}

/// On which side of the path from a leaf to the root the siblings stand.
fn sides(index: usize, leaves: usize) -> Vec<Side> {
    let (mut position, mut last) = (index, leaves.saturating_sub(1));
    let mut sides = Vec::new();
    while last > 0 {
        if position % 2 == 1 {
            sides.push(Side::Left);
        } else if position < last {
            sides.push(Side::Right);
        }
        position /= 2;
        last /= 2;
    }
    sides
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::effects_root;
    use types::TableId;

    #[test]
    fn every_row_has_a_receipt_and_no_bit_of_it_can_change() {
        let keys: Vec<[u8; 4]> = (0..9u32).map(u32::to_be_bytes).collect();
        let effect = |key: &'static [u8; 4]| Effect {
            table: TableId(1),
            key,
            before: Some([1; 32]),
            after: Some(row_image_hash(key)),
            previous_height: 3,
        };
        let keys: &'static [[u8; 4]] = keys.leak();
        for count in 1..=keys.len() {
            let effects: Vec<Effect<'_>> = keys[..count].iter().map(effect).collect();
            let mut header = crate::testing::chain(1, 1)[1].header.clone();
            header.effects_root = effects_root(effects.iter().copied()).unwrap();
            let hash = header.hash();
            for (index, key) in keys[..count].iter().enumerate() {
                let receipt = RowReceipt::of(&header, &effects, index).unwrap().unwrap();
                assert_eq!(receipt.verify(&hash).unwrap(), effects[index]);
                receipt.verify_row(&hash, key).unwrap();
                assert!(receipt.verify_row(&hash, b"another row").is_err());
                assert!(receipt.verify(&[0; 32]).is_err());
                let json = receipt.to_json().unwrap();
                assert_eq!(RowReceipt::from_json(&json).unwrap(), receipt);
            }
            assert_eq!(RowReceipt::of(&header, &effects, count).unwrap(), None);

            let receipt = RowReceipt::of(&header, &effects, count / 2).unwrap().unwrap();
            let bytes = receipt.encode().unwrap();
            assert_eq!(RowReceipt::decode(&bytes).unwrap(), receipt);
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let accepted =
                    RowReceipt::decode(&changed).is_ok_and(|receipt| receipt.verify(&hash).is_ok());
                assert!(!accepted, "{count} effects, bit {bit}");
            }
        }
    }
}
