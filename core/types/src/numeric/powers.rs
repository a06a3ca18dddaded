//! `sqrt` and whole powers, with PostgreSQL's scales.

use num_bigint::BigUint;

use super::arithmetic::{
    DISPLAY_SCALE_MAX, SIGNIFICANT_DIGITS_MIN, div_at, leading_base_10000_digit,
};
use super::errors::{overflow, undefined};
use super::number::{BITS_PER_DIGIT, Numeric, WHOLE_DIGITS_MAX, pow10, small_pow10, to_u128};
use super::rounding::{of_quotient, round};
use super::special;
use crate::error::{Error, Result, SqlState};

/// Digits that `power` computes beyond those it shows.
const GUARD_DIGITS: i64 = 8;

/// Rounded half away from zero: a root with one digit more, cut, decides it, because a root that is
/// not exact has no last digit.
pub fn sqrt(d: &Numeric) -> Result<Numeric> {
    if d.is_negative() {
        let what = "cannot take square root of a negative number";
        return Err(Error::new(SqlState(*b"2201F"), what));
    }
    if let Some(root) = special::itself(d) {
        return Ok(root);
    }
    let (weight, _) = leading_base_10000_digit(d);
    // A root has half the digits before the point, in the count of PostgreSQL.
    let root_digits = if d.is_zero() { 1 } else { weight * 2 + 1 };
    let significant = (SIGNIFICANT_DIGITS_MIN - root_digits).max(0) as u32;
    sqrt_at(d, significant.max(d.scale()).min(DISPLAY_SCALE_MAX))
}

/// The root of a finite number that is not negative, rounded to so many digits after the point.
pub fn sqrt_at(d: &Numeric, scale: u32) -> Result<Numeric> {
    let longer = 2 * (i64::from(scale) + 1) - i64::from(d.scale());
    if let Some((_, size, _)) = d.small_parts()
        && let Ok(longer) = u32::try_from(longer)
        && let Some(size) = small_pow10(longer).and_then(|power| size.checked_mul(power))
    {
        let root = size.isqrt();
        return Ok(Numeric::of_u128(false, (root + 5) / 10, scale));
    }
    let size = match u32::try_from(longer) {
        Ok(longer) => d.magnitude().scaled(longer),
        Err(_) => d.magnitude().to_big() / pow10(longer.unsigned_abs() as u32),
    };
    of_quotient(false, &size.sqrt(), &BigUint::from(10u32), scale)
}

/// What there is to compute for a power.
pub(super) enum Extent {
    /// 0, 1 and -1 as exponent, 0 as base.
    Known,
    /// Digits of both sides of the point, besides those that make up for errors of rounding.
    Digits {
        significant: i64,
        shown: u32,
    },
    /// Nothing is left of it but zeros.
    Zero,
    TooLarge,
}

fn scale_of_power(base: &Numeric) -> u32 {
    base.scale().max(SIGNIFICANT_DIGITS_MIN as u32).min(DISPLAY_SCALE_MAX)
}

pub(super) fn extent(base: &Numeric, exponent: i32) -> Extent {
    if base.is_zero() || (-1..=1).contains(&exponent) {
        return Extent::Known;
    }
    let shown = scale_of_power(base);
    // Decimal digits before the point of the result, or how many zeros are behind it, about.
    let digits = estimated_log10(base) * f64::from(exponent);
    if digits > f64::from(WHOLE_DIGITS_MAX) + 1.0 {
        return Extent::TooLarge;
    }
    if digits + 1.0 < -f64::from(shown) {
        return Extent::Zero;
    }
    let times = i64::from(exponent.unsigned_abs().ilog10());
    let significant = 1 + i64::from(shown) + digits.abs() as i64 + times + 2 * GUARD_DIGITS;
    Extent::Digits { significant, shown }
}

/// `base ^ exponent` for a whole exponent. Rounded, as PostgreSQL's: to the base's digits after
/// the point, 16 at least.
pub fn power(base: &Numeric, exponent: i32) -> Result<Numeric> {
    let (significant, scale) = match extent(base, exponent) {
        Extent::Known => return known_power(base, exponent),
        Extent::TooLarge => return Err(overflow()),
        Extent::Zero => return round(&Numeric::ZERO, scale_of_power(base) as i32),
        Extent::Digits { significant, shown } => (significant, shown),
    };
    let negative = base.is_negative() && exponent % 2 != 0;
    let mut square = Rough::of(base, significant);
    let mut product: Option<Rough> = None;
    let mut bits = exponent.unsigned_abs();
    loop {
        if bits & 1 == 1 {
            product = Some(product.map_or_else(|| square.clone(), |sofar| sofar.times(&square)));
        }
        bits >>= 1;
        if bits == 0 {
            break;
        }
        square = square.times(&square);
    }
    let product = product.unwrap_or(square);
    match exponent < 0 {
        true => product.reciprocal(negative, scale),
        false => product.finish(negative, scale),
    }
}

fn known_power(base: &Numeric, exponent: i32) -> Result<Numeric> {
    let scale = scale_of_power(base);
    match exponent {
        0 => round(&Numeric::ONE, scale as i32),
        1 => round(base, scale as i32),
        _ if base.is_zero() && exponent < 0 => Err(undefined()),
        _ if base.is_zero() => round(&Numeric::ZERO, scale as i32),
        _ => div_at(&Numeric::ONE, base, scale),
    }
}

/// Multiplications and an exponent of two only, which IEEE 754 defines to the bit; good to ten
/// digits, which is enough to choose how many are computed and shown.
pub(super) fn estimated_log10(d: &Numeric) -> f64 {
    let size = d.magnitude().to_big();
    let bits = size.bits();
    // The first 53 bits as a number from 1 to 2, and its logarithm by a polynomial.
    let first = match bits > 53 {
        true => to_u128(&(&size >> (bits - 53))) as f64 / (1u64 << 52) as f64,
        false => to_u128(&size) as f64 / (1u64 << (bits - 1)) as f64,
    };
    let log2 = log2_from_1_to_2(first);
    ((bits - 1) as f64 + log2) / BITS_PER_DIGIT - f64::from(d.scale())
}

/// One bit of the logarithm after another, by squaring.
fn log2_from_1_to_2(mut x: f64) -> f64 {
    let (mut log, mut bit) = (0.0, 0.5);
    for _ in 0..40 {
        x *= x;
        if x >= 2.0 {
            x /= 2.0;
            log += bit;
        }
        bit /= 2.0;
    }
    log
}

/// A number cut to some significant digits: `size * 10^-scale`.
#[derive(Clone)]
struct Rough {
    size: BigUint,
    scale: i64,
    significant: i64,
}

impl Rough {
    fn of(d: &Numeric, significant: i64) -> Rough {
        Rough { size: d.magnitude().to_big(), scale: i64::from(d.scale()), significant }
    }

    fn times(&self, other: &Rough) -> Rough {
        let mut product = Rough {
            size: &self.size * &other.size,
            scale: self.scale + other.scale,
            significant: self.significant,
        };
        let digits = (product.size.bits() as f64 / BITS_PER_DIGIT) as i64;
        // Digits before the point are kept: a whole number to a whole power is exact.
        let spare = (digits - self.significant).min(product.scale);
        if let Ok(spare @ 1..) = u32::try_from(spare) {
            product.size /= pow10(spare);
            product.scale -= i64::from(spare);
        }
        product
    }

    fn finish(self, negative: bool, scale: u32) -> Result<Numeric> {
        let longer = i64::from(scale) - self.scale;
        let by = pow10(longer.unsigned_abs() as u32);
        match longer >= 0 {
            true => Numeric::of_big(negative, self.size * by, scale),
            false => of_quotient(negative, &self.size, &by, scale),
        }
    }

    fn reciprocal(self, negative: bool, scale: u32) -> Result<Numeric> {
        let longer = i64::from(scale) + self.scale;
        let by = pow10(u32::try_from(longer).map_err(|_| overflow())?);
        of_quotient(negative, &by, &self.size, scale)
    }
}
