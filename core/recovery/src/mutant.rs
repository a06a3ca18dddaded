//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// One flow dependency of each procedure is not seen.
    FlowEdgeSkipped,
    /// Pieces do not ask the guards that they are under.
    GuardDropped,
    /// A piece-set does not wait for the same block's piece-set of the batch before.
    BatchBeforeIgnored,
    /// A piece-set does not wait for those that it gets values from.
    UpstreamIgnored,
    /// Pieces of unknown keys and ranges run beside others.
    NoBarriers,
    /// Keys are distinguished by all their columns, also where ranges cover some of them.
    RangesIgnored,
    /// Rows that were written ad hoc are no reason to share a block.
    NoPseudoWriters,
    /// Inserts under hidden row ids count in each slice for themselves.
    RowIdsApart,
    /// A read counts as constant if its table gets no new rows, whatever columns are updated.
    ColumnsIgnored,
    /// Only the last of the keys that a piece touches says where it stands.
    OneKeySpace,
    /// What others gave counts as known also where it cannot be told which of their runs is meant.
    RecallsOutOfStep,
    /// What is carried along by who leaves a loop counts as known.
    LeaversUnchecked,
}

impl Mutant {
    pub const ALL: [Mutant; 12] = [
        Mutant::FlowEdgeSkipped,
        Mutant::GuardDropped,
        Mutant::BatchBeforeIgnored,
        Mutant::UpstreamIgnored,
        Mutant::NoBarriers,
        Mutant::RangesIgnored,
        Mutant::NoPseudoWriters,
        Mutant::RowIdsApart,
        Mutant::ColumnsIgnored,
        Mutant::OneKeySpace,
        Mutant::RecallsOutOfStep,
        Mutant::LeaversUnchecked,
    ];
}
