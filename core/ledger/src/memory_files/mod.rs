//! Files in memory that know what a power cut would leave of them.
//!
//! Every file has its *live* bytes, which a running program sees, and its *durable* bytes as of the
//! last sync, with the changes since then. A disk may show, after a power cut, the durable bytes
//! plus any choice of the 512-byte sectors written since, in no particular order, as neither the
//! kernel nor a drive promises one. A file whose folder was not synced since it was created may be
//! gone, one that was removed may be back. [`MemoryFiles::crash`] draws one of these images,
//! [`MemoryFiles::crash_images`] makes them all (see [`images`]).
//!
//! [`MemoryFiles::fail_at`] makes a chosen operation fail, in one of the manners of [`Failure`].
//! Changes and syncs are counted; so are reads, opens and lists, apart from them.
//! [`MemoryFiles::remember`] keeps the disk as it was before each operation, so that one run shows
//! all moments at which the power may go.
//!
//! Departure from real file systems: folders are durable as soon as they are created.

mod images;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::files::{Files, Identity, StorageFile};

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
    reads: u64,
    failure: Option<Failure>,
    /// An operation has failed since a failure was chosen.
    has_failed: bool,
    salts: u64,
    /// Files that were made so far.
    made: u64,
    /// The disk before each operation, where a test asked for it.
    moments: Option<Vec<Disk>>,
}

#[derive(Clone, Default)]
struct Contents {
    identity: Identity,
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

/// What fails, and how. Numbers count changes and syncs from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// This one alone, as after a transient I/O error. What it wrote may be there.
    Once(u64),
    /// This one and all that follow.
    PowerOff(u64),
    /// Of this write only the first half is done.
    Short(u64),
    /// This sync fails, and what it was to make durable never will be: reads show it, later syncs
    /// succeed, as Linux drops the pages that it could not write.
    SyncLost(u64),
    /// From this one on no file grows and none is made.
    Full(u64),
    /// From this one on nothing changes.
    ReadOnly(u64),
    /// The read, open or list of this number, of those alone.
    Read(u64),
}

/// How the operation of a number fails.
pub type Manner = fn(u64) -> Failure;

/// What can befall a change or a sync.
pub const MANNERS: [(&str, Manner); 6] = [
    ("an error", Failure::Once),
    ("a short write", Failure::Short),
    ("a sync that loses its data", Failure::SyncLost),
    ("a full disk", Failure::Full),
    ("a disk that became read-only", Failure::ReadOnly),
    ("a power cut", Failure::PowerOff),
];

/// What becomes of an operation.
enum Fate {
    Done,
    /// Not even begun.
    Refused(io::Error),
    /// Done, but the caller is told that it was not.
    DoneAndFailed,
    HalfDone,
    Lost,
}

impl Fate {
    /// For operations that are done whole or not at all.
    fn whole(self) -> io::Result<()> {
        match self {
            Fate::Done => Ok(()),
            Fate::Refused(error) => Err(error),
            Fate::DoneAndFailed | Fate::HalfDone | Fate::Lost => Err(injected()),
        }
    }
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

    /// Reads, opens and lists so far.
    pub fn reads(&self) -> u64 {
        self.disk().reads
    }

    pub fn fail_at(&self, failure: Option<Failure>) {
        let mut disk = self.disk();
        disk.has_failed &= failure.is_some();
        disk.failure = failure;
    }

    /// Whether an operation has failed since the last time that none was to fail.
    pub fn has_failed(&self) -> bool {
        self.disk().has_failed
    }

    /// From now on, keep what [`MemoryFiles::moments`] returns.
    pub fn remember(&self) {
        self.disk().moments = Some(Vec::new());
    }

    /// The disk before each operation since it was to be remembered, and as it is now.
    pub fn moments(&self) -> Vec<MemoryFiles> {
        let mut disk = self.disk();
        let before = disk.moments.take().unwrap_or_default();
        let all = before.into_iter().chain([disk.clone()]);
        all.map(|disk| MemoryFiles(Arc::new(Mutex::new(disk)))).collect()
    }

    /// The same files, and from now on others.
    pub fn copy(&self) -> MemoryFiles {
        static COPIES: AtomicU64 = AtomicU64::new(1);
        let mut disk = Disk { moments: None, failure: None, ..self.disk().clone() };
        let copy = COPIES.fetch_add(1, Ordering::Relaxed);
        disk.files.values_mut().for_each(|contents| contents.identity[0] = copy);
        MemoryFiles(Arc::new(Mutex::new(disk)))
    }

    /// Equal for equal names and live bytes.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, contents) in &self.disk().files {
            (path, &contents.live).hash(&mut hasher);
        }
        hasher.finish()
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
        let mut disk = self.disk();
        let (identity, pending) = (disk.next_identity(), Vec::new());
        let contents = Contents { identity, live: bytes, durable, pending, entry_is_durable: true };
        disk.files.insert(path.to_owned(), contents);
    }
}

impl Disk {
    /// Counts an operation, which `grows` what is stored or does not.
    fn count(&mut self, grows: bool) -> Fate {
        if let Some(mut moments) = self.moments.take() {
            moments.push(self.clone());
            self.moments = Some(moments);
        }
        let operation = self.operations;
        self.operations += 1;
        let fate = self.fate(operation, grows);
        self.has_failed |= !matches!(fate, Fate::Done);
        fate
    }

    fn fate(&self, operation: u64, grows: bool) -> Fate {
        match self.failure {
            Some(Failure::Once(n)) if operation == n => Fate::DoneAndFailed,
            Some(Failure::PowerOff(n)) if operation >= n => {
                // The last write may have been on its way.
                let on_its_way = operation == n;
                if on_its_way { Fate::DoneAndFailed } else { Fate::Refused(power_is_off()) }
            }
            Some(Failure::Short(n)) if operation == n => Fate::HalfDone,
            Some(Failure::SyncLost(n)) if operation == n => Fate::Lost,
            Some(Failure::Full(n)) if operation >= n && grows => {
                Fate::Refused(io::ErrorKind::StorageFull.into())
            }
            Some(Failure::ReadOnly(n)) if operation >= n => {
                Fate::Refused(io::ErrorKind::ReadOnlyFilesystem.into())
            }
            _ => Fate::Done,
        }
    }

    fn count_read(&mut self) -> io::Result<()> {
        let read = self.reads;
        self.reads += 1;
        if self.failure != Some(Failure::Read(read)) {
            return Ok(());
        }
        self.has_failed = true;
        Err(injected())
    }

    fn next_identity(&mut self) -> Identity {
        self.made += 1;
        [0, self.made]
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
        let mut disk = self.disk();
        disk.count_read()?;
        let names = disk.files.keys().filter_map(|path| match path.rsplit_once('/') {
            Some((parent, name)) => (parent == folder).then(|| name.to_owned()),
            None => folder.is_empty().then(|| path.clone()),
        });
        Ok(names.collect())
    }

    fn create_folder(&self, _folder: &str) -> io::Result<()> {
        self.disk().count(false).whole()
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.count(false).whole()?;
        let inside = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent) == folder;
        disk.removed.retain(|path, _| !inside(path));
        let entries = disk.files.iter_mut().filter(|(path, _)| inside(path));
        entries.for_each(|(_, contents)| contents.entry_is_durable = true);
        Ok(())
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.count(true).whole()?;
        if disk.files.contains_key(path) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, path.to_owned()));
        }
        let identity = disk.next_identity();
        disk.files.insert(path.to_owned(), Contents { identity, ..Contents::default() });
        Ok(Box::new(MemoryFile { files: self.clone(), path: path.to_owned() }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.count_read()?;
        disk.file(path)?;
        Ok(Box::new(MemoryFile { files: self.clone(), path: path.to_owned() }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.count(false).whole()?;
        let contents = disk.files.remove(path).ok_or_else(|| not_found(path))?;
        if contents.entry_is_durable {
            disk.removed.insert(path.to_owned(), contents);
        }
        Ok(())
    }

    fn salt(&self) -> u64 {
        let mut disk = self.disk();
        disk.salts += 1;
        kit::random::Random::new(disk.salts).next_u64()
    }
}

struct MemoryFile {
    files: MemoryFiles,
    path: String,
}

impl MemoryFile {
    fn change(&self, mut change: Change) -> io::Result<()> {
        let mut disk = self.files.disk();
        let size = disk.file(&self.path)?.live.len();
        let grows = match &change {
            Change::Write { offset, bytes } => offset + bytes.len() > size,
            Change::SetSize(new) => *new > size,
        };
        let result = match disk.count(grows) {
            Fate::Done => Ok(()),
            Fate::Refused(error) => return Err(error),
            Fate::HalfDone => {
                if let Change::Write { bytes, .. } = &mut change {
                    bytes.truncate(bytes.len() / 2);
                }
                Err(injected())
            }
            Fate::DoneAndFailed | Fate::Lost => Err(injected()),
        };
        disk.file(&self.path)?.change(change);
        result
    }
}

impl StorageFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.files.disk().file(&self.path)?.live.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.files.disk();
        disk.count_read()?;
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
        let fate = disk.count(false);
        let contents = disk.file(&self.path)?;
        if let Fate::Lost = fate {
            contents.pending.clear();
        }
        fate.whole()?;
        let Contents { durable, pending, .. } = contents;
        pending.drain(..).for_each(|change| apply(durable, &change));
        Ok(())
    }

    fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(Some(self.files.disk().file(&self.path)?.identity))
    }
}

fn injected() -> io::Error {
    io::Error::other("injected error")
}

fn power_is_off() -> io::Error {
    io::Error::other("power is off")
}

fn not_found(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.to_owned())
}
