//! PostgreSQL's text form of every value, in both directions.
//!
//! What is written is byte for byte what PostgreSQL 15 writes with `DateStyle = ISO`,
//! `bytea_output = hex`, `extra_float_digits = 1`, `IntervalStyle = postgres` and time zone UTC.
//! Writing goes to any [`BufMut`], so rows are formatted straight into a connection's buffer; only
//! arrays and floats use scratch space, floats on the stack. The type matters where the same value
//! looks different in two of them: `char(n)` pads with blanks.
//!
//! Departures: arrays have one dimension and start at 1. A few doubles that lie exactly on a
//! rounding boundary (1e23) print one of two shortest forms; both read back as the same double.

use std::io::Write as _;

use bytes::BufMut;
use compact_str::CompactString;

use crate::arithmetic::check_made_bytes;
use crate::cast;
use crate::clock::{self, with_precision};
use crate::datatype::DataType;
use crate::datetime::{self, check_timestamp};
use crate::digits::write_int;
use crate::enums::EnumType;
use crate::error::{Error, Result, SqlState};
use crate::interval::{self, Style};
use crate::json::{self, Jsonb};
use crate::network;
use crate::numeric::{self, Numeric};
use crate::record;
use crate::system::SystemType;
use crate::unicode::is_space;
use crate::value::{VALUE_WEIGHT, Value};

impl Value {
    /// Appends the text form. A NULL has none and writes nothing: every protocol marks it outside.
    pub fn write_text(&self, data_type: &DataType, out: &mut impl BufMut) {
        match self {
            Value::Null => {}
            Value::Bool(true) => out.put_u8(b't'),
            Value::Bool(false) => out.put_u8(b'f'),
            Value::Int(i) => match data_type {
                DataType::Enum(of) => write_label(of, *i, out),
                _ => write_int(*i, out),
            },
            Value::Float(x) => match data_type {
                DataType::Float4 => write_real(*x as f32, out),
                _ => write_float(*x, out),
            },
            Value::Numeric(d) => numeric::write(d, out),
            Value::Text(text) => {
                out.put_slice(text.as_bytes());
                out.put_bytes(b' ', missing_blanks(text, data_type));
            }
            Value::Bytes(bytes) if data_type.is_network() => network::write(bytes, data_type, out),
            Value::Bytes(bytes) => {
                out.put_slice(b"\\x");
                write_hex(bytes, out);
            }
            Value::Uuid(uuid) => write_uuid(uuid, out),
            Value::Date(days) => datetime::write_date(*days, out),
            Value::Timestamp(us) => datetime::write_timestamp(*us, out),
            Value::Timestamptz(us) => datetime::write_timestamptz(*us, out),
            Value::Jsonb(json) => out.put_slice(json.as_str().as_bytes()),
            Value::Interval(interval) => interval::write(*interval, out),
            Value::Time(us) => clock::write_time(*us, out),
            Value::Timetz(time) => clock::write_zoned(*time, out),
            Value::Array(elements) if is_vector(data_type) => write_vector(elements, out),
            Value::Array(named) if is_object(data_type) => {
                let name = named.last().and_then(Value::as_text).unwrap_or_default();
                out.put_slice(name.as_bytes());
            }
            Value::Array(_) if matches!(data_type, DataType::Record(_)) => {
                // One that is too long is refused by what makes its text.
                let mut text = Vec::new();
                let _ = self.make_text(data_type, &mut text);
                out.put_slice(&text);
            }
            Value::Array(elements) => write_array(elements, data_type, out),
        }
    }

    /// The text form as a string of its own.
    pub fn to_text(&self, data_type: &DataType) -> String {
        let mut out = Vec::new();
        self.write_text(data_type, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// The text form of a value that may have others within it, each level of which may double the
    /// quotes of those below.
    ///
    /// # Errors
    /// 54000 for one that is too long to be made.
    pub fn made_text(&self, data_type: &DataType) -> Result<String> {
        let mut out = Vec::new();
        self.make_text(data_type, &mut out)?;
        Ok(String::from_utf8(out).unwrap_or_default())
    }

    fn make_text(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<()> {
        match (self, data_type) {
            (Value::Array(values), DataType::Record(fields)) => {
                let text = |place: usize, value: &Value, text: &mut Vec<u8>| {
                    value.make_text(record::type_at(fields, place), text)
                };
                record::write_fields(values, text, out)?;
            }
            (Value::Array(elements), _) if !is_vector(data_type) && !is_object(data_type) => {
                let mut element_text = Vec::new();
                out.push(b'{');
                for (place, element) in elements.iter().enumerate() {
                    element_text.clear();
                    element.make_text(element_of(data_type), &mut element_text)?;
                    write_element(place, element, &element_text, out);
                    check_made_bytes(out.len())?;
                }
                out.push(b'}');
            }
            (other, _) => other.write_text(data_type, out),
        }
        check_made_bytes(out.len())
    }

    /// Reads the text form as the type's input function does, modifier included.
    pub fn read_text(data_type: &DataType, text: &str) -> Result<Value> {
        match data_type {
            DataType::Bool => read_bool(text).map(Value::Bool),
            DataType::Int2 | DataType::Int4 | DataType::Int8 => {
                read_int(data_type, text).map(Value::Int)
            }
            DataType::Numeric(modifier) => {
                let d = read_numeric(text)?;
                cast::with_precision(d, *modifier).map(Value::Numeric)
            }
            DataType::Float4 => read_real(text).map(Value::Float),
            DataType::Float8 => read_float(text).map(Value::Float),
            DataType::Text | DataType::Unknown => {
                check_text(text)?;
                Ok(Value::Text(CompactString::new(text)))
            }
            DataType::Varchar(_) | DataType::Char(_) => {
                check_text(text)?;
                cast::fit_text(CompactString::new(text), data_type, false).map(Value::Text)
            }
            DataType::Bytea => read_bytea(text).map(Value::from),
            DataType::Uuid => read_uuid(text).map(Value::Uuid),
            DataType::Inet | DataType::Cidr => network::read(data_type, text),
            DataType::Date => datetime::read_date(text).map(Value::Date),
            DataType::Timestamp(digits) => {
                let us = datetime::read_timestamp(text)?;
                check_timestamp(with_precision(us, *digits)).map(Value::Timestamp)
            }
            DataType::Timestamptz(digits) => {
                let us = datetime::read_timestamptz(text)?;
                check_timestamp(with_precision(us, *digits)).map(Value::Timestamptz)
            }
            DataType::Json => {
                check_text(text)?;
                json::parse::check(text)?;
                Ok(Value::Text(CompactString::new(text)))
            }
            DataType::Jsonb => {
                check_text(text)?;
                Jsonb::read(text).map(Value::Jsonb)
            }
            DataType::Interval(fields) => {
                interval::read(text, *fields, Style::Postgres).map(Value::Interval)
            }
            DataType::Time(precision) => clock::read_time(text, *precision).map(Value::Time),
            DataType::Timetz(precision) => {
                clock::read_zoned(text, *precision, Some(0)).map(Value::Timetz)
            }
            DataType::Array(element) => read_array(element, text).map(Value::from),
            DataType::Record(_) => Err(record::not_read()),
            DataType::Enum(of) => of.read(text).map(Value::Int),
            DataType::Void => Ok(Value::Null),
            DataType::System(system) => read_system(*system, text),
        }
    }
}

/// Names of objects are the catalogs' to resolve: here they stay text.
fn read_system(system: SystemType, text: &str) -> Result<Value> {
    match system {
        SystemType::Int2Vector | SystemType::OidVector => {
            let numbers = text.split_ascii_whitespace();
            let numbers = numbers.map(|n| read_int(&DataType::Int8, n).map(Value::Int));
            Ok(Value::from(numbers.collect::<Result<Vec<_>>>()?))
        }
        system if system.is_object() && text.parse::<u32>().is_err() => Ok(Value::text(text)),
        system => Value::read_text(&system.storage(), text),
    }
}

/// What is no label, which no column holds, is shown as the number it is.
pub(crate) fn write_label(of: &EnumType, position: i64, out: &mut impl BufMut) {
    match of.label(position) {
        Some(label) => out.put_slice(label.as_bytes()),
        None => write_int(position, out),
    }
}

fn is_vector(data_type: &DataType) -> bool {
    matches!(data_type, DataType::System(SystemType::Int2Vector | SystemType::OidVector))
}

fn is_object(data_type: &DataType) -> bool {
    matches!(data_type, DataType::System(system) if system.is_object())
}

fn write_vector(elements: &[Value], out: &mut impl BufMut) {
    for (place, element) in elements.iter().enumerate() {
        out.put_bytes(b' ', usize::from(place > 0));
        element.write_text(&DataType::Int8, out);
    }
}

/// PostgreSQL's strings hold no NUL.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.as_bytes().contains(&0) {
        return Err(Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    Ok(())
}

/// How many blanks `char(n)` shows after this text.
pub(crate) fn missing_blanks(text: &str, data_type: &DataType) -> usize {
    match data_type {
        DataType::Char(n) => (*n as usize).saturating_sub(text.chars().count()),
        _ => 0,
    }
}

/// The shortest digits that read back as the same double.
fn write_float(x: f64, out: &mut impl BufMut) {
    if x.is_finite() { write_digits(format_args!("{x:e}"), 15, out) } else { write_special(x, out) }
}

/// The shortest digits that read back as the same number of 32 bits.
fn write_real(x: f32, out: &mut impl BufMut) {
    match x.is_finite() {
        true => write_digits(format_args!("{x:e}"), 6, out),
        false => write_special(x.into(), out),
    }
}

fn write_special(x: f64, out: &mut impl BufMut) {
    out.put_slice(match x {
        _ if x.is_nan() => b"NaN",
        _ if x > 0.0 => b"Infinity",
        _ => b"-Infinity",
    });
}

/// Digits laid out as PostgreSQL does: plain from 1e-4 to below the power of ten that is named,
/// otherwise with an exponent of two digits or more.
fn write_digits(scientific: std::fmt::Arguments<'_>, plain_to: i32, out: &mut impl BufMut) {
    let mut buffer = [0u8; 32];
    let mut cursor = &mut buffer[..];
    // 17 digits, a point, two signs and an exponent of three digits fit.
    let _ = cursor.write_fmt(scientific);
    let unused = cursor.len();
    let written = &buffer[..32 - unused];
    let Some(e) = written.iter().position(|b| *b == b'e') else {
        return out.put_slice(written);
    };
    let (mantissa, exponent) = (&written[..e], &written[e + 1..]);
    let mut mantissa = mantissa;
    if let [b'-', rest @ ..] = mantissa {
        out.put_u8(b'-');
        mantissa = rest;
    }
    let exponent: i32 =
        std::str::from_utf8(exponent).ok().and_then(|e| e.parse().ok()).unwrap_or(0);
    if (-4..plain_to).contains(&exponent) {
        write_plain(mantissa, exponent, out);
    } else {
        out.put_slice(mantissa);
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.put_u8(b'0');
        }
        write_int(i64::from(exponent.abs()), out);
    }
}

/// Writes `d[.ddd]` times a power of ten without an exponent.
fn write_plain(mantissa: &[u8], exponent: i32, out: &mut impl BufMut) {
    let first = mantissa[0];
    let rest = mantissa.get(2..).unwrap_or(&[]);
    if exponent < 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', (-exponent - 1) as usize);
        out.put_u8(first);
        return out.put_slice(rest);
    }
    let exponent = exponent as usize;
    out.put_u8(first);
    if rest.len() <= exponent {
        out.put_slice(rest);
        out.put_bytes(b'0', exponent - rest.len());
    } else {
        out.put_slice(&rest[..exponent]);
        out.put_u8(b'.');
        out.put_slice(&rest[exponent..]);
    }
}

fn write_hex(bytes: &[u8], out: &mut impl BufMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]);
    }
}

fn write_uuid(uuid: &[u8; 16], out: &mut impl BufMut) {
    for (i, group) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if i > 0 {
            out.put_u8(b'-');
        }
        write_hex(&uuid[group], out);
    }
}

fn write_array(elements: &[Value], data_type: &DataType, out: &mut impl BufMut) {
    let mut scratch = Vec::new();
    out.put_u8(b'{');
    for (place, element) in elements.iter().enumerate() {
        scratch.clear();
        element.write_text(element_of(data_type), &mut scratch);
        write_element(place, element, &scratch, out);
    }
    out.put_u8(b'}');
}

fn element_of(array: &DataType) -> &DataType {
    match array {
        DataType::Array(element) => element,
        _ => &DataType::Unknown,
    }
}

/// An element at its place in an array, whose own text is `text`.
fn write_element(place: usize, element: &Value, text: &[u8], out: &mut impl BufMut) {
    if place > 0 {
        out.put_u8(b',');
    }
    if element.is_null() {
        return out.put_slice(b"NULL");
    }
    if !needs_quotes(text) {
        return out.put_slice(text);
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

fn needs_quotes(element: &[u8]) -> bool {
    element.is_empty()
        || element.eq_ignore_ascii_case(b"null")
        || element
            .iter()
            .any(|b| matches!(b, b'{' | b'}' | b'"' | b'\\' | b',') || is_array_blank(*b))
}

fn is_array_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// 22P02, PostgreSQL's wording.
pub(crate) fn invalid_syntax(data_type: &DataType, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {}: \"{text}\"", data_type.base_name()),
    )
}

fn read_bool(text: &str) -> Result<bool> {
    let word = text.trim_matches(is_space).to_ascii_lowercase();
    let is_prefix_of =
        |full: &str, length_min: usize| word.len() >= length_min && full.starts_with(&word);
    if is_prefix_of("true", 1) || is_prefix_of("yes", 1) || is_prefix_of("on", 2) || word == "1" {
        Ok(true)
    } else if is_prefix_of("false", 1)
        || is_prefix_of("no", 1)
        || is_prefix_of("off", 2)
        || word == "0"
    {
        Ok(false)
    } else {
        Err(invalid_syntax(&DataType::Bool, text))
    }
}

fn read_int(data_type: &DataType, text: &str) -> Result<i64> {
    let trimmed = text.trim_matches(is_space);
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid_syntax(data_type, text));
    }
    let (min, max) = data_type.integer_range().unwrap_or((i64::MIN, i64::MAX));
    trimmed.parse().ok().filter(|i| (min..=max).contains(i)).ok_or_else(|| {
        Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {data_type}"),
        )
    })
}

fn read_numeric(text: &str) -> Result<Numeric> {
    let trimmed = text.trim_matches(is_space);
    if let Some(d) = numeric::parse(trimmed)? {
        return Ok(d);
    }
    numeric::parse_word(trimmed).ok_or_else(|| invalid_syntax(&DataType::Numeric(None), text))
}

fn read_float(text: &str) -> Result<f64> {
    read_number(text, &DataType::Float8, |trimmed| trimmed.parse().ok())
}

/// The nearest number of 32 bits.
fn read_real(text: &str) -> Result<f64> {
    read_number(text, &DataType::Float4, |trimmed| trimmed.parse().ok().map(|x: f32| x.into()))
}

fn read_number(
    text: &str,
    data_type: &DataType,
    nearest: impl FnOnce(&str) -> Option<f64>,
) -> Result<f64> {
    let trimmed = text.trim_matches(is_space);
    let x = nearest(trimmed).ok_or_else(|| invalid_syntax(data_type, text))?;
    let digits = trimmed.split(['e', 'E']).next().unwrap_or("");
    let has_nonzero_digit = digits.bytes().any(|b| (b'1'..=b'9').contains(&b));
    let overflowed = x.is_infinite() && has_nonzero_digit;
    let underflowed = x == 0.0 && has_nonzero_digit;
    if overflowed || underflowed {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{text}\" is out of range for type {data_type}"),
        ));
    }
    Ok(x)
}

fn read_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => read_hex(hex),
        None => read_escaped(text),
    }
}

fn read_hex(hex: &str) -> Result<Vec<u8>> {
    let bad = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut characters = hex.chars();
    while let Some(high) = characters.next() {
        // Blanks may stand between bytes, not within one.
        if matches!(high, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = |c: char| {
            c.to_digit(16).ok_or_else(|| bad(format!("invalid hexadecimal digit: \"{c}\"")))
        };
        let high = digit(high)?;
        let low = characters
            .next()
            .ok_or_else(|| bad("invalid hexadecimal data: odd number of digits".to_owned()))?;
        bytes.push((high << 4 | digit(low)?) as u8);
    }
    Ok(bytes)
}

/// The older form: `\\` is a backslash, `\nnn` an octet.
fn read_escaped(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', rest @ ..]) => {
                bytes.push(b'\\');
                rest
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            (b'\\', _) => {
                return Err(Error::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            (plain, rest) => {
                bytes.push(*plain);
                rest
            }
        };
    }
    Ok(bytes)
}

/// Hexadecimal digits, optionally in braces, with optional hyphens after groups of four.
fn read_uuid(text: &str) -> Result<[u8; 16]> {
    let invalid = || invalid_syntax(&DataType::Uuid, text);
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(invalid)?,
        None => text,
    };
    let mut uuid = [0; 16];
    let mut rest = inner.as_bytes();
    for (i, byte) in uuid.iter_mut().enumerate() {
        if i > 0 && i % 2 == 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        let [high, low, behind @ ..] = rest else {
            return Err(invalid());
        };
        let digit = |b: &u8| char::from(*b).to_digit(16).ok_or_else(invalid);
        *byte = (digit(high)? << 4 | digit(low)?) as u8;
        rest = behind;
    }
    if rest.is_empty() { Ok(uuid) } else { Err(invalid()) }
}

fn read_array(element_type: &DataType, text: &str) -> Result<Vec<Value>> {
    read_array_by(element_type, text, &mut || Ok(()))
}

/// The same for a text that may be long: `step` is asked now and then whether to go on.
pub fn read_array_by(
    element_type: &DataType,
    text: &str,
    step: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Value>> {
    let rest = text.trim_matches(is_space).as_bytes();
    ArrayReader { text, rest }.elements(element_type, step)
}

/// Elements that are read between two steps.
const ELEMENTS_PER_STEP: usize = 1 << 10;

struct ArrayReader<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl ArrayReader<'_> {
    fn elements(
        &mut self,
        element_type: &DataType,
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Value>> {
        if self.next() != Some(b'{') {
            return Err(
                self.malformed("Array value must start with \"{\" or dimension information.")
            );
        }
        let mut elements = Vec::new();
        self.skip_blanks();
        if self.rest == b"}" {
            return Ok(elements);
        }
        loop {
            elements.push(self.element(element_type)?);
            if elements.len() % ELEMENTS_PER_STEP == 0 {
                check_made_bytes(elements.len() * VALUE_WEIGHT)?;
                step()?;
            }
            self.skip_blanks();
            match self.next() {
                Some(b',') => {}
                Some(b'}') if self.rest.is_empty() => return Ok(elements),
                Some(b'}') => return Err(self.malformed("Junk after closing right brace.")),
                _ => return Err(self.malformed("Unexpected end of input.")),
            }
        }
    }

    fn element(&mut self, element_type: &DataType) -> Result<Value> {
        self.skip_blanks();
        let mut bytes = Vec::new();
        let quoted = self.rest.first() == Some(&b'"');
        if quoted {
            self.next();
            loop {
                match self.next() {
                    Some(b'"') => break,
                    Some(b'\\') => bytes.extend(self.next()),
                    Some(byte) => bytes.push(byte),
                    None => return Err(self.malformed("Unexpected end of input.")),
                }
            }
        } else {
            self.unquoted(&mut bytes)?;
            if bytes.eq_ignore_ascii_case(b"null") {
                return Ok(Value::Null);
            }
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| self.malformed("An element is not valid UTF-8."))?;
        Value::read_text(element_type, text)
    }

    fn unquoted(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        // Blanks after an element are not part of it, unless they are escaped.
        let mut kept = 0;
        loop {
            match self.rest.first() {
                Some(b',' | b'}') | None => break,
                Some(b'{') => return Err(Error::unsupported("a multidimensional array")),
                Some(b'"') => return Err(self.malformed("Unexpected array element.")),
                Some(b'\\') => {
                    self.next();
                    bytes.extend(self.next());
                    kept = bytes.len();
                }
                Some(byte) => {
                    bytes.push(*byte);
                    if !is_array_blank(*byte) {
                        kept = bytes.len();
                    }
                    self.next();
                }
            }
        }
        bytes.truncate(kept);
        if bytes.is_empty() {
            return Err(self.malformed("Unexpected array element."));
        }
        Ok(())
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip_blanks(&mut self) {
        while self.rest.first().is_some_and(|b| is_array_blank(*b)) {
            self.rest = &self.rest[1..];
        }
    }

    fn malformed(&self, detail: &str) -> Error {
        Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed array literal: \"{}\"", self.text),
        )
        .with_detail(detail)
    }
}
