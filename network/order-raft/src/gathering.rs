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
//! waits for them a moment. Where they do not come back, as they think, or have gone, that is
//! tried less and less often. A lone client is never waited with.
//!
//! *Where nothing is waited for*: what fills a good block by itself, and where a block takes so
//! long on its way that its cost does not matter, as between towns; there the one is drafted beside
//! the other when as much has come as that holds.
//!
//! A value without a clock; times are microseconds of any monotonic one.

/// A draft of so many envelopes costs little for each.
const MANY: usize = 64;
/// A block that takes longer on its way does so for other reasons than its cost.
const NEAR_US: u64 = 4_000;
/// For those who were answered to come back, and beside a block that is due.
const MOMENT_US: u64 = 1_000;
/// As often as no more is waited for in vain.
const SKIPPED_MAX: u32 = 1_023;

/// See the module.
#[derive(Default)]
pub(crate) struct Gathering {
    /// Envelopes of the newest draft, when it was made, and whether nothing was under way then.
    drafted: usize,
    drafted_us: u64,
    is_alone: bool,
    /// From a draft to its block's release, on average.
    takes_us: u64,
    /// Envelopes of the newest block that was delivered.
    delivered: usize,
    /// So many envelopes are about to wait, until then.
    expected: usize,
    until_us: u64,
    /// Blocks for which nobody is waited for, and how many there will be if that fails again.
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

impl Gathering {
    /// Another lead: nothing is known of it.
    pub fn begin(&mut self) {
        *self = Gathering { takes_us: self.takes_us, ..Gathering::default() };
    }

    pub fn delivered(&mut self, envelopes: usize) {
        self.delivered = envelopes;
    }

    /// A block was released, while so many envelopes waited.
    pub fn released(&mut self, now_us: u64, waiting: usize) {
        if std::mem::take(&mut self.is_alone) {
            let took = now_us.saturating_sub(self.drafted_us).min(16 * NEAR_US);
            self.takes_us = (7 * self.takes_us + took) / 8;
        }
        self.skips = self.skips.saturating_sub(1);
        let waits = self.skips == 0 && self.is_near() && self.delivered < MANY;
        self.expected = if waits { self.delivered + waiting } else { 0 };
        self.until_us = now_us + MOMENT_US;
    }

    pub fn drafted(&mut self, now_us: u64, envelopes: usize, beside: bool) {
        (self.drafted, self.drafted_us, self.is_alone) = (envelopes, now_us, !beside);
        (self.expected, self.is_waiting) = (0, false);
    }

    /// Of `waiting` envelopes, of which a draft holds `most`, beside a block or not.
    pub fn judge(&mut self, now_us: u64, waiting: usize, beside: bool, most: usize) -> Verdict {
        let many = most.min(MANY);
        if beside {
            return self.judge_beside(now_us, waiting, many);
        }
        if waiting == 0 {
            return Verdict::Later { wanted: 1, at_us: None };
        }
        let wanted = self.expected.min(many);
        let have_come = waiting >= wanted;
        if !have_come && now_us < self.until_us {
            self.is_waiting = true;
            return Verdict::Later { wanted, at_us: Some(self.until_us) };
        }
        if self.expected > 0 && have_come {
            self.skips_next = 0;
        } else if self.is_waiting {
            self.skips_next = (2 * self.skips_next + 1).min(SKIPPED_MAX);
            self.skips = self.skips_next;
        }
        self.is_waiting = false;
        Verdict::Now
    }

    fn judge_beside(&self, now_us: u64, waiting: usize, many: usize) -> Verdict {
        let as_much = self.drafted.max(1);
        let due_us = self.drafted_us + self.takes_us + MOMENT_US;
        let is_held = self.is_near() && self.skips == 0 && now_us < due_us;
        let wanted = if is_held { as_much.max(many) } else { as_much };
        match waiting >= wanted {
            true => Verdict::Now,
            false => {
                let at_us = (is_held && waiting >= as_much).then_some(due_us);
                let wanted = if at_us.is_some() { wanted } else { as_much };
                Verdict::Later { wanted, at_us }
            }
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

    /// A block of so many was drafted at a time and took that long.
    fn block(gathering: &mut Gathering, at_us: u64, envelopes: usize, waiting: usize) -> u64 {
        let end_us = at_us + 500;
        gathering.drafted(at_us, envelopes, false);
        gathering.delivered(envelopes);
        gathering.released(end_us, waiting);
        end_us
    }

    #[test]
    fn two_halves_become_a_whole() {
        let mut gathering = Gathering::default();
        let now = block(&mut gathering, 0, 8, 8);
        assert_eq!(gathering.judge(now, 8, false, usize::MAX), later(16, Some(now + MOMENT_US)));
        assert_eq!(gathering.judge(now + 9, 16, false, usize::MAX), Verdict::Now);
        gathering.drafted(now + 9, 16, false);
        assert_eq!(gathering.judge(now + 10, 0, true, usize::MAX), later(16, None));
    }

    #[test]
    fn half_of_what_is_about_waits_for_a_block_that_is_due() {
        let mut gathering = Gathering::default();
        let now = block(&mut gathering, 0, 8, 0);
        gathering.drafted(now, 8, false);
        assert_eq!(gathering.judge(now, 7, true, usize::MAX), later(8, None));
        let Verdict::Later { wanted: MANY, at_us: Some(due) } =
            gathering.judge(now, 8, true, usize::MAX)
        else {
            panic!("it does not wait for the block that is due");
        };
        assert_eq!(
            gathering.judge(due, 8, true, usize::MAX),
            Verdict::Now,
            "that takes longer than most"
        );
        let many = gathering.judge(now, MANY, true, usize::MAX);
        assert_eq!(many, Verdict::Now, "a good block by itself");
        assert_eq!(gathering.judge(now, 8, true, 8), Verdict::Now, "it holds no more");
    }

    #[test]
    fn a_lone_client_and_those_who_do_not_come_back_are_not_waited_with() {
        let mut gathering = Gathering::default();
        let mut now = block(&mut gathering, 0, 1, 0);
        assert_eq!(gathering.judge(now, 1, false, usize::MAX), Verdict::Now);
        let mut waits = 0;
        for _ in 0..1_000 {
            now = block(&mut gathering, now, 2, 1);
            while gathering.judge(now, 1, false, usize::MAX) != Verdict::Now {
                waits += 1;
                now += MOMENT_US;
            }
        }
        assert!((5..=11).contains(&waits), "{waits} waits in vain");
        for _ in 0..1_000 {
            now = block(&mut gathering, now, 2, 1);
            gathering.judge(now, 3, false, usize::MAX);
        }
        block(&mut gathering, now, 2, 1);
        assert_eq!(gathering.skips, 0, "it is tried again");
    }

    #[test]
    fn blocks_that_are_long_on_their_way_are_drafted_beside_one_another() {
        let mut gathering = Gathering::default();
        for at in 0..30 {
            gathering.drafted(at * 50_000, 8, false);
            gathering.delivered(8);
            gathering.released((at + 1) * 50_000, 8);
        }
        assert_eq!(gathering.judge(1_500_000, 1, false, usize::MAX), Verdict::Now);
        gathering.drafted(1_500_000, 8, false);
        assert_eq!(gathering.judge(1_500_001, 7, true, usize::MAX), later(8, None));
        assert_eq!(gathering.judge(1_500_001, 8, true, usize::MAX), Verdict::Now);
    }
}
