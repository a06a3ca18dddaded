//! What a data-changing statement inside a body would have told a client, kept in registers instead.
//!
//! The binder compiles such a statement to steps that end in `CountRows` (for the command tag) and
//! `Emit` (for RETURNING). Inside a body nobody must see those; FOUND, ROW_COUNT and INTO do. So the steps are
//! rewritten: a counter and the returned row become state that is threaded through branches (by phis) and
//! loops (by carried registers), and the steps that told the client become assignments to it.

use procedure::step::{Carried, Phi};
use procedure::{Block, Expr, Reg, Step};
use types::{Result, Value};

use super::embedded::plus;
use crate::bind::Binder;

/// What is wanted of a statement.
pub struct Capture {
    pub counts: bool,
    /// The width of the returned row.
    pub row: Option<usize>,
}

/// What became of it; constants where nothing was wanted.
pub struct Captured {
    pub count: Expr,
    /// How many rows were returned.
    pub rows: Expr,
    pub row: Vec<Expr>,
}

const COUNT: usize = 0;
const ROWS: usize = 1;
const ROW: usize = 2;

impl Capture {
    /// Adds the rewritten `steps` to the binder's.
    pub fn thread(&self, binder: &mut Binder<'_>, steps: Block) -> Result<Captured> {
        let zero = || Expr::Const(Value::Int(0));
        let mut state = vec![zero(), zero()];
        state.resize(ROW + self.row.unwrap_or(0), Expr::Const(Value::Null));
        let mut loops = Vec::new();
        self.steps(binder, steps, &mut state, &mut loops)?;
        Ok(Captured {
            row: state.split_off(ROW),
            rows: state.swap_remove(ROWS),
            count: state.swap_remove(COUNT),
        })
    }

    /// `loops` says of each loop around whether it carries the state.
    fn steps(
        &self,
        binder: &mut Binder<'_>,
        steps: Block,
        state: &mut Vec<Expr>,
        loops: &mut Vec<bool>,
    ) -> Result<()> {
        for step in steps {
            self.step(binder, step, state, loops)?;
        }
        Ok(())
    }

    fn step(
        &self,
        binder: &mut Binder<'_>,
        step: Step,
        state: &mut Vec<Expr>,
        loops: &mut Vec<bool>,
    ) -> Result<()> {
        match step {
            Step::CountRows { by } => {
                if self.counts {
                    state[COUNT] = increased(binder, &state[COUNT], by)?;
                }
            }
            Step::Emit { values } => {
                if self.row.is_some() {
                    let one = Expr::Const(Value::Int(1));
                    state[ROWS] = increased(binder, &state[ROWS], one)?;
                    for (place, value) in values.into_iter().enumerate() {
                        state[ROW + place] = binder.let_value(value)?;
                    }
                }
            }
            Step::If {
                condition,
                then,
                otherwise,
                phis,
            } if tells(&then) || tells(&otherwise) => {
                let mut other_state = state.clone();
                let then = self.apart(binder, then, state, loops)?;
                let otherwise = self.apart(binder, otherwise, &mut other_state, loops)?;
                let mut phis = phis.into_vec();
                for (value, other) in state.iter_mut().zip(other_state) {
                    if *value != other {
                        let out = binder.register()?;
                        phis.push(Phi {
                            out,
                            then: std::mem::replace(value, Expr::Reg(out)),
                            otherwise: other,
                        });
                    }
                }
                // All that the branch did may have been to tell.
                if !(then.is_empty() && otherwise.is_empty() && phis.is_empty()) {
                    binder.steps.push(Step::If {
                        condition,
                        then,
                        otherwise,
                        phis: phis.into(),
                    });
                }
            }
            Step::Exit { depth, values } if carries(loops, depth) => {
                let values = values.into_iter().chain(state.iter().cloned()).collect();
                binder.steps.push(Step::Exit { depth, values });
            }
            Step::Continue { depth, values } if carries(loops, depth) => {
                let values = values.into_iter().chain(state.iter().cloned()).collect();
                binder.steps.push(Step::Continue { depth, values });
            }
            step => self.other(binder, step, state, loops)?,
        }
        Ok(())
    }

    /// Loops; all else stays as it is.
    fn other(
        &self,
        binder: &mut Binder<'_>,
        mut step: Step,
        state: &mut Vec<Expr>,
        loops: &mut Vec<bool>,
    ) -> Result<()> {
        if let Step::ForRows { body, carried, .. }
        | Step::ForRange { body, carried, .. }
        | Step::ForEach { body, carried, .. }
        | Step::While { body, carried, .. } = &mut step
        {
            let is_threaded = tells(body);
            loops.push(is_threaded);
            let initial = state.clone();
            let mut registers: Vec<Reg> = Vec::new();
            if is_threaded {
                registers = binder.registers(state.len())?;
                *state = registers.iter().copied().map(Expr::Reg).collect();
            }
            *body = self.apart(binder, std::mem::take(body), state, loops)?;
            loops.pop();
            if is_threaded {
                let added = registers.iter().zip(initial).zip(state.drain(..));
                let added = added.map(|((register, initial), next)| Carried {
                    register: *register,
                    initial,
                    next,
                });
                *carried = std::mem::take(carried).into_iter().chain(added).collect();
                *state = registers.into_iter().map(Expr::Reg).collect();
            }
        }
        binder.steps.push(step);
        Ok(())
    }

    fn apart(
        &self,
        binder: &mut Binder<'_>,
        steps: Block,
        state: &mut Vec<Expr>,
        loops: &mut Vec<bool>,
    ) -> Result<Block> {
        let outside = std::mem::take(&mut binder.steps);
        let threaded = self.steps(binder, steps, state, loops);
        let inside = std::mem::replace(&mut binder.steps, outside);
        threaded?;
        Ok(inside.into())
    }
}

fn carries(loops: &[bool], depth: u16) -> bool {
    let place = loops.len().checked_sub(usize::from(depth) + 1);
    place.is_some_and(|place| loops[place])
}

fn increased(binder: &mut Binder<'_>, count: &Expr, by: Expr) -> Result<Expr> {
    match (count, &by) {
        (Expr::Const(Value::Int(0)), _) => binder.let_value(by),
        (Expr::Const(Value::Int(a)), Expr::Const(Value::Int(b))) => {
            Ok(Expr::Const(Value::Int(a.saturating_add(*b))))
        }
        _ => binder.let_value(plus(count.clone(), by)),
    }
}

/// Whether a step in here tells the client something.
fn tells(block: &Block) -> bool {
    block.iter().any(|step| match step {
        Step::CountRows { .. } | Step::Emit { .. } => true,
        Step::If {
            then, otherwise, ..
        } => tells(then) || tells(otherwise),
        Step::ForRows { body, .. }
        | Step::ForRange { body, .. }
        | Step::ForEach { body, .. }
        | Step::While { body, .. } => tells(body),
        _ => false,
    })
}
