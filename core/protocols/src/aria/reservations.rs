//! Reservations: for each record that a block touches, the smallest TIDs that read and write it.
//!
//! ```text
//!   127            96 95             64 63              32 31             0
//!   [ existence read |  value read      |  change         |  overwrite     ]   u32::MAX: none
//! ```
//!
//! A *change* makes the row come or go, an *overwrite* does not. Who asked only whether the row is
//! there conflicts with changes, who saw its value with both.
//!
//! Records are found by their [numbers](concurrency::RecordNumbers), so the words lie in one array.
//! Two passes over the block, each parallel by transaction, with a barrier in between: all reserve,
//! then all compare. A worker compares what it has reserved itself, and so keeps the numbers to
//! itself.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::{
    PendingWrite, ReadMark, RecordNumbers, Simulated, WorkerPool, phantoms, record_numbers,
};
use storage::Catalog;
use types::{Height, Position};

use super::mutant::Mutant;

/// Transactions that a worker takes at a time.
const CHUNK: usize = 16;

/// What a transaction has to do with smaller TIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Conflicts(u8);

impl Conflicts {
    /// It writes what a smaller TID writes.
    pub const WAW: Conflicts = Conflicts(1);
    /// It read what a smaller TID writes, and must come before it.
    pub const RAW: Conflicts = Conflicts(2);
    /// It writes what a smaller TID read, and must come after it.
    pub const WAR: Conflicts = Conflicts(4);

    pub fn has(self, some: Conflicts) -> bool {
        self.0 & some.0 != 0
    }

    fn add(&mut self, more: Conflicts, when: bool) {
        self.0 |= more.0 * u8::from(when);
    }
}

/// What no transaction has reserved.
const FREE: Position = Position::MAX;

struct Reservation {
    overwrite: AtomicU32,
    change: AtomicU32,
    value_read: AtomicU32,
    existence_read: AtomicU32,
}

const _: () = assert!(size_of::<Reservation>() == 16);

impl Reservation {
    fn free() -> Reservation {
        let [overwrite, change, value_read, existence_read] = [const { AtomicU32::new(FREE) }; 4];
        Reservation { overwrite, change, value_read, existence_read }
    }

    fn of_read(&self, read: &ReadMark) -> &AtomicU32 {
        if read.value { &self.value_read } else { &self.existence_read }
    }

    fn of_write(&self, write: &PendingWrite) -> &AtomicU32 {
        if write.changes_existence() { &self.change } else { &self.overwrite }
    }

    fn writer(&self) -> Position {
        holder(&self.overwrite).min(holder(&self.change))
    }

    fn reader_of(&self, write: &PendingWrite) -> Position {
        let value = holder(&self.value_read);
        let changes = write.changes_existence();
        if changes { value.min(holder(&self.existence_read)) } else { value }
    }
}

/// The passes are divided by the pool's barrier, so no access needs an order of its own.
fn holder(word: &AtomicU32) -> Position {
    word.load(Ordering::Relaxed)
}

fn reserve(word: &AtomicU32, tid: Position) {
    if holder(word) > tid {
        word.fetch_min(tid, Ordering::Relaxed);
    }
    debug_assert!(holder(word) <= tid, "the smallest keeps it");
}

/// What a worker has reserved.
#[derive(Default)]
struct Share {
    /// First TIDs of the chunks that it took.
    chunks: Vec<usize>,
    /// Of its transactions' accesses, in order.
    numbers: Vec<u32>,
}

struct Shared {
    simulated: Arc<Vec<Simulated>>,
    catalog: Arc<Catalog>,
    numbers: RecordNumbers,
    reservations: Vec<Reservation>,
    shares: Vec<Mutex<Share>>,
    next: AtomicUsize,
    conflicts: Vec<AtomicU8>,
    mutant: Option<Mutant>,
}

/// The conflicts of every transaction, in block order.
pub fn conflicts(
    height: Height,
    simulated: &Arc<Vec<Simulated>>,
    catalog: &Arc<Catalog>,
    pool: &WorkerPool,
    mutant: Option<Mutant>,
) -> Vec<Conflicts> {
    let (count, workers) = (simulated.len(), pool.workers());
    let accesses: usize = simulated.iter().map(|s| s.reads.rows.len() + s.writes.len()).sum();
    let numbers_max = accesses + workers * record_numbers::SPAN as usize;
    let shared = Arc::new(Shared {
        simulated: Arc::clone(simulated),
        catalog: Arc::clone(catalog),
        numbers: RecordNumbers::new(height, Arc::clone(catalog)),
        reservations: (0..numbers_max).map(|_| Reservation::free()).collect(),
        shares: (0..workers).map(|_| Mutex::default()).collect(),
        next: AtomicUsize::new(0),
        conflicts: (0..count).map(|_| AtomicU8::new(0)).collect(),
        mutant,
    });
    let job = Arc::clone(&shared);
    pool.run_if_large(count, move |worker| job.reserve(worker));
    let job = Arc::clone(&shared);
    let ranges = simulated.iter().any(|s| !s.reads.ranges.is_empty());
    pool.run_if_large(count, move |worker| job.compare(worker));
    if ranges && mutant != Some(Mutant::NoRangeReservations) {
        let next = AtomicUsize::new(0);
        let job = Arc::clone(&shared);
        pool.run_if_large(count, move |_| {
            // As many shards as workers came; one worker alone takes them all.
            loop {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= workers {
                    return;
                }
                job.compare_ranges((shard, workers));
            }
        });
    }
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    let found = shared.conflicts.into_iter().map(|found| Conflicts(found.into_inner()));
    let found: Vec<Conflicts> = found.collect();
    debug_assert!(found.first().is_none_or(|first| first.0 == 0), "no TID is smaller");
    found
}

impl Shared {
    fn chunk(&self, first: usize) -> impl Iterator<Item = (Position, &Simulated)> {
        let rest = self.simulated.get(first..).unwrap_or_default();
        (first as Position..).zip(&rest[..rest.len().min(CHUNK)])
    }

    /// Whether a read counts at all.
    fn counts(&self, read: &ReadMark) -> bool {
        read.value || self.mutant != Some(Mutant::NoExistenceReservations)
    }

    fn reserve(&self, worker: usize) {
        let mut share = self.shares[worker].lock().unwrap_or_else(|e| e.into_inner());
        let mut counter = self.numbers.counter();
        loop {
            let first = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= self.simulated.len() {
                return;
            }
            share.chunks.push(first);
            for (tid, simulated) in self.chunk(first) {
                for read in simulated.reads.rows.iter().filter(|read| self.counts(read)) {
                    let number = counter.number(read.table, read.record);
                    share.numbers.push(number);
                    reserve(self.reservations[number as usize].of_read(read), tid);
                }
                for write in simulated.writes.iter().filter(|write| !write.is_void()) {
                    let number = counter.number(write.table, write.record);
                    share.numbers.push(number);
                    reserve(self.reservations[number as usize].of_write(write), tid);
                }
            }
        }
    }

    fn compare(&self, worker: usize) {
        let share = self.shares[worker].lock().unwrap_or_else(|e| e.into_inner());
        let mut reservations =
            share.numbers.iter().map(|&number| &self.reservations[number as usize]);
        let mut next = || reservations.next().expect("a number for each access");
        for (tid, simulated) in share.chunks.iter().flat_map(|&first| self.chunk(first)) {
            let mut found = Conflicts::default();
            for read in simulated.reads.rows.iter().filter(|read| self.counts(read)) {
                let reservation = next();
                let writer =
                    if read.value { reservation.writer() } else { holder(&reservation.change) };
                found.add(Conflicts::RAW, writer < tid);
            }
            for write in simulated.writes.iter().filter(|write| !write.is_void()) {
                let reservation = next();
                found.add(Conflicts::WAW, reservation.writer() < tid);
                found.add(Conflicts::WAR, reservation.reader_of(write) < tid);
            }
            self.add(tid as usize, found);
        }
    }

    fn compare_ranges(&self, shard: (usize, usize)) {
        phantoms::for_each(&self.simulated, &self.catalog, shard, |writer, reader| {
            match writer < reader {
                true => self.add(reader, Conflicts::RAW),
                false => self.add(writer, Conflicts::WAR),
            }
        });
    }

    fn add(&self, tid: usize, found: Conflicts) {
        if found != Conflicts::default() {
            self.conflicts[tid].fetch_or(found.0, Ordering::Relaxed);
        }
    }
}
