//! The engine alone, measured: no clients, no sockets, a fresh database for every run.
//!
//! A *cell* is one combination of what a [`Plan`] varies. A *run* copies the workload's loaded
//! tables into a new store, draws and compiles all its transactions, and only then starts the
//! clock. What the clock sees is one of
//!
//! ```text
//!   sealing on    envelopes ─► replica: admit, execute, effects, roots, headers
//!                 (─► log, with durability)
//!   sealing off   programs ──► line: prepare, finish
//! ```
//!
//! so that the difference of the two is the price of the ledger. Both run the product's own loop
//! around a protocol, the `pipeline`; where a protocol lets a block be prepared while the one
//! before is finished, one pool does both.
//!
//! *Fair figures.* Runs of different cells alternate (A-B-A-B), and a cell reports the median of
//! its repetitions beside their extremes, since the machine is not as constant as one would like.
//! Beside the wall clock stands the CPU time of the whole process, which is what a busier or slower
//! machine blurs least.
//!
//! *Right figures.* Every figure has the digest of the state that it led to. Protocols whose serial
//! order is block order must agree on it with each other; any protocol must agree with itself over
//! repetitions, threads and sealing. [`agreement`] looks for those that do not, so that a protocol
//! that is fast because it is wrong does not pass.
//!
//! *Figures of what they say.* A protocol may run a block in another way than the one that it is
//! named for, since that is cheaper; [`misnamed`] tells, and figures of papers are then not judged.
//!
//! *What counts.* Shares are of all executions that blocks asked for, a transaction that was
//! deferred and came again counting twice. *Latency* is that of a transaction: from when the
//! first block that it was in was cut to the end of the block that decided it.
//!
//! Absence: no command line, no terminal (the caller draws the progress), no network.

pub mod agreement;
pub mod answers;
mod bed;
pub mod canonical;
pub mod contention;
pub mod freezing;
pub mod htap;
pub mod limit;
pub mod logging;
mod measurement;
pub mod misnamed;
mod named;
pub mod over_databases;
pub mod over_network;
pub mod page;
pub mod paper;
pub mod recovering;
pub mod replicas;
mod run;
pub mod table;
pub mod versions;
mod workload;

use std::path::PathBuf;

use anyhow::Result;

pub use measurement::Measurement;
pub use workload::{Newest, Programs, Workload};

use bed::Source;
use run::Run;

/// What to measure: every combination of the lists is a cell.
#[derive(Clone, Debug)]
pub struct Plan {
    pub workloads: Vec<Workload>,
    pub programs: Programs,
    pub protocols: Vec<String>,
    /// For workloads that have one.
    pub thetas: Vec<f64>,
    pub threads: Vec<usize>,
    pub sealing: Vec<bool>,
    pub block_transactions: Vec<usize>,
    pub transactions: usize,
    /// Where to write a ledger; `None`: nowhere.
    pub durability: Vec<Option<PathBuf>>,
    pub repetitions: usize,
    pub seed: u64,
    /// One more run for each cell, of which nothing counts but its allocations.
    pub allocations: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            workloads: Vec::new(),
            programs: Programs::Sql,
            protocols: vec!["serial".to_owned()],
            thetas: vec![0.0],
            threads: vec![1],
            sealing: vec![false],
            block_transactions: vec![1_000],
            transactions: 200_000,
            durability: vec![None],
            repetitions: 3,
            seed: 1,
            allocations: false,
        }
    }
}

/// One combination.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    pub workload: Workload,
    pub protocol: String,
    pub theta: Option<f64>,
    pub threads: usize,
    pub sealing: bool,
    pub block_transactions: usize,
    pub durability: Option<PathBuf>,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {} threads", self.workload, self.protocol, self.threads)?;
        if let Some(theta) = self.theta {
            write!(f, ", theta {theta}")?;
        }
        f.write_str(if self.sealing { ", sealing" } else { "" })?;
        f.write_str(if self.durability.is_some() { ", on disk" } else { "" })
    }
}

/// A plan that cannot be carried out, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    pub message: String,
    pub hint: String,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  hint: {}", self.message, self.hint)
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    fn of(error: &types::Error) -> PlanError {
        let hint = error.fields().hint.as_deref().unwrap_or("See `tally bench --help`.");
        PlanError { message: error.message().to_owned(), hint: hint.to_owned() }
    }
}

impl Plan {
    /// The cells of one workload, in the order in which they alternate.
    fn cells_of(&self, workload: &Workload) -> Vec<Cell> {
        let thetas = match workload.has_theta() {
            true => self.thetas.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        let mut cells = Vec::new();
        for theta in thetas {
            for &threads in &self.threads {
                for &sealing in &self.sealing {
                    for &block_transactions in &self.block_transactions {
                        let each = self.protocols.iter().flat_map(|protocol| {
                            self.durability.iter().map(move |durability| (protocol, durability))
                        });
                        cells.extend(each.map(|(protocol, durability)| Cell {
                            workload: workload.clone(),
                            protocol: protocol.clone(),
                            theta,
                            threads,
                            sealing,
                            block_transactions,
                            durability: durability.clone(),
                        }));
                    }
                }
            }
        }
        cells
    }

    pub fn cells(&self) -> Vec<Cell> {
        self.workloads.iter().flat_map(|workload| self.cells_of(workload)).collect()
    }

    /// Runs that it takes.
    pub fn runs(&self) -> usize {
        self.cells().len() * (self.repetitions + usize::from(self.allocations))
    }

    pub fn check(&self) -> Result<(), PlanError> {
        let fault = |message: String, hint: &str| Err(PlanError { message, hint: hint.to_owned() });
        for name in &self.protocols {
            named::protocol(name).map_err(|error| PlanError::of(&error))?;
        }
        if self.durability.iter().any(Option::is_some) && self.sealing.contains(&false) {
            let hint = "Add --sealing on.";
            return fault("only sealed blocks can be written to a ledger".to_owned(), hint);
        }
        let sizes = [self.transactions, self.repetitions];
        let all = sizes.iter().chain(&self.threads).chain(&self.block_transactions);
        if all.min() == Some(&0) {
            let hint = "Transactions, blocks, repetitions and threads are at least 1.";
            return fault("0 is none at all".to_owned(), hint);
        }
        self.cells().iter().try_for_each(|cell| match cell.workload.make(cell.theta) {
            Ok(_) => Ok(()),
            Err(error) => Err(PlanError::of(&error)),
        })
    }
}

/// Told before every run: how many are done, how many there will be, and what comes.
pub type Report<'a> = &'a mut dyn FnMut(usize, usize, &dyn std::fmt::Display);

/// Measure every cell of a plan; the measurements come in the order of the cells.
pub fn measure(plan: &Plan, report: Report<'_>) -> Result<Vec<Measurement>> {
    plan.check()?;
    let total = plan.runs();
    let mut done = 0;
    let mut measurements = Vec::new();
    for workload in &plan.workloads {
        let source = Source::load(workload)?;
        let cells = plan.cells_of(workload);
        let mut runs: Vec<Vec<Run>> = cells.iter().map(|_| Vec::new()).collect();
        let mut run = |cell: &Cell, count_allocations: bool| {
            report(done, total, cell);
            done += 1;
            run::run(plan, &source, cell, count_allocations)
        };
        for _ in 0..plan.repetitions {
            for (cell, runs) in cells.iter().zip(&mut runs) {
                runs.push(run(cell, false)?);
            }
        }
        for (cell, runs) in cells.iter().zip(&runs) {
            let allocations = if plan.allocations { run(cell, true)?.allocations } else { None };
            measurements.push(Measurement::of(plan, cell, runs, allocations)?);
        }
    }
    agreement::mark(&mut measurements);
    Ok(measurements)
}
