//! Small chains for tests.

use bytes::Bytes;

use crate::block::{Block, BlockSeal, EncodedBlock};
use crate::effects::{Effect, effects_root, row_image_hash};
use crate::genesis::Genesis;
use crate::parameters::Parameters;

/// Genesis and `blocks` more, each with `transactions` distinct transactions.
pub fn chain(blocks: u64, transactions: u64) -> Vec<Block> {
    let mut parameters = Parameters::new("serial");
    parameters.others.insert("block_transactions_max".to_owned(), "1000".to_owned());
    let genesis = Genesis { ledger_id: *b"test ledger 0001", time_us: 1_000, parameters };
    let mut chain = vec![genesis.to_block().unwrap()];
    for height in 1..=blocks {
        let previous = &chain.last().unwrap().header;
        let key = height.to_be_bytes();
        let effect = Effect {
            table: types::TableId(1),
            key: &key,
            before: None,
            after: Some(row_image_hash(&key)),
            previous_height: 0,
        };
        let seal = BlockSeal {
            ledger_id: previous.ledger_id,
            height,
            previous_hash: previous.hash(),
            time_us: previous.time_us + 10,
            snapshot_height: height - 1,
            parameters_hash: previous.parameters_hash,
            effects_root: effects_root([effect]).unwrap(),
        };
        let parts = |what: &str| -> Vec<Bytes> {
            (0..transactions).map(|i| format!("{what} {height}.{i}").into()).collect()
        };
        chain.push(Block::seal(seal, parts("transaction"), parts("outcome")).unwrap());
    }
    chain
}

pub fn encoded(chain: &[Block]) -> Vec<EncodedBlock> {
    chain.iter().map(|block| block.encode().unwrap()).collect()
}
