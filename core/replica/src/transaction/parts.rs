//! The bytes of what transactions and their outcomes are made of.

use std::ops::Bound;

use concurrency::RowRequirement;
use procedure::access::Range;
use types::codec::{
    decode_bytes, decode_u64, decode_value, encode_bytes, encode_u64, encode_value,
};
use types::{Error, Key, Result, SqlState, Stamp, TableId, Value};

pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid ledger transaction: {what}"))
}

pub(crate) fn encode_values(values: &[Value], out: &mut Vec<u8>) {
    encode_u64(values.len() as u64, out);
    for value in values {
        encode_value(value, out);
    }
}

pub(crate) fn decode_values(input: &mut &[u8]) -> Result<Vec<Value>> {
    decode_list(input, decode_value)
}

pub(crate) fn encode_rows(rows: &[Box<[Value]>], out: &mut Vec<u8>) {
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
pub(crate) fn decode_list<T>(
    input: &mut &[u8],
    mut item: impl FnMut(&mut &[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let count = decode_u64(input)?;
    if count > input.len() as u64 {
        return Err(corrupt("a list longer than its bytes"));
    }
    (0..count).map(|_| item(input)).collect()
}

pub(crate) fn decode_table(input: &mut &[u8]) -> Result<TableId> {
    u32::try_from(decode_u64(input)?).map(TableId).map_err(|_| corrupt("a table number"))
}

pub(crate) fn decode_word(input: &mut &[u8]) -> Result<u64> {
    let (word, rest) = input.split_first_chunk().ok_or_else(|| corrupt("a cut digest"))?;
    *input = rest;
    Ok(u64::from_be_bytes(*word))
}

pub(crate) fn decode_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    let cut = || corrupt("a request that is cut");
    let (array, rest) = input.split_first_chunk().ok_or_else(cut)?;
    *input = rest;
    Ok(*array)
}

pub(crate) fn decode_byte(input: &mut &[u8]) -> Result<u8> {
    let (&byte, rest) = input.split_first().ok_or_else(|| corrupt("a missing byte"))?;
    *input = rest;
    Ok(byte)
}

pub(crate) fn decode_flag(input: &mut &[u8]) -> Result<bool> {
    match decode_byte(input)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(corrupt("a flag that is neither 0 nor 1")),
    }
}

pub(crate) fn encode_row_read(row: &RowRequirement, out: &mut Vec<u8>) {
    encode_u64(u64::from(row.table.0), out);
    encode_bytes(row.key.as_bytes(), out);
    // Heights start at 1, so no stamp is zero.
    encode_u64(row.stamp.map_or(0, |stamp| stamp.0), out);
}

pub(crate) fn decode_row_read(input: &mut &[u8]) -> Result<RowRequirement> {
    Ok(RowRequirement {
        table: decode_table(input)?,
        key: Key::from(decode_bytes(input)?),
        stamp: match decode_u64(input)? {
            0 => None,
            stamp => Some(Stamp(stamp)),
        },
    })
}

pub(crate) fn encode_range(range: &Range, out: &mut Vec<u8>) {
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

pub(crate) fn decode_range(input: &mut &[u8]) -> Result<Range> {
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
