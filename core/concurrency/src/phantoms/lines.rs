//! Writes along an index, and what is asked of all of them that a range may touch.
//!
//! ```text
//!   a line of writes     k1   k4   k4   k7   k9       anywhere: a write whose place is not known
//!   range [k4, k9)            └─────────┘             a slice of the line: two binary searches
//! ```
//!
//! A range may touch all writes of a block, and so may each of the next thousand ranges. Hence
//! nothing here goes over what a range touches: [`Sums`] has, for each node of a tree over the
//! line, what the writes under it come to; [`Marks`] leaves at each node what the ranges over it
//! come to, and carries it down to the writes when all have been.
//!
//! *Cost.* Sorting a line; then so many steps a range as the line's length has digits in base two,
//! four at most for each of them.

use std::ops;

use procedure::access::Range;
use rustc_hash::FxHashMap;
use types::Key;

use crate::overlay::place_in;

/// Values of which two make one, in whatever order.
pub trait Join: Copy {
    const NONE: Self;

    fn join(self, other: Self) -> Self;
}

/// Writes as one index sees them, with what the caller knows of each.
pub struct Line<T> {
    /// What rows leave and what they take, in the order of the index.
    in_order: Vec<(Key, T)>,
    /// Those whose places are not known: every range may have them.
    anywhere: Vec<T>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { in_order: Vec::new(), anywhere: Vec::new() }
    }
}

impl<T> Line<T> {
    pub fn add(&mut self, entry: Key, write: T) {
        self.in_order.push((entry, write));
    }

    pub fn add_anywhere(&mut self, write: T) {
        self.anywhere.push(write);
    }

    /// After the last one was added.
    pub fn sort(&mut self) {
        self.in_order.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    }

    fn place(&self, range: &Range) -> ops::Range<usize> {
        place_in(&self.in_order, range)
    }

    /// Where some ranges lie, with nothing twice.
    fn places<'r>(&self, ranges: impl Iterator<Item = &'r Range>) -> Vec<ops::Range<usize>> {
        let places = ranges.map(|range| self.place(range)).filter(|place| !place.is_empty());
        let mut places: Vec<_> = places.collect();
        places.sort_unstable_by_key(|place| place.start);
        places.dedup_by(|next, last| {
            let is_joined = next.start <= last.end;
            if is_joined {
                last.end = last.end.max(next.end);
            }
            is_joined
        });
        places
    }

    /// The writes that some ranges may touch, each as often as it stands in the line at most.
    pub fn touched<'r>(&self, ranges: impl Iterator<Item = &'r Range>) -> impl Iterator<Item = &T> {
        let touched = self.places(ranges).into_iter().flat_map(move |place| &self.in_order[place]);
        let touched = touched.map(|(_, write)| write).chain(&self.anywhere);
        touched.inspect(|_| looked_up())
    }
}

/// What the writes of a line come to, slice by slice.
pub struct Sums<J> {
    /// Two children of node `i` are `2 i` and `2 i + 1`; the writes are the last half.
    nodes: Vec<J>,
    anywhere: J,
}

impl<J: Join> Sums<J> {
    pub fn of<T>(line: &Line<T>, value: impl Fn(&T) -> J) -> Sums<J> {
        let values = line.in_order.iter().map(|(_, write)| value(write)).collect();
        let anywhere = line.anywhere.iter().map(&value).fold(J::NONE, J::join);
        Sums::new(values, anywhere)
    }

    fn new(mut values: Vec<J>, anywhere: J) -> Sums<J> {
        let count = values.len();
        let mut nodes = vec![J::NONE; count];
        nodes.append(&mut values);
        for node in (1..count).rev() {
            nodes[node] = nodes[2 * node].join(nodes[2 * node + 1]);
        }
        Sums { nodes, anywhere }
    }

    /// What the writes come to that a range may touch.
    pub fn touched<T>(&self, line: &Line<T>, range: &Range) -> J {
        self.anywhere.join(self.within(line.place(range)))
    }

    fn within(&self, slice: ops::Range<usize>) -> J {
        let mut sum = J::NONE;
        over(slice, self.nodes.len() / 2, |node| sum = sum.join(self.nodes[node]));
        sum
    }
}

/// Which writers stand in a slice of a line, however often each of them does.
pub struct Writers {
    /// For each write where its writer's last one before it stands.
    before: Sums<Before>,
    /// Those of the line.
    writers: Vec<usize>,
    anywhere: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Before {
    /// After the writer's last write before; 0: there is none.
    end: usize,
    at: usize,
}

impl Join for Before {
    const NONE: Before = Before { end: usize::MAX, at: usize::MAX };

    fn join(self, other: Before) -> Before {
        if other.end < self.end { other } else { self }
    }
}

impl Writers {
    pub fn of<T>(line: &Line<T>, writer: impl Fn(&T) -> usize) -> Writers {
        let writers: Vec<usize> = line.in_order.iter().map(|(_, write)| writer(write)).collect();
        let mut ends = FxHashMap::default();
        let before = writers.iter().enumerate().map(|(at, writer)| {
            let end = ends.insert(*writer, at + 1).unwrap_or(0);
            Before { end, at }
        });
        let before = Sums::new(before.collect(), Before::NONE);
        let mut anywhere: Vec<usize> = line.anywhere.iter().map(writer).collect();
        anywhere.sort_unstable();
        anywhere.dedup();
        Writers { before, writers, anywhere }
    }

    /// Call `each` with those of whom some ranges may touch a write: once for each stretch of the
    /// line that the ranges cover.
    pub fn touched<'r, T>(
        &self,
        line: &Line<T>,
        ranges: impl Iterator<Item = &'r Range>,
        mut each: impl FnMut(usize),
    ) {
        let mut stretches = Vec::new();
        for place in line.places(ranges) {
            // A writer is met at the first of its writes in the place.
            let start = place.start;
            stretches.push(place);
            while let Some(stretch) = stretches.pop() {
                let Before { end, at } = self.before.within(stretch.clone());
                if end <= start {
                    each(self.writers[at]);
                    stretches.extend([stretch.start..at, at + 1..stretch.end]);
                }
            }
        }
        self.anywhere.iter().copied().for_each(each);
    }
}

/// What ranges leave at the writes that they may touch.
pub struct Marks<J> {
    nodes: Vec<J>,
    anywhere: J,
}

impl<J: Join> Marks<J> {
    pub fn on<T>(line: &Line<T>) -> Marks<J> {
        Marks { nodes: vec![J::NONE; 2 * line.in_order.len()], anywhere: J::NONE }
    }

    pub fn add<T>(&mut self, line: &Line<T>, range: &Range, value: J) {
        self.anywhere = self.anywhere.join(value);
        over(line.place(range), self.nodes.len() / 2, |node| {
            self.nodes[node] = self.nodes[node].join(value);
        });
    }

    /// Each write of the line, with what was left at it.
    pub fn settle<T>(mut self, line: &Line<T>, mut each: impl FnMut(&T, J)) {
        let count = self.nodes.len() / 2;
        debug_assert_eq!(count, line.in_order.len(), "made for this line");
        for node in 2..2 * count {
            self.nodes[node] = self.nodes[node].join(self.nodes[node / 2]);
        }
        for ((_, write), mark) in line.in_order.iter().zip(&self.nodes[count..]) {
            each(write, *mark);
        }
        line.anywhere.iter().for_each(|write| each(write, self.anywhere));
    }
}

/// The nodes that have a slice of the writes under them, and no others.
fn over(slice: ops::Range<usize>, count: usize, mut node: impl FnMut(usize)) {
    debug_assert!(slice.end <= count, "a slice of the line");
    let (mut first, mut end) = (slice.start + count, slice.end + count);
    while first < end {
        if first % 2 == 1 {
            node(first);
            looked_up();
            first += 1;
        }
        if end % 2 == 1 {
            end -= 1;
            node(end);
            looked_up();
        }
        (first, end) = (first / 2, end / 2);
    }
}

#[cfg(not(test))]
fn looked_up() {}

#[cfg(test)]
use tests::looked_up;

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;
    use std::ops::Bound;

    use types::TableId;

    use super::*;

    thread_local! {
        static LOOK_UPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn looked_up() {
        LOOK_UPS.set(LOOK_UPS.get() + 1);
    }

    /// Nodes of lines that were looked at since the last call.
    pub fn look_ups() -> u64 {
        LOOK_UPS.take()
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Least(u32);

    impl Join for Least {
        const NONE: Least = Least(u32::MAX);

        fn join(self, other: Least) -> Least {
            Least(self.0.min(other.0))
        }
    }

    fn key(number: usize) -> Key {
        Key((number as u16).to_be_bytes().as_slice().into())
    }

    /// From every key to every key, on lines of every length that fits in a small tree.
    #[test]
    fn slices_come_to_what_their_writes_come_to() {
        for count in 0..19_usize {
            let mut line = Line::default();
            // No order that the tree could rely on.
            let value = |at: usize| (at * 7 + 3) as u32 % 19;
            (0..count).rev().for_each(|at| line.add(key(2 * at + 1), value(at)));
            line.sort();
            let sums = Sums::of(&line, |write| Least(*write));
            let mut marks = Marks::on(&line);
            let mut left = vec![Least::NONE; count];
            for low in 0..2 * count + 2 {
                for high in 0..2 * count + 2 {
                    let range = Range {
                        table: TableId(1),
                        index: 0,
                        low: Bound::Included(key(low)),
                        high: Bound::Excluded(key(high)),
                        reverse: false,
                    };
                    let within = (0..count).filter(|at| (low..high).contains(&(2 * at + 1)));
                    let mut met = Vec::new();
                    let writer = |write: &u32| (write % 3) as usize;
                    let writers = Writers::of(&line, writer);
                    writers.touched(&line, [&range].into_iter(), |writer| met.push(writer));
                    met.sort_unstable();
                    let mut expected: Vec<_> =
                        within.clone().map(|at| writer(&value(at))).collect();
                    expected.sort_unstable();
                    expected.dedup();
                    assert_eq!(met, expected, "each once");
                    let sum = within.clone().map(|at| Least(value(at)));
                    assert_eq!(sums.touched(&line, &range), sum.fold(Least::NONE, Join::join));
                    let mark = Least((low * 31 + high) as u32);
                    marks.add(&line, &range, mark);
                    within.for_each(|at| left[at] = left[at].join(mark));
                }
            }
            let mut settled = Vec::new();
            marks.settle(&line, |_, mark| settled.push(mark));
            assert_eq!(settled, left, "{count} writes");
        }
    }
}
