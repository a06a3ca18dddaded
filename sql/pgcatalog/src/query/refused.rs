//! What queries over system tables refuse.

use types::{Error, Result, SqlState};

use super::scope::Scope;

pub const FROM_HINT: &str =
    "You might be able to move the set-returning function into a LATERAL FROM item.";

pub fn sets_not_allowed(place: &str) -> Error {
    let what = format!("set-returning functions are not allowed {place}");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT)
}

/// # Errors
/// What is not of one row has been called where only one is at hand.
pub fn no_calls(scope: &Scope, clause: &str) -> Result<()> {
    let (code, what) = match scope {
        scope if !scope.aggregates.is_empty() => (*b"42803", "aggregate"),
        scope if !scope.windows.is_empty() => (*b"42P20", "window"),
        scope if !scope.sets.is_empty() => {
            return Err(sets_not_allowed(&format!("in {clause}")));
        }
        _ => return Ok(()),
    };
    let message = format!("{what} functions are not allowed in {clause}");
    Err(Error::new(SqlState(code), message))
}

pub fn missing_table(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

pub fn missing_column(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}
