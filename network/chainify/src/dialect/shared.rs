//! SQL that PostgreSQL and MariaDB have in common.

use ledger::hash::to_hex;

use crate::schema::Kind;

/// Why a type has no canonical form, and what to use instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Formless(pub &'static str);

/// What stands before a row's text in its image hash, as [`ledger::row_image_hash`] has it.
const IMAGE_TAG: &[u8; 16] = b"tally row v1\0\0\0\0";

pub fn image_tag() -> String {
    to_hex(IMAGE_TAG)
}

/// Where both systems have it.
pub fn numeric(precision: &str, scale: &str) -> Option<Kind> {
    let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_there = precision <= 65 && scale <= 38 && scale <= precision;
    is_there.then_some(Kind::Numeric { precision, scale })
}

/// Whole days and the rest of microseconds: each is exact in every system's arithmetic, which
/// computes intervals in floating point. `None`: the text is no number.
pub fn days_and_microseconds(text: &str) -> Option<(i64, i64)> {
    const DAY_US: i64 = 86_400_000_000;
    let all: i64 = text.parse().ok()?;
    Some((all.div_euclid(DAY_US), all.rem_euclid(DAY_US)))
}
