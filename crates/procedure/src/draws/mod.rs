//! Where in a program a random value is drawn.
//!
//! An expression is pure, `random()` too: it is a function of a seed, a lane and a position (see
//! [`chance`](crate::chance)). The compiler leaves a call without them, marked by a number of its
//! own; [`place`] gives each its place, once a program is complete:
//!
//! * seed and lane are two more parameters, behind those that a caller sees, so all who know a
//!   program's arguments beforehand know its draws as well: planners of keys, queues, replay;
//! * the position counts places in the order of execution. Along a block it is a constant. Where
//!   two branches meet it is behind the longer one; a loop that draws carries it from turn to turn;
//! * a query numbers the rows that it draws for ([`Query::Numbered`]).
//!
//! ```text
//!   INSERT … VALUES (random())          let r3 := random(seed, lane, 0)
//!   FOR i IN 1..n LOOP                  for i in 1 to n        carried r5 = 1, next r5 + 2
//!     a := random();                      let r6 := random(seed, lane, r5)
//!     b := gen_random_uuid();             let r7 := gen_random_uuid(seed, lane, r5 + 1)
//!   SELECT random() FROM t              select random(seed, lane, n)  of  t numbered from r5
//! ```
//!
//! *Invariant.* A position depends on the program and on its path alone. So a draw is the same on
//! every replica, on any number of threads, after a restart, and for a step that runs again alone.
//! Two calls of equal mark in one step or row are one draw: an expression may be copied.
//!
//! *Cost.* A program that does not draw has neither parameters nor registers for it.

mod registers;

use types::{DataType, Error, Result, Value};

use crate::analysis::visit;
use crate::chance::{self, Seed};
use crate::expr::{BinaryOp, Expr, Reg};
use crate::functions::Function;
use crate::query::Query;
use crate::step::{Block, Carried, Column, Phi, Procedure, Step};
use registers::{each_query_expr_mut, each_step_expr_mut};

/// Rows that one query may number.
pub const ROWS_MAX: i64 = 1 << 24;

/// The parameters that no caller gives.
const HIDDEN: u16 = 2;

impl Expr {
    /// Whether it draws a random value.
    pub fn draws(&self) -> bool {
        self.any(&mut |expr| matches!(expr, Expr::Call { function, .. } if function.draws()))
    }
}

/// What the compiler ends the arguments of a call with that draws. `number` is the call's own.
pub fn mark(number: i64) -> Expr {
    Expr::Const(Value::from(vec![Value::Int(number)]))
}

fn is_mark(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(Value::Array(_)))
}

/// The arguments of a call that draws, as they are written.
pub fn written(function: Function, arguments: &[Expr]) -> &[Expr] {
    let added = match arguments.last() {
        Some(last) if is_mark(last) => 1,
        _ => chance::ARGUMENTS.min(arguments.len()),
    };
    match function {
        Function::Uuidv7 => &[],
        _ => &arguments[..arguments.len() - added],
    }
}

impl Procedure {
    /// The parameters that a caller gives.
    pub fn visible_parameters(&self) -> &[Column] {
        let hidden = if self.draws { usize::from(HIDDEN) } else { 0 };
        &self.parameters[..self.parameters.len() - hidden]
    }
}

/// The seed of a transaction, and how many of its programs have drawn.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    seed: Seed,
    lanes: u64,
}

impl Draws {
    pub fn new(seed: Seed) -> Draws {
        Draws { seed, lanes: 0 }
    }

    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Programs that were given a lane; none has drawn where it is 0.
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// All of the next program's arguments.
    pub fn arguments(
        &mut self,
        procedure: &Procedure,
        given: impl Into<Box<[Value]>>,
    ) -> Result<Box<[Value]>> {
        let given = given.into();
        if !procedure.draws {
            return Ok(given);
        }
        if self.lanes >= chance::LANES_MAX {
            return Err(chance::too_many());
        }
        let hidden = [Value::Uuid(self.seed), Value::Int(self.lanes as i64)];
        self.lanes += 1;
        Ok(given.into_iter().chain(hidden).collect())
    }
}

/// An expression outside of any program draws from a seed of its own.
pub fn settle(expr: &mut Expr, seed: Seed) {
    let constant = |value| Expr::Const(value);
    let filling = Filling { seed: constant(Value::Uuid(seed)), lane: constant(Value::Int(0)) };
    filling.fill([expr].into_iter(), &constant(Value::Int(0)));
}

/// Gives each draw of a complete program its place. Nothing changes where there is none.
///
/// # Errors
/// 0A000 for a draw where rows are not numbered: in a join's condition, say.
pub fn place(procedure: &mut Procedure) -> Result<()> {
    if !block_draws(&procedure.body) {
        return Ok(());
    }
    let first = procedure.parameters.len() as u16;
    registers::make_room(procedure, first, HIDDEN)?;
    for (name, data_type) in [("(seed)", DataType::Uuid), ("(lane)", DataType::Int8)] {
        procedure.parameters.push(Column { name: name.to_owned(), data_type });
    }
    procedure.draws = true;
    let filling = Filling { seed: Expr::Reg(Reg(first)), lane: Expr::Reg(Reg(first + 1)) };
    let mut placing = Placing { filling, registers: procedure.registers, loops: Vec::new() };
    placing.block(&mut procedure.body, Place { register: None, offset: 0 })?;
    procedure.registers = placing.registers;
    Ok(())
}

fn block_draws(block: &Block) -> bool {
    visit::numbered(block).into_iter().any(step_draws)
}

/// Whether a step itself does, those inside it excepted.
fn step_draws(step: &Step) -> bool {
    let mut draws = false;
    visit::each_step_expr(step, &mut |_, expr| draws |= expr.draws());
    draws
}

/// Whether a loop does in each of its turns.
fn each_turn_draws(step: &Step) -> bool {
    let condition_draws = matches!(step, Step::While { condition, .. } if condition.draws());
    let next_draws = visit::carried(step).iter().any(|carried| carried.next.draws());
    condition_draws || next_draws || visit::blocks(step).into_iter().flatten().any(block_draws)
}

fn query_draws(query: &Query) -> bool {
    let mut draws = false;
    visit::each_query(query, &mut |query| {
        visit::each_query_expr(query, &mut |expr| draws |= expr.draws());
    });
    draws
}

/// How many places lie before: what a register says, and `offset` more.
#[derive(Clone, Copy)]
struct Place {
    register: Option<Reg>,
    offset: i64,
}

impl Place {
    fn expr(self) -> Expr {
        match self.register {
            Some(register) => plus(&Expr::Reg(register), self.offset),
            None => Expr::Const(Value::Int(self.offset)),
        }
    }

    fn after(self, places: i64) -> Place {
        Place { offset: self.offset + places, ..self }
    }
}

fn plus(base: &Expr, more: i64) -> Expr {
    match base {
        _ if more == 0 => base.clone(),
        Expr::Const(Value::Int(base)) => Expr::Const(Value::Int(base + more)),
        base => Expr::Binary {
            op: BinaryOp::Add,
            left: Box::new(base.clone()),
            right: Box::new(Expr::Const(Value::Int(more))),
            result: DataType::Int8,
        },
    }
}

/// Completes calls.
struct Filling {
    seed: Expr,
    lane: Expr,
}

impl Filling {
    /// Draws from `base` on; how many places they take.
    fn fill<'e>(&self, exprs: impl Iterator<Item = &'e mut Expr>, base: &Expr) -> i64 {
        let mut marks = Vec::new();
        exprs.for_each(|expr| self.one(expr, base, &mut marks));
        marks.len() as i64
    }

    fn one(&self, expr: &mut Expr, base: &Expr, marks: &mut Vec<Option<Expr>>) {
        for child in expr.children_mut() {
            self.one(child, base, marks);
        }
        let Expr::Call { function, arguments, .. } = expr else { return };
        if !function.draws() || !arguments.last().is_some_and(is_mark) {
            return;
        }
        let mut given = std::mem::take(arguments).into_vec();
        let mark = given.pop();
        let known = marks.iter().position(|known| *known == mark);
        let place = known.unwrap_or_else(|| {
            marks.push(mark);
            marks.len() - 1
        });
        given.extend([self.seed.clone(), self.lane.clone(), plus(base, place as i64)]);
        *arguments = given.into();
    }
}

struct Placing {
    filling: Filling,
    registers: u16,
    /// Whether the loops around carry a position, innermost last.
    loops: Vec<bool>,
}

impl Placing {
    fn register(&mut self) -> Result<Reg> {
        let register = Reg(self.registers);
        self.registers = self.registers.checked_add(1).ok_or_else(registers::too_many)?;
        Ok(register)
    }

    fn fill<'e>(&self, exprs: impl Iterator<Item = &'e mut Expr>, at: Place) -> Place {
        at.after(self.filling.fill(exprs, &at.expr()))
    }

    fn block(&mut self, block: &mut [Step], mut at: Place) -> Result<Place> {
        for step in block {
            at = self.step(step, at)?;
        }
        Ok(at)
    }

    fn step(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        match step {
            Step::If { .. } => self.branch(step, at),
            Step::ForRows { .. }
            | Step::ForRange { .. }
            | Step::ForEach { .. }
            | Step::While { .. } => self.turns(step, at),
            Step::Fetch { query, .. } | Step::EmitQuery { query } => self.query(query, at),
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                let at = self.fill(values.iter_mut(), at);
                let around = self.loops.len().checked_sub(usize::from(*depth) + 1);
                if around.is_some_and(|around| self.loops[around]) {
                    let mut more = std::mem::take(values).into_vec();
                    more.push(at.expr());
                    *values = more.into();
                }
                Ok(at)
            }
            step => {
                let mut exprs = Vec::new();
                each_step_expr_mut(step, &mut |expr| exprs.push(expr));
                Ok(self.fill(exprs.into_iter(), at))
            }
        }
    }

    fn branch(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let Step::If { condition, then, otherwise, phis } = step else { return Ok(at) };
        let at = self.fill([condition].into_iter(), at);
        let (one, other) = (self.block(then, at)?, self.block(otherwise, at)?);
        let one = self.fill(phis.iter_mut().map(|phi| &mut phi.then), one);
        let other = self.fill(phis.iter_mut().map(|phi| &mut phi.otherwise), other);
        if one.register == other.register {
            return Ok(Place { offset: one.offset.max(other.offset), ..one });
        }
        let out = self.register()?;
        let mut more = std::mem::take(phis).into_vec();
        more.push(Phi { out, then: one.expr(), otherwise: other.expr() });
        *phis = more.into();
        Ok(Place { register: Some(out), offset: 0 })
    }

    fn turns(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let counts = each_turn_draws(step);
        let at = self.entry(step, at)?;
        let inside = match counts {
            true => Place { register: Some(self.register()?), offset: 0 },
            false => at,
        };
        let turn = match step {
            Step::While { condition, .. } => self.fill([condition].into_iter(), inside),
            _ => inside,
        };
        self.loops.push(counts);
        let end = match step {
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => self.block(body, turn),
            _ => Ok(turn),
        };
        self.loops.pop();
        let Some(carried) = registers::carried_mut(step) else { return end };
        let end = self.fill(carried.iter_mut().map(|one| &mut one.next), end?);
        if let (true, Some(register)) = (counts, inside.register) {
            let mut more = std::mem::take(carried).into_vec();
            more.push(Carried { register, initial: at.expr(), next: end.expr() });
            *carried = more.into();
        }
        Ok(turn)
    }

    /// What a loop evaluates once, before its first turn.
    fn entry(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let at = match step {
            Step::ForRows { query, .. } => self.query(query, at)?,
            Step::ForRange { first, last, step, .. } => {
                self.fill([first, last, step].into_iter(), at)
            }
            Step::ForEach { array, .. } => self.fill([array].into_iter(), at),
            _ => at,
        };
        let carried =
            registers::carried_mut(step).into_iter().flat_map(|carried| carried.iter_mut());
        Ok(self.fill(carried.map(|one| &mut one.initial), at))
    }
}

/// Queries.
impl Placing {
    fn query(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        if !query_draws(query) {
            return Ok(at);
        }
        match query {
            Query::Values(rows) => {
                let row = |at, row: &mut Box<[Expr]>| self.fill(row.iter_mut(), at);
                Ok(rows.iter_mut().fold(at, row))
            }
            Query::Unnest(_) | Query::Series { .. } => {
                let mut exprs = Vec::new();
                each_query_expr_mut(query, &mut |expr| exprs.push(expr));
                Ok(self.fill(exprs.into_iter(), at))
            }
            Query::Limit { input, limit, offset } => {
                let at = self.query(input, at)?;
                Ok(self.fill(limit.iter_mut().chain(offset), at))
            }
            Query::Filter { .. } | Query::Project { .. } | Query::Aggregate { .. } => {
                self.each_row(query, at)
            }
            Query::Sort { input, keys } if !keys.iter().any(|key| key.expr.draws()) => {
                self.query(input, at)
            }
            Query::Distinct { input } | Query::Numbered { input, .. } => self.query(input, at),
            Query::Append(inputs) => {
                inputs.iter_mut().try_fold(at, |at, input| self.query(input, at))
            }
            Query::NestedLoop { .. } | Query::HashJoin { .. } => self.join(query, at),
            Query::Get { .. } | Query::Scan { .. } | Query::Sort { .. } => Err(not_here()),
        }
    }

    /// An operator that evaluates its expressions once for each row of its input.
    fn each_row(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        let (Query::Filter { input, .. }
        | Query::Project { input, .. }
        | Query::Aggregate { input, .. }) = query
        else {
            return Ok(at);
        };
        let at = self.query(input, at)?;
        let width = input.width();
        let number = Expr::Column(width);
        let mut exprs = Vec::new();
        each_query_expr_mut(query, &mut |expr| exprs.push(expr));
        let places = self.filling.fill(exprs.into_iter(), &number);
        let (Query::Filter { input, .. }
        | Query::Project { input, .. }
        | Query::Aggregate { input, .. }) = query
        else {
            return Ok(at);
        };
        if places == 0 {
            return Ok(at);
        }
        let numbered = std::mem::replace(&mut **input, Query::Values(Box::default()));
        **input = Query::Numbered { input: Box::new(numbered), first: at.expr(), step: places };
        if let Query::Filter { .. } = query {
            // Nothing above sees the number.
            let filter = std::mem::replace(query, Query::Values(Box::default()));
            let expressions = (0..width).map(Expr::Column).collect();
            *query = Query::Project { input: Box::new(filter), expressions };
        }
        Ok(at.after(places * ROWS_MAX))
    }

    fn join(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        let mut draws = false;
        visit::each_query_expr(query, &mut |expr| draws |= expr.draws());
        let (Query::NestedLoop { outer, inner, .. } | Query::HashJoin { outer, inner, .. }) = query
        else {
            return Ok(at);
        };
        if draws {
            return Err(not_here());
        }
        let at = self.query(outer, at)?;
        self.query(inner, at)
    }
}

fn not_here() -> Error {
    Error::unsupported("a random value in the condition of an outer join")
        .with_hint("Draw it in a subquery in FROM, or in WHERE.")
}

#[cfg(test)]
mod tests;
