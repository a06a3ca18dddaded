//! A pool beside the sequencer, where blocks overlap: it finishes one and prepares the next.
//!
//! ```text
//!   sequencer   cut 2 ─ plan 2 ┐            ┌ seal, publish, answer 1 ─ cut 3 ─ plan 3 ┐
//!   a task                     └ prepare 2 ─│─────────┐                                └ prepare 3
//!   another     ──── finish 1 ──────────────┘         └ (sequencer) ─ finish 2 ────────────
//! ```
//!
//! The sequencer waits for both of them and for requests at one place, the queue, so that it can
//! cut the next batch and release a block whatever the two are doing. Of each there is one at a
//! time, which is the schedule's to see to. They share their workers: preparing and finishing take
//! turns in taking longer, from one protocol to another, and where one is through or cannot be
//! divided, all others work for the other one. Two pools on the same processors would take them
//! away from each other, and a fixed half of the processors for each would leave one of them idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use concurrency::WorkerPool;

use crate::client::{FinishingBlock, PlannedBlock, RanBlock, ReadyBlock, Request};
use crate::watchdog::panic_text;

use super::shared::Shared;

/// What a task has done, and how long it took.
pub(super) enum Done {
    Prepared(Result<ReadyBlock, String>, Duration),
    Finished(Result<RanBlock, String>, Duration),
}

impl Done {
    /// Those of a block that is given up.
    pub fn into_requests(self) -> Vec<Request> {
        match self {
            Done::Prepared(Ok(ready), _) => ready.into_tasks().map(|m| m.request).collect(),
            Done::Finished(Ok(ran), _) => ran.into_tasks().map(|m| m.request).collect(),
            Done::Prepared(Err(_), _) | Done::Finished(Err(_), _) => Vec::new(),
        }
    }
}

pub(super) struct Stages {
    pool: WorkerPool,
    shared: Arc<Shared>,
    report: Sender<Done>,
    done: Receiver<Done>,
    under_way: usize,
}

impl Stages {
    pub fn start(workers: usize, shared: &Arc<Shared>) -> Stages {
        let (report, done) = channel();
        let (pool, shared) = (WorkerPool::of_tasks(workers), Arc::clone(shared));
        Stages { pool, shared, report, done, under_way: 0 }
    }

    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    pub fn prepare(&mut self, planned: PlannedBlock) {
        self.hand_over(move |pool| planned.prepare(pool), Done::Prepared);
    }

    pub fn finish(&mut self, block: FinishingBlock) {
        self.hand_over(move |pool| block.run(pool), Done::Finished);
    }

    /// Has something done, and the sequencer woken when it is.
    fn hand_over<R: 'static>(
        &mut self,
        work: impl FnOnce(&WorkerPool) -> Result<R, String> + Send + 'static,
        done: fn(Result<R, String>, Duration) -> Done,
    ) {
        let (shared, report) = (Arc::clone(&self.shared), self.report.clone());
        assert!(self.under_way < 2, "one block is finished and one prepared at a time");
        self.under_way += 1;
        self.pool.spawn(move |pool| {
            let began = Instant::now();
            let worked = catch_unwind(AssertUnwindSafe(|| work(pool)));
            let worked = worked.unwrap_or_else(|panic| Err(panic_text(&*panic)));
            if report.send(done(worked, began.elapsed())).is_ok() {
                shared.queue.errand();
            }
        });
    }

    /// What has been done since, if anything has.
    pub fn poll(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        assert!(self.under_way > 0, "what is done was handed over");
        self.under_way -= 1;
        Some(done)
    }

    /// Waits for all that is under way, and tells what came of it.
    pub fn stop(&mut self) -> Vec<Done> {
        let under_way = std::mem::take(&mut self.under_way);
        self.done.iter().take(under_way).collect()
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        self.stop();
    }
}
