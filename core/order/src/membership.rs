//! Who keeps a ledger: its members, as a parameter of the ledger names them.
//!
//! ```text
//! 1 8f… 10.0.0.1:5462, 2 03… 10.0.0.2:5462, 4 d1… 10.0.0.4:5462 observer   number, key, address
//! ```
//!
//! A number is never used again. The key (ed25519) is what a member is known by; the address is
//! where the others reach it. An observer executes all that the others order, and has no say in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use types::{Error, Result, SqlState};

pub type Key = [u8; 32];

/// How another member is reached, and told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    pub key: Key,
    pub address: String,
    /// It neither orders nor votes.
    pub observes: bool,
}

const OBSERVER: &str = "observer";

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Membership(pub BTreeMap<u64, Known>);

impl Membership {
    pub fn parse(text: &str) -> Result<Membership> {
        let mut membership = BTreeMap::new();
        for one in text.split(',') {
            let (id, known) = member(one.trim()).ok_or_else(|| invalid(one.trim()))?;
            let again = membership.values().any(|it: &Known| it.key == known.key);
            if again || membership.insert(id, known).is_some() {
                return Err(invalid(one.trim()));
            }
        }
        Ok(Membership(membership))
    }

    /// The members that order.
    pub fn voters(&self) -> BTreeSet<u64> {
        debug_assert!(!self.0.contains_key(&0), "numbers begin at 1");
        self.0.iter().filter(|(_, known)| !known.observes).map(|(id, _)| *id).collect()
    }

    pub fn id_of(&self, key: &Key) -> Option<u64> {
        self.0.iter().find(|(_, known)| known.key == *key).map(|(id, _)| *id)
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (id, Known { key, address, observes })) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{id} {} {address}", ledger::hash::to_hex(key))?;
            if *observes {
                write!(f, " {OBSERVER}")?;
            }
        }
        Ok(())
    }
}

fn member(text: &str) -> Option<(u64, Known)> {
    let mut words = text.split(' ');
    let (id, key, address) = (words.next()?, words.next()?, words.next()?);
    let id = id.parse().ok().filter(|id| *id > 0)?;
    let key = ledger::hash::hash_from_hex(key).ok()?;
    let observes = match words.next() {
        None => false,
        Some(OBSERVER) => true,
        Some(_) => return None,
    };
    let is_whole = words.next().is_none() && address.contains(':');
    is_whole.then(|| (id, Known { key, address: address.to_owned(), observes }))
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{what}\" is no member")).with_hint(
        "A member is its number, its key of 64 hexadecimal digits, host:port, and observer \
                    if it is one.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_is_what_it_was_written_as() {
        let (a, b) = ("1".repeat(64), "2".repeat(64));
        let text = format!("1 {a} host:1 observer, 7 {b} [::1]:2");
        let membership = Membership::parse(&text).unwrap();
        assert_eq!(membership.to_string(), text);
        assert_eq!(membership.id_of(&[0x22; 32]), Some(7));
        assert_eq!(membership.voters(), BTreeSet::from([7]));
        for wrong in [
            String::new(),
            format!("1 {a} host:1, 1 {b} host:2"),
            format!("1 {a} host:1, 2 {a} host:2"),
            format!("0 {a} host:1"),
            format!("1 {a} host"),
            format!("1 {a}"),
            format!("1 {a} host:1 more"),
            format!("1 {a} host:1 observer more"),
            "1 12 host:1".to_owned(),
        ] {
            assert!(Membership::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
