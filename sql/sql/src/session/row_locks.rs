//! Row locks of SELECT … FOR UPDATE and FOR SHARE, under protocols that take no locks themselves.
//!
//! ```text
//!   SELECT n FROM jobs … LIMIT 1 FOR UPDATE        bound a second time, with the keys of its rows:
//!   SELECT n, jobs.id FROM jobs … LIMIT 1          n is answered, jobs.id is locked
//!
//!   newest state ─► run ─► lock the result's rows ─┬─► no wait, no newer block ─► answer
//!        ▲          │ SKIP LOCKED: run without     │
//!        └── undo ◄─┘ rows that others hold     ◄──┘ otherwise; locks taken so far are kept
//! ```
//!
//! A run is repeated because rows may change before they are locked. After 32 attempts it fails
//! with 40001. A transaction that cannot move to the newest state (it has another schema, or has
//! read through the columnar engine) answers from its own; COMMIT then decides.
//!
//! *What the locks promise.* Of the open transactions on this node at most one holds an exclusive
//! lock on a row. The locks are kept in the node's [lock table](engine::locks), are no part of the
//! ledger, and concern only statements that ask for them. A plain UPDATE or another node ignores
//! them: then COMMIT, which validates all reads as usual, fails with 40001. So serializability
//! never depends on these locks; they only avoid aborts.
//!
//! *SKIP LOCKED.* The client has said that it accepts any rows. So of what the statement read in
//! the locked tables, COMMIT validates only the rows that were answered
//! ([`skip_locked`](concurrency::skip_locked)): two workers that take jobs from one table do not
//! conflict.
//!
//! *Which rows.* Those of tables that FROM names directly; not what a view, a subquery or a cursor
//! reads. *How long.* Until COMMIT is answered, or ROLLBACK. ROLLBACK TO a savepoint does not
//! release locks taken after it.

use std::sync::Arc;

use concurrency::skip_locked::SkippedRows;
use concurrency::{Statement as Call, Work};
use engine::locks::{Locked, Patience};
use procedure::{Output, ProgramResult};
use types::{Result, SqlState, Value};

use super::answer::{Answer, answer};
use super::keyed::{Keyed, with_keys};
use super::lock_clauses::Locking;
use super::locking::{ATTEMPTS_MAX, Waiting, no_transaction, unsettled};
use super::prepared::{Action, Prepared};
use super::{Session, View};
use crate::bind::statement::Program;

impl Session {
    /// What locks the rows of a query, if some are to be locked.
    pub(super) fn row_locks(&self, prepared: &Prepared, view: &View) -> Result<Option<Arc<Keyed>>> {
        if !prepared.locking.rows || self.database.engine.locks().are_in_force() {
            return Ok(None);
        }
        let may_lock = match &self.transaction {
            Some(transaction) => !transaction.is_read_only() && !transaction.has_own_schema(),
            None => !self.settings.read_only() && view.snapshot.is_some(),
        };
        let is_past = prepared.parsed.as_of.is_some() || self.settings.as_of_block().is_some();
        if !may_lock || is_past {
            return Ok(None);
        }
        if let Some(keyed) = prepared.keyed.get() {
            return Ok(keyed.clone());
        }
        let keyed = self.bind_keyed(prepared, view)?.map(Arc::new);
        Ok(prepared.keyed.get_or_init(|| keyed).clone())
    }

    fn bind_keyed(&self, prepared: &Prepared, view: &View) -> Result<Option<Keyed>> {
        let catalog = &view.versioned.catalog;
        let Output::Rows(columns) = &prepared.bound.output else { return Ok(None) };
        let shown = columns.len();
        let Some((parsed, tables)) = with_keys(&prepared.parsed, prepared.locking, catalog, shown)
        else {
            return Ok(None);
        };
        let types: Vec<_> = prepared.bound.parameters.iter().cloned().map(Some).collect();
        let (bound, _) = self.bind_by(&self.info, &view.versioned, parsed, &types)?;
        match Action::from(bound?.statement) {
            Action::Program(Program::Procedure(procedure)) if procedure.sequences.is_empty() => {
                Ok(Some(Keyed { procedure, shown, tables }))
            }
            _ => Ok(None),
        }
    }

    /// Answers a query and locks the rows that it answers until the transaction ends; outside of
    /// one that is at once, but it has waited for others, or passed their rows over.
    pub(super) async fn answer_locking_rows(
        &mut self,
        keyed: &Keyed,
        prepared: &Prepared,
        parameters: &[Value],
    ) -> Result<Answer> {
        let is_alone = self.transaction.is_none();
        if is_alone {
            self.begin_implicit_block()?;
        }
        let result = self.rows_locked_by(keyed, parameters, prepared.locking).await;
        if is_alone {
            self.end_implicit_block(false).await?;
        }
        let mut result = result?;
        self.running.notices.append(&mut result.notices);
        let output = &prepared.bound.output;
        Ok(answer(&keyed.procedure.tag, output, result, self.running.answered.take()))
    }

    /// What the query answers, without the keys, its rows locked.
    pub(super) async fn rows_locked_by(
        &mut self,
        keyed: &Keyed,
        parameters: &[Value],
        locking: Locking,
    ) -> Result<ProgramResult> {
        let mut result = self.run_locking_rows(keyed, parameters, locking).await?;
        for row in &mut result.rows {
            *row = row[..keyed.shown].into();
        }
        Ok(result)
    }

    async fn run_locking_rows(
        &mut self,
        keyed: &Keyed,
        parameters: &[Value],
        locking: Locking,
    ) -> Result<ProgramResult> {
        let mut draws = self.draws(&keyed.procedure)?;
        let arguments = draws.arguments(&keyed.procedure, parameters)?;
        let procedure = Arc::clone(&keyed.procedure);
        let work = Work::Statement(Call { procedure, arguments });
        for _ in 0..ATTEMPTS_MAX {
            let memory_left = self.transaction.as_ref().map_or(0, |open| open.memory_left());
            let answered = self.attempt_row_locks(&work, keyed, locking).await?;
            let Some(answered) = answered else { continue };
            if let Some(transaction) = &mut self.transaction {
                self.running.answered = transaction.hand_over(memory_left);
                let head = transaction.head();
                self.has_read(head);
            }
            return answered;
        }
        Err(unsettled())
    }

    /// `None`: others came first, or the rows may have changed before they were locked.
    async fn attempt_row_locks(
        &mut self,
        work: &Work,
        keyed: &Keyed,
        locking: Locking,
    ) -> Result<Option<Result<ProgramResult>>> {
        let (snapshot, head) = self.newest()?;
        let Waiting { guard, names, lock_timeout } = self.waiting();
        let locks = self.database.engine.locks();
        let process = self.info.backend_pid;
        let Some(transaction) = &mut self.transaction else { return Err(no_transaction()) };
        let is_newest = transaction.advance(snapshot, head)?;
        let owner = transaction.row_locks.get_or_insert_with(|| locks.owner(process, false));
        let skipped = if locking.skips { keyed.skipped(owner) } else { SkippedRows::new() };
        let attempt = transaction.attempt_skipping(work, &skipped)?;
        let keys = match &attempt.answered {
            Ok(result) => keyed.keys(&result.rows)?,
            Err(_) => return Ok(Some(attempt.answered)),
        };
        let nowait = locking.nowait || locking.skips;
        let patience = Patience { lock_timeout, nowait, check: &guard, table_name: &names };
        let claims = keyed.claims(&keys);
        let locked = match &mut transaction.row_locks {
            Some(owner) => owner.lock(&claims, &patience).await,
            None => Err(no_transaction()),
        };
        let is_settled = match locked {
            Ok(Locked::Had) => true,
            Ok(Locked::AtOnce) => !is_newest || self.database.engine.head().height == head.height,
            Ok(Locked::Waited) => !is_newest,
            Err(error) if locking.skips && error.code() == SqlState::LOCK_NOT_AVAILABLE => false,
            Err(error) => {
                transaction.undo(&attempt);
                return Err(error);
            }
        };
        if !is_settled {
            transaction.undo(&attempt);
            return Ok(None);
        }
        transaction.require_only(&attempt, &skipped, &keys)?;
        Ok(Some(attempt.answered))
    }
}
