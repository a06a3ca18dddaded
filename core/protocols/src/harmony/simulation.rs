//! The simulation step, with its results laid out for the steps after it.
//!
//! Each worker appends the reads and writes of its transactions to its own arrays, a [`Lane`]; a
//! transaction is a few index ranges in one lane. Reads and writes refer to records by number (see
//! [`RecordNumbers`]), so building the edges needs twelve bytes for each access and no hashing.
//!
//! ```text
//!   lane 0   reads   [ T0 T0 T0 T3 T3 … ]     Read { number, value? }
//!            marks   [ T0 T0 T3 …       ]     Mark { number, kind, table, slot, patch }
//!            writes  [ T0 T0 T3 …       ]     PendingWrite, one for each mark
//!            patches [ T0 T0 …          ]     columns that a blind update assigns
//! ```
//!
//! An update that reads no column of its row (`SET a = $1`) has the same effect anywhere in the
//! serial order. It is evaluated here, while its data are in the cache; later steps see only the
//! few column values that it assigns. The next block reuses the lanes, so that a transaction
//! allocates nothing here once they have grown.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use concurrency::record_numbers::Counter;
use concurrency::{
    Block, Moment, Overlay, PendingWrite, Prefetching, RangeDigest, RecordId, RecordNumbers,
    Recorder, RowRead, WorkerPool, WriteState, prefetching,
};
use procedure::{Frame, Meter, ProgramResult, access};
use storage::{Catalog, Slot, Store};
use types::{ColumnId, Height, Position, Stop, TableId, Value};

/// All transactions of a block after their simulation.
pub struct Simulation {
    pub transactions: Vec<Simulated>,
    pub lanes: Vec<Lane>,
    /// Numbers of records are below this.
    pub numbers_end: u32,
    pub snapshot_height: Height,
}

pub struct Simulated {
    pub run: Result<ProgramResult, Stop>,
    /// A blind update failed, as it will wherever the transaction stands.
    pub fails: bool,
    lane: u32,
    reads: Range<u32>,
    writes: Range<u32>,
    ranges: Range<u32>,
}

/// What the transactions of one worker did.
#[derive(Default)]
pub struct Lane {
    reads: Vec<Read>,
    /// The key of each read, where the next block will ask for it.
    read_keys: Vec<RecordKey>,
    marks: Vec<Mark>,
    writes: Vec<PendingWrite>,
    patches: Vec<(ColumnId, Value)>,
    ranges: Vec<access::Range>,
}

#[derive(Clone, Copy)]
pub struct Read {
    pub number: u32,
    /// Of the row's value, not only of its existence.
    pub value: bool,
}

/// A record by its key alone: the same in every block, whether or not the row is there.
pub type RecordKey = (TableId, RecordId);

pub fn record_key(table: TableId, key: &types::Key) -> RecordKey {
    (table, RecordId::of(None, key))
}

/// A write, as edges and installing see it.
#[derive(Clone)]
pub struct Mark {
    pub number: u32,
    pub kind: Kind,
    pub changes_existence: bool,
    pub table: TableId,
    slot: Slot,
    patch: Range<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Assigns what its patch says, whatever the row holds.
    Blind,
    /// Is folded by its pending write.
    Folded,
    /// Came and went within the transaction.
    Void,
}

impl Simulation {
    pub fn lane(&self, tid: Position) -> &Lane {
        &self.lanes[self.transactions[tid as usize].lane as usize]
    }

    pub fn reads(&self, tid: Position) -> &[Read] {
        &self.lane(tid).reads[span(&self.transactions[tid as usize].reads)]
    }

    pub fn read_keys(&self, tid: Position) -> &[RecordKey] {
        &self.lane(tid).read_keys[span(&self.transactions[tid as usize].reads)]
    }

    /// The lane's numbers of a transaction's writes.
    pub fn write_numbers(&self, tid: Position) -> Range<u32> {
        self.transactions[tid as usize].writes.clone()
    }

    pub fn marks(&self, tid: Position) -> &[Mark] {
        &self.lane(tid).marks[span(&self.transactions[tid as usize].writes)]
    }

    pub fn writes(&self, tid: Position) -> &[PendingWrite] {
        &self.lane(tid).writes[span(&self.transactions[tid as usize].writes)]
    }

    pub fn ranges(&self, tid: Position) -> &[access::Range] {
        &self.lane(tid).ranges[span(&self.transactions[tid as usize].ranges)]
    }

    pub fn reads_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.reads.len()).sum()
    }

    pub fn writes_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.writes.len()).sum()
    }

    pub fn has_ranges(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.ranges.is_empty())
    }

    /// Whether every write is a patch.
    pub fn is_blind(&self) -> bool {
        let blind = |lane: &Lane| lane.marks.iter().all(|mark| mark.kind != Kind::Folded);
        self.lanes.iter().all(blind)
    }
}

impl Lane {
    pub fn mark(&self, write: u32) -> &Mark {
        &self.marks[write as usize]
    }

    pub fn pending(&self, write: u32) -> &PendingWrite {
        &self.writes[write as usize]
    }

    pub fn patch(&self, mark: &Mark) -> &[(ColumnId, Value)] {
        &self.patches[span(&mark.patch)]
    }

    pub fn clear(&mut self) {
        self.reads.clear();
        self.read_keys.clear();
        self.marks.clear();
        self.writes.clear();
        self.patches.clear();
        self.ranges.clear();
    }
}

impl Mark {
    /// Of a blind update.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

fn span(span: &Range<u32>) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// Reads as they are recorded; for one transaction at a time.
#[derive(Default)]
pub struct Reads {
    rows: Vec<RowMark>,
    keys: Vec<RecordKey>,
    ranges: Vec<access::Range>,
    /// Whether keys are wanted.
    keyed: bool,
}

struct RowMark {
    table: TableId,
    record: RecordId,
    value: bool,
}

impl Reads {
    pub fn keyed() -> Reads {
        Reads { keyed: true, ..Reads::default() }
    }

    /// Keys, and whether the value was read.
    pub fn drain_keys(&mut self) -> impl Iterator<Item = (RecordKey, bool)> + '_ {
        self.keys.drain(..).zip(self.rows.drain(..).map(|row| row.value))
    }

    pub fn drain_ranges(&mut self) -> impl Iterator<Item = access::Range> + '_ {
        self.ranges.drain(..)
    }

    fn read(&mut self, read: RowRead<'_>, value: bool) {
        self.rows.push(RowMark { table: read.table, record: read.record, value });
        if self.keyed {
            self.keys.push(record_key(read.table, read.key));
        }
    }
}

impl Recorder for Reads {
    const DIGESTS: bool = false;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.read(read, true);
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.read(read, false);
    }

    fn range_read(&mut self, range: &access::Range, _: RangeDigest) {
        self.ranges.push(range.clone());
    }
}

struct Shared {
    block: Arc<Block>,
    catalog: Arc<Catalog>,
    snapshot_height: Height,
    numbers: RecordNumbers,
    keyed: bool,
    next: AtomicUsize,
    done: Vec<OnceLock<Simulated>>,
    lanes: Vec<Mutex<Lane>>,
}

/// Run every transaction of a block on the snapshot at `snapshot_height`; none sees another.
/// `lanes` are empty ones to be used again; `keyed` asks for the keys of reads.
pub fn simulate(
    block: &Arc<Block>,
    store: &Arc<Store>,
    snapshot_height: Height,
    pool: &WorkerPool,
    mut lanes: Vec<Lane>,
    keyed: bool,
) -> Simulation {
    let count = block.transactions.len();
    let catalog = store.catalog();
    lanes.resize_with(pool.workers(), Lane::default);
    let shared = Arc::new(Shared {
        block: Arc::clone(block),
        snapshot_height,
        numbers: RecordNumbers::new(block.height, Arc::clone(&catalog)),
        catalog,
        keyed,
        next: AtomicUsize::new(0),
        done: (0..count).map(|_| OnceLock::new()).collect(),
        lanes: lanes.into_iter().map(Mutex::new).collect(),
    });
    let job = Arc::clone(&shared);
    pool.run_if_large(count, move |worker| {
        let mut lane = job.lanes[worker].lock().unwrap_or_else(|e| e.into_inner());
        work(&job, worker as u32, &mut lane);
    });
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    let done = shared.done.into_iter();
    let lanes = shared.lanes.into_iter();
    Simulation {
        transactions: done.map(|s| s.into_inner().expect("every transaction is run")).collect(),
        lanes: lanes.map(|lane| lane.into_inner().unwrap_or_else(|e| e.into_inner())).collect(),
        numbers_end: shared.numbers.end(),
        snapshot_height,
    }
}

fn work(shared: &Shared, worker: u32, lane: &mut Lane) {
    let nowhere = Moment { height: 0, position: 0, now_us: 0 };
    let catalog = Arc::clone(&shared.catalog);
    let reads = Reads { keyed: shared.keyed, ..Reads::default() };
    let mut overlay = Overlay::new(catalog, shared.snapshot_height, nowhere, reads);
    let mut frame = Frame::metered(Meter::of(shared.block.budget));
    let mut prefetching = Prefetching::new(Arc::clone(&shared.catalog), shared.done.len());
    let mut lane_writer =
        LaneWriter { counter: shared.numbers.counter(), lane, scratch: Vec::new() };
    loop {
        let first = shared.next.fetch_add(prefetching::GROUP, Ordering::Relaxed);
        let rest = shared.block.transactions.get(first..).unwrap_or_default();
        let group = &rest[..rest.len().min(prefetching::GROUP)];
        if group.is_empty() {
            return;
        }
        prefetching.fetch(group.iter().map(|work| &**work));
        for (position, work) in (first..).zip(group) {
            let moment = Moment {
                height: shared.block.height,
                position: position as Position,
                now_us: work.now_us(shared.block.time_us),
            };
            overlay.restart(moment);
            let run = work.run(&mut frame, &mut overlay);
            let mut simulated = lane_writer.keep(run, &mut overlay, &shared.catalog, moment.now_us);
            simulated.lane = worker;
            let fresh = shared.done[position].set(simulated).is_ok();
            debug_assert!(fresh, "a position is drawn once");
        }
    }
}

/// Puts what a transaction did into a lane.
struct LaneWriter<'a> {
    counter: Counter<'a>,
    lane: &'a mut Lane,
    /// A row's values while a blind update is applied.
    scratch: Vec<Value>,
}

impl LaneWriter<'_> {
    fn keep(
        &mut self,
        run: Result<ProgramResult, Stop>,
        overlay: &mut Overlay<Reads>,
        catalog: &Catalog,
        now_us: i64,
    ) -> Simulated {
        let lane = &mut *self.lane;
        let (reads, writes) = (lane.reads.len() as u32, lane.writes.len() as u32);
        let ranges = lane.ranges.len() as u32;
        let recorder = &mut overlay.recorder;
        let counter = &mut self.counter;
        lane.reads.extend(
            recorder.rows.drain(..).map(|row| Read {
                number: counter.number(row.table, row.record),
                value: row.value,
            }),
        );
        lane.read_keys.append(&mut recorder.keys);
        lane.ranges.append(&mut recorder.ranges);
        let mut fails = false;
        if run.is_ok() {
            let mut pending = overlay.take_writes();
            for write in &pending {
                fails |= self.mark(write, catalog, now_us).is_err();
            }
            self.lane.writes.append(&mut pending);
            overlay.recycle(pending);
        }
        let lane = &*self.lane;
        Simulated {
            run,
            fails,
            lane: 0,
            reads: reads..lane.reads.len() as u32,
            writes: writes..lane.writes.len() as u32,
            ranges: ranges..lane.ranges.len() as u32,
        }
    }

    /// `Err`: a blind update that fails, wherever it stands.
    fn mark(
        &mut self,
        write: &PendingWrite,
        catalog: &Catalog,
        now_us: i64,
    ) -> Result<(), types::Error> {
        let first = self.lane.patches.len() as u32;
        let mut mark = Mark {
            number: self.counter.number(write.table, write.record),
            kind: if write.is_void() { Kind::Void } else { Kind::Folded },
            changes_existence: write.changes_existence(),
            table: write.table,
            slot: write.slot.unwrap_or(Slot(0)),
            patch: first..first,
        };
        let mut outcome = Ok(());
        if let (WriteState::Commands(commands), Some(_)) = (&write.state, write.slot)
            && commands.iter().all(|command| command.code.columns.is_empty())
        {
            mark.kind = Kind::Blind;
            let columns = catalog.table(write.table).map_or(0, |t| t.schema().columns.len());
            self.scratch.resize(columns, Value::Null);
            for command in commands {
                outcome = outcome.and_then(|()| command.apply(&mut self.scratch, now_us));
                self.take_patch(first, command);
            }
            mark.patch.end = self.lane.patches.len() as u32;
        }
        self.lane.marks.push(mark);
        outcome
    }

    /// Move what a command assigned after the patch that began at `first`.
    fn take_patch(&mut self, first: u32, command: &access::Command) {
        let patches = &mut self.lane.patches;
        for &(column, _) in &command.code.assignments {
            let value = std::mem::take(&mut self.scratch[usize::from(column)]);
            match patches[first as usize..].iter_mut().find(|(c, _)| *c == column) {
                Some(earlier) => earlier.1 = value,
                None => patches.push((column, value)),
            }
        }
    }
}
