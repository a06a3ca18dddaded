//! Numbers that bring their own digits: quotients, averages, and what is computed from them.
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
//! A number has at most 96 bits before its scale, and 10^28 takes 94, so 192 hold its units and
//! their sign. Two that are equal may show different digits, and differ in their last byte: nothing
//! may compare them for equality but by their [values](VALUE_BYTES), or as the fast path does
//! ([`call`](crate::call)). *Cost.* Some 20 ns to write one, twice that to read it.

use datafusion::arrow::datatypes::{DataType as ArrowType, i256};
use rust_decimal::Decimal;
use types::{Error, Result, SqlState, numeric};

/// Of which the first so many are the value.
pub(crate) const VALUE_BYTES: usize = 24;
pub(crate) const BYTES: usize = VALUE_BYTES + 1;

/// The type of columns of such numbers.
pub(crate) const FREE: ArrowType = ArrowType::FixedSizeBinary(BYTES as i32);

/// Digits after the point of the units.
const SCALE: u8 = numeric::SCALE_MAX as u8;

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

/// The number of so many units, with so many digits after the point, as far as they fit.
///
/// # Errors
/// 22003 where its whole part does not.
pub(crate) fn number(units: Units, scale: u8) -> Result<Decimal> {
    let shown = units.checked_div(power(SCALE.saturating_sub(scale)));
    match shown.and_then(i256::to_i128) {
        Some(mantissa) => numeric::from_units(mantissa, scale),
        // Too long for its scale: as many digits as there is room for.
        None if scale > 0 => number(units, scale - 1),
        None => {
            Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"))
        }
    }
}

pub(crate) fn encode(number: Decimal) -> [u8; BYTES] {
    let scale = number.scale() as u8;
    let wide = units(number.mantissa(), scale).to_be_bytes();
    let mut bytes = [0; BYTES];
    bytes[..VALUE_BYTES].copy_from_slice(&wide[SIGN_BYTES..]);
    bytes[0] ^= SIGN;
    bytes[VALUE_BYTES] = scale;
    bytes
}

/// The units and the digits after the point of what [`encode`] has written.
pub(crate) fn parts(bytes: &[u8]) -> (Units, u8) {
    let sign = if bytes[0] & SIGN == 0 { 0xff } else { 0 };
    let mut wide = [sign; 32];
    wide[SIGN_BYTES..].copy_from_slice(&bytes[..VALUE_BYTES]);
    wide[SIGN_BYTES] ^= SIGN;
    (i256::from_be_bytes(wide), bytes[VALUE_BYTES])
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Decimal> {
    let (units, scale) = parts(bytes);
    number(units, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;

    fn random_number(random: &mut Random) -> Decimal {
        let bits = random.below(97) as u32;
        let mantissa = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
        let mantissa = if bits == 0 { 0 } else { mantissa >> (128 - bits) } as i128;
        let sign = if random.below(2) == 0 { 1 } else { -1 };
        Decimal::from_i128_with_scale(sign * mantissa, random.below(29) as u32)
    }

    #[test]
    fn numbers_keep_value_and_digits_and_sort_as_their_bytes() {
        let mut random = Random::new(4);
        let extremes = [Decimal::MAX, Decimal::MIN, Decimal::ZERO, Decimal::new(-1, 28)];
        let mut all: Vec<Decimal> = extremes.into();
        all.extend((0..2_000).map(|_| random_number(&mut random)));
        for number in &all {
            let again = decode(&encode(*number)).expect("a number");
            assert_eq!((again, again.scale()), (*number, number.scale()));
        }
        for pair in all.windows(2) {
            let bytes = [encode(pair[0]), encode(pair[1])];
            assert_eq!(
                pair[0].cmp(&pair[1]),
                bytes[0][..VALUE_BYTES].cmp(&bytes[1][..VALUE_BYTES]),
                "{pair:?}"
            );
        }
    }
}
