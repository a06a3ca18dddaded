//! A log in pieces: analysed, then replayed by the pool's workers.

use std::sync::Arc;
use std::time::Instant;

use concurrency::WorkerPool;
use storage::Store;

use super::batch::Prepared;
use super::pool::{Mode, Pool};
use super::task::{Replayed, Task, transactions};
use crate::analysis::Analysis;
use crate::log::{heights, subject};

/// Static analysis, then the pieces on the pool's workers.
pub(super) fn replay_pieces(
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
