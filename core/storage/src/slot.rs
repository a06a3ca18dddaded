//! Where a record lies, and its words.

use kit::sync::atomic::{AtomicU64, Ordering};

use types::Height;

/// The current state inside the block being written, for the block's own workers.
pub const LATEST: Height = Height::MAX;

/// Where a record lies in its table. Never shown outside of the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

#[inline]
pub(crate) fn store_words(to: &[AtomicU64], from: &[u64]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Ordering::Relaxed);
    }
}

#[inline]
pub(crate) fn load_words(from: &[AtomicU64], to: &mut Vec<u64>) {
    to.clear();
    to.extend(from.iter().map(|word| word.load(Ordering::Relaxed)));
}
