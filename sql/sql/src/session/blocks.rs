//! Transaction blocks: BEGIN, COMMIT and ROLLBACK, and the blocks that the statements of one query
//! are without them.

use std::sync::Arc;

use procedure::draws::Draws;
use procedure::{Notice, NoticeLevel};
use storage::Snapshot;
use types::{Error, Result, SqlState};

use super::Session;
use super::answer::{Answer, plain};
use super::chance::new_seed;
use super::transaction::{AccessMode, OpenTransaction, writes_to_the_past};
use crate::bind::statement::TransactionModes;
use crate::syntax::as_of::AsOf;

/// How often a statement that is two begins anew where others have changed what it read.
pub(super) const ATTEMPTS_MAX: usize = 8;

impl Session {
    pub(super) fn begin(
        &mut self,
        modes: &TransactionModes,
        as_of: Option<AsOf>,
    ) -> Result<Answer> {
        let read_only = modes.read_only.unwrap_or_else(|| self.settings.read_only());
        match &mut self.transaction {
            // BEGIN within the statements of one query makes their block an explicit one.
            Some(transaction) => {
                if !transaction.implicit {
                    let what = "there is already a transaction in progress";
                    let content = Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what);
                    self.running.notices.push(Notice { level: NoticeLevel::Warning, content });
                }
                transaction.implicit = false;
                if read_only {
                    transaction.set_read_only(true, &self.guard)?;
                }
            }
            None => {
                let (snapshot, past) = self.snapshot_to_begin(as_of)?;
                let access = match (past, read_only) {
                    (true, _) if modes.read_only == Some(false) => {
                        return Err(writes_to_the_past());
                    }
                    (true, _) => AccessMode::ReadPast,
                    (false, true) => AccessMode::ReadOnly,
                    (false, false) => AccessMode::ReadWrite,
                };
                self.open(snapshot, access, false)?;
            }
        }
        Ok(plain("BEGIN"))
    }

    pub(super) fn open(
        &mut self,
        snapshot: Snapshot,
        access: AccessMode,
        implicit: bool,
    ) -> Result<()> {
        let snapshot = Arc::new(snapshot.shared());
        let versioned = self.database.schema.of(&snapshot);
        let head = self.head_of(&snapshot)?;
        let draws = Draws::new(new_seed()?);
        let guard = &self.guard;
        let modes = (access, implicit);
        guard.set_budget(self.database.engine.budget());
        let side_effects = (draws, self.temporaries.kept.clone());
        let transaction =
            OpenTransaction::begin(versioned, snapshot, head, guard, modes, side_effects);
        self.transaction = Some(Box::new(transaction));
        self.begin_to_lock();
        Ok(())
    }

    pub(super) fn roll_back(&mut self) {
        self.forget_transaction();
        self.failed = false;
        self.settings.transaction_ended(false);
        self.cursors.transaction_ended(false);
        self.end_transaction_locks();
        self.forget_unknown_sequences();
    }

    pub(super) async fn commit(&mut self) -> Result<Answer> {
        if self.failed {
            self.roll_back();
            return Ok(plain("ROLLBACK"));
        }
        if let Err(error) = self.check_deferred(|_| true).await {
            self.roll_back();
            return Err(error);
        }
        let promise = match self.promise_side_effects() {
            Ok(promise) => promise,
            Err(error) => {
                self.roll_back();
                return Err(error);
            }
        };
        let committed = self.commit_writes().await;
        self.settings.transaction_ended(committed.is_ok());
        self.cursors.transaction_ended(committed.is_ok());
        if let (Ok(_), Some(promise)) = (&committed, promise) {
            self.keep_promise(promise);
        }
        if committed.is_err() {
            self.forget_unknown_sequences();
        }
        self.end_transaction_locks();
        committed
    }

    /// Statements of one simple query are one transaction.
    pub fn begin_implicit_block(&mut self) -> Result<()> {
        if self.transaction.is_none() {
            // A block that cannot be read is said by the first statement that would read it.
            let newest = |_| self.newest_snapshot().map(|snapshot| (snapshot, false));
            let (snapshot, past) = self.snapshot_to_begin(None).or_else(newest)?;
            let access = match (past, self.settings.read_only()) {
                (true, _) => AccessMode::ReadPast,
                (false, true) => AccessMode::ReadOnly,
                (false, false) => AccessMode::ReadWrite,
            };
            self.open(snapshot, access, true)?;
        }
        Ok(())
    }

    pub async fn end_implicit_block(&mut self, commit: bool) -> Result<()> {
        if !self.transaction.as_ref().is_some_and(|t| t.implicit) {
            return Ok(());
        }
        if commit && !self.failed {
            self.commit().await?;
        } else {
            self.roll_back();
        }
        Ok(())
    }

    /// Ends the block that a statement began for itself, and commits what it came to if that
    /// `counts`. `None`: others have changed what it read, and it begins anew, as long as attempts
    /// are left.
    pub(super) async fn end_own_block<T>(
        &mut self,
        attempts_left: &mut usize,
        done: Result<T>,
        counts: bool,
    ) -> Option<Result<T>> {
        *attempts_left -= 1;
        let ended = self.end_implicit_block(counts).await;
        match done.and_then(|done| ended.map(|()| done)) {
            Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE && *attempts_left > 0 => {
                None
            }
            done => Some(done),
        }
    }

    /// The client is about to be told of an error.
    pub fn statement_failed(&mut self) {
        (self.copy, self.running.answered) = (None, None);
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
            self.failed = true;
        }
        self.show_rest();
    }

    /// COMMIT and ROLLBACK outside of a block do nothing.
    pub(super) fn warn_without_transaction(&mut self) {
        if self.transaction.as_ref().is_none_or(|transaction| transaction.implicit) {
            let what = "there is no transaction in progress";
            self.warn(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        }
    }

    /// A statement that lasts as long as its transaction, which ends with it.
    pub(super) fn warn_without_block(&mut self, statement: &str) {
        let what = format!("{statement} can only be used in transaction blocks");
        self.warn(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
    }

    pub(super) fn open_transaction(&mut self, what: &str) -> Result<&mut OpenTransaction> {
        self.transaction.as_deref_mut().ok_or_else(|| {
            Error::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )
        })
    }
}
