//! Short transactions: reads as of their beginning, writes kept back until commit.
//!
//! | | reads | where a value is too new | commit |
//! |---|---|---|---|
//! | `SEE_FS` | in place | walks the chain | conflicts of writes, then predicates |
//! | `SEE_SI` | in place | walks the chain | conflicts of writes |
//! | `SEE_RU` | in place | reads it | nothing |
//! | `HEE_*` | in place | **gives up at once** | conflicts of writes, then predicates |
//!
//! In hybrid mode a transaction never walks a chain: what it read late it could not commit anyway,
//! unless it only reads. Transactions without writes are serial at their beginning and are not
//! validated.
//!
//! An abort has nothing to undo, since nothing was done.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use types::{Error, Result};

use crate::area::{Area, ZONE_ROWS, zone_rows, zones};
use crate::engine::{Configuration, Engine, PASS_COLUMNS_MAX, check_width};
use crate::lock::Shared;
use crate::mutant::Mutant;
use crate::predicate::{Predicates, Write};
use crate::query::Query;
use crate::sequencer::{Committed, Place};
use crate::{ColumnId, Row, Timestamp};

pub struct Transaction<'e, A: Area> {
    engine: &'e Engine<A>,
    begin: Timestamp,
    /// Sorted by column, which is the order in which columns are locked.
    writes: BTreeMap<(ColumnId, Row), i64>,
    predicates: Predicates,
}

fn too_new() -> Error {
    Error::serialization("A value was changed after the transaction began.")
}

impl<'e, A: Area> Transaction<'e, A> {
    pub(crate) fn begin(engine: &'e Engine<A>) -> Self {
        let begin = engine.sequencer.begin();
        let predicates = Predicates::default();
        Transaction { engine, begin, writes: BTreeMap::new(), predicates }
    }

    /// Everything up to here is seen, and nothing else.
    pub fn begin_timestamp(&self) -> Timestamp {
        self.begin
    }

    fn configuration(&self) -> Configuration {
        self.engine.configuration()
    }

    pub fn read(&mut self, column: ColumnId, row: Row) -> Result<i64> {
        if let Some(&own) = self.writes.get(&(column, row)) {
            return Ok(own);
        }
        if self.configuration().is_serializable() {
            self.predicates.point(column, row);
        }
        self.committed(column, row as usize)
    }

    /// The value as of the beginning.
    fn committed(&self, id: ColumnId, row: usize) -> Result<i64> {
        let column = self.engine.column(id);
        if !self.configuration().makes_versions() {
            return Ok(column.values.load(row));
        }
        let (value, stamp) = column.read(row);
        if stamp <= self.begin || self.engine.mutants.has(Mutant::ReadsTooNew) {
            return Ok(value);
        }
        if self.configuration().is_hybrid() {
            return Err(too_new());
        }
        column.chains.load().read(row, self.begin).ok_or_else(too_new)
    }

    /// Rows whose value is in the range, in order.
    pub fn find(&mut self, id: ColumnId, values: RangeInclusive<i64>) -> Result<Vec<Row>> {
        if self.configuration().is_serializable() {
            self.predicates.range(id, values.clone());
        }
        let rows = self.engine.column(id).rows();
        let mut zone_values = vec![0; ZONE_ROWS];
        let mut found = Vec::new();
        for zone in 0..zones(rows) {
            // Spans do not help in hybrid mode: a snapshot may have taken the versions of rows
            // whose values are too new for this transaction.
            if self.configuration().is_hybrid() {
                for row in zone_rows(zone, rows) {
                    zone_values[row % ZONE_ROWS] = self.committed(id, row)?;
                }
            } else {
                self.read_zone(id, zone, &mut zone_values);
            }
            for row in zone_rows(zone, rows) {
                let own = self.writes.get(&(id, row as Row));
                if values.contains(own.unwrap_or(&zone_values[row % ZONE_ROWS])) {
                    found.push(row as Row);
                }
            }
        }
        Ok(found)
    }

    /// A query as of the beginning, by one engine over values in place and their versions.
    pub fn query(&self, query: &dyn Query) -> Result<Vec<i64>> {
        check_width(query)?;
        if self.configuration().is_hybrid() {
            return Err(Error::unsupported("a query over versions, which snapshots take away,")
                .with_hint("Ask the engine, which takes a snapshot."));
        }
        let mut words = query.start();
        let mut buffers = vec![vec![0; ZONE_ROWS]; PASS_COLUMNS_MAX];
        for (pass, columns) in query.passes().iter().enumerate() {
            for zone in 0..self.engine.zones_of(columns) {
                let mut lengths = [0; PASS_COLUMNS_MAX];
                for (at, &column) in columns.iter().enumerate() {
                    lengths[at] = self.read_zone(column, zone, &mut buffers[at]);
                }
                let zones: [&[i64]; PASS_COLUMNS_MAX] =
                    std::array::from_fn(|at| &buffers[at][..lengths[at]]);
                query.fold(pass, &zones[..columns.len()], &mut words);
            }
        }
        Ok(words)
    }

    pub(crate) fn read_zone(&self, column: ColumnId, zone: usize, out: &mut [i64]) -> usize {
        self.engine.read_zone(self.engine.column(column), zone, self.begin, out)
    }

    pub fn write(&mut self, column: ColumnId, row: Row, value: i64) {
        self.writes.insert((column, row), value);
    }

    /// Forgets what was written; dropping it does the same.
    pub fn abort(self) {}

    /// The transaction's place in the order of commits; for one that only read, its beginning.
    pub fn commit(self) -> Result<Timestamp> {
        if self.writes.is_empty() {
            return Ok(self.begin);
        }
        if !self.configuration().makes_versions() {
            for (&(column, row), &value) in &self.writes {
                self.engine.column(column).values.store(row as usize, value);
            }
            return Ok(self.begin);
        }
        let columns = self.written_columns();
        for &(column, writes) in &columns {
            let column = self.engine.column(column);
            column.values.admit(writes)?;
            column.stamps.admit(writes)?;
        }
        let by_fork = self.configuration() == Configuration::HeeFork;
        loop {
            self.freeze_what_waits(&columns);
            let _gate = by_fork.then(|| self.engine.commits.shared());
            let locks: Vec<Shared<'_>> = columns
                .iter()
                .map(|(column, _)| self.engine.column(*column).lock.shared())
                .collect();
            match self.order(&columns) {
                Place::Ordered(commit) => {
                    self.install(&commit);
                    drop(locks);
                    self.engine.sequencer.installed(commit.timestamp);
                    return Ok(commit.timestamp);
                }
                Place::FreezeFirst => continue,
                Place::Refused(error) => return Err(error),
            }
        }
    }

    /// Each column once, with the number of writes to it.
    fn written_columns(&self) -> Vec<(ColumnId, usize)> {
        let mut columns: Vec<(ColumnId, usize)> = Vec::new();
        for &(column, _) in self.writes.keys() {
            match columns.last_mut() {
                Some((last, writes)) if *last == column => *writes += 1,
                _ => columns.push((column, 1)),
            }
        }
        columns
    }

    /// Before any lock is taken: the lock that freezes is the other kind.
    fn freeze_what_waits(&self, columns: &[(ColumnId, usize)]) {
        if self.engine.mutants.has(Mutant::InstallsBeforeMaterialising) {
            return;
        }
        for &(column, _) in columns {
            let column = self.engine.column(column);
            if column.has_waiting() {
                column.materialise();
            }
        }
    }

    fn order(&self, columns: &[(ColumnId, usize)]) -> Place<Error> {
        let engine = self.engine;
        let must_freeze = || {
            !engine.mutants.has(Mutant::InstallsBeforeMaterialising)
                && columns.iter().any(|&(column, _)| engine.column(column).has_waiting())
        };
        let images = || {
            let image = |(&(column, row), &after): (&(ColumnId, Row), &i64)| {
                let before = engine.column(column).values.load(row as usize);
                Write { column, row, before, after }
            };
            self.writes.iter().map(image).collect()
        };
        engine.sequencer.order(self.begin, must_freeze, |commit| self.validate(commit), images)
    }

    /// Against one commit since the beginning.
    fn validate(&self, commit: &Committed) -> Result<()> {
        let (mutants, reads) = (self.engine.mutants, self.configuration().is_serializable());
        for write in &commit.writes {
            let both = self.writes.contains_key(&(write.column, write.row));
            if both && !mutants.has(Mutant::IgnoresWriteConflicts) {
                return Err(Error::serialization("A row was written by a newer transaction."));
            }
            if reads && self.predicates.are_touched_by(write, mutants) {
                return Err(Error::serialization("What was read has changed since."));
            }
        }
        Ok(())
    }

    fn install(&self, commit: &Committed) {
        for write in &commit.writes {
            let column = self.engine.column(write.column);
            column.install(write.row as usize, write.after, commit.timestamp);
        }
    }
}

impl<A: Area> Drop for Transaction<'_, A> {
    fn drop(&mut self) {
        self.engine.sequencer.end(self.begin);
    }
}
