//! A folder becomes a running ledger, or a verdict on it.
//!
//! Opening and verifying are one pass (`engine::replay`): a node that has started has verified its
//! ledger. What differs is the end: a node sets a torn tail aside and goes on, `verify` reports it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use engine::{BlockLimits, ChangedRow, Clock, Engine, Fault, Language, Replayed, replay};
use ledger::{
    Files, Genesis, Hash, LedgerId, LogError, LogOptions, LogReader, LogWriter, Parameters,
    RealFiles,
};
use sql::session::Database;
use sql::session::schema::Schema;
use storage::Store;
use tracing::{info, warn};

use crate::config::{Durability, Settings};
use crate::metrics::Metrics;

/// 2000-01-01 UTC, where the ledger's time begins, in seconds of Unix time.
const EPOCH_S: u64 = 946_684_800;

/// Reads the ledger in `settings.data`, or begins one, and starts the engine on it.
pub fn open(settings: &Settings, metrics: Arc<Metrics>) -> Result<Database> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(&settings.data)?);
    let options = log_options(settings);
    let mut report = Report::default();
    let workers = workers(settings.workers);
    let schema = Arc::new(Schema::new());
    let language: Arc<dyn Language> = schema.clone();
    let make = |_: &Arc<Store>| language.clone();
    let mut read = || replay(files.clone(), &make, workers, &mut |p| report.step(p));
    let replayed = match read() {
        Err(fault) if holds_no_block(&fault) => {
            begin(settings, files.clone(), options)?;
            read()
        }
        outcome => outcome,
    };
    let Replayed { replica, reader, torn_tail, progress, .. } = replayed.map_err(refuse)?;
    if let Some(tail) = torn_tail {
        warn!("{tail}; the cut bytes are kept in the folder `quarantine`");
    }
    info!(
        blocks = progress.blocks,
        transactions = progress.transactions,
        "the ledger was read and verified"
    );
    let log = LogWriter::resume(reader, options).context("cannot go on with the ledger")?;
    metrics.ledger_bytes.add(progress.bytes);
    metrics.height.set(replica.head().height);
    let engine = Engine::start(replica, log, language, limits(settings), clock(), metrics)?;
    Ok(Database { engine: Arc::new(engine), schema })
}

/// A new folder, or one whose very first block was torn by a crash: nothing was acknowledged then.
fn holds_no_block(fault: &Fault) -> bool {
    match fault {
        Fault::Empty => true,
        Fault::TornTail(tail) => tail.height == 0,
        _ => false,
    }
}

/// Writes the genesis block of a new ledger.
fn begin(settings: &Settings, files: Arc<dyn Files>, options: LogOptions) -> Result<()> {
    let mut reader = LogReader::open(files)?;
    match reader.next_block() {
        Ok(None) | Err(LogError::TornTail(_)) => {}
        Ok(Some(_)) => bail!("the folder already holds a ledger"),
        Err(error) => return Err(error.into()),
    }
    let ledger_id = match reader.ledger_id() {
        Some(begun) => begun,
        None => draw_ledger_id()?,
    };
    let genesis =
        Genesis { ledger_id, time_us: clock()(), parameters: Parameters::new(&settings.protocol) };
    let mut log = LogWriter::resume(reader, options)?;
    log.append(&[genesis.to_block()?.encode()?])?;
    log.sync()?;
    info!(protocol = settings.protocol, "a new ledger begins");
    Ok(())
}

fn draw_ledger_id() -> Result<LedgerId> {
    let mut ledger_id = [0; 16];
    rustix::rand::getrandom(&mut ledger_id, rustix::rand::GetRandomFlags::empty())?;
    Ok(ledger_id)
}

/// A node never repairs what is damaged, and says what to do instead.
fn refuse(fault: Fault) -> anyhow::Error {
    match fault {
        Fault::Damage(_) | Fault::Mismatch(_) => {
            anyhow!("{fault}; the node does not start: restore the folder from a copy")
        }
        fault => fault.into(),
    }
}

fn log_options(settings: &Settings) -> LogOptions {
    LogOptions {
        segment_bytes: settings.segment_bytes_max,
        sync: settings.durability == Durability::On,
        ..LogOptions::default()
    }
}

fn limits(settings: &Settings) -> BlockLimits {
    BlockLimits {
        transactions_max: settings.block_transactions_max as usize,
        bytes_max: usize::try_from(settings.block_bytes_max).unwrap_or(usize::MAX),
        wait_max: Duration::from_micros(settings.block_wait_us_max),
        ..BlockLimits::default()
    }
}

fn workers(setting: u32) -> usize {
    match setting {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count as usize,
    }
}

/// Microseconds since 2000-01-01 UTC; a clock before that stands still.
fn clock() -> Clock {
    let epoch = UNIX_EPOCH + Duration::from_secs(EPOCH_S);
    Arc::new(move || {
        let elapsed = SystemTime::now().duration_since(epoch).unwrap_or_default();
        i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
    })
}

/// Says every few seconds how far a long recovery has come.
struct Report(std::time::Instant);

impl Default for Report {
    fn default() -> Self {
        Report(std::time::Instant::now())
    }
}

impl Report {
    const EVERY: Duration = Duration::from_secs(5);

    fn step(&mut self, progress: engine::Progress) {
        if self.0.elapsed() >= Self::EVERY {
            self.0 = std::time::Instant::now();
            let engine::Progress { blocks, transactions, bytes } = progress;
            info!(blocks, transactions, bytes, "reading the ledger");
        }
    }
}

/// What `tally verify` found.
#[derive(Debug)]
pub struct Verification {
    /// Height and header hash of the newest block that holds.
    pub height: u64,
    pub block_hash: Hash,
    pub blocks: u64,
    pub transactions: u64,
    pub ledger_bytes: u64,
    pub verdict: Verdict,
}

/// The first thing that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every hash, root and re-executed effect is as recorded.
    Sound,
    /// The last record is incomplete or its checksum is wrong; all before it holds.
    TornTail { height: u64, detail: String },
    /// Bytes that were durable have changed.
    Damaged { height: u64, detail: String },
    /// The bytes are whole, but hashes, roots, outcomes or effects are not what they should be.
    Differs { height: u64, transaction: Option<usize>, changes: Vec<ChangedRow>, detail: String },
}

/// Checks the ledger in `data`; `workers` of 0 means one for each core.
pub fn verify(data: &Path, workers_setting: u32) -> Result<Verification> {
    verify_files(Arc::new(RealFiles::read_only(data)?), workers_setting)
}

/// The same for files of any kind.
pub fn verify_files(files: Arc<dyn Files>, workers_setting: u32) -> Result<Verification> {
    let mut progress = engine::Progress::default();
    let language = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let replayed = replay(files, &language, workers(workers_setting), &mut |p| progress = p);
    let (height, block_hash, verdict) = match replayed {
        Ok(replayed) => {
            let head = replayed.replica.head();
            let verdict = match replayed.torn_tail {
                None => Verdict::Sound,
                Some(tail) => Verdict::TornTail { height: tail.height, detail: tail.to_string() },
            };
            (head.height, head.hash, verdict)
        }
        // The blocks counted so far hold, and genesis is not one of them.
        Err(fault) => (progress.blocks, ledger::ZERO_HASH, verdict_of(fault)?),
    };
    Ok(Verification {
        height,
        block_hash,
        blocks: progress.blocks,
        transactions: progress.transactions,
        ledger_bytes: progress.bytes,
        verdict,
    })
}

fn verdict_of(fault: Fault) -> Result<Verdict> {
    let detail = fault.to_string();
    Ok(match fault {
        Fault::TornTail(tail) => Verdict::TornTail { height: tail.height, detail },
        Fault::Damage(damage) => Verdict::Damaged { height: damage.height, detail },
        Fault::Mismatch(engine::Mismatch { height, transaction, changes, .. }) => {
            Verdict::Differs { height, transaction, changes, detail }
        }
        Fault::Halt(height, _) => {
            Verdict::Differs { height, transaction: None, changes: Vec::new(), detail }
        }
        Fault::Io(_) | Fault::Empty => return Err(fault.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;
    use ledger::MemoryFiles;
    use ledger::memory_files::Failure;

    fn read(files: &MemoryFiles) -> Result<Replayed, Fault> {
        let language = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
        replay(Arc::new(files.clone()), &language, 1, &mut |_| ())
    }

    /// Whatever moment of the first start the power goes at, the next start has a ledger.
    #[test]
    fn a_first_start_can_be_cut_anywhere() {
        let settings = Settings::defaults().unwrap();
        let options = LogOptions { zero_fill_bytes: 4_096, ..log_options(&settings) };
        for operation in 0..30 {
            for seed in 0..20 {
                let files = MemoryFiles::new();
                files.fail_at(Some(Failure::PowerOff(operation)));
                let first = begin(&settings, Arc::new(files.clone()), options);
                let mut left = files.crash(&mut Random::new(seed));
                if seed == 0 {
                    // A killed process, or a full disk: what was written stays.
                    files.fail_at(None);
                    left = files;
                }
                match read(&left) {
                    Ok(_) => continue,
                    Err(fault) => assert!(holds_no_block(&fault), "{operation}: {fault}"),
                }
                assert!(first.is_err(), "operation {operation}, seed {seed}: genesis is lost");
                begin(&settings, Arc::new(left.clone()), options)
                    .unwrap_or_else(|error| panic!("operation {operation}, seed {seed}: {error}"));
                assert!(read(&left).is_ok());
            }
        }
    }
}
