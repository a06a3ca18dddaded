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

use concurrency::foresight;
use concurrency::install::{Resolved, resolve};
use concurrency::{
    Block, BlockOutcome, BlockReport, Crew, Foresight, Isolation, Moment, NoRecord, Outcome,
    Overlay, Prepared, Protocol, ProtocolInfo,
};
use procedure::{Frame, ProgramResult};
use storage::{BlockWrites, Catalog, LATEST, Store, UndoArena};
use types::{Height, Position, Stamp, Stop, Value};

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make: || Arc::new(Serial) };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "serial",
    paper: "the specification",
    isolation: Isolation::Serializable,
    deterministic: true,
    needs_keys_up_front: false,
    interactive: false,
    may_retry: false,
};

pub struct Serial;

impl Protocol for Serial {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Height,
        _: &Crew,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()))
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Crew,
    ) -> Result<BlockOutcome, String> {
        let transactions = &block.transactions;
        let positions = 0..transactions.len() as Position;
        let mut foresight = Foresight::new(store.catalog(), transactions.len());
        let mut runner = Runner::new(store.catalog());
        let mut outcomes = Vec::with_capacity(transactions.len());
        for group in transactions.chunks(foresight::GROUP) {
            foresight.fetch(group);
            for _ in group {
                let at = outcomes.len() as Position;
                outcomes.push(runner.run_one(block, at, at, writes.arena(0))?);
            }
        }
        Ok(BlockOutcome {
            outcomes,
            serial_order: positions.collect(),
            report: BlockReport::default(),
        })
    }
}

/// Runs transactions one at a time over the newest state. Parallel protocols use it for those that
/// they could not place.
pub struct Runner {
    catalog: Arc<Catalog>,
    overlay: Overlay<NoRecord>,
    frame: Frame,
    resolved: Vec<Resolved>,
    scratch: Vec<Value>,
}

impl Runner {
    pub fn new(catalog: Arc<Catalog>) -> Self {
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        Runner {
            overlay: Overlay::new(Arc::clone(&catalog), LATEST, nowhere, NoRecord),
            catalog,
            frame: Frame::default(),
            resolved: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Run the transaction at `position` of the block as number `rank` of the serial order. `Err`:
    /// halt.
    pub fn run_one(
        &mut self,
        block: &Block,
        position: Position,
        rank: Position,
        undo: &mut UndoArena,
    ) -> Result<Outcome, String> {
        let stamp = Stamp::new(block.height, rank);
        Outcome::from_run(self.attempt(block, position, stamp, undo))
    }

    fn attempt(
        &mut self,
        block: &Block,
        position: Position,
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<ProgramResult, Stop> {
        let work = &block.transactions[position as usize];
        let now_us = work.now_us(block.time_us);
        self.overlay.restart(Moment { height: block.height, position, now_us });
        let result = work.run(&mut self.frame, &mut self.overlay)?;
        let writes = self.overlay.take_writes();
        self.resolved.clear();
        for write in &writes {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            self.resolved.push(resolve(table, write, now_us, &mut self.scratch)?);
        }
        for (write, resolved) in writes.iter().zip(self.resolved.drain(..)) {
            let table = self.catalog.table(write.table).ok_or_else(gone)?;
            resolved.install(table, &write.key, stamp, undo);
        }
        self.overlay.recycle(writes);
        Ok(result)
    }
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".into())
}
