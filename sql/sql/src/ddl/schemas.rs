//! CREATE SCHEMA and DROP SCHEMA: namespaces, and all that is in one.
//!
//! A schema is no more than a name that keys of objects begin with
//! ([`names`](crate::syntax::names)), so dropping one drops what has such a key, with the
//! statements that would drop each by itself. `public` is one like any other, but for being there
//! from the beginning.
//!
//! Departure: a schema cannot be renamed.

use std::sync::Arc;

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::apply::Transition;
use crate::schema::access::Access;
use crate::schema::catalog::Commented;
use crate::syntax::names::{SYSTEM_SCHEMAS, no_schema, schema_of, split};
use crate::syntax::roles::RoleSpec;

const DUPLICATE_SCHEMA: SqlState = SqlState(*b"42P06");
const RESERVED_NAME: SqlState = SqlState(*b"42939");

impl Transition {
    pub(super) fn create_schema(
        &mut self,
        name: &str,
        if_not_exists: bool,
        owner: Option<&RoleSpec>,
    ) -> Result<()> {
        let owner = owner.map(|owner| self.role(owner)).transpose()?;
        let roles = &self.catalog.roles;
        if let Some(owner) = owner.filter(|owner| !roles.is_member(self.actor.current, *owner)) {
            let what = format!("must be member of role \"{}\"", roles.name(owner));
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        }
        if name.starts_with("pg_") {
            return Err(Error::new(RESERVED_NAME, format!("unacceptable schema name \"{name}\""))
                .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        let exists = self.catalog.has_namespace(name) || SYSTEM_SCHEMAS.contains(&name);
        match (exists, if_not_exists) {
            (true, true) => Ok(()),
            (true, false) => {
                let what = format!("schema \"{name}\" already exists");
                Err(Error::new(DUPLICATE_SCHEMA, what))
            }
            (false, _) => {
                self.catalog.namespaces.insert(name.to_owned());
                if let Some(owner) = owner {
                    let object = Commented::Schema(name.to_owned());
                    let acl = self.catalog.acl_of_new(&object, owner);
                    let made = Access { acl, ..Access::of(owner) };
                    self.catalog.access.insert(object, Arc::new(made));
                }
                Ok(())
            }
        }
    }

    /// What is to be made with this key has a schema to be in.
    pub(super) fn check_namespace(&self, key: &str) -> Result<()> {
        let schema = schema_of(key);
        match self.catalog.has_namespace(schema) {
            true => Ok(()),
            false => Err(no_schema(schema)),
        }
    }

    pub(super) fn drop_schemas(
        &mut self,
        names: &[String],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            if SYSTEM_SCHEMAS.contains(&name.as_str()) {
                let what =
                    format!("cannot drop schema {name} because it is required by the system");
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what));
            }
            if !self.catalog.has_namespace(name) {
                match if_exists {
                    true => continue,
                    false => return Err(no_schema(name)),
                }
            }
            self.empty_schema(name, cascade)?;
            self.catalog.namespaces.remove(name);
        }
        Ok(())
    }

    fn empty_schema(&mut self, schema: &str, cascade: bool) -> Result<()> {
        let catalog = &self.catalog;
        let inside = |keys: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            keys.filter(|key| schema_of(key) == schema).map(str::to_owned).collect()
        };
        let views = inside(&mut catalog.views().map(|view| view.name.as_str()));
        let tables = inside(&mut catalog.tables().map(|table| table.key()));
        let free = catalog.sequences().filter(|sequence| sequence.owner.is_none());
        let sequences = inside(&mut free.map(|sequence| sequence.name.as_str()));
        let routines = inside(&mut catalog.routines().map(|(key, _)| key));
        let types = inside(&mut catalog.made_types().filter_map(|id| catalog.made_type(id)));
        let collations = inside(&mut catalog.collations.values().map(|of| of.name.as_str()));
        let all = views.iter().chain(&tables).chain(&sequences).chain(&routines);
        let mut all = all.chain(&types).chain(&collations);
        if let (Some(first), false) = (all.next(), cascade) {
            let what = format!("cannot drop schema {schema} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(format!("{first} depends on schema {schema}"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.drop_views(&named(&views), true, true)?;
        self.drop_tables(&named(&tables), true, true)?;
        self.drop_sequences(&named(&sequences), true, true)?;
        for routine in routines {
            self.catalog.routines.remove(&routine);
        }
        self.drop_types(&named(&types), true, true)?;
        self.drop_collations(&named(&collations), true, true)
    }
}

/// Keys as statements name them.
pub(super) fn named(keys: &[impl AsRef<str>]) -> Vec<ast::ObjectName> {
    let named = |key: &str| {
        let (schema, name) = split(key);
        let parts = [schema, name].map(|part| ast::Ident::with_quote('"', part));
        ast::ObjectName::from(parts.to_vec())
    };
    keys.iter().map(|key| named(key.as_ref())).collect()
}
