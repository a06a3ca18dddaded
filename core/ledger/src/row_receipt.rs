//! Row receipts: proof that a block changed a row, from one image to another, for a checker that
//! has nothing but the head of that block.
//!
//! ```text
//! bytes      field                   (numbers big-endian)
//!     1      version, 2
//!   250      result header
//!     8      index                   of the effect among those of the block
//! 4 + n      effect                  length, the leaf of [`crate::effects`]
//! 1 + 32 n   its inclusion proof     count, hashes from the leaf up
//! ```
//!
//! It says that the row was so *after this block*. That it is still so needs every later block:
//! `previous_height` in a newer effect of the same row leads back to this one.

use serde_json::{Value, json};
use types::{Error, Result, SqlState};

use crate::effects::{Effect, row_image_hash};
use crate::hash::{Hash, expect_hash, from_hex, refused, to_hex};
use crate::header::{RESULT_HEADER_BYTES, ResultHeader};
use crate::merkle::{inclusion_proof, leaf_hash, root_from_proof};
use crate::wire::{Cursor, put_prefixed};

pub const ROW_RECEIPT_VERSION: u8 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowReceipt {
    pub header: ResultHeader,
    index: u64,
    /// Canonical bytes of the effect; see [`RowReceipt::effect`].
    leaf: Vec<u8>,
    proof: Vec<Hash>,
}

impl RowReceipt {
    /// The receipt of one effect of a block, given all of them in order, as an execution of the
    /// block returns them. `None` if there is no such effect.
    pub fn of(header: &ResultHeader, effects: &[Effect<'_>], index: usize) -> Result<Option<Self>> {
        let mut leaves = Vec::with_capacity(effects.len());
        for effect in effects {
            let mut leaf = Vec::new();
            effect.encode_into(&mut leaf)?;
            leaves.push(leaf);
        }
        let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        let Some(proof) = inclusion_proof(&hashes, index) else {
            return Ok(None);
        };
        let leaf = leaves.swap_remove(index);
        Ok(Some(RowReceipt { header: header.clone(), index: index as u64, leaf, proof }))
    }

    /// What the block did to the row.
    pub fn effect(&self) -> Result<Effect<'_>> {
        Effect::decode(&self.leaf)
    }

    /// Checks everything against a head, a result hash, that the caller trusts.
    pub fn verify(&self, trusted_head: &Hash) -> Result<Effect<'_>> {
        expect_hash("head", trusted_head, &self.header.hash())?;
        let (index, count) = (self.index, self.header.effect_count);
        let root = root_from_proof(leaf_hash(&self.leaf), index, count, &self.proof);
        let root = root
            .ok_or_else(|| refused(format!("the proof does not fit index {index} of {count}")))?;
        expect_hash("effects root", &self.header.effects_root, &root)?;
        self.effect()
    }

    /// [`RowReceipt::verify`], and that this was the row after the block.
    pub fn verify_row(&self, trusted_head: &Hash, row_image: &[u8]) -> Result<()> {
        let effect = self.verify(trusted_head)?;
        if effect.after != Some(row_image_hash(row_image)) {
            return Err(refused("this is not the row that the block left".to_owned()));
        }
        Ok(())
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![ROW_RECEIPT_VERSION];
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.index.to_be_bytes());
        put_prefixed(&mut bytes, &self.leaf)?;
        let count = u8::try_from(self.proof.len())
            .map_err(|_| refused("a proof has more than 255 hashes".to_owned()))?;
        bytes.push(count);
        self.proof.iter().for_each(|hash| bytes.extend_from_slice(hash));
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<RowReceipt> {
        let mut cursor = Cursor::new("row receipt", bytes);
        let version = cursor.u8()?;
        if version != ROW_RECEIPT_VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let header = ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?)?;
        let index = cursor.u64()?;
        let leaf = cursor.prefixed()?.to_vec();
        Effect::decode(&leaf)?;
        let count = cursor.u8()?;
        let proof = (0..count).map(|_| cursor.array()).collect::<Result<Vec<Hash>>>()?;
        cursor.finish()?;
        Ok(RowReceipt { header, index, leaf, proof })
    }

    /// For people and other programs: the binary form in hexadecimal, and what it says.
    pub fn to_json(&self) -> Result<Value> {
        let effect = self.effect()?;
        Ok(json!({
            "row_receipt": to_hex(&self.encode()?),
            "height": self.header.height,
            "head": to_hex(&self.header.hash()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::effects_digest;
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
            let mut header = crate::testing::chain(1, 1)[1].result.header().clone();
            let digest = effects_digest(effects.iter().copied()).unwrap();
            (header.effect_count, header.effects_root) = (digest.count, digest.root);
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
