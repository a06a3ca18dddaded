//! The store: the catalogue of tables, blocks that write, snapshots that read, and what falls away.
//!
//! ```text
//! begin_block(H) ─► writers of block H ─► finish ─► publish(H) ─► collect()
//!                                          │            │             └ recycles what is not seen
//!                                          └ Changes    └ new snapshots are at H
//! ```
//!
//! One block is written at a time. [`Store::collect`] runs between blocks (it excludes writers, not
//! readers). DDL makes another catalogue ([`CatalogChange`]), between a block's writers; it becomes
//! part of the snapshots at the block's height when that is published.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use kit::mutant::mutated;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use types::{Error, Height, Layout, Result, SqlState, Stamp, TableId, TableSchema, Value};

use crate::block::{BlockWrites, Changes, ChangesPins};
use crate::change::CatalogChange;
use crate::feed::ChangeFeed;
use crate::pins::{Pin, Pins, Readable, SharedPin};
use crate::slot::LATEST;
use crate::superfluous::Superfluous;
use crate::table::Table;
use crate::undo::{Touched, UndoSpace};

/// Who keeps copies of rows, and has them follow the blocks.
pub trait Copies: Send + Sync {
    /// Brings them closer to the newest block: a bounded piece of work.
    fn bring(&self);
}

/// What the layers above know of the tables.
pub type Annotation = Arc<dyn Any + Send + Sync>;

/// Tables by id, and an annotation that changes together with them.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Ascending. Ids are given once, so there are gaps where tables were dropped.
    tables: Vec<(TableId, Arc<Table>)>,
    /// Those of layout `Column`.
    columnar: BTreeSet<TableId>,
    annotation: Option<Annotation>,
}

impl Catalog {
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&Arc<Table>> {
        let place = self.place(id).ok()?;
        Some(&self.tables[place].1)
    }

    /// Where a table is, or would be. Without gaps that is as far from the first one as its id is,
    /// and with them it is nearer.
    #[inline]
    fn place(&self, id: TableId) -> std::result::Result<usize, usize> {
        let Some((first, _)) = self.tables.first() else { return Err(0) };
        let Some(far) = id.0.checked_sub(first.0) else { return Err(0) };
        let far = far as usize;
        match self.tables.get(far) {
            Some((there, _)) if *there == id => Ok(far),
            _ => {
                let near = &self.tables[..self.tables.len().min(far)];
                near.binary_search_by_key(&id, |(id, _)| *id)
            }
        }
    }

    /// In the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.iter().map(|(_, table)| table)
    }

    pub fn layout(&self, id: TableId) -> Layout {
        if self.columnar.contains(&id) { Layout::Column } else { Layout::Row }
    }

    pub fn annotation(&self) -> Option<&Annotation> {
        self.annotation.as_ref()
    }

    pub(crate) fn annotate(&mut self, annotation: Annotation) {
        self.annotation = Some(annotation);
    }

    pub(crate) fn set_layout(&mut self, id: TableId, layout: Layout) {
        match layout {
            Layout::Column => self.columnar.insert(id),
            Layout::Row => self.columnar.remove(&id),
        };
    }

    /// The same, and the tables of another one.
    pub fn joined(&self, other: &Catalog) -> Catalog {
        let mut joined = self.clone();
        for (id, table) in &other.tables {
            joined.set(*id, Some(Arc::clone(table)));
        }
        joined.columnar.extend(&other.columnar);
        joined
    }

    /// Some of its tables, and nothing else.
    pub fn only(&self, is_taken: impl Fn(TableId) -> bool) -> Catalog {
        let tables = self.tables.iter().filter(|(id, _)| is_taken(*id)).cloned().collect();
        let columnar = self.columnar.iter().copied().filter(|id| is_taken(*id)).collect();
        Catalog { tables, columnar, annotation: None }
    }

    /// Those whose rows another catalogue does not have.
    fn tables_not_in(&self, other: &Catalog) -> impl Iterator<Item = Weak<Table>> {
        let is_in = |table: &Table| {
            other.table(table.id()).is_some_and(|t| Arc::ptr_eq(&t.records, &table.records))
        };
        let gone = self.tables().filter(move |table| !is_in(table));
        gone.map(Arc::downgrade)
    }

    pub(crate) fn set(&mut self, id: TableId, table: Option<Arc<Table>>) {
        match (self.place(id), table) {
            (Ok(place), Some(table)) => self.tables[place].1 = table,
            (Ok(place), None) => drop(self.tables.remove(place)),
            (Err(place), Some(table)) => self.tables.insert(place, (id, table)),
            (Err(_), None) => {}
        }
    }
}

/// A height that stays readable, with the tables as they were declared then.
pub struct Snapshot {
    hold: Hold,
    catalog: Arc<Catalog>,
}

enum Hold {
    Own(Pin),
    /// A share in that of a retained height.
    Shared(SharedPin),
}

impl Hold {
    fn pin(&self) -> &Pin {
        match self {
            Hold::Own(pin) => pin,
            Hold::Shared(pin) => pin,
        }
    }
}

impl Snapshot {
    pub fn height(&self) -> Height {
        self.hold.pin().height()
    }

    /// The same, which [`Store::retain_snapshot`] can retain however old it becomes.
    pub fn shared(self) -> Snapshot {
        let hold = match self.hold {
            Hold::Own(pin) => Hold::Shared(SharedPin::new(pin)),
            shared @ Hold::Shared(_) => shared,
        };
        Snapshot { hold, ..self }
    }

    /// Whether everything that was read by it so far is what it showed when it was taken. Of a
    /// lease, to be asked before a result leaves.
    pub fn check(&self) -> Result<()> {
        if !self.hold.pin().is_ended() {
            return Ok(());
        }
        Err(Error::new(SqlState::SNAPSHOT_TOO_OLD, "snapshot too old")
            .with_detail(format!(
                "The versions of rows at block {} were given up, since undo memory had passed \
                 undo_bytes_max.",
                self.height()
            ))
            .with_hint(
                "Try again on a newer snapshot, read less in one transaction, or raise \
                 undo_bytes_max.",
            ))
    }

    pub fn table(&self, id: TableId) -> Option<&Arc<Table>> {
        self.catalog.table(id)
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
}

/// What a collection did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    pub horizon: Height,
    pub undo_chunks: usize,
    pub index_entries_and_records: usize,
}

/// Memory of what older snapshots see, and what waits for collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreUsage {
    pub undo_bytes: u64,
    /// What earlier versions have left, for the next ones.
    pub undo_free_bytes: u64,
    /// What waits to be taken away until a snapshot has gone that shows it: index entries mostly.
    pub parked_bytes: u64,
    /// Tables that were dropped or written anew, and that a snapshot shows still.
    pub gone_bytes: u64,
    /// Of `undo_bytes`, what the next collections will look at.
    pub undo_unswept_bytes: u64,
    pub garbage_blocks: usize,
    /// Pins of all kinds.
    pub snapshots: usize,
    pub snapshots_retained: usize,
    pub oldest_snapshot: Option<Height>,
}

impl StoreUsage {
    /// What there is for the sake of older snapshots.
    pub fn past_bytes(&self) -> u64 {
        self.undo_bytes + self.parked_bytes + self.gone_bytes
    }
}

pub struct Store {
    pins: Pins,
    /// Blocks whose changes are being told.
    unreported: Pins,
    undo: Arc<UndoSpace>,
    feed: ChangeFeed,
    copies: ArcSwapOption<Weak<dyn Copies>>,
    protocol_words: usize,
    incarnations: AtomicU64,
    /// The tables as the block being written sees them.
    current: ArcSwap<Catalog>,
    /// Catalogues by the height from which on they hold.
    published: Mutex<BTreeMap<Height, Arc<Catalog>>>,
    /// Tables that were dropped or written anew, as long as a snapshot shows them.
    gone: Mutex<Vec<Weak<Table>>>,
    /// The last of them, for those who read the newest snapshot.
    newest_catalog: ArcSwap<(Height, Arc<Catalog>)>,
    garbage: Mutex<Superfluous>,
    /// Height of the block being written; collection excludes it.
    writing: Mutex<Option<Height>>,
    /// The whole state, for those that will not read it as a block is validated.
    state: RwLock<()>,
}

impl Store {
    /// A store whose records have one word for the protocol.
    pub fn new() -> Self {
        Store::with_protocol_words(1)
    }

    pub fn with_protocol_words(protocol_words: usize) -> Self {
        assert!(protocol_words <= crate::PROTOCOL_WORDS_MAX);
        Store {
            pins: Pins::new(),
            unreported: Pins::new(),
            undo: Arc::new(UndoSpace::new()),
            feed: ChangeFeed::default(),
            copies: ArcSwapOption::empty(),
            protocol_words,
            incarnations: AtomicU64::new(0),
            current: ArcSwap::default(),
            published: Mutex::new(BTreeMap::from([(0, Arc::default())])),
            gone: Mutex::default(),
            newest_catalog: ArcSwap::default(),
            garbage: Mutex::default(),
            writing: Mutex::new(None),
            state: RwLock::new(()),
        }
    }

    /// While it is held, no block is validated under a protocol that
    /// [locks the state](Store::lock_exclusive). Snapshots need none of it.
    pub fn lock_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.state.read()
    }

    /// Waits for those that hold it shared, and keeps others out.
    pub fn lock_exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.state.write()
    }

    /// The tables as of now; inside a DDL block, with its changes. Fetch it once per batch of work.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    pub fn table(&self, id: TableId) -> Option<Arc<Table>> {
        self.current.load().table(id).cloned()
    }

    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.current.load().tables().cloned().collect()
    }

    /// Part of the catalogue from the block on that is being written.
    pub fn annotate(&self, annotation: Annotation) {
        self.change(|change| change.annotate(annotation));
    }

    /// What was made of the newest catalogue becomes part of the block that is being written.
    pub fn install(&self, catalog: Arc<Catalog>) {
        self.current.store(catalog);
    }

    fn change<T>(&self, make: impl FnOnce(&mut CatalogChange<'_>) -> T) -> T {
        let mut change = CatalogChange::new(self, self.catalog(), LATEST);
        let made = make(&mut change);
        self.install(change.finish());
        made
    }

    pub(crate) fn empty_table(&self, schema: Arc<TableSchema>) -> Arc<Table> {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        Arc::new(Table::new(schema, self.protocol_words, self.undo.clone(), incarnation))
    }

    /// Which no block will write to.
    pub(crate) fn unwritten_table(&self, schema: Arc<TableSchema>) -> Arc<Table> {
        Arc::new(Table::unwritten(schema, self.protocol_words, self.undo.clone()))
    }

    /// Takes the place of a table with the same id, if there is one.
    pub fn create_table(&self, schema: Arc<TableSchema>) -> Arc<Table> {
        self.change(|change| change.create_table(schema))
    }

    pub fn drop_table(&self, id: TableId) {
        self.change(|change| change.drop_table(id));
    }

    pub fn set_layout(&self, id: TableId, layout: Layout) {
        self.change(|change| change.set_layout(id, layout));
    }

    pub fn truncate(&self, id: TableId) -> Result<Arc<Table>> {
        self.change(|change| change.truncate(id))
    }

    /// As [`CatalogChange::alter_table`], at no charge.
    pub fn alter_table(&self, schema: Arc<TableSchema>) -> Result<Arc<Table>> {
        self.change(|change| change.alter_table(schema, &mut |_| Ok(())))
    }

    /// As [`CatalogChange::rebuild`], at no charge.
    pub fn rebuild(
        &self,
        schema: Arc<TableSchema>,
        convert: &mut dyn FnMut(&[Value]) -> Vec<Value>,
    ) -> Result<Arc<Table>> {
        let mut convert = |_: &[u8], row: &[Value]| Ok(Some(convert(row)));
        self.change(|change| change.rebuild(schema, &mut convert, &mut |_| Ok(())))
    }

    /// Opens a block for writing, by `workers` threads.
    ///
    /// # Panics
    /// If another block is open, or readers can be at this height already (but for block 0, which
    /// has no readers before it is published): faults of the engine.
    pub fn begin_block(&self, height: Height, workers: usize) -> BlockWrites {
        self.begin(Stamp::new(height, 0), height, workers)
    }

    /// Opens a block for what follows in it after changes that are told already: of those, every
    /// stamp is below `first`. What they have left is the image before of what it changes.
    ///
    /// # Panics
    /// As [`Store::begin_block`].
    pub fn begin_step(&self, first: Stamp, workers: usize) -> BlockWrites {
        let height = first.height();
        let first = if mutated("steps_forgotten") { Stamp::new(height, 0) } else { first };
        self.begin(first, height, workers)
    }

    /// Opens the blocks from `first` to `last` for writing together: a write has the stamp of one
    /// of them, and no snapshot will be taken between them. What a record was before the first of
    /// them is kept for readers, what it was in between is not, so their net changes cannot be
    /// told: they are closed by [`Store::finish_unread`].
    ///
    /// # Panics
    /// As [`Store::begin_block`].
    pub fn begin_blocks(&self, first: Height, last: Height, workers: usize) -> BlockWrites {
        self.begin(Stamp::new(first, 0), last, workers)
    }

    fn begin(&self, from: Stamp, last: Height, workers: usize) -> BlockWrites {
        let first = from.height();
        let mut writing = self.writing.lock();
        assert!(writing.is_none(), "block {first} opened while {writing:?} is being written");
        let newest = self.newest();
        assert!(first > newest || first == 0, "block {first} opened after {newest}");
        *writing = Some(last);
        BlockWrites::new(from, last, workers, &self.undo)
    }

    /// The same, but that the net changes of each of the blocks are told by
    /// [`Store::finish_each`]: a version of each row is kept for each block that changed it.
    /// Nothing that was written may be undone.
    pub fn begin_each_block(&self, first: Height, last: Height, workers: usize) -> BlockWrites {
        let mut writes = self.begin_blocks(first, last, workers);
        writes.tell_each();
        writes
    }

    /// Closes blocks that were begun by [`Store::begin_each_block`]. Those that changed nothing are
    /// not among the result, which comes in the order of heights.
    pub fn finish_each(&self, mut blocks: BlockWrites) -> Vec<Changes> {
        let touched = blocks.take_touched_blocks();
        let pins: Vec<_> = touched.keys().map(|height| self.pins_of_changes(*height)).collect();
        self.close(blocks);
        let changes =
            |((height, touched), pins)| Changes::new(height, pins, self.catalog(), touched);
        touched.into_iter().zip(pins).map(changes).collect()
    }

    /// Closes a block. Its net changes can be read as long as the result lives.
    pub fn finish(&self, block: BlockWrites) -> Changes {
        let height = block.height();
        let pins = self.pins_of_changes(height);
        let touched = self.close(block);
        Changes::new(height, pins, self.catalog(), touched)
    }

    /// To be taken before the block is closed, that no collection comes between.
    fn pins_of_changes(&self, height: Height) -> ChangesPins {
        ChangesPins { _before: self.pins.pin_newest(), _unreported: self.unreported.pin(height) }
    }

    /// Takes back a block that has written nothing: its height is free again.
    ///
    /// # Panics
    /// If it has.
    pub fn withdraw(&self, block: BlockWrites) {
        let (touched, garbage) = block.close(&self.current.load());
        assert!(touched.is_empty() && garbage.is_empty(), "a block that was written is withdrawn");
        *self.writing.lock() = None;
    }

    /// Closes a block without telling its net changes.
    pub fn finish_unread(&self, block: BlockWrites) {
        self.close(block);
    }

    fn close(&self, block: BlockWrites) -> Vec<Touched> {
        let height = block.height();
        let (touched, garbage) = block.close(&self.current.load());
        self.feed.close(height, &touched);
        if !garbage.is_empty() {
            self.garbage.lock().push(height, garbage);
        }
        *self.writing.lock() = None;
        touched
    }

    /// Makes a finished block the newest snapshot.
    pub fn publish(&self, height: Height) {
        let catalog = self.catalog();
        let mut published = self.published.lock();
        let same = published.values().next_back().is_some_and(|last| Arc::ptr_eq(last, &catalog));
        if !same {
            let before = published.values().next_back();
            self.gone.lock().extend(before.into_iter().flat_map(|c| c.tables_not_in(&catalog)));
            published.insert(height, catalog.clone());
            self.newest_catalog.store(Arc::new((height, catalog)));
        }
        self.pins.publish(height);
    }

    /// Which records the blocks touch, for those who keep copies of rows.
    pub fn feed(&self) -> &ChangeFeed {
        &self.feed
    }

    /// From now on [`bring_copies`](Self::bring_copies) tells these, as long as they live.
    pub fn keep_copies(&self, copies: Weak<dyn Copies>) {
        self.copies.store(Some(Arc::new(copies)));
    }

    /// Gives copies of rows their turn: for the thread that has published a block, once no client
    /// waits for it.
    pub fn bring_copies(&self) {
        let copies = self.copies.load();
        if let Some(copies) = copies.as_ref().and_then(|copies| copies.upgrade()) {
            copies.bring();
        }
    }

    /// Highest block that snapshots can be taken at.
    pub fn newest(&self) -> Height {
        self.pins.newest()
    }

    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(Hold::Own(self.pins.pin_newest()))
    }

    /// The snapshot at a height; `None` if what it would show may have been collected.
    pub fn snapshot_at(&self, height: Height) -> Option<Snapshot> {
        let pin = (height <= self.newest()).then(|| self.pins.pin(height))??;
        Some(self.snapshot_of(Hold::Own(pin)))
    }

    /// The newest snapshot, for a reader that asks [`Snapshot::check`] before it hands on what it
    /// has read: the store may end it when memory runs short.
    pub fn lease(&self) -> Snapshot {
        self.snapshot_of(Hold::Own(self.pins.lease_newest()))
    }

    /// The same at a height that is retained, or young enough that nothing of it was collected.
    pub fn lease_at(&self, height: Height) -> Option<Snapshot> {
        if height > self.newest() {
            return None;
        }
        let own = || self.pins.lease(height).map(Hold::Own);
        let hold = self.pins.retained(height).map(Hold::Shared).or_else(own)?;
        Some(self.snapshot_of(hold))
    }

    /// Keeps a height for [`Store::lease_at`] until it is released or ended. Whether it could be
    /// read still.
    pub fn retain(&self, height: Height) -> bool {
        height <= self.newest() && self.pins.retain(height)
    }

    /// Keeps the height of a lease in the same way. Whether it could be: it is shared, or young.
    pub fn retain_snapshot(&self, snapshot: &Snapshot) -> bool {
        match &snapshot.hold {
            Hold::Shared(pin) => self.pins.retain_shared(pin),
            Hold::Own(pin) => self.pins.retain(pin.height()),
        }
    }

    pub fn release(&self, height: Height) {
        self.pins.release(height);
    }

    /// In ascending order.
    pub fn retained(&self) -> Vec<Height> {
        self.pins.retained_heights()
    }

    /// From this height on nothing was collected yet.
    pub fn complete_from(&self) -> Height {
        self.pins.floor()
    }

    /// Ends the leases of the lowest height below `limit` that has some, and retains it no longer.
    pub fn end_oldest_leases(&self, limit: Height) -> Option<Height> {
        self.pins.end_oldest_leases(limit)
    }

    fn snapshot_of(&self, hold: Hold) -> Snapshot {
        let newest = self.newest_catalog.load();
        let height = hold.pin().height();
        let catalog = if newest.0 <= height {
            newest.1.clone()
        } else {
            let published = self.published.lock();
            let catalog = published.range(..=height).next_back();
            catalog.map(|(_, catalog)| catalog.clone()).unwrap_or_default()
        };
        Snapshot { hold, catalog }
    }

    /// Recycles what is seen at no height that is read; a no-op while a block is written. Its work
    /// is in proportion to what was written since the last one.
    pub fn collect(&self) -> Collected {
        let writing = self.writing.lock();
        if writing.is_some() {
            return Collected::default();
        }
        let readable = self.pins.readable(self.unreported.heights());
        let unreported = self.unreported.lowest().unwrap_or(Height::MAX);
        let index_entries_and_records = self.collect_garbage(&readable);
        let undo_chunks = self.undo.collect(&readable, unreported);
        self.gone.lock().retain(|table| table.strong_count() > 0);
        let mut published = self.published.lock();
        let heights: Vec<Height> = published.keys().copied().collect();
        for (from, to) in heights.iter().zip(&heights[1..]) {
            if readable.witness(*from, *to).is_none() {
                published.remove(from);
            }
        }
        Collected { horizon: readable.horizon(), undo_chunks, index_entries_and_records }
    }

    fn collect_garbage(&self, readable: &Readable) -> usize {
        let mut garbage = self.garbage.lock();
        garbage.wake(readable);
        let catalog = self.current.load();
        let (mut count, at_once) = (0, garbage.at_once());
        while count < at_once
            && let Some((_, items)) = garbage.due.pop_front_if(|(at, _)| *at <= readable.newest())
        {
            count += items.len();
            for item in items {
                let table = catalog.table(item.table);
                let table = table.filter(|t| t.records.incarnation == item.incarnation);
                if let Some(witness) = table.and_then(|table| table.collect(&item, readable)) {
                    garbage.park(witness, item);
                }
            }
        }
        count
    }

    /// Bytes of the tables and of what older snapshots see of them, free places left out.
    pub fn used_bytes(&self) -> u64 {
        self.current_bytes() + self.gone_bytes()
    }

    /// The same without tables that are gone.
    pub fn current_bytes(&self) -> u64 {
        let catalog = self.current.load();
        let tables: u64 = catalog.tables().map(|table| table.used_bytes()).sum();
        let undo = self.undo.chunks_in_use() * UndoSpace::chunk_bytes();
        let parked = self.garbage.lock().parked_bytes();
        tables + undo + parked
    }

    /// Of tables that were dropped or written anew, and that a snapshot shows still.
    fn gone_bytes(&self) -> u64 {
        let mut gone = self.gone.lock();
        let mut bytes = 0;
        gone.retain(|table| {
            let table = table.upgrade();
            bytes += table.as_ref().map_or(0, |table| table.used_bytes());
            table.is_some()
        });
        bytes
    }

    pub fn usage(&self) -> StoreUsage {
        let heights = self.pins.heights();
        let (garbage_blocks, parked_bytes) = {
            let garbage = self.garbage.lock();
            (garbage.due.len(), garbage.parked_bytes())
        };
        StoreUsage {
            undo_bytes: self.undo.chunks_in_use() * UndoSpace::chunk_bytes(),
            undo_free_bytes: self.undo.chunks_free() * UndoSpace::chunk_bytes(),
            parked_bytes,
            gone_bytes: self.gone_bytes(),
            undo_unswept_bytes: self.undo.chunks_unswept() as u64 * UndoSpace::chunk_bytes(),
            garbage_blocks,
            snapshots: heights.len(),
            snapshots_retained: self.pins.retained_heights().len(),
            oldest_snapshot: heights.into_iter().min(),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Store::new()
    }
}
