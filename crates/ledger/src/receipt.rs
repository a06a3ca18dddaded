//! Receipts: proof that a transaction is in the ledger, and what came of it, for someone who has
//! nothing but a block hash that they trust.
//!
//! The checker hashes the header and compares it with the trusted hash, then hashes the transaction
//! and its outcome up to the two roots in that header. No ledger, no network, no key is needed.
//!
//! ```text
//! bytes      field                   (numbers big-endian)
//!     1      version, 1
//!   238      header
//!     4      index of the transaction in the block
//! 4 + n      transaction             length, bytes
//! 4 + n      outcome                 length, bytes
//! 1 + 32 n   transaction's inclusion proof, from the leaf up: count, hashes
//! 1 + 32 n   outcome's inclusion proof
//! ```
//!
//! The JSON form has the same fields in lower-case hexadecimal, and height and block hash for the
//! human eye; a reader refuses it if those two contradict the header. Both forms are strict: no
//! byte of a receipt can be changed so that it still verifies.

use serde_json::{Map, Value, json};
use types::{Error, Result, SqlState};

use crate::block::Block;
use crate::hash::{Hash, expect_hash, from_hex, hash_from_hex, refused, to_hex};
use crate::header::{BlockHeader, HEADER_BYTES};
use crate::merkle::{inclusion_proof, leaf_hash, root_from_proof};
use crate::wire::{Cursor, put_prefixed};

pub const RECEIPT_VERSION: u8 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub header: BlockHeader,
    /// Index of the transaction in the block.
    pub index: u32,
    pub transaction: Vec<u8>,
    pub outcome: Vec<u8>,
    pub transaction_proof: Vec<Hash>,
    pub outcome_proof: Vec<Hash>,
}

impl Receipt {
    /// The receipt of one transaction of a block; `None` if there is no such transaction.
    pub fn of(block: &Block, index: u32) -> Option<Receipt> {
        let position = index as usize;
        let proof = |parts: &[bytes::Bytes]| {
            let hashes: Vec<Hash> = parts.iter().map(|part| leaf_hash(part)).collect();
            inclusion_proof(&hashes, position)
        };
        Some(Receipt {
            header: block.header.clone(),
            index,
            transaction: block.transactions.get(position)?.to_vec(),
            outcome: block.outcomes.get(position)?.to_vec(),
            transaction_proof: proof(&block.transactions)?,
            outcome_proof: proof(&block.outcomes)?,
        })
    }

    /// Checks everything against a block hash that the caller trusts. Only then do the receipt's
    /// fields mean anything.
    pub fn verify(&self, trusted_block_hash: &Hash) -> Result<()> {
        expect_hash("block hash", trusted_block_hash, &self.header.hash())?;
        let root = |what: &str, leaf: &[u8], proof: &[Hash]| {
            let (index, leaves) = (self.index.into(), self.header.transaction_count.into());
            root_from_proof(leaf_hash(leaf), index, leaves, proof).ok_or_else(|| {
                refused(format!("the {what} proof does not fit index {index} of {leaves}"))
            })
        };
        let transactions_root = root("transaction", &self.transaction, &self.transaction_proof)?;
        expect_hash("transactions root", &self.header.transactions_root, &transactions_root)?;
        let outcomes_root = root("outcome", &self.outcome, &self.outcome_proof)?;
        expect_hash("outcomes root", &self.header.outcomes_root, &outcomes_root)
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![RECEIPT_VERSION];
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.index.to_be_bytes());
        put_prefixed(&mut bytes, &self.transaction)?;
        put_prefixed(&mut bytes, &self.outcome)?;
        for proof in [&self.transaction_proof, &self.outcome_proof] {
            let count = u8::try_from(proof.len())
                .map_err(|_| refused("a proof has more than 255 hashes".to_owned()))?;
            bytes.push(count);
            proof.iter().for_each(|hash| bytes.extend_from_slice(hash));
        }
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<Receipt> {
        let mut cursor = Cursor::new("receipt", bytes);
        let version = cursor.u8()?;
        if version != RECEIPT_VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let header = BlockHeader::decode(cursor.take(HEADER_BYTES)?)?;
        let index = cursor.u32()?;
        let transaction = cursor.prefixed()?.to_vec();
        let outcome = cursor.prefixed()?.to_vec();
        let mut proof = || -> Result<Vec<Hash>> {
            let count = cursor.u8()?;
            (0..count).map(|_| cursor.array()).collect()
        };
        let (transaction_proof, outcome_proof) = (proof()?, proof()?);
        cursor.finish()?;
        Ok(Receipt { header, index, transaction, outcome, transaction_proof, outcome_proof })
    }

    pub fn to_json(&self) -> Value {
        let hashes = |proof: &[Hash]| -> Vec<String> { proof.iter().map(|h| to_hex(h)).collect() };
        json!({
            "version": RECEIPT_VERSION,
            "height": self.header.height,
            "block_hash": to_hex(&self.header.hash()),
            "header": to_hex(&self.header.encode()),
            "index": self.index,
            "transaction": to_hex(&self.transaction),
            "outcome": to_hex(&self.outcome),
            "transaction_proof": hashes(&self.transaction_proof),
            "outcome_proof": hashes(&self.outcome_proof),
        })
    }

    pub fn from_json(value: &Value) -> Result<Receipt> {
        let fields = value.as_object().ok_or_else(|| malformed("object"))?;
        let number = |name| field(fields, name)?.as_u64().ok_or_else(|| malformed(name));
        if number("version")? != u64::from(RECEIPT_VERSION) {
            return Err(malformed("version"));
        }
        let receipt = Receipt {
            header: BlockHeader::decode(&from_hex(text(fields, "header")?)?)?,
            index: u32::try_from(number("index")?).map_err(|_| malformed("index"))?,
            transaction: from_hex(text(fields, "transaction")?)?,
            outcome: from_hex(text(fields, "outcome")?)?,
            transaction_proof: hashes(fields, "transaction_proof")?,
            outcome_proof: hashes(fields, "outcome_proof")?,
        };
        // Every field has one spelling, and there are no others, if the way back leads here.
        match receipt.to_json() == *value {
            true => Ok(receipt),
            false => Err(malformed("its height, its block hash or an unknown field")),
        }
    }
}

fn field<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a Value> {
    fields.get(name).ok_or_else(|| malformed(name))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a str> {
    field(fields, name)?.as_str().ok_or_else(|| malformed(name))
}

fn hashes(fields: &Map<String, Value>, name: &'static str) -> Result<Vec<Hash>> {
    let list = field(fields, name)?.as_array().ok_or_else(|| malformed(name))?;
    list.iter().map(|hash| hash_from_hex(hash.as_str().ok_or_else(|| malformed(name))?)).collect()
}

fn malformed(name: &str) -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed receipt")
        .with_detail(format!("What is missing or unusable: {name}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chain;

    #[test]
    fn every_transaction_has_a_receipt() {
        for transactions in [1, 2, 3, 7, 8, 9] {
            let block = chain(1, transactions).pop().unwrap();
            let hash = block.header.hash();
            for index in 0..transactions as u32 {
                let receipt = Receipt::of(&block, index).unwrap();
                receipt.verify(&hash).unwrap();
                assert_eq!(Receipt::decode(&receipt.encode().unwrap()).unwrap(), receipt);
                assert_eq!(Receipt::from_json(&receipt.to_json()).unwrap(), receipt);
                assert!(receipt.verify(&[0; 32]).is_err());
            }
            assert_eq!(Receipt::of(&block, transactions as u32), None);
        }
    }

    #[test]
    fn no_bit_of_the_binary_form_can_change() {
        let block = chain(1, 5).pop().unwrap();
        let hash = block.header.hash();
        for index in [0, 3, 4] {
            let bytes = Receipt::of(&block, index).unwrap().encode().unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let verdict = Receipt::decode(&changed).and_then(|r| r.verify(&hash));
                assert!(verdict.is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert!(Receipt::decode(&bytes[..cut]).is_err());
            }
        }
    }

    /// A changed JSON text is refused, or it is another spelling of the same receipt.
    #[test]
    fn no_character_of_the_json_form_can_change_its_meaning() {
        let block = chain(1, 5).pop().unwrap();
        let hash = block.header.hash();
        let receipt = Receipt::of(&block, 3).unwrap();
        let text = serde_json::to_vec_pretty(&receipt.to_json()).unwrap();
        for position in 0..text.len() {
            for mask in [1, 2, 4, 0x10, 0x20, 0x80] {
                let mut changed = text.clone();
                changed[position] ^= mask;
                let Ok(value) = serde_json::from_slice(&changed) else {
                    continue;
                };
                let Ok(found) = Receipt::from_json(&value) else {
                    continue;
                };
                if found.verify(&hash).is_ok() {
                    assert_eq!(found, receipt, "character {position}");
                }
            }
        }
    }
}
