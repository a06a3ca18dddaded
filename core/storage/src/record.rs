//! Records: slots, and the protocol by which one writer and many readers share a record.
//!
//! # The protocol
//!
//! Within a block a record has one writer at a time (the concurrency-control protocol sees to
//! that); readers at published heights may come at any time. `H` is the block being written.
//!
//! ```text
//! writer, first touch in H                     reader at height `at`
//! 1  copy the payload into an undo version     a  s <- stamp                       (acquire)
//! 2  newest <- the version      (release)      b  s.height > at: follow newest     (acquire)
//! 3  stamp  <- H, Writing       (release)      c  copy the words it wants          (relaxed)
//! 4  fence                      (release)      d  fence                            (acquire)
//! 5  payload words              (relaxed)      e  stamp = s: done; else from a
//! 6  stamp  <- H, Live          (release)
//! ```
//!
//! *No torn row.* If (c) read a word of (5), the fences (4) and (d) make (e) see the stamp of (3)
//! or a later one, which is above every published height, so `s` differs and the reader goes to the
//! versions. *The version is there.* (a) acquires the stamp of (3) or (6), so (2) and (1) happened
//! before; (3) must be a release store itself, not only a store before the fence. *No reader
//! waits.* A reader below `H` turns to the versions whether or not the writer is between (3) and
//! (6), so a writer that lost its processor delays no reader. Later touches in `H` make no version
//! and skip (1) and (2): no snapshot lies inside a block. (But for a later step of the block, whose
//! net changes are reported by themselves: its first touch keeps what the step found, see
//! [`Store::begin_step`](crate::Store::begin_step).)
//!
//! A block may take a write back ([`Records::revert`]): the record gets its old words and its old
//! stamp again. Then (e) alone could take words of the time between for those of the stamp. So
//! `newest` counts what was taken back, in bits that no handle needs:
//!
//! ```text
//! 63                     44 43                                          0
//! [     taken back: 20     |                 handle: 44                 ]
//! ```
//!
//! The writer counts between the old words and the old stamp, and a reader compares `newest` as
//! well. It loads it before (a). If it was the last one already, the old words were there too; if
//! not, (e), an acquire, makes the reader see that it changed. (A reader that sleeps between (a)
//! and (e) while a record is taken back exactly 2^20 times, and only then, would be deceived.)
//!
//! The version that (1) made stays: it is what a reader finds that has seen the stamp of the time
//! between. The sweep unlinks it later, and a reader that finds it unlinked must not go by that
//! stamp any more. So (b) loads the stamp once more behind `newest`, and begins again if it is
//! another block's: the sweep comes after the block, and so after the old stamp.
//!
//! A reader at [`LATEST`](crate::LATEST) sees the state inside the block. It is for the block's own
//! workers, which their protocol orders against the record's writer; the stamp alone cannot tell
//! them apart two writes of one transaction. Where each transaction writes a record once, as a
//! commit that installs buffered writes does, it can: then a row and its stamp are read as one,
//! without any order.
//!
//! # Slots
//!
//! A record keeps its slot and its key until it is deleted and no reader sees an image of it any
//! more ([`Records::free`]). Thereafter the slot may serve another key, from the next block on. A
//! reader that found the slot by the old key sees no row of that, and has a pin below the new
//! insert: it sees `Free`, or a stamp above its height and no version of a row, and either way
//! none, which is true of the key it asked for. Hence: *a slot whose row is visible at your pin
//! stays that key's slot while you hold the pin.*

use std::sync::Arc;

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use parking_lot::Mutex;
use types::{Height, Key, Stamp, TableId, TableSchema};

use crate::header::{StampWord, State};
use crate::heap::{Heap, View};
use crate::layout::{KeyPlace, Layout, NEWEST, PROTOCOL, STAMP, key_of_words, words_are};
use crate::pins::Readable;
use crate::slot::{Slot, load_words, store_words};
use crate::undo::{Recycled, Touched, UndoArena, UndoSpace, Version};
use crate::words::Words;

/// Rows of a row group, the unit of what is built per group.
pub const GROUP_ROWS_LOG2: u32 = 13;

/// A model checker makes the first segment anew for each schedule.
const FIRST_ROWS_LOG2: u32 = if cfg!(any(shuttle, miri)) { 1 } else { 11 };

/// What the protocol's argument rests on, and a mutant leaves out: `scripts/weak-memory` builds
/// each of them, `--cfg mutant="…"`, and Miri has to find a reader who was deceived.
const WRITING_STAMP: Ordering =
    if cfg!(mutant = "writing_stamp") { Ordering::Relaxed } else { Ordering::Release };
const READ_STAMP: Ordering =
    if cfg!(mutant = "read_stamp") { Ordering::Relaxed } else { Ordering::Acquire };
const WRITER_FENCES: bool = !cfg!(mutant = "writer_fence");
const READER_FENCES: bool = !cfg!(mutant = "reader_fence");

/// The bits of `newest` that are a handle.
const HANDLE: u64 = (1 << 44) - 1;
const TAKEN_BACK_ONCE: u64 = HANDLE + 1;

const SLOTS_MAX: u64 = u32::MAX as u64 - 2;

/// The rows of one table, with the strings they refer to.
pub(crate) struct Records {
    pub(crate) table: TableId,
    /// Tells apart the tables that had this id one after the other.
    pub(crate) incarnation: u64,
    pub(crate) layout: Layout,
    pub(crate) heap: Heap,
    rows: Words,
    undo: Arc<UndoSpace>,
    /// First slot never used.
    next: AtomicU64,
    free: Mutex<Vec<Slot>>,
    /// Length of `free`, to spare the lock where there is none.
    free_count: AtomicUsize,
}

/// Where a chain leads on from a record, or from a version.
#[derive(Clone, Copy)]
pub(crate) struct Link<'a>(&'a AtomicU64);

impl<'a> Link<'a> {
    pub(crate) fn of(version: Version<'a>) -> Self {
        Link(version.older_word())
    }

    pub(crate) fn handle(self) -> u64 {
        self.0.load(Ordering::Acquire) & HANDLE
    }

    pub(crate) fn lead_to(self, handle: u64) {
        let rest = self.0.load(Ordering::Relaxed) & !HANDLE;
        self.0.store(rest | handle, Ordering::Release);
    }
}

impl Records {
    pub(crate) fn new(
        schema: &TableSchema,
        protocol_words: usize,
        undo: Arc<UndoSpace>,
        incarnation: u64,
    ) -> Self {
        let layout = Layout::new(schema, protocol_words);
        Records {
            table: schema.id,
            incarnation,
            rows: Words::new(layout.stride, FIRST_ROWS_LOG2),
            layout,
            heap: Heap::new(),
            undo,
            next: AtomicU64::new(0),
            free: Mutex::default(),
            free_count: AtomicUsize::new(0),
        }
    }

    /// The same, whose versions can be swept.
    pub(crate) fn register(
        schema: &TableSchema,
        protocol_words: usize,
        undo: Arc<UndoSpace>,
        incarnation: u64,
    ) -> Arc<Self> {
        let records = Arc::new(Records::new(schema, protocol_words, undo, incarnation));
        records.undo.register(&records);
        records
    }

    #[inline]
    pub(crate) fn record(&self, slot: Slot) -> Option<&[AtomicU64]> {
        self.rows.unit(u64::from(slot.0))
    }

    pub(crate) fn payload(&self, slot: Slot) -> Option<&[AtomicU64]> {
        Some(&self.record(slot)?[self.layout.payload..])
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        self.rows.prefetch(u64::from(slot.0));
    }

    #[inline]
    pub(crate) fn protocol_word(&self, slot: Slot, word: usize) -> Option<&AtomicU64> {
        self.record(slot)?[PROTOCOL..self.layout.protocol_end].get(word)
    }

    #[inline]
    pub(crate) fn has_key(&self, slot: Slot, key: &[u8]) -> bool {
        let Some(record) = self.record(slot) else { return false };
        let (header, payload) = record.split_at(self.layout.payload);
        match &self.layout.key {
            KeyPlace::Words(words) => words_are(words, payload, key),
            KeyPlace::View => self.has_stored_key(header, key),
        }
    }

    /// Not a part of [`Records::has_key`], which would be too long for the loops of a look-up.
    #[inline(never)]
    fn has_stored_key(&self, header: &[AtomicU64], key: &[u8]) -> bool {
        self.heap.equals(key_view(header), key)
    }

    pub(crate) fn key(&self, slot: Slot) -> Key {
        let Some(record) = self.record(slot) else { return Key::default() };
        let (header, payload) = record.split_at(self.layout.payload);
        match &self.layout.key {
            KeyPlace::Words(words) => key_of_words(words, payload),
            KeyPlace::View => self.heap.with_bytes(key_view(header), |key| Key::from(key)),
        }
    }

    /// Shows `copy` the payload as of `at`, perhaps more than once: what it took counts only if a
    /// stamp is returned. `None`: no row at that height.
    #[inline]
    pub(crate) fn read(
        &self,
        slot: Slot,
        at: Height,
        mut copy: impl FnMut(&[AtomicU64]),
    ) -> Option<Stamp> {
        let record = self.record(slot)?;
        let mut spin = Spin::new();
        loop {
            let newest = record[NEWEST].load(Ordering::Acquire);
            let before = StampWord(record[STAMP].load(READ_STAMP));
            if before.height() > at {
                match self.read_version(record, before, at, &mut copy) {
                    Ok(found) => return found,
                    Err(Recycled) => continue,
                }
            }
            match before.state() {
                State::Live => copy(&record[self.layout.payload..]),
                State::Free | State::Tombstone => return None,
                State::Writing => {
                    spin.wait();
                    continue;
                }
            }
            if READER_FENCES {
                fence(Ordering::Acquire);
            }
            let same = record[STAMP].load(Ordering::Acquire) == before.0
                && record[NEWEST].load(Ordering::Relaxed) == newest;
            if same {
                return Some(before.stamp());
            }
        }
    }

    /// When the row visible at [`LATEST`](crate::LATEST) was last changed: one word, which needs no
    /// second look.
    #[inline]
    pub(crate) fn latest_stamp(&self, slot: Slot) -> Option<Stamp> {
        let record = self.record(slot)?;
        let mut spin = Spin::new();
        loop {
            let stamp = StampWord(record[STAMP].load(Ordering::Acquire));
            match stamp.state() {
                State::Live => return Some(stamp.stamp()),
                State::Free | State::Tombstone => return None,
                State::Writing => spin.wait(),
            }
        }
    }

    /// The row below a stamp that is above `at`. Each handle is trusted only when what it was read
    /// from is known to have been a version still.
    #[cold]
    fn read_version(
        &self,
        record: &[AtomicU64],
        above: StampWord,
        at: Height,
        copy: &mut impl FnMut(&[AtomicU64]),
    ) -> Result<Option<Stamp>, Recycled> {
        let Some(turn) = self.undo.turn(at) else { return Ok(None) };
        let mut handle = record[NEWEST].load(Ordering::Acquire) & HANDLE;
        if StampWord(record[STAMP].load(Ordering::Acquire)).height() != above.height() {
            return Err(Recycled);
        }
        while handle != 0 {
            let version = self.version(handle);
            let (stamp, older) = (version.stamp(), version.older());
            self.undo.check(turn)?;
            if stamp.height() <= at {
                if stamp.state() == State::Tombstone {
                    return Ok(None);
                }
                copy(version.payload());
                self.undo.check(turn)?;
                return Ok(Some(stamp.stamp()));
            }
            handle = older;
        }
        Ok(None)
    }

    /// Every image of a record that is still there, from the one visible at `at` back to the one
    /// visible at `from`: its stamp and its payload, `None` where the row was deleted.
    pub(crate) fn history(
        &self,
        slot: Slot,
        at: Height,
        from: Height,
    ) -> Vec<(Stamp, Option<Vec<u64>>)> {
        let Some(record) = self.record(slot) else { return Vec::new() };
        loop {
            let mut images = Vec::new();
            let mut payload = Vec::new();
            let visible = self.read(slot, at, |words| load_words(words, &mut payload));
            images.extend(visible.map(|stamp| (stamp, Some(payload))));
            let Some(turn) = self.undo.turn(at) else { return images };
            if self.follow_all(record, (at, from), turn, &mut images).is_ok() {
                return images;
            }
        }
    }

    /// Appends the versions below the height of the last image, or the first visible at `at`.
    fn follow_all(
        &self,
        record: &[AtomicU64],
        (at, from): (Height, Height),
        turn: u64,
        images: &mut Vec<(Stamp, Option<Vec<u64>>)>,
    ) -> Result<(), Recycled> {
        let horizon = self.undo.horizon().max(from);
        let newest = StampWord(record[STAMP].load(Ordering::Acquire));
        if newest.state() == State::Tombstone && newest.height() <= at {
            images.push((newest.stamp(), None));
        }
        let mut made_by = newest.height();
        let mut handle = record[NEWEST].load(Ordering::Acquire) & HANDLE;
        while handle != 0 && made_by > horizon {
            let version = self.version(handle);
            let (stamp, older) = (version.stamp(), version.older());
            let mut payload = Vec::new();
            load_words(version.payload(), &mut payload);
            self.undo.check(turn)?;
            // What was taken back, or was between two steps of a block, no height shows.
            let is_older = images.last().is_none_or(|(last, _)| stamp.height() < last.height());
            if stamp.height() <= at && is_older {
                let live = stamp.state() == State::Live;
                images.push((stamp.stamp(), live.then_some(payload)));
            }
            (made_by, handle) = (stamp.height(), older);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn version(&self, handle: u64) -> Version<'_> {
        self.undo.version(handle, self.layout.payload_words)
    }

    /// Where the handle of a record's newest version stands.
    pub(crate) fn newest_link(record: &[AtomicU64]) -> Link<'_> {
        Link(&record[NEWEST])
    }

    /// A version's image; `None` if the row did not exist then.
    pub(crate) fn before_image(
        &self,
        handle: u64,
        mut copy: impl FnMut(&[AtomicU64]),
    ) -> Option<Stamp> {
        if handle == 0 {
            return None;
        }
        let version = self.version(handle);
        let stamp = version.stamp();
        (stamp.state() == State::Live).then(|| {
            copy(version.payload());
            stamp.stamp()
        })
    }

    #[inline]
    pub(crate) fn prefetch_before_image(&self, handle: u64) {
        if handle != 0 {
            self.version(handle).prefetch();
        }
    }

    /// Shows `visit` every image of a record that is seen: the current one, and those that readers
    /// of a height see, with the highest such height.
    pub(crate) fn seen_images(
        &self,
        slot: Slot,
        readable: &Readable,
        mut visit: impl FnMut(Option<Height>, &[AtomicU64]),
    ) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let mut stamp = StampWord(record[STAMP].load(Ordering::Acquire));
        let mut next = record[NEWEST].load(Ordering::Acquire) & HANDLE;
        if stamp.state() == State::Live {
            visit(None, &record[self.layout.payload..]);
        }
        while next != 0 && stamp.height() > readable.horizon() {
            let version = self.version(next);
            let made_by = stamp.height();
            (stamp, next) = (version.stamp(), version.older());
            if stamp.state() == State::Live
                && let Some(reader) = readable.witness(stamp.height(), made_by)
            {
                visit(Some(reader), version.payload());
            }
        }
    }

    #[inline]
    pub(crate) fn stamp_word(&self, slot: Slot) -> StampWord {
        self.record(slot)
            .map_or(StampWord(0), |record| StampWord(record[STAMP].load(Ordering::Acquire)))
    }

    /// Steps 1 to 6 of the module's protocol; `fill` writes the payload words it changes. Before
    /// that it may look at what they were.
    #[inline]
    pub(crate) fn write(
        &self,
        slot: Slot,
        stamp: Stamp,
        state: State,
        undo: &mut UndoArena,
        fill: impl FnOnce(&[AtomicU64], &mut UndoArena),
    ) {
        undo.check(stamp);
        let record = self.record(slot).expect("the slot of a record");
        let payload = &record[self.layout.payload..];
        let old = StampWord(record[STAMP].load(Ordering::Relaxed));
        debug_assert!(matches!(old.state(), State::Live | State::Tombstone), "{old:?}");
        if undo.keeps(old, stamp.height()) {
            let newest = record[NEWEST].load(Ordering::Relaxed);
            let owner = (self.incarnation, slot);
            let before = undo.push(owner, newest & HANDLE, old, payload);
            record[NEWEST].store(newest & !HANDLE | before, Ordering::Release);
            undo.touch(Touched { table: self.table, slot, before }, stamp.height());
        }
        record[STAMP].store(StampWord::new(stamp, State::Writing).0, WRITING_STAMP);
        if WRITER_FENCES {
            fence(Ordering::Release);
        }
        fill(payload, undo);
        record[STAMP].store(StampWord::new(stamp, state).0, Ordering::Release);
    }

    /// Brings back an image that the record had before writes of this block.
    pub(crate) fn revert(&self, slot: Slot, stamp: StampWord, image: &[u64], undo: &UndoArena) {
        let record = self.record(slot).expect("the slot of a record");
        let payload = &record[self.layout.payload..];
        let now = StampWord(record[STAMP].load(Ordering::Relaxed));
        debug_assert_eq!(now.height(), undo.height(), "only this block's writes are undone");
        let writing = StampWord::new(now.stamp(), State::Writing);
        record[STAMP].store(writing.0, WRITING_STAMP);
        if WRITER_FENCES {
            fence(Ordering::Release);
        }
        store_words(payload, image);
        if stamp.height() != now.height() {
            let newest = record[NEWEST].load(Ordering::Relaxed);
            record[NEWEST].store(newest.wrapping_add(TAKEN_BACK_ONCE), Ordering::Release);
        }
        record[STAMP].store(stamp.0, Ordering::Release);
    }

    /// A new record, which no index leads to yet.
    pub(crate) fn create(
        &self,
        key: &[u8],
        stamp: Stamp,
        payload: &[u64],
        undo: &mut UndoArena,
    ) -> Slot {
        undo.check(stamp);
        let slot = self.allocate();
        undo.touch(Touched { table: self.table, slot, before: 0 }, stamp.height());
        self.fill_new(slot, key, stamp, payload);
        slot
    }

    /// Fills a fresh slot. No reader comes to it by its new key before an index leads there, and
    /// one that still holds it by the old key sees a stamp above its height.
    pub(crate) fn fill_new(&self, slot: Slot, key: &[u8], stamp: Stamp, payload: &[u64]) {
        let record = self.record(slot).expect("just allocated");
        let Layout { protocol_end, payload: payload_start, .. } = self.layout;
        if self.layout.key == KeyPlace::View {
            store_words(&record[protocol_end..payload_start], &self.heap.store(key));
        }
        record[NEWEST].store(0, Ordering::Relaxed);
        for word in &record[PROTOCOL..protocol_end] {
            word.store(0, Ordering::Relaxed);
        }
        store_words(&record[payload_start..], payload);
        debug_assert!(self.has_key(slot, key), "a row is stored under its own key");
        record[STAMP].store(StampWord::new(stamp, State::Live).0, Ordering::Release);
    }

    pub(crate) fn allocate(&self) -> Slot {
        if self.free_count.load(Ordering::Relaxed) > 0
            && let Some(slot) = self.free.lock().pop()
        {
            self.free_count.fetch_sub(1, Ordering::Relaxed);
            return slot;
        }
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(slot < SLOTS_MAX, "a table of more than {SLOTS_MAX} rows");
        self.rows.ensure(slot);
        Slot(slot as u32)
    }

    /// Hands out a slot again. The caller has unlinked it from every index, and no reader sees an
    /// image of it.
    pub(crate) fn free(&self, slot: Slot) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let deleted = StampWord(record[STAMP].load(Ordering::Relaxed));
        let stamp = StampWord::new(deleted.stamp(), State::Free);
        record[STAMP].store(stamp.0, Ordering::Release);
        self.free_strings(record);
        self.free.lock().push(slot);
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up the strings of a record that goes: those of its last image, and its key.
    fn free_strings(&self, record: &[AtomicU64]) {
        let (header, payload) = record.split_at(self.layout.payload);
        self.long_strings(payload).for_each(|view| self.heap.free(view));
        if self.layout.key == KeyPlace::View {
            self.heap.free(key_view(header));
        }
    }

    /// The views of an image's long strings.
    pub(crate) fn long_strings(&self, payload: &[AtomicU64]) -> impl Iterator<Item = View> {
        self.layout.strings.iter().filter_map(|column| column.long_string(payload))
    }

    /// Whether a long string is one of a record's last image.
    pub(crate) fn holds_string(&self, slot: Slot, view: View) -> bool {
        self.payload(slot).is_some_and(|payload| self.long_strings(payload).any(|own| own == view))
    }

    /// Slots that hold a record, deleted ones not yet collected included.
    pub(crate) fn used_slots(&self) -> u64 {
        let next = self.next.load(Ordering::Relaxed);
        next.saturating_sub(self.free_count.load(Ordering::Relaxed) as u64)
    }

    /// First slot never used.
    pub(crate) fn slots_end(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.next.load(Ordering::Relaxed)).map(|slot| Slot(slot as u32))
    }

    /// Bytes of records and strings that are there.
    pub(crate) fn used_bytes(&self) -> u64 {
        let strings = self.heap.reserved_bytes() - self.heap.free_bytes();
        self.used_slots() * self.layout.stride as u64 * 8 + strings
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.rows.reserved_bytes() as u64 + self.heap.reserved_bytes()
    }
}

/// The last two words of a header.
#[inline]
fn key_view(header: &[AtomicU64]) -> View {
    let [.., low, high] = header else { return [0; 2] };
    [low.load(Ordering::Relaxed), high.load(Ordering::Relaxed)]
}

#[cfg(all(test, any(shuttle, miri)))]
mod schedules;
