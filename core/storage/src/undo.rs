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
//! height is above `at`; so a reader of a version of block `X` has `at < X`. Once every pin, and
//! every pin yet to come, is `>= X` (the *horizon*), no reader follows a handle into block `X`'s
//! versions again, whatever handles still lie around; the chunk is free when that holds for the
//! last block that wrote into it. Chunks above the horizon are emptied by [`sweep`](crate::sweep).
//!
//! A reader whose lease was ended, or that walks a chain while it is being swept, may hold a handle
//! into a chunk that is written anew. Chunks go back to the space, not to the allocator, so it
//! reads words of another version, and must not take them for a handle or for its row:
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
//! If the reader got a word of the new life, the fences make it see the turn that came before.
//!
//! # When memory goes back to the kernel
//!
//! A reader that stays for a while makes the space as large as what was written meanwhile, which
//! may be a hundred times what it needs before and afterwards. Chunks are taken from the space's
//! begin, so that what a rush has left lies free at its end, and a megabyte or two at a time goes
//! back ([`Words::release`]) when it is above what was needed of late, of which every collection
//! forgets a little. It reads as zero then, by which no reader is misled: to it that is a new life.
//!
//! # Whose versions lie in a chunk
//!
//! The sweep asks for the records of a version and for its length. A table that was dropped is
//! forgotten with the last chunk that was written in its time.

mod arena;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

pub use arena::UndoArena;
pub(crate) use arena::{Garbage, GarbageKind, Overwritten, Touched};
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use parking_lot::{Mutex, RwLock};
use types::Height;

use crate::header::StampWord;
use crate::record::Records;
use crate::slot::Slot;
use crate::words::{self, LINES_MAX, WORDS_PER_LINE, Words};

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
    owners: RwLock<Owners>,
    /// Times that chunks were freed.
    turns: AtomicU64,
    /// No reader whose result counts is below.
    horizon: AtomicU64,
}

/// By incarnation.
#[derive(Default)]
struct Owners {
    by_incarnation: BTreeMap<u64, Owner>,
    /// How many there were when the owners that have ended were last removed.
    looked_at: usize,
    /// The newest block at the last collection.
    newest: Height,
}

/// Who makes versions.
struct Owner {
    records: Weak<Records>,
    payload_words: usize,
    /// All of its versions were made by blocks from here on …
    born: Height,
    /// … and up to here, once it has gone.
    died: Option<Height>,
}

/// By incarnation: records, if they are still there, and the payload words of each.
pub(crate) type OwnersAtHand = BTreeMap<u64, (Option<Arc<Records>>, usize)>;

/// Chunks that memory is given back by: two megabytes. They lie in one segment, but for those of
/// the first group.
const GROUP_CHUNKS: u64 = 32;

/// Of what was needed, in 1/1024 of a chunk, each collection forgets 1/1024.
const NEEDED_LOG2: u32 = 10;

#[derive(Default)]
pub(crate) struct Chunks {
    /// First chunk never used.
    next: u64,
    free: BTreeSet<u64>,
    /// Groups of which nothing is backed by memory.
    released: BTreeSet<u64>,
    /// Chunks that were in use at once of late, times 2^[`NEEDED_LOG2`].
    needed: u64,
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
    pub(crate) fn owner(self) -> (u64, Slot) {
        let owner = self.0[OWNER].load(Ordering::Relaxed);
        (owner >> 32, Slot(owner as u32))
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
        assert!(u32::try_from(records.incarnation).is_ok(), "2^32 tables were made");
        let mut owners = self.owners.write();
        let owner = Owner {
            records: Arc::downgrade(records),
            payload_words: records.layout.payload_words,
            born: owners.newest,
            died: None,
        };
        owners.by_incarnation.insert(records.incarnation, owner);
    }

    pub(crate) fn owners(&self) -> OwnersAtHand {
        let owners = self.owners.read();
        let at_hand = |(incarnation, owner): (&u64, &Owner)| {
            (*incarnation, (owner.records.upgrade(), owner.payload_words))
        };
        owners.by_incarnation.iter().map(at_hand).collect()
    }

    /// Forgets tables that have gone, when it may be many. `newest`: the newest block, none being
    /// written.
    pub(crate) fn forget_owners(&self, newest: Height) {
        const FEW: usize = 16;
        let mut owners = self.owners.write();
        owners.newest = newest;
        if owners.by_incarnation.len() < 2 * owners.looked_at + FEW {
            return;
        }
        let written = self.chunks.lock().written();
        let died = written.iter().map(|(_, last)| *last).fold(newest, Height::max);
        for owner in owners.by_incarnation.values_mut() {
            if owner.records.strong_count() == 0 && owner.died.is_none() {
                owner.died = Some(died);
                // A weak reference keeps the memory that the records lay in.
                owner.records = Weak::new();
            }
        }
        owners.by_incarnation.retain(|_, owner| match owner.died {
            Some(died) => written.iter().any(|(first, last)| owner.born <= *last && *first <= died),
            None => true,
        });
        owners.looked_at = owners.by_incarnation.len();
    }

    /// How many tables have versions that a sweep may come to.
    #[cfg(test)]
    pub(crate) fn owners_count(&self) -> usize {
        self.owners.read().by_incarnation.len()
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

    /// What a reader at a height notes before it follows a handle; `None` if there is nothing below
    /// the horizon that it could follow.
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

    /// Gives memory back that was not needed of late, of a group of chunks at most, after a
    /// collection that has freed so many.
    pub(crate) fn release(&self, freed: usize) {
        let mut chunks = self.chunks.lock();
        let needed = chunks.next - chunks.free.len() as u64 + freed as u64;
        let forgotten = chunks.needed >> NEEDED_LOG2;
        chunks.needed = (needed << NEEDED_LOG2).max(chunks.needed - forgotten);
        let keep = (chunks.needed >> NEEDED_LOG2) + GROUP_CHUNKS;
        if chunks.backed() <= keep + GROUP_CHUNKS {
            return;
        }
        let Some(group) = chunks.last_free_group() else { return };
        // Noted even where the chunks are not the kernel's, so as not to try again and again.
        chunks.released.insert(group);
        self.words.release(first_of(group), GROUP_CHUNKS as usize);
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
        let number = chunks.free.pop_first().unwrap_or_else(|| {
            chunks.next += 1;
            chunks.next - 1
        });
        chunks.released.remove(&group_of(number));
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

    /// Free ones that are backed by memory.
    pub(crate) fn chunks_free(&self) -> u64 {
        let chunks = self.chunks.lock();
        chunks.backed() - (chunks.next - chunks.free.len() as u64)
    }

    pub(crate) fn chunks_unswept(&self) -> usize {
        self.chunks.lock().unswept.len()
    }

    pub(crate) fn chunk_bytes() -> u64 {
        CHUNK_WORDS as u64 * 8
    }
}

/// The chunk of which segment `k` has `2^k` begins with `2^k - 1`.
fn group_of(chunk: u64) -> u64 {
    (chunk + 1) / GROUP_CHUNKS
}

fn first_of(group: u64) -> u64 {
    group * GROUP_CHUNKS - 1
}

impl Chunks {
    fn backed(&self) -> u64 {
        self.next - self.released.len() as u64 * GROUP_CHUNKS
    }

    /// The last group that is backed and of which every chunk is free.
    fn last_free_group(&self) -> Option<u64> {
        let groups = 1..=group_of(self.next.checked_sub(1)?);
        let is_free = |group: &u64| {
            let (first, end) = (first_of(*group), first_of(*group + 1));
            end <= self.next
                && !self.released.contains(group)
                && self.free.contains(&first)
                && self.free.range(first..end).count() as u64 == GROUP_CHUNKS
        };
        groups.rev().find(is_free)
    }

    /// The blocks that wrote into chunks in use: the first and the last one of each.
    fn written(&self) -> Vec<(Height, Height)> {
        let lists = [&self.open[..], self.unswept.as_slices().0, self.unswept.as_slices().1];
        let swept = self.swept.values().flatten();
        let all = lists.into_iter().flatten().chain(swept).chain(self.gathered.values());
        let mut written: Vec<_> = all.map(|chunk| (chunk.first, chunk.last)).collect();
        written.sort_unstable();
        written.dedup();
        written
    }
}

#[cfg(test)]
mod tests {
    use types::{Stamp, TableId};

    use super::*;
    use crate::header::State;

    #[test]
    fn chunks_are_recycled_when_their_last_block_is_below_the_horizon() {
        let space = Arc::new(UndoSpace::new());
        let image: Vec<AtomicU64> = (0..13).map(AtomicU64::new).collect();
        let stamp = StampWord::new(Stamp::new(1, 2), State::Live);
        let mut handles = Vec::new();
        for height in 1..=3 {
            let mut arena = UndoArena::new(space.clone(), Stamp::new(height, 0), height);
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

    #[test]
    #[cfg_attr(miri, ignore = "many chunks, by one thread")]
    fn what_a_rush_has_left_is_given_back_from_its_end() {
        let space = Arc::new(UndoSpace::new());
        let image: Vec<AtomicU64> = (0..CHUNK_WORDS as u64 / 2).map(AtomicU64::new).collect();
        let stamp = StampWord::new(Stamp::new(1, 2), State::Live);
        let write = |height, versions| {
            let mut arena = UndoArena::new(space.clone(), Stamp::new(height, 0), height);
            (0..versions).for_each(|_| _ = arena.push((0, Slot(0)), 1, stamp, &image));
            arena.close();
        };
        let collect = |horizon| {
            let unread = space.take_unread(horizon);
            space.free(&unread);
            space.release(unread.len());
        };
        write(1, 40);
        collect(0);
        write(2, 500);
        collect(0);
        assert_eq!((space.chunks_in_use(), space.chunks_free()), (540, 0));
        collect(2);
        assert_eq!((space.chunks_in_use(), space.chunks_free()), (0, 540));
        for height in 3..3000 {
            write(height, 10);
            collect(height);
        }
        let free = space.chunks_free();
        assert!((10..100).contains(&free), "{free} chunks are kept");
        // Their numbers are taken again, and count as memory again.
        write(3000, 500);
        collect(2999);
        assert_eq!(space.chunks_in_use() + space.chunks_free(), 540);
        collect(3000);
        write(3001, 700);
        assert_eq!(space.chunks_in_use(), 700);
    }

    #[test]
    fn a_table_is_forgotten_with_the_chunks_of_its_time() {
        let space = Arc::new(UndoSpace::new());
        let made = |incarnation| Records::register(&test_schema(), 1, space.clone(), incarnation);
        let write = |height, records: &Arc<Records>| {
            let mut arena = UndoArena::new(space.clone(), Stamp::new(height, 0), height);
            let image: Vec<AtomicU64> =
                (0..records.layout.payload_words as u64).map(AtomicU64::new).collect();
            let stamp = StampWord::new(Stamp::new(1, 2), State::Live);
            arena.push((records.incarnation, Slot(0)), 0, stamp, &image);
            arena.close();
        };
        let stays = made(0);
        for incarnation in 1..=100 {
            let passing = made(incarnation);
            write(incarnation, &passing);
            write(incarnation, &stays);
            drop(passing);
            space.free(&space.take_unread(incarnation));
            space.forget_owners(incarnation);
            assert!(space.owners_count() <= 20, "{}", space.owners_count());
        }
        // What is still read keeps those that may have written it.
        (101..=200).for_each(|height| {
            write(height, &made(height));
            space.forget_owners(height);
        });
        let owners = space.owners();
        assert!((101..=200).all(|incarnation| owners.contains_key(&incarnation)));
        space.free(&space.take_unread(200));
        (201..=600).for_each(|incarnation| {
            made(incarnation);
            space.forget_owners(201);
        });
        assert!(space.owners_count() <= 20, "{}", space.owners_count());
        assert!(space.owners().contains_key(&0));
    }

    fn test_schema() -> types::TableSchema {
        types::TableSchema {
            id: TableId(0),
            name: "t".into(),
            columns: vec![types::ColumnSchema::new("a", types::DataType::Int8)],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }
    }
}
