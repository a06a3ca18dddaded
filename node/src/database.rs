//! A folder becomes a ledger's state, and a running ledger ([`opening`]).
//!
//! A node begins with the newest checkpoint that holds and verifies the blocks after it. A torn
//! tail is set aside; a checkpoint that does not hold is passed over, and goes when the next one is
//! taken.

pub mod opening;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail, ensure};
use concurrency::Outcome;
use engine::checkpoint::{Checkpointer, Extent, State, Taken};
use engine::limits::{self, Limits};
use engine::{
    BlockLimits, Body, Clock, ClockBound, EXECUTOR, Fault, FromCheckpoint, Language, Numbering,
    PassedOver, Progress, Recovery, ReplayBy, ReplayCounts, Replayed, Replica, RowFolders, Trust,
    WatchdogSettings, check_protocol, recover_by, resume_writing,
};
use ledger::{
    BlockReader, BlockWriter, Files, Genesis, Hash, LogError, LogOptions, Parameters,
    QUARANTINE_FOLDER, RealFiles, Stream, checkpoint,
};
use recovery::schemes::Scheme;
use sql::OWNER;
use sql::session::schema::Schema;
use storage::Store;
use tracing::{error, info, warn};

use crate::cluster;
use crate::config::{Durability, LogScheme, RecoveryReplay, Settings};
use crate::folders;
use crate::secrets;

/// 2000-01-01 UTC, where the ledger's time begins, in seconds of Unix time.
const EPOCH_S: u64 = 946_684_800;

/// Whether this build can be told to fail, as tests and a demonstration want it.
pub const HAS_FAULTS: bool = cfg!(any(debug_assertions, feature = "faults"));

/// With the faults that a test wants, or a demonstration.
pub fn watchdog_settings() -> WatchdogSettings {
    let wanted = |name| {
        let text = HAS_FAULTS.then(|| std::env::var(name).ok()).flatten();
        text.map(|text| &*text.leak())
    };
    let (aborts_on, tampers_on) = (wanted("TEST_ABORTS_ON"), wanted("TEST_TAMPERS_ON"));
    WatchdogSettings { aborts_on, tampers_on, ..WatchdogSettings::default() }
}

pub fn statement_bytes_max(settings: &Settings) -> usize {
    usize::try_from(settings.session_statement_bytes_max).unwrap_or(usize::MAX)
}

/// A ledger's state, with the schema that it is read under.
fn read(
    files: &Arc<dyn Files>,
    recovery: &Recovery,
    report: &mut Report,
) -> Result<(Replayed, Arc<Schema>), Fault> {
    let made = RefCell::new(Arc::new(Schema::new()));
    let make = |_: &Arc<Store>| -> Arc<dyn Language> {
        let schema = Arc::new(Schema::new());
        *made.borrow_mut() = schema.clone();
        schema
    };
    let replayed = recover_by(files.clone(), &make, recovery, &mut |p| report.step(p))?;
    Ok((replayed, made.into_inner()))
}

fn tell(replayed: &Replayed) {
    for PassedOver { height, why, .. } in &replayed.passed_over {
        warn!(height, why, "a checkpoint does not hold; beginning with an older one or genesis");
    }
    if let Some(tail) = &replayed.torn_tail {
        warn!("{tail}; the cut bytes are kept in the folder `quarantine`");
    }
    if replayed.unconfirmed > 0 {
        let blocks = replayed.unconfirmed;
        info!(blocks, "the last orders wait for the other members to confirm them");
    }
    if let Some(tail) = replayed.reader.torn_results() {
        info!("{tail}; the cut bytes are kept in the folder `quarantine`");
    }
    if !replayed.unrecorded.is_empty() {
        let blocks = replayed.unrecorded.len();
        info!(blocks, "the results of the last blocks were not on disk and are computed again");
    }
    if let Some(stopped) = &replayed.stopped {
        let cause = stopped.cause();
        let hint = cause.fields().hint.as_deref().unwrap_or_default();
        error!(%cause, hint, "reads only: a block cannot be executed");
    }
    for note in &replayed.notes {
        warn!("{note}");
    }
    let ReplayCounts { executed, by_rows, by_pieces, serially } = replayed.counts;
    info!(executed, by_rows, by_pieces, serially, "blocks that were replayed");
    let Progress { blocks, transactions, .. } = replayed.progress;
    match &replayed.checkpoint {
        None => info!(blocks, transactions, "the ledger was read and verified"),
        Some(FromCheckpoint { base, rows, bytes }) => {
            let height = base.manifest.height();
            info!(height, rows, bytes, "a checkpoint was loaded");
            info!(blocks, transactions, "the blocks behind it were read and verified");
        }
    }
}

/// Takes a checkpoint of a folder that no node runs on.
pub fn checkpoint_folder(
    settings: &Settings,
    step: &mut dyn FnMut(Progress),
    pace: &mut dyn FnMut(&Extent) -> types::Result<()>,
) -> Result<Taken> {
    folders::open_to_write(&settings.data)?;
    Ok(checkpoint_at_end(settings, step, pace, true)?.taken)
}

/// What a stopped ledger's blocks set, after the last that has a result.
pub fn parameters(data: &Path, files: &Arc<dyn Files>) -> Result<Parameters> {
    let defaults = Settings::defaults().map_err(|fault| anyhow!(fault))?;
    let settings = Settings { data: data.to_owned(), ..defaults };
    let recovery = recovery(&settings, None);
    let (replayed, _) = read(files, &recovery, &mut Report::default()).map_err(refuse)?;
    Ok(replayed.replica.parameters().as_ref().clone())
}

/// What a folder's blocks came to.
pub struct FolderState {
    pub head: Hash,
    pub taken: Taken,
}

/// Executes a folder's blocks, and takes a checkpoint after the last one.
pub fn execute_folder(data: &Path, step: &mut dyn FnMut(Progress)) -> Result<FolderState> {
    let defaults = Settings::defaults().map_err(|fault| anyhow!(fault))?;
    let settings = Settings { data: data.to_owned(), ..defaults };
    checkpoint_at_end(&settings, step, &mut |_| Ok(()), false)
}

/// Also writes the results that the folder did not hold. `vouches`: and a block that says what the
/// state's digest is.
fn checkpoint_at_end(
    settings: &Settings,
    step: &mut dyn FnMut(Progress),
    pace: &mut dyn FnMut(&Extent) -> types::Result<()>,
    vouches: bool,
) -> Result<FolderState> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(&settings.data)?);
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let workers = workers(settings.workers);
    let recovery = Recovery {
        workers,
        replay: ReplayBy::Protocol,
        trust: Trust::Vouched,
        ..Recovery::default()
    };
    let replayed = recover_by(files.clone(), &make, &recovery, step).map_err(refuse)?;
    tell(&replayed);
    if vouches {
        cluster::refuse_alone(replayed.replica.parameters())?;
    }
    let Replayed { mut replica, reader, unrecorded, checkpoint, passed_over, .. } = replayed;
    // What was read may be in the page cache alone; a checkpoint says what no power cut takes back.
    let log = resume_writing(reader, &unrecorded, log_options(settings));
    let mut log = log.context("cannot sync the ledger")?;
    log.sync_results().context("cannot sync the ledger")?;
    let head = replica.head().hash;
    let state = State { durable_below: log.durable_below(), ..State::of(&replica)? };
    let base = checkpoint.map(|checkpoint| checkpoint.base);
    let mut checkpointer =
        Checkpointer::new(files, settings.checkpoint_keep as usize, base, &passed_over);
    let before = checkpointer.height();
    let taken = checkpointer.take(&state, pace)?;
    if vouches && before != Some(taken.height) {
        vouch(&mut replica, &mut log, &taken)?;
    }
    Ok(FolderState { head, taken })
}

/// Runs statements in the second block of a ledger that has one.
///
/// # Errors
/// One fails: nothing of it is written.
pub fn run_first(
    settings: &Settings,
    files: Arc<dyn Files>,
    user: &str,
    statements: &[String],
) -> Result<()> {
    if statements.is_empty() {
        return Ok(());
    }
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let recovery = Recovery { workers: workers(settings.workers), ..Recovery::default() };
    let replayed = recover_by(files, &make, &recovery, &mut |_| ()).map_err(refuse)?;
    let Replayed { mut replica, reader, unrecorded, .. } = replayed;
    let mut log = resume_writing(reader, &unrecorded, log_options(settings))?;
    let time_us = clock()().max(replica.head().time_us);
    let mut numbering = Numbering::behind(replica.ledger_id(), &replica.head().hash);
    let ask =
        |text: &String| numbering.request(user, time_us, &Body::Schema { text: text.clone() });
    let requests = statements.iter().map(ask).collect::<types::Result<Vec<_>>>()?;
    let executed = replica.execute(time_us, requests).map_err(|halt| anyhow!(halt.0))?;
    for decided in &executed.decided {
        if let Outcome::Rejected(error) | Outcome::Retry(error) = &decided.outcome {
            return Err(error.clone().into());
        }
    }
    log.append_order(&[executed.batch.encode()?])?;
    log.append_results(&[executed.result.encode()?])?;
    log.orders.rest()?;
    log.results.rest()?;
    Ok(())
}

/// One more block, which says what the digest of a checkpoint is.
fn vouch(replica: &mut Replica, log: &mut BlockWriter, taken: &Taken) -> Result<()> {
    let body = Body::Checkpoint { height: taken.height, digest: taken.digest };
    let time_us = clock()();
    let mut numbering = Numbering::behind(replica.ledger_id(), &replica.head().hash);
    let request = numbering.request("tally", time_us.max(replica.head().time_us), &body)?;
    let executed = replica.execute(time_us, vec![request]).map_err(|halt| anyhow!(halt.0))?;
    log.append_order(&[executed.batch.encode()?])?;
    log.append_results(&[executed.result.encode()?])?;
    log.orders.rest()?;
    log.results.rest()?;
    Ok(())
}

/// The folders that row logs are in, if there are to be any.
fn row_folders(settings: &Settings) -> Result<Option<RowFolders>> {
    let scheme = match settings.log_scheme {
        LogScheme::Logical => Scheme::Logical,
        LogScheme::Physical => Scheme::Physical,
        LogScheme::Command | LogScheme::None => return Ok(None),
    };
    let open = |path: &PathBuf| -> Result<Arc<dyn Files>> { Ok(Arc::new(RealFiles::open(path)?)) };
    let folders = row_paths(settings).iter().map(open).collect::<Result<_>>();
    Ok(Some(RowFolders { scheme, folders: folders.context("cannot log rows")? }))
}

fn row_paths(settings: &Settings) -> Vec<PathBuf> {
    match &settings.log_folders.0[..] {
        [] => vec![settings.data.join("rows")],
        given => given.to_vec(),
    }
}

fn recovery(settings: &Settings, rows: Option<RowFolders>) -> Recovery {
    let replay = match settings.recovery_replay {
        RecoveryReplay::Protocol => ReplayBy::Protocol,
        RecoveryReplay::Pacman => ReplayBy::Pacman,
        RecoveryReplay::Serial => ReplayBy::Serial,
    };
    let (workers, trust) = (workers(settings.workers), Trust::Vouched);
    Recovery { workers, replay, rows, trust, ..Recovery::default() }
}

/// What the ledger takes on disk.
fn segment_bytes(files: &dyn Files) -> Result<u64> {
    let mut bytes = 0;
    for stream in Stream::ALL {
        for name in files.list(stream.folder())? {
            bytes += files.open(&format!("{stream}/{name}"))?.size()?;
        }
    }
    Ok(bytes)
}

/// Ends of orders that were cut, and that lie in the folder still.
fn torn_tails(files: &dyn Files) -> Result<u64> {
    let kept = files.list(QUARANTINE_FOLDER)?;
    Ok(kept.iter().filter(|name| name.starts_with(Stream::Orders.folder())).count() as u64)
}

/// A new folder, or one whose very first block was torn by a crash: nothing was acknowledged then.
fn holds_no_block(fault: &Fault) -> bool {
    match fault {
        Fault::Empty => true,
        Fault::TornTail(tail) => tail.height == 0,
        _ => false,
    }
}

/// A block was pinned, so there was a ledger.
fn refuse_beside_pins<T>(pinned: &[T]) -> Result<()> {
    if pinned.is_empty() {
        return Ok(());
    }
    let folder = Stream::Orders.folder();
    bail!(
        "the folder holds no ledger, but names of pinned blocks: put the folder `{folder}` back, \
         or choose an empty folder for a new ledger"
    );
}

/// Writes the genesis block of a new ledger.
fn begin(settings: &Settings, files: Arc<dyn Files>, options: LogOptions) -> Result<()> {
    if let Some(height) = checkpoint::heights(&*files)?.last() {
        let folder = Stream::Orders.folder();
        bail!(
            "the folder holds no ledger, but a checkpoint of its block {height}: put the folder \
             `{folder}` back, or choose an empty folder for a new ledger"
        );
    }
    let mut reader = BlockReader::open(files)?;
    match reader.next() {
        Ok(None) | Err(LogError::TornTail(_)) => {}
        Ok(Some(_)) => bail!("the folder already holds a ledger"),
        Err(error) => return Err(error.into()),
    }
    let mut genesis = genesis(settings)?;
    genesis.ledger_id = reader.ledger_id().unwrap_or(genesis.ledger_id);
    write_genesis(reader, &genesis, options)
}

/// Writes the first block of a new ledger, of which others have a copy.
pub fn found(files: Arc<dyn Files>, genesis: &Genesis, options: LogOptions) -> Result<()> {
    let mut reader = BlockReader::open(files)?;
    ensure!(reader.next()?.is_none(), "the folder already holds a ledger");
    write_genesis(reader, genesis, options)
}

/// The first block of a new ledger.
pub fn genesis(settings: &Settings) -> Result<Genesis> {
    check_protocol(&settings.protocol)?;
    let protocol = protocols::recorded_name(&settings.protocol);
    let mut parameters = Parameters::new(&protocol);
    parameters.others.insert("executor".to_owned(), EXECUTOR.to_string());
    if settings.owner != OWNER {
        check_owner(&settings.owner)?;
        parameters.others.insert(limits::OWNER.to_owned(), settings.owner.clone());
    }
    for (name, value) in [
        ("transaction_units_max", settings.transaction_units_max),
        ("transaction_bytes_max", settings.transaction_bytes_max),
    ] {
        parameters = Limits::set(&parameters, name, &value.to_string())
            .unwrap_or_else(|| Err(types::Error::unsupported(name)))?;
    }
    Ok(Genesis {
        ledger_id: secrets::random()?,
        time_us: clock()(),
        parameters,
        executor: EXECUTOR,
    })
}

/// A name that a role can have.
fn check_owner(name: &str) -> Result<()> {
    sql::check_role_name(name).map_err(|error| anyhow!("owner: {}", error.message()))
}

fn write_genesis(reader: BlockReader, genesis: &Genesis, options: LogOptions) -> Result<()> {
    let block = genesis.to_block()?;
    let mut log = BlockWriter::resume(reader, options)?;
    log.append_order_unsynced(&[block.batch.encode()?])?;
    log.sync_orders()?;
    log.append_results(&[block.result.encode()?])?;
    log.orders.rest()?;
    log.results.rest()?;
    info!(protocol = genesis.parameters.protocol, "a new ledger begins");
    Ok(())
}

/// A node never repairs what is damaged, and says what to do instead.
pub fn refuse(fault: Fault) -> anyhow::Error {
    match fault {
        Fault::Damage(_) | Fault::Mismatch(_) => {
            anyhow!("{fault}; the node does not start: restore the folder from a copy")
        }
        Fault::Halt(height, _) if height > 0 => {
            anyhow!("{fault}; start again: if it fails again, blocks before it can be read")
        }
        fault => fault.into(),
    }
}

pub fn log_options(settings: &Settings) -> LogOptions {
    LogOptions {
        segment_bytes: settings.segment_bytes_max,
        sync: settings.durability == Durability::On,
        ..LogOptions::default()
    }
}

pub fn block_limits(settings: &Settings) -> BlockLimits {
    BlockLimits {
        transactions_max: settings.block_transactions_max as usize,
        bytes_max: usize::try_from(settings.block_bytes_max).unwrap_or(usize::MAX),
        wait_max: Duration::from_micros(settings.block_wait_us_max),
        ..BlockLimits::default()
    }
}

pub fn workers(setting: u32) -> usize {
    match setting {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count as usize,
    }
}

/// How far blocks may be ahead of the clock. Time in which the machine slept has passed.
fn clock_bound(settings: &Settings) -> Option<ClockBound> {
    let ahead_max = Duration::from_secs(settings.clock_ahead_s_max);
    let steady = Arc::new(|| {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        since.tv_sec.saturating_mul(1_000_000).saturating_add(since.tv_nsec / 1_000)
    });
    (!ahead_max.is_zero()).then_some(ClockBound { ahead_max, steady })
}

/// Names a file by which a test of a debug build sets the clock: seconds ahead.
pub const CLOCK_FILE: &str = "TEST_CLOCK_FILE";

/// Microseconds since 2000-01-01 UTC; a clock before that stands still.
pub fn clock() -> Clock {
    let epoch = UNIX_EPOCH + Duration::from_secs(EPOCH_S);
    let set = cfg!(debug_assertions).then(|| std::env::var_os(CLOCK_FILE)).flatten();
    Arc::new(move || {
        let elapsed = SystemTime::now().duration_since(epoch).unwrap_or_default();
        let true_us = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        let ahead_s = set.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let ahead_s: i64 = ahead_s.and_then(|text| text.parse().ok()).unwrap_or(0);
        true_us.saturating_add(ahead_s * 1_000_000).max(0)
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

    fn step(&mut self, progress: Progress) {
        if self.0.elapsed() >= Self::EVERY {
            self.0 = std::time::Instant::now();
            let Progress { blocks, transactions, bytes } = progress;
            info!(blocks, transactions, bytes, "reading the ledger");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::random::Random;
    use ledger::MemoryFiles;
    use ledger::memory_files::Failure;

    fn read(files: &MemoryFiles) -> Result<Replayed, Fault> {
        let language = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
        engine::replay(Arc::new(files.clone()), &language, 1, &mut |_| ())
    }

    /// A folder whose segments are not there (not mounted, say) is not an empty one.
    #[test]
    fn no_ledger_is_begun_beside_the_checkpoints_of_another() {
        let settings = Settings::defaults().unwrap();
        let files = MemoryFiles::new();
        let path = format!("{}/{:020}.manifest", checkpoint::CHECKPOINT_FOLDER, 7);
        files.plant(&path, b"whatever it holds".to_vec());
        let begun = begin(&settings, Arc::new(files.clone()), log_options(&settings));
        assert!(begun.unwrap_err().to_string().contains("a checkpoint of its block 7"));
        assert_eq!(files.paths(), [path]);
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
