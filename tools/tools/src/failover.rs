//! `tally failover`: how long writes are away when the member that leads is killed, and whether
//! anything that was acknowledged is lost.
//!
//! ```text
//! a writer at another member   INSERT ─ INSERT ─ ─ ─ ─ ─ ─ ─ ─ INSERT ─ INSERT … INSERT
//!                                         ▲ SIGKILL for the leader                  ▲ two for each
//!                                         └─ away: the longest pause in all this ───┘   member
//! ```
//!
//! By CometBFT the member whose block came last is killed. Its turn to propose comes again some
//! blocks later, so a pause may begin with any of the next ones; of a cluster by Raft it is the
//! first. The one that was killed starts again and catches up before the next kill. At the end each
//! row that was acknowledged has to be at every member, and every folder has to verify.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use node::cli::{Exit, Output};
use node::progress::Progress;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::arguments;
use crate::demo::page::grouped;
use crate::demo::pgbench::Target;
use crate::members::Members;
use crate::node_process::{path, run_tally};

/// Between two statements.
const PAUSE: Duration = Duration::from_millis(5);
/// Under load before each kill.
const CALM: Duration = Duration::from_millis(500);
const AWAY_MAX: Duration = Duration::from_secs(60);
/// How often it is asked who leads, until that is another one than the writer's.
const ASKED_MAX: u32 = 50;

/// What is printed, and written down.
#[derive(Serialize, Default, Debug)]
struct Report {
    order: String,
    members: u16,
    kills_wanted: u32,
    kills: Vec<Kill>,
    away_ms_p50: f64,
    away_ms_p90: f64,
    away_ms_max: f64,
    /// By docs/cluster.md and docs/cometbft.md.
    promised_ms: f64,
    kills_within_promise: usize,
    /// Rows of which the writer was told that they are there.
    acknowledged: usize,
    /// Of these, at the member that lacks most.
    lost: usize,
    /// Where rows were looked for, and whose folders verify.
    members_compared: usize,
    folders_verified: usize,
    /// Why it ended before its time.
    ended_by: Option<String>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
struct Kill {
    member: u16,
    /// The longest that no row was acknowledged for.
    away_ms: f64,
}

impl Report {
    fn holds(&self) -> bool {
        let members = usize::from(self.members);
        self.ended_by.is_none()
            && self.kills.len() == self.kills_wanted as usize
            && self.acknowledged >= self.kills.len()
            && self.lost == 0
            && self.members_compared == members
            && self.folders_verified == members
    }

    fn take_times(&mut self) {
        let mut away: Vec<f64> = self.kills.iter().map(|kill| kill.away_ms).collect();
        away.sort_by(f64::total_cmp);
        self.away_ms_p50 = median(&away);
        self.away_ms_p90 = least_of_most(&away, 90);
        self.away_ms_max = away.last().copied().unwrap_or(0.0);
        self.kills_within_promise = away.iter().filter(|ms| **ms <= self.promised_ms).count();
    }

    fn line(&self) -> String {
        let Report { order, members, kills, kills_wanted, lost, .. } = self;
        let (count, verified) = (kills.len(), self.folders_verified);
        let verdict = if self.holds() { "HOLDS" } else { "FAILED" };
        let acknowledged = grouped(self.acknowledged as u64);
        let ms = |ms: f64| grouped(ms.round() as u64);
        let rows = match self.members_compared {
            0 => format!("{acknowledged} acknowledged rows were not looked for"),
            _ => format!("{lost} of {acknowledged} acknowledged rows lost"),
        };
        let mut line = format!(
            "{verdict}: {order}, {members} members, {count} of {kills_wanted} kills: {rows}, \
             {verified} of {members} folders verify\n\
             writes away {} ms in the median, {} ms in nine of ten, {} ms at worst; {} of {count} \
             within {} ms",
            ms(self.away_ms_p50),
            ms(self.away_ms_p90),
            ms(self.away_ms_max),
            self.kills_within_promise,
            ms(self.promised_ms),
        );
        if let Some(why) = &self.ended_by {
            line.push_str(&format!("\nended before its time: {why}"));
        }
        line
    }
}

/// Of sorted numbers.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The least that so many percent of sorted numbers are not above.
fn least_of_most(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

pub fn run(arguments: &arguments::Failover, output: Output) -> Result<Exit> {
    let is_comet = arguments.order == "cometbft";
    let mut report = Report {
        order: arguments.order.clone(),
        members: arguments.nodes.unwrap_or(if is_comet { 4 } else { 3 }),
        kills_wanted: arguments.kills,
        promised_ms: if is_comet { 5_000.0 } else { 2_000.0 },
        ..Report::default()
    };
    let folder = tempfile::Builder::new().prefix("tally-failover-").tempdir()?;
    let ended = kill_all(arguments, folder.path(), &mut report);
    report.ended_by = ended.err().map(|why| format!("{why:#}"));
    report.take_times();
    let json = serde_json::to_string(&report)?;
    if let Some(file) = &arguments.report {
        std::fs::write(file, &json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if !report.holds() {
        eprintln!("folders and logs are kept in {}", folder.keep().display());
    }
    match output {
        Output::Text => println!("{}", report.line()),
        Output::Json => println!("{json}"),
    }
    Ok(if report.holds() { Exit::Ok } else { Exit::Failed })
}

fn kill_all(arguments: &arguments::Failover, folder: &Path, report: &mut Report) -> Result<()> {
    let program = format!("cometbft={}", path(&arguments.cometbft)?);
    let of_order = match &*report.order {
        "cometbft" => vec!["--order", "cometbft", "--set", &program],
        other => vec!["--order", other],
    };
    ensure!(report.members >= 3, "of fewer than three members none can be missed");
    let mut members = Members::start(folder, report.members, report.members, &of_order)?;
    let runtime = Runtime::new()?;
    let table = "CREATE TABLE probes (id bigint PRIMARY KEY)";
    let client = runtime.block_on(members.target(1).connect())?;
    runtime.block_on(client.batch_execute(table))?;
    drop(client);

    let (order, wanted) = (&report.order, report.kills_wanted);
    let step = Progress::begin(&format!("{wanted} kills of who leads by {order}"));
    let mut acknowledged = BTreeSet::new();
    let mut killed = Ok(());
    for kill in 0..report.kills_wanted {
        step.advance(f64::from(kill) / f64::from(report.kills_wanted));
        let done = kill_once(&mut members, &runtime, kill, &mut acknowledged);
        match done.with_context(|| format!("kill {} of {}", kill + 1, report.kills_wanted)) {
            Ok(kill) => report.kills.push(kill),
            Err(why) => {
                killed = Err(why);
                break;
            }
        }
    }
    step.end("");
    report.acknowledged = acknowledged.len();
    killed?;
    compare(&mut members, &runtime, &acknowledged, report)
}

/// Each member has every row that was acknowledged, and a sound folder.
fn compare(
    members: &mut Members,
    runtime: &Runtime,
    acknowledged: &BTreeSet<i64>,
    report: &mut Report,
) -> Result<()> {
    let step = Progress::begin("looking for what was acknowledged at every member");
    members.settle_heights()?;
    for member in members.running() {
        let client = runtime.block_on(members.target(member).connect())?;
        let rows = runtime.block_on(client.query("SELECT id FROM probes", &[]))?;
        let there: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        report.lost = report.lost.max(acknowledged.difference(&there).count());
        report.members_compared += 1;
    }
    for member in members.running() {
        ensure!(members.stop(member)?, "member {member} did not end well");
    }
    for member in 1..=report.members {
        let verified = run_tally(&["verify", path(&members.data(member))?])?;
        ensure!(verified.success, "the folder of member {member}: {}", verified.output);
        report.folders_verified += 1;
    }
    step.end("");
    Ok(())
}

/// Who was killed, and how long writes were away.
fn kill_once(
    members: &mut Members,
    runtime: &Runtime,
    kill: u32,
    acknowledged: &mut BTreeSet<i64>,
) -> Result<Kill> {
    members.settle_heights()?;
    let leader = members.leader()?.context("no member leads")?;
    let other = members.running().into_iter().find(|it| *it != leader).context("it is alone")?;
    let mut writer = Writer::start(runtime, &members.target(other), i64::from(kill) << 32);
    let away = kill_under(members, other, &mut writer);
    acknowledged.extend(writer.end(runtime)?);
    let (member, away) = away?;
    members.launch(member, &[])?;
    members.wait_until_ready(member)?;
    Ok(Kill { member, away_ms: away.as_secs_f64() * 1e3 })
}

/// A writer at member `other` goes on; who leads then is killed.
fn kill_under(members: &mut Members, other: u16, writer: &mut Writer) -> Result<(u16, Duration)> {
    let since = Instant::now();
    writer.longest_pause(since, 1)?;
    std::thread::sleep(CALM);
    let leader = leader_but(members, other)?;
    let killed = Instant::now();
    members.kill(leader)?;
    let answers = 2 * (members.running().len() + 1);
    Ok((leader, writer.longest_pause(killed, answers)?))
}

/// Proposers take turns; a leader by Raft that moved to the writer's member would stay there.
fn leader_but(members: &Members, other: u16) -> Result<u16> {
    for _ in 0..ASKED_MAX {
        if let Some(leader) = members.leader()?.filter(|it| *it != other) {
            return Ok(leader);
        }
        std::thread::sleep(PAUSE);
    }
    bail!("member {other}, which the writer is at, has come to lead")
}

/// Of a row that is acknowledged.
#[derive(Clone, Copy)]
struct Acknowledged {
    sent: Instant,
    at: Instant,
}

/// One client that writes row after row.
struct Writer {
    ends: Arc<AtomicBool>,
    answers: UnboundedReceiver<Acknowledged>,
    task: tokio::task::JoinHandle<Vec<i64>>,
}

impl Writer {
    fn start(runtime: &Runtime, target: &Target, from: i64) -> Writer {
        let (tell, answers) = unbounded_channel();
        let (ends, target) = (Arc::new(AtomicBool::new(false)), target.clone());
        let stop = Arc::clone(&ends);
        let task = runtime.spawn(async move {
            let (mut reported, mut id) = (Vec::new(), from);
            while !stop.load(Ordering::Relaxed) {
                // Its member may close the session, and take another one later.
                let Ok(client) = target.connect().await else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                while !client.is_closed() && !stop.load(Ordering::Relaxed) {
                    let sent = Instant::now();
                    let insert = format!("INSERT INTO probes VALUES ({id})");
                    if client.batch_execute(&insert).await.is_ok() {
                        reported.push(id);
                        let _ = tell.send(Acknowledged { sent, at: Instant::now() });
                    }
                    id += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
            reported
        });
        Writer { ends, answers, task }
    }

    /// Between a moment and so many answers to what was sent after it.
    fn longest_pause(&mut self, moment: Instant, answers: usize) -> Result<Duration> {
        let mut after = Vec::new();
        while after.len() < answers {
            while let Ok(answer) = self.answers.try_recv() {
                after.push(answer);
            }
            after.retain(|answer| answer.sent >= moment);
            let last = after.last().map_or(moment, |answer| answer.at);
            ensure!(last.elapsed() < AWAY_MAX, "nothing is written for {AWAY_MAX:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(longest_pause(moment, after.iter().map(|answer| answer.at)))
    }

    fn end(self, runtime: &Runtime) -> Result<Vec<i64>> {
        self.ends.store(true, Ordering::Relaxed);
        Ok(runtime.block_on(self.task)?)
    }
}

fn longest_pause(from: Instant, answers: impl Iterator<Item = Instant>) -> Duration {
    let pauses = answers.scan(from, |last, at| Some(at - std::mem::replace(last, at)));
    pauses.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let kill = |away_ms| Kill { member: 1, away_ms };
        Report {
            members: 3,
            kills_wanted: 4,
            kills: [900.0, 2_100.0, 1_000.0, 1_200.0].map(kill).to_vec(),
            promised_ms: 2_000.0,
            acknowledged: 12_345,
            members_compared: 3,
            folders_verified: 3,
            order: "raft".to_owned(),
            ..Report::default()
        }
    }

    #[test]
    fn it_holds_only_if_all_was_done_and_nothing_is_lost() {
        assert!(report().holds());
        let spoil: [fn(&mut Report); 6] = [
            |it| it.lost = 1,
            |it| it.kills.truncate(3),
            |it| it.acknowledged = 3,
            |it| it.members_compared = 2,
            |it| it.folders_verified = 2,
            |it| it.ended_by = Some("a member did not start".to_owned()),
        ];
        for spoil in spoil {
            let mut spoilt = report();
            spoil(&mut spoilt);
            assert!(!spoilt.holds(), "{spoilt:?}");
            assert!(spoilt.line().starts_with("FAILED: raft, 3 members, "), "{}", spoilt.line());
        }
    }

    #[test]
    fn its_line_says_the_median_and_the_worst() {
        let mut report = report();
        report.take_times();
        let line = "HOLDS: raft, 3 members, 4 of 4 kills: 0 of 12,345 acknowledged rows lost, 3 of \
                    3 folders verify\nwrites away 1,100 ms in the median, 2,100 ms in nine of ten, \
                    2,100 ms at worst; 3 of 4 within 2,000 ms";
        assert_eq!(report.line(), line);
        let sorted: Vec<f64> = (1..=50).map(f64::from).collect();
        assert_eq!((median(&sorted), least_of_most(&sorted, 90)), (25.5, 45.0));
        assert_eq!(median(&sorted[..49]), 25.0);
        assert_eq!((median(&[]), least_of_most(&[], 90)), (0.0, 0.0));
    }

    /// Also one that begins after the first answer, when a proposer's turn comes that is gone.
    #[test]
    fn the_longest_pause_counts_wherever_it_is() {
        let from = Instant::now();
        let at = |ms: u64| from + Duration::from_millis(ms);
        let pause = |answers: &[u64]| longest_pause(from, answers.iter().map(|ms| at(*ms)));
        assert_eq!(pause(&[30, 40, 1_040, 1_050]), Duration::from_millis(1_000));
        assert_eq!(pause(&[700, 710]), Duration::from_millis(700));
        assert_eq!(pause(&[]), Duration::ZERO);
    }
}
