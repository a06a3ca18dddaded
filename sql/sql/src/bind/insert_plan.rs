//! The plan of an INSERT beside its rows: target columns, ON CONFLICT, RETURNING, OVERRIDING.

use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{ColumnId, Error, Result, SqlState};

use super::dml::Returning;
use crate::schema::catalog::Table;
use crate::schema::sequence::Identity;
use crate::syntax::names::{fold, simple_name};
use crate::syntax::sequence::Overriding;

/// What to do where a row is already there.
pub(super) enum Conflict {
    /// An error.
    Reject,
    /// Leave it; any unique index counts, or the given one.
    Nothing(Option<u16>),
    Update {
        index: u16,
        assignments: Vec<(ColumnId, Expr)>,
        condition: Option<Expr>,
    },
}

pub(super) struct InsertPlan {
    pub(super) table: Arc<Table>,
    pub(super) columns: Vec<ColumnId>,
    /// The statement names its columns.
    pub(super) is_listed: bool,
    pub(super) conflict: Conflict,
    pub(super) returning: Returning,
    /// What RETURNING may show after the table's columns.
    pub(super) beside: Vec<Expr>,
    pub(super) identities: Vec<(ColumnId, Identity)>,
    pub(super) overriding: Option<Overriding>,
}

impl InsertPlan {
    /// How rows are found again at the statement's end: `Some(None)`: they are what was given;
    /// `None`: they cannot be.
    pub(super) fn index_to_check_by(&self) -> Option<Option<u16>> {
        match &self.conflict {
            Conflict::Reject => Some(None),
            Conflict::Nothing(Some(index)) => Some(Some(*index)),
            Conflict::Nothing(None) => (!self.table.schema.hidden_row_id).then_some(Some(0)),
            Conflict::Update { index, assignments, .. } => {
                let key = self.table.index_columns(*index);
                let stays = !assignments.iter().any(|(column, _)| key.contains(column));
                stays.then_some(Some(*index))
            }
        }
    }

    /// # Errors
    /// 428C9 for a column that always makes its values itself.
    pub(super) fn check_may_give(&self, column: ColumnId) -> Result<()> {
        if self.table.generated(column).is_some() {
            let name = self.table.column_name(column);
            return Err(Error::new(
                SqlState::GENERATED_ALWAYS,
                format!("cannot insert a non-DEFAULT value into column \"{name}\""),
            )
            .with_detail(format!("Column \"{name}\" is a generated column.")));
        }
        let always = self.identities.contains(&(column, Identity::Always));
        match always && self.overriding.is_none() {
            false => Ok(()),
            true => {
                let name = self.table.column_name(column);
                Err(Error::new(
                    SqlState::GENERATED_ALWAYS,
                    format!("cannot insert a non-DEFAULT value into column \"{name}\""),
                )
                .with_detail(format!(
                    "Column \"{name}\" is an identity column defined as GENERATED ALWAYS."
                ))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
            }
        }
    }

    /// OVERRIDING USER VALUE.
    pub(super) fn ignores(&self, column: ColumnId) -> bool {
        self.overriding == Some(Overriding::User)
            && self.identities.iter().any(|(identity, _)| *identity == column)
    }

    pub(super) fn check_width(&self, values: usize) -> Result<()> {
        if values > self.columns.len() {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "INSERT has more expressions than target columns",
            ));
        }
        // Without a column list, columns at the end may be left out.
        match values < self.columns.len() && self.is_listed {
            true => Err(Error::new(
                SqlState::SYNTAX_ERROR,
                "INSERT has more target columns than expressions",
            )),
            false => Ok(()),
        }
    }
}

/// The unique index that ON CONFLICT names.
pub(super) fn arbiter(table: &Table, target: &ast::ConflictTarget) -> Result<u16> {
    let index = named_arbiter(table, target)?;
    match table.deferrable.contains_key(&index) {
        false => Ok(index),
        true => Err(no_arbiter()),
    }
}

/// A key that waits tells no conflict.
pub(super) fn no_arbiter() -> Error {
    let what = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints \
                as arbiters";
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
}

fn named_arbiter(table: &Table, target: &ast::ConflictTarget) -> Result<u16> {
    let unique = table.live_indexes().filter(|(_, index)| index.unique);
    let own_key = (!table.schema.hidden_row_id).then_some(0);
    let mut candidates = own_key.into_iter().chain(unique.map(|(id, _)| id));
    match target {
        ast::ConflictTarget::Columns(names) => {
            let mut columns = Vec::with_capacity(names.len());
            for name in names {
                columns.push(table.column_named(&fold(name))?);
            }
            let found = candidates.find(|index| {
                let key = table.index_columns(*index);
                key.len() == columns.len() && key.iter().all(|c| columns.contains(c))
            });
            found.ok_or_else(|| {
                Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
        ast::ConflictTarget::OnConstraint(name) => {
            let name = simple_name(name)?;
            let found = candidates.find(|index| match index {
                0 => table.primary_key_name == name,
                n => table.unique_constraints().any(|(id, index)| id == *n && index.name == name),
            });
            found.ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" for table \"{}\" does not exist", table.name()),
                )
            })
        }
    }
}
