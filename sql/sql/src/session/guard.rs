//! What ends a statement before its time: the client's cancel request, or `statement_timeout`.
//!
//! Both hold for work that a session does itself: queries, and the statements of a transaction up
//! to its COMMIT. What has been handed to the ledger can be withdrawn until it is in a block; from
//! then on it is not given up: how it ends must depend on no session's clock, and the client would
//! not know how it ended.
//!
//! A run that may take long leaves the runtime's worker to the other sessions ([`aside`]). One that
//! only follows keys stays where it is: it is over sooner than the hand-over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kit::pool::{Lease, Pool};
use kit::sync::lock;
use procedure::{BYTES_MAX, Budget, Frame, Interrupt, Meter, UNITS_MAX};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use types::{Error, Result, SqlState, Stop};

use crate::settings::{QUERY_MEMORY, QUERY_MEMORY_BYTES};

/// Steps and rows of one query outside blocks: hours of work. A function's loop without an end
/// comes to it at last, even if its client is gone.
const QUERY_UNITS_MAX: u64 = 100_000_000_000;

/// A longer text takes a while to be parsed and bound.
pub const SHORT_TEXT_BYTES: usize = 16 << 10;

const NEVER: u64 = u64::MAX;

const BY_REQUEST: &str = "canceling statement due to user request";
const BY_TIMEOUT: &str = "canceling statement due to statement timeout";

/// How often a session that waits for another thread looks whether it should go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Of that thread, on which statements may be nested as deeply as anywhere.
const STACK_BYTES: usize = 16 << 20;

/// How a session's client gives up what the session does for it.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    /// Ends what the session runs with 57014 when it becomes true.
    pub raised: Arc<AtomicBool>,
    /// Told when it was raised by the client, for what waits to be in a block.
    pub withdraw: Arc<Notify>,
}

impl From<Arc<AtomicBool>> for Signal {
    fn from(raised: Arc<AtomicBool>) -> Signal {
        Signal { raised, ..Signal::default() }
    }
}

pub struct Guard {
    canceled: Arc<AtomicBool>,
    withdraw: Arc<Notify>,
    born: Instant,
    /// When the running statement has to end, counted from `born`.
    deadline_ns: AtomicU64,
    /// What a query may hold.
    memory: AtomicU64,
    /// What a transaction may do in a block: units, bytes.
    units_max: AtomicU64,
    bytes_max: AtomicU64,
    /// What all sessions may hold.
    pool: Arc<Pool>,
    /// What was given up and has not come to its end.
    given_up: Mutex<Option<JoinHandle<()>>>,
}

impl Guard {
    pub fn new(signal: Signal, pool: Arc<Pool>) -> Guard {
        Guard {
            canceled: signal.raised,
            withdraw: signal.withdraw,
            pool,
            units_max: AtomicU64::new(UNITS_MAX),
            bytes_max: AtomicU64::new(BYTES_MAX),
            given_up: Mutex::default(),
            born: Instant::now(),
            deadline_ns: AtomicU64::new(NEVER),
            memory: AtomicU64::new(QUERY_MEMORY_BYTES),
        }
    }

    pub fn canceled(&self) -> &Arc<AtomicBool> {
        &self.canceled
    }

    /// The memory of all sessions.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Of the memory of all sessions.
    pub fn lease(&self) -> Lease {
        self.pool.lease()
    }

    /// What a transaction may do in a block, as the ledger says.
    pub fn budget(&self) -> Budget {
        let (units_max, bytes_max) = (&self.units_max, &self.bytes_max);
        let [units_max, bytes_max] = [units_max, bytes_max].map(|max| max.load(Ordering::Relaxed));
        Budget { units_max, bytes_max }
    }

    pub fn set_budget(&self, budget: Budget) {
        self.units_max.store(budget.units_max, Ordering::Relaxed);
        self.bytes_max.store(budget.bytes_max, Ordering::Relaxed);
    }

    /// What a query may hold in memory.
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Completes when the client gives up what waits, with why.
    pub async fn given_up(&self) -> Error {
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        let late = async {
            match deadline_ns {
                NEVER => std::future::pending().await,
                deadline_ns => {
                    let deadline = self.born + Duration::from_nanos(deadline_ns);
                    tokio::time::sleep_until(deadline.into()).await;
                }
            }
        };
        tokio::select! {
            () = self.withdraw.notified() => canceled(BY_REQUEST),
            () = late => canceled(BY_TIMEOUT),
        }
    }

    /// Runs what takes long and does not look whether it should go on, on a thread of its own. The
    /// session waits for it as long as its statement may take. What is given up comes to its end by
    /// itself, and before it has, the session runs nothing else in this way.
    pub fn apart<A, T>(
        &self,
        given: A,
        run: impl FnOnce(A) -> Result<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        aside(false, || {
            let mut given_up = lock(&self.given_up);
            while given_up.as_ref().is_some_and(|thread| !thread.is_finished()) {
                self.check()?;
                thread::sleep(LOOK_EVERY);
            }
            let (answer, answered) = sync_channel(1);
            let work = move || _ = answer.send(run(given));
            let thread = thread::Builder::new().name("apart".into()).stack_size(STACK_BYTES);
            let thread = thread.spawn(work).map_err(|error| failed(&error.to_string()))?;
            loop {
                match answered.recv_timeout(LOOK_EVERY) {
                    Ok(answer) => return answer,
                    Err(RecvTimeoutError::Disconnected) => return Err(failed("The log says why.")),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if let Err(why) = self.check() {
                    *given_up = Some(thread);
                    return Err(why);
                }
            }
        })
    }

    /// A statement begins.
    pub fn start(&self, timeout: Option<Duration>, memory: u64) {
        self.memory.store(memory, Ordering::Relaxed);
        let deadline = timeout.map_or(NEVER, |timeout| nanoseconds(self.born.elapsed() + timeout));
        self.deadline_ns.store(deadline, Ordering::Relaxed);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Interrupt for Guard {
    fn check(&self) -> Result<()> {
        if self.canceled.load(Ordering::Relaxed) {
            return Err(canceled(BY_REQUEST));
        }
        let deadline = self.deadline_ns.load(Ordering::Relaxed);
        if deadline != NEVER && nanoseconds(self.born.elapsed()) >= deadline {
            return Err(canceled(BY_TIMEOUT));
        }
        Ok(())
    }
}

fn failed(why: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "a statement could not be read").with_detail(why)
}

fn canceled(message: &str) -> Error {
    Error::new(SqlState::QUERY_CANCELED, message)
}

fn too_much(bytes: u64) -> Error {
    let what = format!("more than {bytes} bytes are held in memory at once");
    Error::new(SqlState::OUT_OF_MEMORY, what)
        .with_detail(format!("The setting \"{QUERY_MEMORY}\" says how many there may be."))
        .with_hint("Ask for fewer rows or shorter values at once.")
}

/// For queries that no block will run.
pub fn query_frame(guard: &Arc<Guard>) -> Frame {
    let meter = Meter::new(QUERY_UNITS_MAX, Some(guard.clone()));
    Frame::metered(meter.with_memory(guard.memory(), too_much).with_lease(guard.lease()))
}

/// For a transaction, whose statements a block will run again: it spends what it could spend there.
pub fn transaction_frame(guard: &Arc<Guard>) -> Frame {
    let budget = guard.budget();
    let meter = Meter::new(budget.units_max, Some(guard.clone()));
    meter.set_budget(budget);
    Frame::metered(meter.with_lease(guard.lease()))
}

/// Run what is not short where it holds up no other session.
pub fn aside<T>(is_short: bool, run: impl FnOnce() -> T) -> T {
    let has_workers =
        || Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    match !is_short && has_workers() {
        true => tokio::task::block_in_place(run),
        false => run(),
    }
}

/// What the client is told of a stop.
pub fn error_of(stop: Stop) -> Error {
    match stop {
        Stop::Rejected(error) | Stop::Retry(error) => error.cut(),
        Stop::Halt(why) => {
            Error::new(SqlState::INTERNAL_ERROR, "the statement met an impossible state")
                .with_detail(why)
        }
    }
}
