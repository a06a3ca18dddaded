//! What clients say, decoded in place.
//!
//! Bodies are read through a bounds-checked cursor that borrows the input buffer: no copy, no
//! allocation, and a truncated or overlong body is an error and never a panic. That is why these
//! messages are not decoded by the protocol crate, whose decoder copies every string and trusts
//! the lengths inside a body.

use types::{Error, Result, SqlState};

/// Kinds of the messages that clients send.
pub mod kind {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// A cursor over one message's body.
#[derive(Clone, Debug)]
pub struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Body(bytes)
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A count of elements; each must have at least `element_bytes` left, so that a lie cannot
    /// make us allocate.
    pub fn count(&mut self, element_bytes: usize) -> Result<usize> {
        let count = usize::from(self.array().map(u16::from_be_bytes)?);
        if count * element_bytes > self.0.len() {
            return Err(truncated());
        }
        Ok(count)
    }

    /// Text up to a zero byte.
    pub fn text(&mut self) -> Result<&'a str> {
        let end = self.0.iter().position(|&b| b == 0).ok_or_else(truncated)?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        utf8(text)
    }

    /// A value with its length before it; `None` is NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| truncated())?;
                self.bytes(length).map(Some)
            }
        }
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn end(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(truncated()) }
    }
}

fn truncated() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "invalid message format")
}

/// Client text must be UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        Error::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}"),
        )
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    fn from_code(code: i16) -> Result<Format> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            other => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unsupported format code: {other}"),
            )),
        }
    }
}

/// Format codes of parameters or of result columns: one for all, or one each.
#[derive(Clone, PartialEq, Debug)]
pub enum Formats {
    All(Format),
    Each(Vec<Format>),
}

impl Formats {
    fn decode(body: &mut Body<'_>) -> Result<Formats> {
        match body.count(2)? {
            0 => Ok(Formats::All(Format::Text)),
            1 => body.i16().and_then(Format::from_code).map(Formats::All),
            count => (0..count)
                .map(|_| body.i16().and_then(Format::from_code))
                .collect::<Result<_>>()
                .map(Formats::Each),
        }
    }

    pub fn get(&self, index: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(index).copied().unwrap_or(Format::Text),
        }
    }

    /// `08P01` unless there is one format, or as many as `what` has members.
    pub fn check_count(&self, expected: usize, what: &str) -> Result<()> {
        match self {
            Formats::Each(formats) if formats.len() != expected => Err(Error::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {} {what} formats but {expected} {what}s", formats.len()),
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub struct Parse<'a> {
    pub name: &'a str,
    pub sql: &'a str,
    /// OIDs; 0 leaves the type to the server.
    pub parameter_types: Vec<u32>,
}

impl<'a> Parse<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut body = Body::new(bytes);
        let name = body.text()?;
        let sql = body.text()?;
        let count = body.count(4)?;
        let parameter_types = (0..count).map(|_| body.u32()).collect::<Result<_>>()?;
        body.end()?;
        Ok(Parse { name, sql, parameter_types })
    }
}

/// The head of a Bind message; values and result formats are read on from `body`, once the
/// statement has told the parameters' types.
#[derive(Debug)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub parameter_formats: Formats,
    pub parameter_count: usize,
    pub body: Body<'a>,
}

impl<'a> Bind<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut body = Body::new(bytes);
        let portal = body.text()?;
        let statement = body.text()?;
        let parameter_formats = Formats::decode(&mut body)?;
        let parameter_count = body.count(4)?;
        Ok(Bind { portal, statement, parameter_formats, parameter_count, body })
    }

    /// After the values: what formats the result shall have.
    pub fn result_formats(mut body: Body<'a>) -> Result<Formats> {
        let formats = Formats::decode(&mut body)?;
        body.end()?;
        Ok(formats)
    }
}

/// Statements and portals have separate names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

impl<'a> Target<'a> {
    /// The body of Describe and of Close.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut body = Body::new(bytes);
        let kind = body.u8()?;
        let name = body.text()?;
        body.end()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            _ => Err(truncated()),
        }
    }
}

#[derive(Debug)]
pub struct Execute<'a> {
    pub portal: &'a str,
    /// `None`: all.
    pub max_rows: Option<usize>,
}

impl<'a> Execute<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut body = Body::new(bytes);
        let portal = body.text()?;
        let max_rows = usize::try_from(body.i32()?).ok().filter(|&n| n > 0);
        body.end()?;
        Ok(Execute { portal, max_rows })
    }
}

/// The one string that Query and CopyFail consist of.
pub fn decode_text(bytes: &[u8]) -> Result<&str> {
    let mut body = Body::new(bytes);
    let text = body.text()?;
    body.end()?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_cannot_promise_more_than_has_arrived() {
        let parse =
            |count: &[u8]| Parse::decode(&[b"s\0sql\0", count].concat()).map(|p| p.name.len());
        assert_eq!(parse(&[0, 0]).unwrap(), 1);
        assert_eq!(parse(&[0, 1, 0, 0, 0, 23]).unwrap(), 1);
        assert!(parse(&[0, 1, 0, 0, 0]).is_err());
        assert!(parse(&[0xff, 0xff, 0, 0, 0, 23]).is_err());
        assert!(parse(&[0, 0, 0]).is_err(), "nothing may follow");
    }

    #[test]
    fn values_are_null_empty_or_whole() {
        let value = |bytes: &[u8]| Body::new(bytes).value().map(|v| v.map(<[u8]>::to_vec));
        assert_eq!(value(&[255, 255, 255, 255]).unwrap(), None);
        assert_eq!(value(&[0, 0, 0, 0]).unwrap(), Some(vec![]));
        assert_eq!(value(&[0, 0, 0, 1, 7]).unwrap(), Some(vec![7]));
        assert!(value(&[0, 0, 0, 2, 7]).is_err());
        assert!(value(&[255, 255, 255, 254]).is_err());
        assert!(value(&[0, 0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(0..4u8, 0..40)) {
            let _ = Parse::decode(&bytes);
            let _ = Target::decode(&bytes);
            let _ = Execute::decode(&bytes);
            let _ = decode_text(&bytes);
            if let Ok(bind) = Bind::decode(&bytes) {
                let mut body = bind.body;
                for _ in 0..bind.parameter_count {
                    let _ = body.value();
                }
                let _ = Bind::result_formats(body);
            }
        }
    }
}
