//! An optimistic transaction from its first read to its last install: what silo, occ and their
//! kind put together in their own order.
//!
//! ```text
//!   run      Overlay: own writes over the newest rows, reads noted
//!   commit   lock ─► resolve ─► enter gaps ─► draw ─► validate ─► install ─► release
//! ```
//!
//! Writes wait in the overlay, update commands unevaluated; *resolving* them on rows that are
//! locked makes values of them, which is why a hot counter that is not looked at is no read.
//!
//! *Order of locks.* By table and slot, so that those that wait for each other do not wait in a
//! cycle; and a transaction that has waited [`LOOKS_MAX`] times gives up, since the holder may
//! have lost its processor. Gaps are entered in their order, and only whole keys are waited for.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use concurrency::install::{Installer, Resolved};
use concurrency::overlay::{index_columns, index_key};
use concurrency::{Moment, Overlay, PendingWrite, WriteState, test_mode};
use kit::sync::Spin;
use procedure::ProgramResult;
use procedure::interpret::row_id_taken;
use storage::{Catalog, LATEST, Slot, Table, UndoArena};
use types::{ColumnId, IndexId, Key, Position, Stamp, Stop, TableId, Value};

use super::gaps::{Gap, Gaps, Seen};
use super::latch::{Held, Latch};
use super::mutant::Mutant;
use super::order::{CommitSequenceNumber, Draw, PROVISIONAL};
use super::reads::{Newest, Noting, Reads, RowSeen, SharedReads};
use super::seam::{Conflict, Ended, Epoch, Start};

/// Looks at a lock that another transaction holds, the later ones a time slice apart.
const LOOKS_MAX: u32 = 12;

/// Age of readers that a transaction may not wait for which locks before it looks.
const YOUNGEST: Position = Position::MAX;

/// What a transaction runs by.
pub type Overlaid = Overlay<Noting, Newest>;

pub struct Workspace {
    pub epoch: Arc<Epoch>,
    overlay: Overlaid,
    reads: SharedReads,
    gaps: Arc<Gaps>,
    installer: Installer,
    moment: Moment,
    /// Dropped writes: the transaction was rejected.
    writes_nothing: bool,
    wanted: Vec<Wanted>,
    /// Of `wanted`, those from the first on that are locked.
    locked: usize,
    entered: Vec<Entered>,
    /// Room for another list of what is wanted.
    spare: Vec<Wanted>,
    /// Locks leave the times in the records' words as they are.
    timed: bool,
    /// The tables' places in the order of locks, if it is not that of their numbers.
    ranks: Arc<Ranks>,
    mutant: Option<Mutant>,
}

/// Places of tables in the order of locks, by their numbers; tables without one come last.
#[derive(Default)]
pub struct Ranks(Vec<u32>);

impl Ranks {
    pub const LAST: u32 = u32::MAX;

    pub fn of(&self, table: TableId) -> u32 {
        self.0.get(table.0 as usize).copied().unwrap_or(Ranks::LAST)
    }
}

impl FromIterator<TableId> for Ranks {
    /// In this order.
    fn from_iter<I: IntoIterator<Item = TableId>>(tables: I) -> Ranks {
        let mut ranks = Vec::new();
        for (rank, table) in (0..).zip(tables) {
            let place = table.0 as usize;
            if ranks.len() <= place {
                ranks.resize(place + 1, Ranks::LAST);
            }
            ranks[place] = rank;
        }
        Ranks(ranks)
    }
}

/// A record to be locked. Numbers compare as locks are ordered.
///
/// ```text
/// 127      96 95      64 63      32        1       0
/// [  rank   |  table   |   slot   | … | alone | changes ]
///
/// alone     to write the record; else it is to stay as it is, with others
/// changes   the row comes or goes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wanted(u128);

impl Wanted {
    const CHANGES: u128 = 1;
    const ALONE: u128 = 2;

    fn new(rank: u32, table: TableId, slot: Slot, flags: u128) -> Wanted {
        let [rank, table, slot] = [rank, table.0, slot.0].map(u128::from);
        Wanted(rank << 96 | table << 64 | slot << 32 | flags)
    }

    fn table(self) -> TableId {
        TableId((self.0 >> 64) as u32)
    }

    fn slot(self) -> Slot {
        Slot((self.0 >> 32) as u32)
    }

    fn is_alone(self) -> bool {
        self.0 & Wanted::ALONE != 0
    }

    fn changes(self) -> bool {
        self.0 & Wanted::CHANGES != 0
    }

    /// Where it stands in the order of locks.
    fn place(self) -> u128 {
        self.0 >> 32
    }

    /// Whether it is more than what is held.
    fn exceeds(self, held: Wanted) -> bool {
        self.0 & !held.0 & (Wanted::ALONE | Wanted::CHANGES) != 0
    }
}

/// What has become of a row that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowState {
    Holds,
    Changed,
    /// Another transaction has locked it and is about to change it.
    InOtherHands,
}

/// A gap that will be changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entered {
    gap: Gap,
    alone: bool,
}

impl Workspace {
    pub fn new(epoch: &Arc<Epoch>, gaps: &Arc<Gaps>, mutant: Option<Mutant>) -> Workspace {
        let reads: SharedReads = Rc::new(RefCell::new(Reads::default()));
        let catalog = &epoch.catalog;
        let noting = Noting {
            reads: Rc::clone(&reads),
            gaps: Arc::clone(gaps),
            catalog: Arc::clone(catalog),
            mutant,
        };
        let newest = Newest { reads: Rc::clone(&reads), gaps: Arc::clone(gaps), mutant };
        let moment = Moment { height: epoch.height, position: PROVISIONAL, now_us: 0 };
        Workspace {
            overlay: Overlay::over(Arc::clone(catalog), newest, moment, noting),
            reads,
            gaps: Arc::clone(gaps),
            installer: Installer::new(Arc::clone(catalog)),
            moment,
            writes_nothing: false,
            wanted: Vec::new(),
            locked: 0,
            entered: Vec::new(),
            epoch: Arc::clone(epoch),
            spare: Vec::new(),
            timed: false,
            ranks: Arc::default(),
            mutant,
        }
    }

    /// For a protocol that keeps times in the records' words, and in whose order of times rows
    /// under hidden row ids must lie.
    pub fn with_times(self) -> Workspace {
        Workspace { timed: true, ..self }
    }

    /// Lock tables in this order. All transactions of a block must have the same.
    pub fn in_order(self, ranks: &Arc<Ranks>) -> Workspace {
        Workspace { ranks: Arc::clone(ranks), ..self }
    }

    pub fn begin(&mut self, start: Start) -> &mut Overlaid {
        self.reads.borrow_mut().clear();
        self.moment = start.moment;
        self.writes_nothing = false;
        self.overlay.restart(start.moment);
        &mut self.overlay
    }

    pub fn overlay(&mut self) -> &mut Overlaid {
        &mut self.overlay
    }

    pub fn now_us(&self) -> i64 {
        self.moment.now_us
    }

    /// What rows that it has written itself are shown with.
    pub fn own_stamp(&self) -> Stamp {
        Stamp::new(self.moment.height, self.moment.position)
    }

    /// A row came while the transaction looked for it.
    pub fn is_torn(&self) -> bool {
        self.reads.borrow().torn
    }

    /// The transaction was rejected: only what it read counts.
    pub fn forget_writes(&mut self) {
        self.writes_nothing = true;
    }

    /// What it wrote counts after all.
    pub fn remember_writes(&mut self) {
        self.writes_nothing = false;
    }

    pub fn writes(&self) -> &[PendingWrite] {
        if self.writes_nothing { &[] } else { self.overlay.writes().writes() }
    }

    /// Lock every row that will be written; `reads_too`: and every one that was read.
    pub fn lock(&mut self, reads_too: bool) -> Result<(), Conflict> {
        let mut wanted = std::mem::take(&mut self.wanted);
        self.want(reads_too, &mut wanted);
        self.wanted = wanted;
        while let Some(&next) = self.wanted.get(self.locked) {
            self.wait_for(next, LOOKS_MAX)?;
            self.locked += 1;
            test_mode::pause();
        }
        Ok(())
    }

    /// Lock what has come to be wanted since [`Workspace::lock`]. What comes before a lock that is
    /// held is not waited for.
    pub fn lock_added(&mut self, reads_too: bool) -> Result<(), Conflict> {
        let mut wanted = std::mem::take(&mut self.spare);
        self.want(reads_too, &mut wanted);
        let mut got = Ok(());
        for one in &wanted {
            let held = &self.wanted[..self.locked];
            got = match held.binary_search_by_key(&one.place(), |held| held.place()) {
                Ok(at) if one.exceeds(held[at]) => Err(Conflict),
                Ok(_) => continue,
                Err(at) => {
                    let looks = if at == self.locked { LOOKS_MAX } else { 1 };
                    self.wanted.truncate(self.locked);
                    self.wait_for(*one, looks).map(|()| {
                        self.wanted.insert(at, *one);
                        self.locked += 1;
                    })
                }
            };
            if got.is_err() {
                break;
            }
        }
        self.spare = wanted;
        got
    }

    /// The rows that must be locked, in order.
    fn want(&self, reads_too: bool, wanted: &mut Vec<Wanted>) {
        wanted.clear();
        let want = |table: TableId, slot: Slot, flags: u128| {
            Wanted::new(self.ranks.of(table), table, slot, flags)
        };
        wanted.extend(self.writes().iter().filter_map(|write| {
            let changes = if write.changes_existence() { Wanted::CHANGES } else { 0 };
            Some(want(write.table, write.slot?, Wanted::ALONE | changes))
        }));
        let written = wanted.len();
        if reads_too {
            let reads = self.reads.borrow();
            wanted.extend(reads.rows.iter().map(|row| want(row.table, row.slot, 0)));
        }
        wanted.sort_unstable();
        if reads_too || written > 1 {
            wanted.dedup_by(|next, kept| {
                let same = next.place() == kept.place();
                if same {
                    kept.0 |= next.0;
                }
                same
            });
        }
    }

    /// Whether the rows that will be changed are still there. One may be gone, and come again
    /// before the validation: there would be nothing to evaluate its write on.
    pub fn rows_stand(&self) -> bool {
        self.writes().iter().all(|write| {
            let table = self.epoch.catalog.table(write.table);
            let stands = |slot| table.is_some_and(|table| table.stamp(slot, LATEST).is_some());
            write.slot.is_none_or(stands)
        })
    }

    fn wait_for(&self, wanted: Wanted, looks: u32) -> Result<(), Conflict> {
        let latch = self.latch(wanted.table(), wanted.slot()).ok_or(Conflict)?;
        let mut spin = Spin::new();
        for _ in 0..looks {
            let got = match (wanted.is_alone(), self.timed) {
                (true, true) => latch.try_exclusive_timed(wanted.changes()),
                (true, false) => latch.try_exclusive(wanted.changes()),
                (false, _) => latch.try_shared(YOUNGEST),
            };
            if got {
                return Ok(());
            }
            spin.wait();
        }
        Err(Conflict)
    }

    pub fn holds_locks(&self) -> bool {
        self.locked > 0
    }

    pub fn look_at(&self, gap: Gap) -> Seen {
        self.gaps.look(gap)
    }

    pub fn latch(&self, table: TableId, slot: Slot) -> Option<Latch<'_>> {
        let word = self.epoch.catalog.table(table)?.protocol_word(slot, 0)?;
        Some(Latch::new(word, self.moment.height))
    }

    pub fn is_mine(&self, table: TableId, slot: Slot) -> bool {
        let place = Wanted::new(self.ranks.of(table), table, slot, 0).place();
        self.wanted[..self.locked].binary_search_by_key(&place, |one| one.place()).is_ok()
    }

    pub fn table(&self, table: TableId) -> Option<&Table> {
        self.epoch.catalog.table(table).map(|table| &**table)
    }

    pub fn shared_reads(&self) -> &SharedReads {
        &self.reads
    }

    pub fn reads(&self) -> Ref<'_, Reads> {
        self.reads.borrow()
    }

    /// The rows that will be written, and others that are locked.
    pub fn locked(&self) -> impl Iterator<Item = (TableId, Slot)> {
        self.wanted[..self.locked].iter().map(|one| (one.table(), one.slot()))
    }

    /// The gaps that will be changed.
    pub fn entered(&self) -> impl Iterator<Item = Gap> {
        self.entered.iter().map(|one| one.gap)
    }

    pub fn is_inside(&self, gap: Gap) -> bool {
        self.entered.binary_search_by_key(&gap, |one| one.gap).is_ok()
    }

    /// Evaluate the writes on what is locked. An error rejects the transaction, whose writes are
    /// forgotten.
    pub fn resolve(&mut self) -> Result<(), Stop> {
        if self.writes_nothing {
            return Ok(());
        }
        let writes = self.overlay.writes().writes();
        let resolved = self.installer.resolve(writes, self.moment.now_us);
        resolved.inspect_err(|_| self.writes_nothing = true)
    }

    /// Say what will come, go or move, before the place in the serial order is drawn. `watches`:
    /// the gaps that the transaction itself holds still.
    pub fn enter_gaps(&mut self, watches: impl Fn(Gap) -> bool) -> Result<(), Conflict> {
        self.entered.clear();
        let mut wanted = std::mem::take(&mut self.entered);
        for (write, resolved) in self.writes().iter().zip(self.installer.resolved()) {
            let Some(table) = self.epoch.catalog.table(write.table) else { continue };
            gaps_of(table, write, resolved.as_ref(), self.mutant, &mut wanted);
            if self.timed && table.schema().hidden_row_id && !write.existed {
                wanted.push(Entered { gap: Gaps::of_index(write.table, 0), alone: true });
            }
        }
        wanted.sort_unstable();
        wanted.dedup_by(|next, kept| {
            let same = next.gap == kept.gap;
            kept.alone |= same && next.alone;
            same
        });
        if self.mutant == Some(Mutant::GapsUnannounced) {
            wanted.clear();
        }
        for (count, one) in wanted.iter().enumerate() {
            if self.enter(*one, watches(one.gap)).is_err() {
                wanted.truncate(count);
                self.entered = wanted;
                return Err(Conflict);
            }
        }
        self.entered = wanted;
        test_mode::pause();
        Ok(())
    }

    fn enter(&self, Entered { gap, alone }: Entered, watching: bool) -> Result<(), Conflict> {
        let mut spin = Spin::new();
        for _ in 0..LOOKS_MAX {
            if self.gaps.enter(gap, alone, watching) {
                return Ok(());
            }
            spin.wait();
        }
        Err(Conflict)
    }

    /// The place in the serial order: a writer draws it, the others only look.
    pub fn draw(&self) -> (CommitSequenceNumber, Option<Draw>) {
        test_mode::pause();
        if self.writes().is_empty() {
            return (self.epoch.draws.look(), None);
        }
        let draw = self.epoch.draws.draw();
        (CommitSequenceNumber::of_writer(draw), Some(draw))
    }

    /// Whether everything that was read is as it was, as of `csn`.
    pub fn reads_hold(&self, csn: CommitSequenceNumber) -> bool {
        test_mode::pause();
        let reads = self.reads.borrow();
        if self.mutant == Some(Mutant::ReadsUnvalidated) {
            return !reads.torn;
        }
        !reads.torn
            && reads.rows.iter().all(|row| self.row_holds(row, csn).unwrap_or(false))
            && reads
                .gaps
                .iter()
                .all(|(gap, seen)| self.gaps.holds(*gap, *seen, self.is_inside(*gap)))
    }

    #[inline]
    fn row_holds(&self, row: &RowSeen, csn: CommitSequenceNumber) -> Option<bool> {
        Some(self.row_state(row, csn)? == RowState::Holds)
    }

    /// What has become of a row that was read, as of `csn`. `None`: its table is
    /// gone.
    #[inline]
    pub fn row_state(&self, row: &RowSeen, csn: CommitSequenceNumber) -> Option<RowState> {
        let table = self.epoch.catalog.table(row.table)?;
        let latch = Latch::new(table.protocol_word(row.slot, 0)?, self.moment.height);
        let in_the_way = match latch.held() {
            Held::Free => false,
            // That the row is there, an overwrite leaves as it is.
            Held::Overwrite => row.value,
            Held::Change => true,
        };
        if in_the_way
            && !self.is_mine(row.table, row.slot)
            && self.mutant != Some(Mutant::LocksOverlooked)
        {
            return Some(RowState::InOtherHands);
        }
        let holds = match table.stamp(row.slot, LATEST) {
            Some(now) => now == row.stamp || (!row.value && self.is_before(now, csn)),
            None => false,
        };
        Some(if holds { RowState::Holds } else { RowState::Changed })
    }

    /// Whether a row's version began before `csn`. One that began later need not have been there
    /// at `csn`, even if the row was there when it was read: it may have gone and come again.
    fn is_before(&self, version: Stamp, csn: CommitSequenceNumber) -> bool {
        version.height() < self.moment.height
            || CommitSequenceNumber::of_writer(Draw(version.position())) < csn
            || self.mutant == Some(Mutant::ReturnsOverlooked)
    }

    /// Whether a gap that was seen is as it was.
    pub fn gap_holds(&self, gap: Gap, seen: Seen) -> bool {
        self.gaps.holds(gap, seen, self.is_inside(gap))
    }

    /// Leave the gaps as they are, and keep the locks.
    pub fn leave_gaps(&mut self) {
        for Entered { gap, .. } in self.entered.drain(..) {
            self.gaps.leave(gap, false);
        }
    }

    pub fn install(&mut self, draw: Option<Draw>, undo: &mut UndoArena) -> Result<(), Stop> {
        let Some(draw) = draw else { return Ok(()) };
        name_rows(self.overlay.writes_mut(), &self.epoch.catalog, self.moment, draw)?;
        let stamp = Stamp::new(self.moment.height, draw.0);
        let writes = self.overlay.writes().writes();
        self.installer.put(writes, stamp, undo)
    }

    /// Silo's commit: what is written is locked, what was read is looked at again after the draw.
    pub fn commit_as_silo(
        &mut self,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        if run.is_err() {
            self.forget_writes();
        }
        self.lock(false)?;
        if !self.rows_stand() {
            return Err(Conflict);
        }
        let run = run.and_then(|result| self.resolve().map(|()| result));
        self.enter_gaps(|_| false)?;
        let late = self.mutant == Some(Mutant::DrawsLate);
        let drawn = (!late).then(|| self.draw());
        let unvalidated = run.is_err() && self.mutant == Some(Mutant::RejectionsUnvalidated);
        let csn = drawn.map_or(CommitSequenceNumber::END, |(csn, _)| csn);
        if !unvalidated && !self.reads_hold(csn) {
            return Err(Conflict);
        }
        let (csn, draw) = drawn.unwrap_or_else(|| self.draw());
        let installed = self.install(draw, undo);
        self.release(draw.is_some());
        Ok(Ended { csn, draw, run: run.and_then(|result| installed.map(|()| result)) })
    }

    /// Give back what is held; `installed`: the transaction has written.
    pub fn release(&mut self, installed: bool) {
        self.release_by(installed, |latch| latch.release_exclusive());
    }

    /// The same; `time`: when the locked rows were last seen, or written, if there is such a time.
    pub fn release_at(&mut self, installed: bool, time: Option<u32>) {
        self.release_by(installed, |latch| latch.release_timed(time));
    }

    fn release_by(&mut self, installed: bool, unlock: impl Fn(Latch<'_>)) {
        for Entered { gap, .. } in self.entered.drain(..) {
            self.gaps.leave(gap, installed);
        }
        for one in &self.wanted[..self.locked] {
            match self.latch(one.table(), one.slot()) {
                Some(latch) if one.is_alone() => unlock(latch),
                Some(latch) => latch.release_shared(),
                None => {}
            }
        }
        self.locked = 0;
    }
}

/// Hidden row ids get the number that their transaction has drawn. An `Err` halts.
pub fn name_rows(
    writes: &mut [PendingWrite],
    catalog: &Catalog,
    moment: Moment,
    Draw(number): Draw,
) -> Result<(), Stop> {
    let provisional = Stamp::new(moment.height, PROVISIONAL).row_id(0);
    let drawn = Stamp::new(moment.height, number).row_id(0);
    const ORDINAL: usize = 12;
    for write in writes {
        let table = match catalog.table(write.table) {
            Some(table) if table.schema().hidden_row_id => table,
            _ => continue,
        };
        if let WriteState::Put(row) = &mut write.state
            && let [column] = table.schema().primary_key[..]
            && let Value::Uuid(id) = &mut row[usize::from(column)]
            && id[..ORDINAL] == provisional[..ORDINAL]
        {
            id[..ORDINAL].copy_from_slice(&drawn[..ORDINAL]);
            write.key = Key::from(&id[..]);
            let taken = table.find(&id[..]).and_then(|slot| table.stamp(slot, LATEST));
            if taken.is_some() {
                return Err(row_id_taken(write.table));
            }
        }
    }
    Ok(())
}

/// The gaps that a write changes: none, unless an index entry comes or goes.
fn gaps_of(
    table: &Table,
    write: &PendingWrite,
    resolved: Option<&Resolved>,
    mutant: Option<Mutant>,
    out: &mut Vec<Entered>,
) {
    let new_row = match (&write.state, resolved) {
        (WriteState::Put(row), None) => Some(row),
        (_, Some(Resolved::Insert(row))) => Some(row),
        _ => None,
    };
    let indexes = &table.schema().indexes;
    let comes_or_goes = new_row.is_some() || matches!(resolved, Some(Resolved::Delete(_)));
    if comes_or_goes {
        // A hidden row id is no other row's, and not known yet.
        if write.existed || !table.schema().hidden_row_id {
            out.push(Entered { gap: Gaps::of_key(table.id(), write.key.as_bytes()), alone: true });
        }
        enter_entry(table.id(), 0, &write.key, out);
    }
    if indexes.is_empty() || mutant == Some(Mutant::SecondaryGapsForgotten) {
        return;
    }
    for (index, _) in (1..).zip(indexes).filter(|(_, index)| !index.dropped) {
        let columns = index_columns(table, index);
        match resolved {
            Some(Resolved::Patch(slot, patch)) => {
                let patched = |c: ColumnId| patch.iter().find(|(p, _)| *p == c).map(|(_, v)| v);
                if columns.iter().any(|&column| patched(column).is_some()) {
                    enter_stored(table, index, *slot, &write.key, &columns, |_| None, out);
                    enter_stored(table, index, *slot, &write.key, &columns, patched, out);
                }
            }
            Some(Resolved::Delete(slot)) => {
                enter_stored(table, index, *slot, &write.key, &columns, |_| None, out);
            }
            _ => {
                let Some(row) = new_row else { continue };
                let entry = index_key(table, index, &write.key, |c| &row[usize::from(c)]);
                enter_entry_or_all(table.id(), index, entry, out);
            }
        }
    }
}

/// The gaps of a stored row's entry, some columns changed.
fn enter_stored<'v>(
    table: &Table,
    index: IndexId,
    slot: Slot,
    key: &Key,
    columns: &[ColumnId],
    changed: impl Fn(ColumnId) -> Option<&'v Value>,
    out: &mut Vec<Entered>,
) {
    let mut values = vec![Value::Null; columns.len()];
    table.read(slot, LATEST, columns, &mut values);
    for (value, &column) in values.iter_mut().zip(columns) {
        if let Some(new) = changed(column) {
            value.clone_from(new);
        }
    }
    let value = |column| &values[columns.iter().position(|&c| c == column).unwrap_or(0)];
    enter_entry_or_all(table.id(), index, index_key(table, index, key, value), out);
}

/// An entry that cannot be encoded might be anywhere.
fn enter_entry_or_all(
    table: TableId,
    index: IndexId,
    entry: Result<Key, Stop>,
    out: &mut Vec<Entered>,
) {
    enter_entry(table, index, &entry.unwrap_or_default(), out);
}

fn enter_entry(table: TableId, index: IndexId, entry: &Key, out: &mut Vec<Entered>) {
    let gaps = Gaps::of_entry(table, index, entry.as_bytes());
    out.extend(gaps.map(|gap| Entered { gap, alone: false }));
}
