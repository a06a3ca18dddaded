//! Single records by their height, wherever they lie.
//!
//! ```text
//! heights   0        1        2      …   h           h + 1
//! starts    offset ─ offset ─ offset …   offset      offset    known as far as was asked for
//! ```
//!
//! The way to a record leads over the headers of those before it in its segment, and is kept: the
//! next record costs two reads, in whichever order records are asked for. A segment's offsets take
//! eight bytes for each record; those of the few segments that were used last are kept.

use std::collections::VecDeque;

use types::Height;

use super::reader::list_segments;
use super::records::SegmentRecords;
use super::{Damage, LogError};
use crate::files::{Files, StorageFile};
use crate::record::Record;
use crate::segment::{
    MARK_BYTES, Mark, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    salted_crc, segment_path,
};
use crate::stream::Stream;

/// Segments whose offsets are kept.
const SEGMENTS_MAX: usize = 4;

type Result<T> = std::result::Result<T, LogError>;

/// Finds records of a stream. What is cut off meanwhile must be [forgotten](Lookup::forget).
pub struct Lookup {
    stream: Stream,
    /// The one used last is the last.
    known: VecDeque<Known>,
}

/// A segment as far as it is known.
struct Known {
    path: String,
    file: Box<dyn StorageFile>,
    header: SegmentHeader,
    /// Where the records from the first on begin, and after the last of them where the next does.
    starts: Vec<u64>,
}

impl Lookup {
    pub fn new(stream: Stream) -> Lookup {
        Lookup { stream, known: VecDeque::new() }
    }

    /// Records from here on were cut off, or are about to be.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// One record, without reading those around it. `None` beyond the end; the caller asks for
    /// records that it knows to be written.
    ///
    /// # Errors
    ///
    /// Damage is named where it is: in the record, or before it in its segment.
    pub fn record(&mut self, files: &dyn Files, height: Height) -> Result<Option<Record>> {
        // The next one of a segment that is known is most often in it, too.
        let near = |known: &Known| (known.header.first_height..=known.next()).contains(&height);
        if let Some(place) = self.known.iter().rposition(near)
            && let Some(record) = self.at(place, height)?
        {
            return Ok(Some(record));
        }
        let segments = list_segments(files, self.stream)?;
        let before = segments.partition_point(|first| *first <= height);
        let Some(first) = before.checked_sub(1).map(|index| segments[index]) else {
            return Ok(None);
        };
        let place = match self.known.iter().position(|it| it.header.first_height == first) {
            Some(place) => place,
            None => {
                self.known.push_back(Known::open(files, self.stream, first)?);
                if self.known.len() > SEGMENTS_MAX {
                    self.known.pop_front();
                }
                self.known.len() - 1
            }
        };
        self.at(place, height)
    }

    fn at(&mut self, place: usize, height: Height) -> Result<Option<Record>> {
        let Some(mut known) = self.known.remove(place) else { return Ok(None) };
        let found = known.record(height);
        self.known.push_back(known);
        found
    }
}

impl Known {
    fn open(files: &dyn Files, stream: Stream, first_height: Height) -> Result<Known> {
        let path = segment_path(stream, first_height);
        let file = files.open(&path)?;
        let header = SegmentRecords::open(&*file, stream, first_height)?.header;
        Ok(Known { path, file, header, starts: vec![SEGMENT_HEADER_BYTES as u64] })
    }

    /// The height of the record that begins at the last known offset.
    fn next(&self) -> Height {
        self.header.first_height + self.starts.len() as u64 - 1
    }

    fn damage(&self, height: Height, offset: u64, what: &str) -> LogError {
        let (file, what) = (self.path.clone(), what.to_owned());
        LogError::Damage(Damage { height, file, offset, what })
    }

    fn record(&mut self, height: Height) -> Result<Option<Record>> {
        let size = self.file.size()?;
        while self.next() <= height {
            if self.frame(self.next(), size)?.is_none() {
                return Ok(None);
            }
        }
        let Some(frame) = self.frame(height, size)? else { return Ok(None) };
        let offset = self.starts[(height - self.header.first_height) as usize];
        let mut payload = vec![0; frame.length as usize];
        self.file.read_at(&mut payload, offset + RECORD_HEADER_BYTES as u64)?;
        if salted_crc(self.header.salt, &payload) != frame.payload_crc {
            return Err(self.damage(height, offset, "the record's checksum does not match"));
        }
        let record = Record::from_payload(self.header.stream, payload.into())
            .map_err(|error| self.damage(height, offset, &error.to_string()))?;
        if record.height() != height {
            return Err(self.damage(height, offset, "the record holds another block"));
        }
        if record.ledger_id() != self.header.ledger_id {
            return Err(self.damage(height, offset, "the record is another ledger's"));
        }
        Ok(Some(record))
    }

    /// The header of a record whose offset is known; after it that of the next is.
    fn frame(&mut self, height: Height, size: u64) -> Result<Option<RecordHeader>> {
        let index = (height - self.header.first_height) as usize;
        let offset = self.starts[index];
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if size.saturating_sub(offset) < bytes.len() as u64 {
            return Ok(None);
        }
        self.file.read_at(&mut bytes, offset)?;
        if bytes == [0; RECORD_HEADER_BYTES] {
            return Ok(None);
        }
        let frame = match RecordHeader::decode(&bytes, self.header.salt) {
            Ok(frame) => frame,
            Err(_) if self.is_mark(offset, size, height)? => return Ok(None),
            Err(what) => return Err(self.damage(height, offset, what)),
        };
        if frame.height != height {
            let what = format!("the record says block {}", frame.height);
            return Err(self.damage(height, offset, &what));
        }
        let end = offset + RECORD_HEADER_BYTES as u64 + u64::from(frame.length);
        if end > size {
            return Err(self.damage(height, offset, "the record is cut"));
        }
        if index + 1 == self.starts.len() {
            self.starts.push(end);
        }
        Ok(Some(frame))
    }

    fn is_mark(&self, offset: u64, size: u64, height: Height) -> Result<bool> {
        if size - offset < MARK_BYTES as u64 {
            return Ok(false);
        }
        let mut bytes = [0; MARK_BYTES];
        self.file.read_at(&mut bytes, offset)?;
        Ok(Mark::decode(&bytes, self.header.salt).is_some_and(|mark| mark.height == height))
    }
}

/// One record by its height, for once: see [`Lookup::record`].
pub fn read_record(files: &dyn Files, stream: Stream, height: Height) -> Result<Option<Record>> {
    Lookup::new(stream).record(files, height)
}
