//! Serial command replay: the specification, and what a command log costs without PACMAN.

use std::sync::Arc;
use std::time::Instant;

use concurrency::{Outcome, Prefetching, Runner, WorkerPool, prefetching};
use storage::{BlockWrites, Store};
use types::Stamp;

use super::access::PieceAccess;
use super::dynamic::Spaces;
use super::task::{Breakdown, Replayed, Strategy, Task, transactions};
use crate::log::{Commit, Entry, LoggedBlock, heights};

pub const STRATEGY: Strategy =
    Strategy { name: "serial", about: "one transaction after another, in commit order", replay };

fn replay(task: &Task, store: &Arc<Store>, _: &WorkerPool) -> Result<Replayed, String> {
    let Some((first, last)) = heights(&task.log, store.newest())? else {
        return Ok(Replayed::default());
    };
    let start = Instant::now();
    let mut writes = task.begin(store, (first, last), 1);
    let run = run_all(task, store, &mut writes);
    task.finish(store, writes);
    run?;
    store.publish(last);
    let replayed = start.elapsed();
    let spent = Breakdown { execution: replayed, ..Breakdown::default() };
    let transactions = transactions(task);
    Ok(Replayed { transactions, replayed, spent, ..Replayed::default() })
}

fn run_all(task: &Task, store: &Store, writes: &mut BlockWrites) -> Result<(), String> {
    let mut prefetching = Prefetching::new(store.catalog(), transactions(task) as usize);
    let mut runner = Runner::new(store.catalog());
    for logged in task.log.iter() {
        for group in logged.commits.chunks(prefetching::GROUP) {
            prefetching.fetch(group.iter().map(|commit| &**logged.work(commit)));
            for commit in group {
                run_one(logged, commit, store, &mut runner, writes)?;
            }
        }
    }
    Ok(())
}

fn run_one(
    logged: &LoggedBlock,
    commit: &Commit,
    store: &Store,
    runner: &mut Runner,
    writes: &mut BlockWrites,
) -> Result<(), String> {
    let (height, position) = (logged.block.height, commit.position);
    let rows = match &commit.entry {
        Entry::Rows(rows) => rows,
        Entry::Command => {
            return match runner.run_one(&logged.block, position, writes.arena(0))? {
                Outcome::Committed(_) => Ok(()),
                Outcome::Rejected(error) | Outcome::Retry(error) => Err(format!(
                    "block {height}, transaction {position}, which had committed, fails: {error}"
                )),
            };
        }
    };
    let catalog = store.catalog();
    let (mut spaces, mut scratch) = (Spaces::default(), Vec::new());
    let moment = (Stamp::new(height, position), logged.block.time_us);
    let undo = Some(writes.arena(0));
    let mut access = PieceAccess::new(&catalog, undo, moment, &mut spaces, &mut scratch);
    let put = rows.iter().try_for_each(|row| access.put(row));
    put.map_err(|stop| format!("block {height}, transaction {position}: {stop:?}"))
}
