//! The input of a replay (log, schema, workers) and its result (state, times, counts).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concurrency::WorkerPool;
use concurrency::schedule::Preference;
use kit::sync::lock;
use storage::{BlockWrites, Changes, Store};
use types::Height;

use crate::analysis::Options;
use crate::log::LoggedBlock;

/// A way to replay a log.
pub struct Strategy {
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub replay: fn(&Task, &Arc<Store>, &WorkerPool) -> Result<Replayed, String>,
}

/// A few milliseconds of work: what handing over costs is little beside it.
const BATCH_TRANSACTIONS_MAX: usize = 4_000;
const BATCH_TRANSACTIONS_MIN: usize = 250;
/// Batches that a log has at least, so that they can overlap.
const BATCHES_MIN: usize = 16;

/// What is replayed, and how.
#[derive(Clone)]
pub struct Task {
    /// Blocks that follow each other; the first one follows the store's newest snapshot, whose
    /// catalog is that of all of them.
    pub log: Arc<[LoggedBlock]>,
    /// A batch is as many blocks as it takes to have so many.
    pub batch_transactions: usize,
    pub options: Options,
    /// Which of several things is done first; for tests.
    pub preference: Preference,
    /// Where to put what each block changed, if the caller wants it; it costs a version of each row
    /// for each block that changed it.
    pub changes: Option<BlockChanges>,
}

/// What blocks changed, in their order; those that changed nothing are left out.
pub type BlockChanges = Arc<Mutex<Vec<Changes>>>;

impl Task {
    pub fn new(log: impl Into<Arc<[LoggedBlock]>>) -> Task {
        let log: Arc<[LoggedBlock]> = log.into();
        let transactions: usize = log.iter().map(|logged| logged.commits.len()).sum();
        let batch_transactions =
            (transactions / BATCHES_MIN).clamp(BATCH_TRANSACTIONS_MIN, BATCH_TRANSACTIONS_MAX);
        let preference = Preference::Earliest;
        let options = Options::default();
        Task { log, batch_transactions, options, preference, changes: None }
    }

    pub(super) fn begin(
        &self,
        store: &Store,
        (first, last): (Height, Height),
        workers: usize,
    ) -> BlockWrites {
        match &self.changes {
            None => store.begin_blocks(first, last, workers),
            Some(_) => store.begin_each_block(first, last, workers),
        }
    }

    pub(super) fn finish(&self, store: &Store, writes: BlockWrites) {
        match &self.changes {
            None => store.finish_unread(writes),
            Some(changes) => {
                *lock(&changes) = store.finish_each(writes);
            }
        }
    }
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    pub transactions: u64,
    /// Static analysis.
    pub prepared: Duration,
    pub replayed: Duration,
    /// Of all workers together.
    pub spent: Breakdown,
}

/// What the workers' time was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breakdown {
    /// Cutting transactions into pieces.
    pub loading: Duration,
    /// Telling key spaces.
    pub analysis: Duration,
    /// Finding out what to do next, waiting included.
    pub scheduling: Duration,
    pub execution: Duration,
}

pub(super) fn transactions(task: &Task) -> u64 {
    task.log.iter().map(|logged| logged.commits.len() as u64).sum()
}
