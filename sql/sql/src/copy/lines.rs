//! Where the rows of text and CSV end.
//!
//! As in PostgreSQL the first row says how lines end (`\n`, `\r\n` or `\r`), and another ending is
//! an error: in text a backslash makes it a part of its field, in CSV quotes do. A `\.` ends all
//! data: in text wherever no backslash stands before it, in CSV on a line of its own.

use types::{Error, Result, SqlState};

use super::{CopyFormat, CopyOptions};

/// A row that has been found: `start..end` is its text, the next begins at `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub end: usize,
    pub next: usize,
    /// All data end here.
    pub is_last: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum LineEnd {
    #[default]
    Unknown,
    Newline,
    Both,
    Return,
}

/// Goes through the bytes once, however they are cut; knows no row's number.
#[derive(Clone, Default, Debug)]
pub struct Lines {
    line_end: LineEnd,
    /// How far the row at hand has been searched, in which state.
    at: usize,
    quoted: bool,
    escaped: bool,
    /// Line ends within quotes, since they were last asked for.
    quoted_ends: u64,
}

/// What a byte turned out to be.
enum Seen {
    Data(usize),
    Line(Line),
    /// What follows decides, and is not there yet.
    Unclear,
}

/// The bytes so far, and whether there will be more.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub bytes: &'a [u8],
    pub is_whole: bool,
}

/// The byte is not there yet.
struct Missing;

impl Input<'_> {
    /// After the end of all data is `None`.
    fn peek(self, at: usize) -> Result<Option<u8>, Missing> {
        match self.bytes.get(at) {
            None if !self.is_whole => Err(Missing),
            byte => Ok(byte.copied()),
        }
    }
}

impl Lines {
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    pub fn take_quoted_ends(&mut self) -> u64 {
        std::mem::take(&mut self.quoted_ends)
    }

    /// So many bytes in front were taken away.
    pub fn forget(&mut self, bytes: usize) {
        self.at -= bytes;
    }

    /// The end of the row that begins at `start`, where it is known.
    pub fn find(
        &mut self,
        input: Input<'_>,
        start: usize,
        options: &CopyOptions,
    ) -> Result<Option<Line>> {
        self.at = self.at.max(start);
        while let Some(&byte) = input.bytes.get(self.at) {
            let seen = match options.format {
                CopyFormat::Csv => self.csv_byte(input, start, byte, options)?,
                CopyFormat::Text | CopyFormat::Binary => self.text_byte(input, byte)?,
            };
            match seen {
                Seen::Data(bytes) => self.at += bytes,
                Seen::Unclear => return Ok(None),
                Seen::Line(line) => {
                    self.at = line.next;
                    return Ok(Some(line));
                }
            }
        }
        Ok(None)
    }

    fn text_byte(&mut self, input: Input<'_>, byte: u8) -> Result<Seen> {
        match byte {
            b'\n' | b'\r' => self.line_end(input, byte, false),
            b'\\' => match input.peek(self.at + 1) {
                Err(Missing) => Ok(Seen::Unclear),
                Ok(None) => Ok(Seen::Data(1)),
                Ok(Some(b'.')) => self.marker(input, false),
                Ok(Some(_)) => Ok(Seen::Data(2)),
            },
            _ => Ok(Seen::Data(1)),
        }
    }

    fn csv_byte(
        &mut self,
        input: Input<'_>,
        start: usize,
        byte: u8,
        options: &CopyOptions,
    ) -> Result<Seen> {
        if byte == b'\\' && self.at == start {
            match input.peek(self.at + 1) {
                Err(Missing) => return Ok(Seen::Unclear),
                Ok(Some(b'.')) => match self.marker(input, true)? {
                    Seen::Data(_) => {}
                    other => return Ok(other),
                },
                Ok(_) => {}
            }
        }
        let CopyOptions { quote, escape, .. } = *options;
        let is_escape = byte == escape && escape != quote;
        let escapes = self.escaped ^ (self.quoted && is_escape);
        let quoted = self.quoted ^ (byte == quote && !escapes);
        let seen = match byte {
            b'\n' | b'\r' if !quoted => self.line_end(input, byte, true)?,
            _ => Seen::Data(1),
        };
        match seen {
            Seen::Unclear => {}
            Seen::Line(_) => (self.quoted, self.escaped) = (false, false),
            Seen::Data(_) => {
                (self.quoted, self.escaped) = (quoted, escapes && is_escape);
                let counted = if self.line_end == LineEnd::Newline { b'\n' } else { b'\r' };
                self.quoted_ends += u64::from(quoted && byte == counted);
            }
        }
        Ok(seen)
    }

    /// A line's end that nothing makes a part of a field.
    fn line_end(&mut self, input: Input<'_>, byte: u8, is_csv: bool) -> Result<Seen> {
        let (line_end, bytes) = match (byte, self.line_end) {
            (b'\n', LineEnd::Unknown | LineEnd::Newline) => (LineEnd::Newline, 1),
            (b'\n', _) => return Err(literal("newline", "\\n", is_csv)),
            (_, LineEnd::Newline) => return Err(literal("carriage return", "\\r", is_csv)),
            (_, LineEnd::Return) => (LineEnd::Return, 1),
            (_, known) => match input.peek(self.at + 1) {
                Err(Missing) => return Ok(Seen::Unclear),
                Ok(Some(b'\n')) => (LineEnd::Both, 2),
                Ok(_) if known == LineEnd::Both => {
                    return Err(literal("carriage return", "\\r", is_csv));
                }
                Ok(_) => (LineEnd::Return, 1),
            },
        };
        self.line_end = line_end;
        let (end, next) = (self.at, self.at + bytes);
        Ok(Seen::Line(Line { end, next, is_last: false }))
    }

    /// After `\.` there must be the end of a line, and of the kind that the others have. In CSV
    /// it is data where no line ends there.
    fn marker(&self, input: Input<'_>, is_csv: bool) -> Result<Seen> {
        let last = |bytes: usize| {
            let next = self.at + bytes;
            Ok(Seen::Line(Line { end: self.at, next, is_last: true }))
        };
        let differs = || Err(malformed("end-of-copy marker does not match previous newline style"));
        let corrupt = || match is_csv {
            true => Ok(Seen::Data(1)),
            false => Err(malformed("end-of-copy marker corrupt")),
        };
        let Ok(first) = input.peek(self.at + 2) else { return Ok(Seen::Unclear) };
        match (self.line_end, first) {
            (LineEnd::Both, Some(b'\r')) => match input.peek(self.at + 3) {
                Err(Missing) => Ok(Seen::Unclear),
                Ok(Some(b'\n')) => last(4),
                Ok(Some(b'\r')) => differs(),
                Ok(_) => corrupt(),
            },
            (LineEnd::Both, Some(b'\n')) if !is_csv => differs(),
            (LineEnd::Both, _) => corrupt(),
            (LineEnd::Newline, Some(b'\r')) | (LineEnd::Return, Some(b'\n')) => differs(),
            (_, Some(b'\r' | b'\n')) => last(3),
            _ => corrupt(),
        }
    }
}

fn malformed(message: &str) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn literal(what: &str, spelling: &str, is_csv: bool) -> Error {
    match is_csv {
        true => malformed(&format!("unquoted {what} found in data"))
            .with_hint(format!("Use quoted CSV field to represent {what}.")),
        false => malformed(&format!("literal {what} found in data"))
            .with_hint(format!("Use \"{spelling}\" to represent {what}.")),
    }
}
