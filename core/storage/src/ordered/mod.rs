//! The ordered index: a B+tree from byte strings to slots, read without locks.
//!
//! # Optimistic lock coupling
//!
//! After Leis, Haubenschild and Neumann (*Optimistic lock coupling*, IEEE Data Eng. Bull. 2019).
//! Every node has a version that counts its changes and holds a lock bit. Who descends notes a
//! node's version, reads the child's number, notes the *child's* version, and then checks that the
//! parent has not changed: only then was it the child at that moment. Readers write nothing; a
//! writer locks the leaf it changes, and a parent only to split or unlink a child. A failed check
//! begins again at the root. Locks are taken by upgrading a noted version and never waited for
//! while another is held, so there is no deadlock.
//!
//! # Departures
//!
//! - *No epochs.* Nodes are numbered units of a [`Words`] space and go back to it. A reader that
//!   follows a stale number finds a node that lives elsewhere now, sees its current version, and
//!   fails the check of the parent, which must have changed when it lost the child. Versions only
//!   grow, over all of a node's lives.
//! - *Splits on the way down.* An insert splits every full node it meets, so the parent of a node
//!   that splits always has room. Separators are the shortest that separate.
//! - *No sibling pointers.* A scan notes the separators beside its path; the one nearest to the
//!   leaf is where the next leaf begins, in either direction, and a new descent leads there. It
//!   costs one descent per leaf, some nanoseconds per entry, and spares the upkeep of a list.
//! - *Removing* unlinks leaves that become empty, with the inner nodes that led only to them, and
//!   merges nothing else. Entries fall away when blocks are collected, in bulk, and usually come
//!   back near where they were.
//! - A leaf splits after a run of keys that came in order, be it in its middle (PostgreSQL's
//!   nbtree does the like): orders of one district among those of others fill their leaves too.
//!
//! A worker that inserts keys in order keeps the leaf that the last one went to ([`finger`]).
//!
//! Keys over 128 bytes lie in a heap, each in a place of its own. When its entry goes, and after
//! the change of the node's version by which readers of it will know, the place is free.

mod finger;
mod node;
#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use smallvec::SmallVec;
use types::Key;

use crate::heap::{Heap, View};
use crate::slot::Slot;
use crate::words::Words;
use finger::Beside;
pub(crate) use finger::Finger;
use node::{Attempt, Locked, NODE_WORDS, Node, Restart, SearchKey, Seen};

const FIRST_NODES_LOG2: u32 = 3;

pub struct OrderedIndex {
    /// No other index has it.
    id: u64,
    nodes: Words,
    root: AtomicU64,
    heap: Heap,
    numbers: Mutex<NodeNumbers>,
}

#[derive(Default)]
struct NodeNumbers {
    /// First node never used.
    next: u32,
    free: Vec<u32>,
}

/// A node on a descent: its number, what was seen of it, and the place of the child taken.
#[derive(Clone, Copy)]
struct Step<'a> {
    number: u32,
    node: Node<'a>,
    seen: Seen,
    place: usize,
}

/// Where a descent goes: to the leaf of a key, of the keys just below it, or to an end.
#[derive(Clone, Copy)]
enum Target<'k, 'a> {
    First,
    Last,
    Key(&'k SearchKey<'a>),
    Below(&'k SearchKey<'a>),
}

impl Default for OrderedIndex {
    fn default() -> Self {
        OrderedIndex::new()
    }
}

impl OrderedIndex {
    pub fn new() -> Self {
        let index = OrderedIndex {
            id: finger::next_id(),
            nodes: Words::new(NODE_WORDS, FIRST_NODES_LOG2),
            root: AtomicU64::new(0),
            heap: Heap::new(),
            numbers: Mutex::default(),
        };
        let (root, node) = index.allocate();
        node.reset(None);
        drop(node);
        index.root.store(u64::from(root), Ordering::Release);
        index
    }

    /// Leads `key` to `slot`, whatever it led to before.
    pub fn insert(&self, key: &[u8], slot: Slot) {
        let key = SearchKey::new(key);
        until_done(|| self.try_insert(&key, slot));
    }

    /// Bytes of long keys, and how many of them are free.
    #[cfg(test)]
    pub(crate) fn long_key_bytes(&self) -> (u64, u64) {
        (self.heap.reserved_bytes(), self.heap.free_bytes())
    }

    pub fn remove(&self, key: &[u8]) {
        self.remove_where(key, |_| true);
    }

    /// Removes a key, unless it leads to another slot by now.
    pub(crate) fn remove_of(&self, key: &[u8], slot: Slot) {
        self.remove_where(key, |value| value == slot.0);
    }

    fn remove_where(&self, key: &[u8], is_meant: impl Fn(u32) -> bool) {
        let search = SearchKey::new(key);
        if until_done(|| self.try_remove(&search, &is_meant)) {
            until_done(|| self.try_unlink(&search));
        }
    }

    /// Appends up to `limit` entries of the range to `out`, in the order of the scan. Entries that
    /// stand throughout the call are all met; of others, some may be.
    pub fn collect(
        &self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
        out: &mut Vec<(Key, Slot)>,
    ) {
        let end = out.len() + limit;
        let mut fence: Option<Key> = None;
        let mut spin = Spin::new();
        while out.len() < end {
            let beyond = fence.as_ref().map(Key::as_bytes);
            let (from, to) = match (beyond, reverse) {
                (Some(key), false) => (Bound::Included(key), high),
                (Some(key), true) => (low, Bound::Excluded(key)),
                (None, _) => (low, high),
            };
            let start = out.len();
            match self.try_collect_leaf(from, to, reverse, end, out) {
                Ok(Some(next)) => fence = Some(next),
                Ok(None) => return,
                Err(Restart) => {
                    out.truncate(start);
                    spin.wait();
                }
            }
        }
    }

    /// Bytes of the nodes in use.
    pub fn bytes(&self) -> usize {
        let numbers = self.numbers.lock();
        (numbers.next as usize - numbers.free.len()) * NODE_WORDS * 8
    }

    fn node(&self, number: u32) -> Attempt<Node<'_>> {
        Node::new(self.nodes.unit(u64::from(number)).ok_or(Restart)?)
    }

    /// A locked node that nothing leads to.
    fn allocate(&self) -> (u32, Locked<'_>) {
        let number = {
            let mut numbers = self.numbers.lock();
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        self.nodes.ensure(u64::from(number));
        loop {
            let node = self.node(number).expect("just backed");
            // Only readers with a stale number look at the node, and they do not lock it.
            if let Ok(locked) = node.lock(node.see()) {
                return (number, locked);
            }
        }
    }

    fn root(&self) -> Attempt<Step<'_>> {
        let number = self.root.load(Ordering::Acquire) as u32;
        let node = self.node(number)?;
        let seen = node.see();
        if self.root.load(Ordering::Acquire) != u64::from(number) {
            return Err(Restart);
        }
        Ok(Step { number, node, seen, place: 0 })
    }

    /// The next step down, to the child in a place of `step`'s node.
    #[inline]
    fn down<'a>(&'a self, step: &mut Step<'a>, place: usize) -> Attempt<Step<'a>> {
        step.place = place;
        let number = step.node.child(place);
        step.node.validate(step.seen)?;
        let node = self.node(number)?;
        let seen = node.see();
        step.node.validate(step.seen)?;
        Ok(Step { number, node, seen, place: 0 })
    }

    #[inline]
    fn place(&self, node: Node<'_>, target: Target<'_, '_>) -> usize {
        match target {
            Target::First => 0,
            Target::Last => node.count(),
            // A separator is the first key that its child may hold.
            Target::Key(key) => {
                let (place, equal) = node.search(key, &self.heap);
                place + usize::from(equal)
            }
            Target::Below(key) => node.search(key, &self.heap).0,
        }
    }

    /// Where the key came right behind the one before: the leaf, as it was before, and what is
    /// beside it.
    fn try_insert<'a>(
        &'a self,
        key: &SearchKey<'_>,
        slot: Slot,
    ) -> Attempt<Option<(Step<'a>, Beside<'a>)>> {
        let mut step = self.root()?;
        let mut parent: Option<Step<'_>> = None;
        let mut beside = Beside::default();
        loop {
            if step.node.is_full() {
                let at = step.node.split_place(key, &self.heap);
                self.split(parent, step, at)?;
                return Err(Restart);
            }
            if step.node.is_leaf() {
                let leaf = step.node.lock(step.seen)?;
                let is_next = match step.node.search_from_end(key, &self.heap) {
                    (i, true) => {
                        leaf.set_value(i, slot.0);
                        false
                    }
                    (i, false) => {
                        let is_next = i > 0 && i == step.node.run();
                        leaf.insert(i, key, slot.0, &self.heap);
                        is_next
                    }
                };
                return Ok(is_next.then_some((step, beside)));
            }
            let place = self.place(step.node, Target::Key(key));
            beside.pass(&step, place);
            let child = self.down(&mut step, place)?;
            parent = Some(std::mem::replace(&mut step, child));
        }
    }

    /// Splits a full node, whose parent has room for a separator, at a place that was found before
    /// its lock was taken by the same version.
    fn split(&self, parent: Option<Step<'_>>, step: Step<'_>, at: usize) -> Attempt<()> {
        let parent = parent.map(|p| Ok((p, p.node.lock(p.seen)?))).transpose()?;
        let left = step.node.lock(step.seen)?;
        if parent.is_none() && self.root.load(Ordering::Acquire) != u64::from(step.number) {
            return Err(Restart);
        }
        let separator = self.separator(step.node, at);
        // That of an inner node goes up, into a place of its own.
        let goes_up = step.node.long_key(at).filter(|_| !step.node.is_leaf());
        let (right_number, right) = self.allocate();
        left.split_off(at, &right);
        drop(right);
        let separator = SearchKey::new(separator.as_bytes());
        match parent {
            Some((parent, locked)) => {
                locked.insert(parent.place, &separator, right_number, &self.heap);
            }
            None => {
                let (root_number, root) = self.allocate();
                root.reset(Some(step.number));
                root.insert(0, &separator, right_number, &self.heap);
                drop(root);
                self.root.store(u64::from(root_number), Ordering::Release);
            }
        }
        drop(left);
        self.free(goes_up);
        Ok(())
    }

    /// Gives up the string of a key that no node holds any more.
    fn free(&self, key: Option<View>) {
        key.into_iter().for_each(|view| self.heap.free(view));
    }

    /// A key above entry `at - 1` and not above entry `at`: in a leaf the shortest one.
    fn separator(&self, node: Node<'_>, at: usize) -> Key {
        let mut right = node.key(at, &self.heap);
        if node.is_leaf() {
            let left = node.key(at - 1, &self.heap);
            let common = left.0.iter().zip(&right.0).take_while(|(l, r)| l == r).count();
            right.0.truncate(common + 1);
        }
        right
    }

    /// Whether the leaf is empty now.
    fn try_remove(&self, key: &SearchKey<'_>, is_meant: impl Fn(u32) -> bool) -> Attempt<bool> {
        let mut step = self.root()?;
        while !step.node.is_leaf() {
            let place = self.place(step.node, Target::Key(key));
            step = self.down(&mut step, place)?;
        }
        let (i, found) = step.node.search(key, &self.heap);
        step.node.validate(step.seen)?;
        if !found {
            return Ok(false);
        }
        let leaf = step.node.lock(step.seen)?;
        if !is_meant(step.node.value(i)) {
            return Ok(false);
        }
        let key = step.node.long_key(i);
        leaf.remove(i);
        let is_empty = step.node.count() == 0;
        drop(leaf);
        self.free(key);
        Ok(is_empty)
    }

    /// Unlinks the leaf of a key if it is empty, with the inner nodes that lead only to it.
    fn try_unlink(&self, key: &SearchKey<'_>) -> Attempt<()> {
        let mut path: SmallVec<[Step<'_>; 8]> = SmallVec::new();
        let mut step = self.root()?;
        while !step.node.is_leaf() {
            let place = self.place(step.node, Target::Key(key));
            let child = self.down(&mut step, place)?;
            path.push(std::mem::replace(&mut step, child));
        }
        if step.node.count() > 0 {
            return step.node.validate(step.seen);
        }
        path.push(step);
        // The lowest node that leads elsewhere too; if there is none, the tree is this path.
        let Some(keeper) =
            path.iter().rposition(|step| !step.node.is_leaf() && step.node.count() > 0)
        else {
            return path.iter().try_for_each(|step| step.node.validate(step.seen));
        };
        let locks: SmallVec<[Locked<'_>; 8]> =
            path[keeper..].iter().map(|step| step.node.lock(step.seen)).collect::<Attempt<_>>()?;
        let separator = locks[0].remove_child(path[keeper].place);
        drop(locks);
        self.free(separator);
        let unlinked = path[keeper + 1..].iter().map(|step| step.number);
        self.numbers.lock().free.extend(unlinked);
        Ok(())
    }

    /// Collects from the first leaf of the range. Gives the key where the next leaf begins, or, in
    /// reverse, below which it ends; `None` after the last.
    fn try_collect_leaf(
        &self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        reverse: bool,
        end: usize,
        out: &mut Vec<(Key, Slot)>,
    ) -> Attempt<Option<Key>> {
        let (low_key, high_key) = (bound_key(low), bound_key(high));
        let target = match (reverse, &low_key, &high_key, high) {
            (false, Some(key), _, _) => Target::Key(key),
            (false, None, _, _) => Target::First,
            (true, _, Some(key), Bound::Excluded(_)) => Target::Below(key),
            (true, _, Some(key), _) => Target::Key(key),
            (true, _, None, _) => Target::Last,
        };
        let mut fence = None;
        let mut step = self.root()?;
        while !step.node.is_leaf() {
            let place = self.place(step.node, target);
            let beside = if reverse { place.checked_sub(1) } else { Some(place) };
            if let Some(i) = beside.filter(|i| *i < step.node.count()) {
                fence = Some(step.node.key(i, &self.heap));
            }
            step = self.down(&mut step, place)?;
        }
        let node = step.node;
        let position = |key: &Option<SearchKey<'_>>, bound, after: bool, otherwise| match key {
            None => otherwise,
            Some(key) => {
                let (i, found) = node.search(key, &self.heap);
                // An entry equal to the bound is inside or outside of the range.
                i + usize::from(found && after == matches!(bound, Bound::Included(_)))
            }
        };
        let first = position(&low_key, low, false, 0);
        let last = position(&high_key, high, true, node.count());
        let entry = |i| (node.key(i, &self.heap), Slot(node.value(i)));
        let room = end - out.len();
        if reverse {
            out.extend((first..last).rev().take(room).map(entry));
        } else {
            out.extend((first..last).take(room).map(entry));
        }
        node.validate(step.seen)?;
        let beyond = match (&fence, reverse) {
            (Some(fence), false) => is_above(fence, high),
            (Some(fence), true) => is_at_or_below(fence, low),
            (None, _) => true,
        };
        Ok(fence.filter(|_| !beyond))
    }
}

fn until_done<T>(mut attempt: impl FnMut() -> Attempt<T>) -> T {
    let mut spin = Spin::new();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Restart) => spin.wait(),
        }
    }
}

fn bound_key(bound: Bound<&[u8]>) -> Option<SearchKey<'_>> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(SearchKey::new(key)),
        Bound::Unbounded => None,
    }
}

/// Whether no key from `fence` on is in a range that ends at `high`.
fn is_above(fence: &Key, high: Bound<&[u8]>) -> bool {
    match high {
        Bound::Included(high) => fence.as_bytes() > high,
        Bound::Excluded(high) => fence.as_bytes() >= high,
        Bound::Unbounded => false,
    }
}

/// Whether no key below `fence` is in a range that begins at `low`.
fn is_at_or_below(fence: &Key, low: Bound<&[u8]>) -> bool {
    match low {
        Bound::Included(low) | Bound::Excluded(low) => fence.as_bytes() <= low,
        Bound::Unbounded => false,
    }
}
