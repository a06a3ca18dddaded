//! Who may connect: the password file.
//!
//! One `user:verifier` a line; empty lines and lines that begin with `#` do not count. A verifier
//! is written in PostgreSQL's own form (as in its `pg_authid`), so that it can be carried over:
//!
//! ```text
//! SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>        (base64, RFC 4648)
//! ```
//!
//! Without a file, a client from the same machine (loopback, the Unix-domain socket) is
//! trusted, and no other is admitted. With one, all clients prove who they are, wherever they
//! come from. A stranger is asked for a proof of as many iterations as most users are, so as not to
//! be distinguished by that.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use pgfront::auth::SCRAM_ITERATIONS;
use pgfront::{Authentication, Peer, Verifier};

/// The users of a node.
#[derive(Clone, Debug)]
pub struct Users {
    /// `None` where there is no file.
    known: Option<BTreeMap<String, Verifier>>,
    usual_iterations: u32,
}

impl Users {
    fn new(known: Option<BTreeMap<String, Verifier>>) -> Users {
        let usual_iterations = usual_iterations(known.iter().flat_map(BTreeMap::values));
        Users { known, usual_iterations }
    }

    pub fn read(file: Option<&Path>) -> Result<Users> {
        let Some(file) = file else {
            return Ok(Users::new(None));
        };
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let users = parse_users(&text).with_context(|| file.display().to_string())?;
        Ok(Users::new(Some(users)))
    }

    /// How `user`, who comes from `peer`, has to prove who they are.
    pub fn authentication(&self, user: &str, peer: Peer) -> Authentication {
        match &self.known {
            None if peer.is_local() => Authentication::Trust,
            None => self.unknown(),
            Some(users) => match users.get(user) {
                Some(verifier) => Authentication::ScramSha256(verifier.clone()),
                None => self.unknown(),
            },
        }
    }

    /// For a name that no password is right for.
    pub fn unknown(&self) -> Authentication {
        Authentication::Unknown { iterations: self.usual_iterations }
    }
}

fn usual_iterations<'v>(verifiers: impl Iterator<Item = &'v Verifier>) -> u32 {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    verifiers.for_each(|verifier| *counts.entry(verifier.iterations).or_default() += 1);
    let usual = counts.into_iter().max_by_key(|(iterations, count)| (*count, *iterations));
    usual.map_or(SCRAM_ITERATIONS, |(iterations, _)| iterations)
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
        let verifier = verifier.parse().map_err(|error: types::Error| {
            let why = error.message();
            anyhow!("line {number}: user `{user}`: {why}; `tally config password` makes one")
        })?;
        if users.insert(user.to_owned(), verifier).is_some() {
            bail!("line {number}: user `{user}` stands there twice");
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by PostgreSQL 15 for the password `pencil`; the salt is RFC 7677's.
    #[test]
    fn postgresql_writes_verifiers_in_this_form() {
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let users = parse_users(&format!("ada:{text}")).unwrap();
        let verifier = &users["ada"];
        assert_eq!(*verifier, Verifier::from_salted("pencil", &verifier.salt, 4096).unwrap());
        assert_eq!(verifier.to_text(), text);
    }

    #[test]
    fn faults_in_the_file_are_named_by_line() {
        let verifier = Verifier::from_password("x", 4096).unwrap().to_text();
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
        let open = Users::new(None);
        assert!(matches!(open.authentication("a", local), Authentication::Trust));
        assert!(matches!(open.authentication("a", Peer::Unix), Authentication::Trust));
        assert!(matches!(open.authentication("a", mapped), Authentication::Trust));
        let stranger = open.authentication("a", remote);
        assert!(matches!(stranger, Authentication::Unknown { iterations: SCRAM_ITERATIONS }));
        let verifier = Verifier::from_password("x", 4096).unwrap();
        let closed = Users::new(Some([("ada".to_owned(), verifier)].into()));
        let of = |user| closed.authentication(user, local);
        assert!(matches!(of("ada"), Authentication::ScramSha256(_)));
        assert!(matches!(of("eve"), Authentication::Unknown { iterations: 4096 }));
    }
}
