//! Topological stages, and running them one after another.

use std::sync::atomic::{AtomicUsize, Ordering};

use concurrency::prefetching;
use concurrency::schedule::Graph;
use kit::sync::{self, Condvar, Mutex, MutexGuard};

/// Transactions by stage.
#[derive(Debug, Default)]
pub struct Stages {
    /// Ascending within each stage.
    order: Vec<u32>,
    /// Where each stage ends in `order`.
    ends: Vec<usize>,
}

impl Stages {
    /// Each transaction in the stage after the latest of those that it waits for. The `alone` have
    /// a stage of their own: after all before them, before all after them.
    pub fn of(graph: &Graph, alone: &[bool], last_only: bool) -> Stages {
        let mut stage = vec![0; graph.len()];
        let (mut floor, mut top) = (0, 0);
        for at in 0..graph.len() {
            stage[at] = match alone[at] {
                true => top,
                false => floor.max(stage[at]),
            };
            top = top.max(stage[at] + 1);
            if alone[at] {
                floor = top;
            }
            for &heir in graph.heirs(at as u32) {
                let after = stage[at] + 1;
                let heir = &mut stage[heir as usize];
                *heir = if last_only { after } else { after.max(*heir) };
            }
        }
        Stages::by_number(&stage, top)
    }

    fn by_number(stage: &[usize], count: usize) -> Stages {
        let mut ends = vec![0; count];
        stage.iter().for_each(|&s| ends[s] += 1);
        let mut next = 0;
        let mut places: Vec<usize> = Vec::with_capacity(count);
        for end in &mut ends {
            places.push(next);
            next += *end;
            *end = next;
        }
        let mut order = vec![0; stage.len()];
        for (at, &stage) in stage.iter().enumerate() {
            order[places[stage]] = at as u32;
            places[stage] += 1;
        }
        Stages { order, ends }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn members(&self, stage: usize) -> &[u32] {
        let first = stage.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.order[first..self.ends[stage]]
    }

    /// The last of each stage first: no order within a stage is worse for a missing edge.
    pub fn backwards(mut self) -> Stages {
        let mut first = 0;
        for &end in &self.ends {
            self.order[first..end].reverse();
            first = end;
        }
        self
    }
}

/// Stages that workers pull from.
pub struct Pull {
    stages: Stages,
    /// How many of each stage were taken.
    taken: Vec<AtomicUsize>,
    /// How many of each stage are not done.
    left: Vec<AtomicUsize>,
    gate: Mutex<Gate>,
    opened: Condvar,
}

#[derive(Default)]
struct Gate {
    stage: usize,
    /// A worker ended early: by a halt, or by a panic.
    stopped: Option<String>,
}

impl Pull {
    pub fn new(stages: Stages) -> Pull {
        let left = (0..stages.len()).map(|stage| AtomicUsize::new(stages.members(stage).len()));
        Pull {
            taken: (0..stages.len()).map(|_| AtomicUsize::new(0)).collect(),
            left: left.collect(),
            gate: Mutex::default(),
            opened: Condvar::new(),
            stages,
        }
    }

    /// Run the members of each stage, as many as there are for this worker; then wait for the
    /// stage's end. `foresee` is told which come next.
    pub fn work(
        &self,
        mut foresee: impl FnMut(&[u32]),
        mut run: impl FnMut(u32) -> Result<(), String>,
    ) {
        let guard = StopOnPanic(self);
        let mut stage = 0;
        while stage < self.stages.len() {
            let members = self.stages.members(stage);
            let first = self.taken[stage].fetch_add(prefetching::GROUP, Ordering::Relaxed);
            let rest = members.get(first..).unwrap_or_default();
            let group = &rest[..rest.len().min(prefetching::GROUP)];
            if group.is_empty() {
                match self.wait_for(stage) {
                    Some(next) => stage = next,
                    None => break,
                }
                continue;
            }
            foresee(group);
            if let Err(why) = group.iter().try_for_each(|&at| run(at)) {
                self.stop(why);
                break;
            }
            let left = self.left[stage].fetch_sub(group.len(), Ordering::AcqRel);
            debug_assert!(left >= group.len(), "a transaction of a stage runs once");
            // The last worker has acquired what the others wrote.
            if left == group.len() {
                self.lock().stage = stage + 1;
                self.opened.notify_all();
                stage += 1;
            }
        }
        std::mem::forget(guard);
    }

    /// Why a worker ended early, if one did.
    pub fn stopped(self) -> Option<String> {
        self.gate.into_inner().unwrap_or_else(|e| e.into_inner()).stopped
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The stage that is open once `stage` is over. `None`: a worker stopped.
    fn wait_for(&self, stage: usize) -> Option<usize> {
        let mut gate = self.lock();
        while gate.stage <= stage && gate.stopped.is_none() {
            gate = sync::wait(&self.opened, &self.gate, gate);
        }
        gate.stopped.is_none().then_some(gate.stage)
    }

    fn stop(&self, why: String) {
        self.lock().stopped.get_or_insert(why);
        self.opened.notify_all();
    }
}

/// No worker may wait for the stage of a transaction that panicked.
struct StopOnPanic<'a>(&'a Pull);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop("a worker panicked".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(stages: &Stages) -> Vec<&[u32]> {
        (0..stages.len()).map(|stage| stages.members(stage)).collect()
    }

    /// Sharma 2020, 4.6.3: stages follow the topological order of the conflict graph.
    #[test]
    fn a_transaction_comes_one_stage_after_the_latest_that_it_conflicts_with() {
        let graph = Graph::new(6, &[vec![(0, 2), (2, 3), (1, 3), (0, 4)]]);
        let stages = Stages::of(&graph, &[false; 6], false);
        assert_eq!(members(&stages), [&[0, 1, 5][..], &[2, 4], &[3]]);
    }

    #[test]
    fn one_whose_accesses_are_unknown_has_a_stage_of_its_own() {
        let graph = Graph::new(5, &[vec![(0, 1)]]);
        let stages = Stages::of(&graph, &[false, false, true, false, false], false);
        assert_eq!(members(&stages), [&[0][..], &[1], &[2], &[3, 4]]);
    }

    #[test]
    fn no_stage_begins_before_the_one_before_it_has_ended() {
        let graph = Graph::new(90, &[(0..60).map(|at| (at, at + 30)).collect()]);
        let pull = Pull::new(Stages::of(&graph, &[false; 90], false).backwards());
        let log = Mutex::new(Vec::new());
        let work = || {
            let run = |at| {
                log.lock().unwrap().push(at / 30);
                Ok(())
            };
            pull.work(|_| (), run);
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        let log = log.into_inner().unwrap();
        assert_eq!(log.len(), 90);
        assert!(log.is_sorted());
    }

    #[test]
    fn a_halt_ends_the_others_waiting() {
        let graph = Graph::new(2, &[vec![(0, 1)]]);
        let pull = Pull::new(Stages::of(&graph, &[false; 2], false));
        let work = || pull.work(|_| (), |_| Err("sick".to_owned()));
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        assert_eq!(pull.stopped().as_deref(), Some("sick"));
    }
}
