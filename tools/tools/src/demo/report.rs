//! What the demo found.

use serde::Serialize;

use super::pgbench::Measured;

/// What the demo found: the page's content, and the object that `--output json` prints.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub customers: u64,
    pub clients: u32,
    pub load_s: f64,
    pub load_rows: u64,
    pub measured: Measured,
    pub ledger: Option<Ledger>,
    pub acknowledged_payments: u64,
    pub checkpoint: Option<Checkpoint>,
    pub recovery_s: Option<f64>,
    pub checks: Vec<Check>,
    pub total_s: f64,
}

/// Growth of the ledger in the measured run.
#[derive(Debug, Default, Serialize)]
pub struct Ledger {
    pub blocks: u64,
    pub bytes: u64,
}

/// The checkpoint that was taken under load.
#[derive(Debug, Default, Serialize)]
pub struct Checkpoint {
    pub height: u64,
    pub rows: u64,
    pub bytes: u64,
    pub took_s: f64,
}

/// One verdict.
#[derive(Debug, Serialize)]
pub struct Check {
    pub claim: &'static str,
    pub holds: bool,
    pub detail: String,
}

impl Report {
    pub fn check(&mut self, claim: &'static str, holds: bool, detail: String) {
        self.checks.push(Check { claim, holds, detail });
    }

    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
