//! What a role may do with a catalog: the privileges that the statements need which change it.
//!
//! They are checked before a statement is run, by the roles and grants in force at its place in the
//! block. Foreign keys are checked after it, as only then their targets are known.

use identity::{Closure, Privileges};
use sqlparser::ast;
use types::{ColumnId, Error, Result, SqlState};

use super::apply::Transition;
use crate::schema::catalog::{Catalog, Commented};
use crate::syntax::collations::CollationStatement;
use crate::syntax::ddl::{Ddl, Renamed};
use crate::syntax::domains::{DomainChange, DomainStatement};
use crate::syntax::names::{self, bare, fold, object_name, schema_of};
use crate::syntax::user_types::TypeStatement;

fn must_own(kind: &str, name: &str) -> Error {
    let what = format!("must be owner of {kind} {name}");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

impl Transition {
    /// What it takes to ask for a statement.
    ///
    /// # Errors
    /// 42501: the actor has not got it.
    pub(super) fn check_may(&self, ddl: &Ddl) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let closure = self.closure();
        let judge = Judge { catalog: &self.catalog, closure: &closure };
        match ddl {
            Ddl::CreateTable(create) => judge.creates_in(&create.name),
            Ddl::CreateSequence { name, .. } => judge.creates_in(name),
            Ddl::CreateView(create) => {
                judge.creates_in(&create.name)?;
                judge.replaces(&Commented::View(object_name(&create.name)?))
            }
            Ddl::CreateRoutine { function, .. } => {
                judge.creates_with(&function.name)?;
                judge.replaces(&Commented::Routine(function.name.clone()))
            }
            Ddl::Type(statement) => judge.types(statement),
            Ddl::Collation(statement) => judge.collations(statement),
            Ddl::Domain(statement) => judge.domains(statement),
            Ddl::CreateSchema { .. } => judge.has(&Commented::Database, Privileges::CREATE),
            Ddl::CreateMaterialized { create, .. } => judge.creates_in(&create.name),
            Ddl::Refresh { name, .. } => judge.owns_relation(name),
            Ddl::AlterTable(alter) => judge.owns_relation(&alter.name),
            Ddl::AlterIdentity { table, .. } => judge.owns_relation(table),
            Ddl::CreateIndex(create) => judge.owns_relation(&create.table_name),
            Ddl::CommentOnConstraint { table, .. } => judge.owns_relation(table),
            Ddl::AlterSequence { name, .. } => judge.owns_relation(name),
            Ddl::Rename { what: Renamed::View, name, .. } => judge.owns_relation(name),
            Ddl::Rename { what: Renamed::Index, name, .. } => judge.owns_index(name),
            Ddl::DropIndexes { names, .. } => {
                names.iter().try_for_each(|name| judge.owns_index(name))
            }
            Ddl::DropTables { names, .. }
            | Ddl::DropViews { names, .. }
            | Ddl::DropMaterialized { names, .. }
            | Ddl::DropSequences { names, .. } => {
                names.iter().try_for_each(|name| judge.drops_relation(name))
            }
            Ddl::DropRoutines { names, .. } => names.iter().try_for_each(|name| {
                let object = Commented::Routine(object_name(name)?);
                judge.drops(&object, schema_of(&object_name(name)?))
            }),
            Ddl::DropSchemas { names, .. } => {
                names.iter().try_for_each(|name| judge.replaces(&Commented::Schema(name.clone())))
            }
            Ddl::Truncate { names, cascade, .. } => {
                for table in self.catalog.truncated(names, *cascade)? {
                    judge.has(&Commented::Table(table.id()), Privileges::TRUNCATE)?;
                }
                Ok(())
            }
            Ddl::Comment { kind, name, .. } => match self.catalog.commented(*kind, name) {
                Ok(object) => judge.replaces(&object),
                // It is said what is missing.
                Err(_) => Ok(()),
            },
            Ddl::Role(_)
            | Ddl::Organisation(_)
            | Ddl::ApprovalPolicy(_)
            | Ddl::Database(_)
            | Ddl::Grant(_)
            | Ddl::DefaultPrivileges(_)
            | Ddl::DropOwned { .. }
            | Ddl::ReassignOwned { .. }
            | Ddl::ChangeOwner { .. } => Ok(()),
        }
    }

    /// New foreign keys point at what the actor may refer to.
    pub(super) fn check_references(&self, before: &Catalog) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let closure = self.closure();
        for table in self.catalog.tables() {
            let old = before.table_by_id(table.id());
            let is_old = |name: &str| {
                old.is_some_and(|old| old.foreign_keys.iter().any(|key| key.name == name))
            };
            for key in table.foreign_keys.iter().filter(|key| !is_old(&key.name)) {
                let may = |column: &ColumnId| {
                    let has = self.catalog.column_privileges(&closure, key.parent, *column);
                    has.contains(Privileges::REFERENCES)
                };
                if !key.parent_columns.iter().all(may) {
                    return Err(self.catalog.denied(&Commented::Table(key.parent)));
                }
            }
        }
        Ok(())
    }
}

/// What one role may do with a catalog.
pub(super) struct Judge<'a> {
    pub catalog: &'a Catalog,
    pub closure: &'a Closure,
}

impl Judge<'_> {
    fn has(&self, object: &Commented, wanted: Privileges) -> Result<()> {
        match self.catalog.privileges(self.closure, object).contains(wanted) {
            true => Ok(()),
            false => Err(self.catalog.denied(object)),
        }
    }

    fn creates_in(&self, name: &ast::ObjectName) -> Result<()> {
        self.creates_with(&object_name(name)?)
    }

    /// An object of that key.
    fn creates_with(&self, key: &str) -> Result<()> {
        let schema = schema_of(key);
        match self.catalog.has_namespace(schema) {
            true => self.has(&Commented::Schema(schema.to_owned()), Privileges::CREATE),
            false => Ok(()),
        }
    }

    fn owns(&self, object: &Commented) -> bool {
        self.closure.has(self.catalog.owner(object))
    }

    /// It is its own, if it is there.
    pub fn replaces(&self, object: &Commented) -> Result<()> {
        match !self.catalog.has(object) || self.owns(&self.catalog.owned_by(object)) {
            true => Ok(()),
            false => {
                let (kind, name) = self.catalog.called(object);
                Err(must_own(kind, &name))
            }
        }
    }

    /// What it takes to make or change a domain.
    fn domains(&self, statement: &DomainStatement) -> Result<()> {
        let known = |name: &ast::ObjectName| -> Result<Option<Commented>> {
            Ok(self.catalog.find_made_type(&object_name(name)?).map(Commented::Type))
        };
        match statement {
            DomainStatement::Create(create) => self.creates_in(&create.name),
            DomainStatement::Alter { name, change } => {
                if let DomainChange::SetSchema(schema) = change {
                    self.creates_with(&names::key(&fold(schema), "domain"))?;
                }
                known(name)?.map_or(Ok(()), |object| self.replaces(&object))
            }
            DomainStatement::Drop { names, .. } => {
                names.iter().try_for_each(|name| match known(name)? {
                    Some(object) => self.drops(&object, schema_of(&object_name(name)?)),
                    None => Ok(()),
                })
            }
        }
    }

    /// What it takes to make or change a collation.
    fn collations(&self, statement: &CollationStatement) -> Result<()> {
        use CollationStatement as S;
        let known = |name: &ast::ObjectName| -> Option<(Commented, String)> {
            let key = object_name(name).ok()?;
            let (id, _) = self.catalog.find_collation(&key)?;
            Some((Commented::Collation(id), key))
        };
        let replaces = |name| known(name).map_or(Ok(()), |(object, _)| self.replaces(&object));
        match statement {
            S::Create { name, .. } => self.creates_in(name),
            S::Drop { names, .. } => names.iter().try_for_each(|name| {
                let drops =
                    |(object, key): (Commented, String)| self.drops(&object, schema_of(&key));
                known(name).map_or(Ok(()), drops)
            }),
            S::SetSchema { name, schema } => {
                self.creates_with(&names::key(&fold(schema), "collation"))?;
                replaces(name)
            }
            S::Rename { name, .. } | S::Refresh { name } => replaces(name),
        }
    }

    /// What it takes to make or change a type.
    fn types(&self, statement: &TypeStatement) -> Result<()> {
        use TypeStatement as S;
        let known = |name: &ast::ObjectName| -> Result<Option<Commented>> {
            Ok(self.catalog.find_made_type(&object_name(name)?).map(Commented::Type))
        };
        match statement {
            S::CreateEnum { name, .. } => self.creates_in(name),
            S::Drop { names, .. } => names.iter().try_for_each(|name| match known(name)? {
                Some(object) => self.drops(&object, schema_of(&object_name(name)?)),
                None => Ok(()),
            }),
            S::SetSchema { name, schema } => {
                self.creates_with(&names::key(&fold(schema), "type"))?;
                known(name)?.map_or(Ok(()), |object| self.replaces(&object))
            }
            S::AddLabel { name, .. } | S::RenameLabel { name, .. } | S::Rename { name, .. } => {
                known(name)?.map_or(Ok(()), |object| self.replaces(&object))
            }
        }
    }

    fn owns_relation(&self, name: &ast::ObjectName) -> Result<()> {
        match self.catalog.relation_object(&object_name(name)?) {
            Some(object) => self.replaces(&object),
            None => Ok(()),
        }
    }

    fn owns_index(&self, name: &ast::ObjectName) -> Result<()> {
        let key = object_name(name)?;
        match self.catalog.find_index(&key) {
            Some((table, _)) if !self.owns(&Commented::Table(table.id())) => {
                Err(must_own("index", bare(&key)))
            }
            _ => Ok(()),
        }
    }

    /// The owner of a schema drops what is in it.
    fn drops(&self, object: &Commented, schema: &str) -> Result<()> {
        match self.owns(&Commented::Schema(schema.to_owned())) {
            true => Ok(()),
            false => self.replaces(object),
        }
    }

    fn drops_relation(&self, name: &ast::ObjectName) -> Result<()> {
        let key = object_name(name)?;
        match self.catalog.relation_object(&key) {
            Some(object) => self.drops(&object, schema_of(&key)),
            None => Ok(()),
        }
    }
}

impl Catalog {
    /// Whose owner is the object's.
    fn owned_by(&self, object: &Commented) -> Commented {
        match object {
            Commented::Column(id, _) | Commented::Index(id, _) | Commented::Constraint(id, _) => {
                Commented::Table(*id)
            }
            object => object.clone(),
        }
    }
}
