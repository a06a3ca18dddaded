//! Who may connect: the password file.
//!
//! One `user:verifier` a line; empty lines and lines that begin with `#` do not count. A verifier
//! is written in PostgreSQL's own form (as in its `pg_authid`), so that it can be carried over:
//!
//! ```text
//! SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>        (base64, RFC 4648)
//! ```
//!
//! Without a file, whoever comes from the same machine (loopback, the Unix-domain socket) is
//! trusted, and nobody else is admitted. With one, everybody proves who they are, wherever they
//! come from.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use pgfront::{Authentication, Peer, Verifier};

const MECHANISM: &str = "SCRAM-SHA-256$";

/// The users of a node.
#[derive(Clone, Debug, Default)]
pub struct Users(Option<BTreeMap<String, Verifier>>);

impl Users {
    pub fn read(file: Option<&Path>) -> Result<Users> {
        let Some(file) = file else {
            return Ok(Users(None));
        };
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let users = parse_users(&text).with_context(|| file.display().to_string())?;
        Ok(Users(Some(users)))
    }

    /// How `user`, who comes from `peer`, has to prove who they are.
    pub fn authentication(&self, user: &str, peer: Peer) -> Authentication {
        match &self.0 {
            None if peer.is_local() => Authentication::Trust,
            None => Authentication::Unknown,
            Some(users) => match users.get(user) {
                Some(verifier) => Authentication::ScramSha256(verifier.clone()),
                None => Authentication::Unknown,
            },
        }
    }
}

fn parse_users(text: &str) -> Result<BTreeMap<String, Verifier>> {
    let mut users = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let (user, verifier) = line
            .split_once(':')
            .with_context(|| format!("line {number}: `user:verifier` is expected"))?;
        let verifier =
            parse_verifier(verifier).with_context(|| format!("line {number}: user `{user}`"))?;
        if users.insert(user.to_owned(), verifier).is_some() {
            bail!("line {number}: user `{user}` stands there twice");
        }
    }
    Ok(users)
}

/// A verifier in PostgreSQL's form.
pub fn format_verifier(verifier: &Verifier) -> String {
    format!(
        "{MECHANISM}{}:{}${}:{}",
        verifier.iterations,
        encode_base64(&verifier.salt),
        encode_base64(&verifier.stored_key),
        encode_base64(&verifier.server_key)
    )
}

fn parse_verifier(text: &str) -> Result<Verifier> {
    let parts = || {
        let (salting, keys) = text.strip_prefix(MECHANISM)?.split_once('$')?;
        let (iterations, salt) = salting.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|&count| count > 0)?,
            salt: decode_base64(salt)?,
            stored_key: decode_base64(stored_key)?.try_into().ok()?,
            server_key: decode_base64(server_key)?.try_into().ok()?,
        })
    };
    parts().context("not a SCRAM-SHA-256 verifier; `tally config password` makes one")
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3)
            .fold(0u32, |group, i| group << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let digit = ALPHABET[(group >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { digit.into() } else { '=' });
        }
    }
    out
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.as_bytes().chunks(4) {
        let mut group = 0u32;
        for digit in chunk {
            let value = ALPHABET.iter().position(|letter| letter == digit)?;
            group = group << 6 | u32::try_from(value).ok()?;
        }
        group <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(group.to_be_bytes().get(1..chunk.len())?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn base64_both_ways() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode_base64(bytes.as_bytes()), text);
            assert_eq!(decode_base64(text).unwrap(), bytes.as_bytes());
        }
        for text in ["Z", "Zg=", "Zg", "Z===", "====", "Zm9*"] {
            assert!(decode_base64(text).is_none(), "{text}");
        }
    }

    /// Made by PostgreSQL 15 for the password `pencil`; the salt is RFC 7677's.
    #[test]
    fn postgresql_writes_verifiers_in_this_form() {
        let salt = decode_base64("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::from_salted("pencil", &salt, 4096).unwrap();
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(format_verifier(&verifier), text);
        assert_eq!(parse_verifier(text).unwrap(), verifier);
    }

    #[test]
    fn faults_in_the_file_are_named_by_line() {
        let verifier = format_verifier(&Verifier::from_password("x").unwrap());
        let good = format!("# comment\n\nada:{verifier}\n  bob:{verifier}\n");
        assert_eq!(parse_users(&good).unwrap().len(), 2);
        for (text, part) in [
            ("ada", "line 1: `user:verifier`"),
            ("\nada:secret", "line 2: user `ada`"),
            (&format!("{good}ada:{verifier}"), "line 5: user `ada` stands there twice"),
        ] {
            let fault = format!("{:#}", parse_users(text).unwrap_err());
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn trust_ends_at_the_loopback_interface_and_where_a_file_begins() {
        let local = Peer::Tcp("127.0.0.1:1".parse().unwrap());
        let mapped = Peer::Tcp("[::ffff:127.0.0.1]:1".parse().unwrap());
        let remote = Peer::Tcp("192.0.2.1:1".parse().unwrap());
        let open = Users(None);
        assert!(matches!(open.authentication("a", local), Authentication::Trust));
        assert!(matches!(open.authentication("a", Peer::Unix), Authentication::Trust));
        assert!(matches!(open.authentication("a", mapped), Authentication::Trust));
        assert!(matches!(open.authentication("a", remote), Authentication::Unknown));
        let verifier = Verifier::from_password("x").unwrap();
        let closed = Users(Some([("ada".to_owned(), verifier)].into()));
        let of = |user| closed.authentication(user, local);
        assert!(matches!(of("ada"), Authentication::ScramSha256(_)));
        assert!(matches!(of("eve"), Authentication::Unknown));
    }
}
