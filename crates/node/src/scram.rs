//! SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677) in PostgreSQL's own form,
//! `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, so that a verifier can be carried over.
//!
//! Only the making of one is here; the exchange belongs to the PostgreSQL front. Passwords are
//! taken as they are: SASLprep changes nothing in ASCII, and PostgreSQL too falls back to the raw
//! bytes.

use sha2::{Digest, Sha256};

pub const SALT_BYTES: usize = 16;
pub const ITERATIONS: u32 = 4096;

pub fn verifier(password: &str, salt: &[u8], iterations: u32) -> String {
    let salted = pbkdf2(password.as_bytes(), salt, iterations);
    let stored_key: [u8; 32] = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
    let server_key = hmac(&salted, &[b"Server Key"]);
    format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        base64(salt),
        base64(&stored_key),
        base64(&server_key)
    )
}

/// PBKDF2 (RFC 8018) with HMAC-SHA-256 and one block of output.
fn pbkdf2(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut last = hmac(password, &[salt, &1u32.to_be_bytes()]);
    let mut sum = last;
    for _ in 1..iterations {
        last = hmac(password, &[&last]);
        sum.iter_mut().zip(last).for_each(|(s, l)| *s ^= l);
    }
    sum
}

/// HMAC (RFC 2104) with SHA-256.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Base64 (RFC 4648) with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0u32, |group, i| {
            group << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { digit.into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// RFC 4231, cases 2 and 6 (a key longer than a block).
    #[test]
    fn hmac_as_in_rfc_4231() {
        let tag = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(tag[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hmac(&[0xaa; 131], &[text])[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    /// The exchange of RFC 7677, section 3: with the verifier for `pencil`, the server's signature
    /// over that exchange is the one that the RFC prints.
    #[test]
    fn the_verifier_gives_the_server_signature_of_rfc_7677() {
        let salt = [
            0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36,
            0xfa, 0x81,
        ];
        assert_eq!(base64(&salt), "W22ZaJ0SNY7soEsUEjb6gQ==");
        let server_key = hmac(&pbkdf2(b"pencil", &salt, 4096), &[b"Server Key"]);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={},i=4096,c=biws,r={nonce}",
            base64(&salt)
        );
        assert_eq!(
            base64(&hmac(&server_key, &[exchange.as_bytes()])),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
        assert!(verifier("pencil", &salt, 4096).ends_with(&base64(&server_key)));
    }
}
