//! Waking whoever works behind the blocks.
//!
//! ```text
//! waits:      waiting <- true;  newest?   nothing new: sleep
//! publishes:  newest <- height; waiting?  yes: wake
//! ```
//!
//! Both write first and look afterwards, sequentially consistent, so that a block that comes in
//! between is seen by the one or told by the other. Where nobody waits, a block costs a load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Where one thread sleeps until there is something to do behind the blocks.
#[derive(Default)]
pub struct Watch {
    waiting: AtomicBool,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Watch {
    /// Sleeps until it is so. Asked under a lock that [`wake`](Self::wake) takes.
    pub fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        let mut asleep = self.asleep.lock();
        self.waiting.store(true, Ordering::SeqCst);
        while !is_so() {
            self.wake.wait(&mut asleep);
        }
        self.waiting.store(false, Ordering::SeqCst);
    }

    /// Sleeps so long, or until [`interrupt`](Self::interrupt) and it is so; blocks do not wake.
    pub fn pause(&self, how_long: Duration, mut is_so: impl FnMut() -> bool) {
        let mut asleep = self.asleep.lock();
        self.wake.wait_while_for(&mut asleep, |()| !is_so(), how_long);
    }

    /// There may be something to do: called after it can be seen.
    pub fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.interrupt();
        }
    }

    /// The same for who only pauses.
    pub fn interrupt(&self) {
        let asleep = self.asleep.lock();
        self.wake.notify_all();
        drop(asleep);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn nobody_sleeps_over_what_was_done_before_the_wake() {
        const ROUNDS: u64 = 20_000;
        let (watch, height, seen) = (Watch::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    watch.wait_until(|| height.load(Ordering::SeqCst) >= round);
                    seen.store(round, Ordering::SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                height.store(round, Ordering::SeqCst);
                watch.wake();
                // Lets the other one fall asleep now and then.
                while round % 64 == 0 && seen.load(Ordering::SeqCst) < round {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(seen.load(Ordering::SeqCst), ROUNDS);
    }

    #[test]
    fn a_pause_ends_early_only_where_it_is_asked_to() {
        let (watch, done) = (Watch::default(), AtomicBool::new(false));
        watch.pause(Duration::from_millis(1), || false);
        std::thread::scope(|scope| {
            let paused = scope.spawn(|| {
                watch.pause(Duration::from_secs(3_600), || done.load(Ordering::SeqCst));
            });
            watch.wake();
            watch.interrupt();
            done.store(true, Ordering::SeqCst);
            while !paused.is_finished() {
                watch.interrupt();
            }
        });
    }
}
