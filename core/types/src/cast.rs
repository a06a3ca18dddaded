//! Conversions between types: which exist, in which context, and what they do.
//!
//! PostgreSQL allows each conversion from some context on: *implicit* (anywhere in an expression),
//! *assignment* (into a column or variable too), *explicit* (only where `CAST` or `::` says so).
//! [`cast_context`] is that table, for the planner; [`cast`] converts values and trusts it.
//!
//! Modifiers apply in every context, but differently to strings: assignment refuses what is too
//! long unless only blanks are cut, an explicit cast cuts.

use compact_str::CompactString;

use crate::clock::{self, ZonedTime};
use crate::datatype::DataType;
use crate::datetime::{
    DAY_US, check_date, check_timestamp, date_to_timestamp_us, timestamp_to_date,
};
use crate::error::{Error, Result, SqlState};
use crate::interval::{Fields, Interval};
use crate::json::raw::Kind;
use crate::json::{self, Jsonb};
use crate::network::{self, Network};
use crate::numeric::{self, Numeric};
use crate::record::{not_read, same_fields};
use crate::schema::ColumnSchema;
use crate::system::SystemType;
use crate::value::Value;

/// Where a conversion is allowed; each context includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    Implicit,
    Assignment,
    Explicit,
}

/// The first context in which PostgreSQL converts `from` into `to`; `None` if it never does.
pub fn cast_context(from: &DataType, to: &DataType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType as T;
    let number_rank = |data_type: &DataType| match data_type {
        T::Int2 => Some(0),
        T::Int4 => Some(1),
        T::Int8 => Some(2),
        T::Numeric(_) => Some(3),
        T::Float4 => Some(4),
        T::Float8 => Some(5),
        _ => None,
    };
    if let (Some(from), Some(to)) = (number_rank(from), number_rank(to)) {
        return Some(if from <= to { Implicit } else { Assignment });
    }
    match (from, to) {
        (T::Void, _) | (_, T::Void) => (from == to).then_some(Implicit),
        (T::Unknown, _) => Some(Implicit),
        (_, T::Unknown) => None,
        (T::System(from), to) => cast_context(&from.storage(), to),
        (from, T::System(to)) => cast_context(from, &to.storage()),
        (T::Array(from), T::Array(to)) => cast_context(from, to),
        (T::Record(from), T::Record(to)) => same_fields(from, to).then_some(Implicit),
        (_, T::Record(_)) => None,
        (from, to) if from.without_modifier() == to.without_modifier() => Some(Implicit),
        (T::Json, T::Jsonb) | (T::Jsonb, T::Json) => Some(Assignment),
        (T::Jsonb, to) if to.is_number() || *to == T::Bool => Some(Explicit),
        (from, to) if from.is_string() && to.is_string() => Some(Implicit),
        (T::Cidr, T::Inet) => Some(Implicit),
        (T::Inet, T::Cidr) => Some(Assignment),
        (_, to) if to.is_string() => Some(Assignment),
        (from, _) if from.is_string() => Some(Explicit),
        (T::Bool, T::Int4) | (T::Int4, T::Bool) => Some(Explicit),
        (T::Date, T::Timestamp(_) | T::Timestamptz(_)) | (T::Timestamp(_), T::Timestamptz(_)) => {
            Some(Implicit)
        }
        (T::Timestamptz(_), T::Timestamp(_) | T::Date) | (T::Timestamp(_), T::Date) => {
            Some(Assignment)
        }
        (T::Time(_), T::Interval(_) | T::Timetz(_)) => Some(Implicit),
        (T::Interval(_) | T::Timetz(_), T::Time(_)) => Some(Assignment),
        (T::Timestamp(_) | T::Timestamptz(_), T::Time(_)) => Some(Assignment),
        (T::Timestamptz(_), T::Timetz(_)) => Some(Assignment),
        _ => None,
    }
}

/// Converts a value. NULL stays NULL; a text is read by the target's input function.
pub fn cast(value: &Value, target: &DataType, explicit: bool) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match target {
        DataType::Unknown => Ok(value.clone()),
        DataType::Void => Ok(Value::Null),
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            fit_text(text_of(value), target, explicit).map(Value::Text)
        }
        DataType::Array(element) => cast_array(value, element, explicit),
        DataType::Record(_) => match value {
            Value::Array(_) => Ok(value.clone()),
            _ => Err(not_read()),
        },
        // A position is of this type: no number is cast to one.
        DataType::Enum(_) if matches!(value, Value::Int(_)) => Ok(value.clone()),
        DataType::System(system) if !matches!(value, Value::Text(_)) => {
            cast(value, &system.storage(), explicit)
        }
        DataType::Json => match value {
            Value::Jsonb(json) => Ok(Value::text(json.as_str())),
            other => Value::read_text(target, &text_of(other)),
        },
        _ => match value {
            Value::Text(text) => Value::read_text(target, text),
            Value::Jsonb(json) => cast_json(json, target),
            _ => cast_scalar(value, target),
        },
    }
}

/// Converts a value for storing it into a column: assignment rules. Says nothing of NULL.
pub fn assign(value: Value, column: &ColumnSchema) -> Result<Value> {
    assign_to(value, &column.data_type)
}

/// Converts a value for storing it into a variable or column of this type. Values that need no
/// conversion, which is nearly all, are passed on as they are.
pub fn assign_to(value: Value, data_type: &DataType) -> Result<Value> {
    let fits = match (&value, data_type) {
        (Value::Null, _) => true,
        (Value::Int(i), DataType::Int2 | DataType::Int4 | DataType::Int8) => {
            return in_range(*i, data_type).map(Value::Int);
        }
        (Value::Text(_), DataType::Text | DataType::Varchar(None)) => true,
        (Value::Bool(_), DataType::Bool)
        | (Value::Float(_), DataType::Float8)
        | (Value::Numeric(_), DataType::Numeric(None))
        | (Value::Bytes(_), DataType::Bytea | DataType::Inet)
        | (Value::Uuid(_), DataType::Uuid)
        | (Value::Date(_), DataType::Date)
        | (Value::Timestamp(_), DataType::Timestamp(None))
        | (Value::Timestamptz(_), DataType::Timestamptz(None))
        | (Value::Jsonb(_), DataType::Jsonb)
        | (Value::Time(_), DataType::Time(None))
        | (Value::Timetz(_), DataType::Timetz(None)) => true,
        (Value::Interval(_), DataType::Interval(fields)) => *fields == Fields::ALL,
        (Value::Int(_), DataType::Enum(_)) => true,
        _ => false,
    };
    if fits { Ok(value) } else { cast(&value, data_type, false) }
}

fn cast_scalar(value: &Value, target: &DataType) -> Result<Value> {
    let converted = match (value, target) {
        (_, DataType::Int2 | DataType::Int4 | DataType::Int8) => Value::Int(to_int(value, target)?),
        (_, DataType::Numeric(modifier)) => {
            Value::Numeric(with_precision(to_numeric(value, target)?, *modifier)?)
        }
        (_, DataType::Float4) => Value::Float(to_real(value, target)?),
        (_, DataType::Float8) => Value::Float(to_float(value, target)?),
        (Value::Bool(b), DataType::Bool) => Value::Bool(*b),
        (Value::Int(i), DataType::Bool) => Value::Bool(*i != 0),
        (Value::Date(days), DataType::Date) => Value::Date(*days),
        (Value::Timestamp(us) | Value::Timestamptz(us), DataType::Date) => {
            Value::Date(check_date(i64::from(timestamp_to_date(*us)))?)
        }
        (Value::Timestamp(us) | Value::Timestamptz(us), DataType::Timestamp(digits)) => {
            Value::Timestamp(check_timestamp(clock::with_precision(*us, *digits))?)
        }
        (Value::Timestamp(us) | Value::Timestamptz(us), DataType::Timestamptz(digits)) => {
            Value::Timestamptz(check_timestamp(clock::with_precision(*us, *digits))?)
        }
        (Value::Date(days), DataType::Timestamp(_)) => {
            Value::Timestamp(check_timestamp(date_to_timestamp_us(*days))?)
        }
        (Value::Date(days), DataType::Timestamptz(_)) => {
            Value::Timestamptz(check_timestamp(date_to_timestamp_us(*days))?)
        }
        (
            Value::Interval(_) | Value::Time(_) | Value::Timetz(_),
            DataType::Interval(_) | DataType::Time(_) | DataType::Timetz(_),
        )
        | (Value::Timestamp(_), DataType::Time(_) | DataType::Timetz(_))
        | (Value::Timestamptz(_), DataType::Time(_) | DataType::Timetz(_)) => {
            return cast_time(value, target);
        }
        (Value::Bytes(_), DataType::Bytea) | (Value::Uuid(_), DataType::Uuid) => value.clone(),
        (Value::Bytes(bytes), DataType::Inet) if Network::of(bytes).is_some() => value.clone(),
        (Value::Bytes(bytes), DataType::Cidr) => {
            network::network_of(bytes).ok_or_else(|| cannot_cast(value, target))?
        }
        _ => return Err(cannot_cast(value, target)),
    };
    Ok(converted)
}

/// A number or a truth value out of its JSON.
fn cast_json(json: &Jsonb, target: &DataType) -> Result<Value> {
    let scalar = json.raw();
    match (scalar.kind(), target) {
        (_, DataType::Jsonb) => Ok(Value::Jsonb(json.clone())),
        (Kind::Bool, DataType::Bool) => Ok(Value::Bool(scalar.text() == "true")),
        (
            Kind::Number,
            DataType::Int2
            | DataType::Int4
            | DataType::Int8
            | DataType::Numeric(_)
            | DataType::Float4
            | DataType::Float8,
        ) => {
            let number = Value::read_text(&DataType::Numeric(None), scalar.text())?;
            cast_scalar(&number, target)
        }
        (kind, _) => {
            let what = json::write::named(kind);
            let message = format!("cannot cast jsonb {what} to type {}", target.base_name());
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Times of day and intervals; where there is no offset it is none from UTC.
fn cast_time(value: &Value, target: &DataType) -> Result<Value> {
    let of_day = match value {
        Value::Interval(interval) => match target {
            DataType::Interval(fields) => return Ok(Value::Interval(interval.within(*fields))),
            _ => clock::of_interval(*interval),
        },
        Value::Time(us) => *us,
        Value::Timetz(time) => time.us,
        Value::Timestamp(us) | Value::Timestamptz(us) => us.rem_euclid(DAY_US),
        _ => return Err(cannot_cast(value, target)),
    };
    let west_s = match value {
        Value::Timetz(time) => time.west_s,
        _ => 0,
    };
    Ok(match target {
        DataType::Time(digits) => Value::Time(clock::with_precision(of_day, *digits)),
        DataType::Timetz(digits) => {
            Value::Timetz(ZonedTime { us: clock::with_precision(of_day, *digits), west_s })
        }
        DataType::Interval(fields) => Value::Interval(Interval::new(0, 0, of_day).within(*fields)),
        _ => return Err(cannot_cast(value, target)),
    })
}

fn cast_array(value: &Value, element_type: &DataType, explicit: bool) -> Result<Value> {
    match value {
        Value::Array(elements) => {
            let converted: Result<Vec<Value>> =
                elements.iter().map(|element| cast(element, element_type, explicit)).collect();
            converted.map(Value::from)
        }
        Value::Text(text) => {
            // What is cut to fit depends on who asks.
            let plain = element_type.without_modifier();
            let fits = plain == *element_type;
            let elements = Value::read_text(&DataType::Array(Box::new(plain)), text)?;
            if fits { Ok(elements) } else { cast_array(&elements, element_type, explicit) }
        }
        _ => Err(cannot_cast(value, &DataType::Array(Box::new(element_type.clone())))),
    }
}

fn cannot_cast(value: &Value, target: &DataType) -> Error {
    Error::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {target}", value.data_type_hint()),
    )
}

/// `smallint out of range` and its sisters.
pub(crate) fn out_of_range(target: &DataType) -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", target.base_name()))
}

/// Checks an integer against the type's width.
pub(crate) fn in_range(i: i64, target: &DataType) -> Result<i64> {
    let (min, max) = target.integer_range().unwrap_or((i64::MIN, i64::MAX));
    if (min..=max).contains(&i) { Ok(i) } else { Err(out_of_range(target)) }
}

fn to_int(value: &Value, target: &DataType) -> Result<i64> {
    match value {
        Value::Int(i) => in_range(*i, target),
        Value::Bool(b) => Ok(i64::from(*b)),
        Value::Numeric(d) if !d.is_finite() => {
            let what = if d.is_nan() { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to {}", target.base_name());
            Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        Value::Numeric(d) => {
            numeric::to_i64(d).ok_or_else(|| out_of_range(target)).and_then(|i| in_range(i, target))
        }
        Value::Float(x) => {
            let rounded = x.round_ties_even();
            // -2^63 is a double, 2^63 is the first one above the range; NaN fails both.
            if !(rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64)) {
                return Err(out_of_range(target));
            }
            in_range(rounded as i64, target)
        }
        _ => Err(cannot_cast(value, target)),
    }
}

fn to_numeric(value: &Value, target: &DataType) -> Result<Numeric> {
    match value {
        Value::Int(i) => Ok(Numeric::from(*i)),
        Value::Numeric(d) => Ok(d.clone()),
        Value::Float(x) => numeric::from_f64(*x),
        _ => Err(cannot_cast(value, target)),
    }
}

fn to_float(value: &Value, target: &DataType) -> Result<f64> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Numeric(d) => numeric_to_float(d),
        Value::Float(x) => Ok(*x),
        _ => Err(cannot_cast(value, target)),
    }
}

/// The nearest number of 32 bits.
fn to_real(value: &Value, target: &DataType) -> Result<f64> {
    match value {
        Value::Int(i) => Ok(f64::from(*i as f32)),
        // By way of a double it would be rounded twice.
        Value::Numeric(d) if d.is_finite() => match Value::read_text(target, &d.to_string())? {
            Value::Float(x) => Ok(x),
            _ => Err(cannot_cast(value, target)),
        },
        _ => real_of(to_float(value, target)?),
    }
}

/// A double as `real`.
///
/// # Errors
/// 22003 where it is beyond, or where its nearest number is zero.
pub(crate) fn real_of(x: f64) -> Result<f64> {
    let nearest = f64::from(x as f32);
    let what = match nearest {
        _ if nearest.is_infinite() && x.is_finite() => "overflow",
        _ if nearest == 0.0 && x != 0.0 => "underflow",
        _ => return Ok(nearest),
    };
    let what = format!("value out of range: {what}");
    Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what))
}

/// # Errors
/// 22003 for a number that is beyond floats, or so small that the nearest one is zero.
pub(crate) fn numeric_to_float(d: &Numeric) -> Result<f64> {
    let nearest = numeric::to_f64(d);
    let is_beyond = nearest.is_infinite() && d.is_finite();
    match is_beyond || (nearest == 0.0 && !d.is_zero()) {
        true => Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{d}\" is out of range for type double precision"),
        )),
        false => Ok(nearest),
    }
}

pub(crate) fn with_precision(d: Numeric, modifier: Option<(u16, u16)>) -> Result<Numeric> {
    match modifier {
        Some((precision, scale)) => numeric::apply_precision(&d, precision, scale),
        None => Ok(d),
    }
}

/// The text that a cast to a string type gives, before the modifier.
fn text_of(value: &Value) -> CompactString {
    match value {
        Value::Text(text) => text.clone(),
        Value::Jsonb(json) => CompactString::new(json.as_str()),
        // The cast spells booleans out; the output function does not.
        Value::Bool(b) => CompactString::new(if *b { "true" } else { "false" }),
        other => CompactString::from(other.to_text(&other.data_type_hint())),
    }
}

/// Makes a text one of the given string type. `char(n)` loses its trailing blanks here and gets
/// them back on output.
pub(crate) fn fit_text(
    mut text: CompactString,
    target: &DataType,
    explicit: bool,
) -> Result<CompactString> {
    let limit = match target {
        DataType::Varchar(Some(n)) | DataType::Char(n) => Some(*n as usize),
        _ => None,
    };
    if let Some(limit) = limit
        && text.len() > limit
        && let Some((cut, _)) = text.char_indices().nth(limit)
    {
        let only_blanks = text.as_bytes()[cut..].iter().all(|b| *b == b' ');
        if !explicit && !only_blanks {
            return Err(Error::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {target}"),
            ));
        }
        text.truncate(cut);
    }
    if matches!(target, DataType::Char(_)) {
        let kept = text.trim_end_matches(' ').len();
        text.truncate(kept);
    }
    Ok(text)
}

/// The type that two expressions meet in: CASE, COALESCE, UNION, VALUES, `=` and the like.
/// `None` if PostgreSQL finds none (42804).
pub fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType as T;
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (T::Unknown, of @ T::Char(_)) | (of @ T::Char(_), T::Unknown) => return Some(of.clone()),
        // A literal has no length or scale, so what it is beside need not keep to its own.
        (T::Unknown, of) | (of, T::Unknown) => return Some(of.without_modifier()),
        (T::Void, _) | (_, T::Void) => return None,
        (T::Record(a), T::Record(b)) => return same_fields(a, b).then(|| T::Record(a.clone())),
        // Numbers of objects and integers meet in the former.
        (T::System(SystemType::Oid), b) | (b, T::System(SystemType::Oid)) if b.is_integer() => {
            return Some(T::System(SystemType::Oid));
        }
        (T::System(SystemType::Name), T::Varchar(_))
        | (T::Varchar(_), T::System(SystemType::Name)) => return Some(T::System(SystemType::Name)),
        (T::System(a), b) | (b, T::System(a)) => return common_type(&a.storage(), b),
        (T::Array(a), T::Array(b)) => return common_type(a, b).map(|e| T::Array(Box::new(e))),
        // Lengths differ: PostgreSQL forgets them, and an unbounded `char` is `text` here.
        (T::Char(_), T::Char(_)) => return Some(T::Text),
        _ => {}
    }
    let (a, b) = (a.without_modifier(), b.without_modifier());
    if a == b || (a.is_string() && b.is_string()) {
        let both_varchar = a == b;
        return Some(if both_varchar { a } else { T::Text });
    }
    let is_clock = |t: &DataType| matches!(t, T::Time(_) | T::Timetz(_));
    let same_category = (is_clock(&a) && is_clock(&b))
        || (a.is_number() && b.is_number())
        || (a.is_datetime() && b.is_datetime())
        || (a.is_network() && b.is_network());
    if !same_category {
        return None;
    }
    let converts = |from, to| cast_context(from, to) == Some(CastContext::Implicit);
    if converts(&a, &b) {
        Some(b)
    } else if converts(&b, &a) {
        Some(a)
    } else {
        None
    }
}
