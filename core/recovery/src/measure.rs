//! What logs cost to write and to come back from: the numbers of figures 4.11 to 4.20 and of tables
//! 4.1 to 4.3.
//!
//! Nothing here knows a workload: the caller has a log, and makes the state before it again and
//! again.

use std::sync::Arc;

use concurrency::WorkerPool;
use storage::{Changes, Store};
use types::Result;

use crate::replay::{self, Replayed, Task};
use crate::schemes::Scheme;
use crate::schemes::recover;
use crate::schemes::streams::RowLog;

/// One way back, once.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub strategy: &'static str,
    pub workers: usize,
    pub cost: Replayed,
}

/// Makes the state before the log.
pub type Before<'a> = &'a mut dyn FnMut() -> std::result::Result<Arc<Store>, String>;

/// Every strategy of command replay with every number of workers; [`replay::serial`] with one.
pub fn replays(
    task: &Task,
    before: Before<'_>,
    workers: &[usize],
) -> std::result::Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for strategy in replay::ALL {
        let alone = strategy.name == replay::serial::STRATEGY.name;
        for &workers in if alone { &[1] } else { workers } {
            let cost = (strategy.replay)(task, &before()?, &WorkerPool::new(workers))?;
            runs.push(Run { strategy: strategy.name, workers, cost });
        }
    }
    Ok(runs)
}

/// Every way back from a row log that its records allow, with every number of workers.
pub fn recoveries(
    log: &Arc<RowLog>,
    before: Before<'_>,
    workers: &[usize],
) -> std::result::Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for way in recover::ALL.iter().filter(|way| way.reads(log.scheme)) {
        for &workers in workers {
            let cost = way.recover(log, &before()?, &WorkerPool::new(workers))?;
            runs.push(Run { strategy: way.name, workers, cost });
        }
    }
    Ok(runs)
}

/// Bytes that row logs take, frames apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Volume {
    pub logical_bytes: u64,
    pub physical_bytes: u64,
    pub rows: u64,
}

impl Volume {
    /// Adds what a block's changes take under each scheme.
    pub fn add(&mut self, changes: &Changes) -> Result<()> {
        let bytes = |scheme: Scheme| -> Result<u64> {
            let mut stream = [Vec::new()];
            scheme.encode(changes, &mut stream)?;
            Ok(stream[0].len() as u64)
        };
        self.logical_bytes += bytes(Scheme::Logical)?;
        self.physical_bytes += bytes(Scheme::Physical)?;
        self.rows += changes.len() as u64;
        Ok(())
    }
}
