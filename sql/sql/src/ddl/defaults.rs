//! ALTER DEFAULT PRIVILEGES: the privileges that objects get when they are created later.
//!
//! ```text
//!   of a role, in all schemas   starts from the kind's built-in default; REVOKE may reduce that
//!   of a role, in one schema    starts empty; only adds to the entry for all schemas
//!                               ─► both together are a new object's grants
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use identity::{Acl, Grant, Kind, Privileges, RoleId};
use types::{Error, Result, SqlState};

use super::apply::Transition;
use super::grants::{INVALID_GRANT_OPERATION, check_there_is};
use crate::schema::access::DefaultsOf;
use crate::syntax::grants::{DefaultPrivileges, GrantStatement, GrantedPrivileges};
use crate::syntax::names::no_schema;

/// Of one ledger. A schema change copies their table.
const DEFAULTS_MAX: usize = 10_000;

impl Transition {
    pub(super) fn default_privileges(&mut self, said: &DefaultPrivileges) -> Result<()> {
        let kind = said.statement.on;
        let mut roles = Vec::with_capacity(said.roles.len().max(1));
        for spec in &said.roles {
            let role = self.role(spec)?;
            if !self.catalog.roles.is_member(self.actor.current, role) {
                let what = format!("must be member of role \"{}\"", self.catalog.roles.name(role));
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
            }
            roles.push(role);
        }
        if said.roles.is_empty() {
            roles.push(self.actor.current);
        }
        if kind == Kind::Schema && !said.schemas.is_empty() {
            let what = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(Error::new(INVALID_GRANT_OPERATION, what));
        }
        let missing = said.schemas.iter().find(|name| !self.catalog.has_namespace(name));
        if let Some(missing) = missing {
            return Err(no_schema(missing));
        }
        let wanted = wanted(&said.statement)?;
        for role in roles {
            match said.schemas.is_empty() {
                true => self.change_defaults((role, None, kind), wanted, &said.statement)?,
                false => said.schemas.iter().try_for_each(|schema| {
                    let of = (role, Some(schema.clone()), kind);
                    self.change_defaults(of, wanted, &said.statement)
                })?,
            }
        }
        Ok(())
    }

    fn defaults_mut(&mut self) -> &mut BTreeMap<DefaultsOf, Acl> {
        Arc::make_mut(&mut self.catalog.defaults)
    }

    fn change_defaults(
        &mut self,
        (role, schema, kind): (RoleId, Option<String>, Kind),
        privileges: Privileges,
        statement: &GrantStatement<Kind>,
    ) -> Result<()> {
        let grantees = self.grantees(statement)?;
        let of = DefaultsOf { role, schema, kind };
        let usual = of.usual();
        let mut acl = self.catalog.defaults.get(&of).unwrap_or(&usual).clone();
        let grantable = if statement.option { privileges } else { Privileges::NONE };
        for grantee in grantees {
            let made = Grant { grantee, grantor: role, privileges, grantable };
            match statement.grants {
                true => acl.grant(made, role)?,
                false => _ = acl.revoke(made, role, (statement.option, statement.cascade))?,
            }
        }
        self.put_defaults(of, acl)
    }

    /// What says no more than what stands there without it is not kept.
    fn put_defaults(&mut self, of: DefaultsOf, acl: Acl) -> Result<()> {
        let acl = acl.sorted();
        if acl == of.usual() {
            self.defaults_mut().remove(&of);
            return Ok(());
        }
        if self.catalog.defaults.len() >= DEFAULTS_MAX && !self.catalog.defaults.contains_key(&of) {
            let what = format!("a ledger can have default privileges of {DEFAULTS_MAX} kinds");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        self.defaults_mut().insert(of, acl);
        Ok(())
    }

    /// Those in schemas that are gone.
    pub(super) fn drop_defaults_of_nowhere(&mut self) {
        let catalog = &self.catalog;
        let is_gone = |of: &DefaultsOf| {
            of.schema.as_ref().is_some_and(|schema| !catalog.has_namespace(schema))
        };
        let gone: Vec<_> = catalog.defaults.keys().filter(|of| is_gone(of)).cloned().collect();
        for of in gone {
            self.defaults_mut().remove(&of);
        }
    }

    /// Takes away those of a role, and what it has by those of others: DROP OWNED.
    pub(super) fn forget_defaults(&mut self, role: RoleId) -> Result<()> {
        let named: Vec<_> = self
            .catalog
            .defaults
            .iter()
            .filter(|(of, acl)| of.role == role || acl.names(role))
            .map(|(of, acl)| (of.clone(), acl.clone()))
            .collect();
        for (of, mut acl) in named {
            if of.role == role {
                self.defaults_mut().remove(&of);
            } else {
                acl.forget(role, of.role);
                self.put_defaults(of, acl)?;
            }
        }
        Ok(())
    }

    /// Why a role cannot be dropped.
    pub(super) fn name_uses_by_defaults(&self, role: RoleId, details: &mut Vec<String>) {
        for (of, acl) in self.catalog.defaults.iter() {
            let says = match of.role == role {
                true => "owner of",
                false if acl.names(role) => "privileges for",
                false => continue,
            };
            let what = match of.kind {
                Kind::Sequence => "sequences",
                Kind::Routine => "functions",
                Kind::Schema => "schemas",
                Kind::Table | Kind::Column | Kind::Database => "relations",
            };
            let owner = self.catalog.roles.name(of.role);
            let place = of.schema.as_ref().map(|schema| format!(" in schema {schema}"));
            let place = place.unwrap_or_default();
            details.push(format!(
                "{says} default privileges on new {what} belonging to role {owner}{place}"
            ));
        }
    }
}

fn wanted(statement: &GrantStatement<Kind>) -> Result<Privileges> {
    let of_columns = || {
        let what = "default privileges cannot be set for columns";
        Err(Error::new(INVALID_GRANT_OPERATION, what))
    };
    // What is said of tables is said of views.
    let called = if statement.on == Kind::Table { "relation" } else { statement.on.word() };
    let mut wanted = Privileges::NONE;
    match &statement.what {
        GrantedPrivileges::All(columns) if columns.is_empty() => wanted = statement.on.all(),
        GrantedPrivileges::All(_) => return of_columns(),
        GrantedPrivileges::Some(some) => {
            for (one, columns) in some {
                if !columns.is_empty() {
                    return of_columns();
                }
                check_there_is(*one, statement.on, called)?;
                wanted |= *one;
            }
        }
    }
    Ok(wanted)
}
