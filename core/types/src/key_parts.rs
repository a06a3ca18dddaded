//! Texts and numbers as they stand in keys, whose order is the order of these bytes; see
//! [`key`](crate::key).

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use crate::error::{Error, Result, SqlState};
use crate::numeric::{Numeric, POW10, from_digits};

const ESCAPE: u8 = 0x00;
/// After [`ESCAPE`]: the string holds a zero byte, and goes on.
const ESCAPED_ZERO: u8 = 0xFF;
/// After [`ESCAPE`]: the string has ended.
const TERMINATOR: u8 = 0x00;
const NUMERIC_ZERO: u8 = 0x80;
const NUMERIC_EXPONENT_BIAS: i32 = 31;
/// Exponents of one byte.
const NUMERIC_EXPONENTS: RangeInclusive<i32> = -29..=94;
const NUMERIC_BELOW: u8 = 0x81;
const NUMERIC_ABOVE: u8 = 0xFE;
/// Makes every exponent below positive.
const NUMERIC_BELOW_BIAS: i32 = 16_384;
const NUMERIC_END: u8 = 0x00;
/// -Infinity, and what is above all finite numbers.
const NUMERIC_LEAST: u8 = 0x00;
const NUMERIC_BEYOND: u8 = 0xFF;

pub(crate) fn corrupt() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "invalid key encoding")
}

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (head, behind) = rest.split_first_chunk().ok_or_else(corrupt)?;
    *rest = behind;
    Ok(*head)
}

/// Appends a text or byte string.
pub(crate) fn push_text(bytes: &[u8], out: &mut SmallVec<[u8; 32]>) {
    let mut rest = bytes;
    // Text has no zero bytes, so this is nearly always one copy.
    while let Some(zero) = rest.iter().position(|b| *b == ESCAPE) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[ESCAPE, ESCAPED_ZERO]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[ESCAPE, TERMINATOR]);
}

pub(crate) fn take_text(rest: &mut &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let zero = rest.iter().position(|b| *b == ESCAPE).ok_or_else(corrupt)?;
        bytes.extend_from_slice(&rest[..zero]);
        let behind = rest.get(zero + 1).copied().ok_or_else(corrupt)?;
        *rest = &rest[zero + 2..];
        match behind {
            TERMINATOR => return Ok(bytes),
            ESCAPED_ZERO => bytes.push(0),
            _ => return Err(corrupt()),
        }
    }
}

pub(crate) fn push_numeric(d: &Numeric, out: &mut SmallVec<[u8; 32]>) {
    if !d.is_finite() {
        return match d.is_negative() {
            true => out.push(NUMERIC_LEAST),
            false => out.extend_from_slice(&[NUMERIC_BEYOND, u8::from(d.is_nan())]),
        };
    }
    if d.is_zero() {
        return out.push(NUMERIC_ZERO);
    }
    let start = out.len();
    match d.small_magnitude() {
        Some(size) => push_small_size(size, d.scale() as i32, out),
        None => d.with_significant(|digits, exponent| {
            push_exponent(exponent, out);
            let pair = |pair: &[u8]| pair[0] * 10 + pair.get(1).copied().unwrap_or(0) + 1;
            out.extend(digits.chunks(2).map(pair));
        }),
    }
    out.push(NUMERIC_END);
    if d.is_negative() {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn push_small_size(mut digits: u128, scale: i32, out: &mut SmallVec<[u8; 32]>) {
    let mut count = digits.ilog10() + 1;
    push_exponent(count as i32 - scale, out);
    while digits.is_multiple_of(10) {
        digits /= 10;
        count -= 1;
    }
    if count % 2 == 1 {
        digits *= 10;
        count += 1;
    }
    while count > 0 {
        count -= 2;
        out.push((digits / POW10[count as usize] % 100) as u8 + 1);
    }
}

fn push_exponent(exponent: i32, out: &mut SmallVec<[u8; 32]>) {
    if NUMERIC_EXPONENTS.contains(&exponent) {
        return out.push((i32::from(NUMERIC_ZERO) + exponent + NUMERIC_EXPONENT_BIAS) as u8);
    }
    let (mark, exponent) = match exponent < 0 {
        true => (NUMERIC_BELOW, exponent + NUMERIC_BELOW_BIAS),
        false => (NUMERIC_ABOVE, exponent),
    };
    out.push(mark);
    out.extend_from_slice(&exponent.to_be_bytes()[1..]);
}

fn take_exponent(first: u8, complement: u8, rest: &mut &[u8]) -> Result<i32> {
    let (exponent, is_long) = match first {
        NUMERIC_BELOW | NUMERIC_ABOVE => {
            let [high, middle, low] = take::<3>(rest)?.map(|byte| byte ^ complement);
            let exponent = i32::from_be_bytes([0, high, middle, low]);
            (if first == NUMERIC_BELOW { exponent - NUMERIC_BELOW_BIAS } else { exponent }, true)
        }
        _ => (i32::from(first) - i32::from(NUMERIC_ZERO) - NUMERIC_EXPONENT_BIAS, false),
    };
    // Each exponent has one form.
    let is_near = NUMERIC_EXPONENTS.contains(&exponent);
    let is_below = exponent < *NUMERIC_EXPONENTS.start();
    match is_near != is_long && (!is_long || is_below == (first == NUMERIC_BELOW)) {
        true => Ok(exponent),
        false => Err(corrupt()),
    }
}

pub(crate) fn take_numeric(rest: &mut &[u8]) -> Result<Numeric> {
    let [first] = take(rest)?;
    match first {
        NUMERIC_ZERO => return Ok(Numeric::ZERO),
        NUMERIC_LEAST => return Ok(Numeric::NEG_INFINITY),
        NUMERIC_BEYOND => {
            return match take(rest)? {
                [0] => Ok(Numeric::INFINITY),
                [1] => Ok(Numeric::NAN),
                _ => Err(corrupt()),
            };
        }
        _ => {}
    }
    let negative = first < NUMERIC_ZERO;
    let complement = if negative { u8::MAX } else { 0 };
    let exponent = take_exponent(first ^ complement, complement, rest)?;
    let end = rest.iter().position(|b| b ^ complement == NUMERIC_END).ok_or_else(corrupt)?;
    let pairs = rest[..end].iter().map(|b| (b ^ complement) - 1);
    // Neither the first nor the last digit is zero.
    let is_shortest = pairs.clone().next().is_some_and(|pair| pair >= 10)
        && pairs.clone().next_back().is_some_and(|pair| pair > 0);
    if !is_shortest || pairs.clone().any(|pair| pair > 99) {
        return Err(corrupt());
    }
    let odd = pairs.clone().next_back().is_some_and(|pair| pair.is_multiple_of(10));
    // The digit that fills the last pair is none of the number's.
    let digits = pairs.flat_map(|pair| [pair / 10, pair % 10]).take(2 * end - usize::from(odd));
    let d = from_digits(negative, digits, i64::from(exponent))?;
    *rest = &rest[end + 1..];
    Ok(d.normalize())
}
