//! The lock of a record, in the record's own word.
//!
//! ```text
//! protocol word 0 of a record
//! 63                          26 25          24        23                          0
//! [    height of the block: 38  | exclusive | changes |          holders: 24        ]
//!
//! holders   exclusive    [                 age of the holder: 24                    ]
//!           shared       [  readers: 8  |        age of the oldest reader: 16       ]
//!           timestamps   [                 last read: 24   (TicToc)                 ]
//!
//! a word of another height is free, whatever else it says
//! ```
//!
//! * *exclusive*: a transaction will overwrite the row, or is about to;
//! * *changes*: and make it come or go, which those who only saw that it is there must mind;
//! * *readers*: holders of the row as it is (locking protocols; optimistic ones hold nothing).
//!
//! An *age* is a transaction's place in the block as it arrived; the smallest is the oldest. Shared
//! holders do not take the oldest age with them when they leave, so the word may name one older
//! than all that are left, never a younger one. Ages beyond 16 bits count as the youngest one,
//! which no transaction waits for.
//!
//! All protocols that use word 0 keep the height in the same bits, so what another one left, or an
//! earlier block, is no lock. Nothing is locked between two blocks.
//!
//! *Orders.* Taking a lock acquires and giving it back releases, so holders see what those before
//! them did. There is no waiting in here: a caller that does not get a lock decides what to do.

use kit::sync::atomic::{AtomicU64, Ordering};
use types::{Height, Position};

const HEIGHT_SHIFT: u32 = 26;
const EXCLUSIVE: u64 = 1 << 25;
const CHANGES: u64 = 1 << 24;
const HOLDERS: u64 = CHANGES - 1;
const READER: u64 = 1 << 16;
const READERS_MAX: u64 = (1 << 8) - 1;
const OLDEST: u64 = READER - 1;

const _: () = assert!(storage::HEIGHT_MAX.leading_zeros() == HEIGHT_SHIFT);
const _: () = assert!(READERS_MAX * READER + OLDEST == HOLDERS);

/// One record's lock, in one block.
#[derive(Clone, Copy)]
pub struct Latch<'a> {
    word: &'a AtomicU64,
    height: Height,
}

/// The exclusive holder of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Free,
    /// To overwrite the row.
    Overwrite,
    /// To make it come or go.
    Change,
}

impl<'a> Latch<'a> {
    pub fn new(word: &'a AtomicU64, height: Height) -> Latch<'a> {
        Latch { word, height }
    }

    /// The lock bits of this block.
    #[inline]
    fn bits(self, word: u64) -> u64 {
        if word >> HEIGHT_SHIFT == self.height { word & (EXCLUSIVE | CHANGES | HOLDERS) } else { 0 }
    }

    #[inline]
    fn with(self, bits: u64) -> u64 {
        self.height << HEIGHT_SHIFT | bits
    }

    #[inline]
    pub fn held(self) -> Held {
        let bits = self.bits(self.word.load(Ordering::Acquire));
        match (bits & EXCLUSIVE != 0, bits & CHANGES != 0) {
            (false, _) => Held::Free,
            (true, false) => Held::Overwrite,
            (true, true) => Held::Change,
        }
    }

    /// Exclusively, where no transaction holds it.
    #[inline]
    pub fn try_exclusive(self, changes: bool) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let taken = self.with(EXCLUSIVE | if changes { CHANGES } else { 0 });
        self.bits(word) == 0 && self.exchange(word, taken)
    }

    /// The same for one that may be waited for, and may make the row go. `reading`: the caller is a
    /// reader and gives that up for it.
    pub fn try_exclusive_as(self, age: Position, reading: bool) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let bits = self.bits(word);
        let free = bits & EXCLUSIVE == 0 && bits / READER == u64::from(reading);
        let taken = self.with(EXCLUSIVE | CHANGES | (u64::from(age) & HOLDERS));
        free && self.exchange(word, taken)
    }

    /// With other readers.
    pub fn try_shared(self, age: Position) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let bits = self.bits(word);
        let readers = bits / READER;
        if bits & EXCLUSIVE != 0 || readers == READERS_MAX {
            return false;
        }
        let age = u64::from(age).min(OLDEST);
        let oldest = if readers == 0 { age } else { age.min(bits & OLDEST) };
        self.exchange(word, self.with(((readers + 1) * READER) | oldest))
    }

    /// Whether all that stand in the way of a transaction of this age are younger than it is.
    pub fn is_for_older(self, age: Position, reading: bool) -> bool {
        let bits = self.bits(self.word.load(Ordering::Relaxed));
        let age = u64::from(age);
        match bits {
            0 => true,
            _ if bits & EXCLUSIVE != 0 => age < bits & HOLDERS,
            // Its own age is among those of the readers.
            _ if reading => age <= bits & OLDEST && age < OLDEST,
            _ => age < bits & OLDEST,
        }
    }

    #[inline]
    pub fn release_exclusive(self) {
        self.word.store(self.with(0), Ordering::Release);
    }

    pub fn release_shared(self) {
        let next = |word: u64| match (word & HOLDERS) / READER {
            ..=1 => Some(self.with(0)),
            _ => Some(word - READER),
        };
        let _ = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }

    #[inline]
    fn exchange(self, from: u64, to: u64) -> bool {
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// The word of a protocol that leaves a timestamp behind when it unlocks.
impl Latch<'_> {
    /// For oneself; the timestamp stays.
    pub fn try_exclusive_timed(self, changes: bool) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let bits = self.bits(word);
        let taken = self.with(bits | EXCLUSIVE | if changes { CHANGES } else { 0 });
        bits & EXCLUSIVE == 0 && self.exchange(word, taken)
    }

    pub fn last_read(self) -> u32 {
        (self.bits(self.word.load(Ordering::Acquire)) & HOLDERS) as u32
    }

    /// Raises the time of the last read to `time`, unless a transaction holds the record and it is
    /// not there yet; while `same` says that the row is the one that was read.
    pub fn extend(self, time: u32, same: impl Fn() -> bool) -> bool {
        loop {
            let word = self.word.load(Ordering::Acquire);
            let bits = self.bits(word);
            if !same() {
                return false;
            }
            if bits & HOLDERS >= u64::from(time) {
                return true;
            }
            if bits & EXCLUSIVE != 0 {
                return false;
            }
            if self.exchange(word, self.with(u64::from(time) & HOLDERS)) {
                return true;
            }
        }
    }

    /// Unlocks; `time`: of the new row, or when the old one was last read; `None`: as before.
    pub fn release_timed(self, time: Option<u32>) {
        let time = time.unwrap_or_else(|| self.last_read());
        self.word.store(self.with(u64::from(time) & HOLDERS), Ordering::Release);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_another_block_left_is_no_lock() {
        let word = AtomicU64::new(0);
        assert!(Latch::new(&word, 5).try_exclusive(true));
        let latch = Latch::new(&word, 6);
        assert_eq!(latch.held(), Held::Free);
        assert!(latch.try_exclusive(false));
        assert_eq!(latch.held(), Held::Overwrite);
        assert!(!latch.try_exclusive(false) && !latch.try_shared(1));
        latch.release_exclusive();
        assert_eq!(latch.held(), Held::Free);
        assert!(latch.try_exclusive(true));
        assert_eq!(latch.held(), Held::Change);
    }

    #[test]
    fn the_last_reader_may_go_on_to_write() {
        let word = AtomicU64::new(0);
        let latch = Latch::new(&word, 5);
        assert!(latch.try_shared(7) && latch.try_shared(3));
        assert!(!latch.try_exclusive_as(3, true));
        latch.release_shared();
        assert!(!latch.try_exclusive_as(9, false) && latch.try_exclusive_as(3, true));
        latch.release_exclusive();
        assert!(latch.try_shared(70_000));
        assert!(!latch.is_for_older(70_000, false) && latch.is_for_older(3, false));
        latch.release_shared();
        assert!(latch.try_exclusive(false));
    }

    /// Wu, 2017, and the textbooks: the older waits, the younger dies, also when others leave.
    #[test]
    fn only_the_older_may_wait() {
        let word = AtomicU64::new(0);
        let latch = Latch::new(&word, 5);
        assert!(latch.try_shared(7) && latch.try_shared(3));
        assert!(latch.is_for_older(2, false) && !latch.is_for_older(5, false));
        assert!(latch.is_for_older(3, true) && !latch.is_for_older(7, true));
        latch.release_shared();
        assert!(!latch.is_for_older(5, false), "the word still names the oldest");
        latch.release_shared();
        assert!(latch.try_exclusive_as(5, false));
        assert!(latch.is_for_older(4, false) && !latch.is_for_older(6, false));
    }

    #[test]
    fn a_read_is_extended_while_the_row_stands_and_nobody_holds_it() {
        let word = AtomicU64::new(0);
        let latch = Latch::new(&word, 5);
        assert!(latch.extend(4, || true) && latch.last_read() == 4);
        assert!(!latch.extend(9, || false) && latch.last_read() == 4);
        assert!(latch.try_exclusive_timed(false) && latch.last_read() == 4);
        assert!(latch.extend(3, || true) && !latch.extend(9, || true));
        latch.release_timed(None);
        assert_eq!(latch.last_read(), 4);
        assert!(latch.try_exclusive_timed(true));
        latch.release_timed(Some(8));
        assert!(latch.extend(8, || true) && latch.last_read() == 8);
        assert_eq!(Latch::new(&word, 6).last_read(), 0);
    }
}
