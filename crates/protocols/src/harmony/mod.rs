//! Harmony (Lai, Liu, Lo, SIGMOD 2023): optimistic, deterministic, and hot records do not abort.
//!
//! *Idea.* Every transaction of a block is simulated on the snapshot before the block, in
//! parallel. Its reads are recorded and its updates kept as *commands*. Write `Ti <-rw- Tj` when
//! Tj read the before-image of something that Ti writes, so that Tj must come first in the serial
//! order. Two numbers sum up a transaction's edges, and one comparison decides:
//!
//! ```text
//!   min_out(j) = min { i | Ti <-rw- Tj, i < j }   or j + 1
//!   max_in(j)  = max { k | Tj <-rw- Tk }          or -1
//!   Rule 1: reject Tj iff min_out(j) < j and min_out(j) <= max_in(j)
//!   Rule 2: apply the commands of the survivors, record by record, in the order (min_out, TID)
//! ```
//!
//! No write-write conflict rejects anybody: the commands of a hot record are folded one after
//! another in memory and the record is written once (coalescence).
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  simulate T0 T1 T2 …            parallel by transaction, reads the snapshot only
//!   finish   edges → min_out, max_in        parallel by record
//!            rule 1, serial order           a pass over two arrays
//!            fold commands                  parallel by record, nothing installed yet
//!            install                        parallel by record
//!            run the rejected again         by ordered locks, in TID order, after the survivors
//! ```
//!
//! *Invariants.* The serial order claimed is: survivors by (min_out, TID), then the rejected by
//! TID. A record is written by one worker only. The result does not depend on the number of
//! workers: shards divide the records, and every sum over a shard is a minimum, a maximum or a
//! sort.
//!
//! *Departures from the paper.*
//! - Two kinds of read. An update, insert or delete reports whether the row was there, which is a
//!   read of its *existence* only; it conflicts with inserts and deletes, not with other commands.
//! - A command may fail on the value it meets (overflow, CHECK). The paper leaves that open. All
//!   folds are computed before anything is installed; when one fails, every transaction with a
//!   command on that record joins the rejected and the folds are computed again. Taking a node out
//!   of an acyclic order leaves it acyclic, and each round removes a transaction, so this ends.
//! - What Rule 1 rejects runs again in the same block, after the survivors and in TID order (see
//!   [`ordered_locks`]), so a call never fails for concurrency and nothing starves. The
//!   paper's retry in the next block is not enough: at high skew it feeds on itself.
//! - A transaction that ends in a deterministic error is a read-only transaction for Rule 1: its
//!   error is a fact about the snapshot, and it takes its place in the order.
//! - Inter-block parallelism (Rule 3) is not built; `prepare` and `finish` are cut for it.
//!
//! *Cost.* Per access one hash-table entry of a few words; per record one sort of its writers.

mod commit;
mod edges;
mod flaw;

use std::sync::Arc;

use concurrency::{
    Block, BlockOutcome, BlockReport, Crew, Isolation, Outcome, Prepared, Protocol, ProtocolInfo,
    Simulated, ordered_locks, simulation,
};
use storage::{BlockWrites, Store};
use types::{Height, Position};

use flaw::Flaw;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Harmony { flaw: options.flaw.and_then(Flaw::by_name) }),
    flaws: Flaw::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "harmony",
    paper: "Lai, Liu, Lo: When Private Blockchain Meets Deterministic Database, SIGMOD 2023",
    isolation: Isolation::Serializable,
    deterministic: true,
    needs_keys_up_front: false,
    interactive: false,
    may_retry: false,
    options: &[],
};

pub struct Harmony {
    flaw: Option<Flaw>,
}

impl Protocol for Harmony {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshot_height: Height,
        crew: &Crew,
    ) -> Result<Prepared, String> {
        Ok(Box::new(simulation::simulate(block, store, snapshot_height, crew)))
    }

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        crew: &Crew,
    ) -> Result<BlockOutcome, String> {
        let simulated: Box<Vec<Simulated>> =
            prepared.downcast().map_err(|_| "harmony was handed another protocol's block")?;
        let simulated = Arc::new(*simulated);
        let mut verdict = edges::validate(&simulated, &store.catalog(), crew, self.flaw);
        let order = loop {
            let order = verdict.serial_order();
            let folds = commit::fold(block, &simulated, &order, &store.catalog(), crew)?;
            if folds.failed.is_empty() || self.flaw == Some(Flaw::NoDemotion) {
                commit::install(folds, store, writes, crew);
                break order;
            }
            verdict.reject(&folds.failed);
        };
        settle(simulated, order, block, store, writes, crew)
    }
}

/// Collect the survivors' outcomes and run the rejected after them.
fn settle(
    simulated: Arc<Vec<Simulated>>,
    mut order: Vec<Position>,
    block: &Arc<Block>,
    store: &Arc<Store>,
    writes: &mut BlockWrites,
    crew: &Crew,
) -> Result<BlockOutcome, String> {
    let simulated = Arc::try_unwrap(simulated).map_err(|_| "a worker kept a finished block")?;
    let count = simulated.len();
    let mut survived = vec![false; count];
    for &position in &order {
        survived[position as usize] = true;
    }
    let mut outcomes = simulated
        .into_iter()
        .zip(&survived)
        .map(|(s, &survived)| if survived { Outcome::from_run(s.run).map(Some) } else { Ok(None) })
        .collect::<Result<Vec<_>, _>>()?;
    let rejected: Vec<Position> =
        (0..count as Position).filter(|&at| !survived[at as usize]).collect();
    if !rejected.is_empty() {
        let rerun = ordered_locks::run(block, &rejected, store, writes, crew)?;
        for (&position, outcome) in rejected.iter().zip(rerun) {
            outcomes[position as usize] = Some(outcome);
        }
        order.extend(&rejected);
    }
    Ok(BlockOutcome {
        outcomes: outcomes.into_iter().flatten().collect(),
        serial_order: order,
        deferred: Vec::new(),
        report: BlockReport { rerun: rejected.len() as u32 },
    })
}
