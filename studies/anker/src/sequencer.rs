//! The order of commits, and who must still see what.
//!
//! # One lock, four facts
//!
//! The thesis logs the start and the end of a commit and leaves open how commits are ordered among
//! each other and against snapshot requests. Here one short critical section decides it:
//!
//! ```text
//!   order(T), holding shared locks on all columns that T writes:
//!     1. a snapshot waits for one of them?      → T gives its locks back and freezes first
//!     2. a commit since T began wrote T's rows,
//!        or something that T read?              → T aborts
//!     3. T's before-images are what is in place (2 says that none is changing them)
//!     4. timestamp := last + 1; T and its images join the recent commits
//!
//!   request(Q):  timestamp := last; joins the waiting of each of its columns
//! ```
//!
//! *Every snapshot is a prefix of the commit order.* Take commit X and request R on a column that X
//! writes. If X was ordered before R, X has held its shared lock since before, so freezing the
//! column (exclusive) waits until X has installed: X is in. If R came first, X found R in step 1,
//! because both happen under this lock, and froze the column before it went on: X is out. Commits
//! that do not write the column make no difference to it. So every column of R is frozen in a
//! state that holds exactly the commits up to R's timestamp, whenever that is.
//!
//! *Updates are seen whole.* `visible` is the newest timestamp up to which all commits have
//! installed; transactions begin there, so whatever is being installed is too new for them. A
//! commit returns when it is visible, so a session's next transaction sees it.
//!
//! *Commit order is a serial order.* T's reads are as of its beginning; step 2 looks at everything
//! that was ordered since, installed or not. Readers are serial at their beginning.
//!
//! # What is kept
//!
//! Recent commits, as long as a transaction is active that began before them. Active transactions
//! by the timestamp at which they began; the least of them bounds the collector.

use std::collections::{BTreeMap, VecDeque};

use kit::sync::atomic::{AtomicI64, Ordering};
use kit::sync::{Arc, Condvar, Mutex};

use crate::Timestamp;
use crate::lock::lock;
use crate::mutant::{Mutant, Mutants};
use crate::predicate::Write;

/// What a commit did, for those who were active meanwhile.
pub struct Committed {
    pub timestamp: Timestamp,
    pub writes: Vec<Write>,
}

#[derive(Default)]
struct State {
    last: Timestamp,
    /// Ordered and not yet installed, oldest first.
    installing: VecDeque<(Timestamp, bool)>,
    recent: VecDeque<Arc<Committed>>,
    active: BTreeMap<Timestamp, usize>,
}

pub(crate) struct Sequencer {
    state: Mutex<State>,
    visible: AtomicI64,
    became_visible: Condvar,
    mutants: Mutants,
}

/// What came of asking for a place in the order.
pub(crate) enum Place<E> {
    Ordered(Arc<Committed>),
    /// A snapshot waits for a column that is to be written.
    FreezeFirst,
    Refused(E),
}

impl Sequencer {
    pub fn new(mutants: Mutants) -> Self {
        Sequencer {
            state: Mutex::default(),
            visible: AtomicI64::new(0),
            became_visible: Condvar::new(),
            mutants,
        }
    }

    /// The timestamp at which a transaction begins; until [`Sequencer::end`] it counts as active.
    pub fn begin(&self) -> Timestamp {
        let mut state = lock(&self.state);
        let begin = match self.mutants.has(Mutant::BeginsAmongInstalls) {
            true => state.last,
            false => self.visible.load(Ordering::Relaxed),
        };
        *state.active.entry(begin).or_default() += 1;
        begin
    }

    pub fn end(&self, begin: Timestamp) {
        let mut state = lock(&self.state);
        if let Some(count) = state.active.get_mut(&begin) {
            *count -= 1;
            if *count == 0 {
                state.active.remove(&begin);
            }
        }
        let oldest = match self.mutants.has(Mutant::ForgetsCommits) {
            true => self.visible.load(Ordering::Relaxed),
            false => self.oldest_of(&state),
        };
        while state.recent.front().is_some_and(|commit| commit.timestamp <= oldest) {
            state.recent.pop_front();
        }
    }

    fn oldest_of(&self, state: &State) -> Timestamp {
        let visible = self.visible.load(Ordering::Relaxed);
        state.active.keys().next().copied().unwrap_or(visible)
    }

    /// The oldest timestamp at which the current state is read or will be.
    pub fn oldest(&self) -> Timestamp {
        if self.mutants.has(Mutant::CollectsWhatIsSeen) {
            return self.visible.load(Ordering::Relaxed);
        }
        self.oldest_of(&lock(&self.state))
    }

    /// `must_freeze`, `validate` (against each commit since `begin`) and `images` in one critical
    /// section.
    pub fn order<E>(
        &self,
        begin: Timestamp,
        must_freeze: impl FnOnce() -> bool,
        mut validate: impl FnMut(&Committed) -> Result<(), E>,
        images: impl FnOnce() -> Vec<Write>,
    ) -> Place<E> {
        let mut state = lock(&self.state);
        if !self.mutants.has(Mutant::LooksForRequestsTooEarly) && must_freeze() {
            return Place::FreezeFirst;
        }
        let since = state.recent.iter().rev().take_while(|commit| commit.timestamp > begin);
        for commit in since {
            if let Err(refusal) = validate(commit) {
                return Place::Refused(refusal);
            }
        }
        let writes = images();
        state.last += 1;
        let commit = Arc::new(Committed { timestamp: state.last, writes });
        state.installing.push_back((commit.timestamp, false));
        state.recent.push_back(commit.clone());
        Place::Ordered(commit)
    }

    /// The commit has installed; returns when it and all before it are visible.
    pub fn installed(&self, timestamp: Timestamp) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.installing.iter_mut().find(|entry| entry.0 == timestamp) {
            entry.1 = true;
        }
        let mut advanced = false;
        while let Some(&(first, true)) = state.installing.front() {
            state.installing.pop_front();
            self.visible.store(first, Ordering::Release);
            advanced = true;
        }
        if advanced {
            self.became_visible.notify_all();
        }
        while self.visible.load(Ordering::Acquire) < timestamp {
            state = self.became_visible.wait(state).unwrap_or_else(|p| p.into_inner());
        }
    }

    /// Runs `log` where no commit is being ordered, with the last timestamp that was given.
    pub fn request<R>(&self, log: impl FnOnce(Timestamp) -> R) -> R {
        log(lock(&self.state).last)
    }
}
