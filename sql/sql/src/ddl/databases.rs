//! CREATE, ALTER and DROP DATABASE, as far as they concern the catalog.
//!
//! A database is a ledger of its own. The node creates it first, and then this ledger, where it was
//! asked for, registers it by id. This module decides which roles may create, rename and drop
//! databases; folders and running ledgers are the node's part.

use std::sync::Arc;

use identity::{BOOTSTRAP, Role, RoleId};
use types::{DataType, Error, Result, SqlState, Value};

use super::apply::Transition;
use crate::schema::catalog::Catalog;
use crate::schema::databases::{DatabaseEntry, Databases};
use crate::syntax::databases::{DatabaseOptions, DatabaseStatement, MadeLedger};
use crate::syntax::names::{DATABASES, quoted};
use crate::syntax::roles::{RoleOptions, RoleSpec, RoleStatement, Secret};

/// Databases that one ledger can have at once; nodes have a bound of their own, `databases_max`.
const DATABASES_MAX: usize = 1_000;

const DUPLICATE_DATABASE: SqlState = SqlState(*b"42P04");
const NAME_TOO_LONG: SqlState = SqlState(*b"42622");
const INVALID_NAME: SqlState = SqlState(*b"42602");
const OBJECT_IN_USE: SqlState = SqlState(*b"55006");

fn denied(what: impl Into<String>) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

fn exists(name: &str) -> Error {
    Error::new(DUPLICATE_DATABASE, format!("database \"{name}\" already exists"))
}

/// 3D000.
pub(crate) fn no_database(name: &str) -> Error {
    let what = format!("database \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CATALOG_NAME, what)
}

/// What is said of a database from another one.
pub(super) fn elsewhere(catalog: &Catalog, name: &str) -> Error {
    match catalog.database(name) {
        None => no_database(name),
        Some(_) => Error::unsupported(format_args!("to say so of database \"{name}\" from here"))
            .with_hint("It has roles and privileges of its own: connect to it."),
    }
}

impl Transition {
    pub(super) fn database_statement(&mut self, statement: &DatabaseStatement) -> Result<()> {
        match statement {
            DatabaseStatement::Create { name, options, made } => {
                let Some(made) = made else {
                    let what = "CREATE DATABASE without the ledger that a node has made";
                    return Err(Error::unsupported(what)
                        .with_hint("Send the statement by a session of a node, which makes one."));
                };
                self.create_database(name, options, *made)
            }
            DatabaseStatement::Rename { name, to } => self.rename_database(name, to),
            DatabaseStatement::Drop { name, if_exists, .. } => {
                if *if_exists && self.catalog.database(name).is_none() && !is_own(name) {
                    return Ok(());
                }
                self.check_is_another(name, "drop")?;
                self.check_owns_database(name)?;
                self.databases_mut().by_name.remove(name);
                Ok(())
            }
        }
    }

    fn databases_mut(&mut self) -> &mut Databases {
        Arc::make_mut(&mut self.catalog.databases)
    }

    fn creates_databases(&self) -> bool {
        let role = self.catalog.roles.role(self.actor.current);
        self.is_superuser() || role.is_some_and(|role| role.attributes.creates_databases)
    }

    fn create_database(
        &mut self,
        name: &str,
        options: &DatabaseOptions,
        ledger: MadeLedger,
    ) -> Result<()> {
        if !self.creates_databases() {
            return Err(denied("permission denied to create database"));
        }
        let owner = match &options.owner {
            Some(owner) => self.role(owner)?,
            None => self.actor.current,
        };
        if !self.catalog.roles.is_member(self.actor.current, owner) && !self.is_superuser() {
            let role = self.catalog.roles.name(owner);
            return Err(denied(format!("must be member of role \"{role}\"")));
        }
        self.check_template(options.template.as_deref())?;
        check_name(name)?;
        if is_own(name) || self.catalog.database(name).is_some() {
            return Err(exists(name));
        }
        if self.catalog.databases().any(|(_, entry)| entry.ledger.id == ledger.id) {
            return Err(Error::new(DUPLICATE_DATABASE, "that ledger is a database already"));
        }
        if self.catalog.databases.by_name.len() >= DATABASES_MAX {
            let what = format!("a ledger can have at most {DATABASES_MAX} databases");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_hint("DROP DATABASE moves one aside that is not used any more."));
        }
        let since = self.height;
        let databases = self.databases_mut();
        let number = databases.next_number;
        databases.next_number += 1;
        databases.by_name.insert(name.to_owned(), DatabaseEntry { number, ledger, owner, since });
        Ok(())
    }

    /// A new database begins empty, as PostgreSQL's templates do.
    fn check_template(&self, template: Option<&str>) -> Result<()> {
        let Some(name) = template else { return Ok(()) };
        match name {
            "template0" | "template1" => Ok(()),
            name if is_own(name) || self.catalog.database(name).is_some() => {
                let what = format!("a database made of what is in \"{name}\"");
                Err(Error::unsupported(what).with_hint(
                    "A ledger begins empty, with a chain of its own: load a dump into it.",
                ))
            }
            name => {
                let what = format!("template database \"{name}\" does not exist");
                Err(Error::new(SqlState::INVALID_CATALOG_NAME, what))
            }
        }
    }

    fn rename_database(&mut self, name: &str, to: &str) -> Result<()> {
        self.check_is_another(name, "rename")?;
        self.check_owns_database(name)?;
        if !self.creates_databases() {
            return Err(denied("permission denied to rename database"));
        }
        check_name(to)?;
        if is_own(to) || self.catalog.database(to).is_some() {
            return Err(exists(to));
        }
        let databases = self.databases_mut();
        if let Some(entry) = databases.by_name.remove(name) {
            databases.by_name.insert(to.to_owned(), entry);
        }
        Ok(())
    }

    fn check_is_another(&self, name: &str, verb: &str) -> Result<()> {
        if self.catalog.database(name).is_some() {
            return Ok(());
        }
        if !is_own(name) {
            return Err(no_database(name));
        }
        let what = format!("cannot {verb} the currently open database");
        Err(Error::new(OBJECT_IN_USE, what).with_detail(
            "It is the one that the others are made in, and has the names tally, postgres, \
             template0 and template1.",
        ))
    }

    fn check_owns_database(&self, name: &str) -> Result<()> {
        let owner = self.catalog.database(name).map(|entry| entry.owner);
        let closure = self.closure();
        match self.is_superuser() || owner.is_some_and(|owner| closure.has(owner)) {
            true => Ok(()),
            false => Err(denied(format!("must be owner of database {name}"))),
        }
    }

    /// ALTER DATABASE … OWNER TO, of another than the ledger itself.
    pub(super) fn give_database(&mut self, name: &str, role: &RoleSpec) -> Result<()> {
        let new = self.role(role)?;
        self.check_is_another(name, "change the owner of")?;
        self.check_owns_database(name)?;
        if !self.is_superuser() {
            if !self.catalog.roles.is_member(self.actor.current, new) {
                let role = self.catalog.roles.name(new);
                return Err(denied(format!("must be member of role \"{role}\"")));
            }
            if !self.creates_databases() {
                return Err(denied("permission denied to change owner of database"));
            }
        }
        if let Some(entry) = self.databases_mut().by_name.get_mut(name) {
            entry.owner = new;
        }
        Ok(())
    }

    /// What these roles own becomes another's.
    pub(super) fn reassign_databases(&mut self, roles: &[RoleId], new: RoleId) {
        let is_theirs = |entry: &DatabaseEntry| roles.contains(&entry.owner);
        if self.catalog.databases().any(|(_, entry)| is_theirs(entry)) {
            let databases = self.databases_mut().by_name.values_mut();
            databases.filter(|entry| is_theirs(entry)).for_each(|entry| entry.owner = new);
        }
    }
}

/// One of the names of the ledger itself.
pub(crate) fn is_own(name: &str) -> bool {
    name == "template0" || DATABASES.contains(&name)
}

/// As long as PostgreSQL has names, and none that a line or a file's name could not hold.
fn check_name(name: &str) -> Result<()> {
    const BYTES_MAX: usize = 63;
    let wrong = |code, what: &str| Err(Error::new(code, what));
    match name {
        "" => wrong(SqlState::SYNTAX_ERROR, "zero-length delimited identifier"),
        name if name.len() > BYTES_MAX => {
            wrong(NAME_TOO_LONG, "a database's name has 63 bytes at most")
        }
        name if name.chars().any(char::is_control) => {
            wrong(INVALID_NAME, "a database's name has no control characters")
        }
        _ => Ok(()),
    }
}

/// What a new ledger begins with: the roles of this one, with what their passwords are checked by,
/// and the owner. In the order that they can be run in.
pub fn first_statements(catalog: &Catalog, owner: RoleId) -> Vec<String> {
    let roles = &*catalog.roles;
    let mut statements: Vec<String> =
        roles.all().filter(|role| !role.is_predefined()).filter_map(|role| made(role)).collect();
    for membership in roles.memberships() {
        let to = vec![RoleSpec::Name(roles.name(membership.member).to_owned())];
        let roles = vec![roles.name(membership.role).to_owned()];
        let grant = RoleStatement::Grant { roles, to, admin: membership.admin };
        statements.push(grant.to_string());
    }
    if owner != BOOTSTRAP {
        let owner = quoted(roles.name(owner));
        statements.push(format!("ALTER DATABASE tally OWNER TO {owner}"));
        statements.push(format!("ALTER SCHEMA public OWNER TO {owner}"));
    }
    statements
}

/// What makes a role as it is; of the superuser that a ledger begins with, what changes it.
fn made(role: &Role) -> Option<String> {
    let until =
        role.valid_until_us.map(|us| Value::Timestamptz(us).to_text(&DataType::Timestamptz(None)));
    let secret = role.verifier.as_ref().map(|verifier| Some(Secret(verifier.to_string())));
    let mut options = RoleOptions { password: secret, valid_until: until, ..<_>::default() };
    let name = role.name.clone();
    if role.id == BOOTSTRAP {
        let role = RoleSpec::Name(name);
        let changes = options != RoleOptions::default();
        return changes.then(|| RoleStatement::Alter { role, options }.to_string());
    }
    let has = role.attributes;
    options.superuser = Some(has.superuser);
    options.inherits = Some(has.inherits);
    options.creates_roles = Some(has.creates_roles);
    options.creates_databases = Some(has.creates_databases);
    options.logs_in = Some(has.logs_in);
    options.replicates = Some(has.replicates);
    options.bypasses_row_security = Some(has.bypasses_row_security);
    Some(RoleStatement::Create { name, options }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ddl::Ddl;
    use crate::syntax::parse::parse;
    use crate::syntax::parsed::Body;

    fn ddl(text: &str) -> Ddl {
        match parse(text).unwrap().remove(0).body {
            Body::Ddl(ddl) => *ddl,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn behind(catalog: Catalog, texts: &[impl AsRef<str>]) -> Catalog {
        texts.iter().fold(catalog, |catalog, text| {
            let text = text.as_ref();
            catalog.apply(&ddl(text)).unwrap_or_else(|error| panic!("{text}: {error}")).0
        })
    }

    /// All that a role is but its number.
    fn reported(catalog: &Catalog) -> Vec<String> {
        let roles = &catalog.roles;
        let role = |role: &Arc<Role>| {
            let Role { name, attributes, verifier, valid_until_us, .. } = &**role;
            format!("{name} {attributes:?} {verifier:?} {valid_until_us:?}")
        };
        let membership = |one: &identity::Membership| {
            format!("{} in {}, {}", roles.name(one.member), roles.name(one.role), one.admin)
        };
        let mut reported: Vec<String> = roles.all().map(role).collect();
        reported.extend(roles.memberships().map(membership));
        reported.sort();
        reported
    }

    #[test]
    fn a_new_ledger_has_the_roles_of_the_one_that_it_is_made_in() {
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let texts = [
            "CREATE ROLE \"Odd \"\"name\"\"\" NOINHERIT".to_owned(),
            format!("CREATE USER ada PASSWORD '{verifier}' VALID UNTIL '2027-01-31 12:00:00.5+02'"),
            "CREATE USER eve SUPERUSER CREATEDB BYPASSRLS IN ROLE ada".to_owned(),
            "GRANT \"Odd \"\"name\"\"\" TO ada WITH ADMIN OPTION".to_owned(),
            "GRANT pg_read_all_data, tally_skip_blocks TO ada".to_owned(),
            format!("ALTER ROLE root PASSWORD '{verifier}'"),
            "CREATE ROLE gone".to_owned(),
            "DROP ROLE gone".to_owned(),
            "CREATE ROLE late CREATEROLE REPLICATION".to_owned(),
        ];
        let own = behind(Catalog::genesis_of("root"), &texts);
        let ada = own.roles.find("ada").unwrap().id;
        for (owner, name) in [(BOOTSTRAP, "root"), (ada, "ada")] {
            let first = first_statements(&own, owner);
            let made = behind(Catalog::genesis_of("root"), &first);
            assert_eq!(reported(&made), reported(&own));
            let database = crate::schema::catalog::Commented::Database;
            assert_eq!(made.roles.name(made.owner(&database)), name);
        }
    }
}
