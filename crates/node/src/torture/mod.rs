//! `tally torture`: one data folder that lives through everything that is done to its node.
//!
//! 1. **Kills.** Clients work (procedure calls, single statements, interactive transactions, COPY,
//!    schema changes, changes of the protocol) and the node gets SIGKILL at a random moment: under
//!    load, while it recovers, or in the middle of a clean stop. It starts again on the same
//!    folder, and each client's rows must be those of exactly the operations that it was told of,
//!    plus at most the one that was under way ([`model`]); the purses and the bank must have their
//!    sums.
//! 2. **Images.** After each kill, disks that a power cut could have left ([`images`]): many are
//!    read and repaired in memory, some become folders on which `tally verify` must report the torn
//!    tail and a node must go on.
//! 3. **Verification** of the whole ledger by `tally verify`, now and then and at the end.
//! 4. **Flips** of single bytes of a small ledger's folder ([`flips`]).
//!
//! A run ends at the first loss, keeps the folder, and exits with 1. The seed decides what clients
//! do and when kills come, not how threads interleave: a failing run need not fail again.

mod check;
mod clients;
mod flips;
mod images;
mod model;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kit::random::Random;
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::cli::{self, Exit, Output};
use crate::demo::bank::Bank;
use crate::demo::node_process::{NodeProcess, run_tally};
use crate::demo::pgbench::Target;
use crate::demo::progress::Progress;
use check::{Range, settle};
use clients::{Ended, Round};
use images::{Image, Segment};
use model::{CUSTOMERS, Model, PURSE_CENTS, PURSES};

const RECORDING_CLIENTS: i64 = 6;
const BANKING_CLIENTS: u64 = 2;
/// Small segments, so that their ends are met often.
const SEGMENT_BYTES: u64 = 1 << 20;
const IMAGES_PER_ROUND: u64 = 25;
/// One round in so many has one of its images run by a node.
const ROUNDS_PER_RUN_IMAGE: u64 = 5;
const ROUNDS_PER_VERIFICATION: u64 = 20;
/// One round in so many ends by SIGTERM under load.
const ROUNDS_PER_CLEAN_STOP: u64 = 8;

/// What was done, and what was lost.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub kills: u64,
    pub rounds: u64,
    pub kills_in_recovery: u64,
    pub kills_in_a_clean_stop: u64,
    pub clean_stops_under_load: u64,
    pub images_in_memory: u64,
    pub images_run_by_a_node: u64,
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
    pub flips: Option<flips::Report>,
    pub losses: u64,
    pub loss: Option<String>,
    pub total_s: f64,
}

pub fn run(arguments: &cli::Torture, output: Output) -> Result<Exit> {
    let began = Instant::now();
    let folder = tempfile::Builder::new().prefix("tally-torture-").tempdir()?;
    let mut report =
        Report { seed: arguments.seed.unwrap_or_else(seed_of_now), ..Report::default() };
    let outcome = torture(arguments, folder.path(), &mut report, began);
    if let Err(error) = outcome {
        report.losses += 1;
        report.loss = Some(format!("{error:#}"));
        eprintln!("the folder is kept: {}", folder.keep().display());
    }
    report.total_s = began.elapsed().as_secs_f64();
    match output {
        Output::Text => print!("{}", page(&report)),
        Output::Json => println!("{}", serde_json::to_string(&report)?),
    }
    Ok(match report.losses {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

/// Another one for each run; it is printed.
fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_micros() as u64)
}

fn torture(
    arguments: &cli::Torture,
    folder: &Path,
    report: &mut Report,
    began: Instant,
) -> Result<()> {
    let mut victim = Victim::start(&folder.join("kills"), arguments, report.seed)?;
    let label = format!("kills and images, seed {}", report.seed);
    let step = Progress::begin(&label);
    let limit = Duration::from_secs(arguments.seconds);
    loop {
        let part = match arguments.kills {
            Some(kills) => report.kills as f64 / kills.max(1) as f64,
            None => began.elapsed().as_secs_f64() / limit.as_secs_f64().max(1.0),
        };
        if part >= 1.0 {
            break;
        }
        step.advance(part);
        step.note(&format!("{} kills", report.kills));
        let attempt = victim.round(report);
        attempt.with_context(|| format!("after {} kills", report.kills))?;
    }
    victim.end(report)?;
    step.end(&format!("{} kills", report.kills));
    if arguments.flips > 0 {
        let step = Progress::begin("flipping bytes of a small ledger");
        let flips = flips::run(&folder.join("flips"), arguments.flips, report.seed, |part| {
            step.advance(part)
        })?;
        step.end(&format!("{} flips", arguments.flips));
        report.flips = Some(flips);
    }
    Ok(())
}

/// Creates the tables of the bank and of the models.
async fn create(target: &Target, clients: i64) -> Result<()> {
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
fn start_node(folder: &Path, segment_bytes: u64) -> Result<NodeProcess> {
    let data = NodeProcess::data_folder(folder);
    std::fs::create_dir_all(&data)?;
    let text = format!("segment_bytes_max = {segment_bytes}\nblock_bytes_max = {segment_bytes}\n");
    std::fs::write(data.join(crate::config::FILE_NAME), text)?;
    NodeProcess::start(folder)
}

fn verify(data: &Path) -> Result<crate::demo::node_process::Finished> {
    let name = data.to_str().context("the folder's name is not UTF-8")?;
    run_tally(&["--output", "json", "verify", name])
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
    fn start(folder: &Path, arguments: &cli::Torture, seed: u64) -> Result<Victim> {
        let runtime = Runtime::new()?;
        std::fs::create_dir_all(folder)?;
        let node = start_node(folder, SEGMENT_BYTES)?;
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
        self.pause(self.load_ms_max);
        if report.rounds % ROUNDS_PER_CLEAN_STOP == ROUNDS_PER_CLEAN_STOP - 1 {
            self.node.stop_again()?;
            report.clean_stops_under_load += 1;
        } else if self.random.chance(8) {
            self.node.terminate()?;
            self.pause(10);
            self.node.kill()?;
            report.kills += 1;
            report.kills_in_a_clean_stop += 1;
        } else {
            self.node.kill()?;
            report.kills += 1;
        }
        report.rounds += 1;
        let ended = round.end(&self.runtime)?;
        self.images(&ended, report)?;
        if report.rounds.is_multiple_of(ROUNDS_PER_VERIFICATION) {
            // A kill may come between the creation of a segment and the write of its header.
            self.verify(report, &[Exit::Ok, Exit::TornTail])?;
        }
        if self.random.chance(6) {
            self.node.launch()?;
            // At its end it writes: it sets a torn tail aside, or begins a segment again.
            self.pause(self.recovery_ms + 10);
            self.node.kill()?;
            report.kills += 1;
            report.kills_in_recovery += 1;
        }
        let began = Instant::now();
        self.node.restart()?;
        let recovery = began.elapsed();
        self.recovery_ms = recovery.as_millis() as u64;
        report.recovery_s_max = report.recovery_s_max.max(recovery.as_secs_f64());
        self.settle(&ended, report)
    }

    fn pause(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(ms_max * 1000 + 1)));
    }

    /// Compares with what the clients were told, and makes that the base of the next round.
    fn settle(&mut self, ended: &Ended, report: &mut Report) -> Result<()> {
        let before: i64 = self.models.iter().map(|model| model.sequence).sum();
        let ranges: Vec<Range> = ended.told.iter().map(Range::from).collect();
        let compared = settle(&self.node.target, &mut self.models, &ranges);
        self.runtime.block_on(compared)?;
        let after: i64 = self.models.iter().map(|model| model.sequence).sum();
        let told: i64 = ended.told.iter().map(|told| told.acknowledged).sum();
        report.acknowledged += (told - before) as u64;
        report.unanswered += (after - told) as u64;
        report.bank_calls += ended.calls;
        report.retried += ended.told.iter().map(|told| told.retried).sum::<u64>();
        self.known_height = self.newest_height()?;
        Ok(())
    }

    fn newest_height(&self) -> Result<u64> {
        let segments = Segment::read_all(&self.data())?;
        let records = segments.iter().rev().flat_map(|s| s.records.iter().rev());
        records.map(|record| record.height).next().context("an empty ledger")
    }

    /// Disks that a power cut at some moment of this round could have left.
    fn images(&mut self, ended: &Ended, report: &mut Report) -> Result<()> {
        let segments = Segment::read_all(&self.data())?;
        let newest = segments.last().context("a ledger has a segment")?;
        for _ in 0..IMAGES_PER_ROUND {
            let image = images::tear(&mut self.random, newest, self.known_height);
            images::check_in_memory(&segments, &image)
                .with_context(|| format!("an image torn at block {}", image.height))?;
            report.images_in_memory += 1;
        }
        if report.rounds.is_multiple_of(ROUNDS_PER_RUN_IMAGE) {
            let image = images::tear(&mut self.random, newest, self.known_height);
            self.run_image(newest, &image, ended)
                .with_context(|| format!("a node on an image torn at block {}", image.height))?;
            report.images_run_by_a_node += 1;
        }
        Ok(())
    }

    fn run_image(&self, newest: &Segment, image: &Image, ended: &Ended) -> Result<()> {
        let folder = self.folder.join("image");
        let data = NodeProcess::data_folder(&folder);
        images::plant(&self.data(), newest, image, &data)?;
        let found = verify(&data)?;
        let expected = if image.torn { Exit::TornTail } else { Exit::Ok };
        ensure!(found.code == Some(expected as i32), "verify: {}", found.output);
        if image.torn {
            let named = found.json["verdict"]["height"].as_u64();
            ensure!(named == Some(image.height), "verify: {}", found.output);
        }
        let node = NodeProcess::start(&folder)?;
        let mut models = self.models.clone();
        let range = |(model, told): (&Model, &clients::Told)| Range {
            least: if image.complete { told.acknowledged } else { model.sequence },
            most: told.most(),
        };
        let ranges: Vec<Range> = self.models.iter().zip(&ended.told).map(range).collect();
        self.runtime.block_on(settle(&node.target, &mut models, &ranges))?;
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
        self.verify(report, &[Exit::Ok])
    }
}

fn page(report: &Report) -> String {
    let Report {
        seed,
        kills,
        rounds: _,
        kills_in_recovery,
        kills_in_a_clean_stop,
        clean_stops_under_load,
        images_in_memory,
        images_run_by_a_node,
        verifications,
        acknowledged,
        unanswered,
        bank_calls,
        retried,
        blocks,
        ledger_bytes,
        recovery_s_max,
        flips,
        losses,
        loss,
        total_s,
    } = report;
    let mut text = format!(
        "seed                  {seed}\n\
         kills                 {kills} ({kills_in_recovery} in recovery, \
         {kills_in_a_clean_stop} in a clean stop, {clean_stops_under_load} clean stops)\n\
         images                {images_in_memory} in memory, {images_run_by_a_node} run by a node\n\
         verifications         {verifications}, the last of {blocks} blocks, {ledger_bytes} bytes\n\
         transactions          {acknowledged} acknowledged to recording clients, {unanswered} \
         unanswered, {retried} retried\n\
         bank calls            {bank_calls}\n\
         recovery              {recovery_s_max:.2} s at most\n"
    );
    if let Some(flips) = flips {
        text += &flips.table();
    }
    text += &format!("losses                {losses}\ntime                  {total_s:.0} s\n");
    if let Some(loss) = loss {
        text += &format!("\nLOST: {loss}\n");
    }
    text
}
