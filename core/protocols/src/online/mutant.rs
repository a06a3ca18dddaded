//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong, of what the family shares and of each protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Rows that were read are not looked at again.
    ReadsUnvalidated,
    /// A row that another transaction has locked to overwrite it passes for unchanged.
    LocksOverlooked,
    /// A row that has gone and come again since the place was drawn passes for one that stayed.
    ReturnsOverlooked,
    /// A key that was looked for in vain is not noted.
    AbsenceForgotten,
    /// Ranges are noted row by row, without their gaps.
    RangesForgotten,
    /// Rows come and go without a word to those who watch their gaps.
    GapsUnannounced,
    /// Only the primary index has gaps.
    SecondaryGapsForgotten,
    /// What a rejection rests on is not validated.
    RejectionsUnvalidated,
    /// The place in the serial order is drawn after the validation.
    DrawsLate,
    /// Stamps keep the numbers that were drawn.
    StampsKeepDraws,
    /// Rows that are only read are not locked, where they should be.
    ReadsUnlocked,
    /// Keys looked for in vain, and ranges, are not held still, where they should be.
    GapsUnwatched,
    /// A version that was read may end before the time of its reader.
    ReadsNotExtended,
    /// A version begins when the one before was last read.
    WritesAtReadTime,
    /// What comes and goes has no time.
    GapTimesForgotten,
    /// Rows of partitions that are not held pass.
    FencesDown,
    /// What depends on a step that was healed stays as it was.
    DependentsForgotten,
    /// A row that has changed in columns that are used passes for one that has not.
    FilterTooWide,
    /// A step that is healed under another key leaves its write under the old one.
    OldKeyKept,
    /// What a healed step has come to write is not locked.
    MembersUnlocked,
    /// The place that was drawn before a healing is kept after it.
    PlaceKept,
    /// A range in which rows came or went is not read again.
    PhantomsUnhealed,
    /// Ranges that reach over several partitions are taken for one's own.
    ScansUnfenced,
}

impl Mutant {
    /// Those that every optimistic protocol of the family can have.
    pub const OPTIMISTIC: &[&str] = &[
        "reads_unvalidated",
        "absence_forgotten",
        "ranges_forgotten",
        "gaps_unannounced",
        "secondary_gaps_forgotten",
        "rejections_unvalidated",
        "stamps_keep_draws",
    ];

    pub const SILO: &[&str] = &[
        "reads_unvalidated",
        "absence_forgotten",
        "ranges_forgotten",
        "gaps_unannounced",
        "secondary_gaps_forgotten",
        "rejections_unvalidated",
        "stamps_keep_draws",
        "locks_overlooked",
        "returns_overlooked",
        "draws_late",
    ];

    /// Of those that lock before they look.
    pub const LOCKING: &[&str] = &[
        "reads_unlocked",
        "gaps_unwatched",
        "gaps_unannounced",
        "secondary_gaps_forgotten",
        "stamps_keep_draws",
    ];

    pub const TICTOC: &[&str] = &[
        "reads_unvalidated",
        "absence_forgotten",
        "ranges_forgotten",
        "gaps_unannounced",
        "secondary_gaps_forgotten",
        "rejections_unvalidated",
        "stamps_keep_draws",
        "reads_not_extended",
        "writes_at_read_time",
        "gap_times_forgotten",
    ];

    pub const HEALING: &[&str] = &[
        "reads_unvalidated",
        "absence_forgotten",
        "ranges_forgotten",
        "gaps_unannounced",
        "secondary_gaps_forgotten",
        "rejections_unvalidated",
        "stamps_keep_draws",
        "locks_overlooked",
        "draws_late",
        "dependents_forgotten",
        "filter_too_wide",
        "old_key_kept",
        "members_unlocked",
        "phantoms_unhealed",
        "place_kept",
    ];

    pub const PARTITIONED: &[&str] = &["fences_down", "scans_unfenced", "stamps_keep_draws"];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "reads_unvalidated" => Mutant::ReadsUnvalidated,
            "locks_overlooked" => Mutant::LocksOverlooked,
            "returns_overlooked" => Mutant::ReturnsOverlooked,
            "absence_forgotten" => Mutant::AbsenceForgotten,
            "ranges_forgotten" => Mutant::RangesForgotten,
            "gaps_unannounced" => Mutant::GapsUnannounced,
            "secondary_gaps_forgotten" => Mutant::SecondaryGapsForgotten,
            "rejections_unvalidated" => Mutant::RejectionsUnvalidated,
            "draws_late" => Mutant::DrawsLate,
            "stamps_keep_draws" => Mutant::StampsKeepDraws,
            "reads_unlocked" => Mutant::ReadsUnlocked,
            "gaps_unwatched" => Mutant::GapsUnwatched,
            "reads_not_extended" => Mutant::ReadsNotExtended,
            "writes_at_read_time" => Mutant::WritesAtReadTime,
            "gap_times_forgotten" => Mutant::GapTimesForgotten,
            "dependents_forgotten" => Mutant::DependentsForgotten,
            "filter_too_wide" => Mutant::FilterTooWide,
            "old_key_kept" => Mutant::OldKeyKept,
            "members_unlocked" => Mutant::MembersUnlocked,
            "phantoms_unhealed" => Mutant::PhantomsUnhealed,
            "place_kept" => Mutant::PlaceKept,
            "fences_down" => Mutant::FencesDown,
            "scans_unfenced" => Mutant::ScansUnfenced,
            _ => return None,
        })
    }
}
