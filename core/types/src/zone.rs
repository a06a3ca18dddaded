//! Time zones: conversion between a moment in UTC and the local time that clocks show.
//!
//! A `timestamptz` is a moment and has no zone. The zone matters only where a moment is converted
//! to text, a date or a timestamp without time zone, or back. That happens in the session; blocks
//! compute in UTC, so the time zone database, which changes every year, never affects an outcome.
//! It is supplied by the caller ([`Clocks`]).
//!
//! A local time that a forward change of the clocks leaves out is read with the offset before the
//! change; one that occurs twice is read as the later moment. PostgreSQL does the same.

use std::fmt;
use std::sync::Arc;

use bytes::BufMut;
use compact_str::CompactString;

use crate::cast::cast;
use crate::datatype::DataType;
use crate::datetime::{self, check_timestamp};
use crate::error::{Error, Result, SqlState};
use crate::value::Value;

/// The clocks of a place.
pub trait Clocks: fmt::Debug + Send + Sync {
    /// As SHOW gives it.
    fn name(&self) -> &str;

    /// By how many seconds they are ahead of UTC, at a moment in microseconds since 2000.
    fn ahead_s(&self, utc_us: i64) -> i64;

    /// The same, when they show `local_us`.
    fn ahead_when_shown_s(&self, local_us: i64) -> i64;
}

/// A session's time zone.
#[derive(Clone, Debug, Default)]
pub struct Zone(Option<Arc<dyn Clocks>>);

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Zone {
    pub fn of(clocks: Arc<dyn Clocks>) -> Zone {
        Zone(Some(clocks))
    }

    pub fn is_utc(&self) -> bool {
        self.0.is_none()
    }

    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("UTC", |clocks| clocks.name())
    }

    fn ahead_s(&self, us: i64) -> i64 {
        self.0.as_ref().map_or(0, |clocks| clocks.ahead_s(us))
    }

    /// What clocks show at a moment.
    pub fn shown(&self, us: i64) -> Result<i64> {
        check_timestamp(us.saturating_add(self.ahead_s(us) * 1_000_000))
    }

    /// When clocks show this.
    pub fn when_shown(&self, local_us: i64) -> Result<i64> {
        let ahead_s = self.0.as_ref().map_or(0, |clocks| clocks.ahead_when_shown_s(local_us));
        check_timestamp(local_us.saturating_sub(ahead_s * 1_000_000))
    }

    /// Whether a conversion is another one in another zone.
    pub fn matters(from: &DataType, to: &DataType) -> bool {
        use DataType as T;
        let is_shown = |t: &T| t.is_string() || matches!(t, T::Unknown | T::Date | T::Timestamp);
        match (from, to) {
            (T::Array(from), T::Array(to)) => Zone::matters(from, to),
            (T::Array(from), to) if to.is_string() => Zone::matters(from, to),
            (from, T::Array(to)) if from.is_string() || *from == T::Unknown => {
                Zone::matters(from, to)
            }
            (T::Timestamptz, other) | (other, T::Timestamptz) => is_shown(other),
            _ => false,
        }
    }

    /// [`cast`] as a session in this zone means it.
    pub fn cast(&self, value: &Value, to: &DataType, explicit: bool) -> Result<Value> {
        use DataType as T;
        match (value, to) {
            _ if self.is_utc() => cast(value, to, explicit),
            (Value::Timestamptz(us), T::Date | T::Timestamp) => {
                cast(&Value::Timestamp(self.shown(*us)?), to, explicit)
            }
            (Value::Timestamptz(_), to) if to.is_string() => {
                let mut text = Vec::new();
                value.write_text_in(&T::Timestamptz, self, &mut text);
                cast(&Value::from(String::from_utf8_lossy(&text).into_owned()), to, explicit)
            }
            (Value::Date(_) | Value::Timestamp(_), T::Timestamptz) => {
                match cast(value, &T::Timestamp, true)? {
                    Value::Timestamp(us) => self.when_shown(us).map(Value::Timestamptz),
                    other => Ok(other),
                }
            }
            (Value::Text(text), T::Timestamptz) => Value::read_text_in(to, text, self),
            (Value::Text(text), T::Array(element)) if **element == T::Timestamptz => {
                Value::read_text_in(to, text, self)
            }
            (Value::Array(elements), T::Array(to)) => {
                let cast = |element: &Value| match element {
                    Value::Null => Ok(Value::Null),
                    element => self.cast(element, to, explicit),
                };
                Ok(Value::from(elements.iter().map(cast).collect::<Result<Vec<_>>>()?))
            }
            (Value::Array(elements), _)
                if elements.iter().any(|value| matches!(value, Value::Timestamptz(_))) =>
            {
                Err(Error::unsupported("an array of timestamps as text in this time zone"))
            }
            _ => cast(value, to, explicit),
        }
    }
}

impl Value {
    /// [`Value::write_text`], as clocks of a zone show it.
    pub fn write_text_in(&self, data_type: &DataType, zone: &Zone, out: &mut impl BufMut) {
        match (self, data_type) {
            (Value::Timestamptz(us), _) if !zone.is_utc() => {
                datetime::write_timestamptz_ahead(*us, zone.ahead_s(*us), out);
            }
            (Value::Array(elements), DataType::Array(element))
                if !zone.is_utc() && **element == DataType::Timestamptz =>
            {
                let text = |value: &Value| match value {
                    Value::Null => Value::Null,
                    value => {
                        let mut text = Vec::new();
                        value.write_text_in(element, zone, &mut text);
                        Value::Text(CompactString::from_utf8_lossy(&text))
                    }
                };
                let texts = Value::from(elements.iter().map(text).collect::<Vec<_>>());
                texts.write_text(&DataType::Array(Box::new(DataType::Text)), out);
            }
            _ => self.write_text(data_type, out),
        }
    }

    /// [`Value::read_text`], where a time without an offset is one that clocks of a zone show.
    pub fn read_text_in(data_type: &DataType, text: &str, zone: &Zone) -> Result<Value> {
        match data_type {
            _ if zone.is_utc() => Value::read_text(data_type, text),
            DataType::Timestamptz => {
                let (local_us, offset_s) = datetime::read_shown(text)?;
                let us = match offset_s {
                    Some(offset_s) => check_timestamp(local_us - offset_s * 1_000_000),
                    None => zone.when_shown(local_us),
                };
                us.map(Value::Timestamptz).map_err(|error| match error.code() {
                    SqlState::DATETIME_FIELD_OVERFLOW => Error::new(
                        SqlState::DATETIME_FIELD_OVERFLOW,
                        format!("timestamp out of range: \"{text}\""),
                    ),
                    _ => error,
                })
            }
            DataType::Array(element) if **element == DataType::Timestamptz => {
                let texts = Value::read_text(&DataType::Array(Box::new(DataType::Text)), text)?;
                zone.cast(&texts, data_type, true)
            }
            _ => Value::read_text(data_type, text),
        }
    }

    /// Whether a text says a moment by itself, as its offset tells.
    pub fn says_offset(text: &str) -> bool {
        datetime::read_shown(text).is_ok_and(|(_, offset_s)| offset_s.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour ahead from 2000-01-02 00:00 UTC on, two hours from the third on, then none.
    #[derive(Debug)]
    struct Steps;

    const HOUR_US: i64 = 3_600_000_000;

    impl Clocks for Steps {
        fn name(&self) -> &str {
            "Steps"
        }

        fn ahead_s(&self, utc_us: i64) -> i64 {
            if utc_us < 24 * HOUR_US { 3600 } else { 5400 }
        }

        fn ahead_when_shown_s(&self, local_us: i64) -> i64 {
            if local_us < 25 * HOUR_US { 3600 } else { 5400 }
        }
    }

    #[test]
    fn moments_are_shown_and_read_by_the_zones_clocks() {
        let zone = Zone::of(Arc::new(Steps));
        let (tz, text) = (DataType::Timestamptz, DataType::Text);
        let shown = |us: i64| zone.cast(&Value::Timestamptz(us), &text, true).unwrap();
        assert_eq!(shown(0), Value::text("2000-01-01 01:00:00+01"));
        assert_eq!(shown(24 * HOUR_US), Value::text("2000-01-02 01:30:00+01:30"));
        for us in [0, 5 * HOUR_US, 30 * HOUR_US] {
            let read = zone.cast(&shown(us), &tz, true).unwrap();
            assert_eq!(read, Value::Timestamptz(us));
            let local = zone.cast(&read, &DataType::Timestamp, true).unwrap();
            assert_eq!(zone.cast(&local, &tz, true).unwrap(), read);
        }
        let read = |text: &str| Value::read_text_in(&tz, text, &zone).unwrap();
        assert_eq!(read("2000-01-01 01:00"), Value::Timestamptz(0));
        assert_eq!(read("2000-01-01 01:00+00"), Value::Timestamptz(HOUR_US));
        assert_eq!(read("2000-01-01 01:00Z"), Value::Timestamptz(HOUR_US));
        assert_eq!(read("epoch"), Value::Timestamptz(-10_957 * 24 * HOUR_US));
        let date = zone.cast(&Value::Timestamptz(23 * HOUR_US), &DataType::Date, true).unwrap();
        assert_eq!(date, Value::Date(1));
        assert!(Value::says_offset("2000-01-01 00:00-08") && !Value::says_offset("2000-01-01"));
        let array = DataType::Array(Box::new(tz));
        let read = Value::read_text_in(&array, "{2000-01-01 01:00,NULL}", &zone).unwrap();
        let mut out = Vec::new();
        read.write_text_in(&array, &zone, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "{\"2000-01-01 01:00:00+01\",NULL}");
    }
}
