//! From what transactions saw of lists to their dependencies.
//!
//! Within a block, a key's row goes through *lives*: each begins with an insert (the first perhaps
//! before the block) and ends with a delete (the last perhaps not). Between them lie absences.
//!
//! ```text
//!   absence 0    life 1            absence 1    life 2
//!   ────────────┤a   a,b   a,b,c  ├────────────┤d   d,e  ►
//!               T4   T1    T1     T7           T2   T5
//! ```

use std::collections::{BTreeMap, BTreeSet};

use types::Height;

use super::graph::{Dependency, Graph};
use super::{Anomaly, Seen};

/// All there is to know about a block.
pub(super) struct Lists<'a> {
    pub height: Height,
    /// By transaction; `None`: it did not commit.
    pub seen: &'a [Option<Vec<Seen>>],
    pub before: &'a [(i64, String)],
    pub after: &'a [(i64, String)],
}

/// One life of a row.
#[derive(Debug)]
struct Life {
    /// The list as it was at the end.
    elements: Vec<String>,
    /// Who ended it; `None`: it goes on.
    deleter: Option<usize>,
}

impl Life {
    /// Who began it in this block.
    fn inserter(&self, lists: &Lists<'_>) -> Option<usize> {
        self.elements.first().and_then(|element| lists.writer(element))
    }
}

impl Lists<'_> {
    pub fn graph(&self) -> Result<Graph, Anomaly> {
        let mut graph = Graph::default();
        let keys: BTreeSet<i64> = self
            .observations()
            .map(|(_, seen)| seen.key())
            .chain(self.before.iter().chain(self.after).map(|(key, _)| *key))
            .collect();
        for key in keys {
            self.dependencies_of(key, &mut graph)?;
        }
        Ok(graph)
    }

    /// What committed transactions saw.
    fn observations(&self) -> impl Iterator<Item = (usize, &Seen)> {
        let of_each = self.seen.iter().enumerate();
        of_each.flat_map(|(at, seen)| seen.iter().flatten().map(move |seen| (at, seen)))
    }

    /// The transaction of this block that wrote an element.
    fn writer(&self, element: &str) -> Option<usize> {
        let mut parts = element.split('.').skip(1);
        let height: Height = parts.next()?.parse().ok()?;
        let transaction = parts.next()?.parse().ok()?;
        (height == self.height).then_some(transaction)
    }

    fn dependencies_of(&self, key: i64, graph: &mut Graph) -> Result<(), Anomaly> {
        let of_key = |lists: &[(i64, String)]| {
            lists.iter().find(|(k, _)| *k == key).map(|(_, list)| split(list))
        };
        let (before, after) = (of_key(self.before), of_key(self.after));
        let lives = self.lives(key, before.as_deref(), after.as_deref())?;
        for life in &lives {
            self.follow(key, life, graph);
        }
        for (reader, seen) in self.observations().filter(|(_, seen)| seen.key() == key) {
            if let Seen::List(_, list) = seen {
                self.read(key, reader, &split(list), &lives, graph)?;
            }
        }
        let order = is_chronology(before.is_some(), after.is_some(), lives.len());
        self.existence(key, &lives, order, before.is_some(), graph)
    }

    /// Every life of a row: the one before the block first, the one after it last.
    fn lives(
        &self,
        key: i64,
        before: Option<&[String]>,
        after: Option<&[String]>,
    ) -> Result<Vec<Life>, Anomaly> {
        let mut lives = Vec::new();
        let mut last_seen: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (at, seen) in self.observations().filter(|(_, seen)| seen.key() == key) {
            match seen {
                Seen::List(_, list) => drop(last_seen.insert(at, split(list))),
                Seen::Deleted(_) => {
                    let elements = last_seen.remove(&at).unwrap_or_default();
                    lives.push(Life { elements, deleter: Some(at) });
                }
                _ => {}
            }
        }
        if let Some(after) = after {
            lives.push(Life { elements: after.to_vec(), deleter: None });
        }
        // A stable order whatever the deleters' positions: that of the lists' first elements, with
        // the ends where they belong.
        let first = before.and_then(|list| list.first());
        lives.sort_by_key(|life| (life.elements.first() != first, life.deleter.is_none()));
        self.check_lives(key, &lives, before)?;
        Ok(lives)
    }

    /// Each life is another list, continues what was there before, and holds what committed
    /// transactions wrote and nothing else.
    fn check_lives(
        &self,
        key: i64,
        lives: &[Life],
        before: Option<&[String]>,
    ) -> Result<(), Anomaly> {
        if let Some(before) = before
            && !lives.iter().any(|life| life.elements.starts_with(before))
        {
            return Err(format!("key {key} held {before:?}, which nobody deleted"));
        }
        let mut elements: Vec<&String> = lives.iter().flat_map(|life| &life.elements).collect();
        elements.sort_unstable();
        if let Some(twice) = elements.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("element {} is in two lists or twice in one", twice[0]));
        }
        for (at, seen) in self.observations().filter(|(_, seen)| seen.key() == key) {
            if let Seen::Appended(_, element) | Seen::Inserted(_, element) = seen
                && elements.binary_search(&element).is_err()
            {
                return Err(format!("T{at} committed, and its element {element} is gone"));
            }
        }
        for element in elements {
            let rejected = |&writer: &usize| self.seen.get(writer).is_none_or(Option::is_none);
            if let Some(writer) = self.writer(element).filter(rejected) {
                return Err(format!("T{writer} did not commit, and {element} is there"));
            }
        }
        Ok(())
    }

    /// A transaction that appends overwrites the list that was there before.
    fn follow(&self, key: i64, life: &Life, graph: &mut Graph) {
        let writers: Vec<_> = life.elements.iter().map(|element| self.writer(element)).collect();
        for pair in writers.windows(2) {
            if let [Some(one), Some(next)] = *pair {
                graph.add(one, next, Dependency::WriteWrite, key);
            }
        }
        if let (Some(Some(last)), Some(deleter)) = (writers.last(), life.deleter) {
            graph.add(*last, deleter, Dependency::WriteWrite, key);
        }
    }

    /// What read a list comes after its last writer and before the next one.
    fn read(
        &self,
        key: i64,
        reader: usize,
        list: &[String],
        lives: &[Life],
        graph: &mut Graph,
    ) -> Result<(), Anomaly> {
        let begins = |life: &&Life| life.elements.starts_with(list) && !list.is_empty();
        let Some(life) = lives.iter().find(begins) else {
            return Err(format!("T{reader} read {list:?}, of which no list that stayed begins"));
        };
        if let Some(writer) = list.last().and_then(|element| self.writer(element)) {
            graph.add(writer, reader, Dependency::WriteRead, key);
        }
        let next = life.elements.get(list.len()).and_then(|element| self.writer(element));
        if let Some(next) = next.or(life.deleter) {
            graph.add(reader, next, Dependency::ReadWrite, key);
        }
        Ok(())
    }

    /// What saw that a row was there or absent, where it is known which life or absence it was.
    fn existence(
        &self,
        key: i64,
        lives: &[Life],
        is_chronology: bool,
        present_at_first: bool,
        graph: &mut Graph,
    ) -> Result<(), Anomaly> {
        if is_chronology {
            for pair in lives.windows(2) {
                if let (Some(deleter), Some(inserter)) = (pair[0].deleter, pair[1].inserter(self)) {
                    graph.add(deleter, inserter, Dependency::WriteWrite, key);
                }
            }
        }
        let absences = self.absences(lives, present_at_first);
        for (reader, (is_there, own)) in self.looks(key) {
            let spans = if is_there { lives.len() } else { absences.len() };
            if spans == 0 && !own {
                let what = if is_there { "there" } else { "absent" };
                return Err(format!("T{reader} saw row {key} as {what}, which it never was"));
            }
            if own || spans != 1 {
                continue;
            }
            let (begun_by, ended_by) = match is_there {
                true => (lives[0].inserter(self), lives[0].deleter),
                false => absences[0],
            };
            if let Some(writer) = begun_by {
                graph.add(writer, reader, Dependency::WriteRead, key);
            }
            if let Some(writer) = ended_by {
                graph.add(reader, writer, Dependency::ReadWrite, key);
            }
        }
        Ok(())
    }

    /// Who began and who ended each time without the row.
    fn absences(
        &self,
        lives: &[Life],
        present_at_first: bool,
    ) -> Vec<(Option<usize>, Option<usize>)> {
        let ends = lives.iter().map(|life| life.deleter);
        let begins =
            lives.iter().map(|life| life.inserter(self)).skip(usize::from(present_at_first));
        let ends = (!present_at_first).then_some(None).into_iter().chain(ends);
        let goes_on = lives.last().is_some_and(|life| life.deleter.is_none());
        let begun: Vec<_> = ends.collect();
        let count = begun.len() - usize::from(goes_on);
        let ended = begins.chain(std::iter::repeat(None));
        begun.into_iter().zip(ended).take(count).collect()
    }

    /// Looks at whether the row is there: who looked, what it saw, and whether that was its own
    /// doing.
    fn looks(&self, key: i64) -> Vec<(usize, (bool, bool))> {
        let mut looks = Vec::new();
        for (at, seen) in self.seen.iter().enumerate() {
            let mut own = false;
            for seen in seen.iter().flatten().filter(|seen| seen.key() == key) {
                match seen {
                    Seen::Present(_) => looks.push((at, (true, own))),
                    Seen::Absent(_) => looks.push((at, (false, own))),
                    Seen::Inserted(..) | Seen::Deleted(_) => own = true,
                    Seen::List(..) | Seen::Appended(..) => {}
                }
            }
        }
        looks
    }
}

/// Whether the order of the lives is known: there is at most one between the first and the last.
fn is_chronology(present_at_first: bool, present_at_last: bool, lives: usize) -> bool {
    lives <= usize::from(present_at_first) + usize::from(present_at_last) + 1
}

impl Seen {
    fn key(&self) -> i64 {
        match self {
            Seen::List(key, _) | Seen::Appended(key, _) | Seen::Inserted(key, _) => *key,
            Seen::Present(key) | Seen::Absent(key) | Seen::Deleted(key) => *key,
        }
    }
}

fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(key: i64, text: &str) -> Seen {
        Seen::List(key, text.into())
    }

    fn appended(key: i64, element: &str) -> Seen {
        Seen::Appended(key, element.into())
    }

    fn inserted(key: i64, element: &str) -> [Seen; 2] {
        [Seen::Absent(key), Seen::Inserted(key, element.into())]
    }

    fn state(lists: &[(i64, &str)]) -> Vec<(i64, String)> {
        lists.iter().map(|(key, list)| (*key, list.to_string())).collect()
    }

    /// Of block 2, whose transactions saw this.
    fn graph(
        seen: &[Option<Vec<Seen>>],
        before: &[(i64, &str)],
        after: &[(i64, &str)],
    ) -> Result<Graph, Anomaly> {
        let (before, after) = (state(before), state(after));
        Lists { height: 2, seen, before: &before, after: &after }.graph()
    }

    fn kinds(graph: Graph) -> Option<Vec<(usize, Dependency)>> {
        let cycle = graph.cycle()?;
        Some(cycle.0.into_iter().map(|(at, why, _)| (at, why)).collect())
    }

    const RW: Dependency = Dependency::ReadWrite;

    #[test]
    fn a_write_skew_is_a_cycle() {
        let before = [(0, "0.1.0.0"), (1, "1.1.0.0")];
        let after = [(0, "0.1.0.0,0.2.0.0"), (1, "1.1.0.0,1.2.1.0")];
        let one = vec![list(1, "1.1.0.0"), appended(0, "0.2.0.0")];
        let other = vec![list(0, "0.1.0.0"), appended(1, "1.2.1.0")];
        let graph = graph(&[Some(one), Some(other)], &before, &after).unwrap();
        assert_eq!(kinds(graph), Some(vec![(0, RW), (1, RW)]));
    }

    #[test]
    fn two_phantoms_are_a_cycle() {
        let after = [(0, "0.2.0.0"), (1, "1.2.1.0")];
        let insert = |other, key, element| {
            let mut seen = vec![Seen::Absent(other)];
            seen.extend(inserted(key, element));
            Some(seen)
        };
        let seen = [insert(1, 0, "0.2.0.0"), insert(0, 1, "1.2.1.0")];
        assert_eq!(kinds(graph(&seen, &[], &after).unwrap()), Some(vec![(0, RW), (1, RW)]));
    }

    #[test]
    fn a_serial_history_with_a_replaced_row_has_no_cycle() {
        let (before, after) = ([(0, "0.1.0.0")], [(0, "0.2.1.0,0.2.2.0")]);
        let delete = vec![list(0, "0.1.0.0"), Seen::Deleted(0)];
        let insert = inserted(0, "0.2.1.0").to_vec();
        let last = vec![list(0, "0.2.1.0"), appended(0, "0.2.2.0")];
        let looks = vec![Seen::Absent(0)];
        let seen = [Some(delete), Some(insert), Some(last), Some(looks)];
        let graph = graph(&seen, &before, &after).unwrap();
        assert_eq!(graph.cycle(), None);
        // 0 ─ww─► 1 ─ww─► 2, and 0 ─wr─► 3 ─rw─► 1.
        assert_eq!(graph.count(), 4);
    }

    #[test]
    fn a_lost_update_an_aborted_read_and_a_fork_are_seen_without_a_graph() {
        let before = [(0, "0.1.0.0")];
        let lost = [Some(vec![appended(0, "0.2.0.0")])];
        assert!(graph(&lost, &before, &before).unwrap_err().contains("is gone"));
        let aborted = graph(&[None], &before, &[(0, "0.1.0.0,0.2.0.0")]);
        assert!(aborted.unwrap_err().contains("did not commit"));
        let fork = [Some(vec![list(0, "0.1.0.0,0.2.7.0")])];
        assert!(graph(&fork, &before, &before).unwrap_err().contains("no list that stayed"));
    }
}
