//! Rule 2 and coalescence: fold each record's commands in serial order, then write each record
//! once.
//!
//! Blind updates cannot fail any more, and of several the last assignment to a column is what
//! stays: they are written without a look at the row. Everything else is folded before anything is
//! written, since a command may fail on the value that it meets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::arenas::Arenas;
use concurrency::install::{Fold, Patch, Resolved, resolve};
use concurrency::{Block, PendingWrite, WorkerPool};
use smallvec::SmallVec;
use storage::{BlockWrites, Table, UndoArena};
use types::{ColumnId, Position, Stamp, Stop, Value};

use super::edges::{Entry, Shard, Touched, run_from};
use super::mutant::Mutant;
use super::simulation::{Kind, Mark};

/// Records whose cache lines are on their way while one is written.
const AHEAD: usize = 8;

/// Fewer transactions are installed before another worker is awake.
const PARALLEL_MIN: usize = 64;

/// What both steps need to know.
pub struct Commit {
    pub block: Arc<Block>,
    pub touched: Arc<Touched>,
    /// By TID; [`Commit::AWAY`]: does not stay.
    pub ranks: Vec<u32>,
    pub coalescence: bool,
    /// Nothing is folded: transactions that need it cannot stay.
    pub gives_up: bool,
    pub mutant: Option<Mutant>,
}

/// A record's final write, by the head of its chain.
struct Folded {
    head: u32,
    resolved: Resolved,
}

/// The folds of all records that need one, by shard.
#[derive(Default)]
pub struct Folds {
    shards: Vec<Vec<Folded>>,
    /// Transactions that cannot stay: a command failed on a record that they write.
    pub failed: Vec<Position>,
}

#[derive(Default)]
struct FoldedShard {
    folded: Vec<Folded>,
    failed: Vec<Position>,
    halt: Option<String>,
}

/// A record's surviving writers in serial order.
type Survivors = SmallVec<[(u32, Entry); 4]>;

impl Commit {
    pub const AWAY: u32 = u32::MAX;

    pub fn ranks(order: &[Position], count: usize) -> Vec<u32> {
        let mut ranks = vec![Commit::AWAY; count];
        for (rank, &tid) in order.iter().enumerate() {
            debug_assert_eq!(ranks[tid as usize], Commit::AWAY, "a survivor has one rank");
            ranks[tid as usize] = rank as u32;
        }
        ranks
    }

    /// The first step, which changes nothing.
    pub fn fold(self: &Arc<Self>, pool: &WorkerPool) -> Result<Folds, String> {
        if self.touched.simulation.is_blind() {
            return Ok(Folds::default());
        }
        let count = self.touched.shards.len();
        let done: Vec<_> = (0..count).map(|_| Mutex::new(FoldedShard::default())).collect();
        let shared = Arc::new((done, AtomicUsize::new(0)));
        let job = (Arc::clone(&shared), Arc::clone(self));
        run_from(pool, self.ranks.len(), PARALLEL_MIN, move |_| {
            let ((done, next), commit) = (&*job.0, &*job.1);
            let mut scratch = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(shard) = done.get(at) else { return };
                let folded = commit.fold_shard(&commit.touched.shards[at], &mut scratch);
                *shard.lock().unwrap_or_else(|e| e.into_inner()) = folded;
            }
        });
        let mut folds = Folds::default();
        for shard in &shared.0 {
            let shard = std::mem::take(&mut *shard.lock().unwrap_or_else(|e| e.into_inner()));
            if let Some(why) = shard.halt {
                return Err(why);
            }
            folds.shards.push(shard.folded);
            folds.failed.extend(shard.failed);
        }
        Ok(folds)
    }

    fn fold_shard(&self, shard: &Shard, scratch: &mut Vec<Value>) -> FoldedShard {
        let mut done = FoldedShard::default();
        for head in shard.heads() {
            let survivors = self.survivors(shard, head);
            if !self.needs_fold(&survivors) {
                continue;
            }
            let folded = match self.gives_up {
                true => Ok(None),
                false => self.fold_record(&survivors, scratch).map(Some),
            };
            match folded {
                Ok(Some(resolved)) => done.folded.push(Folded { head, resolved }),
                Err(Stop::Halt(why)) => done.halt = Some(why),
                _ => done.failed.extend(survivors.iter().map(|(_, entry)| entry.tid)),
            }
        }
        done
    }

    fn fold_record(
        &self,
        survivors: &Survivors,
        scratch: &mut Vec<Value>,
    ) -> Result<Resolved, Stop> {
        let first = self.pending(&survivors[0].1);
        let mut fold = Fold::new(self.table(first.table)?, first.slot, scratch);
        for (_, entry) in survivors {
            fold.apply(self.pending(entry), self.now_us(entry.tid))?;
        }
        fold.finish()
    }

    fn survivors(&self, shard: &Shard, head: u32) -> Survivors {
        let ranked = shard.chain(head).map(|entry| (self.ranks[entry.tid as usize], *entry));
        let mut survivors: Survivors = ranked.filter(|(rank, _)| *rank != Commit::AWAY).collect();
        if survivors.len() > 1 {
            survivors.sort_unstable_by_key(|(rank, _)| *rank);
            match self.mutant {
                Some(Mutant::FoldsBackwards) => survivors.reverse(),
                Some(Mutant::ForgetsCommand) => drop(survivors.remove(0)),
                _ => debug_assert!(survivors.is_sorted_by_key(|(rank, _)| *rank)),
            }
        }
        survivors
    }

    fn needs_fold(&self, survivors: &Survivors) -> bool {
        survivors.iter().any(|(_, entry)| self.mark(entry).kind == Kind::Folded)
    }

    fn mark(&self, entry: &Entry) -> &Mark {
        self.touched.simulation.lane(entry.tid).mark(entry.write)
    }

    fn pending(&self, entry: &Entry) -> &PendingWrite {
        self.touched.simulation.lane(entry.tid).pending(entry.write)
    }

    fn patch(&self, entry: &Entry) -> &[(ColumnId, Value)] {
        self.touched.simulation.lane(entry.tid).patch(self.mark(entry))
    }

    fn table(&self, id: types::TableId) -> Result<&Table, Stop> {
        let table = self.touched.catalog.table(id);
        table.map(|t| &**t).ok_or_else(|| Stop::Halt("a table vanished within a block".into()))
    }

    fn now_us(&self, tid: Position) -> i64 {
        self.block.transactions[tid as usize].now_us(self.block.time_us)
    }

    fn stamp(&self, entry: &Entry) -> Stamp {
        Stamp::new(self.block.height, entry.tid)
    }

    /// The second step: write every record, each by one worker only.
    pub fn install(
        self: &Arc<Self>,
        mut folds: Folds,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
    ) -> Result<(), String> {
        folds.shards.resize_with(self.touched.shards.len(), Vec::new);
        let folds: Vec<_> = folds.shards.into_iter().map(Mutex::new).collect();
        let arenas = Arenas::of(writes);
        let shared = Arc::new((folds, AtomicUsize::new(0), Mutex::new(None)));
        let job = (Arc::clone(&shared), Arc::clone(&arenas), Arc::clone(self));
        run_from(pool, self.ranks.len(), PARALLEL_MIN, move |worker| {
            let ((folds, next, halt), commit) = (&*job.0, &*job.2);
            let mut undo = job.1.lock(worker);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(folded) = folds.get(at) else { return };
                let folded = std::mem::take(&mut *folded.lock().unwrap_or_else(|e| e.into_inner()));
                let shard = &commit.touched.shards[at];
                if let Err(stop) = commit.install_shard(shard, folded, &mut undo) {
                    *halt.lock().unwrap_or_else(|e| e.into_inner()) = Some(stop);
                }
            }
        });
        arenas.give_back(writes);
        let (.., halt) = Arc::into_inner(shared).expect("the pool has let go of a finished job");
        match halt.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(stop) => Err(format!("a fold that had succeeded failed: {stop:?}")),
            None => Ok(()),
        }
    }

    fn install_shard(
        &self,
        shard: &Shard,
        folded: Vec<Folded>,
        undo: &mut UndoArena,
    ) -> Result<(), Stop> {
        let mut ahead = shard.heads().skip(AHEAD);
        for head in shard.heads() {
            if let Some(head) = ahead.next() {
                let mark = self.mark(shard.entry(head));
                self.table(mark.table)?.prefetch_slot(mark.slot());
            }
            let survivors = self.survivors(shard, head);
            if survivors.is_empty() {
                continue;
            }
            if !self.coalescence {
                self.install_one_by_one(&survivors, undo)?;
            } else if !self.needs_fold(&survivors) {
                self.install_blind(&survivors, undo)?;
            }
        }
        if !self.coalescence {
            return Ok(());
        }
        for Folded { head, resolved } in folded {
            let survivors = self.survivors(shard, head);
            let Some((_, last)) = survivors.last() else { continue };
            let PendingWrite { table, key, .. } = self.pending(last);
            resolved.install(self.table(*table)?, key, self.stamp(last), undo);
        }
        Ok(())
    }

    /// The last assignment to each column.
    fn install_blind(&self, survivors: &Survivors, undo: &mut UndoArena) -> Result<(), Stop> {
        debug_assert!(!self.needs_fold(survivors), "a command reads what is there");
        let [earlier @ .., (_, last)] = &survivors[..] else {
            return Ok(());
        };
        let mark = self.mark(last);
        let table = self.table(mark.table)?;
        let patch = self.patch(last);
        let assigns = |patch: &[(ColumnId, Value)], column| patch.iter().any(|(c, _)| *c == column);
        let mut hidden = earlier.iter().rev().flat_map(|(_, entry)| self.patch(entry));
        if hidden.all(|(column, _)| assigns(patch, *column)) {
            table.update(mark.slot(), patch, self.stamp(last), undo);
            return Ok(());
        }
        let mut all: Patch = patch.iter().cloned().collect();
        for (column, value) in earlier.iter().rev().flat_map(|(_, entry)| self.patch(entry)) {
            if !assigns(&all, *column) {
                all.push((*column, value.clone()));
            }
        }
        table.update(mark.slot(), &all, self.stamp(last), undo);
        Ok(())
    }

    /// As if each transaction came to the record alone.
    fn install_one_by_one(&self, survivors: &Survivors, undo: &mut UndoArena) -> Result<(), Stop> {
        let mut scratch = Vec::new();
        for (_, entry) in survivors {
            let write = self.pending(entry);
            let table = self.table(write.table)?;
            let resolved = resolve(table, write, self.now_us(entry.tid), &mut scratch)?;
            resolved.install(table, &write.key, self.stamp(entry), undo);
        }
        Ok(())
    }
}
