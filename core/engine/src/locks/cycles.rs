//! Deadlock detection across several lock tables.
//!
//! Each lock table detects deadlocks among its own locks. A session that holds a row lock and waits
//! for an advisory lock is in two tables, and neither sees the whole cycle. So the wait-for edges
//! of all tables are combined, with sessions as the nodes:
//!
//! ```text
//!   rows         5 ──waits for──► 7            combined: 5 ──► 7 ──► 5, a deadlock
//!   advisory     7 ──waits for──► 5
//! ```
//!
//! *When.* A session that has to wait takes the global mutex ([`Cycles::turn`]), enters its wait in
//! the table, and searches for a cycle through itself. If there is one, the wait is refused with
//! 40P01. So the victim is always the session whose wait closes the cycle.
//!
//! *Invariant.* The waits that are in progress form no cycle. There are only two ways to add an
//! edge. A wait begins: then it is checked, under the mutex, so one at a time. Or a lock is granted
//! and others now wait for its new holder: that holder waits for nothing, so it is on no cycle.
//!
//! *No false deadlocks.* The tables are read one after another, and waits may end meanwhile. But no
//! wait begins during the search and a waiting session releases nothing. So if a session was read
//! as a blocker and is still found waiting, it blocks still, and the edges of a reported cycle did
//! exist at the same time.
//!
//! *Cost.* Nothing for a lock that is granted at once. A wait visits every session that it
//! transitively waits for, in every table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use types::{Error, SqlState};

/// A lock table, by the numbers of sessions.
pub trait Waits: Send + Sync {
    /// Those that a session waits for here; itself may be among them.
    fn blockers(&self, process: i32) -> Vec<i32>;

    /// What it waits for here, in words.
    fn awaited(&self, process: i32) -> Option<String>;
}

/// All lock tables of a node.
#[derive(Default)]
pub struct Cycles(Mutex<Vec<Weak<dyn Waits>>>);

impl std::fmt::Debug for Cycles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cycles")
    }
}

/// As long as it lives, no other wait begins.
pub struct Turn<'a>(MutexGuard<'a, Vec<Weak<dyn Waits>>>);

impl Cycles {
    pub fn join(&self, table: Weak<dyn Waits>) {
        let mut tables = self.0.lock();
        tables.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &table));
        tables.push(table);
    }

    /// To be taken before a wait begins. No table is locked by who takes it.
    pub fn turn(&self) -> Turn<'_> {
        Turn(self.0.lock())
    }
}

impl Turn<'_> {
    /// Why a session may not begin the wait that it has begun; `None`: it closes no cycle.
    pub fn refusal(&self, process: i32) -> Option<Error> {
        let tables: Vec<Arc<dyn Waits>> = self.0.iter().filter_map(Weak::upgrade).collect();
        let cycle = cycle(&tables, process)?;
        let next = cycle.iter().cycle().skip(1);
        let lines = cycle.iter().zip(next).map(|(waiter, by)| {
            let awaited = tables.iter().find_map(|table| table.awaited(*waiter));
            let awaited = awaited.unwrap_or_else(|| "a lock".to_owned());
            format!("Process {waiter} waits for {awaited}; blocked by process {by}.")
        });
        let lines: Vec<String> = lines.collect();
        let refusal = Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
            .with_detail(lines.join("\n"))
            .with_hint("Take locks in the same order everywhere, or try again.");
        Some(refusal)
    }
}

/// The sessions of a cycle, from this one on.
fn cycle(tables: &[Arc<dyn Waits>], process: i32) -> Option<Vec<i32>> {
    let mut came_from = BTreeMap::new();
    let mut open = VecDeque::from([process]);
    while let Some(at) = open.pop_front() {
        for next in tables.iter().flat_map(|table| table.blockers(at)) {
            if next == process && at != process {
                let mut cycle = vec![at];
                while let Some(before) = cycle.last().and_then(|last| came_from.get(last)) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if next != process && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                open.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;

    const PROCESSES: usize = 5;

    /// Who waits for whom.
    struct Edges(Vec<(i32, i32)>);

    impl Waits for Edges {
        fn blockers(&self, process: i32) -> Vec<i32> {
            let own = self.0.iter().filter(|(waiter, _)| *waiter == process);
            own.map(|(_, by)| *by).collect()
        }

        fn awaited(&self, process: i32) -> Option<String> {
            self.0.iter().any(|(waiter, _)| *waiter == process).then(|| "it".to_owned())
        }
    }

    /// Whether a session can come back to itself: all steps are tried as often as there are
    /// sessions.
    fn comes_back(edges: &[(i32, i32)], process: i32) -> bool {
        let mut reached = vec![process];
        for _ in 0..PROCESSES {
            let further = edges.iter().filter(|(from, to)| from != to && reached.contains(from));
            let further: Vec<i32> = further.map(|(_, to)| *to).collect();
            if further.contains(&process) {
                return true;
            }
            reached.extend(further);
        }
        false
    }

    #[test]
    fn a_cycle_is_told_where_there_is_one_and_consists_of_edges() {
        let mut found = [0, 0];
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let mut process = || random.below(PROCESSES as u64) as i32;
            let mut edges = || (0..3).map(|_| (process(), process())).collect::<Vec<_>>();
            let tables = [edges(), edges()];
            let all = tables.concat();
            let cycles = Cycles::default();
            let tables = tables.map(|edges| Arc::new(Edges(edges)));
            for table in &tables {
                let table: Weak<Edges> = Arc::downgrade(table);
                cycles.join(table);
            }
            for process in 0..PROCESSES as i32 {
                let refusal = cycles.turn().refusal(process);
                let expected = comes_back(&all, process);
                assert_eq!(refusal.is_some(), expected, "seed {seed}: {process} in {all:?}");
                found[usize::from(expected)] += 1;
                let shared: Vec<Arc<dyn Waits>> =
                    tables.iter().map(|table| Arc::clone(table) as Arc<dyn Waits>).collect();
                let cycle = cycle(&shared, process).unwrap_or_default();
                let next = cycle.iter().cycle().skip(1);
                assert!(cycle.iter().zip(next).all(|(a, b)| all.contains(&(*a, *b))));
                assert!(cycle.first().is_none_or(|first| *first == process));
            }
        }
        assert!(found.iter().all(|count| *count > 500), "{found:?}");
    }

    #[test]
    fn a_table_that_is_gone_and_one_that_joins_twice_change_nothing() {
        let cycles = Cycles::default();
        let (one, other) = (Arc::new(Edges(vec![(1, 2)])), Arc::new(Edges(vec![(2, 1)])));
        let join = |table: &Arc<Edges>| {
            let table: Weak<Edges> = Arc::downgrade(table);
            cycles.join(table);
        };
        for table in [&one, &other, &one] {
            join(table);
        }
        let refusal = cycles.turn().refusal(1).unwrap();
        let detail = refusal.fields().detail.clone().unwrap();
        assert_eq!(detail.lines().count(), 2, "{detail}");
        drop(other);
        assert!(cycles.turn().refusal(1).is_none());
    }
}
