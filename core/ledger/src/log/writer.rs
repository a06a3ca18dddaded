//! Appending to a log.

use std::io;
use std::sync::Arc;

use types::Height;

use super::lookup::read_record;
use super::reader::{LastSegment, LogEnd, LogReader};
use super::{LogError, TornTail};
use crate::files::{DIRECT_ALIGNMENT, Files, FirstFailure, StorageFile, read_all};
use crate::hash::{Hash, ZERO_HASH};
use crate::header::LedgerId;
use crate::headers::Link;
use crate::record::Record;
use crate::segment::{
    MARK_BYTES, Mark, MarkKind, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
    put_record, segment_name, segment_path,
};
use crate::stream::Stream;

/// Bytes that were cut from the end of a log, for people.
pub const QUARANTINE_FOLDER: &str = "quarantine";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// A segment that would grow beyond this is closed first. One group never spans two segments,
    /// so a single group larger than this makes a larger segment.
    pub segment_bytes: u64,
    /// The newest segment grows in steps of this many zeros.
    pub zero_fill_bytes: u64,
    /// Whether `append` waits for stable storage. Without, a crash may lose acknowledged records,
    /// though never part of one.
    pub sync: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { segment_bytes: 64 << 20, zero_fill_bytes: 1 << 20, sync: true }
    }
}

/// The one writer of a stream.
pub struct LogWriter {
    pub(super) files: Arc<dyn Files>,
    pub(super) stream: Stream,
    pub(super) options: LogOptions,
    pub(super) segment: Option<WrittenSegment>,
    ledger_id: Option<LedgerId>,
    pub(super) next_height: Height,
    pub(super) head_hash: Hash,
    /// All records below are on stable storage.
    pub(super) durable_below: Height,
    /// A mark after the last record says that it is on stable storage.
    pub(super) rests: bool,
    /// The error after which nothing is known about the disk.
    poison: Option<FirstFailure>,
}

pub(super) struct WrittenSegment {
    pub file: Box<dyn StorageFile>,
    pub salt: u64,
    /// End of the last record.
    pub offset: u64,
    /// The file's size; zeros from `offset` on.
    pub size: u64,
    pub pages: Pages,
}

impl LogWriter {
    /// Goes on where a reader stopped, which must have been at the end. A torn tail is moved to
    /// `quarantine/` and cut.
    pub fn resume(reader: LogReader, options: LogOptions) -> io::Result<Self> {
        let LogReader { files, stream, end, next_height, mut ledger_id, mut head_hash, .. } =
            reader;
        let Some(LogEnd { segment, torn, surplus, unclosed, rests }) = end else {
            return Err(invalid("the log has not been read to its end".to_owned()));
        };
        // A reader that began at an empty segment has not seen the head.
        if let (None, Some(height)) = (head_hash, next_height.checked_sub(1)) {
            let head = read_record(&*files, stream, height)?;
            ledger_id = head.as_ref().map(Record::ledger_id);
            head_hash = head.as_ref().map(Record::hash);
        }
        let mut writer = LogWriter {
            files,
            stream,
            options,
            segment: None,
            ledger_id,
            next_height,
            head_hash: head_hash.unwrap_or(ZERO_HASH),
            durable_below: next_height,
            rests,
            poison: None,
        };
        writer.remove_surplus(&surplus)?;
        let Some(last) = segment else {
            return Ok(writer);
        };
        let torn = torn.filter(|torn| torn.file == last.path);
        if let Some(torn) = &torn {
            writer.quarantine(&*writer.files.open(&last.path)?, torn)?;
        }
        let (last, is_cut, unclosed) = match last.header {
            Some(_) => (Some(last), torn.is_some(), unclosed),
            // It holds nothing, and the one before goes on.
            None => {
                writer.files.remove(&last.path)?;
                writer.files.sync_folder(stream.folder())?;
                (unclosed, true, None)
            }
        };
        if let Some(last) = last {
            writer.go_on_in(&last, is_cut)?;
        }
        if let Some(before) = unclosed {
            let file = writer.files.open(&before.path)?;
            writer.close(&*file, before.salt(), before.offset)?;
        }
        Ok(writer)
    }

    /// Makes sure of the last segment, which later records are written to.
    fn go_on_in(&mut self, last: &LastSegment, is_cut: bool) -> io::Result<()> {
        let file = self.files.open(&last.path)?;
        let size = if is_cut { last.offset } else { last.size };
        if is_cut {
            file.set_size(size)?;
        }
        assert!(last.proven <= last.offset && last.offset <= size, "records end within the file");
        // What was read, and the very name of the file, may only be in the page cache, if the
        // process that wrote them was killed before it synced. If its sync failed, the cache holds
        // pages that it takes for clean though the disk has never had them: write them again.
        rewrite(&*file, last.proven, size)?;
        file.sync()?;
        self.files.sync_folder(self.stream.folder())?;
        let pages = Pages::new(&self.options);
        let (salt, offset) = (last.salt(), last.offset);
        self.segment = Some(WrittenSegment { file, salt, offset, size, pages });
        Ok(())
    }

    /// Begins a log after a record of which only the header is there, with an empty segment.
    pub fn begin_behind(
        files: Arc<dyn Files>,
        stream: Stream,
        last: &Link,
        options: LogOptions,
    ) -> io::Result<Self> {
        let next_height = last.height + 1;
        let mut writer = LogWriter {
            files,
            stream,
            options,
            segment: None,
            ledger_id: Some(last.ledger_id),
            next_height,
            head_hash: last.hash,
            durable_below: next_height,
            rests: false,
            poison: None,
        };
        writer.make_room(last.ledger_id, 0)?;
        Ok(writer)
    }

    /// Another writer of the same log, after what a new start would find: for a log that a full
    /// disk has closed. This one is not to be used any more.
    pub fn reopened(&self) -> io::Result<LogWriter> {
        let files = Arc::clone(&self.files);
        let mut reader = LogReader::open_at(files, self.stream, Height::MAX)?;
        loop {
            match reader.next_record() {
                Ok(Some(_)) | Err(LogError::TornTail(_)) => {}
                Ok(None) => return LogWriter::resume(reader, self.options),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub fn next_height(&self) -> Height {
        self.next_height
    }

    /// Hash of the last record, zeros before genesis.
    pub fn head_hash(&self) -> Hash {
        self.head_hash
    }

    /// All records below this height are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.durable_below
    }

    /// Appends a group of records with one write and, if the options say so, one fdatasync. Records
    /// that do not continue the chain are refused before anything is written; any other error is
    /// final for this writer.
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        self.append_unsynced(records)?;
        if self.options.sync { self.sync() } else { Ok(()) }
    }

    /// Appends any number of records, in groups that segments have room for, and waits for stable
    /// storage once, at the end.
    pub fn append_and_sync(&mut self, records: &[Record]) -> io::Result<()> {
        self.append_all_unsynced(records)?;
        self.sync()
    }

    /// Appends any number of records, in groups that segments have room for, without waiting for
    /// stable storage.
    pub fn append_all_unsynced(&mut self, mut records: &[Record]) -> io::Result<()> {
        while !records.is_empty() {
            let mut room = self.options.segment_bytes.saturating_sub(SEGMENT_HEADER_BYTES as u64);
            let fits = |record: &&Record| match room.checked_sub(record_bytes(record)) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            };
            let count = records.iter().take_while(fits).count().max(1);
            let (group, behind) = records.split_at(count);
            self.append_unsynced(group)?;
            records = behind;
        }
        Ok(())
    }

    /// [`LogWriter::append`] without waiting for stable storage, whatever the options say.
    pub fn append_unsynced(&mut self, records: &[Record]) -> io::Result<()> {
        self.check_alive()?;
        self.check_chain(records)?;
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        self.ledger_id = Some(first.ledger_id());
        let result = self.write_group(first.ledger_id(), records);
        self.or_poison(result)?;
        self.next_height = last.height() + 1;
        self.head_hash = last.hash();
        self.rests = false;
        debug_assert!(self.durable_below <= self.next_height, "nothing is there to be durable");
        Ok(())
    }

    /// In a moment of rest, and at a clean stop: everything is on stable storage when this returns,
    /// and a [mark](crate::segment) after the last record says so. The next record overwrites it.
    pub fn rest(&mut self) -> io::Result<()> {
        self.check_alive()?;
        if self.rests || self.segment.is_none() || self.next_height == 0 {
            return Ok(());
        }
        if self.durable_below < self.next_height {
            self.sync()?;
        }
        assert_eq!(self.durable_below, self.next_height, "the mark would vouch for what is not");
        let marked = self.put_rest_mark();
        self.or_poison(marked)?;
        self.rests = true;
        Ok(())
    }

    fn put_rest_mark(&mut self) -> io::Result<()> {
        let mark = self.mark(MarkKind::Rest);
        let Some(segment) = &mut self.segment else { return Ok(()) };
        debug_assert!(segment.offset <= segment.size, "records end within the file");
        let end = segment.offset + MARK_BYTES as u64;
        if end > segment.size {
            segment.size = filled_size(&self.options, end);
        }
        let written_end = end.next_multiple_of(segment.pages.page_bytes).min(segment.size);
        let begin = segment.pages.begin(&*segment.file, segment.offset, written_end)?;
        segment.pages.bytes.extend_from_slice(&mark.encode(segment.salt));
        segment.file.write_at(segment.pages.fill(written_end), begin)?;
        segment.file.sync()
    }

    fn mark(&self, kind: MarkKind) -> Mark {
        Mark { kind, height: self.next_height, head: self.head_hash }
    }

    /// Says after the last record of a segment that another one follows, which is on stable
    /// storage and has no record yet.
    fn close(&self, file: &dyn StorageFile, salt: u64, offset: u64) -> io::Result<()> {
        file.write_at(&self.mark(MarkKind::Closed).encode(salt), offset)?;
        file.set_size(offset + MARK_BYTES as u64)?;
        file.sync()
    }

    /// Waits until all appended records are on stable storage.
    pub fn sync(&mut self) -> io::Result<()> {
        self.check_alive()?;
        if let Some(segment) = &self.segment {
            let result = segment.file.sync();
            self.or_poison(result)?;
        }
        self.durable_below = self.next_height;
        Ok(())
    }

    pub(super) fn check_alive(&self) -> io::Result<()> {
        self.poison.as_ref().map_or(Ok(()), |first| Err(first.closed("the log")))
    }

    fn check_chain(&self, records: &[Record]) -> io::Result<()> {
        let mut head_hash = self.head_hash;
        let mut ledger_id = self.ledger_id;
        for (height, record) in (self.next_height..).zip(records) {
            if record.stream() != self.stream {
                return Err(invalid(format!("block {height}: this log is of {}", self.stream)));
            }
            if record.height() != height || record.previous_hash() != head_hash {
                return Err(invalid(format!(
                    "block {} does not follow the head of the log, block {height} is next",
                    record.height()
                )));
            }
            if *ledger_id.get_or_insert(record.ledger_id()) != record.ledger_id() {
                return Err(invalid(format!("block {height} belongs to another ledger")));
            }
            head_hash = record.hash();
        }
        Ok(())
    }

    pub(super) fn or_poison<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.poison.get_or_insert_with(|| FirstFailure::of(error));
        }
        result
    }

    fn write_group(&mut self, ledger_id: LedgerId, records: &[Record]) -> io::Result<()> {
        let group_bytes = records.iter().map(record_bytes).sum();
        self.make_room(ledger_id, group_bytes)?;
        let Some(segment) = &mut self.segment else {
            return Err(io::Error::other("no segment is open"));
        };
        let end = segment.offset + group_bytes;
        let pages = &mut segment.pages;
        let mut written_end = end.next_multiple_of(pages.page_bytes).min(segment.size);
        if end > segment.size {
            segment.size = filled_size(&self.options, end);
            written_end = segment.size;
        }
        let begin = pages.begin(&*segment.file, segment.offset, written_end)?;
        for record in records {
            let (height, payload) = (record.height(), record.payload());
            put_record(&mut pages.bytes, segment.salt, height, self.durable_below, payload);
        }
        segment.file.write_at(pages.fill(written_end), begin)?;
        debug_assert_eq!(pages.end, end, "a group has the bytes that room was made for");
        segment.offset = end;
        Ok(())
    }

    /// Opens a segment that has room for a group. The one before is closed after its creation, so
    /// that it vouches for a file that was there.
    fn make_room(&mut self, ledger_id: LedgerId, group_bytes: u64) -> io::Result<()> {
        if let Some(segment) = &self.segment {
            let empty = segment.offset == SEGMENT_HEADER_BYTES as u64;
            if empty || segment.offset + group_bytes <= self.options.segment_bytes {
                return Ok(());
            }
            segment.file.sync()?;
            self.durable_below = self.next_height;
        } else {
            self.files.create_folder(self.stream.folder())?;
            self.files.sync_folder("")?;
        }
        let next = self.create_segment(ledger_id)?;
        if let Some(full) = self.segment.replace(next) {
            assert_eq!(self.durable_below, self.next_height, "a closed segment is all durable");
            self.close(&*full.file, full.salt, full.offset)?;
        }
        Ok(())
    }

    fn create_segment(&mut self, ledger_id: LedgerId) -> io::Result<WrittenSegment> {
        let first_height = self.next_height;
        let (stream, salt) = (self.stream, self.files.salt());
        let header = SegmentHeader { stream, ledger_id, first_height, salt };
        let file = self.files.create(&segment_path(stream, first_height))?;
        let offset = SEGMENT_HEADER_BYTES as u64;
        let size = filled_size(&self.options, offset);
        let mut bytes = header.encode().to_vec();
        bytes.resize(size as usize, 0);
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.files.sync_folder(stream.folder())?;
        let pages = Pages::new(&self.options);
        Ok(WrittenSegment { file, salt: header.salt, offset, size, pages })
    }

    /// Keeps copies of segments that lie after the end, and removes them: the newest first, so
    /// that a crash in between leaves no gap.
    fn remove_surplus(&self, segments: &[Height]) -> io::Result<()> {
        for &first in segments.iter().rev() {
            let path = segment_path(self.stream, first);
            let bytes = read_all(&*self.files.open(&path)?)?;
            self.keep_aside(first, 0, &bytes)?;
            self.files.remove(&path)?;
            self.files.sync_folder(self.stream.folder())?;
        }
        Ok(())
    }

    /// Keeps a copy of what is about to be cut, for people who want to know what it was.
    fn quarantine(&self, file: &dyn StorageFile, torn: &TornTail) -> io::Result<()> {
        let mut bytes = vec![0; usize::try_from(torn.cut_bytes).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, torn.offset)?;
        self.keep_aside(torn.height, torn.offset, &bytes)
    }

    fn keep_aside(&self, height: Height, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.create_folder(QUARANTINE_FOLDER)?;
        self.files.sync_folder("")?;
        let taken = self.files.list(QUARANTINE_FOLDER)?;
        let segment = segment_name(height);
        let name = |n: u64| format!("{}-{segment}.offset-{offset}.{n}", self.stream);
        let free = (1..).map(name).find(|name| !taken.contains(name)).unwrap_or_default();
        let copy = self.files.create(&format!("{QUARANTINE_FOLDER}/{free}"))?;
        copy.write_at(bytes, 0)?;
        copy.sync()?;
        self.files.sync_folder(QUARANTINE_FOLDER)
    }
}

fn record_bytes(record: &Record) -> u64 {
    (RECORD_HEADER_BYTES + record.payload().len()) as u64
}

/// The bytes of a group on whole pages, so that they can be written past the page cache: what the
/// page in which the last group ended holds already, the group, zeros.
///
/// ```text
/// bytes   unused │ page begin … last end │ group │ zeros      `unused` aligns the page in memory
///                └ start                                      file offset `begin` is a page's
/// ```
///
/// Writes that are not waited for belong into the page cache: then a page is one byte.
pub(super) struct Pages {
    page_bytes: u64,
    bytes: Vec<u8>,
    start: usize,
    /// File offset of `start`, and of what was last put there.
    begin: u64,
    end: u64,
}

impl Pages {
    pub fn new(options: &LogOptions) -> Self {
        let page_bytes = if options.sync { DIRECT_ALIGNMENT as u64 } else { 1 };
        Pages { page_bytes, bytes: Vec::new(), start: 0, begin: 0, end: 0 }
    }

    /// Makes ready for bytes from `offset` on, of which `written_end` is an upper bound. Returns
    /// the offset of the page. What it holds before `offset` is read from the file only if these
    /// pages do not come from the group before.
    fn begin(&mut self, file: &dyn StorageFile, offset: u64, written_end: u64) -> io::Result<u64> {
        let begin = offset - offset % self.page_bytes;
        debug_assert!(offset <= written_end, "what is written comes behind what is there");
        let mut head = [0; DIRECT_ALIGNMENT];
        let head = &mut head[..(offset - begin) as usize];
        if self.end == offset && self.begin <= begin {
            let from = self.start + (begin - self.begin) as usize;
            head.copy_from_slice(&self.bytes[from..from + head.len()]);
        } else {
            file.read_at(head, begin)?;
        }
        self.bytes.clear();
        self.bytes.reserve((written_end - begin) as usize + DIRECT_ALIGNMENT);
        self.start = self.bytes.as_ptr().align_offset(DIRECT_ALIGNMENT);
        self.bytes.resize(self.start, 0);
        self.bytes.extend_from_slice(head);
        self.begin = begin;
        Ok(begin)
    }

    /// The pages, filled with zeros up to `written_end`.
    fn fill(&mut self, written_end: u64) -> &[u8] {
        self.end = self.begin + (self.bytes.len() - self.start) as u64;
        self.bytes.resize(self.start + (written_end - self.begin) as usize, 0);
        &self.bytes[self.start..]
    }
}

/// Writes what a file holds in a range once more.
fn rewrite(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<()> {
    let mut bytes = vec![0; to.saturating_sub(from) as usize];
    file.read_at(&mut bytes, from)?;
    file.write_at(&bytes, from)
}

/// The size to which a segment is filled with zeros when its data ends at `end`.
fn filled_size(options: &LogOptions, end: u64) -> u64 {
    let step = options.zero_fill_bytes.max(1);
    let size = end.next_multiple_of(step).min(options.segment_bytes).max(end);
    debug_assert!(size - end < step, "one step of zeros at most");
    size
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
