//! `pgbinary-v1`: the row encoding that is hashed into the ledger.
//!
//! Per column that is not dropped, in the table's order:
//!
//! ```text
//! [ length: 4, big endian | PostgreSQL binary form: length bytes ]
//! [ 0xFFFFFFFF ]                                      for NULL
//! ```
//!
//! A value of an enum is its position ([`enums`](crate::enums)) in the form of an int8, also within
//! an array: labels may be renamed, rows stay what they are.
//!
//! It is what PostgreSQL can compute itself, as `int4send(length) || int8send(x)` and so on, so
//! that a ledger over PostgreSQL can prove the same rows. One row has exactly one encoding. The
//! name stands in the ledger's parameters; a change of the layout is a new name.

use crate::error::{Error, Result, SqlState};
use crate::schema::ColumnSchema;
use crate::value::Value;

/// The name of this encoding in the ledger's parameters.
pub const ROW_ENCODING: &str = "pgbinary-v1";

/// Stands for the length of a NULL.
pub const NULL_LENGTH: u32 = u32::MAX;

/// Appends the encoding of a row; `values` has one value per column, dropped ones included.
pub fn encode_row(columns: &[ColumnSchema], values: &[Value], out: &mut Vec<u8>) -> Result<()> {
    if columns.len() != values.len() {
        return Err(Error::new(
            SqlState::INTERNAL_ERROR,
            format!("a row of {} values for a table of {} columns", values.len(), columns.len()),
        ));
    }
    for (column, value) in columns.iter().zip(values) {
        if !column.dropped {
            encode_field(column, value, out)?;
        }
    }
    Ok(())
}

/// Appends the encoding of one column that is not dropped.
pub fn encode_field(column: &ColumnSchema, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    if value.is_null() {
        out.extend_from_slice(&NULL_LENGTH.to_be_bytes());
        return Ok(());
    }
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    value.write_binary(&column.data_type.canonical(), out)?;
    let length = u32::try_from(out.len() - length_at - 4)
        .ok()
        .filter(|length| *length != NULL_LENGTH)
        .ok_or_else(|| {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is too long")
                .with_column(&column.name)
        })?;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads a row back; dropped columns are NULL.
pub fn decode_row(columns: &[ColumnSchema], bytes: &[u8]) -> Result<Vec<Value>> {
    let mut rest = bytes;
    let mut values = Vec::with_capacity(columns.len());
    for column in columns {
        values.push(if column.dropped {
            Value::Null
        } else {
            match take_field(&mut rest)? {
                Some(field) => Value::read_binary(&column.data_type.canonical(), field)?,
                None => Value::Null,
            }
        });
    }
    if rest.is_empty() { Ok(values) } else { Err(corrupt("bytes behind the last column")) }
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    let (length, behind) =
        rest.split_first_chunk().ok_or_else(|| corrupt("a column is missing"))?;
    let length = u32::from_be_bytes(*length);
    if length == NULL_LENGTH {
        *rest = behind;
        return Ok(None);
    }
    let (field, behind) =
        behind.split_at_checked(length as usize).ok_or_else(|| corrupt("a column is cut short"))?;
    *rest = behind;
    Ok(Some(field))
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid {ROW_ENCODING} row: {what}"))
}
