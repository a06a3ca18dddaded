//! Incarnations of members: which of a member's votes and acknowledgements still count.
//!
//! ```text
//! member 2   incarnation 1 ──► votes, acknowledges ──► its data is lost ──► incarnation 2 ──► …
//! a leader              counts for these incarnations: 1 → 1, 2 → 1, 3 → 1, fixed when it began
//! a voter               answers no leader that counts for an incarnation which it knows to be over
//! ```
//!
//! *Why.* Raft assumes that a member never forgets its votes or its log. A member that may have
//! forgotten some begins a new incarnation, and tells the others before it votes or acknowledges
//! again ([`crate::recall`]). Messages of its former incarnation may still be in flight, or already
//! be counted by a leader that has not heard of the new one.
//!
//! *How.* Each candidacy, and the leadership that it wins, names the incarnation of each member
//! whose answers it counts. These are the same from its first message to its last; only members
//! that were unknown when it began are added. A voter that knows of a newer incarnation refuses,
//! and names it. The leader then steps down and stands for election again.
//!
//! *Invariants.* A member's incarnations are numbered upwards, and two incarnations of one number
//! are never both in use. The random salt tells an incarnation that took a number by mistake from a
//! repetition of the same incarnation.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kit::sync::lock;
use openraft::LeaderId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Incarnation {
    pub number: u64,
    pub salt: u64,
}

impl Incarnation {
    pub fn next(self, salt: u64) -> Incarnation {
        Incarnation { number: self.number + 1, salt }
    }
}

/// The newest ones that a member knows, or those that a lead counts for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Incarnations(pub BTreeMap<u64, Incarnation>);

impl Incarnations {
    pub fn of(&self, member: u64) -> Option<Incarnation> {
        self.0.get(&member).copied()
    }

    /// These, and one of the member that has them.
    pub fn with(&self, member: u64, incarnation: Incarnation) -> Incarnations {
        let mut incarnations = self.clone();
        incarnations.0.insert(member, incarnation);
        incarnations
    }

    /// Keeps the newer of each; whether one was new.
    pub fn learn(&mut self, others: &Incarnations) -> bool {
        let mut is_new = false;
        for (member, incarnation) in &others.0 {
            if self.of(*member).is_none_or(|known| known.number < incarnation.number) {
                self.0.insert(*member, *incarnation);
                is_new = true;
            }
        }
        debug_assert!(!others.outdate(self), "the newest of each is known now");
        is_new
    }

    /// Whether a member that knows these answers a lead that counts for `counted`.
    pub fn allow(&self, counted: &Incarnations) -> bool {
        self.0.iter().all(|(member, known)| {
            counted.of(*member).is_some_and(|it| it == *known || it.number > known.number)
        })
    }

    /// Whether one of these is newer than what a lead counts for.
    pub fn outdate(&self, counted: &Incarnations) -> bool {
        let is_newer = |(member, known): (&u64, &Incarnation)| {
            counted.of(*member).is_some_and(|it| it.number < known.number)
        };
        self.0.iter().any(is_newer)
    }
}

/// The incarnations that this node's newest campaign counts for, or the lead that it became.
#[derive(Default)]
pub(crate) struct Lead(Mutex<Option<(LeaderId<u64>, Incarnations)>>);

impl Lead {
    /// The incarnations for a message of a lead. Of a member that was not known when it began
    /// nothing was counted yet: it is taken in. `None`: a newer campaign has begun, and the lead is
    /// over.
    pub fn by(&self, lead: LeaderId<u64>, known: &Incarnations) -> Option<Incarnations> {
        let mut counted = lock(&self.0);
        match &mut *counted {
            Some((newer, _)) if *newer > lead => return None,
            Some((same, incarnations)) if *same == lead => {
                for (member, incarnation) in &known.0 {
                    incarnations.0.entry(*member).or_insert(*incarnation);
                }
            }
            other => *other = Some((lead, known.clone())),
        }
        debug_assert!(counted.as_ref().is_some_and(|(of, incarnations)| {
            *of == lead && known.0.keys().all(|member| incarnations.of(*member).is_some())
        }));
        counted.as_ref().map(|(_, incarnations)| incarnations.clone())
    }

    /// Whether a lead counts for an incarnation that is known to be over.
    pub fn is_outdated(&self, lead: LeaderId<u64>, known: &Incarnations) -> bool {
        let counted = lock(&self.0);
        let own = counted.as_ref().filter(|(of, _)| *of == lead);
        own.is_some_and(|(_, incarnations)| known.outdate(incarnations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnations(of: &[(u64, u64)]) -> Incarnations {
        Incarnations(
            of.iter()
                .map(|(member, number)| (*member, Incarnation { number: *number, salt: 0 }))
                .collect(),
        )
    }

    #[test]
    fn a_lead_that_counts_for_an_incarnation_that_is_over_is_refused() {
        let known = incarnations(&[(1, 0), (2, 1)]);
        assert!(known.allow(&incarnations(&[(1, 0), (2, 1)])));
        assert!(known.allow(&incarnations(&[(1, 3), (2, 1), (3, 9)])), "it has heard more");
        assert!(!known.allow(&incarnations(&[(1, 0), (2, 0)])));
        assert!(!known.allow(&incarnations(&[(1, 0)])), "it has not heard of 2 at all");
        let mut other = known.clone();
        other.0.insert(2, Incarnation { number: 1, salt: 5 });
        assert!(!known.allow(&other), "the same number, and not the same incarnation");
        let mut learned = incarnations(&[(1, 2)]);
        assert!(learned.learn(&known));
        assert!(!learned.learn(&known));
        assert_eq!(learned, incarnations(&[(1, 2), (2, 1)]));
    }

    #[test]
    fn a_lead_counts_for_the_same_incarnations_to_its_end() {
        let (counted, old, new) = (Lead::default(), LeaderId::new(1, 1), LeaderId::new(2, 1));
        let first = incarnations(&[(1, 0), (2, 0)]);
        assert_eq!(counted.by(old, &first), Some(first.clone()));
        let later = incarnations(&[(1, 0), (2, 1), (3, 0)]);
        assert_eq!(counted.by(old, &later), Some(incarnations(&[(1, 0), (2, 0), (3, 0)])));
        assert!(counted.is_outdated(old, &later) && !counted.is_outdated(old, &first));
        assert_eq!(counted.by(new, &later), Some(later.clone()));
        assert_eq!(counted.by(old, &later), None, "a message of the lead that is over");
        assert!(!counted.is_outdated(new, &later));
    }
}
