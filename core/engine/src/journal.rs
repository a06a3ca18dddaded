//! Where a block goes: its order before its results are released, its result afterwards.
//!
//! | Scheme | Before a result is released | A crash loses |
//! |---|---|---|
//! | command | its block's order is in the ledger | nothing |
//! | logical, physical | and its rows are with every row logger | nothing |
//! | none | nothing | what came after the last checkpoint |
//!
//! The order is the truth under each of them: a result can be computed again, so results are
//! gathered in memory and written many at a time, without waiting for the disk; they are synced
//! when a checkpoint is taken and at a clean stop. A reader of the files that must find every
//! block, as a backup, has them written first ([`LedgerEnd::written`]). Only where a block's rows
//! stand in its result ([`replica::images`]) that is durable first, before the order. When nothing
//! comes for a [moment](crate::rest), and at a clean stop, results are written, both logs marked.
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kit::sync::lock;
use ledger::files::{FirstFailure, is_full, sqlstate_of};
use ledger::{BlockResult, BlockWriter, Hash, LogWriter, Record};
use recovery::schemes::row_logs::RowLoggers;
use types::{Error, Height, Result};

use crate::client::Executed;
use crate::rest::Arrivals;

/// Bytes of blocks that are held in memory at most, between checkpoints.
const HELD_BYTES_MAX: usize = 1 << 30;

/// Bytes of results that are gathered before they are written: one write for some hundred blocks of
/// few transactions, where one for each took a tenth of the processor time of a small block.
const GATHERED_BYTES_MAX: usize = 256 << 10;

/// Results that are gathered while the disk is full, and how often room is looked for then.
const FULL_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(GATHERED_BYTES_MAX < FULL_BYTES_MAX, "on a full disk more is gathered");
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);

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

    /// The orderer writes the orders, all of which are durable below a height.
    pub fn of_results(results: LogWriter, durable_below: Height) -> Journal {
        Journal::of(None, results, durable_below, false)
    }

    pub fn with_rows(log: BlockWriter, rows: RowLoggers) -> Journal {
        Journal { rows: Some(rows), ..Journal::new(log, false) }
    }

    fn new(log: BlockWriter, holds: bool) -> Journal {
        let durable_below = log.durable_below();
        let BlockWriter { orders, results } = log;
        Journal::of(Some(orders), results, durable_below, holds)
    }

    fn of(
        orders: Option<LogWriter>,
        results: LogWriter,
        durable_below: Height,
        holds: bool,
    ) -> Journal {
        let durable_below = AtomicU64::new(durable_below);
        let ledger = LedgerEnd {
            orders: orders.map(Mutex::new),
            waiting: Mutex::new(Waiting::behind(&results)),
            results: Mutex::new(results),
            holds,
            durable_below,
            on_failure: OnceLock::new(),
            arrivals: Arc::default(),
            patient: AtomicBool::new(false),
            full: Mutex::default(),
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

    /// Whether the rows of a block are written together with its order, so after its execution.
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
            self.ledger.append_result_first(record).map_err(cannot_write)?;
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
        self.ledger.append_result(result.encode()?).map_err(cannot_write)
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
    /// `None`: its orderer writes them.
    orders: Option<Mutex<LogWriter>>,
    /// Locked before `waiting`, where both are.
    results: Mutex<LogWriter>,
    waiting: Mutex<Waiting>,
    holds: bool,
    /// That of the orders, for readers that must not wait for the log.
    durable_below: AtomicU64,
    on_failure: OnceLock<OnFailure>,
    arrivals: Arc<Arrivals>,
    /// A disk that is full is waited for, and why it is.
    patient: AtomicBool,
    full: Mutex<Option<String>>,
}

/// What is not in the logs yet.
#[derive(Default)]
struct Waiting {
    /// Where blocks are held back.
    orders: Vec<Record>,
    /// Gathered, or held back.
    results: Vec<Record>,
    bytes: usize,
    next_result: Height,
    /// The newest block whose order and result were handed over.
    complete: Option<(Height, Hash)>,
    /// The disk had no room for results when they were written last, at this time.
    full: Option<Instant>,
    /// Blocks could not be written.
    failed: Option<FirstFailure>,
}

impl Waiting {
    fn behind(results: &LogWriter) -> Waiting {
        let next_result = results.next_height();
        let complete = next_result.checked_sub(1).map(|height| (height, results.head_hash()));
        Waiting { next_result, complete, ..Waiting::default() }
    }

    fn check(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |first| Err(first.again()))
    }

    /// One that was written before its order comes twice.
    fn push_result(&mut self, result: Record) {
        assert!(result.height() <= self.next_result, "no block's result is left out");
        if result.height() == self.next_result {
            self.next_result += 1;
            self.bytes += result.payload().len();
            self.results.push(result);
        }
    }

    /// Whole blocks: an order whose block has not run stays, since one that cannot be executed must
    /// not be found by the next start; so does a result whose order is not here yet.
    fn take_blocks(&mut self) -> (Vec<Record>, Vec<Record>) {
        let ordered = self.orders.last().map_or(0, Record::height);
        let height = ordered.min(self.next_result.saturating_sub(1));
        debug_assert!(self.orders.is_sorted_by_key(Record::height));
        debug_assert!(self.results.is_sorted_by_key(Record::height));
        let upto = |records: &[Record]| records.partition_point(|record| record.height() <= height);
        let (orders, results) = (upto(&self.orders), upto(&self.results));
        self.bytes = 0;
        (self.orders.drain(..orders).collect(), self.results.drain(..results).collect())
    }

    /// Results that came meanwhile are behind them.
    fn put_back(&mut self, mut results: Vec<Record>) {
        self.bytes += results.iter().map(|result| result.payload().len()).sum::<usize>();
        results.append(&mut self.results);
        debug_assert!(results.is_sorted_by_key(Record::height), "they are written in their order");
        self.results = results;
    }

    fn take_results(&mut self) -> Vec<Record> {
        self.bytes = 0;
        std::mem::take(&mut self.results)
    }
}

impl LedgerEnd {
    fn append_order(&self, order: Record) -> io::Result<()> {
        self.arrivals.note();
        if !self.holds {
            let mut log = lock(self.orders()?);
            log.append(std::slice::from_ref(&order))
                .or_else(|error| self.append_when_there_is_room(error, &mut log, &order))?;
            self.durable_below.store(log.durable_below(), Ordering::Release);
            return Ok(());
        }
        let mut waiting = lock(&self.waiting);
        waiting.check()?;
        waiting.bytes += order.payload().len();
        waiting.orders.push(order);
        drop(waiting);
        self.write_if_full()
    }

    /// An order that the disk had no room for, after what a new start would find. The log stays
    /// locked: nothing else could be written to it.
    fn append_when_there_is_room(
        &self,
        mut error: io::Error,
        log: &mut LogWriter,
        order: &Record,
    ) -> io::Result<()> {
        if !self.patient.load(Ordering::Acquire) || !is_full(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "the disk is full: nothing is written until there is room");
        *lock(&self.full) = Some(error.to_string());
        while is_full(&error) && self.patient.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_FOR_ROOM / 10);
            match append_again(log, order) {
                Ok(()) => {
                    tracing::info!("there is room on the disk again");
                    *lock(&self.full) = None;
                    return Ok(());
                }
                Err(again) => error = again,
            }
        }
        Err(error)
    }

    /// Whether a disk that is full is waited for, from now on.
    pub(crate) fn set_patient(&self, patient: bool) {
        self.patient.store(patient, Ordering::Release);
    }

    /// Why nothing can be written at present, if the disk is full.
    pub(crate) fn fullness(&self) -> Option<String> {
        lock(&self.full).clone()
    }

    fn orders(&self) -> io::Result<&Mutex<LogWriter>> {
        self.orders.as_ref().ok_or_else(|| io::Error::other("its orderer writes the orders"))
    }

    /// An order is durable that the orderer has written.
    pub(crate) fn is_durable(&self, height: Height) {
        self.arrivals.note();
        self.durable_below.store(height + 1, Ordering::Release);
    }

    /// Of a block whose order comes next.
    fn append_result_first(&self, result: Record) -> io::Result<()> {
        lock(&self.waiting).push_result(result);
        if self.holds { Ok(()) } else { self.sync_results() }
    }

    /// Of a block whose order is there.
    fn append_result(&self, result: Record) -> io::Result<()> {
        self.arrivals.note();
        let mut waiting = lock(&self.waiting);
        waiting.check()?;
        waiting.complete = Some((result.height(), result.hash()));
        waiting.push_result(result);
        drop(waiting);
        self.write_if_full()
    }

    fn write_if_full(&self) -> io::Result<()> {
        let bytes_max = if self.holds { HELD_BYTES_MAX } else { GATHERED_BYTES_MAX };
        if lock(&self.waiting).bytes < bytes_max {
            return Ok(());
        }
        match self.holds {
            true => self.write_held().map(drop),
            false => self.write_results(&mut lock(&self.results)),
        }
    }

    /// Records are taken under the log's lock, so that they are written in their order. Where
    /// room on a full disk is waited for, as orders do, results are gathered meanwhile: they can be
    /// computed again.
    fn write_results(&self, log: &mut LogWriter) -> io::Result<()> {
        let may_wait = |error: &io::Error, waiting: &Waiting| {
            self.waits_for_room(error) && waiting.bytes < FULL_BYTES_MAX
        };
        let mut waiting = lock(&self.waiting);
        if let Some(since) = waiting.full {
            if since.elapsed() < LOOK_FOR_ROOM && waiting.bytes < FULL_BYTES_MAX {
                return Ok(());
            }
            match log.reopened() {
                Ok(again) => *log = again,
                Err(error) if may_wait(&error, &waiting) => {
                    waiting.full = Some(Instant::now());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            waiting.full = None;
        }
        let mut results = waiting.take_results();
        results.retain(|result| result.height() >= log.next_height());
        drop(waiting);
        let Err(error) = log.append_all_unsynced(&results) else { return Ok(()) };
        let mut waiting = lock(&self.waiting);
        if !may_wait(&error, &waiting) {
            return Err(error);
        }
        tracing::warn!(%error, "results are gathered in memory until there is room on the disk");
        waiting.put_back(results);
        waiting.full = Some(Instant::now());
        Ok(())
    }

    fn waits_for_room(&self, error: &io::Error) -> bool {
        is_full(error) && (self.orders.is_none() || self.patient.load(Ordering::Acquire))
    }

    /// What needs them on the disk fails, and nothing else.
    fn check_room(&self) -> io::Result<()> {
        match lock(&self.waiting).full {
            Some(_) => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn sync_results(&self) -> io::Result<()> {
        let mut log = lock(&self.results);
        self.write_results(&mut log)?;
        self.check_room()?;
        log.sync()
    }

    /// Has the results written that are gathered. The newest block whose order and result the
    /// ledger's files hold then; blocks that are held back stay so.
    pub fn written(&self) -> io::Result<Option<(Height, Hash)>> {
        let mut log = lock(&self.results);
        if self.holds {
            return Ok(Waiting::behind(&log).complete);
        }
        // Before the results are taken, which may hold later ones.
        let complete = lock(&self.waiting).complete;
        self.write_results(&mut log)?;
        self.check_room()?;
        Ok(complete)
    }

    /// `tell` is called when blocks that were held back cannot be written.
    pub(crate) fn on_failure(&self, tell: OnFailure) {
        let _ = self.on_failure.set(tell);
    }

    /// The orders of all blocks below are on stable storage.
    pub fn durable_below(&self) -> Height {
        self.durable_below.load(Ordering::Acquire)
    }

    pub(crate) fn arrivals(&self) -> &Arc<Arrivals> {
        &self.arrivals
    }

    /// At a clean stop: everything is on stable storage, and both logs say so.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.write_held()?;
        if let Some(orders) = &self.orders {
            lock(orders).rest()?;
        }
        self.mark_results()
    }

    /// When nothing comes any more. Blocks that are held back stay so.
    pub(crate) fn rest(&self) -> io::Result<()> {
        if self.holds {
            return Ok(());
        }
        self.or_tell(self.mark_logs())
    }

    fn mark_logs(&self) -> io::Result<()> {
        if let Some(orders) = &self.orders {
            let mut orders = lock(orders);
            orders.rest()?;
            self.durable_below.store(orders.durable_below(), Ordering::Release);
        }
        self.mark_results()
    }

    fn mark_results(&self) -> io::Result<()> {
        let mut results = lock(&self.results);
        self.write_results(&mut results)?;
        self.check_room()?;
        results.rest()
    }

    /// Tells a failure of another thread than the sequencer's.
    fn or_tell(&self, written: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &written
            && !self.waits_for_room(error)
        {
            let first = FirstFailure::of(error);
            let first = lock(&self.waiting).failed.get_or_insert(first).again();
            if let Some(tell) = self.on_failure.get() {
                tell(cannot_write(first));
            }
        }
        written
    }

    /// Writes the blocks that are held back, if any are, and syncs results; the sequencer may go on
    /// meanwhile. Returns the height below which all blocks are on stable storage.
    pub fn write_held(&self) -> io::Result<Height> {
        let written = match self.holds {
            true => self.write_blocks(),
            // Orders are synced already, and are appended meanwhile.
            false => self.sync_results(),
        };
        self.or_tell(written)?;
        Ok(self.durable_below())
    }

    fn write_blocks(&self) -> io::Result<()> {
        let (mut orders, mut results) = (lock(self.orders()?), lock(&self.results));
        let (held_orders, held_results) = lock(&self.waiting).take_blocks();
        orders.append_and_sync(&held_orders)?;
        results.append_and_sync(&held_results)?;
        self.durable_below.store(orders.durable_below(), Ordering::Release);
        Ok(())
    }
}

/// What was written of it, if anything was, goes first.
fn append_again(log: &mut LogWriter, order: &Record) -> io::Result<()> {
    let mut again = log.reopened()?;
    again.cut(order.height())?;
    *log = again;
    log.append(std::slice::from_ref(order))
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
        assert_eq!(order.height(), height, "what is told to be durable is the order of that block");
        if let Some(to) = &self.to
            && to.send((height, order)).is_ok()
        {
            self.under_way += 1;
        }
    }

    /// An order that has become durable since, if one has.
    pub fn poll(&mut self) -> Option<Appended> {
        let done = self.done.try_recv().ok()?;
        assert!(self.under_way > 0, "what has come was handed over");
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
