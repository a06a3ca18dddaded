//! `tally demo`: the whole promise in a minute, on real processes and a real disk.
//!
//! 1. Start a node on an empty folder and load SmallBank through COPY.
//! 2. Measure: pgbench runs the six procedures.
//! 3. Load again, and let recording clients write down every payment that the node acknowledges.
//!    In the middle of it, a checkpoint, and some seconds later SIGKILL.
//! 4. Start again and compare: every acknowledged payment is there, nothing else was made up, and
//!    the money is all there, to the cent.
//! 5. Stop, verify the whole ledger, take a receipt, check it offline, see a forged one refused.
//!
//! The node under test is the program `tally`, run as an operator would run it; nothing here
//! reaches into the engine.

pub mod bank;
mod cluster;
mod forgeries;
pub mod page;
pub mod pgbench;
mod recorders;
mod report;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use workloads::skew::Skew;
use workloads::smallbank;

use crate::arguments;
use crate::node_process::{NodeProcess, path, run_tally};
use bank::Bank;
use forgeries::forgeries_are_refused;
use node::cli::{Exit, Output};
use node::progress::Progress;
use pgbench::{Measured, Target};
use recorders::Ends;
use report::{Checkpoint, Ledger, Report};

/// How long the load runs before a checkpoint is asked for, and before the node is killed.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(1);
const KILL_AFTER: Duration = Duration::from_secs(4);
const RECORDING_CLIENTS: u32 = 8;

pub fn run(arguments: &arguments::Demo, output: Output) -> Result<Exit> {
    if arguments.cluster {
        return cluster::run(arguments, output);
    }
    let began = Instant::now();
    pgbench::require_tools()?;
    if arguments.customers < 2 || arguments.clients == 0 || arguments.seconds == 0 {
        bail!("at least two customers, a client and a second are needed");
    }
    let folder = tempfile::Builder::new().prefix("tally-demo-").tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut report =
        Report { customers: arguments.customers, clients: arguments.clients, ..Report::default() };
    let outcome = match &arguments.against {
        None => with_node(arguments, folder.path(), &runtime, &mut report),
        Some(url) => against(arguments, url, folder.path(), &runtime, &mut report),
    };
    report.total_s = began.elapsed().as_secs_f64();
    if arguments.keep || outcome.is_err() {
        eprintln!("data, logs and receipt are kept in {}", folder.keep().display());
    }
    outcome?;
    match output {
        Output::Text => print!("{}", page::text(&report)),
        Output::Json => println!("{}", serde_json::to_string(&report)?),
    }
    Ok(if report.holds() { Exit::Ok } else { Exit::Failed })
}

/// The demo proper.
fn with_node(
    arguments: &arguments::Demo,
    folder: &Path,
    runtime: &tokio::runtime::Runtime,
    report: &mut Report,
) -> Result<()> {
    let step = Progress::begin("starting a node on an empty folder");
    let mut node = NodeProcess::start(folder)?;
    step.end(&format!("ready on {}", node.target.address()));

    let bank = prepare(arguments, &node.target, runtime, report)?;
    let before = node.ledger()?;
    let scripts = scripts(bank.customers, folder)?;
    report.measured = measure(arguments, &node.target, &scripts, folder)?;
    let after = node.ledger()?;
    report.ledger = Some(Ledger {
        blocks: after.blocks.saturating_sub(before.blocks),
        bytes: after.bytes.saturating_sub(before.bytes),
    });

    let step = Progress::begin("the same load again, with payments recorded by their clients");
    let load = pgbench::Load::start(&node.target, arguments.clients, &scripts)?;
    let recording =
        recorders::start(runtime, &node.target, 0..RECORDING_CLIENTS, bank.customers, Ends::Broken);
    let begun = Instant::now();
    std::thread::sleep(CHECKPOINT_AFTER);
    report.checkpoint = Some(checkpoint(&node, folder)?);
    std::thread::sleep(KILL_AFTER.saturating_sub(begun.elapsed()));
    node.kill()?;
    let acknowledged = recording.join(runtime)?;
    load.end();
    report.acknowledged_payments = acknowledged.iter().sum();
    step.end(&format!(
        "SIGKILL after {} acknowledged payments",
        page::grouped(report.acknowledged_payments)
    ));

    let step = Progress::begin("starting it again");
    let restarted = Instant::now();
    node.restart()?;
    let recovery_s = restarted.elapsed().as_secs_f64();
    report.recovery_s = Some(recovery_s);
    step.end(&format!("recovered and ready in {recovery_s:.2} s"));

    compare(&bank, &node.target, runtime, &acknowledged, report)?;
    node.stop()?;
    prove(folder, report)
}

/// Asks the node for a checkpoint, as an operator would.
fn checkpoint(node: &NodeProcess, folder: &Path) -> Result<Checkpoint> {
    let data = NodeProcess::data_folder(folder);
    let address = node.http_address().to_string();
    let began = Instant::now();
    let asked = ["--output", "json", "checkpoint", "--data", path(&data)?];
    let taken = run_tally(&[&asked[..], &["--http-listen", &address]].concat())?;
    if !taken.success {
        bail!("no checkpoint: {}", taken.output);
    }
    let field = |name: &str| taken.json[name].as_u64().unwrap_or(0);
    Ok(Checkpoint {
        height: field("height"),
        rows: field("rows"),
        bytes: field("bytes_written"),
        took_s: began.elapsed().as_secs_f64(),
    })
}

/// The same without the ledger's steps, on a server that is not started here.
fn against(
    arguments: &arguments::Demo,
    url: &str,
    folder: &Path,
    runtime: &tokio::runtime::Runtime,
    report: &mut Report,
) -> Result<()> {
    let target = Target::parse(url)?;
    let bank = prepare(arguments, &target, runtime, report)?;
    let scripts = scripts(bank.customers, folder)?;
    report.measured = measure(arguments, &target, &scripts, folder)?;
    let load = pgbench::Load::start(&target, arguments.clients, &scripts)?;
    let recording =
        recorders::start(runtime, &target, 0..RECORDING_CLIENTS, bank.customers, Ends::Broken);
    std::thread::sleep(KILL_AFTER);
    load.end();
    recording.stop();
    let acknowledged = recording.join(runtime)?;
    report.acknowledged_payments = acknowledged.iter().sum();
    compare(&bank, &target, runtime, &acknowledged, report)
}

fn prepare(
    arguments: &arguments::Demo,
    target: &Target,
    runtime: &tokio::runtime::Runtime,
    report: &mut Report,
) -> Result<Bank> {
    let step = Progress::begin("creating SmallBank's tables and procedures");
    let bank = Bank { customers: arguments.customers };
    runtime.block_on(bank.create(target))?;
    step.end("");
    let label = format!("loading {} customers by COPY", page::grouped(bank.customers));
    let step = Progress::begin(&label);
    let began = Instant::now();
    report.load_rows = runtime.block_on(bank.load(target, |part| step.advance(part)))?;
    report.load_s = began.elapsed().as_secs_f64();
    step.end(&format!("{} rows", page::grouped(report.load_rows)));
    Ok(bank)
}

/// Half of the draws fall on one customer in a hundred.
fn scripts(customers: u64, folder: &Path) -> Result<Vec<String>> {
    let skew = Skew::hotspot(customers, customers / 100, 50);
    pgbench::write_scripts(&smallbank::scripts(&skew), folder)
}

fn measure(
    arguments: &arguments::Demo,
    target: &Target,
    scripts: &[String],
    folder: &Path,
) -> Result<Measured> {
    let (clients, seconds) = (arguments.clients, arguments.seconds);
    let label = format!("SmallBank by pgbench, {clients} clients, {seconds} s");
    let step = Progress::begin(&label);
    let advance = |part, note: &str| {
        step.advance(part);
        step.note(note);
    };
    let measured = pgbench::measure(target, clients, seconds, scripts, folder, advance)?;
    let rate = page::grouped(measured.transactions_per_s as u64);
    step.end(&format!("{rate} transactions/s"));
    Ok(measured)
}

/// The verdicts that need a running node.
fn compare(
    bank: &Bank,
    target: &Target,
    runtime: &tokio::runtime::Runtime,
    acknowledged: &[u64],
    report: &mut Report,
) -> Result<()> {
    let step = Progress::begin("comparing with what the clients wrote down");
    let measured = &report.measured;
    let detail = format!(
        "{} transactions: {} failed, {} retried",
        page::grouped(measured.transactions),
        measured.failed,
        measured.retried
    );
    let calm = measured.failed == 0 && measured.retried == 0;
    report.check("no call failed, none was tried again", calm, detail);
    let journal = runtime.block_on(bank.journal(target, acknowledged.len()))?;
    let found = recorders::compare(acknowledged, &journal);
    report.check(
        "nothing acknowledged was lost",
        found.lost == 0 && found.acknowledged > 0,
        format!(
            "{} of {} payments are in the journal",
            page::grouped(found.acknowledged - found.lost),
            page::grouped(found.acknowledged)
        ),
    );
    report.check(
        "nothing was made up",
        found.invented == 0,
        format!("{} more were under way at the end, at most 1 a client", found.unanswered),
    );
    let expected = smallbank::initial_total_cents(bank.customers);
    let total = runtime.block_on(bank.total_cents(target))?;
    report.check(
        "the money is all there",
        total == expected,
        match total - expected {
            0 => format!("{} cents, as loaded", page::grouped(expected.unsigned_abs())),
            off => format!("off by {off} cents"),
        },
    );
    step.end("");
    Ok(())
}

/// The verdicts that need the folder only.
fn prove(folder: &Path, report: &mut Report) -> Result<()> {
    let data = NodeProcess::data_folder(folder);
    let step = Progress::begin("verifying the whole ledger");
    let began = Instant::now();
    let verified = run_tally(&["--output", "json", "verify", path(&data)?])?;
    let verify_s = began.elapsed().as_secs_f64();
    let field = |name: &str| verified.json[name].as_u64().unwrap_or(0);
    let (height, transactions) = (field("height"), field("transactions"));
    let detail = if verified.success {
        format!(
            "{} blocks, {} transactions run again in {verify_s:.1} s",
            page::grouped(field("blocks")),
            page::grouped(transactions)
        )
    } else {
        verified.output.clone()
    };
    report.check("the ledger verifies", verified.success, detail);
    let checkpoints = verified.json["checkpoints"].as_array().map_or(&[][..], Vec::as_slice);
    let hold = checkpoints.iter().all(|at| at["holds"] == true) && !checkpoints.is_empty();
    let heights: Vec<String> = checkpoints.iter().map(|at| at["height"].to_string()).collect();
    let detail = format!("the state after block {} has the same digest", heights.join(", "));
    report.check("the checkpoint is what execution gives", hold, detail);
    step.end("");

    let step = Progress::begin("taking a receipt and checking it offline");
    let hash = verified.json["head"].as_str().unwrap_or_default();
    let receipt = folder.join("receipt");
    let (receipt_name, height_text) = (path(&receipt)?, height.to_string());
    let taken = run_tally(&[
        "receipt",
        "--data",
        path(&data)?,
        "--height",
        &height_text,
        "--index",
        "0",
        "--out",
        receipt_name,
    ])?;
    let held = run_tally(&["receipt", "verify", receipt_name, "--head", hash])?;
    let bytes = std::fs::read(&receipt).unwrap_or_default();
    let fits = taken.success && held.success;
    let detail = if fits {
        format!("{} bytes prove transaction 0 of block {height}", bytes.len())
    } else {
        format!("{} {}", taken.output, held.output)
    };
    report.check("a receipt proves a transaction offline", fits, detail);
    let refused = forgeries_are_refused(&bytes, ["--head", hash], folder)?;
    report.check(
        "a forged receipt is refused",
        refused,
        "one bit changed, wherever it was tried".into(),
    );
    step.end("");
    Ok(())
}
