//! An interval as text, in each of the styles that `intervalstyle` names.

use bytes::BufMut;

use super::{Interval, Parts};
use crate::digits::write_int;

/// What `intervalstyle` can be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Style {
    /// `1 year 2 mons -3 days +04:05:06.7`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs ago`
    PostgresVerbose,
    /// `+1-2 -3 +4:05:06.7`
    SqlStandard,
    /// `P1Y2M-3DT4H5M6.7S`
    Iso8601,
}

impl Style {
    pub fn parse(name: &str) -> Option<Style> {
        Some(match name.to_ascii_lowercase().as_str() {
            "postgres" => Style::Postgres,
            "postgres_verbose" => Style::PostgresVerbose,
            "sql_standard" => Style::SqlStandard,
            "iso_8601" => Style::Iso8601,
            _ => return None,
        })
    }
}

/// In PostgreSQL's own style.
pub fn write(interval: Interval, out: &mut impl BufMut) {
    write_styled(interval, Style::Postgres, out);
}

pub fn write_styled(interval: Interval, style: Style, out: &mut impl BufMut) {
    let parts = interval.parts();
    match style {
        Style::Postgres => write_postgres(parts, out),
        Style::PostgresVerbose => write_verbose(parts, out),
        Style::SqlStandard => write_sql(parts, out),
        Style::Iso8601 => write_iso(parts, out),
    }
}

fn write_postgres(parts: Parts, out: &mut impl BufMut) {
    let units = [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")].into_iter();
    // A field's sign shows at the next one.
    let (mut first, mut below_zero) = (true, false);
    for (count, unit) in units.filter(|(count, _)| *count != 0) {
        let (blank, plus) = (if first { "" } else { " " }, below_zero && count > 0);
        let (sign, plural) = (if plus { "+" } else { "" }, if count == 1 { "" } else { "s" });
        put(format_args!("{blank}{sign}{count} {unit}{plural}"), out);
        (first, below_zero) = (false, count < 0);
    }
    if first || parts.has_time() {
        let sign = match parts.time_is_negative() {
            true => "-",
            false if below_zero => "+",
            false => "",
        };
        let (hours, minutes) = (parts.hours.unsigned_abs(), parts.minutes.unsigned_abs());
        let blank = if first { "" } else { " " };
        put(format_args!("{blank}{sign}{hours:02}:{minutes:02}:"), out);
        write_seconds(parts, true, out);
    }
}

fn write_verbose(parts: Parts, out: &mut impl BufMut) {
    out.put_u8(b'@');
    let units = [
        (parts.years.into(), "year"),
        (parts.months.into(), "mon"),
        (parts.days.into(), "day"),
        (parts.hours, "hour"),
        (parts.minutes.into(), "min"),
    ];
    // The first field's sign is `ago`, which turns those after it.
    let (mut first, mut ago) = (true, false);
    for (count, unit) in units.into_iter().filter(|(count, _)| *count != 0) {
        if first {
            ago = count < 0;
        }
        let shown = i128::from(count) * if ago { -1 } else { 1 };
        put(format_args!(" {shown} {unit}{}", if shown == 1 { "" } else { "s" }), out);
        first = false;
    }
    if parts.seconds != 0 || parts.us != 0 {
        out.put_u8(b' ');
        let below_zero = parts.seconds < 0 || parts.us < 0;
        if below_zero && first {
            ago = true;
        } else if below_zero != ago {
            out.put_u8(b'-');
        }
        write_seconds(parts, false, out);
        let is_one = parts.seconds.abs() == 1 && parts.us == 0;
        out.put_slice(if is_one { b" sec" } else { b" secs" });
        first = false;
    }
    if first {
        out.put_slice(b" 0");
    }
    if ago {
        out.put_slice(b" ago");
    }
}

fn write_sql(parts: Parts, out: &mut impl BufMut) {
    let Parts { years, months, days, hours, minutes, .. } = parts;
    let numbers = [
        years.into(),
        months.into(),
        days.into(),
        hours,
        minutes.into(),
        parts.seconds.into(),
        parts.us.into(),
    ];
    let below = numbers.iter().any(|count: &i64| *count < 0);
    let above = numbers.iter().any(|count| *count > 0);
    let (has_months, has_days) = (years != 0 || months != 0, days != 0 || parts.has_time());
    let (years, months) = (years.unsigned_abs(), months.unsigned_abs());
    let (hours, minutes) = (hours.unsigned_abs(), minutes.unsigned_abs());
    if !below && !above {
        return out.put_u8(b'0');
    }
    if below && above || has_months && has_days {
        let sign = |negative: bool| if negative { '-' } else { '+' };
        let of_months = sign(parts.years < 0 || parts.months < 0);
        let (of_days, of_time) = (sign(days < 0), sign(parts.time_is_negative()));
        let days = days.unsigned_abs();
        put(format_args!("{of_months}{years}-{months} {of_days}{days} "), out);
        put(format_args!("{of_time}{hours}:{minutes:02}:"), out);
        return write_seconds(parts, true, out);
    }
    if below {
        out.put_u8(b'-');
    }
    if has_months {
        return put(format_args!("{years}-{months}"), out);
    }
    if days != 0 {
        put(format_args!("{} ", days.unsigned_abs()), out);
    }
    put(format_args!("{hours}:{minutes:02}:"), out);
    write_seconds(parts, true, out);
}

fn write_iso(parts: Parts, out: &mut impl BufMut) {
    let part = |count: i64, unit: u8, out: &mut _| {
        if count != 0 {
            write_int(count, out);
            BufMut::put_u8(out, unit);
        }
    };
    if parts.years == 0 && parts.months == 0 && parts.days == 0 && !parts.has_time() {
        return out.put_slice(b"PT0S");
    }
    out.put_u8(b'P');
    part(parts.years.into(), b'Y', out);
    part(parts.months.into(), b'M', out);
    part(parts.days.into(), b'D', out);
    if parts.has_time() {
        out.put_u8(b'T');
    }
    part(parts.hours, b'H', out);
    part(parts.minutes.into(), b'M', out);
    if parts.seconds != 0 || parts.us != 0 {
        if parts.seconds < 0 || parts.us < 0 {
            out.put_u8(b'-');
        }
        write_seconds(parts, false, out);
        out.put_u8(b'S');
    }
}

/// Without a sign, and with no more digits after the point than it takes.
fn write_seconds(parts: Parts, two_digits: bool, out: &mut impl BufMut) {
    let (seconds, us) = (parts.seconds.unsigned_abs(), parts.us.unsigned_abs());
    match two_digits {
        true => put(format_args!("{seconds:02}"), out),
        false => put(format_args!("{seconds}"), out),
    }
    if us != 0 {
        let digits = format!("{us:06}");
        out.put_u8(b'.');
        out.put_slice(digits.trim_end_matches('0').as_bytes());
    }
}

fn put(text: std::fmt::Arguments<'_>, out: &mut impl BufMut) {
    out.put_slice(text.to_string().as_bytes());
}

impl Parts {
    fn has_time(self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.seconds != 0 || self.us != 0
    }

    fn time_is_negative(self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.us < 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fields, read};
    use super::*;

    /// What PostgreSQL 15 writes.
    #[test]
    fn each_style_is_postgresqls() {
        let cases = [
            (
                "1 year 2 mons -3 days 04:05:06.789",
                "1 year 2 mons -3 days +04:05:06.789",
                "@ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs",
                "+1-2 -3 +4:05:06.789",
                "P1Y2M-3DT4H5M6.789S",
            ),
            ("0", "00:00:00", "@ 0", "0", "PT0S"),
            ("1 year 2 mons", "1 year 2 mons", "@ 1 year 2 mons", "1-2", "P1Y2M"),
            (
                "-1 day -00:00:01.5",
                "-1 days -00:00:01.5",
                "@ 1 day 1.5 secs ago",
                "-1 0:00:01.5",
                "P-1DT-1.5S",
            ),
            (
                "-1 day 00:00:01",
                "-1 days +00:00:01",
                "@ 1 day -1 sec ago",
                "+0-0 -1 +0:00:01",
                "P-1DT1S",
            ),
            ("100:00:00", "100:00:00", "@ 100 hours", "100:00:00", "PT100H"),
            ("-1 mons", "-1 mons", "@ 1 mon ago", "-0-1", "P-1M"),
        ];
        for (text, postgres, verbose, sql, iso) in cases {
            let interval = read(text, Fields::default(), Style::Postgres).unwrap();
            let styles = [
                (Style::Postgres, postgres),
                (Style::PostgresVerbose, verbose),
                (Style::SqlStandard, sql),
                (Style::Iso8601, iso),
            ];
            for (style, expected) in styles {
                let mut out = Vec::new();
                write_styled(interval, style, &mut out);
                let shown = String::from_utf8(out).unwrap();
                assert_eq!(shown, expected, "{text} in {style:?}");
                assert!(read(&shown, Fields::default(), style).unwrap().is_same(&interval));
            }
        }
    }
}
