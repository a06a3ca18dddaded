//! The block header: everything that a block commits to, in 238 bytes.
//!
//! ```text
//! offset  bytes  field              (all numbers big-endian)
//!      0      2  version            1
//!      2     16  ledger_id          drawn once, when the ledger is created
//!     18      8  height             0 is genesis
//!     26     32  previous_hash      hash of the header before; zeros in genesis
//!     58      8  time_us            signed, microseconds since 2000-01-01 00:00 UTC
//!     66      8  snapshot_height    the block whose state the transactions read
//!     74     32  parameters_hash    of the protocol parameters in force for this block
//!    106      4  transaction_count
//!    110     32  transactions_root  Merkle root over the transactions' bytes
//!    142     32  outcomes_root      Merkle root over the outcomes' bytes
//!    174     32  effects_root       Merkle root over the net row changes
//!    206     32  state_root         reserved, zeros
//!    238
//! ```
//!
//! **Block hash** = SHA-256(`"tally block v1" 00 00` ‖ these 238 bytes). The body is not hashed
//! again: its roots are in the header, so whoever trusts one block hash trusts every byte of the
//! block and, by `previous_hash`, of all blocks before it.
//!
//! Invariants that a chain adds (see [`crate::chain`]): heights without gaps, time never runs back.

use types::{Height, Result};

use crate::hash::{Hash, TAG_BLOCK, ZERO_HASH, tagged_hash};
use crate::wire::Cursor;

pub const HEADER_VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 238;

/// Which ledger a block, a segment file or a receipt belongs to.
pub type LedgerId = [u8; 16];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    pub version: u16,
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_hash: Hash,
    pub time_us: i64,
    pub snapshot_height: Height,
    pub parameters_hash: Hash,
    pub transaction_count: u32,
    pub transactions_root: Hash,
    pub outcomes_root: Hash,
    pub effects_root: Hash,
    pub state_root: Hash,
}

impl BlockHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(field.len());
            head.copy_from_slice(field);
            rest = tail;
        };
        put(&self.version.to_be_bytes());
        put(&self.ledger_id);
        put(&self.height.to_be_bytes());
        put(&self.previous_hash);
        put(&self.time_us.to_be_bytes());
        put(&self.snapshot_height.to_be_bytes());
        put(&self.parameters_hash);
        put(&self.transaction_count.to_be_bytes());
        put(&self.transactions_root);
        put(&self.outcomes_root);
        put(&self.effects_root);
        put(&self.state_root);
        debug_assert!(rest.is_empty());
        bytes
    }

    /// Reads exactly one header. A version or a state root of a later format is an error: nobody
    /// may vouch for fields that they do not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new("block header", bytes);
        let header = BlockHeader {
            version: cursor.u16()?,
            ledger_id: cursor.array()?,
            height: cursor.u64()?,
            previous_hash: cursor.array()?,
            time_us: cursor.i64()?,
            snapshot_height: cursor.u64()?,
            parameters_hash: cursor.array()?,
            transaction_count: cursor.u32()?,
            transactions_root: cursor.array()?,
            outcomes_root: cursor.array()?,
            effects_root: cursor.array()?,
            state_root: cursor.array()?,
        };
        if header.version != HEADER_VERSION {
            return Err(cursor.invalid(format!("version {} is not known", header.version)));
        }
        if header.state_root != ZERO_HASH {
            return Err(cursor.invalid("the reserved state root is not zero"));
        }
        cursor.finish()?;
        Ok(header)
    }

    pub fn hash(&self) -> Hash {
        hash_of_encoded(&self.encode())
    }
}

/// The block hash of canonical header bytes.
pub fn hash_of_encoded(header: &[u8; HEADER_BYTES]) -> Hash {
    tagged_hash(TAG_BLOCK, header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_and_written() {
        let mut bytes = [0u8; HEADER_BYTES];
        bytes.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n as u8);
        bytes[..2].copy_from_slice(&HEADER_VERSION.to_be_bytes());
        bytes[206..].fill(0);
        let header = BlockHeader::decode(&bytes).unwrap();
        assert_eq!(header.encode(), bytes);
        assert_eq!(header.transaction_count, 0x6b6c_6d6e);
        for offset in 0..HEADER_BYTES {
            let mut changed = bytes;
            changed[offset] ^= 0x10;
            match BlockHeader::decode(&changed) {
                Ok(other) => assert_ne!(other.hash(), header.hash(), "offset {offset}"),
                Err(_) => assert!(!(2..206).contains(&offset)),
            }
        }
        assert!(BlockHeader::decode(&bytes[1..]).is_err());
    }
}
