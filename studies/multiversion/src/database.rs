//! A database of the study: tables under one clock, and the background threads that collect old
//! versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use kit::sync::atomic::AtomicUsize;
use kit::sync::{self, Mutex, MutexGuard};
use types::{Error, Key, SqlState, Stamp, Stop, TableId, TableSchema, Value};

use crate::appending::Appending;
use crate::chains::Sight;
use crate::clock::{Clock, Timestamp};
use crate::mutant::{self, Mutant, mutated};
use crate::spec::{Collector, TableSpec};
use crate::table::Table;

/// Tables under one clock. Which rule runs on them is said where sessions are opened; one at a
/// time.
pub struct Database {
    tables: Vec<Option<Table>>,
    pub clock: Clock,
    /// Held while a commit is decided, by the rules that have such a structure.
    centre: Mutex<()>,
    /// Whose turn it is to add rows under hidden ids.
    pub(crate) appending: Appending,
    /// Bytes that the block still has for row images, where it holds them.
    pub(crate) image_room_bytes: AtomicUsize,
    /// Timestamps are drawn by stripes.
    striped: bool,
    /// The bug that everything here has, for tests of the tests.
    pub mutant: Option<Mutant>,
}

impl Database {
    /// `spec` says how each table is kept.
    pub fn new(
        schemas: impl IntoIterator<Item = Arc<TableSchema>>,
        spec: impl Fn(&TableSchema) -> TableSpec,
        workers: usize,
        striped: bool,
    ) -> Database {
        let made = schemas.into_iter().map(|s| (s.id.0, Table::new(Arc::clone(&s), spec(&s))));
        let made: BTreeMap<u32, Table> = made.collect();
        let count = made.keys().last().map_or(0, |last| last + 1);
        let mut tables: Vec<Option<Table>> = (0..count).map(|_| None).collect();
        for (id, table) in made {
            tables[id as usize] = Some(table);
        }
        let (clock, centre) = (Clock::new(workers), Mutex::new(()));
        let appending = Appending::default();
        let image_room_bytes = AtomicUsize::new(usize::MAX);
        Database { tables, clock, centre, appending, image_room_bytes, striped, mutant: None }
    }

    pub fn table(&self, id: TableId) -> Result<&Table, Error> {
        self.tables.get(id.0 as usize).and_then(Option::as_ref).ok_or_else(|| {
            let message = format!("table {} does not exist", id.0);
            Error::new(SqlState::UNDEFINED_TABLE, message)
                .with_hint("The table was dropped while the statement was on its way.")
        })
    }

    /// A table that a transaction has touched before.
    pub(crate) fn at(&self, id: u32) -> &Table {
        self.tables[id as usize].as_ref().expect("tables stay as long as their database")
    }

    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().flatten()
    }

    /// Adds a row that is there from the beginning. Not while transactions run.
    ///
    /// # Errors
    /// If there is no such table, or no more room.
    pub fn load(&self, table: TableId, key: &Key, row: &[Value], stamp: Stamp) -> Result<(), Stop> {
        self.table(table)?.load(key, row, stamp)
    }

    /// Whether some table has little room left for versions or strings.
    pub fn is_crowded(&self) -> bool {
        self.tables().any(Table::is_crowded)
    }

    pub(crate) fn centre(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.centre)
    }

    /// The horizon as it is now.
    pub fn raise_horizon(&self) -> Timestamp {
        match self.striped {
            true => self.clock.raise_horizon_striped(),
            false => self.clock.raise_horizon_central(),
        }
    }

    /// Who may still see old versions of a table.
    pub fn sight(&self, collector: Collector) -> Sight {
        let horizon = self.raise_horizon();
        let intervals = collector == Collector::Interval && !mutated(Mutant::IntervalsIgnored);
        Sight { horizon, readers: intervals.then(|| self.clock.readers()).flatten() }
    }

    /// One visit of the background collector; gives how many versions went. With `all` it passes
    /// through the whole of every table that is collected at all, for the corners where cooperative
    /// collectors never come.
    pub fn vacuum(&self, all: bool) -> usize {
        mutant::enter(self.mutant);
        let visited = |table: &&Table| match table.spec.collector {
            Collector::None => false,
            Collector::Cooperative => all,
            _ => true,
        };
        let sweep = |table: &Table| {
            let now = self.clock.newest();
            table.sweep(&self.sight(table.spec.collector), now, all)
        };
        self.tables().filter(visited).map(sweep).sum()
    }

    /// Versions beside the heads, in all tables.
    pub fn versions(&self) -> usize {
        self.tables().map(Table::versions).sum()
    }

    /// Bytes of versions and long strings.
    pub fn version_bytes(&self) -> usize {
        self.tables().map(Table::version_bytes).sum()
    }
}
