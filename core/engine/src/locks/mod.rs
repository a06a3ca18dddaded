//! The lock table of sessions: where the ledger's protocol is `2pl`, statements of open
//! transactions lock what they read and write until their COMMIT has been answered.
//!
//! Locks are no part of the ledger: no block knows of them, and replay needs none. COMMIT is
//! validated as under any protocol; locks only see to it that the validation succeeds.
//!
//! ```text
//!   open transaction   statement: read, lock, again if something was waited for … COMMIT, let go
//!   anything else      no transaction holds locks: pass (counted while it is under way)
//!                      some do: lock what a dry run touches, then enter
//! ```
//!
//! *Passing.* Requests that are under way without locks would change rows under a transaction that
//! locks them. So the first lock of a transaction waits until none is; from its announcement on
//! none begins. Both look after they have announced themselves, so one of them sees the other.
//!
//! *Deadlocks* within the table are its own to find ([`table`]), those through other locks of
//! sessions are found with them ([`cycles`]).
//!
//! *Rows that a query locks.* Under other protocols the table has the locks of statements that ask
//! for them, FOR UPDATE and its kin, and concerns no others: their owners announce nothing.
//!
//! *Cost.* Under other protocols: one load for each transaction that is begun or request that is
//! made. Under `2pl` a request that passes counts itself in and out. A lock: see [`table`].

pub mod cycles;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use concurrency::claims::{Claim, Place};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time;
use types::{Error, Key, SqlState, TableId};

pub use cycles::{Cycles, Waits};
pub use table::{Answer, Blocked, Bounds, LockTable, OwnerId, Shown};

/// The protocol under which sessions lock.
const PROTOCOL: &str = "2pl";

/// How often a waiter looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub struct SessionLocks {
    in_force: AtomicBool,
    /// Open transactions that hold locks, or are about to.
    transactions: AtomicUsize,
    /// Requests under way without locks.
    passing: AtomicUsize,
    passed: Notify,
    state: Mutex<State>,
    cycles: Cycles,
}

impl Waits for SessionLocks {
    fn blockers(&self, process: i32) -> Vec<i32> {
        self.state.lock().table.blockers_of(process)
    }

    fn awaited(&self, process: i32) -> Option<String> {
        let state = self.state.lock();
        let claim = state.table.awaited(process)?;
        Some(format!("{} on {}", mode(claim), what(claim)))
    }
}

#[derive(Debug, Default)]
struct State {
    table: LockTable,
    wakers: HashMap<OwnerId, oneshot::Sender<()>>,
    owners: u64,
}

/// How an owner waits.
pub struct Patience<'a> {
    pub lock_timeout: Option<Duration>,
    /// Not at all.
    pub nowait: bool,
    /// Why the wait has to end.
    pub check: &'a (dyn Fn() -> Result<(), Error> + Sync),
    pub table_name: &'a (dyn Fn(TableId) -> String + Sync),
}

/// What an owner's claims came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// It held them all.
    Had,
    /// Some are new, and nothing was waited for.
    AtOnce,
    Waited,
}

/// A request under way without locks.
pub struct Pass(Arc<SessionLocks>);

impl Drop for Pass {
    fn drop(&mut self) {
        if self.0.passing.fetch_sub(1, Ordering::SeqCst) == 1
            && self.0.transactions.load(Ordering::SeqCst) > 0
        {
            self.0.passed.notify_waiters();
        }
    }
}

impl SessionLocks {
    /// The ledger runs under another protocol from now on, or the same.
    pub(crate) fn set_protocol(&self, protocol: &str) {
        let name = protocol.split(':').next().unwrap_or_default();
        self.in_force.store(name == PROTOCOL, Ordering::SeqCst);
    }

    /// Whether sessions lock.
    pub fn are_in_force(&self) -> bool {
        self.in_force.load(Ordering::Relaxed)
    }

    /// For a request without locks; `None`: some transaction holds some, which it has to respect.
    pub fn pass(self: &Arc<Self>) -> Option<Pass> {
        self.passing.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(Arc::clone(self));
        (self.transactions.load(Ordering::SeqCst) == 0).then_some(pass)
    }

    /// Where cycles through other locks are found, once those and these have joined.
    pub fn cycles(&self) -> &Cycles {
        &self.cycles
    }

    /// Finds cycles through the others, too.
    pub fn join_cycles(self: &Arc<Self>) {
        let own: Weak<Self> = Arc::downgrade(self);
        self.cycles.join(own);
    }

    /// Locks that are held.
    pub fn held(&self) -> usize {
        self.state.lock().table.held()
    }

    /// Who has locks of which kind on which table, and who waits for one.
    pub fn shown(&self) -> BTreeSet<Shown> {
        self.state.lock().table.shown()
    }

    /// The owner of a transaction's locks, or of a request's.
    pub fn owner(self: &Arc<Self>, process: i32, is_transaction: bool) -> LockOwner {
        let mut state = self.state.lock();
        let id = OwnerId(state.owners);
        state.owners += 1;
        state.table.enter(id, process);
        drop(state);
        let (announced, alone) = (false, !is_transaction);
        LockOwner { locks: Arc::clone(self), id, process, is_transaction, announced, alone }
    }

    /// Until no request is under way without locks; whether there was one.
    async fn wait_for_passing(&self, patience: &Patience<'_>) -> Result<bool, Error> {
        let mut waited = false;
        loop {
            let passed = self.passed.notified();
            if self.passing.load(Ordering::SeqCst) == 0 {
                return Ok(waited);
            }
            waited = true;
            _ = time::timeout(LOOK, passed).await;
            (patience.check)()?;
        }
    }
}

/// Holds locks, and lets go of them when it is dropped.
#[derive(Debug)]
pub struct LockOwner {
    locks: Arc<SessionLocks>,
    id: OwnerId,
    process: i32,
    is_transaction: bool,
    announced: bool,
    /// No request is under way without locks.
    alone: bool,
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        let granted = state.table.leave(self.id);
        state.wakers.remove(&self.id);
        state.wake(&granted);
        drop(state);
        if self.announced {
            self.locks.transactions.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl State {
    fn wake(&mut self, granted: &[OwnerId]) {
        for owner in granted {
            if let Some(waker) = self.wakers.remove(owner) {
                _ = waker.send(());
            }
        }
    }
}

/// Ends a wait that is given up, be it by dropping it.
struct Wait<'a>(&'a LockOwner);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.0.locks.state.lock();
        state.wakers.remove(&self.0.id);
        let granted = state.table.give_up(self.0.id);
        state.wake(&granted);
    }
}

impl LockOwner {
    /// Rows of a table that others have locked, or wait for.
    pub fn taken_from(&self, table: TableId, exclusive: bool) -> BTreeSet<Key> {
        self.locks.state.lock().table.taken_from(self.id, table, exclusive)
    }

    /// Locks all claims, one after the other. What was locked before an error stays locked.
    pub async fn lock(
        &mut self,
        claims: &[Claim],
        patience: &Patience<'_>,
    ) -> Result<Locked, Error> {
        let mut locked = Locked::Had;
        if self.is_transaction && !self.announced {
            self.announced = true;
            self.locks.transactions.fetch_add(1, Ordering::SeqCst);
        }
        if !self.alone && self.locks.wait_for_passing(patience).await? {
            locked = Locked::Waited;
        }
        self.alone = true;
        for claim in claims {
            match self.lock_one(claim, patience).await? {
                Locked::Had => {}
                Locked::AtOnce if locked == Locked::Waited => {}
                other => locked = other,
            }
        }
        Ok(locked)
    }

    async fn lock_one(&self, claim: &Claim, patience: &Patience<'_>) -> Result<Locked, Error> {
        match self.locks.state.lock().table.request(self.id, claim, false) {
            Answer::Had => return Ok(Locked::Had),
            Answer::Granted => return Ok(Locked::AtOnce),
            Answer::Full => return Err(full()),
            _ if patience.nowait => return Err(busy(claim, patience)),
            _ => {}
        }
        let Some((granted, wait)) = self.begin_wait(claim, patience)? else {
            return Ok(Locked::AtOnce);
        };
        self.wait(granted, patience).await?;
        drop(wait);
        Ok(Locked::Waited)
    }

    /// `None`: the lock is free meanwhile.
    fn begin_wait(
        &self,
        claim: &Claim,
        patience: &Patience<'_>,
    ) -> Result<Option<(oneshot::Receiver<()>, Wait<'_>)>, Error> {
        let turn = self.locks.cycles.turn();
        let (waker, granted) = oneshot::channel();
        {
            let mut state = self.locks.state.lock();
            match state.table.request(self.id, claim, true) {
                Answer::Had | Answer::Granted => return Ok(None),
                Answer::Busy => return Err(busy(claim, patience)),
                Answer::Deadlock(cycle) => return Err(deadlock(&cycle, patience)),
                Answer::Full => return Err(full()),
                Answer::Waits => _ = state.wakers.insert(self.id, waker),
            }
        }
        let wait = Wait(self);
        match turn.refusal(self.process) {
            Some(refusal) => Err(refusal),
            None => Ok(Some((granted, wait))),
        }
    }

    async fn wait(
        &self,
        mut granted: oneshot::Receiver<()>,
        patience: &Patience<'_>,
    ) -> Result<(), Error> {
        let since = Instant::now();
        loop {
            let left = patience.lock_timeout.map(|most| most.saturating_sub(since.elapsed()));
            let look = left.map_or(LOOK, |left| left.min(LOOK));
            if let Ok(Ok(())) = time::timeout(look, &mut granted).await {
                return Ok(());
            }
            (patience.check)()?;
            if left.is_some_and(|left| left.is_zero()) {
                let what = "canceling statement due to lock timeout";
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, what));
            }
        }
    }
}

fn busy(claim: &Claim, patience: &Patience<'_>) -> Error {
    let table = (patience.table_name)(claim.table);
    let what = format!("could not obtain lock on row in relation \"{table}\"");
    Error::new(SqlState::LOCK_NOT_AVAILABLE, what)
}

fn mode(claim: &Claim) -> &'static str {
    if claim.exclusive { "ExclusiveLock" } else { "ShareLock" }
}

fn what(claim: &Claim) -> &'static str {
    match claim.place {
        Place::Key(_) => "a row",
        Place::Range(..) => "a range of rows",
    }
}

fn deadlock(cycle: &[Blocked], patience: &Patience<'_>) -> Error {
    let line = |blocked: &Blocked| {
        let Blocked { process, claim, by } = blocked;
        let (mode, what) = (mode(claim), what(claim));
        let table = (patience.table_name)(claim.table);
        format!(
            "Process {process} waits for {mode} on {what} of relation \"{table}\"; \
             blocked by process {by}."
        )
    };
    let lines: Vec<_> = cycle.iter().map(line).collect();
    Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(lines.join("\n"))
        .with_hint("Roll back and begin the transaction again.")
}

fn full() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "there are too many locks")
        .with_detail("The transaction, or all open transactions together, lock too many rows.")
        .with_hint("Change fewer rows in a transaction, or more of them by one statement.")
}
