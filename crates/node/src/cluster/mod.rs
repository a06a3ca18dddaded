//! A node of a cluster: `docs/cluster.md` has the whole.
//!
//! A data folder with `cluster/` in it is a member's. Its ledger says so too, in its first block,
//! and a node refuses the one without the other.

mod change;
mod fetch;
mod folders;
mod follow;
mod join;
mod processes;
mod remote;
mod status;
mod votes;

use anyhow::Result;

use crate::cli::{ClusterAction, Exit, Output};

pub use change::{by_request, shown};
pub use join::{Joined, Membership, refuse_alone};
pub use votes::{Heard, Standing, Telling};

/// What the ledger's first block says.
const RAFT: &str = "raft";

pub fn run(action: &ClusterAction, output: Output) -> Result<Exit> {
    match action {
        ClusterAction::Init(arguments) => folders::init(arguments, output),
        ClusterAction::Up { folder } => processes::up(folder),
        ClusterAction::Status { folder } => status::run(folder, output),
        ClusterAction::Add(arguments) => change::add(arguments, output),
        ClusterAction::Remove { folder, member } => change::remove(folder, *member, output),
    }
}
