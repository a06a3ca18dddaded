//! Operators: `+ - * / %`, the bit operators and `||`, checked, with PostgreSQL's errors.
//!
//! The planner asks [`result_type`] once and passes it with every evaluation, because integers of
//! every width are one kind of value: the type says when to refuse with `integer out of range`.
//! NULL in, NULL out. Division of integers truncates. Floats refuse to overflow into infinity or
//! to underflow into zero, as PostgreSQL's do.

use std::borrow::Cow;

use compact_str::CompactString;

use crate::cast::{self, cast, common_type, in_range, out_of_range};
use crate::datatype::DataType;
use crate::datetime::check_date;
use crate::error::{Error, Result, SqlState};
pub use crate::made::check_made_bytes;
use crate::moments;
use crate::numeric::{self, Numeric};
pub use crate::operator::{ArithmeticOp, no_operator};
use crate::value::{Value, canonical_nan};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BitOp {
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// The type in which an operator takes both sides: with `real` that is `double precision`, unless
/// both sides are `real`.
pub fn operand_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let is_real = |side: &DataType| matches!(side, DataType::Float4 | DataType::Unknown);
    match common_type(left, right) {
        Some(DataType::Float4) if !(is_real(left) && is_real(right)) => Some(DataType::Float8),
        common => common,
    }
}

/// The type of `left op right`. Operands of unknown type (NULL, untyped literals) take the other's.
pub fn result_type(op: ArithmeticOp, left: &DataType, right: &DataType) -> Result<DataType> {
    if let Some(found) = moments::operator(op, left, right) {
        return found.map(|operator| operator.result);
    }
    let common = operand_type(left, right).map(|t| t.without_modifier());
    match common {
        Some(t) if t.is_number() && !(op == ArithmeticOp::Mod && t.is_float()) => Ok(t),
        _ => Err(no_operator(left, op, right)),
    }
}

/// Evaluates `a op b` as the given type, which is [`result_type`]'s.
pub fn arithmetic(op: ArithmeticOp, a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Int(a), Value::Int(b)) if result.is_integer() => {
            int_arithmetic(op, *a, *b, result).map(Value::Int)
        }
        (Value::Date(_), Value::Int(_) | Value::Date(_)) | (Value::Int(_), Value::Date(_)) => {
            date_arithmetic(op, a, b)
        }
        (a, b) if is_of_time(a) || is_of_time(b) => moments::arithmetic(op, a, b),
        _ => match result {
            DataType::Numeric(_) => {
                numeric_arithmetic(op, &*to_numeric(a)?, &*to_numeric(b)?).map(Value::Numeric)
            }
            DataType::Float8 => float_arithmetic(op, to_float(a)?, to_float(b)?).map(Value::Float),
            DataType::Float4 => {
                // The double has digits enough for what follows to be rounded as if once.
                let exact = float_arithmetic(op, to_float(a)?, to_float(b)?)?;
                cast::real_of(exact).map(Value::Float)
            }
            _ => Err(no_operator(&a.data_type_hint(), op, &b.data_type_hint())),
        },
    }
}

pub fn add(a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    arithmetic(ArithmeticOp::Add, a, b, result)
}

pub fn sub(a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    arithmetic(ArithmeticOp::Sub, a, b, result)
}

pub fn mul(a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    arithmetic(ArithmeticOp::Mul, a, b, result)
}

pub fn div(a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    arithmetic(ArithmeticOp::Div, a, b, result)
}

pub fn modulo(a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    arithmetic(ArithmeticOp::Mod, a, b, result)
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

fn int_arithmetic(op: ArithmeticOp, a: i64, b: i64, result: &DataType) -> Result<i64> {
    let exact = match op {
        ArithmeticOp::Add => a.checked_add(b),
        ArithmeticOp::Sub => a.checked_sub(b),
        ArithmeticOp::Mul => a.checked_mul(b),
        ArithmeticOp::Div | ArithmeticOp::Mod if b == 0 => return Err(division_by_zero()),
        ArithmeticOp::Div => a.checked_div(b),
        // The smallest integer divided by -1 overflows, but leaves no remainder.
        ArithmeticOp::Mod => Some(a.checked_rem(b).unwrap_or(0)),
    };
    exact.ok_or_else(|| out_of_range(result)).and_then(|i| in_range(i, result))
}

fn numeric_arithmetic(op: ArithmeticOp, a: &Numeric, b: &Numeric) -> Result<Numeric> {
    match op {
        ArithmeticOp::Add => numeric::add(a, b),
        ArithmeticOp::Sub => numeric::sub(a, b),
        ArithmeticOp::Mul => numeric::mul(a, b),
        ArithmeticOp::Div => numeric::div(a, b),
        ArithmeticOp::Mod => numeric::rem(a, b),
    }
}

fn float_arithmetic(op: ArithmeticOp, a: f64, b: f64) -> Result<f64> {
    let result = match op {
        ArithmeticOp::Add => a + b,
        ArithmeticOp::Sub => a - b,
        ArithmeticOp::Mul => a * b,
        ArithmeticOp::Div if b == 0.0 && !a.is_nan() => return Err(division_by_zero()),
        ArithmeticOp::Div => a / b,
        ArithmeticOp::Mod => {
            return Err(no_operator(&DataType::Float8, op, &DataType::Float8));
        }
    };
    let range_error = |what| {
        Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}")))
    };
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return range_error("overflow");
    }
    let vanished = match op {
        ArithmeticOp::Mul => a != 0.0 && b != 0.0,
        ArithmeticOp::Div => a != 0.0 && b.is_finite(),
        _ => false,
    };
    if result == 0.0 && vanished {
        return range_error("underflow");
    }
    Ok(canonical_nan(result))
}

fn date_arithmetic(op: ArithmeticOp, a: &Value, b: &Value) -> Result<Value> {
    let days = match (a, op, b) {
        (Value::Date(a), ArithmeticOp::Sub, Value::Date(b)) => {
            return Ok(Value::Int(i64::from(*a) - i64::from(*b)));
        }
        (Value::Date(date), ArithmeticOp::Add, Value::Int(days))
        | (Value::Int(days), ArithmeticOp::Add, Value::Date(date)) => {
            i64::from(*date).checked_add(*days)
        }
        (Value::Date(date), ArithmeticOp::Sub, Value::Int(days)) => {
            i64::from(*date).checked_sub(*days)
        }
        _ => {
            return Err(no_operator(&a.data_type_hint(), op, &b.data_type_hint()));
        }
    };
    check_date(days.unwrap_or(i64::MAX)).map(Value::Date)
}

fn is_of_time(value: &Value) -> bool {
    matches!(
        value,
        Value::Date(_)
            | Value::Timestamp(_)
            | Value::Timestamptz(_)
            | Value::Interval(_)
            | Value::Time(_)
            | Value::Timetz(_)
    )
}

fn to_numeric(value: &Value) -> Result<Cow<'_, Numeric>> {
    match value {
        Value::Int(i) => Ok(Cow::Owned(Numeric::from(*i))),
        Value::Numeric(d) => Ok(Cow::Borrowed(d)),
        _ => Err(not_a_number(value)),
    }
}

fn to_float(value: &Value) -> Result<f64> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Numeric(d) => cast::numeric_to_float(d),
        Value::Float(x) => Ok(*x),
        _ => Err(not_a_number(value)),
    }
}

fn not_a_number(value: &Value) -> Error {
    Error::new(SqlState::DATATYPE_MISMATCH, format!("{} is not a number", value.data_type_hint()))
}

/// `- value`.
pub fn neg(value: &Value, result: &DataType) -> Result<Value> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(i) => i
            .checked_neg()
            .ok_or_else(|| out_of_range(result))
            .and_then(|i| in_range(i, result))
            .map(Value::Int),
        Value::Numeric(d) => Ok(Value::Numeric(numeric::neg(d))),
        Value::Float(x) => Ok(Value::Float(canonical_nan(-x))),
        Value::Interval(interval) => interval.negated().map(Value::Interval),
        _ => Err(not_a_number(value)),
    }
}

/// `abs(value)`.
pub fn abs(value: &Value, result: &DataType) -> Result<Value> {
    match value {
        Value::Int(i) if *i < 0 => neg(value, result),
        Value::Null | Value::Int(_) => Ok(value.clone()),
        Value::Numeric(d) => Ok(Value::Numeric(numeric::abs(d))),
        Value::Float(x) => Ok(Value::Float(canonical_nan(x.abs()))),
        _ => Err(not_a_number(value)),
    }
}

/// `round(value, digits)`: numerics half away from zero, floats (without digits) half to even.
pub fn round(value: &Value, digits: i32) -> Result<Value> {
    rounded(value, |d| numeric::round(d, digits), f64::round_ties_even)
}

/// `trunc(value, digits)`.
pub fn trunc(value: &Value, digits: i32) -> Result<Value> {
    rounded(value, |d| numeric::trunc(d, digits), f64::trunc)
}

pub fn ceil(value: &Value) -> Result<Value> {
    rounded(value, numeric::ceil, f64::ceil)
}

pub fn floor(value: &Value) -> Result<Value> {
    rounded(value, numeric::floor, f64::floor)
}

fn rounded(
    value: &Value,
    of_numeric: impl FnOnce(&Numeric) -> Result<Numeric>,
    of_float: impl FnOnce(f64) -> f64,
) -> Result<Value> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(i) => of_numeric(&Numeric::from(*i)).map(Value::Numeric),
        Value::Numeric(d) => of_numeric(d).map(Value::Numeric),
        Value::Float(x) => Ok(Value::Float(canonical_nan(of_float(*x)))),
        _ => Err(not_a_number(value)),
    }
}

/// `& | # << >>` on integers of the result's width. Shift counts wrap at the width that PostgreSQL
/// computes in: 32 bits for `smallint` and `integer`, 64 for `bigint`.
pub fn bit_op(op: BitOp, a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    let (a, b) = match (a, b) {
        (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
        (Value::Int(a), Value::Int(b)) => (*a, *b),
        _ => {
            let name = "bit operator";
            return Err(no_operator(&a.data_type_hint(), name, &b.data_type_hint()));
        }
    };
    let shift = match result {
        DataType::Int8 => b as u32 & 63,
        _ => b as u32 & 31,
    };
    let bits = match op {
        BitOp::And => a & b,
        BitOp::Or => a | b,
        BitOp::Xor => a ^ b,
        BitOp::ShiftLeft => a << shift,
        BitOp::ShiftRight => a >> shift,
    };
    Ok(Value::Int(match result {
        DataType::Int2 => i64::from(bits as i16),
        DataType::Int4 => i64::from(bits as i32),
        _ => bits,
    }))
}

/// `~ value`.
pub fn bit_not(value: &Value) -> Result<Value> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(i) => Ok(Value::Int(!i)),
        _ => Err(not_a_number(value)),
    }
}

/// `a || b`: strings, bytes, arrays; a string and anything else as text.
pub fn concat(a: &Value, b: &Value) -> Result<Value> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Text(a), Value::Text(b)) => {
            check_made_bytes(a.len() + b.len())?;
            let mut joined = CompactString::with_capacity(a.len() + b.len());
            joined.push_str(a);
            joined.push_str(b);
            Ok(Value::Text(joined))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            check_made_bytes(a.len() + b.len())?;
            Ok(Value::from([&a[..], &b[..]].concat()))
        }
        (Value::Array(a), Value::Array(b)) => joined(a, b),
        (Value::Text(_), other) => concat(a, &cast(other, &DataType::Text, true)?),
        (other, Value::Text(_)) => concat(&cast(other, &DataType::Text, true)?, b),
        _ => Err(no_operator(&a.data_type_hint(), "||", &b.data_type_hint())),
    }
}

/// An array of the elements of two.
pub fn joined(a: &[Value], b: &[Value]) -> Result<Value> {
    let weight = |values: &[Value]| values.iter().map(Value::weight).sum::<usize>();
    check_made_bytes(weight(a) + weight(b))?;
    Ok(Value::array([a, b].concat()))
}

/// The type of `left || right`.
pub fn concat_type(left: &DataType, right: &DataType) -> Result<DataType> {
    use DataType as T;
    match (left, right) {
        (T::Bytea, T::Bytea | T::Unknown) | (T::Unknown, T::Bytea) => Ok(T::Bytea),
        (T::Array(_), T::Array(_) | T::Unknown) | (T::Unknown, T::Array(_)) => {
            common_type(left, right).ok_or_else(|| no_operator(left, "||", right))
        }
        (T::Unknown, T::Unknown) => Ok(T::Text),
        (a, b) if a.is_string() || b.is_string() => {
            let has_text = |t: &DataType| cast::cast_context(t, &T::Text).is_some();
            if has_text(a) && has_text(b) {
                Ok(T::Text)
            } else {
                Err(no_operator(left, "||", right))
            }
        }
        _ => Err(no_operator(left, "||", right)),
    }
}
