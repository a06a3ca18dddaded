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
use crate::clock::{self, ZonedTime};
use crate::datatype::DataType;
use crate::datetime::{self, DAY_US, check_timestamp};
use crate::error::{Error, Result, SqlState};
use crate::interval::{self, Interval, Style};
use crate::moments;
use crate::record;
use crate::value::Value;

/// The clocks of a place.
pub trait Clocks: fmt::Debug + Send + Sync {
    /// As SHOW gives it.
    fn name(&self) -> &str;

    /// By how many seconds they are ahead of UTC, at a moment in microseconds since 2000.
    fn ahead_s(&self, utc_us: i64) -> i64;

    /// The same, when they show `local_us`.
    fn ahead_when_shown_s(&self, local_us: i64) -> i64;

    /// The same, where it never changes.
    fn fixed_ahead_s(&self) -> Option<i64> {
        None
    }

    /// All of it as a value ([`rules`](crate::rules)), where there is one.
    fn rules(&self) -> Option<Arc<[u8]>> {
        None
    }
}

/// How a session means times: by the clocks of which place, and intervals in which style.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    clocks: Option<Arc<dyn Clocks>>,
    style: Style,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name() && self.style == other.style
    }
}

impl Zone {
    pub fn of(clocks: Arc<dyn Clocks>) -> Zone {
        Zone { clocks: Some(clocks), style: Style::default() }
    }

    /// The same clocks, and intervals in this style.
    pub fn styled(self, style: Style) -> Zone {
        Zone { style, ..self }
    }

    /// What programs mean, wherever they run: UTC, and intervals as PostgreSQL's own style has
    /// them.
    pub fn is_plain(&self) -> bool {
        self.is_utc() && self.style == Style::Postgres
    }

    pub fn is_utc(&self) -> bool {
        self.clocks.is_none()
    }

    pub fn style(&self) -> Style {
        self.style
    }

    pub fn name(&self) -> &str {
        self.clocks.as_ref().map_or("UTC", |clocks| clocks.name())
    }

    /// By how many seconds its clocks are always ahead of UTC.
    pub fn fixed_ahead_s(&self) -> Option<i64> {
        self.clocks.as_ref().map_or(Some(0), |clocks| clocks.fixed_ahead_s())
    }

    /// Its clocks as a value; `None` for UTC's.
    pub fn rules(&self) -> Option<Arc<[u8]>> {
        self.clocks.as_ref().and_then(|clocks| clocks.rules())
    }

    fn ahead_s(&self, us: i64) -> i64 {
        self.clocks.as_ref().map_or(0, |clocks| clocks.ahead_s(us))
    }

    /// A moment moved as clocks show it: by months and days at the same time of day, then by
    /// microseconds.
    pub fn moved(&self, us: i64, by: Interval) -> Result<i64> {
        let in_days = match by.months == 0 && by.days == 0 {
            true => us,
            false => self.when_shown(moments::in_days(self.shown(us)?, by)?)?,
        };
        moments::in_time(in_days, by)
    }

    /// What clocks show at a moment.
    pub fn shown(&self, us: i64) -> Result<i64> {
        check_timestamp(us.saturating_add(self.ahead_s(us) * 1_000_000))
    }

    /// When clocks show this.
    pub fn when_shown(&self, local_us: i64) -> Result<i64> {
        let ahead_s = self.clocks.as_ref().map_or(0, |clocks| clocks.ahead_when_shown_s(local_us));
        check_timestamp(local_us.saturating_sub(ahead_s * 1_000_000))
    }

    /// Whether a conversion is another one in another zone.
    pub fn matters(from: &DataType, to: &DataType) -> bool {
        use DataType as T;
        let is_text = |t: &T| t.is_string() || *t == T::Unknown;
        let is_shown = |t: &T| {
            is_text(t) || matches!(t, T::Date | T::Timestamp(_) | T::Time(_) | T::Timetz(_))
        };
        match (from, to) {
            (T::Array(from), T::Array(to)) => Zone::matters(from, to),
            (T::Array(from), to) if to.is_string() => Zone::matters(from, to),
            (from, T::Array(to)) if from.is_string() || *from == T::Unknown => {
                Zone::matters(from, to)
            }
            (T::Record(fields), to) => {
                fields.iter().any(|field| Zone::matters(&field.data_type, to))
            }
            (T::Timestamptz(_), other) | (other, T::Timestamptz(_)) => is_shown(other),
            (T::Interval(_), other) | (other, T::Interval(_)) => is_text(other),
            (T::Time(_), T::Timetz(_)) => true,
            (from, T::Timetz(_)) => is_text(from),
            _ => false,
        }
    }

    /// [`cast`] as a session in this zone means it.
    pub fn cast(&self, value: &Value, to: &DataType, explicit: bool) -> Result<Value> {
        use DataType as T;
        match (value, to) {
            _ if self.is_plain() => cast(value, to, explicit),
            (Value::Interval(_), to) if to.is_string() => {
                let mut text = Vec::new();
                value.write_text_in(&T::INTERVAL, self, &mut text);
                cast(&Value::from(String::from_utf8_lossy(&text).into_owned()), to, explicit)
            }
            (Value::Text(text), T::Interval(_) | T::Timetz(_)) => {
                Value::read_text_in(to, text, self)
            }
            _ if self.is_utc() && !is_array_of_intervals(value, to) => cast(value, to, explicit),
            (Value::Timestamptz(us), T::Date | T::Timestamp(_) | T::Time(_)) => {
                cast(&Value::Timestamp(self.shown(*us)?), to, explicit)
            }
            (Value::Timestamptz(us), T::Timetz(digits)) => {
                let of_day = self.shown(*us)?.rem_euclid(DAY_US);
                let west_s = -self.ahead_s(*us) as i32;
                let us = clock::with_precision(of_day, *digits);
                Ok(Value::Timetz(ZonedTime { us, west_s }))
            }
            (Value::Time(_), T::Timetz(_)) => {
                Err(Error::unsupported("a time of day without an offset in this time zone"))
            }
            (Value::Timestamptz(_), to) if to.is_string() => {
                let mut text = Vec::new();
                value.write_text_in(&T::Timestamptz(None), self, &mut text);
                cast(&Value::from(String::from_utf8_lossy(&text).into_owned()), to, explicit)
            }
            (Value::Date(_) | Value::Timestamp(_), T::Timestamptz(digits)) => {
                match cast(value, &T::Timestamp(*digits), true)? {
                    Value::Timestamp(us) => self.when_shown(us).map(Value::Timestamptz),
                    other => Ok(other),
                }
            }
            (Value::Text(text), T::Timestamptz(_)) => Value::read_text_in(to, text, self),
            (Value::Text(text), T::Array(element)) if is_of_sessions(element) => {
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
                if elements
                    .iter()
                    .any(|value| matches!(value, Value::Timestamptz(_) | Value::Interval(_))) =>
            {
                Err(Error::unsupported("an array of such times as text in this time zone or style"))
            }
            _ => cast(value, to, explicit),
        }
    }
}

impl Value {
    /// [`Value::write_text`], as clocks of a zone show it.
    pub fn write_text_in(&self, data_type: &DataType, zone: &Zone, out: &mut impl BufMut) {
        match (self, data_type) {
            (Value::Array(_), DataType::Record(_)) => {
                let mut text = Vec::new();
                let _ = self.make_text_in(data_type, zone, &mut text);
                out.put_slice(&text);
            }
            _ if zone.is_plain() => self.write_text(data_type, out),
            (Value::Timestamptz(us), _) => {
                datetime::write_timestamptz_ahead(*us, zone.ahead_s(*us), out);
            }
            (Value::Interval(interval), _) => interval::write_styled(*interval, zone.style, out),
            (Value::Array(elements), DataType::Array(element)) if is_of_sessions(element) => {
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

    /// [`Value::write_text_in`] of what may have rows within it, each of which may double the
    /// quotes of those below.
    ///
    /// # Errors
    /// 54000 for one that is too long to be made.
    pub fn make_text_in(&self, data_type: &DataType, zone: &Zone, out: &mut Vec<u8>) -> Result<()> {
        match (self, data_type) {
            (Value::Array(values), DataType::Record(fields)) => {
                let text = |place: usize, value: &Value, text: &mut Vec<u8>| {
                    value.make_text_in(record::type_at(fields, place), zone, text)
                };
                record::write_fields(values, text, out)?;
            }
            (Value::Array(elements), DataType::Array(element))
                if matches!(**element, DataType::Record(_)) =>
            {
                let text = |value: &Value| match value {
                    Value::Null => Ok(Value::Null),
                    value => {
                        let mut text = Vec::new();
                        value.make_text_in(element, zone, &mut text)?;
                        Ok(Value::Text(CompactString::from_utf8_lossy(&text)))
                    }
                };
                let texts = elements.iter().map(text).collect::<Result<Vec<_>>>()?;
                let of_texts = DataType::Array(Box::new(DataType::Text));
                out.extend_from_slice(Value::from(texts).made_text(&of_texts)?.as_bytes());
            }
            _ => self.write_text_in(data_type, zone, out),
        }
        Ok(())
    }

    /// [`Value::read_text`], where a time without an offset is one that clocks of a zone show.
    pub fn read_text_in(data_type: &DataType, text: &str, zone: &Zone) -> Result<Value> {
        match data_type {
            _ if zone.is_plain() => Value::read_text(data_type, text),
            DataType::Interval(fields) => {
                interval::read(text, *fields, zone.style).map(Value::Interval)
            }
            DataType::Timetz(digits) => {
                let ahead_s = zone.is_utc().then_some(0);
                clock::read_zoned(text, *digits, ahead_s).map(Value::Timetz)
            }
            DataType::Timestamptz(digits) => {
                let (local_us, offset_s) = datetime::read_shown(text)?;
                let us = match offset_s {
                    Some(offset_s) => check_timestamp(local_us - offset_s * 1_000_000),
                    None => zone.when_shown(local_us),
                };
                let us = us.and_then(|us| check_timestamp(clock::with_precision(us, *digits)));
                us.map(Value::Timestamptz).map_err(|error| match error.code() {
                    SqlState::DATETIME_FIELD_OVERFLOW => Error::new(
                        SqlState::DATETIME_FIELD_OVERFLOW,
                        format!("timestamp out of range: \"{text}\""),
                    ),
                    _ => error,
                })
            }
            DataType::Array(element) if is_of_sessions(element) => {
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

/// Whether values of the type have another text in another session.
fn is_of_sessions(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamptz(_) | DataType::Interval(_) | DataType::Timetz(_))
}

fn is_array_of_intervals(value: &Value, to: &DataType) -> bool {
    let is_array = |t: &DataType| matches!(t, DataType::Array(element) if is_of_sessions(element));
    is_array(to) || is_array(&value.data_type_hint())
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
        let (tz, text) = (DataType::Timestamptz(None), DataType::Text);
        let shown = |us: i64| zone.cast(&Value::Timestamptz(us), &text, true).unwrap();
        assert_eq!(shown(0), Value::text("2000-01-01 01:00:00+01"));
        assert_eq!(shown(24 * HOUR_US), Value::text("2000-01-02 01:30:00+01:30"));
        for us in [0, 5 * HOUR_US, 30 * HOUR_US] {
            let read = zone.cast(&shown(us), &tz, true).unwrap();
            assert_eq!(read, Value::Timestamptz(us));
            let local = zone.cast(&read, &DataType::Timestamp(None), true).unwrap();
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
