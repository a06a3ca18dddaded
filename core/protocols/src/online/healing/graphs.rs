//! Dependency graphs by procedure, and the order of tables that follows from them.
//!
//! *Schema order.* Healing re-runs a key-dependent step on another row. If tables are locked such
//! that those whose rows supply keys come before those that they supply, that row comes after
//! everything that is locked, and may be waited for. So tables are sorted by the key dependencies
//! of all procedures that are known when a block begins (those on a cycle by their numbers), once,
//! for all workers of the block.

use std::sync::{Arc, Mutex, MutexGuard};

use concurrency::test_mode;
use procedure::healing::DependencyGraph;
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use types::{Height, TableId};

use crate::online::workspace::Ranks;

/// Procedures that are remembered; one-shot statements come and go.
const GRAPHS_MAX: usize = 1024;

/// Calls of a procedure before it is worth a graph.
const CALLS_MIN: usize = 2;

#[derive(Default)]
pub struct Graphs {
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// By address; the procedure is kept alive, so that no other one gets it.
    known: FxHashMap<usize, (Arc<Procedure>, Known)>,
    edges: Vec<(TableId, TableId)>,
    ranks: Arc<Ranks>,
    /// Block that `ranks` was made for, from so many edges.
    ranked: Option<(Height, usize)>,
}

enum Known {
    Calls(usize),
    Graph(Arc<DependencyGraph>),
}

impl Graphs {
    /// The graph of a procedure that is about to be called; `None`: it does not seem to be called
    /// often.
    pub fn of(&self, procedure: &Arc<Procedure>) -> Option<Arc<DependencyGraph>> {
        let mut shared = self.lock();
        if shared.known.len() >= GRAPHS_MAX {
            shared.known.clear();
            shared.edges.clear();
        }
        let address = Arc::as_ptr(procedure) as usize;
        let first = || (Arc::clone(procedure), Known::Calls(0));
        let (_, known) = shared.known.entry(address).or_insert_with(first);
        if let Known::Calls(calls) = known {
            *calls += 1;
            if *calls < test_mode::threshold(CALLS_MIN) {
                return None;
            }
            *known = Known::Graph(Arc::new(DependencyGraph::of(procedure)));
        }
        let Known::Graph(graph) = known else { return None };
        let graph = Arc::clone(graph);
        for edge in &graph.table_edges {
            if !shared.edges.contains(edge) {
                shared.edges.push(*edge);
            }
        }
        Some(graph)
    }

    /// The order of tables in the block at `height`.
    pub fn ranks(&self, height: Height) -> Arc<Ranks> {
        let mut shared = self.lock();
        let edges = shared.edges.len();
        match shared.ranked {
            Some((ranked, _)) if ranked == height => {}
            Some((_, known)) if known == edges => shared.ranked = Some((height, edges)),
            _ => {
                shared.ranks = Arc::new(sorted(&shared.edges));
                shared.ranked = Some((height, edges));
            }
        }
        Arc::clone(&shared.ranks)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Suppliers of keys first; of a cycle, the table with the smallest number.
fn sorted(edges: &[(TableId, TableId)]) -> Ranks {
    let mut left: Vec<TableId> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
    left.sort_unstable();
    left.dedup();
    let next = || {
        let supplied =
            |table: &TableId| edges.iter().any(|(from, to)| to == table && left.contains(from));
        let at = left.iter().position(|table| !supplied(table)).unwrap_or(0);
        (!left.is_empty()).then(|| left.remove(at))
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_supply_keys_come_first() {
        let table = |n| TableId(n);
        let edge = |from, to| (table(from), table(to));
        let ranks = sorted(&[edge(5, 2), edge(2, 3), edge(3, 9), edge(9, 3)]);
        let rank = |n| ranks.of(table(n));
        assert!(rank(5) < rank(2) && rank(2) < rank(3) && rank(3) < rank(9));
        assert!(rank(9) < rank(4) && rank(4) == Ranks::LAST);
    }
}
