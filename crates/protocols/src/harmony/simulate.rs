//! Simulation: every transaction on the snapshot before the block, in parallel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use concurrency::foresight;
use concurrency::{
    Block, Crew, Foresight, Moment, Overlay, PendingWrite, RangeDigest, RecordId, Recorder, RowRead,
};
use procedure::access::Range;
use procedure::{Frame, ProgramResult};
use storage::{Catalog, Store};
use types::{Height, Position, Stop, TableId};

/// One transaction after its simulation.
#[derive(Debug)]
pub struct Simulated {
    pub run: Result<ProgramResult, Stop>,
    pub reads: Reads,
    /// Empty when the transaction stopped.
    pub writes: Vec<PendingWrite>,
}

#[derive(Clone, Debug, Default)]
pub struct Reads {
    pub rows: Vec<ReadMark>,
    pub ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
pub struct ReadMark {
    pub table: TableId,
    pub record: RecordId,
    /// The row's value, not only whether it was there.
    pub value: bool,
}

impl Recorder for Reads {
    const DIGESTS: bool = false;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.rows.push(ReadMark { table: read.table, record: read.record, value: true });
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.rows.push(ReadMark { table: read.table, record: read.record, value: false });
    }

    fn range_read(&mut self, range: &Range, _: RangeDigest) {
        self.ranges.push(range.clone());
    }
}

struct Shared {
    block: Arc<Block>,
    catalog: Arc<Catalog>,
    snapshot_height: Height,
    next: AtomicUsize,
    done: Vec<OnceLock<Simulated>>,
}

pub fn simulate(
    block: &Arc<Block>,
    store: &Arc<Store>,
    snapshot_height: Height,
    crew: &Crew,
) -> Vec<Simulated> {
    let count = block.transactions.len();
    let shared = Arc::new(Shared {
        block: Arc::clone(block),
        catalog: store.catalog(),
        snapshot_height,
        next: AtomicUsize::new(0),
        done: (0..count).map(|_| OnceLock::new()).collect(),
    });
    let job = Arc::clone(&shared);
    crew.run_if_large(count, move |_| work(&job));
    let shared = Arc::into_inner(shared).expect("the crew has let go of a finished job");
    shared.done.into_iter().map(|s| s.into_inner().expect("every transaction is run")).collect()
}

fn work(shared: &Shared) {
    let nowhere = Moment { height: 0, position: 0, now_us: 0 };
    let catalog = Arc::clone(&shared.catalog);
    let mut overlay = Overlay::new(catalog, shared.snapshot_height, nowhere, Reads::default());
    let mut frame = Frame::default();
    let mut foresight = Foresight::new(Arc::clone(&shared.catalog), shared.done.len());
    loop {
        let first = shared.next.fetch_add(foresight::GROUP, Ordering::Relaxed);
        let rest = shared.block.transactions.get(first..).unwrap_or_default();
        let group = &rest[..rest.len().min(foresight::GROUP)];
        if group.is_empty() {
            return;
        }
        foresight.fetch(group);
        for (position, work) in (first..).zip(group) {
            overlay.restart(Moment {
                height: shared.block.height,
                position: position as Position,
                now_us: work.now_us(shared.block.time_us),
            });
            let run = work.run(&mut frame, &mut overlay);
            let reads = std::mem::take(&mut overlay.recorder);
            let writes = if run.is_ok() { overlay.take_writes() } else { Vec::new() };
            let simulated = Simulated { run, reads, writes };
            shared.done[position].set(simulated).expect("a position is drawn once");
        }
    }
}
