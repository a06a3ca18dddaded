//! Rows as values: what `ROW(…)`, a table's name in an expression and functions of several columns
//! give.
//!
//! A row is an array of its fields' values, and which types these have is in its type alone. No
//! column holds one.

use bytes::BufMut;

use crate::arithmetic::check_made_bytes;
use crate::datatype::{DataType, Field};
use crate::error::{Error, Result, SqlState};
use crate::value::Value;

/// Whether rows of the one are rows of the other, whatever their fields are called.
pub fn same_fields(a: &[Field], b: &[Field]) -> bool {
    let types = |fields: &[Field]| -> Vec<DataType> {
        fields.iter().map(|field| field.data_type.without_modifier()).collect()
    };
    types(a) == types(b)
}

pub(crate) fn type_at(fields: &[Field], place: usize) -> &DataType {
    fields.get(place).map_or(&DataType::Unknown, |field| &field.data_type)
}

pub(crate) fn not_read() -> Error {
    let what = "input of anonymous composite types is not implemented";
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}

/// `(1,two,"and three",,"")`: what is empty or has signs of the form in it is quoted, NULL is
/// nothing. `text_of` appends the text of a field that is not NULL.
///
/// # Errors
/// 54000 for one that is too long to be made: each level doubles the quotes of those below.
pub fn write_fields(
    values: &[Value],
    mut text_of: impl FnMut(usize, &Value, &mut Vec<u8>) -> Result<()>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (start, mut text) = (out.len(), Vec::new());
    out.push(b'(');
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        if value.is_null() {
            continue;
        }
        text.clear();
        text_of(place, value, &mut text)?;
        write_field(&text, out);
        check_made_bytes(out.len() - start)?;
    }
    out.push(b')');
    Ok(())
}

fn write_field(text: &[u8], out: &mut Vec<u8>) {
    let is_sign =
        |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t'..=b'\r');
    if !text.is_empty() && !text.iter().any(is_sign) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// As PostgreSQL's `record_send`: how many fields, and of each its type, length and bytes.
pub(crate) fn write_binary(
    values: &[Value],
    fields: &[Field],
    out: &mut impl BufMut,
) -> Result<()> {
    let too_long = |_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long");
    out.put_i32(i32::try_from(values.len()).map_err(too_long)?);
    let mut scratch = Vec::new();
    for (value, field) in values.iter().zip(fields) {
        out.put_u32(field.data_type.oid());
        if value.is_null() {
            out.put_i32(-1);
            continue;
        }
        scratch.clear();
        value.write_binary(&field.data_type, &mut scratch)?;
        out.put_i32(i32::try_from(scratch.len()).map_err(too_long)?);
        out.put_slice(&scratch);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[(DataType, Value)]) -> (DataType, Value) {
        let types = fields.iter().map(|(of, _)| Field::new("f", of.clone())).collect();
        let values: Vec<Value> = fields.iter().map(|(_, value)| value.clone()).collect();
        (DataType::Record(types), Value::array(values))
    }

    #[test]
    fn rows_are_written_as_postgresql_writes_them() {
        let text = |text: &str| (DataType::Text, Value::text(text));
        let inner = row(&[(DataType::Int4, Value::Int(1)), text("a\"b")]);
        for (fields, expected) in [
            (vec![text("two"), text(""), (DataType::Int4, Value::Null)], r#"(two,"",)"#),
            (vec![text("a b"), text("a,b"), text("("), text("a'b")], r#"("a b","a,b","(",a'b)"#),
            (vec![text("x\"y"), text("x\\y")], r#"("x""y","x\\y")"#),
            (
                vec![(DataType::Bool, Value::Bool(true)), (DataType::Char(3), "a".into())],
                r#"(t,"a  ")"#,
            ),
            (vec![inner, text("z")], r#"("(1,""a""""b"")",z)"#),
        ] {
            let (of, value) = row(&fields);
            assert_eq!(value.to_text(&of), expected);
            assert_eq!(value.made_text(&of).unwrap(), expected);
        }
    }

    #[test]
    fn fields_say_their_type_and_length() {
        let (of, value) = row(&[(DataType::Int4, Value::Int(7)), (DataType::Text, Value::Null)]);
        let mut out = Vec::new();
        value.write_binary(&of, &mut out).unwrap();
        let expected = [2, 23, 4, 7, 25, -1_i32].map(i32::to_be_bytes).concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_doubles_itself_ends_where_it_is_too_long() {
        let mut nested = row(&[(DataType::Text, Value::text("\""))]);
        for _ in 0..40 {
            nested = row(&[nested]);
        }
        let (of, value) = nested;
        assert_eq!(value.made_text(&of).unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
