//! Times of day, with and without an offset from UTC.
//!
//! A `time` is microseconds since midnight, 24:00 included. A `timetz` has seconds west of
//! Greenwich beside it, as PostgreSQL counts them; it is ordered by the moment of a day in UTC,
//! and where that is the same by its offset, so no two different ones are equal.
//!
//! Read are `4:05`, `04:05:06.7`, `040506`, `4:05 PM`, `allballs`, with a date before them, which
//! says nothing, and an offset after.
//!
//! Departures: an offset is a number, `Z`, `UTC` or `GMT`, never the name of a place; no `now`.

use bytes::BufMut;

use crate::datatype::DataType;
use crate::datetime::{self, DAY_US};
use crate::error::{Error, Result, SqlState};
use crate::interval::{HOUR_US, Interval, MINUTE_US, SECOND_US, rounded};
use crate::unicode::is_space;

/// No offset is so large: 16 hours.
const WEST_S_BOUND: i32 = 16 * 3600;

/// A time of day with seconds west of Greenwich.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ZonedTime {
    pub us: i64,
    pub west_s: i32,
}

impl ZonedTime {
    /// The moment of a day in UTC, which may be the one before or after.
    fn utc_us(self) -> i64 {
        self.us + i64::from(self.west_s) * SECOND_US
    }

    pub fn compare(self, other: ZonedTime) -> std::cmp::Ordering {
        (self.utc_us(), self.west_s).cmp(&(other.utc_us(), other.west_s))
    }

    /// Bytes in its order: the moment, then the offset.
    pub fn to_key(self) -> [u8; 12] {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&(self.utc_us() as u64 ^ 1 << 63).to_be_bytes());
        key[8..].copy_from_slice(&(self.west_s as u32 ^ 1 << 31).to_be_bytes());
        key
    }

    pub fn of_key(key: [u8; 12]) -> Result<ZonedTime> {
        let number = key.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
        let west_s = (number as u32 ^ 1 << 31) as i32;
        let utc_us = ((number >> 32) as u64 ^ 1 << 63) as i64;
        let us = utc_us.checked_sub(i64::from(west_s) * SECOND_US);
        check_zoned(us.unwrap_or(-1), west_s)
    }

    /// As clocks elsewhere show it.
    pub fn at(self, west_s: i32) -> ZonedTime {
        let us = self.utc_us() - i64::from(west_s) * SECOND_US;
        ZonedTime { us: us.rem_euclid(DAY_US), west_s }
    }
}

/// # Errors
/// 22008 for what is no time of day.
pub fn check_time(us: i64) -> Result<i64> {
    match (0..=DAY_US).contains(&us) {
        true => Ok(us),
        false => Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range")),
    }
}

pub fn check_zoned(us: i64, west_s: i32) -> Result<ZonedTime> {
    if west_s.unsigned_abs() >= WEST_S_BOUND as u32 {
        return Err(Error::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            "time zone displacement out of range",
        ));
    }
    Ok(ZonedTime { us: check_time(us)?, west_s })
}

/// Rounded to so many digits of a second, if any are named.
pub fn with_precision(us: i64, precision: Option<u8>) -> i64 {
    precision.map_or(us, |digits| rounded(us, digits))
}

/// A time of day moved, around midnight where it must; days and months are none of it.
pub fn moved(us: i64, by_us: i64) -> i64 {
    (us + by_us % DAY_US).rem_euclid(DAY_US)
}

/// The time of day that an interval comes to.
pub fn of_interval(interval: Interval) -> i64 {
    interval.us.rem_euclid(DAY_US)
}

/// `make_time`.
///
/// # Errors
/// 22008 for what is no time of day.
pub fn make(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let in_range = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && second >= 0.0
        && (second * 1e6).round_ties_even() <= 60e6;
    let us = match in_range {
        true => {
            i64::from(hour) * HOUR_US
                + i64::from(minute) * MINUTE_US
                + (second * 1e6).round_ties_even() as i64
        }
        false => i64::MAX,
    };
    if us > DAY_US {
        let what = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, what));
    }
    Ok(us)
}

pub fn write_time(us: i64, out: &mut impl BufMut) {
    datetime::write_of_day(us, out);
}

pub fn write_zoned(time: ZonedTime, out: &mut impl BufMut) {
    datetime::write_of_day(time.us, out);
    datetime::write_offset(-i64::from(time.west_s), out);
}

pub fn read_time(text: &str, precision: Option<u8>) -> Result<i64> {
    let (us, _) = read(text, &DataType::Time(None))?;
    Ok(with_precision(us, precision))
}

/// A time without an offset is one of clocks that are so many seconds ahead of UTC; `None`: what
/// they are cannot be told.
pub fn read_zoned(text: &str, precision: Option<u8>, ahead_s: Option<i64>) -> Result<ZonedTime> {
    let (us, offset_s) = read(text, &DataType::Timetz(None))?;
    let ahead_s = offset_s.or(ahead_s).ok_or_else(|| {
        Error::unsupported("a time of day without an offset in this time zone")
            .with_hint("Write the offset behind it, as in 04:05:06+02.")
    })?;
    Ok(ZonedTime { us: with_precision(us, precision), west_s: -ahead_s as i32 })
}

/// Microseconds of the day, and seconds ahead of UTC where the text says.
fn read(text: &str, data_type: &DataType) -> Result<(i64, Option<i64>)> {
    let trimmed = text.trim_matches(is_space);
    let lower = trimmed.to_ascii_lowercase();
    match lower.as_str() {
        "allballs" => return Ok((0, Some(0))),
        word @ ("now" | "today" | "tomorrow" | "yesterday") => {
            return Err(Error::unsupported(format_args!("input \"{word}\" for type {data_type}")));
        }
        _ => {}
    }
    // A date before it may be needed for the offset of a place, and there are none.
    let of_day = lower
        .split_once([' ', 't'])
        .filter(|(date, _)| {
            date.contains(['-', '/']) && !date.contains(':') && datetime::read_date(date).is_ok()
        })
        .map_or(lower.as_str(), |(_, of_day)| of_day.trim_start_matches(is_space));
    let (us, offset_s) = datetime::read_of_day(of_day, text, data_type)?;
    // A second may be the 60th, but none is after the day.
    if us > DAY_US {
        let what = format!("date/time field value out of range: \"{text}\"");
        return Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, what));
    }
    Ok((us, offset_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, precision: Option<u8>) -> String {
        match read_time(text, precision) {
            Ok(us) => {
                let mut out = Vec::new();
                write_time(us, &mut out);
                String::from_utf8(out).unwrap()
            }
            Err(error) => error.code().to_string(),
        }
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        for (text, precision, expected) in [
            ("04:05:06.789", None, "04:05:06.789"),
            ("4:05", None, "04:05:00"),
            ("040506", None, "04:05:06"),
            ("0405", None, "04:05:00"),
            ("040506.5", None, "04:05:06.5"),
            ("T040506", None, "04:05:06"),
            ("4:05 PM", None, "16:05:00"),
            ("12:05 am", None, "00:05:00"),
            ("12:05 pm", None, "12:05:00"),
            ("24:00", None, "24:00:00"),
            ("23:59:60", None, "24:00:00"),
            ("allballs", None, "00:00:00"),
            ("04:05:06-08", None, "04:05:06"),
            ("2024-01-02 04:05:06", None, "04:05:06"),
            ("2024-01-02T04:05:06Z", None, "04:05:06"),
            ("23:59:59.9999999", None, "24:00:00"),
            ("04:05:06.789", Some(0), "04:05:07"),
            ("04:05:06.789", Some(2), "04:05:06.79"),
            ("24:00:01", None, "22008"),
            ("12:00:60.5", None, "12:01:00.5"),
            ("23:59:60.5", None, "22008"),
            ("25:00", None, "22008"),
            ("04:60", None, "22008"),
            ("13:00 PM", None, "22008"),
            ("4", None, "22007"),
            ("", None, "22007"),
            ("noon", None, "22007"),
        ] {
            assert_eq!(shown(text, precision), expected, "{text}");
        }
    }

    #[test]
    fn times_with_offsets_are_ordered_by_their_moment_and_have_one_key_each() {
        let read = |text: &str| read_zoned(text, None, Some(0)).unwrap();
        let ordered = ["00:00+02", "23:00+14:59", "04:05+00", "05:05+01", "04:05-01", "24:00-12"];
        let mut times = ordered.map(read);
        times.sort_by(|a, b| a.compare(*b));
        for pair in times.windows(2) {
            assert!(pair[0].to_key() < pair[1].to_key(), "{pair:?}");
        }
        for time in times {
            assert_eq!(ZonedTime::of_key(time.to_key()).unwrap(), time);
            let mut out = Vec::new();
            write_zoned(time, &mut out);
            assert_eq!(read(&String::from_utf8(out).unwrap()), time);
        }
        assert_eq!(read("04:05").west_s, 0);
        assert_eq!(read("04:05:06.5+05:30"), ZonedTime { us: 14_706_500_000, west_s: -19_800 });
        assert!(read_zoned("04:05", None, None).is_err());
        assert_eq!(read("04:05+00").at(-3600), ZonedTime { us: 18_300_000_000, west_s: -3600 });
        assert_eq!(moved(HOUR_US, -2 * HOUR_US), 23 * HOUR_US);
    }
}
