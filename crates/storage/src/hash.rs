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
//! **Readers take no lock and never wait.** Writers of one shard exclude each other by a mutex;
//! when the table is five eighths full, the writer fills one of twice the size and publishes it. A
//! reader that still probes the older table finds what was there when it began. Older tables are
//! kept until the index is dropped: they add up to less than the current one (26 to 51 bytes a key
//! in all), and in exchange readers need no epoch, no counter and no unsafe code.
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
const FIRST_ENTRIES_LOG2: usize = 5;
const GENERATIONS_MAX: usize = 26;
const EMPTY: u64 = 0;
const DELETED: u64 = 1;
const SLOT_BIAS: u32 = 2;

pub struct HashIndex {
    shards: Box<[CachePadded<Shard>]>,
    seed: u64,
}

struct Shard {
    generations: [OnceLock<Zeroed>; GENERATIONS_MAX],
    current: AtomicUsize,
    /// Entries that are not empty in the current generation, deleted ones included.
    filled: Mutex<usize>,
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
                filled: Mutex::new(0),
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
        let table = self.shards[hash.shard()].table()?;
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
        let mut filled = shard.filled.lock();
        let mut table = shard.table_or_first();
        if (*filled + 1) * 8 > table.len() * 5 {
            (table, *filled) = shard.grow(table);
        }
        let taken = place(table, entry(hash.stored(), slot));
        *filled += usize::from(taken == EMPTY);
    }

    pub fn remove(&self, hash: KeyHash, slot: Slot) {
        let shard = &self.shards[hash.shard()];
        let mut filled = shard.filled.lock();
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
                *filled -= 1;
                position = position.wrapping_sub(1) & mask;
            }
        }
    }

    pub fn bytes(&self) -> usize {
        let tables = self.shards.iter().flat_map(|shard| &shard.generations);
        tables.filter_map(OnceLock::get).map(|table| table.len() * 8).sum()
    }
}

impl Shard {
    #[inline]
    fn table(&self) -> Option<&[AtomicU64]> {
        self.generations[self.current.load(Ordering::Acquire)].get().map(|table| &**table)
    }

    fn table_or_first(&self) -> &[AtomicU64] {
        let current = self.current.load(Ordering::Relaxed);
        self.generations[current].get_or_init(|| words::zeroed(1 << (FIRST_ENTRIES_LOG2 + current)))
    }

    /// Publishes a table of twice the size. Called with the shard's mutex held.
    fn grow(&self, old: &[AtomicU64]) -> (&[AtomicU64], usize) {
        let next = self.current.load(Ordering::Relaxed) + 1;
        let table = self.generations[next].get_or_init(|| words::zeroed(old.len() * 2));
        let mut filled = 0;
        for word in old {
            let entry = word.load(Ordering::Relaxed);
            if entry > DELETED {
                place(table, entry);
                filled += 1;
            }
        }
        self.current.store(next, Ordering::Release);
        (table, filled)
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
