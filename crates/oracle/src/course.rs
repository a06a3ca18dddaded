//! A store's blocks under a protocol, one after the other: what its caller keeps for it.

use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Carried, Crew, History, Prepared, Protocol, Snapshots};
use storage::{Changes, Store};
use types::Height;

use crate::watchdog::Watch;

/// What goes from block to block beside the store.
#[derive(Default)]
pub struct Course {
    /// The last barrier.
    pub floor: Height,
    pub carried: Carried,
    history: History,
}

impl Course {
    /// Right behind a barrier.
    pub fn behind(floor: Height) -> Course {
        Course { floor, ..Course::default() }
    }

    /// What a block may read whose predecessor is `newest`, made readable.
    pub fn snapshots(
        &mut self,
        protocol: &dyn Protocol,
        store: &Store,
        newest: Height,
    ) -> Result<Snapshots, String> {
        let snapshots = Snapshots { newest, floor: self.floor };
        self.history.hold(store, snapshots, protocol.history())?;
        Ok(snapshots)
    }

    /// Run the next block on the state before it, and publish it.
    pub fn run(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        store: &Arc<Store>,
        block: &Arc<Block>,
    ) -> Result<(BlockOutcome, Changes), String> {
        let (name, count) = (protocol.info().name, block.transactions.len());
        let _watch =
            Watch::new(format!("{name}, {count} transactions, {} workers", crew.workers()));
        let snapshots = self.snapshots(protocol, store, block.height - 1)?;
        let prepared = protocol.prepare(block, store, snapshots, crew)?;
        self.finish(protocol, crew, store, block, prepared)
    }

    /// Finish a block that was prepared, and publish it.
    pub fn finish(
        &mut self,
        protocol: &dyn Protocol,
        crew: &Crew,
        store: &Arc<Store>,
        block: &Arc<Block>,
        prepared: Prepared,
    ) -> Result<(BlockOutcome, Changes), String> {
        let mut writes = store.begin_block(block.height, crew.workers());
        let carried = &self.carried;
        let outcome = protocol.finish(prepared, block, store, &mut writes, carried, crew)?;
        self.carried = outcome.carried.clone();
        let changes = store.finish(writes);
        store.publish(block.height);
        Ok((outcome, changes))
    }
}

/// Run one block right behind a barrier, and publish it.
pub fn run_block(
    protocol: &dyn Protocol,
    crew: &Crew,
    store: &Arc<Store>,
    block: &Arc<Block>,
) -> Result<(BlockOutcome, Changes), String> {
    Course::behind(block.height - 1).run(protocol, crew, store, block)
}
