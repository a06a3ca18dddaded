//! SQL values.
//!
//! A value is at most 32 bytes: short strings, numbers and every time are inline, long strings own
//! a buffer, bytes, arrays and numerics of more than 28 digits are shared. Equality is SQL's
//! `IS NOT DISTINCT FROM` within one type, so values can be grouped and counted: NULL equals NULL,
//! NaN equals NaN, -0 equals 0, 1.0 equals 1.00, and a month equals 30 days. Values of different
//! types are never equal here; see [`compare`](crate::compare::compare) for SQL's `=`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use compact_str::CompactString;

use crate::clock::ZonedTime;
pub use crate::datatype::DataType;
use crate::interval::Interval;
use crate::json::Jsonb;
use crate::numeric::Numeric;

/// One SQL value. Integers of every width are `Int`; the column's type bounds them.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Numeric(Numeric),
    Text(CompactString),
    Bytes(Arc<[u8]>),
    Uuid([u8; 16]),
    /// Days since 2000-01-01, PostgreSQL's epoch.
    Date(i32),
    /// Microseconds since 2000-01-01 00:00:00.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00:00 UTC.
    Timestamptz(i64),
    /// Of type `jsonb`; a `json` is a text.
    Jsonb(Jsonb),
    /// Equal to one that lasts as long, see [`interval`](crate::interval).
    Interval(Interval),
    /// Microseconds since midnight.
    Time(i64),
    Timetz(ZonedTime),
    Array(Arc<[Value]>),
}

const _: () = assert!(size_of::<Value>() <= 32);

/// What any value weighs.
pub const VALUE_WEIGHT: usize = 32;

impl Value {
    pub fn text(text: impl AsRef<str>) -> Value {
        Value::Text(CompactString::new(text))
    }

    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Value {
        Value::Bytes(bytes.into())
    }

    pub fn array(elements: impl Into<Arc<[Value]>>) -> Value {
        Value::Array(elements.into())
    }

    /// A clone that is cheap to make in place where the value is a number, a truth value or a short
    /// text, as most are.
    #[inline]
    pub fn copied(&self) -> Value {
        match self {
            Value::Int(number) => Value::Int(*number),
            Value::Bool(truth) => Value::Bool(*truth),
            Value::Null => Value::Null,
            Value::Text(text) => Value::Text(text.clone()),
            other => other.clone(),
        }
    }

    /// Another value takes its place. What most values are owns nothing, and to see that here
    /// spares the call that would find it out.
    #[inline]
    pub fn set(&mut self, value: Value) {
        if self.is_plain() {
            std::mem::forget(std::mem::replace(self, value));
        } else {
            *self = value;
        }
    }

    /// Whether it is known at a glance to own no memory beside itself.
    #[inline]
    fn is_plain(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_heap_allocated(),
            Value::Jsonb(json) => !json.is_heap_allocated(),
            Value::Numeric(_) | Value::Bytes(_) | Value::Array(_) => false,
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Uuid(_)
            | Value::Date(_)
            | Value::Timestamp(_)
            | Value::Timestamptz(_)
            | Value::Interval(_)
            | Value::Time(_)
            | Value::Timetz(_) => true,
        }
    }

    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// What budgets count for this value: a flat amount, and the bytes that it has beside it. The
    /// same on every machine, so not what a compiler makes of it.
    #[inline]
    pub fn weight(&self) -> usize {
        VALUE_WEIGHT + self.weight_beside()
    }

    /// Of its weight, what it has beside the flat amount.
    #[inline]
    pub fn weight_beside(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Jsonb(json) => json.as_str().len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Numeric(d) => d.heap_bytes(),
            Value::Array(elements) => weight_of_all(elements),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Uuid(_)
            | Value::Date(_)
            | Value::Timestamp(_)
            | Value::Timestamptz(_)
            | Value::Interval(_)
            | Value::Time(_)
            | Value::Timetz(_) => 0,
        }
    }

    /// Whether it has so many bytes beside it; of an array, whether it could.
    pub fn is_longer_than(&self, bytes: usize) -> bool {
        match self {
            Value::Text(text) => text.len() > bytes,
            Value::Jsonb(json) => json.as_str().len() > bytes,
            Value::Bytes(value) => value.len() > bytes,
            Value::Numeric(d) => d.heap_bytes() > bytes,
            Value::Array(elements) => {
                elements.len() > bytes / VALUE_WEIGHT
                    || elements.iter().any(|element| element.is_longer_than(bytes))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Uuid(_)
            | Value::Date(_)
            | Value::Timestamp(_)
            | Value::Timestamptz(_)
            | Value::Interval(_)
            | Value::Time(_)
            | Value::Timetz(_) => false,
        }
    }

    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    pub fn as_numeric(&self) -> Option<&Numeric> {
        match self {
            Value::Numeric(d) => Some(d),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The widest type that has this value: what a value tells of its type when nothing else does.
    pub fn data_type_hint(&self) -> DataType {
        match self {
            Value::Null => DataType::Unknown,
            Value::Bool(_) => DataType::Bool,
            Value::Int(_) => DataType::Int8,
            Value::Float(_) => DataType::Float8,
            Value::Numeric(_) => DataType::Numeric(None),
            Value::Text(_) => DataType::Text,
            Value::Bytes(_) => DataType::Bytea,
            Value::Uuid(_) => DataType::Uuid,
            Value::Date(_) => DataType::Date,
            Value::Timestamp(_) => DataType::Timestamp(None),
            Value::Timestamptz(_) => DataType::Timestamptz(None),
            Value::Jsonb(_) => DataType::Jsonb,
            Value::Interval(_) => DataType::INTERVAL,
            Value::Time(_) => DataType::Time(None),
            Value::Timetz(_) => DataType::Timetz(None),
            Value::Array(elements) => {
                let element = elements
                    .iter()
                    .find(|e| !e.is_null())
                    .map_or(DataType::Text, Value::data_type_hint);
                DataType::Array(Box::new(element))
            }
        }
    }

    /// `IS NOT DISTINCT FROM` within one type; values of different types are not the same.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => float_cmp(*a, *b) == Ordering::Equal,
            (Value::Numeric(a), Value::Numeric(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Uuid(a), Value::Uuid(b)) => a == b,
            (Value::Date(a), Value::Date(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Timestamptz(a), Value::Timestamptz(b)) => a == b,
            (Value::Jsonb(a), Value::Jsonb(b)) => a == b,
            (Value::Interval(a), Value::Interval(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::Timetz(a), Value::Timetz(b)) => a == b,
            (Value::Array(a), Value::Array(b)) => a == b,
            _ => false,
        }
    }
}

impl Value {
    /// Whether it is another to the last bit: SQL has -0.0 and 0.0, 1.0 and 1.00, a month and 30
    /// days for the same, row images and what is computed from them do not.
    pub fn is_identical(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Numeric(a), Value::Numeric(b)) => a.is_identical(b),
            (Value::Jsonb(a), Value::Jsonb(b)) => a.as_str() == b.as_str(),
            (Value::Interval(a), Value::Interval(b)) => a.is_same(b),
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is_identical(b))
            }
            _ => self == other,
        }
    }
}

/// Arrays are mostly of numbers, which a look at each tells.
fn weight_of_all(values: &[Value]) -> usize {
    let beside = |value: &Value| match value {
        Value::Int(_) | Value::Null => 0,
        other => other.weight_beside(),
    };
    VALUE_WEIGHT * values.len() + values.iter().map(beside).sum::<usize>()
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.same(other)
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::Null => {}
            Value::Bool(b) => b.hash(state),
            Value::Int(i) => i.hash(state),
            Value::Float(x) => canonical_float(*x).to_bits().hash(state),
            Value::Numeric(d) => d.hash(state),
            Value::Text(s) => s.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::Uuid(uuid) => uuid.hash(state),
            Value::Date(days) => days.hash(state),
            Value::Jsonb(json) => json.hash(state),
            Value::Timestamp(us) | Value::Timestamptz(us) | Value::Time(us) => us.hash(state),
            Value::Interval(interval) => interval.hash(state),
            Value::Timetz(time) => time.hash(state),
            Value::Array(elements) => elements.hash(state),
        }
    }
}

/// The text form, `NULL` for a null: for messages such as `Key (id)=(7) already exists.`
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Text(s) => f.write_str(s),
            Value::Jsonb(json) => f.write_str(json.as_str()),
            other => f.write_str(&other.to_text(&other.data_type_hint())),
        }
    }
}

/// PostgreSQL's order of floats: -0 equals 0, NaN equals NaN and is above everything.
pub(crate) fn float_cmp(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// One bit pattern per equal float: one NaN, whose sign and payload processors choose differently,
/// and one zero.
pub(crate) fn canonical_float(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { canonical_nan(x) }
}

/// Like [`canonical_float`], but keeps the sign of zero, which PostgreSQL prints.
pub(crate) fn canonical_nan(x: f64) -> f64 {
    if x.is_nan() { f64::NAN } else { x }
}

macro_rules! from {
    ($($source:ty => $make:expr;)*) => {
        $(impl From<$source> for Value {
            fn from(source: $source) -> Value {
                let make: fn($source) -> Value = $make;
                make(source)
            }
        })*
    };
}

from! {
    bool => Value::Bool;
    i16 => |i| Value::Int(i64::from(i));
    i32 => |i| Value::Int(i64::from(i));
    i64 => Value::Int;
    u32 => |i| Value::Int(i64::from(i));
    f64 => Value::Float;
    Numeric => Value::Numeric;
    &str => |s| Value::Text(CompactString::new(s));
    String => |s| Value::Text(CompactString::from(s));
    CompactString => Value::Text;
    &[u8] => |bytes| Value::Bytes(Arc::from(bytes));
    Vec<u8> => |bytes| Value::Bytes(Arc::from(bytes));
    Interval => Value::Interval;
    ZonedTime => Value::Timetz;
    [u8; 16] => Value::Uuid;
    Jsonb => Value::Jsonb;
    Vec<Value> => |elements| Value::Array(Arc::from(elements));
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(source: Option<T>) -> Value {
        source.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;
    use crate::numeric;

    #[test]
    fn equal_values_hash_alike() {
        let hash = |v: &Value| BuildHasherDefault::<DefaultHasher>::default().hash_one(v);
        let negative_nan = f64::from_bits(0xfff8_0000_0000_0001);
        for (a, b) in [
            (Value::Float(0.0), Value::Float(-0.0)),
            (Value::Float(f64::NAN), Value::Float(negative_nan)),
            (Value::Numeric(Numeric::from_units(10, 1)), Value::Numeric(Numeric::ONE)),
            (Value::Numeric(Numeric::from_units(0, 5)), Value::Numeric(Numeric::ZERO)),
            (Value::Numeric(Numeric::NAN), Value::Numeric(numeric::neg(&Numeric::NAN))),
            (Value::Null, Value::from(None::<i64>)),
            (Interval::new(1, 0, 0).into(), Interval::new(0, 30, 0).into()),
        ] {
            assert_eq!(a, b);
            assert_eq!(hash(&a), hash(&b));
        }
        assert_ne!(Value::Int(1), Value::Numeric(Numeric::ONE));
        assert_ne!(Value::Timestamp(1), Value::Timestamptz(1));
    }

    #[test]
    fn a_value_that_is_replaced_gives_up_what_it_owns() {
        let bytes: Arc<[u8]> = Arc::from([1, 2, 3]);
        let elements: Arc<[Value]> = Arc::from([Value::Int(1)]);
        let long = "of more bytes than a value has room for";
        let one_of_each = || {
            [
                Value::Null,
                Value::Bool(true),
                Value::Int(-1),
                Value::text("short"),
                Value::text(long),
                Value::Numeric(Numeric::ONE),
                Value::Uuid([255; 16]),
                Value::Bytes(Arc::clone(&bytes)),
                Value::Array(Arc::clone(&elements)),
            ]
        };
        for mut value in one_of_each() {
            for other in one_of_each() {
                value.set(other.clone());
                assert_eq!(value, other);
            }
        }
        assert_eq!((Arc::strong_count(&bytes), Arc::strong_count(&elements)), (1, 1));
    }
}
