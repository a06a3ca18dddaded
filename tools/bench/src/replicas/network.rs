//! How far machines are from each other, and what they can send.

use super::parts::{Nanos, SECOND};

/// Regions with distances between them.
#[derive(Clone, Debug)]
pub struct Network {
    pub bytes_per_second: f64,
    /// Within a region, one way.
    pub near: Nanos,
    /// Between regions, one way.
    pub far: &'static [&'static [Nanos]],
    /// Replicas of a region, before the next one has any. `None`: there is one region.
    pub replicas_of_region: Option<usize>,
}

const MS: Nanos = 1_000_000;

/// Ohio, Mumbai, Sydney, Stockholm: halves of the round trips between Amazon's regions, as they
/// were about when the paper was written.
pub static CONTINENTS: &[&[Nanos]] = &[
    &[0, 98 * MS, 94 * MS, 60 * MS],
    &[98 * MS, 0, 76 * MS, 69 * MS],
    &[94 * MS, 76 * MS, 0, 148 * MS],
    &[60 * MS, 69 * MS, 148 * MS, 0],
];

impl Network {
    /// One that delivers at once.
    #[cfg(test)]
    pub fn of_one_region(near: Nanos, bytes_per_second: f64) -> Network {
        Network { bytes_per_second, near, far: &[], replicas_of_region: None }
    }

    /// What sending keeps a network card busy for.
    pub fn sending(&self, bytes: u64) -> Nanos {
        (bytes as f64 / self.bytes_per_second * SECOND as f64) as Nanos
    }

    fn region(&self, machine: usize) -> usize {
        self.replicas_of_region.map_or(0, |of_one| (machine / of_one) % self.far.len().max(1))
    }

    /// One way, from machine to machine; orderers that are no replicas are where replica 0 is.
    pub fn way(&self, from: Option<usize>, to: Option<usize>) -> Nanos {
        let region = |machine: Option<usize>| machine.map_or(0, |it| self.region(it));
        match (region(from), region(to)) {
            (one, other) if one == other => self.near,
            (one, other) => self.far[one][other],
        }
    }
}
