//! Files in memory that know what a power cut would leave of them.
//!
//! Every file has its *live* bytes, which a running program sees, and its *durable* bytes as of the
//! last sync, with the changes since then. [`MemoryFiles::crash`] builds one of the images that a
//! disk may show afterwards: the durable bytes plus any choice of the 512-byte sectors written
//! since, in no particular order, as neither the kernel nor a drive promises one. A file whose
//! folder was not synced since it was created may be gone, one that was removed may be back.
//!
//! [`MemoryFiles::fail_at`] fails one chosen change or sync, and all later ones if the power is
//! off.
//!
//! Departure from real file systems: folders are durable as soon as they are created.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kit::random::Random;

use crate::files::{Files, StorageFile};

pub const SECTOR_BYTES: usize = 512;

/// A shared folder in memory: clones see the same files.
#[derive(Clone, Default)]
pub struct MemoryFiles(Arc<Mutex<Disk>>);

#[derive(Clone, Default)]
struct Disk {
    files: BTreeMap<String, Contents>,
    /// Removed, but their folder has not been synced since.
    removed: BTreeMap<String, Contents>,
    /// Changes and syncs so far.
    operations: u64,
    failure: Option<Failure>,
    salts: u64,
}

#[derive(Clone, Default)]
struct Contents {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Whether the folder was synced after the file was created.
    entry_is_durable: bool,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetSize(usize),
}

/// What fails, counting changes and syncs from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// This one alone, as after a transient I/O error.
    Once(u64),
    /// This one and all that follow.
    PowerOff(u64),
}

impl MemoryFiles {
    pub fn new() -> Self {
        Self::default()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes and syncs so far.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    pub fn fail_at(&self, failure: Option<Failure>) {
        self.disk().failure = failure;
    }

    /// All paths, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.disk().files.keys().cloned().collect()
    }

    /// The live bytes of a file.
    pub fn contents(&self, path: &str) -> Option<Vec<u8>> {
        Some(self.disk().files.get(path)?.live.clone())
    }

    /// Puts bytes where a file is or shall be, durably and without counting: damage, for a test.
    pub fn plant(&self, path: &str, bytes: Vec<u8>) {
        let durable = bytes.clone();
        let contents =
            Contents { live: bytes, durable, pending: Vec::new(), entry_is_durable: true };
        self.disk().files.insert(path.to_owned(), contents);
    }

    /// One of the disks that a power cut at this moment may leave. These files stay as they are.
    pub fn crash(&self, random: &mut Random) -> MemoryFiles {
        let before = self.disk();
        let mut after = Disk { salts: before.salts + 1, ..Disk::default() };
        for (path, contents) in &before.files {
            if contents.entry_is_durable || random.chance(2) {
                after.files.insert(path.clone(), contents.after_crash(random));
            }
        }
        for (path, contents) in &before.removed {
            if !after.files.contains_key(path) && random.chance(2) {
                after.files.insert(path.clone(), contents.after_crash(random));
            }
        }
        MemoryFiles(Arc::new(Mutex::new(after)))
    }
}

impl Disk {
    fn count(&mut self) -> io::Result<()> {
        let operation = self.operations;
        self.operations += 1;
        match self.failure {
            Some(Failure::Once(n)) if operation == n => Err(io::Error::other("injected error")),
            Some(Failure::PowerOff(n)) if operation >= n => Err(io::Error::other("power is off")),
            _ => Ok(()),
        }
    }

    fn file(&mut self, path: &str) -> io::Result<&mut Contents> {
        self.files.get_mut(path).ok_or_else(|| not_found(path))
    }
}

impl Contents {
    fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    fn after_crash(&self, random: &mut Random) -> Contents {
        let mut bytes = self.durable.clone();
        // Nothing, everything, a prefix, or any subset of what was pending.
        let manner = random.below(4);
        let mut in_prefix = true;
        for piece in self.pending.iter().flat_map(sectors) {
            in_prefix &= !random.chance(8);
            let kept = match manner {
                0 => false,
                1 => true,
                2 => in_prefix,
                _ => random.chance(2),
            };
            if kept {
                apply(&mut bytes, &piece);
            }
        }
        Contents {
            live: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
            entry_is_durable: true,
        }
    }
}

/// A write as the sectors that it touches, each of which is written whole or not at all.
fn sectors(change: &Change) -> Vec<Change> {
    let Change::Write { offset, bytes } = change else {
        return vec![change.clone()];
    };
    let (mut offset, mut rest) = (*offset, bytes.as_slice());
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let to_sector_end = SECTOR_BYTES - offset % SECTOR_BYTES;
        let (piece, tail) = rest.split_at(to_sector_end.min(rest.len()));
        pieces.push(Change::Write { offset, bytes: piece.to_vec() });
        offset += piece.len();
        rest = tail;
    }
    pieces
}

fn apply(target: &mut Vec<u8>, change: &Change) {
    match change {
        Change::SetSize(size) => target.resize(*size, 0),
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            target.resize(target.len().max(end), 0);
            target[*offset..end].copy_from_slice(bytes);
        }
    }
}

impl Files for MemoryFiles {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let disk = self.disk();
        let names = disk.files.keys().filter_map(|path| match path.rsplit_once('/') {
            Some((parent, name)) => (parent == folder).then(|| name.to_owned()),
            None => folder.is_empty().then(|| path.clone()),
        });
        Ok(names.collect())
    }

    fn create_folder(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.count()?;
        let inside = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent) == folder;
        disk.removed.retain(|path, _| !inside(path));
        let entries = disk.files.iter_mut().filter(|(path, _)| inside(path));
        entries.for_each(|(_, contents)| contents.entry_is_durable = true);
        Ok(())
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.count()?;
        if disk.files.contains_key(path) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, path.to_owned()));
        }
        disk.files.insert(path.to_owned(), Contents::default());
        Ok(Box::new(MemoryFile { files: self.clone(), path: path.to_owned() }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.disk().file(path)?;
        Ok(Box::new(MemoryFile { files: self.clone(), path: path.to_owned() }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.count()?;
        let contents = disk.files.remove(path).ok_or_else(|| not_found(path))?;
        if contents.entry_is_durable {
            disk.removed.insert(path.to_owned(), contents);
        }
        Ok(())
    }

    fn salt(&self) -> u64 {
        let mut disk = self.disk();
        disk.salts += 1;
        Random::new(disk.salts).next_u64()
    }
}

struct MemoryFile {
    files: MemoryFiles,
    path: String,
}

impl MemoryFile {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut disk = self.files.disk();
        let counted = disk.count();
        // A write that fails may still have reached the disk.
        disk.file(&self.path)?.change(change);
        counted
    }
}

impl StorageFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.files.disk().file(&self.path)?.live.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.files.disk();
        let live = &disk.file(&self.path)?.live;
        let start = offset as usize;
        let source = live.get(start..start.saturating_add(buffer.len()));
        let source = source.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        buffer.copy_from_slice(source);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Change::Write { offset: offset as usize, bytes: bytes.to_vec() })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.change(Change::SetSize(size as usize))
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.files.disk();
        disk.count()?;
        let contents = disk.file(&self.path)?;
        contents.durable = contents.live.clone();
        contents.pending.clear();
        Ok(())
    }
}

fn not_found(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.to_owned())
}
