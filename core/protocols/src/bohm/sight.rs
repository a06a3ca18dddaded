//! The state that a transaction's position prescribes: stored rows, and the block's versions of
//! them.
//!
//! Nothing of the segment is stored before all of it has run, so the newest stored state is the one
//! before it, for every reader.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use concurrency::accesses::KeyAccess;
use concurrency::overlay::{covers, index_columns, index_key};
use concurrency::{Below, Stored};
use procedure::access::Range;
use storage::{LATEST, Slot, Table};
use types::{ColumnId, Height, Key, Stamp, Stop, Value};

use super::versions::{State, Version, Versions};

const STORED: Stored = Stored(LATEST);

/// What lies below one transaction after another.
pub struct Sight {
    pub versions: Arc<Versions>,
    height: Height,
    at: u32,
    /// Any record that the transaction may touch has a version before it; most have none.
    any_before: bool,
    scans_see_versions: bool,
}

impl Sight {
    pub fn new(versions: Arc<Versions>, height: Height, scans_see_versions: bool) -> Sight {
        Sight { versions, height, at: 0, any_before: false, scans_see_versions }
    }

    /// Lie below another transaction.
    pub fn turn_to(&mut self, at: u32) {
        self.at = at;
        self.any_before = self.versions.any_before(at);
    }

    /// What the block has made of a row before it.
    #[inline]
    pub fn version(&self, table: &Table, key: &Key) -> Option<&Version> {
        if !self.any_before {
            return None;
        }
        self.versions.before(self.at, &KeyAccess::new(table.id(), key.clone(), false))
    }

    fn stamp_of(&self, version: &Version) -> Stamp {
        Stamp::new(self.height, version.at)
    }
}

/// The columns of a version's row. `None`: there is no row.
fn read_version(
    version: &Version,
    table: &Table,
    slot: Option<Slot>,
    columns: &[ColumnId],
    out: &mut [Value],
) -> Option<()> {
    match version.made() {
        State::Row(row) => {
            for (value, &column) in out.iter_mut().zip(columns) {
                *value = row[usize::from(column)].clone();
            }
        }
        State::Patch(patch) => {
            table.read(slot?, LATEST, columns, out)?;
            for (column, new) in patch {
                for at in (0..columns.len()).filter(|&at| columns[at] == *column) {
                    out[at] = new.clone();
                }
            }
        }
        State::Deleted | State::Unchanged | State::Added(..) => return None,
    }
    Some(())
}

impl Below for Sight {
    fn stamp(&self, table: &Table, slot: Option<Slot>, key: &Key) -> Option<Stamp> {
        match self.version(table, key) {
            Some(version) => match version.made() {
                State::Row(_) | State::Patch(_) => Some(self.stamp_of(version)),
                _ => None,
            },
            None => STORED.stamp(table, slot, key),
        }
    }

    fn read(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Option<Stamp> {
        match self.version(table, key) {
            Some(version) => {
                read_version(version, table, slot, columns, out)?;
                Some(self.stamp_of(version))
            }
            None => STORED.read(table, slot, key, columns, out),
        }
    }

    fn read_row(
        &self,
        table: &Table,
        slot: Option<Slot>,
        key: &Key,
        out: &mut Vec<Value>,
    ) -> Option<Stamp> {
        let Some(version) = self.version(table, key) else {
            return STORED.read_row(table, slot, key, out);
        };
        let columns: Vec<ColumnId> = (0..table.schema().columns.len() as ColumnId).collect();
        out.clear();
        out.resize(columns.len(), Value::Null);
        read_version(version, table, slot, &columns, out)?;
        Some(self.stamp_of(version))
    }

    fn scan<V>(
        &self,
        table: &Table,
        range: &Range,
        columns: &[ColumnId],
        visit: V,
    ) -> Result<ControlFlow<()>, Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        if !self.any_before {
            return STORED.scan(table, range, columns, visit);
        }
        let changed = self.changed(table, range, columns)?;
        if changed.rows.is_empty() || !self.scans_see_versions {
            return STORED.scan(table, range, columns, visit);
        }
        let key_columns = index_columns(table, range.index);
        let wanted: Vec<ColumnId> = columns.iter().chain(&key_columns).copied().collect();
        let mut merge = Merge::new(changed, range, visit);
        let flow = STORED.scan(table, range, &wanted, |key, stamp, values| {
            let (shown, indexed) = values.split_at(columns.len());
            let entry = index_key(table, range.index, key, |column| {
                let at = key_columns.iter().position(|&c| c == column);
                &indexed[at.expect("key columns are read with the row")]
            })?;
            merge.stored(&entry, key, stamp, shown)
        })?;
        if flow.is_break() { Ok(flow) } else { merge.rest() }
    }
}

/// A row that the block has made, on its way to a scan.
struct Made {
    entry: Key,
    key: Key,
    stamp: Stamp,
    values: Vec<Value>,
}

/// What the block has made of a table, as one transaction sees it.
#[derive(Default)]
struct Changed {
    /// By primary key; `None`: nothing in the range.
    rows: BTreeMap<Key, Option<Made>>,
}

impl Sight {
    fn changed(&self, table: &Table, range: &Range, columns: &[ColumnId]) -> Result<Changed, Stop> {
        let mut changed = Changed::default();
        let key_columns = index_columns(table, range.index);
        let wanted: Vec<ColumnId> = columns.iter().chain(&key_columns).copied().collect();
        let mut values = vec![Value::Null; wanted.len()];
        for version in self.versions.all_before(self.at, table.id()) {
            let stamp = self.stamp_of(version);
            if let State::Added(into, rows) = version.made() {
                for (key, row) in rows.iter().filter(|_| *into == table.id()) {
                    for (value, &column) in values.iter_mut().zip(&wanted) {
                        *value = row[usize::from(column)].clone();
                    }
                    changed.add(table, range, &key_columns, key, Some((stamp, &values)))?;
                }
            } else if let Some(access) = self.versions.key(version) {
                let slot = table.find(access.key.as_bytes());
                let row = read_version(version, table, slot, &wanted, &mut values);
                let row = row.map(|()| (stamp, &*values));
                changed.add(table, range, &key_columns, &access.key, row)?;
            }
        }
        Ok(changed)
    }
}

impl Changed {
    /// `values` are those that the scan shows, then those of the index.
    fn add(
        &mut self,
        table: &Table,
        range: &Range,
        key_columns: &[ColumnId],
        key: &Key,
        row: Option<(Stamp, &[Value])>,
    ) -> Result<(), Stop> {
        let Some((stamp, values)) = row else {
            self.rows.insert(key.clone(), None);
            return Ok(());
        };
        let (shown, indexed) = values.split_at(values.len() - key_columns.len());
        let entry = index_key(table, range.index, key, |column| {
            let at = key_columns.iter().position(|&c| c == column);
            &indexed[at.expect("key columns are read with the row")]
        })?;
        let made = covers(range, entry.as_bytes()).then(|| Made {
            entry,
            key: key.clone(),
            stamp,
            values: shown.to_vec(),
        });
        self.rows.insert(key.clone(), made);
        Ok(())
    }
}

/// Stored rows and the block's, in index order.
struct Merge<V> {
    /// Keys whose stored rows are of the past.
    hidden: Vec<Key>,
    /// The next one last.
    made: Vec<Made>,
    reverse: bool,
    visit: V,
}

impl<V> Merge<V>
where
    V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
{
    fn new(changed: Changed, range: &Range, visit: V) -> Merge<V> {
        let hidden = changed.rows.keys().cloned().collect();
        let mut made: Vec<Made> = changed.rows.into_values().flatten().collect();
        made.sort_by(|a, b| b.entry.cmp(&a.entry));
        if range.reverse {
            made.reverse();
        }
        Merge { hidden, made, reverse: range.reverse, visit }
    }

    fn stored(
        &mut self,
        entry: &Key,
        key: &Key,
        stamp: Stamp,
        values: &[Value],
    ) -> Result<ControlFlow<()>, Stop> {
        let reverse = self.reverse;
        let is_due = |made: &Made| match reverse {
            true => made.entry > *entry,
            false => made.entry < *entry,
        };
        while self.made.last().is_some_and(is_due) {
            if self.next_made()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        match self.hidden.binary_search(key) {
            Ok(_) => Ok(ControlFlow::Continue(())),
            Err(_) => (self.visit)(key, stamp, values),
        }
    }

    fn next_made(&mut self) -> Result<ControlFlow<()>, Stop> {
        match self.made.pop() {
            Some(made) => (self.visit)(&made.key, made.stamp, &made.values),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// What is after the last stored row.
    fn rest(mut self) -> Result<ControlFlow<()>, Stop> {
        while !self.made.is_empty() {
            if self.next_made()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
