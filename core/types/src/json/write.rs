//! Texts as JSON.

use std::fmt::Write as _;

use super::raw::{Kind, Raw};
use crate::error::Result;
use crate::made::check_made_bytes;

/// A string in quotes, with the escapes that PostgreSQL writes.
pub fn push_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    let is_escaped = |byte: u8| matches!(byte, b'"' | b'\\' | 0..32);
    while let Some(at) = rest.bytes().position(is_escaped) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// A canonical text with a member or element a line, as `jsonb_pretty` has it.
///
/// # Errors
/// 54000 where blanks would make it too long.
pub fn push_pretty(value: Raw<'_>, out: &mut String) -> Result<()> {
    const STEP: usize = 4;
    let mut depth = 0;
    let mut rest = value.text();
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * STEP));
    };
    while let Some(first) = rest.bytes().next() {
        let taken = match first {
            b'"' => {
                let string = Raw::first_of(rest).text();
                out.push_str(string);
                string.len()
            }
            b'{' | b'[' => {
                out.push(char::from(first));
                depth += 1;
                if !rest[1..].starts_with(['}', ']']) {
                    line(depth, out);
                }
                1
            }
            b'}' | b']' => {
                depth -= 1;
                line(depth, out);
                out.push(char::from(first));
                1
            }
            // Its blank has become the line's end.
            b',' => {
                out.push(',');
                line(depth, out);
                2
            }
            _ => {
                let end = rest[1..].find(|c: char| !c.is_ascii() || "\"{}[],".contains(c));
                let plain = end.map_or(rest.len(), |end| end + 1);
                out.push_str(&rest[..plain]);
                plain
            }
        };
        rest = &rest[taken..];
        check_made_bytes(out.len())?;
    }
    Ok(())
}

/// How a value is called in errors about what it is not.
pub fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "numeric",
        other => other.name(),
    }
}
