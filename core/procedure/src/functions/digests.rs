//! Digests of texts and bytes: `md5`, `sha224` to `sha512`, and pgcrypto's `digest` and `hmac`.

use std::borrow::Cow;

use hmac::digest::Digest;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use types::{Error, Result, Value};

use super::arguments::{invalid, nth};
use super::function::Function;
use super::strings::{PIECE_BYTES, hex};
use crate::meter::Meter;

pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    let bytes = |n: usize| bytes_of(nth(arguments, n));
    let algorithm = |n: usize| nth(arguments, n).as_text().unwrap_or("").to_ascii_lowercase();
    let first = bytes(0);
    match function {
        Function::Md5 => hex(&digest::<Md5>(first, meter)?, meter).map(Value::from),
        Function::Sha224 => digest::<Sha224>(first, meter).map(Value::from),
        Function::Sha256 => digest::<Sha256>(first, meter).map(Value::from),
        Function::Sha384 => digest::<Sha384>(first, meter).map(Value::from),
        Function::Sha512 => digest::<Sha512>(first, meter).map(Value::from),
        Function::Digest => match algorithm(1).as_str() {
            "md5" => digest::<Md5>(first, meter),
            "sha1" => digest::<Sha1>(first, meter),
            "sha224" => digest::<Sha224>(first, meter),
            "sha256" => digest::<Sha256>(first, meter),
            "sha384" => digest::<Sha384>(first, meter),
            "sha512" => digest::<Sha512>(first, meter),
            other => return Err(unknown(other)),
        }
        .map(Value::from),
        _ => match algorithm(2).as_str() {
            "md5" => keyed::<Hmac<Md5>>(first, bytes(1), meter),
            "sha1" => keyed::<Hmac<Sha1>>(first, bytes(1), meter),
            "sha224" => keyed::<Hmac<Sha224>>(first, bytes(1), meter),
            "sha256" => keyed::<Hmac<Sha256>>(first, bytes(1), meter),
            "sha384" => keyed::<Hmac<Sha384>>(first, bytes(1), meter),
            "sha512" => keyed::<Hmac<Sha512>>(first, bytes(1), meter),
            other => return Err(unknown(other)),
        }
        .map(Value::from),
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        value => value.as_text().unwrap_or("").as_bytes(),
    }
}

fn unknown(algorithm: &str) -> Error {
    invalid(format!("Cannot use \"{algorithm}\": No such hash algorithm"))
}

fn digest<D: Digest>(bytes: &[u8], meter: &Meter) -> Result<Vec<u8>> {
    let mut digest = D::new();
    for piece in bytes.chunks(PIECE_BYTES) {
        meter.check()?;
        digest.update(piece);
    }
    Ok(digest.finalize().to_vec())
}

fn keyed<M: Mac + KeyInit>(bytes: &[u8], key: &[u8], meter: &Meter) -> Result<Vec<u8>> {
    let keyed = <M as KeyInit>::new_from_slice(key);
    let mut keyed = keyed.map_err(|_| invalid("a key of this length is none"))?;
    for piece in bytes.chunks(PIECE_BYTES) {
        meter.check()?;
        keyed.update(piece);
    }
    Ok(keyed.finalize().into_bytes().to_vec())
}
