//! From row logs to a state.
//!
//! | [Strategy](RowStrategy) | Who installs a row | Order |
//! |---|---|---|
//! | PLR | the decoding worker, latched; then tables and indexes are filled | any, newest wins |
//! | LLR | the decoding worker, latched, tables and indexes at once | any, newest wins |
//! | LLR-P | the worker that its key belongs to, without a latch | newest first |
//!
//! *Last writer wins.* A row's stamp says how new it is, so older images are dropped in whatever
//! order they come; a row that is gone leaves its height behind as long as recovery runs, lest an
//! older image bring it back. LLR-P (P10) shuffles records to workers by (table, key) and goes from
//! the newest to the oldest: the first image of a key is the only one that is installed.
//!
//! *Departure.* The paper's PLR puts rows back at their old places and builds indexes afterwards;
//! storage here gives places itself, so the places of the log only say which images are of one row.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use concurrency::WorkerPool;
use kit::sync::lock;
use rustc_hash::{FxHashMap, FxHashSet};
use storage::{Catalog, LATEST, Slot, Store, Table, UndoArena};
use types::{Error, Height, Key, Result, SqlState, Stamp, TableId, Value};

use super::Scheme;
use super::records::{Record, spread};
use super::streams::RowLog;
use crate::replay::{Breakdown, Replayed};

/// A way to recover from a row log.
pub struct RowStrategy {
    pub name: &'static str,
    pub about: &'static str,
    recover: fn(&Shared, usize, usize, &mut UndoArena) -> Result<()>,
    /// Steps, between which all workers wait for each other.
    steps: usize,
    /// Of the rows, which physical records alone have.
    needs_places: bool,
}

pub static ALL: &[RowStrategy] = &[
    RowStrategy {
        name: "plr",
        about: "physical, latched",
        recover: plr,
        steps: 2,
        needs_places: true,
    },
    RowStrategy {
        name: "llr",
        about: "logical, latched",
        recover: llr,
        steps: 1,
        needs_places: false,
    },
    RowStrategy {
        name: "llr-p",
        about: "logical, shuffled by key",
        recover: llr_p,
        steps: 2,
        needs_places: false,
    },
];

pub fn by_name(name: &str) -> Option<&'static RowStrategy> {
    ALL.iter().find(|strategy| strategy.name == name)
}

/// Latches, so that two workers seldom meet.
const LATCHES: usize = 1 << 10;

/// An image: how new it is, and the row, which may be gone.
type Image = (Stamp, Option<Vec<Value>>);

type Gone = FxHashMap<TableId, FxHashMap<Key, Height>>;

type Places = FxHashMap<(TableId, u32, Key), Image>;

/// What the workers share.
struct Shared {
    log: Arc<RowLog>,
    /// A row of this height or above was put there by the recovery.
    first: Height,
    catalog: Arc<Catalog>,
    workers: usize,
    /// The next frame to be taken.
    next: AtomicUsize,
    /// PLR: by place, the newest image so far of each key that was there.
    places: Vec<Mutex<Places>>,
    /// PLR, LLR: rows that are gone, and since when.
    gone: Vec<Mutex<Gone>>,
    /// LLR-P: what belongs to each worker.
    shuffled: Vec<Mutex<Vec<Shuffled>>>,
    failed: Mutex<Option<Error>>,
}

struct Shuffled {
    height: Height,
    frame: usize,
    /// Where the record begins in its frame.
    offset: usize,
    table: TableId,
    key: Key,
}

impl RowStrategy {
    /// Whether the records of a scheme hold what this way needs.
    pub fn reads(&self, scheme: Scheme) -> bool {
        !self.needs_places || scheme == Scheme::Physical
    }

    /// Brings a store to the state after the log; its newest snapshot is the state before.
    pub fn recover(
        &self,
        log: &Arc<RowLog>,
        store: &Arc<Store>,
        pool: &WorkerPool,
    ) -> std::result::Result<Replayed, String> {
        let (Some(first), Some(last)) = (log.frames.first(), log.height) else {
            return Ok(Replayed::default());
        };
        let start = Instant::now();
        let mut writes = store.begin_blocks(first.height, last, pool.workers());
        let arenas = writes.take().into_iter().map(|arena| Mutex::new(Some(arena)));
        let arenas: Arc<Vec<_>> = Arc::new(arenas.collect());
        let shared = Arc::new(Shared::new(log, store, pool.workers()));
        for step in 0..self.steps {
            shared.next.store(0, Ordering::Relaxed);
            let (shared, arenas, recover) =
                (Arc::clone(&shared), Arc::clone(&arenas), self.recover);
            pool.run(move |worker| {
                if let Some(undo) = &mut *lock(&arenas[worker])
                    && let Err(error) = recover(&shared, step, worker, undo)
                {
                    lock(&shared.failed).get_or_insert(error);
                }
            });
        }
        arenas.iter().filter_map(|arena| lock(arena).take()).for_each(|arena| writes.give(arena));
        store.finish_unread(writes);
        if let Some(error) = lock(&shared.failed).take() {
            return Err(error.to_string());
        }
        store.publish(last);
        let replayed = start.elapsed();
        let spent = Breakdown { execution: replayed, ..Breakdown::default() };
        Ok(Replayed { replayed, spent, ..Replayed::default() })
    }
}

impl Shared {
    fn new(log: &Arc<RowLog>, store: &Store, workers: usize) -> Shared {
        Shared {
            log: Arc::clone(log),
            first: log.frames.first().map_or(0, |frame| frame.height),
            catalog: store.catalog(),
            workers,
            next: AtomicUsize::new(0),
            places: (0..LATCHES).map(|_| Mutex::default()).collect(),
            gone: (0..LATCHES).map(|_| Mutex::default()).collect(),
            shuffled: (0..workers).map(|_| Mutex::default()).collect(),
            failed: Mutex::default(),
        }
    }

    /// Gives every record of the frames that this worker gets to `take`, newest frames first.
    fn each_record(
        &self,
        take: &mut dyn FnMut(usize, usize, Height, Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let frames = &self.log.frames;
        while let Some(frame) =
            frames.len().checked_sub(1 + self.next.fetch_add(1, Ordering::Relaxed))
        {
            let height = frames[frame].height;
            let all = &frames[frame].records[..];
            let mut rest = all;
            while !rest.is_empty() {
                let offset = all.len() - rest.len();
                let record = self.log.scheme.decode(&mut rest)?;
                take(frame, offset, height, record)?;
            }
        }
        Ok(())
    }

    fn values(&self, record: &Record<'_>) -> Result<Option<Vec<Value>>> {
        let table = self.catalog.table(record.table).ok_or_else(|| missing(record.table))?;
        record.values(table.schema())
    }

    /// Under the key's latch: makes a row what an image says, unless what is there is newer.
    fn install_newest(
        &self,
        id: TableId,
        key: &Key,
        height: Height,
        image: impl FnOnce() -> Result<Image>,
        undo: &mut UndoArena,
    ) -> Result<()> {
        let latch = (spread(key) as usize ^ (id.0 as usize) << 6) % LATCHES;
        let mut gone = lock(&self.gone[latch]);
        let table = self.catalog.table(id).ok_or_else(|| missing(id))?;
        let slot = table.find(key.as_bytes());
        let there = slot.and_then(|slot| table.stamp(slot, LATEST)).map(Stamp::height);
        let known = gone.get(&id).and_then(|gone| gone.get(key)).copied();
        if there.max(known).is_some_and(|newest| newest >= height) {
            return Ok(());
        }
        let image = image()?;
        if image.1.is_none() {
            gone.entry(id).or_default().insert(key.clone(), height);
        }
        install(table, key, slot, image, undo);
        Ok(())
    }
}

/// Makes a row, whose record was found, what an image says. No other worker is at this key.
fn install(table: &Table, key: &Key, slot: Option<Slot>, image: Image, undo: &mut UndoArena) {
    let live = slot.filter(|slot| table.stamp(*slot, LATEST).is_some());
    match (image, live) {
        ((stamp, Some(row)), Some(slot)) => table.update_row(slot, &row, stamp, undo),
        ((stamp, Some(row)), None) => {
            table.insert(key.as_bytes(), &row, stamp, undo);
        }
        ((stamp, None), Some(slot)) => table.delete(slot, stamp, undo),
        ((_, None), None) => {}
    }
}

/// Latched physical recovery: images to their places, then the places into tables and indexes.
fn plr(shared: &Shared, step: usize, worker: usize, undo: &mut UndoArena) -> Result<()> {
    if step == 0 {
        return shared.each_record(&mut |_, _, height, record| {
            let slot = record.slot.ok_or_else(no_place)?.0;
            let latch = (slot as usize ^ (record.table.0 as usize) << 6) % LATCHES;
            let mut places = lock(&shared.places[latch]);
            let place = (record.table, slot, record.key.clone());
            let newest = places.get(&place).map(|(stamp, _)| stamp.height());
            if newest.is_none_or(|newest| newest < height) {
                let image = (record.stamp(height), shared.values(&record)?);
                places.insert(place, image);
            }
            Ok(())
        });
    }
    for latch in (worker..LATCHES).step_by(shared.workers) {
        for ((table, _, key), image) in lock(&shared.places[latch]).drain() {
            // A key that was gone for a while may have had two places.
            shared.install_newest(table, &key, image.0.height(), || Ok(image), undo)?;
        }
    }
    Ok(())
}

/// Latched logical recovery: each image at once into its table, unless a newer one is there.
fn llr(shared: &Shared, _: usize, _: usize, undo: &mut UndoArena) -> Result<()> {
    shared.each_record(&mut |_, _, height, record| {
        let image = || Ok((record.stamp(height), shared.values(&record)?));
        shared.install_newest(record.table, &record.key, height, image, undo)
    })
}

/// Latch-free logical recovery: records to the worker of their key, who goes from the newest back.
fn llr_p(shared: &Shared, step: usize, worker: usize, undo: &mut UndoArena) -> Result<()> {
    if step == 0 {
        let mut mine: Vec<Vec<Shuffled>> = (0..shared.workers).map(|_| Vec::new()).collect();
        shared.each_record(&mut |frame, offset, height, record| {
            let owner = record.owner(shared.workers);
            let Record { table, key, .. } = record;
            mine[owner].push(Shuffled { height, frame, offset, table, key });
            Ok(())
        })?;
        for (owner, records) in mine.into_iter().enumerate() {
            lock(&shared.shuffled[owner]).extend(records);
        }
        return Ok(());
    }
    let mut records = std::mem::take(&mut *lock(&shared.shuffled[worker]));
    // They come in descending runs, one for each worker.
    records.sort_by_key(|record| std::cmp::Reverse(record.height));
    let mut gone: FxHashSet<(TableId, &Key)> = FxHashSet::default();
    for at in &records {
        let table = shared.catalog.table(at.table).ok_or_else(|| missing(at.table))?;
        let slot = table.find(at.key.as_bytes());
        let there = slot.and_then(|slot| table.stamp(slot, LATEST));
        let is_installed = there.is_some_and(|stamp| stamp.height() >= shared.first);
        if is_installed || !gone.is_empty() && gone.contains(&(at.table, &at.key)) {
            continue;
        }
        let mut rest = &shared.log.frames[at.frame].records[at.offset..];
        let record = shared.log.scheme.decode(&mut rest)?;
        let image = (record.stamp(at.height), shared.values(&record)?);
        if image.1.is_none() {
            gone.insert((at.table, &at.key));
        }
        install(table, &at.key, slot, image, undo);
    }
    Ok(())
}

fn missing(table: TableId) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the log names an unknown table {}", table.0))
}

fn no_place() -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "a logical log cannot be recovered by places")
}
