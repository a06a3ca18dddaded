//! Bugs on purpose, one at least for each protocol, storage, pointer scheme and collector: tests
//! switch them on to see whether they would notice. Without the feature `mutants` all of it is
//! empty.

macro_rules! mutants {
    ($($(#[$doc:meta])* $mutant:ident = $name:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $($(#[$doc])* $mutant,)* }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$mutant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$mutant => $name,)* }
            }
        }
    };
}

mutants! {
    /// MVTO: a reader leaves no trace.
    ReadUnmarked = "read_unmarked";
    /// MVTO: a reader passes by an older writer's lock.
    LockIgnored = "lock_ignored";
    /// MVOCC: reads are not validated.
    ReadsUnvalidated = "reads_unvalidated";
    /// MVOCC: a read that a transaction is about to overwrite counts as valid.
    CommittingIgnored = "committing_ignored";
    /// MV2PL: a reader takes no lock.
    NoReadLock = "no_read_lock";
    /// MV2PL: an upgrade does not mind other readers.
    CarelessUpgrade = "careless_upgrade";
    /// SI: a version newer than the snapshot may be overwritten.
    LostUpdate = "lost_update";
    /// SI: two put the same value into a unique index.
    UniqueSkewed = "unique_skewed";
    /// SSI: a transaction with conflicts on both sides commits.
    PivotCommits = "pivot_commits";
    /// SSI: one that stands before those it overlapped is not remembered as such.
    EarlyForgotten = "early_forgotten";
    /// SSN: the exclusion window is not looked at.
    WindowIgnored = "window_ignored";
    /// SSN: commit order is claimed as serial order.
    CommitOrderClaimed = "commit_order_claimed";
    /// Rows that come into a range that was read stop no transaction.
    PhantomsIgnored = "phantoms_ignored";
    /// They stop none where an insert that came to nothing has left the tuple.
    LeftoverFilled = "leftover_filled";
    /// A writer may precede members of a closed block.
    GateIgnored = "gate_ignored";
    /// A rejected transaction's existence checks are forgotten.
    RejectedForgotten = "rejected_forgotten";
    /// The version before goes on for ever.
    EndNotSet = "end_not_set";
    /// A row in place is read while it is written.
    TornRead = "torn_read";
    /// A logical index entry counts although its row has changed.
    FalsePositiveShown = "false_positive_shown";
    /// Entries of collected versions stay.
    EntryStays = "entry_stays";
    /// A collector takes versions that a transaction sees.
    CollectsVisible = "collects_visible";
    /// The background collector forgets what it could not take at once.
    DirtyForgotten = "dirty_forgotten";
    /// Transaction-level collection forgets what it could not take at once.
    BatchForgotten = "batch_forgotten";
    /// Readers of old chains report nothing.
    CooperationRefused = "cooperation_refused";
    /// Interval collection takes account of the oldest reader only.
    IntervalsIgnored = "intervals_ignored";
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// What this thread does from now on has the mutant.
    pub fn enter(mutant: Option<Mutant>) {
        CURRENT.set(mutant);
    }

    #[inline]
    pub fn mutated(mutant: Mutant) -> bool {
        CURRENT.get() == Some(mutant)
    }
}

#[cfg(not(feature = "mutants"))]
mod switch {
    use super::Mutant;

    #[inline(always)]
    pub fn enter(_: Option<Mutant>) {}

    #[inline(always)]
    pub fn mutated(_: Mutant) -> bool {
        false
    }
}

pub use switch::{enter, mutated};
