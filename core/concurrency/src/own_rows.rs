//! Index over a transaction's own writes, for scans of tables that it has written to.
//!
//! Up to [`SCANNED_MAX`] writes are sorted again for each scan. With more of them, a statement that
//! scans once for each row (for a UNIQUE check, say) would take quadratic time. Each scanned index
//! therefore gets its own ordered map of the transaction's rows, which each scan first brings up to
//! date with the writes made since the previous one.
//!
//! ```text
//!   log    0 1 2 3 1 4        positions of writes, in the order in which they were made or changed
//!                ▲
//!                └ seen       by the map of one index; entries after it are still to be applied
//!   map    index key ─► position        position ─► index key
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashMap;
use types::{IndexId, Key, TableId};

use crate::test_mode::{Mutant, mutated};

/// Writes that are looked at one by one.
pub const SCANNED_MAX: usize = 16;

#[derive(Clone, Debug, Default)]
pub struct OwnRows {
    maps: Vec<OwnMap>,
    log: Vec<u32>,
}

#[derive(Clone, Debug)]
struct OwnMap {
    table: TableId,
    index: IndexId,
    entries: BTreeMap<Key, u32>,
    keys: FxHashMap<u32, Key>,
    /// Part of the log that the map knows.
    seen: usize,
}

/// Names a map.
#[derive(Clone, Copy)]
pub struct MapId(usize);

impl OwnRows {
    pub fn clear(&mut self) {
        self.maps.clear();
        self.log.clear();
    }

    /// The write at this position was made or changed.
    pub fn note(&mut self, at: usize) {
        if !self.maps.is_empty() && !mutated(Mutant::OwnRowsOutdated) {
            self.log.push(at as u32);
        }
    }

    /// The map of an index, and the writes whose entries it has to be told of: all of `count`
    /// writes if it is new.
    pub fn stale(&mut self, table: TableId, index: IndexId, count: usize) -> (MapId, Vec<u32>) {
        let is_it = |map: &OwnMap| (map.table, map.index) == (table, index);
        let seen = self.log.len();
        if let Some(place) = self.maps.iter().position(is_it) {
            let from = std::mem::replace(&mut self.maps[place].seen, seen);
            return (MapId(place), self.log[from..].to_vec());
        }
        let (entries, keys) = (BTreeMap::new(), FxHashMap::default());
        self.maps.push(OwnMap { table, index, entries, keys, seen });
        (MapId(self.maps.len() - 1), (0..count as u32).collect())
    }

    /// The entry that a write has now; `None`: the row is gone.
    pub fn set(&mut self, map: MapId, at: u32, key: Option<Key>) {
        let map = &mut self.maps[map.0];
        let before = match &key {
            Some(key) => map.keys.insert(at, key.clone()),
            None => map.keys.remove(&at),
        };
        if let Some(before) = before {
            map.entries.remove(&before);
        }
        if let Some(key) = key {
            map.entries.insert(key, at);
        }
    }

    /// Entries between two bounds, in order.
    pub fn range(&self, map: MapId, low: Bound<Key>, high: Bound<Key>) -> Vec<(Key, usize)> {
        let entries = &self.maps[map.0].entries;
        let from = entries.range((low, Bound::Unbounded));
        let within = |key: &Key| match &high {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        };
        from.take_while(|(key, _)| within(key))
            .map(|(key, at)| (key.clone(), *at as usize))
            .collect()
    }
}
