//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// The schedule is not reversed: writers come before the readers of what they write.
    NotReversed,
    /// Victims that should go to break a cycle stay, after the others.
    VictimsStay,
    /// No phantoms are looked for.
    NoRangeEdges,
    /// Row counts and failed inserts are not taken for reads.
    NoExistenceEdges,
    /// A transaction that ends in an error reads nothing.
    NoEdgesOfErrors,
    /// Versions are not checked against the newest state.
    NoVersionCheck,
    /// Nor, without early aborts, those of transactions that others have simulated, where the
    /// block's own simulations are on the newest.
    OthersTakenForCurrent,
}

impl Mutant {
    pub const NAMES: &[&str] = &[
        "not_reversed",
        "victims_stay",
        "no_range_edges",
        "no_existence_edges",
        "no_edges_of_errors",
        "no_version_check",
        "others_taken_for_current",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "not_reversed" => Mutant::NotReversed,
            "victims_stay" => Mutant::VictimsStay,
            "no_range_edges" => Mutant::NoRangeEdges,
            "no_existence_edges" => Mutant::NoExistenceEdges,
            "no_edges_of_errors" => Mutant::NoEdgesOfErrors,
            "no_version_check" => Mutant::NoVersionCheck,
            "others_taken_for_current" => Mutant::OthersTakenForCurrent,
            _ => return None,
        })
    }
}
