//! Keys: rows' addresses as bytes whose order is the order of the values.
//!
//! Storage, ranges and the ledger compare keys with `memcmp` alone, so each column is encoded such
//! that bytes order as SQL orders values, NULLs last, and no encoding is a prefix of another of
//! the same type. A key is its columns' encodings one after the other.
//!
//! ```text
//! nullable column   0x01 before a value, 0x02 alone for NULL; NOT NULL columns have no such byte
//! int2, int4, int8  8 bytes big endian, sign bit flipped: a bigint key is always 8 bytes
//! bool              0x00, 0x01
//! float8            8 bytes: sign bit flipped if positive, all bits if negative; -0 as 0, one NaN
//! numeric           see below; equal values (1.0, 1.00) have equal keys
//! text, bytea       bytes with 0x00 as 00 FF, then 00 00; so a prefix is below what it starts
//! uuid              16 bytes
//! enum              its position, as an integer
//! array             each element as in a nullable column, then 00
//! date, timestamp   as integers: days, or microseconds; time: microseconds
//! interval          16 bytes big endian, sign bit flipped: microseconds, of months of 30 days of
//!                   24 hours; equal values (1 mon, 30 days) have equal keys
//! timetz            8 bytes: microseconds of the day in UTC; 4 bytes: seconds west of Greenwich;
//!                   both big endian, sign bit flipped
//! jsonb             see [`json::order`](crate::json::order)
//! ```
//!
//! **Numeric.** Write the absolute value as `0.d₁d₂…dₙ × 10^e` with neither d₁ nor dₙ zero. Then
//!
//! ```text
//! [ e' | d₁d₂ + 1 | d₃d₄ + 1 | … | 0x00 ]                positive; an odd last digit gets a 0
//! [ 0x80 ]                                               zero
//! [ 0x00 ], [ 0xFF 0x00 ], [ 0xFF 0x01 ]                 -Infinity, Infinity, NaN
//! the complement of every byte of the absolute value's   negative
//!
//! e' is one byte, 0x80 + (e + 31), for e in -29 … 94
//!       0x81 | e + 16,384: 3 bytes, big endian           below
//!       0xFE | e: 3 bytes, big endian                    above
//! ```
//!
//! A larger exponent is a larger number, whatever the digits. With equal exponents the digits
//! decide from the left, and where one number ends, its 0x00 is below every pair of digits (1 …
//! 100). Complementing reverses the order for negatives. Amounts of money take 4 to 8 bytes.
//!
//! Cost: no allocation up to 32 bytes, then one.

use smallvec::SmallVec;

use crate::cast;
use crate::clock::{ZonedTime, check_time};
use crate::datatype::DataType;
use crate::datetime::{check_date, check_timestamp};
use crate::error::{Error, Result, SqlState};
use crate::interval::Interval;
use crate::json::{Jsonb, order};
use crate::key_parts::{corrupt, push_numeric, push_text, take, take_numeric, take_text};
use crate::schema::TableSchema;
use crate::value::{Value, canonical_float};

/// A primary or secondary key in its order-preserving encoding. Up to 32 bytes stay inline.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key(pub SmallVec<[u8; 32]>);

/// The derived one would go byte by byte. The most usual key is copied without a call.
impl Clone for Key {
    #[inline]
    fn clone(&self) -> Key {
        match <&[u8; 8]>::try_from(&self.0[..]) {
            Ok(integer) => Key(SmallVec::from_slice(integer)),
            Err(_) => Key(SmallVec::from_slice(&self.0)),
        }
    }
}

impl Key {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What it takes beside itself.
    pub fn heap_bytes(&self) -> usize {
        if self.0.spilled() { self.0.len() } else { 0 }
    }

    /// The key of one NOT NULL integer column: the fast way to the most usual key.
    pub fn from_int(number: i64) -> Key {
        Key(SmallVec::from_slice(&encode_int_key(number)))
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Key(SmallVec::from_slice(bytes))
    }
}

const VALUE_PREFIX: u8 = 0x01;
/// Below the prefixes of elements: what an array begins with is below it.
const ARRAY_END: u8 = 0x00;
const NULL_PREFIX: u8 = 0x02;
const SIGN_BIT: u64 = 1 << 63;
const INTERVAL_SIGN_BIT: u128 = 1 << 127;

/// The eight bytes of an integer column.
pub fn encode_int_key(number: i64) -> [u8; 8] {
    (number as u64 ^ SIGN_BIT).to_be_bytes()
}

/// Appends the encoding of columns to a key. Each column is its type, whether it is nullable, and
/// its value, already of that type.
pub fn encode_key<'a>(
    columns: impl IntoIterator<Item = (&'a DataType, bool, &'a Value)>,
    out: &mut Key,
) -> Result<()> {
    for (data_type, nullable, value) in columns {
        encode_column(data_type, nullable, value, out)?;
    }
    Ok(())
}

/// The primary key of a whole row of the table, whose values are already of its columns' types.
pub fn primary_key(schema: &TableSchema, row: &[Value]) -> Result<Key> {
    let columns = schema.primary_key.iter().map(|&id| {
        let column = &schema.columns[usize::from(id)];
        (&column.data_type, column.nullable, &row[usize::from(id)])
    });
    let mut key = Key::default();
    encode_key(columns, &mut key)?;
    Ok(key)
}

/// Appends the encoding of one column to a key.
///
/// # Errors
/// XX000: the value is none of the type.
pub fn encode_column(
    data_type: &DataType,
    nullable: bool,
    value: &Value,
    out: &mut Key,
) -> Result<()> {
    if nullable {
        if value.is_null() {
            out.0.push(NULL_PREFIX);
            return Ok(());
        }
        out.0.push(VALUE_PREFIX);
    }
    if let (Value::Array(elements), DataType::Array(element)) = (value, data_type) {
        elements.iter().try_for_each(|value| encode_column(element, true, value, out))?;
        out.0.push(ARRAY_END);
        return Ok(());
    }
    let out = &mut out.0;
    match (value, data_type) {
        (Value::Int(i), DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Enum(_)) => {
            out.extend_from_slice(&encode_int_key(*i));
        }
        (Value::Text(text), DataType::Text | DataType::Varchar(_) | DataType::Char(_)) => {
            push_text(text.as_bytes(), out);
        }
        (Value::Uuid(uuid), DataType::Uuid) => out.extend_from_slice(uuid),
        (Value::Numeric(d), DataType::Numeric(_)) => push_numeric(d, out),
        (Value::Date(days), DataType::Date) => {
            out.extend_from_slice(&encode_int_key(i64::from(*days)));
        }
        (Value::Timestamp(us), DataType::Timestamp(_))
        | (Value::Timestamptz(us), DataType::Timestamptz(_))
        | (Value::Time(us), DataType::Time(_)) => {
            out.extend_from_slice(&encode_int_key(*us));
        }
        (Value::Interval(interval), DataType::Interval(_)) => {
            let ordered = interval.span_us() as u128 ^ INTERVAL_SIGN_BIT;
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        (Value::Timetz(time), DataType::Timetz(_)) => out.extend_from_slice(&time.to_key()),
        (Value::Bool(b), DataType::Bool) => out.push(u8::from(*b)),
        (Value::Bytes(bytes), DataType::Bytea | DataType::Inet | DataType::Cidr) => {
            push_text(bytes, out);
        }
        (Value::Jsonb(json), DataType::Jsonb) => order::push_key(json.as_str(), out),
        (Value::Float(x), DataType::Float4 | DataType::Float8) => {
            out.extend_from_slice(&float_key(*x))
        }
        _ => {
            return Err(Error::new(
                SqlState::INTERNAL_ERROR,
                format!(
                    "a value of type {} cannot be a key of type {data_type}",
                    value.data_type_hint()
                ),
            ));
        }
    }
    Ok(())
}

/// Reads a key back. A numeric without a declared scale comes back with the shortest one,
/// and so do numbers of JSON; an interval with as many months and days as there can be.
pub fn decode_key<'a>(
    columns: impl IntoIterator<Item = (&'a DataType, bool)>,
    key: &[u8],
) -> Result<Vec<Value>> {
    let mut rest = key;
    let values = columns
        .into_iter()
        .map(|(data_type, nullable)| decode_column(data_type, nullable, &mut rest))
        .collect::<Result<Vec<Value>>>()?;
    if rest.is_empty() { Ok(values) } else { Err(corrupt()) }
}

/// Reads one column from the front of a key and moves the key after it.
pub fn decode_column(data_type: &DataType, nullable: bool, rest: &mut &[u8]) -> Result<Value> {
    if nullable {
        match take::<1>(rest)? {
            [NULL_PREFIX] => return Ok(Value::Null),
            [VALUE_PREFIX] => {}
            _ => return Err(corrupt()),
        }
    }
    Ok(match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Enum(_) => {
            Value::Int(take_int(rest)?)
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
            let bytes = take_text(rest)?;
            Value::from(std::str::from_utf8(&bytes).map_err(|_| corrupt())?)
        }
        DataType::Bytea | DataType::Inet | DataType::Cidr => Value::from(&take_text(rest)?[..]),
        DataType::Uuid => Value::Uuid(take(rest)?),
        DataType::Jsonb => Value::Jsonb(Jsonb::stored(order::take_key(rest)?)),
        DataType::Bool => Value::Bool(take::<1>(rest)? != [0]),
        DataType::Date => Value::Date(check_date(take_int(rest)?)?),
        DataType::Timestamp(_) => Value::Timestamp(check_timestamp(take_int(rest)?)?),
        DataType::Timestamptz(_) => Value::Timestamptz(check_timestamp(take_int(rest)?)?),
        DataType::Time(_) => Value::Time(check_time(take_int(rest)?)?),
        DataType::Timetz(_) => Value::Timetz(ZonedTime::of_key(take(rest)?)?),
        DataType::Interval(_) => {
            let span_us = (u128::from_be_bytes(take(rest)?) ^ INTERVAL_SIGN_BIT) as i128;
            Value::Interval(Interval::of_span_us(span_us).ok_or_else(corrupt)?)
        }
        DataType::Float4 | DataType::Float8 => Value::Float(take_float(rest)?),
        DataType::Numeric(modifier) => {
            Value::Numeric(cast::with_precision(take_numeric(rest)?, *modifier)?)
        }
        DataType::Array(element) => {
            let mut elements = Vec::new();
            while *rest.first().ok_or_else(corrupt)? != ARRAY_END {
                elements.push(decode_column(element, true, rest)?);
            }
            *rest = &rest[1..];
            Value::from(elements)
        }
        DataType::Json
        | DataType::Record(_)
        | DataType::Unknown
        | DataType::Void
        | DataType::System(_) => {
            return Err(Error::unsupported(format_args!("a key of type {data_type}")));
        }
    })
}

/// The first key above all keys that start with `prefix`; `None` if there is none.
pub fn upper_bound_of_prefix(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut bound = Key::from(&prefix[..=last]);
    bound.0[last] += 1;
    Some(bound)
}

fn take_int(rest: &mut &[u8]) -> Result<i64> {
    Ok((u64::from_be_bytes(take(rest)?) ^ SIGN_BIT) as i64)
}

fn float_key(x: f64) -> [u8; 8] {
    let bits = canonical_float(x).to_bits();
    let ordered = if bits & SIGN_BIT == 0 { bits ^ SIGN_BIT } else { !bits };
    ordered.to_be_bytes()
}

fn take_float(rest: &mut &[u8]) -> Result<f64> {
    let ordered = u64::from_be_bytes(take(rest)?);
    Ok(f64::from_bits(if ordered & SIGN_BIT == 0 { !ordered } else { ordered ^ SIGN_BIT }))
}
