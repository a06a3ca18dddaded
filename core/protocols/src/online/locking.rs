//! A transaction that locks what it touches before it looks.
//!
//! ```text
//!   read x      lock x shared, then read                  the row, or the gap of its key
//!   update x    lock x for oneself, keep the command
//!   scan        watch the range's gap; lock each row shared, then compare its stamp
//!   commit      enter the gaps that rows come to and go from ─► draw ─► install ─► release all
//! ```
//!
//! All locks are kept to the end, so whatever was read is still so when the place in the serial
//! order is drawn, and no transaction that overwrites it draws before it is let go: strict
//! two-phase locking. Gaps are entered late, since what an update command makes of an indexed
//! column is not known before; that is still the growing phase.
//!
//! *Deadlocks* cannot be: a transaction that does not get a lock aborts at once (no-wait), or waits
//! only for younger ones (wait-die). The age of a transaction is its place when the block arrived,
//! which it keeps when it begins again.

use std::ops::ControlFlow;
use std::sync::Arc;

use concurrency::test_mode;
use kit::sync::{self, Spin};
use procedure::ProgramResult;
use procedure::access::{Access, Command, Range, Row};
use rustc_hash::FxHashMap;
use storage::{Catalog, LATEST, Slot, UndoArena};
use types::{ColumnId, Height, Key, Position, Stamp, Stop, TableId, Value};

use super::gaps::{Gap, Gaps};
use super::latch::Latch;
use super::mutant::Mutant;
use super::seam::{Conflict, Ended, Epoch, Start};
use super::workspace::Workspace;

/// Looks at the lock of a younger one, most of them a time slice or a nap apart.
const LOOKS_MAX: u32 = 64;

/// Looks before the first nap.
const YIELDS: u32 = 16;

const NAP: std::time::Duration = std::time::Duration::from_micros(20);

/// Who may wait for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    Never,
    /// The older for the younger.
    WaitDie,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Shared,
    Exclusive,
}

/// What one transaction holds.
struct Held {
    catalog: Arc<Catalog>,
    gaps: Arc<Gaps>,
    height: Height,
    waiting: Waiting,
    age: Position,
    rows: FxHashMap<(TableId, Slot), Mode>,
    watched: Vec<Gap>,
    /// A lock was not to be had.
    refused: bool,
    mutant: Option<Mutant>,
}

/// A [`Workspace`] behind locks; without them for one that begins optimistically.
pub struct Locking {
    pub workspace: Workspace,
    held: Held,
    locks: bool,
}

impl Locking {
    pub fn new(
        epoch: &Arc<Epoch>,
        gaps: &Arc<Gaps>,
        waiting: Waiting,
        mutant: Option<Mutant>,
    ) -> Locking {
        let held = Held {
            catalog: Arc::clone(&epoch.catalog),
            gaps: Arc::clone(gaps),
            height: epoch.height,
            waiting,
            age: 0,
            rows: FxHashMap::default(),
            watched: Vec::new(),
            refused: false,
            mutant,
        };
        Locking { workspace: Workspace::new(epoch, gaps, mutant), held, locks: true }
    }

    pub fn begin(&mut self, start: Start, locks: bool) -> &mut Locking {
        self.held.age = start.arrival;
        self.held.refused = false;
        self.locks = locks;
        self.workspace.begin(start);
        self
    }

    /// Of one that has locked all that it touched.
    pub fn commit(
        &mut self,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        if self.held.refused || self.workspace.is_torn() {
            return Err(Conflict);
        }
        let workspace = &mut self.workspace;
        if run.is_err() {
            workspace.forget_writes();
        }
        let run = run.and_then(|result| workspace.resolve().map(|()| result));
        let watched = &self.held.watched;
        workspace.enter_gaps(|gap| watched.contains(&gap))?;
        let (csn, draw) = workspace.draw();
        test_mode::pause();
        let installed = workspace.install(draw, undo);
        workspace.release(draw.is_some());
        self.held.release();
        Ok(Ended { csn, draw, run: run.and_then(|result| installed.map(|()| result)) })
    }

    pub fn release(&mut self) {
        self.workspace.release(false);
        self.held.release();
    }
}

/// Ends a transaction early; [`Held::refused`] says why.
fn refused() -> Stop {
    Stop::Halt("a lock was refused, and the transaction went on".to_owned())
}

impl Held {
    fn latch(&self, table: TableId, slot: Slot) -> Option<Latch<'_>> {
        Some(Latch::new(self.catalog.table(table)?.protocol_word(slot, 0)?, self.height))
    }

    fn visible(&self, table: TableId, key: &Key) -> Option<(Slot, Stamp)> {
        let table = self.catalog.table(table)?;
        let slot = table.find(key.as_bytes())?;
        Some((slot, table.stamp(slot, LATEST)?))
    }

    /// Lock the row of a key, or what stands for its absence.
    fn admit(&mut self, table: TableId, key: &Key, mode: Mode) -> Result<(), Stop> {
        if let Some((slot, _)) = self.visible(table, key) {
            self.lock(table, slot, mode)?;
            if self.visible(table, key).is_some() {
                return Ok(());
            }
        }
        self.watch(Gaps::of_key(table, key.as_bytes()))?;
        // It came in between: begin again rather than go in cycles.
        match self.visible(table, key) {
            Some(_) => self.refuse(),
            None => Ok(()),
        }
    }

    fn refuse(&mut self) -> Result<(), Stop> {
        self.refused = true;
        Err(refused())
    }

    fn lock(&mut self, table: TableId, slot: Slot, mode: Mode) -> Result<(), Stop> {
        let before = self.rows.get(&(table, slot)).copied();
        if before == Some(Mode::Exclusive) || before == Some(mode) {
            return Ok(());
        }
        let dropped = match mode {
            Mode::Shared => self.mutant == Some(Mutant::ReadsUnlocked),
            Mode::Exclusive => false,
        };
        if dropped {
            return Ok(());
        }
        test_mode::pause();
        let Some(latch) = self.latch(table, slot) else { return self.refuse() };
        let age = self.age;
        let granted = self.wait(
            || match mode {
                Mode::Shared => latch.try_shared(age),
                Mode::Exclusive => latch.try_exclusive_as(age, before.is_some()),
            },
            || latch.is_for_older(age, before.is_some()),
        );
        if !granted {
            return self.refuse();
        }
        self.rows.insert((table, slot), mode);
        Ok(())
    }

    /// `may_wait`: the transaction in the way is younger.
    fn wait(&self, mut get: impl FnMut() -> bool, may_wait: impl Fn() -> bool) -> bool {
        let mut spin = Spin::new();
        for look in 0..LOOKS_MAX {
            if get() {
                return true;
            }
            if self.waiting == Waiting::Never || !may_wait() {
                return false;
            }
            if look < YIELDS { spin.wait() } else { sync::nap(NAP) }
        }
        false
    }

    fn watch(&mut self, gap: Gap) -> Result<(), Stop> {
        if self.watched.contains(&gap) || self.mutant == Some(Mutant::GapsUnwatched) {
            return Ok(());
        }
        if !self.gaps.watch(gap, false) {
            return self.refuse();
        }
        self.watched.push(gap);
        Ok(())
    }

    /// A row of a scan was shown as it was at `stamp`.
    fn lock_shown(&mut self, table: TableId, key: &Key, stamp: Stamp) -> Result<(), Stop> {
        let Some((slot, _)) = self.visible(table, key) else { return self.refuse() };
        self.lock(table, slot, Mode::Shared)?;
        match self.visible(table, key) {
            Some(now) if now == (slot, stamp) => Ok(()),
            _ => self.refuse(),
        }
    }

    fn release(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        for (&(table, slot), &mode) in &rows {
            if let Some(latch) = self.latch(table, slot) {
                match mode {
                    Mode::Shared => latch.release_shared(),
                    Mode::Exclusive => latch.release_exclusive(),
                }
            }
        }
        self.rows = rows;
        self.rows.clear();
        for gap in self.watched.drain(..) {
            self.gaps.unwatch(gap);
        }
    }
}

impl Access for Locking {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        if self.locks {
            self.held.admit(table, key, Mode::Shared)?;
        }
        self.workspace.overlay().read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        if self.locks {
            self.held.admit(table, key, Mode::Shared)?;
        }
        self.workspace.overlay().exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        if self.locks {
            self.held.admit(table, key, Mode::Exclusive)?;
        }
        self.workspace.overlay().update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        if self.locks {
            // Over a row that the transaction has deleted, the lock is its own already.
            self.held.admit(table, &key, Mode::Shared)?;
        }
        self.workspace.overlay().insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        if self.locks {
            self.held.admit(table, key, Mode::Exclusive)?;
        }
        self.workspace.overlay().delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], mut visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let Locking { workspace, held, locks } = self;
        if !*locks {
            return workspace.overlay().scan(range, columns, visit);
        }
        held.watch(Gaps::of_range(range))?;
        let own = workspace.own_stamp();
        workspace.overlay().scan(range, columns, |key, stamp, values| {
            if stamp != own {
                held.lock_shown(range.table, key, stamp)?;
            }
            visit(key, stamp, values)
        })
    }

    fn take_passed_over(&mut self) -> u64 {
        self.workspace.overlay().take_passed_over()
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        self.workspace.overlay().next_row_id()
    }

    fn now_us(&self) -> i64 {
        self.workspace.now_us()
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        self.workspace.overlay().prefetch(table, key);
    }
}
