//! Rule 2 and coalescence: fold each record's commands in serial order, then write each record
//! once.

use std::sync::{Arc, Mutex};

use concurrency::install::{Fold, Resolved};
use concurrency::{Block, Crew, PendingWrite, RecordId, Simulated};
use storage::{BlockWrites, Catalog, Store};
use types::{Key, Position, Stamp, Stop, TableId, Value};

/// A record's final write.
struct Folded {
    table: TableId,
    key: Key,
    stamp: Stamp,
    resolved: Resolved,
}

/// All folds of a block, by shard.
pub struct Folds {
    shards: Vec<Vec<Folded>>,
    /// Transactions that cannot stay: a command failed on a record that they write.
    pub failed: Vec<Position>,
}

#[derive(Default)]
struct Shard {
    folded: Vec<Folded>,
    failed: Vec<Position>,
    halt: Option<String>,
}

/// One write of one surviving transaction, sortable into (record, serial order).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    table: TableId,
    record: RecordId,
    rank: Position,
    tid: Position,
    write: u32,
}

pub fn fold(
    block: &Arc<Block>,
    simulated: &Arc<Vec<Simulated>>,
    order: &[Position],
    catalog: &Arc<Catalog>,
    crew: &Crew,
) -> Result<Folds, String> {
    let count = if order.len() < 64 { 1 } else { crew.workers() };
    let shards: Arc<Vec<Mutex<Shard>>> = Arc::new((0..count).map(|_| Mutex::default()).collect());
    let job = {
        let (shards, block, simulated) =
            (Arc::clone(&shards), Arc::clone(block), Arc::clone(simulated));
        let (order, catalog) = (order.to_vec(), Arc::clone(catalog));
        move |worker: usize| {
            let shard = fold_shard(&block, &simulated, &order, &catalog, worker, count);
            *shards[worker].lock().unwrap_or_else(|e| e.into_inner()) = shard;
        }
    };
    crew.run_if_large(order.len(), job);
    let mut folds = Folds { shards: Vec::with_capacity(count), failed: Vec::new() };
    for shard in shards.iter() {
        let shard = std::mem::take(&mut *shard.lock().unwrap_or_else(|e| e.into_inner()));
        if let Some(why) = shard.halt {
            return Err(why);
        }
        folds.shards.push(shard.folded);
        folds.failed.extend(shard.failed);
    }
    folds.failed.sort_unstable();
    folds.failed.dedup();
    Ok(folds)
}

fn fold_shard(
    block: &Block,
    simulated: &[Simulated],
    order: &[Position],
    catalog: &Catalog,
    worker: usize,
    workers: usize,
) -> Shard {
    let mut entries = Vec::new();
    for (rank, &tid) in order.iter().enumerate() {
        for (at, write) in simulated[tid as usize].writes.iter().enumerate() {
            let spread = write.record.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            if !write.is_void() && spread as usize % workers == worker {
                let (table, record) = (write.table, write.record);
                entries.push(Entry {
                    table,
                    record,
                    rank: rank as Position,
                    tid,
                    write: at as u32,
                });
            }
        }
    }
    // Absent keys may share an id, so the key itself separates them.
    let write_of =
        |e: &Entry| -> &PendingWrite { &simulated[e.tid as usize].writes[e.write as usize] };
    entries.sort_unstable_by(|a, b| {
        let by_record = (a.table, a.record).cmp(&(b.table, b.record));
        by_record.then_with(|| write_of(a).key.cmp(&write_of(b).key)).then(a.rank.cmp(&b.rank))
    });
    let mut shard = Shard::default();
    let mut scratch = Vec::new();
    let same = |a: &Entry, b: &Entry| {
        (a.table, a.record) == (b.table, b.record) && write_of(a).key == write_of(b).key
    };
    for group in entries.chunk_by(same) {
        match fold_record(block, catalog, group, write_of, &mut scratch) {
            Ok(folded) => shard.folded.push(folded),
            Err(Stop::Halt(why)) => shard.halt = Some(why),
            Err(_) => shard.failed.extend(group.iter().map(|e| e.tid)),
        }
    }
    shard
}

fn fold_record<'s>(
    block: &Block,
    catalog: &Catalog,
    group: &[Entry],
    write_of: impl Fn(&Entry) -> &'s PendingWrite,
    scratch: &mut Vec<Value>,
) -> Result<Folded, Stop> {
    let (first, last) = (&group[0], &group[group.len() - 1]);
    let table = catalog
        .table(first.table)
        .ok_or_else(|| Stop::Halt("a table vanished within a block".into()))?;
    let key = &write_of(first).key;
    let mut fold = Fold::new(table, write_of(first).slot, scratch);
    for entry in group {
        let now_us = block.transactions[entry.tid as usize].now_us(block.time_us);
        fold.apply(write_of(entry), now_us)?;
    }
    Ok(Folded {
        table: first.table,
        key: key.clone(),
        stamp: Stamp::new(block.height, last.tid),
        resolved: fold.finish()?,
    })
}

/// Write every record once. Shards own disjoint records, so they may be written in parallel.
pub fn install(folds: Folds, store: &Arc<Store>, writes: &mut BlockWrites, crew: &Crew) {
    let catalog = store.catalog();
    let parallel = folds.shards.len() > 1;
    let shards = folds.shards.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
    let jobs: Vec<_> = writes
        .take()
        .into_iter()
        .zip(shards)
        .map(|(arena, folded)| Mutex::new(Some((folded.unwrap_or_default(), arena))))
        .collect();
    let jobs = Arc::new(jobs);
    let job = Arc::clone(&jobs);
    let run = move |worker: usize| {
        let Some(job) = job.get(worker) else { return };
        let mut job = job.lock().unwrap_or_else(|e| e.into_inner());
        let Some((folded, arena)) = job.as_mut() else {
            return;
        };
        for Folded { table, key, stamp, resolved } in folded.drain(..) {
            if let Some(table) = catalog.table(table) {
                resolved.install(table, &key, stamp, arena);
            }
        }
    };
    if parallel {
        crew.run(run)
    } else {
        run(0)
    }
    for job in jobs.iter() {
        let job = job.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some((_, arena)) = job {
            writes.give(arena);
        }
    }
}
