//! Parts of the binder's state that only some clauses use: aggregates, WITH, checks at the end of a
//! statement. The modules of these clauses explain theirs.

use procedure::query::{Aggregate, WindowCall, Yields};
use procedure::{Column, Expr, Query, Reg, Step};
use sqlparser::ast;
use types::TableId;

use super::collated::Collated;
use super::scope::Scope;

/// A compiled query and its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundQuery {
    pub query: Query,
    pub columns: Vec<Column>,
    /// Of the columns; where it says nothing, the default one.
    pub(super) collated: Vec<Collated>,
}

impl BoundQuery {
    pub fn new(query: Query, columns: Vec<Column>) -> BoundQuery {
        BoundQuery { query, columns, collated: Vec::new() }
    }

    pub(super) fn collation(&self, column: usize) -> Collated {
        self.collated.get(column).cloned().unwrap_or_default()
    }
}

/// The aggregate calls of the select list at hand.
#[derive(Default)]
pub(super) struct Aggregates {
    /// `None` where aggregates may not stand; the text says where that is.
    pub place: Place,
    pub calls: Vec<Aggregate>,
    /// Arguments of calls of GROUPING.
    pub groupings: Vec<Vec<Expr>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    Allowed,
    Inside,
    #[default]
    Elsewhere,
    Where,
    GroupBy,
    JoinCondition,
}

/// What is deferred until everything is read.
#[derive(Default)]
pub(super) struct Late {
    pub(super) changes: Vec<Step>,
    /// The part at hand is named, and its RETURNING wanted.
    pub(super) keeps: bool,
    pub(super) kept: Option<BoundQuery>,
}

/// A query that WITH names.
pub(super) struct CommonTable {
    pub name: String,
    pub bound: BoundQuery,
    /// What another copy of it comes to.
    pub(super) weight: usize,
    /// It is the recursive query whose recursive term is at hand.
    pub(super) is_itself: bool,
}

/// When the rows that point at one get its new key.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Following {
    #[default]
    AtOnce,
    /// When the statement has changed all rows.
    Later,
    /// They are the next level. Parents may be on their way, and are looked for after the last.
    LevelByLevel,
}

/// What a statement does to the tables that its foreign keys lead to.
#[derive(Default)]
pub(super) struct EndChecks {
    /// Rows come to them, or get other keys: what has no parent now may have one in the end.
    pub(super) grows: Vec<TableId>,
    /// Rows go from them, or point elsewhere: what has a child now may have none in the end.
    pub(super) shrinks: Vec<TableId>,
    pub(super) waits: Waits,
    /// What is to be done at the end.
    pub(super) checks: Vec<Step>,
}

/// What of the rows at hand waits for the end, since they are kept.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// The look for their parents.
    pub parents: bool,
    /// The look for children that they leave behind.
    pub children: bool,
}

impl Waits {
    pub const NO: Waits = Waits { parents: false, children: false };

    pub fn all_if(kept: bool) -> Waits {
        Waits { parents: kept, children: kept }
    }
}

/// A query around the one at hand.
pub(super) struct Enclosing {
    pub scope: Scope,
    /// Whether its rows can be had for each of which the one at hand is run.
    pub has_rows: bool,
    /// Registers that hold what of its row the queries within it refer to.
    pub given: Vec<(Reg, Expr)>,
}

/// A subquery that is run for each row of the query around it.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub query: Query,
    /// Of the row around it.
    pub given: Vec<(Reg, Expr)>,
    /// Where this is not true its value is not looked at.
    pub guard: Option<Expr>,
    pub gives: Gives,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gives {
    Rows,
    Value,
    Exists,
}

impl Applied {
    /// Columns of the row around it.
    pub fn needs(&self) -> Vec<u16> {
        let given = self.given.iter().map(|(_, value)| value);
        given.chain(&self.guard).flat_map(Expr::columns).collect()
    }

    pub fn each_expr_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.given.iter_mut().for_each(|(_, value)| visit(value));
        self.guard.iter_mut().for_each(visit);
    }

    /// Run for each row of `outer`, whose columns its expressions read.
    pub fn over(self, outer: Query) -> Query {
        let yields = match self.gives {
            Gives::Rows => {
                let inner_width = self.query.width();
                Yields::Rows { condition: None, left: false, inner_width }
            }
            Gives::Value => Yields::Value,
            Gives::Exists => Yields::Exists,
        };
        Query::Apply {
            outer: Box::new(outer),
            inner: Box::new(self.query),
            given: self.given.into(),
            guard: self.guard,
            yields,
        }
    }
}

/// The subqueries of the query at hand that are run for each of its rows.
#[derive(Default)]
pub(super) struct Applications {
    /// With their placeholders.
    pub list: Vec<(u16, Applied, Place)>,
    pub made: u16,
}

/// The windows of the select list at hand.
#[derive(Default)]
pub(super) struct Windows {
    pub calls: Vec<WindowCall>,
    /// What WINDOW names.
    pub named: Vec<(String, ast::WindowSpec)>,
}
