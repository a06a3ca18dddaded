//! DROP OWNED and REASSIGN OWNED: all objects of a role at once.
//!
//! Objects of the role may depend on each other. So DROP OWNED drops each with its dependants, and
//! then, without CASCADE, fails if another role's object was dropped or changed by that.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::RoleId;
use types::{Error, Result, SqlState, TableId};

use super::apply::Transition;
use super::schemas::named;
use crate::schema::catalog::{Catalog, Commented};
use crate::syntax::roles::RoleSpec;

impl Transition {
    pub(super) fn drop_all_owned(&mut self, roles: &[RoleSpec], cascade: bool) -> Result<()> {
        let roles = self.owners(roles, "drop objects", "drop objects owned by role")?;
        let owned = self.owned_by_roles(&roles);
        let before = self.catalog.clone();
        for role in &roles {
            self.forget_role(*role)?;
        }
        let (mut tables, mut views, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
        let (mut schemas, mut types, mut collations) = (Vec::new(), Vec::new(), Vec::new());
        for object in &owned {
            match object {
                Commented::Table(id) => tables.extend(before.table_by_id(*id).map(|t| t.key())),
                Commented::View(name) => views.push(name.as_str()),
                Commented::Sequence(id) => {
                    let sequence = before.sequence_by_id(*id);
                    sequences.extend(sequence.map(|sequence| sequence.name.as_str()));
                }
                Commented::Schema(name) => schemas.push(name.clone()),
                Commented::Type(id) => types.extend(before.made_type(*id)),
                Commented::Collation(id) => {
                    collations.extend(before.collation_by_id(*id).map(|of| &of.name));
                }
                Commented::Routine(name) => _ = self.catalog.routines.remove(name),
                _ => {}
            }
        }
        self.drop_views(&named(&views), true, true)?;
        self.drop_tables(&named(&tables), true, true)?;
        self.drop_sequences(&named(&sequences), true, true)?;
        self.drop_types(&named(&types), true, true)?;
        self.drop_collations(&named(&collations), true, true)?;
        self.drop_schemas(&schemas, true, true)?;
        self.link_references();
        match cascade {
            true => Ok(()),
            false => self.check_only_gone(&before, &owned),
        }
    }

    pub(super) fn reassign_owned(&mut self, roles: &[RoleSpec], to: &RoleSpec) -> Result<()> {
        let what = "reassign ownership of objects owned by role";
        let roles = self.owners(roles, "reassign objects", what)?;
        let new = self.role(to)?;
        if !self.catalog.roles.has_privileges_of(self.actor.current, new) {
            return Err(denied("reassign objects"));
        }
        self.reassign_databases(&roles, new);
        for object in self.owned_by_roles(&roles) {
            let old = self.catalog.owner(&object);
            self.give_whole_to(&object, old, new);
        }
        Ok(())
    }

    /// The roles, if what is theirs may be taken from them.
    fn owners(&self, roles: &[RoleSpec], action: &str, refused: &str) -> Result<Vec<RoleId>> {
        let mut owners = Vec::with_capacity(roles.len());
        for spec in roles {
            let role = self.role(spec)?;
            if !self.catalog.roles.has_privileges_of(self.actor.current, role) {
                return Err(denied(action));
            }
            owners.push(role);
        }
        let is_pinned = |role: &&RoleId| {
            let known = self.catalog.roles.role(**role);
            **role == identity::BOOTSTRAP || known.is_some_and(|role| role.is_predefined())
        };
        if let Some(pinned) = owners.iter().find(is_pinned) {
            let what = format!(
                "cannot {refused} {} because they are required by the database system",
                self.catalog.roles.name(*pinned)
            );
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what));
        }
        Ok(owners)
    }

    /// What they own, but for sequences that go with a table.
    fn owned_by_roles(&self, roles: &[RoleId]) -> BTreeSet<Commented> {
        let catalog = &self.catalog;
        let counts = |object: &Commented| match object {
            Commented::Sequence(id) => {
                catalog.sequence_by_id(*id).is_some_and(|sequence| sequence.owner.is_none())
            }
            _ => true,
        };
        let is_theirs = |object: &Commented| roles.contains(&catalog.owner(object));
        catalog.owned_objects().filter(|object| is_theirs(object) && counts(object)).collect()
    }

    /// What a role was granted, and what rests on that.
    fn forget_role(&mut self, role: RoleId) -> Result<()> {
        for access in self.catalog.access.values_mut() {
            let mut acls = access.acl.iter().chain(access.columns.values());
            if !acls.any(|acl| acl.names(role)) {
                continue;
            }
            let access = Arc::make_mut(access);
            let owner = access.owner;
            if owner == role {
                continue;
            }
            let acls = access.acl.iter_mut().chain(access.columns.values_mut());
            acls.for_each(|acl| acl.forget(role, owner));
            access.columns.retain(|_, acl| !acl.is_empty());
        }
        self.forget_defaults(role)
    }

    /// # Errors
    /// 2BP01: something went or was changed that is not among what was to go.
    fn check_only_gone(&self, before: &Catalog, owned: &BTreeSet<Commented>) -> Result<()> {
        let Some(what) = self.first_other(before, owned) else { return Ok(()) };
        let one = match owned.first() {
            Some(only) if owned.len() == 1 => {
                let (kind, name) = before.called(only);
                format!("{kind} {name} because other objects depend on it")
            }
            _ => "desired object(s) because other objects depend on them".to_owned(),
        };
        Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, format!("cannot drop {one}"))
            .with_detail(what)
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    fn first_other(&self, before: &Catalog, owned: &BTreeSet<Commented>) -> Option<String> {
        let goes_with_it = |object: &Commented| match object {
            Commented::Sequence(id) => {
                let owner = before.sequence_by_id(*id).and_then(|sequence| sequence.owner);
                owner.is_some_and(|owner| owned.contains(&Commented::Table(owner.table)))
            }
            _ => false,
        };
        let is_other = |object: &Commented| {
            !self.catalog.has(object) && !owned.contains(object) && !goes_with_it(object)
        };
        if let Some(other) = before.owned_objects().find(is_other) {
            let (kind, name) = before.called(&other);
            return Some(format!("{kind} {name} depends on what is to be dropped"));
        }
        let changed = |id: TableId| {
            let (old, new) = (before.table_by_id(id)?, self.catalog.table_by_id(id)?);
            let lost = old
                .foreign_keys
                .iter()
                .find(|key| !new.foreign_keys.iter().any(|kept| kept.name == key.name));
            if let Some(lost) = lost {
                let parent = before.table_by_id(lost.parent).map_or("", |parent| parent.name());
                let (name, child) = (&lost.name, old.name());
                return Some(format!(
                    "constraint {name} on table {child} depends on table {parent}"
                ));
            }
            let place = old.defaults.iter().zip(&new.defaults).position(|(old, new)| old != new)?;
            let (column, table) = (old.column_name(place as u16), old.name());
            Some(format!(
                "default value for column {column} of table {table} depends on a sequence"
            ))
        };
        before.tables().find_map(|table| changed(table.id()))
    }
}

fn denied(action: &str) -> Error {
    let what = format!("permission denied to {action}");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}
