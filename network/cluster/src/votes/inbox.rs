//! The bounded queues before the voting thread: executed blocks from the sequencer, votes and
//! certificates from other members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ledger::votes::{Succession, Vote};
use ledger::{Certificate, Hash, Parameters};
use types::Height;

/// A block that this node has executed.
pub struct Block {
    pub height: Height,
    pub result_hash: Hash,
    pub time_us: i64,
    /// Of those in force for it.
    pub parameters_hash: Hash,
    /// In force for the next one.
    pub next_parameters: Arc<Parameters>,
}

#[derive(Default)]
pub struct Inbox {
    pub blocks: VecDeque<Block>,
    /// When the last one came.
    pub block_at: Option<Instant>,
    /// The thread is to be woken for the next one: else it looks soon by itself.
    pub awaits_block: bool,
    pub votes: BTreeMap<u64, VecDeque<Vote>>,
    pub certificates: BTreeMap<u64, VecDeque<Certificate>>,
    pub successions: VecDeque<Succession>,
    /// What is certified at other members.
    pub elsewhere: BTreeMap<u64, Height>,
    /// Members that were asked for certificates since they were wanted, and had no more.
    pub asked: Vec<u64>,
    /// Members that were convicted of what contradicts itself.
    pub convicted: BTreeSet<u64>,
    pub ends: bool,
}
