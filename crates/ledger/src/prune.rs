//! Pruning: old blocks go, their headers stay.
//!
//! A checkpoint spares a start the blocks before it, so a ledger may do without them: whole
//! segments, from the oldest one on, none of them above a checkpoint that holds, and never the
//! newest, which is written to. For each, [`crate::headers`] keeps a piece.
//!
//! # Order of writes
//!
//! ```text
//! 1  pieces, from the newest segment that goes down to the oldest: write, fdatasync, fsync of the
//!    folder, each before the next
//!                                             ── now it is decided ──
//! 2  segments, from the oldest up: remove, fsync of the folder, each before the next
//! ```
//!
//! *Why this order.* A piece counts if it begins where the segments begin, or where a piece that
//! counts ends. In step 1 the oldest piece comes last; until it is whole on disk, none of them
//! counts, and a crash leaves a ledger with all its blocks. Once it is, all count, since those
//! above were durable before it; whoever opens the ledger next completes step 2 ([`complete`]).
//! Removals are synced one by one from the oldest up, so what is left has no gap whatever a crash
//! undoes: it begins with a segment, behind a piece that ends right before it. Whether a segment's
//! blocks are elsewhere (an archive) is settled before step 1.
//!
//! *What reads well need not be on disk*: the process that wrote a piece, or the checkpoint's
//! manifest, may have been killed before its sync, or the sync may have failed. Both are written
//! once more and synced before anything goes for their sake.
//!
//! [`complete`] removes only what a checkpoint that holds makes superfluous. If none does any more,
//! the segments that are still there are needed: the pieces go instead, the oldest first.

use std::io;

use types::{Error, Height, Result, SqlState};

use crate::block::Block;
use crate::checkpoint::{CHECKPOINT_FOLDER, heights, manifest_path};
use crate::files::{Files, write_again};
use crate::hash::Hash;
use crate::headers::{
    HEADER_FOLDER, HeaderPiece, PieceError, piece_path, pieces, read_piece, write_piece,
};
use crate::log::{SegmentRecords, list_segments};
use crate::segment::{SEGMENT_FOLDER, segment_path};

/// A segment that is not the newest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedSegment {
    pub first: Height,
    pub last: Height,
}

/// What a prune came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// The oldest block that is there.
    pub first_block: Height,
    pub segments: u64,
    /// Freed, less what the headers take.
    pub bytes: u64,
}

/// The segments that can go if no block above `height` is to.
pub fn closed_up_to(files: &dyn Files, height: Height) -> Result<Vec<ClosedSegment>> {
    let segments = list_segments(files)?;
    let closed = segments.windows(2).filter_map(|pair| {
        let [first, next] = pair else { return None };
        Some(ClosedSegment { first: *first, last: next - 1 })
    });
    Ok(closed.take_while(|segment| segment.last <= height).collect())
}

/// Removes segments that lie wholly at or below `to_block` and at or below the block of
/// `checkpoint`, which must hold. After an error everything is there, or the next call, or the next
/// start, goes on.
pub fn prune(files: &dyn Files, to_block: Height, checkpoint: Height) -> Result<Pruned> {
    let before = complete(files, Some(checkpoint))?;
    let going = closed_up_to(files, to_block.min(checkpoint))?;
    keep_headers(files, &going)?;
    let pruned = complete(files, Some(checkpoint))?;
    Ok(Pruned {
        segments: before.segments + pruned.segments,
        bytes: before.bytes + pruned.bytes,
        ..pruned
    })
}

/// Step 1.
fn keep_headers(files: &dyn Files, going: &[ClosedSegment]) -> Result<()> {
    let Some(newest) = going.last() else {
        return Ok(());
    };
    files.create_folder(HEADER_FOLDER).map_err(cannot)?;
    files.sync_folder("").map_err(cannot)?;
    let mut next_previous = previous_hash(files, newest.last + 1)?;
    for segment in going.iter().rev() {
        let piece = piece_of(files, *segment, next_previous)?;
        next_previous = Some(piece.first().previous_hash);
        write_piece(files, &piece)?;
    }
    Ok(())
}

/// Reads a segment's headers; its last block must be the one that the next segment follows from.
fn piece_of(
    files: &dyn Files,
    segment: ClosedSegment,
    next_previous: Option<Hash>,
) -> Result<HeaderPiece> {
    let path = segment_path(segment.first);
    let file = files.open(&path).map_err(cannot)?;
    let mut records = SegmentRecords::open(&*file, segment.first)?;
    let mut headers = Vec::new();
    let mut genesis: Option<Block> = None;
    while let Some(record) = records.next()? {
        let block = record.block.decode()?;
        headers.push(block.header.clone());
        genesis = genesis.or((block.header.height == 0).then_some(block));
    }
    let piece = HeaderPiece::new(headers, genesis)?;
    let last = piece.last();
    if last.height == segment.last && next_previous.is_none_or(|hash| hash == last.hash()) {
        return Ok(piece);
    }
    let what = format!("{path} does not lead up to the next segment: nothing was pruned");
    Err(Error::new(SqlState::DATA_CORRUPTED, what))
}

/// What the first block of a segment says of the block before. `None` if there is no block yet.
fn previous_hash(files: &dyn Files, first: Height) -> Result<Option<Hash>> {
    let file = files.open(&segment_path(first)).map_err(cannot)?;
    let record = SegmentRecords::open(&*file, first)?.next()?;
    Ok(record.map(|record| record.block.previous_hash()))
}

/// Step 2, also of a prune that a crash cut short; or, where `checkpoint` is not high enough for
/// it, the way back. `checkpoint` is the height of one that holds, if any does.
pub fn complete(files: &dyn Files, checkpoint: Option<Height>) -> Result<Pruned> {
    let segments = list_segments(files)?;
    let mut pruned = Pruned::default();
    let Some((newest, closed)) = segments.split_last() else {
        return Ok(pruned);
    };
    pruned.first_block = segments[0];
    let mut others = pieces(files).map_err(cannot)?;
    others.retain(|piece| *piece >= segments[0]);
    for (first, next) in closed.iter().zip(closed.iter().skip(1).chain([newest])) {
        let Some(checkpoint) = checkpoint.filter(|checkpoint| next - 1 <= *checkpoint) else {
            break;
        };
        let has_piece = others.first() == Some(first);
        let piece = if has_piece { whole_piece(files, *first)? } else { None };
        if piece.is_none_or(|piece| piece.last().height != next - 1) {
            break;
        }
        others.remove(0);
        make_durable(files, *first, checkpoint, &pruned).map_err(cannot)?;
        let size = |path: &str| files.open(path)?.size();
        let freed = size(&segment_path(*first)).map_err(cannot)?;
        let kept = size(&piece_path(*first)).map_err(cannot)?;
        remove(files, &segment_path(*first), SEGMENT_FOLDER)?;
        pruned.first_block = *next;
        pruned.segments += 1;
        pruned.bytes += freed.saturating_sub(kept);
    }
    others.into_iter().try_for_each(|piece| remove(files, &piece_path(piece), HEADER_FOLDER))?;
    Ok(pruned)
}

/// What a segment can be removed for.
fn make_durable(
    files: &dyn Files,
    piece: Height,
    checkpoint: Height,
    pruned: &Pruned,
) -> io::Result<()> {
    if pruned.segments == 0 && heights(files)?.contains(&checkpoint) {
        write_again(files, &manifest_path(checkpoint))?;
        files.sync_folder(CHECKPOINT_FOLDER)?;
    }
    write_again(files, &piece_path(piece))?;
    files.sync_folder(HEADER_FOLDER)
}

/// A piece, unless it is what a crash left of one.
fn whole_piece(files: &dyn Files, first: Height) -> Result<Option<HeaderPiece>> {
    match read_piece(files, first) {
        Ok(piece) => Ok(Some(piece)),
        Err(PieceError::Damaged(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn remove(files: &dyn Files, path: &str, folder: &str) -> Result<()> {
    files.remove(path).and_then(|()| files.sync_folder(folder)).map_err(cannot)
}

fn cannot(error: io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, "the ledger cannot be pruned").with_detail(error.to_string())
}

#[cfg(test)]
mod tests;
