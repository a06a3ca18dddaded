//! Slices: a procedure cut into parts that may be run apart, and the local graph between them.
//!
//! Slices are the finest partition of the operations such that
//!
//! 1. operations that are data-dependent on each other share a slice: all that touch one written
//!    table do;
//! 2. if two operations share a slice and one is flow-dependent on the other, everything on a flow
//!    path between them is in it too: the graph of slices has no cycle.
//!
//! ```text
//!   union–find over the operations      strongly connected            edge s → t where an
//!   joins data-dependent pairs      →   components are merged     →   operation of t is flow-
//!                                       (one pass: what is left       dependent on one of s
//!                                       has no cycle)
//! ```
//!
//! *Between* is read as "on a flow path", which gives the finest partition; the thesis leaves it
//! open whether it means program order.
//!
//! *Row ids.* Inserts under hidden row ids draw from one counter of the transaction, so they are
//! data-dependent on each other, whatever their tables.

use procedure::analysis::StepId;
use procedure::step::Procedure;

use super::operations::Operation;
use super::partition::UnionFind;
use super::projection::{Role, project, recalled};
use crate::mutant::Mutant;

/// A procedure of this many operations or more is one slice: the projections onto each of them
/// would cost too much.
pub const OPERATIONS_MAX: usize = 256;

/// A procedure's slices.
#[derive(Clone, Debug)]
pub struct LocalGraph {
    /// Operations of each slice, by their places in the procedure's list of operations.
    pub slices: Vec<Vec<usize>>,
    /// Flow between slices, (before, after), each pair once.
    pub edges: Vec<(usize, usize)>,
}

/// Flow dependencies between operations, (before, after).
pub fn flow(
    procedure: &Procedure,
    operations: &[Operation],
    role: &dyn Fn(StepId) -> Role,
    mutant: Option<Mutant>,
) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let alone = |step: StepId| match role(step) {
            Role::Constant => Role::Constant,
            _ if step == operation.step => Role::Own,
            _ => Role::Foreign,
        };
        let body = project(procedure, &alone).body;
        for step in recalled(&body) {
            edges.extend(place_of(operations, step).map(|before| (before, at)));
        }
    }
    if mutant == Some(Mutant::FlowEdgeSkipped) {
        edges.pop();
    }
    edges
}

pub fn place_of(operations: &[Operation], step: StepId) -> Option<usize> {
    operations.binary_search_by_key(&step, |operation| operation.step).ok()
}

impl LocalGraph {
    pub fn new(operations: &[Operation], flow: &[(usize, usize)]) -> LocalGraph {
        let mut classes = UnionFind::new(operations.len());
        for (at, operation) in operations.iter().enumerate() {
            for (other_at, other) in operations[..at].iter().enumerate() {
                if operation.is_data_dependent(other) {
                    classes.union(at, other_at);
                }
            }
        }
        classes.contract_cycles(flow);
        LocalGraph::of_classes(classes.classes(), flow)
    }

    /// One slice with everything in it.
    pub fn whole(operations: usize) -> LocalGraph {
        let all: Vec<usize> = (0..operations).collect();
        LocalGraph {
            slices: if all.is_empty() { Vec::new() } else { vec![all] },
            edges: Vec::new(),
        }
    }

    fn of_classes(slices: Vec<Vec<usize>>, flow: &[(usize, usize)]) -> LocalGraph {
        let slice_of = |at: usize| slices.iter().position(|slice| slice.contains(&at)).unwrap_or(0);
        let edges = flow.iter().map(|&(before, after)| (slice_of(before), slice_of(after)));
        let mut edges: Vec<_> = edges.filter(|(before, after)| before != after).collect();
        edges.sort_unstable();
        edges.dedup();
        LocalGraph { slices, edges }
    }
}
