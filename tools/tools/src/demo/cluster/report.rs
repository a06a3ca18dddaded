//! What the demonstration found.

use serde::Serialize;

use crate::demo::report::Check;

/// What the demonstration found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub customers: u64,
    pub load_rows: u64,
    pub load_s: f64,
    pub payments_per_s: f64,
    /// How long the others waited for an answer at most when the proposer was killed.
    pub killed_wait_s: f64,
    pub cut_off_wait_s: f64,
    pub named_s: f64,
    pub joined_s: f64,
    pub acknowledged: u64,
    pub height: u64,
    pub checks: Vec<Check>,
    pub total_s: f64,
}

impl Report {
    pub fn check(&mut self, claim: &'static str, holds: bool, detail: String) {
        self.checks.push(Check { claim, holds, detail });
    }

    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
