//! QueCC (Qadah, Sadoghi, Middleware 2018; Qadah's thesis, 2021): plan first, then no concurrency
//! control at all.
//!
//! *Idea.* Before a block runs, planners turn its transactions into *queues* of fragments, each
//! queue holding what happens in one part of the database, in order. Executors drain the queues.
//! Nothing is validated, locked or aborted for concurrency: of two fragments that touch one record
//! the earlier stands before the later one, and that is the whole of it.
//!
//! ```text
//!              planner 0 (T0 … T499)          planner 1 (T500 … T999)
//!              [ A ][ B ][   C   ]            [  A' ][   B'  ][ C' ]      ranges of routes
//!                │    │      │                   │       │      │
//!   executors    └────┴──────┴── A' waits for A and B, B' for B and C, … ─┘
//!
//!   finish   plan       in parallel by share of the block        plan, program, queues
//!            execute    in parallel by queue                     execute, board, in_place
//!            commit     epilogues in parallel; victims, tail     commit
//! ```
//!
//! *Invariants.*
//! - Serial order: readers of the snapshot (an option), survivors in block order, then the tail in
//!   block order (see `commit`). It depends on neither planners, ranges nor timing, and so does
//!   nothing else.
//! - A record is in one worker's hands at a time; snapshot readers are served by the store.
//! - What a transaction reads was written by those before it, perhaps tentatively; then an edge of
//!   speculation is noted, for blind overwrites too.
//! - No call ends in 40001.
//!
//! *Planning ahead.* Routes, fragments and queues follow from the arguments and the tables' schemas
//! alone, so with `planning=pipelined` a block is planned while the one before it runs (and calls
//! of which planners would have to read rows are not cut). The one thing that planning asks the
//! store is where records lie, and that is a hint: it is taken of rows that a settled block has
//! shown, whichever is the newest at the time, and a pin keeps their slots from other keys. A
//! record that is not found, or was made since, is looked up by the executor.
//!
//! *Departures from the thesis.*
//! - Routes hash keys, where the thesis has ranges of record ids: inserts have a route before they
//!   have a record. Range scans, which it leaves out, are routed by the key's first column, and
//!   keys that need data by as many columns as need none; then so is all else that the block does
//!   to that table.
//! - A branch, or an end before the last step, is a guard of the fragments after it: it makes them
//!   wait for what it needs, so they never happen in vain. What is rejected is not waited for;
//!   where the turns of a loop may reject, the call is not cut, unless planners see whether they
//!   do.
//! - What no transaction of the block changes, planners [read](steady) where queues or rejections
//!   depend on it: the thesis asks for reconnaissance, and whether its answer still holds is never
//!   in question here. A call that is turned down by it runs after the queues.
//! - A transaction that cannot be cut is one fragment in several queues; who comes last runs it.
//!   One of which nothing is known in advance runs after the queues, as victims do: the thesis
//!   does not say what becomes of either.
//! - What may be rolled back is cut only in blocks where hardly any transaction has to run in one
//!   piece ([`directory`]; `cutting=always` otherwise): one in one piece waits for each queue of a
//!   record of its own, and has to be ready to be undone with those whose tentative writes it met.
//!   So are calls of which planners would read rows: TPC-C's orders cost a third more in some
//!   thirty fragments than in one piece. The report says how many were not cut for that.
//! - Whether an update of arguments fails (NOT NULL, CHECK) is found out while planning, so that
//!   none need be ready to undo it.
//! - Executors take queues from a board as they become free, in place of a fixed assignment.
//! - Early write visibility and conservative execution have no tokens of their own: what none may
//!   see runs in one piece, and its entries in the queues are the tokens. The thesis's queues of
//!   read-only fragments are readers of the snapshot before the block, come first in the serial
//!   order, and lose nothing of serializability.
//! - A rejection is met when its transaction is answered for, so speculation lasts until then. To
//!   answer is to run what the fragments have left of the procedure
//!   ([`residue`](procedure::residue)), which often is nothing.
//!
//! *Cost.* YCSB, 1,000,000 rows, ten keys, two workers; shares of the CPU time between planning and
//! answers (`perf`, cpu-clock):
//!
//! ```text
//!   plan      find the records          18 %   nearly all of it waiting for two lines a key
//!             keys, routes, queues      19 %
//!   execute   walk, fetch ahead         16 %   half of it waiting: four lines a row
//!             read ten columns          31 %
//!             undo version, write       16 %
//!   commit    sums, answers            < 1 %
//! ```
//!
//! A transaction allocates its answer. One that runs in one piece costs what it costs under
//! [`serial`](crate::serial), the workspace saved and the key plan added.

mod action;
mod batch;
mod board;
mod commit;
mod compiled;
mod cutter;
mod directory;
mod draft;
mod execute;
mod guard;
mod happens;
mod in_place;
mod modes;
mod mutant;
mod plan;
mod program;
mod queues;
mod reduction;
mod steady;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Outcome, PathCounts, Prepared,
    Protocol, ProtocolInfo, Snapshots, WorkerPool, ordered_locks, own,
};
use rustc_hash::FxHashMap;
use storage::{BlockWrites, Catalog, Pin, Store};
use types::{Height, Position};

use batch::Batch;
use board::Board;
use compiled::Compiled;
use directory::Directory;
use execute::Worker;
use modes::Modes;
use mutant::Mutant;
use plan::{Planner, Share};

use commit::{Epilogues, Findings};
use queues::{Starts, equal_starts};

pub use modes::INFO;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Quecc::new(Modes::of(options))),
    mutants: Mutant::NAMES,
};

/// Procedures that are kept compiled; beyond, all are forgotten.
const COMPILED_MAX: usize = 1024;

/// Transactions that are worth a second planner.
const SHARE_MIN: usize = 32;

/// Queues of a planner for each worker.
const QUEUES_PER_WORKER: usize = 4;

pub struct Quecc {
    modes: Modes,
    /// By address; one that is in here keeps its address taken.
    compilations: Mutex<Addresses>,
    /// By planner: where its ranges started in the block before.
    starts: Mutex<Vec<Starts>>,
}

/// Addresses are compared and never followed, so they may change threads.
#[derive(Default)]
struct Addresses(FxHashMap<usize, Arc<Compiled>>);

/// A block after planning.
struct Plan {
    directory: Directory,
    shares: Vec<Share>,
    /// The tables it was planned for. The pin keeps the slots that the plan names until the block
    /// is being written, when nothing is collected.
    catalog: Arc<Catalog>,
    pin: Option<Pin>,
}

impl Plan {
    /// How the transactions are to run; what has to leave its queues joins the tail.
    fn paths(&self, height: Height) -> PathCounts {
        let mut paths = PathCounts::default();
        paths.add(ExecutionPath::Uncut, self.shares.iter().map(|share| share.uncut as usize).sum());
        let all = self.shares.iter().flat_map(|share| &share.transactions);
        for planned in all.clone() {
            match planned.kind {
                plan::Kind::Cut(_) => paths.add(ExecutionPath::Cut, 1),
                plan::Kind::Whole(_) => paths.add(ExecutionPath::Whole, 1),
                plan::Kind::Reader => paths.add(ExecutionPath::SnapshotReader, 1),
                plan::Kind::Tail => {}
            }
        }
        if self.pin.as_ref().is_some_and(|pin| pin.height() + 1 < height) {
            paths.add(ExecutionPath::Overlapped, all.count());
        }
        paths
    }
}

impl Quecc {
    fn new(modes: Modes) -> Quecc {
        Quecc { modes, compilations: Mutex::default(), starts: Mutex::default() }
    }

    fn directory(&self, block: &Block, catalog: &Catalog) -> Directory {
        let mut known = self.compilations.lock().unwrap_or_else(|e| e.into_inner());
        if known.0.len() > COMPILED_MAX {
            known.0.clear();
        }
        Directory::new(block, self.modes, catalog, &mut |procedure| {
            let address = Arc::as_ptr(procedure) as usize;
            let compiled =
                known.0.entry(address).or_insert_with(|| Arc::new(Compiled::of(procedure)));
            Arc::clone(compiled)
        })
    }

    /// `settled`: planning may overlap the block before, and this is a height below it.
    fn plan(
        &self,
        block: &Arc<Block>,
        store: &Store,
        settled: Option<Pin>,
        pool: &WorkerPool,
    ) -> Plan {
        let catalog = store.catalog();
        let directory = Arc::new(self.directory(block, &catalog));
        let count = block.transactions.len();
        let planners = (count / SHARE_MIN).clamp(1, pool.workers());
        let shares: Arc<Vec<Mutex<Share>>> =
            Arc::new((0..planners).map(|_| Mutex::default()).collect());
        let starts = self.starts_for(planners, pool.workers());
        let settled_at = settled.as_ref().map(Pin::height);
        let job = (block.clone(), catalog.clone(), directory.clone(), shares.clone());
        let modes = self.modes;
        let queues = pool.workers() * QUEUES_PER_WORKER;
        let planning = move |worker: usize| {
            let (block, catalog, directory, shares) = &job;
            let Some(share) = shares.get(worker) else { return };
            let positions = worker * count / planners..(worker + 1) * count / planners;
            let starts = &starts[worker];
            let planner = Planner::new(block, catalog, directory, modes, settled_at, starts);
            *share.lock().unwrap_or_else(|e| e.into_inner()) = planner.plan(positions, queues);
        };
        if planners == 1 {
            planning(0);
            drop(planning);
        } else {
            pool.run(planning);
        }
        let shares = Arc::into_inner(shares).expect("the pool has let go of a finished job");
        let shares: Vec<Share> =
            shares.into_iter().map(|s| s.into_inner().unwrap_or_else(|e| e.into_inner())).collect();
        let learnt = shares.iter().map(|share| share.starts.clone()).collect();
        *self.starts.lock().unwrap_or_else(|e| e.into_inner()) = learnt;
        let directory = Arc::into_inner(directory).expect("the pool has let go of a finished job");
        Plan { directory, shares, catalog, pin: settled }
    }

    fn starts_for(&self, planners: usize, workers: usize) -> Vec<Starts> {
        let learnt = self.starts.lock().unwrap_or_else(|e| e.into_inner());
        match learnt.len() == planners {
            true => learnt.clone(),
            false => vec![equal_starts(workers * QUEUES_PER_WORKER); planners],
        }
    }
}

impl Protocol for Quecc {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn plans_ahead(&self) -> bool {
        self.modes.pipelined
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        _: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        // Whichever block is the newest by now: where its records lie is a hint.
        let settled = || store.pins().pin_newest();
        let plan = self.modes.pipelined.then(|| self.plan(block, store, Some(settled()), pool));
        Ok(Box::new(plan))
    }

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let prepared: Option<Plan> = own(prepared, &INFO)?;
        let catalog = store.catalog();
        // A barrier may have come in between.
        let plan = prepared.filter(|plan| Arc::ptr_eq(&plan.catalog, &catalog));
        let plan = plan.unwrap_or_else(|| self.plan(block, store, None, pool));
        let batch = Arc::new(self.batch(block, catalog, plan));
        let findings = drain(&batch, writes, pool)?;
        let epilogues = Arc::new(Epilogues::new(&batch, &findings));
        answer(&batch, &epilogues, pool)?;
        let mut done = self.commit(batch, findings, epilogues, writes);
        let Committed { tail, paths, .. } = &mut done;
        paths.add(ExecutionPath::Tail, tail.len());
        let last = ordered_locks::run(block, tail, store, writes, pool, paths)?;
        for (&position, outcome) in done.tail.iter().zip(last) {
            done.outcomes[position as usize] = Some(outcome);
        }
        done.serial_order.extend(&done.tail);
        debug_assert_eq!(done.serial_order.len(), done.outcomes.len(), "each has one place");
        Ok(BlockOutcome {
            outcomes: done.outcomes.into_iter().flatten().collect(),
            serial_order: done.serial_order,
            report: BlockReport {
                rerun: done.rerun as u32,
                paths: done.paths,
                ..BlockReport::default()
            },
            ..BlockOutcome::default()
        })
    }
}

/// A block whose queues are drained. Those of `tail` have no outcome yet and no place in the order.
struct Committed {
    outcomes: Vec<Option<Outcome>>,
    serial_order: Vec<Position>,
    tail: Vec<Position>,
    rerun: usize,
    paths: PathCounts,
}

impl Quecc {
    fn batch(&self, block: &Arc<Block>, catalog: Arc<Catalog>, plan: Plan) -> Batch {
        let paths = plan.paths(block.height);
        let Plan { directory, shares, .. } = plan;
        let speculates = shares.iter().any(|share| share.speculates);
        let flag = |value| AtomicBool::new(value);
        let tentative: Vec<_> = block.transactions.iter().map(|_| flag(false)).collect();
        let mut queues = Vec::new();
        for (id, share) in shares.iter().enumerate() {
            queues.extend((0..share.queues.len()).map(|queue| (id as u32, queue as u32)));
            if speculates {
                // One that cannot fail itself may depend on one that can.
                let cut =
                    share.transactions.iter().filter(|t| matches!(t.kind, plan::Kind::Cut(_)));
                cut.for_each(|t| tentative[t.position as usize].store(true, Ordering::Relaxed));
            }
        }
        let by_share: Vec<&[queues::Queue]> = shares.iter().map(|share| &*share.queues).collect();
        Batch {
            board: Board::new(&by_share, self.modes.mutant == Some(Mutant::NoPriority)),
            block: Arc::clone(block),
            catalog,
            directory,
            queues,
            failed: tentative.iter().map(|_| flag(false)).collect(),
            tentative,
            shares,
            speculates,
            snapshot_height: block.height - 1,
            paths,
            mutant: self.modes.mutant,
        }
    }

    fn commit(
        &self,
        batch: Arc<Batch>,
        findings: Vec<Findings>,
        epilogues: Arc<Epilogues>,
        writes: &mut BlockWrites,
    ) -> Committed {
        let batch = Arc::into_inner(batch).expect("the pool has let go of a finished job");
        let epilogues = Arc::into_inner(epilogues).expect("the pool has let go of a finished job");
        let victims = commit::victims(&batch, &findings);
        let rerun = victims.iter().filter(|victim| **victim).count();
        if rerun > 0 {
            let (height, mutant) = (batch.block.height, self.modes.mutant);
            let undo = writes.arena(0);
            commit::roll_back(&findings, &victims, height, &batch.catalog, undo, mutant);
        }
        let mut outcomes: Vec<Option<Outcome>> =
            epilogues.outcomes.into_iter().map(|outcome| outcome.into_inner()).collect();
        let mut serial_order: Vec<Position> = Vec::with_capacity(outcomes.len());
        let mut survivors: Vec<Position> = Vec::with_capacity(outcomes.len());
        let mut tail: Vec<Position> = Vec::new();
        for mut share in batch.shares {
            for planned in &share.transactions {
                let position = planned.position as usize;
                if let plan::Kind::Whole(id) = planned.kind {
                    outcomes[position] = share.wholes[id as usize].outcome.take();
                }
                let survives = !victims[position] && outcomes[position].is_some();
                let group = match planned.kind {
                    plan::Kind::Reader => &mut serial_order,
                    _ if survives => &mut survivors,
                    _ => &mut tail,
                };
                group.push(planned.position);
            }
        }
        serial_order.extend(survivors);
        Committed { outcomes, serial_order, tail, rerun, paths: batch.paths }
    }
}

/// Run the queues of a block.
fn drain(
    batch: &Arc<Batch>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
) -> Result<Vec<Findings>, String> {
    let arenas: Arc<Vec<_>> = Arc::new(writes.take().into_iter().map(Mutex::new).collect());
    let found: Arc<Vec<Mutex<Findings>>> =
        Arc::new(arenas.iter().map(|_| Mutex::default()).collect());
    let job = (Arc::clone(batch), Arc::clone(&arenas), Arc::clone(&found));
    pool.run_if_large(batch.block.transactions.len(), move |worker| {
        let (batch, arenas, found) = &job;
        let mut undo = arenas[worker].lock().unwrap_or_else(|e| e.into_inner());
        let guard = StopOnPanic(batch);
        let mut executor = Worker::new(batch, &mut undo);
        if let Err(why) = executor.work() {
            batch.board.stop(why);
        }
        let findings = executor.findings();
        *found[worker].lock().unwrap_or_else(|e| e.into_inner()) = findings;
        std::mem::forget(guard);
    });
    let arenas = Arc::into_inner(arenas).expect("the pool has let go of a finished job");
    for arena in arenas {
        writes.give(arena.into_inner().unwrap_or_else(|e| e.into_inner()));
    }
    match batch.board.stopped() {
        Some(why) => Err(why),
        None => {
            let found = Arc::into_inner(found).expect("the pool has let go of a finished job");
            let found =
                found.into_iter().map(|f| f.into_inner().unwrap_or_else(|e| e.into_inner()));
            Ok(found.collect())
        }
    }
}

/// Work out the answers of all that were cut.
fn answer(batch: &Arc<Batch>, epilogues: &Arc<Epilogues>, pool: &WorkerPool) -> Result<(), String> {
    let halted: Arc<Mutex<Option<String>>> = Arc::default();
    let job = (Arc::clone(batch), Arc::clone(epilogues), Arc::clone(&halted));
    pool.run_if_large(batch.block.transactions.len(), move |_| {
        let (batch, epilogues, halted) = &job;
        if let Err(why) = epilogues.work(batch) {
            halted.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(why);
        }
    });
    match halted.lock().unwrap_or_else(|e| e.into_inner()).take() {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// None may wait for the fragments of a worker that panicked.
struct StopOnPanic<'a>(&'a Batch);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.board.stop("a worker panicked".to_owned());
    }
}
