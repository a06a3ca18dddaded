//! `tally sim`: whole nodes in one thread, a world for each seed.
//!
//! A world that breaks a rule ends the run: its seed is printed, and the smallest world that was
//! found to break the same rule. The same seed gives the same world on any machine.

use anyhow::Result;
use serde_json::json;
use sim::{Failure, Options, Stats};

use crate::arguments;
use node::cli::{Exit, Output};
use node::progress::Progress;

/// Attempts to make a failing world smaller.
const SHRINKS_MAX: usize = 400;

pub fn run(arguments: &arguments::Sim, output: Output) -> Result<Exit> {
    let arguments::Sim { seeds, seed: first, protocol } = arguments;
    if let Some(protocol) = protocol {
        protocols::by_name(protocol)?;
    }
    let progress = Progress::begin(&format!("{seeds} worlds from seed {first}"));
    let mut total = Stats::default();
    for (done, seed) in (0..*seeds).zip(*first..) {
        progress.advance(done as f64 / *seeds as f64);
        match sim::run(seed, &Options::of_seed(seed, protocol.as_deref())) {
            Ok(stats) => total += stats,
            Err(failure) => {
                progress.end("a rule is broken");
                return Ok(broken(failure, output));
            }
        }
    }
    progress.end("every rule holds");
    tell(*seeds, &total, output);
    Ok(Exit::Ok)
}

fn tell(seeds: u64, total: &Stats, output: Output) {
    let Stats { steps, blocks, transactions, deferred, answers, reads, .. } = total;
    let Stats { lookups, checkpoints, kills, power_cuts, halts, .. } = total;
    match output {
        Output::Text => println!(
            "{seeds} worlds: {steps} steps, {blocks} blocks, {transactions} transactions \
             ({deferred} deferred), {answers} answers, {reads} reads, {lookups} keys looked up, \
             {checkpoints} checkpoints, {kills} kills, {power_cuts} power cuts, {halts} disks that \
             failed; every rule holds"
        ),
        Output::Json => println!(
            "{}",
            json!({
                "seeds": seeds, "steps": steps, "blocks": blocks, "transactions": transactions,
                "deferred": deferred, "answers": answers, "reads": reads, "lookups": lookups,
                "checkpoints": checkpoints, "kills": kills, "power_cuts": power_cuts,
                "halts": halts, "holds": true,
            })
        ),
    }
}

fn broken(failure: Failure, output: Output) -> Exit {
    let (seed, invariant, what) = (failure.seed, failure.invariant, failure.what.clone());
    let smaller = sim::shrink(failure.clone(), SHRINKS_MAX);
    match output {
        Output::Text => println!("{failure}\n\nsmaller:\n{smaller}"),
        Output::Json => println!(
            "{}",
            json!({
                "holds": false, "seed": seed, "invariant": invariant, "what": what,
                "smaller": smaller.to_string(),
            })
        ),
    }
    Exit::Failed
}
