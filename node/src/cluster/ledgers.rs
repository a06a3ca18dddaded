//! Refuses to run a ledger alone whose parameters say that several members order it.

use anyhow::Result;
use engine::limits::Limits;
use ledger::Parameters;

use crate::folders;

/// What a member's owner is advised to do where its folder is damaged.
pub const REJOIN: &str = "Take the ledger anew from the other members: tally cluster rejoin --data \
                          FOLDER, then start the node. Do not put an old copy in its place.";

/// Refuses to go on, without the others, in a ledger that several nodes order.
pub fn refuse_alone(parameters: &Parameters) -> Result<()> {
    let Some(orderer) = Limits::orderer(parameters) else { return Ok(()) };
    let what = format!(
        "the ledger is that of a cluster, ordered by {orderer}: a node cannot add to it alone, and \
         this folder has no `{}`",
        ::cluster::plan::FOLDER
    );
    let hint = "To begin a new cluster with it, where the old one is gone: tally cluster recover.";
    Err(folders::refused(what).with_hint(hint).into())
}
