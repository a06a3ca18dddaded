//! Simulation: runs every transaction of a block on one snapshot, in parallel, and records what it
//! read and wrote. The first half of every optimistic protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use procedure::access::Range;
use procedure::{Frame, Meter, ProgramResult};
use storage::{Catalog, Store};
use types::{Height, Position, Stamp, Stop, TableId};

use crate::footprint::{RangeDigest, Recorder, RowRead};
use crate::overlay::{Moment, Overlay};
use crate::pending::{PendingWrite, RecordId};
use crate::pool::WorkerPool;
use crate::prefetching::{self, Prefetching};
use crate::protocol::Block;
use crate::test_mode::{Mutant, mutated};
use crate::work::Work;

/// One transaction after its simulation.
#[derive(Debug)]
pub struct Simulated<R = Reads> {
    pub run: Result<ProgramResult, Stop>,
    pub reads: R,
    /// Empty when the transaction stopped.
    pub writes: Vec<PendingWrite>,
}

/// What a transaction read, below its own writes.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    pub rows: Vec<ReadMark>,
    pub ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
pub struct ReadMark {
    pub table: TableId,
    pub record: RecordId,
    /// Of the row's last change; `None`: there was no row.
    pub stamp: Option<Stamp>,
    /// The row's value, not only whether it was there.
    pub value: bool,
}

impl ReadMark {
    fn of(read: &RowRead<'_>, value: bool) -> ReadMark {
        ReadMark { table: read.table, record: read.record, stamp: read.stamp, value }
    }
}

impl Recorder for Reads {
    const DIGESTS: bool = false;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.rows.push(ReadMark::of(&read, true));
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.rows.push(ReadMark::of(&read, false));
    }

    fn range_read(&mut self, range: &Range, _: RangeDigest) {
        self.ranges.push(range.clone());
    }
}

struct Shared<R, F> {
    block: Arc<Block>,
    catalog: Arc<Catalog>,
    snapshots: Vec<Height>,
    turn: Turn,
    run: F,
    next: AtomicUsize,
    done: Vec<OnceLock<Simulated<R>>>,
}

/// Run every transaction of a block on the snapshot at `snapshot_height`; none sees another.
pub fn simulate(
    block: &Arc<Block>,
    store: &Arc<Store>,
    snapshot_height: Height,
    pool: &WorkerPool,
) -> Vec<Simulated> {
    simulate_with(block, store, (&[snapshot_height], |_, _, _| 0), pool, Work::run)
}

/// Which of so many snapshots a transaction is run on, by its work and its position.
pub type Turn = fn(&Work, usize, usize) -> usize;

/// As [`simulate`], with a recorder and a way to run of the caller's own, and on several snapshots.
pub fn simulate_with<R, F>(
    block: &Arc<Block>,
    store: &Arc<Store>,
    (snapshots, turn): (&[Height], Turn),
    pool: &WorkerPool,
    run: F,
) -> Vec<Simulated<R>>
where
    R: Recorder + Default + Send + Sync + 'static,
    F: Fn(&Work, &mut Frame, &mut Overlay<R>) -> Result<ProgramResult, Stop>,
    F: Send + Sync + 'static,
{
    let count = block.transactions.len();
    let shared = Arc::new(Shared {
        block: Arc::clone(block),
        catalog: store.catalog(),
        snapshots: snapshots.to_vec(),
        turn,
        run,
        next: AtomicUsize::new(0),
        done: (0..count).map(|_| OnceLock::new()).collect(),
    });
    let job = Arc::clone(&shared);
    pool.run_if_large(count, move |_| work(&job));
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    shared.done.into_iter().map(|s| s.into_inner().expect("every transaction is run")).collect()
}

fn work<R, F>(shared: &Shared<R, F>)
where
    R: Recorder + Default,
    F: Fn(&Work, &mut Frame, &mut Overlay<R>) -> Result<ProgramResult, Stop>,
{
    let nowhere = Moment { height: 0, position: 0, now_us: 0 };
    let overlay = |at| Overlay::new(Arc::clone(&shared.catalog), at, nowhere, R::default());
    let mut overlays: Vec<_> = shared.snapshots.iter().map(|&at| overlay(at)).collect();
    let mut frame = Frame::metered(Meter::of(shared.block.budget));
    let mut prefetching = Prefetching::new(Arc::clone(&shared.catalog), shared.done.len());
    loop {
        let first = shared.next.fetch_add(prefetching::GROUP, Ordering::Relaxed);
        let rest = shared.block.transactions.get(first..).unwrap_or_default();
        let group = &rest[..rest.len().min(prefetching::GROUP)];
        if group.is_empty() {
            return;
        }
        prefetching.fetch(group.iter().map(|work| &**work));
        for (position, work) in (first..).zip(group) {
            let turn = (shared.turn)(work, position, overlays.len());
            let overlay = &mut overlays[turn];
            overlay.restart(Moment {
                height: shared.block.height,
                position: position as Position,
                now_us: work.now_us(shared.block.time_us),
            });
            let run = (shared.run)(work, &mut frame, overlay);
            let mut reads = std::mem::take(&mut overlay.recorder);
            if run.is_err() && mutated(Mutant::RejectedReadsForgotten) {
                reads = R::default();
            }
            let writes = match run.is_ok() || mutated(Mutant::RejectedWritesKept) {
                true => overlay.take_writes(),
                false => Vec::new(),
            };
            let simulated = Simulated { run, reads, writes };
            let fresh = shared.done[position].set(simulated).is_ok();
            debug_assert!(fresh, "a position is drawn once");
        }
    }
}
