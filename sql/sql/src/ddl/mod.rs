//! Data definition: what a DDL statement does to a catalog and to storage.
//!
//! [`Catalog::apply`](crate::Catalog::apply) turns a catalog and a [`Ddl`](crate::Ddl) into the
//! next catalog, the changes that storage must make, and queries that must find nothing if the data
//! already there is to satisfy the change.

mod alter;
mod apply;
pub(crate) mod collations;
mod comment;
mod computed;
pub(crate) mod databases;
mod defaults;
mod domains;
mod foreign;
mod grants;
mod keys;
mod materialized;
mod options;
mod organisations;
mod owned;
mod parts;
mod permission;
mod policies;
mod primary_key;
mod relabelled;
mod rename;
mod retype;
mod roles;
mod schemas;
mod sequence;
pub(crate) mod skipped;
mod table;
pub(crate) mod truncate;
mod user_types;
mod view;

use std::sync::Arc;

use identity::KeyId;
use procedure::{Expr, Procedure};
use types::{ColumnId, Error, Height, IndexId, IndexSchema, Layout, TableId, TableSchema, Value};

use crate::schema::sequence::Sequence;

/// How a schema change came to its block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought<'a> {
    /// Whose signatures its transaction bears: they are right.
    pub signers: &'a [KeyId],
    /// Whose approvals.
    pub approvers: &'a [KeyId],
    pub height: Height,
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

impl StoreChange {
    /// Which table it concerns.
    pub fn table(&self) -> TableId {
        match self {
            StoreChange::CreateTable(schema) | StoreChange::Describe(schema) => schema.id,
            StoreChange::DropTable(table)
            | StoreChange::Truncate(table)
            | StoreChange::Rebuild { table, .. }
            | StoreChange::CreateIndex { table, .. }
            | StoreChange::DropIndex { table, .. }
            | StoreChange::SetLayout { table, .. } => *table,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum ColumnSource {
    Old(ColumnId),
    Constant(Value),
    /// Of the columns that the row had.
    Computed(Expr),
    /// Each row takes the next value of a sequence that has just been made.
    Counted(Arc<Sequence>),
    /// A hidden row id, which rows get in the order that they had.
    RowId,
}

/// A query over the data; if it emits a row, the statement fails with `error`.
#[derive(Debug)]
pub struct Validation {
    /// How many of the store changes come before it.
    pub after: usize,
    pub query: Procedure,
    pub error: Error,
}
