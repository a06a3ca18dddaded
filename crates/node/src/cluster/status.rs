//! `tally cluster status`: what each member tells of itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use cluster::{Members, Peers, Plan, Roll};
use order_raft::Network;
use serde_json::json;
use tokio::time::error::Elapsed;

use super::folders::node_folders;
use super::join::{Report, STATUS};
use crate::cli::{Exit, Output};

const PATIENCE: Duration = Duration::from_secs(3);

/// The members, and what each of them tells; of one that does not answer, why.
type Told = (Roll, Vec<Result<Report, String>>);

/// Fails if less than half of the members answer, if none leads, if one has come to another result
/// than the others, or if their ledgers have parted.
pub fn run(folder: &Path, output: Output) -> Result<Exit> {
    // A node's own folder will do as well.
    let folders = match Plan::read(folder)? {
        Some(_) => vec![folder.to_owned()],
        None => node_folders(folder)?,
    };
    let (roll, told) = first_answered(&folders)?;
    let silent: Vec<String> =
        told.iter().map(|it| it.as_ref().err().cloned().unwrap_or_default()).collect();
    let reports: Vec<Option<Report>> = told.into_iter().map(Result::ok).collect();
    let newest = reports.iter().flatten().map(|report| report.height).max().unwrap_or(0);
    let up = reports.iter().flatten().count();
    let leader = leader_of(&reports);
    match output {
        Output::Json => {
            println!("{}", json!({"leader": leader, "members": reports, "silent": silent}));
        }
        Output::Text => {
            println!(
                "member  address                 role      height      behind  unconfirmed  voted"
            );
            let term = newest_term(&reports);
            for (((id, known), report), silent) in roll.0.iter().zip(&reports).zip(&silent) {
                let line = match report {
                    Some(report) => line(report, newest, term),
                    None => types::printable::printable(silent).into_owned(),
                };
                println!("{id:<7} {:<23} {line}", known.address);
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
    let answers = |told: &Told| told.1.iter().filter(|it| it.is_ok()).count();
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
    let newest = reports.iter().filter_map(|it| it.as_ref().ok()).max_by_key(|it| it.height);
    match newest.map(|report| Roll::parse(&report.members)) {
        Some(Ok(named)) if named != roll => {
            members.set(named.clone());
            let reports = ask(&named);
            Ok((named, reports))
        }
        _ => Ok((roll, reports)),
    }
}

async fn report(peers: &Peers, id: u64) -> Result<Report, String> {
    let call = peers.call(id, Bytes::from_static(STATUS));
    let unreachable = "unreachable: it does not answer; it is frozen, or cut off".to_owned();
    let answer = match tokio::time::timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err(match error.kind() {
                ErrorKind::ConnectionRefused => "down, or starting: nothing listens".to_owned(),
                // TLS, the greeting or the answer took too long.
                _ if error.get_ref().is_some_and(|it| it.is::<Elapsed>()) => unreachable,
                _ => format!("unreachable: {error}"),
            });
        }
        Err(_) => return Err(unreachable),
    };
    serde_json::from_slice(&answer).map_err(|error| format!("tells what cannot be read: {error}"))
}

/// The newest term that a member knows.
fn newest_term(reports: &[Option<Report>]) -> u64 {
    reports.iter().flatten().map(|report| report.standing.term).max().unwrap_or(0)
}

/// As the members of the newest term say that can order.
fn leader_of(reports: &[Option<Report>]) -> Option<u64> {
    let term = newest_term(reports);
    let can = |report: &&Report| report.standing.term == term && report.standing.hindered.is_none();
    reports.iter().flatten().filter(can).find_map(|report| report.standing.leader)
}

fn line(report: &Report, newest: u64, term: u64) -> String {
    let Report { standing, height, halted, votes, .. } = report;
    let (own, hindered) = (standing.leader == Some(standing.id), standing.hindered.is_some());
    let role = match (halted, standing.leader) {
        (Some(_), _) => "halted",
        _ if standing.waits.is_some() => "waits",
        (None, _) if own && standing.term < term => "deposed",
        (None, _) if own && hindered => "cut off",
        (None, _) if own => "leader",
        (None, Some(_)) => "follower",
        (None, None) => "no leader",
    };
    let unconfirmed = standing.entries.saturating_sub(standing.committed);
    let deposed = format!("it led term {}, and does not know of term {term} yet", standing.term);
    let deposed = (role == "deposed").then_some(&deposed);
    let why = halted.as_ref().or(standing.stopped.as_ref()).or(standing.waits.as_ref());
    let why = why.or(deposed).or(standing.hindered.as_ref()).map(|why| format!("  {why}"));
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

    fn standing(id: u64, term: u64, leader: Option<u64>) -> order_raft::Standing {
        let (entries, committed, stopped, waits, hindered) = (9, 9, None, None, None);
        order_raft::Standing { id, term, leader, entries, committed, stopped, waits, hindered }
    }

    #[test]
    fn there_are_never_two_leaders() {
        let mut all = [report(&[]), report(&[]), report(&[])];
        let standings = [standing(1, 4, Some(1)), standing(2, 5, Some(2)), standing(3, 5, Some(2))];
        for (report, standing) in all.iter_mut().flatten().zip(standings) {
            report.standing = standing;
        }
        let lines = |all: &[Option<Report>]| -> Vec<String> {
            let term = newest_term(all);
            let first = |report: &Report| line(report, 9, term).chars().take(9).collect();
            all.iter().flatten().map(first).collect()
        };
        assert_eq!(lines(&all), ["deposed  ", "leader   ", "follower "]);
        assert_eq!(leader_of(&all), Some(2));
        all[1].as_mut().unwrap().standing.hindered = Some("too few answer".to_owned());
        assert_eq!(lines(&all), ["deposed  ", "cut off  ", "follower "]);
        all[2].as_mut().unwrap().standing.hindered = Some("heard of 9 s ago".to_owned());
        assert_eq!(leader_of(&all), None);
    }

    /// Of a node that has heard another result from these.
    fn report(deviating: &[u64]) -> Option<Report> {
        let heard = |id: &u64| (*id, Heard { deviates: Some(9), ..Heard::default() });
        let members: BTreeMap<u64, Heard> = deviating.iter().map(heard).collect();
        let standing = standing(1, 1, Some(1));
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
