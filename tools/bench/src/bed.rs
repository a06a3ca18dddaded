//! The test bed: a loaded database and the transactions that will run on it.
//!
//! Loading a million rows by COPY takes seconds, and every run wants a fresh database. So a
//! workload is loaded once, by blocks as a client would (the [`Source`]), and each run gets a copy:
//! a new replica runs the schema's statements, and the rows go straight from the one store to the
//! other, in key order, with the block of the last statement.
//!
//! ```text
//!   Source   schema blocks, COPY blocks                                 once for a workload
//!   Bed      schema blocks, rows copied table by table                  once for a run
//! ```
//!
//! Rows without a key of their own are copied with their hidden ids, which name the blocks that
//! loaded them. So a run's blocks have heights beyond those of the load: empty blocks come first.
//!
//! Nothing of a run is left to the next one: no undo version, no index entry of a deleted row, no
//! word that another protocol wrote into a record.

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use concurrency::{Outcome, Statement, Work};
use engine::{
    Body, Compiled, EXECUTOR, Executed, Language, Numbering, Replica, Request, Transaction,
};
use ledger::{BlockWriter, Files, Genesis, Hash, LedgerId, LogOptions, Parameters, RealFiles};
use procedure::step::Procedure;
use sha2::{Digest, Sha256};
use sql::session::schema::Schema;
use storage::{LATEST, Store, Table};
use types::{Height, Stamp, Value};

use workloads::{Call, Fill};

use crate::workload::{Newest, Programs, Workload};
use crate::{Cell, Plan};

const USER: &str = "tally";
const LEDGER_ID: LedgerId = [7; 16];
const ROWS_PER_LOAD: usize = 10_000;

/// Blocks are all of the same moment.
const TIME_US: i64 = 0;

/// A workload's tables with their rows.
pub struct Source {
    store: Arc<Store>,
    /// What makes the tables and the procedures.
    statements: Vec<String>,
}

impl Source {
    pub fn load(workload: &Workload) -> Result<Source> {
        let workload = workload.make(None)?;
        Source::of(&workload.schema(), &workload.fills())
    }

    /// Tables that SQL makes, and their rows.
    pub fn of(schema: &str, fills: &[Fill]) -> Result<Source> {
        let statements = sql::parse(schema)?;
        let statements: Vec<String> = statements.into_iter().map(|s| s.text).collect();
        let mut replica = replica("serial", 1)?.0;
        let mut numbering = Numbering::new(LEDGER_ID);
        for text in &statements {
            submit(
                &mut replica,
                &mut numbering,
                None,
                Body::Schema { text: text.clone() },
                |_| Ok(()),
            )?;
        }
        for fill in fills {
            for rows in fill.batches(ROWS_PER_LOAD) {
                let load = Body::load(&fill.copy, rows);
                submit(&mut replica, &mut numbering, None, load, |_| Ok(()))?;
            }
        }
        Ok(Source { store: Arc::clone(replica.store()), statements })
    }

    #[cfg(feature = "analytics")]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The tables, for an engine that keeps rows in a way of its own.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.store.tables()
    }

    /// The last block of the load: no hidden row id names a later one.
    fn height(&self) -> Height {
        self.store.newest()
    }

    /// Puts all rows into the same tables of another store, as a part of the block at `height`.
    fn copy_to(&self, store: &Store, height: Height) -> Result<()> {
        if height < self.height() {
            bail!("rows of block {} cannot be a part of block {height}", self.height());
        }
        let mut writes = store.begin_block(height, 1);
        for from in self.store.tables() {
            let Some(to) = store.table(from.id()) else {
                bail!("the schema did not make table {} again", from.schema().name);
            };
            let undo = writes.arena(0);
            each_row(&from, |key, row| {
                to.insert(key, row, Stamp::new(height, 0), undo);
                Ok(())
            })?;
        }
        store.finish_unread(writes);
        Ok(())
    }
}

pub struct Bed {
    pub replica: Replica,
    /// With durability: every block from genesis on, but for the rows that were copied.
    pub log: Option<Log>,
    language: Arc<Schema>,
    workload: Box<dyn workloads::Workload>,
    numbering: Numbering,
}

/// A call before it is put into an envelope.
pub struct Draft {
    body: Body,
    compiled: Compiled,
}

/// A ledger in a folder that goes with it.
pub struct Log {
    writer: BlockWriter,
    folder: tempfile::TempDir,
}

impl Log {
    fn begin(parent: &Path, options: LogOptions, genesis: &Genesis) -> Result<Log> {
        let folder = tempfile::Builder::new().prefix("tally-bench-").tempdir_in(parent)?;
        let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.path())?);
        let writer = BlockWriter::begin(files, genesis, options)?;
        Ok(Log { writer, folder })
    }

    /// Moves the ledger to another folder of the same file system, where it stays.
    pub fn keep(self, to: &Path) -> Result<()> {
        let Log { mut writer, folder } = self;
        writer.sync_orders()?;
        writer.sync_results()?;
        drop(writer);
        Ok(std::fs::rename(folder.keep(), to)?)
    }

    /// Returns when the block's order is on disk, and how many bytes it has.
    pub fn append_order(&mut self, executed: &Executed) -> Result<u64> {
        let record = executed.batch.encode()?;
        let bytes = record.payload().len() as u64;
        self.writer.append_order(&[record])?;
        Ok(bytes)
    }

    /// Waits for no disk, since it could be computed again.
    pub fn append_result(&mut self, executed: &Executed) -> Result<u64> {
        let record = executed.result.encode()?;
        let bytes = record.payload().len() as u64;
        self.writer.append_results(&[record])?;
        Ok(bytes)
    }
}

impl Bed {
    fn empty(
        workload: Box<dyn workloads::Workload>,
        protocol: &str,
        threads: usize,
        durability: Option<(&Path, LogOptions)>,
    ) -> Result<Bed> {
        let (replica, language, genesis) = replica(protocol, threads)?;
        let log = durability.map(|(folder, options)| Log::begin(folder, options, &genesis));
        let log = log.transpose()?;
        let numbering = Numbering::new(LEDGER_ID);
        Ok(Bed { replica, log, language, workload, numbering })
    }

    /// A fresh database with the source's tables and rows.
    pub fn copy(source: &Source, cell: &Cell, options: LogOptions) -> Result<Bed> {
        let workload = cell.workload.make(cell.theta)?;
        let folder = cell.durability.as_deref().map(|folder| (folder, options));
        // Without sealing the replica only makes the tables: it must not hold the snapshots that
        // its protocol would go on from.
        let protocol = if cell.sealing { &*cell.protocol } else { "serial" };
        let mut bed = Bed::empty(workload, protocol, cell.threads, folder)?;
        for (at, text) in source.statements.iter().enumerate() {
            let last = at + 1 == source.statements.len();
            if last {
                bed.pass(source.height().saturating_sub(1))?;
            }
            let schema = Body::Schema { text: text.clone() };
            let Bed { replica, numbering, log, .. } = &mut bed;
            submit(replica, numbering, log.as_mut(), schema, |replica| match last {
                true => source.copy_to(replica.store(), replica.head().height),
                false => Ok(()),
            })?;
        }
        Ok(bed)
    }

    /// Empty blocks up to this height.
    fn pass(&mut self, height: Height) -> Result<()> {
        while self.replica.head().height < height {
            let executed = self.replica.execute(TIME_US, Vec::new())?;
            if let Some(log) = &mut self.log {
                log.append_order(&executed)?;
                log.append_result(&executed)?;
            }
            self.replica.publish();
        }
        Ok(())
    }

    /// The calls to run, drawn from the plan's seed: the same for every protocol.
    fn calls(&self, plan: &Plan) -> impl Iterator<Item = Call> {
        self.workload.calls(plan.seed).take(plan.transactions)
    }

    fn programs(&self, programs: Programs) -> Result<Vec<Arc<Procedure>>> {
        match programs {
            Programs::Sql => {
                self.workload.procedures().iter().map(|name| self.compile(name)).collect()
            }
            Programs::Ir => {
                let tables = self.replica.store().tables();
                let tables = tables.iter().map(|table| Arc::clone(table.schema())).collect();
                Ok(self.workload.programs(&tables)?.into_iter().map(Arc::new).collect())
            }
        }
    }

    /// What a protocol is given.
    pub fn works(&self, plan: &Plan) -> Result<Vec<Arc<Work>>> {
        let programs = self.programs(plan.programs)?;
        Ok(self.calls(plan).map(|call| work_of(&programs, call)).collect())
    }

    /// Calls with their programs, compiled as sessions would have done.
    pub fn drafts(&self, plan: &Plan) -> Result<Vec<Draft>> {
        let programs = self.programs(plan.programs)?;
        let names = self.workload.procedures();
        let schema_version = self.language.schema_version();
        let draft = |call: Call| {
            let procedure = names[call.procedure].to_owned();
            let body = Body::call(procedure, call.arguments.clone());
            let compiled =
                Compiled { work: work_of(&programs, call), schema_version, agreed: false };
            Draft { body, compiled }
        };
        Ok(self.calls(plan).map(draft).collect())
    }

    /// The draft in an envelope of its own: a ledger runs each at most once.
    pub fn request(&mut self, draft: &Draft) -> Result<Request> {
        let request = self.numbering.request(USER, TIME_US, &draft.body)?;
        Ok(Request { compiled: Some(draft.compiled.clone()), ..request })
    }

    /// What a replica is given.
    pub fn requests(&mut self, plan: &Plan) -> Result<Vec<Request>> {
        let drafts = self.drafts(plan)?;
        drafts.iter().map(|draft| self.request(draft)).collect()
    }

    fn compile(&self, name: &str) -> Result<Arc<Procedure>> {
        let body = Body::call(name, Vec::new());
        match self.language.compile(Transaction {
            user: USER.to_owned(),
            settings: Vec::new(),
            seed: [0; 16],
            signers: Vec::new(),
            approvers: Vec::new(),
            body,
        })? {
            Work::Statement(statement) => Ok(statement.procedure),
            _ => bail!("not a procedure: {name}"),
        }
    }

    /// Whether the state is one that the workload can have led to.
    pub fn check(&self) -> Result<()> {
        Ok(self.workload.check(&Newest(self.replica.store()))?)
    }

    /// SHA-256 over all rows of all tables, by table and key.
    pub fn digest(&self) -> Result<Hash> {
        digest(self.replica.store())
    }
}

/// An empty database.
fn replica(protocol: &str, threads: usize) -> Result<(Replica, Arc<Schema>, Genesis)> {
    let parameters = Parameters::new(protocol);
    let genesis =
        Genesis { ledger_id: LEDGER_ID, time_us: TIME_US, parameters, executor: EXECUTOR };
    let language = Arc::new(Schema::new());
    let replica = Replica::new(&genesis, Arc::new(Store::new()), language.clone(), threads)?;
    Ok((replica, language, genesis))
}

/// One transaction in a block of its own, and something that is done before any other sees it.
fn submit(
    replica: &mut Replica,
    numbering: &mut Numbering,
    log: Option<&mut Log>,
    body: Body,
    also: impl FnOnce(&Replica) -> Result<()>,
) -> Result<()> {
    let request = numbering.request(USER, TIME_US, &body)?;
    let executed = replica.execute(TIME_US, vec![request])?;
    if let Some(log) = log {
        log.append_order(&executed)?;
        log.append_result(&executed)?;
    }
    also(replica)?;
    replica.publish();
    let store = replica.store();
    store.collect();
    let outcomes = executed.decided.iter().map(|decided| &decided.outcome);
    match outcomes.collect::<Vec<_>>()[..] {
        [Outcome::Committed(_)] => Ok(()),
        ref other => bail!("the workload cannot be set up: {other:?}"),
    }
}

fn work_of(programs: &[Arc<Procedure>], call: Call) -> Arc<Work> {
    let procedure = Arc::clone(&programs[call.procedure]);
    Arc::new(Work::Statement(Statement { procedure, arguments: call.arguments }))
}

/// Visits the rows of a table in the order of their keys.
fn each_row(table: &Table, mut visit: impl FnMut(&[u8], &[Value]) -> Result<()>) -> Result<()> {
    let columns: Vec<_> = (0..table.schema().columns.len() as u16).collect();
    let (low, high) = (Bound::Unbounded, Bound::Unbounded);
    let mut result = Ok(());
    table.scan(0, low, high, false, LATEST, &columns, &mut |key, _, row| {
        result = visit(key, row);
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    result
}

/// Each row as: table, length of the key, key, length of the image, image.
pub fn digest(store: &Store) -> Result<Hash> {
    let mut hasher = Sha256::new();
    let mut image = Vec::new();
    for table in store.tables() {
        let schema = table.schema();
        each_row(&table, |key, row| {
            image.clear();
            types::row::encode_row(&schema.columns, row, &mut image)?;
            hasher.update(schema.id.0.to_be_bytes());
            hasher.update((key.len() as u64).to_be_bytes());
            hasher.update(key);
            hasher.update((image.len() as u64).to_be_bytes());
            hasher.update(&image);
            Ok(())
        })?;
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use procedure::analysis::{Hints, KeyPlan};

    use super::*;

    /// What a run starts from is what a client would have loaded.
    #[test]
    fn a_copy_is_the_loaded_database() {
        for text in ["smallbank:rows=300", "ycsb:rows=300", "tpcc:customers=30:items=100"] {
            let workload: Workload = text.parse().unwrap();
            let source = Source::load(&workload).unwrap();
            let plan = Plan { workloads: vec![workload], ..Plan::default() };
            let bed = Bed::copy(&source, &plan.cells()[0], LogOptions::default()).unwrap();
            assert_eq!(bed.digest().unwrap(), digest(&source.store).unwrap());
            let rows = |store: &Store| -> u64 {
                store.tables().iter().map(|table| table.usage().records).sum()
            };
            assert!(rows(bed.replica.store()) >= 300);
            assert_eq!(rows(bed.replica.store()), rows(&source.store));
        }
    }

    /// Prefetching looks for the rows that the plans of calls find, and for each once.
    #[test]
    fn hints_find_what_plans_find() {
        for (text, fewer) in [
            ("smallbank:rows=300", false),
            ("ycsb:rows=300", false),
            ("tpcc:customers=30:items=100", true),
        ] {
            let workload: Workload = text.parse().unwrap();
            let source = Source::load(&workload).unwrap();
            let plan = Plan { workloads: vec![workload], transactions: 300, ..Plan::default() };
            let bed = Bed::copy(&source, &plan.cells()[0], LogOptions::default()).unwrap();
            let (mut planned, mut hinted) = (0, 0);
            for work in bed.works(&plan).unwrap() {
                let Work::Statement(Statement { procedure, arguments }) = &*work else {
                    panic!("a call is a statement");
                };
                let whole = KeyPlan::of(procedure);
                let keys = [whole.keys(arguments).unwrap(), Hints::of(&whole).keys(arguments)];
                planned += keys[0].len();
                hinted += keys[1].len();
                let rows = keys.map(|keys| {
                    let rows = keys.into_iter().map(|key| (key.table, key.key));
                    rows.collect::<BTreeSet<_>>()
                });
                // A program that ends early for its arguments' sake ends its plan, too.
                assert!(rows[0].is_subset(&rows[1]), "{}{arguments:?}", procedure.name);
                assert!(rows[1].len() <= rows[0].len() + 1, "{}{arguments:?}", procedure.name);
            }
            assert!(hinted <= planned && planned > 300, "{hinted} for {planned}");
            assert!(!fewer || hinted * 4 < planned * 3, "{hinted} for {planned}");
        }
    }

    /// Blocks that a run adds rows in are none of those that loaded rows.
    #[test]
    fn no_block_of_a_run_has_the_height_of_one_that_loaded_rows() {
        let workload: Workload = "tpcc:customers=10:items=10".parse().unwrap();
        let source = Source::load(&workload).unwrap();
        assert!(source.height() > source.statements.len() as Height, "loads have blocks as well");
        for sealing in [false, true] {
            let plan = Plan {
                workloads: vec![workload.clone()],
                sealing: vec![sealing],
                ..Plan::default()
            };
            let bed = Bed::copy(&source, &plan.cells()[0], LogOptions::default()).unwrap();
            assert!(bed.replica.store().newest() >= source.height());
            assert_eq!(bed.replica.head().height, bed.replica.store().newest());
        }
    }
}
