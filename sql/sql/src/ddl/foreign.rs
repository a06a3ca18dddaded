//! Foreign keys of tables that are made or changed.

use std::sync::Arc;

use sqlparser::ast;
use types::{ColumnId, Error, IndexId, Result, SqlState};

use super::apply::free_among;
use super::parts::check_parts;
use super::table::{Draft, deferrable, reference_action};
use crate::schema::catalog::{Catalog, ForeignKey, ReferenceAction, Table};
use crate::schema::deferred::orphans_with;
use crate::syntax::names::{bare, fold, object_name};

impl Draft {
    /// Adds a foreign key and gives a query that finds rows which break it.
    pub fn add_foreign_key(
        &mut self,
        catalog: &Catalog,
        foreign: &ast::ForeignKeyConstraint,
    ) -> Result<String> {
        let deferrable = deferrable(foreign.characteristics.as_ref())?;
        if foreign.match_kind.is_some_and(|kind| kind != ast::ConstraintReferenceMatchKind::Simple)
        {
            return Err(Error::unsupported("MATCH FULL and MATCH PARTIAL"));
        }
        check_parts(self.table.foreign_keys.len(), "foreign keys")?;
        let [on_delete, on_update] = [foreign.on_delete, foreign.on_update].map(reference_action);
        let own: Vec<String> = foreign.columns.iter().map(fold).collect();
        let columns = self.referring(&own)?;
        let sets =
            |action: ReferenceAction| !action.rejects() && action != ReferenceAction::Cascade;
        if (sets(on_delete) || !on_update.rejects())
            && columns.iter().any(|column| self.table.generated(*column).is_some())
        {
            let clause = if sets(on_delete) { "ON DELETE" } else { "ON UPDATE" };
            let what = format!(
                "invalid {clause} action for foreign key constraint containing generated column"
            );
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        let parent_name = object_name(&foreign.foreign_table)?;
        if catalog.find_table(&parent_name).is_some_and(|parent| parent.materialized.is_some()) {
            let what = format!("referenced relation \"{}\" is not a table", bare(&parent_name));
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        let parent = match parent_name == self.table.key() {
            true => Arc::new(self.table.clone()),
            false => catalog.table(&parent_name)?.clone(),
        };
        let referred: Vec<String> = foreign.referred_columns.iter().map(fold).collect();
        let (parent_index, pairs) = matched_key(&parent, &referred, &columns)?;
        for (own, theirs) in &pairs {
            comparable(&self.table, *own, &parent, *theirs)?;
        }
        let name = match &foreign.name {
            Some(name) => fold(name),
            None => free_among(&self.default_name(&columns, "fkey"), self.constraint_names()),
        };
        if self.has_constraint(&name) {
            return Err(self.duplicate_constraint(&name));
        }
        let (columns, parent_columns): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let repeats = (1..columns.len()).any(|place| columns[..place].contains(&columns[place]));
        if repeats && (sets(on_delete) || !on_update.rejects()) {
            return Err(Error::unsupported(
                "an action that changes a column which a foreign key names more than once",
            ));
        }
        let orphans = orphans(&self.table, &columns, &parent, &parent_columns);
        self.table.foreign_keys.push(ForeignKey {
            name,
            columns,
            parent: parent.id(),
            parent_columns,
            parent_index,
            on_delete,
            on_update,
            validated: true,
            deferrable,
            unchecked: false,
        });
        Ok(orphans)
    }
}

/// Rows of the child that have no parent.
pub(super) fn orphans(
    child: &Table,
    columns: &[ColumnId],
    parent: &Table,
    parent_columns: &[ColumnId],
) -> String {
    orphans_with("1", (child, columns), (parent, parent_columns))
}

/// The parent's unique index over the referred columns, and the pairs (child's column, parent's
/// column) in its order.
fn matched_key(
    parent: &Table,
    referred: &[String],
    columns: &[ColumnId],
) -> Result<(IndexId, Vec<(ColumnId, ColumnId)>)> {
    let no_key = || {
        Error::new(
            SqlState::INVALID_FOREIGN_KEY,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name()
            ),
        )
    };
    let mut theirs = Vec::new();
    for name in referred {
        theirs.push(parent.schema.column(name).ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" referenced in foreign key constraint does not exist"),
            )
        })?);
    }
    if referred.is_empty() {
        if parent.schema.hidden_row_id {
            return Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("there is no primary key for referenced table \"{}\"", parent.name()),
            ));
        }
        theirs = parent.schema.primary_key.clone();
    }
    if theirs.len() != columns.len() {
        return Err(Error::new(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    let unique = parent.live_indexes().filter(|(_, i)| i.unique).map(|(id, _)| id);
    let mut keys = std::iter::once(0).chain(unique);
    let index = keys.find(|index| {
        let key = parent.index_columns(*index);
        key.len() == theirs.len() && key.iter().all(|c| theirs.contains(c))
    });
    let index = index.ok_or_else(no_key)?;
    if parent.deferrable.contains_key(&index) {
        let what = format!(
            "cannot use a deferrable unique constraint for referenced table \"{}\"",
            parent.name()
        );
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
    }
    let mut pairs = Vec::with_capacity(columns.len());
    for key_column in parent.index_columns(index) {
        let place = theirs.iter().position(|c| c == key_column).ok_or_else(no_key)?;
        pairs.push((columns[place], *key_column));
    }
    Ok((index, pairs))
}

pub(super) fn comparable(
    child: &Table,
    own: ColumnId,
    parent: &Table,
    theirs: ColumnId,
) -> Result<()> {
    let (a, b) = (child.column_type(own), parent.column_type(theirs));
    let same_kind = a.without_modifier() == b.without_modifier()
        || (a.is_integer() && b.is_integer())
        || (a.is_string() && b.is_string());
    match same_kind {
        true => Ok(()),
        false => Err(Error::new(
            SqlState::DATATYPE_MISMATCH,
            "foreign key constraint cannot be implemented",
        )
        .with_detail(format!(
            "Key columns \"{}\" and \"{}\" are of incompatible types: {a} and {b}.",
            child.column_name(own),
            parent.column_name(theirs)
        ))),
    }
}
