//! Who may vote, and how many votes are enough: parameters of the ledger.
//!
//! ```text
//! electors    "1 <key> <address>, 2 <key> <address>, …"     number, 64 hexadecimal digits, host
//! members     the same; changes when members come and go
//! votes       that a certificate takes; more than two thirds of the members if it is not named
//! liars       members that may lie; fewer than a third of them if it is not named
//! ```
//!
//! `electors` are the members of the first block, for good. Those who follow them when members come
//! and go are `members`, and are certified ([`super::succession`]). Where `votes` is named and
//! members are more or fewer than at first, a certificate takes as many as that, but no fewer than
//! are safe, and no more than there are members.
//!
//! ```text
//! bytes     electors                 (numbers big-endian)
//!     2     votes
//!     2     liars
//!     2     number n of members
//!           40 each: member (8), key (32); members strictly ascending
//! 6 + 40 n
//! ```
//!
//! Electors hash = SHA-256(`"tally elect v1" 00 00` ‖ these bytes). Addresses are no part of it.

use std::collections::BTreeMap;

use types::{Error, Height, Result, SqlState};

use crate::hash::{Hash, TAG_ELECTORS, hash_from_hex, tagged_hash};
use crate::header::LedgerId;
use crate::parameters::Parameters;
use crate::wire::Cursor;

/// Names of the parameters.
pub const ELECTORS: &str = "electors";
pub const MEMBERS: &str = "members";
pub const VOTES: &str = "votes";
pub const LIARS: &str = "liars";

const MEMBER_BYTES: usize = 40;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Electors {
    pub ledger_id: LedgerId,
    /// Public keys by number.
    pub keys: BTreeMap<u64, Hash>,
    /// Votes that a certificate takes.
    pub votes: usize,
    /// Members that may lie.
    pub liars: usize,
    /// Those before have certified this block as the first of theirs that they know of; the first
    /// ones have none before.
    pub above: Option<Height>,
}

impl Electors {
    /// Those of the first block. `None`: the ledger has one node, and no votes.
    pub fn of(ledger_id: LedgerId, parameters: &Parameters) -> Result<Option<Electors>> {
        let Some(keys) = keys_of(parameters, ELECTORS)? else { return Ok(None) };
        let members = keys.len();
        let votes = number(parameters, VOTES)?.unwrap_or(votes_of(members));
        let liars = number(parameters, LIARS)?.unwrap_or(liars_of(members));
        Electors { ledger_id, keys, votes, liars, above: None }.checked().map(Some)
    }

    /// Those of the blocks for which these parameters are in force.
    pub fn under(ledger_id: LedgerId, parameters: &Parameters) -> Result<Electors> {
        let keys = keys_of(parameters, MEMBERS)?;
        let keys = keys.ok_or_else(|| invalid("the ledger has no members".to_owned()))?;
        let members = keys.len();
        let liars = number(parameters, LIARS)?.unwrap_or(liars_of(members));
        let least = members.saturating_add(liars) / 2 + 1;
        let votes = match number(parameters, VOTES)? {
            Some(named) => named.max(least).min(members),
            None => votes_of(members),
        };
        Electors { ledger_id, keys, votes, liars, above: None }.checked()
    }

    pub fn encode(&self) -> Vec<u8> {
        // The rule holds together, so none of them is more than the members, which are counted.
        let numbers = [self.votes, self.liars, self.keys.len()];
        let mut bytes: Vec<u8> = numbers.map(|it| (it as u16).to_be_bytes()).concat();
        for (member, key) in &self.keys {
            bytes.extend_from_slice(&member.to_be_bytes());
            bytes.extend_from_slice(key);
        }
        bytes
    }

    /// From the front of what is read; strict, as one value has one spelling.
    pub(super) fn read(ledger_id: LedgerId, cursor: &mut Cursor<'_>) -> Result<Electors> {
        let [votes, liars] = [cursor.u16()?, cursor.u16()?].map(usize::from);
        let count = u32::from(cursor.u16()?);
        let mut keys = BTreeMap::new();
        for _ in 0..cursor.fits(count, MEMBER_BYTES)? {
            let (member, key) = (cursor.u64()?, cursor.array()?);
            if keys.last_key_value().is_some_and(|(last, _)| *last >= member) {
                return Err(cursor.invalid("members are out of order"));
            }
            keys.insert(member, key);
        }
        Ok(Electors { ledger_id, keys, votes, liars, above: None })
    }

    /// What votes name them by.
    pub fn hash(&self) -> Hash {
        tagged_hash(TAG_ELECTORS, &self.encode())
    }

    /// More than half of the members: so many cannot be wrong where the rest can be right.
    pub fn majority(&self) -> usize {
        self.keys.len() / 2 + 1
    }

    fn checked(self) -> Result<Electors> {
        check(self.keys.len(), self.votes, self.liars)?;
        // Two sets of votes share more members than may lie.
        debug_assert!(2 * self.votes - self.keys.len() > self.liars);
        Ok(self)
    }
}

fn keys_of(parameters: &Parameters, name: &str) -> Result<Option<BTreeMap<u64, Hash>>> {
    let Some(members) = parameters.others.get(name) else { return Ok(None) };
    let mut keys = BTreeMap::new();
    for member in members.split(", ") {
        let mut words = member.split(' ');
        let number = words.next().and_then(|text| text.parse().ok());
        let key = words.next().and_then(|text| hash_from_hex(text).ok());
        let (Some(number), Some(key)) = (number, key) else {
            return Err(invalid(format!("{member:?} is no member")));
        };
        // After its address stands whether it observes, and has no vote.
        if words.nth(1) == Some("observer") {
            continue;
        }
        if keys.insert(number, key).is_some() {
            return Err(invalid(format!("two members have the number {number}")));
        }
    }
    Ok(Some(keys))
}

fn number(parameters: &Parameters, name: &str) -> Result<Option<usize>> {
    let text = parameters.others.get(name);
    let bad = |text: &String| invalid(format!("{name} is {text:?}, not a number"));
    text.map(|text| text.parse().map_err(|_| bad(text))).transpose()
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
    if members > usize::from(u16::MAX) {
        return Err(invalid(format!("{members} members are too many")));
    }
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

    /// What was named at first stays as far as it is safe.
    #[test]
    fn a_rule_fits_more_and_fewer_members() {
        let votes = |members, named, liars: Option<usize>| {
            let mut parameters = parameters(members, named);
            parameters.others.extend(liars.map(|liars| (LIARS.to_owned(), liars.to_string())));
            Electors::under(LEDGER, &parameters).map(|it| it.votes).ok()
        };
        let by_default: Vec<_> = (1..=7).map(|members| votes(members, None, None)).collect();
        assert_eq!(by_default, [1, 2, 3, 3, 4, 5, 5].map(Some));
        let two: Vec<_> = (1..=7).map(|members| votes(members, Some(2), Some(0))).collect();
        assert_eq!(two, [1, 2, 2, 3, 3, 4, 4].map(Some));
        assert_eq!([3, 2].map(|members| votes(members, Some(3), Some(1))), [Some(3), Some(2)]);
        assert_eq!(votes(1, Some(3), Some(1)), None, "it cannot bear a liar");
    }

    #[test]
    fn one_that_observes_does_not_vote() {
        let mut observed = parameters(4, None);
        let members = observed.others.get_mut(MEMBERS).unwrap();
        members.push_str(" observer");
        let three = Electors::under(LEDGER, &observed).unwrap();
        assert_eq!(three, Electors::under(LEDGER, &parameters(3, None)).unwrap());
    }

    #[test]
    fn electors_are_named_by_keys_and_rule() {
        let read = |bytes: &[u8]| {
            let mut cursor = Cursor::new("electors", bytes);
            let read = Electors::read(LEDGER, &mut cursor)?;
            cursor.finish().map(|()| read)
        };
        let four = Electors::of(LEDGER, &parameters(4, None)).unwrap().unwrap();
        assert_eq!(Electors::under(LEDGER, &parameters(4, None)).unwrap(), four);
        let bytes = four.encode();
        assert_eq!((bytes.len(), read(&bytes).unwrap()), (166, four.clone()));
        let mut swapped = bytes.clone();
        swapped[13] = 3;
        assert!(read(&swapped).is_err(), "out of order");
        let other = |change: &dyn Fn(&mut Electors)| {
            let mut other = four.clone();
            change(&mut other);
            other.hash() != four.hash()
        };
        assert!(other(&|it| it.votes = 4));
        assert!(other(&|it| it.liars = 0));
        assert!(other(&|it| it.keys.get_mut(&2).unwrap()[0] ^= 1));
        assert!(other(&|it| it.keys.retain(|id, _| *id < 4)));
        assert!(!other(&|it| it.above = Some(9)));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err());
        }
    }
}
