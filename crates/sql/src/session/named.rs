//! PREPARE, EXECUTE and DEALLOCATE as SQL says them.
//!
//! A name stands for a statement's text, which is bound when it is used. EXECUTE takes its columns
//! from the statement that it names, so a client can be told them before it runs.

use std::sync::Arc;

use procedure::Expr;
use types::{DataType, Error, Result, SqlState};

use super::{Answer, Prepared, Session, Tag, plain};
use crate::statement::Statement;

/// Statements that a session may have prepared by name, and their texts; they are bound when used.
const NAMED_MAX: usize = 10_000;
const NAMED_BYTES_MAX: usize = 16 << 20;

impl Session {
    pub(super) fn prepare_named(
        &mut self,
        name: &str,
        types: &[Option<DataType>],
        text: &str,
    ) -> Result<Answer> {
        if self.named.contains_key(name) {
            return Err(Error::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let held: usize = self.named.iter().map(|(name, (_, text))| name.len() + text.len()).sum();
        if held + name.len() + text.len() > NAMED_BYTES_MAX || self.named.len() >= NAMED_MAX {
            return Err(Error::new(
                SqlState::OUT_OF_MEMORY,
                "the session has prepared too many statements",
            )
            .with_detail(format!(
                "There can be {NAMED_MAX}, of {NAMED_BYTES_MAX} bytes of text in all."
            ))
            .with_hint("DEALLOCATE those that are no longer needed."));
        }
        self.bind_named(name, types, text)?;
        self.named.insert(name.to_owned(), (types.to_vec(), text.to_owned()));
        Ok(plain("PREPARE"))
    }

    pub(super) fn named_statement(&mut self, name: &str) -> Result<Arc<Prepared>> {
        let (types, text) = self.named.get(name).cloned().ok_or_else(|| unknown(name))?;
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
            Statement::Procedure(_)
            | Statement::Call { .. }
            | Statement::Analytical { copy: None, .. } => Ok(prepared),
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
            values.push(types::cast::assign_to(value, data_type)?);
        }
        self.execute(&prepared, &values).await
    }

    /// A name that SQL did not give is one that the protocol may have given.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Answer {
        match name {
            Some(name) if self.named.remove(name).is_some() => plain("DEALLOCATE"),
            Some(name) => Answer::Deallocated {
                name: Some(name.to_owned()),
                tag: Tag::Plain("DEALLOCATE".into()),
            },
            None => {
                self.named.clear();
                Answer::Deallocated { name: None, tag: Tag::Plain("DEALLOCATE ALL".into()) }
            }
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_SQL_STATEMENT_NAME,
        format!("prepared statement \"{name}\" does not exist"),
    )
}
