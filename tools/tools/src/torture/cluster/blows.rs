//! The faults that the cluster torture injects (kills, freezes, partitions, lost data, full disks,
//! wrong clocks), and which comes next.

use kit::random::Random;
use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Blow {
    KillLeader,
    KillFollower,
    KillMajority,
    FreezeLeader,
    FreezeFollower,
    /// All but a minority with the leader.
    FreezeMajority,
    EmptyLeader,
    EmptyFollower,
    SetBackLeader,
    SetBackFollower,
    FillLeader,
    FillFollower,
    LeaderAhead,
    FollowerAhead,
    LeaderBehind,
    FollowerBehind,
}

impl Blow {
    pub const ALL: [Blow; 16] = [
        Blow::KillLeader,
        Blow::KillFollower,
        Blow::KillMajority,
        Blow::FreezeLeader,
        Blow::FreezeFollower,
        Blow::FreezeMajority,
        Blow::EmptyLeader,
        Blow::EmptyFollower,
        Blow::SetBackLeader,
        Blow::SetBackFollower,
        Blow::FillLeader,
        Blow::FillFollower,
        Blow::LeaderAhead,
        Blow::FollowerAhead,
        Blow::LeaderBehind,
        Blow::FollowerBehind,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Blow::KillLeader => "leader killed",
            Blow::KillFollower => "follower killed",
            Blow::KillMajority => "majority killed",
            Blow::FreezeLeader => "leader frozen",
            Blow::FreezeFollower => "follower frozen",
            Blow::FreezeMajority => "majority frozen",
            Blow::EmptyLeader => "leader's data lost",
            Blow::EmptyFollower => "follower's data lost",
            Blow::SetBackLeader => "leader set back to a copy",
            Blow::SetBackFollower => "follower set back to a copy",
            Blow::FillLeader => "leader's disk full",
            Blow::FillFollower => "follower's disk full",
            Blow::LeaderAhead => "leader's clock ahead",
            Blow::FollowerAhead => "follower's clock ahead",
            Blow::LeaderBehind => "leader's clock behind",
            Blow::FollowerBehind => "follower's clock behind",
        }
    }

    pub fn freezes(self) -> bool {
        matches!(self, Blow::FreezeLeader | Blow::FreezeFollower | Blow::FreezeMajority)
    }

    pub fn kills(self) -> bool {
        self.empties() || self.sets_back() || {
            matches!(self, Blow::KillLeader | Blow::KillFollower | Blow::KillMajority)
        }
    }

    pub fn empties(self) -> bool {
        matches!(self, Blow::EmptyLeader | Blow::EmptyFollower)
    }

    pub fn sets_back(self) -> bool {
        matches!(self, Blow::SetBackLeader | Blow::SetBackFollower)
    }

    /// What the leader acknowledged with one follower alone is on no other disk, when the two die
    /// and the follower comes back without it.
    pub fn forgets_behind_leader(self) -> bool {
        matches!(self, Blow::EmptyFollower | Blow::SetBackFollower)
    }

    pub fn fills(self) -> bool {
        matches!(self, Blow::FillLeader | Blow::FillFollower)
    }

    /// By so many seconds the clock is set, to this side.
    pub fn clock_s(self) -> Option<i64> {
        match self {
            Blow::LeaderAhead | Blow::FollowerAhead => Some(600),
            Blow::LeaderBehind | Blow::FollowerBehind => Some(-600),
            _ => None,
        }
    }

    pub fn hits_leader(self) -> bool {
        matches!(
            self,
            Blow::KillLeader
                | Blow::FreezeLeader
                | Blow::EmptyLeader
                | Blow::SetBackLeader
                | Blow::FillLeader
                | Blow::LeaderAhead
                | Blow::LeaderBehind
        )
    }
}

/// Of one kind, what was done.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    pub kind: &'static str,
    pub times: u64,
    /// Why it cannot be done here.
    pub skipped: Option<String>,
    /// From the blow until a survivor has acknowledged a write, where enough of them were left.
    pub writes_again_ms_max: Option<u64>,
}

impl Tried {
    pub fn none() -> Vec<Tried> {
        let none = |blow: Blow| Tried {
            kind: blow.name(),
            times: 0,
            skipped: None,
            writes_again_ms_max: None,
        };
        Blow::ALL.map(none).into()
    }

    pub fn line(&self) -> String {
        let Tried { kind, times, skipped, writes_again_ms_max } = self;
        let said = match (times, skipped) {
            (0, Some(why)) => format!("none: {why}"),
            (0, None) => "none: the time was too short".to_owned(),
            _ => times.to_string(),
        };
        let again = writes_again_ms_max.map(|ms| format!(", writes again after {ms} ms at most"));
        format!("  {kind:<30} {said}{}\n", again.unwrap_or_default())
    }
}

/// Each kind once, in an order that is drawn, and then again.
#[derive(Default)]
pub struct Deck {
    left: Vec<Blow>,
    dealt: u64,
}

impl Deck {
    pub fn next(&mut self, random: &mut Random, can: impl Fn(Blow) -> bool) -> Blow {
        if self.left.is_empty() {
            self.left = Blow::ALL.into_iter().filter(|blow| can(*blow)).collect();
            self.dealt += 1;
            for last in (1..self.left.len()).rev() {
                self.left.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        self.left.pop().unwrap_or(Blow::KillLeader)
    }

    /// Whether each kind came once.
    pub fn is_through(&self) -> bool {
        self.dealt > 1 || self.dealt == 1 && self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_that_can_be_done_comes_once_a_deck() {
        let (mut deck, mut random) = (Deck::default(), Random::new(3));
        let mut orders = BTreeSet::new();
        assert!(!deck.is_through());
        for _ in 0..3 {
            let dealt: Vec<Blow> =
                (0..14).map(|_| deck.next(&mut random, |blow| !blow.fills())).collect();
            let kinds: BTreeSet<Blow> = dealt.iter().copied().collect();
            assert_eq!(kinds.len(), 14);
            assert!(kinds.iter().all(|blow| !blow.fills()));
            orders.insert(dealt);
        }
        assert_eq!(orders.len(), 3, "in other orders");
        assert!(deck.is_through());
    }

    #[test]
    fn a_kind_that_was_not_tried_says_so() {
        let mut tried = Tried::none();
        assert!(tried[0].line().contains("leader killed") && tried[0].line().contains("none"));
        tried[0].skipped = Some("only root may".to_owned());
        assert!(tried[0].line().contains("none: only root may"));
        tried[0].times = 3;
        assert!(tried[0].line().trim_end().ends_with(" 3"), "{}", tried[0].line());
    }
}
