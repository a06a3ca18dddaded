//! How a transaction ended, as a block's result records it.
//!
//! ```text
//! outcome       kind: 1 | body
//!   0 committed   count: varint, rows: 0 (none) | 1 len bytes (inline) | 2 SHA-256 of them
//!   1 rejected    sqlstate: 5, names
//!   2 retry       sqlstate: 5, names
//!   3 deferred    it runs again in a later block, whose result names this block and index
//!   4 repeat      height: varint, index: varint of the transaction that it is a copy of
//!   5 imaged      images: varint × image | outcome of kind 0, 1, 2 or 4
//!
//! names         which: 1 (bit 0 table, 1 column, 2 constraint), a str for each that there is
//!
//! image         table: varint, 0 (gone) key: bytes | 1 (a row) its image: bytes
//! ```
//!
//! Result rows up to [`INLINE_ROWS_BYTES_MAX`] stand in the outcome itself, so that a receipt shows
//! them; larger results are represented by their hash. An error is its SQLSTATE
//! and the names of what it is about: messages are for people, and a later version may word them
//! better. Row images stand where no serial order
//! explains a block: see [`crate::images`].

use bytes::Bytes;
use concurrency::Outcome;
use types::codec::{decode_bytes, decode_str, decode_u64, encode_bytes, encode_str, encode_u64};
use types::{Error, Key, Origin, Result, TableId};

use super::parts::{corrupt, decode_byte, decode_flag, decode_list, decode_table, encode_rows};

pub const INLINE_ROWS_BYTES_MAX: usize = 256;

/// What an outcome's bytes may be at most, but for images.
pub const OUTCOME_BYTES_MAX: usize = INLINE_ROWS_BYTES_MAX + 32;

/// Bytes of a name that are recorded: those that an identifier can have.
const NAME_BYTES_MAX: usize = 63;

/// A transaction's fate in its block.
#[derive(Clone, Copy, Debug)]
pub enum Fate<'a> {
    Ended(&'a Outcome),
    Deferred,
    Repeat(Origin),
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

impl Fate<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        match self {
            Fate::Ended(outcome) => put_outcome(outcome, &mut out),
            Fate::Deferred => out.push(3),
            Fate::Repeat(Origin { height, index }) => {
                out.push(4);
                encode_u64(*height, &mut out);
                encode_u64(u64::from(*index), &mut out);
            }
        }
        assert!(out.len() <= OUTCOME_BYTES_MAX, "a block's room is reckoned by this");
        out
    }
}

/// An outcome as the block records it.
pub fn encode_outcome(outcome: &Outcome) -> Bytes {
    Fate::Ended(outcome).encode().into()
}

/// Whether a block records that a transaction was committed.
pub fn is_committed(outcome: &[u8]) -> bool {
    outcome.first() == Some(&0)
}

fn put_outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    match outcome {
        Outcome::Committed(result) => {
            out.push(0);
            encode_u64(result.count, out);
            if result.rows.is_empty() {
                return out.push(0);
            }
            let mut rows = Vec::new();
            encode_rows(&result.rows, &mut rows);
            if rows.len() <= INLINE_ROWS_BYTES_MAX {
                out.push(1);
                encode_bytes(&rows, out);
            } else {
                out.push(2);
                out.extend_from_slice(&ledger::merkle::leaf_hash(&rows));
            }
        }
        Outcome::Rejected(error) => put_error(1, error, out),
        Outcome::Retry(error) => put_error(2, error, out),
    }
}

fn put_error(kind: u8, error: &Error, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&error.code().0);
    let fields = error.fields();
    let names = [&fields.table, &fields.column, &fields.constraint];
    out.push((0..).zip(names).map(|(bit, name)| u8::from(name.is_some()) << bit).sum());
    for name in names.into_iter().flatten() {
        encode_str(&name[..name.floor_char_boundary(NAME_BYTES_MAX)], out);
    }
}

/// Puts the images of the rows that a transaction left before its outcome.
pub fn imaged(images: &[RowImage], outcome: &[u8]) -> Bytes {
    debug_assert_ne!(outcome.first(), Some(&5), "images stand before an outcome once");
    let mut out = vec![5];
    encode_u64(images.len() as u64, &mut out);
    images.iter().for_each(|image| image.encode(&mut out));
    out.extend_from_slice(outcome);
    out.into()
}

/// The images that an outcome begins with, and the outcome itself.
pub fn split_images(bytes: &[u8]) -> Result<(Vec<RowImage>, &[u8])> {
    let mut input = bytes;
    if decode_byte(&mut input)? != 5 {
        return Err(corrupt("an outcome without images"));
    }
    let images = decode_list(&mut input, RowImage::decode)?;
    match input.first() {
        Some(0..=2 | 4) => Ok((images, input)),
        _ => Err(corrupt("images of an outcome of unknown kind")),
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

/// An error as it is recorded: its SQLSTATE, and what it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedError {
    pub code: [u8; 5],
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

impl ReportedError {
    /// Nothing follows it.
    fn decode(mut input: &[u8]) -> Result<ReportedError> {
        let input = &mut input;
        let cut = || corrupt("an SQLSTATE of another length");
        let (code, rest) = input.split_first_chunk().ok_or_else(cut)?;
        *input = rest;
        let which = decode_byte(input)?;
        let mut name = |bit: u8| match (which >> bit) & 1 {
            0 => Ok(None),
            _ => decode_str(input).map(|name| Some(name.to_owned())),
        };
        let (table, column, constraint) = (name(0)?, name(1)?, name(2)?);
        let names = [&table, &column, &constraint].into_iter().flatten();
        let too_long = names.map(String::len).any(|bytes| bytes > NAME_BYTES_MAX);
        match which > 7 || too_long || !input.is_empty() {
            true => Err(corrupt("names of an error")),
            false => Ok(ReportedError { code: *code, table, column, constraint }),
        }
    }
}

/// What a recorded outcome says of an error, or of a repeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reported {
    Committed { count: u64 },
    Rejected(ReportedError),
    Retry(ReportedError),
    Deferred,
    Repeat(Origin),
}

impl Reported {
    /// Reads an outcome's kind and what stands in it, but for rows and images.
    pub fn decode(bytes: &[u8]) -> Result<Reported> {
        let mut input = bytes;
        Ok(match decode_byte(&mut input)? {
            0 => Reported::Committed { count: decode_u64(&mut input)? },
            1 => Reported::Rejected(ReportedError::decode(input)?),
            2 => Reported::Retry(ReportedError::decode(input)?),
            3 => Reported::Deferred,
            4 => {
                let height = decode_u64(&mut input)?;
                let index = u32::try_from(decode_u64(&mut input)?);
                let index = index.map_err(|_| corrupt("an index of more than 32 bits"))?;
                Reported::Repeat(Origin { height, index })
            }
            5 => Reported::decode(split_images(bytes)?.1)?,
            _ => return Err(corrupt("an outcome of unknown kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use types::SqlState;

    use super::*;

    #[test]
    fn images_stand_before_their_outcome_and_come_off_again() {
        let images = vec![
            RowImage::Gone { table: TableId(3), key: Key::from(&[1, 2, 3][..]) },
            RowImage::Row { table: TableId(3), image: [0, 0, 0, 0].into() },
        ];
        let outcome = [0, 7, 0];
        let bytes = imaged(&images, &outcome);
        assert_eq!(split_images(&bytes), Ok((images, &outcome[..])));
        assert_eq!(Reported::decode(&bytes), Ok(Reported::Committed { count: 7 }));
        for cut in 0..bytes.len() - outcome.len() {
            assert!(split_images(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn an_error_is_its_sqlstate_and_its_names() {
        let error = |code: SqlState| Error::new(code, "whatever it says").with_hint("nothing");
        let named = error(SqlState::UNIQUE_VIOLATION).with_table("t").with_constraint("t_pkey");
        let bytes = encode_outcome(&Outcome::Rejected(named.clone()));
        let reported = ReportedError {
            code: *b"23505",
            table: Some("t".into()),
            column: None,
            constraint: Some("t_pkey".into()),
        };
        assert_eq!(Reported::decode(&bytes), Ok(Reported::Rejected(reported)));
        let other = encode_outcome(&Outcome::Rejected(named.clone().with_constraint("t_key")));
        assert_ne!(bytes, other);
        let reworded = named.with_detail("other words").with_position(7);
        assert_eq!(bytes, encode_outcome(&Outcome::Rejected(reworded)));
        for cut in 0..bytes.len() {
            assert!(Reported::decode(&bytes[..cut]).is_err());
        }
        let long = "é".repeat(5000);
        let long = error(SqlState::RAISE_EXCEPTION)
            .with_table(&long)
            .with_column(&long)
            .with_constraint(&long);
        let bytes = encode_outcome(&Outcome::Rejected(long));
        assert!(Reported::decode(&bytes).is_ok() && bytes.len() <= OUTCOME_BYTES_MAX);
    }

    #[test]
    fn a_repeat_may_stand_behind_images() {
        let origin = Origin { height: 300, index: 7 };
        let bytes = imaged(&[], &Fate::Repeat(origin).encode());
        assert_eq!(Reported::decode(&bytes), Ok(Reported::Repeat(origin)));
        assert!(split_images(&imaged(&[], &Fate::Deferred.encode())).is_err());
    }

    #[test]
    fn what_is_not_an_end_says_where_to_look() {
        assert_eq!(Reported::decode(&Fate::Deferred.encode()), Ok(Reported::Deferred));
        let origin = Origin { height: 300, index: 7 };
        assert_eq!(Reported::decode(&Fate::Repeat(origin).encode()), Ok(Reported::Repeat(origin)));
        assert!(Reported::decode(&[6]).is_err());
        assert!(Reported::decode(&[]).is_err());
    }
}
