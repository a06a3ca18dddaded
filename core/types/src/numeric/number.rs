//! A number in memory, and its order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::BigUint;

use super::errors::overflow;
use crate::error::Result;

/// Most digits after the point.
pub const SCALE_MAX: u32 = 16_383;
/// Most digits before it.
pub const WHOLE_DIGITS_MAX: u32 = 131_072;

/// Magnitudes of so many bits are inline.
const SMALL_BITS: u32 = 96;

/// Binary digits that a decimal one is worth.
pub(super) const BITS_PER_DIGIT: f64 = std::f64::consts::LOG2_10;

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

/// `10^exponent` where it fits.
pub(super) fn small_pow10(exponent: u32) -> Option<u128> {
    POW10.get(exponent as usize).copied()
}

pub(super) fn pow10(exponent: u32) -> BigUint {
    match small_pow10(exponent) {
        Some(power) => BigUint::from(power),
        None => BigUint::from(5u32).pow(exponent) << exponent,
    }
}

/// An exact decimal number.
#[derive(Clone)]
pub struct Numeric(pub(super) Repr);

/// A magnitude below 2^96 is always `Small`, and zero has no sign.
#[derive(Clone)]
pub(super) enum Repr {
    Small { negative: bool, scale: u16, high: u32, low: u64 },
    Large(Arc<Large>),
    Special(Special),
}

pub(super) struct Large {
    negative: bool,
    scale: u16,
    magnitude: BigUint,
}

const _: () = assert!(size_of::<Numeric>() == 16);

/// The digits of a number as an integer.
#[derive(Clone, Copy)]
pub(super) enum Magnitude<'a> {
    Small(u128),
    Large(&'a BigUint),
}

impl Magnitude<'_> {
    pub(super) fn to_big(self) -> BigUint {
        match self {
            Magnitude::Small(size) => BigUint::from(size),
            Magnitude::Large(size) => size.clone(),
        }
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Magnitude::Small(size) => u64::from(u128::BITS - size.leading_zeros()),
            Magnitude::Large(size) => size.bits(),
        }
    }

    /// Times a power of ten.
    pub(super) fn scaled(self, by: u32) -> BigUint {
        match self {
            Magnitude::Small(size) => pow10(by) * size,
            Magnitude::Large(size) if by == 0 => size.clone(),
            Magnitude::Large(size) => size * pow10(by),
        }
    }
}

impl Numeric {
    pub const ZERO: Numeric = Numeric::small(false, 0, 0);
    pub const ONE: Numeric = Numeric::small(false, 1, 0);

    /// The magnitude is below 2^96.
    pub(super) const fn small(negative: bool, magnitude: u128, scale: u16) -> Numeric {
        Numeric(Repr::Small {
            negative: negative && magnitude != 0,
            scale,
            high: (magnitude >> 64) as u32,
            low: magnitude as u64,
        })
    }

    /// Any 128 bits, which are never too many digits.
    #[inline]
    pub(super) fn of_u128(negative: bool, magnitude: u128, scale: u32) -> Numeric {
        debug_assert!(scale <= SCALE_MAX);
        match magnitude >> SMALL_BITS == 0 {
            true => Numeric::small(negative, magnitude, scale as u16),
            false => Numeric::large(negative, BigUint::from(magnitude), scale),
        }
    }

    #[cold]
    pub(super) fn large(negative: bool, magnitude: BigUint, scale: u32) -> Numeric {
        Numeric(Repr::Large(Arc::new(Large { negative, scale: scale as u16, magnitude })))
    }

    /// Any digits.
    ///
    /// # Errors
    /// 22003 where there are too many before the point, or too many after it that are not zero.
    pub(super) fn of_big(
        negative: bool,
        mut magnitude: BigUint,
        mut scale: u32,
    ) -> Result<Numeric> {
        if scale > SCALE_MAX {
            let (shorter, rest) = div_rem(&magnitude, &pow10(scale - SCALE_MAX));
            if rest != BigUint::ZERO {
                return Err(overflow());
            }
            (magnitude, scale) = (shorter, SCALE_MAX);
        }
        if magnitude.bits() <= u64::from(SMALL_BITS) {
            return Ok(Numeric::small(negative, to_u128(&magnitude), scale as u16));
        }
        let digits_max = WHOLE_DIGITS_MAX + scale;
        let sure_bits = (f64::from(digits_max) * BITS_PER_DIGIT) as u64;
        if magnitude.bits() > sure_bits && magnitude >= pow10(digits_max) {
            return Err(overflow());
        }
        Ok(Numeric::large(negative, magnitude, scale))
    }

    /// So many units of `10^-scale`.
    pub fn from_units(units: i128, scale: u8) -> Numeric {
        Numeric::of_u128(units < 0, units.unsigned_abs(), u32::from(scale))
    }

    /// How many units of `10^-scale` it is, where 128 bits hold that.
    pub fn units(&self) -> Option<i128> {
        let (negative, size) = match self.small_parts() {
            Some((negative, size, _)) => (negative, size),
            None if !self.is_finite() => return None,
            None => (self.is_negative(), u128::try_from(&self.magnitude().to_big()).ok()?),
        };
        let units = i128::try_from(size).ok()?;
        Some(if negative { -units } else { units })
    }

    /// How many units of `10^-scale` it is, where that is a whole number that 128 bits hold.
    pub fn units_at(&self, scale: u32) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        match scale.checked_sub(self.scale()) {
            Some(more) => self.units()?.checked_mul(i128::try_from(small_pow10(more)?).ok()?),
            None => {
                let shorter = self.normalize();
                match shorter.scale() <= scale {
                    true => shorter.units_at(scale),
                    false => None,
                }
            }
        }
    }

    /// Digits after the point; none where there are no digits.
    #[inline]
    pub fn scale(&self) -> u32 {
        match &self.0 {
            Repr::Small { scale, .. } => u32::from(*scale),
            Repr::Large(large) => u32::from(large.scale),
            Repr::Special(_) => 0,
        }
    }

    #[inline]
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::Small { negative, .. } => *negative,
            Repr::Large(large) => large.negative,
            Repr::Special(special) => *special == Special::NegativeInfinity,
        }
    }

    #[inline]
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { high: 0, low: 0, .. })
    }

    /// Whether nothing but zeros is behind the point.
    pub fn is_whole(&self) -> bool {
        self.normalize().scale() == 0
    }

    /// Sign, magnitude and scale of one that is inline.
    #[inline]
    pub(super) fn small_parts(&self) -> Option<(bool, u128, u32)> {
        match self.0 {
            Repr::Small { negative, scale, high, low } => {
                Some((negative, u128::from(high) << 64 | u128::from(low), u32::from(scale)))
            }
            Repr::Large(_) | Repr::Special(_) => None,
        }
    }

    /// Of a finite number.
    pub(super) fn magnitude(&self) -> Magnitude<'_> {
        match &self.0 {
            Repr::Small { high, low, .. } => {
                Magnitude::Small(u128::from(*high) << 64 | u128::from(*low))
            }
            Repr::Large(large) => Magnitude::Large(&large.magnitude),
            Repr::Special(_) => Magnitude::Small(0),
        }
    }

    /// Bytes that it has beside itself.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Small { .. } | Repr::Special(_) => 0,
            Repr::Large(large) => (large.magnitude.bits() as usize).div_ceil(8),
        }
    }

    /// The same number without zeros at the end after the point.
    #[must_use]
    pub fn normalize(&self) -> Numeric {
        let Some((negative, mut size, mut scale)) = self.small_parts() else {
            return self.shortest_large();
        };
        if size == 0 {
            return Numeric::ZERO;
        }
        while scale > 0 && size.is_multiple_of(10) {
            size /= 10;
            scale -= 1;
        }
        Numeric::small(negative, size, scale as u16)
    }

    /// Halves the count of zeros that are tried, so that it takes few divisions.
    #[cold]
    fn shortest_large(&self) -> Numeric {
        if !self.is_finite() {
            return self.clone();
        }
        let mut size = self.magnitude().to_big();
        let mut scale = self.scale();
        // A power of ten has as many zero bits at the end as digits.
        let zeros_max = size.trailing_zeros().unwrap_or(0).min(u64::from(scale)) as u32;
        let mut step = zeros_max.checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            if step <= scale {
                let (shorter, rest) = div_rem(&size, &pow10(step));
                if rest == BigUint::ZERO {
                    (size, scale) = (shorter, scale - step);
                }
            }
            step /= 2;
        }
        Numeric::of_big(self.is_negative(), size, scale).unwrap_or_else(|_| self.clone())
    }

    /// Whether also the digits after the point are as many.
    pub fn is_identical(&self, other: &Numeric) -> bool {
        self.scale() == other.scale() && self == other
    }

    /// Between which powers of two its size lies; not for zero.
    pub(super) fn log2_bounds(&self) -> (f64, f64) {
        let bits = self.magnitude().bits() as f64;
        let point = f64::from(self.scale()) * BITS_PER_DIGIT;
        // The product is off by less than one in 2^50.
        (bits - 1.0 - point - 0.01, bits - point + 0.01)
    }

    /// The order of the sizes of two numbers other than zero.
    #[cold]
    fn compare_sizes(&self, other: &Numeric) -> Ordering {
        let ((low, high), (other_low, other_high)) = (self.log2_bounds(), other.log2_bounds());
        if low > other_high {
            return Ordering::Greater;
        }
        if high < other_low {
            return Ordering::Less;
        }
        let scale = self.scale().max(other.scale());
        let at_scale = |d: &Numeric| d.magnitude().scaled(scale - d.scale());
        at_scale(self).cmp(&at_scale(other))
    }
}

pub(super) fn div_rem(a: &BigUint, b: &BigUint) -> (BigUint, BigUint) {
    let quotient = a / b;
    let rest = a - &quotient * b;
    (quotient, rest)
}

/// Of one that fits.
pub(super) fn to_u128(number: &BigUint) -> u128 {
    u128::try_from(number).unwrap_or(u128::MAX)
}

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let (class, other_class) = (self.class(), other.class());
        if class != other_class || !matches!(class, -1 | 1) {
            return class.cmp(&other_class);
        }
        let sizes = match (self.small_parts(), other.small_parts()) {
            (Some((_, x, x_scale)), Some((_, y, y_scale))) => {
                let more = |size: u128, by: u32| small_pow10(by)?.checked_mul(size);
                let (x, y) = match x_scale.cmp(&y_scale) {
                    Ordering::Equal => (Some(x), Some(y)),
                    Ordering::Less => (more(x, y_scale - x_scale), Some(y)),
                    Ordering::Greater => (Some(x), more(y, x_scale - y_scale)),
                };
                match (x, y) {
                    (Some(x), Some(y)) => x.cmp(&y),
                    // What is beyond 128 bits is above what is inline.
                    (None, _) => Ordering::Greater,
                    (_, None) => Ordering::Less,
                }
            }
            _ => self.compare_sizes(other),
        };
        if class < 0 { sizes.reverse() } else { sizes }
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Numeric {}

/// 1.0 and 1.00 are equal, so they hash alike.
impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let shortest = self.normalize();
        shortest.special_code().hash(state);
        shortest.is_negative().hash(state);
        shortest.scale().hash(state);
        match shortest.magnitude() {
            Magnitude::Small(size) => size.hash(state),
            Magnitude::Large(size) => size.hash(state),
        }
    }
}

impl Default for Numeric {
    fn default() -> Numeric {
        Numeric::ZERO
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {
        $(impl From<$integer> for Numeric {
            fn from(integer: $integer) -> Numeric {
                let wide = integer as i128;
                Numeric::of_u128(wide < 0, wide.unsigned_abs(), 0)
            }
        })*
    };
}

from_integers! { i32 u32 i64 u64 i128 }

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Special {
    Infinity,
    NegativeInfinity,
    Nan,
}

impl Numeric {
    pub const NAN: Numeric = Numeric(Repr::Special(Special::Nan));
    pub const INFINITY: Numeric = Numeric(Repr::Special(Special::Infinity));
    pub const NEG_INFINITY: Numeric = Numeric(Repr::Special(Special::NegativeInfinity));

    #[inline]
    pub fn is_finite(&self) -> bool {
        !matches!(self.0, Repr::Special(_))
    }

    pub fn is_nan(&self) -> bool {
        self.special() == Some(Special::Nan)
    }

    pub fn is_infinite(&self) -> bool {
        !self.is_finite() && !self.is_nan()
    }

    pub(super) fn special(&self) -> Option<Special> {
        match self.0 {
            Repr::Special(special) => Some(special),
            _ => None,
        }
    }

    /// Which of them it is, for encodings; the lowest bit is the sign.
    pub(crate) fn special_code(&self) -> Option<u8> {
        self.special().map(|special| match special {
            Special::Infinity => 0,
            Special::NegativeInfinity => 1,
            Special::Nan => 2,
        })
    }

    /// The inverse of [`Numeric::special_code`].
    pub(crate) fn from_special_code(code: u8) -> Option<Numeric> {
        match code {
            0 => Some(Numeric::INFINITY),
            1 => Some(Numeric::NEG_INFINITY),
            2 => Some(Numeric::NAN),
            _ => None,
        }
    }

    /// Classes that are apart from each other, in their order.
    pub(super) fn class(&self) -> i8 {
        match self.special() {
            Some(Special::Nan) => 3,
            Some(Special::Infinity) => 2,
            Some(Special::NegativeInfinity) => -2,
            None if self.is_zero() => 0,
            None if self.is_negative() => -1,
            None => 1,
        }
    }

    /// As PostgreSQL spells it.
    pub(super) fn word(&self) -> Option<&'static str> {
        self.special().map(|special| match special {
            Special::Nan => "NaN",
            Special::Infinity => "Infinity",
            Special::NegativeInfinity => "-Infinity",
        })
    }
}
