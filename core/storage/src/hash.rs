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
//! when keys have left all but a sixteenth of it empty, one of which an eighth to a quarter is
//! used. Then it empties the table before:
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
//! it grows, and 128 at most after a large deletion. Tables of less than 128 KiB are kept: 2 MiB
//! for an index in all.
//!
//! **Tables of one size lie one after the other**, a part for each shard, so that those of an
//! index of some hundred thousand keys are large enough together for huge pages. A look-up goes to
//! a random place, and without them misses the processor's address table as well as its caches.
//!
//! ```text
//!   generation 8   [ shard 0 | shard 1 | … | shard 15 ]    131,072 entries in all, 1 MiB
//!   generation 9   [   shard 0   |   shard 1   | …    ]    262,144, 2 MiB: a mapping of its own
//! ```
//!
//! The hash is seeded per process against crafted collisions; no order of it reaches a result.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use parking_lot::Mutex;

use crate::slot::Slot;
use crate::words::{self, Zeroed};

const SHARD_BITS: u32 = 4;
const SHARDS: usize = 1 << SHARD_BITS;
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
    shards: Box<[CachePadded<Shard>; SHARDS]>,
    /// Tables by size, of all shards; of each shard all but the current one are empty.
    generations: [OnceLock<Zeroed>; GENERATIONS_MAX],
    seed: u64,
}

#[derive(Default)]
struct Shard {
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

    #[inline]
    fn shard(self) -> usize {
        (self.0 >> (64 - SHARD_BITS)) as usize
    }

    #[inline]
    fn stored(self) -> u32 {
        self.0 as u32
    }
}

fn entry(stored: u32, slot: Slot) -> u64 {
    u64::from(stored) << 32 | u64::from(slot.0 + SLOT_BIAS)
}

#[inline]
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
        HashIndex {
            shards: Box::default(),
            generations: [const { OnceLock::new() }; GENERATIONS_MAX],
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
        let shard = hash.shard();
        let current = &self.shards[shard].current;
        loop {
            let seen = current.load(Ordering::Acquire);
            let generation = generation_of(seen);
            let tables = self.generations.get(generation)?.get()?;
            let found = probe(tables, Probed::new(shard, generation), hash, &matches);
            if found.is_some() || current.load(Ordering::Acquire) == seen {
                return found;
            }
        }
    }

    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        let shard = hash.shard();
        let current = self.shards[shard].current.load(Ordering::Acquire);
        let generation = generation_of(current);
        if let Some(tables) = self.generations.get(generation).and_then(OnceLock::get) {
            let home = Probed::new(shard, generation).at(hash.stored() as usize);
            words::prefetch(&tables[home]);
        }
    }

    /// The first slot whose stored hash agrees: where a look-up will probably end.
    #[inline]
    pub fn guess(&self, hash: KeyHash) -> Option<Slot> {
        let shard = hash.shard();
        let generation = generation_of(self.shards[shard].current.load(Ordering::Acquire));
        let tables = self.generations.get(generation)?.get()?;
        probe(tables, Probed::new(shard, generation), hash, |_| true)
    }

    /// Adds a key that is not in the index; its record must be readable already.
    pub fn insert(&self, hash: KeyHash, slot: Slot) {
        let shard = hash.shard();
        let mut count = self.shards[shard].count.lock();
        let generation = self.generation(shard);
        let mut table = self.table_or_new(shard, generation);
        if (count.filled + 1) * 8 > table.len() * 5 {
            (table, *count) = self.change(shard, generation + 1);
        }
        let taken = place(table, entry(hash.stored(), slot));
        count.keys += 1;
        count.filled += usize::from(taken == EMPTY);
    }

    pub fn remove(&self, hash: KeyHash, slot: Slot) {
        let shard = hash.shard();
        let mut count = self.shards[shard].count.lock();
        let Some(table) = self.table(shard, self.generation(shard)) else { return };
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
            (_, *count) = self.change(shard, generation);
        }
    }

    /// What is backed by memory.
    pub fn bytes(&self) -> usize {
        let generations = self.generations.iter().enumerate();
        let there = generations.filter_map(|(number, tables)| Some((number, tables.get()?)));
        let bytes = there.map(|(number, tables)| {
            let of_one = entries_of(number) * size_of::<AtomicU64>();
            match tables.is_mapped() {
                true => (0..SHARDS).filter(|&s| self.generation(s) == number).count() * of_one,
                false => SHARDS * of_one,
            }
        });
        bytes.sum()
    }

    fn generation(&self, shard: usize) -> usize {
        generation_of(self.shards[shard].current.load(Ordering::Relaxed))
    }

    #[inline]
    fn table(&self, shard: usize, generation: usize) -> Option<&[AtomicU64]> {
        Some(&self.generations[generation].get()?[part_of(shard, generation)])
    }

    fn table_or_new(&self, shard: usize, generation: usize) -> &[AtomicU64] {
        let tables = self.generations[generation]
            .get_or_init(|| words::zeroed(SHARDS * entries_of(generation)));
        &tables[part_of(shard, generation)]
    }

    /// Publishes a table of another size. Called with the shard's mutex held.
    fn change(&self, shard: usize, next: usize) -> (&[AtomicU64], Count) {
        let current = self.shards[shard].current.load(Ordering::Relaxed);
        let generation = generation_of(current);
        debug_assert!(next != generation);
        let table = self.table_or_new(shard, next);
        let mut keys = 0;
        for word in self.table_or_new(shard, generation) {
            let entry = word.load(Ordering::Relaxed);
            if entry > DELETED {
                place(table, entry);
                keys += 1;
            }
        }
        let version = (current >> GENERATION_BITS) + 1;
        let current = version << GENERATION_BITS | next;
        self.shards[shard].current.store(current, Ordering::Release);
        if let Some(tables) = self.generations[generation].get() {
            tables.clear(part_of(shard, generation));
        }
        (table, Count { keys, filled: keys })
    }
}

/// Of what [`Shard::current`] holds.
#[inline]
fn generation_of(current: usize) -> usize {
    current & ((1 << GENERATION_BITS) - 1)
}

#[inline]
fn entries_of(generation: usize) -> usize {
    1 << (FIRST_ENTRIES_LOG2 + generation)
}

/// Where a shard's table lies among those of its size.
#[inline]
fn part_of(shard: usize, generation: usize) -> Range<usize> {
    let entries = entries_of(generation);
    shard * entries..(shard + 1) * entries
}

/// A shard's table among those of its size, as a look-up goes through it.
#[derive(Clone, Copy)]
struct Probed {
    start: usize,
    mask: usize,
}

impl Probed {
    #[inline]
    fn new(shard: usize, generation: usize) -> Probed {
        let Range { start, .. } = part_of(shard, generation);
        Probed { start, mask: entries_of(generation) - 1 }
    }

    #[inline]
    fn at(self, position: usize) -> usize {
        self.start + (position & self.mask)
    }
}

/// Looks from the home position on; see [`HashIndex::find`].
#[inline]
fn probe(
    tables: &[AtomicU64],
    part: Probed,
    hash: KeyHash,
    matches: impl Fn(Slot) -> bool,
) -> Option<Slot> {
    let mut position = hash.stored() as usize;
    loop {
        let entry = tables[part.at(position)].load(Ordering::Acquire);
        if entry == EMPTY {
            return None;
        }
        if (entry >> 32) as u32 == hash.stored() && entry != DELETED {
            let slot = entry_slot(entry);
            if matches(slot) {
                return Some(slot);
            }
        }
        position += 1;
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
        for step in 0..if cfg!(miri) { 300 } else { 60_000u32 } {
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
    #[cfg_attr(miri, ignore = "many keys, by one thread")]
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
        let (settled, all) = if cfg!(miri) { (5, 60) } else { (200, 20_000u32) };
        let turns = if cfg!(miri) { 1 } else { 30 };
        (0..settled).for_each(|n| index.insert(hash(n), Slot(n)));
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..turns {
                    (settled..all).for_each(|n| index.insert(hash(n), Slot(n)));
                    (settled..all).for_each(|n| index.remove(hash(n), Slot(n)));
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
        let (settled, all) = if cfg!(miri) { (10, 200) } else { (1000, 50_000u32) };
        let insert = |n: u32| index.insert(index.hash(&n.to_be_bytes()), Slot(n));
        (0..settled).for_each(insert);
        std::thread::scope(|scope| {
            for part in 0..2 {
                let index = &index;
                scope.spawn(move || {
                    for n in (settled + part..all).step_by(2) {
                        index.insert(index.hash(&n.to_be_bytes()), Slot(n));
                    }
                });
            }
            for n in (0..settled).cycle().take(all as usize) {
                let hash = index.hash(&n.to_be_bytes());
                assert_eq!(index.find(hash, |slot| slot.0 == n), Some(Slot(n)));
            }
        });
        for n in 0..all {
            let hash = index.hash(&n.to_be_bytes());
            assert_eq!(index.find(hash, |slot| slot.0 == n), Some(Slot(n)));
        }
    }
}
