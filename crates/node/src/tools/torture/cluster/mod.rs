//! Nodes of a cluster that die and freeze under load.
//!
//! ```text
//! round    load on all nodes ─► a blow ─► a write by a survivor: how long? ─► all up ─► compare
//! blow     SIGKILL of the leader, of a follower, of two; SIGSTOP of the leader, of a follower;
//!          a follower that acknowledged with the leader forgets it: emptied, or an old copy
//! ledger   rounds, then: the same head everywhere, a clean stop, `tally verify` of each folder
//! ```
//!
//! One that forgets does so in the worst case: the others were frozen while it acknowledged, and
//! the leader dies with it and comes back last. Those that lack the writes may not go on without
//! them.
//!
//! Each client is at one node, and ends with it; what it was told, and the one operation that was
//! under way, is what any node must hold afterwards ([`super::model`]). The node that is asked is
//! drawn anew: its session waits until it has what the cluster has ordered, so nothing else does.

mod nodes;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kit::random::Random;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use self::nodes::Nodes;
use super::check::{Range, settle};
use super::clients::Round;
use super::kills::{End, create};
use super::model::Model;
use crate::progress::Progress;
use crate::tools::demo::pgbench::Target;

/// One of them is idle: it is the one that changes protocols, to such that a cluster refuses.
const RECORDING_CLIENTS: i64 = 7;
const BANKING_CLIENTS: u64 = 3;
/// Of one ledger.
const ROUNDS_PER_GENERATION: u64 = 25;
/// How long a node is frozen, and how long one is down, at most.
const AWAY_MS_MAX: u64 = 2_500;
/// No survivor answers later, on the slowest machine.
const WRITES_AGAIN_MAX: Duration = Duration::from_secs(60);

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub nodes: u16,
    pub generations: u64,
    pub rounds: u64,
    pub kills: u64,
    pub leaders_killed: u64,
    pub leaders_frozen: u64,
    pub followers_killed: u64,
    pub followers_frozen: u64,
    /// More nodes than a cluster bears: nothing was written until one of them was back.
    pub majorities_killed: u64,
    /// Followers whose data was lost, or set back to a copy, behind what they had acknowledged.
    pub followers_emptied: u64,
    pub followers_set_back: u64,
    /// Operations that a recording client was told of.
    pub acknowledged: u64,
    /// Operations that took effect though their answer never came.
    pub unanswered: u64,
    pub retried: u64,
    pub bank_calls: u64,
    pub blocks: u64,
    pub verifications: u64,
    /// From the blow to a leader until a survivor has acknowledged a write.
    pub writes_again_ms_p50: u64,
    pub writes_again_ms_p90: u64,
    pub writes_again_ms_max: u64,
    /// From the start of a node that was killed until it is ready.
    pub ready_again_ms_max: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blow {
    KillLeader,
    KillFollower,
    KillMajority,
    FreezeLeader,
    FreezeFollower,
    EmptyFollower,
    SetBackFollower,
}

impl Blow {
    fn draw(random: &mut Random) -> Blow {
        match random.below(24) {
            20..=21 => Blow::EmptyFollower,
            22..=23 => Blow::SetBackFollower,
            0..=10 => Blow::KillLeader,
            11..=12 => Blow::KillFollower,
            13..=14 => Blow::KillMajority,
            15..=17 => Blow::FreezeLeader,
            _ => Blow::FreezeFollower,
        }
    }

    fn freezes(self) -> bool {
        matches!(self, Blow::FreezeLeader | Blow::FreezeFollower)
    }

    fn forgets(self) -> bool {
        matches!(self, Blow::EmptyFollower | Blow::SetBackFollower)
    }

    fn hits_leader(self) -> bool {
        matches!(self, Blow::KillLeader | Blow::FreezeLeader)
    }
}

pub fn run(
    folder: &Path,
    (nodes, load_ms_max): (u16, u64),
    seed: u64,
    end: &End,
    step: &Progress,
    report: &mut Report,
) -> Result<()> {
    let began = Instant::now();
    let mut random = Random::new(seed);
    report.nodes = nodes;
    let mut waits_ms = Vec::new();
    while end.part(report.kills, began) < 1.0 {
        let folder = folder.join(report.generations.to_string());
        let (seed, load_ms_max) = (random.next_u64(), load_ms_max.max(1));
        let mut victims = Victims::start(&folder, nodes, load_ms_max, seed)?;
        report.generations += 1;
        for _ in 0..ROUNDS_PER_GENERATION {
            let part = end.part(report.kills, began);
            if part >= 1.0 {
                break;
            }
            step.advance(part);
            step.note(&format!("{} kills", report.kills));
            let round = victims.round(report, &mut waits_ms);
            round.with_context(|| format!("round {} of seed {seed}", report.rounds))?;
            report.rounds += 1;
            summarize(&mut waits_ms, report);
        }
        victims.end(report)?;
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
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
}

impl Victims {
    fn start(folder: &Path, nodes: u16, load_ms_max: u64, seed: u64) -> Result<Victims> {
        let runtime = Runtime::new()?;
        let nodes = Nodes::start(folder, nodes)?;
        runtime.block_on(create(&nodes.target(0), RECORDING_CLIENTS))?;
        let models = (0..RECORDING_CLIENTS).map(|id| Model::new(seed, id)).collect();
        let random = Random::new(seed);
        Ok(Victims { runtime, nodes, models, random, load_ms_max })
    }

    /// Load, a blow, a write, all up again, and the comparison.
    fn round(&mut self, report: &mut Report, waits_ms: &mut Vec<u64>) -> Result<()> {
        let seed = self.random.next_u64();
        let leader = self.nodes.leader()?;
        let count = self.nodes.count();
        let follower = (leader + 1 + self.random.below(count as u64 - 1) as usize) % count;
        let blow = Blow::draw(&mut self.random);
        let hit = match blow {
            Blow::KillLeader | Blow::FreezeLeader => vec![leader],
            Blow::KillFollower | Blow::FreezeFollower => vec![follower],
            Blow::EmptyFollower | Blow::SetBackFollower => vec![leader, follower],
            Blow::KillMajority => (0..count.div_ceil(2)).map(|i| (leader + i) % count).collect(),
        };
        let bears = 2 * hit.len() < count && !blow.forgets();
        if blow == Blow::SetBackFollower {
            self.nodes.copy(follower)?;
        }
        let survivor = (0..count).rev().find(|node| !hit.contains(node));
        let prober = survivor.map(|node| self.nodes.target(node));
        let prober = prober.map(|target| self.runtime.block_on(target.connect())).transpose()?;
        let targets = (0..count).map(|node| self.nodes.target(node)).collect::<Vec<_>>();
        let round = Round::spread(&self.runtime, &targets, &self.models, BANKING_CLIENTS, seed);
        self.pause(self.load_ms_max);
        let away = if blow.forgets() { away_from(&hit, count) } else { Vec::new() };
        if blow.forgets() {
            away.iter().try_for_each(|node| self.nodes.freeze(*node))?;
            self.pause(self.load_ms_max);
        }
        self.strike(blow, &hit, report)?;
        let struck = Instant::now();
        if bears && let Some(prober) = prober {
            let waited_ms = self.runtime.block_on(writes_again(&prober, struck))?;
            if blow.hits_leader() {
                waits_ms.push(waited_ms);
            }
        }
        if blow.forgets() {
            self.forget(blow, follower, &away)?;
        }
        self.pause(AWAY_MS_MAX);
        self.revive(blow, &hit, report)?;
        let ended = round.end(&self.runtime)?;
        let before: i64 = self.models.iter().map(|model| model.sequence).sum();
        let ranges: Vec<Range> = ended.told.iter().map(Range::from).collect();
        let asked = self.random.below(count as u64) as usize;
        let target = self.nodes.target(asked);
        self.runtime.block_on(takes_sessions(&target))?;
        let compared = settle(&target, &mut self.models, &ranges);
        let compared = self.runtime.block_on(compared);
        compared.with_context(|| format!("after {blow:?} of {hit:?}, asking node {asked}"))?;
        let after: i64 = self.models.iter().map(|model| model.sequence).sum();
        let told: i64 = ended.told.iter().map(|told| told.acknowledged).sum();
        report.acknowledged += (told - before) as u64;
        report.unanswered += (after - told) as u64;
        report.retried += ended.told.iter().map(|told| told.retried).sum::<u64>();
        report.bank_calls += ended.calls;
        Ok(())
    }

    /// The follower comes back with less than it had acknowledged, beside those that lack it too.
    fn forget(&mut self, blow: Blow, follower: usize, away: &[usize]) -> Result<()> {
        match blow {
            Blow::EmptyFollower => self.nodes.empty(follower)?,
            _ => self.nodes.put_back(follower)?,
        }
        away.iter().try_for_each(|node| self.nodes.thaw(*node))?;
        self.nodes.launch(follower)
    }

    fn strike(&mut self, blow: Blow, hit: &[usize], report: &mut Report) -> Result<()> {
        for node in hit {
            match blow.freezes() {
                true => self.nodes.freeze(*node)?,
                false => self.nodes.kill(*node)?,
            }
        }
        report.kills += if blow.freezes() { 0 } else { hit.len() as u64 };
        *match blow {
            Blow::KillLeader => &mut report.leaders_killed,
            Blow::KillFollower => &mut report.followers_killed,
            Blow::KillMajority => &mut report.majorities_killed,
            Blow::FreezeLeader => &mut report.leaders_frozen,
            Blow::FreezeFollower => &mut report.followers_frozen,
            Blow::EmptyFollower => &mut report.followers_emptied,
            Blow::SetBackFollower => &mut report.followers_set_back,
        } += 1;
        Ok(())
    }

    fn revive(&mut self, blow: Blow, hit: &[usize], report: &mut Report) -> Result<()> {
        if blow.freezes() {
            return hit.iter().try_for_each(|node| self.nodes.thaw(*node));
        }
        let began = Instant::now();
        // One that forgot runs already.
        let down = if blow.forgets() { &hit[..1] } else { hit };
        for node in down {
            self.nodes.launch(*node)?;
        }
        self.nodes.wait_until_ready()?;
        let took_ms = began.elapsed().as_millis() as u64;
        report.ready_again_ms_max = report.ready_again_ms_max.max(took_ms);
        Ok(())
    }

    fn pause(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(ms_max * 1000 + 1)));
    }

    /// The same everywhere, and each of them what an execution of its folder gives.
    fn end(mut self, report: &mut Report) -> Result<()> {
        let (height, head) = self.nodes.settle()?;
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

/// How long after the blow a write is acknowledged that was sent behind it.
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
    let Report {
        nodes,
        generations,
        rounds,
        kills,
        leaders_killed,
        leaders_frozen,
        followers_killed,
        followers_frozen,
        majorities_killed,
        followers_emptied,
        followers_set_back,
        acknowledged,
        unanswered,
        retried,
        bank_calls,
        blocks,
        verifications,
        writes_again_ms_p50,
        writes_again_ms_p90,
        writes_again_ms_max,
        ready_again_ms_max,
    } = report;
    format!(
        "cluster               {nodes} nodes, {kills} kills in {rounds} rounds of {generations} \
         ledgers, {blocks} blocks\n\
         \x20 killed              {leaders_killed} leaders, {followers_killed} followers, \
         {majorities_killed} majorities\n\
         \x20 frozen              {leaders_frozen} leaders, {followers_frozen} followers\n\
         \x20 forgot              {followers_emptied} followers emptied, {followers_set_back} set \
         back to a copy\n\
         \x20 writes again        {writes_again_ms_p50} ms in the middle, {writes_again_ms_p90} \
         in nine of ten, {writes_again_ms_max} at most\n\
         \x20 ready again         {ready_again_ms_max} ms at most\n\
         \x20 transactions        {acknowledged} acknowledged to recording clients, {unanswered} \
         unanswered, {retried} retried; {bank_calls} bank calls\n\
         \x20 verifications       {verifications}\n"
    )
}
