//! `tally cluster rejoin`: sets a member's damaged ledger aside, so that the next start copies the
//! ledger from the other members.
//!
//! ```text
//! joining/ orders/ results/ checkpoints/ …-headers/ raft/ … ─►  set-aside-1/    nothing is removed
//! cluster/ votes/ tally.toml …                                 stay
//! next start        takes the ledger from another member, and asks all of them what this one had
//! ```
//!
//! *Crash safety* is in the order of the moves: a half-copied ledger (`joining/`) first, the Raft
//! votes (`raft/`) last. Once the orders are moved, a crash leaves a member without a ledger, which
//! does not vote in Raft until the others have told what it may have forgotten (`order-raft`'s
//! `recall`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use cluster::Plan;
use serde_json::json;

use super::orderers;
use super::remote::FOLDERS;
use crate::cli::{Exit, Output};
use crate::folders;

/// Of what was put aside, with a number.
const ASIDE: &str = "set-aside";

pub fn run(data: &Path, output: Output) -> Result<Exit> {
    let plan = Plan::read(data).context("cannot read what cluster this node is of")?;
    let (plan, secrets) = plan.with_context(|| format!("{} is in no cluster", data.display()))?;
    ensure!(
        plan.members.iter().any(|member| member.id != secrets.id),
        "there is no other member to take the ledger from"
    );
    let files = folders::open_to_write(data)?;
    let there = |name: &&str| data.join(name).exists();
    let all = [super::fetch::JOINING].into_iter().chain(FOLDERS).chain(orderers::FOLDERS);
    let names: Vec<&str> = all.filter(there).collect();
    ensure!(!names.is_empty(), "{} holds no ledger: start its node", data.display());
    let votes = data.join("votes");
    if votes.exists() && !votes.join("last").exists() {
        let what = "votes/last is missing, so it is not known what this member has signed";
        let hint = "Put the file back; or tally cluster remove this member, and add another one.";
        return Err(folders::refused(what.to_owned()).with_hint(hint).into());
    }
    let aside = new_folder(data)?;
    for name in names {
        fs::rename(data.join(name), aside.join(name))
            .with_context(|| format!("cannot put {name} aside"))?;
        fs::File::open(&aside)?.sync_all()?;
        fs::File::open(data)?.sync_all()?;
    }
    drop(files);
    match output {
        Output::Text => println!(
            "what was there lies in {}: remove it when the node has caught up\n\n    \
             tally serve --data {}",
            aside.display(),
            data.display()
        ),
        Output::Json => println!("{}", json!({"member": secrets.id, "set_aside": aside})),
    }
    Ok(Exit::Ok)
}

fn new_folder(data: &Path) -> Result<PathBuf> {
    let free = (1..).map(|number: u32| data.join(format!("{ASIDE}-{number}")));
    let aside = free.into_iter().find(|path| !path.exists()).context("there is no free name")?;
    folders::create_private(&aside)?;
    Ok(aside)
}
