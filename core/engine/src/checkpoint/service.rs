//! The thread that takes checkpoints while the sequencer goes on.
//!
//! The pipeline says when a checkpoint is due, or a client asks for one. The sequencer then leaves
//! the newest boundary behind, between two blocks, and the thread pins it and writes. A request
//! that comes while a checkpoint is being written waits for the one after it, which holds all that
//! its client was acknowledged.
//!
//! *What it may cost.* At most a given share of one core: after each piece of work the thread
//! sleeps in proportion. And memory, since the pin keeps the row versions that later blocks
//! overwrite: when half of what they may take is taken it does not sleep any more, and when all is
//! it gives up. The checkpoints before are as they were, and the next one is tried when it is due.
//!
//! A checkpoint that cannot be written (a full disk, say) is said, in the log, by [`Standing`] and
//! to the observer, and stops nothing: the ledger itself is what makes results durable. But where
//! blocks were held back for it and cannot be written, the engine halts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kit::sync::lock;
use replica::{Boundary, Language};
use storage::Store;
use tokio::sync::oneshot;
use types::{Error, Height, Result, SqlState};

use crate::journal::{LedgerEnd, cannot_write};
use crate::observer::Observer;

use super::take::{Checkpointer, Extent, State, Taken};

/// When checkpoints are due, and what they may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceSettings {
    /// Due after so many blocks; 0: blocks do not count.
    pub interval_blocks: u64,
    /// Due after so many bytes of blocks; 0: bytes do not count.
    pub interval_bytes: u64,
    /// Share of one core that the work may take.
    pub cpu_percent_max: u32,
    /// Bytes of row versions that are kept while a checkpoint is taken; 0: any number.
    pub undo_bytes_max: u64,
}

/// Keeps work to a share of the time.
struct Pace {
    percent: u32,
    resumed: Instant,
}

impl Pace {
    /// Work shorter than this is not worth a sleep.
    const WORK_MIN: Duration = Duration::from_millis(2);

    fn new(cpu_percent_max: u32) -> Pace {
        Pace { percent: cpu_percent_max.clamp(1, 100), resumed: Instant::now() }
    }

    /// How long to sleep now, which `rest` does.
    fn rest(&mut self, rest: impl FnOnce(Duration)) {
        let worked = self.resumed.elapsed();
        if self.percent < 100 && worked >= Self::WORK_MIN {
            rest(worked * (100 - self.percent) / self.percent);
            self.resumed = Instant::now();
        }
    }
}

/// Row versions that were kept since a checkpoint was begun.
struct Kept<'a> {
    store: &'a Store,
    before: u64,
    bytes_max: u64,
}

impl Kept<'_> {
    fn bytes(&self) -> u64 {
        self.store.usage().undo_bytes.saturating_sub(self.before)
    }

    fn is_urgent(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    fn check(&self) -> Result<()> {
        let (kept, max) = (self.bytes(), self.bytes_max);
        if kept <= max {
            return Ok(());
        }
        let what = "the checkpoint was given up, since it keeps too much memory from being freed";
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            .with_detail(format!("{kept} bytes of row versions are kept; {max} are allowed."))
            .with_hint(
                "Allow more by checkpoint_undo_bytes_max, or more work by \
                 checkpoint_cpu_percent_max.",
            ))
    }
}

/// What the service is doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The newest checkpoint, if one was taken or loaded.
    pub height: Option<Height>,
    pub in_progress: bool,
    /// Rows done and rows there are, of the one in progress.
    pub rows_done: u64,
    pub rows_total: u64,
    /// Why the last one that was begun was not taken.
    pub failure: Option<Error>,
}

type Reply = oneshot::Sender<Result<Taken>>;

#[derive(Default)]
struct Board {
    due: bool,
    waiting: Vec<Reply>,
    /// Left for the next checkpoint.
    boundary: Option<Boundary>,
    /// What was on stable storage when that block was.
    durable_below: Height,
    /// Counts wake-ups.
    turn: u64,
}

struct Shared {
    board: Mutex<Board>,
    woken: Condvar,
    closed: AtomicBool,
    /// A boundary is waited for.
    wanted: AtomicBool,
    /// Wakes the sequencer, which leaves boundaries.
    wake: OnceLock<Wake>,
    /// Has the ledger say what a checkpoint's digest is.
    vouch: OnceLock<Vouch>,
    settings: ServiceSettings,
    store: Arc<Store>,
    language: Arc<dyn Language>,
    observer: Arc<dyn Observer>,
    /// May hold blocks back; `None`: nothing does.
    ledger: Option<Arc<LedgerEnd>>,
    height: Mutex<Option<Height>>,
    failure: Mutex<Option<Error>>,
    in_progress: AtomicBool,
    rows_done: AtomicU64,
    rows_total: AtomicU64,
}

/// See [`Service::wake_by`].
type Wake = Box<dyn Fn() + Send + Sync>;

/// See [`Service::vouch_by`].
type Vouch = Box<dyn Fn(&Taken) -> Result<()> + Send + Sync>;

pub struct Service {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    pub fn start(
        checkpointer: Checkpointer,
        settings: ServiceSettings,
        store: Arc<Store>,
        language: Arc<dyn Language>,
        observer: Arc<dyn Observer>,
        ledger: Option<Arc<LedgerEnd>>,
    ) -> std::io::Result<Service> {
        let shared = Arc::new(Shared {
            board: Mutex::default(),
            woken: Condvar::new(),
            closed: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            wake: OnceLock::new(),
            vouch: OnceLock::new(),
            settings,
            store,
            language,
            observer,
            ledger,
            height: Mutex::new(checkpointer.height()),
            failure: Mutex::default(),
            in_progress: AtomicBool::new(false),
            rows_done: AtomicU64::new(0),
            rows_total: AtomicU64::new(0),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("checkpoint".into());
        let thread = thread.spawn(move || own.run(checkpointer))?;
        Ok(Service { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Called when a boundary is waited for while no block may come.
    pub fn wake_by(&self, wake: Wake) {
        let _ = self.shared.wake.set(wake);
    }

    /// Called with each checkpoint that is durable; those that asked for it are answered then.
    pub fn vouch_by(&self, vouch: Vouch) {
        let _ = self.shared.vouch.set(vouch);
    }

    /// A checkpoint is due.
    pub fn due(&self) {
        self.shared.board().due = true;
        self.shared.wanted.store(true, Ordering::Release);
    }

    /// Whether a boundary is waited for.
    pub fn is_wanted(&self) -> bool {
        self.shared.wanted.load(Ordering::Acquire)
    }

    /// The newest boundary. All blocks below `durable_below` are on stable storage.
    pub fn leave(&self, boundary: Boundary, durable_below: Height) {
        let mut board = self.shared.board();
        board.boundary = Some(boundary);
        board.durable_below = durable_below;
        board.turn += 1;
        self.shared.wanted.store(false, Ordering::Release);
        self.shared.woken.notify_one();
    }

    /// Ask for a checkpoint of the newest block, whose boundary is to be left.
    pub fn request(&self) -> Result<oneshot::Receiver<Result<Taken>>> {
        let (reply, answer) = oneshot::channel();
        let mut board = self.shared.board();
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        board.waiting.push(reply);
        // One that was left before may lack what the client was acknowledged.
        board.boundary = None;
        self.shared.wanted.store(true, Ordering::Release);
        Ok(answer)
    }

    /// No boundary will be left any more.
    pub fn abandon(&self, why: &Error) {
        let mut board = self.shared.board();
        self.shared.closed.store(true, Ordering::Release);
        board.turn += 1;
        self.shared.woken.notify_one();
        let waiting = std::mem::take(&mut board.waiting);
        waiting.into_iter().for_each(|reply| drop(reply.send(Err(why.clone()))));
    }

    pub fn standing(&self) -> Standing {
        let shared = &self.shared;
        Standing {
            height: *lock(&shared.height),
            in_progress: shared.in_progress.load(Ordering::Relaxed),
            rows_done: shared.rows_done.load(Ordering::Relaxed),
            rows_total: shared.rows_total.load(Ordering::Relaxed),
            failure: lock(&shared.failure).clone(),
        }
    }

    /// Give up what is being written, and end.
    pub fn stop(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let waiting = {
            let mut board = self.shared.board();
            board.turn += 1;
            self.shared.woken.notify_one();
            std::mem::take(&mut board.waiting)
        };
        waiting.into_iter().for_each(|reply| drop(reply.send(Err(closed()))));
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    /// Without it the checkpoint is there, and the next start may not begin with it.
    fn vouch(&self, taken: &Taken) -> bool {
        let Some(vouch) = self.vouch.get() else { return false };
        let vouched = vouch(taken);
        if let Err(error) = &vouched
            && !self.closed.load(Ordering::Acquire)
        {
            tracing::warn!(%error, "the ledger does not vouch for the checkpoint");
        }
        vouched.is_ok()
    }

    fn run(&self, mut checkpointer: Checkpointer) {
        let mut seen = 0;
        let mut vouched = checkpointer.height();
        while let Some((state, waiting)) = self.next(&mut seen) {
            let began = Instant::now();
            self.in_progress.store(true, Ordering::Relaxed);
            let state = state.and_then(|state| self.with_its_blocks(state));
            let taken = state.and_then(|state| self.take(&mut checkpointer, &state));
            self.in_progress.store(false, Ordering::Relaxed);
            *lock(&self.height) = checkpointer.height();
            if let Ok(taken) = &taken
                && vouched != Some(taken.height)
                && self.vouch(taken)
            {
                vouched = Some(taken.height);
            }
            match &taken {
                Ok(taken) => self.observer.checkpoint(taken, began.elapsed()),
                Err(_) if self.closed.load(Ordering::Acquire) => {}
                Err(error) => {
                    tracing::error!(%error, "no checkpoint; the ones before are as they were");
                    self.observer.checkpoint_failed(error);
                }
            }
            let failure = taken.as_ref().err().cloned();
            *lock(&self.failure) = failure;
            waiting.into_iter().for_each(|reply| drop(reply.send(taken.clone())));
        }
    }

    /// Waits until a checkpoint is wanted and a state can be pinned. `None`: the end.
    fn next(&self, seen: &mut u64) -> Option<(Result<State>, Vec<Reply>)> {
        let mut board = self.board();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
            if let Some(boundary) = board.boundary.take() {
                let durable_below = board.durable_below;
                match self.pin(&boundary, durable_below) {
                    Some(state) => {
                        board.due = false;
                        return Some((state, std::mem::take(&mut board.waiting)));
                    }
                    // It was collected meanwhile: the next one is waited for.
                    None => {
                        self.wanted.store(true, Ordering::Release);
                        if let Some(wake) = self.wake.get() {
                            wake();
                        }
                    }
                }
            }
            *seen = board.turn;
            board = self
                .woken
                .wait_while(board, |board| board.turn == *seen)
                .unwrap_or_else(|e| e.into_inner());
        }
    }

    /// The state at a boundary, if it can still be read: while it is the head it can.
    fn pin(&self, boundary: &Boundary, durable_below: Height) -> Option<Result<State>> {
        let boundary = boundary.clone();
        let snapshot = self.store.snapshot_at(boundary.order.height)?;
        let schema = self.language.schema_image(&snapshot);
        Some(schema.map(|schema| State { snapshot, boundary, durable_below, schema }))
    }

    /// A checkpoint comes after its blocks: those that are held back are written now.
    fn with_its_blocks(&self, mut state: State) -> Result<State> {
        let Some(ledger) = &self.ledger else {
            return Ok(state);
        };
        let durable_below = ledger.write_held().map_err(|error| {
            let hint = "See to the disk, or make room on it, then restart the node.";
            cannot_write(error).with_hint(hint)
        })?;
        let behind = state.boundary.order.height + 1;
        state.durable_below = state.durable_below.max(durable_below.min(behind));
        Ok(state)
    }

    fn take(&self, checkpointer: &mut Checkpointer, state: &State) -> Result<Taken> {
        let tables = state.snapshot.catalog().tables();
        let total = tables.map(|table| table.usage().records).sum();
        self.rows_total.store(total, Ordering::Relaxed);
        self.rows_done.store(0, Ordering::Relaxed);
        let ServiceSettings { cpu_percent_max, undo_bytes_max, .. } = self.settings;
        let mut pace = Pace::new(cpu_percent_max);
        let bytes_max = if undo_bytes_max == 0 { u64::MAX } else { undo_bytes_max };
        let kept = Kept { store: &self.store, before: self.store.usage().undo_bytes, bytes_max };
        checkpointer.take(state, &mut |extent: &Extent| {
            self.rows_done.store(extent.rows, Ordering::Relaxed);
            pace.rest(|duration| self.sleep(duration, &kept));
            if self.closed.load(Ordering::Acquire) {
                return Err(closed());
            }
            kept.check()
        })
    }

    /// Sleeps, but not when there is something better to do.
    fn sleep(&self, duration: Duration, kept: &Kept<'_>) {
        const SLICE: Duration = Duration::from_millis(100);
        let until = Instant::now() + duration;
        let mut board = self.board();
        while !self.closed.load(Ordering::Acquire) && !kept.is_urgent() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let slept = self.woken.wait_timeout(board, left.min(SLICE));
            board = slept.unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

fn closed() -> Error {
    Error::new(SqlState::ADMIN_SHUTDOWN, "the node is shutting down")
}
