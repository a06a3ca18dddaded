//! What of a key plan is worth evaluating for a hint: see [`Hints`].
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
//! finds, or the first of them.
//!
//! *Bounds.* Nothing meters hints, so they are short: what hints are made of is gone through once
//! forwards and once backwards, and a call's are given up after [`HINT_STEPS_MAX`]. A program with
//! a loop keeps the conditions that end it, since they may be all that keeps the loop short.
//!
//! *Cost.* TPC-C's NewOrder has 34 keys and as many conditions in its plan, and 24 keys in its
//! hints.

use std::collections::BTreeSet;

use types::{TableId, Value};

use super::{KeyPlan, PlanStep, PlannedKey, Planning};
use crate::expr::{Expr, Reg};
use crate::step::Phi;

/// Keys, and turns of loops, of one call.
const HINT_STEPS_MAX: u64 = 4_096;

/// Keys before one that it is compared with.
const COMPARED_MAX: usize = 64;

/// The keys of a plan, as a rule each once, with no more around them than they follow from.
#[derive(Clone, Debug)]
pub struct Hints {
    steps: Box<[PlanStep]>,
    registers: usize,
}

impl Hints {
    pub fn of(plan: &KeyPlan) -> Hints {
        let mut keys = Keys { found: Vec::new(), has_loop: plan.steps.iter().any(has_loop) };
        let mut used = Used::default();
        let steps = used.alone(keys.alone(&plan.steps)).into();
        let registers = used.registers.last().map_or(0, |last| usize::from(last.0) + 1);
        Hints { steps, registers }
    }

    /// What a call will probably look at goes to the keys of `planning.found`.
    pub fn evaluate(&self, arguments: &[Value], planning: &mut Planning) {
        planning.begin(arguments, self.registers);
        planning.steps_left = HINT_STEPS_MAX;
        // However it ends, what was found till then is as good.
        let _ = planning.block(&self.steps);
    }

    pub fn keys(&self, arguments: &[Value]) -> Vec<PlannedKey> {
        let mut planning = Planning::default();
        self.evaluate(arguments, &mut planning);
        planning.found.keys
    }
}

fn has_loop(step: &PlanStep) -> bool {
    match step {
        PlanStep::ForRange { .. } | PlanStep::ForEach { .. } => true,
        PlanStep::If { then, otherwise, .. } => then.iter().chain(otherwise).any(has_loop),
        PlanStep::Perhaps { body, .. } => body.iter().any(has_loop),
        _ => false,
    }
}

/// Leaves the keys, once each, forwards through a plan.
struct Keys {
    /// Rows that every way that leads here leads to, by the expressions of their keys: a register
    /// is assigned once, so that equal expressions say the same key, within a turn of a loop.
    found: Vec<(TableId, Box<[Expr]>)>,
    has_loop: bool,
}

impl Keys {
    fn alone(&mut self, steps: &[PlanStep]) -> Vec<PlanStep> {
        let before = self.found.len();
        let kept = steps.iter().filter_map(|step| self.step(step)).collect();
        self.found.truncate(before);
        kept
    }

    fn step(&mut self, step: &PlanStep) -> Option<PlanStep> {
        let kept = match step {
            PlanStep::Key { table, key, .. } => {
                let mut lately = self.found.iter().rev().take(COMPARED_MAX);
                if lately.any(|(of, found)| of == table && found == key) {
                    return None;
                }
                self.found.push((*table, key.clone()));
                step.clone()
            }
            PlanStep::Range { .. } | PlanStep::Lead { .. } => return None,
            PlanStep::Require(_) if !self.has_loop => return None,
            PlanStep::Require(_) | PlanStep::Let { .. } | PlanStep::Stop | PlanStep::Leave(..) => {
                step.clone()
            }
            PlanStep::If { condition, then, otherwise, phis } => {
                let (then, otherwise) = (self.alone(then), self.alone(otherwise));
                if let Some(row) = row_of_both(&then, &otherwise).filter(|_| phis.is_empty()) {
                    return self.step(row);
                }
                PlanStep::If {
                    condition: condition.clone(),
                    then: then.into(),
                    otherwise: otherwise.into(),
                    phis: phis.clone(),
                }
            }
            PlanStep::Perhaps { body, is_loop } => {
                PlanStep::Perhaps { body: self.alone(body).into(), is_loop: *is_loop }
            }
            PlanStep::ForRange { register, bounds, reverse, body } => {
                let body = self.alone(body).into();
                let (register, bounds, reverse) = (*register, bounds.clone(), *reverse);
                PlanStep::ForRange { register, bounds, reverse, body }
            }
            PlanStep::ForEach { register, array, body } => {
                let body = self.alone(body).into();
                PlanStep::ForEach { register: *register, array: array.clone(), body }
            }
        };
        Some(kept)
    }
}

/// The key that two ways lead to, both to nothing else.
fn row_of_both<'s>(one: &'s [PlanStep], other: &[PlanStep]) -> Option<&'s PlanStep> {
    let ([one], [other]) = (one, other) else { return None };
    match (one, other) {
        (
            PlanStep::Key { table, key, .. },
            PlanStep::Key { table: other_table, key: other_key, .. },
        ) => ((table, key) == (other_table, other_key)).then_some(one),
        _ => None,
    }
}

/// Leaves what keys follow from, backwards through a plan: a register is assigned before it is
/// used.
#[derive(Default)]
struct Used {
    registers: BTreeSet<Reg>,
}

impl Used {
    fn alone(&mut self, steps: Vec<PlanStep>) -> Vec<PlanStep> {
        let kept = steps.into_iter().rev().filter_map(|step| self.step(step));
        let mut kept: Vec<PlanStep> = kept.collect();
        kept.reverse();
        kept
    }

    fn body(&mut self, body: Box<[PlanStep]>) -> Box<[PlanStep]> {
        self.alone(body.into_vec()).into()
    }

    /// A condition or a loop around nothing is dropped with it.
    fn step(&mut self, step: PlanStep) -> Option<PlanStep> {
        match &step {
            PlanStep::Let { out, value } => {
                if !self.registers.contains(out) {
                    return None;
                }
                self.uses(value);
            }
            PlanStep::Key { key, .. } => key.iter().for_each(|part| self.uses(part)),
            PlanStep::Require(condition) => self.uses(condition),
            PlanStep::Range { .. } | PlanStep::Lead { .. } => return None,
            _ => {}
        }
        let kept = match step {
            PlanStep::If { condition, then, otherwise, phis } => {
                let phis = phis.into_iter().filter(|phi| self.registers.contains(&phi.out));
                let phis: Box<[Phi]> = phis.collect();
                phis.iter()
                    .flat_map(|phi| [&phi.then, &phi.otherwise])
                    .for_each(|it| self.uses(it));
                let (then, otherwise) = (self.body(then), self.body(otherwise));
                if then.is_empty() && otherwise.is_empty() && phis.is_empty() {
                    return None;
                }
                self.uses(&condition);
                PlanStep::If { condition, then, otherwise, phis }
            }
            PlanStep::Perhaps { body, is_loop } => {
                let body = self.body(body);
                if body.iter().all(|step| matches!(step, PlanStep::Stop)) {
                    return None;
                }
                PlanStep::Perhaps { body, is_loop }
            }
            PlanStep::ForRange { register, bounds, reverse, body } => {
                let body = self.body(body);
                if body.is_empty() {
                    return None;
                }
                bounds.iter().for_each(|bound| self.uses(bound));
                self.registers.insert(register);
                PlanStep::ForRange { register, bounds, reverse, body }
            }
            PlanStep::ForEach { register, array, body } => {
                let body = self.body(body);
                if body.is_empty() {
                    return None;
                }
                self.uses(&array);
                self.registers.insert(register);
                PlanStep::ForEach { register, array, body }
            }
            step => step,
        };
        Some(kept)
    }

    fn uses(&mut self, expression: &Expr) {
        expression.walk(&mut |part| {
            if let Expr::Reg(register) = part {
                self.registers.insert(*register);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::BinaryOp;
    use types::DataType;

    use super::super::AccessMode;
    use super::*;

    const TABLE: TableId = TableId(1);

    fn hints(steps: Vec<PlanStep>) -> Hints {
        Hints::of(&KeyPlan {
            coverage: super::super::Coverage::Complete,
            appends: Box::default(),
            unplanned: Box::default(),
            leaderless: Box::default(),
            steps: steps.into(),
            registers: 1 << 16,
        })
    }

    fn key(register: u16) -> PlanStep {
        let (key, mode) = ([Expr::Reg(Reg(register))].into(), AccessMode::Read);
        PlanStep::Key { step: 0, table: TABLE, key, mode }
    }

    fn int(number: i64) -> Expr {
        Expr::Const(Value::Int(number))
    }

    fn plus_one(register: u16) -> Expr {
        let (left, right) = (Box::new(Expr::Reg(Reg(register))), Box::new(int(1)));
        Expr::Binary { op: BinaryOp::Add, left, right, result: DataType::Int8 }
    }

    fn up_to(register: u16, last: i64, body: Vec<PlanStep>) -> PlanStep {
        let bounds = Box::new([int(1), int(last), int(1)]);
        PlanStep::ForRange { register: Reg(register), bounds, reverse: false, body: body.into() }
    }

    #[test]
    fn what_leads_to_no_key_goes() {
        let chain = |count: u16| {
            (1..count).map(|out| PlanStep::Let { out: Reg(out), value: plus_one(out - 1) })
        };
        let none = hints(chain(60_000).collect());
        assert!(none.steps.is_empty() && none.registers == 0);
        let all = hints(chain(60_000).chain([key(59_999)]).collect());
        assert_eq!((all.steps.len(), all.registers), (60_000, 60_000));
        let some = hints(chain(60_000).chain([key(99)]).collect());
        assert_eq!(some.keys(&[Value::Int(1)])[0].key, types::Key::from_int(100));
        assert_eq!(some.steps.len(), 100);
        let empty = PlanStep::If {
            condition: Expr::Reg(Reg(7)),
            then: [up_to(8, i64::MAX, vec![])].into(),
            otherwise: Box::default(),
            phis: Box::default(),
        };
        assert_eq!(hints(vec![empty, key(0)]).steps.len(), 1);
    }

    #[test]
    fn a_loop_ends_after_so_many_steps_and_where_its_program_does() {
        let found = |steps: Vec<PlanStep>| hints(steps).keys(&[Value::Int(7)]).len();
        let long = up_to(1, i64::MAX, vec![key(1)]);
        let count = found(vec![long.clone(), key(0)]) as u64;
        assert!((1_000..HINT_STEPS_MAX).contains(&count), "{count}");
        let never = PlanStep::Require(Expr::Const(Value::Bool(false)));
        assert_eq!(found(vec![never.clone(), long]), 0);
        assert_eq!(found(vec![never, key(0)]), 1, "which is rare");
    }
}
