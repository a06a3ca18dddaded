//! Functions of text and bytes. Positions count characters from 1.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;
use types::arithmetic::check_made_bytes;
use types::{Error, Result, SqlState, Value, unicode};

use super::arguments::{as_i32, invalid, nth};
use super::function::Function;
use crate::meter::Meter;

/// Bytes that are gone over between two looks at whether to go on.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// The arguments are paid for; what is made of them is paid for here where it may be longer.
pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    use Function::*;
    if let Value::Bytes(bytes) = nth(arguments, 0)
        && !matches!(function, Concat | ConcatWs)
    {
        return of_bytes(function, bytes, arguments, meter);
    }
    let text = |n: usize| nth(arguments, n).as_text().unwrap_or("");
    let number = |n: usize| as_i32(nth(arguments, n));
    let first = text(0);
    if let Some(looked_at) = looked_at(function, first, text(1)) {
        return looked_at;
    }
    let answer = match function {
        Lower => gathered(first.chars().map(unicode::to_lower), meter)?,
        Upper => gathered(first.chars().map(unicode::to_upper), meter)?,
        Overlay => {
            let (kept, behind) = overlaid(arguments, text(1).chars().count())?;
            let (kept, behind) = (place_of(first, kept), place_of(first, behind));
            [&first[..kept], text(1), &first[behind..]].concat()
        }
        QuoteNullable if nth(arguments, 0).is_null() => "NULL".to_owned(),
        QuoteLiteral | QuoteNullable => literal(first, meter)?,
        Substring | Left | Right | TrimBoth | TrimLeft | TrimRight | SplitPart => {
            part(function, first, arguments, meter)?.to_owned()
        }
        Replace if text(1).is_empty() => first.to_owned(),
        Replace => replaced(first, text(1), text(2), meter)?,
        Concat => concatenated("", arguments)?,
        ConcatWs => match nth(arguments, 0) {
            Value::Null => return Ok(Value::Null),
            _ => concatenated(first, &arguments[1..])?,
        },
        Repeat => {
            let times = usize::try_from(number(1)).unwrap_or(0);
            let made = first.len().saturating_mul(times);
            check_made_bytes(made)?;
            meter.spend_bytes(made)?;
            first.repeat(times)
        }
        Reverse => gathered(first.chars().rev(), meter)?,
        Lpad | Rpad => {
            check_made_bytes(usize::try_from(number(1)).unwrap_or(0))?;
            meter.spend_characters(usize::try_from(number(1)).unwrap_or(0))?;
            padded(function, first, number(1), arguments, meter)?
        }
        Initcap => gathered(unicode::initcap(first), meter)?,
        Translate => translate(first, text(1), text(2), meter)?,
        Chr => character(number(0))?.to_string(),
        Decode => return decode(first, text(1), meter).map(Value::from),
        ToHex => match nth(arguments, 0).as_int() {
            Some(number) => format!("{number:x}"),
            None => return Ok(Value::Null),
        },
        _ => {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "no such function of text"));
        }
    };
    Ok(Value::from(answer))
}

fn character(number: i32) -> Result<char> {
    let too_large = |what: String| Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    match u32::try_from(number) {
        Err(_) => Err(invalid("character number must be positive")),
        Ok(0) => too_large("null character not permitted".to_owned()),
        Ok(number) => match char::from_u32(number) {
            Some(character) => Ok(character),
            None if number > u32::from(char::MAX) => {
                too_large(format!("requested character too large for encoding: {number}"))
            }
            None => too_large(format!("requested character not valid for encoding: {number}")),
        },
    }
}

/// A stretch of the text itself.
fn part<'t>(
    function: Function,
    text: &'t str,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<&'t str> {
    let number = |n: usize| as_i32(nth(arguments, n));
    Ok(match function {
        Function::Substring => {
            let count = arguments.get(2).map(|n| as_i32(n));
            let (skip, take) = substring_range(number(1), count)?;
            let rest = &text[place_of(text, skip)..];
            &rest[..place_of(rest, take)]
        }
        Function::Left => &text[..place_of(text, end_of(text, number(1)))],
        Function::Right => {
            let length = text.chars().count();
            let skip = length - end_of(text, number(1)).min(length);
            &text[place_of(text, skip)..]
        }
        Function::SplitPart => {
            let separator = nth(arguments, 1).as_text().unwrap_or("");
            split_part(text, separator, number(2), meter)?
        }
        function => trimmed(function, text, arguments, meter)?,
    })
}

/// What is no text.
fn looked_at(function: Function, text: &str, other: &str) -> Option<Result<Value>> {
    use Function::*;
    let number = |number: usize| Ok(Value::Int(number as i64));
    Some(match function {
        Length => number(text.chars().count()),
        BitLength => bits_of(text.len()),
        OctetLength => number(text.len()),
        Position => number(text.find(other).map_or(0, |at| text[..at].chars().count() + 1)),
        StartsWith => Ok(Value::Bool(text.starts_with(other))),
        Ascii => number(text.chars().next().map_or(0, |c| u32::from(c) as usize)),
        _ => return None,
    })
}

fn of_bytes(
    function: Function,
    bytes: &[u8],
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    match function {
        Function::Length | Function::OctetLength => Ok(Value::Int(bytes.len() as i64)),
        Function::BitLength => bits_of(bytes.len()),
        Function::GetByte => Ok(Value::Int(bytes[byte_at(bytes, nth(arguments, 1))?].into())),
        Function::SetByte => {
            let mut changed = bytes.to_vec();
            // Like PostgreSQL, the lowest eight bits.
            changed[byte_at(bytes, nth(arguments, 1))?] = as_i32(nth(arguments, 2)) as u8;
            Ok(Value::from(changed))
        }
        Function::Overlay => {
            let put = bytes_of(nth(arguments, 1));
            let (kept, behind) = overlaid(arguments, put.len())?;
            let (kept, behind) = (kept.min(bytes.len()), behind.min(bytes.len()));
            Ok(Value::from([&bytes[..kept], put, &bytes[behind..]].concat()))
        }
        Function::TrimBoth | Function::TrimLeft | Function::TrimRight => {
            let set = bytes_of(nth(arguments, 1));
            meter.spend_characters(bytes.len().saturating_add(set.len()))?;
            let mut goes = [false; 256];
            set.iter().for_each(|byte| goes[usize::from(*byte)] = true);
            let is_kept = |byte: &u8| !goes[usize::from(*byte)];
            let first = match function {
                Function::TrimRight => 0,
                _ => bytes.iter().position(is_kept).unwrap_or(bytes.len()),
            };
            let rest = &bytes[first..];
            let end = match function {
                Function::TrimLeft => rest.len(),
                _ => rest.iter().rposition(is_kept).map_or(0, |last| last + 1),
            };
            Ok(Value::from(&rest[..end]))
        }
        Function::Position => {
            let wanted = bytes_of(nth(arguments, 1));
            let found = memmem::find(bytes, wanted);
            Ok(Value::Int(found.map_or(0, |at| at as i64 + 1)))
        }
        Function::Encode => {
            encode(bytes, nth(arguments, 1).as_text().unwrap_or(""), meter).map(Value::from)
        }
        Function::Substring => {
            let count = arguments.get(2).map(|n| as_i32(n));
            let (skip, take) = substring_range(as_i32(nth(arguments, 1)), count)?;
            let rest = &bytes[skip.min(bytes.len())..];
            Ok(Value::from(&rest[..take.min(rest.len())]))
        }
        _ => Err(Error::new(SqlState::INTERNAL_ERROR, "no such function of bytes")),
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// As many bits as a length counts.
fn bits_of(bytes: usize) -> Result<Value> {
    let bits = bytes.checked_mul(8).and_then(|bits| i32::try_from(bits).ok());
    bits.map(|bits| Value::Int(bits.into())).ok_or_else(out_of_range)
}

fn out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
}

fn byte_at(bytes: &[u8], place: &Value) -> Result<usize> {
    let place = as_i32(place);
    usize::try_from(place).ok().filter(|place| *place < bytes.len()).ok_or_else(|| {
        let last = bytes.len() as i64 - 1;
        let what = format!("index {place} out of valid range, 0..{last}");
        Error::new(SqlState(*b"2202E"), what)
    })
}

/// How much stays in front of what is put in place of something else, and where the rest begins.
fn overlaid(arguments: &[Cow<'_, Value>], put: usize) -> Result<(usize, usize)> {
    let start = as_i32(nth(arguments, 2));
    let length = match arguments.get(3) {
        Some(length) => as_i32(length),
        None => i32::try_from(put).map_err(|_| out_of_range())?,
    };
    if start <= 0 {
        return Err(Error::new(SqlState(*b"22011"), "negative substring length not allowed"));
    }
    let behind = start.checked_add(length).ok_or_else(out_of_range)?;
    let count = |place: i32| usize::try_from(place - 1).unwrap_or(0);
    Ok((count(start), count(behind)))
}

/// A text as a literal of SQL.
fn literal(text: &str, meter: &Meter) -> Result<String> {
    let is_plain = !text.contains('\\');
    let mut out = String::from(if is_plain { "'" } else { "E'" });
    meter.pace(text.chars(), |c| {
        if c == '\'' || c == '\\' {
            out.push(c);
        }
        out.push(c);
    })?;
    out.push('\'');
    Ok(out)
}

/// SQL's substring: the window may begin before the text.
fn substring_range(start: i32, count: Option<i32>) -> Result<(usize, usize)> {
    let start = i64::from(start) - 1;
    let end = match count {
        None => i64::MAX,
        Some(count) if count < 0 => {
            return Err(Error::new(SqlState(*b"22011"), "negative substring length not allowed"));
        }
        Some(count) => start + i64::from(count),
    };
    let skip = start.max(0);
    let take = (end - skip).max(0);
    Ok((usize::try_from(skip).unwrap_or(usize::MAX), usize::try_from(take).unwrap_or(usize::MAX)))
}

/// Characters that `left(text, n)` keeps; a negative n counts from the end.
fn end_of(text: &str, n: i32) -> usize {
    match usize::try_from(n) {
        Ok(n) => n,
        Err(_) => text.chars().count().saturating_sub(n.unsigned_abs() as usize),
    }
}

/// Where the character stands that so many come before; the end if there are fewer.
fn place_of(text: &str, characters: usize) -> usize {
    let mut rest = text.chars();
    match characters.checked_sub(1).map(|before| rest.nth(before)) {
        None => 0,
        Some(_) => text.len() - rest.as_str().len(),
    }
}

pub(crate) fn gathered(characters: impl Iterator<Item = char>, meter: &Meter) -> Result<String> {
    let mut out = String::new();
    meter.pace(characters, |c| out.push(c))?;
    Ok(out)
}

fn trimmed<'a>(
    function: Function,
    text: &'a str,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<&'a str> {
    let mut set = BTreeSet::new();
    match arguments.get(1) {
        Some(characters) => {
            let characters = characters.as_text().unwrap_or("").chars();
            meter.pace(characters, |c| _ = set.insert(c))?;
        }
        None => _ = set.insert(' '),
    }
    let mut left = text;
    if function != Function::TrimRight {
        let mut trimmed = 0;
        meter.pace_while(left.chars(), |c| {
            let goes = set.contains(&c);
            trimmed += if goes { c.len_utf8() } else { 0 };
            goes
        })?;
        left = &left[trimmed..];
    }
    if function != Function::TrimLeft {
        let mut kept = left.len();
        meter.pace_while(left.chars().rev(), |c| {
            let goes = set.contains(&c);
            kept -= if goes { c.len_utf8() } else { 0 };
            goes
        })?;
        left = &left[..kept];
    }
    Ok(left)
}

fn replaced(text: &str, from: &str, to: &str, meter: &Meter) -> Result<String> {
    let mut times = 0_usize;
    meter.pace(text.matches(from), |_| times += 1)?;
    let made = text.len().saturating_add(times.saturating_mul(to.len()));
    check_made_bytes(made)?;
    meter.spend_bytes(made)?;
    let mut out = String::with_capacity(made - times * from.len());
    let mut kept = 0;
    meter.pace(text.match_indices(from), |(at, _)| {
        out.push_str(&text[kept..at]);
        out.push_str(to);
        kept = at + from.len();
    })?;
    out.push_str(&text[kept..]);
    Ok(out)
}

fn concatenated(separator: &str, arguments: &[Cow<'_, Value>]) -> Result<String> {
    let mut out = String::new();
    for (i, argument) in arguments.iter().filter(|a| !a.is_null()).enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        match &**argument {
            Value::Text(text) => out.push_str(text),
            // Output form, not cast: concat(true) is `t`.
            other => out.push_str(&other.to_text(&other.data_type_hint())),
        }
        check_made_bytes(out.len())?;
    }
    Ok(out)
}

fn padded(
    function: Function,
    text: &str,
    length: i32,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<String> {
    let fill = match arguments.get(2) {
        Some(fill) => fill.as_text().unwrap_or(""),
        None => " ",
    };
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    let padding = || fill.chars().cycle().take(if fill.is_empty() { 0 } else { missing });
    let kept = text.chars().take(length);
    match function {
        Function::Lpad => gathered(padding().chain(kept), meter),
        _ => gathered(kept.chain(padding()), meter),
    }
}

fn split_part<'a>(text: &'a str, separator: &str, n: i32, meter: &Meter) -> Result<&'a str> {
    if n == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let place = n.unsigned_abs() as usize - 1;
    if separator.is_empty() {
        return Ok(if place == 0 { text } else { "" });
    }
    let (mut seen, mut found) = (0, "");
    let mut is_before = |part: &'a str| {
        found = if seen == place { part } else { "" };
        seen += 1;
        seen <= place
    };
    match n > 0 {
        true => meter.pace_while(text.split(separator), &mut is_before)?,
        false => meter.pace_while(text.rsplit(separator), &mut is_before)?,
    }
    Ok(found)
}

/// Of a character that is listed twice, the first counts.
fn translate(text: &str, from: &str, to: &str, meter: &Meter) -> Result<String> {
    let mut replacements = BTreeMap::new();
    let mut to = to.chars();
    meter.pace(from.chars(), |c| {
        let replacement = to.next();
        replacements.entry(c).or_insert(replacement);
    })?;
    let mut out = String::new();
    meter.pace(text.chars(), |c| {
        out.extend(replacements.get(&c).copied().unwrap_or(Some(c)));
    })?;
    Ok(out)
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const BASE64_DIGITS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// PostgreSQL breaks base64 after so many digits, as MIME does.
const BASE64_LINE: usize = 76;

fn unknown_encoding(format: &str) -> Error {
    invalid(format!("unrecognized encoding: \"{format}\"")).with_hint("Use 'hex' or 'base64'.")
}

pub(super) fn hex(bytes: &[u8], meter: &Meter) -> Result<String> {
    let digit = |nibble: u8| char::from(HEX_DIGITS[usize::from(nibble)]);
    let mut out = String::with_capacity(2 * bytes.len());
    meter.pace(bytes.iter(), |b| out.extend([digit(b >> 4), digit(b & 15)]))?;
    Ok(out)
}

fn encode(bytes: &[u8], format: &str, meter: &Meter) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => hex(bytes, meter),
        "base64" => {
            let mut out = String::with_capacity(bytes.len() / 3 * 4 + 4);
            let mut column = 0;
            meter.pace(bytes.chunks(3), |chunk| {
                if column == BASE64_LINE {
                    out.push('\n');
                    column = 0;
                }
                let group = chunk
                    .iter()
                    .chain(std::iter::repeat(&0))
                    .take(3)
                    .fold(0u32, |group, b| group << 8 | u32::from(*b));
                for place in 0..4 {
                    let digit = (group >> (18 - 6 * place) & 63) as usize;
                    out.push(match place <= chunk.len() {
                        true => char::from(BASE64_DIGITS[digit]),
                        false => '=',
                    });
                }
                column += 4;
            })?;
            Ok(out)
        }
        _ => Err(unknown_encoding(format)),
    }
}

fn decode(text: &str, format: &str, meter: &Meter) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => decode_hex(text, meter),
        "base64" => decode_base64(text, meter),
        _ => Err(unknown_encoding(format)),
    }
}

fn decode_hex(text: &str, meter: &Meter) -> Result<Vec<u8>> {
    let mut nibbles = Vec::with_capacity(text.len());
    for (at, c) in text.chars().filter(|c| !c.is_ascii_whitespace()).enumerate() {
        if at % PIECE_BYTES == 0 {
            meter.check()?;
        }
        let digit =
            c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))?;
        nibbles.push(digit as u8);
    }
    match nibbles.len().is_multiple_of(2) {
        true => Ok(nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()),
        false => Err(invalid("invalid hexadecimal data: odd number of digits")),
    }
}

fn decode_base64(text: &str, meter: &Meter) -> Result<Vec<u8>> {
    let (mut group, mut digits, mut padding) = (0u32, 0u32, 0u32);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for (at, c) in text.bytes().filter(|b| !b.is_ascii_whitespace()).enumerate() {
        if at % PIECE_BYTES == 0 {
            meter.check()?;
        }
        let digit = match c {
            b'=' => {
                padding += 1;
                0
            }
            _ if padding > 0 => {
                return Err(invalid("unexpected \"=\" while decoding base64 sequence"));
            }
            _ => BASE64_DIGITS.iter().position(|d| *d == c).ok_or_else(|| {
                invalid(format!(
                    "invalid symbol \"{}\" found while decoding base64 sequence",
                    char::from(c)
                ))
            })? as u32,
        };
        group = group << 6 | digit;
        digits += 1;
        if digits == 4 {
            let bytes = group.to_be_bytes();
            let kept = 3usize.saturating_sub(padding as usize);
            out.extend_from_slice(&bytes[1..=kept]);
            (group, digits) = (0, 0);
        }
    }
    match digits == 0 && padding <= 2 {
        true => Ok(out),
        false => Err(invalid("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")),
    }
}
