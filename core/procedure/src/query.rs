//! Relational plans: what SELECT is made of, run against `Access` by the interpreter.

use std::ops::Bound;

use types::{ColumnId, IndexId, TableId};

use crate::expr::{Expr, Reg};
use crate::functions::JsonRows;

/// A tree of operators; each yields rows whose values expressions above see as `Column(i)`.
#[derive(Clone, PartialEq, Debug)]
pub enum Query {
    /// `VALUES`, or the single empty row of a SELECT without FROM.
    Values(Box<[Box<[Expr]>]>),
    /// A call that gives rows, mostly of one column; none where an input is NULL, unless it says
    /// otherwise.
    /// Inputs see the outer row of a nested loop as `Column(i)`.
    Call {
        function: RowFunction,
        inputs: Box<[Expr]>,
    },
    /// The rows of several side by side: as many as the longest has, with NULLs after the end of
    /// the others. `numbered`: one column more, which counts from 1.
    RowsFrom {
        inputs: Box<[Query]>,
        numbered: bool,
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
    /// Rows of a source that the [surroundings](crate::surroundings) have. The key, a column of the
    /// source and its value, sees the outer row as `Column(i)`. `filter` sees the output columns.
    Around {
        source: u16,
        columns: Box<[u16]>,
        key: Option<(u16, Expr)>,
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
        /// An inner row without a match is padded, too; these come last.
        right: bool,
        inner_width: u16,
    },
    /// A correlated subquery: for each outer row, the inner plan with values of that row in
    /// registers of its own, which its expressions read wherever they stand.
    Apply {
        outer: Box<Query>,
        inner: Box<Query>,
        /// Of the outer row.
        given: Box<[(Reg, Expr)]>,
        /// Where this is not true of the outer row, the inner plan is not run: it has no rows.
        guard: Option<Expr>,
        yields: Yields,
    },
    /// Yields group expressions ++ aggregates, in the order in which groups first appear.
    Aggregate {
        input: Box<Query>,
        groups: Box<[Expr]>,
        /// By which of the groups rows are grouped each time, the others being NULL; after the
        /// aggregates stands which time it is, from 1. Empty: once, by all of them.
        sets: Box<[Box<[u16]>]>,
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
    /// Of rows that are alike in the columns `by` (none: in all), the first; or see [`Repeats`].
    Distinct {
        input: Box<Query>,
        by: Box<[u16]>,
        repeats: Repeats,
    },
    /// One column more, after the others: `first`, then `step` more with each row.
    Numbered {
        input: Box<Query>,
        first: Expr,
        step: i64,
    },
    /// `UNION ALL`; UNION is `Distinct` above it.
    Append(Box<[Query]>),
    /// Each input row with a value for each call after it, in the order of the last call's window.
    Window {
        input: Box<Query>,
        calls: Box<[WindowCall]>,
    },
    /// WITH RECURSIVE: the rows of `start`, then those of `step` over the rows that came last,
    /// until none come. If not `all`, a row comes once.
    Recursive {
        number: u16,
        all: bool,
        start: Box<Query>,
        step: Box<Query>,
    },
    /// The rows that came last to the recursion of that number, in whose step it stands.
    CameLast {
        number: u16,
        width: u16,
    },
    /// `INTERSECT` and `EXCEPT`: rows of the first, in its order; each once, if not `all`.
    Sets {
        op: SetOp,
        all: bool,
        inputs: Box<[Query; 2]>,
    },
}

impl Query {
    /// The plans right below, in the order in which they are named.
    pub fn inputs(&self) -> impl Iterator<Item = &Query> {
        let (one, other, many): (Option<&Query>, Option<&Query>, &[Query]) = match self {
            Query::Values(_)
            | Query::Call { .. }
            | Query::CameLast { .. }
            | Query::Around { .. }
            | Query::Get { .. }
            | Query::Scan { .. } => (None, None, &[]),
            Query::Filter { input, .. }
            | Query::Project { input, .. }
            | Query::Aggregate { input, .. }
            | Query::Sort { input, .. }
            | Query::Limit { input, .. }
            | Query::Numbered { input, .. }
            | Query::Window { input, .. }
            | Query::Distinct { input, .. } => (Some(input), None, &[]),
            Query::NestedLoop { outer, inner, .. }
            | Query::HashJoin { outer, inner, .. }
            | Query::Apply { outer, inner, .. } => (Some(outer), Some(inner), &[]),
            Query::Recursive { start, step, .. } => (Some(start), Some(step), &[]),
            Query::Append(inputs) | Query::RowsFrom { inputs, .. } => (None, None, inputs),
            Query::Sets { inputs, .. } => (None, None, &**inputs),
        };
        one.into_iter().chain(other).chain(many)
    }

    /// See [`Query::inputs`].
    pub fn inputs_mut(&mut self) -> impl Iterator<Item = &mut Query> {
        let (one, other, many): (Option<&mut Query>, Option<&mut Query>, &mut [Query]) = match self
        {
            Query::Values(_)
            | Query::Call { .. }
            | Query::CameLast { .. }
            | Query::Around { .. }
            | Query::Get { .. }
            | Query::Scan { .. } => (None, None, &mut []),
            Query::Filter { input, .. }
            | Query::Project { input, .. }
            | Query::Aggregate { input, .. }
            | Query::Sort { input, .. }
            | Query::Limit { input, .. }
            | Query::Numbered { input, .. }
            | Query::Window { input, .. }
            | Query::Distinct { input, .. } => (Some(input), None, &mut []),
            Query::NestedLoop { outer, inner, .. }
            | Query::HashJoin { outer, inner, .. }
            | Query::Apply { outer, inner, .. } => (Some(outer), Some(inner), &mut []),
            Query::Recursive { start, step, .. } => (Some(start), Some(step), &mut []),
            Query::Append(inputs) | Query::RowsFrom { inputs, .. } => (None, None, inputs),
            Query::Sets { inputs, .. } => (None, None, &mut **inputs),
        };
        one.into_iter().chain(other).chain(many)
    }

    /// Columns of its rows.
    pub fn width(&self) -> u16 {
        let width = match self {
            Query::Values(rows) => rows.first().map_or(0, |row| row.len()),
            Query::Call { function: RowFunction::Around { width, .. }, .. } => usize::from(*width),
            Query::Call { function: RowFunction::Json(of), .. } => usize::from(of.width()),
            Query::Call { .. } => 1,
            Query::Around { columns, .. } => columns.len(),
            Query::RowsFrom { inputs, numbered } => {
                let widths: usize = inputs.iter().map(|input| usize::from(input.width())).sum();
                widths + usize::from(*numbered)
            }
            Query::Get { columns, .. } | Query::Scan { columns, .. } => columns.len(),
            Query::Project { expressions, .. } => expressions.len(),
            Query::Aggregate { groups, sets, aggregates, .. } => {
                groups.len() + aggregates.len() + usize::from(!sets.is_empty())
            }
            Query::NestedLoop { outer, inner_width, .. }
            | Query::HashJoin { outer, inner_width, .. } => {
                usize::from(outer.width()) + usize::from(*inner_width)
            }
            Query::Apply { outer, yields, .. } => {
                let inner = match yields {
                    Yields::Rows { inner_width, .. } => *inner_width,
                    Yields::Value | Yields::Exists => 1,
                };
                usize::from(outer.width()) + usize::from(inner)
            }
            Query::Sets { inputs, .. } => return inputs[0].width(),
            Query::Recursive { start, .. } => return start.width(),
            Query::CameLast { width, .. } => return *width,
            Query::Window { input, calls } => usize::from(input.width()) + calls.len(),
            Query::Filter { input, .. }
            | Query::Sort { input, .. }
            | Query::Limit { input, .. }
            | Query::Distinct { input, repeats: Repeats::Dropped, .. } => return input.width(),
            Query::Distinct { input, .. } => usize::from(input.width()) + 1,
            Query::Numbered { input, .. } => usize::from(input.width()) + 1,
            Query::Append(inputs) => return inputs.first().map_or(0, Query::width),
        };
        width as u16
    }
}

/// What an [`Apply`](Query::Apply) puts after each outer row.
#[derive(Clone, PartialEq, Debug)]
pub enum Yields {
    /// Each inner row, as a nested loop does.
    Rows { condition: Option<Expr>, left: bool, inner_width: u16 },
    /// The one column of the one row, NULL where there is none; two rows are an error.
    Value,
    /// Whether there is a row.
    Exists,
}

/// A function of the rows around each row.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCall {
    pub function: WindowFunction,
    /// Over the rows of the input, as all expressions here.
    pub arguments: Box<[Expr]>,
    /// Of an aggregate: the rows that count.
    pub filter: Option<Expr>,
    pub partition: Box<[Expr]>,
    pub order: Box<[SortKey]>,
    pub frame: Frame,
    pub result: types::DataType,
}

impl WindowCall {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().map(|key| &key.expr);
        let own = self.arguments.iter().chain(&self.filter).chain(&self.partition);
        own.chain(order).chain(self.frame.exprs())
    }

    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let order = self.order.iter_mut().map(|key| &mut key.expr);
        let own = self.arguments.iter_mut().chain(&mut self.filter).chain(&mut self.partition);
        own.chain(order).chain(self.frame.exprs_mut())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    /// Arguments: how many parts.
    Ntile,
    /// Arguments: a value, how many rows before, what stands for a row that is not there.
    Lag,
    /// The same, how many rows after.
    Lead,
    FirstValue,
    LastValue,
    /// Arguments: a value, which row of the frame.
    NthValue,
    Aggregate(AggregateFunction),
}

/// The rows of its partition that a call looks at.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: FrameBound,
    /// Of [`FrameUnit::Range`] with distances.
    pub limits: Option<Box<Limits>>,
}

/// A frame by values: rows whose value is between that of a row's start and that of its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Limits {
    /// The row's value, in the type in which distances are added to it.
    pub value: Expr,
    /// The first and the last value of the row's frame, where they are at a distance.
    pub start: Option<Expr>,
    pub end: Option<Expr>,
    /// Values fall in the window's order.
    pub descending: bool,
}

impl Frame {
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let limits = self.limits.iter().flat_map(|limits| {
            std::iter::once(&limits.value).chain(&limits.start).chain(&limits.end)
        });
        self.start.distance().into_iter().chain(self.end.distance()).chain(limits)
    }

    fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let limits = self.limits.iter_mut().flat_map(|limits| {
            let Limits { value, start, end, .. } = &mut **limits;
            std::iter::once(value).chain(start).chain(end)
        });
        self.start.distance_mut().into_iter().chain(self.end.distance_mut()).chain(limits)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameUnit {
    Rows,
    /// Rows that are alike in the order go together. Distances are of such groups.
    Groups,
    /// The same, with distances of the value that rows are ordered by.
    Range,
}

#[derive(Clone, PartialEq, Debug)]
pub enum FrameBound {
    First,
    /// A constant of the query, as `Following`.
    Preceding(Expr),
    Current,
    Following(Expr),
    Last,
}

impl FrameBound {
    fn distance(&self) -> Option<&Expr> {
        match self {
            FrameBound::Preceding(distance) | FrameBound::Following(distance) => Some(distance),
            _ => None,
        }
    }

    fn distance_mut(&mut self) -> Option<&mut Expr> {
        match self {
            FrameBound::Preceding(distance) | FrameBound::Following(distance) => Some(distance),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOp {
    Intersect,
    Except,
}

/// What becomes of a row that is like one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeats {
    Dropped,
    /// Kept: one column more says whether a row is like one before it that counts, which are those
    /// where the given column is true, or all. What has a NULL in it is like nothing.
    Marked(Option<u16>),
}

/// A function that gives rows, and what its inputs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowFunction {
    /// `unnest`: an array.
    Elements,
    /// `generate_series`: the first integer, the last, the step.
    Integers,
    /// `generate_series`: the first timestamp and the last, with or without a time zone, and an
    /// interval.
    Moments,
    /// `string_to_table`: a text, what separates its parts (NULL: each character is one, an empty
    /// text: there is one part), and the part that stands for NULL, which may be NULL.
    Parts,
    /// `regexp_matches`: a text, a pattern, flags; the groups of each match.
    Matches,
    /// Parts of JSON.
    Json(JsonRows),
    /// A call that the [surroundings](crate::surroundings) answer, by its number.
    Around { call: u16, width: u16 },
}

#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// `None`: `count(*)`.
    pub input: Option<Expr>,
    /// `string_agg`: what stands before each value but the first.
    pub separator: Option<Expr>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    /// In which order values are taken in, where that matters. Of a distinct aggregate all that it
    /// takes in is part of it, so that values that are alike come after one another.
    pub order: Box<[SortKey]>,
    pub result: types::DataType,
}

impl Aggregate {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().map(|key| &key.expr);
        self.input.iter().chain(&self.separator).chain(&self.filter).chain(order)
    }

    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let order = self.order.iter_mut().map(|key| &mut key.expr);
        self.input.iter_mut().chain(&mut self.separator).chain(&mut self.filter).chain(order)
    }
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
    /// Of texts, or of byte strings.
    StringAgg,
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    BitAnd,
    BitOr,
    BitXor,
}

impl AggregateFunction {
    pub fn keeps_nulls(self) -> bool {
        self == AggregateFunction::ArrayAgg
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct SortKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}
