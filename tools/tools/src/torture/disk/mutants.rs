//! Durability bugs on purpose: a test that no seeded bug can fail is not a test.
//!
//! Every one of them is a call that is missing, repeated or in the wrong place, so a layer over the
//! files makes out of a careful program exactly the careless one, and the program itself needs no
//! switches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::memory_files::{Failure, MANNERS};
use ledger::{Files, Intercepted, Interceptor, MemoryFiles, StorageFile, Stream};

use super::count::spread;
use super::faults;
use super::world::{Found, Reference, Reported, Running, begin, runtime, tell};

const ORDERS: &str = Stream::Orders.folder();
const RESULTS: &str = Stream::Results.folder();

fn holds_headers(folder: &str) -> bool {
    Stream::ALL.iter().any(|stream| stream.header_folder() == folder)
}

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Results are released when their order is written, not when it is synced.
    AcknowledgedBeforeSync,
    /// A sync that failed is tried again, and the second answer believed.
    SyncRetried,
    /// Errors of syncs are only noted.
    SyncErrorIgnored,
    /// A write that failed is taken for done.
    WriteErrorIgnored,
    /// A manifest is written before its pack is synced.
    ManifestBeforePack,
    /// A manifest is written before the results up to its block are synced.
    ManifestBeforeResults,
    /// Older checkpoints go before the manifest of the new one is synced.
    ManifestNotSynced,
    /// A new segment's name may not survive its blocks.
    SegmentFolderNotSynced,
    /// Nor a checkpoint's.
    CheckpointFolderNotSynced,
    /// Retention makes room for the new checkpoint first.
    RetentionFirst,
    /// Blocks are pruned before their headers are on disk.
    PrunedBeforeHeaders,
}

impl Mutant {
    pub const ALL: [Mutant; 11] = [
        Mutant::AcknowledgedBeforeSync,
        Mutant::SyncRetried,
        Mutant::SyncErrorIgnored,
        Mutant::WriteErrorIgnored,
        Mutant::ManifestBeforePack,
        Mutant::ManifestBeforeResults,
        Mutant::ManifestNotSynced,
        Mutant::SegmentFolderNotSynced,
        Mutant::CheckpointFolderNotSynced,
        Mutant::RetentionFirst,
        Mutant::PrunedBeforeHeaders,
    ];
}

/// Uses files as a program with a mutant does.
struct Careless {
    mutant: Mutant,
    /// The mutant is not in the tests' own setting up.
    active: Arc<AtomicBool>,
}

impl Careless {
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == mutant && self.active.load(Ordering::Relaxed)
    }
}

fn remove_checkpoints(files: &dyn Files) -> io::Result<()> {
    for name in files.list(CHECKPOINT_FOLDER)? {
        files.remove(&format!("{CHECKPOINT_FOLDER}/{name}"))?;
    }
    files.sync_folder(CHECKPOINT_FOLDER)
}

impl Interceptor for Careless {
    fn sync_folder(&self, files: &dyn Files, folder: &str) -> io::Result<()> {
        let skipped = match folder {
            ORDERS => self.has(Mutant::SegmentFolderNotSynced),
            CHECKPOINT_FOLDER => self.has(Mutant::CheckpointFolderNotSynced),
            _ if holds_headers(folder) => self.has(Mutant::PrunedBeforeHeaders),
            _ => false,
        };
        if skipped { Ok(()) } else { files.sync_folder(folder) }
    }

    fn create(&self, files: &dyn Files, path: &str) -> io::Result<Box<dyn StorageFile>> {
        if path.ends_with(".pack") && self.has(Mutant::RetentionFirst) {
            remove_checkpoints(files)?;
        }
        files.create(path)
    }

    fn remove(&self, files: &dyn Files, path: &str) -> io::Result<()> {
        match files.remove(path) {
            // What its own mutant has removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn write_at(&self, file: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        match file.write_at(bytes, offset) {
            Err(_) if self.has(Mutant::WriteErrorIgnored) => Ok(()),
            written => written,
        }
    }

    fn sync(&self, file: &dyn StorageFile, path: &str) -> io::Result<()> {
        let mutant = match path.split_once('/') {
            Some((ORDERS, _)) => Some(Mutant::AcknowledgedBeforeSync),
            Some((RESULTS, _)) => Some(Mutant::ManifestBeforeResults),
            Some((folder, _)) if holds_headers(folder) => Some(Mutant::PrunedBeforeHeaders),
            _ if path.ends_with(".pack") => Some(Mutant::ManifestBeforePack),
            _ if path.ends_with(".manifest") => Some(Mutant::ManifestNotSynced),
            _ => None,
        };
        if mutant.is_some_and(|mutant| self.has(mutant)) {
            return Ok(());
        }
        match file.sync() {
            Err(_) if self.has(Mutant::SyncRetried) => file.sync(),
            Err(_) if self.has(Mutant::SyncErrorIgnored) => Ok(()),
            synced => synced,
        }
    }
}

/// What found a mutant, if anything did.
pub fn found_by(mutant: Mutant, reference: &Reference) -> Result<Option<String>> {
    if let Err(error) = images(mutant, reference) {
        return Ok(Some(format!("images: {error:#}")));
    }
    let runtime = runtime()?;
    let operations = reference.files.operations() as usize;
    // Those that go away again: a program that goes on meets nothing more.
    for (what, manner) in MANNERS[..3].iter().rev() {
        for operation in spread(operations) {
            let failure = manner(operation as u64);
            if let Err(error) = suffers(mutant, reference, &runtime, failure) {
                return Ok(Some(format!("{what} at operation {operation}: {error:#}")));
            }
        }
    }
    Ok(None)
}

fn careless(mutant: Mutant) -> Result<(MemoryFiles, Arc<dyn Files>, Arc<AtomicBool>)> {
    let (files, active) = (MemoryFiles::new(), Arc::new(AtomicBool::new(false)));
    let careless = Arc::new(Careless { mutant, active: Arc::clone(&active) });
    let shared = Arc::new(Intercepted::new(Arc::new(files.clone()), careless));
    Ok((files, shared, active))
}

/// The suite of images, with fewer of them; each is recovered once.
fn images(mutant: Mutant, reference: &Reference) -> Result<()> {
    let (files, shared, active) = careless(mutant)?;
    begin(&shared, reference.story.protocol)?;
    active.store(true, Ordering::Relaxed);
    let first = files.operations();
    files.remember();
    let mut running = Running::open(&shared, reference.story.protocol)?;
    let reported = tell(&runtime()?, &mut running, &reference.story.steps, &|| files.operations());
    drop(running);
    let mut recovered: HashMap<u64, Found> = HashMap::new();
    for (index, moment) in (0..).zip(files.moments()) {
        let known = reported.partition_point(|reported| reported.operations <= first + index);
        let reported = known.checked_sub(1).map_or(Reported::default(), |last| reported[last]);
        for image in moment.crash_images(4).step_by(7) {
            let found = match recovered.entry(image.fingerprint()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(reference.find(&image)?.0),
            };
            found.holds(reported)?;
        }
    }
    Ok(())
}

/// The suite of faults.
fn suffers(
    mutant: Mutant,
    reference: &Reference,
    runtime: &tokio::runtime::Runtime,
    failure: Failure,
) -> Result<()> {
    let (files, shared, active) = careless(mutant)?;
    begin(&shared, reference.story.protocol)?;
    active.store(true, Ordering::Relaxed);
    let reported = faults::suffer(reference, runtime, &files, &shared, failure)?;
    active.store(false, Ordering::Relaxed);
    for image in files.crash_images(0).step_by(9).chain([files.copy()]) {
        reference.recover(&image, reported)?;
    }
    Ok(())
}
