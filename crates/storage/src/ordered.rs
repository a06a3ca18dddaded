//! The ordered index: from encoded keys to slots, in key order.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;
use types::Key;

use crate::record::Slot;

pub(crate) struct OrderedIndex {
    entries: RwLock<BTreeMap<Key, Slot>>,
}

impl OrderedIndex {
    pub(crate) fn new() -> Self {
        OrderedIndex {
            entries: RwLock::default(),
        }
    }

    pub(crate) fn insert(&self, key: &[u8], slot: Slot) {
        self.entries.write().insert(Key::from(key), slot);
    }

    pub(crate) fn remove(&self, key: &[u8]) {
        self.entries.write().remove(key);
    }

    /// Appends up to `limit` entries of the range to `out`, in the order of the scan.
    pub(crate) fn collect(
        &self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        out: &mut Vec<(Key, Slot)>,
    ) {
        let entries = self.entries.read();
        let range = entries
            .range::<[u8], _>((low, high))
            .map(|(key, slot)| (key.clone(), *slot));
        if reverse {
            out.extend(range.rev().take(limit));
        } else {
            out.extend(range.take(limit));
        }
    }
}
