//! What of a key plan is worth evaluating for a hint: see [`KeyPlan::hints`].
//!
//! A plan says of every access whether it happens, and which step makes it. To fetch records ahead
//! of a run less will do:
//!
//! ```text
//!   Require n > 0                     ─                  a run that ends early is rare
//!   If d <= 5                         key stock[s, i]    both ways lead to the same keys
//!     Then key stock[s, i]            ─                  found already
//!     Else key stock[s, i]
//!   key stock[s, i]
//! ```
//!
//! *Invariant.* Where the plan does not end early, the rows that hints find are those that the plan
//! finds.
//!
//! *Cost.* TPC-C's NewOrder has 34 keys and as many conditions in its plan, and 24 keys in its
//! hints.

use std::collections::BTreeSet;

use types::TableId;

use super::{KeyPlan, PlanStep};
use crate::expr::{Expr, Reg};

/// Rows by the expressions of their keys: a register is assigned once, so that equal expressions
/// say the same key, within a turn of a loop.
type Found = Vec<(TableId, Box<[Expr]>)>;

impl KeyPlan {
    /// The keys of a plan, as a rule each once, with no more around them than they follow from.
    pub fn hints(&self) -> KeyPlan {
        let mut steps = self.steps.to_vec();
        loop {
            steps = keys_alone(&steps, &mut Vec::new());
            let mut used = BTreeSet::new();
            each_expression(&steps, &mut |expression| {
                expression.walk(&mut |part| {
                    if let Expr::Reg(register) = part {
                        used.insert(*register);
                    }
                });
            });
            if !drop_unused(&mut steps, &used) {
                let registers = used.last().map_or(0, |last| usize::from(last.0) + 1);
                return KeyPlan { registers, steps: steps.into(), ..self.clone() };
            }
        }
    }
}

/// The steps that lead to keys which were not `found` before on every way that leads here.
fn keys_alone(steps: &[PlanStep], found: &mut Found) -> Vec<PlanStep> {
    let before = found.len();
    let mut kept = Vec::new();
    for step in steps {
        match step {
            PlanStep::Key { table, key, .. } => {
                let row = (*table, key.clone());
                if !found.contains(&row) {
                    found.push(row);
                    kept.push(step.clone());
                }
            }
            PlanStep::Range { .. } | PlanStep::Lead { .. } | PlanStep::Require(_) => {}
            PlanStep::Let { .. } | PlanStep::Stop | PlanStep::Leave(..) => kept.push(step.clone()),
            PlanStep::If { condition, then, otherwise, phis } => {
                let (then, otherwise) = (keys_alone(then, found), keys_alone(otherwise, found));
                match keys_of_both(&then, &otherwise) {
                    Some(rows) if phis.is_empty() => {
                        found.extend(rows);
                        kept.extend(then);
                    }
                    _ => kept.push(PlanStep::If {
                        condition: condition.clone(),
                        then: then.into(),
                        otherwise: otherwise.into(),
                        phis: phis.clone(),
                    }),
                }
            }
            PlanStep::Perhaps { body, is_loop } => {
                let body = keys_alone(body, found);
                if body.iter().any(|step| !matches!(step, PlanStep::Stop | PlanStep::Let { .. })) {
                    kept.push(PlanStep::Perhaps { body: body.into(), is_loop: *is_loop });
                }
            }
            PlanStep::ForRange { register, bounds, reverse, body } => {
                let body = keys_alone(body, found).into();
                let (register, bounds, reverse) = (*register, bounds.clone(), *reverse);
                kept.push(PlanStep::ForRange { register, bounds, reverse, body });
            }
            PlanStep::ForEach { register, array, body } => {
                let body = keys_alone(body, found).into();
                kept.push(PlanStep::ForEach { register: *register, array: array.clone(), body });
            }
        }
    }
    found.truncate(before);
    kept
}

/// The rows of two ways that are keys and nothing else, and the same.
fn keys_of_both(one: &[PlanStep], other: &[PlanStep]) -> Option<Found> {
    let rows = |steps: &[PlanStep]| -> Option<Found> {
        let row = |step: &PlanStep| match step {
            PlanStep::Key { table, key, .. } => Some((*table, key.clone())),
            _ => None,
        };
        steps.iter().map(row).collect()
    };
    let (one, other) = (rows(one)?, rows(other)?);
    (one == other).then_some(one)
}

/// Every expression that a step evaluates.
fn each_expression(steps: &[PlanStep], visit: &mut dyn FnMut(&Expr)) {
    for step in steps {
        match step {
            PlanStep::Let { value, .. } => visit(value),
            PlanStep::Key { key, .. } => key.iter().for_each(&mut *visit),
            PlanStep::If { condition, then, otherwise, phis } => {
                visit(condition);
                phis.iter()
                    .for_each(|phi| [&phi.then, &phi.otherwise].into_iter().for_each(&mut *visit));
                each_expression(then, visit);
                each_expression(otherwise, visit);
            }
            PlanStep::Perhaps { body, .. } => each_expression(body, visit),
            PlanStep::ForRange { register, bounds, body, .. } => {
                visit(&Expr::Reg(*register));
                bounds.iter().for_each(&mut *visit);
                each_expression(body, visit);
            }
            PlanStep::ForEach { register, array, body } => {
                visit(&Expr::Reg(*register));
                visit(array);
                each_expression(body, visit);
            }
            PlanStep::Range { .. }
            | PlanStep::Lead { .. }
            | PlanStep::Require(_)
            | PlanStep::Stop
            | PlanStep::Leave(..) => {}
        }
    }
}

/// Drops what is computed for nothing; whether there was any.
fn drop_unused(steps: &mut Vec<PlanStep>, used: &BTreeSet<Reg>) -> bool {
    let mut dropped = false;
    let within = |body: &mut Box<[PlanStep]>| {
        let mut steps = std::mem::take(body).into_vec();
        let any = drop_unused(&mut steps, used);
        *body = steps.into();
        any
    };
    for step in &mut *steps {
        match step {
            PlanStep::If { then, otherwise, phis, .. } => {
                let (one, other) = (within(then), within(otherwise));
                let count = phis.len();
                let kept = phis.iter().filter(|phi| used.contains(&phi.out)).cloned();
                *phis = kept.collect();
                dropped |= one || other || phis.len() < count;
            }
            PlanStep::Perhaps { body, .. }
            | PlanStep::ForRange { body, .. }
            | PlanStep::ForEach { body, .. } => dropped |= within(body),
            _ => {}
        }
    }
    let count = steps.len();
    steps.retain(|step| !matches!(step, PlanStep::Let { out, .. } if !used.contains(out)));
    dropped || steps.len() < count
}
