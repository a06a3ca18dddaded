//! Who may vote, and how many votes are enough: parameters of the ledger's first block, which
//! do not change when members come and go.
//!
//! ```text
//! electors    "1 <key> <address>, 2 <key> <address>, …"     number, 64 hexadecimal digits, host
//! votes       that a certificate takes; more than two thirds of the members if it is not named
//! liars       members that may lie; fewer than a third of them if it is not named
//! ```

use std::collections::BTreeMap;

use types::{Error, Result, SqlState};

use crate::hash::{Hash, hash_from_hex};
use crate::header::LedgerId;
use crate::parameters::Parameters;

/// Names of the parameters.
pub const ELECTORS: &str = "electors";
pub const VOTES: &str = "votes";
pub const LIARS: &str = "liars";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Electors {
    pub ledger_id: LedgerId,
    /// Public keys by number.
    pub keys: BTreeMap<u64, Hash>,
    /// Votes that a certificate takes.
    pub votes: usize,
    /// Members that may lie.
    pub liars: usize,
}

impl Electors {
    /// `None`: the ledger has one node, and no votes.
    pub fn of(ledger_id: LedgerId, parameters: &Parameters) -> Result<Option<Electors>> {
        let Some(members) = parameters.others.get(ELECTORS) else { return Ok(None) };
        let mut keys = BTreeMap::new();
        for member in members.split(", ") {
            let mut words = member.split(' ');
            let number = words.next().and_then(|text| text.parse().ok());
            let key = words.next().and_then(|text| hash_from_hex(text).ok());
            let (Some(number), Some(key)) = (number, key) else {
                return Err(invalid(format!("{member:?} is no member")));
            };
            if keys.insert(number, key).is_some() {
                return Err(invalid(format!("two members have the number {number}")));
            }
        }
        let number = |name: &str, default: usize| match parameters.others.get(name) {
            Some(text) => {
                text.parse().map_err(|_| invalid(format!("{name} is {text:?}, not a number")))
            }
            None => Ok(default),
        };
        let members = keys.len();
        let votes = number(VOTES, votes_of(members))?;
        let liars = number(LIARS, liars_of(members))?;
        check(members, votes, liars)?;
        Ok(Some(Electors { ledger_id, keys, votes, liars }))
    }

    /// More than half of the members: so many cannot be wrong where the rest can be right.
    pub fn majority(&self) -> usize {
        self.keys.len() / 2 + 1
    }
}

/// More than two thirds.
pub fn votes_of(members: usize) -> usize {
    2 * members / 3 + 1
}

/// As many as more than two thirds bear.
pub fn liars_of(members: usize) -> usize {
    members.saturating_sub(1) / 3
}

/// Whether there can be no two certificates of one height.
pub fn check(members: usize, votes: usize, liars: usize) -> Result<()> {
    if votes > members {
        return Err(invalid(format!("{votes} votes cannot come from {members} members")));
    }
    if 2 * votes > members + liars {
        return Ok(());
    }
    let why = format!(
        "With {votes} votes of {members} members, of which {liars} may lie, two results could be \
         certified for one block."
    );
    let least = (members + liars) / 2 + 1;
    let hint = match least > members {
        true => format!("Have more than {liars} honest members, or bear fewer liars."),
        false => format!("Take at least {least} votes."),
    };
    Err(invalid(why).with_hint(hint))
}

fn invalid(why: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "the rule of votes does not hold together")
        .with_detail(why)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LEDGER, parameters};
    use super::*;

    #[test]
    fn more_than_two_thirds_bear_a_third() {
        for (members, votes, liars) in [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 3, 1), (7, 5, 2)] {
            assert_eq!((votes_of(members), liars_of(members)), (votes, liars), "{members}");
            check(members, votes, liars).unwrap();
        }
        (1..200).for_each(|n| check(n, votes_of(n), liars_of(n)).unwrap());
    }

    /// By trying all pairs of sets of voters: two share an honest member exactly where it is said.
    #[test]
    fn the_rule_is_that_any_two_certificates_share_an_honest_member() {
        for members in 1..=6usize {
            let sets = |votes: usize| {
                (0u32..1 << members).filter(move |set| set.count_ones() as usize == votes)
            };
            for votes in 1..=members {
                let least = sets(votes)
                    .flat_map(|a| sets(votes).map(move |b| (a & b).count_ones() as usize))
                    .min();
                for liars in 0..=members {
                    let safe = least.is_some_and(|shared| shared > liars);
                    assert_eq!(
                        check(members, votes, liars).is_ok(),
                        safe,
                        "{members} {votes} {liars}"
                    );
                }
            }
        }
    }

    #[test]
    fn electors_stand_in_the_parameters() {
        let of = |parameters: &Parameters| Electors::of(LEDGER, parameters);
        assert_eq!(of(&Parameters::new("serial")).unwrap(), None);
        let three = of(&parameters(3, Some(2))).unwrap().unwrap();
        assert_eq!((three.keys.len(), three.votes, three.majority()), (3, 2, 2));
        assert!(of(&parameters(3, Some(1))).is_err(), "one of three says nothing");
        assert!(of(&parameters(3, Some(4))).is_err());
        let mut bad = parameters(2, None);
        bad.others.insert(LIARS.to_owned(), "2".to_owned());
        assert!(of(&bad).is_err());
        bad.others.insert(ELECTORS.to_owned(), "1 ab there".to_owned());
        assert!(of(&bad).is_err());
    }
}
