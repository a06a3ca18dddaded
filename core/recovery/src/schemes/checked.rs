//! From the rows of some blocks to a state that their headers vouch for, nothing executed.
//!
//! The rows that a block left, and what was there before it, are all that its effects root covers:
//! key, hash of the image before, hash of the image after, height of the change before. So roots
//! can be told from a row log and the state that it begins at, before anything is written:
//!
//! ```text
//!   records ─► to the worker of their key ─► by height: hash, hash before ─► roots by block
//!                                                          compared by the caller │
//!                               newest image of each key ◄── install ◄────────────┘
//! ```
//!
//! This is LLR-P ([`recover`](super::recover)) with the check in the middle. Physical records are
//! recovered in the same way: storage gives places itself, so those of the log say nothing more.
//! The place of the writer in its block is in a row's stamp but not in the root; what vouches for
//! it is the frame, which names the very block that it was written with, and its checksum.
//!
//! *Cost*, beside that of LLR-P: three hashes a record, of its image, of its effect and a node of
//! the tree; memory for a part, whose size the caller decides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::WorkerPool;
use kit::sync::lock;
use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
use ledger::{EffectsDigest, Hash};
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Store, UndoArena};
use types::{Error, Height, Key, Result, SqlState, TableId};

use super::Scheme;
use super::records::Record;
use super::streams::Frame;

/// The rows of blocks that follow each other, with the effects that they come to.
pub struct Part {
    scheme: Scheme,
    first: Height,
    last: Height,
    frames: Arc<Vec<Frame>>,
    /// By worker: the newest record of each of its keys.
    newest: Arc<Vec<Vec<At>>>,
    /// In the order of heights, one for each block.
    pub effects: Vec<EffectsDigest>,
}

/// Where a record lies.
#[derive(Clone, Copy)]
struct At {
    height: Height,
    frame: usize,
    offset: usize,
}

struct Shuffled {
    table: TableId,
    key: Key,
    at: At,
}

/// A row as a block found it: the image's hash, and the height of its last change.
type Before = (Option<Hash>, Height);

/// One effect, of the block at an index.
struct Leaf {
    table: TableId,
    key: Key,
    before: Before,
    after: Option<Hash>,
}

struct Shared {
    scheme: Scheme,
    first: Height,
    frames: Arc<Vec<Frame>>,
    catalog: Arc<Catalog>,
    workers: usize,
    next: AtomicUsize,
    shuffled: Vec<Mutex<Vec<Shuffled>>>,
    /// By worker, by block.
    leaves: Vec<Mutex<Vec<Vec<Leaf>>>>,
    newest: Vec<Mutex<Vec<At>>>,
    effects: Vec<Mutex<EffectsDigest>>,
    failed: Mutex<Option<Error>>,
}

impl Part {
    /// Reads the frames of the blocks from `first` to `last`, of which the store's newest snapshot
    /// is the state before. Changes nothing.
    pub fn read(
        scheme: Scheme,
        (first, last): (Height, Height),
        frames: Vec<Frame>,
        store: &Store,
        pool: &WorkerPool,
    ) -> Result<Part> {
        let frames = Arc::new(frames);
        let blocks = (last - first + 1) as usize;
        let workers = pool.workers();
        let leaves = || (0..blocks).map(|_| Vec::new()).collect::<Vec<Vec<Leaf>>>();
        let shared = Arc::new(Shared {
            scheme,
            first,
            frames: Arc::clone(&frames),
            catalog: store.catalog(),
            workers,
            next: AtomicUsize::new(0),
            shuffled: (0..workers).map(|_| Mutex::default()).collect(),
            leaves: (0..workers).map(|_| Mutex::new(leaves())).collect(),
            newest: (0..workers).map(|_| Mutex::default()).collect(),
            effects: (0..blocks).map(|_| Mutex::new(EffectsBuilder::new().digest())).collect(),
            failed: Mutex::default(),
        });
        for step in [Shared::shuffle, Shared::compare_images, Shared::tell_effects] {
            shared.next.store(0, Ordering::Relaxed);
            let own = Arc::clone(&shared);
            pool.run(move |worker| {
                if let Err(error) = step(&own, worker) {
                    lock(&own.failed).get_or_insert(error);
                }
            });
            if let Some(error) = lock(&shared.failed).take() {
                return Err(error);
            }
        }
        let newest = shared.newest.iter().map(|newest| std::mem::take(&mut *lock(newest)));
        let newest = Arc::new(newest.collect());
        let effects = shared.effects.iter().map(|effects| *lock(effects)).collect();
        Ok(Part { scheme, first, last, frames, newest, effects })
    }

    /// Brings the store to the state after the part. It is published.
    pub fn install(self, store: &Arc<Store>, pool: &WorkerPool) -> Result<()> {
        let Part { scheme, first, last, frames, newest, .. } = self;
        let mut writes = store.begin_blocks(first, last, pool.workers());
        let arenas = writes.take().into_iter().map(|arena| Mutex::new(Some(arena)));
        let arenas: Arc<Vec<_>> = Arc::new(arenas.collect());
        let failed = Arc::new(Mutex::new(None));
        let (own, catalog, failure) = (Arc::clone(&arenas), store.catalog(), Arc::clone(&failed));
        pool.run(move |worker| {
            if let Some(undo) = &mut *lock(&own[worker]) {
                let mut install =
                    newest[worker].iter().map(|at| install(scheme, &frames, *at, &catalog, undo));
                if let Some(error) = install.find_map(Result::err) {
                    lock(&failure).get_or_insert(error);
                }
            }
        });
        arenas.iter().filter_map(|arena| lock(arena).take()).for_each(|arena| writes.give(arena));
        store.finish_unread(writes);
        if let Some(error) = lock(&failed).take() {
            return Err(error);
        }
        store.publish(last);
        Ok(())
    }
}

impl Shared {
    fn shuffle(&self, _: usize) -> Result<()> {
        let mut mine: Vec<Vec<Shuffled>> = (0..self.workers).map(|_| Vec::new()).collect();
        loop {
            let frame = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(Frame { height, records, .. }) = self.frames.get(frame) else {
                break;
            };
            let mut rest = &records[..];
            while !rest.is_empty() {
                let at = At { height: *height, frame, offset: records.len() - rest.len() };
                let record = self.scheme.decode(&mut rest)?;
                let owner = record.owner(self.workers);
                let Record { table, key, .. } = record;
                mine[owner].push(Shuffled { table, key, at });
            }
        }
        for (owner, records) in mine.into_iter().enumerate() {
            lock(&self.shuffled[owner]).extend(records);
        }
        Ok(())
    }

    /// Goes along each key of this worker, from the state before the part.
    fn compare_images(&self, worker: usize) -> Result<()> {
        let mut records = std::mem::take(&mut *lock(&self.shuffled[worker]));
        records.sort_unstable_by_key(|record| record.at.height);
        let mut known = FxHashMap::<(TableId, Key), (Before, At)>::default();
        let mut leaves = lock(&self.leaves[worker]);
        let mut image = Vec::new();
        for Shuffled { table, key, at } in records {
            let mut rest = &self.frames[at.frame].records[at.offset..];
            let row = self.scheme.decode(&mut rest)?.row;
            let after = row.map(|(_, image)| row_image_hash(image));
            let now = ((after, after.map_or(0, |_| at.height)), at);
            let before = match known.insert((table, key.clone()), now) {
                Some((before, _)) => before,
                None => self.before_part(table, &key, &mut image)?,
            };
            let leaf = Leaf { table, key, before, after };
            leaves[(at.height - self.first) as usize].push(leaf);
        }
        *lock(&self.newest[worker]) = known.into_values().map(|(_, at)| at).collect();
        Ok(())
    }

    fn before_part(&self, table: TableId, key: &Key, image: &mut Vec<u8>) -> Result<Before> {
        let table = self.catalog.table(table).ok_or_else(|| missing(table))?;
        let Some(slot) = table.find(key.as_bytes()) else {
            return Ok((None, 0));
        };
        image.clear();
        let stamp = table.append_image(slot, LATEST, image)?;
        Ok(stamp.map_or((None, 0), |stamp| (Some(row_image_hash(image)), stamp.height())))
    }

    fn tell_effects(&self, _: usize) -> Result<()> {
        loop {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(digest) = self.effects.get(block) else {
                return Ok(());
            };
            let of_worker =
                |leaves: &Mutex<Vec<Vec<Leaf>>>| std::mem::take(&mut lock(leaves)[block]);
            let mut leaves: Vec<Leaf> = self.leaves.iter().flat_map(of_worker).collect();
            leaves.sort_unstable_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
            let mut effects = EffectsBuilder::new();
            for Leaf { table, key, before, after } in &leaves {
                effects.push(&Effect {
                    table: *table,
                    key: key.as_bytes(),
                    before: before.0,
                    after: *after,
                    previous_height: before.1,
                })?;
            }
            *lock(digest) = effects.digest();
        }
    }
}

/// Makes a row what its newest record says. No other worker is at its key.
fn install(
    scheme: Scheme,
    frames: &[Frame],
    at: At,
    catalog: &Catalog,
    undo: &mut UndoArena,
) -> Result<()> {
    let mut rest = &frames[at.frame].records[at.offset..];
    let record = scheme.decode(&mut rest)?;
    let table = catalog.table(record.table).ok_or_else(|| missing(record.table))?;
    let stamp = record.stamp(at.height);
    let live = table.find(record.key.as_bytes());
    let live = live.filter(|slot| table.stamp(*slot, LATEST).is_some());
    match (record.values(table.schema())?, live) {
        (Some(row), Some(slot)) => table.update_row(slot, &row, stamp, undo),
        (Some(row), None) => {
            table.insert(record.key.as_bytes(), &row, stamp, undo);
        }
        (None, Some(slot)) => table.delete(slot, stamp, undo),
        (None, None) => {}
    }
    Ok(())
}

fn missing(table: TableId) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the row log names an unknown table {}", table.0))
}
