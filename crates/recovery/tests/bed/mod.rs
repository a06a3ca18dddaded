//! Workloads with their tables and rows, blocks of their calls, and logs of these. Each of the tests
//! uses some of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::{Block, Crew, Outcome, Protocol, Statement, Work};
use engine::{Body, Input, Replica, Transaction};
use ledger::{Genesis, Parameters};
use procedure::step::Procedure;
use recovery::log::{LoggedBlock, RowWrite};
use sql::session::schema::Schema;
use storage::{Snapshot, Store};
use types::{Key, Stamp, TableId, TableSchema, Value};
use workloads::{Settings, Workload};

pub struct Bed {
    pub replica: Replica,
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
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 0, parameters: Parameters::new("serial") };
        let language = Arc::new(Schema::new());
        let mut replica = Replica::new(&genesis, Arc::new(Store::new()), language, 1).unwrap();
        for statement in sql::parse(&workload.schema()).unwrap() {
            submit(&mut replica, Body::Schema { text: statement.text });
        }
        let tables = replica.store().tables();
        let tables = tables.iter().map(|table| Arc::clone(table.schema())).collect();
        let programs = workload.programs(&tables).unwrap().into_iter().map(Arc::new).collect();
        Bed { replica, workload, programs }
    }

    fn filled(mut self) -> Bed {
        for fill in self.workload.fills() {
            for rows in fill.batches(10_000) {
                submit(&mut self.replica, Body::Load { text: fill.copy.clone(), rows });
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

    /// Blocks of the workload's calls, run under a protocol.
    pub fn run(
        &self,
        protocol: &dyn Protocol,
        crew: &Crew,
        blocks: usize,
        transactions: usize,
    ) -> Vec<LoggedBlock> {
        let mut calls = self.workload.calls(11);
        let first = self.store().newest() + 1;
        let heights = first..first + blocks as u64;
        let mut run_one = |height| {
            let calls = calls.by_ref().take(transactions);
            let works = calls.map(|call| {
                let procedure = Arc::clone(&self.programs[call.procedure]);
                Arc::new(Work::Statement(Statement { procedure, arguments: call.arguments }))
            });
            let transactions = works.collect();
            let block = Arc::new(Block { height, time_us: height as i64, transactions });
            run_block(self.store(), protocol, crew, block)
        };
        heights.map(&mut run_one).collect()
    }
}

/// One block under a protocol; it is published.
pub fn run_block(
    store: &Arc<Store>,
    protocol: &dyn Protocol,
    crew: &Crew,
    block: Arc<Block>,
) -> LoggedBlock {
    let height = block.height;
    let mut writes = store.begin_block(height, crew.workers());
    let prepared = protocol.prepare(&block, store, height - 1, crew).unwrap();
    let outcome = protocol.finish(prepared, &block, store, &mut writes, crew).unwrap();
    store.finish_unread(writes);
    store.publish(height);
    LoggedBlock::new(block, &outcome)
}

fn submit(replica: &mut Replica, body: Body) {
    let payload = Transaction { user: "tally".to_owned(), body }.encode();
    let executed = replica.execute(0, vec![Input { payload, compiled: None }]).unwrap();
    replica.publish();
    assert!(matches!(executed.outcomes[..], [Outcome::Committed(_)]), "{:?}", executed.outcomes);
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
