//! A block: a header and the bytes that it commits to, and the canonical form of both.
//!
//! ```text
//! bytes  field                        (lengths: u32, big-endian)
//!   238  header                       holds the number n of transactions
//!        n times: 4 + length          a transaction
//!        n times: 4 + length          its outcome, in the same order
//! ```
//!
//! Nothing follows the last outcome. One block has exactly one encoding, so its bytes can be
//! compared, and decoding accepts no other.
//!
//! Transactions and outcomes are opaque here. A decoded block borrows them from the one buffer that
//! it was read into: [`Bytes`] slices share it, nothing is copied per transaction. Hostile bytes
//! cannot make decoding allocate more than a small multiple of their own size, as each transaction
//! and each outcome takes at least its length field.

use bytes::Bytes;
use types::{Error, Height, Result, SqlState};

use crate::hash::{Hash, ZERO_HASH};
use crate::header::{BlockHeader, HEADER_BYTES, HEADER_VERSION, LedgerId, hash_of_encoded};
use crate::merkle;
use crate::wire::{Cursor, put_prefixed};

/// Upper bound of an encoded block. Far above what block cutting produces; it keeps a record's
/// length in 32 bits and a reader's memory bounded.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub header: BlockHeader,
    pub transactions: Vec<Bytes>,
    /// What happened to each transaction, in the order of the transactions.
    pub outcomes: Vec<Bytes>,
}

/// What the caller decides about a block; the rest of the header follows from its contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockSeal {
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_hash: Hash,
    pub time_us: i64,
    pub snapshot_height: Height,
    pub parameters_hash: Hash,
    pub effects_root: Hash,
}

impl Block {
    /// Computes the roots and closes the header.
    pub fn seal(seal: BlockSeal, transactions: Vec<Bytes>, outcomes: Vec<Bytes>) -> Result<Block> {
        if transactions.len() != outcomes.len() {
            return Err(Error::new(
                SqlState::INTERNAL_ERROR,
                "a block needs one outcome for each transaction",
            )
            .with_detail(format!(
                "Block {} has {} transactions and {} outcomes.",
                seal.height,
                transactions.len(),
                outcomes.len()
            )));
        }
        let transaction_count = u32::try_from(transactions.len())
            .map_err(|_| too_large(seal.height, transactions.len()))?;
        let header = BlockHeader {
            version: HEADER_VERSION,
            ledger_id: seal.ledger_id,
            height: seal.height,
            previous_hash: seal.previous_hash,
            time_us: seal.time_us,
            snapshot_height: seal.snapshot_height,
            parameters_hash: seal.parameters_hash,
            transaction_count,
            transactions_root: merkle::root(&transactions),
            outcomes_root: merkle::root(&outcomes),
            effects_root: seal.effects_root,
            state_root: ZERO_HASH,
        };
        Ok(Block { header, transactions, outcomes })
    }

    pub fn encode(&self) -> Result<EncodedBlock> {
        let parts = self.transactions.iter().chain(&self.outcomes);
        let size = HEADER_BYTES + parts.clone().map(|part| 4 + part.len()).sum::<usize>();
        check_size(self.header.height, size)?;
        let header = self.header.encode();
        let mut payload = Vec::with_capacity(size);
        payload.extend_from_slice(&header);
        for part in parts {
            put_prefixed(&mut payload, part)?;
        }
        Ok(EncodedBlock {
            height: self.header.height,
            hash: hash_of_encoded(&header),
            previous_hash: self.header.previous_hash,
            ledger_id: self.header.ledger_id,
            payload: payload.into(),
        })
    }

    /// Strict: what this accepts encodes to the same bytes again. Roots are not recomputed; that is
    /// [`crate::chain::ChainVerifier`]'s work.
    pub fn decode(payload: &Bytes) -> Result<Block> {
        let mut cursor = Cursor::new("block", payload);
        let header = BlockHeader::decode(cursor.take(HEADER_BYTES)?)?;
        check_size(header.height, payload.len())?;
        let count = header.transaction_count as usize;
        if cursor.remaining() / 8 < count {
            return Err(cursor.invalid(format!(
                "{count} transactions and outcomes do not fit {} bytes",
                cursor.remaining()
            )));
        }
        let mut slices = |n: usize| -> Result<Vec<Bytes>> {
            let mut parts = Vec::with_capacity(n);
            for _ in 0..n {
                parts.push(payload.slice(cursor.prefixed_range()?));
            }
            Ok(parts)
        };
        let transactions = slices(count)?;
        let outcomes = slices(count)?;
        cursor.finish()?;
        Ok(Block { header, transactions, outcomes })
    }
}

/// The canonical bytes of a block, with what the log needs to know of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedBlock {
    height: Height,
    hash: Hash,
    previous_hash: Hash,
    ledger_id: LedgerId,
    payload: Bytes,
}

impl EncodedBlock {
    /// Takes bytes that came from elsewhere. Reads the header only; [`EncodedBlock::decode`] checks
    /// the rest.
    pub fn from_payload(payload: Bytes) -> Result<Self> {
        let mut cursor = Cursor::new("block", &payload);
        let encoded: [u8; HEADER_BYTES] = cursor.array()?;
        let header = BlockHeader::decode(&encoded)?;
        check_size(header.height, payload.len())?;
        Ok(EncodedBlock {
            height: header.height,
            hash: hash_of_encoded(&encoded),
            previous_hash: header.previous_hash,
            ledger_id: header.ledger_id,
            payload,
        })
    }

    pub fn decode(&self) -> Result<Block> {
        Block::decode(&self.payload)
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// The block hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    pub fn previous_hash(&self) -> Hash {
        self.previous_hash
    }

    pub fn ledger_id(&self) -> LedgerId {
        self.ledger_id
    }

    pub fn payload(&self) -> &Bytes {
        &self.payload
    }
}

fn check_size(height: Height, size: usize) -> Result<()> {
    if size > BLOCK_BYTES_MAX { Err(too_large(height, size)) } else { Ok(()) }
}

fn too_large(height: Height, size: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "block is too large")
        .with_detail(format!("Block {height} has a size of {size}."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(transactions: Vec<Vec<u8>>, outcomes: Vec<Vec<u8>>) -> Result<Block> {
        let seal = BlockSeal {
            ledger_id: [1; 16],
            height: 9,
            previous_hash: [2; 32],
            time_us: -5,
            snapshot_height: 8,
            parameters_hash: [3; 32],
            effects_root: [4; 32],
        };
        let bytes = |parts: Vec<Vec<u8>>| parts.into_iter().map(Bytes::from).collect();
        Block::seal(seal, bytes(transactions), bytes(outcomes))
    }

    #[test]
    fn outcomes_must_match_transactions() {
        assert!(sealed(vec![vec![1]], vec![]).is_err());
    }

    #[test]
    fn decoding_shares_the_buffer() {
        let payload = sealed(vec![vec![7; 100]], vec![vec![8]]).unwrap().encode().unwrap().payload;
        let block = Block::decode(&payload).unwrap();
        assert!(payload.as_ptr_range().contains(&block.transactions[0].as_ptr()));
    }

    #[test]
    fn a_huge_count_costs_nothing() {
        let block = sealed(vec![], vec![]).unwrap();
        let mut bytes = block.encode().unwrap().payload.to_vec();
        bytes[106..110].fill(0xff);
        assert!(Block::decode(&bytes.into()).is_err());
    }

    proptest! {
        #[test]
        fn round_trip_and_every_cut(
            pairs in prop::collection::vec((any::<[u8; 3]>(), any::<[u8; 2]>()), 0..6),
        ) {
            let (transactions, outcomes) =
                pairs.iter().map(|(t, o)| (t.to_vec(), o.to_vec())).unzip();
            let block = sealed(transactions, outcomes).unwrap();
            let encoded = block.encode().unwrap();
            prop_assert_eq!(&Block::decode(&encoded.payload).unwrap(), &block);
            let again = EncodedBlock::from_payload(encoded.payload.clone()).unwrap();
            prop_assert_eq!(&again, &encoded);
            for cut in 0..encoded.payload.len() {
                prop_assert!(Block::decode(&encoded.payload.slice(..cut)).is_err());
            }
        }

        /// Whatever is accepted is canonical.
        #[test]
        fn hostile_bodies(
            count in 0u32..4,
            body in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..80),
        ) {
            let mut bytes = sealed(vec![], vec![]).unwrap().encode().unwrap().payload.to_vec();
            bytes[106..110].copy_from_slice(&count.to_be_bytes());
            bytes.extend(body);
            if let Ok(block) = Block::decode(&Bytes::from(bytes.clone())) {
                prop_assert_eq!(block.encode().unwrap().payload, bytes);
            }
        }
    }
}
