//! Loggers: several streams of records, and when an epoch counts.
//!
//! ```text
//!   stream-0.log   [ frame of epoch 1 ][ frame of epoch 2 ] …      one file for each logger
//!   stream-1.log   [ frame of epoch 1 ][ frame of epoch 2 ] …
//!   pepoch.log     [ slot 0 ][ slot 1 ]     the last epoch that all loggers have on disk
//!
//!   frame   length: 4 | CRC-32 of what follows: 4 | height: 8 | block: 8 | records: length
//!   slot    height: 8 | CRC-32 of it: 4, at 0 and at 512, in turns
//! ```
//!
//! *Block* is where a block's hash begins, if there is a ledger [`row_logs`](super::row_logs), else
//! 0.
//!
//! **Group commit.** Each logger writes one frame for an epoch, an empty one too, and syncs once.
//! Only when all have done so the epoch is noted in `pepoch.log`, and only when that is on disk its
//! results may be released.
//!
//! **Reading.** What counts is every epoch up to the noted one; frames after it were never
//! released and are dropped. A frame at or below it that is torn is damage, not a crash: it had
//! been synced. The two slots lie in sectors of their own, so that a torn write leaves the other.
//!
//! All of it is done by the caller's thread. A failed write or sync ends the log for good: what the
//! disk holds then is not known.

use std::io;
use std::sync::Arc;

use ledger::files::FirstFailure;
use ledger::{Files, StorageFile};
use storage::Changes;
use types::{Height, Position};

use super::Scheme;

pub(super) const FRAME_HEADER_BYTES: usize = 24;
/// Where a block's hash begins.
pub type BlockTag = [u8; 8];
const NO_BLOCK: BlockTag = [0; 8];

const SLOT_BYTES: usize = 12;
const SLOT_OFFSETS: [u64; 2] = [0, 512];
const PEPOCH: &str = "pepoch.log";

fn stream_name(logger: usize) -> String {
    format!("stream-{logger}.log")
}

/// Writes epochs.
pub struct Loggers {
    scheme: Scheme,
    streams: Vec<Stream>,
    pepoch: Box<dyn StorageFile>,
    /// Epochs noted so far, which tells the slot of the next.
    noted: u64,
    broken: Option<FirstFailure>,
}

struct Stream {
    file: Box<dyn StorageFile>,
    bytes: u64,
    frame: Vec<u8>,
}

impl Loggers {
    /// New streams in an empty folder.
    pub fn create(files: &Arc<dyn Files>, scheme: Scheme, loggers: usize) -> io::Result<Loggers> {
        let stream = |logger| {
            let file = files.create(&stream_name(logger))?;
            Ok(Stream { file, bytes: 0, frame: Vec::new() })
        };
        let streams = (0..loggers.max(1)).map(stream).collect::<io::Result<Vec<Stream>>>()?;
        let pepoch = files.create(PEPOCH)?;
        files.sync_folder("")?;
        Ok(Loggers { scheme, streams, pepoch, noted: 0, broken: None })
    }

    /// Returns when the block's changes are on disk with every logger, and noted.
    pub fn append(&mut self, changes: &Changes) -> io::Result<()> {
        self.append_those(changes, &|_| true)
    }

    /// The same of rows whose last writer is `wanted`: where others are logged by their commands.
    pub fn append_those(
        &mut self,
        changes: &Changes,
        wanted: &dyn Fn(Position) -> bool,
    ) -> io::Result<()> {
        if let Some(first) = &self.broken {
            return Err(first.closed("the log"));
        }
        let appended = self.append_frames(changes, wanted);
        self.broken = appended.as_ref().err().map(FirstFailure::of);
        appended
    }

    fn append_frames(
        &mut self,
        changes: &Changes,
        wanted: &dyn Fn(Position) -> bool,
    ) -> io::Result<()> {
        let mut frames: Vec<Vec<u8>> =
            self.streams.iter_mut().map(|stream| std::mem::take(&mut stream.frame)).collect();
        for frame in &mut frames {
            frame.clear();
            frame.resize(FRAME_HEADER_BYTES, 0);
        }
        let encoded = self.scheme.encode_those(changes, wanted, &mut frames);
        encoded.map_err(|error| io::Error::other(error.to_string()))?;
        for (stream, frame) in self.streams.iter_mut().zip(&mut frames) {
            seal(frame, changes.height(), NO_BLOCK)?;
            stream.file.write_at(frame, stream.bytes)?;
            stream.bytes += frame.len() as u64;
        }
        for (stream, frame) in self.streams.iter_mut().zip(frames) {
            stream.file.sync()?;
            stream.frame = frame;
        }
        self.note(changes.height())
    }

    fn note(&mut self, height: Height) -> io::Result<()> {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&height.to_be_bytes());
        let check = crc32fast::hash(&slot[..8]);
        slot[8..].copy_from_slice(&check.to_be_bytes());
        self.pepoch.write_at(&slot, SLOT_OFFSETS[(self.noted % 2) as usize])?;
        self.pepoch.sync()?;
        self.noted += 1;
        Ok(())
    }

    /// Of all streams.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes).sum()
    }
}

/// Fills in a frame's header.
pub(super) fn seal(frame: &mut [u8], height: Height, block: BlockTag) -> io::Result<()> {
    let length = u32::try_from(frame.len() - FRAME_HEADER_BYTES);
    let length = length.map_err(|_| io::Error::other("an epoch of more than 4 GiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[8..16].copy_from_slice(&height.to_be_bytes());
    frame[16..FRAME_HEADER_BYTES].copy_from_slice(&block);
    let check = crc32fast::hash(&frame[8..]);
    frame[4..8].copy_from_slice(&check.to_be_bytes());
    Ok(())
}

/// What one logger has of one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub height: Height,
    pub block: BlockTag,
    pub records: Vec<u8>,
}

/// Everything that counts, oldest first.
#[derive(Clone, Debug)]
pub struct RowLog {
    pub scheme: Scheme,
    pub frames: Vec<Frame>,
    /// The last epoch that counts; `None`: none does.
    pub height: Option<Height>,
}

impl RowLog {
    pub fn read(files: &Arc<dyn Files>, scheme: Scheme) -> io::Result<RowLog> {
        let height = noted(files)?;
        let names = files.list("")?;
        let streams = names.iter().filter(|name| name.starts_with("stream-"));
        let mut frames = std::thread::scope(|scope| {
            let read = |name| move || read_stream(files, name, height);
            let readers: Vec<_> = streams.map(|name| scope.spawn(read(name))).collect();
            let frames = readers.into_iter().map(|reader| {
                reader.join().map_err(|_| io::Error::other("reading a stream panicked"))?
            });
            frames.collect::<io::Result<Vec<Vec<Frame>>>>()
        })?
        .into_iter()
        .flatten()
        .collect::<Vec<Frame>>();
        frames.sort_by_key(|frame| frame.height);
        Ok(RowLog { scheme, frames, height })
    }
}

fn contents(files: &Arc<dyn Files>, name: &str) -> io::Result<Vec<u8>> {
    let file = files.open(name)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn noted(files: &Arc<dyn Files>) -> io::Result<Option<Height>> {
    if !files.list("")?.iter().any(|name| name == PEPOCH) {
        return Ok(None);
    }
    let bytes = contents(files, PEPOCH)?;
    let slot = |offset: &u64| -> Option<Height> {
        let slot = bytes.get(*offset as usize..*offset as usize + SLOT_BYTES)?;
        let (height, check) = slot.split_first_chunk::<8>()?;
        let valid = crc32fast::hash(height).to_be_bytes() == *check;
        valid.then_some(Height::from_be_bytes(*height)).filter(|height| *height > 0)
    };
    Ok(SLOT_OFFSETS.iter().filter_map(slot).max())
}

/// The frames of a stream up to `until`, which must all be there.
fn read_stream(
    files: &Arc<dyn Files>,
    name: &str,
    until: Option<Height>,
) -> io::Result<Vec<Frame>> {
    let mut frames = Vec::new();
    let Some(until) = until else {
        return Ok(frames);
    };
    let bytes = contents(files, name)?;
    let mut rest = &bytes[..];
    let mut last = 0;
    while last < until {
        let Some((frame, behind)) = next_frame(rest) else {
            let what = format!("{name}: epoch {until} was complete, and ends after {last}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        last = frame.height;
        rest = behind;
        frames.push(frame);
    }
    Ok(frames)
}

pub(super) fn next_frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>()?;
    let (length, header) = header.split_first_chunk()?;
    let (expected, tags) = header.split_first_chunk()?;
    let (height, block) = tags.split_first_chunk()?;
    let length = u32::from_be_bytes(*length) as usize;
    let (records, behind) = rest.split_at_checked(length)?;
    let mut check = crc32fast::Hasher::new();
    check.update(tags);
    check.update(records);
    let valid = check.finalize() == u32::from_be_bytes(*expected);
    let (height, block) = (Height::from_be_bytes(*height), block.try_into().ok()?);
    valid.then(|| (Frame { height, block, records: records.to_vec() }, behind))
}
