//! How far this node's clock is from those of the other members.
//!
//! ```text
//! each second   what does your clock say? ───► every other member
//!               ◄─── its time        offset = its time - this node's, half way through the wait
//! the time is   the median of all, the own one included; of two in the middle, the lower
//! ```
//!
//! *Why.* A block keeps its time for ever, and one with a time ahead of real time stops all writes
//! until real time has caught up.
//!
//! *How.* The time that a leader gives a draft is the median of the clocks of more than half of the
//! members, whatever its own clock says; where it knows fewer clocks, it orders nothing. A node
//! whose own clock is further from the median than the bound lets another one be elected, since
//! whatever else its machine measures by that clock is wrong too. A follower does not acknowledge a
//! draft that is further ahead of the median that it knows: that bounds a leader that lies.
//!
//! *A clock that is set between two rounds* is noticed by comparison with a monotonic clock. *With
//! two members* it cannot be known which clock is wrong; then the one that is ahead does not order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use kit::sync::lock;
use tokio::time::{Instant, sleep, timeout};

/// How often the others are asked, and how long an answer counts.
const ASK_EVERY: Duration = Duration::from_secs(1);
const COUNTS_FOR: Duration = Duration::from_secs(10);

/// What the others have told. Times are microseconds.
#[derive(Default)]
pub struct Clocks(Mutex<Offsets>);

#[derive(Default)]
struct Offsets {
    /// Of each: when it answered, and how far its clock was ahead of this one.
    offsets: BTreeMap<u64, (Instant, i64)>,
    /// Both clocks of this node at the last round.
    origin: Option<(Instant, i64)>,
}

/// How a clock stands among those of the members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Among {
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
        let mut heard = self.lock();
        // What was told before counts from another origin, if this clock was set.
        let jumped = heard.jumped_us(own_us);
        heard.offsets.values_mut().for_each(|(_, offset)| *offset = offset.saturating_sub(jumped));
        heard.origin = Some((Instant::now(), own_us));
    }

    pub fn reported(&self, member: u64, theirs_us: i64, own_us: i64) {
        let offset = theirs_us.saturating_sub(own_us);
        self.lock().offsets.insert(member, (Instant::now(), offset));
    }

    pub fn among(&self, own_us: i64) -> Among {
        let mut heard = self.lock();
        heard.offsets.retain(|_, (at, _)| at.elapsed() < COUNTS_FOR);
        let mut offsets: Vec<i64> = heard.offsets.values().map(|(_, offset)| *offset).collect();
        offsets.push(0);
        offsets.sort_unstable();
        let offset_us = offsets[(offsets.len() - 1) / 2];
        Among { known: offsets.len(), offset_us, jumped_us: heard.jumped_us(own_us) }
    }

    /// How far each known clock is ahead of most; that of this node is `own`.
    pub fn all(&self, own: u64, own_us: i64) -> BTreeMap<u64, i64> {
        let ahead_us = self.among(own_us).ahead_us();
        let heard = self.lock();
        let jumped_us = heard.jumped_us(own_us);
        let ahead = |offset: i64| offset.saturating_sub(jumped_us).saturating_add(ahead_us);
        let others = heard.offsets.iter().map(|(member, (_, offset))| (*member, ahead(*offset)));
        others.chain([(own, ahead_us)]).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Offsets> {
        lock(&self.0)
    }
}

impl Offsets {
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

    /// What most say the time is.
    pub fn time_us(&self, own_us: i64) -> i64 {
        own_us.saturating_sub(self.ahead_us())
    }

    /// Why a node with such a clock is no one to lead.
    pub fn trouble(&self, bound: Duration) -> Option<String> {
        let ahead_us = self.ahead_us();
        let is_off = ahead_us.unsigned_abs() > micros(bound).unsigned_abs();
        let seconds = ahead_us.unsigned_abs() / 1_000_000;
        let way = if ahead_us > 0 { "ahead of" } else { "behind" };
        is_off.then(|| {
            format!("this node's clock is {seconds} s {way} those of most members: set it right")
        })
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Asks the others for their time.
pub struct Watch<C> {
    pub clocks: Arc<Clocks>,
    /// This node's.
    pub clock: C,
    /// For an answer.
    pub patience: Duration,
}

impl<C: Fn() -> i64> Watch<C> {
    /// Asks all of these, and waits until the next time.
    pub async fn round(
        &self,
        others: &BTreeSet<u64>,
        ask: impl Fn(u64) -> BoxFuture<'static, io::Result<i64>>,
    ) {
        let Watch { clocks, clock, patience } = self;
        clocks.begin(clock());
        let asked = others.iter().map(async |other| {
            let before_us = clock();
            if let Ok(Ok(theirs_us)) = timeout(*patience, ask(*other)).await {
                let waited_us = clock().saturating_sub(before_us);
                clocks.reported(*other, theirs_us, before_us.saturating_add(waited_us / 2));
            }
        });
        futures::future::join_all(asked).await;
        let knows = 2 * clocks.among(clock()).known > others.len() + 1;
        sleep(if knows { ASK_EVERY } else { ASK_EVERY / 10 }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn ahead_s(heard: &[i64]) -> i64 {
        let clocks = Clocks::default();
        clocks.begin(0);
        (1..).zip(heard).for_each(|(member, offset)| clocks.reported(member, offset * SECOND, 0));
        assert_eq!(clocks.among(0).known, heard.len() + 1);
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
    async fn the_time_is_what_most_say_and_each_clock_is_compared_with_it() {
        let clocks = Clocks::default();
        clocks.begin(0);
        clocks.reported(1, -600 * SECOND, 0);
        clocks.reported(2, -601 * SECOND, 0);
        let among = clocks.among(0);
        assert_eq!(among.time_us(0), -600 * SECOND);
        let ahead: Vec<(u64, i64)> =
            clocks.all(3, 0).into_iter().map(|(member, us)| (member, us / SECOND)).collect();
        assert_eq!(ahead, [(1, 0), (2, -1), (3, 600)]);
        assert_eq!(among.trouble(Duration::from_secs(600)), None, "as much as is allowed");
        let trouble = among.trouble(Duration::from_secs(599)).unwrap();
        assert!(trouble.contains("600 s ahead of those of most"), "{trouble}");
        let own_us = -900 * SECOND;
        assert_eq!(clocks.all(3, own_us)[&3] / SECOND, -300, "it was set back");
        assert_eq!(clocks.all(3, own_us)[&1] / SECOND, 0);
        let trouble = clocks.among(own_us).trouble(Duration::from_secs(60)).unwrap();
        assert!(trouble.contains("300 s behind those of most"), "{trouble}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_is_told_before_the_others_are_asked() {
        let clocks = Clocks::default();
        clocks.begin(0);
        clocks.reported(1, 0, 0);
        sleep(Duration::from_secs(2)).await;
        let ahead_s = |own: i64| clocks.among(own * SECOND).ahead_us() / SECOND;
        assert_eq!((ahead_s(2), ahead_s(602)), (0, 600));
        clocks.begin(602 * SECOND);
        assert_eq!(ahead_s(602), 600, "until another one tells");
        clocks.reported(1, 602 * SECOND, 602 * SECOND);
        assert_eq!(ahead_s(602), 0, "all were set");
        sleep(COUNTS_FOR).await;
        assert_eq!(clocks.among(612 * SECOND).known, 1, "what is old does not count");
    }
}
