//! SHA-256, the domain tags that keep one kind of hashed bytes from passing for another, and hex.
//!
//! Every tag is 16 bytes, NUL-padded, so that no tag is a prefix of another one.

use sha2::{Digest, Sha256};
use types::{Error, Result, SqlState};

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// Stands where there is nothing to hash: genesis has no predecessor, an inserted row no
/// before-image.
pub const ZERO_HASH: Hash = [0; 32];

pub type Tag = [u8; 16];

pub(crate) const TAG_ORDER: &Tag = b"tally order v2\0\0";
pub(crate) const TAG_RESULT: &Tag = b"tally result v2\0";
pub(crate) const TAG_PARAMETERS: &Tag = b"tally params v1\0";
pub(crate) const TAG_ROW_IMAGE: &Tag = b"tally row v1\0\0\0\0";
pub(crate) const TAG_GENESIS: &Tag = b"tally genesis v2";
pub(crate) const TAG_STATE: &Tag = b"tally state v2\0\0";
pub(crate) const TAG_CHECKPOINT: &Tag = b"tally ckpt v2\0\0\0";
pub(crate) const TAG_VOTE: &Tag = b"tally vote v1\0\0\0";
pub(crate) const TAG_ELECTORS: &Tag = b"tally elect v1\0\0";
pub(crate) const TAG_HEADERS: &Tag = b"tally heads v2\0\0";

pub fn tagged_hash(tag: &Tag, bytes: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(tag);
    hasher.update(bytes);
    hasher.finalize().into()
}

/// Lower-case hexadecimal, the only text form of bytes that this crate writes or reads.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The inverse of [`to_hex`]. Upper case is refused: one value has one text.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes.filter(|_| rest.is_empty()).ok_or_else(|| {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid hexadecimal text")
            .with_hint("An even number of digits 0-9 and a-f in lower case is expected.")
    })
}

/// A hash in hexadecimal, 64 digits.
pub fn hash_from_hex(text: &str) -> Result<Hash> {
    from_hex(text)?.try_into().map_err(|bytes: Vec<u8>| {
        Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("a hash has 32 bytes, not {}", bytes.len()),
        )
    })
}

/// Refuses a proof whose hash is not the one that it must be.
pub(crate) fn expect_hash(what: &str, expected: &Hash, found: &Hash) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (to_hex(expected), to_hex(found));
    Err(refused(format!("{what}: expected {expected}, found {found}")))
}

/// A proof that proves nothing.
pub(crate) fn refused(detail: String) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "the receipt does not verify").with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_is_strict() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)).unwrap(), bytes);
        for bad in ["0", "0g", "AB", " 00", "é"] {
            assert!(from_hex(bad).is_err(), "{bad:?}");
        }
        assert!(hash_from_hex("00").is_err());
    }
}
