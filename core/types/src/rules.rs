//! The clocks of a place as a value: every change of their offset from UTC, in bytes.
//!
//! The time zone database belongs to sessions ([`zone`](crate::zone)). An expression that is
//! evaluated for many rows carries what it needs of the database with it, as a constant, so the
//! evaluator knows no zone and asks no table of names:
//!
//! ```text
//!   | length of the name: u8 | name | at_s: i64, ahead_s: i32 | at_s: i64, ahead_s: i32 | …
//! ```
//!
//! From `at_s` on, in seconds since 2000 and in UTC, clocks are `ahead_s` ahead of UTC; integers
//! are little-endian, changes ascend, and the first is at `i64::MIN`. They end with [`YEAR_MAX`]:
//! rules follow the calendar, which repeats, so a later year has the clocks of one before that
//! begins with the same day of the week.
//!
//! Looking an offset up takes as many steps as the number of changes (some 250) has bits.

use std::sync::Arc;

use bytes::{Buf, BufMut};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};

use crate::zone::Clocks;

/// From this year on the rules are those of earlier years.
pub const YEAR_MAX: i32 = 2100;
/// The first of 28 years in a row that any calendar is found among.
const YEARS_AGAIN: i32 = 2060;

const SECOND_US: i64 = 1_000_000;
/// From 1970 to 2000.
const EPOCH_S: i64 = 946_684_800;
const CHANGE_BYTES: usize = 12;

/// Clocks that [`Rules::of`] has read.
#[derive(Clone, Debug)]
pub struct Rules {
    bytes: Arc<[u8]>,
    changes_at: usize,
}

impl Rules {
    /// `None` for bytes that are no rules.
    pub fn of(bytes: Arc<[u8]>) -> Option<Rules> {
        let changes_at = 1 + usize::from(*bytes.first()?);
        std::str::from_utf8(bytes.get(1..changes_at)?).ok()?;
        let changes = &bytes[changes_at..];
        let is_whole = !changes.is_empty() && changes.len().is_multiple_of(CHANGE_BYTES);
        is_whole.then_some(Rules { bytes, changes_at })
    }

    /// Changes ascend; the first is what holds before all others. A name has at most 255 bytes.
    pub fn encode(name: &str, changes: &[(i64, i32)]) -> Vec<u8> {
        assert!(changes.first().is_some_and(|(at_s, _)| *at_s == i64::MIN), "they begin somewhere");
        assert!(changes.is_sorted_by_key(|(at_s, _)| *at_s), "changes ascend");
        let length = u8::try_from(name.len()).expect("a zone's name is short");
        let mut bytes = Vec::with_capacity(1 + name.len() + changes.len() * CHANGE_BYTES);
        bytes.put_u8(length);
        bytes.put_slice(name.as_bytes());
        for (at_s, ahead_s) in changes {
            bytes.put_i64_le(*at_s);
            bytes.put_i32_le(*ahead_s);
        }
        bytes
    }

    fn changes(&self) -> &[[u8; CHANGE_BYTES]] {
        self.bytes[self.changes_at..].as_chunks().0
    }

    /// The offset of the last change that `is_past`, which holds for changes up to one.
    fn last(&self, is_past: impl Fn(i64, i64) -> bool) -> i64 {
        let changes = self.changes();
        let past = changes.partition_point(|change| {
            let (at_s, ahead_s) = read(change);
            is_past(at_s, ahead_s)
        });
        changes.get(past.saturating_sub(1)).map_or(0, |change| read(change).1)
    }
}

fn read(mut change: &[u8]) -> (i64, i64) {
    (change.get_i64_le(), i64::from(change.get_i32_le()))
}

impl Clocks for Rules {
    fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[1..self.changes_at]).unwrap_or_default()
    }

    fn ahead_s(&self, utc_us: i64) -> i64 {
        let utc_s = in_known_years(utc_us).div_euclid(SECOND_US);
        self.last(|at_s, _| at_s <= utc_s)
    }

    /// A time that is shown twice is the later one: clocks have changed by then. One that is never
    /// shown comes before the change.
    fn ahead_when_shown_s(&self, local_us: i64) -> i64 {
        let local_s = in_known_years(local_us).div_euclid(SECOND_US);
        self.last(|at_s, ahead_s| at_s.saturating_add(ahead_s) <= local_s)
    }

    fn fixed_ahead_s(&self) -> Option<i64> {
        match self.changes() {
            [only] => Some(read(only).1),
            _ => None,
        }
    }
}

/// The same time in a year that the database has rules for; `None`: no calendar has it.
pub fn in_known_year(at: NaiveDateTime) -> Option<NaiveDateTime> {
    if at.year() < YEAR_MAX {
        return Some(at);
    }
    let kind = |year| {
        let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
        Some((first.weekday(), first.leap_year()))
    };
    let wanted = kind(at.year())?;
    let again = (YEARS_AGAIN..YEARS_AGAIN + 28).find(|year| kind(*year) == Some(wanted))?;
    at.with_year(again)
}

fn in_known_years(us: i64) -> i64 {
    let at = us.checked_add(EPOCH_S * SECOND_US).and_then(DateTime::from_timestamp_micros);
    let known = at.and_then(|at| in_known_year(at.naive_utc()));
    known.map_or(us, |known| known.and_utc().timestamp_micros() - EPOCH_S * SECOND_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let bytes = Rules::encode("Here", &[(i64::MIN, 3600), (0, 7200), (100_000, 3600)]);
        let of = |bytes: &[u8]| Rules::of(bytes.into());
        let rules = of(&bytes).unwrap();
        assert_eq!((rules.name(), rules.fixed_ahead_s()), ("Here", None));
        let ahead = |s: i64| rules.ahead_s(s * SECOND_US);
        assert_eq!([-1, 0, 99_999, 100_000].map(ahead), [3600, 7200, 7200, 3600]);
        // Clocks were put forward from 01:00 to 02:00, and back from 29:46:40 by an hour.
        let shown = |s: i64| rules.ahead_when_shown_s(s * SECOND_US);
        assert_eq!([3599, 3600, 7199, 7200].map(shown), [3600, 3600, 3600, 7200]);
        assert_eq!([103_599, 103_600, 107_200].map(shown), [7200, 3600, 3600]);
        for cut in [0, 1, 4, bytes.len() - 1] {
            assert!(of(&bytes[..cut]).is_none(), "{cut}");
        }
        assert!(of(&[1, 0xff, 0]).is_none());
    }
}
