//! Who drains which queue: the execution-priority invariance, kept by counters.
//!
//! *Invariance.* For every record, what a planner of higher priority queued runs before anything
//! that one of lower priority queued. Planners choose their ranges on their own, so two queues may
//! share a part of their ranges only; a queue therefore waits for **every** overlapping queue of
//! higher priority, which is a count, and the last of them to be drained opens it.
//!
//! ```text
//!   planner 0   [ Q0 ][    Q1    ]          Q2 waits for Q0 and Q1, Q3 for Q1
//!   planner 1   [   Q2   ][  Q3  ]
//!
//!   Waiting ─► Ready ─► Running ─► Done
//!                ▲         │
//!                └─ Parked ┘   its next fragment needs a value that is not there yet
//! ```
//!
//! *Progress.* The oldest unfinished transaction has all queues before its fragments drained, and
//! its fragments stand in an order that respects their dependencies; so one of them is at the head
//! of a queue that is ready. A worker never waits inside a queue: it parks it, with its position,
//! and takes another; it sleeps only when there is none. A worker that publishes a value wakes
//! sleepers: either the sleeper, which counts itself before it looks a last time, sees the value,
//! or the publisher sees the count.

use kit::sync::atomic::{AtomicU32, Ordering, fence};
use kit::sync::{self, Condvar, Mutex, MutexGuard};

use super::queues::Queue;

/// What the next fragment of a parked queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A published value of the share.
    Cell { share: u32, cell: u32 },
    /// A transaction that runs in one piece, once all its queues are here.
    Whole { share: u32, whole: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Waiting,
    Ready,
    Parked(Wait),
    Running,
    Done,
}

struct Place {
    status: Status,
    /// Fragments that are done.
    position: usize,
    /// Overlapping queues of higher priority that are not drained.
    waits: u32,
    successors: Vec<u32>,
}

struct State {
    places: Vec<Place>,
    left: usize,
    stopped: Option<String>,
}

pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
    sleepers: AtomicU32,
    /// Takes the queues in any order but the right one, for tests of the tests.
    careless: bool,
}

impl Board {
    /// `shares`: the queues of each planner, in the order of their priority. Queues are numbered
    /// through.
    pub fn new(shares: &[&[Queue]], careless: bool) -> Board {
        let mut places: Vec<Place> = Vec::new();
        let mut earlier: Vec<&Queue> = Vec::new();
        for queues in shares {
            let before = earlier.len();
            for queue in *queues {
                let id = places.len() as u32;
                let mut waits = 0;
                for (place, other) in earlier[..before].iter().enumerate() {
                    if other.overlaps(queue) && !careless {
                        waits += 1;
                        places[place].successors.push(id);
                    }
                }
                let status = if waits == 0 { Status::Ready } else { Status::Waiting };
                places.push(Place { status, position: 0, waits, successors: Vec::new() });
                earlier.push(queue);
            }
        }
        let left = places.len();
        debug_assert!(
            places.first().is_none_or(|first| first.status == Status::Ready),
            "the first queue waits for no other"
        );
        Board {
            state: Mutex::new(State { places, left, stopped: None }),
            changed: Condvar::new(),
            sleepers: AtomicU32::new(0),
            careless,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A queue to drain, and from where; sleeps until there is one. `None`: all are drained.
    pub fn take(&self, is_there: impl Fn(Wait) -> bool) -> Option<(usize, usize)> {
        let mut state = self.lock();
        loop {
            if state.left == 0 || state.stopped.is_some() {
                return None;
            }
            if let Some(id) = self.runnable(&state, &is_there) {
                state.places[id].status = Status::Running;
                return Some((id, state.places[id].position));
            }
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.runnable(&state, &is_there).is_none() {
                state = sync::wait(&self.changed, &self.state, state);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn runnable(&self, state: &State, is_there: &impl Fn(Wait) -> bool) -> Option<usize> {
        let is_runnable = |place: &Place| match place.status {
            Status::Ready => true,
            Status::Parked(wait) => is_there(wait),
            Status::Waiting | Status::Running | Status::Done => false,
        };
        match self.careless {
            false => state.places.iter().position(is_runnable),
            true => state.places.iter().rposition(is_runnable),
        }
    }

    /// Lay a queue aside; all before `position` is done.
    pub fn park(&self, id: usize, position: usize, wait: Wait) {
        let place = &mut self.lock().places[id];
        debug_assert!(place.status == Status::Running && place.position <= position);
        place.position = position;
        place.status = Status::Parked(wait);
    }

    pub fn finish(&self, id: usize) {
        let mut state = self.lock();
        debug_assert_eq!(state.places[id].status, Status::Running, "a queue is drained once");
        state.places[id].status = Status::Done;
        state.left -= 1;
        for successor in std::mem::take(&mut state.places[id].successors) {
            let place = &mut state.places[successor as usize];
            debug_assert_eq!(
                place.status,
                Status::Waiting,
                "it ran before a queue that it waits for"
            );
            place.waits -= 1;
            if place.waits == 0 {
                place.status = Status::Ready;
            }
        }
        self.changed.notify_all();
    }

    /// Something that a parked queue may wait for is there now.
    pub fn published(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// None may wait for a worker that is gone.
    pub fn stop(&self, why: String) {
        self.lock().stopped.get_or_insert(why);
        self.changed.notify_all();
    }

    pub fn stopped(&self) -> Option<String> {
        self.lock().stopped.clone()
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    //! `RUSTFLAGS="--cfg shuttle" cargo test -p protocols --lib schedules`.

    use kit::sync::Arc;
    use kit::sync::atomic::AtomicBool;
    use kit::sync::thread;

    use super::*;

    const WAIT: Wait = Wait::Cell { share: 0, cell: 0 };

    /// Queue 0 needs a value that queue 1 publishes; queue 2 of the next planner overlaps both.
    /// Sleepers are woken, every queue is drained once, and the last one last.
    fn two_workers_and_a_value() {
        let queue = |sectors| Queue { sectors, entries: Vec::new() };
        let (first, second) = ([queue(0..4), queue(4..8)], [queue(2..6)]);
        let board = Arc::new(Board::new(&[&first, &second], false));
        let is_published = Arc::new(AtomicBool::new(false));
        let drained = Arc::new([0, 1, 2].map(|_| AtomicBool::new(false)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (board, flag, drained) = (board.clone(), is_published.clone(), drained.clone());
                thread::spawn(move || {
                    let is_there = |_| flag.load(Ordering::Acquire);
                    while let Some((id, _)) = board.take(is_there) {
                        match id {
                            0 if !is_there(WAIT) => {
                                board.park(0, 0, WAIT);
                                continue;
                            }
                            1 => {
                                flag.store(true, Ordering::Release);
                                board.published();
                            }
                            2 => assert!((0..2).all(|q| drained[q].load(Ordering::Acquire))),
                            _ => {}
                        }
                        assert!(!drained[id].swap(true, Ordering::AcqRel));
                        board.finish(id);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(drained.iter().all(|queue| queue.load(Ordering::Acquire)));
    }

    #[test]
    fn nobody_sleeps_through_the_value_that_he_waits_for() {
        shuttle::check_random(two_workers_and_a_value, 5_000);
    }
}
