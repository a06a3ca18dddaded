//! `exp`, `ln`, `log` and powers of any exponent, with PostgreSQL's scales.
//!
//! None of their results has a last digit but few, so each is computed with more digits than it
//! shows, by integers that count `2^-bits`: the errors of all steps together stay some 2^-40 below
//! the last digit shown, whatever the machine. What is a power of ten or a root by chance is so
//! found to be one.
//!
//! ```text
//!   ln x = e ln 2 + 2^j ln y,  y = (x / 2^e)^(1 / 2^j) near 1,  by the series of atanh
//!   e^x  = 2^k (e^(r / 2^j))^(2^j),  x = k ln 2 + r,            by the series of exp
//! ```

use num_bigint::{BigInt, BigUint, Sign};

use super::arithmetic::{DISPLAY_SCALE_MAX, SIGNIFICANT_DIGITS_MIN, leading_base_10000_digit, sub};
use super::errors::{complex, division_by_zero, overflow, undefined};
use super::number::{BITS_PER_DIGIT, Numeric, div_rem, pow10, to_u128};
use super::powers::{estimated_log10, power};
use super::rounding::{round, to_i64};
use super::sign::is_odd;
use super::special::check_has_logarithm;
use super::text::to_f64;
use super::{rounding, special};
use crate::error::Result;

/// Bits beyond those that are shown.
const GUARD_BITS: u64 = 64;
/// Digits that PostgreSQL computes beyond those that it shows; here they are a part of what is
/// needed where results of one step are multiplied by the next.
pub(super) const GUARD_DIGITS: i64 = 8;
/// As PostgreSQL has it.
const LOG10_E: f64 = 0.434_294_481_903_252;
const LN_10: f64 = std::f64::consts::LN_10;
/// Beyond this, PostgreSQL computes no power of e.
pub(super) const EXPONENT_MAX: f64 = 6000.0;
/// Exponents of ten beyond this are all alike.
const WEIGHT_MAX: f64 = 2000.0;

pub fn exp(x: &Numeric) -> Result<Numeric> {
    if x.is_infinite() && x.is_negative() {
        return Ok(Numeric::ZERO);
    }
    if let Some(power) = special::itself(x) {
        return Ok(power);
    }
    let value = to_f64(x);
    let scale = scale_of(decimal_weight(value), [x.scale(), 0]);
    if value.abs() >= EXPONENT_MAX {
        return vanished(value, scale);
    }
    let bits = bits_of_exp(value, scale);
    let fixed = fixed_of(x, bits);
    finish_exp(&fixed, bits, scale, false)
}

/// # Errors
/// 2201E for what has no logarithm.
pub fn ln(x: &Numeric) -> Result<Numeric> {
    check_has_logarithm(x)?;
    if let Some(logarithm) = special::itself(x) {
        return Ok(logarithm);
    }
    let scale = scale_of(ln_weight(x), [x.scale(), 0]);
    let bits = bits_of_digits(i64::from(scale)) + GUARD_BITS;
    decimal(&fixed_ln(x, bits), bits, scale)
}

/// The logarithm of `x` to a base.
///
/// # Errors
/// 2201E for what has no logarithm, 22012 for the base 1.
pub fn log(base: &Numeric, x: &Numeric) -> Result<Numeric> {
    if let Some(logarithm) = special::log(base, x) {
        return logarithm;
    }
    check_has_logarithm(base)?;
    check_has_logarithm(x)?;
    let (scale, digits) = extent_of_log(base, x);
    let bits = bits_of_digits(digits) + GUARD_BITS;
    let (of_base, of_x) = (fixed_ln(base, bits), fixed_ln(x, bits));
    if of_base.sign() == Sign::NoSign {
        return Err(division_by_zero());
    }
    let negative = of_base.sign() != of_x.sign() && of_x.sign() != Sign::NoSign;
    let longer = of_x.magnitude() * pow10(scale);
    rounding::of_quotient(negative, &longer, of_base.magnitude(), scale)
}

/// Digits that `log` shows after the point, and those that its parts need.
pub(super) fn extent_of_log(base: &Numeric, x: &Numeric) -> (u32, i64) {
    let (of_base, of_x) = (ln_weight(base), ln_weight(x));
    let scale = scale_of(of_x - of_base, [base.scale(), x.scale()]);
    let digits = i64::from(scale) + of_x - of_base + GUARD_DIGITS;
    (scale, (digits - of_base).max(digits - of_x).max(0))
}

/// # Errors
/// 2201F for what is no number, 22003 for what is too large.
pub fn power_of(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    if let Some(power) = special::power(base, exponent) {
        return power;
    }
    if base.is_zero() && exponent.is_negative() {
        return Err(undefined());
    }
    let is_whole = exponent.is_whole();
    if base.is_negative() && !is_whole {
        return Err(complex());
    }
    if let Some(exponent) = whole_exponent(exponent) {
        return power(base, exponent);
    }
    if base.is_zero() {
        return round(&Numeric::ZERO, SIGNIFICANT_DIGITS_MIN);
    }
    let negative = base.is_negative() && is_odd(exponent);
    let base = super::abs(base);
    let (value, scale, digits) = match extent_of_power(&base, exponent) {
        PowerExtent::TooLarge => return Err(overflow()),
        PowerExtent::Zero => return round(&Numeric::ZERO, DISPLAY_SCALE_MAX as i32),
        PowerExtent::Digits { value, scale, digits } => (value, scale, digits),
    };
    let bits = bits_of_digits(digits) + GUARD_BITS;
    let product = multiplied(&fixed_ln(&base, bits), exponent);
    if value.abs() >= EXPONENT_MAX {
        return vanished(value, scale);
    }
    // Not more than the logarithm is good for.
    let kept = bits_of_exp(value, scale).min(bits);
    finish_exp(&shifted(product, bits, kept), kept, scale, negative)
}

enum PowerExtent {
    /// Nothing is left of it but zeros.
    Zero,
    TooLarge,
    Digits {
        /// About its natural logarithm.
        value: f64,
        scale: u32,
        /// After the point of the base's logarithm.
        digits: i64,
    },
}

/// Of a base above zero. An estimate that PostgreSQL makes with 8 digits decides the scale, so its
/// digits are PostgreSQL's.
fn extent_of_power(base: &Numeric, exponent: &Numeric) -> PowerExtent {
    let weight = ln_weight(base);
    let digits = (GUARD_DIGITS - weight).max(0) as u32;
    let bits = bits_of_digits(i64::from(digits)) + GUARD_BITS;
    let ln = rounded_decimal(&fixed_ln(base, bits), bits, digits);
    let product = ln.magnitude() * exponent.magnitude().to_big();
    let product = super::arithmetic::rounded_quotient(&product, &pow10(exponent.scale()));
    let negative = (ln.sign() == Sign::Minus) != exponent.is_negative();
    let size: f64 = format!("{product}e-{digits}").parse().unwrap_or(f64::INFINITY);
    let value = if negative { -size } else { size };
    if value.abs() > EXPONENT_MAX * 1.003_333_333_333_333_3 {
        return if value > 0.0 { PowerExtent::TooLarge } else { PowerExtent::Zero };
    }
    let decimal_weight = (value * LOG10_E) as i64;
    let scale = scale_of(decimal_weight, [base.scale(), exponent.scale()]);
    let significant = (i64::from(scale) + decimal_weight).max(0);
    let digits = significant - weight + 2 * GUARD_DIGITS + digits_near_one(value, scale);
    let digits = digits.max(0);
    PowerExtent::Digits { value, scale, digits }
}

/// Where an integer of 32 bits holds it.
pub(super) fn whole_exponent(exponent: &Numeric) -> Option<i32> {
    let whole = exponent.is_whole().then(|| to_i64(exponent))??;
    i32::try_from(whole).ok()
}

/// The power of ten of e to about this, cut.
pub(super) fn decimal_weight(value: f64) -> i64 {
    (value * LOG10_E).clamp(-WEIGHT_MAX, WEIGHT_MAX) as i64
}

/// Digits after the point for at least 16 that say something, and as many as operands show.
pub(super) fn scale_of(weight: i64, shown: [u32; 2]) -> u32 {
    let significant = (i64::from(SIGNIFICANT_DIGITS_MIN) - weight).max(0);
    let scale = significant.max(i64::from(shown[0])).max(i64::from(shown[1]));
    scale.min(i64::from(DISPLAY_SCALE_MAX)) as u32
}

/// What is too large for a number, or too small for its digits.
fn vanished(value: f64, scale: u32) -> Result<Numeric> {
    match value > 0.0 {
        true => Err(overflow()),
        false => round(&Numeric::ZERO, scale as i32),
    }
}

pub(super) fn bits_of_digits(digits: i64) -> u64 {
    (digits as f64 * BITS_PER_DIGIT) as u64 + 1
}

/// Where the result is so near 1 that `1 + value` may be the middle between two numbers, what
/// `value^2 / 2` adds to it has to be seen.
pub(super) fn digits_near_one(value: f64, scale: u32) -> i64 {
    let exponent = value.abs().to_bits() >> (f64::MANTISSA_DIGITS - 1);
    let bits = (f64::MAX_EXP as i64 - 1 - exponent as i64).max(0);
    let digits = (bits as f64 / BITS_PER_DIGIT) as i64;
    2 * digits.min(i64::from(scale) + 1)
}

pub(super) fn bits_of_exp(value: f64, scale: u32) -> u64 {
    let digits = 1 + (value * LOG10_E) as i64 + i64::from(scale);
    let digits = digits.max(0) + GUARD_DIGITS + digits_near_one(value, scale);
    bits_of_digits(digits) + GUARD_BITS
}

/// PostgreSQL's `estimate_ln_dweight`: the power of ten of the first digit of the logarithm.
pub(super) fn ln_weight(x: &Numeric) -> i64 {
    if x.is_zero() || x.is_negative() || !x.is_finite() {
        return 0;
    }
    let tenths = |tenths: i128| Numeric::from_units(tenths, 1);
    if *x >= tenths(9) && *x <= tenths(11) {
        let Ok(rest) = sub(x, &Numeric::ONE) else { return 0 };
        let (weight, first) = leading_base_10000_digit(&rest);
        return i64::from(weight) * 4 + first.checked_ilog10().map_or(0, i64::from);
    }
    let ln = (estimated_log10(x) * LN_10).abs();
    let mut weight = if ln > 0.1 { 0 } else { -1 };
    let mut power = 10.0;
    while ln >= power {
        weight += 1;
        power *= 10.0;
    }
    weight
}

/// A number in units of `2^-bits`, cut.
fn fixed_of(x: &Numeric, bits: u64) -> BigInt {
    let size = (x.magnitude().to_big() << bits) / pow10(x.scale());
    BigInt::from_biguint(if x.is_negative() { Sign::Minus } else { Sign::Plus }, size)
}

fn multiplied(fixed: &BigInt, by: &Numeric) -> BigInt {
    let size = fixed.magnitude() * by.magnitude().to_big() / pow10(by.scale());
    let negative = (fixed.sign() == Sign::Minus) != by.is_negative();
    BigInt::from_biguint(if negative { Sign::Minus } else { Sign::Plus }, size)
}

/// In other units.
fn shifted(fixed: BigInt, from: u64, to: u64) -> BigInt {
    if to >= from { fixed << (to - from) } else { fixed >> (from - to) }
}

/// Rounded to so many digits after the point.
fn rounded_decimal(fixed: &BigInt, bits: u64, digits: u32) -> BigInt {
    let longer = fixed.magnitude() * pow10(digits) + (BigUint::from(1u32) << (bits - 1));
    BigInt::from_biguint(fixed.sign(), longer >> bits)
}

fn decimal(fixed: &BigInt, bits: u64, scale: u32) -> Result<Numeric> {
    let (sign, size) = rounded_decimal(fixed, bits, scale).into_parts();
    Numeric::of_big(sign == Sign::Minus, size, scale)
}

/// How often a root is taken, where the series after costs about as much.
pub(super) fn roots_of(bits: u64) -> u64 {
    const PRODUCTS_PER_ROOT: u64 = 24;
    (bits / PRODUCTS_PER_ROOT).isqrt().max(1)
}

/// The logarithm of a number above zero in units of `2^-bits`.
fn fixed_ln(x: &Numeric, bits: u64) -> BigInt {
    let roots = roots_of(bits);
    let work = bits + roots + GUARD_BITS / 2;
    let (size, unit) = (x.magnitude().to_big(), pow10(x.scale()));
    let mut exponent = size.bits() as i64 - unit.bits() as i64;
    let shift = work as i64 - exponent;
    let mut near_one = match shift >= 0 {
        true => (size << shift.unsigned_abs()) / unit,
        false => size / (unit << shift.unsigned_abs()),
    };
    // From half to double: 3/4 to 3/2, so that what is near 1 has no part of ln 2.
    let one = BigUint::from(1u32) << work;
    if &near_one * 4u32 < &one * 3u32 {
        near_one <<= 1u32;
        exponent -= 1;
    } else if &near_one * 2u32 >= &one * 3u32 {
        near_one >>= 1u32;
        exponent += 1;
    }
    for _ in 0..roots {
        near_one = (near_one << work).sqrt();
    }
    let (sign, distance) = match near_one >= one {
        true => (Sign::Plus, &near_one - &one),
        false => (Sign::Minus, &one - &near_one),
    };
    let z = (distance << work) / (near_one + &one);
    let series = BigInt::from_biguint(sign, atanh(&z, work) << (roots + 1));
    let whole = BigInt::from(ln_2(work)) * exponent;
    (series + whole) >> (work - bits)
}

/// By its series, of a number below 1/2.
fn atanh(z: &BigUint, bits: u64) -> BigUint {
    let square = (z * z) >> bits;
    let (mut sum, mut term, mut n) = (z.clone(), z.clone(), 1u32);
    loop {
        term = (term * &square) >> bits;
        if term == BigUint::ZERO {
            return sum;
        }
        n += 2;
        sum += &term / n;
    }
}

/// Of the inverse of a small integer.
fn atanh_of_inverse(inverse: u32, bits: u64) -> BigUint {
    let mut term = (BigUint::from(1u32) << bits) / inverse;
    let (mut sum, mut n) = (term.clone(), 1u32);
    let square = inverse * inverse;
    loop {
        term /= square;
        if term == BigUint::ZERO {
            return sum;
        }
        n += 2;
        sum += &term / n;
    }
}

fn ln_2(bits: u64) -> BigUint {
    let work = bits + GUARD_BITS / 2;
    let sum = atanh_of_inverse(26, work) * 18u32 + atanh_of_inverse(8749, work) * 8u32
        - atanh_of_inverse(4801, work) * 2u32;
    sum >> (work - bits)
}

/// How often what is raised is halved first.
pub(super) fn halvings_of(bits: u64) -> u64 {
    bits.isqrt()
}

/// `e` to a number in units of `2^-bits`, which is all that it is good for.
fn finish_exp(fixed: &BigInt, bits: u64, scale: u32, negative: bool) -> Result<Numeric> {
    let halvings = halvings_of(bits);
    let work = bits + 2 * halvings + GUARD_BITS / 2;
    let size = fixed.magnitude() << (work - bits);
    let ln_2 = ln_2(work + GUARD_BITS / 2);
    let (mut exponent, mut rest) = {
        let (whole, rest) = div_rem(&(size << (GUARD_BITS / 2)), &ln_2);
        (to_u128(&whole) as i64, rest)
    };
    if fixed.sign() == Sign::Minus {
        (exponent, rest) = (-exponent - 1, &ln_2 - rest);
    }
    let rest = (rest >> (GUARD_BITS / 2)) >> halvings;
    let mut term = BigUint::from(1u32) << work;
    let (mut power, mut n) = (term.clone(), 1u32);
    loop {
        term = ((term * &rest) >> work) / n;
        if term == BigUint::ZERO {
            break;
        }
        power += &term;
        n += 1;
    }
    for _ in 0..halvings {
        power = (&power * &power) >> work;
    }
    let longer = power * pow10(scale);
    // What is a half but for the errors of its steps is one.
    let longer = &longer + (&longer >> (bits - GUARD_BITS / 4));
    let shift = work as i64 - exponent;
    let shown = match u64::try_from(shift) {
        Ok(shift @ 1..) => (longer + (BigUint::from(1u32) << (shift - 1))) >> shift,
        _ => longer << shift.unsigned_abs(),
    };
    Numeric::of_big(negative, shown, scale)
}
