//! Serial execution: the specification that every other protocol is compared with.
//!
//! *Idea.* One transaction after another, in block order. Each runs over the newest state, keeping
//! its own writes aside; when it ends well they are installed, otherwise they are dropped.
//!
//! *Invariants.* The claimed serial order is the block order. Nothing is ever retried but an
//! interactive transaction whose reads are stale.
//!
//! *Cost.* No footprint, no validation, no second worker.

use std::sync::Arc;

use concurrency::prefetching;
use concurrency::{
    Block, BlockOutcome, Carried, Isolation, Prefetching, Prepared, Protocol, ProtocolInfo, Runner,
    Snapshots, WorkerPool,
};
use storage::{BlockWrites, Store};
use types::Position;

pub const ENTRY: crate::Entry =
    crate::Entry { info: &INFO, make: |_| Arc::new(Serial), mutants: &[] };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "serial",
    paper: "the specification",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

pub struct Serial;

impl Protocol for Serial {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn keeps_block_order(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Snapshots,
        _: &WorkerPool,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        _: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let transactions = &block.transactions;
        let positions = 0..transactions.len() as Position;
        let mut prefetching = Prefetching::new(store.catalog(), transactions.len());
        let mut runner = Runner::new(store.catalog());
        let mut outcomes = Vec::with_capacity(transactions.len());
        for group in transactions.chunks(prefetching::GROUP) {
            prefetching.fetch(group.iter().map(|work| &**work));
            for _ in group {
                let at = outcomes.len() as Position;
                outcomes.push(runner.run_one(block, at, writes.arena(0))?);
            }
        }
        Ok(BlockOutcome { outcomes, serial_order: positions.collect(), ..BlockOutcome::default() })
    }
}
