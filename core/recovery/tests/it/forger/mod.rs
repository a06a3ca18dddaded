//! Forging a ledger: it is taken apart, something is altered, and every count, root and hash that
//! depends on the alteration is computed anew, up to the head.
//!
//! ```text
//!   bodies     envelopes ─┐          outcomes, carried ─┐   leaves of the effects ─┐
//!              alter      │          alter              │   alter                  │
//!   headers    count, root, previous ─► alter ─► order hash, counts, roots, previous ─► alter
//!   later blocks                        previous hashes, order hash, times that do not run back
//! ```
//!
//! What was altered can also be run, as a replica would, and its results written down: such a
//! ledger is as valid as the original one. It has another head, and that is all. Each test that
//! includes this module uses some of it.
#![allow(dead_code)]

use std::sync::Arc;

use bytes::Bytes;
use engine::{Fault, Language, Replica, Request, replay};
use ledger::effects::row_image_hash;
use ledger::{
    Batch, BlockReader, BlockResult, BlockWriter, CarriedOutcome, ChainVerifier, Effect, Files,
    Genesis, Hash, MemoryFiles, OrderHeader, ResultHeader, merkle,
};
use storage::{Changes, Store};

use crate::ledgered::{blocks_of, language, options};

/// A block, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    pub order: OrderHeader,
    pub envelopes: Vec<Bytes>,
    pub result: ResultHeader,
    pub outcomes: Vec<Bytes>,
    pub carried: Vec<CarriedOutcome>,
    /// Of the effects root; `None` where the block has steps beside those of rows.
    pub leaves: Option<Vec<Vec<u8>>>,
}

/// What finds an altered ledger, at the latest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Found {
    /// Its bytes alone: a strict decoder, or the chain of headers and roots.
    Bytes,
    /// Running its transactions again.
    Execution,
    /// A head that is kept elsewhere, and nothing else: the ledger is a valid one.
    OutsideHead,
}

/// What is altered, before what depends on it is computed anew.
pub enum Alteration<'a> {
    Bodies(&'a dyn Fn(&mut Block)),
    Order(&'a dyn Fn(&mut OrderHeader)),
    Result(&'a dyn Fn(&mut ResultHeader)),
}

impl Block {
    fn seal_order(&mut self, previous: Option<&Block>) {
        self.order.envelope_count = self.envelopes.len() as u32;
        self.order.envelopes_root = merkle::root(&self.envelopes);
        if let Some(previous) = previous {
            self.order.previous_order_hash = previous.order.hash();
        }
    }

    fn seal_result(&mut self, previous: Option<&Block>) {
        let result = &mut self.result;
        result.order_hash = self.order.hash();
        result.outcome_count = self.outcomes.len() as u32;
        result.carried_count = self.carried.len() as u32;
        result.outcomes_root = ledger::result::outcomes_root(&self.outcomes, &self.carried);
        if let Some(leaves) = &self.leaves {
            result.effect_count = leaves.len() as u64;
            result.effects_root = merkle::root(leaves);
        }
        if let Some(previous) = previous {
            result.previous_result_hash = previous.result.hash();
        }
    }

    pub fn batch(&self) -> Batch {
        Batch::unchecked(self.order.clone(), self.envelopes.clone())
    }

    pub fn block_result(&self) -> BlockResult {
        BlockResult::unchecked(self.result.clone(), self.outcomes.clone(), self.carried.clone())
    }
}

/// A ledger with one block altered, and everything after it made to fit.
pub fn altered(honest: &[Block], at: usize, alteration: Alteration<'_>) -> Vec<Block> {
    let mut blocks = honest.to_vec();
    if let Alteration::Bodies(alter) = &alteration {
        alter(&mut blocks[at]);
    }
    let (before, rest) = blocks.split_at_mut(at);
    let (previous, block) = (before.last(), &mut rest[0]);
    block.seal_order(previous);
    if let Alteration::Order(alter) = &alteration {
        alter(&mut block.order);
    }
    block.seal_result(previous);
    if let Alteration::Result(alter) = &alteration {
        alter(&mut block.result);
    }
    seal_behind(&mut blocks, at);
    blocks
}

/// Everything after a block follows from it again.
pub fn seal_behind(blocks: &mut [Block], at: usize) {
    for at in at + 1..blocks.len() {
        let (before, rest) = blocks.split_at_mut(at);
        let previous = before.last().unwrap();
        rest[0].order.time_us = rest[0].order.time_us.max(previous.order.time_us);
        rest[0].seal_order(Some(previous));
        rest[0].seal_result(Some(previous));
    }
}

/// All blocks of a ledger, genesis first.
pub fn taken_apart(files: &Arc<dyn Files>) -> Vec<Block> {
    let of = |recorded: ledger::Recorded| {
        let batch = Batch::of(&recorded.batch).unwrap();
        let result = BlockResult::of(&recorded.result.unwrap()).unwrap();
        Block {
            order: batch.header().clone(),
            envelopes: batch.envelopes().to_vec(),
            result: result.header().clone(),
            outcomes: result.outcomes().to_vec(),
            carried: result.carried().to_vec(),
            leaves: None,
        }
    };
    blocks_of(files).into_iter().map(of).collect()
}

/// Runs the orders of a ledger, and writes down what comes of it, leaves included.
pub fn run_again(blocks: &mut [Block]) {
    let genesis = Genesis::from_batch(&blocks[0].batch(), blocks[0].result.executor).unwrap();
    let store = Arc::new(Store::new());
    let language: Arc<dyn Language> = language(&store);
    let mut replica = Replica::new(&genesis, store, language, 1).unwrap();
    for at in 1..blocks.len() {
        let (before, rest) = blocks.split_at_mut(at);
        let (previous, block) = (before.last(), &mut rest[0]);
        block.seal_order(previous);
        let requests = block.envelopes.iter().cloned().map(Request::of_bytes).collect();
        let again = replica.execute_again(&block.batch(), &block.block_result(), requests).unwrap();
        replica.publish();
        block.order.parameters_hash = again.order.parameters_hash;
        block.order.seen_height = again.order.seen_height;
        block.result.snapshot_height = again.seal.snapshot_height;
        block.result.executor = again.seal.executor;
        block.result.reorderings = again.seal.reorderings;
        block.result.carried_root = again.seal.carried_root;
        let (digest, state_root) = again.roots().unwrap();
        block.result.state_root = state_root;
        (block.result.effect_count, block.result.effects_root) = (digest.count, digest.root);
        block.leaves = again.effects.only_rows().map(leaves);
        if let Some((outcomes, carried)) = again.outcomes {
            (block.outcomes, block.carried) = (outcomes, carried);
        }
        block.seal_result(previous);
        assert_eq!(block.result.effects_root, digest.root, "the leaves are not the effects");
    }
}

fn leaves(changes: &Changes) -> Vec<Vec<u8>> {
    let touched = changes.touched().iter();
    let leaf = |change: &storage::Change| {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let was = change.before_image(&mut before).unwrap();
        let is = change.after_image(&mut after).unwrap();
        let effect = Effect {
            table: change.table(),
            key: change.key().as_bytes(),
            before: was.map(|_| row_image_hash(&before)),
            after: is.map(|_| row_image_hash(&after)),
            previous_height: was.map_or(0, |stamp| stamp.height()),
        };
        let mut leaf = Vec::new();
        effect.encode_into(&mut leaf).unwrap();
        leaf
    };
    touched.map(leaf).collect()
}

/// What finds that a ledger is not the honest one, whose head this is.
pub fn found(blocks: &[Block], head: &Hash) -> Found {
    let mut chain = ChainVerifier::new();
    for block in blocks {
        let batch = Batch::decode(block.batch().encode().unwrap().payload());
        let result = BlockResult::decode(block.block_result().encode().unwrap().payload());
        let (Ok(batch), Ok(result)) = (batch, result) else { return Found::Bytes };
        if chain.push(&batch, Some(&result)).is_err() {
            return Found::Bytes;
        }
    }
    match replay(Arc::new(written(blocks)), &language, 1, &mut |_| ()) {
        Err(Fault::Mismatch(_) | Fault::Halt(..)) => Found::Execution,
        Err(fault) => panic!("{fault}"),
        Ok(replayed) => {
            assert!(replayed.unrecorded.is_empty() && replayed.torn_tail.is_none());
            let found = replayed.replica.head().hash;
            assert_eq!(found, blocks.last().unwrap().result.hash());
            assert_ne!(found, *head, "the ledger was not altered");
            Found::OutsideHead
        }
    }
}

/// The files of a ledger whose chain holds.
pub fn written(blocks: &[Block]) -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut reader = BlockReader::open(Arc::new(files.clone())).unwrap();
    assert!(reader.next().unwrap().is_none());
    let mut log = BlockWriter::resume(reader, options()).unwrap();
    for block in blocks {
        log.append_order(&[block.batch().encode().unwrap()]).unwrap();
        log.append_results(&[block.block_result().encode().unwrap()]).unwrap();
    }
    log.orders.rest().unwrap();
    log.results.rest().unwrap();
    files
}
