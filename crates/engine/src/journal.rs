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
//! engine stops, and when they take too much memory: before the checkpoint itself, so that the
//! ledger has no gap, each row of the checkpoint has its block, and receipts, verification and
//! restore know no difference. What a crash leaves is the ledger as it was at some moment, as
//! with a disk that lies about syncs, but not beyond what checkpoints say.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ledger::{EncodedBlock, LogWriter};
use recovery::schemes::beside::RowLoggers;
use types::Height;

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
        let (log, held) = (Mutex::new(log), Mutex::default());
        let ledger = LedgerEnd { log, held, holds, durable_below };
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
    pub(crate) fn append(&mut self, block: EncodedBlock, effects: &Effects) -> io::Result<()> {
        let rows = match effects {
            Effects::Rows(changes) => self.rows.as_mut().map(|rows| (rows, changes)),
            // Schema changes are executed again whatever is logged.
            Effects::Objects(_) => None,
        };
        let Some((rows, changes)) = rows else {
            return self.ledger.append(block);
        };
        rows.begin(&block.hash(), changes)?;
        let appended = self.ledger.append(block);
        rows.wait().and(appended)
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

/// The end of the ledger: the log, and blocks that are not in it yet.
pub struct LedgerEnd {
    log: Mutex<LogWriter>,
    held: Mutex<Held>,
    holds: bool,
    /// That of the log, for who must not wait for it.
    durable_below: AtomicU64,
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
            self.durable_below.store(log.durable_below(), Ordering::Release);
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

    /// All blocks below are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.durable_below.load(Ordering::Acquire)
    }

    /// Writes the blocks that are held back, if any are; the sequencer may go on meanwhile. Returns
    /// the height below which all blocks are on stable storage.
    pub fn write_held(&self) -> io::Result<Height> {
        let mut log = lock(&self.log);
        if self.holds {
            let blocks = {
                let mut held = lock(&self.held);
                held.bytes = 0;
                std::mem::take(&mut held.blocks)
            };
            let written = log.append(&blocks).and_then(|()| log.sync());
            if let Err(error) = written {
                lock(&self.held).failed = Some((error.kind(), error.to_string()));
                return Err(error);
            }
        }
        self.durable_below.store(log.durable_below(), Ordering::Release);
        Ok(log.durable_below())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
