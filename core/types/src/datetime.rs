//! Calendar: dates and timestamps as text, and the conversions between them.
//!
//! Input is ISO 8601 as PostgreSQL reads it: `2024-02-29`, `20240229`, `2024/02/29`, a time of
//! day after a blank or `T`, fractions to the microsecond (more digits are rounded), an offset
//! (`Z`, `UTC`, `+05:30`), ` BC`. Output is ISO in UTC; for other zones see [`zone`](crate::zone).
//!
//! Departures: no infinities, no words that need a clock (`now`, `today`), no month names, no days
//! of the year, no two-digit years; the last year is 262142, where PostgreSQL goes on.

use bytes::BufMut;
use chrono::{Datelike, Months, NaiveDate};

use crate::datatype::DataType;
use crate::digits::write_int;
use crate::error::{Error, Result, SqlState};
use crate::unicode::is_space;

pub const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = DAY_US / 24;
/// -4713-11-24 (4714-11-24 BC), Julian day 0.
pub const DATE_MIN: i32 = -2_451_545;
/// 262142-12-31, the calendar library's last day.
pub const DATE_MAX: i32 = 95_015_279;
/// Days from 0001-01-01, day 1 of the common era, to PostgreSQL's epoch.
const EPOCH_DAYS_FROM_CE: i32 = 730_120;

/// Midnight; saturates beyond the calendar.
pub fn date_to_timestamp_us(days: i32) -> i64 {
    i64::from(days).saturating_mul(DAY_US)
}

/// The day that a timestamp lies in.
pub fn timestamp_to_date(us: i64) -> i32 {
    // 64 bits of microseconds are some 10^8 days either way.
    us.div_euclid(DAY_US) as i32
}

/// Refuses days outside the calendar, and PostgreSQL's encodings of the infinities.
pub fn check_date(days: i64) -> Result<i32> {
    match i32::try_from(days) {
        Ok(i32::MAX | i32::MIN) => Err(Error::unsupported("date infinity")),
        Ok(days) if (DATE_MIN..=DATE_MAX).contains(&days) => Ok(days),
        _ => Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")),
    }
}

pub fn check_timestamp(us: i64) -> Result<i64> {
    if us == i64::MAX || us == i64::MIN {
        return Err(Error::unsupported("timestamp infinity"));
    }
    if us < date_to_timestamp_us(DATE_MIN) || us >= date_to_timestamp_us(DATE_MAX + 1) {
        return Err(Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"));
    }
    Ok(us)
}

/// As many months later (or earlier) at the same time of day, or on the month's last day where it
/// has no such day.
pub fn add_months(us: i64, months: i32) -> Result<i64> {
    if months == 0 {
        return Ok(us);
    }
    let days = timestamp_to_date(us);
    let time = us - date_to_timestamp_us(days);
    let day = days.checked_add(EPOCH_DAYS_FROM_CE).and_then(NaiveDate::from_num_days_from_ce_opt);
    let count = Months::new(months.unsigned_abs());
    let day = day.and_then(|day| match months > 0 {
        true => day.checked_add_months(count),
        false => day.checked_sub_months(count),
    });
    let out_of_range = || Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let days = day.ok_or_else(out_of_range)?.num_days_from_ce() - EPOCH_DAYS_FROM_CE;
    check_timestamp(date_to_timestamp_us(days).saturating_add(time))
}

pub fn write_date(days: i32, out: &mut impl BufMut) {
    if write_day(days, out) {
        out.put_slice(b" BC");
    }
}

pub fn write_timestamp(us: i64, out: &mut impl BufMut) {
    if write_moment(us, out) {
        out.put_slice(b" BC");
    }
}

pub fn write_timestamptz(us: i64, out: &mut impl BufMut) {
    write_timestamptz_ahead(us, 0, out);
}

/// As clocks show it that are so many seconds ahead of UTC.
pub(crate) fn write_timestamptz_ahead(us: i64, ahead_s: i64, out: &mut impl BufMut) {
    let before_christ = write_moment(us.saturating_add(ahead_s * 1_000_000), out);
    write_offset(ahead_s, out);
    if before_christ {
        out.put_slice(b" BC");
    }
}

/// By how many seconds clocks are ahead of UTC.
pub(crate) fn write_offset(ahead_s: i64, out: &mut impl BufMut) {
    out.put_u8(if ahead_s < 0 { b'-' } else { b'+' });
    let seconds = ahead_s.unsigned_abs() as u32;
    write_two_digits(seconds / 3600, out);
    let rest = [seconds / 60 % 60, seconds % 60];
    let written = if rest[1] > 0 { 2 } else { usize::from(rest[0] > 0) };
    for part in &rest[..written] {
        out.put_u8(b':');
        write_two_digits(*part, out);
    }
}

fn write_moment(us: i64, out: &mut impl BufMut) -> bool {
    let before_christ = write_day(timestamp_to_date(us), out);
    out.put_u8(b' ');
    write_of_day(us.rem_euclid(DAY_US), out);
    before_christ
}

/// Microseconds since midnight.
pub(crate) fn write_of_day(us: i64, out: &mut impl BufMut) {
    let (seconds, fraction_us) = (us / 1_000_000, (us % 1_000_000) as u32);
    write_two_digits((seconds / 3600) as u32, out);
    out.put_u8(b':');
    write_two_digits((seconds / 60 % 60) as u32, out);
    out.put_u8(b':');
    write_two_digits((seconds % 60) as u32, out);
    if fraction_us > 0 {
        let mut digits = [b'.'; 7];
        let mut rest = fraction_us;
        for digit in digits[1..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let kept = digits.iter().rposition(|b| *b != b'0').unwrap_or(0);
        out.put_slice(&digits[..=kept]);
    }
}

/// Writes year, month and day; says whether the year is one before Christ.
fn write_day(days: i32, out: &mut impl BufMut) -> bool {
    let day = days.checked_add(EPOCH_DAYS_FROM_CE).and_then(NaiveDate::from_num_days_from_ce_opt);
    let Some(day) = day else {
        // Input, arithmetic and casts keep dates inside the calendar.
        out.put_slice(if days < 0 { b"-infinity" } else { b"infinity" });
        return false;
    };
    let before_christ = day.year() <= 0;
    let year = if before_christ { 1 - day.year() } else { day.year() } as u32;
    if year < 1000 {
        write_two_digits(year / 100, out);
        write_two_digits(year % 100, out);
    } else {
        write_int(i64::from(year), out);
    }
    out.put_u8(b'-');
    write_two_digits(day.month(), out);
    out.put_u8(b'-');
    write_two_digits(day.day(), out);
    before_christ
}

fn write_two_digits(number: u32, out: &mut impl BufMut) {
    out.put_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

pub fn read_date(text: &str) -> Result<i32> {
    Ok(Moment::read(text, &DataType::Date)?.days)
}

/// An offset in the text is read and ignored, as in PostgreSQL.
pub fn read_timestamp(text: &str) -> Result<i64> {
    let moment = Moment::read(text, &DataType::Timestamp(None))?;
    in_range(date_to_timestamp_us(moment.days) + moment.of_day_us, text)
}

pub fn read_timestamptz(text: &str) -> Result<i64> {
    let (local_us, offset_s) = read_shown(text)?;
    in_range(local_us - offset_s.unwrap_or(0) * 1_000_000, text)
}

/// What clocks show, and by how many seconds the text says that they are ahead of UTC.
pub(crate) fn read_shown(text: &str) -> Result<(i64, Option<i64>)> {
    let moment = Moment::read(text, &DataType::Timestamptz(None))?;
    Ok((date_to_timestamp_us(moment.days) + moment.of_day_us, moment.offset_s))
}

fn in_range(us: i64, text: &str) -> Result<i64> {
    check_timestamp(us).map_err(|_| {
        Error::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""))
    })
}

/// What a text says.
struct Moment {
    days: i32,
    /// 24:00:00 is allowed, as is a leap second.
    of_day_us: i64,
    offset_s: Option<i64>,
}

/// Why a text is no moment.
enum Refusal {
    Syntax,
    FieldRange,
    OffsetRange,
}

impl Moment {
    fn read(text: &str, data_type: &DataType) -> Result<Moment> {
        let trimmed = text.trim_matches(is_space);
        match trimmed.to_ascii_lowercase().as_str() {
            "epoch" => {
                return Ok(Moment { days: -10_957, of_day_us: 0, offset_s: Some(0) });
            }
            word @ ("infinity" | "-infinity" | "now" | "today" | "tomorrow" | "yesterday") => {
                return Err(Error::unsupported(format_args!(
                    "input \"{word}\" for type {data_type}"
                )));
            }
            _ => {}
        }
        let read = Reader(trimmed.as_bytes()).moment();
        read.map_err(|refusal| refusal.of(text, data_type))
    }
}

impl Refusal {
    fn of(self, text: &str, data_type: &DataType) -> Error {
        // PostgreSQL's input functions call it so.
        let data_type = match data_type {
            DataType::Time(_) => "time".to_owned(),
            data_type => data_type.to_string(),
        };
        match self {
            Refusal::Syntax => Error::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {data_type}: \"{text}\""),
            ),
            Refusal::FieldRange => Error::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            ),
            Refusal::OffsetRange => Error::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
                format!("time zone displacement out of range: \"{text}\""),
            ),
        }
    }
}

/// A time of day in small letters, which is a part of `text`: microseconds, and seconds ahead of
/// UTC where it says.
pub(crate) fn read_of_day(
    of_day: &str,
    text: &str,
    data_type: &DataType,
) -> Result<(i64, Option<i64>)> {
    let read = Reader(of_day.as_bytes()).clock();
    read.map_err(|refusal| refusal.of(text, data_type))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn moment(&mut self) -> Result<Moment, Refusal> {
        let (year, month, day) = self.year_month_day()?;
        let (mut of_day_us, mut offset_s) = (0, None);
        let before_blank = matches!(self.0, [b' ', ..]);
        let has_time = match self.0 {
            [b'T' | b't', ..] => {
                self.skip(1);
                true
            }
            [b' ', ..] => {
                self.skip_blanks();
                self.0.first().is_some_and(u8::is_ascii_digit)
            }
            _ => false,
        };
        if has_time {
            of_day_us = self.time_of_day()?;
            self.skip_blanks();
        }
        // A date alone may have an offset after a blank, as JDBC's driver writes it.
        if has_time || before_blank {
            offset_s = self.offset()?;
        }
        self.skip_blanks();
        let before_christ = self.word(b"bc");
        if !before_christ {
            self.word(b"ad");
        }
        if !self.0.is_empty() {
            return Err(Refusal::Syntax);
        }
        let days = days_from_calendar(year, month, day, before_christ)?;
        Ok(Moment { days, of_day_us, offset_s })
    }

    fn year_month_day(&mut self) -> Result<(u32, u32, u32), Refusal> {
        let (year, width) = self.number(8)?;
        let separator = match self.0 {
            [b @ (b'-' | b'/' | b'.'), ..] => *b,
            // 20240229
            _ if width == 8 => return Ok((year / 10_000, year / 100 % 100, year % 100)),
            _ => return Err(Refusal::Syntax),
        };
        if width < 3 {
            // Two-digit years and day-first dates would be a guess.
            return Err(Refusal::FieldRange);
        }
        self.skip(1);
        let (month, _) = self.number(2)?;
        if self.0.first() != Some(&separator) {
            return Err(Refusal::Syntax);
        }
        self.skip(1);
        let (day, _) = self.number(2)?;
        Ok((year, month, day))
    }

    /// A time of day alone: with colons, or as four or six digits.
    fn clock(&mut self) -> Result<(i64, Option<i64>), Refusal> {
        self.word(b"t");
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut us = match (digits, self.0.get(digits)) {
            (1 | 2, Some(b':')) => self.time_of_day()?,
            (4, _) => {
                let (number, _) = self.number(4)?;
                of_day_us(number / 100, number % 100, (0, 0))?
            }
            (6, _) => {
                let (number, _) = self.number(6)?;
                let mut fraction_us = 0;
                if self.0.first() == Some(&b'.') {
                    self.skip(1);
                    fraction_us = self.fraction_us();
                }
                of_day_us(number / 10_000, number / 100 % 100, (number % 100, fraction_us))?
            }
            _ => return Err(Refusal::Syntax),
        };
        self.skip_blanks();
        let half = [self.word(b"am"), self.word(b"pm")];
        if half.contains(&true) {
            let (hour, noon) = (us / HOUR_US, 12 * HOUR_US);
            match half {
                _ if hour > 12 => return Err(Refusal::FieldRange),
                [true, _] if hour == 12 => us -= noon,
                [_, true] if hour < 12 => us += noon,
                _ => {}
            }
            self.skip_blanks();
        }
        let offset_s = self.offset()?;
        self.skip_blanks();
        if self.0.is_empty() { Ok((us, offset_s)) } else { Err(Refusal::Syntax) }
    }

    /// `hh:mm[:ss[.ffffff]]` in microseconds.
    fn time_of_day(&mut self) -> Result<i64, Refusal> {
        let (hour, _) = self.number(2)?;
        self.expect(b':')?;
        let (minute, _) = self.number(2)?;
        let (mut second, mut fraction_us) = (0, 0);
        if self.0.first() == Some(&b':') {
            self.skip(1);
            (second, _) = self.number(2)?;
            if self.0.first() == Some(&b'.') {
                self.skip(1);
                fraction_us = self.fraction_us();
            }
        }
        of_day_us(hour, minute, (second, fraction_us))
    }

    /// The digits of a fraction of a second; those beyond microseconds round.
    fn fraction_us(&mut self) -> i64 {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut us = 0;
        for place in 0..6 {
            us = us * 10 + self.0.get(place).filter(|_| place < digits).map_or(0, digit);
        }
        let up = digits > 6 && self.0[6] >= b'5';
        self.skip(digits);
        us + i64::from(up)
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Result<Option<i64>, Refusal> {
        if self.word(b"z") || self.word(b"utc") || self.word(b"gmt") {
            return Ok(Some(0));
        }
        let east = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Ok(None),
        };
        self.skip(1);
        let (first, width) = self.number(4)?;
        let (hours, mut minutes) = match width {
            1 | 2 => (first, 0),
            _ => (first / 100, first % 100),
        };
        let mut seconds = 0;
        if width <= 2 && self.0.first() == Some(&b':') {
            self.skip(1);
            (minutes, _) = self.number(2)?;
            if self.0.first() == Some(&b':') {
                self.skip(1);
                (seconds, _) = self.number(2)?;
            }
        }
        if hours > 15 || minutes > 59 || seconds > 59 {
            return Err(Refusal::OffsetRange);
        }
        Ok(Some(east * i64::from(hours * 3600 + minutes * 60 + seconds)))
    }

    /// A number of at least one digit and at most `width_max`, and how many it has.
    fn number(&mut self, width_max: usize) -> Result<(u32, usize), Refusal> {
        let width = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if width == 0 || width > width_max {
            return Err(Refusal::Syntax);
        }
        let number = self.0[..width].iter().fold(0, |number, b| number * 10 + u32::from(b - b'0'));
        self.skip(width);
        Ok((number, width))
    }

    fn expect(&mut self, byte: u8) -> Result<(), Refusal> {
        if self.0.first() != Some(&byte) {
            return Err(Refusal::Syntax);
        }
        self.skip(1);
        Ok(())
    }

    fn word(&mut self, lowercase: &[u8]) -> bool {
        let found =
            self.0.get(..lowercase.len()).is_some_and(|head| head.eq_ignore_ascii_case(lowercase));
        if found {
            self.skip(lowercase.len());
        }
        found
    }

    fn skip(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }

    fn skip_blanks(&mut self) {
        while self.0.first().is_some_and(|byte| is_space(char::from(*byte))) {
            self.skip(1);
        }
    }
}

fn of_day_us(hour: u32, minute: u32, (second, us): (u32, i64)) -> Result<i64, Refusal> {
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    let of_day_us = seconds * 1_000_000 + us;
    if hour > 24 || minute > 59 || second > 60 || (hour == 24 && of_day_us > DAY_US) {
        return Err(Refusal::FieldRange);
    }
    Ok(of_day_us)
}

fn digit(b: &u8) -> i64 {
    i64::from(b - b'0')
}

fn days_from_calendar(
    year: u32,
    month: u32,
    day: u32,
    before_christ: bool,
) -> Result<i32, Refusal> {
    if year == 0 {
        return Err(Refusal::FieldRange);
    }
    let year = if before_christ { 1 - year as i32 } else { year as i32 };
    let date = NaiveDate::from_ymd_opt(year, month, day).ok_or(Refusal::FieldRange)?;
    let days = date.num_days_from_ce() - EPOCH_DAYS_FROM_CE;
    if days < DATE_MIN {
        return Err(Refusal::FieldRange);
    }
    Ok(days)
}
