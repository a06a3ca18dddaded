//! What a transaction has written and not installed yet.
//!
//! Rows lie as words in one arena, copied from the version before when the tuple is locked, so an
//! update that looks at nothing encodes what it assigns and no more. Commands stay unevaluated
//! until a row is looked at, exactly as in `concurrency::Overlay`: of several errors the same one
//! is named.

use concurrency::own_rows::OwnRows;
use procedure::access::Command;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use types::Stamp;

use crate::chains::{Mark, NewVersion};
use crate::clock::Timestamp;
use crate::layout::{ColumnSet, Layout};
use crate::pool::Unit;
use crate::rules::Permit;

pub enum State {
    Commands(SmallVec<[Command; 1]>),
    Put,
    Deleted,
}

/// A tuple that the transaction has locked, and what becomes of it.
pub struct Write {
    pub table: u32,
    pub tuple: u32,
    /// The version before.
    pub base: Mark,
    pub base_unit: Option<Unit>,
    pub base_stamp: Stamp,
    /// The tuple is the transaction's own creation: its entry in the primary index is new.
    pub created: bool,
    pub state: State,
    /// Where its row begins in the arena.
    pub row: usize,
    /// Columns whose words are the transaction's own.
    pub changed: ColumnSet,
    /// A version that was made for it; it owns the strings then.
    pub prepared: Option<Unit>,
    pub is_prepared: bool,
}

impl Write {
    /// Whether there was a row before.
    pub fn existed(&self) -> bool {
        !self.base.deleted()
    }

    pub fn exists(&self) -> bool {
        !matches!(self.state, State::Deleted)
    }
}

/// Searched one by one up to so many writes.
const SEARCHED_MAX: usize = 16;

#[derive(Default)]
pub struct Workspace {
    pub writes: Vec<Write>,
    arena: Vec<u64>,
    map: FxHashMap<(u32, u32), usize>,
    pub own_rows: OwnRows,
}

impl Workspace {
    pub fn clear(&mut self) {
        self.writes.clear();
        self.arena.clear();
        self.map.clear();
        self.own_rows.clear();
    }

    pub fn find(&mut self, table: u32, tuple: u32) -> Option<usize> {
        if self.writes.len() <= SEARCHED_MAX {
            return self.writes.iter().rposition(|w| w.tuple == tuple && w.table == table);
        }
        for at in self.map.len()..self.writes.len() {
            let write = &self.writes[at];
            self.map.insert((write.table, write.tuple), at);
        }
        self.map.get(&(table, tuple)).copied()
    }

    pub fn touches(&self, table: u32) -> bool {
        self.writes.iter().any(|write| write.table == table)
    }

    /// Room for a row.
    pub fn new_row(&mut self, words: usize) -> usize {
        let at = self.arena.len();
        self.arena.resize(at + words, 0);
        at
    }

    /// A row with the words given.
    pub fn copy_row(&mut self, words: impl Iterator<Item = u64>) -> usize {
        let at = self.arena.len();
        self.arena.extend(words);
        at
    }

    pub fn row(&self, at: usize, layout: &Layout) -> &[u64] {
        &self.arena[at..at + layout.words]
    }

    pub fn row_mut(&mut self, at: usize, layout: &Layout) -> &mut [u64] {
        &mut self.arena[at..at + layout.words]
    }

    /// What a write makes of its tuple; when and in which order is not known before the permit.
    pub fn version(
        &self,
        at: usize,
        layout: &Layout,
        stamp: Stamp,
        permit: Option<&Permit>,
    ) -> NewVersion<'_> {
        let write = &self.writes[at];
        NewVersion {
            tuple: write.tuple,
            image: write.exists().then(|| self.row(write.row, layout)),
            changed: &write.changed,
            base: write.base_unit,
            at: permit.map_or(Timestamp::ZERO, |permit| permit.at),
            order: permit.map_or(Timestamp::ZERO, |permit| permit.csn.order),
            stamp,
        }
    }

    /// Strings that the transaction made for a write go with it, unless a version has them.
    pub fn release(&self, write: &Write, layout: &Layout) {
        if write.is_prepared {
            return;
        }
        let row = self.row(write.row, layout);
        for column in write.changed.iter() {
            layout.release_cell(column, layout.cell(column, |i| row[i]));
        }
    }
}
