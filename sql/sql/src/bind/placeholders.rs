//! Placeholder columns in bound expressions, for values that exist only after a later operator of
//! the plan: aggregates, windows, GROUPING, subqueries, calls that return rows.
//!
//! Each kind has a range of column numbers above those of any FROM clause. Once the planner knows
//! where the operator puts its value, the placeholder becomes that column.

use procedure::Expr;

/// Calls of functions that give rows.
pub(super) const FIRST_CALLED: u16 = 0x4000;

/// Values of subqueries that refer to the query around them.
pub(super) const FIRST_APPLIED: u16 = 0x6000;

/// Values of calls with OVER.
pub(super) const FIRST_WINDOW: u16 = 0x7000;

/// What GROUPING() says of a group.
pub(super) const FIRST_GROUPING: u16 = 0x7800;

/// Aggregates.
pub(super) const FIRST_AGGREGATE: u16 = 0x8000;

pub(super) fn is_called(column: u16) -> bool {
    (FIRST_CALLED..FIRST_APPLIED).contains(&column)
}

pub(super) fn is_applied(column: u16) -> bool {
    (FIRST_APPLIED..FIRST_WINDOW).contains(&column)
}

pub(super) fn has_applied(expr: &Expr) -> bool {
    expr.columns().into_iter().any(is_applied)
}

pub(super) fn is_window(column: u16) -> bool {
    (FIRST_WINDOW..FIRST_GROUPING).contains(&column)
}

pub(super) fn is_grouping(column: u16) -> bool {
    (FIRST_GROUPING..FIRST_AGGREGATE).contains(&column)
}
