//! Projections: what is left of a procedure when only some of its operations are run here.
//!
//! One construction answers two questions. *What runs?* The projection onto a slice is the program
//! of its pieces. *What does it depend on?* Everything that the projection has to be told by
//! others: so an operation is flow-dependent (by define-use or by control) on exactly those whose
//! results the projection onto it alone recalls.
//!
//! ```text
//!   Read  family[$1]  → r2 r3          recall 0 → r2 r3            the result of step 0
//!   Require r3                         ─                           it has committed
//!   If r2 is not null                  If r2 is not null           the guard is replicated
//!     Update current[$1] ..              ─                         of another slice
//!     Update saving[r2] ..               Update saving[r2] ..
//!   Emit ..                            ─                           its client has had it
//! ```
//!
//! 1. Own operations stay; others become a *recall*, a read of a [virtual
//!    table](super::virtual_table) into the same registers; whatever only answers or rejects goes.
//! 2. What leads to no own operation is [swept](super::sweep), recalls included.
//!
//! *Loops.* A step in a loop gives many results. The n-th recall of a step is its n-th run, for
//! every branch, loop and early exit that decides on it is in both projections; so a loop may be
//! distributed over slices, each of which turns it for itself (scalar expansion).
//!
//! *Constants.* A read of what nothing in the log writes has no place in any order. It may be
//! replicated like a guard, and then is in no slice and never recalled.

use std::sync::{Arc, LazyLock};

use procedure::analysis::{StepId, visit};
use procedure::step::{Block, Procedure, Step};
use procedure::{CommandCode, Expr, Query, Reg};
use std::ops::Bound;
use types::ColumnId;

use super::sweep::sweep;
use super::virtual_table::{Meaning, meaning, table_of};

/// What becomes of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is run here.
    Own,
    /// It is run here, and others recall what it gives.
    Exported,
    /// Another slice runs it.
    Foreign,
    /// Reads what never changes: every slice that needs it runs it.
    Constant,
}

static NOTHING: LazyLock<Arc<CommandCode>> =
    LazyLock::new(|| Arc::new(CommandCode::new(Box::default(), Box::default())));

/// The part of `procedure` that runs its own operations. `role` is asked by step.
pub fn project(procedure: &Procedure, role: &dyn Fn(StepId) -> Role) -> Procedure {
    let scratch = Reg(procedure.registers);
    let mut rewriting = Rewriting { role, scratch, next: 0 };
    let body = rewriting.block(&procedure.body);
    // A constant read is told from an own one by its step, which a rewritten one has no more.
    let constants = Constants::of(procedure, role);
    let registers = procedure.registers + 1;
    let body = sweep(body, usize::from(registers), &|step| is_root(step, &constants));
    Procedure {
        name: procedure.name.clone(),
        parameters: procedure.parameters.clone(),
        registers,
        register_names: Box::default(),
        body,
        output: procedure::Output::Tag,
        tag: procedure.tag.clone(),
        read_only: false,
        draws: procedure.draws,
        sequences: procedure.sequences.clone(),
    }
}

/// The steps whose results a projection has to be told, ascending.
pub fn recalled(body: &Block) -> Vec<StepId> {
    let mut steps = Vec::new();
    for step in visit::numbered(body) {
        each_table(step, &mut |table| {
            if let Meaning::Recall(step) = meaning(table) {
                steps.push(step);
            }
        });
    }
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// First outputs of the reads that are constant: registers are written once, so they tell the step.
pub struct Constants(Vec<bool>);

impl Constants {
    pub fn of(procedure: &Procedure, role: &dyn Fn(StepId) -> Role) -> Constants {
        let mut constants = vec![false; usize::from(procedure.registers) + 1];
        for (id, step) in visit::numbered(&procedure.body).into_iter().enumerate() {
            if is_operation(step) && role(id as StepId) == Role::Constant {
                visit::each_output(step, &mut |Reg(r)| constants[usize::from(r)] = true);
            }
        }
        Constants(constants)
    }

    pub fn has(&self, step: &Step) -> bool {
        let mut constant = false;
        visit::each_output(step, &mut |Reg(r)| constant |= self.0[usize::from(r)]);
        constant
    }
}

/// Whether a step of a projection is an operation of its own, or serves others.
pub fn is_root(step: &Step, constants: &Constants) -> bool {
    if !is_operation(step) {
        return false;
    }
    let mut is_known = false;
    each_table(step, &mut |table| {
        is_known |= !matches!(meaning(table), Meaning::Recall(_));
    });
    is_known && !constants.has(step)
}

/// Calls `visit` with every table that the step itself touches.
pub fn each_table(step: &Step, visit_table: &mut dyn FnMut(types::TableId)) {
    match step {
        Step::Read { table, .. }
        | Step::Exists { table, .. }
        | Step::Update { table, .. }
        | Step::Insert { table, .. }
        | Step::Delete { table, .. } => visit_table(*table),
        Step::Fetch { query, .. } | Step::ForRows { query, .. } => {
            visit::each_query(query, &mut |query| match query {
                Query::Get { table, .. } | Query::Scan { table, .. } => visit_table(*table),
                _ => {}
            });
        }
        _ => {}
    }
}

pub fn is_operation(step: &Step) -> bool {
    let mut found = false;
    each_table(step, &mut |_| found = true);
    found
}

struct Rewriting<'a> {
    role: &'a dyn Fn(StepId) -> Role,
    /// Takes what is not used.
    scratch: Reg,
    next: StepId,
}

impl Rewriting<'_> {
    fn block(&mut self, block: &Block) -> Block {
        let mut steps = Vec::with_capacity(block.len());
        for step in block {
            let id = self.next;
            self.next += 1;
            self.step(id, step, &mut steps);
        }
        steps.into()
    }

    fn step(&mut self, id: StepId, step: &Step, out: &mut Vec<Step>) {
        let role = is_operation(step).then(|| (self.role)(id));
        match (step, role) {
            (Step::ForRows { .. }, Some(role)) => self.rows(id, step, role, out),
            (_, Some(Role::Own | Role::Constant)) => out.push(step.clone()),
            (_, Some(Role::Exported)) => {
                out.push(step.clone());
                let mut given = Vec::new();
                visit::each_output(step, &mut |register| given.push(register));
                out.push(self.export(id, &given));
            }
            (_, Some(Role::Foreign)) => out.push(recall(id, step, self.scratch)),
            (
                Step::Emit { .. }
                | Step::EmitQuery { .. }
                | Step::CountRows { .. }
                | Step::Require { .. }
                | Step::Raise { .. }
                | Step::Notice { .. },
                None,
            ) => {}
            (step, None) => out.push(self.inside(step)),
        }
    }

    /// A loop over the rows of a query: the query is the operation, the body is none of its.
    fn rows(&mut self, id: StepId, step: &Step, role: Role, out: &mut Vec<Step>) {
        let mut looped = self.inside(step);
        if let Step::ForRows { query, row, body, .. } = &mut looped {
            match role {
                Role::Own | Role::Constant => {}
                Role::Exported => {
                    let first = self.export(id, row);
                    *body = [first].into_iter().chain(std::mem::take(body)).collect();
                    out.push(self.tell(Meaning::Open(id), &[]));
                }
                Role::Foreign => *query = all_recalled(id, row.len().max(1)),
            }
        }
        out.push(looped);
    }

    /// A row without columns counts all the same, so there is always something to hand on.
    fn export(&self, id: StepId, given: &[Reg]) -> Step {
        let given = if given.is_empty() { &[self.scratch] } else { given };
        self.tell(Meaning::Export(id), given)
    }

    fn tell(&self, what: Meaning, given: &[Reg]) -> Step {
        Step::Update {
            table: table_of(what),
            key: Box::default(),
            code: Arc::clone(&NOTHING),
            inputs: given.iter().copied().map(Expr::Reg).collect(),
            found: self.scratch,
        }
    }

    /// The same step around what its blocks become.
    fn inside(&mut self, step: &Step) -> Step {
        let mut step = step.clone();
        match &mut step {
            Step::If { then, otherwise, .. } => {
                *then = self.block(&std::mem::take(then));
                *otherwise = self.block(&std::mem::take(otherwise));
            }
            Step::ForRows { body, .. }
            | Step::ForRange { body, .. }
            | Step::ForEach { body, .. }
            | Step::While { body, .. } => *body = self.block(&std::mem::take(body)),
            _ => {}
        }
        step
    }
}

/// A step that gives what `step` gave where it was run.
fn recall(id: StepId, step: &Step, scratch: Reg) -> Step {
    let table = table_of(Meaning::Recall(id));
    let key = Box::default();
    match step {
        Step::Read { columns, out, found, .. } => {
            let columns = (0..columns.len() as ColumnId).collect();
            Step::Read { table, key, columns, out: *out, found: *found }
        }
        Step::Fetch { outputs, found, .. } => {
            let given: Box<[Reg]> = outputs.iter().copied().chain([*found]).collect();
            let columns = (0..given.len() as ColumnId).collect();
            let query = Query::Get { table, key, columns, filter: None };
            Step::Fetch { query, outputs: given, found: scratch, strict: false }
        }
        step => {
            let mut found = scratch;
            visit::each_output(step, &mut |register| found = register);
            Step::Exists { table, key, found }
        }
    }
}

/// The rows of one run of a loop, as they were.
fn all_recalled(id: StepId, width: usize) -> Query {
    Query::Scan {
        table: table_of(Meaning::Recall(id)),
        index: 0,
        nullable: Box::default(),
        low: Bound::Unbounded,
        high: Bound::Unbounded,
        reverse: false,
        columns: (0..width as ColumnId).collect(),
        filter: None,
    }
}
