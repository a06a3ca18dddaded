//! The workers of a replay: who does what next.
//!
//! ```text
//!   load batch ─► piece-set, once all before it are done ─► plan ─► nodes ─► … ─► done
//!                    │                                                       │
//!                    └ upstream sets of its batch, and the same block's      └ lets the sets
//!                      set of the batch before                                 go that wait
//! ```
//!
//! Everything that is shared is in one place under one lock, and work is taken in large bites: a
//! plan, or some dozens of nodes with what they set free. A set is worked on by as many as its
//! block's share of the pieces entitles it to (P8); where nothing else is left to do, by more.
//!
//! *Modes.* Without planning a set is one node (static-only). One batch in flight is the
//! synchronous mode, several are the pipelined one.
//!
//! *No deadlock.* Among the sets that are not done, one of the earliest batch that no other set of
//! that batch leads to waits for nobody. *Nobody spins*: a worker without work sleeps.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use concurrency::schedule::Preference;
use concurrency::trial;
use storage::UndoArena;

use super::Breakdown;
use super::batch::{Batch, Prepared, Tools};
use super::dynamic::Plan;
use crate::flaw::Flaw;

/// Nodes that are taken at a time.
const NODES_MAX: usize = 32;

/// How a log is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Piece-sets are planned, and not run by one worker each.
    pub plans: bool,
    /// Batches in flight.
    pub window: usize,
    pub batch_blocks: usize,
    pub preference: Preference,
}

pub struct Pool {
    prepared: Prepared,
    mode: Mode,
    workers: usize,
    batches: Vec<Range<usize>>,
    state: Mutex<State>,
    changed: Condvar,
    sleepers: AtomicUsize,
    /// One for each worker.
    arenas: Vec<Mutex<Option<UndoArena>>>,
}

#[derive(Default)]
struct State {
    /// Batches that were loaded or are being loaded.
    loaded: usize,
    loading: bool,
    /// Batches in flight, and the number of the first.
    open: VecDeque<Open>,
    first: usize,
    /// Pieces of each block so far, and how many workers that entitles it to.
    pieces: Vec<usize>,
    cores: Vec<usize>,
    stopped: Option<String>,
    spent: Breakdown,
}

struct Open {
    batch: Arc<Batch>,
    sets: Vec<Set>,
    left: usize,
}

struct Set {
    /// Sets that must be done before.
    waits: usize,
    phase: Phase,
    active: usize,
}

enum Phase {
    Waiting,
    ToPlan,
    Planning,
    Running { plan: Arc<Plan>, ready: Vec<u32>, left: usize },
    Done,
}

enum Job {
    Load(usize),
    Plan { batch: Arc<Batch>, at: usize, set: usize, parallel: bool },
    Run { batch: Arc<Batch>, at: usize, set: usize, plan: Arc<Plan>, nodes: Vec<u32> },
}

impl Pool {
    pub fn new(prepared: Prepared, mode: Mode, arenas: Vec<UndoArena>) -> Pool {
        let blocks = prepared.log.len();
        let size = mode.batch_blocks.max(1);
        let batches = (0..blocks).step_by(size).map(|first| first..(first + size).min(blocks));
        let count = prepared.analysis.blocks.len();
        let state = State { pieces: vec![0; count], cores: vec![1; count], ..State::default() };
        Pool {
            batches: batches.collect(),
            workers: arenas.len(),
            arenas: arenas.into_iter().map(|arena| Mutex::new(Some(arena))).collect(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            prepared,
            mode,
        }
    }

    /// After all workers are done: the arenas, what the time was spent on, or why it ended early.
    pub fn finish(&self) -> (Vec<UndoArena>, Result<Breakdown, String>) {
        let arenas = self.arenas.iter().filter_map(|arena| lock(arena).take()).collect();
        let mut state = lock(&self.state);
        let result = match state.stopped.take() {
            Some(why) => Err(why),
            None => Ok(state.spent),
        };
        (arenas, result)
    }

    /// Works until nothing is left.
    pub fn work(&self, worker: usize) {
        let guard = StopOnPanic(self);
        let Some(mut undo) = lock(&self.arenas[worker]).take() else {
            return;
        };
        let mut tools = Tools::default();
        let mut spent = Breakdown::default();
        let begun = Instant::now();
        while let Some(job) = self.take() {
            trial::pause();
            let start = Instant::now();
            match job {
                Job::Load(batch) => {
                    self.load(batch);
                    spent.loading += start.elapsed();
                }
                Job::Plan { batch, at, set, parallel } => {
                    let plan = match parallel {
                        true => self.prepared.plan(&batch, set, &mut tools),
                        false => Plan::serial(batch.sets[set].len()),
                    };
                    spent.analysis += start.elapsed();
                    self.planned(at, set, plan);
                }
                Job::Run { batch, at, set, plan, nodes } => {
                    let ran = self.run(&batch, set, &plan, nodes, (at, &mut undo, &mut tools));
                    spent.execution += start.elapsed();
                    match ran {
                        Ok(done) => self.ran(at, set, done),
                        Err(why) => self.stop(why),
                    }
                }
            }
        }
        spent.scheduling = begun.elapsed().saturating_sub(spent.total());
        *lock(&self.arenas[worker]) = Some(undo);
        lock(&self.state).spent += spent;
        std::mem::forget(guard);
    }

    /// The next thing to do; waits for one. `None`: there will be none.
    fn take(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped.is_some() || state.is_over(self.batches.len()) {
                return None;
            }
            if let Some(job) = self.choose(&mut state) {
                return Some(job);
            }
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn choose(&self, state: &mut State) -> Option<Job> {
        let may_load = !state.loading
            && state.loaded < self.batches.len()
            && state.loaded - state.first < self.mode.window;
        let eager = self.mode.preference == Preference::Latest;
        if may_load && (eager || state.open.is_empty()) {
            return Some(state.begin_load());
        }
        let job = self.choose_set(state, true).or_else(|| self.choose_set(state, false));
        job.or_else(|| may_load.then(|| state.begin_load()))
    }

    /// `entitled`: only sets that fewer work on than may.
    fn choose_set(&self, state: &mut State, entitled: bool) -> Option<Job> {
        let blocks = state.cores.len();
        let count = state.open.len() * blocks;
        for place in 0..count {
            let place = match self.mode.preference {
                Preference::Earliest => place,
                Preference::Latest => count - 1 - place,
            };
            let (open, set) = (place / blocks, place % blocks);
            let cores = state.cores[set];
            let at = state.first + open;
            let open = &mut state.open[open];
            let batch = &open.batch;
            let of_set = &mut open.sets[set];
            if entitled && of_set.active >= cores {
                continue;
            }
            let job = match &mut of_set.phase {
                phase @ Phase::ToPlan => {
                    *phase = Phase::Planning;
                    let parallel = self.mode.plans && self.is_worth_planning(cores);
                    Job::Plan { batch: Arc::clone(batch), at, set, parallel }
                }
                Phase::Running { plan, ready, .. } if !ready.is_empty() => {
                    let share = ready.len().div_ceil(self.workers).clamp(1, NODES_MAX);
                    let nodes = match self.mode.preference {
                        Preference::Earliest => ready.drain(..share).rev().collect(),
                        Preference::Latest => ready.split_off(ready.len() - 1),
                    };
                    let (batch, plan) = (Arc::clone(batch), Arc::clone(plan));
                    Job::Run { batch, at, set, plan, nodes }
                }
                _ => continue,
            };
            of_set.active += 1;
            return Some(job);
        }
        None
    }

    /// One worker alone needs no plan; a schedule that is to be tested does.
    fn is_worth_planning(&self, cores: usize) -> bool {
        cores > 1 || self.mode.preference == Preference::Latest
    }

    fn load(&self, at: usize) {
        let batch = Arc::new(self.prepared.load(self.batches[at].clone()));
        let analysis = &self.prepared.analysis;
        let mut state = lock(&self.state);
        for (block, set) in batch.sets.iter().enumerate() {
            state.pieces[block] += set.len();
        }
        state.share(self.workers);
        let before = state.open.back();
        let sets: Vec<Set> = (0..batch.sets.len())
            .map(|block| {
                let done = |open: &Open| matches!(open.sets[block].phase, Phase::Done);
                let follows = before.is_some_and(|open| !done(open))
                    && self.prepared.flaw != Some(Flaw::BatchBeforeIgnored);
                let upstream = match self.prepared.flaw {
                    Some(Flaw::UpstreamIgnored) => 0,
                    _ => analysis.before(block).count(),
                };
                let waits = upstream + usize::from(follows);
                Set { waits, phase: Phase::Waiting, active: 0 }
            })
            .collect();
        let left = sets.len();
        state.open.push_back(Open { batch, sets, left });
        state.loading = false;
        for block in 0..left {
            self.activate(&mut state, at, block);
        }
        self.retire(&mut state);
        self.wake();
    }

    /// Lets a set begin if it waits for nobody.
    fn activate(&self, state: &mut State, at: usize, set: usize) {
        let Some(open) = at.checked_sub(state.first).and_then(|n| state.open.get_mut(n)) else {
            return;
        };
        let of_set = &mut open.sets[set];
        if of_set.waits > 0 || !matches!(of_set.phase, Phase::Waiting) {
            return;
        }
        of_set.phase = Phase::ToPlan;
        if open.batch.sets[set].is_empty() {
            self.set_done(state, at, set);
        }
    }

    fn set_done(&self, state: &mut State, at: usize, set: usize) {
        let open = &mut state.open[at - state.first];
        open.sets[set].phase = Phase::Done;
        open.left -= 1;
        let edges = &self.prepared.analysis.edges;
        let flawed = |flaw| self.prepared.flaw == Some(flaw);
        let mut freed = Vec::new();
        if !flawed(Flaw::UpstreamIgnored) {
            let after = edges.iter().filter(|(before, _)| *before == set);
            freed.extend(after.map(|(_, after)| (at, *after)));
        }
        if !flawed(Flaw::BatchBeforeIgnored) && state.open.len() > at + 1 - state.first {
            freed.push((at + 1, set));
        }
        for (at, set) in freed {
            state.open[at - state.first].sets[set].waits -= 1;
            self.activate(state, at, set);
        }
    }

    /// Batches that are done go, from the front.
    fn retire(&self, state: &mut State) {
        while state.open.front().is_some_and(|open| open.left == 0) {
            state.open.pop_front();
            state.first += 1;
        }
    }

    fn planned(&self, at: usize, set: usize, plan: Plan) {
        let mut state = lock(&self.state);
        let left = plan.graph.len();
        let ready = (0..left as u32).filter(|node| plan.graph.is_free(*node)).collect();
        let first = state.first;
        let of_set = &mut state.open[at - first].sets[set];
        of_set.active -= 1;
        of_set.phase = Phase::Running { plan: Arc::new(plan), ready, left };
        self.wake();
    }

    /// Runs nodes and what they set free. Yields how many are done.
    fn run(
        &self,
        batch: &Batch,
        set: usize,
        plan: &Plan,
        mut nodes: Vec<u32>,
        (at, undo, tools): (usize, &mut UndoArena, &mut Tools),
    ) -> Result<usize, String> {
        let mut done = 0;
        while let Some(node) = nodes.pop() {
            trial::pause();
            for item in plan.items(node) {
                self.prepared.run(batch, set, batch.sets[set][*item as usize], undo, tools)?;
            }
            done += 1;
            let heirs = plan.graph.heirs(node).iter().copied();
            nodes.extend(heirs.filter(|heir| plan.graph.let_go(*heir)));
            let is_wanted = self.sleepers.load(Ordering::Relaxed) > 0;
            let latest = self.mode.preference == Preference::Latest;
            if nodes.len() > 1 && (is_wanted || nodes.len() > NODES_MAX) || latest {
                self.spill(at, set, nodes.split_off(nodes.len().div_ceil(2)));
            }
        }
        Ok(done)
    }

    /// Gives nodes that are free to others.
    fn spill(&self, at: usize, set: usize, nodes: Vec<u32>) {
        let mut state = lock(&self.state);
        let first = state.first;
        if let Phase::Running { ready, .. } = &mut state.open[at - first].sets[set].phase {
            ready.extend(nodes);
        }
        self.wake();
    }

    fn ran(&self, at: usize, set: usize, done: usize) {
        let mut state = lock(&self.state);
        let first = state.first;
        let of_set = &mut state.open[at - first].sets[set];
        of_set.active -= 1;
        let Phase::Running { left, .. } = &mut of_set.phase else {
            return;
        };
        *left -= done;
        if *left == 0 {
            self.set_done(&mut state, at, set);
            self.retire(&mut state);
            self.wake();
        }
    }

    fn stop(&self, why: String) {
        lock(&self.state).stopped.get_or_insert(why);
        self.changed.notify_all();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

impl State {
    fn is_over(&self, batches: usize) -> bool {
        self.first == batches
    }

    fn begin_load(&mut self) -> Job {
        self.loading = true;
        self.loaded += 1;
        Job::Load(self.loaded - 1)
    }

    /// Workers for each block, in proportion to its pieces; one at least.
    fn share(&mut self, workers: usize) {
        let all: usize = self.pieces.iter().sum();
        for (cores, pieces) in self.cores.iter_mut().zip(&self.pieces) {
            *cores = (pieces * workers).div_ceil(all.max(1)).max(1);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Nobody may wait for a worker that panicked.
struct StopOnPanic<'a>(&'a Pool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop("a worker of the replay panicked".to_owned());
    }
}

impl std::ops::AddAssign for Breakdown {
    fn add_assign(&mut self, other: Breakdown) {
        self.loading += other.loading;
        self.analysis += other.analysis;
        self.scheduling += other.scheduling;
        self.execution += other.execution;
    }
}

impl Breakdown {
    pub fn total(&self) -> Duration {
        self.loading + self.analysis + self.scheduling + self.execution
    }
}
