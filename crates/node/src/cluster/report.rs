//! What a node tells the other members and operators of itself.

use serde::{Deserialize, Serialize};

use super::forks::Fork;
use super::heard;
use super::orderers::Standing;

/// The request for a [`Report`].
pub const STATUS: &[u8] = b"?";

/// What a node tells of itself.
#[derive(Serialize, Deserialize, Debug)]
pub struct Report {
    pub standing: Standing,
    pub height: u64,
    pub head: String,
    pub halted: Option<String>,
    /// As its ledger names them.
    pub members: String,
    pub votes: heard::Standing,
    /// Members whose ledger has parted from this one's.
    pub forks: Vec<Fork>,
}
