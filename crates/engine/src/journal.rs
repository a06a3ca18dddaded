//! Where a block goes before its results are released.
//!
//! | Scheme | Before a result is released | A crash loses |
//! |---|---|---|
//! | command | its block is in the ledger | nothing |
//! | logical, physical | and its rows are with every row logger | nothing |
//! | none | nothing | what came after the last checkpoint |
//!
//! The ledger is the truth under each of them. Row logs only spare a start the execution of
//! blocks; the ledger and the loggers write at the same time, so the slowest of them decides how
//! long a block takes.
//!
//! *None.* Blocks are held in memory and written when a checkpoint is about to be taken, when the
//! engine stops or halts, and when they take too much memory: before the checkpoint itself, so that
//! the ledger has no gap, each row of the checkpoint has its block, and receipts, verification and
//! restore know no difference. What a crash leaves is the ledger as it was at some moment, as
//! with a disk that lies about syncs, but not beyond what checkpoints say.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use ledger::files::sqlstate_of;
use ledger::{EncodedBlock, Hash, LogWriter};
use recovery::schemes::beside::RowLoggers;
use types::{Error, Height, Result};

use crate::effects::Effects;

/// Bytes of blocks that are held in memory at most, between checkpoints.
const HELD_BYTES_MAX: usize = 1 << 30;

/// What the sequencer writes to.
pub struct Journal {
    ledger: Arc<LedgerEnd>,
    rows: Option<RowLoggers>,
    /// The checkpoint up to which row logs have been cut off.
    cut: Option<Height>,
}

impl From<LogWriter> for Journal {
    fn from(log: LogWriter) -> Journal {
        Journal::new(log, false)
    }
}

impl Journal {
    /// Blocks are held back until [`LedgerEnd::write_held`].
    pub fn held_back(log: LogWriter) -> Journal {
        Journal::new(log, true)
    }

    pub fn with_rows(log: LogWriter, rows: RowLoggers) -> Journal {
        Journal { rows: Some(rows), ..Journal::new(log, false) }
    }

    fn new(log: LogWriter, holds: bool) -> Journal {
        let durable_below = AtomicU64::new(log.durable_below());
        let written = Mutex::new(newest_of(&log));
        let (log, held, on_failure) = (Mutex::new(log), Mutex::default(), OnceLock::new());
        let ledger = LedgerEnd { log, held, holds, durable_below, written, on_failure };
        Journal { ledger: Arc::new(ledger), rows: None, cut: None }
    }

    /// As the setting spells it.
    pub fn scheme(&self) -> &'static str {
        match &self.rows {
            Some(rows) => rows.scheme().name(),
            None if self.ledger.holds => "none",
            None => "command",
        }
    }

    pub(crate) fn ledger(&self) -> &Arc<LedgerEnd> {
        &self.ledger
    }

    /// Returns when the block's results may be released.
    pub(crate) fn append(&mut self, block: EncodedBlock, effects: &Effects) -> Result<()> {
        let rows = match effects {
            Effects::Rows(changes) => self.rows.as_mut().map(|rows| (rows, changes)),
            // Schema changes are executed again whatever is logged.
            Effects::Objects(_) => None,
        };
        let Some((rows, changes)) = rows else {
            return self.ledger.append(block).map_err(cannot_write);
        };
        rows.begin(&block.hash(), changes).map_err(cannot_log_rows)?;
        let appended = self.ledger.append(block).map_err(cannot_write);
        // All loggers are waited for, whatever became of the block.
        let logged = rows.wait().map_err(cannot_log_rows);
        appended.and(logged)
    }

    /// The newest checkpoint: files of row logs without later blocks go, and what follows goes to
    /// new files, so that the next checkpoint can do the same. Two intervals of rows stay at most.
    pub(crate) fn checkpoint_at(&mut self, height: Option<Height>) {
        if let (Some(rows), Some(height)) = (&self.rows, height)
            && self.cut < Some(height)
        {
            rows.begin_segments();
            rows.cut(height);
            self.cut = Some(height);
        }
    }
}

/// A write or a sync of the ledger has failed.
pub(crate) fn cannot_write(error: io::Error) -> Error {
    failed("the ledger cannot be written", &error)
}

fn cannot_log_rows(error: io::Error) -> Error {
    failed("the row log cannot be written", &error)
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(sqlstate_of(error), what)
        .with_detail(error.to_string())
        .with_hint("Whether the transaction is in the ledger is known after a restart.")
}

/// Told why the ledger cannot be written.
type OnFailure = Box<dyn Fn(Error) + Send + Sync>;

/// The end of the ledger: the log, and blocks that are not in it yet.
pub struct LedgerEnd {
    log: Mutex<LogWriter>,
    held: Mutex<Held>,
    holds: bool,
    /// That of the log, for who must not wait for it.
    durable_below: AtomicU64,
    /// The newest block that the files hold for certain.
    written: Mutex<Option<(Height, Hash)>>,
    on_failure: OnceLock<OnFailure>,
}

fn newest_of(log: &LogWriter) -> Option<(Height, Hash)> {
    Some((log.next_height().checked_sub(1)?, log.head_hash()))
}

#[derive(Default)]
struct Held {
    blocks: Vec<EncodedBlock>,
    bytes: usize,
    /// Blocks could not be written.
    failed: Option<(io::ErrorKind, String)>,
}

impl LedgerEnd {
    fn append(&self, block: EncodedBlock) -> io::Result<()> {
        if !self.holds {
            let mut log = lock(&self.log);
            let appended = log.append(&[block]);
            // A block whose sync failed may be in the files or not.
            if appended.is_ok() {
                self.note(&log);
            }
            return appended;
        }
        let mut held = lock(&self.held);
        if let Some((kind, why)) = &held.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        held.bytes += block.payload().len();
        held.blocks.push(block);
        let is_full = held.bytes > HELD_BYTES_MAX;
        drop(held);
        if is_full { self.write_held().map(drop) } else { Ok(()) }
    }

    fn note(&self, log: &LogWriter) {
        *lock(&self.written) = newest_of(log);
        self.durable_below.store(log.durable_below(), Ordering::Release);
    }

    /// The newest block that was written to the ledger's files, and synced if blocks are.
    pub fn written(&self) -> Option<(Height, Hash)> {
        *lock(&self.written)
    }

    /// Who is told when blocks that were held back cannot be written.
    pub(crate) fn on_failure(&self, tell: OnFailure) {
        let _ = self.on_failure.set(tell);
    }

    /// All blocks below are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.durable_below.load(Ordering::Acquire)
    }

    /// Writes the blocks that are held back, if any are; the sequencer may go on meanwhile. Returns
    /// the height below which all blocks are on stable storage.
    pub fn write_held(&self) -> io::Result<Height> {
        let written = self.try_write_held();
        if let (Err(error), Some(tell)) = (&written, self.on_failure.get()) {
            tell(cannot_write(io::Error::new(error.kind(), error.to_string())));
        }
        written
    }

    fn try_write_held(&self) -> io::Result<Height> {
        let mut log = lock(&self.log);
        if self.holds {
            let blocks = {
                let mut held = lock(&self.held);
                held.bytes = 0;
                std::mem::take(&mut held.blocks)
            };
            let written = log.append_and_sync(&blocks);
            if let Err(error) = written {
                lock(&self.held).failed = Some((error.kind(), error.to_string()));
                return Err(error);
            }
        }
        self.note(&log);
        Ok(log.durable_below())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
