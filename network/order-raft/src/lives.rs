//! Incarnations ("lives") of members: which of a member's votes and acknowledgements still count.
//!
//! ```text
//! member 2   life 1 ──► votes, acknowledges ──► its data is lost ──► life 2 ──► …
//! a leader              counts for these lives: 1 → 1, 2 → 1, 3 → 1, fixed when it began
//! a voter               answers no leader that counts for a life which it knows to be over
//! ```
//!
//! *Why.* Raft assumes that a member never forgets its votes or its log. A member that may have
//! forgotten some begins a new life, and tells the others before it votes or acknowledges again
//! ([`crate::recall`]). Messages of its former life may still be in flight, or already be counted
//! by a leader that has not heard of the new one.
//!
//! *How.* Each candidacy, and the leadership that it wins, names the life of each member whose
//! answers it counts. These are the same from its first message to its last; only members that were
//! unknown when it began are added. A voter that knows of a newer life refuses, and names it. The
//! leader then steps down and stands for election again.
//!
//! *Invariants.* A member's lives are numbered upwards, and two lives of one number are never both
//! in use. The random salt tells a life that took a number by mistake from a repetition of the same
//! life.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kit::sync::lock;
use openraft::LeaderId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Life {
    pub number: u64,
    pub salt: u64,
}

impl Life {
    pub fn next(self, salt: u64) -> Life {
        Life { number: self.number + 1, salt }
    }
}

/// The newest ones that a member knows, or those that a lead counts for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Lives(pub BTreeMap<u64, Life>);

impl Lives {
    pub fn of(&self, member: u64) -> Option<Life> {
        self.0.get(&member).copied()
    }

    /// These, and one of the member that has them.
    pub fn with(&self, member: u64, life: Life) -> Lives {
        let mut lives = self.clone();
        lives.0.insert(member, life);
        lives
    }

    /// Keeps the newer of each; whether one was new.
    pub fn learn(&mut self, others: &Lives) -> bool {
        let mut is_new = false;
        for (member, life) in &others.0 {
            if self.of(*member).is_none_or(|known| known.number < life.number) {
                self.0.insert(*member, *life);
                is_new = true;
            }
        }
        debug_assert!(!others.outdate(self), "the newest of each is known now");
        is_new
    }

    /// Whether a member that knows these answers a lead that counts for `counted`.
    pub fn allow(&self, counted: &Lives) -> bool {
        self.0.iter().all(|(member, known)| {
            counted.of(*member).is_some_and(|it| it == *known || it.number > known.number)
        })
    }

    /// Whether one of these is newer than what a lead counts for.
    pub fn outdate(&self, counted: &Lives) -> bool {
        let is_newer = |(member, known): (&u64, &Life)| {
            counted.of(*member).is_some_and(|it| it.number < known.number)
        };
        self.0.iter().any(is_newer)
    }
}

/// The lives that this node's newest campaign counts for, or the lead that it became.
#[derive(Default)]
pub(crate) struct Lead(Mutex<Option<(LeaderId<u64>, Lives)>>);

impl Lead {
    /// The lives for a message of a lead. Of a member that was not known when it began nothing was
    /// counted yet: it is taken in. `None`: a newer campaign has begun, and the lead is over.
    pub fn by(&self, lead: LeaderId<u64>, known: &Lives) -> Option<Lives> {
        let mut counted = lock(&self.0);
        match &mut *counted {
            Some((newer, _)) if *newer > lead => return None,
            Some((same, lives)) if *same == lead => {
                for (member, life) in &known.0 {
                    lives.0.entry(*member).or_insert(*life);
                }
            }
            other => *other = Some((lead, known.clone())),
        }
        debug_assert!(counted.as_ref().is_some_and(|(of, lives)| {
            *of == lead && known.0.keys().all(|member| lives.of(*member).is_some())
        }));
        counted.as_ref().map(|(_, lives)| lives.clone())
    }

    /// Whether a lead counts for a life that is known to be over.
    pub fn is_outdated(&self, lead: LeaderId<u64>, known: &Lives) -> bool {
        let counted = lock(&self.0);
        let own = counted.as_ref().filter(|(of, _)| *of == lead);
        own.is_some_and(|(_, lives)| known.outdate(lives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(of: &[(u64, u64)]) -> Lives {
        Lives(
            of.iter()
                .map(|(member, number)| (*member, Life { number: *number, salt: 0 }))
                .collect(),
        )
    }

    #[test]
    fn a_lead_that_counts_for_a_life_that_is_over_is_refused() {
        let known = lives(&[(1, 0), (2, 1)]);
        assert!(known.allow(&lives(&[(1, 0), (2, 1)])));
        assert!(known.allow(&lives(&[(1, 3), (2, 1), (3, 9)])), "it has heard more");
        assert!(!known.allow(&lives(&[(1, 0), (2, 0)])));
        assert!(!known.allow(&lives(&[(1, 0)])), "it has not heard of 2 at all");
        let mut other = known.clone();
        other.0.insert(2, Life { number: 1, salt: 5 });
        assert!(!known.allow(&other), "the same number, and not the same life");
        let mut learned = lives(&[(1, 2)]);
        assert!(learned.learn(&known));
        assert!(!learned.learn(&known));
        assert_eq!(learned, lives(&[(1, 2), (2, 1)]));
    }

    #[test]
    fn a_lead_counts_for_the_same_lives_to_its_end() {
        let (counted, old, new) = (Lead::default(), LeaderId::new(1, 1), LeaderId::new(2, 1));
        let first = lives(&[(1, 0), (2, 0)]);
        assert_eq!(counted.by(old, &first), Some(first.clone()));
        let later = lives(&[(1, 0), (2, 1), (3, 0)]);
        assert_eq!(counted.by(old, &later), Some(lives(&[(1, 0), (2, 0), (3, 0)])));
        assert!(counted.is_outdated(old, &later) && !counted.is_outdated(old, &first));
        assert_eq!(counted.by(new, &later), Some(later.clone()));
        assert_eq!(counted.by(old, &later), None, "a message of the lead that is over");
        assert!(!counted.is_outdated(new, &later));
    }
}
