//! `numeric`: exact decimal arithmetic on 96 bits of mantissa and a scale of 0 to 28.
//!
//! A number is `mantissa / 10^scale`; the scale is what PostgreSQL calls the display scale, and
//! results have PostgreSQL's: the larger one for `+`, `-`, `%`, the sum for `*`, and for `/` enough
//! for 16 significant digits (`select_div_scale`). Rounding is half away from zero everywhere.
//!
//! Departure: PostgreSQL keeps 1,000 digits after the point and more before. Here a result that
//! does not fit loses digits after the point, rounded, and where even its whole part does not fit
//! it is refused with 22003. `NaN` and the infinities do not exist.
//!
//! Cost: operands whose exact result fits 128 bits, which is nearly all, take one multiplication;
//! the others go through 256 bits, digit by digit. Nothing allocates.

use bytes::BufMut;
use rust_decimal::Decimal;

use crate::error::{Error, Result, SqlState};

pub const SCALE_MAX: u32 = 28;
const MANTISSA_MAX: u128 = (1 << 96) - 1;

/// Powers of ten that fit 128 bits.
pub(crate) const POW10: [u128; 39] = {
    let mut powers = [1u128; 39];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

/// Sign and size of a mantissa.
fn split(d: Decimal) -> (bool, u128) {
    let mantissa = d.mantissa();
    (mantissa < 0, mantissa.unsigned_abs())
}

/// Builds from parts that are known to fit.
fn join(negative: bool, mantissa: u128, scale: u32) -> Decimal {
    debug_assert!(mantissa <= MANTISSA_MAX && scale <= SCALE_MAX);
    let signed = mantissa as i128;
    Decimal::from_i128_with_scale(if negative { -signed } else { signed }, scale)
}

/// Builds from any parts: drops digits after the point, rounding, until the rest fits.
fn fit(negative: bool, mut magnitude: Wide, mut scale: u32) -> Result<Decimal> {
    let mut dropped_digit = 0;
    loop {
        if scale <= SCALE_MAX
            && let Some(mantissa) = magnitude.to_mantissa()
        {
            let rounded = mantissa + u128::from(dropped_digit >= 5);
            if rounded <= MANTISSA_MAX {
                return Ok(join(negative, rounded, scale));
            }
        }
        if scale == 0 {
            return Err(overflow());
        }
        dropped_digit = magnitude.pop_digit();
        scale -= 1;
    }
}

/// So many units of `10^-scale`; digits after the point that do not fit are rounded away.
pub fn from_units(units: i128, scale: u8) -> Result<Decimal> {
    fit(units < 0, Wide::from(units.unsigned_abs()), u32::from(scale))
}

pub fn add(a: Decimal, b: Decimal) -> Result<Decimal> {
    let scale = a.scale().max(b.scale());
    let factor = |d: Decimal| POW10[(scale - d.scale()) as usize];
    let ((a_negative, a_size), (b_negative, b_size)) = (split(a), split(b));
    if let (Some(x), Some(y)) = (a_size.checked_mul(factor(a)), b_size.checked_mul(factor(b)))
        && x <= i128::MAX as u128 / 2
        && y <= i128::MAX as u128 / 2
    {
        let signed = |negative, size: u128| {
            if negative { -(size as i128) } else { size as i128 }
        };
        let sum = signed(a_negative, x) + signed(b_negative, y);
        return fit(sum < 0, Wide::from(sum.unsigned_abs()), scale);
    }
    let (x, y) = (Wide::product(a_size, factor(a)), Wide::product(b_size, factor(b)));
    if a_negative == b_negative {
        fit(a_negative, x.plus(y), scale)
    } else if x >= y {
        fit(a_negative, x.minus(y), scale)
    } else {
        fit(b_negative, y.minus(x), scale)
    }
}

pub fn sub(a: Decimal, b: Decimal) -> Result<Decimal> {
    add(a, neg(b))
}

pub fn mul(a: Decimal, b: Decimal) -> Result<Decimal> {
    let ((a_negative, x), (b_negative, y)) = (split(a), split(b));
    fit(a_negative != b_negative, Wide::product(x, y), a.scale() + b.scale())
}

/// Long division, digit by digit: the remainder stays below the divisor, so that nothing is wider
/// than 128 bits.
pub fn div(a: Decimal, b: Decimal) -> Result<Decimal> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let ((a_negative, x), (b_negative, y)) = (split(a), split(b));
    let target_scale = division_scale(a, b).min(SCALE_MAX as i32);
    let mut scale = a.scale() as i32 - b.scale() as i32;
    let (mut quotient, mut remainder) = (x / y, x % y);
    while scale < target_scale {
        let next_digit = remainder * 10 / y;
        let longer = quotient * 10 + next_digit;
        if longer > MANTISSA_MAX {
            break;
        }
        quotient = longer;
        remainder = remainder * 10 % y;
        scale += 1;
    }
    let Ok(scale) = u32::try_from(scale) else {
        return Err(overflow());
    };
    quotient += u128::from(remainder * 2 >= y);
    fit(a_negative != b_negative, Wide::from(quotient), scale)
}

/// PostgreSQL's `select_div_scale`: at least 16 significant digits, counted in its digits of base
/// 10,000, and never fewer after the point than an operand shows.
fn division_scale(a: Decimal, b: Decimal) -> i32 {
    let (a_weight, a_first) = leading_base_10000_digit(a);
    let (b_weight, b_first) = leading_base_10000_digit(b);
    let quotient_weight = a_weight - b_weight - i32::from(a_first <= b_first);
    let scale = 16 - quotient_weight * 4;
    scale.max(a.scale() as i32).max(b.scale() as i32).max(0)
}

/// Weight (power of 10,000) and value of the first digit of base 10,000; zeros for 0.
fn leading_base_10000_digit(d: Decimal) -> (i32, u128) {
    let (_, mantissa) = split(d);
    if mantissa == 0 {
        return (0, 0);
    }
    let scale = d.scale() as i32;
    // Power of ten of the first decimal digit, then of the group of four that it stands in.
    let first_power = mantissa.ilog10() as i32 - scale;
    let weight = first_power.div_euclid(4);
    let group_power = weight * 4 + scale;
    let first = if group_power >= 0 {
        mantissa / POW10[group_power as usize]
    } else {
        mantissa * POW10[-group_power as usize]
    };
    (weight, first)
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Remainder with the sign of the dividend.
pub fn rem(a: Decimal, b: Decimal) -> Result<Decimal> {
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let ((a_negative, x), (_, y)) = (split(a), split(b));
    let (a_scale, b_scale) = (a.scale(), b.scale());
    let remainder = if a_scale >= b_scale {
        // A divisor too long for 128 bits is above every dividend.
        let divisor = y.checked_mul(POW10[(a_scale - b_scale) as usize]);
        divisor.map_or(x, |divisor| x % divisor)
    } else {
        (a_scale..b_scale).fold(x % y, |remainder, _| remainder * 10 % y)
    };
    Ok(join(a_negative, remainder, a_scale.max(b_scale)))
}

pub fn neg(d: Decimal) -> Decimal {
    let (negative, mantissa) = split(d);
    join(!negative, mantissa, d.scale())
}

pub fn abs(d: Decimal) -> Decimal {
    join(false, split(d).1, d.scale())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rounding {
    HalfAwayFromZero,
    TowardZero,
    Up,
    Down,
}

/// Rounds half away from zero to `scale` digits after the point, or before it where negative. A
/// longer scale pads with zeros, as far as digits allow.
pub fn round(d: Decimal, scale: i32) -> Result<Decimal> {
    rescale(d, scale, Rounding::HalfAwayFromZero)
}

/// Cuts to `scale` digits after the point.
pub fn trunc(d: Decimal, scale: i32) -> Result<Decimal> {
    rescale(d, scale, Rounding::TowardZero)
}

pub fn ceil(d: Decimal) -> Result<Decimal> {
    rescale(d, 0, Rounding::Up)
}

pub fn floor(d: Decimal) -> Result<Decimal> {
    rescale(d, 0, Rounding::Down)
}

fn rescale(d: Decimal, scale: i32, rounding: Rounding) -> Result<Decimal> {
    let (negative, mantissa) = split(d);
    // Beyond these bounds nothing changes: everything is cut, or nothing is.
    let scale = scale.clamp(-38, SCALE_MAX as i32);
    let dropped = d.scale() as i32 - scale;
    if dropped <= 0 {
        let padded = Wide::product(mantissa, POW10[-dropped as usize]);
        return fit(negative, padded, scale as u32);
    }
    let Some(&unit) = POW10.get(dropped as usize) else {
        return Ok(join(false, 0, scale.max(0) as u32));
    };
    let (whole, rest) = (mantissa / unit, mantissa % unit);
    let away = match rounding {
        Rounding::HalfAwayFromZero => rest >= unit - rest,
        Rounding::TowardZero => false,
        Rounding::Up => rest > 0 && !negative,
        Rounding::Down => rest > 0 && negative,
    };
    let rounded = whole + u128::from(away);
    match u32::try_from(scale) {
        Ok(scale) => fit(negative, Wide::from(rounded), scale),
        Err(_) => fit(negative, Wide::product(rounded, POW10[-scale as usize]), 0),
    }
}

/// Makes a value one of `numeric(precision, scale)`.
pub fn apply_precision(d: Decimal, precision: u8, scale: u8) -> Result<Decimal> {
    let whole_digits = i32::from(precision) - i32::from(scale);
    let field_overflow = || {
        let bound = match whole_digits {
            0 => "1".to_owned(),
            n => format!("10^{n}"),
        };
        Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(
            format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value \
             less than {bound}."
            ),
        )
    };
    let rounded = round(d, i32::from(scale))?;
    // A mantissa that could not be padded to the scale is longer than any precision.
    let (_, mantissa) = split(rounded);
    if rounded.scale() != u32::from(scale) || mantissa >= POW10[usize::from(precision)] {
        return Err(field_overflow());
    }
    Ok(rounded)
}

/// Rounds half away from zero to an integer; `None` beyond 64 bits.
pub fn to_i64(d: Decimal) -> Option<i64> {
    let (negative, mantissa) = split(d);
    let unit = POW10[d.scale() as usize];
    let (whole, rest) = (mantissa / unit, mantissa % unit);
    let whole = (whole + u128::from(rest >= unit - rest)) as i128;
    i64::try_from(if negative { -whole } else { whole }).ok()
}

/// The nearest float.
pub fn to_f64(d: Decimal) -> f64 {
    let (negative, mantissa) = split(d);
    let scale = d.scale();
    let size = if mantissa < (1 << 53) && scale <= 22 {
        // Both operands are exact, so the quotient is the nearest float.
        mantissa as f64 / POW10[scale as usize] as f64
    } else {
        let mut buffer = [0; TEXT_BYTES_MAX];
        let text = digits_to_text(mantissa, scale, &mut buffer);
        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    if negative { -size } else { size }
}

/// PostgreSQL's conversion: 15 significant digits.
pub fn from_f64(x: f64) -> Result<Decimal> {
    if !x.is_finite() {
        return Err(Error::unsupported("numeric NaN or infinity"));
    }
    match parse(&format!("{x:.14e}"))? {
        Some(d) => Ok(d.normalize()),
        None => Err(overflow()),
    }
}

/// Reads `[+-]digits[.digits][e[+-]digits]`; `None` if it is not that. Digits after the point
/// that do not fit are rounded away.
pub fn parse(text: &str) -> Result<Option<Decimal>> {
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
/// point. The scale is the number of digits after it, as far as they fit.
pub(crate) fn from_digits(
    negative: bool,
    digits: impl Iterator<Item = u8>,
    point: i64,
) -> Result<Decimal> {
    let (mut mantissa, mut scale) = (0u128, 0u32);
    let mut next_power = point;
    // The first digit that did not fit: it alone decides how to round.
    let mut first_cut = None;
    for digit in digits {
        next_power -= 1;
        let longer = mantissa * 10 + u128::from(digit);
        if first_cut.is_some() {
            continue;
        }
        if next_power >= 0 {
            if longer > MANTISSA_MAX {
                return Err(overflow());
            }
            mantissa = longer;
        } else if next_power >= -(SCALE_MAX as i64) && longer <= MANTISSA_MAX {
            mantissa = longer;
            scale = -next_power as u32;
        } else {
            if mantissa == 0 {
                scale = SCALE_MAX;
            }
            // A digit further right than the one behind the last kept is not the deciding one.
            let behind = next_power == -(scale as i64) - 1;
            first_cut = Some(if behind { digit } else { 0 });
        }
    }
    while next_power > 0 && mantissa > 0 {
        mantissa *= 10;
        next_power -= 1;
        if mantissa > MANTISSA_MAX {
            return Err(overflow());
        }
    }
    let up = first_cut.is_some_and(|digit| digit >= 5);
    fit(negative, Wide::from(mantissa + u128::from(up)), scale)
}

/// Sign, 29 digits, point and a leading zero.
const TEXT_BYTES_MAX: usize = 32;

/// The text form, with every digit of the scale.
pub fn write(d: Decimal, out: &mut impl BufMut) {
    let (negative, mantissa) = split(d);
    if negative {
        out.put_u8(b'-');
    }
    let mut buffer = [0; TEXT_BYTES_MAX];
    out.put_slice(digits_to_text(mantissa, d.scale(), &mut buffer));
}

/// Writes `mantissa / 10^scale` backwards into the buffer.
fn digits_to_text(mut mantissa: u128, scale: u32, buffer: &mut [u8; TEXT_BYTES_MAX]) -> &[u8] {
    let mut at = buffer.len();
    let mut written = 0;
    loop {
        if written > 0 && written == scale {
            at -= 1;
            buffer[at] = b'.';
        }
        at -= 1;
        buffer[at] = b'0' + (mantissa % 10) as u8;
        mantissa /= 10;
        written += 1;
        if mantissa == 0 && written > scale {
            return &buffer[at..];
        }
    }
}

/// An unsigned integer of 256 bits, for exact results before they are rounded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wide {
    // The field order makes the derived order the numeric one.
    high: u128,
    low: u128,
}

impl From<u128> for Wide {
    fn from(low: u128) -> Wide {
        Wide { high: 0, low }
    }
}

impl Wide {
    /// A product of two numbers below 2^96.
    fn product(a: u128, b: u128) -> Wide {
        if let Some(low) = a.checked_mul(b) {
            return Wide::from(low);
        }
        const HALF: u32 = 64;
        let (a_high, a_low) = (a >> HALF, a & u128::from(u64::MAX));
        let (b_high, b_low) = (b >> HALF, b & u128::from(u64::MAX));
        // High halves are below 2^32, so neither cross product nor their sum overflows.
        let cross = a_high * b_low + a_low * b_high;
        let (low, carry) = (a_low * b_low).overflowing_add(cross << HALF);
        Wide { high: a_high * b_high + (cross >> HALF) + u128::from(carry), low }
    }

    fn plus(self, other: Wide) -> Wide {
        let (low, carry) = self.low.overflowing_add(other.low);
        Wide { high: self.high + other.high + u128::from(carry), low }
    }

    /// `other` must not be above `self`.
    fn minus(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide { high: self.high - other.high - u128::from(borrow), low }
    }

    fn to_mantissa(self) -> Option<u128> {
        (self.high == 0 && self.low <= MANTISSA_MAX).then_some(self.low)
    }

    /// Divides by ten and returns the last decimal digit.
    fn pop_digit(&mut self) -> u8 {
        let limbs =
            [(self.high >> 64) as u64, self.high as u64, (self.low >> 64) as u64, self.low as u64];
        let mut remainder = 0u128;
        let quotient = limbs.map(|limb| {
            let dividend = (remainder << 64) | u128::from(limb);
            remainder = dividend % 10;
            dividend / 10
        });
        self.high = (quotient[0] << 64) | quotient[1];
        self.low = (quotient[2] << 64) | quotient[3];
        remainder as u8
    }
}
