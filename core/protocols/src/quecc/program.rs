//! Fragment plans: what is known of a procedure before any of its calls.
//!
//! A procedure is *cut* when every access names its record by arguments, turn by turn of a loop,
//! and happens whatever the data say:
//!
//! ```text
//!   Read a[$1] → r3                     template 0   once
//!   Let r5 = r3 + $2                    ─            substituted where r5 is used
//!   Update b[$1] by r5                  template 1   once, needs column 0 of template 0
//!   ForEach k in $3                     part 1
//!     Update c[k] by r3                 template 2   a fragment for each turn
//!     If found then n := n + 1          ─            a reduction: count the turns that found
//!   Require r5 < 9; Emit n              ─            the epilogue
//! ```
//!
//! Computation between accesses is pure, so it is substituted into the expressions of the accesses
//! that need it; what only the answer needs is left to the *epilogue*. That is either a few sums
//! ([`Epilogue::Reduced`]) or the procedure itself once more, through the ordinary interpreter, on
//! what its fragments published ([`Epilogue::Replayed`]): control flow, guards, errors and the
//! meter mean there what they mean everywhere.

use std::ops::Range;
use std::sync::Arc;

use procedure::analysis::{Abortable, Analysis, CommandClass, CommandFacts, KeyPlan, visit};
use procedure::step::{Block, Carried, Procedure, Step};
use procedure::{BinaryOp, CommandCode, Expr, Query, Reg};
use rustc_hash::FxHashMap;
use types::{DataType, TableId, Value};

use super::action::Action;

/// Expressions that grow beyond this by substitution are not worth it.
const NODES_MAX: usize = 128;

/// Starts of sums beyond this could overflow.
const INITIAL_MAX: i64 = 1 << 40;
const STEP_MAX: i64 = 1 << 20;

/// What is kept of a procedure from block to block.
pub struct Compiled {
    /// Keeps the address taken by which it is found.
    pub procedure: Arc<Procedure>,
    pub keys: KeyPlan,
    pub written: Box<[TableId]>,
    pub is_read_only: bool,
    pub program: Option<Program>,
}

impl Compiled {
    pub fn of(procedure: &Arc<Procedure>) -> Compiled {
        let analysis = Analysis::of(procedure);
        let tables = analysis.footprint.tables.iter();
        let written = tables.filter(|(_, table)| table.is_written()).map(|(id, _)| *id);
        Compiled {
            written: written.collect(),
            is_read_only: analysis.footprint.is_read_only(),
            // No meter runs with fragments, but with update commands, which have their own.
            program: procedure
                .is_brief()
                .then(|| Cutter::new(procedure).program(&analysis))
                .flatten(),
            keys: analysis.keys,
            procedure: Arc::clone(procedure),
        }
    }
}

pub struct Program {
    pub parts: Box<[Part]>,
    /// Of all parts, in program order.
    pub templates: Box<[Template]>,
    pub epilogue: Epilogue,
    pub registers: u16,
    /// Arguments that may have texts, or other bytes beside their values.
    pub texts: Box<[u16]>,
    /// Whether, and how, a call may be rejected after some of its fragments have run.
    pub abortable: Abortable,
    /// Some fragment needs what another one publishes.
    pub has_data_dependencies: bool,
}

impl Program {
    pub fn reductions(&self) -> u32 {
        match &self.epilogue {
            Epilogue::Reduced { reductions, .. } => u32::from(*reductions),
            Epilogue::Replayed => 0,
        }
    }

    pub fn publishes(&self) -> bool {
        matches!(self.epilogue, Epilogue::Replayed)
    }
}

fn texts(procedure: &Procedure) -> impl Iterator<Item = u16> {
    let places = (0..).zip(&procedure.parameters);
    places.filter(|(_, parameter)| has_bytes(&parameter.data_type)).map(|(place, _)| place)
}

fn has_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Bool | DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Float8 => {
            false
        }
        DataType::Uuid | DataType::Date | DataType::Timestamp | DataType::Timestamptz => false,
        DataType::Array(element) => has_bytes(element),
        _ => true,
    }
}

/// Steps that run equally often.
pub struct Part {
    pub turns: Turns,
    pub templates: Range<u16>,
    /// Of its templates, those that are update commands which are paid for by more than their text
    /// says.
    pub metered: usize,
    /// Of their templates, those that change a row that may be long.
    pub unweighed: usize,
    /// What a turn costs, about, beside the arguments' texts.
    pub units: u64,
}

pub enum Turns {
    Once,
    Each { array: Expr },
    Count { bounds: Box<[Expr; 3]>, reverse: bool },
}

/// A fragment for each turn of its part.
pub struct Template {
    pub part: u16,
    pub table: TableId,
    /// Over arguments and the turn's register.
    pub key: Box<[Expr]>,
    pub action: Action,
    /// Arguments that the expressions use.
    pub arguments: Box<[Reg]>,
    pub inputs: Box<[Input]>,
    pub publish: Publish,
    /// Where a turn's register is.
    pub turn: Option<Reg>,
}

/// A register that another template fills: data dependency.
#[derive(Clone, Copy)]
pub struct Input {
    pub register: Reg,
    pub template: u16,
    /// Column of a read; `None`: whether there was a row.
    pub column: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    Nothing,
    /// One more turn of this reduction found its row.
    Count(u16),
    /// Whether there was a row, and the columns of a read if they are used.
    Cell {
        columns: bool,
    },
}

pub enum Epilogue {
    Reduced {
        steps: Box<[Residue]>,
        reductions: u16,
        /// That the steps use.
        arguments: Box<[Reg]>,
    },
    Replayed,
}

pub enum Residue {
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

#[derive(Clone, Copy)]
enum Base {
    Argument,
    Turn,
    Output { template: u16, column: Option<u16> },
}

struct Cutter<'p> {
    procedure: &'p Procedure,
    /// What each register holds that an access may use.
    base: FxHashMap<Reg, Base>,
    /// Pure computation, in terms of the base.
    definitions: FxHashMap<Reg, Expr>,
    parts: Vec<Part>,
    templates: Vec<Template>,
    /// Registers that some expression reads.
    used: Vec<bool>,
}

impl<'p> Cutter<'p> {
    fn new(procedure: &'p Procedure) -> Self {
        let mut used = vec![false; usize::from(procedure.registers)];
        for step in visit::numbered(&procedure.body) {
            visit::each_step_expr(step, &mut |_, expr| {
                visit::each_register(expr, &mut |register| used[usize::from(register.0)] = true);
            });
        }
        let arguments = 0..procedure.parameters.len() as u16;
        Cutter {
            procedure,
            base: arguments.map(|register| (Reg(register), Base::Argument)).collect(),
            definitions: FxHashMap::default(),
            parts: Vec::new(),
            templates: Vec::new(),
            used,
        }
    }

    fn program(mut self, analysis: &Analysis) -> Option<Program> {
        let mut may_have_ended = false;
        for step in &self.procedure.body {
            if !touches_rows(step) {
                self.define(step);
                may_have_ended |= leaves(step);
            } else if may_have_ended {
                return None;
            } else if visit::is_loop(step) {
                self.loop_part(step)?;
            } else {
                let first = self.templates.len() as u16;
                self.template(step, None)?;
                self.part(Turns::Once, first);
            }
        }
        if self.templates.is_empty() {
            return None;
        }
        let epilogue = self.reduced().unwrap_or(Epilogue::Replayed);
        if matches!(epilogue, Epilogue::Replayed) {
            let used = &self.used;
            for (template, step) in self.templates.iter_mut().zip(accesses(&self.procedure.body)) {
                let columns = match step {
                    Step::Read { columns, out, .. } => {
                        let first = usize::from(out.0);
                        used[first..first + columns.len()].contains(&true)
                    }
                    _ => false,
                };
                template.publish = Publish::Cell { columns };
            }
        }
        Some(Program {
            abortable: self.abortable(analysis, &epilogue),
            has_data_dependencies: self.templates.iter().any(|t| !t.inputs.is_empty()),
            registers: self.procedure.registers,
            texts: texts(self.procedure).collect(),
            parts: self.parts.into(),
            templates: self.templates.into(),
            epilogue,
        })
    }

    fn loop_part(&mut self, step: &Step) -> Option<()> {
        let (register, turns, body) = match step {
            Step::ForEach { register, array, body, .. } => {
                let array = self.over_arguments(array)?;
                (*register, Turns::Each { array }, body)
            }
            Step::ForRange { register, first, last, step, reverse, body, .. } => {
                let [first, last, step] = [first, last, step].map(|e| self.over_arguments(e));
                let bounds = Box::new([first?, last?, step?]);
                (*register, Turns::Count { bounds, reverse: *reverse }, body)
            }
            _ => return None,
        };
        let (base, definitions) = (self.base.clone(), self.definitions.clone());
        self.base.insert(register, Base::Turn);
        let first = self.templates.len() as u16;
        for step in body {
            if leaves(step) {
                return None;
            }
            match touches_rows(step) {
                true => self.template(step, Some(register))?,
                false => self.define(step),
            }
        }
        // Of a loop's registers, those behind it would see the last turn's.
        (self.base, self.definitions) = (base, definitions);
        self.part(turns, first);
        Some(())
    }

    /// The templates from the `first` on are a part.
    fn part(&mut self, turns: Turns, first: u16) {
        let of_part = &self.templates[usize::from(first)..];
        let metered = of_part.iter().filter(|template| template.action.is_metered()).count();
        let unweighed = of_part.iter().filter(|template| template.action.is_unweighed()).count();
        let units = of_part.iter().map(|template| template.action.units()).sum();
        let templates = first..self.templates.len() as u16;
        self.parts.push(Part { turns, templates, metered, unweighed, units });
    }

    fn template(&mut self, step: &Step, turn: Option<Reg>) -> Option<()> {
        let id = u16::try_from(self.templates.len()).ok()?;
        let (table, key, action) = self.access(step)?;
        let mut arguments = Vec::new();
        let mut inputs: Vec<Input> = Vec::new();
        for expr in &key {
            let data = expr.any(&mut |e| self.base_of(e).is_some_and(|b| b.is_output()));
            if data {
                return None;
            }
        }
        for expr in key.iter().chain(action.exprs()) {
            visit::each_register(expr, &mut |register| match self.base.get(&register) {
                Some(Base::Argument) => arguments.push(register),
                Some(Base::Output { template, column }) => {
                    inputs.push(Input { register, template: *template, column: *column });
                }
                Some(Base::Turn) | None => {}
            });
        }
        arguments.sort_unstable();
        arguments.dedup();
        inputs.sort_unstable_by_key(|input| input.register);
        inputs.dedup_by_key(|input| input.register);
        self.outputs(step, id);
        self.templates.push(Template {
            part: u16::try_from(self.parts.len()).ok()?,
            table,
            key,
            action,
            arguments: arguments.into(),
            inputs: inputs.into(),
            publish: Publish::Nothing,
            turn,
        });
        Some(())
    }

    fn base_of(&self, expr: &Expr) -> Option<Base> {
        match expr {
            Expr::Reg(register) => self.base.get(register).copied(),
            _ => None,
        }
    }

    fn access(&self, step: &Step) -> Option<(TableId, Box<[Expr]>, Action)> {
        Some(match step {
            Step::Read { table, key, columns, .. } => {
                (*table, self.all(key)?, Action::Read { columns: columns.clone() })
            }
            Step::Exists { table, key, .. } => (*table, self.all(key)?, Action::Exists),
            Step::Delete { table, key, long, .. } => {
                (*table, self.all(key)?, Action::Delete { is_long: !long.is_empty() })
            }
            Step::Update { table, key, code, inputs, .. } => {
                let inputs = self.all(inputs)?;
                let decided = self.is_decided(code, &inputs);
                let code = Arc::clone(code);
                (*table, self.all(key)?, Action::Update { code, inputs, decided })
            }
            Step::Insert { table, key, values, hidden_row_id, .. } => {
                let values = self.all(values)?;
                let key = match hidden_row_id {
                    true => Vec::new(),
                    false => key
                        .iter()
                        .map(|column| values.get(usize::from(*column)).cloned())
                        .collect::<Option<Vec<_>>>()?,
                };
                let hidden_row_id = *hidden_row_id;
                (*table, key.into(), Action::Insert { values, hidden_row_id })
            }
            _ => return None,
        })
    }

    /// Sets columns to what arguments say, and checks nothing but those.
    fn is_decided(&self, code: &CommandCode, inputs: &[Expr]) -> bool {
        let facts = CommandFacts::of(code);
        let is_assigned = |column| facts.assignments.iter().any(|(c, _)| c == column);
        let mut known = true;
        for input in inputs {
            visit::each_register(input, &mut |register| {
                known &= matches!(self.base.get(&register), Some(Base::Argument));
            });
        }
        known
            && code.is_brief()
            && facts.class == CommandClass::Set
            && facts.checked.iter().all(is_assigned)
    }

    fn outputs(&mut self, step: &Step, template: u16) {
        let found = |found: &Reg| (*found, Base::Output { template, column: None });
        match step {
            Step::Read { columns, out, found: there, .. } => {
                self.base.extend((0..columns.len() as u16).map(|column| {
                    let column_of = Base::Output { template, column: Some(column) };
                    (Reg(out.0 + column), column_of)
                }));
                self.base.extend([found(there)]);
            }
            Step::Exists { found: there, .. }
            | Step::Update { found: there, .. }
            | Step::Delete { found: there, .. }
            | Step::Insert { inserted: there, .. } => self.base.extend([found(there)]),
            _ => {}
        }
    }

    /// Learn what a step without accesses computes. Branches need no care: what they define is used
    /// only where it is substituted, inside a phi's `CASE`.
    fn define(&mut self, step: &Step) {
        match step {
            Step::Let { out, value } => {
                if let Some(value) = self.substitute(value) {
                    self.definitions.insert(*out, value);
                }
            }
            Step::If { condition, then, otherwise, phis } => {
                then.iter().chain(otherwise).for_each(|step| self.define(step));
                let Some(condition) = self.substitute(condition) else { return };
                for phi in phis {
                    let ways = (self.substitute(&phi.then), self.substitute(&phi.otherwise));
                    if let (Some(then), Some(otherwise)) = ways {
                        let whens = Box::new([(condition.clone(), then)]);
                        let case = Expr::Case { whens, otherwise: Box::new(otherwise) };
                        self.definitions.insert(phi.out, case);
                    }
                }
            }
            _ => {}
        }
    }

    /// In terms of the base; `None` where something else is needed.
    fn substitute(&self, expr: &Expr) -> Option<Expr> {
        let mut expr = expr.clone();
        let mut is_known = true;
        expr.rewrite(&mut |expr| {
            let Expr::Reg(register) = expr else { return false };
            match self.definitions.get(register) {
                Some(definition) => *expr = definition.clone(),
                None => is_known &= self.base.contains_key(register),
            }
            true
        });
        let mut nodes = 0;
        expr.walk(&mut |_| nodes += 1);
        (is_known && nodes <= NODES_MAX).then_some(expr)
    }

    fn all(&self, exprs: &[Expr]) -> Option<Box<[Expr]>> {
        exprs.iter().map(|expr| self.substitute(expr)).collect()
    }

    fn over_arguments(&self, expr: &Expr) -> Option<Expr> {
        let expr = self.substitute(expr)?;
        let mut known = true;
        visit::each_register(&expr, &mut |register| {
            known &= matches!(self.base.get(&register), Some(Base::Argument));
        });
        known.then_some(expr)
    }

    /// The epilogue as sums, where it is no more than that; the templates are told what to count.
    fn reduced(&mut self) -> Option<Epilogue> {
        if self.templates.iter().any(|template| !template.inputs.is_empty()) {
            return None;
        }
        let is_argument = |register: Reg| usize::from(register.0) < self.procedure.parameters.len();
        let mut sums: Vec<Reg> = Vec::new();
        let mut counted = vec![None; self.templates.len()];
        let mut residue = Vec::new();
        let mut next_part = 0;
        for (place, step) in self.procedure.body.iter().enumerate() {
            let known = |expr: &Expr, sums: &[Reg]| {
                let mut known = true;
                visit::each_register(expr, &mut |r| known &= is_argument(r) || sums.contains(&r));
                known
            };
            match step {
                Step::Emit { values } if values.iter().all(|value| known(value, &sums)) => {
                    residue.push(Residue::Emit(values.clone()));
                }
                Step::CountRows { by } if known(by, &sums) => {
                    residue.push(Residue::CountRows(by.clone()));
                }
                Step::Return if place + 1 == self.procedure.body.len() => {}
                step if touches_rows(step) => {
                    let template = usize::from(self.parts[next_part].templates.start);
                    next_part += 1;
                    match reduction(step)? {
                        Some((carried, by)) => {
                            let starts_small = match &carried.initial {
                                Expr::Const(Value::Int(n)) => n.abs() <= INITIAL_MAX,
                                Expr::Reg(register) => sums.contains(register),
                                _ => false,
                            };
                            if !starts_small {
                                return None;
                            }
                            let reduction = sums.len() as u16;
                            counted[template] = Some(reduction);
                            residue.push(Residue::Sum {
                                register: carried.register,
                                initial: carried.initial.clone(),
                                by,
                                reduction,
                            });
                            sums.push(carried.register);
                        }
                        None if outputs_used(step, &self.used) => return None,
                        None => {}
                    }
                }
                _ => return None,
            }
        }
        for (template, counted) in self.templates.iter_mut().zip(counted) {
            template.publish = counted.map_or(Publish::Nothing, Publish::Count);
        }
        let mut arguments = Vec::new();
        for expr in residue.iter().flat_map(Residue::exprs) {
            visit::each_register(expr, &mut |register| {
                arguments.extend(Some(register).filter(|r| is_argument(*r)));
            });
        }
        arguments.sort_unstable();
        arguments.dedup();
        Some(Epilogue::Reduced {
            steps: residue.into(),
            reductions: sums.len() as u16,
            arguments: arguments.into(),
        })
    }

    fn abortable(&self, analysis: &Analysis, epilogue: &Epilogue) -> Abortable {
        let is_reduced = matches!(epilogue, Epilogue::Reduced { .. });
        let is_excused = |step: &Step, depth: u16| match step {
            // Bounds and arrays are what the planner has looked at.
            Step::ForEach { .. } | Step::ForRange { .. } => true,
            // A reduction's sum is small.
            Step::Let { .. } => is_reduced && depth > 0,
            Step::Update { code, inputs, .. } => {
                self.all(inputs).is_some_and(|inputs| self.is_decided(code, &inputs))
            }
            _ => false,
        };
        let numbered = visit::numbered(&self.procedure.body);
        let steps = numbered.iter().zip(&analysis.steps);
        let counting = steps.filter(|(step, facts)| !is_excused(step, facts.depth));
        counting.map(|(_, facts)| facts.abortable).max().unwrap_or(Abortable::Never)
    }
}

impl Residue {
    fn exprs(&self) -> &[Expr] {
        match self {
            Residue::Sum { initial, .. } => std::slice::from_ref(initial),
            Residue::Emit(values) => values,
            Residue::CountRows(by) => std::slice::from_ref(by),
        }
    }
}

impl Base {
    fn is_output(self) -> bool {
        matches!(self, Base::Output { .. })
    }
}

/// The row steps of a body, in program order.
fn accesses(body: &Block) -> impl Iterator<Item = &Step> {
    visit::numbered(body).into_iter().filter(|step| is_row_step(step))
}

fn is_row_step(step: &Step) -> bool {
    visit::row_access(step).is_some() || matches!(step, Step::Insert { .. })
}

fn touches_rows(step: &Step) -> bool {
    let mut queried = false;
    if let Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. } =
        step
    {
        visit::each_query(query, &mut |query| {
            queried |= matches!(query, Query::Get { .. } | Query::Scan { .. });
        });
    }
    let mut inner = visit::blocks(step).into_iter().flatten();
    queried || is_row_step(step) || inner.any(|block| block.iter().any(touches_rows))
}

/// Whether control may go elsewhere than to the next step.
fn leaves(step: &Step) -> bool {
    let own = matches!(step, Step::Return | Step::Exit { .. } | Step::Continue { .. });
    let mut inner = visit::blocks(step).into_iter().flatten();
    own || inner.any(|block| block.iter().any(leaves))
}

fn outputs_used(step: &Step, used: &[bool]) -> bool {
    let mut found = false;
    let mut look = |step: &Step| {
        visit::each_output(step, &mut |register| found |= used[usize::from(register.0)]);
    };
    match step {
        Step::ForEach { body, carried, .. } | Step::ForRange { body, carried, .. } => {
            if !carried.is_empty() || !body.iter().all(is_row_step) {
                return true;
            }
            body.iter().for_each(look);
        }
        step => look(step),
    }
    found
}

/// `Some(None)`: a step that reduces nothing. `None`: one that carries something else than a count
/// of its turns that found their row.
fn reduction(step: &Step) -> Option<Option<(&Carried, i64)>> {
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
    let found = match access {
        Step::Read { found, .. }
        | Step::Exists { found, .. }
        | Step::Update { found, .. }
        | Step::Delete { found, .. }
        | Step::Insert { inserted: found, .. } => found,
        _ => return None,
    };
    let Expr::Binary { op: BinaryOp::Add, left, right, result: DataType::Int8 } = value else {
        return None;
    };
    let Expr::Const(Value::Int(by)) = **right else { return None };
    let counts = *condition == Expr::Reg(*found)
        && **left == Expr::Reg(carried.register)
        && phi.then == Expr::Reg(*out)
        && phi.otherwise == Expr::Reg(carried.register)
        && carried.next == Expr::Reg(phi.out)
        && by.abs() <= STEP_MAX;
    counts.then_some(Some((carried, by)))
}
