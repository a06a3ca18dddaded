//! The reordering of a batch: who must go, and in which order the others come.
//!
//! ```text
//!   1  conflict graph            Ti → Tj: Ti writes what Tj reads, so Tj must precede Ti
//!   2  components, cycles        Tarjan; Johnson within each component
//!   3  count(t)                  cycles that hold t
//!   4  while there are cycles    drop the t with the largest count, of several the first;
//!                                delete its cycles, and take them off the counts of their members
//!   5  schedule                  walk to an unscheduled parent as long as there is one, schedule,
//!                                go on to an unscheduled child; the reverse is the order
//! ```
//!
//! The printed algorithm takes the cycles off the counts of *all* transactions, whether or not they
//! are on them; that drops transactions which are on no cycle any more. The form above gives the
//! schedule that is printed beside it.
//!
//! *Budget.* Cycles are exponentially many (five transactions that read and write one key have 84,
//! nine have 125,664), so their enumeration gets a budget of steps for each transaction of a
//! component. A component that goes beyond is taken apart by degree: the number of ways through a
//! transaction, edges in times edges out, stands for the number of its cycles. Transactions
//! without edges in or without edges out are on no cycle and fall away first, again after each
//! victim. Budget and rule are functions of the batch, so every replica finds the same victims.
//!
//! *Cost.* Linear in the edges of the graph, n²/64 words, and the budget. A minimal set of victims
//! is NP-hard to find; this one is greedy.

use std::collections::BTreeSet;

use super::cycles::{Budget, components, elementary_cycles};
use super::graph::{Bits, Graph};

/// What becomes of a batch. Numbers are those of its transactions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Those that stay, in an order in which each reads before another writes what it read.
    pub order: Vec<u32>,
    /// Those that go, ascending.
    pub victims: Vec<u32>,
    /// Components with too many cycles for the budget.
    pub uncounted_components: u32,
}

/// Reorder a batch: transaction i reads the keys `reads[i]` and writes `writes[i]`, where keys are
/// small numbers. `budget` is in steps for each transaction.
pub fn reorder<R, W>(reads: &[R], writes: &[W], budget: u64) -> Schedule
where
    R: AsRef<[u32]>,
    W: AsRef<[u32]>,
{
    let graph = Graph::of(reads, writes);
    let mut survivors = Bits::all(graph.count());
    let mut schedule = Schedule::default();
    for component in components(&graph, &survivors) {
        let part = graph.within(&component);
        let limit = Budget(budget.saturating_mul(component.len() as u64));
        let victims = match elementary_cycles(&part, limit) {
            Some(cycles) => victims_by_count(part.count(), &cycles),
            None => {
                schedule.uncounted_components += 1;
                victims_by_degree(&part)
            }
        };
        for victim in victims {
            survivors.remove(component[victim]);
            schedule.victims.push(component[victim] as u32);
        }
    }
    schedule.victims.sort_unstable();
    schedule.order = order(&graph, survivors);
    debug_assert_eq!(schedule.order.len() + schedule.victims.len(), reads.len(), "each once");
    debug_assert_eq!(
        valid_in_order(reads, writes, &schedule.order),
        schedule.order.len(),
        "all that stay are valid"
    );
    schedule
}

/// How many transactions are valid if a batch is executed in some order: those that read nothing
/// which an earlier valid one wrote.
pub fn valid_in_order<R, W>(reads: &[R], writes: &[W], order: &[u32]) -> usize
where
    R: AsRef<[u32]>,
    W: AsRef<[u32]>,
{
    let mut written: BTreeSet<u32> = BTreeSet::new();
    let mut valid = 0;
    for &at in order {
        if !reads[at as usize].as_ref().iter().any(|key| written.contains(key)) {
            written.extend(writes[at as usize].as_ref());
            valid += 1;
        }
    }
    valid
}

/// Steps 3 and 4.
fn victims_by_count(count: usize, cycles: &[Vec<usize>]) -> Vec<usize> {
    let mut counts = vec![0u32; count];
    let mut cycles_of = vec![Vec::new(); count];
    for (number, cycle) in cycles.iter().enumerate() {
        for &member in cycle {
            counts[member] += 1;
            cycles_of[member].push(number);
        }
    }
    let mut deleted = vec![false; cycles.len()];
    let mut victims = Vec::new();
    while let Some(victim) = largest(counts.iter().map(|&count| u64::from(count))) {
        victims.push(victim);
        for &number in &cycles_of[victim] {
            if !std::mem::replace(&mut deleted[number], true) {
                cycles[number].iter().for_each(|&member| counts[member] -= 1);
            }
        }
    }
    victims
}

/// The first place of the largest number, if that is not zero.
fn largest(numbers: impl Iterator<Item = u64>) -> Option<usize> {
    let best = numbers.enumerate().max_by_key(|&(at, number)| (number, std::cmp::Reverse(at)));
    best.filter(|&(_, number)| number > 0).map(|(at, _)| at)
}

/// The rule where there are too many cycles.
fn victims_by_degree(graph: &Graph) -> Vec<usize> {
    let mut peeling = Peeling {
        graph,
        left: Bits::all(graph.count()),
        into: Vec::new(),
        out_of: Vec::new(),
        loose: Vec::new(),
    };
    for at in 0..graph.count() {
        peeling.into.push(graph.parents(at, &peeling.left).count() as u64);
        peeling.out_of.push(graph.children(at, &peeling.left).count() as u64);
    }
    let mut victims = Vec::new();
    let ways = |p: &Peeling<'_>| largest((0..graph.count()).map(|at| p.into[at] * p.out_of[at]));
    while let Some(victim) = ways(&peeling) {
        victims.push(victim);
        peeling.peel(victim);
        debug_assert!(!peeling.left.contains(victim), "a victim goes, so this ends");
    }
    victims
}

struct Peeling<'g> {
    graph: &'g Graph,
    left: Bits,
    /// Edges from and to those that are left.
    into: Vec<u64>,
    out_of: Vec<u64>,
    /// On no cycle, and not yet taken away.
    loose: Vec<usize>,
}

impl Peeling<'_> {
    /// Take away a transaction, and all that are on no cycle without it.
    fn peel(&mut self, victim: usize) {
        self.loose.push(victim);
        while let Some(at) = self.loose.pop() {
            if !self.left.contains(at) {
                continue;
            }
            self.left.remove(at);
            (self.into[at], self.out_of[at]) = (0, 0);
            for child in self.graph.children(at, &self.left) {
                self.into[child] -= 1;
                if self.into[child] == 0 {
                    self.loose.push(child);
                }
            }
            for parent in self.graph.parents(at, &self.left) {
                self.out_of[parent] -= 1;
                if self.out_of[parent] == 0 {
                    self.loose.push(parent);
                }
            }
        }
    }
}

/// Step 5. The graph has no cycle among `unscheduled`, so the walk to the parents ends, and none is
/// scheduled before all its parents are.
fn order(graph: &Graph, mut unscheduled: Bits) -> Vec<u32> {
    let mut order = Vec::new();
    let mut next = None;
    while let Some(mut node) = next.or_else(|| unscheduled.iter().next()) {
        while let Some(parent) = graph.parents(node, &unscheduled).next() {
            node = parent;
        }
        order.push(node as u32);
        unscheduled.remove(node);
        next = graph.children(node, &unscheduled).next();
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    const AMPLE: u64 = 1 << 20;

    type Keys = Vec<Vec<u32>>;

    fn keys(sets: &[&[u32]]) -> Keys {
        sets.iter().map(|keys| keys.to_vec()).collect()
    }

    fn table_3_3() -> (Keys, Keys) {
        (
            keys(&[&[0, 1], &[3, 4, 5], &[6, 7], &[2, 8], &[9], &[]]),
            keys(&[&[2], &[0], &[3, 9], &[1, 4], &[5, 6, 8], &[7]]),
        )
    }

    /// Sharma 2020, Table 3.3: cycles T0T3, T0T3T1 and T2T4 make T0 and T2 go.
    #[test]
    fn table_3_3_is_scheduled_as_printed() {
        let (reads, writes) = table_3_3();
        let schedule = reorder(&reads, &writes, AMPLE);
        assert_eq!(schedule.order, [5, 1, 3, 4]);
        assert_eq!(schedule.victims, [0, 2]);
        assert_eq!(schedule.uncounted_components, 0);
    }

    /// Sharma 2020, section 3.5.1: the counts of Table 3.3.
    #[test]
    fn table_3_3_has_three_cycles() {
        let (reads, writes) = table_3_3();
        let graph = Graph::of(&reads, &writes);
        let all = Bits::all(6);
        assert_eq!(components(&graph, &all), [vec![0, 1, 3], vec![2, 4]]);
        let cycles = elementary_cycles(&graph, Budget(u64::MAX)).unwrap();
        let count = |at| cycles.iter().filter(|cycle| cycle.contains(&at)).count();
        assert_eq!((0..6).map(count).collect::<Vec<_>>(), [2, 1, 1, 2, 1, 0]);
    }

    /// Sharma 2020, Tables 3.1 and 3.2: one writer ahead of three readers leaves one of four valid;
    /// reordered, all are.
    #[test]
    fn table_3_1_becomes_four_valid_transactions() {
        let (reads, writes) = (keys(&[&[], &[1], &[1], &[1]]), keys(&[&[1], &[2], &[3], &[4]]));
        assert_eq!(valid_in_order(&reads, &writes, &[0, 1, 2, 3]), 1);
        let schedule = reorder(&reads, &writes, AMPLE);
        assert_eq!(schedule.order, [3, 2, 1, 0]);
        assert_eq!(valid_in_order(&reads, &writes, &schedule.order), 4);
    }

    /// Sharma 2020, Figure 3.6: half of 1,024 transactions write, half read the same distinct keys.
    /// Of the sequence rotated i - 1 times n/2 + i - 1 are valid in arrival order; reordered, all.
    #[test]
    fn figure_3_6_rotated_writers_and_readers_are_all_valid() {
        const N: u32 = 1024;
        // All writers lead in the first sequence; each rotation takes the last reader to the front.
        for rotated in [0, 1, 7, 100, N / 2] {
            let at = |i: u32| (i + N - rotated) % N;
            let one = |i: u32, writer: bool| match at(i) < N / 2 {
                is_writer if is_writer == writer => vec![at(i) % (N / 2)],
                _ => vec![],
            };
            let reads: Keys = (0..N).map(|i| one(i, false)).collect();
            let writes: Keys = (0..N).map(|i| one(i, true)).collect();
            let arrival: Vec<u32> = (0..N).collect();
            assert_eq!(valid_in_order(&reads, &writes, &arrival), (N / 2 + rotated) as usize);
            let schedule = reorder(&reads, &writes, AMPLE);
            assert_eq!(valid_in_order(&reads, &writes, &schedule.order), N as usize);
        }
    }

    /// Sharma 2020, Figure 3.7: n/t cycles of length t lose one transaction each; in arrival order
    /// half are valid.
    #[test]
    fn figure_3_7_each_cycle_loses_one_transaction() {
        const N: u32 = 1024;
        for length in [2, 4, 16, 256, 1024] {
            let reads: Keys = (0..N).map(|i| vec![i]).collect();
            let next = |i: u32| i / length * length + (i + 1) % length;
            let writes: Keys = (0..N).map(|i| vec![next(i)]).collect();
            let arrival: Vec<u32> = (0..N).collect();
            assert_eq!(valid_in_order(&reads, &writes, &arrival), N as usize / 2);
            let schedule = reorder(&reads, &writes, AMPLE);
            assert_eq!(schedule.order.len(), (N - N / length) as usize);
            let valid = valid_in_order(&reads, &writes, &schedule.order);
            assert_eq!(valid, schedule.order.len());
        }
    }

    /// A hot key that all read and write lets one transaction through, whichever rule finds the
    /// victims.
    #[test]
    fn a_hot_key_leaves_one_transaction_by_count_and_by_degree() {
        for (count, budget) in [(5, AMPLE), (5, 0), (1000, 256)] {
            let uses: Keys = (0..count).map(|_| vec![0]).collect();
            let schedule = reorder(&uses, &uses, budget);
            assert_eq!(schedule.order, [count - 1]);
            assert_eq!(schedule.uncounted_components, u32::from(budget != AMPLE));
        }
    }

    fn random_keys(random: &mut Random, count: usize, keys: u64) -> Keys {
        let mut set = || (0..random.below(4)).map(|_| random.below(keys) as u32).collect();
        (0..count).map(|_| set()).collect()
    }

    /// Whatever the batch and the budget: each transaction is scheduled or a victim, those that are
    /// scheduled are valid, and none is a victim that is on no cycle.
    #[test]
    fn schedules_are_complete_valid_and_spare_whoever_is_on_no_cycle() {
        for seed in 0..1_500 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(if seed % 50 == 0 { 150 } else { 8 }) as usize;
            let distinct = 2 + random.below(20) + count as u64 / 2;
            let reads = random_keys(&mut random, count, distinct);
            let writes = random_keys(&mut random, count, distinct);
            let schedule = reorder(&reads, &writes, [0, 5, 500][seed as usize % 3]);
            let mut everyone = [&schedule.order[..], &schedule.victims].concat();
            everyone.sort_unstable();
            assert!(everyone.into_iter().eq(0..count as u32));
            let valid = valid_in_order(&reads, &writes, &schedule.order);
            assert_eq!(valid, schedule.order.len());
            let conflicts =
                |i: usize, j: usize| i != j && writes[i].iter().any(|key| reads[j].contains(key));
            for &victim in &schedule.victims {
                let mut reached = vec![victim as usize];
                let mut next = 0;
                while let Some(&from) = reached.get(next) {
                    let fresh = |to: &usize| conflicts(from, *to) && !reached.contains(to);
                    let fresh: Vec<usize> = (0..count).filter(fresh).collect();
                    reached.extend(fresh);
                    next += 1;
                }
                assert!(reached.iter().any(|&from| conflicts(from, victim as usize)));
            }
        }
    }
}
