//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

use concurrency::ordered_locks::Settings;

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Readers do not lock what they read.
    NoSharedLocks,
    /// Scans lock nothing.
    NoRangeLocks,
    /// No other waits for a transaction that may touch more than it has declared.
    NoFences,
    /// Whatever the reconnaissance saw is taken for true.
    StalePredictions,
}

impl Mutant {
    pub const NAMES: &[&str] =
        &["no_shared_locks", "no_range_locks", "no_fences", "stale_predictions"];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_shared_locks" => Mutant::NoSharedLocks,
            "no_range_locks" => Mutant::NoRangeLocks,
            "no_fences" => Mutant::NoFences,
            "stale_predictions" => Mutant::StalePredictions,
            _ => return None,
        })
    }

    pub fn apply(self, settings: &mut Settings) {
        match self {
            Mutant::NoSharedLocks => settings.shared_locks = false,
            Mutant::NoRangeLocks => settings.range_locks = false,
            Mutant::NoFences => settings.fences = false,
            Mutant::StalePredictions => {
                settings.fences = false;
                settings.checks = false;
            }
        }
    }
}
