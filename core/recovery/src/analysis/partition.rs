//! Union-find over pieces, and merging of the dependency graph until it is acyclic.

/// Disjoint sets of `0..n` (Tarjan, 1975), halving paths.
#[derive(Clone, Debug)]
pub struct UnionFind {
    parent: Vec<usize>,
}

impl UnionFind {
    pub fn new(count: usize) -> UnionFind {
        UnionFind { parent: (0..count).collect() }
    }

    pub fn find(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    /// The smaller representative stays, so that classes are named by their first member.
    pub fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
    }

    /// Merges what reaches each other over edges between classes: the quotient graph has no cycle
    /// afterwards.
    pub fn contract_cycles(&mut self, edges: &[(usize, usize)]) {
        let count = self.parent.len();
        let mut heirs = vec![Vec::new(); count];
        for &(from, to) in edges {
            let (from, to) = (self.find(from), self.find(to));
            if from != to {
                heirs[from].push(to);
            }
        }
        for component in strong_components(&heirs) {
            component.windows(2).for_each(|pair| self.union(pair[0], pair[1]));
        }
    }

    /// Each class's members, ascending, in the order of their first members.
    pub fn classes(&mut self) -> Vec<Vec<usize>> {
        let count = self.parent.len();
        let mut members = vec![Vec::new(); count];
        for node in 0..count {
            members[self.find(node)].push(node);
        }
        members.retain(|class: &Vec<usize>| !class.is_empty());
        members
    }
}

/// The strongly connected components of a graph (Tarjan, 1972), without recursion: procedures may
/// be long.
fn strong_components(heirs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let count = heirs.len();
    let (mut order, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
    let mut components = Vec::new();
    let mut next = 0;
    for root in 0..count {
        if order[root] != UNSEEN {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge == 0 {
                (order[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            let heir = heirs[node].get(*edge).copied();
            *edge += 1;
            match heir {
                Some(heir) if order[heir] == UNSEEN => path.push((heir, 0)),
                Some(heir) if on_stack[heir] => low[node] = low[node].min(order[heir]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == order[node] {
                        let start = stack.iter().rposition(|n| *n == node).unwrap_or(0);
                        let component = stack.split_off(start);
                        component.iter().for_each(|n| on_stack[*n] = false);
                        components.push(component);
                    }
                }
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_each_other_is_merged_and_nothing_else() {
        let mut classes = UnionFind::new(6);
        classes.union(4, 5);
        // 1 and 2 reach each other; 0 reaches them; 3 reaches 4, and 5, of one class, reaches 3.
        classes.contract_cycles(&[(0, 1), (1, 2), (2, 1), (3, 4), (5, 3)]);
        assert_eq!(classes.classes(), [vec![0], vec![1, 2], vec![3, 4, 5]]);
    }

    #[test]
    fn a_long_cycle_is_one_class() {
        let count = 10_000;
        let ring: Vec<_> = (0..count).map(|node| (node, (node + 1) % count)).collect();
        let mut classes = UnionFind::new(count);
        classes.contract_cycles(&ring);
        assert_eq!(classes.classes().len(), 1);
    }
}
