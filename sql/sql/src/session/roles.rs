//! Whose a session is: the role that its statements have the privileges of, and what it is told
//! early that every replica decides for itself.
//!
//! ```text
//!   who logged in ──────────────── principal of every envelope
//!    └ SET SESSION AUTHORIZATION ─ session_user  ┐ the envelope's role,
//!       └ SET ROLE ─────────────── current_user  ┘ if it is another than the principal
//! ```
//!
//! The ledger is told both: who it was, and as what. A superuser that takes another's place remains
//! the principal.

use std::sync::Arc;

use engine::Action;
use identity::{RoleId, Roles};
use types::{Error, Result, SqlState};

use super::Session;
use super::guard::aside;
use super::schema::may_act;
use crate::schema::access::must_be;
use crate::settings::session_info::SessionInfo;
use crate::syntax::ddl::Ddl;
use crate::syntax::path::SearchPath;
use crate::syntax::roles::RoleStatement;

fn denied(what: impl Into<String>) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

impl Session {
    /// As every replica binds: it knows who asks and by which path, but not the session.
    pub(super) fn canonical(&self, path: SearchPath) -> SessionInfo {
        let party = self.info.party();
        SessionInfo {
            user: party.principal.to_owned(),
            role: party.role.map(str::to_owned),
            path,
            ..SessionInfo::default()
        }
    }

    fn roles(&self) -> Arc<Roles> {
        Arc::clone(self.view().versioned.catalog.roles())
    }

    /// The role that its statements have the privileges of.
    fn current_role(&self, roles: &Roles) -> Result<RoleId> {
        let party = self.info.party();
        Ok(roles.actor(party.principal, party.role)?.current)
    }

    pub(super) fn check_may(&mut self, action: Action<'_>) -> Result<()> {
        self.follow_settings();
        let roles = self.roles();
        may_act(&roles, self.current_role(&roles)?, action)
    }

    pub(super) fn check_must_be(&self, needed: RoleId, what: &str) -> Result<()> {
        let roles = self.roles();
        must_be(&roles, self.current_role(&roles)?, needed, what)
    }

    /// SET ROLE.
    pub(super) fn check_may_be(&self, role: Option<&str>) -> Result<()> {
        let Some(role) = role.filter(|role| *role != "none") else { return Ok(()) };
        let roles = self.roles();
        let wanted = known(&roles, role)?;
        let session = known(&roles, self.info.session_user())?;
        match roles.is_member(session, wanted) {
            true => Ok(()),
            false => Err(denied(format!("permission denied to set role \"{role}\""))),
        }
    }

    /// SET SESSION AUTHORIZATION, which only a superuser that has logged in may.
    pub(super) fn check_may_authorize(&self, user: Option<&str>) -> Result<()> {
        let Some(user) = user else { return Ok(()) };
        let roles = self.roles();
        known(&roles, user)?;
        match roles.principal(&self.info.user)?.attributes.superuser {
            true => Ok(()),
            false => Err(denied("permission denied to set session authorization")),
        }
    }

    pub(super) fn check_may_signal(&self, user: &str, ends: bool) -> Result<()> {
        let roles = self.roles();
        let own = self.current_role(&roles)?;
        let Some(user) = roles.find(user) else { return Ok(()) };
        let what = if ends { "terminate process" } else { "cancel query" };
        if user.attributes.superuser && !roles.is_superuser(own) {
            let what = format!("must be a superuser to {} superuser {}", verb(ends), object(ends));
            return Err(denied(what));
        }
        let may = roles.has_privileges_of(own, user.id)
            || roles.has_privileges_of(own, RoleId::SIGNAL_BACKEND);
        match may {
            true => Ok(()),
            false => Err(denied(format!("permission denied to {what}")).with_detail(
                "It takes a role whose process it is, or membership in pg_signal_backend.",
            )),
        }
    }

    /// A change of a role as it is recorded, which has a verifier where the client sent a password.
    /// `None`: it concerns no role.
    pub(super) fn without_password(&self, ddl: &Ddl) -> Result<Option<(Ddl, String)>> {
        let Ddl::Role(statement) = ddl else { return Ok(None) };
        let mut statement = RoleStatement::clone(statement);
        if let Some(secret) = statement.password() {
            let Some(passwords) = self.database.shared_state.passwords.get() else {
                return Err(Error::unsupported("a password in a session without a node")
                    .with_hint("Give its SCRAM-SHA-256 verifier."));
            };
            secret.0 = aside(false, || passwords.verifier(&secret.0))?;
        }
        let text = statement.to_string();
        Ok(Some((Ddl::Role(Box::new(statement)), text)))
    }
}

fn verb(ends: bool) -> &'static str {
    if ends { "terminate" } else { "cancel" }
}

fn object(ends: bool) -> &'static str {
    if ends { "process" } else { "query" }
}

/// A role that a setting names.
fn known(roles: &Roles, name: &str) -> Result<RoleId> {
    roles.find(name).map(|role| role.id).ok_or_else(|| {
        let what = format!("role \"{name}\" does not exist");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
    })
}
