//! Workloads with their tables and rows, blocks of their calls, and logs of these. Each of the
//! tests uses some of it.
#![allow(dead_code)]
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::{Block, Outcome, Protocol, Statement, Work, WorkerPool};
use engine::{Body, EXECUTOR, Numbering, Replica};
use ledger::{Genesis, LedgerId, Parameters};
use procedure::step::Procedure;
use recovery::log::{LoggedBlock, RowWrite};
use sql::session::schema::Schema;
use storage::{Changes, Snapshot, Store};
use types::{Key, Stamp, TableId, TableSchema, Value};
use workloads::{Settings, Workload};

pub const SEED: u64 = 11;
const LEDGER_ID: LedgerId = [7; 16];

pub struct Bed {
    pub replica: Replica,
    numbering: Numbering,
    pub workload: Box<dyn Workload>,
    pub programs: Vec<Arc<Procedure>>,
}

impl Bed {
    /// A workload's tables, filled.
    pub fn new(name: &str, settings: &[(&str, u64)]) -> Bed {
        let bed = Bed::empty(name, settings);
        bed.filled()
    }

    pub fn empty(name: &str, settings: &[(&str, u64)]) -> Bed {
        let given =
            settings.iter().fold(Settings::default(), |s, (name, value)| s.with(name, value));
        let workload = workloads::by_name(name).unwrap().make(&given).unwrap();
        let parameters = Parameters::new("serial");
        let executor = EXECUTOR;
        let genesis = Genesis { ledger_id: LEDGER_ID, time_us: 0, parameters, executor };
        let language = Arc::new(Schema::new());
        let mut replica = Replica::new(&genesis, Arc::new(Store::new()), language, 1).unwrap();
        let mut numbering = Numbering::new(LEDGER_ID);
        for statement in sql::parse(&workload.schema()).unwrap() {
            submit(&mut replica, &mut numbering, &Body::Schema { text: statement.text });
        }
        let tables = replica.store().tables();
        let tables = tables.iter().map(|table| Arc::clone(table.schema())).collect();
        let programs = workload.programs(&tables).unwrap().into_iter().map(Arc::new).collect();
        Bed { replica, numbering, workload, programs }
    }

    fn filled(mut self) -> Bed {
        for fill in self.workload.fills() {
            for rows in fill.batches(10_000) {
                let body = Body::load(&fill.copy, rows);
                submit(&mut self.replica, &mut self.numbering, &body);
            }
        }
        self
    }

    pub fn store(&self) -> &Arc<Store> {
        self.replica.store()
    }

    pub fn schemas(&self) -> Vec<Arc<TableSchema>> {
        self.store().tables().iter().map(|table| Arc::clone(table.schema())).collect()
    }

    /// Calls of the workload, always the same.
    pub fn works(&self, transactions: usize) -> Vec<Arc<Work>> {
        let calls = self.workload.calls(SEED).take(transactions);
        let works = calls.map(|call| {
            let procedure = Arc::clone(&self.programs[call.procedure]);
            Arc::new(Work::Statement(Statement { procedure, arguments: call.arguments }))
        });
        works.collect()
    }

    /// Blocks of the workload's calls, run under a protocol.
    pub fn run(
        &self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        blocks: usize,
        transactions: usize,
    ) -> Vec<LoggedBlock> {
        self.run_works(protocol, pool, self.works(blocks * transactions), transactions)
    }

    pub fn run_works(
        &self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        works: Vec<Arc<Work>>,
        transactions: usize,
    ) -> Vec<LoggedBlock> {
        let blocks = works.chunks(transactions).map(|works| {
            let height = self.store().newest() + 1;
            let transactions = works.to_vec();
            let block = Arc::new(Block::new(height, height as i64, transactions));
            run_block(self.store(), protocol, pool, block)
        });
        blocks.collect()
    }

    /// Serially, showing what each block changed.
    pub fn run_and_show(
        &self,
        blocks: usize,
        transactions: usize,
        show: &mut dyn FnMut(&Changes),
    ) -> Vec<LoggedBlock> {
        let (protocol, pool) = (protocols::by_name("serial").unwrap(), WorkerPool::new(1));
        let works = self.works(blocks * transactions);
        let blocks = works.chunks(transactions).map(|works| {
            let height = self.store().newest() + 1;
            let transactions = works.to_vec();
            let block = Arc::new(Block::new(height, height as i64, transactions));
            let (logged, changes) = run_to_see(self.store(), &protocol, &pool, block);
            show(&changes);
            logged
        });
        blocks.collect()
    }
}

/// One block under a protocol, and what it changed; it is published.
pub fn run_to_see(
    store: &Arc<Store>,
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    block: Arc<Block>,
) -> (LoggedBlock, Changes) {
    let (outcome, changes) = oracle::run_block(protocol, pool, store, &block).unwrap();
    (LoggedBlock::new(block, &outcome, &**protocol).unwrap(), changes)
}

/// One block under a protocol; it is published.
pub fn run_block(
    store: &Arc<Store>,
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    block: Arc<Block>,
) -> LoggedBlock {
    run_to_see(store, protocol, pool, block).0
}

fn submit(replica: &mut Replica, numbering: &mut Numbering, body: &Body) {
    let request = numbering.request("tally", 0, body).unwrap();
    let executed = replica.execute(0, vec![request]).unwrap();
    replica.publish();
    let outcome = &executed.decided[0].outcome;
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
}

/// The first difference between two states, stamps included.
pub fn same_rows(ours: &Store, theirs: &Store) -> Result<(), String> {
    for table in theirs.tables() {
        let (a, b) = (oracle::rows(ours, table.id()), oracle::rows(theirs, table.id()));
        if a != b {
            let first = a.iter().zip(&b).find(|(a, b)| a != b);
            let name = &table.schema().name;
            return Err(format!("{name}: {} rows, not {}; {first:?}", a.len(), b.len()));
        }
    }
    Ok(())
}

/// Rows of a table that a snapshot has and the newest state has not.
pub fn gone(before: &Snapshot, now: &Store, table: TableId) -> Vec<RowWrite> {
    let here: BTreeSet<Vec<u8>> =
        oracle::rows(now, table).into_iter().map(|(key, _, _)| key).collect();
    let mut gone = Vec::new();
    let mut look = |key: &[u8], _: Stamp, _: &[Value]| {
        if !here.contains(key) {
            gone.push(RowWrite { table, key: Key::from(key), row: None });
        }
        ControlFlow::Continue(())
    };
    if let Some(of_table) = before.table(table) {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        of_table.scan(0, low, high, false, before.height(), &[], &mut look);
    }
    gone
}
