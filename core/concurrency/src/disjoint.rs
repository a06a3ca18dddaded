//! Parallel installation of transactions whose write sets are disjoint.
//!
//! For protocols whose validation lets at most one transaction of a block write each record (Aria,
//! snapshot isolation). The survivors can be installed in any order, by all workers: each first
//! evaluates all its commands against the current rows, then writes. If a command fails (an
//! overflow, a CHECK), the transaction is rejected and has written nothing.
//!
//! *Invariant.* No existing row is written twice in a block. A row that already carries this
//! block's stamp shows that validation was wrong; the replica then halts before it diverges.
//!
//! *Cost.* One evaluation and one record write for each write of a transaction. A worker locks its
//! own undo arena once for the whole block, and the shared list of failures for each failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use storage::{BlockWrites, Catalog, LATEST, Store, UndoArena};
use types::{Position, Stamp, Stop, Value};

use crate::arenas::Arenas;
use crate::install::{Resolved, resolve};
use crate::pool::WorkerPool;
use crate::protocol::{Block, Outcome};
use crate::simulation::Simulated;

/// Transactions that a worker takes at a time.
const BATCH: usize = 16;

struct Shared {
    block: Arc<Block>,
    simulated: Vec<Simulated>,
    positions: Vec<Position>,
    catalog: Arc<Catalog>,
    next: AtomicUsize,
    /// Commands that could not be applied.
    stopped: Mutex<Vec<(Position, Stop)>>,
}

/// Install the transactions at `positions`, of which no two write one record, and tell how each
/// ended; `None` for all others. `Err`: halt.
pub fn install(
    block: &Arc<Block>,
    simulated: Vec<Simulated>,
    positions: &[Position],
    store: &Arc<Store>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
) -> Result<Vec<Option<Outcome>>, String> {
    let shared = Arc::new(Shared {
        block: Arc::clone(block),
        simulated,
        positions: positions.to_vec(),
        catalog: store.catalog(),
        next: AtomicUsize::new(0),
        stopped: Mutex::default(),
    });
    let arenas = Arenas::of(writes);
    let job = (Arc::clone(&shared), Arc::clone(&arenas));
    pool.run_if_large(positions.len(), move |worker| job.0.work(&mut job.1.lock(worker)));
    arenas.give_back(writes);
    let shared = Arc::into_inner(shared).expect("the pool has let go of a finished job");
    let mut simulated = shared.simulated;
    for (position, stop) in shared.stopped.into_inner().unwrap_or_else(|e| e.into_inner()) {
        simulated[position as usize].run = Err(stop);
    }
    let mut installed = vec![false; simulated.len()];
    for &position in positions {
        let before = std::mem::replace(&mut installed[position as usize], true);
        debug_assert!(!before, "a transaction is installed once");
    }
    let runs = simulated.into_iter().map(|simulated| simulated.run).zip(installed);
    runs.map(|(run, installed)| match installed {
        true => Outcome::from_run(run).map(Some),
        false => Ok(None),
    })
    .collect()
}

impl Shared {
    fn work(&self, undo: &mut UndoArena) {
        let mut resolved = Vec::new();
        let mut scratch = Vec::new();
        loop {
            let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let rest = self.positions.get(first..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
            for &position in &rest[..rest.len().min(BATCH)] {
                if let Err(stop) = self.one(position, undo, &mut resolved, &mut scratch) {
                    let mut stopped = self.stopped.lock().unwrap_or_else(|e| e.into_inner());
                    stopped.push((position, stop));
                }
            }
        }
    }

    /// All commands are evaluated before anything is written.
    fn one(
        &self,
        position: Position,
        undo: &mut UndoArena,
        resolved: &mut Vec<Resolved>,
        scratch: &mut Vec<Value>,
    ) -> Result<(), Stop> {
        let gone = || Stop::Halt("a table vanished within a block".into());
        let writes = &self.simulated[position as usize].writes;
        let now_us = self.block.transactions[position as usize].now_us(self.block.time_us);
        resolved.clear();
        for write in writes {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            let newest = write.slot.and_then(|slot| table.stamp(slot, LATEST));
            if newest.is_some_and(|stamp| stamp.height() == self.block.height) {
                return Err(Stop::Halt("two transactions of a block write one row".into()));
            }
            resolved.push(resolve(table, write, now_us, scratch)?);
        }
        let stamp = Stamp::new(self.block.height, position);
        for (write, resolved) in writes.iter().zip(resolved.drain(..)) {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            resolved.install(table, &write.key, stamp, undo);
        }
        Ok(())
    }
}
