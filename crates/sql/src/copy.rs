//! COPY's formats: parsers that take bytes as they come, and a formatter. Here are text and CSV.
//!
//! Text: one line a row, fields between delimiters, backslash escapes, `\N` for NULL, and a line
//! `\.` that ends the data. CSV: fields may be quoted, a quoted field may hold line ends, and an
//! unquoted empty field is NULL. The parser keeps only the unfinished row between two pieces.

pub mod binary;

use std::ops::Range;

use procedure::Column;
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value, Zone};

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// How COPY reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: bool,
    pub quote: u8,
    pub escape: u8,
}

impl CopyOptions {
    /// What `WITH (FORMAT csv, HEADER)` asks for.
    pub fn csv_with_header() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Csv,
            delimiter: b',',
            null: String::new(),
            header: true,
            quote: b'"',
            escape: b'"',
        }
    }

    /// Options of both spellings: `WITH (FORMAT csv, HEADER)` and the older `CSV HEADER`.
    pub(crate) fn from_ast(
        options: &[ast::CopyOption],
        legacy: &[ast::CopyLegacyOption],
    ) -> Result<CopyOptions> {
        let mut asked = Asked::default();
        for option in options {
            asked.option(option)?;
        }
        for option in legacy {
            asked.legacy(option)?;
        }
        asked.options()
    }
}

/// What the statement says; the rest depends on the format.
#[derive(Default)]
struct Asked {
    format: CopyFormat,
    header: bool,
    null: Option<String>,
    delimiter: Option<char>,
    quote: Option<char>,
    escape: Option<char>,
}

impl Asked {
    fn option(&mut self, option: &ast::CopyOption) -> Result<()> {
        use ast::CopyOption;
        match option {
            CopyOption::Format(name) => match name.value.to_ascii_lowercase().as_str() {
                "text" => self.format = CopyFormat::Text,
                "csv" => self.format = CopyFormat::Csv,
                "binary" => self.format = CopyFormat::Binary,
                other => {
                    let what = format!("COPY format \"{other}\" not recognized");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
                }
            },
            // There is no unfrozen row here.
            CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(c) => self.delimiter = Some(*c),
            CopyOption::Null(text) => self.null = Some(text.clone()),
            CopyOption::Header(on) => self.header = *on,
            CopyOption::Quote(c) => self.quote = Some(*c),
            CopyOption::Escape(c) => self.escape = Some(*c),
            CopyOption::Encoding(name) if is_utf8(name) => {}
            other => return Err(Error::unsupported(format_args!("COPY option {other}"))),
        }
        Ok(())
    }

    fn legacy(&mut self, option: &ast::CopyLegacyOption) -> Result<()> {
        use ast::{CopyLegacyCsvOption, CopyLegacyOption};
        match option {
            CopyLegacyOption::Delimiter(c) => self.delimiter = Some(*c),
            CopyLegacyOption::Binary => self.format = CopyFormat::Binary,
            CopyLegacyOption::Null(text) => self.null = Some(text.clone()),
            CopyLegacyOption::Csv(options) => {
                self.format = CopyFormat::Csv;
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.header = true,
                        CopyLegacyCsvOption::Quote(c) => self.quote = Some(*c),
                        CopyLegacyCsvOption::Escape(c) => self.escape = Some(*c),
                        other => {
                            return Err(Error::unsupported(format_args!("COPY option {other}")));
                        }
                    }
                }
            }
            other => return Err(Error::unsupported(format_args!("COPY option {other}"))),
        }
        Ok(())
    }

    fn options(self) -> Result<CopyOptions> {
        if self.format == CopyFormat::Binary {
            self.check_binary()?;
        }
        let quote = one_byte("quote", self.quote.unwrap_or('"'))?;
        let (null, delimiter) = match self.format {
            CopyFormat::Csv => ("", ','),
            CopyFormat::Text | CopyFormat::Binary => ("\\N", '\t'),
        };
        Ok(CopyOptions {
            format: self.format,
            delimiter: one_byte("delimiter", self.delimiter.unwrap_or(delimiter))?,
            null: self.null.unwrap_or_else(|| null.to_owned()),
            header: self.header,
            quote,
            escape: self.escape.map_or(Ok(quote), |c| one_byte("escape", c))?,
        })
    }
}

impl Asked {
    /// Only text has what these are about.
    fn check_binary(&self) -> Result<()> {
        let said = [
            ("DELIMITER", self.delimiter.is_some()),
            ("NULL", self.null.is_some()),
            ("HEADER", self.header),
            ("QUOTE", self.quote.is_some()),
            ("ESCAPE", self.escape.is_some()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            None => Ok(()),
            Some((name, _)) => {
                let what = format!("cannot specify {name} in BINARY mode");
                Err(Error::new(SqlState::SYNTAX_ERROR, what))
            }
        }
    }
}

fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn one_byte(what: &str, c: char) -> Result<u8> {
    let one = u8::try_from(c).ok().filter(|b| b.is_ascii() && *b != b'\n' && *b != b'\r');
    one.ok_or_else(|| {
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("COPY {what} must be a single one-byte character"),
        )
    })
}

/// A row may not be longer than this: it would have to be held in memory whole.
const ROW_BYTES_MAX: usize = 64 << 20;

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
    /// How much of `partial` has been searched for its end, and in which state.
    searched: usize,
    quoted: bool,
    escaped: bool,
    /// Number of the last line read, for messages.
    line: u64,
    skip_header: bool,
    ended: bool,
    unescaped: Vec<u8>,
    ranges: Vec<Option<Range<usize>>>,
}

impl CopyParser {
    pub fn new(options: &CopyOptions) -> CopyParser {
        CopyParser {
            options: options.clone(),
            partial: Vec::new(),
            searched: 0,
            quoted: false,
            escaped: false,
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
    pub fn push(
        &mut self,
        bytes: &[u8],
        row: &mut dyn FnMut(&Fields<'_>) -> Result<()>,
    ) -> Result<()> {
        self.partial.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.partial);
        let mut start = 0;
        while let Some(end) = self.find_end(&buffer, start) {
            self.row(&buffer[start..end], row)?;
            start = end + 1;
            self.searched = start;
        }
        self.searched -= start;
        self.partial = buffer;
        self.partial.drain(..start);
        if self.partial.len() > ROW_BYTES_MAX {
            return Err(self.error("a row of COPY data is too long"));
        }
        Ok(())
    }

    /// The data has ended; a last line may lack its end.
    pub fn finish(&mut self, row: &mut dyn FnMut(&Fields<'_>) -> Result<()>) -> Result<()> {
        if self.quoted {
            return Err(self.error("unterminated CSV quoted field"));
        }
        let rest = std::mem::take(&mut self.partial);
        if rest.is_empty() { Ok(()) } else { self.row(&rest, row) }
    }

    /// Where the row that starts at `start` ends: a line end outside quotes.
    fn find_end(&mut self, buffer: &[u8], start: usize) -> Option<usize> {
        let from = self.searched.max(start);
        for (at, &byte) in buffer.iter().enumerate().skip(from) {
            if self.escaped {
                self.escaped = false;
            } else if self.options.format != CopyFormat::Csv {
                match byte {
                    b'\n' => return Some(at),
                    b'\\' => self.escaped = true,
                    _ => {}
                }
            } else if self.quoted
                && byte == self.options.escape
                && self.options.escape != self.options.quote
            {
                self.escaped = true;
            } else if byte == self.options.quote {
                self.quoted = !self.quoted;
            } else if byte == b'\n' && !self.quoted {
                return Some(at);
            }
        }
        self.searched = buffer.len();
        None
    }

    fn row(&mut self, line: &[u8], row: &mut dyn FnMut(&Fields<'_>) -> Result<()>) -> Result<()> {
        self.line += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.ended {
            return Ok(());
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
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
        let text = std::str::from_utf8(&self.unescaped).map_err(|_| {
            Error::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\"",
            )
            .with_detail(format!("COPY line {}.", self.line))
        })?;
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
        Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
            .with_detail(format!("COPY line {}.", self.line + 1))
    }
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
        if byte != b'\\' || at == field.len() {
            out.push(byte);
            continue;
        }
        let escaped = field[at];
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

/// Renders rows for COPY TO.
#[derive(Clone, Debug)]
pub struct CopyFormatter {
    options: CopyOptions,
    types: Vec<DataType>,
    zone: Zone,
    header: Vec<String>,
    field: Vec<u8>,
}

impl CopyFormatter {
    pub fn new(options: &CopyOptions, columns: &[Column], zone: &Zone) -> CopyFormatter {
        CopyFormatter {
            options: options.clone(),
            zone: zone.clone(),
            types: columns.iter().map(|column| column.data_type.clone()).collect(),
            header: columns.iter().map(|column| column.name.clone()).collect(),
            field: Vec::new(),
        }
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// What stands before all rows: the header line, where one was asked for.
    pub fn header(&mut self, out: &mut Vec<u8>) {
        if self.is_binary() {
            return binary::write_header(out);
        }
        if !self.options.header {
            return;
        }
        for (at, name) in std::mem::take(&mut self.header).iter().enumerate() {
            self.separate(at, out);
            self.field.clear();
            self.field.extend_from_slice(name.as_bytes());
            self.put(out);
        }
        out.push(b'\n');
    }

    /// What stands behind all rows.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.is_binary() {
            binary::write_end(out);
        }
    }

    /// # Errors
    /// A type without a binary form, or a row that is too long for it.
    pub fn row(&mut self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        if self.is_binary() {
            return binary::write_row(row, &self.types, out);
        }
        for (at, value) in row.iter().enumerate() {
            self.separate(at, out);
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            self.field.clear();
            value.write_text_in(&self.types[at], &self.zone, &mut self.field);
            self.put(out);
        }
        out.push(b'\n');
        Ok(())
    }

    fn separate(&self, at: usize, out: &mut Vec<u8>) {
        if at > 0 {
            out.push(self.options.delimiter);
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Csv => self.put_csv(out),
            CopyFormat::Text | CopyFormat::Binary => self.put_text(out),
        }
    }

    fn put_text(&self, out: &mut Vec<u8>) {
        for &byte in &self.field {
            let escaped = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend([b'\\', escaped]);
        }
    }

    fn put_csv(&self, out: &mut Vec<u8>) {
        let CopyOptions { delimiter, quote, escape, ref null, .. } = self.options;
        let special = |b: &u8| *b == delimiter || *b == quote || *b == b'\n' || *b == b'\r';
        let field = &self.field;
        if field != null.as_bytes() && field != b"\\." && !field.iter().any(special) {
            out.extend_from_slice(field);
            return;
        }
        out.push(quote);
        for &byte in field {
            if byte == quote || byte == escape {
                out.push(escape);
            }
            out.push(byte);
        }
        out.push(quote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            delimiter: b'\t',
            null: "\\N".into(),
            header: false,
            quote: b'"',
            escape: b'"',
        }
    }

    fn csv() -> CopyOptions {
        CopyOptions { format: CopyFormat::Csv, delimiter: b',', null: String::new(), ..text() }
    }

    type Rows = Vec<Vec<Option<String>>>;

    fn parse(options: &CopyOptions, data: &str, piece: usize) -> Result<Rows> {
        let mut rows = Rows::new();
        let mut keep = |fields: &Fields<'_>| {
            rows.push(fields.iter().map(|f| f.map(str::to_owned)).collect());
            Ok(())
        };
        let mut parser = CopyParser::new(options);
        for piece in data.as_bytes().chunks(piece) {
            parser.push(piece, &mut keep)?;
        }
        parser.finish(&mut keep)?;
        Ok(rows)
    }

    fn row(fields: &[Option<&str>]) -> Vec<Option<String>> {
        fields.iter().map(|f| f.map(str::to_owned)).collect()
    }

    #[test]
    fn text_rows_are_the_same_however_the_data_is_cut() {
        let data = "1\ta\\tb\t\\N\r\n\\x41\\102\t\\\\\tz\\\nq\n\\.\nignored\n";
        let expected = vec![
            row(&[Some("1"), Some("a\tb"), None]),
            row(&[Some("AB"), Some("\\"), Some("z\nq")]),
        ];
        for piece in 1..data.len() {
            assert_eq!(parse(&text(), data, piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn csv_rows_are_the_same_however_the_data_is_cut() {
        let data = "1,\"a \"\"b\"\"\nc\",\n\"\",x\"y,\"z,3\r\n";
        let expected = vec![
            row(&[Some("1"), Some("a \"b\"\nc"), None]),
            row(&[Some(""), Some("xy,z"), Some("3")]),
        ];
        for piece in 1..data.len() {
            assert_eq!(parse(&csv(), data, piece).unwrap(), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn an_open_quote_at_the_end_is_an_error_with_its_line() {
        let error = parse(&csv(), "1,2\n\"3", 4).unwrap_err();
        assert_eq!(error.code(), SqlState::BAD_COPY_FILE_FORMAT);
        assert_eq!(error.fields().detail.as_deref(), Some("COPY line 2."));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let values = ["", "\\N", "a\tb", "q\"uo,te", "line\nend", "\\.", "ü"];
        let column = Column { name: "c".into(), data_type: DataType::Text };
        for options in [text(), csv()] {
            let mut out = Vec::new();
            let mut formatter =
                CopyFormatter::new(&options, &[column.clone(), column.clone()], &Zone::default());
            for value in values {
                formatter.row(&[Value::from(value), Value::Null], &mut out).unwrap();
            }
            let read = parse(&options, std::str::from_utf8(&out).unwrap(), 3).unwrap();
            let expected: Rows = values.iter().map(|v| row(&[Some(v), None])).collect();
            assert_eq!(read, expected, "{:?}", options.format);
        }
    }
}
