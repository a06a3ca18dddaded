//! Text and CSV as COPY FROM reads them.
//!
//! Text: one line a row, fields between delimiters, backslash escapes, `\N` for NULL. CSV: fields
//! may be quoted, a quoted field may hold line ends, and an unquoted empty field is NULL. The
//! parser keeps only the unfinished row between two pieces.

use std::ops::Range;

use types::{Error, Result, SqlState};

use super::lines::{Input, Line, Lines};
use super::{CopyFormat, CopyOptions, ROW_BYTES_MAX};

/// One row's fields; `None` is NULL.
pub struct Fields<'p> {
    text: &'p str,
    ranges: &'p [Option<Range<usize>>],
}

impl<'p> Fields<'p> {
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<&'p str>> + '_ {
        self.ranges.iter().map(|range| range.clone().map(|range| &self.text[range]))
    }
}

/// Cuts pieces of COPY data into rows.
#[derive(Debug)]
pub struct CopyParser {
    options: CopyOptions,
    /// The row that is not complete yet.
    partial: Vec<u8>,
    lines: Lines,
    /// Number of the last line read, for messages.
    line: u64,
    skip_header: bool,
    ended: bool,
    unescaped: Vec<u8>,
    ranges: Vec<Option<Range<usize>>>,
}

/// Takes a row that is complete.
type Take<'t> = dyn FnMut(&Fields<'_>) -> Result<()> + 't;

impl CopyParser {
    pub fn new(options: &CopyOptions) -> CopyParser {
        CopyParser {
            options: options.clone(),
            partial: Vec::new(),
            lines: Lines::default(),
            line: 0,
            skip_header: options.header,
            ended: false,
            unescaped: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// The line that was read last: what an error of the caller's is about.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Of a row that is not complete yet.
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Take a piece, cut anywhere; `row` gets every row that it completes.
    pub fn push(&mut self, bytes: &[u8], row: &mut Take<'_>) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        self.partial.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.partial);
        let read = self.rows(Input { bytes: &buffer, is_whole: false }, row)?;
        self.lines.forget(read);
        self.partial = buffer;
        self.partial.drain(..read);
        if self.ended {
            self.partial = Vec::new();
        }
        if self.partial.len() > ROW_BYTES_MAX {
            self.line += 1;
            return Err(self.error("a row of COPY data is too long"));
        }
        Ok(())
    }

    /// The data has ended; a last line may lack its end.
    pub fn finish(&mut self, row: &mut Take<'_>) -> Result<()> {
        let buffer = std::mem::take(&mut self.partial);
        let read = self.rows(Input { bytes: &buffer, is_whole: true }, row)?;
        if self.ended || read == buffer.len() {
            return Ok(());
        }
        self.line += 1 + self.lines.take_quoted_ends();
        if self.lines.is_quoted() {
            return Err(self.error("unterminated CSV quoted field"));
        }
        self.row(&buffer[read..], row)
    }

    /// The rows that are complete; how many bytes they are.
    fn rows(&mut self, input: Input<'_>, row: &mut Take<'_>) -> Result<usize> {
        let mut start = 0;
        while !self.ended {
            let found = self.lines.find(input, start, &self.options);
            let found = found.map_err(|error| {
                self.line += 1;
                self.at_line(error)
            });
            let Some(Line { end, next, is_last }) = found? else { return Ok(start) };
            self.ended = is_last;
            let line = &input.bytes[start..end];
            start = next;
            if !(is_last && line.is_empty()) {
                self.line += 1 + self.lines.take_quoted_ends();
                self.row(line, row)?;
            }
        }
        Ok(start)
    }

    fn row(&mut self, line: &[u8], row: &mut Take<'_>) -> Result<()> {
        if std::mem::take(&mut self.skip_header) {
            return Ok(());
        }
        self.unescaped.clear();
        self.ranges.clear();
        if self.options.format == CopyFormat::Csv {
            self.split_csv(line)?
        } else {
            self.split_text(line)
        }
        for range in self.ranges.iter().flatten() {
            // Each for itself: the pieces of a character may stand in two fields.
            check_utf8(&self.unescaped[range.clone()]).map_err(|error| self.at_line(error))?;
        }
        let text = std::str::from_utf8(&self.unescaped)
            .map_err(|_| self.at_line(invalid_utf8(&self.unescaped)))?;
        row(&Fields { text, ranges: &self.ranges })
    }

    fn split_text(&mut self, line: &[u8]) {
        for field in split_unescaped(line, self.options.delimiter) {
            if field == self.options.null.as_bytes() {
                self.ranges.push(None);
                continue;
            }
            let start = self.unescaped.len();
            unescape(field, &mut self.unescaped);
            self.ranges.push(Some(start..self.unescaped.len()));
        }
    }

    fn split_csv(&mut self, line: &[u8]) -> Result<()> {
        let (quote, escape) = (self.options.quote, self.options.escape);
        let mut at = 0;
        loop {
            let start = self.unescaped.len();
            let (mut quoted, mut ever_quoted) = (false, false);
            while at < line.len() {
                let byte = line[at];
                let next = line.get(at + 1).copied();
                if quoted && byte == escape && next.is_some_and(|n| n == quote || n == escape) {
                    self.unescaped.extend(next);
                    at += 1;
                } else if byte == quote {
                    quoted = !quoted;
                    ever_quoted = true;
                } else if byte == self.options.delimiter && !quoted {
                    break;
                } else {
                    self.unescaped.push(byte);
                }
                at += 1;
            }
            if quoted {
                return Err(self.error("unterminated CSV quoted field"));
            }
            let null = !ever_quoted && self.unescaped[start..] == *self.options.null.as_bytes();
            self.ranges.push((!null).then_some(start..self.unescaped.len()));
            if at >= line.len() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn error(&self, message: &str) -> Error {
        self.at_line(Error::new(SqlState::BAD_COPY_FILE_FORMAT, message))
    }

    fn at_line(&self, error: Error) -> Error {
        error.with_detail(format!("COPY line {}.", self.line))
    }
}

fn check_utf8(field: &[u8]) -> Result<()> {
    let text = std::str::from_utf8(field).map_err(|e| invalid_utf8(&field[e.valid_up_to()..]))?;
    if text.as_bytes().contains(&0) { Err(invalid_utf8(&[0])) } else { Ok(()) }
}

/// Names the bytes that the first of them says are one character.
fn invalid_utf8(bytes: &[u8]) -> Error {
    let length = match bytes.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => 1,
    };
    let shown: Vec<_> = bytes.iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
    let what = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, what)
}

/// Fields between delimiters that no backslash precedes.
fn split_unescaped(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let mut at = 0;
        while at < line.len() {
            match line[at] {
                b'\\' => at += 1,
                byte if byte == delimiter => {
                    rest = Some(&line[at + 1..]);
                    return Some(&line[..at]);
                }
                _ => {}
            }
            at += 1;
        }
        rest = None;
        Some(line)
    })
}

fn unescape(field: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < field.len() {
        let byte = field[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        // A backslash that nothing follows stands for nothing.
        let Some(&escaped) = field.get(at) else { return };
        at += 1;
        let digits = |radix: u32, at: usize, max: usize| {
            field[at..].iter().take(max).take_while(|b| (**b as char).is_digit(radix)).count()
        };
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'x' if digits(16, at, 2) > 0 => {
                let end = at + digits(16, at, 2);
                out.push(number(&field[at..end], 16));
                at = end;
            }
            b'0'..=b'7' => {
                let end = at + digits(8, at, 2);
                out.push(number(&field[at - 1..end], 8));
                at = end;
            }
            other => out.push(other),
        }
    }
}

/// The low byte of a number of at most three digits, as PostgreSQL takes it.
fn number(digits: &[u8], radix: u32) -> u8 {
    digits.iter().fold(0u32, |n, &d| n * radix + (d as char).to_digit(radix).unwrap_or(0)) as u8
}
