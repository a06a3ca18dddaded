//! What a soak found.

use std::collections::BTreeMap;

use serde::Serialize;

/// How much more the last quarter's median may be than the second's, in percent.
pub const GROWTH_PERCENT_MAX: f64 = 5.0;
/// How many times the second quarter's median the last quarter's largest sample may be.
pub const PEAK_MAX: f64 = 2.0;

/// What a node holds and has done at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    pub at_s: f64,
    /// The process's own memory, without its program's.
    pub own_bytes: u64,
    /// Of the program, and other files that are mapped.
    pub mapped_bytes: u64,
    /// What `tally_memory` tells, by part.
    pub parts_bytes: BTreeMap<String, u64>,
    pub ledger_bytes: u64,
    pub blocks: u64,
    /// Operations that were answered since the start, by kind.
    pub operations: BTreeMap<&'static str, u64>,
}

/// What a run found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub clients: u32,
    pub samples: Vec<Sample>,
    /// The medians of the second quarter and of the last one.
    pub base_bytes: u64,
    pub last_bytes: u64,
    pub growth_percent: f64,
    /// The largest sample of the last quarter.
    pub peak_bytes: u64,
    pub retried: u64,
    pub verified: bool,
    pub holds: bool,
    pub total_s: f64,
}

impl Report {
    pub fn judge(&mut self) {
        let total_s = self.samples.last().map_or(0.0, |sample| sample.at_s);
        let sorted = |from: f64, to: f64| {
            let within = |sample: &&Sample| (from..=to).contains(&(sample.at_s / total_s));
            let sizes = self.samples.iter().filter(within).map(|sample| sample.own_bytes);
            let mut sizes: Vec<u64> = sizes.collect();
            sizes.sort_unstable();
            sizes
        };
        let median = |sizes: &[u64]| sizes.get(sizes.len() / 2).copied().unwrap_or(0);
        let (base, last) = (sorted(0.25, 0.5), sorted(0.75, 1.0));
        (self.base_bytes, self.last_bytes) = (median(&base), median(&last));
        self.peak_bytes = last.last().copied().unwrap_or(0);
        self.growth_percent = match self.base_bytes {
            0 => f64::INFINITY,
            base => (self.last_bytes as f64 / base as f64 - 1.0) * 100.0,
        };
        self.holds = self.verified
            && self.growth_percent <= GROWTH_PERCENT_MAX
            && self.peak_bytes as f64 <= self.base_bytes as f64 * PEAK_MAX;
    }
}
