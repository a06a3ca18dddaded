//! Wu: *PACMAN: Parallel Logging and Recovery* (thesis, 2017, chapter 4; with Guo, Chan and Tan,
//! SIGMOD 2017), figures 4.11 to 4.20 and tables 4.1 to 4.3, and what durability costs here.
//!
//! Theirs are forty cores, two SSDs and TPC-C on 200 warehouses without its inserts; ours is what
//! there is, with inserts. What can be carried over are shares of the throughput, ratios of bytes,
//! orders of the ways back and shapes of curves.
//!
//! * [`logging`]: what a log costs while it is written;
//! * [`recovering`]: what the ways back cost;
//! * [`cost`]: durability of this engine, against bounds that it sets itself.

mod cost;
mod logging;
mod recovering;

use std::path::PathBuf;

use anyhow::Result;

use super::{Figure, Findings, Lab};
use crate::Workload;
use crate::logging::{Load, Scheme, Setting};
use crate::recovering::Wanted;

/// What the thesis does not have; a protocol must be there all the same.
const PROTOCOL: &str = "harmony";

const CHECKPOINT_CPU_PERCENT_MAX: u32 = 50;

pub const FIGURES: &[Figure] = &[
    figure("pacman-4.11", "throughput and latency while logging, over time", logging::traces),
    figure("pacman-table-4.1", "throughput and bytes of each log scheme", logging::sizes),
    figure("pacman-table-4.2", "bytes a second to disk, with a checkpoint", logging::bandwidth),
    figure("pacman-table-4.3", "latency of each log scheme, synced or not", logging::latencies),
    figure("pacman-4.12", "logging with a growing share of ad-hoc work", logging::ad_hoc),
    figure("pacman-4.13", "recovery from a checkpoint, by threads", recovering::checkpoint),
    figure("pacman-4.14", "recovery from a log, by scheme and threads", recovering::log),
    figure("pacman-4.15", "what latches cost in logical recovery", recovering::latches),
    figure("pacman-4.16", "recovery as a whole, by scheme", recovering::overall),
    figure("pacman-4.17", "recovery with a growing share of ad-hoc work", recovering::ad_hoc),
    figure("pacman-4.18", "replay by static analysis alone", recovering::static_only),
    figure("pacman-4.19", "static, synchronous and pipelined replay", recovering::strategies),
    figure("pacman-4.20", "what the time of pipelined replay is spent on", recovering::breakdown),
];

/// Bounds of this engine, which no paper has.
pub const COSTS: &[Figure] = &[
    Figure {
        source: OWN,
        ..figure("durability-cost", "the price of a ledger on disk", cost::disk)
    },
    Figure {
        source: OWN,
        ..figure("durability-checkpoint", "what a checkpoint costs others", cost::checkpoint)
    },
    Figure {
        source: OWN,
        ..figure("durability-replay", "replay beside the engine alone", cost::replays)
    },
    Figure { source: OWN, ..figure("durability-load", "recovery beside its bounds", cost::loads) },
];

const OWN: &str = "no paper: bounds that this engine sets itself";

type Find = fn(&mut Lab<'_>) -> Result<Findings>;

const fn figure(name: &'static str, about: &'static str, find: Find) -> Figure {
    Figure { name, about, source: "PACMAN, chapter 4 of Wu's thesis", protocols: &[PROTOCOL], find }
}

/// As large as the machine's time allows: contention is on warehouses and districts.
fn tpcc(lab: &Lab<'_>) -> Result<Workload> {
    let tpcc = Workload::named("tpcc")?.with("warehouses", 1);
    Ok(tpcc.with("customers", lab.effort.rows(3_000)).with("items", lab.effort.rows(100_000)))
}

fn smallbank(lab: &Lab<'_>) -> Result<Workload> {
    Ok(Workload::named("smallbank")?.with("rows", lab.effort.rows(100_000)))
}

/// One thread, two, and so on up to all.
fn thread_counts(lab: &Lab<'_>) -> Vec<usize> {
    let most = lab.effort.threads;
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
    counts.push(most);
    counts
}

fn folder(lab: &Lab<'_>) -> PathBuf {
    lab.effort.folder.clone()
}

fn setting(lab: &Lab<'_>, workload: &Workload, transactions: usize, scheme: Scheme) -> Setting {
    Setting {
        workload: workload.clone(),
        protocol: PROTOCOL.to_owned(),
        threads: lab.effort.threads,
        block_transactions_max: 1_000,
        transactions: lab.effort.transactions(transactions),
        seed: 1,
        scheme,
        loggers: 1,
        sync: true,
        ad_hoc_percent: 0,
        load: Load::Saturated,
        checkpoint_cpu_percent_max: None,
        folder: folder(lab),
    }
}

fn wanted(lab: &Lab<'_>, workload: &Workload, transactions: usize) -> Wanted {
    Wanted {
        workload: workload.clone(),
        transactions: lab.effort.transactions(transactions),
        block_transactions: 1_000,
        ad_hoc_percent: 0,
        seed: 1,
        folder: folder(lab),
    }
}

/// A quantity of something that was measured.
type Quantity<T> = fn(&T) -> f64;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn percent_less(now: f64, before: f64) -> String {
    format!("{:+.1} %", 100.0 * (now / before - 1.0))
}

const FEW_CORES: &str = "two cores: workers, loggers and checkpointers share what the thesis gives \
    forty, so curves end where theirs begin to bend.";
const ONE_DISK: &str = "one disk: what two devices add cannot be shown; two loggers write two \
    streams to the same one.";
