//! Deterministic locking: executes transactions in parallel with the outcome of a given serial
//! order (Calvin; Thomson, SIGMOD 2012).
//!
//! *Idea.* The order is fixed before execution. So there is nothing to validate and nothing to
//! abort: it suffices that of two transactions with conflicting accesses the later one waits. What
//! each may access is [declared](crate::accesses) before it runs, and locks are granted on every
//! record in the given order. There is no deadlock, as transactions wait for earlier ones only.
//!
//! ```text
//!   position      3        8        9        14          record   lock queue
//!   locks         x:W y:R  y:R      x:W      y:W           x      3:W ─► 9:W
//!                                                          y      3:R  8:R ─► 14:W
//!   waits for     none     none     3        3, 8
//! ```
//!
//! *Timeline.*
//!
//! ```text
//!   declare    key plans; else a reconnaissance run on a snapshot    parallel by transaction
//!   lay out    lock requests ─► queues ─► edges between transactions parallel by record
//!   run        each transaction whose predecessors are done          parallel by transaction
//! ```
//!
//! All requests are known at once, so the queues are not kept: they become a
//! [dependency graph](crate::schedule).
//!
//! *Ranges.* A scan takes a shared lock on each declared write that may fall in its range
//! ([`points`]).
//!
//! *Predictions.* If keys depend on data, the declaration is what the transaction accessed in the
//! reconnaissance run. It is correct unless an earlier transaction writes something that this run
//! read. Reads are locked too, so the queues show whether that may be; the transaction is then a
//! *suspect*, and each of its accesses is [checked](crate::reconnaissance) against the declaration
//! before it happens. At the first one that is not covered the run is discarded, without any
//! effect, and the transaction is postponed: it runs again, unchecked, when all before it are done.
//! A transaction that could not be declared at all is postponed at once.
//!
//! *Fences.* A suspect may access more than it has locked. So every later transaction that may
//! access one of its tables waits until it is done.
//!
//! *Invariant.* The outcome is that of serial execution in the given order, for any number of
//! workers.
//!
//! *Departures from the paper.* There is no lock-manager thread: all workers build the queues
//! before anything runs. A transaction with a stale prediction does not return to the sequencer for
//! a later position; it keeps its position, so the serial order remains that of the block.
//!
//! *Cost.* Planning costs nearly as much as running a short transaction, though it is shared among
//! the workers. So blocks with few transactions or long dependency chains, and a pool with a single
//! worker, run serially without it.

pub mod points;
pub mod queues;

use std::sync::{Arc, OnceLock};

use storage::{BlockWrites, Catalog, LATEST, Store, UndoArena};
use types::{Height, Position};

use crate::accesses::{Declared, declare};
use crate::arenas::Arenas;
use crate::execution_path::{ExecutionPath, PathCounts};
use crate::pool::WorkerPool;
use crate::prefetching::{self, Prefetching};
use crate::protocol::{Block, Outcome};
use crate::reconnaissance::Held;
use crate::runner::Runner;
use crate::schedule::{Graph, Preference, Ran, Schedule, Turn};
use crate::test_mode;
use crate::work::Work;
use queues::{Queues, Requests};

/// Fewer than these are done before other workers are awake.
const TRANSACTIONS_MIN: usize = 64;

/// So many at the beginning tell whether the others are worth the planning.
const PROBE: usize = 64;

/// How to run; the flags are on but for tests of the tests.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub preference: Preference,
    /// Off where readers have versions of their own to read.
    pub writers_wait_for_readers: bool,
    pub shared_locks: bool,
    pub range_locks: bool,
    pub fences: bool,
    /// Predictions that may be stale are checked.
    pub checks: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            preference: Preference::Earliest,
            writers_wait_for_readers: true,
            shared_locks: true,
            range_locks: true,
            fences: true,
            checks: true,
        }
    }
}

impl Settings {
    /// Why so many transactions are not worth the planning; `None`: they are.
    fn spares(&self, transactions: usize, pool: &WorkerPool) -> Option<ExecutionPath> {
        match self.preference {
            Preference::Latest => None,
            _ if pool.workers() == 1 => Some(ExecutionPath::SerialOneWorker),
            _ if transactions < test_mode::threshold(TRANSACTIONS_MIN) => {
                Some(ExecutionPath::SerialFew)
            }
            _ => None,
        }
    }
}

/// Run the transactions at `positions`, ascending, as one after another in this order would, and
/// note in `paths` how that was. `Err`: halt.
pub fn run(
    block: &Arc<Block>,
    positions: &[Position],
    store: &Arc<Store>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
    paths: &mut PathCounts,
) -> Result<Vec<Outcome>, String> {
    let settings = Settings::default();
    let catalog = store.catalog();
    match declare_if_wide(block, positions, &catalog, LATEST, settings, pool) {
        Ok(declared) => {
            run_declared(block, positions, declared, true, settings, &catalog, writes, pool, paths)
        }
        Err(why) => one_by_one(block, positions, &catalog, writes, (why, paths)),
    }
}

/// What the transactions at `positions` may touch, reconnaissance running at `at`. `Err`: one by
/// one they are done sooner, since they are few or, as the first of them tell, wait for each other.
pub fn declare_if_wide(
    block: &Arc<Block>,
    positions: &[Position],
    catalog: &Arc<Catalog>,
    at: Height,
    settings: Settings,
    pool: &WorkerPool,
) -> Result<Vec<Declared>, ExecutionPath> {
    if let Some(why) = settings.spares(positions.len(), pool) {
        return Err(why);
    }
    if settings.preference == Preference::Earliest && positions.len() > 2 * PROBE {
        let first = &positions[..PROBE];
        let alone = WorkerPool::new(1);
        let declared = declare(block, first, catalog, at, &alone);
        let works = works(block, first);
        let requests = Requests::of(declared, &works, catalog, settings, true)?;
        let Queues { edges, .. } = Queues::of(&requests, &works, &alone);
        if !Graph::new(PROBE, &edges).is_wide() {
            return Err(ExecutionPath::SerialChained);
        }
    }
    Ok(declare(block, positions, catalog, at, pool))
}

fn works(block: &Block, positions: &[Position]) -> Vec<Arc<Work>> {
    positions.iter().map(|&at| Arc::clone(&block.transactions[at as usize])).collect()
}

/// As [`run`], for transactions whose accesses were declared before. `fresh`: predictions are of
/// the state that the first one meets.
#[expect(clippy::too_many_arguments, reason = "a block is run on this much")]
pub fn run_declared(
    block: &Arc<Block>,
    positions: &[Position],
    declared: Vec<Declared>,
    fresh: bool,
    settings: Settings,
    catalog: &Arc<Catalog>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
    paths: &mut PathCounts,
) -> Result<Vec<Outcome>, String> {
    let works = works(block, positions);
    let requests = match Requests::of(declared, &works, catalog, settings, fresh) {
        Ok(requests) => requests,
        Err(why) => return one_by_one(block, positions, catalog, writes, (why, paths)),
    };
    let Queues { edges, fenced } = Queues::of(&requests, &works, pool);
    let graph = Graph::new(positions.len(), &edges);
    if settings.preference == Preference::Earliest && !graph.is_wide() {
        return one_by_one(
            block,
            positions,
            catalog,
            writes,
            (ExecutionPath::SerialChained, paths),
        );
    }
    paths.add(ExecutionPath::Locked, positions.len());
    let running = Arc::new(Running {
        block: Arc::clone(block),
        positions: positions.to_vec(),
        schedule: Schedule::new(graph, settings.preference, fenced.contains(&true)),
        requests,
        fenced,
        outcomes: positions.iter().map(|_| OnceLock::new()).collect(),
    });
    running.run(catalog, writes, pool)
}

/// The transactions at `positions` one after another on this thread, and why that is.
pub fn one_by_one(
    block: &Block,
    positions: &[Position],
    catalog: &Arc<Catalog>,
    writes: &mut BlockWrites,
    (why, paths): (ExecutionPath, &mut PathCounts),
) -> Result<Vec<Outcome>, String> {
    paths.add(why, positions.len());
    let mut runner = Runner::new(Arc::clone(catalog));
    let mut prefetching = Prefetching::new(Arc::clone(catalog), positions.len());
    let undo = writes.arena(0);
    let mut outcomes = Vec::with_capacity(positions.len());
    for group in positions.chunks(prefetching::GROUP) {
        prefetching.fetch(group.iter().map(|&at| &*block.transactions[at as usize]));
        for &position in group {
            outcomes.push(runner.run_one(block, position, undo)?);
        }
    }
    Ok(outcomes)
}

/// What the workers share while they run transactions.
struct Running {
    block: Arc<Block>,
    positions: Vec<Position>,
    schedule: Schedule,
    requests: Arc<Requests>,
    fenced: Vec<bool>,
    outcomes: Vec<OnceLock<Outcome>>,
}

impl Running {
    fn run(
        self: Arc<Self>,
        catalog: &Arc<Catalog>,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
    ) -> Result<Vec<Outcome>, String> {
        let arenas = Arenas::of(writes);
        let job = (Arc::clone(&self), Arc::clone(&arenas), Arc::clone(catalog));
        pool.run(move |worker| {
            let (running, arenas, catalog) = &job;
            let mut undo = arenas.lock(worker);
            running.work(catalog, &mut undo);
        });
        arenas.give_back(writes);
        let running = Arc::into_inner(self).expect("the pool has let go of a finished job");
        if let Some(why) = running.schedule.stopped() {
            return Err(why);
        }
        let outcomes = running.outcomes.into_iter();
        Ok(outcomes.map(|one| one.into_inner().expect("every transaction is run")).collect())
    }

    fn work(&self, catalog: &Arc<Catalog>, undo: &mut UndoArena) {
        let mut runner = Runner::new(Arc::clone(catalog));
        let mut prefetching = Prefetching::new(Arc::clone(catalog), self.positions.len());
        let declared = &self.requests.declared;
        let foresee = |group: &[u32]| {
            let accesses = group.iter().filter_map(|&at| declared[at as usize].accesses());
            prefetching.fetch_keys(accesses.flat_map(|accesses| &accesses.keys));
        };
        self.schedule.work(foresee, |turn| {
            let Some(outcome) = self.turn(turn, &mut runner, undo)? else {
                return Ok(Ran::Postponed);
            };
            let fresh = self.outcomes[turn.at as usize].set(outcome).is_ok();
            debug_assert!(fresh, "a transaction runs once");
            Ok(Ran::Done)
        });
    }

    /// `None`: it touches what it has not declared.
    fn turn(
        &self,
        Turn { at, after_all }: Turn,
        runner: &mut Runner,
        undo: &mut UndoArena,
    ) -> Result<Option<Outcome>, String> {
        let position = self.positions[at as usize];
        let requests = &self.requests;
        if after_all || !self.fenced[at as usize] || !requests.settings.checks {
            return runner.run_one(&self.block, position, undo).map(Some);
        }
        match requests.declared[at as usize].accesses() {
            Some(accesses) => {
                runner.run_foretold(&self.block, position, &Held::new(accesses), undo)
            }
            None => Ok(None),
        }
    }
}
