//! A thread that notices when nothing comes any more.
//!
//! ```text
//!   sequencer   7 │ 8 │ 9 │                                        │ 10 │ …
//!   this one                └ moment ┘ results, marks └ asleep till something comes
//! ```
//!
//! The last block of a log is vouched for by no later one: after a crash, damage to it would look
//! like a torn write. So in a moment of rest the results that are gathered are written, and both
//! logs get a [mark](ledger::segment) that says how far they are on stable storage. What a start
//! may then take for a torn tail was handed over in the last moments before a crash.
//!
//! *Cost*: a sync of the orders and two of the results for each such moment, on a disk that does
//! nothing else; a block that comes meanwhile waits for one of them. While blocks follow one
//! another, an atomic addition for each.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread, park, park_timeout};
use std::time::{Duration, Instant};

/// What has come, for the thread.
#[derive(Default)]
pub(crate) struct Arrivals {
    count: AtomicU64,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Arrivals {
    pub fn note(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

pub(crate) struct Resting {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resting {
    /// `rest`: what is to be done when nothing has come for `moment`; after an error nothing is.
    pub fn start(
        moment: Duration,
        arrivals: Arc<Arrivals>,
        rest: impl Fn() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Resting> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stopped);
        let thread = std::thread::Builder::new().name("rest".into()).spawn(move || {
            let _ = arrivals.thread.set(std::thread::current());
            run(moment, &arrivals, &rest, &stops);
        })?;
        Ok(Resting { stopped, thread: Some(thread) })
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn run(
    moment: Duration,
    arrivals: &Arrivals,
    rest: &dyn Fn() -> io::Result<()>,
    stopped: &AtomicBool,
) {
    let is_stopped = || stopped.load(Ordering::SeqCst);
    while !is_stopped() {
        let seen = arrivals.count();
        let until = Instant::now() + moment;
        while !is_stopped() && Instant::now() < until {
            park_timeout(until.saturating_duration_since(Instant::now()));
        }
        if is_stopped() || arrivals.count() != seen {
            continue;
        }
        if rest().is_err() {
            return;
        }
        arrivals.asleep.store(true, Ordering::SeqCst);
        while arrivals.count() == seen && !is_stopped() {
            park();
        }
        arrivals.asleep.store(false, Ordering::SeqCst);
    }
}
