//! The façade through which every lock-free part takes its primitives, so that a model checker
//! can put its own in their place (`--cfg shuttle`).

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
