//! Undo versions: what a record was before a block changed it.
//!
//! ```text
//! word 0     older version, 0 = none
//! word 1     stamp word of the image (Live or Tombstone)
//! word 2     whose it is:  63 [ incarnation of the table: 32 | slot: 32 ] 0
//! words 3 .. the record's payload as of that stamp
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
//! every pin yet to come, is `>= X` (the *horizon*), nobody follows a handle into block `X`'s
//! versions again, whatever handles still lie around; the chunk is free when that holds for the
//! last block that wrote into it. Chunks above the horizon are emptied by [`sweep`](crate::sweep).
//!
//! A reader whose lease was ended, or who walks a chain while it is being swept, may hold a handle
//! into a chunk that is written anew. Chunks go back to the space, not to the allocator, so he
//! reads words of another version, and must not take them for a handle or for his row:
//!
//! ```text
//! collector                              reader
//! horizon <- h       (release)           turn <- turns              (acquire)
//! unlink, move       (release)           below the horizon: no row
//! turns  += 1        (release)           read a version's words     (relaxed)
//! free the chunks    (mutex)             fence                      (acquire)
//! take one: fence    (release)           turns = turn: trust them;  else from the start
//! write versions     (relaxed)
//! ```
//!
//! If he read a word of the new life, the fences make him see the turn that came before it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use kit::sync::atomic::{AtomicU64, Ordering, fence};
use parking_lot::{Mutex, RwLock};
use types::{Height, IndexId, Key, Stamp, TableId};

use crate::exclusive::{LINES_MAX, WORDS_PER_LINE};
use crate::header::StampWord;
use crate::heap::View;
use crate::record::{Records, Slot};
use crate::words::{self, Words};

/// Tests fill many.
const CHUNK_WORDS_LOG2: u32 = match (cfg!(any(shuttle, miri)), cfg!(test)) {
    (true, _) => 5,
    (_, true) => 7,
    _ => 13,
};
pub(crate) const CHUNK_WORDS: usize = 1 << CHUNK_WORDS_LOG2;
const OLDER: usize = 0;
const VERSION_STAMP: usize = 1;
const OWNER: usize = 2;
pub(crate) const VERSION_HEADER_WORDS: usize = 3;

/// Where a version lies; 0 is none.
pub(crate) type Handle = u64;

pub(crate) struct UndoSpace {
    words: Words,
    pub(crate) chunks: Mutex<Chunks>,
    owners: RwLock<Vec<Owner>>,
    /// Times that chunks were freed.
    turns: AtomicU64,
    /// No reader whose result counts is below.
    horizon: AtomicU64,
}

/// Who made versions, by incarnation.
#[derive(Default)]
pub(crate) struct Owner {
    pub(crate) records: Weak<Records>,
    pub(crate) payload_words: usize,
}

#[derive(Default)]
pub(crate) struct Chunks {
    /// First chunk never used.
    next: u64,
    free: Vec<u64>,
    /// Chunks with room left.
    open: Vec<Chunk>,
    /// Full chunks that no sweep has looked at since their readers changed.
    pub(crate) unswept: VecDeque<Chunk>,
    /// The others, by the highest reader below their last block.
    pub(crate) swept: BTreeMap<Height, Vec<Chunk>>,
    /// Where the sweep gathers what is still read, by its highest reader.
    pub(crate) gathered: BTreeMap<Height, Chunk>,
    /// Chunks that blocks have filled since the last sweep.
    pub(crate) filled: usize,
    /// Empty lists with the room that blocks of late needed.
    touched: Vec<Vec<Touched>>,
}

/// A chunk in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) number: u64,
    /// Words filled.
    pub(crate) used: usize,
    /// The blocks that made its versions.
    pub(crate) first: Height,
    pub(crate) last: Height,
}

/// A version's words.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a>(&'a [AtomicU64]);

/// What was read may not be what it was taken for.
#[derive(Debug)]
pub(crate) struct Recycled;

impl<'a> Version<'a> {
    pub(crate) fn older(self) -> Handle {
        self.0[OLDER].load(Ordering::Acquire)
    }

    /// Where the handle of the older version stands.
    pub(crate) fn older_word(self) -> &'a AtomicU64 {
        &self.0[OLDER]
    }

    pub(crate) fn stamp(self) -> StampWord {
        StampWord(self.0[VERSION_STAMP].load(Ordering::Relaxed))
    }

    /// The incarnation of the table, and the slot.
    pub(crate) fn owner(self) -> (usize, Slot) {
        let owner = self.0[OWNER].load(Ordering::Relaxed);
        ((owner >> 32) as usize, Slot(owner as u32))
    }

    pub(crate) fn header(self) -> [u64; VERSION_HEADER_WORDS] {
        std::array::from_fn(|word| self.0[word].load(Ordering::Relaxed))
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

impl Chunk {
    pub(crate) fn room(&self) -> usize {
        CHUNK_WORDS - self.used
    }

    /// Takes so many words; the block at `height` made what will lie there.
    fn reserve(&mut self, count: usize, first: Height, last: Height) -> usize {
        let start = self.used;
        if start == 0 {
            self.first = first;
        }
        self.used += count;
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        start
    }
}

impl UndoSpace {
    pub(crate) fn new() -> Self {
        UndoSpace {
            words: Words::new(CHUNK_WORDS, 0),
            chunks: Mutex::default(),
            owners: RwLock::default(),
            turns: AtomicU64::new(0),
            horizon: AtomicU64::new(0),
        }
    }

    /// Records that will make versions. Their incarnation is theirs alone.
    pub(crate) fn register(&self, records: &Arc<Records>) {
        let mut owners = self.owners.write();
        let place = u32::try_from(records.incarnation).expect("fewer tables than 2^32") as usize;
        if owners.len() <= place {
            owners.resize_with(place + 1, Owner::default);
        }
        let payload_words = records.layout.payload_words;
        owners[place] = Owner { records: Arc::downgrade(records), payload_words };
    }

    /// By incarnation: the records, if they are still there, and the payload words of each.
    pub(crate) fn owners(&self) -> Vec<(Option<Arc<Records>>, usize)> {
        let upgrade = |owner: &mut Owner| {
            let records = owner.records.upgrade();
            if records.is_none() {
                // A weak reference keeps the memory that dropped records lay in.
                owner.records = Weak::new();
            }
            (records, owner.payload_words)
        };
        self.owners.write().iter_mut().map(upgrade).collect()
    }

    #[inline]
    pub(crate) fn version(&self, handle: Handle, payload_words: usize) -> Version<'_> {
        let word = handle - 1;
        let chunk = self.words.unit(word >> CHUNK_WORDS_LOG2).expect("a chunk is never unmapped");
        let start = word as usize % CHUNK_WORDS;
        Version(&chunk[start..start + VERSION_HEADER_WORDS + payload_words])
    }

    /// The version that begins at a word of a chunk, without its payload, and its handle.
    pub(crate) fn header(&self, chunk: &Chunk, start: usize) -> (Version<'_>, Handle) {
        let unit = self.words.unit(chunk.number).expect("a chunk is never unmapped");
        let handle = (chunk.number << CHUNK_WORDS_LOG2) + start as u64 + 1;
        (Version(&unit[start..start + VERSION_HEADER_WORDS]), handle)
    }

    /// What a reader at a height notes before he follows a handle; `None` if there is nothing
    /// below the horizon that he could follow.
    pub(crate) fn turn(&self, at: Height) -> Option<u64> {
        let turn = self.turns.load(Ordering::Acquire);
        (at >= self.horizon.load(Ordering::Acquire)).then_some(turn)
    }

    /// Versions that lower blocks made may be gone.
    pub(crate) fn horizon(&self) -> Height {
        self.horizon.load(Ordering::Acquire)
    }

    /// Whether what was read since a turn was noted is what it was taken for.
    pub(crate) fn check(&self, turn: u64) -> Result<(), Recycled> {
        fence(Ordering::Acquire);
        match self.turns.load(Ordering::Relaxed) == turn {
            true => Ok(()),
            false => Err(Recycled),
        }
    }

    pub(crate) fn raise_horizon(&self, horizon: Height) {
        self.horizon.fetch_max(horizon, Ordering::Release);
    }

    /// Frees chunks that no reader whose result counts will come to.
    pub(crate) fn free(&self, chunks: &[Chunk]) {
        if chunks.is_empty() {
            return;
        }
        self.turns.fetch_add(1, Ordering::Release);
        self.chunks.lock().free.extend(chunks.iter().map(|chunk| chunk.number));
    }

    /// A chunk with room for so many words; open ones without are full.
    fn take_roomy(&self, words: usize, full: &mut Vec<Chunk>) -> Chunk {
        let mut chunks = self.chunks.lock();
        while let Some(open) = chunks.open.pop() {
            if open.room() >= words {
                return open;
            }
            full.push(open);
        }
        self.take_empty(&mut chunks)
    }

    pub(crate) fn take_empty(&self, chunks: &mut Chunks) -> Chunk {
        let number = chunks.free.pop().unwrap_or_else(|| {
            chunks.next += 1;
            chunks.next - 1
        });
        fence(Ordering::Release);
        self.words.ensure(number);
        Chunk { number, used: 0, first: 0, last: 0 }
    }

    /// Copies words into a chunk that has room for them; blocks `first` to `last` made them.
    pub(crate) fn put(
        &self,
        chunk: &mut Chunk,
        (first, last): (Height, Height),
        header: [u64; VERSION_HEADER_WORDS],
        payload: &[AtomicU64],
    ) -> Handle {
        let count = VERSION_HEADER_WORDS + payload.len();
        let start = chunk.reserve(count, first, last);
        let unit = self.words.unit(chunk.number).expect("taken from the space");
        let (to_header, to_payload) = unit[start..start + count].split_at(VERSION_HEADER_WORDS);
        for (to, from) in to_header.iter().zip(header) {
            to.store(from, Ordering::Relaxed);
        }
        for (to, from) in to_payload.iter().zip(payload) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (chunk.number << CHUNK_WORDS_LOG2) + start as u64 + 1
    }

    /// Takes back the chunks of a finished block.
    fn give_back(&self, full: &[Chunk], open: Option<Chunk>, touched: Vec<Touched>) {
        let mut chunks = self.chunks.lock();
        chunks.touched.push(touched);
        chunks.unswept.extend(full);
        chunks.filled += full.len();
        chunks.open.extend(open);
    }

    /// Takes out the chunks that only blocks up to `horizon` wrote into.
    pub(crate) fn take_unread(&self, horizon: Height) -> Vec<Chunk> {
        let mut chunks = self.chunks.lock();
        let Chunks { open, unswept, gathered, .. } = &mut *chunks;
        let unread = |chunk: &mut Chunk| chunk.last <= horizon;
        let mut taken: Vec<Chunk> = open.extract_if(.., unread).collect();
        while let Some(chunk) = unswept.pop_front_if(unread) {
            taken.push(chunk);
        }
        taken.extend(gathered.extract_if(.., |_, chunk| unread(chunk)).map(|(_, chunk)| chunk));
        taken
    }

    pub(crate) fn chunks_in_use(&self) -> u64 {
        let chunks = self.chunks.lock();
        chunks.next - chunks.free.len() as u64
    }

    pub(crate) fn chunks_unswept(&self) -> usize {
        self.chunks.lock().unswept.len()
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
    /// A long string that its record has left.
    String(View),
}

/// A long string of a record that a block has overwritten, or brought back afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overwritten {
    pub(crate) table: TableId,
    pub(crate) incarnation: u64,
    pub(crate) slot: Slot,
    pub(crate) view: View,
}

/// What one worker writes beside the records while a block runs: versions, and the lists of what
/// it touched and made superfluous.
pub struct UndoArena {
    space: Arc<UndoSpace>,
    /// The first of the blocks that are written together, and the last.
    first: Height,
    height: Height,
    /// Each block's changes are to be told, though they are written together: the block of each
    /// touch.
    told: Option<Vec<Height>>,
    chunk: Option<Chunk>,
    full: Vec<Chunk>,
    pub(crate) touched: Vec<Touched>,
    pub(crate) garbage: Vec<Garbage>,
    pub(crate) overwritten: Vec<Overwritten>,
    /// Reused by the writers of this worker.
    pub(crate) payload: Vec<u64>,
}

impl UndoArena {
    pub(crate) fn new(space: Arc<UndoSpace>, first: Height, height: Height) -> Self {
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
            overwritten: Vec::new(),
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

    /// The blocks that are written together.
    pub(crate) fn blocks(&self) -> RangeInclusive<Height> {
        self.first..=self.height
    }

    pub(crate) fn check(&self, stamp: Stamp) {
        assert!(self.blocks().contains(&stamp.height()), "a write outside of its block");
    }

    /// Whether an image of height `image` must be kept when a block at `height` overwrites it: a
    /// snapshot may show it, and none lies inside of what is written together; or it is what that
    /// block will be said to have changed.
    pub(crate) fn keeps(&self, image: Height, height: Height) -> bool {
        image < if self.told.is_some() { height } else { self.first }
    }

    /// Copies a record's image into a new version. The caller publishes the handle with release
    /// order.
    pub(crate) fn push(
        &mut self,
        (incarnation, slot): (u64, Slot),
        older: Handle,
        stamp: StampWord,
        payload: &[AtomicU64],
    ) -> Handle {
        // A record has at most 1,600 columns of two words (the binder's limit).
        let count = VERSION_HEADER_WORDS + payload.len();
        assert!(count <= CHUNK_WORDS, "a row of {count} words");
        let header = [older, stamp.0, incarnation << 32 | u64::from(slot.0)];
        let full = self.chunk.take_if(|open| open.room() < count);
        self.full.extend(full);
        let chunk = self.chunk.get_or_insert_with(|| self.space.take_roomy(count, &mut self.full));
        self.space.put(chunk, (self.first, self.height), header, payload)
    }

    /// Hands the chunks back to the space; versions in them stay until they are collected.
    pub(crate) fn close(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.space.give_back(&self.full, self.chunk.take(), touched);
        self.full.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::State;

    #[test]
    fn chunks_are_recycled_when_their_last_block_is_below_the_horizon() {
        let space = Arc::new(UndoSpace::new());
        let image: Vec<AtomicU64> = (0..13).map(AtomicU64::new).collect();
        let stamp = StampWord::new(Stamp::new(1, 2), State::Live);
        let mut handles = Vec::new();
        for height in 1..=3 {
            let mut arena = UndoArena::new(space.clone(), height, height);
            handles.extend((0..10).map(|i| arena.push((7, Slot(9)), i, stamp, &image)));
            arena.close();
        }
        for (i, handle) in handles.iter().enumerate() {
            let version = space.version(*handle, 13);
            assert_eq!(version.older(), i as u64 % 10);
            assert_eq!((version.stamp(), version.owner()), (stamp, (7, Slot(9))));
            assert_eq!(version.payload()[12].load(Ordering::Relaxed), 12);
        }
        assert_eq!(space.chunks_in_use(), 4);
        let collect = |horizon| {
            let unread = space.take_unread(horizon);
            space.free(&unread);
            unread.len()
        };
        assert_eq!(collect(0), 0);
        assert_eq!(collect(1), 1);
        assert_eq!(collect(3), 3);
        assert_eq!(space.chunks_in_use(), 0);
    }
}
