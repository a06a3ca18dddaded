//! The test bed: a loaded database and the blocks that will run on it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use concurrency::{Outcome, Statement, Work};
use engine::{Body, Compiled, Input, Language, Replica, Transaction};
use ledger::{
    EncodedBlock, Files, Genesis, Hash, LogOptions, LogReader, LogWriter, Parameters, RealFiles,
};
use procedure::step::Procedure;
use sql::session::schema::Schema;
use storage::Store;
use types::Value;
use workloads::{Call, Workload};

use crate::workload::{Newest, Programs};
use crate::{Cell, Plan};

const USER: &str = "tally";
const ROWS_PER_LOAD: usize = 10_000;

pub struct Bed {
    pub replica: Replica,
    /// With durability: every block from genesis on.
    pub log: Option<Log>,
    language: Arc<Schema>,
    workload: Box<dyn Workload>,
}

/// A ledger in a folder that goes with it.
pub struct Log {
    writer: LogWriter,
    _folder: tempfile::TempDir,
}

impl Log {
    fn begin(parent: &Path, genesis: &Genesis) -> Result<Log> {
        let folder = tempfile::Builder::new().prefix("tally-bench-").tempdir_in(parent)?;
        let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.path())?);
        let mut reader = LogReader::open(files)?;
        reader.next_block()?;
        let mut writer = LogWriter::resume(reader, LogOptions::default())?;
        writer.append(&[genesis.to_block()?.encode()?])?;
        Ok(Log { writer, _folder: folder })
    }

    /// Returns when the block is on disk.
    pub fn append(&mut self, block: &EncodedBlock) -> Result<()> {
        Ok(self.writer.append(std::slice::from_ref(block))?)
    }
}

impl Bed {
    /// The workload's tables, procedures and rows.
    pub fn load(plan: &Plan, cell: &Cell) -> Result<Bed> {
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 0, parameters: Parameters::new(&cell.protocol) };
        let language = Arc::new(Schema::new());
        let store = Arc::new(Store::new());
        let replica = Replica::new(&genesis, store, language.clone(), cell.threads)?;
        let folder = plan.durability.as_deref();
        let log = folder.map(|f| Log::begin(f, &genesis)).transpose()?;
        let workload = plan.make(cell)?;
        let mut bed = Bed { replica, log, language, workload };
        for statement in sql::parse(&bed.workload.schema())? {
            bed.submit(Body::Schema { text: statement.text })?;
        }
        for fill in bed.workload.fills() {
            for rows in fill.batches(ROWS_PER_LOAD) {
                bed.submit(Body::Load { text: fill.copy.clone(), rows })?;
            }
        }
        Ok(bed)
    }

    /// One transaction in a block of its own.
    fn submit(&mut self, body: Body) -> Result<()> {
        let transaction = transaction(body);
        let input = Input { payload: transaction.encode(), compiled: None };
        let executed = self.replica.execute(0, vec![input])?;
        if let Some(log) = &mut self.log {
            log.append(&executed.block.encode()?)?;
        }
        self.replica.publish();
        let store = self.replica.store();
        store.collect(store.horizon());
        match executed.outcomes.as_slice() {
            [Outcome::Committed(_)] => Ok(()),
            other => bail!("the workload cannot be set up: {other:?}"),
        }
    }

    /// The blocks to run, drawn and compiled as sessions would have done.
    pub fn blocks(&self, plan: &Plan) -> Result<Vec<Vec<Input>>> {
        let names = self.workload.procedures();
        let programs = self.programs(plan.programs)?;
        let mut calls = self.workload.calls(plan.seed).take(plan.transactions);
        let schema_version = self.language.schema_version();
        let input = |call: Call| {
            let body = Body::Call {
                procedure: names[call.procedure].to_owned(),
                arguments: call.arguments.to_vec(),
            };
            let work = Work::Statement(Statement {
                arguments: call.arguments,
                procedure: Arc::clone(&programs[call.procedure]),
            });
            let compiled = Compiled { work: Arc::new(work), schema_version };
            Input { payload: transaction(body).encode(), compiled: Some(compiled) }
        };
        let mut blocks = Vec::new();
        loop {
            let block: Vec<Input> =
                calls.by_ref().take(plan.block_transactions).map(input).collect();
            if block.is_empty() {
                return Ok(blocks);
            }
            blocks.push(block);
        }
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

    fn compile(&self, name: &str) -> Result<Arc<Procedure>> {
        let call = Body::Call { procedure: name.to_owned(), arguments: Vec::new() };
        match self.language.compile(&transaction(call))? {
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
        state_digest(self.replica.store())
    }
}

fn transaction(body: Body) -> Transaction {
    Transaction { user: USER.to_owned(), body }
}

/// The Merkle root over the state as if one block had inserted it.
fn state_digest(store: &Store) -> Result<Hash> {
    use ledger::effects::{Effect, EffectsBuilder, row_image_hash};
    use std::ops::{Bound, ControlFlow};

    let mut effects = EffectsBuilder::new();
    for table in store.tables() {
        let schema = table.schema();
        let columns: Vec<_> = (0..schema.columns.len() as u16).collect();
        let mut image = Vec::new();
        let mut fault = None;
        let mut visit = |key: &[u8], _, values: &[Value]| {
            image.clear();
            let pushed =
                types::row::encode_row(&schema.columns, values, &mut image).and_then(|()| {
                    effects.push(&Effect {
                        table: schema.id,
                        key,
                        before: None,
                        after: Some(row_image_hash(&image)),
                        previous_height: 0,
                    })
                });
            fault = pushed.err();
            match fault {
                None => ControlFlow::Continue(()),
                Some(_) => ControlFlow::Break(()),
            }
        };
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan(0, low, high, false, storage::LATEST, &columns, &mut visit);
        if let Some(fault) = fault {
            return Err(fault.into());
        }
    }
    Ok(effects.root())
}
