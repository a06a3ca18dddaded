//! `to_char` of dates and times: PostgreSQL's patterns, with English names and in UTC.
//!
//! A format is read from the left: a prefix (`FM`, `TM`), the first keyword of [`KEYWORDS`] that
//! stands there, a suffix (`TH`, `th`); what is no keyword stands for itself. Keywords that begin
//! alike are tried in PostgreSQL's order, since the first that fits is taken.

use chrono::{Datelike, NaiveDate};
use types::arithmetic::check_made_bytes;
use types::datetime::timestamp_to_date;
use types::interval::Parts;
use types::{Error, Interval, Result, SqlState, Value};

use super::datetime::{DAY_US, HOUR_US, MINUTE_US, SECOND_US, calendar};
use crate::meter::Meter;

/// The Julian day of 2000-01-01.
const EPOCH_JULIAN: i32 = 2_451_545;

/// After so many pieces the meter is looked at.
const PIECES_PER_LOOK: usize = 1024;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Era {
        dotted: bool,
    },
    HalfOfDay {
        dotted: bool,
    },
    Century,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    /// So many digits of a second's fraction.
    Fraction(u32),
    Exact,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Week,
    IsoWeek,
    WeekOfMonth,
    Month,
    MonthName,
    MonthShort,
    MonthRoman,
    Quarter,
    JulianDay,
    /// Its last digits; 4: all of them.
    Year(usize),
    IsoYear(usize),
    YearWithComma,
    Zone,
    ZoneHour,
    ZoneMinute,
    ZoneOffset,
}

/// In upper case; PostgreSQL's in lower case are the same, which show names in lower case.
const KEYWORDS: &[(&str, Key)] = &[
    ("A.D.", Key::Era { dotted: true }),
    ("A.M.", Key::HalfOfDay { dotted: true }),
    ("AD", Key::Era { dotted: false }),
    ("AM", Key::HalfOfDay { dotted: false }),
    ("B.C.", Key::Era { dotted: true }),
    ("BC", Key::Era { dotted: false }),
    ("CC", Key::Century),
    ("DAY", Key::DayName),
    ("DDD", Key::DayOfYear),
    ("DD", Key::Day),
    ("DY", Key::DayShort),
    ("D", Key::DayOfWeek),
    ("FF1", Key::Fraction(1)),
    ("FF2", Key::Fraction(2)),
    ("FF3", Key::Fraction(3)),
    ("FF4", Key::Fraction(4)),
    ("FF5", Key::Fraction(5)),
    ("FF6", Key::Fraction(6)),
    ("FX", Key::Exact),
    ("HH24", Key::Hour24),
    ("HH12", Key::Hour12),
    ("HH", Key::Hour12),
    ("IDDD", Key::IsoDayOfYear),
    ("ID", Key::IsoDayOfWeek),
    ("IW", Key::IsoWeek),
    ("IYYY", Key::IsoYear(4)),
    ("IYY", Key::IsoYear(3)),
    ("IY", Key::IsoYear(2)),
    ("I", Key::IsoYear(1)),
    ("J", Key::JulianDay),
    ("MI", Key::Minute),
    ("MM", Key::Month),
    ("MONTH", Key::MonthName),
    ("MON", Key::MonthShort),
    ("MS", Key::Fraction(3)),
    ("OF", Key::ZoneOffset),
    ("P.M.", Key::HalfOfDay { dotted: true }),
    ("PM", Key::HalfOfDay { dotted: false }),
    ("Q", Key::Quarter),
    ("RM", Key::MonthRoman),
    ("SSSSS", Key::SecondOfDay),
    ("SSSS", Key::SecondOfDay),
    ("SS", Key::Second),
    ("TZH", Key::ZoneHour),
    ("TZM", Key::ZoneMinute),
    ("TZ", Key::Zone),
    ("US", Key::Fraction(6)),
    ("WW", Key::Week),
    ("W", Key::WeekOfMonth),
    ("Y,YYY", Key::YearWithComma),
    ("YYYY", Key::Year(4)),
    ("YYY", Key::Year(3)),
    ("YY", Key::Year(2)),
    ("Y", Key::Year(1)),
];

/// Names that can also be written with a first capital.
const CAPITALISED: &[(&str, Key)] = &[
    ("Day", Key::DayName),
    ("Dy", Key::DayShort),
    ("Month", Key::MonthName),
    ("Mon", Key::MonthShort),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Upper,
    Lower,
    Capital,
}

/// What stands in front of a keyword and after it.
#[derive(Clone, Copy, Default, Debug)]
struct Affixes {
    /// No padding.
    fill: bool,
    /// The names of the locale, which are never padded.
    locale: bool,
    /// An ordinal number, in upper case or not.
    ordinal: Option<bool>,
}

/// A moment as the patterns take it apart.
struct Moment {
    date: NaiveDate,
    of_day_us: i64,
    julian: i32,
    is_zoned: bool,
}

/// NULL where the format is empty, or there is none.
pub(super) fn call(value: &Value, format: &Value, meter: &Meter) -> Result<Value> {
    let Some(format) = format.as_text() else { return Ok(Value::Null) };
    let text = match value {
        Value::Timestamp(us) => to_char(*us, format, false, meter),
        Value::Timestamptz(us) => to_char(*us, format, true, meter),
        Value::Interval(interval) => of_interval(*interval, format, meter),
        _ => Ok(None),
    };
    Ok(text?.map_or(Value::Null, Value::from))
}

/// `None`: the format is empty.
fn to_char(us: i64, format: &str, is_zoned: bool, meter: &Meter) -> Result<Option<String>> {
    let days = timestamp_to_date(us);
    let moment = Moment {
        date: calendar(days)?,
        of_day_us: us.rem_euclid(DAY_US),
        julian: days + EPOCH_JULIAN,
        is_zoned,
    };
    formatted(format, meter, |out, key, case, affixes| moment.put(out, key, case, affixes))
}

/// Of an interval, which has no place in a calendar. `None`: the format is empty.
fn of_interval(interval: Interval, format: &str, meter: &Meter) -> Result<Option<String>> {
    let length = Length(interval.parts());
    formatted(format, meter, |out, key, case, affixes| length.put(out, key, case, affixes))
}

fn formatted(
    format: &str,
    meter: &Meter,
    put: impl Fn(&mut String, Key, Case, Affixes) -> Result<()>,
) -> Result<Option<String>> {
    if format.is_empty() {
        return Ok(None);
    }
    let (mut out, mut rest, mut pieces) = (String::new(), format, 0);
    while !rest.is_empty() {
        pieces += 1;
        if pieces % PIECES_PER_LOOK == 0 {
            meter.check()?;
        }
        let mut affixes = Affixes::default();
        rest = affixes.take_prefix(rest);
        if let Some((key, case, length)) = keyword(rest) {
            rest = affixes.take_suffix(&rest[length..]);
            put(&mut out, key, case, affixes)?;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = take_quoted(&mut out, quoted);
        } else {
            let plain = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
            let mut characters = plain.chars();
            out.extend(characters.next());
            rest = characters.as_str();
        }
    }
    check_made_bytes(out.len())?;
    meter.spend_bytes(out.len())?;
    Ok(Some(out))
}

/// Up to the closing quote; a backslash stands before a character of any kind.
fn take_quoted<'f>(out: &mut String, quoted: &'f str) -> &'f str {
    let mut characters = quoted.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => break,
            '\\' => out.push(characters.next().unwrap_or(c)),
            c => out.push(c),
        }
    }
    characters.as_str()
}

fn keyword(text: &str) -> Option<(Key, Case, usize)> {
    let first = text.as_bytes().first()?.to_ascii_uppercase();
    let known = KEYWORDS.iter().filter(|(name, _)| name.as_bytes()[0] == first);
    for (name, key) in known {
        let Some(found) = text.as_bytes().get(..name.len()) else { continue };
        if found == name.as_bytes() {
            return Some((*key, Case::Upper, name.len()));
        }
        let is_lower = found.iter().all(|byte| !byte.is_ascii_uppercase());
        if is_lower && found.eq_ignore_ascii_case(name.as_bytes()) {
            return Some((*key, Case::Lower, name.len()));
        }
        // Before the keyword of one letter that it begins with.
        if name.len() <= 2
            && let Some((capital, key)) = CAPITALISED.iter().find(|(it, _)| text.starts_with(it))
        {
            return Some((*key, Case::Capital, capital.len()));
        }
    }
    let (capital, key) = CAPITALISED.iter().find(|(it, _)| text.starts_with(it))?;
    Some((*key, Case::Capital, capital.len()))
}

impl Affixes {
    fn take_prefix<'f>(&mut self, text: &'f str) -> &'f str {
        match text.get(..2) {
            Some("FM" | "fm") => self.fill = true,
            Some("TM" | "tm") => self.locale = true,
            _ => return text,
        }
        &text[2..]
    }

    fn take_suffix<'f>(&mut self, text: &'f str) -> &'f str {
        match text.get(..2) {
            Some("TH") => self.ordinal = Some(true),
            Some("th") => self.ordinal = Some(false),
            // Spelt numbers, which PostgreSQL reads and does not make.
            Some("SP") => {}
            _ => return text,
        }
        &text[2..]
    }
}

impl Moment {
    fn put(&self, out: &mut String, key: Key, case: Case, affixes: Affixes) -> Result<()> {
        if let Some((number, width)) = self.number(key) {
            return put_number(out, number, width, affixes);
        }
        match key {
            Key::YearWithComma => {
                let year = self.year();
                let text = format!("{},{:03}", year / 1000, year % 1000);
                put_ordinal(out, text, affixes)?;
            }
            Key::Fraction(digits) => {
                let fraction = self.of_day_us % SECOND_US / 10_i64.pow(6 - digits);
                let text = format!("{fraction:0width$}", width = digits as usize);
                put_ordinal(out, text, affixes)?;
            }
            Key::Zone if !self.is_zoned => {}
            Key::Exact => {}
            Key::ZoneOffset if affixes.fill => out.push_str("+0"),
            Key::ZoneHour | Key::ZoneOffset => out.push_str("+00"),
            Key::ZoneMinute => out.push_str("00"),
            _ => {
                let (name, width) = self.name(key);
                let is_of_locale = affixes.locale && key != Key::MonthRoman;
                let padded = !affixes.fill && !is_of_locale;
                let width = if padded { width } else { 0 };
                let cased = match case {
                    Case::Upper => name.to_ascii_uppercase(),
                    Case::Lower => name.to_ascii_lowercase(),
                    Case::Capital => name.to_owned(),
                };
                out.push_str(&format!("{cased:<width$}"));
            }
        }
        Ok(())
    }

    /// Of numbers, and how many digits they have at least.
    fn number(&self, key: Key) -> Option<(i64, usize)> {
        let date = self.date;
        let hour = self.of_day_us / HOUR_US;
        let last = |year: i64, digits: usize| match digits {
            4 => year,
            digits => year % 10_i64.pow(digits as u32),
        };
        let of = |number: u32, width| Some((i64::from(number), width));
        match key {
            Key::Hour24 => Some((hour, 2)),
            Key::Hour12 => Some(((hour + 11) % 12 + 1, 2)),
            Key::Minute => Some((self.of_day_us / MINUTE_US % 60, 2)),
            Key::Second => Some((self.of_day_us / SECOND_US % 60, 2)),
            Key::SecondOfDay => Some((self.of_day_us / SECOND_US, 0)),
            Key::Month => of(date.month(), 2),
            Key::Day => of(date.day(), 2),
            Key::DayOfYear => of(date.ordinal(), 3),
            Key::IsoDayOfYear => {
                let day = (date.iso_week().week() - 1) * 7 + date.weekday().number_from_monday();
                of(day, 3)
            }
            Key::DayOfWeek => of(date.weekday().number_from_sunday(), 0),
            Key::IsoDayOfWeek => of(date.weekday().number_from_monday(), 0),
            Key::Week => of((date.ordinal() - 1) / 7 + 1, 2),
            Key::IsoWeek => of(date.iso_week().week(), 2),
            Key::WeekOfMonth => of((date.day() - 1) / 7 + 1, 0),
            Key::Quarter => of((date.month() - 1) / 3 + 1, 0),
            Key::JulianDay => Some((self.julian.into(), 0)),
            Key::Year(digits) => Some((last(self.year(), digits), digits)),
            Key::IsoYear(digits) => Some((last(in_era(date.iso_week().year()), digits), digits)),
            Key::Century => {
                let year = i64::from(date.year());
                let century = if year > 0 { (year - 1) / 100 + 1 } else { year / 100 - 1 };
                let width = match century {
                    0..100 => 2,
                    -99..0 => 3,
                    _ => 0,
                };
                Some((century, width))
            }
            _ => None,
        }
    }

    /// Names, and the width that they are padded to.
    fn name(&self, key: Key) -> (&'static str, usize) {
        let (month, day) = (self.date.month0() as usize, self.date.weekday());
        let day = DAYS[day.num_days_from_sunday() as usize];
        let is_late = self.of_day_us >= 12 * HOUR_US;
        let is_before = self.date.year() <= 0;
        match key {
            Key::MonthName => (MONTHS[month], 9),
            Key::MonthShort => (&MONTHS[month][..3], 0),
            Key::MonthRoman => (ROMAN[month], 4),
            Key::DayName => (day, 9),
            Key::DayShort => (&day[..3], 0),
            Key::HalfOfDay { dotted: true } => (if is_late { "P.M." } else { "A.M." }, 0),
            Key::HalfOfDay { dotted: false } => (if is_late { "PM" } else { "AM" }, 0),
            Key::Era { dotted: true } => (if is_before { "B.C." } else { "A.D." }, 0),
            Key::Era { dotted: false } => (if is_before { "BC" } else { "AD" }, 0),
            _ => ("UTC", 0),
        }
    }

    fn year(&self) -> i64 {
        in_era(self.date.year())
    }
}

/// An interval as the patterns take it apart.
struct Length(Parts);

impl Length {
    fn put(&self, out: &mut String, key: Key, case: Case, affixes: Affixes) -> Result<()> {
        let parts = self.0;
        let month = match (parts.months, parts.years) {
            (0, 0) => None,
            // Whole years end with a month, which is the first one's name where they are below 0.
            (0, years) if years > 0 => Some(11),
            (0, _) => Some(0),
            (months, _) if months < 0 => Some(12 + months),
            (months, _) => Some(months - 1),
        };
        match key {
            Key::Exact => Ok(()),
            Key::MonthRoman => {
                let name = month.map_or("", |month| ROMAN[month as usize % 12]);
                let width = if affixes.fill || month.is_none() { 0 } else { 4 };
                let name = match case {
                    Case::Lower => name.to_ascii_lowercase(),
                    _ => name.to_owned(),
                };
                out.push_str(&format!("{name:<width$}"));
                Ok(())
            }
            Key::HalfOfDay { dotted } => {
                let is_late = parts.hours % 24 >= 12;
                let name = match (is_late, dotted) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                };
                match case {
                    Case::Lower => out.push_str(&name.to_ascii_lowercase()),
                    _ => out.push_str(name),
                }
                Ok(())
            }
            Key::YearWithComma => {
                let text = format!("{},{:03}", parts.years / 1000, parts.years % 1000);
                put_ordinal(out, text, affixes)
            }
            Key::Fraction(digits) => {
                let fraction = parts.us / 10_i32.pow(6 - digits);
                let text = format!("{fraction:0width$}", width = digits as usize);
                put_ordinal(out, text, affixes)
            }
            Key::Quarter if parts.months == 0 => Ok(()),
            key => match self.number(key) {
                Some((number, width)) => {
                    // A sign has a place of its own, but for days and weeks.
                    let is_fixed = matches!(key, Key::Day | Key::DayOfYear | Key::Week);
                    let has_sign = number < 0 && width > 0 && !is_fixed;
                    let width = if has_sign { width + 1 } else { width };
                    put_number(out, number, width, affixes)
                }
                None => Err(Error::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    "invalid format specification for an interval value",
                )
                .with_hint("Intervals are not tied to specific calendar dates.")),
            },
        }
    }

    /// Of numbers, and how many digits they have at least.
    fn number(&self, key: Key) -> Option<(i64, usize)> {
        let parts = self.0;
        let (years, months, days) =
            (i64::from(parts.years), i64::from(parts.months), i64::from(parts.days));
        let (minutes, seconds) = (i64::from(parts.minutes), i64::from(parts.seconds));
        let of_year = (years * 12 + months) * 30 + days;
        Some(match key {
            Key::Hour24 => (parts.hours, 2),
            Key::Hour12 if parts.hours % 12 == 0 => (12, 2),
            Key::Hour12 => (parts.hours % 12, 2),
            Key::Minute => (minutes, 2),
            Key::Second => (seconds, 2),
            Key::SecondOfDay => (parts.hours * 3600 + minutes * 60 + seconds, 0),
            Key::Month => (months, 2),
            Key::Day => (days, 2),
            Key::DayOfYear => (of_year, 3),
            Key::Week => ((of_year - 1) / 7 + 1, 2),
            Key::WeekOfMonth => ((days - 1) / 7 + 1, 0),
            Key::Quarter => ((months - 1) / 3 + 1, 0),
            Key::Year(4) => (years, 4),
            Key::Year(digits) => (years % 10_i64.pow(digits as u32), digits),
            Key::Century if (-9_999..=9_999).contains(&years) => (years / 100, 2),
            Key::Century => (years / 100, 0),
            _ => return None,
        })
    }
}

/// There is no year 0: what the calendar calls so is 1 BC.
fn in_era(year: i32) -> i64 {
    let year = i64::from(year);
    if year <= 0 { 1 - year } else { year }
}

fn put_number(out: &mut String, number: i64, width: usize, affixes: Affixes) -> Result<()> {
    let width = if affixes.fill { 0 } else { width };
    put_ordinal(out, format!("{number:0width$}"), affixes)
}

fn put_ordinal(out: &mut String, number: String, affixes: Affixes) -> Result<()> {
    out.push_str(&number);
    let Some(is_upper) = affixes.ordinal else { return Ok(()) };
    let mut digits = number.bytes().rev();
    let last = digits.next().filter(u8::is_ascii_digit).ok_or_else(|| {
        let what = format!("\"{number}\" is not a number");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    })?;
    let ending = match (last, digits.next()) {
        (_, Some(b'1')) => "th",
        (b'1', _) => "st",
        (b'2', _) => "nd",
        (b'3', _) => "rd",
        _ => "th",
    };
    match is_upper {
        true => out.push_str(&ending.to_ascii_uppercase()),
        false => out.push_str(ending),
    }
    Ok(())
}
