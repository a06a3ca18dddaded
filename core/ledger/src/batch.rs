//! A batch: the order header and the envelopes that it commits to. It exists before anything runs.
//!
//! ```text
//! bytes  field                        (lengths: u32, big-endian)
//!   174  order header                 holds the number n of envelopes
//!        n times: 4 + length          an envelope
//! ```
//!
//! Nothing follows the last envelope. One batch has exactly one encoding, so its bytes can be
//! compared, and decoding accepts no other.
//!
//! Envelopes are opaque here. A decoded batch borrows them from the one buffer that it was read
//! into: [`Bytes`] slices share it, nothing is copied per envelope. Hostile bytes cannot make
//! decoding allocate more than a small multiple of their own size, as each envelope takes at least
//! its length field.
//!
//! **Cost.** The header is encoded and hashed once, when it is made or read; a batch keeps both.

use bytes::Bytes;
use types::{Height, Result};

use crate::hash::{Hash, TAG_ORDER};
use crate::header::{HEADER_VERSION, LedgerId, ORDER_HEADER_BYTES, OrderHeader, hash_of_encoded};
use crate::merkle;
use crate::record::{Record, check_size, too_large};
use crate::stream::Stream;
use crate::wire::{Cursor, put_prefixed};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    header: OrderHeader,
    encoded: [u8; ORDER_HEADER_BYTES],
    hash: Hash,
    envelopes: Vec<Bytes>,
}

/// What an orderer decides about a block; the rest of the header follows from the envelopes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderSeal {
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_order_hash: Hash,
    pub time_us: i64,
    /// Zeros where a ledger has one node.
    pub proposer: Hash,
    pub parameters_hash: Hash,
    /// Zero where blocks read the newest snapshot anyway.
    pub seen_height: Height,
}

impl OrderSeal {
    fn header(self, envelope_count: u32, envelopes_root: Hash) -> OrderHeader {
        OrderHeader {
            version: HEADER_VERSION,
            ledger_id: self.ledger_id,
            height: self.height,
            previous_order_hash: self.previous_order_hash,
            time_us: self.time_us,
            proposer: self.proposer,
            parameters_hash: self.parameters_hash,
            seen_height: self.seen_height,
            envelope_count,
            envelopes_root,
        }
    }
}

impl Batch {
    /// Computes the root and closes the header.
    pub fn seal(seal: OrderSeal, envelopes: Vec<Bytes>) -> Result<Batch> {
        let envelope_count =
            u32::try_from(envelopes.len()).map_err(|_| too_large(seal.height, envelopes.len()))?;
        let header = seal.header(envelope_count, merkle::root(&envelopes));
        Ok(Batch::unchecked(header, envelopes))
    }

    /// What [`Batch::seal`] gives for envelopes of which the header was made before, by this
    /// process: they are not hashed again. `Err`: it is the header of another batch.
    pub fn sealed_as(
        header: &OrderHeader,
        seal: OrderSeal,
        envelopes: Vec<Bytes>,
    ) -> Result<Batch, Vec<Bytes>> {
        let is_it = header.envelope_count as usize == envelopes.len()
            && seal.header(header.envelope_count, header.envelopes_root) == *header;
        debug_assert!(!is_it || merkle::root(&envelopes) == header.envelopes_root);
        match is_it {
            true => Ok(Batch::unchecked(header.clone(), envelopes)),
            false => Err(envelopes),
        }
    }

    /// A header with envelopes that it may or may not commit to, as bytes from elsewhere are: that
    /// is [`crate::chain::ChainVerifier`]'s to find out.
    pub fn unchecked(header: OrderHeader, envelopes: Vec<Bytes>) -> Batch {
        let encoded = header.encode();
        let hash = hash_of_encoded(TAG_ORDER, &encoded);
        Batch { header, encoded, hash, envelopes }
    }

    pub fn header(&self) -> &OrderHeader {
        &self.header
    }

    pub fn envelopes(&self) -> &[Bytes] {
        &self.envelopes
    }

    pub fn height(&self) -> Height {
        self.header.height
    }

    /// The order hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    pub fn encode(&self) -> Result<Record> {
        let bodies = self.envelopes.iter().map(|envelope| 4 + envelope.len());
        let size = ORDER_HEADER_BYTES + bodies.sum::<usize>();
        check_size(self.header.height, size)?;
        let mut payload = Vec::with_capacity(size);
        payload.extend_from_slice(&self.encoded);
        for envelope in &self.envelopes {
            put_prefixed(&mut payload, envelope)?;
        }
        debug_assert_eq!(payload.len(), size, "what was checked against the bound");
        Ok(Record {
            stream: Stream::Orders,
            height: self.header.height,
            hash: self.hash,
            previous_hash: self.header.previous_order_hash,
            order_hash: self.hash,
            ledger_id: self.header.ledger_id,
            payload: payload.into(),
        })
    }

    /// Strict: what this accepts encodes to the same bytes again. The root is not recomputed.
    pub fn decode(payload: &Bytes) -> Result<Batch> {
        let (header, encoded, envelopes) = parts(payload)?;
        let hash = hash_of_encoded(TAG_ORDER, &encoded);
        Ok(Batch { header, encoded, hash, envelopes })
    }

    /// [`Batch::decode`] of a record, which has the hash already.
    pub fn of(record: &Record) -> Result<Batch> {
        record.expect(Stream::Orders)?;
        let (header, encoded, envelopes) = parts(&record.payload)?;
        Ok(Batch { header, encoded, hash: record.hash, envelopes })
    }
}

fn parts(payload: &Bytes) -> Result<(OrderHeader, [u8; ORDER_HEADER_BYTES], Vec<Bytes>)> {
    let mut cursor = Cursor::new("batch", payload);
    let encoded = cursor.array()?;
    let header = OrderHeader::decode(&encoded)?;
    check_size(header.height, payload.len())?;
    let count = cursor.fits(header.envelope_count, 4)?;
    let envelopes = (0..count).map(|_| Ok(payload.slice(cursor.prefixed_range()?)));
    let envelopes = envelopes.collect::<Result<Vec<Bytes>>>()?;
    cursor.finish()?;
    Ok((header, encoded, envelopes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEAL: OrderSeal = OrderSeal {
        ledger_id: [1; 16],
        height: 9,
        previous_order_hash: [2; 32],
        time_us: -5,
        proposer: [3; 32],
        parameters_hash: [4; 32],
        seen_height: 8,
    };

    fn sealed(envelopes: Vec<Vec<u8>>) -> Batch {
        Batch::seal(SEAL, envelopes.into_iter().map(Bytes::from).collect()).unwrap()
    }

    #[test]
    fn a_batch_is_taken_as_it_was_sealed_and_no_other_is() {
        let batch = sealed(vec![vec![1], vec![2]]);
        let taken = |seal, envelopes| Batch::sealed_as(batch.header(), seal, envelopes).ok();
        let all = batch.envelopes().to_vec();
        assert_eq!(taken(SEAL, all.clone()).as_ref(), Some(&batch));
        assert_eq!(taken(SEAL, all[..1].to_vec()), None);
        for other in [
            OrderSeal { time_us: -4, ..SEAL },
            OrderSeal { parameters_hash: [9; 32], ..SEAL },
            OrderSeal { previous_order_hash: [9; 32], ..SEAL },
            OrderSeal { seen_height: 7, ..SEAL },
        ] {
            assert_eq!(taken(other, all.clone()), None);
        }
    }

    #[test]
    fn decoding_shares_the_buffer() {
        let payload = sealed(vec![vec![7; 100]]).encode().unwrap().payload;
        let batch = Batch::decode(&payload).unwrap();
        assert!(payload.as_ptr_range().contains(&batch.envelopes[0].as_ptr()));
    }

    #[test]
    fn a_huge_count_costs_nothing() {
        let mut bytes = sealed(vec![]).encode().unwrap().payload.to_vec();
        bytes[138..142].fill(0xff);
        assert!(Batch::decode(&bytes.into()).is_err());
    }

    proptest! {
        #[test]
        fn round_trip_and_every_cut(
            envelopes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..6),
        ) {
            let batch = sealed(envelopes);
            let record = batch.encode().unwrap();
            prop_assert_eq!(record.hash, batch.header.hash());
            prop_assert_eq!(&Batch::decode(&record.payload).unwrap(), &batch);
            prop_assert_eq!(&Batch::of(&record).unwrap(), &batch);
            let again = Record::from_payload(Stream::Orders, record.payload.clone()).unwrap();
            prop_assert_eq!(&again, &record);
            for cut in 0..record.payload.len() {
                prop_assert!(Batch::decode(&record.payload.slice(..cut)).is_err());
            }
        }

        /// Whatever is accepted is canonical.
        #[test]
        fn hostile_bodies(
            count in 0u32..4,
            body in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..80),
        ) {
            let mut bytes = sealed(vec![]).encode().unwrap().payload.to_vec();
            bytes[138..142].copy_from_slice(&count.to_be_bytes());
            bytes.extend(body);
            if let Ok(batch) = Batch::decode(&Bytes::from(bytes.clone())) {
                prop_assert_eq!(batch.encode().unwrap().payload, bytes);
            }
        }
    }
}
