//! Intervals as constants: the steps of series. There is no type of that name, so nothing else can
//! be an interval.
//!
//! Read are numbers with units (`1 year 2 mons 3 days`), a time of day (`-04:05:06.7`), and `ago`
//! at the end. Fractions have units of a fixed length only.

use procedure::query::Interval;
use sqlparser::ast;
use types::datetime::DAY_US;
use types::{Error, Result, SqlState};

/// The interval that an argument is; `None` where it cannot be one.
pub(super) fn interval_constant(expr: &ast::Expr) -> Result<Option<Interval>> {
    use ast::Expr as E;
    match expr {
        E::Nested(inner) => interval_constant(inner),
        E::Interval(interval) if interval.last_field.is_none() => {
            let Some(text) = text_of(&interval.value) else { return Ok(None) };
            match &interval.leading_field {
                None => read(text).map(Some),
                Some(field) => read(&format!("{text} {field}")).map(Some),
            }
        }
        E::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => {
            text_of(expr).map(read).transpose()
        }
        // A literal is what its place makes of it.
        expr => Ok(text_of(expr).and_then(|text| read(text).ok())),
    }
}

fn text_of(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

fn read(text: &str) -> Result<Interval> {
    let invalid = || {
        let what = format!("invalid input syntax for type interval: \"{text}\"");
        Error::new(SqlState(*b"22007"), what)
    };
    let lower = text.to_ascii_lowercase();
    let mut words: Vec<&str> = lower.split_ascii_whitespace().collect();
    let ago = words.pop_if(|word| *word == "ago").is_some();
    let mut sum = Interval::default();
    let mut words = words.into_iter();
    let mut seen = false;
    while let Some(word) = words.next() {
        let part = match word.contains(':') {
            true => time_of_day(word),
            false => match word.find(|c: char| c.is_ascii_alphabetic()) {
                Some(end) => quantity(&word[..end], &word[end..]),
                None => words.next().and_then(|unit| quantity(word, unit)),
            },
        };
        sum = part.and_then(|part| plus(sum, part)).ok_or_else(invalid)?;
        seen = true;
    }
    let sum = match ago {
        true => minus(sum).ok_or_else(invalid)?,
        false => sum,
    };
    if seen { Ok(sum) } else { Err(invalid()) }
}

fn plus(a: Interval, b: Interval) -> Option<Interval> {
    Some(Interval {
        months: a.months.checked_add(b.months)?,
        days: a.days.checked_add(b.days)?,
        us: a.us.checked_add(b.us)?,
    })
}

fn minus(a: Interval) -> Option<Interval> {
    Some(Interval {
        months: a.months.checked_neg()?,
        days: a.days.checked_neg()?,
        us: a.us.checked_neg()?,
    })
}

fn quantity(number: &str, unit: &str) -> Option<Interval> {
    const SECOND_US: i64 = 1_000_000;
    let months = |each: i32| {
        let months = number.parse::<i32>().ok()?.checked_mul(each)?;
        Some(Interval { months, ..Interval::default() })
    };
    let days = |each: i32| {
        let days = number.parse::<i32>().ok()?.checked_mul(each)?;
        Some(Interval { days, ..Interval::default() })
    };
    let us = |each: i64| Some(Interval { us: fixed(number, each)?, ..Interval::default() });
    match unit {
        "millennium" | "millennia" => months(12_000),
        "century" | "centuries" => months(1_200),
        "decade" | "decades" => months(120),
        "year" | "years" | "y" | "yr" | "yrs" => months(12),
        "month" | "months" | "mon" | "mons" => months(1),
        "week" | "weeks" | "w" => days(7),
        "day" | "days" | "d" => days(1),
        "hour" | "hours" | "h" | "hr" | "hrs" => us(3600 * SECOND_US),
        "minute" | "minutes" | "m" | "min" | "mins" => us(60 * SECOND_US),
        "second" | "seconds" | "s" | "sec" | "secs" => us(SECOND_US),
        "millisecond" | "milliseconds" | "ms" => us(1000),
        "microsecond" | "microseconds" | "us" => us(1),
        _ => None,
    }
}

/// A decimal number of units that last so many microseconds.
fn fixed(number: &str, each: i64) -> Option<i64> {
    let (negative, digits) = match number.strip_prefix(['-', '+']) {
        Some(digits) => (number.starts_with('-'), digits),
        None => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if digits.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 12 {
        return None;
    }
    let mut us = match whole {
        "" => 0,
        whole => whole.parse::<i64>().ok()?.checked_mul(each)?,
    };
    if !fraction.is_empty() {
        let parts = i128::from(fraction.parse::<i64>().ok()?) * i128::from(each);
        us = us.checked_add(i64::try_from(parts / 10i128.pow(fraction.len() as u32)).ok()?)?;
    }
    Some(if negative { -us } else { us })
}

/// `h:m`, `h:m:s`, with a sign and a fraction.
fn time_of_day(word: &str) -> Option<Interval> {
    let (negative, digits) = match word.strip_prefix(['-', '+']) {
        Some(digits) => (word.starts_with('-'), digits),
        None => (false, word),
    };
    let mut parts = digits.split(':');
    let hours = fixed(parts.next()?, DAY_US / 24)?;
    let minutes = fixed(parts.next()?, DAY_US / 1440)?;
    let seconds = parts.next().map_or(Some(0), |seconds| fixed(seconds, 1_000_000))?;
    if parts.next().is_some() || minutes >= DAY_US / 24 || seconds > DAY_US / 1440 {
        return None;
    }
    let us = hours.checked_add(minutes + seconds)?;
    Some(Interval { us: if negative { -us } else { us }, ..Interval::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_postgresql_reads_them() {
        let interval = |months, days, us| Interval { months, days, us };
        for (text, expected) in [
            ("1 day", interval(0, 1, 0)),
            ("1 year 2 mons -3 days 04:05:06.7", interval(14, -3, 14_706_700_000)),
            ("1.5 hours", interval(0, 0, 5_400_000_000)),
            ("-00:30", interval(0, 0, -1_800_000_000)),
            ("3 weeks ago", interval(0, -21, 0)),
            ("1day", interval(0, 1, 0)),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for wrong in
            ["", "ago", "1", "day", "1 fortnight", "1:99", "1.5 months", "1 day 2", "2h30m"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
