//! Opening a ledger: blocks are read, checked, executed again and compared.
//!
//! Each block must follow from the one before (chain, roots of transactions and outcomes), and
//! executing its transactions must give the same outcomes and the same effects. [`replay`] does so
//! from genesis on, which is what `verify` means; [`recover`] begins at the newest checkpoint that
//! holds, so what a node has verified when it starts are the blocks behind it.
//!
//! ```text
//!   recover   newest checkpoint ─► the one before ─► … ─► genesis       the first that holds
//!                  └────────────────────┴──── follow: the blocks behind it ───► head
//! ```
//!
//! A checkpoint is passed over if a byte of it is not as written, if it cannot be read, or if its
//! block is not in the ledger: a crash without `durability` may lose blocks that a checkpoint has
//! seen. That is said, and costs the replay of more blocks; damage to the *ledger* is a fault.
//!
//! So is a ledger that ends before a block which a checkpoint knows to have been on stable storage,
//! be it that its last block is damaged, or that its segments are not there at all: no crash tore
//! that tail, and going on would acknowledge other blocks under the same heights.

use std::sync::Arc;

use ledger::chain::ChainVerifier;
use ledger::checkpoint::{CHECKPOINT_FOLDER, heights, read_manifest};
use ledger::header::BlockHeader;
use ledger::segment::SEGMENT_FOLDER;
use ledger::{
    Block, ChainFault, Damage, EncodedBlock, Files, Genesis, LogError, LogReader, TornTail,
};
use storage::Store;
use types::{Error, Height, SqlState};

use crate::checkpoint::{Base, Loaded, load};
use crate::describe::describe_outcome;
use crate::effects::ChangedRow;
use crate::engine::collect;
use crate::language::Language;
use crate::replica::{Executed, Halt, Input, Replica};
use crate::transaction::{Transaction, encode_outcome};

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
    /// Where a writer goes on.
    pub reader: LogReader,
    /// Reported, not repaired: whoever opens the ledger for writing sets the cut bytes aside.
    pub torn_tail: Option<TornTail>,
    /// What it began with, if not with genesis.
    pub checkpoint: Option<FromCheckpoint>,
    /// Checkpoints that did not hold, newest first.
    pub passed_over: Vec<PassedOver>,
}

/// A checkpoint that a replica was made from.
pub struct FromCheckpoint {
    pub base: Base,
    pub rows: u64,
    pub bytes: u64,
}

/// A checkpoint that a replica could not be made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedOver {
    pub height: Height,
    pub why: String,
    /// It can never serve: it is damaged, or of a block that the ledger does not have. Otherwise it
    /// could not be read just now.
    pub is_lost: bool,
}

impl PassedOver {
    fn lost(height: Height, why: &str) -> PassedOver {
        PassedOver { height, why: why.to_owned(), is_lost: true }
    }

    fn because(height: Height, error: &Error) -> PassedOver {
        let is_lost = error.code() != SqlState::IO_ERROR;
        PassedOver { height, why: error.to_string(), is_lost }
    }
}

/// Makes the language of a replica over its store. Called once for each attempt.
pub type MakeLanguage<'a> = &'a dyn Fn(&Arc<Store>) -> Arc<dyn Language>;

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
    let mut reader = LogReader::open(files)?;
    let mut chain = ChainVerifier::new();
    let genesis = match reader.next_block() {
        Ok(Some(encoded)) => encoded,
        Ok(None) => return Err(Fault::Empty),
        Err(error) => return Err(error.into()),
    };
    let bytes = genesis.payload().len() as u64;
    let genesis = decode(&genesis)?;
    check_chain(&mut chain, &genesis)?;
    let genesis = Genesis::from_block(&genesis).map_err(|e| Fault::Halt(0, Halt(e.to_string())))?;
    let store = Arc::new(Store::new());
    let language = language(&store);
    let mut replica =
        Replica::new(&genesis, store, language, workers).map_err(|halt| Fault::Halt(0, halt))?;
    let mut progress = Progress { bytes, ..Progress::default() };
    after(&replica, progress);
    let torn_tail = follow(&mut replica, &mut chain, &mut reader, &mut progress, after)?;
    let (checkpoint, passed_over) = (None, Vec::new());
    Ok(Replayed { replica, progress, reader, torn_tail, checkpoint, passed_over })
}

/// Begin with the newest checkpoint that holds, then read, check and execute the blocks behind it.
pub fn recover(
    files: Arc<dyn Files>,
    language: MakeLanguage<'_>,
    workers: usize,
    report: &mut dyn FnMut(Progress),
) -> Result<Replayed, Fault> {
    let mut passed_over = Vec::new();
    for height in heights(&*files).map_err(Fault::Io)?.into_iter().rev() {
        match begin_at(&files, height, language, workers)? {
            Ok((loaded, mut reader)) => {
                let Loaded { mut replica, base, rows, bytes } = loaded;
                let mut chain = ChainVerifier::after(&replica.boundary().header);
                let mut progress = Progress::default();
                let after = &mut |_: &Replica, progress| report(progress);
                let torn_tail =
                    follow(&mut replica, &mut chain, &mut reader, &mut progress, after)?;
                let checkpoint = Some(FromCheckpoint { base, rows, bytes });
                return Ok(Replayed {
                    replica,
                    progress,
                    reader,
                    torn_tail,
                    checkpoint,
                    passed_over,
                });
            }
            Err(it) => passed_over.push(it),
        }
    }
    let replayed = replay(files, language, workers, report)?;
    Ok(Replayed { passed_over, ..replayed })
}

/// A checkpoint's replica, and a reader that has read its block; or why there is none.
fn begin_at(
    files: &Arc<dyn Files>,
    height: Height,
    language: MakeLanguage<'_>,
    workers: usize,
) -> Result<Result<(Loaded, LogReader), PassedOver>, Fault> {
    let (header, durable_below) = match read_manifest(&**files, height) {
        Ok(manifest) => (manifest.header, manifest.durable_below),
        Err(error) => return Ok(Err(PassedOver::because(height, &error))),
    };
    let reader = match reader_behind(files, &header, durable_below)? {
        Ok(reader) => reader,
        Err(why) => return Ok(Err(PassedOver::lost(height, why))),
    };
    let loaded = load(&**files, height, language, workers);
    Ok(loaded.map(|loaded| (loaded, reader)).map_err(|e| PassedOver::because(height, &e)))
}

/// A reader that has just read the block of a checkpoint, or why that block is not in the ledger,
/// whose blocks below `durable_below` must be there.
fn reader_behind(
    files: &Arc<dyn Files>,
    header: &BlockHeader,
    durable_below: Height,
) -> Result<Result<LogReader, &'static str>, Fault> {
    let mut reader = LogReader::open_at(Arc::clone(files), header.height)?;
    loop {
        match reader.next_block() {
            Ok(Some(block)) if block.height() < header.height => {}
            Ok(Some(block)) if block.hash() == header.hash() => return Ok(Ok(reader)),
            Ok(Some(_)) => return Ok(Err("it is of another block than the ledger's")),
            Ok(None) | Err(LogError::TornTail(_)) => {
                if reader.next_height() < durable_below {
                    return Err(Fault::Damage(lost(&reader, header.height, durable_below)));
                }
                return Ok(Err("the ledger ends before its block"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The ledger has lost blocks that were on stable storage when a checkpoint was taken.
fn lost(reader: &LogReader, checkpoint: Height, durable_below: Height) -> Damage {
    let height = reader.next_height();
    let (file, offset) = reader.end().unwrap_or_default();
    let last = durable_below - 1;
    let what = format!(
        "the ledger ends here, but the checkpoint of block {checkpoint} says that all blocks up \
         to {last} were on stable storage; if the folder `{SEGMENT_FOLDER}` is elsewhere, put it \
         back; to give up blocks {height} to {last}, which may have been acknowledged, move the \
         folder `{CHECKPOINT_FOLDER}` away"
    );
    Damage { height, file: file.to_owned(), offset, what }
}

/// Apply the ledger's blocks behind a replica's head, up to its end. The replica, the chain and the
/// reader stand behind the same block.
pub fn follow(
    replica: &mut Replica,
    chain: &mut ChainVerifier,
    reader: &mut LogReader,
    progress: &mut Progress,
    after: &mut dyn FnMut(&Replica, Progress),
) -> Result<Option<TornTail>, Fault> {
    loop {
        let encoded = match reader.next_block() {
            Ok(Some(encoded)) => encoded,
            Ok(None) => return Ok(None),
            Err(LogError::TornTail(tail)) => return Ok(Some(tail)),
            Err(error) => return Err(error.into()),
        };
        let block = decode(&encoded)?;
        check_chain(chain, &block)?;
        execute(replica, &block)?;
        progress.bytes += encoded.payload().len() as u64;
        progress.blocks += 1;
        progress.transactions += block.transactions.len() as u64;
        after(replica, *progress);
    }
}

fn decode(encoded: &EncodedBlock) -> Result<Block, Fault> {
    encoded.decode().map_err(|error| {
        mismatch(encoded.height(), "the block's encoding", "a block", error.to_string())
    })
}

fn check_chain(chain: &mut ChainVerifier, block: &Block) -> Result<(), Fault> {
    match chain.push(block) {
        Ok(_) => Ok(()),
        Err(ChainFault { height, what, expected, found }) => {
            Err(mismatch(height, what, &expected, found))
        }
    }
}

/// Execute one block of a ledger and compare.
fn execute(replica: &mut Replica, block: &Block) -> Result<(), Fault> {
    let height = block.header.height;
    let inputs = block
        .transactions
        .iter()
        .map(|payload| Input { payload: payload.clone(), compiled: None })
        .collect();
    let executed =
        replica.execute(block.header.time_us, inputs).map_err(|halt| Fault::Halt(height, halt))?;
    compare(block, &executed)?;
    replica.publish();
    drop(executed);
    collect(replica.store(), height);
    Ok(())
}

fn compare(block: &Block, executed: &Executed) -> Result<(), Fault> {
    if executed.block.header == block.header {
        return Ok(());
    }
    let height = block.header.height;
    for (index, (recorded, outcome)) in block.outcomes.iter().zip(&executed.outcomes).enumerate() {
        let again = encode_outcome(outcome);
        if *recorded != again {
            let what = match Transaction::decode(&block.transactions[index]) {
                Ok(transaction) => format!("the outcome of `{}`", transaction.body.describe()),
                Err(_) => "the outcome".into(),
            };
            let (expected, found) = (describe_outcome(recorded), describe_outcome(&again));
            let mut changes = executed.effects.rows();
            changes.retain(|row| row.transaction == Some(index));
            let transaction = Some(index);
            let fault = Mismatch { height, transaction, what, expected, found, changes };
            return Err(Fault::Mismatch(fault));
        }
    }
    let (ours, theirs) = (&executed.block.header, &block.header);
    let hex = |hash: &ledger::Hash| ledger::hash::to_hex(hash);
    if ours.effects_root != theirs.effects_root {
        let changes = executed.effects.rows();
        return Err(Fault::Mismatch(Mismatch {
            height,
            transaction: only_transaction(block),
            what: "the effects root".into(),
            expected: hex(&theirs.effects_root),
            found: hex(&ours.effects_root),
            changes,
        }));
    }
    for (what, ours, theirs) in [
        ("the parameters", ours.parameters_hash, theirs.parameters_hash),
        ("the previous block's hash", ours.previous_hash, theirs.previous_hash),
    ] {
        if ours != theirs {
            return Err(mismatch(height, what, &hex(&theirs), hex(&ours)));
        }
    }
    Err(mismatch(height, "the header", &format!("{theirs:?}"), format!("{ours:?}")))
}

/// The transaction whose effects differ, where there is no choice.
fn only_transaction(block: &Block) -> Option<usize> {
    (block.transactions.len() == 1).then_some(0)
}

/// A difference that is the block's as a whole.
fn mismatch(height: Height, what: &str, expected: &str, found: String) -> Fault {
    Fault::Mismatch(Mismatch {
        height,
        transaction: None,
        what: what.to_owned(),
        expected: expected.to_owned(),
        found,
        changes: Vec::new(),
    })
}
