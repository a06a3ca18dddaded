//! The status report of a member: height, head, orderer, votes, clock offset. `tally cluster
//! status`, `tally_cluster` and the metrics show it; other members ask for it each second.

use std::fmt;

use cluster::votes::heard;
use serde::{Deserialize, Serialize};

use super::orderers::Standing;

/// The request for a [`Report`].
pub const STATUS: &[u8] = b"?";

/// What a node tells of itself.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Report {
    pub standing: Standing,
    pub height: u64,
    pub head: String,
    /// That of its newest block.
    pub time_us: i64,
    pub halted: Option<String>,
    /// As its ledger names them.
    pub members: String,
    pub votes: heard::Standing,
    /// How far its clock is ahead of those of most members, as far as it knows, by microseconds;
    /// and what is to be done about it, if that is too far.
    pub clock_ahead_us: i64,
    pub clock_trouble: Option<String>,
    /// Members whose ledger has parted from this one's.
    pub forks: Vec<Fork>,
}

impl Report {
    /// What is wrong with it, for people.
    pub fn trouble(&self) -> Option<String> {
        let standing = self.standing.trouble().map(str::to_owned);
        let why = self.halted.clone().or(standing);
        why.or_else(|| self.votes.diverged.clone()).or_else(|| self.clock_trouble.clone())
    }
}

/// The first block that another member has another order of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fork {
    pub member: u64,
    pub height: u64,
    pub here: String,
    pub there: String,
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fork { member, height, here, there } = self;
        write!(
            f,
            "the ledger has forked: the order of block {height} is {here} here, and {there} at \
             member {member}"
        )
    }
}
