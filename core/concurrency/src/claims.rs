//! What a statement has to lock, so that nothing that it read or wrote changes: its *claims*.
//!
//! A table's rows lie along each of its indexes, the primary one (0) first; a claim is a key or an
//! interval on one such line.
//!
//! ```text
//!   read a row          its key on line 0, shared                    1 ──────●────────────
//!   read a range        the interval on the line of its index        2 ──[~~~~~~~~~]──────
//!   wrote a row         its key on line 0, exclusive; on every other line the row's entries,
//!                       of before and of now                         2 ────────●──────●───
//! ```
//!
//! *Invariant.* A write that would change what a read saw has a claim that conflicts with one of
//! the read's: a row that was read is on line 0 of both; a row that enters, leaves or changes in a
//! range has an entry in it, before or now.
//!
//! *Order.* A range that the statement also writes into is claimed exclusively as a whole: two that
//! each shared it first could neither of them write. And claims are made in the order of their
//! lines and keys, so that two statements do not each hold what the other needs.
//!
//! *Cost.* One claim for each row that was read by its key, one for each range however long, and
//! one for each index of each row written. A statement that would claim more than
//! [`KEYS_OF_TABLE_MAX`] keys of a table claims the table. A scan that stopped early claims its
//! range to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use storage::Catalog;
use types::{IndexId, Key, Stop, TableId};

use crate::footprint::Footprint;
use crate::overlay::{Overlay, WrittenEntries, byte_bounds, live_indexes};

/// Beyond that a statement claims the whole table.
pub const KEYS_OF_TABLE_MAX: usize = 4096;

/// What must not change, or no other transaction may look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub table: TableId,
    pub index: IndexId,
    pub place: Place,
    pub exclusive: bool,
}

impl Claim {
    /// What is lower on a line comes first, then what is longer, then what is stronger.
    fn rank(&self) -> (TableId, IndexId, Option<&Key>, bool, bool) {
        let (low, is_key) = match &self.place {
            Place::Key(key) => (Some(key), true),
            Place::Range(Bound::Unbounded, _) => (None, false),
            Place::Range(Bound::Included(low) | Bound::Excluded(low), _) => (Some(low), false),
        };
        (self.table, self.index, low, is_key, !self.exclusive)
    }
}

/// A key, or an interval of keys that is not empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Key(Key),
    Range(Bound<Key>, Bound<Key>),
}

/// Whether some key may lie above `low` and below `high`.
pub fn is_below(low: &Bound<Key>, high: &Bound<Key>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(low), Bound::Included(high)) => low <= high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low < high,
    }
}

/// What a footprint held when a statement began.
#[derive(Clone, Copy, Debug, Default)]
pub struct FootprintMark {
    rows: usize,
    ranges: usize,
}

impl Footprint {
    /// For a transaction all of whose reads are required: those of writing statements too.
    pub fn requiring_all() -> Footprint {
        let mut footprint = Footprint::default();
        footprint.enabled = true;
        footprint
    }

    pub fn mark(&self) -> FootprintMark {
        FootprintMark { rows: self.rows.len(), ranges: self.ranges.len() }
    }

    /// Forgets what was read since, where all reads are required.
    pub fn return_to(&mut self, mark: FootprintMark) {
        let rows = self.rows.len().saturating_sub(mark.rows);
        let ranges = self.ranges.len().saturating_sub(mark.ranges);
        self.rows.truncate(mark.rows);
        self.ranges.truncate(mark.ranges);
        self.release(rows, ranges);
    }

    /// Forgets what was read since in some tables, where all reads are required.
    pub fn forget_tables(&mut self, mark: FootprintMark, of: &dyn Fn(TableId) -> bool) {
        let (rows, ranges) = (self.rows.len(), self.ranges.len());
        debug_assert!(mark.rows <= rows && mark.ranges <= ranges, "reads only come behind a mark");
        let mut at = 0;
        self.rows.retain(|row| {
            at += 1;
            at <= mark.rows || !of(row.table)
        });
        at = 0;
        self.ranges.retain(|read| {
            at += 1;
            at <= mark.ranges || !of(read.range.table)
        });
        self.release(rows - self.rows.len(), ranges - self.ranges.len());
    }
}

impl Overlay<Footprint> {
    /// The claims of the statement that began at `mark`; those of its reads are exclusive in the
    /// tables for which it asks that, as SELECT … FOR UPDATE does.
    pub fn claims(
        &mut self,
        mark: FootprintMark,
        is_exclusive: &dyn Fn(TableId) -> bool,
    ) -> Result<Vec<Claim>, Stop> {
        let written = self.statement_entries()?;
        let mut claims: Vec<_> = written.into_iter().flat_map(of_write).collect();
        let lines = lines_of(&claims);
        let Footprint { rows, ranges, .. } = &self.recorder;
        claims.extend(rows[mark.rows..].iter().map(|row| Claim {
            table: row.table,
            index: 0,
            place: Place::Key(row.key.clone()),
            exclusive: is_exclusive(row.table),
        }));
        claims.extend(ranges[mark.ranges..].iter().filter_map(|read| {
            let (table, index) = (read.range.table, read.range.index);
            let (low, high) = byte_bounds(&read.range)?;
            let bounds = is_below(&low, &high).then_some((low, high))?;
            let writes = |keys: &BTreeSet<Key>| keys.range(bounds.clone()).next().is_some();
            let exclusive = is_exclusive(table) || lines.get(&(table, index)).is_some_and(writes);
            let place = Place::Range(bounds.0, bounds.1);
            Some(Claim { table, index, place, exclusive })
        }));
        let mut claims = coarse(claims, self.catalog());
        claims.sort_by(|a, b| a.rank().cmp(&b.rank()));
        claims.dedup_by(|next, first| {
            (next.table, next.index, &next.place) == (first.table, first.index, &first.place)
        });
        debug_assert!(claims.is_sorted_by(|a, b| a.rank() <= b.rank()), "locked in one order");
        Ok(claims)
    }
}

/// The keys that are written on each line.
fn lines_of(written: &[Claim]) -> BTreeMap<(TableId, IndexId), BTreeSet<Key>> {
    let mut lines: BTreeMap<_, BTreeSet<Key>> = BTreeMap::new();
    for claim in written {
        if let Place::Key(key) = &claim.place {
            lines.entry((claim.table, claim.index)).or_default().insert(key.clone());
        }
    }
    lines
}

fn of_write(written: WrittenEntries) -> impl Iterator<Item = Claim> {
    let WrittenEntries { table, key, entries } = written;
    let all = std::iter::once((0, key)).chain(entries);
    all.map(move |(index, key)| Claim { table, index, place: Place::Key(key), exclusive: true })
}

/// Claims of whole tables in place of very many of their keys.
fn coarse(mut claims: Vec<Claim>, catalog: &Catalog) -> Vec<Claim> {
    if claims.len() <= KEYS_OF_TABLE_MAX {
        return claims;
    }
    let mut tables: BTreeMap<TableId, (usize, bool)> = BTreeMap::new();
    for claim in &claims {
        let (count, exclusive) = tables.entry(claim.table).or_default();
        (*count, *exclusive) = (*count + 1, *exclusive | claim.exclusive);
    }
    tables.retain(|_, (count, _)| *count > KEYS_OF_TABLE_MAX);
    claims.retain(|claim| !tables.contains_key(&claim.table));
    for (table, (_, exclusive)) in tables {
        claims.extend(of_table(table, exclusive, catalog));
    }
    claims
}

fn of_table(table: TableId, exclusive: bool, catalog: &Catalog) -> impl Iterator<Item = Claim> {
    let others = catalog.table(table).map(|table| live_indexes(table).collect::<Vec<_>>());
    // A write claims a key on line 0; a read of a range claims the range's own line.
    let others = if exclusive { others.unwrap_or_default() } else { Vec::new() };
    std::iter::once(0).chain(others).map(move |index| {
        let place = Place::Range(Bound::Unbounded, Bound::Unbounded);
        Claim { table, index, place, exclusive }
    })
}

/// Claims of all that is in some tables, as LOCK TABLE makes them.
pub fn of_tables(tables: &[TableId], exclusive: bool, catalog: &Catalog) -> Vec<Claim> {
    let claims = tables.iter().flat_map(|table| of_table(*table, exclusive, catalog));
    let mut claims: Vec<Claim> = claims.collect();
    claims.sort_by(|a, b| a.rank().cmp(&b.rank()));
    claims
}
