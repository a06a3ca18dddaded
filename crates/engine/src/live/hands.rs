//! Two threads beside the sequencer, where blocks overlap: one prepares, one finishes.
//!
//! ```text
//!   sequencer   cut 2 ─ plan 2 ┐            ┌ seal, publish, answer 1 ─ cut 3 ─ plan 3 ┐
//!   preparing                  └ prepare 2 ─│─────────┐                                └ prepare 3
//!   finishing   ──── finish 1 ──────────────┘         └ (sequencer) ─ finish 2 ────────────
//! ```
//!
//! The sequencer waits for both of them and for requests at one place, the queue, so that it can
//! cut the next batch and release a block whatever the two are doing. Each has one job at a time,
//! which is the schedule's to see to. Each has a crew with all workers: preparing and finishing
//! take turns in taking longer, from one protocol to another, and a fixed half of the processors
//! for each would leave one of them idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use concurrency::Crew;

use crate::replica::{FinishingBlock, PlannedBlock, RanBlock, ReadyBlock};
use crate::request::Request;

use super::Shared;

/// What one of them has done, and how long it took.
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

pub(super) struct Hands {
    to_prepare: Option<SyncSender<PlannedBlock>>,
    to_finish: Option<SyncSender<FinishingBlock>>,
    done: Receiver<Done>,
    under_way: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Hands {
    /// `crew`: that of the replica, which finishes.
    pub fn start(crew: &Arc<Crew>, shared: &Arc<Shared>) -> std::io::Result<Hands> {
        let (report, done) = channel();
        let preparing = Crew::new(crew.workers());
        let prepare = move |planned: PlannedBlock| planned.prepare(&preparing);
        let (to_prepare, one) = hand("prepare", shared, &report, prepare, Done::Prepared)?;
        let finishing = Arc::clone(crew);
        let finish = move |block: FinishingBlock| block.run(&finishing);
        let (to_finish, other) = hand("finish", shared, &report, finish, Done::Finished)?;
        let (to_prepare, to_finish) = (Some(to_prepare), Some(to_finish));
        Ok(Hands { to_prepare, to_finish, done, under_way: 0, threads: vec![one, other] })
    }

    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    pub fn prepare(&mut self, planned: PlannedBlock) {
        self.under_way += hand_over(&self.to_prepare, planned);
    }

    pub fn finish(&mut self, block: FinishingBlock) {
        self.under_way += hand_over(&self.to_finish, block);
    }

    /// What has been done since, if anything has.
    pub fn poll(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Waits for both, and tells what they did last.
    pub fn stop(&mut self) -> Vec<Done> {
        (self.to_prepare, self.to_finish) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.done.try_iter().collect()
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.stop();
    }
}

fn hand_over<J>(to: &Option<SyncSender<J>>, job: J) -> usize {
    usize::from(to.as_ref().is_some_and(|to| to.send(job).is_ok()))
}

/// A thread that does one job after the other, and wakes the sequencer when it has done one.
fn hand<J: Send + 'static, R: 'static>(
    name: &str,
    shared: &Arc<Shared>,
    report: &Sender<Done>,
    work: impl Fn(J) -> Result<R, String> + Send + 'static,
    done: fn(Result<R, String>, Duration) -> Done,
) -> std::io::Result<(SyncSender<J>, JoinHandle<()>)> {
    let (to, jobs) = sync_channel::<J>(1);
    let (shared, report) = (Arc::clone(shared), report.clone());
    let run = move || {
        for job in jobs {
            let began = Instant::now();
            let worked = catch_unwind(AssertUnwindSafe(|| work(job)));
            let worked = worked.unwrap_or_else(|_| Err("a block panicked".to_owned()));
            if report.send(done(worked, began.elapsed())).is_err() {
                return;
            }
            shared.queue.errand();
        }
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok((to, thread))
}
