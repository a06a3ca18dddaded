//! Removal of what is not read, and of what is required twice.
//!
//! A compiler that merges and carries every variable which *may* have changed leaves versions that
//! are never looked at, and each one would be a dependency that is none. A register is needed if a
//! step with an effect reads it, or a step that writes a needed register does (dead-code
//! elimination by marking, as Cytron and others have it, 1991). A value that may fail is an effect:
//! whether a transaction is rejected must not depend on who looks at the result.

use crate::analysis::{may_fail, visit};
use crate::expr::{Expr, Reg};
use crate::step::{Block, Step};

/// Remove assignments, phis, carried registers, branches and requirements that are of no use.
pub fn prune(body: &mut Block, registers: u16) {
    let mut needs = Needs { needed: vec![false; usize::from(registers)], changed: true };
    // Each turn but the last marks a register, and loops are what makes one turn too few.
    while needs.changed {
        needs.changed = false;
        needs.block(body, &mut Vec::new());
    }
    sweep(body, &needs.needed, &mut Vec::new());
    drop_repeated(body, &mut Vec::new());
}

struct Needs {
    needed: Vec<bool>,
    changed: bool,
}

impl Needs {
    fn mark(&mut self, register: Reg) {
        let needed = &mut self.needed[usize::from(register.0)];
        self.changed |= !*needed;
        *needed = true;
    }

    fn need(&mut self, expr: &Expr) {
        visit::each_register(expr, &mut |register| self.mark(register));
    }

    /// `out` becomes one of `values`.
    fn flow(&mut self, out: Reg, values: &[&Expr]) {
        if values.iter().any(|value| may_fail(value)) {
            self.mark(out);
        }
        if self.needed[usize::from(out.0)] {
            values.iter().for_each(|value| self.need(value));
        }
    }

    /// `loops`: what each loop around carries, innermost last.
    fn block(&mut self, block: &Block, loops: &mut Vec<Vec<Reg>>) {
        for step in block.iter().rev() {
            self.step(step, loops);
        }
    }

    fn step(&mut self, step: &Step, loops: &mut Vec<Vec<Reg>>) {
        match step {
            Step::Let { out, value } => self.flow(*out, &[value]),
            Step::If { condition, phis, .. } => {
                for phi in phis {
                    self.flow(phi.out, &[&phi.then, &phi.otherwise]);
                }
                self.need(condition);
            }
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                for (register, value) in carried_at(loops, *depth).iter().zip(values) {
                    self.flow(*register, &[value]);
                }
            }
            _ => visit::each_own_expr(step, &mut |expr| self.need(expr)),
        }
        let carried = visit::carried(step);
        for carried in carried {
            self.flow(carried.register, &[&carried.initial, &carried.next]);
        }
        let is_loop = visit::is_loop(step);
        if is_loop {
            loops.push(carried.iter().map(|carried| carried.register).collect());
        }
        for inner in visit::blocks(step).into_iter().flatten() {
            self.block(inner, loops);
        }
        if is_loop {
            loops.pop();
        }
    }
}

fn carried_at(loops: &[Vec<Reg>], depth: u16) -> Vec<Reg> {
    let place = loops.len().checked_sub(usize::from(depth) + 1);
    place.map(|place| loops[place].clone()).unwrap_or_default()
}

/// Remove what is not needed from `block` and from the blocks inside it.
fn sweep(block: &mut Block, needed: &[bool], loops: &mut Vec<Vec<Reg>>) {
    let is_needed = |register: Reg| needed[usize::from(register.0)];
    let mut kept = Vec::with_capacity(block.len());
    for mut step in std::mem::take(block) {
        match &mut step {
            Step::Let { out, .. } if !is_needed(*out) => continue,
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                let carried = carried_at(loops, *depth);
                let pairs = carried.into_iter().zip(std::mem::take(values));
                let pairs = pairs.filter(|(register, _)| is_needed(*register));
                *values = pairs.map(|(_, value)| value).collect();
            }
            Step::If { condition, then, otherwise, phis } => {
                let merged = std::mem::take(phis).into_iter();
                *phis = merged.filter(|phi| is_needed(phi.out)).collect();
                sweep(then, needed, loops);
                sweep(otherwise, needed, loops);
                let is_empty = then.is_empty() && otherwise.is_empty() && phis.is_empty();
                if is_empty && !may_fail(condition) {
                    continue;
                }
            }
            _ => sweep_loop(&mut step, needed, loops),
        }
        kept.push(step);
    }
    *block = kept.into();
}

fn sweep_loop(step: &mut Step, needed: &[bool], loops: &mut Vec<Vec<Reg>>) {
    let registers = visit::carried(step).iter().map(|carried| carried.register).collect();
    if let Step::ForRows { body, carried, .. }
    | Step::ForRange { body, carried, .. }
    | Step::ForEach { body, carried, .. }
    | Step::While { body, carried, .. } = step
    {
        loops.push(registers);
        sweep(body, needed, loops);
        loops.pop();
        let all = std::mem::take(carried).into_iter();
        *carried = all.filter(|carried| needed[usize::from(carried.register.0)]).collect();
    }
}

/// Remove requirements that hold already, since the same was required on every way here: registers
/// are single-assignment, so what was true of them is still. A primary key is tested for NULL by
/// every statement that writes by it, for one.
fn drop_repeated(block: &mut Block, known: &mut Vec<Expr>) {
    let outside = known.len();
    let mut kept = Vec::with_capacity(block.len());
    for mut step in std::mem::take(block) {
        if let Step::Require { condition, .. } = &step {
            if known.contains(condition) {
                continue;
            }
            known.push(condition.clone());
        }
        let before = known.len();
        if let Step::ForRange { register, .. } = &step {
            known.push(Expr::is_null(Expr::Reg(*register), true));
        }
        match &mut step {
            Step::If { then, otherwise, .. } => {
                drop_repeated(then, known);
                drop_repeated(otherwise, known);
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => drop_repeated(body, known),
            _ => {}
        }
        known.truncate(before);
        kept.push(step);
    }
    known.truncate(outside);
    *block = kept.into();
}
