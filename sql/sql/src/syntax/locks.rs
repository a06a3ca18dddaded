//! Refuses FOR UPDATE and FOR SHARE where a query returns no rows of tables (aggregates, DISTINCT,
//! UNION), as PostgreSQL does.

use sqlparser::ast::{self, LockType};
use types::{Error, Result, SqlState};

/// What its text alone says.
///
/// # Errors
/// 0A000.
pub(crate) fn check_rows(query: &ast::Query, lock: &ast::LockClause) -> Result<()> {
    match &*query.body {
        ast::SetExpr::Select(select) => check_text(select, lock),
        ast::SetExpr::SetOperation { .. } => Err(not_with(lock, "UNION/INTERSECT/EXCEPT")),
        ast::SetExpr::Values(_) => {
            Err(refused(format!("{} cannot be applied to VALUES", shown(lock))))
        }
        _ => Ok(()),
    }
}

/// One whose parts are known: whether it has aggregates, calls with OVER, calls that give rows.
///
/// # Errors
/// 0A000.
pub(crate) fn check_select(
    select: &ast::Select,
    locks: &[ast::LockClause],
    has: [bool; 3],
) -> Result<()> {
    const PARTS: [&str; 3] =
        ["aggregate functions", "window functions", "set-returning functions in the target list"];
    let Some(lock) = locks.first() else { return Ok(()) };
    check_text(select, lock)?;
    match has.iter().zip(PARTS).find(|(has, _)| **has) {
        Some((_, part)) => Err(not_with(lock, part)),
        None => Ok(()),
    }
}

fn check_text(select: &ast::Select, lock: &ast::LockClause) -> Result<()> {
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
    };
    let clause = match (&select.distinct, is_grouped, &select.having) {
        (Some(ast::Distinct::Distinct | ast::Distinct::On(_)), ..) => "DISTINCT clause",
        (_, true, _) => "GROUP BY clause",
        (_, _, Some(_)) => "HAVING clause",
        _ => return Ok(()),
    };
    Err(not_with(lock, clause))
}

fn not_with(lock: &ast::LockClause, what: &str) -> Error {
    refused(format!("{} is not allowed with {what}", shown(lock)))
}

fn refused(what: String) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}

fn shown(lock: &ast::LockClause) -> &'static str {
    match lock.lock_type {
        LockType::Update => "FOR UPDATE",
        LockType::Share => "FOR SHARE",
    }
}
