//! What collectors do to a table: versions that no transaction sees go, and tuples that are gone
//! for all.
//!
//! A tuple whose newest version is a deletion that all see is taken out of the indexes and
//! marked dead; its number is used again when all who were active then have ended.

use kit::sync::atomic::Ordering;
use storage::Slot;

use super::{DEAD_LOCK, Entries, Store, Table};
use crate::chains::{Chains, Latched, Sight};
use crate::clock::Timestamp;
use crate::mutant::{Mutant, mutated};

/// What pruning a tuple came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    pub versions: usize,
    /// Something is left that will be garbage later.
    pub unfinished: bool,
    /// Not for want of trying: a writer was there, or a reader of the deletion.
    pub skipped: bool,
}

impl Table {
    /// A collector should come by.
    pub fn mark_dirty(&self, tuple: u32) {
        let Some([word]) = self.dirty.unit(u64::from(tuple >> 12)) else { return };
        let bit = 1 << (tuple >> 6 & 63);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Visits every block of heads that was marked since, or all; gives how many versions went.
    pub fn sweep(&self, sight: &Sight, now: Timestamp, all: bool) -> usize {
        let tuples = self.numbers.lock().next;
        let mut freed = 0;
        for group in 0..tuples.div_ceil(1 << 12) {
            let Some([word]) = self.dirty.unit(u64::from(group)) else { continue };
            let mut blocks = word.swap(0, Ordering::AcqRel);
            if all {
                blocks = u64::MAX;
            }
            while blocks != 0 {
                let block = blocks.trailing_zeros();
                blocks &= blocks - 1;
                let first = group << 12 | block << 6;
                for tuple in first..tuples.min(first + 64) {
                    let pruned = self.prune(tuple, sight, now);
                    freed += pruned.versions;
                    if pruned.unfinished && !mutated(Mutant::DirtyForgotten) {
                        self.mark_dirty(tuple);
                    }
                }
            }
        }
        freed
    }

    /// Frees what no transaction sees of a tuple, the tuple itself if it is deleted for all. `now`:
    /// no active one reads above it.
    pub fn prune(&self, tuple: u32, sight: &Sight, now: Timestamp) -> Pruned {
        let head = self.head(tuple);
        if head.newest().is_dead() {
            return Pruned::default();
        }
        let latched = head.latch();
        let has_older = with_chains!(&self.store, chains => chains.has_older(&latched));
        let deleted = head.newest().deleted();
        if !has_older && !deleted {
            return Pruned::default();
        }
        let indexed = self.has_secondaries();
        if indexed && head.lock_word().load(Ordering::SeqCst) != 0 {
            // Its writer may count on an entry that only a version to be freed has.
            return Pruned { versions: 0, unfinished: true, skipped: true };
        }
        let before = if indexed { self.entries(&latched, tuple) } else { Entries::new() };
        let layout = &self.layout;
        let versions = with_chains!(&self.store, chains => {
            chains.prune(layout, &latched, tuple, sight)
        });
        if versions > 0 && indexed && !mutated(Mutant::EntryStays) {
            self.remove_entries(&before, &self.entries(&latched, tuple));
        }
        let has_older = with_chains!(&self.store, chains => chains.has_older(&latched));
        let gone = deleted && !has_older && self.bury(&latched, tuple, sight, now);
        let skipped = deleted && !has_older && !gone;
        Pruned { versions, unfinished: has_older || skipped, skipped }
    }

    /// Takes out a tuple of which no transaction sees a row.
    fn bury(&self, latched: &Latched<'_>, tuple: u32, sight: &Sight, now: Timestamp) -> bool {
        let head = latched.0;
        let lock = head.lock_word();
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if head.newest().begin() > sight.horizon
            || lock.compare_exchange(0, DEAD_LOCK, order.0, order.1).is_err()
        {
            return false;
        }
        let readers = head.readers().load(Ordering::SeqCst);
        if Timestamp(readers) > sight.horizon {
            lock.store(0, Ordering::SeqCst);
            return false;
        }
        let key = self.key(tuple);
        let hash = self.primary.hash(key.as_bytes());
        let _alone = self.creating(hash);
        head.kill();
        self.primary.remove(hash, Slot(tuple));
        self.ordered[0].remove(key.as_bytes());
        with_chains!(&self.store, chains => chains.bury(&self.layout, latched));
        self.numbers.lock().buried.push_back((now, tuple));
        true
    }
}
