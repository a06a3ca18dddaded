//! Bugs on purpose: a test that no seeded bug can fail is not a test.
//!
//! Only a build with the feature `mutants` can make a protocol that has one.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// `min_out < max_in` instead of `<=`: two transactions no longer make a dangerous structure.
    StrictRule1,
    /// No phantoms are looked for.
    NoRangeEdges,
    /// Row counts and failed inserts are not taken for reads.
    NoExistenceEdges,
    /// Rule 2 applies commands in block order.
    BlockOrder,
    /// A transaction with a command that fails stays.
    NoDemotion,
}

#[cfg(feature = "mutants")]
impl Flaw {
    pub const ALL: [Flaw; 5] = [
        Flaw::StrictRule1,
        Flaw::NoRangeEdges,
        Flaw::NoExistenceEdges,
        Flaw::BlockOrder,
        Flaw::NoDemotion,
    ];
}
