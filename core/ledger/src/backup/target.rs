//! The folder that a backup is written to.

use std::collections::BTreeMap;
use std::io;

use sha2::{Digest, Sha256};
use types::{Error, Height, Result, SqlState};

use crate::checkpoint::{self, CHECKPOINT_FOLDER};
use crate::files::{Files, StorageFile, sqlstate_of};
use crate::hash::{Hash, to_hex};
use crate::header::LedgerId;
use crate::log::list_segments;
use crate::stream::Stream;

use super::manifest::{Entry, Manifest, manifest_name, parse_manifest_name};
use super::view::{find_newest, hash_up_to};
use super::{Extent, Fault, Head, Report, Scope, Taken, of_source, paths};

/// The file that tells a backup from a data folder.
pub(super) const MARKER: &str = "BACKUP";
const MARKER_TEXT: &[u8] = b"This folder is a backup of a ledger, or an archive of one.\n\
It is written by `tally backup` and `tally prune`, checked by `tally backup --verify`,\n\
and made a data folder again by `tally restore`.\n";
const LOCK: &str = "LOCK";
/// Is there until the first manifest is on stable storage: what was copied before was no backup.
const UNFINISHED: &str = "UNFINISHED";
const FOLDERS: [&str; 5] = [
    CHECKPOINT_FOLDER,
    Stream::Orders.folder(),
    Stream::Results.folder(),
    Stream::Orders.header_folder(),
    Stream::Results.header_folder(),
];
pub(super) const BUFFER_BYTES: usize = 1 << 20;

pub(super) struct Target<'a> {
    pub files: &'a dyn Files,
    pub extent: Extent,
    /// The newest backup that is there.
    previous: Option<Manifest>,
    /// There was a backup, and no manifest is whole.
    is_damaged: bool,
    report: Report<'a>,
    /// Files of `previous` that were read: with their hasher if they are as they were.
    listed: BTreeMap<String, Option<Sha256>>,
    /// Files that are as in the ledger.
    done: BTreeMap<String, Entry>,
    /// Whether a checkpoint of `done` holds, by its height.
    pub verdicts: BTreeMap<Height, bool>,
}

impl<'a> Target<'a> {
    pub fn open(files: &'a dyn Files, report: Report<'a>) -> Result<Target<'a>> {
        let names = files.list("").map_err(cannot_write)?;
        if !names.iter().any(|name| name == MARKER) {
            if names.iter().any(|name| name != LOCK) {
                let what = "the folder is neither empty nor a backup";
                return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                    .with_hint("Choose a new folder, or one that holds a backup already."));
            }
            write_new(files, MARKER, MARKER_TEXT)?;
        }
        for folder in FOLDERS {
            files.create_folder(folder).map_err(cannot_write)?;
        }
        files.sync_folder("").map_err(cannot_write)?;
        let (previous, unfinished) = find_newest(files)?;
        let has_manifest = previous.is_some() || !unfinished.is_empty();
        let mut is_unfinished = names.iter().any(|name| name == UNFINISHED);
        if !has_manifest && !is_unfinished {
            write_new(files, UNFINISHED, b"")?;
            is_unfinished = true;
        }
        Ok(Target {
            files,
            extent: Extent::default(),
            is_damaged: previous.is_none() && !is_unfinished,
            previous,
            report,
            listed: BTreeMap::new(),
            done: BTreeMap::new(),
            verdicts: BTreeMap::new(),
        })
    }

    pub fn previous(&self) -> Option<&Manifest> {
        self.previous.as_ref()
    }

    /// Whether a ledger, up to a block and from another on, can follow what is there.
    /// `first` is the oldest order that the ledger has; its results begin no later.
    pub fn admit(&self, ledger_id: LedgerId, head: Head, first: Height) -> Result<()> {
        let Some(previous) = &self.previous else {
            return self.admit_without_manifest(first);
        };
        if previous.ledger_id != ledger_id {
            let of = to_hex(&previous.ledger_id);
            return Err(refused(format!("the folder holds a backup of another ledger, {of}")));
        }
        let height = previous.head.height;
        if height + 1 < first {
            let what =
                format!("the backup ends with block {height}, the ledger begins with {first}");
            return Err(refused(what).with_detail(format!(
                "Blocks {} to {} were pruned before they were in this backup.",
                height + 1,
                first - 1
            )));
        }
        match height == head.height && previous.head != head {
            true => Err(another_past(height)),
            false => Ok(()),
        }
    }

    /// What no manifest lists is removed in the end: not where there was a backup, if that would
    /// take the last copy of a block.
    fn admit_without_manifest(&self, first: Height) -> Result<()> {
        let segments = list_segments(self.files, Stream::Orders)?;
        if !self.is_damaged || segments.first().is_none_or(|oldest| *oldest >= first) {
            return Ok(());
        }
        let what = "the folder has segments that the ledger has pruned, and no whole manifest";
        Err(refused(what.to_owned()))
    }

    /// Segments of the backup before that the copy has no more to do with. In an archive they may
    /// be many, so there only their sizes are looked at.
    pub fn carried_segments(
        &mut self,
        scope: Scope,
        stream: Stream,
        of: &dyn Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, Fault> {
        let segments = self.previous.iter().flat_map(|previous| previous.segments_of(stream));
        let entries: Vec<Entry> = segments.filter(|entry| of(entry)).cloned().collect();
        for entry in &entries {
            let holds = match scope {
                Scope::Ledger => self.listed(&entry.path)?.is_some(),
                Scope::ClosedSegments => match self.open_file(&entry.path)? {
                    Some(file) => file.size().map_err(of_target)? >= entry.bytes,
                    None => false,
                },
            };
            if !holds {
                let what = format!("{} is damaged in the backup", entry.path);
                let error = Error::new(SqlState::DATA_CORRUPTED, what)
                    .with_detail("The ledger has pruned it, so it cannot be copied again.")
                    .with_hint("Put a copy of the file there, from an archive or another backup.");
                return Err(error.into());
            }
        }
        Ok(entries)
    }

    /// Adds what the backup before has besides segments, and is not among the entries.
    pub fn carry_others(&self, entries: &mut Vec<Entry>) {
        let before = self.previous.iter().flat_map(|previous| &previous.entries);
        let others = before.filter(|entry| entry.last_block.is_none()).cloned();
        let others: Vec<Entry> =
            others.filter(|other| entries.iter().all(|entry| entry.path != other.path)).collect();
        entries.extend(others);
    }

    /// A file of the backup before, if it is as it was when that was made.
    pub fn listed(&mut self, path: &str) -> Result<Option<(Entry, Sha256)>, Fault> {
        let previous = self.previous.as_ref();
        let Some(entry) = previous.and_then(|previous| previous.entry(path)).cloned() else {
            return Ok(None);
        };
        if !self.listed.contains_key(path) {
            let hasher = self.read_listed(&entry)?;
            self.extent.files_repaired += u64::from(hasher.is_none());
            self.listed.insert(path.to_owned(), hasher);
        }
        Ok(self.listed.get(path).cloned().flatten().map(|hasher| (entry, hasher)))
    }

    fn read_listed(&mut self, entry: &Entry) -> Result<Option<Sha256>, Fault> {
        let Some(file) = self.open_file(&entry.path)? else {
            return Ok(None);
        };
        if file.size().map_err(cannot_write)? < entry.bytes {
            return Ok(None);
        }
        let hasher = self.hash(&*file, entry.bytes, of_target)?;
        let same = <Hash>::from(hasher.clone().finalize()) == entry.digest;
        Ok(same.then_some(hasher))
    }

    pub fn hash(
        &mut self,
        file: &dyn StorageFile,
        end: u64,
        fault: fn(io::Error) -> Fault,
    ) -> Result<Sha256, Fault> {
        hash_up_to(file, end, fault, &mut |bytes| self.checked(bytes))
    }

    pub fn checked(&mut self, bytes: u64) -> Result<()> {
        self.extent.bytes_checked += bytes;
        (self.report)(&self.extent)
    }

    pub fn copied(&mut self, bytes: u64) -> Result<()> {
        self.extent.bytes_copied += bytes;
        (self.report)(&self.extent)
    }

    pub fn open_file(&self, path: &str) -> Result<Option<Box<dyn StorageFile>>, Fault> {
        match self.files.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(of_target(error)),
        }
    }

    /// Makes a file that never changes the same as the ledger's.
    pub fn copy_file(&mut self, source: &dyn Files, path: &str) -> Result<Entry, Fault> {
        match self.copy_unless_other(source, path)? {
            Some(entry) => Ok(entry),
            None => {
                let what = format!("{path} is another file in the ledger than in the backup");
                Err(refused(what).into())
            }
        }
    }

    /// The same; `None` if the backup before has another file of this name, which it needs.
    pub fn copy_unless_other(
        &mut self,
        source: &dyn Files,
        path: &str,
    ) -> Result<Option<Entry>, Fault> {
        if let Some(entry) = self.done.get(path) {
            return Ok(Some(entry.clone()));
        }
        let from = source.open(path).map_err(of_source)?;
        let bytes = from.size().map_err(of_source)?;
        let mut entry = Entry { path: path.to_owned(), bytes, digest: [0; 32], last_block: None };
        if let Some(there) = self.open_file(path)? {
            entry.digest = self.hash(&*from, bytes, of_source)?.finalize().into();
            let listed = self.listed(path)?;
            let same = match &listed {
                Some((listed, _)) => *listed == entry,
                None => self.is_same(&*there, &entry)?,
            };
            if listed.is_some() && !same {
                return Ok(None);
            }
            if same {
                // A run that was killed may not have synced it.
                there.sync().map_err(of_target)?;
                self.done.insert(path.to_owned(), entry.clone());
                return Ok(Some(entry));
            }
            self.files.remove(path).map_err(of_target)?;
        }
        entry.digest = self.copy_bytes(&*from, path, bytes)?;
        self.done.insert(path.to_owned(), entry.clone());
        Ok(Some(entry))
    }

    fn is_same(&mut self, there: &dyn StorageFile, entry: &Entry) -> Result<bool, Fault> {
        if there.size().map_err(of_target)? != entry.bytes {
            return Ok(false);
        }
        let found = self.hash(there, entry.bytes, of_target)?;
        Ok(<Hash>::from(found.finalize()) == entry.digest)
    }

    fn copy_bytes(&mut self, from: &dyn StorageFile, path: &str, size: u64) -> Result<Hash, Fault> {
        let to = self.files.create(path).map_err(of_target)?;
        let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(size).unwrap_or(usize::MAX))];
        let mut hasher = Sha256::new();
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(buffer.len() as u64);
            let piece = &mut buffer[..length as usize];
            from.read_at(piece, offset).map_err(of_source)?;
            hasher.update(&*piece);
            to.write_at(piece, offset).map_err(of_target)?;
            offset += length;
            self.copied(length)?;
        }
        self.sync(&*to, path)?;
        Ok(hasher.finalize().into())
    }

    /// Syncs a file. If that fails it is not known what is on disk, whatever reads show, so the
    /// next run must not find it; only of a file that grew is the begin as good as before.
    pub fn sync(&self, file: &dyn StorageFile, path: &str) -> Result<(), Fault> {
        file.sync().map_err(|error| {
            if self.previous.as_ref().is_none_or(|previous| previous.entry(path).is_none()) {
                let _ = self.files.remove(path);
            }
            of_target(error)
        })
    }

    /// Writes the manifest, also if nothing is new: whether the one before was ever synced is not
    /// known. Then removes what it does not need.
    pub fn finish(self, manifest: Manifest) -> Result<Taken> {
        let names = self.files.list("").map_err(cannot_write)?;
        let numbers: Vec<u64> = names.iter().filter_map(|name| parse_manifest_name(name)).collect();
        let newest = numbers.last().copied().unwrap_or(0);
        let number = newest + 1;
        for folder in FOLDERS.into_iter().chain([""]) {
            self.files.sync_folder(folder).map_err(cannot_write)?;
        }
        write_new(self.files, &manifest_name(number), &manifest.encode())?;
        if names.iter().any(|name| name == UNFINISHED) {
            self.files.remove(UNFINISHED).map_err(cannot_write)?;
        }
        // The backup is there whether or not this can be done; the next run does it again.
        let _ = self.remove_others(number, &numbers, &manifest);
        let checkpoints = manifest.entries.iter();
        let checkpoints = checkpoints.filter_map(|entry| checkpoint::height_of(&entry.path));
        Ok(Taken {
            head: manifest.head,
            first_block: manifest.first_block(),
            checkpoints: checkpoints.collect(),
            files: manifest.entries.len() as u64,
            bytes: manifest.bytes(),
            extent: self.extent,
        })
    }

    fn remove_others(&self, number: u64, numbers: &[u64], manifest: &Manifest) -> io::Result<()> {
        for other in numbers.iter().filter(|other| **other != number) {
            self.files.remove(&manifest_name(*other))?;
        }
        self.files.sync_folder("")?;
        let needed = paths(&manifest.entries);
        for folder in FOLDERS {
            let names = self.files.list(folder)?;
            let all = names.iter().map(|name| format!("{folder}/{name}"));
            let lost: Vec<String> = all.filter(|path| !needed.contains(path.as_str())).collect();
            if !lost.is_empty() {
                lost.iter().try_for_each(|path| self.files.remove(path))?;
                self.files.sync_folder(folder)?;
            }
        }
        Ok(())
    }
}

/// Returns when the file is on stable storage, and its name is.
fn write_new(files: &dyn Files, name: &str, bytes: &[u8]) -> Result<()> {
    let write = || {
        let file = files.create(name)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        files.sync_folder("")
    };
    write().map_err(cannot_write)
}

pub(super) fn of_target(error: io::Error) -> Fault {
    Fault::Error(cannot_write(error))
}

fn cannot_write(error: io::Error) -> Error {
    let code = sqlstate_of(&error);
    let what = match code {
        SqlState::DISK_FULL => "the disk of the backup is full",
        _ => "the backup cannot be written",
    };
    Error::new(code, what).with_detail(error.to_string()).with_hint(
        "The backup before is as it was. Run the command again: it goes on where it was stopped.",
    )
}

pub(super) fn another_past(height: Height) -> Error {
    refused(format!("the backup's block {height} is not the ledger's"))
        .with_detail("The ledger went on from an earlier block, or was restored, after the backup.")
}

pub(super) fn refused(what: String) -> Error {
    let code = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    Error::new(code, what).with_hint("Choose a new folder for this ledger's backups.")
}
