//! `round`, `trunc`, `ceil`, `floor`, precisions, integers.

use num_bigint::BigUint;

use super::arithmetic::{decimal_digits, rounded_quotient, whole_quotient};
use super::errors::overflow;
use super::number::{Numeric, SCALE_MAX, WHOLE_DIGITS_MAX, div_rem, pow10, small_pow10};
use crate::error::{Error, Result, SqlState};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rounding {
    HalfAwayFromZero,
    TowardZero,
    Up,
    Down,
}

/// Rounds half away from zero to `scale` digits after the point, or before it where negative. A
/// longer scale pads with zeros.
pub fn round(d: &Numeric, scale: i32) -> Result<Numeric> {
    rescale(d, scale, Rounding::HalfAwayFromZero)
}

/// Cuts to `scale` digits after the point.
pub fn trunc(d: &Numeric, scale: i32) -> Result<Numeric> {
    rescale(d, scale, Rounding::TowardZero)
}

pub fn ceil(d: &Numeric) -> Result<Numeric> {
    rescale(d, 0, Rounding::Up)
}

pub fn floor(d: &Numeric) -> Result<Numeric> {
    rescale(d, 0, Rounding::Down)
}

/// `div(a, b)`: how many times b goes into a.
pub fn quotient(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    whole_quotient(a, b)
}

fn rescale(d: &Numeric, scale: i32, rounding: Rounding) -> Result<Numeric> {
    if !d.is_finite() {
        return Ok(d.clone());
    }
    // Beyond these bounds nothing changes: everything is cut, or nothing is.
    let scale = scale.clamp(-(WHOLE_DIGITS_MAX as i32) - 1, SCALE_MAX as i32);
    let shown = scale.max(0) as u32;
    let dropped = d.scale() as i32 - scale;
    if dropped == 0 {
        return Ok(d.clone());
    }
    if dropped < 0 {
        return padded(d, dropped.unsigned_abs(), shown);
    }
    let dropped = dropped.unsigned_abs();
    let negative = d.is_negative();
    let away = |is_half: bool, is_rest: bool| match rounding {
        Rounding::HalfAwayFromZero => is_half,
        Rounding::TowardZero => false,
        Rounding::Up => is_rest && !negative,
        Rounding::Down => is_rest && negative,
    };
    // Zeros before the point, where it is there that digits are cut.
    let zeros = (-scale).max(0) as u32;
    if let Some((_, size, _)) = d.small_parts() {
        let (whole, rest, is_half) = match small_pow10(dropped) {
            Some(unit) => (size / unit, size % unit, size % unit >= unit - size % unit),
            // A unit beyond 128 bits is more than twice what 96 bits hold.
            None => (0, size, false),
        };
        let rounded = whole + u128::from(away(is_half, rest > 0));
        if rounded == 0 {
            return Ok(Numeric::of_u128(false, 0, shown));
        }
        return match small_pow10(zeros).and_then(|power| rounded.checked_mul(power)) {
            Some(size) => Ok(Numeric::of_u128(negative, size, shown)),
            None => Numeric::of_big(negative, pow10(zeros) * rounded, shown),
        };
    }
    let size = d.magnitude().to_big();
    // More than all digits: one more than the number has, and a unit stays above its double.
    let cut = dropped.min(decimal_digits(&size) + 1);
    let unit = pow10(cut);
    let (whole, rest) = div_rem(&size, &unit);
    let is_half = cut == dropped && rest >= &unit - &rest;
    let rounded = whole + u32::from(away(is_half, rest != BigUint::ZERO));
    let longer = match rounded == BigUint::ZERO {
        true => rounded,
        false => rounded * pow10(zeros),
    };
    Numeric::of_big(negative, longer, shown)
}

fn padded(d: &Numeric, zeros: u32, scale: u32) -> Result<Numeric> {
    if let Some((negative, size, _)) = d.small_parts() {
        if size == 0 {
            return Ok(Numeric::of_u128(false, 0, scale));
        }
        if let Some(size) = small_pow10(zeros).and_then(|power| size.checked_mul(power)) {
            return Ok(Numeric::of_u128(negative, size, scale));
        }
    }
    Numeric::of_big(d.is_negative(), d.magnitude().scaled(zeros), scale)
}

/// Makes a value one of `numeric(precision, scale)`.
#[inline]
pub fn apply_precision(d: &Numeric, precision: u16, scale: u16) -> Result<Numeric> {
    let rounded = round(d, i32::from(scale))?;
    let fits = match (rounded.small_parts(), small_pow10(u32::from(precision))) {
        (Some((_, size, _)), Some(bound)) => size < bound,
        // What is inline has 29 digits at most.
        (Some(_), None) => true,
        (None, _) if rounded.is_infinite() => return Err(infinite_field(precision, scale)),
        (None, _) if rounded.is_nan() => true,
        (None, _) => rounded.magnitude().to_big() < pow10(u32::from(precision)),
    };
    if fits { Ok(rounded) } else { Err(field_overflow(precision, scale)) }
}

#[cold]
fn field_overflow(precision: u16, scale: u16) -> Error {
    let bound = match i32::from(precision) - i32::from(scale) {
        0 => "1".to_owned(),
        n => format!("10^{n}"),
    };
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than {bound}."
    ))
}

#[cold]
fn infinite_field(precision: u16, scale: u16) -> Error {
    let detail =
        format!("A field with precision {precision}, scale {scale} cannot hold an infinite value.");
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
}

/// Rounds half away from zero to an integer; `None` beyond 64 bits, and where there is none.
pub fn to_i64(d: &Numeric) -> Option<i64> {
    let whole = match d.scale() {
        0 => d.clone(),
        _ => round(d, 0).ok()?,
    };
    i64::try_from(whole.units()?).ok()
}

/// The quotient of two integers, half away from zero, as a number with that scale.
pub(super) fn of_quotient(negative: bool, x: &BigUint, y: &BigUint, scale: u32) -> Result<Numeric> {
    Numeric::of_big(negative, rounded_quotient(x, y), scale)
}

/// # Errors
/// 22003 for a number of digits that no number has.
pub(super) fn check_digits(whole: i64, fraction: i64) -> Result<()> {
    match whole <= i64::from(WHOLE_DIGITS_MAX) && fraction <= i64::from(SCALE_MAX) {
        true => Ok(()),
        false => Err(overflow()),
    }
}
