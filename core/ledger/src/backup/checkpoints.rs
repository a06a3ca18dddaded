//! Checkpoints: those that hold are copied, with the packs that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use types::{Error, Height, Result, SqlState};

use crate::checkpoint::{
    self, Manifest, PackReader, heights, manifest_path, pack_path, read_manifest,
};
use crate::hash::Hash;
use crate::header::ResultHeader;
use crate::headers::{PieceError, pieces, read_piece};
use crate::log::{first_record, read_record};
use crate::stream::Stream;

use super::manifest::Entry;
use super::target::Target;
use super::{Attempt, Fault, of_source, of_source_log};

impl Attempt<'_> {
    /// Copies the ledger's checkpoints that can serve blocks from `first_block` on; returns how
    /// many the backup has then.
    pub(super) fn checkpoints(
        &self,
        target: &mut Target<'_>,
        first_block: Height,
        entries: &mut Vec<Entry>,
    ) -> Result<usize, Fault> {
        let serves = |height: &Height| *height <= self.head.height && height + 1 >= first_block;
        let there = heights(self.source).map_err(of_source)?.into_iter().filter(serves);
        let there: BTreeSet<Height> = there.collect();
        let mut taken = BTreeMap::new();
        for &height in there.iter().rev() {
            match self.checkpoint(target, height) {
                Ok(Some(copied)) => drop(taken.insert(height, copied)),
                Ok(None) => {}
                // A checkpoint goes before its packs do, so this one has lost them.
                Err(Fault::Gone(_)) if self.has_checkpoint(height)? => {}
                Err(fault) => return Err(fault),
            }
        }
        let listed = listed(target);
        // Blocks that only an older checkpoint reaches are of no use without it.
        let oldest = listed.first().filter(|_| first_block > 0);
        let others = listed.iter().filter(|height| there.contains(height));
        for &height in oldest.into_iter().chain(others) {
            if !taken.contains_key(&height)
                && let Some(carried) = carry(target, height)?
            {
                taken.insert(height, carried);
            }
        }
        let count = taken.len();
        let by_path: BTreeMap<String, Entry> =
            taken.into_values().flatten().map(|entry| (entry.path.clone(), entry)).collect();
        entries.extend(by_path.into_values());
        Ok(count)
    }

    fn has_checkpoint(&self, height: Height) -> Result<bool, Fault> {
        Ok(heights(self.source).map_err(of_source)?.contains(&height))
    }

    /// The files of a checkpoint, copied; `None` if it does not hold.
    fn checkpoint(
        &self,
        target: &mut Target<'_>,
        height: Height,
    ) -> Result<Option<Vec<Entry>>, Fault> {
        let manifest = match read_manifest(self.source, height) {
            Ok(manifest) => manifest,
            Err(error) if error.code() != SqlState::IO_ERROR => return Ok(None),
            Err(error) if self.has_checkpoint(height)? => return Err(error.into()),
            Err(error) => {
                let gone = io::Error::new(io::ErrorKind::NotFound, error.to_string());
                return Err(Fault::Gone(gone));
            }
        };
        if self.result_hash(height)? != Some(manifest.result.hash()) {
            return Ok(None);
        }
        let mut entries = Vec::new();
        // What an interrupted run has copied is as good as the ledger's: only a manifest tells
        // that it was read.
        let mut is_listed = true;
        for path in paths(&manifest) {
            match target.copy_unless_other(self.source, &path)? {
                Some(entry) => entries.push(entry),
                None => return Ok(None),
            }
            is_listed &= target.listed(&path)?.is_some();
        }
        let holds = match target.verdicts.get(&height) {
            Some(verdict) => *verdict,
            None => is_listed || holds(target, &manifest)?,
        };
        target.verdicts.insert(height, holds);
        Ok(holds.then_some(entries))
    }

    /// The head of the ledger at a height, if it has that block.
    fn result_hash(&self, height: Height) -> Result<Option<Hash>, Fault> {
        if height >= first_record(self.source, Stream::Results).map_err(of_source_log)? {
            let result = read_record(self.source, Stream::Results, height);
            return Ok(result.map_err(of_source_log)?.map(|result| result.hash()));
        }
        let pieces = pieces(self.source, Stream::Results).map_err(of_source)?;
        let Some(piece) = pieces.into_iter().rfind(|piece| *piece <= height) else {
            return Ok(None);
        };
        let piece =
            read_piece::<ResultHeader>(self.source, piece).map_err(|error| match error {
                PieceError::Io(error) => of_source(error),
                PieceError::Damaged(error) => error.into(),
            })?;
        Ok(piece.header(height).map(ResultHeader::hash))
    }
}

/// Reads all groups of a checkpoint in the backup.
fn holds(target: &mut Target<'_>, manifest: &Manifest) -> Result<bool> {
    let packs = manifest.packs();
    let check = |target: &mut Target<'_>| {
        let packs = PackReader::open(target.files, manifest.order.ledger_id, &packs)?;
        let mut bytes = Vec::new();
        for group in manifest.groups() {
            packs.read(group, &mut bytes)?;
            target.checked(group.place.length)?;
        }
        Ok(())
    };
    match check(target) {
        Ok(()) => Ok(true),
        Err(error) if Error::code(&error) == SqlState::DATA_CORRUPTED => Ok(false),
        Err(error) => Err(error),
    }
}

fn paths(manifest: &Manifest) -> Vec<String> {
    let packs = manifest.packs().into_iter().map(pack_path);
    packs.chain([manifest_path(manifest.height())]).collect()
}

/// Heights of the checkpoints in the backup before.
fn listed(target: &Target<'_>) -> Vec<Height> {
    let entries = target.previous().into_iter().flat_map(|previous| &previous.entries);
    entries.filter_map(|entry| checkpoint::height_of(&entry.path)).collect()
}

/// The files of a checkpoint of the backup before, if all are as they were.
fn carry(target: &mut Target<'_>, height: Height) -> Result<Option<Vec<Entry>>, Fault> {
    if target.listed(&manifest_path(height))?.is_none() {
        return Ok(None);
    }
    let manifest = read_manifest(target.files, height)?;
    let mut entries = Vec::new();
    for path in paths(&manifest) {
        match target.listed(&path)? {
            Some((entry, _)) => entries.push(entry),
            None => return Ok(None),
        }
    }
    Ok(Some(entries))
}
