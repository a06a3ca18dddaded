//! Runs transactions in parallel in a partial order that is given as wait-for edges.
//!
//! ```text
//!   edges   0 ─► 2 ─► 3      waits   0  0  1  2
//!           1 ──────► 3              └ free: taken in order, by groups, without a lock
//! ```
//!
//! An edge leads from an earlier transaction to a later one that must wait for it. All edges are
//! known before anything runs, so they are stored as a counter for each transaction, of those that
//! it waits for, and a list of those that wait for it (its *heirs*). A transaction that ends
//! decrements its heirs' counters. Its worker continues with an heir that became free, whose
//! records are still in its core's cache.
//!
//! *Postponed.* A transaction may turn out to need more than its edges protect. It reports that
//! before it has any effect, and runs again once *all* earlier ones are done. Callers that use this
//! must add edges from it to every later transaction that it might disturb.
//!
//! *No deadlock.* Edges lead forward, so the first transaction that is not done waits for no other;
//! that also holds if it was postponed.
//!
//! *Idle workers* sleep on a condition variable; they do not spin.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use kit::sync::{self, Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::prefetching;
use crate::test_mode;

/// Transactions that the longest chain must be outnumbered by, to be worth more than one worker.
const WIDTH_MIN: usize = 4;

/// Who must wait for whom, by their places in the order.
#[derive(Debug)]
pub struct Graph {
    /// How many each still waits for.
    waits: Vec<AtomicU32>,
    /// Place `i` lets go `heirs[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    heirs: Vec<u32>,
}

impl Graph {
    /// Edges are (before, after); repetitions are allowed.
    pub fn new(count: usize, edges: &[Vec<(u32, u32)>]) -> Graph {
        let mut first = vec![0; count + 1];
        let mut waits = vec![0; count];
        for &(before, after) in edges.iter().flatten() {
            debug_assert!(before < after, "edges lead forward");
            first[before as usize + 1] += 1;
            waits[after as usize] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut heirs = vec![0; first[count] as usize];
        for &(before, after) in edges.iter().flatten() {
            let place = &mut next[before as usize];
            heirs[*place as usize] = after;
            *place += 1;
        }
        debug_assert!(next[..count] == first[1..], "every edge has its place");
        Graph { waits: waits.into_iter().map(AtomicU32::new).collect(), first, heirs }
    }

    pub fn len(&self) -> usize {
        self.waits.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub fn heirs(&self, at: u32) -> &[u32] {
        &self.heirs[self.first[at as usize] as usize..self.first[at as usize + 1] as usize]
    }

    /// For each transaction, how many the longest chain that ends before it has.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.len()];
        for at in 0..self.len() {
            let next = depths[at] + 1;
            for &heir in self.heirs(at as u32) {
                depths[heir as usize] = next.max(depths[heir as usize]);
            }
        }
        debug_assert!(depths.iter().zip(0..).all(|(depth, at)| *depth <= at), "edges lead forward");
        depths
    }

    /// Whether the longest chain leaves work for more than one worker.
    pub fn is_wide(&self) -> bool {
        let longest_chain = self.depths().into_iter().max().map_or(0, |depth| depth as usize + 1);
        self.len() >= longest_chain * test_mode::threshold(WIDTH_MIN)
    }

    /// Waits for no other any more.
    pub fn is_free(&self, at: u32) -> bool {
        self.waits[at as usize].load(Ordering::Relaxed) == 0
    }

    /// One of those that `at` waits for is done. True: it was the last. The last to let go acquires
    /// what all the others wrote.
    pub fn let_go(&self, at: u32) -> bool {
        let waits = self.waits[at as usize].fetch_sub(1, Ordering::AcqRel);
        debug_assert!(waits > 0, "let go by more than it waits for");
        waits == 1
    }
}

/// Which of several free transactions runs first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preference {
    #[default]
    Earliest,
    /// Brings out a missing edge in tests: what may overtake, does.
    Latest,
}

/// A transaction to run now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    pub at: u32,
    /// All before it are done.
    pub after_all: bool,
}

/// What became of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    Done,
    /// Without effect; again after all before it.
    Postponed,
}

/// What the workers share.
pub struct Schedule {
    graph: Graph,
    preference: Preference,
    /// Those that wait for no other from the start, and how many of them were taken.
    free: Vec<u32>,
    free_taken: AtomicUsize,
    /// Not yet done.
    left: AtomicUsize,
    pool: Mutex<Pool>,
    changed: Condvar,
    /// Whether any may be postponed.
    may_postpone: bool,
}

#[derive(Default)]
struct Pool {
    ready: VecDeque<Turn>,
    sleepers: usize,
    /// A worker ended early: by a halt, or by a panic.
    stopped: Option<String>,
    /// Kept where some may be postponed: who is done, and the first who is not.
    done: Vec<bool>,
    first_left: usize,
    postponed: Vec<u32>,
}

/// What one worker took for itself.
#[derive(Default)]
struct Hand {
    next: Option<Turn>,
    group: SmallVec<[u32; prefetching::GROUP]>,
}

impl Schedule {
    pub fn new(graph: Graph, preference: Preference, may_postpone: bool) -> Schedule {
        let count = graph.len();
        let free = (0..count as u32).filter(|&at| graph.is_free(at));
        let mut pool = Pool::default();
        if may_postpone {
            pool.done = vec![false; count];
        }
        let mut free: Vec<u32> = free.collect();
        if preference == Preference::Latest {
            let turns = free.drain(..).map(|at| Turn { at, after_all: false });
            pool.ready = turns.collect();
        }
        Schedule {
            graph,
            preference,
            free,
            free_taken: AtomicUsize::new(0),
            left: AtomicUsize::new(count),
            pool: Mutex::new(pool),
            changed: Condvar::new(),
            may_postpone,
        }
    }

    /// Run what is free until nothing is left. `foresee` is told which transactions come next.
    pub fn work(
        &self,
        mut foresee: impl FnMut(&[u32]),
        mut run: impl FnMut(Turn) -> Result<Ran, String>,
    ) {
        let guard = StopOnPanic(self);
        let mut hand = Hand::default();
        while let Some(turn) = self.take(&mut hand, &mut foresee) {
            match run(turn) {
                Ok(Ran::Done) => self.finish(turn.at, &mut hand),
                Ok(Ran::Postponed) => self.postpone(turn.at),
                Err(why) => {
                    self.stop(why);
                    break;
                }
            }
        }
        std::mem::forget(guard);
    }

    /// Why a worker ended early, if one did.
    pub fn stopped(self) -> Option<String> {
        self.pool.into_inner().unwrap_or_else(|e| e.into_inner()).stopped
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The next transaction to run; waits for one. `None`: there will be none.
    fn take(&self, hand: &mut Hand, foresee: &mut impl FnMut(&[u32])) -> Option<Turn> {
        test_mode::pause();
        if let Some(turn) = hand.next.take() {
            return Some(turn);
        }
        if hand.group.is_empty() && self.free_taken.load(Ordering::Relaxed) < self.free.len() {
            let first = self.free_taken.fetch_add(prefetching::GROUP, Ordering::Relaxed);
            let rest = self.free.get(first..).unwrap_or_default();
            hand.group.extend(rest.iter().take(prefetching::GROUP).rev().copied());
            foresee(&hand.group);
        }
        if let Some(at) = hand.group.pop() {
            return Some(Turn { at, after_all: false });
        }
        self.wait()
    }

    fn wait(&self) -> Option<Turn> {
        let mut pool = self.lock();
        loop {
            if self.left.load(Ordering::Acquire) == 0 || pool.stopped.is_some() {
                return None;
            }
            if let Some(turn) = self.choose(&mut pool.ready) {
                return Some(turn);
            }
            pool.sleepers += 1;
            pool = sync::wait(&self.changed, &self.pool, pool);
            pool.sleepers -= 1;
        }
    }

    fn choose(&self, ready: &mut VecDeque<Turn>) -> Option<Turn> {
        match self.preference {
            Preference::Earliest => ready.pop_front(),
            Preference::Latest => {
                let latest = (0..ready.len()).max_by_key(|&place| ready[place].at)?;
                ready.swap_remove_back(latest)
            }
        }
    }

    /// Let the heirs of a finished transaction go.
    fn finish(&self, finished: u32, hand: &mut Hand) {
        let heirs = self.graph.heirs(finished).iter().copied();
        let freed =
            heirs.filter(|heir| self.graph.let_go(*heir)).map(|at| Turn { at, after_all: false });
        let mut freed: SmallVec<[Turn; 8]> = freed.collect();
        if self.preference == Preference::Earliest && !freed.is_empty() {
            hand.next = Some(freed.remove(0));
        }
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if !self.may_postpone && freed.is_empty() && !is_last {
            return;
        }
        let mut pool = self.lock();
        if self.may_postpone {
            freed.extend(pool.note_done(finished));
        }
        pool.ready.extend(freed.iter().copied());
        if pool.sleepers > 0 && (is_last || !freed.is_empty()) {
            self.changed.notify_all();
        }
    }

    fn postpone(&self, at: u32) {
        let mut pool = self.lock();
        pool.postponed.push(at);
        let due = pool.due();
        pool.ready.extend(due);
    }

    fn stop(&self, why: String) {
        self.lock().stopped.get_or_insert(why);
        self.changed.notify_all();
    }
}

impl Pool {
    fn note_done(&mut self, at: u32) -> Option<Turn> {
        self.done[at as usize] = true;
        while self.done.get(self.first_left) == Some(&true) {
            self.first_left += 1;
        }
        self.due()
    }

    /// The postponed transaction that all before it are done for.
    fn due(&mut self) -> Option<Turn> {
        let is_first = |at: &u32| *at as usize == self.first_left;
        let place = self.postponed.iter().position(is_first)?;
        Some(Turn { at: self.postponed.swap_remove(place), after_all: true })
    }
}

/// No worker may wait for a transaction that panicked.
struct StopOnPanic<'a>(&'a Schedule);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop("a worker panicked".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    fn random_graph(random: &mut Random, count: u32) -> (Graph, Vec<(u32, u32)>) {
        let edge = |random: &mut Random| {
            let after = 1 + random.below(u64::from(count) - 1) as u32;
            (random.below(u64::from(after)) as u32, after)
        };
        let edges: Vec<_> = (0..random.below(80)).map(|_| edge(random)).collect();
        (Graph::new(count as usize, std::slice::from_ref(&edges)), edges)
    }

    /// Whatever the preference, the number of workers and what is postponed: every transaction runs
    /// once, and after all that it waits for.
    #[test]
    fn everyone_runs_after_those_it_waits_for() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (graph, edges) = random_graph(&mut random, 40);
            let fickle: Vec<bool> = (0..40).map(|_| random.chance(8)).collect();
            let preference = match seed % 2 {
                0 => Preference::Earliest,
                _ => Preference::Latest,
            };
            let schedule = Schedule::new(graph, preference, true);
            let log = Mutex::new(Vec::new());
            let work = || {
                schedule.work(
                    |_| (),
                    |turn| {
                        if fickle[turn.at as usize] && !turn.after_all {
                            return Ok(Ran::Postponed);
                        }
                        log.lock().unwrap().push(turn);
                        Ok(Ran::Done)
                    },
                );
            };
            std::thread::scope(|scope| {
                scope.spawn(work);
                work();
            });
            let log = log.into_inner().unwrap();
            let place = |at: u32| log.iter().position(|turn| turn.at == at).unwrap();
            assert_eq!(log.len(), 40);
            assert!(edges.iter().all(|&(before, after)| place(before) < place(after)));
            for turn in log.iter().filter(|turn| turn.after_all) {
                assert!((0..turn.at).all(|before| place(before) < place(turn.at)));
            }
        }
    }

    #[test]
    fn a_halt_ends_the_others_waiting() {
        let graph = Graph::new(3, &[vec![(0, 1), (1, 2)]]);
        let schedule = Schedule::new(graph, Preference::Earliest, false);
        let work = || {
            schedule.work(
                |_| (),
                |turn| if turn.at == 1 { Err("sick".to_owned()) } else { Ok(Ran::Done) },
            );
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        assert_eq!(schedule.stopped().as_deref(), Some("sick"));
    }

    #[test]
    fn depths_are_those_of_the_longest_chains() {
        let graph = Graph::new(5, &[vec![(0, 2), (2, 3)], vec![(1, 3), (0, 4)]]);
        assert_eq!(graph.depths(), [0, 0, 1, 2, 1]);
    }
}
