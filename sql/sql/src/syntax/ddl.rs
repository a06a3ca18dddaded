//! Data definition: what a DDL statement asks for, before a catalog has judged it.
//!
//! A [`Ddl`] is a pure function of its text. The ledger records the text; replay parses and applies
//! it again and comes to the same ids.

use sqlparser::ast;
use types::{Error, Result, SqlState};

use crate::syntax::collations::CollationStatement;
use crate::syntax::databases::DatabaseStatement;
use crate::syntax::domains::DomainStatement;
use crate::syntax::grants::{DefaultPrivileges, GrantStatement, GrantTarget, Owned};
use crate::syntax::names::{fold, simple_name};
use crate::syntax::organisations::OrganisationStatement;
use crate::syntax::policies::PolicyStatement;
use crate::syntax::roles::{RoleSpec, RoleStatement};
use crate::syntax::routine::{CreateFunction, RoutineKind};
use crate::syntax::user_types::TypeStatement;

/// A DDL statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Ddl {
    CreateTable(Box<ast::CreateTable>),
    AlterTable(Box<ast::AlterTable>),
    DropTables {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    Truncate {
        names: Vec<ast::ObjectName>,
        cascade: bool,
        restart_identity: bool,
    },
    CreateSequence {
        name: ast::ObjectName,
        if_not_exists: bool,
        options: SequenceOptions,
    },
    AlterSequence {
        name: ast::ObjectName,
        if_exists: bool,
        change: AlterSequence,
    },
    DropSequences {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    AlterIdentity {
        table: ast::ObjectName,
        if_exists: bool,
        column: ast::Ident,
        change: AlterIdentity,
    },
    CreateIndex(Box<ast::CreateIndex>),
    DropIndexes {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
    },
    CreateView(Box<ast::CreateView>),
    DropViews {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    CreateMaterialized {
        create: Box<ast::CreateView>,
        with_data: bool,
    },
    /// Of what holds no rows yet, or is to hold none.
    Refresh {
        name: ast::ObjectName,
        with_data: bool,
    },
    DropMaterialized {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
    Rename {
        what: Renamed,
        name: ast::ObjectName,
        to: ast::Ident,
        if_exists: bool,
    },
    CreateRoutine {
        function: Box<CreateFunction>,
        or_replace: bool,
    },
    DropRoutines {
        kind: RoutineKind,
        names: Vec<ast::ObjectName>,
        if_exists: bool,
    },
    CreateSchema {
        name: String,
        if_not_exists: bool,
        owner: Option<RoleSpec>,
    },
    DropSchemas {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    CommentOnConstraint {
        name: ast::Ident,
        table: ast::ObjectName,
        text: Option<String>,
    },
    Type(Box<TypeStatement>),
    Domain(Box<DomainStatement>),
    Collation(Box<CollationStatement>),
    Role(Box<RoleStatement>),
    Organisation(Box<OrganisationStatement>),
    ApprovalPolicy(Box<PolicyStatement>),
    Database(Box<DatabaseStatement>),
    Grant(Box<GrantStatement>),
    DefaultPrivileges(Box<DefaultPrivileges>),
    DropOwned {
        roles: Vec<RoleSpec>,
        cascade: bool,
    },
    ReassignOwned {
        roles: Vec<RoleSpec>,
        to: RoleSpec,
    },
    ChangeOwner {
        owned: Owned,
        if_exists: bool,
        name: ast::ObjectName,
        role: RoleSpec,
    },
    Comment {
        kind: ast::CommentObject,
        name: ast::ObjectName,
        text: Option<String>,
    },
}

impl Ddl {
    pub fn tag(&self) -> &'static str {
        match self {
            Ddl::CreateTable(_) => "CREATE TABLE",
            Ddl::AlterTable(_) | Ddl::AlterIdentity { .. } => "ALTER TABLE",
            Ddl::CreateSequence { .. } => "CREATE SEQUENCE",
            Ddl::AlterSequence { .. } => "ALTER SEQUENCE",
            Ddl::DropSequences { .. } => "DROP SEQUENCE",
            Ddl::DropTables { .. } => "DROP TABLE",
            Ddl::Truncate { .. } => "TRUNCATE TABLE",
            Ddl::CreateIndex(_) => "CREATE INDEX",
            Ddl::DropIndexes { .. } => "DROP INDEX",
            Ddl::Type(statement) => statement.tag(),
            Ddl::Domain(statement) => statement.tag(),
            Ddl::Collation(statement) => statement.tag(),
            Ddl::Role(statement) => statement.tag(),
            Ddl::Organisation(statement) => statement.tag(),
            Ddl::ApprovalPolicy(statement) => statement.of.tag(),
            Ddl::Database(statement) => statement.tag(),
            Ddl::Grant(statement) if statement.grants => "GRANT",
            Ddl::Grant(_) => "REVOKE",
            Ddl::DefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
            Ddl::DropOwned { .. } => "DROP OWNED",
            Ddl::ReassignOwned { .. } => "REASSIGN OWNED",
            Ddl::ChangeOwner { owned, .. } => owned.tag(),
            Ddl::CreateView(_) => "CREATE VIEW",
            Ddl::DropViews { .. } => "DROP VIEW",
            Ddl::CreateMaterialized { .. } => "CREATE MATERIALIZED VIEW",
            Ddl::Refresh { .. } => "REFRESH MATERIALIZED VIEW",
            Ddl::DropMaterialized { .. } => "DROP MATERIALIZED VIEW",
            Ddl::CreateSchema { .. } => "CREATE SCHEMA",
            Ddl::DropSchemas { .. } => "DROP SCHEMA",
            Ddl::CreateRoutine { function, .. } => match function.kind {
                RoutineKind::Procedure => "CREATE PROCEDURE",
                RoutineKind::Function => "CREATE FUNCTION",
            },
            Ddl::DropRoutines { kind, .. } => match kind {
                RoutineKind::Procedure => "DROP PROCEDURE",
                RoutineKind::Function => "DROP FUNCTION",
            },
            Ddl::Rename { what: Renamed::Index, .. } => "ALTER INDEX",
            Ddl::Rename { what: Renamed::View, .. } => "ALTER VIEW",
            Ddl::Comment { .. } | Ddl::CommentOnConstraint { .. } => "COMMENT",
        }
    }

    /// Whether it says something of a database of this name.
    pub(crate) fn names_database(&self, database: &str) -> bool {
        let is_it = |name: &ast::ObjectName| simple_name(name).is_ok_and(|name| name == database);
        match self {
            Ddl::Grant(statement) => match &statement.on {
                GrantTarget::Databases(names) => names.iter().any(|name| name == database),
                _ => false,
            },
            Ddl::ChangeOwner { owned: Owned::Database, name, .. }
            | Ddl::Comment { kind: ast::CommentObject::Database, name, .. } => is_it(name),
            Ddl::ApprovalPolicy(statement) => {
                statement.of == Owned::Database && is_it(&statement.name)
            }
            _ => false,
        }
    }

    /// What a statement of sqlparser defines; `None`: it defines nothing.
    ///
    /// # Errors
    /// DROP of what there is not.
    pub(crate) fn of_statement(statement: &ast::Statement) -> Result<Option<Ddl>> {
        use ast::Statement as S;
        Ok(Some(match statement {
            S::CreateSchema {
                schema_name,
                if_not_exists,
                with: None,
                options: None,
                default_collate_spec: None,
                clone: None,
            } => Ddl::CreateSchema {
                name: match schema_name {
                    ast::SchemaName::Simple(name)
                    | ast::SchemaName::NamedAuthorization(name, _) => schema_name_of(name)?,
                    ast::SchemaName::UnnamedAuthorization(owner) => fold(owner),
                },
                if_not_exists: *if_not_exists,
                owner: match schema_name {
                    ast::SchemaName::Simple(_) => None,
                    ast::SchemaName::NamedAuthorization(_, owner)
                    | ast::SchemaName::UnnamedAuthorization(owner) => Some(RoleSpec::of(owner)),
                },
            },
            S::Drop { object_type, if_exists, names, cascade, temporary, .. } => {
                let is_kept = !(*temporary && *object_type == ast::ObjectType::Table);
                let dropped = Ddl::of_drop(*object_type, names, *if_exists, *cascade)?;
                let dropped = dropped.filter(|_| is_kept);
                let unknown = || Error::unsupported(format_args!("DROP {object_type}"));
                dropped.ok_or_else(unknown)?
            }
            S::CreateTable(create) => Ddl::CreateTable(Box::new(create.clone())),
            S::AlterTable(alter) => Ddl::AlterTable(Box::new(alter.clone())),
            S::CreateIndex(create) => Ddl::CreateIndex(Box::new(create.clone())),
            S::CreateView(create) => Ddl::CreateView(Box::new(create.clone())),
            S::Comment { object_type, object_name, comment, if_exists: false } => Ddl::Comment {
                kind: *object_type,
                name: object_name.clone(),
                text: comment.clone(),
            },
            S::Truncate(truncate) => Ddl::Truncate {
                names: truncate.table_names.iter().map(|t| t.name.clone()).collect(),
                cascade: matches!(truncate.cascade, Some(ast::CascadeOption::Cascade)),
                restart_identity: matches!(
                    truncate.identity,
                    Some(ast::TruncateIdentityOption::Restart)
                ),
            },
            _ => return Ok(None),
        }))
    }

    /// `None`: what there is not.
    fn of_drop(
        object_type: ast::ObjectType,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<Option<Ddl>> {
        let named = || names.to_vec();
        Ok(Some(match object_type {
            ast::ObjectType::Schema => {
                let names = names.iter().map(schema_name_of).collect::<Result<_>>()?;
                Ddl::DropSchemas { names, if_exists, cascade }
            }
            ast::ObjectType::Table => Ddl::DropTables { names: named(), if_exists, cascade },
            ast::ObjectType::Index => Ddl::DropIndexes { names: named(), if_exists },
            ast::ObjectType::View => Ddl::DropViews { names: named(), if_exists, cascade },
            ast::ObjectType::MaterializedView => {
                Ddl::DropMaterialized { names: named(), if_exists, cascade }
            }
            ast::ObjectType::Sequence => Ddl::DropSequences { names: named(), if_exists, cascade },
            _ => return Ok(None),
        }))
    }
}

/// What is renamed by a statement of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renamed {
    Index,
    View,
}

/// What a statement says of a sequence; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceOptions {
    pub data_type: Option<ast::DataType>,
    pub increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// `Some(None)`: at the start.
    pub restart: Option<Option<i64>>,
    pub cycles: Option<bool>,
    pub cache: Option<i64>,
    /// `Some(None)`: OWNED BY NONE.
    pub owned_by: Option<Option<ast::ObjectName>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterSequence {
    Options(SequenceOptions),
    Rename(ast::Ident),
}

#[derive(Clone, Debug, PartialEq)]
pub enum AlterIdentity {
    Drop { if_exists: bool },
    Set { always: Option<bool>, options: SequenceOptions },
}

impl From<&[ast::SequenceOptions]> for SequenceOptions {
    /// The parser has made sure of numbers; one that does not fit in 64 bits is told by `define`.
    fn from(given: &[ast::SequenceOptions]) -> SequenceOptions {
        use ast::SequenceOptions as O;
        let number = |expr: &ast::Expr| expr.to_string().replace('_', "").parse::<i64>().ok();
        let mut options = SequenceOptions::default();
        for option in given {
            match option {
                O::IncrementBy(expr, _) => options.increment = number(expr).or(Some(0)),
                O::MinValue(expr) => options.min = Some(expr.as_ref().and_then(number)),
                O::MaxValue(expr) => options.max = Some(expr.as_ref().and_then(number)),
                O::StartWith(expr, _) => options.start = number(expr),
                O::Cache(expr) => options.cache = number(expr).or(Some(0)),
                // sqlparser has it the other way round.
                O::Cycle(no) => options.cycles = Some(!no),
            }
        }
        options
    }
}

fn schema_name_of(name: &ast::ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [_] => simple_name(name),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, format!("{name} is no name of a schema"))),
    }
}
