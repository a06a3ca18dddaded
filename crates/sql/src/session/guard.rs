//! What ends a statement before its time: the client's cancel request, or `statement_timeout`.
//!
//! Both hold for work that a session does itself: queries, and the statements of a transaction up
//! to its COMMIT. What has been handed to the ledger is not given up: whether it is in a block must
//! not depend on anybody's clock, and the client would not know how it ended.
//!
//! A run that may take long leaves the runtime's worker to the other sessions ([`aside`]). One that
//! only follows keys stays where it is: it is over sooner than the hand-over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use procedure::{Frame, Interrupt, Meter};
use tokio::runtime::{Handle, RuntimeFlavor};
use types::{Error, Result, SqlState};

/// Steps and rows of one query outside blocks: hours of work. A function's loop without an end
/// comes to it at last, even if its client is gone.
const QUERY_UNITS_MAX: u64 = 100_000_000_000;

/// The setting that says how much a query may hold, and what it says unless it is set.
pub const QUERY_MEMORY: &str = "tally.query_memory";
pub const QUERY_MEMORY_BYTES: u64 = 256 << 20;

/// A longer text takes a while to be parsed and bound.
pub const SHORT_TEXT_BYTES: usize = 16 << 10;

const NEVER: u64 = u64::MAX;

pub struct Guard {
    canceled: Arc<AtomicBool>,
    born: Instant,
    /// When the running statement has to end, counted from `born`.
    deadline_ns: AtomicU64,
    /// What a query may hold.
    memory: AtomicU64,
}

impl Guard {
    pub fn new(canceled: Arc<AtomicBool>) -> Guard {
        Guard {
            canceled,
            born: Instant::now(),
            deadline_ns: AtomicU64::new(NEVER),
            memory: AtomicU64::new(QUERY_MEMORY_BYTES),
        }
    }

    pub fn canceled(&self) -> &Arc<AtomicBool> {
        &self.canceled
    }

    /// What a query may hold in memory.
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// A statement begins.
    pub fn start(&self, timeout: Option<Duration>, memory: u64) {
        self.memory.store(memory, Ordering::Relaxed);
        let deadline = timeout.map_or(NEVER, |timeout| nanoseconds(self.born.elapsed() + timeout));
        self.deadline_ns.store(deadline, Ordering::Relaxed);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Interrupt for Guard {
    fn check(&self) -> Result<()> {
        if self.canceled.load(Ordering::Relaxed) {
            return Err(canceled("canceling statement due to user request"));
        }
        let deadline = self.deadline_ns.load(Ordering::Relaxed);
        if deadline != NEVER && nanoseconds(self.born.elapsed()) >= deadline {
            return Err(canceled("canceling statement due to statement timeout"));
        }
        Ok(())
    }
}

fn canceled(message: &str) -> Error {
    Error::new(SqlState::QUERY_CANCELED, message)
}

/// For queries that no block will run.
pub fn query_frame(guard: &Arc<Guard>) -> Frame {
    let meter = Meter::new(QUERY_UNITS_MAX, Some(guard.clone()));
    Frame::metered(meter.with_memory(guard.memory(), QUERY_MEMORY))
}

/// For a transaction, whose statements a block will run again: it spends what it could spend there.
pub fn transaction_frame(guard: &Arc<Guard>) -> Frame {
    Frame::metered(Meter::new(procedure::UNITS_MAX, Some(guard.clone())))
}

/// Run what is not short where it holds up no other session.
pub fn aside<T>(is_short: bool, run: impl FnOnce() -> T) -> T {
    let has_workers =
        || Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    match !is_short && has_workers() {
        true => tokio::task::block_in_place(run),
        false => run(),
    }
}
