//! TicToc: a transaction's place in time is worked out at its end, from what it touched.
//!
//! Yu, Pavlo, Sanchez and Devadas, *TicToc: time traveling optimistic concurrency control*,
//! SIGMOD 2016.
//!
//! *Idea.* A row version is valid from the time of its *write* to that of its last *read*. A
//! transaction that commits looks for a time at which everything it read was valid and everything
//! it writes can begin; that may be in the past of others that have committed already. Only where a
//! version's end is too early is it extended, if no other transaction has locked it.
//!
//! ```text
//!   x  valid 3..5     y  valid 2..9          T read x and writes y
//!   time of T  = max(write of x = 3, last read of y + 1 = 10) = 10
//!   x must be valid at 10: extend it to 3..10, if it is as T read it and is not locked
//!   y becomes 10..10
//! ```
//!
//! *Words.* The last read is in the record's word ([`latch`](super::latch), row `timestamps`). The
//! write's time is not stored: it is looked up by the number in the version's stamp.
//!
//! *Serial order.* By time, and within one time by number: the paper's proof, whose physical order
//! is the order of draws. A number is drawn when everything is locked and validated, so none is
//! drawn in vain; the times make the order, and the stamps follow when the block has ended.
//!
//! *Gaps* have times of their own beside their words: of the last change, and of the last reader. A
//! reader first raises the time and then looks whether a changer is inside; a changer first enters
//! and then reads the time. One of them sees the other.
//!
//! *Invariants.* A version's successor begins after its last read. A transaction that saw a change
//! of a gap comes after it, one that did not comes before it. Rows under hidden row ids are added
//! one transaction at a time, each not before the one before: their numbers must lie in the order
//! of the times.
//!
//! *Departures from the paper.* Times begin again with each block. The read timestamp is not packed
//! with the write timestamp. A read whose version has gone is a conflict, also where the time would
//! have been before its end. That a row is there counts as reading it.
//!
//! *Cost.* As silo, and a compare-and-swap for each read that has to be extended.

use std::sync::{Arc, Mutex, OnceLock};

use concurrency::{Isolation, Options, Protocol, ProtocolInfo, Work};
use kit::sync::atomic::{AtomicU32, Ordering, fence};
use procedure::ProgramResult;
use storage::{LATEST, UndoArena};
use types::{Height, Position, Stamp, Stop};

use super::driver::Arriving;
use super::gaps::Gaps;
use super::mutant::Mutant;
use super::reads::RowSeen;
use super::seam::{Conflict, Ended, Epoch, Online, Session, Start};
use super::workspace::{Overlaid, Workspace};

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::TICTOC };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "tictoc",
    paper: "Yu et al., SIGMOD 2016",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[],
};

fn make(options: &Options) -> Arc<dyn Protocol> {
    Arriving::made(options, |mutant| TicToc {
        gaps: Arc::default(),
        times: Mutex::default(),
        mutant,
    })
}

pub struct TicToc {
    gaps: Arc<Gaps>,
    /// Of the block that is being run.
    times: Mutex<Option<Arc<Times>>>,
    mutant: Option<Mutant>,
}

/// Times of one block.
struct Times {
    height: Height,
    /// When the transaction that drew a number took place.
    of_draw: OfDraw,
    /// By gap: when it was last seen as it is, and when it was last changed.
    gap_read: Box<[AtomicU32]>,
    gap_changed: Box<[AtomicU32]>,
}

impl Times {
    fn new(epoch: &Epoch) -> Times {
        let zeros = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Times {
            height: epoch.height,
            of_draw: OfDraw::default(),
            gap_read: zeros(Gaps::COUNT),
            gap_changed: zeros(Gaps::COUNT),
        }
    }

    /// When a version began; all of earlier blocks at the beginning of time.
    fn of_write(&self, stamp: Stamp) -> u32 {
        match stamp.height() == self.height {
            true => self.of_draw.get(stamp.position()).load(Ordering::Acquire),
            false => 0,
        }
    }
}

/// A time for each number, as many as are drawn: piece k has [`FIRST`](OfDraw::FIRST) << k of them.
#[derive(Default)]
struct OfDraw {
    pieces: [OnceLock<Box<[AtomicU32]>>; OfDraw::PIECES],
}

impl OfDraw {
    const FIRST: usize = 64;
    const PIECES: usize = 24;

    fn get(&self, number: Position) -> &AtomicU32 {
        let place = number as usize + Self::FIRST;
        let piece = place.ilog2() - Self::FIRST.ilog2();
        let count = Self::FIRST << piece;
        let zeros = || (0..count).map(|_| AtomicU32::new(0)).collect();
        &self.pieces[piece as usize].get_or_init(zeros)[place - count]
    }
}

impl Online for TicToc {
    type Session = TicTocSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> TicTocSession {
        let mut times = self.times.lock().unwrap_or_else(|e| e.into_inner());
        let times = match &*times {
            Some(times) if times.height == epoch.height => Arc::clone(times),
            _ => Arc::clone(times.insert(Arc::new(Times::new(epoch)))),
        };
        let workspace = Workspace::new(epoch, &self.gaps, self.mutant).with_times();
        TicTocSession { workspace, gaps: Arc::clone(&self.gaps), times, mutant: self.mutant }
    }
}

pub struct TicTocSession {
    workspace: Workspace,
    gaps: Arc<Gaps>,
    times: Arc<Times>,
    mutant: Option<Mutant>,
}

impl Session for TicTocSession {
    type Access = Overlaid;

    fn begin(&mut self, start: Start, _: &Work) -> &mut Overlaid {
        self.workspace.begin(start)
    }

    fn commit(
        &mut self,
        _: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        let workspace = &mut self.workspace;
        if run.is_err() {
            workspace.forget_writes();
        }
        workspace.lock(false)?;
        if !workspace.rows_stand() {
            return Err(Conflict);
        }
        let run = run.and_then(|result| workspace.resolve().map(|()| result));
        workspace.enter_gaps(|_| false)?;
        // After the entering, before the times that readers leave: the other half is in
        // `gap_holds`.
        fence(Ordering::SeqCst);
        let time = self.time();
        let unvalidated = run.is_err() && self.mutant == Some(Mutant::RejectionsUnvalidated);
        if !unvalidated && !self.reads_hold(time) {
            return Err(Conflict);
        }
        let (csn, draw) = self.workspace.draw();
        if let Some(draw) = draw {
            self.times.of_draw.get(draw.0).store(time, Ordering::Release);
        }
        let installed = self.workspace.install(draw, undo);
        for gap in self.workspace.entered() {
            self.times.gap_changed[gap.number()].fetch_max(time, Ordering::AcqRel);
        }
        // Of a command that failed, the row on which it did was read.
        self.workspace.release_at(draw.is_some(), Some(time));
        let run = run.and_then(|result| installed.map(|()| result));
        Ok(Ended { csn: csn.at_time(time), draw, run })
    }

    fn abort(&mut self) {
        self.workspace.release_at(false, None);
    }
}

impl TicTocSession {
    /// The first time at which all that was read had begun, and after all that will be replaced.
    fn time(&self) -> u32 {
        let Times { gap_read, gap_changed, .. } = &*self.times;
        let workspace = &self.workspace;
        let load = |time: &AtomicU32| time.load(Ordering::Acquire);
        let after = u32::from(self.mutant != Some(Mutant::WritesAtReadTime));
        let gap_times = self.mutant != Some(Mutant::GapTimesForgotten);
        let reads = workspace.reads();
        let rows = reads.rows.iter().map(|row| self.times.of_write(row.stamp));
        let gaps = reads.gaps.iter().filter(|_| gap_times);
        let gaps = gaps.map(|(gap, _)| load(&gap_changed[gap.number()]));
        let replaced = workspace.locked().filter_map(|(table, slot)| {
            let read = workspace.latch(table, slot)?.last_read();
            let begun = workspace.table(table)?.stamp(slot, LATEST);
            Some(read.max(begun.map_or(0, |stamp| self.times.of_write(stamp))) + after)
        });
        let changed = workspace.entered().filter(|_| gap_times).map(|gap| {
            let gap = gap.number();
            load(&gap_changed[gap]).max(load(&gap_read[gap]) + after)
        });
        rows.chain(gaps).chain(replaced).chain(changed).max().unwrap_or(0)
    }

    fn reads_hold(&self, time: u32) -> bool {
        concurrency::test_mode::pause();
        let reads = self.workspace.reads();
        if self.mutant == Some(Mutant::ReadsUnvalidated) {
            return !reads.torn;
        }
        !reads.torn
            && reads.rows.iter().all(|row| self.row_holds(row, time).unwrap_or(false))
            && reads.gaps.iter().all(|(gap, seen)| {
                self.times.gap_read[gap.number()].fetch_max(time, Ordering::AcqRel);
                fence(Ordering::SeqCst);
                self.gaps.holds(*gap, *seen, self.workspace.is_inside(*gap))
            })
    }

    /// Whether a row is as it was read, and will be at `time`.
    fn row_holds(&self, row: &RowSeen, time: u32) -> Option<bool> {
        let table = self.workspace.table(row.table)?;
        let now = || table.stamp(row.slot, LATEST);
        if self.workspace.is_mine(row.table, row.slot) {
            return Some(if row.value { now() == Some(row.stamp) } else { now().is_some() });
        }
        if self.mutant == Some(Mutant::ReadsNotExtended) {
            return Some(now() == Some(row.stamp));
        }
        let latch = self.workspace.latch(row.table, row.slot)?;
        Some(latch.extend(time, || now() == Some(row.stamp)))
    }
}
