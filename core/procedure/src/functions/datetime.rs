//! Functions of dates and times, on the proleptic Gregorian calendar and in UTC.

use std::borrow::Cow;

use chrono::{Datelike, NaiveDate};
use types::datetime::{check_date, check_timestamp, date_to_timestamp_us, timestamp_to_date};
use types::numeric::{Numeric, add, div, round, to_f64};
use types::{Error, Result, SqlState, Value};

use super::arguments::{as_i32, invalid, nth};
use super::function::Function;
use super::moments;

pub(super) const SECOND_US: i64 = 1_000_000;
pub(super) const MINUTE_US: i64 = 60 * SECOND_US;
pub(super) const HOUR_US: i64 = 60 * MINUTE_US;
pub(super) const DAY_US: i64 = 24 * HOUR_US;
/// PostgreSQL's epoch, 2000-01-01, in days of the common era and in seconds since 1970.
const EPOCH_DAYS_FROM_CE: i32 = 730_120;
const EPOCH_UNIX_S: i64 = 946_684_800;
/// The same in days of the Julian calendar's era, as PostgreSQL counts them.
const EPOCH_JULIAN: i64 = 2_451_545;

/// A field that EXTRACT knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateField {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
    /// Of what has an offset from UTC: its seconds, or hours and minutes of it.
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl DateField {
    pub fn parse(name: &str) -> Option<DateField> {
        use DateField::*;
        Some(match name.to_ascii_lowercase().as_str() {
            "microseconds" | "microsecond" => Microseconds,
            "milliseconds" | "millisecond" => Milliseconds,
            "second" | "seconds" => Second,
            "minute" | "minutes" => Minute,
            "hour" | "hours" => Hour,
            "day" | "days" => Day,
            "week" | "weeks" => Week,
            "month" | "months" => Month,
            "quarter" => Quarter,
            "year" | "years" => Year,
            "decade" | "decades" => Decade,
            "century" | "centuries" => Century,
            "millennium" | "millennia" => Millennium,
            "dow" => DayOfWeek,
            "isodow" => IsoDayOfWeek,
            "doy" => DayOfYear,
            "isoyear" => IsoYear,
            "julian" => Julian,
            "epoch" => Epoch,
            "timezone" => Timezone,
            "timezone_hour" => TimezoneHour,
            "timezone_minute" => TimezoneMinute,
            _ => return None,
        })
    }
}

pub(super) fn call(function: Function, arguments: &[Cow<'_, Value>]) -> Result<Value> {
    if function == Function::MakeDate {
        let (year, month, day) = (nth(arguments, 0), nth(arguments, 1), nth(arguments, 2));
        return make_date(as_i32(year), as_i32(month), as_i32(day));
    }
    let name = nth(arguments, 0).as_text().unwrap_or("");
    let field =
        DateField::parse(name).ok_or_else(|| invalid(format!("unit \"{name}\" not recognized")))?;
    let value = nth(arguments, 1);
    match value {
        Value::Interval(interval) if function == Function::DateTrunc => {
            return moments::truncated_interval(*interval, field, name).map(Value::Interval);
        }
        Value::Interval(interval) => {
            return part(function, moments::extracted_of_interval(*interval, field, name)?);
        }
        Value::Time(_) | Value::Timetz(_) => {
            return part(function, moments::extracted_of_clock(value, field, name)?);
        }
        _ => {}
    }
    let us = match value {
        Value::Date(days) => date_to_timestamp_us(*days),
        Value::Timestamp(us) | Value::Timestamptz(us) => *us,
        _ => return Err(Error::new(SqlState::INTERNAL_ERROR, "not a date or time")),
    };
    match function {
        Function::DateTrunc => {
            let start = check_timestamp(truncated(us, field, name)?)?;
            Ok(match value {
                Value::Timestamptz(_) => Value::Timestamptz(start),
                _ => Value::Timestamp(start),
            })
        }
        Function::DatePart => part(function, extracted(us, field)?),
        // Of whole days, which are as many whole seconds.
        _ if matches!(field, DateField::Epoch | DateField::Julian)
            && matches!(value, Value::Date(_)) =>
        {
            round(&extracted(us, field)?, 0).map(Value::Numeric)
        }
        _ => Ok(Value::Numeric(extracted(us, field)?)),
    }
}

/// A field as EXTRACT gives it, or `date_part`.
fn part(function: Function, number: Numeric) -> Result<Value> {
    Ok(match function {
        Function::DatePart => Value::Float(to_f64(&number)),
        _ => Value::Numeric(number),
    })
}

pub(super) fn calendar(days: i32) -> Result<NaiveDate> {
    days.checked_add(EPOCH_DAYS_FROM_CE)
        .and_then(NaiveDate::from_num_days_from_ce_opt)
        .ok_or_else(|| Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"))
}

fn days_of(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - EPOCH_DAYS_FROM_CE
}

fn make_date(year: i32, month: i32, day: i32) -> Result<Value> {
    // There is no year 0: PostgreSQL counts 1 BC as -1, the calendar as 0.
    let astronomical = if year < 0 { year.saturating_add(1) } else { year };
    let date = match (u32::try_from(month), u32::try_from(day)) {
        (Ok(month), Ok(day)) if year != 0 => NaiveDate::from_ymd_opt(astronomical, month, day),
        _ => None,
    };
    let date = date.ok_or_else(|| {
        Error::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        )
    })?;
    check_date(i64::from(days_of(date))).map(Value::Date)
}

fn extracted(us: i64, field: DateField) -> Result<Numeric> {
    use DateField::*;
    let date = calendar(timestamp_to_date(us))?;
    let of_day = us.rem_euclid(DAY_US);
    let scaled = |us: i64, scale| Numeric::from_units(us.into(), scale);
    let whole = |n: i64| Numeric::from(n);
    let year = match date.year() {
        year if year <= 0 => i64::from(year) - 1,
        year => i64::from(year),
    };
    Ok(match field {
        Microseconds => whole(of_day % MINUTE_US),
        Milliseconds => scaled(of_day % MINUTE_US, 3),
        Second => scaled(of_day % MINUTE_US, 6),
        Minute => whole(of_day / MINUTE_US % 60),
        Hour => whole(of_day / HOUR_US),
        Day => whole(i64::from(date.day())),
        Week => whole(i64::from(date.iso_week().week())),
        Month => whole(i64::from(date.month())),
        Quarter => whole(i64::from((date.month() - 1) / 3 + 1)),
        Year => whole(year),
        Decade => whole(i64::from(date.year().div_euclid(10))),
        Century => whole(period(year, 100)),
        Millennium => whole(period(year, 1000)),
        DayOfWeek => whole(i64::from(date.weekday().num_days_from_sunday())),
        IsoDayOfWeek => whole(i64::from(date.weekday().number_from_monday())),
        DayOfYear => whole(i64::from(date.ordinal())),
        IsoYear => match date.iso_week().year() {
            year if year <= 0 => whole(i64::from(year) - 1),
            year => whole(i64::from(year)),
        },
        Julian => {
            let days = i64::from(timestamp_to_date(us)) + EPOCH_JULIAN;
            add(&whole(days), &div(&whole(of_day), &whole(DAY_US))?)?
        }
        Epoch => {
            let us = i128::from(us) + i128::from(EPOCH_UNIX_S) * i128::from(SECOND_US);
            Numeric::from_units(us, 6)
        }
        // Of UTC.
        Timezone | TimezoneHour | TimezoneMinute => whole(0),
    })
}

/// Centuries and millennia begin with the year 1, or end with 1 BC.
fn period(year: i64, length: i64) -> i64 {
    match year > 0 {
        true => (year + length - 1) / length,
        false => -((length - 1 - year) / length),
    }
}

fn truncated(us: i64, field: DateField, name: &str) -> Result<i64> {
    use DateField::*;
    let date = calendar(timestamp_to_date(us))?;
    let floor_to = |unit: i64| us - us.rem_euclid(unit);
    let first_of = |year: i32, month: u32| {
        NaiveDate::from_ymd_opt(year, month, 1)
            .map(|date| date_to_timestamp_us(days_of(date)))
            .ok_or_else(|| Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
    };
    let year = date.year();
    match field {
        Microseconds => Ok(us),
        Milliseconds => Ok(floor_to(1000)),
        Second => Ok(floor_to(SECOND_US)),
        Minute => Ok(floor_to(MINUTE_US)),
        Hour => Ok(floor_to(HOUR_US)),
        Day => Ok(floor_to(DAY_US)),
        Week => Ok(floor_to(DAY_US) - i64::from(date.weekday().num_days_from_monday()) * DAY_US),
        Month => first_of(year, date.month()),
        Quarter => first_of(year, (date.month() - 1) / 3 * 3 + 1),
        Year => first_of(year, 1),
        Decade => first_of(year.div_euclid(10) * 10, 1),
        Century => first_of((year - 1).div_euclid(100) * 100 + 1, 1),
        Millennium => first_of((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => Err(Error::unsupported(format_args!("date_trunc unit \"{name}\""))),
    }
}
