//! A folder becomes a verdict on it: `tally verify`.
//!
//! All blocks since genesis are executed again and compared. Checkpoints are held against what that
//! comes to: one that says otherwise is a fault of the checkpoint, not of the ledger. Reading the
//! newest checkpoint instead is quicker and shows less: that what is after it follows from it.
//! Where blocks were pruned it begins with the oldest checkpoint, and the kept headers must lead
//! there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use engine::checkpoint::State;
use engine::checkpoint::vouched::{Vouched, vouched_from};
use engine::{
    ChangedRow, Fault, Language, PassedOver, Progress, Recovery, ReplayBy, Replayed, Replica,
    Skipped, Trust, recover_by, replay_behind, replay_watched,
};
use ledger::hash::to_hex;
use ledger::log::Pruned;
use ledger::{
    Batch, BlockReader, BlockResult, ChainVerifier, Damage, Electors, Files, Hash, Header,
    LogReader, OrderHeader, ResultHeader, Stream, ZERO_HASH, checkpoint, first_block, headers,
    votes,
};
use sql::session::schema::Schema;
use storage::Store;
use types::Height;

use crate::database::workers;
use crate::{folders, receipts};

/// What `tally verify` found.
#[derive(Debug)]
pub struct Verification {
    /// Height and result hash of the newest block that holds.
    pub height: u64,
    pub head: Hash,
    pub blocks: u64,
    pub transactions: u64,
    pub ledger_bytes: u64,
    /// The checkpoint that it began with, if not with genesis; blocks, transactions and bytes are
    /// those after it.
    pub from: Option<u64>,
    /// The oldest block that is there; of those before there are headers.
    pub first_block: u64,
    /// The last blocks whose results were not on disk. That is no damage, since executing their
    /// orders gives them.
    pub results_missing: u64,
    /// Where the results end with bytes that are none.
    pub results_torn: Option<String>,
    /// Orders at the end that the other members of a cluster have to confirm.
    pub unconfirmed: u64,
    /// Blocks that the ledger records as skipped.
    pub skips: Vec<Skipped>,
    /// Of a member of a cluster: what certificates its folder has, up to the height.
    pub certified: Option<Certificates>,
    /// All checkpoints up to the height, oldest first.
    pub checkpoints: Vec<CheckpointVerdict>,
    pub verdict: Verdict,
}

/// Certificates that hold, for results that executing gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Certificates {
    pub last: u64,
    pub count: u64,
}

/// What became of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointVerdict {
    pub height: u64,
    /// Why it does not hold, if it does not.
    pub fault: Option<String>,
    /// A crash came before the ledger said what its digest is. No start uses it, and the next
    /// checkpoint takes its place: no fault of what is kept.
    pub is_unfinished: bool,
}

impl CheckpointVerdict {
    fn holding(height: Height) -> CheckpointVerdict {
        CheckpointVerdict { height, fault: None, is_unfinished: false }
    }

    /// What is kept is not what it should be.
    pub fn is_wrong(&self) -> bool {
        self.fault.is_some() && !self.is_unfinished
    }

    fn failing(height: Height, fault: String) -> CheckpointVerdict {
        CheckpointVerdict { height, fault: Some(fault), is_unfinished: false }
    }

    /// Of one that a start passes over, where `said` is what the ledger says of states.
    fn passed_over(
        files: &dyn Files,
        said: &BTreeMap<Height, Vec<Vouched>>,
        by: &PassedOver,
    ) -> CheckpointVerdict {
        let is_whole = || checkpoint::read_manifest(files, by.height).is_ok();
        let is_unfinished = !said.contains_key(&by.height) && (!by.is_lost || !is_whole());
        CheckpointVerdict { height: by.height, fault: Some(by.why.clone()), is_unfinished }
    }
}

/// The first thing that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every hash, root and re-executed effect is as recorded.
    Sound,
    /// The last order is incomplete or its checksum is wrong; all before it holds.
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
    let vouched = vouched_from(&files, 0)?;
    let mut contradicted = None;
    let mut kept = Kept::of(&files)?;
    let mut after = |replica: &Replica, so_far| {
        progress = so_far;
        let height = replica.head().height;
        if let Some(said) = vouched.get(&height).filter(|_| contradicted.is_none()) {
            contradicted = compare_vouched(replica, said);
        }
        if let Some(kept) = kept.as_mut().filter(|_| contradicted.is_none()) {
            contradicted = kept.compare(replica.head());
        }
        if manifests.contains(&height) {
            let is_silent = !vouched.contains_key(&height);
            checkpoints.push(match check(&*files, replica) {
                Ok(()) => CheckpointVerdict::holding(height),
                Err(error) => CheckpointVerdict {
                    is_unfinished: is_silent && checkpoint::read_manifest(&*files, height).is_err(),
                    ..CheckpointVerdict::failing(height, error.to_string())
                },
            });
        }
    };
    let workers = workers(workers_setting);
    let (from, replayed) = match pruned(&files) {
        Ok(None) => (None, replay_watched(files.clone(), &language, workers, &mut after)),
        Ok(Some(last)) => replay_pruned(&files, &last, workers, &mut after)?,
        Err(fault) => (None, Err(fault)),
    };
    if let (Some(height), Ok(replayed)) = (from, &replayed) {
        let passed_over = replayed
            .passed_over
            .iter()
            .map(|it| CheckpointVerdict::passed_over(&*files, &vouched, it));
        let begun_with = CheckpointVerdict::holding(height);
        checkpoints.splice(0..0, passed_over.chain([begun_with]));
    }
    let found = found(&files, replayed, progress, from)?;
    let beyond = manifests.into_iter().filter(|height| *height > found.height);
    checkpoints.extend(beyond.map(|height| {
        let why = "its block is not in the ledger, or not sound";
        CheckpointVerdict::failing(height, why.to_owned())
    }));
    let certified = kept.and_then(|kept| kept.found);
    let found = Verification { checkpoints, certified, ..found };
    match (contradicted, &found.verdict) {
        (Some(verdict), Verdict::Sound | Verdict::TornTail { .. }) => {
            Ok(Verification { verdict, ..found })
        }
        _ => Ok(found),
    }
}

/// A folder's certificates, on the way through its blocks.
struct Kept {
    file: votes::CertificateSets,
    next: u64,
    found: Option<Certificates>,
}

impl Kept {
    /// `None`: the folder has none, or not the first block, which names whose votes count.
    fn of(files: &Arc<dyn Files>) -> Result<Option<Kept>> {
        let Ok(Some(genesis)) = receipts::genesis(files) else { return Ok(None) };
        let electors = Electors::of(genesis.ledger_id, &genesis.parameters)?;
        let Some(electors) = electors else { return Ok(None) };
        let file = votes::CertificateSets::read(&**files, &electors)?;
        Ok(file.map(|file| Kept { file, next: 0, found: None }))
    }

    /// A block has been executed: what is certified of it?
    fn compare(&mut self, head: engine::Head) -> Option<Verdict> {
        let height = head.height;
        while self.next < self.file.count() {
            let (set, certificate) = match self.file.at(self.next) {
                Ok(found) => found,
                Err(error) => return Some(Verdict::Damaged { height, detail: error.to_string() }),
            };
            let said = certificate.said;
            if said.height > height {
                break;
            }
            self.next += 1;
            if let Err(error) = certificate.verify(self.file.electors_of(set)) {
                let why = error.fields().detail.clone().unwrap_or_default();
                let detail = format!("the certificate of block {}: {why}", said.height);
                return Some(Verdict::Damaged { height, detail });
            }
            if said.height == height && said.result_hash != head.hash {
                let (here, there) = (to_hex(&head.hash), to_hex(&said.result_hash));
                let detail =
                    format!("block {height}: its result is {here}, and {there} is certified");
                let (transaction, changes) = (None, Vec::new());
                return Some(Verdict::Differs { height, transaction, changes, detail });
            }
            self.found = Some(Certificates { last: said.height, count: self.next });
        }
        None
    }
}

/// What blocks say of the state at a replica's head, where it is another.
fn compare_vouched(replica: &Replica, said: &[Vouched]) -> Option<Verdict> {
    let height = replica.head().height;
    let digest = State::of(replica).and_then(|state| state.digest());
    let ours = match &digest {
        Ok(digest) => to_hex(digest),
        Err(error) => error.to_string(),
    };
    let other = said.iter().find(|said| digest.as_ref() != Ok(&said.digest))?;
    let theirs = to_hex(&other.digest);
    let detail = format!(
        "block {}: it names {theirs} as the digest of the state behind block {height}; execution \
         gives {ours}",
        other.by
    );
    Some(Verdict::Differs { height: other.by, transaction: None, changes: Vec::new(), detail })
}

/// The newest block of which there are only headers, if blocks were pruned.
fn pruned(files: &Arc<dyn Files>) -> Result<Option<Pruned>, Fault> {
    Ok(BlockReader::open(files.clone())?.pruned().cloned())
}

type Watch<'a> = &'a mut dyn FnMut(&Replica, Progress);

/// Where blocks were pruned: the kept headers must be a chain up to the first block, the blocks up
/// to the oldest checkpoint that holds must go on with it, and those after it are executed.
fn replay_pruned(
    files: &Arc<dyn Files>,
    last: &Pruned,
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

/// Checks both chains from genesis up to a height, by headers and then by blocks.
fn check_up_to(files: &Arc<dyn Files>, last: &Pruned, height: u64) -> Result<(), Fault> {
    check_kept::<OrderHeader>(files, last.order.height + 1, &last.order.hash())?;
    check_results_below(files, last)?;
    let mut reader = BlockReader::open(files.clone())?;
    let mut chain = ChainVerifier::after(&last.order, Some(&last.result));
    while reader.next_height() <= height
        && let Some(recorded) = reader.next()?
    {
        let at = recorded.batch.height();
        let damaged = |stream| {
            move |error: types::Error| broken(Stream::folder(stream), at, error.to_string())
        };
        let batch = Batch::of(&recorded.batch).map_err(damaged(Stream::Orders))?;
        let result = recorded.result.as_ref().map(BlockResult::of).transpose();
        let result = result.map_err(damaged(Stream::Results))?;
        let pushed = chain.push(&batch, result.as_ref());
        let folder = Stream::Orders.folder();
        pushed.map_err(|fault| broken(folder, fault.height, fault.to_string()))?;
    }
    Ok(())
}

fn broken(file: &str, height: u64, what: String) -> Fault {
    Fault::Damage(Damage { height, file: file.to_owned(), offset: 0, what })
}

fn check_kept<H: Header>(files: &Arc<dyn Files>, first: u64, hash: &Hash) -> Result<(), Fault> {
    let folder = H::STREAM.header_folder();
    let damaged = |error: types::Error| broken(folder, 0, error.to_string());
    headers::check_chain::<H>(&**files, first, hash).map(drop).map_err(damaged)
}

/// Results may begin below the oldest order: by headers, and by those results whose orders have
/// gone, up to the last of these.
fn check_results_below(files: &Arc<dyn Files>, last: &Pruned) -> Result<(), Fault> {
    let mut results = LogReader::open(files.clone(), Stream::Results)?;
    let (first, end) = (results.first_height(), last.result.height + 1);
    let folder = Stream::Results.folder();
    let mut head = None;
    while results.next_height() < end {
        let height = results.next_height();
        let missing = || broken(folder, height, "a result is missing".to_owned());
        let result = results.next_record()?.ok_or_else(missing)?;
        match head {
            None => check_kept::<ResultHeader>(files, first, &result.previous_hash())?,
            Some(before) if before == result.previous_hash() => {}
            Some(_) => {
                let what = "the result does not follow from the one before".to_owned();
                return Err(broken(folder, height, what));
            }
        }
        head = Some(result.hash());
    }
    match head {
        None => check_kept::<ResultHeader>(files, end, &last.result.hash()),
        Some(head) if head == last.result.hash() => Ok(()),
        Some(_) => {
            let what = "the last result below the orders is another".to_owned();
            Err(broken(folder, end - 1, what))
        }
    }
}

/// Checks what lies after the newest checkpoint that holds.
pub fn verify_from_checkpoint(data: &Path, workers_setting: u32) -> Result<Verification> {
    let files = folders::open(data)?;
    let mut progress = Progress::default();
    let workers = workers(workers_setting);
    let (replay, trust) = (ReplayBy::Protocol, Trust::Vouched);
    let recovery = Recovery { workers, replay, trust, ..Recovery::default() };
    let report = &mut |so_far| progress = so_far;
    let replayed = recover_by(files.clone(), &language, &recovery, report);
    let mut checkpoints = Vec::new();
    let mut from = None;
    if let Ok(replayed) = &replayed {
        from = replayed.checkpoint.as_ref().map(|loaded| loaded.base.manifest.height());
        checkpoints.extend(from.map(CheckpointVerdict::holding));
        let passed_over = replayed.passed_over.iter().rev();
        let said = vouched_from(&files, from.unwrap_or(0))?;
        checkpoints
            .extend(passed_over.map(|it| CheckpointVerdict::passed_over(&*files, &said, it)));
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
    let is_its_own =
        manifest.order == *replica.order_header() && manifest.result == *replica.result_header();
    ensure!(is_its_own, "it is of another block");
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
    let Progress { blocks, transactions, bytes: ledger_bytes } = progress;
    let found = Verification {
        // The blocks counted so far hold, and the one begun with is not one of them.
        height: from.unwrap_or(0) + blocks,
        head: ZERO_HASH,
        blocks,
        transactions,
        ledger_bytes,
        from,
        first_block,
        results_missing: 0,
        results_torn: None,
        unconfirmed: 0,
        skips: Vec::new(),
        certified: None,
        checkpoints: Vec::new(),
        verdict: Verdict::Sound,
    };
    let replayed = match replayed {
        Ok(replayed) => replayed,
        Err(fault) => return Ok(Verification { verdict: verdict_of(fault)?, ..found }),
    };
    let engine::Head { height, hash: head, .. } = replayed.replica.head();
    let verdict = match replayed.torn_tail {
        None => Verdict::Sound,
        Some(tail) => Verdict::TornTail { height: tail.height, detail: tail.to_string() },
    };
    let results_missing = replayed.unrecorded.len() as u64;
    let results_torn = replayed.reader.torn_results().map(ToString::to_string);
    let (skips, unconfirmed) = (replayed.replica.skips().to_vec(), replayed.unconfirmed);
    let found = Verification { height, head, results_missing, results_torn, unconfirmed, ..found };
    Ok(Verification { skips, verdict, ..found })
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
