//! Mutable walks over steps and queries: moving registers to make room for new ones, and replacing
//! expressions.

use std::ops::Bound;

use types::{Error, Result, SqlState};

use crate::expr::{Expr, Reg};
use crate::query::{Query, WindowCall, Yields};
use crate::step::{Block, Carried, OnError, Procedure, Step};

pub(super) fn too_many() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the program needs too many registers")
}

/// Registers from `first` on move up by `count`.
pub(super) fn make_room(procedure: &mut Procedure, first: u16, count: u16) -> Result<()> {
    procedure.registers = procedure.registers.checked_add(count).ok_or_else(too_many)?;
    let moved = |register: &mut Reg| {
        if register.0 >= first {
            register.0 += count;
        }
    };
    procedure.register_names.iter_mut().for_each(|(register, _)| moved(register));
    move_block(&mut procedure.body, &moved);
    Ok(())
}

fn move_block(block: &mut Block, moved: &impl Fn(&mut Reg)) {
    for step in block {
        each_step_expr_mut(step, &mut |expr| {
            expr.rewrite(&mut |expr| match expr {
                Expr::Reg(register) => {
                    moved(register);
                    true
                }
                _ => false,
            });
        });
        each_output_mut(step, moved);
        if let Some(carried) = carried_mut(step) {
            carried.iter_mut().for_each(|one| moved(&mut one.register));
        }
        match step {
            Step::If { then, otherwise, .. } => {
                move_block(then, moved);
                move_block(otherwise, moved);
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => move_block(body, moved),
            _ => {}
        }
    }
}

pub(super) fn carried_mut(step: &mut Step) -> Option<&mut Box<[Carried]>> {
    match step {
        Step::ForRows { carried, .. }
        | Step::ForRange { carried, .. }
        | Step::ForEach { carried, .. }
        | Step::While { carried, .. } => Some(carried),
        _ => None,
    }
}

/// What a step writes, but what a loop carries.
fn each_output_mut(step: &mut Step, visit: &impl Fn(&mut Reg)) {
    match step {
        Step::Let { out, .. } => visit(out),
        Step::Read { out, found, .. } => {
            visit(out);
            visit(found);
        }
        Step::Exists { found, .. } | Step::Update { found, .. } | Step::Delete { found, .. } => {
            visit(found);
        }
        Step::Insert { inserted, .. } => visit(inserted),
        Step::Fetch { query, outputs, found, .. } => {
            each_given_mut(query, visit);
            outputs.iter_mut().for_each(visit);
            visit(found);
        }
        Step::EmitQuery { query } => each_given_mut(query, visit),
        Step::ForRows { query, row, .. } => {
            each_given_mut(query, visit);
            row.iter_mut().for_each(visit);
        }
        Step::ForRange { register, .. } | Step::ForEach { register, .. } => visit(register),
        Step::If { phis, .. } => phis.iter_mut().for_each(|phi| visit(&mut phi.out)),
        _ => {}
    }
}

/// The registers of a query's own, which only it sees.
fn each_given_mut(query: &mut Query, visit: &impl Fn(&mut Reg)) {
    if let Query::Apply { given, .. } = query {
        given.iter_mut().for_each(|(register, _)| visit(register));
    }
    query.inputs_mut().for_each(|input| each_given_mut(input, visit));
}

/// The expressions of a step, as [`each_step_expr`](crate::analysis::visit::each_step_expr) has
/// them.
pub(super) fn each_step_expr_mut<'s>(step: &'s mut Step, visit: &mut dyn FnMut(&'s mut Expr)) {
    match step {
        Step::Let { value, .. } => visit(value),
        Step::Read { key, .. } | Step::Exists { key, .. } | Step::Delete { key, .. } => {
            key.iter_mut().for_each(visit);
        }
        Step::Update { key, inputs, .. } => key.iter_mut().chain(inputs).for_each(visit),
        Step::Insert { values, .. } => values.iter_mut().for_each(visit),
        Step::Fetch { query, .. } | Step::EmitQuery { query } => all_of_query(query, visit),
        Step::ForRows { query, carried, .. } => {
            all_of_query(query, visit);
            all_carried(carried, visit);
        }
        Step::ForRange { first, last, step, carried, .. } => {
            [first, last, step].into_iter().for_each(&mut *visit);
            all_carried(carried, visit);
        }
        Step::ForEach { array: expr, carried, .. }
        | Step::While { condition: expr, carried, .. } => {
            visit(expr);
            all_carried(carried, visit);
        }
        Step::If { condition, phis, .. } => {
            visit(condition);
            for phi in phis {
                visit(&mut phi.then);
                visit(&mut phi.otherwise);
            }
        }
        Step::Require { condition, error } => {
            visit(condition);
            all_of_error(error, visit);
        }
        Step::Raise { error } | Step::Notice { notice: error, .. } => all_of_error(error, visit),
        Step::Emit { values } | Step::Exit { values, .. } | Step::Continue { values, .. } => {
            values.iter_mut().for_each(visit);
        }
        Step::CountRows { by } => visit(by),
        Step::Return => {}
    }
}

fn all_carried<'s>(carried: &'s mut [Carried], visit: &mut dyn FnMut(&'s mut Expr)) {
    for one in carried {
        visit(&mut one.initial);
        visit(&mut one.next);
    }
}

fn all_of_error<'s>(error: &'s mut OnError, visit: &mut dyn FnMut(&'s mut Expr)) {
    let options = [&mut error.code, &mut error.detail, &mut error.hint];
    error.arguments.iter_mut().chain(options.into_iter().flatten()).for_each(visit);
}

fn all_of_query<'q>(query: &'q mut Query, visit: &mut dyn FnMut(&'q mut Expr)) {
    // An operator's own expressions and its inputs are borrowed apart.
    match query {
        Query::Filter { input, condition } => {
            visit(condition);
            all_of_query(input, visit);
        }
        Query::Project { input, expressions } => {
            expressions.iter_mut().for_each(&mut *visit);
            all_of_query(input, visit);
        }
        Query::Aggregate { input, groups, aggregates, .. } => {
            groups.iter_mut().for_each(&mut *visit);
            for aggregate in aggregates {
                aggregate.exprs_mut().for_each(&mut *visit);
            }
            all_of_query(input, visit);
        }
        Query::Sort { input, keys } => {
            keys.iter_mut().for_each(|key| visit(&mut key.expr));
            all_of_query(input, visit);
        }
        Query::Limit { input, limit, offset } => {
            limit.iter_mut().chain(offset).for_each(&mut *visit);
            all_of_query(input, visit);
        }
        Query::Numbered { input, first, .. } => {
            visit(first);
            all_of_query(input, visit);
        }
        Query::Distinct { input, .. } => all_of_query(input, visit),
        Query::Window { input, calls } => {
            calls.iter_mut().flat_map(WindowCall::exprs_mut).for_each(&mut *visit);
            all_of_query(input, visit);
        }
        Query::NestedLoop { outer, inner, condition, .. } => {
            condition.iter_mut().for_each(&mut *visit);
            all_of_query(outer, visit);
            all_of_query(inner, visit);
        }
        Query::HashJoin { outer, inner, outer_keys, inner_keys, condition, .. } => {
            let keys = outer_keys.iter_mut().chain(inner_keys);
            keys.chain(condition).for_each(&mut *visit);
            all_of_query(outer, visit);
            all_of_query(inner, visit);
        }
        Query::Apply { outer, inner, given, guard, yields } => {
            given.iter_mut().for_each(|(_, value)| visit(value));
            guard.iter_mut().for_each(&mut *visit);
            if let Yields::Rows { condition, .. } = yields {
                condition.iter_mut().for_each(&mut *visit);
            }
            all_of_query(outer, visit);
            all_of_query(inner, visit);
        }
        Query::Sets { inputs, .. } => {
            inputs.iter_mut().for_each(|input| all_of_query(input, visit));
        }
        Query::Recursive { start, step, .. } => {
            all_of_query(start, visit);
            all_of_query(step, visit);
        }
        Query::Append(inputs) | Query::RowsFrom { inputs, .. } => {
            inputs.iter_mut().for_each(|input| all_of_query(input, visit));
        }
        query => each_query_expr_mut(query, visit),
    }
}

/// The expressions of one operator that a random value may stand in, or that reads a table.
pub(super) fn each_query_expr_mut<'q>(query: &'q mut Query, visit: &mut dyn FnMut(&'q mut Expr)) {
    match query {
        Query::Values(rows) => rows.iter_mut().flatten().for_each(visit),
        Query::Call { inputs, .. } => inputs.iter_mut().for_each(visit),
        Query::Around { key, filter, .. } => {
            key.iter_mut().map(|(_, key)| key).chain(filter).for_each(visit);
        }
        Query::Get { key, filter, .. } => key.iter_mut().chain(filter).for_each(visit),
        Query::Scan { low, high, filter, .. } => {
            bound_mut(low).iter_mut().for_each(&mut *visit);
            bound_mut(high).iter_mut().for_each(&mut *visit);
            filter.iter_mut().for_each(visit);
        }
        Query::Filter { condition, .. } => visit(condition),
        Query::Project { expressions, .. } => expressions.iter_mut().for_each(visit),
        Query::Aggregate { groups, aggregates, .. } => {
            groups.iter_mut().for_each(&mut *visit);
            for aggregate in aggregates {
                aggregate.exprs_mut().for_each(&mut *visit);
            }
        }
        _ => {}
    }
}

fn bound_mut(bound: &mut Bound<Box<[Expr]>>) -> &mut [Expr] {
    match bound {
        Bound::Included(exprs) | Bound::Excluded(exprs) => exprs,
        Bound::Unbounded => &mut [],
    }
}
