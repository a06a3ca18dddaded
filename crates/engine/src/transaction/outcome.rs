//! How a transaction ended, as a block's result records it.
//!
//! ```text
//! outcome       kind: 1 | body
//!   0 committed   count: varint, rows: 0 (none) | 1 len bytes (inline) | 2 SHA-256 of them
//!   1 rejected    sqlstate: 5
//!   2 retry       sqlstate: 5
//!   3 deferred    it runs again in a later block, whose result names this block and index
//!   4 repeat      height: varint, index: varint of the transaction that it is a copy of
//!   5 imaged      images: varint × image | outcome of kind 0, 1, 2 or 4
//!
//! image         table: varint, 0 (gone) key: bytes | 1 (a row) its image: bytes
//! ```
//!
//! Result rows up to [`INLINE_ROWS_BYTES_MAX`] stand in the outcome itself, so that a receipt shows
//! them; larger results are represented by their hash. An error is its SQLSTATE: messages are for
//! people, and a later version may word them better. Row images stand where no serial order
//! explains a block: see [`crate::images`].

use bytes::Bytes;
use concurrency::Outcome;
use types::codec::{decode_bytes, decode_u64, encode_bytes, encode_u64};
use types::{Error, Key, Origin, Result, TableId};

use super::{corrupt, decode_byte, decode_flag, decode_list, decode_table, encode_rows};

pub const INLINE_ROWS_BYTES_MAX: usize = 256;

/// What an outcome's bytes may be at most, but for images.
pub const OUTCOME_BYTES_MAX: usize = INLINE_ROWS_BYTES_MAX + 32;

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
}

/// Puts the images of the rows that a transaction left before its outcome.
pub fn imaged(images: &[RowImage], outcome: &[u8]) -> Bytes {
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

/// What a recorded outcome says of an error, or of a repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    Committed { count: u64 },
    Rejected([u8; 5]),
    Retry([u8; 5]),
    Deferred,
    Repeat(Origin),
}

impl Told {
    /// Reads an outcome's kind and what stands in it, but for rows and images.
    pub fn decode(bytes: &[u8]) -> Result<Told> {
        let mut input = bytes;
        let code = |input: &[u8]| {
            let code = <[u8; 5]>::try_from(input);
            code.map_err(|_| corrupt("an SQLSTATE of another length"))
        };
        Ok(match decode_byte(&mut input)? {
            0 => Told::Committed { count: decode_u64(&mut input)? },
            1 => Told::Rejected(code(input)?),
            2 => Told::Retry(code(input)?),
            3 => Told::Deferred,
            4 => {
                let height = decode_u64(&mut input)?;
                let index = u32::try_from(decode_u64(&mut input)?);
                let index = index.map_err(|_| corrupt("an index of more than 32 bits"))?;
                Told::Repeat(Origin { height, index })
            }
            5 => Told::decode(split_images(bytes)?.1)?,
            _ => return Err(corrupt("an outcome of unknown kind")),
        })
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(Told::decode(&bytes), Ok(Told::Committed { count: 7 }));
        for cut in 0..bytes.len() - outcome.len() {
            assert!(split_images(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn a_repeat_may_stand_behind_images() {
        let origin = Origin { height: 300, index: 7 };
        let bytes = imaged(&[], &Fate::Repeat(origin).encode());
        assert_eq!(Told::decode(&bytes), Ok(Told::Repeat(origin)));
        assert!(split_images(&imaged(&[], &Fate::Deferred.encode())).is_err());
    }

    #[test]
    fn what_is_not_an_end_says_where_to_look() {
        assert_eq!(Told::decode(&Fate::Deferred.encode()), Ok(Told::Deferred));
        let origin = Origin { height: 300, index: 7 };
        assert_eq!(Told::decode(&Fate::Repeat(origin).encode()), Ok(Told::Repeat(origin)));
        assert!(Told::decode(&[6]).is_err());
        assert!(Told::decode(&[]).is_err());
    }
}
