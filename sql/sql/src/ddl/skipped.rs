//! What IF EXISTS and IF NOT EXISTS let a statement skip, as clients are told.
//!
//! No part of a result: a session looks at the schema that it sees when it sends the statement.

use sqlparser::ast;
use types::{Error, SqlState};

use crate::schema::catalog::{Catalog, Table};
use crate::syntax::collations::CollationStatement;
use crate::syntax::ddl::Ddl;
use crate::syntax::domains::DomainStatement;
use crate::syntax::names::{bare, beside, fold, object_name, simple_name, split};
use crate::syntax::organisations::OrganisationStatement;
use crate::syntax::roles::{RoleSpec, RoleStatement};
use crate::syntax::routine::RoutineKind;
use crate::syntax::user_types::TypeStatement;

const DUPLICATE_SCHEMA: SqlState = SqlState(*b"42P06");

impl Ddl {
    /// Notices, each with the SQLSTATE that PostgreSQL gives it.
    pub fn skipped(&self, catalog: &Catalog) -> Vec<Error> {
        let mut skipped = Skipped { catalog, notices: Vec::new() };
        skipped.statement(self);
        skipped.notices
    }
}

/// The code of a notice that is a warning.
pub(crate) const WARNING: SqlState = SqlState(*b"01000");

fn pairs<'r>(
    roles: &'r [String],
    members: impl Iterator<Item = String> + Clone,
) -> impl Iterator<Item = (&'r str, String)> {
    roles.iter().flat_map(move |role| members.clone().map(move |member| (role.as_str(), member)))
}

struct Skipped<'a> {
    catalog: &'a Catalog,
    notices: Vec<Error>,
}

impl Skipped<'_> {
    fn statement(&mut self, ddl: &Ddl) {
        let catalog = self.catalog;
        match ddl {
            Ddl::DropTables { names, if_exists: true, .. } => {
                self.missing("table", names, |name| catalog.find_table(name).is_some());
            }
            Ddl::DropViews { names, if_exists: true, .. } => {
                self.missing("view", names, |name| catalog.relation_exists(name));
            }
            Ddl::DropMaterialized { names, if_exists: true, .. } => {
                self.missing("materialized view", names, |name| catalog.relation_exists(name));
            }
            Ddl::CreateMaterialized { create, .. } if create.if_not_exists => {
                self.relation(&create.name);
            }
            Ddl::DropIndexes { names, if_exists: true } => {
                self.missing("index", names, |name| catalog.find_index(name).is_some());
            }
            Ddl::DropSequences { names, if_exists: true, .. } => {
                self.missing("sequence", names, |name| catalog.find_sequence(name).is_some());
            }
            Ddl::DropSchemas { names, if_exists: true, .. } => {
                for name in names.iter().filter(|name| !catalog.has_namespace(name)) {
                    self.is_missing(&format!("schema \"{name}\""));
                }
            }
            Ddl::DropRoutines { kind, names, if_exists: true } => self.routines(*kind, names),
            Ddl::AlterSequence { name, if_exists: true, .. }
            | Ddl::Rename { name, if_exists: true, .. }
            | Ddl::AlterIdentity { table: name, if_exists: true, .. } => {
                let names = std::slice::from_ref(name);
                self.missing("relation", names, |name| catalog.relation_exists(name));
            }
            Ddl::AlterTable(alter) => self.alter_table(alter),
            Ddl::Type(statement) => self.types(statement),
            Ddl::Collation(statement) => self.collations(statement),
            Ddl::Domain(statement) => {
                if let DomainStatement::Drop { names, if_exists: true, .. } = &**statement {
                    self.missing("type", names, |name| catalog.find_made_type(name).is_some());
                }
            }
            Ddl::Role(statement) => self.roles(statement),
            Ddl::Organisation(statement) => {
                if let OrganisationStatement::Drop { name, if_exists: true } = &**statement
                    && catalog.organisations.named(name).is_err()
                {
                    self.is_missing(&format!("organisation \"{name}\""));
                }
            }
            Ddl::ApprovalPolicy(statement) if statement.if_exists => {
                let names = std::slice::from_ref(&statement.name);
                self.missing("relation", names, |name| catalog.relation_exists(name));
            }
            Ddl::CreateTable(create) if create.if_not_exists => self.relation(&create.name),
            Ddl::CreateSequence { name, if_not_exists: true, .. } => self.relation(name),
            Ddl::CreateIndex(create) if create.if_not_exists => {
                let Ok(table) = object_name(&create.table_name) else { return };
                if let Some(Ok(name)) = create.name.as_ref().map(simple_name)
                    && catalog.relation_exists(&beside(&table, &name))
                {
                    self.exists(SqlState::DUPLICATE_TABLE, &format!("relation \"{name}\""));
                }
            }
            Ddl::CreateSchema { name, if_not_exists: true, .. } if catalog.has_namespace(name) => {
                self.exists(DUPLICATE_SCHEMA, &format!("schema \"{name}\""));
            }
            _ => {}
        }
    }

    fn collations(&mut self, statement: &CollationStatement) {
        let catalog = self.catalog;
        match statement {
            CollationStatement::Drop { names, if_exists: true, .. } => {
                self.missing("collation", names, |name| catalog.find_collation(name).is_some());
            }
            CollationStatement::Create { name, if_not_exists: true, .. } => {
                if let Ok(key) = object_name(name)
                    && catalog.find_collation(&key).is_some()
                {
                    let what = format!("collation \"{}\"", bare(&key));
                    self.exists(SqlState::DUPLICATE_OBJECT, &what);
                }
            }
            _ => {}
        }
    }

    fn types(&mut self, statement: &TypeStatement) {
        let catalog = self.catalog;
        match statement {
            TypeStatement::Drop { names, if_exists: true, .. } => {
                self.missing("type", names, |name| catalog.find_made_type(name).is_some());
            }
            TypeStatement::AddLabel { name, label, if_not_exists: true, .. } => {
                let found = object_name(name).ok().and_then(|name| catalog.find_enum(&name));
                if found.is_some_and(|(_, of)| of.position(label).is_some()) {
                    self.exists(SqlState::DUPLICATE_OBJECT, &format!("enum label \"{label}\""));
                }
            }
            _ => {}
        }
    }

    /// Of roles, what changes nothing.
    fn roles(&mut self, statement: &RoleStatement) {
        let catalog = self.catalog;
        let id = |name: &str| catalog.roles().find(name).map(|role| role.id);
        let is_member = |role: &str, member: &str| {
            let (role, member) = (id(role), id(member));
            let mut all = catalog.roles().memberships();
            all.any(|one| Some(one.role) == role && Some(one.member) == member)
        };
        let name = |spec: &RoleSpec| match spec {
            RoleSpec::Name(name) => Some(name.clone()),
            _ => None,
        };
        match statement {
            RoleStatement::Drop { names, if_exists: true } => {
                for name in names.iter().filter_map(name).filter(|name| id(name).is_none()) {
                    self.is_missing(&format!("role \"{name}\""));
                }
            }
            RoleStatement::Grant { roles, to, admin: false } => {
                for (role, member) in pairs(roles, to.iter().filter_map(name)) {
                    if is_member(role, &member) {
                        let what =
                            format!("role \"{member}\" is already a member of role \"{role}\"");
                        self.notices.push(Error::new(SqlState::SUCCESSFUL_COMPLETION, what));
                    }
                }
            }
            RoleStatement::Revoke { roles, from, .. } => {
                for (role, member) in pairs(roles, from.iter().filter_map(name)) {
                    if id(role).is_some() && id(&member).is_some() && !is_member(role, &member) {
                        let what = format!("role \"{member}\" is not a member of role \"{role}\"");
                        self.notices.push(Error::new(WARNING, what));
                    }
                }
            }
            _ => {}
        }
    }

    fn notice(&mut self, code: SqlState, what: &str) {
        self.notices.push(Error::new(code, format!("{what}, skipping")));
    }

    fn is_missing(&mut self, what: &str) {
        self.notice(SqlState::SUCCESSFUL_COMPLETION, &format!("{what} does not exist"));
    }

    fn exists(&mut self, code: SqlState, what: &str) {
        self.notice(code, &format!("{what} already exists"));
    }

    /// Of names that are nowhere, a schema that is not there is told first.
    fn missing(&mut self, kind: &str, names: &[ast::ObjectName], is_there: impl Fn(&str) -> bool) {
        for key in names.iter().filter_map(|name| object_name(name).ok()) {
            let (schema, name) = split(&key);
            match (self.catalog.has_namespace(schema), is_there(&key)) {
                (_, true) => {}
                (false, _) => self.is_missing(&format!("schema \"{schema}\"")),
                (true, false) => self.is_missing(&format!("{kind} \"{name}\"")),
            }
        }
    }

    fn routines(&mut self, kind: RoutineKind, names: &[ast::ObjectName]) {
        let word = match kind {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
        };
        for key in names.iter().filter_map(|name| object_name(name).ok()) {
            if self.catalog.routine(&key).is_none_or(|routine| routine.definition.kind != kind) {
                self.is_missing(&format!("{word} {}()", bare(&key)));
            }
        }
    }

    fn relation(&mut self, name: &ast::ObjectName) {
        let Ok(key) = object_name(name) else { return };
        if self.catalog.relation_exists(&key) {
            let what = format!("relation \"{}\"", bare(&key));
            self.exists(SqlState::DUPLICATE_TABLE, &what);
        }
    }

    fn alter_table(&mut self, alter: &ast::AlterTable) {
        let Ok(key) = object_name(&alter.name) else { return };
        let Some(table) = self.catalog.find_table(&key).cloned() else {
            if alter.if_exists {
                self.is_missing(&format!("relation \"{}\"", bare(&key)));
            }
            return;
        };
        for operation in &alter.operations {
            self.operation(&table, operation);
        }
    }

    fn operation(&mut self, table: &Table, operation: &ast::AlterTableOperation) {
        use ast::AlterTableOperation as O;
        let of =
            |kind: &str, name: &str| format!("{kind} \"{name}\" of relation \"{}\"", table.name());
        match operation {
            O::AddColumn { if_not_exists: true, column_def, .. } => {
                let name = fold(&column_def.name);
                if table.schema.column(&name).is_some() {
                    self.exists(SqlState::DUPLICATE_COLUMN, &of("column", &name));
                }
            }
            O::DropColumn { if_exists: true, column_names, .. } => {
                for name in column_names.iter().map(fold) {
                    if table.schema.column(&name).is_none() {
                        self.is_missing(&of("column", &name));
                    }
                }
            }
            O::DropConstraint { if_exists: true, name, .. } => {
                let name = fold(name);
                if !table.has_constraint(&name) {
                    self.is_missing(&of("constraint", &name));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, Statement, bind, parse};

    #[test]
    fn what_is_skipped_is_told_in_postgresqls_words() {
        let mut catalog = Catalog::genesis();
        let mut reported = |text: &str| -> Vec<String> {
            let parsed = parse(text).unwrap().remove(0);
            let Statement::Ddl(ddl) = bind(&catalog, &parsed, &[]).unwrap().statement else {
                panic!("{text} is no schema change");
            };
            let notices = ddl.skipped(&catalog);
            catalog = catalog.apply(&ddl).unwrap().0;
            let reported = notices.iter().map(|n| format!("{} {}", n.code(), n.message()));
            reported.collect()
        };
        for (text, expected) in [
            ("CREATE TABLE IF NOT EXISTS t (a int, CONSTRAINT c CHECK (a > 0))", &[][..]),
            (
                "CREATE TABLE IF NOT EXISTS t (b int)",
                &["42P07 relation \"t\" already exists, skipping"],
            ),
            ("CREATE INDEX i ON t (a)", &[]),
            (
                "CREATE INDEX IF NOT EXISTS i ON t (a)",
                &["42P07 relation \"i\" already exists, skipping"],
            ),
            (
                "CREATE SCHEMA IF NOT EXISTS public",
                &["42P06 schema \"public\" already exists, skipping"],
            ),
            (
                "DROP TABLE IF EXISTS x, s.y",
                &[
                    "00000 table \"x\" does not exist, skipping",
                    "00000 schema \"s\" does not exist, skipping",
                ],
            ),
            ("DROP VIEW IF EXISTS v", &["00000 view \"v\" does not exist, skipping"]),
            ("DROP INDEX IF EXISTS n", &["00000 index \"n\" does not exist, skipping"]),
            ("DROP SEQUENCE IF EXISTS q", &["00000 sequence \"q\" does not exist, skipping"]),
            ("DROP SCHEMA IF EXISTS s", &["00000 schema \"s\" does not exist, skipping"]),
            ("DROP FUNCTION IF EXISTS f", &["00000 function f() does not exist, skipping"]),
            (
                "ALTER TABLE IF EXISTS x ADD COLUMN b int",
                &["00000 relation \"x\" does not exist, skipping"],
            ),
            (
                "ALTER TABLE t ADD COLUMN IF NOT EXISTS a int",
                &["42701 column \"a\" of relation \"t\" already exists, skipping"],
            ),
            (
                "ALTER TABLE t DROP COLUMN IF EXISTS z",
                &["00000 column \"z\" of relation \"t\" does not exist, skipping"],
            ),
            (
                "ALTER TABLE t DROP CONSTRAINT IF EXISTS d",
                &["00000 constraint \"d\" of relation \"t\" does not exist, skipping"],
            ),
            ("ALTER TABLE t DROP CONSTRAINT IF EXISTS c", &[]),
            ("DROP TABLE IF EXISTS t", &[]),
        ] {
            assert_eq!(reported(text), expected, "{text}");
        }
    }
}
