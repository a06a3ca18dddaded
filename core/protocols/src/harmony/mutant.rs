//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// `min_out < max_in` instead of `<=`: two transactions no longer make a dangerous structure.
    StrictRule1,
    /// A transaction counts as a partner of its own.
    SelfEdges,
    /// No phantoms are looked for.
    NoRangeEdges,
    /// Row counts and failed inserts are not taken for reads.
    NoExistenceEdges,
    /// Rule 2 applies commands in block order.
    BlockOrder,
    /// A transaction with a command that fails stays.
    NoDemotion,
    /// Coalescence loses the first of several commands.
    ForgetsCommand,
    /// Coalescence folds from the last command to the first.
    FoldsBackwards,
    /// The block before is not looked at.
    NoRule3,
    /// The later transaction stays, though the earlier one is decided already.
    Rule3SparesTheLater,
    /// Edges between two blocks are taken for edges to what follows.
    Rule3Direction,
}

impl Mutant {
    pub const NAMES: &[&str] = &[
        "strict_rule_1",
        "self_edges",
        "no_range_edges",
        "no_existence_edges",
        "block_order",
        "no_demotion",
        "forgets_command",
        "folds_backwards",
        "no_rule_3",
        "rule_3_spares_the_later",
        "rule_3_direction",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "strict_rule_1" => Mutant::StrictRule1,
            "self_edges" => Mutant::SelfEdges,
            "no_range_edges" => Mutant::NoRangeEdges,
            "no_existence_edges" => Mutant::NoExistenceEdges,
            "block_order" => Mutant::BlockOrder,
            "no_demotion" => Mutant::NoDemotion,
            "forgets_command" => Mutant::ForgetsCommand,
            "folds_backwards" => Mutant::FoldsBackwards,
            "no_rule_3" => Mutant::NoRule3,
            "rule_3_spares_the_later" => Mutant::Rule3SparesTheLater,
            "rule_3_direction" => Mutant::Rule3Direction,
            _ => return None,
        })
    }
}
