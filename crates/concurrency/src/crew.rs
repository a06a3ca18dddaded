//! The workers that a protocol runs its parallel steps on.
//!
//! A crew of n is n - 1 parked threads and the caller. `run` hands the same job to all of them and
//! returns when every one is done: a fork and a join, which is the shape of every step of a
//! block protocol. The steps of a block follow each other within microseconds, so whoever waits
//! looks for the next one a short while before it sleeps on a condition variable; not at all where
//! there are fewer cores than workers, since then it would wait for the very core that it holds.
//!
//! ```text
//!   caller    post ─ job(0) ───────────┐ look, sleep │ post ─ job(0) …
//!   worker 1     └ job(1) ──────────┐ look … ──────────── └ job(1) …
//! ```
//!
//! Cost: a wake-up of a sleeping worker takes 5 to 50 microseconds until it runs, so a caller with
//! little to do should do it alone: see [`Crew::run_if_large`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use crate::trial;

type Job = Arc<dyn Fn(usize) + Send + Sync>;

/// Looks, each some ten nanoseconds, before a wait becomes a sleep.
const LOOKS: u32 = 2_000;

#[derive(Default)]
struct Board {
    job: Option<Job>,
    panicked: bool,
    closed: bool,
}

/// `turn` and `running` change under the lock of `board`; without it they may only be looked at.
struct Shared {
    board: Mutex<Board>,
    /// Counts jobs, so that a worker takes each one once.
    turn: AtomicU64,
    running: AtomicUsize,
    posted: Condvar,
    finished: Condvar,
    looks: u32,
}

impl Shared {
    /// Waits a while for something to become true; the caller then sees for himself.
    fn look_for(&self, come: impl Fn() -> bool) {
        for _ in 0..self.looks {
            if come() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

pub struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    /// A crew of `workers` (at least one, the caller).
    pub fn new(workers: usize) -> Crew {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            board: Mutex::default(),
            turn: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            posted: Condvar::new(),
            finished: Condvar::new(),
            looks: if workers <= cores { LOOKS } else { 0 },
        });
        let threads = (1..workers.max(1))
            .map(|worker| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("worker-{worker}"))
                    .spawn(move || work(&shared, worker))
                    .expect("the operating system refused a thread")
            })
            .collect();
        Crew { shared, threads }
    }

    pub fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// `job(w)` for each worker w in `0..workers`, in parallel; returns when all are done. A panic
    /// of any of them becomes the caller's.
    pub fn run(&self, job: impl Fn(usize) + Send + Sync + 'static) {
        if self.threads.is_empty() {
            return job(0);
        }
        let trial = trial::Job::new(self.workers());
        let job: Job = Arc::new(move |worker| {
            let _on = trial.enter(worker);
            trial::pause();
            job(worker);
        });
        {
            let mut board = self.lock();
            board.job = Some(Arc::clone(&job));
            board.panicked = false;
            self.shared.running.store(self.threads.len(), Ordering::Relaxed);
            self.shared.turn.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.posted.notify_all();
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(0)));
        self.shared.look_for(|| self.shared.running.load(Ordering::Relaxed) == 0);
        let mut board = self.lock();
        while self.shared.running.load(Ordering::Relaxed) > 0 {
            board = self.shared.finished.wait(board).unwrap_or_else(|e| e.into_inner());
        }
        board.job = None;
        let others_panicked = board.panicked;
        drop(board);
        if let Err(panic) = own {
            std::panic::resume_unwind(panic);
        }
        assert!(!others_panicked, "a worker panicked");
    }

    /// As `run` when `items` are worth the wake-ups, otherwise `job(0)` alone: jobs share their
    /// items out dynamically, so that any number of callers finishes them all.
    pub fn run_if_large(&self, items: usize, job: impl Fn(usize) + Send + Sync + 'static) {
        const ITEMS_PER_WAKE_UP: usize = 64;
        if items < ITEMS_PER_WAKE_UP { job(0) } else { self.run(job) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Board> {
        self.shared.board.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.lock().closed = true;
        self.shared.posted.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, worker: usize) {
    let mut done = 0;
    loop {
        shared.look_for(|| shared.turn.load(Ordering::Relaxed) > done);
        let job = {
            let mut board = shared.board.lock().unwrap_or_else(|e| e.into_inner());
            loop {
                if board.closed {
                    return;
                }
                let turn = shared.turn.load(Ordering::Relaxed);
                if turn > done
                    && let Some(job) = &board.job
                {
                    done = turn;
                    break Arc::clone(job);
                }
                board = shared.posted.wait(board).unwrap_or_else(|e| e.into_inner());
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(worker)));
        // What the job captured must be gone before the caller is told that all is done.
        drop(job);
        let mut board = shared.board.lock().unwrap_or_else(|e| e.into_inner());
        board.panicked |= result.is_err();
        if shared.running.fetch_sub(1, Ordering::Relaxed) == 1 {
            shared.finished.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_worker_runs_each_job_once() {
        for workers in [1, 2, 8] {
            let crew = Crew::new(workers);
            let counts: Arc<Vec<AtomicUsize>> =
                Arc::new((0..workers).map(|_| AtomicUsize::new(0)).collect());
            for _ in 0..100 {
                let counts = Arc::clone(&counts);
                crew.run(move |worker| {
                    counts[worker].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 100));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_crew_goes_on() {
        let crew = Crew::new(3);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            crew.run(|worker| assert_ne!(worker, 2));
        }));
        assert!(caught.is_err());
        crew.run(|_| {});
    }
}
