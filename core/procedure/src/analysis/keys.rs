//! The key plan: which rows a call will touch, told from its arguments before it runs.
//!
//! Calvin and BOHM call it the read and write set known in advance, ChainifyDB builds its
//! dependency graph from it, and the other protocols prefetch with it. It is a *slice* of the
//! procedure (Weiser, 1981): the steps that no data are needed for, with each access replaced by a
//! note of its key.
//!
//! ```text
//!   Read accounts[$1] → r3          note accounts[$1]
//!   Require r3.found                ─
//!   ForEach item in $2              ForEach item in $2
//!     Update stock[item]              note stock[item]
//!   If r3.balance > 0               both ways, since only the data know which:
//!     Insert history[$1, $3]          note history[$1, $3]
//! ```
//!
//! What is noted is a superset of what the run touches. A plan is `Complete` when everything is
//! noted, and `Partial` when some key or range needs data; then the rest is what a reconnaissance
//! run would find (Calvin's OLLP).
//!
//! **Leads.** Of a key that is not known as a whole the first column often is: an order's number
//! needs data, its warehouse does not. That is enough to say which part of the database is touched,
//! so the plan notes it, for ranges too. A plan all of whose unplanned accesses have a lead is
//! [routable](KeyPlan::is_routable).
//!
//! **Errors.** Where evaluating the slice fails (a division by zero, an array too short), the run
//! would fail at the same point and touch nothing after it: the plan ends there too. In a branch
//! that may not be taken, only the branch ends.

mod hints;

pub use hints::Hints;

use std::ops::Bound;

use types::{Error, IndexId, Key, SqlState, TableId, Value};

use super::visit::each_query;
use super::{StepId, visit};
use crate::access::Range;
use crate::expr::{Expr, Reg};
use crate::frame::Counter;
use crate::key::{eval_index_key, eval_key};
use crate::meter::Meter;
use crate::query::Query;
use crate::step::{Block, Phi, Procedure, Step};

/// Keys and turns of loops that one plan may have.
const PLAN_STEPS_MAX: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccessMode {
    /// Existence read.
    Exists,
    /// Value read.
    Read,
    /// Update, insert or delete.
    Write,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedKey {
    pub step: StepId,
    pub table: TableId,
    pub key: Key,
    pub mode: AccessMode,
    /// False: in a branch that data decide on.
    pub certain: bool,
}

/// Everything that a call is known to touch, in program order, with repetitions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlannedAccesses {
    pub keys: Vec<PlannedKey>,
    /// Ranges that are scanned, all of them value reads.
    pub ranges: Vec<(StepId, Range)>,
    /// Of ranges, and of keys that need data.
    pub leads: Vec<Lead>,
}

/// An access to rows that agree in the first column of an index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lead {
    pub step: StepId,
    pub table: TableId,
    pub index: IndexId,
    /// That column, encoded as in a key where it cannot be NULL.
    pub column: Key,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// All keys and ranges follow from the arguments.
    Complete,
    /// Some need data.
    Partial,
}

/// See the module's documentation. Rows that are inserted under a hidden row id are left out: no
/// other transaction can have that key. Only scans meet them, so their tables are told.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    pub coverage: Coverage,
    /// Tables that may get rows under hidden row ids.
    pub appends: Box<[TableId]>,
    /// Accesses whose keys need data.
    pub unplanned: Box<[StepId]>,
    /// Accesses, ranges among them, of which not even the lead is known.
    pub leaderless: Box<[StepId]>,
    steps: Box<[PlanStep]>,
    registers: usize,
}

#[derive(Clone, Debug)]
enum PlanStep {
    Let {
        out: Reg,
        value: Expr,
    },
    Key {
        step: StepId,
        table: TableId,
        key: Box<[Expr]>,
        mode: AccessMode,
    },
    Range {
        step: StepId,
        table: TableId,
        index: IndexId,
        nullable: Box<[bool]>,
        low: Bound<Box<[Expr]>>,
        high: Bound<Box<[Expr]>>,
        reverse: bool,
    },
    Lead {
        step: StepId,
        table: TableId,
        index: IndexId,
        column: Box<Expr>,
    },
    /// `condition` follows from the arguments.
    If {
        condition: Expr,
        then: Box<[PlanStep]>,
        otherwise: Box<[PlanStep]>,
        phis: Box<[Phi]>,
    },
    /// Steps that run or not, or (in a loop) that run more than once with the same keys.
    Perhaps {
        body: Box<[PlanStep]>,
        is_loop: bool,
    },
    ForRange {
        register: Reg,
        bounds: Box<[Expr; 3]>,
        reverse: bool,
        body: Box<[PlanStep]>,
    },
    ForEach {
        register: Reg,
        array: Expr,
        body: Box<[PlanStep]>,
    },
    Require(Expr),
    /// `Raise`, `Return`.
    Stop,
    /// `Exit` (true) or `Continue`, and how many loops out.
    Leave(bool, u16),
}

impl KeyPlan {
    pub fn of(procedure: &Procedure) -> Self {
        let mut slicer = Slicer {
            known: vec![false; usize::from(procedure.registers)],
            next_step: 0,
            unplanned: Vec::new(),
            appends: Vec::new(),
            leaderless: Vec::new(),
        };
        slicer.known[..procedure.parameters.len()].fill(true);
        let steps = slicer.block(&procedure.body);
        slicer.unplanned.dedup();
        slicer.appends.sort_unstable();
        slicer.appends.dedup();
        KeyPlan {
            appends: slicer.appends.into(),
            coverage: match slicer.unplanned.is_empty() {
                true => Coverage::Complete,
                false => Coverage::Partial,
            },
            unplanned: slicer.unplanned.into(),
            leaderless: slicer.leaderless.into(),
            steps,
            registers: usize::from(procedure.registers),
        }
    }

    pub fn is_complete(&self) -> bool {
        self.coverage == Coverage::Complete
    }

    /// Of every access at least the lead is known.
    pub fn is_routable(&self) -> bool {
        self.leaderless.is_empty()
    }

    /// What a call with these arguments will touch, as far as the plan covers it.
    pub fn accesses(&self, arguments: &[Value]) -> Result<PlannedAccesses, Error> {
        let mut planning = Planning::default();
        self.evaluate(arguments, &mut planning)?;
        Ok(planning.found)
    }

    /// The same into `planning.found`, in place of what it held: its room serves call after call.
    pub fn evaluate(&self, arguments: &[Value], planning: &mut Planning) -> Result<(), Error> {
        planning.begin(arguments, self.registers);
        match planning.block(&self.steps) {
            Err(End::TooLong) => Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("the call would touch more than {PLAN_STEPS_MAX} rows"),
            )),
            Ok(_) | Err(End::Here) => Ok(()),
        }
    }

    /// The keys alone.
    pub fn keys(&self, arguments: &[Value]) -> Result<Vec<PlannedKey>, Error> {
        Ok(self.accesses(arguments)?.keys)
    }
}

/// Builds the slice. A register is known when its value follows from the arguments.
struct Slicer {
    known: Vec<bool>,
    next_step: StepId,
    unplanned: Vec<StepId>,
    appends: Vec<TableId>,
    leaderless: Vec<StepId>,
}

impl Slicer {
    fn is_known(&self, expr: &Expr) -> bool {
        !expr.any(&mut |expr| match expr {
            Expr::Column(_) | Expr::Now => true,
            Expr::Reg(register) => !self.known[usize::from(register.0)],
            _ => false,
        })
    }

    fn all_known(&self, exprs: &[Expr]) -> bool {
        exprs.iter().all(|expr| self.is_known(expr))
    }

    fn learn(&mut self, register: Reg) {
        self.known[usize::from(register.0)] = true;
    }

    fn block(&mut self, block: &[Step]) -> Box<[PlanStep]> {
        let mut steps = Vec::new();
        for (place, step) in block.iter().enumerate() {
            let id = self.next_step;
            self.next_step += 1;
            let before = steps.len();
            self.step(id, step, &mut steps);
            let mut leaves = Vec::new();
            uncertain_leaves(&steps[before..], false, 0, &mut leaves);
            if !leaves.is_empty() {
                // Data may lead past the rest of the block, so that nothing in it is certain to end
                // the plan.
                let rest = self.block(&block[place + 1..]);
                push_perhaps(rest, false, &mut steps);
                break;
            }
        }
        steps.into()
    }

    fn step(&mut self, id: StepId, step: &Step, out: &mut Vec<PlanStep>) {
        match step {
            Step::Let { out: register, value } if self.is_known(value) => {
                self.learn(*register);
                out.push(PlanStep::Let { out: *register, value: value.clone() });
            }
            Step::Require { condition, .. } if self.is_known(condition) => {
                out.push(PlanStep::Require(condition.clone()));
            }
            Step::Raise { .. } | Step::Return => out.push(PlanStep::Stop),
            Step::Exit { depth, .. } => out.push(PlanStep::Leave(true, *depth)),
            Step::Continue { depth, .. } => out.push(PlanStep::Leave(false, *depth)),
            Step::Fetch { query, .. } | Step::EmitQuery { query } => self.query(id, query, out),
            Step::ForRows { query, body, .. } => {
                self.query(id, query, out);
                let body = self.block(body);
                push_perhaps(body, true, out);
            }
            Step::ForRange { .. } | Step::ForEach { .. } => self.counted_loop(step, out),
            Step::While { body, .. } => {
                let body = self.block(body);
                push_perhaps(body, true, out);
            }
            Step::If { condition, then, otherwise, phis } => {
                self.branch(condition, then, otherwise, phis, out)
            }
            _ => self.row(id, step, out),
        }
    }

    fn row(&mut self, id: StepId, step: &Step, out: &mut Vec<PlanStep>) {
        if let Step::Insert { table, hidden_row_id: true, .. } = step {
            self.appends.push(*table);
        }
        let Some((table, key)) = visit::row_access(step) else {
            return;
        };
        let mode = match step {
            Step::Exists { .. } => AccessMode::Exists,
            Step::Read { .. } => AccessMode::Read,
            _ => AccessMode::Write,
        };
        if key.iter().all(|expr| self.is_known(expr)) {
            out.push(PlanStep::Key {
                step: id,
                table,
                key: key.into_iter().cloned().collect(),
                mode,
            });
        } else {
            self.unplanned.push(id);
            self.lead(id, table, 0, key.first().copied(), out);
        }
    }

    fn lead(
        &mut self,
        step: StepId,
        table: TableId,
        index: IndexId,
        column: Option<&Expr>,
        out: &mut Vec<PlanStep>,
    ) {
        match column {
            Some(column) if self.is_known(column) => {
                let column = Box::new(column.clone());
                out.push(PlanStep::Lead { step, table, index, column });
            }
            _ => self.leaderless.push(step),
        }
    }

    fn query(&mut self, id: StepId, query: &Query, out: &mut Vec<PlanStep>) {
        each_query(query, &mut |query| self.row_source(id, query, out));
    }

    fn row_source(&mut self, id: StepId, query: &Query, out: &mut Vec<PlanStep>) {
        if let Query::Scan { table, index, low, high, .. } = query {
            let (low, high) = (visit::bound_exprs(low).first(), visit::bound_exprs(high).first());
            self.lead(id, *table, *index, low.filter(|_| low == high), out);
        }
        match query {
            Query::Get { table, key, .. } if self.all_known(key) => out.push(PlanStep::Key {
                step: id,
                table: *table,
                key: key.clone(),
                mode: AccessMode::Read,
            }),
            Query::Scan { table, index, nullable, low, high, reverse, .. }
                if self.all_known(visit::bound_exprs(low))
                    && self.all_known(visit::bound_exprs(high)) =>
            {
                out.push(PlanStep::Range {
                    step: id,
                    table: *table,
                    index: *index,
                    nullable: nullable.clone(),
                    low: low.clone(),
                    high: high.clone(),
                    reverse: *reverse,
                });
            }
            Query::Get { table, key, .. } => {
                self.unplanned.push(id);
                self.lead(id, *table, 0, key.first(), out);
            }
            Query::Scan { .. } => self.unplanned.push(id),
            _ => {}
        }
    }

    fn branch(
        &mut self,
        condition: &Expr,
        then: &Block,
        otherwise: &Block,
        phis: &[Phi],
        out: &mut Vec<PlanStep>,
    ) {
        let is_known = self.is_known(condition);
        let (then, otherwise) = (self.block(then), self.block(otherwise));
        if !is_known {
            push_perhaps(then, false, out);
            push_perhaps(otherwise, false, out);
            return;
        }
        let known = |phi: &&Phi| self.is_known(&phi.then) && self.is_known(&phi.otherwise);
        let phis: Box<[Phi]> = phis.iter().filter(known).cloned().collect();
        phis.iter().for_each(|phi| self.learn(phi.out));
        out.push(PlanStep::If { condition: condition.clone(), then, otherwise, phis });
    }

    /// A loop whose turns may follow from the arguments. What it carries is taken for unknown.
    fn counted_loop(&mut self, step: &Step, out: &mut Vec<PlanStep>) {
        match step {
            Step::ForRange { register, first, last, step, reverse, body, .. } => {
                let bounds = [first, last, step].map(Expr::clone);
                if !self.all_known(&bounds) {
                    let body = self.block(body);
                    return push_perhaps(body, true, out);
                }
                self.learn(*register);
                let body = self.block(body);
                let turns = PlanStep::ForRange {
                    register: *register,
                    bounds: Box::new(bounds),
                    reverse: *reverse,
                    body,
                };
                push_loop(turns, out);
            }
            Step::ForEach { register, array, body, .. } => {
                if !self.is_known(array) {
                    let body = self.block(body);
                    return push_perhaps(body, true, out);
                }
                self.learn(*register);
                let body = self.block(body);
                let turns = PlanStep::ForEach { register: *register, array: array.clone(), body };
                push_loop(turns, out);
            }
            _ => {}
        }
    }
}

fn push_perhaps(body: Box<[PlanStep]>, is_loop: bool, out: &mut Vec<PlanStep>) {
    if !body.is_empty() {
        out.push(PlanStep::Perhaps { body, is_loop });
    }
}

/// A loop that data may end early does not say of its later turns that they happen.
fn push_loop(turns: PlanStep, out: &mut Vec<PlanStep>) {
    let (PlanStep::ForRange { body, .. } | PlanStep::ForEach { body, .. }) = &turns else {
        return;
    };
    let mut leaves = Vec::new();
    uncertain_leaves(body, false, 0, &mut leaves);
    if leaves.iter().any(|(exit, depth)| *exit || *depth > 0) {
        push_perhaps([turns].into(), false, out);
    } else {
        out.push(turns);
    }
}

/// Ways out of `steps` that data decide on: whether it is an exit, and how many loops out, counted
/// from around `steps`. `loops` are those between there and here.
fn uncertain_leaves(
    steps: &[PlanStep],
    is_uncertain: bool,
    loops: u16,
    leaves: &mut Vec<(bool, u16)>,
) {
    for step in steps {
        match step {
            PlanStep::Leave(exit, depth) if is_uncertain && *depth >= loops => {
                leaves.push((*exit, depth - loops));
            }
            PlanStep::Perhaps { body, is_loop } => {
                uncertain_leaves(body, true, loops + u16::from(*is_loop), leaves);
            }
            PlanStep::If { then, otherwise, .. } => {
                uncertain_leaves(then, is_uncertain, loops, leaves);
                uncertain_leaves(otherwise, is_uncertain, loops, leaves);
            }
            PlanStep::ForRange { body, .. } | PlanStep::ForEach { body, .. } => {
                uncertain_leaves(body, is_uncertain, loops + 1, leaves);
            }
            _ => {}
        }
    }
}

/// Runs slices.
#[derive(Default, Debug)]
pub struct Planning {
    registers: Vec<Value>,
    /// Of the last call.
    pub found: PlannedAccesses,
    /// How many `Perhaps` there are around.
    uncertain: u32,
    steps_left: u64,
}

/// Why a plan, or a branch of it that may not be taken, ends before its last step.
enum End {
    Here,
    TooLong,
}

impl From<Error> for End {
    fn from(_: Error) -> Self {
        End::Here
    }
}

type Flow = Option<(bool, u16)>;

impl Planning {
    fn begin(&mut self, arguments: &[Value], registers: usize) {
        self.registers.resize(registers.max(arguments.len()), Value::Null);
        let (given, others) = self.registers.split_at_mut(arguments.len());
        given.clone_from_slice(arguments);
        for other in others {
            other.set(Value::Null);
        }
        self.found.keys.clear();
        self.found.ranges.clear();
        self.found.leads.clear();
        self.uncertain = 0;
        self.steps_left = PLAN_STEPS_MAX;
    }

    fn eval(&self, expr: &Expr) -> Result<Value, Error> {
        expr.eval(&self.registers, &[], 0)
    }

    fn set(&mut self, register: Reg, value: Value) {
        self.registers[usize::from(register.0)].set(value);
    }

    fn holds(&self, condition: &Expr) -> Result<bool, Error> {
        Ok(condition.eval_truth(&self.registers, &[], 0)? == Some(true))
    }

    fn spend(&mut self) -> Result<(), End> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(End::TooLong)?;
        Ok(())
    }

    fn block(&mut self, steps: &[PlanStep]) -> Result<Flow, End> {
        for step in steps {
            let flow = self.step(step)?;
            if flow.is_some() {
                return Ok(flow);
            }
        }
        Ok(None)
    }

    fn step(&mut self, step: &PlanStep) -> Result<Flow, End> {
        self.spend()?;
        match step {
            PlanStep::Let { out, value } => {
                let value = self.eval(value)?;
                self.set(*out, value);
            }
            PlanStep::Key { .. } => self.key(step)?,
            PlanStep::Range { .. } => self.range(step)?,
            PlanStep::Lead { step, table, index, column } => {
                let key = eval_key(std::slice::from_ref(&**column), &self.registers, &[], 0)?;
                let (step, table, index) = (*step, *table, *index);
                let lead = key.map(|column| Lead { step, table, index, column });
                self.found.leads.extend(lead);
            }
            PlanStep::Require(condition) => {
                if !self.holds(condition)? {
                    return Err(End::Here);
                }
            }
            PlanStep::Stop => return Err(End::Here),
            PlanStep::Leave(exit, depth) => return Ok(Some((*exit, *depth))),
            PlanStep::Perhaps { body, .. } => {
                self.uncertain += 1;
                let end = self.block(body);
                self.uncertain -= 1;
                if let Err(End::TooLong) = end {
                    return Err(End::TooLong);
                }
            }
            PlanStep::If { condition, then, otherwise, phis } => {
                let taken = self.holds(condition)?;
                let flow = self.block(if taken { then } else { otherwise })?;
                if flow.is_some() {
                    return Ok(flow);
                }
                for phi in phis {
                    let value = self.eval(if taken { &phi.then } else { &phi.otherwise })?;
                    self.set(phi.out, value);
                }
            }
            PlanStep::ForRange { register, bounds, reverse, body } => {
                let [first, last, by] = &**bounds;
                let (first, last, by) = (self.eval(first)?, self.eval(last)?, self.eval(by)?);
                let turns = Counter::from_values(&first, &last, &by, *reverse)?;
                return self.turns(*register, turns.map(Value::Int), body);
            }
            PlanStep::ForEach { register, array, body } => {
                let Value::Array(elements) = self.eval(array)? else {
                    return Err(End::Here);
                };
                return self.turns(*register, elements.iter().map(Value::copied), body);
            }
        }
        Ok(None)
    }

    fn turns(
        &mut self,
        register: Reg,
        values: impl Iterator<Item = Value>,
        body: &[PlanStep],
    ) -> Result<Flow, End> {
        for value in values {
            self.spend()?;
            self.set(register, value);
            match self.block(body)? {
                None | Some((false, 0)) => {}
                Some((true, 0)) => break,
                Some((exit, depth)) => return Ok(Some((exit, depth - 1))),
            }
        }
        Ok(None)
    }

    fn key(&mut self, step: &PlanStep) -> Result<(), End> {
        let PlanStep::Key { step, table, key, mode } = step else {
            return Ok(());
        };
        if let Some(key) = eval_key(key, &self.registers, &[], 0)? {
            self.found.keys.push(PlannedKey {
                step: *step,
                table: *table,
                key,
                mode: *mode,
                certain: self.uncertain == 0,
            });
        }
        Ok(())
    }

    fn range(&mut self, step: &PlanStep) -> Result<(), End> {
        let PlanStep::Range { step, table, index, nullable, low, high, reverse } = step else {
            return Ok(());
        };
        let (Some(low), Some(high)) = (self.bound(low, nullable)?, self.bound(high, nullable)?)
        else {
            return Ok(());
        };
        let range = Range { table: *table, index: *index, low, high, reverse: *reverse };
        self.found.ranges.push((*step, range));
        Ok(())
    }

    /// `None`: a bound is NULL, so that no row is in the range.
    fn bound(
        &self,
        bound: &Bound<Box<[Expr]>>,
        nullable: &[bool],
    ) -> Result<Option<Bound<Key>>, Error> {
        let meter = Meter::of_expression();
        let key = |exprs: &[Expr]| eval_index_key(exprs, nullable, &self.registers, &[], 0, &meter);
        Ok(match bound {
            Bound::Unbounded => Some(Bound::Unbounded),
            Bound::Included(exprs) => key(exprs)?.map(Bound::Included),
            Bound::Excluded(exprs) => key(exprs)?.map(Bound::Excluded),
        })
    }
}
