//! Backward slicing (Weiser, 1981): removes all steps that do not contribute to chosen ones.
//!
//! A step is kept if it is chosen (a *root*), if it defines a register that a kept step reads, or
//! if it controls whether or how often a kept step runs. Unlike `procedure::prune`, this also
//! removes reads and expressions that may fail: the transaction has committed, so none failed.
//!
//! *Jumps.* A `Return`, `Exit` or `Continue` is kept if it can prevent a kept step from running.
//! For a `Return` these are all later steps and all steps of the enclosing loops; for the other two
//! they are all steps of the loop that they target, and its carried registers. Marking starts
//! from the empty set and only adds, so jumps do not keep each other alive.
//!
//! Marking is repeated until a fixed point, since loops carry registers from one turn to the next.

use procedure::analysis::visit;
use procedure::step::{Block, Carried, Step};
use procedure::{Expr, Reg};

/// The steps of `body` that the roots need, roots included.
pub fn sweep(body: Block, registers: usize, is_root: &dyn Fn(&Step) -> bool) -> Block {
    let sizes = sizes(&body);
    let mut marks = Marks {
        needed: vec![false; registers],
        live: vec![false; sizes.len()],
        sizes,
        changed: true,
        is_root,
    };
    while marks.changed {
        marks.changed = false;
        marks.block(&body, 0, &mut Vec::new(), false);
    }
    let mut next = 0;
    marks.keep(body, &mut next, &mut Vec::new())
}

/// For each step, in program order, how many it is with those inside it.
fn sizes(body: &Block) -> Vec<usize> {
    fn add(block: &Block, sizes: &mut Vec<usize>) {
        for step in block {
            let at = sizes.len();
            sizes.push(0);
            visit::blocks(step).into_iter().flatten().for_each(|inner| add(inner, sizes));
            sizes[at] = sizes.len() - at;
        }
    }
    let mut sizes = Vec::new();
    add(body, &mut sizes);
    sizes
}

struct Marks<'a> {
    needed: Vec<bool>,
    /// By number of the step.
    live: Vec<bool>,
    sizes: Vec<usize>,
    changed: bool,
    is_root: &'a dyn Fn(&Step) -> bool,
}

/// A loop around the step at hand.
struct Around {
    id: usize,
    carried: Vec<Reg>,
}

impl Marks<'_> {
    fn need(&mut self, expr: &Expr) {
        visit::each_register(expr, &mut |Reg(register)| {
            let needed = &mut self.needed[usize::from(register)];
            self.changed |= !*needed;
            *needed = true;
        });
    }

    fn is_needed(&self, Reg(register): Reg) -> bool {
        self.needed[usize::from(register)]
    }

    fn gives_needed(&self, step: &Step) -> bool {
        let mut found = false;
        visit::each_output(step, &mut |register| found |= self.is_needed(register));
        found
    }

    /// Whether something of the block stays. `later`: something does after it.
    fn block(
        &mut self,
        block: &Block,
        first: usize,
        around: &mut Vec<Around>,
        later: bool,
    ) -> bool {
        let mut ids = Vec::with_capacity(block.len());
        let mut id = first;
        for _ in block {
            ids.push(id);
            id += self.sizes[id];
        }
        let mut any = false;
        for (step, id) in block.iter().zip(ids).rev() {
            let stays = self.step(step, id, around, later || any);
            self.changed |= stays && !self.live[id];
            self.live[id] |= stays;
            any |= stays;
        }
        any
    }

    fn step(&mut self, step: &Step, id: usize, around: &mut Vec<Around>, later: bool) -> bool {
        match step {
            Step::Return => later || around.iter().any(|l| self.live[l.id]),
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                self.leaves_something(*depth, values, around)
            }
            Step::If { .. } => self.branch(step, id, around, later),
            step if visit::is_loop(step) => self.looped(step, id, around, later),
            step => {
                let stays = (self.is_root)(step) || self.gives_needed(step);
                if stays {
                    visit::each_own_expr(step, &mut |expr| self.need(expr));
                }
                stays
            }
        }
    }

    fn leaves_something(&mut self, depth: u16, values: &[Expr], around: &[Around]) -> bool {
        let Some(place) = around.len().checked_sub(usize::from(depth) + 1) else {
            return false;
        };
        let target = &around[place];
        let mut stays = self.live[target.id];
        for (register, value) in target.carried.iter().zip(values) {
            if self.is_needed(*register) {
                stays = true;
                self.need(value);
            }
        }
        stays
    }

    fn branch(&mut self, step: &Step, id: usize, around: &mut Vec<Around>, later: bool) -> bool {
        let Step::If { condition, then, otherwise, phis } = step else {
            return false;
        };
        let merges = self.gives_needed(step);
        for phi in phis {
            if self.is_needed(phi.out) {
                self.need(&phi.then);
                self.need(&phi.otherwise);
            }
        }
        let behind_then = then.iter().fold(id + 1, |next, _| next + self.sizes[next]);
        let one = self.block(then, id + 1, around, later);
        let other = self.block(otherwise, behind_then, around, later);
        let stays = merges || one || other;
        if stays {
            self.need(condition);
        }
        stays
    }

    fn looped(&mut self, step: &Step, id: usize, around: &mut Vec<Around>, later: bool) -> bool {
        let carried = visit::carried(step);
        let mut stays = (self.is_root)(step) || self.gives_needed(step);
        around.push(Around { id, carried: carried.iter().map(|c| c.register).collect() });
        for body in visit::blocks(step).into_iter().flatten() {
            stays |= self.block(body, id + 1, around, later);
        }
        around.pop();
        for Carried { register, initial, next } in carried {
            if self.is_needed(*register) {
                self.need(initial);
                self.need(next);
            }
        }
        if stays {
            visit::each_own_expr(step, &mut |expr| self.need(expr));
        }
        stays
    }

    /// What stays of a block. `next` is the number of its first step; afterwards, of the step
    /// after it.
    fn keep(&self, block: Block, next: &mut usize, carried: &mut Vec<Vec<Reg>>) -> Block {
        let mut kept = Vec::with_capacity(block.len());
        for mut step in block {
            let id = *next;
            if !self.live[id] {
                *next += self.sizes[id];
                continue;
            }
            *next += 1;
            self.thin(&mut step, next, carried);
            kept.push(step);
        }
        kept.into()
    }

    fn thin(&self, step: &mut Step, next: &mut usize, loops: &mut Vec<Vec<Reg>>) {
        match step {
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                let place = loops.len().checked_sub(usize::from(*depth) + 1);
                let carried = place.map(|place| &loops[place][..]).unwrap_or_default();
                let pairs = carried.iter().zip(std::mem::take(values));
                let pairs = pairs.filter(|(register, _)| self.is_needed(**register));
                *values = pairs.map(|(_, value)| value).collect();
            }
            Step::If { then, otherwise, phis, .. } => {
                let all = std::mem::take(phis).into_iter();
                *phis = all.filter(|phi| self.is_needed(phi.out)).collect();
                *then = self.keep(std::mem::take(then), next, loops);
                *otherwise = self.keep(std::mem::take(otherwise), next, loops);
            }
            Step::ForRows { body, carried, .. }
            | Step::ForRange { body, carried, .. }
            | Step::ForEach { body, carried, .. }
            | Step::While { body, carried, .. } => {
                loops.push(carried.iter().map(|carried| carried.register).collect());
                *body = self.keep(std::mem::take(body), next, loops);
                loops.pop();
                let all = std::mem::take(carried).into_iter();
                *carried = all.filter(|carried| self.is_needed(carried.register)).collect();
            }
            _ => {}
        }
    }
}
