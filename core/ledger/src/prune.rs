//! Pruning: old blocks go, their headers stay.
//!
//! A checkpoint spares a start the blocks before it, so a ledger may do without them: whole
//! segments of either stream, from the oldest one on, none of them above a checkpoint that holds,
//! and never the newest, which is written to. For each, [`crate::headers`] keeps a piece.
//!
//! # Order of writes
//!
//! ```text
//! for the orders, then for the results:
//! 1  pieces, from the newest segment that goes down to the oldest: write, fdatasync, fsync of the
//!    folder, each before the next
//!                                             ── now it is decided ──
//! 2  segments, from the oldest up: remove, fsync of the folder, each before the next
//! ```
//!
//! *Why this order.* A piece counts if it begins where the segments begin, or where a piece that
//! counts ends. In step 1 the oldest piece comes last; until it is whole on disk, none of them
//! counts, and a crash leaves a ledger with all its blocks. Once it is, all count, since those
//! above were durable before it; whatever opens the ledger next completes step 2 ([`complete`]).
//! Removals are synced one by one from the oldest up, so what is left has no gap whatever a crash
//! undoes: it begins with a segment, after a piece that ends right before it. Whether a segment's
//! blocks are elsewhere (an archive) is settled before step 1.
//!
//! *Two streams.* Their segments end at different heights. Results go last, and only those whose
//! orders have gone: a result is never pruned before its order, nor without it. And an order goes
//! only if its result is known to be on stable storage, as it could not be computed again; a result
//! is known to be if its segment is closed, a later record says so, or a checkpoint of its block or
//! of a later one is written: results are synced before.
//!
//! *What reads well need not be on disk*: the process that wrote a piece, or the checkpoint's
//! manifest, may have been killed before its sync, or the sync may have failed. Both are written
//! once more and synced before anything goes for their sake.
//!
//! [`complete`] removes only what a checkpoint that holds makes superfluous. If none does any more,
//! the segments that are still there are needed: the pieces go instead, the oldest first.

use std::io;

use types::{Error, Height, Result, SqlState};

use crate::batch::Batch;
use crate::checkpoint::{CHECKPOINT_FOLDER, heights, manifest_path, read_manifest};
use crate::files::{Files, sqlstate_of, write_again};
use crate::hash::Hash;
use crate::header::{Header, OrderHeader, ResultHeader};
use crate::headers::{HeaderPiece, PieceError, piece_path, pieces, read_piece, write_piece};
use crate::log::{SegmentRecords, first_record, list_segments};
use crate::segment::{RECORD_HEADER_BYTES, RecordHeader, segment_path};
use crate::stream::Stream;

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
    /// Of both streams.
    pub segments: u64,
    /// Freed, less what the headers take.
    pub bytes: u64,
}

impl Pruned {
    fn and(self, more: Pruned) -> Pruned {
        Pruned {
            first_block: self.first_block,
            segments: self.segments + more.segments,
            bytes: self.bytes + more.bytes,
        }
    }
}

/// The segments of orders that can go if no block above `height` is to, and none whose result may
/// not be on stable storage.
pub fn closed_up_to(files: &dyn Files, height: Height) -> Result<Vec<ClosedSegment>> {
    let durable_below = durable_results(files)?;
    let mut closed = closed(files, Stream::Orders)?;
    closed.retain(|segment| segment.last <= height && segment.last < durable_below);
    Ok(closed)
}

fn closed(files: &dyn Files, stream: Stream) -> Result<Vec<ClosedSegment>> {
    let segments = list_segments(files, stream)?;
    let closed = segments.windows(2).filter_map(|pair| {
        let [first, next] = pair else { return None };
        Some(ClosedSegment { first: *first, last: next - 1 })
    });
    Ok(closed.collect())
}

/// All results below this height are on stable storage: those of closed segments, what the last
/// record of the newest one says, and what a checkpoint that was written says by being there. A
/// record that is just being written ends the search.
fn durable_results(files: &dyn Files) -> Result<Height> {
    let Some(newest) = list_segments(files, Stream::Results)?.last().copied() else {
        return Ok(0);
    };
    let file = files.open(&segment_path(Stream::Results, newest)).map_err(cannot)?;
    let mut durable_below = newest;
    let Ok(mut records) = SegmentRecords::open(&*file, Stream::Results, newest) else {
        return Ok(durable_below);
    };
    while let Ok(Some(framed)) = records.next() {
        let frame = &framed.bytes[..RECORD_HEADER_BYTES];
        if let Ok(frame) = RecordHeader::decode(frame, records.header.salt) {
            durable_below = durable_below.max(frame.durable_below);
        }
    }
    let mut checkpoints = heights(files).map_err(cannot)?.into_iter().rev();
    let written = checkpoints.find(|height| read_manifest(files, *height).is_ok());
    let synced_below = written.map_or(0, |height| height + 1).min(records.place.next_height);
    Ok(durable_below.max(synced_below))
}

/// Removes segments of orders that lie wholly at or below `to_block` and at or below the block of
/// `checkpoint`, which must hold, and segments of their results. After an error everything is
/// there, or the next call, or the next start, goes on.
pub fn prune(files: &dyn Files, to_block: Height, checkpoint: Height) -> Result<Pruned> {
    let before = complete(files, Some(checkpoint))?;
    let going = closed_up_to(files, to_block.min(checkpoint))?;
    keep_headers::<OrderHeader>(files, &going)?;
    let orders = complete_stream::<OrderHeader>(files, Some(checkpoint))?;
    let mut going = closed(files, Stream::Results)?;
    going.retain(|segment| segment.last < orders.first_block && segment.last <= checkpoint);
    keep_headers::<ResultHeader>(files, &going)?;
    let results = complete_stream::<ResultHeader>(files, Some(checkpoint))?;
    debug_assert!(
        orders.first_block.max(results.first_block) <= checkpoint + 1,
        "what is behind the checkpoint can be executed"
    );
    Ok(orders.and(results).and(before))
}

/// Step 1.
fn keep_headers<H: Header>(files: &dyn Files, going: &[ClosedSegment]) -> Result<()> {
    let Some(newest) = going.last() else {
        return Ok(());
    };
    files.create_folder(H::STREAM.header_folder()).map_err(cannot)?;
    files.sync_folder("").map_err(cannot)?;
    let mut next_previous = previous_hash(files, H::STREAM, newest.last + 1)?;
    for segment in going.iter().rev() {
        let piece = piece_of::<H>(files, *segment, next_previous)?;
        next_previous = Some(piece.first().previous_hash());
        write_piece(files, &piece)?;
    }
    Ok(())
}

/// Reads a segment's headers; its last record must be the one that the next segment follows from.
fn piece_of<H: Header>(
    files: &dyn Files,
    segment: ClosedSegment,
    next_previous: Option<Hash>,
) -> Result<HeaderPiece<H>> {
    let piece = headers_of::<H>(files, segment.first, segment.last)?;
    let last = piece.last();
    if last.height() == segment.last && next_previous.is_none_or(|hash| hash == last.hash()) {
        return Ok(piece);
    }
    let path = segment_path(H::STREAM, segment.first);
    let what = format!("{path} does not lead up to the next segment: nothing was pruned");
    Err(Error::new(SqlState::DATA_CORRUPTED, what))
}

/// The headers of a segment's records, up to a height.
fn headers_of<H: Header>(files: &dyn Files, segment: Height, to: Height) -> Result<HeaderPiece<H>> {
    let file = files.open(&segment_path(H::STREAM, segment)).map_err(cannot)?;
    let mut records = SegmentRecords::open(&*file, H::STREAM, segment)?;
    let mut headers = Vec::new();
    let mut genesis: Option<Batch> = None;
    while records.place.next_height <= to
        && let Some(framed) = records.next()?
    {
        let record = framed.record;
        let header = H::decode(&record.payload()[..H::BYTES])?;
        if H::STREAM == Stream::Orders && header.height() == 0 {
            genesis = Some(Batch::of(&record)?);
        }
        headers.push(header);
    }
    if records.place.next_height > to && list_segments(files, H::STREAM)?.last() != Some(&segment) {
        // After the last record of a closed segment there is a mark at most.
        records.next()?;
    }
    HeaderPiece::new(headers, genesis)
}

/// What the first record of a segment says of the one before. `None` if there is none yet.
fn previous_hash(files: &dyn Files, stream: Stream, first: Height) -> Result<Option<Hash>> {
    let file = files.open(&segment_path(stream, first)).map_err(cannot)?;
    let framed = SegmentRecords::open(&*file, stream, first)?.next()?;
    Ok(framed.map(|framed| framed.record.previous_hash()))
}

/// Step 2, also of a prune that a crash cut short; or, where `checkpoint` is not high enough for
/// it, the way back. `checkpoint` is the height of one that holds, if any does.
pub fn complete(files: &dyn Files, checkpoint: Option<Height>) -> Result<Pruned> {
    let orders = complete_stream::<OrderHeader>(files, checkpoint)?;
    let results = complete_stream::<ResultHeader>(files, checkpoint)?;
    Ok(orders.and(results))
}

fn complete_stream<H: Header>(files: &dyn Files, checkpoint: Option<Height>) -> Result<Pruned> {
    let stream = H::STREAM;
    let segments = list_segments(files, stream)?;
    let mut pruned = Pruned::default();
    let Some((newest, closed)) = segments.split_last() else {
        return Ok(pruned);
    };
    pruned.first_block = segments[0];
    let mut others = pieces(files, stream).map_err(cannot)?;
    others.retain(|piece| *piece >= segments[0]);
    for (first, next) in closed.iter().zip(closed.iter().skip(1).chain([newest])) {
        let Some(checkpoint) = checkpoint.filter(|checkpoint| next - 1 <= *checkpoint) else {
            break;
        };
        let has_piece = others.first() == Some(first);
        let piece = if has_piece { whole_piece::<H>(files, *first)? } else { None };
        if piece.is_none_or(|piece| piece.last().height() != next - 1) {
            break;
        }
        others.remove(0);
        make_durable(files, stream, *first, checkpoint, &pruned).map_err(cannot)?;
        let size = |path: &str| files.open(path)?.size();
        let freed = size(&segment_path(stream, *first)).map_err(cannot)?;
        let kept = size(&piece_path(stream, *first)).map_err(cannot)?;
        remove(files, &segment_path(stream, *first), stream.folder())?;
        pruned.first_block = *next;
        pruned.segments += 1;
        pruned.bytes += freed.saturating_sub(kept);
    }
    let folder = stream.header_folder();
    others.into_iter().try_for_each(|piece| remove(files, &piece_path(stream, piece), folder))?;
    Ok(pruned)
}

/// What a segment can be removed for.
fn make_durable(
    files: &dyn Files,
    stream: Stream,
    piece: Height,
    checkpoint: Height,
    pruned: &Pruned,
) -> io::Result<()> {
    if pruned.segments == 0 && heights(files)?.contains(&checkpoint) {
        write_again(files, &manifest_path(checkpoint))?;
        files.sync_folder(CHECKPOINT_FOLDER)?;
    }
    write_again(files, &piece_path(stream, piece))?;
    files.sync_folder(stream.header_folder())
}

/// A piece, unless it is what a crash left of one.
fn whole_piece<H: Header>(files: &dyn Files, first: Height) -> Result<Option<HeaderPiece<H>>> {
    match read_piece(files, first) {
        Ok(piece) => Ok(Some(piece)),
        Err(PieceError::Damaged(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Copies the headers of the blocks below the oldest order into a folder without any, so that a log
/// can begin there after them: those of the pieces, and those of results that are still whole.
pub fn copy_headers(source: &dyn Files, target: &dyn Files) -> Result<()> {
    let first = first_record(source, Stream::Orders)?;
    copy_pieces::<OrderHeader>(source, target, first)?;
    copy_pieces::<ResultHeader>(source, target, first)?;
    let segments = list_segments(source, Stream::Results)?;
    let ends = segments.iter().skip(1).map(|next| next - 1).chain([Height::MAX]);
    for (&segment, end) in segments.iter().zip(ends).filter(|(segment, _)| **segment < first) {
        let last = end.min(first - 1);
        write_piece(target, &headers_of::<ResultHeader>(source, segment, last)?)?;
    }
    Ok(())
}

fn copy_pieces<H: Header>(source: &dyn Files, target: &dyn Files, below: Height) -> Result<()> {
    target.create_folder(H::STREAM.header_folder()).map_err(cannot)?;
    target.sync_folder("").map_err(cannot)?;
    let pieces = pieces(source, H::STREAM).map_err(cannot)?;
    for first in pieces.into_iter().filter(|first| *first < below) {
        write_piece(target, &read_piece::<H>(source, first)?)?;
    }
    Ok(())
}

fn remove(files: &dyn Files, path: &str, folder: &str) -> Result<()> {
    files.remove(path).and_then(|()| files.sync_folder(folder)).map_err(cannot)
}

fn cannot(error: io::Error) -> Error {
    Error::new(sqlstate_of(&error), "the ledger cannot be pruned").with_detail(error.to_string())
}

#[cfg(test)]
mod tests;
