//! Nodes of a cluster to which everything happens that a cluster bears.
//!
//! ```text
//! round    load on all nodes ─► a blow ─► a write by a survivor: how long? ─► all up ─► compare
//! blow     [`Blow`]: SIGKILL, SIGSTOP, data lost, an old copy, a full disk, a wrong clock
//! ledger   rounds, then: the same head everywhere, a clean stop, `tally verify` of each folder
//! ```
//!
//! A follower that forgets does so in the worst case: the others were frozen while it acknowledged,
//! and the leader dies with it and comes back last. Those that lack the writes may not go on
//! without them.
//!
//! Each recording client is at one node, and ends with it; what it was told, and the one operation
//! that was under way, is what any node must hold afterwards ([`super::model`]). Others append to
//! lists and go to another node when theirs does not answer ([`lists`]): what they were told must
//! be strictly serializable ([`history`]). The node that is asked is drawn anew: its session waits
//! until it has what the cluster has ordered, so nothing else does.

mod blows;
mod history;
mod lists;
mod nodes;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use self::blows::{Blow, Deck, Tried};
use self::lists::{Appending, Counts};
use self::nodes::Nodes;
use super::check::{Range, resolve};
use super::clients::{Ended, Round};
use super::kills::{End, create};
use super::model::Model;
use crate::arguments;
use crate::demo::pgbench::Target;
use node::progress::Progress;

/// One of them is idle: it is the one that changes protocols, to such that a cluster refuses.
const RECORDING_CLIENTS: i64 = 7;
const BANKING_CLIENTS: u64 = 3;
/// Of one ledger.
const ROUNDS_PER_GENERATION: u64 = 25;
/// How long a node is frozen, and how long one is down, at most; in a short run less.
const AWAY_MS_MAX: u64 = 2_500;
const AWAY_MS_MAX_PER_S: u64 = 12;
/// No survivor answers later, on the slowest machine.
const WRITES_AGAIN_MAX: Duration = Duration::from_secs(60);
/// A log has room of its own already; so many notes need more.
const NOTE_BYTES: usize = 100_000;
const NOTES_MAX: u64 = 100;
/// For a node whose disk is full, once all of them are written.
const SAYS_FULL_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A node drafts nothing if its clock is further ahead: the setting's default.
const CLOCK_AHEAD_MS_MAX: i64 = 300_000;
/// Between the time of a block and a look at the clock of this machine.
const LATE_MS_MAX: i64 = 5_000;
const TABLES: &str = "
    CREATE TABLE notes (id bigint PRIMARY KEY, note text NOT NULL);
    CREATE TABLE times (id bigint PRIMARY KEY, at timestamptz NOT NULL);";

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub nodes: u16,
    pub generations: u64,
    pub rounds: u64,
    pub kills: u64,
    /// By kind of blow.
    pub blows: Vec<Tried>,
    /// Operations that a recording client was told of.
    pub acknowledged: u64,
    /// Operations that took effect though their answer never came.
    pub unanswered: u64,
    pub retried: u64,
    pub bank_calls: u64,
    /// Transactions on lists, by what their clients were told: done; nothing done; 08007; nothing.
    pub list_answered: u64,
    pub list_refused: u64,
    pub list_undecided: u64,
    pub list_unanswered: u64,
    /// Of those of unknown end, by their keys.
    pub found_committed: u64,
    pub found_without_effect: u64,
    pub blocks: u64,
    pub verifications: u64,
    /// From the blow to a leader until a survivor has acknowledged a write.
    pub writes_again_ms_p50: u64,
    pub writes_again_ms_p90: u64,
    pub writes_again_ms_max: u64,
    /// From the start of a node that was killed until it is ready.
    pub ready_again_ms_max: u64,
}

impl Report {
    fn add(&mut self, counts: &Counts) {
        self.list_answered += counts.answered;
        self.list_refused += counts.refused;
        self.list_undecided += counts.undecided;
        self.list_unanswered += counts.unanswered;
        self.found_committed += counts.found_committed;
        self.found_without_effect += counts.found_without_effect;
    }

    fn tried(&mut self, blow: Blow) -> Option<&mut Tried> {
        self.blows.iter_mut().find(|tried| tried.kind == blow.name())
    }
}

pub fn run(
    folder: &Path,
    arguments: &arguments::Torture,
    seed: u64,
    end: &End,
    step: &Progress,
    report: &mut Report,
) -> Result<()> {
    let began = Instant::now();
    let mut random = Random::new(seed);
    let nodes = arguments.cluster.unwrap_or(3);
    report.nodes = nodes;
    report.blows = Tried::none();
    let (mut waits_ms, mut deck) = (Vec::new(), Deck::default());
    while !is_over(end, report, &deck, began) {
        let folder = folder.join(report.generations.to_string());
        let seed = random.next_u64();
        let mut victims = Victims::start(&folder, arguments, seed, report)?;
        report.generations += 1;
        for _ in 0..ROUNDS_PER_GENERATION {
            if is_over(end, report, &deck, began) {
                break;
            }
            step.advance(end.part(report.kills, began).min(1.0));
            step.note(&format!("{} kills", report.kills));
            let round = victims.round(report, &mut deck, &mut waits_ms);
            round.with_context(|| format!("round {} of seed {seed}", report.rounds))?;
            report.rounds += 1;
            summarize(&mut waits_ms, report);
        }
        victims.end(report)?;
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// On a slow machine the time is overrun, by as much again at most, until each kind came once.
fn is_over(end: &End, report: &Report, deck: &Deck, began: Instant) -> bool {
    let part = end.part(report.kills, began);
    part >= 1.0 && (deck.is_through() || part >= 2.0 || matches!(end, End::Kills(_)))
}

fn summarize(waits_ms: &mut [u64], report: &mut Report) {
    waits_ms.sort_unstable();
    let at = |percent: usize| {
        let last = waits_ms.len().saturating_sub(1);
        waits_ms.get((waits_ms.len() * percent / 100).min(last)).copied().unwrap_or(0)
    };
    report.writes_again_ms_p50 = at(50);
    report.writes_again_ms_p90 = at(90);
    report.writes_again_ms_max = at(100);
}

/// A cluster, and all that is known of its ledger.
struct Victims {
    runtime: Runtime,
    nodes: Nodes,
    models: Vec<Model>,
    random: Random,
    load_ms_max: u64,
    away_ms_max: u64,
}

/// Who a blow hits.
struct Aim {
    blow: Blow,
    leader: usize,
    hit: Vec<usize>,
    /// Enough are left to go on without those.
    bears: bool,
}

impl Aim {
    fn new(blow: Blow, leader: usize, count: usize, random: &mut Random) -> Aim {
        let follower = (leader + 1 + random.below(count as u64 - 1) as usize) % count;
        let most = count / 2 + 1;
        let hit = match blow {
            _ if blow.forgets_behind_leader() => vec![leader, follower],
            _ if blow.hits_leader() => vec![leader],
            Blow::KillMajority => (0..most).map(|i| (leader + i) % count).collect(),
            Blow::FreezeMajority => (1..=most).map(|i| (leader + i) % count).collect(),
            _ => vec![follower],
        };
        let bears = 2 * hit.len() < count && !blow.forgets_behind_leader();
        Aim { blow, leader, hit, bears }
    }

    /// The one that forgets, or the only one.
    fn last(&self) -> usize {
        self.hit[self.hit.len() - 1]
    }
}

impl Victims {
    fn start(
        folder: &Path,
        arguments: &arguments::Torture,
        seed: u64,
        report: &mut Report,
    ) -> Result<Victims> {
        let runtime = Runtime::new()?;
        let nodes = Nodes::start(folder, report.nodes)?;
        runtime.block_on(async {
            create(&nodes.target(0), RECORDING_CLIENTS).await?;
            let client = nodes.target(0).connect().await?;
            anyhow::Ok(client.batch_execute(&format!("{TABLES}{}", lists::TABLE)).await?)
        })?;
        for blow in Blow::ALL {
            let skipped = nodes.skipped(blow);
            report.tried(blow).into_iter().for_each(|tried| tried.skipped = skipped.clone());
        }
        let models = (0..RECORDING_CLIENTS).map(|id| Model::new(seed, id)).collect();
        let random = Random::new(seed);
        let load_ms_max = arguments.load_ms.max(1);
        let away_ms_max = AWAY_MS_MAX.min(arguments.seconds * AWAY_MS_MAX_PER_S);
        Ok(Victims { runtime, nodes, models, random, load_ms_max, away_ms_max })
    }

    /// Load, a blow, a write, all up again, and the comparison.
    fn round(
        &mut self,
        report: &mut Report,
        deck: &mut Deck,
        waits_ms: &mut Vec<u64>,
    ) -> Result<()> {
        let seed = self.random.next_u64();
        let nodes = &self.nodes;
        let blow = deck.next(&mut self.random, |blow| nodes.skipped(blow).is_none());
        let aim = Aim::new(blow, self.nodes.leader()?, self.nodes.count(), &mut self.random);
        let done = self.round_of(&aim, seed, report, waits_ms);
        done.with_context(|| format!("{}: nodes {:?}, counted from 0", blow.name(), aim.hit))
    }

    fn round_of(
        &mut self,
        aim: &Aim,
        seed: u64,
        report: &mut Report,
        waits_ms: &mut Vec<u64>,
    ) -> Result<()> {
        let count = self.nodes.count();
        if aim.blow.sets_back() {
            self.nodes.copy(aim.last())?;
        }
        let survivor = (0..count).rev().find(|node| !aim.hit.contains(node));
        let prober = survivor.map(|node| self.nodes.target(node));
        let prober = prober.map(|target| self.runtime.block_on(target.connect())).transpose()?;
        let targets = (0..count).map(|node| self.nodes.target(node)).collect::<Vec<_>>();
        let first = &targets[aim.leader];
        let appending =
            Appending::start(&self.runtime, &targets, first, report.rounds, seed ^ 0x1157)?;
        let round = Round::spread(&self.runtime, &targets, &self.models, BANKING_CLIENTS, seed);
        self.pause(self.load_ms_max);
        let worst = aim.blow.forgets_behind_leader();
        let away = if worst { away_from(&aim.hit, count) } else { Vec::new() };
        if worst {
            away.iter().try_for_each(|node| self.nodes.freeze(*node))?;
            self.pause(self.load_ms_max);
        }
        self.strike(aim, prober.as_ref(), report)?;
        let struck = Instant::now();
        if aim.bears
            && let Some(prober) = &prober
        {
            let waited_ms = self.runtime.block_on(writes_again(prober, struck))?;
            if matches!(aim.blow, Blow::KillLeader | Blow::FreezeLeader) {
                waits_ms.push(waited_ms);
            }
            if let Some(tried) = report.tried(aim.blow) {
                tried.writes_again_ms_max = tried.writes_again_ms_max.max(Some(waited_ms));
            }
            if aim.blow.clock_s().is_some() {
                self.runtime.block_on(is_of_its_time(prober, report.rounds))?;
            }
        }
        if aim.blow.empties() || aim.blow.sets_back() {
            self.forget(aim, &away)?;
        }
        self.pause(self.away_ms_max);
        self.revive(aim, report)?;
        let ended = round.end(&self.runtime)?;
        let asked = self.random.below(count as u64) as usize;
        let target = self.nodes.target(asked);
        self.runtime.block_on(takes_sessions(&target))?;
        report.add(&appending.end(&self.runtime, &target)?);
        self.compare(&target, &ended, report).with_context(|| format!("asking node {asked}"))
    }

    /// What the recording clients were told.
    fn compare(&mut self, target: &Target, ended: &Ended, report: &mut Report) -> Result<()> {
        let before: i64 = self.models.iter().map(|model| model.sequence).sum();
        let ranges: Vec<Range> = ended.reported.iter().map(Range::from).collect();
        self.runtime.block_on(resolve(target, &mut self.models, &ranges))?;
        let after: i64 = self.models.iter().map(|model| model.sequence).sum();
        let reported: i64 = ended.reported.iter().map(|reported| reported.acknowledged).sum();
        report.acknowledged += (reported - before) as u64;
        report.unanswered += (after - reported) as u64;
        report.retried += ended.reported.iter().map(|reported| reported.retried).sum::<u64>();
        report.bank_calls += ended.calls;
        Ok(())
    }

    /// One comes back with less than it had acknowledged; a follower does beside those that lack
    /// it too.
    fn forget(&mut self, aim: &Aim, away: &[usize]) -> Result<()> {
        match aim.blow.empties() {
            true => self.nodes.empty(aim.last())?,
            false => self.nodes.put_back(aim.last())?,
        }
        away.iter().try_for_each(|node| self.nodes.thaw(*node))?;
        self.nodes.launch(aim.last())
    }

    fn strike(&mut self, aim: &Aim, prober: Option<&Client>, report: &mut Report) -> Result<()> {
        let blow = aim.blow;
        for node in &aim.hit {
            match blow.clock_s() {
                Some(ahead_s) => self.nodes.set_clock(*node, ahead_s)?,
                None if blow.kills() => self.nodes.kill(*node)?,
                None if blow.freezes() => self.nodes.freeze(*node)?,
                None => self.nodes.fill(*node, true)?,
            }
        }
        if blow.fills() {
            let prober = prober.context("no node has room")?;
            let is_full = || self.nodes.says_full(aim.last());
            self.runtime.block_on(write_until(prober, report.rounds, is_full))?;
        }
        report.kills += if blow.kills() { aim.hit.len() as u64 } else { 0 };
        report.tried(blow).into_iter().for_each(|tried| tried.times += 1);
        Ok(())
    }

    fn revive(&mut self, aim: &Aim, report: &mut Report) -> Result<()> {
        let blow = aim.blow;
        for node in &aim.hit {
            match blow.clock_s() {
                Some(_) => self.nodes.set_clock(*node, 0)?,
                None if blow.freezes() => self.nodes.thaw(*node)?,
                None if blow.fills() => self.nodes.fill(*node, false)?,
                None => {}
            }
        }
        // One that forgot runs already.
        let down = match blow {
            _ if !blow.kills() => &[],
            _ if blow.empties() || blow.sets_back() => &aim.hit[..aim.hit.len() - 1],
            _ => &aim.hit[..],
        };
        let began = Instant::now();
        down.iter().try_for_each(|node| self.nodes.launch(*node))?;
        self.nodes.wait_until_ready()?;
        if blow.kills() {
            let took_ms = began.elapsed().as_millis() as u64;
            report.ready_again_ms_max = report.ready_again_ms_max.max(took_ms);
        }
        Ok(())
    }

    fn pause(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(ms_max * 1000 + 1)));
    }

    /// The same everywhere, and each of them what an execution of its folder gives.
    fn end(mut self, report: &mut Report) -> Result<()> {
        let (height, head) = self.nodes.agree()?;
        report.blocks += height;
        self.nodes.stop()?;
        for node in 0..self.nodes.count() {
            let found = self.nodes.verify(node)?;
            ensure!(found == head, "node {node} has the head {found}, the others {head}");
            report.verifications += 1;
        }
        Ok(())
    }
}

/// All but a bare majority with those that are hit.
fn away_from(hit: &[usize], count: usize) -> Vec<usize> {
    let others = (0..count).filter(|node| !hit.contains(node));
    others.skip((count / 2 + 1).saturating_sub(hit.len())).collect()
}

/// How long after the blow a write is acknowledged that was sent after it.
async fn writes_again(prober: &Client, struck: Instant) -> Result<u64> {
    let text = "UPDATE purses SET cents = cents + 0 WHERE id = 0";
    loop {
        let written = tokio::time::timeout(WRITES_AGAIN_MAX, prober.batch_execute(text)).await;
        match written.context("no survivor takes a write for a minute")? {
            Ok(()) => return Ok(struck.elapsed().as_millis() as u64),
            // It ran beside another write of the purse.
            Err(error) if error.code().is_some_and(|code| code.code() == "40001") => {}
            Err(error) => return Err(error).context("a survivor refuses a write"),
        }
    }
}

/// Until a node has no room for what the cluster orders; the others go on.
async fn write_until(prober: &Client, round: u64, is_full: impl Fn() -> bool) -> Result<()> {
    let note = "x".repeat(NOTE_BYTES);
    for id in (round * NOTES_MAX..).take(NOTES_MAX as usize) {
        let text = format!("INSERT INTO notes VALUES ({id}, '{note}')");
        let written = tokio::time::timeout(WRITES_AGAIN_MAX, prober.batch_execute(&text)).await;
        written.context("no survivor takes a write for a minute")??;
        if is_full() {
            return Ok(());
        }
    }
    // It says so when that has lasted for some time, and the others are quick.
    for _ in 0..SAYS_FULL_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
        tokio::time::sleep(LOOK_EVERY).await;
        if is_full() {
            return Ok(());
        }
    }
    bail!("a full disk takes everything")
}

/// A write that is ordered beside a clock that is wrong bears a time that is not ahead.
async fn is_of_its_time(prober: &Client, round: u64) -> Result<()> {
    let text = format!("INSERT INTO times VALUES ({round}, now())");
    prober.batch_execute(&text).await.context("a survivor refuses a write")?;
    let text = format!("SELECT at FROM times WHERE id = {round}");
    let at: SystemTime = prober.query_one(&text, &[]).await?.try_get(0)?;
    let ahead_ms = match at.duration_since(SystemTime::now()) {
        Ok(ahead) => ahead.as_millis() as i64,
        Err(late) => -(late.duration().as_millis() as i64),
    };
    let most = CLOCK_AHEAD_MS_MAX + LATE_MS_MAX;
    ensure!(ahead_ms <= most, "a block bears a time that is {ahead_ms} ms ahead");
    Ok(())
}

/// A node takes sessions when a leader is found again, which a slow machine takes longer for than a
/// session waits.
async fn takes_sessions(target: &Target) -> Result<()> {
    let began = Instant::now();
    loop {
        match target.connect().await {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > WRITES_AGAIN_MAX => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// For the page.
pub fn page(report: &Report) -> String {
    let Report { nodes, generations, rounds, kills, blows, blocks, verifications, .. } = report;
    let Report { acknowledged, unanswered, retried, bank_calls, .. } = report;
    let Report { list_answered, list_refused, list_undecided, list_unanswered, .. } = report;
    let Report { found_committed, found_without_effect, ready_again_ms_max, .. } = report;
    let Report { writes_again_ms_p50, writes_again_ms_p90, writes_again_ms_max, .. } = report;
    let blows: String = blows.iter().map(Tried::line).collect();
    format!(
        "cluster               {nodes} nodes, {kills} kills in {rounds} rounds of {generations} \
         ledgers, {blocks} blocks\n{blows}\
         \x20 writes again        {writes_again_ms_p50} ms in the middle, {writes_again_ms_p90} \
         in nine of ten, {writes_again_ms_max} at most, without a leader\n\
         \x20 ready again         {ready_again_ms_max} ms at most\n\
         \x20 transactions        {acknowledged} acknowledged to recording clients, {unanswered} \
         unanswered, {retried} retried; {bank_calls} bank calls\n\
         \x20 lists               {list_answered} transactions, strictly serializable; \
         {list_refused} refused\n\
         \x20 of unknown end      {list_undecided} told so, {list_unanswered} not answered: \
         {found_committed} found done by their keys, {found_without_effect} not\n\
         \x20 verifications       {verifications}\n"
    )
}
