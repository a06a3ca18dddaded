//! The two headers of a block: what was ordered, and what came of it.
//!
//! Order and result are two values, since they are made at two times by two parties. The order is
//! known before anything runs, so it can be signed, certified, made durable and sent; the result
//! follows from it, so each replica computes its own, may trail, and votes on it. What is in the
//! order header cannot depend on an execution; what is in the result header depends on nothing
//! else.
//!
//! ```text
//! offset  bytes  order header           (all numbers big-endian)
//!      0      2  version                2
//!      2     16  ledger_id              drawn once, when the ledger is created
//!     18      8  height                 0 is genesis
//!     26     32  previous_order_hash    zeros in genesis
//!     58      8  time_us                signed, microseconds since 2000-01-01 00:00 UTC
//!     66     32  proposer               zeros where a ledger has one node
//!     98     32  parameters_hash        of the protocol parameters in force for this block
//!    130      8  seen_height            what the proposer had released when it cut the batch
//!    138      4  envelope_count
//!    142     32  envelopes_root         Merkle root over all bytes of the envelopes
//!    174
//!
//! offset  bytes  result header
//!      0      2  version                2
//!      2     16  ledger_id
//!     18      8  height
//!     26     32  previous_result_hash   zeros in genesis
//!     58     32  order_hash             of the order header of this block
//!     90      8  snapshot_height        the block whose state the transactions read
//!     98      4  executor               version of the semantics that gave this result
//!    102      4  outcome_count          one for each envelope of this block
//!    106      4  carried_count          outcomes of transactions that earlier blocks deferred
//!    110     32  outcomes_root          Merkle root over the former, then the latter
//!    142      8  effect_count
//!    150     32  effects_root           Merkle root over the net row changes
//!    182      4  reorderings            transactions that ran before an earlier one
//!    186     32  carried_root           of what the block hands on to the next ones; zeros:
//! nothing
//!    218     32  state_root             of all rows after the block, zeros: none is named
//!    250
//! ```
//!
//! **Order hash** = SHA-256(`"tally order v2" 00 00` ‖ 174 bytes), **result hash** =
//! SHA-256(`"tally result v2" 00` ‖ 250 bytes). The result hash is the block's *head*: trust
//! in it is trust in every byte of the block, by `order_hash`, and of all blocks before, by
//! `previous_result_hash`. Bodies are not hashed again, their roots are in the headers.
//!
//! The first 58 bytes of both have one layout: what a log needs to know of a record.
//!
//! *What a block has seen.* Where blocks may be prepared on older snapshots, none is on one older
//! than `seen_height`, so that what the proposer's readers were shown stays as it was. It is zero
//! where blocks read the newest snapshot anyway.
//!
//! Invariants that a chain adds (see [`crate::chain`]): heights without gaps, time never runs back,
//! a block has seen earlier ones only, a result follows the order of its height.

use std::fmt::Debug;

use types::{Height, Result};

use crate::hash::{Hash, TAG_ORDER, TAG_RESULT, Tag, tagged_hash};
use crate::stream::Stream;
use crate::wire::Cursor;

pub const HEADER_VERSION: u16 = 2;
pub const ORDER_HEADER_BYTES: usize = 174;
pub const RESULT_HEADER_BYTES: usize = 250;
/// Version, ledger id, height and previous hash.
pub const COMMON_BYTES: usize = 58;

/// Which ledger a block, a segment file or a receipt belongs to.
pub type LedgerId = [u8; 16];

/// What a chain of either kind of header is made of.
pub trait Header: Clone + Eq + Debug + Send + Sync + 'static {
    const STREAM: Stream;
    const BYTES: usize;
    /// Offsets of the hashes that most headers share with the one before.
    const REPEATED: &'static [usize];

    /// Appends the canonical bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Strict: exactly the canonical bytes of one header.
    fn decode(bytes: &[u8]) -> Result<Self>;
    fn ledger_id(&self) -> LedgerId;
    fn height(&self) -> Height;
    fn previous_hash(&self) -> Hash;
    fn hash(&self) -> Hash;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderHeader {
    pub version: u16,
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_order_hash: Hash,
    pub time_us: i64,
    pub proposer: Hash,
    pub parameters_hash: Hash,
    pub seen_height: Height,
    pub envelope_count: u32,
    pub envelopes_root: Hash,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultHeader {
    pub version: u16,
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_result_hash: Hash,
    pub order_hash: Hash,
    pub snapshot_height: Height,
    pub executor: u32,
    pub outcome_count: u32,
    pub carried_count: u32,
    pub outcomes_root: Hash,
    pub effect_count: u64,
    pub effects_root: Hash,
    pub reorderings: u32,
    pub carried_root: Hash,
    pub state_root: Hash,
}

impl OrderHeader {
    pub fn encode(&self) -> [u8; ORDER_HEADER_BYTES] {
        joined(&[
            &self.version.to_be_bytes(),
            &self.ledger_id,
            &self.height.to_be_bytes(),
            &self.previous_order_hash,
            &self.time_us.to_be_bytes(),
            &self.proposer,
            &self.parameters_hash,
            &self.seen_height.to_be_bytes(),
            &self.envelope_count.to_be_bytes(),
            &self.envelopes_root,
        ])
    }

    /// Reads exactly one header. A version of a later format is an error: no reader may vouch for
    /// fields that it does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("order header", bytes);
        let header = OrderHeader {
            version: cursor.u16()?,
            ledger_id: cursor.array()?,
            height: cursor.u64()?,
            previous_order_hash: cursor.array()?,
            time_us: cursor.i64()?,
            proposer: cursor.array()?,
            parameters_hash: cursor.array()?,
            seen_height: cursor.u64()?,
            envelope_count: cursor.u32()?,
            envelopes_root: cursor.array()?,
        };
        check_version(&cursor, header.version)?;
        cursor.finish()?;
        Ok(header)
    }

    pub fn hash(&self) -> Hash {
        hash_of_encoded(TAG_ORDER, &self.encode())
    }
}

impl ResultHeader {
    pub fn encode(&self) -> [u8; RESULT_HEADER_BYTES] {
        joined(&[
            &self.version.to_be_bytes(),
            &self.ledger_id,
            &self.height.to_be_bytes(),
            &self.previous_result_hash,
            &self.order_hash,
            &self.snapshot_height.to_be_bytes(),
            &self.executor.to_be_bytes(),
            &self.outcome_count.to_be_bytes(),
            &self.carried_count.to_be_bytes(),
            &self.outcomes_root,
            &self.effect_count.to_be_bytes(),
            &self.effects_root,
            &self.reorderings.to_be_bytes(),
            &self.carried_root,
            &self.state_root,
        ])
    }

    /// Reads exactly one header. A version of a later format is an error: no reader may vouch for
    /// fields that it does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("result header", bytes);
        let header = ResultHeader {
            version: cursor.u16()?,
            ledger_id: cursor.array()?,
            height: cursor.u64()?,
            previous_result_hash: cursor.array()?,
            order_hash: cursor.array()?,
            snapshot_height: cursor.u64()?,
            executor: cursor.u32()?,
            outcome_count: cursor.u32()?,
            carried_count: cursor.u32()?,
            outcomes_root: cursor.array()?,
            effect_count: cursor.u64()?,
            effects_root: cursor.array()?,
            reorderings: cursor.u32()?,
            carried_root: cursor.array()?,
            state_root: cursor.array()?,
        };
        check_version(&cursor, header.version)?;
        cursor.finish()?;
        Ok(header)
    }

    /// The block's head.
    pub fn hash(&self) -> Hash {
        hash_of_encoded(TAG_RESULT, &self.encode())
    }

    /// Leaves of the tree under `outcomes_root`.
    pub fn outcome_leaves(&self) -> u64 {
        u64::from(self.outcome_count) + u64::from(self.carried_count)
    }
}

impl Header for OrderHeader {
    const STREAM: Stream = Stream::Orders;
    const BYTES: usize = ORDER_HEADER_BYTES;
    /// Proposer and parameters hash.
    const REPEATED: &'static [usize] = &[66, 98];

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        OrderHeader::decode(bytes)
    }

    fn ledger_id(&self) -> LedgerId {
        self.ledger_id
    }

    fn height(&self) -> Height {
        self.height
    }

    fn previous_hash(&self) -> Hash {
        self.previous_order_hash
    }

    fn hash(&self) -> Hash {
        OrderHeader::hash(self)
    }
}

impl Header for ResultHeader {
    const STREAM: Stream = Stream::Results;
    const BYTES: usize = RESULT_HEADER_BYTES;
    /// Carried root and state root.
    const REPEATED: &'static [usize] = &[186, 218];

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        ResultHeader::decode(bytes)
    }

    fn ledger_id(&self) -> LedgerId {
        self.ledger_id
    }

    fn height(&self) -> Height {
        self.height
    }

    fn previous_hash(&self) -> Hash {
        self.previous_result_hash
    }

    fn hash(&self) -> Hash {
        ResultHeader::hash(self)
    }
}

/// The hash of canonical header bytes.
pub(crate) fn hash_of_encoded(tag: &Tag, header: &[u8]) -> Hash {
    tagged_hash(tag, header)
}

fn check_version(cursor: &Cursor<'_>, version: u16) -> Result<()> {
    if version == HEADER_VERSION {
        return Ok(());
    }
    Err(cursor.invalid(format!("version {version} is not known")))
}

pub(crate) fn joined<const N: usize>(fields: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut rest = &mut bytes[..];
    for field in fields {
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(field.len());
        head.copy_from_slice(field);
        rest = tail;
    }
    debug_assert!(rest.is_empty());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte of a header is read, is written, and reaches the hash.
    fn every_byte_counts<H: Header>(reserved: usize) -> H {
        let size = H::BYTES;
        let mut bytes: Vec<u8> = (1..=size).map(|n| n as u8).collect();
        bytes[..2].copy_from_slice(&HEADER_VERSION.to_be_bytes());
        bytes[size - reserved..].fill(0);
        let header = H::decode(&bytes).unwrap();
        let mut again = Vec::new();
        header.put(&mut again);
        assert_eq!(again, bytes);
        for offset in 0..size {
            let mut changed = bytes.clone();
            changed[offset] ^= 0x10;
            match H::decode(&changed) {
                Ok(other) => assert_ne!(other.hash(), header.hash(), "offset {offset}"),
                Err(_) => assert!(!(2..size - reserved).contains(&offset)),
            }
        }
        assert!(H::decode(&bytes[1..]).is_err());
        assert!(H::decode(&[&bytes[..], &[0]].concat()).is_err());
        header
    }

    #[test]
    fn every_byte_is_read_and_written() {
        let order = every_byte_counts::<OrderHeader>(0);
        assert_eq!(order.envelope_count, 0x8b8c_8d8e);
        let result = every_byte_counts::<ResultHeader>(32);
        assert_eq!((result.outcome_count, result.reorderings), (0x6768_696a, 0xb7b8_b9ba));
    }

    #[test]
    fn hashes_of_the_two_kinds_never_meet() {
        let bytes = [0; 40];
        assert_ne!(hash_of_encoded(TAG_ORDER, &bytes), hash_of_encoded(TAG_RESULT, &bytes));
    }
}
