//! The status of voting: what this node has signed and certified last, and how far each other
//! member's votes have come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use types::Height;

/// What a node tells of votes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// Height and result hash of what this node signed last.
    pub signed: Option<(Height, String)>,
    pub certified: Option<(Height, String)>,
    pub certificates: u64,
    /// The members that vote, and how many of them a certificate takes.
    pub electors: Vec<u64>,
    pub needed: usize,
    /// Of the others, as this node has heard.
    pub members: BTreeMap<u64, Heard>,
    /// Why this node stopped, if its result was not theirs.
    pub diverged: Option<String>,
}

/// What was heard of a member.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Heard {
    pub signed: Option<Height>,
    pub counted: u64,
    pub refused: u64,
    pub contradicting: u64,
    /// A block of which it has signed another result than this node has.
    pub deviates: Option<Height>,
}
