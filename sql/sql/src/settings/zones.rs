//! The time zones that sessions can have, by name.
//!
//! Their rules are those of the time zone database in the release that `chrono-tz` names
//! ([`RELEASE`]), and nothing of them is ever ordered: a session reads and shows its own clocks
//! ([`Zone`]), and what it hands to the ledger are moments.
//!
//! The database's rules end with [`YEAR_MAX`], and repeat as [`types::rules`] says. (Morocco's
//! follow the moon until 2087, and differ.) Before 1970 places that have agreed since then share
//! one history, as the database has it; a PostgreSQL whose zones were built with `backzone` knows
//! more.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use chrono::{
    DateTime, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone,
};
use chrono_tz::{TZ_VARIANTS, Tz};
use kit::sync::lock;
use types::rules::{Rules, YEAR_MAX, in_known_year};
use types::zone::Clocks;
use types::{Error, Result, SqlState, Zone};

/// Which release of the database it is.
pub const RELEASE: &str = chrono_tz::IANA_TZDB_VERSION;

/// Before this year clocks showed what the sun did.
const YEAR_MIN: i32 = 1800;
const DAY_S: i64 = 86_400;

/// No clock is put forward by more.
const LONGEST_GAP: TimeDelta = TimeDelta::hours(25);

/// No clocks are further ahead of UTC, nor behind.
const AHEAD_S_MAX: i64 = 16 * 3600;

/// From 1970 to 2000.
const EPOCH_US: i64 = 946_684_800_000_000;

const UTC: [&str; 12] = [
    "utc",
    "gmt",
    "etc/utc",
    "etc/gmt",
    "zulu",
    "etc/zulu",
    "universal",
    "etc/universal",
    "uct",
    "etc/uct",
    "greenwich",
    "etc/greenwich",
];

/// The zone that a text names: one of the database, in letters of any case, or hours east of UTC.
///
/// # Errors
/// 22023: there is none.
pub fn find(text: &str) -> Result<Zone> {
    let name = text.trim();
    let lower = name.to_ascii_lowercase();
    if UTC.contains(&lower.as_str()) {
        return Ok(Zone::default());
    }
    if let Some(ahead_s) = hours(name) {
        return ahead(ahead_s);
    }
    match (of_place(name), posix(name)) {
        (Some(zone), _) => Ok(Zone::of(Arc::new(Named(zone)))),
        (None, Some(0)) => Ok(Zone::default()),
        (None, Some(ahead_s)) => Ok(Zone::of(Arc::new(Fixed { name: name.to_owned(), ahead_s }))),
        (None, None) => Err(unknown(text)),
    }
}

/// The zone that AT TIME ZONE names: hours alone are counted west of UTC, as POSIX has them.
///
/// # Errors
/// 22023: there is none. 0A000: PostgreSQL makes something of its own of a fraction of hours.
pub fn find_at(text: &str) -> Result<Zone> {
    match hours(text.trim()) {
        Some(_) if text.contains('.') => {
            Err(Error::unsupported("AT TIME ZONE with a fraction of hours"))
        }
        Some(behind_s) => ahead(-behind_s),
        None => find(text),
    }
}

/// The zone of the database that has this name, in letters of any case.
pub fn of_place(name: &str) -> Option<Tz> {
    TZ_VARIANTS.into_iter().find(|zone| zone.name().eq_ignore_ascii_case(name))
}

/// By how many seconds a place's clocks are ahead of UTC, at a moment of UTC.
pub fn ahead_s(zone: Tz, utc: NaiveDateTime) -> i64 {
    seconds(zone.offset_from_utc_datetime(&utc))
}

/// The same, when they show a time: one that they never show is that of clocks which were not put
/// forward, one that they show twice is the later one.
pub fn ahead_when_shown_s(zone: Tz, shown: NaiveDateTime) -> i64 {
    match zone.offset_from_local_datetime(&shown) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => seconds(offset),
        MappedLocalTime::None => {
            let before = zone.offset_from_local_datetime(&(shown - LONGEST_GAP));
            before.latest().map_or(0, seconds)
        }
    }
}

/// `GMT-02:00` and `+05:30` as POSIX has them, which counts westward: in seconds eastward.
fn posix(name: &str) -> Option<i64> {
    const ABBREVIATION_MIN: usize = 3;
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    let offset = &name[letters..];
    let is_posix = letters >= ABBREVIATION_MIN || letters == 0 && offset.contains(':');
    let ahead_s = of_clock(offset).filter(|_| is_posix).map(|behind_s| -behind_s);
    ahead_s.filter(|ahead_s| ahead_s.abs() <= AHEAD_S_MAX)
}

/// Clocks that are so many seconds ahead of UTC, all year.
///
/// # Errors
/// 22023: no clocks are that far ahead or behind.
pub fn ahead(ahead_s: i64) -> Result<Zone> {
    if ahead_s == 0 {
        return Ok(Zone::default());
    }
    let shown = |s: i64, sign: char| {
        let s = s.abs();
        let mut text = format!("{sign}{:02}", s / 3600);
        if s % 3600 != 0 {
            text.push_str(&format!(":{:02}", s / 60 % 60));
        }
        if s % 60 != 0 {
            text.push_str(&format!(":{:02}", s % 60));
        }
        text
    };
    if ahead_s.abs() > AHEAD_S_MAX {
        return Err(unknown(&shown(ahead_s, if ahead_s < 0 { '-' } else { '+' })));
    }
    let (east, west) = if ahead_s < 0 { ('-', '+') } else { ('+', '-') };
    let name = format!("<{}>{}", shown(ahead_s, east), shown(ahead_s, west));
    Ok(Zone::of(Arc::new(Fixed { name, ahead_s })))
}

/// A zone's name as SHOW gives it: what clocks of UTC are called stays.
pub fn spelled(text: &str) -> String {
    match find(text) {
        Ok(zone) if zone.is_utc() => {
            let name = text.trim();
            of_place(name).map_or("UTC", |zone| zone.name()).to_owned()
        }
        Ok(zone) => zone.name().to_owned(),
        Err(_) => text.to_owned(),
    }
}

fn unknown(text: &str) -> Error {
    let what = format!("invalid value for parameter \"TimeZone\": \"{text}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

/// A number of hours, or what SHOW gives of one, in seconds.
fn hours(text: &str) -> Option<i64> {
    if let Some((east, _)) = text.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return of_clock(east);
    }
    let hours: f64 = text.parse().ok()?;
    text.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b)).then_some(())?;
    Some((hours * 3600.0).round() as i64)
}

/// `+hh[:mm[:ss]]`, in seconds.
pub fn of_clock(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = digits.split(':').map(|part| {
        let is_number = !part.is_empty() && part.len() <= 2;
        (is_number && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse::<i64>().ok())?
    });
    let mut seconds = 3600 * parts.next()??;
    for unit in [60, 1] {
        if let Some(part) = parts.next() {
            seconds += unit * part.filter(|part| *part < 60)?;
        }
    }
    parts.next().is_none().then_some(sign * seconds)
}

#[derive(Debug)]
struct Fixed {
    name: String,
    ahead_s: i64,
}

impl Clocks for Fixed {
    fn name(&self) -> &str {
        &self.name
    }

    fn ahead_s(&self, _: i64) -> i64 {
        self.ahead_s
    }

    fn ahead_when_shown_s(&self, _: i64) -> i64 {
        self.ahead_s
    }

    fn fixed_ahead_s(&self) -> Option<i64> {
        Some(self.ahead_s)
    }

    fn rules(&self) -> Option<Arc<[u8]>> {
        Some(Rules::encode(&self.name, &[(i64::MIN, self.ahead_s as i32)]).into())
    }
}

#[derive(Debug)]
struct Named(Tz);

impl Clocks for Named {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn ahead_s(&self, utc_us: i64) -> i64 {
        clock(utc_us).map_or(0, |at| ahead_s(self.0, at))
    }

    fn ahead_when_shown_s(&self, local_us: i64) -> i64 {
        clock(local_us).map_or(0, |shown| ahead_when_shown_s(self.0, shown))
    }

    fn rules(&self) -> Option<Arc<[u8]>> {
        Some(rules_of(self.0))
    }
}

fn seconds(offset: impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// A time whose clocks the database knows.
fn clock(us: i64) -> Option<NaiveDateTime> {
    in_known_year(DateTime::from_timestamp_micros(us.checked_add(EPOCH_US)?)?.naive_utc())
}

/// A place's clocks as a value, made once in a process: it is asked for their offset each day.
fn rules_of(zone: Tz) -> Arc<[u8]> {
    static KNOWN: LazyLock<Mutex<HashMap<Tz, Arc<[u8]>>>> = LazyLock::new(Mutex::default);
    let mut known = lock(&KNOWN);
    let made =
        known.entry(zone).or_insert_with(|| Rules::encode(zone.name(), &changes(zone)).into());
    Arc::clone(made)
}

fn changes(zone: Tz) -> Vec<(i64, i32)> {
    let first_of = |year| NaiveDate::from_ymd_opt(year, 1, 1).unwrap_or_default();
    let second_of = |date: NaiveDate| date.and_time(NaiveTime::MIN).and_utc().timestamp();
    let ahead = |at_s: i64| {
        let at = DateTime::from_timestamp(at_s, 0).unwrap_or_default().naive_utc();
        ahead_s(zone, at) as i32
    };
    let (mut from_s, end_s) = (second_of(first_of(YEAR_MIN)), second_of(first_of(YEAR_MAX)));
    let mut here = ahead(from_s);
    let mut changes = vec![(i64::MIN, here)];
    while from_s < end_s {
        let to_s = (from_s + DAY_S).min(end_s);
        let there = ahead(to_s);
        if there != here {
            let (mut before_s, mut after_s) = (from_s, to_s);
            while after_s - before_s > 1 {
                let middle_s = before_s + (after_s - before_s) / 2;
                match ahead(middle_s) == here {
                    true => before_s = middle_s,
                    false => after_s = middle_s,
                }
            }
            changes.push((after_s - EPOCH_US / 1_000_000, there));
            here = there;
        }
        from_s = to_s;
    }
    changes
}

#[cfg(test)]
mod tests {
    use types::{DataType, Value};

    use super::*;

    fn shown(zone: &str, utc: &str) -> String {
        let value = Value::read_text(&DataType::Timestamptz(None), utc).unwrap();
        let mut text = Vec::new();
        value.write_text_in(&DataType::Timestamptz(None), &find(zone).unwrap(), &mut text);
        String::from_utf8(text).unwrap()
    }

    fn read(zone: &str, local: &str) -> String {
        let zone = find(zone).unwrap();
        let value = Value::read_text_in(&DataType::Timestamptz(None), local, &zone).unwrap();
        value.to_text(&DataType::Timestamptz(None))
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn moments_are_shown_as_postgresql_shows_them() {
        for (zone, utc, expected) in [
            ("Europe/Berlin", "2024-01-01 12:00", "2024-01-01 13:00:00+01"),
            ("europe/berlin", "2024-07-01 12:00", "2024-07-01 14:00:00+02"),
            ("Europe/Berlin", "1890-01-01 12:00", "1890-01-01 12:53:28+00:53:28"),
            ("Asia/Kolkata", "2024-01-01 12:00:00.5", "2024-01-01 17:30:00.5+05:30"),
            ("America/Chicago", "2500-07-01 12:00", "2500-07-01 07:00:00-05"),
            ("Etc/UTC", "2024-01-01 12:00", "2024-01-01 12:00:00+00"),
            ("-3.5", "2024-01-01 12:00", "2024-01-01 08:30:00-03:30"),
            ("<+02>-02", "2024-01-01 12:00", "2024-01-01 14:00:00+02"),
            ("+05:30", "2024-01-01 00:00", "2023-12-31 18:30:00-05:30"),
            ("GMT-02:00", "2024-01-01 00:00", "2024-01-01 02:00:00+02"),
            ("EST5", "2024-01-01 00:00", "2023-12-31 19:00:00-05"),
        ] {
            assert_eq!(shown(zone, utc), expected, "{zone} {utc}");
        }
        for (zone, local, expected) in [
            ("Europe/Berlin", "2024-03-31 02:30", "2024-03-31 01:30:00+00"),
            ("Europe/Berlin", "2024-10-27 02:30", "2024-10-27 01:30:00+00"),
            ("America/New_York", "2024-11-03 01:30", "2024-11-03 06:30:00+00"),
            ("America/New_York", "2024-11-03 01:30-04", "2024-11-03 05:30:00+00"),
            ("Europe/Berlin", "2024-10-27", "2024-10-26 22:00:00+00"),
        ] {
            assert_eq!(read(zone, local), expected, "{zone} {local}");
        }
    }

    /// Every day at noon and around each change, in each place.
    #[test]
    fn rules_are_what_the_database_says() {
        for zone in TZ_VARIANTS {
            let clocks = Named(zone);
            let rules = Rules::of(rules_of(zone)).unwrap();
            assert_eq!(rules.name(), zone.name());
            let around = changes(zone).into_iter().skip(1).flat_map(|(at_s, ahead_s)| {
                let apart = [-7200, -3601, -3600, -1800, -1, 0, 1, 1800, 3599, 3600, 7200];
                apart.map(|by| (at_s + i64::from(ahead_s) + by, at_s + by))
            });
            let days = (-70_000..60_000).step_by(97).map(|day| (day * DAY_S, day * DAY_S));
            for (shown_s, at_s) in around.chain(days) {
                let (shown_us, at_us) = (shown_s * 1_000_000, at_s * 1_000_000);
                assert_eq!(rules.ahead_s(at_us), clocks.ahead_s(at_us), "{zone} {at_s}");
                let (ours, theirs) =
                    (rules.ahead_when_shown_s(shown_us), clocks.ahead_when_shown_s(shown_us));
                assert_eq!(ours, theirs, "{zone} shows {shown_s}");
            }
        }
    }

    #[test]
    fn zones_have_names_and_what_has_none_is_refused() {
        for (text, name) in [
            ("gmt", "UTC"),
            ("0", "UTC"),
            ("EUROPE/berlin", "Europe/Berlin"),
            ("2", "<+02>-02"),
            ("-05.5", "<-05:30>+05:30"),
        ] {
            assert_eq!(find(text).unwrap().name(), name, "{text}");
            assert_eq!(find(find(text).unwrap().name()).unwrap(), find(text).unwrap());
        }
        for text in ["Mars/Olympus", "", "17", "+17:00", "1e1", "nan"] {
            let code = find(text).err().map(|error| error.code());
            assert_eq!(code, Some(SqlState::INVALID_PARAMETER_VALUE), "{text}");
        }
        for (text, name) in [("gmt", "GMT"), ("etc/utc", "Etc/UTC"), ("+00:00", "UTC")] {
            assert_eq!(spelled(text), name);
        }
        assert_eq!(of_clock("-08:00"), Some(-8 * 3600));
        assert_eq!(of_clock("+05:30:15"), Some(5 * 3600 + 30 * 60 + 15));
        assert_eq!(of_clock("8:61"), None);
    }
}
