//! The workers of a replay: who does what next.
//!
//! ```text
//!   load batch ─► piece-set, once all before it are done ─► plan ─► nodes ─► … ─► done
//!                    │                                                       │
//!                    └ upstream sets of its batch, and the same block's      └ lets the sets
//!                      set of the batch before                                 go that wait
//! ```
//!
//! *Planned ahead.* Where the arguments alone tell the key spaces of all pieces of a set, it is
//! planned while it waits, by a worker without other work.
//!
//! *At home.* A node goes first to the worker that had its key space in earlier batches, whose
//! cache has its records; who runs out of nodes takes those of others. Records of the next few
//! nodes are fetched while others are run ([`concurrency::prefetching`]).
//!
//! Everything that is shared is in one place under one lock, and work is taken in large bites: a
//! plan, or some dozens of nodes with what they set free. A set is worked on by as many as its
//! block's share of the pieces entitles it to (P8); where nothing else is left to do, by more.
//!
//! *Modes.* Without planning a set is one node (static-only). One batch in flight is the
//! synchronous mode, several are the pipelined one.
//!
//! *No deadlock.* Among the sets that are not done, one of the earliest batch that no other set of
//! that batch leads to waits for none. *No worker spins*: a worker without work looks for some as
//! long as waking it would take, then sleeps.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use concurrency::schedule::Preference;
use concurrency::{prefetching, test_mode};
use kit::sync::lock;
use storage::UndoArena;

use super::batch::{Batch, Prepared, Tools};
use super::dynamic::Plan;
use super::task::Breakdown;
use crate::log::LoggedBlock;
use crate::mutant::Mutant;

/// Nodes that are taken at a time.
const NODES_MAX: usize = 64;

/// Looks for work before a worker sleeps: some microseconds, about what waking it costs.
const LOOKS: u32 = 2_000;

/// None where workers would look on cores that others need.
fn looks(workers: usize) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if workers <= cores { LOOKS } else { 0 }
}

/// Neighbouring blocks, as many as it takes to have so many transactions.
fn batches(log: &[LoggedBlock], transactions: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut first, mut count) = (0, 0);
    for (block, logged) in log.iter().enumerate() {
        count += logged.commits.len();
        if count >= transactions || block + 1 == log.len() {
            batches.push(first..block + 1);
            (first, count) = (block + 1, 0);
        }
    }
    batches
}

/// How a log is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Piece-sets are planned, and not run by one worker each.
    pub plans: bool,
    /// Batches in flight.
    pub window: usize,
    pub batch_transactions: usize,
    pub preference: Preference,
}

pub struct Pool {
    prepared: Prepared,
    /// By block of the graph.
    foretold: Vec<bool>,
    mode: Mode,
    workers: usize,
    batches: Vec<Range<usize>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Counts changes of the state that give others work; under its lock.
    turn: AtomicU64,
    /// Who has no work: looks for some, or sleeps.
    idle: AtomicUsize,
    sleepers: AtomicUsize,
    looks: u32,
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
    /// Waits for others.
    Planned(Plan),
    /// What is ready, by home, the earliest last.
    Running {
        plan: Arc<Plan>,
        ready: Vec<Vec<u32>>,
        left: usize,
    },
    Done,
}

enum Job {
    Load(usize),
    Plan { batch: Arc<Batch>, at: usize, set: usize, parallel: bool },
    Run { batch: Arc<Batch>, at: usize, set: usize, plan: Arc<Plan>, nodes: Vec<u32> },
}

impl Pool {
    pub fn new(prepared: Prepared, mode: Mode, arenas: Vec<UndoArena>) -> Pool {
        let count = prepared.analysis.blocks.len();
        let workers = arenas.len();
        let state = State { pieces: vec![0; count], cores: vec![1; count], ..State::default() };
        Pool {
            batches: batches(&prepared.log, mode.batch_transactions),
            foretold: (0..count).map(|block| prepared.analysis.is_foretold(block)).collect(),
            workers,
            arenas: arenas.into_iter().map(|arena| Mutex::new(Some(arena))).collect(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            turn: AtomicU64::new(0),
            idle: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            looks: looks(workers),
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
        let mut tools = self.prepared.tools();
        let mut spent = Breakdown::default();
        let begun = Instant::now();
        while let Some(job) = self.take(worker) {
            test_mode::pause();
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
    fn take(&self, worker: usize) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped.is_some() || state.is_over(self.batches.len()) {
                return None;
            }
            if let Some(job) = self.choose(&mut state, worker) {
                return Some(job);
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            state = self.wait(state);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Looks a moment for a change, then sleeps until there is one.
    fn wait<'p>(&'p self, state: MutexGuard<'p, State>) -> MutexGuard<'p, State> {
        let turn = self.turn.load(Ordering::Relaxed);
        let same = || self.turn.load(Ordering::Relaxed) == turn;
        drop(state);
        for _ in 0..self.looks {
            if !same() {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = lock(&self.state);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        while same() {
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        state
    }

    fn choose(&self, state: &mut State, worker: usize) -> Option<Job> {
        let may_load = !state.loading
            && state.loaded < self.batches.len()
            && state.loaded - state.first < self.mode.window;
        let eager = self.mode.preference == Preference::Latest;
        if may_load && (eager || state.open.is_empty()) {
            return Some(state.begin_load());
        }
        let job = self.choose_set(state, worker, true);
        let job = job.or_else(|| self.choose_set(state, worker, false));
        job.or_else(|| may_load.then(|| state.begin_load()))
    }

    /// `entitled`: only sets that fewer work on than may.
    fn choose_set(&self, state: &mut State, worker: usize, entitled: bool) -> Option<Job> {
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
                Phase::Running { plan, ready, .. } if ready.iter().any(|r| !r.is_empty()) => {
                    let nodes = self.some_of(ready, worker);
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

    /// Nodes that are ready: those at home with the worker, else some of another's.
    fn some_of(&self, ready: &mut [Vec<u32>], worker: usize) -> Vec<u32> {
        let longest = (0..ready.len()).max_by_key(|at| ready[*at].len()).unwrap_or(worker);
        let from = if ready[worker].is_empty() { longest } else { worker };
        let ready = &mut ready[from];
        if self.mode.preference == Preference::Latest {
            return ready.drain(..1).collect();
        }
        let share = if from == worker { ready.len() } else { ready.len().div_ceil(2) };
        ready.split_off(ready.len() - share.min(NODES_MAX))
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
                    && self.prepared.mutant != Some(Mutant::BatchBeforeIgnored);
                let upstream = match self.prepared.mutant {
                    Some(Mutant::UpstreamIgnored) => 0,
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
            self.foretell(&mut state, at, block);
            self.activate(&mut state, at, block);
        }
        self.retire(&mut state);
        self.wake();
    }

    /// A set whose key spaces are known from the arguments is planned while it waits.
    fn foretell(&self, state: &mut State, at: usize, set: usize) {
        let of_set = &mut state.open[at - state.first].sets[set];
        let is_open = of_set.waits > 0 && matches!(of_set.phase, Phase::Waiting);
        let pays = self.mode.plans && self.is_worth_planning(state.cores[set]);
        let open = &mut state.open[at - state.first];
        if is_open && pays && self.foretold[set] && !open.batch.sets[set].is_empty() {
            open.sets[set].phase = Phase::ToPlan;
        }
    }

    /// Lets a set begin if it waits for no other.
    fn activate(&self, state: &mut State, at: usize, set: usize) {
        let Some(open) = at.checked_sub(state.first).and_then(|n| state.open.get_mut(n)) else {
            return;
        };
        let of_set = &mut open.sets[set];
        if of_set.waits > 0 {
            return;
        }
        match std::mem::replace(&mut of_set.phase, Phase::ToPlan) {
            Phase::Waiting if open.batch.sets[set].is_empty() => self.set_done(state, at, set),
            Phase::Waiting => {}
            Phase::Planned(plan) => of_set.phase = Phase::running(plan, self.workers),
            other => of_set.phase = other,
        }
    }

    fn set_done(&self, state: &mut State, at: usize, set: usize) {
        let open = &mut state.open[at - state.first];
        open.sets[set].phase = Phase::Done;
        open.left -= 1;
        let edges = &self.prepared.analysis.edges;
        let mutated = |mutant| self.prepared.mutant == Some(mutant);
        let mut freed = Vec::new();
        if !mutated(Mutant::UpstreamIgnored) {
            let after = edges.iter().filter(|(before, _)| *before == set);
            freed.extend(after.map(|(_, after)| (at, *after)));
        }
        if !mutated(Mutant::BatchBeforeIgnored) && state.open.len() > at + 1 - state.first {
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
        let first = state.first;
        let of_set = &mut state.open[at - first].sets[set];
        of_set.active -= 1;
        of_set.phase = match of_set.waits {
            0 => Phase::running(plan, self.workers),
            _ => Phase::Planned(plan),
        };
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
        // Of the last nodes, those whose records have been fetched; heirs' are at hand.
        let mut fetched = 0;
        while let Some(&node) = nodes.last() {
            test_mode::pause();
            if fetched == 0 {
                fetched = nodes.len().min(prefetching::GROUP);
                let next = nodes[nodes.len() - fetched..].iter();
                let firsts = next.filter_map(|node| plan.items(*node).first().copied());
                self.prepared.fetch(batch, set, firsts, tools);
            }
            nodes.pop();
            fetched -= 1;
            self.run_node(batch, set, plan.items(node), (undo, tools))?;
            done += 1;
            let heirs = plan.graph.heirs(node).iter().copied();
            let before = nodes.len();
            nodes.extend(heirs.filter(|heir| plan.graph.let_go(*heir)));
            fetched += nodes.len() - before;
            let is_wanted = self.idle.load(Ordering::Relaxed) > 0;
            let latest = self.mode.preference == Preference::Latest;
            if nodes.len() > 1 && (is_wanted || nodes.len() > NODES_MAX) || latest {
                // The last ones are at hand here.
                let kept = nodes.len().div_ceil(2);
                let spilled = nodes.drain(..nodes.len() - kept).collect();
                self.spill(at, set, spilled);
                fetched = fetched.min(kept);
            }
        }
        Ok(done)
    }

    fn run_node(
        &self,
        batch: &Batch,
        set: usize,
        items: &[u32],
        (undo, tools): (&mut UndoArena, &mut Tools),
    ) -> Result<(), String> {
        for group in items.chunks(prefetching::GROUP) {
            // A few are of one key, and the first of them has been fetched.
            if items.len() > prefetching::GROUP {
                self.prepared.fetch(batch, set, group.iter().copied(), tools);
            }
            for item in group {
                self.prepared.run(batch, set, batch.sets[set][*item as usize], undo, tools)?;
            }
        }
        Ok(())
    }

    /// Gives nodes that are free to others.
    fn spill(&self, at: usize, set: usize, nodes: Vec<u32>) {
        let mut state = lock(&self.state);
        let first = state.first;
        if let Phase::Running { plan, ready, .. } = &mut state.open[at - first].sets[set].phase {
            nodes.iter().for_each(|node| ready[plan.home(*node, self.workers)].push(*node));
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
        let mut state = lock(&self.state);
        state.stopped.get_or_insert(why);
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Under the state's lock.
    fn wake(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

impl Phase {
    fn running(plan: Plan, workers: usize) -> Phase {
        let left = plan.graph.len();
        let mut ready = vec![Vec::new(); workers];
        for node in (0..left as u32).rev().filter(|node| plan.graph.is_free(*node)) {
            ready[plan.home(node, workers)].push(node);
        }
        Phase::Running { plan: Arc::new(plan), ready, left }
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

/// No worker may wait for one that panicked.
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
