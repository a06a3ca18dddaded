//! Cuts a procedure into fragments for QueCC: one for each record, with the values and guards that
//! it needs from others.

use std::sync::Arc;

use procedure::analysis::{Abortable, Analysis, CommandClass, CommandFacts, visit};
use procedure::residue::{Needed, Residue};
use procedure::step::{Block, Phi, Procedure, Step};
use procedure::{CommandCode, Expr, Reg};
use rustc_hash::FxHashMap;
use types::{DataType, TableId};

use super::action::Action;
use super::draft::{Draft, Drafts, Use};
use super::guard::{GUARD_NODES_MAX, Guard};
use super::program::{Epilogue, Operation, Program, Publish, Template, Turns};
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
    /// The call may have ended by something that is not known.
    may_have_ended: bool,
}

/// Ways by which a call may end within a block: each is what must hold in it.
type Ends = Vec<Vec<Guard>>;

impl<'p> Cutter<'p> {
    pub fn new(procedure: &'p Procedure) -> Self {
        let arguments = 0..procedure.parameters.len() as u16;
        Cutter {
            procedure,
            base: arguments.map(|register| (Reg(register), Base::Argument)).collect(),
            definitions: FxHashMap::default(),
            drafts: Drafts::default(),
            path: Vec::new(),
            turn: None,
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
        Some(Program { parts, templates, epilogue, registers, texts, units, abortable })
    }

    fn block(&mut self, block: &'p Block) -> Option<Ends> {
        let mut ends = Ends::new();
        for step in block {
            match step {
                Step::Return => {
                    ends.push(Vec::new());
                    break;
                }
                Step::If { .. } if visit::touches_rows(step) || leaves(step) => {
                    ends.extend(self.branch(step)?);
                }
                step if !visit::touches_rows(step) => {
                    self.define(step);
                    self.may_have_ended |= leaves(step);
                }
                step if visit::is_loop(step) => self.loop_part(step)?,
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
            return (!visit::touches_rows(step)).then(Ends::new);
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
        self.drafts.close(Turns::Once, 0);
        let (base, definitions) = (self.base.clone(), self.definitions.clone());
        self.base.insert(register, Base::Turn);
        self.turn = Some(register);
        let depth = self.path.len();
        // Turns reject after writes, and to undo those would undo all that met them. In one piece
        // such a call shows nothing before it is certain.
        let must_be_empty = body.iter().any(rejects) || self.block(body).is_none();
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
        let (foreseen, guards): (Vec<Guard>, Vec<Guard>) =
            self.path.iter().cloned().partition(|guard| {
                let mut is_foreseen = true;
                guard.each_register(&mut |register| is_foreseen &= !self.is_output(register));
                is_foreseen
            });
        let (mut is_brief, mut nodes) = (key.iter().all(Expr::is_brief), 0);
        self.path.iter().for_each(|guard| {
            guard.each_expr(&mut |expr| {
                is_brief &= expr.is_brief();
                expr.walk(&mut |_| nodes += 1);
            });
        });
        if !is_brief || nodes > GUARD_NODES_MAX {
            return None;
        }
        let (arguments, uses) = self.uses(&key, &action);
        let mut foreseen_by_turn = false;
        foreseen.iter().for_each(|guard| {
            guard.each_register(&mut |register| foreseen_by_turn |= Some(register) == self.turn);
        });
        // Ids are given out in the order of the plan.
        if action.is_hidden() && !guards.is_empty() {
            return None;
        }
        let needs_data =
            |expr: &Expr| expr.any(&mut |e| self.base_of(e).is_some_and(Base::is_output));
        let keyed_by_data = key.iter().any(needs_data);
        if keyed_by_data && key.first().is_some_and(needs_data) {
            return None;
        }
        let (found, out, columns) = visit::row_outputs(step)?;
        // What was read may be long.
        let is_brief = action.long_exprs() == 0 && uses.iter().all(|used| used.column.is_none());
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
        let template = Template {
            part: 0,
            table,
            key,
            keyed_by_data,
            operations: Box::default(),
            arguments: arguments.into(),
            inputs: Box::default(),
            turn: self.turn,
        };
        let number = self.drafts.add(Draft { template, operations: vec![operation], uses })?;
        let output = |column| Base::Output { operation: number, column };
        self.base.extend((0..columns).map(|c| (Reg(out.0 + c), output(Some(c)))));
        self.base.insert(found, output(None));
        Some(())
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
                Some(Base::Output { operation, column }) => {
                    uses.push(Use { register, operation: *operation, column: *column });
                }
                Some(Base::Turn) | None => {}
            }
        }
        (arguments, uses)
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
