//! Strongly connected components (Tarjan 1972) and elementary cycles (Johnson 1975).
//!
//! Both are written with stacks of their own: a component can be as large as a block, and a
//! worker's stack is small.

use super::graph::{Bits, Graph};

/// Components of `among` that hold a cycle, in the order of their smallest members; each ascending.
pub fn components(graph: &Graph, among: &Bits) -> Vec<Vec<usize>> {
    let mut tarjan = Tarjan {
        graph,
        among,
        number: vec![0; graph.count()],
        low: vec![0; graph.count()],
        on_stack: Bits::none(graph.count()),
        stack: Vec::new(),
        last: 0,
        found: Vec::new(),
    };
    for root in among.iter() {
        if tarjan.number[root] == 0 {
            tarjan.search(root);
        }
    }
    tarjan.found.sort_unstable();
    tarjan.found
}

struct Tarjan<'g> {
    graph: &'g Graph,
    among: &'g Bits,
    /// In the order of discovery; 0: not yet discovered.
    number: Vec<u32>,
    /// The smallest number known to be reachable.
    low: Vec<u32>,
    on_stack: Bits,
    stack: Vec<usize>,
    last: u32,
    found: Vec<Vec<usize>>,
}

impl<'g> Tarjan<'g> {
    fn enter(&mut self, node: usize) -> (usize, impl Iterator<Item = usize> + use<'g>) {
        self.last += 1;
        (self.number[node], self.low[node]) = (self.last, self.last);
        self.stack.push(node);
        self.on_stack.insert(node);
        (node, self.graph.children(node, self.among))
    }

    fn search(&mut self, root: usize) {
        let mut path = vec![self.enter(root)];
        while let Some((node, children)) = path.last_mut() {
            let node = *node;
            match children.next() {
                Some(child) if self.number[child] == 0 => path.push(self.enter(child)),
                Some(child) if self.on_stack.contains(child) => {
                    self.low[node] = self.low[node].min(self.number[child]);
                }
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        self.low[*parent] = self.low[*parent].min(self.low[node]);
                    }
                    if self.low[node] == self.number[node] {
                        self.close(node);
                    }
                }
            }
        }
    }

    /// `root` is the first discovered of its component: the component is the stack above it.
    fn close(&mut self, root: usize) {
        let place = self.stack.iter().rposition(|&node| node == root);
        let mut component = self.stack.split_off(place.unwrap_or_default());
        component.iter().for_each(|&node| self.on_stack.remove(node));
        if component.len() > 1 {
            component.sort_unstable();
            self.found.push(component);
        }
    }
}

/// What an enumeration may spend: one unit for each edge that it looks at and for each member of a
/// cycle that it finds.
#[derive(Clone, Copy, Debug)]
pub struct Budget(pub u64);

impl Budget {
    fn spend(&mut self, units: u64) -> Option<()> {
        self.0 = self.0.checked_sub(units)?;
        Some(())
    }
}

/// Every elementary cycle, each once. `None`: too many for the budget.
pub fn elementary_cycles(graph: &Graph, mut budget: Budget) -> Option<Vec<Vec<usize>>> {
    budget.spend(graph.edges(&Bits::all(graph.count())))?;
    let mut cycles = Vec::new();
    let mut left = components(graph, &Bits::all(graph.count()));
    while let Some(component) = left.pop() {
        let mut members = Bits::none(graph.count());
        component.iter().for_each(|&node| members.insert(node));
        budget.spend(graph.edges(&members))?;
        let start = component[0];
        Johnson::new(graph, &members, start).cycles(&mut budget, &mut cycles)?;
        // The other cycles do without it.
        members.remove(start);
        left.extend(components(graph, &members));
    }
    Some(cycles)
}

/// The search for cycles through one node.
struct Johnson<'g> {
    graph: &'g Graph,
    members: &'g Bits,
    start: usize,
    path: Vec<usize>,
    /// On the path, or known to lead nowhere as long as the path stands.
    blocked: Bits,
    /// Lies on a cycle that was found from this path.
    closed: Bits,
    /// Who is to be unblocked together with each node.
    waiting: Vec<Vec<usize>>,
}

impl<'g> Johnson<'g> {
    fn new(graph: &'g Graph, members: &'g Bits, start: usize) -> Self {
        let none = Bits::none(graph.count());
        Johnson {
            graph,
            members,
            start,
            path: Vec::new(),
            blocked: none.clone(),
            closed: none,
            waiting: vec![Vec::new(); graph.count()],
        }
    }

    fn enter(&mut self, node: usize) -> (usize, impl Iterator<Item = usize> + use<'g>) {
        self.path.push(node);
        self.closed.remove(node);
        self.blocked.insert(node);
        (node, self.graph.children(node, self.members))
    }

    fn cycles(&mut self, budget: &mut Budget, found: &mut Vec<Vec<usize>>) -> Option<()> {
        let mut stack = vec![self.enter(self.start)];
        while let Some((node, children)) = stack.last_mut() {
            let node = *node;
            budget.spend(1)?;
            match children.next() {
                Some(child) if child == self.start => {
                    budget.spend(self.path.len() as u64)?;
                    found.push(self.path.clone());
                    self.path.iter().for_each(|&node| self.closed.insert(node));
                }
                Some(child) if !self.blocked.contains(child) => stack.push(self.enter(child)),
                Some(_) => {}
                None => {
                    stack.pop();
                    self.leave(node);
                }
            }
        }
        Some(())
    }

    fn leave(&mut self, node: usize) {
        self.path.pop();
        if self.closed.contains(node) {
            return self.unblock(node);
        }
        for child in self.graph.children(node, self.members) {
            if !self.waiting[child].contains(&node) {
                self.waiting[child].push(node);
            }
        }
    }

    fn unblock(&mut self, node: usize) {
        let mut next = vec![node];
        while let Some(node) = next.pop() {
            if self.blocked.contains(node) {
                self.blocked.remove(node);
                next.append(&mut self.waiting[node]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    fn clique(count: usize) -> Graph {
        let pairs = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
        Graph::of_edges(count, &pairs.filter(|(i, j)| i != j).collect::<Vec<_>>())
    }

    /// Transactions that read and write one key are a complete graph, whose cycles are too many to
    /// be counted long before a block is full.
    #[test]
    fn cycles_of_a_hot_key_are_exponentially_many() {
        for (count, cycles) in [(1, 0), (2, 1), (3, 5), (4, 20), (5, 84), (9, 125_664)] {
            let found = elementary_cycles(&clique(count), Budget(u64::MAX)).unwrap();
            assert_eq!(found.len(), cycles);
        }
        assert!(elementary_cycles(&clique(100), Budget(1_000_000)).is_none());
    }

    /// Every cycle by following every path.
    fn by_brute_force(graph: &Graph) -> Vec<Vec<usize>> {
        fn follow(graph: &Graph, path: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
            let all = Bits::all(graph.count());
            for child in graph.children(path[path.len() - 1], &all) {
                if child == path[0] {
                    found.push(path.clone());
                } else if child > path[0] && !path.contains(&child) {
                    path.push(child);
                    follow(graph, path, found);
                    path.pop();
                }
            }
        }
        let mut found = Vec::new();
        (0..graph.count()).for_each(|start| follow(graph, &mut vec![start], &mut found));
        found
    }

    #[test]
    fn cycles_are_all_those_that_exist_and_components_those_they_link() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(7) as usize;
            let one_in = 1 + random.below(5);
            let pairs = (0..count).flat_map(|i| (0..count).map(move |j| (i, j)));
            let edges: Vec<_> = pairs.filter(|(i, j)| i != j && random.chance(one_in)).collect();
            let graph = Graph::of_edges(count, &edges);
            let mut found = elementary_cycles(&graph, Budget(u64::MAX)).unwrap();
            found.sort_unstable();
            let mut expected = by_brute_force(&graph);
            expected.sort_unstable();
            assert_eq!(found, expected);

            let all = Bits::all(count);
            let members: Vec<usize> = components(&graph, &all).concat();
            for node in 0..count {
                let on_a_cycle = expected.iter().any(|cycle| cycle.contains(&node));
                assert_eq!(members.contains(&node), on_a_cycle);
            }
        }
    }
}
