//! What one worker writes beside the records while a block runs: undo versions, and lists of the
//! records it touched and of what it made superfluous.

use std::ops::RangeInclusive;
use std::sync::Arc;

use kit::sync::atomic::AtomicU64;
use types::{Height, IndexId, Key, Stamp, TableId};

use super::{CHUNK_WORDS, Chunk, Handle, UndoSpace, VERSION_HEADER_WORDS};
use crate::header::{StampWord, State};
use crate::heap::View;
use crate::ordered::Finger;
use crate::slot::Slot;

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
    /// The first stamp of what is written together, and the last block of it.
    from: StampWord,
    height: Height,
    /// Each block's changes are to be told, though they are written together: the block of each
    /// touch.
    touched_blocks: Option<Vec<Height>>,
    chunk: Option<Chunk>,
    full: Vec<Chunk>,
    pub(crate) touched: Vec<Touched>,
    pub(crate) garbage: Vec<Garbage>,
    pub(crate) overwritten: Vec<Overwritten>,
    /// Reused by the writers of this worker.
    pub(crate) payload: Vec<u64>,
    /// Where the rows that it adds go in a primary index.
    pub(crate) finger: Option<Finger>,
}

impl UndoArena {
    pub(crate) fn new(space: Arc<UndoSpace>, first: Stamp, height: Height) -> Self {
        let touched = space.chunks.lock().touched.pop().unwrap_or_default();
        UndoArena {
            space,
            from: StampWord::new(first, State::Free),
            height,
            touched_blocks: None,
            chunk: None,
            full: Vec::new(),
            touched,
            garbage: Vec::new(),
            overwritten: Vec::new(),
            payload: Vec::new(),
            finger: None,
        }
    }

    pub(crate) fn tell_each(&mut self) {
        self.touched_blocks = Some(Vec::new());
    }

    /// The block of each touch, if these are noted.
    pub(crate) fn take_touched_blocks(&mut self) -> Option<Vec<Height>> {
        self.touched_blocks.take()
    }

    /// A block has written a record for the first time.
    pub(crate) fn touch(&mut self, touched: Touched, height: Height) {
        self.touched.push(touched);
        if let Some(touched_blocks) = &mut self.touched_blocks {
            touched_blocks.push(height);
        }
    }

    /// The block that is being written; of several, the last.
    pub fn height(&self) -> Height {
        self.height
    }

    /// The blocks that are written together.
    pub(crate) fn blocks(&self) -> RangeInclusive<Height> {
        self.from.height()..=self.height
    }

    pub(crate) fn check(&self, stamp: Stamp) {
        assert!(self.blocks().contains(&stamp.height()), "a write outside of its block");
    }

    /// Whether an image must be kept when a block at `height` overwrites it: a snapshot may show
    /// it, and none lies inside of what is written together; or it is what that block, or a step of
    /// it, will be said to have changed.
    #[inline]
    pub(crate) fn keeps(&self, image: StampWord, height: Height) -> bool {
        match self.touched_blocks {
            None => image.0 < self.from.0,
            Some(_) => image.height() < height,
        }
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
        self.space.put(chunk, (self.from.height(), self.height), header, payload)
    }

    /// Hands the chunks back to the space; versions in them stay until they are collected.
    pub(crate) fn close(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.space.give_back(&self.full, self.chunk.take(), touched);
        self.full.clear();
    }
}
