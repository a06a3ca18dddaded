//! Endorsements: transactions that were simulated before they were ordered, with the version of
//! everything they read, and the check whether that is still so.
//!
//! *Idea.* In Hyperledger Fabric a transaction reaches its block as a read set (keys with versions)
//! and a write set. Between its simulation, the *endorsement*, and its block other blocks may have
//! come in; a transaction is valid only if the newest state holds all that it read.
//!
//! ```text
//!   block       H-3        H-2        H-1        H
//!   snapshot   ─┬─────────────────────┬──────────┐
//!               └ lag 2: endorsed     └ lag 0    └ checked: what was read must hold now
//! ```
//!
//! *What is read.* A row's value at its stamp; whether a row is there (what an update, insert or
//! delete reports); a range, as a digest of its keys and stamps. An update command whose
//! expressions look at the row (`n = n + 1`) is a read of the row's value, since a write set holds
//! values; one that does not look (`n = 5`) is a blind write, and only needs the row to be there.
//!
//! *Simulated by others.* What the COMMIT of an interactive transaction has read, or an endorsed
//! one, which has the same form, was read before it was ordered, by its session or its endorsers.
//! It is not simulated on an older snapshot here, however much others lag: the versions that they
//! have seen are its read set, ranges by the seal that they have been signed with. Its rows are
//! written on the state before the block, by statements that come to values, and what those look at
//! for themselves (a unique value, a parent) is read as by any other.
//!
//! *Values.* Commands are evaluated when they are installed, just after the check has shown that
//! the row is the one of the simulation: so the values are the simulation's.
//!
//! *Old snapshots.* Which one a transaction is endorsed on follows from heights and its position,
//! so all replicas agree, whatever they remember. The caller keeps the last ones readable
//! ([`Protocol::history`](crate::Protocol::history)).

use std::sync::Arc;

use procedure::access::Range;
use procedure::{Budget, Frame, Meter, ProgramResult};
use smallvec::SmallVec;
use storage::{Catalog, LATEST, Store, Table};
use types::{Error, Height, Key, Stamp, Stop, TableId};

use crate::footprint::{NoRecord, RangeDigest, Recorder, RowRead};
use crate::guarded::Guarded;
use crate::history::is_readable;
use crate::overlay::{Moment, Overlay};
use crate::pending::{PendingWrite, RecordId, WriteState};
use crate::pool::WorkerPool;
use crate::protocol::{Block, Snapshots};
use crate::simulation::{Simulated, simulate_with};
use crate::test_mode::{Mutant, mutated};
use crate::work::{
    Interactive, RangeRequirement, RowRequirement, Work, range_changed, row_changed,
};

pub type Endorsed = Simulated<ReadSet>;

/// What a transaction read, with versions.
#[derive(Clone, Debug, Default)]
pub struct ReadSet {
    pub rows: Vec<RowVersion>,
    pub absent: Vec<AbsentRow>,
    pub ranges: Vec<RangeRequirement>,
}

#[derive(Clone, Copy, Debug)]
pub struct RowVersion {
    pub table: TableId,
    pub record: RecordId,
    pub stamp: Stamp,
    /// The row's value, not only whether it was there.
    pub value: bool,
}

#[derive(Clone, Debug)]
pub struct AbsentRow {
    pub table: TableId,
    pub record: RecordId,
    pub key: Key,
}

impl ReadSet {
    fn row(&mut self, read: RowRead<'_>, value: bool) {
        let RowRead { table, key, record, stamp } = read;
        match stamp {
            Some(stamp) => self.rows.push(RowVersion { table, record, stamp, value }),
            None => self.absent.push(AbsentRow { table, record, key: key.clone() }),
        }
    }
}

impl ReadSet {
    /// In place of what was found of a row just now, what others have found.
    fn row_of_others(&mut self, (rows, absent): (usize, usize), read: &RowRequirement) {
        if mutated(Mutant::VersionsOfNow) {
            return;
        }
        let of_rows = self.rows.drain(rows..).map(|found| found.record).last();
        let of_absent = self.absent.drain(absent..).map(|found| found.record).last();
        let Some(record) = of_rows.or(of_absent) else { return };
        if mutated(Mutant::ReadsOfOthersForgotten) {
            return;
        }
        let RowRequirement { table, key, stamp } = read;
        self.row(RowRead { table: *table, key, record, stamp: *stamp }, true);
    }

    /// The same of a range.
    fn range_of_others(&mut self, found: usize, read: &RangeRequirement) {
        let was_read = self.ranges.len() > found;
        if was_read && !mutated(Mutant::VersionsOfNow) {
            self.ranges.truncate(found);
            if !mutated(Mutant::ReadsOfOthersForgotten) {
                self.ranges.push(read.clone());
            }
        }
    }
}

impl Recorder for ReadSet {
    const DIGESTS: bool = true;

    fn value_read(&mut self, read: RowRead<'_>) {
        self.row(read, true);
    }

    fn existence_read(&mut self, read: RowRead<'_>) {
        self.row(read, false);
    }

    fn range_read(&mut self, range: &Range, digest: RangeDigest) {
        self.ranges.push(RangeRequirement { range: range.clone(), digest, seal: None });
    }
}

/// Which snapshots the transactions of a block are endorsed on.
#[derive(Clone, Copy, Debug)]
pub struct Endorsers {
    /// Blocks that every endorsement is behind.
    lag: Height,
    /// Further blocks, dealt out in turn: position p is `p mod (spread + 1)` more behind.
    spread: Height,
}

impl Endorsers {
    pub fn new(lag: Height, spread: Height) -> Endorsers {
        Endorsers { lag, spread }
    }

    /// Whether something may have changed between endorsement and block.
    pub fn lag_behind(&self) -> bool {
        self.lag + self.spread > 0
    }

    /// How far back the oldest snapshot is, seen from the block.
    pub fn history(&self) -> Height {
        self.lag + self.spread + 1
    }

    /// The snapshots for a block, the last of which is the state before it. `Err`: halt.
    pub fn snapshots(
        &self,
        block: &Block,
        store: &Store,
        snapshots: Snapshots,
    ) -> Result<Vec<Height>, String> {
        let Snapshots { newest, floor } = snapshots;
        if newest + 1 != block.height {
            return Err(format!("block {} was to be endorsed on block {newest}", block.height));
        }
        let behind = |blocks| floor.max(newest.saturating_sub(blocks));
        let mut heights: Vec<_> = (0..=self.spread).map(|more| behind(self.lag + more)).collect();
        // For what others have simulated.
        heights.push(newest);
        match heights.iter().find(|&&height| height < newest && !is_readable(store, height)) {
            Some(height) => Err(format!("the snapshot of block {height} was not held")),
            None => Ok(heights),
        }
    }
}

/// Which transactions end as soon as they meet something that has changed since it was read
/// (Fabric++, "early abort in the simulation phase"), in place of being found out later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EarlyAbort {
    Off,
    /// Those that others have simulated: where nothing comes between here and the validation, it
    /// makes no difference but to the work.
    OfOthers,
    On,
}

/// Simulate a block's transactions, each on its snapshot: the last for those that others have
/// simulated, the rest in turn.
pub fn endorse(
    block: &Arc<Block>,
    store: &Arc<Store>,
    snapshots: &[Height],
    pool: &WorkerPool,
    early_abort: EarlyAbort,
) -> Vec<Endorsed> {
    let catalog = store.catalog();
    simulate_with(block, store, (snapshots, turn), pool, move |work, frame, overlay| {
        let result = match work {
            Work::Interactive(transaction) => {
                simulated_by_others(transaction, frame, overlay, early_abort != EarlyAbort::Off)
            }
            _ if early_abort == EarlyAbort::On => run_until_stale(work, frame, overlay, &catalog),
            _ => work.run(frame, overlay),
        };
        read_for_commands(overlay, &catalog);
        result
    })
}

/// The newest snapshot, the last, is for what others have simulated.
fn turn(work: &Work, position: usize, snapshots: usize) -> usize {
    match work {
        Work::Interactive(_) => snapshots - 1,
        _ => position % (snapshots - 1).max(1),
    }
}

/// Take what others have read for read, and write what they write. What was overtaken is met again
/// by the check of versions, unless it ends here.
fn simulated_by_others(
    transaction: &Interactive,
    frame: &mut Frame,
    overlay: &mut Overlay<ReadSet>,
    early_abort: bool,
) -> Result<ProgramResult, Stop> {
    frame.meter().refill();
    for row in &transaction.rows {
        let found = (overlay.recorder.rows.len(), overlay.recorder.absent.len());
        let holds = row.holds(overlay, frame.meter())?;
        if early_abort && !holds && !mutated(Mutant::VersionsOfNow) {
            return Err(row_changed());
        }
        overlay.recorder.row_of_others(found, row);
    }
    for range in &transaction.ranges {
        let found = overlay.recorder.ranges.len();
        let holds = range.still_holds(overlay, frame.meter())?;
        if early_abort && !holds && !mutated(Mutant::VersionsOfNow) {
            return Err(range_changed());
        }
        overlay.recorder.range_of_others(found, range);
    }
    transaction.run_writes(frame, overlay)
}

/// End the transaction as soon as it has read something that is no more.
fn run_until_stale(
    work: &Work,
    frame: &mut Frame,
    overlay: &mut Overlay<ReadSet>,
    catalog: &Catalog,
) -> Result<ProgramResult, Stop> {
    let (mut rows, mut absent) = (0, 0);
    let mut is_stale = false;
    let watch = |overlay: &mut Overlay<ReadSet>| {
        let reads = &overlay.recorder;
        is_stale = is_stale
            || reads.rows[rows..].iter().any(|read| !row_holds(catalog, read))
            || reads.absent[absent..].iter().any(|read| !is_absent(catalog, read));
        (rows, absent) = (reads.rows.len(), reads.absent.len());
        if is_stale { Err(stale().into()) } else { Ok(()) }
    };
    let result = work.run(frame, &mut Guarded::new(overlay, watch));
    // Whatever the program made of the error.
    if is_stale { Err(stale().into()) } else { result }
}

/// Commands that look at their row are reads of it.
fn read_for_commands(overlay: &mut Overlay<ReadSet>, catalog: &Catalog) {
    let looking: SmallVec<[(TableId, RecordId); 16]> = overlay
        .writes()
        .writes()
        .iter()
        .filter(|w| looks(w))
        .map(|w| (w.table, w.record))
        .collect();
    for (table, record) in looking {
        let stamp = version(catalog, table, record, overlay.at());
        if let Some(stamp) = stamp {
            overlay.recorder.rows.push(RowVersion { table, record, stamp, value: true });
        }
    }
}

fn looks(write: &PendingWrite) -> bool {
    match &write.state {
        WriteState::Commands(commands) => commands.iter().any(|c| !c.code.columns.is_empty()),
        WriteState::Put(_) | WriteState::Delete => false,
    }
}

fn version(catalog: &Catalog, table: TableId, record: RecordId, at: Height) -> Option<Stamp> {
    catalog.table(table)?.stamp(record.slot()?, at)
}

/// The newest state holds what was read of a row.
fn row_holds(catalog: &Catalog, read: &RowVersion) -> bool {
    let now = version(catalog, read.table, read.record, LATEST);
    now.is_some_and(|stamp| !read.value || stamp == read.stamp)
}

fn is_absent(catalog: &Catalog, read: &AbsentRow) -> bool {
    let lookup = |table: &Arc<Table>| table.stamp(table.find(read.key.as_bytes())?, LATEST);
    catalog.table(read.table).and_then(lookup).is_none()
}

/// The check of read sets against the newest state.
pub struct VersionCheck {
    catalog: Arc<Catalog>,
    newest: Overlay<NoRecord>,
    meter: Meter,
}

impl VersionCheck {
    pub fn new(catalog: Arc<Catalog>, budget: Budget) -> VersionCheck {
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        let newest = Overlay::new(Arc::clone(&catalog), LATEST, nowhere, NoRecord);
        VersionCheck { catalog, newest, meter: Meter::of(budget) }
    }

    /// Whether all that was read is as it was: rows, missing rows, and ranges, which are read
    /// again (as Fabric does against phantoms).
    pub fn holds(&mut self, reads: &ReadSet) -> bool {
        reads.rows.iter().all(|read| row_holds(&self.catalog, read))
            && reads.absent.iter().all(|read| is_absent(&self.catalog, read))
            && reads.ranges.iter().all(|required| self.range_holds(required))
    }

    fn range_holds(&mut self, required: &RangeRequirement) -> bool {
        self.meter.refill();
        required.holds(&mut self.newest, &self.meter).is_ok_and(|holds| holds)
    }
}

/// What a transaction is told that read something which is no more.
pub fn stale() -> Error {
    Error::serialization("What the transaction read was changed since.")
}
