//! Counters of the disk torture (crash images, faults, flipped bytes), and its time limit.

use std::time::Instant;

use serde::Serialize;

/// What was done.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Count {
    pub references: u64,
    pub images: u64,
    pub distinct_images: u64,
    /// Images of recoveries that were cut.
    pub second_cuts: u64,
    pub faults: u64,
    /// Stories told to their end after a crash or a fault.
    pub stories: u64,
    pub flips: u64,
    pub lost_files: u64,
    /// Rotten folders that were refused or reported; the others came to the right state.
    pub refused: u64,
    pub mutants_found: u64,
}

/// When to stop.
pub struct Until(pub Option<Instant>);

impl Until {
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// A part of the time that is left.
    pub fn part(&self, percent: u32) -> Until {
        let now = Instant::now();
        Until(self.0.map(|end| now + end.saturating_duration_since(now) * percent / 100))
    }
}

/// 0 to `count`, each once and neighbours far apart: what there is no time for is then a sample of
/// everything and not the end of it.
pub fn spread(count: usize) -> impl Iterator<Item = usize> {
    let are_coprime = |a: usize, b: usize| {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let least = (count * 5 / 8).max(1);
    let stride = (least..).find(|stride| are_coprime(*stride, count)).unwrap_or(1);
    (0..count).map(move |place| place * stride % count)
}
