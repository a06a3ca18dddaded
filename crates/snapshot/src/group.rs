//! The images of one row group, and how a scan gets the ones it asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::FilterBuilder;
use parking_lot::Mutex;
use smallvec::SmallVec;
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

/// After so many patched rows a zone, which each patch can only widen, is measured anew.
const PATCHED_ROWS_MAX: usize = GROUP_ROWS / 8;

/// A column as of a height.
struct Image {
    at: Height,
    array: ArrayRef,
    zone: Zone,
    /// Since the zone was measured.
    patched_rows: usize,
    /// Asked for since eviction last came by.
    used: bool,
    _charge: Charge,
}

#[derive(Default)]
pub(crate) struct Group(Mutex<State>);

#[derive(Default)]
struct State {
    dirty: DirtyRows,
    live: Option<(Height, RowSet)>,
    images: SmallVec<[(ColumnId, Image); 2]>,
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
}

/// Columns that are made from the same height on, so that each row is read once for all of them.
struct Pass {
    /// `None`: from nothing.
    base: Option<Height>,
    rows: RowSet,
    live: Option<RowSet>,
    /// Place among the columns asked for.
    places: SmallVec<[usize; 8]>,
    editors: SmallVec<[ColumnEditor; 8]>,
}

impl Group {
    pub(crate) fn new(complete_above: Height) -> Group {
        let dirty = DirtyRows::new(complete_above);
        Group(Mutex::new(State { dirty, ..State::default() }))
    }

    pub(crate) fn touch(&self, height: Height, row: usize) {
        self.0.lock().dirty.push(height, row);
    }

    /// The columns asked for, and those of them that are new in the cache.
    pub(crate) fn read(
        &self,
        request: &Request<'_>,
        charges: &Charges,
    ) -> Result<(GroupColumns, SmallVec<[ColumnId; 8]>)> {
        let mut state = self.0.lock();
        state.dirty.forget(request.complete_above);
        let (mut live, mut arrays, passes) = state.plan(request);
        let mut added = SmallVec::new();
        let mut work = ImageWork::default();
        work.reused_bytes += arrays.iter().flatten().map(bytes).sum::<u64>();
        for pass in passes {
            let patched = pass.base.map(|_| pass.rows.clone());
            let made = pass.run(request);
            // Who reads by a lease that was ended reads anything: not even an error of it counts,
            // and nobody else may find it in the cache.
            request.snapshot.check()?;
            let (pass_live, made) = made?;
            if let Some(rows) = pass_live {
                state.keep_live(request.at, &rows);
                live = Some(rows);
            }
            for (place, array) in made {
                match patched {
                    None => work.built_bytes += bytes(&array),
                    Some(_) => work.patched_bytes += bytes(&array),
                }
                let id = request.columns[place].0;
                if state.keep(id, request.at, &array, patched.as_ref(), charges) {
                    added.push(id);
                }
                arrays[place] = Some(array);
            }
        }
        let live = live.unwrap_or(RowSet::EMPTY);
        let columns = arrays.into_iter().flatten().collect();
        Ok((GroupColumns { live: Live::of(&live), columns, work }, added))
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

    /// Takes an image out of the cache, unless it was used since this last came by.
    pub(crate) fn evict(&self, column: ColumnId) -> Evicted {
        let mut state = self.0.lock();
        let Some(place) = state.images.iter().position(|(id, _)| *id == column) else {
            return Evicted::Gone;
        };
        let image = &mut state.images[place].1;
        if std::mem::take(&mut image.used) {
            return Evicted::Kept;
        }
        state.images.swap_remove(place);
        Evicted::Gone
    }
}

#[derive(PartialEq, Eq)]
pub(crate) enum Evicted {
    Gone,
    Kept,
}

type Planned = (Option<RowSet>, Vec<Option<ArrayRef>>, SmallVec<[Pass; 2]>);

impl State {
    /// What can be shared as it is, and what must be read.
    fn plan(&mut self, request: &Request<'_>) -> Planned {
        let mut passes: SmallVec<[Pass; 2]> = SmallVec::new();
        let mut live = None;
        match &mut self.live {
            Some((at, rows)) => match self.dirty.between(*at, request.at) {
                Some(dirty) if dirty.is_empty() => {
                    *at = request.at.max(*at);
                    live = Some(rows.clone());
                }
                Some(dirty) => pass(&mut passes, Some((*at, dirty))).live = Some(rows.clone()),
                None => pass(&mut passes, None).live = Some(RowSet::EMPTY),
            },
            None => pass(&mut passes, None).live = Some(RowSet::EMPTY),
        }
        let arrays = request.columns.iter().enumerate().map(|(place, (id, kind))| {
            let found = self.images.iter_mut().find(|(column, _)| column == id);
            let fresh = || (None, ColumnEditor::empty(*kind));
            let (base, editor) = match found {
                None => fresh(),
                Some((_, image)) => match self.dirty.between(image.at, request.at) {
                    Some(dirty) if dirty.is_empty() && image.is(*kind) => {
                        image.used = true;
                        image.at = request.at.max(image.at);
                        return Some(image.array.clone());
                    }
                    Some(dirty) => ColumnEditor::of(*kind, &image.array)
                        .map_or_else(fresh, |editor| (Some((image.at, dirty)), editor)),
                    None => fresh(),
                },
            };
            let pass = pass(&mut passes, base);
            pass.places.push(place);
            pass.editors.push(editor);
            None
        });
        let arrays = arrays.collect();
        (live, arrays, passes)
    }

    fn keep_live(&mut self, at: Height, rows: &RowSet) {
        if self.live.as_ref().is_none_or(|(newest, _)| *newest <= at) {
            self.live = Some((at, rows.clone()));
        }
    }

    /// The cache has the newest image that anybody asked for. Whether it is one that was not there.
    fn keep(
        &mut self,
        id: ColumnId,
        at: Height,
        array: &ArrayRef,
        patched: Option<&RowSet>,
        charges: &Charges,
    ) -> bool {
        let place = self.images.iter().position(|(column, _)| *column == id);
        if place.is_some_and(|place| self.images[place].1.at > at) {
            return false;
        }
        let charge = charges.charge(bytes(array));
        let before = place.map(|place| &self.images[place].1);
        let patch = before
            .zip(patched)
            .filter(|(before, patched)| before.patched_rows + patched.len() <= PATCHED_ROWS_MAX);
        let (zone, patched_rows) = match patch {
            Some((before, rows)) => {
                let zone = before.zone.or(Zone::over(array, rows.iter()));
                (zone, before.patched_rows + rows.len())
            }
            None => (Zone::of(array), 0),
        };
        let array = array.clone();
        let image = Image { at, array, zone, patched_rows, used: true, _charge: charge };
        match place {
            Some(place) => self.images[place].1 = image,
            None => self.images.push((id, image)),
        }
        place.is_none()
    }
}

fn bytes(array: &ArrayRef) -> u64 {
    array.get_array_memory_size() as u64
}

impl Image {
    fn is(&self, kind: Kind) -> bool {
        *self.array.data_type() == kind.arrow()
    }
}

/// The pass that begins at a height.
fn pass(passes: &mut SmallVec<[Pass; 2]>, base: Option<(Height, RowSet)>) -> &mut Pass {
    let height = base.as_ref().map(|(height, _)| *height);
    let place = passes.iter().position(|pass| pass.base == height).unwrap_or_else(|| {
        passes.push(Pass {
            base: height,
            rows: base.map_or(RowSet::ALL, |(_, dirty)| dirty),
            live: None,
            places: SmallVec::new(),
            editors: SmallVec::new(),
        });
        passes.len() - 1
    });
    &mut passes[place]
}

type Made = SmallVec<[(usize, ArrayRef); 8]>;

impl Pass {
    fn run(mut self, request: &Request<'_>) -> Result<(Option<RowSet>, Made)> {
        let ids: SmallVec<[ColumnId; 8]> =
            self.places.iter().map(|&place| request.columns[place].0).collect();
        let mut values: SmallVec<[_; 8]> = ids.iter().map(|_| request.table.gathered()).collect();
        let first = request.group * GROUP_ROWS;
        for row in self.rows.iter() {
            let slot = Slot((first + row) as u32);
            let exists = request.table.gather(slot, request.at, &ids, &mut values);
            if let Some(live) = &mut self.live {
                live.put(row, exists);
            }
            for (editor, value) in self.editors.iter_mut().zip(&values) {
                match exists {
                    true => editor.put(row, value)?,
                    false => editor.put_dead(row),
                }
            }
        }
        let arrays = self.editors.into_iter().map(ColumnEditor::finish);
        Ok((self.live, self.places.into_iter().zip(arrays).collect()))
    }
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
