//! Where keys that come in order go: a leaf that is known to be theirs is not looked for again.
//!
//! An order's lines are as many inserts in a row of the index, each right behind the one before,
//! and each a descent from the root that compares with some twenty keys. A worker keeps a
//! *finger*: the leaf, the version of it that was seen last, and the keys between which all belong
//! there.
//!
//! *Invariant.* As long as a leaf has the version that the finger saw, every key of `low .. high`
//! is its own. Its keys become fewer by a split or when it is unlinked, both of which lock it and
//! so change its version; they become more, whatever its version, when a neighbour is unlinked.
//! So to lock the leaf by that version is all that an insert has to do. A node that was unlinked
//! and lives elsewhere has another version than ever before.
//!
//! The bounds are separators of nodes on the way down. They are read after the insert, and count if
//! those nodes have not changed since the descent.
//!
//! *Cost.* A third of a descent's instructions. A finger is made by the second of two keys that
//! follow each other, so that keys in no order pay a comparison for it.

use std::sync::atomic::{AtomicU64, Ordering};

use types::Key;

use super::node::{Node, SearchKey, Seen};
use super::{Attempt, OrderedIndex, Restart, Step, until_done};
use crate::slot::Slot;

/// Tells apart all indexes that there are or were, so that a finger is of one of them.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
pub(crate) struct Finger {
    index: u64,
    leaf: u32,
    seen: Seen,
    low: Option<Key>,
    high: Option<Key>,
}

/// The separators around the leaf that a descent comes to: the node of each, and its place.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'a> {
    low: Option<(Node<'a>, Seen, usize)>,
    high: Option<(Node<'a>, Seen, usize)>,
}

impl<'a> Beside<'a> {
    /// The descent goes to the child in a place of `step`'s node.
    #[inline]
    pub(super) fn pass(&mut self, step: &Step<'a>, place: usize) {
        if let Some(below) = place.checked_sub(1) {
            self.low = Some((step.node, step.seen, below));
        }
        if place < step.node.count() {
            self.high = Some((step.node, step.seen, place));
        }
    }
}

impl OrderedIndex {
    /// As [`OrderedIndex::insert`], where keys often come in order.
    pub(crate) fn insert_near(&self, finger: &mut Option<Finger>, key: &[u8], slot: Slot) {
        let search = SearchKey::new(key);
        if let Some(finger) = finger
            && finger.index == self.id
            && finger.covers(key)
            && self.insert_at(finger, &search, slot).is_ok()
        {
            return;
        }
        let inserted = until_done(|| self.try_insert(&search, slot));
        if let Some((step, beside)) = inserted
            && let Ok(new) = self.finger(&step, &beside)
        {
            *finger = Some(new);
        }
    }

    fn insert_at(&self, finger: &mut Finger, key: &SearchKey<'_>, slot: Slot) -> Attempt<()> {
        let node = self.node(finger.leaf)?;
        if node.is_full() {
            return Err(Restart);
        }
        let leaf = node.lock(finger.seen)?;
        match node.search_from_run(key, &self.heap) {
            (i, true) => leaf.set_value(i, slot.0),
            (i, false) => leaf.insert(i, key, slot.0, &self.heap),
        }
        finger.seen = finger.seen.after_change();
        Ok(())
    }

    /// To the leaf of a step, which has been changed once since.
    fn finger(&self, step: &Step<'_>, beside: &Beside<'_>) -> Attempt<Finger> {
        let bound = |separator: Option<(Node<'_>, Seen, usize)>| -> Attempt<Option<Key>> {
            let Some((node, seen, place)) = separator else { return Ok(None) };
            let key = node.key(place, &self.heap);
            node.validate(seen)?;
            Ok(Some(key))
        };
        Ok(Finger {
            index: self.id,
            leaf: step.number,
            seen: step.seen.after_change(),
            low: bound(beside.low)?,
            high: bound(beside.high)?,
        })
    }
}

impl Finger {
    #[inline]
    fn covers(&self, key: &[u8]) -> bool {
        self.low.as_ref().is_none_or(|low| low.as_bytes() <= key)
            && self.high.as_ref().is_none_or(|high| key < high.as_bytes())
    }
}
