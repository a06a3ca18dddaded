//! Statements that lock, where the ledger's protocol is `2pl`.
//!
//! ```text
//!   statement of an open transaction   ┌───────────────────────────────┐
//!     newest state ─► run ─► lock ─┬─► │ nothing new, or nothing moved │ ─► answer
//!           ▲                      │   └───────────────────────────────┘
//!           └──── undo ◄───────────┘ else
//!
//!   request of its own, while transactions hold locks: the same with a dry run, then submit
//! ```
//!
//! A statement runs on the newest state, then what it read and wrote is locked
//! ([`concurrency::claims`]). If all of that had been locked before it ran, or no block was
//! published since, it has seen what it locks. Otherwise it is undone and runs again with those
//! locks held: mostly once. One that meets other rows each time gives up with 40001.
//!
//! What fails has its reads locked as well, since its error is an answer. READ ONLY transactions
//! read one block and lock nothing; nor does a query outside of a transaction.

use std::sync::Arc;

use concurrency::claims::of_tables;
use concurrency::overlay::Overlay;
use concurrency::{Claim, Footprint, FootprintMark, Moment, Work};
use engine::Head;
use engine::locks::{LockOwner, Locked, Pass, Patience};
use engine::transaction::Asked;
use procedure::draws::Draws;
use procedure::{Interrupt, ProgramResult};
use storage::Snapshot;
use types::{Error, Result, SqlState, Stamp, TableId};

use super::Session;
use super::answer::{Answer, plain};
use super::guard::{aside, error_of};
use super::lock_clauses::Locking;
use super::transaction::Attempt;
use crate::bind::statement::TableLock;

/// Runs of one statement that meet other rows than those it has locked.
pub(super) const ATTEMPTS_MAX: usize = 32;

/// Held while a request is under way.
pub(super) enum Respected {
    Unlocked,
    Passing { _pass: Pass },
    Locked { _owner: LockOwner },
}

impl Session {
    /// The open transaction locks from now on, where sessions do.
    pub(super) fn begin_to_lock(&mut self) {
        let locks = self.database.engine.locks();
        if locks.are_in_force()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.lock_by(|| locks.owner(self.info.backend_pid, true));
        }
    }

    /// Whether the next statement locks what it touches.
    pub(super) fn locks_statements(&mut self) -> bool {
        self.transaction.as_mut().is_some_and(|transaction| transaction.lock_owner().is_some())
    }

    pub(super) fn pass(&self) -> Option<Pass> {
        let locks = self.database.engine.locks();
        if locks.are_in_force() { locks.pass() } else { None }
    }

    /// Runs a statement of the transaction until it holds locks on all that it has seen.
    pub(super) async fn run_locked(
        &mut self,
        work: &Work,
        locking: Locking,
    ) -> Result<ProgramResult> {
        for _ in 0..ATTEMPTS_MAX {
            let (attempt, settled) = self.attempt_locked(work, locking).await?;
            if settled {
                return attempt.answered;
            }
            if let Some(transaction) = &mut self.transaction {
                transaction.undo(&attempt);
            }
        }
        Err(unsettled())
    }

    pub(super) async fn write_locked(
        &mut self,
        asked: Asked,
        work: Work,
        draws: Draws,
    ) -> Result<ProgramResult> {
        if let Some(transaction) = &self.transaction {
            transaction.check_may_write()?;
        }
        let answered = self.run_locked(&work, Locking::default()).await?;
        if let Some(transaction) = &mut self.transaction {
            transaction.keep(asked, work, &answered, draws);
        }
        Ok(answered)
    }

    /// One run, and whether all that it has seen is locked as it was seen.
    async fn attempt_locked(&mut self, work: &Work, locking: Locking) -> Result<(Attempt, bool)> {
        let (snapshot, head) = self.newest()?;
        let Waiting { guard, names, lock_timeout } = self.waiting();
        let Some(transaction) = &mut self.transaction else { return Err(no_transaction()) };
        let is_newest = transaction.advance(snapshot, head)?;
        let attempt = transaction.attempt(work)?;
        if !is_newest {
            return Ok((attempt, true));
        }
        // An interrupt is no answer that rests on what was read.
        let claims = guard()
            .and_then(|()| transaction.claims(&attempt, &|table| locking.is_exclusive(table)));
        let locked = match (claims, transaction.lock_owner()) {
            (Ok(claims), Some(owner)) => {
                let nowait = locking.nowait;
                let patience = Patience { lock_timeout, nowait, check: &guard, table_name: &names };
                owner.lock(&claims, &patience).await
            }
            (claims, _) => Err(claims.err().unwrap_or_else(no_transaction)),
        };
        match locked {
            Ok(locked) => Ok((attempt, self.has_seen_locked(locked, head))),
            Err(error) => {
                transaction.undo(&attempt);
                Err(error)
            }
        }
    }

    /// Whether a run on the state of `head` has seen what its locks keep from changing.
    fn has_seen_locked(&self, locked: Locked, head: Head) -> bool {
        match locked {
            Locked::Had => true,
            Locked::AtOnce => self.database.engine.head().height == head.height,
            Locked::Waited => false,
        }
    }

    pub(super) fn newest(&self) -> Result<(Snapshot, Head)> {
        let snapshot = self.newest_snapshot()?;
        let head = self.head_of(&snapshot)?;
        Ok((snapshot, head))
    }

    /// Before a request of its own is made: locks on what it will touch, if some transaction holds
    /// locks.
    pub(super) async fn respect_locks(&mut self, work: &Work) -> Result<Respected> {
        let engine = Arc::clone(&self.database.engine);
        if !engine.locks().are_in_force() {
            return Ok(Respected::Unlocked);
        }
        if let Some(_pass) = engine.locks().pass() {
            return Ok(Respected::Passing { _pass });
        }
        let mut owner = engine.locks().owner(self.info.backend_pid, false);
        for _ in 0..ATTEMPTS_MAX {
            let (snapshot, head) = self.newest()?;
            if self.database.schema.of(&snapshot).version != self.running.version {
                break;
            }
            let claims = self.dry_run(work, &snapshot, head)?;
            let Waiting { guard, names, lock_timeout } = self.waiting();
            guard()?;
            let nowait = false;
            let patience = Patience { lock_timeout, nowait, check: &guard, table_name: &names };
            let locked = owner.lock(&claims, &patience).await?;
            if self.has_seen_locked(locked, head) {
                break;
            }
        }
        Ok(Respected::Locked { _owner: owner })
    }

    /// What a request would touch if it ran on a state. How it ends there is of no interest.
    fn dry_run(&mut self, work: &Work, snapshot: &Snapshot, head: Head) -> Result<Vec<Claim>> {
        let (height, now_us) = (head.height + 1, head.time_us);
        let moment = Moment { height, position: Stamp::POSITIONS_MAX, now_us };
        let catalog = Arc::clone(snapshot.catalog());
        let footprint = Footprint::requiring_all();
        let mut overlay = Overlay::new(catalog, head.height, moment, footprint);
        overlay.begin_statement();
        let frame = &mut self.running.frame;
        _ = aside(work.is_short(), || {
            work.run(frame, &mut overlay).and_then(|_| overlay.evaluate_all())
        });
        snapshot.check()?;
        overlay.claims(FootprintMark::default(), &|_| false).map_err(error_of)
    }

    /// LOCK TABLE: under locks, the tables whole; elsewhere no session waits for another.
    pub(super) async fn lock_tables(&mut self, lock: &TableLock) -> Result<Answer> {
        self.open_transaction("LOCK TABLE")?;
        let Waiting { guard, names, lock_timeout } = self.waiting();
        let catalog = self.database.engine.store().catalog();
        let owner = self.transaction.as_mut().and_then(|transaction| transaction.lock_owner());
        if let (Some(exclusive), Some(owner)) = (lock.exclusive, owner) {
            // What is the session's own no other one can touch.
            let tables = lock.tables.iter().copied().filter(|table| !table.is_temporary());
            let claims = of_tables(&tables.collect::<Vec<_>>(), exclusive, &catalog);
            let nowait = lock.nowait;
            let patience = Patience { lock_timeout, nowait, check: &guard, table_name: &names };
            owner.lock(&claims, &patience).await?;
        }
        Ok(plain("LOCK TABLE"))
    }

    pub(super) fn waiting(
        &self,
    ) -> Waiting<impl Fn() -> Result<()> + use<>, impl Fn(TableId) -> String + use<>> {
        let (guard, store) = (Arc::clone(&self.guard), Arc::clone(self.database.engine.store()));
        Waiting {
            guard: move || guard.check(),
            names: move |table| {
                let catalog = store.catalog();
                let name = catalog.table(table).map(|table| table.schema().name.to_string());
                name.unwrap_or_else(|| table.0.to_string())
            },
            lock_timeout: self.settings.lock_timeout(),
        }
    }
}

/// What a wait is told, apart from the session, which is busy with it.
pub(super) struct Waiting<G, N> {
    pub guard: G,
    pub names: N,
    pub lock_timeout: Option<std::time::Duration>,
}

pub(super) fn no_transaction() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "no transaction holds locks")
}

pub(super) fn unsettled() -> Error {
    Error::serialization("The statement met other rows each time that it had locked those it met.")
}
