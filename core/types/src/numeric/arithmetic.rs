//! `+ - * / %`.

use num_bigint::BigUint;

use super::errors::division_by_zero;
use super::number::{
    BITS_PER_DIGIT, Magnitude, Numeric, POW10, Repr, div_rem, pow10, small_pow10, to_u128,
};
use super::special;
use crate::error::Result;

/// PostgreSQL's limit for quotients, roots and powers.
pub(super) const DISPLAY_SCALE_MAX: u32 = 1000;
/// What they have at least.
pub(super) const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// Digits that a remainder below 2^96 can be made longer by at once.
const DIGITS_AT_ONCE: u32 = 9;

pub fn add(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    match small_sum(a, b, false) {
        Some(sum) => Ok(sum),
        None => large_sum(a, b, false),
    }
}

pub fn sub(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    match small_sum(a, b, true) {
        Some(difference) => Ok(difference),
        None => large_sum(a, b, true),
    }
}

#[inline]
fn small_sum(a: &Numeric, b: &Numeric, subtract: bool) -> Option<Numeric> {
    let ((a_negative, x, a_scale), (b_negative, y, b_scale)) = (a.small_parts()?, b.small_parts()?);
    let scale = a_scale.max(b_scale);
    let signed = |negative: bool, size: u128, own: u32| {
        let size = match scale - own {
            0 => size as i128,
            more => i128::try_from(size.checked_mul(small_pow10(more)?)?).ok()?,
        };
        Some(if negative { -size } else { size })
    };
    let x = signed(a_negative, x, a_scale)?;
    let y = signed(b_negative != subtract, y, b_scale)?;
    let sum = x.checked_add(y)?;
    Some(Numeric::of_u128(sum < 0, sum.unsigned_abs(), scale))
}

#[cold]
fn large_sum(a: &Numeric, b: &Numeric, subtract: bool) -> Result<Numeric> {
    if let Some(sum) = special::sum(a, b, subtract) {
        return Ok(sum);
    }
    let scale = a.scale().max(b.scale());
    let at_scale = |d: &Numeric| d.magnitude().scaled(scale - d.scale());
    let (x, y) = (at_scale(a), at_scale(b));
    let (a_negative, b_negative) = (a.is_negative(), b.is_negative() != subtract);
    if a_negative == b_negative {
        Numeric::of_big(a_negative, x + y, scale)
    } else if x >= y {
        Numeric::of_big(a_negative, x - y, scale)
    } else {
        Numeric::of_big(b_negative, y - x, scale)
    }
}

pub fn mul(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    let negative = a.is_negative() != b.is_negative();
    let scale = a.scale() + b.scale();
    if let (Some((_, x, _)), Some((_, y, _))) = (a.small_parts(), b.small_parts())
        && scale <= super::SCALE_MAX
        && let Some(product) = x.checked_mul(y)
    {
        return Ok(Numeric::of_u128(negative, product, scale));
    }
    if let Some(product) = special::product(a, b) {
        return Ok(product);
    }
    Numeric::of_big(negative, a.magnitude().times(b.magnitude()), scale)
}

impl Magnitude<'_> {
    fn times(self, other: Magnitude<'_>) -> BigUint {
        match (self, other) {
            (Magnitude::Large(x), Magnitude::Large(y)) => x * y,
            (Magnitude::Large(x), Magnitude::Small(y))
            | (Magnitude::Small(y), Magnitude::Large(x)) => x * y,
            (Magnitude::Small(x), Magnitude::Small(y)) => BigUint::from(x) * y,
        }
    }
}

pub fn div(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if let Some(quotient) = special::quotient(a, b) {
        return quotient;
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    div_at(a, b, division_scale(a, b))
}

/// The quotient, rounded to so many digits after the point.
pub(super) fn div_at(a: &Numeric, b: &Numeric, scale: u32) -> Result<Numeric> {
    let negative = a.is_negative() != b.is_negative();
    let longer_by = i64::from(scale) + i64::from(b.scale()) - i64::from(a.scale());
    if let Ok(longer_by) = u32::try_from(longer_by)
        && let (Some((_, x, _)), Some((_, y, _))) = (a.small_parts(), b.small_parts())
        && let Some(quotient) = small_quotient(x, y, longer_by)
    {
        return Ok(Numeric::of_u128(negative, quotient, scale));
    }
    let by = longer_by.unsigned_abs() as u32;
    let (x, y) = match longer_by >= 0 {
        true => (a.magnitude().scaled(by), b.magnitude().to_big()),
        false => (a.magnitude().to_big(), b.magnitude().scaled(by)),
    };
    Numeric::of_big(negative, rounded_quotient(&x, &y), scale)
}

/// `x * 10^longer_by / y`, rounded, by long division: the remainder stays below the divisor, so
/// that nothing is wider than 128 bits. `None`: the quotient is.
fn small_quotient(x: u128, y: u128, mut longer_by: u32) -> Option<u128> {
    if let Some(longer) = small_pow10(longer_by).and_then(|power| x.checked_mul(power)) {
        let (quotient, remainder) = (longer / y, longer % y);
        return quotient.checked_add(u128::from(remainder >= y - remainder));
    }
    let (mut quotient, mut remainder) = (x / y, x % y);
    while longer_by > 0 {
        let digits = longer_by.min(DIGITS_AT_ONCE);
        let power = POW10[digits as usize];
        let longer = remainder * power;
        quotient = quotient.checked_mul(power)?.checked_add(longer / y)?;
        remainder = longer % y;
        longer_by -= digits;
    }
    quotient.checked_add(u128::from(remainder >= y - remainder))
}

/// Half away from zero.
pub(super) fn rounded_quotient(x: &BigUint, y: &BigUint) -> BigUint {
    let (quotient, rest) = div_rem(x, y);
    match rest >= y - &rest {
        true => quotient + 1u32,
        false => quotient,
    }
}

/// PostgreSQL's `select_div_scale`: at least 16 significant digits, counted in its digits of base
/// 10,000, and never fewer after the point than an operand shows.
pub(super) fn division_scale(a: &Numeric, b: &Numeric) -> u32 {
    let (a_weight, a_first) = leading_base_10000_digit(a);
    let (b_weight, b_first) = leading_base_10000_digit(b);
    let quotient_weight = a_weight - b_weight - i32::from(a_first <= b_first);
    let significant = SIGNIFICANT_DIGITS_MIN - quotient_weight * 4;
    let shown = a.scale().max(b.scale());
    (significant.max(0) as u32).max(shown).min(DISPLAY_SCALE_MAX)
}

/// Weight (power of 10,000) and value of the first digit of base 10,000; zeros where there is none.
pub(super) fn leading_base_10000_digit(d: &Numeric) -> (i32, u32) {
    if d.is_zero() || !d.is_finite() {
        return (0, 0);
    }
    let scale = d.scale() as i32;
    match d.0 {
        Repr::Small { .. } => {
            let Magnitude::Small(size) = d.magnitude() else { return (0, 0) };
            // Power of ten of the first decimal digit, then of the group of four it stands in.
            let first_power = size.ilog10() as i32 - scale;
            let weight = first_power.div_euclid(4);
            let group_power = weight * 4 + scale;
            let first = match group_power >= 0 {
                true => size / POW10[group_power as usize],
                false => size * POW10[-group_power as usize],
            };
            (weight, first as u32)
        }
        Repr::Large(_) | Repr::Special(_) => {
            let size = d.magnitude().to_big();
            let weight = (decimal_digits(&size) as i32 - 1 - scale).div_euclid(4);
            // A large magnitude has more than the digits of a group.
            let first = size / pow10((weight * 4 + scale).max(0) as u32);
            (weight, to_u128(&first) as u32)
        }
    }
}

/// How many decimal digits a number other than zero has.
pub(super) fn decimal_digits(size: &BigUint) -> u32 {
    let estimate = ((size.bits() - 1) as f64 / BITS_PER_DIGIT) as u32;
    // The estimate is the logarithm of the first bit, cut: right, or one too low.
    let digits = estimate.max(1);
    let mut power = pow10(digits);
    let mut count = digits;
    while *size >= power {
        power *= 10u32;
        count += 1;
    }
    count
}

/// Remainder with the sign of the dividend.
pub fn rem(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if let Some(rest) = special::rest(a, b) {
        return rest;
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let (a_scale, b_scale) = (a.scale(), b.scale());
    let scale = a_scale.max(b_scale);
    if let (Some((_, x, _)), Some((_, y, _))) = (a.small_parts(), b.small_parts()) {
        return Ok(Numeric::of_u128(a.is_negative(), small_rest(x, a_scale, y, b_scale), scale));
    }
    let x = a.magnitude().scaled(scale - a_scale);
    let y = b.magnitude().scaled(scale - b_scale);
    Numeric::of_big(a.is_negative(), x % y, scale)
}

fn small_rest(x: u128, x_scale: u32, y: u128, y_scale: u32) -> u128 {
    if x_scale >= y_scale {
        // A divisor too long for 128 bits is above every dividend.
        let divisor = small_pow10(x_scale - y_scale).and_then(|power| y.checked_mul(power));
        return divisor.map_or(x, |divisor| x % divisor);
    }
    let (mut rest, mut longer_by) = (x % y, y_scale - x_scale);
    while longer_by > 0 && rest > 0 {
        let digits = longer_by.min(DIGITS_AT_ONCE);
        rest = rest * POW10[digits as usize] % y;
        longer_by -= digits;
    }
    rest
}

/// `a / b` without its digits after the point.
pub fn whole_quotient(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if let Some(quotient) = special::quotient(a, b) {
        return quotient;
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let scale = a.scale().max(b.scale());
    let x = a.magnitude().scaled(scale - a.scale());
    let y = b.magnitude().scaled(scale - b.scale());
    Numeric::of_big(a.is_negative() != b.is_negative(), x / y, 0)
}
