//! Evaluates the expressions of a primary key or an index prefix to an encoded key, with a shortcut
//! for keys of integers.

use smallvec::SmallVec;
use types::key::{encode_column, encode_int_key};
use types::{Error, Key, Value};

use crate::expr::Expr;
use crate::meter::Meter;

/// The primary key that `expressions` describe; `None` where one is NULL, which equals no key.
pub fn eval_key(
    expressions: &[Expr],
    registers: &[Value],
    row: &[Value],
    now_us: i64,
) -> Result<Option<Key>, Error> {
    match integer_key(expressions, registers, row) {
        Some(key) => Ok(Some(key)),
        None => eval_index_key(expressions, &[], registers, row, now_us, &Meter::of_expression()),
    }
}

/// The same over registers alone, paid for by `meter`.
pub(crate) fn eval_key_metered(
    expressions: &[Expr],
    registers: &[Value],
    now_us: i64,
    meter: &Meter,
) -> Result<Option<Key>, Error> {
    eval_index_key(expressions, &[], registers, &[], now_us, meter)
}

/// The same for a prefix of an index whose columns are `nullable` or (if there is no such entry)
/// not. A value's own kind decides its encoding; the binder has cast it to the column's type.
pub(crate) fn eval_index_key(
    expressions: &[Expr],
    nullable: &[bool],
    registers: &[Value],
    row: &[Value],
    now_us: i64,
    meter: &Meter,
) -> Result<Option<Key>, Error> {
    if nullable.is_empty()
        && let Some(key) = integer_key(expressions, registers, row)
    {
        return Ok(Some(key));
    }
    let mut key = Key::default();
    for (i, expression) in expressions.iter().enumerate() {
        let evaluated;
        let value = match expression.in_place(registers, row) {
            Some(value) => value,
            None => {
                evaluated = expression.eval_metered(registers, row, now_us, meter)?;
                &evaluated
            }
        };
        let nullable = nullable.get(i).copied().unwrap_or(false);
        match value {
            Value::Int(number) if !nullable => {
                key.0.extend_from_slice(&encode_int_key(*number));
            }
            Value::Null if !(nullable && expression.takes_nulls_for_values()) => return Ok(None),
            value => encode_column(&value.data_type_hint(), nullable, value, &mut key)?,
        }
    }
    Ok(Some(key))
}

/// Columns of a key that is made in one piece.
const COLUMNS_MAX: usize = 4;

/// The most usual keys: of integers that are there already.
#[inline]
fn integer_key(expressions: &[Expr], registers: &[Value], row: &[Value]) -> Option<Key> {
    let number = |expression: &Expr| expression.in_place(registers, row)?.as_int();
    match expressions {
        [expression] => number(expression).map(Key::from_int),
        expressions => key_of_integers(expressions.iter().map(number)),
    }
}

/// `None`: one of the columns is no integer, or they are too many.
#[inline]
pub(crate) fn key_of_integers(columns: impl Iterator<Item = Option<i64>>) -> Option<Key> {
    let (mut bytes, mut length) = ([0; 8 * COLUMNS_MAX], 0);
    for number in columns {
        let place = bytes.get_mut(length..length + 8)?;
        place.copy_from_slice(&encode_int_key(number?));
        length += 8;
    }
    // In one piece, whatever its length: no call copies it.
    Some(Key(SmallVec::from_buf_and_len(bytes, length)))
}
