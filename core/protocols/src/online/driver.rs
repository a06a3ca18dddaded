//! Driver for the online protocols: workers, retries after conflicts, and the final serial order.
//!
//! ```text
//!   worker 0   T0 T1 T2 ✗T3 T4 ·T3 …      ✗ conflict: set aside; · retried after the next one
//!   worker 1   T8 T9 ✗T10 T11 ·✗T10 …
//!                                 │ too many conflicts
//!   at the end of the block       └► T10, alone ──► sort positions ──► renumber the stamps
//! ```
//!
//! *Back-off.* A worker sets a transaction that met a conflict aside and runs the next one before
//! it retries. With no other work left it yields its processor before a retry, and after further
//! conflicts sleeps. A transaction that has met [`CONFLICTS_MAX`] conflicts is run at the end of
//! the block, when no other runs. So every transaction ends, no client is asked to retry because of
//! a conflict, and no transaction waits for long.
//!
//! *Open and closed blocks.* A [`Worker`] is given calls and does not depend on their source. In an
//! open epoch, the threads of a live node pass them in one by one; for a closed block, the workers
//! claim groups of transactions until none is left. Transactions that were set aside are retried
//! after each new call, and when there are no new calls.
//!
//! *Invariants.* Each transaction ends exactly once and has exactly one position. A transaction
//! that runs alone meets no conflict.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use concurrency::{
    Block, BlockOutcome, BlockReport, Call, Carried, EpochWorker, Options, Outcome, Prefetching,
    Prepared, Protocol, ProtocolInfo, Snapshots, Span, Timing, Watch, WorkerPool, prefetching,
    test_mode,
};
use kit::sync;
use procedure::{Budget, Frame, Meter, ProgramResult};
use storage::{BlockWrites, Store, UndoArena};
use types::{Height, Position, Stop};

use super::mutant::Mutant;
use super::order::{CommitSequenceNumber, Draw, Draws};
use super::seam::{Conflict, Ended, Epoch, Healing, Online, Session};

/// Conflicts after which a transaction waits for the end of the block.
const CONFLICTS_MAX: u32 = 16;

/// Conflicts of one transaction after which its worker sleeps and does not only yield.
const YIELDS: u32 = 4;

const NAP: Duration = Duration::from_micros(50);

/// Fewer transactions are done before other workers are awake.
const TRANSACTIONS_MIN: usize = 16;

/// Any protocol of the family, as the rest of the system sees it.
pub struct Arriving<P> {
    protocol: Arc<P>,
    /// For measurements: so many transactions of each worker are under way at once, each
    /// committing when all others have run after it. Each stands for a processor of its own: after
    /// a conflict it begins again at once, while the others are where they are.
    interleaved: usize,
    watch: Option<Arc<Watch>>,
    /// Tests of the tests: stamps keep the numbers that were drawn.
    keeps_draws: bool,
}

impl<P: Online + 'static> Arriving<P> {
    /// What the options ask for, of a protocol that `build` makes with the mutant in them.
    pub fn made(options: &Options, build: impl FnOnce(Option<Mutant>) -> P) -> Arc<dyn Protocol> {
        let mutant = options.mutant.and_then(Mutant::by_name);
        let protocol = build(mutant);
        Arc::new(Arriving {
            interleaved: options.interleaved.unwrap_or(1).max(1),
            protocol: Arc::new(protocol),
            watch: options.watch.clone(),
            keeps_draws: mutant == Some(Mutant::StampsKeepDraws),
        })
    }
}

impl<P: Online> Protocol for Arriving<P> {
    fn info(&self) -> &'static ProtocolInfo {
        self.protocol.info()
    }

    /// As the block is sealed.
    fn keeps_block_order(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Snapshots,
        _: &WorkerPool,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()) as Box<dyn Any + Send>)
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let running = Arc::new(self.begin(store, block.height, block.budget));
        run_all(&running, block, writes, pool);
        let running = Arc::into_inner(running).expect("the pool has let go of a finished job");
        running.close(writes)
    }

    fn open(
        &self,
        store: &Arc<Store>,
        height: Height,
        budget: Budget,
    ) -> Option<Box<dyn concurrency::Epoch>> {
        Some(Box::new(self.begin(store, height, budget)))
    }
}

impl<P: Online> Arriving<P> {
    fn begin(&self, store: &Arc<Store>, height: Height, budget: Budget) -> Running<P> {
        let epoch = Epoch { height, catalog: store.catalog(), draws: Draws::default(), budget };
        Running {
            protocol: Arc::clone(&self.protocol),
            interleaved: self.interleaved,
            keeps_draws: self.keeps_draws,
            watch: self.watch.clone(),
            epoch: Arc::new(epoch),
            ended: Mutex::default(),
            healing: Mutex::default(),
            left: Mutex::default(),
            halted: OnceLock::new(),
        }
    }
}

/// An epoch, as its workers share it.
struct Running<P> {
    protocol: Arc<P>,
    interleaved: usize,
    keeps_draws: bool,
    watch: Option<Arc<Watch>>,
    epoch: Arc<Epoch>,
    ended: Mutex<Vec<Done>>,
    healing: Mutex<Healing>,
    /// To be run when no other transaction runs.
    left: Mutex<Vec<Aside>>,
    /// Why the replica must stop.
    halted: OnceLock<String>,
}

impl<P: Online> concurrency::Epoch for Running<P> {
    fn worker(&self, undo: UndoArena) -> Box<dyn EpochWorker + '_> {
        Box::new(Worker::new(self, self.interleaved, undo))
    }

    fn close(self: Box<Self>, writes: &mut BlockWrites) -> Result<BlockOutcome, String> {
        Running::close(*self, writes)
    }
}

impl<P: Online> Running<P> {
    fn close(self, writes: &mut BlockWrites) -> Result<BlockOutcome, String> {
        let left = std::mem::take(&mut *lock(&self.left));
        if !left.is_empty() && self.halted.get().is_none() {
            let mut arenas = writes.take().into_iter();
            if let Some(first) = arenas.next() {
                writes.give(Worker::new(&self, 1, first).run_alone(left));
            }
            arenas.for_each(|arena| writes.give(arena));
        }
        if let Some(why) = self.halted.into_inner() {
            return Err(why);
        }
        let ended = self.ended.into_inner().unwrap_or_else(|e| e.into_inner());
        let healing = self.healing.into_inner().unwrap_or_else(|e| e.into_inner());
        let (mut outcome, positions) = in_order(ended, self.epoch.draws.end());
        outcome.report.healed = Timing(healing.healed);
        outcome.report.healed_whole = Timing(healing.whole);
        outcome.report.relocked = Timing(healing.relocked);
        if let Some(positions) = positions
            && !self.keeps_draws
        {
            writes.renumber(&self.epoch.catalog, &positions)?;
        }
        Ok(outcome)
    }
}

/// A transaction that is over.
struct Done {
    csn: CommitSequenceNumber,
    arrival: Position,
    draw: Option<Draw>,
    conflicts: u32,
    outcome: Outcome,
}

/// One that has met conflicts, or is new.
struct Aside {
    call: Call,
    conflicts: u32,
    /// On attempts that came to nothing, where there is a watch.
    lost_ns: u64,
}

impl Aside {
    fn fresh(call: Call) -> Aside {
        Aside { call, conflicts: 0, lost_ns: 0 }
    }
}

/// A closed block: its transactions are shared out until none is left.
fn run_all<P: Online>(
    running: &Arc<Running<P>>,
    block: &Arc<Block>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
) {
    let arenas: Vec<_> = writes.take().into_iter().map(|arena| Mutex::new(Some(arena))).collect();
    let arenas = Arc::new(arenas);
    let job = (Arc::clone(running), Arc::clone(block), Arc::clone(&arenas), AtomicUsize::new(0));
    let work = move |worker: usize| {
        let (running, block, arenas, next) = &job;
        let Some(undo) = lock(&arenas[worker]).take() else { return };
        let undo = Worker::new(running, running.interleaved, undo).work(block, next);
        *lock(&arenas[worker]) = Some(undo);
    };
    if block.transactions.len() >= test_mode::threshold(TRANSACTIONS_MIN) {
        pool.run(work);
    } else {
        work(0);
        drop(work);
    }
    let arenas = Arc::into_inner(arenas).expect("the pool has let go of a finished job");
    let back =
        arenas.into_iter().map(|arena| arena.into_inner().unwrap_or_else(|e| e.into_inner()));
    back.flatten().for_each(|arena| writes.give(arena));
}

impl<P> Running<P> {
    /// Of no account where there is no watch.
    fn now_ns(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| (watch.now_ns)())
    }
}

struct Worker<'r, P: Online> {
    running: &'r Running<P>,
    undo: UndoArena,
    /// One for each transaction under way; the next to begin is at `turn`.
    lanes: Vec<Lane<P::Session>>,
    turn: usize,
    aside: VecDeque<Aside>,
    done: Vec<Done>,
    spans: Vec<Span>,
}

/// What one transaction at a time is run with.
struct Lane<S> {
    session: S,
    frame: Frame,
    /// It has run, and is to commit.
    under_way: Option<(Aside, Result<ProgramResult, Stop>)>,
    spent_ns: u64,
}

impl<P: Online> EpochWorker for Worker<'_, P> {
    fn run(&mut self, call: Call) {
        self.attempt(Aside::fresh(call));
        self.try_one();
    }

    fn try_again(&mut self) {
        self.run_down();
        if let Some(aside) = self.aside.pop_front() {
            rest(&aside);
            self.attempt(aside);
        }
        self.commit_all();
    }

    fn under_way(&self) -> usize {
        if self.running.halted.get().is_some() {
            return 0;
        }
        let lanes = self.lanes.iter().filter(|lane| lane.under_way.is_some());
        self.aside.len() + lanes.count()
    }

    fn leave(self: Box<Self>) -> UndoArena {
        self.hand_in()
    }
}

/// After a conflict, when there is nothing else to do.
fn rest(aside: &Aside) {
    if aside.conflicts <= YIELDS { sync::yield_now() } else { sync::nap(NAP) }
}

impl<'r, P: Online> Worker<'r, P> {
    fn new(running: &'r Running<P>, lanes: usize, undo: UndoArena) -> Self {
        let lane = |_| Lane {
            session: running.protocol.session(&running.epoch),
            frame: Frame::metered(Meter::of(running.epoch.budget)),
            under_way: None,
            spent_ns: 0,
        };
        let lanes = (0..lanes).map(lane).collect();
        Worker {
            running,
            undo,
            lanes,
            turn: 0,
            aside: VecDeque::new(),
            done: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Takes transactions of a closed block until none is left.
    fn work(mut self, block: &Block, next: &AtomicUsize) -> UndoArena {
        let transactions = &block.transactions;
        let catalog = Arc::clone(&self.running.epoch.catalog);
        let mut prefetching = Prefetching::new(catalog, transactions.len());
        let group = test_mode::threshold(prefetching::GROUP);
        loop {
            let first = next.fetch_add(group, Ordering::Relaxed);
            let end = transactions.len().min(first + group);
            if first >= end || self.running.halted.get().is_some() {
                break;
            }
            prefetching.fetch(transactions[first..end].iter().map(|work| &**work));
            for (arrival, work) in (first as Position..).zip(&transactions[first..end]) {
                let now_us = work.now_us(block.time_us);
                self.run(Call { arrival, now_us, work: Arc::clone(work) });
            }
        }
        while self.under_way() > 0 {
            self.try_again();
        }
        self.hand_in()
    }

    /// The other workers are done.
    fn run_alone(mut self, left: Vec<Aside>) -> UndoArena {
        for aside in left {
            self.begin(aside);
            if self.commit().is_err() {
                let what = "a transaction that ran alone met a conflict";
                let _ = self.running.halted.set(what.to_owned());
            }
        }
        self.hand_in()
    }

    fn hand_in(self) -> UndoArena {
        if let Some(watch) = &self.running.watch {
            lock(&watch.spans).extend(&self.spans);
        }
        let mut healing = lock(&self.running.healing);
        for counts in self.lanes.iter().map(|lane| lane.session.healing()) {
            healing.healed += counts.healed;
            healing.whole += counts.whole;
            healing.relocked += counts.relocked;
        }
        drop(healing);
        let mut ended = lock(&self.running.ended);
        match ended.is_empty() {
            true => *ended = self.done,
            false => ended.extend(self.done),
        }
        self.undo
    }

    /// Run a transaction in the free lane, and commit the one that is then the oldest.
    fn attempt(&mut self, aside: Aside) {
        if self.running.halted.get().is_some() {
            return;
        }
        self.begin(aside);
        if matches!(self.lanes[self.turn].under_way, Some((_, Err(_)))) {
            // A transaction that has failed may hold what others need.
            self.finish_lane();
        }
        self.finish_oldest();
    }

    fn finish_oldest(&mut self) {
        self.turn = (self.turn + 1) % self.lanes.len();
        self.finish_lane();
    }

    /// Try one that has met a conflict; where lanes stand for processors, all of them at once.
    fn try_one(&mut self) {
        while let Some(aside) = self.aside.pop_front() {
            self.attempt(aside);
            if self.lanes.len() == 1 {
                break;
            }
        }
    }

    /// There is nothing new: what meets a conflict is tried again beside what is under way.
    fn run_down(&mut self) {
        while self.lanes.len() > 1 && self.lanes.iter().any(|lane| lane.under_way.is_some()) {
            match self.aside.pop_front() {
                Some(aside) => self.attempt(aside),
                None => self.finish_oldest(),
            }
        }
    }

    /// Commit all that is under way, the oldest first.
    fn commit_all(&mut self) {
        for _ in 0..self.lanes.len() {
            self.finish_oldest();
        }
    }

    /// Commit what is in the lane, if there is something, or put it aside.
    fn finish_lane(&mut self) {
        let Err(aside) = self.commit() else { return };
        let aside = Aside { conflicts: aside.conflicts + 1, ..aside };
        match aside.conflicts < CONFLICTS_MAX {
            true => self.aside.push_back(aside),
            false => lock(&self.running.left).push(aside),
        }
    }

    fn begin(&mut self, aside: Aside) {
        let Call { arrival, now_us, work } = &aside.call;
        let start = self.running.epoch.start(*arrival, aside.conflicts, *now_us);
        let began_ns = self.running.now_ns();
        let Lane { session, frame, under_way, spent_ns } = &mut self.lanes[self.turn];
        let run = session.run(start, work, frame);
        *under_way = Some((aside, run));
        *spent_ns = self.running.now_ns() - began_ns;
        test_mode::pause();
    }

    fn commit(&mut self) -> Result<(), Aside> {
        let began_ns = self.running.now_ns();
        let Lane { session, under_way, spent_ns, .. } = &mut self.lanes[self.turn];
        let Some((aside, run)) = under_way.take() else { return Ok(()) };
        let committed = session.commit(&aside.call.work, run, &mut self.undo);
        let committed = committed.inspect_err(|Conflict| session.abort());
        let spent_ns = *spent_ns + self.running.now_ns() - began_ns;
        let Aside { conflicts, lost_ns, .. } = aside;
        let arrival = aside.call.arrival;
        let Ended { csn, draw, run } =
            committed.map_err(|Conflict| Aside { lost_ns: lost_ns + spent_ns, ..aside })?;
        if self.running.watch.is_some() {
            let height = self.running.epoch.height;
            let spent_ns = lost_ns + spent_ns;
            self.spans.push(Span { height, arrival, spent_ns, lost_ns });
        }
        match Outcome::from_run(run) {
            Ok(outcome) => self.done.push(Done { csn, arrival, draw, conflicts, outcome }),
            Err(why) => drop(self.running.halted.set(why)),
        }
        Ok(())
    }
}

/// The block's outcome, and the position of each number that was drawn; `None`: numbers are
/// positions already.
fn in_order(ended: Vec<Done>, numbers: Position) -> (BlockOutcome, Option<Vec<Position>>) {
    let mut csns: Vec<(CommitSequenceNumber, Position, Option<Draw>)> =
        ended.iter().map(|done| (done.csn, done.arrival, done.draw)).collect();
    csns.sort_unstable();
    let mut positions = vec![0; numbers as usize];
    let mut moved = false;
    for (position, (_, _, draw)) in (0..).zip(&csns) {
        if let Some(Draw(number)) = *draw {
            positions[number as usize] = position;
            moved |= number != position;
        }
    }
    let rerun = ended.iter().filter(|done| done.conflicts > 0).count() as u32;
    let conflicts = ended.iter().map(|done| done.conflicts).sum();
    let report = BlockReport { rerun, executed_again: Timing(conflicts), ..BlockReport::default() };
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(ended.len(), || None);
    for done in ended {
        outcomes[done.arrival as usize] = Some(done.outcome);
    }
    debug_assert!(outcomes.iter().all(Option::is_some), "each arrival has run once");
    let outcome = BlockOutcome {
        outcomes: outcomes.into_iter().flatten().collect(),
        serial_order: csns.into_iter().map(|(_, arrival, _)| arrival).collect(),
        report,
        ..BlockOutcome::default()
    };
    (outcome, moved.then_some(positions))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
