//! Primary keys that come and go with ALTER TABLE: the rows are written anew under the key, or
//! under hidden row ids in the order that they had.

use std::sync::Arc;

use types::{ColumnId, Error, Result, SqlState};

use super::ColumnSource;
use super::apply::{Transition, relation_exists};
use super::table::Draft;
use crate::schema::catalog::{ForeignKey, View};
use crate::syntax::names::beside;

impl Transition {
    /// The table is written anew under its key, without the hidden row ids.
    pub(super) fn add_primary_key(
        &mut self,
        draft: &mut Draft,
        name: Option<String>,
        columns: Vec<ColumnId>,
    ) -> Result<()> {
        let table = draft.original.clone();
        if !table.schema.hidden_row_id {
            return Err(Error::new(
                SqlState::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", table.name()),
            ));
        }
        let name = match name {
            Some(name) if self.catalog.relation_exists(&beside(table.key(), &name)) => {
                return Err(relation_exists(&name));
            }
            Some(name) => name,
            None => self.free_name(table.key(), &format!("{}_pkey", table.name())),
        };
        for column in &columns {
            self.require_not_null(&table, *column)?;
        }
        let error = Error::new(
            SqlState::UNIQUE_VIOLATION,
            format!("could not create unique index \"{name}\""),
        )
        .with_detail(format!("Key ({}) is duplicated.", draft.names(&columns)));
        self.require_distinct(&table, &columns, false, error)?;
        draft.table.primary_key_name = name;
        draft.table.defaults.pop();
        let schema = draft.schema();
        schema.columns.pop();
        schema.hidden_row_id = false;
        let kept = schema.columns.len() as ColumnId;
        draft.set_primary_key(columns);
        self.rebuild(&draft.table, (0..kept).map(ColumnSource::Old).collect());
        Ok(())
    }

    /// The table is written anew under hidden row ids, and its columns stay NOT NULL.
    pub(super) fn drop_primary_key(&mut self, draft: &mut Draft, cascade: bool) -> Result<()> {
        let table = draft.original.clone();
        for reference in &table.referenced_by {
            let Some(child) = self.catalog.table_by_id(reference.child).cloned() else { continue };
            let Some(key) = child.foreign_keys.get(reference.key) else { continue };
            if key.parent_index != 0 {
                continue;
            }
            if !cascade {
                let (own, name) = (&table.primary_key_name, table.name());
                let what = format!(
                    "cannot drop constraint {own} on table {name} because other objects depend on it"
                );
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                    .with_detail(format!(
                        "constraint {} on table {} depends on index {own}",
                        key.name,
                        child.name()
                    ))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let leads_here = |key: &ForeignKey| key.parent == table.id() && key.parent_index == 0;
            match child.id() == table.id() {
                true => draft.table.foreign_keys.retain(|key| !leads_here(key)),
                false => {
                    self.edit(child.id(), |child| child.foreign_keys.retain(|key| !leads_here(key)))
                }
            }
        }
        let old = 0..table.schema.columns.len() as ColumnId;
        let sources = old.map(ColumnSource::Old).chain([ColumnSource::RowId]);
        draft.add_row_id();
        self.drop_grouped_by_key(draft, cascade)?;
        self.rebuild(&draft.table, sources.collect());
        Ok(())
    }

    /// Views that show columns beside the key which they group by: with it they could not be read
    /// any more.
    fn drop_grouped_by_key(&mut self, draft: &Draft, cascade: bool) -> Result<()> {
        let table = &draft.original;
        let mut without = self.catalog.clone();
        without.tables.insert(table.id(), Arc::new(draft.table.clone()));
        let views = self.catalog.views_on(table.key());
        let depends = |view: &&Arc<View>| {
            self.catalog.can_be_read(view).is_ok() && without.can_be_read(view).is_err()
        };
        let views: Vec<String> = views.filter(depends).map(|view| view.name.clone()).collect();
        for view in views {
            let kept = self.catalog.find_table(&view).cloned();
            let kind = kept.as_ref().map_or("view", |table| table.kind());
            if !cascade {
                let (own, name) = (&table.primary_key_name, table.name());
                let what = format!(
                    "cannot drop constraint {own} on table {name} because other objects depend on it"
                );
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                    .with_detail(format!(
                        "{kind} {view} depends on constraint {own} on table {name}"
                    ))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.drop_views_on(kind, &view, &[], true)?;
            match kept {
                Some(table) => self.forget_table(&table, true)?,
                None => _ = self.catalog.views.remove(&view),
            }
        }
        Ok(())
    }
}
