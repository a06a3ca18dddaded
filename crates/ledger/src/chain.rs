//! Is this a chain? Blocks go in one by one, in order; the first that does not fit is named.
//!
//! [`ChainVerifier`] checks what follows from bytes alone: heights, links, ledger id, time, counts,
//! and the roots of transactions and outcomes, recomputed. Whether the effects are right takes an
//! execution; the caller runs it and brings the root to [`check_effects`].
//!
//! It cannot know that the *last* block is the newest: a ledger cut at a block boundary is a
//! shorter valid ledger. Compare [`ChainVerifier::head`] with a hash kept elsewhere.

use std::fmt;

use types::{Error, Height, SqlState};

use crate::block::Block;
use crate::genesis::Genesis;
use crate::hash::{Hash, to_hex};
use crate::header::{BlockHeader, HEADER_VERSION, LedgerId};
use crate::merkle;

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
    pub hash: Hash,
    pub time_us: i64,
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
    pub fn after(header: &BlockHeader) -> Self {
        ChainVerifier { head: Some(head_of(header, header.hash())) }
    }

    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Checks the next block. After a fault the verifier stays where it was.
    pub fn push(&mut self, block: &Block) -> Result<Hash> {
        let header = &block.header;
        let height = self.head.map_or(0, |head| head.height.saturating_add(1));
        let same = |what, expected: u64, found: u64| {
            check(height, what, expected == found, || (expected.to_string(), found.to_string()))
        };
        same("height", height, header.height)?;
        same("header version", HEADER_VERSION.into(), header.version.into())?;
        match &self.head {
            None => check_genesis(block)?,
            Some(head) => check_link(head, header)?,
        }
        let count = u64::from(header.transaction_count);
        same("number of transactions", count, block.transactions.len() as u64)?;
        same("number of outcomes", count, block.outcomes.len() as u64)?;
        let root = |what, expected: &Hash, parts| {
            let found = merkle::root::<&bytes::Bytes>(parts);
            check(height, what, *expected == found, || (to_hex(expected), to_hex(&found)))
        };
        root("transactions root", &header.transactions_root, &block.transactions)?;
        root("outcomes root", &header.outcomes_root, &block.outcomes)?;
        let hash = header.hash();
        self.head = Some(head_of(header, hash));
        Ok(hash)
    }
}

/// Compares the effects root of a header with the one that an execution of the block gave.
pub fn check_effects(header: &BlockHeader, executed: &Hash) -> Result<()> {
    check(header.height, "effects root", header.effects_root == *executed, || {
        (to_hex(&header.effects_root), to_hex(executed))
    })
}

/// Compares a header with the parameters that the ledger's state holds for its block.
pub fn check_parameters(header: &BlockHeader, parameters_hash: &Hash) -> Result<()> {
    check(header.height, "parameters hash", header.parameters_hash == *parameters_hash, || {
        (to_hex(parameters_hash), to_hex(&header.parameters_hash))
    })
}

fn head_of(header: &BlockHeader, hash: Hash) -> Head {
    Head { ledger_id: header.ledger_id, height: header.height, hash, time_us: header.time_us }
}

fn check_genesis(block: &Block) -> Result<()> {
    Genesis::from_block(block).map(drop).map_err(|error| ChainFault {
        height: 0,
        what: "genesis",
        expected: "a genesis block".to_owned(),
        found: error.to_string(),
    })
}

fn check_link(head: &Head, header: &BlockHeader) -> Result<()> {
    let height = header.height;
    check(height, "ledger id", header.ledger_id == head.ledger_id, || {
        (to_hex(&head.ledger_id), to_hex(&header.ledger_id))
    })?;
    check(height, "previous hash", header.previous_hash == head.hash, || {
        (to_hex(&head.hash), to_hex(&header.previous_hash))
    })?;
    check(height, "block time", header.time_us >= head.time_us, || {
        (format!("{} or later", head.time_us), header.time_us.to_string())
    })?;
    check(height, "snapshot height", header.snapshot_height < height, || {
        (format!("below {height}"), header.snapshot_height.to_string())
    })?;
    check(height, "state root", header.state_root == [0; 32], || {
        ("zeros".to_owned(), to_hex(&header.state_root))
    })
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
    use crate::testing::chain;

    #[test]
    fn a_chain_holds() {
        let blocks = chain(5, 3);
        let mut verifier = ChainVerifier::new();
        for block in &blocks {
            assert_eq!(verifier.push(block).unwrap(), block.header.hash());
        }
        assert_eq!(verifier.head().unwrap().height, 5);
        let mut later = ChainVerifier::after(&blocks[2].header);
        assert!(later.push(&blocks[3]).is_ok());
        assert_eq!(later.push(&blocks[5]).unwrap_err().what, "height");
    }

    #[test]
    fn the_first_fault_is_named() {
        let blocks = chain(2, 3);
        let fault_of = |change: &dyn Fn(&mut Block)| {
            let mut block = blocks[2].clone();
            change(&mut block);
            ChainVerifier::after(&blocks[1].header).push(&block).unwrap_err().what
        };
        assert_eq!(fault_of(&|b| b.header.height = 7), "height");
        assert_eq!(fault_of(&|b| b.header.version = 2), "header version");
        assert_eq!(fault_of(&|b| b.header.ledger_id[0] ^= 1), "ledger id");
        assert_eq!(fault_of(&|b| b.header.previous_hash[0] ^= 1), "previous hash");
        assert_eq!(fault_of(&|b| b.header.time_us = i64::MIN), "block time");
        assert_eq!(fault_of(&|b| b.header.snapshot_height = 2), "snapshot height");
        assert_eq!(fault_of(&|b| b.header.state_root[0] = 1), "state root");
        assert_eq!(fault_of(&|b| drop(b.transactions.pop())), "number of transactions");
        assert_eq!(fault_of(&|b| drop(b.outcomes.pop())), "number of outcomes");
        assert_eq!(fault_of(&|b| b.transactions.swap(0, 1)), "transactions root");
        assert_eq!(fault_of(&|b| b.outcomes.swap(0, 1)), "outcomes root");
    }

    #[test]
    fn effects_and_parameters_are_compared_by_the_caller() {
        let header = &chain(1, 1)[1].header;
        assert!(check_effects(header, &header.effects_root).is_ok());
        let fault = check_effects(header, &[9; 32]).unwrap_err();
        assert!(fault.to_string().starts_with("block 1: effects root: expected "), "{fault}");
        assert!(check_parameters(header, &header.parameters_hash).is_ok());
        assert!(check_parameters(header, &[9; 32]).is_err());
    }
}
