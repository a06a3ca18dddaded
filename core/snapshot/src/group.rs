//! The column images of one row group: which exist, for which heights they are current, and how a
//! scan gets a patched one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::FilterBuilder;
use parking_lot::Mutex;
use smallvec::SmallVec;
use storage::parts::prefetch;
use storage::{GROUP_ROWS, Slot, Snapshot, Table};
use types::{ColumnId, Height, Result};

use crate::dirty::{DirtyRows, RowSet};
use crate::edit::ColumnEditor;
use crate::kind::Kind;
use crate::zone::Zone;

/// Bytes of images that are in the cache.
#[derive(Clone, Default)]
pub(crate) struct Charges(Arc<AtomicU64>);

impl Charges {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn charge(&self, bytes: u64) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { total: self.clone(), bytes }
    }
}

/// Gives its bytes back when the image leaves the cache.
struct Charge {
    total: Charges,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.total.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Records that come ahead of a read. More would push one another out again.
const PREFETCHED_ROWS_MAX: usize = 64;

/// After so many patched rows a zone, which each patch can only widen, is measured anew.
const PATCHED_ROWS_MAX: usize = GROUP_ROWS / 8;

/// What touched rows may take in a group that has nothing that they could be patched into: a scan
/// that is on its way to it will build that, and the next one shall find it of use.
const LONE_LIST_BYTES_MAX: usize = 4 << 10;

/// A column that no query has asked for while so many of its rows were patched is kept no more: to
/// build the group anew, if ever one asks again, costs less.
const IDLE_ROWS_MAX: usize = GROUP_ROWS;

/// Stands in the clock for a group of which no query has asked for more than which rows there are.
const NO_COLUMN: ColumnId = ColumnId::MAX;

/// A column as of a height.
struct Image {
    at: Height,
    kind: Kind,
    array: ArrayRef,
    zone: Zone,
    /// Since the zone was measured.
    patched_rows: usize,
    /// Patched to keep it since it was last asked for.
    idle_rows: usize,
    /// Asked for since eviction last came by.
    used: bool,
    _charge: Charge,
}

impl Image {
    fn is_wanted(&self) -> bool {
        self.idle_rows <= IDLE_ROWS_MAX
    }
}

#[derive(Default)]
pub(crate) struct Group(Mutex<State>);

#[derive(Default)]
struct State {
    dirty: DirtyRows,
    /// For the list of dirty rows.
    charge: Option<Charge>,
    /// In a box, since who only tells of touched rows does not look at it.
    live: Option<(Height, Box<RowSet>)>,
    images: SmallVec<[(ColumnId, Image); 2]>,
    /// Columns that the clock will come by for, whether they have an image just now or not.
    clocked: SmallVec<[ColumnId; 8]>,
    /// Among those to be kept.
    is_due: bool,
}

/// What a scan wants of a group.
pub(crate) struct Request<'a> {
    pub(crate) table: &'a Table,
    pub(crate) group: usize,
    pub(crate) at: Height,
    /// That of the height.
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) columns: &'a [(ColumnId, Kind)],
    /// What blocks up to this touched may not have been told.
    pub(crate) complete_above: Height,
    /// There are no readers: columns are to be kept current.
    pub(crate) is_keeping: bool,
    /// The table's columns are kept current.
    pub(crate) is_kept: bool,
}

/// What is to be done after a read.
#[derive(Default)]
pub(crate) struct After {
    /// Columns that the clock must come by for from now on, even if others could not be read.
    pub(crate) added: SmallVec<[ColumnId; 8]>,
    /// It must be kept.
    pub(crate) is_due: bool,
}

/// A row that a block has touched.
pub(crate) struct TouchedRow {
    pub(crate) height: Height,
    pub(crate) row: usize,
    /// The table's columns are kept current.
    pub(crate) is_kept: bool,
    /// No reader is below it.
    pub(crate) lowest_pin: Height,
}

/// What is wanted of a group that is kept.
pub(crate) struct Keeping<'a> {
    pub(crate) table: &'a Table,
    pub(crate) group: usize,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) complete_above: Height,
}

/// What was done to keep a group.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) work: ImageWork,
    /// It must come again.
    pub(crate) is_due: bool,
}

/// Which of a group's rows exist.
#[derive(Clone, PartialEq, Debug)]
pub enum Live {
    /// The first so many, and no other.
    Prefix(usize),
    Some(BooleanBuffer),
}

/// Columns of a group, with dead rows still in them.
pub struct GroupColumns {
    pub live: Live,
    pub columns: Vec<ArrayRef>,
    pub work: ImageWork,
}

/// Bytes of images, by how a scan came to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImageWork {
    /// From records, row by row.
    pub built_bytes: u64,
    /// Copied from an older image, with the rows that were touched since.
    pub patched_bytes: u64,
    /// As they were in the cache.
    pub reused_bytes: u64,
    /// Rows that were read to patch images, each once for all columns that needed it.
    pub patched_rows: u64,
}

/// Columns that are made from the same height on, so that each row is read once for all of them.
struct Pass {
    /// `None`: from nothing.
    base: Option<Height>,
    rows: RowSet,
    live: Option<RowSet>,
    columns: Vec<Making>,
}

/// A column on its way to a height.
struct Making {
    /// Among the columns asked for.
    place: usize,
    editor: ColumnEditor,
    was: Option<Was>,
}

/// The image that a column was until it left the cache to be patched.
struct Was {
    zone: Zone,
    patched_rows: usize,
    idle_rows: usize,
    used: bool,
}

impl Group {
    pub(crate) fn new(complete_above: Height) -> Group {
        let dirty = DirtyRows::new(complete_above);
        Group(Mutex::new(State { dirty, ..State::default() }))
    }

    /// Whether it must be kept, and was not told so before.
    pub(crate) fn touch(&self, touched: &TouchedRow, charges: &Charges) -> bool {
        let state = &mut *self.0.lock();
        let (images, live, bytes_before) = (&state.images, &state.live, state.dirty.bytes());
        let unwanted = |reaches_back_to: &dyn Fn(Height) -> bool| {
            let images = images.iter().map(|(_, image)| image.at);
            let asked_from = images.chain(live.iter().map(|(at, _)| *at));
            let lowest = asked_from.filter(|at| reaches_back_to(*at)).min();
            match lowest {
                None if bytes_before >= LONE_LIST_BYTES_MAX => touched.height,
                None => touched.lowest_pin,
                Some(at) => at.min(touched.lowest_pin),
            }
        };
        state.dirty.push(touched.height, touched.row, unwanted);
        if state.dirty.bytes() != bytes_before && !state.clocked.is_empty() {
            state.charge = None;
            state.charge = Some(charges.charge(state.dirty.bytes() as u64));
        }
        let is_wanted = || state.images.iter().any(|(_, image)| image.is_wanted());
        touched.is_kept && is_wanted() && !std::mem::replace(&mut state.is_due, true)
    }

    /// The columns asked for.
    pub(crate) fn read(
        &self,
        request: &Request<'_>,
        charges: &Charges,
        after: &mut After,
    ) -> Result<GroupColumns> {
        let mut state = self.0.lock();
        let read = state.bring(request, charges, &mut after.added);
        let is_behind = request.is_kept && state.is_behind();
        after.is_due = is_behind && !std::mem::replace(&mut state.is_due, true);
        read
    }

    /// Brings the images that there are to the snapshot's height, but for those that are not
    /// wanted. They are no more in use than they were. What would have to be built is left for a
    /// scan, and a group that is being read just now for the next time.
    ///
    /// # Errors
    /// As [`read`](Self::read); the next scan will meet the same and say so.
    pub(crate) fn keep(&self, keeping: &Keeping<'_>, charges: &Charges) -> Result<Kept> {
        let Some(mut state) = self.0.try_lock() else {
            return Ok(Kept { is_due: true, ..Kept::default() });
        };
        let to = keeping.snapshot.height();
        state.dirty.forget(keeping.complete_above);
        state.drop_unreachable();
        let columns = &keeping.table.schema().columns;
        let older = |(id, image): &&(ColumnId, Image)| {
            image.at < to && image.is_wanted() && !columns[usize::from(*id)].dropped
        };
        let columns: SmallVec<[(ColumnId, Kind); 8]> =
            state.images.iter().filter(older).map(|(id, image)| (*id, image.kind)).collect();
        state.is_due = false;
        if columns.is_empty() {
            state.is_due = state.is_behind();
            return Ok(Kept { is_due: state.is_due, ..Kept::default() });
        }
        let request = Request {
            table: keeping.table,
            group: keeping.group,
            at: to,
            snapshot: keeping.snapshot,
            columns: &columns,
            complete_above: keeping.complete_above,
            is_keeping: true,
            is_kept: true,
        };
        // Nothing is added: the clock comes by for what has an image.
        let brought = state.bring(&request, charges, &mut SmallVec::new())?;
        state.is_due = state.is_behind();
        Ok(Kept { work: brought.work, is_due: state.is_due })
    }

    /// It is not kept any more.
    pub(crate) fn release(&self) {
        self.0.lock().is_due = false;
    }

    /// Fetches where its list of touched rows ends, and what its images are reached by.
    pub(crate) fn prefetch_lists(&self) {
        let Some(state) = self.0.try_lock() else { return };
        state.dirty.prefetch();
        state.images.iter().for_each(|(_, image)| prefetch(&*image.array));
    }

    /// Lets records that the next [`read`](Self::read) has to look at come into the cache, if it
    /// follows a read at a lower height.
    pub(crate) fn prefetch_rows(&self, table: &Table, group: usize, at: Height) {
        let Some(state) = self.0.try_lock() else { return };
        let Some((read_at, _)) = state.live else { return };
        for row in state.dirty.above(read_at, at).take(PREFETCHED_ROWS_MAX) {
            table.prefetch_row(slot(group, row));
        }
    }

    /// Between which values a column lies at a height, if an image says so.
    pub(crate) fn zone(&self, column: ColumnId, at: Height, complete_above: Height) -> Zone {
        let mut state = self.0.lock();
        state.dirty.forget(complete_above);
        let found = state.images.iter().find(|(id, _)| *id == column);
        let clean = |image: &&(ColumnId, Image)| {
            state.dirty.between(image.1.at, at).is_some_and(|rows| rows.is_empty())
        };
        found.filter(clean).map_or(Zone::Unknown, |(_, image)| image.zone)
    }

    /// Takes an image out of the cache, unless it was used since this last came by, or a reader
    /// reads the group just now.
    pub(crate) fn evict(&self, column: ColumnId) -> Evicted {
        let Some(mut state) = self.0.try_lock() else { return Evicted::Kept };
        let place = state.images.iter().position(|(id, _)| *id == column);
        if place.is_some_and(|place| std::mem::take(&mut state.images[place].1.used)) {
            return Evicted::Kept;
        }
        state.clocked.retain(|id| *id != column);
        let image = place.map(|place| state.images.swap_remove(place));
        if state.images.is_empty() {
            state.live = None;
            state.dirty.give_up();
            state.charge = None;
        }
        match image {
            Some(_) => Evicted::Now,
            None => Evicted::Before,
        }
    }
}

#[derive(PartialEq, Eq)]
pub(crate) enum Evicted {
    Now,
    /// There was no image any more.
    Before,
    /// It has been used since.
    Kept,
}

type Planned = (Option<RowSet>, Vec<Option<ArrayRef>>, Vec<Pass>);

impl State {
    /// Whether an image that is to be kept lies below what was touched.
    fn is_behind(&self) -> bool {
        let is_behind = |image: &Image| image.is_wanted() && self.dirty.is_touched_above(image.at);
        self.images.iter().any(|(_, image)| is_behind(image))
    }

    /// Images from before what the list of touched rows holds: a query that asks has to build them
    /// anew.
    fn drop_unreachable(&mut self) {
        let dirty = &self.dirty;
        self.images.retain(|(_, image)| dirty.reaches_back_to(image.at));
    }

    /// The columns asked for, from images, and into them.
    fn bring(
        &mut self,
        request: &Request<'_>,
        charges: &Charges,
        added: &mut SmallVec<[ColumnId; 8]>,
    ) -> Result<GroupColumns> {
        self.dirty.forget(request.complete_above);
        let (mut live, mut arrays, passes) = self.plan(request);
        let mut work = ImageWork::default();
        work.reused_bytes += arrays.iter().flatten().map(bytes).sum::<u64>();
        for pass in passes {
            let patched = pass.base.map(|_| pass.rows.clone());
            let (pass_live, made) = pass.run(request)?;
            if let Some(rows) = pass_live {
                self.keep_live(request.at, &rows);
                live = Some(rows);
                // The clock must come by for the list of touched rows, too.
                if self.clocked.is_empty() && request.columns.is_empty() {
                    self.clocked.push(NO_COLUMN);
                    added.push(NO_COLUMN);
                }
            }
            work.patched_rows += patched.as_ref().map_or(0, |rows| rows.len() as u64);
            for made in made {
                let (place, array) = (made.place, made.array.clone());
                match patched {
                    None => work.built_bytes += bytes(&array),
                    Some(_) => work.patched_bytes += bytes(&array),
                }
                let id = request.columns[place].0;
                self.keep(request, made, patched.as_ref(), charges);
                if !self.clocked.contains(&id) {
                    self.clocked.push(id);
                    added.push(id);
                }
                arrays[place] = Some(array);
            }
        }
        let live = live.unwrap_or(RowSet::EMPTY);
        let columns = arrays.into_iter().flatten().collect();
        Ok(GroupColumns { live: Live::of(&live), columns, work })
    }

    /// What can be shared as it is, and what must be read.
    fn plan(&mut self, request: &Request<'_>) -> Planned {
        let mut passes = Vec::new();
        let mut live = None;
        match &mut self.live {
            Some((at, rows)) => match self.dirty.between(*at, request.at) {
                Some(dirty) if dirty.is_empty() => {
                    *at = request.at.max(*at);
                    live = Some((**rows).clone());
                }
                Some(dirty) => pass(&mut passes, Some((*at, dirty))).live = Some((**rows).clone()),
                None => pass(&mut passes, None).live = Some(RowSet::EMPTY),
            },
            None => pass(&mut passes, None).live = Some(RowSet::EMPTY),
        }
        let mut arrays = Vec::with_capacity(request.columns.len());
        for (place, (id, kind)) in request.columns.iter().enumerate() {
            let (base, editor, was) = match self.find(*id, *kind, request) {
                Found::Current(array) => {
                    arrays.push(Some(array));
                    continue;
                }
                Found::Older(image, dirty) => {
                    let Image { zone, patched_rows, idle_rows, used, .. } = image;
                    let was = Some(Was { zone, patched_rows, idle_rows, used });
                    let editor = ColumnEditor::of(*kind, image.array);
                    (Some((image.at, dirty)), editor, was)
                }
                Found::Newer(array, at, dirty) => {
                    (Some((at, dirty)), ColumnEditor::of(*kind, array), None)
                }
                Found::Nothing => (None, ColumnEditor::empty(*kind), None),
            };
            arrays.push(None);
            pass(&mut passes, base).columns.push(Making { place, editor, was });
        }
        (live, arrays, passes)
    }

    /// What there is of a column.
    fn find(&mut self, id: ColumnId, kind: Kind, request: &Request<'_>) -> Found {
        let at = request.at;
        let Some(place) = self.images.iter().position(|(column, _)| *column == id) else {
            return Found::Nothing;
        };
        let image = &mut self.images[place].1;
        let Some(dirty) = self.dirty.between(image.at, at) else { return Found::Nothing };
        if dirty.is_empty() && image.kind == kind {
            image.at = at.max(image.at);
            if !request.is_keeping {
                (image.used, image.idle_rows) = (true, 0);
            }
            Found::Current(image.array.clone())
        } else if image.kind != kind {
            Found::Nothing
        } else if image.at > at {
            image.used |= !request.is_keeping;
            image.idle_rows = 0;
            Found::Newer(image.array.clone(), image.at, dirty)
        } else {
            Found::Older(self.images.swap_remove(place).1, dirty)
        }
    }

    fn keep_live(&mut self, at: Height, rows: &RowSet) {
        if self.live.as_ref().is_none_or(|(newest, _)| *newest <= at) {
            self.live = Some((at, Box::new(rows.clone())));
        }
    }

    /// The cache has the newest image that was asked for.
    fn keep(
        &mut self,
        request: &Request<'_>,
        made: Made,
        patched: Option<&RowSet>,
        charges: &Charges,
    ) {
        let (id, kind) = request.columns[made.place];
        let place = self.images.iter().position(|(column, _)| *column == id);
        let older = place.map(|place| &self.images[place].1);
        if older.is_some_and(|image| image.at > request.at) {
            return;
        }
        let used = made.was.as_ref().map(|was| was.used).or(older.map(|image| image.used));
        let used = !request.is_keeping || used.unwrap_or_default();
        let idle_rows = match (&made.was, patched) {
            (Some(was), Some(rows)) if request.is_keeping => was.idle_rows + rows.len(),
            _ => 0,
        };
        let array = made.array;
        let (zone, patched_rows) = match made.was.zip(patched) {
            Some((was, rows)) if was.patched_rows + rows.len() <= PATCHED_ROWS_MAX => {
                (was.zone.or(Zone::over(&array, rows.iter())), was.patched_rows + rows.len())
            }
            _ => (Zone::of(&array), 0),
        };
        let _charge = charges.charge(bytes(&array));
        let at = request.at;
        let image = Image { at, kind, array, zone, patched_rows, idle_rows, used, _charge };
        match place {
            Some(place) => self.images[place].1 = image,
            None => self.images.push((id, image)),
        }
    }
}

/// What a group has of a column when a query asks for it.
enum Found {
    Nothing,
    /// As it was asked for.
    Current(ArrayRef),
    /// From below the height, out of the cache: without its rows, which were touched, none will
    /// want it.
    Older(Image, RowSet),
    /// From above the height, as of another.
    Newer(ArrayRef, Height, RowSet),
}

fn bytes(array: &ArrayRef) -> u64 {
    array.get_array_memory_size() as u64
}

/// The pass that begins at a height.
fn pass(passes: &mut Vec<Pass>, base: Option<(Height, RowSet)>) -> &mut Pass {
    let height = base.as_ref().map(|(height, _)| *height);
    let place = passes.iter().position(|pass| pass.base == height).unwrap_or_else(|| {
        passes.push(Pass {
            base: height,
            rows: base.map_or(RowSet::ALL, |(_, dirty)| dirty),
            live: None,
            columns: Vec::new(),
        });
        passes.len() - 1
    });
    &mut passes[place]
}

/// A column of the height that was asked for.
struct Made {
    place: usize,
    array: ArrayRef,
    was: Option<Was>,
}

impl Pass {
    fn run(mut self, request: &Request<'_>) -> Result<(Option<RowSet>, Vec<Made>)> {
        let read = self.read_rows(request);
        // Who reads by a lease that was ended reads anything: not even an error of it counts, no
        // array may be made of it, and none may find it in the cache.
        request.snapshot.check()?;
        read?;
        let made = self.columns.into_iter().map(|Making { place, editor, was }| {
            let array = editor.finish();
            Made { place, array, was }
        });
        Ok((self.live, made.collect()))
    }

    fn read_rows(&mut self, request: &Request<'_>) -> Result<()> {
        let ids: SmallVec<[ColumnId; 8]> =
            self.columns.iter().map(|column| request.columns[column.place].0).collect();
        let mut values: SmallVec<[_; 8]> = ids.iter().map(|_| request.table.gathered()).collect();
        for row in self.rows.iter() {
            let slot = slot(request.group, row);
            let exists = request.table.gather(slot, request.at, &ids, &mut values);
            if let Some(live) = &mut self.live {
                live.put(row, exists);
            }
            for (column, value) in self.columns.iter_mut().zip(&values) {
                match exists {
                    true => column.editor.put(row, value)?,
                    false => column.editor.put_dead(row),
                }
            }
        }
        Ok(())
    }
}

fn slot(group: usize, row: usize) -> Slot {
    Slot((group * GROUP_ROWS + row) as u32)
}

impl Live {
    fn of(rows: &RowSet) -> Live {
        let prefix = rows.prefix();
        if rows.len() == prefix { Live::Prefix(prefix) } else { Live::Some(rows.to_buffer()) }
    }

    pub fn count(&self) -> usize {
        match self {
            Live::Prefix(rows) => *rows,
            Live::Some(rows) => rows.count_set_bits(),
        }
    }
}

impl GroupColumns {
    /// The rows that exist, under a schema of one field per column. Without a copy where they are
    /// the first ones of the group.
    pub fn into_batch(self, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        match self.live {
            Live::Prefix(rows) => {
                let columns = self.columns.iter().map(|column| column.slice(0, rows)).collect();
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                RecordBatch::try_new_with_options(schema, columns, &options)
            }
            Live::Some(rows) => {
                let count = rows.count_set_bits();
                let filter = FilterBuilder::new(&BooleanArray::new(rows, None)).optimize().build();
                let columns = self.columns.iter().map(|column| filter.filter(column));
                let columns = columns.collect::<Result<_, _>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(count));
                RecordBatch::try_new_with_options(schema, columns, &options)
            }
        }
    }
}
