//! `tally cluster status`: what each member tells of itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use cluster::{Members, Membership, Peers, Plan};
use order::Network;
use serde_json::json;
use tokio::time::error::Elapsed;

use super::folders::{node_folder, node_folders};
use super::orderers::{OfTopic, Standing};
use super::report::{Report, STATUS};
use crate::backup::node_address;
use crate::cli::{self, Exit, Output};
use crate::{configure, http};

const PATIENCE: Duration = Duration::from_secs(3);

const NOTHING_LISTENS: &str = "down, or starting: nothing listens";

/// What a member tells; of one that does not answer, why.
type Told = Result<Report, String>;

/// The members, and what each of them tells.
pub type Reported = (Membership, Vec<Told>);

/// Fails if less than half of the members answer, if none orders, if one has come to another result
/// than the others, or if their ledgers have parted.
pub fn run(folder: &Path, output: Output) -> Result<Exit> {
    // A node's own folder will do as well.
    let folders = match Plan::read(folder)? {
        Some(_) => vec![folder.to_owned()],
        None => node_folders(folder)?,
    };
    let (membership, reported) = first_answered(&folders)?;
    let silent = |(id, report): (&u64, &Told)| match report {
        Err(why) if why == NOTHING_LISTENS => told_by_second_port(folder, *id),
        Err(why) => why.clone(),
        Ok(_) => String::new(),
    };
    let silent: Vec<String> = membership.0.keys().zip(&reported).map(silent).collect();
    let reports: Vec<Option<Report>> = reported.into_iter().map(Result::ok).collect();
    let newest = reports.iter().flatten().map(|report| report.height).max().unwrap_or(0);
    let voters = membership.voters();
    let is_up = |(id, report): &(&u64, &Option<Report>)| voters.contains(id) && report.is_some();
    let up = membership.0.keys().zip(&reports).filter(is_up).count();
    let leader = leader_of(&reports);
    match output {
        Output::Json => {
            let ids: Vec<u64> = membership.0.keys().copied().collect();
            let all = json!({"leader": leader, "ids": ids, "members": reports, "silent": silent});
            println!("{all}");
        }
        Output::Text => {
            println!(
                "member  address                 role      height      behind  unconfirmed  voted"
            );
            let term = newest_term(&reports);
            for (((id, known), report), silent) in membership.0.iter().zip(&reports).zip(&silent) {
                let line = match report {
                    Some(report) if known.observes => {
                        line(report, newest, term).replacen("follower", "observer", 1)
                    }
                    Some(report) => line(report, newest, term),
                    None => types::printable::printable(silent).into_owned(),
                };
                println!("{id:<7} {:<23} {line}", known.address);
            }
            let page = of_topic(&reports) + &of_votes(&membership, &reports);
            print!("{}", types::printable::printable_page(&page));
        }
    }
    let by_itself = reports.iter().flatten().any(|report| report.standing.orders_alone());
    let orders = 2 * up > voters.len() && (leader.is_some() || by_itself);
    let diverged = reports.iter().flatten().any(|report| report.votes.diverged.is_some());
    let forked = reports.iter().flatten().any(|report| !report.forks.is_empty());
    let agree = !diverged && !forked && deviating(&membership, &reports).is_empty();
    Ok(if orders && agree { Exit::Ok } else { Exit::Failed })
}

/// By the first folder that most members answer; else by the one that the most do. The others
/// refuse the keys of a member that was removed.
pub fn first_answered(folders: &[PathBuf]) -> Result<Reported> {
    let mut best: Option<Reported> = None;
    let answers = |reported: &Reported| reported.1.iter().filter(|it| it.is_ok()).count();
    for data in folders {
        let reported = ask(data)?;
        if 2 * answers(&reported) > reported.1.len() {
            return Ok(reported);
        }
        if best.as_ref().is_none_or(|best| answers(best) < answers(&reported)) {
            best = Some(reported);
        }
    }
    best.context("there is no node to ask for")
}

/// Asks all members with the keys of one of them.
fn ask(data: &Path) -> Result<Reported> {
    let (plan, secrets) = Plan::read(data)?.context("the folder is in no cluster")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let members = Arc::new(Members::new(plan.membership()?));
    let peers = Peers::new(&plan, &secrets, Arc::clone(&members))?;
    let ask = |membership: &Membership| {
        let calls: Vec<_> = membership.0.keys().map(|id| report(&peers, *id)).collect();
        runtime.block_on(async { futures::future::join_all(calls).await })
    };
    let (membership, reports) = (members.now(), ask(&members.now()));
    // Members may have come and gone since the folder was made.
    let newest = reports.iter().filter_map(|it| it.as_ref().ok()).max_by_key(|it| it.height);
    match newest.map(|report| Membership::parse(&report.members)) {
        Some(Ok(named)) if named != membership => {
            members.set(named.clone());
            let reports = ask(&named);
            Ok((named, reports))
        }
        _ => Ok((membership, reports)),
    }
}

async fn report(peers: &Peers, id: u64) -> Told {
    let call = peers.call(id, Bytes::from_static(STATUS));
    let unreachable = "unreachable: it does not answer; it is frozen, or cut off".to_owned();
    let answer = match tokio::time::timeout(PATIENCE, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err(match error.kind() {
                ErrorKind::ConnectionRefused => NOTHING_LISTENS.to_owned(),
                // TLS, the greeting or the answer took too long.
                _ if error.get_ref().is_some_and(|it| it.is::<Elapsed>()) => unreachable,
                _ => format!("unreachable: {error}"),
            });
        }
        Err(_) => return Err(unreachable),
    };
    serde_json::from_slice(&answer).map_err(|error| format!("tells what cannot be read: {error}"))
}

/// A node opens its second port first, and talks to the others when it has read its ledger. Where
/// its folder is at hand, so is that port's address.
fn told_by_second_port(folder: &Path, id: u64) -> String {
    let address = || {
        let data = node_folder(folder, u16::try_from(id).ok()?);
        let data = data.is_dir().then(|| data.to_str().map(str::to_owned))?;
        let flags = cli::Settings { data, ..cli::Settings::default() };
        node_address(&configure::resolve(&flags).ok()?.settings).ok()
    };
    let Some(address) = address() else { return NOTHING_LISTENS.to_owned() };
    match http::get(address, "/readyz", Some(PATIENCE)) {
        Ok(answer) if answer.body.starts_with("starting") => {
            "starting: it reads its ledger".to_owned()
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "down: nothing listens".to_owned()
        }
        _ => NOTHING_LISTENS.to_owned(),
    }
}

fn raft_of(reports: &[Option<Report>]) -> impl Iterator<Item = &order_raft::Standing> {
    reports.iter().flatten().filter_map(|report| report.standing.raft())
}

/// The newest term that a member knows.
pub fn newest_term(reports: &[Option<Report>]) -> u64 {
    raft_of(reports).map(|raft| raft.term).max().unwrap_or(0)
}

/// As the members of the newest term say that can order.
fn leader_of(reports: &[Option<Report>]) -> Option<u64> {
    let term = newest_term(reports);
    let can = |raft: &&order_raft::Standing| raft.term == term && raft.hindered.is_none();
    raft_of(reports).filter(can).find_map(|raft| raft.leader)
}

fn line(report: &Report, newest: u64, term: u64) -> String {
    let Report { standing, height, halted, votes, .. } = report;
    let role = match halted {
        Some(_) => "halted",
        None => role_of(standing, term),
    };
    let unconfirmed = standing.unconfirmed(*height);
    let deposed = standing
        .raft()
        .filter(|_| role == "deposed")
        .map(|raft| format!("it led term {}, and does not know of term {term} yet", raft.term));
    let why = halted.as_deref().or(deposed.as_deref()).or(standing.trouble());
    let why = why.or(report.clock_trouble.as_deref());
    let why = why.map(|why| format!("  {why}"));
    let why = types::printable::printable(&why.unwrap_or_default()).into_owned();
    let voted = votes.signed.as_ref().map_or("-".to_owned(), |(height, _)| height.to_string());
    format!("{role:<9} {height:<11} {:<7} {unconfirmed:<12} {voted}{why}", newest - height)
}

pub fn role_of(standing: &Standing, term: u64) -> &'static str {
    let raft = match standing {
        Standing::Raft(raft) => raft,
        Standing::Kafka(topic) if topic.stopped.is_some() => return "stopped",
        Standing::Kafka(topic) if topic.away.is_some() => return "cut off",
        Standing::Kafka(_) => return "orders",
        Standing::CometBft(comet) if comet.complaint.is_some() => return "cut off",
        Standing::CometBft(_) => return "validator",
    };
    let (own, hindered) = (raft.leader == Some(raft.id), raft.hindered.is_some());
    match raft.leader {
        _ if raft.waits.is_some() => "waits",
        _ if own && raft.term < term => "deposed",
        _ if own && hindered => "cut off",
        _ if own => "leader",
        Some(_) => "follower",
        None => "no leader",
    }
}

/// By which topic the ledger is ordered, if it is by one.
fn of_topic(reports: &[Option<Report>]) -> String {
    let topics = reports.iter().flatten().filter_map(|report| match &report.standing {
        Standing::Kafka(topic) => Some(topic),
        Standing::Raft(_) | Standing::CometBft(_) => None,
    });
    topics.max_by_key(|topic| topic.offset).map_or(String::new(), |topic| {
        let OfTopic { topic, brokers, offset, .. } = topic;
        format!(
            "\norder      topic {topic} at {}, read up to record {offset}\n",
            brokers.join(", ")
        )
    })
}

/// What is certified, and which members are not of one mind with the others.
fn of_votes(membership: &Membership, reports: &[Option<Report>]) -> String {
    let certified = reports.iter().flatten().filter_map(|it| it.votes.certified.as_ref()).max();
    let mut text = match certified {
        Some((height, result)) => format!("\ncertified  block {height}, result {result}\n"),
        None => "\ncertified  nothing yet\n".to_owned(),
    };
    let electors = reports.iter().flatten().find(|it| it.votes.needed > 0).map(|it| &it.votes);
    if let Some(why) =
        electors.and_then(|it| without_certificates(membership, &it.electors, it.needed))
    {
        text += &format!("nothing more will be certified: {why}\n");
    }
    for (member, height, accusers) in deviating(membership, reports) {
        let accusers: Vec<String> = accusers.iter().map(u64::to_string).collect();
        let accusers = accusers.join(", ");
        text += &format!(
            "deviates   member {member}: of block {height} it signed another result than {accusers}\n"
        );
    }
    for (member, report) in membership.0.keys().zip(reports) {
        for fork in report.iter().flat_map(|report| &report.forks) {
            text += &format!("forked     member {member}: {fork}\n");
        }
    }
    let own = membership.0.keys().zip(reports);
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

/// Why no more results can be certified, if that is so: those who follow electors are certified by
/// them.
pub fn without_certificates(
    membership: &Membership,
    electors: &[u64],
    needed: usize,
) -> Option<String> {
    let (left, gone): (Vec<u64>, Vec<u64>) =
        electors.iter().copied().partition(|elector| membership.0.contains_key(elector));
    let list = |members: &[u64]| members.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    (left.len() < needed).then(|| {
        format!(
            "a certificate takes the votes of {needed} of the members {}, and {} is none any more",
            list(electors),
            list(&gone)
        )
    })
}

/// Members that more than half of all differ from; the highest such block, and who says so.
pub fn deviating(membership: &Membership, reports: &[Option<Report>]) -> Vec<(u64, u64, Vec<u64>)> {
    let of = |member: u64| {
        let accuse = |(accuser, report): (&u64, &Option<Report>)| {
            let height = report.as_ref()?.votes.members.get(&member)?.deviates?;
            Some((*accuser, height))
        };
        let found: Vec<(u64, u64)> = membership.0.keys().zip(reports).filter_map(accuse).collect();
        let height = found.iter().map(|(_, height)| *height).max()?;
        let accusers: Vec<u64> = found.into_iter().map(|(accuser, _)| accuser).collect();
        (2 * accusers.len() > membership.0.len()).then_some((member, height, accusers))
    };
    membership.0.keys().filter_map(|id| of(*id)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use order::Known;

    use super::*;
    use cluster::votes::heard::{self, Heard};

    fn membership(members: u64) -> Membership {
        let known =
            |id: u64| (id, Known { key: [id as u8; 32], address: String::new(), observes: false });
        Membership((1..=members).map(known).collect())
    }

    fn standing(id: u64, term: u64, leader: Option<u64>) -> order_raft::Standing {
        let (entries, committed, stopped, waits, hindered) = (9, 9, None, None, None);
        order_raft::Standing { id, term, leader, entries, committed, stopped, waits, hindered }
    }

    fn raft(report: &mut Option<Report>) -> &mut order_raft::Standing {
        match report.as_mut().map(|report| &mut report.standing) {
            Some(Standing::Raft(raft)) => raft,
            other => panic!("{other:?}"),
        }
    }

    fn of_kafka(id: u64, away: Option<&str>) -> Option<Report> {
        let (brokers, stopped) = (vec!["a:9092".to_owned()], None);
        let (topic, away) = ("bank".to_owned(), away.map(str::to_owned));
        let topic = OfTopic { topic, brokers, offset: 40 + id, cut: 12, away, stopped };
        report(&[]).map(|report| Report { standing: Standing::Kafka(topic), ..report })
    }

    #[test]
    fn members_of_a_topic_lead_none_and_each_orders() {
        let all = [of_kafka(1, None), of_kafka(2, Some("connection refused"))];
        let lines: Vec<String> = all.iter().flatten().map(|it| line(it, 9, 0)).collect();
        assert_eq!(lines[0], "orders    9           0       3            -");
        assert_eq!(lines[1], "cut off   9           0       3            -  connection refused");
        assert_eq!(leader_of(&all), None);
        let can: Vec<bool> =
            all.iter().flatten().map(|report| report.standing.orders_alone()).collect();
        assert_eq!(can, [true, false]);
        assert_eq!(of_topic(&all), "\norder      topic bank at a:9092, read up to record 42\n");
        let standing = &all[0].as_ref().unwrap().standing;
        let reported = serde_json::to_string(standing).unwrap();
        assert_eq!(serde_json::from_str::<Standing>(&reported).unwrap(), *standing);
    }

    #[test]
    fn there_are_never_two_leaders() {
        let mut all = [report(&[]), report(&[]), report(&[])];
        let standings = [standing(1, 4, Some(1)), standing(2, 5, Some(2)), standing(3, 5, Some(2))];
        for (report, standing) in all.iter_mut().flatten().zip(standings) {
            report.standing = Standing::Raft(standing);
        }
        let lines = |all: &[Option<Report>]| -> Vec<String> {
            let term = newest_term(all);
            let first = |report: &Report| line(report, 9, term).chars().take(9).collect();
            all.iter().flatten().map(first).collect()
        };
        assert_eq!(lines(&all), ["deposed  ", "leader   ", "follower "]);
        assert_eq!(leader_of(&all), Some(2));
        raft(&mut all[1]).hindered = Some("too few answer".to_owned());
        assert_eq!(lines(&all), ["deposed  ", "cut off  ", "follower "]);
        raft(&mut all[2]).hindered = Some("heard of 9 s ago".to_owned());
        assert_eq!(leader_of(&all), None);
    }

    /// Of a node that has heard another result from these.
    fn report(deviating: &[u64]) -> Option<Report> {
        let heard = |id: &u64| (*id, Heard { deviates: Some(9), ..Heard::default() });
        let members: BTreeMap<u64, Heard> = deviating.iter().map(heard).collect();
        let standing = Standing::Raft(standing(1, 1, Some(1)));
        let (electors, needed) = (vec![1, 2, 3], 3);
        let votes = heard::Standing { members, electors, needed, ..heard::Standing::default() };
        let (head, members) = (String::new(), String::new());
        Some(Report {
            standing,
            height: 9,
            head,
            time_us: 0,
            halted: None,
            members,
            votes,
            clock_ahead_us: 0,
            clock_trouble: None,
            forks: Vec::new(),
        })
    }

    #[test]
    fn a_member_deviates_if_most_say_so() {
        let membership = membership(3);
        let all = [report(&[2]), report(&[1, 3]), report(&[2])];
        assert_eq!(deviating(&membership, &all), [(2, 9, vec![1, 3])]);
        assert!(of_votes(&membership, &all).contains("deviates   member 2: of block 9"));
        assert!(deviating(&membership, &[report(&[2]), report(&[1, 3]), None]).is_empty());
        assert!(deviating(&membership, &[report(&[2]), report(&[]), report(&[])]).is_empty());
    }

    #[test]
    fn a_founder_that_is_gone_may_end_certificates() {
        let mut membership = membership(4);
        assert_eq!(without_certificates(&membership, &[1, 2, 3], 3), None);
        membership.0.remove(&2);
        let why = without_certificates(&membership, &[1, 2, 3], 3).unwrap();
        assert!(why.contains("takes the votes of 3 of the members 1, 2, 3, and 2"), "{why}");
        assert_eq!(without_certificates(&membership, &[1, 2, 3], 2), None);
        let all = [report(&[]), report(&[]), report(&[])];
        assert!(of_votes(&membership, &all).contains("nothing more will be certified"));
    }
}
