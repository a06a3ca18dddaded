//! Is this a chain? Blocks go in one by one, in order; the first that does not fit is named.
//!
//! [`ChainVerifier`] checks what follows from bytes alone: heights, the links of both chains and
//! those between them, ledger id, time, counts, and the roots of envelopes and outcomes,
//! recomputed. Whether the effects are right takes an execution; the caller runs it and brings
//! their digest to [`check_effects`].
//!
//! Results may end before orders do: from there on blocks go in without one. A result after such
//! a block is refused, as there is nothing that it could be linked to.
//!
//! It cannot know that the *last* block is the newest: a ledger cut at a block boundary is a
//! shorter valid ledger. Compare [`ChainVerifier::head`] with a hash kept elsewhere.

use std::fmt;

use types::{Error, Height, SqlState};

use crate::batch::Batch;
use crate::block::Block;
use crate::effects::EffectsDigest;
use crate::genesis::Genesis;
use crate::hash::{Hash, ZERO_HASH, to_hex};
use crate::header::{HEADER_VERSION, LedgerId, OrderHeader, ResultHeader};
use crate::merkle;
use crate::result::{BlockResult, outcomes_root};

/// The first thing wrong with a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainFault {
    pub height: Height,
    pub what: &'static str,
    pub expected: String,
    pub found: String,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainFault { height, what, expected, found } = self;
        write!(f, "block {height}: {what}: expected {expected}, found {found}")
    }
}

impl std::error::Error for ChainFault {}

impl From<ChainFault> for Error {
    fn from(fault: ChainFault) -> Self {
        Error::new(SqlState::DATA_CORRUPTED, "the ledger does not verify")
            .with_detail(fault.to_string())
    }
}

type Result<T, E = ChainFault> = std::result::Result<T, E>;

/// The newest block that was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub ledger_id: LedgerId,
    pub height: Height,
    pub time_us: i64,
    pub order_hash: Hash,
    /// None if the block came without its result.
    pub result_hash: Option<Hash>,
}

#[derive(Clone, Debug, Default)]
pub struct ChainVerifier {
    head: Option<Head>,
}

impl ChainVerifier {
    /// Starts before genesis.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts after a block that is trusted already.
    pub fn after(order: &OrderHeader, result: Option<&ResultHeader>) -> Self {
        let result_hash = result.map(ResultHeader::hash);
        ChainVerifier { head: Some(head_of(order, order.hash(), result_hash)) }
    }

    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Checks the next block. After a fault the verifier stays where it was.
    pub fn push(&mut self, batch: &Batch, result: Option<&BlockResult>) -> Result<Head> {
        self.check_order(batch)?;
        if let Some(result) = result {
            self.check_result(batch, result)?;
        }
        if self.head.is_none() {
            check_genesis(batch, result)?;
        }
        let head = head_of(batch.header(), batch.hash(), result.map(BlockResult::hash));
        self.head = Some(head);
        Ok(head)
    }

    fn check_order(&self, batch: &Batch) -> Result<()> {
        let header = batch.header();
        let height = self.head.map_or(0, |head| head.height.saturating_add(1));
        same(height, "height", height, header.height)?;
        same(height, "order header version", HEADER_VERSION.into(), header.version.into())?;
        let before = self.head.map_or(ZERO_HASH, |head| head.order_hash);
        same_hash(height, "previous order hash", &before, &header.previous_order_hash)?;
        if let Some(head) = &self.head {
            check(height, "ledger id", header.ledger_id == head.ledger_id, || {
                (to_hex(&head.ledger_id), to_hex(&header.ledger_id))
            })?;
            check(height, "block time", header.time_us >= head.time_us, || {
                (format!("{} or later", head.time_us), header.time_us.to_string())
            })?;
        }
        check(height, "seen height", header.seen_height <= height.saturating_sub(1), || {
            ("an earlier one".to_owned(), header.seen_height.to_string())
        })?;
        let envelopes = batch.envelopes();
        let count = u64::from(header.envelope_count);
        same(height, "number of envelopes", count, envelopes.len() as u64)?;
        let root = merkle::root(envelopes);
        same_hash(height, "envelopes root", &header.envelopes_root, &root)
    }

    /// The order of the result has been checked.
    fn check_result(&self, batch: &Batch, result: &BlockResult) -> Result<()> {
        let (order, header) = (batch.header(), result.header());
        let height = order.height;
        same(height, "height of the result", height, header.height)?;
        same(height, "result header version", HEADER_VERSION.into(), header.version.into())?;
        check(height, "ledger id of the result", header.ledger_id == order.ledger_id, || {
            (to_hex(&order.ledger_id), to_hex(&header.ledger_id))
        })?;
        same_hash(height, "order hash", &batch.hash(), &header.order_hash)?;
        let before = self.head.map_or(Some(ZERO_HASH), |head| head.result_hash);
        let Some(before) = before else {
            return check(height, "result", false, || {
                ("none, as the block before has none".to_owned(), "one".to_owned())
            });
        };
        same_hash(height, "previous result hash", &before, &header.previous_result_hash)?;
        let in_the_past = header.snapshot_height < height.max(1);
        check(height, "snapshot height", in_the_past, || {
            (format!("below {height}"), header.snapshot_height.to_string())
        })?;
        check(height, "executor", header.executor > 0, || {
            ("1 or above".to_owned(), header.executor.to_string())
        })?;
        check_outcomes(batch, result)
    }
}

fn check_outcomes(batch: &Batch, result: &BlockResult) -> Result<()> {
    let (header, height) = (result.header(), result.height());
    let (outcomes, carried) = (result.outcomes(), result.carried());
    let envelopes = u64::from(batch.header().envelope_count);
    same(height, "number of outcomes", envelopes, header.outcome_count.into())?;
    same(height, "number of outcomes", envelopes, outcomes.len() as u64)?;
    let count = u64::from(header.carried_count);
    same(height, "number of carried outcomes", count, carried.len() as u64)?;
    let root = outcomes_root(outcomes, carried);
    same_hash(height, "outcomes root", &header.outcomes_root, &root)
}

/// Compares what a header says of the effects with what an execution of the block gave.
pub fn check_effects(header: &ResultHeader, executed: &EffectsDigest) -> Result<()> {
    let height = header.height;
    same(height, "number of effects", header.effect_count, executed.count)?;
    same_hash(height, "effects root", &header.effects_root, &executed.root)
}

/// Compares a header with the parameters that the ledger's state holds for its block.
pub fn check_parameters(header: &OrderHeader, parameters_hash: &Hash) -> Result<()> {
    same_hash(header.height, "parameters hash", parameters_hash, &header.parameters_hash)
}

fn head_of(order: &OrderHeader, order_hash: Hash, result_hash: Option<Hash>) -> Head {
    let OrderHeader { ledger_id, height, time_us, .. } = *order;
    Head { ledger_id, height, time_us, order_hash, result_hash }
}

fn check_genesis(batch: &Batch, result: Option<&BlockResult>) -> Result<()> {
    let genesis = match result {
        Some(result) => {
            Genesis::from_block(&Block { batch: batch.clone(), result: result.clone() })
        }
        None => Genesis::from_batch(batch, 1),
    };
    genesis.map(drop).map_err(|error| ChainFault {
        height: 0,
        what: "genesis",
        expected: "a genesis block".to_owned(),
        found: error.to_string(),
    })
}

fn same(height: Height, what: &'static str, expected: u64, found: u64) -> Result<()> {
    check(height, what, expected == found, || (expected.to_string(), found.to_string()))
}

fn same_hash(height: Height, what: &'static str, expected: &Hash, found: &Hash) -> Result<()> {
    check(height, what, expected == found, || (to_hex(expected), to_hex(found)))
}

fn check(
    height: Height,
    what: &'static str,
    holds: bool,
    values: impl FnOnce() -> (String, String),
) -> Result<()> {
    if holds {
        return Ok(());
    }
    let (expected, found) = values();
    Err(ChainFault { height, what, expected, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{chain, changed_order, changed_result};

    fn after(block: &Block) -> ChainVerifier {
        ChainVerifier::after(block.batch.header(), Some(block.result.header()))
    }

    #[test]
    fn a_chain_holds() {
        let blocks = chain(5, 3);
        let mut verifier = ChainVerifier::new();
        for block in &blocks {
            let head = verifier.push(&block.batch, Some(&block.result)).unwrap();
            assert_eq!(head.order_hash, block.batch.hash());
            assert_eq!(head.result_hash, Some(block.hash()));
        }
        assert_eq!(verifier.head().unwrap().height, 5);
        let mut later = after(&blocks[2]);
        assert!(later.push(&blocks[3].batch, Some(&blocks[3].result)).is_ok());
        assert_eq!(later.push(&blocks[5].batch, None).unwrap_err().what, "height");
    }

    #[test]
    fn results_may_end_first_and_then_there_are_none() {
        let blocks = chain(4, 3);
        let mut verifier = ChainVerifier::new();
        for block in &blocks[..2] {
            verifier.push(&block.batch, Some(&block.result)).unwrap();
        }
        assert_eq!(verifier.push(&blocks[2].batch, None).unwrap().result_hash, None);
        let fault = verifier.push(&blocks[3].batch, Some(&blocks[3].result)).unwrap_err();
        assert_eq!(fault.what, "result");
        assert!(verifier.push(&blocks[3].batch, None).is_ok());
        assert!(ChainVerifier::new().push(&blocks[0].batch, None).is_ok(), "genesis without one");
        let mut other = ChainVerifier::new();
        assert_eq!(other.push(&blocks[1].batch, None).unwrap_err().what, "height");
    }

    #[test]
    fn the_first_fault_of_an_order_is_named() {
        let blocks = chain(2, 3);
        let fault_of = |change: &dyn Fn(&mut OrderHeader, &mut Vec<bytes::Bytes>)| {
            let batch = changed_order(&blocks[2].batch, change);
            after(&blocks[1]).push(&batch, None).unwrap_err().what
        };
        assert_eq!(fault_of(&|h, _| h.height = 7), "height");
        assert_eq!(fault_of(&|h, _| h.version = 1), "order header version");
        assert_eq!(fault_of(&|h, _| h.seen_height = h.height), "seen height");
        assert_eq!(fault_of(&|h, _| h.ledger_id[0] ^= 1), "ledger id");
        assert_eq!(fault_of(&|h, _| h.previous_order_hash[0] ^= 1), "previous order hash");
        assert_eq!(fault_of(&|h, _| h.time_us = i64::MIN), "block time");
        assert_eq!(fault_of(&|h, _| h.envelopes_root[0] ^= 1), "envelopes root");
        assert_eq!(fault_of(&|_, e| drop(e.pop())), "number of envelopes");
        assert_eq!(fault_of(&|_, e| e.swap(0, 1)), "envelopes root");
    }

    #[test]
    fn the_first_fault_of_a_result_is_named() {
        let blocks = chain(2, 3);
        let fault_of = |change: &dyn Fn(&mut ResultHeader, &mut Vec<bytes::Bytes>)| {
            let result = changed_result(&blocks[2].result, change);
            after(&blocks[1]).push(&blocks[2].batch, Some(&result)).unwrap_err().what
        };
        assert_eq!(fault_of(&|h, _| h.height = 7), "height of the result");
        assert_eq!(fault_of(&|h, _| h.version = 1), "result header version");
        assert_eq!(fault_of(&|h, _| h.ledger_id[0] ^= 1), "ledger id of the result");
        assert_eq!(fault_of(&|h, _| h.previous_result_hash[0] ^= 1), "previous result hash");
        assert_eq!(fault_of(&|h, _| h.order_hash[0] ^= 1), "order hash");
        assert_eq!(fault_of(&|h, _| h.snapshot_height = 2), "snapshot height");
        assert_eq!(fault_of(&|h, _| h.executor = 0), "executor");
        assert_eq!(fault_of(&|h, _| h.outcome_count = 2), "number of outcomes");
        assert_eq!(fault_of(&|h, _| h.carried_count = 1), "number of carried outcomes");
        assert_eq!(fault_of(&|_, o| drop(o.pop())), "number of outcomes");
        assert_eq!(fault_of(&|_, o| o.swap(0, 1)), "outcomes root");
    }

    /// No field of a header is outside of its hash.
    #[test]
    fn what_a_result_does_not_prove_itself_the_next_one_does() {
        let blocks = chain(3, 3);
        let changes: [fn(&mut ResultHeader); 6] = [
            |h| h.snapshot_height = 0,
            |h| h.executor = 2,
            |h| h.effect_count += 1,
            |h| h.effects_root[0] ^= 1,
            |h| h.reorderings = 1,
            |h| h.carried_root[0] = 1,
        ];
        for change in changes {
            let result = changed_result(&blocks[2].result, &|header, _| change(header));
            let mut verifier = after(&blocks[1]);
            verifier.push(&blocks[2].batch, Some(&result)).unwrap();
            let next = verifier.push(&blocks[3].batch, Some(&blocks[3].result));
            assert_eq!(next.unwrap_err().what, "previous result hash");
        }
    }

    #[test]
    fn genesis_is_checked_whole() {
        let genesis = &chain(0, 0)[0];
        let result = changed_result(&genesis.result, &|header, _| header.reorderings = 1);
        let fault = ChainVerifier::new().push(&genesis.batch, Some(&result)).unwrap_err();
        assert_eq!(fault.what, "genesis");
        let batch = changed_order(&genesis.batch, &|header, _| header.proposer[0] = 1);
        assert_eq!(ChainVerifier::new().push(&batch, None).unwrap_err().what, "genesis");
    }

    #[test]
    fn effects_and_parameters_are_compared_by_the_caller() {
        let block = &chain(1, 1)[1];
        let header = block.result.header();
        let digest = EffectsDigest { count: header.effect_count, root: header.effects_root };
        assert!(check_effects(header, &digest).is_ok());
        let fault = check_effects(header, &EffectsDigest { root: [9; 32], ..digest }).unwrap_err();
        assert!(fault.to_string().starts_with("block 1: effects root: expected "), "{fault}");
        let fault = check_effects(header, &EffectsDigest { count: 2, ..digest }).unwrap_err();
        assert_eq!(fault.what, "number of effects");
        let header = block.batch.header();
        assert!(check_parameters(header, &header.parameters_hash).is_ok());
        assert!(check_parameters(header, &[9; 32]).is_err());
    }
}
