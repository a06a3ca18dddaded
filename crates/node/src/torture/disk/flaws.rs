//! Durability bugs on purpose: a test that no seeded bug can fail is not a test.
//!
//! Every one of them is a call that is missing, repeated or in the wrong place, so a layer over the
//! files makes out of a careful program exactly the careless one, and the program itself needs no
//! switches.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use ledger::checkpoint::CHECKPOINT_FOLDER;
use ledger::memory_files::{Failure, MANNERS};
use ledger::{Files, MemoryFiles, StorageFile, Stream};

use super::faults;
use super::world::{Reference, Running, Told, begin, runtime, tell};

const ORDERS: &str = Stream::Orders.folder();
const RESULTS: &str = Stream::Results.folder();

fn holds_headers(folder: &str) -> bool {
    Stream::ALL.iter().any(|stream| stream.header_folder() == folder)
}

/// What a careless implementation would get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
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

impl Flaw {
    pub const ALL: [Flaw; 11] = [
        Flaw::AcknowledgedBeforeSync,
        Flaw::SyncRetried,
        Flaw::SyncErrorIgnored,
        Flaw::WriteErrorIgnored,
        Flaw::ManifestBeforePack,
        Flaw::ManifestBeforeResults,
        Flaw::ManifestNotSynced,
        Flaw::SegmentFolderNotSynced,
        Flaw::CheckpointFolderNotSynced,
        Flaw::RetentionFirst,
        Flaw::PrunedBeforeHeaders,
    ];
}

/// Files as a program with a flaw uses them.
#[derive(Clone)]
struct Careless {
    files: MemoryFiles,
    flaw: Flaw,
    /// The flaw is not in the tests' own setting up.
    active: Arc<AtomicBool>,
}

impl Careless {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw && self.active.load(Ordering::Relaxed)
    }

    fn wrap(&self, path: &str, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        Box::new(CarelessFile { file, path: path.to_owned(), files: self.clone() })
    }

    fn remove_checkpoints(&self) -> io::Result<()> {
        for name in self.files.list(CHECKPOINT_FOLDER)? {
            self.files.remove(&format!("{CHECKPOINT_FOLDER}/{name}"))?;
        }
        self.files.sync_folder(CHECKPOINT_FOLDER)
    }
}

impl Files for Careless {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.files.list(folder)
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        self.files.create_folder(folder)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let skipped = match folder {
            ORDERS => self.has(Flaw::SegmentFolderNotSynced),
            CHECKPOINT_FOLDER => self.has(Flaw::CheckpointFolderNotSynced),
            _ if holds_headers(folder) => self.has(Flaw::PrunedBeforeHeaders),
            _ => false,
        };
        if skipped { Ok(()) } else { self.files.sync_folder(folder) }
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        if path.ends_with(".pack") && self.has(Flaw::RetentionFirst) {
            self.remove_checkpoints()?;
        }
        Ok(self.wrap(path, self.files.create(path)?))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(path, self.files.open(path)?))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        match self.files.remove(path) {
            // What its own flaw has removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn salt(&self) -> u64 {
        self.files.salt()
    }
}

struct CarelessFile {
    file: Box<dyn StorageFile>,
    path: String,
    files: Careless,
}

impl StorageFile for CarelessFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_at(bytes, offset) {
            Err(_) if self.files.has(Flaw::WriteErrorIgnored) => Ok(()),
            written => written,
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        let flaw = match self.path.split_once('/') {
            Some((ORDERS, _)) => Some(Flaw::AcknowledgedBeforeSync),
            Some((RESULTS, _)) => Some(Flaw::ManifestBeforeResults),
            Some((folder, _)) if holds_headers(folder) => Some(Flaw::PrunedBeforeHeaders),
            _ if self.path.ends_with(".pack") => Some(Flaw::ManifestBeforePack),
            _ if self.path.ends_with(".manifest") => Some(Flaw::ManifestNotSynced),
            _ => None,
        };
        if flaw.is_some_and(|flaw| self.files.has(flaw)) {
            return Ok(());
        }
        match self.file.sync() {
            Err(_) if self.files.has(Flaw::SyncRetried) => self.file.sync(),
            Err(_) if self.files.has(Flaw::SyncErrorIgnored) => Ok(()),
            synced => synced,
        }
    }
}

/// What found a flaw, if anything did.
pub fn found_by(flaw: Flaw, reference: &Reference) -> Result<Option<String>> {
    if let Err(error) = images(flaw, reference) {
        return Ok(Some(format!("images: {error:#}")));
    }
    let runtime = runtime()?;
    let operations = reference.files.operations();
    // Those that go away again: a program that goes on meets nothing more.
    for (what, manner) in MANNERS[..3].iter().rev() {
        for operation in 0..operations {
            let failure = manner(operation);
            if let Err(error) = suffers(flaw, reference, &runtime, failure) {
                return Ok(Some(format!("{what} at operation {operation}: {error:#}")));
            }
        }
    }
    Ok(None)
}

fn careless(flaw: Flaw) -> Result<(MemoryFiles, Arc<dyn Files>, Arc<AtomicBool>)> {
    let (files, active) = (MemoryFiles::new(), Arc::new(AtomicBool::new(false)));
    let shared: Arc<dyn Files> =
        Arc::new(Careless { files: files.clone(), flaw, active: active.clone() });
    Ok((files, shared, active))
}

/// The suite of images, with fewer of them.
fn images(flaw: Flaw, reference: &Reference) -> Result<()> {
    let (files, shared, active) = careless(flaw)?;
    begin(&shared, reference.story.protocol)?;
    active.store(true, Ordering::Relaxed);
    let first = files.operations();
    files.remember();
    let mut running = Running::open(&shared, reference.story.protocol)?;
    let told = tell(&runtime()?, &mut running, &reference.story.steps, &|| files.operations());
    drop(running);
    for (index, moment) in (0..).zip(files.moments()) {
        let known = told.partition_point(|told| told.operations <= first + index);
        let told = known.checked_sub(1).map_or(Told::default(), |last| told[last]);
        for image in moment.crash_images(4).step_by(7) {
            reference.recover(&image, told)?;
        }
    }
    Ok(())
}

/// The suite of faults.
fn suffers(
    flaw: Flaw,
    reference: &Reference,
    runtime: &tokio::runtime::Runtime,
    failure: Failure,
) -> Result<()> {
    let (files, shared, active) = careless(flaw)?;
    begin(&shared, reference.story.protocol)?;
    active.store(true, Ordering::Relaxed);
    let told = faults::suffer(reference, runtime, &files, &shared, failure)?;
    active.store(false, Ordering::Relaxed);
    for image in files.crash_images(0).step_by(9).chain([files.copy()]) {
        reference.recover(&image, told)?;
    }
    Ok(())
}
