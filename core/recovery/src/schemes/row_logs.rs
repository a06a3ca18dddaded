//! Row logs beside a ledger: a logger for each folder, cut off at checkpoints.
//!
//! ```text
//!   ledger      … ─ H ─ H+1 ─ H+2 ─ …            the truth: chain, outcomes, effects roots
//!   folder 0    logical-H.log   [ frame of H ][ frame of H+1 ] … | logical-K.log [ frame of K ] …
//!   folder 1    logical-H.log   [ frame of H ][ frame of H+1 ] … | logical-K.log …
//! ```
//!
//! A block is the epoch. Each logger has a thread of its own, which writes the epoch's frame
//! ([`streams`](super::streams) draws it) and syncs, while the block itself is appended to the
//! ledger; the epoch's results are released when all of them have reported back.
//!
//! *No note of the last complete epoch.* What counts is decided by the ledger: the rows of a block
//! are all there if they give the effects root of its header ([`checked`](super::checked)). So a
//! frame that is missing with one logger, or a stranger's folder, cannot pass for more than it is,
//! and releasing costs one sync with each logger and no second one.
//!
//! *Whose rows.* A frame names its block by the block's hash. A power cut may leave the frame of a
//! block that the ledger has lost; when its transactions come again in another company they may
//! change the same rows from other places, of which the effects root says nothing. Such a frame is
//! refused, and [`RowLoggers::resume`] cuts it off.
//!
//! *Segments.* A writer always begins new files, named after the first block that they hold; it
//! never appends to what a crash has left. What lies in a file from the next file's first block on
//! was never released. Files begin at checkpoints and when they are full; they go when a
//! checkpoint holds all of their blocks, or at a start under another scheme.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ledger::files::{FirstFailure, read_all};
use ledger::{Files, Hash, StorageFile};
use storage::Changes;
use types::Height;

use super::Scheme;
use super::streams::{BlockTag, FRAME_HEADER_BYTES, Frame, next_frame, seal};

/// Bugs on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogMutant {
    /// An epoch counts as logged when its frames are on their way.
    ReleasedEarly,
}

#[derive(Clone, Copy, Debug)]
pub struct RowLogOptions {
    /// A file that has grown beyond this is closed.
    pub segment_bytes: u64,
    /// Whether an epoch waits for stable storage.
    pub sync: bool,
    pub mutant: Option<LogMutant>,
}

impl Default for RowLogOptions {
    fn default() -> Self {
        RowLogOptions { segment_bytes: 64 << 20, sync: true, mutant: None }
    }
}

/// Where row logs are.
#[derive(Clone)]
pub struct RowFolders {
    pub scheme: Scheme,
    /// A logger for each.
    pub folders: Vec<Arc<dyn Files>>,
}

impl RowFolders {
    /// First blocks of the files in a folder, ascending.
    fn segments(&self, files: &dyn Files) -> io::Result<Vec<Height>> {
        let names = files.list("")?;
        let mut segments: Vec<Height> =
            names.iter().filter_map(|name| parse_name(self.scheme, name)).collect();
        segments.sort_unstable();
        Ok(segments)
    }
}

fn segment_name(scheme: Scheme, first: Height) -> String {
    format!("{}-{first:020}.log", scheme.name())
}

fn parse_name(scheme: Scheme, name: &str) -> Option<Height> {
    let number = name.strip_prefix(scheme.name())?.strip_prefix('-')?.strip_suffix(".log")?;
    number.parse().ok().filter(|first| segment_name(scheme, *first) == name)
}

/// Removes a file, if it is there.
fn remove(files: &dyn Files, name: &str) -> io::Result<()> {
    match files.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the row logs of schemes that are not used in a folder any more: they miss the blocks
/// from now on, and no checkpoint would cut them off.
pub fn remove_unused(files: &dyn Files, used: Option<Scheme>) -> io::Result<()> {
    let unused = |name: &&String| {
        Scheme::ALL.into_iter().any(|it| Some(it) != used && parse_name(it, name).is_some())
    };
    files.list("")?.iter().filter(unused).try_for_each(|name| remove(files, name))?;
    files.sync_folder("")
}

fn tag_of(block: &Hash) -> BlockTag {
    let mut tag = BlockTag::default();
    tag.copy_from_slice(&block[..size_of::<BlockTag>()]);
    tag
}

/// Cuts off the frames of the blocks from `next` on. What cannot be read stays, for people.
fn cut_behind(files: &dyn Files, name: &str, next: Height) -> io::Result<()> {
    let file = files.open(name)?;
    let bytes = read_all(&*file)?;
    let mut rest = &bytes[..];
    while let Some((frame, behind)) = next_frame(rest) {
        if frame.height >= next {
            file.set_size((bytes.len() - rest.len()) as u64)?;
            return file.sync();
        }
        rest = behind;
    }
    Ok(())
}

/// Writes epochs. One that failed is the last.
pub struct RowLoggers {
    scheme: Scheme,
    loggers: Vec<Logger>,
    mutant: Option<LogMutant>,
    /// Why nothing is written any more.
    broken: Option<FirstFailure>,
}

/// A logger's thread, and the ends of the channels to it.
struct Logger {
    orders: Option<Sender<Order>>,
    done: Receiver<io::Result<Vec<u8>>>,
    /// Reused from epoch to epoch.
    frame: Vec<u8>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Write { height: Height, frame: Vec<u8> },
    BeginSegment,
    Cut { up_to: Height },
}

impl RowLoggers {
    /// New files for the blocks from `next` on, the first that the ledger does not have.
    pub fn resume(of: &RowFolders, next: Height, options: RowLogOptions) -> io::Result<RowLoggers> {
        let logger = |files: &Arc<dyn Files>| {
            let mut segments = of.segments(&**files)?;
            // Of blocks that were never released.
            for first in segments.extract_if(.., |first| *first >= next) {
                remove(&**files, &segment_name(of.scheme, first))?;
            }
            if let Some(last) = segments.last() {
                cut_behind(&**files, &segment_name(of.scheme, *last), next)?;
            }
            remove_unused(&**files, Some(of.scheme))?;
            let files = Arc::clone(files);
            let (scheme, newest) = (of.scheme, next.saturating_sub(1));
            let writer = Writer { files, scheme, options, segments, file: None, newest };
            Logger::start(writer)
        };
        let loggers = of.folders.iter().map(logger).collect::<io::Result<Vec<Logger>>>()?;
        Ok(RowLoggers { scheme: of.scheme, loggers, mutant: options.mutant, broken: None })
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Hands an epoch to all loggers; [`RowLoggers::wait`] before anything of it is released.
    pub fn begin(&mut self, block: &Hash, changes: &Changes) -> io::Result<()> {
        self.check()?;
        let mut frames: Vec<Vec<u8>> =
            self.loggers.iter_mut().map(|logger| std::mem::take(&mut logger.frame)).collect();
        for frame in &mut frames {
            frame.clear();
            frame.resize(FRAME_HEADER_BYTES, 0);
        }
        let encoded = self.scheme.encode(changes, &mut frames);
        let height = changes.height();
        let sealed = encoded.map_err(|error| io::Error::other(error.to_string())).and_then(|()| {
            frames.iter_mut().try_for_each(|frame| seal(frame, height, tag_of(block)))
        });
        self.or_break(sealed)?;
        for (logger, frame) in self.loggers.iter().zip(frames) {
            logger.order(Order::Write { height, frame });
        }
        Ok(())
    }

    /// Returns when all loggers have what was [handed](RowLoggers::begin) to them.
    pub fn wait(&mut self) -> io::Result<()> {
        self.check()?;
        if self.mutant == Some(LogMutant::ReleasedEarly) {
            return Ok(());
        }
        let mut result: io::Result<()> = Ok(());
        for logger in &mut self.loggers {
            let done = logger.done.recv().unwrap_or_else(|_| Err(gone()));
            match done {
                Ok(frame) => logger.frame = frame,
                // Of several, the first one tells why.
                Err(error) => result = result.and(Err(error)),
            }
        }
        self.or_break(result)
    }

    /// What follows goes to new files: a checkpoint is about to be taken.
    pub fn begin_segments(&self) {
        self.loggers.iter().for_each(|logger| logger.order(Order::BeginSegment));
    }

    /// Blocks up to this one are in a checkpoint; files that hold no others go.
    pub fn cut(&self, up_to: Height) {
        self.loggers.iter().for_each(|logger| logger.order(Order::Cut { up_to }));
    }

    fn check(&self) -> io::Result<()> {
        self.broken.as_ref().map_or(Ok(()), |first| Err(first.closed("the row log")))
    }

    fn or_break(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result {
            self.broken.get_or_insert_with(|| FirstFailure::of(error));
        }
        result
    }
}

impl Logger {
    fn start(writer: Writer) -> io::Result<Logger> {
        let (orders, received) = channel();
        let (tell, done) = channel();
        let thread = std::thread::Builder::new().name("row-logger".into());
        let thread = thread.spawn(move || writer.run(&received, &tell))?;
        Ok(Logger { orders: Some(orders), done, frame: Vec::new(), thread: Some(thread) })
    }

    /// A thread that is gone does not report back, which [`RowLoggers::wait`] notices.
    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("a row logger has ended")
}

/// What a logger's thread has.
struct Writer {
    files: Arc<dyn Files>,
    scheme: Scheme,
    options: RowLogOptions,
    /// First blocks of the files that are there, ascending; the last is the open one.
    segments: Vec<Height>,
    file: Option<(Box<dyn StorageFile>, u64)>,
    /// The last block that may be in them.
    newest: Height,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>, tell: &Sender<io::Result<Vec<u8>>>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Write { height, frame } => {
                    let written = self.write(height, &frame).map(|()| frame);
                    let failed = written.is_err();
                    if tell.send(written).is_err() || failed {
                        // What the disk holds now is not known.
                        return;
                    }
                }
                Order::BeginSegment => self.file = None,
                // Whatever cannot be removed now goes with the next checkpoint.
                Order::Cut { up_to } => drop(self.cut(up_to)),
            }
        }
    }

    fn write(&mut self, height: Height, frame: &[u8]) -> io::Result<()> {
        if self.file.as_ref().is_some_and(|(_, bytes)| *bytes > self.options.segment_bytes) {
            self.file = None;
        }
        let (file, bytes) = match &mut self.file {
            Some(open) => open,
            none => {
                let file = self.files.create(&segment_name(self.scheme, height))?;
                self.files.sync_folder("")?;
                self.segments.push(height);
                none.insert((file, 0))
            }
        };
        self.newest = height;
        file.write_at(frame, *bytes)?;
        *bytes += frame.len() as u64;
        if self.options.sync { file.sync() } else { Ok(()) }
    }

    fn cut(&mut self, up_to: Height) -> io::Result<()> {
        while let Some(oldest) = self.segments.first() {
            let behind = match self.segments.get(1) {
                Some(next) => *next,
                None if self.file.is_none() => self.newest + 1,
                None => Height::MAX,
            };
            if behind > up_to + 1 {
                break;
            }
            remove(&*self.files, &segment_name(self.scheme, *oldest))?;
            self.segments.remove(0);
        }
        self.files.sync_folder("")
    }
}

/// Reads epochs in their order.
pub struct RowReader {
    scheme: Scheme,
    streams: Vec<StreamReader>,
    first: Option<Height>,
}

struct StreamReader {
    files: Arc<dyn Files>,
    segments: Vec<Height>,
    /// The file to open when the current one ends.
    upcoming: usize,
    bytes: Vec<u8>,
    offset: usize,
}

impl RowReader {
    /// Of the blocks from `from` on, or from the first one that is there.
    pub fn open(of: &RowFolders, from: Height) -> io::Result<RowReader> {
        let stream = |files: &Arc<dyn Files>| {
            let segments = of.segments(&**files)?;
            let upcoming = segments.partition_point(|first| *first <= from).saturating_sub(1);
            let (files, bytes) = (Arc::clone(files), Vec::new());
            Ok(StreamReader { files, segments, upcoming, bytes, offset: 0 })
        };
        let streams = of.folders.iter().map(stream).collect::<io::Result<Vec<StreamReader>>>()?;
        let first_of = |stream: &StreamReader| stream.segments.get(stream.upcoming).copied();
        // A stream without a file makes it all `None`.
        let firsts: Option<Vec<Height>> = streams.iter().map(first_of).collect();
        let first = firsts.and_then(|firsts| firsts.into_iter().max());
        Ok(RowReader { scheme: of.scheme, streams, first })
    }

    /// The first block of which every logger may have the rows; `None`: some logger has nothing.
    pub fn first(&self) -> Option<Height> {
        self.first
    }

    /// A block's frames, one of each logger; blocks are asked for in ascending order. Else why it
    /// has none, and then there is no more.
    pub fn next(&mut self, height: Height, block: &Hash) -> Result<Vec<Frame>, String> {
        let (scheme, tag) = (self.scheme, tag_of(block));
        let next = |stream: &mut StreamReader| match stream.next(scheme, height)? {
            frame if frame.block == tag => Ok(frame),
            _ => Err(format!("a row log has the rows of another block {height}")),
        };
        self.streams.iter_mut().map(next).collect()
    }
}

impl StreamReader {
    fn next(&mut self, scheme: Scheme, height: Height) -> Result<Frame, String> {
        loop {
            let current = self.upcoming.checked_sub(1).and_then(|at| self.segments.get(at));
            let until = self.segments.get(self.upcoming).copied().unwrap_or(Height::MAX);
            if current.is_none() || height >= until || self.bytes.is_empty() {
                if self.upcoming == self.segments.len() {
                    return Err(format!("a row log ends before block {height}"));
                }
                self.open_next(scheme)?;
                continue;
            }
            let Some((frame, rest)) = next_frame(&self.bytes[self.offset..]) else {
                let name = segment_name(scheme, current.copied().unwrap_or(0));
                return Err(match self.bytes.len() - self.offset {
                    0 => format!("the row log {name} ends before block {height}"),
                    _ => format!(
                        "the row log {name} cannot be read from byte {} on, for block {height}",
                        self.offset
                    ),
                });
            };
            if frame.height > height {
                return Err(format!("a row log has no rows of block {height}"));
            }
            self.offset = self.bytes.len() - rest.len();
            if frame.height == height {
                return Ok(frame);
            }
        }
    }

    fn open_next(&mut self, scheme: Scheme) -> Result<(), String> {
        let name = segment_name(scheme, self.segments[self.upcoming]);
        let read = self.files.open(&name).and_then(|file| read_all(&*file));
        self.bytes = read.map_err(|error| format!("the row log {name}: {error}"))?;
        self.offset = 0;
        self.upcoming += 1;
        Ok(())
    }
}
