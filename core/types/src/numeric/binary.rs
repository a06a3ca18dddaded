//! Numbers as bytes: as storage keeps them, and the digits of PostgreSQL's binary form.

use num_bigint::BigUint;

use super::number::{Magnitude, Numeric, POW10, SCALE_MAX, WHOLE_DIGITS_MAX, pow10};

/// Numbers with magnitudes below 2^80, which is 24 digits, have so many bytes.
const SHORT_BYTES: usize = 12;
const HEADER_BYTES: usize = 2;
const HEADER_BITS: u32 = 16;
/// A header and a magnitude of 96 bits.
const INLINE_BYTES: usize = 14;

/// Set in the header of what has no digits, beside which of them it is.
const SPECIAL: u16 = 1 << 15;

/// The bytes of a number: twice the scale, plus one for a negative one, as two bytes; then the
/// magnitude, the lowest byte first, 10 bytes or as many as it takes. Identical numbers have equal
/// bytes. The highest bit of the header is set for infinity, with the sign beside it, and for
/// `NaN`.
#[inline]
pub fn put_bytes<R>(d: &Numeric, with: impl FnOnce(&[u8]) -> R) -> R {
    let header = match d.special_code() {
        None => (d.scale() as u16) << 1 | u16::from(d.is_negative()),
        Some(code) => SPECIAL | u16::from(code),
    };
    match d.magnitude() {
        Magnitude::Small(size) => {
            let both = size << HEADER_BITS | u128::from(header);
            let used = (u128::BITS - both.leading_zeros()).div_ceil(8) as usize;
            with(&both.to_le_bytes()[..used.max(SHORT_BYTES)])
        }
        Magnitude::Large(size) => {
            let mut bytes = header.to_le_bytes().to_vec();
            bytes.extend(size.to_bytes_le());
            with(&bytes)
        }
    }
}

/// The number that [`put_bytes`] gave them for. Any bytes give some number: readers that check
/// what they read afterwards come here with anything.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Numeric {
    if bytes.len() > INLINE_BYTES {
        return long_from_bytes(bytes);
    }
    let mut wide = [0; 16];
    match <[u8; SHORT_BYTES]>::try_from(bytes) {
        Ok(short) => wide[..SHORT_BYTES].copy_from_slice(&short),
        Err(_) => wide[..bytes.len()].copy_from_slice(bytes),
    }
    let both = u128::from_le_bytes(wide);
    if both as u16 & SPECIAL != 0 {
        return Numeric::from_special_code(both as u8).unwrap_or(Numeric::NAN);
    }
    let (negative, scale) = sign_and_scale(both as u16);
    Numeric::small(negative, both >> HEADER_BITS, scale)
}

fn sign_and_scale(header: u16) -> (bool, u16) {
    (header & 1 == 1, header >> 1 & SCALE_MAX as u16)
}

#[cold]
fn long_from_bytes(bytes: &[u8]) -> Numeric {
    let Some((header, size)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Numeric::ZERO;
    };
    let (negative, scale) = sign_and_scale(u16::from_le_bytes(*header));
    let size = BigUint::from_bytes_le(size);
    Numeric::of_big(negative, size, u32::from(scale)).unwrap_or_default()
}

const _: () = assert!((SCALE_MAX + 1).is_power_of_two());

/// A number whose magnitude comes seven bits a byte, the lowest first, whatever the eighth bits.
/// `None`: there is no such number.
pub(crate) fn from_sevens(negative: bool, sevens: &[u8], scale: u32) -> Option<Numeric> {
    // Seven bits are worth more than two digits.
    if scale > SCALE_MAX || sevens.len() > (WHOLE_DIGITS_MAX + SCALE_MAX) as usize / 2 {
        return None;
    }
    let sevens = sevens.iter().map(|byte| byte & 0x7f);
    if sevens.len() <= SMALL_SEVENS {
        let size = sevens.rev().fold(0, |size, seven| size << 7 | u128::from(seven));
        return Some(Numeric::of_u128(negative, size, scale));
    }
    let sevens: Vec<u8> = sevens.collect();
    Numeric::of_big(negative, BigUint::from_radix_le(&sevens, 128)?, scale).ok()
}

/// So many fit 128 bits.
const SMALL_SEVENS: usize = 18;

impl Numeric {
    /// The magnitude seven bits a byte, the lowest first: the last one, and those before.
    pub(crate) fn with_sevens<R>(&self, with: impl FnOnce(u8, &[u8]) -> R) -> R {
        let sevens = self.magnitude().to_big().to_radix_le(128);
        let (last, before) = sevens.split_last().unwrap_or((&0, &[]));
        with(*last, before)
    }

    /// Its digits of base 10,000, grouped from the point on, the last one first, without zeros at
    /// the start; and how many of them are behind the point.
    pub(crate) fn with_groups<R>(&self, with: impl FnOnce(&[u16], u32) -> R) -> R {
        let scale = self.scale();
        // Digits after the point are grouped from the point on: complete the last group.
        let padding = (4 - scale % 4) % 4;
        let behind = scale.div_ceil(4);
        match self.magnitude() {
            Magnitude::Small(size) => {
                let mut rest = size * POW10[padding as usize];
                let mut groups = [0; SMALL_GROUPS_MAX];
                let mut count = 0;
                while rest > 0 {
                    groups[count] = (rest % 10_000) as u16;
                    rest /= 10_000;
                    count += 1;
                }
                with(&groups[..count], behind)
            }
            Magnitude::Large(size) => {
                let pairs = (size * pow10(padding)).to_radix_le(100);
                let group = |pair: &[u8]| {
                    u16::from(pair[0]) + 100 * pair.get(1).map_or(0, |high| u16::from(*high))
                };
                let groups: Vec<u16> = pairs.chunks(2).map(group).collect();
                with(&groups, behind)
            }
        }
    }

    /// Its decimal digits, the first one first, without zeros at either end; and the power of ten
    /// that `0.digits` is multiplied by. None for zero.
    pub(crate) fn with_significant<R>(&self, with: impl FnOnce(&[u8], i32) -> R) -> R {
        let mut text = match self.magnitude() {
            Magnitude::Small(0) => Vec::new(),
            magnitude => magnitude.to_big().to_radix_be(10),
        };
        let exponent = text.len() as i32 - self.scale() as i32;
        let used = text.iter().rposition(|digit| *digit != 0).map_or(0, |at| at + 1);
        text.truncate(used);
        with(&text, exponent)
    }

    /// Magnitude below 2^96, for the encodings that have a fast way for it.
    pub(crate) fn small_magnitude(&self) -> Option<u128> {
        self.small_parts().map(|(_, size, _)| size)
    }
}

/// 29 decimal digits, of which neither end need fall on a group of four.
const SMALL_GROUPS_MAX: usize = 9;
