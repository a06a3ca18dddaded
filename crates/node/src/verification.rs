//! A folder becomes a verdict on it: `tally verify`.
//!
//! All blocks since genesis are executed again and compared. Checkpoints are held against what that
//! comes to: one that says otherwise is a fault of the checkpoint, not of the ledger. Reading the
//! newest checkpoint instead is quicker and shows less: that what is behind it follows from it.
//! Where blocks were pruned it begins with the oldest checkpoint, and the kept headers must lead
//! there.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use engine::checkpoint::State;
use engine::{
    ChangedRow, Fault, Language, PassedOver, Progress, Replayed, Replica, recover, replay_behind,
    replay_watched,
};
use ledger::hash::to_hex;
use ledger::headers::{self, HEADER_FOLDER};
use ledger::{BlockHeader, ChainVerifier, Damage, Files, Hash, LogReader, checkpoint, first_block};
use sql::session::schema::Schema;
use storage::Store;

use crate::database::workers;
use crate::folders;

/// What `tally verify` found.
#[derive(Debug)]
pub struct Verification {
    /// Height and header hash of the newest block that holds.
    pub height: u64,
    pub block_hash: Hash,
    pub blocks: u64,
    pub transactions: u64,
    pub ledger_bytes: u64,
    /// The checkpoint that it began with, if not with genesis; blocks, transactions and bytes are
    /// those behind it.
    pub from: Option<u64>,
    /// The oldest block that is there; of those before there are headers.
    pub first_block: u64,
    /// All checkpoints up to the height, oldest first.
    pub checkpoints: Vec<CheckpointVerdict>,
    pub verdict: Verdict,
}

/// What became of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointVerdict {
    pub height: u64,
    /// Why it does not hold, if it does not.
    pub fault: Option<String>,
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
    verify_files(folders::open(data)?, workers_setting)
}

/// The same for files of any kind: all blocks since genesis, and what checkpoints say of the state
/// at their heights.
pub fn verify_files(files: Arc<dyn Files>, workers_setting: u32) -> Result<Verification> {
    let manifests = checkpoint::heights(&*files)?;
    let mut progress = Progress::default();
    let mut checkpoints = Vec::new();
    let mut after = |replica: &Replica, so_far| {
        progress = so_far;
        let height = replica.head().height;
        if manifests.contains(&height) {
            let fault = check(&*files, replica).err().map(|error| error.to_string());
            checkpoints.push(CheckpointVerdict { height, fault });
        }
    };
    let workers = workers(workers_setting);
    let (from, replayed) = match pruned(&files) {
        Ok(None) => (None, replay_watched(files.clone(), &language, workers, &mut after)),
        Ok(Some(header)) => replay_pruned(&files, &header, workers, &mut after)?,
        Err(fault) => (None, Err(fault)),
    };
    if let (Some(height), Ok(replayed)) = (from, &replayed) {
        let passed_over = replayed
            .passed_over
            .iter()
            .map(|it| CheckpointVerdict { height: it.height, fault: Some(it.why.clone()) });
        let begun_with = CheckpointVerdict { height, fault: None };
        checkpoints.splice(0..0, passed_over.chain([begun_with]));
    }
    let found = found(&files, replayed, progress, from)?;
    let beyond = manifests.into_iter().filter(|height| *height > found.height);
    checkpoints.extend(beyond.map(|height| CheckpointVerdict {
        height,
        fault: Some("its block is not in the ledger, or not sound".to_owned()),
    }));
    Ok(Verification { checkpoints, ..found })
}

/// The newest block of which there is only a header, if blocks were pruned.
fn pruned(files: &Arc<dyn Files>) -> Result<Option<BlockHeader>, Fault> {
    Ok(LogReader::open(files.clone())?.pruned().cloned())
}

type Watch<'a> = &'a mut dyn FnMut(&Replica, Progress);

/// Where blocks were pruned: the kept headers must be a chain up to the first block, the blocks up
/// to the oldest checkpoint that holds must go on with it, and those behind it are executed.
fn replay_pruned(
    files: &Arc<dyn Files>,
    last: &BlockHeader,
    workers: usize,
    after: Watch<'_>,
) -> Result<(Option<u64>, Result<Replayed, Fault>)> {
    let mut passed_over = Vec::new();
    for height in checkpoint::heights(&**files)? {
        if let Err(fault) = check_up_to(files, last, height) {
            return Ok((None, Err(fault)));
        }
        match replay_behind(files, height, &language, workers, after) {
            Ok(Ok(replayed)) => {
                return Ok((Some(height), Ok(Replayed { passed_over, ..replayed })));
            }
            Ok(Err(it)) => passed_over.push(it),
            Err(fault) => return Ok((Some(height), Err(fault))),
        }
    }
    Ok((None, engine::replay(files.clone(), &language, workers, &mut |_| ())))
}

/// Checks the chain from genesis up to a height, by headers and then by blocks.
fn check_up_to(files: &Arc<dyn Files>, last: &BlockHeader, height: u64) -> Result<(), Fault> {
    let broken = |file: &str, height: u64, what: String| {
        Fault::Damage(Damage { height, file: file.to_owned(), offset: 0, what })
    };
    let damaged = |error: types::Error| broken(HEADER_FOLDER, 0, error.to_string());
    headers::check_chain(&**files, last.height + 1, &last.hash()).map_err(damaged)?;
    let mut reader = LogReader::open(files.clone())?;
    let mut chain = ChainVerifier::after(last);
    while reader.next_height() <= height
        && let Some(encoded) = reader.next_block()?
    {
        let block =
            encoded.decode().map_err(|e| broken("segments", encoded.height(), e.to_string()))?;
        chain.push(&block).map_err(|fault| broken("segments", fault.height, fault.to_string()))?;
    }
    Ok(())
}

/// Checks what lies behind the newest checkpoint that holds.
pub fn verify_from_checkpoint(data: &Path, workers_setting: u32) -> Result<Verification> {
    let files = folders::open(data)?;
    let mut progress = Progress::default();
    let workers = workers(workers_setting);
    let replayed = recover(files.clone(), &language, workers, &mut |so_far| progress = so_far);
    let mut checkpoints = Vec::new();
    let mut from = None;
    if let Ok(replayed) = &replayed {
        from = replayed.checkpoint.as_ref().map(|loaded| loaded.base.manifest.height());
        checkpoints.extend(from.map(|height| CheckpointVerdict { height, fault: None }));
        let passed_over = replayed.passed_over.iter().rev();
        checkpoints.extend(passed_over.map(|PassedOver { height, why, .. }| CheckpointVerdict {
            height: *height,
            fault: Some(why.clone()),
        }));
    }
    Ok(Verification { checkpoints, ..found(&files, replayed, progress, from)? })
}

fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Schema::new())
}

/// Whether a checkpoint at the head of a replica is whole, and of this very state.
fn check(files: &dyn Files, replica: &Replica) -> Result<()> {
    let manifest = checkpoint::read_manifest(files, replica.head().height)?;
    engine::checkpoint::check(files, &manifest)?;
    ensure!(manifest.header.hash() == replica.head().hash, "it is of another block");
    let executed = State::of(replica)?.digest()?;
    let written = manifest.digest()?;
    let (executed, written) = (to_hex(&executed), to_hex(&written));
    ensure!(executed == written, "its state has digest {written}; execution gives {executed}");
    Ok(())
}

fn found(
    files: &Arc<dyn Files>,
    replayed: Result<Replayed, Fault>,
    progress: Progress,
    from: Option<u64>,
) -> Result<Verification> {
    let first_block = first_block(&**files).unwrap_or(0);
    let (height, block_hash, verdict) = match replayed {
        Ok(replayed) => {
            let head = replayed.replica.head();
            let verdict = match replayed.torn_tail {
                None => Verdict::Sound,
                Some(tail) => Verdict::TornTail { height: tail.height, detail: tail.to_string() },
            };
            (head.height, head.hash, verdict)
        }
        // The blocks counted so far hold, and the one begun with is not one of them.
        Err(fault) => (from.unwrap_or(0) + progress.blocks, ledger::ZERO_HASH, verdict_of(fault)?),
    };
    let Progress { blocks, transactions, bytes: ledger_bytes } = progress;
    let checkpoints = Vec::new();
    Ok(Verification {
        height,
        block_hash,
        blocks,
        transactions,
        ledger_bytes,
        from,
        first_block,
        checkpoints,
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
        Fault::Io(_) | Fault::Empty | Fault::Unusable(..) => return Err(fault.into()),
    })
}
