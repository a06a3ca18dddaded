//! Dynamic analysis (P6): which pieces of a piece-set may run beside each other.
//!
//! Pieces are taken in commit order. Each names the key spaces that it touches; a space is hashed
//! to one of a fixed number of *queues*, and within a queue order is kept. What stands in one queue
//! between two pieces that stand in several is one *node*: its pieces run one after the other on
//! one thread, without a word to others. A piece of several queues is a node of its own, which
//! waits for the last node of each; a piece that may touch anything waits for all.
//!
//! ```text
//!   queue 0   a a a ──┐         ┌── a ──┐
//!   queue 1   b b ────┤ (a, b)  ├── b b ┼── ? ── …      ? may touch anything
//!   queue 2   c c c c ┘·········│·······┘
//! ```
//!
//! The paper appends single operations to one queue for each core, and is silent on operations that
//! pass values from key to key. Here a piece is the unit, and there are many more queues than
//! cores, so that a piece of several queues holds up few others. A queue has a home among the
//! workers, the same one in every batch, so that its records stay in one core's cache.
//!
//! Cost: a run of the note program for each piece, a hash and an array look-up for each space.

use std::hash::Hasher;

use concurrency::schedule::Graph;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use types::{Key, TableId};

use crate::mutant::Mutant;

/// Queues of a piece-set. A power of two.
const QUEUES: usize = 1 << 12;

const NO_NODE: u32 = u32::MAX;

/// What one piece touches.
#[derive(Debug, Default)]
pub struct Spaces {
    /// Ascending once [sorted](Spaces::sort).
    queues: SmallVec<[u16; 16]>,
    any: bool,
}

impl Spaces {
    pub fn clear(&mut self) {
        self.queues.clear();
        self.any = false;
    }

    pub fn note(&mut self, table: TableId, key: &Key) {
        let mut hasher = FxHasher::default();
        hasher.write_u32(table.0);
        hasher.write(key.as_bytes());
        let hash = hasher.finish();
        self.queues.push((hash ^ hash >> 32) as u16 % QUEUES as u16);
    }

    pub fn note_any(&mut self) {
        self.any = true;
    }

    fn sort(&mut self, mutant: Option<Mutant>) {
        self.queues.sort_unstable();
        self.queues.dedup();
        match mutant {
            Some(Mutant::NoBarriers) => self.any = false,
            Some(Mutant::OneKeySpace) => self.queues.truncate(1),
            _ => {}
        }
    }
}

/// A piece-set cut into nodes.
pub struct Plan {
    pub graph: Graph,
    /// Node n runs `items[first[n]..first[n + 1]]`, places of pieces in the set.
    first: Vec<u32>,
    items: Vec<u32>,
    /// By node: a queue that it stands in.
    homes: Vec<u16>,
}

impl Plan {
    pub fn items(&self, node: u32) -> &[u32] {
        &self.items[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }

    /// The worker that had the node's records in earlier batches, if no other had to help out.
    pub fn home(&self, node: u32, workers: usize) -> usize {
        usize::from(self.homes[node as usize]) % workers.max(1)
    }

    /// All pieces in one node.
    pub fn serial(count: usize) -> Plan {
        let graph = Graph::new(1, &[]);
        let (first, items) = (vec![0, count as u32], (0..count as u32).collect());
        Plan { graph, first, items, homes: vec![0] }
    }
}

/// Makes a plan, piece by piece.
pub struct Planner {
    /// The last node of each queue.
    tails: Vec<u32>,
    /// By node: more pieces of its one queue may be added.
    open: Vec<bool>,
    homes: Vec<u16>,
    edges: Vec<(u32, u32)>,
    /// By piece.
    node_of: Vec<u32>,
    /// The last piece that all others wait for.
    barrier: u32,
    mutant: Option<Mutant>,
}

impl Planner {
    pub fn new(mutant: Option<Mutant>) -> Planner {
        Planner {
            tails: vec![NO_NODE; QUEUES],
            open: Vec::new(),
            homes: Vec::new(),
            edges: Vec::new(),
            node_of: Vec::new(),
            barrier: NO_NODE,
            mutant,
        }
    }

    /// The next piece of the set touches `spaces`.
    pub fn add(&mut self, spaces: &mut Spaces) {
        spaces.sort(self.mutant);
        if spaces.any {
            return self.add_barrier();
        }
        if let [queue] = spaces.queues[..] {
            let tail = self.tails[usize::from(queue)];
            if tail != NO_NODE && self.open[tail as usize] {
                return self.node_of.push(tail);
            }
        }
        let home = spaces.queues.first().copied().unwrap_or(0);
        let node = self.begin_node(spaces.queues.len() == 1, home);
        let before = self.edges.len();
        for queue in &spaces.queues {
            let tail = std::mem::replace(&mut self.tails[usize::from(*queue)], node);
            if tail != NO_NODE && !self.edges[before..].contains(&(tail, node)) {
                self.edges.push((tail, node));
            }
        }
        if self.edges.len() == before && self.barrier != NO_NODE {
            self.edges.push((self.barrier, node));
        }
    }

    fn begin_node(&mut self, open: bool, home: u16) -> u32 {
        let node = self.open.len() as u32;
        self.open.push(open);
        self.homes.push(home);
        self.node_of.push(node);
        node
    }

    fn add_barrier(&mut self) {
        let since = if self.barrier == NO_NODE { 0 } else { self.barrier };
        let node = self.begin_node(false, 0);
        self.edges.extend((since..node).map(|before| (before, node)));
        self.tails.fill(NO_NODE);
        self.barrier = node;
    }

    pub fn finish(self) -> Plan {
        let nodes = self.open.len();
        let mut first = vec![0u32; nodes + 1];
        for node in &self.node_of {
            first[*node as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut items = vec![0; self.node_of.len()];
        for (item, node) in self.node_of.iter().enumerate() {
            items[next[*node as usize] as usize] = item as u32;
            next[*node as usize] += 1;
        }
        Plan { graph: Graph::new(nodes, &[self.edges]), first, items, homes: self.homes }
    }
}
