//! Backups: a second data folder, with a list of digests, that grows with the ledger.
//!
//! ```text
//! BACKUP                                    what this folder is; no node serves it
//! UNFINISHED                                while the first run has not ended: no backup yet
//! backup-00000000000000000007.manifest      the seventh backup: every file, its length, its digest
//! orders/  results/  checkpoints/  …         as in a data folder, each file up to its length
//! ```
//!
//! # Idea
//!
//! A ledger's files are immutable but for the ends of the newest segments, which grow. So a backup
//! is a copy of files, and the next one into the same folder a copy of what has come since. It is a
//! state of the ledger at *one block boundary*: the orders up to a height with all their results,
//! and checkpoints that are not above it. The caller names a block whose order is on stable storage
//! and whose result was written ([`Head`]).
//!
//! # Timeline
//!
//! ```text
//! 1  checkpoints, headers, segments: what is not there yet is copied after what is, checked,
//!    synced; nothing that the manifest before lists is changed
//! 2  folders are synced; the new manifest is written, synced; its folder is synced    ── now it is
//! 3  UNFINISHED goes, then older manifests, then files that the new one does not list
//! ```
//!
//! So a crash, a full disk or any other error leaves the backup before as it was: its files may
//! have grown, and the lengths in its manifest say where it ends. The next run goes on. A folder
//! without a whole manifest is a damaged backup, whose blocks are not thrown away where the ledger
//! has pruned them, unless UNFINISHED says that there never was one.
//!
//! # What is trusted
//!
//! Nothing. What is in the backup already is read again and its digest compared; what is damaged is
//! copied again, if the ledger still has it. A segment goes on only where its header (with its
//! random salt) is the ledger's, and the record after its end names its last one's hash: by that
//! hash the records before are the same ones, and the ledger's copy need not be read again. Each
//! record that is copied must have its checksum and follow from the one before; a checkpoint is
//! taken only if all its groups have their hashes, in the copy.
//!
//! # A ledger that changes below
//!
//! Blocks are appended meanwhile: not looked at. Checkpoints are replaced, segments are pruned: a
//! file that has gone is no fault; all is looked at again from the start ([`take`]'s loop), and
//! what was copied counts. Blocks that the ledger has pruned stay in the backup, and a backup that
//! was begun in time has them all.
//!
//! # An archive
//!
//! is a backup of closed segments of orders alone, with their results, made before they are pruned
//! ([`archive`]).
//! `docs/backup-format.md` has every byte.

mod checkpoints;
mod manifest;
mod segments;
mod target;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeSet;
use std::io;

use types::{Error, Height, Result, SqlState};

use crate::files::Files;
use crate::hash::{Hash, to_hex};
use crate::header::{Header, LedgerId, OrderHeader, ResultHeader};
use crate::headers;
use crate::log::{LogError, SegmentRecords, first_record, list_segments, read_record};
use crate::segment::segment_path;
use crate::stream::Stream;

pub use manifest::{Entry, LastBlock, Manifest, reseal};
pub use view::{BackupFiles, JoinedFiles, is_backup, newest};

use target::Target;

/// The block that a backup ends with. Its order must be on stable storage, its result written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    pub height: Height,
    /// The result hash.
    pub hash: Hash,
    pub order_hash: Hash,
}

impl Head {
    fn of(&self, stream: Stream) -> Hash {
        match stream {
            Stream::Orders => self.order_hash,
            Stream::Results => self.hash,
        }
    }
}

/// How far a backup has come, or what it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// That were read and compared, since they were there already.
    pub bytes_checked: u64,
    pub bytes_copied: u64,
    /// About what there will be of both.
    pub bytes_total: u64,
    /// Files that were damaged and are copied again.
    pub files_repaired: u64,
    /// How often the ledger changed so much that all was looked at again.
    pub begun_again: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub head: Head,
    /// The oldest block that it has.
    pub first_block: Height,
    /// Heights of its checkpoints, ascending.
    pub checkpoints: Vec<Height>,
    /// Files of the manifest, and their bytes.
    pub files: u64,
    pub bytes: u64,
    pub extent: Extent,
}

/// Called now and then; ends the work by an error.
pub type Report<'a> = &'a mut dyn FnMut(&Extent) -> Result<()>;

/// What is to be copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Ledger,
    ClosedSegments,
}

/// Why a copy ends early.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A file of the ledger went from under the copy.
    Gone(io::Error),
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

/// An error of the ledger's files.
fn of_source(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::Gone(error),
        _ => Fault::Error(Error::new(SqlState::IO_ERROR, format!("the ledger: {error}"))),
    }
}

fn of_source_log(error: LogError) -> Fault {
    match error {
        LogError::Io(error) => of_source(error),
        error => Fault::Error(error.into()),
    }
}

/// How often a ledger may change below before it is given up.
const ATTEMPTS_MAX: u64 = 100;

/// Copies the ledger in `source` up to a block that `head` names, each time it is asked, into
/// `target`: an empty folder, or an earlier backup of the same ledger.
pub fn take(
    source: &dyn Files,
    target: &dyn Files,
    head: &mut dyn FnMut() -> Result<Head>,
    report: Report<'_>,
) -> Result<Taken> {
    copy(source, target, Scope::Ledger, head, report)
}

/// Copies the segments of orders whose last block is not above `last`, which is the last one of
/// some segment, with the results of those blocks, into `target`: an empty folder, or an earlier
/// archive of the same ledger. Returns when they were read back; those that are in the archive
/// alone are not read.
pub fn archive(
    source: &dyn Files,
    target: &dyn Files,
    last: Height,
    report: Report<'_>,
) -> Result<Taken> {
    let ends_segment = list_segments(source, Stream::Orders)?.contains(&(last + 1));
    let hash = |stream| read_record(source, stream, last).map(|found| found.map(|r| r.hash()));
    let hashes = (hash(Stream::Orders)?, hash(Stream::Results)?);
    let (true, (Some(order_hash), Some(hash))) = (ends_segment, hashes) else {
        let what = format!("block {last} is not the last one of a closed segment with results");
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
    };
    let head = Head { height: last, hash, order_hash };
    let taken = copy(source, target, Scope::ClosedSegments, &mut || Ok(head), report)?;
    let manifest = newest(target)?.manifest;
    check_coherence(&manifest)?;
    for stream in Stream::ALL {
        let first = first_record(source, stream)?;
        for entry in manifest.segments_of(stream).filter(|entry| entry.first_height() >= first) {
            view::check_entry(target, entry, &mut |_| report(&taken.extent))?;
        }
    }
    Ok(taken)
}

fn copy(
    source: &dyn Files,
    target: &dyn Files,
    scope: Scope,
    head: &mut dyn FnMut() -> Result<Head>,
    report: Report<'_>,
) -> Result<Taken> {
    let mut target = Target::open(target, report)?;
    loop {
        let head = head()?;
        let attempt = Attempt { source, scope, head }.run(&mut target);
        match attempt {
            Ok(manifest) => return target.finish(manifest),
            Err(Fault::Gone(_)) if target.extent.begun_again < ATTEMPTS_MAX => {
                target.extent.begun_again += 1;
            }
            Err(fault) => return Err(give_up(fault)),
        }
    }
}

fn give_up(fault: Fault) -> Error {
    match fault {
        Fault::Error(error) => error,
        Fault::Gone(error) => {
            let what = "files of the ledger are missing";
            Error::new(SqlState::IO_ERROR, what)
                .with_detail(error.to_string())
                .with_hint("Find out what removes them, or restore the ledger from a backup.")
        }
    }
}

/// One look at the ledger.
struct Attempt<'a> {
    source: &'a dyn Files,
    scope: Scope,
    head: Head,
}

impl Attempt<'_> {
    fn run(&self, target: &mut Target<'_>) -> Result<Manifest, Fault> {
        let orders = self.heights(Stream::Orders)?;
        let results = self.heights(Stream::Results)?;
        let (Some(&first), Some(&first_result)) = (orders.first(), results.first()) else {
            let what = format!("the ledger has no block {} with its result", self.head.height);
            return Err(Error::new(SqlState::DATA_CORRUPTED, what).into());
        };
        let ledger_id = self.ledger_id(first)?;
        target.admit(ledger_id, self.head, first)?;
        let there = target.previous().map_or(0, |previous| previous.head.height);
        if self.scope == Scope::Ledger && there > self.head.height {
            return Err(target::another_past(there).into());
        }
        self.estimate(target, [(Stream::Orders, &orders), (Stream::Results, &results)])?;
        let kept_orders = self.kept(target, Stream::Orders, first)?;
        let kept_results = self.kept(target, Stream::Results, first_result)?;
        let first_of = |kept: &[Entry], first| kept.first().map_or(first, Entry::first_height);
        let first_block = first_of(&kept_orders, first);
        let first_result = first_of(&kept_results, first_result);
        let mut entries = Vec::new();
        // Checkpoints first: they are what goes first.
        let mut checkpoints = 0;
        if self.scope == Scope::Ledger {
            checkpoints = self.checkpoints(target, first_block, &mut entries)?;
        }
        self.headers::<OrderHeader>(target, first_block, &mut entries)?;
        self.headers::<ResultHeader>(target, first_result, &mut entries)?;
        if self.scope == Scope::ClosedSegments {
            // An archive may be made in a folder of backups.
            target.carry_others(&mut entries);
        }
        entries.extend(self.segments(target, Stream::Orders, &orders, kept_orders)?);
        entries.extend(self.segments(target, Stream::Results, &results, kept_results)?);
        let head = self.carry_later(target, &mut entries)?;
        if first_block > 0 && checkpoints == 0 && self.scope == Scope::Ledger {
            let what = "the ledger is pruned and has no checkpoint that holds";
            return Err(Error::new(SqlState::DATA_CORRUPTED, what).into());
        }
        entries.sort_unstable_by(|one: &Entry, other| one.path.cmp(&other.path));
        Ok(Manifest { number: 0, ledger_id, head, entries })
    }

    /// Where the segments of a stream begin that are to be copied.
    fn heights(&self, stream: Stream) -> Result<Vec<Height>, Fault> {
        let mut heights = list_segments(self.source, stream).map_err(of_source_log)?;
        heights.retain(|first| *first <= self.head.height);
        Ok(heights)
    }

    /// Segments of the backup before that the ledger has pruned.
    fn kept(
        &self,
        target: &mut Target<'_>,
        stream: Stream,
        first: Height,
    ) -> Result<Vec<Entry>, Fault> {
        target.carried_segments(self.scope, stream, &|entry| entry.first_height() < first)
    }

    /// Adds what the backup before has after the head; returns the head then.
    fn carry_later(
        &self,
        target: &mut Target<'_>,
        entries: &mut Vec<Entry>,
    ) -> Result<Head, Fault> {
        let previous = target.previous().map(|previous| previous.head);
        let Some(later) = previous.filter(|previous| previous.height > self.head.height) else {
            return Ok(self.head);
        };
        for stream in Stream::ALL {
            let is_later = |entry: &Entry| entry.first_height() > self.head.height;
            entries.extend(target.carried_segments(self.scope, stream, &is_later)?);
        }
        Ok(later)
    }

    fn ledger_id(&self, first: Height) -> Result<LedgerId, Fault> {
        let stream = Stream::Orders;
        let file = self.source.open(&segment_path(stream, first)).map_err(of_source)?;
        let records = SegmentRecords::open(&*file, stream, first).map_err(of_source_log)?;
        Ok(records.header.ledger_id)
    }

    /// What the copy will read.
    fn estimate(
        &self,
        target: &mut Target<'_>,
        segments: [(Stream, &[Height]); 2],
    ) -> Result<(), Fault> {
        let mut total = 0;
        for (stream, first) in
            segments.iter().flat_map(|(stream, heights)| heights.iter().map(|h| (*stream, *h)))
        {
            total += size_of(self.source, &segment_path(stream, first))?;
        }
        target.extent.bytes_total = total;
        Ok(())
    }

    /// The headers of the records below `first`, which must lead there.
    fn headers<H: Header>(
        &self,
        target: &mut Target<'_>,
        first: Height,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Fault> {
        if first == 0 {
            return Ok(());
        }
        if let Some(previous_hash) = previous_of(self.source, H::STREAM, first)? {
            headers::check_chain::<H>(self.source, first, &previous_hash)?;
        }
        let pieces = headers::pieces(self.source, H::STREAM).map_err(of_source)?;
        for piece in pieces.into_iter().filter(|piece| *piece < first) {
            entries.push(target.copy_file(self.source, &headers::piece_path(H::STREAM, piece))?);
        }
        Ok(())
    }
}

/// The hash of the record before the one at `height`, as that one tells, if it begins a segment.
fn previous_of(source: &dyn Files, stream: Stream, height: Height) -> Result<Option<Hash>, Fault> {
    let segments = list_segments(source, stream).map_err(of_source_log)?;
    if segments.binary_search(&height).is_err() {
        return Ok(None);
    }
    let file = source.open(&segment_path(stream, height)).map_err(of_source)?;
    let mut records = SegmentRecords::open(&*file, stream, height).map_err(of_source_log)?;
    let framed = records.next().map_err(of_source_log)?;
    Ok(framed.map(|framed| framed.record.previous_hash()))
}

fn size_of(files: &dyn Files, path: &str) -> Result<u64, Fault> {
    files.open(path).and_then(|file| file.size()).map_err(of_source)
}

/// What `verify` read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    pub manifest: Manifest,
    pub bytes: u64,
    /// Newer manifests that are not whole: what an interrupted run may leave.
    pub unfinished: Vec<String>,
}

/// Compares the digest of every file of the newest backup in a folder.
pub fn verify(files: &dyn Files, report: Report<'_>) -> Result<Verified> {
    let found = newest(files)?;
    let mut extent = Extent { bytes_total: found.manifest.bytes(), ..Extent::default() };
    for entry in &found.manifest.entries {
        view::check_entry(files, entry, &mut |bytes| {
            extent.bytes_checked += bytes;
            report(&extent)
        })?;
    }
    check_coherence(&found.manifest)?;
    Ok(Verified {
        bytes: found.manifest.bytes(),
        manifest: found.manifest,
        unfinished: found.unfinished,
    })
}

/// The files of a manifest fit each other: segments of both streams without a gap up to the head,
/// and a result for each order.
fn check_coherence(manifest: &Manifest) -> Result<()> {
    let damaged = |what: String| Error::new(SqlState::DATA_CORRUPTED, what);
    for stream in Stream::ALL {
        let mut next: Option<Height> = None;
        let mut last = None;
        for entry in manifest.segments_of(stream) {
            if next.is_some_and(|next| next != entry.first_height()) {
                return Err(damaged(format!("the backup has a gap before {}", entry.path)));
            }
            last = entry.last_block;
            next = last.map(|last| last.height + 1);
        }
        let (height, hash) = (manifest.head.height, manifest.head.of(stream));
        if last != Some(LastBlock { height, hash }) {
            let hash = to_hex(&hash);
            let what = format!("the backup's {stream} do not end with block {height}, {hash}");
            return Err(damaged(what));
        }
    }
    let first = |stream| manifest.segments_of(stream).next().map_or(0, Entry::first_height);
    match first(Stream::Results) <= first(Stream::Orders) {
        true => Ok(()),
        false => Err(damaged("the backup has orders without results".to_owned())),
    }
}

/// Paths that some entries name.
fn paths(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}
