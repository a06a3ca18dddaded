//! Lengths of time, as far as calendars know one: months, days and microseconds.
//!
//! A month has no fixed number of days and a day, where clocks change, none of hours, so the three
//! stay apart: `1 mon` and `30 days` are two values that a date is moved by differently. They
//! compare as equal all the same, since comparing takes a month for 30 days and a day for 24 hours
//! ([`Interval::span_us`]): equality, hashing and keys go by that, and what is kept of equal ones
//! is any of them.
//!
//! ```text
//! reading   read.rs      PostgreSQL's input styles: `1 day -2:03`, `@ 1 day ago`, `P1DT2H`
//! writing   write.rs     the four of `intervalstyle`
//! fields    fields.rs    `interval day to second(3)`
//! ```
//!
//! Arithmetic is checked: beyond 32 bits of months or days, or 64 of microseconds, there is 22008.
//! Products and quotients go through doubles as PostgreSQL's do, by operations that IEEE 754
//! defines to the bit.

mod fields;
mod read;
mod write;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::datetime::DAY_US;
use crate::error::{Error, Result, SqlState};

pub use fields::{Fields, PRECISION_MAX, rounded};
pub use read::read;
pub use write::{Style, write, write_styled};

pub const SECOND_US: i64 = 1_000_000;
pub const MINUTE_US: i64 = 60 * SECOND_US;
pub const HOUR_US: i64 = 60 * MINUTE_US;
const MONTH_DAYS: i32 = 30;
const YEAR_MONTHS: i32 = 12;

/// A length of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.span_us() == other.span_us()
    }
}

impl Eq for Interval {}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.span_us().cmp(&other.span_us())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.span_us().hash(state);
    }
}

/// 22008: beyond what an interval holds.
pub fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl Interval {
    pub const fn new(months: i32, days: i32, us: i64) -> Interval {
        Interval { months, days, us }
    }

    /// As comparing counts it: a month is 30 days, a day 24 hours.
    pub fn span_us(&self) -> i128 {
        let days = i128::from(self.months) * i128::from(MONTH_DAYS) + i128::from(self.days);
        days * i128::from(DAY_US) + i128::from(self.us)
    }

    /// One of those that last so long, with as many months and days as there can be; `None` where
    /// none does.
    pub fn of_span_us(span_us: i128) -> Option<Interval> {
        let within = |count: i128| count.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let day = i128::from(DAY_US);
        let months = within(span_us / (day * i128::from(MONTH_DAYS)));
        let rest = span_us - i128::from(months) * i128::from(MONTH_DAYS) * day;
        let days = within(rest / day);
        let us = i64::try_from(rest - i128::from(days) * day).ok()?;
        Some(Interval { months, days, us })
    }

    /// Whether its three numbers are another's, which is more than being as long.
    pub fn is_same(&self, other: &Interval) -> bool {
        (self.months, self.days, self.us) == (other.months, other.days, other.us)
    }

    /// The fields that a declared type keeps, rounded as it says.
    pub fn within(self, fields: Fields) -> Interval {
        use fields::{DAY, MINUTE, MONTH, SECOND, YEAR};
        let Interval { mut months, mut days, mut us } = self;
        match fields.mask {
            YEAR => (months, days, us) = (months / YEAR_MONTHS * YEAR_MONTHS, 0, 0),
            MONTH => (days, us) = (0, 0),
            DAY => us = 0,
            mask if mask == YEAR | MONTH => (days, us) = (0, 0),
            mask if mask & SECOND != 0 => {}
            mask if mask & MINUTE != 0 => us -= us % MINUTE_US,
            _ => us -= us % HOUR_US,
        }
        Interval { months, days, us: fields.precision.map_or(us, |digits| rounded(us, digits)) }
    }

    /// PostgreSQL's binary form.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.us.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_be_bytes());
        bytes[12..].copy_from_slice(&self.months.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Interval {
        let number = u128::from_be_bytes(bytes);
        Interval { us: (number >> 64) as i64, days: (number >> 32) as i32, months: number as i32 }
    }

    /// Two words, as storage keeps it.
    pub fn to_words(self) -> [u64; 2] {
        [self.us as u64, u64::from(self.days as u32) << 32 | u64::from(self.months as u32)]
    }

    pub fn from_words([us, rest]: [u64; 2]) -> Interval {
        Interval { us: us as i64, days: (rest >> 32) as i32, months: rest as i32 }
    }

    pub fn plus(self, other: Interval) -> Result<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                us: self.us.checked_add(other.us)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    pub fn minus(self, other: Interval) -> Result<Interval> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                us: self.us.checked_sub(other.us)?,
            })
        };
        difference().ok_or_else(out_of_range)
    }

    pub fn negated(self) -> Result<Interval> {
        Interval::default().minus(self)
    }

    pub fn times(self, factor: f64) -> Result<Interval> {
        self.scaled(|count| count * factor)
    }

    pub fn divided_by(self, divisor: f64) -> Result<Interval> {
        if divisor == 0.0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        self.scaled(|count| count / divisor)
    }

    /// Fractions of months become days, and those of days seconds.
    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Interval> {
        const DAY_S: f64 = 86_400.0;
        let to_us = |seconds: f64| (seconds * 1e6).round_ties_even() / 1e6;
        let (exact_months, exact_days) = (scale(self.months.into()), scale(self.days.into()));
        let (months, mut days) = (whole(exact_months)?, whole(exact_days)?);
        let more_days = to_us((exact_months - f64::from(months)) * f64::from(MONTH_DAYS));
        let of_month = more_days.trunc();
        let mut seconds = to_us((exact_days - f64::from(days) + more_days - of_month) * DAY_S);
        let add = |days: i32, more: f64| days.checked_add(more as i32).ok_or_else(out_of_range);
        if seconds.abs() >= DAY_S {
            let carried = (seconds / DAY_S).trunc();
            days = add(days, carried)?;
            seconds -= carried * DAY_S;
        }
        days = add(days, of_month)?;
        let us = (scale(self.us as f64) + seconds * 1e6).round_ties_even();
        // 2^63 is a double, and one too many.
        if us.is_nan() || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&us)
        {
            return Err(out_of_range());
        }
        Ok(Interval { months, days, us: us as i64 })
    }

    /// Whole days of hours become days.
    pub fn justify_hours(self) -> Result<Interval> {
        let mut days = self.days.checked_add((self.us / DAY_US) as i32).ok_or_else(out_of_range)?;
        let mut us = self.us % DAY_US;
        if days > 0 && us < 0 {
            (days, us) = (days - 1, us + DAY_US);
        } else if days < 0 && us > 0 {
            (days, us) = (days + 1, us - DAY_US);
        }
        Ok(Interval { days, us, ..self })
    }

    /// Every 30 days become a month.
    pub fn justify_days(self) -> Result<Interval> {
        let more = self.days / MONTH_DAYS;
        let mut months = self.months.checked_add(more).ok_or_else(out_of_range)?;
        let mut days = self.days % MONTH_DAYS;
        if months > 0 && days < 0 {
            (months, days) = (months - 1, days + MONTH_DAYS);
        } else if months < 0 && days > 0 {
            (months, days) = (months + 1, days - MONTH_DAYS);
        }
        Ok(Interval { months, days, ..self })
    }

    /// Both, with one sign.
    pub fn justify_interval(self) -> Result<Interval> {
        let days = i64::from(self.days) + self.us / DAY_US;
        let mut us = self.us % DAY_US;
        let months = i64::from(self.months) + days / i64::from(MONTH_DAYS);
        let mut months = i32::try_from(months).map_err(|_| out_of_range())?;
        let mut days = (days % i64::from(MONTH_DAYS)) as i32;
        if months > 0 && (days < 0 || days == 0 && us < 0) {
            (months, days) = (months - 1, days + MONTH_DAYS);
        } else if months < 0 && (days > 0 || days == 0 && us > 0) {
            (months, days) = (months + 1, days - MONTH_DAYS);
        }
        if days > 0 && us < 0 {
            (days, us) = (days - 1, us + DAY_US);
        } else if days < 0 && us > 0 {
            (days, us) = (days + 1, us - DAY_US);
        }
        Ok(Interval { months, days, us })
    }

    /// Years, months, days, hours, minutes, seconds, microseconds, each with its sign.
    pub fn parts(self) -> Parts {
        Parts {
            years: self.months / YEAR_MONTHS,
            months: self.months % YEAR_MONTHS,
            days: self.days,
            hours: self.us / HOUR_US,
            minutes: (self.us / MINUTE_US % 60) as i32,
            seconds: (self.us / SECOND_US % 60) as i32,
            us: (self.us % SECOND_US) as i32,
        }
    }
}

/// An interval, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    pub years: i32,
    pub months: i32,
    pub days: i32,
    pub hours: i64,
    pub minutes: i32,
    pub seconds: i32,
    pub us: i32,
}

/// The whole part of a number of months or days.
fn whole(count: f64) -> Result<i32> {
    match count >= f64::from(i32::MIN) && count <= f64::from(i32::MAX) {
        true => Ok(count as i32),
        false => Err(out_of_range()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_and_rounded_as_postgresql_does() {
        let apply = |range: &str, precision, interval: Interval| {
            let kept = interval.within(Fields::of(range, precision).unwrap());
            (kept.months, kept.days, kept.us)
        };
        let long = Interval::new(14, 3, 4 * HOUR_US + 5 * MINUTE_US + 6_789_500);
        assert_eq!(apply("year", None, long), (12, 0, 0));
        assert_eq!(apply("year to month", None, long), (14, 0, 0));
        assert_eq!(apply("day", None, long), (14, 3, 0));
        assert_eq!(apply("day to hour", None, long), (14, 3, 4 * HOUR_US));
        assert_eq!(apply("hour to minute", None, long), (14, 3, 4 * HOUR_US + 5 * MINUTE_US));
        assert_eq!(apply("day to second", Some(0), long).2 % MINUTE_US, 7_000_000);
        assert_eq!(apply("", Some(3), long).2 % MINUTE_US, 6_790_000);
        assert_eq!(apply("", Some(9), long).2, long.us);
    }

    #[test]
    fn spans_are_found_again_whatever_they_are_made_of() {
        let ends = [i32::MIN, -1, 0, 1, 29, 30, i32::MAX];
        for months in ends {
            for days in ends {
                for us in [i64::MIN, -DAY_US, -1, 0, 1, DAY_US, i64::MAX] {
                    let interval = Interval { months, days, us };
                    let found = Interval::of_span_us(interval.span_us()).unwrap();
                    assert_eq!(found, interval);
                    assert!(Interval::from_bytes(interval.to_bytes()).is_same(&interval));
                    assert!(Interval::from_words(interval.to_words()).is_same(&interval));
                }
            }
        }
        assert_eq!(Interval::of_span_us(i128::MAX), None);
        assert_eq!(Interval::new(1, 0, 0), Interval::new(0, 30, 0));
        assert_eq!(Interval::new(0, 1, 0), Interval::new(0, 0, DAY_US));
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn products_and_justified_ones_are_postgresqls() {
        let read = |text: &str| read(text, Fields::default(), Style::Postgres).unwrap();
        let shown = |interval: Result<Interval>| {
            let mut out = Vec::new();
            write(interval.unwrap(), &mut out);
            String::from_utf8(out).unwrap()
        };
        for (text, factor, expected) in [
            ("1 mon", 1.5, "1 mon 15 days"),
            ("1 year 2 mons 3 days 04:05:06", 0.1, "1 mon 12 days 07:36:30.6"),
            ("3 days", 0.5, "1 day 12:00:00"),
            ("1 mon", -0.25, "-7 days -12:00:00"),
            ("00:00:01", 1e-7, "00:00:00"),
        ] {
            assert_eq!(shown(read(text).times(factor)), expected, "{text} * {factor}");
        }
        assert_eq!(shown(read("1 mon").divided_by(3.0)), "10 days");
        assert_eq!(shown(read("27 hours").justify_hours()), "1 day 03:00:00");
        assert_eq!(shown(read("35 days").justify_days()), "1 mon 5 days");
        assert_eq!(shown(read("1 mon -1 hour").justify_interval()), "29 days 23:00:00");
        let code = |result: Result<Interval>| result.unwrap_err().code();
        let overflow = SqlState::DATETIME_FIELD_OVERFLOW;
        assert_eq!(code(read("2147483647 days").times(2.0)), overflow);
        assert_eq!(code(read("1 day").times(f64::NAN)), overflow);
        assert_eq!(code(Interval::new(i32::MIN, 0, 0).negated()), overflow);
        assert_eq!(code(Interval::new(0, 0, i64::MAX).times(1.0001)), overflow);
        assert_eq!(code(read("1 day").divided_by(0.0)), SqlState::DIVISION_BY_ZERO);
    }
}
