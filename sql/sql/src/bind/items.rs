//! The bound items of a FROM clause before they are joined: what each is, its columns, and which
//! other items it refers to.

use std::sync::Arc;

use procedure::{Expr, Query};
use types::ColumnId;

use super::row_calls::needs;
use super::state::{Applied, Gives};
use crate::schema::catalog::Table;

/// A relation to be joined.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub source: Source,
    /// Number of its first column among all columns.
    pub offset: u16,
    pub width: u16,
    /// LEFT JOIN: the conjuncts of its ON.
    pub left: Option<Vec<Expr>>,
    /// FULL JOIN: its own rows without a match stay, too.
    pub full: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Table(Arc<Table>),
    Query(Query),
    /// A system's relation, by its number.
    System(u16),
    /// A call that gives rows, for each row of those before it.
    Calls(Query),
    /// The values of an IN list, to drive lookups.
    List(Query),
    /// A subquery that is run for each row of those before it.
    Applied(Box<Applied>),
}

impl Item {
    pub fn has(&self, column: u16) -> bool {
        (self.offset..self.offset + self.width).contains(&column)
    }

    /// One of an inner join.
    pub fn new(source: Source, offset: u16, width: u16) -> Item {
        Item { source, offset, width, left: None, full: false }
    }

    /// The value of a subquery, and no relation of FROM.
    pub fn is_value(&self) -> bool {
        matches!(&self.source, Source::Applied(applied) if applied.gives != Gives::Rows)
    }

    /// Whether a condition says which of its rows are joined at all.
    pub fn decides(&self, condition: &Expr) -> bool {
        let columns = condition.columns();
        !self.full && !columns.is_empty() && columns.iter().all(|c| self.has(*c))
    }

    /// Columns of others that it is made from.
    pub fn needs(&self) -> Vec<u16> {
        match &self.source {
            Source::Calls(calls) => needs(calls),
            Source::Applied(applied) => applied.needs(),
            _ => Vec::new(),
        }
    }

    pub fn is_nullable(&self, column: ColumnId) -> bool {
        match &self.source {
            Source::Table(table) => table.schema.columns[usize::from(column)].nullable,
            _ => true,
        }
    }
}
