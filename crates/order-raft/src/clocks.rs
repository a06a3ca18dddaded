//! How far this node's clock is from those of the others.
//!
//! ```text
//! each second   what does your clock say? ───► every other member
//!               ◄─── theirs                    theirs - own = how far it is from this one
//! own is ahead of  the median of all, itself included; of two in the middle, the lower
//! ```
//!
//! A block bears its leader's time for ever, and a time that lies ahead of the truth stops all
//! writes until the truth comes there. So a leader drafts only while it knows by more than half of
//! the members that its clock is not ahead of most of theirs by more than the bound, and a follower
//! does not acknowledge a draft that is, by what it knows. A leader that is ahead lets another one
//! be elected.
//!
//! *Between two answers* a clock that was set is told by a steady one. *Which of two clocks is
//! wrong* two members cannot know: then the one that is ahead does not order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// How often the others are asked, and how long an answer counts.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(1);
const COUNTS_FOR: Duration = Duration::from_secs(10);

/// What the others have told. Times are microseconds.
#[derive(Default)]
pub(crate) struct Clocks(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// Of each: when it answered, and how far its clock was ahead of this one.
    offsets: BTreeMap<u64, (Instant, i64)>,
    /// Both clocks of this node at the last round.
    origin: Option<(Instant, i64)>,
}

/// How a clock stands among those of the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Among {
    /// How many of them are known, the own included.
    pub known: usize,
    /// How far most are ahead of the own one.
    pub offset_us: i64,
    /// How far the own one was set ahead since the last round.
    pub jumped_us: i64,
}

impl Clocks {
    /// A round of questions begins.
    pub fn begin(&self, own_us: i64) {
        let mut told = self.lock();
        // What was told before counts from another origin, if this clock was set.
        let jumped = told.jumped_us(own_us);
        told.offsets.values_mut().for_each(|(_, offset)| *offset = offset.saturating_sub(jumped));
        told.origin = Some((Instant::now(), own_us));
    }

    pub fn told(&self, member: u64, theirs_us: i64, own_us: i64) {
        let offset = theirs_us.saturating_sub(own_us);
        self.lock().offsets.insert(member, (Instant::now(), offset));
    }

    pub fn among(&self, own_us: i64) -> Among {
        let mut told = self.lock();
        told.offsets.retain(|_, (at, _)| at.elapsed() < COUNTS_FOR);
        let mut offsets: Vec<i64> = told.offsets.values().map(|(_, offset)| *offset).collect();
        offsets.push(0);
        offsets.sort_unstable();
        let offset_us = offsets[(offsets.len() - 1) / 2];
        Among { known: offsets.len(), offset_us, jumped_us: told.jumped_us(own_us) }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Told {
    fn jumped_us(&self, own_us: i64) -> i64 {
        let Some((at, origin_us)) = self.origin else { return 0 };
        let passed = i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX);
        own_us.saturating_sub(origin_us).saturating_sub(passed)
    }
}

impl Among {
    /// How far the own clock is ahead of most.
    pub fn ahead_us(&self) -> i64 {
        self.jumped_us.saturating_sub(self.offset_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn ahead_s(told: &[i64]) -> i64 {
        let clocks = Clocks::default();
        clocks.begin(0);
        (1..).zip(told).for_each(|(member, offset)| clocks.told(member, offset * SECOND, 0));
        assert_eq!(clocks.among(0).known, told.len() + 1);
        clocks.among(0).ahead_us() / SECOND
    }

    #[tokio::test(start_paused = true)]
    async fn the_middle_of_all_clocks_is_taken_for_the_time() {
        assert_eq!(ahead_s(&[]), 0);
        assert_eq!(ahead_s(&[-600, -600]), 600, "it is ahead of both");
        assert_eq!(ahead_s(&[-600, 0]), 0, "another one is behind");
        assert_eq!(ahead_s(&[600, 0]), 0, "another one is ahead");
        assert_eq!(ahead_s(&[600, 600]), -600, "it is behind");
        assert_eq!(ahead_s(&[-600]), 600, "of two the one that is ahead");
        assert_eq!(ahead_s(&[600]), 0);
        assert_eq!(ahead_s(&[-600, -590, -3]), 590);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_is_told_before_the_others_are_asked() {
        let clocks = Clocks::default();
        clocks.begin(0);
        clocks.told(1, 0, 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ahead_s = |own: i64| clocks.among(own * SECOND).ahead_us() / SECOND;
        assert_eq!((ahead_s(2), ahead_s(602)), (0, 600));
        clocks.begin(602 * SECOND);
        assert_eq!(ahead_s(602), 600, "until another one tells");
        clocks.told(1, 602 * SECOND, 602 * SECOND);
        assert_eq!(ahead_s(602), 0, "all were set");
        tokio::time::sleep(COUNTS_FOR).await;
        assert_eq!(clocks.among(612 * SECOND).known, 1, "what is old does not count");
    }
}
