//! The collaborative scheduler: who executes or validates what next.
//!
//! Two counters pass over the block, one that hands out executions and one that hands out
//! validations; whatever has to be done again sets one of them back. Lower transactions come first,
//! since higher ones rest on them.
//!
//! ```text
//!            validation_next   execution_next
//!                   ▼                ▼
//!   T0  T1  T2  T3  T4  T5  T6  T7  T8  T9
//!   executed ──────────────────────┘ └ ready
//!
//!   ready(i) ──► executing(i) ──► executed(i) ──► aborting(i) ──► ready(i + 1)
//!                    │                  a validation failed         ▲
//!                    └─────────────► aborting(i) ───────────────────┘
//!                     met an estimate           the one it waits for was executed
//! ```
//!
//! *The end.* All is done when both counters are past the block, no worker is at work, and neither
//! was set back between the look at the ones and at the other; `set_backs` counts for that purpose.
//!
//! *Parking.* A worker that finds both counters past the block, and others at work, can only be
//! needed again after a set-back or at the end. It announces itself in `sleepers`, looks again, and
//! sleeps; a worker that sets a counter back, or finds the end, first writes and then looks for
//! sleepers. Of the two looks one sees the other's write (Dekker's scheme, sequentially
//! consistent), so no worker sleeps through a wake-up.
//!
//! *Cost.* Some six atomic operations and four short locks, hardly ever contended, for a
//! transaction that is executed and validated once.

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use kit::sync::{self, Condvar, Mutex, lock};

/// One execution of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    pub transaction: u32,
    pub incarnation: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    Execute(Version),
    Validate(Version),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ready,
    Executing,
    Executed,
    Aborting,
}

struct Transaction {
    state: Mutex<(u32, Status)>,
    /// Transactions that wait for the next end of an execution of this one.
    waiting: Mutex<Vec<u32>>,
}

pub struct Scheduler {
    transactions: Vec<Transaction>,
    execution_next: CachePadded<AtomicUsize>,
    validation_next: CachePadded<AtomicUsize>,
    set_backs: CachePadded<AtomicUsize>,
    /// Tasks that were handed out and are not finished.
    active: CachePadded<AtomicUsize>,
    done: AtomicBool,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    wake_up: Condvar,
}

const ORDER: Ordering = Ordering::SeqCst;

impl Scheduler {
    pub fn new(count: usize) -> Scheduler {
        let transaction = || Transaction {
            state: Mutex::new((0, Status::Ready)),
            waiting: Mutex::new(Vec::new()),
        };
        Scheduler {
            transactions: (0..count).map(|_| transaction()).collect(),
            execution_next: CachePadded::new(AtomicUsize::new(0)),
            validation_next: CachePadded::new(AtomicUsize::new(0)),
            set_backs: CachePadded::new(AtomicUsize::new(0)),
            active: CachePadded::new(AtomicUsize::new(0)),
            done: AtomicBool::new(count == 0),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            wake_up: Condvar::new(),
        }
    }

    fn count(&self) -> usize {
        self.transactions.len()
    }

    /// What to do next; sleeps while there is nothing. `None`: all is done.
    pub fn next_task(&self) -> Option<Task> {
        while !self.done.load(ORDER) {
            let set_backs = self.set_backs.load(ORDER);
            let execution_next = self.execution_next.load(ORDER);
            let validation_next = self.validation_next.load(ORDER);
            if execution_next.min(validation_next) >= self.count() {
                if self.active.load(ORDER) == 0 && self.set_backs.load(ORDER) == set_backs {
                    self.end();
                } else {
                    self.sleep(set_backs);
                }
                continue;
            }
            let task = match validation_next < execution_next {
                true => self.next_validation().map(Task::Validate),
                false => self.next_execution().map(Task::Execute),
            };
            if task.is_some() {
                return task;
            }
        }
        None
    }

    /// Execute a transaction out of turn.
    pub fn claim(&self, transaction: usize) -> Option<Version> {
        self.active.fetch_add(1, ORDER);
        let version = self.try_execute(transaction);
        if version.is_none() {
            self.release();
        }
        version
    }

    fn next_execution(&self) -> Option<Version> {
        self.active.fetch_add(1, ORDER);
        let next = self.execution_next.fetch_add(1, ORDER);
        let version = self.try_execute(next);
        if version.is_none() {
            self.release();
        }
        version
    }

    fn next_validation(&self) -> Option<Version> {
        self.active.fetch_add(1, ORDER);
        let next = self.validation_next.fetch_add(1, ORDER);
        if let Some(transaction) = self.transactions.get(next) {
            let (incarnation, status) = *lock(&transaction.state);
            if status == Status::Executed {
                return Some(Version { transaction: next as u32, incarnation });
            }
        }
        self.release();
        None
    }

    fn try_execute(&self, transaction: usize) -> Option<Version> {
        let mut state = lock(&self.transactions.get(transaction)?.state);
        if state.1 != Status::Ready {
            return None;
        }
        state.1 = Status::Executing;
        Some(Version { transaction: transaction as u32, incarnation: state.0 })
    }

    /// A task is finished. Its worker comes back for the next one, so it will see the end if this
    /// was the last; those who sleep need not be told.
    fn release(&self) {
        let active = self.active.fetch_sub(1, ORDER);
        debug_assert!(active > 0, "a task is finished once");
    }

    /// An execution met an estimate of `blocking` and cannot go on. False: `blocking` has been
    /// executed since, so it can.
    pub fn wait_for(&self, transaction: u32, blocking: u32) -> bool {
        debug_assert!(blocking < transaction, "estimates are of earlier transactions");
        let mut waiting = lock(&self.transactions[blocking as usize].waiting);
        if lock(&self.transactions[blocking as usize].state).1 == Status::Executed {
            return false;
        }
        {
            let mut state = lock(&self.transactions[transaction as usize].state);
            debug_assert_eq!(state.1, Status::Executing, "only an execution meets an estimate");
            state.1 = Status::Aborting;
        }
        waiting.push(transaction);
        drop(waiting);
        self.release();
        true
    }

    /// An execution came to its end and its writes can be read. `moved`: where it writes is not
    /// where its last incarnation wrote, so all that are higher have to be validated again.
    pub fn executed(&self, version: Version, moved: bool) -> Option<Task> {
        let at = version.transaction as usize;
        let transaction = &self.transactions[at];
        {
            let mut state = lock(&transaction.state);
            debug_assert_eq!(*state, (version.incarnation, Status::Executing), "it was executing");
            state.1 = Status::Executed;
        }
        let waiting = std::mem::take(&mut *lock(&transaction.waiting));
        let first = waiting.iter().copied().min();
        waiting.into_iter().for_each(|waiting| self.make_ready(waiting as usize));
        if let Some(first) = first {
            self.set_back(&self.execution_next, first as usize);
        }
        if self.validation_next.load(ORDER) > at {
            if !moved {
                return Some(Task::Validate(version));
            }
            self.set_back(&self.validation_next, at);
        }
        self.release();
        None
    }

    /// A validation failed. True for the first to say so of this incarnation: its writes are to
    /// become estimates, then [`Scheduler::validated`] is to be called.
    pub fn try_abort(&self, version: Version) -> bool {
        let mut state = lock(&self.transactions[version.transaction as usize].state);
        let is_it = *state == (version.incarnation, Status::Executed);
        if is_it {
            state.1 = Status::Aborting;
        }
        is_it
    }

    /// A validation came to its end. Returns the transaction's next incarnation, if it was aborted.
    pub fn validated(&self, version: Version, aborted: bool) -> Option<Task> {
        let at = version.transaction as usize;
        if aborted {
            self.make_ready(at);
            self.set_back(&self.validation_next, at + 1);
            if self.execution_next.load(ORDER) > at
                && let Some(version) = self.try_execute(at)
            {
                return Some(Task::Execute(version));
            }
        }
        self.release();
        None
    }

    fn make_ready(&self, transaction: usize) {
        let mut state = lock(&self.transactions[transaction].state);
        debug_assert_eq!(state.1, Status::Aborting, "an incarnation follows an aborted one");
        *state = (state.0 + 1, Status::Ready);
    }

    fn set_back(&self, counter: &AtomicUsize, to: usize) {
        counter.fetch_min(to, ORDER);
        self.set_backs.fetch_add(1, ORDER);
        self.wake_sleepers();
    }

    fn end(&self) {
        self.done.store(true, ORDER);
        self.wake_sleepers();
    }

    /// No worker may wait for one that panicked.
    pub fn give_up(&self) {
        self.end();
    }

    fn sleep(&self, set_backs: usize) {
        let mut sleeping = self.sleeping.lock().unwrap_or_else(|e| e.into_inner());
        self.sleepers.fetch_add(1, ORDER);
        while !self.done.load(ORDER)
            && self.set_backs.load(ORDER) == set_backs
            && self.active.load(ORDER) > 0
        {
            sleeping = sync::wait(&self.wake_up, &self.sleeping, sleeping);
        }
        self.sleepers.fetch_sub(1, ORDER);
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(ORDER) > 0 {
            drop(lock(&self.sleeping));
            self.wake_up.notify_all();
        }
    }
}
