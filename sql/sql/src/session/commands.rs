//! Runs commands that change the session or its transaction and no data: BEGIN, SET, PREPARE,
//! DISCARD, LISTEN and others.

use std::sync::Arc;

use types::{Error, Result, SqlState, Value};

use super::Session;
use super::answer::{Answer, plain};
use super::prepared::Prepared;
use super::transaction::SessionMark;
use crate::bind::statement::{Command, TransactionModes};

impl Session {
    pub(super) async fn run_command(
        &mut self,
        command: &Command,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<Answer> {
        let Prepared { parsed, bound, .. } = &**prepared;
        match command {
            Command::Begin(modes) => self.begin(modes, parsed.as_of),
            Command::SetTransaction(modes) => self.set_transaction(modes),
            Command::SetSessionCharacteristics(modes) => self.set_characteristics(modes),
            Command::Commit => {
                self.warn_without_transaction();
                self.commit().await
            }
            Command::Rollback => {
                self.warn_without_transaction();
                self.roll_back();
                Ok(plain("ROLLBACK"))
            }
            Command::Chain { commits } => self.end_and_begin(*commits).await,
            Command::SetConstraints { names, deferred } => {
                self.set_constraints(names, *deferred).await
            }
            Command::Savepoint(name) => self.set_savepoint(name),
            Command::Release(name) => self.release_savepoint(name),
            Command::RollbackTo(name) => self.return_to_savepoint(name),
            Command::LockTable(lock) => self.lock_tables(lock).await,
            Command::CreateTableAs(made) => {
                self.create_table_as(made, &bound.parameters, parameters).await
            }
            Command::Set { name, value, local } => {
                if *local && self.transaction.is_none() {
                    self.warn_without_block("SET LOCAL");
                }
                self.set(name, value.as_deref(), *local).await
            }
            Command::Show(name) => self.show(name),
            Command::Reset(name) => self.reset(name.as_deref()),
            Command::Discard(what) => self.discard(*what),
            Command::Listen(channel) => self.listen(channel),
            Command::Unlisten(channel) => self.unlisten(channel.as_deref()),
            Command::Notify { channel, payload } => {
                self.notify(channel, payload)?;
                Ok(plain("NOTIFY"))
            }
            Command::Prepare { name, types, text } => self.prepare_named(name, types, text),
            Command::Execute { name, arguments } => {
                Box::pin(self.execute_named(name, arguments)).await
            }
            Command::Fetch { name, direction, moves } => {
                self.fetch_rows(name, *direction, *moves, &bound.output).await
            }
            Command::CloseCursor(name) => self.close_cursors(name.as_deref()),
            Command::Deallocate(name) => Ok(self.deallocate(name.as_deref())),
            Command::Nothing(tag) => Ok(plain(tag)),
            Command::Empty => Ok(plain("")),
        }
    }

    fn set_transaction(&mut self, modes: &TransactionModes) -> Result<Answer> {
        if let (Some(t), Some(read_only)) = (&mut self.transaction, modes.read_only) {
            t.set_read_only(read_only, &self.guard)?;
            self.begin_to_lock();
        }
        if self.transaction.is_none() {
            self.warn_without_block("SET TRANSACTION");
        }
        Ok(plain("SET"))
    }

    /// AND CHAIN. A transaction that cannot be committed is not followed by another.
    async fn end_and_begin(&mut self, commits: bool) -> Result<Answer> {
        let open = self.transaction.as_ref().filter(|transaction| !transaction.implicit);
        let Some(open) = open else {
            let verb = if commits { "COMMIT" } else { "ROLLBACK" };
            let what = format!("{verb} AND CHAIN can only be used in transaction blocks");
            return Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, what));
        };
        let modes = TransactionModes { read_only: Some(open.is_read_only()), isolation: None };
        let ended = match commits {
            true => self.commit().await?,
            false => {
                self.roll_back();
                plain("ROLLBACK")
            }
        };
        self.begin(&modes, None)?;
        Ok(ended)
    }

    /// Every level of isolation runs as the strongest.
    fn set_characteristics(&mut self, modes: &TransactionModes) -> Result<Answer> {
        if let Some(read_only) = modes.read_only {
            let value = if read_only { "on" } else { "off" };
            self.change_setting("default_transaction_read_only", Some(value), false)?;
        }
        Ok(plain("SET"))
    }

    fn reset(&mut self, name: Option<&str>) -> Result<Answer> {
        match name {
            Some("session_authorization") => {
                self.change_setting("role", None, false)?;
                self.change_setting("session_authorization", None, false)?;
            }
            Some(name) => self.change_setting(name, None, false)?,
            None if self.transaction.is_some() => self.settings.reset_all_in_transaction()?,
            None => self.settings.reset_all(),
        }
        Ok(plain("RESET"))
    }

    fn set_savepoint(&mut self, name: &str) -> Result<Answer> {
        self.open_transaction("SAVEPOINT")?;
        let (cursors, settings) = (self.cursors.mark(), self.settings.mark());
        let marks = SessionMark { cursors, settings };
        self.open_transaction("SAVEPOINT")?.savepoint(name.to_owned(), marks);
        Ok(plain("SAVEPOINT"))
    }

    fn release_savepoint(&mut self, name: &str) -> Result<Answer> {
        let outer = self.open_transaction("RELEASE SAVEPOINT")?.release(name)?;
        self.settings.release(outer.map(|marks| marks.settings));
        Ok(plain("RELEASE"))
    }

    fn return_to_savepoint(&mut self, name: &str) -> Result<Answer> {
        let (locks, marks) = self.open_transaction("ROLLBACK TO SAVEPOINT")?.roll_back_to(name)?;
        locks.into_iter().for_each(|lock| _ = self.shared.advisory.unlock(lock));
        self.cursors.return_to(marks.cursors);
        self.settings.return_to(marks.settings);
        self.failed = false;
        self.forget_unknown_sequences();
        Ok(plain("ROLLBACK"))
    }
}
