//! Records: one row as a block left it.
//!
//! ```text
//! table: varint | slot: varint | key: length, bytes | writer: varint | image: length, bytes
//!                 physical only                       0: the row is gone, and there is no image;
//!                                                     else the transaction's position plus one
//! ```
//!
//! The image is `pgbinary-v1`, the encoding that the ledger hashes. The height is the epoch's.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use storage::{Change, Changes, Slot};
use types::codec::{decode_bytes, decode_u64, encode_bytes, encode_u64};
use types::row::decode_row;
use types::{Error, Height, Key, Position, Result, SqlState, Stamp, TableId, TableSchema, Value};

use super::Scheme;

/// A decoded record; its image is decoded when it is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Record<'b> {
    pub table: TableId,
    /// `None` in a logical record.
    pub slot: Option<Slot>,
    pub key: Key,
    /// Who wrote the row, and the row; `None`: it is gone.
    pub row: Option<(Position, &'b [u8])>,
}

impl Scheme {
    /// The records of a block, handed out to `streams`: a transaction's rows stay together, rows
    /// that are gone go by their keys.
    pub fn encode(self, changes: &Changes, streams: &mut [Vec<u8>]) -> Result<()> {
        self.encode_those(changes, &|_| true, streams)
    }

    /// The same of rows whose last writer is `wanted`, and of those that are gone.
    pub fn encode_those(
        self,
        changes: &Changes,
        wanted: &dyn Fn(Position) -> bool,
        streams: &mut [Vec<u8>],
    ) -> Result<()> {
        let mut image = Vec::new();
        for change in changes.touched() {
            image.clear();
            let stamp = change.after_image(&mut image)?;
            if stamp.is_some_and(|stamp| !wanted(stamp.position())) {
                continue;
            }
            let place = match stamp {
                Some(stamp) => u64::from(stamp.position()),
                None => spread(change.key()),
            };
            let stream = (place % streams.len().max(1) as u64) as usize;
            if let Some(out) = streams.get_mut(stream) {
                self.encode_one(change, stamp, &image, out);
            }
        }
        Ok(())
    }

    fn encode_one(self, change: &Change, stamp: Option<Stamp>, image: &[u8], out: &mut Vec<u8>) {
        encode_u64(change.table().0.into(), out);
        if self == Scheme::Physical {
            encode_u64(change.slot().0.into(), out);
        }
        encode_bytes(change.key().as_bytes(), out);
        match stamp {
            None => encode_u64(0, out),
            Some(stamp) => {
                encode_u64(u64::from(stamp.position()) + 1, out);
                encode_bytes(image, out);
            }
        }
    }

    /// Takes the next record from the front of `input`. Never panics, whatever the bytes.
    pub fn decode<'b>(self, input: &mut &'b [u8]) -> Result<Record<'b>> {
        let number = |input: &mut &'b [u8]| -> Result<u32> {
            u32::try_from(decode_u64(input)?).map_err(|_| corrupt("a number is too large"))
        };
        let table = TableId(number(input)?);
        let slot = match self {
            Scheme::Physical => Some(Slot(number(input)?)),
            Scheme::Logical => None,
        };
        let key = Key::from(decode_bytes(input)?);
        let row = match number(input)?.checked_sub(1) {
            None => None,
            Some(position) if position > Stamp::POSITIONS_MAX => {
                return Err(corrupt("a position is too large"));
            }
            Some(position) => Some((position, decode_bytes(input)?)),
        };
        Ok(Record { table, slot, key, row })
    }
}

impl Record<'_> {
    /// Which of so many workers a row belongs to: the same one for all images of it.
    pub fn owner(&self, workers: usize) -> usize {
        (spread(&self.key) >> 10 ^ u64::from(self.table.0)) as usize % workers.max(1)
    }

    pub fn stamp(&self, height: Height) -> Stamp {
        Stamp::new(height, self.row.map_or(0, |(position, _)| position))
    }

    pub fn values(&self, schema: &TableSchema) -> Result<Option<Vec<Value>>> {
        self.row.map(|(_, image)| decode_row(&schema.columns, image)).transpose()
    }
}

/// A number that spreads keys evenly.
pub(super) fn spread(key: &Key) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key.as_bytes());
    let hash = hasher.finish();
    hash ^ hash >> 32
}

fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid log record: {what}"))
}
