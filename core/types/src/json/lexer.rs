//! Tokens of JSON text, and PostgreSQL's words for what is none.

use std::borrow::Cow;

use crate::error::{Error, Result, SqlState};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    OpenObject,
    CloseObject,
    OpenArray,
    CloseArray,
    Colon,
    Comma,
    /// What it says; where strings are not read, what stands between its quotes.
    String(Cow<'a, str>),
    Number(&'a str),
    /// `true`, `false`, `null`.
    Word(&'a str),
    End,
}

/// Reads tokens from the front.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Where the last token began.
    start: usize,
    /// Whether escapes in strings are replaced by what they stand for.
    reads_strings: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, reads_strings: bool) -> Lexer<'a> {
        Lexer { text, at: 0, start: 0, reads_strings }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.start = self.at;
        let Some(&first) = bytes.get(self.at) else { return Ok(Token::End) };
        let sign = match first {
            b'{' => Token::OpenObject,
            b'}' => Token::CloseObject,
            b'[' => Token::OpenArray,
            b']' => Token::CloseArray,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        };
        self.at += 1;
        Ok(sign)
    }

    /// The last token as it stands in the text.
    fn token_text(&self) -> &'a str {
        let end = self.text.ceil_char_boundary(self.at);
        &self.text[self.start..end]
    }

    fn word(&mut self) -> Result<Token<'a>> {
        self.at += self.word_bytes();
        match self.token_text() {
            word @ ("true" | "false" | "null") => Ok(Token::Word(word)),
            "" => {
                self.at += 1;
                Err(self.invalid_token())
            }
            _ => Err(self.invalid_token()),
        }
    }

    /// How many bytes that words and numbers are made of come next.
    fn word_bytes(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len())
    }

    fn number(&mut self) -> Result<Token<'a>> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| {
            let digits = &rest[from.min(rest.len())..];
            digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len())
        };
        let mut end = usize::from(rest[0] == b'-');
        let mut is_number = match rest.get(end) {
            Some(b'0') => {
                end += 1;
                true
            }
            _ => {
                let count = digits(end);
                end += count;
                count > 0
            }
        };
        if rest.get(end) == Some(&b'.') {
            let count = digits(end + 1);
            end += 1 + count;
            is_number &= count > 0;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            end += 1 + usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let count = digits(end);
            end += count;
            is_number &= count > 0;
        }
        self.at += end;
        // What stands beside it belongs to what is no number.
        let behind = self.word_bytes();
        self.at += behind;
        match is_number && behind == 0 {
            true => Ok(Token::Number(self.token_text())),
            false => Err(self.invalid_token()),
        }
    }

    fn string(&mut self) -> Result<Token<'a>> {
        let mut read = String::new();
        // The first half of a character of two.
        let mut high = None;
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..32));
            let plain = plain.unwrap_or(rest.len());
            if plain > 0 {
                self.no_half_before(high)?;
                if self.reads_strings {
                    read.push_str(&rest[..plain]);
                }
            }
            self.at += plain;
            match rest.as_bytes().get(plain) {
                None => return Err(self.invalid_token()),
                Some(b'"') => {
                    self.no_half_before(high)?;
                    self.at += 1;
                    let inside = &self.text[self.start + 1..self.at - 1];
                    return Ok(Token::String(match self.reads_strings && inside != read {
                        true => Cow::Owned(read),
                        false => Cow::Borrowed(inside),
                    }));
                }
                Some(b'\\') => self.escape(&mut read, &mut high)?,
                Some(control) => {
                    let detail = format!("Character with value 0x{control:02x} must be escaped.");
                    return Err(invalid_syntax(detail));
                }
            }
        }
    }

    fn escape(&mut self, read: &mut String, high: &mut Option<u32>) -> Result<()> {
        self.at += 1;
        let meant = match self.text.as_bytes().get(self.at) {
            None => return Err(self.invalid_token()),
            Some(b'u') => return self.code_point(read, high),
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(_) => {
                self.no_half_before(*high)?;
                let shown = self.text[self.at..].chars().next().unwrap_or_default();
                return Err(invalid_syntax(format!("Escape sequence \"\\{shown}\" is invalid.")));
            }
        };
        self.no_half_before(*high)?;
        read.push(meant);
        self.at += 1;
        Ok(())
    }

    fn code_point(&mut self, read: &mut String, high: &mut Option<u32>) -> Result<()> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let Some(&byte) = self.text.as_bytes().get(self.at) else {
                return Err(self.invalid_token());
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                return Err(invalid_syntax(detail));
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        if !self.reads_strings {
            return Ok(());
        }
        let code = match (code, *high) {
            (0xD800..=0xDBFF, Some(_)) => {
                let detail = "Unicode high surrogate must not follow a high surrogate.";
                return Err(invalid_syntax(detail));
            }
            (0xD800..=0xDBFF, None) => {
                *high = Some(code);
                return Ok(());
            }
            (0xDC00..=0xDFFF, Some(first)) => {
                *high = None;
                0x10000 + ((first & 0x3FF) << 10) + (code & 0x3FF)
            }
            (0xDC00..=0xDFFF, None) => return Err(half_alone()),
            (_, half) => {
                self.no_half_before(half)?;
                code
            }
        };
        match char::from_u32(code) {
            None | Some('\0') => {
                let message = "unsupported Unicode escape sequence";
                Err(Error::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
                    .with_detail("\\u0000 cannot be converted to text."))
            }
            Some(character) => {
                read.push(character);
                Ok(())
            }
        }
    }

    fn no_half_before(&self, high: Option<u32>) -> Result<()> {
        if high.is_some() { Err(half_alone()) } else { Ok(()) }
    }

    fn invalid_token(&self) -> Error {
        invalid_syntax(format!("Token \"{}\" is invalid.", self.token_text()))
    }

    /// Of a token that stands where `expected` should.
    pub(super) fn unexpected(&self, expected: &str) -> Error {
        match self.token_text() {
            "" => invalid_syntax("The input string ended unexpectedly."),
            found => invalid_syntax(format!("Expected {expected}, but found \"{found}\".")),
        }
    }
}

fn half_alone() -> Error {
    invalid_syntax("Unicode low surrogate must follow a high surrogate.")
}

fn invalid_syntax(detail: impl Into<String>) -> Error {
    let message = "invalid input syntax for type json";
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}
