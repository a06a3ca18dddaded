//! Undo versions: what a record was before a block changed it.
//!
//! ```text
//! word 0     older version, 0 = none
//! word 1     stamp word of the image (Live or Tombstone)
//! words 2 .. the record's payload as of that stamp
//! ```
//!
//! Versions of all tables lie in chunks of one space, filled from the start. A *handle* is the
//! version's word number in the space plus one, so that 0 means none. A block has one
//! [`UndoArena`] per worker; nothing is shared while a block runs but the taking of a chunk. A
//! chunk that a block leaves half full is continued by a later one, so that small blocks cost
//! what they write.
//!
//! # When a chunk is recycled
//!
//! The version that block `X` makes of a record is reached only from something newer, whose stamp
//! has height `X`. A reader at height `at` goes on to an older version only from an image whose
//! height is above `at`; so whoever reads a version of block `X` has `at < X`. Once every pin, and
//! every pin yet to come, is `>= X` (`Pins::horizon`), nobody follows a handle into block `X`'s
//! versions again, whatever handles still lie around; the chunk is free when that holds for the
//! last block that wrote into it. Not even a wrong argument could touch freed memory: chunks go
//! back to the space, not to the allocator.

use std::collections::VecDeque;

use kit::sync::atomic::{AtomicU64, Ordering};
use parking_lot::Mutex;
use types::{Height, IndexId, Key, Stamp, TableId};

use crate::exclusive::{LINES_MAX, WORDS_PER_LINE};
use crate::header::StampWord;
use crate::record::Slot;
use crate::words::{self, Words};

const CHUNK_WORDS_LOG2: u32 = if cfg!(shuttle) { 5 } else { 13 };
const CHUNK_WORDS: usize = 1 << CHUNK_WORDS_LOG2;
const OLDER: usize = 0;
const VERSION_STAMP: usize = 1;
pub(crate) const VERSION_HEADER_WORDS: usize = 2;

/// Where a version lies; 0 is none.
pub(crate) type Handle = u64;

pub(crate) struct UndoSpace {
    words: Words,
    chunks: Mutex<Chunks>,
}

#[derive(Default)]
struct Chunks {
    /// First chunk never used.
    next: u64,
    free: Vec<u64>,
    /// Chunks with room left, and the words used of each.
    open: Vec<OpenChunk>,
    /// Full chunks, with the last block that wrote into them, in the order of those blocks.
    full: VecDeque<(Height, u64)>,
    /// Empty lists with the room that blocks of late needed.
    touched: Vec<Vec<Touched>>,
}

#[derive(Clone, Copy, Debug)]
struct OpenChunk {
    chunk: u64,
    used: usize,
    last_height: Height,
}

/// A version's words.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a>(&'a [AtomicU64]);

impl<'a> Version<'a> {
    pub(crate) fn older(self) -> Handle {
        self.0[OLDER].load(Ordering::Relaxed)
    }

    pub(crate) fn stamp(self) -> StampWord {
        StampWord(self.0[VERSION_STAMP].load(Ordering::Relaxed))
    }

    pub(crate) fn payload(self) -> &'a [AtomicU64] {
        &self.0[VERSION_HEADER_WORDS..]
    }

    /// Fetches its first lines.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.0.iter().step_by(WORDS_PER_LINE).take(LINES_MAX).for_each(words::prefetch);
    }
}

impl UndoSpace {
    pub(crate) fn new() -> Self {
        UndoSpace { words: Words::new(CHUNK_WORDS, 0), chunks: Mutex::default() }
    }

    #[inline]
    pub(crate) fn version(&self, handle: Handle, payload_words: usize) -> Version<'_> {
        let word = handle - 1;
        let chunk = self.words.unit(word >> CHUNK_WORDS_LOG2).expect("a chunk is never unmapped");
        let start = word as usize % CHUNK_WORDS;
        Version(&chunk[start..start + VERSION_HEADER_WORDS + payload_words])
    }

    fn take_chunk(&self) -> OpenChunk {
        let mut chunks = self.chunks.lock();
        if let Some(open) = chunks.open.pop() {
            return open;
        }
        let chunk = chunks.free.pop().unwrap_or_else(|| {
            chunks.next += 1;
            chunks.next - 1
        });
        self.words.ensure(chunk);
        OpenChunk { chunk, used: 0, last_height: 0 }
    }

    /// Takes back the chunks of a finished block.
    fn give_back(
        &self,
        height: Height,
        full: &[u64],
        open: Option<OpenChunk>,
        touched: Vec<Touched>,
    ) {
        let mut chunks = self.chunks.lock();
        chunks.touched.push(touched);
        chunks.full.extend(full.iter().map(|&chunk| (height, chunk)));
        chunks.open.extend(open);
    }

    /// Frees the chunks that only blocks up to `horizon` wrote into. Returns how many.
    pub(crate) fn collect(&self, horizon: Height) -> usize {
        let mut chunks = self.chunks.lock();
        let Chunks { free, open, full, .. } = &mut *chunks;
        let before = free.len();
        while let Some((_, chunk)) = full.pop_front_if(|(height, _)| *height <= horizon) {
            free.push(chunk);
        }
        open.retain(|chunk| {
            let keep = chunk.last_height > horizon;
            if !keep {
                free.push(chunk.chunk);
            }
            keep
        });
        free.len() - before
    }

    pub(crate) fn chunks_in_use(&self) -> u64 {
        let chunks = self.chunks.lock();
        chunks.next - chunks.free.len() as u64
    }

    pub(crate) fn chunk_bytes() -> u64 {
        CHUNK_WORDS as u64 * 8
    }
}

/// A record that a block touched first, and what it was before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) table: TableId,
    pub(crate) slot: Slot,
    /// 0 where the block inserted the record.
    pub(crate) before: Handle,
}

/// What becomes superfluous once no reader is below the block that made it so.
#[derive(Clone, Debug)]
pub(crate) struct Garbage {
    pub(crate) table: TableId,
    /// Which of the tables that had this id; a rewrite or truncation makes a new one.
    pub(crate) incarnation: u64,
    pub(crate) slot: Slot,
    pub(crate) what: GarbageKind,
}

#[derive(Clone, Debug)]
pub(crate) enum GarbageKind {
    /// A record that was deleted.
    Record,
    /// A secondary entry that its record has left.
    Entry(IndexId, Key),
}

/// What one worker writes beside the records while a block runs: versions, and the lists of what
/// it touched and made superfluous.
pub struct UndoArena {
    space: std::sync::Arc<UndoSpace>,
    /// The first of the blocks that are written together, and the last.
    first: Height,
    height: Height,
    /// Each block's changes are to be told, though they are written together: the block of each
    /// touch.
    told: Option<Vec<Height>>,
    chunk: Option<OpenChunk>,
    full: Vec<u64>,
    pub(crate) touched: Vec<Touched>,
    pub(crate) garbage: Vec<Garbage>,
    /// Reused by the writers of this worker.
    pub(crate) payload: Vec<u64>,
}

impl UndoArena {
    pub(crate) fn new(space: std::sync::Arc<UndoSpace>, first: Height, height: Height) -> Self {
        let touched = space.chunks.lock().touched.pop().unwrap_or_default();
        UndoArena {
            space,
            first,
            height,
            told: None,
            chunk: None,
            full: Vec::new(),
            touched,
            garbage: Vec::new(),
            payload: Vec::new(),
        }
    }

    pub(crate) fn tell_each(&mut self) {
        self.told = Some(Vec::new());
    }

    /// The block of each touch, if these are noted.
    pub(crate) fn take_told(&mut self) -> Option<Vec<Height>> {
        self.told.take()
    }

    /// A block has written a record for the first time.
    pub(crate) fn touch(&mut self, touched: Touched, height: Height) {
        self.touched.push(touched);
        if let Some(told) = &mut self.told {
            told.push(height);
        }
    }

    /// The block that is being written; of several, the last.
    pub fn height(&self) -> Height {
        self.height
    }

    pub(crate) fn check(&self, stamp: Stamp) {
        let blocks = self.first..=self.height;
        assert!(blocks.contains(&stamp.height()), "a write outside of its block");
    }

    /// Whether an image of height `image` must be kept when a block at `height` overwrites it: a
    /// snapshot may show it, and none lies inside of what is written together; or it is what that
    /// block will be said to have changed.
    pub(crate) fn keeps(&self, image: Height, height: Height) -> bool {
        image < if self.told.is_some() { height } else { self.first }
    }

    /// Copies an image into a new version. The caller publishes the handle with release order.
    pub(crate) fn push(
        &mut self,
        older: Handle,
        stamp: StampWord,
        payload: &[AtomicU64],
    ) -> Handle {
        let count = VERSION_HEADER_WORDS + payload.len();
        let (chunk, start) = self.reserve(count);
        let unit = self.space.words.unit(chunk).expect("taken from the space");
        let version = &unit[start..start + count];
        version[OLDER].store(older, Ordering::Relaxed);
        version[VERSION_STAMP].store(stamp.0, Ordering::Relaxed);
        for (to, from) in version[VERSION_HEADER_WORDS..].iter().zip(payload) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (chunk << CHUNK_WORDS_LOG2) + start as u64 + 1
    }

    /// A record has at most 1,600 columns of two words (the binder's limit), less than a chunk.
    fn reserve(&mut self, count: usize) -> (u64, usize) {
        assert!(count <= CHUNK_WORDS, "a row of {count} words");
        loop {
            let open = self.chunk.get_or_insert_with(|| self.space.take_chunk());
            if open.used + count <= CHUNK_WORDS {
                let start = open.used;
                open.used += count;
                open.last_height = self.height;
                return (open.chunk, start);
            }
            self.full.push(open.chunk);
            self.chunk = None;
        }
    }

    /// Hands the chunks back to the space; versions in them stay until they are collected.
    pub(crate) fn close(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.space.give_back(self.height, &self.full, self.chunk.take(), touched);
        self.full.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::State;
    use std::sync::Arc;

    #[test]
    fn chunks_are_recycled_when_their_last_block_is_below_the_horizon() {
        let space = Arc::new(UndoSpace::new());
        let image: Vec<AtomicU64> = (0..1000).map(AtomicU64::new).collect();
        let stamp = StampWord::new(Stamp::new(1, 2), State::Live);
        let mut handles = Vec::new();
        for height in 1..=3 {
            let mut arena = UndoArena::new(space.clone(), height, height);
            handles.extend((0..10).map(|i| arena.push(i, stamp, &image)));
            arena.close();
        }
        for (i, handle) in handles.iter().enumerate() {
            let version = space.version(*handle, 1000);
            assert_eq!(version.older(), i as u64 % 10);
            assert_eq!(version.stamp(), stamp);
            assert_eq!(version.payload()[999].load(Ordering::Relaxed), 999);
        }
        assert_eq!(space.chunks_in_use(), 4);
        assert_eq!(space.collect(0), 0);
        assert_eq!(space.collect(1), 1);
        assert_eq!(space.collect(3), 3);
        assert_eq!(space.chunks_in_use(), 0);
    }
}
