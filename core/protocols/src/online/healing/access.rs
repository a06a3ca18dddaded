//! The access of a transaction that can be healed: a workspace whose read and write entries can be
//! validated, and corrected one by one when a read turns out to be stale.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::vec;

use concurrency::{PendingWrite, WriteState, test_mode};
use procedure::access::{Access, Command, Range, Row};
use procedure::healing::{Notes, Restorable};
use smallvec::{SmallVec, smallvec};
use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

use super::old_notes::OldNotes;
use crate::online::gaps::{Gap, Gaps};
use crate::online::mutant::Mutant;
use crate::online::order::CommitSequenceNumber;
use crate::online::workspace::{RowState, Workspace};

pub struct Healer {
    pub workspace: Workspace,
    /// Notes and writes of the run that is being corrected, and how far the walk has come in them.
    old: OldNotes,
    next: Notes,
    writes: vec::IntoIter<PendingWrite>,
    /// Places of notes that no longer hold, ascending.
    stale: Stale,
    mutant: Option<Mutant>,
}

#[derive(Default)]
struct Stale {
    rows: Vec<u32>,
    gaps: Vec<u32>,
}

/// What came of looking at everything again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validity {
    Valid,
    Stale,
    /// A row that was read is about to be changed by another transaction.
    InOtherHands,
}

impl Healer {
    pub fn new(workspace: Workspace, mutant: Option<Mutant>) -> Healer {
        Healer {
            workspace,
            old: OldNotes::default(),
            next: Notes::default(),
            writes: Vec::new().into_iter(),
            stale: Stale::default(),
            mutant,
        }
    }

    /// Look at all that was read again, as of `csn`; `gaps_too`: also at what was
    /// absent.
    pub fn validate(&mut self, csn: CommitSequenceNumber, gaps_too: bool) -> Validity {
        test_mode::pause();
        self.stale.rows.clear();
        self.stale.gaps.clear();
        let reads = self.workspace.reads();
        if self.mutant == Some(Mutant::ReadsUnvalidated) && !reads.torn {
            return Validity::Valid;
        }
        let mut in_other_hands = false;
        for (at, row) in (0..).zip(&reads.rows) {
            match self.workspace.row_state(row, csn) {
                Some(RowState::Holds) => {}
                Some(RowState::InOtherHands) => in_other_hands = true,
                Some(RowState::Changed) | None => self.stale.rows.push(at),
            }
        }
        if gaps_too {
            for (at, (gap, seen)) in (0..).zip(&reads.gaps) {
                if !self.workspace.gap_holds(*gap, *seen) {
                    self.stale.gaps.push(at);
                }
            }
        }
        let stale = reads.torn || !self.stale.rows.is_empty() || !self.stale.gaps.is_empty();
        match (in_other_hands, stale) {
            (true, _) => Validity::InOtherHands,
            (false, true) => Validity::Stale,
            (false, false) => Validity::Valid,
        }
    }

    /// The notes of the run become old ones.
    pub fn begin_correction(&mut self) {
        // A command may have failed on the rows that were read before.
        self.workspace.remember_writes();
        let mut reads = self.workspace.shared_reads().borrow_mut();
        self.old.swap(&mut reads);
        reads.clear();
        drop(reads);
        self.writes = self.workspace.overlay().take_writes().into_iter();
        self.next = Notes::default();
    }

    pub fn is_torn(&self) -> bool {
        self.workspace.is_torn()
    }

    fn is_write_noted_later(&self, write: &PendingWrite, queried: &[TableId]) -> bool {
        let Some(table) = self.workspace.table(write.table) else { return true };
        if queried.contains(&write.table) && !table.schema().indexes.is_empty() {
            // It may have an entry in a range of any of them.
            return true;
        }
        let key = write.key.as_bytes();
        let mut gaps: SmallVec<[Gap; 6]> = Gaps::of_entry(write.table, 0, key).collect();
        gaps.push(Gaps::of_key(write.table, key));
        self.old.has(self.next, (write.table, write.slot), &gaps)
    }

    /// Whether a note lies among the next ones.
    fn among(places: &[u32], from: u32, count: u32) -> bool {
        count > 0 && {
            let first = places.partition_point(|place| *place < from);
            places.get(first).is_some_and(|place| *place < from + count)
        }
    }
}

/// The next old notes of both kinds.
fn next(from: Notes, count: Notes) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let range = |from: u32, count: u32| from as usize..(from + count) as usize;
    (range(from.rows, count.rows), range(from.gaps, count.gaps))
}

impl Restorable for Healer {
    #[inline]
    fn noted(&self) -> Notes {
        let reads = self.workspace.reads();
        Notes {
            rows: reads.rows.len() as u32,
            gaps: reads.gaps.len() as u32,
            writes: self.workspace.writes().len() as u32,
        }
    }

    fn looked_at_own(&self) -> bool {
        self.workspace.reads().own
    }

    fn is_stale(&self, notes: Notes) -> bool {
        match self.mutant {
            // Whatever has changed passes for a column that is not used.
            Some(Mutant::FilterTooWide) if notes.gaps == 0 => return false,
            Some(Mutant::PhantomsUnhealed) if notes.gaps > 0 => return false,
            _ => {}
        }
        Self::among(&self.stale.rows, self.next.rows, notes.rows)
            || Self::among(&self.stale.gaps, self.next.gaps, notes.gaps)
    }

    fn keep(&mut self, notes: Notes) {
        let (rows, gaps) = next(self.next, notes);
        let shared = Rc::clone(self.workspace.shared_reads());
        let mut reads = shared.borrow_mut();
        let from = reads.rows.len();
        let old = self.old.reads();
        reads.rows.extend_from_slice(&old.rows[rows]);
        reads.gaps.extend_from_slice(&old.gaps[gaps.clone()]);
        if matches!(self.mutant, Some(Mutant::FilterTooWide | Mutant::PhantomsUnhealed)) {
            for row in &mut reads.rows[from..] {
                let table = self.workspace.table(row.table);
                let now = table.and_then(|table| table.stamp(row.slot, storage::LATEST));
                row.stamp = now.unwrap_or(row.stamp);
            }
            let from = reads.gaps.len() - gaps.len();
            for (gap, seen) in &mut reads.gaps[from..] {
                *seen = self.workspace.look_at(*gap);
            }
        }
        for write in self.writes.by_ref().take(notes.writes as usize) {
            // A step that ran again has written the row before.
            reads.own |= !self.workspace.overlay().put_back(write);
        }
        self.next.rows += notes.rows;
        self.next.gaps += notes.gaps;
    }

    fn skip(&mut self, notes: Notes) {
        self.next.rows += notes.rows;
        self.next.gaps += notes.gaps;
        for write in self.writes.by_ref().take(notes.writes as usize) {
            if self.mutant == Some(Mutant::OldKeyKept) {
                self.workspace.overlay().put_back(write);
            }
        }
    }

    fn next_key(&self) -> Option<&Key> {
        self.writes.as_slice().first().map(|write| &write.key)
    }

    fn replace_row(&mut self, row: Row) {
        if let Some(write) = self.writes.as_mut_slice().first_mut() {
            write.state = WriteState::Put(row);
        }
    }

    fn replace_command(&mut self, command: Command) {
        if let Some(write) = self.writes.as_mut_slice().first_mut() {
            write.state = WriteState::Commands(smallvec![command]);
        }
    }

    fn is_noted_later(&self, first: u32, queried: &[TableId]) -> bool {
        let mut new = self.workspace.writes().iter().skip(first as usize);
        new.any(|write| self.is_write_noted_later(write, queried))
    }
}

impl Access for Healer {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        test_mode::pause();
        self.workspace.overlay().read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        test_mode::pause();
        self.workspace.overlay().exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        test_mode::pause();
        self.workspace.overlay().update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        test_mode::pause();
        self.workspace.overlay().insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        test_mode::pause();
        self.workspace.overlay().delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        test_mode::pause();
        self.workspace.overlay().scan(range, columns, visit)
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
