//! Data definition: what a DDL statement asks for, before a catalog has judged it.
//!
//! A [`Ddl`] is a pure function of its text. [`Catalog::apply`](crate::Catalog::apply) turns a
//! catalog and a `Ddl` into the next catalog, the changes that storage must make, and queries that
//! must find nothing if the data already there is to satisfy the change. The ledger records the
//! text; replay parses and applies it again and comes to the same ids.

mod alter;
mod apply;
mod comment;
mod options;
mod rename;
mod retype;
mod routine;
mod schemas;
mod sequence;
mod skipped;
mod table;
pub(crate) mod truncate;
mod view;

use std::sync::Arc;

use procedure::{Expr, Procedure};
use sqlparser::ast;
use types::{ColumnId, DataType, Error, IndexId, IndexSchema, Layout, TableId, TableSchema, Value};

use crate::schema::sequence::Sequence;
pub(crate) use apply::quoted;
pub use comment::Commented;
pub use rename::Renamed;
pub use routine::{CreateFunction, Parameter, ParameterMode, Returns, RoutineKind};
pub use sequence::{AlterIdentity, AlterSequence, SequenceOptions};

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
            Ddl::CreateView(_) => "CREATE VIEW",
            Ddl::DropViews { .. } => "DROP VIEW",
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
}

/// What storage must do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreChange {
    CreateTable(TableSchema),
    DropTable(TableId),
    /// Write every row anew under `schema`: column i of the new row comes from `columns[i]`.
    Rebuild {
        table: TableId,
        schema: TableSchema,
        columns: Vec<ColumnSource>,
    },
    CreateIndex {
        table: TableId,
        index: IndexId,
        schema: IndexSchema,
    },
    DropIndex {
        table: TableId,
        index: IndexId,
    },
    Truncate(TableId),
    /// Names or nullability changed; rows stay as they are.
    Describe(TableSchema),
    /// Rows stay as they are, and where they are.
    SetLayout {
        table: TableId,
        layout: Layout,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ColumnSource {
    Old(ColumnId),
    Constant(Value),
    /// Of the columns that the row had.
    Computed(Expr),
    /// Each row takes the next value of a sequence that has just been made.
    Counted(Arc<Sequence>),
}

/// A query over the data; if it emits a row, the statement fails with `error`.
#[derive(Debug)]
pub struct Validation {
    /// How many of the store changes come before it.
    pub after: usize,
    pub query: Procedure,
    pub error: Error,
}

/// The type that SQL text names.
pub fn data_type(ast: &ast::DataType) -> types::Result<DataType> {
    if let "trigger" | "event_trigger" = ast.to_string().to_ascii_lowercase().as_str() {
        return Err(Error::unsupported("triggers"));
    }
    DataType::from_sql_name(&ast.to_string())
}
