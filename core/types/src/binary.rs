//! PostgreSQL's binary form of every value: what its `…send` functions give and its `…recv`
//! functions take.
//!
//! This is also what rows are hashed as (see [`row`](crate::row)), so every value has exactly one
//! binary form: NaN is one bit pattern, and a value that is not of its type is refused rather than
//! cut to fit.
//!
//! ```text
//! int2/4/8   2, 4, 8 bytes, big endian           float8     IEEE 754, big endian
//! bool       1 byte                              float4     4 bytes
//! uuid       16 bytes
//! inet, cidr family:1 (2 or 3) bits:1 is_cidr:1 length:1, then the address
//! date       4 bytes, days since 2000-01-01      timestamp  8 bytes, microseconds since then
//! time       8 bytes, microseconds               timetz     and 4 bytes, seconds west
//! interval   microseconds:8 days:4 months:4
//! text       the UTF-8 bytes                     bytea      the bytes
//! numeric    digits:2 weight:2 sign:2 scale:2, then digits × 2, each 0…9999; the first one
//!            counts 10000^weight
//! json       its text
//! jsonb      1: 1, its text
//! enum       the label's UTF-8 bytes; rows are hashed with its position, as an int8
//! array      dimensions:4 has_nulls:4 element_oid:4, then where not empty length:4 lower:4,
//!            then length × (size:4, or -1 for NULL; bytes)
//! record     fields:4, then each type:4 (size:4, or -1 for NULL; bytes)
//! ```

use std::net::IpAddr;

use bytes::BufMut;
use compact_str::CompactString;

use crate::arithmetic::check_made_bytes;
use crate::cast;
use crate::clock::{ZonedTime, check_time, check_zoned, with_precision};
use crate::datatype::DataType;
use crate::datetime::{check_date, check_timestamp};
use crate::error::{Error, Result, SqlState};
use crate::interval::Interval;
use crate::network;
use crate::numeric::{self, Numeric};
use crate::record;
use crate::system::SystemType;
use crate::text::{check_text, missing_blanks, write_label};
use crate::value::{VALUE_WEIGHT, Value, canonical_nan};

const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_INFINITY: u16 = 0xD000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xF000;
/// PostgreSQL sends a part of its own form beside an infinity, and reads over it.
const NUMERIC_INFINITE_SCALE: u16 = 0x20;
const NULL_LENGTH: i32 = -1;
const JSONB_VERSION: u8 = 1;

impl Value {
    /// Appends the binary form. A NULL has none and writes nothing: every protocol marks it
    /// outside.
    pub fn write_binary(&self, data_type: &DataType, out: &mut impl BufMut) -> Result<()> {
        match (self, data_type) {
            (Value::Null, _) => {}
            (Value::Int(i), DataType::Int8) => out.put_i64(*i),
            (Value::Int(i), DataType::Int4) => {
                out.put_i32(i32::try_from(*i).map_err(|_| mismatch(self, data_type))?);
            }
            (Value::Int(i), DataType::Int2) => {
                out.put_i16(i16::try_from(*i).map_err(|_| mismatch(self, data_type))?);
            }
            (Value::Text(text), DataType::Char(_)) => {
                out.put_slice(text.as_bytes());
                out.put_bytes(b' ', missing_blanks(text, data_type));
            }
            (
                Value::Text(text),
                DataType::Text | DataType::Varchar(_) | DataType::Unknown | DataType::Json,
            ) => out.put_slice(text.as_bytes()),
            (Value::Jsonb(json), DataType::Jsonb) => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(json.as_str().as_bytes());
            }
            (Value::Bool(b), DataType::Bool) => out.put_u8(u8::from(*b)),
            (Value::Float(x), DataType::Float8) => out.put_f64(canonical_nan(*x)),
            (Value::Float(x), DataType::Float4) => out.put_f32(canonical_nan(*x) as f32),
            (Value::Numeric(d), DataType::Numeric(_)) => write_numeric(d, out),
            (Value::Bytes(bytes), DataType::Bytea) => out.put_slice(bytes),
            (Value::Bytes(bytes), DataType::Inet | DataType::Cidr) => {
                if !network::write_binary(bytes, data_type, out) {
                    return Err(mismatch(self, data_type));
                }
            }
            (Value::Uuid(uuid), DataType::Uuid) => out.put_slice(uuid),
            (Value::Date(days), DataType::Date) => out.put_i32(*days),
            (Value::Timestamp(us), DataType::Timestamp(_))
            | (Value::Timestamptz(us), DataType::Timestamptz(_))
            | (Value::Time(us), DataType::Time(_)) => out.put_i64(*us),
            (Value::Timetz(time), DataType::Timetz(_)) => {
                out.put_i64(time.us);
                out.put_i32(time.west_s);
            }
            (Value::Interval(interval), DataType::Interval(_)) => {
                out.put_slice(&interval.to_bytes());
            }
            (Value::Int(i), DataType::Enum(of)) => write_label(of, *i, out),
            (Value::Array(elements), DataType::Array(element)) => {
                write_array(elements, element, 1, out)?;
            }
            (Value::Array(values), DataType::Record(fields)) => {
                record::write_binary(values, fields, out)?;
            }
            (value, DataType::System(system)) => write_system(value, *system, out)?,
            (other, DataType::Unknown) => other.write_text(&other.data_type_hint(), out),
            _ => return Err(mismatch(self, data_type)),
        }
        Ok(())
    }

    /// Reads the binary form; modifiers apply as on assignment.
    pub fn read_binary(data_type: &DataType, bytes: &[u8]) -> Result<Value> {
        let value = match data_type {
            DataType::Bool => Value::Bool(fixed::<1>(bytes, data_type)?[0] != 0),
            DataType::Int2 => Value::from(i16::from_be_bytes(fixed(bytes, data_type)?)),
            DataType::Int4 => Value::from(i32::from_be_bytes(fixed(bytes, data_type)?)),
            DataType::Int8 => Value::from(i64::from_be_bytes(fixed(bytes, data_type)?)),
            DataType::Float4 => {
                let x = f32::from_be_bytes(fixed(bytes, data_type)?);
                Value::Float(canonical_nan(x.into()))
            }
            DataType::Float8 => {
                Value::Float(canonical_nan(f64::from_be_bytes(fixed(bytes, data_type)?)))
            }
            DataType::Numeric(modifier) => {
                Value::Numeric(cast::with_precision(read_numeric(bytes)?, *modifier)?)
            }
            DataType::Text | DataType::Unknown => Value::from(read_str(bytes)?),
            DataType::Varchar(_) | DataType::Char(_) => {
                let text = CompactString::new(read_str(bytes)?);
                Value::Text(cast::fit_text(text, data_type, false)?)
            }
            DataType::Bytea => Value::from(bytes),
            DataType::Uuid => Value::Uuid(fixed(bytes, data_type)?),
            DataType::Inet | DataType::Cidr => network::read_binary(data_type, bytes)?,
            DataType::Date => {
                let days = i32::from_be_bytes(fixed(bytes, data_type)?);
                Value::Date(check_date(i64::from(days))?)
            }
            DataType::Timestamp(digits) => {
                Value::Timestamp(read_timestamp(bytes, data_type, *digits)?)
            }
            DataType::Timestamptz(digits) => {
                Value::Timestamptz(read_timestamp(bytes, data_type, *digits)?)
            }
            DataType::Json => Value::read_text(data_type, read_str(bytes)?)?,
            DataType::Jsonb => match bytes.split_first() {
                Some((&JSONB_VERSION, text)) => Value::read_text(data_type, read_str(text)?)?,
                Some((version, _)) => {
                    let message = format!("unsupported jsonb version number {version}");
                    return Err(Error::new(SqlState::INTERNAL_ERROR, message));
                }
                None => return Err(malformed(data_type)),
            },
            DataType::Interval(fields) => {
                Value::Interval(Interval::from_bytes(fixed(bytes, data_type)?).within(*fields))
            }
            DataType::Time(precision) => {
                let us = check_time(i64::from_be_bytes(fixed(bytes, data_type)?))?;
                Value::Time(with_precision(us, *precision))
            }
            DataType::Timetz(precision) => {
                let bytes: [u8; 12] = fixed(bytes, data_type)?;
                let number = bytes.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
                let time = check_zoned((number >> 32) as i64, number as i32)?;
                let us = with_precision(time.us, *precision);
                Value::Timetz(ZonedTime { us, ..time })
            }
            DataType::Array(element) => Value::from(read_array(element, bytes)?),
            DataType::Record(_) => return Err(record::not_read()),
            DataType::Enum(of) => Value::Int(of.read(read_str(bytes)?)?),
            DataType::Void => Value::Null,
            DataType::System(system) => read_system(*system, bytes, data_type)?,
        };
        Ok(value)
    }
}

/// Numbers of objects are four bytes without a sign, `"char"` is one byte.
fn write_system(value: &Value, system: SystemType, out: &mut impl BufMut) -> Result<()> {
    match (value, system) {
        (Value::Int(number), _) => match u32::try_from(*number) {
            Ok(number) => out.put_u32(number),
            Err(_) => return Err(mismatch(value, &DataType::System(system))),
        },
        (Value::Text(text), SystemType::Inet) => write_address(text, out)?,
        (Value::Text(text), _) => out.put_slice(text.as_bytes()),
        // With its name, which is for readers.
        (Value::Array(named), object) if object.is_object() => match named.first() {
            Some(number @ Value::Int(_)) => write_system(number, object, out)?,
            _ => return Err(mismatch(value, &DataType::System(system))),
        },
        (Value::Array(numbers), SystemType::Int2Vector) => {
            write_array(numbers, &DataType::Int2, 0, out)?;
        }
        (Value::Array(numbers), SystemType::OidVector) => {
            write_array(numbers, &DataType::System(SystemType::Oid), 0, out)?;
        }
        (value, _) => value.write_binary(&system.storage(), out)?,
    }
    Ok(())
}

/// Family, bits of the network, not a `cidr`, length, address.
fn write_address(text: &str, out: &mut impl BufMut) -> Result<()> {
    const VERSION_4: u8 = 2;
    const VERSION_6: u8 = 3;
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let invalid = || crate::text::invalid_syntax(&DataType::System(SystemType::Inet), text);
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let (family, bytes) = match address {
        IpAddr::V4(address) => (VERSION_4, address.octets().to_vec()),
        IpAddr::V6(address) => (VERSION_6, address.octets().to_vec()),
    };
    let bits_max = 8 * bytes.len() as u8;
    let bits = bits.map_or(Ok(bits_max), |bits| bits.parse().map_err(|_| invalid()))?;
    if bits > bits_max {
        return Err(invalid());
    }
    out.put_slice(&[family, bits, 0, bytes.len() as u8]);
    out.put_slice(&bytes);
    Ok(())
}

fn read_system(system: SystemType, bytes: &[u8], data_type: &DataType) -> Result<Value> {
    match system.storage() {
        DataType::Int8 => Ok(Value::Int(u32::from_be_bytes(fixed(bytes, data_type)?).into())),
        storage => Value::read_binary(&storage, bytes),
    }
}

/// A value in a column of another type is a bug of the planner, not of the client.
fn mismatch(value: &Value, data_type: &DataType) -> Error {
    Error::new(
        SqlState::INTERNAL_ERROR,
        format!("a value of type {} is not one of type {data_type}", value.data_type_hint()),
    )
}

fn malformed(data_type: &DataType) -> Error {
    Error::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format for type {data_type}"),
    )
}

fn fixed<const N: usize>(bytes: &[u8], data_type: &DataType) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed(data_type))
}

fn read_timestamp(bytes: &[u8], data_type: &DataType, digits: Option<u8>) -> Result<i64> {
    let us = check_timestamp(i64::from_be_bytes(fixed(bytes, data_type)?))?;
    check_timestamp(with_precision(us, digits))
}

fn read_str(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\"",
        )
    })?;
    check_text(text)?;
    Ok(text)
}

fn write_numeric(d: &Numeric, out: &mut impl BufMut) {
    if !d.is_finite() {
        let (sign, scale) = match d.is_negative() {
            _ if d.is_nan() => (NUMERIC_NAN, 0),
            false => (NUMERIC_INFINITY, NUMERIC_INFINITE_SCALE),
            true => (NUMERIC_NEGATIVE_INFINITY, NUMERIC_INFINITE_SCALE),
        };
        return [0, 0, sign, scale].into_iter().for_each(|field| out.put_u16(field));
    }
    d.with_groups(|groups, behind| {
        let zeros_behind = groups.iter().take_while(|g| **g == 0).count();
        // 131,072 digits before the point are 32,768 groups, of weight 32,767.
        let weight = if groups.is_empty() { 0 } else { groups.len() as i32 - behind as i32 - 1 };
        out.put_u16((groups.len() - zeros_behind) as u16);
        out.put_i16(weight as i16);
        out.put_u16(if d.is_negative() { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE });
        out.put_u16(d.scale() as u16);
        groups[zeros_behind..].iter().rev().for_each(|group| out.put_u16(*group));
    });
}

fn read_numeric(bytes: &[u8]) -> Result<Numeric> {
    let invalid = || malformed(&DataType::Numeric(None));
    let (header, groups) = bytes.split_first_chunk::<8>().ok_or_else(invalid)?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (count, weight, sign, scale) = (field(0), field(2) as i16, field(4), field(6));
    let (negative, special) = match sign {
        NUMERIC_POSITIVE => (false, None),
        NUMERIC_NEGATIVE => (true, None),
        NUMERIC_NAN => (false, Some(Numeric::NAN)),
        NUMERIC_INFINITY => (false, Some(Numeric::INFINITY)),
        NUMERIC_NEGATIVE_INFINITY => (true, Some(Numeric::NEG_INFINITY)),
        _ => return Err(invalid()),
    };
    if groups.len() != usize::from(count) * 2 {
        return Err(invalid());
    }
    let groups = || groups.chunks_exact(2).map(|group| u16::from_be_bytes([group[0], group[1]]));
    if groups().any(|group| group > 9999) {
        return Err(invalid());
    }
    if let Some(special) = special {
        return Ok(special);
    }
    let digits =
        groups().flat_map(|group| [1000, 100, 10, 1].map(|unit| (group / unit % 10) as u8));
    let point = (i64::from(weight) + 1) * 4;
    let invalid_scale = || {
        let message = "invalid scale in external \"numeric\" value";
        Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    // PostgreSQL cuts digits off that the scale does not show; here nothing is lost.
    let shown = usize::try_from(point + i64::from(scale)).unwrap_or(0);
    if u32::from(scale) > numeric::SCALE_MAX || digits.clone().skip(shown).any(|digit| digit > 0) {
        return Err(invalid_scale());
    }
    let exact = match shown {
        0 => Numeric::ZERO,
        _ => numeric::from_digits(negative, digits.take(shown), point)?,
    };
    // The scale may ask for zeros after the last group.
    numeric::trunc(&exact, i32::from(scale))
}

fn write_array(
    elements: &[Value],
    element_type: &DataType,
    first: i32,
    out: &mut impl BufMut,
) -> Result<()> {
    let oid = element_type.oid();
    let dimensions = i32::from(!elements.is_empty());
    let has_nulls = i32::from(elements.iter().any(Value::is_null));
    out.put_i32(dimensions);
    out.put_i32(has_nulls);
    out.put_u32(oid);
    if elements.is_empty() {
        return Ok(());
    }
    let too_long = |_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "array is too long");
    out.put_i32(i32::try_from(elements.len()).map_err(too_long)?);
    out.put_i32(first);
    let mut scratch = Vec::new();
    for element in elements {
        if element.is_null() {
            out.put_i32(NULL_LENGTH);
            continue;
        }
        scratch.clear();
        element.write_binary(element_type, &mut scratch)?;
        out.put_i32(i32::try_from(scratch.len()).map_err(too_long)?);
        out.put_slice(&scratch);
    }
    Ok(())
}

fn read_array(element_type: &DataType, bytes: &[u8]) -> Result<Vec<Value>> {
    let mut reader = ArrayReader(bytes);
    let dimensions = reader.int()?;
    let _has_nulls = reader.int()?;
    let oid = reader.int()? as u32;
    if oid != element_type.oid() {
        return Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!("array elements have type number {oid}, expected {element_type}"),
        ));
    }
    let count = match dimensions {
        0 => 0,
        1 => {
            let length = reader.int()?;
            let _lower_bound = reader.int()?;
            usize::try_from(length).map_err(|_| reader.invalid())?
        }
        _ => return Err(Error::unsupported("a multidimensional array")),
    };
    // Each element takes at least its length's four bytes: a false count cannot reserve memory.
    if count > reader.0.len() / 4 {
        return Err(reader.invalid());
    }
    check_made_bytes(count * VALUE_WEIGHT)?;
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(match reader.int()? {
            NULL_LENGTH => Value::Null,
            length => Value::read_binary(element_type, reader.take(length)?)?,
        });
    }
    if !reader.0.is_empty() {
        return Err(reader.invalid());
    }
    Ok(elements)
}

struct ArrayReader<'a>(&'a [u8]);

impl<'a> ArrayReader<'a> {
    fn int(&mut self) -> Result<i32> {
        let (head, rest) = self.0.split_first_chunk().ok_or_else(|| self.invalid())?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*head))
    }

    fn take(&mut self, length: i32) -> Result<&'a [u8]> {
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (head, rest) = split.ok_or_else(|| self.invalid())?;
        self.0 = rest;
        Ok(head)
    }

    fn invalid(&self) -> Error {
        Error::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            "incorrect binary data format for an array",
        )
    }
}
