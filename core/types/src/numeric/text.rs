//! Numbers as text and as floats.

use std::fmt;
use std::str::FromStr;

use bytes::BufMut;
use num_bigint::BigUint;

use super::errors::overflow;
use super::number::{Magnitude, Numeric, POW10, SCALE_MAX, WHOLE_DIGITS_MAX, pow10, small_pow10};
use super::rounding::check_digits;
use super::special::parse_word;
use crate::error::{Error, Result, SqlState};

/// Digits that any magnitude below 2^96 has at most, and as many as surely fit.
const SMALL_DIGITS_MAX: usize = 29;
const SMALL_DIGITS: usize = 28;

/// The nearest float; infinity beyond what floats hold.
pub fn to_f64(d: &Numeric) -> f64 {
    if let Some((negative, size, scale)) = d.small_parts()
        && size < (1 << 53)
        && scale <= 22
    {
        // Both operands are exact, so the quotient is the nearest float.
        let size = size as f64 / POW10[scale as usize] as f64;
        return if negative { -size } else { size };
    }
    let mut text = Vec::new();
    write(d, &mut text);
    std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// PostgreSQL's conversion: 15 significant digits.
pub fn from_f64(x: f64) -> Result<Numeric> {
    of_digits(x, 15)
}

/// The six digits that a float of 32 bits has for certain.
pub fn from_f32(x: f32) -> Result<Numeric> {
    of_digits(x.into(), 6)
}

fn of_digits(x: f64, digits: usize) -> Result<Numeric> {
    if !x.is_finite() {
        return parse_word(&x.to_string()).ok_or_else(overflow);
    }
    match parse(&format!("{x:.*e}", digits - 1))? {
        Some(d) => Ok(d.normalize()),
        None => Err(overflow()),
    }
}

/// Reads `[+-]digits[.digits][e[+-]digits]`; `None` if it is not that, which may be a
/// [word](parse_word).
///
/// # Errors
/// 22003 for more digits than a number has.
pub fn parse(text: &str) -> Result<Option<Numeric>> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let exponent_at = unsigned.iter().position(|b| matches!(b, b'e' | b'E'));
    let (number, exponent) = match exponent_at {
        None => (unsigned, 0),
        Some(at) => match parse_exponent(&unsigned[at + 1..]) {
            Some(exponent) => (&unsigned[..at], exponent),
            None => return Ok(None),
        },
    };
    let point = number.iter().position(|b| *b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &[][..]),
    };
    let digits = || whole.iter().chain(fraction);
    if digits().next().is_none() || !digits().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let digits = digits().map(|b| b - b'0');
    from_digits(negative, digits, point.saturating_add(exponent)).map(Some)
}

/// Far beyond any text's length, far from overflowing.
const EXPONENT_MAX: i64 = 1 << 48;

/// Saturates: beyond the length of the text, every exponent has the same result.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size =
        digits.iter().fold(0i64, |size, b| (size * 10 + i64::from(b - b'0')).min(EXPONENT_MAX));
    Some(if negative { -size } else { size })
}

/// Builds a number from decimal digits, the most significant first, `point` of them before the
/// point. The scale is the number of digits after it.
///
/// # Errors
/// 22003 for more digits than a number has.
pub(crate) fn from_digits(
    negative: bool,
    digits: impl Iterator<Item = u8>,
    point: i64,
) -> Result<Numeric> {
    let mut digits = digits;
    let (mut small, mut kept, mut next_power) = (0u128, 0, point);
    for digit in digits.by_ref() {
        small = small * 10 + u128::from(digit);
        kept += usize::from(small > 0);
        next_power -= 1;
        if kept == SMALL_DIGITS {
            break;
        }
    }
    let rest: Vec<u8> = match kept == SMALL_DIGITS {
        // More than there can be, so that the count tells.
        true => digits.take((WHOLE_DIGITS_MAX + SCALE_MAX) as usize).collect(),
        false => Vec::new(),
    };
    next_power -= rest.len() as i64;
    let (zeros, scale) = (next_power.max(0), (-next_power).max(0));
    let count = (kept + rest.len()) as i64;
    check_digits(if count > 0 { count - scale + zeros } else { 0 }, scale)?;
    let (zeros, scale) = (if count > 0 { zeros as u32 } else { 0 }, scale as u32);
    if rest.is_empty() {
        return match small_pow10(zeros).and_then(|power| small.checked_mul(power)) {
            Some(size) => Ok(Numeric::of_u128(negative, size, scale)),
            None => Numeric::of_big(negative, pow10(zeros) * small, scale),
        };
    }
    let behind = BigUint::from_radix_be(&rest, 10).unwrap_or_default();
    let all = pow10(rest.len() as u32) * small + behind;
    let longer = if zeros == 0 { all } else { all * pow10(zeros) };
    Numeric::of_big(negative, longer, scale)
}

/// The text form, with every digit of the scale.
pub fn write(d: &Numeric, out: &mut impl BufMut) {
    if let Some(word) = d.word() {
        return out.put_slice(word.as_bytes());
    }
    if d.is_negative() {
        out.put_u8(b'-');
    }
    let scale = d.scale() as usize;
    match d.magnitude() {
        Magnitude::Small(size) => {
            let mut buffer = [0; SMALL_DIGITS_MAX];
            put_digits(small_digits(size, &mut buffer), scale, out);
        }
        Magnitude::Large(size) => put_digits(size.to_str_radix(10).as_bytes(), scale, out),
    }
}

fn put_digits(digits: &[u8], scale: usize, out: &mut impl BufMut) {
    match digits.len().checked_sub(scale) {
        _ if scale == 0 => out.put_slice(digits),
        Some(whole @ 1..) => {
            out.put_slice(&digits[..whole]);
            out.put_u8(b'.');
            out.put_slice(&digits[whole..]);
        }
        _ => {
            out.put_slice(b"0.");
            out.put_bytes(b'0', scale - digits.len());
            out.put_slice(digits);
        }
    }
}

/// The digits of a magnitude, `0` for none.
fn small_digits(mut size: u128, buffer: &mut [u8; SMALL_DIGITS_MAX]) -> &[u8] {
    let mut at = buffer.len();
    // Division of 64 bits is many times faster.
    const HALF: u32 = 18;
    while size > u128::from(u64::MAX) {
        let mut low = (size % POW10[HALF as usize]) as u64;
        size /= POW10[HALF as usize];
        for _ in 0..HALF {
            at -= 1;
            buffer[at] = b'0' + (low % 10) as u8;
            low /= 10;
        }
    }
    let mut size = size as u64;
    loop {
        at -= 1;
        buffer[at] = b'0' + (size % 10) as u8;
        size /= 10;
        if size == 0 {
            return &buffer[at..];
        }
    }
}

/// For messages and tests; values of clients go through [`parse`].
impl FromStr for Numeric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Numeric> {
        let invalid = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        parse(text)?.or_else(|| parse_word(text)).ok_or_else(invalid)
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        write(self, &mut out);
        f.write_str(std::str::from_utf8(&out).unwrap_or_default())
    }
}

impl fmt::Debug for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
