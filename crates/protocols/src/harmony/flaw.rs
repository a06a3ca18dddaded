//! Bugs on purpose: a test that no seeded bug can fail is not a test.

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

impl Flaw {
    pub const NAMES: &[&str] =
        &["strict_rule_1", "no_range_edges", "no_existence_edges", "block_order", "no_demotion"];

    pub fn by_name(name: &str) -> Option<Flaw> {
        Some(match name {
            "strict_rule_1" => Flaw::StrictRule1,
            "no_range_edges" => Flaw::NoRangeEdges,
            "no_existence_edges" => Flaw::NoExistenceEdges,
            "block_order" => Flaw::BlockOrder,
            "no_demotion" => Flaw::NoDemotion,
            _ => return None,
        })
    }
}
