//! Which steps a step needs, and which may reject the transaction.

use std::collections::BTreeSet;

use types::{TableId, Value};

use super::StepId;
use super::commands::CommandFacts;
use super::visit::{self, Use};
use crate::expr::{Expr, UnaryOp};
use crate::query::{Query, Yields};
use crate::step::{Block, Procedure, Step};

/// Whether, and how, a step may reject the transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Abortable {
    Never,
    /// Only by a value out of its type's bounds: an overflow, a cast, a division by zero.
    Arithmetic,
    /// By the program's decision: `Require`, `Raise`, a check, a strict fetch.
    Guard,
}

/// What is known of one step. Lists of steps are ascending.
#[derive(Clone, PartialEq, Debug)]
pub struct StepFacts {
    /// The branch or loop that the step is in.
    pub parent: Option<StepId>,
    pub depth: u16,
    /// Steps whose registers say which rows this one touches.
    pub key_dependencies: Box<[StepId]>,
    /// Steps whose registers this one computes with.
    pub value_dependencies: Box<[StepId]>,
    /// Steps that decide whether this one runs: its parent, and earlier ones that may leave the
    /// loop or the procedure.
    pub control_dependencies: Box<[StepId]>,
    /// Earlier steps that may touch the same row, this one or they writing it. (From one turn of a
    /// loop to the next everything stays in order anyway.)
    pub row_dependencies: Box<[StepId]>,
    /// Updates, inserts or deletes.
    pub writes: bool,
    pub abortable: Abortable,
    /// Of an `Update`.
    pub command: Option<CommandFacts>,
}

impl StepFacts {
    /// All steps that this one depends on other than by rows, perhaps with repetitions.
    pub fn inputs(&self) -> impl Iterator<Item = StepId> + '_ {
        let keys = self.key_dependencies.iter();
        let values = keys.chain(&self.value_dependencies);
        values.chain(&self.control_dependencies).copied()
    }
}

pub(super) fn facts(procedure: &Procedure, numbered: &[&Step]) -> Box<[StepFacts]> {
    let mut writer = vec![None; usize::from(procedure.registers)];
    for (id, step) in numbered.iter().enumerate() {
        visit::each_output(step, &mut |register| {
            writer[usize::from(register.0)] = Some(id as StepId);
        });
    }
    let mut places = Vec::with_capacity(numbered.len());
    place(&procedure.body, None, 0, &[], &mut places);
    let mut facts: Vec<StepFacts> = Vec::with_capacity(numbered.len());
    for (id, (step, place)) in numbered.iter().zip(places).enumerate() {
        let id = id as StepId;
        let mut keys = BTreeSet::new();
        let mut values = BTreeSet::new();
        visit::each_step_expr(step, &mut |how, expr| {
            visit::each_register(expr, &mut |register| {
                let on = writer[usize::from(register.0)].filter(|on| *on != id);
                match how {
                    Use::Key => keys.extend(on),
                    Use::Value | Use::Control => values.extend(on),
                }
            });
        });
        facts.push(StepFacts {
            parent: place.parent,
            depth: place.depth,
            key_dependencies: keys.into_iter().collect(),
            value_dependencies: values.into_iter().collect(),
            control_dependencies: place.control,
            row_dependencies: row_dependencies(id, numbered),
            writes: touches(step).iter().any(|touch| touch.writes),
            abortable: abortable(step),
            command: match step {
                Step::Update { code, .. } => Some(CommandFacts::of(code)),
                _ => None,
            },
        });
    }
    facts.into()
}

pub(super) fn guards(facts: &[StepFacts]) -> Box<[StepId]> {
    let ids = facts.iter().enumerate();
    let guards = ids.filter(|(_, facts)| facts.abortable == Abortable::Guard);
    guards.map(|(id, _)| id as StepId).collect()
}

struct Place {
    parent: Option<StepId>,
    depth: u16,
    control: Box<[StepId]>,
}

/// Where the steps of `block` stand; `leavers` are earlier steps that may have left it.
fn place(
    block: &Block,
    parent: Option<StepId>,
    depth: u16,
    leavers: &[StepId],
    places: &mut Vec<Place>,
) {
    let mut leavers = leavers.to_vec();
    for step in block {
        let id = places.len() as StepId;
        let mut control = leavers.clone();
        control.extend(parent);
        control.sort_unstable();
        control.dedup();
        places.push(Place { parent, depth, control: control.into() });
        for inner in visit::blocks(step).into_iter().flatten() {
            place(inner, Some(id), depth + 1, &leavers, places);
        }
        if may_leave(step, 0) {
            leavers.push(id);
        }
    }
}

/// Whether control may go elsewhere than to the step after this one, `loops` loops inside it
/// aside.
fn may_leave(step: &Step, loops: u16) -> bool {
    match step {
        Step::Return => true,
        Step::Exit { depth, .. } | Step::Continue { depth, .. } => *depth >= loops,
        _ => {
            let loops = loops + u16::from(visit::is_loop(step));
            let mut inner = visit::blocks(step).into_iter().flatten();
            inner.any(|block| block.iter().any(|step| may_leave(step, loops)))
        }
    }
}

/// One step's way to one table.
struct Touch<'s> {
    table: TableId,
    writes: bool,
    /// `None`: perhaps any row.
    key: Option<Vec<&'s Expr>>,
}

fn touches(step: &Step) -> Vec<Touch<'_>> {
    if let Some((table, key)) = visit::row_access(step) {
        let writes = !matches!(step, Step::Read { .. } | Step::Exists { .. });
        return vec![Touch { table, writes, key: Some(key) }];
    }
    let mut found = Vec::new();
    match step {
        Step::Insert { table, .. } => found.push(Touch { table: *table, writes: true, key: None }),
        Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. } => {
            visit::each_query(query, &mut |query| match query {
                Query::Get { table, key, .. } => found.push(Touch {
                    table: *table,
                    writes: false,
                    key: Some(key.iter().collect()),
                }),
                Query::Scan { table, .. } => {
                    found.push(Touch { table: *table, writes: false, key: None })
                }
                _ => {}
            });
        }
        _ => {}
    }
    found
}

fn row_dependencies(id: StepId, numbered: &[&Step]) -> Box<[StepId]> {
    let own = touches(numbered[id as usize]);
    if own.is_empty() {
        return Box::default();
    }
    let earlier = numbered[..id as usize].iter().enumerate();
    let conflicting = earlier.filter(|(_, step)| {
        touches(step).iter().any(|theirs| own.iter().any(|own| conflict(theirs, own)))
    });
    conflicting.map(|(id, _)| id as StepId).collect()
}

fn conflict(a: &Touch<'_>, b: &Touch<'_>) -> bool {
    let differ = match (&a.key, &b.key) {
        (Some(a), Some(b)) => a.iter().zip(b).any(|(a, b)| constants_differ(a, b)),
        _ => false,
    };
    a.table == b.table && (a.writes || b.writes) && !differ
}

fn constants_differ(a: &Expr, b: &Expr) -> bool {
    matches!((a, b), (Expr::Const(a), Expr::Const(b)) if a != b)
}

fn abortable(step: &Step) -> Abortable {
    match step {
        Step::Require { .. } | Step::Raise { .. } | Step::Fetch { strict: true, .. } => {
            return Abortable::Guard;
        }
        Step::Update { code, .. } if !code.checks.is_empty() => return Abortable::Guard,
        // A value that has more than one row.
        step if asks_for_values(step) => return Abortable::Guard,
        // Their bounds and arrays may be NULL.
        Step::ForRange { .. } | Step::ForEach { .. } => return Abortable::Arithmetic,
        _ => {}
    }
    let mut fallible = false;
    visit::each_step_expr(step, &mut |_, expr| fallible |= may_fail(expr));
    if let Step::Update { code, .. } = step {
        // A metered command may meet a row too long for it.
        fallible |= !code.is_brief();
        fallible |= code.assignments.iter().any(|(_, expr)| may_fail(expr));
    }
    match fallible {
        true => Abortable::Arithmetic,
        false => Abortable::Never,
    }
}

fn asks_for_values(step: &Step) -> bool {
    let (Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. }) =
        step
    else {
        return false;
    };
    let mut asks = false;
    visit::each_query(query, &mut |query| {
        asks |= matches!(query, Query::Apply { yields: Yields::Value, .. });
    });
    asks
}

/// Whether evaluating may be an error, for some values.
pub(crate) fn may_fail(expr: &Expr) -> bool {
    expr.any(&mut |expr| match expr {
        Expr::Unary { op, .. } => *op != UnaryOp::Not,
        Expr::Call { .. } | Expr::Like { .. } => true,
        Expr::Cast { input, .. } => !matches!(**input, Expr::Const(Value::Null)),
        Expr::Binary { op, .. } => !op.is_comparison(),
        _ => false,
    })
}
