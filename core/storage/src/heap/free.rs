//! Runs of words that strings have left, for the next strings of about their length.
//!
//! ```text
//! words    2  3 …  16 | 18  20 …  32 | 36  40 …  64 | 72 …
//! class    2  3 …  16 | 17  18 …  24 | 25  26 …  32 | 33 …      eight for each doubling
//! ```
//!
//! A string takes a run of its class, so at most one word in eight is unused, and a run that comes
//! free serves any string of the class. Runs are neither split nor joined: what a class has come to
//! hold at once, it keeps.

use std::sync::OnceLock;

use kit::sync::atomic::{AtomicU64, Ordering, fence};
use parking_lot::Mutex;

/// Up to so many words each length is a class.
const EXACT_WORDS_LOG2: u32 = 4;
/// Steps for each doubling above.
const STEPS_LOG2: u32 = 3;
/// A length has 32 bits, its words 29, which may be rounded up to the next power of two.
const CLASSES: usize = (1 << EXACT_WORDS_LOG2) + ((30 - EXACT_WORDS_LOG2 as usize) << STEPS_LOG2);

/// The words of a run for so many, and its class.
#[inline]
pub(super) fn run_of(words: u64) -> (u64, usize) {
    if words <= 1 << EXACT_WORDS_LOG2 {
        return (words, words as usize);
    }
    let rounded = words.next_multiple_of(1 << (words.ilog2() - STEPS_LOG2));
    let doublings = rounded.ilog2() - EXACT_WORDS_LOG2;
    let step = (rounded >> (rounded.ilog2() - STEPS_LOG2)) - (1 << STEPS_LOG2);
    (rounded, (1 << EXACT_WORDS_LOG2) + ((doublings as usize) << STEPS_LOG2) + step as usize)
}

#[derive(Default)]
pub(super) struct FreeRuns {
    /// By class, the first words of runs; made when the first one comes.
    classes: OnceLock<Box<[Mutex<Vec<u64>>]>>,
    words: AtomicU64,
}

impl FreeRuns {
    pub(super) fn put(&self, location: u64, words: u64, class: usize) {
        let make = || (0..=CLASSES).map(|_| Mutex::default()).collect();
        self.classes.get_or_init(make)[class].lock().push(location);
        self.words.fetch_add(words, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn take(&self, words: u64, class: usize) -> Option<u64> {
        if self.words.load(Ordering::Relaxed) < words {
            return None;
        }
        let location = self.classes.get()?[class].lock().pop()?;
        self.words.fetch_sub(words, Ordering::Relaxed);
        // A reader that sees a word of the new string sees what changed before the old one went.
        fence(Ordering::Release);
        Some(location)
    }

    pub(super) fn words(&self) -> u64 {
        self.words.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_one_another_and_waste_little() {
        let lengths = (2..5000).chain((13..30).flat_map(|log| (1u64 << log) - 2..(1 << log) + 3));
        let lengths = lengths.filter(|words| *words <= 1 << 29);
        let mut last = (1, 1);
        for words in lengths {
            let (run, class) = run_of(words);
            assert!(run >= words && run - words <= words / 8, "{words} words in {run}");
            assert_eq!(run_of(run), (run, class), "a run is of its own class");
            assert!(class == last.1 || run > last.0, "{words}");
            assert!(class >= last.1 && class <= CLASSES, "{words}");
            last = (run, class);
        }
    }
}
