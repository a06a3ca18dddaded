//! Cuts a procedure into fragments for QueCC: one for each record, with the values and guards that
//! it needs from others.

use std::sync::Arc;

use procedure::analysis::{Abortable, Analysis, CommandClass, CommandFacts, Footprint, visit};
use procedure::residue::{Needed, Residue};
use procedure::step::{Block, Phi, Procedure, Step};
use procedure::{CommandCode, Expr, Query, Reg};
use rustc_hash::FxHashMap;
use types::{DataType, TableId, Value};

use super::action::Action;
use super::draft::{Draft, Drafts, Use};
use super::guard::{GUARD_NODES_MAX, Guard};
use super::program::{Counter, Epilogue, Operation, Program, Publish, Steady, Template, Turns};
use super::reduction::Reduction;

/// Expressions that grow beyond this by substitution are not worth it.
const NODES_MAX: usize = 128;

fn texts(procedure: &Procedure) -> impl Iterator<Item = u16> {
    let places = (0..).zip(&procedure.parameters);
    places.filter(|(_, parameter)| has_bytes(&parameter.data_type)).map(|(place, _)| place)
}

fn has_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Bool | DataType::Int2 | DataType::Int4 | DataType::Int8 => false,
        DataType::Float4 | DataType::Float8 => false,
        DataType::Uuid | DataType::Date => false,
        DataType::Timestamp(_) | DataType::Timestamptz(_) => false,
        DataType::Interval(_) | DataType::Time(_) | DataType::Timetz(_) | DataType::Enum(_) => {
            false
        }
        DataType::Array(element) => has_bytes(element),
        _ => true,
    }
}

#[derive(Clone, Copy)]
enum Base {
    Argument,
    Turn,
    /// By number of the operation.
    Output {
        operation: u16,
        column: Option<u16>,
    },
    /// Of one that is done while planning.
    Steady {
        operation: u16,
        column: Option<u16>,
    },
}

pub struct Cutter<'p> {
    procedure: &'p Procedure,
    /// What each register holds that an access may use.
    base: FxHashMap<Reg, Base>,
    /// Pure computation, in terms of the base.
    definitions: FxHashMap<Reg, Expr>,
    drafts: Drafts,
    /// What holds at the step that is looked at.
    path: Vec<Guard>,
    /// Of the loop that it is in.
    turn: Option<Reg>,
    /// Registers of which the rejections of that loop are made.
    decisive: Vec<Reg>,
    footprint: &'p Footprint,
    steady: Vec<Steady>,
    /// The call may have ended by something that is not known.
    may_have_ended: bool,
}

/// Ways by which a call may end within a block: each is what must hold in it.
type Ends = Vec<Vec<Guard>>;

impl<'p> Cutter<'p> {
    pub fn new(procedure: &'p Procedure, footprint: &'p Footprint) -> Self {
        let arguments = 0..procedure.parameters.len() as u16;
        Cutter {
            procedure,
            base: arguments.map(|register| (Reg(register), Base::Argument)).collect(),
            definitions: FxHashMap::default(),
            drafts: Drafts::default(),
            path: Vec::new(),
            turn: None,
            decisive: Vec::new(),
            footprint,
            steady: Vec::new(),
            may_have_ended: false,
        }
    }

    pub fn program(mut self, analysis: &Analysis) -> Option<Program> {
        self.block(&self.procedure.body)?;
        self.drafts.close(Turns::Once, 0);
        if self.drafts.templates.is_empty() {
            return None;
        }
        // What is left pays for what expressions take, sums do not.
        let sums = self.procedure.is_brief() && self.drafts.are_plain();
        let reduction = sums.then(|| Reduction::of(self.procedure)).flatten();
        let mut abortable = self.abortable(analysis, reduction.is_some());
        if self.drafts.are_metered() {
            abortable = abortable.max(Abortable::Arithmetic);
        }
        let units = self.procedure.body.iter().filter(|step| !is_cut_loop(step)).map(units).sum();
        let texts = texts(self.procedure).collect();
        let registers = self.procedure.registers;
        let (parts, templates, epilogue) = match reduction {
            Some((reduction, counted)) => {
                let (parts, templates) = self.drafts.counting(&counted);
                (parts, templates, Epilogue::Reduced(reduction))
            }
            None => {
                let residue = Residue::of(self.procedure);
                let is_long = |needed: &Needed| !needed.columns.is_empty();
                if !analysis.footprint.is_read_only() && residue.needed().iter().any(is_long) {
                    // What is answered of a row may be too much to hold.
                    abortable = abortable.max(Abortable::Arithmetic);
                }
                let (parts, templates, cells) = self.drafts.publishing(residue.needed());
                (parts, templates, Epilogue::Left { residue, cells })
            }
        };
        let steady = self.steady.into();
        Some(Program { parts, templates, epilogue, registers, texts, steady, units, abortable })
    }

    fn block(&mut self, block: &'p Block) -> Option<Ends> {
        let mut ends = Ends::new();
        for step in block {
            match step {
                Step::Return => {
                    ends.push(Vec::new());
                    break;
                }
                Step::If { .. }
                    if visit::touches_rows(step) || leaves(step) || self.rejects_turn(step) =>
                {
                    ends.extend(self.branch(step)?);
                }
                Step::Require { condition, .. } if self.turn.is_some() => {
                    self.require(condition)?;
                }
                Step::Raise { .. } if self.turn.is_some() => {
                    self.require(&Expr::Const(Value::Bool(false)))?;
                    break;
                }
                step if !visit::touches_rows(step) && !self.rejects_turn(step) => {
                    self.define(step);
                    self.may_have_ended |= leaves(step);
                }
                step if visit::is_loop(step) => self.loop_part(step)?,
                Step::Fetch { .. } => self.query(step)?,
                step => self.access(step)?,
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
            let is_nothing = !visit::touches_rows(step) && !self.rejects_turn(step);
            return is_nothing.then(Ends::new);
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
                let known = Counter::known(&bounds, *reverse);
                (*register, Turns::Count { bounds, reverse: *reverse, known }, body)
            }
            _ => return None,
        };
        if self.turn.is_some() || body.iter().any(leaves) {
            return None;
        }
        self.drafts.close(Turns::Once, 0);
        let (base, definitions) = (self.base.clone(), self.definitions.clone());
        self.base.insert(register, Base::Turn);
        self.turn = Some(register);
        let (depth, steady) = (self.path.len(), self.steady.len());
        // Where turns reject after writes, to undo those would undo all that met them. In one piece
        // such a call shows nothing before it is certain.
        self.decisive = decisive(body);
        let must_be_empty = self.block(body).is_none();
        if must_be_empty {
            self.steady.truncate(steady);
        }
        self.path.truncate(depth);
        self.turn = None;
        // Of a loop's registers, those after it would see the last turn's.
        (self.base, self.definitions) = (base, definitions);
        match must_be_empty {
            true => self.drafts.close_without_turns(turns),
            false => self.drafts.close(turns, units(step)),
        }
        Some(())
    }

    /// A step on one row.
    fn access(&mut self, step: &Step) -> Option<()> {
        if self.may_have_ended {
            return None;
        }
        let (table, key, action) = self.action(step)?;
        let (foreseen, guards) = self.guards()?;
        if !key.iter().all(Expr::is_brief) {
            return None;
        }
        let (arguments, uses) = self.uses(&key, &action);
        // Ids are given out in the order of the plan.
        if action.is_hidden() && !guards.is_empty() {
            return None;
        }
        let needs_data = |expr: &Expr| expr.any(&mut |e| self.needs_data(e));
        let known = key.iter().take_while(|expr| !needs_data(expr)).count();
        if known == 0 && !key.is_empty() {
            return None;
        }
        let outputs = visit::row_outputs(step)?;
        let is_foreseen = guards.is_empty() && known == key.len();
        let is_steady = is_foreseen && self.is_decisive(table, &action, outputs);
        if is_steady {
            let columns = match &action {
                Action::Read { columns } => columns.clone(),
                _ => Box::default(),
            };
            self.steady.push(Steady { table, columns, index: None });
        }
        let template = Template {
            part: 0,
            table,
            known: known as u8,
            key,
            is_steady,
            operations: Box::default(),
            arguments: arguments.into(),
            inputs: Box::default(),
            turn: self.turn,
        };
        self.add(template, action, (foreseen, guards), uses, outputs)
    }

    fn add(
        &mut self,
        template: Template,
        action: Action,
        (foreseen, guards): (Vec<Guard>, Vec<Guard>),
        uses: Vec<Use>,
        (found, out, columns): (Reg, Reg, u16),
    ) -> Option<()> {
        let mut foreseen_by_turn = false;
        foreseen.iter().for_each(|guard| {
            guard.each_register(&mut |register| foreseen_by_turn |= self.is_of_turn(register));
        });
        // What was read may be long.
        let is_brief = action.long_exprs() == 0 && uses.iter().all(|used| used.column.is_none());
        let is_steady = template.is_steady;
        let operation = Operation {
            foreseen: foreseen.into(),
            foreseen_by_turn,
            guards: guards.into(),
            is_brief,
            action,
            out,
            found,
            publish: Publish::Nothing,
        };
        let operation = self.drafts.add(Draft { template, operations: vec![operation], uses })?;
        let output = |column| match is_steady {
            true => Base::Steady { operation, column },
            false => Base::Output { operation, column },
        };
        self.base.extend((0..columns).map(|c| (Reg(out.0 + c), output(Some(c)))));
        self.base.insert(found, output(None));
        Some(())
    }

    /// The guards of what stands here: those that are known while planning, and the others.
    fn guards(&self) -> Option<(Vec<Guard>, Vec<Guard>)> {
        let (mut is_brief, mut nodes) = (true, 0);
        self.path.iter().for_each(|guard| {
            guard.each_expr(&mut |expr| {
                is_brief &= expr.is_brief();
                expr.walk(&mut |_| nodes += 1);
            });
        });
        let guards = self.path.iter().cloned().partition(|guard| {
            let mut is_foreseen = true;
            guard.each_register(&mut |register| is_foreseen &= !self.is_output(register));
            is_foreseen
        });
        (is_brief && nodes <= GUARD_NODES_MAX).then_some(guards)
    }

    /// Changes from turn to turn.
    fn is_of_turn(&self, register: Reg) -> bool {
        let is_steady = matches!(self.base.get(&register), Some(Base::Steady { .. }));
        self.turn.is_some() && (Some(register) == self.turn || is_steady)
    }

    /// A turn's rejection is made of what a look finds, at what the procedure leaves as it is.
    fn is_decisive(&self, table: TableId, action: &Action, outputs: (Reg, Reg, u16)) -> bool {
        let (found, out, columns) = outputs;
        let is_look = matches!(action, Action::Read { .. } | Action::Exists);
        let is_output =
            |register: &Reg| *register == found || (out.0..out.0 + columns).contains(&register.0);
        let footprint = self.footprint.tables.get(&table);
        is_look
            && self.turn.is_some()
            && self.decisive.iter().any(is_output)
            && footprint.is_some_and(|footprint| !footprint.is_written())
    }

    /// A turn of the loop around a step may be rejected there.
    fn rejects_turn(&self, step: &Step) -> bool {
        self.turn.is_some() && rejects(step)
    }

    /// Of an operation before the loop that is looked at.
    fn is_of_before(&self, register: Reg) -> bool {
        match self.base.get(&register) {
            Some(Base::Output { operation, .. }) => self.drafts.is_closed(*operation),
            _ => true,
        }
    }

    /// What a turn of a loop requires. Planners see to it, but that a key is not taken may be found
    /// out too late: what inserts mostly knows. So may what was required before the loop.
    fn require(&mut self, condition: &Expr) -> Option<()> {
        if let Some(Base::Output { operation, column: None }) = self.base_of(condition)
            && self.drafts.is_insert(operation)
        {
            return Some(());
        }
        let condition = self.substitute(condition)?;
        let (foreseen, guards) = self.guards()?;
        let (mut is_of_before, mut needs_data) = (true, false);
        visit::each_register(&condition, &mut |register| {
            is_of_before &= self.is_of_before(register) && Some(register) != self.turn;
            needs_data |= self.is_output(register);
        });
        if needs_data && is_of_before {
            return Some(());
        }
        if !guards.is_empty() || !condition.is_brief() || condition.any(&mut |e| self.needs_data(e))
        {
            return None;
        }
        let action = Action::Require(condition);
        let (arguments, uses) = self.uses(&[], &action);
        let template = self.steady_template(TableId(0), Box::default(), arguments);
        // It fills nothing.
        let nothing = Reg(self.procedure.registers);
        self.add(template, action, (foreseen, guards), uses, (nothing, nothing, 0))
    }

    /// A query whose rows no transaction of the block changes.
    fn query(&mut self, step: &'p Step) -> Option<()> {
        let Step::Fetch { query, outputs, found, strict: false } = step else { return None };
        let out = *outputs.first()?;
        if self.procedure.draws || !self.procedure.sequences.is_empty() {
            return None;
        }
        let follow = outputs.iter().zip(out.0..).all(|(output, register)| output.0 == register);
        let steady = steady_of(query)?;
        let mut known = follow && self.turn.is_none() && !self.may_have_ended;
        visit::each_own_expr(step, &mut |expr| {
            visit::each_register(expr, &mut |register| {
                known &= matches!(self.base.get(&register), Some(Base::Argument));
            });
        });
        let (foreseen, guards) = self.guards()?;
        if !known || !guards.is_empty() {
            return None;
        }
        let table = steady.first()?.table;
        self.steady.extend(steady);
        let arguments = (0..self.procedure.parameters.len() as u16).map(Reg).collect();
        let template = self.steady_template(table, Box::default(), arguments);
        let action = Action::Query(Arc::new(asking(self.procedure, step, outputs, *found)));
        let outputs = (*found, out, outputs.len() as u16);
        self.add(template, action, (foreseen, guards), Vec::new(), outputs)
    }

    fn steady_template(&self, table: TableId, key: Box<[Expr]>, arguments: Vec<Reg>) -> Template {
        Template {
            part: 0,
            table,
            known: key.len() as u8,
            key,
            is_steady: true,
            operations: Box::default(),
            arguments: arguments.into(),
            inputs: Box::default(),
            turn: self.turn,
        }
    }

    /// The arguments that an operation uses, and what it uses of other ones.
    fn uses(&self, key: &[Expr], action: &Action) -> (Vec<Reg>, Vec<Use>) {
        let mut used = Vec::new();
        let exprs = key.iter().chain(action.exprs());
        exprs.for_each(|expr| visit::each_register(expr, &mut |register| used.push(register)));
        self.path.iter().for_each(|g| g.each_register(&mut |r| used.push(r)));
        let mut arguments = Vec::new();
        let mut uses: Vec<Use> = Vec::new();
        for register in used {
            match self.base.get(&register) {
                Some(Base::Argument) => arguments.push(register),
                Some(Base::Output { operation, column } | Base::Steady { operation, column }) => {
                    uses.push(Use { register, operation: *operation, column: *column });
                }
                Some(Base::Turn) | None => {}
            }
        }
        (arguments, uses)
    }

    fn needs_data(&self, expr: &Expr) -> bool {
        self.base_of(expr).is_some_and(Base::is_output)
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

    fn action(&self, step: &Step) -> Option<(TableId, Box<[Expr]>, Action)> {
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

    fn abortable(&self, analysis: &Analysis, is_reduced: bool) -> Abortable {
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

impl Base {
    fn is_output(self) -> bool {
        matches!(self, Base::Output { .. })
    }
}

fn is_cut_loop(step: &Step) -> bool {
    visit::is_loop(step) && visit::touches_rows(step)
}

/// What a step, and those inside it, take beside their accesses, with what their values weigh.
fn units(step: &Step) -> u64 {
    /// A value is held, and its weight is paid for.
    const VALUE_UNITS: u64 = 4;
    let mut units = 1;
    visit::each_step_expr(step, &mut |_, expr| {
        units += VALUE_UNITS;
        expr.walk(&mut |_| units += 1);
    });
    let inside = visit::blocks(step).into_iter().flatten().flat_map(|block| block.iter());
    units + inside.map(self::units).sum::<u64>()
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

/// The registers that the rejections of a loop's turns look at.
fn decisive(body: &Block) -> Vec<Reg> {
    let mut registers = Vec::new();
    for step in visit::numbered(body) {
        let condition = match step {
            Step::Require { condition, .. } => condition,
            Step::If { condition, .. } if rejects(step) => condition,
            _ => continue,
        };
        visit::each_register(condition, &mut |register| registers.push(register));
    }
    registers
}

/// What the rows of a query rest on. `None`: on more than rows.
fn steady_of(query: &Query) -> Option<Vec<Steady>> {
    let mut steady = Vec::new();
    let mut is_plain = true;
    visit::each_query(query, &mut |query| match query {
        Query::Get { table, columns, .. } => {
            steady.push(Steady { table: *table, columns: columns.clone(), index: None });
        }
        Query::Scan { table, index, columns, .. } => {
            steady.push(Steady { table: *table, columns: columns.clone(), index: Some(*index) });
        }
        Query::Filter { .. }
        | Query::Project { .. }
        | Query::Aggregate { .. }
        | Query::Sort { .. }
        | Query::Limit { .. }
        | Query::Distinct { .. } => {}
        _ => is_plain = false,
    });
    is_plain.then_some(steady)
}

/// A procedure that answers with what a query finds, and whether it finds anything.
fn asking(procedure: &Procedure, step: &Step, outputs: &[Reg], found: Reg) -> Procedure {
    let values = outputs.iter().chain([&found]).map(|register| Expr::Reg(*register));
    Procedure {
        name: procedure.name.clone(),
        parameters: procedure.parameters.clone(),
        registers: procedure.registers,
        register_names: Box::default(),
        body: Box::new([step.clone(), Step::Emit { values: values.collect() }]),
        output: procedure.output.clone(),
        tag: procedure.tag.clone(),
        read_only: true,
        draws: false,
        sequences: Box::default(),
    }
}
