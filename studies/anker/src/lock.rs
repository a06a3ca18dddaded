//! A column's lock: many installers, or one who freezes.
//!
//! An exclusive request stops new shared grants at once and waits for those that were granted, as
//! section 2.3.2 of the thesis wants it; a stream of commits cannot starve a snapshot.
//!
//! ```text
//!   word   31         30 ................ 0
//!          exclusive  shared grants
//! ```

use kit::sync::atomic::{AtomicU32, Ordering};
use kit::sync::{Condvar, Mutex, MutexGuard};

const EXCLUSIVE: u32 = 1 << 31;

#[derive(Default)]
pub struct InstallLock {
    word: AtomicU32,
    parked: Mutex<()>,
    changed: Condvar,
}

pub struct Shared<'a>(&'a InstallLock);

pub struct Exclusive<'a>(&'a InstallLock);

/// A panic under a lock is a bug that its own thread reports; others go on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl InstallLock {
    pub fn shared(&self) -> Shared<'_> {
        self.until(|word| (word & EXCLUSIVE == 0).then_some(word + 1));
        Shared(self)
    }

    pub fn exclusive(&self) -> Exclusive<'_> {
        self.until(|word| (word & EXCLUSIVE == 0).then_some(word | EXCLUSIVE));
        self.until(|word| (word == EXCLUSIVE).then_some(word));
        Exclusive(self)
    }

    /// Waits until the word can be changed, and changes it.
    fn until(&self, change: impl Fn(u32) -> Option<u32>) {
        if self.try_change(&change) {
            return;
        }
        let mut parked = lock(&self.parked);
        while !self.try_change(&change) {
            parked = self.changed.wait(parked).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn try_change(&self, change: impl Fn(u32) -> Option<u32>) -> bool {
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// Under the mutex, so that no thread that saw the old word is about to sleep.
    fn wake(&self) {
        drop(lock(&self.parked));
        self.changed.notify_all();
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if self.0.word.fetch_sub(1, Ordering::AcqRel) == EXCLUSIVE + 1 {
            self.0.wake();
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.0.word.store(0, Ordering::Release);
        self.0.wake();
    }
}
