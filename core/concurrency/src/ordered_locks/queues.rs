//! Builds the lock queues of a whole block at once, as wait-for edges between its transactions.
//!
//! Records are partitioned among the workers by hash. Each worker scans all lock requests in
//! transaction order and keeps, for each of its records, the last writer and the readers after it.
//! One thread then marks transactions whose predicted keys may be wrong, and adds the edges of
//! their [fences](super).

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::Catalog;
use types::TableId;

use super::Settings;
use super::points::Points;
use crate::accesses::{Accesses, Declared, KeyAccess, Tables};
use crate::execution_path::ExecutionPath;
use crate::pool::WorkerPool;
use crate::work::Work;

/// What a lock is on: a record, or the rows that a transaction adds to a table under hidden ids.
/// A hash: two records with one id wait for each other in vain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(u64);

impl LockId {
    pub fn of_key(access: &KeyAccess) -> LockId {
        LockId(mix(access.record.0 ^ u64::from(access.table.0) << 48))
    }

    pub fn of_append(table: TableId, at: u32) -> LockId {
        LockId(mix(u64::from(table.0) << 32 | u64::from(at)) ^ 1)
    }

    /// Which of so many workers the record belongs to.
    pub fn shard(self, shards: usize) -> usize {
        (((self.0 >> 32) * shards as u64) >> 32) as usize
    }
}

fn mix(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ (product >> 64) as u64
}

/// What the workers need to know of all transactions.
pub struct Requests {
    pub declared: Vec<Declared>,
    pub points: Points,
    pub settings: Settings,
    /// Predictions are of the state before the first transaction.
    pub fresh: bool,
}

/// More locks than these are not queued one by one: each of a block's transactions may have read a
/// table that another fills, so there may be as many as the two have transactions and rows in
/// product.
const LOCKS_MAX: usize = 1 << 24;

impl Requests {
    /// `Err`: better one by one, since there are too many locks to queue.
    pub fn of(
        declared: Vec<Declared>,
        works: &[Arc<Work>],
        catalog: &Catalog,
        settings: Settings,
        fresh: bool,
    ) -> Result<Arc<Requests>, ExecutionPath> {
        let points = Points::of(&declared, works, catalog);
        let mut locks: usize = 0;
        for accesses in declared.iter().filter_map(Declared::accesses) {
            let in_ranges = accesses.ranges.iter().map(|range| points.count(range));
            let all = in_ranges.fold(accesses.keys.len(), usize::saturating_add);
            locks = locks.saturating_add(all);
        }
        match locks > LOCKS_MAX {
            true => Err(ExecutionPath::SerialChained),
            false => Ok(Arc::new(Requests { declared, points, settings, fresh })),
        }
    }
}

/// Who waits for whom, and who may have to be postponed.
#[derive(Default)]
pub struct Queues {
    pub edges: Vec<Vec<(u32, u32)>>,
    /// By place: what was foretold may be wrong.
    pub fenced: Vec<bool>,
}

/// The end of a queue: the last writer and the readers after it.
#[derive(Default)]
struct Tail {
    writer: Option<u32>,
    readers: SmallVec<[u32; 2]>,
}

/// One worker's part.
#[derive(Default)]
struct Shard {
    edges: Vec<(u32, u32)>,
    /// Predicted transactions that touch what an earlier one writes.
    suspects: Vec<u32>,
}

impl Queues {
    pub fn of(requests: &Arc<Requests>, works: &[Arc<Work>], pool: &WorkerPool) -> Queues {
        let shards = pool.workers();
        let done: Arc<Vec<Mutex<Shard>>> =
            Arc::new((0..shards).map(|_| Mutex::default()).collect());
        let job = (Arc::clone(requests), Arc::clone(&done));
        pool.run(move |worker| {
            let (requests, done) = &job;
            let shard = lay_out(requests, worker, shards);
            *done[worker].lock().unwrap_or_else(|e| e.into_inner()) = shard;
        });
        let mut queues = Queues { edges: Vec::new(), fenced: vec![false; requests.declared.len()] };
        for shard in done.iter() {
            let shard = std::mem::take(&mut *shard.lock().unwrap_or_else(|e| e.into_inner()));
            queues.edges.push(shard.edges);
            shard.suspects.iter().for_each(|&at| queues.fenced[at as usize] = true);
        }
        queues.fence(requests, works);
        queues
    }

    /// Transactions of which not all is known hold up those that come later to one of their tables.
    fn fence(&mut self, requests: &Requests, works: &[Arc<Work>]) {
        let trusted = |declared: &Declared| matches!(declared, Declared::Planned(_));
        if requests.declared.iter().all(trusted) {
            return;
        }
        let mut last: FxHashMap<TableId, u32> = FxHashMap::default();
        let mut tables = Tables::default();
        let mut edges = Vec::new();
        for (at, (declared, work)) in requests.declared.iter().zip(works).enumerate() {
            let touched: SmallVec<[TableId; 8]> = match declared {
                Declared::Planned(accesses) => accesses.tables().collect(),
                Declared::Predicted(_) | Declared::Unknown => tables.of(work),
            };
            let mut waits: SmallVec<[u32; 4]> =
                touched.iter().filter_map(|table| last.get(table).copied()).collect();
            waits.sort_unstable();
            waits.dedup();
            edges.extend(waits.iter().map(|&before| (before, at as u32)));
            let suspect = match declared {
                Declared::Planned(_) => false,
                Declared::Predicted(_) => !requests.fresh || !waits.is_empty() || self.fenced[at],
                Declared::Unknown => true,
            };
            self.fenced[at] = suspect;
            if suspect && requests.settings.fences {
                last.extend(touched.iter().map(|&table| (table, at as u32)));
            }
        }
        self.edges.push(edges);
    }
}

fn lay_out(requests: &Requests, shard: usize, shards: usize) -> Shard {
    let mut tails: FxHashMap<LockId, Tail> = FxHashMap::default();
    let mut out = Shard::default();
    for (at, declared) in requests.declared.iter().enumerate() {
        let Some(accesses) = declared.accesses() else {
            continue;
        };
        let mut suspect = false;
        each_lock(requests, accesses, at as u32, |id, exclusive| {
            if id.shard(shards) == shard {
                let tail = tails.entry(id).or_default();
                suspect |= tail.writer.is_some_and(|writer| writer != at as u32);
                tail.enqueue(at as u32, exclusive, &mut out.edges);
                if !requests.settings.writers_wait_for_readers {
                    tail.readers.clear();
                }
            }
        });
        if suspect && matches!(declared, Declared::Predicted(_)) {
            out.suspects.push(at as u32);
        }
    }
    out
}

fn each_lock(
    requests: &Requests,
    accesses: &Accesses,
    at: u32,
    mut lock: impl FnMut(LockId, bool),
) {
    let Settings { shared_locks, range_locks, .. } = requests.settings;
    for access in accesses.keys.iter().filter(|access| access.writes || shared_locks) {
        lock(LockId::of_key(access), access.writes);
    }
    for range in accesses.ranges.iter().filter(|_| range_locks) {
        requests.points.each(range, |id| lock(id, false));
    }
    for &table in &accesses.appends {
        lock(LockId::of_append(table, at), true);
    }
}

impl Tail {
    fn enqueue(&mut self, at: u32, exclusive: bool, edges: &mut Vec<(u32, u32)>) {
        if self.writer == Some(at) {
            return;
        }
        match (exclusive, self.readers.is_empty()) {
            // They wait for the last writer themselves.
            (true, false) => {
                let others = self.readers.iter().filter(|&&reader| reader != at);
                edges.extend(others.map(|&reader| (reader, at)));
                // Its own shared lock may be the only one.
                if self.readers.as_slice() == [at] {
                    edges.extend(self.writer.map(|writer| (writer, at)));
                }
            }
            _ if self.readers.last() == Some(&at) => return,
            _ => edges.extend(self.writer.map(|writer| (writer, at))),
        }
        match exclusive {
            true => {
                self.writer = Some(at);
                self.readers.clear();
            }
            false => self.readers.push(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(requests: &[(u32, bool)]) -> Vec<(u32, u32)> {
        let (mut tail, mut edges) = (Tail::default(), Vec::new());
        requests.iter().for_each(|&(at, exclusive)| tail.enqueue(at, exclusive, &mut edges));
        edges
    }

    /// Each of so many transactions has read a table of which each of them writes a row.
    #[test]
    fn too_many_locks_are_not_queued() {
        use std::ops::Bound;

        use procedure::access::Range;
        use types::Key;

        let request = |count: usize| {
            let declared = (0..count).map(|at| {
                let key = KeyAccess::new(TableId(1), Key::from_int(at as i64), true);
                let (low, high) = (Bound::Unbounded, Bound::Unbounded);
                let range = Range { table: TableId(1), index: 0, low, high, reverse: false };
                let (keys, ranges) = (vec![key], vec![range]);
                Declared::Planned(Accesses { keys, ranges, ..Accesses::default() })
            });
            let store = crate::phantoms::tests::store();
            let settings = Settings::default();
            Requests::of(declared.collect(), &[], &store.catalog(), settings, true).map(drop)
        };
        assert_eq!(request(1 << 10), Ok(()));
        assert_eq!(request(1 << 12), Err(ExecutionPath::SerialChained));
    }

    #[test]
    fn readers_of_one_record_do_not_wait_for_each_other() {
        let queue = [(0, true), (1, false), (2, false), (3, true), (4, false)];
        assert_eq!(edges(&queue), [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
    }

    #[test]
    fn a_transaction_does_not_wait_for_itself() {
        assert_eq!(edges(&[(0, true), (0, false), (0, true)]), []);
        assert_eq!(edges(&[(0, false), (0, false), (0, true), (1, false)]), [(0, 1)]);
        assert_eq!(edges(&[(0, false), (1, false), (1, true)]), [(0, 1)]);
        let upgraded_alone = edges(&[(0, true), (1, false), (1, true)]);
        assert!(upgraded_alone.iter().all(|&edge| edge == (0, 1)));
        assert!(!upgraded_alone.is_empty());
    }
}
