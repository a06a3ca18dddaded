//! How far the times of blocks may be from the truth.
//!
//! A block bears the clock's time, or that of the block before if that is later, for ever: one step
//! of the clock into the next century, and `now()` stands still until then. So a node that is about
//! to propose compares first, with two things that it knows:
//!
//! ```text
//!   ledger's time ── at most `ahead_max` ahead of ──► clock          the clock was set back
//!   clock ── at most `ahead_max` ahead of ──► its value at the start
//!                                             + what a steady clock says has passed
//! ```
//!
//! and refuses by a message. A block that was ordered is not checked again: times of blocks are
//! only held not to run back, on every replica alike.

use std::sync::Arc;
use std::time::Duration;

use types::{Error, Result, SqlState};

/// Wall-clock time: microseconds since 2000-01-01 UTC. Supplied by the node, as is [`SteadyClock`].
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A clock that is never set, in microseconds since any moment.
pub type SteadyClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What is allowed, and what to tell it by.
#[derive(Clone)]
pub struct ClockBound {
    pub ahead_max: Duration,
    pub steady: SteadyClock,
}

pub(crate) struct ClockGuard {
    ahead_max_us: i64,
    steady: SteadyClock,
    /// Of the clock, where the steady one was at 0.
    origin_us: i64,
}

impl ClockGuard {
    pub fn new(bound: ClockBound, clock: &Clock) -> ClockGuard {
        let ClockBound { ahead_max, steady } = bound;
        let ahead_max_us = i64::try_from(ahead_max.as_micros()).unwrap_or(i64::MAX);
        let origin_us = clock().saturating_sub(steady());
        ClockGuard { ahead_max_us, steady, origin_us }
    }

    /// Whether a block may be proposed now, after one of a time.
    pub fn check(&self, now_us: i64, ledger_us: i64) -> Result<()> {
        let ahead = |time_us: i64, of_us: i64| {
            let ahead_us = time_us.saturating_sub(of_us);
            (ahead_us > self.ahead_max_us).then_some(ahead_us / 1_000_000)
        };
        if let Some(seconds) = ahead(ledger_us, now_us) {
            let what = format!("the ledger's time is {seconds} s ahead of this node's clock");
            return Err(refused(what));
        }
        let expected_us = self.origin_us.saturating_add((self.steady)());
        match ahead(now_us, expected_us) {
            Some(seconds) => {
                let what = format!("this node's clock was set {seconds} s ahead since its start");
                Err(refused(what))
            }
            None => Ok(()),
        }
    }
}

fn refused(what: String) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        .with_detail("The transaction is in no block, since its block would bear a wrong time.")
        .with_hint(
            "Set the clock right; if it is right now, restart the node, or allow more by \
             clock_ahead_s_max.",
        )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_clock_that_was_set_is_told_and_time_that_passes_is_not() {
        let passed = Arc::new(AtomicI64::new(7 * SECOND));
        let shown = Arc::clone(&passed);
        let steady: SteadyClock = Arc::new(move || shown.load(Ordering::Relaxed));
        let bound = ClockBound { ahead_max: Duration::from_secs(10), steady };
        let clock: Clock = Arc::new(|| 1_000 * SECOND);
        let guard = ClockGuard::new(bound, &clock);
        let message = |now: i64, ledger: i64| {
            guard.check(now * SECOND, ledger * SECOND).err().map(|error| error.message().to_owned())
        };
        assert_eq!(message(1_000, 999), None);
        assert_eq!(message(1_010, 1_000), None, "as much as is allowed");
        let set = "this node's clock was set 11 s ahead since its start";
        assert_eq!(message(1_011, 1_000).as_deref(), Some(set));
        passed.fetch_add(3_600 * SECOND, Ordering::Relaxed);
        assert_eq!(message(4_600, 1_000), None);
        assert_eq!(message(990, 1_000), None, "set back by as much");
        let behind = "the ledger's time is 11 s ahead of this node's clock";
        assert_eq!(message(989, 1_000).as_deref(), Some(behind));
        assert!(guard.check(i64::MAX, i64::MIN).is_err());
        assert!(guard.check(i64::MIN, i64::MAX).is_err());
    }
}
