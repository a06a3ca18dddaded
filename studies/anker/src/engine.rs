//! The engine in its five configurations.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use kit::sync::atomic::Ordering;
use types::{Error, Result, SqlState};

use crate::area::{Area, Frozen, ZONE_ROWS, zones};
use crate::column::Column;
use crate::lock::InstallLock;
use crate::mutant::{Mutant, Mutants};
use crate::query::{Query, columns_of};
use crate::sequencer::Sequencer;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::{ColumnId, Row, Timestamp};

/// Section 2.6.1 of the thesis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Configuration {
    /// One engine, full serializability: versions, scan zones, a collector, validation.
    SeeFs,
    /// One engine, snapshot isolation: the same without validation of reads.
    SeeSi,
    /// One engine, read uncommitted: in place, no versions, nothing is checked.
    SeeRu,
    /// Two engines, full serializability: queries read lazily frozen columns, transactions give up
    /// where they would need an old version.
    HeeAnker,
    /// The same with `fork`: queries run in a child, commits wait while the process forks.
    HeeFork,
}

impl Configuration {
    pub const ALL: [Configuration; 5] = [
        Configuration::SeeFs,
        Configuration::SeeSi,
        Configuration::SeeRu,
        Configuration::HeeAnker,
        Configuration::HeeFork,
    ];

    /// As the thesis writes it.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::SeeFs => "SEE_FS",
            Configuration::SeeSi => "SEE_SI",
            Configuration::SeeRu => "SEE_RU",
            Configuration::HeeAnker => "HEE_AnKer",
            Configuration::HeeFork => "HEE_fork",
        }
    }

    pub fn is_hybrid(self) -> bool {
        matches!(self, Configuration::HeeAnker | Configuration::HeeFork)
    }

    pub fn is_serializable(self) -> bool {
        self.is_hybrid() || self == Configuration::SeeFs
    }

    pub fn makes_versions(self) -> bool {
        self != Configuration::SeeRu
    }
}

/// Columns that a pass of a query may have: a forked child has no memory for more.
pub const PASS_COLUMNS_MAX: usize = 16;

/// Zones that the collector looks at before it lets commits pass.
const COLLECTED_ZONES: usize = 64;

pub struct Engine<A: Area> {
    configuration: Configuration,
    columns: Vec<Column<A>>,
    pub(crate) sequencer: Sequencer,
    /// Held shared by commits, exclusively by forks.
    pub(crate) commits: InstallLock,
    pub(crate) mutants: Mutants,
}

/// A query's answer, and the state that it is about.
#[derive(Clone, Debug)]
pub struct Answered {
    pub words: Vec<i64>,
    /// All commits up to here, and no others; says nothing in [`Configuration::SeeRu`].
    pub timestamp: Timestamp,
    /// Until there was something to read.
    pub snapshot: Duration,
    pub reading: Duration,
}

impl<A: Area> Engine<A> {
    /// Columns of so many rows each, all zero.
    pub fn new(configuration: Configuration, rows: &[usize]) -> Result<Self> {
        Engine::with_mutants(configuration, rows, Mutants::default())
    }

    pub(crate) fn with_mutants(
        configuration: Configuration,
        rows: &[usize],
        mutants: Mutants,
    ) -> Result<Self> {
        let columns: Result<Vec<_>> = rows.iter().map(|&rows| Column::new(rows, mutants)).collect();
        let columns: Vec<Column<A>> = columns?;
        let inherited = columns.iter().all(|column| column.values.inherited().is_some());
        if configuration == Configuration::HeeFork && !inherited {
            let message = format!("a forked child does not inherit columns of {}", A::TECHNIQUE);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Use physical columns with fork."));
        }
        Ok(Engine {
            configuration,
            columns,
            sequencer: Sequencer::new(mutants),
            commits: InstallLock::default(),
            mutants,
        })
    }

    pub fn configuration(&self) -> Configuration {
        self.configuration
    }

    pub fn column(&self, id: ColumnId) -> &Column<A> {
        &self.columns[id.0 as usize]
    }

    pub fn columns(&self) -> &[Column<A>] {
        &self.columns
    }

    /// A value from before the first commit; nothing else runs meanwhile.
    pub fn load(&self, column: ColumnId, row: Row, value: i64) {
        self.column(column).values.store(row as usize, value);
    }

    pub fn begin(&self) -> Transaction<'_, A> {
        Transaction::begin(self)
    }

    /// Asks for columns as of now; hybrid mode with column snapshots.
    pub fn snapshot(&self, columns: &[ColumnId]) -> Snapshot<'_, A> {
        Snapshot::request(self, columns)
    }

    pub fn query(&self, query: &dyn Query) -> Result<Answered> {
        check_width(query)?;
        match self.configuration {
            Configuration::HeeAnker => self.query_snapshot(query),
            Configuration::HeeFork => self.query_child(query),
            _ => self.query_in_place(query),
        }
    }

    fn query_snapshot(&self, query: &dyn Query) -> Result<Answered> {
        let start = Instant::now();
        let columns = columns_of(query);
        let snapshot = self.snapshot(&columns);
        columns.iter().try_for_each(|&column| snapshot.column(column).map(drop))?;
        let ready = Instant::now();
        let mut words = query.start();
        for (pass, columns) in query.passes().iter().enumerate() {
            let frozen: Result<Vec<_>> = columns.iter().map(|&id| snapshot.column(id)).collect();
            let frozen = frozen?;
            for zone in 0..self.zones_of(columns) {
                let zones: [Cow<'_, [i64]>; PASS_COLUMNS_MAX] = std::array::from_fn(|at| {
                    frozen
                        .get(at)
                        .map_or(Cow::Borrowed(&[][..]), |column| column.values().zone(zone))
                });
                let zones: [&[i64]; PASS_COLUMNS_MAX] = std::array::from_fn(|at| &*zones[at]);
                query.fold(pass, &zones[..columns.len()], &mut words);
            }
        }
        let timestamp = snapshot.timestamp();
        Ok(Answered { words, timestamp, snapshot: ready - start, reading: ready.elapsed() })
    }

    /// Serial at its beginning, like any transaction that only reads, and not validated: a long
    /// read-only query would otherwise meet some commit for sure.
    fn query_in_place(&self, query: &dyn Query) -> Result<Answered> {
        let start = Instant::now();
        let reader = self.begin();
        let words = reader.query(query)?;
        let timestamp = reader.begin_timestamp();
        Ok(Answered { words, timestamp, snapshot: Duration::ZERO, reading: start.elapsed() })
    }

    #[cfg(not(shuttle))]
    fn query_child(&self, query: &dyn Query) -> Result<Answered> {
        use crate::areas::fork::{self, Inherited};

        let start = Instant::now();
        let columns: Vec<ColumnId> = query.passes().iter().flatten().copied().collect();
        let words = |&id: &ColumnId| self.column(id).values.inherited().map(Inherited);
        let inherited: Vec<Inherited<'_>> = columns.iter().filter_map(words).collect();
        let mut slices: Vec<&[i64]> = vec![&[]; inherited.len()];
        let mut answer = query.start();
        let fold = |columns: &[&[i64]], answer: &mut [i64]| fold_all(query, columns, answer);
        let gate =
            (!self.mutants.has(Mutant::ForksAmongInstalls)).then(|| self.commits.exclusive());
        let timestamp = self.sequencer.request(|last| last);
        let child = fork::start(&inherited, &mut slices, &mut answer, &fold);
        drop(gate);
        let (child, ready) = (child?, Instant::now());
        let words = child.answer()?;
        Ok(Answered { words, timestamp, snapshot: ready - start, reading: ready.elapsed() })
    }

    #[cfg(shuttle)]
    fn query_child(&self, _query: &dyn Query) -> Result<Answered> {
        Err(Error::unsupported("fork under a model checker"))
    }

    pub(crate) fn zones_of(&self, columns: &[ColumnId]) -> usize {
        columns.first().map_or(0, |&column| zones(self.column(column).rows()))
    }

    /// One pass of the collector over all chains; the thesis makes one every second, and none
    /// where snapshots take the chains with them.
    pub fn collect(&self) {
        let oldest = self.sequencer.oldest();
        for column in &self.columns {
            let chains = column.chains.load_full();
            for first in (0..zones(column.rows())).step_by(COLLECTED_ZONES) {
                let last = (first + COLLECTED_ZONES).min(zones(column.rows()));
                let mut versioned = (first..last).filter(|&zone| !chains.span(zone).is_empty());
                let Some(zone) = versioned.next() else {
                    continue;
                };
                let _exclusive = column.lock.exclusive();
                let stamp = |row: usize| column.stamps.load(row);
                std::iter::once(zone).chain(versioned).for_each(|zone| {
                    chains.collect(zone, oldest, stamp);
                });
            }
        }
    }

    /// One zone of a column as of `at`; how many rows it has.
    pub(crate) fn read_zone(
        &self,
        column: &Column<A>,
        zone: usize,
        at: Timestamp,
        out: &mut [i64],
    ) -> usize {
        let copy = |out: &mut [i64]| {
            column.values.with_zone(zone, |words| {
                for (out, word) in out.iter_mut().zip(words) {
                    *out = word.load(Ordering::Acquire);
                }
                words.len()
            })
        };
        if !self.configuration.makes_versions() {
            return copy(out);
        }
        let chains = column.chains.load();
        loop {
            let span = chains.span(zone);
            let rows = copy(out);
            for place in span.rows() {
                let row = zone * ZONE_ROWS + place;
                if column.stamps.load(row) > at
                    && let Some(value) = chains.read(row, at)
                {
                    out[place] = value;
                }
            }
            if chains.span(zone) == span || self.mutants.has(Mutant::TrustsTheFirstSpan) {
                return rows;
            }
        }
    }
}

pub(crate) fn check_width(query: &dyn Query) -> Result<()> {
    if query.passes().iter().all(|pass| pass.len() <= PASS_COLUMNS_MAX) {
        return Ok(());
    }
    let message = format!("more than {PASS_COLUMNS_MAX} columns in one pass");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// What the child does with its columns: the whole query, pass by pass, without allocating.
#[cfg(not(shuttle))]
fn fold_all(query: &dyn Query, columns: &[&[i64]], answer: &mut [i64]) {
    let mut first = 0;
    for (pass, ids) in query.passes().iter().enumerate() {
        let columns = &columns[first..first + ids.len()];
        first += ids.len();
        let rows = columns.first().map_or(0, |column| column.len());
        for zone in 0..zones(rows) {
            let range = crate::area::zone_rows(zone, rows);
            let zones: [&[i64]; PASS_COLUMNS_MAX] = std::array::from_fn(|at| {
                columns.get(at).map_or::<&[i64], _>(&[], |column| &column[range.clone()])
            });
            query.fold(pass, &zones[..columns.len()], answer);
        }
    }
}
