//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Only writes conflict with each other.
    NoReadEdges,
    /// Intervals are taken for points.
    NoIntervals,
    /// Whatever the reconnaissance saw is taken for true.
    StalePredictions,
    /// A transaction comes one stage after the last that it conflicts with in its own sight, not
    /// after the latest stage of all of them.
    StageOfLastOnly,
}

impl Mutant {
    pub const NAMES: &[&str] =
        &["no_read_edges", "no_intervals", "stale_predictions", "stage_of_last_only"];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_read_edges" => Mutant::NoReadEdges,
            "no_intervals" => Mutant::NoIntervals,
            "stale_predictions" => Mutant::StalePredictions,
            "stage_of_last_only" => Mutant::StageOfLastOnly,
            _ => return None,
        })
    }
}
