//! Memory for versions: equal units in several spaces, taken and given back one by one.
//!
//! The thesis (section 5.4.4) splits each central structure into spaces, and a worker allocates
//! from one of them, so that with as many spaces as workers none waits for an allocator. A space
//! is memory that never moves and is never given back while the pool lives
//! ([`storage::parts::Words`]): a reader with a stale number reads a stale word and finds out by
//! validating. So no reader ever holds up the reuse of memory, however long it runs.
//!
//! ```text
//! 31             5 4       0
//! [  number: 27    | space: 5 ]   Unit
//! ```
//!
//! *Departure.* Spaces grow by doubling, not in steps of 512 KiB: memory that is not touched is not
//! backed.

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;
use storage::parts::{Words, prefetch};
use types::Stop;

const SPACE_BITS: u32 = 5;
/// Most spaces of a pool.
pub const SPACES_MAX: usize = 1 << SPACE_BITS;
const NUMBERS_MAX: u32 = 1 << (32 - SPACE_BITS);
const FIRST_UNITS_LOG2: u32 = if cfg!(shuttle) { 2 } else { 8 };

/// A unit of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Unit(pub u32);

impl Unit {
    fn space(self) -> usize {
        self.0 as usize & (SPACES_MAX - 1)
    }

    fn number(self) -> u64 {
        u64::from(self.0 >> SPACE_BITS)
    }
}

/// A space of a pool has no unit left. What a transaction asks for has nothing to do with it, and
/// a node that runs the block again has room: so no transaction may be rejected for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl From<Full> for Stop {
    fn from(_: Full) -> Stop {
        let why = "a memory space of versions is full: choose a garbage collector, more spaces, or \
                   another protocol";
        Stop::Halt(why.into())
    }
}

pub struct Pool {
    stride: usize,
    /// Most units of a space.
    units_max: u32,
    /// Some space has few units left.
    crowded: AtomicBool,
    spaces: Box<[CachePadded<Space>]>,
}

struct Space {
    words: Words,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    /// First one never taken.
    next: u32,
    free: Vec<u32>,
}

impl Pool {
    /// Units of `stride` words in so many spaces.
    pub fn new(stride: usize, spaces: usize) -> Pool {
        Pool::bounded(stride, spaces, NUMBERS_MAX)
    }

    fn bounded(stride: usize, spaces: usize, units_max: u32) -> Pool {
        assert!((1..=SPACES_MAX).contains(&spaces));
        let space = || {
            let words = Words::new(stride, FIRST_UNITS_LOG2);
            CachePadded::new(Space { words, numbers: Mutex::default() })
        };
        let spaces = (0..spaces).map(|_| space()).collect();
        Pool { stride, units_max, crowded: AtomicBool::new(false), spaces }
    }

    /// A unit from the space of a worker. Its words hold what its last life left in them.
    pub fn take(&self, worker: usize) -> Result<Unit, Full> {
        let at = worker % self.spaces.len();
        let space = &self.spaces[at];
        let mut numbers = space.numbers.lock();
        let number = match numbers.free.pop() {
            Some(number) => number,
            None => {
                let number = numbers.next;
                if number == self.units_max {
                    return Err(Full);
                }
                numbers.next += 1;
                if number == self.units_max / 4 * 3 {
                    self.crowded.store(true, Ordering::Relaxed);
                }
                space.words.ensure(u64::from(number));
                number
            }
        };
        Ok(Unit(number << SPACE_BITS | at as u32))
    }

    /// Whether some space has had three quarters of its units in use.
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    pub fn give(&self, unit: Unit) {
        self.spaces[unit.space()].numbers.lock().free.push(unit.number() as u32);
    }

    #[inline]
    pub fn words(&self, unit: Unit) -> &[AtomicU64] {
        let words = self.spaces.get(unit.space()).and_then(|s| s.words.unit(unit.number()));
        words.unwrap_or_default()
    }

    #[inline]
    pub fn prefetch(&self, unit: Unit) {
        for line in self.words(unit).iter().step_by(8) {
            prefetch(line);
        }
    }

    pub fn units_in_use(&self) -> usize {
        let in_use = |space: &CachePadded<Space>| {
            let numbers = space.numbers.lock();
            numbers.next as usize - numbers.free.len()
        };
        self.spaces.iter().map(in_use).sum()
    }

    /// Bytes of the units in use.
    pub fn bytes(&self) -> usize {
        self.units_in_use() * self.stride * 8
    }
}

/// Pools of units of 2, 4, 8 … words, for pieces of any size.
pub struct Classes {
    classes: Box<[Pool]>,
}

/// A piece: the class of its size above its unit. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece(pub u64);

const CLASSES: usize = 26;

impl Classes {
    pub fn new(spaces: usize) -> Classes {
        Classes { classes: (0..CLASSES).map(|class| Pool::new(2 << class, spaces)).collect() }
    }

    /// A piece of `words` words at least.
    pub fn take(&self, words: usize, worker: usize) -> Result<Piece, Full> {
        let class = words.next_power_of_two().ilog2().saturating_sub(1) as usize;
        let pool = self.classes.get(class).ok_or(Full)?;
        Ok(Piece((class as u64 + 1) << 32 | u64::from(pool.take(worker)?.0)))
    }

    pub fn give(&self, piece: Piece) {
        if let Some((pool, unit)) = self.locate(piece) {
            pool.give(unit);
        }
    }

    #[inline]
    pub fn words(&self, piece: Piece) -> &[AtomicU64] {
        self.locate(piece).map(|(pool, unit)| pool.words(unit)).unwrap_or_default()
    }

    #[inline]
    fn locate(&self, piece: Piece) -> Option<(&Pool, Unit)> {
        let class = (piece.0 >> 32) as usize;
        Some((self.classes.get(class.checked_sub(1)?)?, Unit(piece.0 as u32)))
    }

    pub fn is_crowded(&self) -> bool {
        self.classes.iter().any(Pool::is_crowded)
    }

    pub fn units_in_use(&self) -> usize {
        self.classes.iter().map(Pool::units_in_use).sum()
    }

    pub fn bytes(&self) -> usize {
        self.classes.iter().map(Pool::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::sync::atomic::Ordering::Relaxed;

    #[test]
    fn units_are_distinct_come_back_and_belong_to_the_workers_space() {
        let pool = Pool::new(3, 2);
        let units: Vec<Unit> = (0..100).map(|n| pool.take(n).unwrap()).collect();
        for (n, unit) in units.iter().enumerate() {
            assert_eq!(unit.space(), n % 2);
            pool.words(*unit)[2].store(n as u64, Relaxed);
        }
        assert!(units.iter().enumerate().all(|(n, u)| pool.words(*u)[2].load(Relaxed) == n as u64));
        units.iter().for_each(|unit| pool.give(*unit));
        assert_eq!((pool.units_in_use(), pool.bytes()), (0, 0));
        assert_eq!(pool.take(0).unwrap().space(), 0);
    }

    #[test]
    fn a_full_space_is_told_before_it_is_full_and_is_nobodys_rejection() {
        let pool = Pool::bounded(1, 1, 8);
        let units: Vec<Unit> = (0..6).map(|_| pool.take(0).unwrap()).collect();
        assert!(!pool.is_crowded());
        units.iter().for_each(|unit| pool.give(*unit));
        let units: Vec<Unit> = (0..8).map(|_| pool.take(0).unwrap()).collect();
        assert!(pool.is_crowded());
        assert_eq!(pool.take(0), Err(Full));
        assert!(matches!(Stop::from(Full), Stop::Halt(_)));
        pool.give(units[3]);
        assert_eq!(pool.take(0), Ok(units[3]));
    }

    #[test]
    fn a_piece_has_room_for_what_was_asked() {
        let classes = Classes::new(1);
        for words in 1..200 {
            let piece = classes.take(words, 0).unwrap();
            let room = classes.words(piece).len();
            assert!(room >= words && room < 2 * words.max(2), "{words}: {room}");
        }
        assert!(classes.words(Piece(0)).is_empty() && classes.take(1 << 40, 0).is_err());
    }
}
