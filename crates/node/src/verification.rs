//! A folder becomes a verdict on it: `tally verify`.
//!
//! All blocks since genesis are executed again and compared. Checkpoints are held against what that
//! comes to: one that says otherwise is a fault of the checkpoint, not of the ledger. Reading the
//! newest checkpoint instead is quicker and shows less: that what is behind it follows from it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use engine::{
    ChangedRow, Fault, Language, PassedOver, Progress, Replayed, Replica, recover, replay_watched,
};
use ledger::hash::to_hex;
use ledger::{Files, Hash, RealFiles, checkpoint};
use sql::session::schema::Schema;
use storage::Store;

use crate::database::workers;

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
    verify_files(Arc::new(RealFiles::read_only(data)?), workers_setting)
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
    let replayed = replay_watched(files.clone(), &language, workers(workers_setting), &mut after);
    let found = found(replayed, progress)?;
    let beyond = manifests.into_iter().filter(|height| *height > found.height);
    checkpoints.extend(beyond.map(|height| CheckpointVerdict {
        height,
        fault: Some("its block is not in the ledger, or not sound".to_owned()),
    }));
    Ok(Verification { checkpoints, ..found })
}

/// Checks what lies behind the newest checkpoint that holds.
pub fn verify_from_checkpoint(data: &Path, workers_setting: u32) -> Result<Verification> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::read_only(data)?);
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
    Ok(Verification { from, checkpoints, ..found(replayed, progress)? })
}

fn language(_: &Arc<Store>) -> Arc<dyn Language> {
    Arc::new(Schema::new())
}

/// Whether a checkpoint at the head of a replica is whole, and of this very state.
fn check(files: &dyn Files, replica: &Replica) -> Result<()> {
    let manifest = checkpoint::read_manifest(files, replica.head().height)?;
    engine::checkpoint::check(files, &manifest)?;
    ensure!(manifest.header.hash() == replica.head().hash, "it is of another block");
    let snapshot = replica.store().snapshot();
    let schema = replica.language().schema_image(&snapshot)?;
    let executed = engine::checkpoint::digest(&snapshot, replica.parameters(), &schema)?;
    let written = manifest.digest()?;
    let (executed, written) = (to_hex(&executed), to_hex(&written));
    ensure!(executed == written, "its state has digest {written}; execution gives {executed}");
    Ok(())
}

fn found(replayed: Result<Replayed, Fault>, progress: Progress) -> Result<Verification> {
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
    let Progress { blocks, transactions, bytes: ledger_bytes } = progress;
    let (from, checkpoints) = (None, Vec::new());
    Ok(Verification {
        height,
        block_hash,
        blocks,
        transactions,
        ledger_bytes,
        from,
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
