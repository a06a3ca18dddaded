//! COPY's binary format.
//!
//! ```text
//! "PGCOPY\n" ff "\r\n" 00   flags:4   extension length:4   extension
//! row: fields:2   ( length:4 bytes | -1 )*
//! end: -1:2
//! ```
//!
//! Fields are values in the binary form of their type. The end may lack, as PostgreSQL allows, but
//! not a part of a row. Flags of the upper half change what follows, and none is known here.
//!
//! The parser keeps only the unfinished row between two pieces.

use types::{DataType, Error, Result, SqlState, Value};

use super::ROW_BYTES_MAX;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
const CRITICAL_FLAGS: u32 = 0xFFFF_0000;
const END: i16 = -1;
const NULL: i32 = -1;

/// One row's fields; `None` is NULL.
pub type BinaryFields<'a> = [Option<&'a [u8]>];

/// A row, or the end of all.
type Next<'a> = Option<Vec<Option<&'a [u8]>>>;

/// Cuts pieces of binary COPY data into rows.
#[derive(Debug)]
pub struct BinaryParser {
    columns: usize,
    /// What is not read yet: of the header, or of a row that is not complete.
    partial: Vec<u8>,
    place: Place,
    /// Number of the last row read, for messages.
    row: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Header,
    Rows,
    Ended,
}

impl BinaryParser {
    pub fn new(columns: usize) -> BinaryParser {
        BinaryParser { columns, partial: Vec::new(), place: Place::Header, row: 0 }
    }

    pub fn row(&self) -> u64 {
        self.row
    }

    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Takes a piece, cut anywhere; `row` gets every row that it completes.
    pub fn push(
        &mut self,
        bytes: &[u8],
        row: &mut dyn FnMut(&BinaryFields<'_>) -> Result<()>,
    ) -> Result<()> {
        self.partial.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.partial);
        let read = self.read(&buffer, row)?;
        self.partial = buffer;
        self.partial.drain(..read);
        if self.partial.len() > ROW_BYTES_MAX {
            return Err(wrong("a row of COPY data is too long"));
        }
        Ok(())
    }

    /// The data has ended.
    pub fn finish(&mut self) -> Result<()> {
        match self.place {
            Place::Header => Err(wrong(match self.partial.len() {
                ..11 => "COPY file signature not recognized",
                11..15 => "invalid COPY file header (missing flags)",
                15..19 => "invalid COPY file header (missing length)",
                _ => "invalid COPY file header (wrong length)",
            })),
            // Less than a count of fields is no row.
            Place::Rows if self.partial.len() >= 2 => Err(wrong("unexpected EOF in COPY data")),
            _ => Ok(()),
        }
    }

    /// Reads what is complete; how many bytes that is.
    fn read(
        &mut self,
        buffer: &[u8],
        row: &mut dyn FnMut(&BinaryFields<'_>) -> Result<()>,
    ) -> Result<usize> {
        let mut at = 0;
        if self.place == Place::Header {
            let Some(read) = header(buffer)? else { return Ok(0) };
            at = read;
            self.place = Place::Rows;
        }
        while self.place == Place::Rows {
            let Some((fields, length)) = self.fields(&buffer[at..])? else { return Ok(at) };
            at += length;
            match fields {
                Some(fields) => row(&fields)?,
                None => self.place = Place::Ended,
            }
        }
        match buffer.len() == at {
            true => Ok(at),
            false => Err(wrong("received copy data after EOF marker")),
        }
    }

    /// The fields of a row, if it is complete (`None`: the end of all), and its length.
    fn fields<'a>(&mut self, rest: &'a [u8]) -> Result<Option<(Next<'a>, usize)>> {
        let Some(count) = rest.first_chunk::<2>().map(|bytes| i16::from_be_bytes(*bytes)) else {
            return Ok(None);
        };
        if count == END {
            return Ok(Some((None, 2)));
        }
        if usize::try_from(count) != Ok(self.columns) {
            self.row += 1;
            let columns = self.columns;
            return Err(wrong(&format!("row field count is {count}, expected {columns}")));
        }
        let mut fields = Vec::with_capacity(self.columns);
        let mut at = 2;
        for _ in 0..self.columns {
            let Some(length) = rest[at..].first_chunk::<4>() else { return Ok(None) };
            let length = i32::from_be_bytes(*length);
            at += 4;
            if length == NULL {
                fields.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| wrong("invalid field size"))?;
            if length > ROW_BYTES_MAX {
                return Err(wrong("a row of COPY data is too long"));
            }
            let Some(field) = rest.get(at..at + length) else { return Ok(None) };
            fields.push(Some(field));
            at += length;
        }
        self.row += 1;
        Ok(Some((Some(fields), at)))
    }
}

/// How long the header is, once all of it is there.
fn header(buffer: &[u8]) -> Result<Option<usize>> {
    let there = buffer.len().min(SIGNATURE.len());
    if buffer[..there] != SIGNATURE[..there] {
        return Err(wrong("COPY file signature not recognized"));
    }
    let word = |at: usize| Some(u32::from_be_bytes(*buffer.get(at..)?.first_chunk::<4>()?));
    let (Some(flags), Some(length)) = (word(SIGNATURE.len()), word(SIGNATURE.len() + 4)) else {
        return Ok(None);
    };
    if flags & CRITICAL_FLAGS != 0 {
        return Err(wrong("unrecognized critical flags in COPY file header"));
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= ROW_BYTES_MAX);
    let length = length.ok_or_else(|| wrong("invalid COPY file header (wrong length)"))?;
    Ok((buffer.len() >= HEADER_BYTES + length).then_some(HEADER_BYTES + length))
}

fn wrong(message: &str) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

pub fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

pub fn write_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&END.to_be_bytes());
}

/// # Errors
/// A type without a binary form, more columns or longer values than the format can count.
pub fn write_row(row: &[Value], types: &[DataType], out: &mut Vec<u8>) -> Result<()> {
    let too_long = |_| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row of COPY is too long");
    out.extend_from_slice(&i16::try_from(row.len()).map_err(too_long)?.to_be_bytes());
    for (value, data_type) in row.iter().zip(types) {
        let start = out.len();
        out.extend_from_slice(&NULL.to_be_bytes());
        if !value.is_null() {
            value.write_binary(data_type, out)?;
            let length = i32::try_from(out.len() - start - 4).map_err(too_long)?;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<Vec<Option<Vec<u8>>>>;

    fn parse(columns: usize, data: &[u8], piece: usize) -> Result<Rows> {
        let mut rows = Rows::new();
        let mut keep = |fields: &BinaryFields<'_>| {
            rows.push(fields.iter().map(|field| field.map(<[u8]>::to_vec)).collect());
            Ok(())
        };
        let mut parser = BinaryParser::new(columns);
        for piece in data.chunks(piece) {
            parser.push(piece, &mut keep)?;
        }
        parser.finish()?;
        Ok(rows)
    }

    fn data(rows: &[[Value; 2]], types: &[DataType]) -> Vec<u8> {
        let mut out = Vec::new();
        write_header(&mut out);
        rows.iter().for_each(|row| write_row(row, types, &mut out).unwrap());
        out
    }

    #[test]
    fn what_is_written_is_read_however_it_is_cut() {
        let types = [DataType::Int4, DataType::Text];
        let rows = [
            [Value::Int(7), Value::text("seven")],
            [Value::Null, Value::text("")],
            [Value::Int(-1), Value::Null],
        ];
        let mut written = data(&rows, &types);
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let expected: Rows = vec![
            vec![Some(vec![0, 0, 0, 7]), bytes("seven")],
            vec![None, bytes("")],
            vec![Some(vec![255; 4]), None],
        ];
        assert_eq!(parse(2, &written, 100).unwrap(), expected, "without an end");
        write_end(&mut written);
        for piece in 1..written.len() {
            assert_eq!(parse(2, &written, piece).unwrap(), expected, "pieces of {piece}");
        }
        for cut in HEADER_BYTES + 2..written.len() - 2 {
            // A row may end there.
            let read = parse(2, &written[..cut], 100);
            assert!(read.is_err() || read.unwrap().len() < 3, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_malformed_is_said_in_postgresqls_words() {
        let valid = data(&[], &[]);
        let with = |more: &[u8]| [&valid, more].concat();
        let flagged = {
            let mut flagged = valid.clone();
            flagged[12] = 1;
            flagged
        };
        for (data, message) in [
            (b"1\tx\n".to_vec(), "COPY file signature not recognized"),
            (valid[..5].to_vec(), "COPY file signature not recognized"),
            (valid[..13].to_vec(), "invalid COPY file header (missing flags)"),
            (valid[..17].to_vec(), "invalid COPY file header (missing length)"),
            (flagged, "unrecognized critical flags in COPY file header"),
            (with(&[0, 3]), "row field count is 3, expected 2"),
            (with(&[0x80, 0]), "row field count is -32768, expected 2"),
            (with(&[0, 2, 255, 255, 255, 254]), "invalid field size"),
            (with(&[0, 2, 127, 255, 255, 255]), "a row of COPY data is too long"),
            (with(&[0, 2, 0, 0, 0, 9, 1]), "unexpected EOF in COPY data"),
            (with(&[255, 255, 0]), "received copy data after EOF marker"),
        ] {
            for piece in [1, 1000] {
                let error = parse(2, &data, piece).unwrap_err();
                assert_eq!((error.code().as_str(), error.message()), ("22P04", message));
            }
        }
        assert!(parse(2, &with(&[0]), 1000).unwrap().is_empty());
    }
}
