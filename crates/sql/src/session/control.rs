//! Statements that concern the session and its transaction alone.

use types::{Error, Result, SqlState, Value};

use super::transaction::SessionMark;
use super::{Answer, Prepared, Session, Tag, plain};
use crate::bind::statement::{Bound, Statement};

impl Session {
    /// Everything that concerns the session and its transaction.
    pub(super) async fn run_control(&mut self, prepared: &Prepared) -> Result<Answer> {
        let Bound { statement, output, .. } = &prepared.bound;
        match statement {
            Statement::SetTransaction(modes) => {
                if let (Some(t), Some(read_only)) = (&mut self.transaction, modes.read_only) {
                    t.set_read_only(read_only, &self.guard)?;
                    self.begin_to_lock();
                }
                if self.transaction.is_none() {
                    self.warn_without_block("SET TRANSACTION");
                }
                Ok(plain("SET"))
            }
            // Every level of isolation runs as the strongest.
            Statement::SetSessionCharacteristics(modes) => {
                if let Some(read_only) = modes.read_only {
                    let value = if read_only { "on" } else { "off" };
                    self.change_setting("default_transaction_read_only", Some(value), false)?;
                }
                Ok(plain("SET"))
            }
            Statement::Commit => {
                self.warn_without_transaction();
                self.commit().await
            }
            Statement::Rollback => {
                self.warn_without_transaction();
                self.roll_back();
                Ok(plain("ROLLBACK"))
            }
            Statement::Savepoint(_) | Statement::Release(_) | Statement::RollbackTo(_) => {
                self.run_savepoint(statement)
            }
            Statement::Set { name, value, local } => {
                if *local && self.transaction.is_none() {
                    self.warn_without_block("SET LOCAL");
                }
                self.set(name, value.as_deref(), *local).await
            }
            Statement::Show(name) => self.show(name),
            Statement::Reset(name) => {
                match name {
                    Some(name) if matches!(name.as_str(), "role" | "session_authorization") => {}
                    Some(name) => self.change_setting(name, None, false)?,
                    None if self.transaction.is_some() => {
                        self.settings.reset_all_in_transaction()?;
                    }
                    None => self.settings.reset_all(),
                }
                Ok(plain("RESET"))
            }
            Statement::Explain(lines) => {
                let rows = lines.iter().map(|line| [Value::from(line.as_str())].into()).collect();
                Ok(Answer::Rows { rows, tag: Tag::Plain("EXPLAIN".into()), lease: None })
            }
            Statement::Discard(what) => self.discard(*what),
            Statement::Listen(_) | Statement::Unlisten(_) | Statement::Notify { .. } => {
                self.run_channels(statement)
            }
            Statement::Prepare { name, types, text } => self.prepare_named(name, types, text),
            Statement::Execute { name, arguments } => {
                Box::pin(self.execute_named(name, arguments)).await
            }
            Statement::Fetch { name, direction, moves } => {
                self.fetch_rows(name, *direction, *moves, output).await
            }
            Statement::CloseCursor(name) => self.close_cursors(name.as_deref()),
            Statement::Deallocate(name) => Ok(self.deallocate(name.as_deref())),
            Statement::Nothing(tag) => Ok(plain(tag)),
            Statement::Empty => Ok(plain("")),
            _ => Err(Error::unsupported(&prepared.parsed.text)),
        }
    }

    fn run_savepoint(&mut self, statement: &Statement) -> Result<Answer> {
        match statement {
            Statement::Savepoint(name) => {
                self.open_transaction("SAVEPOINT")?;
                let (cursors, settings) = (self.cursors.mark(), self.settings.mark());
                let marks = SessionMark { cursors, settings };
                self.open_transaction("SAVEPOINT")?.savepoint(name.clone(), marks);
                Ok(plain("SAVEPOINT"))
            }
            Statement::Release(name) => {
                let outer = self.open_transaction("RELEASE SAVEPOINT")?.release(name)?;
                self.settings.release(outer.map(|marks| marks.settings));
                Ok(plain("RELEASE"))
            }
            Statement::RollbackTo(name) => {
                let (locks, marks) =
                    self.open_transaction("ROLLBACK TO SAVEPOINT")?.roll_back_to(name)?;
                locks.into_iter().for_each(|lock| _ = self.advisory.unlock(lock));
                self.cursors.return_to(marks.cursors);
                self.settings.return_to(marks.settings);
                self.failed = false;
                self.forget_unknown_sequences();
                Ok(plain("ROLLBACK"))
            }
            _ => Err(Error::new(SqlState::INTERNAL_ERROR, "no statement about savepoints")),
        }
    }
}
