//! What SQL calls regular expressions by: the operators, and `regexp_…`.

use std::borrow::Cow;
use std::sync::Arc;

use regex_automata::Span;
use types::arithmetic::check_made_bytes;
use types::value::VALUE_WEIGHT;
use types::{Error, Result, SqlState, Value};

use super::similar::of_similar;
use super::syntax::Options;
use super::{Found, Pattern, compiled};
use crate::functions::RegexFunction;
use crate::meter::Meter;

type Arguments<'a> = [Cow<'a, Value>];

fn text<'a>(arguments: &'a Arguments<'_>, n: usize) -> &'a str {
    arguments.get(n).and_then(|argument| argument.as_text()).unwrap_or_default()
}

fn int(arguments: &Arguments<'_>, n: usize) -> Option<i64> {
    arguments.get(n).and_then(|argument| argument.as_int())
}

pub(crate) fn call(
    function: RegexFunction,
    arguments: &Arguments<'_>,
    meter: &Meter,
) -> Result<Value> {
    use RegexFunction as F;
    let subject = text(arguments, 0);
    match function {
        F::Matches { any_case } => {
            let options = Options { any_case, ..Options::default() };
            let pattern = compiled(text(arguments, 1), options, meter)?;
            pattern.is_match(subject, meter).map(Value::Bool)
        }
        F::Similar => {
            let pattern = similar(arguments, meter)?;
            pattern.is_match(subject, meter).map(Value::Bool)
        }
        F::SubstringSimilar => {
            let pattern = similar(arguments, meter)?;
            let found = pattern.find(subject, 0, meter)?;
            Ok(found.map_or(Value::Null, |found| shown(subject, wanted(&found))))
        }
        F::Substring => {
            let pattern = compiled(text(arguments, 1), Options::default(), meter)?;
            let found = pattern.find(subject, 0, meter)?;
            Ok(found.map_or(Value::Null, |found| shown(subject, wanted(&found))))
        }
        F::Replace => replace(arguments, meter),
        F::Match => {
            let pattern = flagged(arguments, 2, "regexp_match()", meter)?;
            let found = pattern.find(subject, 0, meter)?;
            found.map_or(Ok(Value::Null), |found| groups(subject, &found, meter))
        }
        F::Split => split(arguments, meter),
        F::Like => {
            let pattern = flagged(arguments, 2, "regexp_like()", meter)?;
            pattern.is_match(subject, meter).map(Value::Bool)
        }
        F::Count | F::Substr | F::Instr => numbered(function, arguments, meter),
    }
}

/// What asks for a match by its number, or how many there are.
fn numbered(function: RegexFunction, arguments: &Arguments<'_>, meter: &Meter) -> Result<Value> {
    use RegexFunction as F;
    let subject = text(arguments, 0);
    match function {
        F::Count => {
            let from = start(arguments, 2)?;
            let pattern = flagged(arguments, 3, "regexp_count()", meter)?;
            let mut count = 0;
            each(&pattern, subject, from, meter, |_| {
                count += 1;
                Ok(true)
            })?;
            Ok(Value::Int(count))
        }
        F::Substr => {
            let pattern = flagged(arguments, 4, "regexp_substr()", meter)?;
            let group = group(arguments, 5)?;
            let found = nth(&pattern, arguments, meter)?;
            let span = found.and_then(|found| found.get(group).copied().flatten());
            Ok(shown(subject, span))
        }
        _ => {
            let pattern = flagged(arguments, 5, "regexp_instr()", meter)?;
            let behind = match int(arguments, 4) {
                None | Some(0) => false,
                Some(1) => true,
                Some(other) => return Err(bad_value("endoption", other)),
            };
            let group = group(arguments, 6)?;
            let found = nth(&pattern, arguments, meter)?;
            let span = found.and_then(|found| found.get(group).copied().flatten());
            let place = span.map_or(0, |span| {
                let bytes = if behind { span.end } else { span.start };
                subject[..bytes].chars().count() as i64 + 1
            });
            Ok(Value::Int(place))
        }
    }
}

fn bad_value(parameter: &str, value: i64) -> Error {
    let what = format!("invalid value for parameter \"{parameter}\": {value}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

/// The first group where there are groups, else all.
fn wanted(found: &Found) -> Option<Span> {
    match found.len() {
        1 => found[0],
        _ => found[1],
    }
}

fn shown(subject: &str, span: Option<Span>) -> Value {
    span.map_or(Value::Null, |span| Value::text(&subject[span.start..span.end]))
}

/// The groups of a match, or all of it where there are none.
fn groups(subject: &str, found: &Found, meter: &Meter) -> Result<Value> {
    let spans = if found.len() == 1 { found } else { &found[1..] };
    // They may lie within each other.
    let bytes = spans.iter().flatten().map(|span| span.end - span.start).sum();
    check_made_bytes(bytes)?;
    meter.spend_bytes(bytes)?;
    Ok(Value::from(spans.iter().map(|span| shown(subject, *span)).collect::<Vec<_>>()))
}

/// The pattern with the flags that stand at a place, which may not ask for all matches.
fn flagged(
    arguments: &Arguments<'_>,
    flags: usize,
    function: &str,
    meter: &Meter,
) -> Result<Arc<Pattern>> {
    let options = Options::read(text(arguments, flags))?;
    if options.global {
        let what = format!("{function} does not support the \"global\" option");
        let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, what);
        return Err(match function {
            "regexp_match()" => error.with_hint("Use the regexp_matches function instead."),
            _ => error,
        });
    }
    compiled(text(arguments, 1), options, meter)
}

fn similar(arguments: &Arguments<'_>, meter: &Meter) -> Result<Arc<Pattern>> {
    let escape = match arguments.get(2) {
        None => Some('\\'),
        Some(escape) => {
            let mut characters = escape.as_text().unwrap_or_default().chars();
            match (characters.next(), characters.next()) {
                (escape, None) => escape,
                _ => {
                    return Err(Error::new(SqlState(*b"22019"), "invalid escape string")
                        .with_hint("Escape string must be empty or one character."));
                }
            }
        }
    };
    let pattern = text(arguments, 1);
    meter.spend_characters(pattern.len())?;
    compiled(&of_similar(pattern, escape)?, Options::default(), meter)
}

/// The byte at which a character counted from one begins; beyond the end it is none.
fn start(arguments: &Arguments<'_>, n: usize) -> Result<Option<usize>> {
    let Some(start) = int(arguments, n) else { return Ok(Some(0)) };
    if start <= 0 {
        return Err(bad_value("start", start));
    }
    let subject = text(arguments, 0);
    let places = subject.char_indices().map(|(byte, _)| byte).chain([subject.len()]);
    Ok(places.skip((start - 1) as usize).next())
}

fn group(arguments: &Arguments<'_>, n: usize) -> Result<usize> {
    match int(arguments, n) {
        None => Ok(0),
        Some(group) => usize::try_from(group).map_err(|_| bad_value("subexpr", group)),
    }
}

/// Visits matches from a byte on, the next one from where the last ended, as long as `visit` says.
fn each(
    pattern: &Pattern,
    subject: &str,
    from: Option<usize>,
    meter: &Meter,
    mut visit: impl FnMut(&Found) -> Result<bool>,
) -> Result<()> {
    let mut next = from;
    while let Some(from) = next {
        meter.spend(1)?;
        let Some(found) = pattern.find(subject, from, meter)? else { return Ok(()) };
        let Some(whole) = found[0] else { return Ok(()) };
        if !visit(&found)? {
            return Ok(());
        }
        next = match whole.start == whole.end {
            // Where nothing was found the same would be found again.
            true => subject[whole.end..].chars().next().map(|c| whole.end + c.len_utf8()),
            false => Some(whole.end),
        };
    }
    Ok(())
}

/// Matches in their order, for `regexp_matches`.
pub(crate) fn every_match(
    arguments: &[Value],
    meter: &Meter,
    mut sink: impl FnMut(Value) -> Result<bool>,
) -> Result<()> {
    let text = |n: usize| arguments.get(n).and_then(Value::as_text).unwrap_or_default();
    let options = Options::read(text(2))?;
    let once = Options { global: false, ..options };
    let pattern = compiled(text(1), once, meter)?;
    each(&pattern, text(0), Some(0), meter, |found| {
        Ok(sink(groups(text(0), found, meter)?)? && options.global)
    })
}

/// The match that is named by a start and a number.
fn nth(pattern: &Pattern, arguments: &Arguments<'_>, meter: &Meter) -> Result<Option<Found>> {
    let from = start(arguments, 2)?;
    let number = int(arguments, 3).unwrap_or(1);
    if number <= 0 {
        return Err(bad_value("n", number));
    }
    let (mut count, mut last) = (0, None);
    each(pattern, text(arguments, 0), from, meter, |found| {
        count += 1;
        if count == number {
            last = Some(found.clone());
        }
        Ok(count < number)
    })?;
    Ok(last)
}

/// `regexp_replace(text, pattern, new, start, n, flags)`; the binder puts the flags last.
fn replace(arguments: &Arguments<'_>, meter: &Meter) -> Result<Value> {
    let subject = text(arguments, 0);
    let options = Options::read(text(arguments, 5))?;
    let from = start(arguments, 3)?;
    let number = match int(arguments, 4) {
        Some(i64::MIN) => i64::from(!options.global),
        Some(number) if number < 0 => return Err(bad_value("n", number)),
        Some(number) => number,
        None => i64::from(!options.global),
    };
    let pattern = compiled(text(arguments, 1), Options { global: false, ..options }, meter)?;
    let parts = parts_of(text(arguments, 2), pattern.groups());
    let (mut made, mut copied, mut count) = (String::new(), 0, 0);
    each(&pattern, subject, from, meter, |found| {
        count += 1;
        let Some(whole) = found[0].filter(|_| number == 0 || count == number) else {
            return Ok(true);
        };
        let mut add = |piece: &str| -> Result<()> {
            check_made_bytes(made.len() + piece.len())?;
            meter.spend_bytes(piece.len())?;
            made.push_str(piece);
            Ok(())
        };
        add(&subject[copied..whole.start])?;
        for part in &parts {
            match part {
                New::Text(text) => add(text)?,
                New::Group(group) => {
                    if let Some(span) = found.get(*group).copied().flatten() {
                        add(&subject[span.start..span.end])?;
                    }
                }
            }
        }
        copied = whole.end;
        Ok(number == 0)
    })?;
    check_made_bytes(made.len() + subject.len() - copied)?;
    meter.spend_bytes(subject.len() - copied)?;
    made.push_str(&subject[copied..]);
    Ok(Value::from(made))
}

enum New {
    Text(String),
    Group(usize),
}

/// `\1` to `\9` are groups, `\&` the whole match, `\\` a backslash; before others it is one, too.
fn parts_of(new: &str, groups: usize) -> Vec<New> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut characters = new.chars().peekable();
    while let Some(c) = characters.next() {
        let group = match characters.peek() {
            _ if c != '\\' => None,
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => digit.to_digit(10).map(|digit| digit as usize),
            Some('\\') => {
                characters.next();
                plain.push('\\');
                continue;
            }
            _ => None,
        };
        let Some(group) = group else {
            plain.push(c);
            continue;
        };
        characters.next();
        if !plain.is_empty() {
            parts.push(New::Text(std::mem::take(&mut plain)));
        }
        if group <= groups {
            parts.push(New::Group(group));
        }
    }
    parts.push(New::Text(plain));
    parts
}

/// Matches of nothing at the ends, or just behind another, divide nothing.
fn split(arguments: &Arguments<'_>, meter: &Meter) -> Result<Value> {
    let subject = text(arguments, 0);
    let pattern = flagged(arguments, 2, "regexp_split_to_array()", meter)?;
    let (mut parts, mut last) = (Vec::new(), 0);
    each(&pattern, subject, Some(0), meter, |found| {
        let Some(whole) = found[0] else { return Ok(true) };
        if whole.start < subject.len() && whole.end > last {
            parts.push(Value::text(&subject[last..whole.start]));
            last = whole.end;
            check_made_bytes(parts.len() * VALUE_WEIGHT)?;
        }
        Ok(true)
    })?;
    parts.push(Value::text(&subject[last..]));
    meter.spend_bytes(parts.iter().map(Value::weight).sum())?;
    Ok(Value::from(parts))
}
