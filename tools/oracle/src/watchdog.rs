//! No test waits for ever: a run that does not end is named, with its world, and ends the process.
//!
//! Threads that wait for each other cannot be ended from outside, so there is nothing to be saved;
//! but the log of the tests says which protocol it was and on what.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A world takes milliseconds; on a machine that is busy otherwise, some seconds.
const LIMIT: Duration = Duration::from_secs(180);

/// A run that is under way.
struct Run {
    since: Instant,
    what: String,
}

static RUNS: LazyLock<Mutex<BTreeMap<u64, Run>>> = LazyLock::new(|| {
    std::thread::spawn(watch);
    Mutex::default()
});

fn runs() -> MutexGuard<'static, BTreeMap<u64, Run>> {
    RUNS.lock().unwrap_or_else(|e| e.into_inner())
}

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(5));
        if let Some(run) = runs().values().find(|run| run.since.elapsed() > LIMIT) {
            eprintln!("no end after {LIMIT:?}: {}", run.what);
            std::process::abort();
        }
    }
}

/// Watches until it is dropped.
pub struct Watch(u64);

impl Watch {
    pub fn new(what: String) -> Watch {
        let mut runs = runs();
        let number = runs.last_key_value().map_or(0, |(last, _)| last + 1);
        runs.insert(number, Run { since: Instant::now(), what });
        Watch(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        runs().remove(&self.0);
    }
}
