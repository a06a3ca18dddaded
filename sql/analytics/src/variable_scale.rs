//! Numerics of variable scale: quotients, averages, and what is computed from them.
//!
//! How many digits after the point PostgreSQL gives a quotient depends on the numbers that were
//! divided, so no column of one scale can hold quotients. They are columns of bytes instead, which
//! sort as their numbers do:
//!
//! ```text
//! byte   0 ······························ 23   24
//!        number × 10^28, most significant       digits after the point
//!        byte first, with its sign flipped
//! ```
//!
//! Here a number has at most 96 bits before its scale, which is 28 at most, and 10^28 takes 94, so
//! 192 hold its units and their sign. Others are [refused](too_long).
//! Two that are equal may show different digits, and differ in their last byte: nothing
//! may compare them for equality but by their [values](VALUE_BYTES), or as the row executor does
//! ([`call`](crate::call)). *Cost.* Some 20 ns to write one, twice that to read it.

use datafusion::arrow::datatypes::{DataType as ArrowType, i256};
use types::Result;
use types::numeric::Numeric;

use crate::faults::too_long;

/// Of which the first so many are the value.
pub(crate) const VALUE_BYTES: usize = 24;
pub(crate) const BYTES: usize = VALUE_BYTES + 1;

/// The type of columns of such numbers.
pub(crate) const VARIABLE_SCALE: ArrowType = ArrowType::FixedSizeBinary(BYTES as i32);

/// Digits after the point of the units.
pub(crate) const SCALE: u8 = 28;
/// Bits of a number before its scale.
const SIZE_BITS: u32 = 96;

/// A sum of 192 bits that is added to has 63 more before it overflows.
pub(crate) type Units = i256;

/// What separates the bytes of an [`i256`] from those that are kept: copies of its sign.
const SIGN_BYTES: usize = 32 - VALUE_BYTES;
const SIGN: u8 = 0x80;

fn power(exponent: u8) -> i256 {
    i256::from_i128(10i128.pow(u32::from(exponent)))
}

/// So many units of `10^-scale`, of at most 96 bits, in units of [`SCALE`] digits.
pub(crate) fn units(mantissa: i128, scale: u8) -> Units {
    i256::from_i128(mantissa).wrapping_mul(power(SCALE.saturating_sub(scale)))
}

/// The number of so many units, with so many digits after the point, after which are zeros.
///
/// # Errors
/// Where it has too many digits.
pub(crate) fn number(units: Units, scale: u8) -> Result<Numeric> {
    let shown = units.checked_div(power(SCALE.saturating_sub(scale)));
    let mantissa = shown.and_then(i256::to_i128).ok_or_else(too_long)?;
    Ok(Numeric::from_units(mantissa, scale))
}

/// # Errors
/// Where it has too many digits.
pub(crate) fn encode(number: &Numeric) -> Result<[u8; BYTES]> {
    let scale = u8::try_from(number.scale()).ok().filter(|scale| *scale <= SCALE);
    let size = number.units().filter(|units| units.unsigned_abs() >> SIZE_BITS == 0);
    let (scale, size) = scale.zip(size).ok_or_else(too_long)?;
    let wide = units(size, scale).to_be_bytes();
    let mut bytes = [0; BYTES];
    bytes[..VALUE_BYTES].copy_from_slice(&wide[SIGN_BYTES..]);
    bytes[0] ^= SIGN;
    bytes[VALUE_BYTES] = scale;
    Ok(bytes)
}

/// The units and the digits after the point of what [`encode`] has written.
pub(crate) fn parts(bytes: &[u8]) -> (Units, u8) {
    let sign = if bytes[0] & SIGN == 0 { 0xff } else { 0 };
    let mut wide = [sign; 32];
    wide[SIGN_BYTES..].copy_from_slice(&bytes[..VALUE_BYTES]);
    wide[SIGN_BYTES] ^= SIGN;
    (i256::from_be_bytes(wide), bytes[VALUE_BYTES])
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Numeric> {
    let (units, scale) = parts(bytes);
    number(units, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;

    fn random_number(random: &mut Random) -> Numeric {
        let bits = random.below(97) as u32;
        let mantissa = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
        let mantissa = if bits == 0 { 0 } else { mantissa >> (128 - bits) } as i128;
        let sign = if random.below(2) == 0 { 1 } else { -1 };
        Numeric::from_units(sign * mantissa, random.below(29) as u8)
    }

    #[test]
    fn numbers_keep_value_and_digits_and_sort_as_their_bytes() {
        let mut random = Random::new(4);
        let extremes = [((1 << 96) - 1, 0), (1 - (1 << 96), 0), (0, 0), (-1, 28)];
        let mut all = extremes.map(|(units, scale)| Numeric::from_units(units, scale)).to_vec();
        all.extend((0..2_000).map(|_| random_number(&mut random)));
        for number in &all {
            let again = decode(&encode(number).expect("28 digits")).expect("a number");
            assert!(again.is_identical(number), "{again} {number}");
        }
        for pair in all.windows(2) {
            let bytes = [0, 1].map(|at| encode(&pair[at]).expect("28 digits"));
            assert_eq!(
                pair[0].cmp(&pair[1]),
                bytes[0][..VALUE_BYTES].cmp(&bytes[1][..VALUE_BYTES]),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn no_digit_is_lost() {
        for text in ["1e29", "1e-29", "79228162514264337593543950336", "1e1000"] {
            assert!(encode(&text.parse().expect("a number")).is_err(), "{text}");
        }
    }
}
