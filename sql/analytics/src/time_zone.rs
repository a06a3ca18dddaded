//! `AT TIME ZONE`: what a clock on the wall of a place shows at a moment, and the other way round.
//!
//! Clocks are those of [`sql::settings::zones`], for as long as the database of zones has rules.

use chrono::{DateTime, Datelike, NaiveDateTime};
use chrono_tz::Tz;
use sql::settings::zones;
use types::{DataType, Error, Result, Value};

use crate::sql_types::EPOCH_US;

/// Names of zones that are abbreviations as well, which have no summer.
const ABBREVIATIONS: [&str; 4] = ["CET", "EET", "MET", "WET"];

/// From this year on the zones' rules for summers are not known here.
const YEAR_MAX: i32 = 2100;

/// The zone of a name, in letters of any case.
pub(crate) fn find(name: &str) -> Option<Tz> {
    if ABBREVIATIONS.iter().any(|short| short.eq_ignore_ascii_case(name)) {
        return None;
    }
    zones::of_place(name)
}

/// A timestamp with a zone as one without, or the other way round.
pub(crate) fn at(zone: Tz, value: Value) -> Result<Value> {
    let moved = |us: i64, sign: i64, ahead_s: fn(Tz, NaiveDateTime) -> i64| match us {
        i64::MIN | i64::MAX => Some(us),
        us => us.checked_add(sign * ahead_s(zone, clock(us)?) * 1_000_000),
    };
    let moved = match value {
        Value::Date(_) => {
            return at(zone, types::cast::cast(&value, &DataType::Timestamptz(None), true)?);
        }
        Value::Timestamptz(us) => moved(us, 1, zones::ahead_s).map(Value::Timestamp),
        Value::Timestamp(us) => moved(us, -1, zones::ahead_when_shown_s).map(Value::Timestamptz),
        _ => return Err(Error::unsupported("AT TIME ZONE of this type")),
    };
    moved.ok_or_else(|| {
        let what = "AT TIME ZONE knows no clocks of that time";
        Error::new(types::SqlState::DATETIME_FIELD_OVERFLOW, what)
    })
}

fn clock(us: i64) -> Option<NaiveDateTime> {
    let shown = DateTime::from_timestamp_micros(us.checked_add(EPOCH_US)?)?.naive_utc();
    (shown.year() < YEAR_MAX).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(zone: &str, text: &str, of: DataType, to: DataType) -> String {
        let value = Value::read_text(&of, text).expect("a time");
        at(find(zone).expect("a zone"), value).expect("a time").to_text(&to)
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn clocks_are_those_of_the_place() {
        let (local, utc) = (DataType::Timestamp(None), DataType::Timestamptz(None));
        for (zone, text, expected) in [
            ("America/New_York", "2020-01-31 12:00:00+00", "2020-01-31 07:00:00"),
            ("america/new_york", "2020-07-31 12:00:00+00", "2020-07-31 08:00:00"),
            ("UTC", "2020-01-31 12:00:00+00", "2020-01-31 12:00:00"),
            ("Asia/Kolkata", "1999-12-31 23:59:59.5+00", "2000-01-01 05:29:59.5"),
        ] {
            assert_eq!(shown(zone, text, utc.clone(), local.clone()), expected);
        }
        for (zone, text, expected) in [
            ("Europe/Berlin", "2020-06-01 12:00:00", "2020-06-01 10:00:00+00"),
            ("Europe/Berlin", "2020-03-29 02:30:00", "2020-03-29 01:30:00+00"),
            ("Europe/Berlin", "2020-10-25 02:30:00", "2020-10-25 01:30:00+00"),
            ("Asia/Kolkata", "2020-06-01 12:00:00", "2020-06-01 06:30:00+00"),
        ] {
            assert_eq!(shown(zone, text, local.clone(), utc.clone()), expected);
        }
    }
}
