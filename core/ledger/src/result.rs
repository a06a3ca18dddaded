//! The result of a block: the result header and the outcomes that it commits to.
//!
//! ```text
//! bytes  field                        (numbers and lengths big-endian)
//!   250  result header                holds the numbers n and c
//!        n times: 4 + length          the outcome of an envelope of this block, in their order
//!        c times: 8                   height of the block in which an earlier envelope was ordered
//!                 4                   its index there
//!                 4 + length          its outcome
//! ```
//!
//! Nothing follows. A transaction that is deferred gets an outcome that says so in its own block,
//! and the one that decides about it among the *carried* ones of a later block. Carried outcomes
//! ascend by (height, index), so none is there twice.
//!
//! The leaves under `outcomes_root` are the n outcomes, then of each carried one its
//! height ‖ index ‖ outcome. How many of each there are is in the header, so that neither can pass
//! for the other. Outcomes are opaque here, and borrow from one buffer, as envelopes do.

use bytes::Bytes;
use types::{Error, Height, Result, SqlState};

use crate::effects::EffectsDigest;
use crate::hash::{Hash, TAG_RESULT};
use crate::header::{HEADER_VERSION, LedgerId, RESULT_HEADER_BYTES, ResultHeader, hash_of_encoded};
use crate::merkle::MerkleBuilder;
use crate::record::{Record, check_size, too_large};
use crate::stream::Stream;
use crate::wire::{Cursor, put_prefixed};

/// What an outcome, and a carried one, takes at least.
const OUTCOME_BYTES_MIN: usize = 4;
const CARRIED_BYTES_MIN: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockResult {
    header: ResultHeader,
    encoded: [u8; RESULT_HEADER_BYTES],
    hash: Hash,
    outcomes: Vec<Bytes>,
    carried: Vec<CarriedOutcome>,
}

/// What became of a transaction that an earlier block deferred.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CarriedOutcome {
    /// Where its envelope was ordered: the block, and the index in that.
    pub height: Height,
    pub index: u32,
    pub outcome: Bytes,
}

impl CarriedOutcome {
    /// The bytes of its Merkle leaf.
    pub fn leaf(&self) -> Vec<u8> {
        let mut leaf = Vec::with_capacity(12 + self.outcome.len());
        leaf.extend_from_slice(&self.height.to_be_bytes());
        leaf.extend_from_slice(&self.index.to_be_bytes());
        leaf.extend_from_slice(&self.outcome);
        leaf
    }
}

/// What an execution says of a block; the rest of the header follows from the outcomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultSeal {
    pub ledger_id: LedgerId,
    pub height: Height,
    pub previous_result_hash: Hash,
    pub order_hash: Hash,
    pub snapshot_height: Height,
    /// Version of the semantics, from 1.
    pub executor: u32,
    pub effects: EffectsDigest,
    pub reorderings: u32,
    /// Of what the block hands on to the next ones; zeros: nothing.
    pub carried_root: Hash,
    /// Of all rows after the block; zeros where the ledger names none.
    pub state_root: Hash,
}

impl BlockResult {
    /// Computes the root and closes the header.
    pub fn seal(
        seal: ResultSeal,
        outcomes: Vec<Bytes>,
        carried: Vec<CarriedOutcome>,
    ) -> Result<BlockResult> {
        if !ascends(&carried, seal.height) {
            let what = "carried outcomes must ascend by their origins, in earlier blocks";
            return Err(Error::new(SqlState::INTERNAL_ERROR, what));
        }
        let count = |n: usize| u32::try_from(n).map_err(|_| too_large(seal.height, n));
        let header = ResultHeader {
            version: HEADER_VERSION,
            ledger_id: seal.ledger_id,
            height: seal.height,
            previous_result_hash: seal.previous_result_hash,
            order_hash: seal.order_hash,
            snapshot_height: seal.snapshot_height,
            executor: seal.executor,
            outcome_count: count(outcomes.len())?,
            carried_count: count(carried.len())?,
            outcomes_root: outcomes_root(&outcomes, &carried),
            effect_count: seal.effects.count,
            effects_root: seal.effects.root,
            reorderings: seal.reorderings,
            carried_root: seal.carried_root,
            state_root: seal.state_root,
        };
        Ok(BlockResult::unchecked(header, outcomes, carried))
    }

    /// A header with outcomes that it may or may not commit to, as bytes from elsewhere are.
    pub fn unchecked(
        header: ResultHeader,
        outcomes: Vec<Bytes>,
        carried: Vec<CarriedOutcome>,
    ) -> BlockResult {
        let encoded = header.encode();
        let hash = hash_of_encoded(TAG_RESULT, &encoded);
        BlockResult { header, encoded, hash, outcomes, carried }
    }

    pub fn header(&self) -> &ResultHeader {
        &self.header
    }

    /// What happened to each envelope of the block, in their order.
    pub fn outcomes(&self) -> &[Bytes] {
        &self.outcomes
    }

    pub fn carried(&self) -> &[CarriedOutcome] {
        &self.carried
    }

    pub fn height(&self) -> Height {
        self.header.height
    }

    /// The result hash, the head of the ledger after this block.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    pub fn encode(&self) -> Result<Record> {
        let own = self.outcomes.iter().map(|outcome| OUTCOME_BYTES_MIN + outcome.len());
        let carried = self.carried.iter().map(|carried| CARRIED_BYTES_MIN + carried.outcome.len());
        let size = RESULT_HEADER_BYTES + own.chain(carried).sum::<usize>();
        check_size(self.header.height, size)?;
        let mut payload = Vec::with_capacity(size);
        payload.extend_from_slice(&self.encoded);
        for outcome in &self.outcomes {
            put_prefixed(&mut payload, outcome)?;
        }
        for CarriedOutcome { height, index, outcome } in &self.carried {
            payload.extend_from_slice(&height.to_be_bytes());
            payload.extend_from_slice(&index.to_be_bytes());
            put_prefixed(&mut payload, outcome)?;
        }
        debug_assert_eq!(payload.len(), size, "what was checked against the bound");
        Ok(Record {
            stream: Stream::Results,
            height: self.header.height,
            hash: self.hash,
            previous_hash: self.header.previous_result_hash,
            order_hash: self.header.order_hash,
            ledger_id: self.header.ledger_id,
            payload: payload.into(),
        })
    }

    /// Strict: what this accepts encodes to the same bytes again. The root is not recomputed.
    pub fn decode(payload: &Bytes) -> Result<BlockResult> {
        let parts = Parts::decode(payload)?;
        let hash = hash_of_encoded(TAG_RESULT, &parts.encoded);
        Ok(parts.with_hash(hash))
    }

    /// [`BlockResult::decode`] of a record, which has the hash already.
    pub fn of(record: &Record) -> Result<BlockResult> {
        record.expect(Stream::Results)?;
        Ok(Parts::decode(&record.payload)?.with_hash(record.hash))
    }
}

/// The Merkle root over outcomes, then over carried ones.
pub fn outcomes_root(outcomes: &[Bytes], carried: &[CarriedOutcome]) -> Hash {
    let mut tree = MerkleBuilder::new();
    outcomes.iter().for_each(|outcome| tree.push(outcome));
    carried.iter().for_each(|carried| tree.push(&carried.leaf()));
    tree.root()
}

/// Whether carried outcomes are those of transactions of blocks below `height`, none of them twice.
fn ascends(carried: &[CarriedOutcome], height: Height) -> bool {
    let place = |carried: &CarriedOutcome| (carried.height, carried.index);
    carried.is_sorted_by(|one, other| place(one) < place(other))
        && carried.last().is_none_or(|last| last.height < height)
}

struct Parts {
    header: ResultHeader,
    encoded: [u8; RESULT_HEADER_BYTES],
    outcomes: Vec<Bytes>,
    carried: Vec<CarriedOutcome>,
}

impl Parts {
    fn decode(payload: &Bytes) -> Result<Parts> {
        let mut cursor = Cursor::new("block result", payload);
        let encoded = cursor.array()?;
        let header = ResultHeader::decode(&encoded)?;
        check_size(header.height, payload.len())?;
        let count = cursor.fits(header.outcome_count, OUTCOME_BYTES_MIN)?;
        let outcomes = (0..count).map(|_| Ok(payload.slice(cursor.prefixed_range()?)));
        let outcomes = outcomes.collect::<Result<Vec<Bytes>>>()?;
        let count = cursor.fits(header.carried_count, CARRIED_BYTES_MIN)?;
        let mut carried = Vec::with_capacity(count);
        for _ in 0..count {
            let (height, index) = (cursor.u64()?, cursor.u32()?);
            let outcome = payload.slice(cursor.prefixed_range()?);
            carried.push(CarriedOutcome { height, index, outcome });
        }
        if !ascends(&carried, header.height) {
            return Err(cursor.invalid("carried outcomes do not ascend by their origins"));
        }
        cursor.finish()?;
        Ok(Parts { header, encoded, outcomes, carried })
    }

    fn with_hash(self, hash: Hash) -> BlockResult {
        let Parts { header, encoded, outcomes, carried } = self;
        BlockResult { header, encoded, hash, outcomes, carried }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn carried(height: Height, index: u32, outcome: &'static [u8]) -> CarriedOutcome {
        CarriedOutcome { height, index, outcome: Bytes::from_static(outcome) }
    }

    fn sealed(outcomes: Vec<Vec<u8>>, carried: Vec<CarriedOutcome>) -> Result<BlockResult> {
        let seal = ResultSeal {
            ledger_id: [1; 16],
            height: 9,
            previous_result_hash: [2; 32],
            order_hash: [3; 32],
            snapshot_height: 8,
            executor: 1,
            effects: EffectsDigest { count: 7, root: [4; 32] },
            reorderings: 2,
            carried_root: [5; 32],
            state_root: [6; 32],
        };
        BlockResult::seal(seal, outcomes.into_iter().map(Bytes::from).collect(), carried)
    }

    #[test]
    fn carried_outcomes_ascend_and_come_from_earlier_blocks() {
        let (one, other) = (carried(7, 5, b"a"), carried(8, 0, b"b"));
        assert!(sealed(vec![], vec![one.clone(), other.clone()]).is_ok());
        assert!(sealed(vec![], vec![other.clone(), one.clone()]).is_err());
        assert!(sealed(vec![], vec![one.clone(), one.clone()]).is_err());
        assert!(sealed(vec![], vec![carried(9, 0, b"own")]).is_err());
        let swapped = sealed(vec![], vec![one.clone(), other.clone()]).unwrap();
        let swapped = BlockResult::unchecked(swapped.header, vec![], vec![other, one]);
        assert!(BlockResult::decode(&swapped.encode().unwrap().payload).is_err());
    }

    #[test]
    fn an_outcome_and_a_carried_one_of_the_same_bytes_are_told_apart() {
        let late = carried(7, 5, b"a");
        let own = sealed(vec![late.leaf()], vec![]).unwrap();
        let carried = sealed(vec![], vec![late]).unwrap();
        assert_eq!(own.header.outcomes_root, carried.header.outcomes_root);
        assert_ne!(own.hash(), carried.hash());
    }

    #[test]
    fn huge_counts_cost_nothing() {
        let bytes = sealed(vec![], vec![]).unwrap().encode().unwrap().payload.to_vec();
        for count in [102, 106] {
            let mut bytes = bytes.clone();
            bytes[count..count + 4].fill(0xff);
            assert!(BlockResult::decode(&bytes.into()).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trip_and_every_cut(
            outcomes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..5),
            places in prop::collection::btree_set((0u64..9, 0u32..3), 0..4),
        ) {
            let late = places.iter().map(|(height, index)| carried(*height, *index, b"late"));
            let result = sealed(outcomes, late.collect()).unwrap();
            let record = result.encode().unwrap();
            prop_assert_eq!(record.hash, result.header.hash());
            prop_assert_eq!(&BlockResult::decode(&record.payload).unwrap(), &result);
            prop_assert_eq!(&BlockResult::of(&record).unwrap(), &result);
            let again = Record::from_payload(Stream::Results, record.payload.clone()).unwrap();
            prop_assert_eq!(&again, &record);
            for cut in 0..record.payload.len() {
                prop_assert!(BlockResult::decode(&record.payload.slice(..cut)).is_err());
            }
        }

        /// Whatever is accepted is canonical.
        #[test]
        fn hostile_bodies(
            counts in (0u32..4, 0u32..3),
            body in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..80),
        ) {
            let mut bytes = sealed(vec![], vec![]).unwrap().encode().unwrap().payload.to_vec();
            bytes[102..106].copy_from_slice(&counts.0.to_be_bytes());
            bytes[106..110].copy_from_slice(&counts.1.to_be_bytes());
            bytes.extend(body);
            if let Ok(result) = BlockResult::decode(&Bytes::from(bytes.clone())) {
                prop_assert_eq!(result.encode().unwrap().payload, bytes);
            }
        }
    }
}
