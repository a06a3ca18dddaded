//! The façade through which every lock-free part takes its primitives, so that a model checker
//! can put its own in their place (`--cfg shuttle`); and the ways to wait, in which threads that
//! [take turns](crate::turns) give way.

use std::time::Duration;

use crate::turns;

#[cfg(not(shuttle))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak, atomic};
#[cfg(not(shuttle))]
pub use std::thread;

#[cfg(shuttle)]
pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, Weak, atomic};
#[cfg(shuttle)]
pub use shuttle::thread;

/// Waiting for another thread in a loop that checks again: a few turns on the processor, then the
/// rest of the time slice, since the other thread may have lost its processor.
#[derive(Debug, Default)]
pub struct Spin(u32);

const TURNS_ON_PROCESSOR: u32 = 6;

impl Spin {
    pub fn new() -> Self {
        Spin(0)
    }

    pub fn wait(&mut self) {
        if turns::give_way() {
            return;
        }
        if cfg!(shuttle) || self.0 >= TURNS_ON_PROCESSOR {
            thread::yield_now();
            return;
        }
        for _ in 0..1u32 << self.0 {
            std::hint::spin_loop();
        }
        self.0 += 1;
    }
}

/// Gives the rest of the time slice to others.
pub fn yield_now() {
    if !turns::give_way() {
        thread::yield_now();
    }
}

/// Leaves the processor to others for a while.
pub fn nap(time: Duration) {
    if !turns::give_way() {
        thread::sleep(time);
    }
}

/// Takes a mutex, also one that a thread held as it panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "turns")]
    while turns::plays() && !mutex.is_poisoned() {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(_) if turns::give_way() => {}
            Err(_) => break,
        }
    }
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Waits until `changed` is notified, or looks again earlier than that.
pub fn wait<'a, T>(
    changed: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    #[cfg(feature = "turns")]
    if turns::plays() {
        drop(guard);
        yield_now();
        return lock(mutex);
    }
    let _ = mutex;
    changed.wait(guard).unwrap_or_else(|e| e.into_inner())
}
