//! Blocks in which calls run as they arrive (epochs), on a live node.
//!
//! ```text
//!   sequencer   … open 7 │ seal 6, sync, publish, answer │ run, close 7 │ open 8 │ seal 7, sync …
//!   runners              │ calls of 7, as they arrive ───────►          │        │ calls of 8 ──►
//!                        └ the entry is open ──────────────────────────► ┘        └ …
//! ```
//!
//! An epoch is open while the previous block is sealed and synced, so its calls read rows that are
//! not durable yet; if the disk fails, neither block is ever released. The epoch is closed when the
//! previous block has been released and no thread is running a call in it. Then its order is known,
//! and the next epoch opens at once. The pipeline therefore sees one block at a time, which has
//! already run.
//!
//! *A single client's* call finds no open epoch. The sequencer wakes, opens one, runs the call
//! itself, closes and syncs; no other thread and no timer takes part.
//!
//! *Between epochs.* No epoch is opened where a task needs the state at a block boundary: a
//! checkpoint, a query about an idempotency key, a schema or parameter change. Unneeded versions
//! are also freed between two epochs, since the store frees none while a block is written.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use concurrency::Call;
use parking_lot::Mutex;
use pipeline::Event;
use replica::{Compiled, Language, Opened, Verdict, compile_request};
use types::Error;

use crate::client::{Closed, Entered, Member, Request};
use crate::epoch_entry::{Closing, Woken};
use crate::open_epoch::{EpochEntry, OpenEpoch, Shut, Taken};
use crate::queue::Queue;

use super::sequencer::{Sequencer, halted, stopped};
use super::shared::{Shared, reads_only};

/// Threads that run calls, and the block that is open.
#[derive(Default)]
pub(super) struct Arriving {
    runners: Option<Runners>,
    open: Option<Open>,
    /// Closed, and not sealed.
    pub closed: Option<Closed>,
    /// Versions that nothing needs are to be freed before the next block opens.
    pub collects: bool,
}

/// A block that is open, but for what its entry has.
struct Open {
    opened: Opened,
    since: Instant,
}

struct Runners {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Runners {
    fn start(shared: &Arc<Shared>, count: usize) -> std::io::Result<Runners> {
        let mut runners = Runners { shared: Arc::clone(shared), threads: Vec::new() };
        for number in 0..count {
            let shared = Arc::clone(shared);
            let name = format!("runner-{number}");
            let run = move || run_calls(&shared.queue, &*shared.language);
            runners.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(runners)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.shared.queue.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run_calls(queue: &Queue, language: &dyn Language) {
    while let Some((epoch, first)) = queue.enter() {
        run_in(&epoch, first, queue, language);
        // The thread that closes the epoch must be the only one that holds it.
        drop(epoch);
        queue.leave();
    }
}

/// Runs calls until none waits. A panic is a bug, which the sequencer learns of.
fn run_in(epoch: &OpenEpoch, first: Taken, queue: &Queue, language: &dyn Language) {
    let run = AssertUnwindSafe(|| run_unguarded(epoch, first, queue, language));
    if std::panic::catch_unwind(run).is_err() {
        epoch.panicked.store(true, Ordering::Release);
    }
}

fn run_unguarded(epoch: &OpenEpoch, first: Taken, queue: &Queue, language: &dyn Language) {
    let undo = epoch.arenas.lock().pop().expect("an arena for each thread");
    let mut worker = epoch.epoch.worker(undo);
    let mut members = Vec::new();
    let mut next = Some(first);
    loop {
        match next.take().or_else(|| queue.take()) {
            Some(Taken { arrival, verdict, request }) => {
                let member = compiled(request, verdict, language);
                let work = Arc::clone(&member.work);
                let now_us = work.now_us(epoch.time_us);
                members.push((arrival, member));
                worker.run(Call { arrival, now_us, work });
            }
            None if worker.under_way() > 0 => worker.try_again(),
            None => break,
        }
    }
    let undo = worker.leave();
    epoch.arenas.lock().push(undo);
    epoch.handed_in.lock().append(&mut members);
}

/// The schema does not change while a block is open.
fn compiled(mut request: Request, verdict: Verdict, language: &dyn Language) -> Member {
    let version = language.schema_version();
    let work = match request.compiled.take() {
        Some(Compiled { work, schema_version, .. }) if schema_version == version => work,
        _ => Arc::new(compile_request(language, &request.envelope)),
    };
    Member { request, verdict, work }
}

/// What the sequencer does after a block whose calls ran as they arrived.
pub(super) enum Then {
    GoOn,
    End,
}

impl Sequencer {
    /// Waits for calls, and runs blocks of them until none waits.
    pub(super) fn run_epochs(&mut self) -> Result<Then, Error> {
        self.start_stages();
        self.run_errands();
        match self.shared.queue.wait() {
            Woken::Calls => {}
            Woken::Errand => return Ok(Then::GoOn),
            Woken::End => return Ok(Then::End),
        }
        self.open_epoch(None)?;
        loop {
            self.shared.queue.begin_close(self.released, self.sync);
            let closed = self.close_epoch()?;
            self.collect_if_due();
            if closed.lets_open() && !self.wants_boundary() {
                self.open_epoch(Some(&closed))?;
            }
            self.released = closed.transactions();
            self.under_way += self.released;
            let (height, barrier, bytes) = (closed.height, closed.barrier, closed.bytes);
            self.arriving.closed = Some(closed);
            self.follow(Event::Ordered { height, barrier, seen: 0, bytes })?;
            assert!(self.pipeline.is_idle(), "a block is released before the next is closed");
            if self.withdraw_epoch() {
                self.collect_if_due();
                return Ok(Then::GoOn);
            }
        }
    }

    fn collect_if_due(&mut self) {
        if std::mem::take(&mut self.arriving.collects) {
            self.shared.observer.collected(&self.shared.retention.collect());
        }
    }

    /// Whether something waits for a state with no block after it.
    fn wants_boundary(&self) -> bool {
        let checkpoint =
            self.shared.checkpoints.as_ref().is_some_and(|service| service.is_wanted());
        checkpoint || self.shared.has_errands()
    }

    fn open_epoch(&mut self, before: Option<&Closed>) -> Result<(), Error> {
        let threads = self.replica.pool().workers();
        if self.arriving.runners.is_none() {
            let runners = Runners::start(&self.shared, threads);
            let why = |error: std::io::Error| stopped(format!("there are no threads: {error}"));
            self.arriving.runners = Some(runners.map_err(why)?);
        }
        assert!(self.arriving.open.is_none(), "one block is open at a time");
        let drawn = self.shared.queue.draw((self.shared.clock)());
        // The sequencer runs calls as well.
        let opened = self.replica.open(before, drawn, threads + 1);
        let (mut opened, epoch) = opened.map_err(halted)?;
        let epoch = Arc::new(OpenEpoch {
            height: opened.height,
            time_us: opened.time_us,
            epoch,
            arenas: Mutex::new(opened.writes.take()),
            handed_in: Mutex::default(),
            panicked: AtomicBool::new(false),
        });
        self.arriving.open = Some(Open { opened, since: Instant::now() });
        self.shared.queue.open(EpochEntry::new(epoch, Arc::clone(self.replica.admission())));
        Ok(())
    }

    /// Whether no block is open any more, since no call has come to it.
    fn withdraw_epoch(&mut self) -> bool {
        if self.arriving.open.is_none() {
            return true;
        }
        let Some(epoch) = self.shared.queue.withdraw() else { return false };
        if let Some(Open { mut opened, .. }) = self.arriving.open.take() {
            epoch.arenas.into_inner().into_iter().for_each(|arena| opened.writes.give(arena));
            self.replica.withdraw(opened);
        }
        true
    }

    /// Runs what the sequencer can, waits for the other threads, and takes what they did.
    fn close_epoch(&mut self) -> Result<Closed, Error> {
        let shut = self.shut().ok_or_else(|| stopped("no block is open".to_owned()))?;
        let Some(Open { mut opened, since }) = self.arriving.open.take() else {
            return Err(stopped("no block is open".to_owned()));
        };
        if shut.epoch.panicked.load(Ordering::Acquire) {
            let error = stopped("a transaction panicked".to_owned());
            refuse(shut, &error);
            return Err(error);
        }
        let Shut { epoch, refused, barriers } = shut;
        let epoch = Arc::into_inner(epoch).expect("threads that left have let go of the epoch");
        epoch.arenas.into_inner().into_iter().for_each(|arena| opened.writes.give(arena));
        let mut members = epoch.handed_in.into_inner();
        members.sort_unstable_by_key(|(arrival, _)| *arrival);
        let came = || members.iter().map(|(arrival, _)| *arrival);
        debug_assert!(came().eq(0..members.len() as u32), "what is taken is handed in");
        let ran = members.into_iter().map(|(_, member)| member).collect();
        let entered = Entered { ran, refused, barriers };
        let closed = self.replica.close(opened, epoch.epoch, entered).map_err(halted)?;
        self.execute = since.elapsed();
        Ok(closed)
    }

    fn shut(&self) -> Option<Shut> {
        let queue = &self.shared.queue;
        loop {
            match queue.close_or_run()? {
                Closing::Run(first) => {
                    let epoch = queue.epoch()?;
                    run_in(&epoch, first, queue, &*self.shared.language);
                    drop(epoch);
                    queue.leave();
                }
                Closing::Shut(shut) => return Some(shut),
            }
        }
    }

    /// At a halt: a call that is in an open block is in none, and is told so.
    pub(super) fn abandon_epoch(&mut self, cause: &Error) {
        self.shared.queue.refuse_entry();
        if let Some(shut) = self.shut() {
            refuse(shut, &reads_only(cause));
        }
    }
}

/// Tells all calls that have come to a block that it will not be.
fn refuse(shut: Shut, why: &Error) {
    let Shut { epoch, refused, barriers } = shut;
    let ran = std::mem::take(&mut *epoch.handed_in.lock());
    let requests = ran.into_iter().map(|(_, member)| member.request);
    let waiting = requests.chain(refused).chain(barriers).filter_map(|request| request.waiting);
    for waiting in waiting {
        let _ = waiting.reply.send(Err(why.clone()));
    }
}
