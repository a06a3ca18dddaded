//! What a key can be made of.

use types::{ColumnId, Error, Result, SqlState};

use crate::schema::catalog::Table;

/// The column, if its values have an order.
///
/// # Errors
/// 42704.
pub(super) fn indexable(table: &Table, column: ColumnId) -> Result<ColumnId> {
    let data_type = table.column_type(column);
    if data_type.is_comparable() {
        return Ok(column);
    }
    let what =
        format!("data type {data_type} has no default operator class for access method \"btree\"");
    Err(Error::new(SqlState::UNDEFINED_OBJECT, what).with_hint(
        "You must specify an operator class for the index or define a default operator class for the data type.",
    ))
}
