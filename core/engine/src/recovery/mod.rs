//! Opening a ledger: blocks are read, checked, executed again and compared.
//!
//! Each block must follow from the one before (chain, roots of transactions and outcomes), and
//! executing its transactions must give the same outcomes and the same effects. [`replay`] does so
//! from genesis on, which is what `verify` means; [`recover`] begins at the newest checkpoint that
//! holds, so what a node has verified when it starts are the blocks after it.
//!
//! ```text
//!   recover   newest checkpoint ─► the one before ─► … ─► genesis       the first that holds
//!                  └────────────────────┴──── follow: the blocks after it ───► head
//! ```
//!
//! *What a start checks*, of the blocks after its checkpoint: that they are a chain whose roots of
//! transactions and outcomes hold; and, in each of the ways that [`ReplayCounts`] counts, that each
//! of them changed the rows that its effects root says: keys, images before, images after, heights
//! of the changes before. So the state at the head is the one that the ledger's headers commit to,
//! also where a row log or PACMAN made it. Outcomes are reported again, and compared, where blocks
//! are executed under their protocol: always in [`replay`], at a start unless it was spared that.
//! Whatever fails a check at a start is executed instead, and that is said.
//!
//! *The way by default* is the protocol itself: see [`follow`] for the figures.
//!
//! A checkpoint is passed over if a byte of it is not as written, if it cannot be read, if the
//! ledger [says](crate::checkpoint::vouched) that its state is another, or if its block is not in
//! the ledger: a crash without `durability` may lose blocks that a checkpoint has seen. That is
//! said, and costs the replay of more blocks; damage to the *ledger* is a fault.
//!
//! So is a ledger that ends before a block which a checkpoint knows to have been on stable storage,
//! be it that its last block is damaged, or that its segments are not there at all: no crash tore
//! that tail, and going on would acknowledge other blocks under the same heights.

use std::sync::Arc;

use ledger::chain::ChainVerifier;
use ledger::checkpoint::{CHECKPOINT_FOLDER, Manifest, heights, read_manifest};
use ledger::{
    BlockReader, BlockWriter, Damage, Files, Genesis, Hash, LogError, LogOptions, Record, Stream,
    TornTail,
};
use replica::{Boundary, ChangedRow, EXECUTOR, Halt, Head, MakeLanguage};
use storage::Store;
use types::Height;

use crate::checkpoint::vouched::vouched_at;
use crate::checkpoint::{Base, Loaded, PassedOver, load};
use crate::client::Replica;
use crate::stopped::Stopped;
use crate::watchdog::Watchdog;

mod ahead;
mod compare;
mod follow;
mod part;

pub use recovery::schemes::row_logs::RowFolders;

use ahead::{check_chain, decode};
use follow::{Followed, follow};

/// What is wrong with a ledger.
#[derive(Debug)]
pub enum Fault {
    Io(std::io::Error),
    /// The folder holds no ledger.
    Empty,
    /// The last record is incomplete or damaged: what a crash leaves behind, or damage to the last
    /// block.
    TornTail(TornTail),
    /// Damage elsewhere: bytes that were durable have changed, or are gone.
    Damage(Damage),
    /// The chain does not hold together, or execution does not give what the block says.
    Mismatch(Mismatch),
    /// The replica cannot go on (for instance, a protocol that this program does not know).
    Halt(Height, Halt),
    /// Replay without the protocol did not give what the ledger says, after this block. It may be
    /// that replay or the ledger: [`recover_by`] begins anew and executes.
    Unusable(Height, String),
}

/// The first difference between a ledger and its re-execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    pub height: Height,
    /// Index of the transaction in its block, where the difference is one transaction's.
    pub transaction: Option<usize>,
    pub what: String,
    pub expected: String,
    pub found: String,
    /// What executing changed, by the one transaction if there is one. Where a block's effects are
    /// not the recorded ones, the difference is in one of these rows or in one that is missing.
    pub changes: Vec<ChangedRow>,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ROWS_MAX: usize = 3;
        write!(f, "block {}", self.height)?;
        if let Some(index) = self.transaction {
            write!(f, ", transaction {index}")?;
        }
        write!(f, ": {} differs: expected {}, found {}", self.what, self.expected, self.found)?;
        for (place, row) in self.changes.iter().take(ROWS_MAX).enumerate() {
            let before = if place == 0 { "; run again, it" } else { "," };
            write!(f, "{before} {row}")?;
        }
        match self.changes.len().saturating_sub(ROWS_MAX) {
            0 => Ok(()),
            more => write!(f, " and changed {more} more rows"),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Io(error) => write!(f, "the ledger cannot be read: {error}"),
            Fault::Empty => f.write_str("the folder holds no ledger"),
            Fault::TornTail(tail) => tail.fmt(f),
            Fault::Damage(damage) => damage.fmt(f),
            Fault::Mismatch(mismatch) => mismatch.fmt(f),
            Fault::Halt(height, halt) => write!(f, "block {height}: {halt}"),
            Fault::Unusable(height, why) => write!(f, "replay behind block {height}: {why}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Io(error) => Fault::Io(error),
            LogError::TornTail(tail) => Fault::TornTail(tail),
            LogError::Damage(damage) => Fault::Damage(damage),
        }
    }
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub blocks: u64,
    pub transactions: u64,
    pub bytes: u64,
}

/// A ledger read to its end.
pub struct Replayed {
    pub replica: Replica,
    /// Of the blocks that were executed.
    pub progress: Progress,
    /// Where a writer goes on: see [`Replayed::writer`].
    pub reader: BlockReader,
    /// Results of the last orders, which the ledger did not hold.
    pub unrecorded: Vec<Record>,
    /// Reported, not repaired: opening the ledger for writing sets the cut bytes aside.
    pub torn_tail: Option<TornTail>,
    /// Orders at the end that other nodes have to confirm: they are not executed.
    pub unconfirmed: u64,
    /// It ends before the end of the ledger, since the next block fails.
    pub stopped: Option<Stopped>,
    /// What it began with, if not with genesis.
    pub checkpoint: Option<FromCheckpoint>,
    /// Checkpoints that did not hold, newest first.
    pub passed_over: Vec<PassedOver>,
    /// How the blocks became a state.
    pub counts: ReplayCounts,
    /// What did not go as it was meant to, for people: row logs that were of no use, say.
    pub notes: Vec<String>,
}

/// Blocks, by how they became a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayCounts {
    /// Under their protocol; outcomes and effects were compared.
    pub executed: u64,
    /// From row logs; effects were compared.
    pub by_rows: u64,
    /// By PACMAN; effects were compared.
    pub by_pieces: u64,
    /// One transaction after the other; effects were compared.
    pub serially: u64,
}

/// How blocks after a checkpoint are replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayBy {
    /// Under the protocol, which alone tells outcomes again: see [`follow`] for what others cost.
    #[default]
    Protocol,
    /// In pieces, where the ledger holds the serial order.
    Pacman,
    /// One transaction after another, where the ledger holds the serial order.
    Serial,
}

/// How a state is recovered.
#[derive(Clone, Default)]
pub struct Recovery {
    pub workers: usize,
    pub replay: ReplayBy,
    /// Read instead of executing, where they hold what the ledger says.
    pub rows: Option<RowFolders>,
    /// Blocks that the store is to retain when it comes by.
    pub retain: Vec<Head>,
    pub trust: Trust,
    /// A block, and the digest of the state after it that this very process came to by executing:
    /// as good as the ledger's word, which may not have come to it yet.
    pub executed: Option<(Height, Hash)>,
    /// Blocks that a process died in before.
    pub watchdog: Option<Arc<Watchdog>>,
}

/// Which checkpoints may be begun with. None that the ledger contradicts, in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// Any other.
    #[default]
    Uncontradicted,
    /// Those that the ledger vouches for; where blocks were pruned and none of these holds, others.
    Vouched,
}

impl Recovery {
    /// By execution alone.
    fn executing(workers: usize) -> Recovery {
        Recovery { workers, replay: ReplayBy::Protocol, ..Recovery::default() }
    }
}

/// A checkpoint that a replica was made from.
pub struct FromCheckpoint {
    pub base: Base,
    pub rows: u64,
    pub bytes: u64,
}

/// Read, check and execute a whole ledger.
pub fn replay(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    workers: usize,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    replay_watched(files, language, workers, &mut |_, progress| report(progress))
}

/// The same; `after` sees the replica after each block.
pub fn replay_watched(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    workers: usize,
    after: &mut dyn FnMut(&Replica, Progress),
) -> Result<Replayed, Fault> {
    from_genesis(files, language, &Recovery::executing(workers), true, after)
}

fn from_genesis(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    at_once: bool,
    after: &mut dyn FnMut(&Replica, Progress),
) -> Result<Replayed, Fault> {
    let mut reader = BlockReader::open(files)?;
    if reader.first_height() > 0 {
        return Err(Fault::Damage(pruned(&reader)));
    }
    let mut chain = ChainVerifier::new();
    let recorded = match reader.next() {
        Ok(Some(recorded)) => recorded,
        Ok(None) => return Err(Fault::Empty),
        Err(error) => return Err(error.into()),
    };
    let (batch, result) = decode(&recorded.batch, recorded.result.as_ref())?;
    let parts = [Some(&recorded.batch), recorded.result.as_ref()];
    let bytes = parts.into_iter().flatten().map(|part| part.payload().len() as u64).sum::<u64>();
    let genesis = Genesis::from_batch(&batch, EXECUTOR);
    let genesis = genesis.map_err(|error| Fault::Halt(0, Halt(error.to_string())))?;
    // A crash may have left the order of genesis alone.
    let block = genesis.to_block().map_err(|error| Fault::Halt(0, error.into()))?;
    let first = result.as_ref().unwrap_or(&block.result);
    check_chain(&mut chain, &batch, Some(first))?;
    let mut unrecorded = Vec::new();
    if result.is_none() {
        unrecorded.push(block.result.encode().map_err(|error| Fault::Halt(0, error.into()))?);
    }
    let store = Arc::new(Store::new());
    let language = language(&store);
    let mut replica = Replica::new(&genesis, store, language, recovery.workers)
        .map_err(|halt| Fault::Halt(0, halt))?;
    let with_genesis = |progress: Progress| Progress { bytes: progress.bytes + bytes, ..progress };
    after(&replica, with_genesis(Progress::default()));
    let mut after = |replica: &Replica, progress| after(replica, with_genesis(progress));
    let followed = follow(&mut replica, &mut chain, &mut reader, recovery, at_once, &mut after)?;
    let progress = with_genesis(followed.progress);
    let mut replayed = Replayed::of(replica, reader, followed);
    unrecorded.append(&mut replayed.unrecorded);
    Ok(Replayed { progress, unrecorded, ..replayed })
}

impl Replayed {
    fn of(replica: Replica, reader: BlockReader, followed: Followed) -> Replayed {
        let Followed { torn_tail, unconfirmed, stopped, progress, counts, unrecorded, notes } =
            followed;
        let (checkpoint, passed_over) = (None, Vec::new());
        Replayed {
            replica,
            progress,
            reader,
            unrecorded,
            torn_tail,
            unconfirmed,
            stopped,
            checkpoint,
            passed_over,
            counts,
            notes,
        }
    }
}

/// Results that are written at once, at most.
const RESULTS_GROUP_MAX: usize = 64;

/// Goes on writing where a ledger was read to its end: torn bytes are set aside, and results that
/// it did not hold are on stable storage when this returns, as a checkpoint may say they are.
pub fn resume_writing(
    reader: BlockReader,
    unrecorded: &[Record],
    options: LogOptions,
) -> std::io::Result<BlockWriter> {
    let mut log = BlockWriter::resume(reader, options)?;
    // One group is one buffer and lies in one segment, and there may be results of years.
    for results in unrecorded.chunks(RESULTS_GROUP_MAX) {
        log.append_results(results)?;
    }
    if !unrecorded.is_empty() {
        log.sync_results()?;
    }
    Ok(log)
}

/// Begin with the newest checkpoint that holds, then read, check and execute the blocks after it.
pub fn recover(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    workers: usize,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    recover_by(files, language, &Recovery::executing(workers), report)
}

/// The same, by other means than execution where these are given and of use. With a watchdog, it
/// stops before a block that fails, be it that this attempt was the one that found out.
pub fn recover_by(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    let Some(watchdog) = &recovery.watchdog else {
        return recover_by_means(files, language, recovery, report);
    };
    watchdog.start();
    let replayed = recover_watched(files, language, recovery, watchdog, report);
    watchdog.started();
    let replayed = replayed?;
    if replayed.stopped.is_none() {
        watchdog.forget().map_err(Fault::Io)?;
    }
    Ok(replayed)
}

fn recover_watched(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    watchdog: &Watchdog,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    let failing = watchdog.failing();
    match recover_by_means(files.clone(), language, recovery, report) {
        Err(Fault::Halt(..)) if watchdog.failing() != failing => {
            recover_by_means(files, language, recovery, report)
        }
        replayed => replayed,
    }
}

fn recover_by_means(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    match try_recover(&files, language, recovery, report) {
        Err(Fault::Unusable(height, why)) => {
            let executing = Recovery { replay: ReplayBy::Protocol, rows: None, ..recovery.clone() };
            let mut replayed = try_recover(&files, language, &executing, report)?;
            replayed.notes.push(format!("replay behind block {height} was given up: {why}"));
            Ok(replayed)
        }
        done => done,
    }
}

fn try_recover(
    files: &Arc<dyn Files>,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    let mut passed_over = Vec::new();
    let after = &mut |_: &Replica, progress| report(progress);
    let mut heights = heights(&**files).map_err(Fault::Io)?;
    heights.reverse();
    for &height in &heights {
        match from_checkpoint(files, height, language, recovery, false, after)? {
            Ok(replayed) => return Ok(Replayed { passed_over, ..replayed }),
            Err(it) => passed_over.push(it),
        }
    }
    if recovery.trust == Trust::Vouched && BlockReader::open(Arc::clone(files))?.first_height() > 0
    {
        let anyhow = Recovery { trust: Trust::Uncontradicted, ..recovery.clone() };
        let unvouched = passed_over.iter().filter(|it| !it.is_lost).map(|it| it.height);
        for height in unvouched.collect::<Vec<_>>() {
            if let Ok(mut replayed) =
                from_checkpoint(files, height, language, &anyhow, false, after)?
            {
                replayed.notes.push(format!(
                    "began with the checkpoint of block {height}, which no block of the ledger \
                     vouches for, since the blocks before it were pruned"
                ));
                return Ok(Replayed { passed_over, ..replayed });
            }
        }
    }
    let replayed = from_genesis(Arc::clone(files), language, recovery, false, after)?;
    Ok(Replayed { passed_over, ..replayed })
}

/// Begin with one checkpoint, then read, check and execute the blocks after it; or why it cannot
/// be begun with. `after` sees the replica after each block.
pub fn replay_behind(
    files: &Arc<dyn Files>,
    height: Height,
    language: MakeLanguage<'_>,
    workers: usize,
    after: &mut dyn FnMut(&Replica, Progress),
) -> Result<Result<Replayed, PassedOver>, Fault> {
    from_checkpoint(files, height, language, &Recovery::executing(workers), true, after)
}

fn from_checkpoint(
    files: &Arc<dyn Files>,
    height: Height,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
    at_once: bool,
    after: &mut dyn FnMut(&Replica, Progress),
) -> Result<Result<Replayed, PassedOver>, Fault> {
    let (loaded, mut reader) = match begin_at(files, height, language, recovery)? {
        Ok(begun) => begun,
        Err(passed_over) => return Ok(Err(passed_over)),
    };
    let Loaded { mut replica, base, rows, bytes } = loaded;
    let Boundary { order, result, .. } = replica.boundary();
    let mut chain = ChainVerifier::after(&order, Some(&result));
    let followed = follow(&mut replica, &mut chain, &mut reader, recovery, at_once, after)?;
    let checkpoint = Some(FromCheckpoint { base, rows, bytes });
    Ok(Ok(Replayed { checkpoint, ..Replayed::of(replica, reader, followed) }))
}

/// There is no checkpoint to begin with, and blocks from genesis on are not there.
fn pruned(reader: &BlockReader) -> Damage {
    let first = reader.first_height();
    let what = format!(
        "blocks 0 to {} were pruned, and no checkpoint of a later block holds; make the ledger \
         whole again from a backup, or with the archive: tally restore --archive",
        first - 1
    );
    Damage { height: 0, file: Stream::Orders.folder().to_owned(), offset: 0, what }
}

/// A checkpoint's replica, and a reader that has read its block; or why there is none.
fn begin_at(
    files: &Arc<dyn Files>,
    height: Height,
    language: MakeLanguage<'_>,
    recovery: &Recovery,
) -> Result<Result<(Loaded, BlockReader), PassedOver>, Fault> {
    let manifest = match read_manifest(&**files, height) {
        Ok(manifest) => manifest,
        Err(error) => return Ok(Err(PassedOver::because(height, &error))),
    };
    let reader = match reader_behind(files, &manifest)? {
        Ok(reader) => reader,
        Err(why) => return Ok(Err(PassedOver::lost(height, why))),
    };
    if let Err(why) = check_vouched(files, &manifest, recovery)? {
        return Ok(Err(why));
    }
    let loaded = load(&**files, height, language, recovery.workers);
    Ok(loaded.map(|loaded| (loaded, reader)).map_err(|e| PassedOver::because(height, &e)))
}

/// What the ledger says of a checkpoint's state.
fn check_vouched(
    files: &Arc<dyn Files>,
    manifest: &Manifest,
    recovery: &Recovery,
) -> Result<Result<(), PassedOver>, Fault> {
    let height = manifest.height();
    let digest = match manifest.digest() {
        Ok(digest) => digest,
        Err(error) => return Ok(Err(PassedOver::because(height, &error))),
    };
    Ok(match vouched_at(files, height)? {
        Some(vouched) if vouched.digest == digest => Ok(()),
        Some(vouched) => Err(PassedOver::contradicted(height, vouched.by)),
        None if recovery.trust == Trust::Uncontradicted => Ok(()),
        None if recovery.executed == Some((height, digest)) => Ok(()),
        None => Err(PassedOver::not_vouched_for(height)),
    })
}

/// A reader that has just read the block of a checkpoint, or why that block is not in the ledger,
/// whose blocks below `durable_below` must be there.
fn reader_behind(
    files: &Arc<dyn Files>,
    manifest: &Manifest,
) -> Result<Result<BlockReader, &'static str>, Fault> {
    let Manifest { order, result, durable_below, .. } = manifest;
    let mut reader = BlockReader::open_at(Arc::clone(files), order.height)?;
    match reader.pruned() {
        Some(last) if last.order == *order && last.result == *result => return Ok(Ok(reader)),
        Some(last) if last.order.height >= order.height => {
            return Ok(Err("the blocks behind it were pruned"));
        }
        _ => {}
    }
    loop {
        let recorded = match reader.next() {
            Ok(Some(recorded)) => recorded,
            Ok(None) | Err(LogError::TornTail(_)) => {
                if reader.next_height() < *durable_below {
                    return Err(Fault::Damage(lost(&reader, order.height, *durable_below)));
                }
                return Ok(Err("the ledger ends before its block"));
            }
            Err(error) => return Err(error.into()),
        };
        if recorded.batch.height() < order.height {
            continue;
        }
        let is_its_own = recorded.batch.hash() == order.hash()
            && recorded.result.as_ref().is_none_or(|found| found.hash() == result.hash());
        return match (is_its_own, recorded.result) {
            (true, Some(_)) => Ok(Ok(reader)),
            (true, None) => Ok(Err("the ledger does not hold the result of its block")),
            (false, _) => Ok(Err("it is of another block than the ledger's")),
        };
    }
}

/// The ledger has lost blocks that were on stable storage when a checkpoint was taken.
fn lost(reader: &BlockReader, checkpoint: Height, durable_below: Height) -> Damage {
    let height = reader.next_height();
    let (file, offset) = reader.end().unwrap_or_default();
    let last = durable_below - 1;
    let folder = Stream::Orders.folder();
    let what = format!(
        "the ledger ends here, but the checkpoint of block {checkpoint} says that all blocks up \
         to {last} were on stable storage; if the folder `{folder}` is elsewhere, put it \
         back; to give up blocks {height} to {last}, which may have been acknowledged, move the \
         folder `{CHECKPOINT_FOLDER}` away"
    );
    Damage { height, file: file.to_owned(), offset, what }
}
