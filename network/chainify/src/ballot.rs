//! Votes on one thing of one block: what comes of them, as they come.
//!
//! ```text
//! order    each organisation signs the order hash that it was given, before it runs anything
//! result   each signs the result hash that the block came to in its database
//! again    the same, where no result could have enough votes, after each one's recovery
//! ```
//!
//! Signatures are those of [`ledger::votes`]; each stage's are made for another ledger id, so that
//! none passes for another. With c votes of k, 2 c > k, no two values can have enough.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ledger::hash::{Hash, tagged_hash, to_hex};
use ledger::votes::{Said, Vote, holds};
use ledger::{Certificate, Electors, LedgerId};
use types::Height;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    Order,
    Result,
    /// So many times, from 1.
    Again(u8),
}

/// How often a block is voted on again.
pub const AGAIN_MAX: u8 = 3;

impl Stage {
    /// Under which signatures of this stage are made.
    pub fn ledger_id(self, ledger_id: LedgerId) -> LedgerId {
        let tag = match self {
            Stage::Result => return ledger_id,
            Stage::Order => b"tally chained v1",
            Stage::Again(_) => b"tally again v1\0\0",
        };
        let hash = tagged_hash(tag, &ledger_id);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        id
    }

    /// What is signed for a block's height: it ascends from one vote of a stage to the next.
    pub fn number(self, height: Height) -> Height {
        match self {
            Stage::Order | Stage::Result => height,
            Stage::Again(round) => height * 256 + Height::from(round),
        }
    }

    /// Where what was signed is kept: all votes that are given again are in one place.
    pub fn kept(self) -> Stage {
        match self {
            Stage::Again(_) => Stage::Again(0),
            other => other,
        }
    }

    pub fn encode(self) -> u8 {
        match self {
            Stage::Order => 0,
            Stage::Result => 1,
            Stage::Again(round) => round.saturating_add(1),
        }
    }

    pub fn decode(byte: u8) -> Option<Stage> {
        match byte {
            0 => Some(Stage::Order),
            1 => Some(Stage::Result),
            more if more - 1 <= AGAIN_MAX => Some(Stage::Again(more - 1)),
            _ => None,
        }
    }

    pub fn electors(self, electors: &Electors) -> Electors {
        Electors { ledger_id: self.ledger_id(electors.ledger_id), ..electors.clone() }
    }
}

pub struct Ballot {
    electors: Electors,
    electors_hash: Hash,
    /// Of the stage, for the height.
    number: Height,
    votes: BTreeMap<u64, Vote>,
    /// Members that have signed two values.
    contradicting: BTreeSet<u64>,
}

/// What became of a vote that was given to a ballot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Its member's first one.
    First,
    /// The same as before.
    Again,
    /// For another value than its member's first one, which stays: the member lies.
    Contradicting,
    /// It is for another block, by another key, or none of the electors'.
    Foreign,
}

/// What votes come to, seen from an organisation that has a value of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Others may still decide it.
    Open,
    /// Enough have this organisation's value.
    Agreed(Certificate),
    /// Enough have another one.
    Other(Certificate),
    /// No value can have enough any more.
    Split,
}

impl Ballot {
    pub fn new(stage: Stage, electors: &Electors, height: Height) -> Ballot {
        let (electors, number) = (stage.electors(electors), stage.number(height));
        let electors_hash = electors.hash();
        let (votes, contradicting) = (BTreeMap::new(), BTreeSet::new());
        Ballot { electors, electors_hash, number, votes, contradicting }
    }

    /// What a member says by signing a value.
    pub fn said(&self, value: Hash) -> Said {
        Said { height: self.number, result_hash: value, electors: self.electors_hash }
    }

    /// The first vote of each member counts.
    pub fn count(&mut self, vote: Vote) -> Taken {
        let Some(key) = self.electors.keys.get(&vote.member) else { return Taken::Foreign };
        if self.votes.get(&vote.member) == Some(&vote) {
            return Taken::Again;
        }
        let said = self.said(vote.said.result_hash);
        if vote.said != said || !holds(&vote, self.electors.ledger_id, key) {
            return Taken::Foreign;
        }
        match self.votes.entry(vote.member) {
            Entry::Vacant(place) => {
                place.insert(vote);
                Taken::First
            }
            Entry::Occupied(first) if first.get().said == vote.said => Taken::Again,
            Entry::Occupied(_) => {
                self.contradicting.insert(vote.member);
                Taken::Contradicting
            }
        }
    }

    /// Members that have not voted.
    pub fn lacking(&self) -> Vec<u64> {
        let all = self.electors.keys.keys();
        all.filter(|member| !self.votes.contains_key(member)).copied().collect()
    }

    /// Members that have signed two values for this block: they lie.
    pub fn contradicting(&self) -> &BTreeSet<u64> {
        &self.contradicting
    }

    pub fn verdict(&self, own: Hash) -> Verdict {
        let mut by_value: BTreeMap<Hash, Vec<&Vote>> = BTreeMap::new();
        for vote in self.votes.values() {
            by_value.entry(vote.said.result_hash).or_default().push(vote);
        }
        let enough = by_value.iter().find(|(_, votes)| votes.len() >= self.electors.votes);
        if let Some((value, votes)) = enough {
            let votes = votes.iter().map(|vote| (vote.member, vote.signature)).collect();
            let (ledger_id, said) = (self.electors.ledger_id, self.said(*value));
            let certificate = Certificate { ledger_id, said, votes };
            return self.seen(certificate, own);
        }
        let most = by_value.values().map(Vec::len).max().unwrap_or(0);
        match most + self.lacking().len() < self.electors.votes {
            true => Verdict::Split,
            false => Verdict::Open,
        }
    }

    /// A certificate that another member keeps.
    pub fn believe(&self, certificate: Certificate, own: Hash) -> Option<Verdict> {
        let fits = certificate.said == self.said(certificate.said.result_hash)
            && certificate.verify(&self.electors).is_ok();
        fits.then(|| self.seen(certificate, own))
    }

    fn seen(&self, certificate: Certificate, own: Hash) -> Verdict {
        match certificate.said.result_hash == own {
            true => Verdict::Agreed(certificate),
            false => Verdict::Other(certificate),
        }
    }

    /// Who has said what, by member.
    pub fn values(&self) -> impl Iterator<Item = (u64, Hash)> + '_ {
        self.votes.values().map(|vote| (vote.member, vote.said.result_hash))
    }

    /// Votes that a value needs.
    pub fn enough(&self) -> usize {
        self.electors.votes
    }
}

/// Of a hash, for people.
pub(crate) fn short(hash: &Hash) -> String {
    to_hex(&hash[..6])
}

#[cfg(test)]
mod tests {
    use ledger::signatures::SecretKey;

    use super::*;

    fn key(member: u64) -> SecretKey {
        SecretKey::of_seed([member as u8; 32])
    }

    fn electors(members: u64, votes: usize) -> Electors {
        let keys = (1..=members).map(|id| (id, key(id).public())).collect();
        Electors { ledger_id: [7; 16], keys, votes, liars: 0, above: None }
    }

    fn ballot(votes: usize, cast: &[(u64, u8)]) -> Ballot {
        let mut ballot = Ballot::new(Stage::Result, &electors(3, votes), 5);
        for (member, value) in cast {
            let vote = key(*member).vote([7; 16], *member, ballot.said([*value; 32]));
            assert_eq!(ballot.count(vote), Taken::First);
            assert_eq!(ballot.count(vote), Taken::Again);
        }
        ballot
    }

    #[test]
    fn votes_come_to_agreement_deviation_or_none() {
        let verdict = |votes, cast: &[(u64, u8)]| match ballot(votes, cast).verdict([1; 32]) {
            Verdict::Open => "open",
            Verdict::Agreed(certificate) => {
                certificate.verify(&electors(3, votes)).unwrap();
                "agreed"
            }
            Verdict::Other(_) => "other",
            Verdict::Split => "split",
        };
        assert_eq!(verdict(2, &[(1, 1)]), "open");
        assert_eq!(verdict(2, &[(1, 1), (3, 1)]), "agreed");
        assert_eq!(verdict(2, &[(1, 1), (2, 2)]), "open");
        assert_eq!(verdict(2, &[(1, 1), (2, 2), (3, 2)]), "other");
        assert_eq!(verdict(2, &[(1, 1), (2, 2), (3, 3)]), "split");
        assert_eq!(verdict(3, &[(1, 1), (2, 2)]), "split");
        assert_eq!(verdict(3, &[(1, 1), (2, 1)]), "open");
    }

    #[test]
    fn stages_are_told_apart() {
        for byte in 0..=AGAIN_MAX + 1 {
            let stage = Stage::decode(byte).unwrap();
            assert_eq!(stage.encode(), byte);
            assert_eq!(stage == Stage::Result, stage.ledger_id([7; 16]) == [7; 16]);
        }
        assert_eq!(Stage::decode(AGAIN_MAX + 2), None);
        let (last, next) = (Stage::Again(AGAIN_MAX).number(5), Stage::Again(1).number(6));
        assert!(last < next && Stage::Again(2).kept() == Stage::Again(1).kept());
    }

    #[test]
    fn what_is_no_vote_does_not_count() {
        let mut ballot = ballot(2, &[(1, 1)]);
        let said = ballot.said([1; 32]);
        let for_orders = Stage::Order.ledger_id([7; 16]);
        for (what, vote) in [
            ("of the other stage", key(2).vote(for_orders, 2, said)),
            ("by another key", key(3).vote([7; 16], 2, said)),
            ("no member", key(4).vote([7; 16], 4, said)),
            ("of another block", key(2).vote([7; 16], 2, Said { height: 6, ..said })),
        ] {
            assert_eq!(ballot.count(vote), Taken::Foreign, "{what}");
        }
        assert_eq!(ballot.lacking(), [2, 3]);
        // The first one counts, and the second makes a liar.
        let other = key(1).vote([7; 16], 1, ballot.said([2; 32]));
        assert_eq!(ballot.count(other), Taken::Contradicting);
        assert_eq!(ballot.contradicting().iter().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(ballot.verdict([1; 32]), Verdict::Open);
    }
}
