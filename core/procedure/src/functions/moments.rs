//! Functions of intervals, times of day, and of two moments.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::Datelike;
use types::clock::{self, ZonedTime};
use types::datetime::{check_timestamp, date_to_timestamp_us, timestamp_to_date};
use types::interval::{HOUR_US, Interval, MINUTE_US, Parts, SECOND_US, out_of_range};
use types::numeric::Numeric;
use types::rules::Rules;
use types::{DataType, Error, Result, SqlState, Value, Zone};

use super::arguments::{as_i32, invalid, nth};
use super::datetime::{DAY_US, DateField, calendar};
use super::function::Function;

pub(super) fn call(function: Function, arguments: &[Cow<'_, Value>]) -> Result<Value> {
    use Function::*;
    let (first, second) = (nth(arguments, 0), nth(arguments, 1));
    match (function, first, second) {
        (JustifyDays, Value::Interval(interval), _) => interval.justify_days().map(Value::from),
        (JustifyHours, Value::Interval(interval), _) => interval.justify_hours().map(Value::from),
        (JustifyInterval, Value::Interval(interval), _) => {
            interval.justify_interval().map(Value::from)
        }
        (Age, a, b) => match (as_us(a), as_us(b)) {
            (Some(a), Some(b)) => age(a, b).map(Value::from),
            _ => Err(mistyped()),
        },
        (MakeTime, ..) => {
            let second = as_f64(nth(arguments, 2));
            clock::make(as_i32(first), as_i32(nth(arguments, 1)), second).map(Value::Time)
        }
        (MakeInterval, ..) => make_interval(arguments).map(Value::from),
        (MakeTimestamp, Value::Date(day), Value::Time(us)) => {
            let moment = date_to_timestamp_us(*day).saturating_add(*us);
            check_timestamp(moment).map(Value::Timestamp)
        }
        (ToTimestamp, Value::Float(seconds), _) => to_timestamp(*seconds).map(Value::Timestamptz),
        (DateBin, Value::Interval(stride), source) => {
            let origin = nth(arguments, 2);
            let (Some(us), Some(from)) = (as_us(source), as_us(origin)) else {
                return Err(mistyped());
            };
            let us = binned(*stride, us, from)?;
            Ok(match source {
                Value::Timestamptz(_) => Value::Timestamptz(us),
                _ => Value::Timestamp(us),
            })
        }
        (AtTimeZone, Value::Interval(ahead), moment) => at_time_zone(*ahead, moment),
        (Overlaps, ..) => Ok(overlaps(arguments)),
        _ => Err(mistyped()),
    }
}

/// What clocks have a say in; their rules come first.
pub(super) fn by_clocks(
    function: Function,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
) -> Result<Value> {
    let Value::Bytes(rules) = nth(arguments, 0) else { return Err(mistyped()) };
    let rules = Rules::of(Arc::clone(rules)).ok_or_else(mistyped)?;
    let zone = Zone::of(Arc::new(rules));
    match (function, nth(arguments, 1), nth(arguments, 2)) {
        (Function::MoveByClocks, Value::Timestamptz(us), Value::Interval(by)) => {
            zone.moved(*us, *by).map(Value::Timestamptz)
        }
        (Function::CastByClocks, value, _) => zone.cast(value, result, true),
        _ => Err(mistyped()),
    }
}

fn mistyped() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "not dates or times")
}

fn as_us(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(us) | Value::Timestamptz(us) => Some(*us),
        Value::Date(days) => Some(date_to_timestamp_us(*days)),
        _ => None,
    }
}

fn as_f64(value: &Value) -> f64 {
    match value {
        Value::Float(x) => *x,
        _ => 0.0,
    }
}

/// From the second moment to the first in years, months and days, as calendars count them.
fn age(a: i64, b: i64) -> Result<Interval> {
    let negative = a < b;
    let (late, early) = if negative { (b, a) } else { (a, b) };
    let (late_day, early_day) = (timestamp_to_date(late), timestamp_to_date(early));
    let (late_date, early_date) = (calendar(late_day)?, calendar(early_day)?);
    let mut us = late.rem_euclid(DAY_US) - early.rem_euclid(DAY_US);
    let mut days = late_date.day() as i32 - early_date.day() as i32;
    let mut months = (late_date.year() - early_date.year()) * 12 + late_date.month() as i32
        - early_date.month() as i32;
    if us < 0 {
        (us, days) = (us + DAY_US, days - 1);
    }
    if days < 0 {
        // The days of the earlier one's month are lent.
        days += i32::from(early_date.num_days_in_month());
        months -= 1;
    }
    let length = Interval { months, days, us };
    if negative { length.negated() } else { Ok(length) }
}

/// Years, months, weeks, days, hours, minutes, seconds.
fn make_interval(arguments: &[Cow<'_, Value>]) -> Result<Interval> {
    let number = |n: usize| i64::from(as_i32(nth(arguments, n)));
    let seconds = (as_f64(nth(arguments, 6)) * 1e6).round_ties_even();
    // 2^63 is a double, and one too many.
    if seconds.is_nan() || seconds.abs() >= 9_223_372_036_854_775_808.0 {
        return Err(out_of_range());
    }
    let within = |count: i64| i32::try_from(count).map_err(|_| out_of_range());
    let us = number(4) * HOUR_US + number(5) * MINUTE_US;
    Ok(Interval {
        months: within(number(0) * 12 + number(1))?,
        days: within(number(2) * 7 + number(3))?,
        us: us.checked_add(seconds as i64).ok_or_else(out_of_range)?,
    })
}

/// Seconds since 1970.
fn to_timestamp(seconds: f64) -> Result<i64> {
    const EPOCH_S: f64 = 946_684_800.0;
    let out_of_range = || {
        let what = format!("timestamp out of range: \"{seconds}\"");
        Error::new(SqlState::DATETIME_FIELD_OVERFLOW, what)
    };
    if seconds.is_nan() {
        let what = "timestamp cannot be NaN";
        return Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, what));
    }
    let us = ((seconds - EPOCH_S) * 1e6).round_ties_even();
    match us.abs() < 9.2e18 {
        true => check_timestamp(us as i64).map_err(|_| out_of_range()),
        false => Err(out_of_range()),
    }
}

fn binned(stride: Interval, us: i64, origin: i64) -> Result<i64> {
    if stride.months != 0 {
        let what = "timestamps cannot be binned into intervals containing months or years";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    let length = i64::from(stride.days).checked_mul(DAY_US);
    let length = length.and_then(|days| days.checked_add(stride.us)).ok_or_else(out_of_range)?;
    if length <= 0 {
        let what = "stride must be greater than zero";
        return Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, what));
    }
    let apart = us.checked_sub(origin).ok_or_else(out_of_range)?;
    check_timestamp(us - apart.rem_euclid(length))
}

/// As clocks show it that are so far ahead of UTC, or the moment when they do.
fn at_time_zone(ahead: Interval, moment: &Value) -> Result<Value> {
    if ahead.months != 0 || ahead.days != 0 {
        let mut text = Vec::new();
        types::interval::write(ahead, &mut text);
        return Err(invalid(format!(
            "interval time zone \"{}\" must not include months or days",
            String::from_utf8_lossy(&text)
        )));
    }
    let ahead_us = ahead.us / SECOND_US * SECOND_US;
    let shifted = |us: i64, by: i64| check_timestamp(us.checked_add(by).unwrap_or(i64::MAX - 1));
    Ok(match moment {
        Value::Timestamptz(us) => Value::Timestamp(shifted(*us, ahead_us)?),
        Value::Timestamp(us) => Value::Timestamptz(shifted(*us, -ahead_us)?),
        Value::Timetz(time) => {
            let west_s = i32::try_from(-(ahead_us / SECOND_US)).map_err(|_| out_of_range())?;
            let ZonedTime { us, west_s } = time.at(west_s);
            Value::Timetz(clock::check_zoned(us, west_s)?)
        }
        _ => return Err(mistyped()),
    })
}

/// Whether two spans of time have a moment in common. A span's ends come in either order, and one
/// that is NULL is the other; what cannot be told is NULL.
fn overlaps(arguments: &[Cow<'_, Value>]) -> Value {
    let less =
        |a: &Value, b: &Value| types::compare::compare(a, b).is_some_and(std::cmp::Ordering::is_lt);
    let span = |n: usize| {
        let (from, to) = (nth(arguments, n), nth(arguments, n + 1));
        match from.is_null() || less(to, from) {
            true => (to, from),
            false => (from, to),
        }
    };
    let ((a_from, a_to), (b_from, b_to)) = (span(0), span(2));
    if a_from.is_null() || b_from.is_null() {
        return Value::Null;
    }
    let (first_to, second_from, second_to) = match types::compare::compare(a_from, b_from) {
        // Both contain their beginning.
        Some(std::cmp::Ordering::Equal) if a_to.is_null() || b_to.is_null() => return Value::Null,
        Some(std::cmp::Ordering::Equal) => return Value::Bool(true),
        Some(std::cmp::Ordering::Greater) => (b_to, a_from, a_to),
        _ => (a_to, b_from, b_to),
    };
    match (first_to.is_null(), less(second_from, first_to)) {
        (true, _) => Value::Null,
        (_, true) => Value::Bool(true),
        _ if second_to.is_null() => Value::Null,
        _ => Value::Bool(false),
    }
}

/// What EXTRACT gives of an interval.
pub(super) fn extracted_of_interval(
    interval: Interval,
    field: DateField,
    name: &str,
) -> Result<Numeric> {
    use DateField::*;
    let parts = interval.parts();
    let Parts { years, months, days, hours, minutes, .. } = parts;
    let of_minute = i64::from(parts.seconds) * SECOND_US + i64::from(parts.us);
    let whole = |n: i64| Numeric::from(n);
    Ok(match field {
        Microseconds => whole(of_minute),
        Milliseconds => Numeric::from_units(of_minute.into(), 3),
        Second => Numeric::from_units(of_minute.into(), 6),
        Minute => whole(minutes.into()),
        Hour => whole(hours),
        Day => whole(days.into()),
        Month => whole(months.into()),
        Quarter => whole(i64::from(months / 3 + 1)),
        Year => whole(years.into()),
        Decade => whole(i64::from(years / 10)),
        Century => whole(i64::from(years / 100)),
        Millennium => whole(i64::from(years / 1000)),
        // A year has 365.25 days: in quarters of a day.
        Epoch => {
            let quarters =
                i128::from(years) * 1461 + i128::from(months) * 120 + i128::from(days) * 4;
            let us = quarters * i128::from(DAY_US / 4) + i128::from(interval.us);
            Numeric::from_units(us, 6)
        }
        _ => return Err(unsupported(name, "interval")),
    })
}

/// What EXTRACT gives of a time of day, with or without an offset.
pub(super) fn extracted_of_clock(value: &Value, field: DateField, name: &str) -> Result<Numeric> {
    use DateField::*;
    let (us, offset) = match value {
        Value::Timetz(ZonedTime { us, west_s }) => (*us, Some(i64::from(*west_s))),
        Value::Time(us) => (*us, None),
        _ => return Err(mistyped()),
    };
    let whole = |n: i64| Numeric::from(n);
    Ok(match (field, offset) {
        (Microseconds, _) => whole(us % MINUTE_US),
        (Milliseconds, _) => Numeric::from_units((us % MINUTE_US).into(), 3),
        (Second, _) => Numeric::from_units((us % MINUTE_US).into(), 6),
        (Minute, _) => whole(us / MINUTE_US % 60),
        (Hour, _) => whole(us / HOUR_US),
        (Epoch, west_s) => Numeric::from_units((us + west_s.unwrap_or(0) * SECOND_US).into(), 6),
        (Timezone, Some(west_s)) => whole(-west_s),
        (TimezoneHour, Some(west_s)) => whole(-west_s / 3600),
        (TimezoneMinute, Some(west_s)) => whole(-west_s / 60 % 60),
        (_, Some(_)) => return Err(unsupported(name, "time with time zone")),
        (_, None) => return Err(unsupported(name, "time without time zone")),
    })
}

fn unsupported(unit: &str, data_type: &str) -> Error {
    let what = format!("unit \"{unit}\" not supported for type {data_type}");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}

/// `date_trunc` of an interval.
pub(super) fn truncated_interval(
    interval: Interval,
    field: DateField,
    name: &str,
) -> Result<Interval> {
    use DateField::*;
    let Interval { months, days, us } = interval;
    let of_months = |each: i32| Interval { months: months - months % each, days: 0, us: 0 };
    let of_us = |each: i64| Interval { months, days, us: us - us % each };
    Ok(match field {
        Microseconds => interval,
        Milliseconds => of_us(1000),
        Second => of_us(SECOND_US),
        Minute => of_us(MINUTE_US),
        Hour => of_us(HOUR_US),
        Day => Interval { months, days, us: 0 },
        Month => of_months(1),
        Quarter => of_months(3),
        Year => of_months(12),
        Decade => of_months(120),
        Century => of_months(1_200),
        Millennium => of_months(12_000),
        Week => {
            return Err(
                unsupported(name, "interval").with_detail("Months usually have fractional weeks.")
            );
        }
        _ => return Err(unsupported(name, "interval")),
    })
}
