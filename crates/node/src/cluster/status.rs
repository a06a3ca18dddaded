//! `tally cluster status`: what each member tells of itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use cluster::{Members, Peers, Plan, Roll};
use order_raft::Network;
use serde_json::json;

use super::folders::node_folders;
use super::join::{Report, STATUS};
use crate::cli::{Exit, Output};

const PATIENCE: Duration = Duration::from_secs(3);

/// Fails if less than half of the members answer, or none leads.
pub fn run(folder: &Path, output: Output) -> Result<Exit> {
    // A node's own folder will do as well.
    let data = match Plan::read(folder)? {
        Some(_) => folder.to_owned(),
        None => node_folders(folder)?.swap_remove(0),
    };
    let (plan, secrets) = Plan::read(&data)?.context("the folder is in no cluster")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let members = Arc::new(Members::new(plan.roll()?));
    let peers = Peers::new(&plan, &secrets, Arc::clone(&members))?;
    let ask = |roll: &Roll| {
        let calls: Vec<_> = roll.0.keys().map(|id| report(&peers, *id)).collect();
        runtime.block_on(async { futures::future::join_all(calls).await })
    };
    let mut roll = members.now();
    let mut reports = ask(&roll);
    // Members may have come and gone since the folder was made.
    let newest = reports.iter().flatten().max_by_key(|report| report.height);
    if let Some(Ok(named)) = newest.map(|report| Roll::parse(&report.members))
        && named != roll
    {
        members.set(named.clone());
        reports = ask(&named);
        roll = named;
    }
    let newest = reports.iter().flatten().map(|report| report.height).max().unwrap_or(0);
    let up = reports.iter().flatten().count();
    let leader = reports.iter().flatten().find_map(|report| report.standing.leader);
    match output {
        Output::Json => println!("{}", json!({"leader": leader, "members": reports})),
        Output::Text => {
            println!("member  address                 role      height      behind  unconfirmed");
            for ((id, known), report) in roll.0.iter().zip(&reports) {
                println!("{id:<7} {:<23} {}", known.address, line(report, newest));
            }
        }
    }
    let orders = 2 * up > roll.0.len() && leader.is_some();
    Ok(if orders { Exit::Ok } else { Exit::Failed })
}

async fn report(peers: &Peers, id: u64) -> Option<Report> {
    let call = peers.call(id, Bytes::from_static(STATUS));
    let answer = tokio::time::timeout(PATIENCE, call).await.ok()?.ok()?;
    serde_json::from_slice(&answer).ok()
}

fn line(report: &Option<Report>, newest: u64) -> String {
    let Some(Report { standing, height, halted, .. }) = report else {
        return "down".to_owned();
    };
    let role = match (halted, standing.leader) {
        (Some(_), _) => "halted",
        (None, Some(leader)) if leader == standing.id => "leader",
        (None, Some(_)) => "follower",
        (None, None) => "no leader",
    };
    let unconfirmed = standing.entries.saturating_sub(standing.committed);
    let why = halted.as_ref().or(standing.stopped.as_ref()).map(|why| format!("  {why}"));
    let why = types::printable::printable(&why.unwrap_or_default()).into_owned();
    format!("{role:<9} {height:<11} {:<7} {unconfirmed}{why}", newest - height)
}
