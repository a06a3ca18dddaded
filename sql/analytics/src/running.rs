//! Runs analytical queries: on threads of their own, a bounded number of batches ahead of the
//! client, and ended on time.
//!
//! ```text
//!   query's task, on these threads ─── batches of rows ───► session, on the node's threads
//!        ▲ abort                        at most 2 wait          │ asks, waits
//!        └──────────── watch: every 10 ms, who waits too long? ◄┘
//! ```
//!
//! *Back-pressure.* A task pauses when as many batches wait as may: a slow client slows only its
//! own query. *Cancellation.* A watch on a thread of its own handles cancel requests and timeouts,
//! however busy the other threads are: it answers the session at once, and the task ends where it
//! next yields.
//!
//! *Idle runs.* While the client asks for no rows, neither a cancel request nor statement_timeout
//! ends a run. But it holds a snapshot, and what its operators have gathered, out of memory that
//! all queries share. So it may be idle only for `tally.fetch_timeout`, whether the client forgot
//! a portal or reads too slowly. A client that asks for more rows later is told why there are none.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures::stream::{self, Stream, StreamExt};
use kit::pool::{Lease, Pool};
use parking_lot::Mutex;
use sql::analytical_engine::{Limits, Row, RowBatches, row_bytes};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use types::{Error, Result, SqlState};

use crate::interrupt::Ended;

/// Batches that wait for a session, at most.
const BATCHES_AHEAD: usize = 2;

const WATCH_EVERY: Duration = Duration::from_millis(10);

/// DataFusion's planner walks over queries, and over plans, level by level: a query may have
/// 200, and each of the views within it as many. Memory that no walk has touched is
/// none.
const STACK_BYTES: usize = 256 << 20;

/// Analytical threads give way to those of transactions.
const NICE: i32 = 10;

/// The threads of all queries, and who watches over them.
pub(crate) struct Threads {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    watch: Watch,
}

struct Watch {
    runs: Arc<Mutex<Runs>>,
    thread: Thread,
}

#[derive(Default)]
struct Runs {
    running: Vec<Arc<Run>>,
    closed: bool,
}

/// A run as the watch sees it.
struct Run {
    limits: Limits,
    task: AbortHandle,
    ended: Ended,
    state: Mutex<RunState>,
}

struct RunState {
    waiter: Waiter,
    /// How long the client has waited before.
    waited: Duration,
    /// Tells the session why it gets no more; used up when it was.
    stop: Option<oneshot::Sender<Error>>,
}

/// Whether the client waits for rows, and since when that is so.
enum Waiter {
    Waits(Instant),
    Away(Instant),
}

/// What a query's task hands over.
enum Made {
    /// And what covers them until the next are asked for.
    Rows(Result<Vec<Row>>, Option<Lease>),
    /// No rows are missing.
    End,
}

/// Where a query's task puts its rows.
pub(crate) struct Output {
    rows: mpsc::Sender<Made>,
    ended: Ended,
    memory: Option<Arc<Pool>>,
}

/// The rows are not wanted any more.
pub(crate) struct Unwanted;

/// Rows as a session gets them.
struct Rows {
    made: mpsc::Receiver<Made>,
    stopped: oneshot::Receiver<Error>,
    run: Arc<Run>,
    ended: bool,
    /// Covers the rows that were taken last.
    lease: Option<Lease>,
}

impl Threads {
    pub(crate) fn new(count: usize) -> std::io::Result<Threads> {
        let nice = || _ = rustix::process::setpriority_process(None, NICE);
        let runtime = Builder::new_multi_thread()
            .worker_threads(count.max(1))
            .thread_name("analytics")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(nice)
            .enable_all()
            .build()?;
        Ok(Threads { runtime: Some(runtime), watch: Watch::new()? })
    }

    pub(crate) fn running(&self) -> usize {
        let runs = self.watch.runs.lock();
        runs.running.iter().filter(|run| !run.task.is_finished()).count()
    }

    /// Starts a task that makes rows, and gives them to the task that polls the stream.
    pub(crate) fn rows<F>(&self, limits: Limits, make: impl FnOnce(Output) -> F) -> RowBatches
    where
        F: Future<Output = Result<(), Unwanted>> + Send + 'static,
    {
        let (output, made) = mpsc::channel(BATCHES_AHEAD);
        let (stop, stopped) = oneshot::channel();
        let Some(runtime) = &self.runtime else { return stream::empty().boxed() };
        let ending = output.clone();
        let ended = Ended::default();
        let memory = limits.memory.clone();
        let making = make(Output { rows: output, ended: ended.clone(), memory });
        let task = runtime.spawn(async move {
            if making.await.is_ok() {
                _ = ending.send(Made::End).await;
            }
        });
        let state = RunState {
            waiter: Waiter::Away(Instant::now()),
            waited: Duration::ZERO,
            stop: Some(stop),
        };
        let task = task.abort_handle();
        let run = Run { limits, task, ended, state: Mutex::new(state) };
        let run = Arc::new(run);
        self.watch.add(run.clone());
        Rows { made, stopped, run, ended: false, lease: None }.boxed()
    }
}

/// Waits for what has to walk over a query.
pub(crate) fn on_deep_stack<T: Send>(walk: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let failed = |why: &str| {
        Error::new(SqlState::INTERNAL_ERROR, "a query could not be planned").with_detail(why)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("planning".into()).stack_size(STACK_BYTES);
        let walking = thread.spawn_scoped(scope, walk);
        match walking.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(walked)) => walked,
            Ok(Err(_)) => Err(failed("Its thread ended; the log says why.")),
            Err(error) => Err(failed(&error.to_string())),
        }
    })
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.watch.runs.lock().closed = true;
        self.watch.thread.unpark();
        // The last handle may be dropped on a runtime's thread, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Output {
    /// Waits until there is room.
    pub(crate) async fn send(&self, rows: Result<Vec<Row>>) -> Result<(), Unwanted> {
        let (rows, lease) = match rows.and_then(|rows| Ok((self.cover(&rows)?, rows))) {
            Ok((lease, rows)) => (Ok(rows), lease),
            Err(error) => (Err(error), None),
        };
        let failed = rows.is_err();
        self.rows.send(Made::Rows(rows, lease)).await.map_err(|_| Unwanted)?;
        if failed { Err(Unwanted) } else { Ok(()) }
    }

    fn cover(&self, rows: &[Row]) -> Result<Option<Lease>> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let mut lease = memory.lease();
        lease.cover(rows.iter().map(|row| row_bytes(row) as u64).sum())?;
        Ok(Some(lease))
    }

    pub(crate) fn ended(&self) -> &Ended {
        &self.ended
    }
}

impl Run {
    fn waits(&self) {
        let mut state = self.state.lock();
        if let Waiter::Away(_) = state.waiter {
            state.waiter = Waiter::Waits(Instant::now());
        }
    }

    fn got(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Waiter::Waits(since) = std::mem::replace(&mut state.waiter, Waiter::Away(now)) {
            state.waited += now - since;
        }
    }

    /// Why it has to end now.
    fn over(&self) -> Option<Error> {
        let state = self.state.lock();
        let is_past = |limit: Option<Duration>, time| limit.is_some_and(|limit| time >= limit);
        match state.waiter {
            Waiter::Away(since) => {
                let forgotten = is_past(self.limits.fetch_timeout, since.elapsed());
                forgotten.then(forgotten_error)
            }
            Waiter::Waits(_) if self.limits.canceled.load(Ordering::Relaxed) => {
                Some(canceled("canceling statement due to user request"))
            }
            Waiter::Waits(since) => is_past(self.limits.timeout, state.waited + since.elapsed())
                .then(|| canceled("canceling statement due to statement timeout")),
        }
    }

    /// The task ends where it next gives way.
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.task.abort();
    }

    /// The reason first: the end makes errors of its own.
    fn stop(&self, why: Error) {
        if let Some(stop) = self.state.lock().stop.take() {
            _ = stop.send(why);
        }
        self.end();
    }
}

fn canceled(why: &str) -> Error {
    Error::new(SqlState::QUERY_CANCELED, why)
}

fn forgotten_error() -> Error {
    canceled("canceling statement since its rows were not fetched in time")
        .with_detail("It held memory and a snapshot for longer than tally.fetch_timeout says.")
        .with_hint("Fetch sooner, or SET tally.fetch_timeout to a longer time; 0 is no limit.")
}

impl Watch {
    fn new() -> std::io::Result<Watch> {
        let runs = Arc::new(Mutex::new(Runs::default()));
        let watched = runs.clone();
        let watch = move || watch(&watched);
        let thread = std::thread::Builder::new().name("analytics-watch".into()).spawn(watch)?;
        Ok(Watch { runs, thread: thread.thread().clone() })
    }

    fn add(&self, run: Arc<Run>) {
        let mut runs = self.runs.lock();
        runs.running.push(run);
        if runs.running.len() == 1 {
            self.thread.unpark();
        }
    }
}

fn watch(runs: &Mutex<Runs>) {
    loop {
        let mut runs = runs.lock();
        if runs.closed {
            return;
        }
        runs.running.retain(|run| {
            if let Some(why) = run.over() {
                run.stop(why);
            }
            !run.task.is_finished()
        });
        let idle = runs.running.is_empty();
        drop(runs);
        match idle {
            true => std::thread::park(),
            false => std::thread::park_timeout(WATCH_EVERY),
        }
    }
}

impl Rows {
    fn end(&mut self, last: Option<Result<Vec<Row>>>) -> Poll<Option<Result<Vec<Row>>>> {
        self.ended = true;
        self.run.end();
        Poll::Ready(last)
    }
}

impl Stream for Rows {
    type Item = Result<Vec<Row>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(Ok(error)) = Pin::new(&mut self.stopped).poll(context) {
            return self.end(Some(Err(error)));
        }
        // Those that were taken last are gone.
        self.lease = None;
        match self.made.poll_recv(context) {
            Poll::Pending => {
                self.run.waits();
                Poll::Pending
            }
            Poll::Ready(made) => {
                self.run.got();
                match made {
                    Some(Made::Rows(Ok(rows), lease)) => {
                        self.lease = lease;
                        Poll::Ready(Some(Ok(rows)))
                    }
                    Some(Made::Rows(Err(error), _)) => self.end(Some(Err(error))),
                    Some(Made::End) => self.end(None),
                    // Its task is gone without a word: it was stopped just now, or panicked.
                    None => {
                        if let Poll::Ready(Ok(error)) = Pin::new(&mut self.stopped).poll(context) {
                            return self.end(Some(Err(error)));
                        }
                        let error =
                            Error::new(SqlState::INTERNAL_ERROR, "an analytical query failed")
                                .with_detail("Its thread ended; the log says why.");
                        self.end(Some(Err(error)))
                    }
                }
            }
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.run.end();
    }
}
