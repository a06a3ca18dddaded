//! The folder of checkpoints: lists them, and removes those that are no longer needed, with packs
//! that no manifest refers to any more.

use std::collections::BTreeSet;
use std::io;

use types::{Error, Height, Result, SqlState};

use crate::files::{Files, read_all, sqlstate_of};

use super::manifest::Manifest;

pub const CHECKPOINT_FOLDER: &str = "checkpoints";

const PACK: &str = "pack";
const MANIFEST: &str = "manifest";

pub fn pack_path(height: Height) -> String {
    format!("{CHECKPOINT_FOLDER}/{height:020}.{PACK}")
}

pub fn manifest_path(height: Height) -> String {
    format!("{CHECKPOINT_FOLDER}/{height:020}.{MANIFEST}")
}

/// The height of a checkpoint, if this is the path of its manifest.
pub fn height_of(path: &str) -> Option<Height> {
    parse(path.strip_prefix(CHECKPOINT_FOLDER)?.strip_prefix('/')?, MANIFEST)
}

/// The height in the name of a file of one kind.
fn parse(name: &str, kind: &str) -> Option<Height> {
    let digits = name.strip_suffix(kind)?.strip_suffix('.')?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

fn of_kind(files: &dyn Files, kind: &str) -> io::Result<Vec<Height>> {
    let names = files.list(CHECKPOINT_FOLDER)?;
    Ok(names.iter().filter_map(|name| parse(name, kind)).collect())
}

/// Heights that have a manifest, ascending. Whether it holds is another question.
pub fn heights(files: &dyn Files) -> io::Result<Vec<Height>> {
    of_kind(files, MANIFEST)
}

pub fn read_manifest(files: &dyn Files, height: Height) -> Result<Manifest> {
    let path = manifest_path(height);
    let manifest = files.open(&path).and_then(|file| read_all(&*file));
    let manifest = manifest.map_err(|error| unreadable(&path, error))?;
    let manifest = Manifest::decode(&manifest)?;
    if manifest.height() == height {
        return Ok(manifest);
    }
    let what = format!("{path} is damaged: it is the checkpoint of block {}", manifest.height());
    Err(Error::new(SqlState::DATA_CORRUPTED, what))
}

/// Size of a pack.
pub fn pack_bytes(files: &dyn Files, height: Height) -> io::Result<u64> {
    files.open(&pack_path(height))?.size()
}

/// Completes a checkpoint whose groups are on disk. Returns the manifest's size when it is durable.
///
/// The folder is synced first: a name that survives a crash must not outlive the pack's.
pub fn write_manifest(files: &dyn Files, manifest: &Manifest) -> Result<u64> {
    let bytes = manifest.encode()?;
    let path = manifest_path(manifest.height());
    let write = || {
        files.sync_folder(CHECKPOINT_FOLDER)?;
        let file = files.create(&path)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        files.sync_folder(CHECKPOINT_FOLDER)
    };
    write().map_err(|error: io::Error| {
        Error::new(sqlstate_of(&error), format!("{path} cannot be written: {error}"))
    })?;
    Ok(bytes.len() as u64)
}

/// Copies a checkpoint into a folder without any, in the same order of writes.
pub fn copy(source: &dyn Files, target: &dyn Files, manifest: &Manifest) -> Result<()> {
    let pack = |height: Height| -> io::Result<()> {
        const BUFFER_BYTES: usize = 1 << 20;
        let path = pack_path(height);
        let (from, to) = (source.open(&path)?, target.create(&path)?);
        let (size, mut offset) = (from.size()?, 0);
        let mut buffer = vec![0; BUFFER_BYTES];
        while offset < size {
            let length = (size - offset).min(BUFFER_BYTES as u64);
            let piece = &mut buffer[..length as usize];
            from.read_at(piece, offset)?;
            to.write_at(piece, offset)?;
            offset += length;
        }
        to.sync()
    };
    let packs = || {
        target.create_folder(CHECKPOINT_FOLDER)?;
        target.sync_folder("")?;
        manifest.packs().into_iter().try_for_each(pack)
    };
    packs().map_err(|error: io::Error| {
        Error::new(sqlstate_of(&error), format!("a checkpoint cannot be copied: {error}"))
    })?;
    write_manifest(target, manifest).map(drop)
}

/// Makes room for a checkpoint at `height`: what lies there, and checkpoints above, which are of
/// another past, go; so do those that are `lost`. All others stay until the new one is durable.
pub fn clear(files: &dyn Files, height: Height, lost: &[Height]) -> io::Result<()> {
    let in_the_way = |at: &Height| *at >= height || lost.contains(at);
    let manifests: Vec<Height> = heights(files)?.into_iter().filter(in_the_way).collect();
    remove(files, manifests.into_iter().map(manifest_path))?;
    let packs = of_kind(files, PACK)?.into_iter().filter(|at| *at == height);
    remove(files, packs.map(pack_path))
}

/// Keeps the checkpoint at `newest`, which is durable, and the `keep - 1` before it, with the packs
/// that they refer to. Everything else goes: older ones, damaged ones, what crashes left. One that
/// cannot be read just now is an error, since it is not known what it refers to.
pub fn retain(files: &dyn Files, newest: Height, keep: usize) -> io::Result<()> {
    let manifests = heights(files)?;
    let mut kept = BTreeSet::new();
    let mut packs = BTreeSet::new();
    for &height in manifests.iter().rev().filter(|height| **height <= newest) {
        if kept.len() == keep.max(1) {
            break;
        }
        match read_manifest(files, height) {
            Ok(manifest) => {
                kept.insert(height);
                packs.extend(manifest.packs());
            }
            Err(error) if error.code() == SqlState::IO_ERROR => {
                return Err(io::Error::other(error.to_string()));
            }
            Err(_) => {}
        }
    }
    // Looked for before anything goes: what cannot be read is a reason to keep everything.
    let lost = of_kind(files, PACK)?.into_iter().filter(|height| !packs.contains(height));
    let manifests = manifests.into_iter().filter(|height| !kept.contains(height));
    remove(files, manifests.map(manifest_path))?;
    remove(files, lost.map(pack_path))
}

fn remove(files: &dyn Files, paths: impl Iterator<Item = String>) -> io::Result<()> {
    let mut paths = paths.peekable();
    if paths.peek().is_none() {
        return Ok(());
    }
    paths.try_for_each(|path| files.remove(&path))?;
    files.sync_folder(CHECKPOINT_FOLDER)
}

pub fn unreadable(path: &str, error: io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("{path} cannot be read: {error}"))
}
