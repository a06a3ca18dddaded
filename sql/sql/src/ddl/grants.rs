//! Owners and grants: the statements that change them.

use std::sync::Arc;

use identity::{Acl, Closure, Grant, Grantee, Kind, Privileges, RoleId};
use sqlparser::ast;
use types::{Error, Result, SqlState, TableId};

use super::apply::Transition;
use super::databases::{elsewhere, no_database};
use super::permission::Judge;
use super::user_types::no_type;
use crate::bind::Binder;
use crate::schema::access::{Access, GrantedColumn, denied};
use crate::schema::catalog::{Catalog, Commented};
use crate::schema::collations::no_collation;
use crate::settings::session_info::SessionInfo;
use crate::syntax::grants::{GrantStatement, GrantTarget, GrantedPrivileges, GranteeSpec, Owned};
use crate::syntax::names::{DATABASES, bare, no_schema, object_name, schema_of, simple_name};
use crate::syntax::roles::RoleSpec;

pub(super) const INVALID_GRANT_OPERATION: SqlState = SqlState(*b"0LP01");

/// # Errors
/// 0LP01: objects of the kind have no such privilege.
pub(super) fn check_there_is(one: Privileges, kind: Kind, called: &str) -> Result<()> {
    if kind.all().contains(one) {
        return Ok(());
    }
    let what = format!("invalid privilege type {} for {called}", one.name());
    Err(Error::new(INVALID_GRANT_OPERATION, what))
}

impl Transition {
    pub(super) fn closure(&self) -> Closure {
        self.catalog.roles.closure(self.actor.current)
    }

    /// What is new is the actor's; what is gone has no grants any more.
    pub(super) fn assign_access(&mut self, before: &Catalog) {
        let mut access = std::mem::take(&mut self.catalog.access);
        access.retain(|object, _| self.catalog.has(object));
        for (object, access) in &mut access {
            if let Commented::Table(id) = object
                && !access.columns.is_empty()
            {
                let catalog = &self.catalog;
                let is_there = |column: &GrantedColumn| match column {
                    GrantedColumn::OfTable(column) => catalog.has(&Commented::Column(*id, *column)),
                    GrantedColumn::OfView(_) => false,
                };
                Arc::make_mut(access).columns.retain(|column, _| is_there(column));
            }
        }
        let owner = self.actor.current;
        if owner != identity::BOOTSTRAP || !self.catalog.defaults.is_empty() {
            let is_new = |object: &Commented| !before.has(object) && !access.contains_key(object);
            let new = self.catalog.owned_objects().filter(is_new).collect::<Vec<_>>();
            for object in new {
                let made =
                    Access { acl: self.catalog.acl_of_new(&object, owner), ..Access::of(owner) };
                if owner != identity::BOOTSTRAP || made.acl.is_some() {
                    access.insert(object, Arc::new(made));
                }
            }
        }
        self.catalog.access = access;
        self.drop_defaults_of_nowhere();
    }

    fn access_mut(&mut self, object: &Commented) -> &mut Access {
        let entry = self.catalog.access.entry(object.clone());
        Arc::make_mut(entry.or_insert_with(|| Arc::new(Access::of(identity::BOOTSTRAP))))
    }

    pub(super) fn grant(&mut self, statement: &GrantStatement) -> Result<()> {
        let grantees = self.grantees(statement)?;
        for object in self.targets(&statement.on)? {
            self.grant_of(&object, statement, &grantees)?;
        }
        Ok(())
    }

    pub(super) fn grantees<On>(&self, statement: &GrantStatement<On>) -> Result<Vec<Grantee>> {
        let grantees = statement.grantees.iter().map(|grantee| match grantee {
            GranteeSpec::Public => Ok(Grantee::Public),
            GranteeSpec::Role(role) => self.role(role).map(Grantee::Role),
        });
        let grantees = grantees.collect::<Result<Vec<_>>>()?;
        if statement.grants && statement.option && grantees.contains(&Grantee::Public) {
            let what = "grant options can only be granted to roles";
            return Err(Error::new(INVALID_GRANT_OPERATION, what));
        }
        Ok(grantees)
    }

    fn targets(&self, on: &GrantTarget) -> Result<Vec<Commented>> {
        let catalog = &self.catalog;
        match on {
            GrantTarget::Tables(names) => names.iter().map(|name| self.relation(name)).collect(),
            GrantTarget::Sequences(names) => {
                let sequence = |name: &ast::ObjectName| {
                    let sequence = catalog.sequence(&object_name(name)?)?;
                    Ok(Commented::Sequence(sequence.id))
                };
                names.iter().map(sequence).collect()
            }
            GrantTarget::Routines(names) => names.iter().map(|name| self.routine(name)).collect(),
            GrantTarget::Schemas(names) => {
                let schema = |name: &String| match catalog.has_namespace(name) {
                    true => Ok(Commented::Schema(name.clone())),
                    false => Err(no_schema(name)),
                };
                names.iter().map(schema).collect()
            }
            GrantTarget::Databases(names) => {
                let database = |name: &String| match DATABASES.contains(&name.as_str()) {
                    true => Ok(Commented::Database),
                    false => Err(elsewhere(catalog, name)),
                };
                names.iter().map(database).collect()
            }
            GrantTarget::AllTables(schemas) => self.all_in(schemas, |object| {
                matches!(object, Commented::Table(_) | Commented::View(_))
            }),
            GrantTarget::AllSequences(schemas) => {
                self.all_in(schemas, |object| matches!(object, Commented::Sequence(_)))
            }
            GrantTarget::AllRoutines(schemas) => {
                self.all_in(schemas, |object| matches!(object, Commented::Routine(_)))
            }
        }
    }

    fn relation(&self, name: &ast::ObjectName) -> Result<Commented> {
        let key = object_name(name)?;
        self.catalog.relation_object(&key).ok_or_else(|| {
            let what = format!("relation \"{}\" does not exist", bare(&key));
            Error::new(SqlState::UNDEFINED_TABLE, what)
        })
    }

    fn routine(&self, name: &ast::ObjectName) -> Result<Commented> {
        let key = object_name(name)?;
        match self.catalog.routine(&key) {
            Some(_) => Ok(Commented::Routine(key)),
            None => Err(Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {}() does not exist", bare(&key)),
            )),
        }
    }

    /// All objects of a kind in some schemas.
    fn all_in(
        &self,
        schemas: &[String],
        is_it: impl Fn(&Commented) -> bool,
    ) -> Result<Vec<Commented>> {
        let catalog = &self.catalog;
        if let Some(missing) = schemas.iter().find(|schema| !catalog.has_namespace(schema)) {
            return Err(no_schema(missing));
        }
        let is_in = |object: &Commented| {
            let schema = catalog.schema_of(object);
            is_it(object) && schemas.contains(&schema)
        };
        Ok(catalog.owned_objects().filter(is_in).collect())
    }

    /// What is said of one object: of it as a whole, then of its columns.
    fn grant_of(
        &mut self,
        object: &Commented,
        statement: &GrantStatement,
        grantees: &[Grantee],
    ) -> Result<()> {
        let Some(kind) = object.kind() else { return Ok(()) };
        let mut whole = Privileges::NONE;
        let mut of_columns: Vec<(&str, Privileges)> = Vec::new();
        match &statement.what {
            GrantedPrivileges::All(columns) if columns.is_empty() => whole = kind.all(),
            GrantedPrivileges::All(columns) => {
                of_columns.extend(columns.iter().map(|name| (name.as_str(), Kind::Column.all())));
            }
            GrantedPrivileges::Some(some) => {
                for (one, columns) in some {
                    let allowed = if columns.is_empty() { kind } else { Kind::Column };
                    check_there_is(*one, allowed, allowed.word())?;
                    match columns.is_empty() {
                        true => whole |= *one,
                        false => of_columns.extend(columns.iter().map(|c| (c.as_str(), *one))),
                    }
                }
            }
        }
        if !of_columns.is_empty() && kind != Kind::Table {
            let what = "column privileges are only valid for relations";
            return Err(Error::new(INVALID_GRANT_OPERATION, what));
        }
        if !whole.is_empty() {
            self.change_acl(object, None, whole, statement, grantees)?;
        }
        for (name, privileges) in of_columns {
            let column = self.column_of(object, name)?;
            self.change_acl(object, Some((name, column)), privileges, statement, grantees)?;
        }
        Ok(())
    }

    /// A column of a table or a view.
    fn column_of(&self, object: &Commented, name: &str) -> Result<GrantedColumn> {
        let missing = || {
            let (_, relation) = self.catalog.called(object);
            let what = format!("column \"{name}\" of relation \"{relation}\" does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, what)
        };
        match object {
            Commented::Table(id) => {
                let table = self.catalog.table_by_id(*id).ok_or_else(missing)?;
                table.column_named(name).map(GrantedColumn::OfTable)
            }
            Commented::View(view) => {
                let view = self.catalog.view(view).ok_or_else(missing)?;
                let session = SessionInfo::default();
                let query = view.query_over(&self.catalog);
                let bound = Binder::new(&self.catalog, &session, Vec::new()).query(&query);
                let bound = bound.map_err(|_| {
                    Error::unsupported(
                        "a privilege on a column of a view that only an analytical \
                        engine reads",
                    )
                })?;
                let given = view.columns.iter().map(String::as_str);
                let own = bound.columns.iter().map(|column| column.name.as_str());
                let mut names = given.chain(own.skip(view.columns.len()));
                match names.any(|known| known == name) {
                    true => Ok(GrantedColumn::OfView(name.to_owned())),
                    false => Err(missing()),
                }
            }
            _ => Err(missing()),
        }
    }

    fn change_acl(
        &mut self,
        object: &Commented,
        column: Option<(&str, GrantedColumn)>,
        wanted: Privileges,
        statement: &GrantStatement,
        grantees: &[Grantee],
    ) -> Result<()> {
        let closure = self.closure();
        let owner = self.catalog.owner(object);
        let whole = self.catalog.acl(object).into_owned();
        let mut acl = match &column {
            None => whole.clone(),
            Some((_, column)) => {
                self.catalog.column_grants(object, column).cloned().unwrap_or_default()
            }
        };
        // A grant option on the table is one on each of its columns.
        let by_table = whole.grantor(&closure, owner, wanted);
        let by_column = acl.grantor(&closure, owner, wanted);
        let (grantor, may) = match by_table.1.is_empty() {
            true => by_column,
            false => by_table,
        };
        if may.is_empty() {
            let has = self.catalog.privileges(&closure, object) | acl.privileges(&closure);
            return match (has.is_empty(), &column) {
                (true, None) => Err(self.catalog.denied(object)),
                (true, Some((name, _))) => {
                    let (_, relation) = self.catalog.called(object);
                    let name = format!("\"{name}\" of relation \"{relation}\"");
                    Err(denied("column", &name))
                }
                // There is nothing that it could give.
                (false, _) => Ok(()),
            };
        }
        let privileges = wanted & may;
        for grantee in grantees {
            let grantable = if statement.option { privileges } else { Privileges::NONE };
            let made = Grant { grantee: *grantee, grantor, privileges, grantable };
            match statement.grants {
                true => acl.grant(made, owner)?,
                false => {
                    acl.revoke(made, owner, (statement.option, statement.cascade))?;
                }
            }
        }
        let columns_too = column.is_none() && !statement.grants && !statement.option;
        let access = self.access_mut(object);
        match column {
            None => access.acl = Some(acl),
            Some((_, column)) => _ = access.columns.insert(column, acl),
        }
        // What is taken back of a table is taken back of its columns.
        if columns_too {
            for grantee in grantees {
                let grantable = Privileges::NONE;
                let taken = Grant { grantee: *grantee, grantor, privileges, grantable };
                for acl in access.columns.values_mut() {
                    acl.revoke(taken, owner, (false, statement.cascade))?;
                }
            }
        }
        access.columns.retain(|_, acl| !acl.is_empty());
        Ok(())
    }

    pub(super) fn change_owner(
        &mut self,
        owned: Owned,
        if_exists: bool,
        name: &ast::ObjectName,
        role: &RoleSpec,
    ) -> Result<()> {
        if owned == Owned::Database
            && let name = simple_name(name)?
            && self.catalog.database(&name).is_some()
        {
            return self.give_database(&name, role);
        }
        let Some(object) = self.owned_object(owned, name, if_exists)? else { return Ok(()) };
        let new = self.role(role)?;
        let old = self.catalog.owner(&object);
        if !self.is_superuser() {
            let closure = self.closure();
            let judge = Judge { catalog: &self.catalog, closure: &closure };
            judge.replaces(&object)?;
            if !self.catalog.roles.is_member(self.actor.current, new) {
                let name = self.catalog.roles.name(new);
                let what = format!("must be member of role \"{name}\"");
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
            }
            if !matches!(object, Commented::Schema(_) | Commented::Database) {
                let theirs = self.catalog.roles.closure(new);
                let schema = Commented::Schema(self.catalog.schema_of(&object));
                if !self.catalog.privileges(&theirs, &schema).contains(Privileges::CREATE) {
                    return Err(self.catalog.denied(&schema));
                }
            }
        }
        self.give_whole_to(&object, old, new);
        Ok(())
    }

    /// A table with the sequences that its columns count by.
    pub(super) fn give_whole_to(&mut self, object: &Commented, old: RoleId, new: RoleId) {
        self.give_to(object, old, new);
        if let Commented::Table(id) = *object {
            let owned = |sequence: &crate::schema::sequence::Sequence| {
                sequence.owner.is_some_and(|owner| owner.table == id)
            };
            let sequences = self.catalog.sequences().filter(|sequence| owned(sequence));
            for id in sequences.map(|sequence| sequence.id).collect::<Vec<_>>() {
                self.give_to(&Commented::Sequence(id), old, new);
            }
        }
    }

    pub(super) fn give_to(&mut self, object: &Commented, old: RoleId, new: RoleId) {
        let access = self.access_mut(object);
        access.owner = new;
        let acls = access.acl.iter_mut().chain(access.columns.values_mut());
        acls.for_each(|acl: &mut Acl| acl.change_owner(old, new));
    }

    /// # Errors
    /// 42501: it is another's.
    pub(super) fn check_owns(&self, object: &Commented) -> Result<()> {
        let closure = self.closure();
        Judge { catalog: &self.catalog, closure: &closure }.replaces(object)
    }

    pub(super) fn owned_object(
        &self,
        owned: Owned,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<Option<Commented>> {
        let catalog = &self.catalog;
        let missing = |what: String, code| match if_exists {
            true => Ok(None),
            false => Err(Error::new(code, what)),
        };
        match owned {
            Owned::Schema => {
                let name = simple_name(name)?;
                match catalog.has_namespace(&name) {
                    true => Ok(Some(Commented::Schema(name))),
                    false => Err(no_schema(&name)),
                }
            }
            Owned::Database => {
                let name = simple_name(name)?;
                match DATABASES.contains(&name.as_str()) {
                    true => Ok(Some(Commented::Database)),
                    false => Err(no_database(&name)),
                }
            }
            Owned::Routine => {
                let key = object_name(name)?;
                match catalog.routine(&key) {
                    Some(_) => Ok(Some(Commented::Routine(key))),
                    None => missing(
                        format!("could not find a function named \"{}\"", bare(&key)),
                        SqlState::UNDEFINED_FUNCTION,
                    ),
                }
            }
            Owned::Type | Owned::Domain => {
                let key = object_name(name)?;
                match catalog.find_made_type(&key) {
                    Some(id) => Ok(Some(Commented::Type(id))),
                    None => Err(no_type(&key)),
                }
            }
            Owned::Collation => {
                let key = object_name(name)?;
                match catalog.find_collation(&key) {
                    Some((id, _)) => Ok(Some(Commented::Collation(id))),
                    None => Err(no_collation(bare(&key))),
                }
            }
            Owned::Table | Owned::View | Owned::Sequence => {
                let key = object_name(name)?;
                match catalog.relation_object(&key) {
                    Some(object) => Ok(Some(object)),
                    None => missing(
                        format!("relation \"{}\" does not exist", bare(&key)),
                        SqlState::UNDEFINED_TABLE,
                    ),
                }
            }
        }
    }

    /// What keeps a role from being dropped.
    pub(super) fn check_is_unused(&self, role: RoleId, name: &str) -> Result<()> {
        let mut details = Vec::new();
        for (object, access) in &self.catalog.access {
            let (kind, called) = self.catalog.called(object);
            if access.owner == role {
                details.push(format!("owner of {kind} {called}"));
            }
            let mut acls = access.acl.iter().chain(access.columns.values());
            if access.owner != role && acls.any(|acl| acl.names(role)) {
                details.push(format!("privileges for {kind} {called}"));
            }
        }
        let own = self.catalog.databases().filter(|(_, entry)| entry.owner == role);
        details.extend(own.map(|(name, _)| format!("owner of database {name}")));
        self.name_uses_by_defaults(role, &mut details);
        match details.is_empty() {
            true => Ok(()),
            false => {
                details.truncate(20);
                let what =
                    format!("role \"{name}\" cannot be dropped because some objects depend on it");
                Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                    .with_detail(details.join("\n")))
            }
        }
    }
}

impl Catalog {
    /// The table, view or sequence of that key.
    pub fn relation_object(&self, key: &str) -> Option<Commented> {
        let table = self.find_table(key).map(|table| Commented::Table(table.id()));
        let sequence = || self.find_sequence(key).map(|s| Commented::Sequence(s.id));
        let view = || self.view(key).map(|view| Commented::View(view.name.clone()));
        table.or_else(sequence).or_else(view)
    }

    /// The schema that an object is in; of a schema, it itself.
    pub fn schema_of(&self, object: &Commented) -> String {
        let table = |id: &TableId| self.table_by_id(*id).map(|table| table.namespace());
        let found = match object {
            Commented::Table(id)
            | Commented::Column(id, _)
            | Commented::Index(id, _)
            | Commented::Constraint(id, _) => table(id),
            Commented::Sequence(id) => self.sequence_by_id(*id).map(|s| schema_of(&s.name)),
            Commented::View(name) | Commented::Routine(name) => Some(schema_of(name)),
            Commented::Schema(name) => Some(name.as_str()),
            Commented::Type(id) => self.made_type(*id).map(schema_of),
            Commented::Collation(id) => self.collation_by_id(*id).map(|of| schema_of(&of.name)),
            Commented::Database => None,
        };
        found.unwrap_or_default().to_owned()
    }
}
