//! The engine alone, measured: no clients, no sockets, a fresh database for every run.
//!
//! A run loads a workload's tables through blocks, draws and compiles all its transactions, and
//! only then starts the clock. What the clock sees is one of
//!
//! ```text
//!   sealing on    payloads ─► replica: compile, execute, effects, roots, header
//!                 (─► log, with durability)
//!   sealing off   programs ─► protocol: prepare, finish
//! ```
//!
//! so that the difference of the two is the price of the ledger.
//!
//! *Fair figures.* Runs of different cells alternate (A-B-A-B), and a cell reports the median of
//! its repetitions, since the machine is not as constant as one would like. Beside the wall clock
//! stands the CPU time of the whole process, which is what a busier or slower machine blurs least.
//! Every figure has the digest of the state that it led to: a protocol that is fast because it is
//! wrong does not pass, and the same cell gives the same digest on any number of threads.
//!
//! Absence: no command line, no terminal (the caller draws the progress), no network.

mod bed;
pub mod figures;
mod run;
mod workload;

use std::path::PathBuf;

use anyhow::{Result, bail};

pub use figures::Figure;
pub use workload::{Newest, Programs, Workload};
pub use workloads::Settings;

/// What to measure: every combination of the lists is a cell.
#[derive(Clone, Debug)]
pub struct Plan {
    pub workload: Workload,
    pub protocols: Vec<String>,
    pub thetas: Vec<f64>,
    pub threads: Vec<usize>,
    pub sealing: Vec<bool>,
    pub block_transactions: usize,
    pub transactions: usize,
    /// Of the workload; a cell's theta comes on top where the workload has one.
    pub settings: Settings,
    pub programs: Programs,
    /// Where to write a ledger; `None`: nowhere.
    pub durability: Option<PathBuf>,
    pub repetitions: usize,
    pub seed: u64,
    /// Allocations of the whole process up to now, where the program's allocator counts them.
    pub allocations: Option<fn() -> u64>,
}

/// One combination.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub protocol: String,
    pub theta: f64,
    pub threads: usize,
    pub sealing: bool,
}

impl Plan {
    /// In the order in which they alternate.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &theta in &self.thetas {
            for &threads in &self.threads {
                for &sealing in &self.sealing {
                    cells.extend(self.protocols.iter().map(|protocol| Cell {
                        protocol: protocol.clone(),
                        theta,
                        threads,
                        sealing,
                    }));
                }
            }
        }
        cells
    }

    fn check(&self) -> Result<()> {
        if let Some(name) = self.protocols.iter().find(|name| protocols::by_name(name).is_none()) {
            let names: Vec<_> = protocols::ALL.iter().map(|entry| entry.info.name).collect();
            bail!("unknown protocol \"{name}\"; there are: {}", names.join(", "));
        }
        if self.durability.is_some() && self.sealing.contains(&false) {
            bail!("durability needs sealing: only sealed blocks can be written");
        }
        let sizes = [self.block_transactions, self.transactions, self.repetitions];
        if sizes.contains(&0) || self.threads.contains(&0) {
            bail!("block, transactions, repetitions and threads must be positive");
        }
        self.cells().iter().try_for_each(|cell| self.make(cell).map(drop))
    }

    /// The workload as a cell has it.
    fn make(&self, cell: &Cell) -> Result<Box<dyn workloads::Workload>> {
        let entry = self.workload.entry();
        let mut settings = self.settings.clone();
        if entry.has("theta") {
            settings.set("theta", cell.theta);
        }
        Ok(entry.make(&settings)?)
    }
}

/// Told before every run: how many are done, how many there will be, and what comes.
pub type Report<'a> = &'a mut dyn FnMut(usize, usize, &Cell);

/// Measure every cell of a plan; the figures come in the order of the cells.
pub fn measure(plan: &Plan, report: Report<'_>) -> Result<Vec<Figure>> {
    plan.check()?;
    let cells = plan.cells();
    let mut runs = vec![Vec::new(); cells.len()];
    let total = cells.len() * plan.repetitions;
    for repetition in 0..plan.repetitions {
        for (at, cell) in cells.iter().enumerate() {
            report(repetition * cells.len() + at, total, cell);
            runs[at].push(run::run(plan, cell)?);
        }
    }
    cells.iter().zip(&runs).map(|(cell, runs)| Figure::of(plan, cell, runs)).collect()
}
