//! Seeded bugs: each mutant leaves out one rule of this module, and the tests must find it. A test
//! that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Values that were read are not validated.
    NoValueValidation,
    /// Row counts and failed inserts are not validated.
    NoExistenceValidation,
    /// Ranges are not read again.
    NoRangeValidation,
    /// A transaction that ends in an error is not validated.
    NoErrorValidation,
    /// What an aborted incarnation wrote stays where the next one writes nothing.
    OldWritesStay,
    /// A write in a new place makes no transaction be validated again.
    NoRevalidation,
}

impl Mutant {
    pub const NAMES: &[&str] = &[
        "no_value_validation",
        "no_existence_validation",
        "no_range_validation",
        "no_error_validation",
        "old_writes_stay",
        "no_revalidation",
    ];

    pub fn by_name(name: &str) -> Option<Mutant> {
        Some(match name {
            "no_value_validation" => Mutant::NoValueValidation,
            "no_existence_validation" => Mutant::NoExistenceValidation,
            "no_range_validation" => Mutant::NoRangeValidation,
            "no_error_validation" => Mutant::NoErrorValidation,
            "old_writes_stay" => Mutant::OldWritesStay,
            "no_revalidation" => Mutant::NoRevalidation,
            _ => return None,
        })
    }
}
