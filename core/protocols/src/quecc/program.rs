//! Fragment plans: what is known of a procedure before any of its calls.
//!
//! A procedure is *cut* when arguments name every record, or at least the queue that it belongs in,
//! turn by turn of a loop:
//!
//! ```text
//!   Read a[$1] → r3                     template 0   once
//!   Let r5 = r3 + $2                    ─            substituted where r5 is used
//!   Update b[$1] by r5                  template 1   once, needs column 0 of template 0
//!   If r5 > 7 then Emit 0; Return       ─            a guard of all that follows
//!   Insert d[$1, r3]                    template 2   queued by $1; the key is made when r3 is there
//!   ForEach k in $3                     part 3
//!     If $2 > 1 then Update c[k] by r3  template 3   a fragment for each turn, if $2 says so
//!     If found then n := n + 1          ─            a reduction: count the turns that found
//!   Require r5 < 9; Emit n              ─            the epilogue
//! ```
//!
//! *Guards* are what a fragment's happening depends on: the branches that it stands in, and the
//! ends that the call may have come to before it. Those that arguments decide are looked at while
//! planning, and there is no fragment where they do not hold. The others make it wait for what they
//! need, as any data dependency does; a fragment that turns out not to happen says so. What a
//! `Require` or a `Raise` decides is no guard: the fragments behind it run, and are undone.
//!
//! Computation between accesses is pure, so it is substituted into the expressions of the accesses
//! that need it; what only the answer needs is left to the *epilogue*. That is either a few sums
//! ([`Epilogue::Reduced`]) or the procedure itself once more, through the ordinary interpreter, on
//! what its fragments published ([`Epilogue::Replayed`]): control flow, guards, errors and the
//! meter mean there what they mean everywhere.

use std::ops::Range;
use std::sync::Arc;

use procedure::analysis::{Abortable, Analysis, CommandClass, CommandFacts, visit};
use procedure::step::{Block, Carried, Phi, Procedure, Step};
use procedure::{BinaryOp, CommandCode, Expr, Query, Reg};
use rustc_hash::FxHashMap;
use types::{DataType, TableId, Value};

use super::action::Action;
use super::guard::Guard;

/// Expressions that grow beyond this by substitution are not worth it.
const NODES_MAX: usize = 128;

/// Starts of sums beyond this could overflow.
const INITIAL_MAX: i64 = 1 << 40;
const STEP_MAX: i64 = 1 << 20;

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
    /// What its turns do is not to be cut, so a call that has any runs in one piece.
    pub must_be_empty: bool,
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
    /// Over arguments and the turn's register, and over `inputs` if it is `keyed_by_data`.
    pub key: Box<[Expr]>,
    /// Only the key's first column is known when the fragment is queued.
    pub keyed_by_data: bool,
    /// Over arguments and the turn's register: there is no fragment where they do not hold.
    pub foreseen: Box<[Guard]>,
    /// Some of those use the turn's register.
    pub foreseen_by_turn: bool,
    /// Those that need what others publish.
    pub guards: Box<[Guard]>,
    pub action: Action,
    /// Its text bounds what the action's expressions take.
    pub is_brief: bool,
    /// Arguments that the expressions use.
    pub arguments: Box<[Reg]>,
    pub inputs: Box<[Input]>,
    pub publish: Publish,
    /// Where a turn's register is.
    pub turn: Option<Reg>,
}

impl Template {
    fn units(&self) -> u64 {
        let mut units = self.action.units();
        for guard in self.foreseen.iter().chain(&self.guards) {
            guard.each_expr(&mut |expr| expr.walk(&mut |_| units += 1));
        }
        units
    }
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

pub struct Cutter<'p> {
    procedure: &'p Procedure,
    /// What each register holds that an access may use.
    base: FxHashMap<Reg, Base>,
    /// Pure computation, in terms of the base.
    definitions: FxHashMap<Reg, Expr>,
    parts: Vec<Part>,
    templates: Vec<Template>,
    /// What holds at the step that is looked at.
    path: Vec<Guard>,
    /// Of the loop that it is in.
    turn: Option<Reg>,
    /// The call may have ended by something that is not known.
    may_have_ended: bool,
    /// Registers that some expression reads.
    used: Vec<bool>,
}

/// Ways by which a call may end within a block: each is what must hold in it.
type Ends = Vec<Vec<Guard>>;

impl<'p> Cutter<'p> {
    pub fn new(procedure: &'p Procedure) -> Self {
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
            path: Vec::new(),
            turn: None,
            may_have_ended: false,
            used,
        }
    }

    pub fn program(mut self, analysis: &Analysis) -> Option<Program> {
        self.block(&self.procedure.body)?;
        if self.templates.is_empty() {
            return None;
        }
        // A replay pays for what expressions take, sums do not.
        let reduced = self.procedure.is_brief().then(|| self.reduced()).flatten();
        let epilogue = reduced.unwrap_or(Epilogue::Replayed);
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

    fn block(&mut self, block: &'p Block) -> Option<Ends> {
        let mut ends = Ends::new();
        for step in block {
            match step {
                Step::Return => {
                    ends.push(Vec::new());
                    break;
                }
                Step::If { .. } if touches_rows(step) || leaves(step) => {
                    ends.extend(self.branch(step)?);
                }
                step if !touches_rows(step) => {
                    self.define(step);
                    self.may_have_ended |= leaves(step);
                }
                step if visit::is_loop(step) => self.loop_part(step)?,
                step => {
                    let first = self.templates.len() as u16;
                    self.template(step)?;
                    if self.turn.is_none() {
                        self.part(Turns::Once, first, false);
                    }
                }
            }
        }
        Some(ends)
    }

    /// An `If` that touches rows or may end the call. What follows it, here and further out, is
    /// guarded by its not having ended.
    fn branch(&mut self, step: &'p Step) -> Option<Ends> {
        let Step::If { condition, then, otherwise, phis } = step else { return None };
        let Some(condition) = self.substitute(condition) else {
            self.may_have_ended = true;
            return (!touches_rows(step)).then(Ends::new);
        };
        let mut ends = Ends::new();
        for (block, truth) in [(then, true), (otherwise, false)] {
            let depth = self.path.len();
            let taken = Guard::Branch { condition: condition.clone(), truth };
            self.path.push(taken.clone());
            for mut end in self.block(block)? {
                end.insert(0, taken.clone());
                ends.push(end);
            }
            self.path.truncate(depth);
        }
        self.merge(&condition, phis);
        self.path.extend(ends.iter().map(|end| Guard::Unless(end.clone().into())));
        Some(ends)
    }

    fn loop_part(&mut self, step: &'p Step) -> Option<()> {
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
        if self.turn.is_some() || body.iter().any(leaves) {
            return None;
        }
        let (base, definitions) = (self.base.clone(), self.definitions.clone());
        self.base.insert(register, Base::Turn);
        self.turn = Some(register);
        let first = self.templates.len() as u16;
        let depth = self.path.len();
        // Turns reject behind writes, and to undo those would undo all that met them. In one piece
        // such a call shows nothing before it is certain.
        let must_be_empty = body.iter().any(rejects) || self.block(body).is_none();
        if must_be_empty {
            self.templates.truncate(usize::from(first));
            self.path.truncate(depth);
        }
        self.turn = None;
        // Of a loop's registers, those behind it would see the last turn's.
        (self.base, self.definitions) = (base, definitions);
        self.part(turns, first, must_be_empty);
        Some(())
    }

    /// The templates from the `first` on are a part.
    fn part(&mut self, turns: Turns, first: u16, must_be_empty: bool) {
        let of_part = &self.templates[usize::from(first)..];
        let metered = of_part.iter().filter(|template| template.action.is_metered()).count();
        let unweighed = of_part.iter().filter(|template| template.action.is_unweighed()).count();
        let units = of_part.iter().map(Template::units).sum();
        let templates = first..self.templates.len() as u16;
        self.parts.push(Part { turns, templates, must_be_empty, metered, unweighed, units });
    }

    fn template(&mut self, step: &Step) -> Option<()> {
        if self.may_have_ended {
            return None;
        }
        let id = u16::try_from(self.templates.len()).ok()?;
        let (table, key, action) = self.access(step)?;
        let (foreseen, guards): (Vec<Guard>, Vec<Guard>) =
            self.path.iter().cloned().partition(|guard| {
                let mut is_foreseen = true;
                guard.each_register(&mut |register| is_foreseen &= !self.is_output(register));
                is_foreseen
            });
        let mut is_brief = key.iter().all(Expr::is_brief);
        self.path.iter().for_each(|guard| guard.each_expr(&mut |e| is_brief &= e.is_brief()));
        if !is_brief {
            return None;
        }
        let mut used = Vec::new();
        let exprs = key.iter().chain(action.exprs());
        exprs.for_each(|expr| visit::each_register(expr, &mut |register| used.push(register)));
        guards.iter().chain(&foreseen).for_each(|g| g.each_register(&mut |r| used.push(r)));
        let mut arguments = Vec::new();
        let mut inputs: Vec<Input> = Vec::new();
        for register in used {
            match self.base.get(&register) {
                Some(Base::Argument) => arguments.push(register),
                Some(Base::Output { template, column }) => {
                    inputs.push(Input { register, template: *template, column: *column });
                }
                Some(Base::Turn) | None => {}
            }
        }
        arguments.sort_unstable();
        arguments.dedup();
        inputs.sort_unstable_by_key(|input| input.register);
        inputs.dedup_by_key(|input| input.register);
        let mut foreseen_by_turn = false;
        foreseen.iter().for_each(|guard| {
            guard.each_register(&mut |register| foreseen_by_turn |= Some(register) == self.turn);
        });
        // Ids are given out in the order of the plan.
        if matches!(action, Action::Insert { hidden_row_id: true, .. }) && !guards.is_empty() {
            return None;
        }
        let needs_data =
            |expr: &Expr| expr.any(&mut |e| self.base_of(e).is_some_and(Base::is_output));
        let keyed_by_data = key.iter().any(needs_data);
        if keyed_by_data && key.first().is_some_and(needs_data) {
            return None;
        }
        self.outputs(step, id);
        let columns = match step {
            Step::Read { columns, out, .. } => {
                let first = usize::from(out.0);
                self.used[first..first + columns.len()].contains(&true)
            }
            _ => false,
        };
        self.templates.push(Template {
            part: u16::try_from(self.parts.len()).ok()?,
            table,
            key,
            keyed_by_data,
            foreseen: foreseen.into(),
            foreseen_by_turn,
            guards: guards.into(),
            is_brief: action.long_exprs() == 0,
            action,
            arguments: arguments.into(),
            inputs: inputs.into(),
            publish: Publish::Cell { columns },
            turn: self.turn,
        });
        Some(())
    }

    fn is_output(&self, register: Reg) -> bool {
        self.base.get(&register).is_some_and(|base| base.is_output())
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
            && inputs.iter().all(Expr::is_brief)
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
                self.merge(&condition, phis);
            }
            _ => {}
        }
    }

    fn merge(&mut self, condition: &Expr, phis: &[Phi]) {
        for phi in phis {
            let ways = (self.substitute(&phi.then), self.substitute(&phi.otherwise));
            if let (Some(then), Some(otherwise)) = ways {
                let whens = Box::new([(condition.clone(), then)]);
                let case = Expr::Case { whens, otherwise: Box::new(otherwise) };
                self.definitions.insert(phi.out, case);
            }
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
        let happens = |template: &Template| {
            template.inputs.is_empty() && template.guards.is_empty() && template.foreseen.is_empty()
        };
        let has_turns = |part: &Part| !part.must_be_empty;
        if !self.templates.iter().all(happens) || !self.parts.iter().all(has_turns) {
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

/// Whether the program may turn its call down there.
fn rejects(step: &Step) -> bool {
    let own = matches!(step, Step::Raise { .. } | Step::Require { .. });
    let mut inner = visit::blocks(step).into_iter().flatten();
    own || inner.any(|block| block.iter().any(rejects))
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
