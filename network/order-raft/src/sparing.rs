//! Followers whose acknowledgement a leader does not need are sent several entries at a time.
//!
//! ```text
//! entries         1   2   3   4   5   6   7   8   9
//! follower A      ●   ●   ●   ●   ●   ●   ●   ●   ●     each is committed by it and the leader
//! follower B      ●───────────────┤2-5├───────────┤6-9  spared: what it has acknowledged is
//!                     SPARED_FOR                        kept back a while
//! ```
//!
//! *Why.* An entry costs each member it is sent to a message, a sync and an answer, and the
//! leader half as much again, whatever it holds: more than to execute a small transaction. Of three
//! members one follower's acknowledgement is needed. Leaders that send to a majority alone are
//! called thrifty (Moraru, Andersen and Kaminsky); here the others are sent it too, a bit later.
//!
//! *Who.* A follower that acknowledges what a majority has without it was not needed. From then on
//! it is spared: openraft, which sends a member its next entries when it has acknowledged the last,
//! is told of the acknowledgement [`SPARED_FOR`] after the message was sent. As many are spared as
//! a majority can do without.
//!
//! *When not.* What waits for an acknowledgement twice as long as most do, as the others are slow
//! or gone, ends it, and so do members that ask the leader for something. One whose
//! acknowledgements were needed [`NEEDED_MAX`] times in a row is spared no longer: another one may
//! be instead. Where an acknowledgement takes half of [`SPARED_FOR`], no member is: one would
//! be late for long, and other things cost more there than its processor time.
//!
//! *Invariants.* Messages are late and nothing else, which Raft bears: nothing is counted before it
//! is synced, or other than it was sent. At least so many members are never spared that they and
//! the leader are a majority.
//!
//! *Elections.* A member that was spared may lack the newest entries, and would be refused by those
//! that have them, in a term that they then cannot use. It sees that it was, as it is sent what is
//! committed already ([`is_behind`]), and lets the others stand first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use kit::sync::lock;
use openraft::Vote;
use openraft::raft::AppendEntriesRequest;

use crate::raft_types::Types;

/// From one message to the next, to a member that is spared.
pub(crate) const SPARED_FOR: Duration = Duration::from_millis(5);
/// How often it is looked whether something waits for it, at most: a timer's tick.
const LOOK_MIN: Duration = Duration::from_millis(1);
/// As many entries go to it at once, needed or not.
pub(crate) const MANY: usize = 32;
/// In a row.
const NEEDED_MAX: u32 = 16;

/// Whether a leader sends what is committed without this member.
pub(crate) fn is_behind(append: &AppendEntriesRequest<Types>) -> Option<bool> {
    let first = append.entries.first()?.log_id.index;
    Some(append.leader_commit.is_some_and(|committed| committed.index >= first))
}

/// Of a leader: see the module.
#[derive(Default)]
pub(crate) struct Sparing(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whose lead it is, and by whose votes.
    lead: Option<(Vote<u64>, BTreeSet<u64>)>,
    /// The last entry that each has acknowledged.
    acknowledged: BTreeMap<u64, u64>,
    /// What those take that are needed, on average.
    takes: Duration,
    /// Those who are spared, and how often in a row they were needed.
    spared: BTreeMap<u64, u32>,
}

/// What a member has acknowledged.
#[derive(Clone, Copy)]
pub(crate) struct Acknowledged {
    pub member: u64,
    /// The last entry that it has.
    pub last: u64,
    /// Since it was sent.
    pub took: Duration,
}

impl Sparing {
    /// A voter has acknowledged what there is up to an entry. If that is kept back: after how long
    /// what waits for it has waited for too long.
    pub fn acknowledged(
        &self,
        lead: Vote<u64>,
        voters: &BTreeSet<u64>,
        Acknowledged { member, last, took }: Acknowledged,
    ) -> Option<Duration> {
        let state = &mut *lock(&self.0);
        if state.lead.as_ref().is_none_or(|known| (&known.0, &known.1) != (&lead, voters)) {
            *state = State { lead: Some((lead, voters.clone())), ..State::default() };
        }
        let State { acknowledged, spared, takes, .. } = state;
        acknowledged.insert(member, last);
        let others = acknowledged.iter().filter(|(it, to)| **it != member && **to >= last);
        let majority = voters.len() / 2 + 1;
        // The leader has it.
        let was_needed = 1 + others.count() < majority;
        if was_needed {
            *takes = (7 * *takes + took) / 8;
        }
        let has_room = spared.len() < voters.len() - majority;
        match spared.get_mut(&member) {
            Some(needed) if was_needed => {
                *needed += 1;
                if *needed == NEEDED_MAX {
                    spared.remove(&member);
                }
            }
            Some(needed) => *needed = 0,
            None if !was_needed && has_room => drop(spared.insert(member, 0)),
            None => {}
        }
        assert!(spared.len() <= voters.len() - majority, "a majority is never spared");
        let look = 2 * *takes;
        let is_kept = !was_needed && spared.contains_key(&member) && look < SPARED_FOR;
        is_kept.then(|| look.max(LOOK_MIN))
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    /// Members from 1, which leads, have acknowledged up to an entry.
    fn says(sparing: &Sparing, voters: u64, member: u64, last: u64) -> bool {
        is_kept(sparing, (1, voters), (member, last), Duration::from_micros(300))
    }

    fn is_kept(
        sparing: &Sparing,
        (term, voters): (u64, u64),
        (member, last): (u64, u64),
        took: Duration,
    ) -> bool {
        let (voters, lead) = ((1..=voters).collect(), Vote::new_committed(term, 1));
        let look = sparing.acknowledged(lead, &voters, Acknowledged { member, last, took });
        assert!(look.is_none_or(|look| look >= LOOK_MIN));
        look.is_some()
    }

    /// As between towns; and a stall is forgotten.
    #[test]
    fn where_each_takes_long_none_is_spared() {
        let sparing = Sparing::default();
        let kept = |last: u64, took_ms: u64| {
            let took = Duration::from_millis(took_ms);
            assert!(!is_kept(&sparing, (1, 3), (2, last), took));
            is_kept(&sparing, (1, 3), (3, last), took)
        };
        assert!(kept(0, 1));
        assert!((1..20).map(|last| kept(last, 8)).filter(|kept| *kept).count() < 5);
        assert!(!kept(20, 8));
        assert!((21..40).any(|last| kept(last, 1)), "they are near again");
    }

    #[test]
    fn the_last_of_three_is_spared_and_no_other() {
        let sparing = Sparing::default();
        assert!(!says(&sparing, 3, 2, 1));
        assert!(says(&sparing, 3, 3, 1));
        assert!(!says(&sparing, 3, 3, 2), "this one was needed");
        assert!(!says(&sparing, 3, 2, 2), "one is");
        assert!(!says(&sparing, 3, 2, 3));
        assert!(says(&sparing, 3, 3, 3));
        assert!(!says(&sparing, 2, 2, 4), "two are a majority of two");
        let took = Duration::ZERO;
        assert!(!is_kept(&sparing, (2, 3), (3, 9), took), "of another lead nothing is known");
        assert!(is_kept(&sparing, (2, 3), (2, 9), took));
    }

    #[test]
    fn one_that_is_needed_again_and_again_makes_way_for_another() {
        let sparing = Sparing::default();
        assert!(!says(&sparing, 3, 2, 0));
        assert!(says(&sparing, 3, 3, 0));
        for last in 1..u64::from(NEEDED_MAX) {
            assert!(!says(&sparing, 3, 3, last));
            assert!(!says(&sparing, 3, 2, last), "not yet");
        }
        assert!(!says(&sparing, 3, 3, 100));
        assert!(says(&sparing, 3, 2, 100));
        assert!(!says(&sparing, 3, 3, 100));
    }

    /// In any order of acknowledgements, by any number: those that are not spared and the
    /// leader are a majority, and what is kept back a majority has without it.
    #[test]
    fn with_the_leader_a_majority_is_never_spared() {
        let mut random = Random::new(7);
        for voters in 1..8 {
            let sparing = Sparing::default();
            let mut has = BTreeMap::new();
            for _ in 0..2_000 {
                let member = 2 + random.below(voters);
                let to = has.entry(member).or_insert(0);
                *to += random.below(3);
                let last = *to;
                let is_kept = says(&sparing, voters + 1, member, last);
                let spared = lock(&sparing.0).spared.len() as u64;
                assert!(2 * (voters + 1 - spared) > voters + 1, "{spared} of {voters}");
                let others = has.iter().filter(|(it, to)| **it != member && **to >= last);
                let without = 1 + others.count() as u64;
                assert!(!is_kept || 2 * without > voters + 1, "{without} of {voters} have it");
            }
        }
    }
}
