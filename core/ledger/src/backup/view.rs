//! A backup as read-only [`Files`]: each file of its newest complete manifest, up to the length and
//! with the digest that the manifest says, so that recovery reads it as it reads a data folder.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use types::{Error, Height, Result, SqlState};

use crate::files::{Files, StorageFile, read_all};
use crate::hash::to_hex;
use crate::log::SegmentRecords;
use crate::segment::parse_segment_path;
use crate::stream::Stream;

use super::manifest::{Entry, Manifest, parse_manifest_name};
use super::target::MARKER;
use super::{Fault, give_up, of_source};

const BUFFER_BYTES: usize = 1 << 20;

/// Whether a folder is a backup, finished or not.
pub fn is_backup(files: &dyn Files) -> io::Result<bool> {
    Ok(files.list("")?.iter().any(|name| name == MARKER))
}

/// The newest manifest of a folder that is whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Newest {
    pub manifest: Manifest,
    /// Names of those above it, which are not.
    pub unfinished: Vec<String>,
}

/// An error if there is none.
pub fn newest(files: &dyn Files) -> Result<Newest> {
    let (found, unfinished) = find_newest(files)?;
    let Some(manifest) = found else {
        let what = "the folder holds no finished backup";
        let error = Error::new(SqlState::DATA_CORRUPTED, what);
        return Err(match unfinished.last() {
            Some(name) => error.with_detail(format!("{name} is cut or damaged.")),
            None => error.with_hint("Run the backup again: it goes on where it was interrupted."),
        });
    };
    Ok(Newest { manifest, unfinished })
}

pub(super) fn find_newest(files: &dyn Files) -> Result<(Option<Manifest>, Vec<String>)> {
    let unreadable = |error: io::Error| Error::new(SqlState::IO_ERROR, error.to_string());
    let names = files.list("").map_err(unreadable)?;
    let mut unfinished = Vec::new();
    for name in names.into_iter().rev() {
        let Some(number) = parse_manifest_name(&name) else { continue };
        let bytes = files.open(&name).and_then(|file| read_all(&*file)).map_err(unreadable)?;
        match Manifest::decode(&bytes, number) {
            Ok(manifest) => return Ok((Some(manifest), unfinished)),
            Err(_) => unfinished.push(name),
        }
    }
    Ok((None, unfinished))
}

/// Feeds the bytes of a file, from its begin up to `end`, to a hasher.
pub(super) fn hash_up_to(
    file: &dyn StorageFile,
    end: u64,
    fault: fn(io::Error) -> Fault,
    read: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Sha256, Fault> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(end).unwrap_or(usize::MAX))];
    let mut offset = 0;
    while offset < end {
        let length = (end - offset).min(buffer.len() as u64);
        let piece = &mut buffer[..length as usize];
        file.read_at(piece, offset).map_err(fault)?;
        hasher.update(&*piece);
        offset += length;
        read(length)?;
    }
    Ok(hasher)
}

/// Compares the length and the digest of a backup's file.
pub(super) fn check_entry(
    files: &dyn Files,
    entry: &Entry,
    read: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let damaged = |what: String| {
        let what = format!("{} is damaged: {what}", entry.path);
        Error::new(SqlState::DATA_CORRUPTED, what)
    };
    let file = match files.open(&entry.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("it is not there".to_owned()));
        }
        Err(error) => return Err(Error::new(SqlState::IO_ERROR, error.to_string())),
    };
    let size = file.size().map_err(|e| Error::new(SqlState::IO_ERROR, e.to_string()))?;
    if size < entry.bytes {
        return Err(damaged(format!("it has {size} bytes instead of {}", entry.bytes)));
    }
    let hasher = hash_up_to(&*file, entry.bytes, of_source, read).map_err(give_up)?;
    let (written, found) = (to_hex(&entry.digest), to_hex(&hasher.finalize()));
    match written == found {
        true => Ok(()),
        false => Err(damaged(format!("its digest is {found}, written was {written}"))),
    }
}

/// The newest backup in a folder, read-only: the files of its manifest, each up to its length and
/// only if its digest is right.
pub struct BackupFiles {
    inner: Arc<dyn Files>,
    manifest: Manifest,
    verified: Mutex<BTreeSet<String>>,
}

impl BackupFiles {
    pub fn open(inner: Arc<dyn Files>) -> Result<BackupFiles> {
        let manifest = newest(&*inner)?.manifest;
        super::check_coherence(&manifest)?;
        Ok(BackupFiles { inner, manifest, verified: Mutex::default() })
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn check(&self, entry: &Entry) -> Result<()> {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if !verified.contains(&entry.path) {
            check_entry(&*self.inner, entry, &mut |_| Ok(()))?;
            verified.insert(entry.path.clone());
        }
        Ok(())
    }
}

impl Files for BackupFiles {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let inside = |entry: &Entry| {
            let (parent, name) = entry.path.rsplit_once('/')?;
            (parent == folder).then(|| name.to_owned())
        };
        Ok(self.manifest.entries.iter().filter_map(inside).collect())
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        Err(read_only(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        Err(read_only(folder))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Err(read_only(path))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let Some(entry) = self.manifest.entry(path) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, path.to_owned()));
        };
        self.check(entry)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        Ok(Box::new(Limited { file: self.inner.open(path)?, size: entry.bytes }))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        Err(read_only(path))
    }

    fn salt(&self) -> u64 {
        self.inner.salt()
    }
}

fn read_only(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{path}: a backup is only read"))
}

/// The begin of a file.
struct Limited {
    file: Box<dyn StorageFile>,
    size: u64,
}

impl StorageFile for Limited {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(read_only("a file"))
    }

    fn set_size(&self, _: u64) -> io::Result<()> {
        Err(read_only("a file"))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The one of the files at a path that has the most records, if they are the same segment.
fn longest(
    path: &str,
    first: Box<dyn StorageFile>,
    others: &[Arc<dyn Files>],
) -> Box<dyn StorageFile> {
    let Some(segment) = parse_segment_path(path) else { return first };
    let mut longest = first;
    // What another part has, and cannot be read, is no reason to refuse what is there.
    for other in others.iter().filter_map(|part| part.open(path).ok()) {
        if has_more_records(&*other, &*longest, segment) {
            longest = other;
        }
    }
    longest
}

fn has_more_records(
    one: &dyn StorageFile,
    other: &dyn StorageFile,
    (stream, first): (Stream, Height),
) -> bool {
    // A segment that is written to ends with zeros; of a closed one there is no other part.
    let end = |file: &dyn StorageFile| {
        let (size, mut last) = (file.size().ok()?, [0]);
        file.read_at(&mut last, size.checked_sub(1)?).ok()?;
        (last != [0]).then_some(size)
    };
    if end(one).is_some_and(|size| end(other) == Some(size)) {
        return false;
    }
    let open = |file| SegmentRecords::open(file, stream, first);
    let (Ok(mut one), Ok(mut other)) = (open(one), open(other)) else {
        return false;
    };
    if one.header != other.header {
        return false;
    }
    let count = |records: &mut SegmentRecords<'_>| {
        while let Ok(Some(_)) = records.next() {}
        records.place.next_height
    };
    count(&mut one) > count(&mut other)
}

/// A ledger in several folders, read-only: a pruned one, and the archives of what it had before; or
/// a backup, and the archives of what came after it. Where two have a file, the first one's is
/// read, but of a segment, which grows, the one that has the most records.
pub struct JoinedFiles(pub Vec<Arc<dyn Files>>);

impl Files for JoinedFiles {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = BTreeSet::new();
        for part in &self.0 {
            names.extend(part.list(folder)?);
        }
        Ok(names.into_iter().collect())
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        Err(read_only(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        Err(read_only(folder))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Err(read_only(path))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut missing = io::Error::new(io::ErrorKind::NotFound, path.to_owned());
        let mut parts = self.0.iter();
        for part in parts.by_ref() {
            match part.open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing = error,
                Ok(first) => return Ok(longest(path, first, parts.as_slice())),
                failed => return failed,
            }
        }
        Err(missing)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        Err(read_only(path))
    }

    fn salt(&self) -> u64 {
        self.0.first().map_or(0, |part| part.salt())
    }
}
