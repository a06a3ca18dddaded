//! Bytes whose order is PostgreSQL's order of `jsonb`, which also tell equal values from others.
//!
//! PostgreSQL walks through two values side by side and stops at the first difference: of kinds, of
//! counts of elements or members, of keys, of scalars. Written down, such a walk is
//!
//! ```text
//! null     02                         array   10 | elements: 4, big endian | each
//! string   03 | as text in a key      object  11 | members: 4 | each: key as text, value
//! number   04 | as numeric in a key
//! false    05
//! true     06
//! ```
//!
//! and its bytes order as the walks do. *A quirk kept:* an empty array that is the whole value is
//! below all scalars (`01`), though within a value it is above them.

use compact_str::CompactString;
use smallvec::SmallVec;

use super::depth::DEPTH_MAX;
use super::lexer::{Lexer, Token};
use super::parse::canonical;
use super::write::push_string;
use crate::error::Result;
use crate::key_parts::{corrupt, push_numeric, push_text, take_numeric, take_text};
use crate::numeric::{self, Numeric};

const EMPTY: u8 = 0x01;
const NULL: u8 = 0x02;
const STRING: u8 = 0x03;
const NUMBER: u8 = 0x04;
const FALSE: u8 = 0x05;
const TRUE: u8 = 0x06;
const ARRAY: u8 = 0x10;
const OBJECT: u8 = 0x11;

type Bytes = SmallVec<[u8; 32]>;

/// An array or object whose end has not come.
struct Open {
    is_object: bool,
    /// Where its count stands.
    count_at: usize,
    count: u32,
    /// Whether a string is a key here.
    awaits_key: bool,
}

/// Appends the bytes of a value, which is in canonical form.
pub fn push_key(value: &str, out: &mut Bytes) {
    if value == "[]" {
        return out.push(EMPTY);
    }
    let mut lexer = Lexer::new(value, true);
    let mut open: Vec<Open> = Vec::new();
    // The text is canonical, so no token is wrong.
    while let Ok(token) = lexer.next() {
        let ends = match token {
            Token::End => return,
            Token::Colon | Token::Comma => false,
            Token::OpenObject | Token::OpenArray => {
                let is_object = token == Token::OpenObject;
                out.push(if is_object { OBJECT } else { ARRAY });
                let count_at = out.len();
                open.push(Open { is_object, count_at, count: 0, awaits_key: is_object });
                out.extend_from_slice(&[0; 4]);
                false
            }
            Token::CloseObject | Token::CloseArray => {
                if let Some(closed) = open.pop() {
                    let place = closed.count_at..closed.count_at + 4;
                    out[place].copy_from_slice(&closed.count.to_be_bytes());
                }
                true
            }
            Token::String(text) => match open.last_mut() {
                Some(object) if object.awaits_key => {
                    object.awaits_key = false;
                    push_text(text.as_bytes(), out);
                    false
                }
                _ => {
                    out.push(STRING);
                    push_text(text.as_bytes(), out);
                    true
                }
            },
            Token::Number(text) => {
                out.push(NUMBER);
                push_numeric(&number(text), out);
                true
            }
            Token::Word(word) => {
                out.push(match word {
                    "true" => TRUE,
                    "false" => FALSE,
                    _ => NULL,
                });
                true
            }
        };
        if let (true, Some(within)) = (ends, open.last_mut()) {
            within.count += 1;
            within.awaits_key = within.is_object;
        }
    }
}

/// A number of canonical text.
fn number(text: &str) -> Numeric {
    numeric::parse(text).ok().flatten().unwrap_or(Numeric::ZERO)
}

/// Reads a value back and moves the key after it. Numbers come back with their shortest scale.
pub(crate) fn take_key(rest: &mut &[u8]) -> Result<CompactString> {
    if let Some((&EMPTY, behind)) = rest.split_first() {
        *rest = behind;
        return Ok("[]".into());
    }
    let mut out = String::new();
    take_value(rest, 0, &mut out)?;
    // Each value has one form.
    let read = canonical(&out).ok().filter(|read| *read == out && read != "[]");
    read.ok_or_else(corrupt)
}

fn take_value(rest: &mut &[u8], depth: usize, out: &mut String) -> Result<()> {
    let (&kind, behind) = rest.split_first().ok_or_else(corrupt)?;
    *rest = behind;
    match kind {
        NULL => out.push_str("null"),
        FALSE => out.push_str("false"),
        TRUE => out.push_str("true"),
        STRING => take_string(rest, out)?,
        NUMBER => out.push_str(&take_numeric(rest)?.to_string()),
        ARRAY | OBJECT if depth < DEPTH_MAX => {
            let (count, behind) = rest.split_first_chunk().ok_or_else(corrupt)?;
            *rest = behind;
            out.push(if kind == OBJECT { '{' } else { '[' });
            for place in 0..u32::from_be_bytes(*count) {
                if place > 0 {
                    out.push_str(", ");
                }
                if kind == OBJECT {
                    take_string(rest, out)?;
                    out.push_str(": ");
                }
                take_value(rest, depth + 1, out)?;
            }
            out.push(if kind == OBJECT { '}' } else { ']' });
        }
        _ => return Err(corrupt()),
    }
    Ok(())
}

fn take_string(rest: &mut &[u8], out: &mut String) -> Result<()> {
    let bytes = take_text(rest)?;
    push_string(std::str::from_utf8(&bytes).map_err(|_| corrupt())?, out);
    Ok(())
}
