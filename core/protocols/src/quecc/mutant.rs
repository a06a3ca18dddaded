//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Queues of lower priority do not wait for overlapping ones of higher priority.
    NoPriority,
    /// A fragment takes what is there for the values it needs.
    NoDataDependencies,
    /// Only reads of tentative data are remembered, overwrites are not.
    NoOverwriteDependents,
    /// What a scan rests on is forgotten.
    NoScanDependents,
    /// Images are brought back in the order in which they were taken.
    UndoForward,
    /// What a transaction scans does not say where it stands.
    NoScanRoutes,
    /// What victims wrote stays.
    NoUndo,
    /// A transaction that runs in one piece does so as soon as one of its queues has come to it.
    NoTokens,
    /// A plan names records that no row was seen in, though nothing keeps them from other keys.
    UnsettledSlots,
    /// What planners read is not looked for among what the block changes.
    UnsteadyReads,
}

const MUTANTS: [(&str, Mutant); 10] = [
    ("no_priority", Mutant::NoPriority),
    ("no_data_dependencies", Mutant::NoDataDependencies),
    ("no_overwrite_dependents", Mutant::NoOverwriteDependents),
    ("no_scan_dependents", Mutant::NoScanDependents),
    ("undo_forward", Mutant::UndoForward),
    ("no_scan_routes", Mutant::NoScanRoutes),
    ("no_undo", Mutant::NoUndo),
    ("no_tokens", Mutant::NoTokens),
    ("unsettled_slots", Mutant::UnsettledSlots),
    ("unsteady_reads", Mutant::UnsteadyReads),
];

impl Mutant {
    pub const NAMES: &[&str] = &[
        MUTANTS[0].0,
        MUTANTS[1].0,
        MUTANTS[2].0,
        MUTANTS[3].0,
        MUTANTS[4].0,
        MUTANTS[5].0,
        MUTANTS[6].0,
        MUTANTS[7].0,
        MUTANTS[8].0,
        MUTANTS[9].0,
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        MUTANTS.iter().find(|(known, _)| *known == name).map(|(_, mutant)| *mutant)
    }
}
