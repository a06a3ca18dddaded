//! Ledgers of workloads, with row logs beside them. Each of the users takes some of it.
#![allow(dead_code)]
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::checkpoint::{Checkpointer, State};
use engine::{
    Body, EXECUTOR, Fault, Language, Numbering, Recovery, Replayed, Replica, RowFolders,
    recover_by, resume_writing,
};
use ledger::{
    BlockReader, BlockWriter, Files, Genesis, Hash, LedgerId, LogOptions, MemoryFiles, Parameters,
    Recorded,
};
use recovery::schemes::Scheme;
use recovery::schemes::row_logs::{RowLogOptions, RowLoggers};
use sql::session::schema::Schema;
use storage::Store;
use workloads::{Settings, Workload};

pub const SEED: u64 = 11;
pub const LEDGER_ID: LedgerId = [7; 16];

/// A ledger that is being written, with any number of row logs.
pub struct Ledgered {
    pub files: Arc<dyn Files>,
    pub replica: Replica,
    pub log: BlockWriter,
    numbering: Numbering,
    loggers: Vec<RowLoggers>,
    /// What executing blocks took so far, sealing included and the disk not.
    pub executing: Duration,
}

pub fn options() -> LogOptions {
    LogOptions { zero_fill_bytes: 4096, ..LogOptions::default() }
}

pub fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Schema::new())
}

/// Row logs of one scheme, in memory.
pub fn folders(scheme: Scheme, loggers: usize) -> (RowFolders, Vec<MemoryFiles>) {
    let files: Vec<MemoryFiles> = (0..loggers).map(|_| MemoryFiles::new()).collect();
    (folders_of(scheme, &files), files)
}

pub fn folders_of(scheme: Scheme, files: &[MemoryFiles]) -> RowFolders {
    let folders = files.iter().map(|files| Arc::new(files.clone()) as Arc<dyn Files>).collect();
    RowFolders { scheme, folders }
}

/// Its headers name state roots.
pub fn genesis(protocol: &str) -> Genesis {
    let mut genesis = genesis_without_roots(protocol);
    genesis.parameters.others.insert("state_root".into(), "1".into());
    genesis
}

pub fn genesis_without_roots(protocol: &str) -> Genesis {
    multiversion::register();
    let parameters = Parameters::new(protocol);
    Genesis { ledger_id: LEDGER_ID, time_us: 0, parameters, executor: EXECUTOR }
}

pub fn begin(files: &Arc<dyn Files>, protocol: &str) -> BlockWriter {
    BlockWriter::begin(Arc::clone(files), &genesis(protocol), options()).unwrap()
}

/// All blocks of a ledger, genesis first.
pub fn blocks_of(files: &Arc<dyn Files>) -> Vec<Recorded> {
    let mut reader = BlockReader::open(Arc::clone(files)).unwrap();
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

pub fn recovered(files: &Arc<dyn Files>, recovery: &Recovery) -> Result<Replayed, Fault> {
    recover_by(Arc::clone(files), &language, recovery, &mut |_| ())
}

pub fn executing(workers: usize) -> Recovery {
    Recovery { workers, ..Recovery::default() }
}

/// Of rows with their stamps, the schema and the parameters.
pub fn digest_of(replica: &Replica) -> Hash {
    State::of(replica).and_then(|state| state.digest()).unwrap()
}

pub fn workload(name: &str, settings: &[(&str, u64)]) -> Box<dyn Workload> {
    let given = settings.iter().fold(Settings::default(), |s, (name, value)| s.with(name, value));
    workloads::by_name(name).unwrap().make(&given).unwrap()
}

/// Calls of a workload, always the same.
pub fn calls(workload: &dyn Workload) -> impl Iterator<Item = Body> {
    let names = workload.procedures();
    workload.calls(SEED).map(move |call| Body::call(names[call.procedure], call.arguments))
}

impl Ledgered {
    pub fn new(
        files: Arc<dyn Files>,
        protocol: &str,
        workers: usize,
        rows: &[RowFolders],
    ) -> Ledgered {
        drop(begin(&files, protocol));
        let Replayed { replica, reader, unrecorded, .. } =
            recovered(&files, &executing(workers)).unwrap();
        let log = resume_writing(reader, &unrecorded, options()).unwrap();
        let resume = |of| RowLoggers::resume(of, log.next_height(), RowLogOptions::default());
        let loggers = rows.iter().map(|of| resume(of).unwrap()).collect();
        let (numbering, executing) = (Numbering::new(LEDGER_ID), Duration::ZERO);
        Ledgered { files, replica, log, numbering, loggers, executing }
    }

    /// Tables, procedures and rows.
    pub fn load(&mut self, workload: &dyn Workload) {
        for statement in sql::parse(&workload.schema()).unwrap() {
            self.block(vec![Body::Schema { text: statement.text }]);
        }
        for fill in workload.fills() {
            for rows in fill.batches(10_000) {
                self.block(vec![Body::load(&fill.copy, rows)]);
            }
        }
    }

    pub fn checkpoint(&mut self) {
        // A start begins after a block whose result is there.
        self.log.sync_results().unwrap();
        let mut checkpointer = Checkpointer::new(Arc::clone(&self.files), 2, None, &[]);
        checkpointer.take(&State::of(&self.replica).unwrap(), &mut |_| Ok(())).unwrap();
        let height = self.replica.head().height;
        for loggers in &self.loggers {
            loggers.begin_segments();
            loggers.cut(height);
        }
    }

    pub fn run(&mut self, workload: &dyn Workload, blocks: usize, transactions: usize) {
        let mut calls = calls(workload);
        for _ in 0..blocks {
            self.block(calls.by_ref().take(transactions).collect());
        }
    }

    pub fn block(&mut self, bodies: Vec<Body>) {
        let time_us = self.replica.head().height as i64;
        let numbering = &mut self.numbering;
        let requests = bodies.iter().map(|body| numbering.request("tally", time_us, body).unwrap());
        let requests = requests.collect();
        let start = Instant::now();
        let executed = self.replica.execute(time_us, requests).unwrap();
        self.executing += start.elapsed();
        self.log.append_order(&[executed.batch.encode().unwrap()]).unwrap();
        if let Some(changes) = executed.effects.only_rows() {
            for loggers in &mut self.loggers {
                loggers.begin(&executed.batch.hash(), changes).unwrap();
                loggers.wait().unwrap();
            }
        }
        self.replica.publish();
        self.log.append_results(&[executed.result.encode().unwrap()]).unwrap();
        drop(executed);
        self.replica.store().collect();
    }

    /// Between two blocks: whatever loggers were told has been done when this returns.
    pub fn end_row_logs(&mut self) {
        self.loggers.clear();
    }
}
