//! Functions that act on the session or its node rather than compute from data: advisory locks,
//! notifications, settings, other sessions, the clock.
//!
//! Replicas that execute a block could not compute their results again. So they are not part of a
//! program for a block: the session itself calls them, one after the other as they stand in a
//! SELECT without FROM, before the values of the row are computed:
//!
//! ```text
//!   SELECT pg_try_advisory_lock($1) AS locked, 1   ─►  r1 := pg_try_advisory_lock(r0);  (r1, 1)
//! ```
//!
//! *Invariant.* They are accepted only where they are called exactly once per statement: not in a
//! branch of CASE, nor on the right of AND.

use std::ops::ControlFlow;

use procedure::{Column, Expr, Output};
use sqlparser::ast::{self, Spanned, Visitor};
use types::cast::CastContext;
use types::{DataType, Error, Result};

use super::Binder;
use super::binder::Typed;
use super::output_names::output_name;
use super::routine::function_call;
use crate::bind::statement::{Level, Program, SessionCall, SessionFunction, Statement};
use crate::syntax::names::{fold, function_name};
use crate::syntax::walk;

/// What a function takes, by the number of its arguments, and what it gives.
type Signature = (SessionFunction, Vec<DataType>, DataType);

fn signature(name: &str, arguments: usize) -> Option<Signature> {
    use DataType as T;
    use SessionFunction as F;
    if let Some(lock) = advisory(name) {
        let (function, result) = lock;
        let types = match (function, arguments) {
            (F::AdvisoryUnlockAll, 0) => Vec::new(),
            (F::AdvisoryLock { .. } | F::AdvisoryUnlock { .. }, 1) => vec![T::Int8],
            (F::AdvisoryLock { .. } | F::AdvisoryUnlock { .. }, 2) => vec![T::Int4, T::Int4],
            _ => return None,
        };
        return Some((function, types, result));
    }
    Some(match (name, arguments) {
        ("clock_timestamp", 0) => (F::ClockTimestamp, Vec::new(), T::Timestamptz(None)),
        ("statement_timestamp", 0) => (F::StatementTimestamp, Vec::new(), T::Timestamptz(None)),
        ("timeofday", 0) => (F::TimeOfDay, Vec::new(), T::Text),
        ("pg_cancel_backend", 1) => (F::CancelBackend, vec![T::Int4], T::Bool),
        ("pg_terminate_backend", 1) => (F::TerminateBackend, vec![T::Int4], T::Bool),
        ("pg_terminate_backend", 2) => (F::TerminateBackend, vec![T::Int4, T::Int8], T::Bool),
        ("pg_listening_channels", 0) => (F::ListeningChannels, Vec::new(), T::Text),
        ("pg_notify", 2) => (F::Notify, vec![T::Text, T::Text], T::Void),
        ("pg_notification_queue_usage", 0) => (F::NotificationQueueUsage, Vec::new(), T::Float8),
        ("pg_sleep", 1) => (F::Sleep, vec![T::Float8], T::Void),
        ("set_config", 3) => (F::SetConfig, vec![T::Text, T::Text, T::Bool], T::Text),
        _ => return None,
    })
}

fn advisory(name: &str) -> Option<(SessionFunction, DataType)> {
    use SessionFunction as F;
    let (waits, rest) = match name.strip_prefix("pg_try_advisory_") {
        Some(rest) => (false, rest),
        None => (true, name.strip_prefix("pg_advisory_")?),
    };
    let lock = |level, exclusive| {
        let result = if waits { DataType::Void } else { DataType::Bool };
        Some((F::AdvisoryLock { exclusive, level, waits }, result))
    };
    match rest {
        "lock" => lock(Level::Session, true),
        "lock_shared" => lock(Level::Session, false),
        "xact_lock" => lock(Level::Transaction, true),
        "xact_lock_shared" => lock(Level::Transaction, false),
        "unlock" if waits => Some((F::AdvisoryUnlock { exclusive: true }, DataType::Bool)),
        "unlock_shared" if waits => Some((F::AdvisoryUnlock { exclusive: false }, DataType::Bool)),
        "unlock_all" if waits => Some((F::AdvisoryUnlockAll, DataType::Void)),
        _ => None,
    }
}

impl Binder<'_> {
    /// A SELECT without FROM, or from such a function alone, that calls one; `None` for every
    /// other query.
    pub(super) fn session_select(
        &mut self,
        query: &ast::Query,
    ) -> Result<Option<(Statement, Output)>> {
        let Some(items) = lone_items(query) else { return Ok(None) };
        if !items.iter().any(|(_, item)| calls_session(item)) {
            return Ok(None);
        }
        if let Some((_, item)) = items.iter().find(|(_, item)| !calls_once(item)) {
            return Err(self.at(item.span(), elsewhere("A function that acts on the session")));
        }
        self.session_calls = Some(Vec::new());
        let bound = self.session_items(&items);
        let calls = self.session_calls.take().unwrap_or_default();
        let (row, columns) = bound?;
        if !self.steps.is_empty() {
            return Err(Error::unsupported(
                "a subquery beside a function that acts on the session",
            ));
        }
        if calls.iter().any(|call| call.function == SessionFunction::ListeningChannels)
            && (calls.len(), row.len()) != (1, 1)
        {
            return Err(Error::unsupported("pg_listening_channels() beside other values"));
        }
        self.session_dependent = true;
        Ok(Some((Statement::Program(Program::SessionCalls { calls, row }), Output::Rows(columns))))
    }

    fn session_items(&mut self, items: &[(String, ast::Expr)]) -> Result<(Vec<Expr>, Vec<Column>)> {
        let (mut row, mut columns) = (Vec::new(), Vec::new());
        for (name, item) in items {
            let typed = self.bare_expression(item)?;
            let Typed { expr, data_type, .. } = self.resolved(typed)?;
            row.push(expr);
            columns.push(Column { name: name.clone(), data_type });
        }
        Ok((row, columns))
    }

    /// A call of such a function. Where it cannot be called the clock is the block's, and the
    /// others are refused.
    pub(super) fn session_call(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        let Some((function, types, result)) = signature(name, arguments.len()) else {
            return Ok(None);
        };
        if self.session_calls.is_none() {
            return match function {
                SessionFunction::ClockTimestamp | SessionFunction::StatementTimestamp => {
                    Ok(Some(Typed::new(Expr::Now, DataType::Timestamptz(None))))
                }
                _ => Err(elsewhere(&format!("function {name}()"))),
            };
        }
        let mut coerced = Vec::with_capacity(types.len());
        for (argument, to) in arguments.iter().zip(&types) {
            let from = &argument.data_type;
            if !super::supports(from, to) && *from != DataType::Unknown {
                return Ok(None);
            }
            coerced.push(self.coerce(argument.clone(), to, CastContext::Implicit)?);
        }
        let register = self.register()?;
        let calls = self.session_calls.get_or_insert_default();
        calls.push(SessionCall { function, arguments: coerced });
        Ok(Some(Typed::new(Expr::Reg(register), result)))
    }
}

fn elsewhere(what: &str) -> Error {
    Error::unsupported(format_args!("{what} in this place"))
        .with_hint("Call it in a SELECT without FROM, and outside of CASE, AND and OR.")
}

fn is_session_function(name: &ast::ObjectName) -> bool {
    let is_one = |name: String| (0..=3).any(|count| signature(&name, count).is_some());
    function_name(name).is_ok_and(is_one)
}

/// The values of a SELECT that is nothing but its list.
fn lone_items(query: &ast::Query) -> Option<Vec<(String, ast::Expr)>> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let is_bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.locks.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty());
    if !is_bare {
        return None;
    }
    match select.from.as_slice() {
        [] => select.projection.iter().map(listed).collect(),
        [from] if from.joins.is_empty() => {
            let (name, args, alias) = match &from.relation {
                ast::TableFactor::Table { name, args: Some(args), alias, .. } => {
                    (name, &args.args, alias)
                }
                ast::TableFactor::Function { name, args, alias, .. } => (name, args, alias),
                _ => return None,
            };
            let is_all = matches!(select.projection.as_slice(), [ast::SelectItem::Wildcard(_)]);
            if !is_all || !is_session_function(name) {
                return None;
            }
            let call = ast::Expr::Function(function_call(name, args));
            let shown = alias.as_ref().map(|alias| match alias.columns.as_slice() {
                [column] => fold(&column.name),
                _ => fold(&alias.name),
            });
            Some(vec![(shown.unwrap_or_else(|| output_name(&call)), call)])
        }
        _ => None,
    }
}

fn listed(item: &ast::SelectItem) -> Option<(String, ast::Expr)> {
    match item {
        ast::SelectItem::UnnamedExpr(expr) => Some((output_name(expr), expr.clone())),
        ast::SelectItem::ExprWithAlias { expr, alias } => Some((fold(alias), expr.clone())),
        _ => None,
    }
}

fn calls_session(expr: &ast::Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Function(call) if is_session_function(&call.name) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::read(expr, &mut Search).is_break()
}

/// Whether all such calls in an expression are made, whatever its values are, and once.
fn calls_once(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    match expr {
        E::Nested(inner)
        | E::Cast { expr: inner, .. }
        | E::UnaryOp { expr: inner, .. }
        | E::IsNull(inner)
        | E::IsNotNull(inner)
        | E::IsTrue(inner)
        | E::IsNotTrue(inner)
        | E::IsFalse(inner)
        | E::IsNotFalse(inner) => calls_once(inner),
        E::BinaryOp { op: ast::BinaryOperator::And | ast::BinaryOperator::Or, left, right } => {
            calls_once(left) && !calls_session(right)
        }
        E::BinaryOp { left, right, .. } => calls_once(left) && calls_once(right),
        // Its first condition alone is always looked at.
        E::Case { operand: None, conditions, else_result, .. } => {
            let rest = conditions.iter().skip(1).map(|arm| &arm.condition);
            let results = conditions.iter().map(|arm| &arm.result);
            let mut rest = rest.chain(results).chain(else_result.as_deref());
            conditions.first().is_some_and(|arm| calls_once(&arm.condition))
                && !rest.any(calls_session)
        }
        E::Function(call) => match (function_name(&call.name), &call.args) {
            (Ok(name), ast::FunctionArguments::List(list)) => {
                let is_lazy = matches!(name.as_str(), "coalesce" | "nullif");
                list.args.iter().all(|argument| match argument {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) => {
                        if is_lazy {
                            !calls_session(argument)
                        } else {
                            calls_once(argument)
                        }
                    }
                    _ => true,
                })
            }
            _ => true,
        },
        other => !calls_session(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, bind, parse};

    fn bound(sql: &str) -> Result<Statement> {
        let parsed = parse(sql)?.remove(0);
        bind(&Catalog::genesis(), &parsed, &[]).map(|bound| bound.statement)
    }

    #[test]
    fn calls_come_before_the_row_and_in_their_order() {
        for (sql, calls) in [
            ("SELECT pg_advisory_unlock_all()", 1),
            ("SELECT pg_try_advisory_lock(1) AND true, NOT pg_advisory_unlock(1, 2)", 2),
            ("SELECT CASE WHEN pg_try_advisory_xact_lock_shared(7) THEN 'a' ELSE 'b' END", 1),
            ("SELECT * FROM set_config('search_path', '', false) AS x", 1),
            ("SELECT pg_catalog.set_config('a', set_config('b', 'c', true), false)::text", 2),
            ("SELECT clock_timestamp(), pg_sleep(0.5), statement_timestamp(), timeofday()", 4),
        ] {
            match bound(sql).unwrap() {
                Statement::Program(Program::SessionCalls { calls: found, .. }) => {
                    assert_eq!(found.len(), calls)
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_might_not_be_called_is_refused() {
        for sql in [
            "SELECT true OR pg_try_advisory_lock(1)",
            "SELECT CASE WHEN true THEN pg_try_advisory_lock(1) END",
            "SELECT coalesce(set_config('a', 'b', false), 'x')",
            "SELECT pg_notify('a', 'b') WHERE false",
            "SELECT pg_sleep(1) FROM generate_series(1, 2)",
            "SELECT pg_listening_channels(), 1",
        ] {
            assert_eq!(bound(sql).unwrap_err().code().as_str(), "0A000", "{sql}");
        }
        assert_eq!(bound("SELECT pg_sleep('x'::bytea)").unwrap_err().code().as_str(), "42883");
        // Within a statement that a block may run, the clock is the block's.
        let block = bound("SELECT clock_timestamp() FROM generate_series(1, 2)").unwrap();
        assert!(matches!(block, Statement::Program(Program::Procedure(_))));
    }
}
