//! Ranges: entries of an index, the versions after them, and the transaction's own rows between.
//!
//! The gap of the range is read first, then entries are collected in pieces. Every tuple that an
//! entry leads to is *read* by the rule, whether or not a row of it is shown: that there is none,
//! or that it lies elsewhere now, was seen too.

use std::ops::{Bound, ControlFlow};

use concurrency::overlay::{byte_bounds, covers};
use concurrency::own_rows::SCANNED_MAX;
use procedure::access::Range;
use smallvec::SmallVec;
use storage::Slot;
use types::{ColumnId, Error, IndexId, Key, SqlState, Stamp, Stop, Value};

use crate::chains::Seen;
use crate::mutant::{Mutant, mutated};
use crate::rules::{Miss, Rule};
use crate::spec::Pointers;
use crate::table::Table;
use crate::transaction::Transaction;

/// Entries that are collected at a time: few at first, for scans that end early.
const PIECE_FIRST: usize = 16;
const PIECE_MAX: usize = 256;

/// An own row: its entry, and which write it is.
type OwnRow = (Key, usize);

/// Own rows on their way between others.
struct Own {
    rows: Vec<OwnRow>,
    next: usize,
}

impl<'d, R: Rule> Transaction<'d, R> {
    pub(crate) fn scan_range<V>(
        &mut self,
        range: &Range,
        columns: &[ColumnId],
        mut visit: V,
    ) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let table = self.table(range.table)?;
        check_index(table, range.index)?;
        let rows = match self.work.touches(range.table.0) {
            true => self.own_rows(table, range)?,
            false => Vec::new(),
        };
        let mut own = Own { rows, next: 0 };
        let gap = table.gaps.look(range.index, common_prefix(range));
        self.retry_gone(|this| R::read_gap(&mut this.cx, table, gap))?;
        if table.is_unique(range.index) {
            R::read_unique(&mut self.cx, table, gap);
        }
        let Some((mut low, mut high)) = byte_bounds(range) else { return Ok(()) };
        let (mut entries, mut piece) = (Vec::new(), PIECE_FIRST);
        loop {
            entries.clear();
            let bounds = (low.as_ref().map(Key::as_bytes), high.as_ref().map(Key::as_bytes));
            let index = table.ordered(range.index);
            index.collect(bounds.0, bounds.1, range.reverse, piece, &mut entries);
            let last = entries.last().map(|(entry, _): &(Key, Slot)| entry.clone());
            for (entry, slot) in &entries {
                let found = (entry, *slot);
                if self.entry(table, range, columns, found, &mut own, &mut visit)?.is_break() {
                    return Ok(());
                }
            }
            match last.filter(|_| entries.len() == piece) {
                None => break,
                Some(last) if range.reverse => high = Bound::Excluded(last),
                Some(last) => low = Bound::Excluded(last),
            }
            piece = (piece * 4).min(PIECE_MAX);
        }
        self.show_own(range, columns, None, &mut own, &mut visit).map(drop)
    }

    /// One entry, and the own rows before it.
    fn entry<V>(
        &mut self,
        table: &'d Table,
        range: &Range,
        columns: &[ColumnId],
        (entry, slot): (&Key, Slot),
        own: &mut Own,
        visit: &mut V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let index = range.index;
        let Some((tuple, hint)) = table.follow(index, entry, slot) else {
            return Ok(ControlFlow::Continue(()));
        };
        let shown = shown_entry(table, index, entry);
        if let Some(at) = self.own(table, tuple) {
            // It hides the row below it, if that was there and this is its entry.
            let write = &self.work.writes[at];
            let below = write.existed() && (hint.is_none() || hint == write.base_unit);
            if below && self.was_entry(table, index, at, &shown)? {
                if self.show_own(range, columns, Some(&shown), own, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.passed_over += 1;
            }
            return Ok(ControlFlow::Continue(()));
        }
        let seen = match R::read(&mut self.cx, table, tuple, hint) {
            Ok(seen) => seen,
            // A row that comes to have the key has another tuple, and an entry of its own.
            Err(Miss::Gone) => return Ok(ControlFlow::Continue(())),
            Err(miss) => return Err(self.stop(miss)),
        };
        self.cooperate(table, tuple, &seen);
        if !seen.exists() || !self.is_entry(table, index, tuple, &seen, &shown)? {
            return Ok(ControlFlow::Continue(()));
        }
        if hint.is_some() && hint != seen.unit {
            return Ok(ControlFlow::Continue(()));
        }
        // The row below stays in its buffer: own rows are read elsewhere.
        if self.show_own(range, columns, Some(&shown), own, visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let values: SmallVec<[Value; 8]> =
            columns.iter().map(|&c| table.decode(c, seen.row, &self.cx.copy)).collect();
        match index {
            0 => visit(entry, seen.stamp, &values),
            _ => visit(&table.key(tuple), seen.stamp, &values),
        }
    }

    /// Whether an entry is that of the row seen, and not of another version.
    fn is_entry(
        &self,
        table: &Table,
        index: IndexId,
        tuple: u32,
        seen: &Seen<'_>,
        entry: &Key,
    ) -> Result<bool, Stop> {
        if index == 0 || mutated(Mutant::FalsePositiveShown) {
            return Ok(true);
        }
        let value = |column| table.decode(column, seen.row, &self.cx.copy);
        Ok(table.entry(index, &table.key(tuple), value)? == *entry)
    }

    /// The same of the row below an own write.
    fn was_entry(
        &mut self,
        table: &'d Table,
        index: IndexId,
        at: usize,
        entry: &Key,
    ) -> Result<bool, Stop> {
        if index == 0 {
            return Ok(true);
        }
        let tuple = self.work.writes[at].tuple;
        let seen = table.newest(tuple, &mut self.cx.copy);
        self.is_entry(table, index, tuple, &seen, entry)
    }

    /// Shows the own rows up to an entry, or all that are left.
    fn show_own<V>(
        &mut self,
        range: &Range,
        columns: &[ColumnId],
        before: Option<&Key>,
        own: &mut Own,
        visit: &mut V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        while let Some((entry, at)) = own.rows.get(own.next) {
            let behind = |before: &Key| if range.reverse { entry < before } else { entry > before };
            if before.is_some_and(behind) {
                break;
            }
            own.next += 1;
            let write = &self.work.writes[*at];
            let table = self.cx.db.at(write.table);
            let row = self.work.row(write.row, &table.layout);
            let decode = |&column: &ColumnId| table.layout.decode(column, |i| row[i]);
            let values: SmallVec<[Value; 8]> = columns.iter().map(decode).collect();
            if visit(&table.key(write.tuple), self.stamp(), &values)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Own rows of a range in the order of the scan. Their commands are evaluated for it.
    fn own_rows(&mut self, table: &Table, range: &Range) -> Result<Vec<OwnRow>, Stop> {
        let mut rows = match self.work.writes.len() <= SCANNED_MAX {
            true => self.own_rows_sorted(table, range)?,
            false => self.own_rows_mapped(table, range)?,
        };
        if range.reverse {
            rows.reverse();
        }
        Ok(rows)
    }

    fn own_rows_sorted(&mut self, table: &Table, range: &Range) -> Result<Vec<OwnRow>, Stop> {
        let mut rows = Vec::new();
        for at in 0..self.work.writes.len() {
            if self.work.writes[at].table != range.table.0 {
                continue;
            }
            let entry = self.own_entry(table, range.index, at)?;
            if let Some(entry) = entry.filter(|entry| covers(range, entry.as_bytes())) {
                self.evaluate(at)?;
                rows.push((entry, at));
            }
        }
        rows.sort();
        Ok(rows)
    }

    fn own_rows_mapped(&mut self, table: &Table, range: &Range) -> Result<Vec<OwnRow>, Stop> {
        let count = self.work.writes.len();
        let (map, stale) = self.work.own_rows.stale(range.table, range.index, count);
        for at in stale {
            if self.work.writes[at as usize].table != range.table.0 {
                continue;
            }
            match self.own_entry(table, range.index, at as usize) {
                Ok(entry) => self.work.own_rows.set(map, at, entry),
                Err(stop) => {
                    // The map has missed the rest.
                    self.work.own_rows.clear();
                    return Err(stop);
                }
            }
        }
        let Some((low, high)) = byte_bounds(range) else { return Ok(Vec::new()) };
        let rows = self.work.own_rows.range(map, low, high);
        rows.iter().try_for_each(|(_, at)| self.evaluate(*at).map(drop))?;
        Ok(rows)
    }

    /// What a write's row is in an index; `None`: there is no row. An entry in the primary index
    /// needs no value, so there commands stay what they are.
    fn own_entry(&mut self, table: &Table, index: IndexId, at: usize) -> Result<Option<Key>, Stop> {
        if index != 0 {
            self.evaluate(at)?;
        }
        let write = &self.work.writes[at];
        if !write.exists() {
            return Ok(None);
        }
        let primary = table.key(write.tuple);
        if index == 0 {
            return Ok(Some(primary));
        }
        let row = self.work.row(write.row, &table.layout);
        Ok(Some(table.entry(index, &primary, |c| table.layout.decode(c, |i| row[i]))?))
    }
}

/// An entry without the number of the version that it leads to.
fn shown_entry(table: &Table, index: IndexId, entry: &Key) -> Key {
    let mut shown = entry.clone();
    if index != 0 && table.spec.pointers == Pointers::Physical {
        shown.0.truncate(entry.0.len().saturating_sub(4));
    }
    shown
}

/// What all entries of a range begin with.
fn common_prefix(range: &Range) -> &[u8] {
    let (
        Bound::Included(low) | Bound::Excluded(low),
        Bound::Included(high) | Bound::Excluded(high),
    ) = (&range.low, &range.high)
    else {
        return &[];
    };
    let common = low.0.iter().zip(&high.0).take_while(|(low, high)| low == high).count();
    &low.as_bytes()[..common]
}

fn check_index(table: &Table, index: IndexId) -> Result<(), Stop> {
    let Some(place) = usize::from(index).checked_sub(1) else { return Ok(()) };
    match table.schema.indexes.get(place) {
        Some(index) if !index.dropped => Ok(()),
        _ => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("index {index} of table \"{}\" does not exist", table.schema.name),
        )
        .with_hint("The index was dropped while the statement was on its way.")
        .into()),
    }
}
