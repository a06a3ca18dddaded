//! The direct serialization graph of a block, and its cycles.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dependency {
    /// It wrote what the other overwrote.
    WriteWrite,
    /// It wrote what the other read.
    WriteRead,
    /// It read what the other overwrote.
    ReadWrite,
}

/// Edges between transactions of a block, each with one reason and the key.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    edges: BTreeMap<usize, BTreeMap<usize, (Dependency, i64)>>,
}

/// Transactions that each come before the next, and the last before the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle(pub Vec<(usize, Dependency, i64)>);

impl Graph {
    /// `before` comes before `after`; none comes before itself.
    pub fn add(&mut self, before: usize, after: usize, why: Dependency, key: i64) {
        if before != after {
            self.edges.entry(before).or_default().entry(after).or_insert((why, key));
        }
    }

    pub fn count(&self) -> usize {
        self.edges.values().map(BTreeMap::len).sum()
    }

    /// A shortest cycle.
    pub fn cycle(&self) -> Option<Cycle> {
        let cycles = self.edges.keys().filter_map(|&start| self.cycle_through(start));
        cycles.min_by_key(|cycle| cycle.0.len())
    }

    /// Breadth first from a transaction until it is met again.
    fn cycle_through(&self, start: usize) -> Option<Cycle> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for &next in self.edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if next == start {
                    return Some(self.path(start, at, &came_from));
                }
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    at
                });
            }
        }
        None
    }

    fn path(&self, start: usize, last: usize, came_from: &BTreeMap<usize, usize>) -> Cycle {
        let mut path = vec![last];
        while let Some(&before) = came_from.get(&path[path.len() - 1])
            && path[path.len() - 1] != start
        {
            path.push(before);
        }
        path.reverse();
        let nexts = path.iter().skip(1).chain([&start]);
        let steps = path.iter().zip(nexts).map(|(at, next)| {
            let (why, key) = self.edges[at][next];
            (*at, why, key)
        });
        Cycle(steps.collect())
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (transaction, why, key) in &self.0 {
            let why = match why {
                Dependency::WriteWrite => "ww",
                Dependency::WriteRead => "wr",
                Dependency::ReadWrite => "rw",
            };
            write!(f, "T{transaction} ─{why}, key {key}─► ")?;
        }
        match self.0.first() {
            Some((first, ..)) => write!(f, "T{first}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortest_cycle_is_found_and_a_dag_has_none() {
        let mut graph = Graph::default();
        let dependencies = [(1, 2), (2, 3), (3, 4), (1, 4), (0, 1)];
        for (before, after) in dependencies {
            graph.add(before, after, Dependency::WriteRead, 0);
        }
        assert_eq!(graph.cycle(), None);
        graph.add(4, 1, Dependency::ReadWrite, 7);
        let expected = [(1, Dependency::WriteRead, 0), (4, Dependency::ReadWrite, 7)];
        assert_eq!(graph.cycle(), Some(Cycle(expected.to_vec())));
    }
}
