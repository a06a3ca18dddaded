//! Bugs on purpose: a test that no seeded bug can fail is not a test.

use concurrency::ordered_locks::Settings;

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Readers do not lock what they read.
    NoSharedLocks,
    /// Scans lock nothing.
    NoRangeLocks,
    /// No other waits for a transaction that may touch more than it has declared.
    NoFences,
    /// Whatever the reconnaissance saw is taken for true.
    StalePredictions,
}

impl Flaw {
    pub const NAMES: &[&str] =
        &["no_shared_locks", "no_range_locks", "no_fences", "stale_predictions"];

    pub fn by_name(name: &str) -> Option<Flaw> {
        Some(match name {
            "no_shared_locks" => Flaw::NoSharedLocks,
            "no_range_locks" => Flaw::NoRangeLocks,
            "no_fences" => Flaw::NoFences,
            "stale_predictions" => Flaw::StalePredictions,
            _ => return None,
        })
    }

    pub fn apply(self, settings: &mut Settings) {
        match self {
            Flaw::NoSharedLocks => settings.shared_locks = false,
            Flaw::NoRangeLocks => settings.range_locks = false,
            Flaw::NoFences => settings.fences = false,
            Flaw::StalePredictions => {
                settings.fences = false;
                settings.checks = false;
            }
        }
    }
}
