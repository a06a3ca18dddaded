//! The façade through which every lock-free part takes its primitives, so that a model checker
//! can put its own in their place (`--cfg shuttle`).

#[cfg(not(shuttle))]
pub use std::sync::{Arc, Condvar, Mutex, atomic};
#[cfg(not(shuttle))]
pub use std::thread;

/// Waits a moment for another thread, in a loop that checks again.
pub fn spin_loop() {
    #[cfg(not(shuttle))]
    std::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}
