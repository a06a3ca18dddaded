//! Ballots of the last blocks: what each organisation has said, whenever it is heard.
//!
//! A block is decided as soon as enough is known, which may be before all have voted. What comes
//! later counts all the same: in the end each organisation has the same votes of a block, in
//! whatever order they came, and where a block had no result, each vote is told.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kit::sync::lock;
use ledger::votes::Vote;
use ledger::{Electors, Hash};
use tokio::sync::Notify;
use types::Height;

use crate::ballot::{AGAIN_MAX, Ballot, Stage, Taken, Verdict, short};

/// Blocks below the last one that was agreed on, and above the last one that was ordered, of which
/// votes are kept.
const KEPT: u64 = 16;

#[derive(Default)]
pub(crate) struct Polls {
    polls: Mutex<BTreeMap<(Height, Stage), Poll>>,
    /// When there is a vote more.
    heard: Notify,
}

struct Poll {
    ballot: Ballot,
    /// No value can have enough, which was told with the votes up to then.
    is_split: bool,
}

/// What one organisation has said of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Voted {
    pub height: Height,
    pub stage: Stage,
    pub member: u64,
    pub value: Hash,
}

impl Polls {
    pub fn heard(&self) -> &Notify {
        &self.heard
    }

    /// Counts a vote; what is to be told of it.
    pub fn count(
        &self,
        electors: &Electors,
        (height, stage): (Height, Stage),
        (ordered, agreed): (Height, Height),
        vote: Vote,
    ) -> Option<String> {
        let kept = agreed.saturating_sub(KEPT)..=ordered.saturating_add(KEPT);
        if !kept.contains(&height) {
            return None;
        }
        let mut polls = lock(&self.polls);
        // No more than the heights that are kept, and few stages each.
        polls.retain(|(height, _), _| kept.contains(height));
        let poll =
            polls.entry((height, stage)).or_insert_with(|| Poll::new(electors, height, stage));
        let member = vote.member;
        let was_reported = poll.ballot.contradicting().contains(&member);
        let taken = poll.ballot.count(vote);
        let is_split = poll.is_split;
        drop(polls);
        match taken {
            Taken::First => self.heard.notify_waiters(),
            Taken::Contradicting if !was_reported => {
                let what = stage_name(stage, height);
                return Some(format!("organisation {member} has signed two values for {what}"));
            }
            Taken::Again | Taken::Contradicting | Taken::Foreign => {}
        }
        (taken == Taken::First && is_split).then(|| {
            let value = short(&vote.said.result_hash);
            format!("organisation {member} has {value} for {}", stage_name(stage, height))
        })
    }

    /// What the votes come to, and the members that have not given theirs; with what is to be told,
    /// the first time that no value can have enough.
    pub fn verdict(
        &self,
        electors: &Electors,
        (height, stage): (Height, Stage),
        own: Hash,
    ) -> (Verdict, Vec<u64>, Option<String>) {
        let mut polls = lock(&self.polls);
        let poll =
            polls.entry((height, stage)).or_insert_with(|| Poll::new(electors, height, stage));
        let verdict = poll.ballot.verdict(own);
        let is_new = verdict == Verdict::Split && !poll.is_split;
        poll.is_split |= is_new;
        let reported = is_new.then(|| {
            let one = |(member, value): (u64, Hash)| format!("{member}: {}", short(&value));
            let votes: Vec<String> = poll.ballot.values().map(one).collect();
            let (what, enough) = (stage_name(stage, height), poll.ballot.enough());
            format!("{what} has no value with {enough} votes: {}", votes.join(", "))
        });
        (verdict, poll.ballot.lacking(), reported)
    }

    /// Votes of blocks from a height on.
    pub fn since(&self, height: Height) -> Vec<Voted> {
        let polls = lock(&self.polls);
        let recent = polls.range((height, Stage::Order)..);
        let votes = recent.flat_map(|((height, stage), poll)| {
            poll.ballot.values().map(|(member, value)| {
                let (height, stage) = (*height, *stage);
                Voted { height, stage, member, value }
            })
        });
        votes.collect()
    }
}

impl Poll {
    fn new(electors: &Electors, height: Height, stage: Stage) -> Poll {
        Poll { ballot: Ballot::new(stage, electors, height), is_split: false }
    }
}

/// What is voted on, for people.
pub(crate) fn stage_name(stage: Stage, height: Height) -> String {
    match stage {
        Stage::Order => format!("the order of block {height}"),
        Stage::Result => format!("block {height}"),
        Stage::Again(round) => format!("block {height}, run again ({round} of {AGAIN_MAX})"),
    }
}

#[cfg(test)]
mod tests {
    use ledger::signatures::SecretKey;

    use super::*;

    fn key(member: u64) -> SecretKey {
        SecretKey::of_seed([member as u8; 32])
    }

    /// What three members of which all must agree are told of votes that come in this order, and
    /// asked for a verdict after each.
    fn reported(order: [(u64, u8); 3]) -> Vec<String> {
        let keys = (1..=3).map(|id| (id, key(id).public())).collect();
        let electors = Electors { ledger_id: [7; 16], keys, votes: 3, liars: 0, above: None };
        let (polls, place) = (Polls::default(), (5, Stage::Result));
        let mut reported = Vec::new();
        for (member, value) in order {
            let said = Ballot::new(Stage::Result, &electors, 5).said([value; 32]);
            let vote = key(member).vote([7; 16], member, said);
            for _ in 0..2 {
                reported.extend(polls.count(&electors, place, (5, 4), vote));
            }
            reported.extend(polls.verdict(&electors, place, [1; 32]).2);
        }
        assert_eq!(polls.since(5).len(), 3);
        assert_eq!(polls.since(6), []);
        reported
    }

    #[test]
    fn where_no_value_has_enough_each_vote_is_told_once_in_whatever_order() {
        let all = [(1, 1), (2, 2), (3, 1)];
        for (a, b, c) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
            let reported = reported([all[a], all[b], all[c]]).join("\n");
            for (member, value) in all {
                let value = short(&[value; 32]);
                let named = reported.matches(&format!("{member}: {value}")).count()
                    + reported.matches(&format!("organisation {member} has {value}")).count();
                assert_eq!(named, 1, "{reported}");
            }
        }
    }

    #[test]
    fn votes_of_blocks_far_away_are_not_kept() {
        let keys = (1..=3).map(|id| (id, key(id).public())).collect();
        let electors = Electors { ledger_id: [7; 16], keys, votes: 2, liars: 0, above: None };
        let polls = Polls::default();
        for height in 1..1000 {
            let said = Ballot::new(Stage::Result, &electors, height).said([1; 32]);
            let vote = key(2).vote([7; 16], 2, said);
            polls.count(&electors, (height, Stage::Result), (100, 99), vote);
        }
        let kept: Vec<Height> = polls.since(0).iter().map(|it| it.height).collect();
        assert_eq!(kept, (99 - KEPT..=100 + KEPT).collect::<Vec<_>>());
    }
}
