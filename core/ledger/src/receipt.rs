//! Receipts: proof that an envelope is in the ledger, and what came of it, for a checker that has
//! nothing but a head that it trusts.
//!
//! The checker hashes the result header and compares it with the trusted head, follows `order_hash`
//! to the order headers, then hashes the envelope up to the root in the oldest of those and its
//! outcome up to the root in the result header. No ledger, no network, no key is needed.
//!
//! ```text
//! head = hash ─► result header ── order_hash ─► order header ── previous ─► order header …
//!                     │                              │  (one, if no block put the transaction off)
//!                outcomes_root                  envelopes_root
//!                     └─ outcome                     └─ envelope
//!
//! bytes      field                   (numbers big-endian)
//!     1      version, 2
//!   250      result header           of the block that decided
//!     1      number n of order headers, at least 1
//! 174 n      order headers           from that block's down to the one that holds the envelope
//!     4      index                   of the envelope in its block
//! 4 + n      envelope                length, bytes
//! 1 + 32 n   its inclusion proof     count, hashes from the leaf up
//!     4      outcome index           among all leaves under outcomes_root
//! 4 + n      outcome                 length, bytes
//! 1 + 32 n   its inclusion proof
//! ```
//!
//! With one order header the outcome is the block's own: its index is the envelope's and its leaf
//! the outcome's bytes. With more it lies among the carried ones, after all own outcomes, and its
//! leaf names the envelope's height and index.
//!
//! The JSON form has the same fields in lower-case hexadecimal, and height and head for the human
//! eye; a reader refuses it if those two contradict the header. Both forms are strict: no byte of a
//! receipt can be changed so that it still verifies.

use serde_json::{Map, Value, json};
use types::{Error, Height, Result, SqlState};

use crate::batch::Batch;
use crate::block::Block;
use crate::hash::{Hash, expect_hash, from_hex, hash_from_hex, refused, to_hex};
use crate::header::{ORDER_HEADER_BYTES, OrderHeader, RESULT_HEADER_BYTES, ResultHeader};
use crate::merkle::{inclusion_proof, leaf_hash, root_from_proof};
use crate::result::CarriedOutcome;
use crate::wire::{Cursor, put_prefixed};

pub const RECEIPT_VERSION: u8 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// From the order header of the deciding block down to that of the block that holds the
    /// envelope, usually one and the same.
    pub orders: Vec<OrderHeader>,
    pub result: ResultHeader,
    /// Index of the envelope in its block.
    pub index: u32,
    pub envelope: Vec<u8>,
    pub envelope_proof: Vec<Hash>,
    /// Index of the outcome among all leaves under the outcomes root.
    pub outcome_index: u32,
    pub outcome: Vec<u8>,
    pub outcome_proof: Vec<Hash>,
}

impl Receipt {
    /// The receipt of one envelope of a block, with the outcome that it got there; `None` if there
    /// is no such envelope.
    pub fn of(block: &Block, index: u32) -> Option<Receipt> {
        let outcome = block.result.outcomes().get(index as usize)?;
        Some(Receipt {
            orders: vec![block.batch.header().clone()],
            result: block.result.header().clone(),
            index,
            envelope: block.batch.envelopes().get(index as usize)?.to_vec(),
            envelope_proof: envelope_proof(&block.batch, index)?,
            outcome_index: index,
            outcome: outcome.to_vec(),
            outcome_proof: outcome_proof(block, index)?,
        })
    }

    /// The receipt of a transaction that was ordered in `origin` and decided by a later block,
    /// given the order headers of the blocks between these two, newest first. `None` if that block
    /// decided nothing about it, or the headers do not link the two.
    pub fn of_carried(
        origin: &Batch,
        index: u32,
        between: &[OrderHeader],
        deciding: &Block,
    ) -> Option<Receipt> {
        let is_it =
            |carried: &CarriedOutcome| (carried.height, carried.index) == (origin.height(), index);
        let place = deciding.result.carried().iter().position(is_it)?;
        let place = u32::try_from(place).ok()?;
        let outcome_index = deciding.result.header().outcome_count.checked_add(place)?;
        let first = std::iter::once(deciding.batch.header());
        let orders: Vec<_> = first.chain(between).chain([origin.header()]).cloned().collect();
        check_links(&orders).ok()?;
        Some(Receipt {
            orders,
            result: deciding.result.header().clone(),
            index,
            envelope: origin.envelopes().get(index as usize)?.to_vec(),
            envelope_proof: envelope_proof(origin, index)?,
            outcome_index,
            outcome: deciding.result.carried()[place as usize].outcome.to_vec(),
            outcome_proof: outcome_proof(deciding, outcome_index)?,
        })
    }

    /// Height of the block that decided.
    pub fn height(&self) -> Height {
        self.result.height
    }

    /// Height of the block that holds the envelope.
    pub fn ordered_at(&self) -> Option<Height> {
        self.orders.last().map(|order| order.height)
    }

    /// Checks everything against a head, a result hash, that the caller trusts. Only then do the
    /// receipt's fields mean anything.
    pub fn verify(&self, trusted_head: &Hash) -> Result<()> {
        expect_hash("head", trusted_head, &self.result.hash())?;
        let (Some(newest), Some(origin)) = (self.orders.first(), self.orders.last()) else {
            return Err(refused("it has no order header".to_owned()));
        };
        expect_hash("order hash", &self.result.order_hash, &newest.hash())?;
        check_links(&self.orders)?;
        let (index, count) = (u64::from(self.index), u64::from(origin.envelope_count));
        let proof = &self.envelope_proof;
        let root = climb("envelope", leaf_hash(&self.envelope), index, count, proof)?;
        expect_hash("envelopes root", &origin.envelopes_root, &root)?;
        let (leaf, index) = (self.outcome_leaf(origin)?, u64::from(self.outcome_index));
        let proof = &self.outcome_proof;
        let root = climb("outcome", leaf, index, self.result.outcome_leaves(), proof)?;
        expect_hash("outcomes root", &self.result.outcomes_root, &root)
    }

    /// The hash of the outcome's leaf, whose index must be one that such a leaf can have.
    fn outcome_leaf(&self, origin: &OrderHeader) -> Result<Hash> {
        let is_own = self.orders.len() == 1;
        let fits = match is_own {
            true => {
                self.outcome_index == self.index && self.outcome_index < self.result.outcome_count
            }
            false => self.outcome_index >= self.result.outcome_count,
        };
        if !fits {
            let index = self.outcome_index;
            return Err(refused(format!("{index} is not the index of such an outcome")));
        }
        if is_own {
            return Ok(leaf_hash(&self.outcome));
        }
        let (height, index) = (origin.height, self.index);
        let outcome = self.outcome.clone().into();
        Ok(leaf_hash(&CarriedOutcome { height, index, outcome }.leaf()))
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![RECEIPT_VERSION];
        bytes.extend_from_slice(&self.result.encode());
        let orders = u8::try_from(self.orders.len())
            .map_err(|_| refused("it has more than 255 order headers".to_owned()))?;
        bytes.push(orders);
        self.orders.iter().for_each(|order| bytes.extend_from_slice(&order.encode()));
        bytes.extend_from_slice(&self.index.to_be_bytes());
        put_prefixed(&mut bytes, &self.envelope)?;
        put_proof(&mut bytes, &self.envelope_proof)?;
        bytes.extend_from_slice(&self.outcome_index.to_be_bytes());
        put_prefixed(&mut bytes, &self.outcome)?;
        put_proof(&mut bytes, &self.outcome_proof)?;
        Ok(bytes)
    }

    pub fn decode(bytes: &[u8]) -> Result<Receipt> {
        let mut cursor = Cursor::new("receipt", bytes);
        let version = cursor.u8()?;
        if version != RECEIPT_VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let result = ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?)?;
        let mut orders = Vec::new();
        for _ in 0..cursor.u8()? {
            orders.push(OrderHeader::decode(cursor.take(ORDER_HEADER_BYTES)?)?);
        }
        if orders.is_empty() {
            return Err(cursor.invalid("it has no order header"));
        }
        let receipt = Receipt {
            orders,
            result,
            index: cursor.u32()?,
            envelope: cursor.prefixed()?.to_vec(),
            envelope_proof: take_proof(&mut cursor)?,
            outcome_index: cursor.u32()?,
            outcome: cursor.prefixed()?.to_vec(),
            outcome_proof: take_proof(&mut cursor)?,
        };
        cursor.finish()?;
        Ok(receipt)
    }

    pub fn to_json(&self) -> Value {
        let hashes = |proof: &[Hash]| -> Vec<String> { proof.iter().map(|h| to_hex(h)).collect() };
        let orders = self.orders.iter().map(|order| to_hex(&order.encode()));
        json!({
            "version": RECEIPT_VERSION,
            "height": self.result.height,
            "head": to_hex(&self.result.hash()),
            "result": to_hex(&self.result.encode()),
            "orders": orders.collect::<Vec<String>>(),
            "index": self.index,
            "envelope": to_hex(&self.envelope),
            "envelope_proof": hashes(&self.envelope_proof),
            "outcome_index": self.outcome_index,
            "outcome": to_hex(&self.outcome),
            "outcome_proof": hashes(&self.outcome_proof),
        })
    }

    pub fn from_json(value: &Value) -> Result<Receipt> {
        let fields = value.as_object().ok_or_else(|| malformed("object"))?;
        let number = |name| field(fields, name)?.as_u64().ok_or_else(|| malformed(name));
        let index = |name| u32::try_from(number(name)?).map_err(|_| malformed(name));
        if number("version")? != u64::from(RECEIPT_VERSION) {
            return Err(malformed("version"));
        }
        let orders = texts(fields, "orders")?.into_iter();
        let orders = orders.map(|order| OrderHeader::decode(&from_hex(order)?));
        let receipt = Receipt {
            orders: orders.collect::<Result<_>>()?,
            result: ResultHeader::decode(&from_hex(text(fields, "result")?)?)?,
            index: index("index")?,
            envelope: from_hex(text(fields, "envelope")?)?,
            envelope_proof: hashes(fields, "envelope_proof")?,
            outcome_index: index("outcome_index")?,
            outcome: from_hex(text(fields, "outcome")?)?,
            outcome_proof: hashes(fields, "outcome_proof")?,
        };
        // Every field has one spelling, and there are no others, if the way back leads here.
        match receipt.to_json() == *value {
            true => Ok(receipt),
            false => Err(malformed("its height, its head or an unknown field")),
        }
    }
}

fn envelope_proof(batch: &Batch, index: u32) -> Option<Vec<Hash>> {
    let hashes: Vec<Hash> = batch.envelopes().iter().map(|leaf| leaf_hash(leaf)).collect();
    inclusion_proof(&hashes, index as usize)
}

fn outcome_proof(block: &Block, index: u32) -> Option<Vec<Hash>> {
    let own = block.result.outcomes().iter().map(|leaf| leaf_hash(leaf));
    let carried = block.result.carried().iter().map(|carried| leaf_hash(&carried.leaf()));
    inclusion_proof(&own.chain(carried).collect::<Vec<Hash>>(), index as usize)
}

fn check_links(orders: &[OrderHeader]) -> Result<()> {
    let links = |pair: &[OrderHeader]| {
        let [after, before] = pair else { return Ok(()) };
        let same_ledger = after.ledger_id == before.ledger_id;
        if before.height.checked_add(1) != Some(after.height) || !same_ledger {
            return Err(refused("its order headers do not follow one another".to_owned()));
        }
        expect_hash("previous order hash", &after.previous_order_hash, &before.hash())
    };
    orders.windows(2).try_for_each(links)
}

fn climb(what: &str, leaf: Hash, index: u64, leaves: u64, proof: &[Hash]) -> Result<Hash> {
    root_from_proof(leaf, index, leaves, proof)
        .ok_or_else(|| refused(format!("the {what} proof does not fit index {index} of {leaves}")))
}

fn put_proof(out: &mut Vec<u8>, proof: &[Hash]) -> Result<()> {
    let count = u8::try_from(proof.len())
        .map_err(|_| refused("a proof has more than 255 hashes".to_owned()))?;
    out.push(count);
    proof.iter().for_each(|hash| out.extend_from_slice(hash));
    Ok(())
}

fn take_proof(cursor: &mut Cursor<'_>) -> Result<Vec<Hash>> {
    let count = cursor.u8()?;
    (0..count).map(|_| cursor.array()).collect()
}

fn field<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a Value> {
    fields.get(name).ok_or_else(|| malformed(name))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a str> {
    field(fields, name)?.as_str().ok_or_else(|| malformed(name))
}

fn texts<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<Vec<&'a str>> {
    let list = field(fields, name)?.as_array().ok_or_else(|| malformed(name))?;
    list.iter().map(|text| text.as_str().ok_or_else(|| malformed(name))).collect()
}

fn hashes(fields: &Map<String, Value>, name: &'static str) -> Result<Vec<Hash>> {
    texts(fields, name)?.into_iter().map(hash_from_hex).collect()
}

fn malformed(name: &str) -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed receipt")
        .with_detail(format!("What is missing or unusable: {name}."))
}

#[cfg(test)]
#[path = "receipt_tests.rs"]
mod tests;
