//! Block 0: which ledger this is, when it was created, under which parameters.
//!
//! Genesis has one transaction, `"tally genesis v1"` ‖ canonical parameters, with an empty outcome
//! and no effects. Its previous hash is zero and its time is the time of creation. The ledger id
//! stands in its header, as in every other.

use bytes::Bytes;
use types::{Error, Result, SqlState};

use crate::block::{Block, BlockSeal};
use crate::effects::effects_root;
use crate::hash::{TAG_GENESIS, ZERO_HASH};
use crate::header::LedgerId;
use crate::parameters::Parameters;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Genesis {
    pub ledger_id: LedgerId,
    pub time_us: i64,
    pub parameters: Parameters,
}

impl Genesis {
    pub fn to_block(&self) -> Result<Block> {
        let mut transaction = TAG_GENESIS.to_vec();
        transaction.extend(self.parameters.encode()?);
        let seal = BlockSeal {
            ledger_id: self.ledger_id,
            height: 0,
            previous_hash: ZERO_HASH,
            time_us: self.time_us,
            snapshot_height: 0,
            parameters_hash: self.parameters.hash()?,
            effects_root: effects_root([])?,
        };
        Block::seal(seal, vec![transaction.into()], vec![Bytes::new()])
    }

    /// Reads a genesis block and refuses one that [`Genesis::to_block`] would not have made.
    pub fn from_block(block: &Block) -> Result<Self> {
        let invalid = |why: &str| {
            Error::new(SqlState::DATA_CORRUPTED, "invalid genesis block").with_detail(why)
        };
        let [transaction] = block.transactions.as_slice() else {
            return Err(invalid("It needs exactly one transaction."));
        };
        let Some(parameters) = transaction.strip_prefix(TAG_GENESIS) else {
            return Err(invalid("Its transaction is not a genesis transaction."));
        };
        let genesis = Genesis {
            ledger_id: block.header.ledger_id,
            time_us: block.header.time_us,
            parameters: Parameters::decode(parameters)?,
        };
        if genesis.to_block()? != *block {
            return Err(invalid("Its header or outcome is not the one of its parameters."));
        }
        Ok(genesis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_round_trips_and_is_unique() {
        let genesis =
            Genesis { ledger_id: [9; 16], time_us: 42, parameters: Parameters::new("serial") };
        let block = genesis.to_block().unwrap();
        assert_eq!(Genesis::from_block(&block).unwrap(), genesis);

        let mut other = block.clone();
        other.header.effects_root = [1; 32];
        assert!(Genesis::from_block(&other).is_err());
        let mut other = block;
        other.outcomes[0] = Bytes::from_static(b"?");
        assert!(Genesis::from_block(&other).is_err());
    }
}
