//! Reading a log from front to back.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use types::Height;

use super::{Damage, LogError, TornTail};
use crate::files::{Files, read_all};
use crate::hash::{Hash, to_hex};
use crate::header::LedgerId;
use crate::headers::{self, Link};
use crate::record::Record;
use crate::segment::{
    MARK_BYTES, Mark, MarkKind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES,
    SegmentHeader, parse_segment_name, proves_durable, salted_crc, segment_path,
};
use crate::stream::Stream;

type Result<T> = std::result::Result<T, LogError>;

/// Yields the records of a stream in order, then a clean end or the reason why there is none.
pub struct LogReader {
    pub(super) files: Arc<dyn Files>,
    pub(super) stream: Stream,
    /// First heights of the segments, ascending.
    segments: Vec<Height>,
    /// Index of the segment to open when the current one ends.
    upcoming: usize,
    current: Option<OpenSegment>,
    pruned: Option<Link>,
    pub(super) next_height: Height,
    pub(super) ledger_id: Option<LedgerId>,
    /// Hash of the last record read, or pruned.
    pub(super) head_hash: Option<Hash>,
    /// The segment before the newest one, if that is empty: the process that closed it, or was
    /// about to, may have been killed before it synced.
    unclosed: Option<LastSegment>,
    /// The segment before the current one says that another follows.
    closed: bool,
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
    /// First heights of segments that lie wholly after the end.
    pub surplus: Vec<Height>,
    /// The segment before the last one is to be closed, or closed again.
    pub unclosed: Option<LastSegment>,
    /// A mark says that the last record is on stable storage.
    pub rests: bool,
}

#[derive(Clone)]
pub(super) struct LastSegment {
    pub path: String,
    /// None if the header itself is torn: the file holds no block.
    pub header: Option<SegmentHeader>,
    pub offset: u64,
    /// What lies after may never have been synced.
    pub proven: u64,
    pub size: u64,
}

impl LastSegment {
    pub fn salt(&self) -> u64 {
        self.header.map_or(0, |header| header.salt)
    }
}

/// What lies at an offset of a segment.
enum Found {
    Record {
        record: Record,
        durable_below: Height,
    },
    /// Zeros, or nothing at all.
    Nothing,
    /// A mark, and after it only what may be there.
    Mark(MarkKind),
    /// Bytes that no checksum vouches for.
    Unreadable(&'static str),
    /// Bytes that a checksum vouches for, and that are wrong nevertheless: never a torn write.
    Wrong(String),
}

impl LogReader {
    /// Reads from genesis, or from the oldest record that was not pruned.
    pub fn open(files: Arc<dyn Files>, stream: Stream) -> Result<Self> {
        Self::open_at(files, stream, 0)
    }

    /// Reads from the start of the segment that holds a height. Segments before it are only known
    /// to be there.
    pub fn open_at(files: Arc<dyn Files>, stream: Stream, height: Height) -> Result<Self> {
        let segments = list_segments(&*files, stream)?;
        let pruned = pruned_end(&*files, stream, segments.first().copied())?;
        let first_height = pruned.as_ref().map_or(0, |last| last.height + 1);
        let mut upcoming = segments.partition_point(|first| *first <= height).saturating_sub(1);
        // The one before may not be closed yet.
        if upcoming > 0 && upcoming + 1 == segments.len() {
            upcoming -= usize::from(is_empty(&*files, &segment_path(stream, segments[upcoming]))?);
        }
        Ok(LogReader {
            next_height: segments.get(upcoming).copied().unwrap_or(first_height),
            files,
            stream,
            segments,
            upcoming,
            current: None,
            ledger_id: pruned.as_ref().map(|last| last.ledger_id),
            head_hash: pruned.as_ref().filter(|_| upcoming == 0).map(|last| last.hash),
            pruned,
            unclosed: None,
            closed: false,
            end: None,
        })
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// The newest record of which only the header is kept, if some were pruned.
    pub fn pruned(&self) -> Option<&Link> {
        self.pruned.as_ref()
    }

    /// Height of the oldest record that is there: 0 if none was pruned.
    pub fn first_height(&self) -> Height {
        self.pruned.as_ref().map_or(0, |last| last.height + 1)
    }

    /// The ledger of the segments read so far. A crash before genesis was whole leaves a segment of
    /// a ledger without blocks; a genesis that is written then must take its id.
    pub fn ledger_id(&self) -> Option<LedgerId> {
        self.ledger_id
    }

    /// The height after the last record read.
    pub fn next_height(&self) -> Height {
        self.next_height
    }

    /// Where the log ends, once that was found: a file and an offset in it.
    pub fn end(&self) -> Option<(&str, u64)> {
        let none_yet = (self.stream.folder(), 0);
        let end = self.end.as_ref()?;
        Some(end.segment.as_ref().map_or(none_yet, |last| (&*last.path, last.offset)))
    }

    /// Where the reader stands: a file and an offset in it.
    pub(super) fn position(&self) -> (String, u64) {
        match &self.current {
            Some(segment) => (segment.path.clone(), segment.offset as u64),
            None => (self.stream.folder().to_owned(), 0),
        }
    }

    /// Bytes after the end that are no record, or count as none.
    pub fn torn(&self) -> Option<&TornTail> {
        self.end.as_ref()?.torn.as_ref()
    }

    /// The next record; `None` at the end. After a torn tail has been reported once, that is the
    /// end; damage is reported again and again, there is no way past it.
    ///
    /// A record shares the buffer of its whole segment: copy what must outlive the reading.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        if self.end.is_some() {
            return Ok(None);
        }
        loop {
            let Some(segment) = self.current.take() else {
                if self.upcoming == self.segments.len() {
                    self.end_at(None, None, false);
                    return Ok(None);
                }
                self.current = Some(self.open_segment()?);
                continue;
            };
            let may_be_unclosed = self.may_be_unclosed()?;
            let segment = self.current.insert(segment);
            let newest = self.upcoming == self.segments.len();
            match segment.find(self.next_height, self.head_hash.as_ref()) {
                Found::Record { record, durable_below } => {
                    segment.note(record.height(), durable_below);
                    segment.offset += RECORD_HEADER_BYTES + record.payload().len();
                    self.next_height = record.height() + 1;
                    self.head_hash = Some(record.hash());
                    return Ok(Some(record));
                }
                Found::Mark(MarkKind::Closed) if newest => {
                    let what = "the segment behind this one is missing: it was there when this \
                                one was closed";
                    return Err(segment.damage(self.next_height, what.to_owned()));
                }
                found @ (Found::Nothing | Found::Mark(_)) if newest => {
                    let last = segment.last();
                    self.end_at(Some(last), None, matches!(found, Found::Mark(_)));
                    return Ok(None);
                }
                found @ (Found::Nothing | Found::Mark(_) | Found::Unreadable(_))
                    if may_be_unclosed =>
                {
                    let last = segment.last();
                    self.leave(Some(last), matches!(found, Found::Mark(MarkKind::Closed)));
                }
                Found::Mark(MarkKind::Closed) => self.leave(None, true),
                Found::Nothing if segment.rest().is_empty() => self.leave(None, false),
                Found::Nothing | Found::Mark(_) => {
                    let what = "the segment is not closed, and another follows".to_owned();
                    return Err(segment.damage(self.next_height, what));
                }
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

    fn leave(&mut self, unclosed: Option<LastSegment>, closed: bool) {
        (self.current, self.unclosed, self.closed) = (None, unclosed, closed);
    }

    /// Whether all records of the segment at hand have been read, and a crash may have come before
    /// it was closed: nothing is written to the next one before.
    fn may_be_unclosed(&self) -> Result<bool> {
        let (files, upcoming) = (&*self.files, &self.segments[self.upcoming..]);
        match upcoming {
            [newest] if *newest == self.next_height => {
                is_empty(files, &segment_path(self.stream, *newest))
            }
            _ => Ok(false),
        }
    }

    /// Declares that the log ends here, whatever lies after.
    pub(super) fn end_here(&mut self) -> Result<()> {
        match self.next_record() {
            Ok(None) | Err(LogError::TornTail(_)) => return Ok(()),
            Err(LogError::Io(error)) => return Err(error.into()),
            Err(LogError::Damage(_)) => {}
            Ok(Some(record)) => self.step_back(&record),
        }
        let surplus = self.segments.split_off(self.upcoming);
        let what = "the orders end before it";
        let in_segment = self.current.as_ref().map(|last| last.torn(self.next_height, what));
        let torn = match (in_segment.filter(|torn| torn.cut_bytes > 0), surplus.first()) {
            (Some(torn), _) => Some(torn),
            (None, None) => None,
            (None, Some(&first)) => Some(TornTail {
                stream: self.stream,
                height: self.next_height,
                file: segment_path(self.stream, first),
                offset: 0,
                cut_bytes: self.files.open(&segment_path(self.stream, first))?.size()?,
                what: what.to_owned(),
            }),
        };
        let segment = self.current.as_ref().map(OpenSegment::last);
        let unclosed = self.unclosed.take();
        self.end = Some(LogEnd { segment, torn, surplus, unclosed, rests: false });
        Ok(())
    }

    /// Undoes the reading of the last record.
    fn step_back(&mut self, record: &Record) {
        if let Some(segment) = &mut self.current {
            segment.offset -= RECORD_HEADER_BYTES + record.payload().len();
            segment.unproven.pop_back();
        }
        self.next_height = record.height();
        self.head_hash = record.height().checked_sub(1).map(|_| record.previous_hash());
    }

    /// Whether a segment with an unreadable header may be one whose creation a crash cut short.
    /// Only the newest one may, and no record was written to it before its header was synced.
    fn may_be_torn(&self, bytes: &[u8]) -> bool {
        let records = bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        self.upcoming + 1 == self.segments.len() && used_bytes(records) == 0 && !self.closed
    }

    fn end_without_header(&mut self, path: String, bytes: &[u8], what: &str) -> LogError {
        let torn = TornTail {
            stream: self.stream,
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
        self.end_at(Some(segment), Some(torn.clone()), false);
        LogError::TornTail(torn)
    }

    fn end_at(&mut self, segment: Option<LastSegment>, torn: Option<TornTail>, rests: bool) {
        let (surplus, unclosed) = (Vec::new(), self.unclosed.take());
        self.end = Some(LogEnd { segment, torn, surplus, unclosed, rests });
    }

    fn open_segment(&mut self) -> Result<OpenSegment> {
        let first_height = self.segments[self.upcoming];
        if first_height > self.next_height {
            return Err(missing(self.stream, self.next_height, first_height));
        }
        let path = segment_path(self.stream, first_height);
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
        if header.stream != self.stream {
            return Err(damage(format!("the file holds a segment of {}", header.stream)));
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

    fn find(&self, height: Height, head: Option<&Hash>) -> Found {
        let rest = self.rest();
        let frame = match RecordHeader::decode(rest, self.header.salt) {
            Ok(frame) => frame,
            Err(_) if used_bytes(rest) == 0 => return Found::Nothing,
            Err(what) => match Mark::decode(rest, self.header.salt) {
                Some(mark) => return self.found(mark, height, head),
                None => return Found::Unreadable(what),
            },
        };
        let start = self.offset + RECORD_HEADER_BYTES;
        let length = frame.length as usize;
        if length > self.bytes.len() - start {
            return Found::Unreadable("the record is cut");
        }
        let payload = self.bytes.slice(start..start + length);
        if salted_crc(self.header.salt, &payload) != frame.payload_crc {
            return Found::Unreadable("the record's checksum does not match");
        }
        let durable_below = frame.durable_below;
        match self.check(height, &frame, payload) {
            Ok(record) => Found::Record { record, durable_below },
            Err(what) => Found::Wrong(what),
        }
    }

    fn found(&self, mark: Mark, height: Height, head: Option<&Hash>) -> Found {
        let behind = &self.rest()[MARK_BYTES..];
        if mark.height != height || head.is_some_and(|head| *head != mark.head) {
            return Found::Wrong(format!("a mark names another head, behind {}", mark.height));
        }
        match mark.kind {
            MarkKind::Closed if behind.is_empty() => Found::Mark(MarkKind::Closed),
            MarkKind::Rest if used_bytes(behind) == 0 => Found::Mark(MarkKind::Rest),
            _ => Found::Unreadable("there are bytes behind the end"),
        }
    }

    /// The record at the current offset is whole, and says what was synced before it.
    fn note(&mut self, height: Height, durable_below: Height) {
        while self.unproven.pop_front_if(|(height, _)| *height < durable_below).is_some() {}
        self.unproven.push_back((height, self.offset));
    }

    fn check(
        &self,
        height: Height,
        frame: &RecordHeader,
        payload: Bytes,
    ) -> std::result::Result<Record, String> {
        if frame.height != height {
            return Err(format!("the record says block {}", frame.height));
        }
        if frame.durable_below > height {
            return Err("the record says that it was synced before it was written".to_owned());
        }
        let record = Record::from_payload(self.header.stream, payload);
        let record = record.map_err(|error| error.to_string())?;
        if record.height() != height {
            return Err(format!("the record holds block {}", record.height()));
        }
        if record.ledger_id() != self.header.ledger_id {
            return Err(foreign(&record.ledger_id(), &self.header.ledger_id));
        }
        Ok(record)
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
            stream: self.header.stream,
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

/// Height of the oldest record that a folder has of a stream, 0 if none was pruned: a reader's
/// [`LogReader::first_height`] without one.
pub fn first_record(files: &dyn Files, stream: Stream) -> Result<Height> {
    Ok(list_segments(files, stream)?.first().copied().unwrap_or(0))
}

/// Whether no record was ever written to a segment.
fn is_empty(files: &dyn Files, path: &str) -> Result<bool> {
    let file = files.open(path)?;
    let behind = file.size()?.saturating_sub(SEGMENT_HEADER_BYTES as u64);
    if behind == 0 {
        return Ok(true);
    }
    let mut head = vec![0; behind.min(RECORD_HEADER_BYTES as u64) as usize];
    file.read_at(&mut head, SEGMENT_HEADER_BYTES as u64)?;
    Ok(used_bytes(&head) == 0)
}

/// The last record before the first segment, from the headers that a prune has kept.
fn pruned_end(
    files: &dyn Files,
    stream: Stream,
    first_segment: Option<Height>,
) -> Result<Option<Link>> {
    if first_segment == Some(0) {
        return Ok(None);
    }
    let pieces = headers::pieces(files, stream)?;
    let below = first_segment.unwrap_or(Height::MAX);
    let piece = match (pieces.into_iter().rfind(|piece| *piece < below), first_segment) {
        (Some(piece), Some(_)) => piece,
        (None, None) => return Ok(None),
        (None, Some(first)) => return Err(missing(stream, 0, first)),
        // A prune leaves the newest segment where it is.
        (Some(_), None) => {
            let file = stream.folder().to_owned();
            let what = "all segments are missing".to_owned();
            return Err(LogError::Damage(Damage { height: 0, file, offset: 0, what }));
        }
    };
    let damage = |what: String| {
        let file = headers::piece_path(stream, piece);
        LogError::Damage(Damage { height: piece, file, offset: 0, what })
    };
    let last = match headers::read_end(files, stream, piece) {
        Ok(last) => last,
        Err(headers::PieceError::Io(error)) => return Err(error.into()),
        Err(headers::PieceError::Damaged(error)) => return Err(damage(error.to_string())),
    };
    match first_segment {
        Some(first) if first != last.height + 1 => Err(missing(stream, last.height + 1, first)),
        _ => Ok(Some(last)),
    }
}

/// First heights of all segments, ascending, as their names sort.
pub(crate) fn list_segments(files: &dyn Files, stream: Stream) -> Result<Vec<Height>> {
    let names = files.list(stream.folder())?;
    let height = |name: &String| {
        parse_segment_name(name).ok_or_else(|| {
            LogError::Damage(Damage {
                height: 0,
                file: format!("{stream}/{name}"),
                offset: 0,
                what: "a file that is no segment lies among the segments".to_owned(),
            })
        })
    };
    let heights = names.iter().map(height).collect::<Result<Vec<Height>>>()?;
    debug_assert!(heights.is_sorted_by(|left, right| left < right), "names sort as heights do");
    Ok(heights)
}

/// The length without the zeros at the end.
fn used_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn missing(stream: Stream, from: Height, to: Height) -> LogError {
    LogError::Damage(Damage {
        height: from,
        file: segment_path(stream, from),
        offset: 0,
        what: format!("blocks {from} to {} are missing", to - 1),
    })
}

fn foreign(found: &LedgerId, expected: &LedgerId) -> String {
    format!("ledger {} found, this is ledger {}", to_hex(found), to_hex(expected))
}
