//! Range-based queues: a planner's fragments, sorted by the part of the database they touch.
//!
//! A record's *route* is a hash of its key; or of the key's first column, in a table of some of
//! whose keys a block knows no more than that. Queues own ranges of routes:
//!
//! ```text
//! route  31        24 23                0
//!        [  sector   |                  ]
//!
//! directory   sector ─► queue        0 0 0 0 1 1 2 2 2 2 2 2 2 2 3 3 …
//! queue 1     sectors 4..6           ⟨t0 f1⟩ ⟨t3 f0⟩ ⟨t3 f2⟩ …          FIFO
//! ```
//!
//! *Split.* A queue that is full hands the upper half of its sectors, with their fragments, to a
//! new one; a single sector grows instead. *Merge.* Between blocks, neighbours that stayed small
//! become one again; so the ranges follow the load, and the next block starts with them.
//!
//! Where the ranges lie reaches no result: the queues of one planner are disjoint, and those of
//! different planners are drained in the order of their planners wherever they overlap.

use std::ops::Range;

pub const SECTORS: usize = 256;
const SECTOR_SHIFT: u32 = 24;

/// Not found when it was planned: to be looked up again when its turn comes.
pub const ABSENT: u32 = u32::MAX;

/// A fragment in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Within the planner's share.
    pub transaction: u32,
    /// Of the transaction's program; [`WHOLE`] where there is none.
    pub template: u16,
    pub turn: u16,
    pub slot: u32,
    pub route: u32,
}

/// The template of a transaction that runs in one piece.
pub const WHOLE: u16 = u16::MAX;

pub struct Queue {
    pub sectors: Range<usize>,
    pub entries: Vec<Entry>,
}

impl Queue {
    pub fn overlaps(&self, other: &Queue) -> bool {
        self.sectors.start < other.sectors.end && other.sectors.start < self.sectors.end
    }
}

/// The route of a key, or of its first column.
#[inline]
pub fn route(column: &[u8]) -> u32 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    };
    let state = match column.first_chunk::<8>() {
        Some(word) if column.len() == 8 => fold(0, u64::from_be_bytes(*word)),
        _ => column.chunks(8).fold(column.len() as u64, |state, chunk| {
            let word = chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            fold(state, word)
        }),
    };
    (fold(state, 1) >> 32) as u32
}

/// The queues of one planner.
pub struct Queues {
    directory: [u16; SECTORS],
    queues: Vec<Queue>,
    capacity: usize,
}

/// First sectors of a planner's queues, ascending.
pub type Starts = Vec<usize>;

impl Queues {
    pub fn new(starts: &[usize], capacity: usize) -> Queues {
        debug_assert!(starts.first() == Some(&0) && starts.is_sorted(), "each sector has a queue");
        let mut directory = [0; SECTORS];
        let ends = starts.iter().skip(1).copied().chain([SECTORS]);
        let mut queues = Vec::with_capacity(starts.len());
        for (&start, end) in starts.iter().zip(ends) {
            directory[start..end].fill(queues.len() as u16);
            queues.push(Queue { sectors: start..end, entries: Vec::with_capacity(capacity) });
        }
        Queues { directory, queues, capacity }
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        let id = self.directory[(entry.route >> SECTOR_SHIFT) as usize];
        let queue = &mut self.queues[usize::from(id)];
        debug_assert!(queue.sectors.contains(&((entry.route >> SECTOR_SHIFT) as usize)));
        queue.entries.push(entry);
        // One look for each time the entries double.
        if queue.entries.len() > self.capacity
            && queue.entries.len().is_power_of_two()
            && queue.sectors.len() > 1
        {
            self.split(usize::from(id));
        }
    }

    fn split(&mut self, id: usize) {
        let Range { start, end } = self.queues[id].sectors.clone();
        let middle = start + (end - start) / 2;
        debug_assert!(start < middle && middle < end, "a queue of one sector is not split");
        let new = self.queues.len();
        let mut upper = Queue { sectors: middle..end, entries: Vec::new() };
        let lower = &mut self.queues[id];
        lower.sectors = start..middle;
        let is_lower = |entry: &Entry| ((entry.route >> SECTOR_SHIFT) as usize) < middle;
        upper.entries.extend(lower.entries.iter().filter(|entry| !is_lower(entry)));
        lower.entries.retain(is_lower);
        self.directory[middle..end].fill(new as u16);
        self.queues.push(upper);
    }

    /// The queues that are not empty, and where those of the next block had better start: about
    /// `wanted` of them, if load allows.
    pub fn finish(mut self, wanted: usize) -> (Vec<Queue>, Starts) {
        let entries: usize = self.queues.iter().map(|queue| queue.entries.len()).sum();
        let merged_max = (self.capacity / 2).min(entries / wanted);
        self.queues.sort_unstable_by_key(|queue| queue.sectors.start);
        debug_assert!(self.queues.windows(2).all(|two| two[0].sectors.end == two[1].sectors.start));
        let mut starts: Starts = Vec::with_capacity(self.queues.len());
        let mut load = usize::MAX;
        for queue in &self.queues {
            let merged = load.saturating_add(queue.entries.len());
            if merged <= merged_max {
                load = merged;
            } else {
                starts.push(queue.sectors.start);
                load = queue.entries.len();
            }
        }
        self.queues.retain(|queue| !queue.entries.is_empty());
        (self.queues, starts)
    }
}

/// Equal ranges, for a planner that has no experience.
pub fn equal_starts(queues: usize) -> Starts {
    let queues = queues.clamp(1, SECTORS);
    (0..queues).map(|queue| queue * SECTORS / queues).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;

    fn entry(transaction: u32, route: u32) -> Entry {
        Entry { transaction, template: 0, turn: 0, slot: ABSENT, route }
    }

    /// Qadah 2021, 2.4.1: however ranges are split, each route has one queue, and its fragments
    /// stay in the order of their planning.
    #[test]
    fn splitting_keeps_the_order_of_every_route() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut queues = Queues::new(&equal_starts(1 + seed as usize % 9), 16);
            let routes: Vec<u32> = (0..40).map(|_| random.below(1 << 32) as u32).collect();
            let pushed: Vec<Entry> = (0..3000)
                .map(|t| entry(t, routes[random.below(40).min(random.below(40)) as usize]))
                .collect();
            pushed.iter().for_each(|entry| queues.push(*entry));
            let (queues, starts) = queues.finish(4);
            assert!(queues.len() > 9 && starts[0] == 0 && starts.is_sorted());
            assert!(queues.windows(2).all(|two| !two[0].overlaps(&two[1])));
            for route in routes {
                let wanted = pushed.iter().filter(|e| e.route == route).map(|e| e.transaction);
                let mut homes = queues
                    .iter()
                    .filter(|queue| queue.sectors.contains(&((route >> SECTOR_SHIFT) as usize)));
                let found = homes.next().map_or(&[][..], |queue| &queue.entries);
                let found = found.iter().filter(|e| e.route == route).map(|e| e.transaction);
                assert!(wanted.eq(found) && homes.next().is_none());
            }
        }
    }

    #[test]
    fn small_neighbours_become_one_for_the_next_block() {
        let mut queues = Queues::new(&equal_starts(8), 64);
        (0..8).for_each(|t| queues.push(entry(t, t << 29)));
        let (queues, starts) = queues.finish(1);
        assert_eq!((queues.len(), starts), (8, vec![0]));
    }
}
