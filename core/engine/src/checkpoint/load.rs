//! From a checkpoint to a replica, by `workers` threads and one that reads.
//!
//! ```text
//!   one thread    read run 1 │ read run 2 │ …                     files in their order
//!   workers                  └ hash, decode, fill └ …      each appends at its own end of an index
//! ```
//!
//! A run is some neighbouring groups. Every group's hash is compared, every row decoded; nothing of
//! a checkpoint that is damaged in any place reaches a replica. The reader has a thread of its own,
//! since it waits for the disk and not for a core; it is a few runs ahead. The
//! [past](super::past) comes last, by one thread, group by group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use concurrency::Past;
use kit::mutant::mutated;
use kit::sync::lock;
use ledger::Files;
use ledger::checkpoint::{self, Group, Manifest, PackReader, read_manifest};
use replica::{Boundary, MakeLanguage, protocol_of};
use storage::{Store, Table, UndoArena};
use types::{Error, Height, Key, Result, SqlState, Stamp};

use crate::client::Replica;

use super::past::take_images;
use super::take::Base;

/// Neighbouring groups that one thread takes at a time.
const GROUPS_PER_RUN: usize = 32;

/// What a run is expected to need at most; a manifest may say anything.
const RUN_BYTES_MAX: u64 = 16 << 20;

/// Runs that are read ahead, for each worker.
const RUNS_AHEAD: usize = 2;

/// A replica whose head is the checkpoint's block.
pub struct Loaded {
    pub replica: Replica,
    pub base: Base,
    pub rows: u64,
    pub bytes: u64,
}

/// Loads a manifest's rows. `Err` if anything of it is not as it was written.
pub fn load(
    files: &dyn Files,
    height: Height,
    language: MakeLanguage<'_>,
    workers: usize,
) -> Result<Loaded> {
    let manifest = read_manifest(files, height)?;
    let packs = open_packs(files, &manifest)?;
    let store = Arc::new(Store::new());
    let language = language(&store);
    language.restore(&manifest.schema, &store)?;
    let tables = tables_of(&manifest, &store)?;
    fill(&manifest, &tables, &packs, workers)?;
    let from = restore_past(&manifest, &store, &tables, &packs)?;
    let past = Past::new(store.resume_at(from, height));
    let parameters = Arc::new(manifest.parameters.clone());
    let (order, result) = (manifest.order.clone(), manifest.result.clone());
    let carried = manifest.carried.clone().into();
    let boundary = Boundary { order, result, parameters, carried, past };
    let replica = Replica::at(boundary, store, language, workers)
        .map_err(|halt| Error::new(SqlState::DATA_CORRUPTED, halt.to_string()))?;
    let (rows, bytes) = (manifest.rows(), manifest.bytes());
    Ok(Loaded { replica, base: Base::new(manifest, tables.iter()), rows, bytes })
}

/// Reads all groups of a manifest and compares their hashes.
pub fn check(files: &dyn Files, manifest: &Manifest) -> Result<()> {
    let packs = open_packs(files, manifest)?;
    let mut bytes = Vec::new();
    manifest.groups().try_for_each(|group| packs.read(group, &mut bytes))
}

fn open_packs(files: &dyn Files, manifest: &Manifest) -> Result<PackReader> {
    PackReader::open(files, manifest.order.ledger_id, &manifest.packs())
}

/// The store's tables in the manifest's order, which are the same ones.
fn tables_of(manifest: &Manifest, store: &Store) -> Result<Vec<Arc<Table>>> {
    let tables = store.tables();
    let listed = manifest.tables.iter().map(|groups| groups.table);
    if tables.iter().map(|table| table.id()).eq(listed) {
        return Ok(tables);
    }
    Err(damaged("it lists other tables than its schema has".to_owned()))
}

fn fill(
    manifest: &Manifest,
    tables: &[Arc<Table>],
    packs: &PackReader,
    workers: usize,
) -> Result<()> {
    let of_table = |(groups, table): (_, &Arc<Table>)| runs(groups, table);
    let runs: Vec<(Arc<Table>, &[Group])> =
        manifest.tables.iter().zip(tables).flat_map(of_table).collect();
    let stopped = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let fail = |error: Error| {
        stopped.store(true, Ordering::Relaxed);
        lock(&failure).get_or_insert(error);
    };
    let (send, receive) = sync_channel(workers * RUNS_AHEAD);
    // The workers' alone: should they all panic, the reader must not wait for them.
    let receive = Arc::new(Mutex::new(receive));
    // After a failure what is on its way is thrown away, so that the reader is not held up.
    let work = &|receive: Arc<Mutex<Receiver<Run<'_>>>>| {
        while let Some(run) = next_run(&receive) {
            if !stopped.load(Ordering::Relaxed)
                && let Err(error) = run.restore()
            {
                fail(error);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| read_ahead(runs, packs, &stopped, send).unwrap_or_else(&fail));
        for _ in 1..workers {
            let receive = Arc::clone(&receive);
            scope.spawn(move || work(receive));
        }
        work(receive);
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Neighbouring groups of a table, and their bytes.
struct Run<'a> {
    table: Arc<Table>,
    groups: &'a [Group],
    bytes: Vec<u8>,
}

impl Run<'_> {
    fn restore(&self) -> Result<()> {
        let mut rest = &self.bytes[..];
        for group in self.groups {
            let (bytes, behind) = rest.split_at(group.place.length as usize);
            checkpoint::check(group, bytes)?;
            restore(&self.table, group, bytes)?;
            rest = behind;
        }
        Ok(())
    }
}

fn next_run<'a>(receive: &Mutex<Receiver<Run<'a>>>) -> Option<Run<'a>> {
    lock(receive).recv().ok()
}

fn read_ahead<'a>(
    runs: Vec<(Arc<Table>, &'a [Group])>,
    packs: &PackReader,
    stopped: &AtomicBool,
    send: SyncSender<Run<'a>>,
) -> Result<()> {
    for (table, groups) in runs {
        let length: u64 = groups.iter().map(|group| group.place.length).sum();
        let mut bytes = Vec::with_capacity(length.min(RUN_BYTES_MAX) as usize);
        groups.iter().try_for_each(|group| packs.append(group, &mut bytes))?;
        if stopped.load(Ordering::Relaxed) || send.send(Run { table, groups, bytes }).is_err() {
            break;
        }
    }
    Ok(())
}

fn runs<'a>(
    groups: &'a checkpoint::TableGroups,
    table: &Arc<Table>,
) -> Vec<(Arc<Table>, &'a [Group])> {
    groups.groups.chunks(GROUPS_PER_RUN).map(|run| (Arc::clone(table), run)).collect()
}

/// Puts the rows of a group into their table.
fn restore(table: &Table, group: &Group, bytes: &[u8]) -> Result<()> {
    each_row(table, group, bytes, &mut |bytes| {
        let (stamp, image) = take_row(bytes)
            .ok_or_else(|| damaged(format!("a row of table {} is cut", table.id().0)))?;
        table.restore_image(stamp, image)
    })
}

/// Takes the rows of a group out of its bytes by `take`, which gives their keys.
fn each_row(
    table: &Table,
    group: &Group,
    mut bytes: &[u8],
    take: &mut dyn FnMut(&mut &[u8]) -> Result<Key>,
) -> Result<()> {
    let mut rows = 0;
    let mut last = None;
    while !bytes.is_empty() {
        let key = take(&mut bytes)?;
        let is_first = last.is_none();
        if (is_first && key.as_bytes() != group.first) || last.as_ref() >= Some(&key) {
            return Err(damaged(format!("rows of table {} are out of order", table.id().0)));
        }
        last = Some(key);
        rows += 1;
    }
    let ends = last.is_some_and(|key| key.as_bytes() == group.last);
    if ends && rows == group.rows {
        return Ok(());
    }
    Err(damaged(format!("a group of table {} has other rows than it says", table.id().0)))
}

/// Lays what a manifest says of the past beneath the rows of its state, which are there. Returns
/// the oldest height that can be read then.
fn restore_past(
    manifest: &Manifest,
    store: &Store,
    tables: &[Arc<Table>],
    packs: &PackReader,
) -> Result<Height> {
    let height = manifest.height();
    let Some(past) = &manifest.past else { return Ok(height) };
    let protocol = protocol_of(&manifest.parameters).map_err(|halt| damaged(halt.0))?;
    if past.from < height.saturating_add(1).saturating_sub(protocol.history()) {
        return Err(damaged("it goes further back than its protocol".to_owned()));
    }
    if mutated("past_forgotten") {
        return Ok(past.from);
    }
    let mut writes = store.begin_blocks(past.from + 1, height, 1);
    let mut bytes = Vec::new();
    for of_table in &past.tables {
        let table = tables.iter().find(|table| table.id() == of_table.table);
        let table = table.ok_or_else(|| damaged("it has rows of a table that is none".into()))?;
        for group in &of_table.groups {
            packs.read(group, &mut bytes)?;
            restore_past_group(table, group, &bytes, writes.arena(0))?;
        }
    }
    store.finish_unread(writes);
    Ok(past.from)
}

fn restore_past_group(
    table: &Table,
    group: &Group,
    bytes: &[u8],
    undo: &mut UndoArena,
) -> Result<()> {
    each_row(table, group, bytes, &mut |bytes| {
        let cut = || damaged(format!("a row of table {} is cut in the past", table.id().0));
        let images = take_images(bytes).ok_or_else(cut)?;
        table.restore_past(&images, undo)
    })
}

fn take_row<'a>(bytes: &mut &'a [u8]) -> Option<(Stamp, &'a [u8])> {
    let (stamp, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (image, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some((Stamp(u64::from_be_bytes(*stamp)), image))
}

fn damaged(what: String) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the checkpoint is damaged: {what}"))
}
