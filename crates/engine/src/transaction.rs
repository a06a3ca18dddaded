//! Transactions and outcomes as the ledger holds them.
//!
//! A block carries commands, not effects: what was asked, with its arguments. Everything a replica
//! needs to run it again is here, and nothing else. The bytes are canonical (one encoding for each
//! value).
//!
//! ```text
//! transaction   user: str | kind: 1 | body
//!   1 statement   text: str, arguments: values
//!   2 call        procedure: str, arguments: values
//!   3 load        text: str (the COPY), rows: varint × values
//!   4 interactive now: zigzag | schema: varint | rows | ranges
//!                 | writes (kinds 1, 2, 3 and 7, each with what it answered)
//!   5 schema      text: str (DDL)
//!   6 parameter   name: str, value: str
//!   7 statement   text: str, types (`parameter_types`), arguments: values
//!   8 imaged      kind and body of 1 to 4 or 7: what was asked | images ([`crate::images`])
//!
//! image         table: varint, 0 (gone) key: bytes | 1 (a row) its image: bytes
//!
//! outcome       kind: 1 | body
//!   0 committed   count: varint, rows: 0 (none) | 1 len bytes (inline) | 2 SHA-256 of them
//!   1 rejected    sqlstate: 5, message: str
//!   2 retry       sqlstate: 5, message: str
//! ```
//!
//! Messages are cut at `types::error::TEXT_BYTES_MAX` when the outcome is made.
//!
//! `str` is a varint length and UTF-8; `values` is a varint count and tagged values
//! (`types::codec`). Result rows up to [`INLINE_ROWS_BYTES_MAX`] stand in the outcome itself, so
//! that a receipt shows them; larger results are represented by their hash.

use std::ops::Bound;

use bytes::Bytes;
use concurrency::{Outcome, RangeDigest, RangeRequirement, RowRequirement};
use procedure::access::Range;
use types::codec::{
    decode_bytes, decode_i64, decode_str, decode_u64, decode_value, encode_bytes, encode_i64,
    encode_str, encode_u64, encode_value,
};
use types::error::TEXT_BYTES_MAX;
use types::{Error, Key, Result, SqlState, Stamp, TableId, Value};

use crate::parameter_types::ParameterTypes;

pub const INLINE_ROWS_BYTES_MAX: usize = 256;

/// What an outcome's bytes may be at most: an error's message is the longest that it holds.
pub const OUTCOME_BYTES_MAX: usize = TEXT_BYTES_MAX + 64;

/// One transaction of a block, before it is compiled.
#[derive(Clone, PartialEq, Debug)]
pub struct Transaction {
    pub user: String,
    pub body: Body,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    Statement(StatementText),
    Call {
        procedure: String,
        arguments: Vec<Value>,
    },
    Load {
        text: String,
        rows: Vec<Box<[Value]>>,
    },
    Interactive(InteractiveText),
    Schema {
        text: String,
    },
    Parameter {
        name: String,
        value: String,
    },
    /// What was asked, and the rows that it left: see [`crate::images`].
    Imaged {
        asked: Box<Body>,
        images: Vec<RowImage>,
    },
}

/// A row that a transaction left, or took away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowImage {
    Gone {
        table: TableId,
        key: Key,
    },
    /// As the effects hash it.
    Row {
        table: TableId,
        image: Box<[u8]>,
    },
}

/// A statement with its arguments: text as the client sent it, and the types it gave with it.
#[derive(Clone, PartialEq, Debug)]
pub struct StatementText {
    pub text: String,
    pub types: ParameterTypes,
    pub arguments: Vec<Value>,
}

/// The COMMIT of an interactive transaction: `concurrency::Interactive` before its statements are
/// compiled.
#[derive(Clone, PartialEq, Debug)]
pub struct InteractiveText {
    pub now_us: i64,
    /// Schema changes before the transaction began: its keys and its statements mean something
    /// under that schema only.
    pub schema_version: u64,
    pub rows: Vec<RowRequirement>,
    pub ranges: Vec<RangeRequirement>,
    pub writes: Vec<WriteText>,
}

/// A writing statement, call or load, and what it answered the client.
#[derive(Clone, PartialEq, Debug)]
pub struct WriteText {
    pub body: Body,
    pub expected_count: u64,
    pub expected_rows: Vec<Box<[Value]>>,
}

impl Transaction {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        encode_str(&self.user, &mut out);
        self.body.encode(&mut out);
        out.into()
    }

    /// Never panics, whatever the bytes; trailing bytes are an error.
    pub fn decode(bytes: &[u8]) -> Result<Transaction> {
        let mut input = bytes;
        let user = decode_str(&mut input)?.to_owned();
        let body = Body::decode(&mut input)?;
        if !input.is_empty() {
            return Err(corrupt("bytes after a transaction"));
        }
        Ok(Transaction { user, body })
    }

    /// Schema and parameter changes take a block of their own.
    pub fn is_alone(&self) -> bool {
        matches!(self.body, Body::Schema { .. } | Body::Parameter { .. })
    }
}

impl Body {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Body::Statement(StatementText { text, types, arguments }) => {
                // Most statements declare nothing, and pay no byte for it.
                out.push(if types.is_empty() { 1 } else { 7 });
                encode_str(text, out);
                if !types.is_empty() {
                    types.encode(out);
                }
                encode_values(arguments, out);
            }
            Body::Call { procedure, arguments } => {
                out.push(2);
                encode_str(procedure, out);
                encode_values(arguments, out);
            }
            Body::Load { text, rows } => {
                out.push(3);
                encode_str(text, out);
                encode_rows(rows, out);
            }
            Body::Interactive(interactive) => {
                out.push(4);
                interactive.encode(out);
            }
            Body::Schema { text } => {
                out.push(5);
                encode_str(text, out);
            }
            Body::Parameter { name, value } => {
                out.push(6);
                encode_str(name, out);
                encode_str(value, out);
            }
            Body::Imaged { asked, images } => {
                out.push(8);
                asked.encode(out);
                encode_u64(images.len() as u64, out);
                images.iter().for_each(|image| image.encode(out));
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Body> {
        let text = |input: &mut &[u8]| decode_str(input).map(str::to_owned);
        Ok(match decode_byte(input)? {
            1 => Body::Statement(StatementText {
                text: text(input)?,
                types: ParameterTypes::default(),
                arguments: decode_values(input)?,
            }),
            2 => Body::Call { procedure: text(input)?, arguments: decode_values(input)? },
            3 => Body::Load { text: text(input)?, rows: decode_rows(input)? },
            4 => Body::Interactive(InteractiveText::decode(input)?),
            5 => Body::Schema { text: text(input)? },
            6 => Body::Parameter { name: text(input)?, value: text(input)? },
            7 => Body::Statement(StatementText {
                text: text(input)?,
                types: ParameterTypes::decode(input)?,
                arguments: decode_values(input)?,
            }),
            8 => {
                let asked = match input.first() {
                    Some(1..=4 | 7) => Box::new(Body::decode(input)?),
                    _ => return Err(corrupt("images of a transaction of unknown kind")),
                };
                Body::Imaged { asked, images: decode_list(input, RowImage::decode)? }
            }
            _ => return Err(corrupt("a transaction of unknown kind")),
        })
    }

    /// One that may stand within an interactive transaction.
    fn decode_write(input: &mut &[u8]) -> Result<Body> {
        match input.first() {
            Some(1..=3 | 7) => Body::decode(input),
            _ => Err(corrupt("a write of unknown kind")),
        }
    }
}

impl RowImage {
    fn encode(&self, out: &mut Vec<u8>) {
        let (table, kind, bytes) = match self {
            RowImage::Gone { table, key } => (table, 0, key.as_bytes()),
            RowImage::Row { table, image } => (table, 1, &image[..]),
        };
        encode_u64(u64::from(table.0), out);
        out.push(kind);
        encode_bytes(bytes, out);
    }

    fn decode(input: &mut &[u8]) -> Result<RowImage> {
        let table = decode_table(input)?;
        let is_row = decode_flag(input)?;
        let bytes = decode_bytes(input)?;
        Ok(match is_row {
            true => RowImage::Row { table, image: bytes.into() },
            false => RowImage::Gone { table, key: Key::from(bytes) },
        })
    }
}

impl InteractiveText {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_i64(self.now_us, out);
        encode_u64(self.schema_version, out);
        encode_u64(self.rows.len() as u64, out);
        for row in &self.rows {
            encode_u64(u64::from(row.table.0), out);
            encode_bytes(row.key.as_bytes(), out);
            // Heights start at 1, so no stamp is zero.
            encode_u64(row.stamp.map_or(0, |stamp| stamp.0), out);
        }
        encode_u64(self.ranges.len() as u64, out);
        for requirement in &self.ranges {
            encode_range(&requirement.range, out);
            let digest = &requirement.digest;
            encode_u64(digest.rows << 1 | u64::from(digest.stopped), out);
            for lane in digest.lanes() {
                out.extend_from_slice(&lane.to_be_bytes());
            }
        }
        encode_u64(self.writes.len() as u64, out);
        for write in &self.writes {
            write.body.encode(out);
            encode_u64(write.expected_count, out);
            encode_rows(&write.expected_rows, out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<InteractiveText> {
        Ok(InteractiveText {
            now_us: decode_i64(input)?,
            schema_version: decode_u64(input)?,
            rows: decode_list(input, |input| {
                Ok(RowRequirement {
                    table: decode_table(input)?,
                    key: Key::from(decode_bytes(input)?),
                    stamp: match decode_u64(input)? {
                        0 => None,
                        stamp => Some(Stamp(stamp)),
                    },
                })
            })?,
            ranges: decode_list(input, |input| {
                let range = decode_range(input)?;
                let rows = decode_u64(input)?;
                let lanes = [decode_word(input)?, decode_word(input)?];
                let digest = RangeDigest::from_parts(rows >> 1, rows & 1 == 1, lanes);
                Ok(RangeRequirement { range, digest })
            })?,
            writes: decode_list(input, |input| {
                Ok(WriteText {
                    body: Body::decode_write(input)?,
                    expected_count: decode_u64(input)?,
                    expected_rows: decode_rows(input)?,
                })
            })?,
        })
    }
}

/// An outcome as the block records it.
pub fn encode_outcome(outcome: &Outcome) -> Bytes {
    let mut out = Vec::new();
    match outcome {
        Outcome::Committed(result) => {
            out.push(0);
            encode_u64(result.count, &mut out);
            if result.rows.is_empty() {
                out.push(0);
            } else {
                let mut rows = Vec::new();
                encode_rows(&result.rows, &mut rows);
                if rows.len() <= INLINE_ROWS_BYTES_MAX {
                    out.push(1);
                    encode_bytes(&rows, &mut out);
                } else {
                    out.push(2);
                    out.extend_from_slice(&ledger::merkle::leaf_hash(&rows));
                }
            }
        }
        Outcome::Rejected(error) => encode_error(1, error, &mut out),
        Outcome::Retry(error) => encode_error(2, error, &mut out),
    }
    out.into()
}

/// Whether a block records that a transaction was committed.
pub fn is_committed(outcome: &[u8]) -> bool {
    outcome.first() == Some(&0)
}

fn encode_error(kind: u8, error: &Error, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&error.code().0);
    encode_str(error.message(), out);
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid ledger transaction: {what}"))
}

fn encode_values(values: &[Value], out: &mut Vec<u8>) {
    encode_u64(values.len() as u64, out);
    for value in values {
        encode_value(value, out);
    }
}

fn decode_values(input: &mut &[u8]) -> Result<Vec<Value>> {
    decode_list(input, decode_value)
}

fn encode_rows(rows: &[Box<[Value]>], out: &mut Vec<u8>) {
    encode_u64(rows.len() as u64, out);
    for row in rows {
        encode_values(row, out);
    }
}

pub(crate) fn decode_rows(input: &mut &[u8]) -> Result<Vec<Box<[Value]>>> {
    decode_list(input, |input| Ok(decode_values(input)?.into_boxed_slice()))
}

/// A varint count and as many items. Every item takes a byte at least, which bounds the
/// reservation.
fn decode_list<T>(
    input: &mut &[u8],
    mut item: impl FnMut(&mut &[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let count = decode_u64(input)?;
    if count > input.len() as u64 {
        return Err(corrupt("a list longer than its bytes"));
    }
    (0..count).map(|_| item(input)).collect()
}

fn decode_table(input: &mut &[u8]) -> Result<TableId> {
    u32::try_from(decode_u64(input)?).map(TableId).map_err(|_| corrupt("a table number"))
}

fn decode_word(input: &mut &[u8]) -> Result<u64> {
    let (word, rest) = input.split_first_chunk().ok_or_else(|| corrupt("a cut digest"))?;
    *input = rest;
    Ok(u64::from_be_bytes(*word))
}

fn decode_byte(input: &mut &[u8]) -> Result<u8> {
    let (&byte, rest) = input.split_first().ok_or_else(|| corrupt("a missing byte"))?;
    *input = rest;
    Ok(byte)
}

fn decode_flag(input: &mut &[u8]) -> Result<bool> {
    match decode_byte(input)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(corrupt("a flag that is neither 0 nor 1")),
    }
}

fn encode_range(range: &Range, out: &mut Vec<u8>) {
    encode_u64(u64::from(range.table.0), out);
    encode_u64(u64::from(range.index), out);
    out.push(u8::from(range.reverse));
    for bound in [&range.low, &range.high] {
        match bound {
            Bound::Unbounded => out.push(0),
            Bound::Included(key) => {
                out.push(1);
                encode_bytes(key.as_bytes(), out);
            }
            Bound::Excluded(key) => {
                out.push(2);
                encode_bytes(key.as_bytes(), out);
            }
        }
    }
}

fn decode_range(input: &mut &[u8]) -> Result<Range> {
    let table = decode_table(input)?;
    let index = u16::try_from(decode_u64(input)?).map_err(|_| corrupt("an index number"))?;
    let reverse = decode_flag(input)?;
    let mut bound = || {
        Ok(match decode_byte(input)? {
            0 => Bound::Unbounded,
            1 => Bound::Included(Key::from(decode_bytes(input)?)),
            2 => Bound::Excluded(Key::from(decode_bytes(input)?)),
            _ => return Err(corrupt("a bound of unknown kind")),
        })
    };
    Ok(Range { table, index, reverse, low: bound()?, high: bound()? })
}

#[cfg(test)]
mod tests {
    use types::DataType;

    use super::*;

    fn samples() -> Vec<Transaction> {
        let text = "UPDATE t SET a = a + $1";
        let statement = Body::Statement(StatementText {
            text: text.into(),
            types: ParameterTypes::default(),
            arguments: vec![Value::Int(-3), Value::Null],
        });
        let typed = Body::Statement(StatementText {
            text: text.into(),
            types: ParameterTypes::new(&[None, Some(DataType::Numeric(Some((9, 2))))]),
            arguments: vec![Value::Int(-3), Value::Null],
        });
        let load =
            Body::Load { text: "COPY t FROM STDIN".into(), rows: vec![[Value::Int(1)].into()] };
        let (table, key) = (TableId(3), Key::from(&[1, 2, 3][..]));
        let images = vec![
            RowImage::Gone { table, key: key.clone() },
            RowImage::Row { table, image: [0, 0, 0, 0].into() },
        ];
        let bodies = [
            Body::Imaged { asked: Box::new(statement.clone()), images },
            statement.clone(),
            typed.clone(),
            load.clone(),
            Body::Call { procedure: "p".into(), arguments: vec![Value::Bool(true)] },
            Body::Schema { text: "CREATE TABLE t (a int)".into() },
            Body::Parameter { name: "protocol".into(), value: "serial".into() },
            Body::Interactive(InteractiveText {
                now_us: -7,
                schema_version: 300,
                rows: vec![
                    RowRequirement { table: TableId(3), key: key.clone(), stamp: None },
                    RowRequirement {
                        table: TableId(3),
                        key: key.clone(),
                        stamp: Some(Stamp::new(4, 5)),
                    },
                ],
                ranges: vec![RangeRequirement {
                    range: Range {
                        table: TableId(3),
                        index: 1,
                        low: Bound::Excluded(key),
                        high: Bound::Unbounded,
                        reverse: true,
                    },
                    digest: RangeDigest::from_parts(9, true, [1, u64::MAX]),
                }],
                writes: [statement, typed, load]
                    .map(|body| WriteText {
                        body,
                        expected_count: 2,
                        expected_rows: vec![[Value::Int(8)].into()],
                    })
                    .into(),
            }),
        ];
        bodies.map(|body| Transaction { user: "tally".into(), body }).into()
    }

    #[test]
    fn every_kind_round_trips() {
        for transaction in samples() {
            assert_eq!(Transaction::decode(&transaction.encode()), Ok(transaction));
        }
    }

    #[test]
    fn cut_or_changed_bytes_never_panic_and_never_pass_as_the_same() {
        for transaction in samples() {
            let bytes = transaction.encode();
            for cut in 0..bytes.len() {
                assert!(Transaction::decode(&bytes[..cut]).is_err());
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.to_vec();
                    changed[at] ^= 1 << bit;
                    assert_ne!(Transaction::decode(&changed).as_ref(), Ok(&transaction));
                }
            }
        }
    }
}
