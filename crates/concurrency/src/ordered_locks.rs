//! Ordered locks: a serial order that is known in advance, carried out in parallel.
//!
//! *Idea.* The order of the transactions is fixed, so they need no validation, only that no two of
//! them that touch one record change places. Calvin (Thomson, SIGMOD 2012) does that with a lock
//! manager which grants every record's locks in the order of the sequence. A transaction's locks
//! are known before it runs, by its key plan; nobody can starve, since the first in the order
//! always runs.
//!
//! ```text
//!   TID     3        8        9        14          record   queue
//!   locks   x:W y:R  y:R      x:W      y:W           x      3:W ─► 9:W
//!                                                    y      3:R  8:R ─► 14:W
//!   waits   0        0        1        2
//!           └ ready ─┘        └ 3      └ 3, 8
//! ```
//!
//! The queues are not kept: all requests are known at once, so they are turned into a count of
//! locks that a transaction still waits for and a list of those that wait for it. Whoever finishes
//! grants, and goes on with one that became ready.
//!
//! *Barriers.* A transaction whose records do not all follow from its arguments (partial plans,
//! scans, loads, interactive commits that require ranges) runs alone, when all before it are done
//! and before any after.
//!
//! *Invariants.* The outcome is that of running one after another, whatever the number of workers.
//! Locks are hashes of keys: two keys with one hash wait for each other in vain, which costs time
//! and never an outcome.
//!
//! *Cost.* Planning is nearly as dear as running a short transaction, though it is shared among
//! the workers; so few transactions, or long chains on one hot record, are run one after another
//! at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use procedure::analysis::AccessMode;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::{BlockWrites, Catalog, Store};
use types::{Key, Position, TableId};

use crate::crew::Crew;
use crate::foresight::Plans;
use crate::pending::RecordId;
use crate::protocol::{Block, Outcome};
use crate::runner::Runner;
use crate::trial::{self, Flaw};
use crate::work::Work;

/// Fewer than these are soon done, and planning them would take nearly as long.
const TRANSACTIONS_MIN: usize = 256;

/// Fewer than these, between two barriers, are done before other workers are awake.
const PARALLEL_MIN: usize = 64;

/// Transactions that the longest chain must be outnumbered by, to be worth more than one worker.
const WIDTH_MIN: usize = 2;

/// A record to lock, and whether for writing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Lock {
    table: TableId,
    record: RecordId,
    exclusive: bool,
}

impl Lock {
    fn new(table: TableId, key: &Key, exclusive: bool) -> Lock {
        let record = RecordId::of(None, key);
        let exclusive = exclusive && !trial::flawed(Flaw::NoExclusiveLocks);
        Lock { table, record, exclusive }
    }
}

/// In order of record, each once. `None`: a barrier.
type Locks = Option<SmallVec<[Lock; 4]>>;

/// Run the transactions at `positions` as one after another in this order would. `Err`: halt.
pub fn run(
    block: &Arc<Block>,
    positions: &[Position],
    store: &Arc<Store>,
    writes: &mut BlockWrites,
    crew: &Crew,
) -> Result<Vec<Outcome>, String> {
    let catalog = store.catalog();
    if crew.workers() == 1 || positions.len() < trial::threshold(TRANSACTIONS_MIN) {
        return one_by_one(block, positions, &catalog, writes);
    }
    let locks = plan_all(block, positions, crew);
    let mut outcomes = Vec::with_capacity(positions.len());
    let (mut left, mut locks) = (positions, &*locks);
    while !left.is_empty() {
        let planned = locks.iter().take_while(|locks| locks.is_some()).count();
        let length = planned.max(1);
        let queued = Queued::of(&locks[..planned]);
        outcomes.extend(match queued.is_wide() {
            true => in_parallel(block, &left[..length], queued, &catalog, writes, crew)?,
            false => one_by_one(block, &left[..length], &catalog, writes)?,
        });
        (left, locks) = (&left[length..], &locks[length..]);
    }
    Ok(outcomes)
}

fn one_by_one(
    block: &Block,
    positions: &[Position],
    catalog: &Arc<Catalog>,
    writes: &mut BlockWrites,
) -> Result<Vec<Outcome>, String> {
    let mut runner = Runner::new(Arc::clone(catalog));
    let undo = writes.arena(0);
    positions.iter().map(|&position| runner.run_one(block, position, undo)).collect()
}

/// The locks of every transaction, planned in parallel.
fn plan_all(block: &Arc<Block>, positions: &[Position], crew: &Crew) -> Vec<Locks> {
    struct Planning {
        block: Arc<Block>,
        positions: Vec<Position>,
        next: AtomicUsize,
        locks: Vec<OnceLock<Locks>>,
    }
    let planning = Arc::new(Planning {
        block: Arc::clone(block),
        positions: positions.to_vec(),
        next: AtomicUsize::new(0),
        locks: positions.iter().map(|_| OnceLock::new()).collect(),
    });
    let job = Arc::clone(&planning);
    crew.run_if_large(positions.len(), move |_| {
        let mut planner = Planner::default();
        loop {
            let at = job.next.fetch_add(1, Ordering::Relaxed);
            let Some(&position) = job.positions.get(at) else {
                return;
            };
            let locks = planner.locks(&job.block.transactions[position as usize]);
            job.locks[at].set(locks).expect("a number is drawn once");
        }
    });
    let planning = Arc::into_inner(planning).expect("the crew has let go of a finished job");
    let locks = planning.locks.into_iter();
    locks.map(|locks| locks.into_inner().expect("every transaction is planned")).collect()
}

#[derive(Default)]
struct Planner {
    plans: Plans,
}

impl Planner {
    fn locks(&mut self, work: &Work) -> Locks {
        let mut locks = SmallVec::new();
        self.add(work, &mut locks)?;
        // The stronger of two locks on one record comes first and stays.
        locks.sort_unstable_by_key(|lock| (lock.table, lock.record, !lock.exclusive));
        locks.dedup_by_key(|lock| (lock.table, lock.record));
        Some(locks)
    }

    fn add(&mut self, work: &Work, locks: &mut SmallVec<[Lock; 4]>) -> Option<()> {
        match work {
            Work::Void(_) => Some(()),
            Work::Load(_) => None,
            Work::Interactive(transaction) => {
                if !transaction.ranges.is_empty() {
                    return None;
                }
                let rows = transaction.rows.iter();
                locks.extend(rows.map(|row| Lock::new(row.table, &row.key, false)));
                let mut writes = transaction.writes.iter();
                writes.try_for_each(|(write, _)| self.add(write, locks))
            }
            Work::Statement(statement) => {
                let plan = self.plans.of(&statement.procedure);
                if !plan.is_complete() && !trial::flawed(Flaw::NoBarriers) {
                    return None;
                }
                let accesses = plan.accesses(&statement.arguments).ok()?;
                locks.extend(accesses.keys.iter().map(|key| {
                    let exclusive = key.mode == AccessMode::Write;
                    Lock::new(key.table, &key.key, exclusive)
                }));
                (accesses.ranges.is_empty() || trial::flawed(Flaw::NoBarriers)).then_some(())
            }
        }
    }
}

/// The requests of a run of planned transactions, after all queues were laid out.
struct Queued {
    /// Locks that each still waits for.
    waits: Vec<AtomicU32>,
    /// Those to whom each gives a lock when it ends.
    heirs: Vec<SmallVec<[u32; 4]>>,
    longest_chain: usize,
}

/// The end of a record's queue: the last writer and the readers behind it.
#[derive(Default)]
struct Tail {
    writer: Option<u32>,
    readers: SmallVec<[u32; 2]>,
}

impl Queued {
    fn of(locks: &[Locks]) -> Queued {
        let mut tails: FxHashMap<(TableId, RecordId), Tail> = FxHashMap::default();
        let mut heirs = vec![SmallVec::<[u32; 4]>::new(); locks.len()];
        let mut depths = vec![1; locks.len()];
        let mut waits = Vec::with_capacity(locks.len());
        for (at, locks) in locks.iter().enumerate() {
            let mut count = 0;
            let mut wait_for = |before: u32, heirs: &mut Vec<SmallVec<[u32; 4]>>| {
                count += 1;
                heirs[before as usize].push(at as u32);
                depths[at] = depths[at].max(depths[before as usize] + 1);
            };
            for lock in locks.iter().flatten() {
                let tail = tails.entry((lock.table, lock.record)).or_default();
                let awaited = !trial::flawed(Flaw::ReadersNotAwaited);
                if lock.exclusive && !tail.readers.is_empty() && awaited {
                    // They wait for the last writer themselves.
                    tail.readers.iter().for_each(|&r| wait_for(r, &mut heirs));
                } else if let Some(writer) = tail.writer {
                    wait_for(writer, &mut heirs);
                }
                match lock.exclusive {
                    true => {
                        tail.writer = Some(at as u32);
                        tail.readers.clear();
                    }
                    false => tail.readers.push(at as u32),
                }
            }
            waits.push(AtomicU32::new(count));
        }
        Queued { waits, heirs, longest_chain: depths.into_iter().max().unwrap_or(0) }
    }

    fn is_wide(&self) -> bool {
        let count = self.waits.len();
        count >= trial::threshold(PARALLEL_MIN) && count >= self.longest_chain * WIDTH_MIN
    }
}

/// What the workers share while they run transactions.
struct Running {
    block: Arc<Block>,
    positions: Vec<Position>,
    queued: Queued,
    ready: Mutex<Ready>,
    changed: Condvar,
    outcomes: Vec<OnceLock<Outcome>>,
}

struct Ready {
    queue: VecDeque<u32>,
    /// Not yet finished.
    left: usize,
    /// A worker ended early: by a halt, or by a panic.
    stopped: Option<String>,
}

fn in_parallel(
    block: &Arc<Block>,
    positions: &[Position],
    queued: Queued,
    catalog: &Arc<Catalog>,
    writes: &mut BlockWrites,
    crew: &Crew,
) -> Result<Vec<Outcome>, String> {
    let free = |at: &u32| queued.waits[*at as usize].load(Ordering::Relaxed) == 0;
    let ready = Ready {
        queue: (0..positions.len() as u32).filter(free).collect(),
        left: positions.len(),
        stopped: None,
    };
    let running = Arc::new(Running {
        block: Arc::clone(block),
        positions: positions.to_vec(),
        queued,
        ready: Mutex::new(ready),
        changed: Condvar::new(),
        outcomes: positions.iter().map(|_| OnceLock::new()).collect(),
    });
    let arenas: Arc<Vec<_>> = Arc::new(writes.take().into_iter().map(Mutex::new).collect());
    let job = (Arc::clone(&running), Arc::clone(&arenas), Arc::clone(catalog));
    crew.run(move |worker| {
        let (running, arenas, catalog) = &job;
        let mut undo = arenas[worker].lock().unwrap_or_else(|e| e.into_inner());
        let mut runner = Runner::new(Arc::clone(catalog));
        running.work(|position| runner.run_one(&running.block, position, &mut undo));
    });
    let arenas = Arc::into_inner(arenas).expect("the crew has let go of a finished job");
    for arena in arenas {
        writes.give(arena.into_inner().unwrap_or_else(|e| e.into_inner()));
    }
    let running = Arc::into_inner(running).expect("the crew has let go of a finished job");
    if let Some(why) = running.lock().stopped.take() {
        return Err(why);
    }
    let outcomes = running.outcomes.into_iter();
    Ok(outcomes.map(|outcome| outcome.into_inner().expect("every transaction is run")).collect())
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Run what is ready until nothing is left.
    fn work(&self, mut run: impl FnMut(Position) -> Result<Outcome, String>) {
        let guard = StopOnPanic(self);
        let mut next = self.take();
        while let Some(at) = next {
            match run(self.positions[at as usize]) {
                Ok(outcome) => {
                    let fresh = self.outcomes[at as usize].set(outcome).is_ok();
                    debug_assert!(fresh, "a transaction runs once");
                    next = self.release(at);
                }
                Err(why) => {
                    self.stop(why);
                    break;
                }
            }
        }
        std::mem::forget(guard);
    }

    /// Wait for a transaction that holds all its locks; `None`: there will be none.
    fn take(&self) -> Option<u32> {
        let mut ready = self.lock();
        loop {
            if ready.left == 0 || ready.stopped.is_some() {
                return None;
            }
            if let Some(at) = ready.queue.pop_front() {
                return Some(at);
            }
            ready = self.changed.wait(ready).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Hand on the locks of a finished transaction, and take the next one: an heir, whose records
    /// are still in this core's cache, or the first that waits.
    fn release(&self, finished: u32) -> Option<u32> {
        let heirs = &self.queued.heirs[finished as usize];
        let granted: SmallVec<[u32; 4]> = heirs
            .iter()
            .copied()
            // The last to hand over acquires what all the others wrote.
            .filter(|&heir| self.queued.waits[heir as usize].fetch_sub(1, Ordering::AcqRel) == 1)
            .collect();
        let (own, others) = match granted.split_first() {
            Some((own, others)) => (Some(*own), others),
            None => (None, &[][..]),
        };
        trial::pause();
        let mut ready = self.lock();
        ready.left -= 1;
        ready.queue.extend(others);
        if ready.left == 0 || !others.is_empty() {
            self.changed.notify_all();
        }
        drop(ready);
        own.or_else(|| self.take())
    }

    fn stop(&self, why: String) {
        self.lock().stopped.get_or_insert(why);
        self.changed.notify_all();
    }
}

/// Nobody may wait for the locks of a transaction that panicked.
struct StopOnPanic<'a>(&'a Running);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop("a worker panicked".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    fn lock(record: u64, exclusive: bool) -> Lock {
        Lock { table: TableId(1), record: RecordId(record), exclusive }
    }

    fn conflict(a: &Locks, b: &Locks) -> bool {
        let b: Vec<_> = b.iter().flatten().collect();
        a.iter()
            .flatten()
            .any(|a| b.iter().any(|b| a.record == b.record && (a.exclusive || b.exclusive)))
    }

    /// Whatever the moment at which each runs: all that conflict before it are done, and everyone
    /// runs.
    #[test]
    fn conflicting_transactions_keep_their_order_and_the_others_need_not() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let records = 1 + random.below(8);
            let locks: Vec<Locks> = (0..30)
                .map(|_| {
                    let mut locks: SmallVec<[Lock; 4]> = (0..random.below(4))
                        .map(|_| lock(random.below(records), random.chance(2)))
                        .collect();
                    locks.sort_unstable_by_key(|l| (l.record, !l.exclusive));
                    locks.dedup_by_key(|l| l.record);
                    Some(locks)
                })
                .collect();
            let queued = Queued::of(&locks);
            let waits = |at: usize| queued.waits[at].load(Ordering::Relaxed);
            let mut ready: Vec<usize> = (0..30).filter(|&at| waits(at) == 0).collect();
            let mut done = [false; 30];
            while !ready.is_empty() {
                let at = ready.swap_remove(random.below(ready.len() as u64) as usize);
                for before in 0..at {
                    assert!(done[before] || !conflict(&locks[before], &locks[at]));
                }
                done[at] = true;
                for &heir in &queued.heirs[at] {
                    if queued.waits[heir as usize].fetch_sub(1, Ordering::Relaxed) == 1 {
                        ready.push(heir as usize);
                    }
                }
            }
            assert_eq!(done, [true; 30]);
        }
    }

    #[test]
    fn readers_of_one_record_do_not_wait_for_each_other() {
        let one = |exclusive| -> Locks { Some([lock(7, exclusive)].into_iter().collect()) };
        let locks = [true, false, false, true].map(one);
        let queued = Queued::of(&locks);
        let waits: Vec<_> = queued.waits.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        assert_eq!(waits, [0, 1, 1, 2]);
        assert_eq!(queued.longest_chain, 3);
    }
}
