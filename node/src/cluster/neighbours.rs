//! What the other members told last, asked each second: `tally_cluster` and the metrics show it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use cluster::{Membership, Peers};
use kit::sync::lock;
use order::Network;
use pgcatalog::Member;
use tokio::time::Instant;

use super::report::{Report, STATUS};
use super::status::{deviating, newest_term, role_of};

const LOOK_EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// What this node tells of itself.
pub type Own = Box<dyn Fn() -> Report + Send + Sync>;
/// How far each member's clock is ahead, by microseconds.
pub type ClocksAhead = Box<dyn Fn() -> BTreeMap<u64, i64> + Send + Sync>;

pub struct Neighbours {
    id: u64,
    peers: Arc<Peers>,
    own: Own,
    clocks: ClocksAhead,
    reported: Mutex<BTreeMap<u64, Reported>>,
}

#[derive(Default)]
struct Reported {
    report: Option<(Instant, Report)>,
    /// Why it did not answer last.
    silent: Option<String>,
}

impl Neighbours {
    pub fn new(id: u64, peers: Arc<Peers>, own: Own, clocks: ClocksAhead) -> Neighbours {
        Neighbours { id, peers, own, clocks, reported: Mutex::default() }
    }

    /// Until the runtime ends.
    pub async fn ask(self: Arc<Self>) {
        loop {
            let members = self.peers.members().now().0;
            self.lock().retain(|member, _| members.contains_key(member));
            let others = members.into_keys().filter(|member| *member != self.id);
            futures::future::join_all(others.map(|member| self.ask_one(member))).await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn ask_one(&self, member: u64) {
        let call = self.peers.call(member, Bytes::from_static(STATUS));
        let answer = match tokio::time::timeout(PATIENCE, call).await {
            Ok(Ok(answer)) => serde_json::from_slice(&answer).map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        };
        let mut all = self.lock();
        let reported = all.entry(member).or_default();
        match answer {
            Ok(report) => {
                *reported = Reported { report: Some((Instant::now(), report)), silent: None }
            }
            Err(why) => reported.silent = Some(why),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Reported>> {
        lock(&self.reported)
    }

    /// A row for each member that the ledger names, as far as this node knows.
    pub fn members(&self) -> Vec<Member> {
        let own = (self.own)();
        let mut membership = Membership::parse(&own.members).unwrap_or_default();
        if membership.0.is_empty() {
            membership = self.peers.members().now();
        }
        let clocks = (self.clocks)();
        let reported = self.lock();
        let known = |id: &u64| -> Option<Report> {
            match *id == self.id {
                true => Some(own.clone()),
                false => reported.get(id)?.report.as_ref().map(|(_, report)| report.clone()),
            }
        };
        let reports: Vec<Option<Report>> = membership.0.keys().map(known).collect();
        let newest = reports.iter().flatten().map(|it| (it.height, it.time_us)).max();
        let (height, time_us) = newest.unwrap_or_default();
        let (term, deviating) = (newest_term(&reports), deviating(&membership, &reports));
        let row = |((id, known), report): ((&u64, &order::Known), &Option<Report>)| {
            let silent = reported.get(id).and_then(|it| it.silent.clone());
            let heard = reported.get(id).and_then(|it| it.report.as_ref());
            let report = report.as_ref();
            let role = match (report, &silent) {
                (Some(_), Some(_)) | (None, _) => Member::SILENT,
                (Some(report), None) if report.halted.is_some() => "halted",
                (Some(report), None) => match role_of(&report.standing, term) {
                    "follower" if known.observes => "observer",
                    role => role,
                },
            };
            Member {
                number: *id,
                address: known.address.clone(),
                is_own: *id == self.id,
                role,
                term: report.and_then(|it| it.standing.raft()).map(|raft| raft.term),
                height: report.map(|it| it.height),
                lag_blocks: report.map(|it| height - it.height),
                lag_us: report.map(|it| time_us.saturating_sub(it.time_us).max(0)),
                voted: report.and_then(|it| it.votes.signed.as_ref()).map(|said| said.0),
                certified: report.and_then(|it| it.votes.certified.as_ref()).map(|said| said.0),
                deviating: deviating.iter().find(|it| it.0 == *id).map(|it| it.1),
                // An observer's clock is its own business, which it tells.
                clock_ahead_us: clocks.get(id).copied().or(report.map(|it| it.clock_ahead_us)),
                heard_us: match *id == self.id {
                    true => Some(0),
                    false => heard
                        .map(|(at, _)| i64::try_from(at.elapsed().as_micros()))
                        .and_then(Result::ok),
                },
                trouble: silent.or_else(|| report.and_then(Report::trouble)),
            }
        };
        membership.0.iter().zip(&reports).map(row).collect()
    }
}
