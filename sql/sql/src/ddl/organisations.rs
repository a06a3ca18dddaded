//! CREATE, ALTER and DROP ORGANISATION: organisations, their users and keys.
//!
//! An organisation's root key controls it: every change to it must be signed by that key, except
//! its creation, its removal, and a user's revocation of a key of its own. To make a role a user,
//! both the root key and a role that may alter that role must agree.

use std::sync::Arc;

use identity::{Holder, KeyId, Organisations, RoleId};
use ledger::signatures::is_public_key;
use types::{Error, Result, SqlState};

use super::apply::Transition;
use crate::syntax::organisations::{OrganisationChange, OrganisationStatement};

fn denied(what: impl Into<String>) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

impl Transition {
    pub(super) fn organisation_statement(
        &mut self,
        statement: &OrganisationStatement,
    ) -> Result<()> {
        let at = self.height;
        match statement {
            OrganisationStatement::Create { name, root } => {
                self.check_manages(&format!("create organisation \"{name}\""))?;
                check_key(root)?;
                self.organisations_mut().create(name, *root, at)
            }
            OrganisationStatement::Drop { name, if_exists } => {
                if *if_exists && self.catalog.organisations.named(name).is_err() {
                    return Ok(());
                }
                self.check_manages(&format!("drop organisation \"{name}\""))?;
                self.organisations_mut().drop(name)
            }
            OrganisationStatement::Alter { name, change } => self.alter_organisation(name, change),
        }
    }

    fn alter_organisation(&mut self, name: &str, change: &OrganisationChange) -> Result<()> {
        use OrganisationChange as C;
        let at = self.height;
        self.catalog.organisations.named(name)?;
        if let C::RevokeKey { key } = change
            && self.is_own_key(name, key)
        {
            return self.organisations_mut().revoke(name, key, at);
        }
        self.catalog.organisations.check_root(name, &self.signers)?;
        match change {
            C::AddUser { role, client_signature } => {
                let id = self.own_role(role)?;
                self.organisations_mut().add_user(name, (id, role), *client_signature)
            }
            C::AlterUser { role, client_signature } => {
                let id = self.catalog.roles.named(role)?.id;
                self.organisations_mut().alter_user(name, (id, role), *client_signature)
            }
            C::DropUser { role } => {
                let id = self.catalog.roles.named(role)?.id;
                self.organisations_mut().drop_user(name, (id, role), at)
            }
            C::AddUserKey { key, role } => {
                check_key(key)?;
                let id = self.catalog.roles.named(role)?.id;
                let user = self.catalog.organisations.user(id);
                if user.is_none_or(|user| user.organisation != *name) {
                    let what = format!("role \"{role}\" is no user of organisation \"{name}\"");
                    return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
                }
                self.organisations_mut().add_key(name, *key, Holder::User(id), at)
            }
            C::AddNodeKey { key, node } => {
                check_key(key)?;
                identity::check_name(node)?;
                self.organisations_mut().add_key(name, *key, Holder::Node(node.clone()), at)
            }
            C::RevokeKey { key } => self.organisations_mut().revoke(name, key, at),
            C::RotateKey { key } => {
                check_key(key)?;
                self.organisations_mut().rotate(name, *key, at)
            }
        }
    }

    pub(super) fn organisations_mut(&mut self) -> &mut Organisations {
        Arc::make_mut(&mut self.catalog.organisations)
    }

    /// A role that the actor may alter, and that can be one of an organisation.
    fn own_role(&self, name: &str) -> Result<RoleId> {
        let role = self.catalog.roles.named(name)?;
        self.check_is_no_system_role(role.id)?;
        match self.is_superuser() || self.creates_roles() && !role.attributes.superuser {
            true => Ok(role.id),
            false => Err(denied(format!("permission denied to alter role \"{name}\""))),
        }
    }

    fn is_own_key(&self, name: &str, key: &KeyId) -> bool {
        let organisation = self.catalog.organisations.named(name);
        let mut keys = organisation.iter().flat_map(|organisation| organisation.keys());
        keys.any(|(id, known)| id == key && known.holder == Holder::User(self.actor.session))
    }

    fn check_manages(&self, what: &str) -> Result<()> {
        let (role, needed) = (self.actor.current, RoleId::MANAGE_ORGANISATIONS);
        crate::schema::access::must_be(&self.catalog.roles, role, needed, what)
    }
}

fn check_key(key: &KeyId) -> Result<()> {
    match is_public_key(key) {
        true => Ok(()),
        false => {
            let what = "no signature could be checked by this key";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                .with_detail("It is no ed25519 public key."))
        }
    }
}
