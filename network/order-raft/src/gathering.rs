//! When a leader drafts what waits: group commit by waiting for those who are about to come.
//!
//! ```text
//! clients  ┌─ 8 ─┐         ┌─ 8 ─┐                two halves: each block costs its messages,
//! drafts   ──────── 8 ─────────── 8 ──────        syncs and wake-ups for eight
//!              ── 8 ─────────── 8 ──
//!
//! clients  ┌─ 16 ─┐           ┌─ 16 ─┐            together: once for sixteen
//! drafts   ───────── 16 ──────────── 16 ──
//! ```
//!
//! *Why.* A block costs every member a message, a sync and some wake-ups of threads, whatever it
//! holds: as much as ten small transactions. A client that calls again when it is answered waits
//! for one block in any case, so nothing is lost where its call joins the others'.
//!
//! *The rule.* Beside a block that is under way, a draft waits for its end if that is near, as
//! the last blocks say. When a block was released, those whom it answers come back soon: a draft
//! waits for them a moment, which is half of what a block takes. Where they come later, as they
//! think, or have gone, that is tried less and less often. A lone client is never waited with.
//!
//! *Where nothing is waited for*: what fills a good block by itself, and where a block takes so
//! long on its way that its cost does not matter, as between towns; there the one is drafted beside
//! the other when as much has come as that holds.
//!
//! A value without a clock; times are microseconds of any monotonic one. Timers may be late by one
//! of their ticks, a millisecond or two: a wait that ended so is one in vain.

use std::collections::VecDeque;

/// A draft of so many envelopes costs little for each.
const MANY: usize = 64;
/// A block that takes longer on its way does so for other reasons than its cost.
const NEAR_US: u64 = 8_000;
/// For those who were answered to come back, at least and at most.
const MOMENT_US: std::ops::RangeInclusive<u64> = 100..=1_000;
/// Beside a block that is due.
const LATE_US: u64 = 1_000;
/// As often as no more is waited for in vain.
const SKIPPED_MAX: u32 = 1_023;
/// Drafts under way, those that never became a block included.
const DRAFTS_MAX: usize = 2;

struct Drafted {
    at_us: u64,
    envelopes: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Gathering {
    /// Those that were not released, the oldest first.
    drafts: VecDeque<Drafted>,
    released_us: u64,
    /// From a draft to its block's release, or from the release before that, on average.
    takes_us: u64,
    /// So many envelopes are about to wait, until then.
    expected: usize,
    until_us: u64,
    /// Blocks after which no client is waited for, and how many there will be if that fails again.
    skips: u32,
    skips_next: u32,
    /// It waits for others.
    is_waiting: bool,
}

/// Whether what waits is drafted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Now,
    /// When so many wait, or at that time, or when a block was released.
    Later {
        wanted: usize,
        at_us: Option<u64>,
    },
}

/// What waits to be drafted.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub envelopes: usize,
    /// They fill a block.
    pub is_full: bool,
}

impl Gathering {
    /// Another lead: nothing is known of it.
    pub fn begin(&mut self) {
        *self = Gathering::default();
    }

    /// A block was released, while so many envelopes waited.
    pub fn released(&mut self, now_us: u64, waiting: usize) {
        let answered = match self.drafts.pop_front() {
            Some(Drafted { at_us, envelopes }) => {
                let took = now_us.saturating_sub(at_us.max(self.released_us)).min(16 * NEAR_US);
                self.takes_us = (7 * self.takes_us + took) / 8;
                envelopes
            }
            None => 0,
        };
        self.released_us = now_us;
        self.skips = self.skips.saturating_sub(1);
        let waits = self.skips == 0 && self.is_near();
        self.expected = if waits { answered + waiting } else { 0 };
        let moment_us = (self.takes_us / 2).clamp(*MOMENT_US.start(), *MOMENT_US.end());
        self.until_us = now_us + moment_us;
        self.is_waiting = false;
    }

    pub fn drafted(&mut self, now_us: u64, envelopes: usize) {
        if self.drafts.len() == DRAFTS_MAX {
            self.drafts.pop_front();
        }
        self.drafts.push_back(Drafted { at_us: now_us, envelopes });
        (self.expected, self.is_waiting) = (0, false);
    }

    /// Of what waits, beside a block or not.
    pub fn judge(&mut self, now_us: u64, waiting: Waiting, beside: bool) -> Verdict {
        if beside {
            return self.judge_beside(now_us, waiting);
        }
        if waiting.envelopes == 0 {
            return Verdict::Later { wanted: 1, at_us: None };
        }
        let wanted = self.expected.min(MANY);
        let have_come = waiting.envelopes >= wanted || waiting.is_full;
        let is_late = now_us >= self.until_us;
        if !have_come && !is_late {
            self.is_waiting = true;
            return Verdict::Later { wanted, at_us: Some(self.until_us) };
        }
        if std::mem::take(&mut self.is_waiting) {
            match have_come && !is_late {
                true => self.skips_next /= 2,
                false => {
                    self.skips_next = (2 * self.skips_next + 1).min(SKIPPED_MAX);
                    self.skips = self.skips_next;
                }
            }
        }
        Verdict::Now
    }

    fn judge_beside(&self, now_us: u64, waiting: Waiting) -> Verdict {
        let newest = self.drafts.back();
        let as_much = newest.map_or(1, |draft| draft.envelopes.clamp(1, MANY));
        let begun_us = newest.map_or(0, |draft| draft.at_us.max(self.released_us));
        let due_us = begun_us + self.takes_us + LATE_US;
        let is_held = self.is_near() && self.skips == 0 && now_us < due_us;
        match waiting.envelopes >= if is_held { MANY } else { as_much } || waiting.is_full {
            true => Verdict::Now,
            false if is_held && waiting.envelopes >= as_much => {
                Verdict::Later { wanted: MANY, at_us: Some(due_us) }
            }
            false => Verdict::Later { wanted: as_much, at_us: None },
        }
    }

    fn is_near(&self) -> bool {
        self.takes_us < NEAR_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(wanted: usize, at_us: Option<u64>) -> Verdict {
        Verdict::Later { wanted, at_us }
    }

    fn some(envelopes: usize) -> Waiting {
        Waiting { envelopes, is_full: false }
    }

    /// What a block takes.
    const BLOCK_US: u64 = 500;

    /// A block of so many was drafted at a time and took that long.
    fn block(gathering: &mut Gathering, at_us: u64, envelopes: usize, waiting: usize) -> u64 {
        gathering.drafted(at_us, envelopes);
        gathering.released(at_us + BLOCK_US, waiting);
        at_us + BLOCK_US
    }

    fn settled() -> (Gathering, u64) {
        let mut gathering = Gathering::default();
        let now = (0..50).fold(0, |now, _| block(&mut gathering, now, 8, 8));
        assert!((450..=BLOCK_US).contains(&gathering.takes_us));
        (gathering, now)
    }

    #[test]
    fn two_halves_become_a_whole() {
        let (mut gathering, now) = settled();
        let Verdict::Later { wanted: 16, at_us: Some(until) } =
            gathering.judge(now, some(8), false)
        else {
            panic!("it does not wait for those who were answered");
        };
        assert!(until - now <= BLOCK_US / 2);
        assert_eq!(gathering.judge(now + 9, some(16), false), Verdict::Now);
        gathering.drafted(now + 9, 16);
        assert_eq!(gathering.judge(now + 10, some(0), true), later(16, None));
    }

    #[test]
    fn half_of_what_is_about_waits_for_a_block_that_is_due() {
        let (mut gathering, now) = settled();
        gathering.drafted(now, 8);
        assert_eq!(gathering.judge(now, some(7), true), later(8, None));
        let Verdict::Later { wanted: MANY, at_us: Some(due) } = gathering.judge(now, some(8), true)
        else {
            panic!("it does not wait for the block that is due");
        };
        assert_eq!(gathering.judge(due, some(8), true), Verdict::Now, "longer than most");
        assert_eq!(gathering.judge(now, some(MANY), true), Verdict::Now, "a good block by itself");
        let full = Waiting { envelopes: 3, is_full: true };
        assert_eq!(gathering.judge(now, full, true), Verdict::Now, "it holds no more");
        gathering.released(now, 3);
        assert_eq!(gathering.judge(now, full, false), Verdict::Now);
    }

    /// One comes back at once, and another after so long; how long the first one waits in all.
    fn waits_us(thinks_us: u64, blocks: u32) -> u64 {
        let (mut gathering, mut now) = settled();
        let (mut waited, mut other) = (0, None);
        for _ in 0..blocks {
            let began = now;
            let here = |now: u64| 1 + usize::from(other.is_some_and(|at| at <= now));
            while gathering.judge(now, some(here(now)), false) != Verdict::Now {
                now += 50;
            }
            waited += now - began;
            let envelopes = here(now);
            now = block(&mut gathering, now, envelopes, 0);
            if envelopes == 2 || other.is_none() {
                other = Some(now + thinks_us);
            }
        }
        waited
    }

    #[test]
    fn those_who_come_too_late_to_be_worth_it_are_not_waited_for() {
        let all_us = 10_000 * BLOCK_US;
        for thinks_us in [260, 400, 800, 1_500, 5_000, 100_000] {
            let waited = waits_us(thinks_us, 10_000);
            assert!(waited * 50 < all_us, "{waited} us of {all_us} beside {thinks_us}");
        }
    }

    #[test]
    fn a_lone_client_is_not_waited_with_and_those_who_left_are_tried_again() {
        let mut gathering = Gathering::default();
        let mut now = block(&mut gathering, 0, 1, 0);
        assert_eq!(gathering.judge(now, some(1), false), Verdict::Now);
        let mut waits = 0;
        for _ in 0..1_000 {
            now = block(&mut gathering, now, 2, 1);
            while gathering.judge(now, some(1), false) != Verdict::Now {
                waits += 1;
                now += BLOCK_US;
            }
        }
        assert!((5..=11).contains(&waits), "{waits} waits in vain");
        // They are back: what is tried now and then turns out well, and is tried more often.
        let mut together = 0;
        for _ in 0..5_000 {
            now = block(&mut gathering, now, 2, 0);
            if gathering.judge(now, some(1), false) != Verdict::Now {
                together += 1;
                assert_eq!(gathering.judge(now + 20, some(2), false), Verdict::Now);
            }
        }
        assert!(together > 2_000, "{together} of 5,000");
    }

    #[test]
    fn blocks_that_are_long_on_their_way_are_drafted_beside_one_another() {
        let mut gathering = Gathering::default();
        for at in 0..30 {
            gathering.drafted(at * 50_000, 8);
            gathering.released((at + 1) * 50_000, 8);
        }
        assert_eq!(gathering.judge(1_500_000, some(1), false), Verdict::Now);
        gathering.drafted(1_500_000, 8);
        assert_eq!(gathering.judge(1_500_001, some(7), true), later(8, None));
        assert_eq!(gathering.judge(1_500_001, some(8), true), Verdict::Now);
    }

    /// One stall must not have drafts follow each other for as long as the load lasts.
    #[test]
    fn a_stall_is_forgotten_while_drafts_alternate() {
        let (mut gathering, mut now) = settled();
        gathering.drafted(now, 8);
        now += 200_000;
        gathering.released(now, 8);
        assert!(!gathering.is_near());
        gathering.drafted(now, 8);
        for _ in 0..30 {
            gathering.drafted(now + BLOCK_US / 2, 8);
            now += BLOCK_US;
            gathering.released(now, 8);
        }
        assert!(gathering.is_near(), "{} us", gathering.takes_us);
    }

    /// A draft that never became a block is not taken for the one that is released later.
    #[test]
    fn drafts_that_were_refused_are_forgotten() {
        let (mut gathering, now) = settled();
        for at in 0..9 {
            gathering.drafted(now + at, 8);
        }
        assert_eq!(gathering.drafts.len(), DRAFTS_MAX);
        gathering.begin();
        assert!(gathering.drafts.is_empty() && gathering.is_near());
    }
}
