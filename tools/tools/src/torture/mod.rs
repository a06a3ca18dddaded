//! `tally torture`: everything that can befall a ledger, until something is lost or the time is up.
//!
//! ```text
//! disk in memory   an engine on a disk that does everything wrong              [`disk`]
//! decoders         hostile bytes                                               [`decoders`]
//! real disks       a full one and a read-only one, with clients                [`mounts`]
//! kills            SIGKILL of nodes and of commands, and images of their disks [`kills`]
//! cluster          instead of all this: whatever happens to nodes of one       [`cluster`]
//! flips            single bytes of a small ledger's folder                     [`flips`]
//! ```
//!
//! The phases share the time, and each does a least of its own; what was not tried is named. A run
//! ends at the first loss, keeps the folder, and exits with 1. The seed decides what clients do and
//! when kills come, not how threads interleave: a failing run of real processes need not fail
//! again. What happens in memory does.

mod check;
mod clients;
mod cluster;
mod decoders;
mod disk;
mod flips;
mod images;
mod kills;
mod model;
mod mounts;
mod page;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kit::random::Random;

use crate::arguments;
use disk::{Count, Until};
use node::cli::{Exit, Output};
use node::progress::Progress;
use report::Report;

/// Shares of the time, in percent; what a phase leaves goes to those behind it.
const DISK_PERCENT: u32 = 25;
const DECODERS_PERCENT: u32 = 8;
const KILLS_PERCENT: u32 = 55;

/// Inputs between two looks at the clock.
const INPUTS_PER_TURN: u64 = 500;

pub fn run(arguments: &arguments::Torture, output: Output) -> Result<Exit> {
    let began = Instant::now();
    let folder = tempfile::Builder::new().prefix("tally-torture-").tempdir()?;
    let mut report =
        Report { seed: arguments.seed.unwrap_or_else(seed_of_now), ..Report::default() };
    eprintln!("  seed {}", report.seed);
    let outcome = torture(arguments, folder.path(), &mut report, began);
    if let Err(error) = outcome {
        report.losses += 1;
        report.loss = Some(format!("{error:#}"));
        eprintln!("the folder is kept: {}", folder.keep().display());
    }
    report.total_s = began.elapsed().as_secs_f64();
    if report.cluster.is_none() {
        report.find_untried();
    }
    match output {
        Output::Text => print!("{}", page::page(&report)),
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
    arguments: &arguments::Torture,
    folder: &Path,
    report: &mut Report,
    began: Instant,
) -> Result<()> {
    let limit = Duration::from_secs(arguments.seconds);
    if arguments.cluster.is_some() {
        return of_cluster(arguments, folder, report, began + limit);
    }
    let after = |percent: u32| Until(Some(began + limit * percent / 100));
    in_memory(report, &after(DISK_PERCENT))?;
    decode(report, &after(DISK_PERCENT + DECODERS_PERCENT))?;
    let step = Progress::begin("a full disk and a read-only one, under clients");
    mounts::run(&folder.join("mounts"), &mut report.mounts)?;
    step.end(&report.mounts.summary());
    let step = Progress::begin("kills, and what a power cut may leave");
    let until = match arguments.kills {
        Some(kills) => kills::End::Kills(kills),
        None => kills::End::Time(after(DISK_PERCENT + DECODERS_PERCENT + KILLS_PERCENT)),
    };
    let seed = report.seed;
    let killing =
        kills::run(&folder.join("kills"), arguments, seed, &until, &step, &mut report.kills);
    killing.with_context(|| format!("after {} kills", report.kills.kills))?;
    step.end(&format!("{} kills", report.kills.kills));
    if arguments.flips == 0 {
        return Ok(());
    }
    let step = Progress::begin("flipping bytes of a small ledger");
    // Kills that were counted may have taken all the time.
    let least = Instant::now() + Duration::from_secs(1);
    let until = Until(Some((began + limit).max(least)));
    let flips = flips::run(&folder.join("flips"), arguments.flips, report.seed, &until, |part| {
        step.advance(part)
    })?;
    step.end(&format!("{} flips", flips.flips));
    report.flips = Some(flips);
    Ok(())
}

fn of_cluster(
    arguments: &arguments::Torture,
    folder: &Path,
    report: &mut Report,
    over: Instant,
) -> Result<()> {
    let step = Progress::begin("whatever happens to nodes of a cluster");
    let end = match arguments.kills {
        Some(kills) => kills::End::Kills(kills),
        None => kills::End::Time(Until(Some(over))),
    };
    let done = report.cluster.insert(cluster::Report::default());
    let killing = cluster::run(&folder.join("cluster"), arguments, report.seed, &end, &step, done);
    killing.with_context(|| format!("after {} kills", done.kills))?;
    step.end(&format!("{} kills", done.kills));
    Ok(())
}

fn in_memory(report: &mut Report, until: &Until) -> Result<()> {
    let step = Progress::begin("an engine on a disk in memory that does everything wrong");
    let summary = |count: &Count| {
        format!("{} images, {} faults, {} flips", count.images, count.faults, count.flips)
    };
    report.disk = disk::run(report.seed, until, &|count| step.note(&summary(count)))?;
    step.end(&summary(&report.disk));
    Ok(())
}

fn decode(report: &mut Report, until: &Until) -> Result<()> {
    let step = Progress::begin("hostile bytes for every decoder");
    let mut random = Random::new(report.seed);
    let decoders = decoders::Decoders::of(&disk::specimen(&mut random)?)?;
    loop {
        let (fed, accepted) = decoders.feed(INPUTS_PER_TURN, &mut random)?;
        report.inputs += fed;
        report.inputs_accepted += accepted;
        step.note(&format!("{} inputs", report.inputs));
        if until.is_over() {
            break;
        }
    }
    step.end(&format!("{} inputs, {} accepted", report.inputs, report.inputs_accepted));
    Ok(())
}
