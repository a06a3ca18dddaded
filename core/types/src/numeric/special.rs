//! `NaN`, `Infinity` and `-Infinity`, and what PostgreSQL makes of operators where one of them is
//! an operand.
//!
//! `NaN` equals itself and is above everything, as indexes need it. Every function here is asked
//! before the others, and tells `None` where all operands are finite.

use super::errors::{complex, division_by_zero, undefined};
use super::number::Numeric;
use super::sign::{abs, infinity, is_odd, neg};
use crate::error::{Error, Result, SqlState};

/// A word for what has no digits, in any case; `NaN` has no sign.
pub fn parse_word(text: &str) -> Option<Numeric> {
    if text.eq_ignore_ascii_case("nan") {
        return Some(Numeric::NAN);
    }
    let word = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_infinite = ["inf", "infinity"].iter().any(|it| word.eq_ignore_ascii_case(it));
    is_infinite.then(|| infinity(text.starts_with('-')))
}

fn all_finite(a: &Numeric, b: &Numeric) -> bool {
    a.is_finite() && b.is_finite()
}

fn one_is_nan(a: &Numeric, b: &Numeric) -> bool {
    a.is_nan() || b.is_nan()
}

pub(super) fn sum(a: &Numeric, b: &Numeric, subtract: bool) -> Option<Numeric> {
    if all_finite(a, b) {
        return None;
    }
    let b = if subtract { &neg(b) } else { b };
    Some(match (a.special(), b.special()) {
        (Some(x), Some(y)) if x != y => Numeric::NAN,
        (Some(_), _) => a.clone(),
        (None, _) => b.clone(),
    })
}

pub(super) fn product(a: &Numeric, b: &Numeric) -> Option<Numeric> {
    if all_finite(a, b) {
        return None;
    }
    let is_nan = one_is_nan(a, b) || a.is_zero() || b.is_zero();
    Some(if is_nan { Numeric::NAN } else { infinity(a.is_negative() != b.is_negative()) })
}

#[inline]
pub(super) fn quotient(a: &Numeric, b: &Numeric) -> Option<Result<Numeric>> {
    if all_finite(a, b) { None } else { Some(special_quotient(a, b)) }
}

#[cold]
fn special_quotient(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    match (a.is_finite(), b.is_finite()) {
        _ if one_is_nan(a, b) => Ok(Numeric::NAN),
        _ if b.is_zero() => Err(division_by_zero()),
        (true, _) => Ok(Numeric::ZERO),
        (false, true) => Ok(infinity(a.is_negative() != b.is_negative())),
        (false, false) => Ok(Numeric::NAN),
    }
}

#[inline]
pub(super) fn rest(a: &Numeric, b: &Numeric) -> Option<Result<Numeric>> {
    if all_finite(a, b) { None } else { Some(special_rest(a, b)) }
}

#[cold]
fn special_rest(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    match a.is_finite() {
        _ if one_is_nan(a, b) => Ok(Numeric::NAN),
        _ if b.is_zero() => Err(division_by_zero()),
        true => Ok(a.clone()),
        false => Ok(Numeric::NAN),
    }
}

/// As POSIX has it for `pow`.
pub(super) fn power(base: &Numeric, exponent: &Numeric) -> Option<Result<Numeric>> {
    if all_finite(base, exponent) { None } else { Some(special_power(base, exponent)) }
}

fn special_power(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    let is_one = |d: &Numeric| d.is_finite() && abs(d) == Numeric::ONE;
    if exponent.is_zero() || *base == Numeric::ONE {
        return Ok(Numeric::ONE);
    }
    if one_is_nan(base, exponent) {
        return Ok(Numeric::NAN);
    }
    if base.is_zero() && exponent.is_negative() {
        return Err(undefined());
    }
    let is_whole = exponent.is_infinite() || exponent.is_whole();
    if base.is_negative() && !is_whole {
        return Err(complex());
    }
    if base.is_zero() {
        return Ok(Numeric::ZERO);
    }
    if is_one(base) {
        return Ok(Numeric::ONE);
    }
    let grows = base.is_infinite() || abs(base) > Numeric::ONE;
    if grows == exponent.is_negative() {
        return Ok(Numeric::ZERO);
    }
    // Of a finite exponent the base is infinite.
    Ok(infinity(base.is_negative() && exponent.is_finite() && is_odd(exponent)))
}

/// Of `sqrt`, `exp` and `ln`, whose errors are reported before.
pub(super) fn itself(x: &Numeric) -> Option<Numeric> {
    if x.is_finite() { None } else { Some(x.clone()) }
}

pub(super) fn log(base: &Numeric, x: &Numeric) -> Option<Result<Numeric>> {
    if all_finite(base, x) { None } else { Some(special_log(base, x)) }
}

fn special_log(base: &Numeric, x: &Numeric) -> Result<Numeric> {
    if one_is_nan(base, x) {
        return Ok(Numeric::NAN);
    }
    // A negative number is told of before a zero.
    let negative = [base, x].into_iter().find(|d| d.is_negative());
    negative.into_iter().chain([base, x]).try_for_each(check_has_logarithm)?;
    Ok(match (base.is_finite(), x.is_finite()) {
        (false, false) => Numeric::NAN,
        (false, true) => Numeric::ZERO,
        (true, _) => Numeric::INFINITY,
    })
}

pub(super) fn check_has_logarithm(x: &Numeric) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::new(SqlState(*b"2201E"), format!("cannot take logarithm of {what}")))
    };
    match x {
        x if x.is_zero() => refuse("zero"),
        x if x.is_negative() => refuse("a negative number"),
        _ => Ok(()),
    }
}
