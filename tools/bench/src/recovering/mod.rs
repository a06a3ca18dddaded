//! Ways back from a log, measured: the same transactions as a command log and as row logs, and the
//! state before them again and again.
//!
//! ```text
//!   a workload's rows ─► checkpoint
//!          └─► its calls, sealed, one protocol ─► ledger            command log
//!                                              ├► stream-0, -1      logical
//!                                              └► stream-0, -1      physical
//! ```
//!
//! All files are on the disk; before a log is read its pages are dropped from the page cache, so
//! that reading is reading. Every way back ends in the state that the run ended in, or there is no
//! figure ([`Logged::check`]).
//!
//! * [`bounds`]: what no recovery can beat: the disk, and a loop that decodes and inserts.

pub mod bounds;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use concurrency::{Block, Work, WorkerPool};
use engine::checkpoint::{Checkpointer, State, load};
use engine::transaction::is_committed;
use engine::{Executed, Language, Transaction};
use ledger::{Batch, BlockReader, BlockResult, Files, Hash, LogOptions, RealFiles, Record};
use order::Envelope;
use recovery::log::{Commit, Entry, LoggedBlock, RowWrite};
use recovery::measure::Volume;
use recovery::replay::{Replayed, Strategy, Task};
use recovery::schemes::Scheme;
use recovery::schemes::recover::RowStrategy;
use recovery::schemes::streams::{Loggers, RowLog};
use sql::session::schema::Schema;
use storage::{Changes, Store};
use tempfile::TempDir;
use types::{Height, Position};

use crate::bed::{Bed, Source, digest};
use crate::logging::is_ad_hoc;
use crate::{Cell, Plan, Workload};

/// What is logged.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub workload: Workload,
    pub transactions: usize,
    pub block_transactions: usize,
    /// Share of the transactions that the command log holds row by row.
    pub ad_hoc_percent: u32,
    pub seed: u64,
    /// Where files go.
    pub folder: PathBuf,
}

/// A run that was logged in every way.
pub struct Logged {
    source: Source,
    cell: Cell,
    language: Arc<dyn Language>,
    /// Rows in the place of the transactions that are ad hoc, by their blocks and positions.
    ad_hoc: BTreeMap<(Height, Position), Vec<RowWrite>>,
    folder: TempDir,
    ledger: PathBuf,
    /// The last block before the log.
    before: Height,
    end: Hash,
    pub transactions: u64,
    pub volume: Volume,
    pub command_bytes: u64,
    /// What running and sealing it took, without the disk.
    pub ran: Duration,
}

fn io(error: std::io::Error) -> anyhow::Error {
    anyhow!(error)
}

fn files(folder: &Path) -> Result<Arc<dyn Files>> {
    Ok(Arc::new(RealFiles::open(folder)?))
}

/// A log that was read back, and how long that took.
pub struct Read<L> {
    pub log: L,
    pub took: Duration,
}

impl Logged {
    /// Runs the workload's calls under the serial protocol. Ad-hoc transactions need blocks of one,
    /// whose changes are theirs alone.
    pub fn make(wanted: &Wanted) -> Result<Logged> {
        if wanted.ad_hoc_percent > 0 && wanted.block_transactions > 1 {
            bail!("ad-hoc transactions are logged in blocks of one");
        }
        let source = Source::load(&wanted.workload)?;
        let cell = Cell {
            workload: wanted.workload.clone(),
            protocol: "serial".to_owned(),
            theta: wanted.workload.has_theta().then_some(0.0),
            threads: 1,
            sealing: true,
            block_transactions: wanted.block_transactions,
            durability: Some(wanted.folder.clone()),
        };
        let bed = Bed::copy(&source, &cell, LogOptions { sync: false, ..LogOptions::default() })?;
        let language = Arc::clone(bed.replica.language());
        let folder = tempfile::Builder::new().prefix("tally-bench-").tempdir_in(&wanted.folder)?;
        let before = bed.replica.head().height;
        let mut logged = Logged {
            source,
            cell,
            language,
            ad_hoc: BTreeMap::new(),
            ledger: folder.path().join("ledger"),
            folder,
            before,
            end: Hash::default(),
            transactions: 0,
            volume: Volume::default(),
            command_bytes: 0,
            ran: Duration::ZERO,
        };
        logged.fill(wanted, bed)?;
        Ok(logged)
    }

    fn fill(&mut self, wanted: &Wanted, mut bed: Bed) -> Result<()> {
        let plan = Plan { transactions: wanted.transactions, seed: wanted.seed, ..Plan::default() };
        let mut requests = bed.requests(&plan)?.into_iter();
        let create = |scheme: Scheme| -> Result<Loggers> {
            // One process at a time has a folder; each is let go before it is read.
            let files = files(&self.folder.path().join(scheme.name()))?;
            Loggers::create(&files, scheme, 2).map_err(io)
        };
        let mut loggers = [create(Scheme::Logical)?, create(Scheme::Physical)?];
        loop {
            let block: Vec<_> = requests.by_ref().take(wanted.block_transactions).collect();
            if block.is_empty() {
                break;
            }
            let start = Instant::now();
            let executed = bed.replica.execute(0, block)?;
            self.ran += start.elapsed();
            let changes = executed.effects.only_rows();
            let changes = changes.context("a schema change among the calls")?;
            self.volume.add(changes)?;
            loggers.iter_mut().try_for_each(|log| log.append(changes)).map_err(io)?;
            self.note_ad_hoc(wanted, &executed, changes)?;
            let log = bed.log.as_mut().context("a ledger was asked for")?;
            self.command_bytes += log.append_order(&executed)? + log.append_result(&executed)?;
            bed.replica.publish();
            let committed = executed.decided.iter().filter(|one| one.outcome.is_committed());
            self.transactions += committed.count() as u64;
            drop(executed);
            let store = bed.replica.store();
            store.collect();
        }
        self.end = bed.digest()?;
        bed.log.take().context("a ledger was asked for")?.keep(&self.ledger)
    }

    fn note_ad_hoc(
        &mut self,
        wanted: &Wanted,
        executed: &Executed,
        changes: &Changes,
    ) -> Result<()> {
        let height = executed.batch.height();
        if !is_ad_hoc(height, wanted.ad_hoc_percent) {
            return Ok(());
        }
        let mut rows = Vec::new();
        for change in changes.touched() {
            let mut row = Vec::new();
            let is_there = change.after(&mut row).is_some();
            let row = is_there.then(|| row.into_boxed_slice());
            rows.push(RowWrite { table: change.table(), key: change.key().clone(), row });
        }
        self.ad_hoc.insert((height, 0), rows);
        Ok(())
    }

    /// The state before the log, in a store of its own.
    pub fn store(&self) -> Result<Arc<Store>> {
        let cell = Cell { durability: None, ..self.cell.clone() };
        let bed = Bed::copy(&self.source, &cell, LogOptions::default())?;
        Ok(Arc::clone(bed.replica.store()))
    }

    /// Whether a state is the one that the run ended in.
    pub fn check(&self, store: &Store, way: &str) -> Result<()> {
        if digest(store)? == self.end {
            return Ok(());
        }
        bail!("{way} did not lead back to the state that was logged")
    }

    /// The ledger's blocks, decoded and compiled, with the rows of those that are ad hoc.
    pub fn read_commands(&self) -> Result<Read<Arc<[LoggedBlock]>>> {
        bounds::forget_pages(&self.ledger)?;
        let start = Instant::now();
        let mut reader = BlockReader::open(Arc::new(RealFiles::read_only(&self.ledger)?))?;
        let mut log = Vec::new();
        while let Some(recorded) = reader.next()? {
            if recorded.batch.height() > self.before {
                let result = recorded.result.context("a result is missing")?;
                log.push(self.logged_block(&Batch::of(&recorded.batch)?, &result)?);
            }
        }
        Ok(Read { log: log.into(), took: start.elapsed() })
    }

    fn logged_block(&self, batch: &Batch, result: &Record) -> Result<LoggedBlock> {
        let (height, result) = (batch.height(), BlockResult::of(result)?);
        let mut transactions = Vec::with_capacity(batch.envelopes().len());
        let mut commits = Vec::with_capacity(batch.envelopes().len());
        for (position, (envelope, outcome)) in
            (0..).zip(batch.envelopes().iter().zip(result.outcomes()))
        {
            let transaction = Transaction::of(&Envelope::decode(envelope)?)?;
            let work = self.language.compile(transaction).unwrap_or_else(Work::Void);
            transactions.push(Arc::new(work));
            if is_committed(outcome) {
                let rows = self.ad_hoc.get(&(height, position));
                let entry = rows.map_or(Entry::Command, |rows| Entry::Rows(rows.clone()));
                commits.push(Commit { position, entry });
            }
        }
        let block = Block::new(height, batch.header().time_us, transactions);
        Ok(LoggedBlock { block: Arc::new(block), commits })
    }

    pub fn read_rows(&self, scheme: Scheme) -> Result<Read<Arc<RowLog>>> {
        let folder = self.folder.path().join(scheme.name());
        bounds::forget_pages(&folder)?;
        let start = Instant::now();
        let files: Arc<dyn Files> = Arc::new(RealFiles::read_only(&folder)?);
        let log = RowLog::read(&files, scheme)?;
        Ok(Read { log: Arc::new(log), took: start.elapsed() })
    }

    /// Where the files of a row log are.
    pub fn rows_folder(&self, scheme: Scheme) -> PathBuf {
        self.folder.path().join(scheme.name())
    }

    pub fn replay(&self, strategy: &Strategy, task: &Task, workers: usize) -> Result<Replayed> {
        let store = self.store()?;
        let cost = (strategy.replay)(task, &store, &WorkerPool::new(workers));
        let cost = cost.map_err(anyhow::Error::msg)?;
        self.check(&store, strategy.name)?;
        Ok(cost)
    }

    pub fn recover(
        &self,
        way: &RowStrategy,
        log: &Arc<RowLog>,
        workers: usize,
    ) -> Result<Replayed> {
        let store = self.store()?;
        let cost =
            way.recover(log, &store, &WorkerPool::new(workers)).map_err(anyhow::Error::msg)?;
        self.check(&store, way.name)?;
        Ok(cost)
    }
}

/// A checkpoint of a workload's rows, on disk.
pub struct Checkpointed {
    folder: TempDir,
    pub height: Height,
    pub bytes: u64,
    pub rows: u64,
}

impl Checkpointed {
    pub fn make(workload: &Workload, folder: &Path) -> Result<Checkpointed> {
        let source = Source::load(workload)?;
        let cell = Cell {
            workload: workload.clone(),
            protocol: "serial".to_owned(),
            theta: workload.has_theta().then_some(0.0),
            threads: 1,
            sealing: true,
            block_transactions: 1,
            durability: None,
        };
        let bed = Bed::copy(&source, &cell, LogOptions::default())?;
        let folder = tempfile::Builder::new().prefix("tally-bench-").tempdir_in(folder)?;
        let files: Arc<dyn Files> = Arc::new(RealFiles::open(folder.path())?);
        let state = State::of(&bed.replica)?;
        let taken = Checkpointer::new(files, 1, None, &[]).take(&state, &mut |_| Ok(()))?;
        let (bytes, rows) = (taken.extent.bytes_written, taken.extent.rows);
        Ok(Checkpointed { folder, height: taken.height, bytes, rows })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// From disk to a replica that can go on.
    pub fn load(&self, workers: usize) -> Result<Duration> {
        bounds::forget_pages(self.path())?;
        let files = RealFiles::read_only(self.path())?;
        let start = Instant::now();
        let loaded = load(&files, self.height, &|_| Arc::new(Schema::new()), workers)?;
        let took = start.elapsed();
        if loaded.rows != self.rows {
            bail!("the checkpoint has {} rows, and {} were loaded", self.rows, loaded.rows);
        }
        Ok(took)
    }
}
