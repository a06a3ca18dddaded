//! What a session looks for before a view is made: that its query binds, and that one which takes
//! another's place has the columns of that one first.

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::Session;
use crate::syntax::names::fold;
use crate::syntax::parse::parse;
use procedure::{Column, Output};

impl Session {
    pub(super) fn check_new_view(&self, create: &ast::CreateView) -> Result<()> {
        let columns = self.check_view(&create.query.to_string())?;
        let Some(mut columns) = columns.filter(|_| create.or_replace) else { return Ok(()) };
        for (column, renamed) in columns.iter_mut().zip(&create.columns) {
            column.name = fold(&renamed.name);
        }
        // What is not there yet, or is no view, is reported where it is made.
        let name = &create.name;
        let Ok(Some(before)) = self.check_view(&format!("SELECT * FROM {name}")) else {
            return Ok(());
        };
        let refused = |what: String| Error::new(SqlState(*b"42P16"), what);
        if columns.len() < before.len() {
            return Err(refused("cannot drop columns from view".to_owned()));
        }
        for (old, new) in before.iter().zip(&columns) {
            let (was, is) = (&old.name, &new.name);
            if was != is {
                let what = format!("cannot change name of view column \"{was}\" to \"{is}\"");
                return Err(refused(what).with_hint(
                    "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
                ));
            }
            if old.data_type != new.data_type {
                let (from, to) = (&old.data_type, &new.data_type);
                return Err(refused(format!(
                    "cannot change data type of view column \"{was}\" from {from} to {to}"
                )));
            }
        }
        Ok(())
    }

    /// The ledger takes any query over relations that exist: not every replica can run them all.
    /// The columns, where they are known.
    pub(super) fn check_view(&self, query: &str) -> Result<Option<Vec<Column>>> {
        let versioned = self.view().versioned;
        let mut columns = None;
        for parsed in parse(query)? {
            let prepared = match self.bind(&versioned, parsed, &[], true) {
                // A view is read with its owner's privileges, when it is read.
                Err(error) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE => continue,
                prepared => prepared?,
            };
            if prepared.bound.statement.is_ordered() {
                let what = "a view is a query that only reads";
                return Err(Error::new(SqlState::SYNTAX_ERROR, what));
            }
            if !prepared.bound.parameters.is_empty() {
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
            }
            if let Output::Rows(shown) = &prepared.bound.output {
                columns = Some(shown.clone());
            }
        }
        Ok(columns)
    }
}
