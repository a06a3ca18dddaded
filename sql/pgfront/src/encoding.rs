//! Client encodings: what a client sends and reads in another encoding than UTF-8.
//!
//! Inside all text is UTF-8. The encodings here have one byte for each character, so a piece of a
//! COPY can be cut anywhere, and bytes below 128 are ASCII in all of them, so the protocol's own
//! words stay what they are.
//!
//! ```text
//! client ─► names, statements, values, COPY ─ decode ─► session        22021: no character
//!        ◄─ rows, COPY                      ◄─ encode ─                22P05: no byte for it
//!        ◄─ errors, notices, names          ◄─ encode ─                a question mark for it
//! ```
//!
//! Departures: `SQL_ASCII` is UTF-8, whose bytes it would pass on; arrays of text in binary format
//! are refused where they would have to be changed.

use std::borrow::Cow;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use types::{Error, Result, SqlState};

/// Bytes below are ASCII.
const ASCII_END: u8 = 0x80;

pub struct Encoding {
    name: &'static str,
    /// Of the bytes from 128 on.
    characters: Vec<Option<char>>,
    bytes: FxHashMap<char, u8>,
}

/// A line for each: PostgreSQL's name, then the characters of the bytes from 128 on, as numbers in
/// hexadecimal digits. `a0+3` is three of them in a row, and `-3` three bytes that are none.
const TABLE: &str = include_str!("encodings.txt");

static ALL: LazyLock<Vec<Encoding>> =
    LazyLock::new(|| TABLE.lines().filter_map(Encoding::read).collect());

impl Encoding {
    /// By PostgreSQL's name; `None`: UTF-8, or one that there is not.
    pub fn named(name: &str) -> Option<&'static Encoding> {
        ALL.iter().find(|encoding| encoding.name == name)
    }

    fn read(line: &'static str) -> Option<Encoding> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let mut characters = Vec::with_capacity(usize::from(u8::MAX - ASCII_END) + 1);
        for word in words {
            if let Some(none) = word.strip_prefix('-') {
                let count = if none.is_empty() { 1 } else { none.parse().ok()? };
                characters.extend(std::iter::repeat_n(None, count));
                continue;
            }
            let (first, count) = word.split_once('+').unwrap_or((word, "1"));
            let first = u32::from_str_radix(first, 16).ok()?;
            let count: u32 = count.parse().ok()?;
            characters.extend((first..first + count).map(char::from_u32));
        }
        let pairs = (ASCII_END..=u8::MAX).zip(&characters);
        let bytes = pairs.filter_map(|(byte, c)| Some(((*c)?, byte))).collect();
        Some(Encoding { name, characters, bytes })
    }

    /// # Errors
    /// 22021 for a byte that is no character.
    pub fn decode<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>> {
        if bytes.is_ascii() {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut text = String::with_capacity(2 * bytes.len());
        for &byte in bytes {
            let character = match byte {
                ..ASCII_END => Some(char::from(byte)),
                byte => self.characters[usize::from(byte - ASCII_END)],
            };
            text.push(character.ok_or_else(|| {
                let name = self.name;
                Error::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    format!("invalid byte sequence for encoding \"{name}\": 0x{byte:02x}"),
                )
            })?);
        }
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Changes the end of a buffer, which is UTF-8, into this encoding.
    ///
    /// # Errors
    /// 22P05 for a character that has no byte.
    pub fn encode_from(&self, out: &mut Vec<u8>, start: usize) -> Result<()> {
        if out[start..].is_ascii() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&out[start..]).into_owned();
        out.truncate(start);
        for c in text.chars() {
            out.push(self.byte(c).ok_or_else(|| self.no_equivalent(c))?);
        }
        Ok(())
    }

    fn byte(&self, c: char) -> Option<u8> {
        match u8::try_from(c) {
            Ok(byte) if byte < ASCII_END => Some(byte),
            _ => self.bytes.get(&c).copied(),
        }
    }

    fn no_equivalent(&self, c: char) -> Error {
        let mut bytes = [0; 4];
        let bytes = c.encode_utf8(&mut bytes).bytes().map(|byte| format!("0x{byte:02x}"));
        let (bytes, name) = (bytes.collect::<Vec<_>>().join(" "), self.name);
        Error::new(
            UNTRANSLATABLE_CHARACTER,
            format!(
                "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent in \
                 encoding \"{name}\""
            ),
        )
    }

    /// Changes the texts of the messages that a buffer ends with; what has no byte becomes a
    /// question mark.
    pub fn encode_messages(&self, out: &mut Vec<u8>, start: usize) {
        if out[start..].is_ascii() {
            return;
        }
        let messages = out.split_off(start);
        let mut rest = &messages[..];
        while let Some((head, _)) = rest.split_first_chunk::<5>() {
            let [kind, length @ ..] = *head;
            let end = 1 + u32::from_be_bytes(length) as usize;
            let Some((message, behind)) = rest.split_at_checked(end) else { break };
            let begun = out.len();
            out.extend_from_slice(head);
            self.encode_body(kind, &message[5..], out);
            let length = (out.len() - begun - 1) as u32;
            out[begun + 1..begun + 5].copy_from_slice(&length.to_be_bytes());
            rest = behind;
        }
        out.extend_from_slice(rest);
    }

    fn encode_body(&self, kind: u8, mut body: &[u8], out: &mut Vec<u8>) {
        match kind {
            // Fields and names, each with a zero after it.
            b'E' | b'N' | b'S' => self.encode_lossy(body, out),
            b'A' => {
                let (process, texts) = body.split_at_checked(4).unwrap_or((body, &[]));
                out.extend_from_slice(process);
                self.encode_lossy(texts, out);
            }
            b'T' => {
                let (count, mut columns) = body.split_at_checked(2).unwrap_or((body, &[]));
                out.extend_from_slice(count);
                while let Some(zero) = columns.iter().position(|&byte| byte == 0) {
                    let fixed = (zero + 1 + COLUMN_BYTES).min(columns.len());
                    self.encode_lossy(&columns[..zero], out);
                    out.extend_from_slice(&columns[zero..fixed]);
                    columns = &columns[fixed..];
                }
                body = columns;
                out.extend_from_slice(body);
            }
            _ => out.extend_from_slice(body),
        }
    }

    fn encode_lossy(&self, text: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(text);
        out.extend(text.chars().map(|c| self.byte(c).unwrap_or(b'?')));
    }

    /// A client's message with its names and statements in UTF-8; `None`: it is already.
    ///
    /// # Errors
    /// 22021 for a byte that is no character.
    pub fn decode_message(&self, kind: u8, body: &[u8]) -> Result<Option<Vec<u8>>> {
        use crate::message::kind as k;
        let texts = match kind {
            k::QUERY | k::COPY_FAIL => 1,
            k::PARSE | k::BIND => 2,
            k::DESCRIBE | k::CLOSE | k::EXECUTE => 1,
            _ => return Ok(None),
        };
        let head = usize::from(matches!(kind, k::DESCRIBE | k::CLOSE));
        let mut end = head.min(body.len());
        for _ in 0..texts {
            let zero = body[end..].iter().position(|&byte| byte == 0);
            end = zero.map_or(body.len(), |zero| end + zero + 1);
        }
        let (texts, behind) = body.split_at(end);
        match self.decode(texts)? {
            Cow::Borrowed(_) => Ok(None),
            Cow::Owned(texts) => Ok(Some([&texts, behind].concat())),
        }
    }
}

/// Of a column's description, after its name.
const COLUMN_BYTES: usize = 18;

const UNTRANSLATABLE_CHARACTER: SqlState = SqlState(*b"22P05");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_that_is_a_character_comes_back() {
        assert_eq!(ALL.len(), TABLE.lines().count());
        for encoding in &*ALL {
            let name = encoding.name;
            assert_eq!(encoding.characters.len(), 128, "{name}");
            let characters = encoding.characters.iter().flatten().count();
            assert_eq!(encoding.bytes.len(), characters, "{name}: no character has two bytes");
            for byte in 1..=u8::MAX {
                let Ok(text) = encoding.decode(&[byte]).map(Cow::into_owned) else { continue };
                let mut out = [b"before".to_vec(), text].concat();
                encoding.encode_from(&mut out, 6).unwrap();
                assert_eq!(out, [b"before", &[byte][..]].concat(), "{name} {byte:02x}");
            }
        }
        assert!(Encoding::named("UTF8").is_none());
    }

    #[test]
    fn what_has_no_equal_is_said() {
        let latin1 = Encoding::named("LATIN1").unwrap();
        let mut out = "é€".as_bytes().to_vec();
        let error = latin1.encode_from(&mut out, 0).unwrap_err();
        assert_eq!(error.code(), UNTRANSLATABLE_CHARACTER);
        assert!(error.message().contains("0xe2 0x82 0xac"), "{error}");
        let win1252 = Encoding::named("WIN1252").unwrap();
        let mut out = "é€".as_bytes().to_vec();
        win1252.encode_from(&mut out, 0).unwrap();
        assert_eq!(out, [0xe9, 0x80]);
        let error = win1252.decode(&[0x81]).unwrap_err();
        assert_eq!(error.code(), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    }

    #[test]
    fn messages_keep_their_shape() {
        let latin1 = Encoding::named("LATIN1").unwrap();
        let mut out = b"before".to_vec();
        let mut message = |kind: u8, body: &[u8]| {
            out.push(kind);
            out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            out.extend_from_slice(body);
        };
        let column = [0xc3; COLUMN_BYTES];
        let columns = [&[0, 2][..], "é\0".as_bytes(), &column, "x€\0".as_bytes(), &column].concat();
        message(b'T', &columns);
        message(b'D', "é".as_bytes());
        message(b'E', "Mgrün\0\0".as_bytes());
        latin1.encode_messages(&mut out, 6);
        let reported = [&[0, 2][..], b"\xe9\0", &column, b"x?\0", &column].concat();
        let mut expected = b"before".to_vec();
        for (kind, body) in [(b'T', &reported[..]), (b'D', "é".as_bytes()), (b'E', b"Mgr\xfcn\0\0")]
        {
            expected.push(kind);
            expected.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            expected.extend_from_slice(body);
        }
        assert_eq!(out, expected);
        let decode = |kind, body: &[u8]| latin1.decode_message(kind, body).unwrap();
        assert_eq!(decode(b'Q', b"\xe9\0"), Some("é\0".as_bytes().to_vec()));
        assert_eq!(decode(b'Q', b"e\0"), None);
        assert_eq!(
            decode(b'B', b"p\0\xe9\0\xff\xff"),
            Some([b"p\0", "é\0".as_bytes(), b"\xff\xff"].concat())
        );
        assert_eq!(decode(b'D', b"S\xe9\0"), Some([b"S", "é\0".as_bytes()].concat()));
        assert_eq!(decode(b'D', b""), None);
    }
}
