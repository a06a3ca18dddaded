//! Which of its fields an interval of a declared type keeps: `interval day to second(3)`.
//!
//! Numbers and names are PostgreSQL's: a modifier is a mask of fields above a precision.

use std::fmt;

use crate::error::{Error, Result, SqlState};

pub(super) const MONTH: u16 = 1 << 1;
pub(super) const YEAR: u16 = 1 << 2;
pub(super) const DAY: u16 = 1 << 3;
pub(super) const HOUR: u16 = 1 << 10;
pub(super) const MINUTE: u16 = 1 << 11;
pub(super) const SECOND: u16 = 1 << 12;
const ALL: u16 = 0x7fff;
const NO_PRECISION: u16 = 0xffff;

/// The most digits of a fraction of a second.
pub const PRECISION_MAX: u8 = 6;

/// Ranges as SQL names them.
const RANGES: [(u16, &str); 13] = [
    (YEAR, "year"),
    (MONTH, "month"),
    (DAY, "day"),
    (HOUR, "hour"),
    (MINUTE, "minute"),
    (SECOND, "second"),
    (YEAR | MONTH, "year to month"),
    (DAY | HOUR, "day to hour"),
    (DAY | HOUR | MINUTE, "day to minute"),
    (DAY | HOUR | MINUTE | SECOND, "day to second"),
    (HOUR | MINUTE, "hour to minute"),
    (HOUR | MINUTE | SECOND, "hour to second"),
    (MINUTE | SECOND, "minute to second"),
];

/// The modifier of an interval's type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fields {
    pub(super) mask: u16,
    pub(super) precision: Option<u8>,
}

impl Default for Fields {
    fn default() -> Fields {
        Fields::ALL
    }
}

impl Fields {
    pub const ALL: Fields = Fields { mask: ALL, precision: None };

    /// By the name of a range (`day to second`, or nothing), and digits of a second's fraction.
    ///
    /// # Errors
    /// 42601 for a range that is none, 22023 for digits where there are no seconds.
    pub fn of(range: &str, precision: Option<u32>) -> Result<Fields> {
        let mask = match range {
            "" => ALL,
            range => RANGES.iter().find(|known| known.1 == range).map(|known| known.0).ok_or_else(
                || {
                    let what = format!("syntax error at or near \"{range}\"");
                    Error::new(SqlState::SYNTAX_ERROR, what)
                },
            )?,
        };
        if precision.is_some() && mask & SECOND == 0 {
            let what = format!("syntax error: interval {range} has no fraction of a second");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        // PostgreSQL reduces it, with a warning.
        let precision = precision.map(|digits| digits.min(u32::from(PRECISION_MAX)) as u8);
        Ok(Fields { mask, precision })
    }

    pub fn typmod(self) -> i32 {
        match self == Fields::default() {
            true => -1,
            false => {
                let precision = self.precision.map_or(NO_PRECISION, u16::from);
                i32::from(self.mask) << 16 | i32::from(precision)
            }
        }
    }

    /// What a modifier says; all fields where it is none.
    pub fn of_typmod(typmod: i32) -> Fields {
        let mask = (typmod >> 16) as u16 & ALL;
        let precision = u8::try_from(typmod & i32::from(NO_PRECISION)).ok();
        let is_known = mask == ALL || RANGES.iter().any(|known| known.0 == mask);
        match typmod >= 0 && is_known {
            true => Fields { mask, precision: precision.filter(|it| *it <= PRECISION_MAX) },
            false => Fields::ALL,
        }
    }
}

/// To so many digits after the second, halves away from zero. What has no room stays.
pub fn rounded(us: i64, digits: u8) -> i64 {
    let unit = 10i64.pow(u32::from(PRECISION_MAX.saturating_sub(digits)));
    let half = us.signum() * (unit / 2);
    us.checked_add(half).map_or(us, |us| us - us % unit)
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, range)) = RANGES.iter().find(|known| known.0 == self.mask) {
            write!(f, " {range}")?;
        }
        match self.precision {
            Some(digits) => write!(f, "({digits})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!(rounded(-1_500_000, 0), -2_000_000);
        assert_eq!(rounded(i64::MAX, 0), i64::MAX);
    }

    #[test]
    fn modifiers_are_postgresqls() {
        let typmod = |range, precision| Fields::of(range, precision).unwrap().typmod();
        assert_eq!(Fields::default().typmod(), -1);
        assert_eq!(typmod("", Some(3)), 2_147_418_115);
        assert_eq!(typmod("year", None), 327_679);
        assert_eq!(typmod("day to second", Some(3)), 470_286_339);
        for (_, range) in RANGES {
            let fields = Fields::of(range, None).unwrap();
            assert_eq!(Fields::of_typmod(fields.typmod()), fields, "{range}");
        }
        let digits = Fields::of("", Some(3)).unwrap();
        assert_eq!(Fields::of_typmod(digits.typmod()), digits);
        assert_eq!(Fields::of_typmod(-1), Fields::ALL);
        assert!(Fields::of("year to day", None).is_err());
        assert!(Fields::of("year", Some(2)).is_err());
        assert_eq!(Fields::of("day to second", Some(3)).unwrap().to_string(), " day to second(3)");
    }
}
