//! Ledgers of workloads, with row logs beside them. Each of the users takes some of it.
#![allow(dead_code)]
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::checkpoint::{Checkpointer, State};
use engine::{
    Body, Effects, Fault, Input, Language, Recovery, Replayed, Replica, RowFolders, Transaction,
    recover_by,
};
use ledger::{Files, Genesis, Hash, LogOptions, LogWriter, MemoryFiles, Parameters};
use recovery::schemes::Scheme;
use recovery::schemes::beside::{RowLogOptions, RowLoggers};
use sql::session::schema::Schema;
use storage::Store;
use workloads::{Settings, Workload};

pub const SEED: u64 = 11;

/// A ledger that is being written, with any number of row logs.
pub struct Ledgered {
    pub files: Arc<dyn Files>,
    pub replica: Replica,
    log: LogWriter,
    loggers: Vec<RowLoggers>,
    /// What executing blocks took so far, sealing included and the disk not.
    pub executing: Duration,
    deferred: Vec<Input>,
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

pub fn begin(files: &Arc<dyn Files>, protocol: &str) -> LogWriter {
    let parameters = Parameters::new(protocol);
    let genesis = Genesis { ledger_id: [7; 16], time_us: 0, parameters };
    LogWriter::begin(Arc::clone(files), &genesis, options()).unwrap()
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

impl Ledgered {
    pub fn new(
        files: Arc<dyn Files>,
        protocol: &str,
        workers: usize,
        rows: &[RowFolders],
    ) -> Ledgered {
        drop(begin(&files, protocol));
        let Replayed { replica, reader, .. } = recovered(&files, &executing(workers)).unwrap();
        let log = LogWriter::resume(reader, options()).unwrap();
        let resume = |of| RowLoggers::resume(of, log.next_height(), RowLogOptions::default());
        let loggers = rows.iter().map(|of| resume(of).unwrap()).collect();
        let (executing, deferred) = (Duration::ZERO, Vec::new());
        Ledgered { files, replica, log, loggers, executing, deferred }
    }

    /// Tables, procedures and rows.
    pub fn load(&mut self, workload: &dyn Workload) {
        for statement in sql::parse(&workload.schema()).unwrap() {
            self.block(vec![Body::Schema { text: statement.text }]);
        }
        for fill in workload.fills() {
            for rows in fill.batches(10_000) {
                self.block(vec![Body::Load { text: fill.copy.clone(), rows }]);
            }
        }
    }

    pub fn checkpoint(&self) {
        let mut checkpointer = Checkpointer::new(Arc::clone(&self.files), 2, None, &[]);
        checkpointer.take(&State::of(&self.replica).unwrap(), &mut |_| Ok(())).unwrap();
        let height = self.replica.head().height;
        for loggers in &self.loggers {
            loggers.begin_segments();
            loggers.cut(height);
        }
    }

    pub fn run(&mut self, workload: &dyn Workload, blocks: usize, transactions: usize) {
        let names = workload.procedures();
        let mut calls = workload.calls(SEED);
        for _ in 0..blocks {
            let call = |call: workloads::Call| Body::Call {
                procedure: names[call.procedure].to_owned(),
                arguments: call.arguments.to_vec(),
            };
            let bodies = calls.by_ref().take(transactions).map(call).collect();
            self.block(bodies);
        }
    }

    pub fn block(&mut self, bodies: Vec<Body>) {
        let alone = bodies.iter().any(|body| matches!(body, Body::Schema { .. }));
        let mut inputs = if alone { Vec::new() } else { std::mem::take(&mut self.deferred) };
        inputs.extend(bodies.into_iter().map(|body| {
            let payload = Transaction { user: "tally".into(), body }.encode();
            Input { payload, compiled: None }
        }));
        let time_us = self.replica.head().height as i64;
        let start = Instant::now();
        let mut executed = self.replica.execute(time_us, inputs).unwrap();
        self.executing += start.elapsed();
        self.log.append(&[executed.block.encode().unwrap()]).unwrap();
        if let Effects::Rows(changes) = &executed.effects {
            for loggers in &mut self.loggers {
                loggers.begin(&executed.hash, changes).unwrap();
                loggers.wait().unwrap();
            }
        }
        self.deferred.append(&mut executed.put_off);
        self.replica.publish();
        drop(executed);
        self.replica.store().collect();
    }

    /// Between two blocks: whatever loggers were told has been done when this returns.
    pub fn end_row_logs(&mut self) {
        self.loggers.clear();
    }
}
