//! The hash index: from an encoded primary key to its slot.
//!
//! Sixteen shards, picked by the top bits of the hash; each is an open-addressing table of words
//! with linear probing:
//!
//! ```text
//! 63                32 31              0
//! [ hash, low 32 bits |  slot + 2       ]     0 = empty, 1 = deleted
//! ```
//!
//! The home position is the low bits of the stored hash, so a table doubles without looking at a
//! single key. Keys are compared in the record, once the 32 bits agree.
//!
//! **Readers take no lock and never wait.** Writers of one shard exclude each other by a mutex.
//! When the table is five eighths full, the writer fills one of twice the size and publishes it;
//! when keys have left all but a sixteenth of it empty, one that is a quarter full. Then it empties
//! the table before:
//!
//! ```text
//! writer                              reader
//! fill table 7                        word <- current          version 41, table 6
//! current <- version 42, table 7      probe table 6            finds, or comes to an empty word
//! empty table 6                       found: compare its key
//!                                     not found: current == word, or begin again
//! ```
//!
//! A reader that meets a word which the emptying left sees, by that word, that `current` has
//! changed, and looks again; what it found it compares with the record in any case. The version
//! tells apart the two times at which an index that shrank and grew has the same table. So readers
//! need no epoch, no counter and no lock, and the memory of a large table goes back to the kernel
//! as soon as another has taken its place: an index of many keys has 13 to 26 bytes for each while
//! it grows, and 128 at most behind a large deletion. Tables of less than 256 KiB are kept: 4 MiB
//! for an index in all.
//!
//! The hash is seeded per process against crafted collisions; no order of it reaches a result.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use parking_lot::Mutex;

use crate::record::Slot;
use crate::words::{self, Zeroed};

const SHARD_BITS: u32 = 4;
const FIRST_ENTRIES_LOG2: usize = if cfg!(shuttle) { 2 } else { 5 };
const GENERATIONS_MAX: usize = 26;
/// Of [`Shard::current`]: the version is above.
const GENERATION_BITS: u32 = 5;
/// A table shrinks when one entry of so many holds a key.
const SPARSE: usize = 16;
const EMPTY: u64 = 0;
const DELETED: u64 = 1;
const SLOT_BIAS: u32 = 2;

pub struct HashIndex {
    shards: Box<[CachePadded<Shard>]>,
    seed: u64,
}

struct Shard {
    /// Tables by size; all but the current one are empty.
    generations: [OnceLock<Zeroed>; GENERATIONS_MAX],
    /// `[ version | generation ]`
    current: AtomicUsize,
    count: Mutex<Count>,
}

/// Entries of the current table.
#[derive(Clone, Copy, Default)]
struct Count {
    /// That hold a key.
    keys: usize,
    /// That are not empty: keys, and what deleted ones left.
    filled: usize,
}

/// The hash of a key in one index.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Differs from process to process: good for spreading work, never for a result.
    pub fn number(self) -> u64 {
        self.0
    }

    fn shard(self) -> usize {
        (self.0 >> (64 - SHARD_BITS)) as usize
    }

    fn stored(self) -> u32 {
        self.0 as u32
    }
}

fn entry(stored: u32, slot: Slot) -> u64 {
    u64::from(stored) << 32 | u64::from(slot.0 + SLOT_BIAS)
}

fn entry_slot(entry: u64) -> Slot {
    Slot(entry as u32 - SLOT_BIAS)
}

impl Default for HashIndex {
    fn default() -> Self {
        HashIndex::new()
    }
}

impl HashIndex {
    pub fn new() -> Self {
        let shard = || {
            CachePadded::new(Shard {
                generations: [const { OnceLock::new() }; GENERATIONS_MAX],
                current: AtomicUsize::new(0),
                count: Mutex::default(),
            })
        };
        HashIndex {
            shards: (0..1 << SHARD_BITS).map(|_| shard()).collect(),
            seed: RandomState::new().hash_one(0u64),
        }
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        // Folded multiplication, as in wyhash: the halves of a 128-bit product mix every bit.
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let mut hash = self.seed ^ key.len() as u64;
        let mut chunks = key.chunks_exact(8);
        for chunk in &mut chunks {
            let word = u64::from_le_bytes(std::array::from_fn(|i| chunk[i]));
            hash = fold(hash ^ word, 0x9e37_79b9_7f4a_7c15);
        }
        let rest = chunks.remainder().iter().fold(1u64, |word, b| word << 8 | u64::from(*b));
        KeyHash(fold(hash ^ rest, 0xd6e8_feb8_6659_fd93 ^ self.seed))
    }

    /// The slot with this hash whose key `matches`.
    #[inline]
    pub fn find(&self, hash: KeyHash, matches: impl Fn(Slot) -> bool) -> Option<Slot> {
        let shard = &self.shards[hash.shard()];
        loop {
            let current = shard.current.load(Ordering::Acquire);
            let found = probe(shard.table_of(current)?, hash, &matches);
            if found.is_some() || shard.current.load(Ordering::Acquire) == current {
                return found;
            }
        }
    }

    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        if let Some(table) = self.shards[hash.shard()].table() {
            words::prefetch(&table[hash.stored() as usize & (table.len() - 1)]);
        }
    }

    /// The first slot whose stored hash agrees: where a look-up will probably end.
    #[inline]
    pub fn guess(&self, hash: KeyHash) -> Option<Slot> {
        self.find(hash, |_| true)
    }

    /// Adds a key that is not in the index; its record must be readable already.
    pub fn insert(&self, hash: KeyHash, slot: Slot) {
        let shard = &self.shards[hash.shard()];
        let mut count = shard.count.lock();
        let mut table = shard.table_or_first();
        if (count.filled + 1) * 8 > table.len() * 5 {
            (table, *count) = shard.change(shard.generation() + 1);
        }
        let taken = place(table, entry(hash.stored(), slot));
        count.keys += 1;
        count.filled += usize::from(taken == EMPTY);
    }

    pub fn remove(&self, hash: KeyHash, slot: Slot) {
        let shard = &self.shards[hash.shard()];
        let mut count = shard.count.lock();
        let Some(table) = shard.table() else { return };
        let mask = table.len() - 1;
        let wanted = entry(hash.stored(), slot);
        let mut position = hash.stored() as usize & mask;
        loop {
            match table[position].load(Ordering::Relaxed) {
                EMPTY => return,
                found if found == wanted => break,
                _ => position = (position + 1) & mask,
            }
        }
        table[position].store(DELETED, Ordering::Release);
        // A run of deleted entries that ends at an empty one keeps no probe going.
        if table[(position + 1) & mask].load(Ordering::Relaxed) == EMPTY {
            while table[position].load(Ordering::Relaxed) == DELETED {
                table[position].store(EMPTY, Ordering::Release);
                count.filled -= 1;
                position = position.wrapping_sub(1) & mask;
            }
        }
        count.keys -= 1;
        if table.len() > 1 << FIRST_ENTRIES_LOG2 && count.keys * SPARSE < table.len() {
            // The new table is a quarter full at most, and more than an eighth if it can be.
            let wanted = (count.keys * 4).next_power_of_two().ilog2() as usize;
            let generation = wanted.saturating_sub(FIRST_ENTRIES_LOG2);
            (_, *count) = shard.change(generation);
        }
    }

    /// What is backed by memory.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.bytes()).sum()
    }
}

impl Shard {
    fn generation(&self) -> usize {
        self.current.load(Ordering::Relaxed) & ((1 << GENERATION_BITS) - 1)
    }

    #[inline]
    fn table_of(&self, current: usize) -> Option<&[AtomicU64]> {
        let generation = current & ((1 << GENERATION_BITS) - 1);
        self.generations[generation].get().map(|table| &**table)
    }

    #[inline]
    fn table(&self) -> Option<&[AtomicU64]> {
        self.table_of(self.current.load(Ordering::Acquire))
    }

    fn table_or_first(&self) -> &[AtomicU64] {
        self.generation_or_new(self.generation())
    }

    fn generation_or_new(&self, generation: usize) -> &Zeroed {
        self.generations[generation]
            .get_or_init(|| words::zeroed(1 << (FIRST_ENTRIES_LOG2 + generation)))
    }

    /// Publishes a table of another size. Called with the shard's mutex held.
    fn change(&self, next: usize) -> (&[AtomicU64], Count) {
        let current = self.current.load(Ordering::Relaxed);
        let old = self.generation_or_new(self.generation());
        let table = self.generation_or_new(next);
        debug_assert!(next != self.generation());
        let mut keys = 0;
        for word in &**old {
            let entry = word.load(Ordering::Relaxed);
            if entry > DELETED {
                place(table, entry);
                keys += 1;
            }
        }
        let version = (current >> GENERATION_BITS) + 1;
        self.current.store(version << GENERATION_BITS | next, Ordering::Release);
        old.clear();
        (table, Count { keys, filled: keys })
    }

    fn bytes(&self) -> usize {
        let current = self.generation();
        let tables = self.generations.iter().enumerate();
        let tables = tables.filter_map(|(number, table)| Some((number, table.get()?)));
        tables.map(|(number, table)| table.bytes(number == current)).sum()
    }
}

/// Looks from the home position on; see [`HashIndex::find`].
#[inline]
fn probe(table: &[AtomicU64], hash: KeyHash, matches: impl Fn(Slot) -> bool) -> Option<Slot> {
    let mask = table.len() - 1;
    let mut position = hash.stored() as usize & mask;
    loop {
        let entry = table[position].load(Ordering::Acquire);
        if entry == EMPTY {
            return None;
        }
        if (entry >> 32) as u32 == hash.stored() && entry != DELETED {
            let slot = entry_slot(entry);
            if matches(slot) {
                return Some(slot);
            }
        }
        position = (position + 1) & mask;
    }
}

/// Puts an entry into the first place that is free on its probe; returns what was there.
fn place(table: &[AtomicU64], entry: u64) -> u64 {
    let mask = table.len() - 1;
    let mut position = (entry >> 32) as usize & mask;
    loop {
        let found = table[position].load(Ordering::Relaxed);
        if found <= DELETED {
            table[position].store(entry, Ordering::Release);
            return found;
        }
        position = (position + 1) & mask;
    }
}

#[cfg(all(test, shuttle))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map_under_churn() {
        let index = HashIndex::new();
        let mut model: BTreeMap<u64, Slot> = BTreeMap::new();
        let mut random = Random::new(7);
        for step in 0..60_000u32 {
            let key = random.below(3000);
            let hash = index.hash(&key.to_be_bytes());
            let found = index.find(hash, |slot| model.get(&key) == Some(&slot));
            assert_eq!(found, model.get(&key).copied());
            if let Some(slot) = model.remove(&key) {
                index.remove(hash, slot);
            } else {
                model.insert(key, Slot(step));
                index.insert(hash, Slot(step));
            }
        }
        assert!(index.bytes() < 3000 * 64, "churn must not grow the index: {}", index.bytes());
    }

    #[test]
    fn an_index_shrinks_when_its_keys_go() {
        let index = HashIndex::new();
        let hash = |n: u32| index.hash(&n.to_be_bytes());
        let keys = 400_000;
        let empty = index.bytes();
        for turn in 0..2 {
            (0..keys).for_each(|n| index.insert(hash(n), Slot(n)));
            let full = index.bytes();
            assert!(full < keys as usize * 60, "turn {turn}: {full} bytes");
            (100..keys).for_each(|n| index.remove(hash(n), Slot(n)));
            for n in (0..keys).step_by(7) {
                let expected = (n < 100).then_some(Slot(n));
                assert_eq!(index.find(hash(n), |slot| slot.0 == n), expected);
            }
            assert!(index.bytes() < full / 2, "turn {turn}: {} of {full} left", index.bytes());
            (0..100).for_each(|n| index.remove(hash(n), Slot(n)));
        }
        assert!(index.bytes() >= empty);
        assert!((0..keys).all(|n| index.find(hash(n), |_| true).is_none()));
    }

    #[test]
    fn readers_find_settled_keys_while_the_index_shrinks_and_grows() {
        let index = HashIndex::new();
        let hash = |n: u32| index.hash(&n.to_be_bytes());
        let settled = 200u32;
        (0..settled).for_each(|n| index.insert(hash(n), Slot(n)));
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..30 {
                    (settled..20_000).for_each(|n| index.insert(hash(n), Slot(n)));
                    (settled..20_000).for_each(|n| index.remove(hash(n), Slot(n)));
                }
                over.store(true, Ordering::Relaxed);
            });
            for n in (0..settled).cycle() {
                assert_eq!(index.find(hash(n), |slot| slot.0 == n), Some(Slot(n)));
                if n == 0 && over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
    }

    #[test]
    fn readers_find_settled_keys_while_the_index_grows() {
        let index = HashIndex::new();
        let settled = 1000u32;
        let insert = |n: u32| index.insert(index.hash(&n.to_be_bytes()), Slot(n));
        (0..settled).for_each(insert);
        std::thread::scope(|scope| {
            for part in 0..2 {
                let index = &index;
                scope.spawn(move || {
                    for n in (settled + part..50_000).step_by(2) {
                        index.insert(index.hash(&n.to_be_bytes()), Slot(n));
                    }
                });
            }
            for n in (0..settled).cycle().take(50_000) {
                let hash = index.hash(&n.to_be_bytes());
                assert_eq!(index.find(hash, |slot| slot.0 == n), Some(Slot(n)));
            }
        });
        for n in 0..50_000u32 {
            let hash = index.hash(&n.to_be_bytes());
            assert_eq!(index.find(hash, |slot| slot.0 == n), Some(Slot(n)));
        }
    }
}
