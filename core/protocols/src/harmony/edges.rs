//! Edges, summed up to two numbers for each transaction.
//!
//! An edge needs a reader and a writer of one record. Rule 1 asks only for the smallest and the
//! largest partner of each transaction, so a record need remember only its first writer and its
//! last readers (two of them, because a transaction has no edge to itself; of writers one is
//! enough, because only smaller ones count): linear in the number of accesses.
//!
//! Two steps, both parallel. The first divides the *records* among the workers, by their numbers,
//! and passes all accesses in the order of the block; the second divides the *transactions*, and
//! looks up what the first found. Beside the summary a record gets the chain of its writers, which
//! is what coalescence folds.
//!
//! ```text
//!   record   first writer, first changer          shard = number mod shards
//!            last two readers of value / of any
//!            head, tail ──► entries of the shard:  [ tid, write, next ] ─► [ tid, write, next ]
//! ```

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::WorkerPool;
use concurrency::phantoms::{WritesInOrder, for_outermost};
use storage::Catalog;
use types::Position;

use super::mutant::Mutant;
use super::simulation::{Kind, Simulation};

/// Transactions by their place: those of the block by TID, those of the block before below zero.
pub type Place = i64;

pub const NO_TRANSACTION: Place = Place::MIN;
const NO_WRITER: u32 = u32::MAX;
const NO_ENTRY: u32 = u32::MAX;

/// Fewer transactions are looked through before another worker is awake.
const PARALLEL_MIN: usize = 256;

/// Transactions that a worker takes at a time.
const BATCH: usize = 64;

/// Two largest distinct transactions, each plus one; zero is none.
#[derive(Clone, Copy, Default)]
struct Largest([u32; 2]);

impl Largest {
    /// In ascending order.
    #[inline]
    fn add(&mut self, tid: Position) {
        if self.0[0] != tid + 1 {
            self.0 = [tid + 1, self.0[0]];
        }
    }

    #[inline]
    fn other_than(self, tid: Position) -> Place {
        let other = if self.0[0] == tid + 1 { self.0[1] } else { self.0[0] };
        if other == 0 { NO_TRANSACTION } else { Place::from(other) - 1 }
    }
}

/// Who touches a record.
#[derive(Clone, Copy)]
struct Touches {
    first_writer: Position,
    /// The first writer that makes the row come or go.
    first_changer: Position,
    value_readers: Largest,
    /// Readers of the value or of existence only.
    readers: Largest,
    /// The writers whose writes are to be installed, by TID.
    head: u32,
    tail: u32,
}

const UNTOUCHED: Touches = Touches {
    first_writer: NO_WRITER,
    first_changer: NO_WRITER,
    value_readers: Largest([0; 2]),
    readers: Largest([0; 2]),
    head: NO_ENTRY,
    tail: NO_ENTRY,
};

/// A writer in the chain of its record.
#[derive(Clone, Copy)]
pub struct Entry {
    pub tid: Position,
    /// In the lane of the transaction.
    pub write: u32,
    next: u32,
    record: u32,
}

/// The records whose numbers leave one remainder.
#[derive(Default)]
pub struct Shard {
    records: Vec<Touches>,
    entries: Vec<Entry>,
}

impl Shard {
    pub fn clear(&mut self) {
        self.records.clear();
        self.entries.clear();
    }

    /// The places of the writers that are the first of their record.
    pub fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        let entries = self.entries.iter().zip(0..);
        let is_head = |(entry, at): &(&Entry, u32)| self.head_of(entry) == *at;
        entries.filter(is_head).map(|(_, at)| at)
    }

    pub fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    fn head_of(&self, entry: &Entry) -> u32 {
        self.records[entry.record as usize].head
    }

    /// A record's writers from its head on.
    pub fn chain(&self, head: u32) -> impl Iterator<Item = &Entry> {
        let next = |entry: &&Entry| self.entries.get(entry.next as usize);
        std::iter::successors(self.entries.get(head as usize), next)
    }

    fn fill(
        &mut self,
        simulation: &Simulation,
        shard: u32,
        shards_log2: u32,
        mutant: Option<Mutant>,
    ) {
        let count = (simulation.numbers_end >> shards_log2) as usize + 1;
        self.records.resize(count, UNTOUCHED);
        let mask = (1 << shards_log2) - 1;
        for tid in 0..simulation.transactions.len() as Position {
            for read in simulation.reads(tid) {
                let counts = read.value || mutant != Some(Mutant::NoExistenceEdges);
                if read.number & mask == shard && counts {
                    let record = &mut self.records[(read.number >> shards_log2) as usize];
                    record.readers.add(tid);
                    if read.value {
                        record.value_readers.add(tid);
                    }
                }
            }
            let marks = simulation.marks(tid).iter();
            for (mark, write) in marks.zip(simulation.write_numbers(tid)) {
                if mark.number & mask == shard {
                    let number = mark.number >> shards_log2;
                    let record = &mut self.records[number as usize];
                    record.first_writer = record.first_writer.min(tid);
                    if mark.changes_existence {
                        record.first_changer = record.first_changer.min(tid);
                    }
                    if mark.kind != Kind::Void {
                        self.append(number, tid, write);
                    }
                }
            }
        }
    }

    #[inline]
    fn append(&mut self, record: u32, tid: Position, write: u32) {
        let at = self.entries.len() as u32;
        let touches = &mut self.records[record as usize];
        match touches.tail {
            NO_ENTRY => touches.head = at,
            tail => self.entries[tail as usize].next = at,
        }
        touches.tail = at;
        self.entries.push(Entry { tid, write, next: NO_ENTRY, record });
    }
}

/// A simulated block with the summary of its records.
pub struct Touched {
    pub simulation: Simulation,
    pub catalog: Arc<Catalog>,
    pub shards: Vec<Shard>,
    shards_log2: u32,
}

/// The first step. `shards` are empty ones to be used again.
pub fn sum_up(
    simulation: Simulation,
    catalog: Arc<Catalog>,
    pool: &WorkerPool,
    mut shards: Vec<Shard>,
    mutant: Option<Mutant>,
) -> Touched {
    let count = simulation.transactions.len();
    let shards_log2 = match count < PARALLEL_MIN {
        true => 0,
        false => pool.workers().next_power_of_two().ilog2(),
    };
    shards.resize_with(1 << shards_log2, Shard::default);
    let shared = Arc::new((
        simulation,
        shards.into_iter().map(Mutex::new).collect::<Vec<_>>(),
        AtomicUsize::new(0),
    ));
    let job = Arc::clone(&shared);
    let work = move |_| {
        let (simulation, shards, next) = &*job;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = shards.get(at) else { return };
            let mut shard = shard.lock().unwrap_or_else(|e| e.into_inner());
            shard.fill(simulation, at as u32, shards_log2, mutant);
        }
    };
    run_from(pool, count, PARALLEL_MIN, work);
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    let shards = shared.1.into_iter();
    Touched {
        simulation: shared.0,
        catalog,
        shards: shards.map(|s| s.into_inner().unwrap_or_else(|e| e.into_inner())).collect(),
        shards_log2,
    }
}

/// A job whose items are shared out, so that the caller alone may do all of a small one.
pub fn run_from(
    pool: &WorkerPool,
    items: usize,
    items_min: usize,
    job: impl Fn(usize) + Send + Sync + 'static,
) {
    if items < items_min { job(0) } else { pool.run(job) }
}

/// `min_out` and `max_in` of every transaction.
pub struct Extremes {
    min_out: Vec<AtomicI64>,
    max_in: Vec<AtomicI64>,
}

impl Extremes {
    /// `Ti <-rw- Tj`: j read the before-image of what i writes.
    pub fn out_edge(&self, reader: Position, writer: Place) {
        self.min_out[reader as usize].fetch_min(writer, Ordering::Relaxed);
    }

    pub fn in_edge(&self, writer: Position, reader: Place) {
        self.max_in[writer as usize].fetch_max(reader, Ordering::Relaxed);
    }

    pub fn into_inner(self) -> (Vec<Place>, Vec<Place>) {
        let plain = |extremes: Vec<AtomicI64>| -> Vec<Place> {
            extremes.into_iter().map(AtomicI64::into_inner).collect()
        };
        (plain(self.min_out), plain(self.max_in))
    }
}

/// The second step.
pub fn extremes(touched: &Arc<Touched>, pool: &WorkerPool, mutant: Option<Mutant>) -> Extremes {
    let count = touched.simulation.transactions.len();
    let next = AtomicUsize::new(0);
    let extremes = Extremes {
        min_out: (1..=count as Place).map(AtomicI64::new).collect(),
        max_in: (0..count).map(|_| AtomicI64::new(NO_TRANSACTION)).collect(),
    };
    let shared = Arc::new((extremes, next));
    let job = (Arc::clone(&shared), Arc::clone(touched));
    let has_ranges = touched.simulation.has_ranges() && mutant != Some(Mutant::NoRangeEdges);
    run_from(pool, count, PARALLEL_MIN, move |_| {
        let ((extremes, next), touched) = (&*job.0, &*job.1);
        let mut mine = Vec::new();
        loop {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= count {
                break;
            }
            for tid in first..(first + BATCH).min(count) {
                touched.record_edges(tid as Position, extremes, mutant);
            }
            mine.extend(first as Position..(first + BATCH).min(count) as Position);
        }
        if has_ranges {
            range_edges(touched, &mine, extremes);
        }
    });
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    shared.0
}

/// Phantoms: writes whose row is in a range that one of the readers read, before or after the
/// write. Of the edges of a transaction only the outermost count.
fn range_edges(touched: &Touched, readers: &[Position], extremes: &Extremes) {
    let simulation = &touched.simulation;
    let of_reader = |&reader: &Position| {
        simulation.ranges(reader).iter().map(move |range| (reader as usize, range))
    };
    let mut ranges = readers.iter().flat_map(of_reader).peekable();
    if ranges.peek().is_none() {
        return;
    }
    let writes = (0..simulation.transactions.len() as Position).flat_map(|writer| {
        simulation.writes(writer).iter().map(move |write| (writer as usize, write))
    });
    let writes = WritesInOrder::new(&touched.catalog, writes);
    for_outermost(&writes, ranges, |writer, reader| {
        let (writer, reader) = (writer as Position, reader as Position);
        if writer < reader {
            extremes.out_edge(reader, Place::from(writer));
        }
        extremes.in_edge(writer, Place::from(reader));
    });
}

impl Touched {
    /// The most writers of one record among the transactions that `counts` names.
    pub fn longest_queue(&self, counts: impl Fn(Position) -> bool) -> usize {
        let queues = self.shards.iter().flat_map(|shard| {
            let lengths = shard.heads().map(|head| shard.chain(head));
            lengths.map(|chain| chain.filter(|entry| counts(entry.tid)).count())
        });
        queues.max().unwrap_or(0)
    }

    fn record(&self, number: u32) -> &Touches {
        let shard = number & ((1 << self.shards_log2) - 1);
        &self.shards[shard as usize].records[(number >> self.shards_log2) as usize]
    }

    fn record_edges(&self, tid: Position, extremes: &Extremes, mutant: Option<Mutant>) {
        let mut writer = NO_WRITER;
        for read in self.simulation.reads(tid) {
            let record = self.record(read.number);
            let counts = read.value || mutant != Some(Mutant::NoExistenceEdges);
            if counts {
                writer =
                    writer.min(if read.value { record.first_writer } else { record.first_changer });
            }
        }
        if writer < tid {
            extremes.out_edge(tid, Place::from(writer));
        }
        let mut reader = NO_TRANSACTION;
        for mark in self.simulation.marks(tid) {
            let record = self.record(mark.number);
            let readers = match mark.changes_existence {
                true => record.readers,
                false => record.value_readers,
            };
            let but = if mutant == Some(Mutant::SelfEdges) { Position::MAX - 1 } else { tid };
            reader = reader.max(readers.other_than(but));
        }
        extremes.in_edge(tid, reader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_leave_the_asker_out() {
        let mut readers = Largest::default();
        assert_eq!(readers.other_than(0), NO_TRANSACTION);
        for tid in [2, 4, 4, 9] {
            readers.add(tid);
        }
        assert_eq!((readers.other_than(9), readers.other_than(1)), (4, 9));
    }

    #[test]
    fn what_a_record_remembers_is_half_a_cache_line() {
        assert_eq!(size_of::<Touches>(), 32);
    }
}
