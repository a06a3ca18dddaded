//! The few file operations that the log needs, as a seam: real files here, files that can crash in
//! [`crate::memory_files`].
//!
//! Paths are relative to the data folder, with `/` between their parts; `""` is the folder itself.
//!
//! **Past the page cache.** A write that begins and ends on [`DIRECT_ALIGNMENT`], in memory as in
//! the file, goes straight to the device where the file system can do that. For 1.5 kB and an
//! fdatasync, two rounds of 20,000 on a virtio disk with ext4 gave 92 and 122 µs instead of 113 and
//! 130, and 36 and 44 µs of processor time instead of 48 and 48: no page is made dirty, found again
//! and copied. Everything else goes through the cache, and the two may alternate on one file, as
//! the kernel keeps them coherent.
//!
//! **One owner.** [`RealFiles::open`] holds an exclusive lock as long as it lives, so two nodes
//! never write one folder; [`RealFiles::read_only`] holds a shared one and refuses to write;
//! [`RealFiles::beside`] reads without asking. The operating system drops the lock with its
//! process. What is locked is the folder itself, which cannot be removed and made anew while it is
//! in use, and also the file `LOCK` (empty) in it: file systems over a network may lock files
//! alone.
//!
//! **Its owner's eyes only.** Files are made with mode 0600 and folders with 0700, whatever the
//! umask.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use types::SqlState;

/// What a write must be a multiple of, in address, offset and length, to pass the page cache by.
pub const DIRECT_ALIGNMENT: usize = 4096;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// What a client is told of an error of a disk.
pub fn sqlstate_of(error: &io::Error) -> SqlState {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            SqlState::DISK_FULL
        }
        _ => SqlState::IO_ERROR,
    }
}

/// Whether an operation failed for want of room, which there may be later.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The error that closed something for good. What comes later is told it, and that it was of this
/// kind: a disk that was full stays one.
#[derive(Clone, Debug)]
pub struct FirstFailure {
    kind: io::ErrorKind,
    why: String,
}

impl FirstFailure {
    pub fn of(error: &io::Error) -> FirstFailure {
        FirstFailure { kind: error.kind(), why: error.to_string() }
    }

    /// The error again.
    pub fn again(&self) -> io::Error {
        io::Error::new(self.kind, self.why.clone())
    }

    /// What is told of something that it has closed.
    pub fn closed(&self, what: &str) -> io::Error {
        let why = &self.why;
        io::Error::new(
            self.kind,
            format!("{what} was closed by an earlier error, restart to recover: {why}"),
        )
    }
}

/// A whole file.
pub fn read_all(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A new file with these bytes in a folder, which is made if need be: all on the device before it
/// returns.
pub fn write_new(files: &dyn Files, folder: &str, path: &str, bytes: &[u8]) -> io::Result<()> {
    files.create_folder(folder)?;
    files.sync_folder("")?;
    let file = files.create(path)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    files.sync_folder(folder)
}

/// Makes sure of a file that reads well but may be in the page cache alone, since the sync after
/// its writes never came, or failed. After that the cache takes pages for clean that the disk has
/// never had, and another sync says nothing: they are written once more.
pub(crate) fn write_again(files: &dyn Files, path: &str) -> io::Result<()> {
    let file = files.open(path)?;
    let bytes = read_all(&*file)?;
    file.write_at(&bytes, 0)?;
    file.sync()
}

/// A folder of files. Every method that fails names the path.
pub trait Files: Send + Sync {
    /// Names of the entries of a folder, sorted; empty if there is no such folder.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    fn create_folder(&self, folder: &str) -> io::Result<()>;
    /// Makes created and removed entries of a folder durable.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
    /// A new, empty file; an error if the path exists.
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>>;
    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>>;
    fn remove(&self, path: &str) -> io::Result<()>;
    /// A number that cannot be guessed from outside, for a new segment (see [`crate::segment`]).
    fn salt(&self) -> u64;
}

/// A file with positioned reads and writes.
pub trait StorageFile: Send + Sync {
    fn size(&self) -> io::Result<u64>;
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Durable after the next `sync`, at the latest.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Contents and size are on stable storage when this returns.
    fn sync(&self) -> io::Result<()>;
    /// Which file of its file system this is: a copy of it is another one, also under the same
    /// name. `None`: it cannot be told.
    fn identity(&self) -> io::Result<Option<Identity>> {
        Ok(None)
    }
}

/// Of a file, as long as it exists: its number, and when it was made.
pub type Identity = [u64; 2];

/// A folder of the operating system.
pub struct RealFiles {
    root: PathBuf,
    writable: bool,
    _locks: Vec<File>,
}

impl RealFiles {
    /// Opens a folder for writing, as its only user; creates it if necessary.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        create_durably(&root).map_err(|error| at(&root, error))?;
        let folder = lock_folder(&root, File::try_lock)?;
        let path = root.join("LOCK");
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(FILE_MODE).open(&path);
        let lock = lock.map_err(|error| at(&path, error))?;
        lock.try_lock().map_err(|error| busy(&root, error))?;
        Ok(RealFiles { root, writable: true, _locks: folder.into_iter().chain([lock]).collect() })
    }

    /// Opens an existing folder, changing nothing in it. Several readers may share it, but not with
    /// a writer, whose half-written tail would look like damage.
    pub fn read_only(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        let folder = lock_folder(&root, File::try_lock_shared)?;
        let path = root.join("LOCK");
        let lock = match File::open(&path) {
            Ok(lock) => {
                lock.try_lock_shared().map_err(|error| busy(&root, error))?;
                Some(lock)
            }
            // A copy of a data folder need not have the lock file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(at(&path, error)),
        };
        Ok(RealFiles { root, writable: false, _locks: folder.into_iter().chain(lock).collect() })
    }

    /// Opens a folder that another process may be writing, changing nothing in it. Files may grow
    /// and go meanwhile: for a reader that is told which part of them is durable, and expects no
    /// more.
    pub fn beside(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::read_dir(&root).map_err(|error| at(&root, error))?;
        Ok(RealFiles { root, writable: false, _locks: Vec::new() })
    }

    fn path_to_change(&self, path: &str) -> io::Result<PathBuf> {
        let path = self.root.join(path);
        if self.writable {
            return Ok(path);
        }
        Err(at(&path, io::Error::new(io::ErrorKind::PermissionDenied, "opened read-only")))
    }

    fn wrap(&self, path: PathBuf, file: io::Result<File>) -> io::Result<Box<dyn StorageFile>> {
        let file = file.map_err(|error| at(&path, error))?;
        // Not every file system has it; the page cache is always there.
        let o_direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().write(true).custom_flags(o_direct).open(&path);
        let direct = direct.ok().filter(|_| self.writable);
        Ok(Box::new(RealFile { file, direct, path }))
    }
}

impl Files for RealFiles {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let path = self.root.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&path, error)),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> =
            names.collect::<io::Result<_>>().map_err(|error| at(&path, error))?;
        names.sort_unstable();
        Ok(names)
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        let path = self.path_to_change(folder)?;
        create_folders(&path).map_err(|error| at(&path, error))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let path = self.path_to_change(folder)?;
        File::open(&path).and_then(|folder| folder.sync_all()).map_err(|error| at(&path, error))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path_to_change(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(&path);
        self.wrap(path, file)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let path = self.root.join(path);
        let file = OpenOptions::new().read(true).write(self.writable).open(&path);
        self.wrap(path, file)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.path_to_change(path)?;
        fs::remove_file(&path).map_err(|error| at(&path, error))
    }

    fn salt(&self) -> u64 {
        // The standard library keys its hashers from the operating system's randomness.
        RandomState::new().hash_one(&self.root)
    }
}

struct RealFile {
    file: File,
    direct: Option<File>,
    path: PathBuf,
}

impl StorageFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(|error| at(&self.path, error))?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| at(&self.path, error))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let aligned = |n: usize| n.is_multiple_of(DIRECT_ALIGNMENT);
        if let Some(direct) = &self.direct
            && aligned(bytes.as_ptr().addr())
            && aligned(bytes.len())
            && aligned(offset as usize)
        {
            match direct.write_all_at(bytes, offset) {
                // A device with larger sectors.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                written => return written.map_err(|error| at(&self.path, error)),
            }
        }
        self.file.write_all_at(bytes, offset).map_err(|error| at(&self.path, error))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size).map_err(|error| at(&self.path, error))
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync also writes a larger size, as the data could not be read back without it.
        self.file.sync_data().map_err(|error| at(&self.path, error))
    }

    fn identity(&self) -> io::Result<Option<Identity>> {
        let metadata = self.file.metadata().map_err(|error| at(&self.path, error))?;
        // A number is given again when its file is gone, so the time belongs to it, where the file
        // system keeps it. The device's number changes with each boot, and does not.
        let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        let made_ns = made.map_or(0, |made| u64::try_from(made.as_nanos()).unwrap_or(u64::MAX));
        Ok(Some([metadata.ino(), made_ns]))
    }
}

/// Creates a folder, for its owner alone, and those above it; their names survive a crash once this
/// returns.
fn create_durably(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !exists(path)).collect();
    create_folders(folder)?;
    if !missing.is_empty() {
        // A umask may have taken more.
        fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
    }
    for created in missing {
        let above = created.parent().filter(|above| !above.as_os_str().is_empty());
        File::open(above.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn create_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Locks a folder by itself; `None` where its file system has no such locks.
fn lock_folder(
    root: &Path,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> io::Result<Option<File>> {
    // Also says what is no folder, or cannot be read.
    fs::read_dir(root).map_err(|error| at(root, error))?;
    let folder = File::open(root).map_err(|error| at(root, error))?;
    match lock(&folder) {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(error) => Err(busy(root, error)),
    }
}

/// The empty path, above a relative one, is the current folder.
fn exists(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.exists()
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn busy(path: &Path, error: TryLockError) -> io::Error {
    match error {
        TryLockError::Error(error) => at(path, error),
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("{}: the data folder is in use by another process", path.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_is_removed_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let writer = RealFiles::open(folder.path()).unwrap();
        fs::remove_file(folder.path().join("LOCK")).unwrap();
        let kind = |result: io::Result<RealFiles>| result.err().map(|error| error.kind());
        assert_eq!(kind(RealFiles::open(folder.path())), Some(io::ErrorKind::WouldBlock));
        assert_eq!(kind(RealFiles::read_only(folder.path())), Some(io::ErrorKind::WouldBlock));
        drop(writer);
        assert_eq!(kind(RealFiles::open(folder.path())), None);
    }

    #[test]
    fn a_copy_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = RealFiles::open(folder.path()).unwrap();
        let identity = |path: &str| files.open(path).unwrap().identity().unwrap().unwrap();
        let made = files.create("a").unwrap();
        let first = made.identity().unwrap().unwrap();
        made.write_at(b"written", 0).unwrap();
        made.sync().unwrap();
        assert_eq!(identity("a"), first);
        fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert_eq!(identity("b"), first, "under another name it is the same");
        fs::copy(folder.path().join("b"), folder.path().join("a")).unwrap();
        assert_ne!(identity("a"), first);
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("above/data");
        let files = RealFiles::open(&root).unwrap();
        files.create_folder("inner").unwrap();
        files.create("inner/file").unwrap();
        for (path, mode) in
            [("..", 0o700), ("", 0o700), ("inner", 0o700), ("inner/file", 0o600), ("LOCK", 0o600)]
        {
            let made = fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(made & 0o777, mode, "{path}");
        }
    }

    #[test]
    fn one_writer_or_many_readers() {
        let folder = tempfile::tempdir().unwrap();
        let writer = RealFiles::open(folder.path()).unwrap();
        let kind = |result: io::Result<RealFiles>| result.err().map(|error| error.kind());
        assert_eq!(kind(RealFiles::open(folder.path())), Some(io::ErrorKind::WouldBlock));
        assert_eq!(kind(RealFiles::read_only(folder.path())), Some(io::ErrorKind::WouldBlock));
        drop(writer);
        let reader = RealFiles::read_only(folder.path()).unwrap();
        assert_eq!(kind(RealFiles::read_only(folder.path())), None);
        assert_eq!(kind(RealFiles::open(folder.path())), Some(io::ErrorKind::WouldBlock));
        let refused = reader.create("x").err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::PermissionDenied));
        let absent = RealFiles::read_only(folder.path().join("no"));
        assert_eq!(kind(absent), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(RealFiles::open(folder.path().join("new/and/deep"))), None);
    }
}
