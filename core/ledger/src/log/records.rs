//! The records of one segment, one by one, with no more of it in memory than one.
//!
//! For copies of a segment and for its headers: each record's checksum is compared, and each must
//! follow from the one before by its height and its hash. Where a record does not hold
//! there is an error; zeros, a mark, and the end of the file, are the end.

use types::Height;

use super::{Damage, LogError};
use crate::files::StorageFile;
use crate::hash::Hash;
use crate::record::Record;
use crate::segment::{
    MARK_BYTES, Mark, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    salted_crc, segment_path,
};
use crate::stream::Stream;

type Result<T> = std::result::Result<T, LogError>;

/// Where a walk over a segment stands: after a record, at an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub offset: u64,
    pub next_height: Height,
    /// Hash of the record before; None at the start of a segment whose predecessor is not known.
    pub previous_hash: Option<Hash>,
}

pub(crate) struct SegmentRecords<'a> {
    file: &'a dyn StorageFile,
    pub header: SegmentHeader,
    header_bytes: [u8; SEGMENT_HEADER_BYTES],
    size: u64,
    pub place: Place,
}

/// A record with its bytes as they lie in the file.
pub(crate) struct Framed {
    pub bytes: Vec<u8>,
    pub record: Record,
}

impl<'a> SegmentRecords<'a> {
    /// Reads the segment's own header, which must be that of the segment of `first_height`.
    pub fn open(file: &'a dyn StorageFile, stream: Stream, first_height: Height) -> Result<Self> {
        let size = file.size()?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let damage = |what: &str| damage((stream, first_height), first_height, 0, what);
        if size < bytes.len() as u64 {
            return Err(damage("the segment header is cut"));
        }
        file.read_at(&mut bytes, 0)?;
        let header = SegmentHeader::decode(&bytes).map_err(damage)?;
        if (header.stream, header.first_height) != (stream, first_height) {
            return Err(damage("the file holds another segment than its name says"));
        }
        let offset = SEGMENT_HEADER_BYTES as u64;
        let place = Place { offset, next_height: first_height, previous_hash: None };
        Ok(SegmentRecords { file, header, header_bytes: bytes, size, place })
    }

    pub fn header_bytes(&self) -> &[u8; SEGMENT_HEADER_BYTES] {
        &self.header_bytes
    }

    pub fn next(&mut self) -> Result<Option<Framed>> {
        let Place { offset, next_height, previous_hash } = self.place;
        let SegmentHeader { stream, first_height, salt, .. } = self.header;
        let damage = |what: &str| damage((stream, first_height), next_height, offset, what);
        let mut head = [0; RECORD_HEADER_BYTES];
        let left = self.size.saturating_sub(offset);
        let there = left.min(RECORD_HEADER_BYTES as u64) as usize;
        self.file.read_at(&mut head[..there], offset)?;
        if head == [0; RECORD_HEADER_BYTES] || self.is_mark()? {
            return Ok(None);
        }
        let frame = RecordHeader::decode(&head[..there], salt).map_err(damage)?;
        let end = RECORD_HEADER_BYTES as u64 + u64::from(frame.length);
        if end > left {
            return Err(damage("the record is cut"));
        }
        let mut bytes = vec![0; end as usize];
        self.file.read_at(&mut bytes, offset)?;
        let payload = &bytes[RECORD_HEADER_BYTES..];
        if salted_crc(salt, payload) != frame.payload_crc {
            return Err(damage("the record's checksum does not match"));
        }
        let record = Record::from_payload(stream, payload.to_vec().into())
            .map_err(|error| damage(&error.to_string()))?;
        let follows = previous_hash.is_none_or(|hash| record.previous_hash() == hash);
        if record.height() != next_height || frame.height != next_height || !follows {
            return Err(damage("the block does not follow from the one before"));
        }
        if record.ledger_id() != self.header.ledger_id {
            return Err(damage("the block is another ledger's"));
        }
        self.place = Place {
            offset: offset + end,
            next_height: next_height + 1,
            previous_hash: Some(record.hash()),
        };
        Ok(Some(Framed { bytes, record }))
    }

    fn is_mark(&self) -> Result<bool> {
        if self.size.saturating_sub(self.place.offset) < MARK_BYTES as u64 {
            return Ok(false);
        }
        let mut bytes = [0; MARK_BYTES];
        self.file.read_at(&mut bytes, self.place.offset)?;
        let mark = Mark::decode(&bytes, self.header.salt);
        Ok(mark.is_some_and(|mark| mark.height == self.place.next_height))
    }
}

fn damage(segment: (Stream, Height), height: Height, offset: u64, what: &str) -> LogError {
    let file = segment_path(segment.0, segment.1);
    LogError::Damage(Damage { height, file, offset, what: what.to_owned() })
}
