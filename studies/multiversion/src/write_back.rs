//! Writes the rows that a block changed back to the product's store, at the end of the block.
//!
//! ```text
//! logs of all workers ─ renumber ─ sort, join ─► each tuple once, with its changed columns
//!                                    all workers ─► its stamp ─► its columns, or its row ─► store
//! ```
//!
//! A tuple is written once, however often the block changed it. Tuples are numbered in the order in
//! which the store's rows were loaded, so processing them by number visits both tables in order;
//! the store's records of the next tuples are prefetched.
//!
//! Log entries name tuples, not keys. If a tuple was deleted meanwhile and perhaps reused for
//! another key, its newest row is written like any other. Only deletions are logged by key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use concurrency::WorkerPool;
use storage::{BlockWrites, LATEST, Place, Store, UndoArena};
use types::{ColumnId, Key, Stamp, TableId, Value};

use crate::database::Database;
use crate::layout::ColumnSet;
use crate::renumber::Places;
use crate::table::Table;

/// A tuple in which a transaction left a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Changed {
    pub table: u32,
    pub tuple: u32,
    /// Bit n: column n; [`ALL_COLUMNS`]: that is no row of before.
    pub columns: u64,
}

pub(crate) const ALL_COLUMNS: u64 = u64::MAX;

/// A key that a transaction deleted, and the transaction.
pub(crate) type Deleted = (TableId, Key, Stamp);

/// Tuples that a worker takes at a time.
const PIECE: usize = 64;
/// Tuples whose records are fetched together.
const FETCHED: usize = 16;

/// Leaves each tuple once, with the columns of all its changes.
pub(crate) fn join(changed: &mut Vec<Changed>) {
    changed.sort_unstable();
    changed.dedup_by(|next, kept| {
        let same = (next.table, next.tuple) == (kept.table, kept.tuple);
        if same {
            kept.columns |= next.columns;
        }
        same
    });
}

struct Job {
    db: Arc<Database>,
    store: Arc<Store>,
    places: Places,
    rows: Vec<Changed>,
    next: AtomicUsize,
    arenas: Vec<Mutex<UndoArena>>,
}

/// A worker's own.
#[derive(Default)]
struct Buffers {
    found: Vec<(Place, Key)>,
    copy: Vec<u64>,
    row: Vec<Value>,
    cells: Vec<(ColumnId, Value)>,
}

/// Writes the newest row of each tuple. Nothing else is at work on the tables.
pub(crate) fn write_rows(
    db: &Arc<Database>,
    store: &Arc<Store>,
    places: Places,
    rows: Vec<Changed>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
) {
    let arenas = writes.take().into_iter().map(Mutex::new).collect();
    let (db, store) = (Arc::clone(db), Arc::clone(store));
    let count = rows.len();
    let job = Arc::new(Job { db, store, places, rows, next: AtomicUsize::new(0), arenas });
    let shared = Arc::clone(&job);
    // A row is little beside a transaction.
    pool.run_if_large(count / 4, move |worker| shared.work(worker));
    let job = Arc::into_inner(job).expect("the pool has let go of a finished job");
    for arena in job.arenas {
        writes.give(arena.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

impl Job {
    fn work(&self, worker: usize) {
        let (mut undo, mut buffers) = (lock(&self.arenas[worker]), Buffers::default());
        loop {
            let first = self.next.fetch_add(PIECE, Ordering::Relaxed);
            let Some(rest) = self.rows.get(first..) else { break };
            if rest.is_empty() {
                break;
            }
            let piece = &rest[..rest.len().min(PIECE)];
            for rows in piece.chunk_by(|a, b| a.table == b.table) {
                let id = TableId(rows[0].table);
                let Some(table) = self.store.table(id) else { continue };
                for group in rows.chunks(FETCHED) {
                    self.write(self.db.at(id.0), &table, group, &mut buffers, &mut undo);
                }
            }
        }
    }

    fn write(
        &self,
        ours: &Table,
        table: &storage::Table,
        group: &[Changed],
        buffers: &mut Buffers,
        undo: &mut UndoArena,
    ) {
        let Buffers { found, copy, row, cells } = buffers;
        found.clear();
        found.extend(group.iter().map(|changed| {
            let key = ours.key(changed.tuple);
            let place = table.place(key.as_bytes());
            table.prefetch(place);
            (place, key)
        }));
        found.iter().for_each(|(place, _)| table.prefetch_record(*place));
        for (changed, (place, key)) in group.iter().zip(found) {
            let seen = ours.newest(changed.tuple, copy);
            if !seen.exists() {
                continue;
            }
            let stamp = self.places.stamp(seen.stamp);
            if stamp != seen.stamp {
                ours.restamp(changed.tuple, stamp);
            }
            let slot = table.find_at(*place, key.as_bytes());
            match slot.filter(|slot| table.stamp(*slot, LATEST).is_some()) {
                Some(slot) if changed.columns != ALL_COLUMNS => {
                    cells.clear();
                    let columns = ColumnSet::from_bits(changed.columns);
                    cells.extend(columns.iter().map(|c| (c, ours.decode(c, seen.row, copy))));
                    table.update(slot, cells, stamp, undo);
                }
                live => {
                    row.clear();
                    let columns = 0..ours.layout.column_count() as ColumnId;
                    row.extend(columns.map(|c| ours.decode(c, seen.row, copy)));
                    match live {
                        Some(slot) => table.update_row(slot, row, stamp, undo),
                        None => drop(table.insert(key.as_bytes(), row, stamp, undo)),
                    }
                }
            }
        }
    }
}

/// Deletes what has no row any more, under the stamp of the last who deleted it.
pub(crate) fn delete_rows(
    db: &Database,
    store: &Store,
    mut deleted: Vec<Deleted>,
    undo: &mut UndoArena,
) {
    deleted.sort_unstable();
    let mut copy = Vec::new();
    for same in deleted.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)) {
        let Some((id, key, stamp)) = same.last() else { continue };
        let (Ok(ours), Some(table)) = (db.table(*id), store.table(*id)) else { continue };
        if ours.find(key).is_some_and(|tuple| ours.newest(tuple, &mut copy).exists()) {
            continue;
        }
        let slot = table.find(key.as_bytes());
        if let Some(slot) = slot.filter(|slot| table.stamp(*slot, LATEST).is_some()) {
            table.delete(slot, *stamp, undo);
        }
    }
}

fn lock(arena: &Mutex<UndoArena>) -> MutexGuard<'_, UndoArena> {
    arena.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
