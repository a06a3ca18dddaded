//! `tally restore`: the ledger as it was at a block or at a time, in a new folder.
//!
//! Out of a data folder, a backup, an archive, or several of them together: a pruned ledger and the
//! archives of what it had before are one ledger again. What comes from a backup is compared with
//! its digests as it is read. Blocks are copied one by one, as the chains they are; the newest
//! checkpoint that is not above the last one comes with them, and the blocks after it are
//! executed, which also gives results that a crash has taken. So what is restored holds when the
//! command ends, as far as a start would look, and `verify` looks at the rest.
//!
//! A block that a later one [skips](engine::skip) cannot be executed without that one.
//! So a time between the two gives what was released then, the ledger before the first
//! skipped block; and such a block is no block to end with.
//!
//! ```text
//! RESTORING ─► kept headers ─► blocks ─► checkpoint ─► executed, checkpoint of its end ─► done
//! created                                                                     RESTORING removed
//! ```
//!
//! Each step is synced before the next. A folder with the file `RESTORING` is half of a ledger, and
//! no command but `rm` takes it. The folders that it comes from are only read. A node that goes on
//! from there makes another ledger than the original one, with the same blocks up to where they
//! part.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use engine::checkpoint::Taken;
use engine::checkpoint::vouched::vouched_at;
use engine::skip::{BLOCKS_MAX, skipped_by};
use ledger::backup::JoinedFiles;
use ledger::chain::ChainVerifier;
use ledger::hash::to_hex;
use ledger::log::Pruned;
use ledger::prune::copy_headers;
use ledger::{
    Batch, BlockReader, BlockResult, BlockWriter, Files, Hash, LogError, LogOptions, OrderHeader,
    RealFiles, Record, Recorded, ResultHeader, checkpoint, headers,
};
use serde_json::json;
use types::{DataType, Value};

use crate::cli::{self, Exit, Output};
use crate::database;
use crate::folders::{self, RESTORING};
use crate::progress::Progress;

/// Blocks are appended, and synced, in groups of so many bytes.
const GROUP_BYTES: usize = 4 << 20;

/// Up to where.
#[derive(Clone, Copy)]
enum Until {
    End,
    Block(u64),
    /// Microseconds since 2000-01-01 UTC.
    Time(i64),
}

impl Until {
    /// Whether the block at a height may be needed.
    fn reaches(self, height: u64) -> bool {
        !matches!(self, Until::Block(last) if height > last)
    }

    fn of(arguments: &cli::Restore) -> Result<Until> {
        if let Some(height) = arguments.to_block {
            return Ok(Until::Block(height));
        }
        let Some(text) = &arguments.to_time else {
            return Ok(Until::End);
        };
        match Value::read_text(&DataType::Timestamptz(None), text) {
            Ok(Value::Timestamptz(time_us)) => Ok(Until::Time(time_us)),
            _ => bail!("`{text}` is not a time such as 2026-01-31 23:59:59+00"),
        }
    }

    fn holds(self, header: &OrderHeader) -> bool {
        match self {
            Until::End => true,
            Until::Block(height) => header.height <= height,
            Until::Time(time_us) => header.time_us <= time_us,
        }
    }
}

/// What came of it.
pub struct Restored {
    pub height: u64,
    pub head: Hash,
    /// The checkpoint whose blocks were not executed, if there was one, and that of the end.
    from: Option<u64>,
    pub taken: Taken,
}

pub fn run(arguments: &cli::Restore, output: Output) -> Result<Exit> {
    let Restored { height, head, from, taken } = make(arguments)?;
    let head = to_hex(&head);
    match output {
        Output::Text => {
            if let Some(from) = from {
                println!("from          checkpoint {from}; blocks up to it were not executed");
            }
            println!("height        {height}\nhead          {head}");
        }
        Output::Json => println!(
            "{}",
            json!({
                "height": height, "head": head, "checkpoint": taken.height,
                "from_checkpoint": from,
            })
        ),
    }
    Ok(Exit::Ok)
}

/// What fails leaves nothing behind, so that the next try finds the folder as this one did.
pub fn make(arguments: &cli::Restore) -> Result<Restored> {
    let target = &arguments.data;
    ensure_new(target)?;
    let (was_there, mut begun) = (target.exists(), false);
    let made = make_in_new(arguments, &mut begun);
    if made.is_err() && begun {
        let cleared = match was_there {
            true => clear(target),
            false => std::fs::remove_dir_all(target),
        };
        if let Err(error) = cleared {
            eprintln!("tally: remove {}: it holds half of a ledger ({error})", target.display());
        }
    }
    made
}

fn clear(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => std::fs::remove_dir_all(path)?,
            false => std::fs::remove_file(path)?,
        }
    }
    Ok(())
}

/// `begun`: the folder is this one's, and holds something.
fn make_in_new(arguments: &cli::Restore, begun: &mut bool) -> Result<Restored> {
    let until = Until::of(arguments)?;
    let target = &arguments.data;
    let source = source(arguments)?;
    let lowest = lowest_block(&source, until)?;
    let step = Progress::begin("copying blocks");
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(target)?);
    *begun = true;
    begin(&*files)?;
    let copied = copy(&source, &files, until)?;
    let height = copied.height;
    if let Until::Block(wanted) = until {
        ensure!(height == wanted, "the ledger ends at block {height}, there is no block {wanted}");
    }
    let from = copy_checkpoint(&source, &files, &copied)?;
    if from.is_none() && lowest > 0 {
        let what = format!("no checkpoint up to block {height} holds");
        let hint = "Restore a later block, or name the archive of the blocks that were pruned: \
                    tally restore --archive FOLDER.";
        return Err(folders::refused(what).with_hint(hint).into());
    }
    // The next step opens the folder itself.
    drop(files);
    step.end(&format!("up to block {height}"));
    let step = Progress::begin("executing them");
    let behind = height - from.unwrap_or(0);
    let settled = database::execute_folder(target, &mut |progress| {
        step.advance(progress.blocks as f64 / behind.max(1) as f64);
    })?;
    step.end("every hash, root and effect is as recorded");
    finish(&RealFiles::open(target)?)?;
    Ok(Restored { height, head: settled.head, from, taken: settled.taken })
}

fn ensure_new(folder: &Path) -> Result<()> {
    let mut names = match std::fs::read_dir(folder) {
        Ok(names) => names.filter_map(|entry| Some(entry.ok()?.file_name())).peekable(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    if names.peek().is_none() {
        return Ok(());
    }
    let what = format!("{} is not empty", folder.display());
    let hint = match names.any(|name| name == RESTORING) {
        true => "It holds a restore that was not finished: remove it.",
        false => "Choose a new folder.",
    };
    Err(folders::refused(what).with_hint(hint).into())
}

/// What is restored from, as one ledger.
fn source(arguments: &cli::Restore) -> Result<Arc<dyn Files>> {
    let from = folders::open(&arguments.from)?;
    let archives = arguments.archive.iter().map(|folder| folders::open(folder));
    let mut parts = archives.collect::<Result<Vec<_>>>()?;
    if parts.is_empty() {
        return Ok(from);
    }
    parts.insert(0, from);
    Ok(Arc::new(JoinedFiles(parts)))
}

/// The lowest block that can be restored, which must not be above what is asked for: 0, or that of
/// the oldest checkpoint of a pruned ledger.
fn lowest_block(source: &Arc<dyn Files>, until: Until) -> Result<u64> {
    let first = BlockReader::open(source.clone())?.first_height();
    if first == 0 {
        return Ok(0);
    }
    for height in checkpoint::heights(&**source)? {
        let Ok(manifest) = checkpoint::read_manifest(&**source, height) else { continue };
        if height + 1 < first || engine::checkpoint::check(&**source, &manifest).is_err() {
            continue;
        }
        if until.holds(&manifest.order) {
            return Ok(height);
        }
        let what = format!("the lowest block that can be restored is {height}");
        let hint = "Name the archive of the blocks before it: tally restore --archive FOLDER.";
        let error = folders::refused(what).with_hint(hint);
        return Err(error.with_detail(format!("Blocks 0 to {} were pruned.", first - 1)).into());
    }
    let what = format!("blocks 0 to {} were pruned, and no checkpoint holds", first - 1);
    let hint = "Name the archive of these blocks: tally restore --archive FOLDER.";
    Err(folders::refused(what).with_hint(hint).into())
}

fn begin(files: &dyn Files) -> Result<()> {
    files.create(RESTORING)?.sync()?;
    Ok(files.sync_folder("")?)
}

fn finish(files: &dyn Files) -> Result<()> {
    files.remove(RESTORING)?;
    Ok(files.sync_folder("")?)
}

/// The last block that was copied.
struct Copied {
    height: u64,
    /// Order and result hashes of the blocks that the source has checkpoints of.
    hashes: Hashes,
}

/// Copies the blocks, and the headers of those that are not there any more.
fn copy(source: &Arc<dyn Files>, target: &Arc<dyn Files>, until: Until) -> Result<Copied> {
    let mut reader = BlockReader::open(source.clone())?;
    let heights = checkpoint::heights(&**source)?;
    let mut hashes = BTreeMap::new();
    let (mut chain, log) = match reader.pruned() {
        None => (ChainVerifier::new(), writer(target)?),
        Some(last) => {
            copy_headers(&**source, &**target)?;
            check_headers(&**target, last)?;
            hashes.insert(last.order.height, (last.order.hash(), last.result.hash()));
            let log = BlockWriter::begin_behind(target.clone(), last, LogOptions::default())?;
            (ChainVerifier::after(&last.order, Some(&last.result)), log)
        }
    };
    let mut group = Group { log, orders: Vec::new(), results: Vec::new(), bytes: 0 };
    let mut last = Last { waiting: VecDeque::new(), ends: false };
    while !last.is_decided() {
        let is_behind = last.ends || !until.reaches(reader.next_height());
        let (recorded, torn) = match reader.next() {
            Ok(recorded) => (recorded, None),
            Err(LogError::TornTail(tail)) => (None, Some(tail)),
            // What is damaged there is not asked for.
            Err(_) if is_behind => break,
            Err(error) => return Err(error.into()),
        };
        let Some(recorded) = recorded else {
            if !is_behind {
                folders::tell_end(&**source, reader.next_height(), torn.as_ref())?;
            }
            break;
        };
        let next = last.push(recorded, until)?;
        next.map_or(Ok(()), |next| {
            take_block(next, &mut chain, &heights, &mut hashes, &mut group)
        })?;
    }
    for next in last.end(until)? {
        take_block(next, &mut chain, &heights, &mut hashes, &mut group)?;
    }
    group.end()?;
    let head = chain.head().context("there is no block up to there")?;
    Ok(Copied { height: head.height, hashes })
}

/// Hashes of orders and of results, by height.
type Hashes = BTreeMap<u64, (Hash, Hash)>;

/// Copies one block; `hashes`: of those at `heights`.
fn take_block(
    Read { recorded, batch, .. }: Read,
    chain: &mut ChainVerifier,
    heights: &[u64],
    hashes: &mut Hashes,
    group: &mut Group,
) -> Result<()> {
    let result = recorded.result.as_ref().map(BlockResult::of).transpose()?;
    let head = chain.push(&batch, result.as_ref())?;
    if let (Ok(_), Some(result_hash)) = (heights.binary_search(&head.height), head.result_hash) {
        hashes.insert(head.height, (head.order_hash, result_hash));
    }
    group.push(recorded)
}

/// A block, and whether it is not after the last one that is asked for.
struct Read {
    recorded: Recorded,
    batch: Batch,
    is_within: bool,
}

/// The last blocks that were read, until it is known whether the ledger can end with them.
struct Last {
    waiting: VecDeque<Read>,
    /// One after the last was read.
    ends: bool,
}

impl Last {
    /// Whether no block that could be read says more of those that are asked for.
    fn is_decided(&self) -> bool {
        let behind = self.waiting.iter().filter(|read| !read.is_within).count();
        behind >= BLOCKS_MAX as usize
    }

    /// Gives one that the ledger goes on after.
    fn push(&mut self, recorded: Recorded, until: Until) -> Result<Option<Read>> {
        let batch = Batch::of(&recorded.batch)?;
        self.ends |= !until.holds(batch.header());
        let is_within = !self.ends;
        self.waiting.push_back(Read { recorded, batch, is_within });
        let goes = is_within && self.waiting.len() > BLOCKS_MAX as usize;
        Ok(if goes { self.waiting.pop_front() } else { None })
    }

    /// Those of the rest that are asked for, but for blocks that are skipped after them.
    fn end(mut self, until: Until) -> Result<Vec<Read>> {
        let behind = self.waiting.iter().filter(|read| !read.is_within);
        let skips = behind.filter_map(|read| {
            let (first, order) = skipped_by(&read.batch)?;
            let mut within = self.waiting.iter().filter(|read| read.is_within);
            let is_it = |read: &Read| read.batch.height() == first && read.batch.hash() == order;
            within.any(is_it).then(|| (first, read.batch.height()))
        });
        if let Some((first, by)) = skips.min() {
            if let Until::Block(height) = until {
                let what = format!("block {height} is no block that a ledger can end with");
                return Err(folders::refused(what)
                    .with_detail(format!("Blocks {first} to {} are skipped by block {by}.", by - 1))
                    .with_hint(format!("Restore block {} or block {by}.", first - 1))
                    .into());
            }
            eprintln!(
                "tally: blocks {first} to {} were skipped later, by block {by}: the ledger ends \
                 before them",
                by - 1
            );
            self.waiting.retain(|read| read.batch.height() < first);
        }
        Ok(self.waiting.into_iter().filter(|read| read.is_within).collect())
    }
}

/// The kept headers must be chains from genesis on that end with the last pruned block.
fn check_headers(target: &dyn Files, last: &Pruned) -> Result<()> {
    let first = last.order.height + 1;
    headers::check_chain::<OrderHeader>(target, first, &last.order.hash())?;
    headers::check_chain::<ResultHeader>(target, first, &last.result.hash())?;
    Ok(())
}

/// Blocks on their way to the log.
struct Group {
    log: BlockWriter,
    orders: Vec<Record>,
    results: Vec<Record>,
    bytes: usize,
}

impl Group {
    fn push(&mut self, recorded: Recorded) -> Result<()> {
        let Recorded { batch, result } = recorded;
        self.bytes += batch.payload().len();
        self.bytes += result.as_ref().map_or(0, |result| result.payload().len());
        self.orders.push(batch);
        self.results.extend(result);
        if self.bytes >= GROUP_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.log.append_order(&self.orders)?;
        self.log.append_results(&self.results)?;
        self.orders.clear();
        self.results.clear();
        self.bytes = 0;
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.write()?;
        Ok(self.log.sync_results()?)
    }
}

fn writer(files: &Arc<dyn Files>) -> Result<BlockWriter> {
    let mut reader = BlockReader::open(files.clone())?;
    reader.next()?;
    Ok(BlockWriter::resume(reader, LogOptions::default())?)
}

/// Copies the newest checkpoint that holds, of one of these blocks, and returns its height: of
/// those that one of the blocks vouches for, as others are passed over where none was pruned.
fn copy_checkpoint(
    source: &Arc<dyn Files>,
    target: &Arc<dyn Files>,
    copied: &Copied,
) -> Result<Option<u64>> {
    let mut unvouched = None;
    for (height, hashes) in copied.hashes.iter().rev() {
        let Ok(manifest) = checkpoint::read_manifest(&**source, *height) else { continue };
        let of = (manifest.order.hash(), manifest.result.hash());
        if of != *hashes || engine::checkpoint::check(&**source, &manifest).is_err() {
            continue;
        }
        let vouched = vouched_at(target, *height)?.map(|vouched| vouched.digest);
        match manifest.digest() {
            Ok(digest) if vouched == Some(digest) => {
                checkpoint::copy(&**source, &**target, &manifest)?;
                return Ok(Some(*height));
            }
            Ok(_) if vouched.is_none() => _ = unvouched.get_or_insert((*height, manifest)),
            // The ledger contradicts it.
            _ => {}
        }
    }
    let Some((height, manifest)) = unvouched else { return Ok(None) };
    checkpoint::copy(&**source, &**target, &manifest)?;
    Ok(Some(height))
}

#[cfg(test)]
mod tests {
    use engine::EXECUTOR;
    use kit::random::Random;
    use ledger::memory_files::Failure;
    use ledger::{Genesis, MemoryFiles, Parameters};

    use super::*;

    /// Whatever a power cut leaves of a restore, it is the whole of it or says that it is not.
    #[test]
    fn half_a_restore_says_so_on_every_disk_that_a_power_cut_leaves() {
        let source: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let parameters = Parameters::new("serial");
        let genesis = Genesis { ledger_id: [7; 16], time_us: 1, parameters, executor: EXECUTOR };
        drop(BlockWriter::begin(source.clone(), &genesis, LogOptions::default()).unwrap());
        let restore = |target: &MemoryFiles| -> Result<()> {
            let files: Arc<dyn Files> = Arc::new(target.clone());
            begin(&*files)?;
            copy(&source, &files, Until::End)?;
            finish(&*files)
        };
        let whole = MemoryFiles::new();
        restore(&whole).unwrap();
        for operation in 0..=whole.operations() {
            let target = MemoryFiles::new();
            target.fail_at(Some(Failure::PowerOff(operation)));
            let done = restore(&target).is_ok();
            for seed in 0..10 {
                let image = target.crash(&mut Random::new(seed));
                let is_marked = image.paths().iter().any(|path| path == RESTORING);
                let is_whole = image.paths() == whole.paths();
                assert!(is_marked || is_whole || image.paths().is_empty(), "{operation}");
                assert!(!done || is_whole, "{operation}");
                let refused = folders::refuse_unless_data(&image, Path::new("x")).is_err();
                assert_eq!(refused, is_marked);
            }
        }
    }
}
