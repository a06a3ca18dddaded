//! The thread that keeps columns current: tables of layout `Column`.
//!
//! ```text
//! block published ─► keeper wakes ─► pause ─► drain the feed ─► each touched group of the table:
//!                      takes a snapshot                          write its rows into its columns
//! ```
//!
//! It stays a breath behind: the snapshot is taken before the pause, so that a query which begins
//! meanwhile has a newer one and finds columns that lie behind its height by a few rows, which it
//! writes in place. Columns ahead of it would have to be copied and patched backwards. For the same
//! reason a group that a scan has yet to read is brought to the scan's height and no further, as
//! long as the rows that are left for later are few.
//!
//! *Correctness* does not depend on it: it does what the next scan would do, under the same lock.
//! What it costs is bounded by the touched groups of each pause.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use storage::{Snapshot, Store};

use crate::images::Images;

/// How far the columns stay behind the blocks. Longer than it takes to plan a query, and short
/// enough that few rows come in the meantime.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps columns current until it is dropped.
pub struct Keeper {
    store: Arc<Store>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// # Errors
    /// There are too many threads.
    pub fn start(images: Arc<Images>) -> io::Result<Keeper> {
        let (store, stop) = (images.store().clone(), Arc::new(AtomicBool::new(false)));
        let of_thread = stop.clone();
        let thread = std::thread::Builder::new().name("column-keeper".into());
        let thread = thread.spawn(move || run(&images, &of_thread))?;
        Ok(Keeper { store, stop, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.store.watch().interrupt();
        if let Some(thread) = self.thread.take() {
            // A keeper that panicked has lost columns of a cache, nothing else.
            _ = thread.join();
        }
    }
}

fn run(images: &Images, stop: &AtomicBool) {
    let (store, mut kept_to) = (images.store(), 0);
    let is_stopped = || stop.load(Ordering::SeqCst);
    loop {
        store.watch().wait_until(|| is_stopped() || images.wants_keeping(kept_to));
        let snapshot: Arc<Snapshot> = Arc::new(store.lease());
        store.watch().pause(PAUSE, is_stopped);
        if is_stopped() {
            return;
        }
        kept_to = snapshot.height();
        images.keep(&snapshot, &is_stopped);
    }
}
