//! What a key can be made of.

use types::{DataType, Error, Result, SqlState};

/// # Errors
/// 42704 for a type whose values have no order.
pub(super) fn indexable(data_type: &DataType) -> Result<()> {
    if data_type.is_comparable() {
        return Ok(());
    }
    let what =
        format!("data type {data_type} has no default operator class for access method \"btree\"");
    Err(Error::new(SqlState::UNDEFINED_OBJECT, what).with_hint(
        "You must specify an operator class for the index or define a default operator class for the data type.",
    ))
}
