//! Renaming what has a name of its own: constraints, indexes, views.
//!
//! What holds on to a thing by its number (keys, indexes, comments on them) need not know. A view
//! is known to others by name, so one that others read keeps it.

use std::sync::Arc;

use types::{Error, Result, SqlState};

use super::StoreChange;
use super::apply::{Transition, relation_exists};
use super::table::Draft;
use crate::schema::access::Access;
use crate::schema::catalog::{Commented, View};
use crate::syntax::ddl::Renamed;
use crate::syntax::names::{bare, beside};

impl Transition {
    pub(super) fn rename(
        &mut self,
        what: Renamed,
        (name, new): (&str, &str),
        if_exists: bool,
    ) -> Result<()> {
        let exists = match what {
            Renamed::Index => self.catalog.find_index(name).is_some(),
            Renamed::View => self.catalog.view(name).is_some(),
        };
        if !exists {
            let what = format!("relation \"{name}\" does not exist");
            return match if_exists {
                true => Ok(()),
                false => Err(Error::new(SqlState::UNDEFINED_TABLE, what)),
            };
        }
        if self.catalog.relation_exists(new) {
            return Err(relation_exists(new));
        }
        match what {
            Renamed::Index => self.rename_index(name, new),
            Renamed::View => self.rename_view(name, new),
        }
    }

    fn rename_index(&mut self, name: &str, new: &str) -> Result<()> {
        let Some((table, index)) = self.catalog.find_index(name) else { return Ok(()) };
        let mut draft = Draft::alter(&table.clone());
        self.name_index(&mut draft, index, new);
        self.put(draft.table);
        Ok(())
    }

    fn name_index(&mut self, draft: &mut Draft, index: types::IndexId, new: &str) {
        match index.checked_sub(1) {
            None => draft.table.primary_key_name = bare(new).to_owned(),
            Some(place) => {
                draft.schema().indexes[usize::from(place)].name = bare(new).to_owned();
                let schema = (*draft.table.schema).clone();
                self.store.push(StoreChange::Describe(schema));
            }
        }
    }

    fn rename_view(&mut self, name: &str, new: &str) -> Result<()> {
        if let Some(other) = self.catalog.views_on(name).next() {
            let what = format!("cannot rename view {name} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("view {} depends on view {name}", other.name)));
        }
        if let Some(view) = self.catalog.views.remove(name) {
            let view = View { name: new.to_owned(), ..(*view).clone() };
            self.catalog.views.insert(new.to_owned(), Arc::new(view));
        }
        // It is not a new one, and its owner stays.
        let access = self.catalog.access.remove(&Commented::View(name.to_owned()));
        let access = access.unwrap_or_else(|| Arc::new(Access::of(identity::BOOTSTRAP)));
        self.catalog.access.insert(Commented::View(new.to_owned()), access);
        if let Some(text) = self.catalog.comments.remove(&Commented::View(name.to_owned())) {
            self.catalog.comments.insert(Commented::View(new.to_owned()), text);
        }
        Ok(())
    }

    pub(super) fn rename_constraint(
        &mut self,
        draft: &mut Draft,
        name: &str,
        new: &str,
    ) -> Result<()> {
        let table = draft.original.clone();
        let unique = draft.table.unique_constraints().find(|(_, index)| index.name == name);
        let unique = unique.map(|(index, _)| index);
        let is_key = !table.schema.hidden_row_id && table.primary_key_name == name;
        if draft.has_constraint(new) {
            return Err(draft.duplicate_constraint(new));
        }
        if let Some(index) = unique.or(is_key.then_some(0)) {
            if self.catalog.relation_exists(&beside(table.key(), new)) {
                return Err(relation_exists(new));
            }
            self.name_index(draft, index, new);
            return Ok(());
        }
        let checks = draft.table.checks.iter_mut().map(|check| &mut check.name);
        let keys = draft.table.foreign_keys.iter_mut().map(|key| &mut key.name);
        match checks.chain(keys).find(|known| *known == name) {
            Some(known) => {
                *known = new.to_owned();
                Ok(())
            }
            None => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" for table \"{}\" does not exist", table.name()),
            )),
        }
    }
}
