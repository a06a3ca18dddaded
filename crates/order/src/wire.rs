//! Strict reading beyond [`types::codec`], and how long what is written will be.

use types::codec::decode_u64;
use types::{Error, Result, SqlState};

pub fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid ordered bytes: {what}"))
}

pub fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    let (head, rest) = input.split_first_chunk().ok_or_else(|| corrupt("cut short"))?;
    *input = rest;
    Ok(*head)
}

/// A count of things that take `each_bytes_min` or more: it cannot reserve more than the input.
pub fn count(input: &mut &[u8], each_bytes_min: usize, count_max: usize) -> Result<usize> {
    let count = usize::try_from(decode_u64(input)?).unwrap_or(usize::MAX);
    if count > count_max || count > input.len() / each_bytes_min {
        return Err(corrupt("a count beyond its bound"));
    }
    Ok(count)
}

pub fn finish(rest: &[u8]) -> Result<()> {
    match rest.len() {
        0 => Ok(()),
        left => Err(corrupt(&format!("{left} bytes left over"))),
    }
}

pub fn u64_bytes(number: u64) -> usize {
    let bits = (u64::BITS - number.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

pub fn i64_bytes(number: i64) -> usize {
    u64_bytes(((number << 1) ^ (number >> 63)) as u64)
}

pub fn string_bytes(length: usize) -> usize {
    u64_bytes(length as u64) + length
}
