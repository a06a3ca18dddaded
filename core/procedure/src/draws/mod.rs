//! Assigns each random draw in a program its position, so that all replicas draw the same values.
//!
//! Expressions are pure, `random()` included: it is a function of a seed, a lane and a position
//! (see [`chance`](crate::chance)). The compiler emits a call without these arguments, marked with
//! a unique number; [`place`] adds them once the program is complete:
//!
//! * seed and lane become two further parameters, after those visible to the caller. Code that
//!   knows a program's arguments in advance, such as key planners, queues and replay, thus knows
//!   its draws as well;
//! * the position counts draws in execution order. In straight-line code it is a constant. Where
//!   two branches join, counting continues after the longer one; a loop that draws carries the
//!   position from turn to turn;
//! * a query numbers the rows for which it draws ([`Query::Numbered`]).
//!
//! Values of [`sequences`](crate::sequences) are placed in the same way. Each sequence has its own
//! count and adds one parameter; how many values a program takes is [counted](count).
//!
//! ```text
//!   INSERT … VALUES (random())          let r3 := random(seed, lane, 0)
//!   FOR i IN 1..n LOOP                  for i in 1 to n        carried r5 = 1, next r5 + 2
//!     a := random();                      let r6 := random(seed, lane, r5)
//!     b := gen_random_uuid();             let r7 := gen_random_uuid(seed, lane, r5 + 1)
//!   SELECT random() FROM t              select random(seed, lane, n)  of  t numbered from r5
//! ```
//!
//! *Invariant.* A position depends on the program and its execution path alone. A draw is therefore
//! the same on every replica, with any number of threads, after a restart, and when a single step
//! is run again. Two calls with the same mark in one step or row are one draw, so an expression may
//! be copied.
//!
//! *Cost.* A program that does not draw gets no additional parameters or registers.

mod count;
mod registers;

use types::{DataType, Error, Result, TableId, Value};

use crate::analysis::visit;
use crate::chance::{self, Seed};
use crate::expr::{BinaryOp, Expr, Reg};
use crate::functions::Function;
use crate::query::{Aggregate, AggregateFunction, Query, WindowCall};
use crate::step::{Block, Carried, Column, Phi, Procedure, SequenceNeed, SequenceUse, Step};
use registers::{each_query_expr_mut, each_step_expr_mut};

/// Rows that one query may number.
pub const ROWS_MAX: i64 = 1 << 24;

/// The parameters that no caller gives, for random values.
const HIDDEN: u16 = 2;

/// What a call draws from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Chance,
    /// Its next values.
    Sequence(TableId),
    /// The value that the session took of it last.
    Current(TableId),
}

impl Source {
    fn of(expr: &Expr) -> Option<Source> {
        let Expr::Call { function, arguments, .. } = expr else { return None };
        let sequence = || match arguments.first() {
            Some(Expr::Const(Value::Int(id))) => u32::try_from(*id).ok().map(TableId),
            _ => None,
        };
        match function {
            Function::Nextval => sequence().map(Source::Sequence),
            Function::Currval => sequence().map(Source::Current),
            function => function.draws().then_some(Source::Chance),
        }
    }

    fn is_drawn_in(self, expr: &Expr) -> bool {
        expr.any(&mut |expr| Source::of(expr) == Some(self))
    }
}

impl Expr {
    /// Whether it draws a random value, or one of a sequence.
    pub fn draws(&self) -> bool {
        self.any(&mut |expr| Source::of(expr).is_some())
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
        Function::Nextval | Function::Currval => &arguments[..1],
        _ => &arguments[..arguments.len() - added],
    }
}

impl Procedure {
    /// The parameters that a caller gives.
    pub fn visible_parameters(&self) -> &[Column] {
        &self.parameters[..self.given_parameters().len() - self.sequences.len()]
    }

    /// Those and the values of sequences: what a transaction's bytes hold.
    pub fn given_parameters(&self) -> &[Column] {
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
pub fn seed_expression(expr: &mut Expr, seed: Seed) {
    let constant = |value| Expr::Const(value);
    let hidden = vec![constant(Value::Uuid(seed)), constant(Value::Int(0))];
    let filling = Filling { source: Source::Chance, hidden };
    filling.fill([expr].into_iter(), &constant(Value::Int(0)));
}

/// Gives each draw of a complete program its place. Nothing changes where there is none.
///
/// # Errors
/// 0A000 for a draw where rows are not numbered: in a join's condition, say; and for values of a
/// sequence after a query that has taken as many of it as it has rows.
pub fn place(procedure: &mut Procedure) -> Result<()> {
    let mut sources: Vec<Source> = Vec::new();
    for step in visit::numbered(&procedure.body) {
        visit::each_step_expr(step, &mut |_, expr| {
            expr.walk(&mut |expr| {
                sources.extend(Source::of(expr).filter(|source| !sources.contains(source)));
            });
        });
    }
    for source in &sources {
        let used = match *source {
            Source::Chance => continue,
            Source::Sequence(sequence) => {
                let used = count::uses(procedure, *source, sequence);
                let values = DataType::Array(DataType::Int8.into());
                place_all(procedure, *source, &[("(values)", values)])?;
                used
            }
            Source::Current(sequence) => {
                let takes_it = |of: TableId| of == sequence || sequence.0 == 0;
                if sources
                    .iter()
                    .any(|other| matches!(other, Source::Sequence(of) if takes_it(*of)))
                {
                    return Err(current_is_taken());
                }
                let pair = DataType::Array(DataType::Int8.into());
                place_all(procedure, *source, &[("(current)", pair)])?;
                SequenceUse { sequence, need: SequenceNeed::Current }
            }
        };
        procedure.sequences = procedure.sequences.iter().copied().chain([used]).collect();
    }
    if sources.contains(&Source::Chance) {
        let hidden = [("(seed)", DataType::Uuid), ("(lane)", DataType::Int8)];
        place_all(procedure, Source::Chance, &hidden)?;
        procedure.draws = true;
    }
    Ok(())
}

/// `hidden`: the parameters that its draws follow from.
fn place_all(procedure: &mut Procedure, source: Source, hidden: &[(&str, DataType)]) -> Result<()> {
    let (first, count) = (procedure.parameters.len() as u16, hidden.len() as u16);
    registers::make_room(procedure, first, count)?;
    for (name, data_type) in hidden {
        let column = Column { name: (*name).to_owned(), data_type: data_type.clone() };
        procedure.parameters.push(column);
    }
    let hidden = (first..first + count).map(|register| Expr::Reg(Reg(register))).collect();
    let filling = Filling { source, hidden };
    let mut placing = Placing { filling, registers: procedure.registers, loops: Vec::new() };
    placing.block(&mut procedure.body, Place { base: None, offset: 0 })?;
    procedure.registers = placing.registers;
    Ok(())
}

fn block_draws(block: &Block, source: Source) -> bool {
    visit::numbered(block).into_iter().any(|step| step_draws(step, source))
}

/// Whether a step itself does, those inside it excepted.
fn step_draws(step: &Step, source: Source) -> bool {
    let mut draws = false;
    visit::each_step_expr(step, &mut |_, expr| draws |= source.is_drawn_in(expr));
    draws
}

/// Whether a loop does in each of its turns.
fn each_turn_draws(step: &Step, source: Source) -> bool {
    let condition_draws =
        matches!(step, Step::While { condition, .. } if source.is_drawn_in(condition));
    let next_draws = visit::carried(step).iter().any(|carried| source.is_drawn_in(&carried.next));
    let mut blocks = visit::blocks(step).into_iter().flatten();
    condition_draws || next_draws || blocks.any(|block| block_draws(block, source))
}

fn query_draws(query: &Query, source: Source) -> bool {
    let mut draws = false;
    visit::each_query(query, &mut |query| {
        visit::each_query_expr(query, &mut |expr| draws |= source.is_drawn_in(expr));
    });
    draws
}

/// How many places lie before: what registers say, and `offset` more.
#[derive(Clone)]
struct Place {
    base: Option<Expr>,
    offset: i64,
}

impl Place {
    fn at(register: Reg) -> Place {
        Place { base: Some(Expr::Reg(register)), offset: 0 }
    }

    fn expr(&self) -> Expr {
        match &self.base {
            Some(base) => plus(base, self.offset),
            None => Expr::Const(Value::Int(self.offset)),
        }
    }

    fn after(self, places: i64) -> Place {
        Place { offset: self.offset + places, ..self }
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result: DataType::Int8 }
}

/// How many rows an array was made of that is NULL where there was none.
fn rows_of(array: Reg) -> Expr {
    let length = Expr::Call {
        function: Function::Cardinality,
        arguments: [Expr::Reg(array)].into(),
        result: DataType::Int8,
    };
    Expr::Coalesce([length, Expr::Const(Value::Int(0))].into())
}

/// A query that makes an array of a value of each row, and draws for each of these rows alone: how
/// often for one.
fn draws_for_an_array(query: &Query, source: Source) -> Option<i64> {
    let Query::Aggregate { input, groups, sets, aggregates } = query else { return None };
    let whole = |aggregate: &Aggregate| {
        aggregate.function == AggregateFunction::ArrayAgg
            && !aggregate.distinct
            && aggregate.filter.is_none()
    };
    let Query::Project { input, .. } = &**input else { return None };
    let Query::Numbered { input, step, .. } = &**input else { return None };
    let is_whole = groups.is_empty() && sets.is_empty();
    let is_it = is_whole && aggregates.first().is_some_and(whole);
    (is_it && count::rows_max(input).is_none() && !query_draws(input, source)).then_some(*step)
}

fn plus(base: &Expr, more: i64) -> Expr {
    match base {
        _ if more == 0 => base.clone(),
        Expr::Const(Value::Int(base)) => Expr::Const(Value::Int(base + more)),
        base => binary(BinaryOp::Add, base.clone(), Expr::Const(Value::Int(more))),
    }
}

/// Completes calls.
struct Filling {
    source: Source,
    /// Stands before the position.
    hidden: Vec<Expr>,
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
        if Source::of(expr) != Some(self.source) {
            return;
        }
        let Expr::Call { arguments, .. } = expr else { return };
        if !arguments.last().is_some_and(is_mark) {
            return;
        }
        let mut given = std::mem::take(arguments).into_vec();
        let mark = given.pop();
        let known = marks.iter().position(|known| *known == mark);
        let place = known.unwrap_or_else(|| {
            marks.push(mark);
            marks.len() - 1
        });
        given.extend(self.hidden.iter().cloned().chain([plus(base, place as i64)]));
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

    fn fill<'e>(&self, exprs: impl Iterator<Item = &'e mut Expr>, at: Place) -> Result<Place> {
        match self.filling.fill(exprs, &at.expr()) {
            0 => Ok(at),
            places => Ok(self.counted(at)?.after(places)),
        }
    }

    /// A place that something is drawn at, or that is carried on.
    fn counted(&self, at: Place) -> Result<Place> {
        match self.filling.source {
            Source::Sequence(_) if at.offset >= ROWS_MAX => Err(Error::unsupported(
                "a value of a sequence behind a query that takes one for each of its rows",
            )
            .with_hint("Take the values in two statements.")),
            _ => Ok(at),
        }
    }

    /// Where a query ends that has drawn so often for each row of `input`.
    fn behind_rows(&self, at: Place, places: i64, rows_max: Option<u64>) -> Place {
        let known = match self.filling.source {
            Source::Sequence(_) => rows_max.and_then(|rows| i64::try_from(rows).ok()),
            // How far it is does not matter there, but must not change.
            _ => None,
        };
        at.after(places.saturating_mul(known.map_or(ROWS_MAX, |rows| rows.min(ROWS_MAX))))
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
            Step::Fetch { query, outputs, .. } => {
                let first = at.clone();
                let behind = self.query(query, at)?;
                let places = match self.filling.source {
                    Source::Sequence(_) => draws_for_an_array(query, self.filling.source),
                    _ => None,
                };
                // Where it ends is known once it has run.
                Ok(match places.zip(outputs.first()) {
                    Some((places, array)) => {
                        let times = Expr::Const(Value::Int(places));
                        let drawn = binary(BinaryOp::Multiply, times, rows_of(*array));
                        let base = Some(binary(BinaryOp::Add, first.expr(), drawn));
                        Place { base, offset: 0 }
                    }
                    None => behind,
                })
            }
            Step::EmitQuery { query } => self.query(query, at),
            Step::Exit { depth, values } | Step::Continue { depth, values } => {
                let at = self.fill(values.iter_mut(), at)?;
                let around = self.loops.len().checked_sub(usize::from(*depth) + 1);
                if around.is_some_and(|around| self.loops[around]) {
                    let mut more = std::mem::take(values).into_vec();
                    more.push(self.counted(at.clone())?.expr());
                    *values = more.into();
                }
                Ok(at)
            }
            step => {
                let mut exprs = Vec::new();
                each_step_expr_mut(step, &mut |expr| exprs.push(expr));
                self.fill(exprs.into_iter(), at)
            }
        }
    }

    fn branch(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let Step::If { condition, then, otherwise, phis } = step else { return Ok(at) };
        let at = self.fill([condition].into_iter(), at)?;
        let (one, other) = (self.block(then, at.clone())?, self.block(otherwise, at)?);
        let one = self.fill(phis.iter_mut().map(|phi| &mut phi.then), one)?;
        let other = self.fill(phis.iter_mut().map(|phi| &mut phi.otherwise), other)?;
        if one.base == other.base {
            return Ok(Place { offset: one.offset.max(other.offset), ..one });
        }
        let out = self.register()?;
        let mut more = std::mem::take(phis).into_vec();
        let (then, otherwise) = (self.counted(one)?.expr(), self.counted(other)?.expr());
        more.push(Phi { out, then, otherwise });
        *phis = more.into();
        Ok(Place::at(out))
    }

    fn turns(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let counts = each_turn_draws(step, self.filling.source);
        let at = self.entry(step, at)?;
        let position = counts.then(|| self.register()).transpose()?;
        let inside = position.map_or(at.clone(), Place::at);
        let turn = match step {
            Step::While { condition, .. } => self.fill([condition].into_iter(), inside)?,
            _ => inside,
        };
        self.loops.push(counts);
        let end = match step {
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => self.block(body, turn.clone()),
            _ => Ok(turn.clone()),
        };
        self.loops.pop();
        let Some(carried) = registers::carried_mut(step) else { return end };
        let end = self.fill(carried.iter_mut().map(|one| &mut one.next), end?)?;
        if let Some(register) = position {
            let mut more = std::mem::take(carried).into_vec();
            let (initial, next) = (self.counted(at)?.expr(), self.counted(end)?.expr());
            more.push(Carried { register, initial, next });
            *carried = more.into();
        }
        Ok(turn)
    }

    /// What a loop evaluates once, before its first turn.
    fn entry(&mut self, step: &mut Step, at: Place) -> Result<Place> {
        let at = match step {
            Step::ForRows { query, .. } => self.query(query, at)?,
            Step::ForRange { first, last, step, .. } => {
                self.fill([first, last, step].into_iter(), at)?
            }
            Step::ForEach { array, .. } => self.fill([array].into_iter(), at)?,
            _ => at,
        };
        let carried =
            registers::carried_mut(step).into_iter().flat_map(|carried| carried.iter_mut());
        self.fill(carried.map(|one| &mut one.initial), at)
    }
}

/// Queries.
impl Placing {
    fn query(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        if !query_draws(query, self.filling.source) {
            return Ok(at);
        }
        match query {
            Query::Values(rows) => {
                let row = |at, row: &mut Box<[Expr]>| self.fill(row.iter_mut(), at);
                rows.iter_mut().try_fold(at, row)
            }
            Query::Call { .. } => {
                let mut exprs = Vec::new();
                each_query_expr_mut(query, &mut |expr| exprs.push(expr));
                self.fill(exprs.into_iter(), at)
            }
            Query::Limit { input, limit, offset } => {
                let at = self.query(input, at)?;
                self.fill(limit.iter_mut().chain(offset), at)
            }
            Query::Filter { .. } | Query::Project { .. } | Query::Aggregate { .. } => {
                self.each_row(query, at)
            }
            Query::Sort { input, keys }
                if !keys.iter().any(|key| self.filling.source.is_drawn_in(&key.expr)) =>
            {
                self.query(input, at)
            }
            Query::Distinct { input, .. } | Query::Numbered { input, .. } => self.query(input, at),
            Query::Append(inputs) | Query::RowsFrom { inputs, .. } => {
                inputs.iter_mut().try_fold(at, |at, input| self.query(input, at))
            }
            Query::Sets { inputs, .. } => {
                inputs.iter_mut().try_fold(at, |at, input| self.query(input, at))
            }
            Query::Apply { .. } => self.outside_of_subquery(query, at),
            Query::Recursive { start, step, .. } => match query_draws(step, self.filling.source) {
                true => Err(not_in_steps()),
                false => self.query(start, at),
            },
            Query::CameLast { .. } | Query::Around { .. } => Ok(at),
            Query::Window { input, calls }
                if !calls.iter().flat_map(WindowCall::exprs).any(Expr::draws) =>
            {
                self.query(input, at)
            }
            Query::NestedLoop { .. } | Query::HashJoin { .. } => self.join(query, at),
            Query::Window { .. } => Err(not_in_windows()),
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
        let (at, rows_max) = (self.counted(at)?, count::rows_max(input));
        let numbered = std::mem::replace(&mut **input, Query::Values(Box::default()));
        **input = Query::Numbered { input: Box::new(numbered), first: at.expr(), step: places };
        if let Query::Filter { .. } = query {
            // Nothing above sees the number.
            let filter = std::mem::replace(query, Query::Values(Box::default()));
            let expressions = (0..width).map(Expr::Column).collect();
            *query = Query::Project { input: Box::new(filter), expressions };
        }
        Ok(self.behind_rows(at, places, rows_max))
    }

    /// What is inside runs again for each row outside, and would draw the same again.
    fn outside_of_subquery(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        let (mut draws, source) = (false, self.filling.source);
        visit::each_query_expr(query, &mut |expr| draws |= source.is_drawn_in(expr));
        match query {
            Query::Apply { outer, inner, .. } if !draws && !query_draws(inner, source) => {
                self.query(outer, at)
            }
            _ => Err(not_in_subqueries()),
        }
    }

    fn join(&mut self, query: &mut Query, at: Place) -> Result<Place> {
        let mut draws = false;
        let source = self.filling.source;
        // What is inside one runs again for each row outside.
        let is_loop = matches!(query, Query::NestedLoop { .. });
        visit::each_query_expr(query, &mut |expr| draws |= source.is_drawn_in(expr));
        let (Query::NestedLoop { outer, inner, .. } | Query::HashJoin { outer, inner, .. }) = query
        else {
            return Ok(at);
        };
        if draws {
            return Err(not_here());
        }
        if is_loop && matches!(source, Source::Sequence(_)) && query_draws(inner, source) {
            return Err(not_here());
        }
        let at = self.query(outer, at)?;
        self.query(inner, at)
    }
}

fn current_is_taken() -> Error {
    let what = "currval() of a sequence that the same statement or routine takes values of";
    Error::unsupported(what).with_hint("Keep what nextval() or RETURNING gave.")
}

fn not_in_windows() -> Error {
    Error::unsupported("drawing a value in a window function")
        .with_hint("Draw it in a subquery in FROM.")
}

fn not_in_steps() -> Error {
    Error::unsupported("drawing a value in the recursive term of WITH RECURSIVE")
}

fn not_in_subqueries() -> Error {
    Error::unsupported("drawing a value in a subquery that refers to the outer query")
}

fn not_here() -> Error {
    Error::unsupported("drawing a value in the condition of an outer join")
        .with_hint("Draw it in a subquery in FROM, or in WHERE.")
}

#[cfg(test)]
mod tests;
