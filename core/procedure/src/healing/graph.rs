//! The dependency graph: which registers each step uses, and who uses what it finds.
//!
//! Registers are single-assignment, so "uses a register of" is the edge between two steps. A node
//! keeps its in-edges as a set of registers; the walk keeps the registers that have changed as
//! another, and an intersection says whether a step is affected. Nodes form the same tree as the
//! steps, each with the edges into all that is inside it, so that a walk need not enter what
//! nothing reaches.

use types::TableId;

use crate::analysis::visit::{self, Use};
use crate::bound::Metering;
use crate::expr::{Expr, Reg};
use crate::meter::UNWEIGHED_MAX;
use crate::query::Query;
use crate::step::{Block, Procedure, Step};

/// Static, once for each procedure.
#[derive(Debug)]
pub struct DependencyGraph {
    pub(super) body: Nodes,
    /// Tables that queries look at.
    pub(super) queried: Vec<TableId>,
    /// Rows that are named by the order of their inserts.
    pub(super) hidden_row_ids: bool,
    /// Some update command is metered, or after so many that rows are looked at first.
    pub(super) metered_commands: bool,
    pub(super) registers: usize,
    /// Tables whose rows supply keys of other tables: `(from, to)`.
    pub table_edges: Vec<(TableId, TableId)>,
}

pub(super) type Nodes = Box<[Node]>;

/// A step.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Registers that it uses itself: of a structure, for its decision or its bounds.
    pub uses: Registers,
    /// Those that are used inside it, and for what a loop carries to the next turn.
    pub inner: Registers,
    /// What it finds, as far as a later step uses it.
    pub outputs: Box<[Reg]>,
    /// Of a loop: what its turns write and use.
    pub window: Box<[Reg]>,
    pub blocks: [Nodes; 2],
    /// Of a branch: used to merge.
    pub phis: Registers,
    /// Of a loop, for each register that it carries.
    pub initials: Box<[Registers]>,
    pub nexts: Box<[Registers]>,
}

/// A set of registers.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Registers(Box<[u64]>);

impl Registers {
    pub fn none(registers: usize) -> Registers {
        Registers(vec![0; registers.div_ceil(64)].into())
    }

    fn of<'e>(registers: usize, exprs: impl IntoIterator<Item = &'e Expr>) -> Registers {
        let mut set = Registers::none(registers);
        for expr in exprs {
            visit::each_register(expr, &mut |register| set.insert(register));
        }
        set
    }

    #[inline]
    pub fn insert(&mut self, Reg(register): Reg) {
        self.0[usize::from(register / 64)] |= 1 << (register % 64);
    }

    #[inline]
    pub fn remove(&mut self, Reg(register): Reg) {
        self.0[usize::from(register / 64)] &= !(1 << (register % 64));
    }

    #[inline]
    pub fn contains(&self, Reg(register): Reg) -> bool {
        self.0[usize::from(register / 64)] >> (register % 64) & 1 == 1
    }

    #[inline]
    pub fn meets(&self, other: &Registers) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    fn add_all(&mut self, other: &Registers) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }
}

impl DependencyGraph {
    pub fn of(procedure: &Procedure) -> DependencyGraph {
        let registers = usize::from(procedure.registers).max(procedure.parameters.len());
        let steps = visit::numbered(&procedure.body);
        let mut used = Registers::none(registers);
        for step in &steps {
            visit::each_step_expr(step, &mut |_, expr| {
                visit::each_register(expr, &mut |register| used.insert(register));
            });
        }
        let table_edges = table_edges(&steps, registers);
        let mut queried = Vec::new();
        steps.iter().for_each(|step| each_queried(step, &mut |table| queried.push(table)));
        DependencyGraph {
            body: nodes(&procedure.body, registers, &used),
            queried,
            hidden_row_ids: steps
                .iter()
                .any(|step| matches!(step, Step::Insert { hidden_row_id: true, .. })),
            metered_commands: may_weigh(&steps)
                || steps.iter().any(|step| match step {
                    Step::Update { code, .. } => matches!(code.metering, Metering::Metered(_)),
                    _ => false,
                }),
            registers,
            table_edges,
        }
    }
}

/// Whether a run may change so many rows that it reads those after them first.
fn may_weigh(steps: &[&Step]) -> bool {
    let changes_long = |step: &Step| match step {
        Step::Update { code, .. } => !code.long.is_empty(),
        Step::Delete { long, .. } => !long.is_empty(),
        _ => false,
    };
    let repeats = |step: &Step| {
        visit::is_loop(step)
            && visit::blocks(step)
                .into_iter()
                .flatten()
                .any(|block| visit::numbered(block).into_iter().any(changes_long))
    };
    let changing = steps.iter().filter(|step| changes_long(step)).count();
    changing > UNWEIGHED_MAX as usize || steps.iter().any(|step| repeats(step))
}

fn nodes(block: &Block, registers: usize, used: &Registers) -> Nodes {
    block.iter().map(|step| node(step, registers, used)).collect()
}

fn node(step: &Step, registers: usize, used: &Registers) -> Node {
    let mut node = Node { phis: Registers::none(registers), ..Node::default() };
    let mut own = Vec::new();
    visit::each_own_expr(step, &mut |expr| own.push(expr));
    node.uses = Registers::of(registers, own);
    node.inner = Registers::none(registers);
    let mut outputs = Vec::new();
    visit::each_output(step, &mut |register| outputs.push(register));
    outputs.retain(|register| used.contains(*register));
    for (at, block) in visit::blocks(step).into_iter().flatten().enumerate() {
        node.blocks[at] = nodes(block, registers, used);
        for inside in &node.blocks[at] {
            for set in [&inside.uses, &inside.inner, &inside.phis] {
                node.inner.add_all(set);
            }
            inside.initials.iter().for_each(|set| node.inner.add_all(set));
        }
    }
    if let Step::If { phis, .. } = step {
        let merged = phis.iter().flat_map(|phi| [&phi.then, &phi.otherwise]);
        node.phis = Registers::of(registers, merged);
    }
    let carried = visit::carried(step);
    node.initials = carried.iter().map(|c| Registers::of(registers, [&c.initial])).collect();
    node.nexts = carried.iter().map(|c| Registers::of(registers, [&c.next])).collect();
    for set in &node.nexts {
        node.inner.add_all(set);
    }
    if visit::is_loop(step) {
        node.window = window(step, &outputs, used);
    }
    node.outputs = outputs.into();
    node
}

/// Registers that the steps inside a loop write, and its own.
fn window(step: &Step, own: &[Reg], used: &Registers) -> Box<[Reg]> {
    let mut window = own.to_vec();
    window.extend(visit::carried(step).iter().map(|carried| carried.register));
    for block in visit::blocks(step).into_iter().flatten() {
        for inside in visit::numbered(block) {
            visit::each_output(inside, &mut |register| window.push(register));
        }
    }
    let carried = visit::carried(step);
    window.retain(|r| used.contains(*r) || carried.iter().any(|c| c.register == *r));
    window.sort_unstable();
    window.dedup();
    window.into()
}

fn each_queried(step: &Step, visit_table: &mut dyn FnMut(TableId)) {
    let (Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. }) =
        step
    else {
        return;
    };
    visit::each_query(query, &mut |query| {
        if let Query::Get { table, .. } | Query::Scan { table, .. } = query {
            visit_table(*table);
        }
    });
}

/// Tables that a step touches.
fn tables(step: &Step) -> Vec<TableId> {
    let mut tables = Vec::new();
    match step {
        Step::Insert { table, .. } => tables.push(*table),
        _ => tables.extend(visit::row_access(step).map(|(table, _)| table)),
    }
    each_queried(step, &mut |table| tables.push(table));
    tables
}

/// Steps whose registers, through whatever computes with them, make a step's key.
fn key_sources<'s>(step: &Step, steps: &[&'s Step], registers: usize) -> Vec<&'s Step> {
    let mut wanted = Registers::none(registers);
    visit::each_step_expr(step, &mut |found, expr| {
        if found == Use::Key {
            visit::each_register(expr, &mut |register| wanted.insert(register));
        }
    });
    let mut sources: Vec<&Step> = Vec::new();
    let mut grown = true;
    while std::mem::take(&mut grown) {
        for candidate in steps {
            let mut supplies = false;
            visit::each_output(candidate, &mut |register| supplies |= wanted.contains(register));
            if !supplies || sources.iter().any(|known| std::ptr::eq(*known, *candidate)) {
                continue;
            }
            grown = true;
            sources.push(candidate);
            if tables(candidate).is_empty() {
                visit::each_step_expr(candidate, &mut |_, expr| {
                    visit::each_register(expr, &mut |register| wanted.insert(register));
                });
            }
        }
    }
    sources
}

fn table_edges(steps: &[&Step], registers: usize) -> Vec<(TableId, TableId)> {
    let mut edges = Vec::new();
    for step in steps {
        let to = tables(step);
        if to.is_empty() {
            continue;
        }
        for from in key_sources(step, steps, registers) {
            for from in tables(from) {
                edges.extend(to.iter().map(|to| (from, *to)).filter(|(from, to)| from != to));
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}
