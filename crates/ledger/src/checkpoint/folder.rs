//! The folder of the checkpoints: what is in it, and what may go.

use std::collections::BTreeSet;
use std::io;

use types::{Error, Height, Result, SqlState};

use crate::files::Files;

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
    let manifest = read(files, &path).map_err(|error| unreadable(&path, error))?;
    let manifest = Manifest::decode(&manifest)?;
    if manifest.height() == height {
        return Ok(manifest);
    }
    let what = format!("{path} is damaged: it is the checkpoint of block {}", manifest.height());
    Err(Error::new(SqlState::DATA_CORRUPTED, what))
}

fn read(files: &dyn Files, path: &str) -> io::Result<Vec<u8>> {
    let file = files.open(path)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
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
        Error::new(SqlState::IO_ERROR, format!("{path} cannot be written: {error}"))
    })?;
    Ok(bytes.len() as u64)
}

/// Keeps the checkpoint at `newest` and the `keep - 1` before it, with the packs that they refer
/// to. Everything else goes: older ones, what crashes left, and checkpoints above `newest`, which
/// are of another past than the one that was just written. `None` for `newest` keeps nothing.
pub fn retain(files: &dyn Files, newest: Option<Height>, keep: usize) -> io::Result<()> {
    let manifests = heights(files)?;
    let not_above = manifests.iter().rev().filter(|height| Some(**height) <= newest);
    let mut kept = BTreeSet::new();
    let mut packs = BTreeSet::new();
    for &height in not_above {
        if kept.len() == keep.max(1) {
            break;
        }
        if let Ok(manifest) = read_manifest(files, height) {
            kept.insert(height);
            packs.extend(manifest.groups().map(|group| group.place.pack));
        }
    }
    let lost: Vec<String> =
        manifests.into_iter().filter(|h| !kept.contains(h)).map(manifest_path).collect();
    remove(files, &lost)?;
    let packs_here = of_kind(files, PACK)?.into_iter();
    let lost: Vec<String> = packs_here.filter(|h| !packs.contains(h)).map(pack_path).collect();
    remove(files, &lost)
}

fn remove(files: &dyn Files, paths: &[String]) -> io::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    paths.iter().try_for_each(|path| files.remove(path))?;
    files.sync_folder(CHECKPOINT_FOLDER)
}

pub fn unreadable(path: &str, error: io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("{path} cannot be read: {error}"))
}
