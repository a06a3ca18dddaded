//! PREPARE, EXECUTE and DEALLOCATE as SQL says them.
//!
//! A name stands for a statement's text, which is bound when it is used. EXECUTE takes its columns
//! from the statement that it names, so a client can be told them before it runs.

use std::sync::Arc;

use procedure::Expr;
use types::{DataType, Error, Result, SqlState, Zone};

use super::answer::{Answer, Tag, plain};
use super::prepared::{Action, Prepared};
use super::{Session, SessionMemory};
use crate::bind::statement::Program;

/// What one takes beside its name and its text.
const NAMED_BYTES: usize = 256;

impl Session {
    pub(super) fn prepare_named(
        &mut self,
        name: &str,
        types: &[Option<DataType>],
        text: &str,
    ) -> Result<Answer> {
        if self.statements.named.contains_key(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let bytes = self.check_room_for(name, text)?;
        self.bind_named(name, types, text)?;
        self.statements.named_lease.cover(bytes)?;
        self.statements.named.insert(name.to_owned(), (types.to_vec(), text.to_owned()));
        Ok(plain("PREPARE"))
    }

    fn bytes_of_named(&self) -> u64 {
        self.statements.named.iter().map(|(name, (_, text))| bytes_of(name, text)).sum()
    }

    pub(super) fn forget_named(&mut self) {
        self.statements.named.clear();
        self.statements.named_lease.shrink(0);
    }

    /// What all would take with another one, whose text alone is kept.
    fn check_room_for(&self, name: &str, text: &str) -> Result<u64> {
        let SessionMemory { statements_max, statement_bytes_max, .. } = self.database.memory;
        let bytes = self.bytes_of_named() + bytes_of(name, text);
        if self.statements.named.len() < statements_max && bytes <= statement_bytes_max as u64 {
            return Ok(bytes);
        }
        let what = "the session has prepared too many statements";
        Err(Error::new(SqlState::OUT_OF_MEMORY, what)
            .with_detail(format!(
                "There can be {statements_max} (session_statements_max), of {statement_bytes_max} \
                 bytes in all (session_statement_bytes_max)."
            ))
            .with_hint("DEALLOCATE those that are no longer needed."))
    }

    pub(super) fn named_statement(&mut self, name: &str) -> Result<Arc<Prepared>> {
        let (types, text) =
            self.statements.named.get(name).cloned().ok_or_else(|| unknown(name))?;
        self.bind_named(name, &types, &text)
    }

    fn bind_named(
        &mut self,
        name: &str,
        types: &[Option<DataType>],
        text: &str,
    ) -> Result<Arc<Prepared>> {
        let parsed = self.parse(text)?.into_iter().next().ok_or_else(|| unknown(name))?;
        let not_preparable = || {
            Error::new(SqlState::SYNTAX_ERROR, "this statement cannot be prepared")
                .with_hint("PREPARE takes SELECT, INSERT, UPDATE and DELETE.")
        };
        if parsed.is_execute() {
            return Err(not_preparable());
        }
        let prepared = self.prepare(parsed, types)?;
        match prepared.bound.statement {
            Action::Program(Program::Procedure(_) | Program::Call { .. })
            | Action::Analytical { copy: None, .. } => Ok(prepared),
            _ => Err(not_preparable()),
        }
    }

    pub(super) async fn execute_named(&mut self, name: &str, arguments: &[Expr]) -> Result<Answer> {
        let prepared = self.named_statement(name)?;
        let wanted = &prepared.bound.parameters;
        if wanted.len() != arguments.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .with_detail(format!(
                "Expected {} parameters but got {}.",
                wanted.len(),
                arguments.len()
            )));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (argument, data_type) in arguments.iter().zip(wanted) {
            let catalog = Arc::clone(&self.view().versioned.catalog);
            let argument = self.with_values(argument, &catalog).await?;
            let value = self.argument(&argument, &[])?;
            values.push(match Zone::matters(&value.data_type_hint(), data_type) {
                true => self.info.zone.cast(&value, data_type, false)?,
                false => types::cast::assign_to(value, data_type)?,
            });
        }
        self.execute_within(&prepared, &values).await
    }

    /// A name that SQL did not give is one that the protocol may have given.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Answer {
        match name {
            Some(name) if self.statements.named.remove(name).is_some() => {
                self.statements.named_lease.shrink(self.bytes_of_named());
                plain("DEALLOCATE")
            }
            Some(name) => Answer::Deallocated {
                name: Some(name.to_owned()),
                tag: Tag::Plain("DEALLOCATE".into()),
            },
            None => {
                self.forget_named();
                Answer::Deallocated { name: None, tag: Tag::Plain("DEALLOCATE ALL".into()) }
            }
        }
    }
}

fn bytes_of(name: &str, text: &str) -> u64 {
    (NAMED_BYTES + name.len() + text.len()) as u64
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_SQL_STATEMENT_NAME,
        format!("prepared statement \"{name}\" does not exist"),
    )
}
