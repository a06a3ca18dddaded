//! All images of a store: which tables and groups have some, and how many bytes they may take.
//!
//! ```text
//! scan begins ─► drain the feed into the groups' dirty rows ─► group after group: read
//!                one at a time                                  any number at a time
//! ```
//!
//! Eviction is a clock: images queue up as they come into the cache; what was asked for since the
//! clock last came by gets another turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow_schema::{Schema, SchemaRef};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::parts::prefetch;
use storage::{Copies, GROUP_ROWS, Slot, Snapshot, Store, Table};
use types::{ColumnId, ColumnSchema, Height, Layout, Result, TableId};

use crate::group::{
    After, Charges, Evicted, Group, GroupColumns, ImageWork, Keeping, Request, TouchedRow,
};
use crate::kind::{Kind, field_of_kind, may_be_too_long};
use crate::zone::Zone;

/// Rows that are brought into columns after one block. What is left is for the next one.
const KEPT_ROWS_MAX: u64 = 16 << 10;

/// Images that are looked at to make room after one block.
const EVICTIONS_MAX: usize = 1 << 10;

/// Touched rows ahead of which their groups come into the cache.
const AHEAD: usize = 8;

/// The columnar images of a store's tables.
pub struct Images {
    store: Arc<Store>,
    bytes_max: u64,
    charges: Charges,
    tables: RwLock<FxHashMap<TableId, Incarnations>>,
    /// Held to drain the feed, by one at a time; the highest block that it has told.
    drain: Mutex<Height>,
    clock: Mutex<VecDeque<(Weak<Group>, ColumnId)>>,
    /// Some table's columns are kept current.
    keeps: AtomicBool,
    counts: Counts,
}

/// Since the start.
#[derive(Default)]
struct Counts {
    scans: AtomicU64,
    evicted: AtomicU64,
    built_bytes: AtomicU64,
    patched_bytes: AtomicU64,
    reused_bytes: AtomicU64,
    patched_rows: AtomicU64,
    kept_rows: AtomicU64,
}

impl Counts {
    fn add(&self, work: &ImageWork) {
        self.built_bytes.fetch_add(work.built_bytes, Ordering::Relaxed);
        self.patched_bytes.fetch_add(work.patched_bytes, Ordering::Relaxed);
        self.reused_bytes.fetch_add(work.reused_bytes, Ordering::Relaxed);
        self.patched_rows.fetch_add(work.patched_rows, Ordering::Relaxed);
    }
}

/// The tables that have had an id one after the other, as long as they have readers.
type Incarnations = SmallVec<[Arc<TableImages>; 1]>;

struct TableImages {
    incarnation: u64,
    complete_above: AtomicU64,
    groups: RwLock<Vec<Arc<Group>>>,
    /// Columns that have images are kept current.
    is_kept: AtomicBool,
    /// Groups that touched rows are to be brought into, each once.
    due: Mutex<Vec<u32>>,
}

/// For metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImageUsage {
    /// Bytes in the cache; what only running queries still hold is theirs.
    pub bytes: u64,
    pub bytes_max: u64,
    /// Since the start, as the others: tables that were opened to be read.
    pub scans: u64,
    pub evicted: u64,
    pub work: ImageWork,
    /// Rows that were brought into columns ahead of scans.
    pub kept_rows: u64,
}

/// A table as of a snapshot, to be read group by group, by any number of threads.
pub struct TableScan {
    images: Arc<Images>,
    of_table: Arc<TableImages>,
    snapshot: Arc<Snapshot>,
    table: Arc<Table>,
    groups: usize,
    numerics_as_text: bool,
    layout: Layout,
}

impl TableImages {
    fn new(incarnation: u64, complete_above: Height) -> TableImages {
        TableImages {
            incarnation,
            complete_above: AtomicU64::new(complete_above),
            groups: RwLock::default(),
            is_kept: AtomicBool::new(false),
            due: Mutex::default(),
        }
    }

    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Tells the groups which of their rows a block touched.
    fn touch(
        &self,
        height: Height,
        records: &[(TableId, Slot)],
        lowest_pin: Height,
        charges: &Charges,
    ) {
        let (mut groups, is_kept) = (self.groups.read(), self.is_kept());
        for (place, (_, slot)) in records.iter().enumerate() {
            let next = records.get(place + AHEAD).map(|(_, slot)| slot.0 as usize / GROUP_ROWS);
            if let Some(group) = next.and_then(|number| groups.get(number)) {
                prefetch(&**group);
            }
            let (number, row) = (slot.0 as usize / GROUP_ROWS, slot.0 as usize % GROUP_ROWS);
            if number >= groups.len() {
                drop(groups);
                self.group(number);
                groups = self.groups.read();
            }
            let touched = TouchedRow { height, row, is_kept, lowest_pin };
            if groups[number].touch(&touched, charges) {
                self.due.lock().push(number as u32);
            }
        }
    }

    /// The columns are kept no more.
    fn release(&self) {
        let due = std::mem::take(&mut *self.due.lock());
        due.into_iter().for_each(|number| self.group(number as usize).release());
    }

    fn group(&self, number: usize) -> Arc<Group> {
        if let Some(group) = self.groups.read().get(number) {
            return group.clone();
        }
        let mut groups = self.groups.write();
        let complete_above = self.complete_above.load(Ordering::Relaxed);
        while groups.len() <= number {
            groups.push(Arc::new(Group::new(complete_above)));
        }
        groups[number].clone()
    }
}

impl Images {
    /// Images of the store's tables that take at most so many bytes.
    pub fn new(store: Arc<Store>, bytes_max: u64) -> Images {
        Images {
            store,
            bytes_max,
            charges: Charges::default(),
            tables: RwLock::default(),
            drain: Mutex::default(),
            clock: Mutex::default(),
            keeps: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    pub fn usage(&self) -> ImageUsage {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ImageUsage {
            bytes: self.charges.bytes(),
            bytes_max: self.bytes_max,
            scans: count(&self.counts.scans),
            evicted: count(&self.counts.evicted),
            work: ImageWork {
                built_bytes: count(&self.counts.built_bytes),
                patched_bytes: count(&self.counts.patched_bytes),
                reused_bytes: count(&self.counts.reused_bytes),
                patched_rows: count(&self.counts.patched_rows),
            },
            kept_rows: count(&self.counts.kept_rows),
        }
    }

    /// A table as of a snapshot; `None` if it has none of this id.
    pub fn scan(self: &Arc<Self>, snapshot: Arc<Snapshot>, id: TableId) -> Option<TableScan> {
        let table = snapshot.table(id)?.clone();
        let of_table = self.drained(&table);
        self.counts.scans.fetch_add(1, Ordering::Relaxed);
        let layout = if of_table.is_kept() { Layout::Column } else { Layout::Row };
        let groups = table.groups();
        let (images, numerics_as_text) = (self.clone(), false);
        Some(TableScan { images, of_table, snapshot, table, groups, numerics_as_text, layout })
    }

    /// Hands the groups what blocks have touched, and finds the table's.
    fn drained(&self, table: &Table) -> Arc<TableImages> {
        let mut reported_to = self.drain.lock();
        self.store.feed().listen();
        let mut tables = self.tables.write();
        self.drain(&mut tables, &mut reported_to);
        let incarnations = tables.entry(table.id()).or_default();
        let incarnation = table.incarnation();
        if let Some(found) = incarnations.iter().find(|one| one.incarnation == incarnation) {
            return found.clone();
        }
        let of_table = Arc::new(TableImages::new(incarnation, *reported_to));
        incarnations.push(of_table.clone());
        self.look_at_layouts(&tables);
        of_table
    }

    fn drain(&self, tables: &mut FxHashMap<TableId, Incarnations>, reported_to: &mut Height) {
        let touched = self.store.feed().take();
        self.forget_dropped(tables);
        self.look_at_layouts(tables);
        for of_table in tables.values().flatten() {
            of_table.complete_above.fetch_max(touched.complete_above, Ordering::Relaxed);
        }
        *reported_to = (*reported_to).max(touched.complete_above);
        if touched.blocks.is_empty() {
            return;
        }
        let lowest_pin = self.store.pins().lowest().unwrap_or(Height::MAX);
        for block in &touched.blocks {
            *reported_to = block.height;
            for of_one in block.records.chunk_by(|a, b| a.0 == b.0) {
                for of_table in tables.get(&of_one[0].0).into_iter().flatten() {
                    of_table.touch(block.height, of_one, lowest_pin, &self.charges);
                }
            }
        }
    }

    /// Which tables' columns are kept, by the newest catalogue.
    fn look_at_layouts(&self, tables: &FxHashMap<TableId, Incarnations>) {
        let catalog = self.store.catalog();
        let mut keeps = false;
        for (&id, incarnations) in tables {
            let is_kept = catalog.layout(id) == Layout::Column;
            keeps |= is_kept;
            incarnations.iter().for_each(|one| one.is_kept.store(is_kept, Ordering::Relaxed));
        }
        self.keeps.store(keeps, Ordering::SeqCst);
    }

    /// Images of tables that are gone, or were rewritten, and that are not being scanned.
    fn forget_dropped(&self, tables: &mut FxHashMap<TableId, Incarnations>) {
        let mut is_any_gone = false;
        tables.retain(|&id, incarnations| {
            let current = self.store.table(id).map(|table| table.incarnation());
            let before = incarnations.len();
            incarnations
                .retain(|one| Some(one.incarnation) == current || Arc::strong_count(one) > 1);
            is_any_gone |= incarnations.len() < before;
            !incarnations.is_empty()
        });
        if is_any_gone {
            self.clock.lock().retain(|(group, _)| group.strong_count() > 0);
        }
    }

    /// Brings columns that are kept to a snapshot's height, group by group: [`KEPT_ROWS_MAX`] rows,
    /// and little more. The others are left for the next time, or for a scan.
    pub fn keep(&self, snapshot: &Snapshot) {
        let mut rows = 0;
        for (id, of_table) in self.due() {
            let table = snapshot.table(id).filter(|t| t.incarnation() == of_table.incarnation);
            match table.filter(|_| of_table.is_kept()) {
                Some(table) => self.keep_table(&of_table, table, snapshot, &mut rows),
                None => of_table.release(),
            }
        }
        // Also for what lists of touched rows have grown by, in groups that are not kept.
        if self.charges.bytes() > self.bytes_max
            && let Some(mut clock) = self.clock.try_lock()
        {
            self.make_room(&mut clock, EVICTIONS_MAX);
        }
    }

    /// The tables that have something to be kept, by what blocks have touched.
    fn due(&self) -> Vec<(TableId, Arc<TableImages>)> {
        let Some(mut reported_to) = self.drain.try_lock() else { return Vec::new() };
        let Some(mut tables) = self.tables.try_write() else { return Vec::new() };
        self.drain(&mut tables, &mut reported_to);
        let all = tables.iter().flat_map(|(id, all)| all.iter().map(|one| (*id, one)));
        let due = all.filter(|(_, one)| !one.due.lock().is_empty());
        due.map(|(id, one)| (id, one.clone())).collect()
    }

    fn keep_table(
        &self,
        of_table: &TableImages,
        table: &Table,
        snapshot: &Snapshot,
        rows: &mut u64,
    ) {
        let due = std::mem::take(&mut *of_table.due.lock());
        let mut left = Vec::new();
        let mut kept_rows = 0;
        for (place, &number) in due.iter().enumerate() {
            if *rows > KEPT_ROWS_MAX || snapshot.check().is_err() {
                left.extend_from_slice(&due[place..]);
                break;
            }
            let group = of_table.group(number as usize);
            let keeping = Keeping {
                table,
                group: number as usize,
                snapshot,
                complete_above: of_table.complete_above.load(Ordering::Relaxed),
            };
            let kept = group.keep(&keeping, &self.charges).unwrap_or_default();
            if kept.is_due {
                left.push(number);
            }
            // Who only looked has done something, too.
            *rows += kept.work.patched_rows.max(1);
            kept_rows += kept.work.patched_rows;
            // Rows of scans are counted on their own.
            self.counts.add(&ImageWork { patched_rows: 0, ..kept.work });
        }
        self.counts.kept_rows.fetch_add(kept_rows, Ordering::Relaxed);
        of_table.due.lock().append(&mut left);
    }

    /// Takes new images into account and makes room if they are too many.
    fn admit(&self, group: &Arc<Group>, added: &[ColumnId]) {
        if added.is_empty() && self.charges.bytes() <= self.bytes_max {
            return;
        }
        let mut clock = self.clock.lock();
        clock.extend(added.iter().map(|&id| (Arc::downgrade(group), id)));
        self.make_room(&mut clock, usize::MAX);
    }

    fn make_room(&self, clock: &mut VecDeque<(Weak<Group>, ColumnId)>, steps_max: usize) {
        // Twice round: the first takes the marks off that the second finds missing.
        for _ in 0..steps_max.min(2 * clock.len()) {
            if self.charges.bytes() <= self.bytes_max {
                return;
            }
            let Some((group, id)) = clock.pop_front() else { return };
            let Some(alive) = group.upgrade() else { continue };
            match alive.evict(id) {
                Evicted::Kept => clock.push_back((group, id)),
                Evicted::Now => _ = self.counts.evicted.fetch_add(1, Ordering::Relaxed),
                Evicted::Before => {}
            }
        }
    }
}

impl Copies for Images {
    fn bring(&self) {
        if self.keeps.load(Ordering::Relaxed) {
            self.keep(&self.store.lease());
        }
    }
}

impl TableScan {
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub fn height(&self) -> Height {
        self.snapshot.height()
    }

    /// Whether everything that was read from the table so far is what the snapshot showed when it
    /// was taken: to be asked by who reads records and not images.
    ///
    /// # Errors
    /// The snapshot was a lease and was ended.
    pub fn check(&self) -> Result<()> {
        self.snapshot.check()
    }

    /// Columns of type `numeric` without a precision, or with one of more than 38 digits, as text
    /// from now on, which every number has a place in.
    pub fn with_numerics_as_text(self) -> TableScan {
        TableScan { numerics_as_text: true, ..self }
    }

    fn kind(&self, column: &ColumnSchema) -> Kind {
        match may_be_too_long(&column.data_type) && self.numerics_as_text {
            true => Kind::NumericText,
            false => Kind::of(&column.data_type),
        }
    }

    /// Row groups; some may have no row that exists at the snapshot's height.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The schema of batches of some columns.
    pub fn schema(&self, columns: &[ColumnId]) -> SchemaRef {
        let all = &self.table.schema().columns;
        let field = |column: &ColumnSchema| field_of_kind(column, self.kind(column));
        let fields = columns.iter().map(|&id| field(&all[usize::from(id)]));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Columns of a group.
    ///
    /// # Errors
    /// A value that has no place in its column's Arrow type. The snapshot was a lease and was
    /// ended: what was read before is right.
    pub fn read(&self, group: usize, columns: &[ColumnId]) -> Result<GroupColumns> {
        let schema = self.table.schema();
        let kind = |id: &ColumnId| (*id, self.kind(&schema.columns[usize::from(*id)]));
        let columns: SmallVec<[(ColumnId, Kind); 8]> = columns.iter().map(kind).collect();
        let images = self.of_table.group(group);
        let request = Request {
            table: &self.table,
            group,
            at: self.snapshot.height(),
            snapshot: &self.snapshot,
            columns: &columns,
            complete_above: self.complete_above(),
            is_keeping: false,
            is_kept: self.of_table.is_kept(),
        };
        let mut after = After::default();
        let read = images.read(&request, &self.images.charges, &mut after);
        if after.is_due {
            self.of_table.due.lock().push(group as u32);
        }
        self.images.admit(&images, &after.added);
        let read = read?;
        self.images.counts.add(&read.work);
        Ok(read)
    }

    /// Prepares for [`read`](Self::read)s of the groups that come next, the very next one first:
    /// one step for each, so that what a step has to look at was fetched by the one before.
    pub fn prefetch(&self, next: [Option<usize>; 3]) {
        let groups = self.of_table.groups.read();
        let [rows, lists, group] = next.map(|number| groups.get(number?));
        if let Some(group) = group {
            prefetch(&**group);
        }
        if let Some(group) = lists {
            group.prefetch_lists();
        }
        if let Some((group, number)) = rows.zip(next[0]) {
            group.prefetch_rows(&self.table, number, self.snapshot.height());
        }
    }

    /// Between which values a group's column lies, where an image says so.
    pub fn zone(&self, group: usize, column: ColumnId) -> Zone {
        self.of_table.group(group).zone(column, self.snapshot.height(), self.complete_above())
    }

    /// How the table lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn complete_above(&self) -> Height {
        self.of_table.complete_above.load(Ordering::Relaxed)
    }
}
