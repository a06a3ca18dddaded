//! Small chains for tests.

use std::sync::Arc;

use bytes::Bytes;

use crate::batch::{Batch, OrderSeal};
use crate::block::Block;
use crate::effects::{Effect, effects_digest, row_image_hash};
use crate::genesis::Genesis;
use crate::hash::{Hash, ZERO_HASH};
use crate::header::{OrderHeader, ResultHeader};
use crate::log::{BlockReader, BlockWriter, LogError, LogOptions};
use crate::memory_files::MemoryFiles;
use crate::parameters::Parameters;
use crate::record::Record;
use crate::result::{BlockResult, CarriedOutcome, ResultSeal};
use crate::stream::Stream;

pub fn genesis() -> Genesis {
    let mut parameters = Parameters::new("serial");
    parameters.others.insert("block_transactions_max".to_owned(), "1000".to_owned());
    Genesis { ledger_id: *b"test ledger 0001", time_us: 1_000, parameters, executor: 1 }
}

/// Genesis and `blocks` more, each with `transactions` distinct transactions. From block 3 on each
/// also decides about a transaction that the one before deferred.
pub fn chain(blocks: u64, transactions: u64) -> Vec<Block> {
    chain_of(&genesis(), blocks, transactions)
}

pub fn chain_of(genesis: &Genesis, blocks: u64, transactions: u64) -> Vec<Block> {
    let mut chain = vec![genesis.to_block().unwrap()];
    for _ in 1..=blocks {
        chain.push(follow(&chain[chain.len() - 1], transactions));
    }
    chain
}

/// Goes on under other parameters.
pub fn chain_on(
    mut chain: Vec<Block>,
    parameters_hash: Hash,
    blocks: u64,
    transactions: u64,
) -> Vec<Block> {
    for _ in 0..blocks {
        let last = &chain[chain.len() - 1];
        chain.push(follow_under(last, parameters_hash, transactions));
    }
    chain
}

fn follow(previous: &Block, transactions: u64) -> Block {
    follow_under(previous, previous.batch.header().parameters_hash, transactions)
}

fn follow_under(previous: &Block, parameters_hash: Hash, transactions: u64) -> Block {
    let height = previous.height() + 1;
    let parts = |what: &str| -> Vec<Bytes> {
        (0..transactions).map(|i| format!("{what} {height}.{i}").into()).collect()
    };
    let before = previous.batch.header();
    let order = OrderSeal {
        ledger_id: before.ledger_id,
        height,
        previous_order_hash: previous.batch.hash(),
        time_us: before.time_us + 10,
        proposer: ZERO_HASH,
        parameters_hash,
        seen_height: previous.height(),
    };
    let batch = Batch::seal(order, parts("envelope")).unwrap();
    let key = height.to_be_bytes();
    let effect = Effect {
        table: types::TableId(1),
        key: &key,
        before: None,
        after: Some(row_image_hash(&key)),
        previous_height: 0,
    };
    let seal = ResultSeal {
        ledger_id: before.ledger_id,
        height,
        previous_result_hash: previous.hash(),
        order_hash: batch.hash(),
        snapshot_height: height - 1,
        executor: 1,
        effects: effects_digest([effect]).unwrap(),
        reorderings: 0,
        carried_root: ZERO_HASH,
        state_root: ZERO_HASH,
    };
    let late = |index| CarriedOutcome { height: height - 1, index, outcome: "late".into() };
    let carried = if height > 2 { vec![late(0)] } else { Vec::new() };
    let result = BlockResult::seal(seal, parts("outcome"), carried).unwrap();
    Block { batch, result }
}

pub fn changed_order(batch: &Batch, change: &dyn Fn(&mut OrderHeader, &mut Vec<Bytes>)) -> Batch {
    let (mut header, mut envelopes) = (batch.header().clone(), batch.envelopes().to_vec());
    change(&mut header, &mut envelopes);
    Batch::unchecked(header, envelopes)
}

pub fn changed_result(
    result: &BlockResult,
    change: &dyn Fn(&mut ResultHeader, &mut Vec<Bytes>),
) -> BlockResult {
    let (mut header, mut outcomes) = (result.header().clone(), result.outcomes().to_vec());
    change(&mut header, &mut outcomes);
    BlockResult::unchecked(header, outcomes, result.carried().to_vec())
}

pub fn orders(chain: &[Block]) -> Vec<Record> {
    chain.iter().map(|block| block.batch.encode().unwrap()).collect()
}

pub fn results(chain: &[Block]) -> Vec<Record> {
    chain.iter().map(|block| block.result.encode().unwrap()).collect()
}

pub fn records(stream: Stream, chain: &[Block]) -> Vec<Record> {
    match stream {
        Stream::Orders => orders(chain),
        Stream::Results => results(chain),
    }
}

/// A writer after all that a folder holds, torn tails cut.
pub fn writer(files: &MemoryFiles, options: LogOptions) -> std::io::Result<BlockWriter> {
    let reader = BlockReader::open(Arc::new(files.clone()));
    let mut reader = reader.map_err(std::io::Error::other)?;
    while let Ok(Some(_)) | Err(LogError::TornTail(_)) = reader.next() {}
    BlockWriter::resume(reader, options)
}

/// Appends those blocks that are not there yet, one by one, each with its result, which is synced.
pub fn append(files: &MemoryFiles, options: LogOptions, chain: &[Block]) {
    let mut writer = writer(files, options).unwrap();
    for block in chain {
        if block.height() >= writer.next_height() {
            writer.append_order(&[block.batch.encode().unwrap()]).unwrap();
        }
        if block.height() >= writer.next_result() {
            writer.append_results(&[block.result.encode().unwrap()]).unwrap();
            writer.sync_results().unwrap();
        }
    }
}

/// A ledger of these blocks.
pub fn written(options: LogOptions, chain: &[Block]) -> MemoryFiles {
    let files = MemoryFiles::new();
    append(&files, options, chain);
    files
}
