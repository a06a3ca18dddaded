//! A block being written, and the net changes it made.
//!
//! A record counts once however often the block touched it: its before-image is the version that
//! the first touch saved, its after-image is what stands when the block is finished. A block that
//! is written in steps has changes for each, between what the step found and what it left; they are
//! to be read before the next one writes. Where neither holds a row, the record is not among the
//! changes; where both hold the same bytes it is, for its stamp has moved. So the changes are the
//! rows whose stamps are the block's, and the rows that are gone: replicas that agree on the stamps
//! agree on the changes, whatever protocol made them, and a row's history can be followed from
//! change to change without a gap. They come sorted by (table, encoded key), the order in which the
//! ledger hashes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{Height, Key, Result, Stamp, TableId, Value};

use crate::pins::Pin;
use crate::slot::{Slot, load_words};
use crate::store::Catalog;
use crate::table::Table;
use crate::undo::{Garbage, GarbageKind, Overwritten, Touched, UndoArena, UndoSpace};

/// The write side of one block: an [`UndoArena`] for each worker.
pub struct BlockWrites {
    height: Height,
    arenas: Vec<UndoArena>,
}

impl BlockWrites {
    pub(crate) fn new(first: Stamp, height: Height, workers: usize, undo: &Arc<UndoSpace>) -> Self {
        let arenas = (0..workers).map(|_| UndoArena::new(undo.clone(), first, height)).collect();
        BlockWrites { height, arenas }
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// One arena per worker, to lend to scoped threads.
    pub fn arenas(&mut self) -> &mut [UndoArena] {
        &mut self.arenas
    }

    /// The arena of a worker that runs alone.
    pub fn arena(&mut self, worker: usize) -> &mut UndoArena {
        &mut self.arenas[worker]
    }

    /// Takes all arenas out, for threads that outlive the borrow; [`BlockWrites::give`] them back
    /// before the block is finished.
    pub fn take(&mut self) -> Vec<UndoArena> {
        std::mem::take(&mut self.arenas)
    }

    /// # Panics
    /// If the arena belongs to another block.
    pub fn give(&mut self, arena: UndoArena) {
        assert_eq!(arena.height(), self.height, "an arena of another block");
        self.arenas.push(arena);
    }

    pub(crate) fn tell_each(&mut self) {
        self.arenas.iter_mut().for_each(UndoArena::tell_each);
    }

    /// What each of the blocks touched, by its height.
    pub(crate) fn take_touched_blocks(&mut self) -> BTreeMap<Height, Vec<Touched>> {
        let mut blocks = BTreeMap::<Height, Vec<Touched>>::new();
        for arena in &mut self.arenas {
            let heights = arena.take_touched_blocks().unwrap_or_default();
            for (height, touched) in heights.into_iter().zip(&arena.touched) {
                blocks.entry(height).or_default().push(*touched);
            }
        }
        blocks
    }

    pub(crate) fn close(self, catalog: &Catalog) -> (Vec<Touched>, Vec<Garbage>) {
        let mut touched = Vec::new();
        let mut garbage = Vec::new();
        let mut overwritten = Vec::new();
        for mut arena in self.arenas {
            touched.append(&mut arena.touched);
            garbage.append(&mut arena.garbage);
            overwritten.append(&mut arena.overwritten);
            arena.close();
        }
        garbage.extend(left_strings(catalog, overwritten));
        (touched, garbage)
    }
}

/// The strings that records have left for good, each once: one that was overwritten and brought
/// back is its record's again, and one that was brought back twice was overwritten twice.
fn left_strings(catalog: &Catalog, mut overwritten: Vec<Overwritten>) -> Vec<Garbage> {
    let place = |string: &Overwritten| (string.incarnation, string.slot, string.view[1]);
    overwritten.sort_unstable_by_key(place);
    overwritten.dedup_by_key(|string| place(string));
    let left = overwritten.into_iter().filter_map(|string| {
        let table = catalog.table(string.table)?;
        // A table that was rewritten has taken its strings with it.
        let is_here = table.records.incarnation == string.incarnation;
        let is_left = is_here && !table.records.holds_string(string.slot, string.view);
        is_left.then(|| table.garbage(string.slot, GarbageKind::String(string.view)))
    });
    left.collect()
}

/// The net changes of a finished block. Its pins keep both images of every row readable as long as
/// it lives, also while later blocks are written, so that sealing can overlap executing.
pub struct Changes {
    height: Height,
    changes: Vec<Change>,
    _pins: ChangesPins,
}

/// One at a height that sees what the block found, and one at its own in a registry of those whose
/// before-images are reached by handle.
pub(crate) struct ChangesPins {
    pub(crate) _before: Pin,
    pub(crate) _unreported: Option<Pin>,
}

/// One row's net change.
pub struct Change {
    key: Key,
    table: Arc<Table>,
    touched: Touched,
    height: Height,
}

/// A touched record on its way to its place.
struct Keyed {
    table: TableId,
    /// Decides nearly always, without a look at the key.
    prefix: u64,
    key: Key,
    touched: Touched,
}

/// The first eight bytes of a key, zeros after a shorter one, as a number.
fn prefix(key: &Key) -> u64 {
    let bytes = key.as_bytes();
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(eight)
        }
    }
}

/// Records ahead of which memory is fetched.
const AHEAD: usize = 8;

impl Table {
    /// Fetches a changed record and its image from before the block.
    #[inline]
    fn prefetch_change(&self, touched: &Touched) {
        self.prefetch_row(touched.slot);
        self.records.prefetch_before_image(touched.before);
    }
}

impl Changes {
    pub(crate) fn new(
        height: Height,
        pins: ChangesPins,
        catalog: Arc<Catalog>,
        touched: Vec<Touched>,
    ) -> Self {
        let fetch = |next: Option<&Touched>| {
            if let Some(next) = next
                && let Some(table) = catalog.table(next.table)
            {
                table.prefetch_change(next);
            }
        };
        let keyed = touched.iter().enumerate().filter_map(|(at, &one)| {
            fetch(touched.get(at + AHEAD));
            let key = catalog.table(one.table)?.records.key(one.slot);
            Some(Keyed { table: one.table, prefix: prefix(&key), key, touched: one })
        });
        let mut keyed: Vec<Keyed> = keyed.collect();
        keyed.sort_unstable_by(|a, b| {
            let by_prefix = (a.table, a.prefix).cmp(&(b.table, b.prefix));
            by_prefix.then_with(|| a.key.cmp(&b.key))
        });
        // Written, rolled back and written again: touched first twice, with one image before.
        keyed.dedup_by(|a, b| a.table == b.table && a.key == b.key);
        let changes = keyed.into_iter().filter_map(|Keyed { key, touched, .. }| {
            let table = catalog.table(touched.table)?.clone();
            let change = Change { key, table, touched, height };
            change.is_net().then_some(change)
        });
        Changes { height, changes: changes.collect(), _pins: pins }
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// Fetches what [`Change::before_image`] and [`Change::after_image`] read of a change.
    #[inline]
    pub fn prefetch(&self, place: usize) {
        if let Some(change) = self.changes.get(place) {
            change.table.prefetch_change(&change.touched);
        }
    }

    /// Every record changed, sorted by table and key.
    pub fn touched(&self) -> &[Change] {
        &self.changes
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Change {
    pub fn table(&self) -> TableId {
        self.touched.table
    }

    /// Where the record lies in its table.
    pub fn slot(&self) -> Slot {
        self.touched.slot
    }

    pub fn schema(&self) -> &Arc<types::TableSchema> {
        self.table.schema()
    }

    /// The encoded primary key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The row before the block, and when it had last changed; `None` if there was none.
    pub fn before(&self, row: &mut Vec<Value>) -> Option<Stamp> {
        let mut words = Vec::new();
        let stamp = self.before_words(&mut words)?;
        self.table.decode_row(&words, row);
        Some(stamp)
    }

    /// The row after the block; `None` if there is none.
    pub fn after(&self, row: &mut Vec<Value>) -> Option<Stamp> {
        self.table.read_row(self.touched.slot, self.height, row)
    }

    /// Appends the image of the row before the block, encoded as the ledger hashes it.
    pub fn before_image(&self, out: &mut Vec<u8>) -> Result<Option<Stamp>> {
        let mut encoded = Ok(());
        let stamp = self.table.records.before_image(self.touched.before, |payload| {
            encoded = self.table.encode_image(payload, out);
        });
        encoded.map(|()| stamp)
    }

    /// Appends the image of the row after the block.
    pub fn after_image(&self, out: &mut Vec<u8>) -> Result<Option<Stamp>> {
        self.table.append_image(self.touched.slot, self.height, out)
    }

    fn before_words(&self, words: &mut Vec<u64>) -> Option<Stamp> {
        let records = &self.table.records;
        records.before_image(self.touched.before, |payload| load_words(payload, words))
    }

    /// A row that came and went within the block left no trace, nor did writes that were undone.
    fn is_net(&self) -> bool {
        let records = &self.table.records;
        let was = || records.before_image(self.touched.before, |_| ()).is_some();
        let is = records.read(self.touched.slot, self.height, |_| ());
        match records.stamp_word(self.touched.slot).height() {
            newest if newest < self.height => false,
            newest if newest == self.height => is.is_some() || was(),
            // A later block, written together with this one, has changed the record since.
            _ => is.map_or_else(was, |stamp| stamp.height() == self.height),
        }
    }
}
