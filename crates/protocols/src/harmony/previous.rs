//! Rule 3: what a block that was simulated on the snapshot before last must know of the block
//! before.
//!
//! *Edges.* Block H reads snapshot H - 2. When T of H read something that U of H - 1 wrote, T comes
//! before U, though its block comes later: an edge backwards. All other edges between the two
//! blocks (U read or wrote what T writes) point forwards, since H is installed after H - 1 and
//! commands are evaluated there.
//!
//! ```text
//!        block H-1, in its serial order          block H
//!   U1 ────► U2 ────► U3 ────► U4                T
//!            ▲                                   │   T read what U2 wrote: T before U2
//!            └───────────────────────────────────┘
//!   T may take its place right before U2, if nobody from U2 on must come before T.
//! ```
//!
//! *The rule.* Number the transactions of H - 1 by their places in its serial order, below zero,
//! and let `min_out` and `max_in` run over both blocks. Then Rule 1 reads as before, and rejects T
//! 1. when T precedes U and somebody in H read what T writes (all of H is above U), and
//! 2. when T precedes U, and somebody at U's place or behind it read or wrote what T writes.
//! 3. And T is rejected when the U that it precedes *overtook* itself, that is, has its own place
//!    among the transactions of H - 2: U is decided already, and nobody may come before it who
//!    did not look at what happened there.
//!
//! Always the later one is rejected, so that a replica which has not seen it yet decides alike.
//!
//! *Why it suffices.* Take a cycle and the node T in it that comes last by (block, serial order).
//! The edge that leaves T points backwards to some U of H - 1; the one that enters it comes from
//! the same block, which (1) excludes but for other transactions that overtake, whose smallest
//! `min_out` is not above T's as Rule 2 puts them first; or from H - 1, and then by (2) from before
//! U; or from further back. From U the cycle must come back to there: within H - 1 it only moves on
//! in the serial order, through a detour by H it re-enters behind where it left (2), and to get
//! below H - 1 it must pass an overtaker of H - 1, which nobody of H may precede (3) and which
//! nothing in H - 1 or H - 2 from its place on leads to (1, 2). So there is none.
//!
//! *Departure.* The paper numbers H - 1 by TID and rejects T also when U has any edge backwards
//! within H - 1; with places in the serial order that is not needed.
//!
//! *Cost.* Records are looked up by key in a hash table, because the two blocks need not see the
//! same rows: some 50 nanoseconds for each access, twice, and what runs again runs on one worker.

use concurrency::overlay::{covers, index_columns, index_key};
use concurrency::{PendingWrite, WriteState};
use procedure::access::Range;
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, Height, Key, Position, Value};

use super::edges::{Extremes, NOBODY, Place};
use super::flaw::Flaw;
use super::simulation::{Reads, RecordKey, Simulation, record_key};

/// A finished block.
#[derive(Default)]
pub struct Previous {
    pub height: Height,
    /// Transactions in the serial order.
    order: Vec<Position>,
    records: FxHashMap<RecordKey, Marks>,
    writes: Vec<Written>,
    ranges: Vec<(Place, Range)>,
}

struct Written {
    place: Place,
    overtook: bool,
    write: PendingWrite,
}

/// Who touched a record.
struct Marks {
    writers: Writers,
    /// Those that made the row come or go.
    changers: Writers,
    last_value_reader: Place,
    last_reader: Place,
}

struct Writers {
    first: Place,
    last: Place,
    /// One of them overtook.
    overtook: bool,
}

impl Default for Marks {
    fn default() -> Self {
        let nobody = || Writers { first: Place::MAX, last: NOBODY, overtook: false };
        let (last_value_reader, last_reader) = (NOBODY, NOBODY);
        Marks { writers: nobody(), changers: nobody(), last_value_reader, last_reader }
    }
}

impl Writers {
    fn add(&mut self, place: Place, overtook: bool) {
        self.first = self.first.min(place);
        self.last = self.last.max(place);
        self.overtook |= overtook;
    }
}

impl Previous {
    pub fn new(height: Height, order: &[Position]) -> Previous {
        Previous { height, order: order.to_vec(), ..Previous::default() }
    }

    fn place(&self, rank: usize) -> Place {
        rank as Place - self.order.len() as Place
    }

    /// The transaction at a place.
    pub fn at(&self, place: Place) -> Position {
        self.order[(place + self.order.len() as Place) as usize]
    }

    pub fn survivor(&mut self, rank: usize, tid: Position, overtook: bool, of: &Simulation) {
        for (read, key) in of.reads(tid).iter().zip(of.read_keys(tid)) {
            self.read(rank, *key, read.value);
        }
        let place = self.place(rank);
        self.ranges.extend(of.ranges(tid).iter().map(|range| (place, range.clone())));
        for write in of.writes(tid) {
            self.write(rank, overtook, write);
        }
    }

    /// One that ran again, on the newest state: it follows everybody.
    pub fn rerun(&mut self, rank: usize, reads: &mut Reads, writes: &[PendingWrite]) {
        for (key, value) in reads.drain_keys() {
            self.read(rank, key, value);
        }
        let place = self.place(rank);
        self.ranges.extend(reads.drain_ranges().map(|range| (place, range)));
        for write in writes {
            self.write(rank, false, write);
        }
    }

    fn read(&mut self, rank: usize, key: RecordKey, value: bool) {
        let place = self.place(rank);
        let marks = self.records.entry(key).or_default();
        marks.last_reader = marks.last_reader.max(place);
        if value {
            marks.last_value_reader = marks.last_value_reader.max(place);
        }
    }

    fn write(&mut self, rank: usize, overtook: bool, write: &PendingWrite) {
        let place = self.place(rank);
        let marks = self.records.entry(record_key(write.table, &write.key)).or_default();
        marks.writers.add(place, overtook);
        if write.changes_existence() {
            marks.changers.add(place, overtook);
        }
        self.writes.push(Written { place, overtook, write: write.clone() });
    }

    /// Add the edges between the two blocks. Returns the transactions of the later one that precede
    /// somebody who overtook.
    pub fn add_edges(
        &self,
        simulation: &Simulation,
        catalog: &Catalog,
        extremes: &Extremes,
        flaw: Option<Flaw>,
    ) -> Vec<Position> {
        let mut rejected = Vec::new();
        for tid in 0..simulation.transactions.len() as Position {
            let out = self.out_edges(simulation, catalog, tid);
            let in_place = self.in_edges(simulation, catalog, tid);
            if out.overtook && flaw != Some(Flaw::Rule3SparesTheLater) {
                rejected.push(tid);
            }
            if out.first != Place::MAX {
                match flaw {
                    Some(Flaw::Rule3Direction) => extremes.in_edge(tid, out.first),
                    _ => extremes.out_edge(tid, out.first),
                }
            }
            extremes.in_edge(tid, in_place);
        }
        rejected
    }

    /// Whom a transaction precedes.
    fn out_edges(&self, simulation: &Simulation, catalog: &Catalog, tid: Position) -> Writers {
        let mut out = Writers { first: Place::MAX, last: NOBODY, overtook: false };
        for (read, key) in simulation.reads(tid).iter().zip(simulation.read_keys(tid)) {
            if let Some(marks) = self.records.get(key) {
                let writers = if read.value { &marks.writers } else { &marks.changers };
                out.first = out.first.min(writers.first);
                out.overtook |= writers.overtook;
            }
        }
        let touches = Touching { catalog, before: simulation.snapshot_height };
        for range in simulation.ranges(tid) {
            for written in &self.writes {
                if touches.may_touch(range, &written.write) {
                    out.add(written.place, written.overtook);
                }
            }
        }
        out
    }

    /// The last one that a transaction follows.
    fn in_edges(&self, simulation: &Simulation, catalog: &Catalog, tid: Position) -> Place {
        let mut last = NOBODY;
        let touches = Touching { catalog, before: simulation.snapshot_height };
        for write in simulation.writes(tid) {
            if let Some(marks) = self.records.get(&record_key(write.table, &write.key)) {
                let reader = match write.changes_existence() {
                    true => marks.last_reader,
                    false => marks.last_value_reader,
                };
                last = last.max(reader).max(marks.writers.last);
            }
            for (place, range) in &self.ranges {
                if *place > last && touches.may_touch(range, write) {
                    last = *place;
                }
            }
        }
        last
    }
}

/// Whether writes touch ranges, where a block has been installed since the snapshot.
struct Touching<'a> {
    catalog: &'a Catalog,
    /// The snapshot's height.
    before: Height,
}

impl Touching<'_> {
    /// Whether the row of `write` lies in `range` before or after it; "yes" where that cannot be
    /// known.
    fn may_touch(&self, range: &Range, write: &PendingWrite) -> bool {
        let Some(table) = self.catalog.table(range.table).filter(|_| range.table == write.table)
        else {
            return false;
        };
        if range.index == 0 {
            return covers(range, write.key.as_bytes());
        }
        let columns = index_columns(table, range.index);
        let after = match &write.state {
            WriteState::Delete => false,
            WriteState::Put(row) => {
                let key = index_key(table, range.index, &write.key, |c| &row[usize::from(c)]);
                key.map_or(true, |key| covers(range, key.as_bytes()))
            }
            WriteState::Commands(commands) => commands
                .iter()
                .any(|c| c.code.assignments.iter().any(|(column, _)| columns.contains(column))),
        };
        after || write.existed && self.was_in(table, range, &write.key, &columns)
    }

    /// Whether the row was in the range at the snapshot or is now. What it was between the two is
    /// tested as the after-image of whoever made it so.
    fn was_in(&self, table: &Table, range: &Range, key: &Key, columns: &[ColumnId]) -> bool {
        let mut values = vec![Value::Null; columns.len()];
        [self.before, LATEST].into_iter().any(|at| {
            let slot = table.find(key.as_bytes());
            let stamp = slot.and_then(|slot| table.read(slot, at, columns, &mut values));
            stamp.is_some()
                && index_key(table, range.index, key, |column| {
                    let at = columns.iter().position(|&c| c == column);
                    &values[at.expect("an index column")]
                })
                .map_or(true, |key| covers(range, key.as_bytes()))
        })
    }
}
