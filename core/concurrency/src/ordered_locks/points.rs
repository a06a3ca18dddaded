//! Ranges as locks on points.
//!
//! A scan conflicts with a write whose row is in its range before or after the write. All writes
//! that were declared are known before anything is locked, so a lock on a range is a shared lock on
//! each record that a transaction declared to write and whose row may be in the range: finitely
//! many, often none, and the queues need know of nothing but records.
//!
//! ```text
//!   range [k3, k7)          k1   k4   k5       k9      declared writes
//!                                S    S                locked by the scan
//! ```
//!
//! *Primary keys* do not move, so the declared keys are sorted once and a range finds its part of
//! them by two binary searches. *Rows under hidden ids* have no key yet: they count as one point
//! for each transaction that adds some, in every range. *Secondary indexes*: where no transaction
//! inserts, deletes or assigns an indexed column, the entry that a row has now is the one that it
//! keeps, and the entries are sorted as keys are. Otherwise every written record of the table may
//! be in every range of the index.

use std::sync::Arc;

use procedure::access::Range;
use procedure::analysis::{Footprint, TableFootprint};
use procedure::step::Procedure;
use rustc_hash::{FxHashMap, FxHashSet};
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, IndexId, Key, TableId, Value};

use super::queues::LockId;
use crate::accesses::{Declared, KeyAccess};
use crate::overlay::{index_columns, index_key, place_in};
use crate::work::Work;

/// Sorted by key or entry.
type Sorted = Vec<(Key, LockId)>;

/// Every record of the scanned tables that a transaction declared to write.
#[derive(Default)]
pub struct Points {
    tables: FxHashMap<TableId, TablePoints>,
}

#[derive(Default)]
struct TablePoints {
    /// By primary key.
    keys: Sorted,
    appends: Vec<LockId>,
    /// By entry; `None`: entries may move, so that nothing is known of them.
    secondary: FxHashMap<IndexId, Option<Sorted>>,
}

impl Points {
    /// The state is that before the first of `works`.
    pub fn of(declared: &[Declared], works: &[Arc<Work>], catalog: &Catalog) -> Points {
        let mut points = Points::default();
        let mut indexes = Vec::new();
        for range in declared.iter().filter_map(Declared::accesses).flat_map(|a| &a.ranges) {
            points.tables.entry(range.table).or_default();
            if range.index != 0 && !indexes.contains(&(range.table, range.index)) {
                indexes.push((range.table, range.index));
            }
        }
        if points.tables.is_empty() {
            return points;
        }
        for (at, declared) in declared.iter().enumerate() {
            if let Some(accesses) = declared.accesses() {
                points.add(at as u32, &accesses.keys, &accesses.appends);
            }
        }
        for table in points.tables.values_mut() {
            table.keys.sort_unstable();
            table.keys.dedup();
        }
        points.add_indexes(&indexes, works, catalog);
        points
    }

    fn add(&mut self, at: u32, keys: &[KeyAccess], appends: &[TableId]) {
        for access in keys.iter().filter(|access| access.writes) {
            if let Some(table) = self.tables.get_mut(&access.table) {
                table.keys.push((access.key.clone(), LockId::of_key(access)));
            }
        }
        for id in appends {
            if let Some(table) = self.tables.get_mut(id) {
                table.appends.push(LockId::of_append(*id, at));
            }
        }
    }

    fn add_indexes(
        &mut self,
        indexes: &[(TableId, IndexId)],
        works: &[Arc<Work>],
        catalog: &Catalog,
    ) {
        if indexes.is_empty() {
            return;
        }
        let movers = Movers::of(works);
        for &(id, index) in indexes {
            let (Some(table), Some(points)) = (catalog.table(id), self.tables.get_mut(&id)) else {
                continue;
            };
            let exists = usize::from(index) <= table.schema().indexes.len();
            let still = exists && !movers.move_entries(id, &index_columns(table, index));
            let sorted = still.then(|| points.entries(table, index)).flatten();
            points.secondary.insert(index, sorted);
        }
    }

    /// Call `lock` with every point that may be in `range`.
    pub fn each(&self, range: &Range, mut lock: impl FnMut(LockId)) {
        let Some(table) = self.tables.get(&range.table) else {
            return;
        };
        table.in_range(range).iter().for_each(|(_, id)| lock(*id));
        table.appends.iter().copied().for_each(lock);
    }

    /// How many those are.
    pub fn count(&self, range: &Range) -> usize {
        let table = self.tables.get(&range.table);
        table.map_or(0, |table| table.in_range(range).len() + table.appends.len())
    }
}

impl TablePoints {
    fn in_range(&self, range: &Range) -> &[(Key, LockId)] {
        let sorted = match range.index {
            0 => Some(&self.keys),
            index => self.secondary.get(&index).and_then(Option::as_ref),
        };
        sorted.map_or(&self.keys, |sorted| &sorted[place_in(sorted, range)])
    }

    /// Written records by the entries that their rows have now. `None`: one cannot be told.
    fn entries(&self, table: &Table, index: IndexId) -> Option<Sorted> {
        let columns = index_columns(table, index);
        let mut values = vec![Value::Null; columns.len()];
        let mut entries = Sorted::with_capacity(self.keys.len());
        for (key, id) in &self.keys {
            let slot = table.find(key.as_bytes());
            if slot.and_then(|slot| table.read(slot, LATEST, &columns, &mut values)).is_none() {
                // The block inserts nothing in this table, so there will be no row.
                continue;
            }
            let value = |column| columns.iter().position(|&c| c == column).map(|at| &values[at]);
            let entry =
                index_key(table, index, key, |column| value(column).unwrap_or(&Value::Null));
            entries.push((entry.ok()?, *id));
        }
        entries.sort_unstable();
        Some(entries)
    }
}

/// Which tables get or lose rows, and which columns are assigned, by any transaction.
#[derive(Default)]
struct Movers {
    seen: FxHashSet<*const Procedure>,
    tables: FxHashSet<TableId>,
    columns: FxHashSet<(TableId, ColumnId)>,
}

impl Movers {
    fn of(works: &[Arc<Work>]) -> Movers {
        let mut movers = Movers::default();
        works.iter().for_each(|work| movers.add(work));
        movers
    }

    fn add(&mut self, work: &Work) {
        match work {
            Work::Void(_) => {}
            Work::Statement(call) => self.add_procedure(&call.procedure),
            Work::Load(load) => load.procedures().for_each(|p| self.add_procedure(p)),
            Work::Interactive(transaction) => {
                transaction.writes.iter().for_each(|(write, _)| self.add(write));
            }
        }
    }

    fn add_procedure(&mut self, procedure: &Arc<Procedure>) {
        if !self.seen.insert(Arc::as_ptr(procedure)) {
            return;
        }
        for (id, TableFootprint { writes, inserts, deletes, .. }) in
            Footprint::of_block(&procedure.body).tables
        {
            if inserts || deletes {
                self.tables.insert(id);
            }
            self.columns.extend(writes.into_iter().map(|column| (id, column)));
        }
    }

    fn move_entries(&self, table: TableId, columns: &[ColumnId]) -> bool {
        self.tables.contains(&table) || columns.iter().any(|&c| self.columns.contains(&(table, c)))
    }
}
