//! A look into text that is known to be JSON, canonical or not.
//!
//! Nothing is built: an element is a piece of the text, found by skipping those before it. To look
//! at all elements of an array takes time linear in its text, each level of a walk downwards once
//! more.

use std::borrow::Cow;

use super::depth::{DEPTH_MAX, too_deep};
use super::lexer::{Lexer, Token};
use crate::error::Result;

/// A value within a text that was found to be JSON; without blanks around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raw<'a>(&'a str);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// As `json_typeof` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "boolean",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }

    pub fn is_scalar(self) -> bool {
        !matches!(self, Kind::Array | Kind::Object)
    }
}

impl<'a> Raw<'a> {
    pub fn of_valid(text: &'a str) -> Raw<'a> {
        Raw(text.trim_matches([' ', '\t', '\n', '\r']))
    }

    /// The value that a piece of such a text begins with.
    pub(super) fn first_of(text: &'a str) -> Raw<'a> {
        Raw(&text[..value_bytes(text.as_bytes())])
    }

    pub fn text(self) -> &'a str {
        self.0
    }

    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// # Errors
    /// 54001 if it is nested too deep, as what is made of others may be.
    pub fn check_depth(self) -> Result<()> {
        let bytes = self.0.as_bytes();
        let (mut at, mut depth) = (0, 0usize);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at += string_bytes(&bytes[at..]);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > DEPTH_MAX {
                return Err(too_deep());
            }
            at += 1;
        }
        Ok(())
    }

    /// What a string says; of other values, their text.
    ///
    /// # Errors
    /// Of a `json`, where an escape is of no character: 22P02, 22P05.
    pub fn said(self) -> Result<Cow<'a, str>> {
        match self.kind() {
            Kind::String if self.0.contains('\\') => match Lexer::new(self.0, true).next()? {
                Token::String(said) => Ok(said),
                _ => Ok(Cow::Borrowed(self.0)),
            },
            Kind::String => Ok(Cow::Borrowed(self.0.get(1..self.0.len() - 1).unwrap_or_default())),
            _ => Ok(Cow::Borrowed(self.0)),
        }
    }

    /// The elements of an array; of anything else none.
    pub fn elements(self) -> impl Iterator<Item = Raw<'a>> {
        self.parts(Kind::Array)
    }

    /// The members of an object, each key as a string; of anything else none.
    pub fn members(self) -> impl Iterator<Item = (Raw<'a>, Raw<'a>)> {
        let mut parts = self.parts(Kind::Object);
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// The value of a key, of which the last counts.
    pub fn member(self, key: &str) -> Result<Option<Raw<'a>>> {
        let mut found = None;
        for (name, value) in self.members() {
            if name.said()? == key {
                found = Some(value);
            }
        }
        Ok(found)
    }

    /// The element at a place, which counts from the end where it is negative.
    pub fn element(self, place: i64) -> Option<Raw<'a>> {
        let from_front = match place < 0 {
            true => i64::try_from(self.elements().count()).ok()?.checked_add(place)?,
            false => place,
        };
        self.elements().nth(usize::try_from(from_front).ok()?)
    }

    fn parts(self, of: Kind) -> Parts<'a> {
        let inside = match self.kind() == of {
            true => self.0.get(1..self.0.len() - 1).unwrap_or_default(),
            false => "",
        };
        Parts { rest: inside }
    }
}

/// Values with commas, colons and blanks between them.
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', ',', ':']);
        if rest.is_empty() {
            return None;
        }
        let (value, behind) = rest.split_at(value_bytes(rest.as_bytes()));
        self.rest = behind;
        Some(Raw(value))
    }
}

/// How many bytes the value has that a text begins with.
fn value_bytes(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_bytes(&bytes[at..]),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ if depth == 0 => {
                let ends = |byte: &u8| matches!(byte, b',' | b':' | b' ' | b'\t' | b'\n' | b'\r');
                return bytes.iter().position(ends).unwrap_or(bytes.len());
            }
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(bytes.len())
}

fn string_bytes(bytes: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
}
