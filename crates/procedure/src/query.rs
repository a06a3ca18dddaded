//! Relational plans: what SELECT is made of, run against `Access` by the interpreter.

use std::ops::Bound;

use types::{ColumnId, IndexId, TableId};

use crate::expr::Expr;

/// A tree of operators; each yields rows whose values expressions above see as `Column(i)`.
#[derive(Clone, PartialEq, Debug)]
pub enum Query {
    /// `VALUES`, or the single empty row of a SELECT without FROM.
    Values(Box<[Box<[Expr]>]>),
    /// The elements of an array, one row each; none for NULL.
    Unnest(Expr),
    /// `generate_series` of integers; none where a bound is NULL.
    Series {
        first: Expr,
        last: Expr,
        step: Expr,
    },
    /// At most one row by its primary key. Key expressions see the outer row of a nested loop as
    /// `Column(i)`; the output is `columns` alone.
    Get {
        table: TableId,
        key: Box<[Expr]>,
        columns: Box<[ColumnId]>,
        filter: Option<Expr>,
    },
    /// Rows of an index range in index order. Bounds are prefixes of the index's columns and see
    /// the outer row as `Column(i)`. `filter` sees the output columns.
    Scan {
        table: TableId,
        index: IndexId,
        /// Which of the index's columns may be NULL: their keys have a byte that says so.
        nullable: Box<[bool]>,
        low: Bound<Box<[Expr]>>,
        high: Bound<Box<[Expr]>>,
        reverse: bool,
        columns: Box<[ColumnId]>,
        filter: Option<Expr>,
    },
    Filter {
        input: Box<Query>,
        condition: Expr,
    },
    Project {
        input: Box<Query>,
        expressions: Box<[Expr]>,
    },
    /// For each outer row, the inner plan with the outer row in sight; yields outer ++ inner.
    /// `left`: an outer row without a match is padded with NULLs.
    NestedLoop {
        outer: Box<Query>,
        inner: Box<Query>,
        condition: Option<Expr>,
        left: bool,
        inner_width: u16,
    },
    HashJoin {
        outer: Box<Query>,
        inner: Box<Query>,
        outer_keys: Box<[Expr]>,
        inner_keys: Box<[Expr]>,
        condition: Option<Expr>,
        left: bool,
        inner_width: u16,
    },
    /// Yields group expressions ++ aggregates, in the order in which groups first appear.
    Aggregate {
        input: Box<Query>,
        groups: Box<[Expr]>,
        aggregates: Box<[Aggregate]>,
    },
    Sort {
        input: Box<Query>,
        keys: Box<[SortKey]>,
    },
    Limit {
        input: Box<Query>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    Distinct {
        input: Box<Query>,
    },
    /// One column more, behind the others: `first`, then `step` more with each row.
    Numbered {
        input: Box<Query>,
        first: Expr,
        step: i64,
    },
    /// `UNION ALL`; UNION is `Distinct` above it.
    Append(Box<[Query]>),
}

impl Query {
    /// Columns of its rows.
    pub fn width(&self) -> u16 {
        let width = match self {
            Query::Values(rows) => rows.first().map_or(0, |row| row.len()),
            Query::Unnest(_) | Query::Series { .. } => 1,
            Query::Get { columns, .. } | Query::Scan { columns, .. } => columns.len(),
            Query::Project { expressions, .. } => expressions.len(),
            Query::Aggregate { groups, aggregates, .. } => groups.len() + aggregates.len(),
            Query::NestedLoop { outer, inner_width, .. }
            | Query::HashJoin { outer, inner_width, .. } => {
                usize::from(outer.width()) + usize::from(*inner_width)
            }
            Query::Filter { input, .. }
            | Query::Sort { input, .. }
            | Query::Limit { input, .. }
            | Query::Distinct { input } => return input.width(),
            Query::Numbered { input, .. } => usize::from(input.width()) + 1,
            Query::Append(inputs) => return inputs.first().map_or(0, Query::width),
        };
        width as u16
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// `None`: `count(*)`.
    pub input: Option<Expr>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    pub result: types::DataType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateFunction {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    /// Keeps NULLs; NULL instead of an empty array.
    ArrayAgg,
}

#[derive(Clone, PartialEq, Debug)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}
