//! Bugs on purpose: a test that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Queues of lower priority do not wait for overlapping ones of higher priority.
    NoPriority,
    /// A fragment takes what is there for the values it needs.
    NoDataDependencies,
    /// Only reads of tentative data are remembered, overwrites are not.
    NoOverwriteDependents,
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
}

const FLAWS: [(&str, Flaw); 8] = [
    ("no_priority", Flaw::NoPriority),
    ("no_data_dependencies", Flaw::NoDataDependencies),
    ("no_overwrite_dependents", Flaw::NoOverwriteDependents),
    ("undo_forward", Flaw::UndoForward),
    ("no_scan_routes", Flaw::NoScanRoutes),
    ("no_undo", Flaw::NoUndo),
    ("no_tokens", Flaw::NoTokens),
    ("unsettled_slots", Flaw::UnsettledSlots),
];

impl Flaw {
    pub const NAMES: &[&str] = &[
        FLAWS[0].0, FLAWS[1].0, FLAWS[2].0, FLAWS[3].0, FLAWS[4].0, FLAWS[5].0, FLAWS[6].0,
        FLAWS[7].0,
    ];

    pub fn by_name(name: &str) -> Option<Flaw> {
        FLAWS.iter().find(|(known, _)| *known == name).map(|(_, flaw)| *flaw)
    }
}
