//! Bugs on purpose: a test that no seeded bug can fail is not a test.

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
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

impl Flaw {
    pub const NAMES: &[&str] = &[
        "no_value_validation",
        "no_existence_validation",
        "no_range_validation",
        "no_error_validation",
        "old_writes_stay",
        "no_revalidation",
    ];

    pub fn by_name(name: &str) -> Option<Flaw> {
        Some(match name {
            "no_value_validation" => Flaw::NoValueValidation,
            "no_existence_validation" => Flaw::NoExistenceValidation,
            "no_range_validation" => Flaw::NoRangeValidation,
            "no_error_validation" => Flaw::NoErrorValidation,
            "old_writes_stay" => Flaw::OldWritesStay,
            "no_revalidation" => Flaw::NoRevalidation,
            _ => return None,
        })
    }
}
