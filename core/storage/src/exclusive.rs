//! The data path of workers that share nothing: each record is in the hands of one of them.
//!
//! A queue-oriented protocol knows, before it runs, that no other worker touches the records of a
//! queue while it is drained. Then a look-up need be hashed only once, a read needs no second look
//! at the stamp, and a write may be taken back before the block ends:
//!
//! ```text
//!   hash ─► prefetch ┄┄► guess ─► prefetch_row ┄┄► find_hashed      planning, by groups of keys
//!   read_exclusive, update, insert, delete                          executing
//!   image ┄┄► revert                                                rolling back
//! ```
//!
//! **Contract.** Between the calls of one owner and those of the next there is a happens-before
//! edge (a lock, a release and its acquire); the caller makes it. Snapshot readers may come at any
//! time: they are served by the protocol of [`record`](crate::record), which `revert` follows.
//!
//! **Rolling back** restores words *and stamp*, so that a record that only victims wrote is what it
//! was before the block. A reader who compares stamps could then take the words of the time between
//! for those of the stamp; so `revert` counts in `newest`, and readers compare that too. Such a
//! record is no net change of the block.
//!
//! The exception is a record that an earlier block had deleted: it ends as deleted by this block.
//! With its old stamp the garbage of that earlier block would free its slot, while secondary
//! entries that lead there are garbage of this one; and then they would lead to another key's row.

use kit::sync::atomic::Ordering;
use types::{ColumnId, Stamp, Value};

use crate::hash::KeyHash;
use crate::header::{StampWord, State};
use crate::layout::STAMP;
use crate::slot::Slot;
use crate::table::Table;
use crate::undo::UndoArena;
use crate::words::{self, LINES_MAX, WORDS_PER_LINE};

impl Table {
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.index().hash(key)
    }

    #[inline]
    pub fn prefetch_hashed(&self, hash: KeyHash) {
        self.index().prefetch(hash);
    }

    /// Fetches the first line of the record where a look-up will probably end.
    #[inline]
    pub fn prefetch_guess(&self, hash: KeyHash) {
        if let Some(slot) = self.index().guess(hash) {
            self.records.prefetch(slot);
        }
    }

    /// As [`Table::find`], of a key that was hashed before.
    #[inline]
    pub fn find_hashed(&self, hash: KeyHash, key: &[u8]) -> Option<Slot> {
        self.index().find(hash, |slot| self.records.has_key(slot, key))
    }

    /// Fetches a whole row.
    #[inline]
    pub fn prefetch_row(&self, slot: Slot) {
        if let Some(record) = self.records.record(slot) {
            record.iter().step_by(WORDS_PER_LINE).take(LINES_MAX).for_each(words::prefetch);
        }
    }

    /// The given columns of the current row, for the worker that owns the record.
    #[inline]
    pub fn read_exclusive(
        &self,
        slot: Slot,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        let record = self.records.record(slot)?;
        let stamp = StampWord(record[STAMP].load(Ordering::Relaxed));
        if stamp.state() != State::Live {
            return None;
        }
        let layout = &self.records.layout;
        let payload = &record[layout.payload..];
        for (value, id) in out.iter_mut().zip(columns) {
            let load = |place: usize| payload[place].load(Ordering::Relaxed);
            layout.column(*id).decode_into(load, &self.records.heap, value);
        }
        Some(stamp.stamp())
    }

    /// The same, each column into the place that it has in a row.
    pub fn read_exclusive_places(
        &self,
        slot: Slot,
        columns: &[ColumnId],
        row: &mut [Value],
    ) -> Option<Stamp> {
        let record = self.records.record(slot)?;
        let stamp = StampWord(record[STAMP].load(Ordering::Relaxed));
        if stamp.state() != State::Live {
            return None;
        }
        let layout = &self.records.layout;
        let payload = &record[layout.payload..];
        let load = |place: usize| payload[place].load(Ordering::Relaxed);
        for id in columns {
            let value = &mut row[usize::from(*id)];
            layout.column(*id).decode_into(load, &self.records.heap, value);
        }
        Some(stamp.stamp())
    }

    /// When a record was last changed, and whether it holds a row since.
    #[inline]
    pub fn last_change(&self, slot: Slot) -> (Stamp, bool) {
        let word = self.records.stamp_word(slot);
        (word.stamp(), word.state() == State::Live)
    }

    /// Appends what [`Table::revert`] needs to bring the record back to what it is now.
    pub fn image(&self, slot: Slot, out: &mut Vec<u64>) {
        if let Some(record) = self.records.record(slot) {
            out.push(record[STAMP].load(Ordering::Relaxed));
            let payload = &record[self.records.layout.payload..];
            out.extend(payload.iter().map(|word| word.load(Ordering::Relaxed)));
        }
    }

    /// Undoes every change of a record since its image was taken.
    pub fn revert(&self, slot: Slot, image: &[u64], undo: &mut UndoArena) {
        let Some((stamp, payload)) = image.split_first() else { return };
        let before = StampWord(*stamp);
        if before.state() == State::Tombstone && before.height() != undo.height() {
            let (last, _) = self.last_change(slot);
            self.delete(slot, last, undo);
            return;
        }
        self.note_strings(slot, &self.records.layout.strings, undo);
        self.restore_entries(slot, payload, undo);
        self.records.revert(slot, before, payload, undo);
    }
}
