//! An interval's text, in every style that PostgreSQL reads.
//!
//! Two grammars. The first is a list of fields, which is read from its end, so that a unit is known
//! before its number: `1 year -2 mons 04:05`, `@ 1 day ago`, `1-2 3 4:05:06`, `1d 2h`. Where a
//! number has no unit, its place and the declared fields say which: in `interval '90' minute to
//! second` it counts seconds. The second is ISO 8601's, `P1Y2M3DT4H` and `P0001-02-03T04:05:06`.
//!
//! Fractions are doubles and cascade: those of a year are months, rounded; those of a month days,
//! of 30; those of a day or less microseconds, rounded.

use super::fields::{DAY, HOUR, MINUTE, MONTH, SECOND, YEAR};
use super::{Fields, HOUR_US, Interval, MINUTE_US, SECOND_US, Style};
use crate::datetime::DAY_US;
use crate::error::{Error, Result, SqlState};
use crate::unicode::is_space;

/// What PostgreSQL takes apart.
const BYTES_MAX: usize = 255;
const FIELDS_MAX: usize = 25;

/// Reads an interval and keeps its `fields`.
///
/// # Errors
/// 22007 for what is none, 22015 for a field beyond what fits, 22008 for years and months that
/// together do not.
pub fn read(text: &str, fields: Fields, style: Style) -> Result<Interval> {
    let read = match read_fields(text, fields, style) {
        Err(Refusal::Format) => read_iso(text),
        read => read,
    };
    let sum = read.map_err(|refusal| match refusal {
        Refusal::Format => Error::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Refusal::Overflow => Error::new(
            SqlState::INTERVAL_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        ),
    })?;
    let months = i64::from(sum.years) * 12 + i64::from(sum.months);
    let months = i32::try_from(months).map_err(|_| super::out_of_range())?;
    Ok(Interval { months, days: sum.days, us: sum.us }.within(fields))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Format,
    Overflow,
}

type Read<T> = std::result::Result<T, Refusal>;

/// What has been read so far.
#[derive(Clone, Copy, Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    us: i64,
}

impl Sum {
    fn add_us(&mut self, whole: i64, fraction: f64, each: i64) -> Read<()> {
        let us = whole.checked_mul(each).and_then(|us| self.us.checked_add(us));
        self.us = us.ok_or(Refusal::Overflow)?;
        self.add_fraction(fraction, each)
    }

    fn add_fraction(&mut self, fraction: f64, each: i64) -> Read<()> {
        let exact = fraction * each as f64;
        let whole = exact.trunc();
        let rest = exact - whole;
        let rounded = if rest.abs() > 0.5 { whole + rest.signum() } else { whole };
        self.us = self.us.checked_add(rounded as i64).ok_or(Refusal::Overflow)?;
        Ok(())
    }

    fn add_days(&mut self, count: i64, each: i32) -> Read<()> {
        add(&mut self.days, count, each)
    }

    /// Of a month or a week.
    fn add_fraction_of_days(&mut self, fraction: f64, each: i32) -> Read<()> {
        let exact = fraction * f64::from(each);
        self.add_days(exact as i64, 1)?;
        self.add_fraction(exact - exact.trunc(), DAY_US)
    }

    fn add_months(&mut self, count: i64, fraction: f64) -> Read<()> {
        add(&mut self.months, count, 1)?;
        self.add_fraction_of_days(fraction, 30)
    }

    fn add_years(&mut self, count: i64, fraction: f64, each: i32) -> Read<()> {
        add(&mut self.years, count, each)?;
        let months = (fraction * f64::from(each) * 12.0).round_ties_even();
        add(&mut self.months, months as i64, 1)
    }

    fn negated(self) -> Option<Sum> {
        Some(Sum {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            us: self.us.checked_neg()?,
        })
    }
}

fn add(sum: &mut i32, count: i64, each: i32) -> Read<()> {
    let count = i32::try_from(count).ok().and_then(|count| count.checked_mul(each));
    *sum = count.and_then(|count| sum.checked_add(count)).ok_or(Refusal::Overflow)?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
    /// `ago` alone is the unit of no number.
    None,
}

impl Unit {
    /// PostgreSQL's words count up to their tenth letter.
    fn named(word: &str) -> Option<Unit> {
        Some(match word.get(..10).unwrap_or(word) {
            "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => Unit::Microsecond,
            "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => Unit::Millisecond,
            "s" | "sec" | "second" | "seconds" | "secs" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "year" | "years" | "yr" | "yrs" => Unit::Year,
            "dec" | "decade" | "decades" | "decs" => Unit::Decade,
            "c" | "cent" | "centuries" | "century" => Unit::Century,
            "mil" | "millennia" | "millennium" | "mils" => Unit::Millennium,
            _ => return None,
        })
    }

    /// What the last number counts where nothing says.
    fn last_of(fields: Fields) -> Unit {
        let mask = fields.mask;
        if mask & SECOND != 0 {
            Unit::Second
        } else if mask & MINUTE != 0 {
            Unit::Minute
        } else if mask & HOUR != 0 {
            Unit::Hour
        } else if mask & DAY != 0 {
            Unit::Day
        } else if mask & MONTH != 0 {
            Unit::Month
        } else if mask & YEAR != 0 {
            Unit::Year
        } else {
            Unit::Second
        }
    }

    /// A bit for what may be said once.
    fn bit(self) -> u16 {
        1 << self as u16
    }

    fn add(self, whole: i64, fraction: f64, sum: &mut Sum) -> Read<()> {
        match self {
            Unit::Microsecond => sum.add_us(whole, fraction, 1),
            Unit::Millisecond => sum.add_us(whole, fraction, 1000),
            Unit::Second => sum.add_us(whole, fraction, SECOND_US),
            Unit::Minute => sum.add_us(whole, fraction, MINUTE_US),
            Unit::Hour => sum.add_us(whole, fraction, HOUR_US),
            Unit::Day => {
                sum.add_days(whole, 1)?;
                sum.add_fraction(fraction, DAY_US)
            }
            Unit::Week => {
                sum.add_days(whole, 7)?;
                sum.add_fraction_of_days(fraction, 7)
            }
            Unit::Month => sum.add_months(whole, fraction),
            Unit::Year => sum.add_years(whole, fraction, 1),
            Unit::Decade => sum.add_years(whole, fraction, 10),
            Unit::Century => sum.add_years(whole, fraction, 100),
            Unit::Millennium => sum.add_years(whole, fraction, 1000),
            Unit::None => Err(Refusal::Format),
        }
    }
}

/// Bits of a time of day, which is all of them.
fn time_bits() -> u16 {
    second_bits() | Unit::Minute.bit() | Unit::Hour.bit()
}

fn second_bits() -> u16 {
    Unit::Second.bit() | Unit::Millisecond.bit() | Unit::Microsecond.bit()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    /// `4:05:06.7`, maybe with a sign.
    Time(&'a str),
    /// A number, maybe with a sign, a fraction or a second part, as `1-2`.
    Number(&'a str),
    Word(&'a str),
}

fn read_fields(text: &str, fields: Fields, style: Style) -> Read<Sum> {
    if text.len() > BYTES_MAX {
        return Err(Refusal::Format);
    }
    let lower = lowered(text);
    let tokens = tokens(&lower)?;
    let sign_of = |token: &Token<'_>| match token {
        Token::Time(text) | Token::Number(text) | Token::Word(text) => {
            text.bytes().next().filter(|byte| matches!(byte, b'+' | b'-'))
        }
    };
    // The standard's one sign before all fields.
    let all_below = style == Style::SqlStandard
        && tokens.first().is_some_and(|first| sign_of(first) == Some(b'-'))
        && tokens[1..].iter().all(|token| sign_of(token).is_none());
    let (mut sum, mut unit, mut ago, mut seen) = (Sum::default(), None, false, 0);
    for token in tokens.iter().rev() {
        let bits = match token {
            Token::Time(text) => {
                // It stands for the hours and less, whatever has been said of them: twice is wrong.
                sum.us = time_of_day(text, fields)?;
                if all_below && sum.us > 0 {
                    sum.us = -sum.us;
                }
                unit = Some(Unit::Day);
                time_bits()
            }
            Token::Number(text) => {
                let own = unit.unwrap_or_else(|| Unit::last_of(fields));
                let (number, own) = number(text, own)?;
                let (whole, fraction) = match all_below {
                    true => (-number.0.abs(), -number.1.abs()),
                    false => number,
                };
                own.add(whole, fraction, &mut sum)?;
                unit = Some(if own == Unit::Hour { Unit::Day } else { own });
                match own {
                    Unit::Second if fraction != 0.0 => second_bits(),
                    own => own.bit(),
                }
            }
            Token::Word("ago") => {
                ago = true;
                unit = Some(Unit::None);
                0
            }
            Token::Word(word) => {
                unit = Some(Unit::named(word).ok_or(Refusal::Format)?);
                0
            }
        };
        if seen & bits != 0 {
            return Err(Refusal::Format);
        }
        seen |= bits;
    }
    match (seen, ago) {
        (0, _) => Err(Refusal::Format),
        (_, true) => sum.negated().ok_or(Refusal::Overflow),
        (_, false) => Ok(sum),
    }
}

/// The fields of a text. Marks between them say nothing, as the `@` of the verbose style.
fn tokens(text: &str) -> Read<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let bytes = rest.as_bytes();
        let count = |from: usize, is: &dyn Fn(u8) -> bool| {
            bytes[from..].iter().take_while(|byte| is(**byte)).count()
        };
        let is_digit = |byte: u8| byte.is_ascii_digit();
        let (token, end) = match first {
            _ if is_space(first) => (None, first.len_utf8()),
            '0'..='9' => {
                let digits = count(0, &is_digit);
                match bytes.get(digits) {
                    Some(b':') => {
                        let end = digits
                            + count(digits, &|byte| is_digit(byte) || matches!(byte, b':' | b'.'));
                        (Some(Token::Time(&rest[..end])), end)
                    }
                    Some(mark @ (b'-' | b'/' | b'.')) => {
                        let end =
                            digits + 1 + count(digits + 1, &|byte| is_digit(byte) || byte == *mark);
                        (Some(Token::Number(&rest[..end])), end)
                    }
                    _ => (Some(Token::Number(&rest[..digits])), digits),
                }
            }
            '.' => {
                let end = 1 + count(1, &is_digit);
                (Some(Token::Number(&rest[..end])), end)
            }
            '+' | '-' => {
                if !bytes.get(1).is_some_and(u8::is_ascii_digit) {
                    return Err(Refusal::Format);
                }
                let end =
                    1 + count(1, &|byte| is_digit(byte) || matches!(byte, b':' | b'.' | b'-'));
                let text = &rest[..end];
                match text.contains(':') {
                    true => (Some(Token::Time(text)), end),
                    false => (Some(Token::Number(text)), end),
                }
            }
            letter if letter.is_ascii_alphabetic() => {
                let end = count(0, &|byte| byte.is_ascii_alphabetic());
                match bytes.get(end) {
                    Some(b'-' | b'/' | b'.') => return Err(Refusal::Format),
                    Some(b'+' | b'0'..=b'9') if !is_known_of_dates(&rest[..end]) => {
                        return Err(Refusal::Format);
                    }
                    _ => (Some(Token::Word(&rest[..end])), end),
                }
            }
            mark if mark.is_ascii_punctuation() => (None, 1),
            _ => return Err(Refusal::Format),
        };
        if let Some(token) = token {
            if tokens.len() == FIELDS_MAX {
                return Err(Refusal::Format);
            }
            tokens.push(token);
        }
        rest = &rest[end..];
    }
    Ok(tokens)
}

/// In small letters, and without the blanks between a sign and its number.
fn lowered(text: &str) -> String {
    let mut lower = String::with_capacity(text.len());
    let mut behind_sign = false;
    for letter in text.chars() {
        if behind_sign && is_space(letter) {
            continue;
        }
        let starts = lower.chars().next_back().is_none_or(is_space);
        behind_sign = starts && matches!(letter, '+' | '-');
        lower.push(letter.to_ascii_lowercase());
    }
    lower
}

/// Words that may have a number right after them, as `1d2h` has: those that dates know too.
fn is_known_of_dates(word: &str) -> bool {
    const WORDS: [&str; 15] =
        ["d", "h", "m", "mm", "s", "y", "j", "t", "dec", "mon", "sat", "sun", "may", "at", "on"];
    WORDS.contains(&word)
}

/// A number's whole part and fraction, and what it counts.
fn number(text: &str, unit: Unit) -> Read<((i64, f64), Unit)> {
    let below = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, behind) = unsigned.split_at(digits);
    let signed = |whole: &str| match whole {
        "" => Ok(0),
        whole => {
            let text = if below { format!("-{whole}") } else { whole.to_owned() };
            text.parse::<i64>().map_err(|_| Refusal::Overflow)
        }
    };
    let whole = signed(whole)?;
    if behind.is_empty() {
        return Ok(((whole, 0.0), unit));
    }
    if let Some(months) = behind.strip_prefix('-') {
        if months.is_empty() || !months.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::Format);
        }
        let months = months.parse::<i64>().ok().filter(|months| *months < 12);
        let months = months.ok_or(Refusal::Overflow)?;
        let months = if below { -months } else { months };
        let sum = whole.checked_mul(12).and_then(|sum| sum.checked_add(months));
        return Ok(((sum.ok_or(Refusal::Overflow)?, 0.0), Unit::Month));
    }
    let fraction = fraction(behind)?;
    Ok(((whole, if below { -fraction } else { fraction }), unit))
}

/// `.5`; a point alone is nothing.
fn fraction(text: &str) -> Read<f64> {
    let digits = text.strip_prefix('.').ok_or(Refusal::Format)?;
    match digits {
        "" => Ok(0.0),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("0{text}").parse().map_err(|_| Refusal::Format)
        }
        _ => Err(Refusal::Format),
    }
}

/// `h:m[:s[.f]]`, or `m:s` where that is what the fields or a fraction say, in microseconds.
fn time_of_day(text: &str, fields: Fields) -> Read<i64> {
    let below = text.starts_with('-');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true if digits.is_empty() => Ok(0),
        true => digits.parse::<i64>().map_err(|_| Refusal::Overflow),
        false => Err(Refusal::Format),
    };
    let (rest, fraction_text) = match unsigned.find('.') {
        Some(point) => unsigned.split_at(point),
        None => (unsigned, ""),
    };
    let mut parts = rest.split(':');
    let first = whole(parts.next().unwrap_or_default())?;
    let second = whole(parts.next().ok_or(Refusal::Format)?)?;
    let third = parts.next().map(whole).transpose()?;
    if parts.next().is_some() {
        return Err(Refusal::Format);
    }
    let fraction = match fraction_text {
        "" => 0.0,
        text => fraction(text)?,
    };
    let is_minutes = !fraction_text.is_empty() || fields.mask == MINUTE | SECOND;
    let (hours, minutes, seconds) = match third {
        Some(third) => (first, second, third),
        None if is_minutes => (0, first, second),
        None => (first, second, 0),
    };
    if minutes > 59 || seconds > 60 {
        return Err(Refusal::Overflow);
    }
    let mut sum = Sum { us: (fraction * 1e6).round_ties_even() as i64, ..Sum::default() };
    sum.add_us(hours, 0.0, HOUR_US)?;
    sum.add_us(minutes, 0.0, MINUTE_US)?;
    sum.add_us(seconds, 0.0, SECOND_US)?;
    Ok(if below { -sum.us } else { sum.us })
}

/// `P…`: with designators, or one of the alternative formats.
fn read_iso(text: &str) -> Read<Sum> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Refusal::Format)?;
    let (mut sum, mut is_date, mut has_field) = (Sum::default(), true, false);
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T') {
            (rest, is_date, has_field) = (behind, false, false);
            continue;
        }
        let (number, digits) = iso_number(&mut rest)?;
        let (whole, fraction) = number;
        let unit = rest.chars().next();
        let of_date = match (unit, is_date) {
            (Some('Y'), true) => Some(Unit::Year),
            (Some('M'), true) => Some(Unit::Month),
            (Some('W'), true) => Some(Unit::Week),
            (Some('D'), true) => Some(Unit::Day),
            (Some('H'), false) => Some(Unit::Hour),
            (Some('M'), false) => Some(Unit::Minute),
            (Some('S'), false) => Some(Unit::Second),
            _ => None,
        };
        if let Some(unit) = of_date {
            unit.add(whole, fraction, &mut sum)?;
            rest = &rest[1..];
            has_field = true;
            continue;
        }
        if has_field {
            return Err(Refusal::Format);
        }
        match (unit, is_date) {
            (None | Some('T'), true) if digits == 8 => {
                sum.add_years(whole / 10_000, 0.0, 1)?;
                sum.add_months(whole / 100 % 100, 0.0)?;
                Unit::Day.add(whole % 100, fraction, &mut sum)?;
            }
            (None | Some('T' | '-'), true) => {
                let parts = [Unit::Year, Unit::Month, Unit::Day];
                iso_parts(number, parts, '-', &mut rest, &mut sum)?;
                if !rest.is_empty() && !rest.starts_with('T') {
                    return Err(Refusal::Format);
                }
            }
            (None, false) if digits == 6 => {
                sum.add_us(whole / 10_000, 0.0, HOUR_US)?;
                sum.add_us(whole / 100 % 100, 0.0, MINUTE_US)?;
                sum.add_us(whole % 100, 0.0, SECOND_US)?;
                sum.add_fraction(fraction, 1)?;
            }
            (None | Some(':'), false) => {
                let parts = [Unit::Hour, Unit::Minute, Unit::Second];
                iso_parts(number, parts, ':', &mut rest, &mut sum)?;
                return if rest.is_empty() { Ok(sum) } else { Err(Refusal::Format) };
            }
            _ => return Err(Refusal::Format),
        }
        has_field = true;
    }
    Ok(sum)
}

/// Up to three numbers with a mark between them.
fn iso_parts(
    first: (i64, f64),
    units: [Unit; 3],
    mark: char,
    rest: &mut &str,
    sum: &mut Sum,
) -> Read<()> {
    let mut number = first;
    for (place, unit) in units.into_iter().enumerate() {
        unit.add(number.0, number.1, sum)?;
        match rest.strip_prefix(mark) {
            Some(behind) if place < 2 => {
                *rest = behind;
                number = iso_number(rest)?.0;
            }
            _ => break,
        }
    }
    Ok(())
}

/// A number as a double is written, and how many digits stand before its point.
fn iso_number(rest: &mut &str) -> Read<((i64, f64), usize)> {
    /// Above it a double has no fraction to speak of.
    const MAX: f64 = 1e15;
    let bytes = rest.as_bytes();
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let digits_at = |from: usize| {
        bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let whole = digits_at(sign);
    let mut end = sign + whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits_at(end + 1);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return Err(Refusal::Format);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_at(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let (text, behind) = rest.split_at(end);
    let number: f64 = text.parse().map_err(|_| Refusal::Format)?;
    if !(-MAX..=MAX).contains(&number) {
        return Err(Refusal::Overflow);
    }
    *rest = behind;
    Ok(((number.trunc() as i64, number - number.trunc()), whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, fields: Fields, style: Style) -> String {
        match read(text, fields, style) {
            Ok(interval) => {
                let mut out = Vec::new();
                super::super::write(interval, &mut out);
                String::from_utf8(out).unwrap()
            }
            Err(error) => error.code().to_string(),
        }
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        for (text, expected) in [
            ("1 day", "1 day"),
            ("  1   day  ", "1 day"),
            ("@ 1 minute", "00:01:00"),
            ("1 year 2 mons -3 days 04:05:06.7", "1 year 2 mons -3 days +04:05:06.7"),
            ("1.5 hours", "01:30:00"),
            ("-00:30", "-00:30:00"),
            ("3 weeks ago", "-21 days"),
            ("- 1 day + 2:03", "-1 days +02:03:00"),
            ("1day", "1 day"),
            ("1d2h3m4s", "1 day 02:03:04"),
            ("2h30m", "02:30:00"),
            ("1.5 months", "1 mon 15 days"),
            ("1.3 years", "1 year 4 mons"),
            ("0.5 weeks", "3 days 12:00:00"),
            ("1", "00:00:01"),
            ("1.5", "00:00:01.5"),
            ("1 2:03", "1 day 02:03:00"),
            ("1-2", "1 year 2 mons"),
            ("-1-2 +3 -4:05", "-1 years -2 mons +3 days -04:05:00"),
            ("1 day 2", "1 day 00:00:02"),
            ("3 04:05:06", "3 days 04:05:06"),
            ("1 millennium 2 centuries 3 decades", "1230 years"),
            ("5 microseconds", "00:00:00.000005"),
            ("1:02.5", "00:01:02.5"),
            ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
            ("P1W", "7 days"),
            ("PT-1.5S", "-00:00:01.5"),
            ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
            ("P00010203T040506", "1 year 2 mons 3 days 04:05:06"),
            ("P1.5Y", "1 year 6 mons"),
            ("PT1e2S", "00:01:40"),
            ("12:34:56.123456789", "12:34:56.123457"),
            ("", "22007"),
            ("ago", "22007"),
            ("day", "22007"),
            ("nonsense", "22007"),
            ("1 fortnight", "22007"),
            ("1 day 1 day", "22007"),
            ("1 day ago ago", "-1 days"),
            ("1:99", "22015"),
            ("P", "22007"),
            ("P1X", "22007"),
            ("99999999999 days", "22015"),
            ("2147483647 years", "22008"),
            ("1-13", "22015"),
            ("1day2hours", "22007"),
        ] {
            assert_eq!(shown(text, Fields::default(), Style::Postgres), expected, "{text}");
        }
    }

    #[test]
    fn fields_and_style_decide_what_a_number_counts() {
        let of = |text: &str, range: &str| {
            shown(text, Fields::of(range, None).unwrap(), Style::Postgres)
        };
        assert_eq!(of("90", "minute"), "01:30:00");
        assert_eq!(of("90", "year"), "90 years");
        assert_eq!(of("14", "year to month"), "1 year 2 mons");
        assert_eq!(of("1:30", "minute to second"), "00:01:30");
        assert_eq!(of("1:30", "day to second"), "01:30:00");
        assert_eq!(of("1 day 2:03:04", "day to hour"), "1 day 02:00:00");
        let sql = |text: &str| shown(text, Fields::default(), Style::SqlStandard);
        assert_eq!(sql("-1 2:03"), "-1 days -02:03:00");
        assert_eq!(sql("-1 +2:03"), "-1 days +02:03:00");
        assert_eq!(sql("-1-2"), "-1 years -2 mons");
    }
}
