//! The two append-only logs of a ledger, orders and results, as one log of blocks:
//! [`BlockReader`] reads it from the first block to its end, [`BlockWriter`] goes on where a reader
//! stopped.
//!
//! ```text
//! BlockReader::open ──► next … ──► clean end ─────────────────┐
//!   orders  0 1 2 3 4      │                                  ├─► BlockWriter::resume ──► append
//!   results 0 1 2          ├──► LogError::TornTail  (cut) ────┘
//!                          └──► LogError::Damage    (no way on)
//! ```
//!
//! **Orders are what is durable.** Results can be computed again from them, so they are appended
//! without waiting for the disk, and may end before the orders do, cleanly or torn: what is missing
//! is executed again, and nothing is lost. They never count beyond the orders: a result whose order
//! a crash has taken is a torn tail of the results. Each stream by itself is a log, read by
//! [`LogReader`] and written by [`LogWriter`].
//!
//! **Reading changes nothing.** Only `resume` writes: it copies the bytes of a torn tail into
//! `quarantine/`, syncs the copy, and only then cuts them from the segment.
//!
//! **Writing.** A group of records costs one write and, of orders, one fdatasync. The writer syncs
//! a full segment before it creates the next one, and the next one (with its folder entry) before
//! it writes a record to it; so only the newest segment can be torn. After an error of a write or a
//! sync it is not known what is on disk (the kernel may have dropped the dirty pages), so the
//! writer refuses everything from then on; a new reader finds out what is there.
//!
//! **Taking back.** Where several nodes agree on the order, the newest records of a node may turn
//! out not to count: [`LogWriter::cut`] removes them.
//!
//! **What a reader accepts.** Segments without gaps, overlaps or strangers; records without gaps,
//! in order, of one ledger; results of the orders that they stand beside; nothing but zeros at the
//! end. Links and roots are for [`crate::chain::ChainVerifier`]. Where blocks were pruned the first
//! segment is not that of genesis, and the headers that [`crate::headers`] keeps must lead up to
//! it.

mod blocks;
mod cut;
mod lookup;
mod reader;
mod records;
mod writer;

use std::fmt;
use std::io;

use types::{Error, Height, SqlState};

use crate::files::sqlstate_of;
use crate::stream::Stream;

pub use blocks::{BlockReader, BlockWriter, Pruned, Recorded, first_block, read_block};
pub use lookup::{Lookup, read_record};
pub(crate) use reader::list_segments;
pub use reader::{LogReader, first_record};
pub(crate) use records::{Place, SegmentRecords};
pub use writer::{LogOptions, LogWriter, QUARANTINE_FOLDER};

/// A log ends with bytes that are no record: a crash tore the last write, or the last record was
/// damaged later. Nothing after it proves which.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    pub stream: Stream,
    /// The first block whose record is lost.
    pub height: Height,
    pub file: String,
    pub offset: u64,
    /// From the offset to the last byte that is not zero.
    pub cut_bytes: u64,
    pub what: String,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { stream, height, file, offset, cut_bytes, what } = self;
        let place = format!("{file}, offset {offset}, {cut_bytes} bytes");
        match stream {
            Stream::Orders => {
                write!(f, "torn or damaged tail at block {height} ({place}): {what}")
            }
            Stream::Results => write!(
                f,
                "results end before block {height} ({place}): {what}; nothing is lost, they are \
                 computed again"
            ),
        }
    }
}

/// Something that no crash leaves behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub height: Height,
    pub file: String,
    pub offset: u64,
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { height, file, offset, what } = self;
        write!(f, "damage at block {height} ({file}, offset {offset}): {what}")
    }
}

/// Why a reader stopped before a clean end.
#[derive(Debug)]
pub enum LogError {
    Io(io::Error),
    TornTail(TornTail),
    Damage(Damage),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io(error) => error.fmt(f),
            LogError::TornTail(tail) => tail.fmt(f),
            LogError::Damage(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        LogError::Io(error)
    }
}

/// An error of the disk stays what it is.
impl From<LogError> for io::Error {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Io(error) => error,
            other => io::Error::other(other),
        }
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        let code = match &error {
            LogError::Io(error) => sqlstate_of(error),
            LogError::TornTail(_) | LogError::Damage(_) => SqlState::DATA_CORRUPTED,
        };
        Error::new(code, "the ledger cannot be read").with_detail(error.to_string())
    }
}

#[cfg(test)]
mod tests;
