//! Epilogues that only count: where a procedure's answer is a sum over the fragments that found
//! their row, workers add up counts, and no fragment stores what it found.

use procedure::analysis::visit;
use procedure::step::{Carried, Procedure, Step};
use procedure::{BinaryOp, Expr, Reg};
use rustc_hash::FxHashMap;
use types::{DataType, Value};

/// Starts of sums beyond this could overflow.
const INITIAL_MAX: i64 = 1 << 40;
const STEP_MAX: i64 = 1 << 20;

pub struct Reduction {
    pub steps: Box<[Summing]>,
    /// How many counts it takes.
    pub count: u16,
    /// That the steps use.
    pub arguments: Box<[Reg]>,
}

pub enum Summing {
    /// `register` is `initial` plus `by` for each turn that found its row.
    Sum {
        register: Reg,
        initial: Expr,
        by: i64,
        reduction: u16,
    },
    Emit(Box<[Expr]>),
    CountRows(Expr),
}

impl Reduction {
    /// The sums, and which of them counts what an access found, by the register for that. `None`:
    /// the answer is more than sums.
    pub fn of(procedure: &Procedure) -> Option<(Reduction, FxHashMap<Reg, u16>)> {
        let used = used(procedure);
        let is_argument = |register: Reg| usize::from(register.0) < procedure.parameters.len();
        let mut sums: Vec<Reg> = Vec::new();
        let mut counted = FxHashMap::default();
        let mut steps = Vec::new();
        for (place, step) in procedure.body.iter().enumerate() {
            let known = |expr: &Expr, sums: &[Reg]| {
                let mut known = true;
                visit::each_register(expr, &mut |r| known &= is_argument(r) || sums.contains(&r));
                known
            };
            match step {
                Step::Emit { values } if values.iter().all(|value| known(value, &sums)) => {
                    steps.push(Summing::Emit(values.clone()));
                }
                Step::CountRows { by } if known(by, &sums) => {
                    steps.push(Summing::CountRows(by.clone()));
                }
                Step::Return if place + 1 == procedure.body.len() => {}
                step if visit::touches_rows(step) => match reduction(step)? {
                    Some(Counting { carried, by, found }) => {
                        let starts_small = match &carried.initial {
                            Expr::Const(Value::Int(n)) => n.abs() <= INITIAL_MAX,
                            Expr::Reg(register) => sums.contains(register),
                            _ => false,
                        };
                        if !starts_small {
                            return None;
                        }
                        let reduction = sums.len() as u16;
                        counted.insert(found, reduction);
                        steps.push(Summing::Sum {
                            register: carried.register,
                            initial: carried.initial.clone(),
                            by,
                            reduction,
                        });
                        sums.push(carried.register);
                    }
                    None if outputs_used(step, &used) => return None,
                    None => {}
                },
                _ => return None,
            }
        }
        let mut arguments = Vec::new();
        for expr in steps.iter().flat_map(Summing::exprs) {
            visit::each_register(expr, &mut |register| {
                arguments.extend(Some(register).filter(|r| is_argument(*r)));
            });
        }
        arguments.sort_unstable();
        arguments.dedup();
        let count = sums.len() as u16;
        let reduction = Reduction { steps: steps.into(), count, arguments: arguments.into() };
        Some((reduction, counted))
    }
}

impl Summing {
    fn exprs(&self) -> &[Expr] {
        match self {
            Summing::Sum { initial, .. } => std::slice::from_ref(initial),
            Summing::Emit(values) => values,
            Summing::CountRows(by) => std::slice::from_ref(by),
        }
    }
}

/// By register: some expression reads it.
fn used(procedure: &Procedure) -> Vec<bool> {
    let mut used = vec![false; usize::from(procedure.registers)];
    for step in visit::numbered(&procedure.body) {
        visit::each_step_expr(step, &mut |_, expr| {
            visit::each_register(expr, &mut |register| used[usize::from(register.0)] = true);
        });
    }
    used
}

fn outputs_used(step: &Step, used: &[bool]) -> bool {
    let mut found = false;
    let mut look = |step: &Step| {
        visit::each_output(step, &mut |register| found |= used[usize::from(register.0)]);
    };
    match step {
        Step::ForEach { body, carried, .. } | Step::ForRange { body, carried, .. } => {
            if !carried.is_empty() || !body.iter().all(|step| visit::row_outputs(step).is_some()) {
                return true;
            }
            body.iter().for_each(look);
        }
        step => look(step),
    }
    found
}

/// A loop that carries a count of its turns that found their row.
struct Counting<'s> {
    carried: &'s Carried,
    by: i64,
    found: Reg,
}

/// `Some(None)`: a step that reduces nothing. `None`: one that carries something else than a count
/// of its turns that found their row.
fn reduction(step: &Step) -> Option<Option<Counting<'_>>> {
    let (Step::ForEach { body, carried, .. } | Step::ForRange { body, carried, .. }) = step else {
        return Some(None);
    };
    let [carried] = &**carried else {
        return carried.is_empty().then_some(None);
    };
    let [access, Step::If { condition, then, otherwise, phis }] = &**body else { return None };
    let ([Step::Let { out, value }], [], [phi]) = (&**then, &**otherwise, &**phis) else {
        return None;
    };
    let (found, ..) = visit::row_outputs(access)?;
    let Expr::Binary { op: BinaryOp::Add, left, right, result: DataType::Int8 } = value else {
        return None;
    };
    let Expr::Const(Value::Int(by)) = **right else { return None };
    let counts = *condition == Expr::Reg(found)
        && **left == Expr::Reg(carried.register)
        && phi.then == Expr::Reg(*out)
        && phi.otherwise == Expr::Reg(carried.register)
        && carried.next == Expr::Reg(phi.out)
        && by.abs() <= STEP_MAX;
    counts.then_some(Some(Counting { carried, by, found }))
}
