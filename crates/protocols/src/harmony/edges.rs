//! Edges and Rule 1.
//!
//! An edge needs a reader and a writer of one record. Rule 1 asks only for the smallest and the
//! largest partner of each transaction, so a record need remember only its two smallest writers
//! and two largest readers (two, because a transaction has no edge to itself): linear in the
//! number of accesses.
//!
//! Records are divided among the workers by their ids; `min_out` and `max_in` are atomic, and
//! minima and maxima commute, so the outcome does not depend on the division.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use concurrency::phantoms::WritesInOrder;
use concurrency::{Crew, RecordId, Simulated};
use rustc_hash::FxHashMap;
use storage::Catalog;
use types::{Position, TableId};

use super::flaw::Flaw;

const NOBODY_READS: i64 = -1;

/// Two smallest or two largest distinct transactions, under a name for "none".
#[derive(Clone, Copy)]
struct Smallest([i64; 2]);

impl Smallest {
    const NONE: i64 = i64::MAX;

    fn add(&mut self, tid: i64) {
        if tid < self.0[0] {
            self.0 = [tid, self.0[0]];
        } else if tid != self.0[0] && tid < self.0[1] {
            self.0[1] = tid;
        }
    }

    fn other_than(&self, tid: i64) -> i64 {
        if self.0[0] == tid { self.0[1] } else { self.0[0] }
    }
}

#[derive(Clone, Copy)]
struct Largest([i64; 2]);

impl Largest {
    fn add(&mut self, tid: i64) {
        if tid > self.0[0] {
            self.0 = [tid, self.0[0]];
        } else if tid != self.0[0] && tid > self.0[1] {
            self.0[1] = tid;
        }
    }

    fn other_than(&self, tid: i64) -> i64 {
        if self.0[0] == tid { self.0[1] } else { self.0[0] }
    }
}

/// Who touches a record.
#[derive(Clone, Copy)]
struct Marks {
    writers: Smallest,
    /// Writers that make the row come or go.
    changers: Smallest,
    value_readers: Largest,
    /// Readers of the value or of existence only.
    readers: Largest,
}

impl Default for Marks {
    fn default() -> Self {
        Marks {
            writers: Smallest([Smallest::NONE; 2]),
            changers: Smallest([Smallest::NONE; 2]),
            value_readers: Largest([NOBODY_READS; 2]),
            readers: Largest([NOBODY_READS; 2]),
        }
    }
}

/// The numbers of every transaction, and who is rejected.
pub struct Verdict {
    min_out: Vec<i64>,
    rejected: Vec<bool>,
    flaw: Option<Flaw>,
}

impl Verdict {
    /// Rule 2: the survivors by (min_out, TID).
    pub fn serial_order(&self) -> Vec<Position> {
        let mut order: Vec<Position> = (0..self.min_out.len() as Position)
            .filter(|&tid| !self.rejected[tid as usize])
            .collect();
        if self.flaw != Some(Flaw::BlockOrder) {
            order.sort_by_key(|&tid| (self.min_out[tid as usize], tid));
        }
        order
    }

    pub fn reject(&mut self, tids: &[Position]) {
        for &tid in tids {
            self.rejected[tid as usize] = true;
        }
    }
}

struct Edges {
    simulated: Arc<Vec<Simulated>>,
    catalog: Arc<Catalog>,
    flaw: Option<Flaw>,
    min_out: Vec<AtomicI64>,
    max_in: Vec<AtomicI64>,
}

impl Edges {
    /// `Ti <-rw- Tj`: j read the before-image of what i writes.
    fn add(&self, writer: i64, reader: i64) {
        if writer < reader {
            self.min_out[reader as usize].fetch_min(writer, Ordering::Relaxed);
        }
        self.max_in[writer as usize].fetch_max(reader, Ordering::Relaxed);
    }
}

pub fn validate(
    simulated: &Arc<Vec<Simulated>>,
    catalog: &Arc<Catalog>,
    crew: &Crew,
    flaw: Option<Flaw>,
) -> Verdict {
    let count = simulated.len();
    let edges = Arc::new(Edges {
        simulated: Arc::clone(simulated),
        catalog: Arc::clone(catalog),
        flaw,
        min_out: (0..count as i64).map(|tid| AtomicI64::new(tid + 1)).collect(),
        max_in: (0..count).map(|_| AtomicI64::new(NOBODY_READS)).collect(),
    });
    let shards = if count < 64 { 1 } else { crew.workers() };
    let job = Arc::clone(&edges);
    crew.run_if_large(count, move |shard| {
        record_edges(&job, shard as u64, shards as u64);
        if flaw != Some(Flaw::NoRangeEdges) {
            range_edges(&job, shard, shards);
        }
    });
    let edges = Arc::into_inner(edges).expect("the crew has let go of a finished job");
    let min_out: Vec<i64> = edges.min_out.into_iter().map(AtomicI64::into_inner).collect();
    let rejected = min_out
        .iter()
        .zip(edges.max_in)
        .enumerate()
        .map(|(tid, (&min_out, max_in))| {
            let lenient = i64::from(flaw == Some(Flaw::StrictRule1));
            rule_1(tid as i64, min_out, max_in.into_inner() - lenient)
        })
        .collect();
    Verdict { min_out, rejected, flaw }
}

/// Rule 1: the middle of a backward dangerous structure `Ti <-rw- Tj <-rw- Tk`, i < j and i <= k.
fn rule_1(tid: i64, min_out: i64, max_in: i64) -> bool {
    min_out < tid && min_out <= max_in
}

fn in_shard(record: RecordId, shard: u64, shards: u64) -> bool {
    shards == 1 || (record.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % shards == shard
}

fn record_edges(edges: &Edges, shard: u64, shards: u64) {
    let mut marks: FxHashMap<(TableId, RecordId), Marks> = FxHashMap::default();
    for (tid, simulated) in edges.simulated.iter().enumerate() {
        let tid = tid as i64;
        for read in &simulated.reads.rows {
            if !read.value && edges.flaw == Some(Flaw::NoExistenceEdges) {
                continue;
            }
            if in_shard(read.record, shard, shards) {
                let mark = marks.entry((read.table, read.record)).or_default();
                mark.readers.add(tid);
                if read.value {
                    mark.value_readers.add(tid);
                }
            }
        }
        for write in &simulated.writes {
            if in_shard(write.record, shard, shards) {
                let mark = marks.entry((write.table, write.record)).or_default();
                mark.writers.add(tid);
                if write.changes_existence() {
                    mark.changers.add(tid);
                }
            }
        }
    }
    for (tid, simulated) in edges.simulated.iter().enumerate() {
        let tid = tid as i64;
        for read in &simulated.reads.rows {
            let Some(mark) = marks.get(&(read.table, read.record)) else {
                continue;
            };
            if !read.value && edges.flaw == Some(Flaw::NoExistenceEdges) {
                continue;
            }
            let writers = if read.value { mark.writers } else { mark.changers };
            let writer = writers.other_than(tid);
            if writer < tid {
                edges.min_out[tid as usize].fetch_min(writer, Ordering::Relaxed);
            }
        }
        for write in &simulated.writes {
            let Some(mark) = marks.get(&(write.table, write.record)) else {
                continue;
            };
            let readers = if write.changes_existence() { mark.readers } else { mark.value_readers };
            let reader = readers.other_than(tid);
            edges.max_in[tid as usize].fetch_max(reader, Ordering::Relaxed);
        }
    }
}

/// Phantoms: a write whose row is in a range that another transaction read, before or after the
/// write.
fn range_edges(edges: &Edges, shard: usize, shards: usize) {
    let readers = || edges.simulated.iter().enumerate();
    let mut ranges = readers()
        .filter(|(reader, _)| reader % shards == shard)
        .flat_map(|(reader, s)| s.reads.ranges.iter().map(move |range| (reader, range)))
        .peekable();
    if ranges.peek().is_none() {
        return;
    }
    let writes = readers().flat_map(|(writer, s)| s.writes.iter().map(move |w| (writer, w)));
    let writes = WritesInOrder::new(&edges.catalog, writes);
    for (reader, range) in ranges {
        for (writer, _) in writes.touching(range) {
            if writer != reader {
                edges.add(writer as i64, reader as i64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lai 2023, 3.2: i = k is allowed, so two transactions that read what the other writes are
    /// enough.
    #[test]
    fn two_transactions_are_enough_for_a_dangerous_structure() {
        assert!(rule_1(1, 0, 0));
    }

    /// Lai 2023, 3.2: without an edge to an earlier transaction nobody is rejected.
    #[test]
    fn a_transaction_without_backward_edge_survives() {
        assert!(!rule_1(1, 2, 5));
        assert!(!rule_1(3, 1, 0));
        assert!(!rule_1(3, 1, NOBODY_READS));
    }

    #[test]
    fn extremes_leave_the_asker_out() {
        let mut writers = Smallest([Smallest::NONE; 2]);
        let mut readers = Largest([NOBODY_READS; 2]);
        for tid in [4, 2, 9, 2, 4] {
            writers.add(tid);
            readers.add(tid);
        }
        assert_eq!((writers.other_than(2), writers.other_than(7)), (4, 2));
        assert_eq!((readers.other_than(9), readers.other_than(1)), (4, 9));
    }
}
