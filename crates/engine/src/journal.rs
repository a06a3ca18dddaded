//! Where a block goes: its order before its results are released, its result afterwards.
//!
//! | Scheme | Before a result is released | A crash loses |
//! |---|---|---|
//! | command | its block's order is in the ledger | nothing |
//! | logical, physical | and its rows are with every row logger | nothing |
//! | none | nothing | what came after the last checkpoint |
//!
//! The order is the truth under each of them: a result can be computed again, so it is written
//! without waiting for the disk, and synced when a checkpoint is taken and at a clean stop. Only
//! where a block's rows stand in its result ([`crate::images`]) that is durable first, before the
//! order.
//!
//! Row logs spare a start the execution of blocks; the ledger and the loggers write at the same
//! time, so the slowest of them decides how long a block takes.
//!
//! *None.* Blocks are held in memory and written when a checkpoint is about to be taken, when the
//! engine stops or halts, and when they take too much memory: before the checkpoint itself, so that
//! the ledger has no gap, each row of the checkpoint has its block, and receipts, verification and
//! restore know no difference. What a crash leaves is the ledger as it was at some moment, as
//! with a disk that lies about syncs, but not beyond what checkpoints say.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::files::sqlstate_of;
use ledger::{BlockResult, BlockWriter, Hash, LogWriter, Record};
use recovery::schemes::beside::RowLoggers;
use types::{Error, Height, Result};

use crate::replica::Executed;

/// Bytes of blocks that are held in memory at most, between checkpoints.
const HELD_BYTES_MAX: usize = 1 << 30;

/// What the sequencer writes to.
pub struct Journal {
    ledger: Arc<LedgerEnd>,
    rows: Option<RowLoggers>,
    /// The checkpoint up to which row logs have been cut off.
    cut: Option<Height>,
}

impl From<BlockWriter> for Journal {
    fn from(log: BlockWriter) -> Journal {
        Journal::new(log, false)
    }
}

impl Journal {
    /// Blocks are held back until [`LedgerEnd::write_held`].
    pub fn held_back(log: BlockWriter) -> Journal {
        Journal::new(log, true)
    }

    pub fn with_rows(log: BlockWriter, rows: RowLoggers) -> Journal {
        Journal { rows: Some(rows), ..Journal::new(log, false) }
    }

    fn new(log: BlockWriter, holds: bool) -> Journal {
        let durable_below = AtomicU64::new(log.durable_below());
        let written = Mutex::new(newest_of(&log.results));
        let BlockWriter { orders, results } = log;
        let ledger = LedgerEnd {
            orders: Mutex::new(orders),
            results: Mutex::new(results),
            held: Mutex::default(),
            holds,
            durable_below,
            written,
            on_failure: OnceLock::new(),
        };
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

    pub fn ledger(&self) -> &Arc<LedgerEnd> {
        &self.ledger
    }

    /// Whether the rows of a block are written together with its order, so behind its execution.
    pub fn logs_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Returns when the order is on stable storage.
    pub fn append_order(&mut self, order: Record) -> Result<()> {
        self.ledger.append_order(order).map_err(cannot_write)
    }

    /// The order of a block that has run, with what must be durable beside it.
    pub fn append_run(&mut self, executed: &Executed) -> Result<()> {
        if executed.holds_images {
            let record = executed.result.encode()?;
            self.ledger.append_result(record, true).map_err(cannot_write)?;
        }
        let order = executed.batch.encode()?;
        // Schema changes are executed again whatever is logged.
        let changes = executed.effects.only_rows();
        let Some((rows, changes)) = self.rows.as_mut().zip(changes) else {
            return self.ledger.append_order(order).map_err(cannot_write);
        };
        rows.begin(&order.hash(), changes).map_err(cannot_log_rows)?;
        let appended = self.ledger.append_order(order).map_err(cannot_write);
        // All loggers are waited for, whatever became of the block.
        let logged = rows.wait().map_err(cannot_log_rows);
        appended.and(logged)
    }

    /// Without waiting for stable storage.
    pub fn append_result(&mut self, result: &BlockResult) -> Result<()> {
        self.ledger.append_result(result.encode()?, false).map_err(cannot_write)
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

/// The end of the ledger: the logs, and blocks that are not in them yet.
pub struct LedgerEnd {
    orders: Mutex<LogWriter>,
    results: Mutex<LogWriter>,
    held: Mutex<Held>,
    holds: bool,
    /// That of the orders, for readers that must not wait for the log.
    durable_below: AtomicU64,
    /// The newest block whose order and result the files hold.
    written: Mutex<Option<(Height, Hash)>>,
    on_failure: OnceLock<OnFailure>,
}

fn newest_of(results: &LogWriter) -> Option<(Height, Hash)> {
    Some((results.next_height().checked_sub(1)?, results.head_hash()))
}

#[derive(Default)]
struct Held {
    orders: Vec<Record>,
    results: Vec<Record>,
    bytes: usize,
    /// Blocks could not be written.
    failed: Option<(io::ErrorKind, String)>,
}

impl Held {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }
}

impl LedgerEnd {
    fn append_order(&self, order: Record) -> io::Result<()> {
        if !self.holds {
            let mut log = lock(&self.orders);
            log.append(&[order])?;
            self.durable_below.store(log.durable_below(), Ordering::Release);
            return Ok(());
        }
        let mut held = lock(&self.held);
        held.check()?;
        held.bytes += order.payload().len();
        held.orders.push(order);
        Ok(())
    }

    fn append_result(&self, result: Record, sync: bool) -> io::Result<()> {
        if !self.holds {
            let mut log = lock(&self.results);
            // It may have been written before its order.
            if log.next_height() <= result.height() {
                log.append_unsynced(&[result])?;
            }
            match sync {
                true => log.sync()?,
                // A block whose order is not there yet is not written.
                false => *lock(&self.written) = newest_of(&log),
            }
            return Ok(());
        }
        let mut held = lock(&self.held);
        held.check()?;
        if held.results.last().is_some_and(|last| last.height() >= result.height()) {
            return Ok(());
        }
        held.bytes += result.payload().len();
        held.results.push(result);
        // The order of a block that is under way may be there, and is written too.
        let is_full = held.bytes > HELD_BYTES_MAX && held.results.len() <= held.orders.len();
        drop(held);
        if is_full { self.write_held().map(drop) } else { Ok(()) }
    }

    /// The newest block that the ledger's files hold.
    pub fn written(&self) -> Option<(Height, Hash)> {
        *lock(&self.written)
    }

    /// Who is told when blocks that were held back cannot be written.
    pub(crate) fn on_failure(&self, tell: OnFailure) {
        let _ = self.on_failure.set(tell);
    }

    /// The orders of all blocks below are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.durable_below.load(Ordering::Acquire)
    }

    /// At a clean stop: everything is on stable storage, if blocks are synced at all.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.write_held().map(drop)
    }

    /// Writes the blocks that are held back, if any are, and syncs results; the sequencer may go on
    /// meanwhile. Returns the height below which all blocks are on stable storage.
    pub fn write_held(&self) -> io::Result<Height> {
        let written = self.try_write_held();
        if let (Err(error), Some(tell)) = (&written, self.on_failure.get()) {
            tell(cannot_write(io::Error::new(error.kind(), error.to_string())));
        }
        written
    }

    fn try_write_held(&self) -> io::Result<Height> {
        let mut orders = lock(&self.orders);
        let mut results = lock(&self.results);
        let (held_orders, held_results) = {
            let mut held = lock(&self.held);
            held.bytes = 0;
            (std::mem::take(&mut held.orders), std::mem::take(&mut held.results))
        };
        let written = match self.holds {
            true => orders
                .append_and_sync(&held_orders)
                .and_then(|()| results.append_and_sync(&held_results)),
            false => results.sync(),
        };
        if let Err(error) = written {
            lock(&self.held).failed = Some((error.kind(), error.to_string()));
            return Err(error);
        }
        self.durable_below.store(orders.durable_below(), Ordering::Release);
        *lock(&self.written) = newest_of(&results);
        Ok(orders.durable_below())
    }
}

/// A thread that syncs orders while their blocks are executed.
pub(crate) struct OrderLog {
    to: Option<Sender<(Height, Record)>>,
    done: Receiver<Appended>,
    under_way: usize,
    thread: Option<JoinHandle<()>>,
}

/// The height of a durable order, and how long that took.
type Appended = io::Result<(Height, Duration)>;

impl OrderLog {
    /// `appended`: told that an order is durable, or is not to be.
    pub fn start(
        ledger: Arc<LedgerEnd>,
        appended: impl Fn() + Send + 'static,
    ) -> io::Result<OrderLog> {
        let (to, orders) = channel::<(Height, Record)>();
        let (report, done) = channel();
        let append = move || {
            for (height, order) in orders {
                let began = Instant::now();
                let done = ledger.append_order(order).map(|()| (height, began.elapsed()));
                if report.send(done).is_err() {
                    return;
                }
                appended();
            }
        };
        let thread = std::thread::Builder::new().name("order-log".into()).spawn(append)?;
        Ok(OrderLog { to: Some(to), done, under_way: 0, thread: Some(thread) })
    }

    pub fn append(&mut self, height: Height, order: Record) {
        if let Some(to) = &self.to
            && to.send((height, order)).is_ok()
        {
            self.under_way += 1;
        }
    }

    /// An order that has become durable since, if one has.
    pub fn poll(&mut self) -> Option<Appended> {
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Waits for an order that is under way; `None`: there is none.
    pub fn wait(&mut self) -> Option<Appended> {
        self.under_way = self.under_way.checked_sub(1)?;
        let ended = || io::Error::other("the order log's thread has ended");
        Some(self.done.recv().unwrap_or_else(|_| Err(ended())))
    }
}

impl Drop for OrderLog {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
