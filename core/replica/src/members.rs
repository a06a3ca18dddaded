//! Changes of who keeps the ledger of a cluster.
//!
//! ```text
//! SET ledger.members = '1 8f… a:5462, 2 03… b:5462, 4 d1… d:5462'      4 is new
//! ```
//!
//! The parameter says who the members are from the next block on; what follows (whose connections
//! are taken, who orders) is the nodes' business. A change adds one member, removes one, or gives
//! one another key or address: two that go at once could be a majority. One that observes does so
//! for good, and one that orders is left. A number that a member had is never given to another one,
//! so `last_member` is kept; and so are, for some blocks, the members before a change
//! (`former_members`), as what orders may follow some blocks behind, and go on there after a start.

use ledger::{Electors, LedgerId, Parameters};
use order::{Known, Membership};
use types::{Error, Height, Result, SqlState};

use crate::limits::{Limits, MEMBERS};

/// The highest number that a member has had.
pub const LAST_MEMBER: &str = "last_member";

/// The members before the last changes: `BLOCK MEMBERS; BLOCK MEMBERS`, those before that block.
pub const FORMER_MEMBERS: &str = "former_members";

/// So many blocks back from the last change it is known who the members were.
pub const FORMER_BLOCKS: Height = 8;

/// The parameters with other members, by a transaction of the block `height`.
pub(crate) fn changed(parameters: &Parameters, height: Height, value: &str) -> Result<Parameters> {
    if Limits::orderer(parameters).is_none() {
        let what = "a ledger that one node keeps has no members";
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
            .with_hint("A cluster is made by tally cluster init."));
    }
    let (before, next) = (Membership::parse(&shown(parameters))?, Membership::parse(value)?);
    let newest = last_member(parameters, &before);
    let ids = before.0.keys().chain(next.0.keys());
    let mut differing: Vec<u64> = ids.copied().collect();
    differing.sort_unstable();
    differing.dedup();
    differing.retain(|id| before.0.get(id) != next.0.get(id));
    match differing[..] {
        [] => {}
        [id] => check_one(id, before.0.get(&id), next.0.get(&id), newest)?,
        _ => {
            let what = "members are changed one at a time";
            return Err(invalid(what).with_detail(format!("{differing:?} differ.")));
        }
    }
    if next.voters().is_empty() {
        return Err(invalid("one member at least has to order"));
    }
    let mut changed = parameters.clone();
    let last = newest.max(next.0.keys().last().copied().unwrap_or(0));
    changed.others.insert(MEMBERS.to_owned(), next.to_string());
    changed.others.insert(LAST_MEMBER.to_owned(), last.to_string());
    if !differing.is_empty() {
        changed.others.insert(FORMER_MEMBERS.to_owned(), former_with(parameters, height, &before));
    }
    // Who votes on results follows from it.
    Electors::under(LedgerId::default(), &changed)?;
    Ok(changed)
}

/// Each block by which members were changed, with those before it.
fn former(parameters: &Parameters) -> impl Iterator<Item = (Height, &str)> {
    let all = parameters.others.get(FORMER_MEMBERS).map_or("", String::as_str);
    all.split("; ").filter_map(|one| {
        let (height, members) = one.split_once(' ')?;
        Some((height.parse().ok()?, members))
    })
}

fn former_with(parameters: &Parameters, height: Height, before: &Membership) -> String {
    let kept = former(parameters).filter(|(at, _)| at + FORMER_BLOCKS > height);
    let mut all: Vec<String> = kept.map(|(at, members)| format!("{at} {members}")).collect();
    // Of several changes by one block the first one says it.
    if former(parameters).all(|(at, _)| at != height) {
        all.push(format!("{height} {before}"));
    }
    all.join("; ")
}

/// The members after a block that is one of the last [`FORMER_BLOCKS`] before these parameters.
pub fn behind(parameters: &Parameters, height: Height) -> Result<Membership> {
    let changed = former(parameters).find(|(at, _)| *at > height);
    match changed {
        Some((_, before)) => Membership::parse(before),
        None => Membership::parse(&shown(parameters)),
    }
}

fn check_one(id: u64, before: Option<&Known>, next: Option<&Known>, newest: u64) -> Result<()> {
    match (before, next) {
        (None, Some(_)) if id <= newest => {
            let what = format!("a member has had the number {id}");
            Err(invalid(&what).with_hint(format!("The next free number is {}.", newest + 1)))
        }
        (Some(before), Some(next)) if before.observes != next.observes => {
            let what = format!("whether member {id} observes cannot be changed");
            Err(invalid(&what).with_hint("Add a new member, then remove the old one."))
        }
        _ => Ok(()),
    }
}

/// The number that the next member can have.
pub fn next_member(parameters: &Parameters) -> Result<u64> {
    Ok(last_member(parameters, &Membership::parse(&shown(parameters))?) + 1)
}

fn last_member(parameters: &Parameters, membership: &Membership) -> u64 {
    let kept = parameters.others.get(LAST_MEMBER).and_then(|text| text.parse().ok());
    kept.unwrap_or(0).max(membership.0.keys().last().copied().unwrap_or(0))
}

fn shown(parameters: &Parameters) -> String {
    parameters.others.get(MEMBERS).cloned().unwrap_or_default()
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ORDERER;

    fn member(id: u64) -> String {
        format!("{id} {} host:{id}", format!("{id:02x}").repeat(32))
    }

    fn membership(ids: &[u64]) -> String {
        ids.iter().map(|id| member(*id)).collect::<Vec<_>>().join(", ")
    }

    fn cluster(ids: &[u64]) -> Parameters {
        let mut parameters = Parameters::new("harmony");
        parameters.others.insert(ORDERER.to_owned(), "raft".to_owned());
        parameters.others.insert(MEMBERS.to_owned(), membership(ids));
        parameters
    }

    fn changed(parameters: &Parameters, value: &str) -> Result<Parameters> {
        super::changed(parameters, 7, value)
    }

    #[test]
    fn who_was_a_member_some_blocks_ago_is_known() {
        let change = |parameters: &Parameters, height, ids: &[u64]| {
            super::changed(parameters, height, &membership(ids)).unwrap()
        };
        let founded = cluster(&[1, 2, 3]);
        let is = |parameters: &Parameters, height, ids: &[u64]| {
            assert_eq!(
                behind(parameters, height).unwrap().to_string(),
                membership(ids),
                "{height}"
            );
        };
        is(&founded, 0, &[1, 2, 3]);
        let four = change(&founded, 20, &[1, 2, 3, 4]);
        let five = change(&change(&four, 22, &[1, 2, 3, 4, 5]), 22, &[2, 3, 4, 5]);
        is(&five, 19, &[1, 2, 3]);
        is(&five, 20, &[1, 2, 3, 4]);
        is(&five, 21, &[1, 2, 3, 4]);
        is(&five, 22, &[2, 3, 4, 5]);
        let same = change(&five, 23, &[2, 3, 4, 5]);
        assert_eq!(same.others[FORMER_MEMBERS], five.others[FORMER_MEMBERS]);
        let three = change(&five, 20 + FORMER_BLOCKS, &[3, 4, 5]);
        is(&three, 22, &[2, 3, 4, 5]);
        assert_eq!(former(&three).map(|(at, _)| at).collect::<Vec<_>>(), [22, 28]);
    }

    #[test]
    fn one_member_at_a_time_and_no_number_twice() {
        let founded = cluster(&[1, 2, 3]);
        let four = changed(&founded, &membership(&[1, 2, 3, 4])).unwrap();
        assert_eq!(four.others[MEMBERS], membership(&[1, 2, 3, 4]));
        let three = changed(&four, &membership(&[1, 2, 3])).unwrap();
        assert_eq!(next_member(&three).unwrap(), 5);
        for wrong in [&[1, 2, 3, 4][..], &[1], &[1, 2, 5], &[]] {
            assert!(changed(&three, &membership(wrong)).is_err(), "{wrong:?}");
        }
        let five = changed(&three, &membership(&[1, 2, 3, 5])).unwrap();
        let moved = membership(&[1, 2, 3, 5]).replace("host:5", "elsewhere:5");
        assert!(changed(&five, &moved).is_ok(), "another address");
        let rotated = membership(&[1, 2, 3, 5]).replace(&"05".repeat(32), &"06".repeat(32));
        assert!(changed(&five, &rotated).is_ok(), "another key");
        let twice = membership(&[1, 2, 3, 5]).replace(&"05".repeat(32), &"03".repeat(32));
        assert!(changed(&five, &twice).is_err(), "another member's key");
        assert!(changed(&Parameters::new("harmony"), &membership(&[1])).is_err(), "a lone node");
        let observed = format!("{}, {} observer", membership(&[1, 2, 3, 5]), member(6));
        let six = changed(&five, &observed).unwrap();
        assert!(changed(&six, &membership(&[1, 2, 3, 5, 6])).is_err(), "it is one for good");
        assert!(changed(&six, &membership(&[1, 2, 3, 5])).is_ok());
        let alone = changed(&cluster(&[1]), &format!("{}, {} observer", member(1), member(2)));
        let left = format!("{} observer", member(2));
        assert!(changed(&alone.unwrap(), &left).is_err(), "none would order");
        let mut two = cluster(&[1, 2]);
        assert!(changed(&two, &membership(&[1])).is_ok());
        two.others.insert("liars".to_owned(), "1".to_owned());
        assert!(changed(&two, &membership(&[1])).is_err(), "one member bears no liar");
    }
}
