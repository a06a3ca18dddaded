//! Replay: a command log run again (PACMAN, Wu 2017, §4.4.2 to 4.4.5).
//!
//! A **batch** is some blocks of the ledger. Each of its transactions has a **piece** for every
//! block of the [graph](crate::analysis) that it has operations in; the pieces of a batch in one
//! block, in commit order, are a **piece-set**. A set may begin when the sets that its pieces get
//! values from are done, and the same block's set of the batch before.
//!
//! ```text
//!   batch 1   α ─► β ─► γ          rows of a written table are touched in one block alone, so
//!             │    └─► δ           order within a column is all the order there is
//!   batch 2   α ─► β ─► γ
//!                  └─► δ
//! ```
//!
//! | [Strategy] | Pieces of a set | Batches |
//! |---|---|---|
//! | [`serial`] | whole transactions, one after the other | one |
//! | [`static_only`] | by one worker | one at a time |
//! | [`synchronous`] | by key spaces ([dynamic analysis](dynamic)) | one at a time |
//! | [`pipelined`] | by key spaces | overlap, block by block |
//!
//! *Why it is right.* Two operations that conflict touch a written table, so they are in one block;
//! there the commit order holds within a batch, where they share a key space, and from batch to
//! batch. What an operation is given by others comes over an edge of the graph, which has no cycle.
//! So every operation reads what it read in the order that was logged, and writes what it wrote.
//!
//! *The store.* All blocks of a log part are written together ([`storage::Store::begin_blocks`]):
//! there is no snapshot between them, so one old version of each record is kept for readers that
//! are there already. Stamps are those of the original run.
//!
//! # Cost
//!
//! Transactions a second on two shared cores, once each (`examples/recovery_cost.rs`), in batches
//! of 2,000, before sets were planned while they wait and records fetched before they are used;
//! `tally bench figure durability-replay` measures it again, beside what a machine gives two
//! threads:
//!
//! ```text
//!                           TPC-C, 20,000     SmallBank, 100,000
//! workers                      1        2            1          2
//! serial                  29,000                1,130,000
//! static-only             42,000   47,000         800,000    830,000
//! synchronous             42,000   44,000         910,000    930,000
//! pipelined               40,000   69,000         910,000    715,000
//! ```
//!
//! Pieces of TPC-C are cheaper than its transactions, as what only looks is left out. A SmallBank
//! transaction takes less than a microsecond: there is little to gain from cutting it up, and on
//! two workers handing pieces over costs more than that.
//!
//! Adding a strategy: a file, and a line in [`ALL`].

mod access;
mod batch;
mod dynamic;
pub mod pipelined;
mod pool;
pub mod serial;
pub mod static_only;
pub mod synchronous;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use concurrency::WorkerPool;
use concurrency::schedule::Preference;
use storage::{BlockWrites, Changes, Store};
use types::Height;

use crate::analysis::{Analysis, Options};
use crate::log::{LoggedBlock, heights, subject};
use batch::Prepared;
pub(crate) use dynamic::Spaces;
use pool::{Mode, Pool};

/// A way to replay a log.
pub struct Strategy {
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub replay: fn(&Task, &Arc<Store>, &WorkerPool) -> Result<Replayed, String>,
}

/// Every strategy; the first is what the others are compared with.
pub static ALL: &[Strategy] =
    &[serial::STRATEGY, static_only::STRATEGY, synchronous::STRATEGY, pipelined::STRATEGY];

pub fn by_name(name: &str) -> Option<&'static Strategy> {
    ALL.iter().find(|strategy| strategy.name == name)
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

    fn begin(&self, store: &Store, (first, last): (Height, Height), workers: usize) -> BlockWrites {
        match &self.changes {
            None => store.begin_blocks(first, last, workers),
            Some(_) => store.begin_each_block(first, last, workers),
        }
    }

    fn finish(&self, store: &Store, writes: BlockWrites) {
        match &self.changes {
            None => store.finish_unread(writes),
            Some(changes) => {
                *changes.lock().unwrap_or_else(|e| e.into_inner()) = store.finish_each(writes);
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

/// Static analysis, then the pieces on the pool's workers.
fn replay_pieces(
    task: &Task,
    store: &Arc<Store>,
    pool: &WorkerPool,
    plans: bool,
    window: usize,
) -> Result<Replayed, String> {
    let Some((first, last)) = heights(&task.log, store.newest())? else {
        return Ok(Replayed::default());
    };
    let start = Instant::now();
    let catalog = store.catalog();
    let (subject, known) = subject(&task.log, &catalog);
    let analysis = Analysis::of(&subject, task.options);
    let log = Arc::clone(&task.log);
    let prepared = Prepared { log, analysis, known, catalog, mutant: task.options.mutant };
    let analysed = start.elapsed();
    let (batch_transactions, preference) = (task.batch_transactions, task.preference);
    let mode = Mode { plans, window, batch_transactions, preference };
    let mut writes = task.begin(store, (first, last), pool.workers());
    let pieces = Arc::new(Pool::new(prepared, mode, writes.take()));
    let shared = Arc::clone(&pieces);
    pool.run(move |worker| shared.work(worker));
    let (arenas, result) = pieces.finish();
    arenas.into_iter().for_each(|arena| writes.give(arena));
    task.finish(store, writes);
    let spent = result?;
    store.publish(last);
    Ok(Replayed {
        transactions: transactions(task),
        prepared: analysed,
        replayed: start.elapsed() - analysed,
        spent,
    })
}

fn transactions(task: &Task) -> u64 {
    task.log.iter().map(|logged| logged.commits.len() as u64).sum()
}
