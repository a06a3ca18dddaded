//! Lower bounds for the time of a recovery, measured on the same folder and machine.
//!
//! *The disk*: all files of a folder read from front to back in pieces of a megabyte, after their
//! pages were dropped from the page cache.
//!
//! *The plain loop*: the same bytes, already in memory, decoded and put into tables by as many
//! threads as the recovery has, each its own share of them, with nothing else: no checksum, no
//! hash, no order, and no look at which of two versions of a row is the newer.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use engine::Language;
use ledger::RealFiles;
use ledger::checkpoint::{Manifest, PackReader, read_manifest};
use recovery::schemes::streams::RowLog;
use rustix::fs::{Advice, fadvise};
use sql::session::schema::Schema;
use storage::{LATEST, Store, UndoArena};
use types::Stamp;

use super::Checkpointed;

const PIECE_BYTES: usize = 1 << 20;

fn each_file(folder: &Path, visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => each_file(&path, visit)?,
            false => visit(path)?,
        }
    }
    Ok(())
}

/// Drops the pages of a folder's files from the page cache, so that the next read is one.
pub fn forget_pages(folder: &Path) -> Result<()> {
    each_file(folder, &mut |path| {
        let file = File::open(path)?;
        file.sync_all()?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    })
}

/// Bytes a second of reading a folder's files from front to back.
pub fn disk_bytes_per_second(folder: &Path) -> Result<f64> {
    forget_pages(folder)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    let start = Instant::now();
    each_file(folder, &mut |path| {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                read => bytes += read,
            }
        }
    })?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// The plain loop over a checkpoint's rows.
pub fn insert_checkpoint(checkpoint: &Checkpointed, workers: usize) -> Result<Duration> {
    let files = RealFiles::read_only(checkpoint.path())?;
    let manifest = read_manifest(&files, checkpoint.height)?;
    let groups = read_groups(&files, &manifest)?;
    let store = Arc::new(Store::new());
    Schema::new().restore(&manifest.schema, &store)?;
    let share = groups.len().div_ceil(workers.max(1)).max(1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = groups
            .chunks(share)
            .map(|groups| scope.spawn(|| insert_groups(&store, groups)))
            .collect();
        threads.into_iter().try_for_each(joined)
    })?;
    Ok(start.elapsed())
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

type GroupBytes = (types::TableId, Vec<u8>);

fn read_groups(files: &RealFiles, manifest: &Manifest) -> Result<Vec<GroupBytes>> {
    let mut packs: Vec<_> = manifest.groups().map(|group| group.place.pack).collect();
    packs.sort_unstable();
    packs.dedup();
    let packs = PackReader::open(files, manifest.order.ledger_id, &packs)?;
    let of_tables = manifest.tables.iter().flat_map(|t| t.groups.iter().map(move |g| (t.table, g)));
    let read = of_tables.map(|(table, group)| {
        let mut bytes = Vec::new();
        packs.read(group, &mut bytes)?;
        Ok((table, bytes))
    });
    read.collect()
}

fn insert_groups(store: &Store, groups: &[GroupBytes]) -> Result<()> {
    for (table, bytes) in groups {
        let table = store.table(*table).context("a table is missing")?;
        let mut rest = &bytes[..];
        while let Some((stamp, behind)) = rest.split_first_chunk() {
            let (length, behind) = behind.split_first_chunk().context("a row is cut")?;
            let (image, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
            table.restore_image(Stamp(u64::from_be_bytes(*stamp)), image)?;
            rest = behind;
        }
    }
    Ok(())
}

/// The plain loop over a row log's records, on the state before it.
pub fn insert_rows(log: &RowLog, store: &Arc<Store>, workers: usize) -> Result<Duration> {
    let (Some(first), Some(last)) = (log.frames.first(), log.height) else {
        return Ok(Duration::ZERO);
    };
    let start = Instant::now();
    let mut writes = store.begin_blocks(first.height, last, workers);
    let arenas = writes.take();
    std::thread::scope(|scope| {
        let threads: Vec<_> = arenas
            .into_iter()
            .enumerate()
            .map(|(worker, mut arena)| {
                scope.spawn(move || -> Result<UndoArena> {
                    insert_frames(log, store, (worker, workers), &mut arena)?;
                    Ok(arena)
                })
            })
            .collect();
        for thread in threads {
            writes.give(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        Ok::<(), anyhow::Error>(())
    })?;
    store.finish_unread(writes);
    Ok(start.elapsed())
}

/// A key's records are one worker's, as two must not be at one row at a time.
fn insert_frames(
    log: &RowLog,
    store: &Store,
    (worker, workers): (usize, usize),
    undo: &mut UndoArena,
) -> Result<()> {
    let catalog = store.catalog();
    for frame in &log.frames {
        let mut rest = &frame.records[..];
        while !rest.is_empty() {
            let record = log.scheme.decode(&mut rest)?;
            if record.owner(workers) != worker {
                continue;
            }
            let table = catalog.table(record.table).context("a table is missing")?;
            let key = record.key.as_bytes();
            let slot = table.find(key).filter(|slot| table.stamp(*slot, LATEST).is_some());
            let stamp = record.stamp(frame.height);
            match (record.values(table.schema())?, slot) {
                (Some(row), Some(slot)) => table.update_row(slot, &row, stamp, undo),
                (Some(row), None) => drop(table.insert(key, &row, stamp, undo)),
                (None, Some(slot)) => table.delete(slot, stamp, undo),
                (None, None) => {}
            }
        }
    }
    Ok(())
}
