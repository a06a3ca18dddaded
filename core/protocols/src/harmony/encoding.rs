//! The bytes of what Harmony carries from block to block; [`previous`](super::previous) has their
//! layout.

use std::ops::Bound;

use concurrency::{CarriedState, RecordId};
use procedure::access::Range;
use types::codec::{
    decode_bytes, decode_u64, decode_value, encode_bytes, encode_u64, encode_value,
};
use types::{ColumnId, Error, Height, IndexId, Key, Position, Result, SqlState, TableId};

use super::footmark::{After, Footmark};
use super::previous::{Previous, Rank, order_of};
use super::simulation::RecordKey;

const EXISTED: u8 = 1;
const GONE: u8 = 0;
const PUT: u8 = 2;
const UPDATED: u8 = 4;

impl CarriedState for Previous {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_u64(self.height, out);
        encode_u64(self.order.len() as u64, out);
        for &(position, overtook) in &self.order {
            encode_u64(u64::from(position) << 1 | u64::from(overtook), out);
        }
        encode_readers(self, out);
        encode_u64(self.writes.len() as u64, out);
        self.writes.iter().for_each(|(rank, write)| encode_write(*rank, write, out));
        encode_u64(self.ranges.len() as u64, out);
        self.ranges.iter().for_each(|(rank, range)| encode_range(*rank, range, out));
    }
}

fn encode_readers(previous: &Previous, out: &mut Vec<u8>) {
    let read = previous.readers().into_iter().filter_map(|(key, marks)| {
        let value_reader = marks.last_value_reader();
        marks.last_reader().map(|reader| (key, reader, value_reader))
    });
    let mut readers: Vec<(RecordKey, Rank, Option<Rank>)> = read.collect();
    readers.sort_unstable_by_key(|(key, ..)| *key);
    encode_u64(readers.len() as u64, out);
    for ((table, record), reader, of_value) in readers {
        encode_u64(u64::from(table.0), out);
        out.extend_from_slice(&record.0.to_be_bytes());
        encode_u64(u64::from(reader), out);
        encode_u64(of_value.map_or(0, |of_value| u64::from(of_value) + 1), out);
    }
}

fn encode_write(rank: Rank, write: &Footmark, out: &mut Vec<u8>) {
    encode_u64(u64::from(rank), out);
    encode_u64(u64::from(write.table.0), out);
    encode_bytes(write.key.as_bytes(), out);
    let existed = if write.existed { EXISTED } else { 0 };
    match &write.after {
        After::Gone => out.push(existed | GONE),
        After::Put(values) => {
            out.push(existed | PUT);
            encode_u64(values.len() as u64, out);
            for (column, value) in values {
                encode_u64(u64::from(*column), out);
                encode_value(value, out);
            }
        }
        After::Updated(columns) => {
            out.push(existed | UPDATED);
            encode_u64(columns.len() as u64, out);
            columns.iter().for_each(|column| encode_u64(u64::from(*column), out));
        }
    }
}

fn encode_range(rank: Rank, range: &Range, out: &mut Vec<u8>) {
    encode_u64(u64::from(rank), out);
    encode_u64(u64::from(range.table.0), out);
    encode_u64(u64::from(range.index), out);
    for bound in [&range.low, &range.high] {
        let (kind, key) = match bound {
            Bound::Unbounded => (0, None),
            Bound::Included(key) => (1, Some(key)),
            Bound::Excluded(key) => (2, Some(key)),
        };
        out.push(kind);
        key.into_iter().for_each(|key| encode_bytes(key.as_bytes(), out));
    }
}

fn corrupt(what: &str) -> Error {
    let message = format!("invalid state carried over by \"harmony\": {what}");
    Error::new(SqlState::DATA_CORRUPTED, message)
}

impl Previous {
    /// The strict inverse of encoding.
    pub fn decode(bytes: &[u8]) -> Result<Previous> {
        let input = &mut &*bytes;
        let height: Height = decode_u64(input)?;
        let mut previous = Previous::new(height, decode_order(input)?);
        decode_readers(input, &mut previous)?;
        decode_writes(input, &mut previous)?;
        decode_ranges(input, &mut previous)?;
        match input {
            [] => Ok(previous),
            _ => Err(corrupt("more bytes than it has")),
        }
    }
}

/// How many items follow; each takes a byte at least, so a false count reserves little.
fn decode_count(input: &mut &[u8]) -> Result<usize> {
    let count = usize::try_from(decode_u64(input)?).unwrap_or(usize::MAX);
    if count > input.len() { Err(corrupt("cut short")) } else { Ok(count) }
}

fn decode_small<T: TryFrom<u64>>(input: &mut &[u8]) -> Result<T> {
    T::try_from(decode_u64(input)?).map_err(|_| corrupt("a number out of range"))
}

fn decode_byte(input: &mut &[u8]) -> Result<u8> {
    let (&byte, rest) = input.split_first().ok_or_else(|| corrupt("cut short"))?;
    *input = rest;
    Ok(byte)
}

fn decode_key(input: &mut &[u8]) -> Result<Key> {
    Ok(Key::from(decode_bytes(input)?))
}

fn decode_rank(input: &mut &[u8], previous: &Previous) -> Result<Rank> {
    let rank: Rank = decode_small(input)?;
    let is_there = (rank as usize) < previous.order.len();
    if is_there { Ok(rank) } else { Err(corrupt("a place that is not there")) }
}

fn decode_order(input: &mut &[u8]) -> Result<Vec<(Position, bool)>> {
    let count = decode_count(input)?;
    let mut order = Vec::with_capacity(count);
    for _ in 0..count {
        let word = decode_u64(input)?;
        let position = Position::try_from(word >> 1).map_err(|_| corrupt("a position"))?;
        order.push((position, word & 1 == 1));
    }
    let mut positions: Vec<Position> = order.iter().map(|(position, _)| *position).collect();
    positions.sort_unstable();
    match positions.is_sorted_by(|a, b| a < b) {
        true => Ok(order),
        false => Err(corrupt("a transaction with two places")),
    }
}

fn decode_readers(input: &mut &[u8], previous: &mut Previous) -> Result<()> {
    let mut last = None;
    for _ in 0..decode_count(input)? {
        let table = TableId(decode_small(input)?);
        let (record, rest) = input.split_first_chunk().ok_or_else(|| corrupt("cut short"))?;
        *input = rest;
        let key = (table, RecordId(u64::from_be_bytes(*record)));
        if last.replace(key).is_some_and(|last| last >= key) {
            return Err(corrupt("records that do not ascend"));
        }
        let reader = decode_rank(input, previous)?;
        previous.read(reader, key, false);
        let of_value: u64 = decode_u64(input)?;
        if of_value > u64::from(reader) + 1 {
            return Err(corrupt("a last reader that is not the last"));
        }
        if let Some(of_value) = of_value.checked_sub(1) {
            previous.read(of_value as Rank, key, true);
        }
    }
    Ok(())
}

fn decode_writes(input: &mut &[u8], previous: &mut Previous) -> Result<()> {
    for _ in 0..decode_count(input)? {
        let rank = decode_rank(input, previous)?;
        let (table, key) = (TableId(decode_small(input)?), decode_key(input)?);
        let flags = decode_byte(input)?;
        let after = match flags & !EXISTED {
            GONE => After::Gone,
            PUT => After::Put(decode_columns(input, decode_value)?),
            UPDATED => {
                let columns = decode_columns(input, |_| Ok(()))?;
                After::Updated(columns.into_iter().map(|(column, ())| column).collect())
            }
            _ => return Err(corrupt("an unknown kind of write")),
        };
        if let Some((last, write)) = previous.writes.last()
            && (*last, write.table, &write.key) >= (rank, table, &key)
        {
            return Err(corrupt("writes that do not ascend"));
        }
        previous.write(rank, Footmark { table, key, existed: flags & EXISTED != 0, after });
    }
    Ok(())
}

fn decode_columns<T>(
    input: &mut &[u8],
    mut with: impl FnMut(&mut &[u8]) -> Result<T>,
) -> Result<Box<[(ColumnId, T)]>> {
    let count = decode_count(input)?;
    let mut columns: Vec<(ColumnId, T)> = Vec::new();
    for _ in 0..count {
        let column = decode_small(input)?;
        if columns.last().is_some_and(|(last, _)| *last >= column) {
            return Err(corrupt("columns that do not ascend"));
        }
        columns.push((column, with(input)?));
    }
    Ok(columns.into())
}

fn decode_ranges(input: &mut &[u8], previous: &mut Previous) -> Result<()> {
    for _ in 0..decode_count(input)? {
        let rank = decode_rank(input, previous)?;
        let table = TableId(decode_small(input)?);
        let index: IndexId = decode_small(input)?;
        let (low, high) = (decode_bound(input)?, decode_bound(input)?);
        let range = Range { table, index, low, high, reverse: false };
        if let Some((last, before)) = previous.ranges.last()
            && (*last, order_of(before)) >= (rank, order_of(&range))
        {
            return Err(corrupt("ranges that do not ascend"));
        }
        previous.ranges.push((rank, range));
    }
    Ok(())
}

fn decode_bound(input: &mut &[u8]) -> Result<Bound<Key>> {
    match decode_byte(input)? {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(decode_key(input)?)),
        2 => Ok(Bound::Excluded(decode_key(input)?)),
        _ => Err(corrupt("an unknown kind of bound")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Value;

    fn range(low: Bound<Key>, high: Bound<Key>) -> Range {
        Range { table: TableId(3), index: 1, low, high, reverse: false }
    }

    /// Two transactions: the second overtook, put a row and updated another, and scanned.
    fn state() -> Previous {
        let mut previous = Previous::new(300, vec![(1, true), (0, false)]);
        previous.read(0, (TableId(3), RecordId(5)), true);
        previous.read(1, (TableId(3), RecordId(5)), false);
        let key = |byte: u8| Key::from(&[byte][..]);
        let after = After::Put([(2, Value::Int(1))].into());
        previous.write(0, Footmark { table: TableId(3), key: key(7), existed: false, after });
        let after = After::Updated([2].into());
        previous.write(1, Footmark { table: TableId(3), key: key(8), existed: true, after });
        let scanned = range(Bound::Included(key(7)), Bound::Unbounded);
        previous.ranges.push((1, scanned));
        previous
    }

    fn bytes(previous: &Previous) -> Vec<u8> {
        let mut out = Vec::new();
        previous.encode(&mut out);
        out
    }

    /// They are hashed, so they change on purpose only.
    #[test]
    fn the_bytes_are_those_of_the_layout() {
        let order = [0xac, 2, 2, 3, 0];
        let readers = [1, 3, 0, 0, 0, 0, 0, 0, 0, 5, 1, 1];
        let put = [0, 3, 1, 7, PUT, 1, 2, 3, 2];
        let updated = [1, 3, 1, 8, EXISTED | UPDATED, 1, 2];
        let ranges = [1, 1, 3, 1, 1, 1, 7, 0];
        let parts: [&[u8]; 6] = [&order, &readers, &[2], &put, &updated, &ranges];
        assert_eq!(bytes(&state()), parts.concat());
        let decoded = Previous::decode(&parts.concat()).unwrap();
        assert_eq!(bytes(&decoded), parts.concat());
    }

    /// A record is the hash of its key, which is part of the format.
    #[test]
    fn the_hash_of_a_key_stays() {
        let hashes = [0, 1, -1].map(|number| RecordId::of(None, &Key::from_int(number)).0);
        let known = [4188210431656861281, 7523691584843031813, 3647778036087921785];
        assert_eq!(hashes, known);
    }

    #[test]
    fn what_does_not_ascend_or_is_not_there_is_refused() {
        let whole = bytes(&state());
        assert!((0..whole.len()).all(|end| Previous::decode(&whole[..end]).is_err()));
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            Previous::decode(&bytes)
        };
        // The same transaction twice, a reader of the value after the last one, no such rank.
        assert!(with(4, 2).is_err() && with(16, 3).is_err() && with(15, 2).is_err());
        // Two writes at one place of one key.
        assert!(with(27, 0).is_ok() && with(27, 2).is_err());
        assert!(Previous::decode(&[&whole[..], &[0]].concat()).is_err());
    }
}
