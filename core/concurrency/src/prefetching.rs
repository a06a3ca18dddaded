//! Fetching records before they are asked for.
//!
//! Where tables are larger than the processor's caches, a transaction spends most of its time
//! waiting for two lines of memory for each key, one after the other: the entry of the hash index,
//! then the record. The key plan tells the keys before the transaction runs, so the waits of
//! several transactions can overlap:
//!
//! ```text
//!   plan keys of 4 transactions ─► fetch their index entries ─► fetch their records ─► run the 4
//! ```
//!
//! It is a hint: nothing depends on whether it is right, or taken at all.
//!
//! *Cost.* Evaluating a plan takes a good part of the time of a short transaction on cached data;
//! so small databases and small blocks go without. Measured on tables of 10 to 70 MB, transactions
//! per CPU-second against the same without: SmallBank +15 to 20 %, YCSB +5 to 18 %, TPC-B, where
//! one key in four is cold, nothing. The look-up's share of a YCSB transaction falls from 40 to 9
//! %.

use std::sync::Arc;

use procedure::analysis::{Hints, KeyPlan, Planning};
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use storage::{Catalog, Place};
use types::{Key, TableId, Value};

use crate::accesses::KeyAccess;
use crate::work::{Statement, Work};

/// Transactions whose fetches overlap.
pub const GROUP: usize = 8;

/// Rows that fill a good part of the last cache.
const ROW_BYTES_MIN: u64 = 16 << 20;

/// Blocks over which the making of plans is spread too thin.
const TRANSACTIONS_MIN: usize = 64;

/// Key plans of a block's procedures, by address: the block keeps them alive.
#[derive(Default)]
pub struct Plans {
    plans: FxHashMap<*const Procedure, KeyPlan>,
}

impl Plans {
    pub fn of(&mut self, procedure: &Arc<Procedure>) -> &KeyPlan {
        self.plans.entry(Arc::as_ptr(procedure)).or_insert_with(|| KeyPlan::of(procedure))
    }
}

pub struct Prefetching {
    catalog: Arc<Catalog>,
    pays: bool,
    /// By address, as [`Plans`] has them: what of a plan tells its keys.
    hints: FxHashMap<*const Procedure, Hints>,
    planning: Planning,
    /// What the group's keys hash to.
    places: Vec<(TableId, Place)>,
}

impl Prefetching {
    pub fn new(catalog: Arc<Catalog>, transactions: usize) -> Prefetching {
        let row_bytes = |c: &Catalog| -> u64 { c.tables().map(|t| t.usage().row_bytes).sum() };
        let pays = transactions >= TRANSACTIONS_MIN && row_bytes(&catalog) >= ROW_BYTES_MIN;
        Prefetching {
            catalog,
            pays,
            hints: FxHashMap::default(),
            planning: Planning::default(),
            places: Vec::new(),
        }
    }

    /// Fetch what a group of transactions, about to run, will probably look at.
    pub fn fetch<'w>(&mut self, group: impl IntoIterator<Item = &'w Work>) {
        if !self.pays {
            return;
        }
        self.places.clear();
        for work in group {
            if let Work::Statement(statement) = work {
                self.plan(statement);
            }
        }
        self.fetch_records();
    }

    /// Fetch records whose keys are known already.
    pub fn fetch_keys<'k>(&mut self, keys: impl Iterator<Item = &'k KeyAccess>) {
        if !self.pays {
            return;
        }
        self.places.clear();
        for access in keys {
            self.look(access.table, &access.key);
        }
        self.fetch_records();
    }

    /// Fetch what calls will probably look at by plans that the caller has.
    pub fn fetch_calls<'c>(&mut self, calls: impl IntoIterator<Item = (&'c KeyPlan, &'c [Value])>) {
        if !self.pays {
            return;
        }
        self.places.clear();
        for (plan, arguments) in calls {
            if plan.evaluate(arguments, &mut self.planning).is_ok() {
                self.look_at_planned();
            }
        }
        self.fetch_records();
    }

    fn plan(&mut self, statement: &Statement) {
        let procedure = &statement.procedure;
        let hints = self.hints.entry(Arc::as_ptr(procedure));
        let hints = hints.or_insert_with(|| Hints::of(&KeyPlan::of(procedure)));
        hints.evaluate(&statement.arguments, &mut self.planning);
        self.look_at_planned();
    }

    fn look_at_planned(&mut self) {
        let keys = std::mem::take(&mut self.planning.found.keys);
        for planned in &keys {
            self.look(planned.table, &planned.key);
        }
        self.planning.found.keys = keys;
    }

    /// Fetch the index entry of a key, and keep its place in mind.
    fn look(&mut self, table: TableId, key: &Key) {
        if let Some(of_table) = self.catalog.table(table) {
            let place = of_table.place(key.as_bytes());
            of_table.prefetch(place);
            self.places.push((table, place));
        }
    }

    fn fetch_records(&self) {
        for (table, place) in &self.places {
            if let Some(table) = self.catalog.table(*table) {
                table.prefetch_record(*place);
            }
        }
    }
}
