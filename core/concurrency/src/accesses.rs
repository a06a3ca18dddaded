//! What a transaction may touch, told before it runs: what Calvin locks, BOHM puts placeholders
//! for and ChainifyDB draws its graph from.
//!
//! ```text
//!   keys follow from the arguments      ─► Planned     the key plan, evaluated
//!   keys follow from what it reads      ─► Predicted   reconnaissance: run on a snapshot
//!   neither (too many, or it broke off) ─► Unknown     its tables are all that is known
//! ```
//!
//! A plan is a superset of what the run touches. A prediction is right as long as what the
//! reconnaissance read does not change; a protocol that uses it must see to that, or
//! [check](crate::reconnaissance) every access.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use procedure::access::Range;
use procedure::analysis::{AccessMode, Footprint, Planning};
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::Catalog;
use types::{Height, Key, Position, TableId, Value};

use crate::pending::RecordId;
use crate::pool::WorkerPool;
use crate::prefetching::Plans;
use crate::protocol::Block;
use crate::reconnaissance::Scout;
use crate::work::Work;

/// More than these are not told one by one.
pub const KEYS_MAX: usize = 4096;

/// Transactions that a worker declares at a time.
const CHUNK: usize = 16;

/// One row that may be touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyAccess {
    pub table: TableId,
    /// By the key alone, whether or not the row is there.
    pub record: RecordId,
    pub key: Key,
    /// Update, insert or delete.
    pub writes: bool,
}

impl KeyAccess {
    pub fn new(table: TableId, key: Key, writes: bool) -> KeyAccess {
        KeyAccess { table, record: RecordId::of(None, &key), key, writes }
    }
}

/// In the order in which they were found, with repetitions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Accesses {
    pub keys: Vec<KeyAccess>,
    /// Value reads.
    pub ranges: Vec<Range>,
    /// Tables that may get rows under hidden row ids: only scans can meet those.
    pub appends: SmallVec<[TableId; 1]>,
}

impl Accesses {
    /// Tables that may be touched, with repetitions.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        let keys = self.keys.iter().map(|key| key.table);
        keys.chain(self.ranges.iter().map(|range| range.table)).chain(self.appends.iter().copied())
    }

    pub(crate) fn append(&mut self, table: TableId) {
        if !self.appends.contains(&table) {
            self.appends.push(table);
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Declared {
    /// Nothing else, whatever the data.
    Planned(Accesses),
    /// What it touched on a snapshot.
    Predicted(Accesses),
    Unknown,
}

impl Declared {
    pub fn accesses(&self) -> Option<&Accesses> {
        match self {
            Declared::Planned(accesses) | Declared::Predicted(accesses) => Some(accesses),
            Declared::Unknown => None,
        }
    }
}

struct Declaring {
    block: Arc<Block>,
    positions: Vec<Position>,
    next: AtomicUsize,
    declared: Vec<OnceLock<Declared>>,
}

/// What each of the transactions at `positions` may touch; reconnaissance runs at `at`. In
/// parallel.
pub fn declare(
    block: &Arc<Block>,
    positions: &[Position],
    catalog: &Arc<Catalog>,
    at: Height,
    pool: &WorkerPool,
) -> Vec<Declared> {
    let declaring = Arc::new(Declaring {
        block: Arc::clone(block),
        positions: positions.to_vec(),
        next: AtomicUsize::new(0),
        declared: positions.iter().map(|_| OnceLock::new()).collect(),
    });
    let job = (Arc::clone(&declaring), Arc::clone(catalog));
    pool.run_if_large(positions.len(), move |_| {
        let (declaring, catalog) = &job;
        declaring.work(Declarer::new(Arc::clone(catalog), at));
    });
    let declaring = Arc::into_inner(declaring).expect("the pool has let go of a finished job");
    let declared = declaring.declared.into_iter();
    declared.map(|one| one.into_inner().expect("every transaction is declared")).collect()
}

impl Declaring {
    fn work(&self, mut declarer: Declarer) {
        loop {
            let first = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            let end = self.positions.len().min(first + CHUNK);
            if first >= end {
                return;
            }
            for at in first..end {
                let declared = declarer.declare(&self.block, self.positions[at]);
                self.declared[at].set(declared).expect("a number is drawn once");
            }
        }
    }
}

/// Evaluates key plans, and sends out a scout where they do not suffice.
struct Declarer {
    plans: Plans,
    planning: Planning,
    scout: Scout,
}

impl Declarer {
    fn new(catalog: Arc<Catalog>, at: Height) -> Declarer {
        Declarer {
            plans: Plans::default(),
            planning: Planning::default(),
            scout: Scout::new(catalog, at),
        }
    }

    fn declare(&mut self, block: &Block, position: Position) -> Declared {
        let mut planned = Accesses::default();
        let work = &block.transactions[position as usize];
        match self.plan(work, &mut planned) {
            Some(()) => Declared::Planned(planned),
            None if is_long(work) => Declared::Unknown,
            None => match self.scout.predict(block, position) {
                Some(predicted) => Declared::Predicted(predicted),
                None => Declared::Unknown,
            },
        }
    }

    fn plan(&mut self, work: &Work, out: &mut Accesses) -> Option<()> {
        match work {
            Work::Void(_) => Some(()),
            Work::Load(load) if load.looks_at_answers() => None,
            Work::Load(load) => {
                let mut calls = load.calls().take(KEYS_MAX + 1);
                calls.try_for_each(|(procedure, row)| self.plan_call(procedure, row, out))
            }
            Work::Interactive(transaction) => {
                if is_long(work) {
                    return None;
                }
                let rows = transaction.rows.iter();
                out.keys.extend(rows.map(|r| KeyAccess::new(r.table, r.key.clone(), false)));
                out.ranges.extend(transaction.ranges.iter().map(|r| r.range.clone()));
                let mut writes = transaction.writes.iter();
                writes.try_for_each(|(write, _)| self.plan(write, out))
            }
            Work::Statement(call) => self.plan_call(&call.procedure, &call.arguments, out),
        }
    }

    fn plan_call(
        &mut self,
        procedure: &Arc<Procedure>,
        arguments: &[Value],
        out: &mut Accesses,
    ) -> Option<()> {
        let plan = self.plans.of(procedure);
        if !plan.is_complete() || out.keys.len() > KEYS_MAX {
            return None;
        }
        plan.evaluate(arguments, &mut self.planning).ok()?;
        let found = &mut self.planning.found;
        out.keys.extend(found.keys.drain(..).map(|planned| {
            KeyAccess::new(planned.table, planned.key, planned.mode == AccessMode::Write)
        }));
        out.ranges.extend(found.ranges.drain(..).map(|(_, range)| range));
        plan.appends.iter().for_each(|&table| out.append(table));
        (out.keys.len().max(out.ranges.len()) <= KEYS_MAX).then_some(())
    }
}

/// Touches so much that to run it twice, or to tell its keys, is not worth it.
fn is_long(work: &Work) -> bool {
    match work {
        Work::Load(load) => load.rows.len() > KEYS_MAX,
        Work::Interactive(t) => t.rows.len().max(t.ranges.len()) > KEYS_MAX,
        Work::Statement(_) | Work::Void(_) => false,
    }
}

/// The tables of a block's procedures, by address: the block keeps them alive.
#[derive(Default)]
pub struct Tables {
    tables: FxHashMap<*const Procedure, Arc<[TableId]>>,
}

impl Tables {
    /// Every table that `work` may touch, whatever the data; with repetitions.
    pub fn of(&mut self, work: &Work) -> SmallVec<[TableId; 8]> {
        let mut tables = SmallVec::new();
        self.add(work, &mut tables);
        tables
    }

    fn add(&mut self, work: &Work, out: &mut SmallVec<[TableId; 8]>) {
        match work {
            Work::Void(_) => {}
            Work::Statement(call) => out.extend_from_slice(self.of_procedure(&call.procedure)),
            Work::Load(load) => {
                load.procedures().for_each(|p| out.extend_from_slice(self.of_procedure(p)));
            }
            Work::Interactive(transaction) => {
                out.extend(transaction.rows.iter().map(|row| row.table));
                out.extend(transaction.ranges.iter().map(|range| range.range.table));
                transaction.writes.iter().for_each(|(write, _)| self.add(write, out));
            }
        }
    }

    fn of_procedure(&mut self, procedure: &Arc<Procedure>) -> &[TableId] {
        self.tables
            .entry(Arc::as_ptr(procedure))
            .or_insert_with(|| Footprint::of_block(&procedure.body).tables.into_keys().collect())
    }
}
