//! Export and import of older row versions, for protocols whose blocks read states before the
//! newest.
//!
//! *Idea.* What is transferred is a state and, for each row that a block after some older state has
//! changed, the images that it had in between. Installed as versions beneath the state's rows, they
//! answer every read at the heights in between as before: of rows, of rows that were deleted since
//! or did not exist yet, and of ranges of every index.
//!
//! ```text
//! heights     from ────────────────────── at
//! a row       [3 ──── 6)[6 ── 8) gone [9 ────     9 is the state's; 8 gone, 6, 3 are exported
//! another     [2 ──────────── 8) gone             8 gone, 2
//! a new one               [7 ────────────────     nothing: below its stamp there is no row
//! an old one  [1 ────────────────────────────     nothing
//! ```
//!
//! *Export.* [`Table::each_past`] reads one word of each record: a record that has not changed
//! since `from` has no past. The caller holds a pin at every height from `from` to `at`, so that
//! all versions in between are present; later blocks may be written meanwhile.
//!
//! *Import.* [`Table::restore_past`], after all rows of the state, into a table without readers. A
//! row that does not exist at `at` becomes a deleted record. That record, and the index entries of
//! older images, are queued as garbage as if the blocks had been executed here, so all of it is
//! freed when the last pin of those heights is released. [`Store::resume_at`] returns the pins.
//!
//! *Invariants.* A past has one form: images newest first, no two deletions in a row, the last one
//! a row. Every image but the last was created above `from`, and every image was replaced above
//! `from`.

use std::ops::{Bound, ControlFlow, RangeInclusive};

use kit::sync::atomic::{AtomicU64, Ordering};
use types::{Error, Height, Key, Result, SqlState, Stamp};

use crate::header::{HEIGHT_MAX, StampWord, State};
use crate::heap::is_long;
use crate::layout::{NEWEST, STAMP};
use crate::pins::Pin;
use crate::scan::each_entry;
use crate::slot::Slot;
use crate::store::Store;
use crate::table::Table;
use crate::undo::{GarbageKind, UndoArena};

/// What a row was: since when, and its image as the ledger hashes it; `None`: it was deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastImage {
    pub stamp: Stamp,
    pub image: Option<Vec<u8>>,
}

/// What [`Table::each_past`] calls per row: primary key, older images, newest first.
pub type VisitPast<'a> = dyn FnMut(&[u8], &[PastImage]) -> Result<()> + 'a;

impl Table {
    /// Calls `visit` for every row that some height from `from` on showed otherwise than `at`, in
    /// key order.
    pub fn each_past(&self, from: Height, at: Height, visit: &mut VisitPast<'_>) -> Result<()> {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let mut result = Ok(());
        each_entry(self.primary(), low, high, false, &mut |key, slot| {
            if self.records.stamp_word(slot).height() <= from {
                return ControlFlow::Continue(());
            }
            result = self.past(slot, from, at).and_then(|images| match &images[..] {
                [] => Ok(()),
                images => visit(key, images),
            });
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        result
    }

    /// A row's images below the one that `at` shows, newest first, down to what `from` shows.
    fn past(&self, slot: Slot, from: Height, at: Height) -> Result<Vec<PastImage>> {
        let mut past: Vec<(Stamp, Option<Vec<u64>>)> = Vec::new();
        for (stamp, payload) in self.records.history(slot, at, from) {
            // Came and went within a block: the row was gone before.
            if payload.is_none() {
                past.pop_if(|(_, newer)| newer.is_none());
            }
            past.push((stamp, payload));
        }
        past.pop_if(|(_, oldest)| oldest.is_none());
        let is_in_state = past.first().is_some_and(|(_, newest)| newest.is_some());
        past.into_iter().skip(usize::from(is_in_state)).map(|image| self.encoded(image)).collect()
    }

    fn encoded(&self, (stamp, payload): (Stamp, Option<Vec<u64>>)) -> Result<PastImage> {
        let image = payload.map(|payload| {
            let mut image = Vec::new();
            self.encode_image(&atomic(&payload), &mut image).map(|()| image)
        });
        Ok(PastImage { stamp, image: image.transpose()? })
    }

    /// Lays older images, newest first, beneath the row that has their key, and returns the key.
    /// `undo` is that of the blocks above the oldest height that is to be read.
    pub fn restore_past(&self, images: &[PastImage], undo: &mut UndoArena) -> Result<Key> {
        let (key, payloads) = self.decode_past(images)?;
        let found = self.find(key.as_bytes());
        let newest = found.map(|slot| self.records.stamp_word(slot));
        let of_state = newest.map(|word| (word.stamp(), true));
        let of_past = images.iter().map(|image| (image.stamp, image.image.is_some()));
        let all: Vec<(Stamp, bool)> = of_state.into_iter().chain(of_past).collect();
        let is_new = match found {
            Some(slot) => self.is_bare(slot),
            None => images.first().is_some_and(|newest| newest.image.is_none()),
        };
        if !is_new || !is_past(&all, undo.blocks()) {
            return Err(self.impossible());
        }
        let (slot, beneath) = match found {
            Some(slot) => (slot, 0),
            None => (self.restore_deleted(&key, images[0].stamp, &payloads[0], undo), 1),
        };
        let versions = images.iter().zip(&payloads).skip(beneath).rev();
        self.chain(slot, versions, undo);
        for payload in &payloads {
            self.lead_to_past(slot, payload, undo);
            let strings = self.records.layout.strings.iter();
            let views = strings.map(|column| column.cell(|i| payload[i]).words);
            views.filter(|view| is_long(*view)).for_each(|view| self.note_string(slot, view, undo));
        }
        Ok(key)
    }

    /// The key of images and the words of each; of a deletion, those of the row that it deleted.
    fn decode_past(&self, images: &[PastImage]) -> Result<(Key, Vec<Vec<u64>>)> {
        let mut key = None;
        let mut payloads: Vec<Vec<u64>> = Vec::with_capacity(images.len());
        for PastImage { image, .. } in images.iter().rev() {
            let Some(image) = image else {
                let deleted = payloads.last().cloned();
                payloads.push(deleted.ok_or_else(|| self.impossible())?);
                continue;
            };
            let (own, row) = self.decode_image(image)?;
            if key.get_or_insert_with(|| own.clone()) != &own {
                return Err(self.impossible());
            }
            let mut payload = Vec::new();
            self.encode(&row, &mut payload);
            payloads.push(payload);
        }
        payloads.reverse();
        Ok((key.ok_or_else(|| self.impossible())?, payloads))
    }

    /// Whether a record is a row with nothing beneath it.
    fn is_bare(&self, slot: Slot) -> bool {
        let is_live = self.records.stamp_word(slot).state() == State::Live;
        let newest = self.records.record(slot).map(|record| record[NEWEST].load(Ordering::Relaxed));
        is_live && newest == Some(0)
    }

    fn restore_deleted(
        &self,
        key: &Key,
        stamp: Stamp,
        payload: &[u64],
        undo: &mut UndoArena,
    ) -> Slot {
        let slot = self.records.allocate();
        self.records.fill_new(slot, key.as_bytes(), stamp, payload);
        if let Some(record) = self.records.record(slot) {
            record[STAMP].store(StampWord::new(stamp, State::Tombstone).0, Ordering::Release);
        }
        self.link(slot, key.as_bytes(), payload);
        undo.garbage.push(self.garbage(slot, GarbageKind::Record));
        slot
    }

    /// Versions, oldest first, become a record's chain.
    fn chain<'a>(
        &self,
        slot: Slot,
        versions: impl Iterator<Item = (&'a PastImage, &'a Vec<u64>)>,
        undo: &mut UndoArena,
    ) {
        let Some(record) = self.records.record(slot) else { return };
        let mut newest = 0;
        for (PastImage { stamp, image }, payload) in versions {
            let state = if image.is_some() { State::Live } else { State::Tombstone };
            let owner = (self.records.incarnation, slot);
            newest = undo.push(owner, newest, StampWord::new(*stamp, state), &atomic(payload));
        }
        record[NEWEST].store(newest, Ordering::Release);
    }

    /// Leads every secondary index to an older image, as long as it may be read.
    fn lead_to_past(&self, slot: Slot, payload: &[u64], undo: &mut UndoArena) {
        let mut current = Vec::new();
        self.load_payload(slot, &mut current);
        let key = self.records.key(slot);
        for (id, index) in self.secondary_indexes() {
            let left = self.entry(index, payload, &key);
            if left != self.entry(index, &current, &key) {
                index.entries.insert(left.as_bytes(), slot);
                undo.garbage.push(self.garbage(slot, GarbageKind::Entry(id, left)));
            }
        }
    }

    fn impossible(&self) -> Error {
        let message = format!("a row of table \"{}\" has an impossible past", self.schema().name);
        Error::new(SqlState::DATA_CORRUPTED, message)
    }
}

impl Store {
    /// Makes a height that was restored readable, and those from `from` to it as long as their
    /// pins are held, which come back in ascending order.
    ///
    /// # Panics
    /// If something was collected already: it is for a store that was just filled.
    pub fn resume_at(&self, from: Height, height: Height) -> Vec<Pin> {
        self.publish(height);
        let pin = |below| self.pins().pin(below).expect("nothing was collected yet");
        let pins = (from..height).map(pin).collect();
        self.collect();
        pins
    }
}

/// Whether stamps, newest first and with whether each is of a row, are what `blocks` can have left:
/// they have replaced every one but the first.
fn is_past(all: &[(Stamp, bool)], blocks: RangeInclusive<Height>) -> bool {
    let replaces = |pair: &[(Stamp, bool)]| {
        let [(newer, is_row), (older, was_row)] = [pair[0], pair[1]];
        blocks.contains(&newer.height())
            && newer.height() <= HEIGHT_MAX
            && newer.height() > older.height()
            && (is_row || was_row)
    };
    let ends = all.last().is_some_and(|(_, is_row)| *is_row);
    ends && all.len() > 1 && all.windows(2).all(replaces)
}

fn atomic(payload: &[u64]) -> Vec<AtomicU64> {
    payload.iter().copied().map(AtomicU64::new).collect()
}

#[cfg(all(test, not(shuttle)))]
mod tests;
