//! What arithmetic refuses, as PostgreSQL words it.

use crate::error::{Error, SqlState};

pub(crate) fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

pub(super) fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// 2201F, as PostgreSQL words it.
pub fn undefined() -> Error {
    let what = "zero raised to a negative power is undefined";
    Error::new(SqlState(*b"2201F"), what)
}

/// 2201F, as PostgreSQL words it.
pub(super) fn complex() -> Error {
    let what = "a negative number raised to a non-integer power yields a complex result";
    Error::new(SqlState(*b"2201F"), what)
}
