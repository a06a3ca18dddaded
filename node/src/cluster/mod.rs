//! A node of a cluster: `docs/cluster.md` has the whole.
//!
//! A data folder with `cluster/` in it is a member's. Its ledger says so too, in its first block,
//! and a node refuses the one without the other.

mod against;
mod asking;
mod change;
mod endorsement_messages;
mod endorsing;
mod fetch;
mod folders;
mod follow;
mod foreign;
mod forks;
mod join;
mod ledgers;
mod neighbours;
mod observer;
mod orderers;
mod pending;
mod processes;
mod recover;
mod rejoin;
mod remote;
mod report;
mod rotate;
mod status;
mod vouched;

use anyhow::Result;

use crate::cli::{ClusterAction, Exit, Output};

pub use against::{Comparison, Parted, compare};
pub use change::{by_request, shown};
pub use foreign::refuse_beside;
pub use forks::Forks;
pub use join::{Enrolment, Joined};
pub use ledgers::{REJOIN, refuse_alone};
pub use observer::Telling;
pub use orderers::{Kind, is_of_member};
pub use rotate::Rotation;

pub fn run(action: &ClusterAction, output: Output) -> Result<Exit> {
    match action {
        ClusterAction::Init(arguments) => folders::init(arguments, output),
        ClusterAction::Up { folder } => processes::up(folder),
        ClusterAction::Status { folder } => status::run(folder, output),
        ClusterAction::Add(arguments) => change::add(arguments, output),
        ClusterAction::Remove { folder, member, yes } => {
            change::remove(folder, *member, *yes, output)
        }
        ClusterAction::Rotate { folder, member } => rotate::run(folder, *member, output),
        ClusterAction::Recover(arguments) => recover::run(arguments, output),
        ClusterAction::Rejoin { data } => rejoin::run(data, output),
    }
}
