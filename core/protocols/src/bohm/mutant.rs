//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Scans see the stored rows alone.
    NoVersionsInScans,
    /// The placeholder of a transaction that wrote nothing counts as a deleted row.
    EmptyPlaceholderDeletes,
    /// The block leaves the first version of each record behind.
    FirstVersionStays,
    /// Whatever the reconnaissance saw is taken for true.
    StalePredictions,
}

impl Mutant {
    pub const NAMES: &[&str] = &[
        "no_versions_in_scans",
        "empty_placeholder_deletes",
        "first_version_stays",
        "stale_predictions",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_versions_in_scans" => Mutant::NoVersionsInScans,
            "empty_placeholder_deletes" => Mutant::EmptyPlaceholderDeletes,
            "first_version_stays" => Mutant::FirstVersionStays,
            "stale_predictions" => Mutant::StalePredictions,
            _ => return None,
        })
    }
}
