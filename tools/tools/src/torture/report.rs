//! What torture has done, and what was lost.

use serde::Serialize;

use super::disk::Count;
use super::{cluster, flips, kills, mounts};

/// What was done, and what was lost.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub seed: u64,
    pub disk: Count,
    /// Hostile inputs to decoders, and how many of them were accepted.
    pub inputs: u64,
    pub inputs_accepted: u64,
    pub mounts: mounts::Report,
    pub kills: kills::Report,
    pub flips: Option<flips::Report>,
    pub cluster: Option<cluster::Report>,
    pub losses: u64,
    pub loss: Option<String>,
    /// What there was no time for.
    pub untried: Vec<&'static str>,
    pub total_s: f64,
}

impl Report {
    pub fn find_untried(&mut self) {
        let flips = self.flips.as_ref().map_or(0, |flips| flips.flips);
        let done = [
            ("images of a disk in memory", self.disk.images),
            ("faults of a disk in memory", self.disk.faults),
            ("flips on a disk in memory", self.disk.flips),
            ("lost files of a disk in memory", self.disk.lost_files),
            ("seeded bugs", self.disk.mutants_found),
            ("hostile bytes", self.inputs),
            ("kills", self.kills.kills),
            ("flips in a ledger's folder", flips),
        ];
        let untried = done.into_iter().filter(|(_, count)| *count == 0);
        self.untried = untried.map(|(what, _)| what).collect();
    }
}
