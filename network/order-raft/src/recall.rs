//! A member that may have forgotten what it promised, and the others' word for it.
//!
//! ```text
//! a start finds       doubt     asks each voter: what do you have?      then
//! all as it was       none      no one                                 takes part at once
//! no file of votes    new       all of them                            begins, if all are new
//! copied files        copied    more than half, or all                 takes part from there on
//! a ledger taken anew lost      more than half that forgot nothing     takes part from there on
//! ```
//!
//! Raft counts a member's acknowledgements and votes as kept for good. One whose folder was
//! emptied, or put back from a copy, would break two promises: an entry that it helped to commit
//! could be outvoted by others that never had it, and it could vote again in a term that it has
//! voted in. So such a member stands aside: it has no Raft, so it neither votes, stands nor
//! acknowledges, until a majority *without it* has let it.
//!
//! **Incarnations.** It begins [another incarnation](crate::incarnations), and asks the voters what
//! they have. One that is asked keeps the new incarnation on its disk before it answers, and from
//! then on answers no lead and no campaign that counts for an older one. Of n voters, of which m
//! are a majority, n - m + 1 *witnesses* are enough: others, which are not in doubt themselves and
//! lack nothing that they may have helped to commit. Every majority with the member in doubt has
//! one of them.
//!
//! **Invariants.** *V* is the member in doubt, *C* a majority that V's old incarnation was counted
//! in, *w* a witness in C. C is counted by one lead, for one incarnation of V, the old one: all of
//! its messages name the same incarnations. V keeps the highest vote of all that it hears, and the
//! highest last entry: *the least* that a leader must have to get its vote.
//!
//! 1. *What C has committed, or commits later, is in a log that ends with the least.* w has
//!    acknowledged it before it was asked, since it refuses that lead afterwards; so it was in its
//!    log when it answered. (A leader that is asked has the entry in its log before V could
//!    acknowledge it, and syncs its log before it answers; one that was not synced when it crashed
//!    has not counted itself, so it is not in C.) The log with the highest last entry among several
//!    has all committed entries that any of them has (leader completeness).
//! 2. *V votes for none that lacks it*: it grants no candidate whose last entry is below the least,
//!    nor stands itself below it. Any leader that is elected without V's vote has the entry from
//!    a majority that shares a member with the one that committed it.
//! 3. *V breaks no vote that C counts.* w has voted with C before it was asked, so that V adopts
//!    that vote or a higher one; or it was asked before, and then it refuses that campaign. What V
//!    adopts is not confirmed: so it never resumes a lead that it had.
//! 4. *No two incarnations have one number.* Any two sets of n - m + 1 others share one, which has
//!    kept the newest number that V has taken part with: V takes a higher one. What V knew of the
//!    others' incarnations it learns again, by the same argument.
//! 5. *Who is asked* follows from the log with the highest last entry: its newest members. Each of
//!    two sets of voters has its witnesses.
//! 6. *Where witnesses are too few, all voters are heard*, and copies count for what they hold:
//!    those that have not lost their data must still be n - m + 1. Then no one knows better. Where
//!    more are lost than that, nothing in the cluster knows what they had, and its owner decides.
//!    One that goes on, and was not sent the least yet, remembers no more than before.
//! 7. *A cluster begins when all its founders have met*, since one whose folder was emptied is as
//!    good as new. Each draws a salt for its incarnation in its folder, and keeps the others' when
//!    it begins. A new one that is known so to all that have begun has had no incarnation before
//!    that they could have counted on: they counted on nothing before they began. A copy of one
//!    that was new draws another salt, as the folder that it was copied from may have begun since.
//!
//! A leader that hears of a newer incarnation than it counts for [gives its lead
//! up](crate::incarnations), and stands again: a second without writes at most.
//!
//! A member that a leader, by the word of more than half, has as none of its voters has promised
//! nothing that counts: it takes part at once, and is sent the log.
//!
//! **What is seen of a copy.** Each start writes a new file of votes, with the number and the time
//! of birth that the file system gave it ([`ledger::files::Identity`]); another start that finds it
//! in another file has a copy before it. A folder that was only moved to another disk is taken for
//! one, too, which costs a question. A member whose newer incarnation the others know is a copy in
//! any case, and finds that out when it is sent the log. *Not seen*: a whole file system or machine
//! that was set back, which keeps such numbers, and older files that are written over those of the
//! ledger in place, as long as no newer incarnation has begun since.
//!
//! **Cost.** Nothing where nothing is in doubt, but for the incarnations in the head of each
//! message.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{LogId, Vote};
use serde::{Deserialize, Serialize};

use crate::incarnations::{Incarnation, Incarnations};

/// Why a member's own word does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Doubt {
    /// It has never voted, as far as its folder tells.
    New,
    /// Its folder is a copy of one, perhaps an old one.
    Copied,
    /// It had nothing any more, and took the ledger from another member.
    Lost,
}

/// What a member has on its disk.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Recalled {
    pub vote: Option<Vote<u64>>,
    pub last: Option<LogId<u64>>,
    /// What it may have helped to commit, and perhaps lacks still.
    pub least: Option<LogId<u64>>,
    /// Also where it lacks that: until then it remembers no more than it did.
    pub doubt: Option<Doubt>,
    /// Its newest members: one set of voters, or two while they change.
    pub voters: Vec<BTreeSet<u64>>,
    #[serde(rename = "life")]
    pub incarnation: Incarnation,
    /// Of the others, the one that asks too, as far as it has heard.
    #[serde(rename = "lives")]
    pub incarnations: Incarnations,
    /// Salt of the incarnation in which this one met the member that asks, before either had
    /// promised anything.
    pub met: Option<u64>,
    /// More than half follow this one, and the member that asks is no voter of theirs.
    pub is_stranger: bool,
}

/// What a member in doubt goes on with.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Recovered {
    pub vote: Option<Vote<u64>>,
    pub least: Option<LogId<u64>>,
    /// Salts of the others' incarnations.
    pub met: BTreeMap<u64, u64>,
    pub incarnations: Incarnations,
}

/// Why it cannot go on yet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lacking {
    /// Not heard from.
    pub unheard: BTreeSet<u64>,
    /// They have lost their data too, and so many remain too few.
    pub lost: BTreeSet<u64>,
}

impl Recalled {
    /// Whether it has kept the incarnation that a member in doubt goes on with.
    fn knows(&self, id: u64, own: &Recalled) -> bool {
        self.incarnations.of(id) == Some(own.incarnation)
    }
}

/// A number for the incarnation of a member in doubt, if one as high as its own is known of
/// another.
pub(crate) fn newer_incarnation(
    id: u64,
    own: &Recalled,
    heard: &BTreeMap<u64, Recalled>,
) -> Option<u64> {
    let known =
        heard.values().filter(|it| !it.knows(id, own)).filter_map(|it| it.incarnations.of(id));
    let newest = known.map(|incarnation| incarnation.number).max()?;
    (newest >= own.incarnation.number).then_some(newest + 1)
}

/// See the module. `named`: the members, where no log says.
pub(crate) fn judge(
    id: u64,
    own: &Recalled,
    heard: &BTreeMap<u64, Recalled>,
    named: &BTreeSet<u64>,
) -> Result<Recovered, Lacking> {
    let heard: BTreeMap<u64, &Recalled> = heard
        .iter()
        .filter(|(_, it)| it.knows(id, own))
        .map(|(member, it)| (*member, it))
        .collect();
    // None resumes a lead: it would write other entries under the numbers of those that it forgot.
    let unconfirmed = |vote: Vote<u64>| Vote { committed: false, ..vote };
    if heard.values().any(|it| it.is_stranger) {
        let vote = own.vote.map(unconfirmed);
        return Ok(Recovered {
            vote,
            incarnations: incarnations_of(&heard),
            ..Recovered::default()
        });
    }
    let all = || heard.values().copied().chain([own]);
    let least = all().filter_map(|it| it.last.max(it.least)).max();
    let newest = all().max_by_key(|it| it.last).map_or(&own.voters, |it| &it.voters);
    let alone = [named.clone()];
    let voters = if newest.is_empty() { &alone[..] } else { newest };
    let others = |set: &BTreeSet<u64>| -> BTreeSet<u64> {
        set.iter().copied().filter(|member| *member != id).collect()
    };
    let recovered = || {
        let mut vote = None;
        for one in all().filter_map(|it| it.vote).map(unconfirmed) {
            vote = Some(vote.map_or(one, |vote| if one > vote { one } else { vote }));
        }
        debug_assert!(least >= own.last, "it keeps to what it has itself");
        assert!(vote.is_none_or(|vote| !vote.committed), "none resumes a lead");
        let met = heard.iter().map(|(member, it)| (*member, it.incarnation.salt)).collect();
        Ok(Recovered { vote, least, met, incarnations: incarnations_of(&heard) })
    };
    let is_witness = |member: &u64| heard.get(member).is_some_and(|it| it.doubt.is_none());
    let witnesses =
        |set: &BTreeSet<u64>| others(set).iter().filter(|member| is_witness(member)).count();
    if voters.iter().all(|set| witnesses(set) >= witnesses_of(set.len())) {
        return recovered();
    }
    let unheard: BTreeSet<u64> = voters.iter().flat_map(others).collect();
    let unheard: BTreeSet<u64> =
        unheard.into_iter().filter(|member| !heard.contains_key(member)).collect();
    if !unheard.is_empty() {
        return Err(Lacking { unheard, ..Lacking::default() });
    }
    let forgets = |it: &Recalled| match it.doubt {
        Some(Doubt::Lost) => true,
        Some(Doubt::New) => least.is_some(),
        Some(Doubt::Copied) | None => false,
    };
    let begun = || heard.values().filter(|it| it.doubt != Some(Doubt::New));
    let is_founder =
        own.doubt == Some(Doubt::New) && begun().all(|it| it.met == Some(own.incarnation.salt));
    if forgets(own) && !is_founder {
        for set in voters {
            let (remember, lost): (BTreeSet<u64>, BTreeSet<u64>) =
                others(set).into_iter().partition(|it| !heard.get(it).is_none_or(|it| forgets(it)));
            if remember.len() < witnesses_of(set.len()) {
                return Err(Lacking { lost, ..Lacking::default() });
            }
        }
    }
    recovered()
}

/// So many of the others that every majority of all with a member in it has one of them.
fn witnesses_of(voters: usize) -> usize {
    let witnesses = voters - (voters / 2 + 1) + 1;
    debug_assert!(witnesses + voters / 2 + 1 > voters, "a majority has one of them");
    witnesses
}

/// All that they know of, and their own.
fn incarnations_of(heard: &BTreeMap<u64, &Recalled>) -> Incarnations {
    let mut incarnations = Incarnations::default();
    for (member, it) in heard {
        incarnations.learn(&it.incarnations.with(*member, it.incarnation));
    }
    incarnations
}

#[cfg(test)]
mod tests {
    use openraft::CommittedLeaderId;

    use super::*;

    fn last(term: u64, index: u64) -> Option<LogId<u64>> {
        Some(LogId::new(CommittedLeaderId::new(term, 1), index))
    }

    fn has(doubt: Option<Doubt>, last: Option<LogId<u64>>) -> Recalled {
        let voters = vec![BTreeSet::from([1, 2, 3])];
        let vote = last.map(|last| Vote::new_committed(last.leader_id.term, 1));
        Recalled { vote, last, doubt, voters, ..Recalled::default() }
    }

    fn judged(own: &Recalled, heard: &[(u64, Recalled)]) -> Result<Recovered, Lacking> {
        let named = BTreeSet::from([1, 2, 3]);
        let knows = |(member, it): &(u64, Recalled)| (*member, answer_to(2, own, it));
        judge(2, own, &heard.iter().map(knows).collect(), &named)
    }

    /// It has kept the incarnation of the member that asks.
    fn answer_to(id: u64, own: &Recalled, it: &Recalled) -> Recalled {
        Recalled { incarnations: Incarnations::default().with(id, own.incarnation), ..it.clone() }
    }

    #[test]
    fn every_other_voter_is_heard() {
        let (own, other) = (has(Some(Doubt::Copied), last(1, 5)), has(None, last(1, 9)));
        let lacking = judged(&own, &[(1, other.clone())]).unwrap_err();
        assert_eq!(lacking.unheard, BTreeSet::from([3]));
        let recovered = judged(&own, &[(1, other), (3, has(None, last(2, 3)))]).unwrap();
        assert_eq!(recovered.least, last(2, 3), "the later term has what was committed before");
        assert_eq!(recovered.vote, Some(Vote::new(2, 1)), "not confirmed");
    }

    /// Of five, three others are enough, unless they are in doubt themselves or lack something.
    #[test]
    fn a_majority_without_it_lets_it() {
        let five = vec![(1..=5).collect::<BTreeSet<u64>>()];
        let of = |doubt, last| Recalled { voters: five.clone(), ..has(doubt, last) };
        let judged = |own: &Recalled, heard: &[(u64, Recalled)]| judged(own, heard);
        for doubt in [Doubt::New, Doubt::Copied, Doubt::Lost] {
            let own = of(Some(doubt), last(1, 2));
            let two = [(1, of(None, last(1, 9))), (3, of(None, last(2, 3)))];
            let three = |third| [&two[..], &[(4, third)]].concat();
            let recovered = judged(&own, &three(of(None, last(1, 1)))).unwrap();
            assert_eq!((recovered.least, recovered.vote), (last(2, 3), Some(Vote::new(2, 1))));
            let others = BTreeSet::from([4, 5]);
            assert_eq!(judged(&own, &two).unwrap_err().unheard, others);
            for doubt in [Doubt::New, Doubt::Copied, Doubt::Lost] {
                let lacking = judged(&own, &three(of(Some(doubt), last(1, 9)))).unwrap_err();
                assert_eq!(lacking.unheard, BTreeSet::from([5]));
            }
        }
    }

    /// Only those count that have kept the incarnation which it goes on with.
    #[test]
    fn another_incarnation_of_its_own_is_passed_over() {
        let own = has(Some(Doubt::Lost), None);
        let old = Incarnations::default().with(2, Incarnation { number: 6, salt: 1 });
        let knows_other = |incarnations| Recalled { incarnations, ..has(None, last(1, 9)) };
        let heard = BTreeMap::from([(1, knows_other(old)), (3, has(None, last(1, 9)))]);
        let named = BTreeSet::from([1, 2, 3]);
        let lacking = judge(2, &own, &heard, &named).unwrap_err();
        assert_eq!(lacking.unheard, BTreeSet::from([1, 3]));
        assert_eq!(newer_incarnation(2, &own, &heard), Some(7));
        let incarnation = Incarnation { number: 7, salt: 3 };
        let own = Recalled { incarnation, ..own };
        assert_eq!(newer_incarnation(2, &own, &heard), None, "it only has to be told");
    }

    #[test]
    fn one_that_lost_its_data_needs_others_that_have_theirs() {
        let own = has(Some(Doubt::Lost), last(1, 2));
        let (intact, lost) = (has(None, last(1, 9)), has(Some(Doubt::Lost), last(1, 2)));
        let lacking = judged(&own, &[(1, intact.clone()), (3, lost)]).unwrap_err();
        assert_eq!(lacking.lost, BTreeSet::from([3]));
        let copied = has(Some(Doubt::Copied), last(1, 9));
        assert!(judged(&own, &[(1, intact.clone()), (3, copied)]).is_ok());
        // One that goes on, and lacks what it may have helped to commit.
        let lacks = Recalled { least: last(1, 9), ..has(Some(Doubt::Lost), last(1, 4)) };
        let behind = has(None, last(1, 4));
        let lacking = judged(&own, &[(1, behind.clone()), (3, lacks.clone())]).unwrap_err();
        assert_eq!(lacking.lost, BTreeSet::from([3]));
        let copied = has(Some(Doubt::Copied), last(1, 7));
        let recovered = judged(&copied, &[(1, behind), (3, lacks)]).unwrap();
        assert_eq!(recovered.least, last(1, 9), "also of what no log has any more");
        // Like a new one, beside others that are not.
        let own = has(Some(Doubt::New), None);
        let new = has(Some(Doubt::New), None);
        assert!(judged(&own, &[(1, intact.clone()), (3, new.clone())]).is_err());
        let recovered = judged(&own, &[(1, new.clone()), (3, new.clone())]).unwrap();
        assert_eq!((recovered.vote, recovered.least), (None, None));
        // The others may have begun meanwhile, with this one as it is.
        let own = Recalled { incarnation: Incarnation { number: 0, salt: 7 }, ..own };
        let met = Recalled { met: Some(7), ..intact.clone() };
        assert!(judged(&own, &[(1, met.clone()), (3, new)]).is_ok());
        let before = Recalled { met: Some(6), ..intact };
        assert!(judged(&own, &[(1, met), (3, before.clone())]).is_ok(), "two remember");
        let own = Recalled { incarnation: Incarnation { number: 0, salt: 8 }, ..own };
        assert!(judged(&own, &[(1, before), (3, has(Some(Doubt::Lost), None))]).is_err());
    }

    #[test]
    fn a_member_that_never_voted_goes_on_at_once() {
        let own = has(Some(Doubt::Lost), last(1, 2));
        let leader = Recalled { is_stranger: true, ..has(None, last(1, 9)) };
        let recovered = judged(&own, &[(1, leader)]).unwrap();
        assert_eq!((recovered.vote, recovered.least), (Some(Vote::new(1, 1)), None));
    }

    /// The newest log says who is to be asked, also one that is heard late.
    #[test]
    fn members_that_came_later_are_heard_too() {
        let own = has(Some(Doubt::Copied), last(1, 5));
        let voters = vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 4])];
        let newer = Recalled { voters, ..has(None, last(1, 9)) };
        let lacking = judged(&own, &[(1, newer), (3, has(None, last(1, 4)))]).unwrap_err();
        assert_eq!(lacking.unheard, BTreeSet::from([4]));
    }

    /// All logs and all quorums of five small worlds: what V helped to commit is below the least.
    #[test]
    fn the_least_has_what_was_committed_with_the_member_in_doubt() {
        for (members, mask) in (1..=5u64).flat_map(|n| (0..1u64 << n).map(move |mask| (n, mask))) {
            let all: BTreeSet<u64> = (1..=members).collect();
            let quorum: BTreeSet<u64> =
                all.iter().copied().filter(|it| mask >> (it - 1) & 1 == 1).collect();
            let (me, majority) = (1, members as usize / 2 + 1);
            if !quorum.contains(&me) || quorum.len() < majority {
                continue;
            }
            for lost in 0..1u64 << members {
                let of = |member: u64| {
                    let forgot = member == me || lost >> (member - 1) & 1 == 1;
                    let had = quorum.contains(&member) && !forgot;
                    let doubt = forgot.then_some(Doubt::Lost);
                    let voters = vec![all.clone()];
                    Recalled {
                        last: if had { last(1, 9) } else { last(1, 4) },
                        doubt,
                        voters,
                        ..Recalled::default()
                    }
                };
                let heard: BTreeMap<u64, Recalled> = all
                    .iter()
                    .filter(|it| **it != me)
                    .map(|it| (*it, answer_to(me, &of(me), &of(*it))))
                    .collect();
                if let Ok(recovered) = judge(me, &of(me), &heard, &all) {
                    assert_eq!(recovered.least, last(1, 9), "{members}: {quorum:?}, lost {lost:b}");
                }
            }
        }
    }
}
