//! What operators on long numbers cost, known before they are done. Numbers that are inline cost
//! nothing beside their operator, unless the point is far before their digits: with zeros in
//! between they are long.

use super::arithmetic::{DISPLAY_SCALE_MAX, division_scale};
use super::powers::{Extent, extent};
use super::{BITS_PER_DIGIT, Numeric};
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

/// Digits behind the point that cost nothing.
const FREE_SCALE: u32 = 64;

#[inline]
fn is_small(d: &Numeric) -> bool {
    d.heap_bytes() == 0 && d.scale() < FREE_SCALE
}

/// Words of the number and of the zeros behind its point.
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

/// Units for giving a number so many digits behind the point.
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
