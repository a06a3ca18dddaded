//! `tally cluster status`: what each member tells of itself.

use std::path::{Path, PathBuf};
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

/// The members, and what each of them tells; none of one that does not answer.
type Told = (Roll, Vec<Option<Report>>);

/// Fails if less than half of the members answer, if none leads, if one has come to another result
/// than the others, or if their ledgers have parted.
pub fn run(folder: &Path, output: Output) -> Result<Exit> {
    // A node's own folder will do as well.
    let folders = match Plan::read(folder)? {
        Some(_) => vec![folder.to_owned()],
        None => node_folders(folder)?,
    };
    let (roll, reports) = first_answered(&folders)?;
    let newest = reports.iter().flatten().map(|report| report.height).max().unwrap_or(0);
    let up = reports.iter().flatten().count();
    let leader = reports.iter().flatten().find_map(|report| report.standing.leader);
    match output {
        Output::Json => println!("{}", json!({"leader": leader, "members": reports})),
        Output::Text => {
            println!(
                "member  address                 role      height      behind  unconfirmed  voted"
            );
            for ((id, known), report) in roll.0.iter().zip(&reports) {
                println!("{id:<7} {:<23} {}", known.address, line(report, newest));
            }
            print!("{}", types::printable::printable_page(&of_votes(&roll, &reports)));
        }
    }
    let orders = 2 * up > roll.0.len() && leader.is_some();
    let diverged = reports.iter().flatten().any(|report| report.votes.diverged.is_some());
    let forked = reports.iter().flatten().any(|report| !report.forks.is_empty());
    let agree = !diverged && !forked && deviating(&roll, &reports).is_empty();
    Ok(if orders && agree { Exit::Ok } else { Exit::Failed })
}

/// By the first folder that most members answer; else by the one that the most do. The others
/// refuse the keys of a member that was removed.
fn first_answered(folders: &[PathBuf]) -> Result<Told> {
    let mut best: Option<Told> = None;
    let answers = |told: &Told| told.1.iter().flatten().count();
    for data in folders {
        let told = ask(data)?;
        if 2 * answers(&told) > told.1.len() {
            return Ok(told);
        }
        if best.as_ref().is_none_or(|best| answers(best) < answers(&told)) {
            best = Some(told);
        }
    }
    best.context("there is no node to ask for")
}

/// Asks all members with the keys of one of them.
fn ask(data: &Path) -> Result<Told> {
    let (plan, secrets) = Plan::read(data)?.context("the folder is in no cluster")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let members = Arc::new(Members::new(plan.roll()?));
    let peers = Peers::new(&plan, &secrets, Arc::clone(&members))?;
    let ask = |roll: &Roll| {
        let calls: Vec<_> = roll.0.keys().map(|id| report(&peers, *id)).collect();
        runtime.block_on(async { futures::future::join_all(calls).await })
    };
    let (roll, reports) = (members.now(), ask(&members.now()));
    // Members may have come and gone since the folder was made.
    let newest = reports.iter().flatten().max_by_key(|report| report.height);
    match newest.map(|report| Roll::parse(&report.members)) {
        Some(Ok(named)) if named != roll => {
            members.set(named.clone());
            let reports = ask(&named);
            Ok((named, reports))
        }
        _ => Ok((roll, reports)),
    }
}

async fn report(peers: &Peers, id: u64) -> Option<Report> {
    let call = peers.call(id, Bytes::from_static(STATUS));
    let answer = tokio::time::timeout(PATIENCE, call).await.ok()?.ok()?;
    serde_json::from_slice(&answer).ok()
}

fn line(report: &Option<Report>, newest: u64) -> String {
    let Some(Report { standing, height, halted, votes, .. }) = report else {
        return "down".to_owned();
    };
    let role = match (halted, standing.leader) {
        (Some(_), _) => "halted",
        _ if standing.waits.is_some() => "waits",
        (None, Some(leader)) if leader == standing.id => "leader",
        (None, Some(_)) => "follower",
        (None, None) => "no leader",
    };
    let unconfirmed = standing.entries.saturating_sub(standing.committed);
    let why = halted.as_ref().or(standing.stopped.as_ref()).or(standing.waits.as_ref());
    let why = why.map(|why| format!("  {why}"));
    let why = types::printable::printable(&why.unwrap_or_default()).into_owned();
    let voted = votes.signed.as_ref().map_or("-".to_owned(), |(height, _)| height.to_string());
    format!("{role:<9} {height:<11} {:<7} {unconfirmed:<12} {voted}{why}", newest - height)
}

/// What is certified, and which members are not of one mind with the others.
fn of_votes(roll: &Roll, reports: &[Option<Report>]) -> String {
    let certified = reports.iter().flatten().filter_map(|it| it.votes.certified.as_ref()).max();
    let mut text = match certified {
        Some((height, result)) => format!("\ncertified  block {height}, result {result}\n"),
        None => "\ncertified  nothing yet\n".to_owned(),
    };
    let electors = reports.iter().flatten().find(|it| it.votes.needed > 0).map(|it| &it.votes);
    if let Some(why) = electors.and_then(|it| without_certificates(roll, &it.electors, it.needed)) {
        text += &format!("nothing more will be certified: {why}\n");
    }
    for (member, height, accusers) in deviating(roll, reports) {
        let accusers: Vec<String> = accusers.iter().map(u64::to_string).collect();
        let accusers = accusers.join(", ");
        text += &format!(
            "deviates   member {member}: of block {height} it signed another result than {accusers}\n"
        );
    }
    for (member, report) in roll.0.keys().zip(reports) {
        for fork in report.iter().flat_map(|report| &report.forks) {
            text += &format!("forked     member {member}: {fork}\n");
        }
    }
    let own = roll.0.keys().zip(reports);
    for (member, votes) in own.filter_map(|(id, report)| Some((id, &report.as_ref()?.votes))) {
        if let Some(why) = &votes.diverged {
            text += &format!("diverged   member {member}: {why}\n");
        }
        for (other, heard) in &votes.members {
            if heard.refused + heard.contradicting > 0 {
                let (refused, contradicting) = (heard.refused, heard.contradicting);
                text += &format!(
                    "lies       member {other}, as {member} has heard: {refused} votes that it did \
                     not sign, {contradicting} that contradict its own\n"
                );
            }
        }
    }
    text
}

/// Why no more results can be certified, if that is so: electors are the founders, for good.
pub fn without_certificates(roll: &Roll, electors: &[u64], needed: usize) -> Option<String> {
    let (left, gone): (Vec<u64>, Vec<u64>) =
        electors.iter().copied().partition(|elector| roll.0.contains_key(elector));
    let list = |members: &[u64]| members.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    (left.len() < needed).then(|| {
        format!(
            "a certificate takes the votes of {needed} of the founding members {}, and {} is none \
             any more",
            list(electors),
            list(&gone)
        )
    })
}

/// Members that more than half of all differ from; the highest such block, and who says so.
fn deviating(roll: &Roll, reports: &[Option<Report>]) -> Vec<(u64, u64, Vec<u64>)> {
    let of = |member: u64| {
        let accuse = |(accuser, report): (&u64, &Option<Report>)| {
            let height = report.as_ref()?.votes.members.get(&member)?.deviates?;
            Some((*accuser, height))
        };
        let found: Vec<(u64, u64)> = roll.0.keys().zip(reports).filter_map(accuse).collect();
        let height = found.iter().map(|(_, height)| *height).max()?;
        let accusers: Vec<u64> = found.into_iter().map(|(accuser, _)| accuser).collect();
        (2 * accusers.len() > roll.0.len()).then_some((member, height, accusers))
    };
    roll.0.keys().filter_map(|id| of(*id)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use order::Known;

    use super::*;
    use crate::cluster::{Heard, Standing};

    fn roll(members: u64) -> Roll {
        let known = |id: u64| (id, Known { key: [id as u8; 32], address: String::new() });
        Roll((1..=members).map(known).collect())
    }

    /// Of a node that has heard another result from these.
    fn report(deviating: &[u64]) -> Option<Report> {
        let heard = |id: &u64| (*id, Heard { deviates: Some(9), ..Heard::default() });
        let members: BTreeMap<u64, Heard> = deviating.iter().map(heard).collect();
        let (id, term, leader, entries, committed) = (1, 1, Some(1), 9, 9);
        let (stopped, waits) = (None, None);
        let standing =
            order_raft::Standing { id, term, leader, entries, committed, stopped, waits };
        let (electors, needed) = (vec![1, 2, 3], 3);
        let votes = Standing { members, electors, needed, ..Standing::default() };
        let (head, members) = (String::new(), String::new());
        let forks = Vec::new();
        Some(Report { standing, height: 9, head, halted: None, members, votes, forks })
    }

    #[test]
    fn a_member_deviates_if_most_say_so() {
        let roll = roll(3);
        let all = [report(&[2]), report(&[1, 3]), report(&[2])];
        assert_eq!(deviating(&roll, &all), [(2, 9, vec![1, 3])]);
        assert!(of_votes(&roll, &all).contains("deviates   member 2: of block 9"));
        assert!(deviating(&roll, &[report(&[2]), report(&[1, 3]), None]).is_empty());
        assert!(deviating(&roll, &[report(&[2]), report(&[]), report(&[])]).is_empty());
    }

    #[test]
    fn a_founder_that_is_gone_may_end_certificates() {
        let mut roll = roll(4);
        assert_eq!(without_certificates(&roll, &[1, 2, 3], 3), None);
        roll.0.remove(&2);
        let why = without_certificates(&roll, &[1, 2, 3], 3).unwrap();
        assert!(
            why.contains("takes the votes of 3 of the founding members 1, 2, 3, and 2"),
            "{why}"
        );
        assert_eq!(without_certificates(&roll, &[1, 2, 3], 2), None);
        let all = [report(&[]), report(&[]), report(&[])];
        assert!(of_votes(&roll, &all).contains("nothing more will be certified"));
    }
}
