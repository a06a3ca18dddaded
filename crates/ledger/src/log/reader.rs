//! Reading a log from front to back.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use types::Height;

use super::{Damage, LogError, TornTail};
use crate::block::EncodedBlock;
use crate::files::{Files, read_all};
use crate::hash::{Hash, to_hex};
use crate::header::{BlockHeader, LedgerId};
use crate::headers;
use crate::segment::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_FOLDER, SEGMENT_HEADER_BYTES, SegmentHeader,
    parse_segment_name, proves_durable, salted_crc, segment_path,
};

type Result<T> = std::result::Result<T, LogError>;

/// Yields blocks in order, then a clean end or the reason why there is none.
pub struct LogReader {
    pub(super) files: Arc<dyn Files>,
    /// First heights of the segments, ascending.
    segments: Vec<Height>,
    /// Index of the segment to open when the current one ends.
    upcoming: usize,
    current: Option<OpenSegment>,
    pruned: Option<BlockHeader>,
    pub(super) next_height: Height,
    pub(super) ledger_id: Option<LedgerId>,
    /// Hash of the last block read, or pruned.
    pub(super) head_hash: Option<Hash>,
    pub(super) end: Option<LogEnd>,
}

struct OpenSegment {
    path: String,
    header: SegmentHeader,
    bytes: Bytes,
    offset: usize,
    /// Height and offset of the records that no later one says were synced.
    unproven: VecDeque<(Height, usize)>,
}

/// Where a log ends and a writer goes on.
pub(super) struct LogEnd {
    /// None if there is no segment yet.
    pub segment: Option<LastSegment>,
    pub torn: Option<TornTail>,
}

pub(super) struct LastSegment {
    pub path: String,
    /// None if the header itself is torn: the file holds no block.
    pub header: Option<SegmentHeader>,
    pub offset: u64,
    /// What lies behind may never have been synced.
    pub proven: u64,
    pub size: u64,
}

/// What lies at an offset of a segment.
enum Found {
    Block {
        block: EncodedBlock,
        durable_below: Height,
    },
    Nothing,
    /// Bytes that no checksum vouches for.
    Unreadable(&'static str),
    /// Bytes that a checksum vouches for, and that are wrong nevertheless: never a torn write.
    Wrong(String),
}

impl LogReader {
    /// Reads from genesis, or from the oldest block that was not pruned.
    pub fn open(files: Arc<dyn Files>) -> Result<Self> {
        Self::open_at(files, 0)
    }

    /// Reads from the start of the segment that holds a height. Segments before it are only known
    /// to be there.
    pub fn open_at(files: Arc<dyn Files>, height: Height) -> Result<Self> {
        let segments = list_segments(&*files)?;
        let pruned = pruned_end(&*files, segments.first().copied())?;
        let first_height = pruned.as_ref().map_or(0, |last| last.height + 1);
        let upcoming = segments.partition_point(|first| *first <= height).saturating_sub(1);
        Ok(LogReader {
            next_height: segments.get(upcoming).copied().unwrap_or(first_height),
            files,
            segments,
            upcoming,
            current: None,
            ledger_id: pruned.as_ref().map(|last| last.ledger_id),
            head_hash: pruned.as_ref().filter(|_| upcoming == 0).map(BlockHeader::hash),
            pruned,
            end: None,
        })
    }

    /// The newest block of which only the header is kept, if blocks were pruned.
    pub fn pruned(&self) -> Option<&BlockHeader> {
        self.pruned.as_ref()
    }

    /// Height of the oldest block that is there: 0 if none was pruned.
    pub fn first_height(&self) -> Height {
        self.pruned.as_ref().map_or(0, |last| last.height + 1)
    }

    /// The ledger of the segments read so far. A crash before genesis was whole leaves a segment of
    /// a ledger without blocks; whoever writes genesis then must take its id.
    pub fn ledger_id(&self) -> Option<LedgerId> {
        self.ledger_id
    }

    /// The height after the last block read.
    pub fn next_height(&self) -> Height {
        self.next_height
    }

    /// Where the log ends, once that was found: a file and an offset in it.
    pub fn end(&self) -> Option<(&str, u64)> {
        let none_yet = (SEGMENT_FOLDER, 0);
        let end = self.end.as_ref()?;
        Some(end.segment.as_ref().map_or(none_yet, |last| (&*last.path, last.offset)))
    }

    /// The next block; `None` at the end. After a torn tail has been reported once, that is the
    /// end; damage is reported again and again, there is no way past it.
    ///
    /// A block shares the buffer of its whole segment: copy what must outlive the reading.
    pub fn next_block(&mut self) -> Result<Option<EncodedBlock>> {
        if self.end.is_some() {
            return Ok(None);
        }
        loop {
            let Some(segment) = self.current.take() else {
                if self.upcoming == self.segments.len() {
                    self.end = Some(LogEnd { segment: None, torn: None });
                    return Ok(None);
                }
                self.current = Some(self.open_segment()?);
                continue;
            };
            let segment = self.current.insert(segment);
            let newest = self.upcoming == self.segments.len();
            match segment.find(self.next_height, newest) {
                Found::Block { block, durable_below } => {
                    segment.note(block.height(), durable_below);
                    segment.offset += RECORD_HEADER_BYTES + block.payload().len();
                    self.next_height = block.height() + 1;
                    self.head_hash = Some(block.hash());
                    return Ok(Some(block));
                }
                Found::Nothing if newest => {
                    self.end = Some(LogEnd { segment: Some(segment.last()), torn: None });
                    return Ok(None);
                }
                Found::Nothing => self.current = None,
                Found::Unreadable(what) if newest && !segment.is_proven(self.next_height) => {
                    let torn = segment.torn(self.next_height, what);
                    let last = segment.last();
                    return Err(self.end_torn(last, torn));
                }
                Found::Unreadable(what) => {
                    return Err(segment.damage(self.next_height, what.to_owned()));
                }
                Found::Wrong(what) => return Err(segment.damage(self.next_height, what)),
            }
        }
    }

    /// Whether a segment with an unreadable header may be one whose creation a crash cut short.
    /// Only the newest one may, and no block was written to it before its header was synced.
    fn may_be_torn(&self, bytes: &[u8]) -> bool {
        let records = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        self.upcoming + 1 == self.segments.len() && used_bytes(records) == 0
    }

    fn end_without_header(&mut self, path: String, bytes: &[u8], what: &str) -> LogError {
        let torn = TornTail {
            height: self.next_height,
            file: path.clone(),
            offset: 0,
            cut_bytes: used_bytes(bytes) as u64,
            what: what.to_owned(),
        };
        let size = bytes.len() as u64;
        self.end_torn(LastSegment { path, header: None, offset: 0, proven: 0, size }, torn)
    }

    fn end_torn(&mut self, segment: LastSegment, torn: TornTail) -> LogError {
        self.end = Some(LogEnd { segment: Some(segment), torn: Some(torn.clone()) });
        LogError::TornTail(torn)
    }

    fn open_segment(&mut self) -> Result<OpenSegment> {
        let first_height = self.segments[self.upcoming];
        if first_height > self.next_height {
            return Err(missing(self.next_height, first_height));
        }
        let path = segment_path(first_height);
        let damage = |what: String| {
            LogError::Damage(Damage { height: first_height, file: path.clone(), offset: 0, what })
        };
        if first_height < self.next_height {
            return Err(damage(format!("blocks below {} are there twice", self.next_height)));
        }
        let bytes = Bytes::from(read_all(&*self.files.open(&path)?)?);
        let header = match SegmentHeader::decode(&bytes) {
            Ok(header) => header,
            Err(what) if self.may_be_torn(&bytes) => {
                return Err(self.end_without_header(path, &bytes, what));
            }
            Err(what) => return Err(damage(what.to_owned())),
        };
        if header.first_height != first_height {
            return Err(damage(format!(
                "the file holds the segment of block {}, its name says {first_height}",
                header.first_height
            )));
        }
        let ledger_id = *self.ledger_id.get_or_insert(header.ledger_id);
        if header.ledger_id != ledger_id {
            return Err(damage(foreign(&header.ledger_id, &ledger_id)));
        }
        self.upcoming += 1;
        let (offset, unproven) = (SEGMENT_HEADER_BYTES, VecDeque::new());
        Ok(OpenSegment { path, header, bytes, offset, unproven })
    }
}

impl OpenSegment {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.offset..]
    }

    fn find(&self, height: Height, newest: bool) -> Found {
        let rest = self.rest();
        let record = match RecordHeader::decode(rest, self.header.salt) {
            Ok(record) => record,
            Err(_) if rest.is_empty() || (newest && used_bytes(rest) == 0) => {
                return Found::Nothing;
            }
            Err(what) => return Found::Unreadable(what),
        };
        let start = self.offset + RECORD_HEADER_BYTES;
        let length = record.length as usize;
        if length > self.bytes.len() - start {
            return Found::Unreadable("the record is cut");
        }
        let payload = self.bytes.slice(start..start + length);
        if salted_crc(self.header.salt, &payload) != record.payload_crc {
            return Found::Unreadable("the record's checksum does not match");
        }
        let durable_below = record.durable_below;
        match self.check(height, &record, payload) {
            Ok(block) => Found::Block { block, durable_below },
            Err(what) => Found::Wrong(what),
        }
    }

    /// The record at the current offset is a block's, and says what was synced before it.
    fn note(&mut self, height: Height, durable_below: Height) {
        while self.unproven.pop_front_if(|(height, _)| *height < durable_below).is_some() {}
        self.unproven.push_back((height, self.offset));
    }

    fn check(
        &self,
        height: Height,
        record: &RecordHeader,
        payload: Bytes,
    ) -> std::result::Result<EncodedBlock, String> {
        if record.height != height {
            return Err(format!("the record says block {}", record.height));
        }
        if record.durable_below > height {
            return Err("the record says that it was synced before it was written".to_owned());
        }
        let block = EncodedBlock::from_payload(payload).map_err(|error| error.to_string())?;
        if block.height() != height {
            return Err(format!("the record holds block {}", block.height()));
        }
        if block.ledger_id() != self.header.ledger_id {
            return Err(foreign(&block.ledger_id(), &self.header.ledger_id));
        }
        Ok(block)
    }

    fn is_proven(&self, height: Height) -> bool {
        proves_durable(self.rest(), self.header.salt, height)
    }

    fn last(&self) -> LastSegment {
        // A record proves the segment's header with the records before it.
        let proven = match self.unproven.front() {
            Some((_, offset)) if *offset > SEGMENT_HEADER_BYTES => *offset as u64,
            _ => 0,
        };
        LastSegment {
            proven,
            path: self.path.clone(),
            header: Some(self.header),
            offset: self.offset as u64,
            size: self.bytes.len() as u64,
        }
    }

    fn torn(&self, height: Height, what: &str) -> TornTail {
        TornTail {
            height,
            file: self.path.clone(),
            offset: self.offset as u64,
            cut_bytes: used_bytes(self.rest()) as u64,
            what: what.to_owned(),
        }
    }

    fn damage(&self, height: Height, what: String) -> LogError {
        let (file, offset) = (self.path.clone(), self.offset as u64);
        LogError::Damage(Damage { height, file, offset, what })
    }
}

/// Height of the oldest block that a folder has, 0 if none was pruned: a reader's
/// [`LogReader::first_height`] without one.
pub fn first_block(files: &dyn Files) -> Result<Height> {
    Ok(list_segments(files)?.first().copied().unwrap_or(0))
}

/// One block by its height, without reading the blocks around it. `None` beyond the end; the caller
/// asks for blocks that it knows to be synced.
pub fn read_block(files: &dyn Files, height: Height) -> Result<Option<EncodedBlock>> {
    let segments = list_segments(files)?;
    let before = segments.partition_point(|first| *first <= height);
    let Some(first_height) = before.checked_sub(1).map(|index| segments[index]) else {
        return Ok(None);
    };
    let path = segment_path(first_height);
    let file = files.open(&path)?;
    let size = file.size()?;
    let mut offset = 0;
    let damage = |at: Height, offset: u64, what: &str| {
        let (file, what) = (path.clone(), what.to_owned());
        LogError::Damage(Damage { height: at, file, offset, what })
    };
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    if size < bytes.len() as u64 {
        return Err(damage(first_height, offset, "the segment header is cut"));
    }
    file.read_at(&mut bytes, offset)?;
    let header = SegmentHeader::decode(&bytes).map_err(|what| damage(first_height, 0, what))?;
    offset += SEGMENT_HEADER_BYTES as u64;
    for at in first_height..=height {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if size - offset < bytes.len() as u64 {
            return Ok(None);
        }
        file.read_at(&mut bytes, offset)?;
        if bytes == [0; RECORD_HEADER_BYTES] {
            return Ok(None);
        }
        let record =
            RecordHeader::decode(&bytes, header.salt).map_err(|what| damage(at, offset, what))?;
        let start = offset + RECORD_HEADER_BYTES as u64;
        let length = u64::from(record.length);
        if length > size - start {
            return Err(damage(at, offset, "the record is cut"));
        }
        if at < height {
            offset = start + length;
            continue;
        }
        let mut payload = vec![0; record.length as usize];
        file.read_at(&mut payload, start)?;
        if salted_crc(header.salt, &payload) != record.payload_crc {
            return Err(damage(at, offset, "the record's checksum does not match"));
        }
        let block = EncodedBlock::from_payload(payload.into())
            .map_err(|error| damage(at, offset, &error.to_string()))?;
        if block.height() != height {
            return Err(damage(at, offset, "the record holds another block"));
        }
        return Ok(Some(block));
    }
    Ok(None)
}

/// The header of the last block before the first segment, from the headers that a prune has kept.
fn pruned_end(files: &dyn Files, first_segment: Option<Height>) -> Result<Option<BlockHeader>> {
    if first_segment == Some(0) {
        return Ok(None);
    }
    let pieces = headers::pieces(files)?;
    let below = first_segment.unwrap_or(Height::MAX);
    let piece = match (pieces.into_iter().rfind(|piece| *piece < below), first_segment) {
        (Some(piece), Some(_)) => piece,
        (None, None) => return Ok(None),
        (None, Some(first)) => return Err(missing(0, first)),
        // A prune leaves the newest segment where it is.
        (Some(_), None) => {
            let (file, what) = (SEGMENT_FOLDER.to_owned(), "all segments are missing".to_owned());
            return Err(LogError::Damage(Damage { height: 0, file, offset: 0, what }));
        }
    };
    let damage = |what: String| {
        let file = headers::piece_path(piece);
        LogError::Damage(Damage { height: piece, file, offset: 0, what })
    };
    let last = match headers::read_piece(files, piece) {
        Ok(piece) => piece.last().clone(),
        Err(headers::PieceError::Io(error)) => return Err(error.into()),
        Err(headers::PieceError::Damaged(error)) => return Err(damage(error.to_string())),
    };
    match first_segment {
        Some(first) if first != last.height + 1 => Err(missing(last.height + 1, first)),
        _ => Ok(Some(last)),
    }
}

/// First heights of all segments, ascending, as their names sort.
pub(crate) fn list_segments(files: &dyn Files) -> Result<Vec<Height>> {
    let names = files.list(SEGMENT_FOLDER)?;
    let height = |name: &String| {
        parse_segment_name(name).ok_or_else(|| {
            LogError::Damage(Damage {
                height: 0,
                file: format!("{SEGMENT_FOLDER}/{name}"),
                offset: 0,
                what: "a file that is no segment lies among the segments".to_owned(),
            })
        })
    };
    names.iter().map(height).collect()
}

/// The length without the zeros at the end.
fn used_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn missing(from: Height, to: Height) -> LogError {
    LogError::Damage(Damage {
        height: from,
        file: segment_path(from),
        offset: 0,
        what: format!("blocks {from} to {} are missing", to - 1),
    })
}

fn foreign(found: &LedgerId, expected: &LedgerId) -> String {
    format!("ledger {} found, this is ledger {}", to_hex(found), to_hex(expected))
}
