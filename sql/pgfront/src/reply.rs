//! What the server says, encoded at the end of the output buffer.
//!
//! The messages of every execution (rows, completion tags, ready) are written in place; the rare
//! ones go through the protocol crate's own types, see [`put`].

use std::borrow::Cow;

use bytes::BytesMut;
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::ParameterStatus;
use types::{DataType, Error, Result, SqlState, Value, Zone};

use crate::backend::{ColumnDescription, Notice, NoticeSeverity, Notification, TransactionStatus};
use crate::encoding::Encoding;
use crate::fetch::Shape;
use crate::message::{Format, Formats};
use crate::next_step;

/// Encodes a message by the protocol crate. Its encoders fail only on messages that are too long.
pub fn put<M: Message>(out: &mut Vec<u8>, message: &M) -> Result<()> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).map_err(|error| {
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "reply is too long")
            .with_detail(error.to_string())
    })?;
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Writes kind, length and what `body` writes. Should `body` fail, nothing is written.
fn message(
    out: &mut Vec<u8>,
    kind: u8,
    body: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    let outcome = body(out).and_then(|()| {
        i32::try_from(out.len() - start - 1)
            .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "row is too long"))
    });
    match outcome {
        Ok(length) => {
            out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The bodiless messages, whole.
pub const PARSE_COMPLETE: [u8; 5] = *b"1\0\0\0\x04";
pub const BIND_COMPLETE: [u8; 5] = *b"2\0\0\0\x04";
pub const CLOSE_COMPLETE: [u8; 5] = *b"3\0\0\0\x04";
pub const NO_DATA: [u8; 5] = *b"n\0\0\0\x04";
pub const EMPTY_QUERY_RESPONSE: [u8; 5] = *b"I\0\0\0\x04";
pub const PORTAL_SUSPENDED: [u8; 5] = *b"s\0\0\0\x04";
pub const COPY_DONE: [u8; 5] = *b"c\0\0\0\x04";

pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    let status = match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::Block => b'T',
        TransactionStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// A completion tag: what was done, to how many rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tag {
    /// The front end counts the rows it sends.
    Select,
    Insert(u64),
    Update(u64),
    Delete(u64),
    Copy(u64),
    /// Any other, whole: `CREATE TABLE`.
    Other(Cow<'static, str>),
}

impl From<&'static str> for Tag {
    fn from(tag: &'static str) -> Self {
        Tag::Other(Cow::Borrowed(tag))
    }
}

impl From<String> for Tag {
    fn from(tag: String) -> Self {
        Tag::Other(Cow::Owned(tag))
    }
}

pub fn command_complete(out: &mut Vec<u8>, tag: &Tag, rows_sent: u64) {
    let (verb, count) = match tag {
        Tag::Select => ("SELECT ", Some(rows_sent)),
        Tag::Insert(rows) => ("INSERT 0 ", Some(*rows)),
        Tag::Update(rows) => ("UPDATE ", Some(*rows)),
        Tag::Delete(rows) => ("DELETE ", Some(*rows)),
        Tag::Copy(rows) => ("COPY ", Some(*rows)),
        Tag::Other(text) => (text.as_ref(), None),
    };
    // A tag is a few words, so its message cannot be too long.
    let _ = message(out, b'C', |out| {
        out.extend_from_slice(verb.as_bytes());
        if let Some(count) = count {
            put_decimal(out, count);
        }
        out.push(0);
        Ok(())
    });
}

fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// A `RowDescription` with all columns in text format, and where the format codes are in it.
#[derive(Debug)]
pub struct RowDescription {
    message: Vec<u8>,
    format_at: Vec<usize>,
    /// Only if a name is absurdly long or has a zero byte in it.
    error: Option<Error>,
}

impl RowDescription {
    pub fn new(columns: &[ColumnDescription]) -> Self {
        let mut bytes = Vec::new();
        let mut format_at = Vec::with_capacity(columns.len());
        let outcome = message(&mut bytes, b'T', |out| {
            out.extend_from_slice(&count(columns.len())?.to_be_bytes());
            for column in columns {
                put_column(out, column)?;
                format_at.push(out.len());
                out.extend_from_slice(&[0, 0]);
            }
            Ok(())
        });
        RowDescription { message: bytes, format_at, error: outcome.err() }
    }

    pub fn put(&self, out: &mut Vec<u8>, formats: &Formats) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let start = out.len();
        out.extend_from_slice(&self.message);
        if *formats != Formats::All(Format::Text) {
            for (column, at) in self.format_at.iter().enumerate() {
                out[start + at + 1] = u8::from(formats.get(column) == Format::Binary);
            }
        }
        Ok(())
    }
}

fn put_column(out: &mut Vec<u8>, column: &ColumnDescription) -> Result<()> {
    if column.name.contains('\0') {
        return Err(Error::new(SqlState::INTERNAL_ERROR, "a column's name has a zero byte in it"));
    }
    out.extend_from_slice(column.name.as_bytes());
    out.push(0);
    out.extend_from_slice(&column.table_oid.to_be_bytes());
    out.extend_from_slice(&column.attribute_number.to_be_bytes());
    out.extend_from_slice(&column.data_type.oid().to_be_bytes());
    out.extend_from_slice(&column.data_type.type_len().to_be_bytes());
    out.extend_from_slice(&column.data_type.typmod().to_be_bytes());
    Ok(())
}

/// A count of columns as the protocol writes it.
fn count(columns: usize) -> Result<u16> {
    u16::try_from(columns).map_err(|_| {
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row can have at most 65535 columns")
    })
}

pub fn data_row(
    out: &mut Vec<u8>,
    row: &[Value],
    &Shape { columns, formats, zone }: &Shape<'_>,
    encoding: Option<&Encoding>,
) -> Result<()> {
    if row.len() != columns.len() {
        return Err(Error::new(
            SqlState::INTERNAL_ERROR,
            format!("a row has {} values for {} columns", row.len(), columns.len()),
        ));
    }
    message(out, b'D', |out| {
        out.extend_from_slice(&count(row.len())?.to_be_bytes());
        for (index, (value, column)) in row.iter().zip(columns).enumerate() {
            put_value(out, value, column, (formats.get(index), zone), encoding)?;
        }
        Ok(())
    })
}

fn put_value(
    out: &mut Vec<u8>,
    value: &Value,
    column: &ColumnDescription,
    (format, zone): (Format, &Zone),
    encoding: Option<&Encoding>,
) -> Result<()> {
    if matches!(value, Value::Null) {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match format {
        Format::Text => value.make_text_in(&column.data_type, zone, out)?,
        Format::Binary => value.write_binary(&column.data_type, out)?,
    }
    if let Some(encoding) = encoding {
        match (format, value) {
            (Format::Text, _) | (_, Value::Text(_)) => encoding.encode_from(out, start + 4)?,
            (Format::Binary, Value::Array(elements)) if !elements.iter().all(is_ascii) => {
                return Err(Error::unsupported("an array of text in binary format")
                    .with_hint("Use client_encoding UTF8, or the text format."));
            }
            (Format::Binary, _) => {}
        }
    }
    let length = i32::try_from(out.len() - start - 4)
        .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "value is too long"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn is_ascii(value: &Value) -> bool {
    value.as_text().is_none_or(str::is_ascii)
}

pub fn parameter_description(out: &mut Vec<u8>, types: &[DataType]) -> Result<()> {
    message(out, b't', |out| {
        out.extend_from_slice(&count(types.len())?.to_be_bytes());
        for data_type in types {
            out.extend_from_slice(&data_type.oid().to_be_bytes());
        }
        Ok(())
    })
}

pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) -> Result<()> {
    put(out, &ParameterStatus::new(clean(name), clean(value)))
}

pub fn copy_in_response(out: &mut Vec<u8>, columns: usize, format: Format) -> Result<()> {
    let (count, formats) = copy_columns(columns, format)?;
    put(out, &CopyInResponse::new(i8::from(format == Format::Binary), count, formats))
}

pub fn copy_out_response(out: &mut Vec<u8>, columns: usize, format: Format) -> Result<()> {
    let (count, formats) = copy_columns(columns, format)?;
    put(out, &CopyOutResponse::new(i8::from(format == Format::Binary), count, formats))
}

fn copy_columns(columns: usize, format: Format) -> Result<(i16, Vec<i16>)> {
    let count = i16::try_from(columns)
        .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "COPY has too many columns"))?;
    Ok((count, vec![i16::from(format == Format::Binary); columns]))
}

pub fn copy_data(out: &mut Vec<u8>, bytes: &[u8], encoding: Option<&Encoding>) -> Result<()> {
    message(out, b'd', |out| {
        let start = out.len();
        out.extend_from_slice(bytes);
        encoding.map_or(Ok(()), |encoding| encoding.encode_from(out, start))
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Error,
    /// The connection ends.
    Fatal,
}

pub fn error_response(out: &mut Vec<u8>, severity: Severity, error: &Error) {
    let severity = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    // A report that is itself too long to send is cut, so this cannot fail.
    let _ = put(out, &ErrorResponse::new(error_fields(severity, error)));
}

pub fn notice_response(out: &mut Vec<u8>, notice: &Notice) {
    let severity = match notice.severity {
        NoticeSeverity::Debug => "DEBUG",
        NoticeSeverity::Log => "LOG",
        NoticeSeverity::Info => "INFO",
        NoticeSeverity::Notice => "NOTICE",
        NoticeSeverity::Warning => "WARNING",
    };
    let _ = put(out, &NoticeResponse::new(error_fields(severity, &notice.content)));
}

/// Channels and payloads are short, so the message cannot be too long.
pub fn notification_response(out: &mut Vec<u8>, notification: &Notification) {
    let Notification { process_id, channel, payload } = notification;
    let _ = message(out, b'A', |out| {
        out.extend_from_slice(&process_id.to_be_bytes());
        for text in [channel, payload] {
            out.extend_from_slice(clean(text).as_bytes());
            out.push(0);
        }
        Ok(())
    });
}

/// Field codes as PostgreSQL's manual lists them.
fn error_fields(severity: &str, error: &Error) -> Vec<(u8, String)> {
    let fields = error.fields();
    let mut coded = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', fields.code.as_str().to_owned()),
        (b'M', clean(&fields.message)),
    ];
    let is_error = matches!(severity, "ERROR" | "FATAL" | "PANIC");
    let next_step = || next_step::of(&fields.code).filter(|_| is_error);
    let optional = [
        (b'D', fields.detail.as_deref()),
        (b'H', fields.hint.as_deref().or_else(next_step)),
        (b't', fields.table.as_deref()),
        (b'c', fields.column.as_deref()),
        (b'n', fields.constraint.as_deref()),
    ];
    if fields.table.is_some() {
        coded.push((b's', clean(fields.schema.as_deref().unwrap_or("public"))));
    }
    for (code, text) in optional {
        coded.extend(text.map(|text| (code, clean(text))));
    }
    coded.extend(fields.position.map(|at| (b'P', at.to_string())));
    coded.extend(fields.routine.map(|routine| (b'R', routine.to_owned())));
    coded
}

/// Longest text of one field of a report.
const FIELD_MAX: usize = 64 << 10;

/// Text that fits into a zero-terminated field.
fn clean(text: &str) -> String {
    let end = text.floor_char_boundary(text.len().min(FIELD_MAX));
    text[..end].replace('\0', "\u{fffd}")
}

/// Cuts off a message that was being written when its writer died.
pub fn drop_partial_message(out: &mut Vec<u8>) {
    let mut whole = 0;
    while let Some(header) = out[whole..].first_chunk::<5>() {
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length < 4 || out.len() - whole - 1 < length {
            break;
        }
        whole += 1 + length;
    }
    out.truncate(whole);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_spelled_as_drivers_parse_them() {
        let spell = |tag: Tag, rows_sent| {
            let mut out = Vec::new();
            command_complete(&mut out, &tag, rows_sent);
            assert_eq!(out[0], b'C');
            assert_eq!(out[1..5], (out.len() as u32 - 1).to_be_bytes());
            String::from_utf8(out[5..out.len() - 1].to_vec()).unwrap()
        };
        assert_eq!(spell(Tag::Select, 0), "SELECT 0");
        assert_eq!(spell(Tag::Select, u64::MAX), "SELECT 18446744073709551615");
        assert_eq!(spell(Tag::Insert(10), 3), "INSERT 0 10");
        assert_eq!(spell(Tag::Update(1), 0), "UPDATE 1");
        assert_eq!(spell(Tag::Delete(9), 0), "DELETE 9");
        assert_eq!(spell(Tag::Copy(100), 0), "COPY 100");
        assert_eq!(spell("CREATE TABLE".into(), 5), "CREATE TABLE");
    }

    #[test]
    fn drivers_are_told_that_a_plan_is_stale_by_its_routine() {
        let fields = error_fields("ERROR", &Error::changed_result_type("Prepare it again."));
        assert!(fields.contains(&(b'R', "RevalidateCachedQuery".to_owned())));
        let other = error_fields("ERROR", &Error::unsupported("this"));
        assert!(other.iter().all(|(code, _)| *code != b'R'));
    }

    #[test]
    fn a_row_that_does_not_fit_its_columns_leaves_no_trace() {
        let columns = [ColumnDescription::expression("n", DataType::Int4)];
        let mut out = b"before".to_vec();
        let formats = Formats::All(Format::Binary);
        let shape = Shape { columns: &columns, formats: &formats, zone: &Zone::default() };
        let too_many = [Value::Int(1), Value::Int(2)];
        let wrong_type = [Value::Bool(true)];
        for row in [&too_many[..], &wrong_type] {
            let error = data_row(&mut out, row, &shape, None).unwrap_err();
            assert_eq!(error.code(), SqlState::INTERNAL_ERROR);
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn formats_are_patched_into_the_cached_description() {
        let types = [DataType::Int4, DataType::Text];
        let columns = types.map(|t| ColumnDescription::expression("name", t));
        let description = RowDescription::new(&columns);
        let put = |formats: Formats| {
            let mut out = b"before".to_vec();
            description.put(&mut out, &formats).unwrap();
            let codes = description.format_at.iter().map(|at| out[6 + at + 1]);
            codes.collect::<Vec<_>>()
        };
        assert_eq!(put(Formats::All(Format::Text)), [0, 0]);
        assert_eq!(put(Formats::All(Format::Binary)), [1, 1]);
        assert_eq!(put(Formats::Each(vec![Format::Text, Format::Binary])), [0, 1]);
        let zero = [ColumnDescription::expression("a\0b", DataType::Int4)];
        let error = RowDescription::new(&zero).put(&mut Vec::new(), &Formats::All(Format::Text));
        assert!(error.is_err());
    }

    #[test]
    fn reports_cannot_be_broken_by_their_text() {
        let mut out = Vec::new();
        let error = Error::new(SqlState::SYNTAX_ERROR, "a\0b").with_detail("ä".repeat(1 << 20));
        error_response(&mut out, Severity::Error, &error);
        assert!(out.len() < FIELD_MAX + 100);
        assert_eq!(out[1..5], (out.len() as u32 - 1).to_be_bytes());
        assert!(String::from_utf8(out).unwrap().contains("a\u{fffd}b"));
    }

    #[test]
    fn a_half_written_message_is_dropped() {
        let mut whole = Vec::new();
        ready_for_query(&mut whole, TransactionStatus::Idle);
        command_complete(&mut whole, &Tag::Select, 7);
        for half in [&b""[..], b"D", b"D\0\0\0\0", b"D\0\0\0\x20abc"] {
            let mut out = [&whole, half].concat();
            drop_partial_message(&mut out);
            assert_eq!(out, whole);
        }
    }
}
