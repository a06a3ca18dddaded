//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(any(not(test), shuttle), allow(dead_code))]
pub enum Mutant {
    /// A commit installs although a snapshot waits for the column.
    InstallsBeforeMaterialising,
    /// A commit looks for waiting snapshots only before it takes its locks.
    LooksForRequestsTooEarly,
    /// A request that comes while others are served is not seen by commits.
    LosesTheFlagOfANewRequest,
    /// A snapshot's columns are frozen without the chains that belong to them.
    DropsChains,
    /// A frozen state is shared although something was installed since.
    SharesStaleSnapshots,
    /// A write is held against a predicate by its new value alone.
    IgnoresBeforeImages,
    /// A write is held against a predicate by its old value alone.
    IgnoresAfterImages,
    /// Points that were read are not validated.
    IgnoresPointReads,
    /// The second of two writers of a row wins.
    IgnoresWriteConflicts,
    /// In hybrid mode, a value that is too new is read all the same.
    ReadsTooNew,
    /// Transactions begin at the last ordered commit, though it may be installing.
    BeginsAmongInstalls,
    /// A value is in place before its stamp is.
    StampsAfterTheValue,
    /// A scan does not look at the span again when it is done.
    TrustsTheFirstSpan,
    /// The collector takes the newest commit for what the oldest transaction can see.
    CollectsWhatIsSeen,
    /// Committed writes are forgotten though an older transaction is active.
    ForgetsCommits,
    /// Commits go on while the process forks.
    ForksAmongInstalls,
}

#[cfg(all(test, not(shuttle)))]
impl Mutant {
    pub const ALL: [Mutant; 16] = [
        Mutant::InstallsBeforeMaterialising,
        Mutant::LooksForRequestsTooEarly,
        Mutant::LosesTheFlagOfANewRequest,
        Mutant::DropsChains,
        Mutant::SharesStaleSnapshots,
        Mutant::IgnoresBeforeImages,
        Mutant::IgnoresAfterImages,
        Mutant::IgnoresPointReads,
        Mutant::IgnoresWriteConflicts,
        Mutant::ReadsTooNew,
        Mutant::BeginsAmongInstalls,
        Mutant::StampsAfterTheValue,
        Mutant::TrustsTheFirstSpan,
        Mutant::CollectsWhatIsSeen,
        Mutant::ForgetsCommits,
        Mutant::ForksAmongInstalls,
    ];
}

/// The mutant of an engine under test; never one elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Mutants(#[cfg(test)] pub Option<Mutant>);

impl Mutants {
    #[cfg(test)]
    pub fn has(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    #[cfg(not(test))]
    pub fn has(self, _mutant: Mutant) -> bool {
        false
    }
}
