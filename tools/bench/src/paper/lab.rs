//! What a figure's code gets to measure with: how much effort, which folder, which other database,
//! and a progress report.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::Result;

use crate::answers::Answerer;
use crate::over_databases::OverDatabases;
use crate::over_network::OverNetwork;
use crate::{Measurement, Plan, Report, measure};

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Effort {
    pub threads: usize,
    /// Of figures that are about time; counts need one run.
    pub repetitions: usize,
    /// A tenth of the rows and transactions: the shape of a figure in a tenth of the time.
    pub quick: bool,
    /// As little as possible: only to see whether it works.
    pub smoke: bool,
    /// All settings of figures that take a sample of them otherwise.
    pub full: bool,
    /// Where figures that are about the disk write.
    pub folder: PathBuf,
    /// Whom figures that compare databases compare with.
    pub other: Option<Other>,
    /// What measures figures over nodes.
    pub network: Option<OverNetwork>,
    /// What measures figures over databases that are chained.
    pub databases: Option<OverDatabases>,
}

/// Another database, and who can ask it.
#[derive(Clone, Debug)]
pub struct Other {
    pub address: String,
    pub connect: fn(&str) -> Result<Box<dyn Answerer>>,
}

impl Effort {
    pub(super) fn transactions(&self, wanted: usize) -> usize {
        match (self.smoke, self.quick) {
            (true, _) => wanted.min(60),
            (_, true) => wanted / 10,
            _ => wanted,
        }
    }

    pub(super) fn rows(&self, wanted: u64) -> u64 {
        match (self.smoke, self.quick) {
            (true, _) => wanted.min(200),
            (_, true) => (wanted / 10).max(200),
            _ => wanted,
        }
    }

    /// Rows that a share depends on: with fewer it would be another one.
    pub(super) fn rows_exactly(&self, wanted: u64) -> u64 {
        if self.smoke { self.rows(wanted) } else { wanted }
    }

    /// Runs of each setting.
    pub(super) fn rounds(&self) -> usize {
        if self.smoke { 1 } else { self.repetitions }
    }
}

/// What a figure measures with.
pub(super) struct Lab<'a> {
    pub(super) effort: Effort,
    /// The figure's protocols, as far as there are any.
    pub(super) protocols: Vec<String>,
    pub(super) report: Report<'a>,
}

impl Lab<'_> {
    /// A plan for the figure's protocols; its times are not looked at.
    pub(super) fn counts(&self, transactions: usize) -> Plan {
        Plan {
            protocols: self.protocols.clone(),
            threads: vec![self.effort.threads],
            transactions: self.effort.transactions(transactions),
            repetitions: 1,
            ..Plan::default()
        }
    }

    /// The same for times.
    pub(super) fn times(&self, transactions: usize) -> Plan {
        Plan { repetitions: self.effort.repetitions, ..self.counts(transactions) }
    }

    /// Before each run that is not one of a plan's.
    pub(super) fn tell(&mut self, done: usize, total: usize, what: &dyn Display) {
        (self.report)(done, total, what);
    }

    pub(super) fn measure(&mut self, plan: &Plan) -> Result<Vec<Measurement>> {
        measure(plan, self.report)
    }
}
