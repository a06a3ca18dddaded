//! Reservations: for each record that a block touches, the smallest TIDs that read and write it.
//!
//! ```text
//!   127          96 95          64 63          32 31           0
//!   [ any reader   | value reader | changer      | writer       ]     u32::MAX: nobody
//! ```
//!
//! A *changer* is a writer that makes the row come or go; a reader that asked only whether the row
//! is there conflicts with changers, one that saw the value with every writer.
//!
//! Records are divided among the workers. Each passes the block's accesses in TID order, so a
//! transaction meets the reservations of smaller TIDs and no others matter to it: one look-up for
//! an access both compares and reserves, and no word is shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use concurrency::{Crew, RecordId, Simulated, phantoms};
use rustc_hash::FxHashMap;
use storage::Catalog;
use types::{Position, TableId};

use super::flaw::Flaw;

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

const NOBODY: Position = Position::MAX;

/// Smallest TIDs.
#[derive(Clone, Copy)]
struct Reservation {
    writer: Position,
    changer: Position,
    value_reader: Position,
    reader: Position,
}

impl Default for Reservation {
    fn default() -> Self {
        Reservation { writer: NOBODY, changer: NOBODY, value_reader: NOBODY, reader: NOBODY }
    }
}

/// TIDs come in ascending order, so the first stays.
fn reserve(place: &mut Position, tid: Position, when: bool) {
    if when && *place == NOBODY {
        *place = tid;
    }
}

struct Shared {
    simulated: Arc<Vec<Simulated>>,
    conflicts: Vec<AtomicU8>,
    flaw: Option<Flaw>,
}

impl Shared {
    fn add(&self, tid: Position, found: Conflicts) {
        if found != Conflicts::default() {
            self.conflicts[tid as usize].fetch_or(found.0, Ordering::Relaxed);
        }
    }
}

/// The conflicts of every transaction, in block order.
pub fn conflicts(
    simulated: &Arc<Vec<Simulated>>,
    catalog: &Arc<Catalog>,
    crew: &Crew,
    flaw: Option<Flaw>,
) -> Vec<Conflicts> {
    let count = simulated.len();
    let shared = Arc::new(Shared {
        simulated: Arc::clone(simulated),
        conflicts: (0..count).map(|_| AtomicU8::new(0)).collect(),
        flaw,
    });
    let shards = if count < 64 { 1 } else { crew.workers() };
    let (job, catalog) = (Arc::clone(&shared), Arc::clone(catalog));
    crew.run_if_large(count, move |shard| {
        of_records(&job, shard as u64, shards as u64);
        if flaw != Some(Flaw::NoRangeReservations) {
            of_ranges(&job, &catalog, (shard, shards));
        }
    });
    let shared = Arc::into_inner(shared).expect("the crew has let go of a finished job");
    shared.conflicts.into_iter().map(|found| Conflicts(found.into_inner())).collect()
}

fn of_records(shared: &Shared, shard: u64, shards: u64) {
    let mine = |record: RecordId| {
        shards == 1 || (record.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % shards == shard
    };
    let existence = shared.flaw != Some(Flaw::NoExistenceReservations);
    let mut reservations: FxHashMap<(TableId, RecordId), Reservation> = FxHashMap::default();
    for (tid, simulated) in (0..).zip(shared.simulated.iter()) {
        let mut found = Conflicts::default();
        for read in simulated.reads.rows.iter().filter(|read| mine(read.record)) {
            let of_record = reservations.entry((read.table, read.record)).or_default();
            let writer = match read.value {
                true => of_record.writer,
                false if existence => of_record.changer,
                false => NOBODY,
            };
            found.add(Conflicts::RAW, writer < tid);
            reserve(&mut of_record.value_reader, tid, read.value);
            reserve(&mut of_record.reader, tid, read.value || existence);
        }
        let writes = simulated.writes.iter().filter(|write| !write.is_void());
        for write in writes.filter(|write| mine(write.record)) {
            let of_record = reservations.entry((write.table, write.record)).or_default();
            let changes = write.changes_existence();
            let reader = if changes { of_record.reader } else { of_record.value_reader };
            found.add(Conflicts::WAW, of_record.writer < tid);
            found.add(Conflicts::WAR, reader < tid);
            reserve(&mut of_record.writer, tid, true);
            reserve(&mut of_record.changer, tid, changes);
        }
        shared.add(tid, found);
    }
}

fn of_ranges(shared: &Shared, catalog: &Catalog, shard: (usize, usize)) {
    phantoms::for_each(&shared.simulated, catalog, shard, |writer, reader| match writer < reader {
        true => shared.add(reader as Position, Conflicts::RAW),
        false => shared.add(writer as Position, Conflicts::WAR),
    });
}
