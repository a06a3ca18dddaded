//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
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

impl Mutant {
    pub const NAMES: &[&str] = &[
        "no_first_committer_wins",
        "three_transactions_only",
        "committed_readers_only",
        "no_existence_edges",
        "no_range_edges",
        "block_order",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_first_committer_wins" => Mutant::NoFirstCommitterWins,
            "three_transactions_only" => Mutant::ThreeTransactionsOnly,
            "committed_readers_only" => Mutant::CommittedReadersOnly,
            "no_existence_edges" => Mutant::NoExistenceEdges,
            "no_range_edges" => Mutant::NoRangeEdges,
            "block_order" => Mutant::BlockOrder,
            _ => return None,
        })
    }
}
