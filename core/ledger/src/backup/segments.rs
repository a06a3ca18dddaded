//! Segments: what is there is checked, what has come since is copied record by record.

use sha2::{Digest, Sha256};
use types::{Error, Height, Result, SqlState};

use crate::files::StorageFile;
use crate::hash::Hash;
use crate::log::{Place, SegmentRecords};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_path};
use crate::stream::Stream;

use super::manifest::{Entry, LastBlock};
use super::target::{BUFFER_BYTES, Target, another_past, of_target};
use super::{Attempt, Fault, Scope, of_source, of_source_log};

/// A segment of the backup, open after its last good record.
struct Copy {
    file: Box<dyn StorageFile>,
    place: Place,
    hasher: Sha256,
    /// Records that are not written yet, from this offset on.
    buffer: Vec<u8>,
    flushed: u64,
}

impl Attempt<'_> {
    /// Brings the segments of a stream that begin at `heights` up to the head, after those that
    /// are `kept`.
    pub(super) fn segments(
        &self,
        target: &mut Target<'_>,
        stream: Stream,
        heights: &[Height],
        kept: Vec<Entry>,
    ) -> Result<Vec<Entry>, Fault> {
        let before = kept.iter().rev().find_map(|entry| entry.last_block);
        if before.is_some_and(|before| Some(&(before.height + 1)) != heights.first()) {
            return Err(another_past(self.head.height).into());
        }
        let mut previous = before.map(|before| before.hash);
        let mut entries = kept;
        for (place, &first) in heights.iter().enumerate() {
            let end = heights.get(place + 1).map_or(self.head.height, |next| next - 1);
            let (entry, last) = self.segment(target, (stream, first), end, previous)?;
            previous = Some(last.hash);
            entries.push(entry);
        }
        let last = entries.last().and_then(|entry| entry.last_block);
        let goes_on = last.is_some_and(|last| last.height > self.head.height);
        if !goes_on && previous != Some(self.head.of(stream)) {
            return Err(another_past(self.head.height).into());
        }
        Ok(entries)
    }

    fn segment(
        &self,
        target: &mut Target<'_>,
        (stream, first): (Stream, Height),
        last: Height,
        previous: Option<Hash>,
    ) -> Result<(Entry, LastBlock), Fault> {
        let path = segment_path(stream, first);
        let source = self.source.open(&path).map_err(of_source)?;
        let mut records = SegmentRecords::open(&*source, stream, first).map_err(of_source_log)?;
        records.place.previous_hash = previous;
        let begin = records.place;
        // Whatever is there already: this segment follows from the one before.
        records.next().map_err(of_source_log)?;
        if let Some(longer) = self.longer(target, &path, records.header_bytes(), last)? {
            return Ok(longer);
        }
        let mut copy = open_copy(target, &path, begin, records.header_bytes(), last)?;
        records.place = copy.place;
        while records.place.next_height <= last {
            let Some(record) = records.next().map_err(of_source_log)? else {
                let what = format!("{path} ends before block {last}");
                return Err(Error::new(SqlState::DATA_CORRUPTED, what).into());
            };
            copy.append(target, &record.bytes)?;
            copy.place = records.place;
        }
        copy.finish(target, path)
    }

    /// What the backup before has of a segment, if that is more than an archive asks for: results
    /// end in the middle of a segment where their orders end one.
    fn longer(
        &self,
        target: &mut Target<'_>,
        path: &str,
        header: &[u8; SEGMENT_HEADER_BYTES],
        last: Height,
    ) -> Result<Option<(Entry, LastBlock)>, Fault> {
        if self.scope != Scope::ClosedSegments {
            return Ok(None);
        }
        let Some((entry, _)) = target.listed(path)? else {
            return Ok(None);
        };
        let Some(behind) = entry.last_block.filter(|behind| behind.height > last) else {
            return Ok(None);
        };
        let mut found = [0; SEGMENT_HEADER_BYTES];
        if let Some(file) = target.open_file(path)? {
            file.read_at(&mut found, 0).map_err(of_target)?;
        }
        match found == *header {
            true => Ok(Some((entry, behind))),
            false => Err(another_past(last).into()),
        }
    }
}

impl Copy {
    fn append(&mut self, target: &mut Target<'_>, record: &[u8]) -> Result<(), Fault> {
        self.hasher.update(record);
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= BUFFER_BYTES { self.flush(target) } else { Ok(()) }
    }

    fn flush(&mut self, target: &mut Target<'_>) -> Result<(), Fault> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(&self.buffer, self.flushed).map_err(of_target)?;
        let bytes = self.buffer.len() as u64;
        self.flushed += bytes;
        self.buffer.clear();
        Ok(target.copied(bytes)?)
    }

    /// Syncs the file, whose end is that of the last record.
    fn finish(
        mut self,
        target: &mut Target<'_>,
        path: String,
    ) -> Result<(Entry, LastBlock), Fault> {
        self.flush(target)?;
        let end = self.place.offset;
        if self.file.size().map_err(of_target)? != end {
            self.file.set_size(end).map_err(of_target)?;
        }
        target.sync(&*self.file, &path)?;
        let (Some(hash), height) = (self.place.previous_hash, self.place.next_height - 1) else {
            let what = format!("{path} holds no block");
            return Err(Error::new(SqlState::DATA_CORRUPTED, what).into());
        };
        let last = LastBlock { height, hash };
        let digest = self.hasher.finalize().into();
        Ok((Entry { path, bytes: end, digest, last_block: Some(last) }, last))
    }
}

/// Opens a segment of the backup after its last good record that is not above `last`, or makes it.
fn open_copy(
    target: &mut Target<'_>,
    path: &str,
    begin: Place,
    header: &[u8; SEGMENT_HEADER_BYTES],
    last: Height,
) -> Result<Copy, Fault> {
    let was_listed = target.previous().is_some_and(|previous| previous.entry(path).is_some());
    if let (Some((entry, hasher)), Some(file)) = (target.listed(path)?, target.open_file(path)?) {
        let mut found = [0; SEGMENT_HEADER_BYTES];
        file.read_at(&mut found, 0).map_err(of_target)?;
        let behind = entry.last_block.filter(|behind| found == *header && behind.height <= last);
        let Some(LastBlock { height, hash }) = behind else {
            return Err(another_past(begin.next_height).into());
        };
        let place =
            Place { offset: entry.bytes, next_height: height + 1, previous_hash: Some(hash) };
        return Ok(Copy { file, place, hasher, buffer: Vec::new(), flushed: entry.bytes });
    }
    if let Some(file) = target.open_file(path)? {
        // A file of the backup before is damaged in a place that is not known; what an interrupted
        // run has left was never anything but this copy.
        if !was_listed && let Some(place) = good_records(target, &*file, begin, header, last)? {
            let hasher = target.hash(&*file, place.offset, of_target)?;
            return Ok(Copy { file, place, hasher, buffer: Vec::new(), flushed: place.offset });
        }
        drop(file);
        target.files.remove(path).map_err(of_target)?;
    }
    let file = target.files.create(path).map_err(of_target)?;
    let hasher = Sha256::new().chain_update(header);
    Ok(Copy { file, place: begin, hasher, buffer: header.to_vec(), flushed: 0 })
}

/// How far a file that no manifest lists is a copy of the segment.
fn good_records(
    target: &mut Target<'_>,
    file: &dyn StorageFile,
    begin: Place,
    header: &[u8; SEGMENT_HEADER_BYTES],
    last: Height,
) -> Result<Option<Place>, Fault> {
    let Ok(SegmentHeader { stream, .. }) = SegmentHeader::decode(header) else {
        return Ok(None);
    };
    let Ok(mut records) = SegmentRecords::open(file, stream, begin.next_height) else {
        return Ok(None);
    };
    if records.header_bytes() != header {
        return Ok(None);
    }
    records.place = begin;
    let mut place = begin;
    while place.next_height <= last
        && let Ok(Some(record)) = records.next()
    {
        place = records.place;
        target.checked(record.bytes.len() as u64)?;
    }
    Ok(Some(place))
}
