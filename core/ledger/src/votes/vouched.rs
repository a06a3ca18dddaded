//! Whether members whose keys a reader knows vouch for a certificate.
//!
//! A node that takes a ledger from another member knows some members' keys, from its plan, but not
//! which first block is the ledger's. A certificate counts for it in two cases: more than half of
//! the members that it knows have signed it; or it was made by electors who follow from the
//! ledger's first ones, and more than half of those first ones are members that it knows. A single
//! lying member can bring about neither.

use std::collections::BTreeMap;

use super::succession::Succession;
use super::{Certificate, Electors, Vote, holds};
use crate::hash::Hash;
use crate::header::LedgerId;

/// What a member tells: its newest certificate, and how electors followed one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    pub certificate: Certificate,
    pub successions: Vec<Succession>,
}

impl Word {
    /// `first`: as the ledger says, that is in question itself. `known`: without the reader.
    pub fn is_vouched_for(
        &self,
        ledger_id: LedgerId,
        first: Option<&Electors>,
        known: &BTreeMap<u64, Hash>,
    ) -> bool {
        let Certificate { said, votes, .. } = &self.certificate;
        if self.certificate.ledger_id != ledger_id {
            return false;
        }
        let signed = |(member, key): &(&u64, &Hash)| {
            let vote = votes.iter().find(|(voter, _)| voter == *member);
            let vote = vote.map(|(_, signature)| Vote {
                member: **member,
                said: *said,
                signature: *signature,
            });
            vote.is_some_and(|vote| holds(&vote, ledger_id, key))
        };
        if 2 * known.iter().filter(signed).count() > known.len() {
            return true;
        }
        let Some(first) = first.filter(|first| first.ledger_id == ledger_id) else { return false };
        let are_known = first.keys.iter().filter(|(id, key)| known.get(id) == Some(key)).count();
        2 * are_known > first.keys.len() && self.is_made_behind(first)
    }

    /// By the first electors, or by some that follow: the newest may not have certified anything.
    fn is_made_behind(&self, first: &Electors) -> bool {
        let mut electors = first;
        for succession in &self.successions {
            if self.certificate.verify(electors).is_ok() {
                return true;
            }
            let Ok(next) = succession.verify(electors) else { return false };
            electors = next;
        }
        self.certificate.verify(electors).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::succession::tests::{certify, certify_with, ledger, succession, under};
    use super::super::tests::{key, parameters};
    use super::*;
    use crate::signatures::SecretKey;

    #[test]
    fn most_of_the_known_members_vouch_or_those_who_follow_them() {
        let (genesis, chain) = ledger(4, 4, &parameters(5, None), 6);
        let ledger_id = genesis.ledger_id;
        let first = under(&genesis, &genesis.parameters);
        let five = under(&genesis, &parameters(5, None));
        let known = |ids: &[u64]| ids.iter().map(|id| (*id, key(*id).public())).collect();
        let successions = vec![succession(&chain[4], &five, &[1, 2, 3])];
        let word = |members: &[u64], successions: &[Succession]| Word {
            certificate: certify(&chain[6], &five, members),
            successions: successions.to_vec(),
        };
        let holds = |word: &Word, known: &BTreeMap<u64, Hash>| {
            word.is_vouched_for(ledger_id, Some(&first), known)
        };
        // Known members have signed, whatever the ledger says of its first ones.
        let signed = word(&[1, 2, 3], &[]);
        assert!(signed.is_vouched_for(ledger_id, None, &known(&[1, 2, 3, 4, 5])));
        assert!(!signed.is_vouched_for(ledger_id, None, &known(&[1, 2, 4, 5])));
        assert!(!signed.is_vouched_for([9; 16], Some(&first), &known(&[1, 2, 3])));
        // Those who follow the founders have.
        let later = word(&[1, 2, 4, 5], &successions);
        assert!(holds(&later, &known(&[2, 3, 4])));
        assert!(!holds(&later, &known(&[3, 4])), "half of the founders are not enough");
        assert!(!holds(&word(&[1, 2, 4, 5], &[]), &known(&[1, 3, 7])));
        // They are named, and have certified nothing yet.
        let before = Word {
            certificate: certify(&chain[3], &first, &[1, 2, 3]),
            successions: successions.clone(),
        };
        assert!(holds(&before, &known(&[2, 3, 4])));
        // A ledger of one's own, with keys of one's own.
        let own = |id: u64| SecretKey::of_seed([id as u8 + 100; 32]);
        let keys = (1..=4).map(|id| (id, own(id).public())).collect();
        let made_up = Electors { keys, ..first.clone() };
        let forged = Word {
            certificate: certify_with(&chain[6], &made_up, &[1, 2, 3, 4], own),
            successions: Vec::new(),
        };
        assert!(!forged.is_vouched_for(ledger_id, Some(&made_up), &known(&[1, 2, 3, 4])));
        assert!(!holds(&forged, &known(&[1, 2, 3, 4])));
    }
}
