//! The ledger's own encoding of values that stand alone, such as a transaction's arguments:
//! self-describing, compact, and canonical, since its bytes are hashed.
//!
//! ```text
//! [ tag: 1 | body ]
//!  0 NULL         —                         7 bytes        length: varint, bytes
//!  1 false        —                         8 uuid         16 bytes
//!  2 true         —                         9 date         days: zigzag varint
//!  3 integer      zigzag varint            10 timestamp    microseconds: zigzag varint
//!  4 float        8 bytes, big endian      11 timestamptz  microseconds: zigzag varint
//!  5 numeric      twice the scale, plus 1  12 array        count: varint, values
//!                 for a negative: varint,
//!                 digits: varint; 32,768,
//!                 32,769 and 32,770 alone:
//!                 Infinity, -Infinity, NaN
//!  6 text         length: varint, UTF-8     13 jsonb        length: varint, UTF-8 in the one
//!                                                           form of `json`
//! 14 interval     months, days, micro-
//!                 seconds: zigzag varints
//! 15 time         microseconds: varint      16 timetz       microseconds: varint,
//!                                                           seconds west: zigzag varint
//! ```
//!
//! A varint is LEB128: seven bits a byte, the lowest first, the high bit set on all but the last.
//! A numeric's digits, as an integer, have as many bytes as it takes; other varints hold 64 bits.
//! Decoding refuses everything that encoding would not write (overlong varints, a negative zero,
//! two NaNs, JSON of another form), so equal bytes and equal values are the same thing but for the
//! scales of numerics. Hostile input cannot reserve more memory than a small multiple of its own
//! length, nor recurse deeper than [`DEPTH_MAX`].

use bytes::BufMut;

use crate::clock::{check_time, check_zoned};
use crate::datetime::{check_date, check_timestamp};
use crate::error::{Error, Result, SqlState};
use crate::interval::Interval;
use crate::json::Jsonb;
use crate::numeric::{Numeric, SCALE_MAX, from_sevens};
use crate::value::{Value, canonical_nan};

/// Arrays within arrays; SQL's have one dimension.
pub const DEPTH_MAX: u32 = 8;

mod tag {
    pub const NULL: u8 = 0;
    pub const FALSE: u8 = 1;
    pub const TRUE: u8 = 2;
    pub const INT: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const NUMERIC: u8 = 5;
    pub const TEXT: u8 = 6;
    pub const BYTES: u8 = 7;
    pub const UUID: u8 = 8;
    pub const DATE: u8 = 9;
    pub const TIMESTAMP: u8 = 10;
    pub const TIMESTAMPTZ: u8 = 11;
    pub const ARRAY: u8 = 12;
    pub const JSONB: u8 = 13;
    pub const INTERVAL: u8 = 14;
    pub const TIME: u8 = 15;
    pub const TIMETZ: u8 = 16;
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid encoded value: {what}"))
}

pub fn encode_u64(number: u64, out: &mut impl BufMut) {
    encode_u128(u128::from(number), out);
}

fn encode_u128(mut number: u128, out: &mut impl BufMut) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

pub fn decode_u64(input: &mut &[u8]) -> Result<u64> {
    u64::try_from(decode_u128(input)?).map_err(|_| corrupt("a number beyond 64 bits"))
}

fn decode_u128(input: &mut &[u8]) -> Result<u128> {
    const BITS: u32 = u128::BITS;
    let mut number = 0;
    let mut shift = 0;
    loop {
        let [byte] = take(input)?;
        let bits = u128::from(byte & 0x7f);
        if shift >= BITS || (bits << shift) >> shift != bits {
            return Err(corrupt("a number is too long"));
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            // A last byte of 0 adds nothing: the same number has a shorter form.
            return if byte == 0 && shift > 0 {
                Err(corrupt("an overlong number"))
            } else {
                Ok(number)
            };
        }
        shift += 7;
    }
}

/// Zigzag: small numbers of either sign are short.
pub fn encode_i64(number: i64, out: &mut impl BufMut) {
    encode_u64(((number << 1) ^ (number >> 63)) as u64, out);
}

pub fn decode_i64(input: &mut &[u8]) -> Result<i64> {
    let zigzag = decode_u64(input)?;
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

pub fn encode_bytes(bytes: &[u8], out: &mut impl BufMut) {
    encode_u64(bytes.len() as u64, out);
    out.put_slice(bytes);
}

pub fn decode_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = decode_u64(input)?;
    let split = usize::try_from(length).ok().and_then(|length| input.split_at_checked(length));
    let (head, rest) = split.ok_or_else(cut_short)?;
    *input = rest;
    Ok(head)
}

pub fn encode_str(text: &str, out: &mut impl BufMut) {
    encode_bytes(text.as_bytes(), out);
}

pub fn decode_str<'a>(input: &mut &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(decode_bytes(input)?).map_err(|_| corrupt("text that is not UTF-8"))
}

fn cut_short() -> Error {
    corrupt("cut short")
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    let (head, rest) = input.split_first_chunk().ok_or_else(cut_short)?;
    *input = rest;
    Ok(*head)
}

pub fn encode_value(value: &Value, out: &mut impl BufMut) {
    match value {
        Value::Null => out.put_u8(tag::NULL),
        Value::Bool(false) => out.put_u8(tag::FALSE),
        Value::Bool(true) => out.put_u8(tag::TRUE),
        Value::Int(i) => {
            out.put_u8(tag::INT);
            encode_i64(*i, out);
        }
        Value::Float(x) => {
            out.put_u8(tag::FLOAT);
            out.put_f64(canonical_nan(*x));
        }
        Value::Numeric(d) => {
            out.put_u8(tag::NUMERIC);
            encode_numeric(d, out);
        }
        Value::Text(text) => {
            out.put_u8(tag::TEXT);
            encode_str(text, out);
        }
        Value::Bytes(bytes) => {
            out.put_u8(tag::BYTES);
            encode_bytes(bytes, out);
        }
        Value::Uuid(uuid) => {
            out.put_u8(tag::UUID);
            out.put_slice(uuid);
        }
        Value::Date(days) => {
            out.put_u8(tag::DATE);
            encode_i64(i64::from(*days), out);
        }
        Value::Timestamp(us) => {
            out.put_u8(tag::TIMESTAMP);
            encode_i64(*us, out);
        }
        Value::Timestamptz(us) => {
            out.put_u8(tag::TIMESTAMPTZ);
            encode_i64(*us, out);
        }
        Value::Jsonb(json) => {
            out.put_u8(tag::JSONB);
            encode_str(json.as_str(), out);
        }
        Value::Interval(interval) => {
            out.put_u8(tag::INTERVAL);
            encode_i64(interval.months.into(), out);
            encode_i64(interval.days.into(), out);
            encode_i64(interval.us, out);
        }
        Value::Time(us) => {
            out.put_u8(tag::TIME);
            encode_u64(*us as u64, out);
        }
        Value::Timetz(time) => {
            out.put_u8(tag::TIMETZ);
            encode_u64(time.us as u64, out);
            encode_i64(time.west_s.into(), out);
        }
        Value::Array(elements) => {
            out.put_u8(tag::ARRAY);
            encode_u64(elements.len() as u64, out);
            for element in elements.iter() {
                encode_value(element, out);
            }
        }
    }
}

fn encode_numeric(d: &Numeric, out: &mut impl BufMut) {
    if let Some(code) = d.special_code() {
        return encode_u64(NUMERIC_SPECIAL + u64::from(code), out);
    }
    encode_u64(u64::from(d.scale()) << 1 | u64::from(d.is_negative()), out);
    match d.small_magnitude() {
        Some(size) => encode_u128(size, out),
        None => d.with_sevens(|last, sevens| {
            sevens.iter().for_each(|seven| out.put_u8(seven | 0x80));
            out.put_u8(last);
        }),
    }
}

/// Reads one value from the front of the input and moves the input after it.
pub fn decode_value(input: &mut &[u8]) -> Result<Value> {
    decode_nested(input, 0)
}

fn decode_nested(input: &mut &[u8], depth: u32) -> Result<Value> {
    let [tag] = take(input)?;
    Ok(match tag {
        tag::NULL => Value::Null,
        tag::FALSE => Value::Bool(false),
        tag::TRUE => Value::Bool(true),
        tag::INT => Value::Int(decode_i64(input)?),
        tag::FLOAT => {
            let bits = u64::from_be_bytes(take(input)?);
            let x = f64::from_bits(bits);
            if canonical_nan(x).to_bits() != bits {
                return Err(corrupt("a second NaN"));
            }
            Value::Float(x)
        }
        tag::NUMERIC => Value::Numeric(decode_numeric(input)?),
        tag::TEXT => Value::from(decode_str(input)?),
        tag::BYTES => Value::from(decode_bytes(input)?),
        tag::UUID => Value::Uuid(take(input)?),
        tag::DATE => Value::Date(check_date(decode_i64(input)?)?),
        tag::TIMESTAMP => Value::Timestamp(check_timestamp(decode_i64(input)?)?),
        tag::TIMESTAMPTZ => Value::Timestamptz(check_timestamp(decode_i64(input)?)?),
        tag::ARRAY => decode_array(input, depth)?,
        tag::JSONB => {
            let json = Jsonb::read_canonical(decode_str(input)?);
            Value::Jsonb(json.ok_or_else(|| corrupt("a jsonb of another form"))?)
        }
        tag::INTERVAL => Value::Interval(Interval {
            months: decode_i32(input)?,
            days: decode_i32(input)?,
            us: decode_i64(input)?,
        }),
        tag::TIME => Value::Time(decode_time(input)?),
        tag::TIMETZ => {
            let us = decode_time(input)?;
            Value::Timetz(check_zoned(us, decode_i32(input)?)?)
        }
        _ => return Err(corrupt("an unknown tag")),
    })
}

fn decode_i32(input: &mut &[u8]) -> Result<i32> {
    i32::try_from(decode_i64(input)?).map_err(|_| corrupt("a number beyond 32 bits"))
}

fn decode_time(input: &mut &[u8]) -> Result<i64> {
    check_time(i64::try_from(decode_u64(input)?).unwrap_or(-1))
}

/// Above all scales and signs.
const NUMERIC_SPECIAL: u64 = 2 * (SCALE_MAX as u64 + 1);

fn decode_numeric(input: &mut &[u8]) -> Result<Numeric> {
    let header = decode_u64(input)?;
    if let Some(code) = header.checked_sub(NUMERIC_SPECIAL) {
        let special = u8::try_from(code).ok().and_then(Numeric::from_special_code);
        return special.ok_or_else(|| corrupt("a numeric out of range"));
    }
    let (negative, scale) = (header & 1 == 1, u32::try_from(header >> 1).unwrap_or(u32::MAX));
    let end = input.iter().position(|byte| byte & 0x80 == 0).ok_or_else(cut_short)?;
    let (sevens, behind) = input.split_at(end + 1);
    // A last byte of 0 adds nothing: the same number has a shorter form.
    let is_zero = sevens == [0];
    if !is_zero && sevens[end] == 0 {
        return Err(corrupt("an overlong number"));
    }
    let d = from_sevens(negative, sevens, scale).filter(|_| !(negative && is_zero));
    *input = behind;
    d.ok_or_else(|| corrupt("a numeric out of range"))
}

fn decode_array(input: &mut &[u8], depth: u32) -> Result<Value> {
    if depth >= DEPTH_MAX {
        return Err(corrupt("arrays nested too deeply"));
    }
    let count = usize::try_from(decode_u64(input)?).map_err(|_| cut_short())?;
    // Every element takes a byte at least: a false count cannot reserve memory.
    if count > input.len() {
        return Err(cut_short());
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(decode_nested(input, depth + 1)?);
    }
    Ok(Value::from(elements))
}
