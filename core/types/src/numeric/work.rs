//! What operators on long numbers cost, known before they are done. Numbers that are inline cost
//! nothing beside their operator, unless the point is far before their digits: with zeros in
//! between they are long.

use super::arithmetic::{DISPLAY_SCALE_MAX, division_scale};
use super::logarithms::{
    EXPONENT_MAX, GUARD_DIGITS, bits_of_digits, bits_of_exp, decimal_weight, digits_near_one,
    extent_of_log, halvings_of, ln_weight, roots_of, scale_of, whole_exponent,
};
use super::number::{BITS_PER_DIGIT, Numeric};
use super::powers::{Extent, extent};
use super::text::to_f64;
use crate::arithmetic::ArithmeticOp;

/// Products of two words that a unit pays for.
const PRODUCTS_PER_UNIT: u64 = 8;

fn words(d: &Numeric) -> u64 {
    d.magnitude().bits().div_ceil(64)
}

/// Words that so many decimal digits take.
fn words_of_digits(digits: u32) -> u64 {
    (f64::from(digits) * BITS_PER_DIGIT / 64.0) as u64 + 1
}

fn products(a: u64, b: u64) -> u64 {
    a.saturating_mul(b) / PRODUCTS_PER_UNIT + a + b
}

/// Digits after the point that cost nothing.
const FREE_SCALE: u32 = 64;

#[inline]
fn is_small(d: &Numeric) -> bool {
    d.heap_bytes() == 0 && d.scale() < FREE_SCALE
}

/// Words of the number and of the zeros after its point.
fn shown_words(d: &Numeric) -> u64 {
    words(d).max(words_of_digits(d.scale()))
}

/// Units for `a op b`.
#[inline]
pub fn of_operator(op: ArithmeticOp, a: &Numeric, b: &Numeric) -> u64 {
    match is_small(a) && is_small(b) {
        true => 0,
        false => of_long(op, a, b),
    }
}

#[cold]
fn of_long(op: ArithmeticOp, a: &Numeric, b: &Numeric) -> u64 {
    let aligned = of_alignment(a, b);
    let (x, y) = (words(a), words(b));
    match op {
        ArithmeticOp::Add | ArithmeticOp::Sub => aligned + x + y,
        ArithmeticOp::Mul => products(x, y),
        ArithmeticOp::Mod => aligned + products(x + y + aligned_words(a, b), y),
        ArithmeticOp::Div if b.is_zero() => 0,
        ArithmeticOp::Div => {
            let longer = division_scale(a, b) + b.scale();
            products(x + words_of_digits(longer), y + words_of_digits(a.scale()))
        }
    }
}

fn aligned_words(a: &Numeric, b: &Numeric) -> u64 {
    words_of_digits(a.scale().abs_diff(b.scale()))
}

/// Units for giving two numbers one scale.
pub fn of_alignment(a: &Numeric, b: &Numeric) -> u64 {
    match (is_small(a) && is_small(b)) || a.scale() == b.scale() {
        true => 0,
        false => products(words(a).max(words(b)), aligned_words(a, b)),
    }
}

/// Units for the text of a number or for another scale of it.
#[inline]
pub fn of_digits(d: &Numeric) -> u64 {
    match is_small(d) {
        true => 0,
        false => products(words(d), words(d)) + shown_words(d),
    }
}

/// Units for giving a number so many digits after the point.
pub fn of_scale(d: &Numeric, scale: i32) -> u64 {
    let more = u32::try_from(i64::from(scale) - i64::from(d.scale())).unwrap_or(0);
    match is_small(d) && more < FREE_SCALE {
        true => 0,
        false => products(words(d), words(d).max(words_of_digits(more.min(super::SCALE_MAX)))),
    }
}

/// Units for reading a text of so many bytes as a number.
pub fn of_text(bytes: usize) -> u64 {
    let words = words_of_digits(u32::try_from(bytes.min(1 << 18)).unwrap_or(u32::MAX));
    if bytes < 64 { 0 } else { products(words, words) }
}

/// Units for a root: some divisions of twice its digits.
pub fn of_root(d: &Numeric) -> u64 {
    const DIVISIONS: u64 = 8;
    let words = words(d) + words_of_digits(DISPLAY_SCALE_MAX.min(d.scale() + 16));
    if is_small(d) { 0 } else { DIVISIONS * products(words, words) }
}

/// Units for `base ^ exponent`: of as many squarings as there are with all digits.
pub fn of_power(base: &Numeric, exponent: i32) -> u64 {
    if !base.is_finite() {
        return 0;
    }
    let significant = match extent(base, exponent) {
        Extent::Known => return of_digits(base),
        Extent::Zero | Extent::TooLarge => return words(base),
        Extent::Digits { significant, .. } => significant,
    };
    let words = words_of_digits(u32::try_from(significant).unwrap_or(u32::MAX)).max(words(base));
    // Numbers below have half the digits, and theirs half again.
    let growing = (words / words_of_digits(decimal_bound(base))).max(1).ilog2();
    let squarings = exponent.unsigned_abs().max(1).ilog2() + 1;
    u64::from(squarings.saturating_sub(growing) + 2) * 2 * products(words, words)
}

/// No fewer than the decimal digits that a number has.
fn decimal_bound(d: &Numeric) -> u32 {
    (d.magnitude().bits() as f64 / BITS_PER_DIGIT) as u32 + 1
}

/// Units for a step of a series on so many bits.
fn of_steps(steps: u64, bits: u64) -> u64 {
    const UNITS_BESIDE: u64 = 9;
    let words = bits / 64 + 2;
    steps.saturating_mul(UNITS_BESIDE + words + words * words / PRODUCTS_PER_UNIT)
}

/// Units for the logarithm of 2 to so many bits, whose steps are divisions by small numbers.
fn of_ln_2(bits: u64) -> u64 {
    bits / 5 * (UNITS_OF_SHORT_DIVISION + bits / 512)
}

const UNITS_OF_SHORT_DIVISION: u64 = 3;

fn of_ln_to(bits: u64) -> u64 {
    /// What a root costs, which is found by divisions.
    const STEPS_PER_ROOT: u64 = 12;
    let roots = roots_of(bits);
    of_steps(STEPS_PER_ROOT * roots + bits / (2 * roots + 4), bits) + of_ln_2(bits)
}

fn of_exp_to(bits: u64) -> u64 {
    let halvings = halvings_of(bits);
    of_steps(halvings + bits / (halvings + 4), bits) + of_ln_2(bits)
}

/// Units for `exp`.
pub fn of_exp(x: &Numeric) -> u64 {
    if !x.is_finite() {
        return 0;
    }
    let value = to_f64(x);
    if value.abs() >= EXPONENT_MAX {
        return of_digits(x);
    }
    let scale = scale_of(decimal_weight(value), [x.scale(), 0]);
    of_digits(x) + of_exp_to(bits_of_exp(value, scale))
}

/// Units for `ln`.
pub fn of_ln(x: &Numeric) -> u64 {
    let digits = i64::from(scale_of(ln_weight(x), [x.scale(), 0]));
    of_digits(x) + of_ln_to(bits_of_digits(digits))
}

/// Units for `log` to a base.
pub fn of_log(base: &Numeric, x: &Numeric) -> u64 {
    let (_, digits) = extent_of_log(base, x);
    of_digits(base) + of_digits(x) + 2 * of_ln_to(bits_of_digits(digits))
}

/// Units for `base ^ exponent`, whatever that is.
pub fn of_power_of(base: &Numeric, exponent: &Numeric) -> u64 {
    let read = of_digits(base) + of_digits(exponent);
    if !(base.is_finite() && exponent.is_finite()) {
        return read;
    }
    if let Some(whole) = whole_exponent(exponent) {
        return read + of_power(base, whole);
    }
    if base.is_zero() {
        return read;
    }
    // No less than what decides it.
    let weight = ln_weight(base);
    let value = (to_f64(exponent).abs() * power_of_ten(weight + 1)).min(EXPONENT_MAX);
    let scale = scale_of(-decimal_weight(value), [base.scale(), exponent.scale()]);
    let significant = i64::from(scale) + decimal_weight(value);
    let digits = significant - weight + GUARD_DIGITS + digits_near_one(value / 10.0, scale);
    let estimate = bits_of_digits(GUARD_DIGITS - weight);
    read + of_ln_to(estimate)
        + of_ln_to(bits_of_digits(digits))
        + of_exp_to(bits_of_exp(value, scale))
}

fn power_of_ten(exponent: i64) -> f64 {
    let power = |exponent: i64| (0..exponent.min(400)).fold(1.0, |power: f64, _| power * 10.0);
    if exponent >= 0 { power(exponent) } else { 1.0 / power(-exponent) }
}
