//! The façade through which every lock-free part takes its primitives, so that a model checker
//! can put its own in their place (`--cfg shuttle`).

#[cfg(not(shuttle))]
pub use std::sync::{Arc, Condvar, Mutex, atomic};
#[cfg(not(shuttle))]
pub use std::thread;
