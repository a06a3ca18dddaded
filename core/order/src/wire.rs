//! Helpers for canonical decoding (exact lengths, nothing left over) and for the length of an
//! encoding before it is made; the primitives are [`types::codec`]'s.

use types::{Error, Result, SqlState};

pub fn corrupt(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid ordered bytes: {what}"))
}

pub fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    let (head, rest) = input.split_first_chunk().ok_or_else(|| corrupt("cut short"))?;
    *input = rest;
    Ok(*head)
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
