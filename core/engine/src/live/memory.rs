//! How much the tables may hold.
//!
//! Rows live in memory, so a node that takes more of them than there is room for would be ended by
//! the operating system, and again at each start. The sequencer looks at what the store holds
//! after blocks, and beyond the bound what might write is refused by this node on entry; what
//! was ordered runs on every replica alike. Schema changes and single DELETEs are let in, as they
//! make room: places of deleted rows are taken again, and a dropped table's memory goes back.
//!
//! Cost: a sum over the tables for every [`LOOK_ROWS`] rows or [`LOOK_BLOCKS`] blocks that were
//! written, and for each request while it is full. So much may be written beyond the bound, and
//! what waited already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use storage::Store;
use types::{Error, Result, SqlState};

const LOOK_ROWS: u64 = 256;
const LOOK_BLOCKS: u64 = 64;

pub(super) struct MemoryBound {
    /// 0: any number of bytes.
    bytes_max: u64,
    used_bytes: AtomicU64,
    /// What the stores of all engines hold that share the bound.
    together_bytes: Arc<AtomicU64>,
    is_full: AtomicBool,
    /// Since the store was looked at; a block counts for its share of rows at least.
    rows: AtomicU64,
}

impl MemoryBound {
    pub fn new(bytes_max: u64, together_bytes: Arc<AtomicU64>, store: &Store) -> MemoryBound {
        let (used_bytes, is_full, rows) = Default::default();
        let bound = MemoryBound { bytes_max, used_bytes, together_bytes, is_full, rows };
        bound.block(store, LOOK_ROWS);
        bound
    }

    /// After each block, which has changed so many rows.
    pub fn block(&self, store: &Store, rows: u64) {
        let rows = rows.max(LOOK_ROWS / LOOK_BLOCKS);
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        if self.bytes_max > 0 && rows >= LOOK_ROWS {
            self.rows.store(0, Ordering::Relaxed);
            self.look(store);
        }
    }

    fn look(&self, store: &Store) {
        // Tables that are gone leave with their last reader, which no refusal hastens.
        let used_bytes = store.current_bytes();
        let before = self.used_bytes.swap(used_bytes, Ordering::Relaxed);
        // Modulo 2^64, so that what was there before leaves the sum whatever order it is done in.
        let change = used_bytes.wrapping_sub(before);
        let together = self.together_bytes.fetch_add(change, Ordering::Relaxed);
        let together = together.wrapping_add(change);
        self.is_full.store(together > self.bytes_max, Ordering::Relaxed);
    }

    /// # Errors
    /// 53200 beyond the bound.
    pub fn check(&self, store: &Store) -> Result<()> {
        if !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        // What was deleted since has been collected meanwhile.
        self.look(store);
        if !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let together_bytes = self.together_bytes.load(Ordering::Relaxed);
        let (used, max) = (together_bytes >> 20, self.bytes_max >> 20);
        let what = "the tables of this node hold all that its memory_bytes_max allows";
        Err(Error::new(SqlState::OUT_OF_MEMORY, what)
            .with_detail(format!("They hold {used} MiB of {max} MiB; tally_memory shows what."))
            .with_hint("DELETE, TRUNCATE or DROP what is not needed, or raise memory_bytes_max."))
    }
}

impl Drop for MemoryBound {
    fn drop(&mut self) {
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        self.together_bytes.fetch_sub(used_bytes, Ordering::Relaxed);
    }
}
