//! A node of the tree: 256 words, sorted entries, keys' tails packed from the end.
//!
//! ```text
//! word 0         version: [ changes: 63 | locked: 1 ]
//! word 1         [ run: 8 | unused: 7 | leaf: 1 | garbage: 16 | low: 16 | count: 16 ]
//! word 2         inner nodes: the child below the first separator
//! word 3         unused
//! word 4 + 2i    head of key i: its first eight bytes, big endian, zero-padded
//! word 5 + 2i    [ slot or child: 32 | length of key i: 16 | first word of its tail: 16 ]
//! ...            free
//! low .. 256     tails: the bytes after the eighth, big endian, zero-padded; `garbage` words of
//!                them belong to no entry any more
//! ```
//!
//! `run` is the place after the entry that came last, 0 if one went since.
//!
//! A binary search compares heads, one integer each, and looks at a tail only where heads are
//! equal. Zero padding keeps the order of bytes as long as equal words are decided by length. Keys
//! longer than 128 bytes have the length 0xFFFF, and a view of the whole key (module `heap`) in
//! place of the tail, so that every entry takes 17 words at most and a node holds at least 14.
//!
//! A node is read while others write it: every number found in it is masked into the node, and
//! nothing read counts before the version has been validated.

use std::cmp::Ordering as Order;

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use smallvec::SmallVec;
use types::Key;

use crate::heap::{Heap, View};

pub(super) const NODE_WORDS: usize = 256;
const VERSION: usize = 0;
const SHAPE: usize = 1;
const FIRST_CHILD: usize = 2;
const ENTRIES: usize = 4;
const LOCKED: u64 = 1;
const LEAF: u64 = 1 << 48;
const RUN_SHIFT: u32 = 56;
const KEY_BYTES_MAX: usize = 128;
const HEAD_BYTES: usize = 8;
const LONG: u64 = 0xFFFF;
pub(super) const ENTRY_WORDS_MAX: usize = 2 + (KEY_BYTES_MAX - HEAD_BYTES) / 8;

/// What was read has changed meanwhile; begin again.
#[derive(Debug)]
pub(super) struct Restart;

pub(super) type Attempt<T> = Result<T, Restart>;

/// A version without its lock bit set, seen before reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen(u64);

impl Seen {
    /// The version of a node that was locked by this one, when its lock was dropped.
    #[inline]
    pub(super) fn after_change(self) -> Seen {
        Seen(self.0 + 2 * LOCKED)
    }
}

/// A key taken apart for comparison.
pub(super) struct SearchKey<'a> {
    bytes: &'a [u8],
    head: u64,
    tail: SmallVec<[u64; 4]>,
}

impl<'a> SearchKey<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let (head, tail) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        let short = bytes.len() <= KEY_BYTES_MAX;
        let tail = if short { tail.chunks(8).map(big_endian).collect() } else { SmallVec::new() };
        SearchKey { bytes, head: big_endian(head), tail }
    }
}

#[inline]
fn big_endian(bytes: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(bytes) {
        Ok(all) => u64::from_be_bytes(all),
        Err(_) => {
            let word = bytes.iter().fold(0, |word, b| word << 8 | u64::from(*b));
            // No bytes: shifting a zero word by 64 would overflow.
            word.checked_shl(64 - 8 * bytes.len() as u32).unwrap_or(0)
        }
    }
}

/// What an entry says beside its head.
#[derive(Clone, Copy)]
struct Meta(u64);

impl Meta {
    fn new(value: u32, length: u64, tail: usize) -> Self {
        Meta(u64::from(value) << 32 | length << 16 | tail as u64)
    }

    fn value(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn length(self) -> u64 {
        self.0 >> 16 & 0xFFFF
    }

    fn tail(self) -> usize {
        self.0 as usize & (NODE_WORDS - 1)
    }

    fn tail_words(self) -> usize {
        match self.length() {
            LONG => 2,
            length => (length as usize).saturating_sub(HEAD_BYTES).div_ceil(8),
        }
    }

    fn with_tail(self, tail: usize) -> Self {
        Meta::new(self.value(), self.length(), tail)
    }
}

/// Word 1.
#[derive(Clone, Copy)]
struct Shape {
    count: usize,
    low: usize,
    garbage: usize,
    leaf: bool,
    run: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Node<'a>(&'a [AtomicU64; NODE_WORDS]);

impl<'a> Node<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Attempt<Self> {
        words.try_into().map(Node).map_err(|_| Restart)
    }

    #[inline]
    fn word(self, i: usize) -> u64 {
        self.0[i & (NODE_WORDS - 1)].load(Ordering::Relaxed)
    }

    #[inline]
    fn set_word(self, i: usize, word: u64) {
        self.0[i & (NODE_WORDS - 1)].store(word, Ordering::Relaxed);
    }

    // Versions. The fences pair as in module `record`.

    #[inline]
    pub(super) fn see(self) -> Seen {
        let mut spin = Spin::new();
        loop {
            let version = self.0[VERSION].load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return Seen(version);
            }
            spin.wait();
        }
    }

    #[inline]
    pub(super) fn validate(self, seen: Seen) -> Attempt<()> {
        fence(Ordering::Acquire);
        let same = self.0[VERSION].load(Ordering::Relaxed) == seen.0;
        if same { Ok(()) } else { Err(Restart) }
    }

    /// Locks the node if nothing changed since it was seen.
    #[inline]
    pub(super) fn lock(self, seen: Seen) -> Attempt<Locked<'a>> {
        let (from, to) = (seen.0, seen.0 | LOCKED);
        self.0[VERSION]
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Restart)?;
        fence(Ordering::Release);
        Ok(Locked(self))
    }

    // Entries.

    #[inline]
    fn shape(self) -> Shape {
        let word = self.word(SHAPE);
        Shape {
            count: (word as usize & 0xFFFF).min((NODE_WORDS - ENTRIES) / 2),
            low: (word >> 16) as usize & 0xFFFF,
            garbage: (word >> 32) as usize & 0xFFFF,
            leaf: word & LEAF != 0,
            run: (word >> RUN_SHIFT) as usize,
        }
    }

    fn set_shape(self, shape: Shape) {
        let numbers = shape.count | shape.low << 16 | shape.garbage << 32 | shape.run << RUN_SHIFT;
        self.set_word(SHAPE, numbers as u64 | if shape.leaf { LEAF } else { 0 });
    }

    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.shape().leaf
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        self.shape().count
    }

    #[inline]
    pub(super) fn is_full(self) -> bool {
        let Shape { count, low, garbage, .. } = self.shape();
        (low + garbage).saturating_sub(ENTRIES + 2 * count) < ENTRY_WORDS_MAX
    }

    #[inline]
    fn head(self, i: usize) -> u64 {
        self.word(ENTRIES + 2 * i)
    }

    #[inline]
    fn meta(self, i: usize) -> Meta {
        Meta(self.word(ENTRIES + 2 * i + 1))
    }

    /// The slot of an entry of a leaf.
    #[inline]
    pub(super) fn value(self, i: usize) -> u32 {
        self.meta(i).value()
    }

    /// The child in the given place: 0 is the one below the first separator.
    #[inline]
    pub(super) fn child(self, place: usize) -> u32 {
        match place.checked_sub(1) {
            None => self.word(FIRST_CHILD) as u32,
            Some(i) => self.value(i),
        }
    }

    /// The view of an entry's key, if it lies in the heap.
    pub(super) fn long_key(self, i: usize) -> Option<View> {
        let meta = self.meta(i);
        (meta.length() == LONG).then(|| self.view(meta))
    }

    fn view(self, meta: Meta) -> View {
        [self.word(meta.tail()), self.word(meta.tail() + 1)]
    }

    pub(super) fn key(self, i: usize, heap: &Heap) -> Key {
        let meta = self.meta(i);
        if meta.length() == LONG {
            return heap.with_bytes(self.view(meta), |bytes| Key::from(bytes));
        }
        let head = self.head(i).to_be_bytes();
        let length = (meta.length() as usize).min(KEY_BYTES_MAX);
        if length <= HEAD_BYTES {
            return Key::from(&head[..length]);
        }
        let mut bytes = [0u8; KEY_BYTES_MAX];
        bytes[..HEAD_BYTES].copy_from_slice(&head);
        let tail = bytes[HEAD_BYTES..length.next_multiple_of(8)].chunks_exact_mut(8);
        for (word, chunk) in tail.enumerate() {
            chunk.copy_from_slice(&self.word(meta.tail() + word).to_be_bytes());
        }
        Key::from(&bytes[..length])
    }

    #[inline]
    fn compare(self, i: usize, key: &SearchKey<'_>, heap: &Heap) -> Order {
        self.head(i).cmp(&key.head).then_with(|| self.compare_tails(i, key, heap))
    }

    fn compare_tails(self, i: usize, key: &SearchKey<'_>, heap: &Heap) -> Order {
        let meta = self.meta(i);
        if meta.length() == LONG || key.bytes.len() > KEY_BYTES_MAX {
            return self.key(i, heap).as_bytes().cmp(key.bytes);
        }
        for (word, wanted) in (0..meta.tail_words()).zip(&key.tail) {
            match self.word(meta.tail() + word).cmp(wanted) {
                Order::Equal => {}
                different => return different,
            }
        }
        (meta.length() as usize).cmp(&key.bytes.len())
    }

    /// The first entry not below the key, and whether it is the key's.
    #[inline]
    pub(super) fn search(self, key: &SearchKey<'_>, heap: &Heap) -> (usize, bool) {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(middle, key, heap) {
                Order::Less => low = middle + 1,
                Order::Equal => return (middle, true),
                Order::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// As `search`, looking at the end first: there keys go that come in order.
    #[inline]
    pub(super) fn search_from_end(self, key: &SearchKey<'_>, heap: &Heap) -> (usize, bool) {
        match self.count().checked_sub(1) {
            Some(last) if self.compare(last, key, heap) != Order::Less => self.search(key, heap),
            _ => (self.count(), false),
        }
    }

    /// The place after the entry that came last.
    #[inline]
    pub(super) fn run(self) -> usize {
        self.shape().run
    }

    /// As `search`, looking first behind the entry that came last.
    #[inline]
    pub(super) fn search_from_run(self, key: &SearchKey<'_>, heap: &Heap) -> (usize, bool) {
        let Shape { count, run, .. } = self.shape();
        let is_next = (1..=count).contains(&run)
            && self.compare(run - 1, key, heap) == Order::Less
            && (run == count || self.compare(run, key, heap) == Order::Greater);
        if is_next { (run, false) } else { self.search(key, heap) }
    }

    /// Where to split so that a key for which there is no room gets some. If it continues a run of
    /// keys in order, after the run, so that runs leave full nodes behind; else in the middle.
    pub(super) fn split_place(self, key: &SearchKey<'_>, heap: &Heap) -> usize {
        let Shape { count, run, leaf, .. } = self.shape();
        let (place, _) = if leaf { self.search_from_end(key, heap) } else { (0, false) };
        match place {
            0 => count / 2,
            end if end == count => count - 1,
            place if place == run => place,
            _ => count / 2,
        }
    }
}

/// A node that this thread alone writes, until dropped.
pub(super) struct Locked<'a>(Node<'a>);

impl<'a> Locked<'a> {
    /// Makes the node an empty leaf, or an inner node with one child.
    pub(super) fn reset(&self, first_child: Option<u32>) {
        self.0.set_word(FIRST_CHILD, u64::from(first_child.unwrap_or(0)));
        let leaf = first_child.is_none();
        self.0.set_shape(Shape { count: 0, low: NODE_WORDS, garbage: 0, leaf, run: 0 });
    }

    pub(super) fn set_value(&self, i: usize, value: u32) {
        let meta = self.0.meta(i);
        let meta = Meta::new(value, meta.length(), meta.tail());
        self.0.set_word(ENTRIES + 2 * i + 1, meta.0);
    }

    /// Inserts an entry; the node is not full.
    pub(super) fn insert(&self, i: usize, key: &SearchKey<'_>, value: u32, heap: &Heap) {
        if key.bytes.len() > KEY_BYTES_MAX {
            self.insert_words(i, key.head, Meta::new(value, LONG, 0), &heap.store(key.bytes));
        } else {
            let meta = Meta::new(value, key.bytes.len() as u64, 0);
            self.insert_words(i, key.head, meta, &key.tail);
        }
    }

    fn insert_words(&self, i: usize, head: u64, meta: Meta, tail: &[u64]) {
        let node = self.0;
        if node.shape().low < ENTRIES + 2 * (node.count() + 1) + tail.len() {
            self.compact();
        }
        let mut shape = node.shape();
        shape.low -= tail.len();
        debug_assert!(shape.low >= ENTRIES + 2 * (shape.count + 1), "no room for an entry");
        for (offset, word) in tail.iter().enumerate() {
            node.set_word(shape.low + offset, *word);
        }
        for word in (ENTRIES + 2 * i..ENTRIES + 2 * shape.count).rev() {
            node.set_word(word + 2, node.word(word));
        }
        node.set_word(ENTRIES + 2 * i, head);
        node.set_word(ENTRIES + 2 * i + 1, meta.with_tail(shape.low).0);
        shape.count += 1;
        shape.run = i + 1;
        node.set_shape(shape);
    }

    pub(super) fn remove(&self, i: usize) {
        let node = self.0;
        let mut shape = node.shape();
        shape.garbage += node.meta(i).tail_words();
        for word in ENTRIES + 2 * i..ENTRIES + 2 * (shape.count - 1) {
            node.set_word(word, node.word(word + 2));
        }
        shape.count -= 1;
        shape.run = 0;
        if shape.count == 0 {
            (shape.low, shape.garbage) = (NODE_WORDS, 0);
        }
        node.set_shape(shape);
    }

    /// Takes the child in a place out of an inner node, whose neighbour takes over its range. The
    /// separator's view, if it lies in the heap.
    pub(super) fn remove_child(&self, place: usize) -> Option<View> {
        if place == 0 {
            self.0.set_word(FIRST_CHILD, u64::from(self.0.child(1)));
        }
        let separator = self.0.long_key(place.saturating_sub(1));
        self.remove(place.saturating_sub(1));
        separator
    }

    /// Moves the entries from `at` on to `right`, an empty node of the same kind. In an inner node
    /// the separator at `at` goes to neither: its child becomes the first of `right`.
    pub(super) fn split_off(&self, at: usize, right: &Locked<'_>) {
        let node = self.0;
        let leaf = node.is_leaf();
        right.reset((!leaf).then(|| node.value(at)));
        let first = if leaf { at } else { at + 1 };
        for (to, from) in (first..node.count()).enumerate() {
            let meta = node.meta(from);
            let tail: SmallVec<[u64; 16]> =
                (0..meta.tail_words()).map(|w| node.word(meta.tail() + w)).collect();
            right.insert_words(to, node.head(from), meta, &tail);
        }
        node.set_shape(Shape { count: at, ..node.shape() });
        self.compact();
    }

    /// Packs the tails again.
    fn compact(&self) {
        let node = self.0;
        let old: [u64; NODE_WORDS] = std::array::from_fn(|i| node.word(i));
        let mut shape = node.shape();
        shape.low = NODE_WORDS;
        shape.garbage = 0;
        for i in 0..shape.count {
            let meta = node.meta(i);
            let words = meta.tail_words();
            shape.low -= words;
            for word in 0..words {
                node.set_word(shape.low + word, old[(meta.tail() + word) & (NODE_WORDS - 1)]);
            }
            node.set_word(ENTRIES + 2 * i + 1, meta.with_tail(shape.low).0);
        }
        node.set_shape(shape);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let version = &self.0.0[VERSION];
        let locked = version.load(Ordering::Relaxed);
        // Clears the lock bit and counts the change.
        version.store(locked + LOCKED, Ordering::Release);
    }
}
