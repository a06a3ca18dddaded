//! Dropping versions that lie between two heights that are read.
//!
//! # Idea
//!
//! Undo versions below the horizon go by whole chunks ([`undo`](crate::undo)). That is enough while
//! readers are brief. One reader that stays, or one snapshot retained for time travel, would keep
//! every version since, though it looks at one of each row:
//!
//! ```text
//! heights    4 ──────── 7 ──────────────────── 12 ──────► newest
//!            ▲ read                                       ▲ read
//! a row      [3 ── 6)[6 ── 9)[9 ── 10)[10 ── 14)[14 ────
//!             seen    by no reader ............  current
//! ```
//!
//! An image that the block at `from` made and the one at `to` replaced is *seen* if a height that
//! is read lies in `from..to`; otherwise no reader will ever come to it, since below the newest
//! height new readers only join old ones ([`pins`](crate::pins)). The sweep unlinks such versions
//! from their record's chain, so that an old reader finds its version at once, however often the
//! row has changed since; and it empties chunks of which less than half is seen: what is seen moves
//! to where other versions of the same reader are.
//!
//! # What is looked at, and when
//!
//! A chunk is looked at once when it is full and its last block is some blocks old: those who run
//! blocks read the last few snapshots and let go of them, so that most chunks come free whole
//! before that. What a chunk still holds afterwards has a *witness*, the highest reader
//! below its last block, and it is looked at again only when that reader has gone.
//! So a policy that retains a snapshot every so many blocks and drops the oldest never looks
//! twice: when the oldest goes, the horizon rises over its chunks. The work of a collection is
//! bounded by what was written since the last one, and each look at a version walks the part of
//! its record's chain that is as young.
//!
//! # Invariants
//!
//! 1. From the record to the horizon every chain leads through versions that stand; below, handles
//!    may dangle and are not followed.
//! 2. A chunk is freed when no chain leads into it above the horizon: each of its versions was
//!    unlinked or moved, or belongs to a record that has forgotten it.
//! 3. The before-images that a block's changes are reported from are reached without a chain.
//!    Chunks of blocks that are not told yet are left alone.

use types::Height;

use crate::pins::Readable;
use crate::record::{Link, Records};
use crate::slot::Slot;
use crate::undo::{Chunk, Handle, OwnersAtHand, UndoSpace, VERSION_HEADER_WORDS, Version};

/// Chunks that a collection looks at though few have come: one megabyte.
const CHUNKS_AT_ONCE: usize = 16;

/// Blocks of this age are no longer read for the sake of the blocks after them. Tests look at
/// chunks at once.
const YOUNG_BLOCKS: Height = if cfg!(test) { 0 } else { 16 };

/// A collection's look at chunks.
struct Sweep<'a> {
    space: &'a UndoSpace,
    readable: &'a Readable,
    owners: OwnersAtHand,
}

/// A version that is seen, in its chain.
struct Seen<'a> {
    link: Link<'a>,
    version: Version<'a>,
    /// The block that made it.
    made_by: Height,
    witness: Height,
}

impl UndoSpace {
    /// Frees the versions that are not seen, but for those of blocks from `unreported` on. No block
    /// is being written. Returns how many chunks came free.
    pub(crate) fn collect(&self, readable: &Readable, unreported: Height) -> usize {
        self.raise_horizon(readable.horizon());
        self.wake(readable);
        let mut free = self.take_unread(readable.horizon());
        let end = readable.newest().saturating_add(1).saturating_sub(YOUNG_BLOCKS);
        let due = self.due(unreported.min(end));
        if !due.is_empty() {
            let sweep = Sweep { space: self, readable, owners: self.owners() };
            free.extend(due.into_iter().filter(|chunk| sweep.empties(chunk)));
        }
        self.free(&free);
        self.release(free.len());
        self.forget_owners(readable.newest());
        free.len()
    }

    /// Chunks whose witness has gone are to be looked at again.
    fn wake(&self, readable: &Readable) {
        let mut chunks = self.chunks.lock();
        let gone = |witness: &Height| !readable.contains(*witness);
        let swept = chunks.swept.extract_if(.., |witness, _| gone(witness));
        let mut woken: Vec<Chunk> = swept.flat_map(|(_, chunks)| chunks).collect();
        let gathered = chunks.gathered.extract_if(.., |witness, _| gone(witness));
        woken.extend(gathered.map(|(_, chunk)| chunk));
        woken.sort_unstable_by_key(|chunk| chunk.last);
        woken.into_iter().rev().for_each(|chunk| chunks.unswept.push_front(chunk));
    }

    /// Full chunks of blocks before `end`: more than came since the last time, so that none waits
    /// for ever.
    fn due(&self, end: Height) -> Vec<Chunk> {
        let mut chunks = self.chunks.lock();
        let chunks_max = 2 * std::mem::take(&mut chunks.filled) + CHUNKS_AT_ONCE;
        let unswept = &mut chunks.unswept;
        let next = std::iter::from_fn(|| unswept.pop_front_if(|chunk| chunk.last < end));
        next.take(chunks_max).collect()
    }
}

impl Sweep<'_> {
    /// Looks at a chunk; whether it is empty now.
    fn empties(&self, chunk: &Chunk) -> bool {
        let mut seen_words = 0;
        self.each_seen(chunk, |seen| seen_words += words_of(seen.version));
        match self.readable.last_below(chunk.last) {
            Some(witness) if seen_words * 2 > chunk.used => {
                self.space.chunks.lock().swept.entry(witness).or_default().push(*chunk);
                false
            }
            _ => {
                self.each_seen(chunk, |seen| self.gather(seen));
                true
            }
        }
    }

    fn each_seen(&self, chunk: &Chunk, mut visit: impl FnMut(Seen<'_>)) {
        let mut start = 0;
        while start < chunk.used {
            let (header, handle) = self.space.header(chunk, start);
            let (incarnation, slot) = header.owner();
            let (records, payload_words) = &self.owners[&incarnation];
            if let Some(records) = records
                && let Some(seen) = records.sweep(slot, handle, chunk.first, self.readable)
            {
                visit(seen);
            }
            start += VERSION_HEADER_WORDS + payload_words;
        }
    }

    /// Moves a version to where others of its witness are.
    fn gather(&self, seen: Seen<'_>) {
        let Seen { link, version, made_by, witness } = seen;
        let mut chunks = self.space.chunks.lock();
        let room = words_of(version);
        let full = chunks.gathered.extract_if(witness..=witness, |_, chunk| chunk.room() < room);
        let full: Vec<Chunk> = full.map(|(_, chunk)| chunk).collect();
        if !full.is_empty() {
            chunks.swept.entry(witness).or_default().extend(full);
        }
        if !chunks.gathered.contains_key(&witness) {
            let empty = self.space.take_empty(&mut chunks);
            chunks.gathered.insert(witness, empty);
        }
        if let Some(to) = chunks.gathered.get_mut(&witness) {
            let copy = self.space.put(to, (made_by, made_by), version.header(), version.payload());
            link.lead_to(copy);
        }
    }
}

fn words_of(version: Version<'_>) -> usize {
    VERSION_HEADER_WORDS + version.payload().len()
}

impl Records {
    /// Unlinks what is not seen of a record's chain, down to what the block at `first` made, and
    /// finds one of the versions if that is seen.
    fn sweep(
        &self,
        slot: Slot,
        wanted: Handle,
        first: Height,
        readable: &Readable,
    ) -> Option<Seen<'_>> {
        let record = self.record(slot)?;
        let mut link = Records::newest_link(record);
        let mut made_by = self.stamp_word(slot).height();
        while made_by > readable.horizon() {
            let handle = link.handle();
            if handle == 0 {
                return None;
            }
            let version = self.version(handle);
            let from = version.stamp().height();
            // What was taken back was made later than the image says that came back; what was
            // between two steps of a block, by that block.
            let is_within = from == made_by;
            if made_by < first && !is_within {
                return None;
            }
            match readable.witness(from, made_by) {
                None => link.lead_to(version.older()),
                Some(witness) if handle == wanted => {
                    return Some(Seen { link, version, made_by, witness });
                }
                Some(_) => link = Link::of(version),
            }
            made_by = from;
        }
        None
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
