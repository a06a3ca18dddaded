//! `tally cluster recover`: one folder goes on as a cluster of its own, by its owner's decision.
//!
//! ```text
//! a survivor     orders, results, raft/, its keys ──┐   raft/: this member alone votes
//! a backup       restored; keys are drawn for it  ──┴─► cluster/recovering.json: what is to follow
//! next start     leads, and writes to the ledger, as its owner: member 4 comes, 1, 2, 3 go
//! then           tally cluster add
//! ```
//!
//! For what no majority can do: more members are lost than a cluster bears, or all, and a backup is
//! there. What the lost ones acknowledged and this folder lacks stays lost, and nothing here can
//! say what it was; the blocks that change the members say in the ledger from where on it goes on
//! alone. The others are refused from the start: one of them that comes back has another
//! ledger from there on, and joins as a new member or not at all.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use cluster::Membership;
use cluster::plan::{FOLDER, Made, Plan};
use engine::limits::{Limits, MEMBERS, RAFT};
use engine::members::next_member;
use ledger::hash::to_hex;
use ledger::{BlockReader, Files, LogError, Parameters};
use serde_json::json;

use super::folders::write_settings;
use super::pending::Pending;
use crate::cli::{ClusterRecover, Exit, Output};
use crate::config::FILE_NAME;
use crate::{database, folders};

pub fn run(arguments: &ClusterRecover, output: Output) -> Result<Exit> {
    let ClusterRecover { data, host, port, yes } = arguments;
    let files = folders::open_to_write(data)?;
    ensure!(
        !super::fetch::is_half_done(data),
        "the folder was taking the ledger from another member: start its node once, then stop it"
    );
    let Extent { last, executed, ledger_id } = extent(&files)?;
    let parameters = database::parameters(data, &files)?;
    ensure!(
        Limits::orderer(&parameters) == Some(RAFT),
        "the ledger is not that of a cluster by Raft: start its node"
    );
    let membership = membership_of(&parameters)?;
    let unconfirmed = last - executed;
    if !yes {
        let what = format!("this ledger would go on alone behind block {last}");
        eprintln!(
            "What other members acknowledged behind that is lost with them. Of its blocks, the \
             last {unconfirmed} are not known to have been acknowledged; they stay."
        );
        let hint = "Recover the member that has the most blocks, and never start the folders of \
                    the others again. If that is what you want, add --yes.";
        return Err(folders::refused(what).with_hint(hint).into());
    }
    let found = Plan::read(data)?.map(|(plan, secrets)| (secrets.id, plan));
    let id = match &found {
        Some((id, plan)) => {
            let key = plan.keys()?.remove(id).context("this node is not among the members")?;
            let known = membership.0.get(id).is_some_and(|known| known.key == key);
            ensure!(known, "the keys in {FOLDER} are those of no member: remove that folder");
            *id
        }
        None => next_member(&parameters)?,
    };
    let mut pending = Pending { add: None, remove: others(&membership, id) };
    if found.is_none() {
        let port = port.context("the folder has no keys of a member: --port is needed")?;
        let made = Made::new(id, format!("{host}:{}", port + 2))?;
        let (orderer, members) = (RAFT.to_owned(), vec![made.member.clone()]);
        let plan = Plan { ledger_id, orderer, members };
        made.write(data, &plan)?;
        if !data.join(FILE_NAME).exists() {
            write_settings(data, host, port, port + 1, &[])?;
        }
        let (key, address) = (&made.member.key, &made.member.address);
        pending.add = Some(format!("add={id}&key={key}&address={address}"));
    }
    pending.write(data)?;
    order_raft::go_on_alone(&files, id, last).context("cannot write the folder raft")?;
    drop(files);
    match output {
        Output::Text => println!(
            "member {id} goes on alone behind block {last}\n\n    tally serve --data {}\n\n\
             then add others: tally cluster add",
            data.display()
        ),
        Output::Json => println!(
            "{}",
            json!({"member": id, "height": last, "unconfirmed": unconfirmed,
                   "removed": pending.remove})
        ),
    }
    Ok(Exit::Ok)
}

fn others(membership: &Membership, id: u64) -> Vec<u64> {
    membership.0.keys().copied().filter(|other| *other != id).collect()
}

struct Extent {
    last: u64,
    /// The last that has a result.
    executed: u64,
    ledger_id: String,
}

fn extent(files: &Arc<dyn Files>) -> Result<Extent> {
    let mut reader = BlockReader::open_at(Arc::clone(files), u64::MAX)?;
    loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) | Err(LogError::TornTail(_)) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let last = reader.next_height().checked_sub(1).context("the folder holds no ledger")?;
    let executed = reader.next_result().saturating_sub(1).min(last);
    let ledger_id = to_hex(&reader.ledger_id().context("the folder holds no ledger")?);
    Ok(Extent { last, executed, ledger_id })
}

fn membership_of(parameters: &Parameters) -> Result<Membership> {
    Ok(Membership::parse(parameters.others.get(MEMBERS).map_or("", String::as_str))?)
}
