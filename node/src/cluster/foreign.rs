//! Detects an intact data folder that was put in another member's place.
//!
//! Its ledger, key and list of members match each other, so nothing within it reveals the mistake.
//! Its surroundings do: the other members' folders beside it, as `tally cluster init` makes them,
//! and the keys shown at the addresses that it has for the other members.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::{Peers, Plan};

use super::folders::node_folders;
use crate::folders;

/// How long a start waits for members that do not answer.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Refuses a folder `node-3` that is not what `node-1` and `node-2` beside it have as member 3.
/// `alone`: one of no cluster, whose ledger is of none either; else that is looked at first.
pub fn refuse_beside(data: &Path, alone: bool) -> Result<()> {
    let Ok(data) = data.canonicalize() else { return Ok(()) };
    let Some(all) = data.parent() else { return Ok(()) };
    let beside = node_folders(all).unwrap_or_default();
    if !beside.contains(&data) {
        return Ok(());
    }
    let own = Plan::read(&data).context("cannot read what cluster this node is of")?;
    if own.is_none() != alone {
        return Ok(());
    }
    for other in beside.iter().filter(|folder| **folder != data) {
        // What is wrong with that one is for its own start to say.
        let Ok(Some((plan, secrets))) = Plan::read(other) else { continue };
        let other = other.display();
        let what = match &own {
            None => format!("this folder is of no cluster, and {other} beside it is of one"),
            Some((own, _)) if own.ledger_id != plan.ledger_id => format!(
                "this folder is of the cluster with the ledger {}, and {other} beside it of that \
                 with {}",
                own.ledger_id, plan.ledger_id
            ),
            Some((_, own)) if own.id == secrets.id => {
                format!("this folder is member {}, and {other} beside it is the same", own.id)
            }
            Some(_) => continue,
        };
        let hint = "One of them was put into the place of another folder. Put it where it \
                    belongs, or run it from a folder with another name.";
        return Err(folders::refused(what).with_hint(hint).into());
    }
    Ok(())
}

/// Refuses to be a member among others none of which it knows. Not within a runtime.
pub fn refuse_among(plan: &Plan, peers: &Peers, own: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let others: Vec<_> = plan.members.iter().filter(|member| member.id != own).collect();
    let asked = others.iter().map(|member| async {
        let shown = tokio::time::timeout(AT_ONCE, peers.is_another(member.id)).await;
        shown.ok().flatten()
    });
    let shown = runtime.block_on(async { futures::future::join_all(asked).await });
    if shown.contains(&Some(false)) || !shown.contains(&Some(true)) {
        return Ok(());
    }
    let strange = others.iter().zip(&shown).filter(|(_, shown)| **shown == Some(true));
    let addresses: Vec<&str> = strange.map(|(member, _)| &*member.address).collect();
    let what = format!(
        "this folder is of the cluster with the ledger {}, and what answers at {} are no members \
         of it",
        plan.ledger_id,
        addresses.join(", ")
    );
    let hint = "The folder was put into the place of another one, or all other members were \
                replaced while it was away: then remove it, and add a new member.";
    Err(folders::refused(what).with_hint(hint).into())
}
