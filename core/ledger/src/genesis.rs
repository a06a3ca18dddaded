//! Block 0: which ledger this is, when it was created, under which parameters.
//!
//! Its batch has one envelope, `"tally genesis v2"` ‖ canonical parameters; its result one empty
//! outcome and no effects. Both previous hashes are zero, so is the proposer, and the time is that
//! of creation. The ledger id stands in its headers, as in all others.

use bytes::Bytes;
use types::{Error, Result, SqlState};

use crate::batch::{Batch, OrderSeal};
use crate::block::Block;
use crate::effects::EffectsBuilder;
use crate::hash::{TAG_GENESIS, ZERO_HASH};
use crate::header::{LedgerId, ORDER_HEADER_BYTES, OrderHeader};
use crate::parameters::Parameters;
use crate::result::{BlockResult, ResultSeal};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Genesis {
    pub ledger_id: LedgerId,
    pub time_us: i64,
    pub parameters: Parameters,
    /// Version of the semantics that blocks are executed by, from 1.
    pub executor: u32,
}

impl Genesis {
    pub fn to_batch(&self) -> Result<Batch> {
        let mut envelope = TAG_GENESIS.to_vec();
        envelope.extend(self.parameters.encode()?);
        let seal = OrderSeal {
            ledger_id: self.ledger_id,
            height: 0,
            previous_order_hash: ZERO_HASH,
            time_us: self.time_us,
            proposer: ZERO_HASH,
            parameters_hash: self.parameters.hash()?,
            seen_height: 0,
        };
        Batch::seal(seal, vec![envelope.into()])
    }

    pub fn to_block(&self) -> Result<Block> {
        let batch = self.to_batch()?;
        let seal = ResultSeal {
            ledger_id: self.ledger_id,
            height: 0,
            previous_result_hash: ZERO_HASH,
            order_hash: batch.hash(),
            snapshot_height: 0,
            executor: self.executor,
            effects: EffectsBuilder::new().digest(),
            reorderings: 0,
            carried_root: ZERO_HASH,
            state_root: ZERO_HASH,
        };
        let result = BlockResult::seal(seal, vec![Bytes::new()], Vec::new())?;
        Ok(Block { batch, result })
    }

    /// Reads a first block's order header ‖ envelope and refuses what [`Genesis::to_batch`] would
    /// not have made. An order header does not say by which executor its result was made: 1 is
    /// assumed.
    pub fn of_first_block(bytes: &[u8]) -> Result<Genesis> {
        let header = bytes.split_at_checked(ORDER_HEADER_BYTES);
        let (header, envelope) = header.ok_or_else(|| invalid("It is cut short."))?;
        let header = OrderHeader::decode(header)?;
        let batch = Batch::unchecked(header, vec![Bytes::copy_from_slice(envelope)]);
        Genesis::from_batch(&batch, 1)
    }

    /// Reads a genesis batch and refuses one that [`Genesis::to_batch`] would not have made. The
    /// result of it is that of `executor`.
    pub fn from_batch(batch: &Batch, executor: u32) -> Result<Genesis> {
        let [envelope] = batch.envelopes() else {
            return Err(invalid("It needs exactly one envelope."));
        };
        let Some(parameters) = envelope.strip_prefix(TAG_GENESIS) else {
            return Err(invalid("Its envelope is not a genesis envelope."));
        };
        let genesis = Genesis {
            ledger_id: batch.header().ledger_id,
            time_us: batch.header().time_us,
            parameters: Parameters::decode(parameters)?,
            executor,
        };
        if executor == 0 {
            return Err(invalid("Its executor is 0."));
        }
        if genesis.to_batch()? != *batch {
            return Err(invalid("Its order header is not the one of its parameters."));
        }
        Ok(genesis)
    }

    /// Reads a genesis block and refuses one that [`Genesis::to_block`] would not have made.
    pub fn from_block(block: &Block) -> Result<Genesis> {
        let genesis = Genesis::from_batch(&block.batch, block.result.header().executor)?;
        if genesis.to_block()? != *block {
            return Err(invalid("Its result is not the one of its parameters."));
        }
        Ok(genesis)
    }
}

fn invalid(why: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "invalid genesis block").with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_round_trips_and_is_unique() {
        let parameters = Parameters::new("serial");
        let genesis = Genesis { ledger_id: [9; 16], time_us: 42, parameters, executor: 1 };
        let block = genesis.to_block().unwrap();
        assert_eq!(Genesis::from_block(&block).unwrap(), genesis);
        assert_eq!(Genesis::from_batch(&block.batch, 1).unwrap(), genesis);

        let mut header = block.batch.header().clone();
        header.proposer = [1; 32];
        let batch = Batch::unchecked(header, block.batch.envelopes().to_vec());
        assert!(Genesis::from_batch(&batch, 1).is_err());
        let with_result = |result: BlockResult| {
            let block = Block { batch: block.batch.clone(), result };
            Genesis::from_block(&block)
        };
        let mut header = block.result.header().clone();
        let other = Bytes::from_static(b"?");
        assert!(with_result(BlockResult::unchecked(header.clone(), vec![other], vec![])).is_err());
        header.executor = 0;
        assert!(with_result(BlockResult::unchecked(header, vec![Bytes::new()], vec![])).is_err());
    }
}
