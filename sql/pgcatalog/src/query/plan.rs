//! What a bound query is.
//!
//! A row of a SELECT is as wide as all that its FROM has, and then has a place for each aggregate,
//! window function and set-returning call of it, in the order in which the binder met them:
//!
//! ```text
//! │ FROM item 1 │ FROM item 2 │ … │ aggregate, window, set … │
//! ```
//!
//! So whatever an expression needs is a column of some row: its own query's (level 0), or the one
//! that an enclosing query is at (level 1, 2, …).

use types::{ColumnId, DataType, TableId, Value};

use super::signature::{Function, SetFunction};

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    /// Of a composite value.
    pub fields: &'static [(&'static str, DataType)],
}

impl Column {
    pub fn new(name: impl Into<String>, data_type: DataType) -> Column {
        Column { name: name.into(), data_type, fields: &[] }
    }
}

#[derive(Clone, Debug)]
pub struct Query {
    pub columns: Vec<Column>,
    pub ctes: Vec<Cte>,
    pub body: Body,
    /// Outputs, hidden ones among them.
    pub order: Vec<Order>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
}

/// A common table expression; `number` is the statement's.
#[derive(Clone, Debug)]
pub struct Cte {
    pub number: usize,
    pub query: Query,
    /// What is repeated until it adds nothing, and whether rows that are there already count.
    pub recursion: Option<(Query, bool)>,
}

#[derive(Clone, Debug)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set { op: SetOp, all: bool, left: Box<Query>, right: Box<Query> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub struct Select {
    /// Of a row, everything included.
    pub width: usize,
    pub source: Source,
    pub grouping: Option<Grouping>,
    pub windows: Vec<Window>,
    pub sets: Vec<SetCall>,
    /// The query's columns, then what is only sorted by or compared by DISTINCT ON.
    pub outputs: Vec<Expr>,
    pub distinct: Distinct,
}

#[derive(Clone, Debug)]
pub enum Distinct {
    All,
    Rows,
    /// By these outputs.
    On(Vec<usize>),
}

/// Grouped columns are not tracked: a group's expressions see its first row, which is what they
/// mean wherever PostgreSQL lets them through.
#[derive(Clone, Debug)]
pub struct Grouping {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Aggregate {
    pub place: usize,
    pub kind: AggregateKind,
    pub arguments: Vec<Expr>,
    pub types: Vec<DataType>,
    pub distinct: bool,
    pub filter: Option<Expr>,
    pub order: Vec<(Expr, Direction)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateKind {
    Count,
    Min,
    Max,
    Sum,
    Avg,
    And,
    Or,
    Strings,
    Array,
    Json,
}

#[derive(Clone, Debug)]
pub struct Window {
    pub place: usize,
    pub kind: WindowKind,
    pub partition: Vec<Expr>,
    pub order: Vec<(Expr, Direction)>,
}

#[derive(Clone, Debug)]
pub enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    /// Over the whole partition.
    Aggregate(Aggregate),
}

/// A set-returning call in a select list: a row for each of its values.
#[derive(Clone, Debug)]
pub struct SetCall {
    pub place: usize,
    pub function: &'static SetFunction,
    pub arguments: Vec<Expr>,
    pub types: Vec<DataType>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direction {
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct Order {
    pub output: usize,
    pub direction: Direction,
}

#[derive(Clone, Debug)]
pub enum Source {
    Leaf(Leaf),
    /// Inner joins; of nothing, one row without columns.
    Product {
        items: Vec<Source>,
        on: Vec<Expr>,
    },
    Outer {
        left: Box<Source>,
        right: Box<Source>,
        on: Vec<Expr>,
        keep_left: bool,
        keep_right: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its columns are `offset..offset + width` of the row.
    pub offset: usize,
    pub width: usize,
    /// Where the row says that one of its rows is there, if the query asks.
    pub presence: Option<usize>,
    pub kind: LeafKind,
}

#[derive(Clone, Debug)]
pub enum LeafKind {
    /// By place in [`relation::all`](crate::relation::all).
    Relation(usize),
    /// A user's, with these columns.
    Table {
        id: TableId,
        columns: Vec<ColumnId>,
        types: Vec<DataType>,
    },
    Query(Box<Query>),
    Cte(usize),
    Function {
        calls: Vec<SetCall>,
        ordinality: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Expr {
    Value(Value),
    Column {
        level: usize,
        place: usize,
    },
    Parameter(usize),
    /// An operand that is computed once and looked at several times: `Given(number)` in `body`.
    Once {
        number: usize,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    Given(usize),
    Cast {
        input: Box<Expr>,
        from: DataType,
        to: DataType,
    },
    Call {
        function: &'static Function,
        arguments: Vec<Expr>,
        types: Vec<DataType>,
    },
    /// A call as the fast path has it; the arguments are its row.
    Fast {
        call: Box<procedure::Expr>,
        arguments: Vec<Expr>,
    },
    Arithmetic {
        op: types::arithmetic::ArithmeticOp,
        sides: Box<[Expr; 2]>,
        result: DataType,
    },
    Concat(Box<[Expr; 2]>),
    Compare {
        op: CompareOp,
        sides: Box<[Expr; 2]>,
    },
    /// Rows that are spelled out, by their fields.
    CompareRows {
        op: CompareOp,
        sides: Box<[Expr; 2]>,
    },
    /// Text against a pattern.
    Match {
        kind: MatchKind,
        negated: bool,
        sides: Box<[Expr; 2]>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        input: Box<Expr>,
        negated: bool,
    },
    /// All fields are NULL; negated, none is.
    IsRowNull {
        input: Box<Expr>,
        negated: bool,
    },
    IsTruth {
        input: Box<Expr>,
        truth: Option<bool>,
        negated: bool,
    },
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    /// `input op ANY (array)`, or ALL.
    Quantified {
        op: Quantifier,
        all: bool,
        input: Box<Expr>,
        array: Box<Expr>,
    },
    Array(Vec<Expr>),
    /// A table's row; NULL where an outer join found none.
    WholeRow {
        present: Box<Expr>,
        fields: Vec<Expr>,
    },
    /// `origin` is the first element's number.
    Element {
        array: Box<Expr>,
        index: Box<Expr>,
        origin: i64,
    },
    /// Of a composite value.
    Field {
        input: Box<Expr>,
        place: usize,
    },
    Subquery {
        kind: SubqueryKind,
        query: Box<Query>,
        cached: Option<usize>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatchKind {
    Like { any_case: bool },
    Regex { any_case: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantifier {
    Compare(CompareOp),
    Rows(CompareOp),
    Match { kind: MatchKind, negated: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubqueryKind {
    Scalar,
    Exists,
    /// All values of its one column; rows of several columns are arrays.
    Array,
}

impl Expr {
    pub fn null() -> Expr {
        Expr::Value(Value::Null)
    }

    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Value(_)
            | Expr::Column { .. }
            | Expr::Parameter(_)
            | Expr::Given(_)
            | Expr::Subquery { .. } => Vec::new(),
            Expr::Once { value, body, .. } => vec![value, body],
            Expr::Cast { input, .. }
            | Expr::Not(input)
            | Expr::IsNull { input, .. }
            | Expr::IsRowNull { input, .. }
            | Expr::IsTruth { input, .. }
            | Expr::Field { input, .. } => vec![input],
            Expr::Call { arguments: list, .. }
            | Expr::Fast { arguments: list, .. }
            | Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Array(list) => list.iter().collect(),
            Expr::Arithmetic { sides, .. }
            | Expr::Concat(sides)
            | Expr::Compare { sides, .. }
            | Expr::CompareRows { sides, .. }
            | Expr::Match { sides, .. } => sides.iter().collect(),
            Expr::Case { whens, otherwise } => {
                let mut children: Vec<&Expr> = whens.iter().flat_map(|(w, t)| [w, t]).collect();
                children.push(otherwise);
                children
            }
            Expr::Quantified { input, array, .. } => vec![input, array],
            Expr::Element { array, index, .. } => vec![array, index],
            Expr::WholeRow { present, fields } => {
                std::iter::once(&**present).chain(fields).collect()
            }
        }
    }

    /// Calls `visit` with each column of the row that is `level` queries further out.
    pub fn columns(&self, level: usize, visit: &mut dyn FnMut(usize)) {
        match self {
            Expr::Column { level: of, place } if *of == level => visit(*place),
            Expr::Subquery { query, .. } => query.columns(level + 1, visit),
            _ => self.children().into_iter().for_each(|child| child.columns(level, visit)),
        }
    }
}

impl Query {
    pub fn columns(&self, level: usize, visit: &mut dyn FnMut(usize)) {
        for cte in &self.ctes {
            cte.query.columns(level, visit);
            if let Some((step, _)) = &cte.recursion {
                step.columns(level, visit);
            }
        }
        match &self.body {
            Body::Select(select) => select.columns(level, visit),
            Body::Values(rows) => {
                rows.iter().flatten().for_each(|expr| expr.columns(level, visit));
            }
            Body::Set { left, right, .. } => {
                left.columns(level, visit);
                right.columns(level, visit);
            }
        }
        let ends = self.limit.iter().chain(&self.offset);
        ends.for_each(|expr| expr.columns(level, visit));
    }
}

impl Aggregate {
    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().map(|(expr, _)| expr);
        self.arguments.iter().chain(&self.filter).chain(order)
    }
}

impl Select {
    fn columns(&self, level: usize, visit: &mut dyn FnMut(usize)) {
        self.source.columns(level, visit);
        let mut exprs: Vec<&Expr> = self.outputs.iter().collect();
        if let Some(grouping) = &self.grouping {
            exprs.extend(grouping.keys.iter().chain(&grouping.having));
            exprs.extend(grouping.aggregates.iter().flat_map(Aggregate::exprs));
        }
        for window in &self.windows {
            exprs.extend(window.partition.iter().chain(window.order.iter().map(|(e, _)| e)));
            if let WindowKind::Aggregate(aggregate) = &window.kind {
                exprs.extend(aggregate.exprs());
            }
        }
        exprs.extend(self.sets.iter().flat_map(|set| &set.arguments));
        exprs.into_iter().for_each(|expr| expr.columns(level, visit));
    }
}

impl Source {
    /// Columns that its parts use, of the same row (level 0) or of rows further out.
    pub fn columns(&self, level: usize, visit: &mut dyn FnMut(usize)) {
        match self {
            Source::Leaf(leaf) => match &leaf.kind {
                LeafKind::Relation(_) | LeafKind::Table { .. } | LeafKind::Cte(_) => {}
                // Seen from inside, the row that the leaf is part of is one level out.
                LeafKind::Query(query) => query.columns(level + 1, visit),
                LeafKind::Function { calls, .. } => {
                    let arguments = calls.iter().flat_map(|call| &call.arguments);
                    arguments.for_each(|expr| expr.columns(level, visit));
                }
            },
            Source::Product { items, on } => {
                items.iter().for_each(|item| item.columns(level, visit));
                on.iter().for_each(|expr| expr.columns(level, visit));
            }
            Source::Outer { left, right, on, .. } => {
                left.columns(level, visit);
                right.columns(level, visit);
                on.iter().for_each(|expr| expr.columns(level, visit));
            }
        }
    }

    /// What stands behind a table's columns, by the place of the first of them.
    pub fn mark(&mut self, presence: &[(usize, usize)]) {
        match self {
            Source::Leaf(leaf) => {
                let found = presence.iter().find(|(offset, _)| *offset == leaf.offset);
                leaf.presence = found.map(|(_, place)| *place);
            }
            Source::Product { items, .. } => items.iter_mut().for_each(|i| i.mark(presence)),
            Source::Outer { left, right, .. } => {
                left.mark(presence);
                right.mark(presence);
            }
        }
    }

    /// Whether this part of the row is filled by it.
    pub fn has(&self, place: usize) -> bool {
        match self {
            Source::Leaf(leaf) => {
                (leaf.offset..leaf.offset + leaf.width).contains(&place)
                    || leaf.presence == Some(place)
            }
            Source::Product { items, .. } => items.iter().any(|item| item.has(place)),
            Source::Outer { left, right, .. } => left.has(place) || right.has(place),
        }
    }
}

/// The conditions whose conjunction it is.
pub fn split(condition: Expr, into: &mut Vec<Expr>) {
    match condition {
        Expr::And(list) => list.into_iter().for_each(|part| split(part, into)),
        other => into.push(other),
    }
}
