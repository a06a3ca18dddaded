//! Runs whose blocks are logged: what a log costs while it is written, and a checkpoint beside it.
//!
//! One thread does what the live sequencer does, with the same parts: a block is cut from what has
//! arrived, executed and sealed, logged, and only then released. Checkpoints are taken by the live
//! engine's own service.
//!
//! ```text
//!   arrivals ─► execute, seal ─► log by a [`Scheme`] ─► publish ─► released
//!                                                          └─► boundary for the checkpoint service
//! ```
//!
//! *Two loads.* **Saturated** is a closed loop: a full block is always there, and a transaction's
//! latency is its block's time. In the **open** one transaction n arrives at n / rate, whether or
//! not the engine is ready; a block takes all that have arrived, and latency counts from the
//! arrival, so that one that had to wait for a slow block is counted with its wait. Arrivals are
//! computed, not sent: no client's thread competes for the cores.
//!
//! *What a part cost.* Blocks during which a checkpoint was written are counted apart from the
//! others, with their wall and processor time. The processor time of the checkpoint's own thread is
//! the kernel's count. Latencies are those of the last three quarters of a run.
//!
//! Departure from the thesis: blocks are sealed under all schemes, and the command log is the
//! ledger. Departure from a node: row logs are all that their schemes write here, as in the thesis,
//! with a note of the last complete epoch; a node writes them beside the ledger (module
//! `recovery::schemes::row_logs`).

mod drive;
mod trace;
mod unsynced;

use std::path::PathBuf;

use anyhow::Result;

use crate::Workload;
use crate::bed::Source;
pub(crate) use drive::is_ad_hoc;
pub use trace::{CheckpointCost, Part, SLICE, Slice, Trace};

/// What is written before a block is released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Nothing: sealing alone.
    Off,
    Physical,
    Logical,
    /// The ledger.
    Command,
}

impl Scheme {
    pub const ALL: [Scheme; 4] = [Scheme::Off, Scheme::Physical, Scheme::Logical, Scheme::Command];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Off => "off",
            Scheme::Physical => "physical",
            Scheme::Logical => "logical",
            Scheme::Command => "command",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// A full block is always there.
    Saturated,
    /// Transactions a second, evenly spaced.
    Open(f64),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub workload: Workload,
    pub protocol: String,
    pub threads: usize,
    pub block_transactions_max: usize,
    pub transactions: usize,
    pub seed: u64,
    pub scheme: Scheme,
    /// Streams of a row log.
    pub loggers: usize,
    /// Whether a block waits for stable storage.
    pub sync: bool,
    /// Share of the transactions that a command log holds row by row besides.
    pub ad_hoc_percent: u32,
    pub load: Load,
    /// Share of one core for a checkpoint, asked for when a quarter of the run is over.
    pub checkpoint_cpu_percent_max: Option<u32>,
    /// Where files go.
    pub folder: PathBuf,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, log {}, {} threads", self.workload, self.scheme.name(), self.threads)?;
        if self.ad_hoc_percent > 0 {
            write!(f, ", {} % ad hoc", self.ad_hoc_percent)?;
        }
        if let Load::Open(rate) = self.load {
            write!(f, ", {rate:.0} arrive a second")?;
        }
        f.write_str(if self.checkpoint_cpu_percent_max.is_some() { ", a checkpoint" } else { "" })
    }
}

/// A workload that is loaded once, for runs that each have a fresh copy.
pub struct Bench {
    source: Source,
}

impl Bench {
    pub fn load(workload: &Workload) -> Result<Bench> {
        Ok(Bench { source: Source::load(workload)? })
    }

    pub fn run(&self, setting: &Setting) -> Result<Trace> {
        drive::run(&self.source, setting)
    }
}
