//! Functions of text and numbers, as far as queries over catalogs use them.

use types::{DataType, Result, Value};

use super::around::Around;
use super::format::formatted;
use super::made::{Made, check_text_bytes};
use super::signature::{Function, Gives, Takes, function, lax};
use crate::describe;
use Takes::{Any, Int, Text};

pub(super) fn text(value: &Value) -> &str {
    value.as_text().unwrap_or_default()
}

fn int(value: &Value) -> i64 {
    value.as_int().unwrap_or(0)
}

fn some(text: impl AsRef<str>) -> Result<Value> {
    Ok(Value::text(text))
}

/// `length` characters from the 1-based `start` on.
fn substring(text: &str, start: i64, length: Option<i64>) -> String {
    let end = length.map_or(i64::MAX, |length| start.saturating_add(length));
    let characters = (1..).zip(text.chars());
    characters.filter(|(at, _)| (start..end).contains(at)).map(|(_, c)| c).collect()
}

/// The first `count` characters, or all but the last `-count`.
fn left(text: &str, count: i64) -> String {
    let length = text.chars().count() as i64;
    substring(text, 1, Some(if count < 0 { length + count } else { count }))
}

fn right(text: &str, count: i64) -> String {
    let length = text.chars().count() as i64;
    let kept = if count < 0 { (length + count).max(0) } else { count };
    substring(text, length - kept + 1, None)
}

fn trimmed(a: &[Value], start: bool, end: bool) -> &str {
    let what: Vec<char> = a.get(1).map_or(" ", |what| text(what)).chars().collect();
    let mut rest = text(&a[0]);
    if start {
        rest = rest.trim_start_matches(|c| what.contains(&c));
    }
    match end {
        true => rest.trim_end_matches(|c| what.contains(&c)),
        false => rest,
    }
}

/// As PostgreSQL shows sizes: whole units, rounded, up to 10240 of each.
pub fn size(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes, 0);
    while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        size = (size + 512 * size.signum()) / 1024;
        unit += 1;
    }
    format!("{size} {}", UNITS[unit])
}

/// Nested calls double what they are given, so that the length is known before anything is made.
pub(super) fn quoted_name(text: &str) -> Result<String> {
    let quotes = text.bytes().filter(|byte| *byte == b'"').count();
    check_text_bytes(text.len() + quotes + 2)?;
    Ok(describe::quoted(text))
}

/// Each quote and backslash twice.
pub(super) fn quoted_literal(text: &str) -> Result<String> {
    let doubles = |byte: &u8| matches!(byte, b'\'' | b'\\');
    let is_escaped = text.as_bytes().contains(&b'\\');
    let made = text.len() + text.bytes().filter(doubles).count() + "E''".len();
    check_text_bytes(made)?;
    let mut quoted = String::with_capacity(made);
    quoted.push_str(if is_escaped { "E'" } else { "'" });
    let (mut kept, bytes) = (0, text.as_bytes());
    for at in (0..bytes.len()).filter(|at| doubles(&bytes[*at])) {
        quoted.push_str(&text[kept..=at]);
        kept = at;
    }
    quoted.push_str(&text[kept..]);
    quoted.push('\'');
    Ok(quoted)
}

/// A pattern of LIKE whose escape character is another one.
fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut result = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => result.extend(['\\'].into_iter().chain(rest.next())),
            '\\' => result.push_str("\\\\"),
            c => result.push(c),
        }
    }
    result
}

/// All pieces, with a text between them.
fn joined<'a>(pieces: impl Iterator<Item = &'a str>, between: &str) -> Result<Value> {
    let mut result = Made::default();
    for (place, piece) in pieces.enumerate() {
        result.push(if place > 0 { between } else { "" })?;
        result.push(piece)?;
    }
    Ok(result.into_value())
}

/// What is replaced may be much shorter than what replaces it.
fn replaced(subject: &str, old: &str, new: &str) -> Result<Value> {
    match old {
        "" => some(subject),
        old => joined(subject.split(old), new),
    }
}

pub static TEXT: &[Function] = &[
    function("lower", 1, &[Text], Gives::Text, |_, a, _| some(types::unicode::lower(text(&a[0])))),
    function("upper", 1, &[Text], Gives::Text, |_, a, _| some(types::unicode::upper(text(&a[0])))),
    function("length", 1, &[Text], Gives::Int4, length),
    function("char_length", 1, &[Text], Gives::Int4, length),
    function("character_length", 1, &[Text], Gives::Int4, length),
    function("octet_length", 1, &[Text], Gives::Int4, |_, a, _| {
        Ok(Value::Int(text(&a[0]).len() as i64))
    }),
    function("substring", 2, &[Text, Int, Int], Gives::Text, |_, a, _| {
        some(substring(text(&a[0]), int(&a[1]), a.get(2).map(int)))
    }),
    function("substr", 2, &[Text, Int, Int], Gives::Text, |_, a, _| {
        some(substring(text(&a[0]), int(&a[1]), a.get(2).map(int)))
    }),
    function("left", 2, &[Text, Int], Gives::Text, |_, a, _| some(left(text(&a[0]), int(&a[1])))),
    function("right", 2, &[Text, Int], Gives::Text, |_, a, _| some(right(text(&a[0]), int(&a[1])))),
    function("replace", 3, &[Text, Text, Text], Gives::Text, |_, a, _| {
        replaced(text(&a[0]), text(&a[1]), text(&a[2]))
    }),
    function("split_part", 3, &[Text, Text, Int], Gives::Text, |_, a, _| {
        let place = usize::try_from(int(&a[2]) - 1).unwrap_or(usize::MAX);
        some(text(&a[0]).split(text(&a[1])).nth(place).unwrap_or_default())
    }),
    function("strpos", 2, &[Text, Text], Gives::Int4, |_, a, _| {
        let place = text(&a[0]).find(text(&a[1]));
        let characters = place.map(|place| text(&a[0])[..place].chars().count() as i64 + 1);
        Ok(Value::Int(characters.unwrap_or(0)))
    }),
    function("starts_with", 2, &[Text, Text], Gives::Bool, |_, a, _| {
        Ok(Value::Bool(text(&a[0]).starts_with(text(&a[1]))))
    }),
    function("repeat", 2, &[Text, Int], Gives::Text, |_, a, _| {
        const REPEATED_MAX: i64 = 1 << 20;
        let count = int(&a[1]).clamp(0, REPEATED_MAX / (text(&a[0]).len().max(1) as i64));
        some(text(&a[0]).repeat(count as usize))
    }),
    function("btrim", 1, &[Text, Text], Gives::Text, |_, a, _| some(trimmed(a, true, true))),
    function("ltrim", 1, &[Text, Text], Gives::Text, |_, a, _| some(trimmed(a, true, false))),
    function("rtrim", 1, &[Text, Text], Gives::Text, |_, a, _| some(trimmed(a, false, true))),
    function("quote_ident", 1, &[Text], Gives::Text, |_, a, _| some(quoted_name(text(&a[0]))?)),
    function("quote_literal", 1, &[Text], Gives::Text, |_, a, _| {
        some(quoted_literal(text(&a[0]))?)
    }),
    function("like_escape", 2, &[Text, Text], Gives::Text, |_, a, _| {
        some(with_backslashes(text(&a[0]), text(&a[1]).chars().next()))
    }),
    lax("format", 1, &[Text], Gives::Text, |_, a, _| match &a[0] {
        Value::Null => Ok(Value::Null),
        template => {
            let shown = |value: &Value| match value {
                Value::Bool(_) => Value::text(value.to_text(&DataType::Bool)),
                value => value.clone(),
            };
            let arguments: Vec<Value> = a[1..].iter().map(shown).collect();
            formatted(text(template), &arguments)
        }
    }),
    lax("concat", 1, &[Text], Gives::Text, |_, a, _| joined(a.iter().map(text), "")),
    lax("concat_ws", 1, &[Text], Gives::Text, |_, a, _| {
        let present = a[1..].iter().filter(|value| !value.is_null()).map(text);
        joined(present, text(&a[0]))
    }),
    function("abs", 1, &[Int], Gives::Int8, |_, a, _| Ok(Value::Int(int(&a[0]).saturating_abs()))),
    function("round", 1, &[Any], Gives::First, |_, a, _| types::arithmetic::round(&a[0], 0)),
    function("ceil", 1, &[Any], Gives::First, |_, a, _| types::arithmetic::ceil(&a[0])),
    function("floor", 1, &[Any], Gives::First, |_, a, _| types::arithmetic::floor(&a[0])),
    function("operator &", 2, &[Int, Int], Gives::Int8, |_, a, _| {
        Ok(Value::Int(int(&a[0]) & int(&a[1])))
    }),
    function("operator |", 2, &[Int, Int], Gives::Int8, |_, a, _| {
        Ok(Value::Int(int(&a[0]) | int(&a[1])))
    }),
    function("operator >>", 2, &[Int, Int], Gives::Int8, |_, a, _| {
        let by = u32::try_from(int(&a[1])).unwrap_or(0);
        Ok(Value::Int(int(&a[0]).checked_shr(by).unwrap_or(0)))
    }),
];

fn length(_: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::Int(text(&a[0]).chars().count() as i64))
}
