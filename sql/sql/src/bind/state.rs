//! What the binder keeps of the statement at hand. The modules that fill and read each part say
//! more of it: aggregates, with, settle.

use procedure::query::Aggregate;
use procedure::{Column, Query, Step};
use types::TableId;

/// A compiled query and its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundQuery {
    pub query: Query,
    pub columns: Vec<Column>,
}

/// The aggregate calls of the select list at hand.
#[derive(Default)]
pub(super) struct Aggregates {
    /// `None` where aggregates may not stand; the text says where that is.
    pub place: Place,
    pub calls: Vec<Aggregate>,
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
}

/// When the rows that point at one get its new key.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Following {
    #[default]
    AtOnce,
    /// When the statement has changed all rows.
    Later,
    /// They are the next level. Parents may be on their way, and are looked for behind the last.
    LevelByLevel,
}

/// What a statement does to the tables that its foreign keys lead to.
#[derive(Default)]
pub(super) struct Settling {
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
