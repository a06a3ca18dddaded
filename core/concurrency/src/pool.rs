//! The worker pool on which a protocol runs its parallel steps.
//!
//! A pool of n workers is n - 1 parked threads and the caller. `run` posts a job of n *parts* and
//! returns when all are done: a fork and a join, as every step of a block protocol needs it. The
//! caller runs part 0 and idle threads take the other parts. While a task runs, and all threads may
//! be busy, the caller takes the rest as well, so a job proceeds however few threads are free.
//!
//! ```text
//!   caller    post ─ part 0 ───────────┐ spin, sleep │ post ─ part 0 …
//!   worker 1     └ part 1 ──────────┐ spin … ──────────── └ part 1 …
//! ```
//!
//! *Two jobs at a time.* [`WorkerPool::spawn`] posts a *task*, which may run jobs of its own;
//! [`WorkerPool::join`] runs one function here and another as a task. While one of the two waits,
//! or runs a step that cannot be divided, the remaining threads work for the other. No more threads
//! run than the pool has workers, and none is idle while a part is open.
//!
//! ```text
//!   caller    finish H: part 0, alone, part 0 and 1, alone ┐ part 1 of prepare ┐
//!   worker 1  prepare H+1: part 0 ─────────────────────────┴───────────────────┘
//! ```
//!
//! The parts of a job may wait for each other, provided that those of concurrent tasks do not.
//!
//! The steps of a block follow each other within microseconds, so a thread that waits spins briefly
//! before it sleeps on a condition variable. It does not spin where there are fewer cores than
//! workers, since it would occupy the very core that it waits for.
//!
//! Cost: a sleeping worker takes 5 to 50 microseconds to wake up, so a caller with little work
//! should do it alone: see [`WorkerPool::run_if_large`].

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::test_mode;

type Job = Arc<dyn Fn(usize) + Send + Sync>;

/// Looks, each some ten nanoseconds, before a wait becomes a sleep.
const LOOKS: u32 = 2_000;

/// How far a job is.
struct Progress {
    /// Parts that are not done.
    left: AtomicUsize,
    panicked: AtomicBool,
}

impl Progress {
    fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// A job of which parts are open.
struct Post {
    job: Job,
    open: Range<usize>,
    progress: Arc<Progress>,
}

/// A part that was taken.
struct Part {
    job: Job,
    number: usize,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Board {
    /// Oldest first.
    posts: VecDeque<Post>,
    /// Those that sleep until a job is done, and those that would take a part meanwhile.
    waiting: usize,
    helping: usize,
    closed: bool,
}

impl Board {
    fn take(&mut self) -> Option<Part> {
        self.take_at(0)
    }

    fn take_of(&mut self, progress: &Arc<Progress>) -> Option<Part> {
        let at = self.posts.iter().position(|post| Arc::ptr_eq(&post.progress, progress))?;
        self.take_at(at)
    }

    fn take_at(&mut self, at: usize) -> Option<Part> {
        let post = self.posts.get_mut(at)?;
        let number = post.open.next()?;
        let part =
            Part { job: Arc::clone(&post.job), number, progress: Arc::clone(&post.progress) };
        if post.open.is_empty() {
            self.posts.remove(at);
        }
        Some(part)
    }
}

/// `open` changes under the lock of `board`; without it it may only be looked at.
struct Shared {
    workers: usize,
    board: Mutex<Board>,
    /// Parts that no thread has taken.
    open: AtomicUsize,
    /// Tasks that are not done.
    tasks: AtomicUsize,
    posted: Condvar,
    finished: Condvar,
    looks: u32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits a while for something to become true; the caller then looks again.
    fn look_for(&self, come: impl Fn() -> bool) {
        for _ in 0..self.looks {
            if come() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn post(&self, job: Job, open: Range<usize>, parts: usize) -> Arc<Progress> {
        let left = AtomicUsize::new(parts);
        let progress = Arc::new(Progress { left, panicked: AtomicBool::new(false) });
        let mut board = self.lock();
        self.open.fetch_add(open.len(), Ordering::Relaxed);
        board.posts.push_back(Post { job, open, progress: Arc::clone(&progress) });
        drop(board);
        self.posted.notify_all();
        progress
    }

    fn taken(&self, part: Option<Part>) -> Option<Part> {
        if part.is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        part
    }

    fn perform(&self, part: Part) {
        let Part { job, number, progress } = part;
        let result = catch_unwind(AssertUnwindSafe(|| job(number)));
        // What the job captured must be gone before the caller is told that all is done.
        drop(job);
        self.done(&progress, result.is_err());
    }

    fn done(&self, progress: &Progress, panicked: bool) {
        if panicked {
            progress.panicked.store(true, Ordering::Relaxed);
        }
        if progress.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let board = self.lock();
        if board.waiting > 0 {
            self.finished.notify_all();
        }
        if board.helping > 0 {
            self.posted.notify_all();
        }
    }

    /// Waits for parts that others have taken.
    fn wait_for(&self, progress: &Progress) {
        self.look_for(|| progress.is_done());
        if progress.is_done() {
            return;
        }
        let mut board = self.lock();
        board.waiting += 1;
        while !progress.is_done() {
            board = self.finished.wait(board).unwrap_or_else(|e| e.into_inner());
        }
        board.waiting -= 1;
    }

    /// Takes parts of any job until this one is done.
    fn help_until_done(&self, progress: &Progress) {
        loop {
            self.look_for(|| progress.is_done() || self.open.load(Ordering::Relaxed) > 0);
            if progress.is_done() {
                return;
            }
            let mut board = self.lock();
            match self.taken(board.take()) {
                Some(part) => {
                    drop(board);
                    self.perform(part);
                }
                None if progress.is_done() => return,
                None => {
                    board.helping += 1;
                    board = self.posted.wait(board).unwrap_or_else(|e| e.into_inner());
                    board.helping -= 1;
                }
            }
        }
    }

    /// What a thread of the pool does.
    fn serve(&self) {
        loop {
            self.look_for(|| self.open.load(Ordering::Relaxed) > 0);
            let mut board = self.lock();
            let part = loop {
                if board.closed {
                    return;
                }
                match self.taken(board.take()) {
                    Some(part) => break part,
                    None => board = self.posted.wait(board).unwrap_or_else(|e| e.into_inner()),
                }
            };
            drop(board);
            self.perform(part);
        }
    }
}

pub struct WorkerPool {
    shared: Arc<Shared>,
    /// None where this is what a task sees of its pool.
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// A pool of `workers` (at least one, the caller).
    pub fn new(workers: usize) -> WorkerPool {
        WorkerPool::start(workers.max(1), workers.max(1) - 1)
    }

    /// A pool of `workers` (at least one) for tasks: the caller, who posts them, is none of them.
    pub fn of_tasks(workers: usize) -> WorkerPool {
        WorkerPool::start(workers.max(1), workers.max(1))
    }

    fn start(workers: usize, threads: usize) -> WorkerPool {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            workers,
            board: Mutex::default(),
            open: AtomicUsize::new(0),
            tasks: AtomicUsize::new(0),
            posted: Condvar::new(),
            finished: Condvar::new(),
            looks: if workers <= cores { LOOKS } else { 0 },
        });
        let threads = (1..=threads)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("worker-{worker}"))
                    .spawn(move || shared.serve())
                    .expect("the operating system refused a thread")
            })
            .collect();
        WorkerPool { shared, threads }
    }

    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// `job(w)` for each w in `0..workers`, in parallel as far as workers are free; returns when
    /// all are done. A panic of any of them becomes the caller's.
    pub fn run(&self, job: impl Fn(usize) + Send + Sync + 'static) {
        let workers = self.workers();
        if workers == 1 {
            return job(0);
        }
        let test_mode = test_mode::Job::new(workers);
        let takes_turns = test_mode.takes_turns();
        let job: Job = Arc::new(move |worker| {
            let _on = test_mode.enter(worker);
            test_mode::pause();
            job(worker);
        });
        let progress = self.shared.post(Arc::clone(&job), 1..workers, workers);
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        drop(job);
        self.shared.done(&progress, false);
        // A thread that is about to take a part is waited for: it finds the next job awake. Beside
        // a task there may be none; and parts that take turns wait for each other.
        let is_alone = self.shared.tasks.load(Ordering::Relaxed) == 0;
        while !takes_turns && !is_alone && self.take_one_of(&progress) {}
        self.shared.wait_for(&progress);
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!progress.panicked.load(Ordering::Relaxed), "a worker panicked");
    }

    fn take_one_of(&self, progress: &Arc<Progress>) -> bool {
        let part = self.shared.taken(self.shared.lock().take_of(progress));
        part.map(|part| self.shared.perform(part)).is_some()
    }

    /// As `run` when `items` are worth the wake-ups, otherwise `job(0)` alone: jobs share their
    /// items out dynamically, so that any number of callers finishes them all.
    pub fn run_if_large(&self, items: usize, job: impl Fn(usize) + Send + Sync + 'static) {
        const ITEMS_PER_WAKE_UP: usize = 64;
        if items < ITEMS_PER_WAKE_UP { job(0) } else { self.run(job) }
    }

    /// Posts a task for the threads of the pool. It is told of the pool, to run jobs on it, and
    /// must not panic.
    pub fn spawn(&self, task: impl FnOnce(&WorkerPool) + Send + 'static) {
        self.post_task(task);
    }

    fn post_task(&self, task: impl FnOnce(&WorkerPool) + Send + 'static) -> Arc<Progress> {
        let pool = WorkerPool { shared: Arc::clone(&self.shared), threads: Vec::new() };
        let task = Mutex::new(Some((task, pool)));
        let shared = Arc::clone(&self.shared);
        let job: Job = Arc::new(move |_| {
            let task = task.lock().unwrap_or_else(|e| e.into_inner()).take();
            if let Some((task, pool)) = task {
                task(&pool);
            }
            shared.tasks.fetch_sub(1, Ordering::Relaxed);
        });
        self.shared.tasks.fetch_add(1, Ordering::Relaxed);
        self.shared.post(job, 0..1, 1)
    }

    /// Does both at the same time, as far as workers are free: `job` here, `beside` where one is.
    /// A panic of either becomes the caller's.
    pub fn join<A, B: Send + 'static>(
        &self,
        job: impl FnOnce() -> A,
        beside: impl FnOnce(&WorkerPool) -> B + Send + 'static,
    ) -> (A, B) {
        if self.workers() == 1 {
            return (job(), beside(self));
        }
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let progress = self.post_task(move |pool| {
            let _ = tell.send(catch_unwind(AssertUnwindSafe(|| beside(pool))));
        });
        let own = catch_unwind(AssertUnwindSafe(job));
        self.shared.help_until_done(&progress);
        let other = told.recv().expect("a task that is done has told");
        match (own, other) {
            (Ok(own), Ok(other)) => (own, other),
            (Err(panic), _) | (_, Err(panic)) => resume_unwind(panic),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        let posts = {
            let mut board = self.shared.lock();
            board.closed = true;
            std::mem::take(&mut board.posts)
        };
        drop(posts);
        self.shared.posted.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
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
            let pool = WorkerPool::new(workers);
            let counts: Arc<Vec<AtomicUsize>> =
                Arc::new((0..workers).map(|_| AtomicUsize::new(0)).collect());
            for _ in 0..100 {
                let counts = Arc::clone(&counts);
                pool.run(move |worker| {
                    counts[worker].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 100));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = WorkerPool::new(3);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|worker| assert_ne!(worker, 2));
        }));
        assert!(caught.is_err());
        pool.run(|_| {});
    }

    #[test]
    fn two_jobs_at_a_time_are_both_done_by_any_number_of_workers() {
        for workers in [1, 2, 3, 8] {
            let pool = WorkerPool::new(workers);
            let counts: Arc<Vec<AtomicUsize>> =
                Arc::new((0..2 * workers).map(|_| AtomicUsize::new(0)).collect());
            let count = |first: usize| {
                let counts = Arc::clone(&counts);
                move |part: usize| {
                    counts[first + part].fetch_add(1, Ordering::Relaxed);
                }
            };
            for round in 0..200 {
                let (here, there) = (count(0), count(workers));
                let run_there = move |pool: &WorkerPool| {
                    (0..5).for_each(|_| pool.run(there.clone()));
                    round
                };
                let run_here = || (0..3).for_each(|_| pool.run(here.clone()));
                assert_eq!(pool.join(run_here, run_there), ((), round));
            }
            let counts: Vec<_> = counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
            let expected = [vec![600; workers], vec![1000; workers]].concat();
            assert_eq!(counts, expected);
        }
    }

    /// The caller works for the task once it has nothing else to do, and what the task's jobs
    /// captured is gone when they are done.
    #[test]
    fn a_job_needs_no_thread_but_the_one_that_runs_it() {
        let pool = WorkerPool::of_tasks(2);
        let (tell, told) = std::sync::mpsc::channel();
        for task in 0..10 {
            let tell = tell.clone();
            pool.spawn(move |pool| {
                let captured = Arc::new(());
                let job = Arc::clone(&captured);
                pool.run(move |_| drop(Arc::clone(&job)));
                assert!(Arc::into_inner(captured).is_some());
                tell.send(task).unwrap();
            });
        }
        let mut tasks: Vec<i32> = (0..10).map(|_| told.recv().unwrap()).collect();
        tasks.sort_unstable();
        assert_eq!(tasks, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_beside_reaches_the_caller_and_the_pool_goes_on() {
        let pool = WorkerPool::new(2);
        for beside in [true, false] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.join(|| assert!(beside, "here"), move |_| assert!(!beside, "there"))
            }));
            assert!(caught.is_err());
        }
        pool.run(|_| {});
        assert_eq!(pool.join(|| 1, |_| 2), (1, 2));
    }
}
