//! What lists came to, against what those that read and extended them were told.
//!
//! ```text
//! list 3   … 17 18 21        the order of the elements is the order of their transactions
//! T1  append 17   ─► T2 read … 17   ─► T3 append 18      before: who wrote what was read or next
//! T1 was answered ─────────────────► T4 was sent         before: by the time of day
//! ```
//!
//! A list that is read is a beginning of what it came to, so each read says which transactions came
//! before and after its own. Where all of that, with the times, is no cycle, there is a serial
//! order that each client could have seen happen: the ledger is *strictly serializable*. Nothing
//! else is: an answered element that is missing, one that was refused and is there, a stale read
//! and a skewed write each break a rule or close a cycle.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Append { list: u64, element: u64 },
    Read { list: u64, seen: Vec<u64> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Committed,
    /// Nothing of it may ever be seen.
    Refused,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    pub key: String,
    /// Of one that was not answered, what it appended.
    pub steps: Vec<Step>,
    pub fate: Fate,
    pub sent_us: u64,
    /// `None`: it was not answered.
    pub answered_us: Option<u64>,
}

/// By list, what it came to.
pub type Lists = BTreeMap<u64, Vec<u64>>;

/// The first thing that no serial order explains.
pub fn check(history: &[Transaction], lists: &Lists) -> Result<(), String> {
    let places = places(lists)?;
    let writers = writers(history, &places)?;
    let mut before = Before(vec![BTreeSet::new(); history.len()]);
    for elements in lists.values() {
        for pair in elements.windows(2) {
            before.add(writers[&pair[0]], writers[&pair[1]]);
        }
    }
    let committed = || (0..).zip(history).filter(|(_, it)| it.fate == Fate::Committed);
    for (own, transaction) in committed() {
        let mut appended = BTreeMap::new();
        for step in &transaction.steps {
            match step {
                Step::Append { list, element } => _ = appended.insert(*list, *element),
                Step::Read { list, seen } => {
                    let elements = lists.get(list).map_or(&[][..], Vec::as_slice);
                    let key = &transaction.key;
                    if !elements.starts_with(seen) {
                        return Err(format!("{key} read {seen:?} of list {list}: {elements:?}"));
                    }
                    if let Some(element) = appended.get(list)
                        && seen.last() != Some(element)
                    {
                        return Err(format!("{key} read {seen:?}, behind its own {element}"));
                    }
                    if let Some(last) = seen.last() {
                        before.add(writers[last], own);
                    }
                    if let Some(next) = elements.get(seen.len()) {
                        before.add(own, writers[next]);
                    }
                }
            }
        }
    }
    before.add_times(history);
    match before.cycle() {
        None => Ok(()),
        Some(cycle) => {
            let named = cycle.iter().filter_map(|it| history.get(*it)).map(|it| format!("{it:?}"));
            Err(format!("no serial order: {}", named.collect::<Vec<_>>().join(" before ")))
        }
    }
}

/// The list of each element.
fn places(lists: &Lists) -> Result<BTreeMap<u64, u64>, String> {
    let mut places = BTreeMap::new();
    for (list, elements) in lists {
        for element in elements {
            if places.insert(*element, *list).is_some() {
                return Err(format!("{element} was appended twice, list {list}: {elements:?}"));
            }
        }
    }
    Ok(places)
}

/// The transaction of each element; all that were answered are there, and none that was refused.
fn writers(
    history: &[Transaction],
    places: &BTreeMap<u64, u64>,
) -> Result<BTreeMap<u64, usize>, String> {
    let mut writers = BTreeMap::new();
    for (own, transaction) in history.iter().enumerate() {
        let Transaction { key, steps, fate, .. } = transaction;
        for step in steps {
            let Step::Append { list, element } = step else { continue };
            let is_there = places.get(element) == Some(list);
            match fate {
                Fate::Committed if !is_there => {
                    return Err(format!("{element}, which {key} has committed, is lost"));
                }
                Fate::Refused if is_there => {
                    return Err(format!("{element} is there, and {key} was refused"));
                }
                _ => _ = writers.insert(*element, own),
            }
        }
    }
    match places.keys().find(|element| !writers.contains_key(element)) {
        None => Ok(writers),
        Some(element) => Err(format!("{element} is there, and was never sent")),
    }
}

/// Those that come after each one. Beyond the transactions: moments.
struct Before(Vec<BTreeSet<usize>>);

impl Before {
    fn add(&mut self, one: usize, other: usize) {
        if one != other {
            self.0[one].insert(other);
        }
    }

    /// An answer comes before whatever is sent after it. Moments follow one another, so that not
    /// each pair has to.
    fn add_times(&mut self, history: &[Transaction]) {
        let committed = (0..).zip(history).filter(|(_, it)| it.fate == Fate::Committed);
        let mut moments = Vec::new();
        for (own, Transaction { sent_us, answered_us, .. }) in committed {
            // Of one moment, sent first: the two may have been at once.
            moments.push((*sent_us, false, own));
            moments.extend(answered_us.map(|answered| (answered, true, own)));
        }
        moments.sort_unstable();
        let mut last = None;
        for (_, is_answer, own) in moments {
            if is_answer {
                let moment = self.0.len();
                self.0.push(BTreeSet::new());
                self.add(own, moment);
                last.into_iter().for_each(|last| self.add(last, moment));
                last = Some(moment);
            } else if let Some(last) = last {
                self.add(last, own);
            }
        }
    }

    fn cycle(&self) -> Option<Vec<usize>> {
        let mut waits_for = vec![0; self.0.len()];
        self.0.iter().flatten().for_each(|behind| waits_for[*behind] += 1);
        let mut free: Vec<usize> = (0..self.0.len()).filter(|it| waits_for[*it] == 0).collect();
        let mut left: BTreeSet<usize> = (0..self.0.len()).collect();
        while let Some(one) = free.pop() {
            left.remove(&one);
            for behind in &self.0[one] {
                waits_for[*behind] -= 1;
                if waits_for[*behind] == 0 {
                    free.push(*behind);
                }
            }
        }
        // Each that is left has one before it that is left: going back comes to a cycle.
        let mut way = vec![*left.first()?];
        loop {
            let last = way[way.len() - 1];
            let one = *left.iter().find(|it| self.0[**it].contains(&last))?;
            if let Some(from) = way.iter().position(|it| *it == one) {
                let mut cycle = way.split_off(from);
                cycle.reverse();
                return Some(cycle);
            }
            way.push(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(list: u64, element: u64) -> Step {
        Step::Append { list, element }
    }

    fn read(list: u64, seen: &[u64]) -> Step {
        Step::Read { list, seen: seen.to_vec() }
    }

    fn committed(key: &str, sent_us: u64, answered_us: u64, steps: Vec<Step>) -> Transaction {
        let (key, answered_us) = (key.to_owned(), Some(answered_us));
        Transaction { key, steps, fate: Fate::Committed, sent_us, answered_us }
    }

    fn lists(all: &[(u64, &[u64])]) -> Lists {
        all.iter().map(|(list, elements)| (*list, elements.to_vec())).collect()
    }

    fn said(history: &[Transaction], all: &[(u64, &[u64])]) -> String {
        check(history, &lists(all)).unwrap_err()
    }

    #[test]
    fn what_happened_one_by_one_holds() {
        let history = [
            committed("a", 0, 1, vec![read(1, &[]), append(1, 10), read(1, &[10])]),
            committed("b", 2, 9, vec![read(1, &[10]), append(2, 20)]),
            committed("c", 3, 8, vec![append(1, 11), read(2, &[20])]),
        ];
        check(&history, &lists(&[(1, &[10, 11]), (2, &[20])])).unwrap();
    }

    #[test]
    fn what_is_lost_made_up_or_doubled_is_named() {
        let one = committed("a", 0, 1, vec![append(1, 10)]);
        assert!(said(std::slice::from_ref(&one), &[(1, &[])]).contains("is lost"));
        assert!(said(std::slice::from_ref(&one), &[(1, &[10, 10])]).contains("twice"));
        assert!(said(std::slice::from_ref(&one), &[(1, &[10, 11])]).contains("never sent"));
        let refused = Transaction { fate: Fate::Refused, ..one };
        assert!(said(&[refused], &[(1, &[10])]).contains("was refused"));
    }

    #[test]
    fn reads_that_no_order_explains_are_named() {
        let write = |key, element, at| committed(key, at, at + 1, vec![append(1, element)]);
        let (a, b) = (write("a", 10, 0), write("b", 11, 2));
        let stale = committed("c", 4, 5, vec![read(1, &[10])]);
        let reported = said(&[a.clone(), b.clone(), stale], &[(1, &[10, 11])]);
        assert!(reported.contains("no serial order") && reported.contains("\"c\""), "{reported}");
        // Beside the write it may come first.
        let beside = committed("c", 1, 5, vec![read(1, &[10])]);
        check(&[a.clone(), b.clone(), beside], &lists(&[(1, &[10, 11])])).unwrap();
        let gone = committed("c", 4, 5, vec![read(1, &[11])]);
        assert!(said(&[a, b, gone], &[(1, &[10, 11])]).contains("read [11]"));
        let blind = committed("d", 0, 1, vec![append(1, 10), read(1, &[])]);
        assert!(said(&[blind], &[(1, &[10])]).contains("its own 10"));
    }

    #[test]
    fn skewed_writes_and_halves_are_cycles() {
        let skew = [
            committed("a", 0, 9, vec![read(1, &[]), append(2, 20)]),
            committed("b", 0, 9, vec![read(2, &[]), append(1, 10)]),
        ];
        assert!(said(&skew, &[(1, &[10]), (2, &[20])]).contains("no serial order"));
        let half = [
            committed("a", 0, 9, vec![append(1, 10), append(1, 11)]),
            committed("b", 0, 9, vec![read(1, &[10])]),
        ];
        assert!(said(&half, &[(1, &[10, 11])]).contains("no serial order"));
    }

    /// An answer that never came says nothing about the time.
    #[test]
    fn one_without_an_answer_may_have_happened_late() {
        let late = Transaction { answered_us: None, ..committed("a", 0, 0, vec![append(1, 10)]) };
        let history = [late, committed("b", 5, 6, vec![read(1, &[])])];
        check(&history, &lists(&[(1, &[10])])).unwrap();
    }
}
