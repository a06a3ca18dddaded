//! Bugs on purpose: a test that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Two writers of one record both commit.
    NoFirstCommitterWins,
    /// Two transactions that read what the other writes are no dangerous structure.
    ThreeTransactionsOnly,
    /// A pivot is turned away only when who reads below it has committed before.
    CommittedReadersOnly,
    /// Row counts and failed inserts are not taken for reads.
    NoExistenceEdges,
    /// No phantoms are looked for.
    NoRangeEdges,
    /// The block order is claimed although readers were let through before writers.
    BlockOrder,
}

impl Flaw {
    pub const NAMES: &[&str] = &[
        "no_first_committer_wins",
        "three_transactions_only",
        "committed_readers_only",
        "no_existence_edges",
        "no_range_edges",
        "block_order",
    ];

    pub fn by_name(name: &str) -> Option<Flaw> {
        Some(match name {
            "no_first_committer_wins" => Flaw::NoFirstCommitterWins,
            "three_transactions_only" => Flaw::ThreeTransactionsOnly,
            "committed_readers_only" => Flaw::CommittedReadersOnly,
            "no_existence_edges" => Flaw::NoExistenceEdges,
            "no_range_edges" => Flaw::NoRangeEdges,
            "block_order" => Flaw::BlockOrder,
            _ => return None,
        })
    }
}
