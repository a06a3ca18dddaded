//! Roles and their members, in PostgreSQL 15's words.
//!
//! What a statement changes is the catalog alone: a role holds from the next transaction of its
//! block on, and what a transaction may do is decided by the roles that there are where it stands.

use std::sync::Arc;

use identity::{Attributes, Membership, Role, RoleId, Roles};
use types::{DataType, Error, Result, SqlState, Value};

use super::apply::Transition;
use crate::syntax::roles::{RoleOptions, RoleSpec, RoleStatement, Secret};

const OBJECT_IN_USE: SqlState = SqlState(*b"55006");

fn denied(what: impl Into<String>) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

impl Transition {
    pub(super) fn role_statement(&mut self, statement: &RoleStatement) -> Result<()> {
        match statement {
            RoleStatement::Create { name, options } => self.create_role(name, options),
            RoleStatement::Alter { role, options } => self.alter_role(role, options),
            RoleStatement::Rename { name, to } => self.rename_role(name, to),
            RoleStatement::Drop { names, if_exists } => self.drop_roles(names, *if_exists),
            RoleStatement::Grant { roles, to, admin } => {
                for role in roles {
                    let role = self.catalog.roles.named(role)?.id;
                    self.check_may_grant(role)?;
                    for member in to {
                        let member = self.role(member)?;
                        self.add_member(role, member, *admin)?;
                    }
                }
                Ok(())
            }
            RoleStatement::Revoke { roles, from, admin_only } => {
                for role in roles {
                    let role = self.catalog.roles.named(role)?.id;
                    self.check_may_grant(role)?;
                    for member in from {
                        let member = self.role(member)?;
                        self.roles_mut().remove_member(role, member, *admin_only);
                    }
                }
                Ok(())
            }
        }
    }

    fn roles_mut(&mut self) -> &mut Roles {
        Arc::make_mut(&mut self.catalog.roles)
    }

    /// The number of a role that a statement names.
    pub(super) fn role(&self, spec: &RoleSpec) -> Result<RoleId> {
        match spec {
            RoleSpec::Name(name) => Ok(self.catalog.roles.named(name)?.id),
            RoleSpec::CurrentUser => Ok(self.actor.current),
            RoleSpec::SessionUser => Ok(self.actor.session),
        }
    }

    pub(super) fn is_superuser(&self) -> bool {
        self.catalog.roles.is_superuser(self.actor.current)
    }

    pub(super) fn creates_roles(&self) -> bool {
        let role = self.catalog.roles.role(self.actor.current);
        self.is_superuser() || role.is_some_and(|role| role.attributes.creates_roles)
    }

    fn create_role(&mut self, name: &str, options: &RoleOptions) -> Result<()> {
        if !self.is_superuser() {
            if options.superuser == Some(true) {
                return Err(denied("must be superuser to create superusers"));
            }
            if options.replicates == Some(true) {
                return Err(denied("must be superuser to create replication users"));
            }
            if options.bypasses_row_security == Some(true) {
                return Err(denied("must be superuser to create bypassrls users"));
            }
            if !self.creates_roles() {
                return Err(denied("permission denied to create role"));
            }
        }
        let (verifier, valid_until_us) = (verifier(options)?, valid_until(options)?);
        let role = Role {
            id: RoleId(0),
            name: name.to_owned(),
            attributes: changed(Attributes::NEW, options),
            verifier: verifier.flatten(),
            valid_until_us: valid_until_us.flatten(),
        };
        let id = self.roles_mut().create(role)?;
        for role in &options.in_roles {
            let role = self.role(role)?;
            self.check_may_grant(role)?;
            self.add_member(role, id, false)?;
        }
        let members = options.members.iter().map(|member| (member, false));
        for (member, admin) in members.chain(options.admins.iter().map(|admin| (admin, true))) {
            let member = self.role(member)?;
            self.add_member(id, member, admin)?;
        }
        Ok(())
    }

    fn alter_role(&mut self, role: &RoleSpec, options: &RoleOptions) -> Result<()> {
        let id = self.role(role)?;
        self.check_is_no_system_role(id)?;
        if !self.is_superuser() {
            self.check_may_alter(id, options)?;
        }
        let (verifier, valid_until_us) = (verifier(options)?, valid_until(options)?);
        let is_bootstrap = id == identity::BOOTSTRAP;
        if is_bootstrap && (options.superuser == Some(false) || options.logs_in == Some(false)) {
            return Err(denied("the superuser that the ledger began with stays one that logs in")
                .with_hint("Without any superuser there would be no way to make one."));
        }
        self.roles_mut().change(id, |role| {
            role.attributes = changed(role.attributes, options);
            role.verifier = verifier.unwrap_or_else(|| role.verifier.clone());
            role.valid_until_us = valid_until_us.unwrap_or(role.valid_until_us);
        });
        Ok(())
    }

    /// What one who is no superuser may say of a role.
    fn check_may_alter(&self, id: RoleId, options: &RoleOptions) -> Result<()> {
        let role = self.catalog.roles.role(id);
        let is = |attribute: fn(&Attributes) -> bool| {
            role.is_some_and(|role| attribute(&role.attributes))
        };
        if options.superuser.is_some() || is(|role| role.superuser) {
            let what = "must be superuser to alter superuser roles or change superuser attribute";
            return Err(denied(what));
        }
        if options.replicates.is_some() || is(|role| role.replicates) {
            let what =
                "must be superuser to alter replication roles or change replication attribute";
            return Err(denied(what));
        }
        if options.bypasses_row_security.is_some() {
            return Err(denied("must be superuser to change bypassrls attribute"));
        }
        let password_alone = RoleOptions { password: options.password.clone(), ..<_>::default() };
        let is_own = id == self.actor.current && *options == password_alone;
        match self.creates_roles() || is_own {
            true => Ok(()),
            false => Err(denied("permission denied")),
        }
    }

    /// Those that every ledger has are what they are.
    pub(super) fn check_is_no_system_role(&self, id: RoleId) -> Result<()> {
        match self.catalog.roles.role(id) {
            Some(role) if role.is_predefined() => {
                let what = format!("role name \"{}\" is reserved", role.name);
                Err(Error::new(SqlState(*b"42939"), what)
                    .with_detail("Cannot alter reserved roles."))
            }
            _ => Ok(()),
        }
    }

    fn rename_role(&mut self, name: &str, to: &str) -> Result<()> {
        let id = self.catalog.roles.named(name)?.id;
        self.check_is_no_system_role(id)?;
        if id == self.actor.session {
            return Err(Error::unsupported("to rename the session user"));
        }
        if id == self.actor.current {
            return Err(Error::unsupported("to rename the current user"));
        }
        if self.catalog.roles.is_superuser(id) && !self.is_superuser() {
            return Err(denied("must be superuser to rename superusers"));
        }
        if !self.creates_roles() {
            return Err(denied("permission denied to rename role"));
        }
        self.roles_mut().rename(id, to)
    }

    fn drop_roles(&mut self, names: &[RoleSpec], if_exists: bool) -> Result<()> {
        if !self.creates_roles() {
            return Err(denied("permission denied to drop role"));
        }
        for spec in names {
            let RoleSpec::Name(name) = spec else {
                let what = "cannot use special role specifier in DROP ROLE";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
            };
            let id = match self.catalog.roles.find(name) {
                Some(role) => role.id,
                None if if_exists => continue,
                None => return self.role(spec).map(drop),
            };
            if id == self.actor.current {
                return Err(Error::new(OBJECT_IN_USE, "current user cannot be dropped"));
            }
            if self.catalog.roles.is_superuser(id) && !self.is_superuser() {
                return Err(denied("must be superuser to drop superusers"));
            }
            if id == self.actor.session {
                return Err(Error::new(OBJECT_IN_USE, "session user cannot be dropped"));
            }
            let is_pinned = |role: &Arc<Role>| role.is_predefined() || id == identity::BOOTSTRAP;
            if self.catalog.roles.role(id).is_some_and(is_pinned) {
                let what = format!(
                    "cannot drop role {name} because it is required by the database system"
                );
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what));
            }
            self.check_is_unused(id, name)?;
            let height = self.height;
            self.organisations_mut().forget((id, name), height);
            self.roles_mut().drop(id);
        }
        Ok(())
    }

    /// Whether the actor may say who is a member of a role.
    fn check_may_grant(&self, role: RoleId) -> Result<()> {
        let roles = &self.catalog.roles;
        if roles.is_superuser(role) {
            return match self.is_superuser() {
                true => Ok(()),
                false => Err(denied("must be superuser to alter superusers")),
            };
        }
        match self.creates_roles() || roles.is_admin(self.actor.current, role) {
            true => Ok(()),
            false => {
                let what = format!("must have admin option on role \"{}\"", roles.name(role));
                Err(denied(what))
            }
        }
    }

    fn add_member(&mut self, role: RoleId, member: RoleId, admin: bool) -> Result<()> {
        let grantor = self.actor.current;
        self.roles_mut().add_member(Membership { role, member, grantor, admin }).map(drop)
    }
}

fn changed(before: Attributes, options: &RoleOptions) -> Attributes {
    Attributes {
        superuser: options.superuser.unwrap_or(before.superuser),
        inherits: options.inherits.unwrap_or(before.inherits),
        creates_roles: options.creates_roles.unwrap_or(before.creates_roles),
        creates_databases: options.creates_databases.unwrap_or(before.creates_databases),
        logs_in: options.logs_in.unwrap_or(before.logs_in),
        replicates: options.replicates.unwrap_or(before.replicates),
        bypasses_row_security: options
            .bypasses_row_security
            .unwrap_or(before.bypasses_row_security),
    }
}

/// No ledger takes a password, which all replicas would be shown.
fn verifier(options: &RoleOptions) -> Result<Option<Option<Arc<str>>>> {
    let Some(said) = &options.password else { return Ok(None) };
    let Some(Secret(text)) = said else { return Ok(Some(None)) };
    match said.as_ref().is_some_and(Secret::is_verifier) {
        true => Ok(Some(Some(text.as_str().into()))),
        false => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "a password comes to the ledger as its SCRAM-SHA-256 verifier",
        )
        .with_hint("Send the statement by a session of a node, which makes one.")),
    }
}

fn valid_until(options: &RoleOptions) -> Result<Option<Option<i64>>> {
    let Some(text) = &options.valid_until else { return Ok(None) };
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(Some(None));
    }
    match types::cast::cast(&Value::text(text), &DataType::Timestamptz(None), true)? {
        Value::Timestamptz(us) => Ok(Some(Some(us))),
        _ => Ok(Some(None)),
    }
}
