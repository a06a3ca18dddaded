//! Garbage collection of versions: what a worker does itself, as it commits and as it reads.
//!
//! * *By transaction* (section 5.5.2): a worker keeps, in the order of commits, which tuples it
//!   changed, and prunes them once all are past that. (The thesis frees what transactions
//!   *generated*; it must be what they superseded.)
//! * *Cooperative*: a transaction that walked past expired versions takes them out; oldest first
//!   only. What no transaction walks by stays until a pass through all ([`Database::vacuum`]).
//! * *In the background*: a worker only marks what it changed.
//! * *By intervals*, the thesis's future work: as by transaction, but a version goes as soon as no
//!   reader stands between its begin and its end. A reader of hours keeps one version of a tuple,
//!   not all that came since. What it keeps is marked, and visited when it has gone.
//!
//! *Departure.* The thesis counts members of epochs of 40 ms. Here the horizon is found from the
//! active timestamps themselves every [`EVERY`] transactions: it is finer, and no counter is
//! shared.

use std::collections::VecDeque;

use crate::chains::Sight;
use crate::clock::Timestamp;
use crate::database::Database;
use crate::mutant::{Mutant, mutated};
use crate::spec::Collector;
use crate::table::Table;
use crate::workspace::Write;

/// Transactions between two looks at the horizon.
const EVERY: u32 = 32;

/// What one worker has to collect.
#[derive(Default)]
pub struct Retired {
    /// Commit timestamp, table, tuple.
    queue: VecDeque<(Timestamp, u32, u32)>,
    since_look: u32,
    horizon: Timestamp,
}

impl Retired {
    pub fn add(&mut self, db: &Database, writes: &[Write], at: Timestamp) {
        for write in writes {
            let superseded = write.base != crate::chains::Mark::ABSENT;
            if superseded || !write.exists() {
                self.tell(db.at(write.table), write.tuple, at);
            }
        }
        self.look(db);
    }

    /// An insert that came to nothing leaves a tuple without a row.
    pub fn add_aborted(&mut self, db: &Database, writes: &[Write]) {
        for write in writes.iter().filter(|write| write.created) {
            self.tell(db.at(write.table), write.tuple, db.clock.newest());
        }
        self.look(db);
    }

    fn tell(&mut self, table: &Table, tuple: u32, at: Timestamp) {
        match table.spec.collector {
            Collector::Transaction | Collector::Interval => {
                self.queue.push_back((at, table.schema.id.0, tuple));
            }
            Collector::Vacuum | Collector::Cooperative => table.mark_dirty(tuple),
            Collector::None => {}
        }
    }

    fn look(&mut self, db: &Database) {
        self.since_look += 1;
        if self.since_look >= EVERY {
            self.since_look = 0;
            self.collect(db);
        }
    }

    /// Prunes what all transactions, or all that matter, are past.
    pub fn collect(&mut self, db: &Database) {
        let by_horizon = db.sight(Collector::Transaction);
        self.horizon = by_horizon.horizon;
        let by_interval = self.wants_intervals(db).then(|| db.sight(Collector::Interval));
        let now = db.clock.newest();
        for _ in 0..self.queue.len() {
            let Some(&(at, table, tuple)) = self.queue.front() else { break };
            let table = db.at(table);
            let sight = match (table.spec.collector, &by_interval) {
                (Collector::Interval, Some(sight)) => sight,
                _ => &by_horizon,
            };
            if at > bound(sight) {
                break;
            }
            self.queue.pop_front();
            let pruned = table.prune(tuple, sight, now);
            if pruned.unfinished && table.spec.collector == Collector::Interval {
                table.mark_dirty(tuple);
            } else if pruned.skipped && !mutated(Mutant::BatchForgotten) {
                self.queue.push_back((now, table.schema.id.0, tuple));
            }
        }
    }

    fn wants_intervals(&self, db: &Database) -> bool {
        let front = self.queue.front();
        front.is_some_and(|(_, table, _)| db.at(*table).spec.collector == Collector::Interval)
    }

    /// A reader walked past old versions of a tuple.
    pub fn cooperate(&mut self, db: &Database, table: &Table, tuple: u32) {
        if !mutated(Mutant::CooperationRefused) {
            let sight = Sight { horizon: self.horizon, readers: None };
            table.prune(tuple, &sight, db.clock.newest());
        }
    }

    /// The worker leaves: others find what it has not collected.
    pub fn hand_over(&mut self, db: &Database) {
        for (_, table, tuple) in self.queue.drain(..) {
            db.at(table).mark_dirty(tuple);
        }
    }
}

/// What a batch must have happened before.
fn bound(sight: &Sight) -> Timestamp {
    match &sight.readers {
        Some((_, settled)) => *settled,
        None => sight.horizon,
    }
}
