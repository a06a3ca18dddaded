//! Data folders that live through everything that is done to their nodes.
//!
//! 1. **Kills.** Clients work (procedure calls, single statements, interactive transactions, COPY,
//!    schema changes, changes of the protocol) and the node gets SIGKILL at a random moment: under
//!    load, mostly while a checkpoint is written, while it recovers, or in the middle of a clean
//!    stop. It starts again on the same folder, and each client's rows must be those of exactly the
//!    operations that it was told of, plus at most the one that was under way ([`super::model`]);
//!    the purses and the bank must have their sums.
//! 2. **Images.** After each kill, disks that a power cut could have left ([`super::images`]): many
//!    are read and repaired in memory, some become folders on which `tally verify` must report the
//!    torn tail and a node must go on.
//! 3. **Commands.** `tally checkpoint`, `backup`, `restore` and `prune` are killed as well, beside
//!    a running node (which may be killed under a backup or a prune) or without one: they harm
//!    nothing that they read, and what they began can be begun again.
//! 4. **Verification** of the whole ledger by `tally verify`. Then the next ledger begins, so that
//!    none grows so large that most of the time goes into reading it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use ledger::Stream;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::check::{Range, resolve};
use super::clients::{self, Ended, Round};
use super::disk::Until;
use super::images::{self, Image, Segment, Segments};
use super::model::{self, CUSTOMERS, Model, PURSE_CENTS, PURSES};
use crate::arguments;
use crate::demo::bank::Bank;
use crate::demo::pgbench::Target;
use crate::node_process::{Finished, NodeProcess, run_tally, spawn_tally};
use node::cli::Exit;
use node::folders;
use node::progress::Progress;

const RECORDING_CLIENTS: i64 = 6;
const BANKING_CLIENTS: u64 = 2;
/// Small segments, so that their ends are met often.
const SEGMENT_BYTES: u64 = 256 << 10;
/// Often due, and slow, so that one is nearly always under way.
const CHECKPOINTS: &str = "checkpoint_interval_blocks = 20\ncheckpoint_cpu_percent_max = 5\n";
const IMAGES_PER_ROUND: u64 = 10;
/// One round in so many has one of its images run by a node.
const ROUNDS_PER_RUN_IMAGE: u64 = 12;
/// One round in so many ends by SIGTERM under load.
const ROUNDS_PER_CLEAN_STOP: u64 = 12;
/// Rounds of one ledger.
const ROUNDS_PER_GENERATION: u64 = 40;
/// One round in so many has a backup beside it.
const ROUNDS_PER_BACKUP: u64 = 3;
/// Kills of each command on one ledger.
const KILLS_PER_COMMAND: u64 = 3;

/// No command takes so long on ledgers of this size.
const COMMAND_MS_MAX: u64 = 300;

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub kills: u64,
    pub generations: u64,
    pub rounds: u64,
    pub in_recovery: u64,
    pub in_a_clean_stop: u64,
    pub in_a_checkpoint: u64,
    /// By command.
    pub of_commands: BTreeMap<&'static str, u64>,
    pub clean_stops_under_load: u64,
    pub images_in_memory: u64,
    pub images_run: u64,
    pub verifications: u64,
    /// Operations that a recording client was told of.
    pub acknowledged: u64,
    /// Operations that took effect though their answer never came.
    pub unanswered: u64,
    pub bank_calls: u64,
    pub retried: u64,
    pub blocks: u64,
    pub ledger_bytes: u64,
    pub recovery_s_max: f64,
    pub kills_per_s: f64,
}

/// When there were enough.
pub enum End {
    Kills(u64),
    Time(Until),
}

impl End {
    /// From 0 to 1.
    pub fn part(&self, done: u64, began: Instant) -> f64 {
        match self {
            End::Kills(kills) => done as f64 / (*kills).max(1) as f64,
            End::Time(Until(None)) => 0.0,
            End::Time(Until(Some(end))) => {
                let all = end.saturating_duration_since(began).as_secs_f64();
                began.elapsed().as_secs_f64() / all.max(0.001)
            }
        }
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
    // One at least, also where the phases before have taken the time.
    while report.kills == 0 || end.part(report.kills, began) < 1.0 {
        let folder = folder.join(report.generations.to_string());
        let mut victim = Victim::start(&folder, arguments, random.next_u64())?;
        report.generations += 1;
        for _ in 0..ROUNDS_PER_GENERATION {
            let part = end.part(report.kills, began);
            if part >= 1.0 && report.kills > 0 {
                break;
            }
            step.advance(part);
            step.note(&format!("{} kills", report.kills));
            victim.round(report)?;
            report.kills_per_s = report.kills as f64 / began.elapsed().as_secs_f64();
        }
        victim.end(report)?;
        std::fs::remove_dir_all(&folder)?;
        report.kills_per_s = report.kills as f64 / began.elapsed().as_secs_f64();
    }
    Ok(())
}

/// Creates the tables of the bank and of the models.
pub async fn create(target: &Target, clients: i64) -> Result<()> {
    let bank = Bank { customers: CUSTOMERS };
    bank.create(target).await?;
    bank.load(target, |_| ()).await?;
    let client = target.connect().await?;
    client.batch_execute(model::TABLES).await?;
    for purse in 0..PURSES {
        let text = format!("INSERT INTO purses VALUES ({purse}, {PURSE_CENTS})");
        client.batch_execute(&text).await?;
    }
    for id in 0..clients {
        let text = format!("INSERT INTO counters VALUES ({id}, 0)");
        client.batch_execute(&text).await?;
    }
    Ok(())
}

/// A node on a folder with a configuration file.
pub fn start_node(folder: &Path, segment_bytes: u64, more: &str) -> Result<NodeProcess> {
    let data = NodeProcess::data_folder(folder);
    folders::create_private(&data)?;
    let text =
        format!("segment_bytes_max = {segment_bytes}\nblock_bytes_max = {segment_bytes}\n{more}");
    std::fs::write(data.join(node::config::FILE_NAME), text)?;
    NodeProcess::start(folder)
}

pub fn verify(data: &Path) -> Result<Finished> {
    run_tally(&["--output", "json", "verify", text_of(data)?])
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().context("the folder's name is not UTF-8")
}

/// The node that is killed over and over, and all that is known of its ledger.
struct Victim {
    runtime: Runtime,
    folder: PathBuf,
    node: NodeProcess,
    models: Vec<Model>,
    /// All blocks up to this one were there, and checked, when the clients began.
    known_height: u64,
    random: Random,
    load_ms_max: u64,
    /// What the last recovery took.
    recovery_ms: u64,
}

impl Victim {
    fn start(folder: &Path, arguments: &arguments::Torture, seed: u64) -> Result<Victim> {
        let runtime = Runtime::new()?;
        std::fs::create_dir_all(folder)?;
        let node = start_node(folder, SEGMENT_BYTES, CHECKPOINTS)?;
        runtime.block_on(create(&node.target, RECORDING_CLIENTS))?;
        let mut victim = Victim {
            runtime,
            folder: folder.to_owned(),
            node,
            models: (0..RECORDING_CLIENTS).map(|id| Model::new(seed, id)).collect(),
            known_height: 0,
            random: Random::new(seed),
            load_ms_max: arguments.load_ms.max(1),
            recovery_ms: 0,
        };
        victim.known_height = victim.newest_height()?;
        Ok(victim)
    }

    fn data(&self) -> PathBuf {
        NodeProcess::data_folder(&self.folder)
    }

    /// Load, a kill, images of it, a restart, and the comparison.
    fn round(&mut self, report: &mut Report) -> Result<()> {
        let seed = self.random.next_u64();
        let target = self.node.target.clone();
        let round = Round::start(&self.runtime, &target, &self.models, BANKING_CLIENTS, seed);
        let backup = match self.random.chance(ROUNDS_PER_BACKUP) {
            true => Some(self.backup_beside()?),
            false => None,
        };
        self.pause(self.load_ms_max);
        if report.rounds % ROUNDS_PER_CLEAN_STOP == ROUNDS_PER_CLEAN_STOP - 1 {
            self.node.stop_again()?;
            report.clean_stops_under_load += 1;
        } else if self.random.chance(8) {
            self.node.terminate()?;
            self.pause(10);
            self.node.kill()?;
            report.kills += 1;
            report.in_a_clean_stop += 1;
        } else {
            self.node.kill()?;
            report.kills += 1;
            report.in_a_checkpoint += u64::from(self.has_half_a_checkpoint()?);
        }
        report.rounds += 1;
        if let Some(backup) = backup {
            self.kill_child("backup", backup, 5, report)?;
        }
        let ended = round.end(&self.runtime)?;
        self.images(&ended, report)?;
        if self.random.chance(6) {
            self.node.launch()?;
            // At its end it writes: it sets a torn tail aside, or begins a segment again.
            self.pause(self.recovery_ms + 10);
            self.node.kill()?;
            report.kills += 1;
            report.in_recovery += 1;
        }
        let began = Instant::now();
        self.node.restart()?;
        let recovery = began.elapsed();
        self.recovery_ms = recovery.as_millis() as u64;
        report.recovery_s_max = report.recovery_s_max.max(recovery.as_secs_f64());
        self.resolve(&ended, report)
    }

    fn pause(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(ms_max * 1000 + 1)));
    }

    /// Whether there is a pack without its manifest: a checkpoint was under way.
    fn has_half_a_checkpoint(&self) -> Result<bool> {
        let Ok(entries) = std::fs::read_dir(self.data().join(CHECKPOINT_FOLDER)) else {
            return Ok(false);
        };
        let mut newest = [String::new(), String::new()];
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some((height, kind)) = name.split_once('.') else { continue };
            let newest = &mut newest[usize::from(kind == "manifest")];
            *newest = height.to_owned().max(std::mem::take(newest));
        }
        Ok(newest[0] > newest[1])
    }

    /// Compares with what the clients were told, and makes that the base of the next round.
    fn resolve(&mut self, ended: &Ended, report: &mut Report) -> Result<()> {
        let before: i64 = self.models.iter().map(|model| model.sequence).sum();
        let ranges: Vec<Range> = ended.reported.iter().map(Range::from).collect();
        let compared = resolve(&self.node.target, &mut self.models, &ranges);
        self.runtime.block_on(compared)?;
        let after: i64 = self.models.iter().map(|model| model.sequence).sum();
        let reported: i64 = ended.reported.iter().map(|reported| reported.acknowledged).sum();
        report.acknowledged += (reported - before) as u64;
        report.unanswered += (after - reported) as u64;
        report.bank_calls += ended.calls;
        report.retried += ended.reported.iter().map(|reported| reported.retried).sum::<u64>();
        self.known_height = self.newest_height()?;
        Ok(())
    }

    fn newest_height(&self) -> Result<u64> {
        let segments = Segment::read_all(&self.data(), Stream::Orders)?;
        let records = segments.iter().rev().flat_map(|s| s.records.iter().rev());
        records.map(|record| record.height).next().context("an empty ledger")
    }

    /// Disks that a power cut at some moment of this round could have left.
    fn images(&mut self, ended: &Ended, report: &mut Report) -> Result<()> {
        let segments = Segments::read(&self.data())?;
        let newest = segments.newest()?;
        for _ in 0..IMAGES_PER_ROUND {
            let image = images::tear(&mut self.random, newest, self.known_height);
            images::check_in_memory(&mut self.random, &segments, &image)
                .with_context(|| format!("an image torn at block {}", image.height))?;
            report.images_in_memory += 1;
        }
        if report.rounds.is_multiple_of(ROUNDS_PER_RUN_IMAGE) {
            let image = images::tear(&mut self.random, newest, self.known_height);
            self.run_image(&segments, &image, ended)
                .with_context(|| format!("a node on an image torn at block {}", image.height))?;
            report.images_run += 1;
        }
        Ok(())
    }

    fn run_image(&mut self, segments: &Segments, image: &Image, ended: &Ended) -> Result<()> {
        let folder = self.folder.join("image");
        let data = NodeProcess::data_folder(&folder);
        let whole = self.data();
        images::plant(&mut self.random, &whole, segments, image, &data)?;
        let found = verify(&data)?;
        let expected = if image.torn { Exit::TornTail } else { Exit::Ok };
        ensure!(found.code == Some(expected as i32), "verify: {}", found.output);
        if image.torn {
            let named = found.json["verdict"]["height"].as_u64();
            ensure!(named == Some(image.height), "verify: {}", found.output);
        }
        let node = NodeProcess::start(&folder)?;
        let mut models = self.models.clone();
        let range = |(model, reported): (&Model, &clients::Reported)| Range {
            least: if image.complete { reported.acknowledged } else { model.sequence },
            most: reported.most(),
        };
        let ranges: Vec<Range> = self.models.iter().zip(&ended.reported).map(range).collect();
        self.runtime.block_on(resolve(&node.target, &mut models, &ranges))?;
        node.stop()?;
        let found = verify(&data)?;
        ensure!(found.code == Some(0), "verify after recovery: {}", found.output);
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }

    /// The node must not be running.
    fn verify(&self, report: &mut Report, expected: &[Exit]) -> Result<()> {
        let found = verify(&self.data())?;
        if !expected.iter().any(|exit| found.code == Some(*exit as i32)) {
            bail!("verify: {}", found.output);
        }
        report.verifications += 1;
        report.blocks = found.json["blocks"].as_u64().unwrap_or(0);
        report.ledger_bytes = found.json["ledger_bytes"].as_u64().unwrap_or(0);
        Ok(())
    }

    fn end(mut self, report: &mut Report) -> Result<()> {
        self.node.stop_again()?;
        self.verify(report, &[Exit::Ok])?;
        self.kill_checkpoints(report)?;
        let data = self.data();
        self.kill_restores(&data, report)?;
        self.kill_backups(report)?;
        let backup = self.backup();
        self.kill_restores(&backup, report)?;
        self.kill_prunes(report)?;
        self.verify(report, &[Exit::Ok])
    }

    fn backup(&self) -> PathBuf {
        self.folder.join("backup")
    }

    /// Begins a backup of the running node.
    fn backup_beside(&self) -> Result<Child> {
        let (data, to) = (self.data(), self.backup());
        let address = self.node.http_address().to_string();
        let (data, to) = (text_of(&data)?, text_of(&to)?);
        spawn_tally(&["backup", "--to", to, "--data", data, "--http-listen", &address])
    }

    /// Kills a command, unless it ends within a random time.
    fn kill_child(
        &mut self,
        name: &'static str,
        mut child: Child,
        ms_max: u64,
        report: &mut Report,
    ) -> Result<()> {
        self.pause(ms_max);
        if child.try_wait()?.is_none() {
            child.kill()?;
            report.kills += 1;
            *report.of_commands.entry(name).or_default() += 1;
        }
        child.wait()?;
        Ok(())
    }

    /// Runs a command of `tally` that is killed at a random moment, unless it is done before.
    fn kill_command(
        &mut self,
        name: &'static str,
        arguments: &[&str],
        ms_max: u64,
        report: &mut Report,
    ) -> Result<()> {
        let child = spawn_tally(&[&[name], arguments].concat())?;
        self.kill_child(name, child, ms_max, report)
    }

    fn kill_checkpoints(&mut self, report: &mut Report) -> Result<()> {
        let data = self.data();
        let arguments = ["--data", text_of(&data)?];
        for _ in 0..KILLS_PER_COMMAND {
            self.kill_command("checkpoint", &arguments, COMMAND_MS_MAX, report)?;
        }
        let done = run_tally(&[&["checkpoint"], &arguments[..]].concat())?;
        ensure!(done.success, "checkpoint, after kills: {}", done.output);
        self.verify(report, &[Exit::Ok])
    }

    /// From a data folder or a backup, which holds the same blocks.
    fn kill_restores(&mut self, from: &Path, report: &mut Report) -> Result<()> {
        let target = self.folder.join("restored");
        let arguments = ["--from", text_of(from)?, "--data", text_of(&target)?];
        for _ in 0..KILLS_PER_COMMAND {
            self.kill_command("restore", &arguments, COMMAND_MS_MAX, report)?;
            if !target.exists() {
                continue;
            }
            // What it left is a ledger that is sound as far as it goes, or none at all.
            let found = verify(&target)?;
            let code = found.code.unwrap_or(-1);
            let sound = [Exit::Ok, Exit::TornTail, Exit::Failed].map(|exit| exit as i32);
            ensure!(sound.contains(&code), "what a killed restore left: {}", found.output);
            std::fs::remove_dir_all(&target)?;
        }
        let done = run_tally(&[&["--output", "json", "restore"], &arguments[..]].concat())?;
        ensure!(done.success, "restore, after kills: {}", done.output);
        self.is_the_same(&target, report)?;
        Ok(std::fs::remove_dir_all(&target)?)
    }

    /// A copy ends with the ledger's last block.
    fn is_the_same(&self, copy: &Path, report: &mut Report) -> Result<()> {
        let (ours, theirs) = (verify(&self.data())?, verify(copy)?);
        ensure!(theirs.code == Some(Exit::Ok as i32), "verify: {}", theirs.output);
        ensure!(ours.json["head"] == theirs.json["head"], "{}", theirs.output);
        report.verifications += 1;
        Ok(())
    }

    /// What kills left of earlier backups is in the way of none.
    fn kill_backups(&mut self, report: &mut Report) -> Result<()> {
        let (data, to) = (self.data(), self.backup());
        let arguments = ["--data", text_of(&data)?, "--to", text_of(&to)?];
        for _ in 0..KILLS_PER_COMMAND {
            self.kill_command("backup", &arguments, COMMAND_MS_MAX / 3, report)?;
        }
        let done = run_tally(&[&["backup"], &arguments[..]].concat())?;
        ensure!(done.success, "backup, after kills: {}", done.output);
        let checked = run_tally(&["backup", "--verify", text_of(&to)?])?;
        ensure!(checked.success, "backup --verify: {}", checked.output);
        self.is_the_same(&to, report)
    }

    /// By this command, and by a node; each goes a bit further than the one before.
    fn kill_prunes(&mut self, report: &mut Report) -> Result<()> {
        let (data, newest) = (self.data(), self.known_height);
        let address = self.node.http_address().to_string();
        for attempt in 1..=2 * KILLS_PER_COMMAND {
            let to_block = (newest * attempt / (2 * KILLS_PER_COMMAND)).to_string();
            let mut arguments = vec!["--data", text_of(&data)?, "--to-block", &to_block];
            if attempt % 2 == 1 {
                self.kill_command("prune", &arguments, COMMAND_MS_MAX / 6, report)?;
                self.verify(report, &[Exit::Ok])?;
                continue;
            }
            self.node.restart()?;
            arguments.extend(["--http-listen", &address]);
            let mut child = spawn_tally(&[&["prune"], &arguments[..]].concat())?;
            self.pause(COMMAND_MS_MAX / 10);
            self.node.kill()?;
            report.kills += 1;
            *report.of_commands.entry("prune by a node").or_default() += 1;
            child.wait()?;
            self.node.restart()?;
            let reported: Vec<Range> = self.models.iter().map(Range::exactly).collect();
            self.runtime.block_on(resolve(&self.node.target, &mut self.models, &reported))?;
            self.node.stop_again()?;
        }
        let arguments = ["--data", text_of(&data)?, "--to-block", &newest.to_string()];
        let done = run_tally(&[&["prune"], &arguments[..]].concat())?;
        ensure!(done.success, "prune, after kills: {}", done.output);
        Ok(())
    }
}
