//! `tally soak`: hours of everything at full load, and whether memory stays flat.
//!
//! ```text
//! 0 s          a quarter                                          the end
//! | warm-up    | second quarter: the base | …    | last quarter    |
//!                └── median                       ├── median: 5 % more at most
//!                                                 └── largest: twice the base's median at most
//! ```
//!
//! *What is looked at.* The memory that is the process's own: pages of the program, which come as
//! code is run and which the kernel may take back at any time, are shown beside it. What is not
//! given back is there at every moment, so it raises the median, of hundreds of samples, which
//! noise does not: that is held to 5 %. The largest sample is a different thing. A snapshot that
//! is read for a second, a checkpoint, a moment in which the machine has other things to do keep
//! versions and requests waiting, and the longer one looks, the larger is the largest of such
//! moments, without anything being lost. An operator has to have room for it, so it has a bound,
//! and a wide one.
//!
//! The node is a process of this executable, as an operator would run it, which takes checkpoints
//! and prunes what they make superfluous, so that the disk stays flat too. Its clients ([`load`])
//! never touch more rows than they began with: they overwrite hot and long texts, insert under new
//! keys what they delete again, pay, fail, read, and change the schema. What grows is what is not
//! given back.
//!
//! One line a minute says how much was done, what the process holds, what of it the allocator has
//! given out, and what the node says that it is (`tally_memory`), so that a leak can be told from a
//! cache, and both from what the allocator keeps. At the end sums are
//! compared, the node is stopped, and its ledger is verified from the newest checkpoint on.

mod load;
mod page;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;

use crate::arguments;
use crate::node_process::{NodeProcess, run_tally};
use load::Load;
use node::cli::{Exit, Output};
use report::{Report, Sample};

/// Lines of the page, at most: samples between them are folded into the next one.
const LINES_MAX: u64 = 120;

pub fn run(arguments: &arguments::Soak, output: Output) -> Result<Exit> {
    let began = Instant::now();
    ensure!(arguments.seconds >= 8, "eight seconds are the least: quarters are compared");
    ensure!(arguments.clients > 0, "a client is needed");
    let folder = match &arguments.folder {
        Some(within) => tempfile::Builder::new().prefix("tally-soak-").tempdir_in(within)?,
        None => tempfile::Builder::new().prefix("tally-soak-").tempdir()?,
    };
    let mut report =
        Report { seed: arguments.seed, clients: arguments.clients, ..Report::default() };
    let outcome = soak(arguments, folder.path(), &mut report);
    if arguments.keep || outcome.is_err() {
        eprintln!("data and logs are kept in {}", folder.keep().display());
    }
    outcome?;
    report.judge();
    report.total_s = began.elapsed().as_secs_f64();
    match output {
        Output::Text => print!("{}", page::verdict(&report)),
        Output::Json => println!("{}", serde_json::to_string(&report)?),
    }
    Ok(if report.holds { Exit::Ok } else { Exit::Failed })
}

fn soak(arguments: &arguments::Soak, folder: &Path, report: &mut Report) -> Result<()> {
    let runtime = Runtime::new()?;
    let settings = ["prune_keep_blocks=1000"];
    let node = NodeProcess::start_with(folder, &settings)?;
    runtime.block_on(load::prepare(&node.target, arguments.clients))?;
    let load = Load::start(&runtime, &node.target, arguments);
    let ended = watch(arguments, &node, &runtime, &load, report);
    // Also after a failure: the clients' own words may say more.
    report.retried = load.end(&runtime)?;
    ended?;
    runtime.block_on(load::check(&node.target))?;
    node.stop()?;
    let data = NodeProcess::data_folder(folder);
    let data = data.to_str().context("a folder's name is not text")?;
    let verified = run_tally(&["verify", data, "--from-checkpoint"])?;
    ensure!(verified.success, "the ledger does not verify: {}", verified.output);
    report.verified = true;
    Ok(())
}

/// Samples until the time is up or a client has failed.
fn watch(
    arguments: &arguments::Soak,
    node: &NodeProcess,
    runtime: &Runtime,
    load: &Load,
    report: &mut Report,
) -> Result<()> {
    let began = Instant::now();
    let limit = Duration::from_secs(arguments.seconds);
    let every = (limit / 64).clamp(Duration::from_millis(100), Duration::from_secs(10));
    let lines_every = (limit / LINES_MAX as u32).max(Duration::from_secs(60)).min(limit / 8);
    let mut line_at = Duration::ZERO;
    eprintln!("{}", page::HEAD);
    while began.elapsed() < limit && !load.has_failed() {
        std::thread::sleep(every.min(limit.saturating_sub(began.elapsed())));
        let (size, resident) = (node.ledger()?, node.resident()?);
        let sample = Sample {
            at_s: began.elapsed().as_secs_f64(),
            own_bytes: resident.own_bytes,
            mapped_bytes: resident.mapped_bytes,
            parts_bytes: runtime.block_on(load::parts(&node.target))?,
            ledger_bytes: size.bytes,
            blocks: size.blocks,
            operations: load.done(),
        };
        if began.elapsed() >= line_at {
            line_at += lines_every;
            eprintln!("{}", page::line(report.samples.last(), &sample));
        }
        report.samples.push(sample);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_quarters_are_compared_and_peaks_have_a_bound() {
        let judged = |sizes: &[u64]| {
            let sample = |(at, size): (usize, &u64)| Sample {
                at_s: at as f64,
                own_bytes: *size,
                ..Sample::default()
            };
            let samples = sizes.iter().enumerate().map(sample).collect();
            let mut report = Report { samples, verified: true, ..Report::default() };
            report.judge();
            (report.growth_percent.round() as i64, report.holds)
        };
        assert_eq!(judged(&[1, 90, 100, 100, 100, 99, 103, 104, 104]), (4, true));
        assert_eq!(judged(&[1, 90, 100, 100, 100, 99, 105, 106, 107]), (6, false));
        assert_eq!(judged(&[500, 90, 100, 100, 99, 100, 100, 90, 80]), (-10, true));
        // One moment is none that stays; but there must be room for it.
        assert_eq!(judged(&[1, 90, 100, 100, 99, 100, 100, 100, 180]), (0, true));
        assert_eq!(judged(&[1, 90, 100, 100, 99, 100, 100, 100, 220]), (0, false));
        assert_eq!(judged(&[1, 90, 100, 100, 400, 300, 100, 100, 100]), (0, true));
    }
}
