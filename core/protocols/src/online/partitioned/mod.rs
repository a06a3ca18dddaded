//! Partitioned: one executor for each part of the data, and no lock within.
//!
//! Stonebraker et al., *The end of an architectural era*, VLDB 2007; Kallman et al., *H-Store*,
//! VLDB 2008; the baseline "DT" of Wu's thesis (NUS 2017, chapter 3).
//!
//! *Idea.* A row belongs to a partition by the first column of its key. A transaction takes its
//! partitions before it begins and keeps them to the end; a transaction that has a partition is
//! alone in it, so nothing is locked, noted or validated there. That is as fast as serial execution
//! where each transaction stays in one partition, and as slow where they do not.
//!
//! ```text
//!   partition 0   │ T0 w=4 │ T2 w=4 │            │ T5      │
//!   partition 1   │ T1 w=5      │    wait  T4 ►  │ T4 w=4,5│   takes both at once, or waits
//! ```
//!
//! *Which partitions* follows from the key plan of a call, as far as its arguments tell. A
//! transaction that comes to a row of another one begins again with all of them. So does, from the
//! beginning, one that says nothing about its keys. A range whose keys do not share their first
//! column, and a secondary index, need all partitions too. A row under a hidden row id can only be
//! met by a scan, which needs all, so it may be added from any.
//!
//! *Serial order.* A place is drawn at the end, before the partitions are given back.
//!
//! *Departures from the papers.* Partitions are executed by the worker that takes them and not by a
//! thread of their own, so a worker is never idle while another has a queue. Tables that are only
//! read are not replicated.
//!
//! *Cost.* A mutex for each transaction; a worker that waits sleeps.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::install::Installer;
use concurrency::prefetching::Plans;
use concurrency::{
    Isolation, Moment, NoRecord, OptionValues, Options, Overlay, Protocol, ProtocolInfo,
    ProtocolOption, Work,
};
use kit::sync::{self, Condvar, Mutex};
use procedure::ProgramResult;
use procedure::access::{Access, Command, Range, Row};
use procedure::analysis::Planning;
use storage::{LATEST, UndoArena};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

use super::driver::Arriving;
use super::mutant::Mutant;
use super::order::{CommitSequenceNumber, PROVISIONAL};
use super::seam::{Conflict, Ended, Epoch, Online, Session, Start};
use super::workspace::name_rows;

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::PARTITIONED };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "partitioned",
    paper: "Stonebraker et al., VLDB 2007",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[ProtocolOption {
        name: "partitions",
        values: OptionValues::Integer { min: 1, max: 64, default: 16 },
        what: "how many parts the rows are divided into",
    }],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    let count = options.number(&INFO, "partitions") as u32;
    let partitions = Arc::new(Partitions { taken: Mutex::new(0), given_back: Condvar::new() });
    Arriving::made(options, |mutant| Partitioned { partitions, count, mutant })
}

pub struct Partitioned {
    partitions: Arc<Partitions>,
    count: u32,
    mutant: Option<Mutant>,
}

/// Which partitions are taken, one bit for each.
struct Partitions {
    taken: Mutex<u64>,
    given_back: Condvar,
}

impl Partitions {
    /// All of `wanted` at once, so that no worker waits for another while it has any.
    fn take(&self, wanted: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(|e| e.into_inner());
        while *taken & wanted != 0 {
            taken = sync::wait(&self.given_back, &self.taken, taken);
        }
        *taken |= wanted;
    }

    fn give_back(&self, held: u64) {
        *self.taken.lock().unwrap_or_else(|e| e.into_inner()) &= !held;
        self.given_back.notify_all();
    }
}

impl Online for Partitioned {
    type Session = PartitionedSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> PartitionedSession {
        let moment = Moment { height: epoch.height, position: PROVISIONAL, now_us: 0 };
        let overlay = Overlay::new(Arc::clone(&epoch.catalog), LATEST, moment, NoRecord);
        let fenced =
            Fenced { overlay, count: self.count, held: 0, trespassed: false, mutant: self.mutant };
        PartitionedSession {
            installer: Installer::new(Arc::clone(&epoch.catalog)),
            epoch: Arc::clone(epoch),
            partitions: Arc::clone(&self.partitions),
            fenced,
            moment,
            plans: Plans::default(),
            planning: Planning::default(),
        }
    }
}

pub struct PartitionedSession {
    epoch: Arc<Epoch>,
    partitions: Arc<Partitions>,
    fenced: Fenced,
    installer: Installer,
    moment: Moment,
    plans: Plans,
    planning: Planning,
}

impl PartitionedSession {
    /// As far as the call's arguments tell.
    fn partitions_of(&mut self, work: &Work) -> u64 {
        let Work::Statement(call) = work else { return self.fenced.all() };
        let plan = self.plans.of(&call.procedure);
        if plan.evaluate(&call.arguments, &mut self.planning).is_err() {
            return self.fenced.all();
        }
        let found = &self.planning.found;
        let of_keys = found.keys.iter().map(|planned| self.fenced.of_key(&planned.key));
        let of_ranges = found.ranges.iter().map(|(_, range)| self.fenced.of_range(range));
        match of_keys.chain(of_ranges).fold(0, |held, one| held | one) {
            0 => self.fenced.all(),
            some => some,
        }
    }

    fn finish(
        &mut self,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Stop> {
        let Moment { height, now_us, .. } = self.moment;
        let resolved = run.and_then(|result| {
            let writes = self.fenced.overlay.writes().writes();
            self.installer.resolve(writes, now_us).map(|()| result)
        });
        let draws = &self.epoch.draws;
        if resolved.is_err() || self.fenced.overlay.writes().is_empty() {
            return Ok(Ended { csn: draws.look(), draw: None, run: resolved });
        }
        let draw = draws.draw();
        name_rows(self.fenced.overlay.writes_mut(), &self.epoch.catalog, self.moment, draw)?;
        let writes = self.fenced.overlay.writes().writes();
        self.installer.put(writes, Stamp::new(height, draw.0), undo)?;
        Ok(Ended { csn: CommitSequenceNumber::of_writer(draw), draw: Some(draw), run: resolved })
    }
}

impl Session for PartitionedSession {
    type Access = Fenced;

    fn begin(&mut self, start: Start, work: &Work) -> &mut Fenced {
        let wanted = match start.conflicts {
            0 => self.partitions_of(work),
            _ => self.fenced.all(),
        };
        debug_assert_eq!(self.fenced.held, 0, "one that waits holds none, so none waits for ever");
        debug_assert!(wanted != 0 && wanted & !self.fenced.all() == 0, "partitions that there are");
        self.partitions.take(wanted);
        self.moment = start.moment;
        self.fenced.held = wanted;
        self.fenced.trespassed = false;
        self.fenced.overlay.restart(start.moment);
        &mut self.fenced
    }

    fn commit(
        &mut self,
        _: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        if self.fenced.trespassed {
            return Err(Conflict);
        }
        let ended = self.finish(run, undo).unwrap_or_else(|stop| Ended {
            csn: self.epoch.draws.look(),
            draw: None,
            run: Err(stop),
        });
        self.abort();
        Ok(ended)
    }

    fn abort(&mut self) {
        self.partitions.give_back(std::mem::take(&mut self.fenced.held));
    }
}

/// A panic must not leave others waiting.
impl Drop for PartitionedSession {
    fn drop(&mut self) {
        self.abort();
    }
}

/// The newest rows, as far as they lie in the partitions that are held.
pub struct Fenced {
    overlay: Overlay<NoRecord>,
    count: u32,
    held: u64,
    /// It came to a row of another partition.
    trespassed: bool,
    mutant: Option<Mutant>,
}

impl Fenced {
    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.count)
    }

    /// By the eight bytes that a key begins with: a column, if it is an integer.
    fn of_key(&self, key: &Key) -> u64 {
        let mut first = [0; 8];
        let bytes = key.as_bytes();
        let known = bytes.len().min(8);
        first[..known].copy_from_slice(&bytes[..known]);
        let mixed = u64::from_be_bytes(first).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        1 << ((mixed >> 32) % u64::from(self.count))
    }

    fn of_range(&self, range: &Range) -> u64 {
        let first = |bound| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Key::as_bytes(key).first_chunk::<8>(),
            Bound::Unbounded => None,
        };
        match (range.index, first(range.low.as_ref()), first(range.high.as_ref())) {
            (0, Some(low), Some(high)) if low == high => self.of_key(&Key::from(&low[..])),
            _ => self.all(),
        }
    }

    fn admit(&mut self, wanted: u64) -> Result<(), Stop> {
        if wanted & !self.held == 0 || self.mutant == Some(Mutant::FencesDown) {
            return Ok(());
        }
        self.trespassed = true;
        Err(Stop::Halt("a transaction left its partitions and went on".to_owned()))
    }

    /// Rows under hidden row ids are added from any partition, and met by scans of all.
    fn is_added_anywhere(&self, table: TableId) -> bool {
        self.overlay.catalog().table(table).is_some_and(|table| table.schema().hidden_row_id)
    }
}

impl Access for Fenced {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.admit(self.of_key(key))?;
        self.overlay.read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.admit(self.of_key(key))?;
        self.overlay.exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        self.admit(self.of_key(key))?;
        self.overlay.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        if !self.is_added_anywhere(table) {
            self.admit(self.of_key(&key))?;
        }
        self.overlay.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.admit(self.of_key(key))?;
        self.overlay.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let narrow = self.mutant == Some(Mutant::ScansUnfenced);
        self.admit(if narrow { self.held } else { self.of_range(range) })?;
        self.overlay.scan(range, columns, visit)
    }

    fn take_passed_over(&mut self) -> u64 {
        self.overlay.take_passed_over()
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.overlay.next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.overlay.now_us()
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        self.overlay.prefetch(table, key);
    }
}
