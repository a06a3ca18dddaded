//! Walks over expressions, queries and steps: what is used, what is written, what lies inside.

use std::ops::Bound;

use types::TableId;

use crate::expr::{Expr, Reg};
use crate::query::{Aggregate, Query, WindowCall, Yields};
use crate::step::{Block, Carried, OnError, Phi, Step};

/// Registers that an expression reads, in order of appearance, with repetitions.
pub fn each_register(expr: &Expr, visit: &mut dyn FnMut(Reg)) {
    expr.walk(&mut |expr| {
        if let Expr::Reg(register) = expr {
            visit(*register);
        }
    });
}

/// Whether an expression reads the row at hand.
pub fn reads_row(expr: &Expr) -> bool {
    expr.any(&mut |expr| matches!(expr, Expr::Column(_)))
}

/// Call `visit` with `query` and the queries below it.
pub fn each_query<'q>(query: &'q Query, visit: &mut dyn FnMut(&'q Query)) {
    visit(query);
    query.inputs().for_each(|input| each_query(input, visit));
}

/// The expressions of one operator of a query, those of its inputs excluded.
pub fn each_query_expr<'q>(query: &'q Query, visit: &mut dyn FnMut(&'q Expr)) {
    match query {
        Query::Values(rows) => rows.iter().flatten().for_each(visit),
        Query::Call { inputs, .. } => inputs.iter().for_each(visit),
        Query::Get { key, filter, .. } => key.iter().chain(filter).for_each(visit),
        Query::Scan { low, high, filter, .. } => {
            bound_exprs(low).iter().for_each(&mut *visit);
            bound_exprs(high).iter().for_each(&mut *visit);
            filter.iter().for_each(visit);
        }
        Query::Around { key, filter, .. } => {
            key.iter().for_each(|(_, key)| visit(key));
            filter.iter().for_each(visit);
        }
        Query::Filter { condition, .. } => visit(condition),
        Query::Project { expressions, .. } => expressions.iter().for_each(visit),
        Query::NestedLoop { condition, .. } => condition.iter().for_each(visit),
        Query::HashJoin { outer_keys, inner_keys, condition, .. } => {
            let keys = outer_keys.iter().chain(inner_keys);
            keys.chain(condition).for_each(visit);
        }
        Query::Apply { given, guard, yields, .. } => {
            given.iter().for_each(|(_, value)| visit(value));
            guard.iter().for_each(&mut *visit);
            if let Yields::Rows { condition, .. } = yields {
                condition.iter().for_each(visit);
            }
        }
        Query::Aggregate { groups, aggregates, .. } => {
            groups.iter().for_each(&mut *visit);
            aggregates.iter().flat_map(Aggregate::exprs).for_each(visit);
        }
        Query::Sort { keys, .. } => keys.iter().for_each(|key| visit(&key.expr)),
        Query::Limit { limit, offset, .. } => limit.iter().chain(offset).for_each(visit),
        Query::Numbered { first, .. } => visit(first),
        Query::Window { calls, .. } => calls.iter().flat_map(WindowCall::exprs).for_each(visit),
        Query::Distinct { .. }
        | Query::Append(_)
        | Query::Sets { .. }
        | Query::Recursive { .. }
        | Query::CameLast { .. }
        | Query::RowsFrom { .. } => {}
    }
}

/// The registers in which subqueries of a step's query are given values, for each outer row anew:
/// no step writes them, and none sees them.
pub fn each_given(step: &Step, visit: &mut dyn FnMut(Reg)) {
    let (Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. }) =
        step
    else {
        return;
    };
    each_query(query, &mut |query| {
        if let Query::Apply { given, .. } = query {
            given.iter().for_each(|(register, _)| visit(*register));
        }
    });
}

/// The expressions of a bound, none where there is none.
pub fn bound_exprs(bound: &Bound<Box<[Expr]>>) -> &[Expr] {
    match bound {
        Bound::Included(exprs) | Bound::Excluded(exprs) => exprs,
        Bound::Unbounded => &[],
    }
}

/// What a loop carries; nothing, where there is no loop.
pub fn carried(step: &Step) -> &[Carried] {
    match step {
        Step::ForRows { carried, .. }
        | Step::ForRange { carried, .. }
        | Step::ForEach { carried, .. }
        | Step::While { carried, .. } => carried,
        _ => &[],
    }
}

/// The expressions of a step, those of phis and of what a loop carries excepted.
pub fn each_own_expr<'s>(step: &'s Step, visit: &mut dyn FnMut(&'s Expr)) {
    match step {
        Step::ForRows { query, .. } => query_uses(query, &mut |_, expr| visit(expr)),
        Step::ForRange { first, last, step, .. } => [first, last, step].into_iter().for_each(visit),
        Step::ForEach { array, .. } => visit(array),
        Step::While { condition, .. } | Step::If { condition, .. } => visit(condition),
        step => each_step_expr(step, &mut |_, expr| visit(expr)),
    }
}

/// How a step uses an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It says which rows are touched.
    Key,
    /// It is computed with, written or shown.
    Value,
    /// It decides which way control goes, or how often.
    Control,
}

/// The expressions of a step itself, those of the blocks inside it excluded.
pub fn each_step_expr<'s>(step: &'s Step, visit: &mut dyn FnMut(Use, &'s Expr)) {
    let mut all = |how, exprs: &'s [Expr]| exprs.iter().for_each(|expr| visit(how, expr));
    match step {
        Step::Let { value, .. } => all(Use::Value, std::slice::from_ref(value)),
        Step::Read { key, .. } | Step::Exists { key, .. } | Step::Delete { key, .. } => {
            all(Use::Key, key);
        }
        Step::Update { key, inputs, .. } => {
            all(Use::Key, key);
            all(Use::Value, inputs);
        }
        Step::Insert { key: columns, values, .. } => {
            for (column, value) in values.iter().enumerate() {
                let is_key = columns.iter().any(|key| usize::from(*key) == column);
                visit(if is_key { Use::Key } else { Use::Value }, value);
            }
        }
        Step::Fetch { query, .. } | Step::EmitQuery { query } => query_uses(query, visit),
        Step::ForRows { query, carried, .. } => {
            query_uses(query, visit);
            carried_uses(carried, visit);
        }
        Step::ForRange { first, last, step, carried, .. } => {
            [first, last, step].into_iter().for_each(|expr| visit(Use::Control, expr));
            carried_uses(carried, visit);
        }
        Step::ForEach { array, carried, .. } => {
            visit(Use::Control, array);
            carried_uses(carried, visit);
        }
        Step::While { condition, carried, .. } => {
            visit(Use::Control, condition);
            carried_uses(carried, visit);
        }
        Step::If { condition, phis, .. } => {
            visit(Use::Control, condition);
            for Phi { then, otherwise, .. } in phis {
                visit(Use::Value, then);
                visit(Use::Value, otherwise);
            }
        }
        Step::Require { condition, error } => {
            visit(Use::Control, condition);
            error_uses(error, visit);
        }
        Step::Raise { error } | Step::Notice { notice: error, .. } => error_uses(error, visit),
        Step::Emit { values } | Step::Exit { values, .. } | Step::Continue { values, .. } => {
            all(Use::Value, values);
        }
        Step::CountRows { by } => visit(Use::Value, by),
        Step::Return => {}
    }
}

fn query_uses<'s>(query: &'s Query, visit: &mut dyn FnMut(Use, &'s Expr)) {
    each_query(query, &mut |query| {
        let (mut keys, is_access) = (0, matches!(query, Query::Get { .. } | Query::Scan { .. }));
        let filters = match query {
            Query::Get { filter, .. } | Query::Scan { filter, .. } => usize::from(filter.is_some()),
            _ => 0,
        };
        each_query_expr(query, &mut |_| keys += 1);
        let keys = if is_access { keys - filters } else { 0 };
        let mut place = 0;
        each_query_expr(query, &mut |expr| {
            let how = if place < keys { Use::Key } else { Use::Value };
            place += 1;
            visit(how, expr);
        });
    });
}

fn carried_uses<'s>(carried: &'s [Carried], visit: &mut dyn FnMut(Use, &'s Expr)) {
    for Carried { initial, next, .. } in carried {
        visit(Use::Value, initial);
        visit(Use::Value, next);
    }
}

fn error_uses<'s>(error: &'s OnError, visit: &mut dyn FnMut(Use, &'s Expr)) {
    let options = [&error.code, &error.detail, &error.hint];
    let exprs = error.arguments.iter().chain(options.into_iter().flatten());
    exprs.for_each(|expr| visit(Use::Value, expr));
}

/// Registers that a step itself writes.
pub fn each_output(step: &Step, visit: &mut dyn FnMut(Reg)) {
    match step {
        Step::Let { out, .. } => visit(*out),
        Step::Read { columns, out, found, .. } => {
            (0..columns.len() as u16).for_each(|i| visit(Reg(out.0 + i)));
            visit(*found);
        }
        Step::Exists { found, .. } | Step::Update { found, .. } | Step::Delete { found, .. } => {
            visit(*found);
        }
        Step::Insert { inserted, .. } => visit(*inserted),
        Step::Fetch { outputs, found, .. } => {
            outputs.iter().copied().for_each(&mut *visit);
            visit(*found);
        }
        Step::ForRows { row, carried, .. } => {
            row.iter().copied().for_each(&mut *visit);
            carried.iter().for_each(|c| visit(c.register));
        }
        Step::ForRange { register, carried, .. } | Step::ForEach { register, carried, .. } => {
            visit(*register);
            carried.iter().for_each(|c| visit(c.register));
        }
        Step::While { carried, .. } => carried.iter().for_each(|c| visit(c.register)),
        Step::If { phis, .. } => phis.iter().for_each(|phi| visit(phi.out)),
        Step::Require { .. }
        | Step::Raise { .. }
        | Step::Notice { .. }
        | Step::Emit { .. }
        | Step::EmitQuery { .. }
        | Step::CountRows { .. }
        | Step::Exit { .. }
        | Step::Continue { .. }
        | Step::Return => {}
    }
}

/// The blocks inside a step: none, a loop's body, or the two ways of an `If`.
pub fn blocks(step: &Step) -> [Option<&Block>; 2] {
    match step {
        Step::ForRows { body, .. }
        | Step::ForRange { body, .. }
        | Step::ForEach { body, .. }
        | Step::While { body, .. } => [Some(body), None],
        Step::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
        _ => [None, None],
    }
}

pub fn is_loop(step: &Step) -> bool {
    matches!(
        step,
        Step::ForRows { .. } | Step::ForRange { .. } | Step::ForEach { .. } | Step::While { .. }
    )
}

/// A branch or a loop.
pub fn is_structured(step: &Step) -> bool {
    is_loop(step) || matches!(step, Step::If { .. })
}

/// All steps in the order of their numbers: a step comes before those inside it.
pub fn numbered(body: &Block) -> Vec<&Step> {
    fn collect<'s>(block: &'s Block, steps: &mut Vec<&'s Step>) {
        for step in block {
            steps.push(step);
            for block in blocks(step).into_iter().flatten() {
                collect(block, steps);
            }
        }
    }
    let mut steps = Vec::new();
    collect(body, &mut steps);
    steps
}

/// The row that a step touches, if it is one that touches a single row by its key.
pub fn row_access(step: &Step) -> Option<(TableId, Vec<&Expr>)> {
    match step {
        Step::Read { table, key, .. }
        | Step::Exists { table, key, .. }
        | Step::Update { table, key, .. }
        | Step::Delete { table, key, .. } => Some((*table, key.iter().collect())),
        Step::Insert { table, key, hidden_row_id: false, values, .. } => {
            let key = key.iter().filter_map(|column| values.get(usize::from(*column)));
            Some((*table, key.collect()))
        }
        _ => None,
    }
}

/// What a step on one row fills, whatever names that row: the register for whether it was there (of
/// an insert: whether it was added), and the first one of those for so many columns.
pub fn row_outputs(step: &Step) -> Option<(Reg, Reg, u16)> {
    match step {
        Step::Read { columns, out, found, .. } => Some((*found, *out, columns.len() as u16)),
        Step::Exists { found, .. }
        | Step::Update { found, .. }
        | Step::Delete { found, .. }
        | Step::Insert { inserted: found, .. } => Some((*found, *found, 0)),
        _ => None,
    }
}

/// Whether it reads or writes rows of tables, or a step inside it does.
pub fn touches_rows(step: &Step) -> bool {
    let mut queried = false;
    if let Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. } =
        step
    {
        each_query(query, &mut |query| {
            queried |= matches!(query, Query::Get { .. } | Query::Scan { .. });
        });
    }
    let mut inner = blocks(step).into_iter().flatten();
    queried || row_outputs(step).is_some() || inner.any(|block| block.iter().any(touches_rows))
}
