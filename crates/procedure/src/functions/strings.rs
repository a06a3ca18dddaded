//! Functions of text and bytes. Positions count characters from 1.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use types::arithmetic::check_made_bytes;
use types::{Error, Result, SqlState, Value, unicode};

use super::{Function, as_i32, invalid, nth};
use crate::meter::Meter;

/// The arguments are paid for; what is made of them is paid for here where it may be longer.
pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    use Function::*;
    if let Value::Bytes(bytes) = nth(arguments, 0) {
        return of_bytes(function, bytes, arguments);
    }
    let text = |n: usize| nth(arguments, n).as_text().unwrap_or("");
    let number = |n: usize| as_i32(nth(arguments, n));
    let first = text(0);
    let answer = match function {
        Lower => unicode::lower(first),
        Upper => unicode::upper(first),
        Length => return Ok(Value::Int(first.chars().count() as i64)),
        OctetLength => return Ok(Value::Int(first.len() as i64)),
        Substring => {
            let count = arguments.get(2).map(|n| as_i32(n));
            let (skip, take) = substring_range(number(1), count)?;
            first.chars().skip(skip).take(take).collect()
        }
        Left => first.chars().take(end_of(first, number(1))).collect(),
        Right => {
            let length = first.chars().count();
            let skip = length - end_of(first, number(1)).min(length);
            first.chars().skip(skip).collect()
        }
        TrimBoth | TrimLeft | TrimRight => {
            let set = trimmed_set(arguments);
            let in_set = |c: char| set.contains(&c);
            match function {
                TrimLeft => first.trim_start_matches(in_set),
                TrimRight => first.trim_end_matches(in_set),
                _ => first.trim_matches(in_set),
            }
            .to_owned()
        }
        Position => {
            let place = first.find(text(1)).map(|i| first[..i].chars().count() + 1);
            return Ok(Value::Int(place.unwrap_or(0) as i64));
        }
        Replace if text(1).is_empty() => first.to_owned(),
        Replace => {
            let times = first.matches(text(1)).count();
            let made = first.len().saturating_add(times.saturating_mul(text(2).len()));
            check_made_bytes(made)?;
            meter.spend_bytes(made)?;
            first.replace(text(1), text(2))
        }
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
        Reverse => first.chars().rev().collect(),
        Lpad | Rpad => {
            check_made_bytes(usize::try_from(number(1)).unwrap_or(0))?;
            meter.spend_characters(usize::try_from(number(1)).unwrap_or(0))?;
            padded(function, first, number(1), arguments)
        }
        SplitPart => split_part(first, text(1), number(2))?.to_owned(),
        StartsWith => return Ok(Value::Bool(first.starts_with(text(1)))),
        Initcap => unicode::initcap(first),
        Translate => translate(first, text(1), text(2)),
        Ascii => {
            return Ok(Value::Int(first.chars().next().map_or(0, |c| i64::from(u32::from(c)))));
        }
        Chr => match char::from_u32(number(0).unsigned_abs()) {
            Some(c) if number(0) > 0 => c.to_string(),
            _ => {
                return Err(Error::new(SqlState(*b"54000"), "requested character not valid"));
            }
        },
        Decode => return decode(first, text(1)).map(Value::from),
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

fn of_bytes(function: Function, bytes: &[u8], arguments: &[Cow<'_, Value>]) -> Result<Value> {
    match function {
        Function::Length | Function::OctetLength => Ok(Value::Int(bytes.len() as i64)),
        Function::Sha256 => Ok(Value::from(&Sha256::digest(bytes)[..])),
        Function::Encode => {
            encode(bytes, nth(arguments, 1).as_text().unwrap_or("")).map(Value::from)
        }
        Function::Substring => {
            let count = arguments.get(2).map(|n| as_i32(n));
            let (skip, take) = substring_range(as_i32(nth(arguments, 1)), count)?;
            let part: Vec<u8> = bytes.iter().copied().skip(skip).take(take).collect();
            Ok(Value::from(part))
        }
        _ => Err(Error::new(SqlState::INTERNAL_ERROR, "no such function of bytes")),
    }
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

fn trimmed_set(arguments: &[Cow<'_, Value>]) -> BTreeSet<char> {
    match arguments.get(1) {
        Some(set) => set.as_text().unwrap_or("").chars().collect(),
        None => BTreeSet::from([' ']),
    }
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

fn padded(function: Function, text: &str, length: i32, arguments: &[Cow<'_, Value>]) -> String {
    let fill = match arguments.get(2) {
        Some(fill) => fill.as_text().unwrap_or(""),
        None => " ",
    };
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    let padding = || fill.chars().cycle().take(if fill.is_empty() { 0 } else { missing });
    let kept = text.chars().take(length);
    match function {
        Function::Lpad => padding().chain(kept).collect(),
        _ => kept.chain(padding()).collect(),
    }
}

fn split_part<'a>(text: &'a str, separator: &str, n: i32) -> Result<&'a str> {
    if n == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let place = n.unsigned_abs() as usize - 1;
    if separator.is_empty() {
        return Ok(if place == 0 { text } else { "" });
    }
    let part = match n > 0 {
        true => text.split(separator).nth(place),
        false => text.rsplit(separator).nth(place),
    };
    Ok(part.unwrap_or(""))
}

/// Of a character that is listed twice, the first counts.
fn translate(text: &str, from: &str, to: &str) -> String {
    let mut replacements = BTreeMap::new();
    let mut to = to.chars();
    for c in from.chars() {
        let replacement = to.next();
        replacements.entry(c).or_insert(replacement);
    }
    let replaced = |c: char| replacements.get(&c).copied().unwrap_or(Some(c));
    text.chars().filter_map(replaced).collect()
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const BASE64_DIGITS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// PostgreSQL breaks base64 after so many digits, as MIME does.
const BASE64_LINE: usize = 76;

fn unknown_encoding(format: &str) -> Error {
    invalid(format!("unrecognized encoding: \"{format}\"")).with_hint("Use 'hex' or 'base64'.")
}

fn encode(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => {
            let digit = |nibble: u8| char::from(HEX_DIGITS[usize::from(nibble)]);
            Ok(bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect())
        }
        "base64" => {
            let mut out = String::with_capacity(bytes.len() / 3 * 4 + 4);
            let mut column = 0;
            for chunk in bytes.chunks(3) {
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
            }
            Ok(out)
        }
        _ => Err(unknown_encoding(format)),
    }
}

fn decode(text: &str, format: &str) -> Result<Vec<u8>> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => decode_hex(text),
        "base64" => decode_base64(text),
        _ => Err(unknown_encoding(format)),
    }
}

fn decode_hex(text: &str) -> Result<Vec<u8>> {
    let mut nibbles = Vec::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        let digit =
            c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))?;
        nibbles.push(digit as u8);
    }
    match nibbles.len().is_multiple_of(2) {
        true => Ok(nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()),
        false => Err(invalid("invalid hexadecimal data: odd number of digits")),
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let (mut group, mut digits, mut padding) = (0u32, 0u32, 0u32);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for c in text.bytes().filter(|b| !b.is_ascii_whitespace()) {
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
