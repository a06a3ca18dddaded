//! Copy-on-write slabs: what remains of virtual snapshotting without virtual memory.
//!
//! # Idea
//!
//! A column is a directory of slabs of 2,048 rows. Freezing counts one more owner of each slab and
//! begins a new *generation*; the first store into a slab of an older generation puts a copy in
//! its place.
//!
//! ```text
//!   directory   [ ●  ●  ●  ● ]  generation 2
//!                 │  │  │  └──► slab, generation 1 ◄─┐
//!                 │  │  └─────► slab, generation 2   │  written since: a copy
//!                 │  └────────► slab, generation 1 ◄─┤
//!                 └───────────► slab, generation 1 ◄─┤
//!   frozen      [ ●  ●  ●  ● ] ──────────────────────┘  and the old third slab
//! ```
//!
//! # Invariants
//!
//! 1. A slab of an older generation than the directory's never changes again: stores look at the
//!    generation first, and it only grows while no store runs (the column's exclusive lock).
//! 2. So a copy can be made without a lock, by several at once: all copies are equal, one is
//!    installed by compare-and-swap, the others are dropped and their makers look again.
//! 3. A reader may hold on to a slab that was just replaced. It sees the words as they were before
//!    the store that replaced it, which is what a reader beside a store may see.
//! 4. A replaced slab loses the directory's ownership only after all readers that could have found
//!    it there are gone (epochs of `crossbeam`); it is freed with its last frozen owner.
//!
//! A slab whose frozen owners have all left is still copied: taking it back would race with a
//! writer that saw them and is copying.

#![allow(unsafe_code)]

use std::borrow::Cow;

use crossbeam_epoch as epoch;
use kit::sync::Arc;
use kit::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering};
use types::Result;

use crate::area::{Area, Frozen, ZONE_ROWS, zone_rows};

/// Rows of a slab: 16 KiB of integers.
pub const SLAB_ROWS: usize = 2 * ZONE_ROWS;

struct Slab {
    generation: u64,
    words: Box<[AtomicI64]>,
}

pub struct Slabs {
    /// Each owns one count of the slab that it points to.
    directory: Box<[AtomicPtr<Slab>]>,
    generation: AtomicU64,
    rows: usize,
}

pub struct FrozenSlabs {
    slabs: Box<[Arc<Slab>]>,
    rows: usize,
}

impl Slab {
    fn zone(&self, zone: usize, rows: usize) -> &[AtomicI64] {
        let first = zone * ZONE_ROWS % SLAB_ROWS;
        &self.words[first..first + zone_rows(zone, rows).len()]
    }

    fn copied(&self, generation: u64) -> Slab {
        let words = self.words.iter().map(|word| AtomicI64::new(word.load(Ordering::Relaxed)));
        Slab { generation, words: words.collect() }
    }
}

impl Slabs {
    fn with_slab<R>(&self, at: usize, read: impl FnOnce(&Slab) -> R) -> R {
        let _guard = epoch::pin();
        // SAFETY: the directory owned this slab when it was loaded, and gives its ownership up
        // only after guards that were pinned by then are gone (`replace`).
        read(unsafe { &*self.directory[at].load(Ordering::Acquire) })
    }

    /// Puts a copy of the newest generation into the place of `old`, unless another thread did.
    fn replace(&self, at: usize, old: *mut Slab, generation: u64, guard: &epoch::Guard) {
        // SAFETY: as in `with_slab`; the caller loaded `old` while pinned by `guard`.
        let copy = Arc::new(unsafe { &*old }.copied(generation));
        let new = Arc::into_raw(copy).cast_mut();
        let place = &self.directory[at];
        match place.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the exchange took the directory's count of `old` out, once. It is given back
            // when none is pinned any more that could have loaded it. An `Arc` of words and a
            // number may be dropped on any thread.
            Ok(_) => {
                let old = old as usize;
                unsafe {
                    guard.defer_unchecked(move || drop(Arc::from_raw(old as *const Slab)));
                }
            }
            // SAFETY: `new` came out of `into_raw` above and no other thread has seen it.
            Err(_) => drop(unsafe { Arc::from_raw(new) }),
        }
    }
}

impl Area for Slabs {
    type Frozen = FrozenSlabs;

    const TECHNIQUE: &'static str = "slabs";

    fn new(rows: usize) -> Result<Self> {
        let slab = |at: usize| {
            let rows = (rows - at * SLAB_ROWS).min(SLAB_ROWS);
            let words = (0..rows).map(|_| AtomicI64::new(0)).collect();
            AtomicPtr::new(Arc::into_raw(Arc::new(Slab { generation: 0, words })).cast_mut())
        };
        let directory = (0..rows.div_ceil(SLAB_ROWS)).map(slab).collect();
        Ok(Slabs { directory, generation: AtomicU64::new(0), rows })
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn load(&self, row: usize) -> i64 {
        self.with_slab(row / SLAB_ROWS, |slab| slab.words[row % SLAB_ROWS].load(Ordering::Acquire))
    }

    fn store(&self, row: usize, value: i64) {
        let guard = epoch::pin();
        let at = row / SLAB_ROWS;
        let generation = self.generation.load(Ordering::Relaxed);
        loop {
            let found = self.directory[at].load(Ordering::Acquire);
            // SAFETY: as in `with_slab`.
            let slab = unsafe { &*found };
            if slab.generation == generation {
                slab.words[row % SLAB_ROWS].store(value, Ordering::Release);
                return;
            }
            self.replace(at, found, generation, &guard);
        }
    }

    fn with_zone<R>(&self, zone: usize, read: impl FnOnce(&[AtomicI64]) -> R) -> R {
        self.with_slab(zone * ZONE_ROWS / SLAB_ROWS, |slab| read(slab.zone(zone, self.rows)))
    }

    fn freeze(&self) -> Result<FrozenSlabs> {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let own = |place: &AtomicPtr<Slab>| {
            let slab = place.load(Ordering::Acquire);
            // SAFETY: the directory owns a count of it, and it is not replaced while no store
            // runs; so the count can be raised and belongs to the frozen directory.
            unsafe {
                Arc::increment_strong_count(slab);
                Arc::from_raw(slab)
            }
        };
        Ok(FrozenSlabs { slabs: self.directory.iter().map(own).collect(), rows: self.rows })
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        for place in &self.directory {
            // SAFETY: the directory's own count; it can't be loaded from here any more.
            drop(unsafe { Arc::from_raw(place.load(Ordering::Acquire)) });
        }
    }
}

impl Frozen for FrozenSlabs {
    fn zone(&self, zone: usize) -> Cow<'_, [i64]> {
        let words = self.slabs[zone * ZONE_ROWS / SLAB_ROWS].zone(zone, self.rows);
        frozen_words(words)
    }
}

#[cfg(not(shuttle))]
fn frozen_words(words: &[AtomicI64]) -> Cow<'_, [i64]> {
    // SAFETY: `AtomicI64` has the representation of `i64`, and by invariant 1 no thread stores into
    // a slab that a frozen directory owns.
    Cow::Borrowed(unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) })
}

#[cfg(shuttle)]
fn frozen_words(words: &[AtomicI64]) -> Cow<'_, [i64]> {
    Cow::Owned(words.iter().map(|word| word.load(Ordering::Relaxed)).collect())
}
